"""Layers whose weights go through fake quantization, and whose activations are quantized as they come."""
from . import modules  # noqa: F401
from .modules import *  # noqa: F403
