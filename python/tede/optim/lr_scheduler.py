"""Schedules: learning rates (and momenta) that change from step to step.

Most schedules compute the next rate from the current one, so that several can work on the same optimizer and a rate set
by hand is kept; the arithmetic is PyTorch's, to the last bit. `_get_closed_form_lr`, where there is one, gives the rate
of any epoch at once.
"""
import contextlib
import functools
import math
import warnings
import weakref
from bisect import bisect_right
from collections import Counter
from typing import Any

from .._suggest import Constructor
from ..nn._native import T
from .optimizer import Optimizer, to_scalar
from .._docs import completed

__all__ = ["LambdaLR", "MultiplicativeLR", "StepLR", "MultiStepLR", "ConstantLR", "LinearLR", "ExponentialLR", "SequentialLR",
           "CosineAnnealingLR", "ChainedScheduler", "ReduceLROnPlateau", "CyclicLR", "CosineAnnealingWarmRestarts",
           "OneCycleLR", "PolynomialLR", "LRScheduler"]


def _own(value):
    return value.clone() if isinstance(value, T.Tensor) else value


def _values(optimizer, key):
    return [_own(group[key]) for group in optimizer.param_groups]


def _set(group, key, value):
    if isinstance(group[key], T.Tensor):
        group[key].fill_(to_scalar(value))      # whoever holds the tensor sees the new rate
    else:
        group[key] = value


def _per_group(name, optimizer, value):
    count = len(optimizer.param_groups)
    if not isinstance(value, (list, tuple)):
        return [_own(value) for _ in range(count)]
    if len(value) != count:
        raise ValueError(f"{name} must have the same length as optimizer.param_groups. {name} has {len(value)} values, "
                         f"param_groups has {count}.")
    return [_own(v) for v in value]


def _check_optimizer(optimizer):
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")


EPOCH_DEPRECATION_WARNING = (
    "The epoch parameter in `scheduler.step()` was not necessary and is being deprecated where possible. Please use "
    "`scheduler.step()` to step the scheduler. During the deprecation, if epoch is different from None, the closed form is "
    "used instead of the new chainable form, where available. Please open an issue if you are unable to replicate your use "
    "case: https://github.com/pytorch/pytorch/issues/new/choose.")


_ORDER = "https://pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate"


def _warn_epoch():
    warnings.warn(EPOCH_DEPRECATION_WARNING, UserWarning, stacklevel=4)


def _noting(optimizer):
    """The step of an optimizer around another one, which hasn't called our constructor, so that its calls are noted."""
    step, of = type(optimizer).step, weakref.ref(optimizer)

    @functools.wraps(step)
    def noting(*args, **kwargs):
        of()._opt_called = True
        return step(of(), *args, **kwargs)
    noting._wrapped_by_lr_sched = True
    return noting


