/* Scans (cumsum, cumprod, cummax, cummin, logcumsumexp): what their results look like and their gradients; differences
 * (diff) and integrals by the trapezoidal rule (trapezoid, cumulative_trapezoid). The kernels are
 * src/kernels/cpu/reduce/scan.c; the entries are in ops/scan.yaml.
 *
 * Two scans aren't PyTorch's: cumsum_reverse sums from the end, which is cumsum's gradient, and linear_scan is the
 * recurrence y[i] = a[i] + c[i] y[i - 1], or with y[i + 1] in reverse, which other gradients and tangents are made of. */

#include "calls_ops_reduce_scan.h"
#include "dispatch/outputs.h"
#include "ops/compose.h"
#include "ops/reduce/reduce.h"

static int like(td_spec *spec, const td_tensor *x, int64_t dim, td_dtype dtype)
{
    return td_wrap_dim(dim, x->ndim) < 0 ? -1 : td_spec_set(spec, x->ndim, x->sizes, dtype, x->device);
}
static td_dtype sum_dtype(const td_tensor *x, td_dtype dtype)
{
    return dtype != TD_DTYPE_NONE ? dtype
         : td_dtype_is_integral((td_dtype)x->dtype) || x->dtype == TD_BOOL ? TD_I64 : (td_dtype)x->dtype;
}

static int check_not_bool(const char *op, td_dtype dtype)
{
    return dtype == TD_BOOL ? td_error(TD_E_NOT_IMPLEMENTED, "\"%s_out_cpu\" not implemented for 'Bool'", op) : 0;
}

int td_meta_cumsum(td_spec *specs, td_tensor *self, int64_t dim, td_dtype dtype)
{
    return check_not_bool("cumsum", dtype) ? -1 : like(specs, self, dim, sum_dtype(self, dtype));
}
int td_meta_cumsum_reverse(td_spec *specs, td_tensor *self, int64_t dim)
{
    return like(specs, self, dim, (td_dtype)self->dtype);
}
int td_meta_cumprod(td_spec *specs, td_tensor *self, int64_t dim, td_dtype dtype)
{
    return check_not_bool("cumprod", dtype) ? -1 : like(specs, self, dim, sum_dtype(self, dtype));
}
int td_meta_linear_scan(td_spec *specs, td_tensor *a, td_tensor *c, int64_t dim, bool reverse)
{
    (void)reverse;
    if (a->ndim != c->ndim || memcmp(a->sizes, c->sizes, sizeof *a->sizes * (size_t)a->ndim))
        return td_error(TD_E_RUNTIME, "linear_scan: a factor for each element is needed");
    return like(specs, a, dim, (td_dtype)a->dtype);
}
int td_meta_cummax(td_spec *specs, td_tensor *self, int64_t dim)
{
    if (!self->numel)          /* of any dtype, along any dimension */
        return td_spec_like(&specs[0], self) || td_spec_set(&specs[1], self->ndim, self->sizes, TD_I64, self->device) ? -1 : 0;
    if (td_dtype_is_complex((td_dtype)self->dtype) && self->ndim)       /* one number is its own largest, whatever its order */
        return td_error(TD_E_NOT_IMPLEMENTED, "\"cummax_helper_cpu\" not implemented for '%s'",
                        td_dtype_title((td_dtype)self->dtype));
    return like(&specs[0], self, dim, (td_dtype)self->dtype) || like(&specs[1], self, dim, TD_I64) ? -1 : 0;
}
int td_meta_cummin(td_spec *specs, td_tensor *self, int64_t dim) { return td_meta_cummax(specs, self, dim); }
int td_meta_logcumsumexp(td_spec *specs, td_tensor *self, int64_t dim)
{
    if (!td_dtype_is_floating((td_dtype)self->dtype) && !td_dtype_is_complex((td_dtype)self->dtype))
        return td_error(TD_E_NOT_IMPLEMENTED, "\"logcumsumexp_out_cpu\" not implemented for '%s'",
                        td_dtype_title((td_dtype)self->dtype));
    return like(specs, self, dim, (td_dtype)self->dtype);
}

