"""Backward passes of a stage, whole or in two parts: gradients of its inputs, which the stage before waits for, and those of its weights, at any later time.

Of a stage's graph the nodes through which gradients go on to an input are its spine. What hangs on a node of the spine, or of an output that no input
leads to, and ends at weights needs the gradient that reaches that node and nothing else: the first part keeps it, the second begins there."""
import tede
from tede.autograd.graph import GradientEdge, get_gradient_edge

__all__ = ["stage_backward", "stage_backward_input", "stage_backward_weight"]


def stage_backward(stage_output, output_grads, input_values, outputs_with_grads_idxs=None):
    """Gradients of everything; those of the inputs are returned, None for one that needs none."""
    outputs = stage_output if isinstance(stage_output, (list, tuple)) else (stage_output,)
    grads = output_grads if isinstance(output_grads, (list, tuple)) else (output_grads,) * len(outputs)
    needed = [(x, g) for x, g in zip(outputs, grads) if isinstance(x, tede.Tensor) and x.requires_grad]
    tede.autograd.backward([x for x, _ in needed], [g for _, g in needed])
    return tuple(x.grad if isinstance(x, tede.Tensor) else None for x in input_values)


def _children(node):
    return [child for child, _ in node.next_functions if child is not None]


def _spine(roots, ends):
    """The nodes below the roots from which an end can be reached."""
    parents, stack, seen = {}, list(roots), set(roots)
    while stack:
        node = stack.pop()
        for child in _children(node):
            parents.setdefault(child, []).append(node)
            if child not in seen:
                seen.add(child)
                stack.append(child)
    found, stack = set(), [end for end in ends if end in seen]
    while stack:
        node = stack.pop()
        if node not in found:
            found.add(node)
            stack += parents.get(node, ())
    return found


def _weights_below(node, spine, weights):
    """The weights that are reached without the spine."""
    found, seen = [], set()
    stack = [node] if node not in spine else [child for child in _children(node) if child not in spine]
    while stack:
        one = stack.pop()
        if one not in seen:
            seen.add(one)
            found += [weights[one]] if one in weights else []
            stack += _children(one)
    return found


def stage_backward_input(stage_outputs_or_loss, output_grads, input_values, weights):
    """(gradients of the inputs, what stage_backward_weight needs). The inputs' `grad` is set, too; weights have none yet."""
    grads = output_grads if output_grads is not None else [None] * len(stage_outputs_or_loss)
    outputs = [(x, g if g is not None else tede.ones_like(x)) for x, g in zip(stage_outputs_or_loss, grads) if x.requires_grad]
    inputs = [x for x in input_values if isinstance(x, tede.Tensor) and x.requires_grad]
    by_node = {get_gradient_edge(w).node: w for w in weights if w.requires_grad}
    roots = [get_gradient_edge(x) for x, _ in outputs]
    spine = _spine([edge.node for edge in roots], [get_gradient_edge(x).node for x in inputs])
    groups = {node: (found, {}) for node in spine if (found := _weights_below(node, spine, by_node))}
    for edge, (_, grad) in zip(roots, outputs):
        if edge.node not in spine and (found := _weights_below(edge.node, spine, by_node)):
            groups.setdefault(edge.node, (found, {}))[1][edge] = grad
    listed = [w for found, _ in groups.values() for w in found]
    handles = []
    if len(set(map(id, listed))) == len(listed):
        handles = [node.register_prehook(_keep(node, kept)) for node, (_, kept) in groups.items() if node in spine]
        groups = list(groups.values())
    else:               # a weight at two places: each place would count the other, too
        groups = [(list(by_node.values()), {edge: grad for edge, (_, grad) in zip(roots, outputs)})]
    found = tede.autograd.grad([x for x, _ in outputs], inputs, [g for _, g in outputs], retain_graph=True) if inputs else ()
    for handle in handles:
        handle.remove()
    for x, grad in zip(inputs, found):
        x.grad = grad if x.grad is None else x.grad + grad
    of = {id(x): grad for x, grad in zip(inputs, found)}
    return tuple(of.get(id(x)) for x in input_values), groups


def _keep(node, kept):
    def keep(grads):
        kept.update({GradientEdge(node, i): g for i, g in enumerate(grads) if g is not None})
    return keep


def stage_backward_weight(weights, param_groups, retain_graph=False):
    """Gradients of the weights, added to what they have; those of `weights` are returned."""
    for found, reached in param_groups:
        grads = tede.autograd.grad(list(reached), found, list(reached.values()), retain_graph=retain_graph, allow_unused=True)
        for w, grad in zip(found, grads):
            if grad is not None:
                w.grad = grad if w.grad is None else w.grad + grad
    return tuple(w.grad for w in weights)
