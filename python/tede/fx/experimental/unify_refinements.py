"""Symbols for the open sizes of a graph, the same for sizes that are equal."""
from tede.fx.experimental.graph_gradual_typechecker import Refine
from tede.fx.tensor_type import TensorType

__all__ = ["infer_symbolic_types_single_pass", "infer_symbolic_types", "unify_eq", "substitute_solution_one_type", "substitute_all_types"]


def _resolved(size, mapping):
    while size in mapping:
        size = mapping[size]
    return size


def unify_eq(list_of_eq):
    """What each symbol stands for if all equations hold; TypeError if they can't."""
    mapping = {}
    for eq in list_of_eq:
        a, b = _resolved(eq.lhs, mapping), _resolved(eq.rhs, mapping)
        if a == b:
            continue
        if getattr(a, "is_symbol", False):
            mapping[a] = b
        elif getattr(b, "is_symbol", False):
            mapping[b] = a
        elif isinstance(a, int) and isinstance(b, int):
            raise TypeError(f"sizes that have to be equal are {a} and {b}")
    return mapping


def substitute_solution_one_type(mapping, t):
    if isinstance(t, TensorType):
        return TensorType(_resolved(size, mapping) for size in t.__args__)
    if isinstance(t, (list, tuple)):
        return type(t)(substitute_solution_one_type(mapping, inner) for inner in t)
    return _resolved(t, mapping)


def substitute_all_types(graph, mapping):
    for n in graph.nodes:
        n.type = substitute_solution_one_type(mapping, n.type)


def infer_symbolic_types_single_pass(traced):
    refine = Refine(traced)
    refine.refine()
    substitute_all_types(traced.graph, unify_eq(refine.constraints))
    return refine


def infer_symbolic_types(traced):
    """Give a GraphModule's nodes types with symbols. The second pass finds equalities that hold once operands of the first are known to be equal."""
    infer_symbolic_types_single_pass(traced)
    infer_symbolic_types_single_pass(traced).infer_symbolic_relations()
