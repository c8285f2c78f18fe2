/* COO tensors: making them, their parts, and changing them in place. */
#include "calls_layouts_sparse_coo.h"
#include "layouts/sparse/sparse.h"
#include <inttypes.h>
#include "tensor/checked.h"
#include "tensor/device.h"
#include "tensor/layout.h"

/* No elements are in order and unique, so it counts as coalesced. */
td_tensor *td_coo_empty(int ndim, const int64_t *sizes, int sparse_dim, td_dtype dtype, td_device device)
{
    int64_t shape[TD_MAX_DIMS + 1] = {0};
    if (td_check_sizes(ndim, sizes))
        return NULL;
    memcpy(shape + 1, sizes + sparse_dim, sizeof *sizes * (size_t)(ndim - sparse_dim));
    TD_AUTO td_tensor *indices = td_zeros(2, (int64_t[]){sparse_dim, 0}, TD_I64, device);
    TD_AUTO td_tensor *values = td_zeros(1 + ndim - sparse_dim, shape, dtype, device);
    return td_coo_new(ndim, sizes, sparse_dim, indices, values, true);
}

/* ---- checks */

/* What every other function here relies on without looking again: strided parts on one device, (sparse_dim, nnz) int64
 * indices and nnz values. Whether indices are in bounds costs a pass, which _validate_sparse_coo_tensor_args makes
 * (check_indices) and others leave to where they are used (_coo_keys). */
static int check_parts(td_tensor *indices, td_tensor *values)
{
    td_shape_text text, other;
    if (td_is_sparse(indices) || td_is_sparse(values))
        return td_error(TD_E_RUNTIME, "expected values to be a dense tensor: indices and values of a sparse tensor are strided");
    if (indices->device.type != values->device.type || indices->device.index != values->device.index)
        return td_error(TD_E_RUNTIME, "device of indices (%s) must match device of values (%s)", td_device_str(indices->device, text),
                        td_device_str(values->device, other));
    if (indices->ndim != 2)
        return td_error(TD_E_RUNTIME, "indices must be sparse_dim x nnz, but got: %s",
                        td_shape_str(indices->ndim, indices->sizes, text));
    if (indices->dtype != TD_I64)
        return td_error(TD_E_TYPE, "indices must be an int64 tensor");
    if (values->ndim < 1)
        return td_error(TD_E_RUNTIME, "values must have a dimension for the elements that indices name");
    if (indices->sizes[1] != values->sizes[0])
        return td_error(TD_E_RUNTIME, "indices and values must have same nnz, but got nnz from indices: %" PRId64
                        ", nnz from values: %" PRId64, indices->sizes[1], values->sizes[0]);
    return 0;
}

/* The shape against the parts: nnz, and then the dense dimensions, are those of values. */
static int check_shape(int64_t sparse_dim, int64_t dense_dim, int64_t n, const int64_t *size, td_tensor *indices, td_tensor *values)
{
    td_shape_text want, have;
    int64_t expected[TD_MAX_DIMS + 1] = {indices->sizes[1]};
    if (td_check_sizes(n, size))
        return -1;
    if (sparse_dim < 0 || dense_dim < 0 || n != td_add_saturated(sparse_dim, dense_dim))
        return td_error(TD_E_RUNTIME,
                        "'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = %" PRId64
                        ", sparse_dim = %" PRId64 ", dense_dim = %" PRId64,
                        n, sparse_dim, dense_dim);
    if (indices->sizes[0] != sparse_dim)
        return td_error(TD_E_RUNTIME, "indices has incorrect first dimension, expected %" PRId64 ", got %" PRId64, sparse_dim,
                        indices->sizes[0]);
    if (dense_dim != values->ndim - 1)
        return td_error(TD_E_RUNTIME, "values has incorrect number of dimensions, expected %" PRId64 ", got %d",
                        dense_dim + 1, values->ndim);
    memcpy(expected + 1, size + sparse_dim, sizeof *size * (size_t)dense_dim);
    if (memcmp(expected, values->sizes, sizeof *expected * values->ndim))
        return td_error(TD_E_RUNTIME, "values has incorrect size, expected %s, got %s", td_shape_str(values->ndim, expected, want),
                        td_shape_str(values->ndim, values->sizes, have));
    return 0;
}

/* Whether all of them are within `size` and, where `coalesced` claims it, in order and unique: each column is
 * compared with the one before, by the first dimension in which they differ. */
