"""What autograd refuses, and what it lets pass: views, marks of Functions, tangents, gradients that nobody has worked out."""
import warnings

import pytest


def raised(call):
    """The exception's type and the first words of its text, or the value."""
    try:
        return call()
    except Exception as error:
        return type(error).__name__, str(error).split("\n")[0]


def viewing(lib):
    class View(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.view_as(x)

        @staticmethod
        def backward(ctx, gradient):
            return gradient
    return View.apply


def test_a_view_from_a_function_is_not_written_whether_it_wants_a_gradient_or_not(lib):
    b = lib.rand(1, requires_grad=True)
    for x in (lib.rand(1, 2), lib.rand(1, 2, requires_grad=True).clone()):
        with pytest.raises(RuntimeError, match="This view was created inside a custom Function"):
            viewing(lib)(x).add_(b)


def test_as_strided_in_place_is_recorded_and_checked(lib):
    a = lib.ones(2, 3, requires_grad=True)
    b = a * 2
    b.as_strided_((2,), (1,), 1)
    b.sum().backward()
    assert a.grad.tolist() == [[0, 2, 2], [0, 0, 0]]
    part = (a * 2).unbind()[0]
    with pytest.raises(RuntimeError, match="function that returns multiple views"):
        part.as_strided_((1,), (1,))


def test_unsafe_split_gives_tensors_that_may_be_written(lib):
    for split in (lambda x: x.unsafe_split(1), lambda x: x.unsafe_split_with_sizes((1, 1, 1)), lambda x: x.unsafe_chunk(3)):
        a = lib.arange(9.).reshape(3, 3).requires_grad_()
        one, two, three = split(a * 2)
        one.mul_(two)
        one.sum().backward()
        assert not one._is_view()
        assert a.grad.tolist() == [[12, 16, 20], [0, 4, 8], [0, 0, 0]]


def test_new_data_keeps_the_version(lib):
    x = lib.randn(2, requires_grad=True)
    y = x * x
    x.data = lib.ones(2)
    y.sum().backward()                      # what was saved passes for unchanged
    assert x.grad.tolist() == [2, 2]
    z = lib.randn(2)
    z.add_(1).add_(1)
    z.data = lib.randn(3)
    assert z._version == 2


def test_resize_keeps_strides_of_the_same_shape_and_takes_a_format(lib):
    x = lib.arange(6).reshape(2, 3).t()
    assert x.resize_(3, 2).stride() == (1, 3)
    y = lib.empty(2, 3, 4, 5).resize_(2, 3, 5, 4, memory_format=lib.channels_last)
    assert y.stride() == (60, 1, 12, 3)
    assert lib.empty(1).resize_as_(y).stride() == (60, 20, 4, 1)
    assert lib.empty(1).resize_as_(y, memory_format=lib.preserve_format).stride() == (60, 1, 12, 3)


def test_a_gradient_that_nobody_worked_out_is_an_error_when_asked_for(lib):
    x = lib.rand(4, requires_grad=True)
    other = lib.rand(4, requires_grad=True)
    values, places = lib.unique(x, return_inverse=True)
    assert values.requires_grad and not places.requires_grad
    for result, name in ((values, "_unique2"), (lib.unique_consecutive(x), "unique_consecutive"), (lib.igamma(x, other), "igamma: input"),
                         (lib.special.zeta(x, other), "zeta")):
        with pytest.raises(NotImplementedError, match=f"the derivative for '{name}' is not implemented."):
            result.sum().backward()
    lib.igamma(x.detach(), other).sum().backward()
    with lib.autograd.forward_ad.dual_level(), pytest.raises(NotImplementedError, match="Trying to use forward AD with igamma"):
        lib.igamma(lib.autograd.forward_ad.make_dual(x.detach(), lib.ones(4)), other)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_digamma_is_flat_at_infinity(lib, dtype):
    x = lib.tensor([float("inf"), 1e30], dtype=getattr(lib, dtype), requires_grad=True)
    lib.digamma(x).sum().backward()
    lib.testing.assert_close(x.grad, lib.tensor([0., 1e-30], dtype=x.dtype), rtol=1e-6, atol=0)
    assert lib.polygamma(1, x)[0].item() == 0


def test_marks_of_a_function_are_checked(lib):
    class Foreign(lib.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            c = a * 3
            ctx.mark_dirty(c)
            return c

        @staticmethod
        def backward(ctx, gradient):
            return gradient * 3

    class Two(lib.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            ctx.mark_dirty(a)
            return a.add_(b), a + b

        @staticmethod
        def backward(ctx, first, second):
            return first + second, first + second
    a = lib.ones(2, requires_grad=True)
    with pytest.warns(UserWarning, match=r"ctx.mark_dirty\(\) received a tensor that was not an input"):
        Foreign.apply(a)
    with pytest.raises(RuntimeError, match="If your Function modifies inplace an input that is a view of another Tensor"):
        Two.apply(a.clone().view(2), a)


def test_jvp_writes_and_views_as_forward_does(lib):
    forward_ad = lib.autograd.forward_ad

    def scaled(jvp):
        class Scaled(lib.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.mark_dirty(x)
                return x.mul_(2)
        Scaled.jvp = staticmethod(jvp)
        return Scaled.apply

    def first(jvp):
        class First(lib.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x[:1]
        First.jvp = staticmethod(jvp)
        return First.apply
    with forward_ad.dual_level():
        tangent = lib.ones(2)
        dual = forward_ad.make_dual(lib.ones(2), tangent)
        assert scaled(lambda ctx, t: t.mul_(2))(dual) is dual
        assert forward_ad.unpack_dual(dual).tangent is tangent and tangent.tolist() == [2, 2]
        for jvp in (lambda ctx, t: t * 2, lambda ctx, t: t):
            with pytest.raises(RuntimeError, match="jvp function must modify the corresponding gradient inplace"):
                scaled(jvp)(forward_ad.make_dual(lib.ones(2), lib.ones(2)))
        assert forward_ad.unpack_dual(first(lambda ctx, t: t[:1])(dual)).tangent._base is tangent
        with pytest.raises(RuntimeError, match="the jvp is not returning a view"):
            first(lambda ctx, t: t[:1].clone())(dual)
        with pytest.raises(RuntimeError, match="not returning a view of the given grad input"):
            first(lambda ctx, t: t.clone()[:1])(dual)


def test_what_is_saved_for_forward_is_seen_by_jvp_alone(lib):
    seen = []

    class Product(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.save_for_backward(x, y)
            ctx.save_for_forward(y)
            return x * y

        @staticmethod
        def backward(ctx, gradient):
            seen.append(len(ctx.saved_tensors))
            x, y = ctx.saved_tensors
            return gradient * y, gradient * x

        @staticmethod
        def jvp(ctx, of_x, of_y):
            seen.append(len(ctx.saved_tensors))
            return of_x * ctx.saved_tensors[0]
    x, y = lib.ones(2, requires_grad=True), lib.full((2,), 3.)
    Product.apply(x, y).sum().backward()
    with lib.autograd.forward_ad.dual_level():
        out = Product.apply(lib.autograd.forward_ad.make_dual(x, lib.ones(2)), y)
        assert lib.autograd.forward_ad.unpack_dual(out).tangent.tolist() == [3, 3]
        out.sum().backward()
    assert seen == [2, 1, 2] and x.grad.tolist() == [6, 6]


def test_a_tangent_lies_in_memory_as_its_value_does(lib):
    forward_ad = lib.autograd.forward_ad
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(lib.arange(4.).reshape(2, 2).t(), lib.arange(4.).reshape(2, 2))
        seen = dual.as_strided((4,), (1,))
        assert forward_ad.unpack_dual(seen).tangent.tolist() == [0, 2, 1, 3]
        part = forward_ad.make_dual(lib.arange(5.)[:4].detach(), lib.ones(4))
        assert forward_ad.unpack_dual(part.as_strided((5,), (1,), 0)).tangent.tolist() == [1, 1, 1, 1, 0]
        for turn in (lambda x: x.conj(), lambda x: x._neg_view(), lambda x: x):
            z = forward_ad.make_dual(turn(lib.ones(2, dtype=lib.complex128)), lib.ones(2, dtype=lib.complex128) * 2j)
            assert forward_ad.unpack_dual(lib.imag(z)).tangent.tolist() == [2, 2]
        alone = dual.clone()
        alone.detach_()
        assert forward_ad.unpack_dual(alone * 2).tangent is None


def test_small_rules(lib):
    x = lib.ones(2, requires_grad=True)
    y = x ** 2
    assert raised(lambda: y.grad_fn()) == ("TypeError", "expected 1 arguments, got 0 instead")
    edge = lib.autograd.graph.get_gradient_edge(lib.rand(2, requires_grad=True).clone())
    with pytest.raises(RuntimeError, match="materialize_grads cannot be used when the given input is a GradientEdge"):
        lib.autograd.grad(y.sum(), (x, edge), allow_unused=True, materialize_grads=True)
    with pytest.raises(RuntimeError, match="Trying to create a SavedTensor object from Python is forbidden"):
        lib.autograd.SavedTensor()
    with lib.no_grad():
        assert x.numpy().tolist() == [1, 1]
    with lib.inference_mode():
        lib.autograd.graph.increment_version(lib.rand(2))
    hooks = lib._C._autograd
    with lib.autograd.graph.disable_saved_tensors_hooks("no hooks here"):
        assert not hooks._saved_tensors_hooks_is_enabled()
        assert hooks._saved_tensors_hooks_get_disabled_error_message() == "no hooks here"
    assert hooks._saved_tensors_hooks_is_enabled()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        (x * x).sum().grad_fn.next_functions[0][0]._raw_saved_self.register_hooks(lambda t: t, lambda t: t)
    assert not warned


# ---- what counts as a view, and as a write ---------------------------------------------------------------------------

def test_a_reshape_that_copies_is_no_view(lib):
    x = lib.ones(2, 3, requires_grad=True) * 1
    flat = x.t().reshape(6)
    assert not flat._is_view() and flat._base is None and flat.grad_fn.name() == "UnsafeViewBackward0"
    flat.mul_(2)                                    # x isn't written by it
    assert x._version == 0
    flat.sum().backward()
    assert x.reshape(6)._is_view()
    with lib.no_grad():
        made = lib.ones(2, 3).t().reshape(6)
    assert made.add_(lib.ones(6, requires_grad=True)).requires_grad


def test_bytes_as_another_dtype_are_no_differentiable_view(lib):
    x = lib.ones(2, 3, requires_grad=True) * 1
    bits, wide = x.view(lib.int32), lib.ones(4, requires_grad=True).mul(1).view(lib.float64)
    assert not bits._is_view() and not bits.requires_grad
    assert not wide.requires_grad and wide.grad_fn is None
    wide.add_(1)                                    # no history to disturb
    plain = lib.ones(3)
    plain.view(lib.int32).add_(1)
    assert plain._version == 1 and plain[0] != 1    # one memory, one count of its writes


def test_resizing_to_the_same_size_is_no_write(lib):
    x, like = lib.ones(3), lib.ones(10)
    x.resize_(3)
    assert x._version == 0
    x.resize_(2)
    assert x._version == 1
    x.resize_as_(like)
    x.resize_as_(like)
    assert x._version == 2


@pytest.mark.parametrize("layout", ["contiguous", "transposed"])
def test_batches_of_gradients_go_through_writes_to_views(lib, layout):
    w = lib.rand(3, dtype=lib.float64, requires_grad=True)
    base = lib.zeros(3, 2, dtype=lib.float64)
    base = base if layout == "contiguous" else lib.zeros(2, 3, dtype=lib.float64).t()
    base = base * 1
    base[:, 1].copy_(w * 2)
    base[0].mul_(3)
    seeds = lib.rand(4, 3, 2, dtype=lib.float64)
    together, = lib.autograd.grad(base, w, seeds, is_grads_batched=True, retain_graph=True)
    for seed, found in zip(seeds, together):
        assert lib.equal(found, lib.autograd.grad(base, w, seed, retain_graph=True)[0])


def test_a_context_that_keeps_its_output_is_collected(lib):
    import gc
    import weakref

    class Keep(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x, notes):
            ctx.notes = notes
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            return g, None

    def once():
        notes = {}
        notes["out"] = out = Keep.apply(lib.ones(2, requires_grad=True), notes)
        return weakref.ref(out)
    gone = once()
    gc.collect()
    assert gone() is None


def test_zeros_are_made_for_tensors_beside_an_edge(lib):
    x, y = (lib.rand(2, requires_grad=True).clone() for _ in range(2))
    edges = [lib.autograd.graph.GradientEdge(z.grad_fn, z.output_nr) for z in (x, y)]
    of_x, of_y = lib.autograd.grad(x.clone().sum(), (edges[0], y), materialize_grads=True)
    assert of_x.tolist() == [1, 1] and of_y.tolist() == [0, 0]
    with pytest.raises(RuntimeError, match="materialize_grads cannot be used when the given input is a GradientEdge"):
        lib.autograd.grad(x.clone().sum(), (x, edges[1]), materialize_grads=True)


def test_a_function_has_edges_for_its_tensors_only(lib):
    class Scale(lib.autograd.Function):
        @staticmethod
        def forward(ctx, factor, x, y, name):
            return x * factor + y

        @staticmethod
        def backward(ctx, g):
            return None, g, g, None
    x = lib.ones(2, requires_grad=True)
    edges = Scale.apply(2.0, x, lib.ones(2), "name").grad_fn.next_functions
    assert len(edges) == 2 and edges[0][0].variable is x and edges[1] == (None, 0)


def test_classes_of_nodes_by_name(lib):
    x = lib.ones(2, requires_grad=True)
    y = x.exp()
    leaf = y.grad_fn.next_functions[0][0]
    assert isinstance(leaf, lib._C._functions.AccumulateGrad) and leaf.name() == "torch::autograd::AccumulateGrad"
    assert type(leaf).__name__ == "AccumulateGrad" and type(y.grad_fn) is lib._C._functions.ExpBackward0
    y[0] = 1
    assert y.grad_fn.name() == "torch::autograd::CopySlices"
    with pytest.raises(RuntimeError, match="Boom"):
        lib._C._functions.DelayedError("Boom", 1)(x * 2).sum().backward()
    seen = []
    z = x * 2
    z.register_hook(seen.append)
    lib._C._functions.UndefinedGrad()(z).sum().backward()
    assert x.grad is None and seen == [None]


def test_saved_tensors_of_a_function_are_gone_after_backward(lib):
    class Two(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x, None)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2
    y = Two.apply(lib.ones(2, requires_grad=True))
    assert y.grad_fn.saved_tensors[1] is None and len(y.grad_fn._raw_saved_tensors) == 2
    y.sum().backward()
    for name in "_raw_saved_tensors", "saved_tensors":
        with pytest.raises(RuntimeError, match="after they have already been freed"):
            getattr(y.grad_fn, name)


def test_a_node_hook_added_as_values_are_unpacked_runs(lib):
    x = lib.ones(3, requires_grad=True)
    nodes = []

    def unpack(value):
        nodes[0].register_hook(lambda results, grads: tuple(r / 2 for r in results))
        return value
    with lib.autograd.graph.saved_tensors_hooks(lambda x: x, unpack):
        y = x.exp()
    nodes.append(y.grad_fn)
    y.sum().backward()
    assert lib.allclose(x.grad, x.detach().exp() / 2)


def test_log1p_has_a_second_derivative_of_complex_numbers(lib):
    x = lib.tensor([0.5 + 1j, -0.3 - 0.2j], dtype=lib.complex128, requires_grad=True)
    assert lib.autograd.gradgradcheck(lib.log1p, (x,))


def test_a_sums_factor_of_one_costs_nothing_and_a_complex_one_counts(lib):
    y = lib.ones(2, dtype=lib.complex64)
    for alpha in (1, 1 + 1j, 1.0, 2):
        _, tangent = lib.func.jvp(lambda y: lib.add(lib.zeros_like(y), y, alpha=alpha), (y,), (y,))
        assert tangent.tolist() == [alpha, alpha]
        x = y.clone().requires_grad_()
        assert lib.autograd.grad(lib.add(y, x, alpha=alpha), x, y)[0].tolist() == [complex(alpha).conjugate()] * 2
    a, b = lib.ones(2, requires_grad=True), lib.ones(2, requires_grad=True)
    with lib.profiler.profile() as p:
        lib.autograd.grad(a + b, (a, b), lib.ones(2))
    assert not any(e.key == "aten::mul" for e in p.key_averages())
