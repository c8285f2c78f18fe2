"""What operators refuse, how their results lie in memory, and gradients that had gaps."""
import pytest

# operator, dtypes that it refuses, the error
REFUSED = [
    (lambda lib, x: lib.kthvalue(x, 1), "bool complex64", NotImplementedError),
    (lambda lib, x: lib.median(x), "bool complex64", NotImplementedError),
    (lambda lib, x: lib.mode(x), "complex64", NotImplementedError),
    (lambda lib, x: lib.topk(x, 1), "bool", RuntimeError),
    (lambda lib, x: lib.argmax(x), "bool complex64", RuntimeError),
    (lambda lib, x: lib.amax(x, 0), "complex64", NotImplementedError),
    (lambda lib, x: lib.trace(x.reshape(2, 2)), "bool", NotImplementedError),
    (lambda lib, x: lib.histc(x), "int64 bool", NotImplementedError),
    (lambda lib, x: lib.trapezoid(x), "bool", RuntimeError),
    (lambda lib, x: lib.fmod(x, x), "bool complex64", NotImplementedError),
    (lambda lib, x: lib.floor_divide(x, x), "bool", NotImplementedError),
    (lambda lib, x: lib.div(x, x, rounding_mode="trunc"), "bool", NotImplementedError),
    (lambda lib, x: lib.lerp(x, x, 0.5), "int64 bool", NotImplementedError),
    (lambda lib, x: lib.addcdiv(x, x, x), "int64 bool", RuntimeError),
    (lambda lib, x: lib.fmax(x, x), "complex64", RuntimeError),
    (lambda lib, x: lib.clamp(x, 0, 1), "complex64", NotImplementedError),
    (lambda lib, x: lib.nn.functional.relu(x), "bool", RuntimeError),
    (lambda lib, x: lib.nn.functional.hardtanh(x), "bool", RuntimeError),
    (lambda lib, x: lib.nn.functional.l1_loss(x, x), "int64", RuntimeError),
    (lambda lib, x: lib.nn.functional.kl_div(x, x), "int64 complex64", RuntimeError),
    (lambda lib, x: lib.nn.functional.unfold(x.reshape(1, 1, 2, 2), 2), "int64", NotImplementedError),
    (lambda lib, x: lib.special.zeta(x, x), "float16", NotImplementedError),
    (lambda lib, x: lib.special.erfcx(x), "bfloat16", NotImplementedError),
    (lambda lib, x: lib.cumsum(x, 0, dtype=lib.bool), "bool", NotImplementedError),
    (lambda lib, x: lib.tril_indices(2, 2, dtype=x.dtype), "float32 uint8", NotImplementedError),
    (lambda lib, x: lib.zeros_like(x).index_reduce(0, lib.tensor([0, 1, 2, 3]), x, "amax"), "bool complex64",
     NotImplementedError),
    (lambda lib, x: lib.zeros_like(x).scatter_reduce(0, lib.tensor([0, 1, 2, 3]), x, "amin"), "complex64",
     NotImplementedError),
    (lambda lib, x: lib.linalg.lu_factor_ex(x.reshape(2, 2)), "int64 float16", NotImplementedError),
    (lambda lib, x: lib.linalg.cholesky(x.reshape(2, 2)), "float16", NotImplementedError),
]


@pytest.mark.parametrize("case", range(len(REFUSED)))
def test_dtypes_that_are_refused(lib, case):
    call, dtypes, error = REFUSED[case]
    for dtype in dtypes.split():
        with pytest.raises(error):
            call(lib, lib.ones(4, dtype=getattr(lib, dtype)))


def test_numbers_promote_bool(lib):
    x = lib.tensor([True, False])
    assert lib.square(x).dtype == lib.int64 and lib.square(x).tolist() == [1, 0]
    with pytest.raises(RuntimeError, match="can't be cast"):
        x.square_()


def test_out_of_another_dtype_is_refused(lib):
    x, wrong = lib.ones(3, 4), lib.empty(4, dtype=lib.float64)
    for call in (lambda: lib.amax(x, 0, out=wrong), lambda: lib.aminmax(x, dim=0, out=(lib.empty(4), wrong)),
                 lambda: lib.kthvalue(x, 1, 0, out=(wrong, lib.empty(4, dtype=lib.int64)))):
        with pytest.raises(RuntimeError):
            call()


