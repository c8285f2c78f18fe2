"""Muon (Jordan et al., 2024)."""
import math

from ..nn._native import T
from .optimizer import PerParameter, check, to_scalar
from .._docs import completed

__all__ = ["Muon"]


@completed
class Muon(PerParameter):
    """Momentum whose step is about the nearest orthogonal matrix, by a Newton-Schulz iteration in bfloat16 (Jordan et
    al., 2024, "Muon: An optimizer for hidden layers in neural networks"). For matrices only (ValueError); give other
    parameters to `AdamW`.

        <params>
        lr: the learning rate.
        weight_decay: shrinks parameters directly.
        momentum: how much of the running mean of gradients stays at each step.
        nesterov: step along the mean as it will be.
        ns_coefficients, ns_steps: of the iteration's polynomial, and how many.
        eps: the least norm that a matrix is divided by.
        adjust_lr_fn: "original" (None) times ``sqrt(max(1, rows / columns))``, "match_rms_adamw" times
            ``0.2 * sqrt(max(rows, columns))``.

    >>> w = nn.Parameter(tede.eye(3))
    >>> optimizer = tede.optim.Muon([w], lr=0.1)
    >>> w.pow(2).sum().backward()
    >>> optimizer.step()
    """

    def __init__(self, params, lr=1e-3, weight_decay: float = 0.1, momentum: float = 0.95, nesterov: bool = True,
                 ns_coefficients=(3.4445, -4.775, 2.0315), eps: float = 1e-7, ns_steps=5, adjust_lr_fn=None) -> None:
        check(not isinstance(lr, T.Tensor) or lr.numel() == 1, "Tensor lr must be 1-element")
        check(0.0 <= lr, f"Learning rate should be >= 0 but is: {lr}")
        check(0.0 <= momentum, f"momentum should be >= 0 but is: {momentum}")
        check(0.0 <= weight_decay, f"weight decay should be >= 0 but is: {weight_decay}")
        check(adjust_lr_fn in (None, "original", "match_rms_adamw"),
              f"Adjust learning rate function {adjust_lr_fn} is not supported")
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay, "momentum": momentum, "nesterov": nesterov,
                                  "ns_coefficients": ns_coefficients, "eps": eps, "ns_steps": ns_steps,
                                  "adjust_lr_fn": adjust_lr_fn})
        for group in self.param_groups:
            for p in group["params"]:
                check(p.ndim == 2,
                      f"Muon only supports 2D parameters whereas we found a parameter with size: {p.size()}")

    _later_options = {}

    def _start(self, p, group):
        if p.is_complex():
            raise RuntimeError("Muon does not support complex parameters")
        return {"momentum_buffer": T.zeros_like(p.grad, memory_format=T.preserve_format)}

    def _update(self, p, grad, state, group):
        buffer = state["momentum_buffer"].lerp_(grad, 1 - group["momentum"])
        update = grad.lerp(buffer, group["momentum"]) if group["nesterov"] else buffer
        update = _orthogonalize(update, group["ns_coefficients"], group["ns_steps"], group["eps"])
        rows, columns = p.shape
        lr = to_scalar(group["lr"])
        if group["adjust_lr_fn"] == "match_rms_adamw":
            ratio = 0.2 * math.sqrt(max(rows, columns))
        else:
            ratio = math.sqrt(max(1, rows / columns))
        p.mul_(1 - lr * group["weight_decay"])
        p.add_(update, alpha=-lr * ratio)


def _orthogonalize(matrix, coefficients, steps, eps):
    """About U V of the singular value decomposition, by iterating an odd quintic polynomial in bfloat16."""
    check(steps < 100, "Number of steps must be less than 100 for computational efficiency")
    check(len(coefficients) == 3, "Coefficients must be a tuple of exactly 3 values")
    a, b, c = coefficients
    tall = matrix.size(0) > matrix.size(1)
    x = matrix.bfloat16()
    x = x.T if tall else x
    x = x.div(x.norm().clamp(min=eps))
    for _ in range(steps):
        gram = x @ x.T
        x = T.addmm(x, T.addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.T if tall else x
