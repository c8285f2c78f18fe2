"""First-class dimensions: dimensions of tensors that are objects (PyTorch's functorch.dim).

`i, j = dims()` makes two; `x[i, j]` is x with its dimensions bound to them, and takes their sizes. A tensor with such dimensions is handled
by operators as if it had only the others, its positional ones: the first-class ones are batches that go along, matched by identity and not by
place. `order` makes them positional again.

A Tensor here is data whose first dimensions are the first-class ones, in the order of `dims`, and the positional ones follow. Calls take
one of four ways: elementwise operators line operands up and run once; an operator whose `dim` names a Dim gets that dimension as a
positional one, and its result has it back if it still is there; indexing is one lookup on rearranged data; everything else runs in a level of
vmap for each dimension. Nothing of it is an operator of its own, so gradients and devices are those of the operators."""
import functools
import inspect
import math
import sys

import tede
from tede import _C
from tede._tags import Tag
from tede.func import _dim_names
from tede.func._levels import VMAP, level
from tede.utils import _pytree

__all__ = ["Dim", "DimList", "DimensionBindError", "DimensionMismatchError", "Tensor", "cat", "dimlists", "dims", "index", "softmax", "split", "stack"]

_DIFFERENT = 1          # numbers that are drawn: others for each member of a batch
_Plain = tede.Tensor


class DimensionMismatchError(Exception):
    pass


class DimensionBindError(Exception):
    pass


def _at(dims, dim):
    """Where a Dim is among dims, by identity: == compares elements."""
    return next((i for i, d in enumerate(dims) if d is dim), -1)


def _union(*several):
    found = []
    for dims in several:
        found += [d for d in dims if _at(found, d) < 0]
    return found


class _FirstClass:
    """What a tensor's methods are for: a Tensor with first-class dimensions, or a Dim, which stands for the positions along itself."""
    __slots__ = ()

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return _call(func, args, kwargs or {})

    @property
    def ndim(self):
        return self._data.dim() - len(self.dims)

    def dim(self):
        return self.ndim

    @property
    def shape(self):
        return tuple(self._data.shape[len(self.dims):])

    def __getitem__(self, index):
        return _getitem(self, index)

    def __setitem__(self, index, value):
        _setitem(self, index, value)

    def __bool__(self):
        return bool(self._alone("bool()"))

    def __len__(self):
        if not self.ndim:
            raise TypeError("len() of a 0-d tensor")
        return self.shape[0]

    def __iter__(self):
        return iter(self.unbind(0))

    def item(self):
        return self._alone("item()").item()

    def tolist(self):
        return self._alone("tolist()").tolist()

    def _alone(self, what):
        raise RuntimeError(f"{what} of a tensor with first-class dimensions {tuple(self.dims)}: order() or reduce them first")

    def order(self, *dims):
        """The tensor with these dimensions as its first positional ones: a Dim, a positional one's number, or a tuple of such, which become one."""
        return _order(self._data, self.dims, dims)

    def index(self, positions, dims):
        """The tensor indexed by `dims` at `positions` (Dims, numbers, tuples of them)."""
        return index(self, positions, dims)

    def expand(self, *sizes):
        """As of any tensor; a Dim among the sizes is one that the result has in addition."""
        return _expand(self, *sizes)

    def split(self, split_size_or_sections, dim=0):
        return split(self, split_size_or_sections, dim)

    def __mul__(self, other):
        if isinstance(other, _FirstClass) and self.dims and other.dims and not self.ndim and not other.ndim:
            return _Product(self, other)
        return _call(tede.mul, (self, other), {})


class Dim(_FirstClass):
    """A dimension. Its size is known once it is bound; as a tensor it is arange(size) along itself."""
    __slots__ = ("_name", "_size", "_range", "__weakref__")

    def __init__(self, name, size=None):
        self._name, self._size, self._range = name, None, None
        if size is not None:
            self.size = size

    @property
    def size(self):
        if self._size is None:
            raise ValueError(f"dimension {self} is unbound")
        return self._size

    @size.setter
    def size(self, size):
        if self._size is None:
            self._size = int(size)
        elif self._size != size:
            raise DimensionBindError(f"Dim '{self}' previously bound to a dimension of size {self._size} cannot bind to a dimension of size {size}")

    @property
    def is_bound(self):
        return self._size is not None

    @property
    def dims(self):
        return (self,)

    @property
    def _data(self):
        if self._range is None:
            self._range = tede.arange(self.size)
        return self._range

    def __repr__(self):
        return self._name


