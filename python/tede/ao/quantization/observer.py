"""Observers: modules that see tensors pass, and say which scale and zero point fit them.

A qconfig holds constructors of observers. `with_args` fixes some arguments of one, and `with_callable_args` arguments that are made when
the observer is."""
import warnings
from abc import ABC, abstractmethod
from collections import OrderedDict
from functools import partial

import tede
from tede import nn

from .utils import calculate_qmin_qmax, determine_qparams, is_per_channel, is_per_tensor, range_of, validate_qmin_qmax

__all__ = ["default_affine_fixed_qparams_observer", "default_debug_observer", "default_dynamic_quant_observer",
           "default_fixed_qparams_range_0to1_observer", "default_fixed_qparams_range_neg1to1_observer", "default_float_qparams_observer",
           "default_float_qparams_observer_4bit", "default_histogram_observer", "default_observer", "default_per_channel_weight_observer",
           "default_placeholder_observer", "default_reuse_input_observer", "default_symmetric_fixed_qparams_observer",
           "default_weight_observer", "per_channel_weight_observer_range_neg_127_to_127", "weight_observer_range_neg_127_to_127",
           "FixedQParamsObserver", "HistogramObserver", "MinMaxObserver", "MovingAverageMinMaxObserver",
           "MovingAveragePerChannelMinMaxObserver", "NoopObserver", "ObserverBase", "PerChannelMinMaxObserver", "PlaceholderObserver",
           "RecordingObserver", "ReuseInputObserver", "UniformQuantizationObserverBase", "get_observer_state_dict", "load_observer_state_dict"]

_EPS = float(tede.finfo(tede.float32).eps)


class _PartialWrapper:
    """A constructor with some of its arguments."""

    def __init__(self, p):
        self.p, self.callable_args = p, {}

    def __call__(self, *args, **keywords):
        made = {name: make() for name, make in self.callable_args.items() if name not in keywords}
        return self.p(*args, **keywords, **made)

    def __repr__(self):
        return repr(self.p) + repr(self.callable_args)

    def with_args(self, **kwargs):
        return _with_args(self, **kwargs)

    def with_callable_args(self, **kwargs):
        wrapper = _PartialWrapper(self.p)
        wrapper.callable_args = {**self.callable_args, **kwargs}
        return wrapper


def _with_args(cls_or_self, **kwargs):
    """A constructor that has these arguments already."""
    return _PartialWrapper(partial(cls_or_self, **kwargs))


def _with_callable_args(cls_or_self, **kwargs):
    """A constructor that calls these for arguments of their names."""
    return _PartialWrapper(partial(cls_or_self)).with_callable_args(**kwargs)


class ObserverBase(ABC, nn.Module):
    """What all observers have: a dtype, `forward`, which sees a tensor and gives it back, and `calculate_qparams`."""

    def __init__(self, dtype, is_dynamic=False):
        super().__init__()
        self.dtype, self.is_dynamic = dtype, is_dynamic

    @abstractmethod
    def forward(self, x):
        pass

    @abstractmethod
    def calculate_qparams(self, **kwargs):
        pass

    with_args = classmethod(_with_args)
    with_callable_args = classmethod(_with_callable_args)


