"""CrossRefFakeMode: every operator runs a second time on fake tensors, whose metadata must be that of the real results."""
import tede
from tede._subclasses.fake_tensor import (DataDependentOutputException, DynamicOutputShapeException, FakeTensorMode, MetadataMismatchError,
                                          UnsupportedFakeTensorException, UnsupportedOperatorException)
from tede.utils import _pytree
from tede.utils._python_dispatch import TorchDispatchMode

_WITHOUT = (DataDependentOutputException, DynamicOutputShapeException, UnsupportedFakeTensorException, UnsupportedOperatorException)


def _compare(func, real, fake, strides):
    """Raises for the first difference of two results."""
    says = [("shape", tuple(real.shape), tuple(fake.shape)), ("dtype", real.dtype, fake.dtype), ("device", real.device, fake.device),
            ("requires_grad", real.requires_grad, fake.requires_grad)]
    if strides and real.layout == tede.strided:
        says.append(("strides", *([s for n, s in zip(x.shape, x.stride()) if n > 1] for x in (real, fake))))
    for what, a, b in says:
        if a != b:
            raise MetadataMismatchError(f"{func}: found mismatched tensor metadata: {what} is {a} in the real result and {b} in the fake one")


class CrossRefFakeMode(TorchDispatchMode):
    """Within it operators are held against what they do to fake tensors; ignore_op_fn(op) says which aren't."""

    def __init__(self, ignore_op_fn=None, *, check_strides=True):
        super().__init__()
        self.ignore_op_fn, self.check_strides = ignore_op_fn or (lambda op: False), check_strides

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        fakes = None
        if not self.ignore_op_fn(func) and not any(x.layout != tede.strided for x in _pytree.tree_leaves((args, kwargs))
                                                   if isinstance(x, tede.Tensor)):
            try:
                with FakeTensorMode() as mode:
                    fakes = _pytree.tree_leaves(func(*_pytree.tree_map_only(tede.Tensor, mode.from_tensor, args),
                                                     **_pytree.tree_map_only(tede.Tensor, mode.from_tensor, kwargs)))
            except _WITHOUT:
                fakes = None
        result = func(*args, **kwargs)
        if fakes is not None:
            leaves = _pytree.tree_leaves(result)
            if len(leaves) != len(fakes):
                raise MetadataMismatchError(f"{func}: {len(leaves)} real results and {len(fakes)} fake ones")
            for real, fake in zip(leaves, fakes):
                if isinstance(real, tede.Tensor) != isinstance(fake, tede.Tensor):
                    raise MetadataMismatchError(f"{func}: a tensor in one result, and none in the other")
                if isinstance(real, tede.Tensor):
                    _compare(func, real, fake, self.check_strides)
        return result
