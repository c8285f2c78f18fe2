/* torch.fft: discrete Fourier transforms (fft, ifft, rfft, irfft, hfft, ihfft, of one, two and n dimensions), their
 * gradients, fftfreq and fftshift, as NumPy and PyTorch name them, over three kernels: complex to complex (c2c), real to
 * half (r2c), half to real (c2r), in src/kernels/cpu/fft.
 *
 * Here lengths are made to fit, names of norms become scales, and dtypes are raised. "Half": the transform of n real
 * numbers is Hermitian, X[n - k] = conj(X[k]), so its last transformed dimension is stored as n / 2 + 1 numbers. */

#include "calls_ops_fft_fft.h"
#include <inttypes.h>
#include <stdlib.h>
#include <tede/kernel.h>
#include "dispatch/outputs.h"
#include "ops/compose.h"

#define LET(x) TD_AUTO td_tensor *x

/* ---- what the kernels take */

static int check_length(int64_t n) { return n >= 1 ? 0 : td_error(TD_E_RUNTIME, "Invalid number of data points (%" PRId64 ") specified", n); }

/* What the kernels may assume: float32 or float64 (or complex of them), different dimensions that exist, none of length 0. */
static int check_kernel(const char *op, td_tensor *self, int64_t n_dim, const int64_t *dim, bool complex)
{
    if (complex ? !td_is_complex(self) : !td_is_floating(self))
        return td_error(TD_E_RUNTIME, "%s expects a %s tensor, not %s", op, complex ? "complex" : "floating point",
                        td_dtype_title((td_dtype)self->dtype));
    if (self->dtype == TD_F16 || self->dtype == TD_BF16)
        return td_error(TD_E_RUNTIME, "Unsupported dtype %s", td_dtype_title((td_dtype)self->dtype));
    bool seen[TD_MAX_DIMS] = {false};
    for (int64_t i = 0; i < n_dim; i++) {
        int d = td_wrap_dim(dim[i], self->ndim);
        if (d < 0)
            return -1;
        if (seen[d])
            return td_error(TD_E_RUNTIME, "FFT dims must be unique");
        seen[d] = true;
        if (!self->ndim)
            return td_error(TD_E_RUNTIME, "%s expects a tensor of at least one dimension, not a number", op);
        if (check_length(self->sizes[d]))
            return -1;
    }
    return 0;
}

/* Where a result's dimensions lie in memory: the transformed ones innermost, the others around them, each by falling
 * strides of the input; of transforms of halves the last one is the innermost (`keep_last`: it isn't sorted). That is how
 * PyTorch's results lie, and programs may see it. The sort is by insertion, which leaves equal strides in their order. */
