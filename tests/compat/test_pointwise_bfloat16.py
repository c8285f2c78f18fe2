"""Plain formulas on bfloat16 have loops that take two numbers at a time: they give what float32 gives, rounded once."""
import operator

import pytest

SPECIAL = [0.0, -0.0, 1.0, -1.0, float("inf"), float("-inf"), float("nan"), 3.3895e38, 1e-40, -1.0039, 256.0, 257.0]
FORMULAS = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": operator.truediv, "gt": operator.gt,
    "eq": operator.eq, "neg": lambda a, b: -a, "abs": lambda a, b: a.abs(), "relu": lambda a, b: a.relu(),
    "clamp": lambda a, b: a.clamp(-0.5, 1.25), "alpha": lambda a, b: a.add(b, alpha=2),
    "maximum": lambda a, b: a.maximum(b), "masked_fill": lambda a, b: a.masked_fill(b > 0, 2.0),
}


def numbers(lib, n):
    lib.manual_seed(n)
    return lib.cat([lib.tensor(SPECIAL), lib.randn(n) * 3])[:n].to(lib.bfloat16)


@pytest.mark.parametrize("name", FORMULAS)
def test_each_length_gives_what_float32_gives(lib, name):
    formula = FORMULAS[name]
    for n in (0, 1, 2, 3, 12, 31, 32, 33, 65, 1000, 1001, 40001):
        a, b = numbers(lib, n), numbers(lib, n).flip(0)
        result, wide = formula(a, b), formula(a.float(), b.float())
        assert result.dtype == (lib.bool if wide.dtype == lib.bool else lib.bfloat16)
        assert lib.equal(result.nan_to_num(9.0) if result.dtype != lib.bool else result,
                         wide.to(result.dtype).nan_to_num(9.0) if result.dtype != lib.bool else wide)


def test_operands_of_any_layout_and_partner(lib):
    m, row, column = numbers(lib, 300).view(15, 20), numbers(lib, 20), numbers(lib, 15)[:, None]
    odd = numbers(lib, 301)[1:].view(15, 20)         # begins in the middle of a word
    for other in (row, column, m.T.contiguous().T, odd, m[:, ::2].repeat(1, 2), m.new_tensor(2.5), m.float()):
        result, wide = m + other, m.float() + other.float()
        assert lib.equal(result.float().nan_to_num(9.0), wide.to(result.dtype).float().nan_to_num(9.0))
    wanted = (odd.float() * m.float()).to(lib.bfloat16)
    assert odd.mul_(m).data_ptr() % 4 == 2
    assert lib.equal(odd.nan_to_num(9.0), wanted.nan_to_num(9.0))
    out = lib.empty(15, 20, dtype=lib.float64)
    assert lib.equal(lib.add(m, row, out=out), (m.float() + row.float()).to(lib.bfloat16).double()) or out.isnan().any()
