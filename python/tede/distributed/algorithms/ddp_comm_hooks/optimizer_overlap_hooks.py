"""Optimizers that take the step of a bucket's parameters as soon as the bucket's gradients are there."""
import tede
import tede.distributed as dist
from tede.futures import Future

__all__ = []

_FUNCTIONAL_OPTIM_STEP_METHOD_NAME = "step_param"


class _OptimizerHookState:
    """An optimizer with step_param(parameter, gradient), and the parameters that are its (None: all)."""

    __slots__ = ("functional_optimizer", "params_to_optimize")

    def __init__(self, functional_optim, params=None):
        if not hasattr(functional_optim, _FUNCTIONAL_OPTIM_STEP_METHOD_NAME):
            raise ValueError(f"Class {type(functional_optim)} must implement method {_FUNCTIONAL_OPTIM_STEP_METHOD_NAME}.")
        self.functional_optimizer = functional_optim
        self._check_valid_functional_optim_params(params)

    def _check_valid_functional_optim_params(self, params):
        self.params_to_optimize = None if params is None else set(params)


def _hook_then_optimizer(hook, optimizer_state):
    """The hook, and after it the optimizer's step for each of the bucket's parameters."""
    wanted = getattr(optimizer_state, "params_to_optimize", None)

    def hook_then_optimizer_wrapper(hook_state, bucket: dist.GradBucket) -> Future[tede.Tensor]:
        def step(future):
            for p, grad in zip(bucket.parameters(), bucket.gradients()):
                if wanted is None or p in wanted:
                    optimizer_state.functional_optimizer.step_param(p, grad)
            return bucket.buffer()
        return hook(hook_state, bucket).then(step)
    return hook_then_optimizer_wrapper


def _apply_optim_in_backward_hook(gradient_is_bucket_view):
    """A hook after which the optimizers that parameters carry take their step (_apply_optimizer_in_backward)."""
    def apply_optim_in_backward_hook(hook_state, bucket: dist.GradBucket) -> Future[tede.Tensor]:
        ddp = hook_state()

        def step(future):
            bucket.buffer().div_(ddp.process_group.size())
            for p, grad in zip(bucket.parameters(), bucket.gradients()):
                if hasattr(p, "_in_backward_optimizers"):
                    p.grad = grad
                    for optimizer in p._in_backward_optimizers:
                        optimizer.step()
                    p.grad = None
                elif not gradient_is_bucket_view:
                    p.grad = grad.clone()
            return bucket.buffer()
        return ddp.reducer._run_allreduce_hook(bucket).then(step)
    return apply_optim_in_backward_hook
