"""Flatten and Unflatten: dimensions merged into one, or one split into several."""
from .._native import T
from .module import Module

__all__ = ["Flatten", "Unflatten"]


class Flatten(Module):
    """Dimensions `start_dim` to `end_dim` as one; the default keeps the batch: (N, ...) -> (N, product).

        start_dim, end_dim: the first and the last that are merged; negative counts from the end.

    A view where strides allow it.

    >>> nn.Flatten()(tede.zeros(2, 3, 4)).shape
    tede.Size([2, 12])
    """

    __constants__ = ["start_dim", "end_dim"]
    start_dim: int
    end_dim: int

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, input: T.Tensor) -> T.Tensor:
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """Dimension `dim` as several.

        dim: which one; or its name.
        unflattened_size: their sizes, one of which may be -1; for a name, (name, size) pairs.

    TypeError if it isn't a tuple or list of ints; RuntimeError if the product isn't the dimension's size.

    >>> nn.Unflatten(1, (2, -1))(tede.zeros(5, 6)).shape
    tede.Size([5, 2, 3])
    """

    __constants__ = ["dim", "unflattened_size"]
    dim: int

    def __init__(self, dim: int, unflattened_size) -> None:
        super().__init__()
        self._require_tuple_int(unflattened_size)
        self.dim, self.unflattened_size = dim, unflattened_size

    @staticmethod
    def _require_tuple_int(size):
        if not isinstance(size, (tuple, list)):
            raise TypeError(f"unflattened_size must be a tuple of ints, but found type {type(size).__name__}")
        for idx, element in enumerate(size):
            if not isinstance(element, int):
                raise TypeError("unflattened_size must be tuple of ints, but found element of type "
                                f"{type(element).__name__} at pos {idx}")

    def forward(self, input: T.Tensor) -> T.Tensor:
        return input.unflatten(self.dim, self.unflattened_size)

    def extra_repr(self) -> str:
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"
