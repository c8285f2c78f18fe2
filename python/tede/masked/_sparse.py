"""Masks and reductions of sparse tensors: an element that isn't specified doesn't count, as if it were masked out.

All is done with COO tensors; CSR tensors, matrices here, become such and come back."""
import tede

# How values that fall on one index are joined (scatter_reduce's name), and a whole run of them.
_JOINED = {"sum": tede.sum, "prod": tede.prod, "amax": tede.amax, "amin": tede.amin, "mean": tede.mean}


def like(mask, input):
    """The mask in the input's layout, broadcast to its shape, as booleans without repeated indices."""
    if input.layout not in (tede.strided, tede.sparse_coo, tede.sparse_csr):
        raise ValueError(f"_input_mask expects strided or sparse COO or sparse CSR tensor but got {input.layout}")
    layout = mask.layout
    if mask.shape != input.shape:
        if layout is tede.strided:
            mask = mask.broadcast_to(input.shape)
        else:
            mask, layout = mask.to_dense().broadcast_to(input.shape), tede.strided
    if layout is not input.layout:
        if input.layout is tede.strided:
            mask = mask.to_dense()
        elif input.layout is tede.sparse_csr:
            mask = mask.to_sparse_csr()
        elif layout is tede.strided:
            mask = mask.to_sparse(input.sparse_dim())
        else:
            mask = mask.to_sparse()
    if mask.layout is tede.sparse_coo:
        mask = mask.coalesce()
    return mask.to(dtype=tede.bool)


def _flat(indices, sizes):
    flat = indices.new_zeros(indices.size(1))
    for row, n in zip(indices, sizes):
        flat = flat * n + row
    return flat


def same_indices(a, b):
    """Whether two coalesced tensors of one layout specify the same elements."""
    if a.layout is tede.sparse_coo:
        return tede.equal(a.indices(), b.indices())
    return tede.equal(a.crow_indices(), b.crow_indices()) and tede.equal(a.col_indices(), b.col_indices())


def with_values(like, values):
    """Other values at the elements that a coalesced tensor specifies."""
    if like.layout is tede.sparse_coo:
        return tede.sparse_coo_tensor(like.indices(), values, like.shape, is_coalesced=True)
    return tede.sparse_csr_tensor(like.crow_indices(), like.col_indices(), values, like.shape)


def values_as(like, x):
    """The values of an operand beside `like`: it specifies the same elements, or is one number."""
    if x.layout is tede.strided and not x.dim():
        return x
    if x.layout is not like.layout or x.shape != like.shape or not same_indices(x, like):
        raise ValueError(f"{str(like.layout).rpartition('.')[2]} indices must match. If you need support for this, please open an issue "
                         "on Github.")
    return x.values()


def flat_place(x, number):
    """Where the elements that `number` counts among the specified ones are in the strided tensor, counted row by row."""
    x = x.to_sparse().coalesce()
    return _flat(x.indices(), x.shape)[number.to(tede.int64)].to(number.dtype)


def where(mask, input, fill):
    """What the mask lets through: an element it lets through that input doesn't specify is 0; fill stands in dense parts."""
    if input.layout is tede.sparse_csr:
        return where(mask.to_sparse(), input.to_sparse(), fill).to_sparse_csr()
    input, mask = input.coalesce(), mask.coalesce()
    counts = mask.values().flatten(1).any(1) if mask.dense_dim() else mask.values().bool()
    indices, masks, values = mask.indices()[:, counts], mask.values()[counts], input.values()
    sizes = input.shape[:input.sparse_dim()]
    wanted, there = _flat(indices, sizes), _flat(input.indices(), sizes)
    if there.numel():
        place = tede.searchsorted(there, wanted).clamp(max=there.numel() - 1)
        found = (there[place] == wanted).reshape(-1, *[1] * input.dense_dim())
        picked = tede.where(found, tede.where(masks, values[place], fill), values.new_zeros([]))
    else:
        picked = values.new_zeros(wanted.numel(), *values.shape[1:])
    return tede.sparse_coo_tensor(indices, picked, input.shape, is_coalesced=True)


def reduce(name, input, dims, keepdim, dtype, identity):
    """The reduction over dims of the specified elements; identity() is the value of none."""
    if input.layout is tede.sparse_csr:
        if not keepdim:
            raise AssertionError("reduction operations on CSR tensors with keepdim=False is unsupported")
        if {d % 2 for d in dims} == {0, 1}:             # one element is specified, be it zero, where any was
            values, some = input.values().to(dtype), min(1, input._nnz())
            values = _JOINED[name](values, dim=0).reshape(1) if some else values
            crow, col = input.crow_indices(), input.col_indices()
            return tede.sparse_csr_tensor(crow.new_tensor([0, some]), col.new_zeros(some), values, (1, 1))
        return reduce(name, input.to_sparse(), dims, True, dtype, identity).coalesce().to_sparse_csr() if dims else input
    op, sparse = _JOINED[name], input.sparse_dim()
    dims = [d for d in dims if d < input.ndim]          # a tensor without dimensions is reduced over dimension 0, too
    values, indices = input._values().to(dtype), input._indices()
    inner = [d + 1 - sparse for d in dims if d >= sparse]
    if inner and name != "sum":
        raise NotImplementedError(f"masked {name} of a sparse tensor over its dense dimensions")
    if inner:
        values = values.sum(inner, keepdim, dtype=dtype)
    outer = [d for d in dims if d < sparse]
    if len(outer) == sparse:
        values = identity(values) if name in ("amax", "amin") and not values.size(0) else op(values, dim=0)
        return values.reshape((1,) * (sparse if keepdim else 0) + tuple(values.shape)).to(dtype).to_sparse()
    if keepdim:
        indices = indices.clone()
        indices[outer] = 0
    else:
        indices = indices[[d for d in range(sparse) if d not in outer]]
    if indices.numel():
        indices, places = tede.unique(indices, return_inverse=True, dim=1)
        wide = values.to(tede.float32) if dtype in (tede.bfloat16, tede.float16) else values
        places = places.reshape(-1, *[1] * (values.ndim - 1)).expand(values.shape)
        start = wide.new_empty(indices.shape[1], *values.shape[1:])
        values = start.scatter_reduce(0, places, wide, name, include_self=False).to(dtype)
    shape = [1 if d in dims else n for d, n in enumerate(input.shape) if keepdim or d not in dims]
    return tede.sparse_coo_tensor(indices, values, shape)
