"""An out= that is also an input, where PyTorch's result is anybody's guess: here it is that of a separate out."""
import warnings

import pytest
import tede


@pytest.mark.parametrize('call', [
    lambda x, out: tede.sum(x, 0, out=out), lambda x, out: tede.cumsum(x, 1, out=out),
    lambda x, out: tede.mm(x, x.T, out=out), lambda x, out: tede.softmax(x, 0, out=out),
    lambda x, out: tede.sort(x, 0, out=(out, tede.empty(0, dtype=tede.int64)))[0],
])
def test_an_input_as_out_gives_the_same_values(call):
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        x = (tede.arange(12.) * 7 % 5).reshape(3, 4)
        want = call(x, tede.empty(0))
        y = x.clone()
        got = call(y, y)
        assert got.tolist() == want.tolist()
        rows = x.clone()
        part = call(rows, rows[0])
        assert part.tolist() == want.tolist()


def test_two_outs_may_be_one():
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        out = tede.empty(0)
        tede.linalg.qr(tede.rand(40, 3), out=(out, out))
        assert out.shape == (3, 3)


@pytest.mark.parametrize("call", [
    lambda F, x: F.softmax(x, 1), lambda F, x: F.group_norm(x, 2), lambda F, x: F.layer_norm(x, (6,)), lambda F, x: F.rms_norm(x, (6,)),
    lambda F, x: F.batch_norm(x, None, None, training=True), lambda F, x: F.max_pool2d(x, 2), lambda F, x: F.avg_pool2d(x, 3, 2, 1),
    lambda F, x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2), lambda F, x: F.conv2d(x, x[:, :, :3, :3], padding=1),
    lambda F, x: F.conv_transpose2d(x, x[:1, :, :3, :3].mT.expand(4, 4, 3, 3), stride=2), lambda F, x: F.interpolate(x, size=(5, 7)),
    lambda F, x: F.grid_sample(x, x[:, :2].movedim(1, -1) * 3 - 1.5, align_corners=False), lambda F, x: F.unfold(x, 3),
    lambda F, x: F.embedding(tede.tensor([1, 2, 1]), x[0, 0]), lambda F, x: F.cross_entropy(x[0, 0], tede.tensor([1, 0, -100, 2, 3, 4])),
    lambda F, x: F.pad(x, (1, 2, 1, 0), mode="reflect")])
@pytest.mark.parametrize("dtype", [tede.float16, tede.bfloat16])
def test_results_that_are_computed_beside_their_tensors_are_written_whole(call, dtype):
    """New memory holds NaN here: what a kernel left of it would show."""
    tede.manual_seed(0)
    x, found = tede.rand(4, 4, 6, 6).to(dtype), []
    tede.use_deterministic_algorithms(True)
    try:
        for kind in (dtype, tede.float32):
            leaf = x.detach().to(kind).requires_grad_()
            y = call(tede.nn.functional, leaf)
            y.float().sum().backward()
            found.append((y.detach().float(), leaf.grad.float()))
    finally:
        tede.use_deterministic_algorithms(False)
    for half, whole in zip(*found):
        assert tede.allclose(half, whole, atol=0.2, rtol=0.1)
