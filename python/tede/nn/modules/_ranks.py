"""Layers for one, two and three spatial dimensions: one base, one text, and the function of each rank."""
from types import FunctionType

from ..._docs import text_of_rank  # noqa: F401  the layers take it from here


def of_ranks(base, name, doc, function=None, ranks=(1, 2, 3), **annotations):
    """The classes, derived from `base`: each has its rank as `_rank`, and as `_function` the name of its function in
    nn.functional.

    In `name` and `function` {} is the rank; `doc` is for `text_of_rank`. An annotation is a type, or a function that gives
    the type for a rank."""
    return [_class(base, name.format(rank), {
        "__doc__": text_of_rank(doc, rank), "_rank": rank, "_function": function and function.format(rank),
        "__annotations__": {key: kind if isinstance(kind, type) else kind(rank) for key, kind in annotations.items()}}) for rank in ranks]


def _class(base, title, content):
    for method in (base.__init__, base.forward):            # an error about arguments names the function, so each class has its own
        own = FunctionType(method.__code__, method.__globals__, method.__name__, method.__defaults__, method.__closure__)
        own.__qualname__, own.__doc__, own.__kwdefaults__ = f"{title}.{method.__name__}", method.__doc__, method.__kwdefaults__
        content[method.__name__] = own
    return type(base)(title, (base,), {"__module__": base.__module__, "__qualname__": title, **content})


def sizes(rank):
    """One number for all dimensions, or one for each."""
    return int | tuple[(int,) * rank]
