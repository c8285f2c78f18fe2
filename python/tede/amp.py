"""Mixed precision: autocast, which casts operands of products to a half type, and GradScaler, which scales losses.

On the CPU and on devices that are loaded autocast is real, with bfloat16 or float16. For devices that aren't there it is off, with
PyTorch's warning.
"""
import collections
import enum
import functools
import inspect
import sys
import threading
import warnings

import tede
from tede import _C

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]

_state = threading.local()
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar
    _F = TypeVar("_F", bound=Callable[..., Any])

_defaults = {"cpu": _C.bfloat16, "cuda": _C.float16, "xpu": _C.float16, "mps": _C.float16, "hpu": _C.bfloat16, "mtia": _C.float16,
             "ipu": _C.float16, "xla": _C.bfloat16, "maia": _C.bfloat16, "privateuseone": _C.float16}


def _older(device_type, name):
    """What torch.cuda.amp and torch.cpu.amp say of their names."""
    warnings.warn(f"`torch.{device_type}.amp.{name}(args...)` is deprecated. Please use `torch.amp.{name}('{device_type}', args...)` "
                  "instead.", FutureWarning, stacklevel=3)


def is_autocast_available(device_type):
    """Whether autocast is there for a kind of device.

    >>> tede.amp.is_autocast_available("cpu")
    True
    """
    if not isinstance(device_type, str):
        raise TypeError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
    _C.device(device_type)
    return device_type in _defaults or _is_there(device_type)


def _is_there(device_type):
    try:
        return device_type == "cpu" or device_type != "meta" and _C._device_count(device_type) > 0
    except RuntimeError:
        if device_type in _defaults:        # a kind that autocast has a dtype for, of which nothing else is known
            return False
        raise


def _enabled(device_type):
    if _is_there(device_type):      # the library's, which workers of a backward pass take over
        return _C._autocast_dtype(device_type) is not None
    return getattr(_state, device_type, False)


def is_autocast_enabled(device_type="cuda"):
    """Whether `autocast` is on, on a kind of device.

    >>> tede.is_autocast_enabled("cpu")
    False
    """
    return _enabled(device_type)


def set_autocast_enabled(device_type, enabled=None):
    """Switch `autocast` on or off on a kind of device; prefer the context.

    >>> tede.set_autocast_enabled("cpu", False)
    """
    if enabled is None:
        device_type, enabled = "cuda", device_type
    if _is_there(device_type):
        _apply(device_type, bool(enabled), get_autocast_dtype(device_type))
    else:
        setattr(_state, device_type, bool(enabled))


def get_autocast_dtype(device_type):
    """The dtype of `autocast` on a kind of device.

    >>> tede.get_autocast_dtype("cpu")
    tede.bfloat16
    """
    if _is_there(device_type):
        if (dtype := _C._autocast_dtype(device_type)) is not None:
            return dtype
        default = _defaults.get(device_type, _C.float16)
    elif (default := _defaults.get(device_type)) is None:
        raise RuntimeError(f"unsupported scalarType: autocast has no dtype for {device_type}")
    return getattr(_state, device_type + "_dtype", default)


def set_autocast_dtype(device_type, dtype):
    """Set the dtype of `autocast` on a kind of device.

    >>> tede.set_autocast_dtype("cpu", tede.bfloat16)
    """
    setattr(_state, device_type + "_dtype", dtype)
    if _is_there(device_type):
        _apply(device_type, _enabled(device_type), dtype)


def is_autocast_cache_enabled():
    """Whether `autocast` keeps the parameters that it has cast, for the length of its block.

    >>> tede.is_autocast_cache_enabled()
    True
    """
    return getattr(_state, "cache", True)


def set_autocast_cache_enabled(enabled):
    """Whether `autocast` keeps the parameters that it has cast.

    >>> tede.set_autocast_cache_enabled(True)
    """
    _state.cache = enabled
    _apply("cpu", _enabled("cpu"), get_autocast_dtype("cpu"))


def autocast_increment_nesting():
    """Enter a level of autocast: gives how many there are.

    >>> tede.autocast_increment_nesting()
    1
    >>> _ = tede.autocast_decrement_nesting()
    """
    return _C._autocast_deeper(1)


def autocast_decrement_nesting():
    """Leave a level of autocast: gives how many are left. Of use to those who write their own context.

    >>> _ = tede.autocast_increment_nesting()
    >>> tede.autocast_decrement_nesting()
    0
    """
    return _C._autocast_deeper(-1)