class UniformQuantizationObserverBase(ObserverBase):
    """Observers whose integers are at even distances: `(integer - zero point) * scale`."""
    _version = 3
    eps: tede.Tensor

    def __init__(self, dtype=tede.quint8, qscheme=tede.per_tensor_affine, reduce_range=False, quant_min=None, quant_max=None,
                 factory_kwargs=None, eps=_EPS, is_dynamic=False, **kwargs):
        where = nn.factory_kwargs(factory_kwargs)
        super().__init__(dtype=dtype, is_dynamic=is_dynamic, **kwargs)
        self.qscheme = qscheme
        if reduce_range:
            warnings.warn("Please use quant_min and quant_max to specify the range for observers.                     reduce_range will be "
                          "deprecated in a future release of PyTorch.", stacklevel=2)
        self.reduce_range = reduce_range
        self.register_buffer("eps", tede.tensor([eps], **where))
        if not (is_per_tensor(qscheme) or is_per_channel(qscheme)):
            raise AssertionError("Default Observer only works for per_tensor_affine, per_tensor_symmetric, per_channel_affine, "
                                 "per_channel_symmetric and per_channel_float_qparams quantization scheme")
        if dtype not in (tede.qint8, tede.quint8, tede.quint4x2, tede.qint32, tede.int8, tede.uint8, tede.int16, tede.int32,
                         tede.float8_e5m2, tede.float8_e4m3fn, tede.uint16):
            raise AssertionError(f"Default Observer only works for qint8, quint8 and quint4x2 data type, got {dtype}")
        self.has_customized_qrange = quant_min is not None and quant_max is not None
        if self.has_customized_qrange:
            validate_qmin_qmax(quant_min, quant_max)
        self.quant_min, self.quant_max = calculate_qmin_qmax(quant_min, quant_max, self.has_customized_qrange, dtype, reduce_range)

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs):
        if local_metadata.get("version") in (None, 1):
            state_dict[prefix + "eps"] = tede.tensor([_EPS])
        super()._load_from_state_dict(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)

    def _validate_qmin_qmax(self, quant_min, quant_max):
        validate_qmin_qmax(quant_min, quant_max)

    def _calculate_qparams(self, min_val, max_val):
        return determine_qparams(min_val, max_val, self.quant_min, self.quant_max, self.dtype, self.eps, self.has_customized_qrange, self.qscheme)

    def reset_min_max_vals(self):
        raise NotImplementedError("Cannot reset min/max values in the given observer.")


_ObserverBase = UniformQuantizationObserverBase


def _refuse_reduced(observer):
    if observer.qscheme is tede.per_tensor_symmetric and observer.reduce_range and observer.dtype is tede.quint8:
        raise NotImplementedError("Cannot reduce range for symmetric quantization for quint8")


class MinMaxObserver(UniformQuantizationObserverBase):
    """The least and the largest number of all that it has seen."""
    min_val: tede.Tensor
    max_val: tede.Tensor

    def __init__(self, dtype=tede.quint8, qscheme=tede.per_tensor_affine, reduce_range=False, quant_min=None, quant_max=None,
                 factory_kwargs=None, eps=_EPS, is_dynamic=False, **kwargs):
        if not is_per_tensor(qscheme):
            raise NotImplementedError("MinMaxObserver's qscheme only support torch.per_tensor_symmetric and torch.per_tensor_affine.")
        super().__init__(dtype=dtype, qscheme=qscheme, reduce_range=reduce_range, quant_min=quant_min, quant_max=quant_max,
                         factory_kwargs=factory_kwargs, eps=eps, is_dynamic=is_dynamic, **kwargs)
        where = nn.factory_kwargs(factory_kwargs)
        self.register_buffer("min_val", tede.tensor(float("inf"), **where))
        self.register_buffer("max_val", tede.tensor(float("-inf"), **where))
        _refuse_reduced(self)

    def _update(self, least, most):
        return tede.minimum(least, self.min_val), tede.maximum(most, self.max_val)

    def forward(self, x_orig):
        """Takes the numbers into account, and gives the tensor back."""
        if x_orig.numel() == 0:
            return x_orig
        least, most = tede.aminmax(x_orig.detach().to(self.min_val.dtype))
        least, most = self._update(least, most)
        self.min_val.copy_(least)
        self.max_val.copy_(most)
        return x_orig

    def calculate_qparams(self):
        """(scale, zero point) for what was seen."""
        return self._calculate_qparams(self.min_val, self.max_val)

    def extra_repr(self):
        return f"min_val={self.min_val}, max_val={self.max_val}"

    def reset_min_max_vals(self):
        self.min_val.copy_(tede.tensor(float("inf")))
        self.max_val.copy_(tede.tensor(float("-inf")))


