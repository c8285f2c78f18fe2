/* Fourier transforms on devices: by the vendor's library (td_fft_call in <tede/device.h>); where there is none, by our own kernels (fft.ck).
 *
 * A library has the transformed dimensions innermost, in one piece, three at most: operands are copied to that order, and what it makes goes to where the result
 * lies.  It is given pairs of real numbers.  Our kernels take one dimension after the other, of complex numbers. */
#include "calls_kernels_device_fft.h"
#include <math.h>
#include <string.h>
#include "kernels/device/kernel.h"
#define TD_HOST
#include "kernels/device/fft.ck"

TD_SOURCE(fft);

enum { MOST = 3 };

/* A view with the dimensions `dim` (wrapped, in this order) behind the others, and the pairs of complex numbers behind all. */
static td_tensor *inner_last(td_tensor *x, int64_t n_dim, const int64_t *dim)
{
    TD_AUTO td_tensor *pairs = td_dtype_is_complex((td_dtype)x->dtype) ? td_view_as_real(x) : td_tensor_retain(x);
    int64_t order[TD_MAX_DIMS + 1];
    int n = 0;
    for (int d = 0; pairs && d < x->ndim; d++) {
        bool is = false;
        for (int64_t i = 0; i < n_dim; i++)
            is |= dim[i] == d;
        if (!is)
            order[n++] = d;
    }
    for (int64_t i = 0; i < n_dim; i++)
        order[n++] = dim[i];
    if (pairs && pairs->ndim > x->ndim)
        order[n++] = x->ndim;
    return pairs ? td_permute(pairs, n, order) : NULL;
}

/* x as the library reads it; `own`: it may write there, too. */
static td_tensor *packed(td_tensor *x, int64_t n_dim, const int64_t *dim, bool own)
{
    TD_AUTO td_tensor *resolved = td_resolve_conj(x);
    TD_AUTO td_tensor *view = resolved ? inner_last(resolved, n_dim, dim) : NULL;
    return !view ? NULL : own ? td_clone_format(view, TD_CONTIGUOUS_FORMAT) : td_make_contiguous(view);
}

/* `logical`: the size of the last dimension on the real side, else the operand's. */
static int transform(td_tensor *self, td_fft_kind kind, bool forward, int64_t n_dim, const int64_t *given, int64_t logical, int64_t normalization, td_tensor *out)
{
    td_fft_call c = {.size = sizeof c, .dtype = out->dtype == TD_C128 || out->dtype == TD_F64 ? TD_F64 : TD_F32, .kind = kind, .forward = forward,
                     .dims = (int)n_dim};
    int64_t dim[MOST];
    double count = 1;
    if (!out->numel)
        return 0;
    for (int i = 0; i < c.dims; i++) {
        dim[i] = td_wrap_dim(given[i], self->ndim);
        c.sizes[i] = i == c.dims - 1 && logical ? logical : self->sizes[dim[i]];
        count *= (double)c.sizes[i];
    }
    TD_AUTO td_tensor *x = packed(self, n_dim, dim, kind == TD_FFT_C2R), *to = inner_last(out, n_dim, dim);
    TD_AUTO td_tensor *y = x && to ? td_tensor_is_contiguous(to) ? td_tensor_retain(to) : td_tensor_new(to->ndim, to->sizes, (td_dtype)to->dtype, to->device) : NULL;
    if (!y)
        return -1;
    c.x = x->data, c.y = y->data;
    c.batch = self->numel;
    for (int i = 0; i < c.dims; i++)
        c.batch /= self->sizes[dim[i]];
    const int status = td_device_fft(out->device, &c);
    if (status)
        return status > 0 ? td_leave_to_cpu("a Fourier transform that no library takes") : -1;
    if (normalization && td_mul_scalar_(y, td_float(normalization == 1 ? 1 / sqrt(count) : 1 / count)))
        return -1;
    return y == to ? 0 : td_copy_elements(to, y);
}

static bool has_library(const td_tensor *x) { return td_device_of(x->device.type)->fft != NULL; }

/* ---- by our own kernels */

enum { LARGEST_RADIX = 64 };

static td_launch_of launch_of(const char *kernel, td_tensor *x, const fft_values *v, int64_t items)
{
    return (td_launch_of){.source = td_source_fft, .kernel = kernel, TD_VALUES(*v), .groups = td_launch_groups(x->device, items), .complex = true,
                          .types = {{"A", (td_dtype)x->dtype}, {"R", td_dtype_to_real((td_dtype)x->dtype)}}};
}
static td_tensor *roots(td_tensor *x, int64_t n, bool squares, bool forward)
{
    const fft_values v = {.n = n, .squares = squares, .backward = !forward};
    td_tensor *w = td_tensor_new(1, &n, (td_dtype)x->dtype, x->device);
    td_launch_of launch = launch_of("fft_roots", x, &v, n);
    launch.buffers[0] = w;
    if (w && td_launch(&launch)) {
        td_tensor_release(w);
        return NULL;
    }
    return w;
}

