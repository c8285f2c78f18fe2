/* Reductions (sum, mean, prod, max, argmax, any, all, var, std, norm, logsumexp): the shapes, dtypes and errors of their
 * results, td_meta_..., and those that are made of others, td_op_..., with item, equal, isclose, allclose and internal names at the end.
 *
 * A meta function runs before the kernel and on meta tensors instead of it; it fills one td_spec per result, from which the
 * results are allocated. For most that is td_meta_reduced(), by the word of their entry (`reduces`). The kernels (src/kernels/cpu/reduce/operators.c) may therefore assume what is checked here.
 * Gradients are in grad.c, tangents in tangent.c. */

#include "calls_ops_reduce_reduce.h"
#include <tede/autograd.h>
#include <math.h>
#include <string.h>
#include "dispatch/outputs.h"
#include "dispatch/writes.h"
#include "ops/reduce/reduce.h"
#include "ops/reduce/reduced.h"

int td_reduce_mask(const td_tensor *x, int64_t n, const int64_t *dim, bool empty_is_all, bool *mask)
{
    memset(mask, n < 0 || (n == 0 && empty_is_all), TD_MAX_DIMS);
    for (int64_t i = 0; i < n; i++) {
        int d = td_wrap_dim(dim[i], x->ndim);
        if (d < 0)
            return -1;
        if (mask[d])
            return td_error(TD_E_RUNTIME, "dim %d appears multiple times in the list of dims", d);
        mask[d] = true;
    }
    return 0;
}

int td_reduce_spec(td_spec *spec, const td_tensor *x, const bool *mask, bool keepdim, td_dtype dtype)
{
    int64_t sizes[TD_MAX_DIMS];
    int n = 0;
    for (int d = 0; d < x->ndim; d++) {
        if (!mask[d])
            sizes[n++] = x->sizes[d];
        else if (keepdim)
            sizes[n++] = 1;
    }
    return td_spec_set(spec, n, sizes, dtype, x->device);
}

int64_t td_reduce_count(const td_tensor *x, const bool *mask)
{
    int64_t count = 1;
    for (int d = 0; d < x->ndim; d++)
        count *= mask[d] ? x->sizes[d] : 1;
    return count;
}

/* Extremes convert nothing; any and all are written to bools or bytes. */
int td_out_check_reduced(const char *op, td_reduced rule, const td_tensor *self, const td_tensor *out)
{
    if (rule == TD_REDUCED_BOOL && out->dtype != TD_BOOL && out->dtype != TD_U8)
        return td_error(TD_E_RUNTIME, "%s only supports bool tensor for result, got: %s", op, td_dtype_title((td_dtype)out->dtype));
    if (rule == TD_REDUCED_EXTREME && out->dtype != self->dtype)
        return td_error(TD_E_RUNTIME, "Expected the dtype for input and out to match, but got %s for input's dtype and %s for out's dtype.",
                        td_dtype_title((td_dtype)self->dtype), td_dtype_title((td_dtype)out->dtype));
    return 0;
}

static td_dtype reduced_dtype(td_reduced rule, td_dtype own, td_dtype given)
{
    const bool whole = td_dtype_is_integral(own) || own == TD_BOOL;
    switch (rule) {
    case TD_REDUCED_SUM:        return given != TD_DTYPE_NONE ? given : whole ? TD_I64 : own;
    case TD_REDUCED_COUNT:
    case TD_REDUCED_EXTREME_AT: return TD_I64;
    case TD_REDUCED_BOOL:       return own == TD_U8 ? TD_U8 : TD_BOOL;
    case TD_REDUCED_FLOAT:      return whole ? td_default_dtype() : own;
    case TD_REDUCED_EXTREME:    break;
    }
    return own;
}

/* An extreme has no neutral element, so a reduced dimension must not be empty; others may be, the result is empty then.
 * `whole`: no dimension was given, PyTorch has another message for it. */
