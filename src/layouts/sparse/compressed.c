/* The compressed layouts: CSR, CSC, BSR and BSC.  See object.h for what they keep.
 *
 * One function lists a compressed tensor's elements as COO, one makes a compressed tensor of a coalesced COO one; all conversions
 * are these two. */
#include "calls_layouts_sparse_compressed.h"
#include "layouts/sparse/sparse.h"
#include <inttypes.h>
#include "tensor/checked.h"
#include "tensor/device.h"
#include "tensor/layout.h"

/* The batch dimensions in front, and the sizes of a block. */
typedef struct shape {
    int     batch;
    int64_t many, blocks[2];       /* how many matrices; rows and columns of a block */
} shape;

/* Dimensions are batch, rows, columns, dense; the sizes of blocks stand behind nnz in values. */
static shape shape_of(const td_tensor *x)
{
    const td_sparse *s = td_sparse_of(x);
    shape r = {x->ndim - 2 - s->dense_dim, 1, {1, 1}};
    for (int d = 0; d < r.batch; d++)
        r.many *= x->sizes[d];
    for (int k = 0; k < 2 && td_is_blocked(s->layout); k++)
        r.blocks[k] = s->values->sizes[r.batch + 1 + k];
    return r;
}

/* How many values each compressed row or column has, all matrices' after each other; checked to be as many as there
 * are. Every use of compressed indices comes through here, so that a tensor made unchecked can't lead outside its
 * values. */
static td_tensor *counts_of(td_tensor *x, const shape *r)
{
    const td_sparse *s = td_sparse_of(x);
    if (td_check_indices_here(s->indices))
        return NULL;
    TD_AUTO td_tensor *ends = td_to(s->indices, TD_I64);
    int64_t n = ends ? ends->sizes[ends->ndim - 1] - 1 : 0;
    TD_AUTO td_tensor *flat = td_reshape(ends, 2, (int64_t[]){r->many, n + 1});
    TD_AUTO td_tensor *next = td_narrow(flat, 1, 1, n), *now = td_narrow(flat, 1, 0, n), *counts = td_minus(next, now);
    TD_AUTO td_tensor *in_a_row = td_make_contiguous(counts);
    if (!in_a_row)
        return NULL;
    int64_t total = 0, nnz = s->plain->sizes[s->plain->ndim - 1];
    const int64_t *at = (const int64_t *)in_a_row->data;
    for (int64_t i = 0; i < in_a_row->numel; i++) {
        if (at[i] < 0 || at[i] > nnz)
            return td_fail(TD_E_RUNTIME, "compressed indices must not decrease, nor go beyond the number of values");
        total += at[i];
    }
    if (total != nnz * r->many)
        return td_fail(TD_E_RUNTIME, "compressed indices must end at the number of values, %" PRId64, nnz);
    return td_view(in_a_row, 1, (int64_t[]){in_a_row->numel});
}

/* The line of each stored value by repeating line numbers by their counts, the other index from `plain`; matrices of
 * a batch are numbered through and taken apart into their dimensions; a block (b0, b1) becomes b0 * b1 elements.
 * O(elements), in the order of the values, which are only reshaped: row order for CSR, another for the rest, so the
 * result is not marked coalesced if it has two elements or more. */
td_tensor *td_compressed_elements(td_tensor *x)
{
    if (!x)
        return NULL;
    const td_sparse *s = td_sparse_of(x);
    const shape r = shape_of(x);
    const int64_t b0 = r.blocks[0], b1 = r.blocks[1], nnz = s->plain->sizes[s->plain->ndim - 1], all = nnz * r.many;
    int64_t n = s->indices->sizes[s->indices->ndim - 1] - 1, shaped[TD_MAX_DIMS + 1] = {all * b0 * b1};
    TD_AUTO td_tensor *counts = counts_of(x, &r), *plain = td_as_contiguous(s->plain, TD_I64);
    TD_AUTO td_tensor *lines = td_repeat_interleave_tensor(counts, &all), *line = td_make_contiguous(lines);
    TD_AUTO td_tensor *indices = td_empty(2, (int64_t[]){r.batch + 2, shaped[0]}, TD_I64);
    if (!line || !plain || !indices)
        return NULL;
    int64_t *to = (int64_t *)indices->data, step = shaped[0], at = 0;
    const int64_t *from = (const int64_t *)line->data, *across = (const int64_t *)plain->data;
    bool rows = td_rows_compressed(s->layout);
    for (int64_t k = 0; k < all; k++) {
        int64_t matrix = n ? from[k] / n : 0, along = n ? from[k] % n : 0;
        for (int64_t i = 0; i < b0; i++)
            for (int64_t j = 0; j < b1; j++, at++) {
                int64_t rest = matrix;
                for (int d = r.batch - 1; d >= 0; d--) {
                    to[d * step + at] = rest % x->sizes[d];
                    rest /= x->sizes[d];
                }
                to[r.batch * step + at] = (rows ? along : across[k]) * b0 + i;
                to[(r.batch + 1) * step + at] = (rows ? across[k] : along) * b1 + j;
            }
    }
    memcpy(shaped + 1, x->sizes + r.batch + 2, sizeof *shaped * (size_t)s->dense_dim);
    TD_AUTO td_tensor *values = td_reshape(s->values, 1 + s->dense_dim, shaped);
    return td_coo_new(x->ndim, x->sizes, r.batch + 2, indices, values, all * b0 * b1 < 2);
}

