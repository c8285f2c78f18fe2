/* sort, argsort, msort, topk, kthvalue, median, mode: the shapes and dtypes of their results (td_meta_...) and those that
 * others are made of; quantile and nanquantile in full. The kernels are src/kernels/cpu/sort/operators.c; unique is
 * ops/index/unique.c, searchsorted ops/index/search.c. */

#include "calls_ops_index_sort.h"
#include <math.h>
#include <string.h>
#include "dispatch/outputs.h"
#include "ops/compose.h"
#include "ops/index/index.h"
#include "ops/reduce/reduce.h"

static int check_ordered(const char *op, const td_tensor *self)
{
    if (td_dtype_is_complex((td_dtype)self->dtype))
        return td_error(TD_E_RUNTIME, "Sort does not support complex dtypes on CPU (%s got %s)", op,
                        td_dtype_title((td_dtype)self->dtype));
    return 0;
}

int td_meta_sort_dim(td_spec *specs, td_tensor *self, int64_t dim, bool descending)
{
    (void)descending;
    if (td_wrap_dim(dim, self->ndim) < 0 || check_ordered("sort", self))
        return -1;
    td_spec_like(&specs[0], self);
    return td_spec_set(&specs[1], self->ndim, self->sizes, TD_I64, self->device);
}
int td_meta_sort_stable(td_spec *specs, td_tensor *self, const bool *stable, int64_t dim, bool descending)
{
    (void)stable;
    return td_meta_sort_dim(specs, self, dim, descending);
}

/* argsort is always stable: one algorithm serves both forms, and PyTorch promises no order of equal elements for the other. */
td_tensor *td_op_argsort_stable(td_tensor *self, bool stable, int64_t dim, bool descending)
{
    td_tensor *pair[2];
    if (td_sort_stable(pair, self, &stable, dim, descending))
        return NULL;
    td_tensor_release(pair[0]);
    return pair[1];
}
td_tensor *td_op_argsort(td_tensor *self, int64_t dim, bool descending)
{
    return td_op_argsort_stable(self, false, dim, descending);
}
td_tensor *td_op_msort(td_tensor *self)
{
    td_tensor *pair[2];
    if (td_sort_dim(pair, self, 0, false))
        return NULL;
    td_tensor_release(pair[1]);
    return pair[0];
}

/* The results have size k along dim. A 0-dim tensor has one element and stays 0-dim, for k = 0, too. */
int td_meta_topk(td_spec *specs, td_tensor *self, int64_t k, int64_t dim, bool largest, bool sorted)
{
    (void)largest, (void)sorted;
    int d = td_wrap_dim(dim, self->ndim);
    if (d < 0 || check_ordered("topk", self))
        return -1;
    if (k < 0 || k > (self->ndim ? self->sizes[d] : 1))
        return td_error(TD_E_RUNTIME, "selected index k out of range");
    int64_t sizes[TD_MAX_DIMS];
    memcpy(sizes, self->sizes, sizeof(int64_t) * self->ndim);
    if (self->ndim)
        sizes[d] = k;
    td_spec_set(&specs[0], self->ndim, sizes, (td_dtype)self->dtype, self->device);
    return td_spec_set(&specs[1], self->ndim, sizes, TD_I64, self->device);
}

/* One element of each row and its index. An empty row has none, which is an error; an empty tensor with rows of other sizes
 * isn't. */
