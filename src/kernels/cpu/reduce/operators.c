/* Reductions on the CPU: each operator as a leaf of the engine and what becomes of its accumulators. */

#include "calls_kernels_cpu_reduce_operators.h"
#include <math.h>
#include <tede/kernel.h>
#include "base/base.h"
#include "kernels/cpu/reduce/reduce.h"
#include "ops/reduce/reduce.h"

/* What finish() makes of accumulators. */
typedef enum after {
    AS_REAL, AS_MEAN, AS_ROOT, AS_POWER, AS_VAR, AS_STD, AS_LSE, AS_INT, AS_ANY, AS_ALL, AS_ARG, AS_ARG_INT
} after;

/* Where results go: the context of finish(). */
typedef struct sink {
    after      what;
    td_tensor *out, *out2;      /* out2: of the mean beside a variance, of indices beside values */
    double     a;               /* an exponent, a correction */
} sink;

/* int64 or doubles to a row of the output, whatever it holds. */
static void store(td_tensor *out, td_dtype from, const void *values, int64_t cols, int64_t at, int64_t step)
{
    int64_t size = td_itemsize(out);
    td_convert((td_dtype)out->dtype, out->data + at * size, step * size, from, values, 8, cols);
}

/* Finished accumulators (reduce.h) become results: computed in double or int64, converted to what the output holds.  At most
 * TD_RED_TILE at a time. */
static void finish(void *context, const td_word *acc, int64_t cols, int64_t at, int64_t step, int64_t count)
{
    const sink *s = context;
    double real[TD_RED_TILE];
    int64_t whole[TD_RED_TILE];
    const td_word *second = acc + cols, *third = acc + 2 * cols;
    double degrees = (double)count - s->a > 0 ? (double)count - s->a : 0;
    switch (s->what) {
    case AS_INT:
        store(s->out, TD_I64, acc, cols, at, step);
        return;
    case AS_ANY:
    case AS_ALL:
        for (int64_t i = 0; i < cols; i++)
            whole[i] = s->what == AS_ANY ? acc[i].i > 0 : acc[i].i == count;
        store(s->out, TD_I64, whole, cols, at, step);
        return;
    case AS_ARG:
    case AS_ARG_INT:
        if (s->out)
            store(s->out, s->what == AS_ARG ? TD_F64 : TD_I64, acc, cols, at, step);
        store(s->out2, TD_I64, second, cols, at, step);
        return;
    case AS_REAL:
        store(s->out, TD_F64, acc, cols, at, step);
        return;
    case AS_MEAN:
        for (int64_t i = 0; i < cols; i++)
            real[i] = acc[i].d / (double)count;
        break;
    case AS_ROOT:
        for (int64_t i = 0; i < cols; i++)
            real[i] = acc[i].d;
        TD_ISA_PICK(td_reduce_table)->roots(real, cols);
        break;
    case AS_POWER:
        for (int64_t i = 0; i < cols; i++)
            real[i] = pow(acc[i].d, s->a);
        break;
    case AS_VAR:
    case AS_STD:
        for (int64_t i = 0; i < cols; i++)
            real[i] = count == 0 ? NAN : third[i].d / degrees;
        if (s->what == AS_STD)
            TD_ISA_PICK(td_reduce_table)->roots(real, cols);
        if (s->out2) {
            double mean[TD_RED_TILE];
            for (int64_t i = 0; i < cols; i++)
                mean[i] = count == 0 ? NAN : second[i].d;
            store(s->out2, TD_F64, mean, cols, at, step);
        }
        break;
    case AS_LSE:
        for (int64_t i = 0; i < cols; i++)
            real[i] = second[i].d;
        TD_ISA_PICK(td_reduce_table)->logs(real, cols);
        for (int64_t i = 0; i < cols; i++)
            real[i] += acc[i].d;
        break;
    }
    store(s->out, TD_F64, real, cols, at, step);
}

/* What numbers are folded in: float64 as it is, all other floating types as float32, integers and bool as int64. */
static td_dtype compute_of(td_dtype dtype)
{
    return dtype == TD_F64 || dtype == TD_C128 ? TD_F64
         : td_dtype_is_floating(dtype) || dtype == TD_C64 ? TD_F32 : TD_I64;
}

