"""Communication hooks of DistributedDataParallel: what may be done with a bucket of gradients in place of an all_reduce."""
import enum
from functools import partial

from . import debugging_hooks, default_hooks, optimizer_overlap_hooks, powerSGD_hook, quantization_hooks  # noqa: F401

__all__ = ["DDPCommHookType", "register_ddp_comm_hook"]


class _Registered:
    """A hook and what its state is made of."""

    def __init__(self, hook, make_state=None):
        self._hook, self._make_state = hook, make_state

    def __call__(self, model, state=None):
        model.register_comm_hook(self._make_state(state) if self._make_state else state, self._hook)


def _power_sgd(hook, rank):
    return _Registered(hook, partial(powerSGD_hook.PowerSGDState, matrix_approximation_rank=rank))


class DDPCommHookType(enum.Enum):
    """Hooks by name: DDPCommHookType.FP16_COMPRESS.value(model=model, state=process_group) registers one."""

    ALLREDUCE = _Registered(default_hooks.allreduce_hook)
    FP16_COMPRESS = _Registered(default_hooks.fp16_compress_hook)
    BF16_COMPRESS = _Registered(default_hooks.bf16_compress_hook)
    QUANTIZE_PER_TENSOR = _Registered(quantization_hooks.quantization_pertensor_hook)
    QUANTIZE_PER_CHANNEL = _Registered(quantization_hooks.quantization_perchannel_hook)
    POWER_SGD = _power_sgd(powerSGD_hook.powerSGD_hook, 1)
    POWER_SGD_RANK2 = _power_sgd(powerSGD_hook.powerSGD_hook, 2)
    BATCHED_POWER_SGD = _power_sgd(powerSGD_hook.batched_powerSGD_hook, 1)
    BATCHED_POWER_SGD_RANK2 = _power_sgd(powerSGD_hook.batched_powerSGD_hook, 2)
    NOOP = _Registered(debugging_hooks.noop_hook)


def register_ddp_comm_hook(comm_hook_type, model, state=None):
    """Register a hook of this kind; its state is a process group, or None for the default one."""
    comm_hook_type.value(model=model, state=state)
