"""Types of tensors in annotations of traced functions: the sizes that are known."""
__all__ = ["TensorType", "is_consistent", "is_more_precise", "Dyn"]


class _DynType:
    """A size, or a type, that isn't known."""

    def __init__(self):
        self.__name__ = "_DynType"

    def __eq__(self, other):
        return isinstance(other, _DynType)

    def __hash__(self):
        return hash(_DynType)

    def __repr__(self):
        return "Dyn"


Dyn = _DynType()


class TensorType:
    """A tensor of these sizes; TensorType((1, Dyn)) or TensorType[1, Dyn]."""

    def __init__(self, dim):
        self.__origin__, self.__args__ = TensorType, tuple(dim)

    @classmethod
    def __class_getitem__(cls, dim):
        return cls(dim if isinstance(dim, tuple) else (dim,))

    def __eq__(self, other):
        return isinstance(other, TensorType) and self.__args__ == other.__args__

    def __hash__(self):
        return hash(self.__args__)

    def __repr__(self):
        return f"TensorType[{self.__args__}]"


def _sizes_hold(a, b, holds):
    return isinstance(a, TensorType) and isinstance(b, TensorType) and len(a.__args__) == len(b.__args__) and \
        all(holds(x, y) for x, y in zip(a.__args__, b.__args__))


def is_consistent(t1, t2):
    """Whether something can be of both types, as far as they say."""
    return t1 == t2 or Dyn in (t1, t2) or _sizes_hold(t1, t2, is_consistent)


def is_more_precise(t1, t2):
    """Whether t1 says all that t2 does."""
    return t1 == t2 or t2 == Dyn or _sizes_hold(t1, t2, is_more_precise)
