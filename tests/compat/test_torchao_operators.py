"""What torchao calls with weights of few bits, beside PyTorch: packed bytes, products of all shapes, and refusals."""
import itertools
import re

import numpy
import pytest
import tede

torch = pytest.importorskip("torch")
DTYPES = "float32", "bfloat16", "float16"
CLOSE = dict(float32=2e-5, bfloat16=1e-2, float16=2e-3)


def both(array, dtype=None):
    """The same tensor here and there."""
    made = [lib.tensor(array.tolist(), dtype=getattr(lib, str(array.dtype))) .reshape(array.shape) for lib in (tede, torch)]
    return made if dtype is None else [x.to(getattr(lib, dtype)) for x, lib in zip(made, (tede, torch))]


def numbers(x):
    return numpy.array(x.float().tolist(), dtype=numpy.float64).reshape(tuple(x.shape))


def compare(mine, theirs, dtype):
    assert tuple(mine.shape) == tuple(theirs.shape) and str(mine.dtype).split(".")[1] == dtype == str(theirs.dtype).split(".")[1]
    a, b = numbers(mine), numbers(theirs)
    assert a.size == 0 or numpy.abs(a - b).max() <= CLOSE[dtype] * max(1, numpy.abs(b).max())


@pytest.mark.parametrize("n", [16, 32, 48, 64, 80, 176, 256])
def test_codes_are_packed_as_in_pytorch(n):
    r = numpy.random.default_rng(n)
    for k in 0, 2, 10, 64:
        mine, theirs = both(r.integers(0, 16, (n, k), dtype=numpy.int32))
        for tiles in 1, 8:
            a, b = tede._convert_weight_to_int4pack_for_cpu(mine, tiles), torch._convert_weight_to_int4pack_for_cpu(theirs, tiles)
            assert a.dtype is tede.uint8 and tuple(a.shape) == tuple(b.shape)
            if torch.backends.cpu.get_cpu_capability() == "AVX512":        # where others lie depends on the processor in PyTorch
                assert a.tolist() == b.tolist()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n, k, group", [(16, 32, 32), (64, 64, 32), (48, 128, 64), (208, 256, 128), (128, 512, 256), (96, 96, 32)])
