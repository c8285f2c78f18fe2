"""Loops between numbers and integers: PyTorch's integers for all sizes and strides, the same on every level of the processor."""
import os
import subprocess
import sys
import warnings

import numpy as np
import pytest

tede, torch = pytest.importorskip('tede'), pytest.importorskip('torch')

warnings.filterwarnings('ignore', message='.*deprecated.*')
DTYPES = 'qint8', 'quint8', 'qint32'
# No vector, a part of one, whole ones and a rest, several blocks of the iterator.
SIZES = 0, 1, 7, 16, 63, 64, 65, 1000, 70001


RANGES = {'qint8': (-128, 127), 'quint8': (0, 255), 'qint32': (-2**31, 2**31 - 1)}


def numbers(*shape):
    r = np.random.default_rng(sum(shape))
    x = (r.standard_normal(shape) * 4).astype('f4')
    flat = x.reshape(-1)
    flat[::11] = np.round(flat[::11] * 8) / 16         # ties, for scales that are powers of two
    flat[5::13] *= 1e6
    flat[6::17] *= 1e12
    return x


def integers(x, dtype, scale, zero):
    """The nearest integers, with the zero point added before: by one fused step from one scale to bytes. scale and zero broadcast."""
    with np.errstate(all='ignore'):
        inverse, zero = np.float32(1) / np.asarray(scale, 'f4'), np.asarray(zero, 'f4')
        fused = not inverse.ndim and dtype != 'qint32'
        shifted = (x.astype('f8') * inverse.astype('f8') + zero).astype('f4') if fused else x * inverse + zero
        near = np.where(shifted < 2147483520, np.maximum(np.rint(shifted.astype('f8')), -2**31), 2**31 - 1)
    return np.clip(near.astype('i8'), *RANGES[dtype])


def floats(q, scale, zero):
    return np.asarray(scale, 'f4') * (q - np.asarray(zero)).astype('f4')


def check(q, x, dtype, scale, zero):
    """q is x quantized, and gives its floats."""
    right = integers(x, dtype, scale, zero)
    assert tuple(q.shape) == x.shape and q.dtype is getattr(tede, dtype)
    np.testing.assert_array_equal(q.int_repr().numpy(), right)
    np.testing.assert_array_equal(q.dequantize().numpy(), floats(right, scale, zero))


def same(made, right):
    """tede's and torch's."""
    assert tuple(made.shape) == tuple(right.shape) and made.int_repr().tolist() == right.int_repr().tolist()
    assert made.q_scale() == right.q_scale() and made.q_zero_point() == right.q_zero_point()


def both(make):
    return make(torch), make(tede)


def operand(T, of, dtype, scale, zero):
    """Any integers: the bits of floats."""
    bits = T.from_numpy(np.ascontiguousarray(of).view('i4').astype({'qint8': 'i1', 'quint8': 'u1'}[dtype]))
    return T._make_per_tensor_quantized_tensor(bits, scale, zero)


@pytest.mark.parametrize('dtype', DTYPES)
@pytest.mark.parametrize('n', SIZES)
def test_a_tensor_and_back(n, dtype):
    for scale, zero in ((0.125, 0), (0.03, 5), (0.03, 127)):
        check(tede.quantize_per_tensor(tede.from_numpy(numbers(n)), scale, zero, getattr(tede, dtype)), numbers(n), dtype, scale, zero)


@pytest.mark.parametrize('dtype', DTYPES)
def test_what_no_integer_is_near_gets_the_end_of_the_range(dtype):
    x = np.array([np.nan, np.inf, -np.inf, 3e38, -3e38, 1e-45, -1e-45, -0.0, 2147483520, 2147483392, -2147483648, -2147483904, 0.5, 1.5, 2.5, -0.5, -2.5]
                 * 9, 'f4')
    for scale, zero in ((1, 0), (1, 100), (0.5, 3), (1e-30, 1), (1e30, 1)):
        check(tede.quantize_per_tensor(tede.from_numpy(x), scale, zero, getattr(tede, dtype)), x, dtype, scale, zero)
        scales, zeros = tede.full((x.size,), scale, dtype=tede.float64), tede.full((x.size,), zero)
        check(tede.quantize_per_channel(tede.from_numpy(x), scales, zeros, 0, getattr(tede, dtype)), x, dtype, scales.numpy(), zeros.numpy())