def _apply(device_type, enabled, dtype):
    _C._set_autocast(dtype if enabled else None, is_autocast_cache_enabled(), device_type)


class autocast:
    """Within it, and in functions that it decorates, products, convolutions and attention compute in a half type, and
    what would lose digits (sums, norms, losses) in float32; operands are cast on the way, parameters stay as they are.

        device_type: "cpu" or "cuda".
        dtype: bfloat16 or float16; else the device's default, bfloat16 on the CPU.
        enabled: False switches it off within.
        cache_enabled: keep the cast parameters for the length of the block.

    Put forward and loss in it, `backward` outside.

    >>> layer = nn.Linear(3, 2)
    >>> with tede.autocast("cpu", dtype=tede.bfloat16):
    ...     layer(tede.ones(1, 3)).dtype
    tede.bfloat16
    """

    def __init__(self, device_type: str, dtype: _C.dtype | None = None, enabled: bool = True,
                 cache_enabled: bool | None = None) -> None:
        if not isinstance(device_type, str):
            raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
        _C.device(device_type)
        if not is_autocast_available(device_type):
            raise RuntimeError(f"User specified an unsupported autocast device_type '{device_type}'")
        self.device, self.fast_dtype = device_type, dtype or get_autocast_dtype(device_type)
        there = _is_there(device_type)
        if enabled and device_type == "cuda" and not there:
            warnings.warn("CUDA is not available or torch_xla is imported. Disabling autocast.", stacklevel=2)
            enabled = False
        elif enabled and not there:
            warnings.warn(f"User provided device_type of '{device_type}', but {device_type.upper()} is not available. Disabling",
                          stacklevel=2)
            enabled = False
        if enabled and self.fast_dtype not in (_C.bfloat16, _C.float16):
            title = device_type.upper()
            warnings.warn(f"In {title} autocast, but the target dtype is not supported. Disabling autocast.\n{title} Autocast only "
                          "supports dtype of torch.bfloat16, torch.float16 currently.", stacklevel=2)
            enabled = False
        self._enabled = enabled
        self._cache_enabled = is_autocast_cache_enabled() if cache_enabled is None else cache_enabled

    def __enter__(self) -> "autocast":
        self.prev, self.prev_fastdtype = _enabled(self.device), get_autocast_dtype(self.device)
        self.prev_cache_enabled = is_autocast_cache_enabled()
        self._set(self._enabled, self.fast_dtype, self._cache_enabled)
        _C._autocast_deeper(1)
        return self

    def __exit__(self, *exception: "Any") -> None:
        _C._autocast_deeper(-1)
        self._set(self.prev, self.prev_fastdtype, self.prev_cache_enabled)
        return False

    def _set(self, enabled, dtype, cache):
        setattr(_state, self.device + "_dtype", dtype)
        _state.cache = cache
        if not _is_there(self.device):
            setattr(_state, self.device, enabled)
            enabled, dtype = _enabled("cpu"), get_autocast_dtype("cpu")
            _apply("cpu", enabled, dtype)
        else:
            _apply(self.device, enabled, dtype)

    def __call__(self, func: "_F") -> "_F":
        @functools.wraps(func)
        def wrapped(*args, **kwargs):
            with self:
                return func(*args, **kwargs)
        return wrapped


def _cast(value, device_type, dtype):
    if isinstance(value, _C.Tensor):
        eligible = value.is_floating_point() and value.device.type == device_type and value.dtype != _C.float64
        return value.to(dtype) if eligible else value
    if isinstance(value, dict):
        return {_cast(k, device_type, dtype): _cast(v, device_type, dtype) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_cast(v, device_type, dtype) for v in value)
    return value


def custom_fwd(fwd=None, *, device_type, cast_inputs=None):
    """A decorator of an `autograd.Function`'s forward: it runs as autocast finds it, or, where `cast_inputs` is a
    dtype, with all floating point inputs cast to that and autocast off.

        device_type: "cpu", "cuda", ...

    >>> class Square(tede.autograd.Function):
    ...     @staticmethod
    ...     @tede.amp.custom_fwd(device_type="cpu", cast_inputs=tede.float32)
    ...     def forward(ctx, x):
    ...         return x * x
    >>> with tede.autocast("cpu"):
    ...     Square.apply(tede.ones(1, dtype=tede.bfloat16)).dtype
    tede.float32
    """
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def wrapped(*args, **kwargs):
        args[0]._dtype = get_autocast_dtype(device_type)
        if cast_inputs is None:
            args[0]._fwd_used_autocast = _enabled(device_type)
            return fwd(*args, **kwargs)
        active = _enabled(device_type)
        args[0]._fwd_used_autocast = False
        if not active:
            return fwd(*args, **kwargs)
        with autocast(device_type, enabled=False):
            return fwd(*_cast(args, device_type, cast_inputs), **_cast(kwargs, device_type, cast_inputs))
    return wrapped


