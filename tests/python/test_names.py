"""Names of dimensions: checked when an operator begins, carried over to its results, shown in errors. PyTorch had them until
2.12, with this API."""
import pytest

import tede


@pytest.fixture
def x():
    return tede.arange(24.).reshape(2, 3, 4).refine_names("N", "C", "L")


def test_names_are_given_changed_and_taken_away(x):
    assert x.names == ("N", "C", "L") and x.has_names() and tede.zeros(2).names == (None,)
    assert tede.zeros(2, 3, names=("N", None)).names == ("N", None)
    assert x.rename(N="B").names == ("B", "C", "L") and x.rename("A", ..., ).names == ("A", "C", "L")
    assert x.rename(None).names == (None, None, None) and not x.rename(None).has_names()
    assert x.refine_names(...).names == x.names
    y = tede.zeros(2, 3)
    y.names = ["a", "b"]
    assert y.names == ("a", "b") and y.rename_(a="c") is y and y.names == ("c", "b")
    assert "names=('N', 'C', 'L')" in repr(x)


@pytest.mark.parametrize("call, message", [
    (lambda x: x.rename("N", "N", "C"), "duplicate names"), (lambda x: x.rename("N"), "do not match"),
    (lambda x: x.refine_names("C", "N", "L"), "cannot coerce"), (lambda x: x.rename(Q="R"), "does not exist"),
    (lambda x: x + x.rename("C", "N", "L"), "at the same position from the right but do not match"),
    (lambda x: x + tede.ones(4, names=("C",)), "do not match"), (lambda x: x.sum("Q"), "not found in"),
    (lambda x: x.align_to("N", "C"), "Cannot find dim"), (lambda x: x.rename("1a", None, None), "valid identifier"),
])
def test_what_does_not_fit_is_an_error(x, call, message):
    with pytest.raises(RuntimeError, match=message):
        call(x)


@pytest.mark.parametrize("call, names", [
    (lambda x: x + 1, "NCL"), (lambda x: x.relu(), "NCL"), (lambda x: x * x.rename(None), "NCL"),
    (lambda x: x + tede.ones(4, names=("L",)), "NCL"), (lambda x: x > 3, "NCL"), (lambda x: x.clone(), "NCL"),
    (lambda x: x.sum("C"), "NL"), (lambda x: tede.sum(x, "C"), "NL"), (lambda x: x.mean(["N", "L"]), "C"),
    (lambda x: x.sum("C", keepdim=True), "NCL"), (lambda x: x.sum(), ""), (lambda x: x.max("C")[0], "NL"),
    (lambda x: x.softmax("C"), "NCL"), (lambda x: x.transpose("N", "L"), "LCN"), (lambda x: x[0], "CL"),
    (lambda x: x[:, 1:], "NCL"), (lambda x: x[..., 0], "NC"), (lambda x: x.select("C", 0), "NL"),
    (lambda x: x.unbind("N")[1], "CL"), (lambda x: x.align_to("L", "N", "C"), "LNC"), (lambda x: x.align_to("L", ...), "LNC"),
    (lambda x: x.align_to("N", "C", "H", "L"), "NCHL"), (lambda x: tede.ones(4, names=("L",)).align_as(x), "NCL"),
    (lambda x: x.flatten(["C", "L"], "F"), "NF"), (lambda x: x.unflatten("L", (("H", 2), ("W", 2))), "NCHW"),
    (lambda x: x[0] @ tede.ones(4, 2, names=("L", "O")), "CO"), (lambda x: tede.matmul(x, tede.ones(4, 2)), "NC?"),
    (lambda x: x[0].t(), "LC"), (lambda x: x.detach(), "NCL"), (lambda x: x.double(), "NCL"),
])
def test_names_follow_the_dimensions(x, call, names):
    result = call(x)
    assert result.names == tuple(None if n == "?" else n for n in names)


def test_numbers_and_gradients_are_those_without_names(x):
    plain = x.rename(None)
    assert x.sum("C").rename(None).equal(plain.sum(1)) and x.size("C") == 3 and x.shape == plain.shape
    w = tede.ones(2, 3, requires_grad=True)
    (w.refine_names("N", "C") * 2).sum("C").sum().backward()
    assert w.grad.tolist() == [[2.0] * 3] * 2


def test_an_error_of_an_operator_shows_the_names(x):
    with pytest.raises(RuntimeError, match=r"operand 0: \[2, 3, 4\], names \['N', 'C', 'L'\]"):
        x + tede.ones(3)
    with pytest.raises(RuntimeError, match="not yet supported with named tensors"):
        tede.outer(x[0, 0], x[0, 0])
