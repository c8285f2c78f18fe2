"""Operators that are made of copies, on devices: joined, reversed, rolled, repeated, on a diagonal."""
import pytest

tede = pytest.importorskip("tede")


@pytest.mark.parametrize("dtype", [tede.float32, tede.bfloat16, tede.int64, tede.bool])
def test_the_same_elements_elsewhere(agrees, dtype):
    x = tede.randint(-3, 4, (3, 4, 5)).to(dtype)
    for view in (x, x.transpose(0, 2), x[:, ::2], x[:, :0]):
        agrees(lambda x: [x.flip(0, 2), x.roll(2, 2), x.roll(7), x.roll((1, -1), (0, 2)), x.repeat(2, 1, 3), x.repeat(2, 2, 1, 1), tede.diag_embed(x, 1),
                          tede.cat([x, x[:1]]), tede.stack([x, x], 1), tede.cat([x, x], 2), x.rot90(), tede.hstack([x, x])], view)
    agrees(lambda x: [tede.cat([x, x.half()], 1), tede.cat([x, tede.empty(0, device=x.device)]), x.repeat(0, 1, 1), x[0, 0, 0].flip([])], x)


def test_gradients(agrees):
    x, y = tede.randn(3, 4, requires_grad=True), tede.randn(3, 2, requires_grad=True)
    agrees(lambda x, y: [tede.cat([x, y, x], 1), x.flip(1), x.roll(1, 0), tede.diag_embed(y), tede.stack([x, x])], x, y)


def test_devices_must_agree(device):
    x = tede.ones(2, 2)
    with pytest.raises(RuntimeError, match="same device"):
        tede.cat([x, x.to(device)])


@pytest.mark.parametrize("view", [lambda x: x[..., 1:4], lambda x: x[1], lambda x: x[::2, 1], lambda x: x.diagonal(), lambda x: x.unfold(2, 3, 2),
                                  lambda x: x.as_strided((3, 4), (1, 1), 2), lambda x: x[:1].expand(3, 5, 6).as_strided((5,), (1,)),
                                  lambda x: x.unbind(1)[2], lambda x: x.split(2)[1], lambda x: x.mT[:, 2:]])
def test_gradients_of_views(agrees, view):
    agrees(view, tede.randn(4, 5, 6, requires_grad=True))


def test_gradients_of_nothing_and_of_parts(agrees):
    agrees(lambda t: (t[0:0], t.unfold(0, 2, 1)), tede.randn(2, 0, requires_grad=True))
    agrees(lambda t: tede.unsafe_split(t, 2), tede.randn(5, 3, requires_grad=True))


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, -1, 0.5, 2.5])
def test_powers_of_numbers(agrees, exponent):
    x = tede.rand(3, 5).add_(0.5).requires_grad_()
    agrees(lambda t: t ** exponent, x)
    agrees(lambda t: (exponent + 1.5) ** t, x)
    agrees(lambda t: t.clone().pow_(exponent), x)
    if exponent in (0, 1, 2, 3):
        agrees(lambda t: (t ** exponent, tede.pow(t, exponent, out=tede.empty_like(t))), tede.arange(6))


@pytest.mark.parametrize("repeats", [[2, 0, 3, 1], [0, 0], [], [0, 1000, 1]])
def test_repeats_by_element(agrees, device, repeats):
    for dtype in tede.int64, tede.int32:
        counts = tede.tensor(repeats, dtype=dtype)
        agrees(tede.repeat_interleave, counts)
        agrees(lambda x, n: x.repeat_interleave(n, 0), tede.randn(len(repeats), 3, requires_grad=True), counts, atol=1e-4)    # sums of 1000
    total = sum(repeats)
    agrees(lambda n: tede.repeat_interleave(n, output_size=total), counts)
    for wrong, size, error in ([1, -1], None, "repeats can not be negative"), ([1, 1], 3, "allocated size"):
        with pytest.raises(RuntimeError, match=error):
            tede.repeat_interleave(tede.tensor(wrong).to(device), output_size=size)


@pytest.mark.parametrize("dtype", [tede.complex64, tede.complex128], ids=str)
def test_complex_numbers_are_copied_there(agrees, device, dtype):
    x = tede.randn(64, 40, dtype=dtype)
    other = tede.complex64 if dtype == tede.complex128 else tede.complex128
    agrees(lambda x: [x.t().contiguous(), x[::3, 1:].clone(), tede.cat([x, x.flip(0)], 1), x[None, 1:2].expand(5, 1, 40).contiguous(), x.to(other),
                      x.t().to(other), x[3, 3].clone(), x.real.t().contiguous(), x[:0].clone()], x)
    there = x.to(device)
    there.t().contiguous(), there.t().to(other)         # the first call builds the kernels
    with tede.memory.track() as memory:
        there.t().contiguous(), there.t().to(other)
    assert all(block.device != "cpu" or block.nbytes < x.numel() * x.element_size() // 2 for block in memory.at_peak().blocks), memory.at_peak()