td_tensor *td_sparse_coo(td_tensor *x)
{
    if (!x || td_is_coo(x))
        return td_ref(x);
    if (!td_is_sparse(x))
        return td_to_sparse_sparse_dim(x, x->ndim);
    TD_AUTO td_tensor *elements = td_compressed_elements(x);
    return td_sparse_settled(elements);
}

/* What a caller of to_sparse() gets: rows of CSR are in order, elements of the rest stay where they are, as in PyTorch. */
td_tensor *td_compressed_to_coo(td_tensor *x) { return td_tensor_layout(x) == TD_SPARSE_CSR ? td_sparse_coo(x) : td_compressed_elements(x); }

td_tensor *td_sparse_itself(td_tensor *x) { return td_requires_grad(x) ? td_alias(x) : td_ref(x); }

/* ---- checks */


static int check_parts(td_tensor *indices, td_tensor *plain, td_tensor *values, int64_t n, const int64_t *size, int layout)
{
    td_shape_text a, b, c, d;
    const char *first = td_rows_compressed(layout) ? "crow_indices" : "ccol_indices",
               *second = td_rows_compressed(layout) ? "col_indices" : "row_indices";
    const int blocked = td_is_blocked(layout), batch = indices->ndim - 1, side = td_rows_compressed(layout) ? 0 : 1;
    if (layout < TD_SPARSE_CSR || layout > TD_SPARSE_BSC)
        return td_error(TD_E_RUNTIME, "sparse_compressed_tensor expected sparse compressed tensor layout but got %s",
                        layout < 0 ? "none" : td_layout_name(layout));
    if (td_is_sparse(indices) || td_is_sparse(plain) || td_is_sparse(values))
        return td_error(TD_E_RUNTIME, "expected %s, %s and values to be strided", first, second);
    if (indices->device.type != plain->device.type || plain->device.type != values->device.type || indices->device.index != values->device.index ||
        plain->device.index != values->device.index)
        return td_error(TD_E_RUNTIME, "device of %s (=%s) must match device of %s (=%s) and device of values (=%s)", first, td_device_str(indices->device, a),
                        second, td_device_str(plain->device, b), td_device_str(values->device, c));
    if (indices->dtype != plain->dtype)
        return td_error(TD_E_RUNTIME, "%s and %s must have the same dtype, bot got %s and %s, respectively", first, second,
                        td_dtype_title((td_dtype)indices->dtype), td_dtype_title((td_dtype)plain->dtype));
    if (indices->dtype != TD_I64 && indices->dtype != TD_I32)
        return td_error(TD_E_RUNTIME, "%s and %s dtype must be Int or Long, but got %s", first, second,
                        td_dtype_title((td_dtype)indices->dtype));
    if (td_check_sizes(n, size))
        return -1;
    if (batch < 0)
        return td_error(TD_E_RUNTIME, "%s must have dimensionality >= 1 but got 0", first);
    if (plain->ndim != indices->ndim)
        return td_error(TD_E_RUNTIME, "%s and %s dimensionalities must be equal but got %d and %d, respectively", first, second,
                        indices->ndim, plain->ndim);
    const int dense = values->ndim - batch - 1 - 2 * blocked;
    if (dense < 0)
        return td_error(TD_E_RUNTIME, "values must have dimensionality > sum of batch and block dimensionalities (=%d + %d) but got %d",
                        batch, 2 * blocked, values->ndim);
    if (n != batch + 2 + dense)
        return td_error(TD_E_RUNTIME, "tensor dimensionality must be sum of batch, base, and dense dimensionalities (=%d + 2 + %d) but got "
                        "%" PRId64, batch, dense, n);
    if (memcmp(indices->sizes, size, sizeof *size * (size_t)batch) || memcmp(plain->sizes, size, sizeof *size * (size_t)batch) ||
        memcmp(values->sizes, size, sizeof *size * (size_t)batch))
        return td_error(TD_E_RUNTIME,
                        "all batch dimensions of %s (=%s), %s (=%s), and values (=%s) must be equal to tensor batch dimensions (=%s)",
                        first, td_shape_str(batch, indices->sizes, a), second, td_shape_str(batch, plain->sizes, b),
                        td_shape_str(batch, values->sizes, c), td_shape_str(batch, size, d));
    if (values->sizes[batch] != plain->sizes[batch])
        return td_error(TD_E_RUNTIME, "%s.shape[-1] must be equal to nnz (=%" PRId64 ") as defined by values.shape[%d], but got %" PRId64,
                        second, values->sizes[batch], batch, plain->sizes[batch]);
    if (memcmp(values->sizes + batch + 1 + 2 * blocked, size + batch + 2, sizeof *size * (size_t)dense))
        return td_error(TD_E_RUNTIME, "dense dimensions of values, %s, must be the last ones of the size, %s",
                        td_shape_str(values->ndim, values->sizes, a), td_shape_str((int)n, size, b));
    for (int k = 0; k < 2; k++) {
        int64_t block = blocked ? values->sizes[batch + 1 + k] : 1, lines = size[batch + k];
        if (block < 1 || lines % block)
            return td_error(TD_E_RUNTIME,
                            "tensor shape[%d] (=%" PRId64 ") must be divisible with blocksize[%d] (=%" PRId64
                            ") as defined by "
                            "values shape",
                            batch + k, lines, k, block);
        if (k == side && indices->sizes[batch] != lines / block + 1)
            return td_error(TD_E_RUNTIME,
                            "%s.shape[-1] must be equal to the number of %s + 1 (=%" PRId64 "), but got %" PRId64, first,
                            blocked ? side ? "column blocks" : "row blocks" : side ? "columns" : "rows", lines / block + 1, indices->sizes[batch]);
    }
    return 0;
}

