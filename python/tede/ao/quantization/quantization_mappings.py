"""Which class a layer becomes: with fake quantization, quantized, or with quantized weights alone."""
import copy

import tede
from tede import nn
from tede.ao.nn import intrinsic as nni
from tede.ao.nn import qat as nnqat
from tede.ao.nn import quantizable as nnqa
from tede.ao.nn import quantized as nnq
from tede.ao.nn.intrinsic import qat as nniqat
from tede.ao.nn.intrinsic import quantized as nniq
from tede.ao.nn.intrinsic.quantized import dynamic as nniqd
from tede.ao.nn.qat import dynamic as nnqatd
from tede.ao.nn.quantized import dynamic as nnqd
from tede.nn import functional as F
from tede.nn.modules.linear import NonDynamicallyQuantizableLinear
from tede.nn.utils.parametrize import type_before_parametrizations

from .fake_quantize import default_fixed_qparams_range_0to1_fake_quant, default_fixed_qparams_range_neg1to1_fake_quant
from .stubs import DeQuantStub, QuantStub
from .utils import get_combined_dict

__all__ = ["DEFAULT_STATIC_QUANT_MODULE_MAPPINGS", "DEFAULT_QAT_MODULE_MAPPINGS", "DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS",
           "DEFAULT_FLOAT_TO_QUANTIZED_OPERATOR_MAPPINGS", "DEFAULT_MODULE_TO_ACT_POST_PROCESS", "no_observer_set",
           "get_default_static_quant_module_mappings", "get_static_quant_module_class", "get_dynamic_quant_module_class",
           "get_default_qat_module_mappings", "get_embedding_qat_module_mappings", "get_default_dynamic_quant_module_mappings",
           "get_default_qconfig_propagation_list", "get_default_compare_output_module_list",
           "get_default_float_to_quantized_operator_mappings", "get_quantized_operator", "get_embedding_static_quant_module_mappings",
           "DEFAULT_DYNAMIC_SPARSE_QUANT_MODULE_MAPPINGS", "DEFAULT_STATIC_SPARSE_QUANT_MODULE_MAPPINGS",
           "get_default_dynamic_sparse_quant_module_mappings", "get_default_static_sparse_quant_module_mappings"]


def _of_names(names, here, there):
    """The classes of one module to those of the same names in another."""
    return {getattr(here, name): getattr(there, name) for name in names.split()}


DEFAULT_STATIC_QUANT_MODULE_MAPPINGS = {
    QuantStub: nnq.Quantize, DeQuantStub: nnq.DeQuantize,
    **_of_names("BatchNorm2d BatchNorm3d Dropout Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d ELU Embedding "
                "EmbeddingBag GroupNorm Hardswish InstanceNorm1d InstanceNorm2d InstanceNorm3d LayerNorm LeakyReLU", nn, nnq),
    NonDynamicallyQuantizableLinear: nnq.Linear, **_of_names("Linear ReLU6 PReLU", nn, nnq),
    nnq.FloatFunctional: nnq.QFunctional,
    **_of_names("BNReLU2d BNReLU3d ConvReLU1d ConvReLU2d ConvReLU3d ConvAdd2d ConvAddReLU2d LinearReLU LinearLeakyReLU LinearTanh", nni, nniq),
    nniqat.ConvBn1d: nnq.Conv1d, nniqat.ConvBn2d: nnq.Conv2d, nniqat.ConvBn3d: nnq.Conv3d,
    nniqat.ConvBnReLU1d: nniq.ConvReLU1d, nniqat.ConvBnReLU2d: nniq.ConvReLU2d, nniqat.ConvBnReLU3d: nniq.ConvReLU3d,
    nniqat.ConvReLU2d: nniq.ConvReLU2d, nniqat.ConvReLU3d: nniq.ConvReLU3d, nniqat.LinearReLU: nniq.LinearReLU, nniqat.LinearBn1d: nnq.Linear,
    nnqat.Linear: nnq.Linear, nnqat.Conv2d: nnq.Conv2d, nnqat.Conv3d: nnq.Conv3d,
}
DEFAULT_QAT_MODULE_MAPPINGS = {
    **_of_names("Conv2d Conv3d Linear", nn, nnqat), NonDynamicallyQuantizableLinear: nnqat.Linear,
    **_of_names("ConvBn1d ConvBn2d ConvBn3d ConvBnReLU1d ConvBnReLU2d ConvBnReLU3d ConvReLU2d ConvReLU3d LinearReLU LinearBn1d", nni, nniqat),
}
DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS = {
    nn.GRUCell: nnqd.GRUCell, nn.Linear: nnqd.Linear, nnqatd.Linear: nnqd.Linear, NonDynamicallyQuantizableLinear: nnqd.Linear,
    **_of_names("LSTM GRU LSTMCell RNNCell", nn, nnqd), nni.LinearReLU: nniqd.LinearReLU,
    nn.EmbeddingBag: nnq.EmbeddingBag, nn.Embedding: nnq.Embedding,
}
_INCLUDE_QCONFIG_PROPAGATE_LIST = {nn.Sequential}
DEFAULT_FLOAT_TO_QUANTIZED_OPERATOR_MAPPINGS = {getattr(F, name): getattr(tede.ops.quantized, name) for name in (
    "elu", "hardswish", "instance_norm", "layer_norm", "leaky_relu", "dropout")}
