"""Wrappers that let a module's intermediate values be computed again for the backward pass, or be kept on the CPU. Names in state dicts are the module's own."""
from abc import ABC, abstractmethod
from enum import Enum, auto
from functools import partial

from tede import nn
from tede.autograd.graph import save_on_cpu
from tede.utils.checkpoint import checkpoint

__all__ = ["ActivationWrapper", "CheckpointImpl", "CheckpointWrapper", "OffloadWrapper", "apply_activation_checkpointing", "checkpoint_wrapper",
           "offload_wrapper"]

_CHECKPOINT_WRAPPED_MODULE = "_checkpoint_wrapped_module"
_CHECKPOINT_PREFIX = _CHECKPOINT_WRAPPED_MODULE + "."


class CheckpointImpl(Enum):
    REENTRANT = auto()
    NO_REENTRANT = auto()


class ActivationWrapper(nn.Module, ABC):
    """The base of both."""

    def __init__(self, mod):
        super().__init__()
        self._modules[_CHECKPOINT_WRAPPED_MODULE] = mod
        self._register_state_dict_hook(self._post_state_dict_hook)
        self._register_load_state_dict_pre_hook(self._pre_load_state_dict_hook, with_module=True)

    @abstractmethod
    def forward(self, *args, **kwargs):
        """The module's output."""

    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name == _CHECKPOINT_WRAPPED_MODULE:
                raise
            return getattr(self._modules[_CHECKPOINT_WRAPPED_MODULE], name)

    def __getitem__(self, key):
        return self._modules[_CHECKPOINT_WRAPPED_MODULE][key]

    def named_parameters(self, *args, **kwargs):
        for name, p in super().named_parameters(*args, **kwargs):
            yield name.replace(_CHECKPOINT_PREFIX, ""), p

    @staticmethod
    def _post_state_dict_hook(module, state_dict, prefix, *args):
        for key in [key for key in state_dict if key.startswith(prefix + _CHECKPOINT_PREFIX)]:
            state_dict[prefix + key[len(prefix) + len(_CHECKPOINT_PREFIX):]] = state_dict.pop(key)
        return state_dict

    @staticmethod
    def _pre_load_state_dict_hook(module, state_dict, prefix, *args):
        for key in [key for key in state_dict if key.startswith(prefix) and not key.startswith(prefix + _CHECKPOINT_PREFIX)]:
            state_dict[prefix + _CHECKPOINT_PREFIX + key[len(prefix):]] = state_dict.pop(key)


class OffloadWrapper(ActivationWrapper):
    """What autograd keeps of a module's forward pass is on the CPU."""

    def forward(self, *args, **kwargs):
        with save_on_cpu(pin_memory=True):
            return self._modules[_CHECKPOINT_WRAPPED_MODULE](*args, **kwargs)


class CheckpointWrapper(ActivationWrapper):
    """utils.checkpoint around a module; `checkpoint_fn`: another function like it, which is given the further arguments."""

    def __init__(self, mod, checkpoint_impl=CheckpointImpl.NO_REENTRANT, checkpoint_fn=None, **checkpoint_fn_kwargs):
        super().__init__(mod)
        self.checkpoint_impl = checkpoint_impl
        self.checkpoint_fn = partial(checkpoint, use_reentrant=checkpoint_impl is CheckpointImpl.REENTRANT, **checkpoint_fn_kwargs) \
            if checkpoint_fn is None else partial(checkpoint_fn, **checkpoint_fn_kwargs)

    def forward(self, *args, **kwargs):
        module = self._modules[_CHECKPOINT_WRAPPED_MODULE]
        if self.checkpoint_impl is CheckpointImpl.REENTRANT and kwargs:     # it takes no keywords
            names = list(kwargs)

            def positional(*given):
                return module(*given[:len(args)], **dict(zip(names, given[len(args):])))
            return self.checkpoint_fn(positional, *args, *kwargs.values())
        return self.checkpoint_fn(module, *args, **kwargs)


def offload_wrapper(module):
    return OffloadWrapper(module)


def checkpoint_wrapper(module, checkpoint_impl=CheckpointImpl.NO_REENTRANT, checkpoint_fn=None, **checkpoint_fn_kwargs):
    return CheckpointWrapper(module, checkpoint_impl, checkpoint_fn, **checkpoint_fn_kwargs)


def apply_activation_checkpointing(model, checkpoint_wrapper_fn=checkpoint_wrapper, check_fn=lambda module: True, auto_wrap_policy=None):
    """Put wrappers around the submodules that `check_fn`, or a policy of FullyShardedDataParallel, names."""
    from tede.distributed.fsdp.wrap import CustomPolicy, wrap_parts
    policy = auto_wrap_policy if auto_wrap_policy is not None else CustomPolicy(lambda module: bool(check_fn(module)))
    wrap_parts(model, policy, lambda module: checkpoint_wrapper_fn(module), set(), set(), {})
