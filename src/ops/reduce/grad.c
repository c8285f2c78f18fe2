/* Gradients (vector-Jacobian products) of reductions: what the `grad:` of their entries in ops/reduce.yaml calls. All are
 * made of differentiable operators, so they have gradients themselves. For complex operands the factor of grad is
 * conjugated, PyTorch's convention.
 *
 * `grad` has the result's shape; the first step is always to restore the reduced dimensions with size 1, after which
 * broadcasting gives each element its result's gradient. */

#include "calls_ops_reduce_grad.h"
#include <inttypes.h>
#include <math.h>
#include "dispatch/outputs.h"
#include "ops/compose.h"
#include "ops/reduce/reduce.h"

/* The dimensions that a reduction of a tensor of `ndim` dimensions removed, restored with size 1; an empty or absent list
 * stands for all of them. Dimensions are added from the first to the last, so each index is right when it is used. */
td_tensor *td_op_restore_dims(td_tensor *self, int64_t ndim, int64_t n_dim, const int64_t *dim, bool keepdim)
{
    if (keepdim || ndim == 0)
        return td_tensor_retain(self);
    if (ndim < 0 || ndim > TD_MAX_DIMS)
        return td_fail(TD_E_RUNTIME, "restore_dims: tensors have at most %d dimensions, not %" PRId64, TD_MAX_DIMS, ndim);
    bool gone[TD_MAX_DIMS] = {false};
    for (int64_t i = 0; i < n_dim; i++) {
        int d = td_wrap_dim(dim[i], (int)ndim);
        if (d < 0)
            return NULL;
        gone[d] = true;
    }
    td_tensor *x = td_tensor_retain(self);
    for (int d = 0; d < ndim && x; d++)
        if (gone[d] || n_dim <= 0) {
            td_tensor *next = td_unsqueeze(x, d);
            td_tensor_release(x);
            x = next;
        }
    return x;
}

static int64_t count_of(int64_t n_shape, const int64_t *shape, int64_t n_dim, const int64_t *dim)
{
    int64_t count = 1;
    if (n_dim <= 0)
        for (int64_t d = 0; d < n_shape; d++)
            count *= shape[d];
    for (int64_t i = 0; i < n_dim; i++) {
        int64_t d = dim[i] < 0 ? dim[i] + n_shape : dim[i];
        count *= d >= 0 && d < n_shape ? shape[d] : 1;      /* the reductions beside this refuse a dimension that isn't there */
    }
    return count;
}

/* d sum / d x[i] = 1: grad, expanded without copying. `dtype` is self's: the sum may have been made in a wider one. */
td_tensor *td_op_sum_backward(td_tensor *grad, int64_t n_shape, const int64_t *shape, int64_t n_dim, const int64_t *dim,
                              bool keepdim, td_dtype dtype)
{
    TD_AUTO td_tensor *whole = n_dim <= 0 && grad->ndim == 0 ? td_tensor_retain(grad)
                                                             : td_restore_dims(grad, n_shape, n_dim, dim, keepdim);
    TD_AUTO td_tensor *cast = whole && whole->dtype != (int8_t)dtype ? td_to(whole, dtype) : td_tensor_retain(whole);
    return td_expand(cast, n_shape, shape);
}

td_tensor *td_op_mean_backward(td_tensor *grad, int64_t n_shape, const int64_t *shape, int64_t n_dim, const int64_t *dim,
                               bool keepdim, td_dtype dtype)
{
    TD_AUTO td_tensor *shared = td_mul_number(grad, 1 / (double)count_of(n_shape, shape, n_dim, dim));
    return td_sum_backward(shared, n_shape, shape, n_dim, dim, keepdim, dtype);
}

/* ---- products */

static td_tensor *reversed(td_tensor *x, int64_t dim) { return td_slice_tensor(x, dim, NULL, NULL, -1); }

td_tensor *td_product_before(td_tensor *x, int64_t dim)
{
    if (!x)
        return NULL;
    int64_t n = x->sizes[dim];
    TD_AUTO td_tensor *first = td_narrow(x, dim, 0, 1);
    TD_AUTO td_tensor *one = td_ones_like(first);
    TD_AUTO td_tensor *front = td_narrow(x, dim, 0, n - 1);
    TD_AUTO td_tensor *products = td_cumprod(front, dim, TD_DTYPE_NONE);
    return one && products ? td_cat(2, (td_tensor *[]){one, products}, dim) : NULL;
}

