"""functionalize: replaces in-place operators and views of a function by pure ones."""
from tede._C import Tensor
from tede.func._vmap import wraps
from tede.utils import _pytree as tree


def functionalize(func, *, remove="mutations"):
    """`func` without effects on its arguments' memory as others see it while it runs: it works on copies, and what it wrote
    to an argument is copied back at the end, at once.  There is no tracer that would see the difference between views and copies, so that
    remove="mutations_and_views" is the same."""
    if remove not in ("mutations", "mutations_and_views"):
        raise RuntimeError(f"functionalize(f, remove='mutations'): received invalid argument for remove={remove}. Valid options are:\n"
                           "     remove='mutations': all inplace and out= operators will be removed from the program, and replaced with "
                           "their out-of-place equivalents.\n     remove='mutations_and_views': In addition to the above, all aliasing "
                           "operators {view} will be replaced with their non-aliasing counterparts, {view}_copy.\n")

    def functional(*args, **kwargs):
        flat, spec = tree.tree_flatten((args, kwargs))
        copies = [x.clone() if isinstance(x, Tensor) else x for x in flat]
        versions = [x._version if isinstance(x, Tensor) else 0 for x in copies]
        new_args, new_kwargs = tree.tree_unflatten(copies, spec)
        result = func(*new_args, **new_kwargs)
        for x, copy, version in zip(flat, copies, versions):
            if isinstance(x, Tensor) and copy._version != version:
                if x.shape != copy.shape:
                    x.resize_(copy.shape)
                x.copy_(copy)
        back = {id(c): x for x, c in zip(flat, copies) if isinstance(x, Tensor)}
        return tree.tree_map(lambda x: back.get(id(x), x), result)
    return wraps(func, functional)
