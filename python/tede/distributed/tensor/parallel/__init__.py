"""torch.distributed.tensor.parallel: plans by which a module's parameters and activations lie on a mesh."""
from tede.distributed.tensor.parallel.api import parallelize_module
from tede.distributed.tensor.parallel.loss import loss_parallel
from tede.distributed.tensor.parallel.style import (
    ColwiseParallel, ParallelStyle, PrepareModuleInput, PrepareModuleInputOutput, PrepareModuleOutput, RowwiseParallel, SequenceParallel)

__all__ = ["ColwiseParallel", "ParallelStyle", "PrepareModuleInput", "PrepareModuleInputOutput", "PrepareModuleOutput", "RowwiseParallel",
           "SequenceParallel", "parallelize_module", "loss_parallel"]