static int check_not_empty(const char *op, const td_tensor *x, const bool *mask, bool whole)
{
    if (x->numel > 0)
        return 0;
    if (whole)
        return td_error(TD_E_RUNTIME, "%s(): Expected reduction dim to be specified for input.numel() == 0. Specify the "
                        "reduction dim with the 'dim' argument.", op);
    for (int d = 0; d < x->ndim; d++)
        if (mask[d] && x->sizes[d] == 0)
            return td_error(TD_E_INDEX, "%s(): Expected reduction dim %d to have non-zero size.", op, d);
    return 0;
}

/* Complex numbers have no order.  Empty tensors pass, for there is nothing to compare. */
int td_meta_reduced(td_spec *specs, const char *op, int n, const td_reduced *rules, td_tensor *self, int64_t n_dim, const int64_t *dim,
                    bool keepdim, td_dtype dtype)
{
    const bool extreme = rules[0] == TD_REDUCED_EXTREME || rules[0] == TD_REDUCED_EXTREME_AT;
    bool mask[TD_MAX_DIMS];
    if (extreme && td_dtype_is_complex((td_dtype)self->dtype) && (self->numel || n == 2))
        return td_error(TD_E_RUNTIME, "%s(): does not support complex input; it takes real numbers", op);
    if (td_reduce_mask(self, n_dim, dim, rules[0] != TD_REDUCED_BOOL, mask) || (extreme && check_not_empty(op, self, mask, n_dim <= 0)))
        return -1;
    for (int i = 0; i < n; i++)
        if (td_reduce_spec(&specs[i], self, mask, keepdim, reduced_dtype(rules[i], (td_dtype)self->dtype, dtype)))
            return -1;
    return 0;
}
/* ---- sums, means, products */

int td_meta_nansum(td_spec *specs, td_tensor *self, int64_t n_dim, const int64_t *dim, bool keepdim, td_dtype dtype)
{
    if (td_dtype_is_complex((td_dtype)self->dtype))
        return td_error(TD_E_RUNTIME, "nansum on CPU does not support complex inputs");
    if (td_dtype_is_complex(dtype) && self->numel && td_dtype_is_floating((td_dtype)self->dtype))
        return td_error(TD_E_NOT_IMPLEMENTED, "\"nansum_cpu\" not implemented for '%s'", td_dtype_title(dtype));
    return td_meta_reduced(specs, "nansum", 1, (const td_reduced[]){TD_REDUCED_SUM}, self, n_dim, dim, keepdim, dtype);
}

int td_meta_mean_dims(td_spec *specs, td_tensor *self, int64_t n_dim, const int64_t *dim, bool keepdim, td_dtype dtype)
{
    td_dtype kind = dtype == TD_DTYPE_NONE ? (td_dtype)self->dtype : dtype;
    if (!td_dtype_is_floating(kind) && !td_dtype_is_complex(kind))
        return td_error(TD_E_RUNTIME, "mean(): could not infer output dtype. %s dtype must be either a floating point or complex "
                        "dtype. Got: %s", dtype == TD_DTYPE_NONE ? "Input" : "Optional", td_dtype_title(kind));
    bool mask[TD_MAX_DIMS];
    return td_reduce_mask(self, n_dim, dim, true, mask) || td_reduce_spec(specs, self, mask, keepdim, kind) ? -1 : 0;
}

td_tensor *td_op_sum_all(td_tensor *self, td_dtype dtype) { return td_sum_dim_intlist(self, -1, NULL, false, dtype); }
td_tensor *td_op_mean_all(td_tensor *self, td_dtype dtype) { return td_mean_dims(self, -1, NULL, false, dtype); }