@completed
class LRScheduler(Constructor):
    """Base of all schedules: sets each group's "lr" when it is made, and at each `step`. A subclass writes `get_lr`,
    which gives the next rates, one per group, and finds `last_epoch`, `base_lrs` and `optimizer.param_groups`.

        <last_epoch>

    Call `step` after the optimizer's, or the first rate is skipped (a warning says so).

    >>> class Halving(tede.optim.lr_scheduler.LRScheduler):
    ...     def get_lr(self):
    ...         return [rate * 0.5 ** self.last_epoch for rate in self.base_lrs]
    >>> optimizer = tede.optim.SGD([nn.Parameter(tede.zeros(1))], lr=1.0)
    >>> schedule = Halving(optimizer)
    >>> optimizer.step(); schedule.step()
    >>> schedule.get_last_lr()
    [0.5]
    """

    _get_lr_called_within_step = False
    _is_initial = False

    def __init__(self, optimizer, last_epoch: int = -1) -> None:
        _check_optimizer(optimizer)
        self.optimizer = optimizer
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", _own(group["lr"]))
            elif "initial_lr" not in group:
                raise KeyError(f"param 'initial_lr' is not specified in param_groups[{i}] when resuming scheduler with "
                               "last_epoch >= 0.\nThis typically happens when:\n1. You're trying to resume training from "
                               "a checkpoint but haven't properly loaded the optimizer state\n2. You're using last_epoch "
                               ">= 0 for a fresh training run (not recommended)")
        self.base_lrs = _values(optimizer, "initial_lr")
        self.last_epoch = last_epoch
        own = optimizer.__dict__.get("step")        # put there before this schedule was made: see _warn_of_order
        if own is not None:
            with contextlib.suppress(AttributeError):   # something without attributes of its own
                getattr(own, "__func__", own)._wrapped_by_lr_sched = True
        elif not getattr(type(optimizer).step, "hooked", False):
            optimizer.step = _noting(optimizer)
        self._initial_step()

    def _initial_step(self):
        self._step_count = 0
        self._is_initial = True
        try:
            self.step()
        finally:
            self._is_initial = False

    def state_dict(self) -> dict[str, Any]:
        """All of the schedule's state but the optimizer."""
        return {key: value for key, value in self.__dict__.items() if key != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take back what `state_dict` gave."""
        self.__dict__.update(state_dict)

    def get_last_lr(self) -> list[Any]:
        """The rates that were set last, one per group."""
        return self._last_lr

    def get_lr(self) -> list[Any]:
        """The next rates; `step` calls it."""
        raise NotImplementedError(f"{type(self).__name__}.get_lr: a schedule defines its own")

    def _warn_of_order(self):
        """At the first step: whether the optimizer has stepped, as far as that can be known."""
        own = self.optimizer.__dict__.get("step")
        if own is not None and not hasattr(own, "_wrapped_by_lr_sched"):
            warnings.warn("Seems like `optimizer.step()` has been overridden after learning rate scheduler initialization. "
                          "Please, make sure to call `optimizer.step()` before `lr_scheduler.step()`. See more details at "
                          + _ORDER, UserWarning, stacklevel=3)
        elif not getattr(self.optimizer, "_opt_called", False):
            warnings.warn("Detected call of `lr_scheduler.step()` before `optimizer.step()`. In PyTorch 1.1.0 and later, "
                          "you should call them in the opposite order: `optimizer.step()` before `lr_scheduler.step()`.  "
                          "Failure to do this will result in PyTorch skipping the first value of the learning rate "
                          "schedule. See more details at " + _ORDER, UserWarning, stacklevel=3)

    def step(self, epoch: Any = None) -> None:
        """Go on by one step (or to `epoch`, which is deprecated), and set the optimizer's rates."""
        if self._step_count == 1:
            self._warn_of_order()
        self._step_count += 1
        if epoch is not None:
            _warn_epoch()
        self._update_lr(epoch)

    def _update_lr(self, epoch=None):
        self._get_lr_called_within_step = True
        try:
            if epoch is None:
                self.last_epoch += 1
                values = self.get_lr()
            else:
                self.last_epoch = epoch
                closed = getattr(self, "_get_closed_form_lr", None)
                values = closed() if closed is not None else self.get_lr()
        finally:
            self._get_lr_called_within_step = False
        self._apply(values)

    def _apply(self, values):
        for group, value in zip(self.optimizer.param_groups, values):
            _set(group, "lr", value)
        self._last_lr = _values(self.optimizer, "lr")

    def _check_called_by_step(self):
        if not self._get_lr_called_within_step:
            warnings.warn("To get the last learning rate computed by the scheduler, please use `get_last_lr()`.",
                          UserWarning, stacklevel=3)

    def _scaled(self, factor):
        return [group["lr"] * factor for group in self.optimizer.param_groups]

    def _unchanged(self):
        return _values(self.optimizer, "lr")


class _WithFunctions(LRScheduler):
    """A schedule from functions of the epoch, one per group. Only objects' attributes are saved, not functions."""

    def __init__(self, optimizer, lr_lambda, last_epoch=-1):
        self.optimizer = optimizer
        count = len(optimizer.param_groups)
        if not isinstance(lr_lambda, (list, tuple)):
            self.lr_lambdas = [lr_lambda] * count
        elif len(lr_lambda) != count:
            raise ValueError(f"Expected {count} lr_lambdas, but got {len(lr_lambda)}")
        else:
            self.lr_lambdas = list(lr_lambda)
        for function in self.lr_lambdas:
            if not callable(function):
                raise TypeError(f"lr_lambda should be a function, but got {type(function).__name__}")
        super().__init__(optimizer, last_epoch)

    def state_dict(self) -> dict[str, Any]:
        state = {key: value for key, value in self.__dict__.items() if key not in ("optimizer", "lr_lambdas")}
        state["lr_lambdas"] = [None if isinstance(f, type(_own)) else f.__dict__.copy() for f in self.lr_lambdas]
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        for function, saved in zip(self.lr_lambdas, state_dict["lr_lambdas"]):
            if saved is not None:
                function.__dict__.update(saved)
        self.__dict__.update((key, value) for key, value in state_dict.items() if key != "lr_lambdas")


@completed
class LambdaLR(_WithFunctions):
    """``initial_lr * lr_lambda(epoch)``.

        lr_lambda: a function of the epoch, or a list of them, one a group. Functions aren't saved by `state_dict`,
            objects' attributes are.
        <last_epoch>

    >>> optimizer = tede.optim.SGD([nn.Parameter(tede.zeros(1))], lr=1.0)
    >>> schedule = tede.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 0.9 ** epoch)
    >>> optimizer.step(); schedule.step()
    >>> schedule.get_last_lr()
    [0.9]
    """

    def get_lr(self) -> list[Any]:
        self._check_called_by_step()
        return [base * function(self.last_epoch) for base, function in zip(self.base_lrs, self.lr_lambdas)]


@completed
class MultiplicativeLR(_WithFunctions):
    """The current rate times ``lr_lambda(epoch)``, at each step but the first.

        lr_lambda: a function of the epoch, or a list of them, one a group.
        <last_epoch>

    >>> optimizer = tede.optim.SGD([nn.Parameter(tede.zeros(1))], lr=1.0)
    >>> schedule = tede.optim.lr_scheduler.MultiplicativeLR(optimizer, lambda epoch: 0.5)
    >>> optimizer.step(); schedule.step()
    >>> schedule.get_last_lr()
    [0.5]
    """

    def get_lr(self) -> list[Any]:
        self._check_called_by_step()
        if self._is_initial:
            return self._unchanged()
        return [group["lr"] * function(self.last_epoch)
                for group, function in zip(self.optimizer.param_groups, self.lr_lambdas)]


@completed
class StepLR(LRScheduler):
    """``initial_lr * gamma ** (epoch // step_size)``.

        step_size: after how many epochs the rate changes.
        gamma: by what.
        <last_epoch>

    >>> optimizer = tede.optim.SGD([nn.Parameter(tede.zeros(1))], lr=1.0)
    >>> schedule = tede.optim.lr_scheduler.StepLR(optimizer, step_size=2)
    >>> for epoch in range(4):
    ...     print(epoch, schedule.get_last_lr())
    ...     optimizer.step(); schedule.step()
    0 [1.0]
    1 [1.0]
    2 [0.1]
    3 [0.1]
    """

    def __init__(self, optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1) -> None:
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        self._check_called_by_step()
        if self.last_epoch == 0 or self.last_epoch % self.step_size != 0:
            return self._unchanged()
        return self._scaled(self.gamma)

    def _get_closed_form_lr(self):
        return [base * self.gamma ** (self.last_epoch // self.step_size) for base in self.base_lrs]


@completed
class MultiStepLR(LRScheduler):
    """The rate times `gamma` at each of the `milestones`, which are epochs; one that is there twice counts twice.

        <last_epoch>

    >>> optimizer = tede.optim.SGD([nn.Parameter(tede.zeros(1))], lr=1.0)
    >>> schedule = tede.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[1, 3], gamma=0.5)
    >>> for epoch in range(4):
    ...     print(epoch, schedule.get_last_lr())
    ...     optimizer.step(); schedule.step()
    0 [1.0]
    1 [0.5]
    2 [0.5]
    3 [0.25]
    """

    def __init__(self, optimizer, milestones, gamma: float = 0.1, last_epoch: int = -1) -> None:
        self.milestones, self.gamma = Counter(milestones), gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        self._check_called_by_step()
        if self.last_epoch not in self.milestones:
            return self._unchanged()
        return self._scaled(self.gamma ** self.milestones[self.last_epoch])

    def _get_closed_form_lr(self):
        passed = bisect_right(sorted(self.milestones.elements()), self.last_epoch)
        return [base * self.gamma ** passed for base in self.base_lrs]


@completed
class ConstantLR(LRScheduler):
    """``initial_lr * factor`` until epoch `total_iters`, then ``initial_lr``.

        factor: from 0 to 1, else a ValueError.
        <last_epoch>

    >>> optimizer = tede.optim.SGD([nn.Parameter(tede.zeros(1))], lr=1.0)
    >>> tede.optim.lr_scheduler.ConstantLR(optimizer, factor=0.5, total_iters=2).get_last_lr()
    [0.5]
    """

    def __init__(self, optimizer, factor: float = 1.0 / 3, total_iters: int = 5, last_epoch: int = -1) -> None:
        if factor > 1.0 or factor < 0:
            raise ValueError("Constant multiplicative factor expected to be between 0 and 1.")
        self.factor, self.total_iters = factor, total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        self._check_called_by_step()
        if self.last_epoch == 0:
            return self._scaled(self.factor)
        return self._scaled(1.0 / self.factor) if self.last_epoch == self.total_iters else self._unchanged()

    def _get_closed_form_lr(self):
        return [base * (self.factor + (self.last_epoch >= self.total_iters) * (1 - self.factor))
                for base in self.base_lrs]


@completed
class LinearLR(LRScheduler):
    """``initial_lr`` times a factor that goes from `start_factor` to `end_factor` in `total_iters` equal steps: a
    warm-up.

        start_factor: above 0, at most 1; end_factor: from 0 to 1; else a ValueError.
        <last_epoch>

    >>> optimizer = tede.optim.SGD([nn.Parameter(tede.zeros(1))], lr=1.0)
    >>> schedule = tede.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.5, total_iters=2)
    >>> for epoch in range(3):
    ...     print(epoch, schedule.get_last_lr())
    ...     optimizer.step(); schedule.step()
    0 [0.5]
    1 [0.75]
    2 [1.0]
    """

    def __init__(self, optimizer, start_factor: float = 1.0 / 3, end_factor: float = 1.0, total_iters: int = 5,
                 last_epoch: int = -1) -> None:
        if start_factor > 1.0 or start_factor <= 0:
            raise ValueError("Starting multiplicative factor expected to be greater than 0 and less or equal to 1.")
        if end_factor > 1.0 or end_factor < 0:
            raise ValueError("Ending multiplicative factor expected to be between 0 and 1.")
        self.start_factor, self.end_factor, self.total_iters = start_factor, end_factor, total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        self._check_called_by_step()
        if self.last_epoch == 0:
            return self._scaled(self.start_factor)
        if self._is_initial or self.last_epoch > self.total_iters:
            return self._unchanged()
        rise = self.end_factor - self.start_factor
        return self._scaled(1.0 + rise / (self.total_iters * self.start_factor + (self.last_epoch - 1) * rise))

    def _get_closed_form_lr(self):
        rise = self.end_factor - self.start_factor
        done = min(self.total_iters, self.last_epoch)
        return [base * (self.start_factor + rise * done / self.total_iters) for base in self.base_lrs]


@completed
class ExponentialLR(LRScheduler):
    """``initial_lr * gamma ** epoch``.

        <last_epoch>

    >>> optimizer = tede.optim.SGD([nn.Parameter(tede.zeros(1))], lr=1.0)
    >>> schedule = tede.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
    >>> optimizer.step(); schedule.step()
    >>> schedule.get_last_lr()
    [0.5]
    """

    def __init__(self, optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        self._check_called_by_step()
        return self._unchanged() if self._is_initial else self._scaled(self.gamma)

    def _get_closed_form_lr(self):
        return [base * self.gamma ** self.last_epoch for base in self.base_lrs]


@completed
class PolynomialLR(LRScheduler):
    """``initial_lr * (1 - epoch / total_iters) ** power``, zero from `total_iters` on.

        <last_epoch>

    >>> optimizer = tede.optim.SGD([nn.Parameter(tede.zeros(1))], lr=1.0)
    >>> schedule = tede.optim.lr_scheduler.PolynomialLR(optimizer, total_iters=4)
    >>> optimizer.step(); schedule.step()
    >>> schedule.get_last_lr()
    [0.75]
    """

    def __init__(self, optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1) -> None:
        self.total_iters, self.power = total_iters, power
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        self._check_called_by_step()
        if self._is_initial or self.last_epoch > self.total_iters:
            return self._unchanged()
        now, before = 1.0 - self.last_epoch / self.total_iters, 1.0 - (self.last_epoch - 1) / self.total_iters
        return self._scaled((now / before) ** self.power)

    def _get_closed_form_lr(self):
        done = min(self.total_iters, self.last_epoch)
        return [base * (1.0 - done / self.total_iters) ** self.power for base in self.base_lrs]


@completed
class CosineAnnealingLR(LRScheduler):
    """``eta_min + (initial_lr - eta_min) * (1 + cos(pi * epoch / T_max)) / 2``: half a cosine down over `T_max` epochs,
    then up again, and so on (Loshchilov and Hutter, 2016, "SGDR: Stochastic Gradient Descent with Warm Restarts",
    without the restarts).

        eta_min: the least rate.
        <last_epoch>

    >>> optimizer = tede.optim.SGD([nn.Parameter(tede.zeros(1))], lr=1.0)
    >>> schedule = tede.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=2)
    >>> for epoch in range(3):
    ...     print(epoch, [round(rate, 3) for rate in schedule.get_last_lr()])
    ...     optimizer.step(); schedule.step()
    0 [1.0]
    1 [0.5]
    2 [0.0]
    """

    def __init__(self, optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        self._check_called_by_step()
        T_max, low, epoch = self.T_max, self.eta_min, self.last_epoch
        if self._is_initial:
            return self._unchanged()
        if self._step_count == 1 and epoch > 0:
            return [low + (base - low) * (1 + math.cos(epoch * math.pi / T_max)) / 2 for base in self.base_lrs]
        groups = self.optimizer.param_groups
        if (epoch - 1 - T_max) % (2 * T_max) == 0:          # at the bottom, where the quotient below is 0 / 0
            return [group["lr"] + (base - low) * (1 - math.cos(math.pi / T_max)) / 2
                    for base, group in zip(self.base_lrs, groups)]
        return [(1 + math.cos(math.pi * epoch / T_max)) / (1 + math.cos(math.pi * (epoch - 1) / T_max))
                * (group["lr"] - low) + low for group in groups]

    def _get_closed_form_lr(self):
        return [self.eta_min + (base - self.eta_min) * (1 + math.cos(math.pi * self.last_epoch / self.T_max)) / 2
                for base in self.base_lrs]


@completed
class CosineAnnealingWarmRestarts(LRScheduler):
    """Half a cosine down to `eta_min`, then at once back to the initial rate (Loshchilov and Hutter, 2016, "SGDR:
    Stochastic Gradient Descent with Warm Restarts").

        T_0: epochs of the first way down; a positive int, else a ValueError.
        T_mult: each further one takes as many times the epochs of the one before; an int from 1.
        eta_min: the least rate.
        <last_epoch>

    `step(epoch)` may be given fractions, ``epoch + batch / batches``, to change the rate after each batch.

    >>> optimizer = tede.optim.SGD([nn.Parameter(tede.zeros(1))], lr=1.0)
    >>> schedule = tede.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=2)
    >>> for epoch in range(3):
    ...     print(epoch, [round(rate, 3) for rate in schedule.get_last_lr()])
    ...     optimizer.step(); schedule.step()
    0 [1.0]
    1 [0.5]
    2 [1.0]
    """

    def __init__(self, optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        if T_0 <= 0 or not isinstance(T_0, int):
            raise ValueError(f"Expected positive integer T_0, but got {T_0}")
        if T_mult < 1 or not isinstance(T_mult, int):
            raise ValueError(f"Expected integer T_mult >= 1, but got {T_mult}")
        if not isinstance(eta_min, (float, int)):
            raise ValueError(f"Expected float or int eta_min, but got {eta_min} of type {type(eta_min)}")
        self.T_0, self.T_i, self.T_mult, self.eta_min, self.T_cur = T_0, T_0, T_mult, eta_min, last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        self._check_called_by_step()
        return [self.eta_min + (base - self.eta_min) * (1 + math.cos(math.pi * self.T_cur / self.T_i)) / 2
                for base in self.base_lrs]

    def step(self, epoch: Any = None) -> None:
        """Go on by one epoch, or to `epoch`, which may be a fraction."""
        if epoch is None and self.last_epoch < 0:
            epoch = 0
        if epoch is None:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur %= self.T_i
                self.T_i *= self.T_mult
        else:
            if epoch < 0:
                raise ValueError(f"Expected non-negative epoch, but got {epoch}")
            if epoch < self.T_0:
                self.T_i, self.T_cur = self.T_0, epoch
            elif self.T_mult == 1:
                self.T_cur = epoch % self.T_0
            else:
                n = int(math.log(epoch / self.T_0 * (self.T_mult - 1) + 1, self.T_mult))
                self.T_cur = epoch - self.T_0 * (self.T_mult ** n - 1) / (self.T_mult - 1)
                self.T_i = self.T_0 * self.T_mult ** n
        self.last_epoch = math.floor(epoch)
        self._get_lr_called_within_step = True
        try:
            self._apply(self.get_lr())
        finally:
            self._get_lr_called_within_step = False


def _check_parts(owner, optimizer, schedulers, purpose):
    if len(schedulers) < 1:
        raise ValueError(f"{owner} expects at least one scheduler{purpose}, but got no scheduler.")
    for i, part in enumerate(schedulers):
        if not hasattr(part, "optimizer"):
            raise TypeError(f"{owner} at index {i} should have `optimizer` as its attribute.")
        if isinstance(part, ReduceLROnPlateau):
            raise ValueError(f"{owner} does not support `ReduceLROnPlateau` scheduler as it requires additional kwargs to "
                             f"be specified when calling `step`, but got one at index {i} in the given schedulers "
                             "sequence.")
        if optimizer != part.optimizer:
            raise ValueError(f"{owner} expects all schedulers to belong to the same optimizer, but got scheduler "
                             f"{type(part).__name__} at index {i} has {part.optimizer}, which is different from "
                             f"{type(optimizer).__name__}.")


class _OfSchedulers(LRScheduler):
    """A schedule made of others, whose states are saved with it."""

    def state_dict(self) -> dict[str, Any]:
        state = {key: value for key, value in self.__dict__.items() if key not in ("optimizer", "_schedulers")}
        state["_schedulers"] = [part.state_dict() for part in self._schedulers]
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        for part, saved in zip(self._schedulers, state_dict["_schedulers"]):
            part.load_state_dict(saved)
        self.__dict__.update((key, value) for key, value in state_dict.items() if key != "_schedulers")


@completed
class SequentialLR(_OfSchedulers):
    """One schedule after the other: `schedulers[i]` until epoch `milestones[i]`, then the next, from its beginning.

        schedulers: of the same optimizer.
        milestones: one fewer (ValueError).
        <last_epoch>

    >>> optimizer = tede.optim.SGD([nn.Parameter(tede.zeros(1))], lr=1.0)
    >>> warm = tede.optim.lr_scheduler.ConstantLR(optimizer, factor=0.1, total_iters=2)
    >>> down = tede.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
    >>> schedule = tede.optim.lr_scheduler.SequentialLR(optimizer, [warm, down], milestones=[2])
    >>> for epoch in range(4):
    ...     print(epoch, schedule.get_last_lr())
    ...     optimizer.step(); schedule.step()
    0 [0.1]
    1 [0.1]
    2 [1.0]
    3 [0.5]
    """

    def __init__(self, optimizer, schedulers, milestones, last_epoch: int = -1) -> None:
        _check_parts(type(self).__name__, optimizer, schedulers, "")
        if len(milestones) != len(schedulers) - 1:
            raise ValueError("Sequential Schedulers expects number of schedulers provided to be one more than the number "
                             f"of milestone points, but got number of schedulers {len(schedulers)} and the number of "
                             f"milestones to be equal to {len(milestones)}")
        self._schedulers, self._milestones = schedulers, milestones
        self.last_epoch, self.optimizer = last_epoch + 1, optimizer
        # Every part has taken its initial step already, each on the last one's rate: undo them, then take the first.
        for group in optimizer.param_groups:
            _set(group, "lr", group["initial_lr"])
        self.recursive_undo()
        first = schedulers[bisect_right(milestones, 0)]
        first._initial_step()
        self._last_lr = first.get_last_lr()

    def recursive_undo(self, sched=None):
        """Take back the epoch that each part counted when it was made."""
        sched = self if sched is None else sched
        if hasattr(sched, "_schedulers"):
            for part in sched._schedulers:
                self.recursive_undo(part)
        elif hasattr(sched, "last_epoch"):
            sched.last_epoch -= 1

    def step(self) -> None:
        """Go on by one epoch with the schedule whose turn it is."""
        self.last_epoch += 1
        turn = bisect_right(self._milestones, self.last_epoch)
        part = self._schedulers[turn]
        if turn > 0 and self._milestones[turn - 1] == self.last_epoch:
            part._update_lr(0)
        else:
            part.step()
        self._last_lr = part.get_last_lr()


class ChainedScheduler(_OfSchedulers):
    """Several schedules at once, each changing what the one before it set.

        schedulers: of the same optimizer.
        optimizer: theirs, if not given.

    >>> optimizer = tede.optim.SGD([nn.Parameter(tede.zeros(1))], lr=1.0)
    >>> parts = [tede.optim.lr_scheduler.ExponentialLR(optimizer, 0.5), tede.optim.lr_scheduler.ExponentialLR(optimizer, 0.1)]
    >>> schedule = tede.optim.lr_scheduler.ChainedScheduler(parts)
    >>> optimizer.step(); schedule.step()
    >>> schedule.get_last_lr()
    [0.05]
    """

    def __init__(self, schedulers, optimizer=None) -> None:
        owner = type(self).__name__
        if len(schedulers) < 1:
            raise ValueError(f"{owner} expects at least one scheduler to be chained, but got no scheduler.")
        optimizer = optimizer or schedulers[0].optimizer
        _check_parts(owner, optimizer, schedulers, " to be chained")
        self._schedulers, self.optimizer = schedulers, optimizer
        self._last_lr = _values(optimizer, "lr")

    def step(self) -> None:
        """Go on by one epoch in all of them."""
        for part in self._schedulers:
            part.step()
        self._last_lr = _values(self.optimizer, "lr")


class ReduceLROnPlateau(LRScheduler):
    """The rate times `factor` when a figure, which `step(figure)` is given, hasn't got better for more than `patience`
    steps.

        optimizer: whose "lr" is changed.
        mode: "min" or "max": what is better.
        factor: below 1, else a ValueError.
        threshold, threshold_mode: by how much it must get better to count: "rel" is a part of the best, "abs" a number.
        cooldown: steps after a change in which nothing is counted.
        min_lr: the least rate, or one a group.
        eps: changes smaller than this aren't made.

    >>> optimizer = tede.optim.SGD([nn.Parameter(tede.zeros(1))], lr=1.0)
    >>> schedule = tede.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=1)
    >>> for loss in (3.0, 2.0, 2.0, 2.0):
    ...     schedule.step(loss)
    >>> optimizer.param_groups[0]["lr"]
    0.1
    """

    def __init__(self, optimizer, mode="min", factor: float = 0.1, patience=10, threshold: float = 1e-4,
                 threshold_mode="rel", cooldown=0, min_lr=0, eps: float = 1e-8) -> None:
        if factor >= 1.0:
            raise ValueError("Factor should be < 1.0.")
        _check_optimizer(optimizer)
        self.factor, self.optimizer = factor, optimizer
        count = len(optimizer.param_groups)
        if isinstance(min_lr, (list, tuple)):
            if len(min_lr) != count:
                raise ValueError(f"expected {count} min_lrs, got {len(min_lr)}")
            self.default_min_lr, self.min_lrs = None, list(min_lr)
        else:
            self.default_min_lr, self.min_lrs = min_lr, [min_lr] * count
        self.patience, self.cooldown, self.eps, self.last_epoch = patience, cooldown, eps, 0
        self._last_lr = _values(optimizer, "lr")
        self._init_is_better(mode, threshold, threshold_mode)
        self._reset()

    def _init_is_better(self, mode, threshold, threshold_mode):
        if mode not in ("min", "max"):
            raise ValueError(f"mode {mode} is unknown!")
        if threshold_mode not in ("rel", "abs"):
            raise ValueError(f"threshold mode {threshold_mode} is unknown!")
        self.mode, self.threshold, self.threshold_mode = mode, threshold, threshold_mode
        self.mode_worse = math.inf if mode == "min" else -math.inf

    def _reset(self):
        self.best, self.cooldown_counter, self.num_bad_epochs = self.mode_worse, 0, 0

    def step(self, metrics: Any, epoch: Any = None) -> None:
        """Tell the figure reached; the rate falls if it is time."""
        current = float(metrics)
        if epoch is None:
            epoch = self.last_epoch + 1
        else:
            _warn_epoch()
        self.last_epoch = epoch
        if self._is_better(current, self.best):
            self.best, self.num_bad_epochs = current, 0
        else:
            self.num_bad_epochs += 1
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce_lr(epoch)
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
        self._last_lr = _values(self.optimizer, "lr")

    def _reduce_lr(self, epoch):
        groups = self.optimizer.param_groups
        if len(groups) != len(self.min_lrs):
            if self.default_min_lr is None:
                raise RuntimeError(f"The number of param groups in the `optimizer` ({len(groups)}) differs from when "
                                   f"`ReduceLROnPlateau` was initialized ({len(self.min_lrs)}), usually due to a new param "
                                   "group being added to the optimizer. Please modify the `min_lrs` field to match the "
                                   "length of the `optimizer` param groups.")
            self.min_lrs = [self.default_min_lr] * len(groups)
        for group, least in zip(groups, self.min_lrs):
            old = float(group["lr"])
            new = max(old * self.factor, least)
            if old - new > self.eps:
                _set(group, "lr", new)

    @property
    def in_cooldown(self):
        """Whether the rate fell so recently that bad steps don't count."""
        return self.cooldown_counter > 0

    def _is_better(self, a, best):
        sign = -1 if self.mode == "min" else 1
        if self.threshold_mode == "rel":
            return sign * a > sign * (best * (1.0 + sign * self.threshold))
        return sign * a > sign * (best + sign * self.threshold)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.__dict__.update(state_dict)
        self._init_is_better(self.mode, self.threshold, self.threshold_mode)


class _WithMomentum(LRScheduler):
    """A schedule that moves momentum (or Adam's first beta) against the rate."""

    def _start_momentum(self, optimizer, base, largest, last_epoch):
        """Set the largest momentum; gives (base, largest) per group."""
        if "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
            raise ValueError("optimizer must support momentum or beta1 with `cycle_momentum` option enabled")
        self.use_beta1 = "betas" in optimizer.defaults
        base, largest = _per_group("base_momentum", optimizer, base), _per_group("max_momentum", optimizer, largest)
        if last_epoch == -1:
            for group, low, high in zip(optimizer.param_groups, base, largest):
                self._set_momentum(group, high)
                group["max_momentum"], group["base_momentum"] = high, low
        return base, largest

    def _set_momentum(self, group, value):
        if self.use_beta1:
            group["betas"] = (value, *group["betas"][1:])
        else:
            group["momentum"] = value


@completed
class CyclicLR(_WithMomentum):
    """The rate to and fro between `base_lr` and `max_lr` (Smith, 2015, "Cyclical Learning Rates for Training Neural
    Networks"). Call `step` after each batch.

        base_lr, max_lr: numbers, or lists, one a group.
        step_size_up, step_size_down: batches of the way up, and down, which is else as long.
        mode: "triangular"; "triangular2" halves the height each cycle; "exp_range" times ``gamma ** batch``.
        scale_fn, scale_mode: instead of mode: a function of the "cycle" or of "iterations" that gives the height's
            factor.
        cycle_momentum, base_momentum, max_momentum: move momentum, or Adam's first beta, the other way; a ValueError if
            the optimizer has neither.
        <last_epoch>

    >>> optimizer = tede.optim.SGD([nn.Parameter(tede.zeros(1))], lr=1.0, momentum=0.9)
    >>> schedule = tede.optim.lr_scheduler.CyclicLR(optimizer, base_lr=0.0, max_lr=1.0, step_size_up=2)
    >>> for batch in range(4):
    ...     print(batch, schedule.get_last_lr())
    ...     optimizer.step(); schedule.step()
    0 [0.0]
    1 [0.5]
    2 [1.0]
    3 [0.5]
    """

    def __init__(self, optimizer, base_lr, max_lr, step_size_up=2000, step_size_down=None, mode="triangular",
                 gamma: float = 1.0, scale_fn=None, scale_mode="cycle", cycle_momentum: bool = True, base_momentum=0.8,
                 max_momentum=0.9, last_epoch: int = -1) -> None:
        _check_optimizer(optimizer)
        self.optimizer = optimizer
        base_lrs = _per_group("base_lr", optimizer, base_lr)
        if last_epoch == -1:
            for group, value in zip(optimizer.param_groups, base_lrs):
                _set(group, "lr", value)
        self.max_lrs = _per_group("max_lr", optimizer, max_lr)
        up = float(step_size_up)
        self.total_size = up + (float(step_size_down) if step_size_down is not None else up)
        self.step_ratio = up / self.total_size
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ValueError("mode is invalid and scale_fn is None")
        self.mode, self.gamma, self._scale_fn_custom, self.scale_mode = mode, gamma, scale_fn, scale_mode
        self._choose_scale_mode()
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.base_momentums, self.max_momentums = self._start_momentum(optimizer, base_momentum, max_momentum,
                                                                           last_epoch)
        super().__init__(optimizer, last_epoch)
        self.base_lrs = base_lrs

    def _choose_scale_mode(self):
        if self._scale_fn_custom is None:
            self.scale_mode = "iterations" if self.mode == "exp_range" else "cycle"

    def scale_fn(self, x):
        """By how much the swing of cycle (or iteration) `x` is scaled."""
        if self._scale_fn_custom is not None:
            return self._scale_fn_custom(x)
        if self.mode == "triangular":
            return 1.0
        return 1 / 2.0 ** (x - 1) if self.mode == "triangular2" else self.gamma ** x

    def get_lr(self) -> list[Any]:
        self._check_called_by_step()
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        part = x / self.step_ratio if x <= self.step_ratio else (x - 1) / (self.step_ratio - 1)
        scale = self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            for group, low, high in zip(self.optimizer.param_groups, self.base_momentums, self.max_momentums):
                self._set_momentum(group, high - (high - low) * part * scale)
        return [low + (high - low) * part * scale for low, high in zip(self.base_lrs, self.max_lrs)]

    def state_dict(self) -> dict[str, Any]:
        state = super().state_dict()
        function = state["_scale_fn_custom"]
        plain = function is None or isinstance(function, type(_own))
        state["_scale_fn_custom"] = None if plain else function.__dict__.copy()
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        saved = state_dict["_scale_fn_custom"]
        self.__dict__.update((key, value) for key, value in state_dict.items() if key != "_scale_fn_custom")
        if saved is not None:
            self._scale_fn_custom.__dict__.update(saved)
        self._choose_scale_mode()


@completed
class OneCycleLR(_WithMomentum):
    """Up to `max_lr` and far down again, once (Smith and Topin, 2017, "Super-Convergence: Very Fast Training of Neural
    Networks Using Large Learning Rates"). Call `step` after each batch; one too many is a ValueError.

        max_lr: a number, or a list, one a group.
        total_steps: batches in all; or epochs and steps_per_epoch.
        pct_start: the part of them that goes up.
        anneal_strategy: "cos" or "linear".
        cycle_momentum, base_momentum, max_momentum: move momentum, or Adam's first beta, the other way.
        div_factor: the rate begins at max_lr divided by this.
        final_div_factor: and ends at the first divided by this.
        three_phase: go down as long as up, then to the end.
        <last_epoch>

    >>> optimizer = tede.optim.SGD([nn.Parameter(tede.zeros(1))], lr=1.0, momentum=0.9)
    >>> schedule = tede.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1.0, total_steps=10)
    >>> for batch in range(3):
    ...     print(batch, [round(rate, 3) for rate in schedule.get_last_lr()])
    ...     optimizer.step(); schedule.step()
    0 [0.04]
    1 [0.52]
    2 [1.0]
    """

    def __init__(self, optimizer, max_lr, total_steps=None, epochs=None, steps_per_epoch=None, pct_start=0.3,
                 anneal_strategy="cos", cycle_momentum: bool = True, base_momentum=0.85, max_momentum=0.95,
                 div_factor=25.0, final_div_factor=1e4, three_phase: bool = False, last_epoch: int = -1) -> None:
        _check_optimizer(optimizer)
        self.optimizer = optimizer
        if total_steps is not None:
            self._check_count("total_steps", total_steps)
            self.total_steps = total_steps
        elif epochs is not None and steps_per_epoch is not None:
            self._check_count("epochs", epochs)
            self._check_count("steps_per_epoch", steps_per_epoch)
            self.total_steps = epochs * steps_per_epoch
        else:
            raise ValueError("You must define either total_steps OR (epochs AND steps_per_epoch)")
        peak = float(pct_start * self.total_steps) - 1
        ends = [(peak, "initial_lr", "max_lr", "max_momentum", "base_momentum")]
        if three_phase:
            ends += [(float(2 * pct_start * self.total_steps) - 2, "max_lr", "initial_lr", "base_momentum", "max_momentum"),
                     (self.total_steps - 1, "initial_lr", "min_lr", "max_momentum", "max_momentum")]
        else:
            ends += [(self.total_steps - 1, "max_lr", "min_lr", "base_momentum", "max_momentum")]
        keys = ("end_step", "start_lr", "end_lr", "start_momentum", "end_momentum")
        self._schedule_phases = [dict(zip(keys, row)) for row in ends]
        if not isinstance(pct_start, float) or not 0 <= pct_start <= 1:
            raise ValueError(f"Expected float between 0 and 1 pct_start, but got {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        self._anneal_func_type = anneal_strategy
        largest = _per_group("max_lr", optimizer, max_lr)
        if last_epoch == -1:
            for group, value in zip(optimizer.param_groups, largest):
                group["initial_lr"], group["max_lr"] = value / div_factor, value
                group["min_lr"] = group["initial_lr"] / final_div_factor
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self._start_momentum(optimizer, base_momentum, max_momentum, last_epoch)
        super().__init__(optimizer, last_epoch)

    @staticmethod
    def _check_count(name, value):
        if value <= 0 or not isinstance(value, int):
            raise ValueError(f"Expected positive integer {name}, but got {value}")

    @staticmethod
    def _annealing_linear(start, end, pct):
        return (end - start) * pct + start

    @staticmethod
    def _annealing_cos(start, end, pct):
        return end + (start - end) / 2.0 * (math.cos(math.pi * pct) + 1)

    def _anneal(self, start, end, part):
        kind = getattr(self, "_anneal_func_type", None)
        if kind is None:        # the state that an old PyTorch saved holds the function itself
            return self.anneal_func(start, end, part)
        return (self._annealing_linear if kind == "linear" else self._annealing_cos)(start, end, part)

    def get_lr(self) -> list[Any]:
        self._check_called_by_step()
        step = self.last_epoch
        if step > self.total_steps:
            raise ValueError(f"Tried to step {step} times. The specified number of total steps is {self.total_steps}")
        begin, phase = 0.0, self._schedule_phases[-1]
        for candidate in self._schedule_phases:
            if step <= candidate["end_step"] or candidate is phase:
                phase = candidate
                break
            begin = candidate["end_step"]
        part = (step - begin) / (phase["end_step"] - begin)
        rates = []
        for group in self.optimizer.param_groups:
            rates.append(self._anneal(group[phase["start_lr"]], group[phase["end_lr"]], part))
            if self.cycle_momentum:
                self._set_momentum(group, self._anneal(group[phase["start_momentum"]], group[phase["end_momentum"]],
                                                       part))
        return rates


class _LRScheduler(LRScheduler):
    """`LRScheduler` by its old name."""
