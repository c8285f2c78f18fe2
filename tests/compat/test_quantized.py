"""Quantized tensors beside PyTorch's: integers are equal, and files are exchanged."""
import io

import pytest
import tede

torch = pytest.importorskip("torch")

F, TF = tede.nn.functional, torch.nn.functional


def numbers(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def here(x):
    return tede.tensor(x.numpy())


def pair(shape=(2, 3, 8, 4), scale=.05, zero=60, dtype="quint8", seed=0):
    x = numbers(*shape, seed=seed)
    return tede.quantize_per_tensor(here(x), scale, zero, getattr(tede, dtype)), torch.quantize_per_tensor(x, scale, zero, getattr(torch, dtype))


def same(mine, theirs):
    assert str(mine.dtype).rpartition(".")[2] == str(theirs.dtype).rpartition(".")[2] and tuple(mine.shape) == tuple(theirs.shape)
    if theirs.is_quantized:
        assert mine.is_quantized and repr(mine.qscheme()) == repr(theirs.qscheme())
        if theirs.qscheme() is torch.per_tensor_affine:
            assert (mine.q_scale(), mine.q_zero_point()) == (theirs.q_scale(), theirs.q_zero_point())
        else:
            assert mine.q_per_channel_scales().tolist() == theirs.q_per_channel_scales().tolist()
            assert mine.q_per_channel_axis() == theirs.q_per_channel_axis()
        mine, theirs = mine.int_repr(), theirs.int_repr()
    assert mine.tolist() == theirs.tolist()


@pytest.mark.parametrize("dtype", ["quint8", "qint8", "qint32"])
@pytest.mark.parametrize("scale", [.05, .1, 1 / 3, 1e-3])
def test_integers_are_pytorchs(dtype, scale):
    zero = 0 if dtype == "qint32" else 7
    mine, theirs = pair((1000,), scale, zero, dtype)
    same(mine, theirs)
    assert mine.dequantize().tolist() == theirs.dequantize().tolist()


def test_a_channel_has_its_own_scale():
    x, scales, zeros = numbers(4, 3, 5), torch.tensor([.1, .2, .3]), torch.tensor([0, 1, 2])
    for zero in (zeros, zeros / 2):
        theirs = torch.quantize_per_channel(x, scales, zero, 1, torch.quint8)
        mine = tede.quantize_per_channel(here(x), here(scales), here(zero), 1, tede.quint8)
        same(mine, theirs)
        assert mine.dequantize().tolist() == theirs.dequantize().tolist()
        if zero.is_floating_point():        # PyTorch has no views of these
            continue
        same(mine[1], theirs[1])
        same(mine[:, 1:], theirs[:, 1:])
        same(mine.unsqueeze(0), theirs.unsqueeze(0))
        assert repr(mine[0]).replace("tede.", "torch.") == repr(theirs[0])
        with pytest.raises(RuntimeError, match="only on uniformly quantized"):
            mine.transpose(0, 1)


@pytest.mark.parametrize("call", [
    lambda q, f: q.relu(), lambda q, f: q.sigmoid(), lambda q, f: q.tanh(), lambda q, f: q.clamp(-.2, .3), lambda q, f: f.hardtanh(q, -.3, .4),
    lambda q, f: f.leaky_relu(q, .1), lambda q, f: f.hardsigmoid(q), lambda q, f: f.threshold(q, .1, .1), lambda q, f: f.gelu(q).int_repr(),
    lambda q, f: f.max_pool2d(q, 2), lambda q, f: f.avg_pool2d(q, 2), lambda q, f: f.adaptive_avg_pool2d(q, 2), lambda q, f: f.pad(q, (1, 1)),
    lambda q, f: f.interpolate(q, scale_factor=2, mode="nearest"), lambda q, f: q.mean((2, 3)), lambda q, f: q.max(), lambda q, f: q.sort()[0],
    lambda q, f: q.topk(2)[1], lambda q, f: q.flip(0), lambda q, f: q.reshape(6, -1)[1:, ::2], lambda q, f: q == q.clone(), lambda q, f: q < .2,
    lambda q, f: q.min(1)[0], lambda q, f: q.fill_(.5), lambda q, f: q.relu_(), lambda q, f: q[q.dequantize() > 0], lambda q, f: q.unbind(1)[2]])
def test_operators(call):
    mine, theirs = pair()
    same(call(mine, F), call(theirs, TF))


@pytest.mark.parametrize("name, arguments", [
    ("add", (.1, 3)), ("add_relu", (.1, 3)), ("mul", (.1, 3)), ("cat", (.1, 3)), ("matmul", (.1, 3))])
def test_operators_of_two(name, arguments):
    (a, ta), (b, tb) = pair((4, 64)), pair((4, 64), .04, 50, seed=1)
    if name == "matmul":
        b, tb = b.t(), tb.t()
    one, two = ((([a, b], 0), ([ta, tb], 0)) if name == "cat" else ((a, b), (ta, tb)))
    same(getattr(tede.ops.quantized, name)(*one, *arguments), getattr(torch.ops.quantized, name)(*two, *arguments))


def test_products_with_packed_weights():
    q, tq = pair((24, 8), .02, 40)
    w, tw = pair((5, 8), .01, 0, "qint8", 1)
    bias = numbers(5, seed=2)
    mine, theirs = tede.ops.quantized.linear_prepack(w, here(bias)), torch.ops.quantized.linear_prepack(tw, bias)
    same(tede.ops.quantized.linear(q, mine, .1, 3), torch.ops.quantized.linear(tq, theirs, .1, 3))
    same(tede.ops.quantized.linear_relu(q, mine, .1, 3), torch.ops.quantized.linear_relu(tq, theirs, .1, 3))
    x = numbers(7, 8, seed=3)
    dynamic = tede.ops.quantized.linear_dynamic(here(x), mine)
    assert torch.allclose(torch.from_numpy(dynamic.numpy()), torch.ops.quantized.linear_dynamic(x, theirs), atol=1e-5)
    k, tk = pair((4, 3, 3, 3), .01, 0, "qint8", 4)
    image, t_image = pair()
    geometry = [1, 1], [1, 1], [1, 1], 1
    mine, theirs = tede.ops.quantized.conv2d_prepack(k, here(bias[:4]), *geometry), torch.ops.quantized.conv2d_prepack(tk, bias[:4].clone(), *geometry)
    same(tede.ops.quantized.conv2d(image, mine, .1, 3), torch.ops.quantized.conv2d(t_image, theirs, .1, 3))


def test_a_view_shares_memory_and_quantizer():
    q, _ = pair((4, 6))
    part = q.t()[1:, 2:]
    part.fill_(.5)
    assert q[2, 1].item() == .5 and part.q_scale() == .05 and part.storage_offset() == 13
    assert q.int_repr()[2, 1] == 70 and q.stride() == (6, 1) and q.layout is tede.strided and q.is_contiguous()


def test_copies():
    (q, tq), (p, tp) = pair(), pair(scale=.04, zero=50, seed=1)
    same(q.clone().copy_(p), tq.clone().copy_(tp))
    same(q.clone().copy_(here(numbers(2, 3, 8, 4))), tq.clone().copy_(numbers(2, 3, 8, 4)))
    assert tede.equal(q, q.clone()) and not tede.equal(q, p)
    with pytest.raises(RuntimeError, match="Copying from quantized Tensor to non-quantized Tensor is not allowed"):
        tede.zeros(2, 3, 8, 4).copy_(q)


def test_a_deep_copy_has_the_quantizer():
    import copy
    q, tq = pair()
    c = tede.quantize_per_channel(here(numbers(4, 3)), tede.tensor([.1, .2, .3]), tede.tensor([0, 1, 2]), 1, tede.qint8)
    again, other = copy.deepcopy([q, c])
    same(again, tq)
    assert again.data_ptr() != q.data_ptr() and tede.equal(other.q_per_channel_scales(), c.q_per_channel_scales()) and tede.equal(other.int_repr(), c.int_repr())


def test_what_is_refused_is_named():
    q, tq = pair()
    for x in (q, tq):
        with pytest.raises(NotImplementedError, match="Could not run 'aten::exp.* with arguments from the 'QuantizedCPU' backend"):
            x.exp()
        with pytest.raises(RuntimeError, match="to be true, but got false"):
            x.q_per_channel_axis()
    for lib, x in ((tede, here(numbers(3))), (torch, numbers(3))):
        with pytest.raises(RuntimeError, match="zero_point 300 is above upper bound"):
            lib.quantize_per_tensor(x, .1, 300, lib.quint8)
        with pytest.raises(RuntimeError, match="Quantize only works on Float Tensor, got Double"):
            lib.quantize_per_tensor(x.double(), .1, 0, lib.quint8)


def test_printed_as_pytorch_prints():
    q, tq = pair((3, 4))
    assert repr(q).replace("tede.", "torch.") == repr(tq)


@pytest.mark.parametrize("weights_only", [True, False])
def test_files_are_exchanged(weights_only):
    q, tq = pair()
    c = tede.quantize_per_channel(here(numbers(4, 3)), tede.tensor([.1, .2, .3]), tede.tensor([0, 1, 2]), 1, tede.qint8)
    tc = torch.quantize_per_channel(numbers(4, 3), torch.tensor([.1, .2, .3]), torch.tensor([0, 1, 2]), 1, torch.qint8)
    for writer, reader, values, expected in ((tede, torch, (q, c), (tq, tc)), (torch, tede, (tq, tc), (tq, tc)), (tede, tede, (q, c), (tq, tc))):
        file = io.BytesIO()
        writer.save({"q": values[0], "c": values[1]}, file)
        file.seek(0)
        read = reader.load(file, weights_only=weights_only)
        for name, value in zip("qc", expected):
            if reader is tede:
                same(read[name], value)
            else:
                assert torch.equal(read[name], value)


def test_gradients_pass_where_the_integer_was_in_range():
    x = numbers(50) * 10
    for scale, zero in ((.1, 3), (.07, 10)):
        mine, theirs = here(x).requires_grad_(), x.clone().requires_grad_()
        a, b = tede.fake_quantize_per_tensor_affine(mine, scale, zero, 0, 255), torch.fake_quantize_per_tensor_affine(theirs, scale, zero, 0, 255)
        a.sum().backward()
        b.sum().backward()
        assert a.tolist() == b.tolist() and mine.grad.tolist() == theirs.grad.tolist()
    scales, zeros = torch.tensor([.1, .2]), torch.tensor([3, 4], dtype=torch.int32)
    y = x.reshape(2, 25)
    mine = tede.fake_quantize_per_channel_affine(here(y), here(scales), here(zeros), 0, 0, 255)
    assert mine.tolist() == torch.fake_quantize_per_channel_affine(y, scales, zeros, 0, 0, 255).tolist()


@pytest.mark.parametrize("rows, symmetric", [(False, False), (False, True), (True, False)])
def test_a_moving_range(rows, symmetric):
    n = 3 if rows else 1

    def state(lib):
        return [lib.tensor([1]), lib.tensor([1]), lib.full((n,), float("inf")), lib.full((n,), -float("inf")), lib.ones(n), lib.zeros(n, dtype=lib.int32)]
    mine, theirs = state(tede), state(torch)
    for seed in range(3):
        x = numbers(3, 8, seed=seed)
        a = tede.fused_moving_avg_obs_fake_quant(here(x), *mine, .01, 0, 255, 0, rows, symmetric)
        b = torch.fused_moving_avg_obs_fake_quant(x, *theirs, .01, 0, 255, 0, rows, symmetric)
        assert torch.allclose(torch.from_numpy(a.numpy()), b, atol=1e-6)
        for one, two in zip(mine, theirs):
            assert one.tolist() == pytest.approx(two.tolist(), rel=1e-6)


def by_channel(shape, axis):
    x, n = numbers(*shape), shape[axis]
    scales, zeros = numbers(n, seed=1).abs() + .1, torch.arange(n)
    return tede.quantize_per_channel(here(x), here(scales), here(zeros), axis, tede.quint8), torch.quantize_per_channel(x, scales, zeros, axis, torch.quint8)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_views_of_tensors_with_a_scale_for_each_channel(axis):
    mine, theirs = by_channel((4, 3, 5), axis)
    views = [lambda x: x.select(axis, 1), lambda x: x.unsqueeze(0), lambda x: x.unsqueeze(2), lambda x: x.unsqueeze(3), lambda x: x.unsqueeze(0).squeeze(0),
             lambda x: x.narrow(axis, 1, 2)]
    for view in [*views, lambda x: x.unsqueeze(1).squeeze(1)]:
        same(view(mine), view(theirs))
    for call in (lambda x: x.select(axis, 1).reshape(-1), lambda x: x.narrow(axis, 1, 1)):
        expected = mine.dequantize()
        assert call(mine).dequantize().tolist() == call(expected).tolist()
    for call in (lambda x: x.view(-1), lambda x: x.transpose(0, 1), lambda x: x.as_strided((7,), (1,), 2)):
        with pytest.raises(RuntimeError, match="only on uniformly quantized"):
            call(mine)


def test_one_channel_stays_the_axis_where_dimensions_come_and_go():
    for shape, axis in (((1, 3, 4), 0), ((3, 1, 4), 1), ((2, 3, 1), 2)):
        mine, theirs = by_channel(shape, axis)
        for dim in range(4):
            a, b = mine.unsqueeze(dim), theirs.unsqueeze(dim)
            assert a.dequantize().tolist() == b.dequantize().tolist() and a.size(a.q_per_channel_axis()) == 1
    a, b = by_channel((1, 3, 4), 0)
    assert a.unsqueeze(0).q_per_channel_axis() == b.unsqueeze(0).q_per_channel_axis() == 1


def test_elements_are_put_at_indices():
    for values in (numbers(3, seed=2), torch.tensor(.5)):
        mine, theirs = pair((5, 6))
        mine[tede.tensor([0, 4, 2]), tede.tensor([1, 1, -1])] = here(values)
        theirs[torch.tensor([0, 4, 2]), torch.tensor([1, 1, -1])] = values
        same(mine, theirs)


def test_reshape_copies_where_it_must():
    mine, theirs = pair((1, 2, 3, 4))
    same(mine.transpose(1, 2).reshape(1, 4, 2, 3), theirs.transpose(1, 2).reshape(1, 4, 2, 3))


def test_limits_of_the_integers():
    for name in ("qint8", "quint8", "qint32"):
        mine, theirs = tede.iinfo(getattr(tede, name)), torch.iinfo(getattr(torch, name))
        assert (mine.bits, mine.min, mine.max) == (theirs.bits, theirs.min, theirs.max)
    with pytest.raises(TypeError, match="integer input type"):
        tede.iinfo(tede.float32)


@pytest.mark.parametrize("bits", [2, 4])
def test_the_range_that_loses_least(bits):
    x = numbers(64)
    mine, theirs = tede.choose_qparams_optimized(here(x), 64, 200, .16, bits), torch.choose_qparams_optimized(x, 64, 200, .16, bits)
    for a, b in zip(mine, theirs):
        assert a.shape == b.shape == (1,) and a.item() == pytest.approx(b.item(), abs=.03)
    low, high = x.min().half().float(), x.max()

    def loss(low, high):
        step = ((high - low) / (2**bits - 1)).half().float()
        return (x - (((x - low) / step).round().clamp(0, 2**bits - 1) * step + low)).norm()
    found = [torch.tensor(part.item()) for part in mine]
    assert loss(found[1].half().float(), found[0]) <= loss(low, high)
    assert tede._choose_qparams_per_tensor(here(x), True) == pytest.approx(torch._choose_qparams_per_tensor(x, True))
    assert tede._saturate_weight_to_fp16(tede.tensor([1e6, -1e6])).tolist() == [65504, -65504]
    for wrong, said in (((here(x), 65, 200, .16, bits), "numel is out of the bound"), ((here(x), -1, 200, .16, bits), "numel is out of the bound"),
                        ((here(x), 64, -2, 2., bits), "n_bins"), ((here(x), 64, 200, .16, 0), "bit_width"),
                        ((here(x).double(), 64, 200, .16, bits), "expected scalar type Float")):
        with pytest.raises(RuntimeError, match=said):
            tede.choose_qparams_optimized(*wrong)


def test_sums_into_a_tensor():
    (a, ta), (b, tb) = pair((4, 6)), pair((4, 6), .04, 50, seed=1)
    out, tout = tede.empty_like(a), torch.empty_like(ta)
    for name in ("add", "add_relu", "mul", "mul_relu"):
        getattr(tede.ops.quantized, name).out(a, b, out)
        getattr(torch.ops.quantized, name).out(ta, tb, tout)
        same(out, tout)
    rows = tede.quantize_per_channel(tede.ones(2, 2), tede.ones(2), tede.zeros(2).long(), 0, tede.qint8)
    with pytest.raises(RuntimeError, match="per-tensor"):
        tede.ops.quantized.matmul(rows, rows, 1., 0)


@pytest.mark.parametrize("weights_only", [True, False])
@pytest.mark.parametrize("channels", [False, True])
def test_tensors_that_are_loaded_share_their_storage(channels, weights_only):
    x = tede.arange(12.).reshape(4, 3)
    q = tede.quantize_per_channel(x, tede.tensor([1., 2., 3.]), tede.tensor([0, 1, 2]), 1, tede.quint8) if channels else \
        tede.quantize_per_tensor(x, 0.5, 3, tede.qint8)
    file = io.BytesIO()
    tede.save((q, q[1:, 1:]), file)
    file.seek(0)
    whole, part = tede.load(file, weights_only=weights_only)
    assert whole.untyped_storage().data_ptr() == part.untyped_storage().data_ptr() and part.stride() == (3, 1) and part.storage_offset() == 4
    assert tede.equal(whole, q) and tede.equal(part, q[1:, 1:])
    whole[2].fill_(9.)
    assert part[1].dequantize().allclose(tede.full((2,), 9.), atol=1.)


def test_sizes_that_are_loaded_are_within_the_storage():
    from tede._quantized import rebuild
    storage = tede.quantize_per_tensor(tede.ones(8), 0.5, 3, tede.quint8).storage()
    one = (tede.per_tensor_affine, 0.5, 3)
    assert rebuild(storage, 2, (3, 2), (2, 1), one).shape == (3, 2)
    for offset, size, stride in ((2, (7,), (1,)), (-1, (2,), (1,)), (0, (3,), (4,)), (0, (2**62, 2**62), (2**40, 1))):
        with pytest.raises((RuntimeError, ValueError)):
            rebuild(storage, offset, size, stride, one)
    scales, zeros = tede.ones(2), tede.zeros(2, dtype=tede.int64)
    assert rebuild(storage, 0, (2, 2**50), (1, 0), (tede.per_channel_affine, scales, zeros, 0)).shape == (2, 2**50)
    for axis in (1, 2, -1):
        with pytest.raises(RuntimeError, match="one for each index"):
            rebuild(storage, 0, (2, 4), (4, 1), (tede.per_channel_affine, scales, zeros, axis))


def test_the_range_of_a_tensor_without_elements_in_memory_is_an_error():
    packed = tede.ops.quantized.linear_prepack(tede.quantize_per_tensor(tede.ones(3, 2), 0.1, 0, tede.qint8), None)
    for call in (lambda x: tede.quantize_per_tensor_dynamic(x, tede.quint8, False), lambda x: tede.ops.quantized.linear_dynamic(x, packed)):
        with pytest.raises((RuntimeError, NotImplementedError)):
            call(tede.empty(3, 2, device="meta"))
    scales, zeros = tede.ones(3, device="meta"), tede.zeros(3, dtype=tede.int64, device="meta")
    with pytest.raises(NotImplementedError, match="are on meta"):
        tede.quantize_per_channel(tede.empty(3, 2, device="meta"), scales, zeros, 0, tede.quint8)
