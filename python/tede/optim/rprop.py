"""Rprop (Riedmiller & Braun, 1993)."""
from ..nn._native import T
from ._functional import rprop  # noqa: F401  the same as a function
from .optimizer import PerParameter, check, check_common, kept, step_tensor, to_scalar, zeros_for
from .._docs import completed

__all__ = ["Rprop", "rprop"]


@completed
class Rprop(PerParameter):
    """Each element has a step of its own, which grows while its gradient keeps its sign and shrinks when that changes
    (Riedmiller and Braun, 1993, "A direct adaptive method for faster backpropagation learning: the RPROP algorithm").
    For gradients of all data at once.

        <params>
        lr: the first step.
        etas: by what steps shrink and grow.
        step_sizes: the least and the largest step.
        <switches_unfused>
        <capturable>

    >>> w = tede.tensor([1.0], requires_grad=True)
    >>> w.pow(2).sum().backward()
    >>> tede.optim.Rprop([w], lr=0.1).step()
    >>> w.detach()
    tensor([0.9000])
    """

    def __init__(self, params, lr=1e-2, etas=(0.5, 1.2), step_sizes=(1e-6, 50), *, capturable: bool = False,
                 foreach=None, maximize: bool = False, differentiable: bool = False) -> None:
        check_common(lr)
        check(0.0 < etas[0] < 1.0 < etas[1], f"Invalid eta values: {etas[0]}, {etas[1]}")
        super().__init__(params, {"lr": lr, "etas": etas, "step_sizes": step_sizes, "foreach": foreach,
                                  "maximize": maximize, "differentiable": differentiable, "capturable": capturable})

    def _start(self, p, group):
        lr = to_scalar(group["lr"])
        lr = complex(lr, lr) if p.is_complex() else lr
        return {"step": step_tensor(p, group), "prev": zeros_for(p), "step_size": T.full_like(p.grad, lr)}

    def _update(self, p, grad, state, group):
        state["step"] += 1
        shrink, grow = group["etas"]
        sign = grad.mul(state["prev"]).sign()
        factor = T.where(sign.gt(0), grow, T.where(sign.lt(0), shrink, 1.0)).to(grad.dtype)
        state["step_size"].mul_(factor).clamp_(*group["step_sizes"])
        grad = T.where(sign.lt(0), T.zeros_like(grad), grad)
        p.addcmul_(grad.sign(), kept(state["step_size"], group), value=-1)
        state["prev"].copy_(grad)