class Tensor(_FirstClass):
    """A tensor with first-class dimensions, `dims`."""
    __slots__ = ("_held", "dims", "__weakref__")

    def __init__(self, data, dims):
        self._held, self.dims = data, tuple(dims)

    @property
    def _data(self):
        return self._held

    def __repr__(self):
        return f"{self._data!r}\nwith dims={(*self.dims, *range(self.ndim))} sizes={tuple(self._data.shape)}"


class _Product(Tensor):
    """a * b that isn't computed yet: summed over a Dim, it is a product of matrices."""
    __slots__ = ("_factors",)

    def __init__(self, *factors):
        super().__init__(None, _union(*(x.dims for x in factors)))
        self._factors = factors

    @property
    def _data(self):
        if self._held is None:
            self._held = _lined_up(tede.mul, self._factors, {}, self._factors)._data
        return self._held

    def sum(self, dim=None, keepdim=False, dtype=None):
        wanted = dim if isinstance(dim, (tuple, list)) else [dim]
        a, b = self._factors
        if keepdim or dtype is not None or a.dtype != b.dtype or not a.dtype.is_floating_point or any(_at(self.dims, d) < 0 for d in wanted):
            return _call(_Plain.sum, (self, dim, keepdim), {} if dtype is None else {"dtype": dtype})
        left = [d for d in self.dims if _at(wanted, d) < 0]
        numbers = [[_at(self.dims, d) for d in dims] for dims in (a.dims, b.dims, left)]
        return _with(tede.einsum(a._data, numbers[0], b._data, numbers[1], numbers[2]), left)


def _check_number(n):
    if n > 64:
        raise ValueError(f"no tensor has {n} dimensions: at most 64")


class DimList:
    """A list of dimensions that may not know its length yet: it gets one each for the dimensions that it is bound to."""

    def __init__(self, dims=None, name=None):
        self._name, self._dims = name, None
        if isinstance(dims, int):
            self.bind_len(dims)
        elif dims is not None:
            self._dims = [d if isinstance(d, Dim) else Dim(f"{name or 'dim'}{i}", d) for i, d in enumerate(dims)]

    def bind_len(self, n):
        _check_number(n)
        if self._dims is None:
            self._dims = [Dim(f"{self._name or 'dim'}{i}") for i in range(n)]
        elif len(self._dims) != n:
            raise DimensionBindError(f"Dimlist has size {len(self._dims)} but it is being bound to size {n}")

    def bind(self, sizes):
        self.bind_len(len(sizes))
        for dim, size in zip(self._dims, sizes):
            dim.size = size

    @property
    def is_bound(self):
        return self._dims is not None

    @property
    def size(self):
        return len(self)

    def _known(self):
        if self._dims is None:
            raise DimensionBindError("DimList not bound")
        return self._dims

    def __len__(self):
        return len(self._known())

    def __getitem__(self, i):
        return self._known()[i] if isinstance(i, int) else tuple(self._known()[i])

    def __iter__(self):
        return iter(self._known())

    def __repr__(self):
        return f"*{self._name or ''}" if self._dims is None else f"({', '.join(map(str, self._dims))})"

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return _call(func, args, kwargs or {})


def _several(n, sizes, frame, prefix, make):
    unpacked, names = _dim_names.targets(frame)
    if n is None:
        n = len(sizes) if sizes is not None else unpacked if unpacked is not None else 1
        if sizes is None and unpacked is None and not names:
            raise SyntaxError("dims() and dimlists() must be assigned to a sequence of variable names or have the argument n specified")
    _check_number(n)
    if sizes is not None and len(sizes) != n:
        raise ValueError(f"expected {n} sizes but found {len(sizes)}")
    names = names if unpacked is not None or n == 1 else ()
    made = tuple(make(names[i] if i < len(names) else f"{prefix}{i}", None if sizes is None else sizes[i]) for i in range(n))
    return made[0] if n == 1 and unpacked is None else made


def dims(n=None, sizes=None):
    """As many dimensions as the call's result is assigned to, or `n`, with these sizes (None: not known yet). One is itself, several are a tuple."""
    return _several(n, sizes, sys._getframe(1), "d", Dim)


def dimlists(n=None, sizes=None):
    """The same for lists of dimensions; a size is a length, or a list of sizes."""
    return _several(n, sizes, sys._getframe(1), "l", lambda name, dims: DimList(dims, name))


