"""Tracing: the forward function is called once with proxies, and calls of modules become nodes."""
import builtins
import copy
import functools
import importlib
import inspect
import itertools
import math
import operator
import re
import typing
from types import FunctionType

import tede
from tede.fx import graph_module
from tede.fx._compatibility import compatibility  # noqa: F401  programs that subclass Tracer take these names from here
from tede.fx.graph import Graph, PythonCode, _PyTreeCodeGen, _PyTreeInfo
from tede.fx.graph_module import GraphModule, _compile
from tede.fx.node import has_side_effect
from tede.fx.proxy import ParameterProxy, Proxy, TracerBase, _proxies  # noqa: F401
from tede._script import ScriptObject  # noqa: F401
from tede.nn import Module
from tede.utils import _pytree

_orig_module_call, _orig_module_getattr = Module.__call__, Module.__getattr__
# Where parameters of a kind stand among a function's variables; the others come first.
_ORDER = {inspect.Parameter.KEYWORD_ONLY: 1, inspect.Parameter.VAR_POSITIONAL: 2, inspect.Parameter.VAR_KEYWORD: 3}
_tracing = False        # whether a trace runs
_wrapped = {}           # (id of a namespace, name) -> the namespace; functions there are nodes while a trace runs


def wrap(fn_or_name):
    """Let calls of a function of the caller's module be nodes of traces, instead of what happens in it. At module scope."""
    if not callable(fn_or_name) and not isinstance(fn_or_name, str):
        raise RuntimeError("Unsupported type for global function! Must be either a callable or string name")
    name = fn_or_name if isinstance(fn_or_name, str) else fn_or_name.__name__
    frame = inspect.currentframe().f_back
    if frame.f_code.co_name != "<module>":
        raise NotImplementedError("wrap must be called at the top level of a module")
    _wrapped[id(frame.f_globals), name] = frame.f_globals
    return fn_or_name


def _assert_is_none(value, message):
    assert value is None, message


for _function in (tede._assert, tede._assert_async, _assert_is_none):
    has_side_effect(_function)


class ProxyableClassMeta(type):
    """The metaclass of classes whose constructor, called with proxies, becomes a node; so do their objects, as constants of the root."""

    def __call__(cls, *args, **kwargs):
        for proxy in _proxies((args, kwargs)) if _tracing else ():
            return proxy.tracer.create_proxy("call_function", cls, args, kwargs)
        return super().__call__(*args, **kwargs)


class PHBase:
    """Stands in concrete_args for a value that stays a parameter of the graph."""

    def __repr__(self):
        return "PH"


class PHWithMeta(PHBase):
    """Its placeholder has an attribute ph_key."""

    def __init__(self, ph_key=None):
        super().__init__()
        self.ph_key = ph_key


PH = PHBase()


def is_fx_tracing():
    """Whether a trace runs."""
    return _tracing


is_fx_symbolic_tracing = is_fx_tracing


class _Patcher:
    """Functions and methods replaced for the duration of a trace."""

    def __init__(self):
        self._undo, self._visited = [], set()

    def patch(self, frame_dict, name, new_fn, deduplicate=True):
        """Replace what a namespace has under a name, or what is built in."""
        had = name in frame_dict
        before = frame_dict.get(name)
        self._undo.append(lambda: frame_dict.__setitem__(name, before) if had else frame_dict.pop(name, None))
        frame_dict[name] = new_fn

    def patch_method(self, cls, name, new_fn, deduplicate=True):
        had, before = name in cls.__dict__, cls.__dict__.get(name)      # the layers' base may have it, in C
        self._undo.append(lambda: setattr(cls, name, before) if had else delattr(cls, name))
        setattr(cls, name, new_fn)

    def visit_once(self, thing):
        """Whether it is the first call with this object."""
        first = id(thing) not in self._visited
        self._visited.add(id(thing))
        return first

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        while self._undo:
            self._undo.pop()()


def _recorded(function):
    @functools.wraps(function)
    def call(*args, **kwargs):
        for proxy in _proxies((args, kwargs)):
            made = proxy.tracer.create_proxy("call_function", function, args, kwargs)
            made.node.meta["is_wrapped"] = True
            return made
        return function(*args, **kwargs)
    return call


def _patch_wrapped_functions(patcher):
    """Let the functions that `wrap` named be recorded."""
    for (_, name), namespace in list(_wrapped.items()):
        function = namespace.get(name, getattr(builtins, name, None))
        if function is not None:
            patcher.patch(namespace, name, _recorded(function))


def _autowrap_check(patcher, frame_dict, function_ids):
    """Let the functions of these ids be recorded where a namespace has them."""
    if patcher.visit_once(frame_dict):
        for name, value in list(frame_dict.items()):
            if not name.startswith("_") and id(value) in function_ids and callable(value):
                patcher.patch(frame_dict, name, _recorded(value))


