"""torch.distributed: processes that compute together, over MPI and NCCL.

    import tede.distributed as dist
    dist.init_process_group()               # under mpiexec -n 4, or python -m tede.distributed.run
    dist.all_reduce(tensor)

`distributed_c10d` has the groups and their calls, by subject in files of their own, `rendezvous` how processes find each other, `_group` what a group is
made of."""
from tede._compat import fill as _fill
from tede.distributed._control import _ControlCollectives, _StoreCollectives  # noqa: F401
from tede.distributed._group import Backend as _Backend  # noqa: F401
from tede.distributed._work import Work as _Work, _make_nccl_premul_sum  # noqa: F401
from tede.distributed._stores import *  # noqa: F403
from tede.distributed.distributed_c10d import *  # noqa: F403
from tede.distributed.distributed_c10d import (  # noqa: F401
    _all_gather_base, _coalescing_manager, _CoalescingManager, _create_process_group_wrapper, _rank_not_in_group, _reduce_scatter_base, _time_estimator,
    set_debug_level, set_debug_level_from_env)
from tede.distributed._reducer import (  # noqa: F401
    _DEFAULT_FIRST_BUCKET_BYTES, BuiltinCommHookType, GradBucket, Logger, Reducer, _broadcast_coalesced, _compute_bucket_assignment_by_size,
    _register_builtin_comm_hook, _register_comm_hook, _verify_params_across_processes)
from tede.distributed.remote_device import _remote_device  # noqa: F401
from tede.distributed.rendezvous import register_rendezvous_handler, rendezvous  # noqa: F401


def is_available():
    """Whether groups of processes are part of this package: they are."""
    return True


_fill(globals())
