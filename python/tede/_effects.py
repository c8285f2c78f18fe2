"""Which calls do more than return a result: what fx keeps in a graph although nobody uses it."""
import operator

from tede._overloads import OpOverload, OpOverloadPacket
from tede._tags import Tag

_known = {operator.setitem}


def has_side_effect(fn):
    """Say that calls of a function must stay although nobody uses their results."""
    _known.add(fn)
    return fn


def is_impure(fn, impure_random=True):
    """Whether a function writes into its operands, advances a generator, or was named to has_side_effect. The first says nothing of a
    function of the package that isn't an operator, and `impure_random` nothing of one: nobody sees which generator it was given."""
    if fn in _known:
        return True
    if isinstance(fn, OpOverloadPacket):
        return "default" in fn.overloads() and is_impure(fn.default, impure_random)
    schema = getattr(fn, "_schema", None)
    if schema is not None and schema.is_mutable:
        return True
    return (impure_random or not isinstance(fn, OpOverload)) and _draws(fn)


def _draws(fn):
    """Whether it is an operator, or a built-in function that calls one, whose results depend on a generator."""
    if isinstance(fn, OpOverload):
        return Tag.nondeterministic_seeded in fn.tags
    import tede
    if type(fn) is not type(tede.neg):
        return False
    packet = getattr(tede.ops.aten, fn.__name__, None)
    return packet is not None and any(_draws(getattr(packet, name)) for name in packet.overloads())