static int check_indices(td_tensor *x, const int64_t *size, bool coalesced)
{
    if (x->device.type == TD_META)
        return 0;
    TD_AUTO td_tensor *near = td_is_outside(x->device) ? td_host_copy(x) : td_ref(x);
    TD_AUTO td_tensor *indices = near ? td_make_contiguous(near) : NULL;
    if (!indices)
        return -1;
    const int64_t *at = (const int64_t *)indices->data, n = indices->sizes[1], dims = indices->sizes[0];
    for (int64_t d = 0; d < dims; d++) {
        int64_t low = 0, high = -1;
        for (int64_t i = 0; i < n; i++) {
            low = at[d * n + i] < low ? at[d * n + i] : low;
            high = at[d * n + i] > high ? at[d * n + i] : high;
        }
        if (low < 0)
            return td_error(TD_E_RUNTIME, "found negative index %" PRId64 " for dim %" PRId64, low, d);
        if (high >= size[d])
            return td_error(TD_E_RUNTIME, "size is inconsistent with indices: for dim %" PRId64 ", size is %" PRId64
                            " but found index %" PRId64, d, size[d], high);
    }
    for (int64_t i = 1; coalesced && i < n; i++) {
        int64_t d = 0;
        while (d < dims && at[d * n + i] == at[d * n + i - 1])
            d++;
        if (d == dims || at[d * n + i] < at[d * n + i - 1])
            return td_error(TD_E_RUNTIME, "cannot set is_coalesced to true if indices correspond to uncoalesced COO tensor");
    }
    return 0;
}

/* Sums of dimensions saturate, for callers' numbers may be any int64: a saturated one equals no length of a list. */
int td_op__validate_sparse_coo_tensor_args(td_tensor *indices, td_tensor *values, int64_t n, const int64_t *size,
                                           const bool *coalesced, const bool *pinning)
{
    (void)pinning;
    if (check_parts(indices, values))
        return -1;
    int64_t sparse_dim = indices->sizes[0], dense_dim = values->ndim - 1;
    td_shape_text text;
    if (n != td_add_saturated(sparse_dim, dense_dim))
        return td_error(TD_E_RUNTIME, "number of dimensions must be sparse_dim (%" PRId64 ") + dense_dim (%" PRId64 "), but got %s",
                        sparse_dim, dense_dim, td_shape_str((int)n, size, text));
    return check_shape(sparse_dim, dense_dim, n, size, indices, values) || check_indices(indices, size, coalesced && *coalesced)
               ? -1 : 0;
}

/* ---- making */

/* Unless the caller says whether it is coalesced, fewer than two elements are. The parts are shared, not copied,
 * as in PyTorch. */
td_tensor *td_op__sparse_coo_tensor_with_dims_and_tensors(int64_t sparse_dim, int64_t dense_dim, int64_t n, const int64_t *size,
                                                          td_tensor *indices, td_tensor *values, td_dtype dtype,
                                                          td_device device, const bool *coalesced)
{
    (void)device;
    if (check_parts(indices, values) || check_shape(sparse_dim, dense_dim, n, size, indices, values))
        return NULL;
    TD_AUTO td_tensor *of_dtype = dtype == TD_DTYPE_NONE ? td_ref(values) : td_to(values, dtype);
    return td_coo_new((int)n, size, (int)sparse_dim, indices, of_dtype, coalesced ? *coalesced : indices->sizes[1] < 2);
}

td_tensor *td_op__sparse_coo_tensor_with_dims(int64_t sparse_dim, int64_t dense_dim, int64_t n, const int64_t *size, td_dtype dtype,
                                              td_device device)
{
    if (td_check_sizes(n, size))
        return NULL;
    if (sparse_dim < 0 || dense_dim < 0 || n != td_add_saturated(sparse_dim, dense_dim))
        return td_fail(TD_E_RUNTIME,
                       "number of dimensions must be sparse_dim (%" PRId64 ") + dense_dim (%" PRId64 "), but got %" PRId64,
                       sparse_dim, dense_dim, n);
    return td_coo_empty((int)n, size, (int)sparse_dim, dtype, device);
}

td_tensor *td_op_sparse_coo_tensor_size(int64_t n, const int64_t *size, td_dtype dtype, td_device device)
{
    return td__sparse_coo_tensor_with_dims(n, 0, n, size, dtype, device);
}

/* A COO `out` of zeros() keeps its dtype and has no dense dimensions; a compressed one its index dtype, blocks and dense dimensions, too. */
td_tensor *td_sparse_zeros(int64_t n, const int64_t *size, td_dtype dtype, td_device device)
{
    return td_op_sparse_coo_tensor_size(n, size, dtype, device);
}
int td_sparse_zeros_into(td_tensor *out, int64_t n, const int64_t *size, td_dtype dtype, td_device device)
{
    (void)dtype, (void)device;
    if (!td_is_coo(out))
        return td_compressed_clear(out, n, size);
    return td_op_sparse_resize_and_clear_(out, n, size, n, 0);
}

