"""Data loading where the number of processes changes."""
from tede.distributed.elastic.utils.data.cycling_iterator import CyclingIterator
from tede.distributed.elastic.utils.data.elastic_distributed_sampler import ElasticDistributedSampler

__all__ = ["CyclingIterator", "ElasticDistributedSampler"]
