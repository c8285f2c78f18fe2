/* Tangents (forward-mode derivatives, Jacobian-vector products) of reductions, scans and products: what the `jvp:` of their
 * entries calls; t is the operand's tangent. The gradients are in grad.c and scan.c.
 *
 * Each element of a reduction's result is a function of the elements that it is made of, so its tangent is their tangents'
 * sum, weighted by slopes that the result often knows: x / |x| of a norm, exp(x - result) of a logsumexp. */
#include "calls_ops_reduce_tangent.h"
#include <math.h>
#include "autograd/tangent.h"
#include "dispatch/outputs.h"
#include "ops/compose.h"

#define LET(x) TD_AUTO td_tensor *x

/* A reduction's result with the reduced dimensions restored as size 1, as one view; an empty list stands for all of them. */
static td_tensor *restored(td_tensor *result, td_tensor *self, int64_t n_dim, const int64_t *dim, bool keepdim)
{
    int64_t sizes[TD_MAX_DIMS];
    if (!result || !self || keepdim || self->ndim == 0)
        return result && self ? td_ref(result) : NULL;
    memcpy(sizes, self->sizes, sizeof *sizes * (size_t)self->ndim);
    for (int d = 0; d < self->ndim && n_dim <= 0; d++)
        sizes[d] = 1;
    for (int64_t i = 0; i < n_dim; i++) {
        int d = td_wrap_dim(dim[i], self->ndim);
        if (d < 0)
            return NULL;
        sizes[d] = 1;
    }
    return td_reshape(result, self->ndim, sizes);
}

/* The number of elements in each result; in double, where it can't overflow. */
static double count_over(const td_tensor *self, int64_t n_dim, const int64_t *dim)
{
    double count = 1;
    for (int d = 0; d < self->ndim && n_dim <= 0; d++)
        count *= (double)self->sizes[d];
    for (int64_t i = 0; i < n_dim; i++) {
        int64_t d = dim[i] < 0 ? dim[i] + self->ndim : dim[i];
        count *= d >= 0 && d < self->ndim ? (double)self->sizes[d] : 1;     /* the reductions beside this refuse a dimension that isn't there */
    }
    return count;
}

static td_tensor *sum_of(td_tensor *x, int64_t n_dim, const int64_t *dim, bool keepdim)
{
    return td_sum_dim_intlist(x, n_dim, dim, keepdim, TD_DTYPE_NONE);
}

/* The real part of conj(a) * b: the slope of a real function of complex numbers, a, applied to a tangent. */
static td_tensor *inner_product(td_tensor *a, td_tensor *b)
{
    if (!a || !b || !td_is_complex(a))
        return td_mul_tensor(a, b);
    LET(conjugate) = td_conj(a);
    LET(product) = td_mul_tensor(conjugate, b);
    return td_real(product);
}

/* 2 / (n - correction) * sum of (x - mean) t; what the mean moves by adds nothing, for the differences sum to 0. */
td_tensor *td_op_var_tangent(td_tensor *t, td_tensor *self, int64_t n_dim, const int64_t *dim, const td_scalar *correction, bool keepdim)
{
    double degrees = count_over(self, n_dim, dim) - (correction ? td_scalar_double(*correction) : 1);
    LET(mean) = td_mean_dims(self, n_dim, dim, true, TD_DTYPE_NONE);
    LET(centred) = td_minus(self, mean);
    LET(product) = inner_product(centred, t);
    LET(sum) = sum_of(product, n_dim, dim, keepdim);
    if (self->numel == 0)       /* nothing to scale by infinity */
        return td_ref(sum);
    return td_times(sum, td_float(2 / (degrees > 0 ? degrees : 0)));
}

/* var's tangent / (2 std), and 0 where std is 0, as for the gradient. */
td_tensor *td_op_std_tangent(td_tensor *t, td_tensor *self, td_tensor *result, int64_t n_dim, const int64_t *dim,
                             const td_scalar *correction, bool keepdim)
{
    LET(var) = td_op_var_tangent(t, self, n_dim, dim, correction, keepdim);
    LET(twice) = td_times(result, td_float(2));
    LET(zero) = td_wrapped_number(td_int(0));
    LET(flat) = td_eq_tensor(result, zero);
    LET(ratio) = td_div_tensor(var, twice);
    return td_masked_fill_scalar(ratio, flat, td_int(0));
}