/* x as one of the engine's compute types, or as something that converts to it directly. */
static td_tensor *prepared(td_tensor *x, td_dtype dtype)
{
    return x->dtype == dtype || compute_of(dtype) == dtype ? td_tensor_retain(x) : td_as_contiguous(x, dtype);
}

/* A complex tensor as a real one with a last dimension of 2. */
static td_tensor *parts(td_tensor *x)
{
    int64_t sizes[TD_MAX_DIMS], strides[TD_MAX_DIMS];
    if (x->ndim + 1 > TD_MAX_DIMS)
        return td_fail(TD_E_RUNTIME, "complex tensors of %d dimensions can't be reduced", TD_MAX_DIMS);
    for (int d = 0; d < x->ndim; d++)
        sizes[d] = x->sizes[d], strides[d] = 2 * x->strides[d];
    sizes[x->ndim] = 2, strides[x->ndim] = 1;
    return td_view_as_dtype(x, td_dtype_to_real((td_dtype)x->dtype), x->ndim + 1, sizes, strides, 0);
}

static bool is_complex(const td_tensor *x) { return td_dtype_is_complex((td_dtype)x->dtype); }

/* A sum, product or mean of `self` into out; the leaf may be that of nansum.  Complex sums go part by part, as real ones with one
 * dimension more; a sum of bools is a count, for which bytes have a faster leaf. */
static int sum_like(td_reduction kind, after what, td_tensor *self, const bool *mask, td_tensor *out)
{
    TD_AUTO td_tensor *x = prepared(self, (td_dtype)out->dtype);
    if (!x)
        return -1;
    if (is_complex(out)) {
        TD_AUTO td_tensor *c = is_complex(x) && x->dtype == out->dtype ? td_tensor_retain(x)
                                                                       : td_as_contiguous(x, (td_dtype)out->dtype);
        TD_AUTO td_tensor *real = c ? parts(c) : NULL, *flat = parts(out);
        bool longer[TD_MAX_DIMS];
        memcpy(longer, mask, TD_MAX_DIMS);
        longer[self->ndim] = false;
        sink s = {.what = what, .out = flat};
        return real && flat ? td_reduce(kind, compute_of((td_dtype)real->dtype), real, longer, 0, finish, &s) : -1;
    }
    td_dtype compute = compute_of((td_dtype)out->dtype);
    sink s = {.what = compute == TD_I64 ? AS_INT : what, .out = out};
    if (compute == TD_I64 && x->dtype == TD_BOOL && kind != TD_RED_PROD)
        return td_reduce(TD_RED_COUNT, TD_U8, x, mask, 0, finish, &s);
    return td_reduce(kind, compute, x, mask, 0, finish, &s);
}

int td_cpu_sum_dim_intlist(td_tensor *self, int64_t n_dim, const int64_t *dim, bool keepdim, td_dtype dtype, td_tensor *out0)
{
    (void)keepdim, (void)dtype;
    bool mask[TD_MAX_DIMS];
    return td_reduce_mask(self, n_dim, dim, true, mask) || sum_like(TD_RED_SUM, AS_REAL, self, mask, out0) ? -1 : 0;
}
/* NaN counts as 0; where the result is an integer that has to be done before numbers are converted.  A complex result is that of
 * integers, which have none. */
int td_cpu_nansum(td_tensor *self, int64_t n_dim, const int64_t *dim, bool keepdim, td_dtype dtype, td_tensor *out0)
{
    (void)keepdim, (void)dtype;
    bool mask[TD_MAX_DIMS];
    TD_AUTO td_tensor *x = td_tensor_retain(self);
    if (td_dtype_is_floating((td_dtype)self->dtype) && !td_dtype_is_floating((td_dtype)out0->dtype)) {        /* integers don't know which of them was NaN */
        TD_AUTO td_tensor *nan = td_isnan(self);
        td_tensor_release(x);
        x = td_masked_fill_scalar(self, nan, td_int(0));
    }
    return !x || td_reduce_mask(self, n_dim, dim, true, mask) || sum_like(is_complex(out0) ? TD_RED_SUM : TD_RED_NANSUM, AS_REAL, x, mask, out0) ? -1 : 0;
}
/* A mean is a sum, divided once in double. */
int td_cpu_mean_dims(td_tensor *self, int64_t n_dim, const int64_t *dim, bool keepdim, td_dtype dtype, td_tensor *out0)
{
    (void)keepdim, (void)dtype;
    bool mask[TD_MAX_DIMS];
    return td_reduce_mask(self, n_dim, dim, true, mask) || sum_like(TD_RED_SUM, AS_MEAN, self, mask, out0) ? -1 : 0;
}

