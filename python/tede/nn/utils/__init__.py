"""Helpers around modules: clipping gradients, parameters as vectors, parametrizations, pruning, sequences of different
lengths. All but `rnn` and the first two are loaded when they are first named."""
import sys

from . import rnn
from .clip_grad import clip_grad_norm, clip_grad_norm_, clip_grad_value_, clip_grads_with_norm_, get_total_norm
from .convert_parameters import parameters_to_vector, vector_to_parameters

_FILES = {
    "fusion": "fuse_conv_bn_eval fuse_conv_bn_weights fuse_linear_bn_eval fuse_linear_bn_weights",
    "init": "skip_init",
    "memory_format": "convert_conv2d_weight_memory_format convert_conv3d_weight_memory_format",
    "parametrizations": "",
    "parametrize": "",
    "prune": "",
    "spectral_norm": "spectral_norm remove_spectral_norm",
    "stateless": "",
    "weight_norm": "weight_norm remove_weight_norm",
}
_HOME = {name: file for file, names in _FILES.items() for name in names.split()}
__all__ = ["clip_grad_norm", "clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "get_total_norm",
           "parameters_to_vector", "parametrizations", "parametrize", "rnn", "stateless", "vector_to_parameters", *_HOME]


class _Package(type(sys)):
    """`spectral_norm` and `weight_norm` are functions here, though files have these names: importing a file sets it
    as an attribute of its package, which must not hide the function."""

    def __setattr__(self, name, value):
        if name in _HOME and isinstance(value, type(sys)):
            value = getattr(value, name, value)
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def __getattr__(name: str) -> "Any":
    file = _HOME.get(name, name)
    if file not in _FILES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = f"{__name__}.{file}"
    __import__(module)
    value = globals()[name] = getattr(sys.modules[module], name) if name in _HOME else sys.modules[module]
    return value


def __dir__():
    return sorted({*globals(), *__all__, *_FILES})