def _refuse_dynamic(observer, is_dynamic, averaging_constant):
    if is_dynamic and averaging_constant != 1:
        raise NotImplementedError(f"{type(observer).__name__} doesn't support dynamic quantization for averaging constant of {averaging_constant}")


class MovingAverageMinMaxObserver(MinMaxObserver):
    """The range moves towards each tensor's own by `averaging_constant` of the distance."""

    def __init__(self, averaging_constant=0.01, dtype=tede.quint8, qscheme=tede.per_tensor_affine, reduce_range=False, quant_min=None,
                 quant_max=None, eps=_EPS, is_dynamic=False, **kwargs):
        if not is_per_tensor(qscheme):
            raise NotImplementedError(f"MovingAverageMinMaxObserver's qscheme only support torch.per_tensor_symmetric and "
                                      f"torch.per_tensor_affine. but got: {qscheme}")
        self.averaging_constant = averaging_constant
        _refuse_dynamic(self, is_dynamic, averaging_constant)
        super().__init__(dtype=dtype, qscheme=qscheme, reduce_range=reduce_range, quant_min=quant_min, quant_max=quant_max, eps=eps,
                         is_dynamic=is_dynamic, **kwargs)

    def _update(self, least, most):
        if float(self.min_val) == float("inf") and float(self.max_val) == float("-inf"):
            return least, most
        return (self.min_val + self.averaging_constant * (least - self.min_val),
                self.max_val + self.averaging_constant * (most - self.max_val))


class PerChannelMinMaxObserver(UniformQuantizationObserverBase):
    """The least and the largest number of each index of dimension `ch_axis`."""
    min_val: tede.Tensor
    max_val: tede.Tensor

    def __init__(self, ch_axis=0, dtype=tede.quint8, qscheme=tede.per_channel_affine, reduce_range=False, quant_min=None, quant_max=None,
                 factory_kwargs=None, eps=_EPS, is_dynamic=False, **kwargs):
        if not is_per_channel(qscheme):
            raise NotImplementedError("PerChannelMinMaxObserver's qscheme only support torch.per_channel_symmetric, torch.per_channel_affine "
                                      "and torch.per_channel_affine_float_qparams.")
        if is_dynamic:
            raise NotImplementedError("PerChannelMinMaxObserver doesn't support dynamic quantization")
        super().__init__(dtype=dtype, qscheme=qscheme, reduce_range=reduce_range, quant_min=quant_min, quant_max=quant_max,
                         factory_kwargs=factory_kwargs, eps=eps, is_dynamic=is_dynamic, **kwargs)
        where = nn.factory_kwargs(factory_kwargs)
        self.ch_axis = ch_axis
        self.register_buffer("min_val", tede.tensor([], **where))
        self.register_buffer("max_val", tede.tensor([], **where))
        if self.qscheme is tede.per_channel_symmetric and self.reduce_range and self.dtype is tede.quint8:
            raise NotImplementedError("Cannot reduce range for symmetric quantization for quint8")

    def _update(self, least, most):
        return tede.minimum(least, self.min_val), tede.maximum(most, self.max_val)

    def forward(self, x_orig):
        return self._forward(x_orig)

    def _forward(self, x_orig):
        if x_orig.numel() == 0:
            return x_orig
        x = x_orig.detach().to(self.min_val.dtype)
        rows = x.transpose(0, self.ch_axis).flatten(1) if x.dim() > 1 else x.reshape(-1, 1)
        least, most = tede.aminmax(rows, dim=1)
        if self.min_val.numel() and self.max_val.numel():
            least, most = self._update(least, most)
        self.min_val.resize_(least.shape).copy_(least)
        self.max_val.resize_(most.shape).copy_(most)
        return x_orig

    def calculate_qparams(self):
        return self._calculate_qparams(self.min_val, self.max_val)

    def extra_repr(self):
        return f"min_val={self.min_val}, max_val={self.max_val}"

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs):
        """The buffers take the sizes of what is loaded; older files call them min_vals and max_vals."""
        older = local_metadata.get("version") is not None and local_metadata["version"] < 3
        for name in ("min_val", "max_val"):
            key, written = prefix + name, prefix + name + ("s" if older else "")
            if written in state_dict:
                if written != key:
                    state_dict[key] = state_dict.pop(written)
                getattr(self, name).resize_(state_dict[key].shape)
            elif strict:
                missing_keys.append(written)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, False, missing_keys, unexpected_keys, error_msgs)

    def reset_min_max_vals(self):
        self.min_val = tede.rand(0)
        self.max_val = tede.rand(0)