static int meta_one(const char *op, td_spec *specs, td_tensor *self, int64_t dim, bool keepdim)
{
    bool mask[TD_MAX_DIMS];
    if ((self->ndim && self->numel && check_ordered(op, self)) || td_reduce_mask(self, 1, &dim, false, mask))
        return -1;
    int d = td_wrap_dim(dim, self->ndim);
    if (self->ndim && self->sizes[d] == 0)
        return td_error(TD_E_INDEX, "%s(): Expected reduction dim %d to have non-zero size.", op, d);
    td_reduce_spec(&specs[0], self, mask, keepdim, (td_dtype)self->dtype);
    return td_reduce_spec(&specs[1], self, mask, keepdim, TD_I64);
}
/* k counts from 1, the smallest element. meta_one has checked dim, so wrapping it again can't fail. */
int td_meta_kthvalue(td_spec *specs, td_tensor *self, int64_t k, int64_t dim, bool keepdim)
{
    if (meta_one("kthvalue", specs, self, dim, keepdim))
        return -1;
    if (k < 1 || k > (self->ndim ? self->sizes[td_wrap_dim(dim, self->ndim)] : 1))
        return td_error(TD_E_RUNTIME, "kthvalue(): selected number k out of range for dimension %lld", (long long)dim);
    return 0;
}
int td_out_check_kthvalue(td_tensor *self, int64_t k, int64_t dim, bool keepdim, td_tensor *values, td_tensor *indices)
{
    (void)k, (void)dim, (void)keepdim;
    if (values->dtype != self->dtype)
        return td_error(TD_E_RUNTIME, "output values must be of same type as input");
    if (indices->dtype != TD_I64)
        return td_error(TD_E_RUNTIME, "output indices must be of scalar type Long");
    return td_check_apart(values, self) || td_check_apart(indices, self);
}
int td_meta_median_dim(td_spec *specs, td_tensor *self, int64_t dim, bool keepdim)
{
    return meta_one("median", specs, self, dim, keepdim);
}
int td_meta_nanmedian_dim(td_spec *specs, td_tensor *self, int64_t dim, bool keepdim)
{
    return meta_one("median", specs, self, dim, keepdim);
}
int td_meta_mode(td_spec *specs, td_tensor *self, int64_t dim, bool keepdim)
{
    return meta_one("mode", specs, self, dim, keepdim);
}
int td_meta_median_all(td_spec *specs, td_tensor *self)
{
    return self->numel && check_ordered("median", self) ? -1 : td_spec_set(specs, 0, NULL, (td_dtype)self->dtype, self->device);
}
int td_meta_nanmedian_all(td_spec *specs, td_tensor *self) { return td_meta_median_all(specs, self); }

/* ---- quantiles: sort, then interpolate between the two neighbours of each rank */

/* Ranks are whole numbers in the values' floating dtype: [..., q] of them into sorted rows [..., n]. */
static td_tensor *pick(td_tensor *sorted, td_tensor *ranks)
{
    TD_AUTO td_tensor *at = td_to(ranks, TD_I64);
    return td_gather(sorted, -1, at, false);
}

/* The five interpolations, which NumPy has too. "linear" and "midpoint" are low + (high - low) * weight, by lerp, whose
 * gradient goes to both neighbours; a rank that is whole has both neighbours equal, so nothing is interpolated there. */
static td_tensor *interpolated(td_tensor *sorted, td_tensor *ranks, const char *how)
{
    TD_AUTO td_tensor *below = NULL;
    if (!strcmp(how, "nearest")) {
        TD_AUTO td_tensor *nearest = td_round(ranks);
        return pick(sorted, nearest);
    }
    if (!strcmp(how, "higher")) {
        TD_AUTO td_tensor *above = td_ceil(ranks);
        return pick(sorted, above);
    }
    below = td_floor(ranks);
    if (!strcmp(how, "lower"))
        return pick(sorted, below);
    TD_AUTO td_tensor *above = td_ceil(ranks);
    TD_AUTO td_tensor *low = pick(sorted, below);
    TD_AUTO td_tensor *high = pick(sorted, above);
    TD_AUTO td_tensor *part = td_sub(ranks, below);
    TD_AUTO td_tensor *half = !strcmp(how, "midpoint") ? td_full_like(ranks, td_float(0.5), TD_DTYPE_NONE, TD_DEVICE_NONE,
                                                                       TD_MEMORY_FORMAT_NONE) : td_tensor_retain(part);
    return td_lerp_tensor(low, high, half);
}

