/* COO tensors to and from strided ones, and the elements of one at the indices of another.
 *
 * The sparse dimensions are seen as one: an element's position in it (its key) is one number, so that sorting, looking up and
 * adding up are what they are for rows of a matrix. */
#include "calls_layouts_sparse_convert.h"
#include "layouts/sparse/sparse.h"
#include "tensor/device.h"
#include <inttypes.h>

/* ---- keys */

int td_meta__coo_keys(td_spec *specs, td_tensor *indices, int64_t n, const int64_t *size)
{
    (void)size;
    if (indices->ndim != 2 || indices->sizes[0] != n || indices->dtype != TD_I64)
        return td_error(TD_E_RUNTIME, "_coo_keys: indices must be a matrix of int64 with a row for each size");
    td_spec_set(specs, 1, indices->sizes + 1, TD_I64, indices->device);
    return 0;
}

int td_meta__coo_unkeys(td_spec *specs, td_tensor *keys, int64_t n, const int64_t *size)
{
    (void)size;
    if (keys->ndim != 1 || keys->dtype != TD_I64)
        return td_error(TD_E_RUNTIME, "_coo_unkeys: keys must be a vector of int64");
    td_spec_set(specs, 2, (int64_t[]){n, keys->sizes[0]}, TD_I64, keys->device);
    return 0;
}

td_tensor *td_coo_places(td_tensor *x)
{
    return x ? td__coo_keys(td_sparse_of(x)->indices, td_sparse_of(x)->sparse_dim, x->sizes) : NULL;
}

/* A view where the sparse dimensions can be joined in memory, else a copy: callers that write compare the storages. */
td_tensor *td_sparse_rows(td_tensor *x, int sparse_dim)
{
    int64_t shape[TD_MAX_DIMS + 1] = {1};
    if (!x)
        return NULL;
    for (int d = 0; d < sparse_dim; d++)
        shape[0] *= x->sizes[d];
    memcpy(shape + 1, x->sizes + sparse_dim, sizeof *shape * (size_t)(x->ndim - sparse_dim));
    return td_reshape(x, 1 + x->ndim - sparse_dim, shape);
}

/* ---- coalescing */

/* Bools are counted in int64 and made bool again: any of them. Halves are added in float32 and rounded once. */
td_tensor *td_rows_added(td_tensor *values, td_tensor *to, int64_t n)
{
    int64_t shape[TD_MAX_DIMS + 1] = {n};
    if (!values || !to)
        return NULL;
    td_dtype dtype = (td_dtype)values->dtype, wide = dtype == TD_BOOL ? TD_I64 : dtype == TD_F16 || dtype == TD_BF16 ? TD_F32 : dtype;
    memcpy(shape + 1, values->sizes + 1, sizeof *shape * (size_t)(values->ndim - 1));
    TD_AUTO td_tensor *terms = td_to(values, wide);
    TD_AUTO td_tensor *sums = terms ? td_zeros(values->ndim, shape, wide, terms->device) : NULL;
    if (!sums || td_index_add_(sums, 0, to, terms, td_int(1)))
        return NULL;
    return td_to(sums, dtype);
}

td_tensor *td_rows_reduced(td_tensor *values, td_tensor *to, int64_t n, const char *reduce)
{
    int64_t shape[TD_MAX_DIMS + 1];
    if (!values || !to)
        return NULL;
    for (int d = 0; d < values->ndim; d++)
        shape[d] = d ? 1 : to->numel;
    TD_AUTO td_tensor *along = td_view(to, values->ndim, shape), *each = along ? td_expand(along, values->ndim, values->sizes) : NULL;
    memcpy(shape, values->sizes, sizeof *shape * values->ndim);
    shape[0] = n;
    TD_AUTO td_tensor *zeros = td_zeros(values->ndim, shape, (td_dtype)values->dtype, values->device);
    return zeros && each ? td_scatter_reduce_two(zeros, 0, each, values, reduce, false) : NULL;
}

/* Keys are unique()d: sorted, they are in lexicographic order of the indices, for they are row-major positions; each
 * element's number among them says where its value is added. O(nnz log nnz) at most, and indices are recomputed from
 * the keys, so nothing of the old order is needed. */
td_tensor *td_sparse_settled(td_tensor *x)
{
    if (!x || !td_is_coo(x) || td_sparse_of(x)->coalesced)
        return td_ref(x);
    const td_sparse *s = td_sparse_of(x);
    if (td_sparse_nnz(x) < 2)
        return td_coo_like(x, s->indices, s->values, true);
    TD_AUTO td_tensor *keys = td_coo_places(x);
    td_tensor *found[3];
    if (!keys || td__unique2(found, keys, true, true, false))
        return NULL;
    TD_AUTO td_tensor *unique = found[0], *to = found[1];
    td_tensor_release(found[2]);    /* counts */
    TD_AUTO td_tensor *indices = td__coo_unkeys(unique, s->sparse_dim, x->sizes);
    TD_AUTO td_tensor *values = td_rows_added(s->values, to, unique->numel);
    return td_coo_like(x, indices, values, true);
}

