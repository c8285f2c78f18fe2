"""Options of PyTorch's compiler of graphs (torch._functorch.config): they can be set and read back, and change nothing."""
from tede import _dynamo

patch = _dynamo.config.patch


def __getattr__(name):
    return getattr(_dynamo.config, name)
