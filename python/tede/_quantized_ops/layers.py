"""Activations, norms and pooling of quantized tensors."""
from tede import _C
from tede._quantized_ops.define import operator
from tede._quantized_ops.rounding import by_table, check_quantized, functions, fused, operators, quantize, rounded

_TO = "float output_scale, int output_zero_point"


def _layer(name):
    import tede
    return getattr(tede.nn.functional, name)


@operator("relu6(Tensor qx, bool inplace=False) -> Tensor")
def relu6(qx, inplace=False):
    made = qx.clamp(0, 6)
    return qx.copy_(made) if inplace else made


@operator("clamp(Tensor qx, Scalar? min=None, Scalar? max=None) -> Tensor qy")
def clamp(qx, min=None, max=None):
    return qx.clamp(min, max)


@operator("threshold(Tensor qx, Scalar threshold, Scalar value) -> Tensor qy")
def threshold(qx, threshold, value):
    return functions["threshold"](qx, threshold, value)


@operator(f"hardswish(Tensor input, {_TO}) -> Tensor")
def hardswish(input, output_scale, output_zero_point):
    return by_table(lambda x: quantize(_layer("hardswish")(fused(x)), x.dtype, output_scale, output_zero_point), input)


@operator(f"leaky_relu(Tensor qx, Scalar negative_slope, bool inplace, {_TO}) -> Tensor")
def leaky_relu(qx, negative_slope, inplace, output_scale, output_zero_point):
    return by_table(lambda x: quantize(_layer("leaky_relu")(fused(x), negative_slope), x.dtype, output_scale, output_zero_point), qx)


@operator(f"elu(Tensor self, {_TO}, Scalar alpha=1, Scalar scale=1, Scalar input_scale=1) -> Tensor")
def elu(self, output_scale, output_zero_point, alpha=1, scale=1, input_scale=1):
    return by_table(lambda x: quantize(operators["elu"](fused(x), alpha, scale, input_scale), x.dtype, output_scale, output_zero_point), self)


@operator(f"celu(Tensor self, {_TO}, Scalar alpha=1) -> Tensor")
def celu(self, output_scale, output_zero_point, alpha=1):
    if alpha == 0:
        raise RuntimeError("ZeroDivisionError: alpha cannot be 0 for CELU")
    return elu(self, output_scale, output_zero_point, alpha, 1, 1 / alpha)


@operator(f"sigmoid(Tensor qx, {_TO}) -> Tensor")
def sigmoid(qx, output_scale, output_zero_point):
    return by_table(lambda x: quantize(x.dequantize().sigmoid(), x.dtype, output_scale, output_zero_point), qx)


@operator(f"softmax(Tensor qx, int dim, {_TO}) -> Tensor")
def softmax(qx, dim, output_scale, output_zero_point):
    return quantize(qx.dequantize().softmax(dim), qx.dtype, output_scale, output_zero_point)


@operator(f"prelu(Tensor qx, Tensor weight, {_TO}) -> Tensor")
def prelu(qx, weight, output_scale, output_zero_point):
    return quantize(_layer("prelu")(qx.dequantize(), weight.dequantize()), qx.dtype, output_scale, output_zero_point)


@operator(f"dropout(Tensor self, {_TO}, Scalar p=0.5, bool training=False) -> Tensor")
def dropout(self, output_scale, output_zero_point, p=0.5, training=False):
    if not training:
        return self
    return quantize(_layer("dropout")(self.dequantize(), float(p), True), self.dtype, output_scale, output_zero_point)


@operator(f"layer_norm(Tensor input, int[] normalized_shape, Tensor? weight, Tensor? bias, float eps, {_TO}) -> Tensor")
def layer_norm(input, normalized_shape, weight, bias, eps, output_scale, output_zero_point):
    made = _layer("layer_norm")(input.dequantize(), normalized_shape, weight, bias, eps)
    return quantize(made, input.dtype, output_scale, output_zero_point)


@operator(f"group_norm(Tensor input, int num_groups, Tensor? weight, Tensor? bias, float eps, {_TO}) -> Tensor")
def group_norm(input, num_groups, weight, bias, eps, output_scale, output_zero_point):
    made = _layer("group_norm")(input.dequantize(), num_groups, weight, bias, eps)
    return quantize(made, input.dtype, output_scale, output_zero_point)


