"""PyTorch's package functorch.einops."""
from tede.func._einops import rearrange  # noqa: F401

__all__ = ["rearrange"]
