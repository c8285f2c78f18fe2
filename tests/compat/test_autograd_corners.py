"""Rare corners of autograd that PyTorch's own tests visit: what nodes show, views made in odd modes, operators without a gradient."""
import warnings

import pytest


def test_a_saved_operand_that_was_detached_in_place_is_refused(lib):
    a = lib.tensor(1.0, requires_grad=True).clone()
    b = a.sin()
    a.detach_()
    with pytest.raises(RuntimeError, match="saved tensor that has been detached in-place"):
        b.backward()
    a = lib.tensor(1.0, requires_grad=True).clone()
    b = a.exp()             # saves its result
    a.detach_()
    b.backward()


def test_views_made_in_inference_mode_say_so(lib):
    x = lib.rand(3, requires_grad=True).clone()
    with lib.inference_mode():
        v = x.view(3)
    with pytest.raises(RuntimeError, match="A view was created in inference mode and is being modified inplace in normal mode.*"
                                           "inside the inference_mode block"):
        v.add_(1)
    with pytest.raises(RuntimeError, match="Output 0 of View is a view of a view which was created in inference mode"):
        v.view(3).add_(1)
    x.add_(1)
    with pytest.raises(RuntimeError, match="created in inference mode and its base or another view of its base has been modified"):
        v.grad_fn  # noqa: B018
    with lib.no_grad():
        v = x.view(3)
    with pytest.raises(RuntimeError, match="created in no_grad mode and is being modified inplace with grad mode enabled"):
        v.add_(1)


def test_nodes_tell_what_they_kept_besides_tensors(lib):
    x = lib.rand(2, 3, requires_grad=True)
    assert lib.stack([x, x], 1).grad_fn._saved_dim == 1
    assert x.sum(1, keepdim=True).grad_fn._saved_keepdim is True
    assert x.sum(1).grad_fn._saved_dim == (1,)
    assert x.sum().grad_fn._saved_self_sym_sizes == (2, 3)
    assert x.softmax(1).grad_fn._saved_dim == 1
    assert lib.nn.functional.leaky_relu(x, 0.2).grad_fn._saved_negative_slope == 0.2
    assert lib.nn.functional.gelu(x, approximate="tanh").grad_fn._saved_approximate == "tanh"
    assert x.to(lib.float64).grad_fn.name() == "ToCopyBackward0"
    with pytest.raises(AttributeError):
        x.exp().grad_fn._saved_dim  # noqa: B018


def test_nodes_tell_what_gradients_they_take(lib):
    seen = (lib.rand(2, 3, requires_grad=True) * 2).grad_fn._input_metadata
    assert len(seen) == 1
    assert (tuple(seen[0].shape), seen[0].dtype, seen[0].device.type) == ((2, 3), lib.float32, "cpu")
    assert seen[0].is_nested_tensor is False
    values, indices = lib.rand(2, 3, requires_grad=True).sort()
    assert values.grad_fn._input_metadata[0].dtype == values.dtype


