"""Factorizations, solutions and Fourier transforms on devices whose vendor has no library for them, beside the CPU's."""
import pytest

tede = pytest.importorskip("tede")
linalg, fft = tede.linalg, tede.fft
ALL = [tede.float32, tede.float64, tede.complex64, tede.complex128]


def near(dtype):
    return {"rtol": 2e-3, "atol": 2e-3} if dtype in (tede.float32, tede.complex64) else {"rtol": 1e-8, "atol": 1e-8}


def matrices(*shape, dtype, grad=False):
    """Well conditioned: the identity is added."""
    x = tede.randn(shape, dtype=dtype) / shape[-1] ** 0.5 / 2 + tede.eye(shape[-2], shape[-1], dtype=dtype)
    return x.requires_grad_(grad)


def positive(*shape, dtype):
    x = tede.randn(shape, dtype=dtype)
    return (x @ x.mH / shape[-1] + tede.eye(shape[-1], dtype=dtype)).requires_grad_()


SHAPES = [(1, 1), (5, 5), (3, 2, 7, 7), (70, 70), (0, 3, 3), (2, 0, 0)]


@pytest.mark.parametrize("dtype", ALL)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_square_matrices(agrees, shape, dtype):
    a = matrices(*shape, dtype=dtype, grad=True)
    right = tede.randn(*shape[:-1], 3, dtype=dtype, requires_grad=True)
    across = tede.randn(*shape[:-2], 4, shape[-1], dtype=dtype, requires_grad=True)
    agrees(linalg.inv, a, **near(dtype))
    agrees(linalg.solve, a, right, **near(dtype))
    agrees(lambda a, b: linalg.solve(a, b, left=False), a, across, **near(dtype))
    agrees(lambda a, b: linalg.solve(a, b.mT.contiguous().mT.conj()), a, right, **near(dtype))
    agrees(linalg.solve, a.detach(), right.detach()[..., :0])
    agrees(linalg.det, a, **near(dtype))
    agrees(linalg.slogdet, a, **near(dtype))
    agrees(linalg.lu_factor_ex, a.detach(), **near(dtype))
    agrees(lambda a: linalg.lu(a)[1:], a, **near(dtype))
    agrees(linalg.cholesky, positive(*shape, dtype=dtype), **near(dtype))
    agrees(lambda a: linalg.cholesky(a, upper=True), positive(*shape, dtype=dtype), **near(dtype))


@pytest.mark.parametrize("dtype", ALL)
@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (4, 4), (2, 3, 6, 4), (2, 4, 6), (2, 0, 3), (3, 0)], ids=str)
def test_least_squares(agrees, device, shape, dtype):
    a, b = matrices(*shape, dtype=dtype), tede.randn(*shape[:-1], 2, dtype=dtype, requires_grad=True)
    for driver in ("gels", "gelsy", "gelsd", "gelss"):
        grad = a.clone().requires_grad_(a.numel() > 0)
        agrees(lambda a, b: tuple(linalg.lstsq(a, b, driver=driver))[:1], grad, b, **near(dtype))
        agrees(lambda a, b: tuple(linalg.lstsq(a, b, driver=driver)), a, b.detach(), **near(dtype))
        if driver != "gels" and a.numel():
            a[..., 1] = 2 * a[..., 0]           # of a lower rank
            agrees(lambda a, b: tuple(linalg.lstsq(a, b, driver=driver)), a, b.detach(), **near(dtype))
            if driver != "gelsy":
                agrees(lambda a, b: tuple(linalg.lstsq(a, b, rcond=0.5, driver=driver)), a, b.detach(), **near(dtype))
            a = matrices(*shape, dtype=dtype)
    if a.numel():
        for call in (linalg.pinv, linalg.matrix_rank):
            agrees(lambda a: call(a, rtol=tede.tensor(0.01, device=a.device)), a, **near(dtype))
        with pytest.raises(RuntimeError, match="non-finite"):
            linalg.lstsq((a * float("nan")).to(device), b.detach().to(device), driver="gelsd")
        if shape[-1] <= shape[-2]:
            a[..., 0] = 0
            with pytest.raises(RuntimeError, match="full rank"):
                linalg.lstsq(a.to(device), b.detach().to(device), driver="gels")


