"""RMSprop (Hinton's lecture 6e)."""
from ._functional import rmsprop  # noqa: F401  the same as a function
from .optimizer import PerParameter, check, check_common, decayed, kept, step_tensor, to_scalar, zeros_for
from .._docs import completed

__all__ = ["RMSprop", "rmsprop"]


@completed
class RMSprop(PerParameter):
    """``p -= lr * g / (sqrt(v) + eps)``, where v is a running mean of squared gradients (Hinton, 2012, lecture 6e of
    "Neural Networks for Machine Learning").

        <params>
        lr: the learning rate.
        alpha: how much of v stays at each step.
        eps: keeps the quotient finite; it is added to the root, not under it.
        weight_decay: is added to the gradient, times the parameter.
        momentum: how much of the last step goes into this one.
        centered: divide by the deviation instead: v minus the square of the mean gradient.
        <switches_unfused>
        <capturable>

    >>> w = tede.tensor([1.0], requires_grad=True)
    >>> w.pow(2).sum().backward()
    >>> tede.optim.RMSprop([w], lr=0.1).step()
    >>> w.detach()
    tensor([5.9605e-08])
    """

    def __init__(self, params, lr=1e-2, alpha: float = 0.99, eps: float = 1e-8, weight_decay: float = 0,
                 momentum: float = 0, centered: bool = False, capturable: bool = False, foreach=None,
                 maximize: bool = False, differentiable: bool = False) -> None:
        check_common(lr, eps)
        check(0.0 <= momentum, f"Invalid momentum value: {momentum}")
        check_common(lr, eps, weight_decay)
        check(0.0 <= alpha, f"Invalid alpha value: {alpha}")
        super().__init__(params, {
            "lr": lr, "momentum": momentum, "alpha": alpha, "eps": eps, "centered": centered,
            "weight_decay": weight_decay, "capturable": capturable, "foreach": foreach, "maximize": maximize,
            "differentiable": differentiable})

    _later_options = {**PerParameter._later_options, "momentum": 0, "centered": False}

    def _start(self, p, group):
        state = {"step": step_tensor(p, group), "square_avg": zeros_for(p)}
        if group["momentum"] > 0:
            state["momentum_buffer"] = zeros_for(p)
        if group["centered"]:
            state["grad_avg"] = zeros_for(p)
        return state

    def _update(self, p, grad, state, group):
        state["step"] += 1
        grad, alpha, square = decayed(grad, p, group), group["alpha"], state["square_avg"]
        square.mul_(alpha).addcmul_(grad, grad, value=1 - alpha)
        if group["centered"]:
            mean = kept(state["grad_avg"].lerp_(grad, 1 - alpha), group)
            size = square.addcmul(mean, mean, value=-1).sqrt_()
        else:
            size = square.sqrt()
        size = size.add(group["eps"])
        if group["momentum"] > 0:
            buffer = state["momentum_buffer"].mul_(group["momentum"]).addcdiv_(grad, size)
            p.add_(buffer, alpha=-to_scalar(group["lr"]))
        else:
            p.addcdiv_(grad, size, value=-to_scalar(group["lr"]))
