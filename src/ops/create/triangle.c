/* Triangles of matrices (tril, triu), and their indices (tril_indices, triu_indices).
 *
 * In a row, what is kept is one range of columns, so each row is at most a memset, a memcpy and a memset: the speed is that of
 * memory. */

#include "calls_ops_create_triangle.h"
#include <string.h>
#include <tede/kernel.h>
#include "device/device.h"
#include "ops/create/create.h"
#include "ops/iterate/iterator.h"
#include "ops/reduce/reduce.h"
#include "tensor/checked.h"

static int meta_triangle(const char *op, td_spec *spec, td_tensor *self)
{
    if (self->ndim < 2)
        return td_error(TD_E_RUNTIME, "%s: input tensor must have at least 2 dimensions", op);
    return td_spec_like(spec, self);
}
int td_meta_tril(td_spec *specs, td_tensor *self, int64_t diagonal)
{
    (void)diagonal;
    return meta_triangle("tril", specs, self);
}
int td_meta_triu(td_spec *specs, td_tensor *self, int64_t diagonal)
{
    (void)diagonal;
    return meta_triangle("triu", specs, self);
}

static int64_t within(int64_t x, int64_t n) { return x < 0 ? 0 : x > n ? n : x; }

/* Rows of contiguous matrices, all batches together: row i is row i % rows of its matrix. */
typedef struct job {
    char       *to;
    const char *from;       /* `to`, where the elements are there already */
    int64_t     rows, row_bytes, cols, item, diagonal;
    bool        upper;
} job;

static void some_rows(void *context, int64_t begin, int64_t end)
{
    const job *j = context;
    for (int64_t i = begin; i < end; i++) {
        char *to = j->to + i * j->row_bytes;
        const char *from = j->from + i * j->row_bytes;
        const int64_t edge = within(i % j->rows + j->diagonal + !j->upper, j->cols) * j->item;
        const int64_t first = j->upper ? edge : 0, last = j->upper ? j->row_bytes : edge;      /* of what is kept */
        memset(to, 0, (size_t)first);
        if (to != from)
            memcpy(to + first, from + first, (size_t)(last - first));
        memset(to + last, 0, (size_t)(j->row_bytes - last));
    }
}

/* Into `out`, which is contiguous and may be self.  An operand that lies otherwise is copied there first and cleared in place.  The
 * diagonal is cut to [-rows, cols], beyond which nothing changes, so that row + diagonal can't overflow. */
static int triangle(td_tensor *self, int64_t diagonal, bool upper, td_tensor *out)
{
    const bool together = td_tensor_is_contiguous(self) && self->dtype == out->dtype &&
                          !((self->flags ^ out->flags) & (TD_FLAG_CONJ | TD_FLAG_NEG));
    if (!together && td_copy_elements(out, self))
        return -1;
    if (out->numel == 0)
        return 0;
    const int64_t rows = out->sizes[out->ndim - 2], cols = out->sizes[out->ndim - 1], item = td_itemsize(out);
    if (out->device.type != TD_CPU)
        return td_triangle_on_device(together ? self : out, out, diagonal < -rows ? -rows : diagonal > cols ? cols : diagonal, upper);
    job j = {.to = out->data, .from = together ? self->data : out->data, .rows = rows, .row_bytes = cols * item, .cols = cols,
             .item = item, .diagonal = diagonal < -rows ? -rows : diagonal > cols ? cols : diagonal, .upper = upper};
    td_parallel_for(0, out->numel / cols, TD_THREAD_WORK / cols + 1, some_rows, &j);
    return 0;
}
int td_cpu_tril(td_tensor *self, int64_t diagonal, td_tensor *out0) { return triangle(self, diagonal, false, out0); }
int td_cpu_triu(td_tensor *self, int64_t diagonal, td_tensor *out0) { return triangle(self, diagonal, true, out0); }

/* ---- in place: zeros where nothing is kept, which may be done to expanded matrices */

/* Whether PyTorch writes to the matrices where they are: one batch of any strides, which may be 0 in the first dimension, or several
 * dimensions of batches that follow each other. */
static bool written_in_place(const td_tensor *x)
{
    int64_t step = x->sizes[x->ndim - 1] * x->sizes[x->ndim - 2];
    for (int d = x->ndim - 3; d >= 0 && x->ndim > 3; d--) {
        if (d == 0 && (x->strides[d] == 0 || x->sizes[d] == 1))
            continue;
        if (x->strides[d] != step)
            return false;
        step *= x->sizes[d];
    }
    return true;
}

/* Element by element, since rows of any strides have no range of memory.  Writing 0 twice is harmless where elements share it. */
static void clear_matrix(const td_tensor *x, char *at, int64_t diagonal, bool upper)
{
    const int64_t rows = x->sizes[x->ndim - 2], cols = x->sizes[x->ndim - 1], item = td_itemsize(x);
    const int64_t down = x->strides[x->ndim - 2] * item, right = x->strides[x->ndim - 1] * item;
    for (int64_t i = 0; i < rows; i++) {
        const int64_t edge = within(i + diagonal + !upper, cols), last = upper ? edge : cols;
        for (int64_t j = upper ? 0 : edge; j < last; j++)
            memset(at + i * down + j * right, 0, (size_t)item);
    }
}

