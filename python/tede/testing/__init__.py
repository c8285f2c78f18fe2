"""Comparing results, and making operands: assert_close and make_tensor."""
from tede.testing._comparison import assert_allclose, assert_close
from tede.testing._creation import make_tensor

__all__ = ["assert_allclose", "assert_close", "make_tensor"]
