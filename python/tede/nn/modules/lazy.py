"""LazyModuleMixin: layers whose sizes follow from the first input.

Until then parameters are uninitialized. A pre-hook on the first call measures the input, gives them their shape and
values, and turns the object into the plain class, `cls_to_become`.
"""
from .. import parameter as _parameter

__all__ = ["LazyModuleMixin"]


class LazyModuleMixin:
    """Makes a class of layers lazy: parameters have no shape until the first call, which measures its input. Derive
    from this and the plain class, name that in `cls_to_become`, make `UninitializedParameter`s in `__init__`, and write
    `initialize_parameters`. After the first call the object is one of `cls_to_become`.
    """

    cls_to_become = None

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._load_hook = self._register_load_state_dict_pre_hook(self._lazy_load_hook)
        self._initialize_hook = self.register_forward_pre_hook(self._infer_parameters, with_kwargs=True)

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        for name, value in (*self._parameters.items(), *self._buffers.items()):
            if value is not None and name not in self._non_persistent_buffers_set:
                keep = _parameter.is_lazy(value) or keep_vars
                destination[prefix + name] = value if keep else value.detach()

    def _lazy_load_hook(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs):
        """Take the shapes of the tensors that are about to be loaded."""
        from .._native import T
        for name, value in (*self._parameters.items(), *self._buffers.items()):
            key = prefix + name
            if key in state_dict and value is not None:
                loaded = state_dict[key]
                if _parameter.is_lazy(value) and not _parameter.is_lazy(loaded):
                    with T.no_grad():
                        value.materialize(loaded.shape)

    def initialize_parameters(self, *args, **kwargs):
        """Give the parameters their shape and values, seeing the arguments of the first call. Classes override it."""
        raise NotImplementedError(f"initialize_parameters is not implemented for {type(self).__name__}")

    def has_uninitialized_params(self):
        """Whether some parameter or buffer of this module still has no shape."""
        return any(_parameter.is_lazy(value) for value in (*self._parameters.values(), *self._buffers.values()))

    def _infer_parameters(self, module, args, kwargs=None):
        module.initialize_parameters(*args, **(kwargs or {}))
        if module.has_uninitialized_params():
            raise RuntimeError(f"module {self._get_name()} has not been fully initialized")
        module._initialize_hook.remove()
        module._load_hook.remove()
        delattr(module, "_initialize_hook")
        delattr(module, "_load_hook")
        if module.cls_to_become is not None:
            module.__class__ = module.cls_to_become
