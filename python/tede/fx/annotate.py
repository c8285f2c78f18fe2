"""annotate: the type of a value, said within a traced function."""
from tede.fx.proxy import Proxy

__all__ = ["annotate"]


def annotate(val, type):
    """The value; while a trace runs, its node has the type."""
    if isinstance(val, Proxy):
        if val.node.type:
            raise RuntimeError(f"Tried to annotate a value that already had a type on it! Existing type is {val.node.type} and new type is "
                               f"{type}. This could happen if you tried to annotate a function parameter value (in which case you should "
                               "use the type slot on the function signature) or you called annotate on the same value twice")
        val.node.type = type
    return val