/* Whether every row's indices are in order, unique, and within the size. */
static int check_order(td_tensor *x)
{
    const td_sparse *s = td_sparse_of(x);
    if (x->device.type == TD_META)
        return 0;
    if (td_is_outside(x->device)) {
        TD_AUTO td_tensor *near = td_layout_on(x, (td_device){TD_CPU, -1});
        return near ? check_order(near) : -1;
    }
    const shape r = shape_of(x);
    TD_AUTO td_tensor *plain = td_as_contiguous(s->plain, TD_I64);
    TD_AUTO td_tensor *begins = td_to(s->indices, TD_I64), *line = td_make_contiguous(begins);
    if (!plain || !line)
        return -1;
    bool rows = td_rows_compressed(s->layout);
    const int64_t *at = (const int64_t *)plain->data, lines = line->sizes[line->ndim - 1];
    const int64_t limit = x->sizes[r.batch + rows] / r.blocks[rows], *first = (const int64_t *)line->data;
    for (int64_t b = 0; b < r.many; b++, first += lines)
        if (first[0] || first[lines - 1] != plain->sizes[plain->ndim - 1])
            return td_error(TD_E_RUNTIME,
                            first[0] ? "`%s[..., 0] == 0` is not satisfied." : "`%s[..., -1] == nnz` is not satisfied.",
                            rows ? "crow_indices" : "ccol_indices");
    first = (const int64_t *)line->data;
    for (int64_t b = 0; b < r.many; b++, first += lines)
        for (int64_t i = 1; i < lines; i++)
            if (first[i] < first[i - 1] || first[i] - first[i - 1] > limit)
                return td_error(TD_E_RUNTIME, "`0 <= %s[..., 1:] - %s[..., :-1] <= %s` is not satisfied.",
                                rows ? "crow_indices" : "ccol_indices", rows ? "crow_indices" : "ccol_indices", rows ? "ncols" : "nrows");
    TD_AUTO td_tensor *counts = counts_of(x, &r);
    if (!counts)
        return -1;
    const int64_t *many = (const int64_t *)counts->data;
    for (int64_t i = 0; i < counts->numel; at += many[i++])
        for (int64_t k = 0; k < many[i]; k++) {
            if (at[k] < 0 || at[k] >= limit)
                return td_error(TD_E_RUNTIME, "`0 <= %s < %s` is not satisfied.", rows ? "col_indices" : "row_indices",
                                rows ? "ncols" : "nrows");
            if (k && at[k] <= at[k - 1])
                return td_error(
                    TD_E_RUNTIME,
                    "`%s[..., %s[..., i - 1]:%s[..., i]] for all i = 1, ..., %s are sorted and distinct along the "
                    "last dimension values` is not satisfied.",
                    rows ? "col_indices" : "row_indices", rows ? "crow_indices" : "ccol_indices",
                    rows ? "crow_indices" : "ccol_indices", rows ? "nrows" : "ncols");
        }
    return 0;
}

int td_op__validate_sparse_compressed_tensor_args(td_tensor *indices, td_tensor *plain, td_tensor *values, int64_t n,
                                                  const int64_t *size, td_layout layout, const bool *pinning)
{
    (void)pinning;
    if (check_parts(indices, plain, values, n, size, layout))
        return -1;
    for (int k = 0; k < 2; k++) {
        const td_tensor *part = k ? plain : indices;
        if (part->sizes[part->ndim - 1] > 1 && part->strides[part->ndim - 1] != 1)
            return td_error(TD_E_RUNTIME, "expected %s_indices to be a contiguous tensor per batch",
                            td_rows_compressed(layout) ? k ? "col" : "crow" : k ? "row" : "ccol");
    }
    TD_AUTO td_tensor *x = td_compressed_new(layout, (int)n, size, (int)n - indices->ndim - 1, indices, plain, values);
    return x ? check_order(x) : -1;
}

