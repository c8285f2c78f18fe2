/* Sparse tensors seen otherwise: dimensions moved, added, picked from, and joined.
 *
 * What a view does to a strided tensor is done here to the rows of `indices`, or, in dense dimensions, to the values; the result is
 * a new tensor, whose values may be shared. */
#include "calls_layouts_sparse_shape.h"
#include "layouts/sparse/sparse.h"
#include <inttypes.h>
#include "tensor/device.h"
#include "tensor/layout.h"

/* The rows of x's indices in another order; `rows` has numbers of rows. */
static td_tensor *rows_of(td_tensor *x, int n, const int64_t *rows)
{
    TD_AUTO td_tensor *order = td_empty(1, (int64_t[]){n}, TD_I64);
    if (!order)
        return NULL;
    for (int d = 0; d < n; d++)
        ((int64_t *)order->data)[d] = rows[d];
    TD_AUTO td_tensor *there = td_is_outside(x->device) ? td_layout_on(order, x->device) : td_ref(order);
    return td_index_select(td_sparse_of(x)->indices, 0, there);
}

/* ---- order of dimensions */

/* Of a compressed tensor: a CSR matrix read by columns is CSC with the very same parts, so rows and columns are
 * exchanged by naming the other layout (and transposing blocks); batch and dense dimensions move among themselves. */
static td_tensor *transpose_compressed(td_tensor *x, int a, int b)
{
    static const int transposed[] = {[TD_SPARSE_CSR] = TD_SPARSE_CSC, [TD_SPARSE_CSC] = TD_SPARSE_CSR, [TD_SPARSE_BSR] = TD_SPARSE_BSC,
                                 [TD_SPARSE_BSC] = TD_SPARSE_BSR};
    const td_sparse *s = td_sparse_of(x);
    const int batch = x->ndim - 2 - s->dense_dim, blocked = 2 * td_is_blocked(s->layout);
    int64_t sizes[TD_MAX_DIMS];
    memcpy(sizes, x->sizes, sizeof *sizes * x->ndim);
    sizes[a] = x->sizes[b], sizes[b] = x->sizes[a];
    if (a == batch && b == batch + 1) {
        TD_AUTO td_tensor *values = blocked ? td_transpose_int(s->values, batch + 1, batch + 2) : td_ref(s->values);
        return td_compressed_new(transposed[s->layout], x->ndim, sizes, s->dense_dim, s->indices, s->plain, values);
    }
    if (b < batch) {
        TD_AUTO td_tensor *indices = td_transpose_int(s->indices, a, b), *plain = td_transpose_int(s->plain, a, b);
        TD_AUTO td_tensor *values = td_transpose_int(s->values, a, b);
        return td_compressed_new(s->layout, x->ndim, sizes, s->dense_dim, indices, plain, values);
    }
    if (a >= batch + 2) {
        TD_AUTO td_tensor *values = td_transpose_int(s->values, a - 1 + blocked, b - 1 + blocked);
        return td_compressed_new(s->layout, x->ndim, sizes, s->dense_dim, s->indices, s->plain, values);
    }
    return td_fail(TD_E_RUNTIME,
                   "transpose(): can only transpose dimensions of the same type (Batch, Sparse, Dense), got %d(%s) and %d(%s)", a,
                   a < batch ? "Batch" : "Sparse", b, b < batch + 2 ? "Sparse" : "Dense");
}

/* Rows of indices are picked in the new order and values permuted; sparse and dense dimensions don't mix, for no
 * index names a dense position. Elements keep their order, which is no longer that of the indices: so the result is
 * not coalesced; PyTorch's transpose, unlike its permute, sees that no elements are in any order. */
