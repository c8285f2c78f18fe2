"""Quantized layers in one."""
from . import modules  # noqa: F401
from .modules import *  # noqa: F403
from .modules import __all__  # noqa: F401
from . import dynamic  # noqa: F401, I001