/* The product of all elements but one for each element, without division: prefix products times suffix products, the latter
 * as prefix products of the reversed tensor. */
static td_tensor *product_of_others(td_tensor *x, int64_t dim)
{
    TD_AUTO td_tensor *before = td_product_before(x, dim);
    TD_AUTO td_tensor *backwards = reversed(x, dim);
    TD_AUTO td_tensor *behind = backwards ? td_product_before(backwards, dim) : NULL;
    TD_AUTO td_tensor *after = behind ? reversed(behind, dim) : NULL;
    return td_mul(before, after);
}

int td_may_have_zeros(td_tensor *x, bool *answer)
{
    td_scalar value = td_bool(x->device.type == TD_META);
    if (!td_hides_values(x)) {
        TD_AUTO td_tensor *all = td_all_all(x);
        if (!all || td_tensor_item(all, &value))
            return -1;
    }
    *answer = !td_scalar_bool(value);
    return 0;
}

/* d prod / d x[i] = the product of the others = prod / x[i], if no element is 0; product_of_others if one is. */
td_tensor *td_op_prod_backward(td_tensor *grad, td_tensor *self, td_tensor *result, const int64_t *dim, bool keepdim)
{
    TD_AUTO td_tensor *x = self->dtype == grad->dtype ? td_tensor_retain(self) : td_to(self, (td_dtype)grad->dtype);
    if (!x || self->ndim == 0)
        return x ? td_tensor_retain(grad) : NULL;
    if (self->numel == 0) {
        TD_AUTO td_tensor *wide = td_restore_dims(grad, self->ndim, dim ? 1 : -1, dim, keepdim);
        TD_AUTO td_tensor *none = td_conj(x);
        return td_mul(wide, none);      /* a result that depends on self, for second gradients */
    }
    bool zeros;
    if (td_may_have_zeros(self, &zeros))
        return NULL;
    TD_AUTO td_tensor *whole = td_restore_dims(grad, self->ndim, dim ? 1 : -1, dim, keepdim);
    TD_AUTO td_tensor *others = NULL;
    if (!zeros) {
        TD_AUTO td_tensor *product = td_restore_dims(result, self->ndim, dim ? 1 : -1, dim, keepdim);
        others = td_div(product, x);
    } else if (dim) {
        const int d = td_wrap_dim(*dim, self->ndim);
        others = d < 0 ? NULL : product_of_others(x, d);
    } else {
        TD_AUTO td_tensor *flat = td_reshape(x, 1, (int64_t[]){-1});
        TD_AUTO td_tensor *each = flat ? product_of_others(flat, 0) : NULL;
        others = td_reshape(each, self->ndim, self->sizes);
    }
    TD_AUTO td_tensor *conjugate = td_conj(others);
    return td_mul(whole, conjugate);
}

/* ---- extremes */

/* Which elements are the extreme. Over everything, a NaN result is taken to come from the NaN among the elements; along
 * dimensions such a row has no element that equals it, as in PyTorch. */
static td_tensor *mask_of(td_tensor *self, td_tensor *result, int64_t n_dim, const int64_t *dim, bool keepdim)
{
    TD_AUTO td_tensor *extreme = td_restore_dims(result, self->ndim, n_dim, dim, keepdim);
    TD_AUTO td_tensor *equal = td_eq(self, extreme);
    if (n_dim >= 0)                 /* amax and amin of NaN have no element that equals it, as in PyTorch */
        return td_tensor_retain(equal);
    TD_AUTO td_tensor *nan = td_isnan(self);
    TD_AUTO td_tensor *result_nan = td_isnan(extreme);
    TD_AUTO td_tensor *both = td_logical_and(nan, result_nan);
    return td_logical_or(equal, both);
}

/* amax, amin, max(), min() and median() over everything: grad / k for each of the k elements that equal the result, which
 * doesn't depend on their order. */
td_tensor *td_op_extreme_backward(td_tensor *grad, td_tensor *self, td_tensor *result, int64_t n_dim, const int64_t *dim,
                                  bool keepdim)
{
    TD_AUTO td_tensor *whole = td_restore_dims(grad, self->ndim, n_dim, dim, keepdim);
    TD_AUTO td_tensor *mask = mask_of(self, result, n_dim, dim, keepdim);
    TD_AUTO td_tensor *count = td_sum_dim(mask, n_dim, dim, true);
    TD_AUTO td_tensor *share = td_div(whole, count);
    return td_mul(share, mask);
}

