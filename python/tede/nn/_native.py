"""Operators and types of the C extension that `tede.nn` and `tede.optim` use: all imports from it are here.

`T` is the package itself, for types, tensors and factories. `N` gives operators by PyTorch's native names: those of
`tede._C._nn` (`N.gelu`), else those of the package (`N.layer_norm`). An operator that isn't there yet says so when it
is called for, not when `nn` is imported.
"""
import tede as T

C = T._C


class _Natives:
    def __getattr__(self, name):
        for place in (C._nn, T):
            try:
                operator = getattr(place, name)
            except AttributeError:
                continue
            self.__dict__[name] = operator      # found at once the next time
            return operator
        raise NotImplementedError(f"{name}: tede doesn't have this operator yet")


    def find(self, name):
        """The operator, or None: for functions that can do without it."""
        try:
            return getattr(self, name)
        except NotImplementedError:
            return None


N = _Natives()


def typename(value):
    """The type of `value` as PyTorch's messages spell it: with its module, unless that is `builtins`."""
    if isinstance(value, T.Tensor):
        return value.type()
    kind = value if isinstance(value, type) else type(value)
    module = kind.__module__
    return kind.__qualname__ if module in (None, "builtins") else f"{module}.{kind.__qualname__}"


def is_tensor(value):
    return isinstance(value, T.Tensor) or hasattr(value, "__torch_function__")
