"""Neural networks: modules with parameters, functions without, initial values.

All of it is loaded when it is first named; see `modules` for which file holds which layer.
"""
import sys

from . import modules
from .parameter import Buffer as Buffer, Parameter as Parameter, UninitializedBuffer as UninitializedBuffer, UninitializedParameter as UninitializedParameter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any
    from .modules.activation import *  # noqa: F403
    from .modules.adaptive import *  # noqa: F403
    from .modules.attention import *  # noqa: F403
    from .modules.batchnorm import *  # noqa: F403
    from .modules.channelshuffle import *  # noqa: F403
    from .modules.container import *  # noqa: F403
    from .modules.conv import *  # noqa: F403
    from .modules.distance import *  # noqa: F403
    from .modules.dropout import *  # noqa: F403
    from .modules.flatten import *  # noqa: F403
    from .modules.fold import *  # noqa: F403
    from .modules.instancenorm import *  # noqa: F403
    from .modules.linear import *  # noqa: F403
    from .modules.linear_cross_entropy_options import *  # noqa: F403
    from .modules.loss import *  # noqa: F403
    from .modules.module import *  # noqa: F403
    from .modules.normalization import *  # noqa: F403
    from .modules.padding import *  # noqa: F403
    from .modules.pixelshuffle import *  # noqa: F403
    from .modules.pooling import *  # noqa: F403
    from .modules.rnn import *  # noqa: F403
    from .modules.sparse import *  # noqa: F403
    from .modules.transformer import *  # noqa: F403
    from .modules.upsampling import *  # noqa: F403
    from .parallel import DataParallel as DataParallel
    from tede.nn import functional as functional, init as init, modules as modules, parameter as parameter, utils as utils
_SUBMODULES = ("_reduction", "attention", "common_types", "functional", "grad", "init", "intrinsic", "modules", "parallel", "parameter",
               "qat", "quantized", "utils")
__all__ = [*modules.__all__, "Buffer", "DataParallel", "Parameter", "UninitializedBuffer", "UninitializedParameter"]


def __getattr__(name: str) -> "Any":
    if name in modules._HOME:
        value = globals()[name] = getattr(modules, name)
        return value
    if name == "DataParallel":
        from .parallel import DataParallel
        return DataParallel
    if name in _SUBMODULES:
        __import__(f"{__name__}.{name}")
        return sys.modules[f"{__name__}.{name}"]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return [*__all__, *_SUBMODULES, "factory_kwargs"]


def factory_kwargs(kwargs):
    """The device, dtype and memory_format among `kwargs`, merged with those under "factory_kwargs"."""
    if kwargs is None:
        return {}
    simple = {"device", "dtype", "memory_format"}
    unknown = kwargs.keys() - simple - {"factory_kwargs"}
    if unknown:
        raise TypeError(f"unexpected kwargs {unknown}")
    merged = dict(kwargs.get("factory_kwargs", {}))
    for key in simple & kwargs.keys():
        if key in merged:
            raise TypeError(f"{key} specified twice, in **kwargs and in factory_kwargs")
        merged[key] = kwargs[key]
    return merged
