"""Fake quantization: numbers are rounded as quantization would round them, and stay floats, so that training gets used to it.

A module of it has an observer, which finds the range, and two switches, as buffers: whether it observes, and whether it rounds."""
from abc import ABC, abstractmethod

import tede
from tede import nn

from .observer import (
    HistogramObserver,
    MovingAverageMinMaxObserver,
    MovingAveragePerChannelMinMaxObserver,
    _with_args,
    default_fixed_qparams_range_0to1_observer,
    default_fixed_qparams_range_neg1to1_observer,
)
from .utils import is_per_channel as _is_per_channel
from .utils import is_per_tensor as _is_per_tensor
from .utils import is_symmetric as _is_symmetric_quant
from .utils import range_of

__all__ = ["FakeQuantizeBase", "FakeQuantize", "FixedQParamsFakeQuantize", "FusedMovingAvgObsFakeQuantize", "disable_fake_quant",
           "disable_observer", "enable_fake_quant", "enable_observer", "default_fake_quant", "default_weight_fake_quant",
           "default_dynamic_fake_quant", "default_fixed_qparams_range_neg1to1_fake_quant", "default_fixed_qparams_range_0to1_fake_quant",
           "default_symmetric_fixed_qparams_fake_quant", "default_affine_fixed_qparams_fake_quant", "default_per_channel_weight_fake_quant",
           "default_embedding_fake_quant", "default_embedding_fake_quant_4bit", "default_histogram_fake_quant", "default_fused_act_fake_quant",
           "default_fused_wt_fake_quant", "default_fused_per_channel_wt_fake_quant", "fused_wt_fake_quant_range_neg_127_to_127",
           "fused_per_channel_wt_fake_quant_range_neg_127_to_127"]


def _is_float_qparams(qscheme):
    return qscheme is tede.per_channel_affine_float_qparams


class FakeQuantizeBase(ABC, nn.Module):
    """The switches of fake quantization."""
    _observes = True
    fake_quant_enabled: tede.Tensor
    observer_enabled: tede.Tensor

    def __init__(self):
        super().__init__()
        # Buffers of bytes, as all processes of a distributed training have them alike.
        self.register_buffer("fake_quant_enabled", tede.tensor([1], dtype=tede.uint8))
        self.register_buffer("observer_enabled", tede.tensor([1], dtype=tede.uint8))

    @abstractmethod
    def forward(self, x):
        pass

    @abstractmethod
    def calculate_qparams(self, **kwargs):
        pass

    def enable_fake_quant(self, enabled=True):
        self.fake_quant_enabled[0] = 1 if enabled else 0

    def disable_fake_quant(self):
        self.enable_fake_quant(False)

    def enable_observer(self, enabled=True):
        self.observer_enabled[0] = 1 if enabled else 0

    def disable_observer(self):
        self.enable_observer(False)

    with_args = classmethod(_with_args)


def _dtype_of(observer, kwargs):
    dtype = kwargs.get("dtype", tede.quint8)
    return getattr(getattr(observer, "p", None), "keywords", {}).get("dtype", dtype) if hasattr(observer, "p") else dtype


