"""The older names of tede.amp."""
import functools
from importlib.util import find_spec as _find_spec

from tede import amp as _amp
from tede._C import float16
from tede.amp import custom_bwd as _bwd, custom_fwd as _fwd

__all__ = ["GradScaler", "amp_definitely_not_available", "autocast", "custom_bwd", "custom_fwd"]


class autocast(_amp.autocast):
    """amp.autocast("cuda")"""

    def __init__(self, enabled=True, dtype=float16, cache_enabled=True):
        _amp._older("cuda", "autocast")
        super().__init__("cuda", enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)


class GradScaler(_amp.GradScaler):
    """amp.GradScaler("cuda")"""

    def __init__(self, init_scale=2.0 ** 16, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000, enabled=True):
        _amp._older("cuda", "GradScaler")
        super().__init__("cuda", init_scale=init_scale, growth_factor=growth_factor, backoff_factor=backoff_factor,
                         growth_interval=growth_interval, enabled=enabled)



def amp_definitely_not_available():
    """Whether neither CUDA nor XLA is there."""
    from tede import cuda
    return not (cuda.is_available() or _find_spec("torch_xla"))


custom_fwd = functools.partial(_fwd, device_type="cuda")
custom_bwd = functools.partial(_bwd, device_type="cuda")
