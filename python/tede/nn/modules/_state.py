"""state_dict and load_state_dict: the part of Module behind `state_dict` and `load_state_dict`.

A state dict maps dotted names to tensors that share memory with the module's. Beside the names it carries, as an
attribute `_metadata`, each module's version number, by which a class can read what older versions of it wrote.
"""
import warnings
from collections import OrderedDict, namedtuple

from ... import __future__ as _future
from .. import parameter as _parameter
from .._native import T, is_tensor
from ._hooks import _WrappedHook, add_hook

_EXTRA_STATE = "_extra_state"


TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any
    from ...utils.hooks import RemovableHandle


class _IncompatibleKeys(namedtuple("IncompatibleKeys", ["missing_keys", "unexpected_keys"])):
    __slots__ = ()

    def __repr__(self):
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return super().__repr__()

    __str__ = __repr__


class StateMixin:
    def get_extra_state(self) -> "Any":
        """State that is no tensor; a class that has some overrides this and `set_extra_state`."""
        raise RuntimeError("Reached a code path in Module.get_extra_state() that should never be called.")

    def set_extra_state(self, state: "Any") -> None:
        """Take back what `get_extra_state` gave."""
        raise RuntimeError("Reached a code path in Module.set_extra_state() that should never be called.")

    def _overrides(self, name):
        return getattr(type(self), name) is not getattr(StateMixin, name)

    # Saving ------------------------------------------------------------------------------------------------------

    def register_state_dict_pre_hook(self, hook: "Callable[..., Any]") -> "RemovableHandle":
        """Call ``hook(module, prefix, keep_vars)`` before the module's state is collected."""
        return add_hook(self._state_dict_pre_hooks, hook)

    def register_state_dict_post_hook(self, hook: "Callable[..., Any]") -> "RemovableHandle":
        """Call ``hook(module, state_dict, prefix, local_metadata)`` after it; it may change the dict in place."""
        hook._from_public_api = True
        return add_hook(self._state_dict_hooks, hook)

    def _register_state_dict_hook(self, hook):
        if getattr(hook, "_from_public_api", False):
            raise RuntimeError("Cannot register the same function as the state dict post hook that was previously "
                               "registered via register_state_dict_post_hook")
        return add_hook(self._state_dict_hooks, hook)

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        for name, parameter in self._parameters.items():
            if parameter is not None:
                destination[prefix + name] = parameter if keep_vars else parameter.detach()
        for name, buffer in self._buffers.items():
            if buffer is not None and name not in self._non_persistent_buffers_set:
                destination[prefix + name] = buffer if keep_vars else buffer.detach()
        if self._overrides("get_extra_state"):
            destination[prefix + _EXTRA_STATE] = self.get_extra_state()

    def state_dict(self, *args: "Any", destination: "Any" = None, prefix: str = "", keep_vars: bool = False) -> "dict[str, Any]":
        """All parameters and persistent buffers by dotted name, in an OrderedDict. They share memory with the module:
        `copy.deepcopy` it to keep what is there now.

            destination: a dict to fill.
            prefix: what stands before the names.
            keep_vars: the parameters themselves, not detached from autograd.

        >>> state = nn.Linear(3, 2).state_dict()
        >>> {name: tuple(value.shape) for name, value in state.items()}
        """
        if args:
            warnings.warn("Positional args are being deprecated, use kwargs instead. Refer to "
                          "https://pytorch.org/docs/main/generated/torch.nn.Module.html#torch.nn.Module.state_dict for "
                          "details.", FutureWarning, stacklevel=2)
            destination = args[0] if destination is None else destination
            prefix = args[1] if len(args) > 1 and prefix == "" else prefix
            keep_vars = args[2] if len(args) > 2 and keep_vars is False else keep_vars
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
        local_metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = local_metadata
        for hook in self._state_dict_pre_hooks.values():
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
        for hook in self._state_dict_hooks.values():
            result = hook(self, destination, prefix, local_metadata)
            if result is not None:
                if getattr(hook, "_from_public_api", False):
                    raise RuntimeError("state_dict post-hook must return None")
                destination = result
        return destination

    # Loading -----------------------------------------------------------------------------------------------------

    def register_load_state_dict_pre_hook(self, hook: "Callable[..., Any]") -> "RemovableHandle":
        """Call ``hook(module, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)``
        before this module loads."""
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def _register_load_state_dict_pre_hook(self, hook, with_module=False):
        return add_hook(self._load_state_dict_pre_hooks, _WrappedHook(hook, self if with_module else None))

    def register_load_state_dict_post_hook(self, hook: "Callable[..., Any]") -> "RemovableHandle":
        """Call ``hook(module, incompatible_keys)`` after this module and all below it have loaded."""
        return add_hook(self._load_state_dict_post_hooks, hook)

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys,
                              error_msgs):
        for hook in self._load_state_dict_pre_hooks.values():
            hook(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
        assign = local_metadata.get("assign_to_params_buffers", False)
        members = {name: value for name, value in self._parameters.items() if value is not None}
        members.update((name, value) for name, value in self._buffers.items()
                       if value is not None and name not in self._non_persistent_buffers_set)
        for name, current in members.items():
            key = prefix + name
            if key in state_dict:
                self._load_member(name, key, current, state_dict[key], assign, error_msgs)
            elif strict:
                missing_keys.append(key)
        extra = prefix + _EXTRA_STATE
        if self._overrides("set_extra_state"):
            if extra in state_dict:
                self.set_extra_state(state_dict[extra])
            elif strict:
                missing_keys.append(extra)
        elif strict and extra in state_dict:
            unexpected_keys.append(extra)
        if strict:
            for key in state_dict:
                if key.startswith(prefix) and key != extra:
                    name, dot, _ = key[len(prefix):].partition(".")
                    if name not in (self._modules if dot else members):
                        unexpected_keys.append(key)

    def _load_member(self, name, key, current, value, assign, error_msgs):
        if not is_tensor(value):
            error_msgs.append(f'While copying the parameter named "{key}", expected torch.Tensor or Tensor-like object '
                              f"from checkpoint but received {type(value)}")
            return
        if not _parameter.is_lazy(current):
            if current.dim() == 0 and tuple(value.shape) == (1,):
                value = value[0]                # scalars were one-element vectors long ago
            if value.shape != current.shape:
                error_msgs.append(f"size mismatch for {key}: copying a param with shape {value.shape} from checkpoint, "
                                  f"the shape in current model is {current.shape}.")
                return
            if current.is_meta and not value.is_meta and not assign:
                warnings.warn(f"for {key}: copying from a non-meta parameter in the checkpoint to a meta parameter in "
                              "the current model, which is a no-op. (Did you mean to pass `assign=True` to assign "
                              "items in the state dictionary to their corresponding key in the module instead of "
                              "copying them in place?)", stacklevel=2)
        try:
            with T.no_grad():
                if _future.get_swap_module_params_on_conversion():
                    self._swap_member(current, value, assign)
                    return
                if not assign:
                    current.copy_(value)
                    return
                if isinstance(current, _parameter.Parameter):
                    if isinstance(value, _parameter.Parameter):
                        value.requires_grad_(current.requires_grad)
                    else:
                        value = _parameter.Parameter(value, requires_grad=current.requires_grad)
                setattr(self, name, value)
        except Exception as error:
            error_msgs.append(f'While copying the parameter named "{key}", whose dimensions in the model are '
                              f"{current.size()} and whose dimensions in the checkpoint are {value.size()}, an "
                              f"exception occurred : {error.args}.")

    @staticmethod
    def _swap_member(current, value, assign):
        """Load by exchanging tensors, so that `current` keeps its identity, whatever class `module_load` gives it."""
        from ...utils import swap_tensors
        new = current.module_load(value, assign=assign)
        if new is value or new is current:
            raise RuntimeError("module_load returned one of self or other, please .detach() the result if returning one of "
                               "the inputs in module_load")
        if isinstance(current, _parameter.Parameter):
            if not isinstance(new, _parameter.Parameter):
                new = _parameter.Parameter(new, requires_grad=current.requires_grad)
            else:
                new.requires_grad_(current.requires_grad)
        swap_tensors(current, new)

    def load_state_dict(self, state_dict: "Mapping[str, Any]", strict: bool = True,
                        assign: bool = False) -> "_IncompatibleKeys":
        """Copy the tensors of `state_dict` into this module and those below; gives (missing_keys, unexpected_keys).

            strict: whether the keys must be exactly those of `state_dict()`. A RuntimeError names all that differ, and
                shapes that don't fit, which are an error in any case.
            assign: put the tensors in place of the module's instead of copying; for modules on "meta". An optimizer
                must then be made anew.

        >>> source, target = nn.Linear(3, 2), nn.Linear(3, 2)
        >>> target.load_state_dict(source.state_dict())
        <All keys matched successfully>
        >>> target.load_state_dict({"weight": tede.zeros(2, 3)}, strict=False)
        _IncompatibleKeys(missing_keys=['bias'], unexpected_keys=[])
        """
        if not (hasattr(state_dict, "keys") and hasattr(state_dict, "__getitem__")):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        missing_keys, unexpected_keys, error_msgs = [], [], []
        metadata = getattr(state_dict, "_metadata", None)
        state_dict = OrderedDict(state_dict)
        if metadata is not None:
            state_dict._metadata = metadata

        def load(module, state, prefix):
            local_metadata = {} if metadata is None else metadata.get(prefix[:-1], {})
            if assign:
                local_metadata["assign_to_params_buffers"] = assign
            module._load_from_state_dict(state, prefix, local_metadata, True, missing_keys, unexpected_keys, error_msgs)
            for name, child in module._modules.items():
                if child is not None:
                    inner = f"{prefix}{name}."
                    load(child, {key: value for key, value in state.items() if key.startswith(inner)}, inner)
            keys = _IncompatibleKeys(missing_keys, unexpected_keys)
            for hook in module._load_state_dict_post_hooks.values():
                if hook(module, keys) is not None:
                    raise AssertionError("Hooks registered with ``register_load_state_dict_post_hook`` are not expected "
                                         "to return new values, if incompatible_keys need to be modified, it should be "
                                         "done inplace.")

        load(self, state_dict, "")
        load = None                             # it refers to itself: a cycle that would keep the tensors for a while
        if strict:
            for kind, keys in (("Missing", missing_keys), ("Unexpected", unexpected_keys)):
                if keys:
                    names = ", ".join(f'"{key}"' for key in keys)
                    error_msgs.insert(0 if kind == "Missing" else bool(missing_keys),
                                      f"{kind} key(s) in state_dict: {names}. ")
        if error_msgs:
            raise RuntimeError("Error(s) in loading state_dict for {}:\n\t{}".format(
                type(self).__name__, "\n\t".join(error_msgs)))
        return _IncompatibleKeys(missing_keys, unexpected_keys)
