"""CapabilityBasedPartitioner: which nodes a backend takes are joined to as few submodules as their dependencies allow.

From the last node to the first, each joins the partitions below and beside it, unless a path would then lead out of a partition and back into
it; paths through other partitions count, since each of those will be one call."""
from tede.fx._qualified import qualified_name
from tede.fx.passes.utils.fuser_utils import fuse_by_partitions

_GETITEM = "_operator.getitem"


class Partition:
    """Nodes (the keys of a dictionary) under a number."""

    def __init__(self, id=None, nodes=None):
        self.id, self.nodes = id, dict.fromkeys(nodes or ())

    def add_node(self, node):
        self.nodes[node] = None

    def remove_node(self, node):
        del self.nodes[node]

    def size(self):
        return len(self.nodes)

    def __repr__(self):
        return str(self.nodes)


class CapabilityBasedPartitioner:
    """operator_support: an OperatorSupportBase; non_compute_ops: names of functions that make no partition worth while;
    allowed_single_node_partition_ops: names of those that do alone."""

    def __init__(self, graph_module, operator_support, allows_single_node_partition=False, non_compute_ops=None,
                 allowed_single_node_partition_ops=None):
        self.graph_module, self.operator_support = graph_module, operator_support
        self.allows_single_node_partition = allows_single_node_partition
        self.non_compute_ops = non_compute_ops if non_compute_ops is not None else []
        self.allowed_single_node_partition_ops = allowed_single_node_partition_ops or []

    def _is_node_supported(self, node):
        return self.operator_support.is_node_supported(dict(self.graph_module.named_modules()), node)

    def propose_partitions(self):
        """The partitions, those whose nodes come last first."""
        submodules = dict(self.graph_module.named_modules())
        nodes = list(self.graph_module.graph.nodes)
        position = {node: i for i, node in enumerate(nodes)}
        owner, partitions = {}, {}      # node -> number of its partition; number -> partition

        def cyclic(first, second):
            """Whether a way leads out of two partitions and back."""
            inside = [*first.nodes, *second.nodes]
            last, seen, joined = max(position[node] for node in inside), set(), (first.id, second.id)
            waiting = [user for node in inside for user in node.users if owner.get(user) not in joined]
            while waiting:
                node = waiting.pop()
                if owner.get(node) in joined:
                    return True
                if node in seen:
                    continue
                seen.add(node)
                if node in owner:       # it will run when the whole partition does
                    members = [m for m in partitions[owner[node]].nodes if m not in seen]
                    seen.update(members)
                    waiting.extend(user for m in members for user in m.users)
                if position[node] <= last or node in owner:
                    waiting.extend(node.users)
            return False
        for node in reversed(nodes):
            if node.op in ("placeholder", "output") or not self.operator_support.is_node_supported(submodules, node):
                continue
            one = Partition(len(nodes) - position[node], [node])
            partitions[one.id], owner[node] = one, one.id
            for other in [p for p in partitions.values() if p is not one]:
                if not cyclic(one, other):
                    for member in other.nodes:
                        one.add_node(member)
                        owner[member] = one.id
                    del partitions[other.id]
        # What is taken apart by getitem stays with what made it.
        for node in nodes:
            if node.users and all(user.op == "call_function" and qualified_name(user.target) == _GETITEM for user in node.users):
                for user in node.users:
                    if owner.get(user) != owner.get(node):
                        if user in owner:
                            partitions[owner.pop(user)].remove_node(user)
                        if node in owner:
                            owner[user] = owner[node]
                            partitions[owner[node]].add_node(user)
        return [p for p in partitions.values() if p.size() > 0 and (self.allows_single_node_partition or self._worth_while(p))]

    def _worth_while(self, partition):
        computing = 0
        for node in partition.nodes:
            if node.op == "call_function":
                name = qualified_name(node.target)
                if name in self.allowed_single_node_partition_ops:
                    return True
                computing += name not in {"torch.ops.aten.view", _GETITEM, *self.non_compute_ops}
            else:
                computing += node.op != "get_attr"
        return computing > 1

    def fuse_partitions(self, partitions, prefix="fused_"):
        """The module with the partitions as submodules."""
        return fuse_by_partitions(self.graph_module, [dict(p.nodes) for p in partitions], prefix=prefix)

    def remove_bookend_non_compute_ops(self, partitions):
        """Take the functions of non_compute_ops out of partitions where nothing but such is before or behind them."""
        skipped = set(self.non_compute_ops)

        def passes(node):
            return node.op == "call_function" and qualified_name(node.target) in skipped
        for partition in partitions:
            edge = set()
            for neighbours in (lambda n: n.all_input_nodes, lambda n: list(n.users)):
                changed, found = True, set()
                while changed:
                    more = {n for n in partition.nodes if n not in found and passes(n)
                            and all(m in found or m not in partition.nodes for m in neighbours(n))}
                    found |= more
                    changed = bool(more)
                edge |= found
            for node in edge:
                partition.remove_node(node)

    def partition_and_fuse(self, prefix="fused_"):
        return self.fuse_partitions(self.propose_partitions(), prefix)