td_tensor *td_op_sparse_coo_tensor_indices_size(td_tensor *indices, td_tensor *values, int64_t n, const int64_t *size,
                                                td_dtype dtype, td_device device, const bool *coalesced)
{
    if (check_parts(indices, values))
        return NULL;
    return td__sparse_coo_tensor_with_dims_and_tensors(indices->sizes[0], values->ndim - 1, n, size, indices, values, dtype, device,
                                                       coalesced);
}

/* The smallest shape that has room for the indices: one more than the largest of each row. Without elements the
 * sparse dimensions are of size 0. */
td_tensor *td_op_sparse_coo_tensor_indices(td_tensor *indices, td_tensor *values, td_dtype dtype, td_device device,
                                           const bool *coalesced)
{
    int64_t size[TD_MAX_DIMS] = {0};
    if (check_parts(indices, values) || td_check_indices_here(indices))
        return NULL;
    int64_t sparse_dim = indices->sizes[0], n = sparse_dim + values->ndim - 1;
    if (n > TD_MAX_DIMS)
        return td_fail(TD_E_RUNTIME, "sparse_coo_tensor: too many dimensions, %" PRId64, n);
    TD_AUTO td_tensor *near = td_on_host(indices);
    if (!near)
        return NULL;
    TD_AUTO td_tensor *last = indices->sizes[1] ? td_amax(near, 1, (int64_t[]){1}, false) : td_ref(TD_NONE);
    TD_AUTO td_tensor *first = indices->sizes[1] ? td_amin(near, 1, (int64_t[]){1}, false) : td_ref(TD_NONE);
    if (!last || !first)
        return NULL;
    for (int64_t d = 0; d < sparse_dim && last != TD_NONE; d++) {
        if (((int64_t *)first->data)[d] < 0)
            return td_fail(TD_E_RUNTIME, "found negative index %" PRId64 " for dim %" PRId64, ((int64_t *)first->data)[d], d);
        if (__builtin_add_overflow(((int64_t *)last->data)[d], 1, &size[d]))
            return td_fail(TD_E_RUNTIME, "sparse_coo_tensor: an index of dim %" PRId64 " is too large", d);
    }
    memcpy(size + sparse_dim, values->sizes + 1, sizeof *size * (size_t)(values->ndim - 1));
    return td__sparse_coo_tensor_with_dims_and_tensors(sparse_dim, values->ndim - 1, n, size, indices, values, dtype, device,
                                                       coalesced);
}

/* ---- parts */

int td_op__nnz(int64_t *result, td_tensor *self) { return (void)result, td_layout_refuse("_nnz", self), -1; }
td_tensor *td_op__indices(td_tensor *self) { return td_layout_refuse("_indices", self); }
td_tensor *td_op__values(td_tensor *self) { return td_layout_refuse("_values", self); }

/* Of a compressed batch the number in each matrix, which is the same for all. */
int td_sparse__nnz(int64_t *result, td_tensor *self)
{
    const td_sparse *s = td_sparse_of(self);
    *result = td_is_coo(self) ? td_sparse_nnz(self) : s->plain->ndim ? s->plain->sizes[s->plain->ndim - 1] : 0;
    return 0;
}
/* Of a strided tensor all dimensions are dense. */
int td_op_sparse_dim(int64_t *result, td_tensor *self)
{
    return *result = td_is_sparse(self) ? td_sparse_of(self)->sparse_dim : 0, 0;
}
int td_op_dense_dim(int64_t *result, td_tensor *self)
{
    return *result = td_is_sparse(self) ? td_sparse_of(self)->dense_dim : self->ndim, 0;
}

/* x is of a layout that `op` is for. */
static int expect_coo(const char *op, const td_tensor *x)
{
    int layout = td_tensor_layout(x);
    return td_is_coo(x) ? 0 : td_error(TD_E_RUNTIME, "%s expected sparse coordinate tensor layout but got %s", op,
                                       td_sparse_title(layout));
}