/* nansum / how many aren't NaN: 0 / 0, so NaN, where there is none. */
td_tensor *td_op_nanmean(td_tensor *self, int64_t n_dim, const int64_t *dim, bool keepdim, td_dtype dtype)
{
    if (!td_dtype_is_floating((td_dtype)self->dtype) && !td_dtype_is_complex((td_dtype)self->dtype))
        return td_fail(TD_E_RUNTIME, "nanmean(): expected input to have floating point or complex dtype but got %s",
                       td_dtype_title((td_dtype)self->dtype));
    if (dtype != TD_DTYPE_NONE && !td_dtype_is_floating(dtype) && !td_dtype_is_complex(dtype))
        return td_fail(TD_E_RUNTIME, "nanmean(): could not infer output dtype. Optional dtype must be either a floating point or complex "
                       "dtype. Got: %s", td_dtype_title(dtype));
    TD_AUTO td_tensor *nan = td_isnan(self);
    TD_AUTO td_tensor *there = td_logical_not(nan);
    TD_AUTO td_tensor *count = td_sum_dim(there, n_dim, dim, keepdim);
    TD_AUTO td_tensor *sum = td_nansum(self, n_dim, dim, keepdim, dtype);
    return td_div(sum, count);
}

/* ---- extremes */

/* Both results have the same shape and dtype. PyTorch words the error for no elements differently here than for amax. */
int td_meta_aminmax(td_spec *specs, td_tensor *self, const int64_t *dim, bool keepdim)
{
    if (self->numel == 0 && !dim)
        return td_error(TD_E_RUNTIME, "aminmax(): cannot compute aminmax over an empty dimension as the operation has no "
                        "identity.");
    return td_meta_reduced(specs, "aminmax", 2, (const td_reduced[]){TD_REDUCED_EXTREME, TD_REDUCED_EXTREME}, self, dim ? 1 : -1, dim, keepdim,
                           TD_DTYPE_NONE);
}
/* argmax without dim counts positions in the flattened tensor; the result is int64 either way. */
static int meta_arg(const char *op, td_spec *specs, td_tensor *self, const int64_t *dim, bool keepdim)
{
    if (self->dtype == TD_BOOL)
        return td_error(TD_E_NOT_IMPLEMENTED, "\"%s_cpu\" not implemented for 'Bool'", op);
    if (!dim && self->numel == 0)
        return td_error(TD_E_INDEX, "%s(): Expected reduction dim to be specified for input.numel() == 0. Specify the "
                        "reduction dim with the 'dim' argument.", op);
    return td_meta_reduced(specs, op, 1, (const td_reduced[]){TD_REDUCED_EXTREME_AT}, self, dim ? 1 : -1, dim, keepdim, TD_DTYPE_NONE);
}
int td_meta_argmax(td_spec *specs, td_tensor *self, const int64_t *dim, bool keepdim)
{
    return meta_arg("argmax", specs, self, dim, keepdim);
}
int td_meta_argmin(td_spec *specs, td_tensor *self, const int64_t *dim, bool keepdim)
{
    return meta_arg("argmin", specs, self, dim, keepdim);
}

td_tensor *td_op_max_other(td_tensor *self, td_tensor *other) { return td_maximum(self, other); }
td_tensor *td_op_min_other(td_tensor *self, td_tensor *other) { return td_minimum(self, other); }

/* max(dim) and min(dim) compute into new tensors and then copy, since both out tensors must have the results' exact dtypes.
 * What records gradients is refused, as for every out=. */
static bool records(td_tensor *self, td_tensor *out)
{
    return td_grad_enabled() && (td_requires_grad(self) || td_requires_grad(out));
}
static int write_pair(const char *op, td_tensor **pair, td_tensor *values, td_tensor *indices)
{
    td_tensor *outs[] = {values, indices};
    if (td_results_exact(TD_EXACT_OUT, 2, outs, pair) || td_finish_outs(op, 2, outs, pair))
        return -1;
    td_wrote(values, op);
    td_wrote(indices, op);
    return 0;
}
int td_op_max_dim_out(td_tensor *self, int64_t dim, bool keepdim, td_tensor *max, td_tensor *max_values)
{
    td_tensor *pair[2];
    if (records(self, max))
        return td_fail_out_grad("max");
    return td_max_dim(pair, self, dim, keepdim) ? -1 : write_pair("max", pair, max, max_values);
}
int td_op_min_dim_out(td_tensor *self, int64_t dim, bool keepdim, td_tensor *min, td_tensor *min_indices)
{
    td_tensor *pair[2];
    if (records(self, min))
        return td_fail_out_grad("min");
    return td_min_dim(pair, self, dim, keepdim) ? -1 : write_pair("min", pair, min, min_indices);
}

