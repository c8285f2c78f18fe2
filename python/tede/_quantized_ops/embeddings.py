"""Embeddings whose rows have 8, 4 or 2 bits, and sums of bags of them.

A packed row is its codes, then the scale and the least value: float32 where a code is a byte, else float16."""
from tede import _C
from tede._C import Tensor
from tede._quantized import per_channel_affine_float_qparams, scheme_of
from tede._quantized_ops.define import operator
from tede._quantized_ops.packed import EmbeddingPackedParamsBase
from tede._quantized_ops.rounding import functions, single

_SMALL = 1e-8


def _cat(tensors):
    return functions["cat"](tensors, -1)


def _bytes_of(x):
    """Columns of floats as columns of bytes."""
    return x.contiguous().view(_C.uint8)


def _pack_codes(codes, bits):
    """Codes of a few bits beside each other in bytes, the first in the lowest."""
    each = 8 // bits
    if codes.size(-1) % each:
        codes = functions["constant_pad_nd"](codes, [0, each - codes.size(-1) % each])
    codes = codes.reshape(*codes.shape[:-1], -1, each).to(_C.int32)
    packed = codes[..., 0]
    for i in range(1, each):
        packed = packed | codes[..., i] << bits * i
    return packed.to(_C.uint8)


def _unpack_codes(packed, bits):
    each = 8 // bits
    codes = functions["stack"]([packed.to(_C.int32) >> bits * i & (1 << bits) - 1 for i in range(each)], -1)
    return codes.reshape(*packed.shape[:-1], -1)


def _range(weight, given):
    if given is not None:
        return given[..., :1].float(), given[..., 1:].float()
    return weight.amin(-1, keepdim=True), weight.amax(-1, keepdim=True)


def _prepack(weight, bits, given=None):
    weight = weight.float()
    least, most = _range(weight, given)
    if bits == 8:
        spread = most - least
        codes = ((weight - least) * (255 / (spread + _SMALL))).round()
        return _cat([codes.clamp(0, 255).to(_C.uint8), _bytes_of(_cat([spread / 255, least]))])
    top = (1 << bits) - 1
    least = least.half().float()
    scale = ((most - least) / top).half().float()
    scale = scale.masked_fill((scale == 0) | (1 / scale).isinf(), 1.)
    codes = ((weight - least) * (1 / scale)).round().clamp(0, top)
    return _cat([_pack_codes(codes, bits), _bytes_of(_cat([scale.half(), least.half()]))])


def _rows(packed, bits):
    """Rows as floats."""
    if bits == 8:
        ends = packed[..., -8:].contiguous().view(_C.float32)
        return packed[..., :-8].float() * ends[..., :1] + ends[..., 1:]
    ends = packed[..., -4:].contiguous().view(_C.float16).float()
    return _unpack_codes(packed[..., :-4], bits).float() * ends[..., :1] + ends[..., 1:]


def _bags(rows, count, indices, offsets, pruned, weights, mapping, last):
    """The sum of each bag's rows; rows(indices) gives them, of `count`."""
    if indices.dim() not in (1, 2):
        raise RuntimeError("qembedding_bag: Expect 1D or 2D indices")
    if indices.dim() == 2:
        if offsets is not None:
            raise RuntimeError("embedding_bag: offsets cannot be specified for 2D indices, got 2D indices and offsets")
        n, width = indices.shape
        bag_of, bags = functions["arange"](n).repeat_interleave(width), n
        indices = indices.reshape(-1)
        weights = None if weights is None else weights.reshape(-1)
    else:
        if offsets is None:
            raise RuntimeError("embedding_bag: offsets are needed for 1D indices")
        starts = offsets.long()
        bags = starts.numel() - int(last)
        bag_of = functions["bucketize"](functions["arange"](indices.numel()), starts[:bags].contiguous(), right=True) - 1
    indices = indices.long()
    if pruned and mapping is not None and mapping.numel() > 1:
        indices = mapping.long()[indices]
        kept = indices >= 0
        indices, bag_of, weights = indices[kept], bag_of[kept], None if weights is None else weights[kept]
    if indices.numel() and not 0 <= int(indices.min()) <= int(indices.max()) < count:
        raise RuntimeError(f"embedding_bag: an index is out of range: there are {count} rows")
    found = rows(indices)
    if weights is not None:
        found = found * weights.float().unsqueeze(-1)
    return functions["zeros"](bags, found.size(-1)).index_add_(0, bag_of, found)


