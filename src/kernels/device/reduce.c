/* Reductions on devices: reduce.ck, reduce_exp.ck.
 *
 * Dimensions, kept and reduced, are ordered by the operand's strides and merged, so that few are left.  What goes through the engine with which
 * dtypes is as on the CPU (src/kernels/cpu/reduce/operators.c): sums of floats in float32 or float64, of integers in int64, extremes in
 * their own. */
#include "calls_kernels_device_reduce.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "kernels/device/reduce.h"
#include "ops/reduce/reduce.h"

TD_SOURCE(reduce);
TD_SOURCE(reduce_exp);

enum { STATE = 32 };        /* bytes of a state, at most */

/* Strides of a result along the kept dimensions: without the reduced ones, or with size 1 for them. */
static void result_strides(const td_tensor *x, const td_tensor *out, const bool *mask, int64_t *strides)
{
    const bool kept = out != TD_NONE && out->ndim == x->ndim;
    for (int d = 0, k = 0; d < x->ndim; d++)
        if (!mask[d])
            *strides++ = out == TD_NONE ? 0 : out->strides[kept ? d : k++];
}

static bool shape_of(reduce_values *v, const td_tensor *x, const bool *mask, const td_fold *j)
{
    int64_t sizes[2][TD_MAX_DIMS], kept[3][TD_MAX_DIMS], reduced[1][TD_MAX_DIMS];      /* kept: of x and both results */
    int n[2] = {0, 0};
    for (int d = 0; d < x->ndim; d++) {
        sizes[mask[d]][n[mask[d]]] = x->sizes[d];
        (mask[d] ? reduced : kept)[0][n[mask[d]]++] = x->strides[d];
    }
    result_strides(x, j->out, mask, kept[1]);
    result_strides(x, j->second, mask, kept[2]);
    return td_axes_of(&v->kept, n[0], sizes[0], 3, kept) && td_axes_of(&v->reduced, n[1], sizes[1], 1, reduced);
}

static int64_t innermost(const axes *a) { return a->ndim ? llabs(a->strides[0][a->ndim - 1]) : INT64_MAX; }

/* Whether all strides but the innermost one of `inner` are multiples of a pack, and it is 1. */
static bool packs_fit(const td_tensor *x, const axes *inner, const axes *outer, int pack)
{
    bool fit = (uintptr_t)x->data % 16 == 0 && inner->ndim && inner->strides[0][inner->ndim - 1] == 1;
    for (int d = 0; d + 1 < inner->ndim; d++)
        fit = fit && inner->strides[0][d] % pack == 0;
    for (int d = 0; d < outer->ndim; d++)
        fit = fit && outer->strides[0][d] % pack == 0;
    return fit;
}

typedef struct shared { bool columns; int pack, team; } shared;

/* Memory is read in lines, so the lanes of a team must be neighbours where it is contiguous: along the reduced dimensions if those are
 * innermost (rows), else along the kept ones, with each lane reducing an output of its own (columns).  Teams of a row grow until each
 * lane has enough to read; where outputs are few, also beyond that.
 *
 * Teams, and parts of outputs: as many as keep the device busy, three groups for each of its units, which have registers for so many. */
static shared share_work(reduce_values *v, const td_device_properties *device, td_tensor *x)
{
    shared s = {.columns = innermost(&v->kept) < innermost(&v->reduced) && v->reduced.count > 1, .team = 1};
    const axes *inner = s.columns ? &v->kept : &v->reduced, *outer = s.columns ? &v->reduced : &v->kept;
    const int64_t inside = inner->ndim ? inner->sizes[inner->ndim - 1] : 1, groups = (int64_t)device->units * 3, outputs = v->kept.count;
    s.pack = td_launch_pack(inner->ndim > 1 || s.columns ? inside : 0, (td_tensor *[]){x, NULL});
    s.pack = packs_fit(x, inner, outer, s.pack) ? s.pack : 1;
    const int64_t packs = inner->count / s.pack, n = v->reduced.count;
    int64_t units, each;
    if (s.columns) {
        while (s.team < 32 && s.team < packs && s.team < device->lanes)
            s.team *= 2;
        while (s.team < device->lanes && n * s.team < device->lanes)            /* few rows */
            s.team *= 2;
        units = (packs + s.team - 1) / s.team, each = 4 * device->lanes / s.team;
    } else {
        const bool few = outputs < groups * device->lanes / 32;
        while (s.team < device->lanes && s.team * (s.team < 32 ? 1 : few ? 4 : 32) < packs)
            s.team *= 2;
        units = (outputs * s.team + device->lanes - 1) / device->lanes, each = 8 * s.pack * s.team;
    }
    v->parts = units && units < groups ? groups / units : 1;
    v->parts = v->parts < n / each ? v->parts : n / each;
    v->parts = v->parts > 1 ? v->parts : 1;
    return s;
}

