"""Layers made of layers that can be observed and quantized, in place of those that are one operator."""
from . import modules  # noqa: F401
from .modules import *  # noqa: F403
from .modules import __all__  # noqa: F401