def custom_bwd(bwd=None, *, device_type):
    """A decorator of an `autograd.Function`'s backward: it runs in the state of autocast that `custom_fwd` met.

        device_type: "cpu", "cuda", ...

    >>> class Square(tede.autograd.Function):
    ...     @staticmethod
    ...     @tede.amp.custom_fwd(device_type="cpu")
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return x * x
    ...     @staticmethod
    ...     @tede.amp.custom_bwd(device_type="cpu")
    ...     def backward(ctx, grad):
    ...         return 2 * ctx.saved_tensors[0] * grad
    >>> Square.apply(tede.tensor(3.0))
    tensor(9.)
    """
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def wrapped(*args, **kwargs):
        with autocast(device_type, enabled=args[0]._fwd_used_autocast, dtype=args[0]._dtype):
            return bwd(*args, **kwargs)
    return wrapped


class OptState(enum.Enum):
    """How far an optimizer has come since the last update."""
    READY = 0
    UNSCALED = 1
    STEPPED = 2


def _refresh_per_optimizer_state():
    return {"stage": OptState.READY, "found_inf_per_device": {}}


def _amp_foreach_non_finite_check_and_unscale_(self, found_inf, inv_scale):
    """Multiply gradients in place; found_inf becomes 1 where one wasn't finite."""
    factor = inv_scale.item()
    for grad in self:
        if not bool(grad.isfinite().all()):
            found_inf.fill_(1)
        if factor != 1:
            grad.mul_(factor)


def _amp_update_scale_(self, growth_tracker, found_inf, scale_growth_factor, scale_backoff_factor, growth_interval):
    """Lower a scale after an overflow; raise it after so many steps without one, unless it would be infinite."""
    if found_inf.item():
        self.mul_(scale_backoff_factor)
        growth_tracker.zero_()
    elif growth_tracker.item() + 1 == growth_interval:
        grown = self * scale_growth_factor
        if grown.isfinite():
            self.copy_(grown)
        growth_tracker.zero_()
    else:
        growth_tracker.add_(1)
    return self


