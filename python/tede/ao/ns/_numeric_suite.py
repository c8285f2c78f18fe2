"""Comparison of a float model with its quantized form: weights, results of layers on the same data, and layers beside each other.

Layers correspond by their names. A layer of a fused one ("conv.0") and packed weights within one ("fc._packed_params") go by the name of
the layer around them."""
import tede
from tede import nn
from tede.ao.nn import quantized as nnq
from tede.ao.nn.quantized import dynamic as nnqd
from tede.ao.quantization import QConfig, prepare
from tede.ao.quantization.quantization_mappings import get_default_compare_output_module_list

# Layers of layers whose own results are recorded.
NON_LEAF_MODULE_TO_ADD_OBSERVER_ALLOW_LIST = {nnqd.Linear, nnq.Linear, nnqd.LSTM, nn.LSTM}


def _find_match(str_list, key_str, postfix):
    """The name in the list whose layer, or the one around it, is that of `key_str`; None where the key doesn't end with `postfix`."""
    *path, last = key_str.split(".")
    if last != postfix:
        return None
    wanted = [path] if postfix != "_packed_params" else [path, path[:-1]] if len(path) > 1 else [path]
    for path in wanted:
        for other in str_list:
            if path in (other.split(".")[:-1], other.split(".")[:-2]):
                return other
    return None


def _recurrent_weights(key, float_dict, packed):
    """The weights of a layer of an LSTM that go with the hidden state: of the float one and of the packed parameters; None if it isn't one."""
    *module, where, layer, last = ["", "", *key.split(".")]
    name = ".".join(part for part in module if part) + f".weight_hh_l{layer}"
    if last != "param" or where != "_all_weight_values" or name not in float_dict:
        return None
    _, hidden = packed.__getstate__()[0][4]
    return float_dict[name], hidden.__getstate__()[0][0]


def compare_weights(float_dict, quantized_dict):
    """{name in the quantized model's state dict: {"float": weight, "quantized": weight}}."""
    found = {}
    for key, value in quantized_dict.items():
        pair = None
        match = _find_match(float_dict, key, "weight")
        packed = _find_match(float_dict, key, "_packed_params")
        if match is not None:
            pair = float_dict[match], value
        elif packed is not None:
            pair = float_dict[packed], value[0]
        elif key.endswith(".param"):
            pair = _recurrent_weights(key, float_dict, value)
        if pair is not None:
            found[key] = dict(zip(("float", "quantized"), pair))
    return found


# ---- what layers give ------------------------------------------------------------------------------------------------

class Logger(nn.Module):
    """Keeps in `stats` what it is called with."""

    def __init__(self):
        super().__init__()
        self.stats = {}
        self.dtype = tede.quint8        # as an observer has one: a qconfig makes loggers

    def forward(self, x):
        raise NotImplementedError(f"{type(self).__name__} has to define forward")


def _first(x):
    """The result of a layer; the first of several."""
    return x[0] if isinstance(x, (tuple, list)) else x


class ShadowLogger(Logger):
    """Keeps pairs of results, of a quantized layer and of the float one."""

    def __init__(self):
        super().__init__()
        self.stats["float"], self.stats["quantized"] = [], []

    def forward(self, x, y):
        self.stats["quantized"].append(_first(x).detach())
        self.stats["float"].append(_first(y).detach())


class OutputLogger(Logger):
    """Keeps a layer's results."""

    def __init__(self):
        super().__init__()
        self.stats["tensor_val"] = []

    def forward(self, x):
        self.stats["tensor_val"].append(x)
        return x


def _dequantized(x):
    if isinstance(x, (tuple, list)):
        return type(x)(map(_dequantized, x))
    return x.dequantize() if isinstance(x, tede.Tensor) and x.is_quantized else x


