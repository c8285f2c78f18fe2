/* Views: other sizes, strides and offsets over the same memory (view, expand, transpose, permute, select, slice, unfold, as_strided,
 * split), and their gradients.
 *
 * A view is td_view_strided with numbers worked out here; strides are signed, so a slice with a negative step is a
 * view like any other.  Gradients of views write into zeros of the viewed shape through the same view.
 *
 * Offsets are relative to the tensor that is viewed, in elements; a slice without elements has offset 0, so that it never points
 * outside of the storage.  td_view_strided checks that a view stays in the storage, and notes its base. */

#include "calls_ops_shape_shape.h"
#include "base/watch.h"
#include <inttypes.h>
#include <tede/auto.h>
#include <tede/foreign.h>
#include <tede/kernel.h>
#include "dispatch/outputs.h"
#include "tensor/checked.h"
#include "tensor/position.h"
#include "tensor/layout.h"

/* A view being worked out.  `offset` counts from self's first element. */
/* With room for a dimension more than a tensor may have: making the view refuses it. */
typedef struct geometry { int ndim; int64_t sizes[TD_MAX_DIMS + 1], strides[TD_MAX_DIMS + 1], offset; } geometry;

/* Only the dimensions that there are: all would take as long as the rest of a view. */
static inline void geometry_of(const td_tensor *x, geometry *g)
{
    g->ndim = x->ndim;
    g->offset = 0;
    for (int d = 0; d < x->ndim; d++)
        g->sizes[d] = x->sizes[d], g->strides[d] = x->strides[d];
}
static td_tensor *view_of(td_tensor *self, const geometry *g)
{
    return td_view_strided(self, g->ndim, g->sizes, g->strides, g->offset);
}
static void drop_dim(geometry *g, int dim)
{
    g->ndim--;
    memmove(g->sizes + dim, g->sizes + dim + 1, sizeof *g->sizes * (g->ndim - dim));
    memmove(g->strides + dim, g->strides + dim + 1, sizeof *g->strides * (g->ndim - dim));
}

/* Fill in the size that is -1; false with PyTorch's error if the shape can't hold numel elements.  `known`, the product of the others,
 * is -1 once it has overflowed, which no count of elements equals.  Of a product of 0 nothing can be inferred. */
static bool infer_size(const char *op, int64_t n, const int64_t *size, int64_t numel, int64_t *out)
{
    int64_t known = 1;
    int unknown = -1;
    td_shape_text text;
    for (int i = 0; i < n; i++) {
        out[i] = size[i];
        if (size[i] == -1) {
            if (unknown >= 0)
                return td_fail(TD_E_RUNTIME, "only one dimension can be inferred"), false;
            unknown = i;
        } else if (size[i] < 0) {
            return td_fail(TD_E_RUNTIME, "invalid shape dimension %" PRId64, size[i]), false;
        } else if (__builtin_mul_overflow(known, size[i], &known)) {
            known = -1;
            break;
        }
    }
    if (known == numel && unknown < 0)
        return true;
    if (unknown >= 0 && known > 0 && numel % known == 0) {
        out[unknown] = numel / known;
        return true;
    }
    if (unknown >= 0 && known == 0 && numel == 0)
        return td_fail(TD_E_RUNTIME, "%s: cannot reshape tensor of 0 elements into shape %s because the unspecified dimension "
                       "size -1 can be any value and is ambiguous", op, td_shape_str((int)n, size, text)), false;
    return td_fail(TD_E_RUNTIME, "shape '%s' is invalid for input of size %" PRId64, td_shape_str((int)n, size, text), numel), false;
}

/* Sizes with -1 filled in, and the strides that show self's elements in these sizes without a copy; false with PyTorch's error. */
static bool view_geometry(td_tensor *self, int64_t n_size, const int64_t *size, int64_t *sizes, int64_t *strides)
{
    if (n_size > TD_MAX_DIMS)
        return td_fail(TD_E_RUNTIME, "view: a tensor has at most %d dimensions", TD_MAX_DIMS), false;
    if (!infer_size("view", n_size, size, self->numel, sizes))
        return false;
    return td_view_strides(self, (int)n_size, sizes, strides) ||
           (td_fail(TD_E_RUNTIME, "view size is not compatible with input tensor's size and stride (at least one dimension spans "
                    "across two contiguous subspaces). Use .reshape(...) instead."), false);
}

td_tensor *td_op_view(td_tensor *self, int64_t n_size, const int64_t *size)
{
    int64_t sizes[TD_MAX_DIMS], strides[TD_MAX_DIMS];
    return view_geometry(self, n_size, size, sizes, strides) ? td_view_strided(self, (int)n_size, sizes, strides, 0) : NULL;
}

/* For results of which nobody else holds the viewed tensor: the same memory, but no view to autograd, so in-place operators need not
 * replay it. */
td_tensor *td_op__unsafe_view(td_tensor *self, int64_t n_size, const int64_t *size)
{
    int64_t sizes[TD_MAX_DIMS], strides[TD_MAX_DIMS];
    return view_geometry(self, n_size, size, sizes, strides)
               ? td_alias_as(self, (td_dtype)self->dtype, (int)n_size, sizes, strides) : NULL;
}