static td_tensor *reorder(td_tensor *self, int64_t n, const int64_t *dims, bool empty_stays)
{
    const td_sparse *s = td_sparse_of(self);
    int64_t order[TD_MAX_DIMS], sizes[TD_MAX_DIMS], values_order[TD_MAX_DIMS + 1] = {0};
    uint64_t seen = 0;
    if (n != self->ndim)
        return td_fail(
            TD_E_RUNTIME,
            "permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired "
            "ordering of dimensions i.e. input.dim() = %d is not equal to len(dims) = %" PRId64,
            self->ndim, n);
    for (int d = 0; d < n; d++) {
        int from = td_wrap_dim(dims[d], (int)n);
        if (from < 0)
            return NULL;
        if (seen >> from & 1)
            return td_fail(TD_E_RUNTIME, "permute(): duplicate dims are not allowed.");
        seen |= UINT64_C(1) << from;
        order[d] = from;
        sizes[d] = self->sizes[from];
        if ((d < s->sparse_dim) != (from < s->sparse_dim))
            return td_fail(TD_E_RUNTIME,
                           "permute(sparse_coo): transpositions between sparse and dense dimensions are not allowed: dimension %d "
                           "of a tensor with %d sparse dimensions would become %d",
                           from, s->sparse_dim, d);
        if (d >= s->sparse_dim)
            values_order[d - s->sparse_dim + 1] = from - s->sparse_dim + 1;
    }
    bool same_indices = true;
    for (int d = 0; d < s->sparse_dim; d++)
        same_indices &= order[d] == d;
    TD_AUTO td_tensor *indices = same_indices ? td_part_indices(self) : rows_of(self, s->sparse_dim, order);
    TD_AUTO td_tensor *values = td_permute(s->values, s->dense_dim + 1, values_order);
    return td_coo_new(self->ndim, sizes, s->sparse_dim, indices, values, s->coalesced && (same_indices || (empty_stays && !s->indices->numel)));
}

/* A permutation that names its first dimension otherwise than 0 isn't coalesced, even if it moves nothing, as in PyTorch. */
td_tensor *td_sparse_permute(td_tensor *self, int64_t n, const int64_t *dims)
{
    TD_AUTO td_tensor *x = reorder(self, n, dims, false);
    return x && n && dims[0] != 0 && td_sparse_of(x)->coalesced
               ? td_coo_like(x, td_sparse_of(x)->indices, td_sparse_of(x)->values, false) : td_ref(x);
}

/* An alias where nothing moves, since a call's result must be another tensor than its operand. */
td_tensor *td_sparse_transpose_int(td_tensor *self, int64_t dim0, int64_t dim1)
{
    int a = td_wrap_dim(dim0, self->ndim), b = td_wrap_dim(dim1, self->ndim);
    int64_t order[TD_MAX_DIMS];
    if (a < 0 || b < 0)
        return NULL;
    if (a == b || self->ndim < 2)
        return td_alias_detached(self, false);
    if (!td_is_coo(self))
        return transpose_compressed(self, a < b ? a : b, a < b ? b : a);
    if ((a < td_sparse_of(self)->sparse_dim) != (b < td_sparse_of(self)->sparse_dim))
        return td_fail(TD_E_RUNTIME, "sparse transpose: transposed dimensions must be sparse Got sparse_dim: %d, d0: %d, d1: %d",
                       td_sparse_of(self)->sparse_dim, a, b);
    for (int d = 0; d < self->ndim; d++)
        order[d] = d == a ? b : d == b ? a : d;
    return reorder(self, self->ndim, order, true);
}

int td_sparse_transpose_(td_tensor *self, int64_t dim0, int64_t dim1)
{
    TD_AUTO td_tensor *transposed = td_sparse_transpose_int(self, dim0, dim1);
    return !transposed ? -1 : td_tensor_layout(transposed) != td_tensor_layout(self) ? (td_layout_refuse("transpose_", self), -1)
                                                                             : td_layout_take(self, transposed);
}

/* Up to the last sparse dimension a row of zero indices; behind it a dimension of the values. Neither changes an order, but
 * PyTorch's result isn't coalesced if there are two elements, and programs see that. */