static void order_by_strides(int *order, int n, const int64_t *strides)
{
    for (int i = 1; i < n; i++)
        for (int j = i; j > 0 && llabs(strides[order[j - 1]]) < llabs(strides[order[j]]); j--) {
            int t = order[j];
            order[j] = order[j - 1], order[j - 1] = t;
        }
}
static void lay_out(int ndim, const int64_t *from, const int64_t *sizes, int64_t n_dim, const int64_t *dim, bool keep_last, int64_t *strides)
{
    int order[TD_MAX_DIMS], n = 0;
    bool inner[TD_MAX_DIMS] = {false};
    for (int64_t i = 0; i < n_dim; i++)
        inner[td_wrap_dim(dim[i], ndim)] = true;
    for (int d = 0; d < ndim; d++)
        if (!inner[d])
            order[n++] = d;
    order_by_strides(order, n, from);
    for (int64_t i = 0; i < n_dim; i++)
        order[n + i] = td_wrap_dim(dim[i], ndim);
    order_by_strides(order + n, (int)n_dim - keep_last, from);
    int64_t step = 1;
    for (int i = ndim; i-- > 0; step *= sizes[order[i]])
        strides[order[i]] = step;
}
/* A spec is only marked as strided where the layout isn't the contiguous one. */
static int set_strides(td_spec *spec, const td_tensor *self, int64_t n_dim, const int64_t *dim, bool keep_last)
{
    int64_t plain[TD_MAX_DIMS];
    if (!n_dim || td_contiguous_strides(spec->ndim, spec->sizes, plain) < 0)
        return 0;
    lay_out(self->ndim, self->strides, spec->sizes, n_dim, dim, keep_last, spec->strides);
    spec->strided = memcmp(plain, spec->strides, sizeof *plain * spec->ndim) != 0;
    return 0;
}
int td_meta__fft_c2c(td_spec *specs, td_tensor *self, int64_t n_dim, const int64_t *dim, int64_t normalization, bool forward)
{
    (void)normalization, (void)forward;
    return check_kernel("_fft_c2c", self, n_dim, dim, true) || td_spec_like(specs, self) ? -1
         : set_strides(specs, self, n_dim, dim, false);
}
int td_meta__fft_r2c(td_spec *specs, td_tensor *self, int64_t n_dim, const int64_t *dim, int64_t normalization, bool onesided)
{
    (void)normalization;
    if (check_kernel("_fft_r2c", self, n_dim, dim, false))
        return -1;
    td_spec_set(specs, self->ndim, self->sizes, td_dtype_to_complex((td_dtype)self->dtype), self->device);
    if (onesided && n_dim) {
        int last = td_wrap_dim(dim[n_dim - 1], self->ndim);
        specs->sizes[last] = self->sizes[last] / 2 + 1;
    }
    return set_strides(specs, self, n_dim, dim, true);
}
int td_meta__fft_c2r(td_spec *specs, td_tensor *self, int64_t n_dim, const int64_t *dim, int64_t normalization, int64_t last_dim_size)
{
    (void)normalization;
    if (check_kernel("_fft_c2r", self, n_dim, dim, true))
        return -1;
    if (!n_dim)
        return td_error(TD_E_RUNTIME, "_fft_c2r: at least one dimension is needed");
    if (check_length(last_dim_size))
        return -1;
    int last = td_wrap_dim(dim[n_dim - 1], self->ndim);
    if (self->sizes[last] != last_dim_size / 2 + 1)
        return td_error(TD_E_RUNTIME, "_fft_c2r: %" PRId64 " numbers are made of %" PRId64 ", not of %" PRId64, last_dim_size,
                        last_dim_size / 2 + 1, self->sizes[last]);
    td_spec_set(specs, self->ndim, self->sizes, td_dtype_to_real((td_dtype)self->dtype), self->device);
    specs->sizes[last] = last_dim_size;
    if (n_dim == 1)
        return set_strides(specs, self, 1, dim, true);
    /* The other dimensions are transformed first, and lie as that leaves them. */
    int64_t between[TD_MAX_DIMS];
    lay_out(self->ndim, self->strides, self->sizes, n_dim - 1, dim, false, between);
    lay_out(self->ndim, between, specs->sizes, 1, dim + n_dim - 1, true, specs->strides);
    specs->strided = true;
    return 0;
}

/* ---- gradients */

/* n= of the transforms: the signal cut off or filled up with zeros at its end. */
static td_tensor *resized(td_tensor *x, int64_t dim, int64_t size)
{
    int d = x ? td_wrap_dim(dim, x->ndim) : -1;
    if (d < 0)
        return NULL;
    int64_t have = x->sizes[d];
    if (have == size)
        return td_ref(x);
    if (size < have)
        return td_narrow(x, d, 0, size);
    int64_t pad[2 * TD_MAX_DIMS] = {0}, after = 2 * (x->ndim - d) - 1;
    pad[after] = size - have;
    return td_constant_pad_nd(x, after + 1, pad, td_int(0));
}

/* The last of the transformed dimensions; the derivatives take it from `dim`, having no other operand to read it from. A
 * tensor without dimensions has none, though it takes -1 and 0 for one elsewhere: no transform gives such a gradient. */