/* A view where strides allow, else a view of a contiguous copy.  Both are operators that record, so reshape has no derivative itself. */
td_tensor *td_op_reshape(td_tensor *self, int64_t n_shape, const int64_t *shape)
{
    int64_t sizes[TD_MAX_DIMS], strides[TD_MAX_DIMS];
    if (n_shape > TD_MAX_DIMS)
        return td_fail(TD_E_RUNTIME, "reshape: a tensor has at most %d dimensions", TD_MAX_DIMS);
    if (!infer_size("reshape", n_shape, shape, self->numel, sizes))
        return NULL;
    if (td_view_strides(self, (int)n_shape, sizes, strides))
        return td_view(self, n_shape, sizes);
    /* In strict_views mode a copy that the caller didn't name is an error. */
    if (TD_UNLIKELY(td_strict_views)) {
        td_shape_text from, steps, to;
        return td_fail(TD_E_RUNTIME, "reshape: a tensor of shape %s and strides %s can't be viewed as %s without a copy of %" PRId64
                       " bytes, which strict_views forbids; use .contiguous() or .clone() where the copy is meant",
                       td_shape_str(self->ndim, self->sizes, from), td_shape_str(self->ndim, self->strides, steps),
                       td_shape_str((int)n_shape, sizes, to), self->numel * td_itemsize(self));
    }
    TD_AUTO td_tensor *copy = td_clone_format(self, TD_CONTIGUOUS_FORMAT);
    return td__unsafe_view(copy, n_shape, sizes);
}

td_tensor *td_op_view_as(td_tensor *self, td_tensor *other) { return td_view(self, other->ndim, other->sizes); }
td_tensor *td_op_reshape_as(td_tensor *self, td_tensor *other) { return td_reshape(self, other->ndim, other->sizes); }

/* Broadcasting as a view: sizes are aligned at their last dimension, -1 keeps one, and what is repeated has stride 0. */
td_tensor *td_op_expand_to(td_tensor *self, int64_t n_size, const int64_t *size, bool implicit)
{
    (void)implicit;
    td_shape_text want, have;
    int extra = (int)n_size - self->ndim;
    if (extra < 0)
        return td_fail(TD_E_RUNTIME, "expand(torch.%sTensor{%s}, size=%s): the number of sizes provided (%" PRId64 ") must be greater "
                       "or equal to the number of dimensions in the tensor (%d)", td_dtype_title(self->dtype),
                       td_shape_str(self->ndim, self->sizes, have), td_shape_str((int)n_size, size, want), n_size, self->ndim);
    if (n_size > TD_MAX_DIMS)
        return td_fail(TD_E_RUNTIME, "expand: a tensor has at most %d dimensions", TD_MAX_DIMS);
    geometry g;
    g.ndim = (int)n_size, g.offset = 0;
    for (int i = 0; i < g.ndim; i++) {
        int d = i - extra;
        int64_t old = d < 0 ? 1 : self->sizes[d], new = size[i];
        if (new == -1) {
            if (d < 0)
                return td_fail(TD_E_RUNTIME, "The expanded size of the tensor (-1) isn't allowed in a leading, non-existing dimension %d", i);
            new = old;
        }
        if (new < 0)
            return td_fail(TD_E_RUNTIME, "expand: invalid size %" PRId64 " at dimension %d", new, i);
        if (old != 1 && old != new)
            return td_fail(TD_E_RUNTIME, "The expanded size of the tensor (%" PRId64 ") must match the existing size (%" PRId64 ") at "
                           "non-singleton dimension %d.  Target sizes: %s.  Tensor sizes: %s", new, old, i,
                           td_shape_str((int)n_size, size, want), td_shape_str(self->ndim, self->sizes, have));
        g.sizes[i] = new;
    }
    /* A new dimension of one element has the stride that a contiguous one would have, as in PyTorch. */
    for (int i = g.ndim; i-- > 0;) {
        int d = i - extra;
        /* `own`: behind the last dimension it is 1, and 0 for a tensor without dimensions. */
        int64_t old = d < 0 ? 1 : self->sizes[d], own = i + 1 < g.ndim ? g.sizes[i + 1] * g.strides[i + 1] : self->ndim > 0;
        g.strides[i] = old != g.sizes[i] ? 0 : d < 0 ? own : self->strides[d];
    }
    return view_of(self, &g);
}

td_tensor *td_op_expand_as(td_tensor *self, td_tensor *other) { return td_expand(self, other->ndim, other->sizes); }
td_tensor *td_op_broadcast_to(td_tensor *self, int64_t n, const int64_t *size) { return td_expand(self, n, size); }

/* The opposite of expand, which also is its gradient: sums over what expand repeats, then drops the leading dimensions. */
td_tensor *td_op_sum_to_size(td_tensor *self, int64_t n_size, const int64_t *size)
{
    int64_t dims[TD_MAX_DIMS], n = 0;
    int extra = self->ndim - (int)n_size;
    td_shape_text want, have;
    bool fits = extra >= 0;
    for (int d = 0; d < self->ndim && fits; d++) {
        int64_t to = d < extra ? 1 : size[d - extra];
        fits = to == 1 || to == self->sizes[d];
        if (d < extra || (to == 1 && self->sizes[d] != 1))
            dims[n++] = d;
    }
    if (!fits)
        return td_fail(TD_E_RUNTIME, "size {%s} is not expandable to size {%s}.", td_shape_str((int)n_size, size, want),
                       td_shape_str(self->ndim, self->sizes, have));
    if (!n_size)
        return td_sum_all(self, TD_DTYPE_NONE);
    TD_AUTO td_tensor *sum = n ? td_sum_dim_intlist(self, n, dims, true, TD_DTYPE_NONE) : td_tensor_retain(self);
    return extra > 0 ? td_view(sum, n_size, size) : td_tensor_retain(sum);
}

/* td_view_permuted needs no check of reach: the same strides in another order address the same elements. */
td_tensor *td_op_transpose_int(td_tensor *self, int64_t dim0, int64_t dim1)
{
    int a = td_wrap_dim(dim0, self->ndim), b = a < 0 ? -1 : td_wrap_dim(dim1, self->ndim);
    if (b < 0)
        return NULL;
    geometry g;
    geometry_of(self, &g);
    if (self->ndim) {
        int64_t size = g.sizes[a], stride = g.strides[a];
        g.sizes[a] = g.sizes[b], g.strides[a] = g.strides[b];
        g.sizes[b] = size, g.strides[b] = stride;
    }
    return td_view_permuted(self, g.sizes, g.strides);
}