/* 0, or -1 with PyTorch's error. */
static int check_quantile(const td_tensor *self, td_tensor *q, const char *how)
{
    static const char *const words[] = {"linear", "lower", "higher", "midpoint", "nearest"};
    bool known = false;
    for (int i = 0; i < 5; i++)
        known |= !strcmp(how, words[i]);
    if (self->numel == 0)
        return td_error(TD_E_RUNTIME, "quantile() input tensor must be non-empty");
    if (q->ndim > 1)
        return td_error(TD_E_RUNTIME, "quantile() q must be a scalar or 1D tensor");
    if (self->dtype != TD_F32 && self->dtype != TD_F64)
        return td_error(TD_E_RUNTIME, "quantile() input tensor must be either float or double dtype");
    if (q->dtype != self->dtype)
        return td_error(TD_E_RUNTIME, "quantile() q tensor must be same dtype as the input tensor");
    if (!known)
        return td_error(TD_E_RUNTIME, "quantile() interpolation must be one of linear, lower, higher, midpoint or nearest, but got "
                        "%s", how);
    if (q->numel && q->device.type != TD_META && !td_tensor_is_hollow(q)) {        /* a class's own elements aren't looked at, as in PyTorch */
        TD_AUTO td_tensor *all = td_with_values(q);
        bool looked_at = all && !td_has_no_elements(all);
        TD_AUTO td_tensor *low = looked_at ? td_amin(all, 0, NULL, false) : NULL, *high = looked_at ? td_amax(all, 0, NULL, false) : NULL;
        td_scalar a, b;
        if (!all || (looked_at && (!low || !high || td_tensor_item(low, &a) || td_tensor_item(high, &b))))
            return -1;
        if (looked_at && (!(a.d >= 0) || !(b.d <= 1)))
            return td_error(TD_E_RUNTIME, "quantile() q values must be in the range [0, 1]");
    }
    return 0;
}

/* q times the number of elements less one, of each row, whose length is n. With skip_nan, n is how many elements of the row aren't NaN, which sort
 * first; a row of NaN alone has rank 0, which is NaN. Otherwise a NaN in a row makes all its ranks the last, where sorting put it. */
static td_tensor *ranks_of(td_tensor *q, td_tensor *rows, bool skip_nan)
{
    const int64_t last = rows->ndim - 1, n = rows->sizes[last];
    TD_AUTO td_tensor *nan = td_isnan(rows);
    TD_AUTO td_tensor *flat_q = td_reshape(q, 1, (int64_t[]){-1});
    if (skip_nan) {
        TD_AUTO td_tensor *there = td_logical_not(nan);
        TD_AUTO td_tensor *count = td_sum_dim(there, 1, &last, true);
        TD_AUTO td_tensor *most = td_add_number(count, -1);
        TD_AUTO td_tensor *same = most ? td_to(most, (td_dtype)rows->dtype) : NULL;
        TD_AUTO td_tensor *product = td_mul(flat_q, same);
        TD_AUTO td_tensor *zero = td_wrapped_number(td_float(0));
        return td_maximum(product, zero);
    }
    TD_AUTO td_tensor *product = td_mul_number(flat_q, (double)(n - 1));
    TD_AUTO td_tensor *bad = td_any_dim(nan, last, true);
    TD_AUTO td_tensor *end = td_wrapped_number(td_float((double)(n - 1)));
    return td_where(bad, end, product);        /* NaN is last */
}

/* Values of rows, whose last dimension is q's, where the result has them: `dim` goes, or has size 1, and q's stays last. */
static td_tensor *placed_values(td_tensor *values, const td_tensor *self, bool one_dim, int d, bool keepdim)
{
    if (!one_dim && keepdim) {
        int64_t sizes[TD_MAX_DIMS + 1];             /* more dimensions than a tensor may have are refused by reshape */
        for (int k = 0; k < self->ndim; k++)
            sizes[k] = 1;
        sizes[self->ndim] = values->sizes[0];
        return td_reshape(values, self->ndim + 1, sizes);
    }
    if (!one_dim || !self->ndim)
        return td_tensor_retain(values);
    TD_AUTO td_tensor *back = td_unsqueeze(values, -1);
    /* back is (..., last dim at position d, ..., q, 1): exchange so that the 1 stands at d and q at the end. */
    int64_t order[TD_MAX_DIMS];
    int r = back ? back->ndim : 0;
    for (int k = 0; k < r; k++)
        order[k] = k;
    if (r) {
        order[d] = r - 1;                       /* the 1 */
        if (d != r - 2)
            order[r - 2] = d;                   /* what the transposition had put at d */
        order[r - 1] = r - 2;                   /* q */
    }
    TD_AUTO td_tensor *placed = back ? td_permute(back, r, order) : NULL;
    return keepdim ? td_tensor_retain(placed) : td_squeeze_dim(placed, d);
}