def test_least_squares_of_a_rank_that_is_asked_for(agrees):
    x = tede.tensor([[3.0, 1.0, 0.0], [0.0, 2.0, 1.0], [0.0, 0.0, 1.0]])
    agrees(lambda a, b: tuple(linalg.lstsq(a, b, rcond=0.6, driver="gelsy"))[::2], x, tede.ones(3, 1), fallbacks=True)
    agrees(lambda a, b: tuple(linalg.lstsq(a, b, rcond=0.6, driver="gelsd")), x, tede.ones(3, 1))


@pytest.mark.parametrize("shape", [(0, 0), (3, 0, 0), (0, 4, 4), (0, 3), (4, 0), (2, 0, 5), (0, 4, 2)], ids=str)
def test_spectra_of_nothing(agrees, shape):
    x = tede.randn(shape)
    agrees(lambda x: (*linalg.svd(x), *linalg.svd(x, full_matrices=False), linalg.svdvals(x)), x)
    if shape[-1] == shape[-2]:
        agrees(lambda x: (*linalg.eigh(x), linalg.eigvalsh(x)), x)


@pytest.mark.parametrize("dtype", ALL)
def test_exponentials_of_matrices(agrees, dtype):
    agrees(linalg.matrix_exp, (tede.randn(2, 5, 5, dtype=dtype) * 2).requires_grad_(), rtol=near(dtype)["rtol"], atol=20 * near(dtype)["atol"])


@pytest.mark.parametrize("dtype", ALL)
@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("upper", [True, False])
def test_triangles(agrees, upper, left, dtype):
    for n, k, batch in ((1, 1, ()), (6, 4, (3,)), (40, 35, ()), (5, 0, (2,)), (0, 3, ())):
        a = matrices(*batch, n, n, dtype=dtype, grad=True)
        b = tede.randn(*batch, *((n, k) if left else (k, n)), dtype=dtype, requires_grad=True)
        for unit in (False, True):
            agrees(lambda a, b: linalg.solve_triangular(a, b, upper=upper, left=left, unitriangular=unit), a, b, **near(dtype))
        agrees(lambda a, b: linalg.solve_triangular(a.mH, b, upper=upper, left=left), a, b[:1].expand_as(b) if n else b, **near(dtype))
        if left:
            agrees(lambda b, a: tede.cholesky_solve(b, a, upper=upper), b, a, **near(dtype))
    agrees(lambda a, b: linalg.solve_triangular(a, b, upper=upper, left=left), matrices(4, 1, 3, 3, dtype=dtype), tede.randn(5, 3, 3, dtype=dtype), **near(dtype))


@pytest.mark.parametrize("dtype", ALL)
@pytest.mark.parametrize("adjoint", [True, False])
@pytest.mark.parametrize("left", [True, False])
def test_solutions_of_given_factors(agrees, left, adjoint, dtype):
    for n, k, batch in ((6, 4, (3,)), (33, 20, ()), (3, 0, ()), (0, 2, (2,))):
        lu, pivots = linalg.lu_factor(tede.randn(*batch, n, n, dtype=dtype) + 2 * tede.eye(n, dtype=dtype))
        b = tede.randn(*batch, *((n, k) if left else (k, n)), dtype=dtype, requires_grad=True)
        agrees(lambda lu, p, b: linalg.lu_solve(lu, p, b, left=left, adjoint=adjoint), lu.requires_grad_(), pivots, b, **near(dtype))


@pytest.mark.parametrize("dtype", ALL)
@pytest.mark.parametrize("shape", [(1, 1), (5, 3), (3, 5), (2, 3, 6, 6), (80, 40), (0, 3), (3, 0), (0, 4, 4)], ids=str)
def test_reflections(agrees, shape, dtype):
    a = tede.randn(shape, dtype=dtype, requires_grad=True)
    agrees(lambda a: linalg.qr(a), a, **near(dtype))
    for mode in ("r", "complete"):
        agrees(lambda a: linalg.qr(a, mode)[1 if mode == "r" else slice(None)], a.detach(), **near(dtype))
    agrees(tede.geqrf, a.detach(), **near(dtype))


def tight(dtype):
    return {"rtol": 1e-5, "atol": 2e-4} if dtype in (tede.float32, tede.complex64) else {"rtol": 1e-11, "atol": 1e-11}


def close(a, b, dtype):
    tede.testing.assert_close(a.cpu(), b.expand_as(a), **tight(dtype))


