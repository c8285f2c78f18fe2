/* Loops over the indices of sparse tensors.  All that comes from outside is checked against the sizes first. */
#include "calls_layouts_sparse_loops.h"
#include <inttypes.h>
#include <tede/auto.h>
#include <tede/kernel.h>
#include "tensor/tensor.h"

/* An element's position in row-major order, by Horner's rule over the dimensions: key = (i0 * size1 + i1) * size2 + i2
 * ... One dimension at a time, since indices lie dimension by dimension, so each pass streams through memory. No key
 * overflows: each index is less than its size, and the product of the sizes was found to fit. Comparing as unsigned
 * refuses negative indices, too; this check is what keeps every later use of a key within its memory. */
int td_cpu__coo_keys(td_tensor *indices, int64_t n, const int64_t *size, td_tensor *out)
{
    TD_AUTO td_tensor *x = td_make_contiguous(indices);
    if (!x)
        return -1;
    const int64_t *at = (const int64_t *)x->data, nnz = out->numel;
    int64_t *keys = (int64_t *)out->data, places = 1;
    memset(keys, 0, (size_t)nnz * sizeof *keys);
    for (int64_t d = 0; d < n; d++, at += nnz) {
        if (__builtin_mul_overflow(places, size[d], &places))
            return td_error(TD_E_RUNTIME, "a sparse tensor with more than 2^63 - 1 places for elements can't be sorted");
        for (int64_t i = 0; i < nnz; i++) {
            if ((uint64_t)at[i] >= (uint64_t)size[d])
                return td_error(TD_E_INDEX, "index %" PRId64 " is out of bounds for dimension %" PRId64 " of a sparse tensor with size %"
                                PRId64, at[i], d, size[d]);
            keys[i] = keys[i] * size[d] + at[i];
        }
    }
    return 0;
}

/* The inverse, from the last dimension on: remainder and quotient. The first dimension's size divides nothing away
 * that is valid; a size of 0 has no keys, and 1 in its stead keeps the division defined. */
int td_cpu__coo_unkeys(td_tensor *keys, int64_t n, const int64_t *size, td_tensor *out)
{
    TD_AUTO td_tensor *x = td_make_contiguous(keys), *rest = x ? td_tensor_new(1, x->sizes, TD_I64, x->device) : NULL;
    if (!rest)
        return -1;
    int64_t nnz = x->numel, *left = (int64_t *)rest->data;
    memcpy(left, x->data, (size_t)nnz * sizeof *left);
    for (int64_t d = n - 1; d >= 0; d--) {
        int64_t *to = (int64_t *)out->data + d * nnz, step = size[d] > 0 ? size[d] : 1;
        for (int64_t i = 0; i < nnz; i++) {
            to[i] = left[i] % step;
            left[i] /= step;
        }
    }
    return 0;
}