td_tensor *td_sparse_unsqueeze(td_tensor *self, int64_t dim)
{
    const td_sparse *s = td_sparse_of(self);
    int d = td_wrap_dim(dim, self->ndim + 1);
    int64_t sizes[TD_MAX_DIMS + 1];
    if (d < 0 || self->ndim >= TD_MAX_DIMS)
        return d < 0 ? NULL : td_fail(TD_E_RUNTIME, "unsqueeze: too many dimensions");
    memcpy(sizes, self->sizes, sizeof *sizes * (size_t)d);
    sizes[d] = 1;
    memcpy(sizes + d + 1, self->sizes + d, sizeof *sizes * (size_t)(self->ndim - d));
    if (d > s->sparse_dim) {
        TD_AUTO td_tensor *values = td_unsqueeze(s->values, d - s->sparse_dim + 1);
        return td_coo_new(self->ndim + 1, sizes, s->sparse_dim, s->indices, values, td_sparse_nnz(self) < 2);
    }
    TD_AUTO td_tensor *zero = td_zeros(2, (int64_t[]){1, td_sparse_nnz(self)}, TD_I64, self->device);
    TD_AUTO td_tensor *before = td_narrow(s->indices, 0, 0, d), *after = td_narrow(s->indices, 0, d, s->sparse_dim - d);
    TD_AUTO td_tensor *indices = before && zero && after ? td_cat(3, (td_tensor *[]){before, zero, after}, 0) : NULL;
    return td_coo_new(self->ndim + 1, sizes, s->sparse_dim + 1, indices, s->values, td_sparse_nnz(self) < 2);
}

/* Without a row of indices, which are all zero, or without a dimension of the values. */
td_tensor *td_sparse_squeeze_dim(td_tensor *self, int64_t dim)
{
    const td_sparse *s = td_sparse_of(self);
    int d = td_wrap_dim(dim, self->ndim);
    int64_t sizes[TD_MAX_DIMS];
    if (d < 0)
        return NULL;
    if (self->ndim == 0 || self->sizes[d] != 1)
        return td_alias_detached(self, false);
    memcpy(sizes, self->sizes, sizeof *sizes * (size_t)d);
    memcpy(sizes + d, self->sizes + d + 1, sizeof *sizes * (size_t)(self->ndim - d - 1));
    if (d >= s->sparse_dim) {
        TD_AUTO td_tensor *values = td_squeeze_dim(s->values, d - s->sparse_dim + 1);
        return td_coo_new(self->ndim - 1, sizes, s->sparse_dim, s->indices, values, s->coalesced);
    }
    TD_AUTO td_tensor *before = td_narrow(s->indices, 0, 0, d), *after = td_narrow(s->indices, 0, d + 1, s->sparse_dim - d - 1);
    TD_AUTO td_tensor *indices = before && after ? td_cat(2, (td_tensor *[]){before, after}, 0) : NULL;
    return td_coo_new(self->ndim - 1, sizes, s->sparse_dim - 1, indices, s->values, s->coalesced);
}

td_tensor *td_sparse_reshape(td_tensor *self, int64_t n, const int64_t *shape)
{
    (void)self, (void)n, (void)shape;
    return td_fail(TD_E_RUNTIME, "reshape is not implemented for sparse tensors");
}

td_tensor *td_sparse_expand_to(td_tensor *self, int64_t n, const int64_t *size, bool implicit)
{
    (void)self, (void)n, (void)size, (void)implicit;
    return td_fail(TD_E_RUNTIME, "expand is unsupported for %s tensors", td_is_coo(self) ? "Sparse" : "SparseCsr");
}

td_tensor *td_sparse_alias(td_tensor *self) { return td_alias_detached(self, false); }

