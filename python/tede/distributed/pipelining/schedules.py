"""Schedules: in what order a rank computes the forward and backward passes of its stages' microbatches.

An order is a list of actions (_actions.py). A rank goes through its own, waits for what each needs, and sends on what it makes without waiting; so any
orders that some machine could follow are fine, and differ in how long ranks wait and in how many microbatches are kept for their backward pass. GPipe: Huang et al.
2019; one forward, one backward, and interleaved: Narayanan et al. 2021; breadth first: Lamy-Poirier 2023."""
import csv

import tede
from tede.distributed.pipelining._actions import (  # noqa: F401
    BACKWARD_INPUT, BACKWARD_WEIGHT, FORWARD, FULL_BACKWARD, RECV_B, RECV_F, RESHARD, SEND_B, SEND_F, UNSHARD, B, F, I, W, _Action, _add_send_recv,
    _add_unshard_reshard, _ComputationType, _format_pipeline_order, _merge_bw, _simulate_comms_compute, _validate_schedule)
from tede.distributed.pipelining.microbatch import merge_chunks, split_args_kwargs_into_chunks

__all__ = ["get_schedule_class", "PipelineScheduleSingle", "PipelineScheduleMulti", "Schedule1F1B", "ScheduleGPipe", "ScheduleInterleaved1F1B",
           "ScheduleLoopedBFS"]


# ---- orders ---------------------------------------------------------------------------------------------------------------------------

def gpipe(rank, stages, n):
    return [_Action(rank, kind, i) for kind in (F, B) for i in range(n)]


def one_forward_one_backward(rank, stages, n):
    """As many forward passes as there are stages from this one on; then one backward and one forward pass in turn."""
    first = min(n, stages - rank)
    order = [_Action(rank, F, i) for i in range(first)]
    for i in range(n):
        order.append(_Action(rank, B, i))
        if first + i < n:
            order.append(_Action(rank, F, first + i))
    return order


def breadth_first(rank, ranks, local, n):
    mine = [i * ranks + rank for i in range(local)]
    return [_Action(stage, F, i) for stage in mine for i in range(n)] + [_Action(stage, B, i) for stage in reversed(mine) for i in reversed(range(n))]


