"""tede.gguf: what is written is read again, beside the `gguf` package where it is installed; blocks of other types, unpacked as the format's
definition has them (written here once more); and files that are wrong."""
import random
import struct

import numpy
import pytest
import tede
from tede import gguf
from tede.gguf import Blocks, Metadata

DTYPES = {"float32": "F32", "float16": "F16", "bfloat16": "BF16", "float64": "F64", "int8": "I8", "int16": "I16", "int32": "I32", "int64": "I64"}
FORMATS = ["q8_0", "q4_0", "q4_k", "q6_k", "mxfp4"]


def blocks_of(x):
    return tede._C._layout_parts(x)[0][1]


def every_tensor():
    tede.manual_seed(1)
    tensors = {name: tede.arange(-4, 8).reshape(3, 4).to(getattr(tede, name)) for name in DTYPES}
    tensors.update({name: tede.randn(2, 3, 256).to_packed(name) for name in FORMATS})
    tensors.update({"scalar": tede.tensor(2.5), "empty": tede.zeros(0, 3), "é": tede.ones(1), "strided": tede.arange(6.).view(2, 3).t()})
    return tensors


def every_value():
    return {"general.architecture": "tiny", "text": "é\U0001f525\n", "nothing": "", "yes": True, "n": 7, "big": 2 ** 63, "long": 2 ** 40,
            "low": -5, "lowest": -2 ** 63, "half": .5, "words": ["a", "", "▁b"], "truths": [True, False], "ints": [1, -2, 3],
            "longs": [2 ** 40, -1], "bigs": [2 ** 63], "halves": [.5, 1], "none": [], "lists": [[1, 2], ["a"], []], "deep": [[[1.5]]]}


def same(a, b):
    if a.layout is tede.packed:
        return str(a) == str(b) and tede.equal(blocks_of(a), blocks_of(b))
    return a.dtype == b.dtype and a.shape == b.shape and a.tolist() == b.tolist()


def test_a_round_trip(tmp_path):
    tensors, values = every_tensor(), every_value()
    gguf.save(tmp_path / "x", tensors, values)
    got, metadata = gguf.load(tmp_path / "x")
    assert list(got) == list(tensors) and all(same(got[name], tensors[name]) for name in tensors)
    assert metadata == values and [type(x) for x in metadata.values()] == [type(x) for x in values.values()]
    assert {k: metadata.kinds[k] for k in ("n", "big", "long", "low", "half", "halves", "ints", "longs", "bigs", "words", "lists", "deep")} == {
        "n": "uint32", "big": "uint64", "long": "int64", "low": "int32", "half": "float32", "halves": "[float32]", "ints": "[int32]",
        "longs": "[int64]", "bigs": "[uint64]", "words": "[string]", "lists": ["[int32]", "[string]", "[int32]"], "deep": [["[float32]"]]}
    gguf.save(tmp_path / "y", got, metadata)
    assert (tmp_path / "x").read_bytes() == (tmp_path / "y").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x", "y"]
    again, _ = gguf.loads((tmp_path / "x").read_bytes())
    assert all(same(again[name], tensors[name]) for name in tensors)


def test_kinds_are_kept(tmp_path):
    kinds = {"a": "uint8", "b": "int8", "c": "uint16", "d": "int16", "e": "float64", "f": "uint64", "g": "[float64]", "h": "[uint8]"}
    values = Metadata({"a": 255, "b": -128, "c": 65535, "d": -32768, "e": .1, "f": 3, "g": [.1], "h": [0, 255]}, kinds)
    gguf.save(tmp_path / "x", {}, values)
    _, metadata = gguf.load(tmp_path / "x")
    assert metadata == values and metadata.kinds == kinds
    gguf.save(tmp_path / "x", {}, {"f": .1})
    assert gguf.load(tmp_path / "x")[1]["f"] == numpy.float32(.1)


