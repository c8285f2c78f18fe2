"""Number formats: every bit pattern against a formula of exact fractions, and what operators do with them."""
import io
import math
from fractions import Fraction

import pytest

import tede

# mantissa bits, bias, largest number, what is beyond it, whether NaN is the code of -0
FLOAT8 = {"float8_e4m3fn": (3, 7, 448, 448, False), "float8_e5m2": (2, 15, 57344, math.inf, False),
          "float8_e4m3fnuz": (3, 8, 240, math.nan, True), "float8_e5m2fnuz": (2, 16, 57344, math.nan, True)}
BITS = "bits8", "bits1x8", "bits2x4", "bits4x2", "bits16"
ALL = *FLOAT8, "float8_e8m0fnu", "float4_e2m1fn_x2", *BITS, "complex32"


def value(name, code):
    """The number that a code stands for: sign and Fraction, or a float that is not finite."""
    if name == "float8_e8m0fnu":
        return math.nan if code == 255 else Fraction(2)**(code - 127)
    mantissa, bias, largest, _, one_nan = FLOAT8[name]
    sign, exponent, rest = code >> 7, (code & 127) >> mantissa, code & ((1 << mantissa) - 1)
    if one_nan and code == 128:
        return math.nan
    number = Fraction((rest | (exponent > 0) << mantissa), 1 << mantissa) * Fraction(2)**(max(exponent, 1) - bias)
    if number > largest:
        return (-math.inf if sign else math.inf) if name == "float8_e5m2" and rest == 0 else math.nan
    return -number if sign else number


def codes(name):
    return tede.arange(256).to(tede.uint8).view(getattr(tede, name))


def same(a, b):
    return a == b or (a != a and b != b)


@pytest.mark.parametrize("name", [*FLOAT8, "float8_e8m0fnu"])
def test_a_code_stands_for_its_number(name):
    numbers = codes(name).double().tolist()
    assert all(same(found, float(value(name, code))) for code, found in enumerate(numbers))
    assert codes(name).tolist()[3] == numbers[3] == codes(name)[3].item()
    if name == "float8_e4m3fn":
        assert math.copysign(1, numbers[128]) == -1


@pytest.mark.parametrize("name", FLOAT8)
def test_a_number_is_rounded_to_the_nearest_and_even_code(name):
    """Each code's number, those in the middle between two, and the floats beside those."""
    finite = [(v, c) for c in range(128) if not isinstance(v := value(name, c), float)]
    largest, beyond = FLOAT8[name][2:4]
    cases = [(v, c) for v, c in finite]
    for (a, i), (b, j) in zip(finite, finite[1:], strict=False):
        middle, even = (a + b) / 2, i if i % 2 == 0 else j
        cases += [(middle, even), (middle * (1 - Fraction(1, 2**22)), i), (middle * (1 + Fraction(1, 2**22)), j)]
    given = [float(v) for v, _ in cases]
    for sign in 1, -1:
        found = tede.tensor([sign * x for x in given], dtype=tede.float32).to(getattr(tede, name)).view(tede.uint8).tolist()
        negative = [c | 128 if sign < 0 and not (FLOAT8[name][4] and c == 0) else c for _, c in cases]
        assert found == negative
        far = tede.tensor([sign * x for x in (largest * 1.25, 1e30, math.inf)]).to(getattr(tede, name)).tolist()
        assert all(same(x, sign * beyond) for x in far)
    assert tede.tensor(math.nan).to(getattr(tede, name)).isnan().item()


def test_powers_of_two_are_rounded_to_the_nearest():
    exact = tede.tensor([2.**e for e in range(-127, 128)], dtype=tede.float32)
    assert exact.to(tede.float8_e8m0fnu).view(tede.uint8).tolist() == list(range(255))
    found = tede.tensor([1.25, 1.5, 1.75, -4., 0., math.inf, math.nan]).to(tede.float8_e8m0fnu).tolist()
    assert all(map(same, found, [1., 2., 2., 4., 2.**-127, math.nan, math.nan]))


@pytest.mark.parametrize("name", [*FLOAT8, "float8_e8m0fnu"])
def test_other_dtypes_go_by_way_of_float32(name):
    dtype, x = getattr(tede, name), codes(name)
    for other in "float16", "bfloat16", "float64", "complex64", "complex128", "complex32":
        wide = x.float().to(getattr(tede, other))
        found = x.to(getattr(tede, other))
        assert tede.equal(found.isnan(), wide.isnan()) and tede.equal(found[~wide.isnan()].cfloat(), wide[~wide.isnan()].cfloat())
        assert bytes_of(wide.to(dtype)[~wide.isnan()]) == bytes_of(wide.to(tede.complex64).real.to(dtype)[~wide.isnan()])
    whole = tede.arange(-300, 300)
    for other in "bool", "int8", "uint8", "int16", "int32", "int64":
        integers = whole.to(getattr(tede, other))
        assert tede.equal(integers.to(dtype).view(tede.uint8), integers.float().to(dtype).view(tede.uint8))
    small = x[(x.float().abs() < 100)]
    assert tede.equal(small.to(tede.int8), small.float().to(tede.int8)) and tede.equal(x.bool(), x.float().bool())


