"""Actions: what a rank does with a stage and a microbatch. A schedule is a list of them for each rank, with None where a rank waits.

"2F0" is the forward pass of microbatch 0 on stage 2. A backward pass is one action (B), or two: gradients of inputs (I), and of weights (W). The passes
here put into such lists what has to be sent and received, or when sharded parameters are gathered; tede's own schedules need neither, since a rank
sends what it makes at once and waits for what it needs. They show whether a list can be followed at all, and how long ranks would wait."""
import re
from enum import Enum
from itertools import zip_longest
from typing import NamedTuple


class _ComputationType(str, Enum):  # noqa: UP042 (what str() gives is PyTorch's)
    FORWARD = "F"
    BACKWARD_INPUT = "I"
    BACKWARD_WEIGHT = "W"
    UNSHARD = "UNSHARD"
    RESHARD = "RESHARD"
    SEND_F = "SEND_F"
    RECV_F = "RECV_F"
    SEND_B = "SEND_B"
    RECV_B = "RECV_B"
    FULL_BACKWARD = "B"

    @staticmethod
    def from_str(action):
        try:
            return _ComputationType(action)
        except ValueError:
            raise RuntimeError(f"Invalid computation type {action}") from None


FORWARD, BACKWARD_INPUT, BACKWARD_WEIGHT, UNSHARD, RESHARD, SEND_F, RECV_F, SEND_B, RECV_B, FULL_BACKWARD = _ComputationType
F, I, W, B = FORWARD, BACKWARD_INPUT, BACKWARD_WEIGHT, FULL_BACKWARD        # noqa: E741
_WORDS = re.compile(r"(\d+)(F|I|B|W|UNSHARD|RESHARD|SEND_F|RECV_F|SEND_B|RECV_B)(\d*)")


class _Action(NamedTuple):
    stage_index: int
    computation_type: _ComputationType
    microbatch_index: int | None = None

    def __repr__(self):
        return f"{self.stage_index}{self.computation_type.value}{'' if self.microbatch_index is None else self.microbatch_index}"

    __str__ = __repr__

    @property
    def is_compute_op(self):
        return self.computation_type in (F, B, I, W)

    @staticmethod
    def from_str(action_string):
        """The action that is written so; None for blanks."""
        text = action_string.strip()
        if not text:
            return None
        found = _WORDS.match(text)
        if found is None:
            raise RuntimeError(f"Invalid action string: {text}, should be formatted as [stage][action type][(microbatch)] e.g. 2F0")
        stage, kind, microbatch = found.groups()
        return _Action(int(stage), _ComputationType.from_str(kind), int(microbatch) if microbatch else None)


def _format_pipeline_order(pipeline_order, error_step_number=None):
    """A table of steps and ranks."""
    columns = [["" if action is None else str(action) for action in pipeline_order[rank]] for rank in sorted(pipeline_order)]
    steps = max(map(len, columns))
    labels = [f"Step {i:0{len(str(steps - 1))}}" for i in range(steps)]
    titles = [f"Rank {i}" for i in range(len(columns))]
    widths = [max(map(len, (*column, *labels[:1]))) for column in columns]
    lines = [" " * (len(labels[0]) + 2) + " ".join(f"{title:<{width}}" for title, width in zip(titles, widths))]
    for i, row in enumerate(zip_longest(*columns, fillvalue="")):
        lines.append(f"{labels[i]}: " + " ".join(f"{one:<{width}}" for one, width in zip(row, widths)) + (" <-- ERROR HERE" if i == error_step_number else ""))
    return "\n".join([*lines, ""])


# ---- passes ---------------------------------------------------------------------------------------------------------------------------

def _merge_bw(compute_actions):
    """One action where a backward pass's two follow each other."""
    merged = []
    for action in compute_actions:
        if action is None:
            continue
        if merged and action.computation_type is W and merged[-1] == action._replace(computation_type=I):
            merged[-1] = action._replace(computation_type=B)
        else:
            merged.append(action)
    return merged


def _add_unshard_reshard(compute_actions, max_active_stages=3):
    """With the gathering of a stage's parameters before it is used, for so many stages that come next, and their release when others need the place."""
    actions, found, active = [action for action in compute_actions if action is not None], [], []
    for i, action in enumerate(actions):
        coming = list(dict.fromkeys(a.stage_index for a in actions[i:]))[:max_active_stages]
        for stage in [stage for stage in active if stage not in coming]:
            active.remove(stage)
            found.append(_Action(stage, RESHARD))
        for stage in [stage for stage in coming if stage not in active]:
            active.append(stage)
            found.append(_Action(stage, UNSHARD))
        found.append(action)
    return found + [_Action(stage, RESHARD) for stage in active]


def _needs(action, num_stages):
    """Actions of which one must have been done on the rank before this one; empty if it needs nothing."""
    stage, kind, i = action
    if kind is F and stage:
        return {_Action(stage, RECV_F, i), _Action(stage - 1, F, i)}
    if kind in (I, B) and stage != num_stages - 1:
        return {_Action(stage, RECV_B, i), _Action(stage + 1, I, i), _Action(stage + 1, B, i)}
    return {SEND_F: {_Action(stage, F, i)}, SEND_B: {_Action(stage, I, i), _Action(stage, B, i)}}.get(kind, set())