/* The transpose of a matrix; vectors and numbers stay as they are, but as views. */
td_tensor *td_op_t(td_tensor *self)
{
    int64_t sparse = 0, dense = 0;
    if (td_tensor_layout(self) == TD_SPARSE_COO && (td_sparse_dim(&sparse, self) || td_dense_dim(&dense, self)))
        return NULL;
    if (sparse > 2 || dense)
        return td_fail(TD_E_RUNTIME, "t() expects a tensor with <= 2 sparse and 0 dense dimensions, but got %" PRId64 " sparse and %" PRId64
                       " dense dimensions", sparse, dense);
    if (self->ndim > 2)
        return td_fail(TD_E_RUNTIME, "t() expects a tensor with <= 2 dimensions, but self is %dD", self->ndim);
    return self->ndim < 2 ? td_alias(self) : td_transpose(self, 0, 1);
}

td_tensor *td_op_permute(td_tensor *self, int64_t n_dims, const int64_t *dims)
{
    if (n_dims != self->ndim) {
        td_shape_text want;
        return td_fail(TD_E_RUNTIME, "permute(sparse_coo): number of dimensions in the tensor input does not match the length of the "
                       "desired ordering of dimensions i.e. input.dim() = %d is not equal to len(dims) = %" PRId64 " (dims %s)", self->ndim,
                       n_dims, td_shape_str((int)n_dims, dims, want));
    }
    geometry g;
    g.ndim = self->ndim;
    bool seen[TD_MAX_DIMS] = {false};
    for (int i = 0; i < g.ndim; i++) {
        int d = td_wrap_dim(dims[i], self->ndim);
        if (d < 0)
            return NULL;
        if (seen[d])
            return td_fail(TD_E_RUNTIME, "permute(): duplicate dims are not allowed.");
        seen[d] = true;
        g.sizes[i] = self->sizes[d], g.strides[i] = self->strides[d];
    }
    return td_view_permuted(self, g.sizes, g.strides);
}

/* The inverse permutation. */
td_tensor *td_op_permute_backward(td_tensor *grad, int64_t n_dims, const int64_t *dims)
{
    int64_t inverse[TD_MAX_DIMS] = {0};
    if (n_dims != grad->ndim)
        return td_permute(grad, n_dims, dims);      /* which says so */
    for (int i = 0; i < n_dims; i++) {
        int d = td_wrap_dim(dims[i], (int)n_dims);
        if (d < 0)
            return NULL;
        inverse[d] = i;
    }
    return td_permute(grad, n_dims, inverse);
}

/* Negative indices count from the end; the error comes before the sum could leave the dimension. */
td_tensor *td_op_select_int(td_tensor *self, int64_t dim, int64_t index)
{
    if (!self->ndim)
        return td_fail(TD_E_INDEX, "select() cannot be applied to a 0-dim tensor.");
    int d = td_wrap_dim(dim, self->ndim);
    if (d < 0)
        return NULL;
    int64_t size = self->sizes[d];
    if (index < -size || index >= size) {
        td_shape_text text;
        return td_fail(TD_E_INDEX, "select(): index %" PRId64 " out of range for tensor of size %s at dimension %d", index,
                       td_shape_str(self->ndim, self->sizes, text), d);
    }
    geometry g;
    geometry_of(self, &g);
    g.offset = (index < 0 ? index + size : index) * self->strides[d];
    drop_dim(&g, d);
    return view_of(self, &g);
}

/* Python's rule for slices (slice.indices): absent bounds are the ends, negative ones count from the end, and what lies outside is cut
 * off.  Returns the number of elements, ceil((to - from) / step), in unsigned arithmetic, which holds INT64_MIN's magnitude. */
static int64_t clip_slice(int64_t size, const int64_t *start, const int64_t *end, int64_t step, int64_t *first)
{
    int64_t lower = step > 0 ? 0 : -1, upper = step > 0 ? size : size - 1;
    int64_t from = start ? *start : step > 0 ? lower : upper, to = end ? *end : step > 0 ? upper : lower;
    if (start)
        from = from < 0 ? (from + size < lower ? lower : from + size) : from > upper ? upper : from;
    if (end)
        to = to < 0 ? (to + size < lower ? lower : to + size) : to > upper ? upper : to;
    *first = from;
    if (step > 0)
        return from < to ? (int64_t)(((uint64_t)(to - from) - 1) / (uint64_t)step + 1) : 0;
    return from > to ? (int64_t)(((uint64_t)(from - to) - 1) / (0 - (uint64_t)step) + 1) : 0;
}

td_tensor *td_op_slice_tensor(td_tensor *self, int64_t dim, const int64_t *start, const int64_t *end, int64_t step)
{
    if (!self->ndim)
        return td_fail(TD_E_INDEX, "slice() cannot be applied to a 0-dim tensor.");
    int d = td_wrap_dim(dim, self->ndim);
    if (d < 0)
        return NULL;
    if (!step)
        return td_fail(TD_E_VALUE, "slice step cannot be zero");
    geometry g;
    geometry_of(self, &g);
    int64_t first;      /* within the dimension, if there is any element */
    g.sizes[d] = clip_slice(self->sizes[d], start, end, step, &first);
    g.offset = g.sizes[d] ? first * self->strides[d] : 0;
    if (__builtin_mul_overflow(self->strides[d], step, &g.strides[d]))
        g.strides[d] = self->strides[d];      /* at most one element: its stride is never used */
    return view_of(self, &g);
}

