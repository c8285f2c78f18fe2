"""Optimizers that parameters carry, whose step is taken during the backward pass."""
from tede.utils.weak import WeakTensorKeyDictionary

__all__ = []

param_to_optim_hook_handle_map = WeakTensorKeyDictionary()
param_to_acc_grad_map = WeakTensorKeyDictionary()


def _apply_optimizer_in_backward(optimizer_class, params, optimizer_kwargs, register_hook=True):
    """Each parameter gets an optimizer of its own, which takes its step as soon as the gradient is there; the gradient is dropped then.

    With register_hook False somebody else is to do that: DistributedDataParallel does, when the gradient is averaged."""
    for param in params:
        if param not in param_to_acc_grad_map:
            param_to_acc_grad_map[param] = param.expand_as(param).grad_fn.next_functions[0][0]
        if not hasattr(param, "_in_backward_optimizers"):
            param._in_backward_optimizers, param._optimizer_classes, param._optimizer_kwargs = [], [], []
        param._in_backward_optimizers.append(optimizer_class([param], **optimizer_kwargs))
        param._optimizer_classes.append(optimizer_class)
        param._optimizer_kwargs.append(optimizer_kwargs)
        if register_hook:
            handle = param_to_acc_grad_map[param].register_hook(_hook_of(param))
            param_to_optim_hook_handle_map.setdefault(param, []).append(handle)


def _hook_of(param):
    def step(*_):
        for optimizer in param._in_backward_optimizers:
            optimizer.step()
        param.grad = None
    return step


def _get_in_backward_optimizers(module):
    """The optimizers that a module's parameters carry."""
    return [optimizer for p in module.parameters() for optimizer in getattr(p, "_in_backward_optimizers", [])]
