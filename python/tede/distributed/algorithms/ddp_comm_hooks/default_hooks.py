"""Hooks that average gradients as they are, or in half precision."""
import tede
import tede.distributed as dist
from tede.distributed._chain import reduced
from tede.futures import Future

__all__ = ["allreduce_hook", "bf16_compress_hook", "bf16_compress_wrapper", "fp16_compress_hook", "fp16_compress_wrapper"]


def _group(process_group):
    return dist.group.WORLD if process_group is None else process_group


def _allreduce_fut(process_group, tensor):
    """A future of the tensor's mean over the ranks, which it becomes."""
    group = _group(process_group)
    tensor.div_(group.size())
    return reduced(group, tensor).then(lambda future: future.value()[0])


def allreduce_hook(process_group, bucket: dist.GradBucket) -> Future[tede.Tensor]:
    """The mean over the ranks: what happens without a hook."""
    return _allreduce_fut(process_group, bucket.buffer())


def _compress_hook(dtype, process_group, bucket):
    group, buffer = _group(process_group), bucket.buffer()
    sent = buffer.to(dtype).div_(group.size())
    return reduced(group, sent).then(lambda future: buffer.copy_(future.value()[0]))


def fp16_compress_hook(process_group, bucket: dist.GradBucket) -> Future[tede.Tensor]:
    """The mean over the ranks, formed in float16, divided before it is summed."""
    return _compress_hook(tede.float16, process_group, bucket)


def bf16_compress_hook(process_group, bucket: dist.GradBucket) -> Future[tede.Tensor]:
    """The mean over the ranks, formed in bfloat16."""
    return _compress_hook(tede.bfloat16, process_group, bucket)


def _compressed(dtype, hook, name):
    def wrapper(hook_state, bucket: dist.GradBucket) -> Future[tede.Tensor]:
        full = bucket.buffer()
        bucket.set_buffer(full.to(dtype))
        return hook(hook_state, bucket).then(lambda future: full.copy_(future.value()))
    wrapper.__name__ = wrapper.__qualname__ = name
    return wrapper


def fp16_compress_wrapper(hook):
    """The hook on gradients in float16."""
    return _compressed(tede.float16, hook, "fp16_compress_wrapper_hook")


def bf16_compress_wrapper(hook):
    """The hook on gradients in bfloat16."""
    return _compressed(tede.bfloat16, hook, "bf16_compress_wrapper_hook")
