/* The product of a matrix that is compressed by rows with a strided one: checks, dtypes and threads. */
#include "calls_kernels_cpu_gemm_csr.h"
#include <complex.h>
#include <inttypes.h>
#include <tede/auto.h>
#include "kernels/cpu/gemm/csr.h"
#include "tensor/tensor.h"

/* Those of float and double are kernels/cpu/gemm/csr_isa.c's; these are for the other dtypes, whose indices are checked before.
 * The inner loop runs along contiguous rows of both.  A row of the result has one thread and one order of additions, whatever the
 * number of threads. */
#define ROWS(name, T) \
    static void name(void *context, int64_t begin, int64_t end) \
    { \
        const td_csr_product *p = context; \
        const int64_t columns = p->columns; \
        for (int64_t i = begin; i < end; i++) { \
            T *to = (T *)p->out + i * columns; \
            for (int64_t j = 0; j < columns; j++) \
                to[j] = 0; \
            for (int64_t k = p->crow[i]; k < p->crow[i + 1]; k++) { \
                const T v = ((const T *)p->values)[k], *from = (const T *)p->dense + p->col[k] * columns; \
                _Pragma("omp simd") \
                for (int64_t j = 0; j < columns; j++) \
                    to[j] += v * from[j]; \
            } \
        } \
    }
ROWS(rows_c64, float _Complex)
ROWS(rows_c128, double _Complex)
ROWS(rows_u8, uint8_t)
ROWS(rows_i8, int8_t)
ROWS(rows_i16, int16_t)
ROWS(rows_i32, int32_t)
ROWS(rows_i64, int64_t)

static td_loop_body *const rows_of[TD_DTYPES] = {
    [TD_C64] = rows_c64, [TD_C128] = rows_c128, [TD_U8] = rows_u8, [TD_I8] = rows_i8, [TD_I16] = rows_i16, [TD_I32] = rows_i32,
    [TD_I64] = rows_i64,
};

static int check_columns(const td_csr_product *p, int64_t nnz)
{
    for (int64_t k = 0; k < nnz; k++)
        if ((uint64_t)p->col[k] >= (uint64_t)p->inner)
            return td_error(TD_E_INDEX, "addmm: index out of column bound: %" PRId64 " not between 1 and %" PRId64, p->col[k], p->inner);
    return 0;
}

/* All compressed and plain indices are checked, for a CSR tensor may be made unchecked. Halves are
 * computed in float and rounded once. A thread gets rows of about 32768 multiplications or more, by the mean length
 * of a row; uneven rows are not balanced further. */
int td_cpu__csr_product(td_tensor *crow, td_tensor *col, td_tensor *values, td_tensor *dense, td_tensor *out)
{
    bool half = out->dtype == TD_F16 || out->dtype == TD_BF16;
    td_dtype dtype = half ? TD_F32 : (td_dtype)out->dtype;
    const td_csr_table *table = TD_ISA_PICK(td_csr_table);
    td_loop_body *body = dtype == TD_F32 ? table->f32 : dtype == TD_F64 ? table->f64 : rows_of[dtype];
    if (!body)
        return td_error(TD_E_NOT_IMPLEMENTED, "\"addmm_sparse_dense\" not implemented for '%s'", td_dtype_title(dtype));
    TD_AUTO td_tensor *c = td_as_contiguous(crow, TD_I64), *j = td_as_contiguous(col, TD_I64);
    TD_AUTO td_tensor *v = td_as_contiguous(values, dtype), *d = td_as_contiguous(dense, dtype);
    TD_AUTO td_tensor *to = half ? td_tensor_new(2, out->sizes, TD_F32, out->device) : td_tensor_retain(out);
    if (!c || !j || !v || !d || !to)
        return -1;
    const int64_t *begins = (const int64_t *)c->data, *at = (const int64_t *)j->data, rows = out->sizes[0], nnz = v->numel;
    for (int64_t i = 0; i < rows; i++)
        if (begins[i] < 0 || begins[i] > begins[i + 1] || begins[i + 1] > nnz)
            return td_error(TD_E_INDEX, "compressed indices must not decrease, nor go beyond the number of values");
    td_csr_product p = {begins, at, v->data, d->data, to->data, d->sizes[0], d->sizes[1], false};
    int64_t work = rows ? nnz / rows * p.columns + 1 : 1;
    const bool checks = body != rows_of[dtype];         /* as it goes */
    if (!checks && check_columns(&p, nnz))
        return -1;
    td_parallel_for(0, rows, 1 + 32768 / work, body, &p);
    if (p.outside)
        return check_columns(&p, nnz);
    return half ? td_copy_elements(out, to) : 0;
}