DEFAULT_MODULE_TO_ACT_POST_PROCESS = {
    nn.Hardsigmoid: default_fixed_qparams_range_0to1_fake_quant, nn.Sigmoid: default_fixed_qparams_range_0to1_fake_quant,
    nn.Softmax: default_fixed_qparams_range_0to1_fake_quant, nn.Tanh: default_fixed_qparams_range_neg1to1_fake_quant}
# Layers with sparse weights, and those of graphs, aren't here.
DEFAULT_STATIC_SPARSE_QUANT_MODULE_MAPPINGS, DEFAULT_DYNAMIC_SPARSE_QUANT_MODULE_MAPPINGS = {}, {}


def no_observer_set():
    """Classes behind which nothing is observed."""
    return {nnqa.LSTM, nnqa.MultiheadAttention}


def get_default_static_quant_module_mappings():
    return copy.deepcopy(DEFAULT_STATIC_QUANT_MODULE_MAPPINGS)


def get_embedding_static_quant_module_mappings():
    mapping = copy.deepcopy(DEFAULT_STATIC_QUANT_MODULE_MAPPINGS)
    mapping[nnqat.EmbeddingBag], mapping[nnqat.Embedding] = nnq.EmbeddingBag, nnq.Embedding
    return mapping


def get_default_qat_module_mappings():
    return copy.deepcopy(DEFAULT_QAT_MODULE_MAPPINGS)


def get_embedding_qat_module_mappings():
    mapping = copy.deepcopy(DEFAULT_QAT_MODULE_MAPPINGS)
    mapping[nn.EmbeddingBag], mapping[nn.Embedding] = nnqat.EmbeddingBag, nnqat.Embedding
    return mapping


def get_default_dynamic_quant_module_mappings():
    return DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS


def get_default_static_sparse_quant_module_mappings():
    return DEFAULT_STATIC_SPARSE_QUANT_MODULE_MAPPINGS


def get_default_dynamic_sparse_quant_module_mappings():
    return DEFAULT_DYNAMIC_SPARSE_QUANT_MODULE_MAPPINGS


def get_static_quant_module_class(float_module_class, additional_static_quant_mapping=None, is_reference=False):
    """The quantized class of a layer's."""
    if is_reference:
        raise NotImplementedError("get_static_quant_module_class: reference layers are of quantization by graphs, which isn't here")
    found = get_combined_dict(DEFAULT_STATIC_QUANT_MODULE_MAPPINGS, additional_static_quant_mapping or {}).get(float_module_class)
    if found is None:
        raise AssertionError(f"Floating point module class {float_module_class} does not have a corresponding quantized module class")
    return copy.deepcopy(found)


def get_dynamic_quant_module_class(float_module_class, additional_dynamic_quant_mapping=None):
    found = get_combined_dict(DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS, additional_dynamic_quant_mapping or {}).get(float_module_class)
    if found is None:
        raise AssertionError(f"Floating point module class {float_module_class} does not have a corresponding quantized module class")
    return copy.deepcopy(found)


def get_default_qconfig_propagation_list():
    """Classes of layers that are observed."""
    return copy.deepcopy(set(DEFAULT_STATIC_QUANT_MODULE_MAPPINGS) | set(DEFAULT_QAT_MODULE_MAPPINGS)
                         | set(DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS) | _INCLUDE_QCONFIG_PROPAGATE_LIST)


def get_default_compare_output_module_list():
    return copy.deepcopy({*DEFAULT_STATIC_QUANT_MODULE_MAPPINGS.values(), *DEFAULT_STATIC_QUANT_MODULE_MAPPINGS,
                          *DEFAULT_QAT_MODULE_MAPPINGS.values(), *DEFAULT_QAT_MODULE_MAPPINGS, *DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS.values(),
                          *DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS, *_INCLUDE_QCONFIG_PROPAGATE_LIST})


def get_default_float_to_quantized_operator_mappings():
    return copy.deepcopy(DEFAULT_FLOAT_TO_QUANTIZED_OPERATOR_MAPPINGS)


def get_quantized_operator(float_op):
    found = DEFAULT_FLOAT_TO_QUANTIZED_OPERATOR_MAPPINGS.get(float_op)
    if found is None:
        raise AssertionError(f"Operator {float_op} does not have corresponding quantized op")
    return found


def _get_special_act_post_process(module):
    return DEFAULT_MODULE_TO_ACT_POST_PROCESS.get(type_before_parametrizations(module))


def _has_special_act_post_process(module):
    return module.training and type(module) in DEFAULT_MODULE_TO_ACT_POST_PROCESS
