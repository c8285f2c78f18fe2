"""RAdam (Liu et al., 2019)."""
from ._functional import radam  # noqa: F401  the same as a function
from .optimizer import PerParameter, check_common, decayed, or_learned, step_tensor, zeros_for
from .._docs import completed

__all__ = ["RAdam", "radam"]


@completed
class RAdam(PerParameter):
    """`Adam` that steps along the mean gradient until its second moment can be trusted (Liu et al., 2019, "On the
    Variance of the Adaptive Learning Rate and Beyond"): no warm-up is needed.

        <params>
        lr: the learning rate.
        betas: how much of the running means of gradient and square stays at each step.
        eps: keeps the quotient finite.
        weight_decay: is added to the gradient, times the parameter.
        decoupled_weight_decay: shrink parameters instead, as `AdamW`.
        <switches_unfused>
        <capturable>

    >>> w = tede.tensor([1.0], requires_grad=True)
    >>> w.pow(2).sum().backward()
    >>> tede.optim.RAdam([w], lr=0.1).step()
    """

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps: float = 1e-8, weight_decay: float = 0,
                 decoupled_weight_decay: bool = False, *, foreach=None, maximize: bool = False,
                 capturable: bool = False, differentiable: bool = False) -> None:
        check_common(lr, eps, weight_decay, betas)
        super().__init__(params, {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "maximize": maximize,
            "foreach": foreach, "capturable": capturable, "decoupled_weight_decay": decoupled_weight_decay,
            "differentiable": differentiable})

    _later_options = {**PerParameter._later_options, "decoupled_weight_decay": False}

    def _start(self, p, group):
        return {"step": step_tensor(p, group), "exp_avg": zeros_for(p), "exp_avg_sq": zeros_for(p)}

    def _update(self, p, grad, state, group):
        state["step"] += 1
        step, lr, (beta1, beta2) = state["step"].item(), or_learned(group["lr"], group), group["betas"]
        if group["weight_decay"] != 0 and group["decoupled_weight_decay"]:
            p.mul_(1 - lr * group["weight_decay"])
        else:
            grad = decayed(grad, p, group)
        mean = state["exp_avg"].lerp_(grad, 1 - beta1) / (1 - beta1 ** step)
        square = state["exp_avg_sq"].mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        # The length of the averages' memory: the longest possible, and now.
        long = 2 / (1 - beta2) - 1
        now = long - 2 * step * beta2 ** step / (1 - beta2 ** step)
        change = mean * lr
        if now > 5.0:
            scale = (1 - beta2 ** step) ** 0.5 / square.sqrt().add(group["eps"])
            rectify = ((now - 4) * (now - 2) * long / ((long - 4) * (long - 2) * now)) ** 0.5
            change = change * scale * rectify
        p.add_(change, alpha=-1.0)
