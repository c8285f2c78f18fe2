"""Averaged stochastic gradient descent (Polyak & Juditsky, 1992)."""
from ..nn._native import T
from ._functional import asgd  # noqa: F401  the same as a function
from .optimizer import PerParameter, _get_scalar_dtype, check_common, decayed, to_scalar, zeros_for
from .._docs import completed

__all__ = ["ASGD", "asgd"]


@completed
class ASGD(PerParameter):
    """Gradient descent that also averages the parameters (Polyak and Juditsky, 1992, "Acceleration of Stochastic
    Approximation by Averaging"); the average is ``state[p]["ax"]``.

        <params>
        lr: the learning rate; it falls as ``lr / (1 + lambd * lr * step) ** alpha``.
        lambd, alpha: how it falls; lambd also shrinks the parameters.
        t0: the step at which averaging begins.
        weight_decay: is added to the gradient, times the parameter.
        <switches_unfused>
        <capturable>

    >>> w = tede.tensor([1.0], requires_grad=True)
    >>> w.pow(2).sum().backward()
    >>> tede.optim.ASGD([w], lr=0.1).step()
    """

    def __init__(self, params, lr=1e-2, lambd: float = 1e-4, alpha: float = 0.75, t0=1e6, weight_decay: float = 0,
                 foreach=None, maximize: bool = False, differentiable: bool = False, capturable: bool = False) -> None:
        check_common(lr, weight_decay=weight_decay)
        super().__init__(params, {"lr": lr, "lambd": lambd, "alpha": alpha, "t0": t0, "weight_decay": weight_decay,
                                  "foreach": foreach, "maximize": maximize, "differentiable": differentiable,
                                  "capturable": capturable})

    def _start(self, p, group):
        def number(value):
            return T.tensor(float(value), dtype=_get_scalar_dtype(), device=p.device)
        return {"step": number(0), "eta": number(to_scalar(group["lr"])), "mu": number(1), "ax": zeros_for(p)}

    def _update(self, p, grad, state, group):
        state["step"] += 1
        step, lr, eta = state["step"].item(), to_scalar(group["lr"]), state["eta"].item()
        grad = decayed(grad, p, group)
        p.mul_(1 - group["lambd"] * eta)
        p.add_(grad, alpha=-eta)
        if state["mu"].item() != 1:
            state["ax"].add_(p.sub(state["ax"]).mul_(state["mu"]))
        else:
            state["ax"].copy_(p)
        state["eta"].fill_(lr / (1 + group["lambd"] * lr * step) ** group["alpha"])
        state["mu"].fill_(1 / max(1, step - group["t0"]))
