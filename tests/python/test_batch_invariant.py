"""In batch_invariant mode a row's bits don't depend on the batch that it is in: whole batches against parts of every size."""
import math

import pytest

import tede

F = tede.nn.functional
BATCH, PARTS = 67, (1, 2, 3, 4, 5, 7, 8, 13, 16, 17, 31, 32, 33, 48, 64, 66)
DTYPES = [tede.float32, tede.float64, tede.bfloat16, tede.complex64]


def check(call, *operands):
    """call() of parts, taken from three places of the batch, gives the same bits as of the whole."""
    with tede.batch_invariant():
        whole = call(*operands)
        for size in PARTS:
            for start in (0, (BATCH - size) // 2, BATCH - size):
                part = call(*(x[start:start + size] for x in operands))
                assert tede.equal(part, whole[start:start + size]), f"{size} rows from {start} on"


def turned(x):
    return x.t().contiguous().t()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("k, n", [(1, 1), (3, 5), (64, 1), (64, 64), (100, 130), (700, 33)])
def test_products(dtype, k, n):
    tede.manual_seed(0)
    x, weight, bias = tede.randn(BATCH, k, dtype=dtype), tede.randn(n, k, dtype=dtype), tede.randn(n, dtype=dtype)
    matrix = weight.t().contiguous()
    check(lambda x: F.linear(x, weight, bias), x)
    check(lambda x: F.linear(x, weight), x)
    check(lambda x: x @ matrix, turned(x))
    check(lambda x: tede.addmm(bias, x, matrix, beta=0.5, alpha=2), x)
    check(lambda x: x @ weight[0], x)
    for rows in (1, 3):
        a, b = tede.randn(BATCH, rows, k, dtype=dtype), tede.randn(BATCH, k, min(n, 40), dtype=dtype)
        check(lambda a, b: a @ b, a, b)
        check(lambda a: F.linear(a, weight, bias), a)


ROWS = {
    "layer_norm": lambda x: F.layer_norm(x, x.shape[1:], x[0].detach() * 0 + 2), "rms_norm": lambda x: F.rms_norm(x, x.shape[1:]),
    "softmax": lambda x: x.softmax(-1), "log_softmax": lambda x: x.log_softmax(-1), "sum": lambda x: x.sum(-1),
    "mean": lambda x: x.mean(-1), "var": lambda x: x.var(-1, correction=0), "prod": lambda x: x.prod(-1),
    "norm": lambda x: tede.linalg.vector_norm(x, dim=-1), "logsumexp": lambda x: x.logsumexp(-1), "cumsum": lambda x: x.cumsum(-1),
    "normalize": lambda x: F.normalize(x, dim=-1), "amax": lambda x: x.amax(-1),
}


@pytest.mark.parametrize("dtype", DTYPES[:3], ids=str)
@pytest.mark.parametrize("name", ROWS)
def test_rows(name, dtype):
    tede.manual_seed(0)
    for n in (1, 3, 16, 33, 1000):
        x = tede.randn(BATCH, n, dtype=dtype)
        check(ROWS[name], x)
        check(ROWS[name], turned(x))
    check(lambda x: x.sum(-1), tede.randn(BATCH, 70_000, dtype=dtype)[:, ::2])


def test_reductions_over_several_dimensions_and_norms_of_pictures():
    tede.manual_seed(0)
    x = tede.randn(BATCH, 4, 30)
    for dims in (1, 2, (1, 2)):
        check(lambda x: x.sum(dims), x)
        check(lambda x: x.var(dims), x.transpose(1, 2))
    check(lambda x: F.group_norm(x, 2), x)
    check(lambda x: F.softmax(x, 1), x)
    weight = tede.randn(8, 4, 3)
    check(lambda x: F.conv1d(x, weight, padding=1), x)


@pytest.mark.parametrize("dtype", DTYPES[:3], ids=str)
@pytest.mark.parametrize("queries, keys, width", [(1, 300, 64), (40, 40, 16), (130, 130, 32)])
def test_attention(queries, keys, width, dtype):
    tede.manual_seed(0)
    q, k, v = (tede.randn(BATCH, 2, n, width, dtype=dtype) for n in (queries, keys, keys))
    check(F.scaled_dot_product_attention, q, k, v)
    check(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), q, k, v)


def test_models():
    tede.manual_seed(0)
    x = tede.randn(BATCH, 9, 12)
    lstm, layer = tede.nn.LSTM(12, 8, batch_first=True).eval(), tede.nn.TransformerEncoderLayer(12, 3, 16, batch_first=True).eval()
    with tede.no_grad():
        check(lambda x: lstm(x)[0], x)
        check(layer, x)


def test_the_mode_ends_and_nests():
    @tede.batch_invariant()
    def inside():
        return tede.is_batch_invariant()
    with tede.batch_invariant():
        assert inside() and tede.is_batch_invariant()
    assert inside() and not tede.is_batch_invariant()


@pytest.mark.parametrize('name', ['sum', 'mean', 'var', 'logsumexp', 'prod', 'nansum'])
def test_reductions_of_a_middle_dimension_are_those_of_rows(name):
    tede.manual_seed(0)
    for n, c in ((3, 2), (100, 17), (1000, 5), (4097, 3)):
        x = tede.randn(4, n, c)
        with tede.batch_invariant():
            whole = getattr(x, name)(1)
            for i in range(c):
                assert tede.equal(whole[:, i], getattr(x[:, :, i].contiguous(), name)(1)), (n, c, i)


@pytest.mark.parametrize('dtype', [tede.float32, tede.float64, tede.float16])
@pytest.mark.parametrize('name', ['sin', 'cos', 'tan', 'exp', 'tanh', 'erf', 'sigmoid', 'expm1', 'log1p', 'sinc', 'lgamma'])
def test_an_elements_result_does_not_depend_on_its_neighbours(name, dtype):
    tede.manual_seed(0)
    alone = tede.randn(261, dtype=tede.float64).mul(3).to(dtype)
    for neighbour in (1e7, math.nan, math.inf, 0.):
        among = alone.clone()
        among[::7] = neighbour
        kept = tede.arange(261) % 7 != 0
        a, b = (getattr(tede, name)(x)[kept] for x in (alone, among))
        assert tede.equal(a.nan_to_num(7.), b.nan_to_num(7.))


@pytest.mark.parametrize('name', ['softmax', 'log_softmax'])
@pytest.mark.parametrize('dtype', [tede.float32, tede.float64, tede.bfloat16])
def test_softmax_in_the_middle_does_not_depend_on_the_number_of_columns(name, dtype):
    """A single column lies together as a row does, which is added up in another order."""
    tede.manual_seed(0)
    x, f = tede.randn(2, 300, 17, dtype=tede.float64).mul(5).to(dtype), getattr(tede, name)
    with tede.batch_invariant():
        whole, whole_grad = tede.func.vjp(lambda x: f(x, 1), x)[0], tede.func.vjp(lambda x: f(x, 1), x)[1](x)[0]
        for j in range(17):
            column = x[:, :, j:j + 1]
            result, vjp = tede.func.vjp(lambda x: f(x, 1), column)
            assert tede.equal(result, whole[:, :, j:j + 1])
            assert tede.equal(vjp(column)[0], whole_grad[:, :, j:j + 1])
