"""Linear layers and convolutions with packed weights.

Bytes are multiplied as such (_bytes_product) where activations are quint8, weights are around zero, and a convolution has two
dimensions. Few channels of groups are joined, with zeros between them, to as many as are multiplied at once. Other products of
integers are computed in floats, exactly: in float32 while no sum can reach 2**24, else in float64. A sum is then multiplied by a
float32, rounded to the nearest integer, ties to even, and moved by the zero point."""
import functools
import math

from tede import _C
from tede._C import Tensor
from tede._quantized_ops.define import operator
from tede._quantized_ops.packed import Conv2dPackedParamsBase, Conv3dPackedParamsBase, LinearPackedParamsBase, is_per_tensor
from tede._quantized_ops.rounding import centered, check_quantized, functions, operators, rounded, single


def _layer(name):
    import tede
    return getattr(tede.nn.functional, name)


# ---- sums of integers ------------------------------------------------------------------------------------------------

def _shape(w, axis=0):
    return (1,) * axis + (-1,) + (1,) * (w.dim() - 1 - axis)


def _sums(product, qx, w, depth, axis=0):
    """product(integers, weights), exactly."""
    exact = _C.float32 if depth * 255 * 255 < 2**24 else _C.float64
    return product(centered(qx, dtype=exact), centered(w, _shape(w, axis), exact))


def _step(x_scale, w):
    """What one of the sums is worth: a number, or one for each channel."""
    if is_per_tensor(w):
        return single(single(w.q_scale()) * single(x_scale))
    return (w.q_per_channel_scales() * x_scale).to(_C.float32)


def _scaled(sums, x_scale, w, bias, scale, shape):
    """Sums of integers in steps of the output's scale, the bias added in steps of the sums."""
    step = _step(x_scale, w)
    sums = sums.to(_C.float32)
    if bias is not None:
        sums = sums + (bias.to(_C.float32) / step).reshape(shape)
    return sums * ((step / scale).reshape(shape) if isinstance(step, Tensor) else single(step / single(scale)))


# ---- products of bytes -----------------------------------------------------------------------------------------------

class _Panels:
    """A packed weight as the core's kernels take it, and numbers for each column that depend on the scales of a call."""

    def __init__(self, rows, w, bias, run):
        self.w, self.bias, self.columns = w, bias, rows.size(0)
        self.bytes = operators["_bytes_pack"](rows.contiguous(), run)
        self.sums = rows.sum(1, dtype=_C.int32)
        self.zeros = functions["zeros"](self.columns)
        self.of_scales = functools.lru_cache(maxsize=8)(self._of_scales)

    def _of_scales(self, x_scale, x_zero, scale):
        """(what the activations' zero point adds, what is added, what is multiplied); scale None: results are floats."""
        step = _step(x_scale, self.w)
        step = step if isinstance(step, Tensor) else functions["full"]([self.columns], step)
        less = self.sums * x_zero
        if scale is None:
            return less, self.zeros if self.bias is None else self.bias.to(_C.float32), step
        if isinstance(_step(x_scale, self.w), Tensor):
            by = step / scale
        else:
            by = functions["full"]([self.columns], single(_step(x_scale, self.w) / single(scale)))
        return less, self.zeros if self.bias is None else self.bias.to(_C.float32) / step, by

    def product(self, qx, scale, zero_point, relu=False, window=(), apart=False):
        x_scale, x_zero = qx.q_scale(), qx.q_zero_point()
        less, more, by = self.of_scales(x_scale, x_zero, None if scale is None else float(scale))
        if scale is None:
            return operators["_bytes_product"](qx, self.bytes, self.columns, less, more, by, window, apart, x_zero, 0, 1., 0, _C.float32)
        zero_point = int(zero_point)
        return operators["_bytes_product"](qx, self.bytes, self.columns, less, more, by, window, apart, x_zero, zero_point if relu else 0, float(scale),
                                           zero_point, _C.uint8)


def _around_zero(w):
    return w.q_zero_point() == 0 if is_per_tensor(w) else w.q_per_channel_axis() == 0 and not w.q_per_channel_zero_points().any()


