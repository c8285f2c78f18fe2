"""create.ck beside the CPU: sequences, triangles; one_hot and embeddings, which are scattered and gathered."""
import pytest

tede = pytest.importorskip("tede")


def on(x, call):
    return call(x.device)


@pytest.mark.parametrize("dtype", [tede.float32, tede.float64, tede.float16, tede.int64, tede.int32, tede.uint8])
def test_sequences(agrees, dtype):
    here = tede.zeros(1)
    agrees(lambda x: [tede.arange(10, device=x.device, dtype=dtype), tede.arange(3, 50, 7, device=x.device, dtype=dtype),
                      tede.arange(0, device=x.device, dtype=dtype), tede.linspace(0, 100, 11, device=x.device, dtype=dtype),
                      tede.linspace(3, 90, 1, device=x.device, dtype=dtype), tede.linspace(5, 5, 0, device=x.device, dtype=dtype)], here)
    agrees(lambda x: [tede.arange(0.5, 9, 0.25, device=x.device), tede.arange(10, -10, -3, device=x.device), tede.eye(3, device=x.device),
                      tede.linspace(-1, 1, 1001, device=x.device), tede.arange(2**40, 2**40 + 5, device=x.device)], here)


@pytest.mark.parametrize("dtype", [tede.float32, tede.bool, tede.bfloat16, tede.complex128])
def test_triangles(agrees, dtype):
    x = tede.randint(1, 5, (2, 4, 6)).to(dtype)
    for view in (x, x.transpose(1, 2), x[:, ::2], x[:, :0]):
        agrees(lambda x: [x.tril(), x.triu(1), x.tril(-2), x.triu(-1), x.tril(100), x.clone().tril_(1), x.clone().triu_()], view)
    agrees(lambda x: x.repeat(1, 1, 2)[:, :, ::2].tril_(), x)


def test_fills_and_hot(agrees):
    x, i = tede.randn(3, 4, requires_grad=True), tede.tensor([[2, 0], [1, 1]])
    agrees(lambda x: [tede.fill(x, 2.5), tede.fill(x, x[0, 0].detach()), x.tril(), x.triu(1)], x)
    agrees(lambda i: [tede.nn.functional.one_hot(i), tede.nn.functional.one_hot(i, 5)], i)


@pytest.mark.parametrize("dtype", [tede.float32, tede.float16, tede.float64])
def test_embeddings(agrees, dtype):
    w, i = tede.randn(10, 6).to(dtype).requires_grad_(), tede.randint(0, 10, (5, 7))
    close = {"rtol": 1e-2, "atol": 1e-2} if dtype == tede.float16 else {}
    f = tede.nn.functional.embedding
    agrees(lambda w, i: [f(i, w), f(i, w, padding_idx=3), f(i, w, scale_grad_by_freq=True), f(i.int(), w.t().contiguous().t())], w, i, **close)


def test_an_index_that_is_out_of_range(device):
    w, i = tede.randn(4, 2, device=device), tede.tensor([1, 4], device=device)
    y = tede.nn.functional.embedding(i, w)
    with pytest.raises(IndexError, match=r"index out of range in self \(embedding: index 4, but there are 4 rows\) \(in embedding, which"):
        y.cpu()
    assert y[1].eq(0).all() and y[0].eq(w[1]).all()
    with pytest.raises(RuntimeError, match="smaller than num_classes"):
        tede.nn.functional.one_hot(i, 4)
    with pytest.raises(RuntimeError, match="non-negative"):
        tede.nn.functional.one_hot(-i)


@pytest.mark.parametrize("dtype", [tede.float32, tede.bfloat16, tede.float16, tede.int64, tede.uint8, tede.bool, tede.complex64])
def test_fills(agrees, dtype):
    x = tede.arange(90).view(9, 10).to(dtype)

    def filled(x, part, value):
        y = x.clone()
        part(y).fill_(value)
        return y
    parts = [lambda y: y, lambda y: y[3], lambda y: y[2:5], lambda y: y[:, 1:4], lambda y: y.t(), lambda y: y[::2, ::3], lambda y: y[1, 1], lambda y: y[:0]]
    values = [0, 1, True] + [-0.0, 2.5, float("nan"), float("inf")] * dtype.is_floating_point + [7, 257] * (dtype == tede.int64)
    agrees(lambda x: [filled(x, part, value) for part in parts for value in values], x)
    agrees(lambda x: [x.new_zeros(70), x.new_ones(3, 70), x.new_full((67,), 1), tede.zeros_like(x), tede.ones_like(x.t())], x)


def test_a_number_of_another_dtype_fills(agrees):
    x = tede.randn(5, 16)
    agrees(lambda x: [x.clone().copy_(tede.tensor(3)), x.bfloat16().copy_(tede.tensor(1 / 3, dtype=tede.float64)), x.long().copy_(tede.tensor(2.75)),
                      x.clone().fill_(tede.tensor(2 ** 24 + 1)), (x > 0).copy_(tede.tensor(0.5))], x)


def test_the_sign_of_a_zero_stays(agrees):
    agrees(lambda x: 1 / x.clone().fill_(-0.0), tede.randn(33))
