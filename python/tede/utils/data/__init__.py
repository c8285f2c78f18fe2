"""Datasets, samplers and the DataLoader."""
from tede.utils.data._utils.collate import default_collate, default_convert
from tede.utils.data._utils.worker import get_worker_info
from tede.utils.data.dataloader import DataLoader, _DatasetKind
from tede.utils.data.dataset import (
    ChainDataset, ConcatDataset, Dataset, IterableDataset, StackDataset, Subset, TensorDataset, random_split)
from tede.utils.data.distributed import DistributedSampler
from tede.utils.data.sampler import (
    BatchSampler, RandomSampler, Sampler, SequentialSampler, SubsetRandomSampler, WeightedRandomSampler)

_LATER = {"DFIterDataPipe": "datapipe", "DataChunk": "datapipe", "IterDataPipe": "datapipe", "MapDataPipe": "datapipe",
          "argument_validation": "_decorator", "functional_datapipe": "_decorator",
          "guaranteed_datapipes_determinism": "_decorator", "non_deterministic": "_decorator",
          "runtime_validation": "_decorator", "runtime_validation_disabled": "_decorator"}
__all__ = [*_LATER, "BatchSampler", "ChainDataset", "ConcatDataset", "DataLoader", "Dataset", "DistributedSampler", "IterableDataset",
           "RandomSampler", "Sampler", "SequentialSampler", "StackDataset", "Subset", "SubsetRandomSampler", "TensorDataset",
           "WeightedRandomSampler", "_DatasetKind", "default_collate", "default_convert", "get_worker_info", "random_split"]


TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def __getattr__(name: str) -> "Any":
    """The pipes, which few programs use."""
    from importlib import import_module
    if name in _LATER:
        value = globals()[name] = getattr(import_module(f"tede.utils.data.datapipes.{_LATER[name]}"), name)
        return value
    if name in ("datapipes", "graph", "graph_settings"):
        return import_module(f"tede.utils.data.{name}")
    raise AttributeError(f"module '{__name__}' has no attribute {name!r}")
