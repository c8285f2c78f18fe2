"""NAdam (Dozat, 2016)."""
from ._functional import nadam  # noqa: F401  the same as a function
from .optimizer import PerParameter, check, check_common, decayed, kept, or_learned, step_tensor, to_scalar, zeros_for
from .._docs import completed

__all__ = ["NAdam", "nadam"]


@completed
class NAdam(PerParameter):
    """`Adam` with Nesterov momentum, whose weight grows with the steps (Dozat, 2016, "Incorporating Nesterov Momentum
    into Adam").

        <params>
        lr: the learning rate.
        betas: how much of the running means of gradient and square stays at each step.
        eps: keeps the quotient finite.
        weight_decay: is added to the gradient, times the parameter.
        momentum_decay: how the momentum grows: ``beta1 * (1 - 0.96 ** (step * momentum_decay) / 2)``.
        decoupled_weight_decay: shrink parameters instead, as `AdamW`.
        <switches_unfused>
        <capturable>

    >>> w = tede.tensor([1.0], requires_grad=True)
    >>> w.pow(2).sum().backward()
    >>> tede.optim.NAdam([w], lr=0.1).step()
    """

    def __init__(self, params, lr=2e-3, betas=(0.9, 0.999), eps: float = 1e-8, weight_decay: float = 0,
                 momentum_decay=4e-3, decoupled_weight_decay: bool = False, *, foreach=None, maximize: bool = False,
                 capturable: bool = False, differentiable: bool = False) -> None:
        check_common(lr, eps, weight_decay, betas)
        check(0.0 <= momentum_decay, f"Invalid momentum_decay value: {momentum_decay}")
        super().__init__(params, {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "momentum_decay": momentum_decay,
            "decoupled_weight_decay": decoupled_weight_decay, "maximize": maximize, "foreach": foreach,
            "capturable": capturable, "differentiable": differentiable})

    _later_options = {**PerParameter._later_options, "decoupled_weight_decay": False}

    def _start(self, p, group):
        return {"step": step_tensor(p, group), "mu_product": step_tensor(p, group, 1.0), "exp_avg": zeros_for(p), "exp_avg_sq": zeros_for(p)}

    def _update(self, p, grad, state, group):
        state["step"] += 1
        step, lr, (beta1, beta2) = state["step"].item(), to_scalar(group["lr"]), group["betas"]
        if group["weight_decay"] != 0 and group["decoupled_weight_decay"]:
            p.mul_(1 - lr * group["weight_decay"])
        else:
            grad = decayed(grad, p, group)
        mu = beta1 * (1.0 - 0.5 * 0.96 ** (step * group["momentum_decay"]))
        next_mu = beta1 * (1.0 - 0.5 * 0.96 ** ((step + 1) * group["momentum_decay"]))
        state["mu_product"] *= mu
        product = or_learned(state["mu_product"], group)
        mean = state["exp_avg"].lerp_(grad, 1 - beta1)
        square = state["exp_avg_sq"].mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        size = square.div(1 - beta2 ** step).sqrt().add(group["eps"])
        for part, rate in ((grad, lr * (1.0 - mu) / (1.0 - product)),
                           (kept(mean, group), lr * next_mu / (1.0 - product * next_mu))):
            if product is state["mu_product"]:
                p.sub_(part / size * rate)
            else:
                p.addcdiv_(part, size, value=-rate)