/* ---- gradients */

/* y[k] is the sum of x[i], i <= k, so x[i] gets the sum of grad[k], k >= i. */
td_tensor *td_op_cumsum_backward(td_tensor *grad, int64_t dim, td_dtype dtype)
{
    TD_AUTO td_tensor *cast = grad->dtype == (int8_t)dtype ? td_tensor_retain(grad) : td_to(grad, dtype);
    return td_cumsum_reverse(cast, dim);
}

/* One step along dim, to the back or (`back`) to the front; 0 enters at the end that is left. */
td_tensor *td_op_shift_along(td_tensor *self, int64_t dim, bool back)
{
    if (self->ndim == 0)
        return td_zeros_like(self);
    int d = td_wrap_dim(dim, self->ndim);
    int64_t n = d < 0 ? 0 : self->sizes[d];
    if (d < 0 || n == 0)
        return d < 0 ? NULL : td_tensor_retain(self);
    TD_AUTO td_tensor *end = td_narrow(self, d, 0, 1);
    TD_AUTO td_tensor *zero = td_zeros_like(end);
    TD_AUTO td_tensor *rest = td_narrow(self, d, back, n - 1);
    if (!zero || !rest)
        return NULL;
    return td_cat(2, back ? (td_tensor *[]){rest, zero} : (td_tensor *[]){zero, rest}, d);
}

/* d out[k] / d x[i] is the product of all x[j], j <= k, but x[i]: what is before i, times a sum over k >= i that obeys a
 * linear recurrence. Where there are no zeros, running sums of grad * result, divided by x, do it. */
td_tensor *td_op_cumprod_backward(td_tensor *grad, td_tensor *self, td_tensor *result, int64_t dim)
{
    TD_AUTO td_tensor *x = self->dtype == grad->dtype ? td_tensor_retain(self) : td_to(self, (td_dtype)grad->dtype);
    if (!x || self->numel <= 1 || self->ndim == 0)
        return x ? td_tensor_retain(grad) : NULL;
    bool zeros;
    if (td_may_have_zeros(self, &zeros))
        return NULL;
    TD_AUTO td_tensor *out = NULL;
    if (!zeros) {
        TD_AUTO td_tensor *conjugate = td_conj(result);
        TD_AUTO td_tensor *product = td_mul(grad, conjugate);
        TD_AUTO td_tensor *sums = td_cumsum_reverse(product, dim);
        TD_AUTO td_tensor *below = td_conj(x);
        out = td_div(sums, below);
    } else {
        TD_AUTO td_tensor *y = td_conj(x);
        TD_AUTO td_tensor *next = td_shift_along(y, dim, true);
        TD_AUTO td_tensor *later = td_linear_scan(grad, next, dim, true);
        TD_AUTO td_tensor *before = later ? td_product_before(y, td_wrap_dim(dim, self->ndim)) : NULL;
        out = td_mul(before, later);
    }
    return out && out->dtype != self->dtype ? td_to(out, (td_dtype)self->dtype) : td_tensor_retain(out);
}

/* For cummax and cummin: each result is the element at its index, which may be many results' element, so their gradients
 * are added. */
td_tensor *td_op_cummax_backward(td_tensor *grad, td_tensor *indices, int64_t n_shape, const int64_t *shape, int64_t dim)
{
    TD_AUTO td_tensor *zeros = td_new_zeros(grad, n_shape, shape, TD_DTYPE_NONE, TD_DEVICE_NONE);
    return td_scatter_add(zeros, dim, indices, grad);
}

/* sum over k >= i of g[k] exp(x[i] - y[k]) for the elements of g of one sign, given their logarithms: exp(x[i] + logsumexp
 * over k >= i of (log g[k] - y[k])), a reversed logcumsumexp, which doesn't overflow where the single factors would. */