/* ---- counts */

td_tensor *td_op_count_nonzero_dim(td_tensor *self, const int64_t *dim)
{
    return td_count_nonzero_dim_intlist(self, dim ? 1 : 0, dim);
}

/* ---- variances */

/* The variance of complex numbers is real, their mean complex: `real` says which of them the spec is for. */
static int meta_var(const char *op, td_spec *specs, td_tensor *self, int64_t n, const int64_t *dim, bool keepdim, bool real)
{
    td_dtype kind = (td_dtype)self->dtype;
    if (!td_dtype_is_floating(kind) && !td_dtype_is_complex(kind))
        return td_error(TD_E_RUNTIME, "%s only support floating point and complex dtypes", op);
    bool mask[TD_MAX_DIMS];
    return td_reduce_mask(self, n, dim, true, mask) ||
           td_reduce_spec(specs, self, mask, keepdim, real ? td_dtype_to_real(kind) : kind) ? -1 : 0;
}
/* Where the call is, not where it is computed: that may be later and in parts. */
static int warn_of_freedom(const char *op, const td_spec *spec, const td_tensor *self, int64_t n, const int64_t *dim, const td_scalar *correction)
{
    bool mask[TD_MAX_DIMS];
    const double by = correction ? td_scalar_double(*correction) : 1;
    if (self->device.type == TD_META || !td_numel_checked(spec->ndim, spec->sizes) || td_reduce_mask(self, n, dim, true, mask) ||
        (double)td_reduce_count(self, mask) - by > 0)
        return 0;
    return td_warn("%s(): degrees of freedom is <= 0. Correction should be strictly less than the reduction factor (input numel divided by output "
                   "numel).", op);
}
static int meta_of_one(const char *op, td_spec *specs, td_tensor *self, int64_t n, const int64_t *dim, const td_scalar *correction, bool keepdim)
{
    return (correction && td_scalar_check(*correction, TD_F64)) || meta_var("std and var", specs, self, n, dim, keepdim, true) ||
           warn_of_freedom(op, specs, self, n, dim, correction) ? -1 : 0;
}
static int meta_with_mean(const char *op, td_spec *specs, td_tensor *self, int64_t n, const int64_t *dim, const td_scalar *correction, bool keepdim)
{
    return (correction && td_scalar_check(*correction, TD_F64)) || meta_var("std_mean and var_mean", &specs[0], self, n, dim, keepdim, true) ||
           meta_var("std_mean and var_mean", &specs[1], self, n, dim, keepdim, false) || warn_of_freedom(op, specs, self, n, dim, correction) ? -1 : 0;
}
int td_meta_var_correction(td_spec *specs, td_tensor *self, int64_t n_dim, const int64_t *dim, const td_scalar *correction, bool keepdim)
{
    return meta_of_one("var", specs, self, n_dim, dim, correction, keepdim);
}
int td_meta_std_correction(td_spec *specs, td_tensor *self, int64_t n_dim, const int64_t *dim, const td_scalar *correction, bool keepdim)
{
    return meta_of_one("std", specs, self, n_dim, dim, correction, keepdim);
}
int td_meta_var_mean_correction(td_spec *specs, td_tensor *self, int64_t n_dim, const int64_t *dim, const td_scalar *correction, bool keepdim)
{
    return meta_with_mean("var_mean", specs, self, n_dim, dim, correction, keepdim);
}
int td_meta_std_mean_correction(td_spec *specs, td_tensor *self, int64_t n_dim, const int64_t *dim, const td_scalar *correction, bool keepdim)
{
    return meta_with_mean("std_mean", specs, self, n_dim, dim, correction, keepdim);
}

