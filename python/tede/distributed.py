"""torch.distributed's questions, answered: there is no process group here, and none can be made."""
import enum

from tede._absent import module as _module


class ReduceOp:
    """How results of processes are put together: names that functions have as defaults, though there are no processes to do it."""

    class RedOpType(enum.IntEnum):
        SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR, PREMUL_SUM = range(9)


for _op in ReduceOp.RedOpType:
    setattr(ReduceOp, _op.name, _op)


def is_available():
    """False: programs that ask first run on their own."""
    return False


def is_initialized():
    return False


def is_nccl_available():
    return False


is_gloo_available = is_mpi_available = is_ucc_available = is_torchelastic_launched = is_nccl_available


__getattr__ = _module("distributed", "there are no process groups here (torch.distributed.is_available() is False)")
