"""Functional tensors: programs that write and take views, as calls that do neither.

A FunctionalTensor has geometry and no memory. It stands for a value, a tensor that nobody writes to. Those that are views of one another
share a _Memory: the value of all of it (its base), the writes that are still to be put into the base, and how many there were (its
generation). Each has the views that lead from the base to it. A call on functional tensors is made of their values, below the level:

- An operator that writes is called in its functional form. What that gives is the new value of the tensor that would have been written
  to, and is noted in the memory as a write through the tensor's views. An operator that has no functional form writes to a copy.
- A view is a view of the value, or a copy if views are to be replaced too; it is noted in the list of views.
- A tensor whose generation isn't its memory's is out of date. Before it is used, the memory's writes are put into the base, one after the
  other, and its value is made of the base by its views anew.

A write through views is undone into the base from the last view to the first: `undo` in a view's entry, or in the traits of an operator
from outside, is its operand with `src` written through the view. The rest of the list is undone at once by as_strided_scatter from the
first view without one on: elements of expand or unfold may share memory, so that no formula of the view alone could tell which was written.

Tensors are functional at the level that made them (torch.func.functionalize, a FunctionalTensorMode), or at any if no level did
(torch._to_functional_tensor); outside of levels their class takes calls by __torch_dispatch__. Tensors with a layout other than strided are
left as they are. A program's writes to tensors from outside, which no level has made functional, stay writes."""
import contextlib
import threading
import weakref

import tede
from tede import _C, _higher_order_ops
from tede._C import Tensor
from tede._modes import _DisableFuncTorch
from tede._sym import plain
from tede.func._levels import FUNCTIONALIZE
from tede.utils import _pytree as tree
from tede.utils._python_dispatch import no_dispatch

__all__ = ["FunctionalTensor", "FunctionalTensorMode", "dispatch_functionalize"]

_VIEW_INPLACE = 65536           # TD_OP_INPLACE_VIEW


class _Thread(threading.local):
    def __init__(self):
        self.reapply = {}       # number of a level -> whether views stay views
        self.entered = []       # what _enable_functionalization entered


_thread = _Thread()


@contextlib.contextmanager
def _apart():
    """Within it calls are for metadata alone: no mode and no level takes them."""
    with no_dispatch(), _DisableFuncTorch(), tede.no_grad():
        yield


# ---- what a call does, by its schema -----------------------------------------------------------------------------------

_writes, _functional, _copies = {}, {}, {}      # by overload


def _written_names(func):
    names = _writes.get(func)
    if names is None:
        names = _writes[func] = [a.name for a in func._schema.arguments if a.is_write]
    return names


def _said(arguments):
    return [(a.name, str(a.type)) for a in arguments]


def _functional_form(func):
    """(overload, whether it gives new values behind the results) that computes what `func` writes; (None, False) if there is none."""
    found = _functional.get(func)
    if found is None:
        schema, name = func._schema, func._opname
        into = all(a.is_out for a in schema.arguments if a.is_write)
        wanted = _said(a for a in schema.arguments if not (into and a.is_write))
        found = None, False
        for other, more in ((name if into else name.removesuffix("_"), False), (name.removesuffix("_") + "_functional", True)):
            if other == name and not into or not _C._overloads(func.namespace, other):
                continue
            packet = getattr(getattr(tede.ops, func.namespace), other)
            alike = [o for o in (getattr(packet, o) for o in packet.overloads())
                     if not o._schema.is_mutable and _said(o._schema.arguments) == wanted]
            if alike:
                found = alike[0], more
                break
        _functional[func] = found
    return found


def _defaults(func, form, count, named):
    """Values that a call leaves out since they are func's defaults, and for which the form has none (p of bernoulli_)."""
    needed = {a.name for a in form._schema.arguments if a.default_value is None}
    return {a.name: a.default_value for i, a in enumerate(func._schema.arguments)
            if i >= count and a.name in needed and a.name not in named and a.default_value is not None}