/* The same of indices alone: of a matrix, or batch of matrices, of cdim compressed lines and dim others. */
int td_op__validate_compressed_sparse_indices(bool is_crow, td_tensor *compressed, td_tensor *plain, int64_t cdim, int64_t dim, int64_t nnz)
{
    const int batch = compressed->ndim - 1;
    int64_t size[TD_MAX_DIMS + 1];
    if (batch < 0 || batch + 2 > TD_MAX_DIMS || plain->ndim != compressed->ndim || plain->sizes[batch] != nnz)
        return td_error(TD_E_RUNTIME, "_validate_compressed_sparse_indices: expected compressed and plain indices of as many dimensions, the "
                        "latter of nnz (=%" PRId64 ") elements", nnz);
    memcpy(size, compressed->sizes, sizeof *size * (size_t)batch);
    size[batch] = is_crow ? cdim : dim;
    size[batch + 1] = is_crow ? dim : cdim;
    TD_AUTO td_tensor *values = td_zeros(plain->ndim, plain->sizes, TD_BOOL, plain->device);
    return values ? td_op__validate_sparse_compressed_tensor_args(compressed, plain, values, batch + 2, size,
                                                                  is_crow ? TD_SPARSE_CSR : TD_SPARSE_CSC, NULL) : -1;
}

/* ---- making */

td_tensor *td_op_sparse_compressed_tensor_comp_plain_value_size(td_tensor *indices, td_tensor *plain, td_tensor *values,
                                                                int64_t n, const int64_t *size, td_dtype dtype,
                                                                td_layout layout, td_device device)
{
    (void)device;
    if (check_parts(indices, plain, values, n, size, layout))
        return NULL;
    TD_AUTO td_tensor *of_dtype = dtype == TD_DTYPE_NONE ? td_ref(values) : td_to(values, dtype);
    return td_compressed_new(layout, (int)n, size, (int)n - indices->ndim - 1, indices, plain, of_dtype);
}

/* The compressed dimension's size is known from the number of lines; the other one is guessed as the least that has
 * room for the largest plain index, as in PyTorch. Blocks multiply both, saturating, so that too large a size is
 * refused and not wrapped. */
td_tensor *td_op_sparse_compressed_tensor_comp_plain_value(td_tensor *indices, td_tensor *plain, td_tensor *values, td_dtype dtype,
                                                           td_layout layout, td_device device)
{
    int64_t size[TD_MAX_DIMS + 2];
    const int batch = indices->ndim - 1, blocked = td_is_blocked(layout), rows = td_rows_compressed(layout);
    const int dense = values->ndim - batch - 1 - 2 * blocked;
    if (batch < 0 || dense < 0 || batch + 2 + dense > TD_MAX_DIMS)
        return td_fail(TD_E_RUNTIME, "sparse_compressed_tensor: the parts' numbers of dimensions don't fit");
    TD_AUTO td_tensor *most = plain->numel ? td_amax(plain, 0, NULL, false) : td_ref(TD_NONE);
    td_scalar last = td_int(-1);
    if (!most || (most != TD_NONE && td_tensor_item(most, &last)))
        return NULL;
    memcpy(size, indices->sizes, sizeof *size * (size_t)batch);
    for (int k = 0; k < 2; k++)
        size[batch + k] = td_mul_saturated(k == !rows ? indices->sizes[batch] - 1 : td_add_saturated(td_scalar_int(last), 1),
                                           blocked ? values->sizes[batch + 1 + k] : 1);
    memcpy(size + batch + 2, values->sizes + batch + 1 + 2 * blocked, sizeof *size * (size_t)dense);
    return td_sparse_compressed_tensor_comp_plain_value_size(indices, plain, values, batch + 2 + dense, size, dtype, layout,
                                                             device);
}

