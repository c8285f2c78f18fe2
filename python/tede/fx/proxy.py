"""Proxies: whatever is done to one becomes a node of the graph that its tracer records."""
import copy
import dataclasses
import enum
import inspect
import operator
import os
import traceback

from tede.fx.graph import inplace_methods, magic_methods
from tede.fx.node import Node

__all__ = ["Attribute", "GraphAppendingTracer", "ParameterProxy", "Proxy", "TraceError", "TracerBase"]

_HERE = os.path.dirname(__file__)           # frames of this folder are no user's


class TraceError(ValueError):
    """What was done needs a value, and a proxy has none."""


class TracerBase:
    """Makes nodes and proxies; a Tracer adds how modules are called."""
    graph, record_stack_traces, proxy_buffer_attributes, trace_asserts = None, False, False, False
    check_mutable_operations = False        # whether calls that write to an operand are refused

    def create_node(self, kind, target, args, kwargs, name=None, type_expr=None):
        if kind == "call_function" and self.check_mutable_operations:
            from tede.fx.operator_schemas import check_for_mutable_operation
            check_for_mutable_operation(target, args, kwargs)
        node = self.graph.create_node(kind, target, args, kwargs, name, type_expr)
        if self.record_stack_traces:
            node.meta["stack_trace"] = "".join(traceback.format_list(
                [frame for frame in traceback.extract_stack() if not frame.filename.startswith(_HERE)]))
        return node

    def proxy(self, node):
        return Proxy(node, self)

    def create_proxy(self, kind, target, args, kwargs, name=None, type_expr=None, proxy_factory_fn=None):
        args, kwargs = self.create_arg(args), self.create_arg(kwargs)
        node = self.create_node(kind, target, args, kwargs, name, type_expr)
        return (proxy_factory_fn or self.proxy)(node)

    def create_arg(self, a):
        """A value as an argument of a node: proxies become nodes, structures are searched."""
        from tede import Tensor, device, dtype, layout, memory_format
        if isinstance(a, Proxy):
            return a.node
        if hasattr(type(a), "__fx_create_arg__"):
            return a.__fx_create_arg__(self)
        if isinstance(a, tuple) and hasattr(a, "_fields"):
            return type(a)(*map(self.create_arg, a))
        if isinstance(a, (tuple, list)):
            return type(a)(map(self.create_arg, a)) if type(a) in (tuple, list) else [self.create_arg(x) for x in a]
        if isinstance(a, dict):
            for key in a:
                if next(_proxies(key), None) is not None or isinstance(key, Node):
                    raise RuntimeError(f"Keys for dictionaries used as an argument cannot contain a Node. Got key: {key}")
            return {self.create_arg(key): self.create_arg(value) for key, value in a.items()}
        if isinstance(a, slice):
            return slice(*map(self.create_arg, (a.start, a.stop, a.step)))
        if isinstance(a, range):
            return range(a.start, a.stop, a.step)
        if dataclasses.is_dataclass(a) and not isinstance(a, type):
            fields = {field.name: self.create_arg(getattr(a, field.name)) for field in dataclasses.fields(a)}
            return self.create_node("call_function", type(a), (), fields)
        if a is None or a is ... or isinstance(a, (Node, str, int, float, complex, bool, dtype, device, layout, memory_format, type,
                                                   Tensor, enum.Enum)) or callable(a):
            return a
        raise NotImplementedError(f"argument of type: {type(a)}")

    def to_bool(self, obj):
        raise TraceError("symbolically traced variables cannot be used as inputs to control flow")

    def iter(self, obj):
        raise TraceError("Proxy object cannot be iterated. This can be attempted when the Proxy is used in a loop or as a *args or "
                         "**kwargs function argument. See the torch.fx docs on pytorch.org for a more detailed explanation of "
                         "what types of control flow can be traced, and check out the Proxy docstring for help troubleshooting "
                         "Proxy iteration errors")

    def keys(self, obj):
        return Attribute(obj, "keys")()


class GraphAppendingTracer(TracerBase):
    """Records behind what a graph has already."""

    def __init__(self, graph):
        self.graph = graph