td_tensor *td_op_aminmax_backward(td_tensor *grad_min, td_tensor *grad_max, td_tensor *self, td_tensor *min, td_tensor *max,
                                  const int64_t *dim, bool keepdim)
{
    TD_AUTO td_tensor *low = td_extreme_backward(grad_min, self, min, dim ? 1 : 0, dim, keepdim);
    TD_AUTO td_tensor *high = td_extreme_backward(grad_max, self, max, dim ? 1 : 0, dim, keepdim);
    return td_add(low, high);
}

/* max(dim), median(dim), kthvalue, mode, and sort and topk with keepdim: the elements whose indices were returned get the
 * whole gradient, ties or not. */
td_tensor *td_op_value_selecting_reduction_backward(td_tensor *grad, int64_t dim, td_tensor *indices, int64_t n_sizes,
                                                    const int64_t *sizes, bool keepdim)
{
    TD_AUTO td_tensor *zeros = td_new_zeros(grad, n_sizes, sizes, TD_DTYPE_NONE, TD_DEVICE_NONE);
    if (keepdim || n_sizes == 0)
        return td_scatter_src(zeros, dim, indices, grad);
    TD_AUTO td_tensor *values = td_unsqueeze(grad, dim);
    TD_AUTO td_tensor *at = td_unsqueeze(indices, dim);
    return td_scatter_src(zeros, dim, at, values);
}

/* ---- variances */

/* d var / d x[i] = 2 (x[i] - mean) / (n - correction); that of the mean adds nothing, for the differences sum to 0. With no
 * degrees of freedom left the factor is infinite. */
td_tensor *td_op_var_backward(td_tensor *grad, td_tensor *self, int64_t n_dim, const int64_t *dim, const td_scalar *correction,
                              bool keepdim)
{
    double by = correction ? td_scalar_double(*correction) : 1;
    double degrees = (double)count_of(self->ndim, self->sizes, n_dim, dim) - by;
    TD_AUTO td_tensor *whole = td_restore_dims(grad, self->ndim, n_dim, dim, keepdim);
    TD_AUTO td_tensor *mean = td_mean_dim(self, n_dim, dim, true);
    TD_AUTO td_tensor *difference = td_sub(self, mean);
    TD_AUTO td_tensor *scaled = td_mul_number(whole, 2 / (degrees > 0 ? degrees : 0));
    return td_mul(scaled, difference);
}

/* d std = d var / (2 std); where std is 0 there is no derivative, and PyTorch defines it as 0. */
td_tensor *td_op_std_backward(td_tensor *grad, td_tensor *self, td_tensor *result, int64_t n_dim, const int64_t *dim,
                              const td_scalar *correction, bool keepdim)
{
    TD_AUTO td_tensor *twice = td_mul_number(result, 2);
    TD_AUTO td_tensor *ratio = td_div(grad, twice);
    TD_AUTO td_tensor *flat = td_eq_number(result, 0);
    TD_AUTO td_tensor *part = td_masked_fill_scalar(ratio, flat, td_int(0));
    return td_var_backward(part, self, n_dim, dim, correction, keepdim);
}

/* A variance of one element has no derivative, which mustn't reach the gradient of a program that used the mean alone. */
td_tensor *td_op_moments_backward(td_tensor *grad, td_tensor *grad_mean, td_tensor *self, td_tensor *std, int64_t n_dim, const int64_t *dim,
                                  const td_scalar *correction, bool keepdim)
{
    TD_AUTO td_tensor *spread = grad == TD_NONE ? td_tensor_retain(TD_NONE)
                              : std == TD_NONE  ? td_var_backward(grad, self, n_dim, dim, correction, keepdim)
                                                : td_std_backward(grad, self, std, n_dim, dim, correction, keepdim);
    TD_AUTO td_tensor *shift = grad_mean == TD_NONE
        ? td_tensor_retain(TD_NONE) : td_mean_backward(grad_mean, self->ndim, self->sizes, n_dim, dim, keepdim, (td_dtype)self->dtype);
    if (!spread || !shift)
        return NULL;
    return spread == TD_NONE ? td_tensor_retain(shift) : shift == TD_NONE ? td_tensor_retain(spread) : td_add(spread, shift);
}

/* ---- norms */

/* d norm_p / d x[i] = sgn(x[i]) |x[i]|^(p - 1) / norm^(p - 1). The orders 1, 2 and infinity have simpler forms: sgn(x), x /
 * norm and, shared among the largest elements (the NaN, if there are any), sgn(x); order 0 counts, so its gradient is absent (TD_NONE). The norm may be
 * in a wider dtype than self, in which all is computed. */