td_tensor *td_op_narrow(td_tensor *self, int64_t dim, int64_t start, int64_t length)
{
    if (!self->ndim)
        return td_fail(TD_E_RUNTIME, "narrow() cannot be applied to a 0-dim tensor.");
    if (length < 0)
        return td_fail(TD_E_RUNTIME, "narrow(): length must be non-negative.");
    int d = td_wrap_dim(dim, self->ndim);
    if (d < 0)
        return NULL;
    int64_t size = self->sizes[d];
    if (start < -size || start > size)
        return td_fail(TD_E_INDEX, "start out of range (expected to be in range of [%" PRId64 ", %" PRId64 "], but got %" PRId64 ")", -size,
                       size, start);
    int64_t from = start < 0 ? start + size : start;
    /* The difference can't overflow, where the sum of start and length could. */
    if (length > size - from)
        return td_fail(TD_E_RUNTIME, "start (%" PRId64 ") + length (%" PRId64 ") exceeds dimension size (%" PRId64 ").", from, length, size);
    int64_t to = from + length;
    return td_slice_tensor(self, d, &from, &to, 1);
}

/* With `start` in a tensor: its value is read, so the result's position depends on data. */
td_tensor *td_op_narrow_tensor(td_tensor *self, int64_t dim, td_tensor *start, int64_t length)
{
    td_scalar from;
    if (start->ndim || !td_dtype_is_integral((td_dtype)start->dtype))
        return td_fail(TD_E_RUNTIME, "start must be an 0-dim integral Tensor.");
    const int failed = start->flags & TD_FLAG_PYTHON ? td__local_scalar_dense(&from, start) : td_tensor_item(start, &from);
    return failed ? NULL : td_narrow(self, dim, td_scalar_int(from), length);
}

/* A new dimension of size 1 gets the stride that a contiguous tensor would have there, which td_view_strides can merge later. */
td_tensor *td_op_unsqueeze(td_tensor *self, int64_t dim)
{
    int d = td_wrap_dim(dim, self->ndim + 1);
    if (d < 0)
        return NULL;
    geometry g;
    geometry_of(self, &g);
    int64_t stride = d < self->ndim ? self->sizes[d] * self->strides[d] : 1;
    memmove(g.sizes + d + 1, g.sizes + d, sizeof *g.sizes * (self->ndim - d));
    memmove(g.strides + d + 1, g.strides + d, sizeof *g.strides * (self->ndim - d));
    g.ndim++, g.sizes[d] = 1, g.strides[d] = stride;
    return view_of(self, &g);
}

/* Without the dimensions of size 1; with `chosen`, only of those. */
static td_tensor *squeeze_where(td_tensor *self, const bool *chosen)
{
    geometry g;
    g.ndim = 0, g.offset = 0;
    for (int d = 0; d < self->ndim; d++)
        if (self->sizes[d] != 1 || (chosen && !chosen[d])) {
            g.sizes[g.ndim] = self->sizes[d];
            g.strides[g.ndim++] = self->strides[d];
        }
    return view_of(self, &g);
}
td_tensor *td_op_squeeze(td_tensor *self) { return squeeze_where(self, NULL); }
td_tensor *td_op_squeeze_dims(td_tensor *self, int64_t n_dim, const int64_t *dim)
{
    bool chosen[TD_MAX_DIMS + 1] = {false};
    for (int i = 0; i < n_dim; i++) {
        int d = td_wrap_dim(dim[i], self->ndim);
        if (d < 0)
            return NULL;
        if (chosen[d])
            return td_fail(TD_E_RUNTIME, "dim %d appears multiple times in the list of dims", d);
        chosen[d] = true;
    }
    return squeeze_where(self, chosen);
}
td_tensor *td_op_squeeze_dim(td_tensor *self, int64_t dim) { return td_op_squeeze_dims(self, 1, &dim); }

/* Any geometry over the storage: the offset counts from the storage's begin, and every element must lie within it.  A result without
 * elements is not checked, since it addresses nothing. */
td_tensor *td_op_as_strided(td_tensor *self, int64_t n_size, const int64_t *size, int64_t n_stride, const int64_t *stride,
                            const int64_t *storage_offset)
{
    if (n_size != n_stride)
        return td_fail(TD_E_RUNTIME, "mismatch in length of strides and shape");
    if (n_size > TD_MAX_DIMS)
        return td_fail(TD_E_RUNTIME, "as_strided: a tensor has at most %d dimensions", TD_MAX_DIMS);
    td_shape_text a;
    for (int i = 0; i < n_size; i++)
        if (size[i] < 0)
            return td_fail(TD_E_RUNTIME, "as_strided: Negative size %s", td_shape_str((int)n_size, size, a));
    td_tensor_follow(self);     /* the storage may have moved or grown under self */
    int64_t offset = storage_offset ? *storage_offset : td_tensor_offset(self), low, high;
    int64_t item = (int64_t)td_dtype_size(self->dtype), held = (int64_t)(self->storage->nbytes / (size_t)item), numel = 1;
    for (int i = 0; i < n_size; i++)
        numel = size[i] && numel ? 1 : 0;
    if (offset < 0)
        return td_fail(TD_E_RUNTIME, "Tensor: invalid storage offset %" PRId64, offset);
    if (numel && (!td_bounds((int)n_size, size, stride, &low, &high) || __builtin_add_overflow(high, offset, &high) || offset + low < 0 ||
                  high >= held))
        return td_check_in_storage(self->storage, offset, (int)n_size, size, stride, (td_dtype)self->dtype), NULL;
    return td_view_strided(self, (int)n_size, size, stride, offset - td_tensor_offset(self));
}

td_tensor *td_op_detach(td_tensor *self) { return td_alias_detached(self, false); }

/* Page-locked memory needs an accelerator's driver. */
td_tensor *td_op_pin_memory(td_tensor *self, td_device device) { return td__pin_memory(self, device); }

td_tensor *td_op__pin_memory(td_tensor *self, td_device device)
{
    (void)self, (void)device;
    return td_fail(TD_E_RUNTIME, "Cannot access accelerator device when none is available.");
}