/* The mean of the tangents of all elements that equal the result: the transpose of the gradient, which is shared equally
 * among them. */
td_tensor *td_op_extreme_tangent(td_tensor *t, td_tensor *self, td_tensor *result, int64_t n_dim, const int64_t *dim, bool keepdim)
{
    LET(extreme) = restored(result, self, n_dim, dim, keepdim);
    LET(mask) = td_eq_tensor(self, extreme);
    if (n_dim <= 0) {       /* over everything a NaN is the extreme; its gradient along a dimension is nothing, as in PyTorch */
        LET(nan) = td_isnan(self);
        LET(is_nan) = td_isnan(extreme);
        LET(both) = td_logical_and(nan, is_nan);
        LET(either) = td_logical_or(mask, both);
        td_tensor_release(mask);
        mask = either ? td_ref(either) : NULL;
    }
    LET(count) = sum_of(mask, n_dim, dim, keepdim);
    LET(kept) = td_mul_tensor(t, mask);
    LET(sum) = sum_of(kept, n_dim, dim, keepdim);
    return td_div_tensor(sum, count);
}

int td_op_aminmax_tangent(td_tensor **results, td_tensor *t, td_tensor *self, td_tensor *min, td_tensor *max, const int64_t *dim, bool keepdim)
{
    results[0] = td_op_extreme_tangent(t, self, min, dim ? 1 : -1, dim, keepdim);
    results[1] = td_op_extreme_tangent(t, self, max, dim ? 1 : -1, dim, keepdim);
    if (results[0] && results[1])
        return 0;
    td_tensor_release(results[0]);
    td_tensor_release(results[1]);
    return -1;
}

/* An operand without a tangent doesn't move. */
static td_tensor *or_zeros(td_tensor *t, td_tensor *like) { return t && t != TD_NONE ? td_ref(t) : td_zeros_like(like); }

/* Sums and means are linear.  For the others the gradient of ones has each element's factor. */
td_tensor *td_op_scatter_reduce_tangent(td_tensor *t_self, td_tensor *t_src, td_tensor *self, int64_t dim, td_tensor *index,
                                        td_tensor *src, const char *reduce, bool include_self, td_tensor *result)
{
    LET(self_moves) = or_zeros(t_self, self);
    LET(src_moves) = or_zeros(t_src, src);
    if (!strcmp(reduce, "sum") || !strcmp(reduce, "mean"))
        return td_scatter_reduce_two(self_moves, dim, index, src_moves, reduce, include_self);
    LET(ones) = td_ones_like(result);
    td_tensor *factors[2];
    if (!ones || td_scatter_reduce_backward(factors, ones, self, dim, index, src, reduce, include_self, result) != 0)
        return NULL;
    LET(of_self) = td_mul_tensor(factors[0], self_moves);
    LET(of_src) = td_mul_tensor(factors[1], src_moves);
    td_tensor_release(factors[0]);
    td_tensor_release(factors[1]);
    return td_scatter_reduce_two(of_self, dim, index, of_src, "sum", true);
}

/* The sum of slopes times tangents. Orders 0, 1 and 2 have short forms; for others the gradient of ones is the slope, since
 * each element takes part in one result. */
td_tensor *td_op_norm_tangent(td_tensor *t, td_tensor *self, td_scalar ord, td_tensor *result, int64_t n_dim, const int64_t *dim,
                              bool keepdim)
{
    if (td_scalar_double(ord) == 0)
        return td_zeros_like(result);
    if (td_scalar_double(ord) == 1) {
        LET(sign) = td_sgn(self);
        LET(product) = inner_product(sign, t);
        return sum_of(product, n_dim, dim, keepdim);
    }
    if (td_scalar_double(ord) == 2) {
        LET(product) = inner_product(self, t);
        LET(sum) = sum_of(product, n_dim, dim, keepdim);
        LET(ratio) = td_div_tensor(sum, result);
        LET(zero) = td_wrapped_number(td_int(0));
        LET(flat) = td_eq_tensor(result, zero);
        return td_masked_fill_scalar(ratio, flat, td_int(0));
    }
    LET(one) = td_ones_like(result);
    LET(slope) = td_vector_norm_backward(one, self, ord, result, n_dim, dim, keepdim);
    LET(product) = inner_product(slope, t);
    return sum_of(product, n_dim, dim, keepdim);
}

