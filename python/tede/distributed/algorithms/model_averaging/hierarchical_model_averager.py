"""Averaging over small groups often, and over large ones seldom."""
import logging

import tede.distributed as dist

from . import averagers, utils

logger = logging.getLogger("torch.distributed.algorithms.model_averaging.hierarchical_model_averager")


class HierarchicalModelAverager(averagers.ModelAverager):
    """period_group_size_dict, in ascending order: every `period` steps the mean over groups of so many ranks. Where the step is a multiple of
    several periods the largest of them counts; the last group is all of process_group."""

    def __init__(self, period_group_size_dict=None, warmup_steps=0, process_group=None):
        super().__init__(process_group)
        if not period_group_size_dict:
            raise ValueError("Arg ``period_group_size_dict`` must not be empty.")
        self._periods = list(period_group_size_dict)
        if self._periods[0] <= 0:
            raise ValueError("The minimum period in arg ``period_group_size_dict`` must be a positive value.")
        averagers._check(warmup_steps, self._periods[-1], "the maximum period in arg ``period_group_size_dict``")
        ranks, last = dist.get_world_size(group=self.process_group), list(period_group_size_dict.values())[-1]
        if last != ranks:
            raise ValueError(f"The last value in arg ``period_group_size_dict`` {last} must be equal to the size of arg ``process_group`` {ranks}.")
        self.warmup_steps, self.period_process_group_dict = warmup_steps, {}
        for period, size in period_group_size_dict.items():
            logger.info("\tEach group that has %s processes average parameters every %s iterations, if no higher-level averaging.", size, period)
            self.period_process_group_dict[period] = (self.process_group if size == ranks else
                                                      dist.new_subgroups(group_size=size, group=self.process_group)[0])

    def _find_process_group(self):
        for period in reversed(self._periods):
            if self.step % period == 0:
                return self.period_process_group_dict[period]
        return None

    def average_parameters(self, params):
        group = self._find_process_group() if self.step >= self.warmup_steps else None
        if group is not None:
            utils.average_parameters_or_parameter_groups(params, group)
        self.step += 1
