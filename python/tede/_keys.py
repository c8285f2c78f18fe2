"""PyTorch's dispatch keys by name, for programs that make sets of them while they are imported.

tede has keys of its own, which these names don't stand for, so nothing can be excluded by them.
"""
from enum import IntEnum

_NAMES = ("Undefined Dense BackendSelect Python Fake FuncTorchDynamicLayerBackMode Functionalize Named Conjugate Negative ZeroTensor "
          "ADInplaceOrView AutogradOther AutogradFunctionality AutogradNestedTensor Tracer AutocastCPU AutocastMTIA AutocastMAIA "
          "AutocastXPU AutocastIPU AutocastHPU AutocastXLA AutocastMPS AutocastCUDA AutocastPrivateUse1 FuncTorchBatched "
          "FuncTorchVmapMode Batched VmapMode FuncTorchGradWrapper DeferredInit PythonTLSSnapshot FuncTorchDynamicLayerFrontMode "
          "PreDispatch PythonDispatcher CPU CUDA Meta XPU MPS HPU PrivateUse1 QuantizedCPU SparseCPU SparseCUDA SparseCsrCPU "
          "SparseCsrCUDA NestedTensorCPU AutogradCPU AutogradCUDA AutogradXPU AutogradMPS AutogradHPU AutogradMeta AutogradXLA "
          "AutogradPrivateUse1 Autograd CompositeImplicitAutograd CompositeExplicitAutograd "
          "CompositeExplicitAutogradNonFunctional CompositeImplicitAutogradNestedTensor")
DispatchKey = IntEnum("DispatchKey", _NAMES, start=0, module=__name__)


class DispatchKeySet:
    """A set of dispatch keys."""

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
        return DispatchKeySet(self._keys | {key})

    def remove(self, key):
        return DispatchKeySet(self._keys - {key})

    def has(self, key):
        return key in self._keys


class ExcludeDispatchKeyGuard:
    def __init__(self, keys):
        raise NotImplementedError("torch._C._ExcludeDispatchKeyGuard: PyTorch's dispatch keys don't exist here")
