"""torch._vmap_internals, the older entry to vmap: what it takes and what it refuses."""
import importlib
import warnings

import pytest


@pytest.fixture
def older(lib):
    return importlib.import_module(f"{lib.__name__}._vmap_internals")


def test_it_warns_unless_it_is_called_by_its_inner_name(lib, older):
    x = lib.arange(6.0).reshape(2, 3)
    with pytest.warns(FutureWarning, match="torch.vmap"):
        mapped = older.vmap(lambda x: (x.sum(), x * 2), out_dims=(0, 1))
    assert [y.tolist() for y in mapped(x)] == [[3, 12], [[0, 6], [2, 8], [4, 10]]]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        total, nothing = older._vmap(lambda x: (x.sum(), None), 1, 0, True)(x)
    assert total.tolist() == [3, 5, 7] and nothing is None


def test_what_it_refuses(lib, older):
    x = lib.ones(2, 3)
    for match, call in {
            r"Got in_dim=-1 .* expected in_dim to satisfy 0 <= in_dim < 2": lambda: older._vmap(lambda x: x, -1)(x),
            "must only return Tensors, got type <class 'list'> as the return": lambda: older._vmap(lambda x: [x])(x),
            "got type <class 'int'> for return 1": lambda: older._vmap(lambda x: (x, 3))(x),
            "`out_dims` must be an int or a tuple of int": lambda: older._vmap(lambda x: x, out_dims=None)(x),
            "`out_dims` must have one dim per output": lambda: older._vmap(lambda x: x, out_dims=(0, 0))(x)}.items():
        with pytest.raises(ValueError, match=match):
            call()


def test_a_dual_number_of_a_batch_has_the_tangent_that_it_was_given(lib, older):
    forward = lib.autograd.forward_ad
    given = []

    def tangent_of(tangent):
        with forward.dual_level():
            dual = forward.make_dual(lib.ones(3), tangent)
            given.append(forward.unpack_dual(dual).tangent is tangent)
            return forward.unpack_dual(dual * 2).tangent
    assert older._vmap(tangent_of, 0, 0)(lib.ones(2, 3)).tolist() == [[2.] * 3] * 2 and given == [True]


def test_a_tangent_of_a_batch_lies_as_its_value_does(lib, older):
    forward = lib.autograd.forward_ad

    def tangent_of(value, given):
        with forward.dual_level():
            return forward.unpack_dual(forward.make_dual(value, given)).tangent
    tangent = lib.arange(12.).reshape(2, 2, 3)
    for value, stride in ((lib.zeros(3, 2).t(), (1, 2)), (lib.zeros(2, 3), (3, 1))):
        result = older._vmap(lambda given: tangent_of(value, given), 0, 0)(tangent)
        assert lib.equal(result, tangent) and result[0].stride() == stride
        assert (result is tangent) == (stride == (3, 1))


def test_random_numbers_are_refused_without_a_way_to_allow_them(lib, older):
    x = lib.ones(2, 3)
    for call in (lib.randn_like, lambda x: lib.rand(3), lambda x: x.bernoulli_(), lib.nn.functional.dropout):
        with pytest.raises(RuntimeError, match="We do not yet support calling random operations inside of vmap"):
            older._vmap(call)(x)
    with pytest.raises(RuntimeError, match="randomness error mode"):
        lib.vmap(lib.randn_like)(x)
