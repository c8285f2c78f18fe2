"""A graph is a ring of nodes in the order of execution; it prints itself, checks itself, and becomes Python code."""
import builtins
from copy import deepcopy
import enum
import keyword
import math
import operator
import re
import types
import typing
import warnings

from tede.fx._qualified import _place, _type_repr
from tede.fx.node import Node, map_arg

__all__ = ["CodeGen", "Graph", "PythonCode"]

_INFIX = {"add": "+", "sub": "-", "mul": "*", "floordiv": "//", "truediv": "/", "mod": "%", "pow": "**", "lshift": "<<",
          "rshift": ">>", "and_": "&", "or_": "|", "xor": "^", "matmul": "@", "eq": "==", "ne": "!=", "lt": "<", "gt": ">",
          "le": "<=", "ge": ">="}
magic_methods = {**{name: f"{{}} {sign} {{}}" for name, sign in _INFIX.items()}, "getitem": "{}[{}]", "neg": "-{}", "pos": "+{}",
                 "invert": "~{}"}
inplace_methods = {f"i{name.rstrip('_')}": f"{{}} {sign}= {{}}" for name, sign in list(_INFIX.items())[:13]}


def _snake_case(name):
    """activations.PascalCase -> activations_pascal_case"""
    name = re.sub(r"([^_])([A-Z][a-z]+)", r"\1_\2", name)
    return re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name).lower()


class _Namespace:
    """Names that are free, given out once each."""

    def __init__(self):
        self._used, self._count = set(), {}

    def create_name(self, candidate, obj=None):
        candidate = re.sub(r"[^0-9a-zA-Z_]+", "_", candidate) or "_unnamed"
        if candidate[0].isdigit():
            candidate = "_" + candidate
        found = re.fullmatch(r"(.*)_(\d+)", candidate)
        base, number = (found.group(1), int(found.group(2))) if found else (candidate, None)
        taken = candidate in self._used or keyword.iskeyword(candidate) or (
            hasattr(builtins, candidate) and getattr(builtins, candidate) is not obj) or candidate in ("torch", "device", "inf", "nan")
        name = candidate
        if taken:
            number = self._count.get(base, number or 0)
            while name in self._used or name == candidate:
                number += 1
                name = f"{base}_{number}"
        self._count[base] = number or 0
        self._used.add(name)
        return name


class PythonCode:
    """The source of a forward function, and what it names. _lineno_map: of lines, counted from the function's first, to numbers of nodes;
    _prologue_start: that line."""

    def __init__(self, src, globals, _lineno_map=None, _prologue_start=0):
        self.src, self.globals, self._lineno_map, self._prologue_start = src, globals, _lineno_map, _prologue_start


class _Line(str):
    """A line of code, with the number of its node."""
    node = None


class _Shown(str):
    """Code of an argument: code generators put its repr() into theirs."""
    __repr__ = str.__str__


def _line(text, number):
    line = _Line(text)
    line.node = number
    return line


class CodeGen:
    """How a graph becomes code: a plain forward(self, ...), unless a subclass says otherwise. process_inputs and process_outputs turn what
    that function takes and returns into the values of the graph's placeholders and output, and back. `_body_transformer`: a function of the
    body's lines, or None."""
    _body_transformer = None

    def gen_fn_def(self, free_vars, maybe_return_annotation):
        """The function's first line."""
        return f"def forward({', '.join(free_vars if free_vars[:1] == ['self'] else ['self', *free_vars])}){maybe_return_annotation}:"

    def additional_globals(self):
        """Pairs of names and objects that the code needs besides those in the graph."""
        return []

    def process_inputs(self, *args):
        return args

    def process_outputs(self, outputs):
        return outputs

    def generate_output(self, shown):
        """The last line."""
        return f"return {shown}"


class _PyTreeInfo(typing.NamedTuple):
    """Parameters that are containers: their names, and how they and the result are flattened."""
    orig_args: list
    in_spec: typing.Any
    out_spec: typing.Any


