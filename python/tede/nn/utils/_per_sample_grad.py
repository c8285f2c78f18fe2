"""Gradients of each sample beside those of the batch: call_for_per_sample_grads(module)(input) is module(input), and a backward pass
leaves every parameter's gradients of the single samples in its `grad_sample`.

The module is called with expanded weights for parameters, whose functions know their samples' gradients (_expanded_weights)."""
import functools

import tede
from tede import func
from tede.utils import _pytree as pytree

from ._expanded_weights import ExpandedWeight

__all__ = ["call_for_per_sample_grads"]


def _batch_size(batch_dim, arguments):
    sizes = [x.shape[batch_dim] for x in pytree.tree_leaves(arguments) if isinstance(x, tede.Tensor)]
    if not sizes:
        raise RuntimeError("Unable to find a tensor in the passed args and kwargs. They may not be pytree-able and so ExpandedWeights cannot "
                           "compute the batch size from the inputs. Please specify it explicitly")
    for size in sizes[1:]:
        if size != sizes[0]:
            raise RuntimeError(f"When computing batch size, found at least one input with batch size {sizes[0]} and one with batch size {size}. "
                               "Please specify it explicitly using the batch size kwarg in call_for_per_sample_grads")
    return sizes[0]


def call_for_per_sample_grads(module, *, batch_size=None, loss_reduction="sum", batch_first=True):
    """`module` as a function that leaves gradients per sample.

    module: an nn.Module whose samples don't depend on each other; its parameters must have no `grad_sample` yet.
    batch_size: the number of samples; by default the batch dimension of the tensors given.
    loss_reduction: "sum" or "mean", as the loss reduces; with a mean each sample's gradient is multiplied by the batch size.
    batch_first: whether the batch is the first dimension of the tensors, not the second."""
    if loss_reduction not in ("sum", "mean"):
        raise RuntimeError(f"Expected loss_reduction argument to be sum or mean, got {loss_reduction}")
    if not isinstance(module, tede.nn.Module):
        raise RuntimeError(f"Module passed must be nn.Module, got {type(module).__name__}")
    if batch_size is not None and not isinstance(batch_size, int):
        raise RuntimeError(f"Batch size passed must be None or an integer, got {type(batch_size).__name__}")
    if batch_size is not None and batch_size < 1:
        raise RuntimeError(f"Batch size must be positive, got {batch_size}")
    for parameter in module.parameters():
        if getattr(parameter, "grad_sample", None) is not None:
            raise RuntimeError("Current Expanded Weights accumulates the gradients, which will be incorrect for multiple calls without clearing "
                               f"gradients. Please clear out the grad_sample parameter of {parameter} or post an issue to pytorch/pytorch to "
                               "prioritize correct behavior")
    batch_dim = 0 if batch_first else 1

    @functools.wraps(module.forward)
    def wrapper(*args, **kwargs):
        size = _batch_size(batch_dim, (args, kwargs)) if batch_size is None else batch_size
        parameters = {name: ExpandedWeight(p, size, loss_reduction, batch_first) if p.requires_grad else p for name, p in module.named_parameters()}
        return func.functional_call(module, parameters, args, kwargs)
    return wrapper
