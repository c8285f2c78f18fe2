"""Adafactor (Shazeer & Stern, 2018)."""
from ..nn._native import T
from ._functional import adafactor  # noqa: F401  the same as a function
from .optimizer import PerParameter, check, step_tensor, to_scalar
from .._docs import completed


@completed
class Adafactor(PerParameter):
    """Steps scaled by a second moment that is kept, of matrices, as a row and a column only (Shazeer and Stern, 2018,
    "Adafactor: Adaptive Learning Rates with Sublinear Memory Cost").

        <params>
        lr: the largest relative step: a step is ``min(lr, 1 / sqrt(step))`` times the parameter's own size.
        beta2_decay: how the moments' memory grows: ``1 - step ** beta2_decay`` stays.
        eps: what is under the root at least (None is the dtype's smallest step), and the least size of a parameter.
        d: steps above this root mean square are clipped to it.
        weight_decay: shrinks parameters directly, as `AdamW`.
        foreach: kept for PyTorch's signature.
        maximize: climb instead of descend.

    >>> model = nn.Linear(3, 2)
    >>> optimizer = tede.optim.Adafactor(model.parameters())
    >>> model(tede.ones(4, 3)).pow(2).mean().backward()
    >>> optimizer.step()
    >>> optimizer.state[model.weight]["row_var"].shape
    tede.Size([2, 1])
    """

    def __init__(self, params, lr=1e-2, beta2_decay=-0.8, eps: float = (None, 1e-3), d=1.0, weight_decay: float = 0.0,
                 *, foreach=None, maximize: bool = False) -> None:
        check(not isinstance(lr, T.Tensor) or lr.numel() == 1, "Tensor lr must be 1-element")
        check(0.0 <= lr, f"Learning rate should be >= 0 but is: {lr}")
        check(0.0 >= beta2_decay, f"beta2_decay should be <= 0 but is: {beta2_decay}")
        check(eps[0] is None or 0.0 <= eps[0], f"epsilon1 should be >= 0 but is: {eps[0]}")
        check(0.0 <= eps[1], f"epsilon2 should be >= 0 but is: {eps[1]}")
        check(1.0 <= d, f"Clipping threshold d should be >= 1 but is: {d}")
        check(0.0 <= weight_decay, f"weight_decay should be >= 0 but is: {weight_decay}")
        super().__init__(params, {"lr": lr, "beta2_decay": beta2_decay, "eps": eps, "d": d,
                                  "weight_decay": weight_decay, "foreach": foreach, "maximize": maximize})

    _later_options = {"foreach": None}

    def _start(self, p, group):
        if p.is_complex():
            raise RuntimeError("Adafactor does not support complex parameters")
        if p.dim() > 1:
            return {"step": step_tensor(p, group), "row_var": p.grad.new_zeros((*p.shape[:-1], 1)),
                    "col_var": p.grad.new_zeros((*p.shape[:-2], 1, p.shape[-1]))}
        return {"step": step_tensor(p, group), "variance": T.zeros_like(p.grad, memory_format=T.preserve_format)}

    def _update(self, p, grad, state, group):
        state["step"] += 1
        step, lr, (eps1, eps2) = state["step"].item(), to_scalar(group["lr"]), group["eps"]
        eps1 = T.finfo(p.dtype).eps if eps1 is None else eps1
        fresh = step ** group["beta2_decay"]
        rate = max(eps2, p.norm(2).item() / p.numel() ** 0.5) * min(lr, 1 / step ** 0.5)
        if group["weight_decay"] != 0:
            p.mul_(1 - lr * group["weight_decay"])
        if grad.dim() > 1:
            rows, columns = state["row_var"], state["col_var"]
            rows.lerp_(T.norm(grad, dim=-1, keepdim=True).square_().div_(grad.size(-1)), fresh)
            columns.lerp_(T.norm(grad, dim=-2, keepdim=True).square_().div_(grad.size(-2)), fresh)
            variance = (rows @ columns).div_(rows.mean(dim=-2, keepdim=True).clamp_(min=eps1))
        else:
            variance = state["variance"].lerp_(grad * grad, fresh).clone()
        update = variance.clamp_(min=eps1 * eps1).rsqrt_().mul_(grad)
        size = max(1.0, update.norm(2).item() / (update.numel() ** 0.5 * group["d"]))
        p.add_(update, alpha=-rate / size)
