"""What functions of expanded weights share: checks of the batch, and where a sample's gradients go."""
import tede

from .expanded_weights_impl import ExpandedWeight

__all__ = ["forward_helper", "set_grad_sample_if_exists", "standard_kwargs", "sum_over_all_but_batch_and_last_n",
           "unpack_expanded_weight_or_tensor"]


def unexpand(x):
    """The parameter of an expanded weight; anything else as it is."""
    return x.orig_weight if isinstance(x, ExpandedWeight) else x


def standard_kwargs(kwarg_names, expanded_args):
    """(positional arguments, arguments by name) of a list whose last values have these names."""
    first = len(expanded_args) - len(kwarg_names)
    return expanded_args[:first], dict(zip(kwarg_names, expanded_args[first:]))


def check_batch(func, args, kwargs):
    """Refuse a call whose input, the first argument, hasn't the batch that its expanded weights are for."""
    input = args[0]
    if isinstance(input, ExpandedWeight):
        raise RuntimeError("Expanded Weights do not support inputs that are also ExpandedWeights. Input must be a Tensor, got "
                           f"{type(input).__name__} in function {func.__name__}")
    if not isinstance(input, tede.Tensor):
        raise RuntimeError("Expanded Weights requires a Tensor as the first input to get the batch dimension, got "
                           f"{type(input).__name__} in function {func.__name__}")
    if input.dim() == 0:
        raise RuntimeError(f"Expanded Weights requires a batch dimension but got an input of size 0 in function {func.__name__}")
    if input.shape[0] == 0:
        raise RuntimeError(f"0 is not a valid batch size for Expanded Weights but got input tensor of {input} in function {func.__name__}")
    weights = [x for x in (*args, *kwargs.values()) if isinstance(x, ExpandedWeight)]
    for weight in weights:
        size = input.shape[0 if weight.batch_first else 1]
        if size > weight.batch_size or size < weight.batch_size and not weight.allow_smaller_batches:
            raise RuntimeError(f"Expected ExpandedWeights to have batch size matching input but got input batch size of {size} with "
                               f"ExpandedWeight of batch size {weight.batch_size}")
        if weight.loss_reduction != weights[0].loss_reduction:
            raise RuntimeError("Expected ExpandedWeights to all have the same loss_reduction argument but got one with "
                               f"{weights[0].loss_reduction} and one with {weight.loss_reduction}")


def forward_helper(func, expanded_args, expanded_kwargs):
    """func's result for the parameters of expanded weights, after a check of the batch."""
    check_batch(func, expanded_args, expanded_kwargs)
    return func(*[unexpand(x) for x in expanded_args], **{name: unexpand(x) for name, x in expanded_kwargs.items()})


def unpack_expanded_weight_or_tensor(maybe_expanded_weight, func=lambda x: x):
    """func of an expanded weight's parameter or of a tensor without gradients; None for what isn't a tensor."""
    if isinstance(maybe_expanded_weight, ExpandedWeight):
        return func(maybe_expanded_weight.orig_weight)
    if not isinstance(maybe_expanded_weight, tede.Tensor):
        return None
    if maybe_expanded_weight.requires_grad:
        raise RuntimeError("ExpandedWeights currently does not support a mixture of ExpandedWeight parameters and normal Parameters: "
                           "a weight that takes gradients has to be expanded as the others are")
    return func(maybe_expanded_weight)


def set_grad_sample_if_exists(maybe_expanded_weight, per_sample_grad_fn):
    """Add the gradients by sample that per_sample_grad_fn(parameter) gives to the parameter's `grad_sample`."""
    parameter = unpack_expanded_weight_or_tensor(maybe_expanded_weight)
    if not isinstance(maybe_expanded_weight, ExpandedWeight):
        return
    size, grads = maybe_expanded_weight.batch_size, per_sample_grad_fn(parameter)
    if maybe_expanded_weight.loss_reduction == "mean":
        grads = grads * size
    if grads.shape[0] < size:
        grads = tede.cat([grads, grads.new_zeros(size - grads.shape[0], *grads.shape[1:])])
    before = getattr(parameter, "grad_sample", None)
    parameter.grad_sample = grads if before is None else before + grads


def sum_over_all_but_batch_and_last_n(tensor, n_dims):
    """The sum over the dimensions between the first and the last n_dims."""
    dims = tuple(range(1, tensor.dim() - n_dims))
    return tensor.sum(dims) if dims else tensor
