"""How a call is split along one dimension of a mesh, by the family that its operator's entry names.

Note [Splits]. A Split says what a call needs and gives on one mesh dimension: a placement for each tensor operand, and one for each result. Every
operator can be computed on whole operands; the other splits follow from what the entry says about dimensions:

- `batch`, the pattern by which a call serves a whole batch under vmap, says along which dimensions the elements of a call don't depend on one
  another. What can be batched along a dimension can be split along it: "pointwise", "leading", "dims", ...
- `splits` says it where `batch` doesn't: of a reduction, what the result of a part is a part of; of others which dimensions go together.
- Linear operators take partial sums to partial sums. Of pointwise ones the formulas of their gradients show in which operands they are linear.

An operator of which neither says anything has no split at all, and is refused: nothing is replicated that the program hasn't replicated."""
import functools
import math
import re
from typing import NamedTuple

import tede
from tede import _C
from tede.distributed.tensor import _collectives as comm
from tede.distributed.tensor._dtensor_spec import DTensorSpec
from tede.distributed.tensor._splits import SPLITS
from tede.distributed.tensor.placement_types import Partial, Replicate, Shard, _MaskPartial, _NormPartial

FACTORY, INPLACE, OUT, VIEW, POINTWISE, COMPOSITE, LINEAR, ANY_DEVICE, PROMOTES, COPIES = (
    128, 256, 512, 1024, 8192, 16384, 32768, 131072, 2097152, 33554432)          # TD_OP_*
WHOLE = Replicate()
MEAN, SUM = 1, 2              # numbers of a loss's reductions
REDUCTIONS = {"sum", "avg", "max", "min", "product"}


class Split(NamedTuple):
    ins: tuple
    outs: tuple
    local: object = None        # a function of (plan, args, kwargs) in the operator's place, on local tensors


class Meta(NamedTuple):
    """A tensor's shape and what else is known without its elements."""
    shape: tuple
    stride: tuple
    dtype: object

    @property
    def ndim(self):
        return len(self.shape)


class Call(NamedTuple):
    func: object
    values: dict            # argument -> value, with a Meta in the place of a tensor
    names: tuple            # which argument each tensor operand belongs to
    operands: tuple         # their Metas
    results: tuple          # the results' Metas, None where there is no tensor

    def split(self, ins, outs):
        """A Split by dimensions: an int is a shard, None the whole, a word a part; a single `outs` holds for all results."""
        if not isinstance(outs, (list, tuple)):
            outs = [outs] * len(self.results)
        return Split(tuple(map(_placed, ins)), tuple(map(_placed, outs)))


def _placed(x):
    return WHOLE if x is None else Shard(x) if isinstance(x, int) else Partial(x) if isinstance(x, str) else x


class Said(NamedTuple):
    """What an operator's entry says."""
    flags: int
    family: str
    modes: frozenset
    split: str | None
    names: str | None
    pointwise: bool


@functools.cache
def said(func):
    full, traits = func._name, _C._op_traits(func._name)
    flags, text, names = _C._op_info(full)[1], SPLITS.get(full), traits["names"]
    if text is None and (flags & (INPLACE | OUT) or func._overloadname.startswith("Scalar")):   # a variant is split as the operator is
        base = full.partition(".")[0].removesuffix("_" if flags & INPLACE else "")
        overloads = dict.fromkeys((func._overloadname, "default", *getattr(getattr(tede.ops, func.namespace), base.partition("::")[2]).overloads())) \
            if _C._overloads(func.namespace, base.partition("::")[2]) else ()
        full_names = [base if o == "default" else f"{base}.{o}" for o in overloads]
        text = next((SPLITS[f] for f in full_names if f in SPLITS), None)
        names = names or next((n for f in full_names if _C._op_info(f) and (n := _C._op_traits(f)["names"])), None)
    family = traits["batch"] or ""
    if text and "->" not in text and text not in REDUCTIONS and text != "norm":
        family, text = text, None
    word, _, modes = family.partition("(")
    promotes = flags & PROMOTES and flags & COMPOSITE and not any("List" in str(a.type) for a in func._schema.arguments)
    return Said(flags, word, frozenset(re.findall(r"\w+", modes)), text, names, bool(flags & POINTWISE or promotes))


# ---- families ------------------------------------------------------------------------------------------------------------

