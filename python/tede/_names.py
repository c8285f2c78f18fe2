"""Named tensors: names of dimensions, which operators check, pass on to their results and show in errors.

    x = tede.rand(2, 3, names=("batch", "channel"))
    x.mean("channel")                       # by name
    x + y                                   # an error if y's dimensions are named otherwise
    x.align_to("channel", ..., "batch")

A tensor with names is of a subclass, so tensors without them pay nothing. Its __torch_function__ turns names among the
arguments into positions, calls the operator, and names what comes back by one of a few rules: reductions drop dimensions, views move
them, products take the rows' and the columns' names, and what keeps the operands' (broadcast) shape unifies their names from the
right. For any other operator it is an error to have names; rename(None) takes them away.
"""
import functools

from tede import _C
from tede._C import Tensor
from tede._overloads import OpOverload, OpOverloadPacket

_quiet = _C.DisableTorchFunctionSubclass


def _shown(names):
    return "[" + ", ".join("None" if name is None else f"'{name}'" for name in names) + "]"


def _checked(names, ndim, what):
    names = tuple(names)
    for name in names:
        if name is not None and (not isinstance(name, str) or not name.isidentifier()):
            raise RuntimeError(f"Invalid name: {name!r} is not a valid identifier; names of dimensions are identifiers or None")
    if len(names) != ndim:
        raise RuntimeError(f"{what}: Number of names ({len(names)}) and number of dimensions in tensor ({ndim}) do not match. "
                           f"Attempted to create a tensor with names {_shown(names)}")
    given = [name for name in names if name is not None]
    for name in given:
        if given.count(name) > 1:
            raise RuntimeError(f"Cannot construct a tensor with duplicate names. Got names: {_shown(names)}.")
    return names


def names_of(x):
    return getattr(x, "_names", None) or (None,) * x.dim()


def _expanded(names, own):
    """`names` with an Ellipsis replaced by those of `own` that it stands for, by position."""
    if names.count(...) > 1:
        raise RuntimeError("there may be one '...' among the names")
    if ... not in names:
        return names
    at = names.index(...)
    rest = len(own) - (len(names) - 1)
    return (*names[:at], *own[at:at + max(rest, 0)], *names[at + 1:])


def unify(a, b):
    """The names of a result of two operands that broadcast; PyTorch's errors where they don't fit."""
    def fail(reason):
        raise RuntimeError(f"Error when attempting to broadcast dims {_shown(a)} and dims {_shown(b)}: {reason}")
    longest = max(len(a), len(b))
    left, right = ((None,) * (longest - len(a)) + tuple(a), (None,) * (longest - len(b)) + tuple(b))
    for x, y in zip(left, right):
        if x is not None and y is not None and x != y:
            fail(f"dim '{x}' and dim '{y}' are at the same position from the right but do not match.")
    for names, others in ((left, right), (right, left)):
        for at, name in enumerate(names):
            if name is not None and name in others and others.index(name) != at:
                fail(f"dim '{name}' appears in a different position from the right across both lists.")
    return tuple(x if x is not None else y for x, y in zip(left, right))


def named(x, names):
    """x with these names, sharing its memory and history."""
    if all(name is None for name in names):
        return x.as_subclass(Tensor) if isinstance(x, NamedTensor) else x
    with _quiet():
        y = x.as_subclass(NamedTensor)
    y._names = tuple(names)
    return y


# ---- what operators do to names: (operands' names, args, kwargs, results) -> names of the results ------------------------

def _dims(args, kwargs, at, ndim, default=None):
    dims = kwargs.get("dim", args[at] if len(args) > at else default)
    if dims is None:
        return list(range(ndim))
    return [d % ndim if ndim else 0 for d in (dims if isinstance(dims, (tuple, list)) else [dims])]


def _reduced(names, args, kwargs, result):
    if result.dim() == len(names):
        return names
    gone = _dims(args, kwargs, 1, len(names))
    kept = tuple(name for d, name in enumerate(names) if d not in gone)
    return kept if len(kept) == result.dim() else (None,) * result.dim()


def _swapped(names, args, kwargs, result):
    a, b = (kwargs.get("dim0", args[1] if len(args) > 1 else 0), kwargs.get("dim1", args[2] if len(args) > 2 else 1))
    names = list(names)
    names[a], names[b] = names[b], names[a]
    return names


def _permuted(names, args, kwargs, result):
    order = kwargs.get("dims", args[1:] if len(args) > 2 else args[1] if len(args) > 1 else ())
    return [names[d] for d in (order if isinstance(order, (tuple, list)) else [order])]


def _dropped(names, args, kwargs, result):
    dim = kwargs.get("dim", args[1] if len(args) > 1 else 0) % len(names)
    return names[:dim] + names[dim + 1:]


def _squeezed(names, args, kwargs, result):
    shape = args[0].shape
    dims = _dims(args, kwargs, 1, len(names))
    return [name for d, name in enumerate(names) if not (d in dims and shape[d] == 1)]


