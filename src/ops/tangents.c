/* Tangents of reductions, norms of layers and attention: what the `jvp:` of their entries calls.
 *
 * A norm's map x -> (x - mean) / deviation has a symmetric derivative: a projection, scaled.  So its tangent is what its
 * backward kernel makes of t in the place of a gradient, and the weight comes afterwards. */
#include "calls_ops_tangents.h"
#include <math.h>
#include "dispatch/glue.h"
#include "ops/compose.h"

#define LET(x) TD_AUTO td_tensor *x

/* A reduction's result with the dimensions that it lost, as one view. */
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

static double count_over(const td_tensor *self, int64_t n_dim, const int64_t *dim)
{
    double count = 1;
    for (int d = 0; d < self->ndim && n_dim <= 0; d++)
        count *= (double)self->sizes[d];
    for (int64_t i = 0; i < n_dim && self->ndim; i++)
        count *= (double)self->sizes[td_wrap_dim(dim[i], self->ndim)];
    return count;
}

static td_tensor *sum_of(td_tensor *x, int64_t n_dim, const int64_t *dim, bool keepdim)
{
    return td_sum_dim_intlist(x, n_dim, dim, keepdim, TD_DTYPE_NONE);
}

/* The real part of conj(a) * b. */
static td_tensor *inner_product(td_tensor *a, td_tensor *b)
{
    if (!a || !b || !td_is_complex(a))
        return td_mul_tensor(a, b);
    LET(turned) = td_conj(a);
    LET(product) = td_mul_tensor(turned, b);
    return td_real(product);
}

td_tensor *td_op_var_tangent(td_tensor *t, td_tensor *self, int64_t n_dim, const int64_t *dim, const td_scalar *correction, bool keepdim)
{
    double degrees = count_over(self, n_dim, dim) - (correction ? td_scalar_double(*correction) : 1);
    LET(mean) = td_mean_dims(self, n_dim, dim, true, TD_DTYPE_NONE);
    LET(centred) = td_minus(self, mean);
    LET(product) = inner_product(centred, t);
    LET(sum) = sum_of(product, n_dim, dim, keepdim);
    return td_times(sum, td_float(2 / (degrees > 0 ? degrees : 0)));
}

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

/* y[i] = x[i] y[i - 1], so dy[i] = x[i] dy[i - 1] + t[i] y[i - 1], which begins with t[0]. */
td_tensor *td_op_cumprod_tangent(td_tensor *t, td_tensor *self, td_tensor *result, int64_t dim)
{
    if (result->ndim == 0 || result->numel == 0)
        return td_ref(t);
    LET(x) = self->dtype == result->dtype ? td_ref(self) : td_to_dtype(self, (td_dtype)result->dtype, false, false, TD_MEMORY_FORMAT_NONE);
    LET(first) = td_narrow(result, dim, 0, 1);
    LET(one) = td_ones_like(first);
    LET(front) = td_narrow(result, dim, 0, result->sizes[td_wrap_dim(dim, result->ndim)] - 1);
    LET(before) = one && front ? td_cat(2, (td_tensor *[]){one, front}, dim) : NULL;
    LET(added) = td_mul_tensor(t, before);
    return td_linear_scan(added, x, dim, false);
}

td_tensor *td_op_along(td_tensor *v, td_tensor *like, int64_t dim)
{
    int64_t sizes[TD_MAX_DIMS];
    for (int d = 0; d < like->ndim; d++)
        sizes[d] = d == dim ? like->sizes[d] : 1;
    return td_view(v, like->ndim, sizes);
}

td_tensor *td_op_times_along(td_tensor *self, td_tensor *v, int64_t dim)
{
    if (v == TD_NONE)
        return td_ref(self);
    if (dim < 0)
        return td_mul_tensor(self, v);
    LET(wide) = td_op_along(v, self, dim);
    return td_mul_tensor(self, wide);
}

/* sum += term, both owned */
static td_tensor *plus(td_tensor *sum, td_tensor *term)
{
    td_tensor *next = !sum ? (term ? td_ref(term) : NULL) : td_add_tensor(sum, term, td_int(1));
    td_tensor_release(sum);
    td_tensor_release(term);
    return next;
}

int td_op_group_norm_tangent(td_tensor **results, td_tensor *t_input, td_tensor *t_weight, td_tensor *t_bias, td_tensor *input,
                             td_tensor *weight, td_tensor *mean, td_tensor *rstd, int64_t N, int64_t C, int64_t HxW, int64_t group,
                             double eps)
{
    if (group <= 0 || N < 0 || C < 0 || HxW < 0 || C % group || (N > 0 && C > 0 && HxW > 0 && input->numel / N / C / HxW != 1))
        return td_error(TD_E_RUNTIME, "group_norm_tangent: an input of %lld elements is no batch of groups of channels",
                        (long long)input->numel);
    int64_t rows[] = {N, group, C / group * HxW}, last[] = {2};
    td_tensor *sum = NULL, *means = td_ref(TD_NONE), *deviations = td_ref(TD_NONE);
    if (t_input != TD_NONE) {
        td_tensor *parts[3];
        if (td_group_norm_grad(parts, t_input, TD_NONE, TD_NONE, input, mean, rstd, TD_NONE, N, C, HxW, group, eps, 3,
                               (const bool[]){true, false, false}))
            return -1;
        sum = td_op_times_along(parts[0], weight, 1);
        td_results_drop(3, parts);
        LET(t) = td_reshape(t_input, 3, rows);
        LET(x) = td_reshape(input, 3, rows);
        LET(middle) = td_unsqueeze(mean, 2);
        LET(centred) = td_minus(x, middle);
        LET(product) = td_mul_tensor(centred, t);
        LET(covariance) = td_mean_dims(product, 1, last, false, TD_DTYPE_NONE);
        LET(square) = td_mul_tensor(rstd, rstd);
        LET(cube) = td_mul_tensor(square, rstd);
        LET(slope) = td_mul_tensor(covariance, cube);
        means = td_mean_dims(t, 1, last, false, TD_DTYPE_NONE);
        deviations = td_neg(slope);
        if (!sum || !means || !deviations)
            goto fail;
    }
    if (t_weight != TD_NONE) {
        td_tensor *parts[3];
        if (td_native_group_norm(parts, input, TD_NONE, TD_NONE, N, C, HxW, group, eps))
            goto fail;
        sum = plus(sum, td_op_times_along(parts[0], t_weight, 1));
        td_results_drop(3, parts);
        if (!sum)
            goto fail;
    }
    if (t_bias != TD_NONE) {
        LET(wide) = td_op_along(t_bias, input, 1);
        if (!(sum = plus(sum, td_expand(wide, input->ndim, input->sizes))))
            goto fail;
    }
    results[0] = sum ? sum : td_ref(TD_NONE), results[1] = means, results[2] = deviations;
    return 0;
fail:
    td_tensor_release(sum);
    td_tensor_release(means);
    td_tensor_release(deviations);
    return -1;
}