def interleaved(rank, ranks, local, n):
    """Rounds of microbatches go through the first local stage, then the second; backward passes in the opposite order of stages."""
    rounds = max(1, n // ranks)
    if n % rounds:
        raise ValueError(f"Interleaved 1F1B requires the number of microbatches to be a multiple of the number of rounds ({rounds}), but got {n}.")
    each, total = n // rounds, local * n
    first = min(total, (local - 1) * each + 2 * (ranks - 1 - rank))

    def steps(kind):
        done = [0] * local
        for step in range(total):
            at = step // each % local
            at = at if kind is F else local - 1 - at
            yield _Action(at * ranks + rank, kind, done[at])
            done[at] += 1
    ahead, behind = list(steps(F)), list(steps(B))
    order = ahead[:first]
    for i in range(total):
        order += ahead[first + i:first + i + 1] + behind[i:i + 1]
    return order


# ---- schedules ------------------------------------------------------------------------------------------------------------------------

class _PipelineSchedule:
    def __init__(self, stages, n_microbatches, loss_fn=None, args_chunk_spec=None, kwargs_chunk_spec=None, output_merge_spec=None, scale_grads=True):
        self._listed, self._stages = stages, None
        self._n_microbatches, self._loss_fn, self.scale_grads = n_microbatches, loss_fn, scale_grads
        self._args_chunk_spec, self._kwargs_chunk_spec, self._output_merge_spec = args_chunk_spec, kwargs_chunk_spec, output_merge_spec
        self._has_backward = loss_fn is not None

    def _order(self):
        """The actions of this rank."""
        raise NotImplementedError

    def _connect(self):
        if self._stages is None:
            self._stages = {stage.stage_index: stage for stage in self._listed}
            for stage in self._listed:
                stage.connect(self._stages)

    def step(self, *args, target=None, losses=None, **kwargs):
        """One batch, forward and backward. The first stage is given the arguments, the last one the target; it gets the losses of microbatches in `losses`,
        and the output."""
        return self._step(args, kwargs, target, losses, self._has_backward)

    def eval(self, *args, target=None, losses=None, **kwargs):
        """One batch forward, without gradients."""
        with tede.no_grad():
            return self._step(args, kwargs, target, losses, False)

    def _step(self, args, kwargs, target, losses, backward):
        n = self._n_microbatches
        if args or kwargs:
            arg_mbs, kwarg_mbs = split_args_kwargs_into_chunks(args, kwargs, n, self._args_chunk_spec, self._kwargs_chunk_spec)
        else:
            arg_mbs, kwarg_mbs = [()] * n, [{}] * n
        target_mbs = None if target is None else list(tede.tensor_split(target, n))
        return self._step_microbatches(arg_mbs, kwarg_mbs, target_mbs, losses, backward)

    def _step_microbatches(self, arg_mbs, kwarg_mbs, target_mbs, losses, backward=True):
        for what, given in (("arg_mbs", arg_mbs), ("kwarg_mbs", kwarg_mbs), ("target_mbs", target_mbs)):
            if given is not None and len(given) != self._n_microbatches:
                raise ValueError(f"Expecting {self._n_microbatches} {what} but got {len(given)}")
        self._connect()
        found, done = {}, dict.fromkeys(self._stages, 0)
        for stage in self._stages.values():
            stage.has_backward = backward
            stage.clear_runtime_states()
        order = [action for action in self._order() if action is not None and (backward or action.computation_type is F)]
        for at, (index, kind, i) in enumerate(order):
            stage = self._stages[index]
            for after, what, number in order[at:at + 2]:            # the next one's inputs come while this one computes
                if what is not W:
                    self._stages[after].expect(what is F, number)
            if kind is F:
                output = stage.forward_one_chunk(i, arg_mbs[i], kwarg_mbs[i])
                if stage.is_last and self._loss_fn is not None and target_mbs is not None:
                    found[i] = self._compute_loss(output, target_mbs[i])
            elif kind is W:
                stage.backward_weight_one_chunk(i)
            else:
                done[index] += 1
                if stage.is_last and i not in found:
                    raise RuntimeError(f"Loss for microbatch {i} is not available. Available losses for microbatches: {sorted(found)}")
                stage.backward_one_chunk(i, found[i] if stage.is_last else None, full_backward=kind is B,
                                         last_backward=done[index] == self._n_microbatches)
        for stage in self._stages.values():
            stage.finish()
            if backward and self.scale_grads:
                stage.scale_grads(self._n_microbatches)
        last = next((stage for stage in self._stages.values() if stage.is_last), None)
        if last is None:
            return None
        if losses is not None:
            losses.clear()
            losses.extend(found[i] for i in sorted(found))
        return merge_chunks(last.output_chunks, self._output_merge_spec)

    def _compute_loss(self, output, target):
        return self._loss_fn(output, target)


class PipelineScheduleSingle(_PipelineSchedule):
    """The base of schedules with one stage on a rank."""

    def __init__(self, stage, n_microbatches, loss_fn=None, args_chunk_spec=None, kwargs_chunk_spec=None, output_merge_spec=None, scale_grads=True):
        self._stage, self._num_stages = stage, stage.num_stages
        if n_microbatches < stage.num_stages:
            raise ValueError(f"Number of microbatches ({n_microbatches}) must be greater than or equal to the number of stages ({stage.num_stages}).")
        super().__init__([stage], n_microbatches, loss_fn, args_chunk_spec, kwargs_chunk_spec, output_merge_spec, scale_grads)


class ScheduleGPipe(PipelineScheduleSingle):
    """All forward passes, then all backward passes."""

    def _order(self):
        return gpipe(self._stage.stage_index, self._num_stages, self._n_microbatches)


class Schedule1F1B(PipelineScheduleSingle):
    """One forward and one backward pass in turn: no more microbatches are kept than there are stages."""

    def _order(self):
        return one_forward_one_backward(self._stage.stage_index, self._num_stages, self._n_microbatches)


class _ScheduleForwardOnly(PipelineScheduleSingle):
    def _order(self):
        return gpipe(self._stage.stage_index, self._num_stages, self._n_microbatches)

    def _step(self, args, kwargs, target, losses, backward):
        if target is not None or losses is not None:
            raise RuntimeError("Forward-only schedule does not support loss computation")
        return super()._step(args, kwargs, None, None, False)


class PipelineScheduleMulti(_PipelineSchedule):
    """The base of schedules with several stages on each rank."""

    def __init__(self, stages, n_microbatches, loss_fn=None, args_chunk_spec=None, kwargs_chunk_spec=None, output_merge_spec=None, scale_grads=True):
        self.pp_group_size, self.rank, self.n_local_stages = stages[0].group_size, stages[0].group_rank, len(stages)
        if stages[0].num_stages != self.pp_group_size * len(stages):
            raise ValueError(f"{len(stages)} stages on each of {self.pp_group_size} ranks aren't {stages[0].num_stages} stages")
        super().__init__(stages, n_microbatches, loss_fn, args_chunk_spec, kwargs_chunk_spec, output_merge_spec, scale_grads)
        self.pipeline_order = {rank: self._order_of(rank) for rank in range(self.pp_group_size)}

    def _order_of(self, rank):
        """The actions of a rank."""
        raise NotImplementedError

    def _order(self):
        return self.pipeline_order[self.rank]

    def _dump_csv(self, filename):
        with open(filename, "w", newline="") as file:
            csv.writer(file).writerows(self.pipeline_order[rank] for rank in sorted(self.pipeline_order))


class ScheduleLoopedBFS(PipelineScheduleMulti):
    """All microbatches go through one local stage, then through the next."""

    def _order_of(self, rank):
        return breadth_first(rank, self.pp_group_size, self.n_local_stages, self._n_microbatches)


class ScheduleInterleaved1F1B(PipelineScheduleMulti):
    """One forward and one backward pass in turn, with several stages on each rank: ranks wait less at the beginning and the end."""

    def _order_of(self, rank):
        return interleaved(rank, self.pp_group_size, self.n_local_stages, self._n_microbatches)


class _PipelineScheduleRuntime(PipelineScheduleMulti):
    """A schedule of given actions, of which those that compute count: ranks send what they make at once. `stage_index_to_group_rank`: where stages are, if
    not in turn on the ranks."""

    def __init__(self, stages, n_microbatches, loss_fn=None, args_chunk_spec=None, kwargs_chunk_spec=None, output_merge_spec=None, scale_grads=True,
                 stage_index_to_group_rank=None):
        super().__init__(stages, n_microbatches, loss_fn, args_chunk_spec, kwargs_chunk_spec, output_merge_spec, scale_grads)
        if stage_index_to_group_rank is not None:
            for stage in stages:
                stage.stage_index_to_group_rank = dict(enumerate(stage_index_to_group_rank))

    def _order_of(self, rank):
        return []

    def _load_actions(self, actions, format="compute_only"):
        self.pipeline_order = {rank: [a for a in listed if a is None or a.is_compute_op] for rank, listed in actions.items()}
        _validate_schedule(self.pipeline_order, self.pp_group_size, self._listed[0].num_stages, self._n_microbatches)

    def _load_csv(self, filename, format="compute_only"):
        with open(filename, newline="") as file:
            self._load_actions({rank: [_Action.from_str(text) for text in row] for rank, row in enumerate(csv.reader(file))}, format)


def get_schedule_class(schedule_name):
    """The class by its name without "Schedule", in any case."""
    classes = {"1F1B": Schedule1F1B, "Interleaved1F1B": ScheduleInterleaved1F1B, "GPipe": ScheduleGPipe, "LoopedBFS": ScheduleLoopedBFS,
               "PipelineScheduleSingle": PipelineScheduleSingle, "PipelineScheduleMulti": PipelineScheduleMulti}
    by_name = {name.lower(): cls for name, cls in classes.items()}
    if schedule_name.lower() not in by_name:
        raise ValueError(f"Unknown schedule name '{schedule_name}'. The valid options are {list(classes)}")
    return by_name[schedule_name.lower()]