/* ---- to strided */

/* Repeated indices add up, so uncoalesced tensors need no coalescing first. */
td_tensor *td_sparse_dense(td_tensor *x)
{
    if (!x || !td_is_sparse(x))
        return td_ref(x);
    if (td_is_outside(x->device)) {
        TD_AUTO td_tensor *near = td_layout_on(x, (td_device){TD_CPU, -1}), *dense = near ? td_sparse_dense(near) : NULL;
        return dense ? td_layout_on(dense, x->device) : NULL;
    }
    if (!td_is_coo(x)) {
        TD_AUTO td_tensor *coo = td_sparse_coo(x);
        return td_sparse_dense(coo);
    }
    const td_sparse *s = td_sparse_of(x);
    int64_t rows = 1;
    for (int d = 0; d < s->sparse_dim; d++)
        if (__builtin_mul_overflow(rows, x->sizes[d], &rows))
            return td_fail(TD_E_RUNTIME, "to_dense: the number of elements overflows");
    TD_AUTO td_tensor *places = td_coo_places(x), *sums = td_rows_added(s->values, places, rows);
    return td_view(sums, x->ndim, x->sizes);
}

/* Of the input's layout, and where it has elements unless `masked` is false. */
td_tensor *td_sparse_to_dense_backward(td_tensor *grad, td_tensor *input, const bool *masked)
{
    if (!td_is_sparse(input))
        return td_sparse_dense(grad);
    if (td_is_sparse(grad) || (masked && !*masked))
        return td_is_sparse(grad) ? td_ref(grad) : td_sparse_like_layout(grad, input);
    TD_AUTO td_tensor *mask = td_sparse_settled(input);
    return td_sparse_mask(grad, mask);
}

/* ---- to COO */

/* A row of dense dimensions is kept where any of its elements is not zero. nonzero() lists keys in order, so the
 * result is coalesced. nan counts as not zero. */
td_tensor *td_op_to_sparse_sparse_dim(td_tensor *self, int64_t sparse_dim)
{
    if (td_is_sparse(self)) {
        if (td_sparse_of(self)->sparse_dim != sparse_dim)
            return td_fail(TD_E_RUNTIME,
                           "to_sparse: conversion from %s to Sparse with sparse_dim argument !=self.sparse_dim() is not "
                           "supported",
                           td_is_coo(self) ? "Sparse" : "SparseCsr");
        return td_is_coo(self) ? td_sparse_itself(self) : td_compressed_to_coo(self);
    }
    if (self->ndim > 0 && sparse_dim == 0)
        return td_fail(TD_E_RUNTIME, "dense_to_sparse: sparse_dim argument must be in >0 when self.dim()>0");
    if (sparse_dim < 0 || sparse_dim > self->ndim)
        return td_fail(TD_E_RUNTIME,
                       "dense_to_sparse: sparse_dim argument must be in [0,%d] range, but %" PRId64 " is given", self->ndim,
                       sparse_dim);
    int dim = (int)sparse_dim;
    TD_AUTO td_tensor *rows = td_sparse_rows(self, dim);
    TD_AUTO td_tensor *flat =
        rows ? td_reshape(rows, 2,
                          (int64_t[]){rows->sizes[0], rows->numel && rows->sizes[0] ? rows->numel / rows->sizes[0] : 0})
             : NULL;
    TD_AUTO td_tensor *specified = flat ? td_to(flat, TD_BOOL) : NULL;
    TD_AUTO td_tensor *there = td_any_dim(specified, 1, false);
    TD_AUTO td_tensor *found = td_nonzero(there);
    TD_AUTO td_tensor *keys = found ? td_reshape(found, 1, (int64_t[]){found->sizes[0]}) : NULL;
    TD_AUTO td_tensor *indices = td__coo_unkeys(keys, dim, self->sizes);
    TD_AUTO td_tensor *values = td_index_select(rows, 0, keys);
    return td_coo_new(self->ndim, self->sizes, dim, indices, values, true);
}

/* The gradient in self's layout, strided if self is. */
td_tensor *td_sparse_to_sparse_backward(td_tensor *grad, td_tensor *self)
{
    const bool same = td_is_sparse(grad) && td_is_sparse(self) && td_sparse_of(grad)->layout == td_sparse_of(self)->layout;
    return same ? td_ref(grad) : td_is_sparse(self) ? td_sparse_like_layout(grad, self) : td_sparse_dense(grad);
}

/* ---- at indices */