@pytest.mark.parametrize('zero', (2**20, -2**20, 2**20 + 1, -2**25 - 1, 2**33, -2**33 - 1, -2**40, 2**62))
@pytest.mark.parametrize('dtype', DTYPES)
def test_zero_points_far_beyond_the_dtype(dtype, zero):
    """Where nothing checks them: integers that are dequantized, and elements of a few bits."""
    q = np.arange(100)
    of = tede.from_numpy(q).to({'qint8': tede.int8, 'quint8': tede.uint8, 'qint32': tede.int32}[dtype])
    made = tede._make_per_tensor_quantized_tensor(of, 0.5, zero)
    np.testing.assert_array_equal(made.dequantize().numpy(), floats(q, 0.5, zero))
    made = tede._make_per_channel_quantized_tensor(of, tede.full((100,), 0.5, dtype=tede.float64), tede.full((100,), zero), 0)
    np.testing.assert_array_equal(made.dequantize().numpy(), floats(q, 0.5, zero))
    x = np.array([0, -zero, 1e30, -1e30], 'f4')
    bits = np.clip(np.clip(np.rint(x), -2**31, 2**31).astype('i8') + zero, 0, 255) & 15
    assert tede.quantize_per_tensor(tede.from_numpy(x), 1, zero, tede.quint4x2).int_repr().tolist() == [bits[0] | bits[1] << 4, bits[2] | bits[3] << 4]


@pytest.mark.parametrize('dtype', DTYPES)
@pytest.mark.parametrize('shape, axis', [((5,), 0), ((3, 7), 0), ((3, 70), 1), ((2, 3, 33), 1), ((33, 2, 65), 0), ((2, 3, 4, 17), 3), ((0, 3), 1), ((3, 0), 0),
                                         ((1, 1), 1), ((2, 9, 5, 3, 2), 2)])
def test_channels_along_any_axis(shape, axis, dtype):
    n = shape[axis]
    scales, zeros, x = np.linspace(0.02, 0.7, n), np.arange(n) % 100, numbers(*shape)
    made = tede.quantize_per_channel(tede.from_numpy(x), tede.from_numpy(scales), tede.from_numpy(zeros), axis, getattr(tede, dtype))
    along = [n if d == axis else 1 for d in range(len(shape))]
    check(made, x, dtype, scales.reshape(along), zeros.reshape(along))


def strided(T, kind, seed=0):
    x = T.from_numpy(numbers(6, 5, 4, 3 + seed))[..., :3]
    if kind == 'last':
        return x.contiguous(memory_format=T.channels_last)
    if kind == 'turned':
        return x.contiguous().permute(3, 1, 0, 2)
    return x[::2, 1:] if kind == 'parts' else x[:1, :, :1].contiguous() if kind == 'row' else x


@pytest.mark.parametrize('dtype', DTYPES)
@pytest.mark.parametrize('kind', ('plain', 'last', 'turned', 'parts'))
def test_strided_tensors(kind, dtype):
    x = strided(tede, kind)
    q = tede.quantize_per_tensor(x, 0.05, 3, getattr(tede, dtype))
    assert q.stride() == tede.empty_like(x).stride()
    check(q, x.numpy(), dtype, 0.05, 3)
    check(q[1:, ::2], x.numpy()[1:, ::2], dtype, 0.05, 3)


@pytest.mark.parametrize('relu', ('', '_relu'))
@pytest.mark.parametrize('name', ('add', 'mul'))
@pytest.mark.parametrize('dtype', ('qint8', 'quint8'))
@pytest.mark.parametrize('n', SIZES)
def test_sums_and_products(n, dtype, name, relu):
    def make(T):
        a, b = operand(T, numbers(n), dtype, 0.031, 3), operand(T, numbers(n)[::-1], dtype, 0.25, 7)
        return getattr(T.ops.quantized, name + relu)(a, b, 0.0625, 11)
    right, made = both(make)
    same(made, right)


@pytest.mark.parametrize('name', ('add', 'mul'))
@pytest.mark.parametrize('kinds', [('plain', 'last'), ('last', 'last'), ('last', 'plain'), ('turned', 'turned'), ('plain', 'row'), ('row', 'plain'),
                                   ('parts', 'parts')])
