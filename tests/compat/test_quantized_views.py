"""Operators on views of quantized tensors, which mustn't be taken apart into ones that have no kernel; and other forms of calls."""
import pytest
import tede

torch = pytest.importorskip("torch")
from quantized_pairs import here, numbers, pair  # noqa: E402
pytestmark = pytest.mark.filterwarnings("ignore")
mine, theirs = tede.ops.quantized, torch.ops.quantized
F = tede.nn.functional


def same(a, b, steps=0):
    assert a.shape == b.shape and str(a.dtype).split(".")[1] == str(b.dtype).split(".")[1]
    assert (a.q_scale(), a.q_zero_point()) == (b.q_scale(), b.q_zero_point())
    assert (torch.tensor(a.int_repr().tolist(), dtype=torch.int64) - b.int_repr().long()).abs().amax() <= steps


VIEWS = {"permuted": lambda x: x.permute(0, 3, 1, 2), "part": lambda x: x[:, 1:, ::2], "view": lambda x: x.view(2, 4, 3, 12), "all": lambda x: x[:]}
CALLS = {
    "max_pool2d": lambda lib, x: lib.nn.functional.max_pool2d(x, 2),
    "torch.max_pool2d": lambda lib, x: lib.max_pool2d(x, 2, 1, 1),
    "quantized.max_pool2d": lambda lib, x: lib.ops.quantized.max_pool2d(x, [2, 2], [2, 2], [0, 0], [1, 1], False),
    "nearest": lambda lib, x: lib.nn.functional.interpolate(x, scale_factor=2, mode="nearest"),
    "nearest-exact": lambda lib, x: lib.nn.functional.interpolate(x, size=5, mode="nearest-exact"),
    "avg_pool2d": lambda lib, x: lib.nn.functional.avg_pool2d(x, 2),
    "adaptive_avg_pool2d": lambda lib, x: lib.nn.functional.adaptive_avg_pool2d(x, (2, 3)),
    "relu": lambda lib, x: lib.relu(x), "clamp": lambda lib, x: lib.clamp(x, -0.5, 1.),
}


@pytest.mark.parametrize("dtype", ["quint8", "qint8", "qint32"])
@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("call", CALLS)
def test_operators_on_views(call, view, dtype):
    q, expected = (VIEWS[view](x) for x in pair(numbers(2, 4, 6, 6), 0.05, 7, dtype))
    same(CALLS[call](tede, q), CALLS[call](torch, expected), 1 if "avg" in call else 0)
    with tede.inference_mode():
        inside = VIEWS[view](pair(numbers(2, 4, 6, 6), 0.05, 7, dtype)[0])
        assert CALLS[call](tede, inside).int_repr().equal(CALLS[call](tede, q).int_repr())


def test_views_are_written_through():
    q = pair(numbers(3, 4), 0.1, 2)[0]
    q[1].fill_(1.)
    q[:, 2] = tede.ones(3)
    assert q.dequantize()[1].allclose(tede.ones(4)) and q.dequantize()[:, 2].allclose(tede.ones(3))


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact"])
@pytest.mark.parametrize("dtype", ["quint8", "qint8", "qint32"])
def test_volumes_are_resized(mode, dtype):
    q, expected = pair(numbers(1, 2, 4, 5, 3), 0.1, 3, dtype)
    same(F.interpolate(q, size=3, mode=mode), torch.nn.functional.interpolate(expected, size=3, mode=mode))
    same(F.interpolate(q, scale_factor=2, mode=mode), torch.nn.functional.interpolate(expected, scale_factor=2, mode=mode))


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_images_are_sampled(padding):
    (q, expected), grid = pair(numbers(2, 3, 5, 5), 0.05, 7), numbers(2, 4, 4, 2, seed=1)
    same(F.grid_sample(q, here(grid), padding_mode=padding, align_corners=False),
         torch.nn.functional.grid_sample(expected, grid, padding_mode=padding, align_corners=False), 1)


@pytest.mark.parametrize("dtype", ["quint8", "qint8"])
def test_means_of_volumes(dtype):
    q, expected = pair(numbers(2, 3, 4, 6, 5), 0.05, 7, dtype)
    same(F.adaptive_avg_pool3d(q, (2, 3, 2)), torch.nn.functional.adaptive_avg_pool3d(expected, (2, 3, 2)), 1)


