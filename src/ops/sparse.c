/* COO tensors: making them, their parts, and changing them in place. */
#include "calls_ops_sparse.h"
#include "ops/sparse.h"
#include <inttypes.h>
#include "tensor/layout.h"
#include "tensor/checked.h"

void *td_sparse_refuse(const char *op, const td_tensor *x)
{
    return td_fail(TD_E_NOT_IMPLEMENTED, "Could not run 'aten::%s' with arguments from the '%s' backend.", op,
                   td_is_coo(x) ? "SparseCPU" : td_is_sparse(x) ? "SparseCsrCPU" : "CPU");
}

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

static int check_parts(td_tensor *indices, td_tensor *values)
{
    td_shape_text text;
    if (td_is_sparse(indices) || td_is_sparse(values))
        return td_error(TD_E_RUNTIME, "expected values to be a dense tensor: indices and values of a sparse tensor are strided");
    if (indices->device.type != TD_CPU || values->device.type != TD_CPU)
        return td_error(TD_E_NOT_IMPLEMENTED, "sparse tensors live on the CPU, not on '%s'",
                        td_device_str(indices->device.type != TD_CPU ? indices->device : values->device, text));
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

/* Whether all of them are within `size`, in order and unique if told so. */
static int check_indices(td_tensor *x, const int64_t *size, bool coalesced)
{
    TD_AUTO td_tensor *indices = td_make_contiguous(x);
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

td_tensor *td_op_sparse_coo_tensor_indices_size(td_tensor *indices, td_tensor *values, int64_t n, const int64_t *size,
                                                td_dtype dtype, td_device device, const bool *coalesced)
{
    if (check_parts(indices, values))
        return NULL;
    return td__sparse_coo_tensor_with_dims_and_tensors(indices->sizes[0], values->ndim - 1, n, size, indices, values, dtype, device,
                                                       coalesced);
}

td_tensor *td_op_sparse_coo_tensor_indices(td_tensor *indices, td_tensor *values, td_dtype dtype, td_device device,
                                           const bool *coalesced)
{
    int64_t size[TD_MAX_DIMS] = {0};
    if (check_parts(indices, values))
        return NULL;
    int64_t sparse_dim = indices->sizes[0], n = sparse_dim + values->ndim - 1;
    if (n > TD_MAX_DIMS)
        return td_fail(TD_E_RUNTIME, "sparse_coo_tensor: too many dimensions, %" PRId64, n);
    TD_AUTO td_tensor *last = indices->sizes[1] ? td_amax(indices, 1, (int64_t[]){1}, false) : td_ref(TD_NONE);
    TD_AUTO td_tensor *first = indices->sizes[1] ? td_amin(indices, 1, (int64_t[]){1}, false) : td_ref(TD_NONE);
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

int td_op__nnz(int64_t *result, td_tensor *self) { return (void)result, td_sparse_refuse("_nnz", self), -1; }
td_tensor *td_op__indices(td_tensor *self) { return td_sparse_refuse("_indices", self); }
td_tensor *td_op__values(td_tensor *self) { return td_sparse_refuse("_values", self); }

int td_sparse__nnz(int64_t *result, td_tensor *self)
{
    const td_sparse *s = td_sparse_of(self);
    *result = td_is_coo(self) ? td_sparse_nnz(self) : s->plain->ndim ? s->plain->sizes[s->plain->ndim - 1] : 0;
    return 0;
}
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
    static const char *const titles[] = {"Strided", "Sparse", "SparseCsr", "SparseCsc", "SparseBsr", "SparseBsc"};
    int layout = td_tensor_layout(x);
    return td_is_coo(x) ? 0 : td_error(TD_E_RUNTIME, "%s expected sparse coordinate tensor layout but got %s", op,
                                       layout < (int)TD_COUNT(titles) ? titles[layout] : td_layout_name(layout));
}

int td_op_is_coalesced(bool *result, td_tensor *self)
{
    return expect_coo("is_coalesced", self) ? -1 : (*result = td_sparse_of(self)->coalesced, 0);
}
int td_op__coalesced_(td_tensor *self, bool coalesced)
{
    return td_is_coo(self) ? (td_sparse_of(self)->coalesced = coalesced, 0) : (td_sparse_refuse("_coalesced_", self), -1);
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
td_tensor *td_op_values_backward(td_tensor *grad, td_tensor *self)
{
    return td_is_sparse(self) && !td_is_sparse(grad) ? td_sparse_with_values(self, grad)
                                                     : td_sparse_refuse("values_backward", self);
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

/* `to` becomes what `result` (taken over) is, in its own dtype and layout. */
int td_sparse_finish(const char *op, td_tensor *to, td_tensor *given)
{
    TD_AUTO td_tensor *result = given;
    if (!result)
        return -1;
    if (!td_is_sparse(to)) {
        TD_AUTO td_tensor *dense = td_sparse_dense(result);
        return !dense || td_resize_output(to, dense->ndim, dense->sizes) || td_check_overlap(op, to, 0, NULL) ? -1
                   : td_copy_elements(to, dense);
    }
    if (!td_is_sparse(result) || td_tensor_layout(to) != td_tensor_layout(result))
        return td_error(TD_E_NOT_IMPLEMENTED, "%s: a result of layout %s can't be stored in a tensor of layout %s", op,
                        td_layout_name(td_tensor_layout(result)), td_layout_name(td_tensor_layout(to)));
    TD_AUTO td_tensor *cast = td_sparse_cast(result, (td_dtype)to->dtype);
    return cast ? td_sparse_take(to, cast) : -1;
}

int td_sparse_zero_(td_tensor *self)
{
    TD_AUTO td_tensor *none = td_sparse_zeros_like_options(self, TD_DTYPE_NONE, TD_DEVICE_NONE, TD_MEMORY_FORMAT_NONE);
    return none ? td_sparse_take(self, none) : -1;
}

int td_op_sparse_resize_and_clear_(td_tensor *self, int64_t n, const int64_t *size, int64_t sparse_dim, int64_t dense_dim)
{
    if (!td_is_coo(self))
        return td_sparse_refuse("sparse_resize_and_clear_", self), -1;
    TD_AUTO td_tensor *none =
        td_op__sparse_coo_tensor_with_dims(sparse_dim, dense_dim, n, size, (td_dtype)self->dtype, self->device);
    return none ? td_sparse_take(self, none) : -1;
}

int td_op_sparse_resize_(td_tensor *self, int64_t n, const int64_t *size, int64_t sparse_dim, int64_t dense_dim)
{
    if (!td_is_coo(self))
        return td_sparse_refuse("sparse_resize_", self), -1;
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
        TD_AUTO td_tensor *corner = td_ref(larger);
        for (int d = 1; nnz && corner && d < s->values->ndim; d++) {
            td_tensor *part = td_narrow(corner, d, 0, s->values->sizes[d]);
            td_tensor_release(corner);
            corner = part;
        }
        if (!corner || (nnz && td_copy_elements(corner, s->values)))
            return -1;
        values = td_ref(larger);
    }
    TD_AUTO td_tensor *made = td_coo_new((int)n, size, (int)sparse_dim, indices, values, s->coalesced);
    return made ? td_sparse_take(self, made) : -1;
}

int td_op_copy_sparse_to_sparse_(td_tensor *self, td_tensor *src, bool non_blocking)
{
    return td_sparse_copy_from_(self, src, non_blocking);
}

int td_sparse_copy_from_(td_tensor *self, td_tensor *src, bool non_blocking)
{
    (void)non_blocking;
    if (self == src)
        return 0;
    if (!td_is_sparse(self) || !td_is_sparse(src))
        return td_error(
            TD_E_RUNTIME,
            "copy_() between dense and sparse Tensors is not implemented! Found self type = %s and src type = %s",
            td_is_sparse(self) ? "torch.sparse.FloatTensor" : "torch.FloatTensor",
            td_is_sparse(src) ? "torch.sparse.FloatTensor" : "torch.FloatTensor");
    if (td_tensor_layout(self) != td_tensor_layout(src))
        return td_error(TD_E_RUNTIME, "copy of sparse compressed tensors having different layouts is not supported.");
    TD_AUTO td_tensor *copy = td_sparse_clone_format(src, TD_MEMORY_FORMAT_NONE);
    return td_sparse_finish("copy_", self, td_ref(copy));
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
    if (device.type >= 0 && device.type != TD_CPU)
        return td_sparse_refuse("_to_copy", self);
    TD_AUTO td_tensor *copy = td_sparse_clone_format(self, format);
    return dtype == TD_DTYPE_NONE ? td_ref(copy) : td_sparse_cast(copy, dtype);
}

int td_op_resize_as_sparse_(td_tensor *self, td_tensor *like)
{
    if (!td_is_coo(self) || !td_is_coo(like))
        return td_sparse_refuse("resize_as_sparse_", td_is_coo(self) ? like : self), -1;
    if (self->ndim == like->ndim && !memcmp(self->sizes, like->sizes, sizeof *self->sizes * self->ndim) &&
        td_sparse_of(self)->sparse_dim == td_sparse_of(like)->sparse_dim)
        return 0;
    return td_op_sparse_resize_(self, like->ndim, like->sizes, td_sparse_of(like)->sparse_dim, td_sparse_of(like)->dense_dim);
}

/* ---- of another's layout, without elements */

static td_tensor *empty_of(td_tensor *self, int64_t n, const int64_t *size, td_dtype dtype, td_device device)
{
    const td_sparse *s = td_sparse_of(self);
    dtype = dtype == TD_DTYPE_NONE ? (td_dtype)self->dtype : dtype;
    if (device.type >= 0 && device.type != TD_CPU)
        return td_sparse_refuse("empty_like", self);
    if (td_is_coo(self))
        return td_coo_empty((int)n, size, (int)n == self->ndim ? s->sparse_dim : (int)n, dtype, self->device);
    if (n != self->ndim || memcmp(size, self->sizes, sizeof *size * (size_t)n))
        return td_sparse_refuse("new_zeros", self);
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
    return (void)format, empty_of(self, self->ndim, self->sizes, dtype, device);
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
    if (!one || !line || n != 2 || one->ndim != 2)
        return td_fail(TD_E_RUNTIME, "Output shape must be 2d, diagonals must be 1d or 2d");
    if (line->ndim != 1 || line->dtype != TD_I64)
        return td_fail(TD_E_RUNTIME, line->ndim != 1 ? "offsets must be 1d" : "Offset Tensor must have dtype Long but got %s",
                       td_dtype_title((td_dtype)line->dtype));
    if (line->numel != one->sizes[0])
        return td_fail(TD_E_RUNTIME, "Number of diagonals (%" PRId64 ") does not match the number of offsets (%" PRId64 ")",
                       one->sizes[0], line->numel);
    TD_AUTO td_tensor *k = td_make_contiguous(line);
    const int64_t width = one->sizes[1], many = one->sizes[0];
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