class FakeQuantize(FakeQuantizeBase):
    """``(clamp(round(x / scale + zero_point), quant_min, quant_max) - zero_point) * scale`` with the scale that `observer` finds."""
    scale: tede.Tensor
    zero_point: tede.Tensor

    def __init__(self, observer=MovingAverageMinMaxObserver, quant_min=None, quant_max=None, is_dynamic=False, **observer_kwargs):
        super().__init__()
        if quant_min is not None and quant_max is not None:
            if quant_min > quant_max:
                raise AssertionError("quant_min must be less than or equal to quant_max")
            least, most = range_of(_dtype_of(observer, observer_kwargs))
            if quant_min < least:
                raise AssertionError("quant_min out of bound")
            if quant_max > most:
                raise AssertionError("quant_max out of bound")
            observer_kwargs.update(quant_min=quant_min, quant_max=quant_max)
        observer_kwargs["is_dynamic"] = is_dynamic
        self.activation_post_process = observer(**observer_kwargs)
        inner = self.activation_post_process
        self.quant_min, self.quant_max, self.is_dynamic = inner.quant_min, inner.quant_max, inner.is_dynamic
        zero = tede.float if _is_float_qparams(inner.qscheme) else tede.int
        self.register_buffer("scale", tede.tensor([1.0], dtype=tede.float))
        self.register_buffer("zero_point", tede.tensor([0], dtype=zero))
        self.dtype, self.qscheme = inner.dtype, inner.qscheme
        self.ch_axis = getattr(inner, "ch_axis", -1)
        if not (_is_per_channel(self.qscheme) or _is_per_tensor(self.qscheme)):
            raise AssertionError("Only per channel and per tensor quantization are supported in fake quantize got qscheme: " + str(self.qscheme))
        self.is_per_channel = _is_per_channel(self.qscheme)

    def calculate_qparams(self):
        return self.activation_post_process.calculate_qparams()

    def forward(self, X):
        if self.observer_enabled[0] == 1:
            self.activation_post_process(X.detach())
            scale, zero_point = self.calculate_qparams()
            scale, zero_point = scale.to(self.scale.device), zero_point.to(self.zero_point.device)
            if self.scale.shape != scale.shape:
                self.scale.resize_(scale.shape)
                self.zero_point.resize_(zero_point.shape)
            self.scale.copy_(scale)
            self.zero_point.copy_(zero_point)
        if self.fake_quant_enabled[0] != 1:
            return X
        if self.is_per_channel:
            return tede.fake_quantize_per_channel_affine(X, self.scale, self.zero_point, self.ch_axis, self.quant_min, self.quant_max)
        return tede.fake_quantize_per_tensor_affine(X, self.scale, self.zero_point, self.quant_min, self.quant_max)

    def extra_repr(self):
        return (f"fake_quant_enabled={self.fake_quant_enabled}, observer_enabled={self.observer_enabled}, quant_min={self.quant_min}, "
                f"quant_max={self.quant_max}, dtype={self.dtype}, qscheme={self.qscheme}, ch_axis={self.ch_axis}, scale={self.scale}, "
                f"zero_point={self.zero_point}")

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs):
        """The buffers take the sizes of what is loaded."""
        for name in ("scale", "zero_point"):
            if prefix + name in state_dict:
                getattr(self, name).resize_(state_dict[prefix + name].shape)
            elif strict:
                missing_keys.append(prefix + name)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, False, missing_keys, unexpected_keys, error_msgs)


class FixedQParamsFakeQuantize(FakeQuantize):
    """Fake quantization with a scale and a zero point that are known beforehand."""

    def __init__(self, observer):
        super().__init__(observer=observer)
        if type(self.activation_post_process).__name__ != "FixedQParamsObserver":
            raise AssertionError(f"{type(self).__name__}'s observer must be a FixedQParamsObserver, but got {type(self.activation_post_process)}")
        self._observer_ctr = observer
        self.scale, self.zero_point = self.activation_post_process.scale, self.activation_post_process.zero_point
        if not _is_per_tensor(self.qscheme):
            raise AssertionError("Only per tensor quantization is supported FixedQParamsFakeQuantize module, got qscheme:" + str(self.qscheme))

    def calculate_qparams(self):
        return self.scale, self.zero_point

    def extra_repr(self):
        return (f"fake_quant_enabled={self.fake_quant_enabled}, observer_enabled={self.observer_enabled}, scale={self.scale}, "
                f"zero_point={self.zero_point}, dtype={self.dtype}, quant_min={self.activation_post_process.quant_min}, "
                f"quant_max={self.activation_post_process.quant_max}, qscheme={self.qscheme}")


class FusedMovingAvgObsFakeQuantize(FakeQuantize):
    """Observes with a moving average and rounds, in one operator."""

    def __init__(self, observer=MovingAverageMinMaxObserver, quant_min=0, quant_max=255, **observer_kwargs):
        super().__init__(observer, quant_min, quant_max, **observer_kwargs)
        if not isinstance(self.activation_post_process, (MovingAverageMinMaxObserver, MovingAveragePerChannelMinMaxObserver)):
            raise AssertionError("Fused observer+fake_quant module only works with MovingAverageMinMaxObserver")
        self.register_buffer("fake_quant_enabled", tede.tensor([1], dtype=tede.long))
        self.register_buffer("observer_enabled", tede.tensor([1], dtype=tede.long))
        self.is_symmetric_quant = _is_symmetric_quant(self.activation_post_process.qscheme)

    def calculate_qparams(self):
        return self.activation_post_process.calculate_qparams()

    def extra_repr(self):
        return (f"fake_quant_enabled={self.fake_quant_enabled}, observer_enabled={self.observer_enabled}, scale={self.scale}, "
                f"zero_point={self.zero_point}, dtype={self.dtype}, quant_min={self.activation_post_process.quant_min}, "
                f"quant_max={self.activation_post_process.quant_max}, qscheme={self.qscheme}, "
                f"reduce_range={self.activation_post_process.reduce_range}")

    def forward(self, X):
        inner = self.activation_post_process
        return tede.fused_moving_avg_obs_fake_quant(X, self.observer_enabled, self.fake_quant_enabled, inner.min_val, inner.max_val, self.scale,
                                                    self.zero_point, inner.averaging_constant, inner.quant_min, inner.quant_max, self.ch_axis,
                                                    self.is_per_channel, self.is_symmetric_quant)


