"""What docstrings of a family share: said once here, and put where a docstring has `<name>` on a line."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar
    _T = TypeVar("_T")

_PIECES = {
    "reduction": """\
reduction: what the losses of all elements become: "mean", "sum", or "none" for the losses themselves.
size_average, reduce: older words for the same, as bools; they warn. Leave them out.""",
    "reduction_only": """\
reduction: what the losses of all elements become: "mean", "sum", or "none" for the losses themselves.""",
    "factory": """\
device, dtype: of the parameters; else the defaults.""",
    "params": """\
params: an iterable of parameters, of (name, parameter), or of dicts: a group each, whose "params" are trained with
    the options that stand beside it instead of those given here.""",
    "switches": """\
maximize: climb instead of descend.
foreach, fused: how the step is computed: tensor by tensor (foreach=False), lists at once, or in one kernel (fused).
    None chooses; the results agree but for rounding.
differentiable: let gradients flow through the step itself; slower, and no in-place tricks.""",
    "switches_unfused": """\
maximize: climb instead of descend.
foreach: whether lists of tensors are updated at once; None chooses. The results agree but for rounding.
differentiable: let gradients flow through the step itself; slower, and no in-place tricks.""",
    "capturable": """\
capturable: keep the count of steps on the parameters' device, which recording a step as a device's graph needs.""",
    "last_epoch": """\
optimizer: whose `lr` is set, one in each group; what it is now becomes "initial_lr".
last_epoch: the number of the last step; -1 starts. To go on at another, the groups must hold "initial_lr":
    load the optimizer's state first, or give it.""",
    "window": """\
sym: a symmetric window, for filters; False is one period of a periodic one, for spectra.
dtype: float32 or float64; ValueError for others.
layout, device, requires_grad: of the result.""",
    "validate_args": """\
validate_args: whether parameters and values are checked against `arg_constraints` and `support`, with a ValueError;
    None is the class's default: yes, unless Python runs with -O.""",
}


def completed(thing: "_T") -> "_T":
    """Decorator: put the pieces that the docstring names, at the indentation at which it names them."""
    thing.__doc__ = complete(thing.__doc__)
    return thing


def complete(doc: "str | None") -> "str | None":
    if doc is None or "<" not in doc:
        return doc
    out = []
    for line in doc.split("\n"):
        name = line.strip()
        piece = _PIECES.get(name[1:-1]) if name[:1] == "<" and name[-1:] == ">" else None
        if piece is None:
            out.append(line)
        else:
            indent = line[:len(line) - len(line.lstrip())]
            out += [indent + part for part in piece.split("\n")]
    return "\n".join(out)


# What layers and functions of one, two and three spatial dimensions share.
_SPACE = {1: "L", 2: "H, W", 3: "D, H, W"}
_LAST = {1: "the last dimension", 2: "the last two dimensions", 3: "the last three dimensions"}


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