def _indexed(names, args, kwargs, result):
    index = args[1] if isinstance(args[1], tuple) else (args[1],)
    if any(isinstance(i, (list, Tensor)) for i in index):
        return None
    used, out = sum(i is not None and i is not ... for i in index), []
    at = 0
    for i in (*index, ...) if ... not in index else index:
        if i is ...:
            out += names[at:at + len(names) - used]
            at += len(names) - used
            used = len(names)
        elif i is None:
            out.append(None)
        else:
            out += [names[at]] if isinstance(i, slice) else []
            at += 1
    return out


def _product(names, args, kwargs, result):
    a, b = names_of(args[0]), names_of(args[1])
    rows, columns = a[-2:-1] if len(a) > 1 else (), b[-1:] if len(b) > 1 else ()
    return (*unify(a[:-2], b[:-2]), *rows, *columns)


def _kept(names, args, kwargs, result):
    return names if result.dim() == len(names) else None


RULES = {"reduced": _reduced, "swapped": _swapped, "permuted": _permuted, "dropped": _dropped, "squeezed": _squeezed,
         "product": _product, "kept": _kept}           # `names:` of entries
_PROTOCOL = {"__getitem__": _indexed, "__matmul__": _product}       # of methods that are no operators
_PROPERTIES = {"T": lambda names: names[::-1], "mT": lambda names: (*names[:-2], names[-1], names[-2]), "data": tuple, "real": tuple,
               "imag": tuple, "grad": tuple, "H": lambda names: names[::-1], "mH": lambda names: (*names[:-2], names[-1], names[-2])}


def _tensors(values):
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, (tuple, list)):
            yield from _tensors(value)


def _positions(value, names):
    """Names among arguments become positions; other strings (the "fro" of norm) stay as they are."""
    if isinstance(value, str):
        return names.index(value) if value in names else value
    if isinstance(value, (tuple, list)) and value and all(isinstance(v, str) for v in value):
        return type(value)(_positions(v, names) for v in value)
    return value


def _describe(operands):
    return "".join(f"\n    operand {at}: {list(x.shape)}, names {_shown(names_of(x))}" for at, x in enumerate(operands))


def _refuse(name):
    raise RuntimeError(f"{name} is not yet supported with named tensors. Please drop names via `tensor = tensor.rename(None)`, call "
                       "the op with an unnamed tensor, and set names on the result of the operation.")


