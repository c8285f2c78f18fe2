"""Adadelta (Zeiler, 2012)."""
from ._functional import adadelta  # noqa: F401  the same as a function
from .optimizer import PerParameter, check, check_common, decayed, step_tensor, to_scalar, zeros_for

__all__ = ["Adadelta", "adadelta"]


class Adadelta(PerParameter):
    """Steps in the parameter's own units, without a rate to choose (Zeiler, 2012)."""

    def __init__(self, params, lr=1.0, rho=0.9, eps=1e-6, weight_decay=0, foreach=None, *, capturable=False,
                 maximize=False, differentiable=False):
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