/* Copies of x's elements along dimensions of size 1 that the new size has more of, and in new ones in front. */
td_tensor *td_op__sparse_broadcast_to(td_tensor *self, int64_t n, const int64_t *size)
{
    td_shape_text have, want;
    if (!td_is_coo(self))
        return td_layout_refuse("_sparse_broadcast_to", self);
    if (n > TD_MAX_DIMS || td_check_sizes(n, size))
        return n > TD_MAX_DIMS ? td_fail(TD_E_RUNTIME, "_sparse_broadcast_to: too many dimensions, %" PRId64, n) : NULL;
    if (n < self->ndim)
        return td_fail(TD_E_RUNTIME, "the requested broadcast shape has fewer dimensions than the input: %s can't become %s",
                       td_shape_str(self->ndim, self->sizes, have), td_shape_str((int)n, size, want));
    for (int d = 0; d < self->ndim; d++)
        if (self->sizes[d] != 1 && self->sizes[d] != size[n - self->ndim + d])
            return td_fail(TD_E_RUNTIME, "The input's length %" PRId64 " at dimension %d does not broadcast over the requested shape of "
                           "length %" PRId64 " at dimension %" PRId64,
                           self->sizes[d], d, size[n - self->ndim + d], n - self->ndim + d);
    td_tensor *x = td_ref(self);
    for (int d = 0; x && d < n; d++) {
        TD_AUTO td_tensor *old = x;
        TD_AUTO td_tensor *wide = d < n - self->ndim ? td_sparse_unsqueeze(old, d) : td_ref(old);
        x = td_ref(wide);
        if (wide && wide->sizes[d] != size[d]) {
            TD_AUTO td_tensor *zeros = td_zeros(1, &size[d], TD_I64, self->device);
            td_tensor_release(x);
            x = zeros ? td_sparse_index_select(wide, d, zeros) : NULL;
        }
    }
    return x;
}

/* Computed at once: there is no bit on the parts. */
td_tensor *td_sparse__conj(td_tensor *self) { return td__conj_physical(self); }

/* ---- picking */

/* The elements that a mask keeps. */
static td_tensor *chosen(td_tensor *mask)
{
    TD_AUTO td_tensor *list = td_nonzero(mask);
    return list ? td_view(list, 1, (int64_t[]){list->sizes[0]}) : NULL;
}

/* One matrix of a batch, or one element of each value: of a compressed tensor d is a batch or a dense dimension. */
static td_tensor *select_beside(td_tensor *x, int d, int64_t index)
{
    const td_sparse *s = td_sparse_of(x);
    const int batch = x->ndim - 2 - s->dense_dim;
    int64_t sizes[TD_MAX_DIMS];
    for (int k = 0; k + 1 < x->ndim; k++)
        sizes[k] = x->sizes[k + (k >= d)];
    if (d >= batch + 2) {
        TD_AUTO td_tensor *values = td_select_int(s->values, d - 1 + 2 * td_is_blocked(s->layout), index);
        return td_compressed_new(s->layout, x->ndim - 1, sizes, s->dense_dim - 1, s->indices, s->plain, values);
    }
    TD_AUTO td_tensor *indices = td_select_int(s->indices, d, index), *plain = td_select_int(s->plain, d, index);
    TD_AUTO td_tensor *values = td_select_int(s->values, d, index);
    return td_compressed_new(s->layout, x->ndim - 1, sizes, s->dense_dim, indices, plain, values);
}

/* A dense dimension is selected in the values, a view. A sparse one keeps the elements whose index matches, without
 * that row: the order of the others is theirs still. With no sparse dimension left the result is strided, and
 * repeated indices are summed. */