def choose_qparams_optimized(input, numel, n_bins, ratio, bit_width):
    """(largest, least): the range within a row's own that loses least when it is quantized, rows of a table having float16 scales.

    From either end the range is narrowed step by step, where that loses less; the best place at which neither did is taken."""
    if input.dtype is not _C.float32:
        raise RuntimeError(f"choose_qparams_optimized: expected scalar type Float but found {input.dtype}")
    if not 0 < numel <= input.numel():
        raise RuntimeError(f"choose_qparams_optimized: numel is out of the bound of input tensor: {numel}, of {input.numel()} elements")
    if n_bins < 1 or not 1 <= bit_width <= 8:
        raise RuntimeError(f"choose_qparams_optimized: n_bins must be positive and bit_width 1 to 8, but got {n_bins} and {bit_width}")
    x, top = input.reshape(-1)[:numel], (1 << bit_width) - 1

    def loss(least, most):
        least = _C.tensor(least).half().float()
        spread = _C.tensor(most) - least
        scale = (spread / top).half().float() if spread != 0 else _C.tensor(1.)
        codes = ((x - least) * (1 / scale)).round().clamp(0, top)
        return (x - (codes * scale + least)).norm().item()
    low = whole_low = single(x.amin())
    high = whole_high = single(x.amax())
    step = single(single(high - low) / n_bins)
    room = single(single(n_bins * (1 - single(ratio))) * step)
    now, found = loss(low, high), []
    while single(low + room) < high:
        narrower = single(low + step), single(high - step)
        left, right = loss(narrower[0], high), loss(low, narrower[1])
        if now < left and now < right:
            found.append((now, low, high))
        if left < right:
            low, now = narrower[0], left
        else:
            high, now = narrower[1], right
    _, low, high = min(found, key=lambda place: place[0]) if found else (0, whole_low, whole_high)
    return _C.tensor([high]), _C.tensor([low])


def _choose_qparams_per_tensor(input, reduce_range=False):
    """(scale, zero point) that quantize_per_tensor_dynamic takes."""
    made = functions["quantize_per_tensor_dynamic"](input.contiguous(), _C.quint8, reduce_range)
    return made.q_scale(), made.q_zero_point()


def _saturate_weight_to_fp16(weight):
    """The weight within the range of float16."""
    most = _C.finfo(_C.float16).max
    return weight.clamp(-most, most)


def _ranges(weight, bins, ratio, bits):
    """The best range of each row."""
    rows = [choose_qparams_optimized(row, row.numel(), bins, ratio, bits) for row in weight.reshape(-1, weight.size(-1))]
    return functions["stack"]([functions["cat"]([low, high]) for high, low in rows]).reshape(*weight.shape[:-1], 2)


def _tables(bits, name):
    """Operators on packed rows in a plain tensor."""
    @operator(f"embedding_bag_{name}_unpack(Tensor weight) -> Tensor")
    def unpack(weight):
        return _rows(weight, bits)

    if bits == 8:
        @operator("embedding_bag_byte_prepack(Tensor weight) -> Tensor")
        def prepack(weight):
            return _prepack(weight, 8)

        @operator("embedding_bag_byte_prepack_with_rowwise_min_max(Tensor weight, Tensor rowwise_min_max) -> Tensor")
        def prepack_in_range(weight, rowwise_min_max):
            return _prepack(weight, 8, rowwise_min_max)
    else:
        @operator(f"embedding_bag_{name}_prepack(Tensor weight, bool optimized_qparams=False, int nbins=200, float ratio=0.16) -> Tensor")
        def prepack(weight, optimized_qparams=False, nbins=200, ratio=0.16):
            return _prepack(weight, bits, _ranges(weight.float(), nbins, ratio, bits) if optimized_qparams else None)

        @operator(f"embedding_bag_{name}_prepack_with_rowwise_min_max(Tensor weight, Tensor rowwise_min_max, bool optimized_qparams=False, "
                  "int nbins=200, float ratio=0.16) -> Tensor")
        def prepack_in_range(weight, rowwise_min_max, optimized_qparams=False, nbins=200, ratio=0.16):
            return _prepack(weight, bits, rowwise_min_max)

    @operator(f"embedding_bag_{name}_rowwise_offsets(Tensor weight, Tensor indices, Tensor? offsets=None, bool scale_grad_by_freq=False, int mode=0, "
              "bool pruned_weights=False, Tensor? per_sample_weights=None, Tensor? compressed_indices_mapping=None, "
              "bool include_last_offset=False) -> Tensor")
    def bag(weight, indices, offsets=None, scale_grad_by_freq=False, mode=0, pruned_weights=False, per_sample_weights=None,
            compressed_indices_mapping=None, include_last_offset=False):
        return _bags(lambda at: _rows(weight[at], bits), weight.size(0), indices, offsets, pruned_weights, per_sample_weights,
                     compressed_indices_mapping, include_last_offset)