int td_fold_on_device(const td_fold *j, td_tensor *self, const bool *mask)
{
    reduce_values v = {.after = j->after, .first = j->out != TD_NONE, .second = j->second != TD_NONE, .p = td_number(j->p)};
    td_tensor *some = v.first ? j->out : j->second;
    const td_device_properties *device = td_device_known(self->device);
    TD_AUTO td_tensor *x = td_tensor_retain(self);
    if (!device || some->numel == 0)
        return device ? 0 : -1;
    if (!shape_of(&v, x, mask, j)) {
        td_tensor_release(x);
        x = td_make_contiguous(self);
        if (!x || !shape_of(&v, x, mask, j))
            return x ? td_leave_to_cpu("too many dimensions") : -1;
    }
    const shared s = share_work(&v, device, x);
    /* States of parts are kept apart and joined by a second kernel in their order, so that the result doesn't depend on which group is
     * done first. */
    const int64_t bytes = STATE * v.kept.count * v.parts;
    TD_AUTO td_tensor *partial = v.parts > 1 ? td_tensor_new(1, &bytes, TD_U8, x->device) : td_tensor_retain(TD_NONE);
    if (!partial)
        return -1;
    const bool exponentials = j->kind == REDUCE_LSE || j->kind == REDUCE_POWERS;
    const td_dtype of = (td_dtype)some->dtype;
    const int64_t teams = device->lanes / s.team;
    td_launch_of launch = {
        .source = exponentials ? td_source_reduce_exp : td_source_reduce, .kernel = s.columns ? "reduce_columns" : "reduce_rows", TD_VALUES(v),
        .types = {{"A", (td_dtype)x->dtype}, {"C", j->compute}, {"B", of}, {"D", v.second ? (td_dtype)j->second->dtype : of}},
        .complex = j->kind <= REDUCE_PROD, .numbers = {{"KIND", j->kind}, {"PACK", s.pack}, {"TEAM", s.team}},
        .buffers = {x, v.first ? j->out : some, v.second ? j->second : some, partial},
        .groups = td_launch_many(x->device, s.columns ? (v.kept.count / s.pack + s.team - 1) / s.team * v.parts
                                                      : (v.kept.count * v.parts + teams - 1) / teams),
    };
    if (td_launch(&launch))
        return -1;
    if (v.parts == 1)
        return 0;
    const int64_t team = v.kept.count >= (int64_t)device->units * 32 ? 1 : v.parts > 32 || device->lanes < 32 ? device->lanes : 32;
    launch.kernel = "reduce_parts", launch.numbers[2].value = team;
    launch.groups = td_launch_many(x->device, (v.kept.count * team + device->lanes - 1) / device->lanes);
    launch.buffers[0] = partial, launch.buffers[3] = NULL;
    return td_launch(&launch);
}

/* What numbers are folded in. */
static td_dtype compute_of(td_dtype dtype) { return td_dtype_is_complex(dtype) || dtype == TD_F64 ? dtype : td_dtype_is_floating(dtype) ? TD_F32 : TD_I64; }

static bool is_complex(const td_tensor *x) { return td_dtype_is_complex((td_dtype)x->dtype); }

/* x in a dtype, unless elements are converted to it as they are read. */
static td_tensor *prepared(td_tensor *x, td_dtype dtype)
{
    const bool complex = is_complex(x) || td_dtype_is_complex(dtype);
    return x->dtype == (int8_t)dtype || (compute_of(dtype) == dtype && !complex && !(td_dtype_is_floating((td_dtype)x->dtype) && dtype == TD_I64))
               ? td_tensor_retain(x) : td_as_contiguous(x, dtype);
}

/* ---- sums and products: in the result's dtype */

