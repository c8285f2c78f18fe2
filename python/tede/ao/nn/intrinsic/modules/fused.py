"""Layers in one: a Sequential whose class says which they are, so that they are quantized together."""
from tede import nn
from tede.nn.utils.parametrize import type_before_parametrizations

__all__ = ["ConvReLU1d", "ConvReLU2d", "ConvReLU3d", "LinearReLU", "ConvBn1d", "ConvBn2d", "ConvBnReLU1d", "ConvBnReLU2d", "ConvBn3d",
           "ConvBnReLU3d", "BNReLU2d", "BNReLU3d", "LinearBn1d", "LinearLeakyReLU", "LinearTanh", "ConvAdd2d", "ConvAddReLU2d"]


class _FusedModule(nn.Sequential):
    """What is observed and exchanged as a whole."""


def _check(*pairs):
    for module, kind in pairs:
        if type_before_parametrizations(module) is not kind:
            raise AssertionError(f"Incorrect types for input modules: {', '.join(str(type_before_parametrizations(m)) for m, _ in pairs)}; "
                                 f"expected {', '.join(k.__name__ for _, k in pairs)}")


class ConvReLU1d(_FusedModule):
    def __init__(self, conv, relu):
        _check((conv, nn.Conv1d), (relu, nn.ReLU))
        super().__init__(conv, relu)


class ConvReLU2d(_FusedModule):
    def __init__(self, conv, relu):
        _check((conv, nn.Conv2d), (relu, nn.ReLU))
        super().__init__(conv, relu)


class ConvReLU3d(_FusedModule):
    def __init__(self, conv, relu):
        _check((conv, nn.Conv3d), (relu, nn.ReLU))
        super().__init__(conv, relu)


class LinearReLU(_FusedModule):
    def __init__(self, linear, relu):
        if not isinstance(linear, nn.Linear):
            raise AssertionError(f"Incorrect types for input modules: {type(linear)}; expected Linear and ReLU")
        _check((relu, nn.ReLU))
        super().__init__(linear, relu)


class ConvBn1d(_FusedModule):
    def __init__(self, conv, bn):
        _check((conv, nn.Conv1d), (bn, nn.BatchNorm1d))
        super().__init__(conv, bn)


class ConvBn2d(_FusedModule):
    def __init__(self, conv, bn):
        _check((conv, nn.Conv2d), (bn, nn.BatchNorm2d))
        super().__init__(conv, bn)


class ConvBn3d(_FusedModule):
    def __init__(self, conv, bn):
        _check((conv, nn.Conv3d), (bn, nn.BatchNorm3d))
        super().__init__(conv, bn)


class ConvBnReLU1d(_FusedModule):
    def __init__(self, conv, bn, relu):
        _check((conv, nn.Conv1d), (bn, nn.BatchNorm1d), (relu, nn.ReLU))
        super().__init__(conv, bn, relu)


class ConvBnReLU2d(_FusedModule):
    def __init__(self, conv, bn, relu):
        _check((conv, nn.Conv2d), (bn, nn.BatchNorm2d), (relu, nn.ReLU))
        super().__init__(conv, bn, relu)


class ConvBnReLU3d(_FusedModule):
    def __init__(self, conv, bn, relu):
        _check((conv, nn.Conv3d), (bn, nn.BatchNorm3d), (relu, nn.ReLU))
        super().__init__(conv, bn, relu)


class BNReLU2d(_FusedModule):
    def __init__(self, batch_norm, relu):
        _check((batch_norm, nn.BatchNorm2d), (relu, nn.ReLU))
        super().__init__(batch_norm, relu)


class BNReLU3d(_FusedModule):
    def __init__(self, batch_norm, relu):
        _check((batch_norm, nn.BatchNorm3d), (relu, nn.ReLU))
        super().__init__(batch_norm, relu)


class LinearBn1d(_FusedModule):
    def __init__(self, linear, bn):
        _check((linear, nn.Linear), (bn, nn.BatchNorm1d))
        super().__init__(linear, bn)


class LinearLeakyReLU(_FusedModule):
    def __init__(self, linear, leaky_relu):
        _check((linear, nn.Linear), (leaky_relu, nn.LeakyReLU))
        super().__init__(linear, leaky_relu)


class LinearTanh(_FusedModule):
    def __init__(self, linear, tanh):
        _check((linear, nn.Linear), (tanh, nn.Tanh))
        super().__init__(linear, tanh)


class ConvAdd2d(_FusedModule):
    """A convolution, to whose result a second input is added."""

    def __init__(self, conv, add):
        super().__init__(conv)
        self.add = add

    def forward(self, x1, x2):
        return self.add(self[0](x1), x2)


class ConvAddReLU2d(_FusedModule):
    def __init__(self, conv, add, relu):
        super().__init__(conv)
        self.add, self.relu = add, relu

    def forward(self, x1, x2):
        return self.relu(self.add(self[0](x1), x2))
