"""Control flow as functions: cond, while_loop, scan, associative_scan and map; and out_dtype.

They run as they stand. While a mode notes operators in a graph (make_fx), cond of a tensor, while_loop and map are noted
as one operator each, ops.higher_order's, whose arguments are the graphs of the functions; what these take from outside are arguments, too."""
import functools

import tede
from tede import _C
from tede._hop import HigherOrderOperator
from tede._sym import SymBool
from tede.func._levels import FUNCTIONALIZE
from tede.utils import _pytree


class _ControlFlow(HigherOrderOperator):
    """What a graph calls. It runs as the function here does, and gives its results as a tuple."""

    def __init__(self, name, run):
        super().__init__(name)
        self._run = run

    def __call__(self, *args):
        return self._run(*args)


def current_recorder():
    """The mode that notes operators now, or None."""
    return next((mode for mode in reversed(_C._torch_dispatch_stack()) if getattr(mode, "takes_control_flow", False) and not mode.paused), None)


def _flat(function, tree):
    """The function as one of the leaves of its arguments, which gives the leaves of its result, and a list that gets the results' tree."""
    made = []

    def flat(*leaves):
        result, structure = _pytree.tree_flatten(function(*_pytree.tree_unflatten(list(leaves), tree)))
        made.append(structure)
        return tuple(result)
    return flat, made


def cond(pred, true_fn, false_fn, operands=()):
    """``true_fn(*operands)`` if pred, else ``false_fn(*operands)``: one of them runs, and a graph that is recorded has
    both. Within `vmap`, where each member has a predicate, both run.

        pred: a bool, or a tensor of one.
        operands: a tuple of tensors.

    Both must give tensors of the same shapes and dtypes.

    >>> tede.cond(tede.tensor(True), lambda x: x + 1, lambda x: x - 1, (tede.tensor(1),))
    tensor(2)
    """
    if not isinstance(pred, (bool, tede.Tensor, SymBool)):
        raise RuntimeError(f"Expected pred to be bool or tensor, but got {pred}.")
    if isinstance(pred, tede.Tensor) and pred.numel() != 1:
        raise RuntimeError(f"Expected pred to be bool or single-element tensor, but got {pred}.")
    if not callable(true_fn) or not callable(false_fn):
        raise RuntimeError("Expect both branches to be callable.")
    if not isinstance(pred, bool) and _is_functional((pred, operands)):
        return below_functionalize(lambda functions, values: cond(values[0], *functions, values[1]), [true_fn, false_fn], (pred, operands),
                                   "One of torch.cond branch might be {}ing the input!", "modify")
    recorder = current_recorder() if not isinstance(pred, bool) else None
    if recorder is not None and (isinstance(pred, SymBool) or recorder.sees(pred)):
        return _recorded_cond(recorder, pred, true_fn, false_fn, operands)
    if isinstance(pred, tede.Tensor) and _C._transform_level() and _C._transform_unwrap(pred)[1] >= 0:
        chosen, other, tree = _both(true_fn, false_fn, operands)
        return _pytree.tree_unflatten([tede.where(pred, a, b) for a, b in zip(chosen, other)], tree)
    if _is_fake(pred):
        chosen, other, tree = _both(true_fn, false_fn, operands)
        for a, b in zip(chosen, other):
            if a.shape != b.shape or a.dtype != b.dtype or a.device != b.device:
                raise RuntimeError(f"cond: the branches give different results: {a} and {b}")
        return _pytree.tree_unflatten(chosen, tree)
    return (true_fn if pred else false_fn)(*operands)


def _is_fake(x):
    """Whether x is a tensor whose value isn't there to be asked."""
    if not isinstance(x, tede.Tensor) or getattr(x, "fake_mode", None) is not None:
        return isinstance(x, tede.Tensor)
    return any(getattr(mode, "fake_tensor_converter", None) is not None for mode in _C._torch_dispatch_stack())


def _is_functional(values):
    """Whether the innermost level is functionalize's, and some of these are its tensors."""
    level, kind = _C._transform_level(), _C._transform_now()
    return level and kind[0] == FUNCTIONALIZE and any(getattr(x, "_level", None) == level for x in _pytree.tree_leaves(values) if isinstance(x, tede.Tensor))


class UnsupportedAliasMutationException(RuntimeError):
    """A function of control flow writes to what it is given, or gives it back."""


# (run, functions, values, says) -> what run(functions, values) gives below functionalize's level, for functional forms of the functions.
# Functional tensors bring it (tede._subclasses.functional_tensor), which call operators and so can't be named here.
below_functionalize = None


def _both(true_fn, false_fn, operands):
    """The leaves of what either branch gives, and their tree."""
    (chosen, tree), (other, structure) = (_pytree.tree_flatten(branch(*operands)) for branch in (true_fn, false_fn))
    _check_structures(tree, structure)
    return chosen, other, tree