@operator(f"instance_norm(Tensor input, Tensor? weight, Tensor? bias, float eps, {_TO}) -> Tensor")
def instance_norm(input, weight, bias, eps, output_scale, output_zero_point):
    made = _layer("instance_norm")(input.dequantize(), weight=weight, bias=bias, eps=eps)
    return quantize(made, input.dtype, output_scale, output_zero_point)


def _batch_norm(name, dims):
    """A scale and a shift for each channel, in steps of the result."""
    made = []
    for relu in (False, True):
        def normalize(qx, weight, bias, mean, var, eps, output_scale, output_zero_point, relu=relu):
            check_quantized(name, qx)
            if dims and qx.dim() not in dims:
                raise RuntimeError(f"Expecting the input tensor of rank {' or '.join(map(str, dims))}.")
            shape = (1, -1) + (1,) * (qx.dim() - 2)
            by = (var.double() + eps).sqrt().reciprocal() if weight is None else weight.double() / (var.double() + eps).sqrt()
            shift = -mean * by if bias is None else bias.double() - mean * by
            by, shift = (by * (qx.q_scale() / output_scale)).float(), (shift / output_scale).float()
            x = (qx.int_repr().to(_C.float32) - qx.q_zero_point()) * by.reshape(shape) + shift.reshape(shape)
            return rounded(x, qx.dtype, output_scale, output_zero_point, relu)
        made.append(normalize)
        operator(f"{name}{'_relu' * relu}(Tensor qx, Tensor? weight, Tensor? bias, Tensor mean, Tensor var, float eps, {_TO}) -> Tensor")(normalize)
    return made[0]


_batch_norm_of_any = _batch_norm("batch_norm", ())
for _name, _dims in (("batch_norm1d", (2, 3)), ("batch_norm2d", (4,)), ("batch_norm3d", (5,))):
    _batch_norm(_name, _dims)


@operator("max_pool1d(Tensor qx, int[] kernel_size, int[] stride, int[] padding, int[] dilation, bool ceil_mode) -> Tensor")
def max_pool1d(qx, kernel_size, stride, padding, dilation, ceil_mode):
    return _layer("max_pool1d")(qx, kernel_size, stride, padding, dilation, ceil_mode)


@operator("max_pool2d(Tensor qx, int[] kernel_size, int[] stride, int[] padding, int[] dilation, bool ceil_mode) -> Tensor")
def max_pool2d(qx, kernel_size, stride, padding, dilation, ceil_mode):
    return _layer("max_pool2d")(qx, kernel_size, stride, padding, dilation, ceil_mode)


# ---- the same under torch's own names ----------------------------------------------------------------------------------

def quantized_batch_norm(input, weight, bias, mean, var, eps, output_scale, output_zero_point):
    return _batch_norm_of_any(input, weight, bias, mean, var, eps, output_scale, output_zero_point)


def quantized_max_pool1d(input, kernel_size, stride=(), padding=0, dilation=1, ceil_mode=False):
    """`max_pool1d` of a quantized tensor, on its integers.

    >>> x = tede.quantize_per_tensor(tede.tensor([[[1.0, 3.0, 2.0, 0.0]]]), 1.0, 0, tede.quint8)
    >>> tede.quantized_max_pool1d(x, 2, 2).dequantize()
    tensor([[[3., 2.]]])
    """
    return _layer("max_pool1d")(input, kernel_size, stride or None, padding, dilation, ceil_mode)


def quantized_max_pool2d(input, kernel_size, stride=(), padding=0, dilation=1, ceil_mode=False):
    """`max_pool2d` of a quantized tensor, on its integers.

    >>> x = tede.quantize_per_tensor(tede.ones(1, 1, 4, 4), 1.0, 0, tede.quint8)
    >>> tede.quantized_max_pool2d(x, 2, 2).shape
    tede.Size([1, 1, 2, 2])
    """
    return _layer("max_pool2d")(input, kernel_size, stride or None, padding, dilation, ceil_mode)


def quantized_max_pool3d(input, kernel_size, stride=(), padding=0, dilation=1, ceil_mode=False):
    """`max_pool3d` of a quantized tensor, on its integers.

    >>> x = tede.quantize_per_tensor(tede.ones(1, 1, 4, 4, 4), 1.0, 0, tede.quint8)
    >>> tede.quantized_max_pool3d(x, 2, 2).shape
    tede.Size([1, 1, 2, 2, 2])
    """
    return _layer("max_pool3d")(input, kernel_size, stride or None, padding, dilation, ceil_mode)