static int last_dim(const char *op, const td_tensor *grad, int64_t n_dim, const int64_t *dim)
{
    if (n_dim < 1)
        return td_error(TD_E_RUNTIME, "%s: dim is empty", op);
    if (!grad->ndim)
        return td_error(TD_E_RUNTIME, "%s: a gradient without dimensions has none to transform", op);
    return td_wrap_dim(dim[n_dim - 1], grad->ndim);
}
/* The gradient of a linear map is its adjoint's product with grad; that of the transform is the inverse without its 1/n, so
 * the same normalization serves. What a onesided result left out got no gradient: zeros. The operand was real, so the real
 * part remains. */
td_tensor *td_op_fft_r2c_backward(td_tensor *grad, int64_t n_dim, const int64_t *dim, int64_t normalization, bool onesided, int64_t n_shape,
                                  const int64_t *shape)
{
    int last = last_dim("fft_r2c_backward", grad, n_dim, dim);
    if (last < 0)
        return NULL;
    if (n_shape != grad->ndim || shape[last] < 0)
        return td_fail(TD_E_RUNTIME, "fft_r2c_backward: the shape of the operand doesn't fit a gradient of %d dimensions", grad->ndim);
    LET(whole) = onesided ? resized(grad, last, shape[last]) : td_ref(grad);
    LET(back) = td__fft_c2c(whole, n_dim, dim, normalization, false);
    return td_real(back);
}
/* The adjoint of half to real is real to half, with the middle twice: all but the ends of the half stand for two numbers,
 * X[k] and X[n - k]. `doubled` is how many those are, n - (n / 2 + 1): for an even n the last of the half isn't among them. */
td_tensor *td_op_fft_c2r_backward(td_tensor *grad, int64_t n_dim, const int64_t *dim, int64_t normalization)
{
    int last = last_dim("fft_c2r_backward", grad, n_dim, dim);
    LET(half) = last < 0 ? NULL : td__fft_r2c(grad, n_dim, dim, normalization, true);
    if (!half)
        return NULL;
    int64_t doubled = grad->sizes[last] - half->sizes[last], n = half->sizes[last];
    if (doubled <= 0)
        return td_ref(half);
    LET(first) = td_narrow(half, last, 0, 1);
    LET(middle) = td_narrow(half, last, 1, doubled);
    LET(twice) = td_times(middle, td_int(2));
    LET(end) = td_narrow(half, last, 1 + doubled, n - 1 - doubled);
    return first && twice && end ? td_cat(3, (td_tensor *[]){first, twice, end}, last) : NULL;
}

/* ---- one dimension */

/* Integers and bools become the default dtype; half precision has no kernel on the CPU, in PyTorch neither. */
static td_tensor *raised(td_tensor *self, bool complex)
{
    td_dtype dtype = (td_dtype)self->dtype;
    if (!td_dtype_is_floating(dtype) && !td_dtype_is_complex(dtype))
        dtype = td_default_dtype();
    if (dtype == TD_F16 || dtype == TD_BF16)
        return td_fail(TD_E_RUNTIME, "Unsupported dtype %s", td_dtype_title(dtype));
    return td_to(self, complex ? td_dtype_to_complex(dtype) : dtype);
}
/* The scale's number (0: none, 1: by root n, 2: by n), or -1. "backward", the default, scales only the inverse. */
static int norm_mode(const char *norm, bool forward)
{
    if (!norm || !strcmp(norm, "backward"))
        return forward ? 0 : 2;
    if (!strcmp(norm, "forward"))
        return forward ? 2 : 0;
    if (!strcmp(norm, "ortho"))
        return 1;
    return td_error(TD_E_RUNTIME, "Invalid normalization mode: \"%s\"", norm);
}
/* The size of a dimension, or -1 with an error: a 0-dim tensor can't be transformed. */
static int64_t size_at(const td_tensor *x, int64_t dim)
{
    if (!x->ndim)
        return td_error(TD_E_INDEX, "Dimension specified as %" PRId64 " but tensor has no dimensions", dim);
    int d = td_wrap_dim(dim, x->ndim);
    return d < 0 ? -1 : x->sizes[d];
}

