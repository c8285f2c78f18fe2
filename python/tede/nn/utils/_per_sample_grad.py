"""Gradients of each sample beside those of the batch: call_for_per_sample_grads(module)(input) is module(input), and a backward pass
leaves every parameter's gradients of the single samples in its `grad_sample`.

PyTorch has a formula per layer for this (expanded weights); here the module is run once more in the backward pass, as a function of one
sample that vmap takes over the batch, so that every layer that vmap knows will do."""
import functools

import tede
from tede import func
from tede.autograd import Function
from tede.utils import _pytree as pytree

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


class _Call(Function):
    """The module's result; of its operands, first those of the arguments that are tensors and then the parameters."""

    @staticmethod
    def forward(ctx, call, *operands):
        ctx.call = call
        ctx.save_for_backward(*operands)
        with tede.enable_grad():
            results, call.results = pytree.tree_flatten(call.whole([x.detach() for x in operands]))
        return tuple(x.detach() for x in results)

    @staticmethod
    def backward(ctx, *grads):
        call, operands = ctx.call, ctx.saved_tensors
        inputs, parameters = call.of_samples(operands, grads)
        for parameter, each in zip(call.parameters, parameters):
            if parameter.requires_grad:
                parameter.grad_sample = each * call.scale
        return None, *inputs, *[None for _ in parameters]           # their `grad` stays as it is


class _Module:
    """A call of a module: how its operands make arguments."""

    def __init__(self, module, args, kwargs, batch_size, batch_dim, scale):
        self.module, self.batch_dim, self.scale = module, batch_dim, scale
        self.names, self.parameters = zip(*module.named_parameters())
        self.leaves, self.tree = pytree.tree_flatten((args, kwargs))
        self.at = [i for i, x in enumerate(self.leaves) if isinstance(x, tede.Tensor)]
        self.operands = [*(self.leaves[i] for i in self.at), *self.parameters]

    def whole(self, operands):
        leaves = list(self.leaves)
        for i, x in zip(self.at, operands):
            leaves[i] = x
        args, kwargs = pytree.tree_unflatten(leaves, self.tree)
        return func.functional_call(self.module, dict(zip(self.names, operands[len(self.at):])), args, kwargs)

    def _dims(self, n):
        """Where the batch is in the tensors given, or in results: hidden states of recurrent layers always have it second."""
        others = 1 if isinstance(self.module, tede.nn.RNNBase) else self.batch_dim
        return [self.batch_dim, *[others] * (n - 1)]

    def of_samples(self, operands, grads):
        n = len(self.at)
        dims, of_results = self._dims(n), self._dims(len(grads))

        def one(parameters, inputs, grads):
            wanted = [i for i, x in enumerate(inputs) if x.is_floating_point() or x.is_complex()]

            def call(floats, parameters):
                full = list(inputs)
                for i, x in zip(wanted, floats):
                    full[i] = x
                return pytree.tree_leaves(self.whole([*(x.unsqueeze(dim) for x, dim in zip(full, dims)), *parameters]))
            _, pull = func.vjp(call, [inputs[i] for i in wanted], parameters)
            floats, parameters = pull([g.unsqueeze(dim) for g, dim in zip(grads, of_results)])
            given = dict(zip(wanted, floats))
            return [given.get(i, x.new_zeros(x.shape)) for i, x in enumerate(inputs)], parameters
        inputs, parameters = func.vmap(one, in_dims=(None, dims, of_results), out_dims=(dims, 0))(list(operands[n:]), list(operands[:n]), list(grads))
        return [x if y.is_floating_point() or y.is_complex() else None for x, y in zip(inputs, operands)], parameters


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
        call = _Module(module, args, kwargs, size, batch_dim, size if loss_reduction == "mean" else 1)
        return pytree.tree_unflatten(list(_Call.apply(call, *call.operands)), call.results)
    return wrapper
