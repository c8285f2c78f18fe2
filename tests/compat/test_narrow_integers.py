"""Loops of their own for integers of 8 and 16 bits, and for bool: every value of bytes against Python's integers, wrapped."""
import itertools
import operator

import pytest

RANGES = {'uint8': (0, 256), 'int8': (-128, 128), 'int16': (-32768, 32768)}


def wrap(value, name):
    low, high = RANGES[name]
    return (int(value) - low) % (high - low) + low


def values(name):
    low, high = RANGES[name]
    return list(range(low, high, 1 if high - low == 256 else 771))


ARITHMETIC = {'add': operator.add, 'sub': operator.sub, 'mul': operator.mul, 'maximum': max, 'minimum': min, 'fmax': max,
              'bitwise_and': operator.and_, 'bitwise_or': operator.or_, 'bitwise_xor': operator.xor}
COMPARISONS = {'eq': operator.eq, 'ne': operator.ne, 'lt': operator.lt, 'le': operator.le, 'gt': operator.gt, 'ge': operator.ge,
               'logical_and': lambda a, b: bool(a and b), 'logical_xor': lambda a, b: bool(a) != bool(b)}


@pytest.mark.parametrize('name', RANGES)
@pytest.mark.parametrize('function', [*ARITHMETIC, *COMPARISONS])
def test_pairs_of_all_values(lib, name, function):
    numbers, dtype = values(name), getattr(lib, name)
    x = lib.tensor(numbers, dtype=dtype)
    got = getattr(lib, function)(x[:, None].expand(-1, len(numbers)).contiguous(), x.flip(0).expand(len(numbers), -1).contiguous())
    if function in ARITHMETIC:
        want = [[wrap(ARITHMETIC[function](a, b), name) for b in reversed(numbers)] for a in numbers]
        assert got.dtype == dtype
    else:
        want = [[COMPARISONS[function](a, b) for b in reversed(numbers)] for a in numbers]
        assert got.dtype == lib.bool
    assert got.tolist() == want
    assert getattr(lib, function)(x[:, None], x.flip(0)).tolist() == want, 'broadcast'
    assert getattr(lib, function)(x.repeat_interleave(2)[::2, None], x.flip(0)).tolist() == want, 'strided'


@pytest.mark.parametrize('name', RANGES)
def test_one_operand(lib, name):
    numbers = values(name)
    x = lib.tensor(numbers, dtype=getattr(lib, name))
    assert (-x).tolist() == [wrap(-v, name) for v in numbers]
    assert (~x).tolist() == [wrap(~v, name) for v in numbers]
    assert lib.square(x).tolist() == [wrap(v * v, name) for v in numbers]
    assert lib.relu(x).tolist() == [max(v, 0) for v in numbers]
    assert lib.logical_not(x).tolist() == [not v for v in numbers]
    assert lib.abs(x).tolist() == [wrap(abs(v), name) for v in numbers]
    assert lib.sign(x).tolist() == lib.sgn(x).tolist() == [(v > 0) - (v < 0) for v in numbers]
    assert lib.floor(x).tolist() == lib.trunc(x).tolist() == numbers
    assert lib.signbit(x).tolist() == [v < 0 for v in numbers]
    assert lib.addcmul(x, x, x, value=3).tolist() == [wrap(v + 3 * v * v, name) for v in numbers]
    assert lib.where(x > 5, x, x.flip(0)).tolist() == [a if a > 5 else b for a, b in zip(numbers, reversed(numbers), strict=True)]


