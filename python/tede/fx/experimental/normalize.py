"""Calls in one form: arguments by name, operators of Python instead of functions that do the same."""
import inspect
import operator

import tede
from tede.fx.interpreter import Transformer
from tede.fx.node import map_aggregate, Node
from tede.fx.operator_schemas import create_type_hint, get_signature_for_torch_op, normalize_function, normalize_module
from tede.fx.proxy import Proxy


class NormalizeArgs(Transformer):
    """Arguments of calls by the names of parameters, with defaults; a call whose signature isn't clear stays as it is.

    Types for the choice of an overload come from shape_prop's notes."""

    def __init__(self, module, normalize_to_only_use_kwargs=True):
        super().__init__(module)
        self.node_map, self.normalize_to_only_use_kwargs = {}, normalize_to_only_use_kwargs

    def run_node(self, n):
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        if n.op == "call_function":
            def kind(value):
                return value.meta.get("type") if isinstance(value, Node) else type(value)
            made = self.call_function(n.target, args, kwargs, tuple(create_type_hint(map_aggregate(a, kind)) for a in n.args),
                                      {name: create_type_hint(map_aggregate(a, kind)) for name, a in n.kwargs.items()})
        else:
            made = getattr(self, n.op)(n.target, args, kwargs)
            if n.op == "placeholder":
                made.node.type = n.type
        if n.op != "output" and isinstance(made, Proxy):
            self.node_map[made] = n
            made.node.meta = dict(n.meta)
        return made

    def call_function(self, target, args, kwargs, arg_types=None, kwarg_types=None):
        if not callable(target):
            raise AssertionError(f"{target} is no function")
        pair = normalize_function(target, args, kwargs, arg_types, kwarg_types, self.normalize_to_only_use_kwargs)
        return super().call_function(target, *(pair or (args, kwargs)))

    def call_module(self, target, args, kwargs):
        pair = normalize_module(self.module, target, args, kwargs, self.normalize_to_only_use_kwargs)
        return super().call_module(target, *(pair or (args, kwargs)))


class NormalizeOperators(Transformer):
    """torch.add(a, b) -> a + b, and so on: calls of functions that Python has an operator for."""

    binary_magic_method_remap = {
        tede.add: operator.add, tede.mul: operator.mul, tede.sub: operator.sub, tede.div: operator.truediv,
        tede.floor_divide: operator.floordiv, tede.remainder: operator.mod, tede.eq: operator.eq, tede.ne: operator.ne, tede.lt: operator.lt,
        tede.le: operator.le, tede.gt: operator.gt, tede.ge: operator.ge}

    def call_function(self, target, args, kwargs):
        if target in self.binary_magic_method_remap and len(args) == 2 and not kwargs:
            return super().call_function(self.binary_magic_method_remap[target], args, {})
        return super().call_function(target, args, kwargs)


class AnnotateTypesWithSchema(Transformer):
    """Nodes get the types that signatures and schemas say their results have."""

    def __init__(self, module, annotate_functionals=True, annotate_modules=True, annotate_get_attrs=True):
        super().__init__(module)
        self.annotate_functionals, self.annotate_modules, self.annotate_get_attrs = annotate_functionals, annotate_modules, annotate_get_attrs

    def call_function(self, target, args, kwargs):
        made = super().call_function(target, args, kwargs)
        if self.annotate_functionals:
            made.node.type = _returned(target) or made.node.type
        return made

    def call_module(self, target, args, kwargs):
        made = super().call_module(target, args, kwargs)
        if self.annotate_modules:
            module = self.module.get_submodule(target)
            if getattr(tede.nn, type(module).__name__, None) is type(module):
                made.node.type = _returned(module.forward) or made.node.type
        return made

    def get_attr(self, target, args, kwargs):
        made = super().get_attr(target, args, kwargs)
        if self.annotate_get_attrs:
            made.node.type = type(self.fetch_attr(target))
        return made


def _returned(function):
    signatures = get_signature_for_torch_op(function)
    if signatures is not None:
        kinds = {s.return_annotation for s in signatures}
        return kinds.pop() if len(kinds) == 1 else None
    try:
        kind = inspect.signature(function).return_annotation
    except (TypeError, ValueError):
        return None
    return None if kind is inspect.Signature.empty else kind