/* ---- products.  Complex ones are rare: the reduced dimensions come last in a copy. */

typedef struct { double re, im; } c128;

/* One loop in order, in double precision. */
static int complex_product(td_tensor *self, const bool *mask, td_tensor *out)
{
    int64_t sizes[TD_MAX_DIMS], strides[TD_MAX_DIMS], count = 1;
    int n = 0;
    for (int turn = 0; turn < 2; turn++)
        for (int d = 0; d < self->ndim; d++)
            if (mask[d] == turn) {
                sizes[n] = self->sizes[d], strides[n++] = self->strides[d];
                count *= turn ? self->sizes[d] : 1;
            }
    TD_AUTO td_tensor *view = td_view_strided(self, self->ndim, sizes, strides, 0);
    TD_AUTO td_tensor *x = view ? td_as_contiguous(view, TD_C128) : NULL;
    if (!x)
        return -1;
    const c128 *at = (const c128 *)x->data;
    for (int64_t i = 0; i < out->numel; i++) {
        c128 p = {1, 0};
        for (int64_t k = 0; k < count; k++, at++)
            p = (c128){p.re * at->re - p.im * at->im, p.re * at->im + p.im * at->re};
        td_convert((td_dtype)out->dtype, out->data + i * td_itemsize(out), td_itemsize(out), TD_C128, &p, 16, 1);
    }
    return 0;
}

/* prod of all or along a dimension. */
static int product(td_tensor *self, const bool *mask, td_tensor *out)
{
    return is_complex(out) ? complex_product(self, mask, out) : sum_like(TD_RED_PROD, AS_REAL, self, mask, out);
}
int td_cpu_prod_dim_int(td_tensor *self, int64_t dim, bool keepdim, td_dtype dtype, td_tensor *out0)
{
    (void)keepdim, (void)dtype;
    bool mask[TD_MAX_DIMS];
    return td_reduce_mask(self, 1, &dim, true, mask) || product(self, mask, out0) ? -1 : 0;
}
int td_cpu_prod(td_tensor *self, td_dtype dtype, td_tensor *out0)
{
    (void)dtype;
    bool mask[TD_MAX_DIMS];
    return td_reduce_mask(self, -1, NULL, true, mask) || product(self, mask, out0) ? -1 : 0;
}

/* ---- extremes */

/* The engine compares int64; uint64 keeps its order there with the highest bit flipped, and is flipped back. */
static void flip(td_tensor *x)
{
    for (int64_t i = 0; i < x->numel; i++)
        ((uint64_t *)x->data)[i] ^= UINT64_C(1) << 63;
}

/* x, or of uint64 a copy as int64 in the same order: a new reference. */
static td_tensor *in_order(td_tensor *x)
{
    if (x->dtype != TD_U64)
        return td_tensor_retain(x);
    TD_AUTO td_tensor *bits = td_view_as_dtype(x, TD_I64, x->ndim, x->sizes, x->strides, 0);
    TD_AUTO td_tensor *copy = bits ? td_tensor_new(x->ndim, x->sizes, TD_I64, x->device) : NULL;
    if (!copy || td_copy_elements(copy, bits))
        return NULL;
    flip(copy);
    return td_tensor_retain(copy);
}