def _as_copy(func):
    """The overload that gives what a view shows as a copy; the view itself where there is none."""
    copy = _copies.get(func)
    if copy is None:
        packet = getattr(tede.ops, func.namespace)
        has = _C._op_info(f"{func.namespace}::{func._opname}_copy" + ("" if func._overloadname == "default" else "." + func._overloadname))
        copy = _copies[func] = getattr(getattr(packet, func._opname + "_copy"), func._overloadname) if has else func
    return copy


# ---- views, and writes through them ------------------------------------------------------------------------------------------

class _Names:
    """What the names in `undo` stand for: the arguments, then operators, as copies where they are views and views are replaced."""

    def __init__(self, arguments, namespace, reapply):
        self._arguments, self._namespace, self._reapply = arguments, namespace, reapply

    def __getitem__(self, name):
        if name in self._arguments:
            return self._arguments[name]
        if name in _HELPERS:
            return _HELPERS[name](self)
        for space in (self._namespace, "aten"):
            for full in (name,) if self._reapply else (name + "_copy", name):
                if _C._overloads(space, full):
                    return getattr(getattr(tede.ops, space), full)
        raise KeyError(name)


def _reshaped(names):
    """A view in another shape where the strides allow it."""
    def reshaped(x, shape):
        if not names._reapply:
            return names["view"](x, shape)
        with _apart():
            like = tede.empty_strided(x.shape, x.stride(), dtype=x.dtype, device="meta")
            viewed = like.reshape(shape).untyped_storage()._cdata == like.untyped_storage()._cdata
        return names["view"](x, shape) if viewed else tede.ops.aten.reshape(x, shape)
    return reshaped


def _unsqueezed(names):
    """Dimensions of size 1 put in where the shape has them; among `dims`, if they are given."""
    def unsqueezed(x, shape, *dims):
        dims = {d % max(len(shape), 1) for d in dims} if dims else range(len(shape))
        for d, size in enumerate(shape):
            if size == 1 and d in dims:
                x = names["unsqueeze"](x, d)
        return x
    return unsqueezed


def _inverse_order(names):
    def inverse_order(dims):
        n = len(dims)
        return sorted(range(n), key=lambda i: dims[i] % n)
    return inverse_order


def check_undo(full, text):
    """An error if the text for `undo` of an operator isn't an expression in its arguments, `src` and `i`, and operators."""
    try:
        code = compile(text, full, "eval")
    except SyntaxError as error:
        raise ValueError(f"undo: {text!r} is no expression: {error.msg}") from None
    space, _, rest = full.partition("::")
    known = {a.name for a in getattr(getattr(getattr(tede.ops, space), rest.partition(".")[0]), rest.partition(".")[2] or "default")._schema.arguments}
    for name in code.co_names:
        if name not in {*known, "src", "i", "shape", "dtype", *_HELPERS} and not _C._overloads(space, name) and not _C._overloads("aten", name):
            raise ValueError(f"undo: '{name}' is neither an argument of {full}, src or i, nor an operator")


_HELPERS = {"reshaped": _reshaped, "unsqueezed": _unsqueezed, "inverse_order": _inverse_order, "sum": lambda names: sum, "min": lambda names: min}
_formulas = {}


class _View:
    """How a view was taken: an operator, its arguments but the first, and which of several results it is."""
    __slots__ = ("func", "taken", "args", "kwargs", "index", "reapply", "undo_text")

    def __init__(self, func, args, kwargs, index, reapply):
        self.func, self.args, self.kwargs, self.index, self.reapply = func, args, kwargs, index, reapply
        self.taken = func if reapply else _as_copy(func)
        self.undo_text = _C._op_traits(func._name)["undo"]

    def of(self, base, func=None):
        result = (func or self.taken)(base, *self.args, **self.kwargs)
        return result if self.index is None else result[self.index]

    def undo(self, base, src):
        """`base` with `src` written through this view."""
        code = _formulas.get(self.undo_text)
        if code is None:
            code = _formulas[self.undo_text] = compile(self.undo_text, self.func._name, "eval")
        schema = self.func._schema.arguments
        arguments = {a.name: a.default_value for a in schema[1:]}
        arguments.update(zip((a.name for a in schema[1:]), self.args))
        arguments.update(self.kwargs, src=src, i=self.index, self=base)
        return eval(code, {"__builtins__": {}}, _Names(arguments, self.func.namespace, self.reapply))


