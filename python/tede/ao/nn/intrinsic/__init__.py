"""Layers in one, as they are before quantization; `qat` and `quantized` have what they become."""
from . import modules  # noqa: F401
from .modules import *  # noqa: F403
from .modules import __all__, _FusedModule  # noqa: F401
from . import qat, quantized  # noqa: F401, I001