/* Room for nnz values, all parts zero: not a valid pattern yet, but one to be filled in. */
td_tensor *td_op__sparse_compressed_tensor_with_dims(int64_t nnz, int64_t dense_dim, int64_t n, const int64_t *size, int64_t n_blocks,
                                                     const int64_t *blocks, td_dtype index_dtype, td_dtype dtype, td_layout layout,
                                                     td_device device)
{
    const int64_t batch = td_sub_saturated(n - 2, dense_dim);
    const int blocked = td_is_blocked(layout), side = td_rows_compressed(layout) ? 0 : 1;
    int64_t shape[TD_MAX_DIMS + 2];
    if ((int)layout < TD_SPARSE_CSR || (int)layout > TD_SPARSE_BSC)
        return td_fail(TD_E_RUNTIME, "sparse_compressed_tensor_with_dims expected sparse compressed tensor layout but got %s",
                       (int)layout < 0 ? "Strided" : td_layout_name(layout));
    if (td_check_sizes(n, size))
        return NULL;
    if (n_blocks != 2 * blocked)
        return td_fail(TD_E_RUNTIME, "sparse_compressed_tensor_with_dims: blocksize needs to be a tuple of size %d, but got %" PRId64,
                       2 * blocked, n_blocks);
    if (nnz < 0 || dense_dim < 0 || batch < 0 || batch + 3 + dense_dim > TD_MAX_DIMS)
        return td_fail(TD_E_RUNTIME,
                       "sparse_compressed_tensor_with_dims: there must be no fewer than 0 elements and 2 + dense_dim dimensions; got "
                       "%" PRId64 " and %" PRId64, nnz, n);
    const int64_t block = blocked ? blocks[side] : 1;
    if (index_dtype != TD_I64 && index_dtype != TD_I32)
        return td_fail(TD_E_RUNTIME, "indices dtype must be Int or Long, but got %s", td_dtype_title(index_dtype));
    if (block < 1 || (blocked && blocks[!side] < 1))
        return td_fail(TD_E_RUNTIME, "sparse_compressed_tensor_with_dims: the sizes of a block must be positive");
    memcpy(shape, size, sizeof *shape * (size_t)batch);
    shape[batch] = size[batch + side] / block + 1;
    TD_AUTO td_tensor *indices = td_zeros((int)batch + 1, shape, index_dtype, device);
    shape[batch] = nnz;
    TD_AUTO td_tensor *plain = td_zeros((int)batch + 1, shape, index_dtype, device);
    if (blocked)
        memcpy(shape + batch + 1, blocks, sizeof *blocks * 2);
    memcpy(shape + batch + 1 + 2 * blocked, size + batch + 2, sizeof *size * (size_t)dense_dim);
    TD_AUTO td_tensor *values = td_zeros((int)(batch + 1 + 2 * blocked + dense_dim), shape, dtype, device);
    return td_compressed_new(layout, (int)n, size, (int)dense_dim, indices, plain, values);
}

int td_compressed_clear(td_tensor *x, int64_t n, const int64_t *size)
{
    const td_sparse *s = td_sparse_of(x);
    const int batch = s->indices->ndim - 1;
    const int64_t *blocks = s->values->sizes + batch + 1, columns = x->sizes[batch + 1];
    if (n < 2 + s->dense_dim)
        return td_error(TD_E_RUNTIME, "zeros: a compressed out= with %d dense dimensions has %d dimensions at least", s->dense_dim, 2 + s->dense_dim);
    if (size[n - 1 - s->dense_dim] < columns)
        return td_error(TD_E_RUNTIME, "torch.resize_: Resizing columns of sparse CSR tensors to a smaller value is not supported. The original number of "
                        "columns is %" PRId64 " while the requested new number of columns is %" PRId64 ".", columns, size[n - 1 - s->dense_dim]);
    TD_AUTO td_tensor *none = td__sparse_compressed_tensor_with_dims(0, s->dense_dim, n, size, td_is_blocked(s->layout) ? 2 : 0, blocks,
                                                                     (td_dtype)s->indices->dtype, (td_dtype)x->dtype, s->layout, x->device);
    return none ? td_layout_take(x, none) : -1;
}

/* ---- parts */

/* A detached alias: writing to it changes the tensor's own indices, as in PyTorch. */
static td_tensor *part(td_tensor *x, const char *name, bool rows, bool plain)
{
    int layout = td_tensor_layout(x);
    if (layout < TD_SPARSE_CSR || layout > TD_SPARSE_BSC || td_rows_compressed(layout) != rows)
        return td_fail(TD_E_RUNTIME, "%s expected sparse %s compressed tensor layout but got %s", name, rows ? "row" : "column",
                       td_sparse_title(layout));
    return td_alias_detached(plain ? td_sparse_of(x)->plain : td_sparse_of(x)->indices, false);
}
td_tensor *td_op_crow_indices(td_tensor *self) { return part(self, "crow_indices", true, false); }
td_tensor *td_op_col_indices(td_tensor *self) { return part(self, "col_indices", true, true); }
td_tensor *td_op_ccol_indices(td_tensor *self) { return part(self, "ccol_indices", false, false); }
td_tensor *td_op_row_indices(td_tensor *self) { return part(self, "row_indices", false, true); }

/* ---- compressing */

/* A coalesced COO tensor of batch dimensions, rows and columns, compressed. Each element's key is (matrix, line,
 * position across), of its block where there are blocks: sorting unique keys orders the stored values by lines, and
 * gives each element its block's number; `inside` is its position within the block. A counting pass and a running sum
 * over the lines make the compressed indices. CSR needs no sort, for COO's own order is that of its keys. Batches
 * must have equally many stored values, since they share one nnz. */