/* The older forms with `unbiased` are those with a correction of 1 or 0, Bessel's correction: division by n - 1. */
#define UNBIASED (const td_scalar[]){td_int(unbiased)}
td_tensor *td_op_var_unbiased(td_tensor *self, bool unbiased) { return td_var_correction(self, -1, NULL, UNBIASED, false); }
td_tensor *td_op_std_unbiased(td_tensor *self, bool unbiased) { return td_std_correction(self, -1, NULL, UNBIASED, false); }
int td_op_var_mean_unbiased(td_tensor **results, td_tensor *self, bool unbiased)
{
    return td_var_mean_correction(results, self, -1, NULL, UNBIASED, false);
}
int td_op_std_mean_unbiased(td_tensor **results, td_tensor *self, bool unbiased)
{
    return td_std_mean_correction(results, self, -1, NULL, UNBIASED, false);
}
td_tensor *td_op_var_dim(td_tensor *self, int64_t n_dim, const int64_t *dim, bool unbiased, bool keepdim)
{
    return td_var_correction(self, n_dim, dim, UNBIASED, keepdim);
}
td_tensor *td_op_std_dim(td_tensor *self, int64_t n_dim, const int64_t *dim, bool unbiased, bool keepdim)
{
    return td_std_correction(self, n_dim, dim, UNBIASED, keepdim);
}
int td_op_var_mean_dim(td_tensor **results, td_tensor *self, int64_t n_dim, const int64_t *dim, bool unbiased, bool keepdim)
{
    return td_var_mean_correction(results, self, n_dim, dim, UNBIASED, keepdim);
}
int td_op_std_mean_dim(td_tensor **results, td_tensor *self, int64_t n_dim, const int64_t *dim, bool unbiased, bool keepdim)
{
    return td_std_mean_correction(results, self, n_dim, dim, UNBIASED, keepdim);
}

/* ---- norms, logsumexp */

/* The result is real, of the input's or the given dtype's width. Norms of negative and infinite order are extremes and have
 * no value for no elements; all others are 0 then. */
int td_meta_linalg_vector_norm(td_spec *specs, td_tensor *self, td_scalar ord, int64_t n_dim, const int64_t *dim,
                               bool keepdim, td_dtype dtype)
{
    td_dtype kind = (td_dtype)self->dtype;
    if (!td_dtype_is_floating(kind) && !td_dtype_is_complex(kind))
        return td_error(TD_E_RUNTIME, "linalg.vector_norm: Expected a floating point or complex tensor as input. Got %s",
                        td_dtype_title(kind));
    if (dtype != TD_DTYPE_NONE) {
        if (!td_dtype_is_floating(dtype) && !td_dtype_is_complex(dtype))
            return td_error(TD_E_RUNTIME, "linalg.vector_norm: dtype should be floating point or complex. Got %s",
                            td_dtype_title(dtype));
        if (td_dtype_is_complex(kind) != td_dtype_is_complex(dtype))
            return td_error(TD_E_RUNTIME, "linalg.vector_norm: dtype should be %s for %s inputs. Got %s",
                            td_dtype_is_complex(kind) ? "complex" : "real", td_dtype_is_complex(kind) ? "complex" : "real",
                            td_dtype_title(dtype));
        if (td_promote_types(kind, dtype) != dtype)
            return td_error(TD_E_RUNTIME, "linalg.vector_norm: the dtype of the input (%s) should be convertible without narrowing to the "
                            "specified dtype (%s)", td_dtype_title(kind), td_dtype_title(dtype));
        kind = dtype;
    }
    bool mask[TD_MAX_DIMS];
    if (td_reduce_mask(self, n_dim, dim, true, mask))
        return -1;
    if (ord.kind == TD_SCALAR_COMPLEX)
        return td_error(TD_E_RUNTIME, "linalg.vector_norm: Expected a non-complex scalar as the order of norm.");
    double p = td_scalar_double(ord);
    if (self->numel == 0 && (p < 0 || isinf(p)) && td_reduce_count(self, mask) == 0)
        return td_error(TD_E_RUNTIME, "linalg.vector_norm cannot compute the %g norm on an empty tensor because the operation "
                        "does not have an identity", p);
    return td_reduce_spec(specs, self, mask, keepdim, td_dtype_to_real(kind));
}