def test_sums_and_products_of_strided_tensors(name, kinds):
    def make(T):
        a, b = (T.quantize_per_tensor(strided(T, kind, i), 0.031, 3, T.quint8) for i, kind in enumerate(kinds))
        return getattr(T.ops.quantized, name)(a, b, 0.093, 7)
    right, made = both(make)
    same(made, right)
    if kinds[0] == kinds[1]:
        assert made.stride() == right.stride()


def test_a_sum_without_dimensions():
    right, made = both(lambda T: T.ops.quantized.add(*(T.quantize_per_tensor(T.tensor(x), 0.1, 3, T.quint8) for x in (1.5, 2.2)), 0.17, 1))
    same(made, right)


def test_a_product_of_32_bits_stays_within_them():
    a = tede.quantize_per_tensor(tede.tensor([1e9, -1e9, 2.]), 1, 0, tede.qint32)
    for zero in (0, 5, -5):
        assert tede.ops.quantized.mul(a, a.clone(), 1, zero).int_repr().tolist() == [2**31 - 1, 2**31 - 1, 4 + zero]
        assert tede.ops.quantized.mul(a, -1).q_scale() == 1
        b = tede.quantize_per_tensor(tede.tensor([1e9, 1e9, -2.]), 1, 0, tede.qint32)
        assert tede.ops.quantized.mul(a, b, 1, zero).int_repr().tolist() == [2**31 - 1, -2**31, -4 + zero]
        assert tede.ops.quantized.mul_relu(a, b, 1, zero).int_repr().tolist() == [2**31 - 1, zero, zero]


def test_operands_of_sums_must_fit():
    a = tede.quantize_per_tensor(tede.ones(3), 0.1, 3, tede.quint8)
    add = tede._C._operators['_quantized_add']
    for b in (tede.ones(3), tede.quantize_per_tensor(tede.ones(3), 0.1, 3, tede.qint8)):
        with pytest.raises(RuntimeError, match='Expected operands of one dtype'):
            add(a, b, 0.1, 3, False)
    with pytest.raises(RuntimeError, match='Expected operands of one dtype'):
        add(tede.ones(3), a, 0.1, 3, False)
    with pytest.raises(NotImplementedError):
        add(tede.ones(3), tede.ones(3), 0.1, 3, False)
    with pytest.raises(RuntimeError, match='size of tensor a'):
        add(a, tede.quantize_per_tensor(tede.ones(4), 0.1, 3, tede.quint8), 0.1, 3, False)
    channels = tede.quantize_per_channel(tede.ones(3), tede.ones(3), tede.zeros(3, dtype=tede.int64), 0, tede.quint8)
    for pair in ((a, channels), (channels, a)):
        with pytest.raises(RuntimeError, match='kPerTensorAffine'):
            add(*pair, 0.1, 3, False)


ALL_LEVELS = '''
import hashlib, sys
sys.path.insert(0, sys.argv[1])
import tede
from test_quantized_loops import numbers
made = hashlib.sha256()
for dtype in (tede.qint8, tede.quint8, tede.qint32):
    for n in (1, 65, 1000):
        x = tede.from_numpy(numbers(n))
        a, b = tede.quantize_per_tensor(x, 0.031, 3, dtype), tede.quantize_per_tensor(x.flip(0), 0.25, 7, dtype)
        c = tede.quantize_per_channel(x, tede.linspace(0.02, 0.7, n), tede.arange(n) % 100, 0, dtype)
        results = [q.int_repr() for q in (a, b, c)] + [q.dequantize() for q in (a, b, c)] + [tede._C._operators['_dequantize_fused'](a)]
        for name in ('add', 'mul', 'add_relu', 'mul_relu'):
            results.append(getattr(tede.ops.quantized, name)(a, b, 0.0625, 11).int_repr())
        for y in results:
            made.update(y.numpy().tobytes())
print(made.hexdigest())
'''


def test_every_level_of_the_processor_gives_the_same_bits():
    made = set()
    for level in ('v2', 'v3', 'v4'):
        ran = subprocess.run([sys.executable, '-c', ALL_LEVELS, os.path.dirname(__file__)], env={**os.environ, 'TEDE_CPU': level}, capture_output=True,
                             text=True)
        assert ran.returncode == 0, ran.stderr
        made.add(ran.stdout)
    assert len(made) == 1


def test_joining_no_tensors_is_an_error():
    with pytest.raises(RuntimeError, match='non-empty list'):
        tede.ops.aten._quantized_cat([], 0, 1., 0, False)
