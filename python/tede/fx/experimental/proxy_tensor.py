"""make_fx: a function's graph, from the operators that it calls.

The function runs, and a mode below autograd and transforms notes every operator that arrives there: so a gradient is in the
graph as the operators of the backward pass, and a batch as those of its rules. torch.fx.symbolic_trace notes what the
program's Python calls instead. What Python decides between the calls isn't noted."""
import inspect
import operator

from tede._C import Tensor
from tede._tags import Tag
from tede.fx.graph import Graph
from tede.fx.graph_module import GraphModule
from tede.utils import _pytree as tree
from tede.utils._python_dispatch import TorchDispatchMode

__all__ = ["make_fx", "get_proxy_mode"]


def get_proxy_mode():
    """The mode that is noting operators, or None."""
    from tede import _C
    return next((mode for mode in reversed(_C._torch_dispatch_stack()) if isinstance(mode, _Recorder)), None)


def _place(x):
    """Where a tensor's elements are, and how they are read; None for one without memory of its own."""
    try:
        return x.data_ptr() and (x.data_ptr(), x.shape, x.stride(), x.dtype, x.is_conj(), x.is_neg())
    except RuntimeError:
        return None


class _Recorder(TorchDispatchMode):
    """Notes operators in a graph. Tensors are held until the end, so that an id, or an address, stands for one of
    them: what a node of autograd saved comes back as another tensor on the same elements."""

    def __init__(self, decompositions, values_are_errors=True):
        super().__init__()
        self.graph, self.decompositions, self.values_are_errors = Graph(), decompositions, values_are_errors
        self.known = set()              # nodes of single numbers that don't depend on the arguments
        self.nodes, self.places, self.constants = {}, {}, {}

    def follow(self, tensor, node):
        self.nodes[id(tensor)] = (node, tensor)
        if place := _place(tensor):
            self.places[place] = node

    def node_of(self, x):
        if not isinstance(x, Tensor):
            return x
        if id(x) in self.nodes:
            return self.nodes[id(x)][0]
        same = self.places.get(_place(x))
        if same is None:
            name = f"_tensor_constant{len(self.constants)}"
            self.constants[name] = x
            same = self.graph.get_attr(name)
            if x.numel() <= 1:
                self.known.add(same)
        self.follow(x, same)
        return same

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        replacement = self.decompositions.get(func)
        if replacement is not None:
            with self:
                result = replacement(*args, **kwargs)
            if result is not NotImplemented:
                return result
        given, named = tree.tree_map(self.node_of, (tuple(args), dict(kwargs)))
        node = self.graph.call_function(func, given, named, name=self.graph._target_to_str(func._opname))
        self._check_values(func, node)
        result = func(*args, **kwargs)
        if all(n in self.known for n in node.all_input_nodes) and Tag.nondeterministic_seeded not in func.tags and node.all_input_nodes and \
                all(x.numel() <= 1 for x in tree.tree_leaves(result) if isinstance(x, Tensor)):
            self.known.add(node)
        elif func._schema.is_mutable:
            self.known.difference_update(node.all_input_nodes)
        if isinstance(result, Tensor):
            self.follow(result, node)
        elif isinstance(result, (tuple, list)):
            for i, member in enumerate(result):
                if isinstance(member, Tensor):
                    item = self.graph.call_function(operator.getitem, (node, i))
                    if node in self.known:
                        self.known.add(item)
                    self.follow(member, item)
        return result

    def _check_values(self, func, node):
        """A value that depends on the arguments would be in the graph as it is now."""
        if self.values_are_errors and Tag.data_dependent_output in func.tags and not all(n in self.known for n in node.all_input_nodes):
            raise RuntimeError(f"It appears that you're trying to get value out of a tracing tensor with {func} - erroring out! It's likely "
                               "that this is caused by data-dependent control flow or similar.")


def _names(function, count):
    """What the flat inputs are called: as the parameters, where each of those is one."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    if len(parameters) < count or any(p.kind not in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters[:count]):
        return [f"arg{i}_1" for i in range(count)]
    return [f"{p.name}_1" for p in parameters[:count]]


def _is_impure(node):
    schema = getattr(node.target, "_schema", None)
    return node.is_impure() or schema is not None and schema.is_mutable


class _Made(GraphModule):
    """The graph as a module, called with arguments of the structure that the function had."""

    def __call__(self, *args):
        flat, spec = tree.tree_flatten(args)
        if spec != self._in_spec:
            raise TypeError(f"make_fx: the graph was made for arguments of structure {self._in_spec}, not {spec}")
        result = super().__call__(*flat)
        return result if self._out_spec.is_leaf() else tree.tree_unflatten(result, self._out_spec)


def make_fx(f, decomposition_table=None, tracing_mode="real", _allow_non_fake_inputs=False, *, pre_dispatch=False,
            record_module_stack=False, _allow_fake_constant=False, _error_on_data_dependent_ops=True):
    """A function that runs f and gives the torch.fx.GraphModule of the operators that arrived below autograd.

    Calls of what `decomposition_table` has are noted as the parts that it makes of them. ``tracing_mode="fake"`` runs on the
    values, too; symbolic shapes, and operators as they are above autograd (`pre_dispatch`), aren't there."""
    if tracing_mode not in ("real", "fake", "symbolic"):
        raise AssertionError('tracing_mode should be one of "real", "fake", "symbolic"')
    if tracing_mode == "symbolic":
        raise NotImplementedError("make_fx(tracing_mode='symbolic'): there are no symbolic shapes here")
    if pre_dispatch:
        raise NotImplementedError("make_fx(pre_dispatch=True): operators are noted below autograd only")

    def wrapped(*args):
        flat, in_spec = tree.tree_flatten(args)
        recorder = _Recorder(decomposition_table or {}, _error_on_data_dependent_ops)
        for x, name in zip(flat, _names(f, len(flat)) if len(flat) == len(args) else [f"arg{i}_1" for i in range(len(flat))]):
            node = recorder.graph.placeholder(name)
            if isinstance(x, Tensor):
                recorder.follow(x, node)
        with recorder:
            result = f(*args)
        leaves, out_spec = tree.tree_flatten(result)
        recorder.graph.output(recorder.node_of(result) if out_spec.is_leaf() else [recorder.node_of(x) for x in leaves])
        recorder.graph.eliminate_dead_code(_is_impure)
        used = {node.target for node in recorder.graph.nodes if node.op == "get_attr"}
        held = {name: x for name, x in recorder.constants.items() if name in used}
        made = _Made(held, recorder.graph, getattr(f, "__name__", type(f).__name__))
        made._in_spec, made._out_spec = in_spec, out_spec
        return made
    return wrapped