def test_strings_that_are_no_utf8_are_kept(tmp_path):
    gguf.save(tmp_path / "x", {}, {"text": "a\udcff", "nul": "a\0b"})
    assert b"a\xff" in (tmp_path / "x").read_bytes() and gguf.load(tmp_path / "x")[1] == {"text": "a\udcff", "nul": "a\0b"}


def test_packed_weights_multiply_where_they_lie(tmp_path):
    tede.manual_seed(0)
    x, w = tede.randn(3, 256), tede.randn(8, 256)
    gguf.save(tmp_path / "x", {name: w.to_packed(name) for name in FORMATS})
    tensors, _ = gguf.load(tmp_path / "x")
    for name in FORMATS:
        assert tede.equal(tede.nn.functional.linear(x, tensors[name]), tede.nn.functional.linear(x, w.to_packed(name)))
    (tmp_path / "x").unlink()
    assert tede.equal(tensors["q6_k"].to_dense(), w.to_packed("q6_k").to_dense())


def test_writing_to_a_tensor_changes_no_file(tmp_path):
    gguf.save(tmp_path / "x", {"x": tede.zeros(4)})
    before = (tmp_path / "x").read_bytes()
    tensors, _ = gguf.load(tmp_path / "x")
    tensors["x"].fill_(7)
    assert (tmp_path / "x").read_bytes() == before
    gguf.save(tmp_path / "x", tensors)              # over the file that it looks at
    assert gguf.load(tmp_path / "x")[0]["x"].tolist() == tensors["x"].tolist() == [7] * 4


def test_what_can_not_be_written_says_so(tmp_path):
    x = tede.ones(2, 64)
    for error, words, tensors, metadata in [
            (TypeError, "no type for complex64", {"x": x.to(tede.complex64)}, {}), (TypeError, "no type for bool", {"x": x > 0}, {}),
            (TypeError, "int4_g64.*q8_0", {"x": x.to_packed("int4_g64")}, {}), (TypeError, "'x' is no tensor but a int", {"x": 3}, {}),
            (ValueError, "5 dimensions", {"x": tede.ones(1, 1, 1, 1, 1)}, {}), (ValueError, "64 bytes", {"x" * 64: x}, {}),
            (TypeError, "NoneType", {}, {"a": None}), (TypeError, "float32 and string", {}, {"a": ["x", 1.5]}),
            (TypeError, "bool and int32", {}, {"a": [True, -1]}),
            (ValueError, "'a' is no uint8", {}, Metadata({"a": 256}, {"a": "uint8"})),
            (ValueError, "'a' is no int32", {}, Metadata({"a": 1.5}, {"a": "int32"})),
            (ValueError, "kind 'int'", {}, Metadata({"a": 1}, {"a": "int"})),
            (ValueError, r"kind '\[array\]'", {}, Metadata({"a": [1]}, {"a": "[array]"})),
            (TypeError, "is a string, not int", {}, Metadata({"a": 1}, {"a": "string"})),
            (TypeError, "is a list, not int", {}, Metadata({"a": 1}, {"a": "[int32]"})),
            (TypeError, "bools alone", {}, Metadata({"a": [1]}, {"a": "[bool]"})),
            (ValueError, "2 lists and kinds for 1", {}, Metadata({"a": [[1], [2]]}, {"a": ["[int8]"]})),
            (ValueError, "'a' is no float32", {}, {"a": 1e300}), (ValueError, "2\\^64|uint64", {}, {"a": 2 ** 64}),
            (TypeError, "a list of lists", {}, {"a": [[1], 2]}),
            (ValueError, "NUL", {}, {"a\0b": 1}), (TypeError, "must be a str", {}, {1: 1}), (ValueError, "nested more than 8", {}, {"a": [[[[[[[[[1]]]]]]]]]}),
            (ValueError, "general.alignment is 3", {}, {"general.alignment": 3})]:
        with pytest.raises(error, match=words):
            gguf.save(tmp_path / "x", tensors, metadata)
    assert not list(tmp_path.iterdir())
    with pytest.raises(OSError, match="No such file"):
        gguf.load(tmp_path / "x")


# ---- blocks of other types, pointer by pointer as the format's reference goes through them

