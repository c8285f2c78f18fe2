"""The hook of DistributedDataParallel's mixed precision."""
from dataclasses import dataclass
from typing import Any

import tede
import tede.distributed as dist
from tede.futures import Future


@dataclass
class _AllreduceUpcastHookState:
    """The wrapper, held weakly."""

    ddp_weakref: Any
    upcast_stream: Any
    wait_for_stream_enqueued: bool = False


def _reducer_allreduce_and_upcast_hook(hook_state: _AllreduceUpcastHookState, bucket: dist.GradBucket) -> Future[tede.Tensor]:
    """The mean over the ranks in reduce_dtype; the wrapper brings it back to full precision."""
    ddp = hook_state.ddp_weakref()
    config, ranks = ddp.mixed_precision, ddp.process_group.size()
    if config.reduce_dtype not in (None, config.param_dtype):
        bucket.set_buffer(bucket.buffer().to(config.reduce_dtype))
    return ddp.reducer._run_allreduce_hook(bucket).then(lambda future: future.value()[0].div_(ranks))
