"""A tensor that tells what is done with it: every operator that reaches it, gradients' too, is written down.

    python examples/logging_tensor.py

It wraps another tensor.  `__torch_dispatch__` is called below autograd, so that a backward pass shows up as the operators it is
made of; what it returns is wrapped again, so that nothing gets away.
"""
import contextlib

import tede as torch
from tede.utils._pytree import tree_map


class LoggingTensor(torch.Tensor):
    calls: list[str] = []
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, value, requires_grad=False):
        return torch.Tensor._make_wrapper_subclass(cls, value.shape, strides=value.stride(), dtype=value.dtype, device=value.device,
                                                   requires_grad=requires_grad)

    def __init__(self, value, requires_grad=False):
        self.value = value.detach()

    def __repr__(self):
        return f"LoggingTensor({self.value})"

    @classmethod
    def __torch_dispatch__(cls, operator, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        result = operator(*tree_map(unwrap, args), **tree_map(unwrap, kwargs))
        cls.calls.append(f"{describe(result)} = {operator.__name__}({', '.join(map(describe, [*args, *kwargs.values()]))})")
        return tree_map(lambda x: cls(x) if isinstance(x, torch.Tensor) else x, result)


def unwrap(x):
    return x.value if isinstance(x, LoggingTensor) else x


def describe(x):
    if isinstance(x, torch.Tensor):
        return f"{str(x.dtype).split('.')[-1]}{list(x.shape)}"
    if isinstance(x, (list, tuple)):
        return f"[{', '.join(map(describe, x))}]"
    return repr(x)


@contextlib.contextmanager
def logged():
    """The lines of what happens inside."""
    before, LoggingTensor.calls = LoggingTensor.calls, []
    try:
        yield LoggingTensor.calls
    finally:
        LoggingTensor.calls = before


def main():
    x = LoggingTensor(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), requires_grad=True)
    with logged() as forward:
        y = (x @ x).tanh().sum()
    with logged() as backward:
        y.backward()
    print("forward:", *forward, "backward:", *backward, sep="\n  ")
    return forward, backward, x.grad


if __name__ == "__main__":
    main()
