"""QConfig: the constructors of a layer's observers, one for what it gives and one for its weight."""
import copy
from collections import namedtuple

import tede
from tede import nn

from .fake_quantize import (
    FakeQuantize,
    FakeQuantizeBase,
    FusedMovingAvgObsFakeQuantize,
    default_dynamic_fake_quant,
    default_embedding_fake_quant,
    default_embedding_fake_quant_4bit,
    default_fake_quant,
    default_fused_act_fake_quant,
    default_fused_per_channel_wt_fake_quant,
    default_fused_wt_fake_quant,
    default_per_channel_weight_fake_quant,
    default_weight_fake_quant,
    fused_per_channel_wt_fake_quant_range_neg_127_to_127,
    fused_wt_fake_quant_range_neg_127_to_127,
)
from .observer import (
    HistogramObserver,
    MinMaxObserver,
    MovingAverageMinMaxObserver,
    NoopObserver,
    PerChannelMinMaxObserver,
    PlaceholderObserver,
    ReuseInputObserver,
    _PartialWrapper,
    default_debug_observer,
    default_dynamic_quant_observer,
    default_float_qparams_observer,
    default_float_qparams_observer_4bit,
    default_observer,
    default_per_channel_weight_observer,
    default_placeholder_observer,
    default_reuse_input_observer,
    default_weight_observer,
    per_channel_weight_observer_range_neg_127_to_127,
    weight_observer_range_neg_127_to_127,
)
from .utils import device_of

__all__ = ["QConfig", "QConfigDynamic", "QConfigAny", "default_qconfig", "default_debug_qconfig", "default_per_channel_qconfig",
           "default_dynamic_qconfig", "float16_dynamic_qconfig", "float16_static_qconfig", "per_channel_dynamic_qconfig",
           "float_qparams_weight_only_qconfig", "float_qparams_weight_only_qconfig_4bit", "default_quint8_weight_qconfig",
           "default_qat_qconfig", "default_dynamic_qat_qconfig", "default_weight_only_qconfig", "default_activation_only_qconfig",
           "default_qat_qconfig_v2", "default_reuse_input_qconfig", "default_symmetric_qnnpack_qconfig",
           "default_per_channel_symmetric_qnnpack_qconfig", "default_symmetric_qnnpack_qat_qconfig",
           "default_per_channel_symmetric_qnnpack_qat_qconfig", "default_embedding_qat_qconfig", "default_embedding_qat_qconfig_4bit",
           "get_default_qconfig", "get_default_qat_qconfig", "qconfig_equals"]

_WANTED = "{name} received observer instance, please pass observer class instead. Use MyObserver.with_args(x=1) to override arguments to constructor if needed"


class QConfig(namedtuple("QConfig", ["activation", "weight"])):
    """QConfig(activation=MinMaxObserver, weight=default_weight_observer): classes or `with_args` of them, not observers."""
    __slots__ = ()

    def __new__(cls, activation, weight):
        if isinstance(activation, nn.Module) or isinstance(weight, nn.Module):
            raise ValueError(_WANTED.format(name="QConfig"))
        return super().__new__(cls, activation, weight)


class QConfigDynamic(namedtuple("QConfigDynamic", ["activation", "weight"])):
    """An older form of QConfig for weights alone."""
    __slots__ = ()

    def __new__(cls, activation=nn.Identity, weight=nn.Identity):
        if isinstance(weight, nn.Module):
            raise ValueError(_WANTED.format(name="QConfigDynamic"))
        return super().__new__(cls, activation, weight)


QConfigAny = QConfig | None

_float16 = PlaceholderObserver.with_args(dtype=tede.float16)
_qnnpack_observer = HistogramObserver.with_args(dtype=tede.qint8, reduce_range=False, eps=2**-12)
_qnnpack_fake_quant = FusedMovingAvgObsFakeQuantize.with_args(observer=MovingAverageMinMaxObserver, quant_min=-128, quant_max=127,
                                                              dtype=tede.qint8, reduce_range=False, eps=2**-12)
_unobserved = NoopObserver.with_args(dtype=tede.float32)

default_qconfig = QConfig(default_observer, default_weight_observer)
default_debug_qconfig = QConfig(default_debug_observer, default_weight_observer)
default_per_channel_qconfig = QConfig(default_observer, default_per_channel_weight_observer)
default_dynamic_qconfig = QConfig(default_dynamic_quant_observer, default_weight_observer)
float16_dynamic_qconfig = QConfig(PlaceholderObserver.with_args(dtype=tede.float16, is_dynamic=True), _float16)
float16_static_qconfig = QConfig(_float16, _float16)
per_channel_dynamic_qconfig = QConfig(default_dynamic_quant_observer, default_per_channel_weight_observer)
float_qparams_weight_only_qconfig = QConfig(default_placeholder_observer, default_float_qparams_observer)
float_qparams_weight_only_qconfig_4bit = QConfig(default_placeholder_observer, default_float_qparams_observer_4bit)
default_qat_qconfig = QConfig(default_fake_quant, default_weight_fake_quant)
default_dynamic_qat_qconfig = QConfig(default_dynamic_fake_quant, default_weight_fake_quant)
default_weight_only_qconfig = QConfig(nn.Identity, default_weight_fake_quant)
default_activation_only_qconfig = QConfig(default_fake_quant, nn.Identity)
default_qat_qconfig_v2 = QConfig(default_fused_act_fake_quant, default_fused_wt_fake_quant)
default_reuse_input_qconfig = QConfig(default_reuse_input_observer, NoopObserver)
default_symmetric_qnnpack_qconfig = QConfig(_qnnpack_observer, weight_observer_range_neg_127_to_127)
default_per_channel_symmetric_qnnpack_qconfig = QConfig(_qnnpack_observer, per_channel_weight_observer_range_neg_127_to_127)
default_symmetric_qnnpack_qat_qconfig = QConfig(_qnnpack_fake_quant, fused_wt_fake_quant_range_neg_127_to_127)
default_per_channel_symmetric_qnnpack_qat_qconfig = QConfig(_qnnpack_fake_quant, fused_per_channel_wt_fake_quant_range_neg_127_to_127)
default_embedding_qat_qconfig = QConfig(_unobserved, default_embedding_fake_quant)
default_embedding_qat_qconfig_4bit = QConfig(_unobserved, default_embedding_fake_quant_4bit)
default_quint8_weight_qconfig = QConfig(HistogramObserver, MinMaxObserver)
_default_fp32_placeholder_qconfig = QConfig(PlaceholderObserver.with_args(dtype=tede.float32), PlaceholderObserver.with_args(dtype=tede.float32))
_default_quint8_placeholder_qconfig = QConfig(PlaceholderObserver.with_args(dtype=tede.quint8), None)