static td_tensor *one_sign(td_tensor *log_grad, td_tensor *self, td_tensor *result, int64_t dim)
{
    TD_AUTO td_tensor *difference = td_sub(log_grad, result);
    TD_AUTO td_tensor *backwards = td_slice_tensor(difference, dim, NULL, NULL, -1);
    TD_AUTO td_tensor *sums = td_logcumsumexp(backwards, dim);
    TD_AUTO td_tensor *forwards = td_slice_tensor(sums, dim, NULL, NULL, -1);
    TD_AUTO td_tensor *exponent = td_add(forwards, self);
    return td_exp(exponent);
}

td_tensor *td_op_logcumsumexp_backward(td_tensor *grad, td_tensor *self, td_tensor *result, int64_t dim)
{
    if (grad->numel == 0 || grad->ndim == 0)
        return td_tensor_retain(grad);
    if (td_dtype_is_complex((td_dtype)grad->dtype)) {     /* a logarithm takes any sign */
        TD_AUTO td_tensor *log = td_log(grad);
        TD_AUTO td_tensor *end = td_conj(result);
        TD_AUTO td_tensor *difference = td_sub(log, end);
        TD_AUTO td_tensor *flipped = td_flip(difference, 1, &dim);
        TD_AUTO td_tensor *sums = td_logcumsumexp(flipped, dim);
        TD_AUTO td_tensor *back = td_flip(sums, 1, &dim);
        TD_AUTO td_tensor *own = td_conj(self);
        TD_AUTO td_tensor *exponent = td_add(back, own);
        return td_exp(exponent);
    }
    TD_AUTO td_tensor *size = td_abs(grad);
    TD_AUTO td_tensor *log = td_log(size);
    TD_AUTO td_tensor *zero = td_wrapped_number(td_float(0));
    TD_AUTO td_tensor *up = td_gt(grad, zero);
    TD_AUTO td_tensor *down = td_lt(grad, zero);
    /* Elements of the other sign count as exp(least) = 0. It is finite (the lowest number of float64, of float16, and of
     * bfloat16 for the rest, float32 included), so that differences of two such are numbers and not NaN. */
    TD_AUTO td_tensor *least = td_wrapped_number(td_float(grad->dtype == TD_F64 ? -0x1.fffffffffffffp+1023
                                                        : grad->dtype == TD_F16 ? -65504 : -0x1.fep+127));
    TD_AUTO td_tensor *log_up = td_where(up, log, least);
    TD_AUTO td_tensor *log_down = td_where(down, log, least);
    TD_AUTO td_tensor *plus = one_sign(log_up, self, result, dim);
    TD_AUTO td_tensor *minus = one_sign(log_down, self, result, dim);
    return td_sub(plus, minus);
}

/* ---- differences */

static td_tensor *neighbours(td_tensor *x, int dim, bool later)
{
    return td_narrow(x, dim, later, x->sizes[dim] - 1);
}

/* The n-th forward difference, one order after the other; bools differ where they are not equal. It ends early when nothing
 * is left along dim. n = 0 returns a copy of self alone, whatever was to be added to its ends. */