int td_op_is_coalesced(bool *result, td_tensor *self)
{
    return expect_coo("is_coalesced", self) ? -1 : (*result = td_sparse_of(self)->coalesced, 0);
}
/* Believed, not checked, as in PyTorch: the record is replaced by one with another mark over the same parts. */
int td_op__coalesced_(td_tensor *self, bool coalesced)
{
    if (!td_is_coo(self))
        return td_layout_refuse("_coalesced_", self), -1;
    TD_AUTO td_tensor *marked = td_coo_like(self, td_sparse_of(self)->indices, td_sparse_of(self)->values, coalesced);
    return marked ? td_layout_take(self, marked) : -1;
}
td_tensor *td_sparse__indices(td_tensor *self) { return td_alias_detached(td_sparse_of(self)->indices, false); }
td_tensor *td_sparse__values(td_tensor *self) { return td_alias_detached(td_sparse_of(self)->values, false); }

td_tensor *td_op_indices(td_tensor *self)
{
    if (expect_coo("indices", self))
        return NULL;
    return td_sparse_of(self)->coalesced ? td_sparse__indices(self) :
           td_fail(TD_E_RUNTIME, "Cannot get indices on an uncoalesced tensor, please call .coalesce() first");
}
td_tensor *td_op_values(td_tensor *self)
{
    if (!td_is_sparse(self))
        return td_fail(TD_E_RUNTIME, "values expected sparse tensor layout but got Strided");
    return td_sparse_of(self)->coalesced ? td_sparse__values(self) :
           td_fail(TD_E_RUNTIME, "Cannot get values on an uncoalesced tensor, please call .coalesce() first");
}
/* values() takes the values out of self's pattern; its gradient goes back into that pattern. */
td_tensor *td_op_values_backward(td_tensor *grad, td_tensor *self)
{
    return td_is_sparse(self) && !td_is_sparse(grad) ? td_sparse_with_values(self, grad)
                                                     : td_layout_refuse("values_backward", self);
}

td_tensor *td_op_coalesce(td_tensor *self) { return expect_coo("coalesce", self) ? NULL : td_sparse_settled(self); }

/* ---- in place */

td_tensor *td_sparse_cast(td_tensor *x, td_dtype dtype)
{
    if (!x || x->dtype == (int8_t)dtype)
        return td_ref(x);
    TD_AUTO td_tensor *values = td_part_values(x), *cast = td_to(values, dtype);
    return td_sparse_with_values(x, cast);
}

/* No elements at all are zeros everywhere; aliases keep what they have. */
int td_sparse_zero_(td_tensor *self)
{
    TD_AUTO td_tensor *none = td_sparse_zeros_like_options(self, TD_DTYPE_NONE, TD_DEVICE_NONE, TD_MEMORY_FORMAT_NONE);
    return none ? td_layout_take(self, none) : -1;
}

int td_op_sparse_resize_and_clear_(td_tensor *self, int64_t n, const int64_t *size, int64_t sparse_dim, int64_t dense_dim)
{
    if (!td_is_coo(self))
        return td_layout_refuse("sparse_resize_and_clear_", self), -1;
    TD_AUTO td_tensor *none =
        td_op__sparse_coo_tensor_with_dims(sparse_dim, dense_dim, n, size, (td_dtype)self->dtype, self->device);
    return none ? td_layout_take(self, none) : -1;
}

/* With elements a tensor may only grow, for those outside a smaller shape would have no position; growing sparse
 * dimensions changes no part. Growing dense ones resizes the values as a strided tensor is resized: they stay in their order in
 * memory, and what is new is zero. */