def test_products_of_four_bits(n, k, group, dtype):
    r = numpy.random.default_rng(n + k)
    codes = both(r.integers(0, 16, (n, k), dtype=numpy.int32))
    packed = [lib._convert_weight_to_int4pack_for_cpu(x, 1) for lib, x in zip((tede, torch), codes)]
    pairs = both(r.standard_normal((k // group, n, 2)).astype(numpy.float32), dtype)
    for m in 0, 1, 2, 3, 4, 5, 8, 67:
        x = both(r.standard_normal((m, k)).astype(numpy.float32), dtype)
        mine, theirs = (lib._weight_int4pack_mm_for_cpu(*a, group, p) for lib, a, p in zip((tede, torch), zip(x, packed), pairs))
        compare(mine, theirs, dtype)
    compare(tede._weight_int4pack_mm_for_cpu(x[0], packed[0], group, pairs[0].transpose(0, 1).contiguous().transpose(0, 1)), theirs, dtype)
    assert tede._weight_int4pack_mm_for_cpu(x[0].to("meta"), packed[0].to("meta"), group, pairs[0].to("meta")).shape == (m, n)


@pytest.mark.parametrize("dtype", DTYPES)
def test_products_of_eight_bits(dtype):
    r = numpy.random.default_rng(1)
    for n, k in itertools.product((0, 1, 3, 4, 16, 70), (0, 1, 15, 16, 33, 64, 129)):
        w, scales = both(r.integers(-128, 128, (n, k), dtype=numpy.int8)), both(r.uniform(.5, 1, n).astype(numpy.float32), dtype)
        for m in 1, 2, 4, 7:
            x = both(r.standard_normal((m, k)).astype(numpy.float32), dtype)
            theirs = x[1], w[1], scales[1]
            if k % 16 and dtype != "float32":           # PyTorch reads behind a row's end here
                theirs = theirs[0].float(), theirs[1], theirs[2].float()
            compare(tede._weight_int8pack_mm(x[0], w[0], scales[0]), torch._weight_int8pack_mm(*theirs).to(getattr(torch, dtype)), dtype)
    k = 64
    w = both(r.integers(-128, 128, (n, k), dtype=numpy.int8))
    wide = both(r.standard_normal((4, 2 * k)).astype(numpy.float32), dtype)
    compare(tede._weight_int8pack_mm(wide[0][:, :k], w[0], scales[0]), torch._weight_int8pack_mm(wide[1][:, :k], w[1], scales[1]), dtype)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("n, k, block", [(1, 32, 32), (16, 64, 32), (7, 256, 64), (16, 64, 64), (5, 96, 96), (6, 40, 40), (33, 512, 128)])
def test_products_with_inputs_quantized_on_the_way(n, k, block, bias):
    r = numpy.random.default_rng(n + k)
    codes, scales = both(r.integers(0, 256, (n, k // 2), dtype=numpy.uint8)), both(r.uniform(.1, 1, (n, k // block)).astype(numpy.float32))
    added = both(r.standard_normal(n).astype(numpy.float32)) if bias else (None, None)
    for given in ("float32", "bfloat16"):
        packed = [lib._dyn_quant_pack_4bit_weight(c, s.to(getattr(lib, given)), b, block, k, n)
                  for lib, c, s, b in zip((tede, torch), codes, scales, added)]
        assert packed[0].tolist() == packed[1].tolist()
        for m in 0, 1, 5:
            x = both((r.standard_normal((m, k)) + 1).astype(numpy.float32))
            compare(*(lib._dyn_quant_matmul_4bit(a, p, block, k, n) for lib, a, p in zip((tede, torch), x, packed)), "float32")
    if block == k:
        x = [a.to(lib.bfloat16) for lib, a in zip((tede, torch), x)]
        compare(*(lib._dyn_quant_matmul_4bit(a, p, block, k, n) for lib, a, p in zip((tede, torch), x, packed)), "bfloat16")
    for same in 0., 3., -3.:
        x = both(numpy.full((1, k), same, numpy.float32))
        compare(*(lib._dyn_quant_matmul_4bit(a, p, block, k, n) for lib, a, p in zip((tede, torch), x, packed)), "float32")
    assert tede._dyn_quant_matmul_4bit(tede.full((1, k), float("nan")), packed[0], block, k, n).isnan().all()


REFUSED = [
    "_convert_weight_to_int4pack_for_cpu(w.long(), 1)", "_convert_weight_to_int4pack_for_cpu(w[0], 1)",
    "_convert_weight_to_int4pack_for_cpu(w[:15], 1)", "_convert_weight_to_int4pack_for_cpu(w[:, :3], 1)",
    "_weight_int4pack_mm_for_cpu(x.double(), p, 32, z)", "_weight_int4pack_mm_for_cpu(x.int(), p, 32, z)",
    "_weight_int4pack_mm_for_cpu(x[:, :32], p, 32, z)", "_weight_int4pack_mm_for_cpu(x[0], p, 32, z)",
    "_weight_int4pack_mm_for_cpu(x[None], p, 32, z)", "_weight_int4pack_mm_for_cpu(x, p.int(), 32, z)",
    "_weight_int4pack_mm_for_cpu(x, p[:, :16], 32, z)", "_weight_int4pack_mm_for_cpu(x, p[0], 32, z)",
    "_weight_int4pack_mm_for_cpu(x, p[None], 32, z)", "_weight_int4pack_mm_for_cpu(x, p, 33, z)",
    "_weight_int4pack_mm_for_cpu(x, p, 0, z)", "_weight_int4pack_mm_for_cpu(x, p, 128, z)",
    "_weight_int4pack_mm_for_cpu(x[:, :32].contiguous(), p, 32, z)", "_weight_int4pack_mm_for_cpu(x, p, 32, z[0])",
    "_weight_int4pack_mm_for_cpu(x, p, 32, z[:, :32])", "_weight_int4pack_mm_for_cpu(x, p, 32, z.double())",
    "_weight_int4pack_mm_for_cpu(x, p[:20], 32, z[:, :20].contiguous())",
    "_weight_int8pack_mm(x.double(), b, s)", "_weight_int8pack_mm(x.half(), b, s)", "_weight_int8pack_mm(x[0], b, s)",
    "_weight_int8pack_mm(x[None], b, s)", "_weight_int8pack_mm(x.t().contiguous().t(), b, s)", "_weight_int8pack_mm(x, b.byte(), s)",
    "_weight_int8pack_mm(x, b[:, :32], s)", "_weight_int8pack_mm(x, b[:, :32].contiguous(), s)", "_weight_int8pack_mm(x, b[0], s)",
    "_weight_int8pack_mm(x, b[None], s)", "_weight_int8pack_mm(x, b, s[:3])", "_weight_int8pack_mm(x, b, s[None])",
    "_dyn_quant_pack_4bit_weight(w, s, None, 32, 64, 64)", "_dyn_quant_pack_4bit_weight(p, s, None, 16, 64, 64)",
    "_dyn_quant_matmul_4bit(x.half(), s, 64, 64, 64)", "_dyn_quant_matmul_4bit(x.bfloat16(), s, 32, 64, 64)",
    "_convert_weight_to_int4pack(w, 2)", "_weight_int4pack_mm(x, p, 32, z)",
    "_weight_int4pack_mm_with_scales_and_zeros(x, p, 32, z, z)",
]


@pytest.mark.parametrize("call", REFUSED)
def test_refusals_are_pytorchs(call):
    said = []
    for lib in tede, torch:
        names = dict(w=lib.ones(64, 64, dtype=lib.int32), p=lib.ones(64, 32, dtype=lib.uint8), z=lib.ones(2, 64, 2), x=lib.ones(3, 64),
                     b=lib.ones(64, 64, dtype=lib.int8), s=lib.ones(64))
        with pytest.raises(Exception) as raised:
            eval("lib." + call if hasattr(lib, call.split("(")[0]) else "lib.ops.aten." + call, dict(lib=lib, **names))
        said.append((raised.type.__name__, raised.value))
    assert said[0][0] == said[1][0]
    key = str(said[1][1]).split("\n")[0].split(". This could be")[0]
    if "b[None]" in call:           # PyTorch takes it for a matrix of one row
        key = "_weight_int8pack_mm_cpu : expect"
    assert str(said[0][1]).startswith(key), (str(said[0][1]), key)


def test_sizes_that_pytorch_takes_on_trust_are_refused():
    """PyTorch reads behind the ends here, or divides by zero."""
    codes, scales = tede.zeros(4, 32, dtype=tede.uint8), tede.ones(4, 2)
    packed = tede._dyn_quant_pack_4bit_weight(codes, scales, None, 32, 64, 4)
    for wrong in ((codes, scales[:, :1], None, 32, 64, 4), (codes, scales, tede.ones(3), 32, 64, 4), (codes, scales, None, 0, 64, 4),
                  (codes, scales, None, 32, 128, 4), (codes, scales, None, 32, 64, -4), (codes, scales, None, 32, 63, 4)):
        with pytest.raises(RuntimeError, match="_dyn_quant_pack_4bit_weight_cpu: "):
            tede._dyn_quant_pack_4bit_weight(*wrong)
    x = tede.ones(2, 64)
    for wrong in ((x, packed[:5], 32, 64, 4), (x, packed.to(tede.uint8), 32, 64, 4), (x[0], packed, 32, 64, 4), (x[:, :32], packed, 32, 64, 4),
                  (x, packed, 33, 64, 4), (x, packed, 0, 64, 4), (x, packed, 32, 64, 8)):
        with pytest.raises(RuntimeError, match=re.escape("_dyn_quant_matmul_4bit_cpu: ")):
            tede._dyn_quant_matmul_4bit(*wrong)
    pairs = tede.ones(2, 64, 2)
    for other in tede.ones(3, 64, 2), tede.ones(1, 64, 2), tede.ones(2, 64, 3):
        with pytest.raises(RuntimeError, match="expect qScaleAndZeros to be 3d"):
            tede._weight_int4pack_mm_for_cpu(x, tede.ones(64, 32, dtype=tede.uint8), 32, other)
    assert tede._weight_int4pack_mm_for_cpu(x, tede.ones(64, 32, dtype=tede.uint8), 32, pairs).shape == (2, 64)
