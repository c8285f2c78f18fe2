"""Packed weights: blocks of each format, unpacked as the formats' definitions have it (written here once more, element by element);
products beside those of unpacked weights; and what a tensor of that layout does besides."""
import copy
import functools
import io
import math
import os
import pickle
import struct
import subprocess
import sys

import numpy
import pytest
import tede
from tede import quantization

F = tede.nn.functional
FORMATS = {"int8": None, "int4_g32": 32, "int4_g64": 64, "int4_g128": 128, "q4_0": 32, "q8_0": 32, "q4_k": 256, "q6_k": 256, "mxfp4": 32}
# The relative error of normally distributed weights, at most; the scales' spacing gives about three quarters of it.
ERRORS = {"int8": .01, "int4_g32": .09, "int4_g64": .1, "int4_g128": .115, "q4_0": .1, "q8_0": .007, "q4_k": .09, "q6_k": .025, "mxfp4": .14}


def half(data, at):
    return struct.unpack_from("<e", data, at)[0]


def brain(data, at):
    return struct.unpack("<f", b"\0\0" + data[at:at + 2])[0]


def nibbles(data):
    return [b & 15 for b in data] + [b >> 4 for b in data]


def unpack_q4_k(d):
    scales, out = d[4:16], []
    for j in range(8):
        if j < 4:
            scale, least = scales[j] & 63, scales[j + 4] & 63
        else:
            scale, least = scales[j + 4] & 15 | scales[j - 4] >> 6 << 4, scales[j + 4] >> 4 | scales[j] >> 6 << 4
        codes = nibbles(d[16 + j // 2 * 32:48 + j // 2 * 32])[j % 2 * 32:][:32]
        out += [half(d, 0) * scale * c - half(d, 2) * least for c in codes]
    return out


def unpack_q6_k(d):
    out = []
    for e in range(256):
        part, quarter, i = e // 128, e % 128 // 32, e % 32
        low = d[64 * part + 32 * (quarter % 2) + i] >> 4 * (quarter // 2) & 15
        code = low | (d[128 + 32 * part + i] >> 2 * quarter & 3) << 4
        out.append(half(d, 208) * struct.unpack_from("b", d, 192 + e // 16)[0] * (code - 32))
    return out


def unpack_mxfp4(d):
    values = [0, .5, 1, 1.5, 2, 3, 4, 6]
    return [(-1 if c & 8 else 1) * values[c & 7] * 2.0 ** (d[0] - 127) for c in nibbles(d[1:])]


def unpack_int4(d, group):
    """A row: scales and zeros of all groups, then 128 codes in 64 bytes and at last 32 in 16."""
    k = len(d) * group // (4 + group // 2)
    codes, out = d[k // group * 4:], []
    for at in range(0, k // 2, 64):
        whole = codes[at:at + 64]
        out += nibbles(whole) if len(whole) == 64 else [c for i in range(0, len(whole), 16) for c in nibbles(whole[i:i + 16])]
    return [(c - 8) * brain(d, i // group * 4) + brain(d, i // group * 4 + 2) for i, c in enumerate(out)]


UNPACK = {
    **{f"int4_g{group}": functools.partial(unpack_int4, group=group) for group in (32, 64, 128)},
    "q4_0": lambda d: [half(d, 0) * (c - 8) for c in nibbles(d[2:])],
    "q8_0": lambda d: [half(d, 0) * q for q in struct.unpack("32b", d[2:])],
    "q4_k": unpack_q4_k, "q6_k": unpack_q6_k, "mxfp4": unpack_mxfp4,
}


def blocks_of(x):
    return bytes(tede._C._layout_parts(x)[0][1].flatten().tolist())


def from_blocks(data, rows, columns, format, dtype=tede.float32):
    bytes_ = tede.tensor(list(data), dtype=tede.uint8).reshape(rows, -1)
    return tede._packed_from_blocks(bytes_, (rows, columns), format, dtype=dtype)


def random_blocks(format, count, seed):
    """Blocks of random codes, whose scales are moderate numbers; every byte value comes as code."""
    r = numpy.random.default_rng(seed)
    size = FORMATS[format]
    bytes_ = len(blocks_of(tede.zeros(1, size).to_packed(format)))
    data = r.integers(0, 256, (count, bytes_), dtype=numpy.uint8)
    some = r.uniform(-2, 2, (count, 2))
    if format.startswith("int4"):               # of a row of one block
        data[:, :4] = (some.astype(numpy.float32).view(numpy.uint32) >> 16).astype(numpy.uint16).view(numpy.uint8)
    elif format == "q6_k":
        data[:, 208:] = some[:, :1].astype(numpy.float16).view(numpy.uint8)
    elif format == "q4_k":
        data[:, :4] = some.astype(numpy.float16).view(numpy.uint8)
    elif format == "mxfp4":
        data[:, 0] = r.integers(110, 140, count)
    else:
        data[:, :2] = some[:, :1].astype(numpy.float16).view(numpy.uint8)
    return data.tobytes(), bytes_


@pytest.mark.parametrize("format", UNPACK)
def test_blocks_are_unpacked_as_the_format_says(format):
    size, count = FORMATS[format], 48
    for seed in range(3):
        data, bytes_ = random_blocks(format, count, seed)
        right = [x for at in range(0, len(data), bytes_) for x in UNPACK[format](data[at:at + bytes_])]
        right = numpy.array(right).astype(numpy.float32)
        for rows in (48,) if format.startswith("int4") else (1, 3, 48):         # int4's block is a row
            got = from_blocks(data, rows, count // rows * size, format).to_dense().numpy().ravel()
            if format.startswith("int4"):       # rounded after the product and after the sum
                assert numpy.allclose(got, right, rtol=1e-6, atol=1e-6)
            else:
                assert numpy.array_equal(got, right)


def test_nbytes_are_those_of_the_blocks():
    assert [tede.zeros(3, 256).to_packed(format).nbytes for format in ("q4_k", "q8_0", "int8")] == [3 * 144, 3 * 8 * 34, 3 * 320]


@pytest.mark.parametrize("group", [32, 64, 128])
def test_rows_of_int4_of_all_lengths(group):
    r = numpy.random.default_rng(group)
    for k in range(group, 1100, group):
        scales = r.uniform(-2, 2, (3, k // group * 2)).astype(numpy.float32).view(numpy.uint32) >> 16
        data = numpy.concatenate([scales.astype(numpy.uint16).view(numpy.uint8), r.integers(0, 256, (3, k // 2), dtype=numpy.uint8)], 1)
        w = from_blocks(data.tobytes(), 3, k, f"int4_g{group}")
        right = numpy.array([unpack_int4(row.tobytes(), group) for row in data])
        assert numpy.allclose(w.to_dense().numpy(), right, rtol=1e-6, atol=1e-6)
        for m in 1, 2, 4, 7:
            x = r.integers(-127, 128, (m, k)).astype(numpy.float32)
            x[:, ::32] = 127
            assert numpy.allclose(F.linear(tede.tensor(x), w).numpy(), x @ right.T, atol=1e-5 * 127 * k)
        # what was packed here is what was meant
        again = tede.tensor(right, dtype=tede.float32).to_packed(f"int4_g{group}").to_dense() - w.to_dense()
        assert (again.norm() / w.to_dense().norm()).item() < .06


def test_every_exponent_of_mxfp4():
    data = b"".join(bytes([e]) + bytes(range(0, 256, 16)) for e in range(255))
    got = from_blocks(data, 1, 255 * 32, "mxfp4").to_dense().numpy().ravel()
    right = numpy.array([x for at in range(0, len(data), 17) for x in unpack_mxfp4(data[at:at + 17])])
    with numpy.errstate(over="ignore"):
        assert numpy.array_equal(got, right.astype(numpy.float32))
    assert from_blocks(bytes([255]) + bytes(16), 1, 32, "mxfp4").to_dense().isnan().all()


def test_every_code_of_int8():
    row = struct.pack("256b", *range(-128, 128)) + struct.pack("<f", .5) + bytes(60)
    assert from_blocks(row, 1, 256, "int8").to_dense().tolist() == [[x / 2 for x in range(-128, 128)]]


@pytest.mark.parametrize("format", FORMATS)
def test_errors_of_quantization_are_bounded(format):
    w = tede.randn(64, 512, generator=tede.Generator().manual_seed(1))
    packed = w.to_packed(format)
    assert packed.layout is tede.packed and packed.shape == (64, 512) and packed.dtype is tede.float32
    dense = packed.to_dense()
    assert ((dense - w).norm() / w.norm()).item() < ERRORS[format]
    # what a format can say is said again exactly, or (where scales are searched) nearly
    again = dense.to_packed(format).to_dense()
    assert ((again - dense).norm() / dense.norm()).item() < (.02 if format in ("q4_k", "q6_k") or "int4" in format else 1e-3)
    for scale in 1e-20, 0.:         # of zeros nothing is left, of almost nothing not more than it was
        small = (w * scale).to_packed(format).to_dense()
        assert small.isfinite().all() and small.abs().max().item() <= 2 * scale * w.abs().max().item()


@pytest.mark.parametrize("format", FORMATS)
def test_products_are_those_of_unpacked_weights(format):
    g = tede.Generator().manual_seed(2)
    size = FORMATS[format] or 1
    for n, k in (1, 512), (7, 256), (64, 768), (37, 1024 if size > 64 else 5 * 32 if size == 32 else 1152):
        w = tede.randn(n, k, generator=g).to_packed(format)
        for m in 1, 2, 3, 5, 16, 33:
            x, bias = tede.randn(m, k, generator=g), tede.randn(n, generator=g)
            right = x.double() @ w.to_dense().double().t()
            got = F.linear(x, w)
            spread = x.norm(dim=1, keepdim=True).double() * w.to_dense().norm(dim=1).double()
            assert ((got - right).abs() <= .03 * spread).all() and ((got - right).norm() / right.norm() < .02 or n * m < 8)
            assert tede.allclose(F.linear(x, w, bias), got + bias, rtol=1e-5, atol=1e-4)
            assert tede.equal(F.linear(x.reshape(m, 1, k), w), got.reshape(m, 1, n))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
@pytest.mark.parametrize("format", FORMATS)
def test_products_with_any_number_of_rows(format, dtype):
    """From some rows on weights and x may become bfloat16 on the way; the last rows of weights are fewer than are taken at once."""
    g, dtype = tede.Generator().manual_seed(5), getattr(tede, dtype)
    for n, k in (70, 256), (3, 512), (129, 1280), (40, 2816):       # parts of the last begin within blocks
        w = tede.randn(n, k, generator=g, dtype=dtype).to_packed(format)
        dense, bias = w.float().to_dense().double(), tede.randn(n, generator=g).to(dtype)
        for m in 1, 15, 16, 17, 33, 100, 200:
            x = tede.randn(m, k, generator=g).to(dtype)
            right = x.double() @ dense.t() + bias.double()
            got = F.linear(x, w, bias)
            spread = x.double().norm(dim=1, keepdim=True) * dense.norm(dim=1)
            assert got.dtype is dtype and ((got.double() - right).abs() <= .03 * spread + right.abs() / 128).all(), (n, k, m)
            assert (got.double() - right).norm() / right.norm() < .01


def test_many_rows_of_float32_lose_less_than_few():
    """Where x isn't rounded to bytes its error is that of bfloat16: weights of whole numbers leave no other."""
    g = tede.Generator().manual_seed(6)
    w = (tede.randint(-127, 128, (100, 512), generator=g)).float()
    w[:, 0] = 127
    x = tede.randn(64, 512, generator=g)
    right, packed = x.double() @ w.double().t(), w.to_packed("int8")
    few, many = ((F.linear(x[:rows], packed).double() - right[:rows]).norm() / right[:rows].norm() for rows in (8, 64))
    assert many <= few * 1.05 and few < .01


WIDTHS = {None: (1, 31, 33, 63, 64, 65, 100, 129, 191, 192, 257, 300), 32: (32, 64, 96, 160, 224, 288, 2080), 64: (64, 128, 192, 320, 448, 1088),
          128: (128, 256, 384, 896, 2176), 256: (256, 512, 768, 4352)}


@pytest.mark.parametrize("format", FORMATS)
def test_every_group_has_its_own_scales(format):
    """Of weights and of activations, which here are powers of two apart from group to group; for widths that leave a rest of any kind."""
    r = numpy.random.default_rng(4)
    for k in WIDTHS[FORMATS[format]]:
        apart = 2. ** r.integers(-3, 4, (k + 31) // 32)
        for n in 1, 4, 6:
            w = tede.tensor((r.standard_normal((n, k)) * 2. ** r.integers(-3, 4, (k + 31) // 32).repeat(32)[:k]).astype("f4")).to_packed(format)
            for m in 1, 2, 3, 4, 6:
                x = r.integers(-127, 128, (m, k)).astype("f4")
                x[:, ::32] = 127
                x *= apart.repeat(32)[:k].astype("f4")
                dense = w.to_dense().numpy().astype(float)
                got = F.linear(tede.tensor(x), w).numpy()
                assert (numpy.abs(got - x.astype(float) @ dense.T) <= 1e-5 * (numpy.abs(x).astype(float) @ numpy.abs(dense).T) + 1e-30).all()


@pytest.mark.parametrize("format", FORMATS)
def test_activations_that_int8_holds_give_exact_products(format):
    """With x of whole numbers up to 127 in each group nothing of it is lost on the way, so that all paths must agree with the sum, where many
    rows may meet weights that are rounded to bfloat16."""
    r = numpy.random.default_rng(3)
    n, k = 10, 768
    w = tede.tensor(r.standard_normal((n, k)), dtype=tede.float32).to_packed(format)
    for m in 1, 2, 4, 7, 20:
        x = r.integers(-127, 128, (m, k)).astype(numpy.float32)
        x[:, ::32] = 127
        got = F.linear(tede.tensor(x), w).numpy()
        rights = [x.astype(float) @ d.numpy().astype(float).T for d in ([w.to_dense(), w.to_dense().bfloat16().float()] if m > 15 else [w.to_dense()])]
        assert min(numpy.abs(got - right).max() for right in rights) <= 1e-5 * numpy.abs(x.astype(float)).max() * 768


@pytest.mark.parametrize("level", ["v2", "v3", "neon"])
def test_levels_agree(level):
    """The plain kernels, of processors without dot products of bytes: what they give of exact activations is the exact sum."""
    names = ["test_rows_of_int4_of_all_lengths", "test_int8_rows_of_any_length",
             "test_activations_that_int8_holds_give_exact_products", "test_blocks_are_unpacked_as_the_format_says",
             "test_products_are_those_of_unpacked_weights"]
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *(f"{__file__}::{name}" for name in names)],
                          env={**os.environ, "TEDE_CPU": level}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_int8_rows_of_any_length():
    for k in 1, 31, 33, 63, 65, 100, 127:
        w = tede.randn(5, k)
        packed = w.to_packed("int8")
        x = tede.randn(3, k)
        assert tede.allclose(packed.to_dense(), w, atol=w.abs().max().item() / 200)
        right = x @ packed.to_dense().t()
        assert tede.allclose(F.linear(x, packed), right, atol=.05 * math.sqrt(k)), k


def test_what_is_not_finite_shows():
    for format, size in FORMATS.items():
        w = tede.randn(3, size or 64).to_packed(format)
        for odd in math.nan, math.inf, -math.inf:
            x = tede.ones(2, size or 64)
            x[1, 5] = odd
            got = F.linear(x, w)
            assert got[0].isfinite().all() and not got[1].isfinite().any()


def test_dtypes():
    w = tede.randn(8, 64, dtype=tede.bfloat16).to_packed("q8_0")
    assert w.dtype is tede.bfloat16 and w.to_dense().dtype is tede.bfloat16 and w.float().to_dense().dtype is tede.float32
    for dtype in tede.float32, tede.bfloat16, tede.float16:
        x = tede.randn(3, 64, dtype=dtype)
        assert F.linear(x, w).dtype is dtype
        assert tede.allclose(F.linear(x, w).float(), x.float() @ w.float().to_dense().t(), atol=.3)
    with pytest.raises(RuntimeError, match="float32, bfloat16 or float16, not float64"):
        F.linear(tede.ones(1, 64, dtype=tede.float64), w)


def test_empty_ones():
    w = tede.zeros(0, 64).to_packed("q4_0")
    assert w.to_dense().shape == (0, 64) and F.linear(tede.ones(3, 64), w).shape == (3, 0)
    assert F.linear(tede.ones(0, 64), tede.ones(4, 64).to_packed("q4_0")).shape == (0, 4)
    for format in FORMATS:
        assert F.linear(tede.ones(2, 0), tede.zeros(5, 0).to_packed(format)).tolist() == [[0.] * 5] * 2
    none = tede.zeros(4, 0).to_packed("int8")
    assert none.to_dense().shape == (4, 0) and F.linear(tede.ones(2, 0), none).tolist() == [[0.] * 4] * 2
    assert F.linear(tede.ones(2, 0), none, tede.ones(4)).tolist() == [[1.] * 4] * 2


def test_refusals_say_what_would_fit():
    for format, size in FORMATS.items():
        if size:
            with pytest.raises(ValueError, match=f"{format}: rows of {size + 1} elements aren't whole blocks of {size}"):
                tede.ones(2, size + 1).to_packed(format)
    with pytest.raises(ValueError, match="there is no format 'q5_0'; there are int8"):
        tede.ones(2, 32).to_packed("q5_0")
    with pytest.raises(ValueError, match="without dimensions"):
        tede.tensor(1.).to_packed("int8")
    with pytest.raises(ValueError, match="floating point"):
        tede.ones(2, 32, dtype=tede.int32).to_packed("int8")
    w = tede.ones(4, 64).to_packed("q8_0")
    with pytest.raises(RuntimeError, match="input's last dimension has 32 elements, rows of the packed weight have 64"):
        F.linear(tede.ones(2, 32), w)
    with pytest.raises(RuntimeError, match="bias of a packed weight of 4 rows"):
        F.linear(tede.ones(2, 64), w, tede.ones(3))
    with pytest.raises(NotImplementedError, match="PackedCPU"):
        w.exp()
    with pytest.raises(NotImplementedError):
        w.add_(1)


def test_blocks_that_do_not_fit_are_refused():
    blocks = tede.zeros(2, 34, dtype=tede.uint8)
    assert tede._packed_from_blocks(blocks, (2, 32), "q8_0").to_dense().tolist() == [[0.] * 32] * 2
    for wrong, size in [(blocks, (3, 32)), (blocks[:, :33], (2, 32)), (blocks.to(tede.int8), (2, 32)), (blocks, (2, 64)), (blocks, ()),
                        (blocks, (2**62, 2**62))]:
        with pytest.raises((ValueError, RuntimeError)):
            tede._packed_from_blocks(wrong, size, "q8_0")
    parts = tuple((name, x) for name, x, _ in tede._C._layout_parts(tede.ones(2, 32).to_packed("q8_0")))
    assert tede._C._from_layout_parts(tede.packed, (2, 32), parts).shape == (2, 32)
    for i, other in (0, 3), (1, 99), (1, parts[0][1]), (2, -1), (2, 1 << 40), (2, 0):           # 0: bool
        broken = tuple((name, other if k == i else x) for k, (name, x) in enumerate(parts))
        with pytest.raises((ValueError, RuntimeError)):
            tede._C._from_layout_parts(tede.packed, (2, 32), broken)


def test_copies_pickles_and_checkpoints():
    w = tede.randn(4, 64).to_packed("int4_g32")
    file = io.BytesIO()
    tede.save({"w": w}, file)
    file.seek(0)
    for other in (pickle.loads(pickle.dumps(w)), tede.load(file)["w"], copy.deepcopy(w), w.clone(), w.detach(), tede.ops.aten.alias(w)):
        assert other.layout is tede.packed and tede.equal(other.to_dense(), w.to_dense()) and other.dtype is w.dtype
    assert w.to("meta").is_meta and w.to("meta").shape == (4, 64)
    dense = tede.empty(4, 64).copy_(w)
    assert tede.equal(dense, w.to_dense()) and tede.equal(w.dequantize(), dense)
    other = tede.zeros(4, 64).to_packed("int4_g32")
    alias = other.detach()
    other.copy_(w)
    assert tede.equal(other.to_dense(), dense) and alias.to_dense().abs().max() == 0
    other.copy_(tede.ones(4, 64))
    assert tede.allclose(other.to_dense(), tede.ones(4, 64), atol=.01)
    with pytest.raises(RuntimeError, match=r"sizes \[4, 64\] can't take one of sizes \[4, 32\]"):
        other.copy_(tede.ones(4, 32))
    assert "format='int4_g32'" in repr(w) and "size=(4, 64)" in repr(w)


def test_gradients_of_inputs():
    w = tede.randn(6, 64).to_packed("q8_0")
    x = tede.randn(3, 64, requires_grad=True)
    F.linear(x, w, tede.zeros(6)).pow(2).sum().backward()
    right = 2 * F.linear(x, w).detach() @ w.to_dense()
    assert tede.allclose(x.grad, right, rtol=1e-4, atol=1e-3)


def test_tables_of_embeddings():
    w = tede.randn(10, 64)
    for format in "q8_0", "int4_g64", "int8":
        packed = w.to_packed(format)
        indices = tede.tensor([[3, 3], [0, 9]])
        assert tede.equal(F.embedding(indices, packed), packed.to_dense()[indices])
    with pytest.raises(IndexError):
        F.embedding(tede.tensor([10]), packed)


# ---- tede.quantization


def model():
    tede.manual_seed(5)
    return tede.nn.Sequential(tede.nn.Linear(256, 128), tede.nn.ReLU(), tede.nn.Linear(128, 256, bias=False))


@pytest.mark.parametrize("config, error", [
    (quantization.Int8WeightOnlyConfig(), .02), (quantization.Int8DynamicActivationInt8WeightConfig(), .02),
    (quantization.Int4WeightOnlyConfig(group_size=32), .15), (quantization.Int4WeightOnlyConfig(), .2), (quantization.Q8_0Config(), .02),
    (quantization.Q4_0Config(), .15), (quantization.GGUFConfig("Q8_0"), .02), (quantization.MXFP4Config(), .2)])
def test_models_are_quantized_saved_and_loaded(config, error):
    net, x = model(), tede.randn(4, 256)
    right = net(x)
    assert quantization.quantize_(net, config) is None
    assert all(quantization.is_packed(net[i].weight) and not net[i].weight.requires_grad for i in (0, 2))
    got = net(x)
    assert ((got - right).norm() / right.norm()).item() < error
    file = io.BytesIO()
    tede.save(net.state_dict(), file)
    file.seek(0)
    state = tede.load(file)
    assert state["0.weight"].layout is tede.packed
    other = model()
    quantization.quantize_(other, config)
    for parameter in other.parameters():
        if parameter.layout is tede.strided:
            parameter.data.zero_()
    assert str(other.load_state_dict(state)) == "<All keys matched successfully>" and tede.equal(other(x), got)
    other.load_state_dict(model().state_dict())         # strided ones are packed as the model's are
    assert tede.equal(other(x), got)
    plain = model()
    plain.load_state_dict(state)
    assert plain[0].weight.layout is tede.strided and tede.equal(plain[0].weight, net[0].weight.to_dense())


def test_layers_are_chosen_and_shared_weights_stay_shared():
    net = model()
    quantization.quantize_(net, quantization.Q8_0Config(), lambda module, name: name == "2")
    assert not quantization.is_packed(net[0].weight) and quantization.is_packed(net[2].weight)
    tied = tede.nn.ModuleList([tede.nn.Linear(32, 32), tede.nn.Linear(32, 32)])
    tied[1].weight = tied[0].weight
    quantization.quantize_(tied, quantization.Q4_0Config())
    assert tied[0].weight is tied[1].weight


def test_configurations_refuse():
    with pytest.raises(ValueError, match="group_size=48.*32, 64 and 128"):
        quantization.Int4WeightOnlyConfig(group_size=48)
    with pytest.raises(NotImplementedError, match="group_size=32"):
        quantization.Int8WeightOnlyConfig(group_size=32)
    with pytest.raises(ValueError, match="no type 'q5_1'"):
        quantization.GGUFConfig("q5_1")
    with pytest.raises(TypeError, match="not str"):
        quantization.quantize_(model(), "int8")
    net = tede.nn.Sequential(tede.nn.Linear(64, 8), tede.nn.Linear(8, 33))
    with pytest.raises(ValueError, match="layer '1': q4_0: rows of 8 elements aren't whole blocks of 32"):
        quantization.quantize_(net, quantization.Q4_0Config())
    assert not quantization.is_packed(net[0].weight)


@pytest.mark.parametrize("format", FORMATS)
def test_one_row_times_short_rows_is_what_several_rows_are(format):
    """Four rows of weights far from each other are multiplied together then."""
    g = tede.Generator().manual_seed(7)
    x = tede.randn(3, 256, generator=g)
    for n in 1, 2, 5, 6, 7, 70, 1001:
        w, bias = tede.randn(n, 256, generator=g).to_packed(format), tede.randn(n, generator=g)
        several = F.linear(x, w, bias)
        for i in range(3):
            one = F.linear(x[i:i + 1], w, bias)
            assert tede.allclose(one[0], several[i], rtol=1e-4, atol=1e-4) and tede.allclose(F.linear(x[i:i + 1], w) + bias, one)
