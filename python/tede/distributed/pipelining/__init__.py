"""torch.distributed.pipelining: a model in stages on several ranks, and schedules by which microbatches go through them.

    stage = PipelineStage(part, stage_index=rank, num_stages=size, device="cpu")
    schedule = Schedule1F1B(stage, n_microbatches=8, loss_fn=loss)
    if rank == 0:
        schedule.step(x)
    else:
        schedule.step(target=y, losses=losses)          # on the last stage; those between call step()
"""
from tede._compat import fill as _fill
from tede.distributed.pipelining.schedules import Schedule1F1B, ScheduleGPipe, ScheduleInterleaved1F1B, ScheduleLoopedBFS, _ScheduleForwardOnly  # noqa: F401
from tede.distributed.pipelining.stage import PipelineStage

__all__ = ["PipelineStage", "Schedule1F1B", "ScheduleGPipe", "ScheduleInterleaved1F1B", "ScheduleLoopedBFS",
           "Pipe", "pipe_split", "SplitPoint", "pipeline", "build_stage", "ScheduleInterleavedZeroBubble", "ScheduleZBVZeroBubble", "ScheduleDualPipeV"]

_fill(globals())