td_tensor *td_op_diff(td_tensor *self, int64_t n, int64_t dim, td_tensor *prepend, td_tensor *append)
{
    if (self->ndim == 0)
        return td_fail(TD_E_RUNTIME, "diff expects input to be at least one-dimensional");
    if (n < 0)
        return td_fail(TD_E_RUNTIME, "order must be non-negative but got %lld", (long long)n);
    int d = td_wrap_dim(dim, self->ndim);
    if (d < 0)
        return NULL;
    for (int k = 0; k < 2; k++) {
        const td_tensor *end = k ? append : prepend;
        if (end != TD_NONE && end->ndim != self->ndim)
            return td_fail(TD_E_RUNTIME, "diff expects prepend or append to be the same dimension as input");
        for (int i = 0; end != TD_NONE && i < self->ndim; i++)
            if (i != d && end->sizes[i] != self->sizes[i])
                return td_fail(TD_E_RUNTIME, "diff expects the shape of tensor to prepend or append to match that of input except "
                               "along the differencing dimension; input.size(%d) = %lld, but got tensor.size(%d) = %lld", i,
                               (long long)self->sizes[i], i, (long long)end->sizes[i]);
    }
    td_tensor *pieces[3];
    int count = 0;
    if (prepend != TD_NONE)
        pieces[count++] = prepend;
    pieces[count++] = self;
    if (append != TD_NONE)
        pieces[count++] = append;
    td_tensor *x = count > 1 && n > 0 ? td_cat(count, pieces, d) : n > 0 ? td_tensor_retain(self) : td_clone(self);
    for (; n > 0 && x; n--) {
        if (x->sizes[d] == 0)
            break;
        TD_AUTO td_tensor *a = neighbours(x, d, true);
        TD_AUTO td_tensor *b = neighbours(x, d, false);
        td_tensor *next = x->dtype == TD_BOOL ? td_logical_xor(a, b) : td_sub(a, b);
        td_tensor_release(x);
        x = next;
    }
    return x;
}

/* Nothing is subtracted where n is 0: self is copied, and only to its own dtype. */
int td_out_check_diff(td_tensor *self, int64_t n, int64_t dim, td_tensor *prepend, td_tensor *append, td_tensor *out)
{
    (void)dim, (void)prepend, (void)append;
    return n || out->dtype == self->dtype ? 0 : td_error(TD_E_RUNTIME, "expected scalar_type %s but found %s",
                                                         td_dtype_title((td_dtype)self->dtype), td_dtype_title((td_dtype)out->dtype));
}

/* The widths of the trapezoids, broadcastable to y: x is one-dimensional along dim, or like y's last dimensions. */
static td_tensor *widths(const char *op, td_tensor *y, td_tensor *x, int64_t dim)
{
    int d = td_wrap_dim(dim, y->ndim);
    if (d < 0)
        return NULL;
    if (y->dtype == TD_BOOL || x->dtype == TD_BOOL)
        return td_fail(TD_E_RUNTIME, "%s: received a bool input for `x` or `y`, but bool is not supported", op);
    int64_t sizes[TD_MAX_DIMS];
    const bool line = x->ndim == 1;
    if (line && x->sizes[0] != y->sizes[d])
        return td_fail(TD_E_RUNTIME, "%s: There must be one `x` value for each sample point", op);
    for (int i = 0, before = y->ndim - x->ndim; i < y->ndim; i++)
        sizes[i] = line ? i == d ? x->sizes[0] : 1 : i < before ? 1 : x->sizes[i - before];
    TD_AUTO td_tensor *along = line || x->ndim < y->ndim ? td_view(x, y->ndim, sizes) : td_tensor_retain(x);
    TD_AUTO td_tensor *left = td_slice_tensor(along, d, NULL, &(int64_t){-1}, 1);     /* counted as in y, which may have fewer dimensions */
    TD_AUTO td_tensor *right = td_slice_tensor(along, d, &(int64_t){1}, NULL, 1);
    return td_sub(right, left);
}
/* Sums of neighbours, to be halved after they were multiplied: integers stay whole until then. */
static td_tensor *middles(td_tensor *y, int64_t dim)
{
    TD_AUTO td_tensor *left = td_slice_tensor(y, dim, NULL, &(int64_t){-1}, 1);
    TD_AUTO td_tensor *right = td_slice_tensor(y, dim, &(int64_t){1}, NULL, 1);
    return td_add(right, left);
}
static td_tensor *areas(const char *op, td_tensor *y, td_tensor *x, int64_t dim)
{
    TD_AUTO td_tensor *wide = widths(op, y, x, dim);
    TD_AUTO td_tensor *high = middles(y, dim);
    return td_mul(high, wide);
}
/* False, with an error set, where y is bool or the step is no real number. */
static bool is_real_step(const char *op, td_tensor *y, td_scalar dx)
{
    if (y->dtype == TD_BOOL)
        return td_error(TD_E_RUNTIME, "%s: received a bool input for `y`, but bool is not supported", op), false;
    if (dx.kind == TD_SCALAR_COMPLEX || dx.kind == TD_SCALAR_BOOL)
        return td_error(TD_E_RUNTIME, "%s: Currently, we only support dx as a real number.", op), false;
    return true;
}
/* No point at all: zeros, of any dtype and without a history; -1 where the dimension isn't there. */
static int is_empty_along(td_tensor *y, int64_t dim)
{
    int d = y->ndim ? td_wrap_dim(dim, y->ndim)
                    : td_error(TD_E_INDEX, "Dimension specified as %lld but tensor has no dimensions", (long long)dim);
    return d < 0 ? -1 : y->sizes[d] == 0;
}
static td_tensor *zeros_without(td_tensor *y, int64_t dim)
{
    int64_t sizes[TD_MAX_DIMS];
    int n = 0, without = td_wrap_dim(dim, y->ndim);
    for (int d = 0; d < y->ndim; d++)
        if (d != without)
            sizes[n++] = y->sizes[d];
    return td_zeros(n, sizes, (td_dtype)y->dtype, y->device);
}

