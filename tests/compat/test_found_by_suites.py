"""Behaviour that PyTorch's own test files check, and that tede lacked."""
import importlib
import warnings

import pytest


# ---- autograd

def test_nodes_are_instances_of_a_class_that_is_not_among_their_bases(lib):
    graph = importlib.import_module(f"{lib.__name__}.autograd.graph")
    node = lib.rand(3, requires_grad=True).exp().grad_fn
    assert isinstance(node, graph.Node) and issubclass(type(node), graph.Node) and graph.Node not in type(node).mro()
    assert not isinstance(None, graph.Node) and not isinstance(graph.Node, graph.Node)

    class Same(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            assert isinstance(ctx, graph.Node)
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            assert isinstance(ctx, graph.Node)
            return g
    Same.apply(lib.ones(2, requires_grad=True)).sum().backward()


def test_an_edge_stays_good_when_its_leaf_gets_other_memory(lib):
    graph = importlib.import_module(f"{lib.__name__}.autograd.graph")
    x = lib.rand(2, requires_grad=True)
    edge = graph.get_gradient_edge(x)
    y = (x * 3).sum()
    with lib.no_grad():
        x.set_(lib.rand(2))
    with pytest.raises(RuntimeError, match="to not have been used in the graph"):
        lib.autograd.grad(y, x, retain_graph=True)
    assert lib.autograd.grad(y, edge)[0].tolist() == [3, 3]


def test_the_first_gradient_of_a_graph_is_copied_with_the_strides_of_its_leaf(lib):
    x = lib.rand(3, 2).t().requires_grad_()
    (x * x).sum().backward(create_graph=True)
    assert x.grad.requires_grad and x.grad.stride() == x.stride()
    g, = lib.autograd.grad(x.grad.sum(), x)
    assert g.tolist() == [[2, 2, 2], [2, 2, 2]]


def test_a_backward_marked_once_differentiable_cuts_the_graph(lib):
    function = importlib.import_module(f"{lib.__name__}.autograd.function")

    class Twice(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        @function.once_differentiable
        def backward(ctx, g):
            assert not lib.is_grad_enabled()
            return g * 2
    x = lib.ones(2, requires_grad=True)
    g, = lib.autograd.grad((Twice.apply(x) ** 2).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="marked with @once_differentiable"):
        g.sum().backward()


def test_functions_of_old_apply(lib):
    old = importlib.import_module(f"{lib.__name__}.autograd._functions")
    x = lib.rand(2, 3, requires_grad=True)
    y = old.Resize.apply(x, (3, 2))
    y.sum().backward()
    assert y.shape == (3, 2) and x.grad.shape == (2, 3)
    with pytest.raises(RuntimeError, match="requested resize to 2x2"):
        old.Resize.apply(x, (2, 2))
    basis = lib.autograd.functional._construct_standard_basis_for((lib.rand(2), lib.rand([])), (2, 1))
    assert [b.tolist() for b in basis] == [[[1, 0], [0, 1], [0, 0]], [[0], [0], [1]]]


def test_cholesky_of_no_matrix_has_a_history(lib):
    for shape in (0, 0), (0, 3, 3):
        x = lib.ones(shape, requires_grad=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            lib.cholesky(x).sum().backward()
        assert x.grad.shape == shape


def test_as_strided_scatter_counts_from_the_begin_of_the_storage(lib):
    x, src = lib.arange(9.)[1:5], lib.tensor([10., 11.])
    assert lib.as_strided_scatter(x, src, (2,), (1,), 1).tolist() == [10, 11, 3, 4]
    assert lib.as_strided_scatter(x, src, (2,), (1,)).tolist() == [10, 11, 3, 4]
    with pytest.raises(RuntimeError, match="as_strided_scatter is currently only supported for contiguous inputs"):
        lib.as_strided_scatter(lib.ones(2, 3).t().requires_grad_(), src, (2,), (1,))


def test_frequencies_are_written_in_order_with_a_warning_where_they_do_not_fit(lib):
    for make in lib.fft.fftfreq, lib.fft.rfftfreq:
        out = lib.empty(())
        with pytest.warns(UserWarning, match="out tensor will be resized"):
            make(8, out=out)
        assert out.tolist() == make(8).tolist()
    assert lib.fft.rfftfreq(6, out=lib.empty(2, 2)).shape == (2, 2)


# ---- masked operators of sparse tensors

def sparse(x, layout):
    return x.to_sparse() if layout == "coo" else x.to_sparse_csr()


@pytest.fixture
def data(lib):
    return lib.tensor([[1., 0., 2.], [0., 0., 3.], [4., 5., 0.]]), lib.tensor([[True, False, False], [False, True, True], [False, True, False]])


@pytest.mark.parametrize("layout", ["coo", "csr"])
def test_masked_reductions_of_sparse_tensors_count_what_is_specified(lib, data, layout):
    x, mask = (sparse(t, layout) for t in data)
    for name, expected in ("sum", [[1.], [3.], [5.]]), ("prod", [[1.], [0.], [5.]]), ("amax", [[1.], [3.], [5.]]), ("amin", [[1.], [0.], [5.]]):
        for m in mask, data[1]:
            found = getattr(lib.masked, name)(x, dim=1, keepdim=True, mask=m)
            assert found.layout is x.layout and found.to_dense().tolist() == expected
    assert lib.masked.sum(x, dim=0, keepdim=True).to_dense().tolist() == [[5., 5., 5.]]
    with pytest.raises(ValueError, match=f"masked prod expects explicit mask for sparse_{layout} tensor input"):
        lib.masked.prod(x, dim=1, keepdim=True)
    assert lib.masked.sum(data[0], 1, mask=mask).tolist() == [1., 3., 5.]


def test_masked_reductions_of_sparse_tensors_drop_dimensions_and_keep_dense_ones(lib, data):
    x, mask = (t.to_sparse() for t in data)
    assert lib.masked.amax(x, dim=0, mask=mask).to_dense().tolist() == [1., 5., 3.]
    assert lib.masked.sum(x, dim=(0, 1), mask=mask).to_dense().item() == 9
    hybrid = data[0].to_sparse(1)
    assert lib.masked.sum(hybrid, dim=1).to_dense().tolist() == [3., 3., 9.]
    with pytest.raises((AssertionError, RuntimeError), match="keepdim=False is unsupported"):
        lib.masked.sum(data[0].to_sparse_csr(), dim=1)


def test_a_sparse_mask_may_let_nothing_through(lib, data):
    nothing = lib.zeros(3, 3, dtype=lib.bool).to_sparse()
    assert lib.masked.sum(data[0].to_sparse(), dim=1, mask=nothing).to_dense().tolist() == [0., 0., 0.]


def test_the_mask_of_a_masked_result_is_known(lib, data):
    x, mask = data
    assert lib.masked._output_mask(lib.masked.sum, x, 0, mask=mask).tolist() == [True, True, True]
    assert lib.masked._output_mask(lib.masked.softmax, x, 0, mask=mask).tolist() == mask.tolist()
    with pytest.raises(ValueError, match="_output_mask expected masked operation"):
        lib.masked._output_mask(lib.add, x, mask=mask)


# ---- corners of operators

def test_bessel_functions_have_no_value_at_infinity(lib):
    x = lib.tensor([float("inf"), -float("inf")], dtype=lib.float64)
    for name in "bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1":
        assert getattr(lib.special, name)(x).isnan().all(), name


def test_ldexp_of_no_floats_takes_booleans(lib):
    yes = lib.ones(2, dtype=lib.bool)
    assert lib.ldexp(yes, yes).tolist() == [2, 2] and lib.ldexp(lib.tensor([3, 4]), yes).tolist() == [6, 8]
    with pytest.raises(NotImplementedError, match="\"ldexp_cpu_exp\" not implemented for 'Bool'"):
        lib.ldexp(lib.ones(2), yes)


def test_a_storage_takes_its_size_as_an_integer_of_numpy(lib):
    numpy = pytest.importorskip("numpy")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert len(lib.FloatStorage(numpy.int16(3))) == 3 and lib.FloatTensor(numpy.int64(4)).shape == (4,)
        assert lib.FloatTensor(numpy.arange(3)).tolist() == [0, 1, 2] and len(lib.FloatStorage([1, 2, 3])) == 3


def test_metadata_of_a_tensor_is_asserted(lib):
    x = lib.ones(2, 3)
    assert lib._assert_tensor_metadata(x, [2, 3], [3, 1], lib.float32) is None and lib._assert_tensor_metadata(x) is None
    for name, options in (("sizes", {"size": [3, 2]}), ("strides", {"stride": [1, 2]}), ("dtype", {"dtype": lib.int32}),
                          ("device", {"device": "meta"}), ("layout", {"layout": lib.sparse_coo})):
        with pytest.raises(RuntimeError, match=f"Tensor {name} mismatch! Expected: "):
            lib._assert_tensor_metadata(x, **options)


def test_gradcheck_compares_inputs_without_a_tangent_with_tangents_of_zero(lib):
    calls = []

    class Odd(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            return x + y

        @staticmethod
        def jvp(ctx, tx, ty):
            calls.append(1)
            return tx + ty
    x, y = (lib.rand(2, dtype=lib.float64, requires_grad=True) for _ in range(2))
    options = {"check_forward_ad": True, "check_backward_ad": False, "check_batched_grad": False}
    assert lib.autograd.gradcheck(Odd.apply, (x, y), check_undefined_grad=False, **options)
    before = len(calls)
    assert lib.autograd.gradcheck(Odd.apply, (x, y), check_undefined_grad=True, **options)
    assert len(calls) - before == before + 4


# ---- elementwise operators

def test_shapes_are_checked_before_dtypes(lib):
    x, y = lib.ones(10, dtype=lib.int16), lib.ones(11, dtype=lib.int16)
    z = lib.ones(10, dtype=lib.complex64)
    for call in (lambda: x.div_(y), lambda: lib.div(x, y, out=x), lambda: lib.clamp_min(z, y), lambda: lib.lt(z, y), lambda: lib.fmod(z, y)):
        with pytest.raises(RuntimeError, match=r"The size of tensor a \(10\) must match the size of tensor b \(11\)"):
            call()
    with pytest.raises(RuntimeError, match="doesn't match the broadcast shape"):
        lib.ones(1, dtype=lib.int16).div_(y)
    with pytest.raises(RuntimeError, match="result type Float can't be cast to the desired output type Short"):
        x.div_(x)


def test_numbers_of_a_list_operator_are_contiguous(lib):
    xs = [lib.ones(3), lib.ones(3)]
    assert lib._foreach_addcdiv(xs, xs, xs, lib.tensor([1., 2.]))[1].tolist() == [3., 3., 3.]
    with pytest.raises(RuntimeError, match="Expected scalars to be contiguous"):
        lib._foreach_addcdiv(xs, xs, xs, lib.ones(4)[::2])


def test_what_searchsorted_takes_of_scalars(lib):
    with pytest.raises(RuntimeError, match="input value can be a scalar only when boundaries tensor dimension is 1"):
        lib.searchsorted(lib.ones(2, 3), 1)
    with pytest.raises(RuntimeError, match="boundaries tensor should have positive dimension"):
        lib.searchsorted(lib.ones(()), lib.ones(2))


# ---- sparse gradients

def test_sparse_values_that_are_not_contiguous_are_listed_not_merged(lib):
    index = lib.tensor([[7, 1, 3]])
    one = lib.sparse_coo_tensor(index, lib.ones(3, 2), (10, 2), check_invariants=True)
    wide = lib.sparse_coo_tensor(index, lib.tensor(1.).expand(3, 2), (10, 2), check_invariants=True)
    assert (one + one)._indices().tolist() == [[7, 1, 3]] and (one + one)._values().tolist() == [[2., 2.]] * 3
    both = one + wide
    assert both._indices().tolist() == [[7, 1, 3, 7, 1, 3]] and not both.is_coalesced() and lib.equal(both.to_dense(), (one + one).to_dense())


def test_gradients_of_halves_are_the_same_sparse_and_dense(lib):
    lib.manual_seed(0)
    indices, grads = lib.randint(3, (400,)), []
    upstream = lib.rand(400, 5).to(lib.bfloat16)
    for sparse in (False, True):
        table = lib.zeros(3, 5, dtype=lib.bfloat16, requires_grad=True)
        lib.nn.functional.embedding(indices, table, sparse=sparse).backward(upstream)
        grads.append(table.grad.to_dense())
    assert lib.equal(*grads)


# ---- tensors of other classes

def test_a_redispatched_copy_of_a_parameter_keeps_its_slots(lib):
    class Logging(lib.Tensor):
        __slots__ = ["log"]

        def __new__(cls, data):
            x = lib.Tensor._make_subclass(cls, data, data.requires_grad)
            x.log = []
            return x

        @classmethod
        def __torch_function__(cls, func, types, args, kwargs=None):
            for x in args:
                if isinstance(x, cls):
                    x.log.append(func.__name__)
            result = lib.overrides.redispatch_function(func, types, args, kwargs)
            return cls(result) if isinstance(result, lib.Tensor) and not isinstance(result, cls) else result
    x = lib.nn.Parameter(Logging(lib.ones(2)))
    copy = importlib.import_module("copy").deepcopy(x)
    assert type(copy) is Logging and isinstance(copy, lib.nn.Parameter) and copy.requires_grad
    assert "__deepcopy__" in copy.log and copy.log is not x.log


def test_a_parametrization_calls_nothing_of_the_tensor_but_its_modules(lib):
    calls = []

    class Watched(lib.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            calls.append(getattr(func, "__name__", ""))
            return super().__torch_function__(func, types, args, kwargs)
    module, parametrize = lib.nn.Module(), importlib.import_module(f"{lib.__name__}.nn.utils.parametrize")
    module.weight = lib.nn.Parameter(lib.ones(2).as_subclass(Watched))
    parametrize.register_parametrization(module, "weight", lib.nn.Identity())
    assert "empty_like" not in calls and module.weight.tolist() == [1., 1.]


def test_the_tools_of_tests_come_with_the_package(lib):
    state = lib.get_rng_state()
    with lib.testing._utils.freeze_rng_state():
        lib.rand(3)
    assert lib.equal(state, lib.get_rng_state()) and isinstance(lib._nnpack_available(), bool)


# ---- out= and errors

@pytest.mark.parametrize("name, call", [
    ("cholesky_solve", lambda lib, a, out: lib.cholesky_solve(a, a, out=out)),
    ("cholesky_inverse", lambda lib, a, out: lib.cholesky_inverse(a, out=out)),
    ("linalg.pinv", lambda lib, a, out: lib.linalg.pinv(a, out=out)),
    ("linalg.cond", lambda lib, a, out: lib.linalg.cond(a, out=out)),
    ("torch.linalg.householder_product", lambda lib, a, out: lib.orgqr(a, a[0], out=out)),
    ("tensorsolve", lambda lib, a, out: lib.linalg.tensorsolve(a, a[0], out=out)),
    ("tensorinv", lambda lib, a, out: lib.linalg.tensorinv(a, 1, out=out)),
])
def test_an_out_that_can_not_hold_the_result_is_refused_by_name(lib, name, call):
    a = lib.eye(3)
    want = call(lib, a, lib.empty(0))
    assert lib.equal(call(lib, a, lib.empty(0, dtype=lib.float64)), want.double())
    with pytest.raises(RuntimeError, match=f"{name}: Expected result to be safely castable from Float dtype, but got result with dtype Int"):
        call(lib, a, lib.empty(0, dtype=lib.int32))


def test_a_rank_and_eigenvalues_need_an_out_that_holds_them(lib):
    with pytest.raises(RuntimeError, match="matrix_rank: Expected result to be safely castable from Long dtype, but got result with dtype Bool"):
        lib.linalg.matrix_rank(lib.eye(2), out=lib.empty(0, dtype=lib.bool))
    with pytest.raises(RuntimeError, match="Expected eigenvalues to be safely castable from ComplexFloat dtype, but got eigenvalues with dtype"):
        lib.linalg.eigvals(lib.eye(2), out=lib.empty(0))


@pytest.mark.filterwarnings("ignore")
def test_chain_matmul_takes_matrices_alone(lib):
    a = lib.ones(2, 2)
    for others in ([lib.ones(2)], [a, lib.ones(2)], [a, lib.ones(2, 2, 2)]):
        with pytest.raises(RuntimeError, match=r"Tensor dimension is \d, expected 2 instead"):
            lib.chain_matmul(*others)
    with pytest.raises(RuntimeError, match="expected out tensor to have dtype float but got int"):
        lib.chain_matmul(a, a, out=lib.empty(0, dtype=lib.int32))
    one = lib.chain_matmul(a)
    assert lib.equal(one, a) and one is not a and one.data_ptr() != a.data_ptr()


def test_picking_from_nothing(lib):
    where = lib.tensor([0, 5])
    with pytest.raises(RuntimeError, match="self indexing axis dim should be positive"):
        lib.index_select(lib.ones(0, 3), 0, where)
    with pytest.raises(RuntimeError, match="INDICES element is out of DATA bounds"):
        lib.index_select(lib.ones(0, 3), 1, where)
    with pytest.raises(RuntimeError, match="Index to scalar can have only 1 value, got 2"):
        lib.index_select(lib.ones(()), 0, where)
    with pytest.raises(IndexError, match="index out of range in self"):
        lib.index_select(lib.ones(3), 0, where)


def test_interpolation_writes_to_a_tensor_of_its_dtype(lib):
    with pytest.raises(RuntimeError, match="Expected out tensor to have dtype float, but got double instead"):
        lib._C._nn.upsample_nearest2d(lib.ones(1, 1, 2, 2), (4, 4), out=lib.empty(1, 1, 4, 4, dtype=lib.float64))


def test_a_product_with_an_activation(lib):
    lib.manual_seed(0)
    bias, a, b = lib.randn(4), lib.randn(3, 5, requires_grad=True), lib.randn(5, 4)
    want = lib.addmm(bias, a, b, beta=0.5, alpha=2)
    assert lib.allclose(lib._addmm_activation(bias, a, b, beta=0.5, alpha=2), want.relu())
    assert lib.allclose(lib._addmm_activation(bias, a, b, beta=0.5, alpha=2, use_gelu=True), lib.nn.functional.gelu(want), atol=1e-6)
    assert lib.equal(lib._addmm_activation(bias, a.detach(), b, out=lib.empty(0)), lib.addmm(bias, a, b).relu())


def test_a_sparse_gradient_of_gather_by_a_number(lib):
    for size, index in ((10,), lib.tensor(3)), ((), lib.tensor(0)), ((), lib.tensor([0, 0])), ((4,), lib.tensor([1, 1, 2])):
        grads = []
        for sparse in True, False:
            x = lib.ones(size, requires_grad=True)
            (lib.gather(x, 0, index, sparse_grad=sparse) * 3).sum().backward()
            grads.append(x.grad.to_dense())
        assert lib.equal(*grads)


def test_a_size_that_is_given_needs_no_values(lib):
    repeats, x = lib.ones(3, dtype=lib.int64, device="meta"), lib.ones(3, 2, device="meta")
    assert x.repeat_interleave(repeats, 0, output_size=5).shape == (5, 2)
    assert lib.ops.aten.repeat_interleave.Tensor(repeats.int(), output_size=6).dtype == lib.int32
    with pytest.raises(RuntimeError, match="cannot repeat_interleave a meta tensor without output_size"):
        x.repeat_interleave(repeats, 0)
    fake = importlib.import_module(lib.__name__ + "._subclasses.fake_tensor")
    with fake.FakeTensorMode():
        assert lib.ones(3, 2).repeat_interleave(lib.ones(3, dtype=lib.int64), 0, output_size=5).shape == (5, 2)
        with pytest.raises(fake.DynamicOutputShapeException):
            lib.ones(3, 2).repeat_interleave(lib.ones(3, dtype=lib.int64), 0)


def test_graphs_have_what_is_drawn_and_what_is_written_down(lib):
    make_fx = importlib.import_module(lib.__name__ + ".fx.experimental.proxy_tensor").make_fx
    F, x = lib.nn.functional, lib.rand(4, 5)
    for drop in (F.alpha_dropout, F.feature_alpha_dropout, lib.alpha_dropout_, lib.feature_alpha_dropout_):
        made = make_fx(lambda x: drop(x.clone(), 0.4, True))(x)         # noqa: B023
        assert made.code.count("bernoulli_.float(") == 1
        lib.manual_seed(3)
        found = made(x)
        lib.manual_seed(3)
        assert lib.allclose(found, drop(x.clone(), 0.4, True), atol=1e-6)
    assert "aten.item" not in make_fx(lib.linalg.eigvals)(x[:, :4]).code
    for values in ([0, 2], [True, False, True, False]):
        for mode in ("real", "fake") if type(values[0]) is int else ("real",):
            made = make_fx(lambda x: x[values] + 1, tracing_mode=mode)(x)       # noqa: B023
            assert made.code.count("aten.lift_fresh_copy") == 1 and lib.equal(made(x), x[values] + 1)


def test_matrices_with_infinities_have_no_eigenvalues(lib):
    for dtype in lib.float32, lib.complex128:
        for bad in "nan", "inf":
            a = lib.eye(3, dtype=dtype).repeat(2, 1, 1)
            a[1, 2, 0] = float(bad)
            with pytest.raises(RuntimeError, match="input tensor should not contain infs or NaNs"):
                lib.linalg.eig(a)


def test_lists_within_results_are_followed(lib):
    make_fx = importlib.import_module(lib.__name__ + ".fx.experimental.proxy_tensor").make_fx
    with lib.library._scoped_library("lists_within", "DEF") as library:
        library.define("halves(Tensor x) -> (Tensor[], int)")
        library.impl("halves", lambda x: ([y.clone() for y in x.chunk(2)], 2), "CPU")
        made = make_fx(lambda x: lib.ops.lists_within.halves(x)[0][1] * 2)(lib.zeros(4))
        assert made(lib.arange(4.)).tolist() == [4, 6]


@pytest.mark.parametrize("mode", ["real", "fake"])
def test_graphs_from_above_autograd_have_composites_and_gradients(lib, mode):
    make_fx = importlib.import_module(lib.__name__ + ".fx.experimental.proxy_tensor").make_fx

    def f(x, w):
        y = lib.matmul(x, w.T).sin()
        with lib.no_grad():
            z = y.cos()
        return lib.nn.functional.linear(y * z, w).view(-1).sum(0) + lib.ones(2, 3)[0, 1]
    operands = [lib.rand(3, 4, requires_grad=True), lib.rand(4, 4, requires_grad=True)]
    made = make_fx(f, pre_dispatch=True, tracing_mode=mode)(*(x.detach().clone().requires_grad_() for x in operands))
    for part in ("aten.matmul.default(", "aten.linear.default(", "_set_grad_enabled(False)", "_set_grad_enabled(True)", "[-1])", "ones.default([2, 3]"):
        assert part in made.code
    assert "_softmax" not in made.code and lib.is_grad_enabled()
    wanted, found = f(*operands), made(*operands)
    assert lib.allclose(wanted, found)
    assert all(map(lib.allclose, lib.autograd.grad(wanted, operands), lib.autograd.grad(found, operands)))
    assert "softmax.int(" in make_fx(lambda x: x.softmax(0), pre_dispatch=True, tracing_mode=mode)(lib.rand(3)).code
    with pytest.raises(RuntimeError, match="invalid for input of size 3"):
        make_fx(lambda x: x.view(4), pre_dispatch=True)(lib.rand(3))
    with pytest.raises(RuntimeError, match="value out of a tracing tensor"):
        make_fx(lambda x: x.sum().item(), pre_dispatch=True)(lib.rand(3))