def test_a_mean_into_places_of_complex_numbers(lib):
    x = lib.zeros(2, dtype=lib.complex64).scatter_reduce(0, lib.tensor([0, 0]), lib.tensor([1 + 2j, 3j]), "mean",
                                                         include_self=False)
    assert x.tolist() == [0.5 + 2.5j, 0]


def test_matrices_of_linear_algebra_lie_in_columns(lib):
    a = lib.eye(3) * 2 + 0.1 * lib.arange(9.).reshape(3, 3)
    spd, b = a @ a.T, lib.ones(3, 2)
    for x in (lib.linalg.cholesky(spd), lib.linalg.inv(a), lib.linalg.solve(a, b), lib.linalg.lu_factor(a)[0],
              *lib.linalg.qr(a), lib.linalg.svd(a)[0], lib.linalg.svd(a)[2], lib.linalg.eigh(spd)[1], lib.linalg.eig(a)[1],
              lib.linalg.solve_triangular(a, b, upper=True), lib.geqrf(a)[0], lib.cholesky_inverse(a)):
        assert x.stride() == (1, 3)
    wide = lib.stack([a, a])[:, :2]
    q, r = lib.linalg.qr(wide, mode="complete")
    assert q.stride() == (4, 1, 2) and r.stride() == (6, 1, 2)
    assert lib.allclose(q @ r, wide, atol=1e-5) and r[0, 1, 0] == 0
    u, s, vh = lib.linalg.svd(wide, full_matrices=False)
    assert lib.allclose(u @ lib.diag_embed(s) @ vh, wide, atol=1e-5)
    upper = lib.linalg.cholesky(spd, upper=True)
    assert lib.allclose(upper.T @ upper, spd, atol=1e-5) and upper[2, 0] == 0
    out = lib.empty(0)
    assert lib.linalg.inv(a, out=out) is out and lib.allclose(out @ a, lib.eye(3), atol=1e-5)


def test_channels_last(lib):
    x = lib.arange(24.).reshape(1, 2, 3, 4)
    y = x.contiguous(memory_format=lib.channels_last)
    assert y.stride() == (24, 1, 8, 2) and y.tolist() == x.tolist() and not y.is_contiguous()
    assert y.is_contiguous(memory_format=lib.channels_last)
    assert y.contiguous(memory_format=lib.channels_last).data_ptr() == y.data_ptr()
    for z in (x.to(memory_format=lib.channels_last), x.clone(memory_format=lib.channels_last), lib.empty_like(y), y + 1,
              x.double(memory_format=lib.channels_last), lib.empty(1, 2, 3, 4, memory_format=lib.channels_last)):
        assert z.stride() == y.stride()
    assert y.contiguous().stride() == x.stride()
    pooled, places = lib.nn.functional.max_pool2d(y, 2, return_indices=True)
    assert pooled.stride() == places.stride() == (4, 1, 4, 2) and pooled.flatten().tolist() == [5, 7, 17, 19]
    with pytest.raises(RuntimeError, match="rank 4"):
        lib.ones(2, 3).contiguous(memory_format=lib.channels_last)
    assert x.reshape(1, 2, 3, 2, 2).contiguous(memory_format=lib.channels_last_3d).stride() == (24, 1, 8, 4, 2)


def test_strides_of_new_dimensions_and_coordinates(lib):
    assert lib.ones(1, 5).expand(1, 1, 5).stride() == (5, 5, 1)
    assert lib.ones(5).expand(1, 4, 5).stride() == (0, 0, 1)
    at = lib.nonzero(lib.tensor([[1, 0], [1, 1]]))
    assert at.stride() == (1, 3) and at.tolist() == [[0, 0], [1, 0], [1, 1]]