def _patch_function(fn, nargs):
    """The function with all its parameters positional: `args` of ``*args`` is then what is passed, not a tuple of it."""
    code = fn.__code__
    plain = code.replace(co_argcount=nargs, co_posonlyargcount=0, co_kwonlyargcount=0,
                         co_flags=code.co_flags & ~(inspect.CO_VARARGS | inspect.CO_VARKEYWORDS))
    return FunctionType(plain, fn.__globals__, fn.__name__, fn.__defaults__, fn.__closure__)


class Tracer(TracerBase):
    """`is_leaf_module` says which modules stay calls; others are followed."""

    traced_func_name = "forward"        # the method of a module that is traced

    def __init__(self, autowrap_modules=(math,), autowrap_functions=(), param_shapes_constant=False):
        self._autowrap_search = list(autowrap_modules)
        self._autowrap_function_ids = {
            id(value) for module in autowrap_modules for name, value in vars(module).items()
            if not name.startswith("_") and callable(value)} | {id(function) for function in autowrap_functions}
        self.param_shapes_constant, self.submodule_paths, self.root = param_shapes_constant, None, None
        self.scope, self.num_calls, self.node_name_to_scope, self.tensor_attrs = None, {}, {}, {}

    def is_leaf_module(self, m, module_qualified_name):
        """True for the library's own layers, except Sequential."""
        from tede.nn import Sequential
        return m.__module__.startswith(("tede.nn", "torch.nn", "tede.ao", "torch.ao")) and not isinstance(m, Sequential)

    def _path_if_known(self, module):
        return self.submodule_paths.get(module) if self.submodule_paths is not None else None

    @property
    def module_stack(self):
        """{path: (path, class)} of the modules whose calls are being traced, which each node's meta["nn_module_stack"] is."""
        return (self.graph.new_meta or {}).get("nn_module_stack", {})

    def path_of_module(self, mod):
        """The path at which the root has a module."""
        if self.submodule_paths is None:
            self.submodule_paths = {module: name for name, module in self.root.named_modules()}
        path = self.submodule_paths.get(mod)
        if path is None:
            path = next((name for name, module in self.root.named_modules() if module is mod), None)
            if path is None:
                raise NameError("module is not installed as a submodule")
        return path

    def call_module(self, m, forward, args, kwargs):
        path = self.path_of_module(m)
        if not self.is_leaf_module(m, path):
            return forward(*args, **kwargs)
        return self.create_proxy("call_module", path, args, kwargs)

    def getattr(self, attr, attr_val, parameter_proxy_cache):
        """What an attribute of a module is while the trace runs: parameters become nodes."""
        from tede import Tensor
        from tede.nn import Parameter
        if isinstance(attr_val, Tensor):
            path = self._tensor_path(attr_val)
            if path is not None and (isinstance(attr_val, Parameter) or self.proxy_buffer_attributes):
                if path not in parameter_proxy_cache:
                    make = None
                    if self.param_shapes_constant and isinstance(attr_val, Parameter):
                        def make(node):
                            return ParameterProxy(self, node, path, attr_val)
                    parameter_proxy_cache[path] = self.create_proxy("get_attr", path, (), {}, proxy_factory_fn=make)
                return parameter_proxy_cache[path]
        return attr_val

    def _tensor_path(self, tensor):
        for name, value in (*self.root.named_parameters(), *self.root.named_buffers()):
            if value is tensor:
                return name
        return None

    def create_arg(self, a):
        from tede import Tensor
        from tede.nn import Parameter
        if isinstance(a, Parameter):
            for name, p in self.root.named_parameters():
                if a is p:
                    return self.create_node("get_attr", name, (), {})
            raise NameError("parameter is not a member of this module")
        if isinstance(a, Tensor):
            path = self._tensor_path(a) or self.tensor_attrs.get(a)
            if path is None:
                i = 0
                while hasattr(self.root, f"_tensor_constant{i}"):
                    i += 1
                path = f"_tensor_constant{i}"
                setattr(self.root, path, a)
                self.tensor_attrs[a] = path
            return self.create_node("get_attr", path, (), {})
        if isinstance(a, Module):
            return self.create_node("get_attr", self.path_of_module(a), (), {})
        if isinstance(type(a), ProxyableClassMeta):
            return self.create_node("get_attr", self._constant(a), (), {})
        return super().create_arg(a)

    def _constant(self, a):
        """The name under which the root has an object; it gets one."""
        stem = f"_{type(a).__name__}_constant_"
        i = 0
        while getattr(self.root, f"{stem}{i}", a) is not a:
            i += 1
        setattr(self.root, f"{stem}{i}", a)
        return f"{stem}{i}"

    def create_args_for_root(self, root_fn, is_module, concrete_args=None):
        """(a function, its arguments): a proxy per parameter; those in concrete_args have their value."""
        plain = inspect.unwrap(root_fn)
        if not hasattr(plain, "__code__"):
            raise AssertionError(f"{root_fn} is built in: only functions and modules written in Python can be traced")
        parameters = list(inspect.signature(plain).parameters.values())
        args = []
        if is_module:
            if not parameters or parameters[0].kind is inspect.Parameter.VAR_POSITIONAL:
                raise RuntimeError("``self`` argument cannot be part of *args expansion!")
            args.append(self.root)
            parameters = parameters[1:]
        parameters.sort(key=lambda p: _ORDER.get(p.kind, 0))
        if isinstance(concrete_args, tuple):
            named = [p.name for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
            if is_module and concrete_args and not named and parameters:          # those of *args: all stay open
                return root_fn, args + [self.create_proxy("placeholder", f"input_{i}", (), {}) for i in range(len(concrete_args))]
            if len(concrete_args) != len(named):
                raise RuntimeError(f"Tracing expected {len(named)} arguments but got {len(concrete_args)} concrete arguments")
            concrete_args = dict(zip(named, concrete_args))
        for p in parameters:
            if concrete_args is not None and p.name in concrete_args:
                args.append(self._specialized(p, concrete_args[p.name]))
                continue
            stars = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
            default = () if p.default is p.empty or stars else (p.default,)
            args.append(self.create_proxy("placeholder", stars + p.name, default, {},
                                          type_expr=None if p.annotation is p.empty or isinstance(p.annotation, str) else p.annotation))
        if concrete_args is not None or any(p.kind in _ORDER for p in parameters):
            root_fn = _patch_function(plain, len(args))
        flat, spec = _pytree.tree_flatten(tuple(args))
        if all(child.is_leaf() for child in spec.children()):
            return root_fn, args
        names = (["self"] if is_module else []) + [p.name for p in parameters]
        self.graph._codegen = _PyTreeCodeGen(_PyTreeInfo(names, spec, None))

        def of_leaves(*leaves):
            result, out_spec = _pytree.tree_flatten(root_fn(*_pytree.tree_unflatten(list(leaves), spec)))
            self.graph._codegen.pytree_info = self.graph._codegen.pytree_info._replace(out_spec=out_spec)
            return result
        return of_leaves, flat

    def _specialized(self, parameter, value):
        """A parameter's value during the trace; the graph takes its leaves: some stay open, the others are compared."""
        name, count = parameter.name, itertools.count(1)
        default = () if parameter.default is parameter.empty else (parameter.default,)

        def leaf(x):
            given = self.create_proxy("placeholder", f"{name}_{next(count)}", default, {})
            if isinstance(x, PHBase):
                for attribute in vars(x).keys() - vars(PHBase).keys():
                    if not hasattr(given.node, attribute):
                        setattr(given.node, attribute, getattr(x, attribute))
                return given
            if isinstance(x, (int, float, str)):        # bool is one
                tede._assert(given == x, f"{name} has been specialized to have value {x} but got another value")
            elif x is None:
                self.create_proxy("call_function", _assert_is_none,
                                  (given, f"{name} has been specialized to have value None but got another value"), {})
            return x
        return _pytree.tree_map(leaf, value)

    def __deepcopy__(self, memo):
        made = object.__new__(type(self))
        memo[id(self)] = made
        for name, value in self.__dict__.items():       # modules whose functions are wrapped can't be copied
            setattr(made, name, list(value) if name == "_autowrap_search" else copy.deepcopy(value, memo))
        return made

    def trace(self, root, concrete_args=None):
        """The graph of a module's forward, or of a function."""
        global _tracing
        before, _tracing = _tracing, True
        try:
            return self._trace(root, concrete_args)
        finally:
            _tracing = before

    def _trace(self, root, concrete_args):
        if isinstance(root, Module):
            if not hasattr(type(root), self.traced_func_name):
                raise AssertionError(f"traced_func_name={self.traced_func_name} doesn't exist in {type(root).__name__}")
            self.root, fn = root, getattr(type(root), self.traced_func_name)
            if not inspect.isfunction(inspect.unwrap(fn)):
                fn = fn.__func__
        else:
            self.root, fn = Module(), root
        self.submodule_paths = {module: name for name, module in self.root.named_modules()}
        self.graph = Graph(tracer_cls=type(self))
        namespace = getattr(fn, "__globals__", None)
        code = getattr(inspect.unwrap(fn), "__code__", None)
        if code is not None:
            self.graph._traced_from = f"{code.co_filename}:{code.co_firstlineno} in {code.co_name}"
        fn, args = self.create_args_for_root(fn, isinstance(root, Module), concrete_args)
        cache = {}

        def module_getattr(module, name):
            return self.getattr(name, _orig_module_getattr(module, name), cache)

        def module_call(module, *args, **kwargs):
            _autowrap_check(patcher, getattr(getattr(module, "forward", module), "__globals__", {}), self._autowrap_function_ids)
            path, outer = self._path_if_known(module), self.graph.new_meta
            if path is not None:
                self.graph.new_meta = {"nn_module_stack": {**self.module_stack, path: (path, type(module))}}
            try:
                return self.call_module(module, lambda *a, **k: _orig_module_call(module, *a, **k), args, kwargs)
            finally:
                self.graph.new_meta = outer
        with _Patcher() as patcher:
            patcher.patch_method(Module, "__getattr__", module_getattr)
            patcher.patch_method(Module, "__call__", module_call)
            _patch_wrapped_functions(patcher)
            for names in (namespace, *map(vars, self._autowrap_search)):
                if names is not None:
                    _autowrap_check(patcher, names, self._autowrap_function_ids)
            result = fn(*args)
        self.create_node("output", "output", (self.create_arg(result),), {})
        self.submodule_paths = None
        return self.graph


def symbolic_trace(root, concrete_args=None):
    """A GraphModule of a module or a function."""
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)
    return GraphModule(tracer.root, graph, type(root).__name__ if isinstance(root, Module) else root.__name__)


