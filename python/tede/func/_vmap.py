"""vmap: a function of tensors becomes one of batches of them.

The steps have the names and arguments of PyTorch's: a library whose containers are batches themselves (tensordict) puts
the functions here in their places."""
import functools

from tede import _C
from tede._C import Tensor
from tede.func._levels import VMAP, flatten, level
from tede.utils._pytree import _broadcast_to_and_flatten, tree_flatten, tree_unflatten

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable  # noqa: F401
    from typing import Any  # noqa: F401

RANDOMNESS = {"error": 0, "different": 1, "same": 2}
UNSUPPORTED = 3         # of the older entry, which has no such option
_warned = set()
_fallback_allowed = True


def is_fallback_allowed():
    return _fallback_allowed


def allow_fallback(on):
    global _fallback_allowed
    _fallback_allowed = bool(on)


def _warn(op):
    """Once per operator: there is no rule for a whole batch."""
    if not _fallback_allowed:
        raise RuntimeError(f"{op} hit the vmap fallback which is currently disabled")
    if op in _warned or not _C._get_vmap_fallback_warning_enabled():
        return
    _warned.add(op)
    import warnings
    warnings.warn(f"There is a performance drop because we have not yet implemented the batching rule for {op}. Please "
                  "file us an issue on GitHub so that we can prioritize its implementation.", UserWarning, stacklevel=4)


_enabled = True


def _set_enabled(on):
    global _enabled
    _enabled = bool(on)


_C._get_vmap_fallback_warning_enabled = lambda: _enabled
_C._set_vmap_fallback_warning_enabled = _set_enabled
_C._vmap_fallback_hook(_warn)


def _get_name(func):
    if hasattr(func, "__name__"):
        return func.__name__
    if isinstance(func, functools.partial):
        return f"functools.partial({_get_name(func.func)}, ...)"
    return repr(func)


def check_randomness(randomness):
    if randomness not in RANDOMNESS:
        raise RuntimeError(f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}")


def check_chunk_size(chunk_size):
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")


def _process_batched_inputs(in_dims, args, func):
    """The batch's size, a dimension (or None) for each of the flat arguments, these, and their tree."""
    if not isinstance(in_dims, (int, tuple)):
        raise ValueError(f"vmap({_get_name(func)}, in_dims={in_dims}, ...)(<inputs>): expected `in_dims` to be int or a (potentially "
                         f"nested) tuple matching the structure of inputs, got: {type(in_dims)}.")
    if not args:
        raise ValueError(f"vmap({_get_name(func)})(<inputs>): got no inputs. Maybe you forgot to add inputs, or you are trying to "
                         "vmap over a function with no inputs. The latter is unsupported.")
    flat, spec = tree_flatten(args)
    dims = _broadcast_to_and_flatten(in_dims, spec)
    where = f"vmap({_get_name(func)}, in_dims={in_dims}, ...)(<inputs>): "
    if dims is None:
        raise ValueError(where + f"in_dims is not compatible with the structure of `inputs`. in_dims has structure "
                         f"{tree_flatten(in_dims)[1]} but inputs has structure {spec}.")
    dims = list(dims)
    sizes = []
    for i, (arg, dim) in enumerate(zip(flat, dims)):
        if dim is None:
            continue
        if not isinstance(dim, int):
            raise ValueError(where + f"Got in_dim={dim} for an input but in_dim must be either an integer dimension or None.")
        if not isinstance(arg, Tensor):
            raise ValueError(where + f"Got in_dim={dim} for an input but the input is of type {type(arg)}. We cannot vmap over "
                             "non-Tensor arguments, please use None as the respective in_dim")
        if not -arg.dim() <= dim < arg.dim():
            raise ValueError(where + f"Got in_dim={dim} for some input, but that input is a Tensor of dimensionality {arg.dim()} so "
                             f"expected in_dim to satisfy -{arg.dim()} <= in_dim < {arg.dim()}.")
        dims[i] = dim % arg.dim()
        sizes.append(arg.size(dim))
    if not sizes:
        raise ValueError("vmap: Expected at least one Tensor to vmap over")
    if any(size != sizes[0] for size in sizes):
        raise ValueError(f"vmap: Expected all tensors to have the same size in the mapped dimension, got sizes {sizes} for the "
                         "mapped dimension")
    return sizes[0], dims, flat, spec


