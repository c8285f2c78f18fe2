"""Weights of few bits for inference, with the names of torchao's `quantization`.

    tede.quantization.quantize_(model, tede.quantization.Int4WeightOnlyConfig(group_size=32))

The weights of the model's Linear layers become tensors of layout ``packed``; products with them read the packed bytes alone. Whatever
the configuration, activations are quantized to int8 on the way, each 32 neighbours with a scale: it adds an error of about half a
percent, which is less than that of the weights in all formats but int8's own kind. State dicts, `save` and `load` keep packed weights as
they are; `x.to_dense()` and `x.dequantize()` unpack one.

The names of torch.ao.quantization are here as well, as PyTorch has them: observers, `prepare`, `convert`, `quantize_dynamic`, ...
"""
import dataclasses

from tede import _C
from tede._compat import fill
from tede.ao import quantization as _ao
from tede.ao.quantization import *  # noqa: F403

__all__ = ["quantize_", "Int8WeightOnlyConfig", "Int4WeightOnlyConfig", "Int8DynamicActivationInt8WeightConfig", "GGUFConfig", "Q4_0Config",
           "Q8_0Config", "Q4_KConfig", "Q6_KConfig", "MXFP4Config", "is_packed"]
__all__ += _ao.__all__
__all__ += "WeightObserver _convert_ondevice_dynamic_jit _prepare_ondevice_dynamic_jit _quantize_ondevice_dynamic_jit".split()      # refused


class AOBaseConfig:
    """What `quantize_` is passed; `format` names blocks of `Tensor.to_packed`."""


@dataclasses.dataclass
class Int8WeightOnlyConfig(AOBaseConfig):
    """Signed bytes, with a scale for each row."""
    group_size: "int | None" = None

    def __post_init__(self):
        if self.group_size is not None:
            raise NotImplementedError(f"Int8WeightOnlyConfig: group_size={self.group_size}; int8 has a scale for each row (None), "
                                      "Q8_0Config() has one for each 32 elements")
        self.format = "int8"


@dataclasses.dataclass
class Int8DynamicActivationInt8WeightConfig(AOBaseConfig):
    """The same: activations are quantized on the way in any case."""

    def __post_init__(self):
        self.format = "int8"


@dataclasses.dataclass
class Int4WeightOnlyConfig(AOBaseConfig):
    """Four bits, with a scale and a zero point for each group of 32, 64 or 128 elements."""
    group_size: int = 128

    def __post_init__(self):
        if self.group_size not in (32, 64, 128):
            raise ValueError(f"Int4WeightOnlyConfig: group_size={self.group_size!r}: it is one of 32, 64 and 128")
        self.format = f"int4_g{self.group_size}"


@dataclasses.dataclass
class GGUFConfig(AOBaseConfig):
    """The blocks of a GGUF type: ``q4_0``, ``q8_0``, ``q4_k``, ``q6_k`` or ``mxfp4``, in any case of letters."""
    type: str = "q8_0"

    def __post_init__(self):
        self.format = self.type.lower()
        if self.format not in ("q4_0", "q8_0", "q4_k", "q6_k", "mxfp4"):
            raise ValueError(f"GGUFConfig: there is no type {self.type!r}: it is one of q4_0, q8_0, q4_k, q6_k and mxfp4")


def _of_type(name):
    config = type(name.upper() + "Config", (GGUFConfig,), {"__doc__": f"`GGUFConfig({name!r})`.", "__module__": __name__})
    config.__init__ = lambda self: GGUFConfig.__init__(self, name)
    return config


Q4_0Config, Q8_0Config, Q4_KConfig, Q6_KConfig, MXFP4Config = map(_of_type, ("q4_0", "q8_0", "q4_k", "q6_k", "mxfp4"))


def is_packed(x):
    """Whether x is a tensor of packed weights."""
    return isinstance(x, _C.Tensor) and x.layout is _C.packed


def quantize_(model, config, filter_fn=None, device=None):
    """Exchange the weights of Linear layers for packed ones, in place; `filter_fn(module, name)` chooses other layers.

    A weight whose rows aren't whole blocks of the format is an error that names the layer, raised before anything is changed. Weights
    that are packed already stay as they are.
    """
    from tede import nn
    if not isinstance(config, AOBaseConfig):
        raise TypeError(f"quantize_: config is a configuration such as Int8WeightOnlyConfig(), not {type(config).__name__}")
    if filter_fn is None:
        def filter_fn(module, name):
            return isinstance(module, nn.Linear)
    chosen = [(name, module) for name, module in model.named_modules() if filter_fn(module, name)]
    packed = {}                 # a weight that layers share stays shared
    for name, module in chosen:
        weight = module.weight
        if is_packed(weight) or id(weight) in packed:
            continue
        if device is not None:
            module.to(device)
            weight = module.weight
        try:
            blocks = weight.detach().to_packed(config.format)
        except ValueError as error:
            raise ValueError(f"quantize_: layer {name!r}: {error}") from None
        packed[id(module.weight)] = nn.Parameter(blocks, requires_grad=False)
    for _, module in chosen:
        if id(module.weight) in packed:
            module.weight = packed[id(module.weight)]


fill(globals())
