"""Words in lower case that `onnx:` of an entry may use: what takes more than a call of an ONNX operator. Each is passed the builder first.

Note [onnx]
`onnx:` is an expression of Python: names are the operator's arguments, a word with a capital is an operator of ONNX, with its inputs by position and
its attributes by name, a word in lower case is a function of this file. An operator of several results gives a tuple; None in it is a result that
ONNX doesn't have, which is an error where the program uses it. Pointwise operators need none: theirs is written from the formula (_formulas.py),
unless ONNX has an operator of its own for them. The generator collects the expressions in _entries.py, which is read when something is
exported: so they are neither in the library nor in what `import tede` loads."""
import math

import tede
from tede.onnx._builder import Unsupported


def swapped(b, rank, dim0, dim1):
    order = list(range(rank))
    order[dim0], order[dim1] = order[dim1], order[dim0]
    return order


def permuted(b, x, dims):
    return b.op("Transpose", x, perm=[d % x.rank for d in dims])


def dims_of(b, dims, x):
    """Dimensions of a reduction; none: all."""
    dims = list(range(x.rank)) if dims is None or dims == [] else [dims] if isinstance(dims, int) else list(dims)
    return dims


def reduce(b, kind, x, dim, keepdim=False, dtype=None):
    if dtype is None and kind in ("ReduceSum", "ReduceProd") and not x.dtype.is_floating_point:
        dtype = tede.int64
    x = b.cast(x, dtype) if dtype is not None else x
    if x.rank == 0:
        return x
    return b.op(kind, x, dims_of(b, dim, x), keepdims=int(keepdim))


def variance(b, x, dim, correction, keepdim, root=False):
    dims = dims_of(b, dim, x)
    away = b.op("Sub", x, b.op("ReduceMean", x, dims, keepdims=1))
    total = b.op("ReduceSum", b.op("Mul", away, away), dims, keepdims=int(keepdim))
    sizes = b.op("Gather", b.op("Shape", x), dims, axis=0)
    count = b.cast(b.op("ReduceProd", sizes, keepdims=0), x.dtype)
    result = b.op("Div", total, b.op("Sub", count, float(1 if correction is None else correction)))
    return b.op("Sqrt", result) if root else result


def extreme(b, kind, x, dim, keepdim):
    return (b.op("Reduce" + kind, x, [dim], keepdims=int(keepdim)), b.op("Arg" + kind, x, axis=dim, keepdims=int(keepdim)))


def arg_extreme(b, kind, x, dim, keepdim):
    if dim is None:
        x, dim, keepdim = b.op("Reshape", x, [-1]), 0, False
    return b.op("Arg" + kind, x, axis=dim, keepdims=int(keepdim))


def expanded(b, x, size):
    """-1 keeps a size, which is what a 1 does to Expand."""
    return b.op("Expand", x, [1 if not b.is_value(s) and s == -1 else s for s in size])


def filled(b, size, value, dtype=None):
    dtype = dtype or (tede.get_default_dtype() if isinstance(value, float) else tede.bool if isinstance(value, bool) else tede.int64)
    tensor = b.onnx.numpy_helper.from_array(tede.tensor([value], dtype=dtype).numpy())
    return b.op("ConstantOfShape", size, value=tensor, dtype=dtype)


def filled_like(b, x, value, dtype=None):
    dtype = dtype or x.dtype
    tensor = b.onnx.numpy_helper.from_array(tede.tensor([value], dtype=dtype).numpy())
    return b.op("ConstantOfShape", b.op("Shape", x), value=tensor, dtype=dtype)


def sequence(b, start, end, step=1, dtype=None):
    dtype = dtype or (tede.get_default_dtype() if any(isinstance(x, float) for x in (start, end, step)) else tede.int64)
    return b.op("Range", *(b.cast(x, dtype) for x in (start, end, step)), dtype=dtype)


def sliced(b, x, dim, start, end, step):
    return b.op("Slice", x, [0 if start is None else start], [2 ** 63 - 1 if end is None else end], [dim], [step])


def put(b, x, src, dim, start, end, one, step=1):
    """x with `src` where x[start:end] along a dimension was."""
    length = x.shape[dim]
    if step != 1 or not isinstance(length, int) or not all(v is None or isinstance(v, int) for v in (start, end)):
        raise Unsupported("torch.onnx.export: a write to a part of a dimension that varies, or to every n-th index")
    if one:
        src, start = b.op("Unsqueeze", src, [dim]), start % length
        end = start + 1
    start, end, _ = slice(start, end).indices(length)
    parts = [sliced(b, x, dim, 0, start, 1)] * (start > 0) + [b.cast(src, x.dtype)] + [sliced(b, x, dim, end, length, 1)] * (end < length)
    return b.op("Concat", *parts, axis=dim)


