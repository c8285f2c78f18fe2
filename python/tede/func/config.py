"""Options of PyTorch's compiler of graphs (torch._functorch.config): they can be set and read back, and change nothing."""
from tede._options import config as _config

patch = _config.patch


def __getattr__(name):
    return getattr(_config, name)
