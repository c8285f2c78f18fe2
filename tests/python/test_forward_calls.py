"""What forward mode costs: it runs on formulas, without a backward graph, at no more than three times the calls."""
import pytest
import tede
from tede import nn
from tede.autograd import forward_ad as fw


def calls(f):
    with tede.profiler.profile() as seen:
        f()
    return [event.name for event in seen.events()]


def passes(f, operands):
    """The names of a plain pass's calls, and of a pass where every operand has a tangent."""
    plain = calls(lambda: f(*operands))
    with fw.dual_level():
        duals = [fw.make_dual(x, tede.ones_like(x)) for x in operands]
        return plain, calls(lambda: f(*duals))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.LayerNorm(8), nn.LayerNorm(8)
        self.into, self.out = nn.Linear(8, 24), nn.Linear(8, 8)
        self.wide, self.narrow = nn.Linear(8, 32), nn.Linear(32, 8)

    def forward(self, x):
        q, k, v = (t.view(2, 5, 2, 4).transpose(1, 2) for t in self.into(self.first(x)).chunk(3, -1))
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(2, 5, 8))
        return x + self.narrow(nn.functional.gelu(self.wide(self.second(x))))


NETWORKS = {
    "perceptron": (lambda: nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 3), nn.LogSoftmax(1)), (3, 4)),
    "convolutions": (lambda: nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 4, 2),
                                           nn.GroupNorm(2, 4), nn.SiLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3)), (2, 2, 9, 9)),
    "transformer": (Block, (2, 5, 8)),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_takes_three_times_the_calls(name):
    make, shape = NETWORKS[name]
    net = make().requires_grad_(False)
    x = tede.randn(shape)
    plain, dual = passes(net, [x])
    assert len(dual) <= 3 * len(plain), dual
    parameters = dict(net.named_parameters())

    def by_parameters(*values):
        return tede.func.functional_call(net, dict(zip(parameters, values)), (x,))
    plain, dual = passes(by_parameters, list(parameters.values()))
    assert len(dual) <= (4 if name == "convolutions" else 3) * len(plain), dual


def square():
    a = tede.randn(4, 4, dtype=tede.float64)
    return a @ a.mT + 4 * tede.eye(4, dtype=tede.float64)


linalg, F = tede.linalg, nn.functional
ONES = {
    "cholesky": (linalg.cholesky, square), "inv": (linalg.inv, square), "det": (linalg.det, square), "slogdet": (linalg.slogdet, square),
    "qr": (linalg.qr, square), "svd": (linalg.svd, square), "eigh": (linalg.eigh, square), "eig": (linalg.eig, square),
    "lu_factor": (lambda a: linalg.lu_factor(a)[0], square), "lu": (linalg.lu, square), "pinv": (linalg.pinv, square),
    "solve": (linalg.solve, square, square), "lstsq": (lambda a, b: linalg.lstsq(a, b)[0], square, square),
    "solve_triangular": (lambda a, b: linalg.solve_triangular(a, b, upper=True), square, square),
    "matrix_norm": (linalg.matrix_norm, square), "nuclear": (lambda a: linalg.matrix_norm(a, "nuc"), square),
    "vector_norm": (linalg.vector_norm, square), "var_mean": (lambda a: tede.var_mean(a, 0), square), "std": (lambda a: a.std(1), square),
    "cumprod": (lambda a: a.cumprod(0), square), "amax": (lambda a: a.amax(0), square), "layer_norm": (lambda a: F.layer_norm(a, (4,)), square),
    "cross_entropy": (lambda a: F.cross_entropy(a, tede.arange(4)), square), "nll": (lambda a: F.nll_loss(a, tede.arange(4)), square),
    "pools": (lambda a: F.avg_pool1d(F.max_pool1d(a, 2), 2), square), "pad": (lambda a: F.pad(a[None], (1, 1), "reflect"), square),
}


@pytest.mark.parametrize("name", ONES)
def test_no_graph_is_made(name):
    f, *makers = ONES[name]
    plain, dual = passes(f, [make() for make in makers])
    assert len(dual) > len(plain)
    assert not [event for event in dual if event.startswith("autograd::engine")], dual


def test_running_logarithms_of_sums_have_tangents_however_far_apart_their_elements_are():
    """PyTorch takes the largest of all out of every exponent, and gives 0 or NaN for what is far below it."""
    for values in ([-200., 0., 3.], [0., 300., 3.], [-1000., -2000., 50.]):
        x = tede.tensor(values)
        tangent = tede.func.jvp(lambda a: tede.logcumsumexp(a, 0), (x,), (tede.ones(3),))[1]
        assert tede.allclose(tangent, tede.ones(3))
    x = tede.tensor([-tede.inf, -tede.inf, 1.])
    assert tede.func.jvp(lambda a: tede.logcumsumexp(a, 0), (x,), (tede.tensor([2., 3., 4.]),))[1].tolist() == [2, 3, 4]