class MovingAveragePerChannelMinMaxObserver(PerChannelMinMaxObserver):
    """The same, of ranges that move towards each tensor's."""

    def __init__(self, averaging_constant=0.01, ch_axis=0, dtype=tede.quint8, qscheme=tede.per_channel_affine, reduce_range=False,
                 quant_min=None, quant_max=None, eps=_EPS, is_dynamic=False, **kwargs):
        if not is_per_channel(qscheme):
            raise NotImplementedError("MovingAveragePerChannelMinMaxObserver's qscheme only support torch.per_channel_symmetric, "
                                      "torch.per_channel_affine and torch.per_channel_affine_float_qparams.")
        if is_dynamic:
            raise NotImplementedError("MovingAveragePerChannelMinMaxObserver doesn't support dynamic quantization")
        super().__init__(ch_axis=ch_axis, dtype=dtype, qscheme=qscheme, reduce_range=reduce_range, quant_min=quant_min, quant_max=quant_max,
                         eps=eps, is_dynamic=is_dynamic, **kwargs)
        self.averaging_constant = averaging_constant

    def _update(self, least, most):
        return (self.min_val + self.averaging_constant * (least - self.min_val),
                self.max_val + self.averaging_constant * (most - self.max_val))


class HistogramObserver(UniformQuantizationObserverBase):
    """Counts numbers in bins, and chooses the range whose integers stand for them with the least squared error."""
    histogram: tede.Tensor
    min_val: tede.Tensor
    max_val: tede.Tensor

    def __init__(self, bins=2048, dtype=tede.quint8, qscheme=tede.per_tensor_affine, reduce_range=False, quant_min=None, quant_max=None,
                 factory_kwargs=None, eps=_EPS, is_dynamic=False, **kwargs):
        if not is_per_tensor(qscheme):
            raise NotImplementedError("HistogramObserver's qscheme only support torch.per_tensor_symmetric and torch.per_tensor_affine.")
        if is_dynamic:
            raise NotImplementedError("HistogramObserver doesn't support dynamic quantization")
        super().__init__(dtype=dtype, qscheme=qscheme, reduce_range=reduce_range, quant_min=quant_min, quant_max=quant_max,
                         factory_kwargs=factory_kwargs, eps=eps, is_dynamic=is_dynamic, **kwargs)
        where = nn.factory_kwargs(factory_kwargs)
        self.bins = bins
        self.register_buffer("histogram", tede.zeros(bins, **where))
        self.register_buffer("min_val", tede.tensor(float("inf"), **where))
        self.register_buffer("max_val", tede.tensor(float("-inf"), **where))
        least, most = range_of(dtype)
        self.dst_nbins = most - least + 1
        self.upsample_rate = 16         # how many parts a bin has when counts are moved to other bins

    # ---- the range that is chosen

    def _get_norm(self, delta_begin, delta_end, density):
        """The integral of density * x**2."""
        return density * ((delta_end * delta_end * delta_end - delta_begin * delta_begin * delta_begin) / 3)

    def _compute_quantization_error(self, next_start_bin, next_end_bin):
        """The squared error of numbers that are spread evenly within their bins, where the integers take bins start to end."""
        width = (self.max_val.item() - self.min_val.item()) / self.bins
        step = width * (next_end_bin - next_start_bin + 1) / self.dst_nbins
        if step == 0.0:
            return 0.0
        begin = (tede.arange(self.bins, device=self.histogram.device) - next_start_bin) * width
        end = begin + width
        first = tede.div(begin, step, rounding_mode="floor").clamp(0, self.dst_nbins - 1)       # the integers at a bin's ends
        last = tede.div(end, step, rounding_mode="floor").clamp(0, self.dst_nbins - 1)
        density = self.histogram / width
        half = tede.tensor(step / 2)
        error = self._get_norm(begin - (first + 0.5) * step, tede.ones(self.bins, device=begin.device) * half, density)
        error = error + (last - first - 1) * self._get_norm(-half, half, density)
        error = error + self._get_norm(-half, end - (last * step + step / 2), density)
        return error.sum().item()

    def _non_linear_param_search(self):
        """The range is made smaller from either end, by as few counts as possible, until the error grows."""
        if self.histogram.size()[0] != self.bins:
            raise AssertionError("bins mismatch")
        width = (self.max_val - self.min_val) / self.bins
        total = self.histogram.sum().item()
        counted = self.histogram.cumsum(0).tolist()
        step, below, above = 1e-5, 0.0, 1.0         # which shares of the counts are left out
        start, end, best = 0, self.bins - 1, float("inf")
        while below < above:
            next_below, next_above = below + step, above - step
            left, right = start, end
            while left < end and counted[left] < next_below * total:
                left += 1
            while right > start and counted[right] > next_above * total:
                right -= 1
            next_start, next_end = start, end
            if left - start > end - right:
                next_start, below = left, next_below
            else:
                next_end, above = right, next_above
            if (next_start, next_end) == (start, end):
                continue
            error = self._compute_quantization_error(next_start, next_end)
            if error > best:
                break
            best, start, end = error, next_start, next_end
        return self.min_val + width * start, self.min_val + width * (end + 1)

    # ---- counting

    def _upscale_histogram(self, histogram, orig_min, orig_max, update_min, update_max):
        """Counts of one range in bins of a larger one: each bin in parts, which go where their middle is."""
        parts = histogram.repeat_interleave(self.upsample_rate) / self.upsample_rate
        width = (orig_max - orig_min) / (self.bins * self.upsample_rate)
        middles = tede.linspace(float(orig_min), float(orig_max), self.bins * self.upsample_rate + 1, device=histogram.device)[:-1] + 0.5 * width
        borders = tede.linspace(float(update_min), float(update_max), self.bins + 1, device=histogram.device)
        bins = (tede.bucketize(middles, borders, right=True) - 1).clamp(0, self.bins - 1)
        return tede.bincount(bins, weights=parts, minlength=self.bins)

    def _combine_histograms(self, orig_hist, orig_min, orig_max, update_hist, update_min, update_max):
        if update_min == orig_min and update_max == orig_max:
            return orig_hist + update_hist
        if orig_min == orig_max:
            moved = tede.histc(orig_min, bins=self.bins, min=float(update_min), max=float(update_max)) * orig_hist.sum()
            return moved + update_hist
        return update_hist + self._upscale_histogram(orig_hist, orig_min, orig_max, update_min, update_max)

    def reset_histogram(self, x, min_val, max_val):
        self.min_val.resize_(min_val.shape).copy_(min_val)
        self.max_val.resize_(max_val.shape).copy_(max_val)
        counts = tede.histc(x, self.bins, min=float(min_val), max=float(max_val))
        self.histogram.detach_().resize_(counts.shape).copy_(counts)

    def forward(self, x_orig):
        if x_orig.numel() == 0:
            return x_orig
        x = x_orig.detach()
        least, most = tede.aminmax(x)
        if least == -float("inf") or most == float("inf"):
            warnings.warn("torch.inf detected in input tensor, ignoring input", stacklevel=2)
            x = x[x.abs() != float("inf")]
            if x.numel() == 0:
                return x_orig
            least, most = tede.aminmax(x)
        x = x.to(self.histogram.dtype)
        if self.min_val == float("inf") or self.max_val == float("-inf"):
            self.reset_histogram(x, least, most)
            return x_orig
        new_min, new_max = tede.minimum(self.min_val, least), tede.maximum(self.max_val, most)
        counts = tede.histc(x, self.bins, min=float(new_min), max=float(new_max))
        combined = self._combine_histograms(self.histogram, self.min_val, self.max_val, counts, new_min, new_max)
        self.histogram.detach_().resize_(combined.shape).copy_(combined)
        self.min_val.detach_().resize_(new_min.shape).copy_(new_min)
        self.max_val.detach_().resize_(new_max.shape).copy_(new_max)
        return x_orig

    def calculate_qparams(self):
        if self.min_val == float("inf") and self.max_val == float("-inf"):
            warnings.warn("must run observer before calling calculate_qparams.                                    Returning default scale "
                          "and zero point ", stacklevel=2)
            return tede.tensor([1.0], device=self.min_val.device), tede.tensor([0], device=self.min_val.device)
        if self.bins != len(self.histogram):
            raise AssertionError("The number of bins in histogram should be equal to the number of bins supplied while making this observer")
        return self._calculate_qparams(*self._non_linear_param_search())

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs):
        for name in ("min_val", "max_val"):
            if prefix + name in state_dict:
                getattr(self, name).resize_(state_dict[prefix + name].shape)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)

    def extra_repr(self):
        return f"min_val={self.min_val}, max_val={self.max_val}"


