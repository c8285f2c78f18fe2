"""Fourier transforms of all kinds of lengths: products of small primes, primes, long ones; alone and many side by side."""
import math

import numpy as np
import pytest

LENGTHS = [1, 2, 3, 7, 11, 13, 17, 31, 37, 49, 60, 64, 81, 97, 121, 125, 169, 210, 343, 512, 997]
LONG = [1024, 1155, 2401, 3003, 4099, 6000, 10007, 44100, 65536]


def matrix(lib, n):
    k = lib.arange(n, dtype=lib.float64)
    angle = -2 * math.pi / n * lib.remainder(k[:, None] * k, n)
    return lib.complex(lib.cos(angle), lib.sin(angle))


def near(lib, got, want, single):
    scale = want.abs().max().item()
    assert (got - want).abs().max().item() <= (2e-6 if single else 1e-13) * scale


@pytest.mark.parametrize('n', LENGTHS)
@pytest.mark.parametrize('single', [True, False])
def test_a_transform_is_the_product_with_the_matrix_of_roots(lib, n, single):
    lib.manual_seed(n)
    F, real = matrix(lib, n), lib.float32 if single else lib.float64
    for lines in 1, 3, 19:
        x = lib.complex(lib.randn(lines, n, dtype=real), lib.randn(lines, n, dtype=real))
        wide = x.to(lib.complex128)
        near(lib, lib.fft.fft(x), wide @ F, single)
        near(lib, lib.fft.fft(x.mT.contiguous(), dim=0), (wide @ F).mT, single)
        near(lib, lib.fft.ifft(x, norm='forward'), wide @ F.conj(), single)
        r = x.real.contiguous()
        half = lib.fft.rfft(r)
        near(lib, half, (r.to(lib.complex128) @ F)[:, :n // 2 + 1], single)
        near(lib, lib.fft.irfft(half, n=n), r.to(lib.float64), single)
        near(lib, lib.fft.hfft(half, n=n, norm='backward'), n * lib.fft.irfft(half.conj(), n=n).to(lib.float64), single)


@pytest.mark.parametrize('n', LONG)
@pytest.mark.parametrize('single', [True, False])
def test_long_lines(lib, n, single):
    k, real = lib.arange(n, dtype=lib.float64), lib.float32 if single else lib.float64
    for lines in 1, 9:
        x, want = lib.zeros(lines, n, dtype=real), lib.zeros(lines, n, dtype=lib.complex128)
        for place, height in ((0, 1.), (1, -2.), (n // 3, 3.), (n - 2, 0.5)):
            x[:, place] = height
            angle = -2 * math.pi / n * lib.remainder(k * place, n)
            want += height * lib.complex(lib.cos(angle), lib.sin(angle))
        near(lib, lib.fft.fft(x), want, single)
        near(lib, lib.fft.ifft(x.to(lib.complex64 if single else lib.complex128), norm='forward'), want.conj(), single)
        near(lib, lib.fft.rfft(x), want[:, :n // 2 + 1], single)
        near(lib, lib.fft.irfft(lib.fft.rfft(x), n=n), x.to(lib.float64), single)
        strided = lib.fft.fft(x.mT.contiguous(), dim=0)
        near(lib, strided, want.mT, single)


def test_threads_do_not_change_a_bit(lib):
    if lib.__name__ == "torch":
        pytest.skip("MKL's plans depend on the number of threads on some processors")
    before = lib.get_num_threads()
    lib.manual_seed(0)
    try:
        for shape in ((40, 360), (5, 2048), (3, 1009), (33, 64, 5)):
            x = lib.randn(shape)
            found = []
            for n in 1, 2, 3:
                lib.set_num_threads(n)
                found.append([lib.fft.fft(x, dim=1), lib.fft.rfft(x, dim=0)])
            for other in found[1:]:
                assert all(lib.equal(a, b) for a, b in zip(found[0], other))
    finally:
        lib.set_num_threads(before)


def test_infinite_numbers_make_no_nan_where_a_root_is_one(lib):
    inf = math.inf
    assert str(lib.fft.rfft(lib.tensor([inf, 1.]))) == "tensor([inf+0.j, inf+0.j])"
    assert str(lib.fft.fft(lib.tensor([0., inf, 2.]))) == "tensor([inf+0.j, -inf-infj, -inf+infj])"
    assert str(lib.fft.rfft(lib.tensor([inf, 1., 2., 3.]))) == "tensor([inf+0.j, inf+2.j, inf+0.j])"
    assert lib.fft.irfft(lib.tensor([inf + 0j, 1, 2, 3])).tolist() == [inf] * 6


@pytest.mark.parametrize('n', [2, 4, 6, 8, 16, 34, 97, 194, 240, 256, 512, 768, 1024, 1994, 2000, 4096, 11025, 16384])
@pytest.mark.parametrize('kind, bound', [('float32', 2e-6), ('float64', 2e-14)])
def test_real_and_complex_lines_along_each_dimension(lib, n, kind, bound):
    rng = np.random.default_rng(n)
    bound *= 100 if lib.__name__ == 'torch' and n in (97, 194, 1994) else 1        # how PyTorch takes primes is less exact
    for lines in 1, 3, 17:
        x = rng.standard_normal((lines, n)).astype(kind)
        c = (x + 1j * rng.standard_normal((lines, n))).astype('complex64' if kind == 'float32' else 'complex128')
        half = np.fft.rfft(x.astype(float)).astype(c.dtype)
        for dim in 1, 0:
            lay = (lambda a: a) if dim else (lambda a: np.ascontiguousarray(a.T))
            for found, want in ((lib.fft.rfft(lib.from_numpy(lay(x)), dim=dim), np.fft.rfft(x.astype(float))),
                                (lib.fft.fft(lib.from_numpy(lay(x)), dim=dim), np.fft.fft(x.astype(float))),
                                (lib.fft.fft(lib.from_numpy(lay(c)), dim=dim), np.fft.fft(c.astype(complex))),
                                (lib.fft.irfft(lib.from_numpy(lay(half)), n=n, dim=dim), np.fft.irfft(half.astype(complex), n=n))):
                assert np.abs(found.resolve_conj().numpy() - lay(want)).max() <= bound * np.abs(want).max()


def test_a_line_that_is_not_finite_leaves_the_others_alone(lib):
    x = lib.randn(20, 64)
    bad = x.clone()
    bad[3, 5], bad[7, 0] = math.nan, math.inf
    found, want = lib.fft.rfft(bad), lib.fft.rfft(x)
    others = [i for i in range(20) if i not in (3, 7)]
    assert lib.equal(found[others], want[others]) and found[3].real.isnan().any()