def selected(b, x, dim, index):
    return b.op("Gather", x, b.cast(index, tede.int64) if b.is_value(index) else b.constant(index, tede.int64), axis=dim)


def pieces(b, x, sizes, dim):
    results = b.op("Split", x, sizes, axis=dim, outputs=len(sizes))
    return results if len(sizes) > 1 else (results,)


def parts(b, x, size, dim):
    length = x.shape[dim]
    if not isinstance(length, int) or b.is_value(size):
        raise Unsupported("torch.onnx.export: split along a dimension that varies")
    whole = length // size
    return pieces(b, x, [size] * whole + ([length % size] if length % size else []), dim)


def unbound(b, x, dim):
    count = x.shape[dim]
    if not isinstance(count, int):
        raise Unsupported("torch.onnx.export: unbind along a dimension that varies")
    return tuple(selected(b, x, dim, i) for i in range(count))


def joined(b, tensors, dim):
    # The empty vectors that cat leaves out, and dtypes that it promotes.
    tensors = [x for x in tensors if x.shape != [0]]
    dtype = tensors[0].dtype
    for x in tensors:
        dtype = tede.promote_types(dtype, x.dtype)
    return b.op("Concat", *(b.cast(x, dtype) for x in tensors), axis=dim)


def stacked(b, tensors, dim):
    return b.op("Concat", *(b.op("Unsqueeze", x, [dim]) for x in tensors), axis=dim)


def squeezed(b, x, dims):
    dims = [d + x.rank if d < 0 else d for d in dims]
    return b.op("Squeeze", x, ones) if (ones := [d for d in dims if x.shape[d] == 1]) else b.op("Identity", x)


