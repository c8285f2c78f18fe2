"""The array API namespace: every name is there, and the standard's keywords work."""
import pytest

import tede


def test_the_namespace():
    x = tede.arange(6.0).reshape(2, 3)
    xp = x.__array_namespace__(api_version="2024.12")
    assert all(hasattr(xp, name) for name in dir(xp))
    with pytest.raises(ValueError):
        x.__array_namespace__(api_version="1999.01")
    assert xp.sum(x, axis=0).tolist() == [3, 5, 7] and xp.sum(x, axis=(0, 1), keepdims=True).shape == (1, 1)
    assert xp.prod(x + 1) == 720 and xp.all(x, axis=1).tolist() == [False, True] and xp.max(x, axis=1).tolist() == [2, 5]
    assert xp.flip(x, axis=0)[0].tolist() == [3, 4, 5] and xp.roll(x, 1, axis=1)[0].tolist() == [2, 0, 1]
    assert xp.eye(2, 3, k=1).tolist() == [[0, 1, 0], [0, 0, 1]] and xp.expand_dims(x, axis=(0, -1)).shape == (1, 2, 3, 1)
    assert xp.concat([x, x], axis=1).shape == (2, 6) and xp.permute_dims(x, (1, 0)).shape == (3, 2)
    assert xp.cumulative_sum(tede.arange(3), include_initial=True).tolist() == [0, 0, 1, 3]
    unique = xp.unique_all(tede.tensor([3, 1, 3, 2]))
    assert unique.values.tolist() == [1, 2, 3] and unique.indices.tolist() == [1, 3, 0] and unique.counts.tolist() == [1, 1, 2]
    assert xp.isdtype(x.dtype, ("bool", "real floating")) and not xp.isdtype(x.dtype, "integral")
    assert xp.result_type(xp.int8, xp.uint8) == xp.int16 and xp.result_type(x, 1j) == xp.complex64
    info = xp.__array_namespace_info__()
    assert set(info.dtypes(kind="real floating")) == {"float32", "float64"} and info.default_device() == tede.device("cpu")
    assert info.capabilities()["boolean indexing"]


def test_all_names_of_the_package_are_there():
    missing = [name for name in dir(tede) if not hasattr(tede, name)]
    assert not missing


def test_words_and_promotion_of_the_standard():
    x = tede.arange(6).reshape(2, 3)
    xp = x.__array_namespace__()
    assert xp.permute_dims(x, axes=(1, 0)).shape == (3, 2) and xp.count_nonzero(x, axis=0, keepdims=True).tolist() == [[1, 2, 2]]
    assert xp.take(tede.arange(3), tede.tensor([-1, 0], dtype=tede.int8)).tolist() == [2, 0]
    assert xp.maximum(x, 2).dtype == tede.int64 and xp.greater(3, x).sum() == 3
    small, wide = tede.ones(2, dtype=tede.int8), tede.ones(2, dtype=tede.uint16)
    assert xp.add(small, wide).dtype == tede.int32 and xp.result_type(tede.uint32, tede.int8) == tede.int64
    assert xp.result_type(wide, tede.uint64) == tede.uint64 and xp.multiply(wide, tede.ones(2)).dtype == tede.float32
    with pytest.raises(TypeError, match="no common integer type"):
        xp.result_type(tede.uint64, tede.int8)
    assert xp.sum(tede.ones(2, dtype=tede.uint64)).dtype == tede.uint64 and xp.vecdot(x[0], x[1]) == 14
    assert xp.linalg.trace(x, offset=1) == 6 and xp.linalg.matrix_transpose(x).shape == (3, 2)
    assert xp.fft.fftn(tede.ones(2, 3), axes=(0,)).shape == (2, 3) and xp.full(2, 1.5).tolist() == [1.5, 1.5]
    assert xp.finfo(tede.ones(1)).bits == 32 and xp.searchsorted(x[0], tede.tensor([1.5])).tolist() == [2]


def test_special_cases_of_the_standard():
    nan = float("nan")
    x = tede.tensor([nan, -0.0, -2.0])
    xp = x.__array_namespace__()
    assert xp.isnan(xp.sign(x)).tolist() == [True, False, False] and xp.sign(x)[2] == -1
    assert xp.sign(tede.tensor(3 + 4j)) == tede.tensor(0.6 + 0.8j) and xp.sign(tede.tensor([-3, 0])).tolist() == [-1, 0]
    assert xp.signbit(xp.remainder(tede.tensor([0.0, -0.0, 2.0]), tede.tensor([-1.0, 1.0, -2.0]))).tolist() == [True, False, True]
    assert xp.remainder(tede.tensor([5, -5]), 3).tolist() == [2, 1]
