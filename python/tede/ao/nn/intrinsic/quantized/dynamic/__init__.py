"""Layers in one with quantized weights, of floats."""
from . import modules  # noqa: F401
from .modules import *  # noqa: F403
