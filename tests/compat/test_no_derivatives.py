"""Operators without a derivative: what they leave of a history, and what they refuse."""
import warnings

import pytest

COMPARISONS = ["eq_", "ne_", "lt_", "le_", "gt_", "ge_", "not_equal_", "less_", "less_equal_", "greater_", "greater_equal_"]


@pytest.mark.parametrize("name", COMPARISONS)
@pytest.mark.parametrize("other", ["number", "tensor"])
def test_a_comparison_in_place_ends_the_history(lib, name, other):
    w = lib.tensor([1., 2., 3.], requires_grad=True)
    other = 2. if other == "number" else lib.full((3,), 2.)
    y = w * 2
    getattr(y, name)(other)
    assert y.requires_grad and y.grad_fn.name() != "MulBackward0"
    y.sum().backward()
    assert w.grad.tolist() == [0, 0, 0]
    base = w * 2
    getattr(base[:2], name)(1.)
    assert lib.autograd.grad(base.sum(), w)[0].tolist() == [0, 0, 2]
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad is being used in an in-place operation"):
        getattr(w, name)(other)
    with lib.no_grad():
        getattr(w, name)(other)
    assert w.is_leaf and w.requires_grad
    assert not getattr(lib, name[:-1])(w, other).requires_grad


@pytest.mark.parametrize("name", ["floor_divide", "heaviside"])
def test_what_has_no_derivative_says_so_in_backward(lib, name):
    w, other = lib.tensor([1., 2.], requires_grad=True), lib.tensor([2., 2.], requires_grad=True)
    for call in (lambda: getattr(lib, name)(w, other.detach()), lambda: getattr(lib, name)(w.detach(), other), lambda: getattr(w.clone(), name + "_")(other)):
        y = call()
        assert y.requires_grad and y.grad_fn is not None
        with pytest.raises(RuntimeError, match=f"derivative for aten::{name}_? is not implemented"):
            y.sum().backward()
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad is being used in an in-place operation"):
        getattr(w, name + "_")(other)
    assert not getattr(lib, name)(w.detach(), other.detach()).requires_grad
    forward = lib.autograd.forward_ad
    with forward.dual_level(), pytest.raises(NotImplementedError, match="forward AD"):
        getattr(lib, name)(forward.make_dual(w.detach(), w.detach()), other.detach())
    a = w.remainder(other).sum()
    assert lib.autograd.grad(a, (w, other))[0].tolist() == [1, 1]


def test_the_results_of_factors_of_zero_and_of_ones(lib):
    def leaf(*shape):
        return lib.ones(*shape, requires_grad=True)
    for beta, alpha in ((0, 0), (0, 1), (1, 0)):
        for k in range(3):
            operands = [lib.full((2, 2), float("nan")) if beta == 0 else lib.ones(2, 2), lib.ones(2), lib.ones(2)]
            operands[k].requires_grad_()
            result = lib.addr(*operands, beta=beta, alpha=alpha)
            assert result.requires_grad and not result.isnan().any()
            assert lib.autograd.grad(result.sum(), operands[k])[0].shape == operands[k].shape
    assert not lib.vander(leaf(3), 1).requires_grad and lib.vander(leaf(3), 2).requires_grad
    for name in ("max", "min"):
        with pytest.raises(RuntimeError, match="out=... arguments don't support automatic differentiation"):
            getattr(lib, name)(leaf(3), 0, out=(lib.empty(()), lib.empty((), dtype=lib.int64)))
        with lib.no_grad():
            getattr(lib, name)(leaf(3), 0, out=(lib.empty(()), lib.empty((), dtype=lib.int64)))


@pytest.mark.parametrize("dtype, title", [("int64", "Long"), ("int32", "Int"), ("int8", "Char")])
def test_a_result_of_an_integral_dtype_has_no_derivative(lib, dtype, title):
    w, dtype = lib.tensor([.5, 2.5, 3.], requires_grad=True), getattr(lib, dtype)
    calls = [lambda name=name, args=args: getattr(lib, name)(w, *args, dtype=dtype)
             for name, args in [("sum", ()), ("sum", (0,)), ("prod", ()), ("prod", (0,)), ("nansum", ()), ("nansum", (0,)), ("cumsum", (0,)), ("cumprod", (0,))]]
    zeros, first = lib.zeros(3, dtype=dtype), lib.tensor([True, False, False])
    calls += [lambda: zeros.masked_fill(first, w[0]), lambda: zeros.index_fill(0, lib.tensor([0]), w[0]), lambda: lib.fill(zeros, w[0])]
    for call in calls:
        with pytest.raises(RuntimeError, match=f"Autograd not support dtype: {title}"):
            call()
        with lib.no_grad():
            assert call().dtype == dtype
    assert not w.to(dtype).requires_grad and lib.sum(w, dtype=lib.float64).requires_grad


