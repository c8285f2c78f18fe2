"""Batch normalisation over the ranks of a group: one mean and one variance of all their inputs.

Ranks may have unequally many inputs, also none. Means and sums of squared distances from them are gathered and joined as those of
parts of one sample are, which loses no digits where the mean is large."""
import tede
import tede.distributed as dist
from tede.autograd.function import Function


def _of_channels(x, like):
    """x[c] for each element of `like`."""
    return x.view(1, -1, *[1] * (like.dim() - 2))


class SyncBatchNormFunction(Function):
    @staticmethod
    def forward(ctx, input, weight, bias, running_mean, running_var, eps, momentum, group):
        channels, ranks = input.shape[1], group.size()
        count = input.numel() // channels
        if count == 1 and ranks < 2:
            raise ValueError(f"Expected more than 1 value per channel when training, got input size {input.shape}")
        kind = input.dtype if input.dtype is tede.float64 else tede.float32
        x, dims = input.to(kind), [0, *range(2, input.dim())]
        own = tede.zeros(2 * channels + 1, dtype=kind, device=input.device)
        if count:
            variance, mean = tede.var_mean(x, dims, correction=0)
            own = tede.cat((mean, variance * count, tede.tensor([float(count)], dtype=kind, device=input.device)))
        parts = [tede.empty_like(own) for _ in range(ranks)]
        dist.all_gather(parts, own, group=group)
        means, squares, counts = tede.stack(parts).split((channels, channels, 1), dim=1)
        total = counts.sum()
        mean = (means * counts).sum(0) / total
        variance = (squares + counts * (means - mean) ** 2).sum(0) / total
        if running_mean is not None:
            running_mean.mul_(1 - momentum).add_(mean.to(running_mean.dtype), alpha=momentum)
            running_var.mul_(1 - momentum).add_((variance * (total / (total - 1))).to(running_var.dtype), alpha=momentum)
        scale = tede.rsqrt(variance + eps)
        ctx.save_for_backward(input, weight, mean, scale, total)
        ctx.group = group
        normal = (x - _of_channels(mean, x)) * _of_channels(scale, x)
        if weight is not None:
            normal = normal * _of_channels(weight.to(kind), x)
        if bias is not None:
            normal = normal + _of_channels(bias.to(kind), x)
        return normal.to(input.dtype)

    @staticmethod
    def backward(ctx, grad):
        input, weight, mean, scale, total = ctx.saved_tensors
        kind, dims, channels = mean.dtype, [0, *range(2, input.dim())], input.shape[1]
        g = grad.to(kind)
        normal = (input.to(kind) - _of_channels(mean, input)) * _of_channels(scale, input)
        g_sum, g_normal = g.sum(dims), (g * normal).sum(dims)
        grad_weight = g_normal.to(weight.dtype) if ctx.needs_input_grad[1] else None
        grad_bias = g_sum.to(grad.dtype if weight is None else weight.dtype) if ctx.needs_input_grad[2] else None
        grad_input = None
        if ctx.needs_input_grad[0]:
            sums = tede.cat((g_sum, g_normal))
            dist.all_reduce(sums, group=ctx.group)
            g_sum, g_normal = (sums / total).split(channels)
            factor = scale if weight is None else scale * weight.to(kind)
            grad_input = ((g - _of_channels(g_sum, g) - normal * _of_channels(g_normal, g)) * _of_channels(factor, g)).to(input.dtype)
        return grad_input, grad_weight, grad_bias, None, None, None, None, None