/* As above, for a vector of indices: self's slopes apply to it in place, the source's are added where it went. */
td_tensor *td_op_index_reduce_tangent(td_tensor *t_self, td_tensor *t_source, td_tensor *self, int64_t dim, td_tensor *index,
                                      td_tensor *source, const char *reduce, bool include_self, td_tensor *result)
{
    LET(self_moves) = or_zeros(t_self, self);
    LET(source_moves) = or_zeros(t_source, source);
    LET(ones) = td_ones_like(result);
    td_tensor *factors[2];
    if (!ones || td_index_reduce_backward(factors, ones, self, dim, index, source, reduce, include_self, result) != 0)
        return NULL;
    LET(of_self) = td_mul_tensor(factors[0], self_moves);
    LET(of_source) = td_mul_tensor(factors[1], source_moves);
    td_tensor_release(factors[0]);
    td_tensor_release(factors[1]);
    return td_index_add(of_self, dim, index, of_source, td_int(1));
}

/* y[i] = x[i] y[i - 1], so dy[i] = x[i] dy[i - 1] + t[i] y[i - 1], which begins with t[0]. */
td_tensor *td_op_cumprod_tangent(td_tensor *t, td_tensor *self, td_tensor *result, int64_t dim)
{
    if (result->ndim == 0 || result->numel == 0)
        return td_ref(t);
    LET(x) = self->dtype == result->dtype ? td_ref(self) : td_to_dtype(self, (td_dtype)result->dtype, false, false, TD_MEMORY_FORMAT_NONE);
    LET(first) = td_narrow(result, dim, 0, 1);
    LET(one) = td_ones_like(first);
    LET(front) = first ? td_narrow(result, dim, 0, result->sizes[td_wrap_dim(dim, result->ndim)] - 1) : NULL;
    LET(before) = one && front ? td_cat(2, (td_tensor *[]){one, front}, dim) : NULL;
    LET(added) = td_mul_tensor(t, before);
    return td_linear_scan(added, x, dim, false);
}

/* ---- sums weighted by slopes */

static td_tensor *conj_of(td_tensor *x) { return x && td_is_complex(x) ? td_conj(x) : x ? td_ref(x) : NULL; }

td_tensor *td_op_nansum_tangent(td_tensor *t, td_tensor *self, int64_t n_dim, const int64_t *dim, bool keepdim)
{
    LET(nan) = td_isnan(self);
    LET(kept) = td_masked_fill_scalar(t, nan, td_int(0));
    return sum_of(kept, n_dim, dim, keepdim);
}

/* The gradient of ones is the (conjugated) product of the others, which is the slope. */
td_tensor *td_op_prod_tangent(td_tensor *t, td_tensor *self, td_tensor *result, const int64_t *dim, bool keepdim)
{
    LET(ones) = td_ones_like(result);
    LET(back) = td_prod_backward(ones, self, result, dim, keepdim);
    LET(others) = conj_of(back);
    LET(product) = td_mul_tensor(others, t);
    return sum_of(product, dim ? 1 : -1, dim, keepdim);
}

td_tensor *td_op_logsumexp_tangent(td_tensor *t, td_tensor *self, td_tensor *result, int64_t n_dim, const int64_t *dim, bool keepdim)
{
    LET(whole) = restored(result, self, n_dim, dim, keepdim);
    LET(below) = td_minus(self, whole);
    LET(weights) = td_exp(below);
    LET(product) = td_mul_tensor(weights, t);
    return sum_of(product, n_dim, dim, keepdim);
}

/* Each step keeps a share of the mean so far and adds the new element's: both shares are exponentials of what is not
 * above zero, however far apart the elements are.  Where nothing but -inf came, the mean is that element's own. */
