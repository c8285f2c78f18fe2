"""Helpers around tensors and training; each submodule is loaded when it is first named."""
_SUBMODULES = frozenset((
    "data", "checkpoint", "hooks", "_pytree", "_python_dispatch", "_contextlib", "dlpack", "tensorboard", "benchmark",
    "cpp_extension", "model_zoo", "flop_counter", "collect_env", "serialization", "backend_registration", "weak",
))


def __getattr__(name):
    if name in _SUBMODULES:
        try:
            return __import__("tede.utils." + name, fromlist=[name])
        except ModuleNotFoundError as error:
            if error.name != "tede.utils." + name:
                raise
            from tede._absent import find
            if find("utils." + name):
                return find("utils." + name)
    raise AttributeError(f"module 'tede.utils' has no attribute '{name}'")


def set_module(obj, mod):
    """Let an object say that it comes from a module."""
    if not isinstance(mod, str):
        raise TypeError("The mod argument should be a string")
    obj.__module__ = mod