class _Shown:
    """The view that resize_ to fewer elements leaves: a part of the memory from where the tensor begins."""
    __slots__ = ("size", "stride", "reapply")
    undo_text = ""

    def __init__(self, size, stride, reapply):
        self.size, self.stride, self.reapply = size, stride, reapply

    def of(self, base, func=None):
        aten = tede.ops.aten
        return (aten.as_strided if self.reapply else aten.as_strided_copy).default(base, self.size, self.stride)

    def undo(self, base, src):
        return tede.ops.aten.as_strided_scatter.default(base, src, self.size, self.stride)


def _undo_at_once(base, src, views):
    """`base` with `src` written through a list of views, by what the last shows of its memory."""
    with _apart():
        like = x = tede.empty_strided(base.shape, base.stride(), dtype=base.dtype, device="meta")
        for view in views:
            x = view.of(x, getattr(view, "func", None))
        if x.dtype != like.dtype or x.is_conj() or x.is_neg() or x.untyped_storage()._cdata != like.untyped_storage()._cdata:
            raise NotImplementedError(f"functionalization: a write through {views[0].func} and views of it can't be undone, since there is "
                                      "no inverse for that and the elements are read differently behind it")
        offset = base.storage_offset() + x.storage_offset()
    return tede.ops.aten.as_strided_scatter.default(base, src, x.shape, x.stride(), offset)


def _written(base, value, views):
    """The base, after `value` was written through these views."""
    values = [base]
    known = next((i for i, view in enumerate(views) if view.undo_text is None), len(views))
    for view in views[:known if known < len(views) else -1]:
        values.append(view.of(values[-1]))
    if known < len(views):
        value = _undo_at_once(values[-1], value, views[known:])
        views = views[:known]
    for view, before in zip(reversed(views), reversed(values[:len(views)])):
        value = view.undo(before, value)
    return value


class _Memory:
    """What tensors that are views of one another share."""

    def __init__(self, base):
        self.base, self.updates, self.generation, self.frozen, self.tensors = base, [], 0, False, []

    def write(self, value, views):
        if self.frozen:
            raise RuntimeError("cannot mutate tensors with frozen storage")
        self.updates.append((value, tuple(views)))
        self.generation += 1

    def settle(self):
        updates, self.updates = self.updates, []
        for value, views in updates:
            self.base = _written(self.base, value, views) if views else value


# ---- tensors -----------------------------------------------------------------------------------------------------------

class FunctionalTensor(Tensor):
    """A tensor that stands for a value; calls on it write nothing. See the module's text."""

    __torch_function__ = _C._disabled_torch_function_impl
    _dispatches_first = True        # before the classes of other operands, which are called with values then

    @staticmethod
    def __new__(cls, elem, mode=None):
        if not isinstance(elem, FunctionalTensor):
            raise AssertionError("FunctionalTensor is made of a functional tensor: torch._to_functional_tensor() makes one")
        return elem

    def _symbols(self, numbers):
        return _sizes_of(self._value).shown(numbers)

    @staticmethod
    def to_functional(x):
        """A functional tensor of x's value, with a gradient if x has one."""
        made = _to_functional(x, _C._transform_level())
        return _C._require_grad(made) if x.requires_grad else made

    @property
    def elem(self):
        return self

    def from_functional(self):
        """The value, brought up to date."""
        _sync(self)
        return self._value

    def __repr__(self, *, tensor_contents=None):
        return f"FunctionalTensor({self._value!r})"

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        if func.namespace == "prim":        # a query of metadata: the value's
            return func(*(x._value if isinstance(x, FunctionalTensor) else x for x in args))
        if any(isinstance(x, FunctionalTensor) and x._level for x in tree.arg_tree_leaves(*args, **(kwargs or {}))):
            raise RuntimeError(f"{func}: a functional tensor is used outside of the functionalize() that made it")
        return call(0, func, args, kwargs or {})


