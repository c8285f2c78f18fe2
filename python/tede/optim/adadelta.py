"""Adadelta (Zeiler, 2012)."""
from ._functional import adadelta  # noqa: F401  the same as a function
from .optimizer import PerParameter, check, check_common, decayed, step_tensor, to_scalar, zeros_for
from .._docs import completed

__all__ = ["Adadelta", "adadelta"]


@completed
class Adadelta(PerParameter):
    """``p -= lr * g * sqrt(u + eps) / sqrt(v + eps)``, where v and u are running means of squared gradients and of
    squared steps: steps in the parameter's own units (Zeiler, 2012, "ADADELTA: An Adaptive Learning Rate Method").

        <params>
        lr: a factor of the step; 1 is the paper.
        rho: how much of u and v stays at each step.
        eps: keeps the quotient finite, and starts it.
        weight_decay: is added to the gradient, times the parameter.
        <switches_unfused>
        <capturable>

    >>> w = tede.tensor([1.0], requires_grad=True)
    >>> w.pow(2).sum().backward()
    >>> tede.optim.Adadelta([w]).step()
    """

    def __init__(self, params, lr=1.0, rho: float = 0.9, eps: float = 1e-6, weight_decay: float = 0, foreach=None, *,
                 capturable: bool = False, maximize: bool = False, differentiable: bool = False) -> None:
        check_common(lr)
        check(0.0 <= rho <= 1.0, f"Invalid rho value: {rho}")
        check_common(lr, eps, weight_decay)
        super().__init__(params, {"lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay, "maximize": maximize,
                                  "capturable": capturable, "foreach": foreach, "differentiable": differentiable})

    def _start(self, p, group):
        return {"step": step_tensor(p, group), "square_avg": zeros_for(p), "acc_delta": zeros_for(p)}

    def _update(self, p, grad, state, group):
        state["step"] += 1
        grad, rho, eps = decayed(grad, p, group), group["rho"], group["eps"]
        size = state["square_avg"].mul_(rho).addcmul_(grad, grad, value=1 - rho).add(eps).sqrt_()
        delta = state["acc_delta"].add(eps).sqrt().div(size).mul(grad)
        state["acc_delta"].mul_(rho).addcmul_(delta, delta, value=1 - rho)
        p.add_(delta, alpha=-to_scalar(group["lr"]))