# ---- what qconfigs are made of ---------------------------------------------------------------------------------------

default_fake_quant = FakeQuantize.with_args(observer=MovingAverageMinMaxObserver, quant_min=0, quant_max=255, dtype=tede.quint8,
                                            qscheme=tede.per_tensor_affine, reduce_range=True)
default_weight_fake_quant = FakeQuantize.with_args(observer=MovingAverageMinMaxObserver, quant_min=-128, quant_max=127, dtype=tede.qint8,
                                                   qscheme=tede.per_tensor_symmetric, reduce_range=False)
default_dynamic_fake_quant = FakeQuantize.with_args(observer=MovingAverageMinMaxObserver, quant_min=0, quant_max=255, is_dynamic=True,
                                                    dtype=tede.quint8, averaging_constant=1)
default_fixed_qparams_range_neg1to1_fake_quant = FixedQParamsFakeQuantize.with_args(observer=default_fixed_qparams_range_neg1to1_observer)
default_fixed_qparams_range_0to1_fake_quant = FixedQParamsFakeQuantize.with_args(observer=default_fixed_qparams_range_0to1_observer)
default_symmetric_fixed_qparams_fake_quant = default_fixed_qparams_range_neg1to1_fake_quant
default_affine_fixed_qparams_fake_quant = default_fixed_qparams_range_0to1_fake_quant
default_per_channel_weight_fake_quant = FakeQuantize.with_args(
    observer=MovingAveragePerChannelMinMaxObserver, quant_min=-128, quant_max=127, dtype=tede.qint8, qscheme=tede.per_channel_symmetric,
    reduce_range=False, ch_axis=0)
default_embedding_fake_quant = FakeQuantize.with_args(
    observer=MovingAveragePerChannelMinMaxObserver, qscheme=tede.per_channel_affine_float_qparams, dtype=tede.quint8, quant_min=0,
    quant_max=255, ch_axis=0, averaging_constant=1)
default_embedding_fake_quant_4bit = FakeQuantize.with_args(
    observer=MovingAveragePerChannelMinMaxObserver, qscheme=tede.per_channel_affine_float_qparams, ch_axis=0, dtype=tede.quint4x2,
    averaging_constant=1)
default_histogram_fake_quant = FakeQuantize.with_args(observer=HistogramObserver, quant_min=0, quant_max=255, dtype=tede.quint8,
                                                      qscheme=tede.per_tensor_affine, reduce_range=True)
default_fused_act_fake_quant = FusedMovingAvgObsFakeQuantize.with_args(observer=MovingAverageMinMaxObserver, quant_min=0, quant_max=255,
                                                                       dtype=tede.quint8)
default_fused_wt_fake_quant = FusedMovingAvgObsFakeQuantize.with_args(
    observer=MovingAverageMinMaxObserver, quant_min=-128, quant_max=127, dtype=tede.qint8, qscheme=tede.per_tensor_symmetric)
default_fused_per_channel_wt_fake_quant = FusedMovingAvgObsFakeQuantize.with_args(
    observer=MovingAveragePerChannelMinMaxObserver, quant_min=-128, quant_max=127, dtype=tede.qint8, qscheme=tede.per_channel_symmetric)
fused_wt_fake_quant_range_neg_127_to_127 = FusedMovingAvgObsFakeQuantize.with_args(
    observer=MovingAverageMinMaxObserver, quant_min=-127, quant_max=127, dtype=tede.qint8, qscheme=tede.per_tensor_symmetric, eps=2**-12)
fused_per_channel_wt_fake_quant_range_neg_127_to_127 = FusedMovingAvgObsFakeQuantize.with_args(
    observer=MovingAveragePerChannelMinMaxObserver, quant_min=-127, quant_max=127, dtype=tede.qint8, qscheme=tede.per_channel_symmetric,
    eps=2**-12)


# ---- for model.apply() -----------------------------------------------------------------------------------------------

def disable_fake_quant(mod):
    """Stop rounding: model.apply(disable_fake_quant)."""
    if isinstance(mod, FakeQuantizeBase):
        mod.disable_fake_quant()


def enable_fake_quant(mod):
    """Begin rounding: model.apply(enable_fake_quant)."""
    if isinstance(mod, FakeQuantizeBase):
        mod.enable_fake_quant()


def disable_observer(mod):
    """Keep ranges as they are: model.apply(disable_observer)."""
    if isinstance(mod, FakeQuantizeBase):
        mod.disable_observer()


def enable_observer(mod):
    """Let ranges move: model.apply(enable_observer)."""
    if isinstance(mod, FakeQuantizeBase):
        mod.enable_observer()