@pytest.mark.parametrize("name", ["add", "mul", "add_relu", "mul_relu"])
def test_results_into_a_tensor_by_its_name(name):
    (a, ta), (b, tb) = pair(numbers(5), 0.05, 100), pair(numbers(5, seed=1), 0.03, 110)
    (out, t_out) = pair(torch.zeros(5), 0.1, 90)
    assert getattr(mine, name)(a, b, out=out) is out
    getattr(theirs, name)(ta, tb, out=t_out)
    same(out, t_out)


def test_joined_into_a_tensor_by_its_name():
    a, ta = pair(numbers(2, 3), 0.05, 100)
    out, t_out = pair(torch.zeros(4, 3), 0.1, 90)
    mine.cat_out([a, a], dim=0, out=out)
    theirs.cat_out([ta, ta], dim=0, out=t_out)
    same(out, t_out)
    with pytest.raises(RuntimeError, match="missing"):
        mine.cat_out([a, a], dim=0)
    channels = tede.quantize_per_channel(here(numbers(2, 3)), tede.ones(3), tede.zeros(3, dtype=tede.int64), 1, tede.quint8)
    with pytest.raises(RuntimeError, match="supported in 'cat'"):
        mine.cat([channels, a], dim=0, scale=1., zero_point=0)


def test_images_of_one_format_are_joined_as_pytorch_rounds():
    x = torch.arange(2 * 128 * 3 * 3).reshape(2, 3, 3, 128) % 100 * 1.
    (a, ta), (b, tb) = ([one.permute(0, 3, 1, 2) for one in pair(x, scale, 7)] for scale in (1., .5))
    same(mine.cat([a, b], dim=1, scale=2., zero_point=7), theirs.cat([ta, tb], dim=1, scale=2., zero_point=7))


@pytest.mark.parametrize("scale, zero, value", [(4853.509765625, 255, 0.), (1028.02, 255, 514.)])
def test_sigmoid_of_large_steps(scale, zero, value):
    q, expected = pair(torch.full((64,), value), scale, zero)
    same(tede.sigmoid(q), torch.sigmoid(expected))
    same(F.hardsigmoid(q), torch.nn.functional.hardsigmoid(expected))
    same(mine.sigmoid(q, 1 / 256, 0), theirs.sigmoid(expected, 1 / 256, 0))


def test_layers_of_nothing():
    packed = mine.linear_prepack(pair(numbers(3, 2), 0.1, 0, "qint8")[0], tede.ones(3))
    for name in ("linear_dynamic", "linear_relu_dynamic"):
        made = getattr(mine, name)(tede.ones(0, 2), packed)
        assert made.shape == (0, 3) and made.dtype == tede.float32
    made = mine.linear_dynamic(tede.ones(2, 0, 2), packed)
    assert made.shape == (2, 0, 3)


@pytest.mark.parametrize("dtype", ["quint8", "qint8", "qint32"])
@pytest.mark.parametrize("value", [-1, 1.7, 200.])
def test_channels_are_filled(value, dtype):
    x, scales, zeros = numbers(2, 3, 4), torch.tensor([0.3, 1.1, 2.3], dtype=torch.float64), torch.tensor([0, 3, 9])
    q = tede.quantize_per_channel(here(x), here(scales), here(zeros), 1, getattr(tede, dtype))
    expected = torch.quantize_per_channel(x, scales, zeros, 1, getattr(torch, dtype))
    assert q.fill_(value).int_repr().tolist() == expected.fill_(value).int_repr().tolist()
    assert q.q_per_channel_zero_points().tolist() == zeros.tolist()
    assert q[:, 1].fill_(0.).dequantize().count_nonzero() == 0
    whole = pair(x, 0.5, 3, dtype)
    assert whole[0].fill_(value).int_repr().tolist() == whole[1].fill_(value).int_repr().tolist()


def test_new_makes_no_quantized_tensors():
    for q in pair(numbers(2, 3), 0.1, 3):
        for arguments in ((), (2, 3), ([6],), (q,)):
            with pytest.raises(RuntimeError, match="new..: expected"):
                q.new(*arguments)