/* tril_ and triu_.  On meta there is nothing to clear, but the checks are the same. */
static int triangle_in_place(const char *op, td_tensor *self, int64_t diagonal, bool upper)
{
    td_spec spec;
    if (meta_triangle(op, &spec, self))
        return -1;
    const int64_t rows = self->sizes[self->ndim - 2], cols = self->sizes[self->ndim - 1];
    if (self->numel == 0 || self->device.type == TD_META)
        return 0;
    diagonal = diagonal < -rows ? -rows : diagonal > cols ? cols : diagonal;
    if (td_tensor_is_contiguous(self))
        return triangle(self, diagonal, upper, self);
    if (!written_in_place(self) && td_check_overlap(op, self, 0, NULL))
        return -1;
    if (self->device.type != TD_CPU) {
        TD_AUTO td_tensor *own = td_make_contiguous(self);
        return own && !td_triangle_on_device(own, own, diagonal, upper) ? td_copy_elements(self, own) : -1;
    }
    for (int64_t b = 0; b < self->numel / (rows * cols); b++) {
        char *at = self->data;
        for (int64_t d = self->ndim - 3, rest = b; d >= 0; rest /= self->sizes[d--])
            at += rest % self->sizes[d] * self->strides[d] * td_itemsize(self);
        clear_matrix(self, at, diagonal, upper);
    }
    return 0;
}
int td_op_tril_(td_tensor *self, int64_t diagonal) { return triangle_in_place("tril", self, diagonal, false); }
int td_op_triu_(td_tensor *self, int64_t diagonal) { return triangle_in_place("triu", self, diagonal, true); }

/* Elements of a rows x cols matrix left of the diagonal that begins at column `first` of row 0, itself not included, all rows
 * together.  A row has r + first of them, cut off at 0 and at cols. */
static __int128 count_left(int64_t rows, int64_t cols, int64_t first)
{
    const __int128 begin = within(-first, rows), full = within(td_sub_saturated(cols, first), rows);      /* of the rows that are cut by the diagonal */
    return (full - begin) * (begin + full - 1 + 2 * (__int128)first) / 2 + (rows - full) * cols;
}

/* Counted in closed form before anything is allocated: a result on meta needs only the count, and one too large for memory fails
 * there.  128 bits hold rows x cols. */
static td_tensor *indices(const char *op, int64_t rows, int64_t cols, int64_t offset, bool upper, td_dtype dtype,
                          td_device device)
{
    if (rows < 0 || cols < 0)
        return td_fail(TD_E_RUNTIME, "%s: %s must be non-negative, got%s", op, rows < 0 ? "row" : "col", rows < 0 ? " row" : " col");
    if (dtype != TD_DTYPE_NONE && dtype != TD_I32 && dtype != TD_I64)
        return td_fail(TD_E_NOT_IMPLEMENTED, "\"%s\" not implemented for '%s'", op, td_dtype_title(dtype));
    offset = offset < -rows ? -rows : offset > cols - !upper ? cols - !upper : offset;
    td_dtype kind = dtype == TD_DTYPE_NONE ? TD_I64 : dtype;
    const __int128 all = upper ? (__int128)rows * cols - count_left(rows, cols, offset) : count_left(rows, cols, offset + 1);
    const int64_t count = all < INT64_MAX ? (int64_t)all : INT64_MAX;
    if (device.type == TD_META)
        return td_tensor_new(2, (int64_t[]){2, count}, kind, device);
    if (td_is_outside(device)) {
        TD_AUTO td_tensor *there = td_tensor_new(2, (int64_t[]){2, count}, kind, device);
        return there && !td_triangle_indices_on_device(there, rows, cols, offset, upper) ? td_tensor_retain(there) : NULL;
    }
    TD_AUTO td_tensor *out = td_tensor_new(2, (int64_t[]){2, count}, TD_I64, (td_device){TD_CPU, -1});
    if (!out || !count)
        return out ? td_as_contiguous(out, kind) : NULL;
    /* Rows without any are left out: there may be more of them than a loop gets through. */
    const int64_t first = upper ? 0 : within(-offset, rows), last = upper && offset > cols - rows ? cols - offset : rows;
    int64_t *row = (int64_t *)out->data, *col = row + count;
    for (int64_t r = first; r < last; r++) {
        int64_t from = upper ? within(r + offset, cols) : 0, to = upper ? cols : within(r + offset + 1, cols);
        for (int64_t c = from; c < to; c++)
            *row++ = r, *col++ = c;
    }
    return kind == TD_I64 ? td_tensor_retain(out) : td_as_contiguous(out, kind);
}
td_tensor *td_op_tril_indices(int64_t row, int64_t col, int64_t offset, td_dtype dtype, td_device device)
{
    return indices("tril_indices", row, col, offset, false, dtype, device);
}
td_tensor *td_op_triu_indices(int64_t row, int64_t col, int64_t offset, td_dtype dtype, td_device device)
{
    return indices("triu_indices", row, col, offset, true, dtype, device);
}
