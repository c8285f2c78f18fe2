"""3 x 3 convolutions of many channels: by whichever way, they are near the sums in double precision."""
import numpy as np
import pytest

CASES = [(2, 16, 16, 15, 17, 1, 1), (1, 32, 16, 20, 31, 2, 1), (1, 20, 17, 30, 14, 1, 0), (1, 16, 16, 14, 14, 1, 2),
         (1, 16, 16, 40, 9, 1, 5), (3, 24, 16, 14, 15, 1, 1), (1, 16, 16, 16, 60, 1, (0, 3))]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_results_and_gradients_are_near_those_in_double_precision(lib, case):
    t, (n, c, o, h, w, groups, padding) = lib, case
    random = np.random.default_rng(h * w)
    arrays = [random.standard_normal(s) for s in ((n, c * groups, h, w), (o * groups, c, 3, 3), (o * groups,))]
    found = []
    for dtype in (t.float32, t.float64):
        x, k, b = (t.tensor(a).to(t.float32).to(dtype).requires_grad_() for a in arrays)
        y = t.nn.functional.conv2d(x, k, b, padding=padding, groups=groups)
        (y * y).sum().backward()
        found.append([v.detach().numpy() for v in (y, x.grad, k.grad, b.grad)])
    for one, two in zip(*found):
        assert one.shape == two.shape and np.abs(one - two).max() < 4e-6 * np.abs(two).max()


@pytest.mark.parametrize("number", [float("inf"), 1e38])
def test_an_infinite_input_gives_infinite_results_not_nans(lib, number):
    t = lib
    x = t.zeros(1, 16, 20, 20)
    x[0, 3, 9, 9] = number
    y = t.nn.functional.conv2d(x, t.full((16, 16, 3, 3), 100.), padding=1)
    assert int(y.isinf().sum()) == 16 * 9
    assert not y.isnan().any() and int((y == 0).sum()) == 16 * (400 - 9)