/* fft and ifft of one dimension; n is the length that the signal is made to have, by default its own. A real operand of fft
 * is raised to complex; ifft's is transformed by the real kernel, and the conjugate of that, taken lazily, is its inverse
 * transform. */
static td_tensor *c2c(td_tensor *self, const int64_t *n, int64_t dim, const char *norm, bool forward)
{
    int mode = norm_mode(norm, forward);
    int64_t have = mode < 0 ? -1 : size_at(self, dim), size = n ? *n : have;
    if (have < 0 || check_length(size))
        return NULL;
    const bool conjugate = !forward && !td_is_complex(self);        /* of real numbers the inverse is the transform's, lazily */
    LET(x) = raised(self, !conjugate);
    LET(fit) = x ? resized(x, dim, size) : NULL;
    LET(transform) = conjugate ? td__fft_r2c(fit, 1, &dim, mode, false) : td__fft_c2c(fit, 1, &dim, mode, forward);
    return conjugate ? td_conj(transform) : td_ref(transform);
}
/* rfft; and ihfft (not `forward`), the inverse transform of real numbers as a half: its conjugate, scaled as an inverse is. */
static td_tensor *r2c(const char *op, td_tensor *self, const int64_t *n, int64_t dim, const char *norm, bool forward)
{
    if (td_is_complex(self))
        return td_fail(TD_E_RUNTIME, "%s expects a real input tensor, but got %s", op, td_dtype_title((td_dtype)self->dtype));
    int mode = norm_mode(norm, forward);
    int64_t have = mode < 0 ? -1 : size_at(self, dim), size = n ? *n : have;
    if (have < 0 || check_length(size))
        return NULL;
    LET(x) = raised(self, false);
    LET(fit) = x ? resized(x, dim, size) : NULL;
    LET(result) = td__fft_r2c(fit, 1, &dim, mode, true);
    return forward ? td_ref(result) : td_conj(result);
}
/* irfft; and hfft (`forward`), the transform of a Hermitian signal given as its half: the inverse of the conjugate, scaled
 * as a forward transform is. A half of m numbers comes from 2 (m - 1) by default, an odd length must be given. */
static td_tensor *c2r(td_tensor *self, const int64_t *n, int64_t dim, const char *norm, bool forward)
{
    int mode = norm_mode(norm, forward);
    int64_t have = mode < 0 ? -1 : size_at(self, dim), size = n ? *n : 2 * (have - 1);
    if (have < 0 || check_length(size))
        return NULL;
    LET(x) = raised(self, true);
    LET(fit) = x ? resized(x, dim, size / 2 + 1) : NULL;
    LET(conjugate) = forward ? td_conj(fit) : td_ref(fit);
    return td__fft_c2r(conjugate, 1, &dim, mode, size);
}
td_tensor *td_op_fft_fft(td_tensor *x, const int64_t *n, int64_t dim, const char *norm)   { return c2c(x, n, dim, norm, true); }
td_tensor *td_op_fft_ifft(td_tensor *x, const int64_t *n, int64_t dim, const char *norm)  { return c2c(x, n, dim, norm, false); }
td_tensor *td_op_fft_rfft(td_tensor *x, const int64_t *n, int64_t dim, const char *norm)  { return r2c("rfft", x, n, dim, norm, true); }
/* The conjugate of a real transform goes to out= by an operator that converts nothing. */
int td_out_check_fft_ifft(td_tensor *self, const int64_t *n, int64_t dim, const char *norm, td_tensor *out)
{
    (void)n, (void)dim, (void)norm;
    const td_dtype real = td_dtype_is_floating((td_dtype)self->dtype) ? (td_dtype)self->dtype : td_default_dtype();
    const td_dtype want = td_dtype_to_complex(real);           /* none of bfloat16, which the operator refuses */
    return td_is_complex(self) || want == TD_DTYPE_NONE ? 0 : td_check_exact("Found dtype {got} but expected {want}", want, (td_dtype)out->dtype);
}
int td_out_check_fft_ihfft(td_tensor *self, const int64_t *n, int64_t dim, const char *norm, td_tensor *out)
{
    return td_out_check_fft_ifft(self, n, dim, norm, out);
}
td_tensor *td_op_fft_ihfft(td_tensor *x, const int64_t *n, int64_t dim, const char *norm) { return r2c("ihfft", x, n, dim, norm, false); }
td_tensor *td_op_fft_irfft(td_tensor *x, const int64_t *n, int64_t dim, const char *norm) { return c2r(x, n, dim, norm, false); }
td_tensor *td_op_fft_hfft(td_tensor *x, const int64_t *n, int64_t dim, const char *norm)  { return c2r(x, n, dim, norm, true); }