for _bits, _name in ((8, "byte"), (4, "4bit"), (2, "2bit")):
    _tables(_bits, _name)


# ---- packed weights --------------------------------------------------------------------------------------------------

@operator("embedding_bag_prepack(Tensor weight) -> EmbeddingParams W_prepack")
def embedding_bag_prepack(weight):
    if weight.dtype not in (_C.quint8, _C.quint4x2):
        raise RuntimeError("Currently only supports 8-bit and 4-bit quantization of embeddings")
    if scheme_of(weight) is not per_channel_affine_float_qparams:
        raise RuntimeError("Expect embedding_bag weights to be quantized using kPerChannelAffineFloatQParams")
    if weight.dim() != 2:
        raise RuntimeError("quantized::embedding_bag_prepack weight tensor rank should be 2")
    if weight.q_per_channel_axis() != 0:
        raise RuntimeError("quantized::embedding_bag_prepack: rows have the scales, so the axis is 0, not 1")
    return EmbeddingPackedParamsBase(weight)


@operator("embedding_bag_unpack(EmbeddingParams W_prepack) -> Tensor W_origin")
def embedding_bag_unpack(W_prepack):
    return W_prepack.w


def _table(packed):
    """(bytes of the rows, a scale and a shift for each), made when they are first used."""
    made = packed.__dict__.get("table")
    if made is None:
        w, shared = packed.w, packed.bit_rate() == 4
        scales, zeros = w.q_per_channel_scales().float().unsqueeze(-1), w.q_per_channel_zero_points().float().unsqueeze(-1)
        shift = -zeros * scales
        if shared:
            codes = w.int_repr()
            if w.size(1) % 2:                   # a row begins within a byte
                codes = _pack_codes(_unpack_codes(codes, 4)[:w.numel()].reshape(w.shape), 4)
            made = codes.reshape(w.size(0), -1), scales.half().float(), shift.half().float()
        else:
            made = w.int_repr(), scales, shift
        packed.table = made
    return made


def _dequantized_rows(packed, at):
    """Rows, computed with one scale and shift for each."""
    codes, scales, shift = _table(packed)
    found = codes[at]
    if packed.bit_rate() == 4:
        found = _unpack_codes(found, 4)[..., :packed.w.size(1)]
    return found.float() * scales[at] + shift[at]


for _name in ("byte", "4bit"):
    @operator(f"embedding_bag_{_name}(EmbeddingParams weight, Tensor indices, Tensor? offsets=None, bool scale_grad_by_freq=False, int mode=0, "
              "bool pruned_weights=False, Tensor? per_sample_weights=None, Tensor? compressed_indices_mapping=None, "
              "bool include_last_offset=False) -> Tensor")
    def embedding_bag(weight, indices, offsets, scale_grad_by_freq, mode, pruned_weights, per_sample_weights, compressed_indices_mapping,
                      include_last_offset):
        return _bags(lambda at: _dequantized_rows(weight, at), weight.w.size(0), indices, offsets, pruned_weights, per_sample_weights,
                     compressed_indices_mapping, include_last_offset)

    @operator(f"embedding_{_name}(EmbeddingParams weight, Tensor indices, bool pruned_weights=False) -> Tensor")
    def embedding(weight, indices, pruned_weights):
        count = weight.w.size(0)
        if isinstance(indices, Tensor) and indices.numel() and not 0 <= int(indices.min()) <= int(indices.max()) < count:
            raise RuntimeError(f"embedding: an index is out of range: there are {count} rows")
        return _dequantized_rows(weight, indices.long())