def _looks(x):
    return plain(x.shape), plain(x.stride()), plain([x.storage_offset()]), x.dtype, x.is_conj(), x.is_neg()


def _show(head, value, shown):
    """Make `head` look like `value`. Tensors of one memory share a storage, as levels around this one look for; `shown` is in it, or None."""
    if shown is None or shown.dtype != value.dtype:
        shown = Tensor._make_wrapper_subclass(FunctionalTensor, value.shape, value.stride(), value.storage_offset(), dtype=value.dtype,
                                              device=value.device)
    if _looks(shown)[:3] != _looks(value)[:3]:
        try:
            shown = shown.as_strided(value.shape, value.stride(), value.storage_offset())
        except RuntimeError:            # a copy of more elements than the memory has
            return _show(head, value, None)
    if shown.is_conj() != value.is_conj():
        shown = shown._conj()
    if shown.is_neg() != value.is_neg():
        shown = shown._neg_view()
    head.data = shown


def _sizes_of(value):
    """What knows the symbols of a tensor's sizes, or None."""
    while isinstance(value, FunctionalTensor):
        value = value._value
    return getattr(getattr(value, "fake_mode", None), "sizes", None)


def _made(value, memory, views, level, shown=None):
    with _apart():
        x = Tensor._make_wrapper_subclass(FunctionalTensor, value.shape, value.stride(), value.storage_offset(), dtype=value.dtype, device=value.device,
                                           dispatch_sizes_strides_policy=None if _sizes_of(value) is None else "symbols")
        if shown is not None or value.is_conj() or value.is_neg():
            _show(x, value, shown)
    x._value, x._memory, x._views, x._generation, x._level = value, memory, views, 0, level
    memory.tensors.append(weakref.ref(x))
    return x


def _to_functional(value, level):
    if value.layout != tede.strided:
        return value
    return _made(value, _Memory(value), [], level)


def _refresh(x, value, written=False):
    """x has another value, and looks like that; but what was written to keeps its dtype, and how its elements are to be read."""
    if value.dtype != x.dtype:
        value = tede.ops.aten._to_copy.default(value, dtype=x.dtype, layout=tede.strided)
    if written and x.is_conj() != value.is_conj():
        value = value._conj().clone()._conj() if x.is_conj() else value.resolve_conj()
    if written and x.is_neg() != value.is_neg():
        value = value._neg_view().clone()._neg_view() if x.is_neg() else value.resolve_neg()
    x._value = value
    if _looks(x) != _looks(value):
        with _apart():
            _show(x, value, x)


def _sync_one(x):
    memory = x._memory
    if x._generation == memory.generation:
        return
    with _seen_whole([memory.base, *(value for value, _ in memory.updates)]):
        memory.settle()
        value = memory.base
        for view in x._views:
            value = view.of(value)
        _refresh(x, value)
    x._generation = memory.generation


def _write(x, value):
    """value is what x has after a write."""
    _refresh(x, value, written=True)
    x._memory.write(x._value, x._views)
    _sync_one(x)


# ---- calls -------------------------------------------------------------------------------------------------------------

def _overlaps(x):
    """Whether elements of x may share memory."""
    reach = 0
    for stride, size in sorted((stride, size) for stride, size in zip(x.stride(), x.shape) if size > 1):
        if stride <= reach:
            return True
        reach += stride * (size - 1)
    return False


def _values(level, args, kwargs):
    """The arguments with values, brought up to date, in place of functional tensors."""
    def value(x):
        if isinstance(x, FunctionalTensor) and x._level in (0, level):
            _sync_one(x)
            return x._value
        return x
    return tree.tree_map(value, (tuple(args), dict(kwargs)))


def _wrap_all(result, level):
    return tree.tree_map_only(Tensor, lambda x: _to_functional(x, level), result)


