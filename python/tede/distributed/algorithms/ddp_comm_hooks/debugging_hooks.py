"""A hook for measuring what communication costs."""
import tede
import tede.distributed as dist
from tede.futures import Future

__all__ = ["noop_hook"]


def noop_hook(_, bucket: dist.GradBucket) -> Future[tede.Tensor]:
    """Gradients stay as they are on each rank: the time of a step without communication."""
    future = Future()
    future.set_result(bucket.buffer())
    return future