static int sum_like(int kind, int after, td_tensor *self, int64_t n_dim, const int64_t *dim, td_tensor *out)
{
    bool mask[TD_MAX_DIMS];
    const td_dtype dtype = (td_dtype)out->dtype;
    const td_fold j = {.kind = kind, .after = after, .compute = compute_of(dtype), .out = out, .second = TD_NONE};
    TD_AUTO td_tensor *x = prepared(self, dtype);
    return !x || td_reduce_mask(x, n_dim, dim, true, mask) ? -1 : td_fold_on_device(&j, x, mask);
}
int td_on_device_sum_dim_intlist(td_tensor *self, int64_t n_dim, const int64_t *dim, bool keepdim, td_dtype dtype, td_tensor *out0)
{
    (void)keepdim, (void)dtype;
    return sum_like(REDUCE_SUM, AFTER_NOTHING, self, n_dim, dim, out0);
}
/* NaN counts as 0; where the result is an integer that has to be done before numbers are converted. */
int td_on_device_nansum(td_tensor *self, int64_t n_dim, const int64_t *dim, bool keepdim, td_dtype dtype, td_tensor *out0)
{
    (void)keepdim, (void)dtype;
    TD_AUTO td_tensor *x = td_dtype_is_floating((td_dtype)self->dtype) && !td_dtype_is_floating((td_dtype)out0->dtype)
                               ? td_nan_to_num(self, (const double[]){0}, (const double[]){INFINITY}, (const double[]){-INFINITY}) : td_tensor_retain(self);
    return x ? sum_like(is_complex(out0) ? REDUCE_SUM : REDUCE_NANSUM, AFTER_NOTHING, x, n_dim, dim, out0) : -1;
}
int td_on_device_mean_dims(td_tensor *self, int64_t n_dim, const int64_t *dim, bool keepdim, td_dtype dtype, td_tensor *out0)
{
    (void)keepdim, (void)dtype;
    return sum_like(REDUCE_SUM, AFTER_MEAN, self, n_dim, dim, out0);
}
int td_on_device_prod_dim_int(td_tensor *self, int64_t dim, bool keepdim, td_dtype dtype, td_tensor *out0)
{
    (void)keepdim, (void)dtype;
    return sum_like(REDUCE_PROD, AFTER_NOTHING, self, 1, &dim, out0);
}
int td_on_device_prod(td_tensor *self, td_dtype dtype, td_tensor *out0)
{
    (void)dtype;
    return sum_like(REDUCE_PROD, AFTER_NOTHING, self, -1, NULL, out0);
}

/* ---- extremes: in the operand's dtype */

static int extreme(int kind, td_tensor *self, int64_t n_dim, const int64_t *dim, td_tensor *out, td_tensor *second)
{
    bool mask[TD_MAX_DIMS];
    const td_fold j = {.kind = kind, .compute = (td_dtype)self->dtype, .out = out, .second = second};
    return td_reduce_mask(self, n_dim, dim, true, mask) ? -1 : td_fold_on_device(&j, self, mask);
}
int td_on_device_amax(td_tensor *self, int64_t n_dim, const int64_t *dim, bool keepdim, td_tensor *out0)
{
    (void)keepdim;
    return extreme(REDUCE_MAX, self, n_dim, dim, out0, TD_NONE);
}
int td_on_device_amin(td_tensor *self, int64_t n_dim, const int64_t *dim, bool keepdim, td_tensor *out0)
{
    (void)keepdim;
    return extreme(REDUCE_MIN, self, n_dim, dim, out0, TD_NONE);
}
int td_on_device_max_all(td_tensor *self, td_tensor *out0) { return extreme(REDUCE_MAX, self, -1, NULL, out0, TD_NONE); }
int td_on_device_min_all(td_tensor *self, td_tensor *out0) { return extreme(REDUCE_MIN, self, -1, NULL, out0, TD_NONE); }
int td_on_device_aminmax(td_tensor *self, const int64_t *dim, bool keepdim, td_tensor *out0, td_tensor *out1)
{
    (void)keepdim;
    return extreme(REDUCE_MINMAX, self, dim ? 1 : -1, dim, out0, out1);
}
/* Without `dim` the index counts through the elements in their order. */
static int where_extreme(int kind, td_tensor *self, const int64_t *dim, td_tensor *values, td_tensor *indices)
{
    if (dim)
        return extreme(kind, self, 1, dim, values, indices);
    const int64_t one = 1;
    TD_AUTO td_tensor *whole = td_make_contiguous(self);
    TD_AUTO td_tensor *flat = whole ? td_view_strided(whole, 1, &whole->numel, &one, 0) : NULL;
    TD_AUTO td_tensor *index = td_view_strided(indices, 0, NULL, NULL, 0);      /* keepdim: of any number of dimensions */
    return flat && index ? extreme(kind, flat, -1, NULL, values, index) : -1;
}
int td_on_device_max_dim(td_tensor *self, int64_t dim, bool keepdim, td_tensor *out0, td_tensor *out1)
{
    (void)keepdim;
    return where_extreme(REDUCE_ARGMAX, self, &dim, out0, out1);
}
int td_on_device_min_dim(td_tensor *self, int64_t dim, bool keepdim, td_tensor *out0, td_tensor *out1)
{
    (void)keepdim;
    return where_extreme(REDUCE_ARGMIN, self, &dim, out0, out1);
}
int td_on_device_argmax(td_tensor *self, const int64_t *dim, bool keepdim, td_tensor *out0)
{
    (void)keepdim;
    return where_extreme(REDUCE_ARGMAX, self, dim, TD_NONE, out0);
}
int td_on_device_argmin(td_tensor *self, const int64_t *dim, bool keepdim, td_tensor *out0)
{
    (void)keepdim;
    return where_extreme(REDUCE_ARGMIN, self, dim, TD_NONE, out0);
}

