"""Unsigned integers that PyTorch stores but hardly computes with: here they are complete."""
import pytest
import tede

BIG = [2 ** 63 + 5, 3, 2 ** 64 - 1, 2 ** 63]


def test_uint64_beyond_int64_has_its_order():
    x = tede.tensor(BIG, dtype=tede.uint64)
    assert x.max().item() == 2 ** 64 - 1 and x.min().item() == 3
    assert x.argmax().item() == 2 and x.argmin().item() == 1
    values, indices = x.reshape(2, 2).max(1)
    assert values.tolist() == [2 ** 63 + 5, 2 ** 64 - 1] and indices.tolist() == [0, 0]
    values, indices = x.reshape(2, 2).min(0)
    assert values.tolist() == [2 ** 63 + 5, 3] and indices.tolist() == [0, 0]
    low, high = x[::-1].aminmax()
    assert low.item() == 3 and high.item() == 2 ** 64 - 1
    assert x.reshape(2, 2).T.amax(0).tolist() == [2 ** 63 + 5, 2 ** 64 - 1]


@pytest.mark.parametrize('bits', [16, 32, 64])
def test_unsigned_arithmetic_wraps_and_compares(bits):
    dtype = getattr(tede, f'uint{bits}')
    top = 2 ** bits - 1
    x = tede.tensor([1, top, 7], dtype=dtype)
    assert (x + 1).tolist() == [2, 0, 8] and (-x).tolist() == [top, 1, top - 6]
    assert (x - 2).tolist() == [top, top - 2, 5] and (x * 2).tolist() == [2, top - 1, 14]
    assert (x // 2).tolist() == [0, top // 2, 3] and (x % 4).tolist() == [1, 3, 3]
    assert (x > 6).tolist() == [False, True, True] and x.sort()[0].tolist() == [1, 7, top]
    assert (x & 3).tolist() == [1, 3, 3] and (x >> 1).tolist() == [0, top // 2, 3]


def test_uint64_above_int64_has_its_order():
    top = 2 ** 63
    x = tede.tensor([top + 5, 1, top + 9, 7], dtype=tede.uint64)
    assert x.cummax(0)[0].tolist() == [top + 5, top + 5, top + 9, top + 9] and x.cummax(0)[1].tolist() == [0, 0, 2, 2]
    assert x.cummin(0)[0].tolist() == [top + 5, 1, 1, 1]
    edges = tede.tensor([1, 5, top + 5], dtype=tede.uint64)
    assert tede.searchsorted(edges, tede.tensor([top + 1, top + 7, 3], dtype=tede.uint64)).tolist() == [2, 3, 1]


@pytest.mark.parametrize("dtype", [tede.uint8, tede.uint16, tede.uint32, tede.uint64])
def test_a_bound_below_zero_wraps_around_and_says_so(dtype):
    x, top = tede.tensor([1, 2, 3], dtype=dtype), tede.iinfo(dtype).max
    with pytest.warns(UserWarning, match="clamp: -1 doesn't fit"):
        assert x.clamp(min=-1).tolist() == [top] * 3
    with pytest.warns(UserWarning, match="clamp: -1 doesn't fit"):
        assert x.clamp(max=-1).tolist() == [1, 2, 3]
    with pytest.raises(RuntimeError, match="unsigned type with negative limits"):
        tede.nn.functional.hardtanh(x)
    assert x.clamp(2, top).tolist() == [2, 2, 3]


@pytest.mark.parametrize("dtype", [tede.uint16, tede.uint32, tede.uint64])
def test_isin_of_a_number_of_any_sign(dtype):
    x = tede.tensor([0, 3, tede.iinfo(dtype).max], dtype=dtype)
    assert tede.isin(x, 3).tolist() == [False, True, False]
    assert tede.isin(x, -1).tolist() == [False] * 3
    assert tede.isin(3, x).item() is True and tede.isin(-1, x).item() is False
    assert tede.isin(x, tede.iinfo(dtype).max).tolist() == [False, False, True]