static td_tensor *mean_so_far(td_tensor *t, td_tensor *self, td_tensor *result, int64_t dim)
{
    LET(nothing) = td_eq_scalar(result, td_float(-INFINITY));
    LET(below) = td_minus(self, result);
    LET(own) = td_masked_fill_scalar(below, nothing, td_int(0));
    LET(before) = td_shift_along(result, dim, false);
    LET(fallen) = td_minus(before, result);
    LET(left) = td_masked_fill_scalar(fallen, nothing, td_float(-INFINITY));
    td_scalar most = td_int(0);
    LET(kept) = td_clamp(left, NULL, &most);        /* of the first, which has nothing before it */
    LET(share) = td_exp(own);
    LET(rest) = td_exp(kept);
    LET(added) = td_mul_tensor(t, share);
    return td_linear_scan(added, rest, dim, false);
}

/* The tangent of y[i] = log of the sum of exp(x[k]), k <= i, is the mean of t[k] with weights exp(x[k] - y[i]). Complex
 * exponents can't be clamped as mean_so_far does it: there the weights are relative to the row's largest real part, for all
 * i at once. */
td_tensor *td_op_logcumsumexp_tangent(td_tensor *t, td_tensor *self, td_tensor *result, int64_t dim)
{
    if (self->numel == 0 || self->ndim == 0)
        return td_ref(t);
    if (!td_is_complex(self))
        return mean_so_far(t, self, result, dim);
    LET(sizes) = td_real(self);
    LET(largest) = td_amax(sizes, 1, &dim, true);
    LET(below) = td_minus(self, largest);
    LET(weights) = td_exp(below);
    LET(product) = td_mul_tensor(t, weights);
    LET(sums) = td_cumsum(product, dim, TD_DTYPE_NONE);
    LET(rest) = td_minus(largest, result);
    LET(factor) = td_exp(rest);
    return td_mul_tensor(sums, factor);
}

/* ---- others */

/* The angle is the imaginary part of log x, so it moves by that of t / x; at 0, where there is none, by 0. A real number's
 * angle is 0 or pi and doesn't move. */
td_tensor *td_op_angle_tangent(td_tensor *t, td_tensor *self)
{
    if (!td_is_complex(self))
        return td_zeros_like(t);
    LET(ratio) = td_div_tensor(t, self);
    LET(turn) = td_imag(ratio);
    LET(zero) = td_wrapped_number(td_int(0));
    LET(nowhere) = td_eq_tensor(self, zero);
    return td_masked_fill_scalar(turn, nowhere, td_int(0));
}

/* mantissa = x / 2^exponent, and the exponent is constant where there is a derivative. */
td_tensor *td_op_frexp_tangent(td_tensor *t, td_tensor *exponent)
{
    LET(down) = td_neg(exponent);
    return td_ldexp_tensor(t, down);
}

/* A slope times t: the gradient's formula, whose factor is conjugated. */
td_tensor *td_op_pow_tangent(td_tensor *t, td_tensor *self, td_scalar exponent)
{
    LET(conjugate) = conj_of(t);
    LET(product) = td_pow_backward(conjugate, self, exponent);
    return conj_of(product);
}

td_tensor *td_op_pow_exponent_tangent(td_tensor *t, td_scalar self, td_tensor *exponent, td_tensor *result)
{
    LET(conjugate) = conj_of(t);
    LET(product) = td_pow_exponent_backward(conjugate, self, exponent, result);
    return conj_of(product);
}

static td_tensor *scaled(td_tensor *x, td_scalar by)
{
    return !x ? NULL : by.kind != TD_SCALAR_COMPLEX && td_scalar_double(by) == 1 ? td_ref(x) : td_times(x, by);
}

/* beta self + alpha a b (addmm and its like): the product rule, of whichever operands have tangents; TD_NONE if none has. */
td_tensor *td_op_product_tangent(td_tensor *t_self, td_tensor *t_a, td_tensor *t_b, td_tensor *a, td_tensor *b, td_scalar beta, td_scalar alpha)
{
    LET(of_a) = t_a == TD_NONE ? td_ref(TD_NONE) : td_matmul(t_a, b);
    LET(of_b) = t_b == TD_NONE ? td_ref(TD_NONE) : td_matmul(a, t_b);
    LET(own) = t_self == TD_NONE ? td_ref(TD_NONE) : scaled(t_self, beta);
    LET(both) = td_sum_of(of_a, of_b);
    LET(product) = both == TD_NONE ? td_ref(TD_NONE) : scaled(both, alpha);
    return td_sum_of(own, product);
}
