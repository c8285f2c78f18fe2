"""The older module of custom operators, torch._custom_op.impl: what is left of it is looking operators up.

Operators are made with tede.library.custom_op."""
import sys

from tede._compat import fill as _fill
from tede.library import _RESERVED, custom_op, get_ctx, infer_schema  # noqa: F401

impl = sys.modules[__name__]    # torch._custom_op.impl is this module, too
global_registry = {}            # of operators that tede._custom_ops declared
RESERVED_NS = frozenset(_RESERVED)
SUPPORTED_DEVICE_TYPE_TO_KEY = {"cpu": "CPU", "cuda": "CUDA"}


class CustomOp:
    """What PyTorch's module makes of a definition; here definitions are overloads, and this is a name alone."""

    def __init__(self, *args, **kwargs):
        raise RuntimeError("The CustomOp constructor is private: operators are made with torch.library.custom_op")


def get_op(qualname):
    """The overload of "namespace::name", or of "namespace::name.overload"."""
    import tede
    namespace, _, name = qualname.partition("::")
    name, _, overload = name.partition(".")
    if not name:
        raise ValueError(f"The qualified name '{qualname}' needs a namespace and a name, as in 'mylib::linear'")
    packet = getattr(getattr(tede.ops, namespace), name, None)
    if packet is None:
        raise RuntimeError(f"get_op({qualname}): there is no operator of that name")
    return getattr(packet, overload or "default")


_fill(globals())