def test_complex_numbers_of_halves():
    halves = tede.arange(2**16).to(tede.int32).to(tede.int16).view(tede.float16)
    z = tede.view_as_complex(tede.stack([halves, halves.roll(9)], 1))
    assert z.dtype is tede.complex32 and z.element_size() == 4 and z.real.dtype is tede.float16
    wide, finite = z.to(tede.complex64), halves.isfinite() & halves.roll(9).isfinite()
    assert tede.equal(wide.real[finite], halves.float()[finite]) and tede.equal(wide.imag[finite], halves.roll(9).float()[finite])
    assert tede.equal(wide.to(tede.complex32).view(tede.int16)[finite.repeat_interleave(2)], z.view(tede.int16)[finite.repeat_interleave(2)])
    a, b = z[finite][:5000], z[finite].roll(77)[:5000]
    for f in (lambda x, y: x + y, lambda x, y: x - y, lambda x, y: -x, lambda x, y: x.conj() + 0, lambda x, y: x * 2):
        rounded = f(a.cfloat(), b.cfloat()).to(tede.complex32)
        assert tede.equal(f(a, b).view(tede.int16), rounded.view(tede.int16))
    assert (tede.ones(2, dtype=tede.half) * 1j).dtype is tede.complex32 and a.abs().dtype is tede.float16
    x = tede.tensor([3 + 4j, 1j], dtype=tede.complex32, requires_grad=True)
    (x * x.conj()).real.sum().backward()
    assert x.grad.dtype is tede.complex32 and x.grad.tolist() == [6 + 8j, 2j]
    assert tede.full((3,), 1 - 2j, dtype=tede.chalf).sum().item() == 3 - 6j and x.detach().norm().dtype is tede.float16


def test_what_is_written_in_place_is_rounded_back():
    z = tede.tensor([1 + 1j, 2], dtype=tede.complex32)
    assert z.index_add_(0, tede.tensor([0, 0]), z.clone()) is z and z.tolist() == [4 + 2j, 2]
    out = tede.empty(0, dtype=tede.half)
    assert tede.linalg.vector_norm(z[1:], out=out) is out and out.item() == 2
    x = tede.zeros(4, dtype=tede.float8_e5m2)
    x[tede.tensor([1, 3])] = tede.tensor([1.5, 2.], dtype=tede.float8_e5m2)
    assert x.tolist() == [0, 1.5, 0, 2] and x.index_put_((tede.tensor([1]),), x[3:], accumulate=True).tolist() == [0, 3.5, 0, 2]
    out = tede.empty(0, dtype=tede.float8_e5m2)
    assert tede.cat([x, x[:1]], out=out) is out and out.tolist() == [0, 3.5, 0, 2, 0] and out.stride() == (1,)


def bytes_of(x):
    return x.contiguous().view(tede.uint8).tolist()


@pytest.mark.parametrize("name", ALL)
def test_elements_are_moved_bit_by_bit(name):
    """As integers of their size are: NaNs keep their bits."""
    dtype = getattr(tede, name)
    integers = tede.arange(256).to({1: tede.uint8, 2: tede.int16, 4: tede.int32}[dtype.itemsize]) * (1 if dtype.itemsize == 1 else 257)
    x, chosen, i = integers.view(dtype), tede.arange(256) % 3 == 0, tede.tensor([3, 0, 4])
    moves = [lambda x: x.clone(), lambda x: tede.cat([x, x[:5]]), lambda x: tede.stack([x, x], 1), lambda x: x[::3], lambda x: x.reshape(4, -1).t().contiguous(),
             lambda x: tede.where(chosen, x, x[7]), lambda x: x.roll(3), lambda x: x.flip(0), lambda x: x[:6].repeat(2, 2),
             lambda x: x[:6].expand(3, 6).contiguous(), lambda x: tede.nn.functional.embedding(i, x.reshape(32, 8)), lambda x: x.clone().fill_(x[9])]
    if name == "complex32" or name.startswith("float8"):
        moves += [lambda x: x[i], lambda x: x[chosen], lambda x: x.index_select(0, i), lambda x: x.masked_select(chosen)]
    if name == "complex32" or name in FLOAT8:
        moves += [lambda x: x.clone().index_put_((i,), x[:3])]
    for move in moves:
        assert bytes_of(move(x)) == bytes_of(move(integers)) and move(x).dtype is dtype
    assert not any(bytes_of(tede.zeros(300, dtype=dtype))) and not any(bytes_of(x.clone().zero_()))
    assert tede.empty(2, 3, dtype=dtype, device="meta").t().contiguous().dtype is dtype