def _message(action, stage_to_rank, num_stages):
    """(send, receive) of what an action makes; None if nobody else needs it, or the same rank does."""
    stage, kind, i = action
    if kind is F and stage != num_stages - 1:
        send, receive = _Action(stage, SEND_F, i), _Action(stage + 1, RECV_F, i)
    elif kind in (I, B) and stage:
        send, receive = _Action(stage, SEND_B, i), _Action(stage - 1, RECV_B, i)
    else:
        return None
    return None if stage_to_rank(receive.stage_index) == stage_to_rank(stage) else (send, receive)


def _add_send_recv(compute_actions, stage_to_rank, num_stages):
    """With the messages. A receive goes into its rank's list when the other rank sends, so no two ranks wait for each other."""
    left = {rank: list(compute_actions[rank]) for rank in sorted(compute_actions)}
    found, done = {rank: [] for rank in compute_actions}, {rank: set() for rank in compute_actions}

    def add(rank, action):
        found[rank].append(action)
        done[rank].add(action)
    while any(left.values()):
        progress = False
        for rank, actions in left.items():
            if not actions or actions[0] is not None and (needed := _needs(actions[0], num_stages)) and not needed & done[rank]:
                continue
            action, progress = actions.pop(0), True
            if action is not None:
                add(rank, action)
                message = _message(action, stage_to_rank, num_stages)
                if message is not None:
                    add(rank, message[0])
                    add(stage_to_rank(message[1].stage_index), message[1])
        if not progress:
            raise AssertionError("Malformed compute schedule, can't schedule sends/recvs")
    return found


def _simulate_comms_compute(pipeline_order, stage_to_rank, num_stages):
    """The lists with None for each step at which a rank waits. ValueError where ranks would wait for ever."""
    left = {rank: [action for action in pipeline_order[rank] if action is not None] for rank in sorted(pipeline_order)}
    found, done = {rank: [] for rank in left}, {rank: set() for rank in left}

    def ready(action):
        stage, kind, i = action
        if kind in (RECV_F, RECV_B):
            peer, sent = (stage - 1, SEND_F) if kind is RECV_F else (stage + 1, SEND_B)
            return _Action(peer, sent, i) in done[stage_to_rank(peer)]
        if kind in (UNSHARD, RESHARD):
            raise ValueError(f"Unsupported action type {action}")
        needed = _needs(action, num_stages)
        return not needed or bool(needed & done[stage_to_rank(stage)])

    def advance(rank):
        action = left[rank].pop(0)
        done[rank].add(action)
        return action
    while any(left.values()):
        working, progress = [rank for rank in left if left[rank]], False
        for rank in working:
            found[rank].append(advance(rank) if ready(left[rank][0]) else None)
            progress |= found[rank][-1] is not None
        for rank in working:                # what a later rank's action of this step has made possible
            if found[rank][-1] is None and ready(left[rank][0]):
                found[rank][-1] = advance(rank)
        if not progress:
            raise ValueError(f"Schedule is not progressing:\n{_format_pipeline_order(found)}")
    return found


def _validate_schedule(actions, pp_group_size, num_stages, num_microbatches):
    """AssertionError unless each stage is on one rank and each microbatch goes forward and backward through it. Returns the stages' ranks."""
    if sorted(actions) != list(range(pp_group_size)):
        raise AssertionError(f"Schedule has incorrect ranks - expected {pp_group_size}, got {sorted(actions)}")
    done, ranks = {stage: {kind: set() for kind in (F, B, I, W)} for stage in range(num_stages)}, {}
    for rank, listed in actions.items():
        for step, action in enumerate(listed):
            if action is None:
                continue
            stage, kind, i = action
            before = {B: F, I: F, W: I}.get(kind)
            if before is not None and i not in done[stage][before]:
                raise AssertionError(f"Rank {rank}, step {step}: {action} without {_Action(stage, before, i)} before it\n"
                                     f"{_format_pipeline_order(actions, step)}")
            if ranks.setdefault(stage, rank) != rank:
                raise AssertionError(f"Rank {rank}, step {step}: Stage {stage} is assigned to both rank {rank} and rank {ranks[stage]}")
            if kind in done[stage]:
                done[stage][kind].add(i)
    for stage, kinds in done.items():
        if len(kinds[F]) != num_microbatches:
            raise AssertionError(f"Got {len(kinds[F])} forward passes for stage {stage}, expected {num_microbatches}")
        if kinds[I] != kinds[W] or len(kinds[B]) + len(kinds[I]) != num_microbatches:
            raise AssertionError(f"Invalid backward passes for stage {stage}: expected {num_microbatches}, got B={len(kinds[B])}, I={len(kinds[I])}, "
                                 f"W={len(kinds[W])}")
    return ranks
