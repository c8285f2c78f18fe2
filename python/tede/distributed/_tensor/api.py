"""torch.distributed._tensor.api."""
from tede.distributed.tensor._api import DTensor, distribute_module, distribute_tensor, empty, full, ones, rand, randn, zeros  # noqa: F401
