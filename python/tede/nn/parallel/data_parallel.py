"""DataParallel: a module over several devices of one process. The CPU is one: with no other it is the module itself."""
from ..modules.module import Module
from ._scatter import gather, scatter_kwargs

__all__ = ["DataParallel", "data_parallel"]


class DataParallel(Module):
    """Calls `module`: there are no devices to spread the batch over, as in PyTorch on the CPU. Its state dict has the
    prefix "module.". For several processes see `parallel.DistributedDataParallel`.

        module: what is called.
        device_ids, output_device: kept for PyTorch's signature.
        dim: the batch's dimension.

    >>> nn.DataParallel(nn.Linear(3, 2))(tede.ones(4, 3)).shape
    tede.Size([4, 2])
    """

    def __init__(self, module, device_ids=None, output_device=None, dim=0):
        super().__init__()
        self.module, self.device_ids, self.dim = module, [], dim

    def forward(self, *inputs, **kwargs):
        """What the module gives."""
        return self.module(*inputs, **kwargs)

    def scatter(self, inputs, kwargs, device_ids):
        """Arguments in parts, one for each of device_ids."""
        return scatter_kwargs(inputs, kwargs, device_ids, dim=self.dim)

    def gather(self, outputs, output_device):
        """Results of parts, as one."""
        return gather(outputs, output_device, dim=self.dim)


def data_parallel(module, inputs, device_ids=None, output_device=None, dim=0, module_kwargs=None):
    """`DataParallel` as a function."""
    inputs = inputs if isinstance(inputs, tuple) else () if inputs is None else (inputs,)
    return module(*inputs, **(module_kwargs or {}))