def test_classes_of_a_functions_nodes(lib):
    class Twice(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    node = Twice.apply(lib.rand(3, requires_grad=True)).grad_fn
    assert isinstance(node, Twice._backward_cls)
    assert isinstance(node, lib.autograd.function.BackwardCFunction)
    assert not isinstance(lib.rand(3, requires_grad=True).clone().grad_fn, lib.autograd.function.BackwardCFunction)


def test_a_context_whose_node_is_gone_never_says_that_nothing_was_saved(lib):
    kept = []

    class Same(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x

        @staticmethod
        def backward(ctx, g):
            kept.append(ctx)
            return ctx.saved_tensors

    loss = Same.apply(lib.zeros(1, requires_grad=True))
    loss.backward(retain_graph=True)
    assert len(kept[0].saved_tensors) == 1
    del loss
    try:
        assert len(kept[0].saved_tensors) == 1
    except RuntimeError as error:
        assert "after they have already been freed" in str(error)


def test_gradients_of_outputs_marked_as_not_differentiable_may_stay_none(lib):
    seen = []

    class Two(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            a, b = x.clone(), x.clone()
            ctx.mark_non_differentiable(b)
            ctx._materialize_non_diff_grads = False
            return a, b

        @staticmethod
        def backward(ctx, g, h):
            seen.append(h)
            return g

    Two.apply(lib.tensor(1.0, requires_grad=True))[0].backward()
    assert seen == [None]


def test_copies_into_tensors_have_their_old_name(lib):
    x = lib.rand(2, requires_grad=True)
    assert lib.ones(2).copy_(x).grad_fn.name() == "torch::autograd::CopyBackwards"


def test_histories_are_taken_away_by_a_setter(lib):
    x = lib.rand(2, requires_grad=True).clone()
    with pytest.raises(RuntimeError, match="Deletion of _grad_fn not allowed"):
        del x._grad_fn
    with pytest.raises(RuntimeError, match="_grad_fn can be only set to None"):
        x._grad_fn = 1
    x._grad_fn = None
    assert x.grad_fn is None


def test_setters_ask_modes_and_classes(lib):
    seen = []

    class Watch(lib.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append((func.__name__, len(args)))
            return func(*args, **(kwargs or {}))

    x, g = lib.rand(2), lib.ones(2)
    with Watch():
        x.requires_grad = True
        x.grad = g
        x.data = g
        x.grad = None
    assert seen == [("__set__", 2)] * 4
    assert x.requires_grad and x.tolist() == [1, 1]

    class Own(lib.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            seen.append(func)
            return super().__torch_function__(func, types, args, kwargs or {})

    y = lib.rand(2).as_subclass(Own)
    y.requires_grad = True
    assert seen[-1] == lib.Tensor.requires_grad.__set__ and y.requires_grad


@pytest.fixture
def fallback(lib):
    made = lib.library.Library("corners", "FRAGMENT")
    yield made
    made._destroy()


def _warnings(run):
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        run()
    return [str(w.message) for w in warned if "an autograd kernel was not registered" in str(w.message)]


def test_operators_without_a_gradient_warn_when_one_comes_by(lib, fallback):
    def through_numpy(x):
        return lib.from_numpy(x.detach().numpy() * 2)
    fallback.define("plain(Tensor x) -> Tensor")
    fallback.impl("plain", through_numpy, "CPU")
    fallback.define("recorded(Tensor x) -> Tensor")
    fallback.impl("recorded", lambda x: x * 2, "CPU")
    fallback.define("made(Tensor x) -> Tensor")
    fallback.impl("made", lambda x: x * 2, "CompositeImplicitAutograd")
    fallback.define("left(Tensor x) -> Tensor")
    fallback.impl("left", through_numpy, "CPU")
    fallback.impl("left", lib.library.fallthrough_kernel, "Autograd")
    ops = lib.ops.corners
    x = lib.ones(2, requires_grad=True)
    y = ops.plain(x)
    assert y.requires_grad and "WarnNotImplemented" in y.grad_fn.name()
    warned = _warnings(lambda: y.sum().backward())
    assert len(warned) == 1 and warned[0].startswith("corners::plain: ") and x.grad is None
    z = ops.recorded(x)
    assert len(_warnings(lambda: z.sum().backward())) == 1 and x.grad.tolist() == [2, 2]
    assert not _warnings(lambda: ops.made(x).sum().backward()) and x.grad.tolist() == [4, 4]
    assert not ops.left(x).requires_grad
    with lib.no_grad():
        assert not ops.plain(x).requires_grad
    assert not ops.plain(lib.ones(2)).requires_grad


def test_the_warning_of_operators_without_a_gradient_can_be_off(lib, fallback):
    fallback.define("quiet(Tensor x) -> Tensor")
    fallback.impl("quiet", lambda x: x.detach() * 2, "CPU")
    before = lib._C._get_autograd_fallback_mode()
    assert before == "warn"
    lib._C._set_autograd_fallback_mode("nothing")
    try:
        assert not lib.ops.corners.quiet(lib.ones(2, requires_grad=True)).requires_grad
    finally:
        lib._C._set_autograd_fallback_mode(before)


def test_a_view_taken_before_its_base_became_dual(lib):
    fw = lib.autograd.forward_ad
    x, t = lib.arange(6.).reshape(2, 3), lib.arange(6.).reshape(2, 3) * 10
    base = lib.ones(2, 3)
    row, flat, turned = base[0], base.view(-1), base.t()
    with fw.dual_level():
        base.copy_(fw.make_dual(x, t))
        assert fw.unpack_dual(row).tangent.tolist() == [0, 10, 20]
        assert fw.unpack_dual((flat * 2).sum()).tangent.item() == 300
        assert fw.unpack_dual(turned.clone()).tangent.tolist() == t.t().tolist()
        row.mul_(3)
        assert fw.unpack_dual(base).tangent.tolist() == [[0, 30, 60], [30, 40, 50]]
    base = lib.ones(2, 3)
    first, second, flat = base[0], base[1], base.view(-1)
    with fw.dual_level():
        first.copy_(fw.make_dual(x[0], t[0]))
        assert fw.unpack_dual(flat).tangent.tolist() == [0, 10, 20, 0, 0, 0]
        assert fw.unpack_dual(second + 1).tangent.tolist() == [0, 0, 0]
    base = lib.ones(2, 3, dtype=lib.complex64)
    parts, real = lib.view_as_real(base), base.real
    with fw.dual_level():
        base.mul_(fw.make_dual(x, t))
        assert fw.unpack_dual(real).tangent.tolist() == t.tolist()
        assert fw.unpack_dual(parts).tangent[..., 0].tolist() == t.tolist()


def test_gradients_of_sparse_conversions_have_the_operands_layout(lib):
    dense = lib.rand(4, 4, dtype=lib.float64) + 1
    g = lib.rand(4, 4, dtype=lib.float64) + 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for source in ("to_dense", "to_sparse", "to_sparse_csr"):
            for target in ("to_sparse", "to_sparse_csr"):
                x = getattr(dense, source)().requires_grad_()
                got, = lib.autograd.grad(getattr(x, target)(), x, getattr(g, target)())
                assert got.layout == x.layout and got.to_dense().tolist() == g.tolist()


def test_what_a_function_writes_and_gives_back_stays_itself_at_levels(lib):
    class Doubled(lib.autograd.Function):
        @staticmethod
        def forward(x):
            return x.mul_(2)

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.mark_dirty(inputs[0])

        @staticmethod
        def backward(ctx, g):
            return g * 2

        @staticmethod
        def vmap(info, in_dims, x):
            return x.mul_(2), in_dims[0]

    x = lib.arange(3.0)
    assert lib.func.vmap(lib.func.grad(lambda x: Doubled.apply(x.clone())))(x).tolist() == [2, 2, 2]
    assert lib.func.vmap(lambda x: Doubled.apply(x.clone()))(x).tolist() == [0, 2, 4]


def test_matrix_exponentials_under_every_derivative(lib):
    a = lib.linspace(-1, 1, 18, dtype=lib.float64).reshape(2, 3, 3)
    f = lib.linalg.matrix_exp
    assert lib.autograd.gradcheck(f, a.clone().requires_grad_(), check_forward_ad=True, check_batched_grad=True)
    assert lib.autograd.gradgradcheck(f, a.clone().requires_grad_())
    gradient = lib.func.grad(lambda x: f(x).sum())
    assert lib.allclose(lib.func.vmap(gradient)(a), lib.stack([gradient(x) for x in a]))


def test_numbers_that_order_nodes_and_count_writes(lib):
    node = (lib.rand(2, requires_grad=True) * 2).grad_fn
    node._set_sequence_nr(node._sequence_nr() + 5)
    with pytest.raises(RuntimeError, match="below 0: -1"):
        lib._C._autograd._unsafe_set_version_counter((lib.ones(2),), (-1,))


def test_a_written_view_keeps_its_history_when_its_base_is_detached(lib):
    x = lib.rand(2, 2, requires_grad=True)
    base = x.clone()
    view = base.view(4)
    view.mul_(2)
    base.detach_()
    assert view.requires_grad and not base.requires_grad
    gradient, = lib.autograd.grad(view.sum(), x)
    assert gradient.tolist() == [[2, 2], [2, 2]]


def test_whether_a_view_is_a_leaf_is_an_error_where_its_history_is(lib):
    base = lib.rand(3, requires_grad=True).clone()
    with lib.no_grad():
        view = base.view(3)
    base.mul_(2)
    with pytest.raises(RuntimeError, match="created in no_grad mode and its base or another view of its base has been modified"):
        view.is_leaf  # noqa: B018


def test_a_conversion_with_nothing_to_do_leaves_its_operand_a_leaf(lib):
    x = lib.eye(2).to_sparse().requires_grad_()
    x.to_sparse().to_dense().sum().backward()
    assert x.is_leaf and x.grad is not None
