"""What a loader does with pipes: seeds that the workers share, a share of the items for each, shuffling turned on or off.

The pipes' modules load when a program uses them; until then no dataset is a pipe.
"""
import sys

from tede import _C


def _kinds():
    module = sys.modules.get("tede.utils.data.datapipes.datapipe")
    return (module.IterDataPipe, module.MapDataPipe) if module else ()


def is_pipe(dataset):
    return isinstance(dataset, _kinds())


def is_iterable_pipe(dataset):
    return isinstance(dataset, _kinds()[:1])


def settings():
    from tede.utils.data import graph_settings
    return graph_settings


def wrap(dataset):
    """The dataset as a loader keeps it: pickled by itself where workers are spawned."""
    if not is_pipe(dataset):
        return dataset
    from tede.utils.data.datapipes import datapipe
    iterable = is_iterable_pipe(dataset)
    return (datapipe._IterDataPipeSerializationWrapper if iterable else datapipe._MapDataPipeSerializationWrapper)(dataset)


def set_shuffle(dataset, shuffle):
    return settings().apply_shuffle_settings(dataset, shuffle=shuffle)


def seeded(dataset, generator=None, seed=None):
    """(dataset, seed): every random pipe gets a seed made from `seed`, or from one that `generator` gives; others nothing."""
    if not is_iterable_pipe(dataset):
        return dataset, None
    if seed is None:
        seed = _C._functions["empty"]((), dtype=_C.int64).random_(generator=generator).item()
    shared = _C.Generator()
    shared.manual_seed(seed)
    return settings().apply_random_seed(dataset, shared), seed