td_tensor *td_sparse_select_int(td_tensor *self, int64_t dim, int64_t index)
{
    if (self->ndim == 0)
        return td_fail(TD_E_INDEX, "select() cannot be applied to a 0-dim tensor.");
    int d = td_wrap_dim(dim, self->ndim);
    if (d < 0)
        return NULL;
    td_shape_text text;
    if (index < -self->sizes[d] || index >= self->sizes[d])
        return td_fail(TD_E_INDEX, "select(): index %" PRId64 " out of range for tensor of size %s at dimension %d", index,
                       td_shape_str(self->ndim, self->sizes, text), d);
    index += index < 0 ? self->sizes[d] : 0;
    if (!td_is_coo(self)) {
        const int batch = self->ndim - 2 - td_sparse_of(self)->dense_dim;
        if (d < batch || d >= batch + 2)
            return select_beside(self, d, index);
        if (batch)
            return td_fail(TD_E_RUNTIME, "select(): selecting sparse dimensions is not supported for batched sparse compressed tensors.");
    }
    TD_AUTO td_tensor *x = td_sparse_coo(self);
    if (!x)
        return NULL;
    const td_sparse *s = td_sparse_of(x);
    int64_t sizes[TD_MAX_DIMS];
    for (int k = 0; k + 1 < x->ndim; k++)
        sizes[k] = x->sizes[k + (k >= d)];
    if (d >= s->sparse_dim) {
        TD_AUTO td_tensor *values = td_select_int(s->values, d - s->sparse_dim + 1, index);
        return td_coo_new(x->ndim - 1, sizes, s->sparse_dim, s->indices, values, s->coalesced);
    }
    TD_AUTO td_tensor *row = td_select_int(s->indices, 0, d), *number = td_wrapped_number(td_int(index));
    TD_AUTO td_tensor *hit = td_eq_tensor(row, number), *which = chosen(hit);
    TD_AUTO td_tensor *values = td_index_select(s->values, 0, which);
    if (s->sparse_dim == 1) {       /* nothing sparse is left */
        TD_AUTO td_tensor *sum = td_sum_over(values, 1, (int64_t[]){0}, false);
        return sum ? td_to(sum, (td_dtype)x->dtype) : NULL;
    }
    int64_t rows[TD_MAX_DIMS];
    for (int k = 0; k + 1 < s->sparse_dim; k++)
        rows[k] = k + (k >= d);
    TD_AUTO td_tensor *others = rows_of(x, s->sparse_dim - 1, rows), *indices = td_index_select(others, 1, which);
    return td_coo_new(x->ndim - 1, sizes, s->sparse_dim - 1, indices, values, s->coalesced);
}

int td_sparse_unbind_int(td_tensor_list *results, td_tensor *self, int64_t dim)
{
    int d = td_wrap_dim(dim, self->ndim);
    if (d < 0 || td_tensor_list_new(results, self->sizes[d]))
        return -1;
    for (int64_t i = 0; i < results->count; i++)
        if (!(results->items[i] = td_sparse_select_int(self, d, i))) {
            td_tensor_list_release(results);
            return -1;
        }
    return 0;
}

/* Row d of the indices replaced. */
static td_tensor *with_row(td_tensor *indices, int64_t d, td_tensor *row)
{
    TD_AUTO td_tensor *copy = td_clone(indices), *place = copy ? td_select_int(copy, 0, d) : NULL;
    return place && row && td_copy_elements(place, row) == 0 ? td_ref(copy) : NULL;
}

/* Elements whose index in d lies in the range are kept, their order unchanged, with indices counted from `start`. */
td_tensor *td_sparse_narrow_copy(td_tensor *self, int64_t dim, int64_t start, int64_t length)
{
    const td_sparse *s = td_sparse_of(self);
    const int d = (int)dim;
    int64_t sizes[TD_MAX_DIMS];
    if (dim < 0 || dim >= self->ndim)       /* not counted from the end, as in PyTorch */
        return td_fail(TD_E_RUNTIME, "Dimension %" PRId64 " out of range. Expecting 0 <= dim < %d.", dim, self->ndim);
    if (length < 0)
        return td_fail(TD_E_RUNTIME, "narrow(): length must be non-negative.");
    if (start < 0 || start > self->sizes[d] - length)
        return td_fail(TD_E_RUNTIME,
                       "Invalid range to narrow. range(start, start+length) must be a subset of range(0, %" PRId64 ").",
                       self->sizes[d]);
    memcpy(sizes, self->sizes, sizeof *sizes * self->ndim);
    sizes[d] = length;
    if (d >= s->sparse_dim) {
        TD_AUTO td_tensor *part = td_narrow(s->values, d - s->sparse_dim + 1, start, length), *values = td_clone(part);
        return td_coo_new(self->ndim, sizes, s->sparse_dim, s->indices, values, s->coalesced);
    }
    TD_AUTO td_tensor *row = td_select_int(s->indices, 0, d), *moved = td_plus(row, td_int(-start));
    TD_AUTO td_tensor *above = td_ge_scalar(moved, td_int(0)), *below = td_lt_scalar(moved, td_int(length));
    TD_AUTO td_tensor *in = td_logical_and(above, below), *which = chosen(in);
    TD_AUTO td_tensor *all = with_row(s->indices, d, moved), *indices = td_index_select(all, 1, which);
    TD_AUTO td_tensor *values = td_index_select(s->values, 0, which);
    return td_coo_new(self->ndim, sizes, s->sparse_dim, indices, values, s->coalesced);
}