def padded(b, x, pad, value=0):
    """From the last dimension on: before it and behind it."""
    before, behind = [0] * x.rank, [0] * x.rank
    for i in range(len(pad) // 2):
        before[x.rank - 1 - i], behind[x.rank - 1 - i] = pad[2 * i], pad[2 * i + 1]
    return b.op("Pad", x, before + behind, b.constant(value, x.dtype))


def padded_as(b, x, pad, mode):
    before, behind = [0] * x.rank, [0] * x.rank
    for i in range(len(pad) // 2):
        before[x.rank - 1 - i], behind[x.rank - 1 - i] = pad[2 * i], pad[2 * i + 1]
    return b.op("Pad", x, before + behind, mode=mode)


def repeated(b, x, repeats):
    if len(repeats) > x.rank:
        x = b.op("Unsqueeze", x, list(range(len(repeats) - x.rank)))
    return b.op("Tile", x, repeats)


def flipped(b, x, dims):
    return b.op("Slice", x, [-1] * len(dims), [-2 ** 63] * len(dims), list(dims), [-1] * len(dims))


def rolled(b, x, shifts, dims):
    for shift, dim in zip(shifts, dims):
        x = b.op("Concat", sliced(b, x, dim, -shift, None, 1), sliced(b, x, dim, 0, -shift, 1), axis=dim)
    return x


def clamped(b, x, low, high):
    if b.is_value(low) or b.is_value(high):
        x = x if low is None else b.op("Max", x, b.cast(low, x.dtype))
        return x if high is None else b.op("Min", x, b.cast(high, x.dtype))
    return b.op("Clip", x, *(None if v is None else b.constant(v, x.dtype) for v in (low, high)))


def integer(b, x):
    return b.constant(x, tede.int64)


def any_or_all(b, kind, x, dim=None, keepdim=False):
    return b.cast(reduce(b, kind, b.cast(b.cast(x, tede.bool), tede.int32), dim, keepdim), tede.bool)


def rest(b, x, whole, factor, dtype):
    x = b.cast(x, dtype)
    return b.op("Sub", whole, x if factor == 1 else b.op("Mul", x, factor))


def indexed(b, x, indices):
    """x[i], x[:, i], x[i, j]: indices that are tensors, side by side."""
    at = [i for i, index in enumerate(indices) if index is not None]
    if at != list(range(at[0], at[-1] + 1)) or any(indices[i].dtype == tede.bool for i in at):
        raise Unsupported("torch.onnx.export: this kind of index; indices of whole numbers, side by side, can be exported")
    if len(at) == 1:
        return b.op("Gather", x, indices[at[0]], axis=at[0])
    if at[0]:
        raise Unsupported("torch.onnx.export: several indices behind others that are whole dimensions")
    return b.op("GatherND", x, points(b, [indices[i] for i in at])[0])


def points(b, indices):
    """Whole-number indices of the first dimensions as one tensor of points."""
    shape = b.op("Shape", indices[0])
    for index in indices[1:]:
        shape = b.op("Shape", b.op("Expand", index, shape))
    columns = [b.op("Unsqueeze", b.op("Expand", b.cast(index, tede.int64), shape), [-1]) for index in indices]
    return b.op("Concat", *columns, axis=-1), shape


def written_at(b, x, indices, values, accumulate):
    indices = list(indices)
    if any(index is None or index.dtype == tede.bool for index in indices):
        raise Unsupported("torch.onnx.export: a write to this kind of index; indices of whole numbers from the first dimension on can be exported")
    at, shape = points(b, indices)
    whole = b.op("Concat", shape, b.op("Slice", b.op("Shape", x), [len(indices)], [x.rank], [0]), axis=0)
    return b.op("ScatterND", x, at, b.op("Expand", b.cast(values, x.dtype), whole), reduction="add" if accumulate else "none")


def added_at(b, x, dim, index, source, alpha):
    around = [1] * x.rank
    around[dim] = -1
    at = b.op("Expand", b.op("Reshape", index, around), b.op("Shape", source))
    return b.op("ScatterElements", x, at, source if alpha == 1 else b.op("Mul", source, alpha), axis=dim, reduction="add")


def ordered(b, x, dim, descending):
    count = b.op("Gather", b.op("Shape", x), [dim], axis=0)
    return b.op("TopK", x, count, axis=dim, largest=int(descending), sorted=1, outputs=2)


def sum_of_product(b, x, left, right, beta, alpha):
    y = b.op("MatMul", left, right)
    y = y if alpha == 1 else b.op("Mul", y, alpha)
    return b.op("Add", x if beta == 1 else b.op("Mul", x, beta), y)


def vector_norm(b, x, order, dim, keepdim, dtype):
    x = x if dtype is None else b.cast(x, dtype)
    if order in (1, 2):
        return reduce(b, f"ReduceL{int(order)}", x, dim, keepdim)
    size = b.op("Abs", x)
    if order in (math.inf, -math.inf):
        return b.op("ReduceMax" if order > 0 else "ReduceMin", size, dims_of(b, dim, x), keepdims=int(keepdim))
    return b.op("Pow", b.op("ReduceSum", b.op("Pow", size, order), dims_of(b, dim, x), keepdims=int(keepdim)), 1 / order)


def sampled(b, x, grid, mode, padding, align_corners):
    modes = ("linear", "nearest", "cubic") if b.opset >= 20 else ("bilinear", "nearest", "bicubic")
    return b.op("GridSample", x, grid, mode=modes[mode], padding_mode=("zeros", "border", "reflection")[padding], align_corners=int(align_corners))


def gated(b, x, dim):
    value, gate = b.op("Split", x, axis=dim, num_outputs=2, outputs=2)
    return b.op("Mul", value, b.op("Sigmoid", gate))


def without_nan(b, x, nan, above, below):
    most = tede.finfo(x.dtype).max
    x = b.op("Where", b.op("IsNaN", x), b.constant(0.0 if nan is None else nan, x.dtype), x, dtype=x.dtype)
    for sign, value in ((1, most if above is None else above), (0, -most if below is None else below)):
        x = b.op("Where", b.op("IsInf", x, detect_positive=sign, detect_negative=1 - sign), b.constant(value, x.dtype), x, dtype=x.dtype)
    return x


# ---- layers

def layer_norm(b, x, normalized_shape, weight, bias, eps):
    scale = weight if weight is not None else filled(b, list(normalized_shape), 1.0, x.dtype)
    return b.op("LayerNormalization", x, scale, bias, axis=-len(normalized_shape), epsilon=eps), None, None


def rms_norm(b, x, normalized_shape, weight, eps):
    eps = tede.finfo(x.dtype).eps if eps is None else eps
    mean = b.op("ReduceMean", b.op("Mul", x, x), list(range(-len(normalized_shape), 0)), keepdims=1)
    y = b.op("Div", x, b.op("Sqrt", b.op("Add", mean, eps)))
    return y if weight is None else b.op("Mul", y, weight), None


def group_norm(b, x, weight, bias, channels, groups, eps):
    """By InstanceNormalization over groups that lie one behind the other."""
    shape = b.op("Shape", x)
    ones, zeros = b.constant([1.0] * groups, x.dtype), b.constant([0.0] * groups, x.dtype)
    y = b.op("InstanceNormalization", b.op("Reshape", x, [0, groups, -1]), ones, zeros, epsilon=eps)
    y = b.op("Reshape", y, shape)
    around = [channels] + [1] * (x.rank - 2)
    y = y if weight is None else b.op("Mul", y, b.op("Reshape", weight, around))
    return y if bias is None else b.op("Add", y, b.op("Reshape", bias, around)), None, None


def batch_norm(b, x, weight, bias, mean, variance, training, eps):
    channels = x.shape[1]
    if training and mean is not None:
        raise Unsupported("torch.onnx.export: batch normalization that updates its statistics; call model.eval() first")
    if mean is None:
        dims, around = [0, *range(2, x.rank)], [-1] + [1] * (x.rank - 2)
        away = b.op("Sub", x, b.op("ReduceMean", x, dims, keepdims=1))
        spread = b.op("Sqrt", b.op("Add", b.op("ReduceMean", b.op("Mul", away, away), dims, keepdims=1), eps))
        y = b.op("Div", away, spread)
        y = y if weight is None else b.op("Mul", y, b.op("Reshape", weight, around))
        return y if bias is None else b.op("Add", y, b.op("Reshape", bias, around)), None, None
    weight = b.constant([1.0] * channels, x.dtype) if weight is None else weight
    bias = b.constant([0.0] * channels, x.dtype) if bias is None else bias
    return b.op("BatchNormalization", x, weight, bias, mean, variance, epsilon=eps), None, None


def convolution(b, x, weight, bias, stride, padding, dilation, transposed, output_padding, groups):
    n = weight.rank - 2
    each = lambda values: list(values) * n if len(values) == 1 else list(values)
    attributes = dict(strides=each(stride), pads=each(padding) * 2, dilations=each(dilation), group=groups)
    unbatched = x.rank == n + 1
    x = b.op("Unsqueeze", x, [0]) if unbatched else x
    y = b.op("ConvTranspose", x, weight, bias, output_padding=each(output_padding), **attributes) if transposed else \
        b.op("Conv", x, weight, bias, kernel_shape=None, **attributes)
    return b.op("Squeeze", y, [0]) if unbatched else y


def pooled(b, kind, x, kernel, stride, padding, dilation, ceil, n, **attributes):
    each = lambda values: [values] * n if isinstance(values, int) else list(values) * n if len(values) == 1 else list(values)
    kernel = each(kernel)
    unbatched = x.rank == n + 1
    x = b.op("Unsqueeze", x, [0]) if unbatched else x
    if dilation is not None:
        attributes["dilations"] = each(dilation)
    y = b.op(kind, x, kernel_shape=kernel, strides=each(stride) if stride else kernel, pads=each(padding) * 2, ceil_mode=int(ceil), **attributes)
    return b.op("Squeeze", y, [0]) if unbatched else y


def averaged(b, x, kernel, stride, padding, ceil, count_padding, divisor, n):
    if divisor is not None:
        raise Unsupported("torch.onnx.export: avg_pool with divisor_override")
    return pooled(b, "AveragePool", x, kernel, stride, padding, None, ceil, n, count_include_pad=int(count_padding))


def adaptive(b, x, size, n):
    """Sizes that divide what there is; one is the mean of all."""
    if all(s == 1 for s in size):
        return b.op("ReduceMean", x, list(range(-n, 0)), keepdims=1)
    spatial = x.shape[-n:]
    if any(not isinstance(have, int) or have % want for have, want in zip(spatial, size)):
        raise Unsupported(f"torch.onnx.export: adaptive pooling of {spatial} to {list(size)}, which isn't in equal parts")
    kernel = [have // want for have, want in zip(spatial, size)]
    return pooled(b, "AveragePool", x, kernel, kernel, [0], None, False, n)


def resized(b, x, size, mode, align_corners, scales):
    n = len(size)
    names = {0: "nearest", 1: "nearest", 2: "linear", 3: "cubic"}
    if mode not in names:
        raise Unsupported("torch.onnx.export: interpolation with antialiasing")
    where = "align_corners" if align_corners else "asymmetric" if mode == 0 else "half_pixel"
    attributes = dict(mode=names[mode], coordinate_transformation_mode=where, nearest_mode="floor" if mode == 0 else "round_prefer_ceil")
    if mode == 3:
        attributes["cubic_coeff_a"] = -0.75
    scales = list(scales)[-n:]
    if all(scales) and not align_corners:
        return b.op("Resize", x, None, b.constant([1.0, 1.0, *scales], tede.float32), **attributes)
    front = b.op("Slice", b.op("Shape", x), [0], [2], [0])
    return b.op("Resize", x, None, None, b.op("Concat", front, b.ints(size), axis=0), **attributes)


def attention(b, query, key, value, mask, causal, scale):
    order = [0, 1, 3, 2]
    scores = b.op("MatMul", b.op("Mul", query, scale), b.op("Transpose", key, perm=order))
    if causal:
        lengths = [b.op("Gather", b.op("Shape", x), [2], axis=0) for x in (query, key)]
        ones = b.op("Cast", filled(b, b.op("Concat", *lengths, axis=0), 1.0, tede.float32), to=b.elem_type(tede.bool), dtype=tede.bool)
        lower = b.cast(b.op("Trilu", b.cast(ones, tede.float32), upper=0), tede.bool)
        scores = b.op("Where", lower, scores, b.constant(-math.inf, query.dtype), dtype=query.dtype)
    if mask is None:
        return b.op("MatMul", b.op("Softmax", scores, axis=-1), value), None
    if mask.dtype == tede.bool:
        scores = b.op("Where", mask, scores, b.constant(-math.inf, query.dtype), dtype=query.dtype)
    else:
        scores = b.op("Add", scores, mask)
    # A row that is masked as a whole gives zeros.
    some = b.op("Greater", b.op("ReduceMax", scores, [-1], keepdims=1), b.constant(-math.inf, query.dtype))
    weights = b.op("Where", some, b.op("Softmax", scores, axis=-1), b.constant(0.0, query.dtype), dtype=query.dtype)
    return b.op("MatMul", weights, value), None


def products_of(b, gates):
    """(inputs, weights, bias or None) of which a recurrent layer's gates are the products, if the graph has them so; else None."""
    added = b.inputs_of(gates, "Add")
    product, bias = added or (gates, None)
    viewed = b.inputs_of(product, "Reshape")
    factors = b.inputs_of(viewed[0], "MatMul") if viewed else None
    rows, turned = (b.inputs_of(factors[0], "Reshape"), b.inputs_of(factors[1], "Transpose")) if factors else (None, None)
    if not rows or not turned or not rows[0].shape or len(rows[0].shape) != 3 or rows[0].shape[:2] != gates.shape[:2] or \
            not turned[0].shape or rows[0].shape[2] != turned[0].shape[1] or (bias is not None and bias.shape != turned[0].shape[:1]):
        return None
    return rows[0], turned[0], bias


def recurrent(b, gates, hx, cx, w_hh, b_hh, mode, reverse):
    """One layer in one direction. ONNX multiplies the inputs itself: what the gates are products of is looked up, and the products, which nothing needs
    then, are left out. Where the graph has them otherwise they are multiplied by a matrix that puts the gates in ONNX's order."""
    size = w_hh.shape[1]
    kind, blocks = (("RNN", [0]), ("RNN", [0]), ("LSTM", [0, 3, 1, 2]), ("GRU", [1, 0, 2]))[mode]
    order = [size * block + i for block in blocks for i in range(size)]
    ordered = lambda x: b.op("Gather", x, order, axis=0)
    found = products_of(b, gates)
    x, w, b_ih = found or (gates, b.constant(tede.eye(len(order), dtype=gates.dtype)), None)
    w, r = (b.op("Unsqueeze", ordered(y), [0]) for y in (w, w_hh))
    bias = None
    if b_ih is not None or b_hh is not None:
        none = b.constant([0.0] * len(order), gates.dtype)
        bias = b.op("Unsqueeze", b.op("Concat", *(none if y is None else ordered(y) for y in (b_ih, b_hh)), axis=0), [0])
    attributes = dict(hidden_size=size, direction="reverse" if reverse else "forward")
    if kind == "RNN":
        attributes["activations"] = ["Relu" if mode == 0 else "Tanh"]
    if kind == "GRU":
        attributes["linear_before_reset"] = 1
    inputs = [x, w, r, bias, None, b.op("Unsqueeze", hx, [0])]
    if kind != "LSTM":
        hidden, _ = b.op(kind, *inputs, outputs=2, **attributes)
        return b.op("Squeeze", hidden, [1]), None, None
    hidden, _, last = b.op(kind, *inputs, b.op("Unsqueeze", cx, [0]), outputs=3, **attributes)
    return b.op("Squeeze", hidden, [1]), LastOnly(b.op("Squeeze", last, [0]), 0 if reverse else -1), None


class LastOnly:
    """A result of which ONNX has one index of the first dimension alone, the first or the last."""

    def __init__(self, value, index):
        self.value, self.index = value, index