@pytest.mark.parametrize('name', RANGES)
@pytest.mark.parametrize('number', [0, 1, -1, 100, 127, 128, 255, 256, 300, -129, 40000])
@pytest.mark.filterwarnings('ignore:.*wraps around')
def test_numbers_that_may_not_fit(lib, name, number):
    """A number takes the tensor's dtype first, as every operand does; bounds must fit, but for negative ones of bytes."""
    numbers, fits = values(name), wrap(number, name)
    x = lib.tensor(numbers, dtype=getattr(lib, name))
    assert (x + number).tolist() == [wrap(v + number, name) for v in numbers]
    assert (x == number).tolist() == [v == fits for v in numbers]
    assert (x < number).tolist() == [v < fits for v in numbers]
    assert lib.maximum(x, lib.tensor(number)).tolist() == [max(v, fits) for v in numbers]
    if fits:
        assert lib.remainder(x, number).tolist() == [v % fits for v in numbers]
        assert (x // number).tolist() == [wrap(v // fits, name) for v in numbers]
    if fits == number or name == 'uint8' and -256 < number < 0:
        assert x.clamp(max=number).tolist() == [min(v, fits) for v in numbers]
        assert x.clamp(min=number).tolist() == [max(v, fits) for v in numbers]
    else:
        with pytest.raises(RuntimeError, match=f'value cannot be converted to type {name}_t without overflow'):
            x.clamp(max=number)


def test_bools_stay_bools(lib):
    a, b = lib.tensor([[False], [True]]), lib.tensor([False, True])
    for function, plain in itertools.chain(COMPARISONS.items(), [(f, ARITHMETIC[f]) for f in ARITHMETIC if f != 'sub']):
        got = getattr(lib, function)(a, b)
        assert got.dtype == lib.bool, function
        want = [[bool(plain(x, y)) for y in (False, True)] for x in (False, True)]
        assert got.tolist() == want, function
        assert got.view(lib.uint8).tolist() == want, f'{function}: 0 and 1 in memory'
    assert (a + a).view(lib.uint8).tolist() == [[0], [1]]
    for function, want in ('bitwise_not', [1, 0]), ('logical_not', [1, 0]), ('sign', [0, 1]), ('sgn', [0, 1]), ('signbit', [0, 0]):
        assert getattr(lib, function)(b).view(lib.uint8).tolist() == want, function


def test_whatever_is_not_zero_is_true(lib):
    """Bytes seen as bool may hold more than 0 and 1."""
    odd, plain = lib.tensor([2, 255, 0], dtype=lib.uint8).view(lib.bool), lib.tensor([True, True, False])
    assert lib.equal(odd, plain)
    for function, text in [(f, COMPARISONS[f]) for f in COMPARISONS] + [(f, ARITHMETIC[f]) for f in ARITHMETIC if f != 'sub']:
        for a, b in (odd, plain), (plain, odd), (odd, odd), (odd[:, None], plain.flip(0)):
            want = [[bool(text(x, y)) for x, y in zip(row, other, strict=True)]
                    for row, other in zip(*(v.reshape(-1, 3).tolist() for v in lib.broadcast_tensors(a, b)), strict=True)]
            got = getattr(lib, function)(a, b).reshape(-1, 3)
            assert got.view(lib.uint8).tolist() == want, function
    for function, want in ('bitwise_not', [0, 0, 1]), ('logical_not', [0, 0, 1]), ('sign', [1, 1, 0]), ('sgn', [1, 1, 0]):
        assert getattr(lib, function)(odd).view(lib.uint8).tolist() == want, function


# Numbers that the result's dtype can't hold: an operator of (library, x), the numbers for uint8 and int8.
TOO_LARGE = {
    'add': lambda lib, x, v: lib.add(x, x, alpha=v), 'sub': lambda lib, x, v: x.sub(x, alpha=v),
    'rsub': lambda lib, x, v: lib.rsub(x, x, alpha=v), 'threshold': lambda lib, x, v: lib.nn.functional.threshold(x, 1, v),
    'addcmul': lambda lib, x, v: lib.addcmul(x, x, x, value=v), 'where': lambda lib, x, v: lib.where(x > 1, x, v),
    'pow': lambda lib, x, v: x ** abs(v), 'masked_fill': lambda lib, x, v: x.masked_fill(x > 1, v),
    'scatter': lambda lib, x, v: x.scatter(0, lib.tensor([0]), v), 'scatter_': lambda lib, x, v: x.scatter_(0, lib.tensor([0]), v),
    'index_add': lambda lib, x, v: x.index_add(0, lib.tensor([0]), x[:1], alpha=v),
    'index_fill': lambda lib, x, v: x.index_fill(0, lib.tensor([0]), v),
    'addmm': lambda lib, x, v: lib.addmm(x[:1, None], x[None], x[:, None], beta=v),
    'addmv': lambda lib, x, v: lib.addmv(x[:1], x[None], x, alpha=v), 'addr': lambda lib, x, v: lib.addr(x, x, x, alpha=v),
    'linspace': lambda lib, x, v: lib.linspace(0, v, 3, dtype=x.dtype), 'fill_': lambda lib, x, v: x.fill_(v),
}


@pytest.mark.parametrize('name', TOO_LARGE)
def test_numbers_that_do_not_fit_are_refused(lib, name):
    for dtype, number in (('uint8', 300), ('uint8', -300), ('int8', 200), ('int8', -200), ('int32', 2 ** 40)):
        x = lib.tensor([1, 2, 3], dtype=getattr(lib, dtype))
        with pytest.raises(RuntimeError, match='value cannot be converted to type .* without overflow'):
            TOO_LARGE[name](lib, x, number)
    TOO_LARGE[name](lib, lib.tensor([1, 2, 3]), 300)


def test_numbers_that_wrap_or_are_wider_in_the_kernel(lib):
    x, half = lib.tensor([1, 2, 3], dtype=lib.uint8), lib.tensor([1., 2.], dtype=lib.float16)
    assert lib.add(x, x, alpha=-1).tolist() == [0, 0, 0] and lib.add(x, x, alpha=-255).tolist() == [2, 4, 6]
    assert lib.addcmul(half, half, half * 0, value=1e6).tolist() == half.tolist()
    assert lib.nn.functional.threshold(half, 1e6, 0).tolist() == [0, 0]
    for call in (lambda: lib.add(half, half, alpha=1e6), lambda: lib.nn.functional.hardshrink(half, 1e6)):
        with pytest.raises(RuntimeError, match='without overflow'):
            call()
    with pytest.raises(RuntimeError, match='cannot do hardtanh on an unsigned type with negative limits'):
        lib.nn.functional.hardtanh(x)
    with pytest.raises(RuntimeError, match='For integral input tensors, argument beta must not be a floating point number'):
        lib.addr(x, x, x, beta=2.5)
