"""L-BFGS: Newton steps with an inverse Hessian known from the last gradients (Nocedal & Wright, algorithm 7.4)."""
from ..nn._native import T
from .optimizer import Optimizer, check_common, to_scalar, zero_dim

__all__ = ["LBFGS"]


# What is carried from one step to the next, in PyTorch's order: the last direction and its length, the history of
# gradient and position differences with their inverse products, the first guess's scale, and where the last step began.
_MEMORY = ("d", "t", "old_dirs", "old_stps", "ro", "H_diag", "prev_flat_grad", "prev_loss")


class LBFGS(Optimizer):
    """Quasi-Newton steps: the inverse of the matrix of second derivatives is approximated from the last gradients and
    steps (Liu and Nocedal, 1989, "On the limited memory BFGS method for large scale optimization"). For few parameters
    and losses without noise.

        params: one group of parameters only (ValueError).
        lr: the length of steps, or what a line search begins with.
        max_iter, max_eval: iterations, and evaluations of the loss, in one `step`; max_eval is else 5/4 of max_iter.
        tolerance_grad, tolerance_change: end where the largest gradient, or change, is below.
        history_size: how many steps are remembered, two vectors of all parameters each.
        line_search_fn: None, or "strong_wolfe" (Nocedal and Wright, 2006, "Numerical Optimization", chapter 3).

    `step` needs a closure, which clears gradients, computes the loss, goes backward, and gives it.

    >>> w = tede.tensor([3.0, -2.0], requires_grad=True)
    >>> optimizer = tede.optim.LBFGS([w], line_search_fn="strong_wolfe")
    >>> def closure():
    ...     optimizer.zero_grad()
    ...     loss = (w - 1).pow(2).sum()
    ...     loss.backward()
    ...     return loss
    >>> _ = optimizer.step(closure)
    >>> w.detach().round(decimals=3)
    tensor([1., 1.])
    """

    def __init__(self, params, lr=1, max_iter=20, max_eval=None, tolerance_grad=1e-7, tolerance_change=1e-9,
                 history_size=100, line_search_fn=None) -> None:
        check_common(lr)
        super().__init__(params, {
            "lr": lr, "max_iter": max_iter, "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
            "tolerance_grad": tolerance_grad, "tolerance_change": tolerance_change, "history_size": history_size,
            "line_search_fn": line_search_fn})
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")
        self._params = self.param_groups[0]["params"]

    def __setstate__(self, state):
        super().__setstate__(state)
        self._params = self.param_groups[0]["params"]

    def _flat_grad(self):
        rows = []
        for p in self._params:
            row = T.zeros_like(p) if p.grad is None else p.grad.to_dense() if p.grad.is_sparse else p.grad
            rows.append(T.view_as_real(row).reshape(-1) if row.is_complex() else row.reshape(-1))
        return T.cat(rows)

    def _move(self, length, direction):
        start = 0
        for p in self._params:
            p = T.view_as_real(p) if p.is_complex() else p
            count = p.numel()
            p.add_(direction[start:start + count].view_as(p), alpha=to_scalar(length))
            start += count

    def step(self, closure):
        """Run up to `max_iter` iterations; gives the loss at the beginning."""
        group, state = self.param_groups[0], self.state[self._params[0]]
        lr, tolerance_change = zero_dim(group["lr"]), group["tolerance_change"]
        if group["line_search_fn"] not in (None, "strong_wolfe"):
            raise RuntimeError("only 'strong_wolfe' is supported")
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)

        def evaluate():
            with T.enable_grad():
                return closure()

        with T.no_grad():
            first = evaluate()
            loss, evaluations = float(first), 1
            state["func_evals"] += 1
            grad = self._flat_grad()
            if grad.abs().max() <= group["tolerance_grad"]:
                return first
            memory = {key: state.get(key) for key in _MEMORY}
            for iteration in range(1, group["max_iter"] + 1):
                state["n_iter"] += 1
                direction = self._direction(grad, state, memory, group["history_size"])
                if memory["prev_flat_grad"] is None:
                    memory["prev_flat_grad"] = grad.clone()
                else:
                    memory["prev_flat_grad"].copy_(grad)
                memory["prev_loss"] = before = loss
                length = lr if state["n_iter"] > 1 else min(1.0, 1.0 / grad.abs().sum()) * lr
                slope = grad.dot(direction)
                memory["d"], memory["t"] = direction, length
                if slope > -tolerance_change:
                    break
                flat, used = False, 0
                if group["line_search_fn"]:
                    start = [p.clone() for p in self._params]

                    def probe(t):
                        self._move(t, direction)
                        value = float(evaluate())
                        gradient = self._flat_grad()
                        for p, saved in zip(self._params, start):
                            p.copy_(saved)
                        return value, gradient

                    loss, grad, length, used = _strong_wolfe(probe, length, direction, loss, grad, slope,
                                                             max_steps=group["max_eval"] - evaluations)
                    memory["t"] = length
                    self._move(length, direction)
                    flat = grad.abs().max() <= group["tolerance_grad"]
                else:
                    self._move(length, direction)
                    if iteration != group["max_iter"]:
                        loss, used = float(evaluate()), 1
                        grad = self._flat_grad()
                        flat = grad.abs().max() <= group["tolerance_grad"]
                evaluations += used
                state["func_evals"] += used
                if (evaluations >= group["max_eval"] or flat or direction.mul(length).abs().max() <= tolerance_change
                        or abs(loss - before) < tolerance_change):
                    break
            state.update(memory)
        return first

    @staticmethod
    def _direction(grad, state, memory, history_size):
        """Minus the approximate inverse Hessian times the gradient, by the two loops over what is remembered."""
        if state["n_iter"] == 1:
            memory["old_dirs"], memory["old_stps"], memory["ro"], memory["H_diag"] = [], [], [], 1
            return grad.neg()
        ys, ss, ro = memory["old_dirs"], memory["old_stps"], memory["ro"]
        y, s = grad.sub(memory["prev_flat_grad"]), memory["d"].mul(memory["t"])
        curvature = y.dot(s)
        if curvature > 1e-10:
            if len(ys) == history_size:
                for row in (ys, ss, ro):
                    row.pop(0)
            ys.append(y)
            ss.append(s)
            ro.append(1.0 / curvature)
            memory["H_diag"] = curvature / y.dot(y)
        alphas = state.setdefault("al", [None] * history_size)
        q = grad.neg()
        for i in range(len(ys) - 1, -1, -1):
            alphas[i] = ss[i].dot(q) * ro[i]
            q.add_(ys[i], alpha=-alphas[i].item())
        r = T.mul(q, memory["H_diag"])
        for i in range(len(ys)):
            r.add_(ss[i], alpha=(alphas[i] - ys[i].dot(r) * ro[i]).item())
        return r