/* ---- several dimensions */

/* Which dimensions to transform, and the sizes that they are made to have. */
typedef struct plan { int64_t n, dims[TD_MAX_DIMS], sizes[TD_MAX_DIMS]; } plan;

/* dim and s in NumPy's combinations: dim alone or with as many sizes; sizes alone, for the last dimensions; neither, for
 * all. A size of -1 keeps the dimension's. */
static int make_plan(plan *p, const td_tensor *x, int64_t n_s, const int64_t *s, int64_t n_dim, const int64_t *dim)
{
    bool seen[TD_MAX_DIMS] = {false};
    if (!x->ndim && n_dim > 0)
        return td_error(TD_E_INDEX, "Dimension specified as %" PRId64 " but tensor has no dimensions", dim[0]);
    if (n_dim >= 0) {
        p->n = n_dim;
        if (n_s >= 0 && n_s != n_dim)
            return td_error(TD_E_RUNTIME, "When given, dim and shape arguments must have the same length");
    } else {
        p->n = n_s >= 0 ? n_s : x->ndim;
        if (p->n > x->ndim)
            return td_error(TD_E_RUNTIME, "Got shape with %" PRId64 " values but input tensor only has %d dimensions.", p->n, x->ndim);
    }
    for (int64_t i = 0; i < p->n; i++) {
        int d = n_dim >= 0 ? td_wrap_dim(dim[i], x->ndim) : x->ndim - (int)p->n + (int)i;
        if (d < 0)
            return -1;
        if (seen[d])
            return td_error(TD_E_RUNTIME, "FFT dims must be unique");
        seen[d] = true;
        p->dims[i] = d;
        int64_t size = n_s >= 0 && s[i] != -1 ? s[i] : x->ndim ? x->sizes[d] : 1;
        if (check_length(size))
            return -1;
        p->sizes[i] = size;
    }
    return 0;
}
/* Every transformed dimension at the plan's size. */
static td_tensor *fitted(td_tensor *x, const plan *p)
{
    LET(fit) = td_ref(x);
    for (int64_t i = 0; i < p->n && fit; i++) {
        td_tensor *next = resized(fit, p->dims[i], p->sizes[i]);
        td_tensor_release(fit);
        fit = next;
    }
    return td_ref(fit);
}
static td_tensor *c2c_many(td_tensor *self, int64_t n_s, const int64_t *s, int64_t n_dim, const int64_t *dim, const char *norm, bool forward)
{
    plan p;
    int mode = norm_mode(norm, forward);
    if (mode < 0 || make_plan(&p, self, n_s, s, n_dim, dim))
        return NULL;
    LET(x) = raised(self, true);
    LET(fit) = x ? fitted(x, &p) : NULL;
    return p.n ? td__fft_c2c(fit, p.n, p.dims, mode, forward) : td_clone(fit);
}
static td_tensor *r2c_many(const char *op, td_tensor *self, int64_t n_s, const int64_t *s, int64_t n_dim, const int64_t *dim, const char *norm,
                           bool forward)
{
    plan p;
    int mode = norm_mode(norm, forward);
    if (td_is_complex(self))
        return td_fail(TD_E_RUNTIME, "%s expects a real-valued input tensor, but got %s", op, td_dtype_title((td_dtype)self->dtype));
    if (mode < 0 || make_plan(&p, self, n_s, s, n_dim, dim))
        return NULL;
    if (!p.n)
        return td_fail(TD_E_RUNTIME, "%s must transform at least one axis", op);
    LET(x) = raised(self, false);
    LET(fit) = x ? fitted(x, &p) : NULL;
    if (forward)
        return td__fft_r2c(fit, p.n, p.dims, mode, true);
    /* ihfftn: the last dimension by ihfft, the others by the inverse transform */
    LET(half) = td__fft_r2c(fit, 1, &p.dims[p.n - 1], mode, true);
    LET(conjugate) = td_conj(half);
    return p.n > 1 ? td__fft_c2c(conjugate, p.n - 1, p.dims, mode, false) : td_ref(conjugate);
}
/* The half's size follows from the real one, which s gives or is 2 (m - 1). For hfftn the dimensions before the last are
 * transformed forward, and only the last is the inverse of the conjugate. */
