"""A GradScaler with which all ranks step, or none."""
import tede
import tede.distributed as dist
from tede.amp import GradScaler
from tede.distributed.tensor import DTensor

__all__ = ["ShardedGradScaler"]


class ShardedGradScaler(GradScaler):
    """Gradients are shards: one that isn't finite is on one rank, perhaps, and the others skip the step, too."""

    def __init__(self, device="cuda", init_scale=2.0 ** 16, backoff_factor=0.5, growth_factor=2.0, growth_interval=2000, enabled=True, process_group=None):
        super().__init__(device, init_scale, growth_factor, backoff_factor, growth_interval, enabled)
        self.process_group = process_group or dist.group.WORLD

    def _unscale_grads_(self, optimizer, inv_scale, found_inf, allow_fp16=True):
        flags = {found_inf.device: found_inf}       # a rank may have no gradients
        for group in optimizer.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    grad = p.grad._local_tensor if isinstance(p.grad, DTensor) else p.grad
                    flag = flags.setdefault(grad.device, found_inf.to(grad.device))
                    with tede.no_grad():
                        tede._amp_foreach_non_finite_check_and_unscale_([grad], flag, inv_scale.to(grad.device))
        for flag in flags.values():
            dist.all_reduce(flag, dist.ReduceOp.MAX, group=self.process_group)
        return flags
