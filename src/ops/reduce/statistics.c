/* Statistics of rows and other operators that are made of several others: cov, corrcoef, renorm (slices scaled to a largest
 * norm) and vander (Vandermonde matrices). None has a formula for its gradient, since what they call has. */

#include "calls_ops_reduce_statistics.h"
#include <inttypes.h>
#include <tede/kernel.h>
#include "dispatch/outputs.h"
#include "ops/compose.h"
#include "ops/iterate/strides.h"
#include "tensor/checked.h"

#define LET(x) TD_AUTO td_tensor *x

/* fweights say how often an observation is repeated and are whole, aweights how much it counts and are floating. `whole`
 * says which. On meta there are no elements to check. */
static int check_weights(const char *name, td_tensor *w, int64_t n, bool whole)
{
    if (w->ndim > 1)
        return td_error(TD_E_RUNTIME, "cov(): expected %s to have one or fewer dimensions but got %s with %d dimensions", name, name, w->ndim);
    if (whole ? !td_dtype_is_integral((td_dtype)w->dtype) : !td_is_floating(w))
        return td_error(TD_E_RUNTIME, "cov(): expected %s to have %s dtype but got %s with %s dtype", name, whole ? "integral" : "floating point",
                        name, td_dtype_title((td_dtype)w->dtype));
    if (w->numel != n)
        return td_error(TD_E_RUNTIME, "cov(): expected %s to have the same numel as there are observations in the input but got %" PRId64 " != %"
                        PRId64, name, w->numel, n);
    if (!w->numel || w->device.type == TD_META)
        return 0;
    LET(all) = td_with_values(w);
    LET(least) = td_min_all(all);
    td_scalar value;
    if (!least || td_item(&value, least))
        return -1;
    return !(td_scalar_double(value) >= 0) ? td_error(TD_E_RUNTIME, "cov(): %s cannot be negative", name) : 0;
}

/* numpy.cov's definition: rows are variables, columns observations; (X - mean) diag(w) (X - mean)^H / norm with w =
 * fweights * aweights. norm = sum(w) - correction, but with aweights sum(w) - correction * sum(w * aweights) / sum(w);
 * below 0 it is taken as 0. One variable gives a number. */
td_tensor *td_op_cov(td_tensor *self, int64_t correction, td_tensor *fweights, td_tensor *aweights)
{
    if (self->ndim > 2)
        return td_fail(TD_E_RUNTIME, "cov(): expected input to have two or fewer dimensions but got an input with %d dimensions", self->ndim);
    if (self->dtype == TD_BOOL)
        return td_fail(TD_E_RUNTIME, "cov(): bool dtype is not supported for input");
    LET(rows) = self->ndim < 2 ? td_reshape(self, 2, (int64_t[]){1, -1}) : td_ref(self);
    if (!rows)
        return NULL;
    int64_t n = rows->sizes[1], last = 1;
    bool weighted = fweights != TD_NONE || aweights != TD_NONE;
    if (!weighted && n <= correction && td_warn("cov(): degrees of freedom is <= 0. Correction should be strictly less than the number of observations."))
        return NULL;
    if ((fweights != TD_NONE && check_weights("fweights", fweights, n, true)) || (aweights != TD_NONE && check_weights("aweights", aweights, n, false)))
        return NULL;
    LET(x) = td_ref(rows);
    LET(weights) = !weighted ? td_ref(TD_NONE) : fweights == TD_NONE ? td_ref(aweights) : aweights == TD_NONE ? td_ref(fweights)
                                                                                              : td_mul(fweights, aweights);
    LET(total) = weighted ? td_sum(weights) : td_full(0, NULL, td_int(n), TD_I64, self->device);
    LET(product) = weighted ? td_mul(x, weights) : td_ref(x);
    LET(sum) = td_sum_over(product, 1, &last, true);
    LET(mean) = td_div(sum, total);
    LET(centred) = td_sub(x, mean);
    if (weighted && total && total->device.type != TD_META) {
        LET(all) = td_with_values(total);
        LET(nonzero) = td_all_all(all);
        td_scalar some;
        if (!nonzero || td_item(&some, nonzero))
            return NULL;
        if (!td_scalar_bool(some))
            return td_fail(TD_E_RUNTIME, "cov(): weights sum to zero, can't be normalized");
    }
    LET(norm) = NULL;
    if (aweights != TD_NONE && correction) {
        LET(both) = td_mul(weights, aweights);
        LET(squares) = td_sum(both);
        LET(scaled) = td_times(squares, td_int(correction));
        LET(share) = td_div(scaled, total);
        norm = td_sub(total, share);
    } else {
        norm = td_plus(total, td_int(td_sub_saturated(0, correction)));
    }
    LET(enough) = td_clamp_min(norm, td_int(0));
    LET(left) = weighted ? td_mul(centred, weights) : td_ref(centred);
    LET(adjoint) = td_adjoint_of(centred);
    LET(outer) = td_matmul(left, adjoint);
    LET(result) = td_div(outer, enough);
    return rows->sizes[0] == 1 ? td_reshape(result, 0, NULL) : td_ref(result);
}