@pytest.mark.parametrize("name", [*ALL, "qint8", "quint8", "qint32", "quint4x2", "quint2x4"])
def test_what_is_not_there_is_refused_by_name(name):
    x, title = tede.zeros(3, dtype=getattr(tede, name)), {"complex32": "ComplexHalf"}.get(name, name.capitalize())
    title = title.replace("Qint", "QInt").replace("Quint", "QUInt")
    with pytest.raises(NotImplementedError, match=f"not implemented for '{title}'"):
        x.sort()
    with pytest.raises(NotImplementedError, match=f"not implemented for '{title}'"):
        x.cumsum(0)
    if name != "complex32":
        with pytest.raises(NotImplementedError, match=f"not implemented for '{title}'"):
            x + x
    if not (name == "complex32" or name.startswith("float8")):
        for convert in (lambda: x.float(), lambda: tede.ones(3).to(x.dtype), lambda: x.copy_(tede.ones(3)), lambda: x.fill_(1), lambda: x[0].item()):
            with pytest.raises(NotImplementedError, match=f"not implemented for '{title}'"):
                convert()
        with pytest.raises(RuntimeError, match="invalid type"):
            tede.tensor([1.], dtype=x.dtype)
        for call in (lambda: tede.arange(3, dtype=x.dtype), lambda: tede.ones(3) / x[0], lambda: tede.atan2(x, x), lambda: tede.add(1, tede.tensor(2), out=x[0]),
                     lambda: tede.eye(3, dtype=x.dtype), lambda: tede.linspace(0, 1, 3, dtype=x.dtype), lambda: tede.ones(3).sum(dtype=x.dtype)):
            with pytest.raises((RuntimeError, TypeError)):
                call()
    with pytest.raises((TypeError, RuntimeError)):
        x.numpy()


def test_promotion_has_no_place_for_float8():
    x = tede.ones(2, dtype=tede.float8_e5m2)
    with pytest.raises(RuntimeError, match="Promotion for Float8 Types is not supported, attempted to promote Float8_e5m2 and Float"):
        tede.cat([x, tede.ones(2)])
    with pytest.raises(RuntimeError, match="Promotion for Float8 Types"):
        tede.where(tede.tensor(True), x, tede.ones(2))
    assert tede.cat([tede.ones(1, dtype=tede.complex32), tede.ones(1)]).dtype is tede.complex64
    assert tede.where(tede.tensor([True, False]), tede.full((2,), 2j, dtype=tede.complex32), 1).tolist() == [2j, 1]
    assert (x == 1).tolist() == [True, True]


def test_numbers_that_do_not_fit_are_refused():
    with pytest.raises(RuntimeError, match="value cannot be converted to type c10::Float8_e4m3fn without overflow"):
        tede.zeros(2, dtype=tede.float8_e4m3fn).fill_(449)
    with pytest.raises(RuntimeError, match="without overflow"):
        tede.zeros(2, dtype=tede.complex32).fill_(1e5)


@pytest.mark.parametrize("name", ALL)
def test_files_and_capsules_keep_the_bits(name):
    x = (tede.arange(64).to(tede.uint8) * 3).view(getattr(tede, name))
    file = io.BytesIO()
    tede.save({"x": x, "part": x[2:5]}, file)
    file.seek(0)
    read = tede.load(file)
    assert read["x"].dtype is x.dtype and bytes_of(read["x"]) == bytes_of(x) and bytes_of(read["part"]) == bytes_of(x[2:5])
    if not name.startswith("bits"):
        shared = tede.from_dlpack(x.__dlpack__())
        assert shared.dtype is x.dtype and shared.data_ptr() == x.data_ptr()
    from tede import safetensors
    if name.startswith("float8"):
        back = safetensors.load(safetensors.save({"x": x}))["x"]
        assert back.dtype is x.dtype and bytes_of(back) == bytes_of(x)
    else:
        with pytest.raises(TypeError, match="the format has no dtype"):
            safetensors.save({"x": x})


def test_products_of_float8_are_rounded_once():
    x, y = tede.randn(5, 40).to(tede.float8_e4m3fn), tede.randn(40, 6).to(tede.float8_e4m3fn)
    assert tede.equal((x @ y).view(tede.uint8), (x.float() @ y.float()).to(tede.float8_e4m3fn).view(tede.uint8))
    assert x.any().item() and not x.all(1).dtype.is_floating_point
