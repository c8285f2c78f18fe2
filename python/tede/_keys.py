"""PyTorch's dispatch keys by name, for programs that make sets of them while they are imported.

tede has other keys, and few of these names stand for one.
"""
import contextlib
from enum import IntEnum

from tede import _C, amp

_NAMES = ("Undefined Dense BackendSelect Python Fake FuncTorchDynamicLayerBackMode Functionalize Named Conjugate Negative ZeroTensor "
          "ADInplaceOrView AutogradOther AutogradFunctionality AutogradNestedTensor Tracer AutocastCPU AutocastMTIA AutocastMAIA "
          "AutocastXPU AutocastIPU AutocastHPU AutocastXLA AutocastMPS AutocastCUDA AutocastPrivateUse1 FuncTorchBatched "
          "FuncTorchVmapMode Batched VmapMode FuncTorchGradWrapper DeferredInit PythonTLSSnapshot FuncTorchDynamicLayerFrontMode "
          "PreDispatch PythonDispatcher CPU CUDA Meta XPU MPS HPU PrivateUse1 QuantizedCPU SparseCPU SparseCUDA SparseCsrCPU "
          "SparseCsrCUDA NestedTensorCPU AutogradCPU AutogradCUDA AutogradXPU AutogradMPS AutogradHPU AutogradMeta AutogradXLA "
          "AutogradPrivateUse1 Autograd CompositeImplicitAutograd CompositeExplicitAutograd "
          "CompositeExplicitAutogradNonFunctional CompositeImplicitAutogradNestedTensor")
DispatchKey = IntEnum("DispatchKey", _NAMES, start=0, module=__name__)
DispatchKey.__doc__ = """\
The kinds of handling that a call may need: a backend's kernels, autograd, Python, ...

>>> tede._C.DispatchKey.CPU.name
'CPU'
"""


class DispatchKeySet:
    """A set of dispatch keys.

    >>> tede._C.DispatchKeySet(tede._C.DispatchKey.CPU).has(tede._C.DispatchKey.CPU)
    True
    """

    def __init__(self, key=()):
        self._keys = frozenset([key] if isinstance(key, DispatchKey) else key)

    def __or__(self, other):
        return DispatchKeySet(self._keys | other._keys)

    def __and__(self, other):
        return DispatchKeySet(self._keys & other._keys)

    def __sub__(self, other):
        return DispatchKeySet(self._keys - other._keys)

    def __eq__(self, other):
        return isinstance(other, DispatchKeySet) and self._keys == other._keys

    def __hash__(self):
        return hash(self._keys)

    def __repr__(self):
        return f"DispatchKeySet({', '.join(key.name for key in sorted(self._keys))})"

    def add(self, key):
        """The set with a key more."""
        return DispatchKeySet(self._keys | {key})

    def remove(self, key):
        """The set without a key."""
        return DispatchKeySet(self._keys - {key})

    def has(self, key):
        """Whether a key is in it."""
        return key in self._keys


# Whose operands an Autocast key casts: None where no call has the key, since there are no such devices.
_AUTOCAST = {"AutocastCPU": "cpu", "AutocastCUDA": "cuda",
             **dict.fromkeys(("AutocastXPU", "AutocastMTIA", "AutocastIPU", "AutocastHPU", "AutocastXLA", "AutocastMPS"))}
_PASSED = ("ADInplaceOrView", "Functionalize", *_AUTOCAST)


class ExcludeDispatchKeyGuard:
    """Within it calls pass by the keys of a set: Autograd and Autocast, of those that there are here. ADInplaceOrView may be named; what it
    does in PyTorch, stubs do here, and no call has the key. So may Functionalize: a level that is entered within takes calls in PyTorch, too."""

    def __init__(self, keys):
        wanted = {key.name for key in (keys._keys if isinstance(keys, DispatchKeySet) else {keys})}
        self._autograd = {name for name in wanted if name.startswith("Autograd")}
        if other := sorted(wanted.difference(_PASSED, self._autograd)):
            raise NotImplementedError(f"torch._C._ExcludeDispatchKeyGuard: {', '.join(other)}: PyTorch's dispatch keys don't exist here")
        self._devices = [_AUTOCAST[name] for name in wanted.intersection(_AUTOCAST) if _AUTOCAST[name]]

    def __enter__(self):
        self._stack = contextlib.ExitStack()
        if self._autograd:
            self._stack.callback(_C._set_below_autograd, _C._set_below_autograd(True))
        for device in self._devices:
            self._stack.enter_context(amp.autocast(device, enabled=False))
        return self

    def __exit__(self, *exception):
        self._stack.close()
