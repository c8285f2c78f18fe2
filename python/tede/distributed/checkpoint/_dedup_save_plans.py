"""PyTorch's newer place of dedup_tensors."""
from tede.distributed.checkpoint._dedup_tensors import dedup_tensors as dedup_save_plans  # noqa: F401
