"""SummaryWriter: event files that TensorBoard reads."""
from tede.utils.tensorboard.writer import FileWriter, SummaryWriter

__all__ = ["FileWriter", "SummaryWriter"]