def _pointwise(call, n, s):
    shape = max((m.shape for m in call.results if m), key=len, default=()) or max((m.shape for m in call.operands), key=len, default=())
    for d, size in enumerate(shape):
        at = [d - len(shape) + m.ndim for m in call.operands]
        yield call.split([i if i >= 0 and m.shape[i] == size else None for i, m in zip(at, call.operands)], d)
    yield from _linear_formulas(call)


def _linear_formulas(call):
    """The operands in which a pointwise operator is linear: their gradients don't mention them, and of zeros comes zero."""
    floats = [i for i, m in enumerate(call.operands) if m.dtype.is_floating_point or m.dtype.is_complex]
    base = call.func if not call.func._schema.is_mutable else _functional(call.func)
    formulas = base.formulas if base is not None and floats else {}
    for group in {(i,) for i in floats} | {tuple(floats)}:
        names = {call.names[i] for i in group}
        texts = [formulas.get(f"grad {call.names[i]}") for i in group]
        if all(texts) and not any(re.search(rf"\b({'|'.join(names)}|result)\b", text) for text in texts) and _zero_at_zero(call, group):
            for word in "sum", "avg":
                yield call.split([word if i in group else None for i in range(len(call.operands))], word)


def _functional(func):
    name = func._schema.name.partition("::")[2].removesuffix("_")
    overload = func._overloadname
    packet = getattr(getattr(tede.ops, func.namespace), name, None)
    return getattr(packet, overload, None) if packet is not None else None


def _zero_at_zero(call, group):
    count = iter(range(len(call.operands)))

    def one(value):
        if isinstance(value, Meta):
            i = next(count)
            if value.dtype == tede.bool or not value.dtype.is_floating_point:
                return tede.ones((1,), dtype=value.dtype)
            return tede.full((1,), 0. if i in group else 1.5, dtype=value.dtype)
        return value
    values = {name: one(value) for name, value in call.values.items()}
    schema = (base := call.func if not call.func._schema.is_mutable else _functional(call.func))._schema
    names = [a.name for a in schema.arguments]
    args = [values[a.name] for a in schema.arguments if not a.kwarg_only and a.name in values]
    kwargs = {a.name: values[a.name] for a in schema.arguments if a.kwarg_only and a.name in values}
    return not any(x.any().item() for x in [base(*args, **kwargs)]) if names else False


def _leading(call, n, s):
    """Elements on their own, of operators that only make and copy tensors; else the last two dimensions are computed on."""
    if not call.operands:
        return
    m = call.operands[0]
    shape = next((r.shape for r in call.results if r), m.shape)
    own = s.flags & (ANY_DEVICE | VIEW | COPIES | FACTORY) or "lift" in call.func._name
    for d in range(m.ndim if own and shape == m.shape else max(min(m.ndim, len(shape)) - 2, 0)):
        yield call.split([d if i == 0 or x.shape == m.shape else None for i, x in enumerate(call.operands)], d)
    if s.flags & FACTORY:                           # values are read of none
        for word in REDUCTIONS:
            yield Split((Partial(word),), (WHOLE,))
    if s.flags & INPLACE and len(call.operands) == 1:        # zero_, fill_ of zero
        zero = not call.values.get("value")
        for word in ("sum", "avg") if zero else ():
            yield call.split([word], word)


def _dims_of(call, ndim):
    """The dimensions that arguments named dim, dims, axis, ... list; None if all are absent."""
    found, any_given = set(), False
    for name, value in call.values.items():
        if re.match(r"(dim|axis|axes)", name) and name != "dimension_names" and value is not None and not isinstance(value, bool):
            listed = value if isinstance(value, (list, tuple)) else [value]
            any_given |= bool(listed)
            found |= {d % max(ndim, 1) for d in listed if isinstance(d, int)}
    return found if any_given else None


