"""sdpa_kernel and SDPBackend: the choice of a backend for `scaled_dot_product_attention`. There is one, so a choice is only checked and remembered."""
from contextlib import contextmanager
from enum import Enum

__all__ = ["SDPBackend", "WARN_FOR_UNFUSED_KERNELS", "sdpa_kernel"]

WARN_FOR_UNFUSED_KERNELS = False


class SDPBackend(Enum):
    """The backends of `scaled_dot_product_attention` in PyTorch. Here there is one, so a choice is only kept.

    >>> nn.attention.SDPBackend.MATH
    <SDPBackend.MATH: 0>
    """

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
    """Say within the block which backends `scaled_dot_product_attention` may use. Here there is one, so a choice is
    only checked and kept.

        backends: an `SDPBackend`, or a list of them.
        set_priority: whether their order counts; it doesn't here.

    >>> with nn.attention.sdpa_kernel(nn.attention.SDPBackend.MATH):
    ...     F.scaled_dot_product_attention(tede.ones(1, 2, 4), tede.ones(1, 3, 4), tede.ones(1, 3, 4)).shape
    tede.Size([1, 2, 4])
    """
    global _chosen
    if not isinstance(backends, (list, SDPBackend)):
        raise AssertionError("Backend must be an instance of SDPBackend or a list of SDPBackend instances")
    before, _chosen = _chosen, list(dict.fromkeys([backends] if isinstance(backends, SDPBackend) else backends))
    try:
        yield {}
    finally:
        _chosen = before
