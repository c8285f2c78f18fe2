"""CrossRefFakeMode: every operator runs a second time on fake tensors, whose metadata must be that of the real results."""
import tede
from tede._subclasses.fake_tensor import (DataDependentOutputException, DynamicOutputShapeException, FakeTensor, FakeTensorMode, MetadataMismatchError,
                                          UnsupportedFakeTensorException)
from tede.utils import _pytree
from tede.utils._python_dispatch import TorchDispatchMode

_WITHOUT = (DataDependentOutputException, DynamicOutputShapeException, UnsupportedFakeTensorException)       # there is nothing to compare


def _compare(func, real, fake, strides):
    """Raises for the first difference of two results."""
    says = [("shape", tuple(real.shape), tuple(fake.shape)), ("dtype", real.dtype, fake.dtype), ("device", real.device, fake.device),
            ("requires_grad", real.requires_grad, fake.requires_grad)]
    if strides and real.layout == tede.strided:
        says.append(("strides", *([s for n, s in zip(x.shape, x.stride()) if n > 1] for x in (real, fake))))
    for what, a, b in says:
        if a != b:
            raise MetadataMismatchError(f"{func}: found mismatched tensor metadata: {what} is {a} in the real result and {b} in the fake one")


def _storages(values):
    """The numbers of the storages of a structure's tensors, one for each tensor."""
    return [x.untyped_storage()._cdata for x in _pytree.tree_leaves(values) if isinstance(x, tede.Tensor) and x.layout == tede.strided]


def outputs_alias_inputs(outputs, inputs):
    """Whether a result shares memory with an operand."""
    return not set(_storages(inputs)).isdisjoint(_storages(outputs))


def outputs_are_inputs(outputs, inputs):
    """Whether a result is an operand."""
    operands = {id(x) for x in _pytree.tree_leaves(inputs) if isinstance(x, tede.Tensor)}
    return any(id(x) in operands for x in _pytree.tree_leaves(outputs) if isinstance(x, tede.Tensor))


def output_alias_each_other(outputs):
    """Whether two results share memory."""
    numbers = _storages(outputs)
    return len(set(numbers)) < len(numbers)


def _check_alias_info(context, real_out, real_in, fake_out, fake_in):
    """Raises where real results alias or are operands, and fake ones don't, or the reverse."""
    for query, says in ((lambda out, given: outputs_alias_inputs(out, given), "outputs_alias_inputs"),
                        (lambda out, given: outputs_are_inputs(out, given), "outputs_are_inputs"),
                        (lambda out, given: output_alias_each_other(out), "outputs alias each other")):
        real, fake = query(real_out, real_in), query(fake_out, fake_in)
        if real != fake:
            raise MetadataMismatchError(f"{context} mismatch in {says} check {fake} != {real}")


def try_convert_fake_to_real(ten_list):
    """The values, with the real tensors that a mode knows in place of fake ones; a fake one that it doesn't know stays."""
    def real(x):
        if not isinstance(x, FakeTensor):
            return x
        if x.constant is not None:
            return x.constant
        memo = x.fake_mode.fake_tensor_converter.tensor_memo
        return next((known for known, ref in memo.items() if ref() is x), x)
    return [real(x) for x in ten_list]


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
