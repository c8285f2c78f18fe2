"""torch.distributed.fsdp: modules whose parameters are sharded over the ranks."""
from tede.distributed.fsdp._fully_shard import FSDPModule, UnshardHandle, fully_shard, register_fsdp_forward_method, share_comm_ctx
from tede.distributed.fsdp.fully_sharded_data_parallel import (
    BackwardPrefetch, CPUOffload, FullOptimStateDictConfig, FullStateDictConfig, FullyShardedDataParallel, LocalOptimStateDictConfig, LocalStateDictConfig,
    MixedPrecision, OptimStateDictConfig, OptimStateKeyType, ShardedOptimStateDictConfig, ShardedStateDictConfig, ShardingStrategy, StateDictConfig,
    StateDictSettings, StateDictType)
from tede.distributed.fsdp._policies import CPUOffloadPolicy, DataParallelMeshDims, MixedPrecisionPolicy, OffloadPolicy

__all__ = ["FSDPModule", "UnshardHandle", "fully_shard", "register_fsdp_forward_method", "share_comm_ctx", "CPUOffloadPolicy", "DataParallelMeshDims",
           "MixedPrecisionPolicy", "OffloadPolicy",
           "BackwardPrefetch", "CPUOffload", "FullOptimStateDictConfig", "FullStateDictConfig", "FullyShardedDataParallel", "LocalOptimStateDictConfig",
           "LocalStateDictConfig", "MixedPrecision", "OptimStateDictConfig", "ShardedOptimStateDictConfig", "ShardedStateDictConfig",
           "ShardingStrategy", "StateDictConfig", "StateDictSettings", "StateDictType", "OptimStateKeyType"]

