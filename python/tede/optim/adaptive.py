"""Optimizers that scale each parameter's steps by its past gradients, written in tensor operations."""
from ..nn._native import T
from .optimizer import PerParameter, check, check_common, check_fused, step_tensor, to_scalar


def _zeros(p):
    return T.zeros_like(p, memory_format=T.preserve_format)


def _decayed(grad, p, group):
    return grad.add(p, alpha=group["weight_decay"]) if group["weight_decay"] != 0 else grad


class Adagrad(PerParameter):
    """Steps divided by the root of the sum of all squared gradients (Duchi et al., 2011)."""

    def __init__(self, params, lr=1e-2, lr_decay=0, weight_decay=0, initial_accumulator_value=0, eps=1e-10,
                 foreach=None, *, maximize=False, differentiable=False, fused=None):
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
        return {"step": step_tensor(), "sum": T.full_like(p, value, memory_format=T.preserve_format)}

    def share_memory(self):
        """Move the sums to memory that other processes can share."""
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p]["sum"].share_memory_()

    def _update(self, p, grad, state, group):
        state["step"] += 1
        grad = _decayed(grad, p, group)
        rate = to_scalar(group["lr"]) / (1 + (state["step"].item() - 1) * group["lr_decay"])
        state["sum"].addcmul_(grad, grad, value=1)
        p.addcdiv_(grad, state["sum"].sqrt() + group["eps"], value=-rate)


class RMSprop(PerParameter):
    """Steps divided by the root of a running mean of squared gradients (Hinton's lecture 6e)."""

    def __init__(self, params, lr=1e-2, alpha=0.99, eps=1e-8, weight_decay=0, momentum=0, centered=False,
                 capturable=False, foreach=None, maximize=False, differentiable=False):
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
        state = {"step": step_tensor(), "square_avg": _zeros(p)}
        if group["momentum"] > 0:
            state["momentum_buffer"] = _zeros(p)
        if group["centered"]:
            state["grad_avg"] = _zeros(p)
        return state

    def _update(self, p, grad, state, group):
        state["step"] += 1
        grad, alpha, square = _decayed(grad, p, group), group["alpha"], state["square_avg"]
        square.mul_(alpha).addcmul_(grad, grad, value=1 - alpha)
        if group["centered"]:
            mean = state["grad_avg"].lerp_(grad, 1 - alpha)
            size = square.addcmul(mean, mean, value=-1).sqrt_()
        else:
            size = square.sqrt()
        size = size.add(group["eps"])
        if group["momentum"] > 0:
            buffer = state["momentum_buffer"].mul_(group["momentum"]).addcdiv_(grad, size)
            p.add_(buffer, alpha=-to_scalar(group["lr"]))
        else:
            p.addcdiv_(grad, size, value=-to_scalar(group["lr"]))


class Adadelta(PerParameter):
    """Steps in the parameter's own units, without a rate to choose (Zeiler, 2012)."""

    def __init__(self, params, lr=1.0, rho=0.9, eps=1e-6, weight_decay=0, foreach=None, *, capturable=False,
                 maximize=False, differentiable=False):
        check_common(lr)
        check(0.0 <= rho <= 1.0, f"Invalid rho value: {rho}")
        check_common(lr, eps, weight_decay)
        super().__init__(params, {"lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay, "maximize": maximize,
                                  "capturable": capturable, "foreach": foreach, "differentiable": differentiable})

    def _start(self, p, group):
        return {"step": step_tensor(), "square_avg": _zeros(p), "acc_delta": _zeros(p)}

    def _update(self, p, grad, state, group):
        state["step"] += 1
        grad, rho, eps = _decayed(grad, p, group), group["rho"], group["eps"]
        size = state["square_avg"].mul_(rho).addcmul_(grad, grad, value=1 - rho).add(eps).sqrt_()
        delta = state["acc_delta"].add(eps).sqrt().div(size).mul(grad)
        state["acc_delta"].mul_(rho).addcmul_(delta, delta, value=1 - rho)
        p.add_(delta, alpha=-to_scalar(group["lr"]))


class Adamax(PerParameter):
    """`Adam` with the largest recent gradient in place of the root mean square (Kingma & Ba, 2014)."""

    def __init__(self, params, lr=2e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, foreach=None, *, maximize=False,
                 differentiable=False, capturable=False):
        check_common(lr, eps, weight_decay, betas)
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay,
                                  "foreach": foreach, "maximize": maximize, "differentiable": differentiable,
                                  "capturable": capturable})

    def _start(self, p, group):
        return {"step": step_tensor(), "exp_avg": _zeros(p), "exp_inf": _zeros(p)}

    def _update(self, p, grad, state, group):
        state["step"] += 1
        beta1, beta2 = group["betas"]
        grad, top = _decayed(grad, p, group), state["exp_inf"]
        state["exp_avg"].lerp_(grad, 1 - beta1)
        top.copy_(T.maximum(top.mul_(beta2), grad.abs().add_(group["eps"])))
        p.addcdiv_(state["exp_avg"], top, value=-to_scalar(group["lr"]) / (1 - beta1 ** state["step"].item()))