/* ---- counts */

static int count(int after, td_tensor *self, int64_t n_dim, const int64_t *dim, bool empty_is_all, td_tensor *out)
{
    bool mask[TD_MAX_DIMS];
    const td_fold j = {.kind = REDUCE_COUNT, .after = after, .compute = TD_I64, .out = out, .second = TD_NONE};
    return td_reduce_mask(self, n_dim, dim, empty_is_all, mask) ? -1 : td_fold_on_device(&j, self, mask);
}
int td_on_device_any_all(td_tensor *self, td_tensor *out0) { return count(AFTER_ANY, self, -1, NULL, false, out0); }
int td_on_device_all_all(td_tensor *self, td_tensor *out0) { return count(AFTER_ALL, self, -1, NULL, false, out0); }
int td_on_device_any_dim(td_tensor *self, int64_t dim, bool keepdim, td_tensor *out0)
{
    (void)keepdim;
    return count(AFTER_ANY, self, 1, &dim, false, out0);
}
int td_on_device_all_dim(td_tensor *self, int64_t dim, bool keepdim, td_tensor *out0)
{
    (void)keepdim;
    return count(AFTER_ALL, self, 1, &dim, false, out0);
}
int td_on_device_any_dims(td_tensor *self, int64_t n_dim, const int64_t *dim, bool keepdim, td_tensor *out0)
{
    (void)keepdim;
    return count(AFTER_ANY, self, n_dim, dim, false, out0);
}
int td_on_device_all_dims(td_tensor *self, int64_t n_dim, const int64_t *dim, bool keepdim, td_tensor *out0)
{
    (void)keepdim;
    return count(AFTER_ALL, self, n_dim, dim, false, out0);
}
int td_on_device_count_nonzero_dim_intlist(td_tensor *self, int64_t n_dim, const int64_t *dim, td_tensor *out0)
{
    return count(AFTER_NOTHING, self, n_dim, dim, true, out0);
}

/* ---- variances, norms, logsumexp */

/* The variances of both parts, added: E|x - mean|^2. */
static int complex_variance(const td_fold *j, td_tensor *self, bool *mask)
{
    int64_t sizes[TD_MAX_DIMS];
    bool last[TD_MAX_DIMS] = {false};
    memcpy(sizes, j->out->sizes, sizeof *sizes * (size_t)j->out->ndim);
    sizes[j->out->ndim] = 2;
    TD_AUTO td_tensor *parts = td_view_as_real(self), *means = j->second == TD_NONE ? td_tensor_retain(TD_NONE) : td_view_as_real(j->second);
    TD_AUTO td_tensor *two = td_tensor_new(j->out->ndim + 1, sizes, (td_dtype)j->out->dtype, self->device);
    td_fold each = *j, both = {.kind = REDUCE_SUM, .after = j->after, .compute = (td_dtype)j->out->dtype, .out = j->out, .second = TD_NONE};
    each.after = AFTER_NOTHING, each.compute = both.compute, each.out = two, each.second = means;
    mask[self->ndim] = false, last[j->out->ndim] = true;
    return !parts || !means || !two || td_fold_on_device(&each, parts, mask) || td_fold_on_device(&both, two, last) ? -1 : 0;
}

