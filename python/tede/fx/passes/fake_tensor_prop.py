"""FakeTensorProp runs a graph on fake tensors and notes at each node the value that it has."""
import tede
from tede._subclasses.fake_tensor import FakeTensorMode
from tede.fx.interpreter import Interpreter
from tede.fx.node import map_aggregate

__all__ = ["FakeTensorProp"]


class FakeTensorProp(Interpreter):
    """`propagate(*args)` leaves node.meta["val"]: fake tensors, of a result with several tensors a structure of them."""

    def __init__(self, module, mode=None):
        super().__init__(module)
        self._mode = mode if mode is not None else FakeTensorMode()
        self._mode.static_shapes = True

    def run_node(self, n):
        result = super().run_node(n)
        kept = []

        def note(value):
            if isinstance(value, (tede.Tensor, int, float, bool)):
                kept.append(value)
            return value if isinstance(value, (tede.Tensor, int, float, bool)) else None
        values = map_aggregate(result, note)
        if kept:
            n.meta["val"] = values
        return result

    def propagate(self, *args):
        """Run the graph on fake tensors of the arguments."""
        return self.propagate_dont_convert_inputs(*[self._mode.from_tensor(a) if isinstance(a, tede.Tensor) else a for a in args])

    def propagate_dont_convert_inputs(self, *args):
        """The same with arguments that are fake already."""
        with self._mode:
            return super().run(*args)
