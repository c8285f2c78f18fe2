"""ExportedProgram: a recorded graph, its signature, and the tensors that it takes besides the arguments."""
import tede
from tede._tracing import recording
from tede.export import _file
from tede.export._dims import varying_dims
from tede.export._recording import record
from tede.export.graph_signature import (ConstantArgument, ExportGraphSignature, InputKind, InputSpec, OutputKind, OutputSpec,
                                         TensorArgument)
from tede.fx.graph import Graph
from tede.fx.graph_module import GraphModule
from tede.fx.node import Node
from tede.nn import Module
from tede.utils import _pytree as tree


class ExportedProgram:
    """graph_module: the graph, whose inputs are parameters, buffers, constants and the arguments, flat, as graph_signature says.

    example_inputs: the arguments that it was recorded with; range_constraints: {name: Dim} of the dimensions that vary."""

    def __init__(self, recorded, example_inputs, range_constraints, persistent=None):
        self._recording, self.example_inputs, self.range_constraints = recorded, example_inputs, range_constraints
        self.graph_module = GraphModule({}, recorded.graph)
        parameters = {name for name, x in recorded.state.items() if isinstance(x, tede.nn.Parameter)}
        self._persistent = set(recorded.module.state_dict()) if persistent is None else persistent
        self.constants = dict(recorded.constants)
        self.graph_signature = _signature(recorded, parameters, self._persistent)

    @property
    def graph(self):
        return self.graph_module.graph

    @property
    def state_dict(self):
        return {name: x for name, x in self._recording.state.items() if name in self._persistent}

    def parameters(self):
        return (x for _, x in self.named_parameters())

    def named_parameters(self):
        return ((name, self._recording.state[name]) for name in self.graph_signature.parameters)

    def buffers(self):
        return (x for _, x in self.named_buffers())

    def named_buffers(self):
        return ((name, self._recording.state[name]) for name in self.graph_signature.buffers)

    @property
    def call_spec(self):
        return self._recording.in_spec, self._recording.out_spec

    def module(self):
        """A module with the program's weights that computes what the program did, for arguments of the same structure and sizes."""
        return unlifted(self._recording, self.range_constraints)

    def run_decompositions(self, decomp_table=None):
        """The program itself: it is of operators that aren't composed already; a table of decompositions is refused."""
        if decomp_table:
            raise NotImplementedError("ExportedProgram.run_decompositions: other decompositions than those of the recording")
        return self

    def __call__(self, *args, **kwargs):
        raise RuntimeError("Unable to call ExportedProgram directly. You should use `exported_program.module()` instead.")

    def __str__(self):
        return f"ExportedProgram:\n{self.graph_module.print_readable(print_output=False)}\nGraph signature: {self.graph_signature}\n" \
               f"Range constraints: {self.range_constraints}\n"

    __repr__ = __str__


def _signature(recorded, parameters, persistent):
    inputs, outputs = [], []
    names = {node: name for name, node in recorded.places.items()}
    values = dict(zip(recorded.users, recorded.flat))
    for node in recorded.graph.nodes:
        if node.op != "placeholder":
            continue
        if node in names:
            name = names[node]
            kind = InputKind.PARAMETER if name in parameters else InputKind.BUFFER
            inputs.append(InputSpec(kind, TensorArgument(node.name), name, None if kind is InputKind.PARAMETER else name in persistent))
        elif node in values:
            x = values[node]
            inputs.append(InputSpec(InputKind.USER_INPUT, TensorArgument(node.name) if isinstance(x, tede.Tensor) else ConstantArgument(node.name, x)))
        else:
            inputs.append(InputSpec(InputKind.CONSTANT_TENSOR, TensorArgument(node.name), node.name))
    for place, value in recorded.writes.items():
        if place in names:
            kind = OutputKind.PARAMETER_MUTATION if names[place] in parameters else OutputKind.BUFFER_MUTATION
            outputs.append(OutputSpec(kind, TensorArgument(value.name), names[place]))
        else:
            outputs.append(OutputSpec(OutputKind.USER_INPUT_MUTATION, TensorArgument(value.name), place.name))
    for value in recorded.results:
        outputs.append(OutputSpec(OutputKind.USER_OUTPUT, TensorArgument(value.name) if isinstance(value, Node) else ConstantArgument("", value)))
    return ExportGraphSignature(inputs, outputs)


