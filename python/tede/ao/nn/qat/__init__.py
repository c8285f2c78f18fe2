"""Layers whose weights go through fake quantization; `dynamic` has those whose activations are quantized as they come."""
from . import modules  # noqa: F401
from .modules import *  # noqa: F403
from . import dynamic  # noqa: F401, I001
