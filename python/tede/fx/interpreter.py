"""Interpreter and Transformer: running a graph node by node, and transforming one graph into another."""
from tede.fx.graph import Graph
from tede.fx.graph_module import GraphModule
from tede.fx.node import map_aggregate, map_arg
from tede.fx.proxy import Proxy, TracerBase

__all__ = ["Interpreter", "Transformer"]


class Interpreter:
    """Its methods run the kinds of nodes; a subclass overrides those that it is about."""

    def __init__(self, module, garbage_collect_values=True, graph=None):
        self.module, self.graph, self.env = module, graph if graph is not None else module.graph, {}
        self.submodules, self.garbage_collect_values, self.extra_traceback = dict(module.named_modules()), garbage_collect_values, True
        self._last = {}
        if garbage_collect_values:
            last = {}
            for node in reversed(self.graph.nodes):
                for used in node.all_input_nodes:
                    if used not in last:
                        last[used] = node
                        self._last.setdefault(node, []).append(used)

    def run(self, *args, initial_env=None, enable_io_processing=True):
        """What the graph gives for these arguments."""
        self.env = dict(initial_env or {})
        self.args_iter = iter(self.graph.process_inputs(*args) if enable_io_processing else args)
        for node in self.graph.nodes:
            if node in self.env:
                continue
            try:
                self.env[node] = self.run_node(node)
            except Exception as error:
                if self.extra_traceback and not getattr(error, "_fx_node", False):
                    error.add_note(f"While executing {node.format_node()}") if hasattr(error, "add_note") else None
                    error._fx_node = True
                raise
            for used in self._last.get(node, ()):
                del self.env[used]
            if node.op == "output":
                return self.graph.process_outputs(self.env[node]) if enable_io_processing else self.env[node]

    def run_node(self, n):
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        return getattr(self, n.op)(n.target, args, kwargs)

    def placeholder(self, target, args, kwargs):
        if target.startswith("*"):
            return list(self.args_iter)
        try:
            return next(self.args_iter)
        except StopIteration:
            if args:
                return args[0]
            raise RuntimeError(f"Expected positional argument for parameter {target}, but one was not passed in!") from None

    def get_attr(self, target, args, kwargs):
        return self.fetch_attr(target)

    def call_function(self, target, args, kwargs):
        return target(*args, **kwargs)

    def call_method(self, target, args, kwargs):
        return getattr(args[0], target)(*args[1:], **kwargs)

    def call_module(self, target, args, kwargs):
        return self.fetch_attr(target)(*args, **kwargs)

    def output(self, target, args, kwargs):
        return args[0]

    def fetch_attr(self, target):
        at, seen = self.module, []
        for part in target.split("."):
            if not hasattr(at, part):
                raise RuntimeError(f"Node referenced nonexistent target {'.'.join([*seen, part])}")
            at = getattr(at, part)
            seen.append(part)
        return at

    def fetch_args_kwargs_from_env(self, n):
        return self.map_nodes_to_values(n.args, n), self.map_nodes_to_values(n.kwargs, n)

    def map_nodes_to_values(self, args, n):
        def value(node):
            if node not in self.env:
                raise RuntimeError(f"Node {n} referenced nonexistent value {node}! Run Graph.lint() to diagnose such issues")
            return self.env[node]
        return map_arg(args, value)


class _Copying(TracerBase):
    def __init__(self, graph):
        self.graph = graph

    def is_leaf_module(self, m, module_qualified_name):
        return True


class Transformer(Interpreter):
    """An interpreter over proxies: `transform` gives the module of the graph that they record."""

    def __init__(self, module):
        super().__init__(module)
        self.new_graph = Graph()
        self.new_graph.set_codegen(module.graph._codegen)
        self.tracer = _Copying(self.new_graph)

    def run_node(self, n):
        result = super().run_node(n)
        if isinstance(result, Proxy) and not result.node.meta:
            result.node.meta.update(n.meta)
        return result

    def placeholder(self, target, args, kwargs):
        return Proxy(self.new_graph.placeholder(target, **({"default_value": args[0]} if args else {})), self.tracer)

    def get_attr(self, target, args, kwargs):
        return self.tracer.create_proxy("get_attr", target, args, kwargs)

    def call_module(self, target, args, kwargs):
        return self.tracer.create_proxy("call_module", target, args, kwargs)

    def call_function(self, target, args, kwargs):
        return self.tracer.create_proxy("call_function", target, args, kwargs)

    def transform(self):
        result = super().run(enable_io_processing=False)
        if result is not None:
            self.new_graph.output(map_aggregate(result, lambda a: a.node if isinstance(a, Proxy) else a))
        return GraphModule(self.module, self.new_graph)