class _PyTreeCodeGen(CodeGen):
    """Takes containers, whose leaves are the graph's placeholders, and returns what the traced function did."""

    def __init__(self, pytree_info):
        self.pytree_info = pytree_info

    def gen_fn_def(self, free_vars, maybe_return_annotation):
        line = super().gen_fn_def(list(self.pytree_info.orig_args), maybe_return_annotation)
        leaves = [name.partition("=")[0].partition(":")[0].strip() for name in free_vars if name != "self"]
        if self.pytree_info.orig_args[:1] == ["self"]:      # a leaf like others in the specification of a module's arguments
            leaves.insert(0, "self")
        given = ", ".join(self.pytree_info.orig_args)
        return line + (f"\n    {', '.join(leaves)}, = fx_pytree.tree_flatten_spec([{given}], self._in_spec)" if leaves else "")

    def generate_output(self, shown):
        return f"return pytree.tree_unflatten({shown}, self._out_spec)"

    def additional_globals(self):
        from tede.fx import _pytree as fx_pytree
        from tede.utils import _pytree as pytree
        return [("fx_pytree", fx_pytree), ("pytree", pytree)]

    def process_inputs(self, *args):
        from tede.utils._pytree import arg_tree_leaves
        return arg_tree_leaves(*args)

    def process_outputs(self, outputs):
        from tede.utils._pytree import tree_unflatten
        return tree_unflatten(outputs if isinstance(outputs, (list, tuple)) else [outputs], self.pytree_info.out_spec)


class _TransformCode:
    """Leaving it puts the function back that changed the code before."""

    def __init__(self, codegen, transformer):
        self._codegen, self._before, codegen._body_transformer = codegen, codegen._body_transformer, transformer

    def __enter__(self):
        pass

    def __exit__(self, *exception):
        self._codegen._body_transformer = self._before


class _Source:
    """Writes what code says of nodes and objects; `names` gets what it must find."""

    def __init__(self, names):
        self.names = names
        self.wrapped = {}               # names of functions that a trace of the code must leave as calls, too

    def known(self, hint, obj):
        """The name under which the code finds an object."""
        if hasattr(obj, "_overloadname"):
            import tede
            self.names["torch"] = tede
            return f"torch.ops.{obj.namespace}.{obj._opname}.{obj._overloadname}"
        if hasattr(obj, "_qualified_op_name"):
            return f"torch.ops.{obj._qualified_op_name.replace('::', '.')}"
        if getattr(builtins, hint, None) is obj:
            return hint
        module, attribute, place = _place(obj) if callable(obj) else ("", hint, None)
        if module == "torch.ops.higher_order" or place is not None and place is not operator:
            import tede
            self.names["torch"] = tede
            return f"{module}.{attribute}"
        if place is operator:
            self.names["_operator"] = operator
            return f"_operator.{attribute}"
        name = re.sub(r"\W", "_", f"{module}.{attribute}")
        while name in self.names and self.names[name] is not obj:
            name += "_"
        self.names[name] = obj
        return name

    def annotation(self, kind):
        """A type as the code has it, with those in its brackets."""
        if kind is None or kind is type(None):
            return "None"
        if kind is ...:
            return "..."
        origin, inner = typing.get_origin(kind), typing.get_args(kind)
        if kind is typing.Any or origin in (list, dict, tuple, typing.Union) and (origin is not typing.Union or type(None) in inner[1:]):
            self.names["typing"] = typing
            shown = "Union" if len(inner) > 2 and origin is typing.Union else "Any" if kind is typing.Any else getattr(kind, "_name", None)
            base = f"typing.{shown}" if shown else origin.__name__
            inner = inner[:1] if shown == "Optional" else inner
            return f"{base}[{', '.join(map(self.annotation, inner))}]" if inner else base
        if isinstance(kind, type) and origin is None:
            return self.known(_type_repr(kind), kind)
        name = re.sub(r"\W+", "_", repr(kind)).strip("_")
        self.names[name] = kind
        return name

    def show(self, a):
        if isinstance(a, Node):
            return a.name
        if isinstance(a, tuple):
            if hasattr(a, "_fields"):
                return f"{self.known(type(a).__name__, type(a))}({', '.join(map(self.show, a))})"
            return f"({', '.join(map(self.show, a))}{',' if len(a) == 1 else ''})"
        if isinstance(a, list):
            return f"[{', '.join(map(self.show, a))}]"
        if isinstance(a, dict):
            return "{" + ", ".join(f"{key!r}: {self.show(value)}" for key, value in a.items()) + "}"
        if isinstance(a, slice):
            return f"slice({self.show(a.start)}, {self.show(a.stop)}, {self.show(a.step)})"
        if isinstance(a, float) and not math.isfinite(a):
            return f"float('{a}')"
        if type(a).__name__ in ("dtype", "memory_format", "layout", "device"):
            import tede
            self.names["torch"], self.names["device"] = tede, tede.device
            return re.sub(r"^tede\.", "torch.", repr(a))
        if isinstance(a, enum.Enum):
            return f"{self.known(type(a).__name__, type(a))}.{a.name}"
        if a is Ellipsis:
            return "..."
        if isinstance(a, (type, types.FunctionType, types.BuiltinFunctionType)) or hasattr(a, "_overloadname") or hasattr(a, "_qualified_op_name"):
            return self.known(a.__name__, a)
        return repr(a)

    def call(self, args, kwargs):
        return ", ".join([*map(self.show, args), *(f"{key} = {self.show(value)}" for key, value in kwargs.items())])

    def result(self, node):
        """(the value of a node that calls or reads something, the statement that must come before or None)."""
        if node.op == "get_attr":
            return _attribute("self", node.target), None
        if node.op == "call_module":
            return f"{_attribute('self', node.target)}({self.call(node.args, node.kwargs)})", None
        if node.op == "call_method":
            return f"{self.show(node.args[0])}.{node.target}({self.call(node.args[1:], node.kwargs)})", None
        fn, name = node.target, getattr(node.target, "__name__", "")
        plain = getattr(operator, name, None) is fn and not node.kwargs
        if plain and name in magic_methods:
            return magic_methods[name].format(*map(self.show, node.args)), None
        if plain and name in inplace_methods:
            return self.show(node.args[0]), inplace_methods[name].format(*map(self.show, node.args))
        if fn is getattr and len(node.args) == 2 and isinstance(node.args[1], str) and node.args[1].isidentifier():
            return f"{self.show(node.args[0])}.{node.args[1]}", None
        value = f"{self.known(name, fn)}({self.call(node.args, node.kwargs)})"
        if node.meta.get("is_wrapped", False):
            self.wrapped[value.partition("(")[0]] = True
        return value, None

    def type_of(self, node, mark):
        return f"{mark}{self.annotation(node.type)}" if node.type is not None else ""


