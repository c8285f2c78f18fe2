"""Stochastic gradient descent, with momentum and Nesterov's variant."""
from ..nn._native import N, T
from ._functional import sgd  # noqa: F401  the same as a function
from .optimizer import Optimizer, check, check_common, check_fits_fused, check_fused, decayed, kept, or_learned, to_scalar
from .._docs import completed

__all__ = ["SGD", "sgd"]


@completed
class SGD(Optimizer):
    """``p -= lr * v`` with ``v = momentum * v + (1 - dampening) * g`` and ``g = grad + weight_decay * p``: gradient
    descent; `v` begins as g.

        <params>
        lr: the learning rate.
        momentum: how much of the last step goes into this one.
        dampening: how much of the gradient doesn't.
        weight_decay: pulls parameters to zero (an L2 penalty).
        nesterov: step along ``g + momentum * v`` (Sutskever et al., 2013, "On the importance of initialization and
            momentum in deep learning"); needs momentum and no dampening (ValueError).
        <switches>

    >>> model = nn.Linear(3, 1)
    >>> optimizer = tede.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    >>> for _ in range(3):
    ...     optimizer.zero_grad()
    ...     model(tede.ones(4, 3)).pow(2).mean().backward()
    ...     optimizer.step()
    """

    def __init__(self, params, lr=1e-3, momentum: float = 0, dampening: float = 0, weight_decay: float = 0,
                 nesterov: bool = False, *, maximize: bool = False, foreach=None, differentiable: bool = False,
                 fused=None) -> None:
        check_common(lr, weight_decay=weight_decay)
        check(momentum >= 0.0, f"Invalid momentum value: {momentum}")
        check(not nesterov or momentum > 0 and dampening == 0, "Nesterov momentum requires a momentum and zero dampening")
        super().__init__(params, {"lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay,
                                  "nesterov": nesterov, "maximize": maximize, "foreach": foreach,
                                  "differentiable": differentiable, "fused": fused})
        check_fused(fused, foreach, differentiable)

    def __setstate__(self, state):
        super().__setstate__(state)
        for group in self.param_groups:
            for name, value in (("nesterov", False), ("maximize", False), ("foreach", None), ("differentiable", False),
                                ("fused", False)):
                group.setdefault(name, value)

    def step(self, closure=None):
        """Change the parameters once; gives the closure's loss."""
        differentiable = self.defaults["differentiable"]
        with T.set_grad_enabled(differentiable):
            loss = self._evaluate(closure)
            for group in self.param_groups:
                params, grads, dtypes = [], [], set()
                for p in group["params"]:
                    grad = p.grad
                    if grad is not None:
                        if group["fused"]:
                            check_fits_fused(p)
                        params.append(p)
                        grads.append(grad)
                        dtypes.add(p.dtype)
                if not params:
                    continue
                watched = not group["fused"] and T._C._is_watched(params)
                if differentiable or len(dtypes) > 1 or params[0].is_complex() or watched or any(g.is_sparse for g in grads):
                    self._plain(group, params, grads)
                else:
                    self._fused(group, params, grads)
        return loss

    def _fused(self, group, params, grads):
        """One native call for all parameters; two where some have met no gradient before."""
        momentum = group["momentum"]
        options = dict(weight_decay=to_scalar(group["weight_decay"]), momentum=momentum, lr=to_scalar(group["lr"]),
                       dampening=group["dampening"], nesterov=group["nesterov"], maximize=group["maximize"])
        native = N._fused_sgd_
        if momentum == 0:
            native(params, grads, [], is_first_step=False, **options)
            return
        rows = [], []
        for p, grad in zip(params, grads):
            state = self.state[p]
            buffer = state.get("momentum_buffer")
            first = buffer is None
            if first:
                buffer = state["momentum_buffer"] = T.empty_like(grad)
            rows[first].append((p, grad, buffer))
        for first, row in enumerate(rows):
            if row:
                native(*map(list, zip(*row)), is_first_step=bool(first), **options)

    def _plain(self, group, params, grads):
        """The same in tensor operations: for gradients through the step, mixed dtypes and complex parameters."""
        momentum, lr = group["momentum"], or_learned(group["lr"], group)
        for p, grad in zip(params, grads):
            if group["maximize"]:
                grad = -grad
            grad = decayed(grad, p, group)
            if momentum != 0:
                state = self.state[p]
                buffer = state.get("momentum_buffer")
                if buffer is None:
                    buffer = state["momentum_buffer"] = grad.detach().clone()
                else:
                    buffer.mul_(momentum).add_(grad, alpha=1 - group["dampening"])
                grad = grad.add(buffer, alpha=momentum) if group["nesterov"] else buffer
            if isinstance(lr, T.Tensor):
                p.addcmul_(kept(grad, group), lr, value=-1)
            else:
                p.add_(grad, alpha=-lr)