static td_tensor *compress(td_tensor *x, int layout, const int64_t *blocks, td_dtype index_dtype)
{
    const td_sparse *s = td_sparse_of(x);
    if (td_check_indices_here(s->indices))
        return NULL;
    const int batch = s->sparse_dim - 2, blocked = td_is_blocked(layout), rows = td_rows_compressed(layout);
    const int64_t b[2] = {blocked ? blocks[0] : 1, blocked ? blocks[1] : 1}, block = b[0] * b[1];
    int64_t count[2], many = 1, shaped[TD_MAX_DIMS + 4], n_shape = 0;
    for (int k = 0; k < 2; k++) {
        if (b[k] < 1 || x->sizes[batch + k] % b[k])
            return td_fail(TD_E_RUNTIME,
                           "tensor sparse size (%" PRId64 ",%" PRId64 ") must be divisible by given blocksize (%" PRId64
                           ",%" PRId64 ")",
                           x->sizes[batch], x->sizes[batch + 1], b[0], b[1]);
        count[k] = x->sizes[batch + k] / b[k];
    }
    for (int d = 0; d < batch; d++)
        many *= x->sizes[d];
    const int64_t lines = count[!rows], across = count[rows], nnz = td_sparse_nnz(x);
    TD_AUTO td_tensor *indices = td_make_contiguous(s->indices);
    TD_AUTO td_tensor *keys = td_empty(1, &nnz, TD_I64), *inside = td_empty(1, &nnz, TD_I64);
    if (!indices || !keys || !inside)
        return NULL;
    const int64_t *at = (const int64_t *)indices->data;
    for (int64_t i = 0; i < nnz; i++) {
        int64_t matrix = 0, row = at[batch * nnz + i], column = at[(batch + 1) * nnz + i];
        for (int d = 0; d < batch; d++)
            matrix = matrix * x->sizes[d] + at[d * nnz + i];
        ((int64_t *)keys->data)[i] =
            (matrix * lines + (rows ? row / b[0] : column / b[1])) * across + (rows ? column / b[1] : row / b[0]);
        ((int64_t *)inside->data)[i] = row % b[0] * b[1] + column % b[1];
    }
    const bool sorted = rows && !blocked;       /* as COO's are */
    td_tensor *found[3] = {NULL, NULL, NULL};
    if (!sorted && td__unique2(found, keys, true, true, false))
        return NULL;
    TD_AUTO td_tensor *unique = sorted ? td_ref(keys) : found[0], *to = found[1];
    td_tensor_release(found[2]);    /* counts */
    const int64_t stored = unique->numel, each = many ? stored / many : 0;
    /* begins[i]: how many stored values lie before line i of all matrices' */
    TD_AUTO td_tensor *begins = td_zeros(1, (int64_t[]){many * (lines + 1)}, TD_I64, x->device);
    TD_AUTO td_tensor *plain = td_empty(1, &stored, TD_I64);
    if (!begins || !plain)
        return NULL;
    int64_t *starts = (int64_t *)begins->data;
    for (int64_t i = 0; i < stored; i++) {
        int64_t key = ((const int64_t *)unique->data)[i], line = key / across;
        ((int64_t *)plain->data)[i] = key % across;
        starts[line / lines * (lines + 1) + line % lines + 1]++;
    }
    for (int64_t m = 0; m < many; m++) {
        for (int64_t i = 0; i < lines; i++)
            starts[m * (lines + 1) + i + 1] += starts[m * (lines + 1) + i];
        if (starts[m * (lines + 1) + lines] != each)
            return td_fail(TD_E_RUNTIME, "Expect the same number of specified elements per batch.");
    }
    /* the values, into their blocks */
    int64_t flat[TD_MAX_DIMS + 1] = {stored * block};
    memcpy(flat + 1, s->values->sizes + 1, sizeof *flat * (size_t)s->dense_dim);
    TD_AUTO td_tensor *stores = sorted ? td_clone(s->values) : td_zeros(1 + s->dense_dim, flat, (td_dtype)x->dtype, x->device);
    TD_AUTO td_tensor *scaled = sorted ? td_ref(TD_NONE) : td_times(to, td_int(block));
    TD_AUTO td_tensor *place = sorted ? td_ref(TD_NONE) : td_add(scaled, inside);
    if (!place || !stores || (!sorted && td_index_copy_(stores, 0, place, s->values)))
        return NULL;
    memcpy(shaped, x->sizes, sizeof *shaped * (size_t)batch);
    n_shape = batch;
    shaped[n_shape++] = each;
    TD_AUTO td_tensor *plain_shaped = td_view(plain, n_shape, shaped);
    shaped[batch] = lines + 1;
    TD_AUTO td_tensor *begins_shaped = td_view(begins, n_shape, shaped);
    shaped[batch] = each;
    if (blocked)
        shaped[n_shape++] = b[0], shaped[n_shape++] = b[1];
    memcpy(shaped + n_shape, flat + 1, sizeof *flat * (size_t)s->dense_dim);
    TD_AUTO td_tensor *values = td_view(stores, n_shape + s->dense_dim, shaped);
    TD_AUTO td_tensor *first = td_to(begins_shaped, index_dtype), *second = td_to(plain_shaped, index_dtype);
    return td_compressed_new(layout, x->ndim, x->sizes, s->dense_dim, first, second, values);
}

/* All conversions go through coalesced COO. td_coo_places is called for its check that indices are in bounds and
 * keys fit, which compress() relies on. */