static td_tensor *c2r_many(const char *op, td_tensor *self, int64_t n_s, const int64_t *s, int64_t n_dim, const int64_t *dim, const char *norm,
                           bool forward)
{
    plan p;
    int mode = norm_mode(norm, forward);
    if (mode < 0 || make_plan(&p, self, n_s, s, n_dim, dim))
        return NULL;
    if (!p.n)
        return td_fail(TD_E_RUNTIME, "%s must transform at least one axis", op);
    int64_t last = n_s >= 0 && s[n_s - 1] != -1 ? s[n_s - 1] : 2 * (p.sizes[p.n - 1] - 1);
    if (check_length(last))
        return NULL;
    p.sizes[p.n - 1] = last / 2 + 1;
    LET(x) = raised(self, true);
    LET(fit) = x ? fitted(x, &p) : NULL;
    if (!forward)
        return td__fft_c2r(fit, p.n, p.dims, mode, last);
    LET(most) = p.n > 1 ? td__fft_c2c(fit, p.n - 1, p.dims, mode, true) : td_ref(fit);
    LET(conjugate) = td_conj(most);
    return td__fft_c2r(conjugate, 1, &p.dims[p.n - 1], mode, last);
}
/* The out= of transforms to real numbers takes floats of any width, and nothing else. */
static int check_real_out(const char *op, const td_tensor *out)
{
    return td_is_floating(out) ? 0 : td_error(TD_E_RUNTIME, "%s expects a floating point output tensor, but got %s", op,
                                              td_dtype_title((td_dtype)out->dtype));
}
#define REAL_OUT(name)                                                                                                     \
    int td_out_check_fft_##name(td_tensor *self, const int64_t *n, int64_t dim, const char *norm, td_tensor *out)          \
    {                                                                                                                      \
        return (void)self, (void)n, (void)dim, (void)norm, check_real_out(#name, out);                                     \
    }                                                                                                                      \
    int td_out_check_fft_##name##2(td_tensor *self, int64_t n_s, const int64_t *s, int64_t n_dim, const int64_t *dim,      \
                                   const char *norm, td_tensor *out)                                                       \
    {                                                                                                                      \
        return (void)self, (void)n_s, (void)s, (void)n_dim, (void)dim, (void)norm, check_real_out(#name "n", out);         \
    }                                                                                                                      \
    int td_out_check_fft_##name##n(td_tensor *self, int64_t n_s, const int64_t *s, int64_t n_dim, const int64_t *dim,      \
                                   const char *norm, td_tensor *out)                                                       \
    {                                                                                                                      \
        return td_out_check_fft_##name##2(self, n_s, s, n_dim, dim, norm, out);                                            \
    }
REAL_OUT(irfft)
REAL_OUT(hfft)