/* The same geometry as a view: an object with a history that begins at self. */
td_tensor *td_op_alias(td_tensor *self)
{
    geometry g;
    geometry_of(self, &g);
    return view_of(self, &g);
}

/* One step along the diagonal is one step along both dimensions, so its stride is the sum of theirs. */
td_tensor *td_op_diagonal(td_tensor *self, int64_t offset, int64_t dim1, int64_t dim2)
{
    int a = td_wrap_dim(dim1, self->ndim), b = a < 0 ? -1 : td_wrap_dim(dim2, self->ndim);
    if (b < 0)
        return NULL;
    if (a == b)
        return td_fail(TD_E_RUNTIME, "diagonal dimensions cannot be identical %" PRId64 ", %" PRId64, dim1, dim2);
    geometry g;
    geometry_of(self, &g);
    int64_t rows = self->sizes[a], columns = self->sizes[b];
    /* A positive offset begins in row 0, a negative one in column 0. */
    int64_t length = offset >= 0 ? (rows < columns - offset ? rows : columns - offset) : (rows + offset < columns ? rows + offset : columns);
    length = length < 0 ? 0 : length;
    if (length)
        g.offset = offset >= 0 ? offset * self->strides[b] : -offset * self->strides[a];
    int64_t stride = self->strides[a] + self->strides[b];
    /* The later one first: the earlier one keeps its number. */
    drop_dim(&g, a > b ? a : b);
    drop_dim(&g, a > b ? b : a);
    g.sizes[g.ndim] = length, g.strides[g.ndim++] = stride;
    return view_of(self, &g);
}

/* Windows of `size` elements, `step` apart: a new last dimension with the old stride, while the old one steps by whole windows. */
td_tensor *td_op_unfold(td_tensor *self, int64_t dimension, int64_t size, int64_t step)
{
    int d = td_wrap_dim(dimension, self->ndim);
    if (d < 0)
        return NULL;
    int64_t length = self->ndim ? self->sizes[d] : 1, stride = self->ndim ? self->strides[d] : 1;
    if (size < 0)
        return td_fail(TD_E_RUNTIME, "size is %" PRId64 " but must be >= 0", size);
    if (size > length)
        return td_fail(TD_E_RUNTIME, "maximum size for tensor at dimension %d is %" PRId64 " but size is %" PRId64, d, length, size);
    if (step <= 0)
        return td_fail(TD_E_RUNTIME, "step is %" PRId64 " but must be > 0", step);
    geometry g;
    geometry_of(self, &g);
    if (self->ndim)
        g.sizes[d] = (length - size) / step + 1, g.strides[d] = step * stride;
    g.sizes[g.ndim] = size, g.strides[g.ndim++] = stride;
    return view_of(self, &g);
}

/* ---- gradients that write into zeros through the same view */

/* A result that is written to while it is made has not been written to for those who get it. */
static td_tensor *unwritten(td_tensor *made)
{
    if (made->storage)
        td_tensor_set_version(made, 0);
    return td_tensor_retain(made);
}

/* The gradient of a view that shows each element at most once: zeros, into which grad is copied where the view looks. */
typedef td_tensor *pick(td_tensor *zeros, const void *how);
static td_tensor *into_zeros(td_tensor *grad, int64_t n, const int64_t *sizes, pick *view, const void *how)
{
    TD_AUTO td_tensor *whole = td_zeros(n, sizes, grad->dtype, grad->device);
    TD_AUTO td_tensor *part = whole ? view(whole, how) : NULL;
    return part && td_copy_from_(part, grad, false) == 0 ? unwritten(whole) : NULL;
}
/* As the view takes them: its arguments, for into_zeros' callback. */
typedef struct select_how { int64_t dim, index; } select_how;
static td_tensor *pick_select(td_tensor *x, const void *how)
{
    const select_how *h = how;
    return td_select_int(x, h->dim, h->index);
}
td_tensor *td_op_select_backward(td_tensor *grad, int64_t n, const int64_t *sizes, int64_t dim, int64_t index)
{
    return into_zeros(grad, n, sizes, pick_select, &(select_how){dim, index});
}
typedef struct slice_how { int64_t dim, step; const int64_t *start, *end; } slice_how;
static td_tensor *pick_slice(td_tensor *x, const void *how)
{
    const slice_how *h = how;
    return td_slice_tensor(x, h->dim, h->start, h->end, h->step);
}
td_tensor *td_op_slice_backward(td_tensor *grad, int64_t n, const int64_t *sizes, int64_t dim, const int64_t *start, const int64_t *end,
                                int64_t step)
{
    return into_zeros(grad, n, sizes, pick_slice, &(slice_how){dim, step, start, end});
}
typedef struct diagonal_how { int64_t offset, dim1, dim2; } diagonal_how;
static td_tensor *pick_diagonal(td_tensor *x, const void *how)
{
    const diagonal_how *h = how;
    return td_diagonal(x, h->offset, h->dim1, h->dim2);
}
td_tensor *td_op_diagonal_backward(td_tensor *grad, int64_t n, const int64_t *sizes, int64_t offset, int64_t dim1, int64_t dim2)
{
    return into_zeros(grad, n, sizes, pick_diagonal, &(diagonal_how){offset, dim1, dim2});
}

