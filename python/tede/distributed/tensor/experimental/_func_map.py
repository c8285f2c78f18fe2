"""local_map: a function of local tensors as one of DTensors."""
import functools

from tede import Tensor
from tede.distributed.tensor._api import DTensor
from tede.utils._pytree import tree_flatten, tree_unflatten

__all__ = ["local_map"]


def local_map(func=None, out_placements=None, in_placements=None, in_grad_placements=None, device_mesh=None, *, redistribute_inputs=False):
    """A function that calls `func` on the local tensors of the DTensors among its arguments, and makes DTensors of what it returns.

    `out_placements`: placements for a single result, or a tuple of such with None for what is no tensor (a tensor's None means whole).
    `in_placements`: what each argument must have (None for one that is no DTensor); others raise ValueError, or are redistributed with
    `redistribute_inputs`. `in_grad_placements`: how the gradients of local tensors lie. Without a DTensor among the arguments results are returned as
    they are."""
    if func is None:
        return functools.partial(local_map, out_placements=out_placements, in_placements=in_placements, in_grad_placements=in_grad_placements,
                                 device_mesh=device_mesh, redistribute_inputs=redistribute_inputs)

    @functools.wraps(func)
    def mapped(*args, **kwargs):
        flat, tree = tree_flatten(args)
        if in_placements is not None and len(in_placements) != len(flat):
            raise AssertionError(f"in_placements length {len(in_placements)} does not match the number of input args {len(flat)}!")
        if in_grad_placements is not None and len(in_grad_placements) != len(flat):
            raise AssertionError(f"in_grad_placements length {len(in_grad_placements)} does not match the number of input args {len(flat)}!")
        mesh, some = device_mesh, False
        for i, x in enumerate(flat):
            wanted = None if in_placements is None else in_placements[i]
            if isinstance(x, DTensor):
                mesh, some = mesh or x.device_mesh, True
                flat[i] = _local(x, mesh, wanted, in_placements is not None, None if in_grad_placements is None else in_grad_placements[i],
                                 redistribute_inputs)
            elif wanted is not None and not isinstance(x, Tensor):
                raise AssertionError(f"Non-Tensor input {x} expects None placements but received {wanted}!")
        found = func(*tree_unflatten(flat, tree), **kwargs)
        return _placed(found, out_placements, mesh) if some else found
    return mapped


def _local(x, mesh, wanted, checked, grad_placements, redistribute_inputs):
    if checked:
        if wanted is None:
            raise AssertionError(f"DTensor input {x} expects placements but received {wanted}!")
        if x.placements != tuple(wanted):
            if not redistribute_inputs:
                raise ValueError(f"arg {x} in local_map has a mismatched placements: arg placements is {x.placements} but the input placements is {wanted}! "
                                 "If redistribute_inputs is wanted, set redistribute_inputs=True to local_map.")
            x = x.redistribute(mesh, wanted)
    return x.to_local(grad_placements=None if grad_placements is None else tuple(grad_placements))


def _placed(found, placements, mesh):
    flat, tree = tree_flatten(found)
    each = placements if isinstance(placements, tuple) else (placements,)
    if len(flat) != len(each):
        raise AssertionError(f"local_map requires one PlacementType be provided for each output value, received {len(each)} out_placements but "
                             f"{len(flat)} is expected!")
    for i, (x, p) in enumerate(zip(flat, each)):
        if isinstance(x, Tensor):
            if isinstance(x, DTensor):
                raise AssertionError(f"torch.Tensor output expected but received {type(x)}: {x}")
            flat[i] = DTensor.from_local(x, mesh, p, run_check=False)
        elif p is not None:
            raise AssertionError(f"Non-tensor output {x} expects None placements but received {p}!")
    return tree_unflatten(flat, tree)
