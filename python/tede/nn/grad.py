"""The gradients of convolutions with respect to input and weight, as functions."""
from ._native import T
from .modules.utils import _ntuple


def _gradient(dims, which):
    sizes = _ntuple(dims)

    def compute(first, second, grad_output, stride=1, padding=0, dilation=1, groups=1):
        if which:
            input, weight = first, grad_output.new_empty(1).expand(second)
        else:
            input, weight = grad_output.new_empty(1).expand(first), second
        return T.ops.aten.convolution_backward(
            grad_output, input, weight, None, sizes(stride), sizes(padding), sizes(dilation), False, [0] * dims, groups,
            [which == 0, which == 1, False])[which]

    takes = "(input, weight_size, grad_output, ...)" if which else "(input_size, weight, grad_output, ...)"
    compute.__name__ = compute.__qualname__ = f"conv{dims}d_{('input', 'weight')[which]}"
    compute.__doc__ = f"The gradient of conv{dims}d with respect to its {('input', 'weight')[which]}: {takes}."
    return compute


conv1d_input, conv1d_weight = _gradient(1, 0), _gradient(1, 1)
conv2d_input, conv2d_weight = _gradient(2, 0), _gradient(2, 1)
conv3d_input, conv3d_weight = _gradient(3, 0), _gradient(3, 1)