def _cubic_minimum(x1, f1, g1, x2, f2, g2, bounds=None):
    """Where the cubic through two points with these slopes is least, held within `bounds` (Nocedal & Wright, 3.59)."""
    low, high = bounds or (min(x1, x2), max(x1, x2))
    if x1 > x2:
        x1, f1, g1, x2, f2, g2 = x2, f2, g2, x1, f1, g1
    d1 = g1 + g2 - 3 * (f1 - f2) / (x1 - x2)
    square = d1 ** 2 - g1 * g2
    if square < 0:
        return (low + high) / 2.0
    d2 = square ** 0.5
    divisor = g2 - g1 + 2 * d2
    if divisor == 0:
        return (low + high) / 2.0
    return min(max(x2 - (x2 - x1) * ((g2 + d2 - d1) / divisor), low), high)


def _strong_wolfe(probe, t, direction, f, g, slope, c1=1e-4, c2=0.9, tolerance=1e-9, max_steps=25):
    """(loss, gradient, length, evaluations) of a step along `direction` that meets both Wolfe conditions.

    First the step grows until an interval is known that holds such a point, then the interval shrinks. Points are
    (length, loss, gradient, slope). Slopes, and lengths from the second on, are scalar tensors, so that they are
    computed in the parameters' precision as PyTorch computes them.
    """
    largest, start = direction.abs().max(), (0, f, g, slope)

    def point(length):
        value, gradient = probe(length)
        return length, value, gradient.clone(), gradient.dot(direction)

    before, now, steps, done = start, point(t), 0, False
    evaluations = 1
    while steps < max_steps:
        if now[1] > f + c1 * now[0] * slope or steps > 1 and now[1] >= before[1]:
            ends = [before, now]
            break
        if abs(now[3]) <= -c2 * slope:
            ends, done = [now], True
            break
        if now[3] >= 0:
            ends = [before, now]
            break
        longer = (now[0] + 0.01 * (now[0] - before[0]), now[0] * 10)
        t = _cubic_minimum(before[0], before[1], before[3], now[0], now[1], now[3], longer)
        before, now = now, point(t)
        evaluations += 1
        steps += 1
    else:
        ends = [start, now]

    stuck = False
    low = 0 if ends[0][1] <= ends[-1][1] else 1
    while not done and steps < max_steps:
        a, b = sorted((ends[0][0], ends[1][0]))
        if (b - a) * largest < tolerance:
            break
        t = _cubic_minimum(*ends[0][:2], ends[0][3], *ends[1][:2], ends[1][3])
        # A point that hugs an end twice over makes no progress: move it inwards.
        margin = 0.1 * (b - a)
        if min(b - t, t - a) < margin:
            if stuck or t >= b or t <= a:
                t = b - margin if abs(t - b) < abs(t - a) else a + margin
                stuck = False
            else:
                stuck = True
        else:
            stuck = False
        now = point(t)
        evaluations += 1
        steps += 1
        high = 1 - low
        if now[1] > f + c1 * t * slope or now[1] >= ends[low][1]:
            ends[high] = now
            low = 0 if ends[0][1] <= ends[1][1] else 1
        else:
            if abs(now[3]) <= -c2 * slope:
                done = True
            elif now[3] * (ends[high][0] - ends[low][0]) >= 0:
                ends[high] = ends[low]
            ends[low] = now
    length, value, gradient, _ = ends[low if len(ends) > 1 else 0]
    return value, gradient, length, evaluations
