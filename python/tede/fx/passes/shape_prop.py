"""ShapeProp runs a graph on values and notes at each node what its result looks like."""
from collections import namedtuple

import tede
from tede.fx.interpreter import Interpreter
from tede.fx.node import map_aggregate

__all__ = ["ShapeProp", "TensorMetadata"]

TensorMetadata = namedtuple("TensorMetadata", ["shape", "dtype", "requires_grad", "stride", "memory_format", "is_quantized", "qparams"])


def _extract_tensor_metadata(result, include_contiguity=True):
    """What a tensor looks like; its memory format is the first of the four in which it lies."""
    memory_format = None
    if include_contiguity and result.layout == tede.strided:
        formats = (tede.contiguous_format, tede.channels_last, tede.channels_last_3d)
        memory_format = next((f for f in formats if result.is_contiguous(memory_format=f)), None)
    return TensorMetadata(result.shape, result.dtype, result.requires_grad, result.stride() if result.layout == tede.strided else (),
                          memory_format, False, {})


class ShapeProp(Interpreter):
    """`propagate(*args)` leaves node.meta["tensor_meta"], of a result with several tensors a structure of them, and node.meta["type"].

    fake_mode: what runs are fake tensors of the arguments."""

    def __init__(self, gm, fake_mode=None):
        super().__init__(gm)
        self.fake_mode = fake_mode

    def run_node(self, n):
        try:
            result = super().run_node(n)
        except Exception as error:
            raise RuntimeError(f"ShapeProp error for: node={n.format_node()} with meta={n.meta}") from error
        tensors = []

        def note(x):
            if isinstance(x, tede.Tensor):
                tensors.append(x)
                return _extract_tensor_metadata(x)
            return x
        meta = map_aggregate(result, note)
        if tensors:
            n.meta["tensor_meta"] = meta
        n.meta["type"] = type(result)
        return result

    def propagate(self, *args):
        """Run the graph; returns what it gives."""
        if self.fake_mode is None:
            return super().run(*args)
        with self.fake_mode:
            return super().run(*[self.fake_mode.from_tensor(x) if isinstance(x, tede.Tensor) else x for x in args])