class FixedQParamsObserver(ObserverBase):
    """A scale and a zero point that are known beforehand, such as sigmoid's."""
    scale: tede.Tensor
    zero_point: tede.Tensor

    def __init__(self, scale, zero_point, dtype=tede.quint8, qscheme=tede.per_tensor_affine, quant_min=0, quant_max=255, is_dynamic=False,
                 **kwargs):
        if is_dynamic:
            raise NotImplementedError("FixedQParamsObserver doesn't support dynamic quantization")
        super().__init__(dtype=dtype, is_dynamic=is_dynamic, **kwargs)
        self.quant_min, self.quant_max = quant_min, quant_max
        self.register_buffer("scale", tede.tensor([scale], dtype=tede.float))
        self.register_buffer("zero_point", tede.tensor([zero_point], dtype=tede.int))
        self.qscheme = qscheme

    def forward(self, X):
        return X

    def calculate_qparams(self):
        return self.scale, self.zero_point


class PlaceholderObserver(ObserverBase):
    """Sees nothing: it says what a dtype will be."""

    def __init__(self, dtype=tede.float32, custom_op_name="", compute_dtype=None, quant_min=None, quant_max=None, qscheme=None, eps=None,
                 is_dynamic=False):
        super().__init__(dtype=dtype, is_dynamic=is_dynamic)
        self.qscheme = tede.per_tensor_affine if qscheme is None else qscheme
        self.quant_min, self.quant_max = quant_min, quant_max
        self.eps = _EPS if eps is None else eps
        self.custom_op = custom_op_name
        if compute_dtype:
            warnings.warn("Please use `is_dynamic` instead of `compute_dtype`.                     `compute_dtype` will be deprecated in a "
                          "future release                     of PyTorch.", stacklevel=2)

    def forward(self, x):
        return x

    def extra_repr(self):
        return f"dtype={self.dtype}, is_dynamic={self.is_dynamic}"

    def calculate_qparams(self):
        raise Exception("calculate_qparams should not be called for PlaceholderObserver")


