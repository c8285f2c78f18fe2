"""Comparing results and texts, and making operands: assert_close, make_tensor, FileCheck."""
from tede.testing import _utils as _utils
from tede.testing._comparison import assert_allclose, assert_close
from tede.testing._creation import make_tensor
from tede.testing._file_check import FileCheck

__all__ = ["FileCheck", "assert_allclose", "assert_close", "make_tensor"]