class Proxy:
    def __init__(self, node, tracer=None):
        self.tracer = tracer if tracer is not None else GraphAppendingTracer(node.graph)
        self.node = node

    def __repr__(self):
        return f"Proxy({self.node.name})"

    def __getattr__(self, name):
        if name in ("tracer", "node"):
            raise AttributeError(name)
        return Attribute(self, name)

    def __call__(self, *args, **kwargs):
        return self.tracer.create_proxy("call_method", "__call__", (self, *args), kwargs)

    def __iter__(self):
        # `a, b = proxy` asks for as many items as the caller's code unpacks next.
        import dis
        frame = inspect.currentframe().f_back
        here = next((i for i in dis.get_instructions(frame.f_code) if i.offset >= frame.f_lasti), None)
        if here is not None and here.opname == "UNPACK_SEQUENCE":
            return (self[i] for i in range(here.argval))
        return self.tracer.iter(self)

    def __bool__(self):
        return self.tracer.to_bool(self)

    def __len__(self):
        raise RuntimeError("'len' is not supported in symbolic tracing by default. If you want this call to be recorded, please call "
                           "torch.fx.wrap('len') at module scope")

    def keys(self):
        return self.tracer.keys(self)

    def __deepcopy__(self, memo):
        graph = copy.deepcopy(self.node.graph, memo)
        return Proxy(next(n for n in graph.nodes if n.name == self.node.name), copy.deepcopy(self.tracer, memo))

    def __setitem__(self, index, value):
        self.tracer.create_proxy("call_function", operator.setitem, (self, index, value), {})

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        proxy = next(p for p in _proxies((args, kwargs)))
        name = getattr(function, "__name__", "")
        from tede import Tensor
        if getattr(Tensor, name, None) is function or type(function).__name__ in ("method_descriptor", "wrapper_descriptor"):
            return proxy.tracer.create_proxy("call_method", name, args, kwargs)
        return proxy.tracer.create_proxy("call_function", function, args, kwargs,
                                         name=proxy.tracer.graph._target_to_str(name))


def _proxies(a):
    if isinstance(a, Proxy):
        yield a
    elif isinstance(a, dict):
        for value in a.values():
            yield from _proxies(value)
    elif isinstance(a, (tuple, list)):
        for value in a:
            yield from _proxies(value)


class Attribute(Proxy):
    """proxy.name: a getattr in the graph, unless it is only called, which is a method call."""

    def __init__(self, root, attr):
        self.root, self.attr, self.tracer, self._node = root, attr, root.tracer, None

    @property
    def node(self):
        if self._node is None:
            self._node = self.tracer.create_proxy("call_function", getattr, (self.root, self.attr), {}).node
        return self._node

    def __call__(self, *args, **kwargs):
        return self.tracer.create_proxy("call_method", self.attr, (self.root, *args), kwargs)


class ParameterProxy(Proxy):
    """A module's parameter during a trace: queries of its shape are answered, so that conditions on it can be traced."""

    def __init__(self, tracer, node, name, param):
        from tede.nn import Parameter
        super().__init__(node, tracer)
        if not isinstance(param, Parameter):
            raise AssertionError(f"Expected Parameter, got {type(param)}")
        self.param, self.name = param, name

    def __repr__(self):
        return f"ParameterProxy({self.name})"

    shape = property(lambda self: self.param.shape)
    ndim = property(lambda self: self.param.ndim)

    def size(self):
        return self.param.size()

    def dim(self):
        return self.param.dim()

    def numel(self):
        return self.param.numel()

    def nelement(self):
        return self.param.nelement()


def _record(function, reflected=False):
    def method(self, *args, **kwargs):
        if reflected:
            return self.tracer.create_proxy("call_function", function, (args[0], self), {})
        return self.tracer.create_proxy("call_function", function, (self, *args), kwargs)
    return method


for _name in (*magic_methods, *inplace_methods):
    _function = getattr(operator, _name)
    setattr(Proxy, f"__{_name.strip('_')}__", _record(_function))
for _name in ("add", "sub", "mul", "floordiv", "truediv", "mod", "pow", "lshift", "rshift", "and_", "or_", "xor", "matmul"):
    setattr(Proxy, f"__r{_name.strip('_')}__", _record(getattr(operator, _name), reflected=True))
Proxy.__hash__ = object.__hash__
del _name, _function
