"""Expressions evaluated by both libraries on the same numbers: results and gradients must agree.

Each line is an expression in `t`, the library, and the operands below.  Gradients are compared for the floating point
operands that an expression names, unless its family is in NO_GRADIENT."""
import re

import numpy as np
import pytest

_random = np.random.default_rng(0)


def _normal(*shape):
    return _random.standard_normal(shape)


_a = _normal(4, 4)
OPERANDS = {
    "x": _normal(2, 3, 4), "y": _normal(2, 3, 4), "v": _normal(5), "w": _normal(3), "m": _normal(3, 5), "p": np.abs(_normal(2, 3)) + 0.1,
    "u": _random.uniform(0.05, 0.95, (2, 3)), "e": _normal(0, 3), "s": _normal(), "a": _a, "b": _normal(4, 2), "d": _a @ _a.T + 4 * np.eye(4),
    "q": _normal(2, 4, 4), "r": _normal(5, 3), "f": _normal(12), "g": _normal(2, 7),
    "i": _random.integers(-5, 6, (2, 3)), "k": _random.integers(1, 5, (3,)), "n": _random.integers(1, 9, (2, 3)),
    "z": _normal(3, 4) + 1j * _normal(3, 4), "c": _normal(4, 4) + 1j * _normal(4, 4), "h": _normal(2, 5) + 1j * _normal(2, 5),
    "o": np.array([True, False, True]),
}
FAMILIES = {
    "dimensions": """
        x.movedim(0, 2); x.movedim((0, 1), (1, 2)); t.moveaxis(x, 0, -1); x.swapaxes(0, 1); t.swapdims(x, 1, 2); a.adjoint(); c.adjoint()
        x.ravel(); x.transpose(0, 1).ravel(); x.unflatten(-1, (2, 2)); x.unflatten(1, (3, -1)); x.flatten(1); s.ravel(); x.mT; c.mH; a.H; m.T
        x.squeeze(); x[:1].squeeze(0); x[:1, :, :1].squeeze((0, 2)); x.unsqueeze(1); x.expand(5, 2, 3, 4); x.view(6, 4); x.reshape(-1, 2)
        x.permute(2, 0, 1); x.narrow(1, 1, 2); x.select(1, 2); x.unfold(2, 2, 1); x.diagonal(0, 1, 2); x.diagonal(1)
        x.clone().transpose_(0, 1); x.clone().unsqueeze_(0); x[:1].clone().squeeze_(); x[:1].clone().squeeze_(0); m.clone().t_()
    """,
    "orders": """
        x.flip(0); x.flip(0, 2); x.flip(()); t.fliplr(m); t.flipud(v); x.rot90(); x.rot90(2, (1, 2)); x.rot90(-1, (0, 2)); t.rot90(m, 3)
        x.roll(1); x.roll(-3, 2); x.roll((1, 2), (0, 1)); x.roll((1, 1), (2, 2)); x.transpose(0, 2).roll(5, 1); e.roll(1, 1)
        m.t().flip(0); v.expand(2, 5).flip(1)
    """,
    "repetition": """
        x.repeat(2, 1, 1); x.repeat(2, 1, 1, 3); v.repeat(3); v.repeat(2, 0); s.repeat(2, 2); x.tile(2); x.tile((1, 2, 1, 1)); m.t().repeat(2, 2)
        v.repeat_interleave(2); m.repeat_interleave(2, 0); m.repeat_interleave(3, dim=-1); m.repeat_interleave(k, 0); w.repeat_interleave(k)
        t.repeat_interleave(k); s.repeat_interleave(3); e.repeat(2, 2)
    """,
    "joining": """
        t.cat((x, y)); t.cat((x, y), -1); t.concat([m, m], 1); t.concatenate([v, w]); t.stack((x, y), 1); t.hstack((v, w)); t.hstack((m, m))
        t.vstack((w, w, m.t()[:1, :3])); t.row_stack((v, m)); t.dstack((v, v)); t.dstack((m, m)); t.column_stack((v, v, m.t()))
        t.block_diag(m, v, s); t.cartesian_prod(v, w); t.combinations(v); t.combinations(v, 3); t.combinations(w, 2, True); t.vander(w)
        t.vander(w, 4, True); t.linalg.vander(m)
        t.atleast_1d(s); t.atleast_2d(v); t.atleast_3d(m); t.meshgrid(v, w, indexing='ij')[0]; t.meshgrid(v, w, indexing='xy')[1]
        t.broadcast_tensors(m, v)[1]; t.broadcast_to(v, (2, 5)); t.cat((e, m.t()[:, :3]))
    """,
    "splitting": """
        t.stack(x.tensor_split(2)); x.tensor_split(3, 2)[1]; x.tensor_split((1, 3), 2)[2]; x.tensor_split((-1,), 2)[0]
        v.tensor_split(t.tensor([1, 4]))[1]; t.hsplit(x, 3)[2]; t.vsplit(x, (1,))[1]; t.dsplit(x, 2)[0]; t.hsplit(v, (2,))[1]
        x.split(2, 2)[1]; x.split((1, 3), 2)[1]; x.chunk(3, 2)[1]; t.unsafe_chunk(x, 2, 2)[0]; x.unbind(1)[2]; t.unsafe_split(x, 3, 2)[1]
    """,
    "diagonals": """
        t.diag(v); t.diag(v, 1); t.diag(v, -2); t.diag(m); t.diag(m, 1); t.diag_embed(m); t.diag_embed(x, 1, 0, 2); t.diagflat(m, -1)
        t.diagonal_scatter(a, t.ones(4, dtype=a.dtype)); t.diagonal_scatter(a, v[:3], 1); t.select_scatter(x, m[:, :4], 0, 1)
        t.slice_scatter(x, y[:, :, :2], 2, 1, 3); t.narrow_copy(m, 1, 1, 2); t.linalg.diagonal(x)
        t.tril(m); t.triu(m, 1)
    """,
    "arithmetic": """
        x + y; x - 2; 3 - x; x * y; x / 3; 2 / p; x // 0.7; x % 0.7; -x; +x; x.abs(); t.absolute(x); t.negative(x); t.positive(x)
        t.multiply(x, 2); t.subtract(x, y, alpha=2); t.divide(x, p[0, 0]); t.true_divide(x, 2); t.rsub(x, y); t.rsub(x, 2, alpha=3)
        t.add(x, y, alpha=-0.5); t.div(x, 0.3, rounding_mode='floor'); t.div(x, 0.3, rounding_mode='trunc'); t.divide(x, y)
        t.remainder(x, 0.4); t.fmod(x, 0.4); t.fmod(x, y); t.remainder(5, p); i // 3; i % 3; i / 2; 7 % n; n ** 2; 2 ** n; i.float_power(2)
        x ** 2; x ** 3; p ** 0.5; p ** -0.5; p ** -1; p ** -2; x ** 0; x ** 1; p ** 1.7; 2 ** x; p ** x[:, :, 0]; t.pow(2.5, x); z ** 2; z ** 0.5
        t.float_power(x, 2); t.float_power(2, p); t.square(x); t.hypot(x, y); t.atan2(x, y); t.arctan2(x, y); t.copysign(x, -1); t.copysign(x, y)
        t.ldexp(x, k[0]); t.frexp(x)[0]; t.frexp(x)[1]; t.lerp(x, y, 0.3); t.lerp(x, y, y); t.addcmul(x, x, y, value=2); t.addcdiv(w, w, p)
        t.round(x, decimals=2); t.round(x * 100, decimals=-1); t.rad2deg(x); t.deg2rad(x); t.fix(x); t.sgn(z); t.nan_to_num(x / 0)
        t.nan_to_num(t.tensor([1.0, float('nan'), float('inf'), -float('inf')]), 1.0, 2.0, 3.0); t.true_divide(i, n)
        i & 3; i | n; i ^ n; i << 1; i >> 1; ~i; 6 & n; t.bitwise_and(6, n); t.bitwise_left_shift(1, n); t.gcd(i, n); t.lcm(i, n); o & True
        t.cov(m); t.cov(v); t.cov(z); t.cov(m, correction=0, fweights=t.tensor([1, 2, 1, 3, 1])); t.corrcoef(m); t.renorm(m, 2, 0, 0.5); t.vander(v, 3)
        t.heaviside(x, s.abs()); t.fmax(x, y); t.fmin(x, y); t.maximum(x, y); t.logaddexp(x, y); t.logaddexp2(x, y); t.xlogy(p, 2); t.xlogy(2, p)
        t.clamp(x, -0.5, 0.5); t.clamp(x, max=0.3); t.clamp(x, min=0.1); t.clip(x, -0.1, 0.4); t.clamp(x, y - 0.5, y + 0.5); t.clamp(x, max=y)
        t.clamp(i, -2, 2.5); t.clamp(i, 0, 3); t.clamp_min(x, 0.2); t.clamp_max(i, 2); t.clamp_min(i, 1.5); t.clamp(m, min=v)
        x.clone().clamp_(-0.2, 0.2); (x * 1).clamp_(min=y); (x * 1).pow_(2); (x * 1).lerp_(y, 0.5); (x * 1).div_(0.3, rounding_mode=None)
        (x * 1).nan_to_num_(); (p * 1).mvlgamma_(1); (x * 2).absolute_(); (x * 2).multiply_(y)
    """,
    "comparison": """
        x < y; x <= 0; x > 0.1; x >= y; x == x; x != 0; t.greater(x, 0); t.less_equal(x, y); t.not_equal(i, 2); t.ge(i, 1); 1 < x; t.less(x, y)
        t.greater_equal(x, y); t.isclose(x, y); t.logical_and(o, o); i.eq(2); (x > 0) & (y > 0); t.logical_xor(x > 0, y > 0); t.where(x > 0, x, 0)
        t.where(x > 0, x, y); t.where(x > 0, 1.0, y)
    """,
    "functions": """
        t.arccos(u); t.arcsin(u); t.arctan(x); t.arcsinh(x); t.arctanh(u); t.arccosh(p + 1); t.logit(u); t.logit(u, 0.2); t.sinc(x)
        t.mvlgamma(p + 2, 3); t.digamma(p); t.polygamma(1, p); t.lgamma(p); t.erfinv(u); t.i0(x); t.igamma(p, p * 2); t.igammac(p, p * 2)
        t.special.erfcx(x); t.special.ndtr(x); t.special.ndtri(u); t.special.log_ndtr(x); t.special.xlog1py(p, p); t.special.zeta(p + 1.5, p)
        t.special.expit(x); t.special.psi(p); t.special.gammaln(p); t.special.entr(p); t.special.i0e(x); t.special.i1(x); t.special.i1e(x)
        t.special.bessel_j0(x); t.special.bessel_j1(x); t.special.bessel_y0(p); t.special.bessel_y1(p); t.special.gammainc(p, p)
        t.special.multigammaln(p + 1, 2); t.special.xlogy(p, p); t.special.exp2(x); t.special.expm1(x); t.special.log1p(p); t.special.round(x)
        t.special.sinc(x); t.special.logit(u); t.special.erf(x); t.special.digamma(p); t.special.zeta(2.5, p); t.special.spherical_bessel_j0(x)
        t.selu(x); t.celu(x, 2.0); t.nn.functional.relu6(x * 4); t.prelu(m, v); t.prelu(x, w); t.prelu(x, w[0]); t.nn.functional.hardtanh(x)
    """,
    "linalg": """
        t.linalg.inv(a); t.inverse(q); t.linalg.inv(c); t.linalg.solve(a, b); t.linalg.solve(q, b); t.linalg.solve(a, b[:, 0])
        t.linalg.solve(a, b.T, left=False); t.linalg.solve(c, c); t.linalg.solve(c, c, left=False); t.linalg.cholesky(d); t.cholesky(d, upper=True)
        t.linalg.cholesky(c @ c.mH + 4 * t.eye(4, dtype=c.dtype)); t.cholesky_solve(b, d.tril()); t.cholesky_solve(b, d.triu(), upper=True)
        t.cholesky_inverse(d.tril()); t.linalg.det(a); t.det(q); t.linalg.det(c); t.linalg.det(t.zeros(2, 2))
        t.linalg.slogdet(q)[1]; t.linalg.slogdet(c)[0]; t.linalg.slogdet(c)[1]; t.logdet(d); t.linalg.solve_triangular(a, b, upper=True)
        t.linalg.solve_triangular(a, b, upper=False, unitriangular=True); t.linalg.solve_triangular(q, b.T, upper=True, left=False)
        t.linalg.solve_triangular(c, c, upper=True); t.linalg.solve_triangular(c, c, upper=False, left=False); t.triangular_solve(b, a)[0]
        t.linalg.qr(a)[0]; t.linalg.qr(r)[0]; t.linalg.qr(r)[1]; t.linalg.qr(m)[0]; t.linalg.qr(m)[1]; t.linalg.qr(c)[1]; t.linalg.qr(r, mode='r')[1].abs()
        t.linalg.svdvals(m); t.linalg.svd(r, full_matrices=False)[1]; t.linalg.svd(q)[1]; t.linalg.svd(c)[1]; t.linalg.svd(r, full_matrices=False)[0].abs()
        (lambda U, S, V: (U * S) @ V)(*t.linalg.svd(m, full_matrices=False)); t.linalg.svd(m, full_matrices=False)[2].abs(); t.svd(r)[2].abs()
        t.linalg.eigvalsh(d); t.linalg.eigh(d)[0]; t.linalg.eigh(d)[1].abs(); t.linalg.eigvalsh(c @ c.mH); t.linalg.eigh(c @ c.mH)[1].abs()
        t.linalg.eigvals(a).abs().sort()[0]; t.linalg.eig(c)[0].abs().sort()[0]; t.linalg.eig(a)[1].abs().sum(); t.linalg.matrix_power(a, 3)
        t.linalg.matrix_power(a, -2); t.matrix_power(q, 5); t.linalg.pinv(r); t.linalg.pinv(m); t.pinverse(r)
        t.linalg.pinv(d, hermitian=True); t.linalg.matrix_rank(r); t.linalg.matrix_rank(d, hermitian=True); t.linalg.matrix_norm(r)
        t.linalg.matrix_norm(r, 2); t.linalg.matrix_norm(r, 'nuc'); t.linalg.matrix_norm(q, 1); t.linalg.matrix_norm(q, -float('inf'), keepdim=True)
        t.linalg.norm(x); t.linalg.norm(r, 'fro'); t.linalg.norm(v, 3); t.linalg.norm(r, -2); t.linalg.norm(x, 1, dim=1); t.linalg.cond(a); t.linalg.cond(a, 1)
        t.linalg.cond(a, 'fro'); t.linalg.cross(w, w * 2 + 1); t.cross(x[0], y[0], 0); t.linalg.vecdot(x, y); t.linalg.vecdot(z, z * 2)
        t.linalg.lstsq(r, r @ r.T)[0]; t.linalg.lu_factor(a)[0]; t.linalg.lu_factor(r)[0]; t.linalg.lu_factor(m)[0]; t.linalg.lu_factor(a)[1]
        t.linalg.lu(r)[1]; t.linalg.lu(m)[2]; t.linalg.lu(q)[0]; t.linalg.lu_solve(*t.linalg.lu_factor(a), b); t.lu_solve(b, *t.linalg.lu_factor(a))
        t.linalg.lu_solve(*t.linalg.lu_factor(a), b.T, left=False); t.linalg.lu_solve(*t.linalg.lu_factor(c), c, adjoint=True)
        t.linalg.lu_solve(*t.linalg.lu_factor(c), c, left=False, adjoint=True); t.linalg.lu_solve(*t.linalg.lu_factor(c), c, left=False)
        t.linalg.matrix_exp(a); t.linalg.matrix_exp(5 * a); t.matrix_exp(q); t.linalg.tensorinv(t.eye(6).reshape(2, 3, 6) * 2, ind=2)
        t.linalg.tensorsolve(q[0].reshape(4, 2, 2), q[0, 0]); t.linalg.multi_dot((a, b, b.T)); t.linalg.householder_product(r, w); t.linalg.matmul(a, b)
        t.linalg.inv_ex(a)[0]; t.linalg.cholesky_ex(d)[1]; t.linalg.eigvals(t.eye(3)); t.linalg.inv(t.zeros(0, 0)); t.linalg.svdvals(t.zeros(0, 3))
    """,
    "fft": """
        t.fft.fft(f); t.fft.fft(g); t.fft.fft(z); t.fft.ifft(z, dim=0); t.fft.fft(z, n=6); t.fft.fft(z, n=3); t.fft.fft(z, norm='ortho')
        t.fft.fft(f, norm='forward'); t.fft.rfft(f); t.fft.rfft(g); t.fft.rfft(x, dim=0); t.fft.irfft(h); t.fft.irfft(h, n=9); t.fft.irfft(z, dim=0)
        t.fft.irfft(z, n=7, dim=0, norm='ortho'); t.fft.hfft(h); t.fft.ihfft(g); t.fft.hfft(h, n=5); t.fft.fft2(x); t.fft.ifft2(z); t.fft.rfft2(x)
        t.fft.irfft2(z); t.fft.fftn(x); t.fft.ifftn(z, s=(2, 6)); t.fft.rfftn(x, dim=(0, 2)); t.fft.irfftn(z); t.fft.hfft2(z); t.fft.ihfft2(x)
        t.fft.hfftn(z); t.fft.ihfftn(x); t.fft.fftshift(g); t.fft.ifftshift(x, dim=1); t.fft.fftfreq(7, 0.5); t.fft.rfftfreq(8); t.fft.fftfreq(8)
        t.fft.fft(f.repeat(37)); t.fft.fft(f.repeat(3)[:37]); t.fft.rfft(f.repeat(9)[:101]); t.fft.ifft(f.repeat(90)[:1021]); t.fft.fft(f[:1])
        t.fft.fft(f.repeat(100)); t.fft.irfft(t.fft.rfft(f.repeat(11)[:121]), n=121)
    """,
    "creation": """
        t.eye(3); t.eye(2, 4); t.eye(3, dtype=t.int64); t.linspace(0, 1, 7); t.linspace(3, -2, 5); t.linspace(0, 10, 6, dtype=t.int64); t.linspace(1, 2, 1)
        t.linspace(1, 2, 0); t.logspace(0, 2, 5); t.logspace(0, 3, 4, base=2); t.range(0, 4); t.range(1, 2, 0.25); t.arange(0, 1, 0.1); t.hann_window(7)
        t.hann_window(6, periodic=False); t.hamming_window(8); t.blackman_window(9); t.bartlett_window(6); t.kaiser_window(8); t.kaiser_window(7, False, 5.0)
        t.hamming_window(5, True, 0.6, 0.4); t.scalar_tensor(3); t.polar(p, p); t.complex(p, p); t.full((2, 3), 1.5); t.full((2,), True); t.zeros(0, 3)
        t.zeros_like(i); t.full_like(x, 2); x.new_zeros(2, 2); x.new_full((2,), 3); x.new_ones(2, dtype=t.int32); t.hann_window(1); t.hann_window(0)
    """,
}
NO_GRADIENT = {"creation", "comparison"}
CASES = [(family, line.strip()) for family, text in FAMILIES.items() for line in re.split(r"[;\n]", text) if line.strip()]


