"""Node: one step of a graph: an operation, its target, its arguments, and who uses its result."""
from tede._effects import has_side_effect, is_impure
from tede.fx._qualified import _type_repr, qualified_name as _get_qualified_name, shown_name      # noqa: F401  PyTorch has the second here
from tede.fx.immutable_collections import immutable_dict, immutable_list

__all__ = ["Node", "has_side_effect", "map_aggregate", "map_arg"]

Argument = Target = object          # for annotations
OPS = ("placeholder", "get_attr", "call_function", "call_method", "call_module", "output")


def map_aggregate(a, fn):
    """`a` with `fn` applied to what its tuples, lists, dicts and slices hold, at any depth."""
    if isinstance(a, tuple):
        values = [map_aggregate(x, fn) for x in a]
        return type(a)(*values) if hasattr(a, "_fields") else tuple(values)
    if isinstance(a, list):
        return immutable_list([map_aggregate(x, fn) for x in a])
    if isinstance(a, dict):
        return immutable_dict((key, map_aggregate(value, fn)) for key, value in a.items())
    if isinstance(a, slice):
        return slice(*(map_aggregate(x, fn) for x in (a.start, a.stop, a.step)))
    return fn(a)


def map_arg(a, fn):
    """`a` with `fn` applied to the nodes in it."""
    if not callable(fn):
        raise AssertionError("torch.fx.map_arg(a, fn): fn must be a callable")
    return map_aggregate(a, lambda x: fn(x) if isinstance(x, Node) else x)


def _format_arg(arg, max_list_len=float("inf")):
    """An argument in text: nodes as %name, of long lists the beginning."""
    if isinstance(arg, Node):
        return f"%{arg}"
    if isinstance(arg, dict):
        return "{" + ", ".join(f"{key}: {_format_arg(value)}" for key, value in arg.items()) + "}"
    if hasattr(arg, "_fields"):
        return f"{type(arg).__name__}({', '.join(f'{name}={_format_arg(value)}' for name, value in zip(arg._fields, arg))})"
    if isinstance(arg, (list, tuple)):
        shown = [_format_arg(x) for i, x in enumerate(arg) if i < max_list_len]
        more = f", ...[total_len={len(arg)}]" if len(arg) > max_list_len else "," if isinstance(arg, tuple) and len(arg) == 1 else ""
        return ("[{}{}]" if isinstance(arg, list) else "({}{})").format(", ".join(shown), more)
    return str(arg)


