"""Layers in one, whose weights go through fake quantization."""
from . import modules  # noqa: F401
from .modules import *  # noqa: F403