static int variance(int after, td_tensor *self, int64_t n_dim, const int64_t *dim, const td_scalar *correction, td_tensor *out,
                    td_tensor *mean)
{
    bool mask[TD_MAX_DIMS];
    const double by = correction ? td_scalar_double(*correction) : 1;
    const td_fold j = {.kind = REDUCE_VAR, .after = after, .compute = compute_of((td_dtype)self->dtype), .out = out, .second = mean, .p = by};
    if (td_reduce_mask(self, n_dim, dim, true, mask))
        return -1;
    return is_complex(self) ? complex_variance(&j, self, mask) : td_fold_on_device(&j, self, mask);
}
int td_on_device_var_correction(td_tensor *self, int64_t n_dim, const int64_t *dim, const td_scalar *correction, bool keepdim, td_tensor *out0)
{
    (void)keepdim;
    return variance(AFTER_NOTHING, self, n_dim, dim, correction, out0, TD_NONE);
}
int td_on_device_std_correction(td_tensor *self, int64_t n_dim, const int64_t *dim, const td_scalar *correction, bool keepdim, td_tensor *out0)
{
    (void)keepdim;
    return variance(AFTER_ROOT, self, n_dim, dim, correction, out0, TD_NONE);
}
int td_on_device_var_mean_correction(td_tensor *self, int64_t n_dim, const int64_t *dim, const td_scalar *correction, bool keepdim, td_tensor *out0,
                                     td_tensor *out1)
{
    (void)keepdim;
    return variance(AFTER_NOTHING, self, n_dim, dim, correction, out0, out1);
}
int td_on_device_std_mean_correction(td_tensor *self, int64_t n_dim, const int64_t *dim, const td_scalar *correction, bool keepdim, td_tensor *out0,
                                     td_tensor *out1)
{
    (void)keepdim;
    return variance(AFTER_ROOT, self, n_dim, dim, correction, out0, out1);
}

/* Largest, smallest, how many aren't 0, sum of magnitudes, root of squares; else (sum |x|^p)^(1/p), or |x| of a single x. */
int td_on_device_linalg_vector_norm(td_tensor *self, td_scalar ord, int64_t n_dim, const int64_t *dim, bool keepdim, td_dtype dtype, td_tensor *out0)
{
    (void)keepdim, (void)dtype;
    bool mask[TD_MAX_DIMS];
    if (td_reduce_mask(self, n_dim, dim, true, mask))
        return -1;
    const double p = td_scalar_double(ord);
    const int kind = p == INFINITY ? REDUCE_ABSMAX : p == -INFINITY ? REDUCE_ABSMIN : p == 0 ? REDUCE_COUNT
                   : p == 1 || td_reduce_count(self, mask) == 1 ? REDUCE_ABSSUM : p == 2 ? REDUCE_SQUARES : REDUCE_POWERS;
    const td_fold j = {.kind = kind, .after = kind == REDUCE_SQUARES ? AFTER_ROOT : AFTER_NOTHING, .compute = p == 0 ? TD_I64 : compute_of((td_dtype)out0->dtype),
                   .out = out0, .second = TD_NONE, .p = p};
    TD_AUTO td_tensor *sizes = is_complex(self) ? td_abs(self) : td_tensor_retain(self), *x = sizes ? prepared(sizes, (td_dtype)out0->dtype) : NULL;
    return x ? td_fold_on_device(&j, x, mask) : -1;
}
int td_on_device_logsumexp(td_tensor *self, int64_t n_dim, const int64_t *dim, bool keepdim, td_tensor *out0)
{
    (void)keepdim;
    if (is_complex(self))
        return td_complex_logsumexp(self, n_dim, dim, out0);
    return sum_like(REDUCE_LSE, AFTER_NOTHING, self, n_dim, dim, out0);
}
