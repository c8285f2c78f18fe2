"""What random programs of further seeds found, and how PyTorch does it."""
import math

import pytest


def refused(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_inner_is_stored_in_its_own_dtype_alone(lib):
    a, b = lib.ones(2, dtype=lib.int64), lib.ones(2, 2, dtype=lib.int64)
    refused(lambda: lib.inner(a, b, out=lib.zeros(2)), RuntimeError, 'Expected the output tensor to have dtype Long')
    assert lib.inner(a, b, out=lib.zeros(2, dtype=lib.int64)).tolist() == [2, 2]
    assert lib.inner(a, lib.tensor(3), out=lib.zeros(2)).tolist() == [3, 3]           # of a number: a product, which converts


def test_half_complex_out(lib):
    half = lib.tensor([1., 2.], dtype=lib.float16)
    made = lib.complex(half, half, out=lib.zeros(2, dtype=lib.complex32))
    assert made.dtype is lib.complex32 and made.tolist() == [1 + 1j, 2 + 2j]


@pytest.mark.parametrize('dtype', ['float32', 'float16', 'complex64'])
def test_an_order_that_floats_cannot_hold(lib, dtype):
    x = lib.tensor([3., .5], dtype=getattr(lib, dtype))
    assert lib.linalg.vector_norm(x, 1e40).item() == 1
    assert lib.dist(x, lib.zeros_like(x), 1e40).item() == 1
    if dtype == 'float32':
        assert lib.renorm(lib.ones(2, 3) * 3, 1e40, 0, 1.).tolist() == [[3, 3, 3]] * 2


@pytest.mark.parametrize('dtype', ['float16', 'bfloat16'])
def test_limits_of_logit_in_halves(lib, dtype):
    y = lib.tensor([1.5, math.nan, .5, -1.], dtype=getattr(lib, dtype)).logit(1e-5)
    assert y[0].item() == math.inf and math.isnan(y[1].item()) and y[2].item() == 0 and -12 < y[3].item() < -11


@pytest.mark.parametrize('p', [0, 3, .5, 'x'])
def test_condition_numbers_of_no_elements(lib, p):
    for x in lib.ones(0, 3, 3), lib.eye(3):
        refused(lambda: lib.linalg.cond(x, p), RuntimeError, 'linalg.cond got an invalid norm type')  # noqa: B023
    assert lib.linalg.cond(lib.ones(0, 3, 3), -2).shape == (0,)


def test_combinations_are_no_view(lib):
    x = lib.tensor([1., 2., 3.], requires_grad=True)
    y = lib.combinations(x)
    assert not y._is_view() and y.tolist() == [[1, 2], [1, 3], [2, 3]]
    y.detach_()
    lib.combinations(x, 3, with_replacement=True).sum().backward()
    assert x.grad.tolist() == [10, 10, 10]


def test_what_was_scattered_into_is_no_view(lib):
    src = lib.ones(1, 4, requires_grad=True)
    y = lib.zeros(1, 4).as_strided_scatter(src, [1, 4], [1, 1], None)
    assert not y._is_view()
    y[lib.tensor([0])] += -1
    y.sum().backward()
    assert y.tolist() == [[0] * 4] and src.grad.tolist() == [[1] * 4]