/* torch.norm's p=None is the Euclidean norm. */
static td_scalar or_two(const td_scalar *p) { return p ? *p : td_int(2); }
td_tensor *td_op_norm_scalaropt_dim(td_tensor *self, const td_scalar *p, int64_t n_dim, const int64_t *dim, bool keepdim)
{
    return td_linalg_vector_norm(self, or_two(p), n_dim, dim, keepdim, TD_DTYPE_NONE);
}
td_tensor *td_op_norm_scalaropt_dim_dtype(td_tensor *self, const td_scalar *p, int64_t n_dim, const int64_t *dim,
                                          bool keepdim, td_dtype dtype)
{
    return td_linalg_vector_norm(self, or_two(p), n_dim, dim, keepdim, dtype);
}
td_tensor *td_op_norm_scalaropt_dtype(td_tensor *self, const td_scalar *p, td_dtype dtype)
{
    return td_linalg_vector_norm(self, or_two(p), -1, NULL, false, dtype);
}
td_tensor *td_op_norm_scalar(td_tensor *self, td_scalar p)
{
    return td_linalg_vector_norm(self, p, -1, NULL, false, TD_DTYPE_NONE);
}
/* The p-norm of self - other, all elements taken as one vector. */
td_tensor *td_op_dist(td_tensor *self, td_tensor *other, td_scalar p)
{
    TD_AUTO td_tensor *difference = td_sub(self, other);
    return td_linalg_vector_norm(difference, p, -1, NULL, false, TD_DTYPE_NONE);
}

td_tensor *td_op_special_logsumexp(td_tensor *self, int64_t n_dim, const int64_t *dim, bool keepdim)
{
    return td_logsumexp(self, n_dim, dim, keepdim);
}

td_tensor *td_op_trace(td_tensor *self)
{
    if (self->ndim != 2)
        return td_fail(TD_E_RUNTIME, "trace: expected a matrix, but got tensor with dim %d", self->ndim);
    TD_AUTO td_tensor *diagonal = td_diagonal(self, 0, 0, 1);
    return td_sum(diagonal);
}

/* ---- one number */

int td_op_item(td_scalar *results, td_tensor *self)
{
    if (self->numel != 1)
        return td_error(TD_E_RUNTIME, "a Tensor with %lld elements cannot be converted to Scalar", (long long)self->numel);
    return td_tensor_item(self, results);
}
/* PyTorch's internal name of item(). */
int td_op__local_scalar_dense(td_scalar *results, td_tensor *self) { return td_op_item(results, self); }

/* What bool(tensor) means in Python: defined for one element only. */
int td_op_is_nonzero(bool *results, td_tensor *self)
{
    if (self->numel != 1)
        return td_error(TD_E_RUNTIME, self->numel ? "Boolean value of Tensor with more than one value is ambiguous"
                                                  : "Boolean value of Tensor with no values is ambiguous");
    td_scalar value;
    if (td_tensor_item(self, &value))
        return -1;
    *results = td_scalar_bool(value);
    return 0;
}

/* Whether all elements are true, as a C bool: one element is read. True for none. */
static int all_true(bool *result, td_tensor *bools)
{
    TD_AUTO td_tensor *all = bools ? td_all_all(bools) : NULL;
    td_scalar value;
    if (!all || td_tensor_item(all, &value))
        return -1;
    *result = td_scalar_bool(value);
    return 0;
}

/* Other sizes are unequal without a look at the elements. */
int td_op_is_same_size(bool *result, td_tensor *self, td_tensor *other)
{
    *result = self->ndim == other->ndim && !memcmp(self->sizes, other->sizes, sizeof *self->sizes * self->ndim);
    return 0;
}

