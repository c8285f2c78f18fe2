"""The older entry to vmap, which autograd's tests and some programs name."""
from tede.func import vmap


def _vmap(func, in_dims=0, out_dims=0, allow_none_pass_through=False):
    """As func.vmap."""
    return vmap(func, in_dims, out_dims)