/* A radix that divides n; its least prime factor if 4 doesn't. */
static int64_t radix_of(int64_t n)
{
    if (n % 4 == 0)
        return 4;
    for (int64_t p = 2; p * p <= n; p++)
        if (n % p == 0)
            return p;
    return n;
}
static bool has_large_factor(int64_t n)
{
    while (n > 1) {
        const int64_t p = radix_of(n);
        if (p > LARGEST_RADIX)
            return true;
        n /= p;
    }
    return false;
}

/* Of contiguous lines; a new reference.  Passes go to and fro between two tensors. */
static td_tensor *transform_lines(td_tensor *x, bool forward)
{
    const int64_t n = x->sizes[x->ndim - 1];
    TD_AUTO td_tensor *w = roots(x, n, false, forward);
    td_tensor *from = td_tensor_retain(x), *to = NULL;
    fft_values v = {.n = n, .total = x->numel, .done = 1};
    int status = w ? 0 : -1;
    for (v.left = n; v.left > 1 && !status; v.left /= v.radix, v.done *= v.radix) {
        v.radix = radix_of(v.left);
        to = to ? to : td_tensor_new(x->ndim, x->sizes, (td_dtype)x->dtype, x->device);
        td_launch_of launch = launch_of("fft_pass", x, &v, v.total);
        launch.buffers[0] = from, launch.buffers[1] = to, launch.buffers[2] = w;
        status = to ? td_launch(&launch) : -1;
        td_tensor *done = to;
        to = from == x ? NULL : from;
        if (from == x)
            td_tensor_release(from);
        from = done;
    }
    td_tensor_release(to);
    if (status) {
        td_tensor_release(from);
        return NULL;
    }
    return from;
}

/* A size with a large prime factor, as a convolution with a chirp (Bluestein, 1970), whose transform has a size that is a power of two. */
static td_tensor *transform_by_chirp(td_tensor *x, bool forward)
{
    const int64_t n = x->sizes[x->ndim - 1], wide = td_power_from(2 * n - 1);
    TD_AUTO td_tensor *chirp = roots(x, n, true, forward), *lazy = chirp ? td_conj(chirp) : NULL, *back = lazy ? td_resolve_conj(lazy) : NULL;
    TD_AUTO td_tensor *turned = back ? td_mul(x, chirp) : NULL, *later = back ? td_narrow(back, 0, 1, n - 1) : NULL;
    TD_AUTO td_tensor *mirrored = later ? td_flip(later, 1, (int64_t[]){0}) : NULL;
    TD_AUTO td_tensor *kernel = mirrored ? td_zeros(1, &wide, (td_dtype)x->dtype, x->device) : NULL;
    TD_AUTO td_tensor *front = kernel ? td_narrow(kernel, 0, 0, n) : NULL, *end = kernel ? td_narrow(kernel, 0, wide - n + 1, n - 1) : NULL;
    if (!front || !end || td_copy_elements(front, back) || td_copy_elements(end, mirrored))
        return NULL;
    TD_AUTO td_tensor *padded = turned ? td_constant_pad_nd(turned, 2, (int64_t[]){0, wide - n}, td_int(0)) : NULL;
    TD_AUTO td_tensor *a = padded ? transform_lines(padded, true) : NULL, *b = a ? transform_lines(kernel, true) : NULL;
    TD_AUTO td_tensor *product = b ? td_mul(a, b) : NULL, *sums = product ? transform_lines(product, false) : NULL;
    TD_AUTO td_tensor *part = sums ? td_narrow(sums, -1, 0, n) : NULL, *scaled = part ? td_mul(part, chirp) : NULL;
    return scaled ? td_mul_scalar(scaled, td_float(1.0 / (double)wide)) : NULL;
}

/* Of complex numbers along one dimension; unscaled. */
static td_tensor *along(td_tensor *x, int64_t dim, bool forward)
{
    TD_AUTO td_tensor *resolved = td_resolve_conj(x), *moved = resolved ? td_transpose_int(resolved, dim, -1) : NULL;
    TD_AUTO td_tensor *lines = moved ? td_make_contiguous(moved) : NULL;
    if (!lines)
        return NULL;
    TD_AUTO td_tensor *y = has_large_factor(lines->sizes[lines->ndim - 1]) ? transform_by_chirp(lines, forward) : transform_lines(lines, forward);
    return y ? td_transpose_int(y, dim, -1) : NULL;
}
static td_tensor *along_all(td_tensor *x, int64_t n_dim, const int64_t *dim, bool forward)
{
    td_tensor *y = td_tensor_retain(x);
    for (int64_t i = 0; i < n_dim && y; i++) {
        td_tensor *next = along(y, dim[i], forward);
        td_tensor_release(y);
        y = next;
    }
    return y;
}
/* `count`: of the sums' terms. */
static int scaled_to(td_tensor *out, td_tensor *y, int64_t normalization, double count)
{
    const double by = normalization == 0 ? 1 : normalization == 1 ? 1 / sqrt(count) : 1 / count;
    TD_AUTO td_tensor *scaled = normalization ? td_mul_scalar(y, td_float(by)) : td_tensor_retain(y);
    return scaled ? td_copy_elements(out, scaled) : -1;
}
static double count_of(const td_tensor *x, int64_t n_dim, const int64_t *dim)
{
    double count = 1;
    for (int64_t i = 0; i < n_dim; i++)
        count *= (double)x->sizes[td_wrap_dim(dim[i], x->ndim)];
    return count;
}
static bool computes(const td_tensor *x)
{
    return td_device_computes(x->device, td_dtype_to_real((td_dtype)x->dtype));
}