/* Windows may overlap: they are added one position within the window after the other; those don't overlap. */
td_tensor *td_op_unfold_backward(td_tensor *grad, int64_t n, const int64_t *sizes, int64_t dim, int64_t size, int64_t step)
{
    TD_AUTO td_tensor *whole = td_zeros(n, sizes, grad->dtype, grad->device);
    if (!whole)
        return NULL;
    if (!n) {       /* a number is a window of at most one element */
        TD_AUTO td_tensor *only = td_reshape(grad, 0, NULL);
        return size ? td_add(whole, only) : td_tensor_retain(whole);
    }
    TD_AUTO td_tensor *windows = td_unfold(whole, dim, size, step);
    for (int64_t i = 0; i < size && windows; i++) {
        TD_AUTO td_tensor *to = td_select_int(windows, -1, i);
        TD_AUTO td_tensor *from = td_select_int(grad, -1, i);
        if (td_add_tensor_(to, from, td_int(1)))
            return NULL;
    }
    return windows ? unwritten(whole) : NULL;
}

/* as_strided may see an element many times.  The gradient is added up over a flat copy of self's span of memory, then
 * read back with self's geometry; an element that self itself sees several times shares its sum among them.
 *
 * add_at adds grad element by element, in grad's order, on one thread: elements may coincide in any way, and the order of additions
 * is part of the result.  `strides` and `offset` are those of the view in `flat`, at_grad the position in grad. */
static int add_at(td_tensor *flat, int64_t offset, td_tensor *grad, const int64_t *strides, int dim, int64_t at_grad)
{
    if (dim < grad->ndim) {
        for (int64_t i = 0; i < grad->sizes[dim]; i++)
            if (add_at(flat, offset + i * strides[dim], grad, strides, dim + 1, at_grad + i * grad->strides[dim]))
                return -1;
        return 0;
    }
    size_t item = td_dtype_size(grad->dtype);
    char *to = (char *)flat->data + offset * (int64_t)item;
    const char *from = (char *)grad->data + at_grad * (int64_t)item;
    switch (grad->dtype) {
    case TD_F32: *(float *)to += *(const float *)from; break;
    case TD_F64: *(double *)to += *(const double *)from; break;
    case TD_C64: *(float _Complex *)to += *(const float _Complex *)from; break;
    case TD_C128: *(double _Complex *)to += *(const double _Complex *)from; break;
    case TD_BF16: *(td_bf16 *)to = td_f32_to_bf16(td_bf16_to_f32(*(td_bf16 *)to) + td_bf16_to_f32(*(const td_bf16 *)from)); break;
    case TD_C32: ((td_f16 *)to)[1] = td_f32_to_f16(td_f16_to_f32(((td_f16 *)to)[1]) + td_f16_to_f32(((const td_f16 *)from)[1])); /* fall through */
    case TD_F16: *(td_f16 *)to = td_f32_to_f16(td_f16_to_f32(*(td_f16 *)to) + td_f16_to_f32(*(const td_f16 *)from)); break;
    default: return td_error(TD_E_RUNTIME, "as_strided_backward: gradients are floating point, not %s", td_dtype_name(grad->dtype));
    }
    return 0;
}

/* A stretch of memory that holds a base and a view of it: elements counted from its begin. */
typedef struct stretch { int64_t span, base, view; bool overlaps; } stretch;

/* The smallest range of the storage with all elements of both; a base overlaps itself, as PyTorch counts, where a stride is 0. */
static int stretch_of(stretch *s, int64_t n_base, const int64_t *base_size, const int64_t *base_stride, int64_t base_offset,
                      int64_t n, const int64_t *size, const int64_t *stride, const int64_t *storage_offset)
{
    int64_t start = storage_offset ? *storage_offset : base_offset, low, high, base_low, base_high;
    if (!td_bounds((int)n, size, stride, &low, &high) || !td_bounds((int)n_base, base_size, base_stride, &base_low, &base_high))
        return td_error(TD_E_RUNTIME, "as_strided_backward: the geometry overflows");
    int64_t begin = base_offset + base_low, other = start + low;
    int64_t end = base_offset + base_high + 1, other_end = start + high + 1;
    begin = other < begin ? other : begin, end = other_end > end ? other_end : end;
    *s = (stretch){.span = end - begin, .base = base_offset - begin, .view = start - begin};
    for (int d = 0; d < n_base; d++)
        s->overlaps |= base_size[d] > 1 && base_stride[d] == 0;
    return 0;
}

/* x must have this shape, with a stride for each of its sizes and for each of the other shape's. */
static int check_strided(const td_tensor *x, int64_t n, const int64_t *size, int64_t n_stride, int64_t n_other, int64_t n_other_stride)
{
    td_shape_text a, b;
    if (n != n_stride || n_other != n_other_stride)
        return td_error(TD_E_RUNTIME, "mismatch in length of strides and shape");
    bool same = x->ndim == n;
    for (int d = 0; same && d < n; d++)
        same = x->sizes[d] == size[d];
    return same ? 0 : td_error(TD_E_RUNTIME, "as_strided_backward: expected a gradient of shape %s, but got %s",
                               td_shape_str((int)n, size, a), td_shape_str(x->ndim, x->sizes, b));
}

/* add_at over all of grad.  A device adds by the numbers of the elements, which a view of 0, 1, 2, ... has. */
static int add_strided(td_tensor *flat, int64_t offset, td_tensor *grad, const int64_t *strides)
{
    if (!grad->numel || flat->device.type == TD_META)
        return 0;
    if (flat->device.type == TD_CPU)
        return td_settle(grad) || td_settle(flat) ? -1 : add_at(flat, offset, grad, strides, 0, 0);
    TD_AUTO td_tensor *numbers = td_arange(td_int(flat->numel), TD_I64, flat->device);
    TD_AUTO td_tensor *seen = numbers ? td_as_strided(numbers, grad->ndim, grad->sizes, grad->ndim, strides, &offset) : NULL;
    TD_AUTO td_tensor *index = seen ? td_reshape(seen, 1, &grad->numel) : NULL, *from = td_reshape(grad, 1, &grad->numel);
    return index && from ? td_index_add_(flat, 0, index, from, td_int(1)) : -1;
}

/* How often each element of the base was written, as a tensor of its shape and the gradient's dtype.  Counted by add_at, too, with ones
 * for a gradient. */
