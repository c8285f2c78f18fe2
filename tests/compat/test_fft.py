"""Fourier transforms of all kinds of lengths: products of small primes, primes, long ones; alone and many side by side."""
import math

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
