"""torch.onnx.export: the graph of a module's call, operator by operator as `onnx:` of the entries says, or as their formulas do."""
import functools
import operator
import os

import tede
from tede._tags import Tag
from tede._tracing import recording
from tede.export._dims import varying_dims
from tede.export._recording import FunctionModule, evaluating, record
from tede.fx.node import map_arg
from tede.onnx import _formulas, _rules
from tede.onnx._builder import Builder, Unsupported, Value
from tede.onnx._entries import ONNX
from tede.utils import _pytree as tree

OLDEST, USUAL, NEWEST = 18, 18, 23
_ARITHMETIC = {operator.mul: "Mul", operator.add: "Add", operator.sub: "Sub", operator.floordiv: "Div"}


def _package():
    try:
        import onnx
    except ImportError as error:
        raise ImportError("torch.onnx.export needs the package onnx: pip install 'tede[onnx]'") from error
    return onnx


class ONNXProgram:
    """What export gives: `model_proto`, and the module's arguments in the order of the model's inputs."""

    def __init__(self, proto, constants):
        self.model_proto, self._constants = proto, constants

    @property
    def model(self):
        return self.model_proto

    def save(self, destination, *, external_data=None, **options):
        """Write the model; its weights beside it, in NAME.data, if `external_data` or if they are too large for one file."""
        onnx = _package()
        if not isinstance(destination, (str, os.PathLike)):
            destination.write(self.model_proto.SerializeToString())
            return
        size = sum(len(x.raw_data) for x in self.model_proto.graph.initializer)
        if external_data or (external_data is None and size > 1_900_000_000):
            copy = onnx.ModelProto()
            copy.CopyFrom(self.model_proto)
            onnx.save_model(copy, destination, save_as_external_data=True, all_tensors_to_one_file=True,
                            location=os.path.basename(destination) + ".data")
        else:
            onnx.save_model(self.model_proto, destination)

    def inputs(self, *args, **kwargs):
        """{name: array} of a call's arguments, for a session of onnxruntime."""
        tensors = [x for x in tree.tree_leaves((args, kwargs)) if isinstance(x, tede.Tensor)]
        return {value.name: x.detach().cpu().numpy() for value, x in zip(self.model_proto.graph.input, tensors, strict=True)}

    def __call__(self, *args, **kwargs):
        """The model's results, computed by onnxruntime."""
        import onnxruntime
        session = onnxruntime.InferenceSession(self.model_proto.SerializeToString(), providers=["CPUExecutionProvider"])
        return tuple(map(tede.from_numpy, session.run(None, self.inputs(*args, **kwargs))))

    def __repr__(self):
        return f"ONNXProgram({_package().printer.to_text(self.model_proto.graph)})"


_PYTHON = {"float": float, "int": int, "len": len, "range": range}


class _Names(dict):
    """What the words of an `onnx:` expression are."""

    def __init__(self, builder, arguments):
        super().__init__(arguments)
        self.builder = builder

    def __missing__(self, word):
        if word in _PYTHON:
            return _PYTHON[word]
        if word[0].isupper():
            return functools.partial(self.builder.op, word)
        return self.builder.cast if word == "cast" else functools.partial(getattr(_rules, word), self.builder)


