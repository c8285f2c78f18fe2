"""_view_func and its kin: a view as one of another base, and the base as a view of another tensor."""
import pytest


VIEWS = [lambda x: x[1], lambda x: x.t(), lambda x: x[:, ::2], lambda x: x.view(-1), lambda x: x.as_strided((2, 2), (1, 2), 1),
         lambda x: x.unfold(1, 2, 1), lambda x: x.unsqueeze(0).expand(3, -1, -1), lambda x: x.diagonal()]
COMPLEX = [lambda x: x.conj(), lambda x: x.real, lambda x: x.imag, lambda x: x.conj().imag, lambda x: x[1].conj()]


@pytest.mark.parametrize("i", range(len(VIEWS) + len(COMPLEX)))
def test_of_another_base(lib, i):
    dtype = lib.float64 if i < len(VIEWS) else lib.complex128
    view = (VIEWS + COMPLEX)[i]
    with lib.autograd._force_original_view_tracking(True):
        base = lib.rand(3, 4, dtype=dtype)
        made = view(base)
        other = lib.rand(3, 4, dtype=dtype)
        again = made._view_func_unsafe(other)
        assert (again.shape, again.stride(), again.dtype) == (made.shape, made.stride(), made.dtype) and again._base is other
        assert again.is_conj() == made.is_conj() and lib.equal(again.resolve_conj(), view(other).resolve_conj())
        assert lib.equal(made._view_func(other).resolve_conj(), view(other).resolve_conj())


def test_complex_numbers_of_pairs(lib):
    pairs, other = lib.rand(3, 2), lib.rand(3, 2)
    with lib.autograd._force_original_view_tracking(True):
        made = lib.view_as_complex(pairs)
        assert lib.equal(made._view_func_unsafe(other), lib.view_as_complex(other))


def test_the_base_as_a_view(lib):
    with lib.autograd._force_original_view_tracking(True):
        base = lib.arange(12.).view(3, 4).clone()
        for view in (lambda x: x.t(), lambda x: x[1:], lambda x: x.view(-1)):
            made = view(base)
            whole = made._rev_view_func_unsafe(made.detach())
            assert (whole.shape, whole.stride()) == (base.shape, base.stride()) and lib.equal(whole, base) and whole._is_view()


def test_gradients_go_through(lib):
    with lib.autograd._force_original_view_tracking(True):
        made = lib.rand(3, 4).t()[1]
        x = lib.rand(3, 4, requires_grad=True)
        made._view_func(x).sum().backward()
    assert x.grad.t().tolist() == [[0] * 3, [1] * 3, [0] * 3, [0] * 3]


def test_what_is_no_view_is_refused(lib):
    if lib.__name__ == "torch":
        pytest.skip("a tensor without a value comes back there")
    with pytest.raises(RuntimeError):
        lib.rand(2)._rev_view_func_unsafe(lib.rand(2))