_BACKENDS = ["fbgemm", "x86", "qnnpack", "onednn"]


def _check_backend(backend):
    if backend not in _BACKENDS:
        raise AssertionError(f"backend: {backend} not supported. backend must be one of {_BACKENDS}")


def get_default_qconfig(backend="x86", version=0):
    """The qconfig for quantization after training, by the library whose limits it keeps to."""
    _check_backend(backend)
    if version != 0:
        raise AssertionError(f"Version number: {version} in get_default_qconfig is not supported. Version number must be 0")
    weight = default_weight_observer if backend == "qnnpack" else default_per_channel_weight_observer
    return QConfig(HistogramObserver.with_args(reduce_range=backend in ("fbgemm", "x86")), weight)


def get_default_qat_qconfig(backend="x86", version=1):
    """The qconfig for training with quantization in mind. Version 1 observes and rounds in one operator."""
    _check_backend(backend)
    if version not in (0, 1):
        raise AssertionError(f"Version number: {version}in get_default_qat_qconfig is not supported. Version number must be 0 or 1")
    kind = FakeQuantize if version == 0 else FusedMovingAvgObsFakeQuantize
    reduced = {"fbgemm": {"reduce_range": True}, "x86": {"reduce_range": True}, "qnnpack": {"reduce_range": False}, "onednn": {}}[backend]
    activation = kind.with_args(observer=MovingAverageMinMaxObserver, quant_min=0, quant_max=255, **reduced)
    weights = ((default_weight_fake_quant, default_per_channel_weight_fake_quant) if version == 0 else
               (default_fused_wt_fake_quant, default_fused_per_channel_wt_fake_quant))
    return QConfig(activation, weights[backend != "qnnpack"])


def _assert_valid_qconfig(qconfig, mod):
    """That a transposed convolution doesn't get a weight observer by channels: its channels are dimension 1."""
    if qconfig is None or not isinstance(mod, (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)) or qconfig.weight is None:
        return
    if isinstance(qconfig.weight(), PerChannelMinMaxObserver):
        raise AssertionError("Per channel weight observer is not supported yet for ConvTranspose{n}d.")


def _on_device_of(constructor, module):
    """The constructor, whose observers are made on the module's device, if they can be."""
    def where():
        device = device_of(module)
        return None if device is None else {"device": device}
    try:
        constructor.with_args(factory_kwargs=None)()
        return constructor.with_callable_args(factory_kwargs=where)
    except (AttributeError, TypeError):
        return constructor


def _add_module_to_qconfig_obs_ctr(qconfig, module):
    if module is None or qconfig is None or qconfig._fields != ("activation", "weight"):
        return qconfig
    return QConfig(*(_on_device_of(constructor, module) for constructor in qconfig))


def _obs_or_fq_ctr_equals(obs_or_fq1, obs_or_fq2):
    if isinstance(obs_or_fq1, _PartialWrapper) and isinstance(obs_or_fq2, _PartialWrapper):
        return _partial_wrapper_equals(obs_or_fq1, obs_or_fq2)
    return obs_or_fq1 == obs_or_fq2


def _partial_wrapper_equals(obs_or_fq1, obs_or_fq2):
    """Whether two constructors make the same: of the observer within, too."""
    one, two = copy.copy(obs_or_fq1.p.keywords), copy.copy(obs_or_fq2.p.keywords)
    same = True
    if "observer" in one and "observer" in two:
        same = _obs_or_fq_ctr_equals(one.pop("observer"), two.pop("observer"))
    return same and obs_or_fq1.p.func == obs_or_fq2.p.func and obs_or_fq1.p.args == obs_or_fq2.p.args and one == two


def qconfig_equals(q1, q2):
    """Whether two qconfigs make the same observers."""
    if q1 is None or q2 is None:
        return q1 == q2
    try:
        return _obs_or_fq_ctr_equals(q1.activation, q2.activation) and _obs_or_fq_ctr_equals(q1.weight, q2.weight)
    except AttributeError:
        return q1 == q2


def _activation_is_memoryless(qconfig):
    """Whether only the last tensor counts, as where activations are quantized to the range that they have."""
    activation = qconfig.activation()
    if isinstance(activation, FakeQuantizeBase) and hasattr(activation, "activation_post_process"):
        activation = activation.activation_post_process
    return getattr(activation, "averaging_constant", None) == 1


def _is_reuse_input_qconfig(qconfig):
    return qconfig is not None and isinstance(qconfig.activation(), ReuseInputObserver) and isinstance(qconfig.weight(), NoopObserver)
