"""split_by_tags: the nodes of a graph, each with a `tag`, become one submodule for each tag."""
import dataclasses
import operator

from tede.fx.graph import Graph
from tede.fx.graph_module import _copy_attr, GraphModule
from tede.fx.node import map_arg
from tede.fx.passes.utils.common import HolderModule, lift_subgraph_as_module

__all__ = ["Component", "getattr_recursive", "setattr_recursive", "split_by_tags"]


def getattr_recursive(obj, name):
    """What is at a path; None where a part of the path is missing."""
    for part in name.split("."):
        if not hasattr(obj, part):
            return None
        obj = getattr(obj, part)
    return obj


def setattr_recursive(obj, attr, value):
    *path, last = attr.split(".")
    for part in path:
        obj = getattr(obj, part)
    setattr(obj, last, value)


@dataclasses.dataclass
class Component:
    """The part of a tag: its graph, the nodes that it takes and gives, in the order of parameters and results."""
    graph: object
    order: int
    name: str
    input_placeholders: list = dataclasses.field(default_factory=list)
    orig_inputs: list = dataclasses.field(default_factory=list)
    orig_outputs: list = dataclasses.field(default_factory=list)
    getattr_maps: dict = dataclasses.field(default_factory=dict)
    constructor_args: list = dataclasses.field(default_factory=list)
    gm: object = None


def split_by_tags(gm, tags, return_fqn_mapping=False, return_tuple=False, GraphModuleCls=GraphModule):
    """A module that calls one submodule for each tag, in the tags' order, named as they are.

    Every node but placeholders, attributes and the output must have a tag. An attribute is read in the part that uses it.
    return_fqn_mapping: (the module, paths in `gm` -> paths in it); return_tuple: submodules give tuples also of one value."""
    if len(set(tags)) != len(tags):
        raise AssertionError(f"Got duplicated tags: {tags}")
    parts = {tag: Component(Graph(), i, tag) for i, tag in enumerate(tags)}
    copies, owner = {}, {}              # node -> its copy, its part

    def taken(part, node):
        """A node of `gm` as a value within a part."""
        if owner.get(node) is part:
            return copies[node]
        if node.op == "get_attr":       # parameters are read where they are used
            if node not in part.getattr_maps:
                part.getattr_maps[node] = part.graph.get_attr(node.target, type_expr=node.type)
                part.getattr_maps[node].meta = dict(node.meta)
            return part.getattr_maps[node]
        maker = owner.get(node)
        if maker is not None and maker.order > part.order:
            raise AssertionError(f"component {part.name} (order {part.order}) uses {node} of {maker.name} (order {maker.order}), which runs later")
        if node not in part.orig_inputs:
            placeholder = part.graph.placeholder(node.name, type_expr=node.type)
            placeholder.meta = dict(node.meta)
            part.orig_inputs.append(node)
            part.input_placeholders.append(placeholder)
            if maker is not None and node not in maker.orig_outputs:
                maker.orig_outputs.append(node)
        return part.input_placeholders[part.orig_inputs.index(node)]
    output = None
    for node in gm.graph.nodes:
        if node.op == "output":
            output = node
        elif node.op not in ("placeholder", "get_attr"):
            if not hasattr(node, "tag"):
                raise AssertionError(f"Node {node} needs to have tag")
            part = owner[node] = parts[node.tag]
            copies[node] = part.graph.node_copy(node, lambda n: taken(part, n))      # noqa: B023  used at once
            copies[node].tag = node.tag
    for node in output.all_input_nodes:
        if node in owner and node not in owner[node].orig_outputs:
            owner[node].orig_outputs.append(node)
    main, values, children, paths = Graph(), {}, {}, {}
    main.set_codegen(gm.graph._codegen)
    for node in gm.graph.nodes:
        if node.op == "placeholder" or (node.op == "get_attr" and output in node.users):
            values[node] = main.node_copy(node)
    for part in parts.values():
        results = tuple(copies[node] for node in part.orig_outputs)
        part.graph.output(results if return_tuple or len(results) != 1 else results[0])
        part.gm, moved = lift_subgraph_as_module(gm, part.graph, comp_name=part.name)
        children[part.name] = part.gm
        paths.update(moved)
        call = main.call_module(part.name, tuple(values[node] for node in part.orig_inputs))
        if len(results) == 1 and not return_tuple:
            values[part.orig_outputs[0]] = call
        else:
            for i, node in enumerate(part.orig_outputs):
                values[node] = main.call_function(operator.getitem, (call, i))
        for node in part.orig_outputs:
            values[node].meta = dict(node.meta)
    main.output(map_arg(output.args[0], lambda n: values[n]), type_expr=output.type).meta = dict(output.meta)
    root = HolderModule(children)
    for node in main.nodes:
        if node.op == "get_attr":
            _copy_attr(gm, root, node.target)
    made = GraphModuleCls(root, main)
    return (made, paths) if return_fqn_mapping else made