def test_losses_refuse_operands_without_a_derivative(lib):
    F = lib.nn.functional

    def numbers(grad=False):
        return lib.tensor([.5, .25, .75], requires_grad=grad)
    calls = {("binary_cross_entropy", "weight"): lambda w: F.binary_cross_entropy(numbers(), numbers(), w),
             ("binary_cross_entropy_with_logits", "weight"): lambda w: F.binary_cross_entropy_with_logits(numbers(), numbers(), w),
             ("binary_cross_entropy_with_logits", "pos_weight"): lambda w: F.binary_cross_entropy_with_logits(numbers(), numbers(), pos_weight=w),
             ("soft_margin_loss", "target"): lambda w: F.soft_margin_loss(numbers(), w)}
    for (name, argument), call in calls.items():
        with pytest.raises(RuntimeError, match=f"'{name}' is not differentiable with respect to argument '{argument}'"):
            call(numbers(True))
        with lib.no_grad():
            assert not call(numbers(True)).requires_grad
    for loss in (F.binary_cross_entropy, F.binary_cross_entropy_with_logits):
        target = numbers(True)
        assert lib.autograd.grad(loss(numbers(), target), target)[0].isfinite().all()


def test_counts_have_a_history_that_backward_refuses(lib):
    def leaf(*shape):
        return lib.full(shape, .5, requires_grad=True)
    edges = lib.tensor([0., 1.])
    calls = [("histogram", lambda: lib.histogram(leaf(4), 3)), ("histogram", lambda: lib.histogram(leaf(4), edges)),
             ("histogram", lambda: lib.histogram(leaf(4).detach(), edges.clone().requires_grad_())),
             ("histogram", lambda: lib.histogram(leaf(4).detach(), 3, weight=leaf(4))), ("bincount", lambda: [lib.bincount(lib.tensor([1, 2]), leaf(2))]),
             ("_histogramdd_from_bin_cts", lambda: [lib.histogramdd(leaf(4, 2), [2, 2]).hist]),
             ("_histogramdd_bin_edges", lambda: lib.histogramdd(leaf(4, 2), [2, 2]).bin_edges),
             ("_histogramdd_from_bin_tensors", lambda: [lib.histogramdd(leaf(4, 2), [edges, edges]).hist])]
    for name, call in calls:
        for result in call():
            assert result.requires_grad and result.grad_fn is not None
            with pytest.raises(RuntimeError, match=f"derivative for aten::{name} is not implemented"):
                result.sum().backward()
    assert not lib.histogram(leaf(4).detach(), 3).hist.requires_grad
    bins = edges.clone().requires_grad_()
    result = lib.histogram(leaf(4), bins)
    assert bins.is_leaf and result.bin_edges.data_ptr() != bins.data_ptr()
    assert not lib.bincount(lib.tensor([1, 2]), leaf(2).detach()).requires_grad
    forward = lib.autograd.forward_ad
    with forward.dual_level(), pytest.raises(NotImplementedError, match="forward AD"):
        lib.histogram(forward.make_dual(leaf(4).detach(), lib.ones(4)), 3)


def test_out_takes_what_backward_refuses(lib):
    w, two = lib.tensor([1., 5.], requires_grad=True), lib.full((2,), 2.)
    calls = {"floor_divide": lambda outs: lib.floor_divide(w, two, out=outs[0]), "heaviside": lambda outs: lib.heaviside(two, w, out=outs[0]),
             "histogram": lambda outs: lib.histogram(w, 2, out=tuple(outs)),
             "scatter": lambda outs: lib.scatter(w, 0, lib.tensor([0]), 2., reduce="add", out=outs[0])}
    for name, call in calls.items():
        outs = [lib.zeros(2), lib.zeros(3)]
        call(outs)
        for out in outs if name == "histogram" else outs[:1]:
            assert out.requires_grad and not out.is_leaf
        with pytest.raises(RuntimeError, match=f"derivative for aten::{name} is not implemented"):
            outs[0].sum().backward()
        with pytest.raises(RuntimeError, match="out=... arguments don't support automatic differentiation"):
            call([out.detach().requires_grad_() for out in outs])
        with lib.no_grad():
            outs = [lib.zeros(2), lib.zeros(3)]
            call(outs)
            assert not outs[0].requires_grad
    with pytest.raises(RuntimeError, match="out=... arguments don't support automatic differentiation"):
        lib.geqrf(lib.eye(2).requires_grad_(), out=(lib.zeros(2, 2), lib.zeros(2)))


def test_a_fraction_that_fills_integers_does_not_warn(lib):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert lib.zeros(2, dtype=lib.int8).masked_fill(lib.tensor([True, False]), lib.tensor(2.5)).tolist() == [2, 0]


def test_some_have_no_gradient_of_complex_numbers(lib):
    F = lib.nn.functional
    calls = {"silu": F.silu, "geqrf": lib.geqrf, "normal": lib.normal}
    for name, call in calls.items():
        x = lib.full((2, 2), .5 + 1j, requires_grad=True)
        with pytest.raises(RuntimeError, match=f"{name} does not support automatic differentiation for outputs with complex dtype"):
            call(x)
        with lib.no_grad():
            call(x)
        results = call(lib.full((2, 2), .5, requires_grad=True))
        assert all(y.requires_grad for y in (results if name == "geqrf" else [results]))
    assert F.silu(lib.full((2,), 1j, requires_grad=True) * 1, inplace=True).requires_grad
