"""Mixed precision: autocast, which casts operands of products to a half type, and GradScaler, which scales losses.

On the CPU autocast is real, with bfloat16 or float16. For devices that aren't there it is off, with PyTorch's warning.
"""
import functools
import threading
import warnings

from tede import _C

_state = threading.local()
_defaults = {"cpu": _C.bfloat16, "cuda": _C.float16, "xpu": _C.bfloat16, "mps": _C.float16, "hpu": _C.bfloat16,
             "mtia": _C.bfloat16, "ipu": _C.float16, "xla": _C.bfloat16}


def _older(device_type, name):
    """What torch.cuda.amp and torch.cpu.amp say of their names."""
    warnings.warn(f"`torch.{device_type}.amp.{name}(args...)` is deprecated. Please use `torch.amp.{name}('{device_type}', args...)` "
                  "instead.", FutureWarning, stacklevel=3)


def is_autocast_available(device_type):
    """Whether the device's kind knows autocast."""
    if not isinstance(device_type, str):
        raise TypeError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
    _C.device(device_type)
    return device_type in _defaults


def _enabled(device_type):
    return getattr(_state, device_type, False)


def is_autocast_enabled(device_type="cuda"):
    return _enabled(device_type)


def set_autocast_enabled(device_type, enabled=None):
    if enabled is None:
        device_type, enabled = "cuda", device_type
    setattr(_state, device_type, bool(enabled))
    _apply()


def get_autocast_dtype(device_type):
    return getattr(_state, device_type + "_dtype", _defaults[device_type])


def set_autocast_dtype(device_type, dtype):
    setattr(_state, device_type + "_dtype", dtype)
    _apply()


def is_autocast_cache_enabled():
    return getattr(_state, "cache", True)


def set_autocast_cache_enabled(enabled):
    _state.cache = enabled
    _apply()


def autocast_increment_nesting():
    return _C._autocast_deeper(1)


def autocast_decrement_nesting():
    return _C._autocast_deeper(-1)


def _apply():
    _C._set_autocast(get_autocast_dtype("cpu") if _enabled("cpu") else None, is_autocast_cache_enabled())


class autocast:
    """autocast("cpu", dtype=bfloat16): within it, and in functions that it decorates, products compute in `dtype`."""

    def __init__(self, device_type, dtype=None, enabled=True, cache_enabled=None):
        if not isinstance(device_type, str):
            raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
        _C.device(device_type)
        if device_type not in _defaults:
            raise RuntimeError(f"User specified an unsupported autocast device_type '{device_type}'")
        self.device, self.fast_dtype = device_type, dtype or get_autocast_dtype(device_type)
        if enabled and device_type == "cuda":
            warnings.warn("CUDA is not available or torch_xla is imported. Disabling autocast.", stacklevel=2)
            enabled = False
        elif enabled and device_type != "cpu":
            warnings.warn(f"User provided device_type of '{device_type}', but {device_type.upper()} is not available. Disabling",
                          stacklevel=2)
            enabled = False
        if enabled and self.fast_dtype not in (_C.bfloat16, _C.float16):
            warnings.warn("In CPU autocast, but the target dtype is not supported. Disabling autocast.\nCPU Autocast only "
                          "supports dtype of torch.bfloat16, torch.float16 currently.", stacklevel=2)
            enabled = False
        self._enabled = enabled
        self._cache_enabled = is_autocast_cache_enabled() if cache_enabled is None else cache_enabled

    def __enter__(self):
        self.prev, self.prev_fastdtype = _enabled(self.device), get_autocast_dtype(self.device)
        self.prev_cache_enabled = is_autocast_cache_enabled()
        self._set(self._enabled, self.fast_dtype, self._cache_enabled)
        _C._autocast_deeper(1)
        return self

    def __exit__(self, *exception):
        _C._autocast_deeper(-1)
        self._set(self.prev, self.prev_fastdtype, self.prev_cache_enabled)
        return False

    def _set(self, enabled, dtype, cache):
        setattr(_state, self.device, enabled)
        setattr(_state, self.device + "_dtype", dtype)
        _state.cache = cache
        _apply()

    def __call__(self, func):
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
    """For the forward of an autograd.Function: run it as autocast finds it, or with all inputs cast."""
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
    """For the backward: run it in the state that custom_fwd met."""
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def wrapped(*args, **kwargs):
        with autocast(device_type, enabled=args[0]._fwd_used_autocast, dtype=args[0]._dtype):
            return bwd(*args, **kwargs)
    return wrapped


