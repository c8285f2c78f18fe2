"""Join: processes that run out of input before others go on answering the others' communication."""
import abc
import warnings
from typing import NamedTuple

import tede
import tede.distributed as dist

__all__ = ["Join", "JoinHook", "Joinable"]

_PATIENCE = 1000


class JoinHook:
    """What a process does for one joinable once it has no more input."""

    def main_hook(self):
        """Called again and again, each time for one iteration of the processes that still have input."""

    def post_hook(self, is_last_joiner):
        """Called once when all processes have joined."""


class Joinable(abc.ABC):
    """Something that communicates in each iteration."""

    @abc.abstractmethod
    def __init__(self):
        super().__init__()
        self._join_config = _JoinConfig.construct_disabled_join_config()

    @abc.abstractmethod
    def join_hook(self, **kwargs):
        """A JoinHook for this. All joinables of a context are passed the same arguments."""

    @property
    @abc.abstractmethod
    def join_device(self):
        """The device that the context communicates from."""

    @property
    @abc.abstractmethod
    def join_process_group(self):
        """The group that the context communicates over."""


class _JoinConfig(NamedTuple):
    enable: bool
    throw_on_early_termination: bool
    is_first_joinable: bool

    @staticmethod
    def construct_disabled_join_config():
        return _JoinConfig(False, False, False)


class Join:
    """A context for loops of which processes may do unequally many iterations.

    A process that leaves it runs the joinables' main hooks until all have left it, and then their post hooks; with
    throw_on_early_termination all raise as soon as one leaves it. The first joinable that is passed counts the others: it must
    call `notify_join_context` in each iteration."""

    def __init__(self, joinables, enable=True, throw_on_early_termination=False, **kwargs):
        if len(joinables) == 0:
            raise ValueError("The join context manager requires at least one joinable")
        self._joinables, self._enable, self._throw_on_early_termination = joinables, enable, throw_on_early_termination
        self._join_hooks = [joinable.join_hook(**kwargs) for joinable in joinables]
        for joinable in joinables:
            joinable._join_config = _JoinConfig(enable, throw_on_early_termination, joinable is joinables[0])
        self._process_group, self._device = joinables[0].join_process_group, joinables[0].join_device
        if any(joinable.join_process_group != self._process_group for joinable in joinables):
            raise ValueError("Using join context manager with multiple process groups")
        self._rank = dist.get_rank(self._process_group)

    def __enter__(self):
        return None

    def __exit__(self, kind, value, traceback):
        if not self._enable or kind:
            return
        rounds = 0
        while self._get_num_nonjoined_procs():
            if rounds == _PATIENCE:
                warnings.warn(f"Detected uneven input skew of greater than {_PATIENCE}. This means that rank {self._rank} has at least "
                              f"{_PATIENCE} fewer inputs than other currently-active ranks. This level of skew could lead to performance "
                              "degradation during training.", stacklevel=2)
            if self._throw_on_early_termination:
                self._notify_procs_to_terminate()
            for hook in self._join_hooks:
                hook.main_hook()
            rounds += 1
        for hook in self._join_hooks:
            hook.post_hook(rounds == 0)

    def _get_num_nonjoined_procs(self):
        count = tede.zeros(1, device=self._device)
        dist.all_reduce(count, group=self._process_group)
        return count.item()

    def _notify_procs_to_terminate(self):
        dist.all_reduce(tede.ones(1, device=self._device), group=self._process_group)
        raise RuntimeError(f"Rank {self._rank} exhausted all inputs.")

    @staticmethod
    def notify_join_context(joinable):
        """Says that this process still has input, before the communication of an iteration. A work handle, or None."""
        if not hasattr(joinable, "_join_config"):
            raise AssertionError(f"Check that the {type(joinable)} constructor calls the ``Joinable`` constructor")
        config = joinable._join_config
        if not config.is_first_joinable or not config.enable:
            return None
        here = tede.ones(1, device=joinable.join_device)
        work = dist.all_reduce(here, group=joinable.join_process_group, async_op=True)
        if config.throw_on_early_termination:
            gone = tede.zeros(1, device=joinable.join_device)
            dist.all_reduce(gone, group=joinable.join_process_group)
            if gone.item():
                raise RuntimeError("Detected at least one rank that exhausted inputs. Throwing across all ranks.")
        return _Notice(work, here)


class _Notice:
    """The handle of a notice, and where it counts the processes that still have input."""

    def __init__(self, work, here):
        self._work, self.here = work, here

    def __getattr__(self, name):
        return getattr(self._work, name)
