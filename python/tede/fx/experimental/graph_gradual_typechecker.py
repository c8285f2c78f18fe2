"""Types of a graph's values, from annotations that may leave sizes open (`Dyn`): before anything runs, what doesn't fit is found, and sizes that follow from
others are filled in.

A node's type is the less precise of what is known, unless its own annotation says more. What an operator or a layer does is one rule of each of three
kinds: the type of the result, which sizes are the same before and after (`Refine`, for symbols in place of open sizes), and sizes that are expressions of others."""
import itertools
import math
import operator
from functools import reduce

import tede
from tede import nn
from tede.fx.experimental.refinement_types import Equality
from tede.fx.node import Node, map_arg
from tede.fx.tensor_type import Dyn, TensorType, is_consistent, is_more_precise

_INFERENCE_RULES, _REFINEMENT_RULES, _RULES = {}, {}, {}

__all__ = ["adaptiveavgpool2d_inference_rule", "add_inference_rule", "all_eq", "bn2d_inference_rule", "broadcast_types", "calculate_out_dimension",
           "conv2d_inference_rule", "conv_rule", "element_wise_eq", "expand_to_tensor_dim", "flatten_inference_rule", "flatten_refinement_rule",
           "get_greatest_upper_bound", "get_parameter", "GraphTypeChecker", "linear_inference_rule", "maxpool2d_inference_rule", "Refine",
           "register_algebraic_expressions_inference_rule", "register_inference_rule", "register_refinement_rule", "relu_inference_rule",
           "reshape_inference_rule", "transpose_inference_rule"]


def _registering(rules):
    def register(call_target):
        def put(rule):
            if call_target in rules:
                raise RuntimeError(f"Rule already registered for {call_target}!")
            rules[call_target] = rule
            return rule
        return put
    return register


# Rules are called with a node and, for a layer, the module.
register_inference_rule = _registering(_INFERENCE_RULES)
register_refinement_rule = _registering(_REFINEMENT_RULES)
register_algebraic_expressions_inference_rule = _registering(_RULES)


def _for_each(register, *targets):
    def put(rule):
        for target in targets:
            register(target)(rule)
        return rule
    return put


# ---- types

def expand_to_tensor_dim(t, n):
    """A type as that of a tensor with n dimensions; TypeError if it has others."""
    if t == Dyn:
        return TensorType((Dyn,) * n)
    if not isinstance(t, TensorType):
        raise TypeError(f"Cannot match {t} with a tensor of {n} dimensions")
    if len(t.__args__) != n:
        raise TypeError(f"Cannot extend tensor dimension. Tensor {t} has rank {len(t.__args__)}. It should have rank {n}")
    return t


def broadcast_types(t1, t2):
    """Two types, each with the sizes that it has once it is broadcast to the other; open sizes stay open."""
    if not (isinstance(t1, TensorType) and isinstance(t2, TensorType)):
        return t1, t2
    rank = max(len(t1.__args__), len(t2.__args__))
    a, b = ((1,) * (rank - len(t.__args__)) + t.__args__ for t in (t1, t2))
    return TensorType(y if x == 1 else x for x, y in zip(a, b)), TensorType(x if y == 1 else y for x, y in zip(a, b))


def get_greatest_upper_bound(type1, type2):
    """The more precise of two types; TypeError if nothing is of both."""
    if not is_consistent(type1, type2):
        raise TypeError(f"Inconsistent types {type1}, {type2}")
    if isinstance(type1, TensorType) and isinstance(type2, TensorType):
        return TensorType(y if x == Dyn else x for x, y in zip(type1.__args__, type2.__args__))
    return type1 if is_more_precise(type1, type2) else type2


def _common(t1, t2):
    """What two consistent types both say."""
    if isinstance(t1, TensorType) and isinstance(t2, TensorType):
        return TensorType(x if x == y else Dyn for x, y in zip(t1.__args__, t2.__args__))
    return t2 if is_more_precise(t1, t2) else t1


def _pair(value, i):
    return value if isinstance(value, (int, str)) else value[i]


