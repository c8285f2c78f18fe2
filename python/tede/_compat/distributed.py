"""torch.distributed: there is no process group here, and none can be made. Programs that ask first run on their own."""
import enum

from tede._compat import fill as _fill


class ReduceOp:
    """How results of processes are put together: names that functions have as defaults, though there are no processes to do it."""

    class RedOpType(enum.IntEnum):
        SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR, PREMUL_SUM = range(9)


for _op in ReduceOp.RedOpType:
    setattr(ReduceOp, _op.name, _op)


_fill(globals())
