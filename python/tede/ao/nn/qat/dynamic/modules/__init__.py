"""Layers for dynamic quantization after training."""
from .linear import Linear

__all__ = ["Linear"]