static td_tensor *times_written(const stretch *s, td_tensor *like, int64_t n, const int64_t *size, const int64_t *stride)
{
    TD_AUTO td_tensor *count = td_zeros(1, &s->span, like->dtype, like->device);
    TD_AUTO td_tensor *ones = td_ones(n, size, like->dtype, like->device);
    if (!count || !ones || add_strided(count, s->base, ones, stride))
        return NULL;
    return td_as_strided(count, n, size, n, stride, &s->base);
}

/* grad is added at the view's elements, then read at the base's.  Where the base repeats an element the sum is divided by how often,
 * which makes the gradient of a mean over equal elements. */
td_tensor *td_op_as_strided_backward(td_tensor *grad, int64_t n_base, const int64_t *base_size, int64_t n_base_stride,
                                     const int64_t *base_stride, int64_t base_offset, int64_t n_size, const int64_t *size,
                                     int64_t n_stride, const int64_t *stride, const int64_t *storage_offset)
{
    stretch s;
    if (check_strided(grad, n_size, size, n_stride, n_base, n_base_stride) ||
        stretch_of(&s, n_base, base_size, base_stride, base_offset, grad->ndim, grad->sizes, stride, storage_offset))
        return NULL;
    if (!grad->numel)
        return td_zeros(n_base, base_size, grad->dtype, grad->device);
    TD_AUTO td_tensor *flat = td_zeros(1, &s.span, grad->dtype, grad->device);
    if (!flat || add_strided(flat, s.view, grad, stride))
        return NULL;
    TD_AUTO td_tensor *seen = td_as_strided(flat, n_base, base_size, n_base, base_stride, &s.base);
    if (!s.overlaps)
        return td_clone_format(seen, TD_CONTIGUOUS_FORMAT);
    TD_AUTO td_tensor *times = times_written(&s, grad, n_base, base_size, base_stride);
    return td_div(seen, times);
}

/* The derivative of as_strided_backward, which is the transposed linear map: self's elements written with the base's geometry (their mean,
 * where it overlaps), read with the view's. */
td_tensor *td_op_as_strided_through(td_tensor *self, int64_t n_base, const int64_t *base_size, int64_t n_base_stride,
                                    const int64_t *base_stride, int64_t base_offset, int64_t n_size, const int64_t *size,
                                    int64_t n_stride, const int64_t *stride, const int64_t *storage_offset)
{
    stretch s;
    if (check_strided(self, n_base, base_size, n_base_stride, n_size, n_stride) ||
        stretch_of(&s, n_base, base_size, base_stride, base_offset, n_size, size, stride, storage_offset))
        return NULL;
    TD_AUTO td_tensor *flat = td_zeros(1, &s.span, self->dtype, self->device), *share = NULL;
    if (s.overlaps) {
        TD_AUTO td_tensor *times = times_written(&s, self, n_base, base_size, base_stride);
        share = td_div(self, times);
    } else {
        share = td_tensor_retain(self);
    }
    if (!flat || !share || add_strided(flat, s.base, share, base_stride))
        return NULL;
    TD_AUTO td_tensor *seen = td_as_strided(flat, n_size, size, n_size, stride, &s.view);
    return td_clone_format(seen, TD_CONTIGUOUS_FORMAT);
}

/* ---- several views */

/* All selects along dim.  TD_FLAG_MULTI_VIEW forbids writing to them in place where gradients are recorded, as in PyTorch. */
int td_op_unbind_int(td_tensor_list *results, td_tensor *self, int64_t dim)
{
    int d = td_wrap_dim(dim, self->ndim);
    if (!self->ndim)
        return td_error(TD_E_INDEX, "Dimension specified as 0 but tensor has no dimensions");
    if (d < 0 || td_tensor_list_new(results, self->sizes[d]))
        return -1;
    geometry g;
    geometry_of(self, &g);
    drop_dim(&g, d);
    /* The views differ in their offset only, so one geometry serves all. */
    for (int64_t i = 0; i < results->count; i++, g.offset += self->strides[d])
        if (!(results->items[i] = view_of(self, &g))) {
            td_tensor_list_release(results);
            return -1;
        } else {
            results->items[i]->flags |= TD_FLAG_MULTI_VIEW;
        }
    return 0;
}

/* stack, in the order of the operand's strides: the gradient lies in memory as the operand does, so that what takes it next, through the
 * operand's own views, finds it contiguous.  `inner` is `order` without dim, whose gradients have one dimension less. */
td_tensor *td_op_unbind_backward(int64_t n_grads, td_tensor *const *grads, int64_t dim, int64_t n_strides,
                                 const int64_t *strides)
{
    const int n = (int)n_strides, d = td_wrap_dim(dim, n);
    bool fit = n_grads > 0 && n > 1 && n <= TD_MAX_DIMS && d >= 0;
    for (int64_t i = 0; i < n_grads; i++)
        fit = fit && grads[i]->ndim == n - 1;
    if (!fit)
        return d < 0 ? NULL : td_stack(n_grads, grads, dim);
    /* place: where each of `order` went, the inverse permutation, which brings the stacked dimensions back. */
    int64_t order[TD_MAX_DIMS], place[TD_MAX_DIMS], inner[TD_MAX_DIMS];
    td_stride_order(n, strides, order);
    for (int i = 0, at = 0; i < n; i++) {
        place[order[i]] = i;
        if (order[i] != d)
            inner[at++] = order[i] - (order[i] > d);
    }
    TD_AUTO_LIST td_tensor_list permuted = {0};
    if (td_tensor_list_new(&permuted, n_grads))
        return NULL;
    for (int64_t i = 0; i < n_grads; i++)
        if (!(permuted.items[i] = td_permute(grads[i], n - 1, inner)))
            return NULL;
    TD_AUTO td_tensor *stacked = td_stack(n_grads, permuted.items, place[d]);
    return td_permute(stacked, n, place);
}