class Program(GraphModule):
    """The graph with its weights: called as the module was that it was recorded of."""

    def __call__(self, *args, **kwargs):
        flat, spec = tree.tree_flatten((args, kwargs))
        if spec != self._in_spec:
            args, kwargs = self._bound(args, kwargs)
            flat, spec = tree.tree_flatten((args, kwargs))
        if spec != self._in_spec:
            raise TypeError(f"the program was recorded for arguments of the structure {self._in_spec}, not {spec}")
        self._check(flat)
        leaves = super().__call__(*flat)
        return tree.tree_unflatten(list(leaves), self._out_spec)

    def _bound(self, args, kwargs):
        """Arguments that were passed by position, by name, and the other way round."""
        names = self._argument_names
        count = len(self._positional)
        given = dict(zip(names, args)) | kwargs
        if set(given) != set(names) or len(args) + len(kwargs) != len(names):
            return args, kwargs
        return tuple(given[name] for name in names[:count]), {name: given[name] for name in names[count:]}

    def _check(self, flat):
        sizes = {}
        for name, x, (shape, dtype) in zip(self._leaf_names, flat, self._described):
            if shape is None:
                if x != dtype:
                    raise RuntimeError(f"{name} was {dtype!r} when the program was recorded; it is {x!r}")
                continue
            if not isinstance(x, tede.Tensor) or x.ndim != len(shape) or x.dtype != dtype:
                raise RuntimeError(f"{name}: a tensor of {len(shape)} dimensions and {dtype} was recorded")
            for dim, (size, known) in enumerate(zip(x.shape, shape)):
                if isinstance(known, int):
                    if size != known:
                        raise RuntimeError(f"Guard failed: {name}.size()[{dim}] == {known}, it is {size}")
                elif sizes.setdefault(known, size) != size:
                    raise RuntimeError(f"Guard failed: {name}.size()[{dim}] == {known}, which is {sizes[known]} elsewhere; it is {size}")
                elif (limits := self._ranges.get(known)) is not None and not (limits.min <= size <= (size if limits.max is None else limits.max)):
                    raise RuntimeError(f"Guard failed: {name}.size()[{dim}] is {size}, not within {limits.min} to {limits.max}")


def unlifted(recorded, ranges, kind=Program):
    root, graph, copies = Module(), Graph(), {}

    def owner(name):
        at = root
        *path, last = name.split(".")
        for part in path:
            if part not in at._modules:
                at.add_module(part, Module())
            at = at._modules[part]
        return at, last
    attributes = {node: name for name, node in recorded.places.items()}
    attributes.update({node: node.name for node in recorded.graph.nodes if node.op == "placeholder" and node.name in recorded.constants})
    for name, x in [*recorded.state.items(), *recorded.constants.items()]:
        at, last = owner(name)
        if isinstance(x, tede.nn.Parameter):
            at.register_parameter(last, x)
        else:
            at.register_buffer(last, x)
    for node in recorded.users:
        copies[node] = graph.placeholder(node.name)
    for node in recorded.graph.nodes:
        if node in copies or node.op == "output":
            continue
        if node.op == "placeholder":
            copies[node] = graph.get_attr(attributes[node])
        else:
            copies[node] = graph.node_copy(node, lambda n: copies[n])
    for place, value in recorded.writes.items():
        graph.call_function(tede.ops.aten.copy_.default, (copies[place], copies[value]))
    graph.output(tuple(copies[x] if isinstance(x, Node) else x for x in recorded.results))
    program = kind(root, graph)
    program._in_spec, program._out_spec, program._ranges = recorded.in_spec, recorded.out_spec, ranges
    program._leaf_names = [node.name for node in recorded.users]
    program._described = [_description(node, x) for node, x in zip(recorded.users, recorded.flat)]
    program._argument_names, program._positional = recorded.argument_names, recorded.args
    return program


def _description(node, x):
    """(shape, dtype) of an argument, or (None, itself) of one that isn't a tensor."""
    if not isinstance(x, tede.Tensor):
        return None, x
    return list(node.meta["sizes"] if "sizes" in node.meta else x.shape), x.dtype


def export(mod, args, kwargs=None, *, dynamic_shapes=None, strict=False, preserve_module_call_signature=(), prefer_deferred_runtime_asserts_over_guards=False):
    """Record a module's call. dynamic_shapes: which dimensions vary, as {argument: {dimension: Dim}} or as a tuple by position.

    A program that depends on values, or on a size that varies, is refused where it does. The other options are accepted."""
    if not isinstance(mod, Module):
        raise ValueError(f"Expected `mod` to be an instance of `torch.nn.Module`, got {type(mod)}.")
    if not isinstance(args, tuple):
        raise TypeError(f"Expecting `args` to be a tuple of example positional inputs, got {type(args)}")
    kwargs = dict(kwargs or {})
    varying, ranges = varying_dims(mod, args, kwargs, dynamic_shapes)
    with recording("exporting"):
        recorded = record(mod, args, kwargs, varying)
    return ExportedProgram(recorded, (args, kwargs), ranges)


def save(ep, f, *, extra_files=None, opset_version=None, pickle_protocol=None):
    """Write a program: a zip archive of the graph as text and the tensors. Read by tede alone."""
    if not isinstance(ep, ExportedProgram):
        raise TypeError(f"The 'ep' parameter must be an instance of 'ExportedProgram', got '{type(ep).__name__}' instead.")
    _file.write(f, ep._recording, "exported program", {"persistent": sorted(ep._persistent), "ranges": {
        name: [dim.min, dim.max] for name, dim in ep.range_constraints.items()}}, extra_files)


def load(f, *, extra_files=None, expected_opset_version=None):
    """A program that save wrote."""
    from tede.export._dims import Dim
    recorded, more = _file.read(f, "exported program", extra_files)
    ranges = {name: Dim(name, min=low, max=high) for name, (low, high) in more["ranges"].items()}
    return ExportedProgram(recorded, None, ranges, set(more["persistent"]))
