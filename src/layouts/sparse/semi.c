/* Semi-structured matrices (2:4): packed by two of every four elements of a row, with where they are in 16-bit words. */
#include "calls_layouts_sparse_semi.h"
#include "ops/compose.h"
#include <tede/kernel.h>

#include <inttypes.h>

static int check_parts(const char *op, const td_tensor *packed, const td_tensor *meta)
{
    if (packed->ndim != 2 || meta->ndim != 2 || packed->sizes[0] != meta->sizes[0] || packed->sizes[1] != 8 * meta->sizes[1] || meta->dtype != TD_I16)
        return td_error(TD_E_RUNTIME, "%s: packed is a matrix, and meta one of int16 with an eighth of its columns", op);
    const td_dtype t = (td_dtype)packed->dtype;
    return t == TD_F32 || t == TD_F16 || t == TD_BF16 || t == TD_I8 ? 0 : td_error(TD_E_NOT_IMPLEMENTED, "\"%s\" not implemented for '%s'", op,
                                                                                    td_dtype_title(t));
}

int td_meta__semi_structured_product(td_spec *specs, td_tensor *packed, td_tensor *meta, td_tensor *dense)
{
    if (check_parts("_sparse_semi_structured_mm", packed, meta))
        return -1;
    if (dense->ndim != 2 || dense->sizes[0] != 2 * packed->sizes[1] || dense->dtype != packed->dtype)
        return td_error(TD_E_RUNTIME, "_sparse_semi_structured_mm: mat1 and mat2 shapes cannot be multiplied (%" PRId64 "x%" PRId64 " and a matrix of %" PRId64
                        " rows), or have two dtypes", packed->sizes[0], 2 * packed->sizes[1], dense->ndim ? dense->sizes[0] : 0);
    return td_spec_set(specs, 2, (int64_t[]){packed->sizes[0], dense->sizes[1]}, (td_dtype)dense->dtype, dense->device);
}

int td_meta__semi_structured_to_dense(td_spec *specs, td_tensor *packed, td_tensor *meta)
{
    if (check_parts("_semi_structured_to_dense", packed, meta))
        return -1;
    return td_spec_set(specs, 2, (int64_t[]){packed->sizes[0], 2 * packed->sizes[1]}, (td_dtype)packed->dtype, packed->device);
}

/* Two places of a group's nonzero elements, in order; where there are fewer, zeros fill up.  -1 if there are three. */
static int places(const bool *kept)
{
    int found[4], n = 0;
    for (int i = 0; i < 4; i++)
        if (kept[i])
            found[n++] = i;
    for (int i = 0; i < 4 && n < 2; i++)
        if (!kept[i])
            found[n++] = i;
    if (n > 2)
        return -1;
    const int first = found[0] < found[1] ? found[0] : found[1], second = found[0] + found[1] - first;
    return first | second << 2;
}

int td_op__to_sparse_semi_structured(td_tensor **results, td_tensor *dense)
{
    const td_dtype t = (td_dtype)dense->dtype;
    if (dense->ndim != 2 || dense->sizes[1] % 16)
        return td_error(TD_E_RUNTIME, "_to_sparse_semi_structured: expected a matrix whose number of columns is a multiple of 16");
    if (t != TD_F32 && t != TD_F16 && t != TD_BF16 && t != TD_I8)
        return td_error(TD_E_NOT_IMPLEMENTED, "\"_to_sparse_semi_structured\" not implemented for '%s'", td_dtype_title(t));
    const int64_t rows = dense->sizes[0], columns = dense->sizes[1], groups = rows * columns / 4;
    TD_AUTO td_tensor *nonzero = td_ne_scalar(dense, td_int(0)), *kept = nonzero ? td_as_contiguous(nonzero, TD_BOOL) : NULL;
    TD_AUTO td_tensor *meta = td_zeros(2, (int64_t[]){rows, columns / 16}, TD_I16, TD_DEVICE_NONE);
    TD_AUTO td_tensor *at = td_empty(2, (int64_t[]){rows, columns / 2}, TD_I64);
    if (!kept || !meta || !at)
        return -1;
    const bool *k = (const bool *)kept->data;
    for (int64_t g = 0; g < groups; g++) {
        const int two = places(k + 4 * g);
        if (two < 0)
            return td_error(TD_E_RUNTIME, "_to_sparse_semi_structured: row %" PRId64 " has more than two nonzero elements among columns %" PRId64 " to %" PRId64,
                            4 * g / columns, 4 * g % columns, 4 * g % columns + 3);
        ((int16_t *)meta->data)[g / 4] = (int16_t)(((int16_t *)meta->data)[g / 4] | two << 4 * (g % 4));
        ((int64_t *)at->data)[2 * g] = 4 * g % columns + (two & 3), ((int64_t *)at->data)[2 * g + 1] = 4 * g % columns + (two >> 2);
    }
    TD_AUTO td_tensor *packed = td_gather(dense, 1, at, false);
    results[0] = td_ref(packed), results[1] = packed ? td_ref(meta) : NULL;
    return packed ? 0 : -1;
}

td_tensor *td_op__sparse_semi_structured_mm(td_tensor *mat1, td_tensor *mat1_meta, td_tensor *mat2, td_dtype out_dtype)
{
    TD_AUTO td_tensor *product = td__semi_structured_product(mat1, mat1_meta, mat2);
    return out_dtype == TD_DTYPE_NONE ? td_ref(product) : td_to_dtype(product, out_dtype, false, false, TD_MEMORY_FORMAT_NONE);
}

/* (W x^T)^T: the strided operand is read along its columns. */
td_tensor *td_op__sparse_semi_structured_linear(td_tensor *input, td_tensor *weight, td_tensor *meta, td_tensor *bias, const char *activation,
                                                td_dtype out_dtype)
{
    int64_t sizes[TD_MAX_DIMS];
    if (input->ndim < 1 || input->sizes[input->ndim - 1] != 2 * weight->sizes[weight->ndim - 1])
        return td_fail(TD_E_RUNTIME, "_sparse_semi_structured_linear: the input's last dimension isn't the weight's");
    if (activation && strcmp(activation, "relu") && strcmp(activation, "silu"))
        return td_fail(TD_E_RUNTIME, "_sparse_semi_structured_linear: activation is relu or silu, not %s", activation);
    memcpy(sizes, input->sizes, sizeof *sizes * input->ndim);
    sizes[input->ndim - 1] = weight->sizes[0];
    TD_AUTO td_tensor *rows = td_reshape(input, 2, (int64_t[]){-1, input->sizes[input->ndim - 1]}), *columns = td_transpose_int(rows, 0, 1);
    TD_AUTO td_tensor *product = td__sparse_semi_structured_mm(weight, meta, columns, out_dtype), *across = td_transpose_int(product, 0, 1);
    TD_AUTO td_tensor *sum = td_sum_of(across, bias), *packed = td_reshape(sum, input->ndim, sizes), *out = td_contiguous(packed);
    return !activation ? td_ref(out) : !strcmp(activation, "relu") ? td_relu(out) : td_silu(out);
}
