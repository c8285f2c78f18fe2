"""distance.ck beside the CPU's kernels."""
import math

import pytest

tede = pytest.importorskip("tede")

NORMS = [0, 0.5, 1, 1.5, 2, 3, math.inf]


@pytest.mark.parametrize("dtype", [tede.float32, tede.float64])
@pytest.mark.parametrize("p", NORMS)
def test_pairs_of_one_matrix(agrees, p, dtype):
    for rows, width in ((17, 5), (40, 3), (2, 70), (1, 4), (3, 0)):
        agrees(lambda x: tede.pdist(x, p), tede.randn(rows, width, dtype=dtype, requires_grad=width > 0), rtol=1e-4, atol=1e-5)
    agrees(lambda x: tede.pdist(x.t(), p), tede.randn(5, 9, dtype=dtype, requires_grad=True), rtol=1e-4, atol=1e-5)
    same = tede.tensor([[1.0, 2], [1, 2], [1, 5], [math.nan, 0]], dtype=dtype, requires_grad=True)          # where norms have no derivative
    agrees(lambda x: tede.pdist(x, p), same, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("p", [1, 2, math.inf])
def test_rows_of_two_matrices(agrees, p):
    for a, b in (((3, 17, 5), (3, 9, 5)), ((2, 1, 4, 6), (3, 7, 6)), ((70, 33), (65, 33)), ((4, 0), (3, 0))):
        agrees(lambda x, y: tede.cdist(x, y, p), tede.randn(a), tede.randn(b))
    agrees(lambda x, y: tede.cdist(x.mT, y, p), tede.randn(5, 17), tede.randn(9, 5))
