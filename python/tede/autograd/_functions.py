"""autograd._functions: Type and Resize, legacy Functions that some programs still apply."""
from tede.autograd.function import Function

__all__ = ["Resize", "Type"]


class Type(Function):
    """x.type(dest_type); the gradient has x's type."""

    @staticmethod
    def forward(ctx, i, dest_type):
        import warnings
        warnings.warn("`torch.autograd._functions.Type` is deprecated as of PyTorch 2.1, please use `torch.tensor.to(dtype=dtype)` "
                      "instead.", FutureWarning, stacklevel=2)
        ctx.input_type = i.type()
        return i.type(dest_type)

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output.type(ctx.input_type), None


class Resize(Function):
    """The elements of a tensor in another shape of as many."""

    @staticmethod
    def forward(ctx, tensor, sizes):
        from math import prod
        ctx.sizes, ctx.input_sizes = sizes, tensor.size()
        if tensor.numel() != prod(sizes):
            raise RuntimeError(f"requested resize to {'x'.join(map(str, sizes))} ({prod(sizes)} elements in total), but the given tensor "
                               f"has a size of {'x'.join(map(str, tensor.size()))} ({tensor.numel()} elements). autograd's resize can "
                               "only change the shape of a given tensor, while preserving the number of elements. ")
        return tensor.detach().clone().view(*sizes)

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output.contiguous().view(ctx.input_sizes), None
