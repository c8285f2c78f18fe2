"""torch.distributed.nn.functional: collectives through which gradients flow. Each one's gradient is a collective, too, so all ranks go backward."""
import tede
from tede import autograd
from tede.distributed import distributed_c10d as c10d
from tede.distributed._work import ReduceOp

__all__ = ["all_gather", "all_reduce", "all_to_all", "all_to_all_single", "broadcast", "gather", "reduce", "reduce_scatter", "scatter"]


class _Broadcast(autograd.Function):
    @staticmethod
    def forward(ctx, src, group, tensor):
        ctx.src, ctx.group = src, group
        tensor = tensor.clone()
        c10d.broadcast(tensor, src, group=group)
        return tensor

    @staticmethod
    def backward(ctx, grad):
        total = _Reduce.apply(ctx.src, ReduceOp.SUM, ctx.group, grad)
        return None, None, total if c10d.get_rank() == ctx.src else tede.zeros_like(total)


class _Gather(autograd.Function):
    @staticmethod
    def forward(ctx, dst, group, tensor):
        ctx.dst, ctx.group = dst, group
        parts = [tede.zeros_like(tensor) for _ in range(c10d.get_world_size(group))]
        tensor = tensor.contiguous()
        c10d.gather(tensor, parts if c10d.get_rank() == dst else None, dst, group=group)
        return tuple(parts)

    @staticmethod
    def backward(ctx, *grads):
        return None, None, _Scatter.apply(ctx.dst, ctx.group, *grads)


class _Scatter(autograd.Function):
    @staticmethod
    def forward(ctx, src, group, *tensors):
        ctx.src, ctx.group = src, group
        mine = tede.zeros_like(tensors[0])
        c10d.scatter(mine, [tensor.contiguous() for tensor in tensors] if c10d.get_rank() == src else None, src, group=group)
        return mine

    @staticmethod
    def backward(ctx, grad):
        return None, None, *_Gather.apply(ctx.src, ctx.group, grad)


class _Reduce(autograd.Function):
    @staticmethod
    def forward(ctx, dst, op, group, tensor):
        ctx.dst, ctx.group = dst, group
        tensor = tensor.clone()
        c10d.reduce(tensor, dst, op=op, group=group)
        return tensor

    @staticmethod
    def backward(ctx, grad):
        return None, None, None, _Broadcast.apply(ctx.dst, ctx.group, grad)


class _AllReduce(autograd.Function):
    @staticmethod
    def forward(ctx, op, group, tensor):
        ctx.op, ctx.group = op, group
        tensor = tensor.clone(memory_format=tede.contiguous_format)
        c10d.all_reduce(tensor, op=op, group=group)
        return tensor

    @staticmethod
    def backward(ctx, grad):
        return None, None, _AllReduce.apply(ctx.op, ctx.group, grad)


class _ReduceScatter(autograd.Function):
    @staticmethod
    def forward(ctx, op, group, output, *parts):
        ctx.group = group
        output = tede.empty_like(output, memory_format=tede.contiguous_format)
        c10d.reduce_scatter(output, [part.contiguous() for part in parts], op=op, group=group)
        return output

    @staticmethod
    def backward(ctx, grad):
        return None, None, None, *_AllGather.apply(ctx.group, grad)


class _AllGather(autograd.Function):
    @staticmethod
    def forward(ctx, group, tensor):
        ctx.group = group
        tensor = tensor.contiguous()
        parts = [tede.empty_like(tensor) for _ in range(c10d.get_world_size(group))]
        c10d.all_gather(parts, tensor, group=group)
        return tuple(parts)

    @staticmethod
    def backward(ctx, *grads):
        mine = tede.empty_like(grads[c10d.get_rank(ctx.group)])
        return None, _ReduceScatter.apply(ReduceOp.SUM, ctx.group, mine, *grads)


class _AllGatherBase(autograd.Function):
    @staticmethod
    def forward(ctx, output, input, group):
        ctx.group = group
        c10d.all_gather_into_tensor(output, input.contiguous(), group=group)
        return output

    @staticmethod
    def backward(ctx, grad):
        n = c10d.get_world_size(ctx.group)
        mine = tede.empty((grad.shape[0] // n, *grad.shape[1:]), dtype=grad.dtype, device=grad.device)
        c10d.reduce_scatter_tensor(mine, grad.contiguous(), group=ctx.group)
        return None, mine, None


class _AllToAll(autograd.Function):
    @staticmethod
    def forward(ctx, group, outputs, *tensors):
        ctx.group, ctx.sizes = group, [tensors[i].shape for i in range(c10d.get_world_size(group))]
        c10d.all_to_all(outputs, [tensor.contiguous() for tensor in tensors], group=group)
        return tuple(outputs)

    @staticmethod
    def backward(ctx, *grads):
        outputs = [tede.empty(size, device=grads[0].device, dtype=grads[0].dtype) for size in ctx.sizes]
        return None, None, *_AllToAll.apply(ctx.group, outputs, *grads)


class _AllToAllSingle(autograd.Function):
    @staticmethod
    def forward(ctx, group, output, output_splits, input_splits, input):
        ctx.group, ctx.shape, ctx.splits = group, input.shape, (input_splits, output_splits)
        c10d.all_to_all_single(output, input.contiguous(), output_split_sizes=output_splits, input_split_sizes=input_splits, group=group)
        return output

    @staticmethod
    def backward(ctx, grad):
        output = tede.empty(ctx.shape, device=grad.device, dtype=grad.dtype)
        return None, None, None, None, _AllToAllSingle.apply(ctx.group, output, *ctx.splits, grad.contiguous())


def _group(group):
    return c10d.group.WORLD if group is None else group


def broadcast(tensor, src, group=None):
    """The tensor of rank src, on all ranks."""
    return _Broadcast.apply(src, _group(group), tensor)


def gather(tensor, dst=0, group=None):
    """The tensors of all ranks, on rank dst."""
    return _Gather.apply(dst, _group(group), tensor)


def scatter(tensors, src=0, group=None):
    """One of rank src's tensors for each rank."""
    return _Scatter.apply(src, _group(group), *tensors)


def reduce(tensor, dst, op=ReduceOp.SUM, group=None):
    """The sum (or another reduction) of all ranks' tensors, on rank dst."""
    return _Reduce.apply(dst, op, _group(group), tensor)


def reduce_scatter(output, input_list, op=ReduceOp.SUM, group=None):
    """The sum (or another reduction) of the tensors that all ranks have for this one."""
    return _ReduceScatter.apply(op, _group(group), output, *input_list)


def all_gather(tensor, group=None):
    """The tensors of all ranks."""
    return _AllGather.apply(_group(group), tensor)


def _all_gather_base(output_tensor, input_tensor, group=None):
    return _AllGatherBase.apply(output_tensor, input_tensor, _group(group))


def all_to_all(output_tensor_list, input_tensor_list, group=None):
    """Each rank's tensor for this one."""
    return _AllToAll.apply(_group(group), output_tensor_list, *input_tensor_list)


def all_to_all_single(output, input, output_split_sizes=None, input_split_sizes=None, group=None):
    """Each rank's rows for this one."""
    return _AllToAllSingle.apply(_group(group), output, output_split_sizes, input_split_sizes, input)


def all_reduce(tensor, op=ReduceOp.SUM, group=None):
    """The sum (or another reduction) of all ranks' tensors."""
    return _AllReduce.apply(op, _group(group), tensor)