int td_op_sparse_resize_(td_tensor *self, int64_t n, const int64_t *size, int64_t sparse_dim, int64_t dense_dim)
{
    if (!td_is_coo(self))
        return td_layout_refuse("sparse_resize_", self), -1;
    const td_sparse *s = td_sparse_of(self);
    int64_t nnz = td_sparse_nnz(self), shape[TD_MAX_DIMS + 1] = {nnz};
    if (td_check_sizes(n, size))
        return -1;
    if (sparse_dim < 0 || dense_dim < 0 || n != td_add_saturated(sparse_dim, dense_dim))
        return td_error(TD_E_RUNTIME,
                        "number of dimensions must be sparse_dim (%" PRId64 ") + dense_dim (%" PRId64 "), but got %" PRId64,
                        sparse_dim, dense_dim, n);
    static const char hint[] =
        "If you really want this operation, use a tensor without elements, or copy it to a tensor of another "
        "size with torch.sparse_coo_tensor(x._indices(), x._values(), size)";
    if (nnz > 0) {
        bool shrinks = false, shrinks_dense = false;
        if (sparse_dim != s->sparse_dim)
            return td_error(TD_E_RUNTIME,
                            "changing the number of sparse dimensions (from %d to %" PRId64 ") on a non-empty sparse tensor "
                            "is not supported. %s",
                            s->sparse_dim, sparse_dim, hint);
        if (dense_dim != s->dense_dim)
            return td_error(TD_E_RUNTIME,
                            "changing the number of dense dimensions (from %d to %" PRId64 ") on a non-empty sparse tensor "
                            "is not supported. %s",
                            s->dense_dim, dense_dim, hint);
        for (int64_t d = 0; d < n; d++)
            *(d < sparse_dim ? &shrinks : &shrinks_dense) |= size[d] < self->sizes[d];
        td_shape_text from, to;
        if (shrinks || shrinks_dense)
            return td_error(TD_E_RUNTIME, "shrinking the size of %s dimensions (from %s to %s) on a non-empty sparse tensor is not "
                            "supported. %s", shrinks ? "sparse" : "dense", td_shape_str(self->ndim, self->sizes, from),
                            td_shape_str((int)n, size, to), hint);
    }
    memcpy(shape + 1, size + sparse_dim, sizeof *size * (size_t)dense_dim);
    TD_AUTO td_tensor *indices = nnz ? td_part_indices(self) : td_zeros(2, (int64_t[]){sparse_dim, 0}, TD_I64, self->device);
    TD_AUTO td_tensor *values = NULL;
    if (nnz && !memcmp(shape, s->values->sizes, sizeof *shape * s->values->ndim)) {
        values = td_part_values(self);
    } else {      /* what is new is zero */
        TD_AUTO td_tensor *larger = td_zeros(dense_dim + 1, shape, (td_dtype)self->dtype, self->device);
        const int64_t count = nnz ? s->values->numel : 0;
        TD_AUTO td_tensor *line = td_view(larger, 1, (int64_t[]){-1}), *begin = td_narrow(line, 0, 0, count);
        TD_AUTO td_tensor *own = count ? td_reshape(s->values, 1, &count) : td_ref(begin);
        if (!begin || !own || (count && td_copy_elements(begin, own)))
            return -1;
        values = td_ref(larger);
    }
    TD_AUTO td_tensor *made = td_coo_new((int)n, size, (int)sparse_dim, indices, values, s->coalesced);
    return made ? td_layout_take(self, made) : -1;
}

int td_op_copy_sparse_to_sparse_(td_tensor *self, td_tensor *src, bool non_blocking)
{
    return td_sparse_copy_from_(self, src, non_blocking);
}

/* What a compressed tensor is copied from has its shape, number of values, and blocks. */
static int check_copied(const td_tensor *self, const td_tensor *src)
{
    const td_sparse *s = td_sparse_of(self), *t = td_sparse_of(src);
    const int batch = s->plain->ndim - 1;
    td_shape_text a, b;
    if (self->ndim != src->ndim)
        return td_error(TD_E_RUNTIME, "copy_(): expected sparse compressed tensors of equally many dimensions, got %s and %s",
                        td_shape_str(self->ndim, self->sizes, a), td_shape_str(src->ndim, src->sizes, b));
    const int64_t nnz = s->plain->sizes[batch], other = t->plain->sizes[t->plain->ndim - 1];
    if (nnz != other)
        return td_error(TD_E_RUNTIME,
                        "copy_(): only sparse compressed tensors with the same number of specified elements are supported. "
                        "(self has %" PRId64 " and src has %" PRId64 ")", nnz, other);
    for (int d = 0; d < self->ndim; d++)
        if (self->sizes[d] != src->sizes[d])
            return td_error(TD_E_RUNTIME,
                            "copy_(): expected shapes of self and src to match along dimension %d for %s layout but the "
                            "corresponding dimensions of self and src are %" PRId64 " and %" PRId64,
                            d, td_layout_name(s->layout), self->sizes[d], src->sizes[d]);
    if (td_is_blocked(s->layout) && memcmp(s->values->sizes + batch + 1, t->values->sizes + batch + 1, 2 * sizeof *s->values->sizes))
        return td_error(TD_E_RUNTIME,
                        "copy_(): copy of sparse compressed tensors having different block sizes is not supported. (self and src "
                        "block sizes are (%" PRId64 ", %" PRId64 ") and (%" PRId64 ", %" PRId64 "), respectively)",
                        s->values->sizes[batch + 1], s->values->sizes[batch + 2], t->values->sizes[batch + 1], t->values->sizes[batch + 2]);
    return 0;
}