def calculate_out_dimension(d_in, module_instance, index):
    """The size of a convolution's or a pool's result along a dimension: an int, Dyn, or an expression of a symbol."""
    if d_in == Dyn:
        return Dyn
    kernel = _pair(module_instance.kernel_size, index)
    stride = _pair(module_instance.stride if module_instance.stride is not None else module_instance.kernel_size, index)
    padding, dilation = _pair(module_instance.padding, index), _pair(module_instance.dilation, index)
    if padding == "same":
        return d_in
    span = d_in + 2 * (0 if padding == "valid" else padding) - dilation * (kernel - 1) - 1
    if isinstance(d_in, int):
        return (math.ceil if getattr(module_instance, "ceil_mode", False) else math.floor)(span / stride + 1)
    import sympy
    return sympy.floor(span / stride + 1)


def get_parameter(traced, target):
    """The parameter or buffer at a path in a module."""
    module, _, name = target.rpartition(".")
    return getattr(traced.get_submodule(module), name)


def _argument(n, i, name, default):
    return n.args[i] if len(n.args) > i else n.kwargs.get(name, default)


def _type_of(x):
    return x.type if isinstance(x, Node) else type(x)


# ---- the types of results

@_for_each(register_inference_rule, tede.add, operator.add, operator.iadd)
def add_inference_rule(n):
    t1, t2 = map(_type_of, n.args[:2])
    for scalar, other in ((t1, t2), (t2, t1)):
        if scalar in (int, float):
            n.type = other
            return n.type
    new1, new2 = broadcast_types(t1, t2)
    n.meta["broadcast"] = (new1, new2) != (t1, t2)
    if not is_consistent(new1, new2):
        raise TypeError(f"Cannot add arguments {n.args[0]} ({t1}) and {n.args[1]} ({t2}) in node {n}. Types should match")
    n.type = _common(new1, new2)
    return n.type


@register_inference_rule(tede.reshape)
def reshape_inference_rule(n):
    t1, t2 = n.args[0].type, TensorType(Dyn if size == -1 else size for size in _argument(n, 1, "shape", None))
    if isinstance(t1, TensorType):
        known1, known2 = (math.prod(size for size in t.__args__ if size != Dyn) for t in (t1, t2))
        whole = Dyn not in t1.__args__ and Dyn not in t2.__args__
        fits = known1 == known2 if whole else known1 % max(known2, 1) == 0 or known2 % max(known1, 1) == 0
    else:
        fits = t1 == Dyn
    if not fits:
        raise TypeError(f"Cannot reshape in node {n} from {t1} to {t2}")
    n.type = t2
    return n.type


@register_inference_rule(tede.transpose)
def transpose_inference_rule(n):
    t, dims = n.args[0].type, (_argument(n, 1, "dim0", 0), _argument(n, 2, "dim1", 1))
    if isinstance(t, TensorType):
        sizes = list(t.__args__)
        if not all(-len(sizes) <= dim < len(sizes) for dim in dims):
            raise TypeError(f"Cannot transpose {dims[0]} and {dims[1]} in type {t} for node {n}")
        sizes[dims[0]], sizes[dims[1]] = sizes[dims[1]], sizes[dims[0]]
        t = TensorType(sizes)
    n.type = get_greatest_upper_bound(t, n.type)
    return n.type


def _flattened(n):
    """Where a flatten begins and ends in the type of its argument."""
    t = n.args[0].type
    rank = len(t.__args__)
    start, end = (dim + rank if dim < 0 else dim for dim in (_argument(n, 1, "start_dim", 0), _argument(n, 2, "end_dim", -1)))
    if not 0 <= start <= end < rank:
        raise TypeError(f"Incompatible dimensions {start}, {end} in type {t} for node {n}")
    return start, end


@register_inference_rule(tede.flatten)
def flatten_inference_rule(n):
    t = n.args[0].type
    if isinstance(t, TensorType):
        start, end = _flattened(n)
        inner = t.__args__[start:end + 1]
        t = TensorType((*t.__args__[:start], Dyn if Dyn in inner else math.prod(inner), *t.__args__[end + 1:]))
    n.type = get_greatest_upper_bound(t, n.type)
    return n.type