def _check_structures(tree, structure):
    if tree != structure:
        raise RuntimeError(f"cond: the branches give results of different structure: {tree} and {structure}")


def _recorded_cond(recorder, pred, true_fn, false_fn, operands):
    leaves, tree = _pytree.tree_flatten(tuple(operands))
    if isinstance(pred, SymBool):
        recorder.node_of(pred)
    (true_fn, structure), (false_fn, other) = _flat(true_fn, tree), _flat(false_fn, tree)
    graphs, inputs = recorder.graphs_of([true_fn, false_fn], leaves)
    _check_structures(structure[-1], other[-1])
    if tede.is_grad_enabled() and any(isinstance(x, tede.Tensor) and x.requires_grad for x in inputs):
        found = recorder.cond_with_gradient(pred, graphs, *inputs)
    else:
        found = noted_cond(recorder, pred, graphs, inputs)
    return _pytree.tree_unflatten(list(found), structure[-1])


def noted_cond(recorder, pred, graphs, inputs):
    with recorder.alone():
        found = graphs[0 if recorder.fake_mode is not None or pred else 1](*inputs)
    return recorder.note(cond_op, {"true_graph": graphs[0], "false_graph": graphs[1]}, found,
                         lambda graphs, node: (node(pred), *graphs, tuple(node(x) for x in inputs)))


def while_loop(cond_fn, body_fn, carried_inputs):
    """``body_fn(*values)`` gives the next values as long as ``cond_fn(*values)`` says so; a graph that is recorded has
    the loop.

        carried_inputs: the first values, a tuple of tensors.

    >>> tede.while_loop(lambda i: i < 5, lambda i: (i + 2,), (tede.tensor(0),))
    (tensor(6),)
    """
    if not callable(cond_fn) or not callable(body_fn):
        raise RuntimeError("Expect cond_fn and body_fn to be callable.")
    values = tuple(carried_inputs)
    if _is_functional(values):
        return below_functionalize(lambda functions, values: while_loop(*functions, values), [cond_fn, body_fn], values,
                                   "torch.while_loop's functions might be {}ing the input!", "modify")
    recorder = current_recorder()
    if recorder is not None and all(recorder.sees(x) for x in _pytree.tree_leaves(values) if isinstance(x, tede.Tensor)):
        return _recorded_while_loop(recorder, cond_fn, body_fn, values)
    while True:
        goes_on = cond_fn(*values)
        if not _is_fake(goes_on) and not goes_on:
            return values
        values = body_fn(*values)
        values = tuple(values) if isinstance(values, (tuple, list)) else (values,)
        if len(values) != len(carried_inputs):
            raise RuntimeError(f"body_fn should return {len(carried_inputs)} values, as many as it takes, but got {len(values)}")
        if _is_fake(goes_on):           # one pass shows what the results look like
            return values


def _recorded_while_loop(recorder, cond_fn, body_fn, values):
    leaves, tree = _pytree.tree_flatten(values)
    (body, structure), (goes_on, _) = _flat(body_fn, tree), _flat(cond_fn, tree)
    graphs, inputs = recorder.graphs_of([lambda *leaves: goes_on(*leaves)[0], body], leaves)
    if structure[-1] != tree and len(_pytree.tree_leaves(values)) != structure[-1].num_leaves:
        raise RuntimeError(f"body_fn should return {len(leaves)} values, as many as it takes, but got {structure[-1].num_leaves}")
    lifted = tuple(inputs[len(leaves):])
    with recorder.alone():
        if recorder.fake_mode is not None:
            found = graphs[1](*inputs)
        else:
            found = _run_while_loop(*graphs, leaves, lifted)
    found = recorder.note(while_loop_op, {"while_loop_cond_graph": graphs[0], "while_loop_body_graph": graphs[1]}, found,
                          lambda graphs, node: (*graphs, tuple(node(x) for x in leaves), tuple(node(x) for x in lifted)))
    return _pytree.tree_unflatten(list(found), tree)


def _run_while_loop(cond_graph, body_graph, carried, lifted):
    return while_loop(lambda *leaves: cond_graph(*leaves, *lifted), lambda *leaves: body_graph(*leaves, *lifted), tuple(carried))


def _sliced(name, xs, dim):
    """The leaves with the dimension `dim` in front, and their tree."""
    leaves, tree = _pytree.tree_flatten(xs)
    if not leaves:
        raise RuntimeError(f"{name}() operator requires at least one xs leaf.")
    if not all(isinstance(x, tede.Tensor) for x in leaves):
        raise RuntimeError(f"All xs leaves must be a Tensor, but got {leaves}.")
    if not isinstance(dim, int):
        raise RuntimeError(f"Dim must be an int, but got {type(dim)}.")
    leaves = [x.movedim(dim, 0) for x in leaves]
    if len({len(x) for x in leaves}) > 1 or not len(leaves[0]):
        raise RuntimeError(f"All xs leaves must have the same length along dim {dim}, at least one, "
                           f"but got {[len(x) for x in leaves]}.")
    return leaves, tree