class NamedTensor(Tensor):
    """A tensor whose dimensions have names; see the module."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        kwargs, name = dict(kwargs or {}), getattr(func, "__name__", "")
        with _quiet():
            if name == "__get__":
                value, rule = func(*args, **kwargs), _PROPERTIES.get(func.__self__.__name__)
                return named(value, rule(names_of(args[0]))) if rule and isinstance(value, Tensor) else value
            if name in ("rename", "rename_", "refine_names", "align_to", "align_as"):
                return func(*args, **kwargs)
            operands = list(_tensors([*args, *kwargs.values()]))
            first = next((names_of(x) for x in operands if isinstance(x, NamedTensor)), ())
            args = (*args[:1], *(_positions(value, first) for value in args[1:]))
            kwargs = {key: _positions(value, first) if key in _DIMS else value for key, value in kwargs.items()}
            rule, together = _rule_of(func, name), ()
            if rule is None:
                for x in operands:                  # checked before anything is computed
                    together = unify(together, names_of(x))
            elif rule is _product:
                rule(first, args, kwargs, None)
            try:
                result = func(*args, **kwargs)
            except TypeError:
                for value in [*args[1:], *(kwargs.get(key) for key in _DIMS)]:
                    if isinstance(value, str) and value.isidentifier():
                        raise RuntimeError(f"Name '{value}' not found in Tensor{_shown(first)}.") from None
                raise
            except (RuntimeError, IndexError) as error:
                raise type(error)(f"{error}{_describe(operands)}") from None
            return _give(result, name, rule, together, operands, args, kwargs)

    def __repr__(self, **options):
        with _quiet():
            text = repr(self.as_subclass(Tensor))
        return f"{text[:-1]}, names=({', '.join(repr(name) for name in names_of(self))}{',' * (self.dim() == 1)}))"

    def flatten(self, start_dim=0, end_dim=-1, out_dim=None):
        """flatten(dims, out_dim) or flatten(first, last, out_dim): neighbouring dimensions as one, of that name."""
        names = names_of(self)
        if isinstance(start_dim, (tuple, list)):
            dims, out_dim = [_positions(d, names) for d in start_dim], out_dim or end_dim
            if dims != list(range(dims[0], dims[-1] + 1)):
                raise RuntimeError(f"flatten(tensor, dims, out_dim): dims {list(start_dim)} must be consecutive in Tensor{_shown(names)}")
            start_dim, end_dim = dims[0], dims[-1]
        first, last = _positions(start_dim, names) % self.dim(), _positions(end_dim, names) % self.dim()
        return named(self.rename(None).flatten(first, last), (*names[:first], out_dim, *names[last + 1:]))

    def unflatten(self, dim, sizes):
        """unflatten("c", (("c1", 2), ("c2", 3))): a dimension as several, with names."""
        names = names_of(self)
        at = _positions(dim, names) % self.dim()
        pairs = list(sizes.items() if hasattr(sizes, "items") else sizes)
        inner = tuple(pair[0] if isinstance(pair, tuple) else None for pair in pairs)
        lengths = [pair[1] if isinstance(pair, tuple) else pair for pair in pairs]
        return named(self.rename(None).unflatten(at, lengths), (*names[:at], *inner, *names[at + 1:]))


_DIMS = ("dim", "dims", "dim0", "dim1", "axis")


def _rule_of_overloads(fulls):
    return RULES.get(next(filter(None, (_C._op_traits(full)["names"] for full in fulls)), None))


@functools.cache
def _rule_of_aten(name):
    return _PROTOCOL.get(name) or _rule_of_overloads(_C._overloads("aten", name))


def _rule_of(func, name):
    """The rule of a function: of an operator of the program's own by its traits, whatever those of aten's do that has its name."""
    if isinstance(func, OpOverload) and func.namespace != "aten":
        return _rule_of_overloads([func._name])
    if isinstance(func, OpOverloadPacket) and not func._qualified_op_name.startswith("aten::"):
        return _rule_of_overloads(func._full)
    return _rule_of_aten(name.partition(".")[0])


def _give(result, name, rule, together, operands, args, kwargs):
    """The result with its names."""
    if isinstance(result, (tuple, list)) and any(isinstance(x, Tensor) for x in result):
        return type(result)([_give(x, name, rule, together, operands, args, kwargs) for x in result])
    if not isinstance(result, Tensor) or any(result is x for x in operands):
        return result
    if rule is not None:
        names = rule(names_of(args[0]), args, kwargs, result)
        return named(result, tuple(names)) if names is not None else _refuse(name)
    from tede.functional import broadcast_shapes
    same = tuple(result.shape) == tuple(broadcast_shapes(*(x.shape for x in operands)))
    return named(result, together) if same else _refuse(name)


# ---- methods of all tensors ------------------------------------------------------------------------------------------------

def rename(self, *names, **changes):
    """rename("n", "c"), rename(n="batch"), rename(None): the same elements with other names, or none."""
    own = names_of(self)
    if changes:
        if names:
            raise RuntimeError("rename() takes either positional args or keyword args, but not both. Use tensor.rename(*names) to name "
                               "dims and tensor.rename(**rename_map) to rename dims.")
        for name in changes:
            if name not in own:
                raise RuntimeError(f"rename(): Tried to rename dim '{name}' to dim '{changes[name]}' in Tensor{_shown(own)} but dim "
                                   f"'{name}' does not exist")
        names = tuple(changes.get(name, name) if name is not None else None for name in own)
    elif names == (None,):
        names = (None,) * self.dim()
    else:
        names = _expanded(names, own)
    return named(self, _checked(names, self.dim(), "rename"))


def rename_(self, *names, **changes):
    """rename(), of this tensor itself."""
    names = names_of(rename(self, *names, **changes))
    if type(self) not in (Tensor, NamedTensor):
        raise NotImplementedError(f"rename_: a {type(self).__name__} can't get names in place; use rename")
    self.__class__ = NamedTensor
    self._names = names
    return self


def refine_names(self, *names):
    """Names for dimensions that have none; those that have one must keep it."""
    own = names_of(self)
    names = _checked(_expanded(names, own), self.dim(), "refine_names")
    for at, (old, new) in enumerate(zip(own, names)):
        if old is not None and new != old:
            raise RuntimeError(f"refine_names: cannot coerce Tensor{_shown(own)} to Tensor{_shown(names)} because '{old}' is different "
                               f"from '{new}' at index {at}")
    return named(self, names)


def align_to(self, *names):
    """The dimensions in this order; new ones have one element. `...` stands for all that aren't named."""
    own = names_of(self)
    if ... in names:
        at, rest = names.index(...), [d for d, name in enumerate(own) if name not in names]
        order = [*names[:at], *rest, *names[at + 1:]]
    else:
        order = list(names)
        for name in own:
            if name not in names:
                raise RuntimeError(f"align_to: Cannot find dim '{name}' of Tensor{_shown(own)} in the desired alignment {_shown(names)}")
    x, out, shown = rename(self, None), [], []
    for name in order:
        d = name if isinstance(name, int) else own.index(name) if name in own else None
        out.append(d)
        shown.append(own[d] if d is not None else name)
    x = x.permute([d for d in out if d is not None])
    for at, d in enumerate(out):
        if d is None:
            x = x.unsqueeze(at)
    return named(x, shown)


def align_as(self, other):
    """The dimensions in the order of another tensor's names."""
    return align_to(self, *names_of(other))


def factory(function, args, kwargs):
    """A tensor from a function that makes one, with names: zeros(2, 3, names=("n", "c"))."""
    names = kwargs.pop("names")
    x = function(*args, **kwargs)
    return x if names is None else named(x, _checked(names, x.dim(), function.__name__))
