"""Models over several devices. There is one device so far, so this is what PyTorch does where it finds no other."""
from ..modules.module import Module
from ._scatter import gather, scatter, scatter_kwargs  # noqa: F401

__all__ = ["DataParallel", "DistributedDataParallel", "data_parallel", "gather", "parallel_apply", "replicate", "scatter"]


class DataParallel(Module):
    """Calls `module`: there are no devices to spread the batch over. Its state dict has the prefix "module."."""

    def __init__(self, module, device_ids=None, output_device=None, dim=0):
        super().__init__()
        self.module, self.device_ids, self.dim = module, [], dim

    def forward(self, *inputs, **kwargs):
        return self.module(*inputs, **kwargs)


def data_parallel(module, inputs, device_ids=None, output_device=None, dim=0, module_kwargs=None):
    """`DataParallel` as a function."""
    inputs = inputs if isinstance(inputs, tuple) else (inputs,)
    return module(*inputs, **(module_kwargs or {}))


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


class DistributedDataParallel(Module):
    def __init__(self, *args, **kwargs):
        raise NotImplementedError("DistributedDataParallel: there are no process groups yet")


from . import distributed  # noqa: E402, F401
