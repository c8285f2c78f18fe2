"""Calls in the order of PyTorch's first versions, with factors before tensors: programs of that time still make them."""
import warnings

import pytest


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def test_a_factor_before_the_other_tensor(lib):
    x, y = lib.tensor([1., 2.]), lib.tensor([10., 20.])
    assert lib.add(x, 2, y).tolist() == [21, 42]
    assert x.sub(2, y).tolist() == [-19, -38]
    assert x.clone().add_(0.5, y).tolist() == [6, 12]
    assert lib.add(x, 2, y, out=lib.empty(2)).tolist() == [21, 42]


def test_a_factor_before_a_product(lib):
    x, y = lib.tensor([1., 2.]), lib.tensor([10., 20.])
    assert x.clone().addcmul_(0.1, y, y).tolist() == pytest.approx([11, 42])
    assert lib.addcdiv(x, 2, y, x).tolist() == [21, 22]


@pytest.mark.parametrize("name, shapes", [("addmm", ((2, 2), (2, 2), (2, 2))), ("addmv", ((2,), (2, 2), (2,))),
                                          ("addr", ((2, 2), (2,), (2,))), ("baddbmm", ((3, 2, 2), (3, 2, 2), (3, 2, 2))),
                                          ("addbmm", ((2, 2), (3, 2, 2), (3, 2, 2)))])
def test_beta_and_alpha_before_matrices(lib, name, shapes):
    x, a, b = (lib.rand(shape) for shape in shapes)
    function, wanted = getattr(lib, name), getattr(lib, name)(x, a, b, beta=2, alpha=3)
    assert lib.equal(function(2, x, 3, a, b), wanted)
    assert lib.equal(getattr(x, name)(2, 3, a, b), wanted)
    assert lib.equal(getattr(x.clone(), name + "_")(2, a, b), function(x, a, b, beta=2))


def test_what_isnt_an_older_form_is_refused(lib):
    x = lib.ones(2)
    with pytest.raises(TypeError):
        lib.add(2, x, x)
    with pytest.raises(TypeError):
        x.addcmul(2, 3, x)
    with pytest.raises(TypeError):
        x.mul(2, x)
