"""skip_init: modules constructed without initial values."""
from ..modules.module import Module


def skip_init(module_cls, *args, **kwargs):
    """A module whose parameters are whatever the memory holds, for those that are about to be filled anyway:
    ``module_cls(*args, **kwargs)`` on "meta", then `to_empty`. A RuntimeError if the class takes no `device`.

    >>> nn.utils.skip_init(nn.Linear, 3, 2).weight.shape
    tede.Size([2, 3])
    """
    import inspect
    if not issubclass(module_cls, Module):
        raise RuntimeError(f"Expected a Module; got {module_cls}")
    if "device" not in inspect.signature(module_cls).parameters:
        raise RuntimeError("Module must support a 'device' arg to skip initialization")
    device = kwargs.pop("device", "cpu")
    return module_cls(*args, device="meta", **kwargs).to_empty(device=device)