/* c[i][j] / sqrt(c[i][i] c[j][j]), in two divisions, for the product could overflow. Rounding may carry a result beyond 1,
 * so results are clamped, the parts of complex ones each. */
td_tensor *td_op_corrcoef(td_tensor *self)
{
    if (self->ndim > 2)
        return td_fail(TD_E_RUNTIME, "corrcoef(): expected input to have two or fewer dimensions but got an input with %d dimensions", self->ndim);
    LET(c) = td_cov(self, 1, TD_NONE, TD_NONE);
    if (!c || !c->ndim)
        return td_div(c, c);
    LET(variances) = td_diagonal(c, 0, 0, 1);
    LET(real) = td_real(variances);
    LET(spread) = td_sqrt(real);
    LET(column) = td_unsqueeze(spread, 1);
    LET(row) = td_unsqueeze(spread, 0);
    LET(first) = td_div(c, column);
    LET(second) = td_div(first, row);
    const td_scalar low = td_int(-1), high = td_int(1);
    LET(parts) = second && td_is_complex(second) ? td_view_as_real(second) : td_ref(second);
    LET(inside) = td_clamp(parts, &low, &high);
    return second && td_is_complex(second) ? td_view_as_complex(inside) : td_ref(inside);
}

/* Slices along dim whose p-norm exceeds maxnorm are scaled by maxnorm / (norm + 1e-7), PyTorch's constant. Norms and factors of
 * halves are computed in float32; the factor is rounded before it multiplies. */
td_tensor *td_op_renorm(td_tensor *self, td_scalar p, int64_t dim, td_scalar maxnorm)
{
    if (!(td_scalar_double(p) > 0))
        return td_fail(TD_E_RUNTIME, "renorm: non-positive norm not supported");
    if (!(td_scalar_double(maxnorm) >= 0))
        return td_fail(TD_E_RUNTIME, "renorm: expected maxnorm to be >= 0 but got %g", td_scalar_double(maxnorm));
    if (self->ndim < 2)
        return td_fail(TD_E_RUNTIME, "renorm: input needs at least 2 dimensions, got %d dimensions", self->ndim);
    int d = td_wrap_dim(dim, self->ndim);
    if (d < 0)
        return NULL;
    int64_t dims[TD_MAX_DIMS], n = 0;
    for (int k = 0; k < self->ndim; k++)
        if (k != d)
            dims[n++] = k;
    bool half = self->dtype == TD_F16 || self->dtype == TD_BF16;
    LET(norm) = td_linalg_vector_norm(self, p, n, dims, true, half ? TD_F32 : TD_DTYPE_NONE);
    LET(limit) = td_wrapped_number(maxnorm);
    LET(above) = td_gt(norm, limit);
    LET(apart) = td_plus(norm, td_float(1e-7));
    LET(factor) = td_div(limit, apart);
    LET(one) = td_wrapped_number(td_int(1));
    LET(scale) = td_where(above, factor, one);
    LET(own) = scale && half ? td_to(scale, (td_dtype)self->dtype) : td_ref(scale);
    LET(result) = td_mul(self, own);
    return result && td_has_plain_strides(result) ? td_ref(result) : td_clone_format(result, TD_CONTIGUOUS_FORMAT);
}

/* Powers x^0 ... x^(n - 1) of each element as a running product, then reversed unless `increasing`, since NumPy's order is
 * falling. */
td_tensor *td_op_vander(td_tensor *x, const int64_t *N, bool increasing)
{
    if (x->ndim != 1)
        return td_fail(TD_E_RUNTIME, "x must be a one-dimensional tensor.");
    int64_t n = N ? *N : x->numel;
    if (n < 0)
        return td_fail(TD_E_RUNTIME, "N must be non-negative.");
    td_dtype dtype = td_is_floating(x) || td_is_complex(x) ? (td_dtype)x->dtype : td_promote_types((td_dtype)x->dtype, TD_I64);
    LET(base) = td_to(x, dtype);
    LET(column) = td_unsqueeze(base, -1);
    int64_t m = x->numel;
    if (!n)
        return td_empty_memory_format(2, (int64_t[]){m, 0}, dtype, x->device, TD_MEMORY_FORMAT_NONE);
    LET(ones) = td_ones(2, (int64_t[]){m, 1}, dtype, x->device);
    if (n == 1)
        return ones ? td_ref(ones) : NULL;
    LET(wide) = td_expand(column, 2, (int64_t[]){m, n - 1});
    LET(powers) = td_cumprod(wide, 1, TD_DTYPE_NONE);
    LET(rising) = ones && powers ? td_cat(2, (td_tensor *[]){ones, powers}, 1) : NULL;
    return increasing ? td_ref(rising) : td_flip(rising, 1, (int64_t[]){1});
}
