"""reinplace: a graph's operators made to write in place again, where nobody sees it."""
import operator

import tede
from tede import _C
from tede._ops import OpOverload
from tede._subclasses.fake_tensor import FakeTensorMode
from tede._subclasses.functional_tensor import _overlaps, _said, _VIEW_INPLACE
from tede.fx import graph
from tede.fx.node import map_arg
from tede.utils import _pytree as tree

__all__ = ["reinplace"]


def _inplace_form(func):
    """The overload that writes what `func` gives to its first operand, or None."""
    if not isinstance(func, OpOverload) or func.is_view or func._schema.is_mutable:
        return None
    full = f"{func.namespace}::{func._opname}_" + ("" if func._overloadname == "default" else "." + func._overloadname)
    if _C._op_info(full) is None:
        return None
    form = getattr(getattr(getattr(tede.ops, func.namespace), func._opname + "_"), func._overloadname)
    alike = _said(form._schema.arguments) == _said(func._schema.arguments)
    return form if alike and [a.is_write for a in form._schema.arguments] == [i == 0 for i in range(len(form._schema.arguments))] else None


def _view_within(func):
    """Of X_scatter, which gives its first operand with a part replaced, the view X of that part; else None."""
    if not isinstance(func, OpOverload) or not func._opname.endswith("_scatter"):
        return None
    views = getattr(getattr(tede.ops, func.namespace), func._opname.removesuffix("_scatter"), None)
    wanted = _said(a for a in func._schema.arguments if a.name != "src")
    return next((v for v in (getattr(views, o) for o in views.overloads()) if v.is_view and _said(v._schema.arguments) == wanted),
                None) if views is not None else None


def _is_view(node):
    return node.target is operator.getitem or isinstance(node.target, OpOverload) and node.target.is_view


def _storages(value):
    return {x.untyped_storage()._cdata for x in tree.tree_leaves(value) if isinstance(x, tede.Tensor)}


def _place(x):
    return x.untyped_storage()._cdata, x.storage_offset(), x.shape, x.stride(), x.dtype


class _Run:
    """A graph on fake tensors: what each node gives, and scatters that put a part of memory where it is already."""

    def __init__(self, module, args):
        mode = FakeTensorMode(allow_non_fake_inputs=True)
        inputs = iter(args)
        self.values, self.idle = {}, set()
        with mode:
            for node in module.graph.nodes:
                if node.op == "placeholder":
                    x = next(inputs, node.args[0] if node.args else None)
                    self.values[node] = mode.from_tensor(x) if isinstance(x, tede.Tensor) else x
                elif node.op == "get_attr":
                    x = operator.attrgetter(node.target)(module)
                    self.values[node] = mode.from_tensor(x) if isinstance(x, tede.Tensor) else x
                elif node.op != "output":
                    self.values[node] = self._call(module, node)

    def _call(self, module, node):
        args, kwargs = map_arg((node.args, node.kwargs), lambda n: self.values[n])
        if node.op == "call_function":
            view = _view_within(node.target)
            if view is not None and _place(view(args[0], *args[2:], **kwargs)) == _place(args[1]):
                self.idle.add(node)
                return args[0]
            return node.target(*args, **kwargs)
        if node.op == "call_method":
            return getattr(args[0], node.target)(*args[1:], **kwargs)
        return operator.attrgetter(node.target)(module)(*args, **kwargs)


def _may_write(node, form, run, nodes):
    """The nodes that would read what `node` would have written over, if it wrote to its first operand; None if it must not."""
    target = node.args[0] if node.args and isinstance(node.args[0], graph.Node) else None
    x, result = run.values.get(target), run.values[node]
    if not isinstance(x, tede.Tensor) or not isinstance(result, tede.Tensor) or x.layout != tede.strided or _overlaps(x):
        return None
    if x.dtype != result.dtype or (x.shape != result.shape and not form._flags & _VIEW_INPLACE):
        return None
    memory = _storages(x)
    if any(n.op in ("placeholder", "get_attr") and _storages(value) & memory for n, value in run.values.items()):
        return None         # a caller sees it
    if [n for n in node.all_input_nodes if n is not target and _storages(run.values[n]) & memory] or \
            sum(a is target for a in tree.tree_leaves((node.args, node.kwargs), is_leaf=lambda a: isinstance(a, graph.Node))) > 1:
        return None
    later = set(nodes[nodes.index(node) + 1:])
    return {user for n, value in run.values.items() if _storages(value) & memory for user in n.users
            if user in later and not _is_view(user)}


def reinplace(gm, *sample_args):
    """Let operators of a graph write to their first operand where its memory isn't an argument's and is read no more; of what
    functionalize made of a program. A *_scatter that then would copy a part of memory to itself goes. The graph is changed and returned."""
    run = _Run(gm, sample_args)
    for node in list(gm.graph.nodes):
        form = _inplace_form(node.target) if node.op == "call_function" else None
        readers = None if form is None or node in run.idle else _may_write(node, form, run, list(gm.graph.nodes))
        if readers is None or any(_view_within(user.target) is None for user in readers if user.op != "output") or \
                any(user.op == "output" for user in readers):
            continue
        functional, node.target = node.target, form
        changed = _Run(gm, sample_args)
        idle = changed.idle - run.idle
        if not readers <= idle:
            node.target = functional
            continue
        for scatter in idle:
            scatter.replace_all_uses_with(scatter.args[0])
            gm.graph.erase_node(scatter)
        node.replace_all_uses_with(node.args[0])
        run = _Run(gm, sample_args)
    gm.recompile()
    return gm
