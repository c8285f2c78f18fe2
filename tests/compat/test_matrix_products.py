"""Products of two matrices, however both lie: across the sizes at which b is packed, by one thread or by all, and left as it
is.  tede's have the same bits for any number of threads."""
import numpy as np
import pytest

LIES = {
    "rows": lambda lib, x: x.contiguous(),
    "columns": lambda lib, x: x.t().contiguous().t(),
    "every second": lambda lib, x: lib.stack([x, x], 2).flatten(1)[:, ::2],
    "in a wider one": lambda lib, x: lib.cat([x, x], 1)[:, x.shape[1]:],
}


@pytest.fixture
def threads(lib):
    before = lib.get_num_threads()
    yield lib.set_num_threads
    lib.set_num_threads(before)


@pytest.mark.parametrize("m, n, k", [(2, 50, 70), (8, 40, 2100), (9, 3072, 400), (64, 64, 1030), (63, 1024, 64),
                                     (96, 96, 64), (130, 161, 513), (97, 4200, 65), (260, 256, 1100), (1, 300, 5000)])
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_products_agree_with_those_of_doubles(lib, threads, m, n, k, dtype):
    lib.manual_seed(m)
    dtype = getattr(lib, dtype)
    a, b, bias = lib.randn(m, k).to(dtype), lib.randn(k, n).to(dtype), lib.randn(n).to(dtype)
    expected = a.double() @ b.double()
    least = (4 if dtype == lib.bfloat16 else 100) * lib.finfo(dtype).eps * (1 + k ** 0.5)
    for one, other in ("rows", "rows"), ("columns", "columns"), ("every second", "in a wider one"), ("rows", "columns"):
        x, y = LIES[one](lib, a), LIES[other](lib, b)
        results = []
        for count in 1, 3:
            threads(count)
            results.append((x @ y, lib.addmm(bias, x, y), lib.addmm(bias.expand(m, n), x, y, beta=-0.5, alpha=2),
                            lib.nn.functional.linear(x, y.t(), bias), lib.stack([x, x]) @ y))
        plain, added, scaled, linear, pair = (result.double() for result in results[0])
        assert (plain - expected).abs().max() <= least
        assert (pair - expected).abs().max() <= least
        assert (added - expected - bias.double()).abs().max() <= 2 * least
        assert (linear - expected - bias.double()).abs().max() <= 2 * least
        assert (scaled - 2 * expected + bias.double() / 2).abs().max() <= 4 * least
        if lib.__name__ == "tede":
            assert all(lib.equal(x, y) for x, y in zip(*results))


def test_complex_products_are_made_of_real_ones(lib):
    # From 16 rows on, and beyond 24 cubed, they go another way than small ones.
    def parts(a, b):
        return a.real @ b.real - a.imag @ b.imag, a.real @ b.imag + a.imag @ b.real

    make = lambda *sizes: lib.complex(lib.randn(*sizes, dtype=lib.float64), lib.randn(*sizes, dtype=lib.float64))
    for a, b in ((make(40, 33), make(33, 37)), (make(33, 40).t(), make(37, 33).t()), (make(33, 40).mH, make(33, 37)),
                 (make(3, 40, 33), make(3, 33, 37)), (make(3, 40, 33), make(33, 37).expand(3, 33, 37)), (make(7, 90), make(90, 60))):
        re, im = parts(a.resolve_conj(), b)
        assert (a @ b - lib.complex(re, im)).abs().max() < 1e-12
        c = make(*re.shape)
        for alpha, beta in ((2 - 1j, 0.5), (1j, 1j), (1, 0)):
            sums = (lib.baddbmm if c.ndim == 3 else lib.addmm)(c, a, b, alpha=alpha, beta=beta)
            assert (sums - (beta * c + alpha * (a @ b))).abs().max() < 1e-11


def test_a_real_alpha_makes_no_nan_of_an_infinity(lib):
    a, one = lib.ones(20, 20, dtype=lib.complex64), lib.eye(20, dtype=lib.complex64)
    a[0, 0] = float("inf")
    for product in (a @ one, lib.addmm(one, a, one, alpha=2)):
        assert product[0, 0].real.item() == float("inf")