/* Consecutive slices along dim.  The sum saturates, so sizes that overflow differ from the dimension's and are refused. */
int td_op_split_with_sizes(td_tensor_list *results, td_tensor *self, int64_t n, const int64_t *split_sizes, int64_t dim)
{
    if (!self->ndim)
        return td_error(TD_E_RUNTIME, "split expects at least a 1-dimensional tensor");
    int d = td_wrap_dim(dim, self->ndim);
    if (d < 0)
        return -1;
    int64_t total = 0;
    td_shape_text text;
    for (int64_t i = 0; i < n; i++) {
        if (split_sizes[i] < 0)
            return td_error(TD_E_RUNTIME, "split_with_sizes expects split_sizes have only non-negative entries, but got split_sizes=%s",
                            td_shape_str((int)n, split_sizes, text));
        total = td_add_saturated(total, split_sizes[i]);
    }
    if (total != self->sizes[d])
        return td_error(TD_E_RUNTIME, "split_with_sizes expects split_sizes to sum exactly to %" PRId64 " (input tensor's size at "
                        "dimension %d), but got split_sizes=%s", self->sizes[d], d, td_shape_str((int)n, split_sizes, text));
    if (td_tensor_list_new(results, n))
        return -1;
    geometry g;
    geometry_of(self, &g);
    int64_t at = 0;
    for (int64_t i = 0; i < n; at += split_sizes[i], i++) {
        g.sizes[d] = split_sizes[i];
        g.offset = split_sizes[i] ? at * self->strides[d] : 0;
        if (!(results->items[i] = view_of(self, &g))) {
            td_tensor_list_release(results);
            return -1;
        }
        results->items[i]->flags |= TD_FLAG_MULTI_VIEW;
    }
    return 0;
}

int td_op_split_sizes(td_tensor_list *results, td_tensor *self, int64_t n, const int64_t *split_size, int64_t dim)
{
    return td_split_with_sizes(results, self, n, split_size, dim);
}

/* `count` equal ranges, at least one, of which the last gets what is left. */
static int split_evenly(td_tensor_list *results, td_tensor *self, int64_t length, int64_t count, int d)
{
    int64_t inline_sizes[64], *sizes = inline_sizes;    /* few ranges, as most splits have, need no allocation */
    const size_t bytes = td_array_bytes(count, sizeof *sizes);
    if (count > TD_COUNT(inline_sizes) && !(sizes = td_mem_alloc(bytes)))
        return -1;
    for (int64_t i = 0; i < count; i++)
        sizes[i] = length;
    sizes[count - 1] = self->sizes[d] - length * (count - 1);
    int status = td_split_with_sizes(results, self, count, sizes, d);
    if (sizes != inline_sizes)
        td_mem_free(sizes, bytes);
    return status;
}

int td_op_split_tensor(td_tensor_list *results, td_tensor *self, int64_t split_size, int64_t dim)
{
    if (!self->ndim)
        return td_error(TD_E_RUNTIME, "split expects at least a 1-dimensional tensor");
    int d = td_wrap_dim(dim, self->ndim);
    if (d < 0)
        return -1;
    int64_t size = self->sizes[d];
    if (split_size < 0)
        return td_error(TD_E_RUNTIME, "split expects split_size be non-negative, but got split_size=%" PRId64, split_size);
    if (!split_size && size)
        return td_error(TD_E_RUNTIME, "split_size can only be 0 if dimension size is 0, but got dimension size of %" PRId64, size);
    /* An empty dimension is one empty range, however long ranges are to be. */
    int64_t count = split_size ? td_quotient_up(size, split_size) : 1;
    return split_evenly(results, self, split_size, count ? count : 1, d);
}

/* At most `chunks` ranges of ceil(size / chunks), fewer if those cover the dimension already.  An empty one gives `chunks` empty ranges,
 * as in PyTorch. */
int td_op_chunk(td_tensor_list *results, td_tensor *self, int64_t chunks, int64_t dim)
{
    if (!self->ndim)
        return td_error(TD_E_RUNTIME, "chunk expects at least a 1-dimensional tensor");
    if (chunks <= 0)
        return td_error(TD_E_RUNTIME, "chunk expects `chunks` to be greater than 0, got: %" PRId64, chunks);
    int d = td_wrap_dim(dim, self->ndim);
    if (d < 0)
        return -1;
    int64_t size = self->sizes[d], length = td_quotient_up(size, chunks);
    if (!length)
        return split_evenly(results, self, 0, chunks, d);
    return split_evenly(results, self, length, td_quotient_up(size, length), d);
}

/* ---- several dimensions as one */

/* reshape, so a view where strides allow.  A tensor without dimensions becomes one of a single element. */
td_tensor *td_op_flatten_using_ints(td_tensor *self, int64_t start_dim, int64_t end_dim)
{
    int a = td_wrap_dim(start_dim, self->ndim), b = a < 0 ? -1 : td_wrap_dim(end_dim, self->ndim);
    if (b < 0)
        return NULL;
    if (a > b)
        return td_fail(TD_E_RUNTIME, "flatten() has invalid args: start_dim cannot come after end_dim");
    if (!self->ndim)
        return td_reshape(self, 1, (int64_t[]){1});
    if (a == b)
        return td_tensor_retain(self);
    int64_t sizes[TD_MAX_DIMS], merged = 1;
    int n = 0;
    for (int d = 0; d < self->ndim; d++) {
        if (d >= a && d <= b && td_mul_checked(merged, self->sizes[d], &merged))
            return NULL;
        if (d < a || d > b)
            sizes[n++] = self->sizes[d];
        else if (d == b)
            sizes[n++] = merged;
    }
    return td_reshape(self, n, sizes);
}
