"""Biases of quantized layers, corrected by the mean error of what the layers give."""
from tede import nn
from tede.ao.nn import quantized as nnq
from tede.ao.ns import _numeric_suite as ns

__all__ = ["get_module", "parent_child_names", "get_param", "MeanShadowLogger", "bias_correction"]

_supported_modules = {nn.Linear, nn.Conv2d}
_supported_modules_quantized = {nnq.Linear, nnq.Conv2d}


def get_module(model, name):
    """The layer of a name."""
    return dict(model.named_modules())[name]


def parent_child_names(name):
    """The name of the module around a layer, and the layer's name in it."""
    parent, _, child = name.rpartition(".")
    return parent, child


def get_param(module, attr):
    """A parameter, which quantized layers have a method for."""
    found = getattr(module, attr, None)
    return found() if callable(found) else found


class MeanShadowLogger(ns.Logger):
    """Keeps the means of what a quantized layer and the float one give, over calls."""

    def __init__(self):
        super().__init__()
        self.clear()

    def clear(self):
        self.count, self.float_sum, self.quant_sum = 0, None, None
        self.stats["float"] = self.stats["quantized"] = None

    def forward(self, x, y):
        x, y = (one.dequantize() if one.is_quantized else one for one in map(ns._first, (x, y)))
        self.count += 1
        self.quant_sum = x if self.quant_sum is None else self.quant_sum + x
        self.float_sum = y if self.float_sum is None else self.float_sum + y
        self.stats["quantized"], self.stats["float"] = self.quant_sum / self.count, self.float_sum / self.count


def bias_correction(float_model, quantized_model, img_data, target_modules=_supported_modules_quantized, neval_batches=None):
    """Take off each quantized layer's bias by how much its results differ from the float layer's on the same numbers, in the mean.

    Layers are corrected one after another, as each changes what later ones are called with. `quantized_model` has a `Shadow` in place of
    each of these layers afterwards."""
    ns.prepare_model_with_stubs(float_model, quantized_model, _supported_modules, MeanShadowLogger)
    for name, layer in list(quantized_model.named_modules()):
        if type(layer) not in target_modules or get_param(layer, "bias") is None:
            continue
        for i, (data, *_) in enumerate(img_data):
            if neval_batches is not None and i >= neval_batches:
                break
            quantized_model(data)
        stats = ns.get_logger_dict(quantized_model)[parent_child_names(name)[0] + ".stats"]
        error = stats["quantized"] - stats["float"]
        channel = 1 if isinstance(layer, nnq.Conv2d) else error.dim() - 1
        mean = error.mean([dim for dim in range(error.dim()) if dim != channel])
        bias = get_param(layer, "bias").detach() - mean
        if isinstance(layer.bias, nn.Parameter):
            layer.bias.data = bias
        else:
            layer.set_weight_bias(get_param(layer, "weight"), bias)
        for module in quantized_model.modules():
            if isinstance(module, MeanShadowLogger):
                module.clear()
