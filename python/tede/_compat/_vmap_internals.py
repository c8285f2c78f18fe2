"""The older entry to vmap, which autograd's tests and some programs name. It takes less than func.vmap: arguments by position, dimensions
counted from the front, results that are a tensor or a tuple of them."""
import warnings

from tede import Tensor
from tede.autograd.function import older_levels
from tede.func import _vmap as steps
from tede.func._levels import VMAP, level
from tede.utils._pytree import _broadcast_to_and_flatten, tree_flatten


def _check_out_dims(out_dims, name):
    if not isinstance(out_dims, int) and not (isinstance(out_dims, tuple) and all(isinstance(dim, int) for dim in out_dims)):
        raise ValueError(f"vmap({name}, ..., out_dims={out_dims}): `out_dims` must be an int or a tuple of int representing where in the "
                         "outputs the vmapped dimension should appear.")


def _check_in_dims(in_dims, args, name):
    flat, spec = tree_flatten(args)
    for x, dim in zip(flat, (_broadcast_to_and_flatten(in_dims, spec) or ()) if isinstance(in_dims, (int, tuple)) else ()):
        if isinstance(dim, int) and isinstance(x, Tensor) and not 0 <= dim < x.dim():
            raise ValueError(f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): Got in_dim={dim} for some input, but that input is a Tensor of "
                             f"dimensionality {x.dim()} so expected in_dim to satisfy 0 <= in_dim < {x.dim()}.")


def _check_outputs(outputs, name):
    if isinstance(outputs, Tensor):
        return
    if not isinstance(outputs, tuple):
        raise ValueError(f"vmap({name}, ...): `{name}` must only return Tensors, got type {type(outputs)} as the return.")
    for i, x in enumerate(outputs):
        if not isinstance(x, Tensor):
            raise ValueError(f"vmap({name}, ...): `{name}` must only return Tensors, got type {type(x)} for return {i}.")


def vmap(func, in_dims=0, out_dims=0):
    """As torch.vmap, which is the one to use."""
    warnings.warn("Please use `torch.vmap` instead of `torch._vmap_internals.vmap`.", FutureWarning, stacklevel=2)
    return _vmap(func, in_dims, out_dims)


def _vmap(func, in_dims=0, out_dims=0, allow_none_pass_through=False):
    """vmap without the warning. With allow_none_pass_through, results may be None."""
    name = steps._get_name(func)

    def of_batches(*args):
        _check_out_dims(out_dims, name)
        _check_in_dims(in_dims, args, name)
        size, dims, flat, spec = steps._process_batched_inputs(in_dims, args, func)
        with level(VMAP, size, steps.UNSUPPORTED) as number:
            older_levels.add(number)
            try:
                outputs = func(*steps._create_batched_inputs(dims, flat, number, spec))
            finally:
                older_levels.discard(number)
            if not allow_none_pass_through:
                _check_outputs(outputs, name)
            listed = outputs if isinstance(outputs, tuple) else (outputs,)
            places = out_dims if isinstance(out_dims, tuple) else (out_dims,) * len(listed)
            if len(places) != len(listed):
                raise ValueError(f"vmap({name}, ..., out_dims={out_dims}): `out_dims` must have one dim per output (got {len(listed)} outputs) "
                                 f"of {name}.")
            results = tuple(None if x is None else steps._maybe_remove_batch_dim(name, x, number, size, dim) for x, dim in zip(listed, places))
        return results[0] if isinstance(outputs, Tensor) else results
    return steps.wraps(func, of_batches)
