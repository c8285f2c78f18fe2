"""Functions that go over runs: what lies at the ends of vectors and blocks, and special values among ordinary ones."""
import math

import pytest

SPECIAL = [0.0, -0.0, math.inf, -math.inf, math.nan, 1e-40, -1e-40, 1e-30, 3e38, 88.7, 88.8, -87.4, -104.0, 1e5, -2e5, 4.0, 9.2]
FUNCTIONS = {'exp': math.exp, 'erf': math.erf, 'tanh': math.tanh, 'sqrt': math.sqrt, 'sin': math.sin, 'cos': math.cos}


def expected(name, x):
    try:
        return FUNCTIONS[name](x)
    except ValueError:
        return math.nan
    except OverflowError:
        return math.inf


@pytest.mark.parametrize('name', FUNCTIONS)
@pytest.mark.parametrize('length', [1, 15, 17, 255, 256, 257, 600])
def test_values_at_every_place(lib, name, length):
    x = lib.tensor([(SPECIAL * 40)[i] if i % 3 else i / 50 - 5 for i in range(length)])
    want = [expected(name, value) for value in x.tolist()]
    for got, right in zip(getattr(lib, name)(x).tolist(), want):
        if right != right:
            assert got != got
        elif abs(right) > 3.4e38:
            assert got == math.copysign(math.inf, right)
        else:
            assert abs(got - right) <= 4e-7 * abs(right) + 1e-45
            assert math.copysign(1, got) == math.copysign(1, right)


def test_a_loop_cut_in_two_may_write_where_it_reads(lib):
    x = lib.linspace(-6, 6, 1000)
    y = x.clone()
    lib.erf_(y)
    assert lib.equal(y, lib.erf(x))
    y = x.clone()
    assert lib.equal(y.fmod_(0.7), lib.fmod(x, 0.7))


@pytest.mark.parametrize('low', [0, -3, 10 ** 12])
def test_unique_of_numbers_that_lie_close_together(lib, low):
    numbers = [low + i * i % 7 for i in range(50)]
    values, inverse, counts = lib.unique(lib.tensor(numbers).view(5, 10), return_inverse=True, return_counts=True)
    assert values.tolist() == sorted(set(numbers))
    assert values[inverse].flatten().tolist() == numbers
    assert counts.tolist() == [numbers.count(v) for v in values.tolist()]


def test_bincount_of_many_small_and_one_large_number(lib):
    x = lib.arange(20000) % 11
    assert lib.bincount(x, minlength=13).tolist() == [1819] * 2 + [1818] * 9 + [0] * 2
    assert lib.bincount(lib.cat((x, lib.tensor([20000])))).sum() == 20001
    with pytest.raises(RuntimeError, match='non-negative'):
        lib.bincount(lib.cat((x, lib.tensor([-1]))))


def test_multinomial_with_replacement_gives_each_category_its_share(lib):
    lib.manual_seed(0)
    drawn = lib.bincount(lib.multinomial(lib.tensor([1.0, 0.0, 3.0, 0.0, 4.0]), 8003, True), minlength=5).tolist()
    assert drawn[1] == drawn[3] == 0
    assert all(abs(count - 8003 * share / 8) < 200 for count, share in zip(drawn[::2], (1, 3, 4)))