class GradScaler:
    """Scales a loss so that small gradients survive in half types; skips steps whose gradients aren't finite."""

    def __init__(self, device="cuda", init_scale=2.0 ** 16, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000,
                 enabled=True):
        self._device, self._enabled = device, enabled
        if enabled and device == "cuda":
            warnings.warn("torch.cuda.amp.GradScaler is enabled, but CUDA is not available.  Disabling.", stacklevel=2)
            self._enabled = False
        if self._enabled:
            if growth_factor <= 1.0:
                raise AssertionError("The growth factor must be > 1.0.")
            if backoff_factor >= 1.0:
                raise AssertionError("The backoff factor must be < 1.0.")
        self._init_scale, self._growth_factor, self._backoff_factor = init_scale, growth_factor, backoff_factor
        self._growth_interval, self._growth_tracker = growth_interval, 0
        self._scale, self._found = float(init_scale), {}

    def _check(self, name):
        return self._found.setdefault(name, {"state": "ready", "inf": None})

    def scale(self, outputs):
        """The outputs, times the scale."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, _C.Tensor):
            return outputs * self._scale
        try:
            scaled = map(self.scale, outputs)
        except TypeError:
            raise ValueError("outputs must be a Tensor or an iterable of Tensors") from None
        return type(outputs)(scaled) if isinstance(outputs, (list, tuple)) else scaled

    def unscale_(self, optimizer):
        """Divide the gradients of an optimizer's parameters by the scale."""
        if not self._enabled:
            return
        state = self._check(id(optimizer))
        if state["state"] == "unscaled":
            raise RuntimeError("unscale_() has already been called on this optimizer since the last update().")
        if state["state"] == "stepped":
            raise RuntimeError("unscale_() is being called after step().")
        inverse, bad = 1.0 / self._scale, False
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    if parameter.grad.dtype == _C.float16:
                        raise ValueError("Attempting to unscale FP16 gradients.")
                    parameter.grad.mul_(inverse)
                    bad = bad or not bool(parameter.grad.isfinite().all())
        state.update(state="unscaled", inf=bad)

    def step(self, optimizer, *args, **kwargs):
        """optimizer.step(), unless a gradient isn't finite."""
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        state = self._check(id(optimizer))
        if state["state"] == "stepped":
            raise RuntimeError("step() has already been called since the last update().")
        if state["state"] == "ready":
            self.unscale_(optimizer)
        state["state"] = "stepped"
        return None if state["inf"] else optimizer.step(*args, **kwargs)

    def update(self, new_scale=None):
        """Change the scale by what the last step met."""
        if not self._enabled:
            return
        if new_scale is not None:
            self._scale = float(new_scale)
        else:
            if not any(state["inf"] is not None for state in self._found.values()):
                raise AssertionError("No inf checks were recorded prior to update.")
            if any(state["inf"] for state in self._found.values()):
                self._scale *= self._backoff_factor
                self._growth_tracker = 0
            else:
                self._growth_tracker += 1
                if self._growth_tracker == self._growth_interval:
                    self._scale *= self._growth_factor
                    self._growth_tracker = 0
        self._found.clear()

    def get_scale(self):
        return self._scale if self._enabled else 1.0

    def get_growth_factor(self):
        return self._growth_factor

    def set_growth_factor(self, new_factor):
        self._growth_factor = new_factor

    def get_backoff_factor(self):
        return self._backoff_factor

    def set_backoff_factor(self, new_factor):
        self._backoff_factor = new_factor

    def get_growth_interval(self):
        return self._growth_interval

    def set_growth_interval(self, new_interval):
        self._growth_interval = new_interval

    def is_enabled(self):
        return self._enabled

    def state_dict(self):
        if not self._enabled:
            return {}
        return {"scale": self.get_scale(), "growth_factor": self._growth_factor, "backoff_factor": self._backoff_factor,
                "growth_interval": self._growth_interval, "_growth_tracker": self._growth_tracker}

    def load_state_dict(self, state_dict):
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError("The source state dict is empty, possibly because it was saved from a disabled instance of "
                               "GradScaler.")
        self._scale = self._init_scale = state_dict["scale"]
        self._growth_factor, self._backoff_factor = state_dict["growth_factor"], state_dict["backoff_factor"]
        self._growth_interval, self._growth_tracker = state_dict["growth_interval"], state_dict["_growth_tracker"]