@pytest.mark.parametrize("dtype", ALL)
@pytest.mark.parametrize("shape", [(1, 1), (3, 2, 7, 7), (20, 20)], ids=str)
def test_eigenvalues(agrees, device, shape, dtype):
    a = tede.randn(shape, dtype=dtype)
    a = 100 * (a + a.mH)
    for uplo in "LU":
        one = a.tril() if uplo == "L" else a.triu()         # the other triangle isn't read
        agrees(lambda x: linalg.eigvalsh(x, UPLO=uplo), one, rtol=1e-4, atol=1e-2)
        w, v = linalg.eigh(one.to(device), UPLO=uplo)
        assert v.stride() == linalg.eigh(one, UPLO=uplo)[1].stride()
        close((v * w.unsqueeze(-2)) @ v.mH / 100, a / 100, dtype)
        close(v.mH @ v, tede.eye(shape[-1], dtype=dtype), dtype)


@pytest.mark.parametrize("dtype", ALL)
@pytest.mark.parametrize("rank", [1, 9])
@pytest.mark.parametrize("shape", [(4, 6), (3, 7, 5), (33, 20)], ids=str)
def test_singular_values(agrees, device, shape, rank, dtype):
    a = tede.randn(shape, dtype=dtype)[..., :rank] @ tede.randn(*shape[:-2], min(rank, shape[-1]), shape[-1], dtype=dtype)
    agrees(linalg.svdvals, a, rtol=1e-4, atol=1e-4)
    before = tede._C._cpu_fallback_count()
    for full in (True, False):
        u, s, vh = linalg.svd(a.to(device), full_matrices=full)
        assert [x.stride() for x in (u, s, vh)] == [x.stride() for x in linalg.svd(a, full_matrices=full)]
        k = s.shape[-1]
        close((u[..., :k] * s.unsqueeze(-2)) @ vh[..., :k, :], a, dtype)
        for square in (u.mH @ u, vh @ vh.mH):
            close(square, tede.eye(square.shape[-1], dtype=dtype), dtype)
    assert tede._C._cpu_fallback_count() == before


def test_eigenvalues_of_special_matrices(agrees, device):
    agrees(linalg.eigvalsh, tede.zeros(3, 3))
    agrees(linalg.eigvalsh, -2 * tede.eye(5))
    agrees(linalg.svdvals, tede.zeros(4, 3))
    agrees(linalg.eigvalsh, tede.diag(tede.tensor([1e30, -1e30, 1e28])), rtol=1e-5)
    agrees(linalg.eigvalsh, tede.ones(150, 150), fallbacks=device != "cuda", atol=1e-3)       # whose library takes any size
    for call in (linalg.eigh, linalg.svd):
        with pytest.raises(linalg.LinAlgError, match="failed to converge"):
            call(tede.full((3, 3), float("nan"), device=device))
    x = tede.randn(4, 4, dtype=tede.float64) * tede.arange(1, 5)
    agrees(linalg.svdvals, x.clone().requires_grad_(), rtol=1e-6)
    agrees(linalg.eigvalsh, (x + x.mT).requires_grad_(), rtol=1e-6)


@pytest.mark.parametrize("dtype", ALL)
def test_factors_of_special_matrices(agrees, device, dtype):
    singular = tede.zeros(2, 3, 3, dtype=dtype)
    singular[0] = tede.arange(9).reshape(3, 3).to(dtype)
    singular[1, 0, 0] = 1
    agrees(lambda a: linalg.lu_factor_ex(a)[2], singular)
    agrees(linalg.det, singular, **near(dtype))
    agrees(lambda a: linalg.inv_ex(a)[1], singular)
    agrees(lambda a: linalg.cholesky_ex(a)[1], -tede.eye(3, dtype=dtype).expand(2, 3, 3))
    agrees(lambda a: linalg.lu_factor_ex(a), tede.randn(4, 7, 3, dtype=dtype), **near(dtype))
    agrees(lambda a: linalg.lu_factor_ex(a), tede.randn(3, 50, dtype=dtype), **near(dtype))
    agrees(lambda a: linalg.qr(a)[1], tede.zeros(3, 3, dtype=dtype))
    agrees(lambda a: linalg.qr(a)[1] * 1e-30, tede.full((40, 2), 1e30, dtype=dtype), **near(dtype))
    with pytest.raises(tede.linalg.LinAlgError, match="singular"):
        linalg.inv(singular.to(device))


SIZES = [1, 2, 3, 4, 8, 12, 35, 64, 67, 128, 257, 1000, 1021, 4096]