/* In a sparse dimension: elements sorted by their index there once, then two binary searches per wanted index bound
 * those that match, O((nnz + n) log nnz + results). In dimension 0 the result is in order: wanted indices come one
 * after another, and the stable sort keeps each one's elements in theirs. */
td_tensor *td_sparse_index_select(td_tensor *self, int64_t dim, td_tensor *index)
{
    if (td_is_sparse(index) || !td_is_coo(self))
        return td_layout_refuse("index_select", td_is_sparse(index) ? index : self);
    const td_sparse *s = td_sparse_of(self);
    if (self->ndim == 0)
        return td_fail(TD_E_INDEX, "index_select() cannot be applied to a 0-dim tensor.");
    int d = td_wrap_dim(dim, self->ndim);
    if (d < 0)
        return NULL;
    if (index->ndim != 1 || (index->dtype != TD_I64 && index->dtype != TD_I32))
        return td_fail(TD_E_INDEX, "index_select() argument index must be 1-D long-tensor.");
    int64_t sizes[TD_MAX_DIMS], n = index->numel, size = self->sizes[d];
    memcpy(sizes, self->sizes, sizeof *sizes * self->ndim);
    sizes[d] = n;
    if (d >= s->sparse_dim) {
        TD_AUTO td_tensor *values = td_index_select(s->values, d - s->sparse_dim + 1, index);
        return td_coo_new(self->ndim, sizes, s->sparse_dim, s->indices, values, s->coalesced);
    }
    TD_AUTO td_tensor *wanted = td_as_contiguous(index, TD_I64), *copy = td_clone(wanted);
    for (int64_t i = 0; copy && i < n; i++) {
        int64_t *at = (int64_t *)copy->data + i;
        if (*at < -size || *at >= size)
            return td_fail(TD_E_INDEX, "index_select(): index contains %" PRId64 " that is out of range for tensor of size %" PRId64
                           " at dimension %d", *at, size, d);
        *at += *at < 0 ? size : 0;
    }
    /* The elements by their index in d; of each wanted index, those from `from` on, `many` of them. */
    TD_AUTO td_tensor *row = td_select_int(s->indices, 0, d), *order = td_argsort_stable(row, true, 0, false);
    TD_AUTO td_tensor *sorted = td_index_select(row, 0, order),
                      *from = td_searchsorted_tensor(sorted, copy, false, false, NULL, TD_NONE);
    TD_AUTO td_tensor *until = td_searchsorted_tensor(sorted, copy, false, true, NULL, TD_NONE), *many = td_minus(until, from);
    TD_AUTO td_tensor *place = td_repeat_interleave_tensor(many, NULL);
    if (!place)
        return NULL;
    TD_AUTO td_tensor *ends = td_cumsum(many, 0, TD_DTYPE_NONE), *first = td_minus(ends, many), *shift = td_minus(from, first);
    TD_AUTO td_tensor *count = td_arange(td_int(place->numel), TD_I64, TD_DEVICE_NONE), *move = td_index_select(shift, 0, place);
    TD_AUTO td_tensor *at = td_add(count, move), *which = td_index_select(order, 0, at);
    TD_AUTO td_tensor *some = td_index_select(s->indices, 1, which), *indices = some ? with_row(some, d, place) : NULL;
    TD_AUTO td_tensor *values = td_index_select(s->values, 0, which);
    return td_coo_new(self->ndim, sizes, s->sparse_dim, indices, values, s->coalesced && d == 0);
}