/* The values that x, strided or COO, has at the keys (of its first sparse_dim dimensions). In COO a binary search for
 * each key in x's sorted keys; the position that is found may hold another key, or lie one behind the last, so positions
 * are clamped and values with the wrong key replaced by zero. */
static td_tensor *values_at(td_tensor *x, td_tensor *keys, int sparse_dim)
{
    if (!x || !keys)
        return NULL;
    if (!td_is_sparse(x)) {
        TD_AUTO td_tensor *rows = td_sparse_rows(x, sparse_dim);
        return td_index_select(rows, 0, keys);
    }
    TD_AUTO td_tensor *coo = td_sparse_coo(x), *c = td_sparse_settled(coo);
    if (!c || td_sparse_of(c)->sparse_dim != sparse_dim)
        return c ? td_fail(TD_E_RUNTIME, "sparse tensors must have the same number of sparse dimensions, got %d and %d",
                           td_sparse_of(c)->sparse_dim, sparse_dim) : NULL;
    const td_sparse *s = td_sparse_of(c);
    int64_t nnz = td_sparse_nnz(c), shape[TD_MAX_DIMS + 1] = {keys->numel}, mask_shape[TD_MAX_DIMS + 1];
    memcpy(shape + 1, s->values->sizes + 1, sizeof *shape * (size_t)(s->values->ndim - 1));
    if (!nnz)
        return td_zeros(s->values->ndim, shape, (td_dtype)x->dtype, x->device);
    TD_AUTO td_tensor *own = td_coo_places(c), *at = td_searchsorted_tensor(own, keys, false, false, NULL, TD_NONE);
    TD_AUTO td_tensor *last = td_wrapped_number(td_int(nnz - 1)), *place = td_minimum(at, last);
    TD_AUTO td_tensor *key = td_index_select(own, 0, place), *hit = td_eq_tensor(key, keys);
    TD_AUTO td_tensor *values = td_index_select(s->values, 0, place), *zero = td_zeros(0, NULL, (td_dtype)x->dtype, x->device);
    if (!values || !hit)
        return NULL;
    for (int d = 0; d < values->ndim; d++)
        mask_shape[d] = d ? 1 : keys->numel;
    TD_AUTO td_tensor *mask = td_view(hit, values->ndim, mask_shape);
    return td_where_self(mask, values, zero);
}

/* Each value's gradient is the gradient's element at its index; a value that was added to others gets the sum's. */
td_tensor *td_op_sparse_constructor_values_backward(td_tensor *grad, td_tensor *indices, td_dtype dtype)
{
    if (indices->ndim != 2 || indices->sizes[0] > grad->ndim)
        return td_fail(TD_E_RUNTIME, "sparse_constructor_values_backward: indices must be a matrix with a row for each of at most %d dimensions",
                       grad->ndim);
    TD_AUTO td_tensor *keys = td__coo_keys(indices, indices->sizes[0], grad->sizes);
    TD_AUTO td_tensor *values = values_at(grad, keys, (int)indices->sizes[0]);
    return td_to(values, dtype);
}

/* self's elements at mask's pattern, in the shape of mask's values; zero where self is sparse and has none. */
td_tensor *td_op__values_at(td_tensor *self, td_tensor *mask)
{
    if (!td_is_sparse(mask))
        return td_fail(TD_E_RUNTIME, "_values_at: mask must be a sparse tensor");
    if (td_is_coo(mask)) {
        TD_AUTO td_tensor *keys = td_coo_places(mask);
        return values_at(self, keys, td_sparse_of(mask)->sparse_dim);
    }
    TD_AUTO td_tensor *coo = td_compressed_elements(mask), *keys = td_coo_places(coo);
    if (!coo)
        return NULL;
    TD_AUTO td_tensor *values = values_at(self, keys, td_sparse_of(coo)->sparse_dim);
    return td_view(values, td_sparse_of(mask)->values->ndim, td_sparse_of(mask)->values->sizes);
}

td_tensor *td_op_sparse_mask(td_tensor *self, td_tensor *mask)
{
    td_shape_text a, b;
    if (!td_is_sparse(mask))
        return td_fail(TD_E_RUNTIME, "sparse_mask: mask must be a sparse tensor");
    if (self->ndim != mask->ndim || memcmp(self->sizes, mask->sizes, sizeof *self->sizes * self->ndim))
        return td_fail(TD_E_RUNTIME, "sparse_mask(): operands have incompatible sizes; self has size %s but mask has size %s",
                       td_shape_str(self->ndim, self->sizes, a), td_shape_str(mask->ndim, mask->sizes, b));
    TD_AUTO td_tensor *values = td__values_at(self, mask);
    return td_sparse_with_values(mask, values);
}

td_tensor *td_op_sparse_mask_backward(td_tensor *grad, td_tensor *mask)
{
    (void)mask;
    return td_sparse_dense(grad);
}