td_tensor *td_op_trapezoid_x(td_tensor *y, td_tensor *x, int64_t dim)
{
    int empty = is_empty_along(y, dim);
    if (empty)
        return empty < 0 ? NULL : zeros_without(y, dim);
    dim = td_wrap_dim(dim, y->ndim);        /* x may have more dimensions, and the parts then, too */
    TD_AUTO td_tensor *parts = areas("trapezoid", y, x, dim);
    TD_AUTO td_tensor *sum = td_sum_dim(parts, 1, &dim, false);
    return td_mul_number(sum, 0.5);
}
/* dx * (sum of all - half of the ends), which needs no tensor of parts. */
td_tensor *td_op_trapezoid_dx(td_tensor *y, td_scalar dx, int64_t dim)
{
    int empty = is_empty_along(y, dim);
    if (empty)
        return empty < 0 ? NULL : zeros_without(y, dim);
    if (!is_real_step("trapezoid", y, dx))
        return NULL;
    TD_AUTO td_tensor *sum = td_sum_dim(y, 1, &dim, false);
    TD_AUTO td_tensor *first = td_select_int(y, dim, 0);
    TD_AUTO td_tensor *last = td_select_int(y, dim, -1);
    TD_AUTO td_tensor *ends = td_add(first, last);
    TD_AUTO td_tensor *half = td_mul_number(ends, 0.5);
    TD_AUTO td_tensor *high = td_sub(sum, half);
    return td_mul_number(high, td_scalar_double(dx));
}
td_tensor *td_op_trapz_dx(td_tensor *y, double dx, int64_t dim) { return td_op_trapezoid_dx(y, td_float(dx), dim); }
td_tensor *td_op_cumulative_trapezoid_x(td_tensor *y, td_tensor *x, int64_t dim)
{
    TD_AUTO td_tensor *parts = areas("cumulative_trapezoid", y, x, dim);
    TD_AUTO td_tensor *sums = td_cumsum(parts, dim, TD_DTYPE_NONE);
    return td_mul_number(sums, 0.5);
}
td_tensor *td_op_cumulative_trapezoid_dx(td_tensor *y, td_scalar dx, int64_t dim)
{
    if (!is_real_step("cumulative_trapezoid", y, dx))
        return NULL;
    TD_AUTO td_tensor *heights = middles(y, dim);
    TD_AUTO td_tensor *parts = td_mul_number(heights, td_scalar_double(dx) / 2);
    return td_cumsum(parts, dim, TD_DTYPE_NONE);
}
