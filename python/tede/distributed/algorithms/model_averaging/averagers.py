"""Averaging every so many steps."""
import abc
import warnings

import tede.distributed as dist

from . import utils

__all__ = ["ModelAverager", "PeriodicModelAverager"]


def _check(warmup_steps, period, of):
    if warmup_steps < 0:
        raise ValueError("Arg ``warmup_steps`` must be a non-negative number.")
    if period == 1:
        warnings.warn(f"When {of} is 1, no need to use model averaging because the communication cost of all-reducing parameters will be no less than "
                      "the cost of all-reducing gradients by DistributedDataParallel in the backward pass. Therefore, only DistributedDataParallel should "
                      "be used for this case.", stacklevel=3)


class ModelAverager(abc.ABC):
    """Averages parameters over a group, by rules of its own; `step` counts the calls."""

    def __init__(self, process_group=None):
        self.process_group = dist.group.WORLD if process_group is None else process_group
        self.step = 0

    @abc.abstractmethod
    def average_parameters(self, params):
        raise NotImplementedError


class PeriodicModelAverager(ModelAverager):
    """Averages in every `period`-th call after the first warmup_steps."""

    def __init__(self, period, warmup_steps=0, process_group=None):
        super().__init__(process_group)
        if period < 1:
            raise ValueError("Arg ``period`` must be a positive value.")
        _check(warmup_steps, period, "period")
        self.warmup_steps, self.period = warmup_steps, period

    def average_parameters(self, params):
        """`params`: a model's parameters, or the groups of an optimizer."""
        if self.step >= self.warmup_steps and (self.step - self.warmup_steps) % self.period == 0:
            utils.average_parameters_or_parameter_groups(params, self.process_group)
        self.step += 1
