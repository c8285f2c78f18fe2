"""Adam (Kingma & Ba, 2014), and AdamW's decoupled weight decay: one native call per group and step."""
from ..nn._native import N, T
from ._functional import adam  # noqa: F401  the same as a function
from .optimizer import Optimizer, check_common, check_fits_fused, check_fused, decayed, kept, or_learned, step_tensor, to_scalar, zero_dim
from .._docs import completed

__all__ = ["Adam", "adam"]


@completed
class Adam(Optimizer):
    """``p -= lr * m / (sqrt(v) + eps)``, where m and v are running means of the gradient and of its square, corrected
    for having begun at zero (Kingma and Ba, 2014, "Adam: A Method for Stochastic Optimization").

        <params>
        lr: the learning rate.
        betas: how much of m and of v stays at each step.
        eps: keeps the quotient finite.
        weight_decay: is added to the gradient, times the parameter; see `AdamW` for another way.
        amsgrad: divide by the largest v so far (Reddi et al., 2018, "On the Convergence of Adam and Beyond").
        <switches>
        <capturable>
        decoupled_weight_decay: decay as `AdamW` does.

    >>> model = nn.Linear(3, 1)
    >>> optimizer = tede.optim.Adam(model.parameters(), lr=1e-2)
    >>> optimizer.zero_grad()
    >>> model(tede.ones(4, 3)).pow(2).mean().backward()
    >>> optimizer.step()
    """

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps: float = 1e-8, weight_decay: float = 0,
                 amsgrad: bool = False, *, foreach=None, maximize: bool = False, capturable: bool = False,
                 differentiable: bool = False, fused=None, decoupled_weight_decay: bool = False) -> None:
        if isinstance(lr, T.Tensor) and foreach and not capturable:
            raise ValueError("lr as a Tensor is not supported for capturable=False and foreach=True")
        check_common(lr, eps, weight_decay, betas)
        if not (all(isinstance(beta, float) for beta in betas) or all(isinstance(beta, T.Tensor) for beta in betas)):
            raise ValueError("betas must be either both floats or both Tensors")
        for i, beta in enumerate(betas):
            if isinstance(beta, T.Tensor):
                if foreach and not capturable:
                    raise ValueError(f"betas[{i}] as a Tensor is not supported for capturable=False and foreach=True")
                if beta.numel() != 1:
                    raise ValueError(f"Tensor betas[{i}] must be 1-element")
        super().__init__(params, {
            "lr": lr, "betas": tuple(map(zero_dim, betas)), "eps": eps, "weight_decay": weight_decay,
            "amsgrad": amsgrad, "maximize": maximize, "foreach": foreach, "capturable": capturable,
            "differentiable": differentiable, "fused": fused, "decoupled_weight_decay": decoupled_weight_decay})
        check_fused(fused, foreach, differentiable)

    def __setstate__(self, state):
        super().__setstate__(state)
        for group in self.param_groups:
            for name, value in (("amsgrad", False), ("maximize", False), ("foreach", None), ("capturable", False),
                                ("differentiable", False), ("decoupled_weight_decay", False), ("fused", None)):
                group.setdefault(name, value)
            for p in group["params"]:
                own = self.state.get(p)
                if own and not isinstance(own["step"], T.Tensor):
                    own["step"] = step_tensor(p, group, float(own["step"]))

    def _start(self, p, group):
        if group["fused"]:
            check_fits_fused(p)
        state = self.state[p]
        state["step"] = step_tensor(p, group)
        state["exp_avg"] = T.zeros_like(p, memory_format=T.preserve_format)
        state["exp_avg_sq"] = T.zeros_like(p, memory_format=T.preserve_format)
        if group["amsgrad"]:
            state["max_exp_avg_sq"] = T.zeros_like(p, memory_format=T.preserve_format)
        return state

    def step(self, closure=None):
        """Change the parameters once; gives the closure's loss."""
        differentiable, states = self.defaults["differentiable"], self.state
        with T.set_grad_enabled(differentiable):
            loss = self._evaluate(closure)
            for group in self.param_groups:
                amsgrad = group["amsgrad"]
                params, grads, means, squares, largest, steps, dtypes = [], [], [], [], [], [], set()
                for p in group["params"]:
                    grad = p.grad
                    if grad is None:
                        continue
                    if grad.is_sparse:
                        raise RuntimeError("Adam does not support sparse gradients, please consider SparseAdam instead")
                    state = states[p] or self._start(p, group)
                    params.append(p)
                    grads.append(grad)
                    means.append(state["exp_avg"])
                    squares.append(state["exp_avg_sq"])
                    steps.append(state["step"])
                    dtypes.add(p.dtype)
                    if amsgrad:
                        largest.append(state["max_exp_avg_sq"])
                if not params:
                    continue
                watched = not group["fused"] and T._C._is_watched(params)
                if differentiable or len(dtypes) > 1 or params[0].is_complex() or steps[0].dtype != T.float32 or watched:
                    self._plain(group, params, grads, means, squares, largest, steps)
                    continue
                for count in steps:
                    count += 1
                native = N._fused_adamw_ if group["decoupled_weight_decay"] else N._fused_adam_
                beta1, beta2 = group["betas"]
                native(params, grads, means, squares, largest, steps, lr=to_scalar(group["lr"]), beta1=to_scalar(beta1),
                       beta2=to_scalar(beta2), weight_decay=to_scalar(group["weight_decay"]), eps=group["eps"], amsgrad=amsgrad,
                       maximize=group["maximize"])
        return loss

    def _plain(self, group, params, grads, means, squares, largest, steps):
        """The same in tensor operations: for gradients through the step, mixed dtypes and complex parameters."""
        lr, beta1, beta2 = (or_learned(value, group) for value in (group["lr"], *group["betas"]))
        decay, eps = or_learned(group["weight_decay"], group), group["eps"]
        learned = any(isinstance(value, T.Tensor) for value in (lr, beta1, beta2, decay))
        for i, (p, grad, mean, square, count) in enumerate(zip(params, grads, means, squares, steps)):
            top = largest[i] if group["amsgrad"] else None
            count += 1
            step = count.item()
            grad = -grad if group["maximize"] else grad
            if not group["decoupled_weight_decay"]:
                grad = decayed(grad, p, group)
            elif decay != 0:
                p.copy_(p.clone() * (1 - lr * decay)) if learned else p.mul_(1 - lr * decay)
            if p.is_complex():
                p, grad, mean, square = (T.view_as_real(t) for t in (p, grad, mean, square))
                top = None if top is None else T.view_as_real(top)
            mean.lerp_(grad, 1 - beta1)
            if learned:
                square.lerp_(grad * grad, 1 - beta2)
            else:
                square.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
            if top is not None:
                square = top.copy_(T.maximum(kept(top, group), kept(square, group)))
            size = (square.sqrt() / (1 - beta2 ** step) ** 0.5).add_(eps)
            if learned:
                p.sub_(mean.clone() / size * (lr / (1 - beta1 ** step)))
                continue
            p.addcdiv_(kept(mean, group), size, value=-lr / (1 - beta1 ** step))
