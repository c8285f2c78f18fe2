"""The gradient of a cond that is being noted in a graph."""
import tede
from tede._higher_order_ops import cond, current_recorder, noted_cond
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
