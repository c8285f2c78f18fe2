"""PyTorch's package functorch.dim."""
from tede.func.dim import (  # noqa: F401
    Dim, DimensionBindError, DimensionMismatchError, DimList, Tensor, cat, dimlists, dims, index, softmax, split, stack)
