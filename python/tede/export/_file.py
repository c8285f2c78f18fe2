"""Recordings as files: a zip archive of the graph as JSON, in which nothing is code, and the tensors, as torch.save writes them."""
import io
import json
import operator
import zipfile

import tede
from tede.export._recording import Recording
from tede.fx.graph import Graph
from tede.fx.node import Node
from tede.utils import _pytree as tree

_VERSION = 1
_PLAIN = {"dtype": tede.dtype, "layout": tede.layout, "memory_format": tede.memory_format, "device": tede.device}


def _coded(a):
    if isinstance(a, Node):
        return {"node": a.name}
    if isinstance(a, tuple):
        return {"tuple": [_coded(x) for x in a]}
    if isinstance(a, list):
        return [_coded(x) for x in a]
    for kind, of in _PLAIN.items():
        if isinstance(a, of):
            return {kind: str(a).rpartition(".")[2] if kind != "device" else str(a)}
    if a is None or isinstance(a, (bool, int, float, str)):
        return a
    if isinstance(a, complex):
        return {"complex": [a.real, a.imag]}
    raise NotImplementedError(f"a graph with {type(a).__name__} among its arguments can't be saved")


def _decoded(a, nodes):
    if isinstance(a, list):
        return [_decoded(x, nodes) for x in a]
    if not isinstance(a, dict):
        return a
    (kind, x), = a.items()
    if kind == "node":
        return nodes[x]
    if kind == "tuple":
        return tuple(_decoded(y, nodes) for y in x)
    if kind == "complex":
        return complex(*x)
    if kind == "device":
        return tede.device(x)
    found = getattr(tede, x)
    if not isinstance(found, _PLAIN[kind]):
        raise RuntimeError(f"'{x}' is no {kind}")
    return found


def _target(target):
    if isinstance(target, str):
        return target
    if getattr(operator, target.__name__, None) is target:
        return f"operator.{target.__name__}"
    return f"{target._schema.name}.{target._overloadname}"


def _target_of(text, op):
    if op != "call_function":
        return text
    if text.startswith("operator."):
        found = {name: getattr(operator, name) for name in ("getitem", "mul", "add", "sub", "floordiv")}
        return found[text.removeprefix("operator.")]
    name, _, overload = text.rpartition(".")
    namespace, _, name = name.partition("::")
    return getattr(getattr(getattr(tede.ops, namespace), name), overload)


def _described(val):
    if isinstance(val, tede.Tensor):
        return {"shape": list(val.shape), "stride": list(val.stride()), "dtype": str(val.dtype).rpartition(".")[2]}
    return [_described(x) for x in val] if isinstance(val, (tuple, list)) else None


def _meta(d):
    if isinstance(d, list):
        return tuple(map(_meta, d))
    return d and tede.empty_strided(d["shape"], d["stride"], dtype=getattr(tede, d["dtype"]), device="meta")


def write(f, recorded, kind, more, extra_files=None):
    nodes = [{"name": n.name, "op": n.op, "target": _target(n.target), "args": _coded(tuple(n.args)), "kwargs": {k: _coded(a) for k, a in n.kwargs.items()},
              "val": _described(n.meta.get("val")), "sizes": n.meta.get("sizes")} for n in recorded.graph.nodes]
    program = {"kind": kind, "version": _VERSION, "nodes": nodes, "places": {name: node.name for name, node in recorded.places.items()},
               "users": [node.name for node in recorded.users], "results": _coded(list(recorded.results)),
               "writes": [[place.name, value.name] for place, value in recorded.writes.items()],
               "flat": [_described(x) if isinstance(x, tede.Tensor) else {"value": _coded(x)} for x in recorded.flat],
               "in_spec": tree.treespec_dumps(recorded.in_spec), "out_spec": tree.treespec_dumps(recorded.out_spec),
               "argument_names": recorded.argument_names, "leaf_names": recorded.leaf_names, "positional": len(recorded.args),
               "parameters": {name: x.requires_grad for name, x in recorded.state.items() if isinstance(x, tede.nn.Parameter)}, **more}
    tensors = io.BytesIO()
    detached = lambda these: {name: x.detach() for name, x in these.items()}
    tede.save({"state": detached(recorded.state), "constants": detached(recorded.constants)}, tensors)
    with zipfile.ZipFile(f, "w") as archive:
        archive.writestr("program.json", json.dumps(program))
        archive.writestr("tensors.pt", tensors.getvalue())
        for name, text in (extra_files or {}).items():
            archive.writestr(f"extra/{name}", text)


def read(f, kind, extra_files=None, map_location=None):
    """(the recording, its JSON)"""
    try:
        archive = zipfile.ZipFile(f)
        program = json.loads(archive.read("program.json"))
    except (zipfile.BadZipFile, KeyError, ValueError) as error:
        raise RuntimeError(f"this isn't an archive of tede's programs ({error}); archives of TorchScript and of torch.export can't be run") from None
    kinds = (kind,) if isinstance(kind, str) else kind
    if program["kind"] not in kinds or program["version"] > _VERSION:
        raise RuntimeError(f"this is a file of a {program['kind']}, version {program['version']}, not of a {' or '.join(kinds)}")
    tensors = tede.load(io.BytesIO(archive.read("tensors.pt")), weights_only=True, map_location=map_location)
    for name in list(extra_files or ()):
        extra_files[name] = archive.read(f"extra/{name}")
    made = Recording.__new__(Recording)
    made.state = {name: tede.nn.Parameter(x, program["parameters"][name]) if name in program["parameters"] else x
                  for name, x in tensors["state"].items()}
    made.constants, made.aliases = tensors["constants"], {}
    made.graph, nodes = Graph(), {}
    for n in program["nodes"]:
        args = _decoded(n["args"], nodes)
        node = made.graph.create_node(n["op"], _target_of(n["target"], n["op"]), args, {k: _decoded(a, nodes) for k, a in n["kwargs"].items()},
                                      name=n["name"])
        nodes[n["name"]] = node
        if n["val"] is not None:
            node.meta["val"] = _meta(n["val"])
        if n["sizes"] is not None:
            node.meta["sizes"] = n["sizes"]
    made.places = {name: nodes[x] for name, x in program["places"].items()}
    made.users = [nodes[x] for x in program["users"]]
    made.results = _decoded(program["results"], nodes)
    made.writes = {nodes[place]: nodes[value] for place, value in program["writes"]}
    made.flat = [_decoded(d["value"], nodes) if "value" in d else _meta(d) for d in program["flat"]]
    made.in_spec, made.out_spec = tree.treespec_loads(program["in_spec"]), tree.treespec_loads(program["out_spec"])
    made.leaf_names = program["leaf_names"]
    made.argument_names, made.args, made.module = program["argument_names"], (None,) * program["positional"], None
    return made, program