class NAdam(PerParameter):
    """`Adam` with Nesterov momentum (Dozat, 2016)."""

    def __init__(self, params, lr=2e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, momentum_decay=4e-3,
                 decoupled_weight_decay=False, *, foreach=None, maximize=False, capturable=False,
                 differentiable=False):
        check_common(lr, eps, weight_decay, betas)
        check(0.0 <= momentum_decay, f"Invalid momentum_decay value: {momentum_decay}")
        super().__init__(params, {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "momentum_decay": momentum_decay,
            "decoupled_weight_decay": decoupled_weight_decay, "maximize": maximize, "foreach": foreach,
            "capturable": capturable, "differentiable": differentiable})

    _later_options = {**PerParameter._later_options, "decoupled_weight_decay": False}

    def _start(self, p, group):
        return {"step": step_tensor(), "mu_product": step_tensor(1.0), "exp_avg": _zeros(p), "exp_avg_sq": _zeros(p)}

    def _update(self, p, grad, state, group):
        state["step"] += 1
        step, lr, (beta1, beta2) = state["step"].item(), to_scalar(group["lr"]), group["betas"]
        if group["weight_decay"] != 0 and group["decoupled_weight_decay"]:
            p.mul_(1 - lr * group["weight_decay"])
        else:
            grad = _decayed(grad, p, group)
        mu = beta1 * (1.0 - 0.5 * 0.96 ** (step * group["momentum_decay"]))
        next_mu = beta1 * (1.0 - 0.5 * 0.96 ** ((step + 1) * group["momentum_decay"]))
        state["mu_product"] *= mu
        product = state["mu_product"].item()
        mean = state["exp_avg"].lerp_(grad, 1 - beta1)
        square = state["exp_avg_sq"].mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        size = square.div(1 - beta2 ** step).sqrt().add(group["eps"])
        p.addcdiv_(grad, size, value=-lr * (1.0 - mu) / (1.0 - product))
        p.addcdiv_(mean, size, value=-lr * next_mu / (1.0 - product * next_mu))


class RAdam(PerParameter):
    """`Adam` that waits until its second moment can be trusted (Liu et al., 2019)."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, decoupled_weight_decay=False, *,
                 foreach=None, maximize=False, capturable=False, differentiable=False):
        check_common(lr, eps, weight_decay, betas)
        super().__init__(params, {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "maximize": maximize,
            "foreach": foreach, "capturable": capturable, "decoupled_weight_decay": decoupled_weight_decay,
            "differentiable": differentiable})

    _later_options = NAdam._later_options

    def _start(self, p, group):
        return {"step": step_tensor(), "exp_avg": _zeros(p), "exp_avg_sq": _zeros(p)}

    def _update(self, p, grad, state, group):
        state["step"] += 1
        step, lr, (beta1, beta2) = state["step"].item(), to_scalar(group["lr"]), group["betas"]
        if group["weight_decay"] != 0 and group["decoupled_weight_decay"]:
            p.mul_(1 - lr * group["weight_decay"])
        else:
            grad = _decayed(grad, p, group)
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


class ASGD(PerParameter):
    """Gradient descent that also averages the parameters (Polyak & Juditsky, 1992); the average is `ax`."""

    def __init__(self, params, lr=1e-2, lambd=1e-4, alpha=0.75, t0=1e6, weight_decay=0, foreach=None, maximize=False,
                 differentiable=False, capturable=False):
        check_common(lr, weight_decay=weight_decay)
        super().__init__(params, {"lr": lr, "lambd": lambd, "alpha": alpha, "t0": t0, "weight_decay": weight_decay,
                                  "foreach": foreach, "maximize": maximize, "differentiable": differentiable,
                                  "capturable": capturable})

    def _start(self, p, group):
        return {"step": step_tensor(), "eta": step_tensor(float(to_scalar(group["lr"]))), "mu": step_tensor(1.0),
                "ax": _zeros(p)}

    def _update(self, p, grad, state, group):
        state["step"] += 1
        step, lr, eta = state["step"].item(), to_scalar(group["lr"]), state["eta"].item()
        grad = _decayed(grad, p, group)
        p.mul_(1 - group["lambd"] * eta)
        p.add_(grad, alpha=-eta)
        if state["mu"].item() != 1:
            state["ax"].add_(p.sub(state["ax"]).mul_(state["mu"]))
        else:
            state["ax"].copy_(p)
        state["eta"].fill_(lr / (1 + group["lambd"] * lr * step) ** group["alpha"])
        state["mu"].fill_(1 / max(1, step - group["t0"]))


class Rprop(PerParameter):
    """Steps that grow while a gradient keeps its sign and shrink when it changes (Riedmiller & Braun, 1993)."""

    def __init__(self, params, lr=1e-2, etas=(0.5, 1.2), step_sizes=(1e-6, 50), *, capturable=False, foreach=None,
                 maximize=False, differentiable=False):
        check_common(lr)
        check(0.0 < etas[0] < 1.0 < etas[1], f"Invalid eta values: {etas[0]}, {etas[1]}")
        super().__init__(params, {"lr": lr, "etas": etas, "step_sizes": step_sizes, "foreach": foreach,
                                  "maximize": maximize, "differentiable": differentiable, "capturable": capturable})

    def _start(self, p, group):
        lr = to_scalar(group["lr"])
        lr = complex(lr, lr) if p.is_complex() else lr
        return {"step": step_tensor(), "prev": _zeros(p), "step_size": T.full_like(p.grad, lr)}

    def _update(self, p, grad, state, group):
        state["step"] += 1
        shrink, grow = group["etas"]
        sign = grad.mul(state["prev"]).sign()
        factor = T.where(sign.gt(0), grow, T.where(sign.lt(0), shrink, 1.0)).to(grad.dtype)
        state["step_size"].mul_(factor).clamp_(*group["step_sizes"])
        grad = T.where(sign.lt(0), T.zeros_like(grad), grad)
        p.addcmul_(grad.sign(), state["step_size"], value=-1)
        state["prev"].copy_(grad)