def _stack_pytree(rows):
    """Trees of tensors to one tree whose leaves have a dimension more, in front. A leaf that is None stays it."""
    flat = [_pytree.tree_flatten(row) for row in rows]
    columns = zip(*(leaves for leaves, _ in flat))
    return _pytree.tree_unflatten([None if all(x is None for x in column) else tede.stack(column) for column in columns], flat[0][1])


def scan(combine_fn, init, xs, *, dim=0, reverse=False):
    """``carry, y = combine_fn(carry, x)`` for each slice x of `xs` along `dim`, from `init` on: the last carry, and all y
    stacked along the first dimension. With `reverse` the slices are taken from the end; y stay where their x were."""
    if not callable(combine_fn):
        raise RuntimeError(f"Combine_fn must be a callable, but got {combine_fn}.")
    leaves, tree = _sliced("scan", xs, dim)
    carry, found = init, []
    structure = _pytree.tree_flatten(init)[1]
    for i in reversed(range(len(leaves[0]))) if reverse else range(len(leaves[0])):
        carry, y = combine_fn(carry, _pytree.tree_unflatten([x[i] for x in leaves], tree))
        if _pytree.tree_flatten(carry)[1] != structure:
            raise RuntimeError("Expected init and carry to have the same tree structure")
        found.append(y)
    return carry, _stack_pytree(found[::-1] if reverse else found)