def _panels(packed, matrix, run):
    """The packed weight's panels, made when they are first used; None where bytes can't be multiplied. matrix(integers) has its rows, of which
    `run` bytes each meet bytes that lie beside each other."""
    made = packed.__dict__.get("panels", False)
    if made is False:
        w = packed.w
        made = packed.panels = _Panels(matrix(w.int_repr()), w, packed.b, run) if w.dtype is _C.qint8 and w.numel() and _around_zero(w) else None
    return made


def _bytes_of(qx, packed, matrix, run):
    return _panels(packed, matrix, run) if qx.dtype is _C.quint8 and qx.device.type == "cpu" and is_per_tensor(qx) else None


# ---- linear ----------------------------------------------------------------------------------------------------------

def _check_linear(name, x, packed):
    if x.dim() == 0:
        raise RuntimeError(f"quantized::{name}: The dimension of input tensor should be larger than 0")
    if x.size(-1) != packed.w.size(1):
        raise RuntimeError(f"quantized::{name}: The number of columns in the input ({x.size(-1)}) must be that of the weight ({packed.w.size(1)}): "
                           f"sizes {list(x.shape)} and {list(packed.w.shape)}")


def _linear_sums(qx, w):
    return _sums(lambda x, weight: x @ weight.t(), qx, w, w.size(1))


def _linear(name, X, packed, scale, zero_point, relu=False):
    check_quantized(name, X)
    _check_linear(name, X, packed)
    panels = _bytes_of(X, packed, lambda w: w, packed.w.size(1))
    if panels is not None:
        return panels.product(X, scale, zero_point, relu)
    return rounded(_scaled(_linear_sums(X, packed.w), X.q_scale(), packed.w, packed.b, scale, (-1,)), X.dtype, scale, zero_point, relu)


def _floats(qx, packed):
    """Integers times weights, as floats."""
    panels = _bytes_of(qx, packed, lambda w: w, packed.w.size(1))
    if panels is not None:
        return panels.product(qx, None, 0)
    step = _step(qx.q_scale(), packed.w)
    made = _linear_sums(qx, packed.w).to(_C.float32) * step
    return made if packed.b is None else made + packed.b


_PACKED = "LinearParams W_prepack"


@operator("linear_prepack(Tensor W, Tensor? B=None) -> " + _PACKED)
def linear_prepack(W, B=None):
    check_quantized("linear_prepack", W)
    if W.dim() != 2:
        raise RuntimeError("The weight tensor for quantized::linear_prepack (fbgemm) should be 2-dimensional.")
    if B is not None and (B.dim() != 1 or B.size(0) != W.size(0)):
        raise RuntimeError("bias should be a vector (1D Tensor)" if B.dim() != 1 else
                           f"bias should have N elements: {W.size(0)}, but got {B.size(0)}")
    return LinearPackedParamsBase(W, B)


@operator("linear_prepack_fp16(Tensor W, Tensor? B=None) -> " + _PACKED)
def linear_prepack_fp16(W, B=None):
    most = _C.finfo(_C.float16).max
    return LinearPackedParamsBase(W.to(_C.float32).clamp(-most, most).to(_C.float16).to(_C.float32), B)


@operator(f"linear_unpack({_PACKED}) -> (Tensor W_origin, Tensor? B_origin)",
          f"linear_unpack_fp16({_PACKED}) -> (Tensor W_origin, Tensor? B_origin)")
def linear_unpack(W_prepack):
    return W_prepack.w, W_prepack.b


_STATIC = f"(Tensor X, {_PACKED}, float Y_scale_i, int Y_zero_point_i) -> Tensor Y"


@operator("linear" + _STATIC)
def linear(X, W_prepack, Y_scale_i, Y_zero_point_i):
    return _linear("linear", X, W_prepack, Y_scale_i, Y_zero_point_i)


@operator("linear_relu" + _STATIC)
def linear_relu(X, W_prepack, Y_scale_i, Y_zero_point_i):
    return _linear("linear_relu", X, W_prepack, Y_scale_i, Y_zero_point_i, True)


def _then(X, packed, scale, zero_point, function):
    """A function of what the layer gives, quantized once."""
    check_quantized("linear", X)
    _check_linear("linear", X, packed)
    return operators["_quantize_again"](function(_floats(X, packed)), scale, zero_point, X.dtype)


