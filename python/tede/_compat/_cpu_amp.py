"""torch.cpu.amp: the older names of tede.amp for this device."""
from tede import amp as _amp
from tede._C import bfloat16

__all__ = ["GradScaler", "autocast"]


class autocast(_amp.autocast):
    """amp.autocast("cpu")"""

    def __init__(self, enabled=True, dtype=bfloat16, cache_enabled=True):
        _amp._older("cpu", "autocast")
        super().__init__("cpu", enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)


class GradScaler(_amp.GradScaler):
    """amp.GradScaler("cpu")"""

    def __init__(self, init_scale=2.0 ** 16, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000, enabled=True):
        _amp._older("cpu", "GradScaler")
        super().__init__("cpu", init_scale=init_scale, growth_factor=growth_factor, backoff_factor=backoff_factor,
                         growth_interval=growth_interval, enabled=enabled)