def call(level, func, args, kwargs):
    """A call of an operator at functionalize level number `level`, as calls below it. 0: of no level."""
    def mine(x):
        return isinstance(x, FunctionalTensor) and x._level in (0, level)
    tensors = [x for x in tree.arg_tree_leaves(*args, **kwargs) if isinstance(x, Tensor)]
    functional = any(mine(x) for x in tensors)
    with _seen_whole(x._value if mine(x) else x for x in tensors):
        names = _written_names(func)
        if names:
            return _call_writing(level, func, args, kwargs, names, mine) if functional else func(*args, **kwargs)
        if func.is_view and tensors:
            return _call_view(level, func, args, kwargs) if mine(args[0]) else func(*args, **kwargs)
        values, named = _values(level, args, kwargs)
        result = func(*values, **named)
        return _wrap_all(result, level) if functional or not tensors else result


@contextlib.contextmanager
def _seen_whole(values):
    """Within it modes see operators that autograd would take apart (select_copy), if there is nothing that it would record."""
    if _C._torch_dispatch_stack() and not _C._transform_level() and not any(x.requires_grad for x in values):
        before = _C._set_below_autograd(True)
        try:
            yield
        finally:
            _C._set_below_autograd(before)
    else:
        yield


def _call_view(level, func, args, kwargs):
    x, rest = args[0], tuple(args[1:])
    reapply = _thread.reapply.get(level, True)
    rest, kwargs = _values(level, rest, kwargs)
    result = (func if reapply else _as_copy(func))(x._value, *rest, **kwargs)
    with _apart():
        shown = func(x, *rest, **kwargs)

    def view(value, shown, index):
        return _made(value, x._memory, [*x._views, _View(func, rest, kwargs, index, reapply)], x._level, shown)
    if isinstance(result, Tensor):
        return view(result, shown, None)
    return [view(value, shown, i) for i, (value, shown) in enumerate(zip(result, shown))]


def _targets(func, args, kwargs, names):
    """What a call writes to: a tensor, a list of them or None for each of these arguments."""
    at = {a.name: i for i, a in enumerate(func._schema.arguments)}
    return [kwargs[name] if name in kwargs else args[at[name]] if at[name] < len(args) else None for name in names]


def _call_writing(level, func, args, kwargs, names, mine):
    targets = _targets(func, args, kwargs, names)
    written = [x for x in tree.tree_leaves(targets) if isinstance(x, Tensor)]
    if not all(mine(x) for x in written):
        raise RuntimeError(f"functionalization: {func} was about to write to a tensor that isn't functional, with functional tensors among its "
                           "arguments: mutating a non-functional tensor with a functional tensor is not allowed. Please ensure that all of "
                           "your inputs are wrapped inside of a functionalize() call.")
    form, more = _functional_form(func)
    if func._flags & _VIEW_INPLACE and form is not None and len(written) == 1:
        return _call_inplace_view(level, form, args, kwargs)
    for x in written:
        if _overlaps(x):
            raise RuntimeError(f"functionalization: encountered a tensor being mutated that has internal overlap (by {func}; sizes "
                               f"{list(x.shape)}, strides {list(x.stride())}): clone() it before writing to it")
    values, named = _values(level, args, kwargs)
    if form is None:
        result, new = _call_on_copies(func, values, named, names)
    else:
        into = form._opname == func._opname
        given = {name: x for name, x in named.items() if not (into and name in names)} | _defaults(func, form, len(values), named)
        results = form(*values, **given)
        results = [results] if len(form._schema.returns) == 1 else list(results)
        count = len(results) - len(names) if more else 0
        result, new = results[:count], results[count:]
    for target, value in zip(targets, new):
        for x, v in ((target, value),) if isinstance(target, Tensor) else zip(target or (), value or ()):
            if x.shape != v.shape and not (form is not None and form._opname == func._opname) and not func._flags & _VIEW_INPLACE:
                raise RuntimeError(f"{func._opname}: output with shape {list(x.shape)} doesn't match the broadcast shape {list(v.shape)}")
            _write(x, v)
    return _results(func, targets, _wrap_all(result, level))


