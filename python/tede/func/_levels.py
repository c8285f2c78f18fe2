"""A level of a transform as a context, and trees of tensors going in and out of it."""
from tede import _C
from tede._C import Tensor
from tede._sym import plain
from tede.utils import _pytree as tree

VMAP, GRAD, JVP, FUNCTIONALIZE = 0, 1, 2, 3


class level:
    """``with level(GRAD) as number``: calls inside are handled by this level first."""
    __slots__ = ("arguments", "number")

    def __init__(self, *arguments):
        self.arguments = arguments

    def __enter__(self):
        self.number = _C._transform_enter(*plain(self.arguments))
        return self.number

    def __exit__(self, *failure):
        _C._transform_leave()


def lift(x):
    return _C._transform_wrap(x) if isinstance(x, Tensor) else x


def lower(x, number):
    return _C._transform_unwrap(x, number)[0] if isinstance(x, Tensor) else x


def lower_all(values, number):
    return tree.tree_map(lambda x: lower(x, number), values)


def lower_aux(values, number):
    """lower_all of what a function gives beside its output: tensors, and nothing else."""
    for x in tree.tree_flatten(values)[0]:
        if not isinstance(x, Tensor):
            raise RuntimeError(f"Expected tensors, got unsupported type {type(x)}")
    return lower_all(values, number)


def flatten(values):
    """tree.tree_flatten, for which results by name (torch.return_types) are trees of their fields."""
    flat, spec = tree.tree_flatten(values)
    strange = {type(x) for x in flat if isinstance(x, tuple)}
    for kind in strange:
        tree.register_pytree_node(kind, lambda x: (list(x), type(x)), lambda members, kind: kind(members))
    return tree.tree_flatten(values) if strange else (flat, spec)