def half(data, at=0):
    return numpy.float32(struct.unpack_from("<e", data, at)[0])


LEVELS = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113]


def unpack_q4_1(b):
    return [half(b) * numpy.float32(q & 15) + half(b, 2) for q in b[4:]] + [half(b) * numpy.float32(q >> 4) + half(b, 2) for q in b[4:]]


def fifth(bits, qs):
    bits = int.from_bytes(bits, "little")
    return [(q & 15) + 16 * (bits >> i & 1) for i, q in enumerate(qs)] + [(q >> 4) + 16 * (bits >> i + 16 & 1) for i, q in enumerate(qs)]


def unpack_q5_0(b):
    return [half(b) * numpy.float32(q - 16) for q in fifth(b[2:6], b[6:])]


def unpack_q5_1(b):
    return [half(b) * numpy.float32(q) + half(b, 2) for q in fifth(b[4:8], b[8:])]


def unpack_iq4_nl(b):
    return [half(b) * numpy.float32(LEVELS[q & 15]) for q in b[2:]] + [half(b) * numpy.float32(LEVELS[q >> 4]) for q in b[2:]]


def unpack_iq4_xs(b):
    high, low, out = struct.unpack_from("<H", b, 2)[0], b[4:8], []
    for g in range(8):
        scale = half(b) * numpy.float32((low[g // 2] >> 4 * (g % 2) & 15 | (high >> 2 * g & 3) << 4) - 32)
        qs = b[8 + 16 * g:24 + 16 * g]
        out += [scale * numpy.float32(LEVELS[q & 15]) for q in qs] + [scale * numpy.float32(LEVELS[q >> 4]) for q in qs]
    return out


def unpack_q2_k(b):
    scales, out = iter(b[:16]), []
    for q in b[16:48], b[48:80]:
        for shift in 0, 2, 4, 6:
            for part in q[:16], q[16:]:
                s = next(scales)
                by, less = half(b, 80) * numpy.float32(s & 15), half(b, 82) * numpy.float32(s >> 4)
                out += [by * numpy.float32(x >> shift & 3) - less for x in part]
    return out


def unpack_q3_k(b):
    low, high, s = b[96:104], b[104:108], []
    for i in range(16):
        s.append((low[i] & 15 if i < 8 else low[i - 8] >> 4) | (high[i % 4] >> 2 * (i // 4) & 3) << 4)
    scales, out, mask = iter(s), [], 1
    for q in b[32:64], b[64:96]:
        for shift in 0, 2, 4, 6:
            for start in 0, 16:
                by = half(b, 108) * numpy.float32(next(scales) - 32)
                out += [by * numpy.float32((q[start + i] >> shift & 3) - (0 if b[start + i] & mask else 4)) for i in range(16)]
            mask <<= 1
    return out


def unpack_q5_k(b):
    s, high, out, u = b[4:16], b[16:48], [], 1
    for j in range(8):
        scale, least = (s[j] & 63, s[j + 4] & 63) if j < 4 else (s[j + 4] & 15 | s[j - 4] >> 6 << 4, s[j + 4] >> 4 | s[j] >> 6 << 4)
        qs = b[48 + 32 * (j // 2):80 + 32 * (j // 2)]
        by, less = half(b) * numpy.float32(scale), half(b, 2) * numpy.float32(least)
        out += [by * numpy.float32((q >> 4 * (j % 2) & 15) + (16 if high[i] & u else 0)) - less for i, q in enumerate(qs)]
        u <<= 1
    return out


# type: elements and bytes of a block, where halves are, how it is unpacked
UNPACKED = {"Q4_1": (32, 20, [0, 2], unpack_q4_1), "Q5_0": (32, 22, [0], unpack_q5_0), "Q5_1": (32, 24, [0, 2], unpack_q5_1),
            "Q2_K": (256, 84, [80, 82], unpack_q2_k), "Q3_K": (256, 110, [108], unpack_q3_k), "Q5_K": (256, 176, [0, 2], unpack_q5_k),
            "IQ4_NL": (32, 18, [0], unpack_iq4_nl), "IQ4_XS": (256, 136, [0], unpack_iq4_xs)}
OTHERS = {"Q8_1": (32, 40), "Q8_K": (256, 292), "IQ2_XXS": (256, 66), "IQ2_XS": (256, 74), "IQ3_XXS": (256, 98), "IQ1_S": (256, 50), "IQ3_S": (256, 110),
          "IQ2_S": (256, 82), "IQ1_M": (256, 56), "TQ1_0": (256, 54), "TQ2_0": (256, 66), "NVFP4": (64, 36), "Q1_0": (128, 18)}


def random_blocks(kind, rows, columns, seed=0):
    """Random codes with moderate scales, subnormal and infinite ones among them."""
    size, width, halves, _ = UNPACKED[kind]
    r = numpy.random.default_rng(seed)
    data = r.integers(0, 256, (rows * columns // size, width), dtype=numpy.uint8)
    for at in halves:
        data[:, at:at + 2] = r.uniform(-2, 2, (len(data), 1)).astype(numpy.float16).view(numpy.uint8)
    data[0, halves[0]:halves[0] + 2] = [1, 128]          # -2^-24
    return data.reshape(rows, -1)


def as_blocks(kind, data, name="x"):
    return Blocks(name, kind, (), tede.tensor(data.tolist(), dtype=tede.uint8))


@pytest.mark.parametrize("kind", UNPACKED)
def test_blocks_are_unpacked_as_the_format_says(kind, tmp_path):
    size, width, _, unpack = UNPACKED[kind]
    data = random_blocks(kind, 3, 512)
    gguf.save(tmp_path / "x", {"x": as_blocks(kind, data)})
    got = gguf.load(tmp_path / "x")[0]["x"]
    right = [x for at in range(0, data.size, width) for x in unpack(data.tobytes()[at:at + width])]
    assert got.shape == (3, 512) and got.dtype == tede.float32
    assert numpy.array_equal(got.numpy().ravel(), numpy.array(right, dtype=numpy.float32))


@pytest.mark.parametrize("kind", OTHERS)
def test_other_types_are_bytes_and_say_so_when_they_are_used(kind, tmp_path):
    size, width = OTHERS[kind]
    data = numpy.arange(6 * width, dtype=numpy.uint8).reshape(3, 2 * width)
    gguf.save(tmp_path / "x", {"name": as_blocks(kind, data)})
    x = gguf.load(tmp_path / "x")[0]["name"]
    assert x.type == kind and tuple(x.shape) == (3, 2 * size) and x.blocks.tolist() == data.tolist() and kind in repr(x)
    for use in (lambda: x.float(), lambda: tede.nn.functional.linear(tede.ones(2 * size), x), lambda: tede.cat([x, x]), lambda: tede.ones(1) + x):
        with pytest.raises((NotImplementedError, TypeError), match="'name' is of type " + kind):
            use()
    gguf.save(tmp_path / "y", {"name": x})
    assert (tmp_path / "x").read_bytes() == (tmp_path / "y").read_bytes()


# ---- the package

def write_by_package(package, path, tensors, values, raw=()):
    writer = package.GGUFWriter(path, "tiny")
    add = {"uint32": writer.add_uint32, "int32": writer.add_int32, "uint64": writer.add_uint64, "int64": writer.add_int64, "float32": writer.add_float32,
           "bool": writer.add_bool, "string": writer.add_string}
    for key, value in values.items():
        kind = gguf._kind(key, value)
        writer.add_array(key, value) if isinstance(value, list) else add[kind](key, value)
    for name, x in tensors.items():
        writer.add_tensor(name, x)
    for name, (kind, data) in dict(raw).items():
        writer.add_tensor(name, data, raw_dtype=package.GGMLQuantizationType[kind])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def test_both_write_the_same_bytes(tmp_path):
    package = pytest.importorskip("gguf")
    r = numpy.random.default_rng(0)
    arrays = {name: r.integers(-9, 9, (3, 4)).astype(name) for name in DTYPES if name != "bfloat16"}
    values = {"n": 7, "low": -5, "long": 2 ** 40, "big": 2 ** 63, "half": .5, "yes": True, "text": "é", "words": ["a", "▁b", ""], "ints": [1, -2],
              "halves": [.5, 2.]}
    tede.manual_seed(0)
    packed = {name: tede.randn(4, 256).to_packed(name) for name in FORMATS}
    raw = {name: (name.upper(), blocks_of(x).numpy()) for name, x in packed.items()}
    write_by_package(package, tmp_path / "theirs", arrays, values, raw)
    gguf.save(tmp_path / "ours", {**{name: tede.from_numpy(x) for name, x in arrays.items()}, **packed}, {"general.architecture": "tiny", **values})
    assert (tmp_path / "ours").read_bytes() == (tmp_path / "theirs").read_bytes()


def test_what_the_package_writes_is_read(tmp_path):
    package = pytest.importorskip("gguf")
    r = numpy.random.default_rng(1)
    dense = r.standard_normal((4, 512)).astype(numpy.float32)
    raw = {}
    for kind in ("Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "BF16", "MXFP4"):
        raw[kind] = kind, package.quants.quantize(dense, package.GGMLQuantizationType[kind])
    for kind in UNPACKED:
        raw["random " + kind] = kind, random_blocks(kind, 4, 512)
    write_by_package(package, tmp_path / "x", {"dense": dense}, {}, raw)
    got, metadata = gguf.load(tmp_path / "x")
    assert metadata == {"general.architecture": "tiny"} and numpy.array_equal(got["dense"].numpy(), dense)
    for name, (kind, data) in raw.items():
        right = package.quants.dequantize(data, package.GGMLQuantizationType[kind])
        x = got[name].to_dense() if got[name].layout is tede.packed else got[name].float()
        assert x.shape == (4, 512) and numpy.array_equal(x.numpy(), right, equal_nan=True), name


def test_the_package_reads_what_is_written(tmp_path):
    package = pytest.importorskip("gguf")
    tensors, values = every_tensor(), every_value()
    for name in "lists", "deep", "none":                # its reader flattens lists of lists, and fails at empty ones
        del values[name]
    gguf.save(tmp_path / "x", tensors, values)
    reader = package.GGUFReader(tmp_path / "x")
    assert {key: field.contents() for key, field in reader.fields.items() if not key.startswith("GGUF.")} == values
    read = {x.name: x for x in reader.tensors}
    assert list(read) == list(tensors)
    for name, x in tensors.items():
        right = x.to_dense() if x.layout is tede.packed else x.float() if x.dtype is tede.bfloat16 else x
        data = package.quants.dequantize(read[name].data, read[name].tensor_type) if x.layout is tede.packed or x.dtype is tede.bfloat16 else read[name].data
        if x.dim():
            assert [int(n) for n in read[name].shape] == list(x.shape)[::-1]
            assert numpy.array_equal(data.reshape(right.shape), right.contiguous().numpy()), name


def test_types_are_those_of_the_package():
    package = pytest.importorskip("gguf")
    for kind, (size, width, *_) in {**UNPACKED, **OTHERS}.items():
        if hasattr(package.GGMLQuantizationType, kind):         # the newest came later
            assert package.GGML_QUANT_SIZES[package.GGMLQuantizationType[kind]] == (size, width)


# ---- files that are wrong

def small(tmp_path):
    gguf.save(tmp_path / "small", {"w": tede.ones(2, 32).to_packed("q8_0"), "b": tede.ones(3)}, {"a": "text", "words": ["x", "y"], "deep": [[1], [.5]]})
    return (tmp_path / "small").read_bytes()


def test_a_file_cut_anywhere_is_refused(tmp_path):
    data = small(tmp_path)
    end = len(data) - 20                    # what fills up the last tensor may be missing
    for n in range(len(data)):
        if n < end:
            with pytest.raises(ValueError, match="gguf: "):
                gguf.loads(data[:n])
        else:
            assert same(gguf.loads(data[:n])[0]["b"], tede.ones(3))
    (tmp_path / "cut").write_bytes(data[:100])
    with pytest.raises(ValueError, match=r"byte 96: .*in '.*cut'"):
        gguf.load(tmp_path / "cut")


def test_changed_bytes_are_read_or_refused(tmp_path):
    data, rng, read = small(tmp_path), random.Random(0), 0
    for _ in range(3000):
        changed = bytearray(data)
        for _ in range(rng.choice([1, 1, 2, 4])):
            changed[rng.randrange(240)] = rng.choice([0, 1, 2, 9, 127, 128, 255, rng.randrange(256)])
        try:
            tensors, metadata = gguf.loads(bytes(changed))
        except ValueError as error:
            assert str(error).startswith("gguf: ")
            continue
        read += 1
        for x in tensors.values():
            repr(x)
            assert isinstance(x, Blocks) or x.numel() <= 64 * 256
        repr(metadata)
    assert 100 < read < 2900


def header(tensors, pairs, *parts):
    return b"GGUF" + struct.pack("<IQQ", 3, tensors, pairs) + b"".join(parts)


def text(x):
    return struct.pack("<Q", len(x)) + x


@pytest.mark.parametrize("words, data", [
    ("0 left", b""), ("doesn't begin with 'GGUF'", b"GGML" + bytes(60)), ("version 1;", b"GGUF" + struct.pack("<IQQ", 1, 0, 0)),
    ("big-endian", b"GGUF" + struct.pack(">IQQ", 3, 0, 0)), ("don't fit", header(2 ** 60, 0)), ("don't fit", header(0, 2 ** 60)),
    ("a key of 65536 bytes", header(0, 1, struct.pack("<Q", 65536), bytes(70000))), ("UTF-8", header(0, 1, text(b"\xff"), bytes(20))),
    ("13 is no kind", header(0, 1, text(b"a"), struct.pack("<I", 13), bytes(8))),
    ("an array of 4611686018427387904", header(0, 1, text(b"a"), struct.pack("<IIQ", 9, 5, 2 ** 62), bytes(8))),
    ("nested more than 8", header(0, 1, text(b"a"), struct.pack("<I", 9), struct.pack("<IQ", 9, 1) * 5000)),
    ("a bool of value 2", header(0, 1, text(b"a"), struct.pack("<IB", 7, 2))),
    ("general.alignment is 33", header(0, 1, text(b"general.alignment"), struct.pack("<II", 4, 33))),
    ("the key 'a' comes twice", header(0, 2, (text(b"a") + struct.pack("<IB", 0, 1)) * 2)),
    ("99 dimensions", header(1, 0, text(b"a"), struct.pack("<I", 99), bytes(900))),
    ("more than 2\\^63", header(1, 0, text(b"a"), struct.pack("<IQQIQ", 2, 2 ** 40, 2 ** 40, 0, 0))),
    ("5 is the number of no type", header(1, 0, text(b"a"), struct.pack("<IQIQ", 1, 1, 5, 0))),
    ("whole blocks of 256", header(1, 0, text(b"a"), struct.pack("<IQIQ", 1, 32, 12, 0))),
    ("an offset of 8", header(1, 0, text(b"a"), struct.pack("<IQIQ", 1, 1, 0, 8))),
    ("cut short", header(1, 0, text(b"a"), struct.pack("<IQIQ", 1, 1, 0, 2 ** 40))),
    ("overlaps", header(2, 0, text(b"a"), struct.pack("<IQIQ", 1, 1, 0, 0), text(b"b"), struct.pack("<IQIQ", 1, 1, 0, 0), bytes(100))),
    ("the name 'a' comes twice", header(2, 0, (text(b"a") + struct.pack("<IQIQ", 1, 0, 0, 0)) * 2)),
])
def test_what_is_wrong_is_said(words, data):
    with pytest.raises(ValueError, match="gguf: .*" + words):
        gguf.loads(data)
