"""Helpers around training: data, benchmark, tensorboard, checkpoint, ..."""


def __getattr__(name):
    if name in ("data", "benchmark", "tensorboard", "checkpoint", "_pytree", "dlpack", "model_zoo", "collect_env", "hooks",
                "serialization", "backend_registration", "cpp_extension", "flop_counter", "weak"):
        import importlib
        try:
            return importlib.import_module("tede.utils." + name)
        except ModuleNotFoundError as error:
            if error.name != "tede.utils." + name:
                raise
    raise AttributeError(f"module 'tede.utils' has no attribute '{name}'")


def set_module(obj, mod):
    """Let an object say that it comes from a module."""
    if not isinstance(mod, str):
        raise TypeError("The mod argument should be a string")
    obj.__module__ = mod
