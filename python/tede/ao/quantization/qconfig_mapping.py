"""QConfigMapping: which qconfig is for which layers, by type, name or pattern of names."""
from collections import OrderedDict

import tede
from tede import nn
from tede.nn import functional as F

from .fake_quantize import FixedQParamsFakeQuantize, default_weight_fake_quant
from .observer import (
    default_fixed_qparams_range_0to1_observer,
    default_fixed_qparams_range_neg1to1_observer,
    default_placeholder_observer,
    default_weight_observer,
)
from .qconfig import (
    QConfig,
    default_quint8_weight_qconfig,
    default_reuse_input_qconfig,
    default_symmetric_qnnpack_qat_qconfig,
    default_symmetric_qnnpack_qconfig,
    get_default_qat_qconfig,
    get_default_qconfig,
)

__all__ = ["get_default_qconfig_mapping", "get_default_qat_qconfig_mapping", "QConfigMapping", "get_default_qconfig_dict", "get_default_qat_qconfig_dict"]

_GLOBAL_DICT_KEY, _OBJECT_TYPE_DICT_KEY, _MODULE_NAME_REGEX_DICT_KEY = "", "object_type", "module_name_regex"
_MODULE_NAME_DICT_KEY, _MODULE_NAME_OBJECT_TYPE_ORDER_DICT_KEY = "module_name", "module_name_object_type_order"
_zero_to_one, _around_zero = default_fixed_qparams_range_0to1_observer, default_fixed_qparams_range_neg1to1_observer
_FIXED_QPARAMS_OP_TO_OBSERVER = {
    nn.Hardsigmoid: _zero_to_one, F.hardsigmoid: _zero_to_one, "hardsigmoid": _zero_to_one, "hardsigmoid_": _zero_to_one,
    nn.Sigmoid: _zero_to_one, tede.sigmoid: _zero_to_one, "sigmoid": _zero_to_one, "sigmoid_": _zero_to_one, nn.Softmax: _zero_to_one,
    nn.Tanh: _around_zero, tede.tanh: _around_zero, "tanh": _around_zero, "tanh_": _around_zero}
_STYLES = ("global_qconfig", "object_type_qconfigs", "module_name_regex_qconfigs", "module_name_qconfigs",
           "module_name_object_type_order_qconfigs")


class QConfigMapping:
    """Each `set_` gives the mapping itself, so that they can be written one behind another. What is said later of narrower names wins."""

    def __init__(self):
        self.global_qconfig = None
        self.object_type_qconfigs, self.module_name_regex_qconfigs = OrderedDict(), OrderedDict()
        self.module_name_qconfigs, self.module_name_object_type_order_qconfigs = OrderedDict(), OrderedDict()

    def set_global(self, global_qconfig):
        self.global_qconfig = global_qconfig
        return self

    def set_object_type(self, object_type, qconfig):
        self.object_type_qconfigs[object_type] = qconfig
        return self

    def set_module_name_regex(self, module_name_regex, qconfig):
        self.module_name_regex_qconfigs[module_name_regex] = qconfig
        return self

    def set_module_name(self, module_name, qconfig):
        self.module_name_qconfigs[module_name] = qconfig
        return self

    def set_module_name_object_type_order(self, module_name, object_type, index, qconfig):
        self.module_name_object_type_order_qconfigs[module_name, object_type, index] = qconfig
        return self

    def __repr__(self):
        text = type(self).__name__ + " ("
        for style in _STYLES:
            value = getattr(self, style)
            text += f"\n {style}"
            if isinstance(value, OrderedDict) and value:
                text += "".join(f"\n  {name}: {qconfig}" for name, qconfig in value.items())
            else:
                text += f"\n  {value}"
        return text + "\n)"

    def to_dict(self):
        return {
            _GLOBAL_DICT_KEY: self.global_qconfig,
            _OBJECT_TYPE_DICT_KEY: list(self.object_type_qconfigs.items()),
            _MODULE_NAME_REGEX_DICT_KEY: list(self.module_name_regex_qconfigs.items()),
            _MODULE_NAME_DICT_KEY: list(self.module_name_qconfigs.items()),
            _MODULE_NAME_OBJECT_TYPE_ORDER_DICT_KEY: [(*key, qconfig) for key, qconfig in self.module_name_object_type_order_qconfigs.items()]}

    @classmethod
    def from_dict(cls, qconfig_dict):
        made = cls()
        if _GLOBAL_DICT_KEY in qconfig_dict:
            made.set_global(qconfig_dict[_GLOBAL_DICT_KEY])
        for key, place in ((_OBJECT_TYPE_DICT_KEY, made.set_object_type), (_MODULE_NAME_REGEX_DICT_KEY, made.set_module_name_regex),
                           (_MODULE_NAME_DICT_KEY, made.set_module_name),
                           (_MODULE_NAME_OBJECT_TYPE_ORDER_DICT_KEY, made.set_module_name_object_type_order)):
            for row in qconfig_dict.get(key, ()):
                place(*row)
        return made


def _get_default_qconfig_mapping_with_default_qconfig(is_qat, backend, default_qconfig):
    """One qconfig for all, but for layers with a fixed range or without weights by channel."""
    made = QConfigMapping().set_global(default_qconfig).set_object_type("reshape", default_reuse_input_qconfig)
    per_tensor = default_quint8_weight_qconfig
    weight = default_qconfig.weight             # FBGEMM's kernels have no transposed convolutions by channels
    if backend in ("fbgemm", "x86"):
        weight = default_weight_fake_quant if is_qat else default_weight_observer
    transposed = QConfig(default_qconfig.activation, weight)
    for kind in (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d, F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d):
        made.set_object_type(kind, transposed)
    for kind in (F.layer_norm, nn.LayerNorm):
        made.set_object_type(kind, QConfig(default_qconfig.activation, default_placeholder_observer))
    made.set_object_type(nn.PReLU, per_tensor)
    fixed = {}
    for kind, observer in _FIXED_QPARAMS_OP_TO_OBSERVER.items():
        if observer not in fixed:
            activation = FixedQParamsFakeQuantize.with_args(observer=observer) if is_qat else observer
            fixed[observer] = QConfig(activation, default_weight_fake_quant if is_qat else default_weight_observer)
        made.set_object_type(kind, fixed[observer])
    return made


def get_default_qconfig_mapping(backend="x86", version=0):
    return _get_default_qconfig_mapping_with_default_qconfig(False, backend, get_default_qconfig(backend, version))


def get_default_qat_qconfig_mapping(backend="x86", version=1):
    return _get_default_qconfig_mapping_with_default_qconfig(True, backend, get_default_qat_qconfig(backend, version))


def get_default_qconfig_dict(backend="x86", version=0):
    """Deprecated: get_default_qconfig_mapping."""
    return get_default_qconfig_mapping(backend, version).to_dict()


def get_default_qat_qconfig_dict(backend="x86", version=1):
    """Deprecated: get_default_qat_qconfig_mapping."""
    return get_default_qat_qconfig_mapping(backend, version).to_dict()


def _get_symmetric_qnnpack_qconfig_mapping():
    return _get_default_qconfig_mapping_with_default_qconfig(False, "qnnpack", default_symmetric_qnnpack_qconfig)


def _get_symmetric_qnnpack_qat_qconfig_mapping():
    return _get_default_qconfig_mapping_with_default_qconfig(True, "qnnpack", default_symmetric_qnnpack_qat_qconfig)


_QCONFIG_STYLE_ORDER = list(_STYLES)