def bfloat_matrix(lib, rows, columns, layout, seed):
    """Numbers of bfloat16 in one of four layouts, and the same in double precision."""
    generator = np.random.default_rng(seed)
    values = (generator.integers(-128, 128, (rows, columns)) / 64).astype(np.float32)       # exact in bfloat16
    if layout == "turned":
        return lib.from_numpy(values.T.copy()).to(lib.bfloat16).t(), values.astype(np.float64)
    if layout == "strided":
        wide = np.zeros((rows, 2 * columns + 1), np.float32)
        wide[:, 1:2 * columns:2] = values
        return lib.from_numpy(wide).to(lib.bfloat16)[:, 1:2 * columns:2], values.astype(np.float64)
    if layout == "odd":         # what lies beside it must not be read; PyTorch's products by AMX multiply it by zero
        wide = np.full((rows, columns + 3), 0 if lib.__name__ == "torch" else np.nan, np.float32)
        wide[:, 1:columns + 1] = values
        return lib.from_numpy(wide).to(lib.bfloat16)[:, 1:columns + 1], values.astype(np.float64)
    return lib.from_numpy(values).to(lib.bfloat16), values.astype(np.float64)


@pytest.mark.parametrize("shape", [(2, 2, 1), (3, 48, 7), (97, 112, 33), (100, 143, 1025),
                                   (200, 1100, 40)])
@pytest.mark.parametrize("first", ["rows", "turned", "strided", "odd"])
@pytest.mark.parametrize("second", ["rows", "turned", "strided", "odd"])
def test_products_of_bfloat16_add_up_in_floats(lib, shape, first, second):
    m, n, k = shape
    a, exact_a = bfloat_matrix(lib, m, k, first, 1)
    b, exact_b = bfloat_matrix(lib, k, n, second, 2)
    c, exact_c = bfloat_matrix(lib, m, n, "rows", 3)
    exact = exact_a @ exact_b
    for got, wanted in ((a @ b, exact), (lib.addmm(c, a, b, beta=2, alpha=0.5), 2 * exact_c + 0.5 * exact)):
        assert got.dtype is lib.bfloat16 and got.shape == (m, n)
        np.testing.assert_allclose(got.float().numpy(), wanted, rtol=2.0 ** -8, atol=1e-4)      # one rounding of the sum


def test_a_product_of_bfloat16_keeps_infinities(lib):
    a = lib.tensor([[float("inf"), 1.0, 2.0], [1.0, float("-inf"), 3.0]]).to(lib.bfloat16)
    b = lib.tensor([[1.0, 2.0], [1.0, 1.0], [0.5, -1.0]]).to(lib.bfloat16)
    assert (a @ b).tolist() == [[float("inf"), float("inf")], [float("-inf"), float("-inf")]]


@pytest.mark.parametrize("dtype", ("float32", "float64", "complex64", "bfloat16", "int32"))
@pytest.mark.parametrize("m, k, n", ((12, 8, 50), (2, 8, 50), (100, 100, 100), (12, 64, 50), (300, 40, 70), (5, 1, 50), (1, 8, 50)))
def test_factors_whose_rows_or_columns_are_one(lib, dtype, m, k, n):
    lib.manual_seed(0)
    dtype, wide = getattr(lib, dtype), lib.complex128 if dtype == "complex64" else lib.float64

    def draw(*shape):
        return lib.randint(-3, 4, shape).to(dtype)
    for a in (draw(m, k), draw(m, 1).expand(m, k), draw(1, k).expand(m, k), draw(1, 1).expand(m, k)):
        for b in (draw(k, n), draw(k, 1).expand(k, n), draw(1, n).expand(k, n), draw(1, 1).expand(k, n)):
            expected = (a.to(wide)[:, :, None] * b.to(wide)).sum(1).to(dtype)
            assert lib.equal(a @ b, expected)
            assert lib.equal(lib.bmm(a.expand(3, m, k), b.expand(3, k, n))[2], expected)