static td_tensor *to_compressed(td_tensor *self, int layout, int64_t n_blocks, const int64_t *blocks, const int64_t *dense_dim)
{
    const int own = td_tensor_layout(self);
    const char *wanted = td_sparse_title(layout);
    if (td_is_blocked(layout) && n_blocks != 2)
        return td_fail(TD_E_RUNTIME, "%s: conversion from %s to %s without blocksize argument given is not supported",
                       own == TD_STRIDED ? "dense_to_sparse" : "to_sparse",
                       td_sparse_title(own), wanted);
    if (own > TD_SPARSE_BSC)
        return td_layout_refuse("to_sparse", self);
    if (own == TD_STRIDED) {
        int64_t dense = dense_dim ? *dense_dim : 0;
        if (dense < 0 || self->ndim - dense < 2)
            return td_fail(TD_E_RUNTIME,
                           "to_sparse_%s: conversion needs two dimensions that aren't dense, of %d with dense_dim %" PRId64,
                           td_layout_name(layout) + 7, self->ndim, dense);
        for (int d = 0; d < self->ndim - dense - 2; d++)
            if (!self->sizes[d])
                return td_fail(TD_E_RUNTIME, "to_%s: Expected product of batch dimensions to be non-zero.", td_layout_name(layout));
        TD_AUTO td_tensor *coo = td_to_sparse_sparse_dim(self, self->ndim - dense);
        return coo ? compress(coo, layout, blocks, TD_I64) : NULL;
    }
    if (dense_dim && *dense_dim != td_sparse_of(self)->dense_dim)
        return td_fail(TD_E_RUNTIME,
                       "to_sparse: conversion from %s to %s with dense_dim argument !=self.dense_dim() is not supported",
                       td_sparse_title(own), wanted);
    if (own == TD_SPARSE_COO && td_sparse_of(self)->sparse_dim != 2)
        return td_fail(TD_E_RUNTIME,
                       "coo_to_%s: conversion from Sparse to %s for input tensors with sparse_dim()!=2 is not supported",
                       td_layout_name(layout), wanted);
    if (own == layout && (!td_is_blocked(layout) || !memcmp(shape_of(self).blocks, blocks, 2 * sizeof *blocks)))
        return td_sparse_itself(self);
    TD_AUTO td_tensor *coo = td_sparse_coo(self), *x = td_sparse_settled(coo), *checked = td_coo_places(x);
    return checked
               ? compress(x, layout, blocks, own == TD_SPARSE_COO ? TD_I64 : (td_dtype)td_sparse_of(self)->indices->dtype)
               : NULL;
}

/* The conversions between compressed layouts that callers may ask for are PyTorch's: neither to smaller or no blocks nor of
 * batches to blocks. Gradients, which take their input's layout, are converted in any case (td_sparse_like_layout). */
static td_tensor *convert(td_tensor *self, int layout, int64_t n_blocks, const int64_t *blocks, const int64_t *dense_dim)
{
    const int own = td_tensor_layout(self);
    if (own < TD_SPARSE_CSR || own > TD_SPARSE_BSC || td_is_blocked(layout) != (n_blocks == 2))
        return to_compressed(self, layout, n_blocks, blocks, dense_dim);
    const shape r = shape_of(self);
    const char *from = td_sparse_title(own), *to = td_sparse_title(layout);
    if (td_is_blocked(own) && !td_is_blocked(layout))
        return td_fail(TD_E_RUNTIME, "sparse_compressed_to_%s: expected SparseCsr or SparseCsc layout but got %s", td_layout_name(layout), from);
    if (td_is_blocked(own) && (r.blocks[0] != blocks[0] || r.blocks[1] != blocks[1]))
        return td_fail(TD_E_RUNTIME, "to_sparse: conversion from %s to %s with blocksize changed from [%" PRId64 ", %" PRId64 "] to [%" PRId64
                       ", %" PRId64 "] is not supported", from, to, r.blocks[0], r.blocks[1], blocks[0], blocks[1]);
    if (!td_is_blocked(own) && td_is_blocked(layout) && r.batch)
        return td_fail(TD_E_RUNTIME, "to_sparse: conversion from %s to %s for batched inputs is not supported", from, to);
    return to_compressed(self, layout, n_blocks, blocks, dense_dim);
}

td_tensor *td_op_to_sparse_csr(td_tensor *self, const int64_t *dense) { return convert(self, TD_SPARSE_CSR, 0, NULL, dense); }
td_tensor *td_op_to_sparse_csc(td_tensor *self, const int64_t *dense) { return convert(self, TD_SPARSE_CSC, 0, NULL, dense); }
td_tensor *td_op_to_sparse_bsr(td_tensor *self, int64_t n, const int64_t *blocks, const int64_t *dense)
{
    return convert(self, TD_SPARSE_BSR, n, blocks, dense);
}
td_tensor *td_op_to_sparse_bsc(td_tensor *self, int64_t n, const int64_t *blocks, const int64_t *dense)
{
    return convert(self, TD_SPARSE_BSC, n, blocks, dense);
}

