"""How layers that follow each other become one: by their classes."""
import itertools

from tede import nn
from tede.ao.nn import intrinsic as nni
from tede.nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval

from .utils import get_combined_dict

__all__ = ["fuse_conv_bn", "fuse_conv_bn_relu", "fuse_linear_bn", "fuse_convtranspose_bn", "get_fuser_method", "get_fuser_method_new"]

_BN = {nn.Conv1d: nni.ConvBn1d, nn.Conv2d: nni.ConvBn2d, nn.Conv3d: nni.ConvBn3d}
_BN_RELU = {nn.Conv1d: nni.ConvBnReLU1d, nn.Conv2d: nni.ConvBnReLU2d, nn.Conv3d: nni.ConvBnReLU3d}
_RELU = {nn.Conv1d: nni.ConvReLU1d, nn.Conv2d: nni.ConvReLU2d, nn.Conv3d: nni.ConvReLU3d}


def _check_modes(layer, bn):
    if layer.training != bn.training:
        raise AssertionError("Conv and BN both must be in the same mode (train or eval).")


def _check_fusible(conv, bn):
    if bn.num_features != conv.out_channels:
        raise AssertionError("Output channel of Conv2d must match num_features of BatchNorm2d")
    if not bn.affine:
        raise AssertionError("Only support fusing BatchNorm2d with affine set to True")
    if not bn.track_running_stats:
        raise AssertionError("Only support fusing BatchNorm2d with tracking_running_stats set to True")


def fuse_conv_bn(is_qat, conv, bn):
    """For training a pair, in evaluation one convolution."""
    _check_modes(conv, bn)
    if not is_qat:
        return fuse_conv_bn_eval(conv, bn)
    _check_fusible(conv, bn)
    if type(conv) not in _BN:
        raise NotImplementedError(f"Cannot fuse train modules: {(conv, bn)}")
    return _BN[type(conv)](conv, bn)


def fuse_conv_bn_relu(is_qat, conv, bn, relu):
    if not conv.training == bn.training == relu.training:
        raise AssertionError("Conv and BN both must be in the same mode (train or eval).")
    table = _BN_RELU if is_qat else _RELU
    if is_qat:
        _check_fusible(conv, bn)
    if type(conv) not in table:
        raise NotImplementedError(f"Cannot fuse {'train' if is_qat else 'eval'} modules: {(conv, bn, relu)}")
    return table[type(conv)](conv, bn, relu) if is_qat else table[type(conv)](fuse_conv_bn_eval(conv, bn), relu)


def fuse_linear_bn(is_qat, linear, bn):
    if linear.training != bn.training:
        raise AssertionError("Linear and BN both must be in the same mode (train or eval).")
    if not is_qat:
        return fuse_linear_bn_eval(linear, bn)
    if bn.num_features != linear.out_features:
        raise AssertionError("Output features of Linear must match num_features of BatchNorm1d")
    if not bn.affine:
        raise AssertionError("Only support fusing BatchNorm1d with affine set to True")
    if not bn.track_running_stats:
        raise AssertionError("Only support fusing BatchNorm1d with tracking_running_stats set to True")
    return nni.LinearBn1d(linear, bn)


def fuse_convtranspose_bn(is_qat, convt, bn):
    if convt.training != bn.training:
        raise AssertionError("ConvTranspose and BN both must be in the same mode (train or eval).")
    if is_qat:
        raise Exception("Fusing ConvTranspose+BatchNorm not yet supported in QAT.")
    return fuse_conv_bn_eval(convt, bn, transpose=True)


def _sequential_wrapper2(sequential):
    """A class of two layers as a way of fusing."""
    def fuser_method(is_qat, m1, m2):
        return sequential(m1, m2)
    return fuser_method


_DEFAULT_OP_LIST_TO_FUSER_METHOD = {
    **{(conv, bn): fuse_conv_bn for conv, bn in zip(_BN, (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d))},
    **{(conv, bn, nn.ReLU): fuse_conv_bn_relu for conv, bn in zip(_BN, (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d))},
    **{(conv, nn.ReLU): _sequential_wrapper2(made) for conv, made in _RELU.items()},
    (nn.Linear, nn.BatchNorm1d): fuse_linear_bn, (nn.Linear, nn.ReLU): _sequential_wrapper2(nni.LinearReLU),
    (nn.BatchNorm2d, nn.ReLU): _sequential_wrapper2(nni.BNReLU2d), (nn.BatchNorm3d, nn.ReLU): _sequential_wrapper2(nni.BNReLU3d),
    **{(conv, bn): fuse_convtranspose_bn for conv, bn in zip((nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d),
                                                             (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d))},
}


def get_fuser_method(op_list, additional_fuser_method_mapping=None):
    """The function that fuses layers of these classes."""
    found = get_combined_dict(_DEFAULT_OP_LIST_TO_FUSER_METHOD, additional_fuser_method_mapping or {}).get(op_list)
    if found is None:
        raise AssertionError(f"did not find fuser method for: {op_list} ")
    return found


def _reverse2(f):
    return lambda is_qat, x, y: f(is_qat, y, x)


def _reverse3(f):
    def reversed3(is_qat, x, w):
        y, z = w
        return f(is_qat, z, y, x)
    return reversed3


def _get_valid_patterns(op_pattern):
    """A pattern and those that it is a case of: each part may be any node."""
    if not isinstance(op_pattern, (tuple, list)):
        return [op_pattern]
    return list(itertools.product(*map(_get_valid_patterns, op_pattern)))


def get_fuser_method_new(op_pattern, fuser_method_mapping):
    for pattern in _get_valid_patterns(op_pattern):
        if fuser_method_mapping.get(pattern) is not None:
            return fuser_method_mapping[pattern]
    raise AssertionError(f"did not find fuser method for: {op_pattern} ")
