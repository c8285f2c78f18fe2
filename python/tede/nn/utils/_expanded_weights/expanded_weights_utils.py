"""PyTorch's names of what functions of expanded weights share."""
from .expanded_weights_impl import check_batch, set_grad_sample_if_exists, unexpand, unpack_expanded_weight_or_tensor

__all__ = ["forward_helper", "set_grad_sample_if_exists", "standard_kwargs", "sum_over_all_but_batch_and_last_n",
           "unpack_expanded_weight_or_tensor"]


def standard_kwargs(kwarg_names, expanded_args):
    """(positional arguments, arguments by name) of a list whose last values have these names."""
    first = len(expanded_args) - len(kwarg_names)
    return expanded_args[:first], dict(zip(kwarg_names, expanded_args[first:]))


def forward_helper(func, expanded_args, expanded_kwargs):
    """func's result for the parameters of expanded weights, after a check of the batch."""
    check_batch(func, expanded_args, expanded_kwargs)
    return func(*[unexpand(x) for x in expanded_args], **{name: unexpand(x) for name, x in expanded_kwargs.items()})


def sum_over_all_but_batch_and_last_n(tensor, n_dims):
    """The sum over the dimensions between the first and the last n_dims."""
    dims = tuple(range(1, tensor.dim() - n_dims))
    return tensor.sum(dims) if dims else tensor
