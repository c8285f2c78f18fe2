"""split_module: the nodes of a graph, sorted into parts by a callback, become one submodule for each part."""
import operator

from tede.fx.graph import Graph
from tede.fx.graph_module import GraphModule
from tede.fx.node import map_arg

__all__ = ["Partition", "split_module"]


class Partition:
    """A part: its graph, what it names, what it takes and gives (names of nodes), and on which parts it depends."""

    def __init__(self, name, affix=None):
        self.name = name
        self.submod_name = f"submod_{affix}_{name}" if affix else f"submod_{name}"
        self.node_names, self.inputs, self.outputs, self.dependencies, self.dependents = [], {}, {}, {}, {}
        self.graph, self.environment, self.targets = Graph(), {}, {}

    def __repr__(self):
        return (f"name: {self.name},\n nodes: {self.node_names},\n inputs: {list(self.inputs)},\n outputs: {list(self.outputs)},\n "
                f"partitions depended on: {list(self.dependencies)},\n partition dependents: {list(self.dependents)}")


def _attribute(root, path):
    for part in path.split("."):
        if not hasattr(root, part):
            raise AttributeError(f"Node target {path} not found!")
        root = getattr(root, part)
    return root


def _order(partitions, keep_original):
    """The parts, each behind those it depends on; in the order of their first nodes as far as that allows."""
    if keep_original:
        return list(partitions)
    missing = {name: len(p.dependencies) for name, p in partitions.items()}
    ready = [name for name in partitions if not missing[name]]
    order = []
    while ready:
        name = ready.pop(0)
        order.append(name)
        for dependent in partitions[name].dependents:
            missing[dependent] -= 1
            if not missing[dependent]:
                ready.append(dependent)
    if len(order) != len(partitions):
        raise RuntimeError("cycle exists between partitions!")
    return order


def split_module(m, root_m, split_callback, qualname_map=None, keep_original_order=False, keep_original_node_name=False,
                 keep_original_input_name=True, *, partition_affix=None):
    """A module that calls submod_0, submod_1, ..., one for each value that `split_callback(node)` gives.

    Attributes are read outside and handed in. qualname_map: a dictionary that is filled with paths in the submodules -> paths in `m`.
    keep_original_order: the parts run in the order of their first nodes, otherwise in an order that their dependencies allow;
    keep_original_node_name: nodes within have their names; keep_original_input_name: parameters of submodules are called as the values are, otherwise arg_0, ...
    root_m isn't used."""
    partitions, owner = {}, {}
    for node in m.graph.nodes:
        if node.op not in ("placeholder", "get_attr", "output"):
            name = str(split_callback(node))
            owner[node] = partitions.setdefault(name, Partition(name, partition_affix))
            owner[node].node_names.append(node.name)
    for node in m.graph.nodes:
        user = owner.get(node)
        for used in node.all_input_nodes:
            maker = owner.get(used)
            if maker is user:
                continue
            if maker is not None:
                maker.outputs.setdefault(used.name, used)
            if user is not None:
                user.inputs.setdefault(used.name, used)
                if maker is not None:
                    user.dependencies.setdefault(maker.name)
                    maker.dependents.setdefault(user.name)
    order = _order(partitions, keep_original_order)
    for name in order:
        part = partitions[name]
        for i, used in enumerate(part.inputs.values()):
            placeholder = part.graph.placeholder(used.name if keep_original_input_name else f"arg_{i}", type_expr=used.type)
            placeholder.meta = dict(used.meta)
            part.environment[used] = placeholder
    for node in m.graph.nodes:
        part = owner.get(node)
        if part is None:
            continue
        target = node.target
        if node.op == "call_module":
            target = target.replace(".", "_")
            part.targets[target] = _attribute(m, node.target)
            if qualname_map is not None:
                qualname_map[f"{part.submod_name}.{target}"] = node.target
        copy = part.graph.create_node(node.op, target, map_arg(node.args, lambda n: part.environment[n]),  # noqa: B023  used at once
                                      map_arg(node.kwargs, lambda n: part.environment[n]),                # noqa: B023
                                      node.name if keep_original_node_name else None, node.type)
        copy.meta = dict(node.meta)
        part.environment[node] = copy
    return _base(m, partitions, order)


def _base(m, partitions, order):
    """The module that calls the parts."""
    graph, values, attributes = Graph(), {}, {}
    graph.set_codegen(m.graph._codegen)
    waiting = list(order)
    result = None
    for node in m.graph.nodes:
        if node.op == "placeholder":
            values[node] = graph.create_node("placeholder", node.target, node.args, {}, node.name, node.type)
        elif node.op == "get_attr":
            values[node] = graph.get_attr(node.target, type_expr=node.type)
            attributes[node.target] = _attribute(m, node.target)
        elif node.op == "output":
            result = node
            continue
        else:
            continue
        values[node].meta = dict(node.meta)
    for name in waiting:
        part = partitions[name]
        given = tuple(part.environment[node] for node in part.outputs.values())
        part.graph.output(given[0] if len(given) == 1 else given)
        module = GraphModule(part.targets, part.graph)
        module.training = m.training
        attributes[part.submod_name] = module
        call = graph.call_module(part.submod_name, tuple(values[node] for node in part.inputs.values()))
        for i, node in enumerate(part.outputs.values()):
            values[node] = call if len(given) == 1 else graph.call_function(operator.getitem, (call, i))
            values[node].meta = {**node.meta} if len(given) > 1 else call.meta
    if result is not None:
        output = graph.output(map_arg(result.args[0], lambda n: values[n]), type_expr=result.type)
        output.meta = dict(result.meta)
    made = GraphModule(attributes, graph)
    made.training = m.training
    return made