def _dims(call, n, s):
    m = call.operands[0]
    out = next((r.ndim for r in call.results if r), m.ndim)
    named = _dims_of(call, out if "of_result" in s.modes else m.ndim)
    if named is None:
        named = set(range(m.ndim)) if s.split or s.family != "dims" or "absent_is_all" in s.modes else {i for a in call.func._schema.arguments if a.name == "dim"
                                                                                   and a.default_value is not None for i in (a.default_value,)}
    for d in range(m.ndim):
        if "of_result" in s.modes:
            to = [i for i in range(out) if i not in named][d]
        elif d in named:
            continue
        else:
            to = d if out == m.ndim else d - sum(i < d for i in named)
        yield call.split([d if i == 0 or "all_operands" in s.modes and x.ndim == m.ndim else None for i, x in enumerate(call.operands)], to)
    for d in sorted(named) if s.split else ():
        if s.split == "norm":
            p = call.values.get("ord", 2)
            if p > 0 and _reducible("max" if p == float("inf") else "sum", m.shape[d], n):
                yield call.split([d], _NormPartial(p))
        elif _reducible(s.split, m.shape[d], n):
            yield call.split([d], s.split)


def _reducible(word, size, n):
    """Whether the results of parts make that of the whole: averages of equal parts do, and a part without elements has no largest one."""
    return size % n == 0 if word == "avg" else size > -(-size // n) * (n - 1) if word in ("max", "min") else True


def _whole_reduction(call, n, s):
    """A reduction of all elements."""
    for d, size in enumerate(call.operands[0].shape):
        if _reducible(s.split, size, n):
            yield call.split([d], s.split)


def _moved(call, n, s):
    """Dimensions in another order."""
    m = call.operands[0]
    if s.names == "permuted":
        order = [d % max(m.ndim, 1) for d in call.values["dims"]]
    else:
        order = list(range(m.ndim))
        a, b = (call.values[k] % m.ndim for k in ("dim0", "dim1")) if "dim0" in call.values else (0, 1)
        if m.ndim > 1:
            order[a], order[b] = b, a
    for to, d in enumerate(order):
        yield call.split([d], to)


def _view(call, n, s):
    """The first dimension of what is joined or taken apart, if both sizes divide."""
    a, b = call.operands[0].shape, call.results[0].shape
    i = j = 0
    while i < len(a) and j < len(b):
        first_in, first_out, x, y = i, j, a[i], b[j]
        i, j = i + 1, j + 1
        while x != y:
            if x < y and i < len(a):
                x, i = x * a[i], i + 1
            elif j < len(b):
                y, j = y * b[j], j + 1
            else:
                return
        while first_in < i - 1 and a[first_in] == 1:
            first_in += 1
        while first_out < j - 1 and b[first_out] == 1:
            first_out += 1
        if a[first_in] == b[first_out] or a[first_in] % n == 0 and b[first_out] % n == 0:
            yield call.split([first_in], first_out)._replace(local=_reshape)


def _reshape(func, args, kwargs, specs, plan):
    """Strides that let the whole be viewed may not be those of what was moved."""
    return args[0].reshape(plan.specs[0].local()[0])


def _expand(call, n, s):
    a, b = call.operands[0].shape, call.results[0].shape
    for d, size in enumerate(a):
        to = d + len(b) - len(a)
        if size == b[to]:
            yield call.split([d], to)


def _repeat(call, n, s):
    a, times = call.operands[0].shape, call.values["repeats"]
    for d in range(len(a)):
        if times[d + len(times) - len(a)] == 1:
            yield call.split([d], d + len(times) - len(a))


def _cat(call, n, s):
    out = call.results[0]
    along = call.values.get("dim", 0) % max(out.ndim, 1)
    for d in range(out.ndim):
        if d != along and all(m.ndim == out.ndim for m in call.operands):
            yield call.split([d] * len(call.operands), d)


def _index_select(call, n, s):
    m, along = call.operands[0], call.values["dim"] % max(call.operands[0].ndim, 1)
    for d in range(m.ndim):
        yield call.split([None, 0] if d == along else [d, None], d)


def _along(call, n, s):
    m, along = call.operands[0], call.values["dim"] % max(call.operands[0].ndim, 1)
    for d in range(m.ndim):
        if d != along and len({x.shape[d] for x in call.operands if x.ndim == m.ndim}) == 1:
            yield call.split([d if x.ndim == m.ndim else None for x in call.operands], d)
    if "like_index" in s.modes and m.ndim:
        yield call.split([None, along], along)


def _index_write(call, n, s):
    """Slices written along a dimension: along the others each for itself; what is added may come from any rank."""
    m, along = call.operands[0], call.values["dim"] % max(call.operands[0].ndim, 1)
    for d in range(m.ndim):
        if d != along:
            yield call.split([d if x.ndim == m.ndim else None for x in call.operands], d)
    if "add" in s.modes and all(x.ndim for x in call.operands):
        yield call.split(["sum", 0, along], "sum")


def _view_backward(call, n, s):
    g, out = call.operands[0], call.results[0]
    if "dim" not in call.values:
        return
    along = call.values["dim"] % max(out.ndim, 1)
    for d in range(out.ndim):
        if d != along:
            yield call.split([d - (g.ndim < out.ndim and d > along)], d)


def _index(call, n, s):
    """Dimensions that no index is for, where those with one are neighbours; or the first dimension of a single index."""
    m, indices = call.operands[0], call.values["indices"]
    at = [d for d, i in enumerate(indices) if i is not None]
    if at and at == list(range(at[0], at[-1] + 1)) and not any(x.dtype in (tede.bool, tede.uint8) for x in call.operands[1:]):
        wide = max(x.ndim for x in call.operands[1:])
        for d in range(m.ndim):
            if d not in at:
                yield call.split([d] + [None] * len(at), d if d < at[0] else d - len(at) + wide)
        for d in range(wide):
            if all(x.ndim == wide and x.shape == call.operands[1].shape for x in call.operands[1:]):
                yield call.split([None] + [d] * len(at), at[0] + d)


def _new(call, n, s):
    """A factory that looks at its operand's dtype and device only."""
    for d in range(call.results[0].ndim):
        if d < call.operands[0].ndim and call.operands[0].shape == call.results[0].shape:
            yield call.split([d], d)
    for placed in (*range(call.operands[0].ndim), *REDUCTIONS):
        yield call.split([placed], None)


def _fold(call, n, s):
    """The first dimension is a batch."""
    size = call.operands[0].shape[0] if call.operands[0].ndim else None
    if size is not None and call.results[0] and call.results[0].ndim and call.results[0].shape[0] == size:
        yield call.split([0 if x.ndim == call.operands[0].ndim and x.shape[0] == size else None for x in call.operands], 0)


FAMILIES = {"pointwise": _pointwise, "random": _pointwise, "leading": _leading, "fill": _leading, "dims": _dims, "squeeze": _dims, "flat": _dims,
            "maybe_flat": _dims, "permute": _moved, "expand": _expand, "repeat": _repeat, "cat": _cat, "index_select": _index_select, "index_write": _index_write,
            "along": _along, "view_backward": _view_backward, "index": _index, "fold": _fold, "new_empty_strided": _new}


# ---- dimensions by letters -----------------------------------------------------------------------------------------------------

@functools.cache
def _parsed(text):
    ins, _, outs = text.partition("->")
    operands = dict(part.strip().split(":", 1) for part in ins.split(","))
    return {k.strip().rstrip("+"): (v.strip(), "+" in k) for k, v in operands.items()}, [o.strip() for o in outs.split(",")]


def _letters(word, meta, tail):
    """What each dimension of an operand is: a letter, "_", or the number of a leading one. Operands of lower rank lack the first ones."""
    if meta is None:
        return ()
    word = word.replace("~", "_" * tail)
    if "*" in word:
        lead = meta.ndim - len(word) + 1
        return (*range(max(lead, 0)), *word[1 - len(word):]) if len(word) > 1 else tuple(range(lead))
    return tuple(word[len(word) - meta.ndim:]) if meta.ndim <= len(word) else tuple("_" * (meta.ndim - len(word)) + word)


def _by_letters(call, n, s):
    named, outs = _parsed(s.split)
    tail = len(call.values.get("normalized_shape", ()))
    ins = [_letters(named[name][0], m, tail) if name in named else () for name, m in zip(call.names, call.operands)]
    if any(name in named and m.ndim > len(named[name][0]) and "*" not in named[name][0] for name, m in zip(call.names, call.operands)):
        return
    results = [_letters(word, m, tail) for word, m in zip(outs, call.results)]
    sizes = {}
    for letters, m in zip(ins, call.operands):
        for letter, size in zip(letters, m.shape):
            sizes[letter] = max(size, sizes.get(letter, 0))
    for letter in sizes:
        if letter != "_":
            where = [letters.index(letter) if letter in letters and m.shape[letters.index(letter)] == sizes[letter] else None
                     for letters, m in zip(ins, call.operands)]
            given = [letters.index(letter) if letter in letters else "sum" if m else None for letters, m in zip(results, call.results)]
            added = [w is None and name in named and named[name][1] and "sum" in given for w, name in zip(where, call.names)]
            split = call.split(["sum" if a else w for w, a in zip(where, added)], given)
            yield split._replace(local=_mean) if call.values.get("reduction") == MEAN and len(call.results) > 1 else split


def _mean(func, args, kwargs, specs, plan):
    """The ranks' parts of a loss's mean: their sums over the sum of all their weights, which is the last result."""
    at = next(i for i, a in enumerate(func._schema.arguments) if a.name == "reduction")
    loss, *rest = func(*args[:at], SUM, *args[at + 1:], **kwargs)
    total = rest[-1]
    for i, p in enumerate(plan.specs[-1].placements):
        if p.is_partial():
            total = comm.all_reduce(total, p.reduce_op, plan.mesh, i)
    return loss / total, *rest


# ---- all of them ------------------------------------------------------------------------------------------------------------------

_more = {}              # operator -> rules besides its family's, which put another function in its place


def more(name):
    """Register a further rule, of (call, n, said), for an operator that is computed otherwise where it is split."""
    def register(rule):
        _more.setdefault(name, []).append(rule)
        return rule
    return register


@more("aten::embedding")
def _rows_of_a_table(call, n, s):
    """A table in parts by rows: each rank looks up what it has, and zeros for the rest."""
    yield Split((Shard(0), WHOLE), (_MaskPartial(offset_shape=tede.Size(call.operands[0].shape)),), _lookup)


def _lookup(func, args, kwargs, specs, plan):
    weight, indices, *rest = args
    start = DTensorSpec(plan.mesh, plan.needs[0], specs[0].tensor_meta).local()[1][0]
    own = indices - start
    absent = (own < 0) | (own >= weight.shape[0])
    if not weight.shape[0]:
        return weight.new_zeros((*indices.shape, weight.shape[1]))
    return func(weight, own.masked_fill(absent, 0), *rest, **kwargs).masked_fill(absent.unsqueeze(-1), 0)


def _family(s, call):
    if s.split and "->" in s.split:
        return _by_letters
    if s.split and s.family not in ("dims",):
        return _whole_reduction if not any(a.name == "dim" for a in call.func._schema.arguments) else _dims
    if s.names in ("swapped", "permuted"):
        return _moved
    if s.flags & VIEW and any(a.name == "size" for a in call.func._schema.arguments) and s.family == "dims":
        return _view
    if s.family == "dims" and any(a.name == "size" for a in call.func._schema.arguments):
        return _new if call.func._opname.startswith("new_") else _view
    if s.pointwise:
        return _pointwise
    return FAMILIES.get(s.family)


def splits(call, n):
    """All splits of a call over n ranks, the one of whole operands first. See Note [Splits]."""
    s = said(call.func)
    whole = call.split([None] * len(call.operands), None)
    if _family(s, call) is _view:
        whole = whole._replace(local=_reshape)
    if not any(call.results):                       # a value that Python gets
        if s.flags & (INPLACE | OUT) == 0:
            return [whole]
    family = _family(s, call)
    further = _more.get(call.func._name, ())
    if family is None and not further:
        raise NotImplementedError(f"Operator {call.func} does not have a sharding strategy registered.")
    found = [whole, *(family(call, n, s) if family else ())]
    for rule in further:
        found.extend(rule(call, n, s))
    if s.flags & LINEAR:
        floats = [m.dtype.is_floating_point for m in call.operands]
        words = REDUCTIONS if s.flags & (VIEW | COPIES) else ("sum", "avg")
        found.extend(call.split([word if f else None for f in floats], word) for word in words)
        if s.flags & VIEW:
            found.extend(call.split([p], p) for p in (_NormPartial(2), _NormPartial(1)))
    elif s.flags & VIEW or s.names in ("swapped", "permuted"):
        found.extend(call.split([word], word) for word in REDUCTIONS)
    written = [i for i, name in enumerate(call.names) if any(a.name == name and a.is_write for a in call.func._schema.arguments)]
    if s.flags & OUT:
        found = [f._replace(ins=tuple(f.outs[written.index(i)] if i in written else p for i, p in enumerate(f.ins))) for f in found]
    return found


def meta_of(x):
    return Meta(tuple(x.shape), tuple(x.stride()), x.dtype)


def numel(meta):
    return math.prod(meta.shape)