def _create_batched_inputs(flat_in_dims, flat_args, vmap_level, args_spec):
    """The arguments, as single members of the level that is open."""
    return tree_unflatten([x if d is None else _C._transform_wrap(x, d) for x, d in zip(flat_args, flat_in_dims)], args_spec)


def _unwrap_batched(batched_outputs, out_dims, vmap_level, batch_size, func):
    """The level's results, with their batches where out_dims wants them."""
    flat, spec = flatten(batched_outputs)
    incompatible = (f"vmap({_get_name(func)}, ..., out_dims={out_dims})(<inputs>): out_dims is not compatible with the structure of "
                    f"`outputs`. out_dims has structure {tree_flatten(out_dims)[1]} but outputs has structure {spec}.")
    if isinstance(batched_outputs, Tensor):     # PyTorch takes (0,) for one result, too
        if isinstance(out_dims, int) or out_dims is None:
            dims = [out_dims]
        elif isinstance(out_dims, tuple) and len(out_dims) == 1:
            dims = [out_dims[0]]
        else:
            raise ValueError(incompatible)
    else:
        dims = _broadcast_to_and_flatten(out_dims, spec)
        if dims is None:
            raise ValueError(incompatible)
    name = _get_name(func)
    return tree_unflatten([_maybe_remove_batch_dim(name, x, vmap_level, batch_size, d) for x, d in zip(flat, dims)], spec)


def _add_batch_dim(tensor, in_dim, vmap_level):
    """A batch as a single member of the innermost level."""
    return _C._transform_wrap(tensor, in_dim % tensor.dim())


def _remove_batch_dim(tensor, vmap_level, batch_size, out_dim):
    """A member of a level as the batch."""
    return _place(*_C._transform_unwrap(tensor, vmap_level), out_dim, batch_size, "_remove_batch_dim")


def _place(value, dim, out_dim, size, name):
    if out_dim is None:
        if dim >= 0:
            raise ValueError(f"vmap({name}, ...): `{name}` can not return a BatchedTensor when out_dim is None")
        return value
    if not isinstance(value, Tensor):
        raise ValueError(f"vmap({name}, ...): `{name}` must only return Tensors, got type {type(value)}. Did you mean to set out_dims= "
                         "to None for output?")
    if dim < 0:
        value, dim = value.unsqueeze(0).expand(size, *value.shape), 0
    ndim = value.dim()
    if not -ndim <= out_dim < ndim:
        raise IndexError(f"Dimension out of range (expected to be in range of [-{ndim}, {ndim - 1}], but got {out_dim})")
    return value if dim == out_dim % ndim else value.movedim(dim, out_dim)


def _maybe_remove_batch_dim(name, batched_output, vmap_level, batch_size, out_dim):
    """One result of the level, with its batch where out_dim wants it; None: it has none."""
    found = _C._transform_unwrap(batched_output, vmap_level) if isinstance(batched_output, Tensor) else (batched_output, -1)
    return _place(*found, out_dim, batch_size, name)


def run(func, size, flat, dims, spec, out_dims, randomness, kwargs):
    check_out_dims(out_dims, func)
    with level(VMAP, size, RANDOMNESS[randomness]) as number:
        outputs = func(*_create_batched_inputs(dims, flat, number, spec), **kwargs)
        return _unwrap_batched(outputs, out_dims, number, size, func)