@operator(f"linear_leaky_relu(Tensor X, {_PACKED}, float Y_scale_i, int Y_zero_point_i, float negative_slope) -> Tensor Y")
def linear_leaky_relu(X, W_prepack, Y_scale_i, Y_zero_point_i, negative_slope):
    return _then(X, W_prepack, Y_scale_i, Y_zero_point_i, lambda x: _layer("leaky_relu")(x, negative_slope))


@operator("linear_tanh" + _STATIC)
def linear_tanh(X, W_prepack, Y_scale_i, Y_zero_point_i):
    return _then(X, W_prepack, Y_scale_i, Y_zero_point_i, lambda x: x.tanh())


_DYNAMIC = f"(Tensor X, {_PACKED}, bool reduce_range=False) -> Tensor Y"


@operator("linear_dynamic" + _DYNAMIC)
def linear_dynamic(X, W_prepack, reduce_range=False):
    """Activations are quantized to the range that they have; results are floats."""
    _check_linear("linear_dynamic", X, W_prepack)
    if not X.numel():           # no range to quantize to
        return functions["empty"]([*X.shape[:-1], W_prepack.w.size(0)], dtype=_C.float32)
    return _floats(functions["quantize_per_tensor_dynamic"](X.contiguous(), _C.quint8, reduce_range), W_prepack)


@operator("linear_relu_dynamic" + _DYNAMIC)
def linear_relu_dynamic(X, W_prepack, reduce_range=False):
    return linear_dynamic(X, W_prepack, reduce_range).relu()


@operator(f"linear_dynamic_fp16(Tensor X, {_PACKED}) -> Tensor Y")
def linear_dynamic_fp16(X, W_prepack):
    _check_linear("linear_dynamic_fp16", X, W_prepack)
    return _layer("linear")(X, W_prepack.w, W_prepack.b)


@operator(f"linear_relu_dynamic_fp16(Tensor X, {_PACKED}) -> Tensor Y")
def linear_relu_dynamic_fp16(X, W_prepack):
    return linear_dynamic_fp16(X, W_prepack).relu()


@operator("linear_dynamic_fp16_unpacked_weight(Tensor X, Tensor weight, Tensor? bias) -> Tensor Y")
def linear_dynamic_fp16_unpacked_weight(X, weight, bias):
    return linear_dynamic_fp16(X, linear_prepack_fp16(weight, bias))


@operator(f"linear_with_input_q_dq_qweight_dq_output_fp32(Tensor X, float X_scale, int X_zero_point, {_PACKED}) -> Tensor Y")
def linear_with_input_q_dq_qweight_dq_output_fp32(X, X_scale, X_zero_point, W_prepack):
    return _floats(functions["quantize_per_tensor"](X.contiguous(), X_scale, X_zero_point, _C.quint8), W_prepack)


@operator(f"linear_with_input_q_dq_qweight_dq_relu_output_fp32(Tensor X, float X_scale, int X_zero_point, {_PACKED}) -> Tensor Y")
def linear_with_input_q_dq_qweight_dq_relu_output_fp32(X, X_scale, X_zero_point, W_prepack):
    return linear_with_input_q_dq_qweight_dq_output_fp32(X, X_scale, X_zero_point, W_prepack).relu()


_PANEL = 64         # columns that the core multiplies at once (kernels/cpu/packed/bytes.h)


# ---- convolutions ----------------------------------------------------------------------------------------------------
# One dimension is two with a height of 1, as in PyTorch.

def _prepack(name, dims, weight, bias, stride, padding, output_padding, dilation, groups, transpose):
    check_quantized(name, weight)
    if weight.dim() != dims + 2:
        raise RuntimeError(f"Weights are expected to have {dims + 2} dimensions, but got {weight.dim()}")
    for what, numbers in (("stride", stride), ("padding", padding), ("dilation", dilation), ("output_padding", output_padding)):
        if len(numbers) != dims:
            raise RuntimeError(f"{name}: {what} should contain {dims} elements for {dims}D convolution.")
    outputs = weight.size(1) * groups if transpose else weight.size(0)
    if bias is not None and (bias.dim() != 1 or bias.size(0) != outputs):
        raise RuntimeError("bias should be a vector (1D Tensor)" if bias.dim() != 1 else f"bias should have K elements: {outputs}")
    if dims == 1:
        weight = weight.unsqueeze(-2)
        stride, padding, dilation, output_padding = [1, *stride], [0, *padding], [1, *dilation], [0, *output_padding]
    packed = Conv3dPackedParamsBase if dims == 3 else Conv2dPackedParamsBase
    return packed(weight, bias, stride, padding, output_padding, dilation, groups, transpose)