class Node:
    """`op` is one of OPS; `target` an attribute's path, a function, or a method's name."""

    def __init__(self, graph, name, op, target, args, kwargs, return_type=None):
        if op not in OPS:
            raise AssertionError(f"op '{op}' is not one of {OPS}")
        if op == "call_function":
            if not callable(target):
                raise ValueError(f"Node [graph = {graph}, name = '{name}'] target {target} has type {type(target)} but a "
                                 "Callable is expected")
        elif not isinstance(target, str):
            raise ValueError(f"Node [graph = {graph}, name = '{name}'] target {target} has type {type(target)} but a str is "
                             "expected")
        self.graph, self.name, self.op, self.target, self.type = graph, name, op, target, return_type
        self.users, self.meta, self._erased = {}, {}, False
        self._prev = self._next = self
        self._args, self._kwargs, self._input_nodes = (), {}, {}
        self._set(args, kwargs)

    def _set(self, args, kwargs):
        for node in self._input_nodes:
            node.users.pop(self, None)
        self._input_nodes = {}

        def note(node):
            self._input_nodes[node] = None
            node.users[self] = None
            return node
        self._args, self._kwargs = map_arg(tuple(args), note), map_arg(dict(kwargs), note)

    @property
    def args(self):
        return self._args

    @args.setter
    def args(self, args):
        self._set(args, self._kwargs)

    @property
    def kwargs(self):
        return self._kwargs

    @kwargs.setter
    def kwargs(self, kwargs):
        self._set(self._args, kwargs)

    @property
    def all_input_nodes(self):
        return list(self._input_nodes)

    @property
    def next(self):
        return self._next

    @property
    def prev(self):
        return self._prev

    @property
    def stack_trace(self):
        return self.meta.get("stack_trace")

    def update_arg(self, idx, arg):
        args = list(self.args)
        args[idx] = arg
        self.args = tuple(args)

    def insert_arg(self, idx, arg):
        self.args = (*self.args[:idx], arg, *self.args[idx:])

    def update_kwarg(self, key, arg):
        self.kwargs = {**self.kwargs, key: arg}

    def _unlink(self):
        self._prev._next, self._next._prev = self._next, self._prev

    def prepend(self, x):
        """Move node `x` before this one."""
        if x is self:
            return
        x._unlink()
        x._prev, x._next = self._prev, self
        self._prev._next = self._prev = x

    def append(self, x):
        """Move node `x` behind this one."""
        self._next.prepend(x)

    def replace_all_uses_with(self, replace_with, delete_user_cb=lambda user: True, *, propagate_meta=False):
        """Let the users of this node use another; those that were changed are returned."""
        changed = [user for user in list(self.users) if delete_user_cb(user)]
        if propagate_meta:
            replace_with.meta.update(self.meta)
        for user in changed:
            user.replace_input_with(self, replace_with)
        return changed

    def replace_input_with(self, old_input, new_input):
        def new(node):
            return new_input if node is old_input else node
        self._set(map_arg(self.args, new), map_arg(self.kwargs, new))

    def normalized_arguments(self, root, arg_types=None, kwarg_types=None, normalize_to_only_use_kwargs=False):
        """(args, kwargs) of a call under the names of its target's parameters, with all defaults; None where that can't be said.

        root: the module of the graph; arg_types, kwarg_types: the arguments' types, where overloads can't be told apart without."""
        from tede.fx.operator_schemas import normalize_function, normalize_module
        if self.op == "call_function":
            return normalize_function(self.target, self.args, self.kwargs, arg_types, kwarg_types, normalize_to_only_use_kwargs)
        if self.op == "call_module":
            return normalize_module(root, self.target, self.args, self.kwargs, normalize_to_only_use_kwargs)
        return None

    def is_impure(self, impure_random=True):
        """Whether the call has an effect besides its result; with `impure_random` an operator's random numbers are one."""
        if self.op in ("placeholder", "output"):
            return True
        if self.op == "call_function":
            return is_impure(self.target, impure_random)
        if self.op == "call_module" and self.graph.owning_module is not None:
            return getattr(self.graph.owning_module.get_submodule(self.target), "_is_impure", False)
        return False

    def format_node(self, placeholder_names=None, maybe_return_typename=None):
        """The line that print(graph) shows."""
        kind = f"{_type_repr(self.type)} " if self.type else ""
        if self.op == "placeholder":
            default = f"(default={self.args[0]})" if self.args else ""
            if placeholder_names is not None:
                placeholder_names.append(self.target + (f": {_type_repr(self.type)}" if self.type else ""))
                return None
            return f"%{self.name} : {kind}[num_users={len(self.users)}] = {self.op}[target={self.target}]{default}"
        if self.op == "output":
            return f"return {self.args[0]}" if maybe_return_typename is not None else f"return {self.args}"
        target = shown_name(self.target) if self.op == "call_function" else self.target
        if self.op == "get_attr":
            return f"%{self.name} : {kind}[num_users={len(self.users)}] = {self.op}[target={target}]"
        args = map_aggregate(self.args, lambda x: _Shown(f"%{x}") if isinstance(x, Node) else x)
        kwargs = map_aggregate(self.kwargs, lambda x: _Shown(f"%{x}") if isinstance(x, Node) else x)
        kwargs = "{" + ", ".join(f"{key}: {value}" for key, value in kwargs.items()) + "}"
        return f"%{self.name} : {kind}[num_users={len(self.users)}] = {self.op}[target={target}](args = {args}, kwargs = {kwargs})"

    def __repr__(self):
        return self.name

    def __lt__(self, other):
        """Whether this node comes first."""
        node = self
        while node.op != "root_":
            node = node._next
            if node is other:
                return True
            if node is self.graph._root:
                return False
        return False


class _Shown(str):
    __repr__ = str.__str__
