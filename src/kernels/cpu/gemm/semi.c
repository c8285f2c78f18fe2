/* The product of a 2:4 matrix with a strided one, and the matrix made whole: checks, dtypes and threads. */
#include "calls_kernels_cpu_gemm_semi.h"
#include <tede/auto.h>
#include "kernels/cpu/gemm/semi.h"
#include "tensor/tensor.h"

/* Halves are computed in float and rounded once.  A strip's sums lie apart from the result, whose rows are longer. */
int td_cpu__semi_structured_product(td_tensor *packed, td_tensor *meta, td_tensor *dense, td_tensor *out)
{
    if (out->dtype != TD_F32 && out->dtype != TD_F16 && out->dtype != TD_BF16)
        return td_error(TD_E_NOT_IMPLEMENTED, "\"_sparse_semi_structured_mm\" not implemented for '%s'", td_dtype_title((td_dtype)out->dtype));
    const td_semi_table *table = TD_ISA_PICK(td_semi_table);
    const int64_t rows = out->sizes[0], columns = out->sizes[1], inner = dense->sizes[0], lanes = table->lanes;
    const int64_t width = columns > 2 * lanes ? 4 * lanes : columns > lanes ? 2 * lanes : lanes;
    TD_AUTO td_tensor *v = td_as_contiguous(packed, TD_F32), *m = td_as_contiguous(meta, TD_I16);
    TD_AUTO td_tensor *d = dense->dtype == TD_F32 ? td_tensor_retain(dense) : td_as_contiguous(dense, TD_F32);
    TD_AUTO td_tensor *strip = td_tensor_new(2, (int64_t[]){inner, width}, TD_F32, out->device);
    TD_AUTO td_tensor *sums = td_tensor_new(2, (int64_t[]){rows, width}, TD_F32, out->device);
    TD_AUTO td_tensor *to = td_writable(out, TD_F32);
    if (!v || !m || !d || !strip || !sums || !to)
        return -1;
    td_semi_product p = {(const float *)v->data, NULL, (const int16_t *)m->data, (float *)strip->data, (float *)sums->data, inner, 0, width,
                         d->strides[0], d->strides[1]};
    for (int64_t column = 0; column < columns && rows; column += width) {
        p.columns = columns - column < width ? columns - column : width;
        p.dense = (const float *)d->data + column * p.column_step;
        if (!inner)
            memset(p.out, 0, sizeof(float) * (size_t)sums->numel);
        td_parallel_for(0, inner, 1 + 32768 / width, table->pack, &p);
        td_parallel_for(0, rows, 8 + 65536 / (inner / 2 * width + 1), table->product, &p);
        for (int64_t i = 0; i < rows; i++)
            memcpy((float *)to->data + i * columns + column, p.out + i * width, sizeof(float) * (size_t)p.columns);
    }
    return td_write_back(out, to);
}

#define UNPACK(T)                                                                                                          \
    do {                                                                                                                   \
        T *to = (T *)whole->data;                                                                                          \
        const T *from = (const T *)v->data;                                                                                \
        for (int64_t k = 0; k < v->numel; k++)                                                                             \
            to[k / 2 * 4 + (at[k / 8] >> 2 * (k % 8) & 3)] = from[k];                                                      \
    } while (0)

int td_cpu__semi_structured_to_dense(td_tensor *packed, td_tensor *meta, td_tensor *out)
{
    TD_AUTO td_tensor *v = td_make_contiguous(packed), *m = td_as_contiguous(meta, TD_I16), *whole = td_writable(out, (td_dtype)out->dtype);
    if (!v || !m || !whole)
        return -1;
    const int16_t *at = (const int16_t *)m->data;
    const int size = td_dtype_size((td_dtype)out->dtype);
    memset(whole->data, 0, (size_t)whole->numel * (size_t)size);
    if (size == 1)
        UNPACK(uint8_t);
    else if (size == 2)
        UNPACK(uint16_t);
    else
        UNPACK(uint32_t);
    return td_write_back(out, whole);
}
