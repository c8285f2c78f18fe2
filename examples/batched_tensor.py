"""vmap in a page: a tensor with a hidden first dimension, and a rule for each kind of operator.

    python examples/batched_tensor.py

The library's own vmap does this in C on a dispatch key; here it is a wrapper over `__torch_dispatch__`.  A function written for one
sample gets a BatchedTensor that looks like one, and everything it calls runs once for the whole batch.
"""
import tede as torch
from tede.utils._pytree import tree_map

aten = torch.ops.aten
POINTWISE = {aten.add.Tensor, aten.sub.Tensor, aten.mul.Tensor, aten.div.Tensor, aten.maximum.default, aten.tanh.default, aten.exp.default,
             aten.relu.default, aten.neg.default, aten.sigmoid.default, aten.pow.Tensor_Scalar, aten.detach.default, aten.rsub.Scalar}
REDUCTIONS = {aten.sum.dim_IntList, aten.mean.dim, aten.amax.default}
loops: list[str] = []          # operators that had no rule


class BatchedTensor(torch.Tensor):
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, value):
        return torch.Tensor._make_wrapper_subclass(cls, value.shape[1:], dtype=value.dtype, device=value.device)

    def __init__(self, value):
        self.value = value

    def __repr__(self):
        return f"BatchedTensor({self.value})"

    @classmethod
    def __torch_dispatch__(cls, operator, types, args=(), kwargs=None):
        result = apply(operator, args, kwargs or {})
        return tree_map(lambda x: cls(x) if isinstance(x, torch.Tensor) else x, result)


def padded(x, rank):
    """The value with its batch in front of `rank` dimensions; plain tensors broadcast as they are."""
    if not isinstance(x, BatchedTensor):
        return x
    v = x.value
    return v.reshape(v.shape[0], *[1] * (rank - v.dim() + 1), *v.shape[1:])


def apply(operator, args, kwargs):
    if operator in POINTWISE:
        rank = max(x.dim() for x in args if isinstance(x, torch.Tensor))
        return operator(*(padded(x, rank) for x in args), **kwargs)
    if operator in REDUCTIONS:                       # dimensions count from the end: the hidden one doesn't move them
        x, dims, *rest = args
        return operator(x.value, [d if d < 0 else d - x.dim() for d in dims] or list(range(-x.dim(), 0)), *rest, **kwargs)
    if operator in (aten.sum.default, aten.mean.default):
        return operator.overloadpacket(args[0].value.flatten(1), 1, **kwargs)
    if operator in (aten.mm.default, aten.mv.default, aten.matmul.default):
        a, b = args
        if isinstance(b, BatchedTensor) and b.dim() == 1:        # vectors are columns
            return torch.matmul(padded(a, 2), b.value.unsqueeze(-1)).squeeze(-1)
        return torch.matmul(padded(a, 2) if a.dim() > 1 else padded(a, 1), padded(b, 2))
    if operator in (aten.t.default, aten.transpose.int):
        return args[0].value.transpose(-1, -2)
    loops.append(str(operator))
    size = next(x.value.shape[0] for x in args if isinstance(x, BatchedTensor))
    results = [operator(*(x.value[i] if isinstance(x, BatchedTensor) else x for x in args), **kwargs) for i in range(size)]
    return torch.stack(results)


def vmap(function):
    """`function` of samples, for batches of them."""
    def batched(*tensors):
        with torch.no_grad():
            return function(*(BatchedTensor(x) for x in tensors)).value
    return batched


def main():
    w = torch.randn(4, 3)

    def energy(x, y):
        hidden = torch.tanh(w @ x) + y.sum()
        return (hidden * hidden).sum() - x.cumsum(0)[-1]
    x, y = torch.randn(5, 3), torch.randn(5, 2)
    together, apart = vmap(energy)(x, y), torch.stack([energy(a, b) for a, b in zip(x, y)])
    print("together:", together, "\napart:   ", apart, "\nwithout a rule:", sorted(set(loops)))
    return together, apart


if __name__ == "__main__":
    main()
