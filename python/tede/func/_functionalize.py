"""functionalize: a function as calls that write nothing, and take no views if that is wanted too."""
from tede._C import Tensor
from tede.func._vmap import wraps
from tede.utils import _pytree as tree


def functionalize(func, *, remove="mutations"):
    """`func` with nothing written in place: what its calls would write is computed by operators that write nothing, and
    copied to arguments that it wrote to at the end. For graphs, see `fx.experimental.proxy_tensor.make_fx`.

        remove: "mutations", or "mutations_and_views", which copies instead of viewing.

    >>> def f(x):
    ...     y = x + 1
    ...     y[0] = 0
    ...     return y
    >>> tede.func.functionalize(f)(tede.ones(2))
    tensor([0., 2.])
    """
    if remove not in ("mutations", "mutations_and_views"):
        raise RuntimeError(f"functionalize(f, remove='mutations'): received invalid argument for remove={remove}. Valid options are:\n"
                           "     remove='mutations': all inplace and out= operators will be removed from the program, and replaced with "
                           "their out-of-place equivalents.\n     remove='mutations_and_views': In addition to the above, all aliasing "
                           "operators {view} will be replaced with their non-aliasing counterparts, {view}_copy.\n")

    def functional(*args, **kwargs):
        from tede._subclasses import functional_tensor as ft
        number = ft._enter(remove == "mutations")
        try:
            given, spec = tree.tree_flatten((args, kwargs))
            inside = [ft._to_functional(x, number) if isinstance(x, Tensor) else x for x in given]
            new_args, new_kwargs = tree.tree_unflatten(inside, spec)
            result = func(*new_args, **new_kwargs)
        finally:
            ft._leave()
        for x, wrapped in zip(given, inside):
            if isinstance(wrapped, ft.FunctionalTensor):
                ft.propagate_write(x, wrapped)
        return tree.tree_map_only(ft.FunctionalTensor, lambda x: x.from_functional() if x._level == number else x, result)
    return wraps(func, functional)
