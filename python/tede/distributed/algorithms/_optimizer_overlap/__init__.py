"""Optimizers whose steps are taken while gradients of other parameters are still on their way."""
from .optimizer_overlap import _as_overlapped_optim  # noqa: F401
