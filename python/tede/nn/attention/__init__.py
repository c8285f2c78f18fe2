"""sdpa_kernel and SDPBackend: the choice of a backend for `scaled_dot_product_attention`. There is one, so a choice is only checked and remembered."""
from contextlib import contextmanager
from enum import Enum

__all__ = ["SDPBackend", "WARN_FOR_UNFUSED_KERNELS", "sdpa_kernel"]

WARN_FOR_UNFUSED_KERNELS = False


class SDPBackend(Enum):
    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4

    def __int__(self):
        return self.value

    __index__ = __int__


_chosen = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH, SDPBackend.CUDNN_ATTENTION]


def _cur_sdpa_kernel_backends(with_priority=False):
    return list(_chosen)


@contextmanager
def sdpa_kernel(backends, set_priority=False):
    """Say within the block which backends may be used."""
    global _chosen
    if not isinstance(backends, (list, SDPBackend)):
        raise AssertionError("Backend must be an instance of SDPBackend or a list of SDPBackend instances")
    before, _chosen = _chosen, list(dict.fromkeys([backends] if isinstance(backends, SDPBackend) else backends))
    try:
        yield {}
    finally:
        _chosen = before