/* amax, amin, max and min of all. */
static int extreme(td_reduction kind, td_tensor *self, int64_t n, const int64_t *dim, td_tensor *out)
{
    bool mask[TD_MAX_DIMS];
    if (td_reduce_mask(self, n, dim, true, mask))
        return -1;
    td_dtype compute = compute_of((td_dtype)self->dtype);
    sink s = {.what = compute == TD_I64 ? AS_INT : AS_REAL, .out = out};
    TD_AUTO td_tensor *x = in_order(self);
    if (!x || td_reduce(kind, compute, x, mask, 0, finish, &s))
        return -1;
    if (x != self)
        flip(out);
    return 0;
}
/* Over any dimensions; a NaN is the result of those it is among. */
int td_cpu_amax(td_tensor *self, int64_t n_dim, const int64_t *dim, bool keepdim, td_tensor *out0)
{
    (void)keepdim;
    return extreme(TD_RED_MAX, self, n_dim, dim, out0);
}
int td_cpu_amin(td_tensor *self, int64_t n_dim, const int64_t *dim, bool keepdim, td_tensor *out0)
{
    (void)keepdim;
    return extreme(TD_RED_MIN, self, n_dim, dim, out0);
}
int td_cpu_max_all(td_tensor *self, td_tensor *out0) { return extreme(TD_RED_MAX, self, -1, NULL, out0); }
int td_cpu_min_all(td_tensor *self, td_tensor *out0) { return extreme(TD_RED_MIN, self, -1, NULL, out0); }
int td_cpu_aminmax(td_tensor *self, const int64_t *dim, bool keepdim, td_tensor *out0, td_tensor *out1)
{
    (void)keepdim;
    return extreme(TD_RED_MIN, self, dim ? 1 : -1, dim, out0) || extreme(TD_RED_MAX, self, dim ? 1 : -1, dim, out1) ? -1 : 0;
}

/* argmax, argmin, and max and min along a dimension; without `dim` the index counts through the elements in their order. */
static int where_extreme(td_reduction kind, td_tensor *self, const int64_t *dim, td_tensor *values, td_tensor *indices)
{
    bool mask[TD_MAX_DIMS] = {false};
    td_dtype compute = compute_of((td_dtype)self->dtype);
    sink s = {.what = compute == TD_I64 ? AS_ARG_INT : AS_ARG, .out = values, .out2 = indices};
    TD_AUTO td_tensor *x = in_order(self);
    if (!x)
        return -1;
    if (dim) {
        if (td_reduce_mask(x, 1, dim, true, mask) || td_reduce(kind, compute, x, mask, 0, finish, &s))
            return -1;
        if (x != self && values)
            flip(values);
        return 0;
    }
    TD_AUTO td_tensor *whole = td_make_contiguous(x);
    if (!whole)
        return -1;
    int64_t one = 1;
    TD_AUTO td_tensor *flat = td_view_strided(whole, 1, &whole->numel, &one, 0);
    mask[0] = true;
    return flat ? td_reduce(kind, compute, flat, mask, 0, finish, &s) : -1;
}
/* Values and where they are: the first of equal ones, NaN before all. */
int td_cpu_max_dim(td_tensor *self, int64_t dim, bool keepdim, td_tensor *out0, td_tensor *out1)
{
    (void)keepdim;
    return where_extreme(TD_RED_ARGMAX, self, &dim, out0, out1);
}
int td_cpu_min_dim(td_tensor *self, int64_t dim, bool keepdim, td_tensor *out0, td_tensor *out1)
{
    (void)keepdim;
    return where_extreme(TD_RED_ARGMIN, self, &dim, out0, out1);
}
/* `dim` NULL stands for all dimensions. */
int td_cpu_argmax(td_tensor *self, const int64_t *dim, bool keepdim, td_tensor *out0)
{
    (void)keepdim;
    return where_extreme(TD_RED_ARGMAX, self, dim, NULL, out0);
}
int td_cpu_argmin(td_tensor *self, const int64_t *dim, bool keepdim, td_tensor *out0)
{
    (void)keepdim;
    return where_extreme(TD_RED_ARGMIN, self, dim, NULL, out0);
}

/* ---- counts */

