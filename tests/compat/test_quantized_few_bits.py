"""Quantized tensors whose elements share bytes, beside PyTorch's: quint4x2, and quint2x4 where it has that."""
import copy
import io

import pytest
import tede

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore")


def numbers(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def here(x):
    return tede.tensor(x.numpy())


def by_row(shape, axis=0, dtype="quint4x2"):
    """The same tensor here and there."""
    x, n = numbers(*shape), shape[axis]
    scales, zeros = numbers(n, seed=1).abs() * .2 + .05, numbers(n, seed=2) * 3 + 7
    return (tede.quantize_per_channel(here(x), here(scales), here(zeros), axis, getattr(tede, dtype)),
            torch.quantize_per_channel(x, scales, zeros, axis, getattr(torch, dtype)))


def whole(shape, dtype="quint4x2", scale=.2, zero=3):
    x = numbers(*shape)
    return tede.quantize_per_tensor(here(x), scale, zero, getattr(tede, dtype)), torch.quantize_per_tensor(x, scale, zero, getattr(torch, dtype))


def text(x):
    return repr(x).replace("tede", "torch")


@pytest.mark.parametrize("dtype", ["quint4x2", "quint2x4"])
@pytest.mark.parametrize("shape", [(5, 7), (6, 8), (3, 1), (4, 3, 5), (2, 0), (1, 33)])
def test_bytes_numbers_and_text_are_pytorchs(shape, dtype):
    for mine, theirs in (by_row(shape, 0, dtype), by_row(shape, 1, dtype), whole(shape, dtype)):
        assert mine.int_repr().tolist() == theirs.int_repr().tolist()
        assert mine.untyped_storage().nbytes() == theirs.untyped_storage().nbytes()
        assert mine.dequantize().tolist() == theirs.dequantize().tolist()
        assert text(mine) == text(theirs) and mine.stride() == theirs.stride()
        assert mine.type() == theirs.type() and mine.element_size() == theirs.element_size()


def test_one_number_without_dimensions():
    mine, theirs = whole(())
    assert mine.int_repr().tolist() == theirs.int_repr().tolist() and mine.item() == theirs.item()


def test_copies_have_the_same_bytes():
    for q in (by_row((5, 7))[0], whole((5, 7))[0]):
        for made in (q.clone(), copy.deepcopy(q), q.to("cpu", copy=True), q.contiguous(), q.detach(), tede.empty_like(q).copy_(q)):
            assert tede.equal(made, q) and made.untyped_storage().nbytes() == 20
        kept = q.clone()
        q.copy_(tede.zeros(7))
        assert not tede.equal(kept, q)


def test_views_are_those_of_all_elements_in_their_order():
    q = whole((4, 6))[0]
    for made in (q.view(24), q.unflatten(1, (2, 3)), q.unsqueeze(0), q[None], q[...], q.reshape(6, 4)):
        assert made.dequantize().reshape(-1).tolist() == q.dequantize().reshape(-1).tolist()
    for call in (lambda x: x[0], lambda x: x[:, 1:], lambda x: x.t(), lambda x: x.expand(2, 4, 6), lambda x: x.view(tede.uint8), lambda x: x.chunk(2),
                 lambda x: x.as_strided((2, 2), (1, 1)), lambda x: x.t_(), lambda x: x.as_strided_((2, 2), (6, 1)), lambda x: x.unbind(),
                 lambda x: x.diagonal(), lambda x: x.unfold(0, 2, 1)):
        with pytest.raises(RuntimeError, match="share a byte"):
            call(q)


def test_what_works_on_integers_in_memory_refuses():
    q = whole((4, 6))[0]
    for call in (lambda x: x.relu(), lambda x: tede.cat([x, x]), lambda x: x.sort(), lambda x: x.max(), lambda x: x.fill_(1.), lambda x: x.clamp(0, 1),
                 lambda x: x.resize_(100), lambda x: x.index_select(0, tede.tensor([0])), lambda x: x.repeat(2, 1)):
        with pytest.raises(NotImplementedError, match="not implemented for 'QUInt4x2'"):
            call(q)
    with pytest.raises(RuntimeError, match="zero points that are floats"):
        tede.quantize_per_channel(tede.ones(2, 2), tede.ones(2), tede.zeros(2, dtype=tede.long), 0, tede.quint4x2)
    with pytest.raises(TypeError):
        q.numpy()
    q.untyped_storage().resize_(0)
    with pytest.raises(RuntimeError, match="needs a storage of 12 bytes"):
        q.dequantize()


@pytest.mark.parametrize("dtype", ["quint4x2", "quint2x4"])
def test_files_go_both_ways(dtype):
    for mine, theirs in (by_row((5, 7), 0, dtype), whole((5, 7), dtype)):
        for value, writer, reader in ((mine, tede, torch), (theirs, torch, tede), (mine, tede, tede)):
            file = io.BytesIO()
            writer.save({"w": value}, file)
            file.seek(0)
            made = reader.load(file)["w"]
            assert made.int_repr().tolist() == theirs.int_repr().tolist() and text(made) == text(theirs)


def test_a_file_that_says_more_elements_than_it_has_is_refused():
    from tede._utils import _rebuild_qtensor
    q = whole((4, 6))[0]
    with pytest.raises(RuntimeError, match="is 12 bytes from the begin"):
        _rebuild_qtensor(tede.quantize_per_tensor(tede.ones(2, 2), .1, 0, tede.quint4x2)._typed_storage(), 0, (4, 6), (6, 1),
                         (tede.per_tensor_affine, .1, 0), False, None)
    with pytest.raises(RuntimeError, match="the offset 1"):
        _rebuild_qtensor(q._typed_storage(), 1, (4, 6), (6, 1), (tede.per_tensor_affine, .1, 0), False, None)


def test_a_quantized_tensor_can_be_moved_to_shared_memory_and_take_anothers_place():
    for q in (whole((4, 6))[0], tede.quantize_per_tensor(tede.arange(6.), .1, 3, tede.quint8),
              tede.quantize_per_channel(tede.ones(2, 3), tede.ones(2), tede.zeros(2, dtype=tede.long), 0, tede.qint8)):
        before = q.dequantize().tolist()
        assert q.share_memory_().is_shared() and q.dequantize().tolist() == before
        other = tede.quantize_per_tensor(tede.full((3,), 2.), .5, 1, tede.quint8)
        q.data = other
        assert q.dequantize().tolist() == [2, 2, 2] and q.q_scale() == .5
        with pytest.raises(RuntimeError, match="incompatible tensor type"):
            q.data = tede.ones(3)


def test_resizing_keeps_the_quantizer():
    q = tede.quantize_per_tensor(tede.arange(6.), .1, 3, tede.quint8)
    assert q.resize_(2, 2).dequantize().tolist() == [[0, 1], [2, 3]] and q.resize_(100).shape == (100,)
    with pytest.raises(RuntimeError, match="only resize quantized tensors with per-tensor"):
        tede.quantize_per_channel(tede.ones(2, 3), tede.ones(2), tede.zeros(2, dtype=tede.long), 0, tede.qint8).resize_(3, 2)


def test_repeat():
    x = numbers(2, 3)
    mine, theirs = tede.quantize_per_tensor(here(x), .1, 9, tede.quint8).repeat(2, 2), torch.quantize_per_tensor(x, .1, 9, torch.quint8).repeat(2, 2)
    assert mine.int_repr().tolist() == theirs.int_repr().tolist() and mine.q_scale() == theirs.q_scale()


# ---- embeddings

def close(mine, theirs):
    assert torch.allclose(torch.tensor(mine.tolist()), theirs, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("columns", [4, 12, 32])
def test_embeddings_of_packed_weights(columns):
    mine, theirs = by_row((10, columns))
    indices, offsets, weights = torch.tensor([1, 3, 3, 9, 0, 2]), torch.tensor([0, 2, 2, 6]), numbers(6, seed=4)
    packed = tede.ops.quantized.embedding_bag_prepack(mine), torch.ops.quantized.embedding_bag_prepack(theirs)
    assert packed[0].bit_rate() == packed[1].bit_rate() == 4
    assert tede.ops.quantized.embedding_bag_unpack(packed[0]).int_repr().tolist() == mine.int_repr().tolist()
    close(tede.ops.quantized.embedding_4bit(packed[0], here(indices)), torch.ops.quantized.embedding_4bit(packed[1], indices))
    for last in (False, True):
        for w in (None, weights):
            arguments = (False, 0, False)
            close(tede.ops.quantized.embedding_bag_4bit(packed[0], here(indices), here(offsets), *arguments, w if w is None else here(w), None, last),
                  torch.ops.quantized.embedding_bag_4bit(packed[1], indices, offsets, *arguments, w, None, last))


def test_rows_that_begin_within_a_byte():
    q, _ = by_row((6, 7))
    packed, expected = tede.ops.quantized.embedding_bag_prepack(q), q.dequantize()
    assert (tede.ops.quantized.embedding_4bit(packed, tede.tensor([0, 1, 5])) - expected[[0, 1, 5]]).abs().max() < 5e-3      # PyTorch mixes up such rows


def test_packed_weights_are_exchanged():
    mine, theirs = by_row((10, 8))
    packed = tede.ops.quantized.embedding_bag_prepack(mine), torch.ops.quantized.embedding_bag_prepack(theirs)
    for value, writer, reader in ((packed[0], tede, torch), (packed[1], torch, tede)):
        file = io.BytesIO()
        writer.save(value, file)
        file.seek(0)
        made = reader.load(file, weights_only=False)
        assert reader.ops.quantized.embedding_bag_unpack(made).int_repr().tolist() == theirs.int_repr().tolist()


def test_weights_that_cannot_be_packed():
    prepack = tede.ops.quantized.embedding_bag_prepack
    for q, words in ((whole((6, 4))[0], "kPerChannelAffineFloatQParams"), (by_row((6, 4, 2), 0, "quint8")[0], "rank should be 2"),
                     (by_row((6, 4), 1)[0], "the axis is 0")):
        with pytest.raises(RuntimeError, match=words):
            prepack(q)


def test_layers():
    made = []
    for lib in (torch, tede):
        q = lib.ao.quantization
        bag = lib.nn.EmbeddingBag(10, 12, mode="sum")
        with lib.no_grad():
            bag.weight.copy_(lib.tensor(numbers(10, 12).tolist()))
        bag.qconfig = q.float_qparams_weight_only_qconfig_4bit
        layer = lib.ao.nn.quantized.EmbeddingBag.from_float(bag)
        file = io.BytesIO()
        lib.save(layer.state_dict(), file)
        made.append((layer, lib.tensor([1, 4, 4, 9]), lib.tensor([0, 1]), file))
        quantized = q.quantize_dynamic(lib.nn.Sequential(lib.nn.EmbeddingBag(10, 12, mode="sum")), dtype=lib.quint4x2)
        assert quantized[0].dtype is lib.quint4x2
    (theirs, *a, their_file), (mine, *b, _) = made
    assert text(mine) == text(theirs)
    close(mine(*b), theirs(*a))
    their_file.seek(0)
    mine.load_state_dict(tede.load(their_file))
    close(mine(*b), theirs(*a))
