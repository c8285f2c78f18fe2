"""Gradients of operators defined in Python; see tede.library."""
from tede.library import _Info as Info  # noqa: F401
from tede.utils import _pytree as tree


class _Context:
    """The node's context, whose needs_input_grad has the structure of the arguments."""

    def __init__(self, ctx, structure):
        self.__dict__.update(_ctx=ctx, _structure=structure)

    def __getattr__(self, name):
        if name == "needs_input_grad":
            return tree.tree_unflatten(list(self._ctx.needs_input_grad[2:]), self._structure)
        return getattr(self._ctx, name)

    def __setattr__(self, name, value):
        setattr(self._ctx, name, value)


def supports_tensorlist(cls):
    """A decorator of an autograd.Function whose arguments, results and gradients may be lists of tensors: apply() of the class it gives
    makes one node of the tensors in them."""
    import tede
    forward, backward = cls.forward, cls.backward

    def flat_forward(ctx, structure, made, *flat):
        result = forward(_Context(ctx, structure), *tree.tree_unflatten(list(flat), structure))
        results, ctx._results = tree.tree_flatten(list(result) if isinstance(result, tuple) else result)
        ctx._arguments = structure
        made.append(tree.tree_structure(result))
        return tuple(results)

    def flat_backward(ctx, *grads):
        grads = tree.tree_unflatten(list(grads), ctx._results)
        grads = grads if isinstance(grads, tuple) else (grads,)
        given = backward(_Context(ctx, ctx._arguments), *grads)
        given = given if isinstance(given, tuple) else (given,)
        expected = ctx._arguments.children_specs
        if len(given) != len(expected):
            raise RuntimeError(f"{cls.__name__}.backward: expected {len(expected)} gradients, got {len(given)}")
        flat = []
        for gradient, argument in zip(given, expected):
            leaves = [None] * argument.num_leaves if gradient is None else tree.tree_leaves(gradient, is_leaf=lambda x: x is None)
            if len(leaves) != argument.num_leaves:
                raise RuntimeError(f"{cls.__name__}.backward: expected a list of {argument.num_leaves} gradients, got {len(leaves)}")
            flat += leaves
        return (None, None, *flat)

    flat_class = type(cls.__name__, (tede.autograd.Function,), {"forward": staticmethod(flat_forward), "backward": staticmethod(flat_backward)})

    def directly(name):
        def refuse(*args):
            raise NotImplementedError(f"{cls.__name__}: calling autograd.Function.{name} directly isn't supported with lists; call apply()")
        return refuse

    def apply(*args):
        flat, structure = tree.tree_flatten(args)
        made = []
        results = flat_class.apply(structure, made, *flat)
        return tree.tree_unflatten(list(results), made[0])
    cls.forward, cls.backward, cls.apply = map(staticmethod, (directly("forward"), directly("backward"), apply))
    return cls
