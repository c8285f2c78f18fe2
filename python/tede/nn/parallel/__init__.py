"""Models over several processes (DistributedDataParallel), and over several devices of one, which is what PyTorch does where it finds no other."""
from ._scatter import gather, scatter, scatter_kwargs  # noqa: F401
from .data_parallel import DataParallel, data_parallel

__all__ = ["DataParallel", "DistributedDataParallel", "data_parallel", "gather", "parallel_apply", "replicate", "scatter"]


def replicate(network, devices, detach=False):
    """The module once per device, of which there are none: an empty list of devices gives an empty list."""
    if devices:
        raise AssertionError("Broadcast function not implemented for CPU tensors")
    return []


def parallel_apply(modules, inputs, kwargs_tup=None, devices=None):
    """Each module called on its input, all at once, on devices, of which there are none."""
    for name, given in (("inputs", inputs), ("kwargs_tup", kwargs_tup), ("devices", devices)):
        if given is not None and len(modules) != len(given):
            raise AssertionError(f"The number of modules {len(modules)} is not equal to the number of {name} {len(given)}")
    raise RuntimeError("Cannot access accelerator device when none is available.")


def __getattr__(name):
    if name in ("DistributedDataParallel", "distributed"):      # loads the process groups, which most programs don't need
        from importlib import import_module
        module = import_module(".distributed", __name__)
        globals()["DistributedDataParallel"] = module.DistributedDataParallel
        return globals()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
