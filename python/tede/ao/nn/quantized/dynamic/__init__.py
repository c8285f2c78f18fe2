"""Layers with quantized weights, whose input is quantized to the range that it has, and whose results are floats."""
from . import modules  # noqa: F401
from .modules import *  # noqa: F403