static int own_c2c(td_tensor *self, int64_t n_dim, const int64_t *dim, int64_t normalization, bool forward, td_tensor *out)
{
    if (!computes(out))
        return td_leave_to_cpu("transforms in double");
    TD_AUTO td_tensor *y = out->numel ? along_all(self, n_dim, dim, forward) : td_tensor_retain(TD_NONE);
    return !y ? -1 : out->numel ? scaled_to(out, y, normalization, count_of(self, n_dim, dim)) : 0;
}
/* All but the last dimension, then that one of the whole spectrum, whose other half is the conjugate of this one backwards. */
static int own_c2r(td_tensor *self, int64_t n_dim, const int64_t *dim, int64_t normalization, int64_t size, td_tensor *out)
{
    if (!computes(self))
        return td_leave_to_cpu("transforms in double");
    if (!out->numel)
        return 0;
    const int64_t last = dim[n_dim - 1], there = size / 2 + 1, missing = size - there;
    TD_AUTO td_tensor *front = along_all(self, n_dim - 1, dim, false), *half = front ? td_narrow(front, last, 0, there) : NULL;
    TD_AUTO td_tensor *inner = half ? td_narrow(half, last, 1, missing) : NULL, *mirrored = inner ? td_flip(inner, 1, &last) : NULL;
    TD_AUTO td_tensor *other = mirrored ? td_conj(mirrored) : NULL, *whole = other ? td_cat(2, (td_tensor *[]){half, other}, last) : NULL;
    TD_AUTO td_tensor *y = whole ? along(whole, last, false) : NULL, *real = y ? td_real(y) : NULL;
    return real ? scaled_to(out, real, normalization, count_of(self, n_dim - 1, dim) * (double)size) : -1;
}

/* Beyond three dimensions: those in front by a call of its own, whose scale is a factor of the whole one. */
int td_on_device__fft_c2c(td_tensor *self, int64_t n_dim, const int64_t *dim, int64_t normalization, bool forward, td_tensor *out0)
{
    if (!n_dim)
        return td_copy_elements(out0, self);
    if (!has_library(self))
        return own_c2c(self, n_dim, dim, normalization, forward, out0);
    TD_AUTO td_tensor *x = n_dim > MOST ? td__fft_c2c(self, n_dim - MOST, dim, normalization, forward) : td_tensor_retain(self);
    const int64_t n = n_dim < MOST ? n_dim : MOST;
    return x ? transform(x, TD_FFT_C2C, forward, n, dim + n_dim - n, 0, normalization, out0) : -1;
}

/* Both halves: as the transform of complex numbers. */
int td_on_device__fft_r2c(td_tensor *self, int64_t n_dim, const int64_t *dim, int64_t normalization, bool onesided, td_tensor *out0)
{
    const int64_t n = n_dim < MOST ? n_dim : MOST;
    if (!has_library(self) && onesided) {
        TD_AUTO td_tensor *whole = td__fft_r2c(self, n_dim, dim, normalization, false);
        TD_AUTO td_tensor *half = whole ? td_narrow(whole, dim[n_dim - 1], 0, out0->sizes[td_wrap_dim(dim[n_dim - 1], out0->ndim)]) : NULL;
        return half ? td_copy_elements(out0, half) : -1;
    }
    if (!onesided) {
        TD_AUTO td_tensor *x = td_zeros(self->ndim, self->sizes, (td_dtype)out0->dtype, self->device);
        TD_AUTO td_tensor *pairs = x ? td_view_as_real(x) : NULL;
        TD_AUTO td_tensor *real = pairs ? td_select_int(pairs, -1, 0) : NULL;
        return real && !td_copy_elements(real, self) ? td_on_device__fft_c2c(x, n_dim, dim, normalization, true, out0) : -1;
    }
    if (n_dim <= MOST)
        return transform(self, TD_FFT_R2C, true, n, dim, 0, normalization, out0);
    TD_AUTO td_tensor *half = td__fft_r2c(self, n, dim + n_dim - n, normalization, true);
    return half ? td_on_device__fft_c2c(half, n_dim - n, dim, normalization, true, out0) : -1;
}

int td_on_device__fft_c2r(td_tensor *self, int64_t n_dim, const int64_t *dim, int64_t normalization, int64_t last_dim_size, td_tensor *out0)
{
    const int64_t n = n_dim < MOST ? n_dim : MOST;
    if (!has_library(self))
        return own_c2r(self, n_dim, dim, normalization, last_dim_size, out0);
    TD_AUTO td_tensor *x = n_dim > MOST ? td__fft_c2c(self, n_dim - n, dim, normalization, false) : td_tensor_retain(self);
    return x ? transform(x, TD_FFT_C2R, false, n, dim + n_dim - n, last_dim_size, normalization, out0) : -1;
}
