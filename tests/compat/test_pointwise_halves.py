"""Plain formulas on bfloat16 and float16 have loops of their own: they give what float32 gives, rounded once."""
import operator

import pytest

SPECIAL = [0.0, -0.0, 1.0, -1.0, float("inf"), float("-inf"), float("nan"), 3.3895e38, 1e-40, -1.0039, 256.0, 257.0]
FORMULAS = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": operator.truediv, "gt": operator.gt,
    "eq": operator.eq, "neg": lambda a, b: -a, "abs": lambda a, b: a.abs(), "relu": lambda a, b: a.relu(),
    "clamp": lambda a, b: a.clamp(-0.5, 1.25), "alpha": lambda a, b: a.add(b, alpha=2),
    "maximum": lambda a, b: a.maximum(b), "sqrt": lambda a, b: a.abs().sqrt(), "floor": lambda a, b: a.floor(),
    "copysign": lambda a, b: a.copysign(b), "addcmul": lambda a, b: a.addcmul(a, b), "masked_fill": lambda a, b: a.masked_fill(b > 0, 2.0),
}


@pytest.fixture(params=["bfloat16", "float16"])
def dtype(lib, request):
    return getattr(lib, request.param)


def numbers(lib, n, dtype):
    lib.manual_seed(n)
    return lib.cat([lib.tensor(SPECIAL), lib.randn(n) * 3])[:n].to(dtype)


@pytest.mark.parametrize("name", FORMULAS)
def test_each_length_gives_what_float32_gives(lib, name, dtype):
    if lib.__name__ == "torch" and name == "sqrt":
        pytest.skip("PyTorch's square root of float16 is off by one rounding on some processors")
    formula = FORMULAS[name]
    for n in (0, 1, 2, 3, 12, 31, 32, 33, 65, 1000, 1001, 40001):
        a, b = numbers(lib, n, dtype), numbers(lib, n, dtype).flip(0)
        result, wide = formula(a, b), formula(a.float(), b.float())
        assert result.dtype == (lib.bool if wide.dtype == lib.bool else dtype)
        assert lib.equal(result.nan_to_num(9.0) if result.dtype != lib.bool else result,
                         wide.to(result.dtype).nan_to_num(9.0) if result.dtype != lib.bool else wide)


def test_operands_of_any_layout_and_partner(lib, dtype):
    m, row, column = numbers(lib, 300, dtype).view(15, 20), numbers(lib, 20, dtype), numbers(lib, 15, dtype)[:, None]
    odd = numbers(lib, 301, dtype)[1:].view(15, 20)         # begins in the middle of a word
    for other in (row, column, m.T.contiguous().T, odd, m[:, ::2].repeat(1, 2), m.new_tensor(2.5), m.float()):
        result, wide = m + other, m.float() + other.float()
        assert lib.equal(result.float().nan_to_num(9.0), wide.to(result.dtype).float().nan_to_num(9.0))
    wanted = (odd.float() * m.float()).to(dtype)
    assert odd.mul_(m).data_ptr() % 4 == 2
    assert lib.equal(odd.nan_to_num(9.0), wanted.nan_to_num(9.0))
    out = lib.empty(15, 20, dtype=lib.float64)
    assert lib.equal(lib.add(m, row, out=out), (m.float() + row.float()).to(dtype).double()) or out.isnan().any()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", ["add", "sub", "remainder", "fmod", "pow", "mul", "div"])
def test_a_number_beside_halves_is_rounded_to_them_but_in_products_and_quotients(lib, dtype, name):
    dtype = getattr(lib, dtype)
    x = lib.linspace(-7, 7, 1000).to(dtype)
    x = x.abs() if name == "pow" else x
    function, rounded = getattr(lib, name), lib.tensor(0.1, dtype=dtype).float()
    beside = 0.1 if name in ("mul", "div") else float(rounded)
    wanted = function(x.float(), beside).to(dtype)
    assert lib.equal(function(x, 0.1), wanted)
    written = x.clone()
    assert lib.equal(getattr(written, name + "_")(0.1), wanted) and lib.equal(function(x, 0.1, out=x.clone()), wanted)
    if name in ("remainder", "pow", "mul"):           # the number first is always rounded
        assert lib.equal(function(0.1, x), function(rounded, x.float()).to(dtype))
