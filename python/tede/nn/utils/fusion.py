"""Batch normalisation folded into the layer before it, for evaluation: a scale and a shift of its outputs."""
import copy

from .._native import T
from ..parameter import Parameter

__all__ = ["fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights"]


def _check(layer, bn):
    if layer.training or bn.training:
        raise AssertionError("Fusion only for eval!")
    if bn.running_mean is None or bn.running_var is None:
        raise AssertionError("bn.running_mean and bn.running_var must not be None")


def _fold(weight, bias, mean, scale, shift, shape):
    dtype = weight.dtype if bias is None else bias.dtype
    bias = T.zeros_like(mean) if bias is None else bias
    fused = (weight * scale.reshape(shape)).to(dtype=weight.dtype)
    return (Parameter(fused, weight.requires_grad),
            Parameter(((bias - mean) * scale + shift).to(dtype=dtype), bias.requires_grad))


def fuse_conv_bn_eval(conv, bn, transpose=False):
    """A copy of the convolution `conv` that gives what the batch norm `bn` makes of its outputs; both in evaluation
    (AssertionError).

        transpose: whether it is a transposed convolution.

    >>> conv, bn = nn.Conv2d(3, 4, 1).eval(), nn.BatchNorm2d(4).eval()
    >>> x = tede.randn(2, 3, 5, 5)
    >>> nn.utils.fuse_conv_bn_eval(conv, bn)(x).allclose(bn(conv(x)), atol=1e-6)
    True
    """
    _check(conv, bn)
    fused = copy.deepcopy(conv)
    fused.weight, fused.bias = fuse_conv_bn_weights(fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps,
                                                    bn.weight, bn.bias, transpose)
    return fused


def fuse_conv_bn_weights(conv_w, conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, transpose=False):
    """(weight, bias) of a convolution with the batch normalisation behind it.

        conv_w, conv_b: the convolution's.
        bn_rm, bn_rv, bn_eps, bn_w, bn_b: running mean and variance, eps, weight and bias of the batch norm; Nones are 1
            and 0.
        transpose: output channels are dimension 1 of conv_w.

    >>> one = tede.ones(4)
    >>> weight, bias = nn.utils.fuse_conv_bn_weights(tede.ones(4, 3, 1, 1), None, one, one, 0.0, 2 * one, one)
    >>> weight.mean().item(), bias
    (2.0, Parameter containing:
    tensor([-1., -1., -1., -1.]))
    """
    bn_w = T.ones_like(bn_rm) if bn_w is None else bn_w
    bn_b = T.zeros_like(bn_rm) if bn_b is None else bn_b
    shape = [1] * conv_w.dim()
    shape[1 if transpose else 0] = -1
    return _fold(conv_w, conv_b, bn_rm, bn_w * T.rsqrt(bn_rv + bn_eps), bn_b, shape)


def fuse_linear_bn_eval(linear, bn):
    """A copy of the linear layer `linear` that gives what the batch norm `bn` makes of its outputs; both in evaluation
    (AssertionError).

    >>> linear, bn = nn.Linear(3, 4).eval(), nn.BatchNorm1d(4).eval()
    >>> x = tede.randn(2, 3)
    >>> nn.utils.fuse_linear_bn_eval(linear, bn)(x).allclose(bn(linear(x)), atol=1e-6)
    True
    """
    if linear.out_features != bn.num_features and bn.num_features != 1:
        raise AssertionError("To fuse, linear.out_features == bn.num_features or bn.num_features == 1, got "
                             f"linear.out_features={linear.out_features} and bn.num_features={bn.num_features}")
    _check(linear, bn)
    fused = copy.deepcopy(linear)
    fused.weight, fused.bias = fuse_linear_bn_weights(fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps,
                                                      bn.weight, bn.bias)
    return fused


def fuse_linear_bn_weights(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b):
    """(weight, bias) of a linear layer with the batch normalisation behind it.

        linear_w, linear_b: the layer's.
        bn_rm, bn_rv, bn_eps, bn_w, bn_b: running mean and variance, eps, weight and bias of the batch norm.

    >>> one = tede.ones(4)
    >>> weight, bias = nn.utils.fuse_linear_bn_weights(tede.ones(4, 3), None, one, one, 0.0, 2 * one, one)
    >>> weight.mean().item(), bias
    (2.0, Parameter containing:
    tensor([-1., -1., -1., -1.]))
    """
    return _fold(linear_w, linear_b, bn_rm, bn_w * T.rsqrt(bn_rv + bn_eps), bn_b, [-1, 1])
