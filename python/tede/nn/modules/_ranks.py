"""Layers for one, two and three spatial dimensions: one base, a sentence, and the function of each rank."""
from types import FunctionType

_SHAPES = {1: "(N, C, L) or (C, L)", 2: "(N, C, H, W) or (C, H, W)", 3: "(N, C, D, H, W) or (C, D, H, W)"}
_LAST = {1: "the last dimension", 2: "the last two dimensions", 3: "the last three dimensions"}


def of_ranks(base, name, doc, function=None, ranks=(1, 2, 3), **annotations):
    """The classes, derived from `base`: each has its rank as `_rank` and the name of its function, of nn.functional, as `_function`.

    In `name` and `function` {} is the rank; in `doc` {shape} stands for the inputs' shapes and {last} for the dimensions that are
    meant. An annotation is a type, or a function that gives the type for a rank."""
    return [_class(base, name.format(rank), {
        "__doc__": doc.format(rank, shape=_SHAPES[rank], last=_LAST[rank]), "_rank": rank, "_function": function and function.format(rank),
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