def test_max_pool_backward_by_indices(lib):
    x = lib.arange(16.).reshape(1, 1, 4, 4).requires_grad_()
    y, at = lib.nn.functional.max_pool2d(x, 2, return_indices=True)
    backward = lib.ops.aten.max_pool2d_with_indices_backward
    g = lib.ones(1, 1, 2, 2, requires_grad=True)
    dx = backward(g, x, [2, 2], [2, 2], [0, 0], [1, 1], False, at)
    assert dx.detach().sum() == 4 and dx[0, 0, 3, 3] == 1
    assert lib.autograd.grad((dx * x.detach()).sum(), g)[0].flatten().tolist() == [5, 7, 13, 15]
    if lib.__name__ == "tede":        # PyTorch writes there
        for wrong in at + 16, at - 16, at[..., :1]:
            with pytest.raises(RuntimeError):
                backward(g, x, [2, 2], [2, 2], [0, 0], [1, 1], False, wrong)


def test_addbmm_gives_self_the_shape_of_the_result(lib):
    x = lib.ones(1)
    assert x.addbmm_(lib.ones(3, 2, 4), lib.ones(3, 4, 5)) is x
    assert x.shape == (2, 5) and x[0, 0] == 13


def test_gradients_of_factors_and_products(lib):
    factor = lib.tensor([[2., 0.], [1., 3.]], requires_grad=True)
    lib.cholesky_solve(lib.ones(2, 1), factor).sum().backward()
    inverse = lib.linalg.inv((factor @ factor.T).detach())
    expected = -2 * (inverse.sum(1, keepdim=True) @ inverse.sum(0, keepdim=True)) @ factor.detach()
    assert lib.allclose(factor.grad, expected)     # not of the triangle alone
    src = lib.tensor([2., 0., 3.], requires_grad=True)
    start = lib.tensor([5.], requires_grad=True)
    product = start.scatter_reduce(0, lib.tensor([0, 0, 0]), src, "prod")
    first, = lib.autograd.grad(product, src, create_graph=True)
    assert first.tolist() == [0, 30, 0]
    second = lib.autograd.grad(first.sum(), (start, src))
    assert second[0].tolist() == [6] and lib.allclose(second[1], lib.tensor([15., 25., 10.]))
    x = lib.ones(2, 2, requires_grad=True)
    assert lib.autograd.grad(lib.linalg.matrix_power(x, 0).sum(), x)[0].tolist() == [[0, 0], [0, 0]]


def test_dtypes_that_are_names_here(lib):
    names = "complex32", "float8_e4m3fn", "float8_e5m2", "quint8", "qint8", "qint32"
    assert len({getattr(lib, name) for name in names}) == 6 and lib.chalf is lib.complex32
    assert lib.complex32.is_complex and lib.float8_e5m2.is_floating_point and lib.quint8.itemsize == 1
    if lib.__name__ == "tede":
        with pytest.raises(NotImplementedError, match="no tensors of"):
            lib.empty(2, dtype=lib.uint4)


def test_slopes_of_rrelu_round_their_bounds(lib):
    lib.manual_seed(1)
    y = lib.nn.functional.rrelu(-lib.ones(7), training=True)
    assert y[6].item() == -float.fromhex("0x1.c4a7fcp-3")


def test_out_forms_go_by_pytorchs_names(lib):
    x, aten = lib.tensor([1., 2.]), lib.ops.aten
    assert aten.eq.Tensor_out(x, x, out=lib.zeros(2, dtype=lib.bool)).tolist() == [True, True]
    assert aten.remainder.Tensor_out(x, x, out=lib.ones(2)).tolist() == [0, 0]
    assert aten.lerp.Tensor_out(x, x + 2, lib.tensor([0.5, 1.0]), out=lib.ones(2)).tolist() == [2, 4]
    for packet in (aten.eq, aten.normal, aten.bernoulli):
        with pytest.raises(AttributeError, match="has no overload name"):
            packet.nothing_out


def test_the_numbers_of_complex32_are_those_of_its_parts(lib):
    assert lib.finfo(lib.complex32).eps == lib.finfo(lib.float16).eps and lib.finfo(lib.complex32).dtype == "float16"


def test_histc_looks_at_its_range_before_the_dtype(lib):
    x = lib.tensor([1, 2])
    with pytest.raises(RuntimeError, match="max must be larger than min"):
        lib.histc(x, 4, min=3, max=1)
    with pytest.raises(RuntimeError, match=r"bins must be > 0"):
        lib.histc(x, 0)