# ---- tensors and their dimensions --------------------------------------------------------------------------------------

def _with(data, dims):
    """A Tensor; of no dimensions it is the data itself."""
    return Tensor(data, dims) if dims else data


def _parts(x):
    """(data, first-class dimensions) of either kind of tensor."""
    return (x._data, x.dims) if isinstance(x, _FirstClass) else (x, ())


def _lined(x, dims, rank):
    """x's data in the order of `dims`, with size 1 where it lacks one, and at least `rank` positional dimensions."""
    data, own = _parts(x)
    if not own:
        return data
    positional = data.dim() - len(own)
    places = [_at(own, d) for d in dims]
    present = [p for p in places if p >= 0]
    if present != list(range(len(own))):
        data = data.permute(*present, *range(len(own), data.dim()))
    if len(present) < len(dims) or positional < rank:
        sizes = iter(data.shape[:len(own)])
        data = data.reshape([next(sizes) if p >= 0 else 1 for p in places] + [1] * (rank - positional) + list(data.shape[len(own):]))
    return data


def _lined_up(func, args, kwargs, operands):
    """A call of an elementwise operator, made once for all of the operands' dimensions."""
    dims = _union(*(x.dims for x in operands))
    rank = max(x.ndim if isinstance(x, _FirstClass) else x.dim() for x in args if isinstance(x, (_FirstClass, _Plain)))
    args = [_lined(x, dims, rank) if isinstance(x, _FirstClass) else x for x in args]
    return _with(func(*args, **kwargs), dims)


def _in_levels(dims, values, run):
    """run(values) in a level of vmap for each of dims: a list of (result, the dimensions that it has)."""
    if not dims:
        return [(x, ()) for x in run([data for data, _ in values])]
    with level(VMAP, dims[0].size, _DIFFERENT) as number:
        inner = [(_C._transform_wrap(data, 0), own[1:]) if own and own[0] is dims[0] else (data, own) for data, own in values]
        found = []
        for x, own in _in_levels(dims[1:], inner, run):
            at = -1
            if isinstance(x, _Plain):
                x, at = _C._transform_unwrap(x, number)
            found.append((x.movedim(at, 0), (dims[0], *own)) if at >= 0 else (x, own))
        return found


def _run_in_levels(func, args, kwargs, moved=(), back=lambda data: False):
    """func with every dimension a batch but those in `moved`, which are the operands' first positional ones, and of a result, too, where
    back(it) says so."""
    leaves, tree = _pytree.tree_flatten((args, kwargs))
    dims = [d for d in _union(*(x.dims for x in leaves if isinstance(x, _FirstClass))) if _at(moved, d) < 0]
    values, structure = [], []

    def run(data):
        result = func(*(unflat := _pytree.tree_unflatten(data, tree))[0], **unflat[1])
        flat, spec = _pytree.tree_flatten(result if not _named(result) else tuple(result))
        structure[:] = [spec, type(result) if _named(result) else None]
        return flat
    for x in leaves:
        data, own = _parts(x)
        if own:
            wanted = [d for d in (*dims, *moved) if _at(own, d) >= 0]
            data, own = _lined(x, wanted, 0), [d for d in wanted if _at(moved, d) < 0]
        values.append((data, own))
    found = []
    for x, own in _in_levels(dims, values, run):
        if isinstance(x, _Plain) and moved and back(x.dim() - len(own)):
            if list(x.shape[len(own):len(own) + len(moved)]) != [d.size for d in moved]:
                raise DimensionMismatchError(f"{func.__name__}: the result's dimension isn't of the size of {tuple(moved)} any more")
            own = (*own, *moved)
        found.append(_with(x, own) if isinstance(x, _Plain) else x)
    result = _pytree.tree_unflatten(found, structure[0])
    return structure[1](result) if structure[1] else result


def _named(result):
    return isinstance(result, tuple) and type(result) is not tuple and type(result).__module__.endswith("return_types")


# ---- calls -----------------------------------------------------------------------------------------------------------------