/* PyTorch's quantile_compute: q becomes ranks q * (n - 1) of sorted rows; all is made of differentiable operators, so
 * gradients need no formula. */
static td_tensor *quantile(td_tensor *self, td_tensor *q, const int64_t *dim, bool keepdim, const char *how, bool skip_nan)
{
    if (check_quantile(self, q, how))
        return NULL;
    int d = dim ? td_wrap_dim(*dim, self->ndim) : 0;
    if (d < 0)
        return NULL;
    TD_AUTO td_tensor *rows = !dim ? td_reshape(self, 1, (int64_t[]){-1})
                            : self->ndim == 0 ? td_unsqueeze(self, 0) : td_transpose(self, d, -1);
    td_tensor *pair[2];
    if (!rows || td_sort_dim(pair, rows, -1, false))
        return NULL;
    TD_AUTO td_tensor *sorted = pair[0];
    td_tensor_release(pair[1]);
    if (rows->sizes[rows->ndim - 1] > INT64_C(1) << 24)      /* a rank in float32 would not name each element */
        return td_fail(TD_E_RUNTIME, "quantile() input tensor is too large");
    TD_AUTO td_tensor *ranks = ranks_of(q, rows, skip_nan);
    TD_AUTO td_tensor *values = ranks ? interpolated(sorted, ranks, how) : NULL;
    TD_AUTO td_tensor *shaped = values ? placed_values(values, self, dim, d, keepdim) : NULL;
    TD_AUTO td_tensor *dense = shaped ? td_clone_format(shaped, TD_CONTIGUOUS_FORMAT) : NULL;
    /* A last dimension for q goes to the front; or away, if q is a number.  In place, since the result is no view of what nobody has. */
    int status = !dense ? -1 : q->ndim == 0 ? td_squeeze_dim_(dense, -1) : 0;
    for (int k = dense ? dense->ndim - 1 : 0; q->ndim && k > 0 && status == 0; k--)
        status = td_transpose_(dense, k, k - 1);
    return status ? NULL : td_tensor_retain(dense);
}

td_tensor *td_op_quantile(td_tensor *self, td_tensor *q, const int64_t *dim, bool keepdim, const char *interpolation)
{
    return quantile(self, q, dim, keepdim, interpolation, false);
}
td_tensor *td_op_nanquantile(td_tensor *self, td_tensor *q, const int64_t *dim, bool keepdim, const char *interpolation)
{
    return quantile(self, q, dim, keepdim, interpolation, true);
}
/* The number is rounded to self's dtype, as a tensor q would have to be given in it. A NaN fails the check of the range. */
static td_tensor *of_number(td_tensor *self, double q, const int64_t *dim, bool keepdim, const char *how, bool skip_nan)
{
    if (!(q >= 0 && q <= 1))
        return td_fail(TD_E_RUNTIME, "quantile() q must be in the range [0, 1] but got %g", q);
    TD_AUTO td_tensor *number = td_full(0, NULL, td_float(q), (td_dtype)self->dtype, self->device);
    return number ? quantile(self, number, dim, keepdim, how, skip_nan) : NULL;
}
td_tensor *td_op_quantile_scalar(td_tensor *self, double q, const int64_t *dim, bool keepdim, const char *interpolation)
{
    return of_number(self, q, dim, keepdim, interpolation, false);
}
td_tensor *td_op_nanquantile_scalar(td_tensor *self, double q, const int64_t *dim, bool keepdim, const char *interpolation)
{
    return of_number(self, q, dim, keepdim, interpolation, true);
}
