"""Layers for one, two and three spatial dimensions: one base, one text, and the function of each rank."""
from types import FunctionType

from ..._docs import complete

_SPACE = {1: "L", 2: "H, W", 3: "D, H, W"}
_LAST = {1: "the last dimension", 2: "the last two dimensions", 3: "the last three dimensions"}


def of_ranks(base, name, doc, function=None, ranks=(1, 2, 3), **annotations):
    """The classes, derived from `base`: each has its rank as `_rank`, and as `_function` the name of its function in
    nn.functional.

    In `name` and `function` {} is the rank; `doc` is for `text_of_rank`. An annotation is a type, or a function that gives
    the type for a rank."""
    return [_class(base, name.format(rank), {
        "__doc__": text_of_rank(doc, rank), "_rank": rank, "_function": function and function.format(rank),
        "__annotations__": {key: kind if isinstance(kind, type) else kind(rank) for key, kind in annotations.items()}}) for rank in ranks]


def text_of_rank(doc, rank):
    """A docstring for one rank: {rank}; {shape} and {out} for the shapes of inputs and outputs; {space}, {last} for the
    spatial dimensions by their letters and in words; {one_of} for how sizes may be given; {n8} for an 8 of each dimension."""
    space = _SPACE[rank]
    out = ", ".join(f"{letter}_out" for letter in space.split(", "))
    return complete(doc.strip("\n")).format(
        rank=rank, space=space, last=_LAST[rank],
        shape=f"(N, C, {space}) or (C, {space})", out=f"(N, C, {out}) or (C, {out})",
        one_of="a number" if rank == 1 else f"a number for all dimensions, or {rank} of them",
        sides={1: "(left, right)", 2: "(left, right, top, bottom)", 3: "(left, right, top, bottom, front, back)"}[rank],
        **{f"n{n}": f", {n}" * rank for n in range(1, 33)})


def _class(base, title, content):
    for method in (base.__init__, base.forward):            # an error about arguments names the function, so each class has its own
        own = FunctionType(method.__code__, method.__globals__, method.__name__, method.__defaults__, method.__closure__)
        own.__qualname__, own.__doc__, own.__kwdefaults__ = f"{title}.{method.__name__}", method.__doc__, method.__kwdefaults__
        content[method.__name__] = own
    return type(base)(title, (base,), {"__module__": base.__module__, "__qualname__": title, **content})


def sizes(rank):
    """One number for all dimensions, or one for each."""
    return int | tuple[(int,) * rank]