@functools.cache
def _about(name):
    """(whether an operator is elementwise, the places of `dim` among its arguments) by the name of its function."""
    bare = name.strip("_")
    bare = {"truediv": "div", "floordiv": "floor_divide", "invert": "bitwise_not"}.get(bare, bare)
    if not _C._overloads("aten", bare):
        return False, ()
    packet = getattr(tede.ops.aten, bare)
    overloads = [getattr(packet, o) for o in packet.overloads()]
    inplace = name.endswith("_") and not name.startswith("_")
    places = {(i, a.name) for o in overloads for i, a in enumerate(o._schema.arguments) if a.name in ("dim", "dims")}
    return not inplace and not places and all(Tag.pointwise in o.tags for o in overloads if not o._schema.is_mutable), tuple(sorted(places))


def _names_dims(value):
    return isinstance(value, Dim) or isinstance(value, (tuple, list, DimList)) and any(isinstance(d, Dim) for d in value)


def _call(func, args, kwargs):
    own = _OWN.get(func)
    if own is not None:
        return own(*args, **kwargs)
    name = getattr(func, "__name__", "")
    if name == "__get__":               # a property
        return _run_in_levels(lambda x: func(x), args[:1], {})
    elementwise, places = _about(name)
    if elementwise and "out" not in kwargs:
        operands = [x for x in args if isinstance(x, _FirstClass)]
        if operands and not any(isinstance(x, (_FirstClass, DimList)) for x in kwargs.values()):
            return _lined_up(func, args, kwargs, operands)
    for place, word in places:
        if word in kwargs and _names_dims(kwargs[word]) or len(args) > place and _names_dims(args[place]):
            return _along(func, args, kwargs, place, word)
    result = _run_in_levels(func, args, kwargs)
    return args[0] if name.endswith("_") and not name.startswith("_") else result


def _along(func, args, kwargs, place, word):
    """A call whose `dim` names Dims."""
    wanted = kwargs[word] if word in kwargs else args[place]
    several = not isinstance(wanted, Dim)
    items = list(wanted) if several else [wanted]
    moved = [d for d in items if isinstance(d, Dim)]
    operands = [x for x in _pytree.tree_leaves((args[:place], {k: v for k, v in kwargs.items() if k != word})) if isinstance(x, (_FirstClass, _Plain))]
    for d in moved:
        if not any(_at(_parts(x)[1], d) >= 0 for x in operands):
            raise ValueError(f"{func.__name__}: no operand has the dimension {d}")
    numbers = [_at(moved, d) if isinstance(d, Dim) else d + len(moved) if d >= 0 else d for d in items]
    numbers = numbers if several else numbers[0]
    if word in kwargs:
        kwargs = {**kwargs, word: numbers}
    else:
        args = (*args[:place], numbers, *args[place + 1:])
    rank = len(moved) + max(x.ndim if isinstance(x, _FirstClass) else x.dim() for x in operands)

    def back(ndim):
        if ndim == rank and _keeps(func, args, kwargs):
            raise ValueError("cannot preserve first-class dimensions with keepdim=True")
        return ndim == rank
    return _run_in_levels(func, args, kwargs, moved, back)


def _keeps(func, args, kwargs):
    """Whether a call has keepdim=True."""
    if "keepdim" in kwargs:
        return bool(kwargs["keepdim"])
    packet = getattr(tede.ops.aten, func.__name__, None)
    overloads = [getattr(packet, o) for o in packet.overloads()] if packet is not None else []
    places = {i for o in overloads for i, a in enumerate(o._schema.arguments) if a.name == "keepdim"}
    return any(len(args) > i and args[i] is True for i in places)


def _spread(items):
    """The items, with those of lists of dimensions in their place."""
    return [d for item in items for d in (item if isinstance(item, DimList) else [item])]


def _order(data, own, items):
    """order(): see _FirstClass."""
    n = len(own)
    axes, groups = [], []
    for item in _spread(items):
        pack = _spread(item) if isinstance(item, (tuple, list)) else [item]
        for d in pack:
            if not isinstance(d, (Dim, int)):
                raise TypeError(f"order: a dimension, a number or a tuple of them, not {d!r}")
            if isinstance(d, int) and not n - data.dim() <= d < data.dim() - n:
                raise IndexError(f"order: positional dimension {d} of a tensor that has {data.dim() - n}")
            at = _at(own, d) if isinstance(d, Dim) else d % (data.dim() - n) + n
            if at < 0 or at in axes:
                raise ValueError(f"tensor does not contain dim {d} or it was specified twice")
            axes.append(at)
        groups.append(len(pack) if isinstance(item, (tuple, list)) else None)
    left = [i for i in range(n) if i not in axes]
    data = data.permute(*left, *axes, *(i for i in range(n, data.dim()) if i not in axes))
    if any(group is not None for group in groups):
        sizes = list(data.shape)
        shape, at = sizes[:len(left)], len(left)
        for group in groups:
            shape.append(math.prod(sizes[at:at + (1 if group is None else group)]))
            at += 1 if group is None else group
        data = data.reshape(shape + sizes[at:])
    return _with(data, [own[i] for i in left])