/* any, all and count_nonzero count what isn't 0; a complex number is made a bool first, since both parts decide. */
static int count(after what, td_tensor *self, int64_t n, const int64_t *dim, bool empty_is_all, td_tensor *out)
{
    bool mask[TD_MAX_DIMS];
    if (td_reduce_mask(self, n, dim, empty_is_all, mask))
        return -1;
    TD_AUTO td_tensor *x = is_complex(self) ? td_as_contiguous(self, TD_BOOL) : td_tensor_retain(self);
    if (!x)
        return -1;
    td_dtype compute = td_itemsize(x) == 1 ? TD_U8 : compute_of((td_dtype)x->dtype);
    sink s = {.what = what, .out = out};
    return td_reduce(TD_RED_COUNT, compute, x, mask, 0, finish, &s);
}
int td_cpu_any_all(td_tensor *self, td_tensor *out0) { return count(AS_ANY, self, -1, NULL, false, out0); }
int td_cpu_all_all(td_tensor *self, td_tensor *out0) { return count(AS_ALL, self, -1, NULL, false, out0); }
int td_cpu_any_dim(td_tensor *self, int64_t dim, bool keepdim, td_tensor *out0)
{
    (void)keepdim;
    return count(AS_ANY, self, 1, &dim, false, out0);
}
int td_cpu_all_dim(td_tensor *self, int64_t dim, bool keepdim, td_tensor *out0)
{
    (void)keepdim;
    return count(AS_ALL, self, 1, &dim, false, out0);
}
int td_cpu_any_dims(td_tensor *self, int64_t n_dim, const int64_t *dim, bool keepdim, td_tensor *out0)
{
    (void)keepdim;
    return count(AS_ANY, self, n_dim, dim, false, out0);
}
int td_cpu_all_dims(td_tensor *self, int64_t n_dim, const int64_t *dim, bool keepdim, td_tensor *out0)
{
    (void)keepdim;
    return count(AS_ALL, self, n_dim, dim, false, out0);
}
/* Without dimensions it counts all; any and all then do nothing but compare with 0. */
int td_cpu_count_nonzero_dim_intlist(td_tensor *self, int64_t n_dim, const int64_t *dim, td_tensor *out0)
{
    return count(AS_INT, self, n_dim, dim, true, out0);
}

/* ---- variances */

/* var and std with or without the mean, divided by the count less `correction` (1 without one). */
static int variance(after what, td_tensor *self, int64_t n, const int64_t *dim, const td_scalar *correction, td_tensor *out, td_tensor *mean)
{
    bool mask[TD_MAX_DIMS];
    if (td_reduce_mask(self, n, dim, true, mask))
        return -1;
    double by = correction ? td_scalar_double(*correction) : 1;
    if (!is_complex(self)) {
        sink s = {.what = what, .out = out, .out2 = mean, .a = by};
        return td_reduce(TD_RED_VAR, compute_of((td_dtype)self->dtype), self, mask, 0, finish, &s);
    }
    /* The variances of both parts, added: E|x - mean|^2. */
    TD_AUTO td_tensor *real = parts(self), *two = NULL, *mean_parts = mean ? parts(mean) : td_tensor_retain(TD_NONE);
    int64_t sizes[TD_MAX_DIMS];
    memcpy(sizes, out->sizes, sizeof(int64_t) * out->ndim);
    sizes[out->ndim] = 2;
    two = td_tensor_new(out->ndim + 1, sizes, TD_F64, out->device);
    mask[self->ndim] = false;
    if (!real || !two || !mean_parts)
        return -1;
    sink s = {.what = AS_VAR, .out = two, .out2 = mean ? mean_parts : NULL, .a = by};
    if (td_reduce(TD_RED_VAR, compute_of((td_dtype)self->dtype), real, mask, 0, finish, &s))
        return -1;
    const double *v = (const double *)two->data;
    for (int64_t i = 0; i < out->numel; i++) {
        double sum = v[2 * i] + v[2 * i + 1];
        sum = what == AS_STD ? sqrt(sum) : sum;
        td_convert((td_dtype)out->dtype, out->data + i * td_itemsize(out), td_itemsize(out), TD_F64, &sum, 8, 1);
    }
    return 0;
}
int td_cpu_var_correction(td_tensor *self, int64_t n_dim, const int64_t *dim, const td_scalar *correction, bool keepdim,
                          td_tensor *out0)
{
    (void)keepdim;
    return variance(AS_VAR, self, n_dim, dim, correction, out0, NULL);
}
int td_cpu_std_correction(td_tensor *self, int64_t n_dim, const int64_t *dim, const td_scalar *correction, bool keepdim,
                          td_tensor *out0)
{
    (void)keepdim;
    return variance(AS_STD, self, n_dim, dim, correction, out0, NULL);
}
int td_cpu_var_mean_correction(td_tensor *self, int64_t n_dim, const int64_t *dim, const td_scalar *correction, bool keepdim,
                               td_tensor *out0, td_tensor *out1)
{
    (void)keepdim;
    return variance(AS_VAR, self, n_dim, dim, correction, out0, out1);
}
int td_cpu_std_mean_correction(td_tensor *self, int64_t n_dim, const int64_t *dim, const td_scalar *correction, bool keepdim,
                               td_tensor *out0, td_tensor *out1)
{
    (void)keepdim;
    return variance(AS_STD, self, n_dim, dim, correction, out0, out1);
}