td_tensor *td_op_to_sparse(td_tensor *self, td_layout layout, int64_t n, const int64_t *blocks, const int64_t *dense)
{
    if (layout == TD_STRIDED && !td_is_sparse(self))
        return td_sparse_itself(self);
    if ((int)layout >= TD_LAYOUTS_KNOWN && !td_has_layout(self))
        return td_layout_from_dense((int)layout, self);
    if (td_has_layout(self) && !td_is_sparse(self)) {
        TD_AUTO td_tensor *strided = td_to_dense(self, TD_DTYPE_NONE, NULL);
        if (strided && td_has_layout(strided))         /* quantized: as dense as it gets */
            return td_layout_refuse("to_sparse", self);
        return strided ? td_to_sparse(strided, layout, n, blocks, dense) : NULL;
    }
    if (layout == TD_STRIDED || (int)layout > TD_SPARSE_BSC)
        return td_fail(TD_E_RUNTIME, "to_sparse: conversion from %s to %s is not supported",
                       td_sparse_title(td_is_sparse(self) ? td_sparse_of(self)->layout : 0), td_layout_name(layout));
    if (n >= 0 && !td_is_blocked(layout))
        return td_fail(TD_E_RUNTIME, "to_sparse for %s to %s conversion does not use specified blocksize",
                       td_sparse_title(td_is_sparse(self) ? td_sparse_of(self)->layout : 0),
                       td_sparse_title((int)layout < 0 ? TD_SPARSE_COO : (int)layout));
    if ((int)layout >= TD_SPARSE_CSR)
        return convert(self, (int)layout, n, blocks, dense);
    if (td_is_sparse(self))
        return td_is_coo(self) ? td_sparse_itself(self) : td_compressed_to_coo(self);
    if (dense && (*dense < 0 || *dense > self->ndim))
        return td_fail(TD_E_RUNTIME, "to_sparse: dense_dim %" PRId64 " is out of range", *dense);
    return td_to_sparse_sparse_dim(self, self->ndim - (dense ? *dense : 0));
}

/* Results of operators that compute in COO: they take the operand's layout again, its blocks and the dtype of its
 * indices. */
td_tensor *td_sparse_like_layout(td_tensor *x, td_tensor *like)
{
    if (!x || !like)
        return NULL;
    int layout = td_tensor_layout(like);
    if (layout == TD_STRIDED)
        return td_sparse_dense(x);
    if (layout == TD_SPARSE_COO)
        return td_is_coo(x) ? td_ref(x) : td_to_sparse_sparse_dim(x, td_sparse_of(like)->sparse_dim);
    const shape r = shape_of(like);
    if (td_is_coo(x) && td_sparse_of(x)->sparse_dim == r.batch + 2) {
        TD_AUTO td_tensor *settled = td_sparse_settled(x), *checked = td_coo_places(settled);
        return checked ? compress(settled, layout, r.blocks, (td_dtype)td_sparse_of(like)->indices->dtype) : NULL;
    }
    return to_compressed(x, layout, td_is_blocked(layout) ? 2 : -1, r.blocks, &(int64_t){td_sparse_of(like)->dense_dim});
}

/* ---- indices alone */

/* Where each row would be inserted in the sorted rows is where it begins: one binary search per row. */
td_tensor *td_op__convert_indices_from_coo_to_csr(td_tensor *self, int64_t size, bool out_int32)
{
    if (self->ndim != 1)
        return td_fail(TD_E_RUNTIME, "_convert_indices_from_coo_to_csr: Input is supposed to be a vector, but got %d dimensional tensor",
                       (int)self->ndim);
    if (size < 0)
        return td_fail(TD_E_RUNTIME, "_convert_indices_from_coo_to_csr: the number of rows must not be negative, got %" PRId64, size);
    TD_AUTO td_tensor *all = td_arange(td_int(td_add_saturated(size, 1)), (td_dtype)self->dtype, TD_DEVICE_NONE);
    return td_searchsorted_tensor(self, all, out_int32, false, NULL, TD_NONE);
}

td_tensor *td_op__convert_indices_from_csr_to_coo(td_tensor *crow, td_tensor *col, bool out_int32, bool transpose)
{
    if (crow->ndim != 1 || col->ndim != 1 || crow->numel < 1)
        return td_fail(TD_E_RUNTIME, "_convert_indices_from_csr_to_coo: expected vectors of compressed and plain indices");
    TD_AUTO td_tensor *next = td_narrow(crow, 0, 1, crow->numel - 1), *now = td_narrow(crow, 0, 0, crow->numel - 1);
    TD_AUTO td_tensor *counts = td_minus(next, now), *line = td_repeat_interleave_tensor(counts, NULL);
    if (line && line->numel != col->numel)
        return td_fail(TD_E_RUNTIME, "compressed indices must end at the number of values, %" PRId64, col->numel);
    TD_AUTO td_tensor *row = td_to(line, out_int32 ? TD_I32 : TD_I64), *column = td_to(col, out_int32 ? TD_I32 : TD_I64);
    return row && column ? td_stack(2, transpose ? (td_tensor *[]){column, row} : (td_tensor *[]){row, column}, 0) : NULL;
}