def evaluate(lib, text, dtype, gradient):
    names = [n for n in OPERANDS if re.search(rf"(?<![\w.'\"]){n}(?![\w'\"(=])", text)]
    values = {}
    for n in names:
        array = np.array(OPERANDS[n])
        if array.dtype.kind in "fc":
            array = array.astype({"f": dtype, "c": {"float32": "complex64", "float64": "complex128"}[dtype]}[array.dtype.kind])
        values[n] = lib.tensor(array) if array.ndim == 0 else lib.from_numpy(array.copy())
        if gradient and array.dtype.kind in "fc":
            values[n].requires_grad_()
    result = eval(text, {"t": lib, **values})
    out = [result.detach().resolve_conj().numpy()]
    if gradient and result.requires_grad:
        weights = np.cos(np.arange(result.numel())).reshape(tuple(result.shape))
        weights = weights.astype(out[0].dtype) if out[0].dtype.kind == "f" else (weights + 0.5j * weights[::-1] if weights.ndim else weights).astype(out[0].dtype)
        result.backward(lib.from_numpy(np.ascontiguousarray(weights)) if weights.ndim else lib.tensor(weights))
        out += [None if v.grad is None else v.grad.resolve_conj().numpy() for v in values.values()]
    return out


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(("family", "text"), CASES)
@pytest.mark.filterwarnings("ignore")
def test_expression(both, family, text, dtype):
    ours, theirs = both
    gradient = family not in NO_GRADIENT
    try:
        expected = evaluate(theirs, text, dtype, gradient)
    except RuntimeError:        # no derivative there
        gradient = False
        expected = evaluate(theirs, text, dtype, gradient)
    actual = evaluate(ours, text, dtype, gradient)
    assert len(expected) == len(actual)
    for e, a in zip(expected, actual):
        assert (e is None) == (a is None)
        if e is not None:
            loose = 1e-9 if e.dtype in ("float64", "complex128") else 2e-3 if family == "linalg" else 2e-5
            assert e.dtype == a.dtype and e.shape == a.shape
            np.testing.assert_allclose(a, e, rtol=loose, atol=loose * (1 + np.nanmax(np.abs(e), initial=0, where=np.isfinite(e))
                                                                       if e.dtype.kind in "fc" else 0))


def test_the_old_name_of_a_reflected_quotient_asks_what_it_gets_for_its_reciprocal(lib):
    assert lib.Tensor.__rdiv__(lib.full((2,), 4.0), 2).tolist() == [0.5, 0.5]
    with pytest.raises(AttributeError):
        lib.Tensor.__rdiv__(2, lib.ones(3))