/* The copy is of the parts: self takes src's pattern, and its dtype is kept (td_layout_finish). */
int td_sparse_copy_from_(td_tensor *self, td_tensor *src, bool non_blocking)
{
    (void)non_blocking;
    if (self == src)
        return 0;
    const bool compressed = (td_is_sparse(self) && !td_is_coo(self)) || (td_is_sparse(src) && !td_is_coo(src));
    if (!compressed && (!td_is_sparse(self) || !td_is_sparse(src)))
        return td_error(
            TD_E_RUNTIME,
            "copy_() between dense and sparse Tensors is not implemented! Found self type = %s and src type = %s",
            td_is_sparse(self) ? "torch.sparse.FloatTensor" : "torch.FloatTensor",
            td_is_sparse(src) ? "torch.sparse.FloatTensor" : "torch.FloatTensor");
    if (td_tensor_layout(self) != td_tensor_layout(src))
        return td_error(TD_E_RUNTIME, "copy of sparse compressed tensors having different layouts is not supported.");
    if (compressed && check_copied(self, src))
        return -1;
    if (!compressed && td_resize_as_sparse_(self, src))     /* what can't become of src's shape isn't copied to */
        return -1;
    TD_AUTO td_tensor *copy = td_sparse_clone_format(src, TD_MEMORY_FORMAT_NONE);
    return td_layout_finish("copy_", self, td_ref(copy));
}

int td_check_coalesced(const char *op, const td_tensor *x)
{
    return td_is_sparse(x) && !td_sparse_of(x)->coalesced ? td_error(TD_E_RUNTIME, "%s requires coalesced input", op) : 0;
}

/* ---- copies */

td_tensor *td_sparse_clone_format(td_tensor *self, td_memory_format format)
{
    if (format != TD_MEMORY_FORMAT_NONE && format != TD_PRESERVE_FORMAT)
        return td_fail(TD_E_RUNTIME, "unsupported memory format option %s",
                       format == TD_CONTIGUOUS_FORMAT ? "Contiguous" : "ChannelsLast");
    const td_sparse *s = td_sparse_of(self);
    TD_AUTO td_tensor *indices = td_clone(s->indices), *values = td_clone(s->values);
    if (td_is_coo(self))
        return td_coo_like(self, indices, values, s->coalesced);
    TD_AUTO td_tensor *plain = td_clone(s->plain);
    return td_compressed_new(s->layout, self->ndim, self->sizes, s->dense_dim, indices, plain, values);
}

td_tensor *td_sparse__to_copy(td_tensor *self, td_dtype dtype, td_device device, bool non_blocking, td_memory_format format)
{
    (void)non_blocking;
    if (device.type == TD_META)         /* how many elements there are is a value, too, and isn't taken along */
        return td_sparse_empty_after(self, td_tensor_layout(self), dtype == TD_DTYPE_NONE ? (td_dtype)self->dtype : dtype, device);
    TD_AUTO td_tensor *copy = td_sparse_clone_format(self, format);
    if (copy && td_is_outside(device)) {
        TD_AUTO td_tensor *cast = dtype == TD_DTYPE_NONE ? td_ref(copy) : td_sparse_cast(copy, dtype);
        return cast && !td_device_resolve(&device) ? td_layout_on(cast, device) : NULL;
    }
    return dtype == TD_DTYPE_NONE ? td_ref(copy) : td_sparse_cast(copy, dtype);
}

/* The rows and columns that `like` has, in x's dtypes; the values are zero. */
static int resize_as_compressed(td_tensor *x, td_tensor *like)
{
    const td_sparse *s = td_sparse_of(x), *t = td_sparse_of(like);
    if (s->layout != t->layout)
        return td_error(TD_E_RUNTIME,
                        "resize_as_sparse_compressed_tensor_: self and src must have the same layout, but got: self (%s) and source (%s)",
                        td_layout_name(s->layout), td_layout_name(t->layout));
    TD_AUTO td_tensor *own = td_to(t->indices, (td_dtype)s->indices->dtype), *across = td_to(t->plain, (td_dtype)s->plain->dtype);
    TD_AUTO td_tensor *indices = td_clone(own), *plain = td_clone(across);
    TD_AUTO td_tensor *values = td_zeros(t->values->ndim, t->values->sizes, (td_dtype)x->dtype, x->device);
    TD_AUTO td_tensor *made = td_compressed_new(s->layout, like->ndim, like->sizes, t->dense_dim, indices, plain, values);
    return made ? td_layout_take(x, made) : -1;
}

int td_op_resize_as_sparse_(td_tensor *self, td_tensor *like)
{
    if (!td_is_sparse(self) || !td_is_sparse(like) || td_is_coo(self) != td_is_coo(like))
        return td_layout_refuse("resize_as_sparse_", td_is_coo(self) ? like : self), -1;
    if (!td_is_coo(self))
        return resize_as_compressed(self, like);
    if (self->ndim == like->ndim && !memcmp(self->sizes, like->sizes, sizeof *self->sizes * self->ndim) &&
        td_sparse_of(self)->sparse_dim == td_sparse_of(like)->sparse_dim)
        return 0;
    return td_op_sparse_resize_(self, like->ndim, like->sizes, td_sparse_of(like)->sparse_dim, td_sparse_of(like)->dense_dim);
}

