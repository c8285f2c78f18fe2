"""Convolutions whose weights go through fake quantization."""
from tede import nn
from tede.ao.nn.intrinsic.modules.fused import _FusedModule
from tede.ao.nn.quantized.modules.utils import tuple_of

__all__ = ["Conv1d", "Conv2d", "Conv3d"]


class _ConvNd(nn.modules.conv._ConvNd):
    _FLOAT_MODULE = nn.modules.conv._ConvNd
    _dims = 0

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=True, padding_mode="zeros",
                 qconfig=None, device=None, dtype=None):
        n = self._dims
        super().__init__(in_channels, out_channels, tuple_of(n, kernel_size), stride=tuple_of(n, stride),
                         padding=padding if isinstance(padding, str) else tuple_of(n, padding), dilation=tuple_of(n, dilation), groups=groups,
                         bias=bias, padding_mode=padding_mode, device=device, dtype=dtype)
        if not qconfig:
            raise AssertionError("qconfig must be provided for QAT module")
        self.qconfig = qconfig
        self.weight_fake_quant = qconfig.weight(factory_kwargs={"device": device, "dtype": dtype})

    def forward(self, input):
        return self._conv_forward(input, self.weight_fake_quant(self.weight), self.bias)

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """Of a float layer with a qconfig, or one in a ConvReLU; it keeps the parameters."""
        if type(mod) is not cls._FLOAT_MODULE:
            raise AssertionError(f"qat.{cls.__name__}.from_float only works for {cls._FLOAT_MODULE.__name__}")
        if not getattr(mod, "qconfig", None):
            raise AssertionError("Input float module must have a valid qconfig")
        qconfig = mod.qconfig
        if issubclass(type(mod), _FusedModule):
            mod = mod[0]
        made = cls(mod.in_channels, mod.out_channels, mod.kernel_size, stride=mod.stride, padding=mod.padding, dilation=mod.dilation,
                   groups=mod.groups, bias=mod.bias is not None, padding_mode=mod.padding_mode, qconfig=qconfig)
        made.weight, made.bias = mod.weight, mod.bias
        return made

    def to_float(self):
        """The float layer again: with a batch norm and a ReLU, if they were beside it."""
        kind = getattr(nn, f"Conv{self._dims}d")
        made = kind(self.in_channels, self.out_channels, self.kernel_size, self.stride, self.padding, self.dilation, self.groups,
                    self.bias is not None, self.padding_mode)
        made.weight = nn.Parameter(self.weight.detach())
        if self.bias is not None:
            made.bias = nn.Parameter(self.bias.detach())
        made.train(self.training)
        return made


class Conv1d(_ConvNd, nn.Conv1d):
    _FLOAT_MODULE = nn.Conv1d
    _dims = 1


class Conv2d(_ConvNd, nn.Conv2d):
    _FLOAT_MODULE = nn.Conv2d
    _dims = 2


class Conv3d(_ConvNd, nn.Conv3d):
    _FLOAT_MODULE = nn.Conv3d
    _dims = 3
