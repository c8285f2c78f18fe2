"""torch.ao: eager-mode quantization (`quantization`), and the layers that it makes (`nn`).

What is about graphs of torch.fx or torch.export (prepare_fx, pt2e) isn't here and says so."""
from tede._compat import fill

from . import quantization  # noqa: F401     it imports the layers once it has what they need of it
from . import nn  # noqa: F401
from . import ns  # noqa: F401

__all__ = ["nn", "ns", "pruning", "quantization"]
fill(globals())