def index(self, positions, dims):
    """`self` with its dimensions `positions` made positional, and indexed by `dims`: one each, or two lists of the same length."""
    data, own = _parts(self)
    if not (isinstance(positions, (tuple, list)) and isinstance(dims, (tuple, list))):
        positions, dims = [positions], [dims]
    if len(positions) != len(dims):
        raise ValueError(f"index: {len(positions)} positions, but {len(dims)} dimensions")
    return _getitem(_order(data, own, positions), tuple(dims))


def _expand(self, *sizes):
    if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)):
        sizes = tuple(sizes[0])
    sizes = _spread(sizes)
    added, numbers = [d for d in sizes if isinstance(d, Dim)], [n for n in sizes if not isinstance(n, Dim)]
    data, own = _parts(self)
    for d in added:
        if _at(own, d) >= 0:
            raise DimensionBindError(f"expanding dimension {d} already exists in tensor with dims")
    if numbers:
        data = data.reshape(list(data.shape[:len(own)]) + [1] * (len(numbers) - data.dim() + len(own)) + list(data.shape[len(own):]))
        data = data.expand(*data.shape[:len(own)], *numbers)
    return _with(data.expand(*(d.size for d in added), *data.shape), [*added, *own])


def _front(x, dim):
    """(x's data with the dimension `dim`, a Dim or a number, in front, its other first-class dimensions)."""
    data, own = _parts(x)
    at = _at(own, dim) if isinstance(dim, Dim) else dim + len(own) if dim >= 0 else dim + data.dim()
    if isinstance(dim, Dim) and at < 0 or not isinstance(dim, Dim) and not len(own) <= at < data.dim():
        raise ValueError(f"a tensor with dimensions {(*own, *range(data.dim() - len(own)))} does not contain {dim}")
    return data.movedim(at, 0), [d for d in own if d is not dim]


