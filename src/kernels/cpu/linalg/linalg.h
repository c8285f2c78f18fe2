/* What the files that call LAPACK share: batches of matrices in rows or in columns, and work space.
 *
 * Rows: row-major, as contiguous tensors are.  Columns: column-major, as LAPACK reads them; to it a matrix in rows is its
 * transpose.  Work space is a tensor, so that TD_AUTO frees it and a lack of memory is an error like any other. */
#ifndef TD_KERNELS_CPU_LINALG_LINALG_H
#define TD_KERNELS_CPU_LINALG_LINALG_H
#include <tede/auto.h>
#include <tede/kernel.h>
#include "libs/lapack.h"
#include "ops/linalg/linalg.h"

/* `count` matrices, `stride` bytes apart.  For a tensor from td_columns() `rows` counts the columns of the matrices. */
typedef struct batch { int64_t count, stride; int rows, columns; size_t item; } batch;

static inline batch batch_of(const td_tensor *x)
{
    batch b = {1, 0, (int)x->sizes[x->ndim - 2], (int)x->sizes[x->ndim - 1], td_dtype_size((td_dtype)x->dtype)};
    for (int d = 0; d < x->ndim - 2; d++)
        b.count *= x->sizes[d];
    b.stride = (int64_t)b.rows * b.columns * (int64_t)b.item;
    return b;
}
/* The end of a factorization: its status, and what info reports if `check` is set. */
static inline int td_checked(int status, bool check, td_factorization what, const char *op, td_tensor *info)
{
    return status || (check && td_check_info(what, op, info)) ? -1 : 0;
}
static inline int at_least_one(int n) { return n > 0 ? n : 1; }

/* x's matrices in columns: a contiguous tensor of their transposes. */
static inline td_tensor *td_columns(td_tensor *x)
{
    TD_AUTO td_tensor *transposed = td_transpose_int(x, -2, -1);
    td_tensor *copy = transposed ? td_tensor_new(transposed->ndim, transposed->sizes, (td_dtype)x->dtype, x->device) : NULL;
    if (copy && td_copy_elements(copy, transposed)) {
        td_tensor_release(copy);
        return NULL;
    }
    return copy;
}
static inline int from_columns(td_tensor *out, td_tensor *columns)
{
    TD_AUTO td_tensor *transposed = td_transpose_int(columns, -2, -1);
    return transposed ? td_copy_elements(out, transposed) : -1;
}
/* x's matrices in rows, `sizes` of the batch being those of `like`. */
static inline td_tensor *td_rows(td_tensor *x)
{
    td_tensor *copy = td_tensor_new(x->ndim, x->sizes, (td_dtype)x->dtype, x->device);
    if (copy && td_copy_elements(copy, x)) {
        td_tensor_release(copy);
        return NULL;
    }
    return copy;
}
/* x, whose last `tail` dimensions are no batch, with the batch of the matrices `out`, without a copy. */
static inline td_tensor *with_batch(td_tensor *x, const td_tensor *out, int tail)
{
    int64_t sizes[TD_MAX_DIMS];
    const int lead = out->ndim - 2;
    memcpy(sizes, out->sizes, sizeof *sizes * lead);
    memcpy(sizes + lead, x->sizes + x->ndim - tail, sizeof *sizes * tail);
    return td_expand(x, lead + tail, sizes);
}

/* Pivots likewise, as LAPACK takes them. */
static inline td_tensor *pivots_with_batch(td_tensor *pivots, const td_tensor *out)
{
    TD_AUTO td_tensor *wide = with_batch(pivots, out, 1);
    return wide ? td_as_contiguous(wide, TD_I32) : NULL;
}

/* Work space: a query with lwork = -1 stores its size in the first element.  A float above 2^24 may have been rounded down, so it is
 * made larger by more than a rounding error. */
static inline int64_t answer(const void *work, td_dtype dtype)
{
    double n = dtype == TD_F32 || dtype == TD_C64 ? (double)*(const float *)work : *(const double *)work;
    return n < 1 ? 1 : (int64_t)(n * 1.0000002) + 1;
}
static inline td_tensor *space(int64_t n, td_dtype dtype) { return td_tensor_new(1, &n, dtype, (td_device){TD_CPU, -1}); }

#endif