@register_inference_rule(nn.BatchNorm2d)
def bn2d_inference_rule(n, module_instance):
    given = n.args[0].type = expand_to_tensor_dim(n.args[0].type, 4)
    own = expand_to_tensor_dim(n.type, 4)
    if not (is_consistent(given, own) and all(is_consistent(t.__args__[1], module_instance.num_features) for t in (given, own))):
        raise TypeError(f"Cannot apply {module_instance} with input type {given} and existing type {n.type} on {n}")
    n.type = get_greatest_upper_bound(given, own)
    return n.type


@register_inference_rule(nn.Conv2d)
def conv2d_inference_rule(n, module_instance):
    given = n.args[0].type = expand_to_tensor_dim(n.args[0].type, 4)
    batch, channels, *space = given.__args__
    if not is_consistent(channels, module_instance.in_channels):
        raise TypeError(f"Cannot apply {module_instance} with input type {given} and existing type {n.type} on {n}")
    made = TensorType((batch, module_instance.out_channels, *(calculate_out_dimension(size, module_instance, i) for i, size in enumerate(space))))
    n.type = get_greatest_upper_bound(made, expand_to_tensor_dim(n.type, 4))
    return n.type


@register_inference_rule(nn.ReLU)
def relu_inference_rule(n, module_instance):
    n.type = get_greatest_upper_bound(n.args[0].type, n.type)
    return n.type


def _over_planes(n, module_instance, size_of):
    """The type of a layer over the last two dimensions, with or without a batch."""
    t = n.args[0].type
    if isinstance(t, TensorType):
        if len(t.__args__) not in (3, 4):
            raise TypeError(f"Wrong size of {t} for {module_instance} in {n}")
        t = TensorType((*t.__args__[:-2], *(size_of(size, i) for i, size in enumerate(t.__args__[-2:]))))
    n.type = get_greatest_upper_bound(t, n.type)
    return n.type


@register_inference_rule(nn.MaxPool2d)
def maxpool2d_inference_rule(n, module_instance):
    return _over_planes(n, module_instance, lambda size, i: calculate_out_dimension(size, module_instance, i))


@register_inference_rule(nn.AdaptiveAvgPool2d)
def adaptiveavgpool2d_inference_rule(n, module_instance):
    wanted = module_instance.output_size
    return _over_planes(n, module_instance, lambda size, i: size if _pair(wanted, i) is None else _pair(wanted, i))


@register_inference_rule(nn.Linear)
def linear_inference_rule(n, module_instance):
    t = n.args[0].type
    if isinstance(t, TensorType):
        if not t.__args__ or not is_consistent(t.__args__[-1], module_instance.in_features):
            raise TypeError(f"Cannot apply {module_instance} with input type {t} in {n}")
        t = TensorType((*t.__args__[:-1], module_instance.out_features))
    n.type = get_greatest_upper_bound(t, n.type)
    return n.type


class GraphTypeChecker:
    """Gives the nodes of a GraphModule their types; `env` is kept for the caller."""

    def __init__(self, env, traced):
        self.env, self.traced = env, traced

    def type_check(self):
        """True; TypeError if types don't fit."""
        for n in self.traced.graph.nodes:
            self.type_check_node(n)
        return True

    def type_check_node(self, n):
        if n.type is None:
            n.type = Dyn
        if n.op == "get_attr":
            n.type = TensorType(get_parameter(self.traced, n.target).shape)
        elif n.op == "call_function":
            if n.target not in _INFERENCE_RULES:
                raise RuntimeError(f"No inference rule registered for target {n.target}!")
            _INFERENCE_RULES[n.target](n)
        elif n.op == "call_module":
            module = self.traced.get_submodule(n.target)
            if type(module) not in _INFERENCE_RULES:
                raise RuntimeError(f"No inference rule registered for class {type(module)}!")
            _INFERENCE_RULES[type(module)](n, module)
        elif n.op == "output":
            n.type = map_arg(n.args[0], lambda arg: arg.type)
        elif n.op != "placeholder":
            raise NotImplementedError(f"a node that is a {n.op} has no rule for its type")
        return n.type


# ---- which sizes are equal

