"""The gradients of a cond and of a map that are being noted in a graph."""
import tede
from tede._higher_order_ops import cond, current_recorder, map, noted_cond, noted_map
from tede.autograd import Function


class Cond(Function):
    """cond in a graph that is being made, whose gradient is the cond of the branches' gradients."""

    @staticmethod
    def forward(ctx, pred, graphs, *inputs):
        ctx.graphs, ctx.tensors = graphs, [isinstance(x, tede.Tensor) for x in inputs]
        ctx.save_for_backward(pred, *(x for x in inputs if isinstance(x, tede.Tensor)))
        ctx.others = [x for x in inputs if not isinstance(x, tede.Tensor)]
        return tuple(noted_cond(current_recorder(), pred, graphs, inputs))

    @staticmethod
    def backward(ctx, *grads):
        pred, *tensors = ctx.saved_tensors
        wanted = [i for i, needed in enumerate(ctx.needs_input_grad[2:]) if needed]

        def gradients_of(branch):
            def gradients(grads, *tensors):
                with tede.enable_grad():
                    tensors = [x.detach().requires_grad_(x.is_floating_point() or x.is_complex()) for x in tensors]
                    left, others = iter(tensors), iter(ctx.others)
                    inputs = [next(left) if is_tensor else next(others) for is_tensor in ctx.tensors]
                    results = [(y, g) for y, g in zip(branch(*inputs), grads) if y.requires_grad and g is not None]
                    found = tede.autograd.grad([y for y, _ in results], [inputs[i] for i in wanted], [g for _, g in results], allow_unused=True) \
                        if results else [None] * len(wanted)
                return tuple(tede.zeros_like(inputs[i]) if g is None else g.clone() for i, g in zip(wanted, found))
            return gradients
        found = iter(cond(pred, *(gradients_of(branch) for branch in ctx.graphs), (grads, *tensors)))
        return None, None, *(next(found) if i in wanted else None for i in range(len(ctx.tensors)))


class MapRows(Function):
    """map in a graph that is being made, whose gradient is the map of the rows' gradients; those of what all rows are given are summed."""

    @staticmethod
    def forward(ctx, graph, count, *inputs):
        ctx.graph, ctx.count, ctx.tensors = graph, count, [isinstance(x, tede.Tensor) for x in inputs]
        ctx.save_for_backward(*(x for x in inputs if isinstance(x, tede.Tensor)))
        ctx.others = [x for x in inputs if not isinstance(x, tede.Tensor)]
        return tuple(noted_map(current_recorder(), graph, inputs[:count], inputs[count:]))

    @staticmethod
    def backward(ctx, *grads):
        saved, others, count = iter(ctx.saved_tensors), iter(ctx.others), ctx.count
        inputs = [next(saved) if is_tensor else next(others) for is_tensor in ctx.tensors]
        wanted = [i for i, needed in enumerate(ctx.needs_input_grad[2:]) if needed]
        given = [i for i, g in enumerate(grads) if g is not None]

        def gradients(row, *args):
            row_grads, xs = row
            with tede.enable_grad():
                leaves = [x.detach().requires_grad_(x.is_floating_point() or x.is_complex()) if isinstance(x, tede.Tensor) else x
                          for x in (*xs, *args)]
                made = ctx.graph(*leaves)
                results = [(made[i], g) for i, g in zip(given, row_grads) if made[i].requires_grad]
                found = tede.autograd.grad([y for y, _ in results], [leaves[i] for i in wanted], [g for _, g in results], allow_unused=True) \
                    if results else [None] * len(wanted)
            return tuple(tede.zeros_like(leaves[i]) if g is None else g.clone() for i, g in zip(wanted, found))
        found = map(gradients, ([grads[i] for i in given], inputs[:count]), *inputs[count:])
        found = {i: g if i < count else g.sum(0) for i, g in zip(wanted, found)}
        return None, None, *(found.get(i) for i in range(len(inputs)))