class _Translation:
    def __init__(self, builder, table):
        self.b, self.table = builder, table
        self.env, self.missing = {}, {}

    def shape_of(self, node, val):
        return list(node.meta["sizes"]) if "sizes" in node.meta else list(val.shape)

    def run(self, node):
        if node.target is operator.getitem:
            result = self.value_of(node.args[0])[node.args[1]]
        elif node.target is tede.ops.aten.sym_size.int:
            x, dim = self.value_of(node.args[0]), node.args[1]
            result = self.b.op("Gather", self.b.op("Shape", x), self.b.constant(dim, tede.int64), axis=0)
        elif node.target in _ARITHMETIC:
            result = self.b.op(_ARITHMETIC[node.target], *(self.b.cast(self.argument(x), tede.int64) for x in node.args))
        else:
            result = self.call(node)
        self.env[node] = self.described(node, result)

    def described(self, node, result):
        """The results with the dtypes and shapes that the program has."""
        val = node.meta.get("val")
        if isinstance(result, Value) and isinstance(val, tede.Tensor):
            result = self.b.cast(result, val.dtype)
            result.shape = self.shape_of(node, val)
        elif isinstance(result, (tuple, list)):
            result = tuple(self.b.cast(x, v.dtype) if isinstance(x, Value) and isinstance(v, tede.Tensor) else x for x, v in zip(result, val))
        return result

    def value_of(self, node):
        return self.env[node]

    def argument(self, a):
        """An argument with values for its nodes."""
        return map_arg(a, self._used)

    def _used(self, node):
        x = self.env[node]
        if x is None:
            raise Unsupported(f"torch.onnx.export: {node.args[0].target} gives a result, number {node.args[1]}, that ONNX doesn't")
        if isinstance(x, _rules.LastOnly):
            raise Unsupported("torch.onnx.export: states of all steps of a recurrent layer's cells; ONNX has the last one")
        return x

    def bound(self, node):
        schema = node.target._schema.arguments
        given = dict(zip((a.name for a in schema), node.args)) | dict(node.kwargs)
        return {a.name: given.get(a.name, a.default_value) for a in schema}

    def call(self, node):
        op = node.target
        bound = self.bound(node)
        first = bound.get("self")
        if hasattr(first, "op") and isinstance(self.env.get(first), _rules.LastOnly):
            return self.last_only(node, bound)
        arguments = {name: self.argument(a) for name, a in bound.items()}
        for key in (op, op._overloadpacket):
            if key in self.table:
                return self.table[key](*self.argument(node.args), **self.argument(dict(node.kwargs)))
        if Tag.nondeterministic_seeded in op.tags:
            raise Unsupported(f"torch.onnx.export: {op} draws random numbers; call model.eval() first if it is a dropout")
        if not any(self.b.is_value(x) for x in tree.tree_leaves(arguments)):
            return self.b.constant(op(*node.args, **{**node.kwargs, **({"device": "cpu"} if "device" in node.kwargs else {})}))
        if text := _entry(op):
            return eval(_compiled(text), {"__builtins__": {}}, _Names(self.b, {"result": _dtype(node.meta.get("val")), **arguments}))
        formulas, _ = _formulas.formula_of(op)
        if formulas is None:
            raise Unsupported(f"torch.onnx.export: there is no ONNX for {op} (`onnx:` of its entry, or custom_translation_table)")
        return _formulas.write(self.b, op, formulas, arguments, node.meta["val"].dtype)

    def last_only(self, node, bound):
        x = self.env[bound["self"]]
        length = node.args[0].meta["val"].shape[0]
        index = bound.get("index")
        at = 0 if x.index == 0 else length - 1
        if node.target is not tede.ops.aten.select.int or bound["dim"] != 0 or (not isinstance(index, int) and x.index == 0) or \
                (isinstance(index, int) and index % length != at):
            raise Unsupported("torch.onnx.export: states of all steps of a recurrent layer's cells; ONNX has the last one")
        return x.value


def _entry(op):
    """`onnx:` of the operator's entry; of one that takes numbers, that of its overload for tensors."""
    if text := ONNX.get(_name(op)):
        return text
    names = {a.name for a in op._schema.arguments}
    for overload in op._overloadpacket.overloads():
        other = getattr(op._overloadpacket, overload)
        if not other._schema.is_mutable and names == {a.name for a in other._schema.arguments} and (text := ONNX.get(_name(other))):
            return text
    return None


def _name(op):
    return op._schema.name + (f".{op._overloadname}" if op._overloadname != "default" else "")


def _dtype(val):
    """The dtype of a result, or of the first of several."""
    return val.dtype if isinstance(val, tede.Tensor) else _dtype(val[0]) if isinstance(val, (tuple, list)) and val else None


@functools.cache
def _compiled(text):
    return compile(text, f"<onnx: {text}>", "eval")


def translate(recorded, opset=USUAL, input_names=None, output_names=None, output_dims=None, table=None, name="main_graph"):
    """A recording as an ONNXProgram."""
    onnx = _package()
    if not OLDEST <= opset <= min(NEWEST, onnx.defs.onnx_opset_version()):
        raise ValueError(f"torch.onnx.export: opset_version is {opset}; {OLDEST} to {min(NEWEST, onnx.defs.onnx_opset_version())} can be written")
    b = Builder(onnx, opset)
    t = _Translation(b, {key: functools.partial(rule, b) for key, rule in (table or {}).items()})
    inputs, users, names = [], set(recorded.users), list(input_names or ())
    b.names.update(recorded.state)
    originals = {node: key for key, node in recorded.places.items()}
    problems, leaf_names = {}, dict(zip(recorded.users, recorded.leaf_names))

    def described(name, dtype, shape):
        shape = [f"{name}_dim_{i}" if d is None else d for i, d in enumerate(shape)]
        return onnx.helper.make_tensor_value_info(name, b.elem_type(dtype), shape)
    for node in recorded.graph.nodes:
        if node.op == "placeholder":
            val = node.meta.get("val")
            if node in users:
                if not isinstance(val, tede.Tensor):
                    continue
                given = names.pop(0) if names else leaf_names[node]
                if given in b.names:
                    raise ValueError(f"torch.onnx.export: two inputs, or an input and a weight, have the name '{given}'")
                b.names.add(given)
                t.env[node] = Value(given, val.dtype, t.shape_of(node, val))
                inputs.append(described(given, val.dtype, t.env[node].shape))
            elif node.users:
                key = originals.get(node)
                tensor = recorded.state[key] if key else recorded.constants[node.name]
                t.env[node] = b.initializer(key or b.name(node.name), tensor)
        elif node.op == "call_function" and not problems.keys() & set(node.all_input_nodes):
            try:
                t.run(node)
            except Unsupported as error:
                problems[node] = str(error)
        elif node.op == "call_function":
            problems[node] = None
    if problems:
        raise Unsupported("\n".join(dict.fromkeys(text for text in problems.values() if text)))
    outputs = []
    for i, result in enumerate(x for x in recorded.results if x is not None):
        value = t.argument(result)
        value = value if b.is_value(value) else b.constant(value)
        given = output_names[i] if output_names and i < len(output_names) else b.name(f"output_{i}" if len(recorded.results) > 1 else "output")
        b.names.add(given)
        b.nodes.append(onnx.helper.make_node("Identity", [value.name], [given]))
        shape = list(value.shape or [])
        for dim, label in (output_dims or {}).get(given, {}).items():
            shape[dim] = label
        outputs.append(described(given, value.dtype, shape))
    b.prune([x.name for x in outputs])
    graph = onnx.helper.make_graph(b.nodes, name, inputs, outputs, initializer=b.initializers)
    model = onnx.helper.make_model(graph, producer_name="tede", producer_version=tede.__version__, ir_version=10,
                                   opset_imports=[onnx.helper.make_opsetid("", opset)])
    onnx.checker.check_model(model)
    return ONNXProgram(model, None)