/* ---- joining */

/* In a sparse dimension the lists are joined, indices shifted by what stands before. In a dense one values are padded
 * with zeros to the whole width: equal indices of two tensors then add up to the joined row. */
td_tensor *td_sparse_cat(int64_t n, td_tensor *const *tensors, int64_t dim)
{
    td_shape_text text, first;
    const td_tensor *head = tensors[0];
    for (int64_t i = 0; i < n; i++)
        if (!td_is_coo(tensors[i]))
            return td_is_sparse(tensors[i]) ? td_layout_refuse("cat", tensors[i]) :
                   td_fail(TD_E_RUNTIME, "Concatenating sparse tensors, but a dense tensor was found at position %" PRId64 ".", i);
    const td_sparse *s = td_sparse_of(head);
    int d = td_wrap_dim(dim, head->ndim);
    if (d < 0)
        return NULL;
    int64_t sizes[TD_MAX_DIMS], offset = 0;
    memcpy(sizes, head->sizes, sizeof *sizes * head->ndim);
    td_tensor_list indices = {0}, values = {0};
    if (td_tensor_list_new(&indices, n))
        return NULL;
    if (td_tensor_list_new(&values, n)) {
        td_tensor_list_release(&indices);
        return NULL;
    }
    td_dtype dtype = td_result_type((int)n, (td_tensor **)tensors);
    int status = dtype == TD_DTYPE_NONE ? -1 : 0;
    for (int64_t i = 0; i < n && status == 0; i++) {
        td_tensor *x = tensors[i];
        const td_sparse *t = td_sparse_of(x);
        bool fits = x->ndim == head->ndim && t->sparse_dim == s->sparse_dim;
        for (int k = 0; fits && k < x->ndim; k++)
            fits = k == d || x->sizes[k] == head->sizes[k];
        if (!fits) {
            status = td_error(
                TD_E_RUNTIME,
                "All tensors must have the same shape: %s (except in the concatenating dimension) and the same number of "
                "sparse dimensions, but found shape: %s at position %" PRId64 ".",
                td_shape_str(head->ndim, head->sizes, first), td_shape_str(x->ndim, x->sizes, text), i);
            break;
        }
        if (d < s->sparse_dim) {
            TD_AUTO td_tensor *row = td_select_int(t->indices, 0, d), *moved = td_plus(row, td_int(offset));
            indices.items[i] = with_row(t->indices, d, moved);
            values.items[i] = td_to(t->values, dtype);
        } else {        /* in a dense dimension: surrounded by zeros */
            TD_AUTO td_tensor *cast = td_to(t->values, dtype);
            int64_t before[TD_MAX_DIMS + 1], after[TD_MAX_DIMS + 1], total = 0;
            for (int64_t k = 0; k < n; k++)
                total += tensors[k]->sizes[d];
            memcpy(before, t->values->sizes, sizeof *before * t->values->ndim);
            memcpy(after, before, sizeof *before * t->values->ndim);
            int at = d - s->sparse_dim + 1;
            before[at] = offset, after[at] = total - offset - x->sizes[d];
            TD_AUTO td_tensor *zeros = td_zeros(t->values->ndim, before, dtype, x->device);
            TD_AUTO td_tensor *more = td_zeros(t->values->ndim, after, dtype, x->device);
            indices.items[i] = td_ref(t->indices);
            values.items[i] = zeros && cast && more ? td_cat(3, (td_tensor *[]){zeros, cast, more}, at) : NULL;
        }
        offset += x->sizes[d];
        status = indices.items[i] && values.items[i] ? 0 : -1;
    }
    sizes[d] = offset;
    TD_AUTO td_tensor *all = status == 0 ? td_cat(n, indices.items, 1) : NULL,
                      *every = status == 0 ? td_cat(n, values.items, 0) : NULL;
    td_tensor_list_release(&indices);
    td_tensor_list_release(&values);
    return td_coo_new(head->ndim, sizes, s->sparse_dim, all, every, false);
}