class GradScaler:
    """Multiplies a loss so that small gradients survive in float16, and divides them again before the step; skips steps
    whose gradients aren't finite, with a smaller factor afterwards. bfloat16 needs none.

        device: "cuda", "cpu", ...; without CUDA, "cuda" warns, and everything is passed on unchanged.
        init_scale: the first factor.
        growth_factor, growth_interval: how it grows, after so many steps without an infinity.
        backoff_factor: how it shrinks after one.
        enabled: False passes everything on unchanged.

    The methods with a leading underscore are those that PyTorch's subclasses of it replace.

    >>> w = tede.ones(1, requires_grad=True)
    >>> optimizer, scaler = tede.optim.SGD([w], lr=0.1), tede.amp.GradScaler("cpu")
    >>> scaler.scale((3 * w).sum()).backward()
    >>> scaler.step(optimizer)
    >>> scaler.update()
    >>> w.detach()
    tensor([0.7000])
    """

    def __init__(self, device: str = "cuda", init_scale: float = 2.0 ** 16, growth_factor: float = 2.0,
                 backoff_factor: float = 0.5, growth_interval: int = 2000, enabled: bool = True) -> None:
        self._device, self._enabled = device, enabled
        if enabled and device == "cuda" and not _is_there(device):
            warnings.warn("torch.cuda.amp.GradScaler is enabled, but CUDA is not available.  Disabling.", stacklevel=2)
            self._enabled = False
        if self._enabled:
            if growth_factor <= 1.0:
                raise AssertionError("The growth factor must be > 1.0.")
            if backoff_factor >= 1.0:
                raise AssertionError("The backoff factor must be < 1.0.")
        self._init_scale, self._growth_factor, self._backoff_factor = init_scale, growth_factor, backoff_factor
        self._growth_interval, self._init_growth_tracker = growth_interval, 0
        self._scale = self._growth_tracker = None           # tensors, made by the first scale()
        self._per_optimizer_states = collections.defaultdict(_refresh_per_optimizer_state)

    def _check_scale_growth_tracker(self, funcname):
        if self._scale is None or self._growth_tracker is None:
            name = "_scale" if self._scale is None else "_growth_tracker"
            raise AssertionError(f"Attempted {funcname} but {name} is None.  This may indicate your script did not use "
                                 "scaler.scale(loss or outputs) earlier in the iteration.")
        return self._scale, self._growth_tracker

    def _lazy_init_scale_growth_tracker(self, dev):
        if self._growth_tracker is not None:
            raise AssertionError("_growth_tracker initialized before _scale")
        self._scale = _C.tensor(float(self._init_scale), dtype=_C.float32, device=dev)
        self._growth_tracker = _C.tensor(self._init_growth_tracker, dtype=_C.int32, device=dev)

    def scale(self, outputs):
        """The outputs, times the scale."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, _C.Tensor):
            if self._scale is None:
                self._lazy_init_scale_growth_tracker(outputs.device)
            return outputs * self._scale
        try:
            scaled = map(self.scale, outputs)
        except TypeError:
            raise ValueError("outputs must be a Tensor or an iterable of Tensors") from None
        return type(outputs)(scaled) if isinstance(outputs, (list, tuple)) else scaled

    def _unscale_grads_(self, optimizer, inv_scale, found_inf, allow_fp16):
        """Multiply an optimizer's gradients by inv_scale; gives found_inf by device, for the devices that have some."""
        found = {}
        with tede.no_grad():
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    grad = parameter.grad
                    if grad is None:
                        continue
                    if not allow_fp16 and grad.dtype == _C.float16:
                        raise ValueError("Attempting to unscale FP16 gradients.")
                    if grad.is_sparse:
                        if grad.dtype == _C.float16:        # sums of elements with equal indices may overflow
                            grad = parameter.grad = grad.coalesce()
                        grad = grad._values()
                    flag = found.setdefault(grad.device, found_inf)
                    _amp_foreach_non_finite_check_and_unscale_([grad], flag, inv_scale)
        return found

    def unscale_(self, optimizer):
        """Divide the gradients of an optimizer's parameters by the scale."""
        if not self._enabled:
            return
        self._check_scale_growth_tracker("unscale_")
        state = self._per_optimizer_states[id(optimizer)]
        if state["stage"] is OptState.UNSCALED:
            raise RuntimeError("unscale_() has already been called on this optimizer since the last update().")
        if state["stage"] is OptState.STEPPED:
            raise RuntimeError("unscale_() is being called after step().")
        inverse = self._scale.double().reciprocal().float()
        found = _C.tensor(0.0, dtype=_C.float32, device=self._scale.device)
        state["found_inf_per_device"] = self._unscale_grads_(optimizer, inverse, found, False)
        state["stage"] = OptState.UNSCALED

    def _maybe_opt_step(self, optimizer, optimizer_state, *args, **kwargs):
        if any(found.item() for found in optimizer_state["found_inf_per_device"].values()):
            return None
        return optimizer.step(*args, **kwargs)

    def _step_with_scaler(self, optimizer, state, args, kwargs):
        """The step of an optimizer that looks at scale and overflow itself."""
        takes = "grad_scaler" in inspect.signature(optimizer.step).parameters
        if takes:
            warnings.warn("GradScaler is going to stop passing itself as a keyword argument to the passed optimizer. In the near "
                          "future GradScaler registers `grad_scale: Tensor` and `found_inf: Tensor` to the passed optimizer and let "
                          "the optimizer use them directly.", FutureWarning, stacklevel=3)
            kwargs["grad_scaler"] = self
        else:
            if state["stage"] is OptState.READY:
                self._check_inf_per_device(optimizer)
            flags = list(state["found_inf_per_device"].values())
            optimizer.grad_scale = None if state["stage"] is OptState.UNSCALED else self._scale
            optimizer.found_inf = sum(flags[1:], flags[0])
        result = optimizer.step(*args, **kwargs)
        state["stage"] = OptState.STEPPED
        if not takes:
            del optimizer.grad_scale, optimizer.found_inf
        return result

    def step(self, optimizer, *args, **kwargs):
        """optimizer.step(), unless a gradient isn't finite."""
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        self._check_scale_growth_tracker("step")
        state = self._per_optimizer_states[id(optimizer)]
        if state["stage"] is OptState.STEPPED:
            raise RuntimeError("step() has already been called since the last update().")
        if getattr(optimizer, "_step_supports_amp_scaling", False):
            return self._step_with_scaler(optimizer, state, args, kwargs)
        if state["stage"] is OptState.READY:
            self.unscale_(optimizer)
        if not state["found_inf_per_device"]:
            raise AssertionError("No inf checks were recorded for this optimizer.")
        result = self._maybe_opt_step(optimizer, state, *args, **kwargs)
        state["stage"] = OptState.STEPPED
        return result

    def update(self, new_scale=None):
        """Change the scale by what the last step met."""
        if not self._enabled:
            return
        scale, tracker = self._check_scale_growth_tracker("update")
        if new_scale is None:
            found = [flag for state in self._per_optimizer_states.values() for flag in state["found_inf_per_device"].values()]
            if not found:
                raise AssertionError("No inf checks were recorded prior to update.")
            _amp_update_scale_(scale, tracker, sum(found[1:], found[0]), self._growth_factor, self._backoff_factor,
                               self._growth_interval)
        elif isinstance(new_scale, float):
            scale.fill_(new_scale)
        else:
            if not isinstance(new_scale, _C.Tensor) or new_scale.numel() != 1 or new_scale.requires_grad:
                raise AssertionError("new_scale should be a float or a 1-element torch.cuda.FloatTensor or torch.FloatTensor with "
                                     "requires_grad=False.")
            scale.copy_(new_scale.reshape(()))
        self._per_optimizer_states.clear()

    def _found_inf_per_device(self, optimizer):
        return self._per_optimizer_states[id(optimizer)]["found_inf_per_device"]

    def _check_inf_per_device(self, optimizer):
        scale, _ = self._check_scale_growth_tracker("_check_inf_per_device")
        one, found = _C.tensor(1.0, device=scale.device), _C.tensor(0.0, device=scale.device)
        state = self._per_optimizer_states[id(optimizer)]
        state["found_inf_per_device"] = self._unscale_grads_(optimizer, one, found, True)
        return state["found_inf_per_device"]

    def _get_scale_async(self):
        return self._scale

    def _get_growth_tracker(self):
        if not self._enabled:
            return 0
        return self._init_growth_tracker if self._growth_tracker is None else self._growth_tracker.item()

    def get_scale(self):
        """The factor, a number."""
        if not self._enabled:
            return 1.0
        return self._init_scale if self._scale is None else self._scale.item()

    def get_growth_factor(self):
        """By what the factor grows."""
        return self._growth_factor

    def set_growth_factor(self, new_factor):
        """Set by what the factor grows."""
        self._growth_factor = new_factor

    def get_backoff_factor(self):
        """By what the factor shrinks."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor):
        """Set by what the factor shrinks."""
        self._backoff_factor = new_factor

    def get_growth_interval(self):
        """After how many steps the factor grows."""
        return self._growth_interval

    def set_growth_interval(self, new_interval):
        """Set after how many steps the factor grows."""
        self._growth_interval = new_interval

    def is_enabled(self):
        """Whether it does anything."""
        return self._enabled

    def state_dict(self):
        """The factor and its settings, for a checkpoint; empty if it isn't enabled."""
        if not self._enabled:
            return {}
        return {"scale": self.get_scale(), "growth_factor": self._growth_factor, "backoff_factor": self._backoff_factor,
                "growth_interval": self._growth_interval, "_growth_tracker": self._get_growth_tracker()}

    def load_state_dict(self, state_dict):
        """Take what `state_dict` gave. A RuntimeError if that is empty and this one is enabled."""
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError("The source state dict is empty, possibly because it was saved from a disabled instance of "
                               "GradScaler.")
        self._init_scale, self._init_growth_tracker = state_dict["scale"], state_dict["_growth_tracker"]
        if self._scale is not None:
            self._scale.fill_(self._init_scale)
        self._growth_factor, self._backoff_factor = state_dict["growth_factor"], state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]
        if self._growth_tracker is not None:
            self._growth_tracker.fill_(self._init_growth_tracker)

    def __getstate__(self):
        state = self.__dict__.copy()
        if self._enabled:
            if self._per_optimizer_states:
                raise AssertionError("A GradScaler instance may only be pickled at the beginning of an iteration, or at the end "
                                     "after scaler.update().")
            state.update(_init_scale=self.get_scale(), _init_growth_tracker=self._get_growth_tracker(), _scale=None,
                         _growth_tracker=None)
        return state

    def __setstate__(self, state):
        self.__dict__.update(state)


autocast_mode = grad_scaler = sys.modules[__name__]        # PyTorch's modules of these names
