"""Arithmetic on numbers that the one who computes can't read: additively masked tensors.

    python examples/masked_tensor.py

A number is a fixed-point integer; what is computed with is that plus a random mask, modulo 2**64, which says nothing about the
number.  Sums, differences, products with public integers and linear maps by public matrices of integers run on the masked data.
The same operators run on the masks, on the side of the one who has the key.  Anything else is an error: it would need the number.
"""
import tede as torch

SCALE = 1 << 20
aten = torch.ops.aten
LINEAR = {aten.add.Tensor, aten.sub.Tensor, aten.neg.default, aten.sum.default, aten.sum.dim_IntList, aten.view.default, aten.t.default,
          aten.transpose.int, aten.select.int, aten.slice.Tensor, aten.cat.default, aten.expand.default, aten.unsqueeze.default,
          aten.squeeze.dim, aten.permute.default, aten.clone.default, aten.detach.default, aten.stack.default, aten.flip.default}
BY_A_PUBLIC_INTEGER = {aten.mul.Tensor, aten.mm.default, aten.mv.default, aten.matmul.default}


class MaskedTensor(torch.Tensor):
    """`masked` is all that computations see; `key()` is asked for the mask only when the result is opened."""
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, masked, key):
        return torch.Tensor._make_wrapper_subclass(cls, masked.shape, dtype=torch.int64)

    def __init__(self, masked, key):
        self.masked, self.key = masked, key

    def __repr__(self):
        return f"MaskedTensor(shape={list(self.shape)})"

    @classmethod
    def __torch_dispatch__(cls, operator, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if operator in BY_A_PUBLIC_INTEGER:
            public = [x for x in args if not isinstance(x, MaskedTensor)]
            if len(public) != 1 or isinstance(public[0], float) or getattr(public[0], "is_floating_point", bool)():
                raise TypeError(f"{operator} of masked numbers takes public integers")
        elif operator not in LINEAR:
            raise TypeError(f"{operator} can't be computed on masked numbers")
        elif operator in (aten.add.Tensor, aten.sub.Tensor) and not all(isinstance(x, MaskedTensor) for x in args[:2]):
            args = tuple(x if isinstance(x, MaskedTensor) else public_constant(x) for x in args[:2])

        def on(part):
            return operator(*(strip(x, part) for x in args), **kwargs)
        return cls(on(lambda x: x.masked), lambda: on(lambda x: x.key()))


def strip(x, part):
    return part(x) if isinstance(x, MaskedTensor) else [strip(y, part) for y in x] if isinstance(x, (list, tuple)) else x


def public_constant(x):
    """A number that everybody knows, as a masked one whose mask is 0."""
    fixed = (torch.as_tensor(x).double() * SCALE).round().long()
    return MaskedTensor(fixed, lambda: torch.zeros_like(fixed))


def hide(x, generator=None):
    fixed = (x.double() * SCALE).round().long()
    mask = torch.randint(-2 ** 62, 2 ** 62, fixed.shape, generator=generator)
    mask = mask * 2 + torch.randint(0, 2, fixed.shape, generator=generator)
    return MaskedTensor(fixed + mask, lambda: mask)         # integers wrap: that is the modulus


def reveal(x):
    return (x.masked - x.key()).double() / SCALE


def main():
    wages = [torch.tensor([3100.5, 2750.25]), torch.tensor([4020.0, 1999.75]), torch.tensor([2500.0, 3300.0])]
    hidden = [hide(w) for w in wages]
    total = hidden[0] + hidden[1] + hidden[2]
    weighted = torch.stack(hidden).t() @ torch.tensor([1, 2, -1])
    print("what the computer sees:", total.masked.tolist())
    print("what the owner of the key reads:", reveal(total).tolist(), reveal(weighted + 0.5).tolist())
    return wages, total, weighted


if __name__ == "__main__":
    main()