def _axes(module, args, kwargs, dynamic_axes, input_names):
    """`dynamic_axes` as ({leaf: {dimension: name}}, {output: {dimension: name}})."""
    from tede.export._recording import input_names as leaf_names
    leaves = tree.tree_leaves((args, kwargs))
    names, given = {}, list(input_names or ())
    for i, (leaf, name) in enumerate(zip(leaves, leaf_names(module, args, kwargs))):
        if isinstance(leaf, tede.Tensor):
            names[given.pop(0) if given else name] = i
    varying, outputs = {}, {}
    for name, axes in (dynamic_axes or {}).items():
        axes = axes if isinstance(axes, dict) else {axis: f"{name}_dynamic_axes_{i + 1}" for i, axis in enumerate(axes)}
        if name in names:
            rank = leaves[names[name]].ndim
            varying[names[name]] = {axis % rank: str(label) for axis, label in axes.items()}
        else:
            outputs[name] = {axis: str(label) for axis, label in axes.items()}
    return varying, outputs


def export(model, args=(), f=None, *, kwargs=None, export_params=True, verbose=None, input_names=None, output_names=None, opset_version=None,
           dynamo=True, external_data=None, dynamic_shapes=None, custom_translation_table=None, report=False, optimize=True, verify=False,
           profile=False, dump_exported_program=False, artifacts_dir=".", fallback=False, training=None, operator_export_type=None,
           do_constant_folding=True, custom_opsets=None, export_modules_as_functions=False, autograd_inlining=True, dynamic_axes=None,
           keep_initializers_as_inputs=False):
    """Write a module, or a function, as an ONNX model, and give it as an `ONNXProgram`.

    The model is recorded on the example `args`, in evaluation. Sizes are those of the examples, but for dimensions that `dynamic_shapes` (as of
    torch.export.export) or `dynamic_axes` ({input: {dimension: name}}) name. `f`: a path or a binary file. `opset_version`: 18 to 23.
    `custom_translation_table`: {operator: function(builder, *arguments)}, of which the builder's `op` makes nodes. `verify`: run the model by
    onnxruntime on the example, and compare. The other options are accepted and change nothing."""
    if kwargs is None and isinstance(args, (tuple, list)) and args and isinstance(args[-1], dict) and not isinstance(model, tede.export.ExportedProgram):
        args, kwargs = args[:-1], args[-1]
    args = (args,) if isinstance(args, tede.Tensor) else tuple(args)
    kwargs = dict(kwargs or {})
    if not export_params or keep_initializers_as_inputs or export_modules_as_functions:
        raise NotImplementedError("torch.onnx.export: weights are written as initializers; export_params=False, keep_initializers_as_inputs and "
                                  "export_modules_as_functions aren't there")
    outputs = {}
    if isinstance(model, tede.export.ExportedProgram):
        recorded = model._recording
    else:
        module = model if isinstance(model, tede.nn.Module) else FunctionModule(model)
        if dynamic_axes and dynamic_shapes is None:
            varying, outputs = _axes(module, args, kwargs, dynamic_axes, input_names)
        else:
            varying, _ = varying_dims(module, args, kwargs, dynamic_shapes)
        with recording("onnx", "exporting"), evaluating(module):
            recorded = record(module, args, kwargs, varying)
    program = translate(recorded, opset_version or USUAL, input_names, output_names, outputs, custom_translation_table)
    if verify:
        with tede.no_grad(), evaluating(module):
            expected = [x for x in tree.tree_leaves(module(*args, **kwargs)) if x is not None]
        for got, want in zip(program(*args, **kwargs), expected):
            tede.testing.assert_close(got, want, rtol=1e-3, atol=1e-4)
    if f is not None:
        program.save(f, external_data=external_data)
    return program


__all__ = ["ONNXProgram", "Unsupported", "export", "translate"]