/* ---- norms */

/* Norms by p: largest, smallest, how many aren't 0, sum of magnitudes, root of squares; else (sum |x|^p)^(1/p), or |x| itself of a single
 * x, whose power may overflow.  Complex numbers enter by their magnitudes. */
int td_cpu_linalg_vector_norm(td_tensor *self, td_scalar ord, int64_t n_dim, const int64_t *dim, bool keepdim, td_dtype dtype,
                              td_tensor *out0)
{
    (void)keepdim;
    bool mask[TD_MAX_DIMS];
    if (td_reduce_mask(self, n_dim, dim, true, mask))
        return -1;
    TD_AUTO td_tensor *x = dtype == TD_DTYPE_NONE ? td_tensor_retain(self) : prepared(self, dtype);
    TD_AUTO td_tensor *real = x && is_complex(x) ? td_abs(x) : td_tensor_retain(x);
    if (!real)
        return -1;
    double p = td_scalar_double(ord);
    td_dtype compute = compute_of((td_dtype)out0->dtype);
    sink s = {.what = AS_REAL, .out = out0};
    td_reduction kind = p == INFINITY ? TD_RED_ABSMAX : p == -INFINITY ? TD_RED_ABSMIN : p == 0 ? TD_RED_COUNT
                      : p == 1 || td_reduce_count(self, mask) == 1 ? TD_RED_ABSSUM : p == 2 ? TD_RED_SQUARES : TD_RED_POWERS;
    if (kind == TD_RED_POWERS && out0->dtype != TD_F64)         /* one that float32 can't hold is infinite, and each norm 1, as in PyTorch */
        p = (float)p;
    if (kind == TD_RED_COUNT)
        s.what = AS_INT;
    else if (kind == TD_RED_SQUARES)
        s.what = AS_ROOT;
    else if (kind == TD_RED_POWERS)
        s.what = AS_POWER, s.a = 1 / p;
    return td_reduce(kind, compute, real, mask, p, finish, &s);
}

int td_complex_logsumexp(td_tensor *self, int64_t n_dim, const int64_t *dim, td_tensor *out)
{
    TD_AUTO td_tensor *real = td_real(self);
    TD_AUTO td_tensor *most = self->numel ? td_amax(real, n_dim, dim, true) : td_zeros(0, NULL, (td_dtype)real->dtype, self->device);
    TD_AUTO td_tensor *infinite = td_isinf(most);
    TD_AUTO td_tensor *shift = td_masked_fill_scalar(most, infinite, td_int(0));
    TD_AUTO td_tensor *shifted = td_sub(self, shift);
    TD_AUTO td_tensor *powers = td_exp(shifted);
    TD_AUTO td_tensor *sums = td_sum_dim_intlist(powers, n_dim, dim, true, TD_DTYPE_NONE);
    TD_AUTO td_tensor *logs = td_log(sums);
    TD_AUTO td_tensor *whole = td_add(logs, shift);
    TD_AUTO td_tensor *shaped = td_reshape(whole, out->ndim, out->sizes);
    return shaped ? td_copy_elements(out, shaped) : -1;
}

/* m + log(sum of exp(x - m)) with the largest m, in one pass over memory: see lse in leaves.h. */
int td_cpu_logsumexp(td_tensor *self, int64_t n_dim, const int64_t *dim, bool keepdim, td_tensor *out0)
{
    (void)keepdim;
    bool mask[TD_MAX_DIMS];
    if (td_reduce_mask(self, n_dim, dim, true, mask))
        return -1;
    if (is_complex(self))
        return td_complex_logsumexp(self, n_dim, dim, out0);
    TD_AUTO td_tensor *x = prepared(self, (td_dtype)out0->dtype);
    sink s = {.what = AS_LSE, .out = out0};
    return x ? td_reduce(TD_RED_LSE, compute_of((td_dtype)out0->dtype), x, mask, 0, finish, &s) : -1;
}