def _check_convolution(name, qx, packed, flat):
    dims = 1 if flat else packed.dims
    if qx.dim() != dims + 2:
        raise RuntimeError(f"{name}(): Expected activation tensor to have {dims + 2} dimensions, got {qx.dim()}")
    channels = packed.w.size(0) if packed._transpose else packed.w.size(1) * packed._groups
    if qx.size(1) != channels:
        raise RuntimeError(f"{name}(): Given groups={packed._groups}, weight of size {list(packed.w.shape)}, expected input {list(qx.shape)} to "
                           f"have {channels} channels, but got {qx.size(1)} channels instead")


def _convolution_sums(qx, packed):
    w, dims = packed.w, packed.dims
    if packed._transpose:
        transposed = _layer(f"conv_transpose{dims}d")
        return _sums(lambda x, weight: transposed(x, weight, None, packed._stride, packed._padding, packed._output_padding, packed._groups,
                                                  packed._dilation), qx, w, math.prod(w.shape) // w.size(1) // packed._groups, axis=1)
    convolve = _layer(f"conv{dims}d")
    return _sums(lambda x, weight: convolve(x, weight, None, packed._stride, packed._padding, packed._dilation, packed._groups), qx, w,
                 math.prod(w.shape[1:]))


_JOINED = 512       # channels that groups are joined to, at most


def _blocks(packed):
    """(how many blocks of channels meet columns of their own, bytes of a run): blocks as small as whole panels of columns allow, 0 if too large."""
    w, groups = packed.w, packed._groups
    if groups == 1 or packed._transpose:
        return 1, packed.run()
    blocks = max((n for n in range(1, groups + 1) if groups % n == 0 and w.size(0) % (n * _PANEL) == 0), default=1)
    channels = w.size(1) * (groups // blocks)
    return (0, 0) if channels > _JOINED else (blocks, channels if blocks > 1 else packed.run() * groups)


def _joined(w, groups, blocks):
    """The rows of a kernel, channels last, with zeros for the other groups of a row's block."""
    each, channels, columns = groups // blocks, w.size(1), w.size(0) // groups
    w = w.permute(0, 2, 3, 1)
    if each == 1:
        return w.reshape(w.size(0), -1)
    rows = functions["zeros"]([*w.shape[:3], each * channels], dtype=w.dtype)
    for group in range(groups):
        own, at = slice(group * columns, (group + 1) * columns), group % each * channels
        rows[own, :, :, at:at + channels] = w[own]
    return rows.reshape(w.size(0), -1)


def _convolution(name, qx, packed, scale, zero_point, relu=False, flat=False, plus=None):
    check_quantized(name, qx)
    _check_convolution(name, qx, packed, flat)
    if flat:
        qx = qx.unsqueeze(-2)
    # Channels come last: a window is runs of bytes, and its product a pixel.
    apart = packed._groups > 1 and packed._groups == packed.w.size(0) and packed.w.size(1) == 1
    blocks, run = (1, 0) if apart else _blocks(packed)
    panels = _bytes_of(qx, packed, lambda w: _joined(w, packed._groups, packed._groups if apart else blocks), run) \
        if packed.dims == 2 and blocks and not packed._transpose and plus is None else None
    if panels is not None:
        window = [*packed.w.shape[2:], *packed._stride, *packed._padding, *packed._dilation, blocks]
        made = panels.product(qx.permute(0, 2, 3, 1), scale, zero_point, relu, window, apart).permute(0, 3, 1, 2)
        return made.squeeze(-2) if flat else made
    x = _scaled(_convolution_sums(qx, packed), qx.q_scale(), packed.w, packed.b, scale, (-1,) + (1,) * packed.dims)
    if plus is not None:
        x = x + centered(plus) * single(plus.q_scale() / scale)
    made = rounded(x, qx.dtype, scale, zero_point, relu)
    return made.squeeze(-2) if flat else made


def _dynamic(name, x, packed, reduce_range, flat):
    """Both sides are quantized to the range that the input has."""
    qx = functions["quantize_per_tensor_dynamic"](x.contiguous(), _C.quint8, reduce_range)
    return _convolution(name, qx, packed, qx.q_scale(), qx.q_zero_point(), flat=flat).dequantize()


def _unpack(packed, flat):
    return (packed.w.squeeze(-2) if flat else packed.w), packed.b


def _family(dims, transpose):
    name = f"conv{'_transpose' * transpose}{dims}d"
    kind, flat = "Conv3dParams" if dims == 3 else "Conv2dParams", dims == 1
    more = "int[] output_padding, " if transpose else ""

    def prepack(weight, bias, stride, padding, *rest):
        output_padding, (dilation, groups) = (rest[0], rest[1:]) if transpose else ([0] * dims, rest)
        return _prepack(name + "_prepack", dims, weight, bias, stride, padding, output_padding, dilation, groups, transpose)
    schema = f"(Tensor weight, Tensor? bias, int[] stride, int[] padding, {more}int[] dilation, int groups) -> {kind}"
    operator(name + "_prepack" + schema)(prepack)
    older = [f"conv_unpack({kind} packed_weights) -> (Tensor unpacked_weights, Tensor? B_origin)"] if dims == 2 and not transpose else []
    if older:
        operator("conv_prepack" + schema)(prepack)
    operator(f"{name}_unpack({kind} packed_weights) -> (Tensor unpacked_weights, Tensor? B_origin)", *older)(lambda packed: _unpack(packed, flat))
    for relu in (False, True)[:2 - transpose]:
        full, overload = name + "_relu" * relu, "" if flat or transpose else ".new"

        def static(qx, packed, scale, zero_point, full=full, relu=relu):
            return _convolution(full, qx, packed, scale, zero_point, relu, flat)

        def older_static(qx, packed, stride, padding, dilation, groups, scale, zero_point, static=static):
            return static(qx, packed, scale, zero_point)
        if overload:
            operator(f"{full}(Tensor qx, {kind} weight, int[] stride, int[] padding, int[] dilation, int groups, float output_scale, "
                     "int output_zero_point) -> Tensor")(older_static)
        operator(f"{full}{overload}(Tensor qx, {kind} packed_weight, float output_scale, int output_zero_point) -> Tensor")(static)
    operator(f"{name}_dynamic(Tensor qx, {kind} packed_weight, bool reduce_range=False) -> Tensor")(
        lambda x, packed, reduce_range=False: _dynamic(name + "_dynamic", x, packed, reduce_range, flat))
    if flat:
        return
    for field in ("stride", "padding", "output_padding", "dilation"):
        operator(f"{name}_{field}({kind} packed_weights) -> int[]")(lambda packed, field=field: getattr(packed, field)())
    operator(f"{name}_groups({kind} packed_weights) -> int")(lambda packed: packed.groups())
    operator(f"{name}_transpose({kind} packed_weights) -> int")(lambda packed: int(packed.transpose()))


for _dims in (1, 2, 3):
    _family(_dims, False)
    _family(_dims, True)


@operator("conv2d_add(Tensor qx, Tensor qaccum, Conv2dParams packed_weight, float output_scale, int output_zero_point) -> Tensor")
def conv2d_add(qx, qaccum, packed_weight, output_scale, output_zero_point):
    return _convolution("conv2d_add", qx, packed_weight, output_scale, output_zero_point, plus=qaccum)


@operator("conv2d_add_relu(Tensor qx, Tensor qaccum, Conv2dParams packed_weight, float output_scale, int output_zero_point) -> Tensor")
def conv2d_add_relu(qx, qaccum, packed_weight, output_scale, output_zero_point):
    return _convolution("conv2d_add_relu", qx, packed_weight, output_scale, output_zero_point, relu=True, plus=qaccum)