# ---- pickles of graph modules: their code is traced again ------------------------------------------------------------

class _CodeOnlyModule(Module):
    def __init__(self, body):
        super().__init__()
        self.__dict__ = body


def _traced_again(state, forward, name):
    """The graph module whose code is `forward`: running it with proxies makes the graph again. What no node names stays in the module, too."""
    base = state.get("_tracer_cls") or Tracer

    class KeepModules(base):
        def is_leaf_module(self, m, module_qualified_name):
            return True
    module = _CodeOnlyModule(state)
    module.__class__ = type("CodeOnly", (_CodeOnlyModule,), {"forward": forward})
    made = GraphModule(module, KeepModules().trace(module), name)
    for kind in ("_parameters", "_buffers", "_modules"):
        for name, value in state[kind].items():
            if name not in getattr(made, kind):
                getattr(made, kind)[name] = value
    for name, value in state.items():
        if name not in made.__dict__:
            setattr(made, name, value)
    return made


def _rebuild(state, code, name, imports=()):
    """From a pickle."""
    found = {short: functools.reduce(getattr, path.split(".") if path else (), importlib.import_module(module)) for short, module, path in imports}
    names = {"torch": tede, "_operator": operator, "device": tede.device, "typing": typing, **found}
    return _traced_again(state, _compile(PythonCode(code, names)), name)