def _same(n, dims):
    given, own = n.args[0].type, n.type
    if not (isinstance(given, TensorType) and isinstance(own, TensorType)):
        return []
    return [Equality(x, y) for x, y in zip(given.__args__[dims], own.__args__[dims])]


@_for_each(register_refinement_rule, nn.BatchNorm2d, nn.ReLU)
def all_eq(n):
    return _same(n, slice(None))


@register_refinement_rule(nn.Conv2d)
def first_one_eq(n):
    return _same(n, slice(1))


@_for_each(register_refinement_rule, nn.MaxPool2d, nn.AdaptiveAvgPool2d)
def all_but_planes_eq(n):
    return _same(n, slice(-2))


@register_refinement_rule(nn.Linear)
def all_but_last_eq(n):
    return _same(n, slice(-1))


@register_refinement_rule(tede.flatten)
def flatten_refinement_rule(n):
    return _same(n, slice(_flattened(n)[0])) if isinstance(n.args[0].type, TensorType) else []


@_for_each(register_refinement_rule, tede.add, operator.add, operator.iadd)
def element_wise_eq(n):
    """Sizes that both operands have, once broadcast, are the result's. What isn't known to be equal may still be broadcast."""
    types = [*map(_type_of, n.args[:2]), n.type]
    if not all(isinstance(t, TensorType) for t in types):
        return []
    a, b = broadcast_types(*types[:2])
    return [Equality(x, z) for x, y, z in zip(a.__args__, b.__args__, n.type.__args__) if x == y]


# ---- which sizes are expressions of others

@register_algebraic_expressions_inference_rule(nn.Conv2d)
def conv_rule(n, module_instance):
    given = n.args[0].type
    if isinstance(given, TensorType) and isinstance(n.type, TensorType):
        n.type = TensorType((*n.type.__args__[:2], *(calculate_out_dimension(size, module_instance, i) for i, size in enumerate(given.__args__[2:]))))
    return n.type


@register_algebraic_expressions_inference_rule(tede.flatten)
def flatten_rule(n):
    given = n.args[0].type
    if isinstance(given, TensorType) and isinstance(n.type, TensorType):
        start, end = _flattened(n)
        n.type = TensorType((*n.type.__args__[:start], reduce(operator.mul, given.__args__[start:end + 1]), *n.type.__args__[start + 1:]))
    return n.type


class Refine:
    """Symbols (of SymPy) in place of open sizes, and what is equal among them: `constraints`."""

    def __init__(self, traced):
        self.constraints, self.traced, self.symbol_iter = [], traced, itertools.count()

    def refine(self):
        for n in self.traced.graph.nodes:
            self.refine_node(n)
        return True

    def _symbol(self):
        import sympy
        return sympy.symbols(f"~{next(self.symbol_iter)}")

    def replace_dyn_with_fresh_var(self, typ):
        if typ == Dyn:
            return self._symbol()
        if isinstance(typ, TensorType):
            return TensorType(map(self.replace_dyn_with_fresh_var, typ.__args__))
        return type(typ)(map(self.replace_dyn_with_fresh_var, typ)) if isinstance(typ, (list, tuple)) else typ

    def _rule(self, rules, n):
        """What the rule for a node gives; None where there is none."""
        if n.op == "call_function":
            return rules[n.target](n) if n.target in rules else None
        module = self.traced.get_submodule(n.target) if n.op == "call_module" else None
        return None if type(module) not in rules else rules[type(module)](n) if rules is _REFINEMENT_RULES else rules[type(module)](n, module)

    def refine_node(self, n):
        if n.op == "output":
            n.type = map_arg(n.args[0], lambda arg: arg.type)
            return n.type
        n.type = self.replace_dyn_with_fresh_var(Dyn if n.type is None else n.type)
        self.constraints += self._rule(_REFINEMENT_RULES, n) or []
        return n.type

    def infer_symbolic_relations(self):
        """Let sizes be expressions of symbols where there is a rule for it."""
        for n in self.traced.graph.nodes:
            if n.op == "output":
                self.refine_node(n)
            else:
                self._rule(_RULES, n)
        return True
