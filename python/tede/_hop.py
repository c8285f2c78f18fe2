"""HigherOrderOperator: an operator whose arguments are functions, with kernels in Python for dispatch keys, modes and classes.

The core never sees such a call. It goes by the tensors among its arguments: first to the Autograd key, below it to the
innermost mode or to the tensors' class, then to the device's key. What a kernel calls again starts where the thread's state
says: with _AutoDispatchBelowAutograd past Autograd, in the kernel of a mode without that mode."""
import abc

import tede
from tede import _C
from tede._keys import DispatchKey
from tede.utils import _pytree

_operators = {}         # name -> operator: ops.higher_order
_BACKENDS = {"cpu": "CPU", "meta": "Meta", "cuda": "CUDA"}


class HigherOrderOperator(abc.ABC):
    """Derive from it, with a __call__ that calls super().__call__; one instance is the operator."""

    def __init__(self, name, *, cacheable=False):
        self._name = self.__name__ = name
        self._ns = self.namespace = "higher_order"
        self.__module__ = "torch.ops.higher_order"
        self._cacheable = cacheable
        self.py_kernels, self.python_key_table, self._fallthrough = {}, {}, set()
        _operators[name] = self

    def cacheable(self):
        return self._cacheable

    def name(self):
        return self._name

    def __str__(self):
        return self._name

    @abc.abstractmethod
    def __call__(self, /, *args, **kwargs):
        return self.dispatch(*args, **kwargs)

    # ---- kernels

    def py_impl(self, key):
        """A decorator: the function is the kernel for a DispatchKey, a mode's class (it gets the mode first) or a tensor's class."""
        table = self.python_key_table if isinstance(key, type) else self.py_kernels

        def add(function):
            if not isinstance(key, (type, DispatchKey)):
                raise TypeError(f"a kernel is for a DispatchKey, a mode's class or a tensor's class, not {key!r}")
            if key in table:
                shown = key if isinstance(key, type) else f"DispatchKey.{key.name}"
                raise RuntimeError(f"Trying to override a python impl for {shown} on operator {self._name}")
            table[key] = function
            self._fallthrough.discard(key)
            return function
        return add

    def py_autograd_impl(self, function):
        return self.py_impl(DispatchKey.Autograd)(function)

    def py_functionalize_impl(self, function):
        raise NotImplementedError("HigherOrderOperator.py_functionalize_impl: operators that take functions aren't functionalized here")

    def fallthrough(self, key):
        """The key has nothing to say."""
        self._fallthrough.add(key)

    def has_kernel_for_dispatch_key(self, key):
        return key in self.py_kernels

    # ---- calls

    def dispatch(self, /, *args, **kwargs):
        leaves = _pytree.arg_tree_leaves(*args, **kwargs)
        if _C._has_torch_function(leaves):
            return _C._handle_torch_function(self, leaves, *args, **kwargs)
        tensors = [x for x in leaves if isinstance(x, tede.Tensor)]
        backend = _BACKENDS.get(tensors[0].device.type, "PrivateUse1") if tensors else None
        below = _C._set_below_autograd(True)
        _C._set_below_autograd(below)
        if not below and any(not x.is_inference() for x in tensors):
            kernel = self._kernel("Autograd" + backend, "Autograd", "CompositeImplicitAutograd")
            if kernel is not None:
                return kernel(*args, **kwargs)
        if _C._torch_dispatch_stack():
            return self._ask_mode(tensors, args, kwargs)
        classes = {type(x): None for x in tensors if _C._is_python(x)}
        if classes and not _C._is_python_excluded():
            return self._ask_classes(classes, args, kwargs)
        if backend is None:
            backend = "Undefined"
        kernel = self._kernel(backend, "CompositeExplicitAutograd", "CompositeImplicitAutograd")
        return None if kernel is None else kernel(*args, **kwargs)

    def _kernel(self, key, *others):
        """The kernel for a key, else for one that stands for many; None if the key has nothing to say."""
        for name in (key, *others):
            kernel = self.py_kernels.get(DispatchKey[name])
            if kernel is not None:
                return kernel
        if DispatchKey[key] in self._fallthrough:
            return None
        raise NotImplementedError(f"could not find kernel for HigherOrderOperator {self._name} at dispatch key DispatchKey.{key} "
                                  f"(resolved from DispatchKey.{key})")

    def _ask_mode(self, tensors, args, kwargs):
        mode = _C._pop_torch_dispatch_stack()
        try:
            kernel = self.python_key_table.get(type(mode))
            if kernel is not None:
                result = kernel(mode, *args, **kwargs)
            elif getattr(mode, "supports_higher_order_operators", False):
                result = mode.__torch_dispatch__(self, list({type(x): None for x in tensors}), args, kwargs)
            else:
                raise NotImplementedError(f"There was no rule registered for HigherOrderOperator {self._name} and mode {mode}. Hint: set "
                                          f"{mode}'s supports_higher_order_operators to True. This causes all higher order operators to "
                                          "pass through its __torch_dispatch__ and handle them there.")
        finally:
            _C._push_on_torch_dispatch_stack(mode)
        return self._checked(result)

    def _ask_classes(self, classes, args, kwargs):
        for cls in classes:
            kernel = self.python_key_table.get(cls)
            if kernel is None:
                kernel = self.python_key_table.get(tede.Tensor)
            result = NotImplemented if kernel is None else kernel(*args, **kwargs)
            if result is not NotImplemented:
                return result
        raise NotImplementedError(f"There was no rule registered for HOP {self._name} and subclass {next(iter(classes))}: give it one by "
                                  "py_impl")

    def _checked(self, result):
        if result is NotImplemented:
            raise TypeError(f"HigherOrderOperator {self._name}: the mode returned NotImplemented")
        return result


def named(name):
    """The operator of that name, or None."""
    return _operators.get(name)