td_tensor *td_op_vector_norm_backward(td_tensor *grad, td_tensor *self, td_scalar ord, td_tensor *result, int64_t n_dim,
                                      const int64_t *dim, bool keepdim)
{
    double p = td_scalar_double(ord);
    if (p == 0)
        return td_tensor_retain(TD_NONE);
    TD_AUTO td_tensor *whole = td_restore_dims(grad, self->ndim, n_dim, dim, keepdim);
    TD_AUTO td_tensor *norm = td_restore_dims(result, self->ndim, n_dim, dim, keepdim);
    TD_AUTO td_tensor *x = norm && td_dtype_to_real((td_dtype)self->dtype) != (td_dtype)norm->dtype
        ? td_to(self, td_dtype_is_complex((td_dtype)self->dtype) ? td_dtype_to_complex((td_dtype)norm->dtype)
                                                                 : (td_dtype)norm->dtype)
        : td_tensor_retain(self);
    TD_AUTO td_tensor *out = NULL;
    if (p == 1) {
        TD_AUTO td_tensor *sign = td_sgn(x);
        out = td_mul(sign, whole);
    } else if (p == 2) {
        TD_AUTO td_tensor *direction = td_div(x, norm);
        TD_AUTO td_tensor *zero = td_eq_number(norm, 0);
        TD_AUTO td_tensor *known = td_masked_fill_scalar(direction, zero, td_int(0));
        out = td_mul(known, whole);
    } else if (isinf(p)) {
        TD_AUTO td_tensor *size = td_abs(x);
        TD_AUTO td_tensor *equal = td_eq(size, norm), *nan = td_isnan(size), *norm_nan = td_isnan(norm);
        TD_AUTO td_tensor *both_nan = td_logical_and(nan, norm_nan);
        TD_AUTO td_tensor *extreme = td_logical_or(equal, both_nan);
        TD_AUTO td_tensor *count = td_sum_dim(extreme, n_dim, dim, true);
        TD_AUTO td_tensor *share = td_div(whole, count);
        TD_AUTO td_tensor *sign = td_sgn(x);
        TD_AUTO td_tensor *masked = td_mul(sign, extreme);
        out = td_mul(masked, share);
    } else {
        /* sgn(x) |x|^(p - 1) grad / norm^(p - 1); nothing where x or the norm is 0. */
        TD_AUTO td_tensor *size = td_abs(x);
        TD_AUTO td_tensor *exponent = td_wrapped_number(td_float(p - 1));
        TD_AUTO td_tensor *power = td_pow(size, exponent);
        TD_AUTO td_tensor *sign = td_sgn(x);
        TD_AUTO td_tensor *slope = td_mul(sign, power);
        TD_AUTO td_tensor *x_zero = td_eq_number(size, 0);
        TD_AUTO td_tensor *known = p < 2 ? td_masked_fill_scalar(slope, x_zero, td_int(0)) : td_tensor_retain(slope);
        TD_AUTO td_tensor *below = td_pow(norm, exponent);
        TD_AUTO td_tensor *ratio = td_div(whole, below);
        TD_AUTO td_tensor *zero = td_eq_number(norm, 0);
        TD_AUTO td_tensor *share = td_masked_fill_scalar(ratio, zero, td_int(0));
        out = td_mul(known, share);
    }
    return out && out->dtype != self->dtype ? td_to(out, (td_dtype)self->dtype) : td_tensor_retain(out);
}

/* d logsumexp / d x[i] = exp(x[i] - logsumexp(x)), the softmax of x; the exponent is at most 0, so nothing overflows. */
td_tensor *td_op_logsumexp_backward(td_tensor *grad, td_tensor *self, td_tensor *result, int64_t n_dim, const int64_t *dim,
                                    bool keepdim)
{
    TD_AUTO td_tensor *whole = td_restore_dims(grad, self->ndim, n_dim, dim, keepdim);
    TD_AUTO td_tensor *sum = td_restore_dims(result, self->ndim, n_dim, dim, keepdim);
    TD_AUTO td_tensor *difference = td_sub(self, sum);
    TD_AUTO td_tensor *share = td_exp(difference);
    TD_AUTO td_tensor *part = share && td_dtype_is_complex((td_dtype)share->dtype) ? td_conj(share) : td_tensor_retain(share);
    return td_mul(whole, part);
}
