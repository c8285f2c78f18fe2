"""torch._C._distributed_c10d: the names that PyTorch's C++ has."""
from tede.distributed._control import _ControlCollectives, _StoreCollectives  # noqa: F401
from tede.distributed._group import Backend, FakeProcessGroup, ProcessGroup  # noqa: F401
from tede.distributed._work import (  # noqa: F401
    AllgatherOptions, AllreduceCoalescedOptions, AllreduceOptions, AllToAllOptions, BarrierOptions, BroadcastOptions, GatherOptions, OpType,
    ReduceOp, ReduceOptions, ReduceScatterOptions, ScatterOptions, Work, _create_work_from_future, _make_nccl_premul_sum)
from tede.distributed.constants import default_pg_timeout as _DEFAULT_PG_TIMEOUT  # noqa: F401
from tede.distributed.distributed_c10d import (  # noqa: F401
    DebugLevel, ProcessGroupGloo, _get_thread_isolation_mode, _register_process_group, _resolve_process_group, _set_thread_isolation_mode,
    _unregister_all_process_groups, _unregister_process_group, get_debug_level, set_debug_level, set_debug_level_from_env)
from tede.distributed._reducer import (  # noqa: F401, E402
    _DEFAULT_FIRST_BUCKET_BYTES, BuiltinCommHookType, GradBucket, Logger, Reducer, _broadcast_coalesced, _compute_bucket_assignment_by_size,
    _register_builtin_comm_hook, _register_comm_hook, _verify_params_across_processes)
from tede.distributed._stores import FileStore, HashStore, PrefixStore, Store, TCPStore  # noqa: F401, E402
