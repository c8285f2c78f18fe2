/* _scaled_mm: products of float8 matrices, computed in float32, with one scale for each operand or one for each row of the first and each column of
 * the second. */
#include "calls_ops_linalg_scaled.h"
#include <tede/kernel.h>
#include "ops/compose.h"

static bool has_numbers(const td_tensor *x) { return td_is_float8(x->dtype) && x->dtype != TD_F8_E8M0FNU; }     /* which is for scales */

/* A scale of m x n elements. */
static bool is_scale(const td_tensor *x, int64_t m, int64_t n)
{
    return td_tensor_is_contiguous(x) && x->ndim == 2 && x->sizes[0] == m && x->sizes[1] == n;
}

static int check(const td_tensor *a, const td_tensor *b, const td_tensor *scale_a, const td_tensor *scale_b, const td_tensor *bias, const td_tensor *scale_result)
{
    if (a->ndim != 2 || b->ndim != 2)
        return td_error(TD_E_RUNTIME, "%s must be a matrix", a->ndim != 2 ? "mat1" : "mat2");
    if (a->sizes[1] != b->sizes[0])
        return td_error(TD_E_RUNTIME, "mat1 and mat2 shapes cannot be multiplied (%lldx%lld and %lldx%lld)", (long long)a->sizes[0], (long long)a->sizes[1],
                        (long long)b->sizes[0], (long long)b->sizes[1]);
    const bool whole = scale_a->numel == 1 && scale_b->numel == 1;
    td_shape_text sizes_a, sizes_b, strides_a, strides_b;
    if (!has_numbers(a) || !has_numbers(b) || !td_dtype_is_floating((td_dtype)scale_a->dtype) || !td_dtype_is_floating((td_dtype)scale_b->dtype) ||
        !(whole || (is_scale(scale_a, a->sizes[0], 1) && is_scale(scale_b, 1, b->sizes[1]))))
        return td_error(TD_E_VALUE, "Invalid scaling configuration.\n- For TensorWise scaling, a and b should be float8, scales should be float and singletons.\n"
                        "- For RowWise scaling, a and b should be float8, scales should be float, scale_a should be (%lld, 1) and scale_b should be (1, %lld), "
                        "and both should be contiguous.\nGot mat_a.dtype()=%s, scale_a.dtype()=%s, scale_a.size()=%s, scale_a.stride()=%s, mat_b.dtype()=%s, "
                        "scale_b.dtype()=%s, scale_b.size()=%s and scale_b.stride()=%s", (long long)a->sizes[0], (long long)b->sizes[1],
                        td_dtype_title((td_dtype)a->dtype), td_dtype_title((td_dtype)scale_a->dtype), td_shape_str(scale_a->ndim, scale_a->sizes, sizes_a),
                        td_shape_str(scale_a->ndim, scale_a->strides, strides_a), td_dtype_title((td_dtype)b->dtype), td_dtype_title((td_dtype)scale_b->dtype),
                        td_shape_str(scale_b->ndim, scale_b->sizes, sizes_b), td_shape_str(scale_b->ndim, scale_b->strides, strides_b));
    if (bias != TD_NONE && bias->numel != b->sizes[1])
        return td_error(TD_E_RUNTIME, "Bias must be size %lld but got %lld", (long long)b->sizes[1], (long long)bias->numel);
    return scale_result != TD_NONE && (scale_result->numel != 1 || scale_result->dtype != TD_F32)
        ? td_error(TD_E_RUNTIME, "scale_result must be a float scalar") : 0;
}

/* use_fast_accum is about sums on tensor cores.  scale_result divides what is stored in 8 bits, and nothing else, as in PyTorch.  What is too large for 8 bits
 * becomes the largest number, as in conversions and in PyTorch's CUDA form (its CPU's makes NaN of it). */
td_tensor *td_op__scaled_mm(td_tensor *self, td_tensor *mat2, td_tensor *scale_a, td_tensor *scale_b, td_tensor *bias, td_tensor *scale_result, td_dtype out_dtype,
                            bool use_fast_accum)
{
    (void)use_fast_accum;
    if (check(self, mat2, scale_a, scale_b, bias, scale_result))
        return NULL;
    const td_dtype to = out_dtype == TD_DTYPE_NONE ? (td_dtype)self->dtype : out_dtype;
    TD_AUTO td_tensor *a = td_to(self, TD_F32), *b = td_to(mat2, TD_F32);
    TD_AUTO td_tensor *sa = td_to(scale_a, TD_F32), *sb = td_to(scale_b, TD_F32);
    TD_AUTO td_tensor *product = td_mm(a, b), *half = td_mul(product, sa), *scaled = td_mul(half, sb);
    /* One element of any shape is a number. */
    TD_AUTO td_tensor *flat = !scaled ? NULL : scaled->ndim == 2 ? td_ref(scaled) : td_reshape(scaled, 2, (int64_t[]){self->sizes[0], mat2->sizes[1]});
    TD_AUTO td_tensor *row = bias == TD_NONE ? td_ref(TD_NONE) : td_reshape(bias, 1, (int64_t[]){-1});
    TD_AUTO td_tensor *added = !flat || !row ? NULL : row == TD_NONE ? td_ref(flat) : td_add(flat, row);
    const bool divides = added && scale_result != TD_NONE && td_dtype_size(to) == 1 && td_dtype_is_floating(to);
    TD_AUTO td_tensor *result = !added ? NULL : divides ? td_div(added, scale_result) : td_ref(added);
    return result ? td_to(result, to) : NULL;
}
