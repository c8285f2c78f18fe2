"""functorch.einops.rearrange."""
import importlib

import pytest


@pytest.fixture
def rearrange(lib):
    found = importlib.import_module("tede.func._einops" if lib.__name__ == "tede" else "functorch.einops").rearrange
    return getattr(found, "rearrange", found)       # PyTorch has a module of that name, too


def test_dimensions_by_name(lib, rearrange):
    x = lib.arange(2 * 3 * 4 * 5).reshape(2, 3, 4, 5)
    assert lib.equal(rearrange(x, "a b c d -> d c b a"), x.permute(3, 2, 1, 0))
    assert lib.equal(rearrange(x, "a b ... -> (a b) ..."), x.flatten(0, 1))
    assert lib.equal(rearrange(x, "a ... d -> d (... a)"), x.permute(3, 1, 2, 0).reshape(5, 24))
    assert lib.equal(rearrange(x, "a b (h w) d -> (a h) w (b d)", h=2), x.reshape(2, 3, 2, 2, 5).permute(0, 2, 3, 1, 4).reshape(4, 2, 15))
    assert rearrange(x, "a b c d -> a 1 b c () d").shape == (2, 1, 3, 4, 1, 5)
    assert rearrange(lib.ones(2, 1, 3), "a 1 b -> (b a)").shape == (6,)
    assert rearrange([x, x], "n a ... -> a n ...").shape == (2, 2, 3, 4, 5)
    assert rearrange(lib.ones(()), "... -> ...").shape == () and rearrange(lib.ones(0, 3), "a b -> (b a)").shape == (0,)
    y = lib.ones(2, 3, requires_grad=True)
    rearrange(y, "a b -> b a")[0].sum().backward()
    assert y.grad.tolist() == [[1, 0, 0], [1, 0, 0]]


@pytest.mark.parametrize("pattern, lengths, error", [
    ("a b", {}, ValueError), ("a -> b -> c", {}, ValueError), ("a b c -> c b a", {}, ValueError), ("a a -> a", {}, ValueError),
    ("a b -> a", {}, ValueError), ("a b -> a b c", {}, ValueError), ("a b -> ... a b", {}, ValueError), ("(...) -> ...", {}, ValueError),
    ("(a b -> a b", {}, ValueError), ("((a) b) -> a b", {}, ValueError), ("_a b -> b _a", {}, ValueError), ("a 3 -> a", {}, ValueError),
    ("a b -> b a", {"c": 2}, ValueError), ("a b -> b a", {"a": "2"}, TypeError), (". b -> b", {}, ValueError)])
def test_refused(lib, rearrange, pattern, lengths, error):
    with pytest.raises(error):
        rearrange(lib.ones(2, 3), pattern, **lengths)