def _prefixes(combine, leaves):
    """Inclusive prefixes along the first dimension in logarithmically many calls: neighbours are combined, the pairs'
    prefixes are found in the same way; they are those of odd indices, and one element more gives the even ones."""
    length = len(leaves[0])
    if length < 2:
        return leaves
    odd = _prefixes(combine, combine([x[:-1:2] for x in leaves], [x[1::2] for x in leaves]))
    even = [x[:1] for x in leaves]
    if length > 2:
        rest = combine([x[:(length - 1) // 2] for x in odd], [x[2::2] for x in leaves])
        even = [tede.cat(pair) for pair in zip(even, rest)]
    shared = len(odd[0])
    woven = [tede.stack((a[:shared], b), 1).flatten(0, 1) for a, b in zip(even, odd)]
    return [tede.cat((w, a[shared:])) for w, a in zip(woven, even)] if length % 2 else woven


def associative_scan(combine_fn, xs, dim, reverse=False, combine_mode="pointwise"):
    """All prefixes of `xs` along `dim` under an associative `combine_fn(a, b)`, which sees slices without that dimension."""
    if not callable(combine_fn):
        raise ValueError(f"Combine_fn must be a callable, but got {combine_fn}")
    if combine_mode not in ("pointwise", "generic"):
        raise ValueError(f"Combine_mode must either 'pointwise' or 'generic', but got {combine_mode}")
    from tede.func._vmap import vmap       # the module alone: the package's others name operators
    leaves, tree = _sliced("associative_scan", xs, dim)

    def combine(a, b):
        made = vmap(combine_fn)(_pytree.tree_unflatten(a, tree), _pytree.tree_unflatten(b, tree))
        made, structure = _pytree.tree_flatten(made)
        if structure != tree:
            raise RuntimeError("The output of the combine_fn must have the tree structure of xs")
        return made
    if reverse:
        leaves = [x.flip(0) for x in leaves]
    found = _prefixes(combine, leaves)
    return _pytree.tree_unflatten([(x.flip(0) if reverse else x).movedim(0, dim) for x in found], tree)


def _unstack_pytree(xs):
    """The trees of the slices of xs along the first dimension."""
    leaves, tree = _pytree.tree_flatten(xs)
    _check_mapped(leaves)
    return [_pytree.tree_unflatten(list(row), tree) for row in zip(*(x.unbind(0) for x in leaves))]


def _check_mapped(leaves):
    if not all(isinstance(x, tede.Tensor) for x in leaves):
        raise RuntimeError(f"Mapped xs can only consist of tensors. Got xs {leaves}.")
    if not leaves:
        raise RuntimeError("map() operator requires at least one xs leaf.")
    shapes = [x.shape for x in leaves]
    if not all(shapes):
        raise RuntimeError(f"Mapped xs need a first dimension. Got shapes {shapes}.")
    if any(shape[0] != shapes[0][0] for shape in shapes):
        raise RuntimeError(f"Leading dimensions of mapped xs must be consistent. Got shapes {shapes}.")
    if not shapes[0][0]:
        raise RuntimeError("Leading dimensions of mapped xs cannot be 0.")


def map(f, xs, *args):
    """``f(x, *args)`` for each slice x of `xs` along the first dimension, stacked. What f gives is tensors, or None where it is always None."""
    if _is_functional((xs, args)):
        return below_functionalize(lambda functions, values: map(*functions, values[0], *values[1]), [f], (xs, args),
                                   "torch.map is {}ing the input!", "mutat")
    recorder, rows = current_recorder(), []
    if recorder is not None and all(recorder.sees(x) for x in _pytree.tree_leaves(xs)):
        return _recorded_map(recorder, f, xs, args)
    for x in _unstack_pytree(xs):
        row = f(x, *args)
        leaves = _pytree.tree_leaves(row)
        if not all(leaf is None or isinstance(leaf, tede.Tensor) for leaf in leaves):
            raise RuntimeError(f"Expect outputs of map only contains tensors or None. Got types {[type(leaf) for leaf in leaves]}.")
        rows.append(row)
    return _stack_pytree(rows)


def _recorded_map(recorder, f, xs, args):
    leaves, rest = _pytree.tree_leaves(xs), _pytree.tree_leaves(args)
    with recorder.alone():
        _check_mapped(leaves)
        first = _pytree.tree_map(lambda x: x.select(0, 0), xs)
    example, tree = _pytree.tree_flatten((first, *args))
    flat, structure = _flat(f, tree)
    (graph,), inputs = recorder.graphs_of([flat], example)
    rest += inputs[len(example):]
    if tede.is_grad_enabled() and any(isinstance(x, tede.Tensor) and x.requires_grad for x in (*leaves, *rest)):
        found = recorder.map_with_gradient(graph, len(leaves), *leaves, *rest)
    else:
        found = noted_map(recorder, graph, leaves, rest)
    return _pytree.tree_unflatten(list(found), structure[-1])


def noted_map(recorder, graph, leaves, rest):
    with recorder.alone():
        if recorder.fake_mode is not None:          # one row shows what they all look like
            row = graph(*(x.select(0, 0) for x in leaves), *rest)
            found = tuple(None if y is None else y.new_empty((leaves[0].shape[0], *y.shape)) for y in row)
        else:
            found = _run_map(graph, leaves, rest)
    return recorder.note(map_impl, {"body_graph": graph}, found,
                         lambda graphs, node: (*graphs, [node(x) for x in leaves], [node(x) for x in rest]))


def _run_map(graph, xs, args):
    return map(lambda x, *args: tuple(graph(*x, *args)), list(xs), *args)


cond_op = _ControlFlow("cond", lambda pred, true_graph, false_graph, operands: cond(pred, true_graph, false_graph, tuple(operands)))
while_loop_op = _ControlFlow("while_loop", _run_while_loop)
map_impl = _ControlFlow("map_impl", _run_map)


def _run_out_dtype(op, output_dtype, *args):
    schema = getattr(op, "_schema", None)
    if schema is None:
        raise ValueError("out_dtype's first argument must be an OpOverload")
    if schema.is_mutable:
        raise ValueError("out_dtype's first argument needs to be a functional operator")
    if [str(result.type) for result in schema.returns] != ["Tensor"]:
        raise ValueError(f"out_dtype's can only apply to ops that return a single tensor, which {op} doesn't")
    if _is_functional(args):
        return below_functionalize(lambda functions, values: out_dtype(op, output_dtype, *values), [], args, "", "")
    tensors = [x for x in _pytree.tree_leaves(args) if isinstance(x, tede.Tensor)]
    recorder = current_recorder()
    if recorder is None or not all(recorder.sees(x) for x in tensors) or (tede.is_grad_enabled() and any(x.requires_grad for x in tensors)):
        return _in_dtype(op, output_dtype, args)
    with recorder.alone():
        result = _in_dtype(op, output_dtype, args)
    return recorder.note(out_dtype, {}, result, lambda graphs, node: (op, output_dtype, *_pytree.tree_map_only(tede.Tensor, node, args)))


def _in_dtype(op, output_dtype, args):
    wide = functools.reduce(tede.promote_types, (x.dtype for x in _pytree.tree_leaves(args) if isinstance(x, tede.Tensor)), output_dtype)
    return op(*_pytree.tree_map_only(tede.Tensor, lambda x: x.to(wide), args)).to(output_dtype)


out_dtype = _ControlFlow("out_dtype", _run_out_dtype)
out_dtype.__doc__ = """The result of an operator (``torch.ops.aten.mm.default``) in a dtype that holds it: integers of 8 bits are multiplied in `output_dtype`.

    Tensors among the arguments take the dtype that they and `output_dtype` promote to; the result is of `output_dtype`. The operator must be
    functional and give one tensor: a ValueError otherwise. make_fx notes it as one node, ops.higher_order's, unless a gradient is asked for."""