def _results(func, targets, others):
    """What the call gives: operands that it wrote to where its schema says so, and what else there is."""
    targets, others, results = iter(targets), iter(others), []
    for r in func._schema.returns:
        results.append(next(targets if r.is_write else others, None))
    return results[0] if len(results) == 1 else tuple(results) if results else None


def _call_on_copies(func, values, named, names):
    """An operator without a functional form writes to copies: its results but those, and the copies."""
    copies = []

    def copied(x):
        if isinstance(x, Tensor):
            return tede.ops.aten.clone.default(x)
        return [copied(y) for y in x] if isinstance(x, (list, tuple)) else x
    values = list(values)
    for i, a in enumerate(func._schema.arguments):
        if a.name not in names:
            continue
        if a.name in named:
            named[a.name] = copied(named[a.name])
            copies.append(named[a.name])
        elif i < len(values):
            values[i] = copied(values[i])
            copies.append(values[i])
        else:
            copies.append(None)
    result = func(*values, **named)
    result = [] if result is None else [result] if len(func._schema.returns) == 1 else list(result)
    return [x for x, r in zip(result, func._schema.returns) if not r.is_write], copies


def _call_inplace_view(level, form, args, kwargs):
    """transpose_ and its like, which write no element: another view at the end of the list. resize_ is one if it shows fewer elements."""
    x, rest = args[0], tuple(args[1:])
    reapply = _thread.reapply.get(level, True)
    if form.is_view:
        view = _View(form, rest, kwargs, None, reapply)
        x._views = [*x._views, view]
        _refresh(x, view.of(x._value))
        return x
    _sync_one(x)
    value = form(x._value, *rest, **kwargs)
    memory = x._memory
    if value.numel() + x.storage_offset() > memory.base.numel():
        if x._views or any(ref() not in (None, x) for ref in memory.tensors if ref() is not x and ref() is not None):
            raise RuntimeError("Attempted to resize a view tensor to a larger size. This is not allowed in the functionalization pass")
        x._memory, x._generation = _Memory(value), 0
        x._memory.tensors.append(weakref.ref(x))
        _refresh(x, value)
    elif value.shape != x.shape or value.stride() != x.stride():
        view = _Shown(list(value.shape), list(value.stride()), reapply)
        x._views = [*x._views, view]
        _refresh(x, view.of(x._value))
    return x


def lift_at_level(lift, x):
    """What lift_fresh, or the one that copies, makes of a tensor at the functionalize level that is the innermost."""
    level = _C._transform_level()
    if isinstance(x, FunctionalTensor):
        return x if lift._schema.returns[0].alias_info else x.clone()
    return _C._transform_below(lambda: _to_functional(lift(x), level))


# ---- for programs ------------------------------------------------------------------------------------------------------

def _enter(reapply_views):
    number = _C._transform_enter(FUNCTIONALIZE)
    _thread.reapply[number] = reapply_views
    return number


def _removes(number):
    """What the functionalize level of that number was asked to remove."""
    return "mutations" if _thread.reapply.get(number, True) else "mutations_and_views"


def _leave():
    _thread.reapply.pop(_C._transform_level(), None)
    _C._transform_leave()


def _enable_functionalization(*, reapply_views=False):
    """From here on calls on functional tensors, and new tensors, are functional, until _disable_functionalization()."""
    if _thread.entered and _thread.entered[-1] == _C._transform_level():
        raise RuntimeError("multiple layers of mode-style functionalization nesting is not currently supported, outside of the functionalize() "
                           "transform")
    _thread.entered.append(_enter(reapply_views))


def _disable_functionalization():
    if not _thread.entered or _thread.entered[-1] != _C._transform_level():
        raise RuntimeError("_disable_functionalization() without _enable_functionalization() before it at this level")
    _thread.entered.pop()
    _leave()