class RecordingObserver(ObserverBase):
    """Keeps copies of the tensors that it sees."""

    def __init__(self, dtype=tede.quint8):
        super().__init__(dtype=dtype, is_dynamic=False)
        self.tensor_val = []

    def forward(self, x):
        self.tensor_val.append(x.clone())
        return x

    def calculate_qparams(self):
        raise Exception("calculate_qparams should not be called for RecordingObserver")

    def get_tensor_value(self):
        return self.tensor_val


class NoopObserver(ObserverBase):
    """Sees nothing: what it stands behind isn't quantized to integers."""

    def __init__(self, dtype=tede.float16, custom_op_name=""):
        super().__init__(dtype=dtype, is_dynamic=False)
        self.dtype, self.custom_op = dtype, custom_op_name

    def forward(self, x):
        return x

    def calculate_qparams(self):
        raise Exception("calculate_qparams should not be called for NoopObserver")


class ReuseInputObserver(ObserverBase):
    """Of operators that don't change scales: the input's observer serves the output."""

    def __init__(self):
        super().__init__(tede.quint8, is_dynamic=False)

    def forward(self, x):
        return x

    def calculate_qparams(self):
        raise Exception("calculate_qparams should not be called for ReuseInputObserver")


# ---- state dicts -----------------------------------------------------------------------------------------------------