/* Of a template that has another layout, too: then that is the error. */
int td_sparse_resize_as_(td_tensor *self, td_tensor *the_template, td_memory_format format)
{
    (void)format;
    return td_resize_as_sparse_(self, the_template);
}

/* A CSR tensor of more or fewer rows, more columns, other batches. The parts are resized as strided tensors are: elements stay
 * in their order, new rows are empty, elements for which there is no room go. */
int td_sparse_resize(td_tensor *self, int64_t n, const int64_t *size, td_memory_format format)
{
    (void)format;
    td_shape_text text;
    const td_sparse *s = td_sparse_of(self);
    if (s->layout != TD_SPARSE_CSR)
        return td_layout_refuse("resize_", self), -1;
    if (td_check_sizes(n, size))
        return -1;
    if (n < 2 || s->dense_dim)
        return td_error(TD_E_RUNTIME, "torch.resize_: Only batched sparse CSR matrices are supported, but got size %s",
                        td_shape_str((int)n, size, text));
    const int64_t rows = size[n - 2], columns = size[n - 1], old = s->indices->sizes[s->indices->ndim - 1];
    if (self->sizes[self->ndim - 1] > columns)
        return td_error(TD_E_RUNTIME,
                        "torch.resize_: Resizing columns of sparse CSR tensors to a smaller value is not supported. The original "
                        "number of columns is %" PRId64 " while the requested new number of columns is %" PRId64 ".",
                        self->sizes[self->ndim - 1], columns);
    const int64_t room = td_mul_saturated(rows, columns), nnz = s->plain->sizes[s->plain->ndim - 1], kept = nnz < room ? nnz : room;
    int64_t shape[TD_MAX_DIMS];
    memcpy(shape, size, sizeof *shape * (size_t)(n - 2));
    shape[n - 2] = rows + 1;
    TD_AUTO td_tensor *indices = td_clone(s->indices), *plain = td_clone(s->plain), *values = td_clone(s->values);
    if (!indices || !plain || !values || td_resize_(indices, n - 1, shape, TD_MEMORY_FORMAT_NONE))
        return -1;
    TD_AUTO td_tensor *last = rows + 1 > old ? td_narrow(indices, -1, old, rows + 1 - old) : td_narrow(indices, -1, rows, 1);
    if (!last || td_fill_scalar_(last, td_int(rows + 1 > old ? nnz : kept)))
        return -1;
    shape[n - 2] = kept;
    if (td_resize_(plain, n - 1, shape, TD_MEMORY_FORMAT_NONE) || td_resize_(values, n - 1, shape, TD_MEMORY_FORMAT_NONE))
        return -1;
    TD_AUTO td_tensor *made = td_compressed_new(TD_SPARSE_CSR, (int)n, size, 0, indices, plain, values);
    return made ? td_layout_take(self, made) : -1;
}

/* ---- of another's layout, without elements */

static td_tensor *empty_of(td_tensor *self, int64_t n, const int64_t *size, td_dtype dtype, td_device device)
{
    const td_sparse *s = td_sparse_of(self);
    dtype = dtype == TD_DTYPE_NONE ? (td_dtype)self->dtype : dtype;
    if (device.type >= 0 && device.type != TD_CPU)
        return td_layout_refuse("empty_like", self);
    if (td_is_coo(self))
        return td_coo_empty((int)n, size, (int)n == self->ndim ? s->sparse_dim : (int)n, dtype, self->device);
    if (n != self->ndim || memcmp(size, self->sizes, sizeof *size * (size_t)n))
        return td_layout_refuse("new_zeros", self);
    int64_t shape[TD_MAX_DIMS + 2];
    const int batch = s->plain->ndim - 1;
    memcpy(shape, s->values->sizes, sizeof *shape * s->values->ndim);
    shape[batch] = 0;
    TD_AUTO td_tensor *values = td_zeros(s->values->ndim, shape, dtype, self->device), *indices = td_zeros_like(s->indices);
    TD_AUTO td_tensor *plain = td_zeros(s->plain->ndim, shape, (td_dtype)s->plain->dtype, self->device);
    return td_compressed_new(s->layout, self->ndim, self->sizes, s->dense_dim, indices, plain, values);
}

