"""Optimizers over several processes."""
from .apply_optimizer_in_backward import _apply_optimizer_in_backward, _get_in_backward_optimizers  # noqa: F401
from .named_optimizer import _NamedOptimizer  # noqa: F401
from .post_localSGD_optimizer import PostLocalSGDOptimizer
from .utils import as_functional_optim
from .zero_redundancy_optimizer import ZeroRedundancyOptimizer

__all__ = ["PostLocalSGDOptimizer", "ZeroRedundancyOptimizer", "as_functional_optim"]
