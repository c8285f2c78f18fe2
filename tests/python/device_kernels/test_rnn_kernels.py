"""rnn.ck beside the CPU's kernels: layers in both directions, cells' gradients, sizes at the edges."""
import copy

import pytest

tede = pytest.importorskip("tede")
nn = tede.nn
CLOSE = {"rtol": 1e-4, "atol": 1e-5}


def runs(agrees, layer, *arguments, **close):
    """A layer's results, and the gradients of what it is passed and of its weights."""
    def call(weights, *arguments):
        return tede.func.functional_call(layer, weights, arguments)
    agrees(call, {name: p.detach().clone().requires_grad_() for name, p in layer.named_parameters()}, *arguments, **(close or CLOSE))


def some(*sizes, dtype=tede.float32):
    return tede.randn(sizes).to(dtype).requires_grad_()


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN, lambda *a, **k: nn.RNN(*a, nonlinearity="relu", **k)])
@pytest.mark.parametrize("options", [{}, {"bidirectional": True, "num_layers": 2}, {"bias": False, "batch_first": True}])
def test_layers(agrees, kind, options):
    runs(agrees, kind(5, 7, **options), some(6, 4, 5))


@pytest.mark.parametrize("sizes", [(1, 1, 1, 1), (1, 3, 4, 5), (9, 1, 3, 70), (2, 0, 3, 4)])
def test_sizes_at_the_edges(agrees, sizes):
    steps, rows, n_in, width = sizes
    for kind in nn.LSTM, nn.GRU:
        runs(agrees, kind(n_in, width), some(steps, rows, n_in))


def test_states_that_are_passed(agrees):
    runs(agrees, nn.GRU(5, 7), some(6, 4, 5), some(1, 4, 7))
    runs(agrees, nn.LSTM(5, 7), some(6, 4, 5), (some(1, 4, 7), some(1, 4, 7)))
    runs(agrees, nn.LSTM(5, 7, proj_size=3), some(6, 4, 5))
    runs(agrees, nn.LSTM(5, 7), some(4, 6, 5).detach().transpose(0, 1), (some(1, 7, 4).detach().mT, some(1, 4, 14).detach()[..., ::2]))


@pytest.mark.parametrize("dtype", [tede.float64, tede.float16, tede.bfloat16])
def test_dtypes(agrees, dtype):
    close = {"rtol": 1e-9, "atol": 1e-9} if dtype == tede.float64 else {"rtol": 3e-2, "atol": 3e-2}
    for kind in nn.LSTM, nn.GRU:
        runs(agrees, kind(5, 7, dtype=dtype), some(6, 4, 5, dtype=dtype), **close)


def test_packed_sequences_train(device):
    layer, losses = nn.LSTM(3, 8), []
    x, lengths = tede.randn(7, 5, 3), tede.tensor([7, 5, 5, 2, 1])
    for where in "cpu", device:
        model = copy.deepcopy(layer).to(where)
        optimizer = tede.optim.SGD(model.parameters(), 0.1)
        for _ in range(3):
            out, _ = model(nn.utils.rnn.pack_padded_sequence(x.to(where), lengths))
            loss = out.data.square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        losses.append(loss.item())
    assert abs(losses[0] - losses[1]) < 1e-5 * abs(losses[0]) + 1e-6 and losses[0] > 0
