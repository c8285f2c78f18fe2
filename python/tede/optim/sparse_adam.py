"""Adam for gradients that are sparse tensors: only the rows that have gradients change, and their averages."""
from ..nn._native import T
from .optimizer import Optimizer, check, to_scalar
from .._docs import completed

__all__ = ["SparseAdam"]


@completed
class SparseAdam(Optimizer):
    """`Adam` on those elements that a sparse gradient holds; the averages of all others stay as they are. For
    `nn.Embedding(sparse=True)`.

        <params>
        lr, betas, eps: as for `Adam`.
        maximize: climb instead of descend.

    A dense gradient is a RuntimeError, a sparse parameter a ValueError.

    >>> table = nn.Embedding(10, 3, sparse=True)
    >>> optimizer = tede.optim.SparseAdam(table.parameters())
    >>> table(tede.tensor([1, 2])).sum().backward()
    >>> optimizer.step()
    """

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps: float = 1e-8, maximize: bool = False) -> None:
        check(not isinstance(lr, T.Tensor) or lr.numel() == 1, "Tensor lr must be 1-element")
        check(0.0 < lr, f"Invalid learning rate: {lr}")
        check(0.0 < eps, f"Invalid epsilon value: {eps}")
        for i, beta in enumerate(betas):
            check(0.0 <= beta < 1.0, f"Invalid beta parameter at index {i}: {beta}")
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "maximize": maximize})
        places = [([i, j], p) for i, group in enumerate(self.param_groups) for j, p in enumerate(group["params"])]
        sparse = [place for place, p in places if p.is_sparse]
        check(not sparse, f"Sparse params at indices {sparse}: SparseAdam requires dense parameter tensors")
        complex_ = [place for place, p in places if p.is_complex()]
        check(not complex_, f"Complex params at indices {complex_}: SparseAdam does not support complex parameters")

    def step(self, closure=None):
        """Change the parameters once; gives the closure's loss."""
        with T.no_grad():
            loss = self._evaluate(closure)
            for group in self.param_groups:
                for p in group["params"]:
                    grad = p.grad
                    if grad is None:
                        continue
                    if not grad.is_sparse:
                        raise RuntimeError("SparseAdam does not support dense gradients, please consider Adam instead")
                    state = self.state[p]
                    if not state:
                        state.update(step=0, exp_avg=T.zeros_like(p), exp_avg_sq=T.zeros_like(p))
                    state["step"] += 1
                    update(p, grad, state["exp_avg"], state["exp_avg_sq"], state["step"], group["eps"], *group["betas"],
                           to_scalar(group["lr"]), group.get("maximize", False))
        return loss


def update(p, grad, mean, square, step, eps, beta1, beta2, lr, maximize):
    """One step of one parameter, at the places that `grad` names."""
    grad = (-grad if maximize else grad).coalesce()
    values = grad._values()
    if values.numel() == 0:
        return
    where = tuple(grad._indices())
    new_mean = mean[where].lerp_(values, 1 - beta1)
    new_square = square[where].lerp_(values * values, 1 - beta2)
    mean[where], square[where] = new_mean, new_square
    rate = lr * (1 - beta2 ** step) ** 0.5 / (1 - beta1 ** step)
    p[where] -= rate * new_mean.div(new_square.sqrt().add_(eps))