@pytest.mark.parametrize("dtype", [tede.complex64, tede.complex128])
@pytest.mark.parametrize("n", SIZES)
def test_transforms_of_any_size(agrees, n, dtype):
    rough = {"rtol": 1e-3, "atol": 2e-4 * n ** 0.5} if dtype == tede.complex64 else {"rtol": 1e-9, "atol": 1e-9}
    x = tede.randn(3, n, dtype=dtype, requires_grad=True)
    agrees(fft.fft, x, **rough)
    agrees(lambda x: fft.ifft(x, norm="ortho"), x, **rough)
    real = tede.randn(n, 2, dtype=dtype.to_real(), requires_grad=True)
    agrees(lambda x: fft.rfft(x, dim=0), real, **rough)
    agrees(lambda x: fft.hfft(x, n=2 * n - 1), x.detach(), **rough)
    agrees(lambda x: fft.irfft(x, n=n), x.detach() if n == 1 else x, **rough)
    agrees(lambda x: fft.ihfft(x, dim=0), real.detach(), **rough)


def test_transforms_of_several_dimensions(agrees):
    rough = {"rtol": 1e-3, "atol": 1e-3}
    z, x = tede.randn(2, 3, 4, 5, 6, dtype=tede.complex64, requires_grad=True), tede.randn(4, 3, 5, 6, requires_grad=True)
    for call in (fft.fftn, fft.ifft2, lambda z: fft.fftn(z, dim=(3, 0, 2)), lambda z: fft.irfftn(z), lambda z: fft.irfftn(z, s=(4, 7), dim=(1, 3)),
                 lambda z: fft.fft(z.conj(), dim=1), lambda z: fft.fft(z[:, 1:].transpose(1, 3), n=9), lambda z: fft.fft2(z[:0])):
        agrees(call, z, **rough)
    for call in (fft.rfftn, lambda x: fft.rfft2(x, dim=(3, 1)), lambda x: fft.fftn(x, norm="forward"), lambda x: fft.rfft(x[:, 1:].flip(2), dim=2)):
        agrees(call, x, **rough)
    agrees(fft.fft, tede.arange(12).reshape(3, 4))


@pytest.mark.parametrize("dtype", [tede.complex64, tede.complex128])
def test_convolutions_of_complex_numbers(agrees, dtype):
    F = tede.nn.functional
    x, w, b = (tede.randn(*s, dtype=dtype, requires_grad=True) for s in ((2, 4, 9, 8), (6, 4, 3, 3), (6,)))
    for call in (lambda x, w, b: F.conv2d(x, w, b, padding=1), lambda x, w, b: F.conv2d(x, w[:, :2], b, groups=2, stride=2),
                 lambda x, w, b: F.conv2d(x, w[..., :1, :1], b), lambda x, w, b: F.conv_transpose2d(x, w.transpose(0, 1), b, stride=2),
                 lambda x, w, b: F.conv1d(x[..., 0], w[..., 0], b), lambda x, w, b: F.conv2d(x.conj(), w.conj(), None)):
        agrees(call, x, w, b, **near(dtype))
    agrees(lambda x: F.unfold(x, (3, 2), padding=1, stride=2), x, **near(dtype))
    agrees(lambda x: F.fold(F.unfold(x, 3), (9, 8), 3), x, **near(dtype))


def test_sequences_and_draws_of_complex_numbers(agrees, device):
    agrees(lambda x: tede.linspace(1 - 2j, 3 + 1j, 7, device=x.device), tede.zeros(()))
    agrees(lambda x: tede.logspace(0.5, 1 + 1j, 5, device=x.device, dtype=tede.complex128), tede.zeros(()), rtol=1e-6, atol=1e-6)
    agrees(lambda x: tede.unique(x, dim=0, return_inverse=True, return_counts=True), tede.zeros(0, 3))
    for dtype in (tede.complex64, tede.complex128):
        before = tede._C._cpu_fallback_count()
        x, y = tede.randn(20000, dtype=dtype, device=device), tede.rand(20000, dtype=dtype, device=device)
        assert tede._C._cpu_fallback_count() == before
        parts, unit = tede.view_as_real(x.cpu()), tede.view_as_real(y.cpu())
        assert (parts.std(0) - 0.5 ** 0.5).abs().max() < 0.02 and parts.mean(0).abs().max() < 0.02
        assert unit.min() >= 0 and unit.max() <= 1 and (unit.mean(0) - 0.5).abs().max() < 0.02
