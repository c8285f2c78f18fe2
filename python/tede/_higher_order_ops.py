"""Control flow as functions: cond, while_loop, scan, associative_scan and map. They run as they stand; nothing is traced."""
import tede
from tede.utils import _pytree


def cond(pred, true_fn, false_fn, operands=()):
    """``true_fn(*operands)`` if pred, else ``false_fn(*operands)``: one of them runs, nothing is traced."""
    if not isinstance(pred, (bool, tede.Tensor)):
        raise RuntimeError(f"Expected pred to be bool or tensor, but got {pred}.")
    if isinstance(pred, tede.Tensor) and pred.numel() != 1:
        raise RuntimeError(f"Expected pred to be bool or single-element tensor, but got {pred}.")
    if not callable(true_fn) or not callable(false_fn):
        raise RuntimeError("Expect both branches to be callable.")
    return (true_fn if pred else false_fn)(*operands)


def while_loop(cond_fn, body_fn, carried_inputs):
    """``body_fn(*values)`` gives the next values as long as ``cond_fn(*values)`` says so."""
    if not callable(cond_fn) or not callable(body_fn):
        raise RuntimeError("Expect cond_fn and body_fn to be callable.")
    values = tuple(carried_inputs)
    while cond_fn(*values):
        values = body_fn(*values)
        values = tuple(values) if isinstance(values, (tuple, list)) else (values,)
        if len(values) != len(carried_inputs):
            raise RuntimeError(f"body_fn should return {len(carried_inputs)} values, as many as it takes, but got {len(values)}")
    return values


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


def _stacked(rows):
    """Trees of tensors to one tree whose leaves have a dimension more, in front."""
    flat = [_pytree.tree_flatten(row) for row in rows]
    return _pytree.tree_unflatten([tede.stack(column) for column in zip(*(leaves for leaves, _ in flat))], flat[0][1])


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
    return carry, _stacked(found[::-1] if reverse else found)


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


def map(f, xs, *args):
    """``f(x, *args)`` for each slice x of `xs` along the first dimension, stacked."""
    leaves, tree = _sliced("map", xs, 0)
    return _stacked([f(_pytree.tree_unflatten(list(row), tree), *args) for row in zip(*(x.unbind(0) for x in leaves))])
