"""Indexing by tensors under vmap: an index without dimensions is taken as a tensor, not as its number."""
from tede.overrides import TorchFunctionMode


class TransformGetItemToIndex(TorchFunctionMode):
    """x[i, j] with tensors i and j is the operator `index`, which has a rule for batches; .item() has none."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        from tede import Tensor, ops
        if func == Tensor.__getitem__:
            indices = args[1] if isinstance(args[1], tuple) else (args[1],)
            if all(isinstance(i, Tensor) for i in indices):
                return ops.aten.index(args[0], list(indices))
        return func(*args, **(kwargs or {}))