def split(self, sizes, dim=0):
    """As of any tensor. With a Dim for each part, the part has it; those without a size share what is left."""
    if isinstance(sizes, int) or not any(isinstance(d, Dim) for d in sizes):
        if isinstance(dim, Dim):
            raise TypeError("when dim is specified as a Dim object, split sizes must also be dimensions.")
        return _run_in_levels(_Plain.split, (self, sizes, dim), {})
    data, own = _front(self, dim)
    rest, unbound = data.size(0) - sum(d.size for d in sizes if d.is_bound), [d for d in sizes if not d.is_bound]
    for k, d in enumerate(unbound):
        d.size = max(min(-(-rest // len(unbound)), rest - k * -(-rest // len(unbound))), 0)
    return tuple(Tensor(part, [d, *own]) for part, d in zip(data.split([d.size for d in sizes], 0), sizes))


def _together(tensors, split_off=None):
    """The data of several, all with the same first-class dimensions behind what split_off(x) puts in front, and these dimensions."""
    parts = [split_off(x) if split_off else (_parts(x)[0].unsqueeze(0), _parts(x)[1]) for x in tensors]
    dims = _union(*(own for _, own in parts))
    lined = []
    for data, own in parts:
        data = data.movedim(0, len(own))
        lined.append(_lined(Tensor(data, own), dims, 0).expand(*(d.size for d in dims), *data.shape[len(own):]))
    return lined, dims


def stack(tensors, new_dim, dim=0):
    """The tensors along a new first-class dimension, which among `dims` is in front of `dim`."""
    if not isinstance(new_dim, Dim):
        return _call(tede.stack, (tensors, new_dim), {})
    new_dim.size = len(tensors)
    lined, dims = _together(tensors)
    at = _at(dims, dim) if isinstance(dim, Dim) else 0
    return Tensor(tede.cat(lined, len(dims)).movedim(len(dims), at), [*dims[:at], new_dim, *dims[at:]])


def cat(tensors, dim, new_dim):
    """The tensors joined along `dim`; the result's dimension there is `new_dim`."""
    lined, dims = _together(tensors, lambda x: _front(x, dim))
    at = max(_at(_union(*(_parts(x)[1] for x in tensors)), dim), 0)
    joined = tede.cat(lined, len(dims)).movedim(len(dims), at)
    new_dim.size = joined.size(at)
    return Tensor(joined, [*dims[:at], new_dim, *dims[at:]])


def softmax(self, dim, dtype=None):
    return _call(tede.softmax, (self, dim), {} if dtype is None else {"dtype": dtype})


# ---- indexing -----------------------------------------------------------------------------------------------------------------

def _items(index, rank):
    """The index as a list of ints, slices, None, Dims, packs (lists of Dims) and tensors, one for each of `rank` dimensions."""
    if isinstance(index, list) and _names_dims(index):
        index = tuple(index)
    items = []
    for item in index if isinstance(index, tuple) else (index,):
        if isinstance(item, DimList) and item.is_bound:
            items += item
        elif isinstance(item, (tuple, list)) and _names_dims(item):
            items.append(_spread(item))
        elif isinstance(item, (tuple, list, range)):
            items.append(tede.tensor(item))
        else:
            items.append(item)
    spread = []
    for item in items:              # a mask is the numbers of its true elements
        if isinstance(item, _Plain) and item.dtype in (tede.bool, tede.uint8):
            spread += item.nonzero(as_tuple=True)
        elif isinstance(item, Tensor) and item.dtype is tede.bool:
            raise NotImplementedError("a mask with first-class dimensions as an index")
        else:
            spread.append(item)
    open_ended = [i for i, item in enumerate(spread) if item is Ellipsis or isinstance(item, DimList)]
    if len(open_ended) > 1:
        raise DimensionBindError(f"at most one ... or unbound dimension list can exist in indexing list but found {len(open_ended)}")
    used = sum(item is not None for item in spread) - len(open_ended)
    if used > rank:
        raise ValueError(f"at least {used} indices were supplied but the tensor only has {rank} dimensions")
    if not open_ended:
        return spread + [slice(None)] * (rank - used)
    at, = open_ended
    if isinstance(spread[at], DimList):
        spread[at].bind_len(rank - used)
        return spread[:at] + list(spread[at]) + spread[at + 1:]
    return spread[:at] + [slice(None)] * (rank - used) + spread[at + 1:]


def _infer(pack, size):
    """Bind the Dims that share a dimension of this size; one of them may have none yet."""
    unbound = [d for d in pack if not d.is_bound]
    if len(unbound) > 1:
        raise DimensionBindError(f"cannot infer the sizes of {len(unbound)} dimensions at once {tuple(unbound)}")
    known = math.prod(d.size for d in pack if d.is_bound)
    if unbound:
        if not known or size % known:
            raise DimensionBindError(f"inferred dimension does not evenly fit into larger dimension: {size} vs {tuple(pack)}")
        unbound[0].size = size // known
    elif known != size:
        raise DimensionBindError(f"dimensions {tuple(pack)} of {known} elements together are bound to a dimension of size {size}")


class _Found:
    """An index, applied as far as views go: `view`'s dimensions are those that are looked up, then first-class ones, then positional ones."""

    def __init__(self, self_, index):
        data, own = _parts(self_)
        items = _items(index, data.dim() - len(own))
        view = data[(slice(None),) * len(own) + tuple(item if item is None or isinstance(item, (int, slice)) else slice(None) for item in items)]
        axes = [*own, *(item for item in items if not isinstance(item, int) or isinstance(item, bool))]
        for at in reversed(range(len(axes))):
            if isinstance(axes[at], list):
                pack = axes[at]
                _infer(pack, view.size(at))
                view = view.reshape(*view.shape[:at], *(d.size for d in pack), *view.shape[at + 1:])
                axes[at:at + 1] = pack
        for at, axis in enumerate(axes):
            if isinstance(axis, Dim):
                axis.size = view.size(at)
        lookups = [axis for axis in axes if isinstance(axis, (_FirstClass, _Plain)) and not isinstance(axis, Dim)]
        dims = _union(*(_parts(x)[1] for x in lookups))
        seen = []
        for axis in axes:               # a Dim twice, or in what is looked up: elements along it are looked up, too
            if isinstance(axis, Dim):
                if _at(seen, axis) >= 0:
                    dims = _union(dims, [axis])
                seen.append(axis)
        kinds = ["p" if axis is None or isinstance(axis, slice) else "d" if isinstance(axis, Dim) and _at(dims, axis) < 0 else "l" for axis in axes]
        self.view = view.permute(*(i for kind in "ldp" for i, k in enumerate(kinds) if k == kind))
        lookups = [axis for axis, kind in zip(axes, kinds) if kind == "l"]
        self.rank = max((_parts(x)[0].dim() - len(_parts(x)[1]) for x in lookups), default=0)
        self.lookups = tuple(_lined(x, dims, self.rank) for x in lookups)
        self.looked_up, self.bound = dims, [axis for axis, kind in zip(axes, kinds) if kind == "d"]
        places = [i for i, kind in enumerate(kinds) if kind == "l"]
        between = kinds[places[0]:places[-1]] if places else []
        self.before = 0 if not places or "p" in between else kinds[:places[0]].count("p")     # positional dimensions before those of lookups
        self.positional = kinds.count("p")

    def in_place_of_lookups(self):
        """The order of the result's positional dimensions, for data that has those of lookups first."""
        of_lookups = list(range(self.rank))
        others = [self.rank + i for i in range(self.positional)]
        return others[:self.before] + of_lookups + others[self.before:]


def _getitem(self, index):
    found = _Found(self, index)
    data, bound = found.view, found.bound
    if not found.lookups:
        return _with(data, bound)
    data, n = data[found.lookups], len(found.looked_up)
    first = list(range(n)) + [n + found.rank + i for i in range(len(bound))]                # dimensions, those of lookups, positional ones
    others = [n + i for i in range(found.rank)] + list(range(n + found.rank + len(bound), data.dim()))
    return _with(data.permute(*first, *(others[i] for i in found.in_place_of_lookups())), [*found.looked_up, *bound])


def _setitem(self, index, value):
    found = _Found(self, index)
    dims, order = [*found.looked_up, *found.bound], found.in_place_of_lookups()
    if isinstance(value, _FirstClass):
        if any(_at(dims, d) < 0 for d in value.dims):
            raise DimensionBindError(f"the value has dimensions {value.dims}, of which the indexed tensor has {tuple(dims)} only")
        value = _lined(value, dims, len(order))
        n = len(found.looked_up)
        of_lookups = [len(dims) + order.index(i) for i in range(found.rank)]
        others = [len(dims) + order.index(found.rank + i) for i in range(found.positional)]
        value = value.permute(*range(n), *of_lookups, *range(n, len(dims)), *others)
    elif isinstance(value, _Plain) and value.dim():
        value = value.reshape([1] * (len(order) - value.dim()) + list(value.shape))
        value = value.permute(*(order.index(i) for i in range(len(order))))
        value = value.reshape(*value.shape[:found.rank], *([1] * len(found.bound)), *value.shape[found.rank:])
    if found.lookups:
        found.view[found.lookups] = value
    else:
        found.view[...] = value


_index_by_tensors = _Plain.index


@functools.wraps(_index_by_tensors)
def _index_method(self, *args, **kwargs):
    return index(self, *args) if len(args) == 2 else _index_by_tensors(self, *args, **kwargs)


_Plain.index = _index_method
_OWN = {_Plain.__getitem__: _getitem, _Plain.__setitem__: _setitem, _Plain.expand: _expand, _Plain.split: split}


def _methods():
    """The methods and properties of tensors, for both classes here."""
    def method(function):
        @functools.wraps(function)
        def call(self, *args, **kwargs):
            return _call(function, (self, *args), kwargs)
        return call

    def getter(name):
        return property(lambda self: _run_in_levels(lambda x: getattr(x, name), (self,), {}))
    about = {"device", "dtype", "layout", "requires_grad", "is_leaf", "grad_fn"}
    skipped = {name for name in dir(object) if name not in ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__")}
    for name in dir(_Plain):
        if name in skipped or name in vars(_FirstClass) or name in ("__torch_function__", "__torch_dispatch__", "__array__", "__array_interface__",
                                                                    "__dlpack__", "__deepcopy__", "__setstate__", "__weakref__", "__index__", "__dict__"):
            continue
        value = inspect.getattr_static(_Plain, name)
        if name in about or name.startswith("is_") and not callable(getattr(_Plain, name)):
            setattr(_FirstClass, name, property(lambda self, name=name: getattr(self._data, name)))
        elif callable(value):
            setattr(_FirstClass, name, method(getattr(_Plain, name)))
        elif not isinstance(value, (int, str, type(None))):
            setattr(_FirstClass, name, getter(name))


_methods()
_FirstClass.__hash__ = object.__hash__
