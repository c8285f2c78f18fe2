/* Fourier transforms on devices: by the vendor's library (td_fft_call in <tede/device.h>); where there is none, the CPU computes them.
 *
 * A library has the transformed dimensions innermost, in one piece, three at most: operands are copied to that order, and what it makes goes to where the result
 * lies.  Kernels have no complex numbers, so that all of it is seen as pairs of real ones. */
#include "calls_kernels_device_fft.h"
#include <math.h>
#include <string.h>
#include "kernels/device/kernel.h"

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
static int no_library(void) { return td_leave_to_cpu("Fourier transforms, which the device has no library for"); }

/* Beyond three dimensions: those in front by a call of its own, whose scale is a factor of the whole one. */
int td_on_device__fft_c2c(td_tensor *self, int64_t n_dim, const int64_t *dim, int64_t normalization, bool forward, td_tensor *out0)
{
    if (!has_library(self))
        return no_library();
    if (!n_dim)
        return td_copy_elements(out0, self);
    TD_AUTO td_tensor *x = n_dim > MOST ? td__fft_c2c(self, n_dim - MOST, dim, normalization, forward) : td_tensor_retain(self);
    const int64_t n = n_dim < MOST ? n_dim : MOST;
    return x ? transform(x, TD_FFT_C2C, forward, n, dim + n_dim - n, 0, normalization, out0) : -1;
}

/* Both halves: as the transform of complex numbers. */
int td_on_device__fft_r2c(td_tensor *self, int64_t n_dim, const int64_t *dim, int64_t normalization, bool onesided, td_tensor *out0)
{
    const int64_t n = n_dim < MOST ? n_dim : MOST;
    if (!has_library(self))
        return no_library();
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
        return no_library();
    TD_AUTO td_tensor *x = n_dim > MOST ? td__fft_c2c(self, n_dim - n, dim, normalization, false) : td_tensor_retain(self);
    return x ? transform(x, TD_FFT_C2R, false, n, dim + n_dim - n, last_dim_size, normalization, out0) : -1;
}
