"""Neural networks: modules with parameters, functions without, initial values."""
from . import functional, init, modules, parameter, utils
from .modules import *          # noqa: F401,F403
from .parameter import Buffer, Parameter, UninitializedBuffer, UninitializedParameter


def factory_kwargs(kwargs):
    """The device, dtype and memory_format among `kwargs`, merged with those under "factory_kwargs"."""
    if kwargs is None:
        return {}
    simple = {"device", "dtype", "memory_format"}
    if kwargs.keys() - simple - {"factory_kwargs"}:
        raise TypeError(f"unexpected kwargs {kwargs.keys() - simple - {'factory_kwargs'}}")
    merged = dict(kwargs.get("factory_kwargs", {}))
    for key in simple & kwargs.keys():
        if key in merged:
            raise TypeError(f"{key} specified twice, in **kwargs and in factory_kwargs")
        merged[key] = kwargs[key]
    return merged
