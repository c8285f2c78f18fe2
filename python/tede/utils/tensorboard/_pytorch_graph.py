"""A module's call as TensorBoard's graph: the operators of its trace, in boxes of the modules that called them."""
import tede
from tede.export._recording import evaluating
from tede.utils.tensorboard._events import message, of_class

_PRODUCER = 22          # the version of TensorFlow's graphs that the messages are of


def _attributes(shape, text):
    """The entries of NodeDef's map: a shape and a text."""
    entries = [] if shape is None else [("_output_shapes", (1, message((7, message(*((2, message((1, n))) for n in shape))))))]
    return [(5, message((1, key), (2, message(value)))) for key, value in [*entries, ("attr", (2, text))]]


def _node(name, op, inputs=(), shape=None, text=""):
    return message((1, name), (2, op), *((3, x) for x in inputs), *_attributes(shape, text))


def _box(names, stack):
    """The box of a module: Net/Sequential[body]/Linear[0]."""
    return "/".join(names[path] + (f"[{path.rpartition('.')[2]}]" if path else "") for path, _ in stack.values())


def _shape(x):
    return list(x.shape) if isinstance(x, tede.Tensor) else None


def graph(model, args, verbose=False, use_strict_trace=True):
    """(GraphDef, RunMetadata) of a module's trace on example inputs, in evaluation mode. RuntimeError: the call fails, or it gives lists or
    dicts and use_strict_trace."""
    with evaluating(model):
        try:
            traced = tede.jit.trace(model, args, strict=use_strict_trace)
        except RuntimeError as error:
            print(error)
            print("Error occurs, No graph saved")
            raise
    if verbose:
        print(traced.graph)
    classes = {path: type(module).__name__ for path, module in model.named_modules()}
    state = {**dict(model.named_parameters(remove_duplicate=False)), **dict(model.named_buffers(remove_duplicate=False))}
    names, nodes = {}, []
    for n in traced.graph.nodes:
        inputs = [names[x] for x in n.all_input_nodes]
        stack, text = n.meta.get("nn_module_stack", {"L__self__": ("", None)}), ""
        if n.op == "placeholder":
            names[n], op = f"input/{n.name}", "IO Node"
        elif n.op == "get_attr":
            owner, _, last = n.target.rpartition(".")
            parts = owner.split(".") if owner else []
            paths = [".".join(parts[:i]) for i in range(len(parts) + 1)]
            names[n], op = f"{_box(classes, {path: (path, None) for path in paths if path in classes})}/{last}/{n.name}", "prim::GetAttr"
        elif n.op == "output":
            nodes += [_node(f"output/output.{i}", "IO Node", [names[x]], _shape(x.meta.get("val"))) for i, x in enumerate(n.all_input_nodes, 1)]
            continue
        else:
            names[n], op = f"{_box(classes, stack)}/{n.name}", getattr(n.target, "_name", f"prim::{n.name}").partition(".")[0]
            text = str([x for x in n.args if not isinstance(x, type(n))]).replace("'", " ")
        value = n.meta.get("val", state.get(n.target) if n.op == "get_attr" else None)
        nodes.append(_node(names[n], op, inputs, _shape(value), text))
    made = message(*((1, node) for node in nodes), (4, message((1, _PRODUCER))))
    device = message((1, message((1, message((1, "/device:CPU:0"))))))
    return of_class("graph_pb2", "GraphDef", made), of_class("config_pb2", "RunMetadata", device)
