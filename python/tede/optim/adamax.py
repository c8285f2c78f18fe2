"""Adamax (Kingma & Ba, 2014)."""
from ..nn._native import T
from ._functional import adamax  # noqa: F401  the same as a function
from .optimizer import PerParameter, check_common, decayed, kept, step_tensor, to_scalar, zeros_for
from .._docs import completed

__all__ = ["Adamax", "adamax"]


@completed
class Adamax(PerParameter):
    """``p -= lr / (1 - beta1**step) * m / u``, where m is `Adam`'s mean and ``u = max(beta2 * u, |g| + eps)`` (Kingma
    and Ba, 2014, "Adam: A Method for Stochastic Optimization").

        <params>
        lr: the learning rate.
        betas: how much of m and u stays at each step.
        eps: keeps the quotient finite.
        weight_decay: is added to the gradient, times the parameter.
        <switches_unfused>
        <capturable>

    >>> w = tede.tensor([1.0], requires_grad=True)
    >>> w.pow(2).sum().backward()
    >>> tede.optim.Adamax([w], lr=0.1).step()
    >>> w.detach()
    tensor([0.9000])
    """

    def __init__(self, params, lr=2e-3, betas=(0.9, 0.999), eps: float = 1e-8, weight_decay: float = 0, foreach=None, *,
                 maximize: bool = False, differentiable: bool = False, capturable: bool = False) -> None:
        check_common(lr, eps, weight_decay, betas)
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay,
                                  "foreach": foreach, "maximize": maximize, "differentiable": differentiable,
                                  "capturable": capturable})

    def _start(self, p, group):
        return {"step": step_tensor(p, group), "exp_avg": zeros_for(p), "exp_inf": zeros_for(p)}

    def _update(self, p, grad, state, group):
        state["step"] += 1
        beta1, beta2 = group["betas"]
        grad, top = decayed(grad, p, group), state["exp_inf"]
        state["exp_avg"].lerp_(grad, 1 - beta1)
        top.copy_(T.maximum(kept(top.mul_(beta2), group), grad.abs().add_(group["eps"])))
        rate = to_scalar(group["lr"]) / (1 - beta1 ** state["step"].item())
        p.addcdiv_(kept(state["exp_avg"], group), kept(top, group), value=-rate)