def _is_activation_post_process(module):
    """Whether a module observes what another one gives; fake quantization says so by its name for that."""
    return isinstance(module, ObserverBase) or getattr(module, "_observes", False)


def get_observer_state_dict(mod):
    """The part of a model's state dict that observers have."""
    found = OrderedDict((name, value) for name, value in mod.state_dict().items() if "activation_post_process" in name)
    found._metadata = mod.state_dict()._metadata
    return found


def load_observer_state_dict(mod, obs_dict):
    """Give a model's observers what get_observer_state_dict has taken out."""
    missing, unexpected = [], []
    for name, module in mod.named_modules():
        prefix = name + "."
        if _is_activation_post_process(module):
            module._load_from_state_dict(obs_dict, prefix, {}, False, missing, unexpected, [])
    for name in missing:
        if "observer" in name or "activation_post_process" in name:
            raise Exception(f"Missing keys for observer {name} in state_dict")
    for name in unexpected:
        if "observer" in name or "activation_post_process" in name:
            raise Exception(f"Unexpected keys for observer {name} in state_dict")


# ---- what qconfigs are made of ---------------------------------------------------------------------------------------

default_observer = MinMaxObserver.with_args(quant_min=0, quant_max=127)
default_placeholder_observer = PlaceholderObserver
default_debug_observer = RecordingObserver
default_weight_observer = MinMaxObserver.with_args(dtype=tede.qint8, qscheme=tede.per_tensor_symmetric)
weight_observer_range_neg_127_to_127 = MinMaxObserver.with_args(dtype=tede.qint8, qscheme=tede.per_tensor_symmetric, quant_min=-127,
                                                                quant_max=127, eps=2**-12)
default_histogram_observer = HistogramObserver.with_args(quant_min=0, quant_max=127)
default_per_channel_weight_observer = PerChannelMinMaxObserver.with_args(dtype=tede.qint8, qscheme=tede.per_channel_symmetric)
per_channel_weight_observer_range_neg_127_to_127 = PerChannelMinMaxObserver.with_args(
    dtype=tede.qint8, qscheme=tede.per_channel_symmetric, quant_min=-127, quant_max=127, eps=2**-12)
default_dynamic_quant_observer = PlaceholderObserver.with_args(dtype=tede.quint8, quant_min=0, quant_max=255, is_dynamic=True)
default_float_qparams_observer = PerChannelMinMaxObserver.with_args(dtype=tede.quint8, qscheme=tede.per_channel_affine_float_qparams, ch_axis=0)
default_float_qparams_observer_4bit = PerChannelMinMaxObserver.with_args(dtype=tede.quint4x2, qscheme=tede.per_channel_affine_float_qparams,
                                                                         ch_axis=0)
default_fixed_qparams_range_neg1to1_observer = FixedQParamsObserver.with_args(scale=2.0 / 256.0, zero_point=128, dtype=tede.quint8, quant_min=0,
                                                                              quant_max=255)
default_fixed_qparams_range_0to1_observer = FixedQParamsObserver.with_args(scale=1.0 / 256.0, zero_point=0, dtype=tede.quint8, quant_min=0,
                                                                           quant_max=255)
default_symmetric_fixed_qparams_observer = default_fixed_qparams_range_neg1to1_observer
default_affine_fixed_qparams_observer = default_fixed_qparams_range_0to1_observer
default_reuse_input_observer = ReuseInputObserver