class Shadow(nn.Module):
    """A quantized layer with the float one beside it, which is called with the same numbers; the logger gets both results."""

    def __init__(self, q_module, float_module, logger_cls):
        super().__init__()
        self.orig_module, self.shadow_module = q_module, float_module
        self.dequant, self.logger = nnq.DeQuantize(), logger_cls()

    def _both(self, name, *args):
        output = getattr(self.orig_module, name)(*args)
        self.logger(output, getattr(self.shadow_module, name)(*map(_dequantized, args)))
        return output

    def forward(self, *x):
        return self._both("forward" if not hasattr(self.orig_module, "_forward_hooks") else "__call__", *x)

    def add(self, x, y):
        return self._both("add", x, y)

    def add_scalar(self, x, y):
        return self._both("add_scalar", x, y)

    def mul(self, x, y):
        return self._both("mul", x, y)

    def mul_scalar(self, x, y):
        return self._both("mul_scalar", x, y)

    def cat(self, x, dim=0):
        return self._both("cat", x, dim)

    def add_relu(self, x, y):
        return self._both("add_relu", x, y)


def get_logger_dict(mod, prefix=""):
    """{name of a layer that has a logger + ".stats": what it has kept}."""
    found = {}
    for name, module in mod.named_modules(prefix=prefix):
        logger = next((child for child in module.children() if isinstance(child, Logger)), None)
        if logger is not None:
            found[f"{name}.stats" if name else "stats"] = logger.stats
    return found


def _of_the_same_kinds(a, b):
    return list(map(type, a.modules())) == list(map(type, b.modules()))


def prepare_model_with_stubs(float_module, q_module, module_swap_list, logger_cls):
    """Put a `Shadow` in place of each quantized layer whose float one is of a class of the list, in `q_module` itself."""
    children = dict(float_module.named_children())
    for name, layer in list(q_module.named_children()):
        other = children.get(name)
        if other is None:
            continue
        if type(other) not in module_swap_list:
            prepare_model_with_stubs(other, layer, module_swap_list, logger_cls)
        elif not _of_the_same_kinds(layer, other):
            q_module._modules[name] = Shadow(layer, other, logger_cls)


def compare_model_stub(float_model, q_model, module_swap_list, *data, logger_cls=ShadowLogger):
    """{layer's name + ".stats": {"float": results, "quantized": results}} of layers that get the same numbers, those within `q_model`.

    `q_model` is changed: see `prepare_model_with_stubs`."""
    prepare_model_with_stubs(float_model, q_model, module_swap_list, logger_cls)
    q_model(*data)
    return get_logger_dict(q_model)


def get_matching_activations(float_module, q_module):
    """{layer's name + ".stats": {"float": results, "quantized": results}} of two models with loggers that have run."""
    of_float, found = get_logger_dict(float_module), {}
    for key, stats in get_logger_dict(q_module).items():
        if not stats["tensor_val"]:
            continue
        match = _find_match(sorted(of_float, reverse=True), key, "stats")
        if match is not None:
            found[key] = {"float": of_float[match]["tensor_val"], "quantized": stats["tensor_val"]}
    return found


def prepare_model_outputs(float_module, q_module, logger_cls=OutputLogger, allow_list=None):
    """Put loggers behind the layers of both models, of the classes of `allow_list`."""
    allow_list = get_default_compare_output_module_list() if allow_list is None else allow_list
    for module, non_leaf in ((float_module, None), (q_module, NON_LEAF_MODULE_TO_ADD_OBSERVER_ALLOW_LIST)):
        module.qconfig = QConfig(activation=logger_cls, weight=None)
        prepare(module, inplace=True, allow_list=allow_list, observer_non_leaf_module_list=non_leaf, prepare_custom_config_dict={})


def compare_model_outputs(float_model, q_model, *data, logger_cls=OutputLogger, allow_list=None):
    """{layer's name + ".stats": {"float": results, "quantized": results}} of both models on the same data."""
    prepare_model_outputs(float_model, q_model, logger_cls, allow_list)
    float_model(*data)
    q_model(*data)
    return get_matching_activations(float_model, q_model)