@pytest.mark.parametrize("dtype", ("uint8", "int8", "int16", "int32", "int64"))
@pytest.mark.parametrize("m, k, n", ((1, 5, 70), (8, 128, 64), (9, 129, 65), (12, 300, 200), (33, 7, 8)))
def test_products_of_integers_wrap_in_every_layout(lib, dtype, m, k, n):
    dtype = getattr(lib, dtype)
    a = lib.arange(m * k).remainder(91).reshape(m, k)
    b = lib.arange(k * n).remainder(97).reshape(k, n)
    right = (a.double() @ b.double()).long()      # exact: below 2 to the 53rd
    for x in (a.to(dtype), a.to(dtype).t().contiguous().t()):
        for y in (b.to(dtype), b.to(dtype).t().contiguous().t()):
            assert lib.equal(x @ y, right.to(dtype))
            bias = lib.ones(m, n, dtype=dtype)
            assert lib.equal(lib.addmm(bias, x, y, alpha=3, beta=2), (2 + 3 * right).to(dtype))


def test_products_of_bytes_are_int32(lib):
    lib.manual_seed(0)
    b = lib.randint(-128, 128, (16, 8), dtype=lib.int8)
    for a in (lib.randint(-128, 128, (17, 16), dtype=lib.int8), lib.randint(0, 256, (17, 16), dtype=lib.uint8)):
        want = a.long() @ b.long()
        product = lib._int_mm(a, b)
        assert product.dtype == lib.int32 and product.equal(want.int())
        out = lib.empty(17, 8, dtype=lib.int32)
        assert lib._int_mm(a, b, out=out) is out and out.equal(product)
    assert lib._int_mm(b.t(), b).equal((b.t().long() @ b.long()).int())
    for m, k, n in ((1, 1, 1), (3, 130, 70), (5, 64, 64), (33, 257, 191), (70, 0, 3), (0, 5, 3)):        # parts of panels, steps and tiles
        a, b = (lib.randint(-128, 128, s, dtype=lib.int8) for s in ((m, k), (k, n)))
        strided = lib.randint(-128, 128, (2 * k, 3 * n), dtype=lib.int8)[::2, ::3]
        for x in (a, a.view(lib.uint8), a.t().contiguous().t()):
            for y in (b, b.t().contiguous().t(), strided, b[:, :1].expand(k, n)):
                assert lib._int_mm(x, y).equal((x.long() @ y.long()).int())
    extremes = lib.full((20, 300), -128, dtype=lib.int8)
    assert (lib._int_mm(extremes, extremes.t()) == 300 * 128 * 128).all()
    b = lib.randint(-128, 128, (16, 8), dtype=lib.int8)
    for x, y, words in ((b.t().float(), b, "int8 or uint8"), (b.float(), b, "needs to match"),
                        (b.t(), b.float(), "Expected mat2 dtype to be of type int8"), (b, b, "needs to match"),
                        (b[0], b, "to be of dimension 2 but got 1")):
        with pytest.raises(RuntimeError, match=words):
            lib._int_mm(x, y)
    with pytest.raises(RuntimeError, match="Expected result dtype to be of type kInt but got float"):
        lib._int_mm(b.t(), b, out=lib.empty(8, 8))


def test_linear_converts_a_bias_that_is_added_to_no_matrix(both):
    results = []
    for lib in both:
        x, weight = lib.arange(24.).reshape(2, 3, 4).transpose(0, 1), lib.arange(20.).reshape(5, 4)
        bias = lib.arange(5., dtype=lib.float16).requires_grad_()
        row = lib.nn.functional.linear(x, weight, bias)
        row.sum().backward()
        wide = lib.nn.functional.linear(lib.ones(2, 2, 3, 4), weight, lib.ones(3, 5, dtype=lib.float64))
        results.append([(y.dtype == dtype, y.tolist()) for y, dtype in ((row, lib.float32), (bias.grad, lib.float16), (wide, lib.float32))])
        for operand in (x[0], x.contiguous()):
            with pytest.raises(RuntimeError, match="self and mat2 must have the same dtype, but got Half and Float"):
                lib.nn.functional.linear(operand, weight, bias)
        with pytest.raises(RuntimeError, match="result type Half can't be cast to the desired output type Long"):
            lib.nn.functional.linear(x.long(), weight.long(), bias)
        layer = lib.nn.MultiheadAttention(4, 4, batch_first=True, dtype=lib.float64)
        layer.in_proj_bias = lib.nn.Parameter(layer.in_proj_bias.to(lib.float16))
        assert layer(*[lib.ones(2, 3, 4, dtype=lib.float64)] * 3)[0].dtype == lib.float64
    assert results[0] == results[1]
