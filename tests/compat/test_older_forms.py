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


def test_the_old_constructors_look_at_a_tensor(lib):
    x = lib.ones(3, requires_grad=True)
    for make in (lib.Tensor, lib.FloatTensor, x.new):
        y = make(x)
        assert y.data_ptr() == x.data_ptr() and y._base is x
        x.grad = None
        (y * 2).sum().backward()
        assert x.grad.tolist() == [2, 2, 2]
    whole = lib.Tensor(lib.tensor([1, 2]))
    assert whole.dtype == lib.int64
    for make in (lib.FloatTensor, x.new):
        with pytest.raises(TypeError, match="expected"):
            make(lib.tensor([1, 2]))
    assert x.new(size=(3, 4)).shape == (3, 4)


def test_a_view_may_be_given_other_data(lib):
    whole = lib.ones(4)
    part = whole[:2]
    part.data = lib.zeros(3)
    part.add_(2)
    assert part.tolist() == [2, 2, 2] and whole.tolist() == [1, 1, 1, 1]
    bits = whole.view(lib.int32)
    bits.data = lib.zeros(1, dtype=lib.int32)
    assert bits.tolist() == [0] and whole.tolist() == [1, 1, 1, 1]
    part = whole[1:]
    part.set_(lib.full((2,), 7.0))
    assert part.tolist() == [7, 7]
    y = (lib.ones(2, requires_grad=True) * 2)[0]
    y.data = lib.tensor(5.0)
    assert y.requires_grad and y == 5


@pytest.mark.filterwarnings("ignore:Use of")
def test_expanded_tensors_are_written_by_indices_with_a_warning(lib):
    x = lib.zeros(3, 1).expand(3, 4)
    x[lib.tensor([0])] = 1.0
    assert x[:, 0].tolist() == [1, 0, 0]
    x[lib.tensor([False, True, False])] = 2.0
    assert x[:, 3].tolist() == [1, 2, 0]
    x.index_fill_(0, lib.tensor([2]), 3)
    assert x[:, 1].tolist() == [1, 2, 3]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="Use of index_put_ on expanded tensors is deprecated"):
            x.index_put_((lib.tensor([0]),), lib.tensor(5.0))


@pytest.mark.parametrize("arguments", [((6, 0), 1, 1, 0), ([1], 2)], ids=str)
def test_old_constructors_name_the_forms_that_they_have(lib, arguments):
    with pytest.raises(TypeError, match="received an invalid combination of arguments - got .*int.*but expected one of"):
        lib.LongTensor(*arguments)
    with pytest.raises(TypeError, match="received an invalid combination of arguments"):
        lib.LongTensor(x=3)
    with pytest.raises(TypeError, match="data must be a sequence"):
        lib.FloatTensor(2.5)


def test_tensors_that_change_places_change_slots(lib):
    class Slotted(lib.Tensor):
        __slots__ = ("a", "b")

    x, y = lib.ones(2).as_subclass(Slotted), lib.zeros(2).as_subclass(Slotted)
    x.a, y.a, y.b = 1, 2, 3
    lib.utils.swap_tensors(x, y)
    assert (x.a, x.b, y.a) == (2, 3, 1) and not hasattr(y, "b") and x.tolist() == [0, 0]