def restore_vmap(func, in_dims, batch_size, randomness):
    """func within a vmap level, its results as they are: (what the wrappers wrap, their dimensions)."""
    def inner(*args, **kwargs):
        flat, spec = tree_flatten(args)
        dims = _broadcast_to_and_flatten(in_dims, spec)
        with level(VMAP, batch_size, RANDOMNESS[randomness]) as number:
            outputs, made = flatten(func(*_create_batched_inputs(dims, flat, number, spec), **kwargs))
            unwrapped = [_C._transform_unwrap(x, number) if isinstance(x, Tensor) else (x, -1) for x in outputs]
        return tuple(tree_unflatten(part, made) for part in (
            [value for value, _ in unwrapped], [None if dim < 0 else dim for _, dim in unwrapped]))
    return inner


def check_out_dims(out_dims, func):
    if isinstance(out_dims, int):
        return
    if not all(d is None or isinstance(d, int) for d in tree_flatten(out_dims)[0]):
        raise ValueError(f"vmap({_get_name(func)}, ..., out_dims={out_dims}): `out_dims` must be an int, None or a python collection of "
                         "ints representing where in the outputs the vmapped dimension should appear.")


def _joined(chunks, out_dims, func):
    """Results of chunks, put together."""
    import tede
    flat, spec = zip(*(tree_flatten(chunk) for chunk in chunks))
    dims = _broadcast_to_and_flatten(out_dims, spec[0])
    if dims is None:
        dims = [out_dims[0]] * len(flat[0])
    return tree_unflatten([parts[0] if d is None else tede.cat(parts, d) for parts, d in zip(zip(*flat), dims)], spec[0])


def vmap(func: "Callable[..., Any]", in_dims: "Any" = 0, out_dims: "Any" = 0, randomness: str = "error", *,
         chunk_size: "int | None" = None) -> "Callable[..., Any]":
    """A function of single examples becomes one of batches: of each argument, dimension `in_dims` is the batch, and
    each result has it at `out_dims`.

        in_dims: a number for all, or one for each argument (nested as these are); None: the argument is the same for
            all.
        out_dims: a number for all, or one for each result.
        randomness: "error" refuses random numbers, "same" draws once for all, "different" for each example.
        chunk_size: how many examples at a time; None is all.

    Python's ``if`` and `item()` of an example's values are a RuntimeError: use `tede.where`.

    >>> dots = tede.func.vmap(tede.dot)
    >>> dots(tede.ones(4, 3), tede.ones(4, 3))
    tensor([3., 3., 3., 3.])
    >>> per_example = tede.func.vmap(tede.func.grad(lambda w, x: (w * x).sum()), in_dims=(None, 0))
    >>> per_example(tede.ones(2), tede.arange(6.0).reshape(3, 2))
    tensor([[0., 1.],
            [2., 3.],
            [4., 5.]])
    """
    check_randomness(randomness)
    check_chunk_size(chunk_size)

    def of_batches(*args, **kwargs):
        size, dims, flat, spec = _process_batched_inputs(in_dims, args, func)
        if chunk_size is None or chunk_size >= size:
            return run(func, size, flat, dims, spec, out_dims, randomness, kwargs)
        import tede
        chunks, state = [], tede.get_rng_state() if randomness == "same" else None
        for start in range(0, size, chunk_size):
            if state is not None:
                tede.set_rng_state(state)
            length = min(chunk_size, size - start)
            part = [x if d is None else x.narrow(d, start, length) for x, d in zip(flat, dims)]
            chunks.append(run(func, length, part, dims, spec, out_dims, randomness, kwargs))
        return _joined(chunks, out_dims, func)
    return wraps(func, of_batches)


def chunk_vmap(func, in_dims=0, out_dims=0, randomness="error", chunks=2):
    """vmap, the batch taken in this many parts of about one size."""
    check_randomness(randomness)
    if chunks == 1:
        return vmap(func, in_dims, out_dims, randomness)

    def of_batches(*args, **kwargs):
        size = _process_batched_inputs(in_dims, args, func)[0]
        return vmap(func, in_dims, out_dims, randomness, chunk_size=max(-(-size // chunks), 1))(*args, **kwargs)
    return wraps(func, of_batches)


def wraps(func, wrapper):
    """functools.wraps where func has what that needs."""
    try:
        return functools.wraps(func)(wrapper)
    except (AttributeError, TypeError):
        return wrapper
