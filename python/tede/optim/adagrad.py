"""Adagrad (Duchi et al., 2011)."""
from ..nn._native import N, T
from ._functional import adagrad  # noqa: F401  the same as a function
from .optimizer import PerParameter, check, check_common, check_fits_fused, check_fused, decayed, step_tensor, to_scalar
from .._docs import completed

__all__ = ["Adagrad", "adagrad"]


@completed
class Adagrad(PerParameter):
    """``p -= lr / (1 + (step - 1) * lr_decay) * g / (sqrt(sum of g**2 so far) + eps)`` (Duchi et al., 2011, "Adaptive
    Subgradient Methods for Online Learning and Stochastic Optimization"). Gradients may be sparse.

        <params>
        lr: the learning rate.
        lr_decay: how it falls with the number of steps.
        weight_decay: is added to the gradient, times the parameter; not with sparse gradients.
        initial_accumulator_value: what the sums begin with.
        eps: keeps the quotient finite.
        <switches>

    >>> w = tede.tensor([1.0], requires_grad=True)
    >>> w.pow(2).sum().backward()
    >>> tede.optim.Adagrad([w], lr=0.1).step()
    >>> w.detach()
    tensor([0.9000])
    """

    def __init__(self, params, lr=1e-2, lr_decay: float = 0, weight_decay: float = 0, initial_accumulator_value=0,
                 eps: float = 1e-10, foreach=None, *, maximize: bool = False, differentiable: bool = False,
                 fused=None) -> None:
        check_common(lr, eps, weight_decay)
        check(0.0 <= lr_decay, f"Invalid lr_decay value: {lr_decay}")
        check(0.0 <= initial_accumulator_value, f"Invalid initial_accumulator_value value: {initial_accumulator_value}")
        super().__init__(params, {
            "lr": lr, "lr_decay": lr_decay, "eps": eps, "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value, "foreach": foreach, "maximize": maximize,
            "differentiable": differentiable, "fused": fused})
        check_fused(fused, foreach, differentiable)
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p].update(self._start(p, group))

    _later_options = {"foreach": None, "maximize": False, "differentiable": False, "fused": None}

    def _start(self, p, group):
        value = self.defaults["initial_accumulator_value"]
        value = complex(value, value) if p.is_complex() else value
        return {"step": step_tensor(p, group), "sum": T.full_like(p, value, memory_format=T.preserve_format)}

    def share_memory(self):
        """Move the sums to memory that other processes can share."""
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p]["sum"].share_memory_()

    def _update(self, p, grad, state, group):
        state["step"] += 1
        if group["fused"]:
            check_fits_fused(p)
            numbers = {name: to_scalar(group[name]) for name in ("lr", "lr_decay", "weight_decay", "eps")}
            N._fused_adagrad_([p], [grad], [state["sum"]], [state["step"]], **numbers, maximize=False)
            return
        grad = decayed(grad, p, group)
        rate = to_scalar(group["lr"]) / (1 + (state["step"].item() - 1) * group["lr_decay"])
        state["sum"].addcmul_(grad, grad, value=1)
        p.addcdiv_(grad, state["sum"].sqrt() + group["eps"], value=-rate)

    def _check_sparse(self, group):
        if group["weight_decay"] != 0:
            raise RuntimeError("weight_decay option is not compatible with sparse gradients")

    def _sparse(self, p, grad, state, group):
        state["step"] += 1
        rate = to_scalar(group["lr"]) / (1 + (state["step"].item() - 1) * group["lr_decay"])
        grad = (-grad if group["maximize"] else grad).coalesce()
        state["sum"].add_(grad * grad)
        root = state["sum"].sparse_mask(grad)._values().sqrt_().add_(group["eps"])
        p.add_(T.sparse_coo_tensor(grad._indices(), grad._values() / root, grad.shape, check_invariants=False), alpha=-rate)
