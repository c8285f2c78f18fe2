"""Hooks that send gradients as bytes: each rank's, with its scale and zero point, to all others."""
import tede
import tede.distributed as dist
from tede.distributed._chain import Chain
from tede.futures import Future


def _quantize_per_tensor_backend(x, scale, zero_point):
    return (tede.round(x / scale) + zero_point).clamp(0, 255).to(tede.uint8)


def _dequantize_per_tensor_backend(y, scale, zero_point):
    return scale * (y.to(tede.float32) - zero_point)


def _quantize_per_channel_backend(x, scale, zero_point):
    return _quantize_per_tensor_backend(x, scale.unsqueeze(1), zero_point.unsqueeze(1))


def _dequantize_per_channel_backend(y, scale, zero_point):
    return _dequantize_per_tensor_backend(y, scale.unsqueeze(1), zero_point.unsqueeze(1))


def _get_allgather_out_list(all_gather_in_list, world_size):
    return [tede.zeros_like(all_gather_in_list) for _ in range(world_size)]


def _gathered(x, group):
    """A future of all ranks' x."""
    parts = _get_allgather_out_list(x, group.size())
    work = dist.all_gather(parts, x, group=group, async_op=True)

    def wait():
        work.wait()
        return parts
    return Chain(wait, work.get_future)


def _quantized_mean(group, x, observer, quantize, dequantize):
    """A future of the mean of all ranks' x. observer(x) finds the scales that 8 bits need."""
    observer(x)
    scale, zero_point = observer.calculate_qparams()
    own = tede.stack((scale.to(tede.float32), zero_point.to(tede.float32))).to(x.device)
    scales = []

    def send(future):
        scales.extend(future.wait())
        return _gathered(quantize(x, *scales[group.rank()]), group).wait()

    def mean(future):
        return sum(dequantize(y, *scale) for y, scale in zip(future.wait(), scales)) / group.size()
    return _gathered(own, group).then(send).then(mean)


def quantization_pertensor_hook(process_group, bucket: dist.GradBucket) -> Future[tede.Tensor]:
    """The mean of gradients that travel in 8 bits, with one scale for a bucket."""
    group = dist.group.WORLD if process_group is None else process_group
    observer = tede.ao.quantization.MinMaxObserver()
    return _quantized_mean(group, bucket.buffer(), observer, _quantize_per_tensor_backend, _dequantize_per_tensor_backend)


def quantization_perchannel_hook(process_group, bucket: dist.GradBucket, bucket_size=512) -> Future[tede.Tensor]:
    """The mean of gradients that travel in 8 bits, with a scale for each bucket_size of them."""
    group, flat = dist.group.WORLD if process_group is None else process_group, bucket.buffer()
    rows = tede.nn.functional.pad(flat, (0, -len(flat) % bucket_size)).view(-1, bucket_size)
    observer = tede.ao.quantization.PerChannelMinMaxObserver()
    mean = _quantized_mean(group, rows, observer, _quantize_per_channel_backend, _dequantize_per_channel_backend)
    return mean.then(lambda future: future.value().flatten()[:len(flat)])