class Graph:
    new_meta = None                     # while something else is noted of each node that is made: what its meta begins with

    def __init__(self, owning_module=None, tracer_cls=None, tracer_extras=None):
        self._root = Node.__new__(Node)
        self._root.op, self._root.name, self._root._erased = "root_", "", False
        self._root._prev = self._root._next = self._root
        self._root.graph, self._root.users, self._root._input_nodes, self._root.meta = self, {}, {}, {}
        self._insert, self._names = self._root.prepend, _Namespace()
        self._traced_from = None        # the function that it was traced from, as text
        self.owning_module, self._tracer_cls, self._codegen = owning_module, tracer_cls, CodeGen()

    # ---- looking

    @property
    def nodes(self):
        return _NodeList(self)

    def find_nodes(self, *, op, target=None, sort=True):
        return [node for node in self.nodes if node.op == op and (target is None or node.target == target)]

    def output_node(self):
        return next(node for node in reversed(self.nodes) if node.op == "output")

    # ---- making nodes

    def create_node(self, op, target, args=None, kwargs=None, name=None, type_expr=None):
        args, kwargs = args or (), kwargs or {}
        if name is None:
            name = self._target_to_str(target)
        node = Node(self, self._names.create_name(name), op, target, args, kwargs, type_expr)
        if self.new_meta:
            node.meta.update(self.new_meta)
        self._insert(node)
        return node

    def _target_to_str(self, target):
        if callable(target):
            name = target.__name__
        else:
            name = target.removeprefix("self.") if isinstance(target, str) else str(target)
            if name.startswith("__") and name.endswith("__"):
                name = name[2:-2]
        return _snake_case(name.replace(".", "_"))

    def placeholder(self, name, type_expr=None, default_value=Node):
        return self.create_node("placeholder", name, () if default_value is Node else (default_value,), type_expr=type_expr)

    def get_attr(self, qualified_name, type_expr=None):
        at = self.owning_module
        for part in qualified_name.split(".") if at is not None else ():
            at = getattr(at, part, None)
            if at is None:
                warnings.warn("Attempted to insert a get_attr Node with no underlying reference in the owning GraphModule! Call "
                              "GraphModule.add_submodule to add the necessary submodule, GraphModule.add_parameter to add the necessary "
                              "Parameter, or nn.Module.register_buffer to add the necessary buffer", stacklevel=2)
                break
        return self.create_node("get_attr", qualified_name, type_expr=type_expr)

    def call_module(self, module_name, args=None, kwargs=None, type_expr=None):
        return self.create_node("call_module", module_name, args, kwargs, type_expr=type_expr)

    def call_method(self, method_name, args=None, kwargs=None, type_expr=None):
        return self.create_node("call_method", method_name, args, kwargs, type_expr=type_expr)

    def call_function(self, the_function, args=None, kwargs=None, type_expr=None, name=None):
        return self.create_node("call_function", the_function, args, kwargs, name=name, type_expr=type_expr)

    def output(self, result, type_expr=None):
        return self.create_node("output", "output", (result,), type_expr=type_expr)

    def node_copy(self, node, arg_transform=lambda x: x):
        """A copy of another graph's node, its inputs turned into this graph's by `arg_transform`."""
        copy = self.create_node(node.op, node.target, map_arg(node.args, arg_transform), map_arg(node.kwargs, arg_transform),
                                node.name, node.type)
        copy.meta = dict(node.meta)
        return copy

    def graph_copy(self, g, val_map, return_output_node=False):
        """Copy the nodes of `g`, noting which became which in `val_map`; what `g` gives is returned."""
        for node in g.nodes:
            if node in val_map:
                continue
            if node.op == "output":
                result = map_arg(node.args[0], lambda n: val_map[n])
                return (result, node) if return_output_node else result
            val_map[node] = self.node_copy(node, lambda n: val_map[n])

    def __deepcopy__(self, memo=None):
        copy, known = Graph(tracer_cls=self._tracer_cls), {}
        copy._codegen, copy._traced_from = deepcopy(self._codegen), self._traced_from
        result = copy.graph_copy(self, known, return_output_node=True)
        if result is not None:
            output = copy.output(result[0], type_expr=result[1].type)
            output.meta = dict(result[1].meta)
        return copy

    def set_codegen(self, codegen):
        """Let a CodeGen make the code; GraphModule.recompile() calls it."""
        self._codegen = codegen

    def on_generate_code(self, make_transformer):
        """Let ``make_transformer(the one before, or None)`` change the lines of the code, each with its end, whenever it is made; as a context
        manager, within its block."""
        return _TransformCode(self._codegen, make_transformer(self._codegen._body_transformer))

    def process_inputs(self, *args):
        return self._codegen.process_inputs(*args)

    def process_outputs(self, out):
        return self._codegen.process_outputs(out)

    # ---- changing

    def inserting_before(self, n=None):
        return _InsertPoint(self, (n or self._root).prepend if n is not None else self._root.append)

    def inserting_after(self, n=None):
        return _InsertPoint(self, n.append if n is not None else self._root.prepend)

    def erase_node(self, to_erase):
        if to_erase.users:
            raise RuntimeError(f"Tried to erase Node {to_erase} but it still had {len(to_erase.users)} users in the graph: "
                               f"{to_erase.users}!")
        if to_erase.graph is not self:
            raise RuntimeError(f"Attempting to remove {to_erase} from wrong graph!")
        to_erase._unlink()
        to_erase._erased = True
        to_erase._set((), {})

    def eliminate_dead_code(self, is_impure_node=None):
        """Remove the nodes that nobody uses; says whether there were any."""
        before = len(self.nodes)
        for node in reversed(self.nodes):
            if not (is_impure_node or Node.is_impure)(node) and not node.users:
                self.erase_node(node)
        return len(self.nodes) < before

    def lint(self):
        """Raise where the graph isn't one: a node used before it is there, a name twice, a target that's missing."""
        seen, names = set(), set()
        for node in self.nodes:
            if node.graph is not self:
                raise RuntimeError(f"Node '{node}' does not belong to this Graph!")
            for used in node.all_input_nodes:
                if used.graph is not self:
                    raise RuntimeError(f"Argument '{used}' of Node '{node}' does not belong to this Graph, but was used as an argument! If "
                                       "you are copying nodes from another graph, make sure to use ``arg_transform`` on node_copy() to "
                                       f"remap values\n{self}")
                if used not in seen:
                    raise RuntimeError(f"Argument '{used}' of Node '{node}' was used before it has been defined! Please check that "
                                       f"Nodes in the graph are topologically ordered\n{self}")
            if node.name in names:
                raise RuntimeError(f"Node redefined name {node.name}!")
            if self.owning_module is not None and node.op in ("get_attr", "call_module"):
                at = self.owning_module
                for part in node.target.split("."):
                    if not hasattr(at, part):
                        raise RuntimeError(f"Node {node} target {node.target} references nonexistent attribute {part} of {at}")
                    at = getattr(at, part)
            seen.add(node)
            names.add(node.name)

    # ---- showing

    def _last_uses(self):
        """node -> the nodes whose values nothing reads after it."""
        last_use, gone = {}, {}
        for node in reversed(self.nodes):
            for used in (*node.all_input_nodes, node):
                last_use.setdefault(used, node)
        for used, at in last_use.items():
            gone.setdefault(at, []).append(used)
        return gone

    def python_code(self, root_module, **options):
        """The graph as the source of forward(`root_module`, ...)."""
        names, lines, parameters, gone = dict(self._codegen.additional_globals()), [], [], self._last_uses()
        source, returned = _Source(names), ""
        for number, node in enumerate(self.nodes):
            kind = source.type_of(node, " : ")
            if node.op == "placeholder":
                default = f" = {source.show(node.args[0])}" if node.args else ""
                raw = node.target
                parameters.append(f"{raw}{kind}{default}")
                if raw.lstrip("*") != node.name:
                    lines.append(f"{node.name} = {raw.lstrip('*')}")
                continue
            if node.op == "output":
                returned = source.type_of(node, " -> ")
                lines.append(_line(self._codegen.generate_output(_Shown(source.show(node.args[0]))), number))
                continue
            value, before = source.result(node)
            if before:
                lines.append(before)
            unused = [used.name for used in gone.get(node, ())]
            lines.append(_line(f"{node.name}{kind} = {value}" + (f";  {' = '.join(unused)} = None" if unused else ""), number))
        lines = [_line(f"{line}\n", getattr(line, "node", None)) for line in lines or ["pass"]]
        if self._codegen._body_transformer is not None:
            lines = self._codegen._body_transformer(lines)
        numbers = [getattr(line, "node", None) for line in lines for _ in range(line.count("\n"))]
        body = "\n".join("    " + line for line in "".join(lines).split("\n"))
        import tede
        names["torch"] = tede
        wraps = "\n".join(f"torch.fx.wrap('{name}')" for name in source.wrapped)
        head = self._codegen.gen_fn_def(parameters, returned)
        first = head.count("\n") + 1
        return PythonCode(f"{wraps}\n\n\n{head}\n{body}", names, {first + i: number for i, number in enumerate(numbers)}, wraps.count("\n") + 4)

    def __str__(self):
        lines = []
        for node in self.nodes:
            line = node.format_node(maybe_return_typename=[""])
            lines.append(f"    {line}" if line else "")
        return "graph():\n" + "\n".join(lines)

    def print_tabular(self):
        """Print the nodes as a table; needs the package tabulate."""
        try:
            from tabulate import tabulate
        except ImportError:
            print("`print_tabular` relies on the library `tabulate`, which could not be found on this machine. Run `pip install "
                  "tabulate` to install the library.")
            raise
        print(tabulate([[n.op, n.name, n.target, n.args, n.kwargs] for n in self.nodes],
                       headers=["opcode", "name", "target", "args", "kwargs"]))


def _attribute(base, path):
    for part in path.split("."):
        base = f"{base}.{part}" if part.isidentifier() else f'getattr({base}, "{part}")'
    return base


class _InsertPoint:
    def __init__(self, graph, insert):
        self.graph, self.before = graph, graph._insert
        graph._insert = insert

    def __enter__(self):
        pass

    def __exit__(self, *exception):
        self.graph._insert = self.before


class _NodeList:
    """The nodes in order. A node that is looked at may be erased, and others put behind it."""

    def __init__(self, graph, direction="_next"):
        self.graph, self.direction = graph, direction

    def __iter__(self):
        root = self.graph._root
        at = getattr(root, self.direction)
        while at is not root:
            if not at._erased:
                yield at
            at = getattr(at, self.direction)

    def __len__(self):
        return sum(1 for _ in self)

    def __reversed__(self):
        return _NodeList(self.graph, "_prev" if self.direction == "_next" else "_next").__iter__()
