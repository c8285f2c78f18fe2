"""Predicates about what could be compiled."""
import functools
import warnings


def is_compile_supported(device_type):
    """False: torch.compile leaves everything as it is."""
    return False


@functools.cache
def warn_once(msg, stacklevel=1):
    """A warning that each text gives once."""
    warnings.warn(msg, stacklevel=stacklevel + 1)


def clone_input(x, *, dtype=None):
    """A copy of a tensor with its strides, its gradient too, and no history; it needs a gradient if the tensor does."""
    import tede
    with tede.no_grad():
        made = tede.empty_strided(x.shape, x.stride(), dtype=dtype or x.dtype, device=x.device).copy_(x)
        made.requires_grad_(x.requires_grad)
        if x.is_leaf and x.grad is not None:
            made.grad = clone_input(x.grad, dtype=dtype)
    return made