/* The forms for two dimensions differ from those for n only in their schema's default of dim, (-2, -1). */
#define MANY(name, call) \
    td_tensor *td_op_fft_##name##2(td_tensor *x, int64_t n_s, const int64_t *s, int64_t n_dim, const int64_t *dim, const char *norm) \
    { \
        return call; \
    } \
    td_tensor *td_op_fft_##name##n(td_tensor *x, int64_t n_s, const int64_t *s, int64_t n_dim, const int64_t *dim, const char *norm) \
    { \
        return call; \
    }
MANY(fft, c2c_many(x, n_s, s, n_dim, dim, norm, true))
MANY(ifft, c2c_many(x, n_s, s, n_dim, dim, norm, false))
MANY(rfft, r2c_many("rfftn", x, n_s, s, n_dim, dim, norm, true))
MANY(ihfft, r2c_many("ihfftn", x, n_s, s, n_dim, dim, norm, false))
MANY(irfft, c2r_many("irfftn", x, n_s, s, n_dim, dim, norm, false))
MANY(hfft, c2r_many("hfftn", x, n_s, s, n_dim, dim, norm, true))

/* ---- helpers */

/* Frequencies of a transform's n elements for samples d apart, in cycles per unit: 0, 1, ... (n - 1) / 2, -(n / 2), ... -1,
 * divided by n d; for halves (not `both`) only 0 ... n / 2. */
static td_tensor *frequencies(int64_t n, double d, int64_t count, bool both, td_dtype dtype, td_device device)
{
    td_dtype kind = dtype == TD_DTYPE_NONE ? td_default_dtype() : dtype;
    if (!td_dtype_is_floating(kind) && !td_dtype_is_complex(kind))
        return td_fail(TD_E_RUNTIME, "fftfreq requires a floating point or complex dtype");
    LET(whole) = td_arange_start_step(td_int(0), td_int(count), td_int(1), kind, device);
    if (both && n > 1 && whole) {
        LET(first) = td_arange_start_step(td_int(0), td_int((n + 1) / 2), td_int(1), kind, device);
        LET(second) = td_arange_start_step(td_int(-(n / 2)), td_int(0), td_int(1), kind, device);
        td_tensor_release(whole);
        whole = first && second ? td_cat(2, (td_tensor *[]){first, second}, 0) : NULL;
    }
    return td_times(whole, td_float(1.0 / ((double)n * d)));
}
td_tensor *td_op_fft_fftfreq(int64_t n, double d, td_dtype dtype, td_device device) { return frequencies(n, d, n, true, dtype, device); }
td_tensor *td_op_fft_rfftfreq(int64_t n, double d, td_dtype dtype, td_device device)
{
    return frequencies(n, d, n / 2 + 1, false, dtype, device);
}

/* fftshift moves frequency 0 to the middle, position n / 2; ifftshift (`back`) undoes it, which for odd n is another distance. */
static td_tensor *shift(td_tensor *x, int64_t n_dim, const int64_t *dim, bool back)
{
    int64_t dims[TD_MAX_DIMS], shifts[TD_MAX_DIMS], n = n_dim < 0 ? x->ndim : n_dim;
    if (n > TD_MAX_DIMS)        /* a dimension may be named twice, but not without end */
        return td_fail(TD_E_RUNTIME, "fftshift: %" PRId64 " dims, of at most %d", n, TD_MAX_DIMS);
    for (int64_t i = 0; i < n; i++) {
        int d = n_dim < 0 ? (int)i : td_wrap_dim(dim[i], x->ndim);
        if (d < 0)
            return NULL;
        dims[i] = d;
        shifts[i] = back ? (x->sizes[d] + 1) / 2 : x->sizes[d] / 2;
    }
    return n ? td_roll(x, n, shifts, n, dims) : td_fail(TD_E_RUNTIME, "`shifts` required");
}
td_tensor *td_op_fft_fftshift(td_tensor *x, int64_t n_dim, const int64_t *dim)  { return shift(x, n_dim, dim, false); }
td_tensor *td_op_fft_ifftshift(td_tensor *x, int64_t n_dim, const int64_t *dim) { return shift(x, n_dim, dim, true); }
