"""Which nodes a backend takes: the question that partitioners ask."""
import abc

from tede.fx.node import Node
from tede.fx.passes.shape_prop import TensorMetadata
from tede.fx.passes.tools_common import CALLABLE_NODE_OPS, get_node_target

__all__ = ["OpSupports", "OperatorSupport", "OperatorSupportBase", "any_chain", "chain", "create_op_support"]


class OperatorSupportBase(abc.ABC):
    @abc.abstractmethod
    def is_node_supported(self, submodules, node):
        """Whether a node is taken; `submodules` are the graph's, by path."""


class OperatorSupport(OperatorSupportBase):
    """By a table: target -> None, or (dtypes of each argument, dtypes by keyword) that are taken."""

    def __init__(self, support_dict=None):
        self._support_dict = support_dict or {}

    def is_node_supported(self, submodules, node):
        if node.op not in CALLABLE_NODE_OPS:
            return True
        target = get_node_target(submodules, node)
        if target not in self._support_dict:
            return False
        if self._support_dict[target] is None:
            return True
        by_position, by_name = self._support_dict[target]
        tensors = [a for a in node.args if isinstance(a, Node)]
        return (all(_dtype(a) in dtypes for a, dtypes in zip(tensors, by_position))
                and all(_dtype(node.kwargs[name]) in dtypes for name, dtypes in by_name.items() if isinstance(node.kwargs.get(name), Node)))


def _dtype(node):
    """A value's dtype by the notes of shape_prop, its type if it isn't a tensor."""
    note = node.meta.get("tensor_meta")
    return note.dtype if isinstance(note, TensorMetadata) else node.meta["type"]


class _Function(OperatorSupportBase):
    def __init__(self, function):
        self._function = function

    def is_node_supported(self, submodules, node):
        return self._function(submodules, node)


def create_op_support(is_node_supported):
    """An OperatorSupportBase of a function of submodules and node."""
    return _Function(is_node_supported)


def chain(*op_support):
    """What each of them takes."""
    return create_op_support(lambda submodules, node: all(s.is_node_supported(submodules, node) for s in op_support))


def any_chain(*op_support):
    """What one of them takes."""
    return create_op_support(lambda submodules, node: any(s.is_node_supported(submodules, node) for s in op_support))


class OpSupports:
    """Rules that are needed often."""

    @classmethod
    def decline_if_input_dtype(cls, dtype):
        """All but what has an input of this dtype; raises where shape_prop hasn't been run."""
        return create_op_support(lambda submodules, node: all(_dtype(used) != dtype for used in node.all_input_nodes))

    @classmethod
    def decline_if_node_in_names(cls, disallow_set):
        """All but the nodes of these names."""
        return create_op_support(lambda submodules, node: node.name not in disallow_set)
