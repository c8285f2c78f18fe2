"""Weights whose gradients are kept by sample: an ExpandedWeight stands for a parameter in a call, and a backward pass through layers that
were given it adds the gradients of the single samples to the parameter's `grad_sample`."""
from .expanded_weights_impl import ExpandedWeight

__all__ = ["ExpandedWeight"]