int td_op_equal(bool *results, td_tensor *self, td_tensor *other)
{
    *results = false;
    if (self->ndim != other->ndim || memcmp(self->sizes, other->sizes, sizeof(int64_t) * self->ndim))
        return 0;
    TD_AUTO td_tensor *same = td_eq(self, other);
    return all_true(results, same);
}

/* |self - other| <= atol + rtol |other|; what is equal is close, infinities too. The error must be finite: an infinite
 * `other` would otherwise allow any error. Integers are subtracted as floats, so nothing wraps around. */
td_tensor *td_op_isclose(td_tensor *self, td_tensor *other, double rtol, double atol, bool equal_nan)
{
    if (self->dtype != other->dtype)
        return td_fail(TD_E_RUNTIME, "%s did not match %s", td_dtype_title((td_dtype)self->dtype),
                       td_dtype_title((td_dtype)other->dtype));
    if (!(rtol >= 0) || !(atol >= 0))
        return td_fail(TD_E_RUNTIME, "%s must be greater than or equal to zero, but got %g", rtol >= 0 ? "atol" : "rtol",
                       rtol >= 0 ? atol : rtol);
    TD_AUTO td_tensor *close = td_eq(self, other);
    if (equal_nan && close && (td_dtype_is_floating((td_dtype)self->dtype) || td_dtype_is_complex((td_dtype)self->dtype))) {
        TD_AUTO td_tensor *a = td_isnan(self), *both = NULL;
        TD_AUTO td_tensor *b = td_isnan(other);
        both = td_logical_and(a, b);
        td_tensor *either = td_logical_or(close, both);
        td_tensor_release(close);
        close = either;
    }
    if (rtol == 0 && atol == 0)
        return td_tensor_retain(close);
    bool integral = !td_dtype_is_floating((td_dtype)self->dtype) && !td_dtype_is_complex((td_dtype)self->dtype);
    TD_AUTO td_tensor *x = integral ? td_to(self, td_default_dtype()) : td_tensor_retain(self);
    TD_AUTO td_tensor *y = integral ? td_to(other, td_default_dtype()) : td_tensor_retain(other);
    TD_AUTO td_tensor *size = td_abs(y);
    TD_AUTO td_tensor *relative = td_mul_number(size, rtol);
    TD_AUTO td_tensor *allowed = td_add_number(relative, atol);
    TD_AUTO td_tensor *difference = td_sub(x, y);
    TD_AUTO td_tensor *error = td_abs(difference);
    TD_AUTO td_tensor *finite = td_isfinite(error);
    TD_AUTO td_tensor *within = td_le(error, allowed);
    TD_AUTO td_tensor *near = td_logical_and(finite, within);
    return td_logical_or(close, near);
}

int td_op_allclose(bool *results, td_tensor *self, td_tensor *other, double rtol, double atol, bool equal_nan)
{
    TD_AUTO td_tensor *close = td_isclose(self, other, rtol, atol, equal_nan);
    return all_true(results, close);
}

/* ---- all, any and extremes under their internal names */

td_tensor *td_op__is_all_true(td_tensor *self)
{
    return self->dtype == TD_BOOL ? td_all_all(self) : td_fail(TD_E_RUNTIME, "_is_all_true: self must be bool, got %s", td_dtype_title((td_dtype)self->dtype));
}
td_tensor *td_op__is_any_true(td_tensor *self)
{
    return self->dtype == TD_BOOL ? td_any_all(self) : td_fail(TD_E_RUNTIME, "_is_any_true: self must be bool, got %s", td_dtype_title((td_dtype)self->dtype));
}
td_tensor *td_op__all_members(td_tensor *self) { return td_clone(self); }
int td_op__aminmax(td_tensor **results, td_tensor *self) { return td_aminmax(results, self, NULL, false); }
int td_op__aminmax_dim(td_tensor **results, td_tensor *self, int64_t dim, bool keepdim) { return td_aminmax(results, self, &dim, keepdim); }