td_tensor *td_sparse_zeros_like_options(td_tensor *self, td_dtype dtype, td_device device, td_memory_format format)
{
    if (format != TD_MEMORY_FORMAT_NONE && td_is_coo(self))
        return td_fail(TD_E_RUNTIME, "memory format option is only supported by strided tensors");
    return empty_of(self, self->ndim, self->sizes, dtype, device);
}
/* Of a compressed tensor its indices stay. */
td_tensor *td_sparse_empty_like(td_tensor *self, td_dtype dtype, td_device device, td_memory_format format)
{
    if (td_is_coo(self))
        return td_sparse_zeros_like_options(self, dtype, device, format);
    TD_AUTO td_tensor *copy = td_sparse__to_copy(self, dtype, device, false, TD_MEMORY_FORMAT_NONE);
    return td_ref(copy);
}
td_tensor *td_sparse_new_zeros(td_tensor *self, int64_t n, const int64_t *size, td_dtype dtype, td_device device)
{
    return empty_of(self, n, size, dtype, device);
}
td_tensor *td_sparse_new_empty(td_tensor *self, int64_t n, const int64_t *size, td_dtype dtype, td_device device)
{
    return empty_of(self, n, size, dtype, device);
}

/* Diagonal k holds, in column j, diagonals[k][j]. */
td_tensor *td_op__spdiags(td_tensor *diagonals, td_tensor *offsets, int64_t n, const int64_t *shape, td_layout layout)
{
    TD_AUTO td_tensor *one = diagonals->ndim == 1 ? td_unsqueeze(diagonals, 0) : td_ref(diagonals);
    TD_AUTO td_tensor *line = offsets->ndim == 0 ? td_unsqueeze(offsets, 0) : td_ref(offsets);
    if (!one || !line)
        return NULL;
    if (n != 2 || one->ndim != 2)
        return td_fail(TD_E_RUNTIME, n != 2 ? "Output shape must be 2d" : "Diagonals must be vector or matrix");
    if ((int)layout == TD_STRIDED || (int)layout > TD_SPARSE_CSC)
        return td_fail(TD_E_RUNTIME, "Only output layouts (Sparse, SparseCsc, SparseCsr) are supported, got %s",
                       td_sparse_title((int)layout));
    if (line->ndim != 1 || line->dtype != TD_I64)
        return td_fail(TD_E_RUNTIME, line->ndim != 1 ? "Offsets must be scalar or vector" : "Offset Tensor must have dtype Long but got %s",
                       td_dtype_title((td_dtype)line->dtype));
    if (line->numel != one->sizes[0])
        return td_fail(TD_E_RUNTIME, "Number of diagonals (%" PRId64 ") does not match the number of offsets (%" PRId64 ")",
                       one->sizes[0], line->numel);
    TD_AUTO td_tensor *near = td_on_host(line), *k = near ? td_make_contiguous(near) : NULL;
    const int64_t width = one->sizes[1], many = one->sizes[0];
    for (int64_t d = 0; k && d < many; d++)
        for (int64_t e = 0; e < d; e++)
            if (((const int64_t *)k->data)[d] == ((const int64_t *)k->data)[e])
                return td_fail(TD_E_RUNTIME, "Offset tensor contains duplicate values");
    TD_AUTO td_tensor *indices = td_empty(2, (int64_t[]){3, many * width}, TD_I64);
    if (!k || !indices)
        return NULL;
    int64_t *to = (int64_t *)indices->data, all = many * width, count = 0;
    for (int64_t d = 0; d < many; d++)
        for (int64_t j = 0; j < width; j++) {
            int64_t row = td_sub_saturated(j, ((const int64_t *)k->data)[d]);
            if (row < 0 || row >= shape[0] || j >= shape[1])
                continue;
            to[count] = row, to[all + count] = j, to[2 * all + count++] = d * width + j;
        }
    TD_AUTO td_tensor *kept = td_narrow(indices, 1, 0, count), *places = td_narrow(kept, 0, 0, 2),
                      *from = td_select_int(kept, 0, 2);
    TD_AUTO td_tensor *flat = td_reshape(one, 1, &all), *values = td_index_select(flat, 0, from), *copy = td_clone(places);
    TD_AUTO td_tensor *x = copy && values ? td__sparse_coo_tensor_with_dims_and_tensors(2, 0, 2, shape, copy, values,
                                                                                        TD_DTYPE_NONE, TD_DEVICE_NONE, NULL)
                                          : NULL;
    return (int)layout < 0 || layout == TD_SPARSE_COO ? td_ref(x) : td_to_sparse(x, layout, -1, NULL, NULL);
}
