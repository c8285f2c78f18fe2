"""What makes an overlapped optimizer of an optimizer's class."""
import abc
import inspect

from tede.distributed.optim.utils import as_functional_optim
from tede.optim import Optimizer

from ..ddp_comm_hooks.default_hooks import allreduce_hook
from ..ddp_comm_hooks.optimizer_overlap_hooks import _hook_then_optimizer, _OptimizerHookState

_registered_overlapped_optims = {}


def register_overlapped(optim_cls):
    """A decorator: this class makes overlapped optimizers of optim_cls and what is derived from it."""
    def register(cls):
        if cls in _registered_overlapped_optims:
            raise ValueError(f"{cls} is registered already, and can't be for {optim_cls} again.")
        _registered_overlapped_optims[optim_cls] = cls
        return cls
    return register


class OverlappedOptimizer(abc.ABC):
    def __init__(self, optim_cls):
        self.optim_cls = optim_cls

    @abc.abstractmethod
    def register_ddp(self, ddp):
        raise NotImplementedError(f"{type(self).__name__} does not support overlapped DDP.")

    @abc.abstractmethod
    def register_fsdp(self, fsdp):
        raise NotImplementedError(f"{type(self).__name__} does not support overlapped FSDP.")


@register_overlapped(Optimizer)
class _OverlappedStandardOptimizer(OverlappedOptimizer):
    def __init__(self, optim_cls, params, *optim_args, **optim_kwargs):
        super().__init__(optim_cls)
        self._opt_hook_state = _OptimizerHookState(as_functional_optim(optim_cls, *optim_args, **optim_kwargs), params)

    def register_ddp(self, ddp):
        ddp.register_comm_hook(None, _hook_then_optimizer(allreduce_hook, self._opt_hook_state))

    def register_fsdp(self, fsdp):
        raise NotImplementedError(f"{type(self).__name__} does not support overlapped FSDP.")


def _as_overlapped_optim(optim_cls, params, *args, **kwargs):
    for base in inspect.getmro(optim_cls):
        if base in _registered_overlapped_optims:
            return _registered_overlapped_optims[base](optim_cls, params, *args, **kwargs)
    return _OverlappedStandardOptimizer(optim_cls, params, *args, **kwargs)