def _to_functional_tensor(t, *, mirror_autograd_meta=False):
    """A functional tensor whose value is t."""
    if isinstance(t, FunctionalTensor):
        raise RuntimeError("_to_functional_tensor: the tensor is functional already")
    made = _to_functional(t, 0)
    return _C._require_grad(made) if mirror_autograd_meta and t.requires_grad else made


def _is_functional_tensor(t):
    return isinstance(t, FunctionalTensor)


def _from_functional_tensor(t):
    """The value, as it was when the tensor was last used: _sync brings it up to date."""
    if not isinstance(t, FunctionalTensor):
        raise RuntimeError("_from_functional_tensor: a functional tensor is needed")
    return t._value


def _sync(t):
    """Bring a functional tensor's value up to date: the writes to its memory are put into it."""
    if isinstance(t, FunctionalTensor):
        level = _C._transform_level()
        if level and _C._transform_now()[0] == FUNCTIONALIZE and t._level in (0, level):
            _C._transform_below(_sync_one, t)
        else:
            _sync_one(t)


def propagate_write(x, functional):
    """What was written to a functional tensor of x is written to x."""
    _sync(functional)
    value = functional._value
    if value is not x:
        if value.numel() != x.numel():
            x.resize_(value.shape)
        elif value.shape != x.shape:            # t_ and its like
            x.as_strided_(value.shape, value.stride())
        x.copy_(value)


def _freeze_functional_tensor(t):
    """From here on a write to the tensor's memory is an error."""
    if not isinstance(t, FunctionalTensor):
        raise RuntimeError("_freeze_functional_tensor: a functional tensor is needed")
    t._memory.frozen = True


class FunctionalTensorMode:
    """Within it calls on functional tensors write nothing, and new tensors are functional."""

    def __init__(self, pre_dispatch=False, export=False, _allow_token_discovery=False):
        if pre_dispatch or export or _allow_token_discovery:
            raise NotImplementedError("FunctionalTensorMode: there is no export here")

    def __enter__(self):
        _enter(True)
        return self

    def __exit__(self, *exception):
        _leave()


def dispatch_functionalize(func, mode=None):
    """func on functional tensors in a FunctionalTensorMode; what it writes to its arguments stays unseen outside."""
    def inner(*args, **kwargs):
        with FunctionalTensorMode() if mode is None else mode:
            args, kwargs = tree.tree_map_only(Tensor, FunctionalTensor.to_functional, (args, kwargs))
            result = func(*args, **kwargs)
        return tree.tree_map_only(FunctionalTensor, FunctionalTensor.from_functional, result)
    return inner


# ---- control flow -------------------------------------------------------------------------------------------------------

def _below_functionalize(run, functions, values, says, changing):
    """What a call with functions gives: below the level, its functions take and give values. They may use what they are given, neither write to
    it nor give it back."""
    level = _C._transform_level()
    values = _values(level, (values,), {})[0][0]
    return _wrap_all(_C._transform_below(lambda: run([_on_values(f, says, changing) for f in functions], values)), level)


def _on_values(func, says, changing):
    def inner(*args):
        number = _enter(True)
        try:
            given, spec = tree.tree_flatten(args)
            inside = [_to_functional(x, number) if isinstance(x, Tensor) else x for x in given]
            result = func(*tree.tree_unflatten(inside, spec))
        finally:
            _leave()
        memories = {id(x._memory) for x in inside if isinstance(x, FunctionalTensor)}
        for x, wrapped in zip(given, inside):
            if isinstance(wrapped, FunctionalTensor):
                _sync(wrapped)
                if wrapped._value is not x:
                    raise _higher_order_ops.UnsupportedAliasMutationException(says.format(changing))
        if any(isinstance(x, FunctionalTensor) and id(x._memory) in memories for x in tree.tree_leaves(result)):
            raise _higher_order_ops.UnsupportedAliasMutationException(says.format("alias"))
        return tree.tree_map_only(FunctionalTensor, lambda x: x.from_functional() if x._level == number else x, result)
    return inner


_higher_order_ops.below_functionalize = _below_functionalize