def _state(module):
    return {key: value for key, value in module.__dict__.items() if key not in ("_graph", "_code")}


def _named_in(module):
    """What a graph module's code names besides what each finds."""
    names = module._graph.python_code("self").globals
    return {short: value for short, value in names.items() if short not in ("torch", "_operator", "device", "typing")}


def _reduce(self):
    names = _named_in(self)
    imports = [(short, value.__module__, value.__qualname__) for short, value in names.items()
               if hasattr(value, "__qualname__") and "<" not in value.__qualname__]
    imports += [(short, value.__name__, "") for short, value in names.items() if inspect.ismodule(value)]
    return _rebuild, (_state(self), self._code, type(self).__name__, imports)


GraphModule.__reduce__ = _reduce


# ---- in packages (tede.package): their code is a source of the package

def _import_line(short, value, importer):
    """A line of Python that gives an object its name in a graph module's code."""
    if inspect.ismodule(value):
        return f"import {re.sub('^tede(?=[.]|$)', 'torch', value.__name__)} as {short}"
    module, path = importer.get_name(value)
    top, _, rest = path.partition(".")
    return f"from {module} import {top} as {short}" + (f"\n{short} = {short}.{rest}" if rest else "")


def _reduce_package(self, exporter):
    name = f"fx-generated._{exporter.get_unique_id()}"
    lines = ["import typing", "import _operator", "import torch", "from torch import device"]
    lines += [_import_line(short, value, exporter.importer) for short, value in _named_in(self).items()]
    exporter.save_source_string(name, "\n".join([*lines, "", "", self._code]))
    return reduce_package_graph_module, ({**_state(self), "_graphmodule_cls_name": type(self).__name__}, name)


def reduce_package_graph_module(importer, body, generated_module_name):
    """From a package."""
    name = body.pop("_graphmodule_cls_name", "GraphModule")
    body.pop("_code", None)             # PyTorch's, which is the module's, too
    return _traced_again(body, importer.import_module(generated_module_name).forward, name)


GraphModule.__reduce_package__ = _reduce_package
reduce_package_graph_module.__module__ = graph_module.__name__
graph_module.reduce_package_graph_module = reduce_package_graph_module      # where PyTorch's packages name it
graph_module.__all__.append("reduce_package_graph_module")
