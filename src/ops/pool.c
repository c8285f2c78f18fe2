/* Pooling: windows, shapes, and the forms for one, two and three dimensions. */
#include "calls_ops_pool.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "ops/compose.h"
#include "ops/pool.h"

static int fill(const char *op, const char *what, int dims, int64_t n, const int64_t *values, const int64_t *otherwise,
                int64_t *to)
{
    static const char *const tuples[] = {"", "one int", "a tuple of two ints", "a tuple of three ints"};
    if (n != 1 && n != dims && !(n == 0 && otherwise))
        return td_error(TD_E_RUNTIME, "%s: %s must either be %sa single int, or %s", op, what,
                        otherwise ? "omitted, " : "", tuples[dims]);
    for (int i = 0; i < 3; i++)
        to[i] = i < 3 - dims ? 1 : n == 0 ? otherwise[i] : values[n == 1 ? 0 : i - (3 - dims)];
    return 0;
}

int td_pool_windows(td_windows *w, const char *op, int dims, int ndim, const int64_t *sizes, int64_t n_kernel,
                    const int64_t *kernel,
                    int64_t n_stride, const int64_t *stride, int64_t n_padding, const int64_t *padding,
                    int64_t n_dilation,
                    const int64_t *dilation, bool ceil_mode)
{
    static const int64_t zeros[3] = {0}, ones[3] = {1, 1, 1};
    *w = (td_windows){.include_pad = true};
    if (fill(op, "kernel_size", dims, n_kernel, kernel, NULL, w->kernel) || fill(op, "stride", dims, n_stride, stride,
        w->kernel, w->stride) ||
        fill(op, "padding", dims, n_padding, padding, zeros, w->pad) || fill(op, "dilation", dims, n_dilation,
                                                                             dilation, ones, w->dilation))
        return -1;
    for (int i = 0; i < 3 - dims; i++)
        w->pad[i] = 0, w->in[i] = w->out[i] = 1;
    for (int i = 3 - dims; i < 3; i++) {
        int64_t in = w->in[i] = sizes[ndim - 3 + i], k = w->kernel[i], s = w->stride[i], p = w->pad[i],
        d = w->dilation[i];
        if (s == 0)
            return td_error(TD_E_RUNTIME, "stride should not be zero");
        if (k <= 0 || s < 0)
            return td_error(TD_E_RUNTIME, "%s should be greater than zero, but got %" PRId64,
                            k <= 0 ? "kernel size" : "stride", k <= 0 ? k : s);
        if (d <= 0)
            return td_error(TD_E_RUNTIME, "dilation should be greater than zero, but got %" PRId64, d);
        if (p < 0)
            return td_error(TD_E_RUNTIME, "pad must be non-negative, but got pad: %" PRId64, p);
        if (p > ((k - 1) * d + 1) / 2)
            return td_error(TD_E_RUNTIME, "pad should be at most half of effective kernel size, but got pad=%" PRId64 ", kernel_size=%" PRId64
                            " and dilation=%" PRId64, p, k, d);
        int64_t room = in + 2 * p - d * (k - 1) - 1 + (ceil_mode ? s - 1 : 0);
        w->out[i] = room < 0 ? 0 : room / s + 1;
        if (ceil_mode && (w->out[i] - 1) * s >= in + p)
            w->out[i]--;
    }
    for (int i = 0; i < 3; i++)
        if (w->out[i] < 1)
            return td_error(TD_E_RUNTIME, "Given input size: (%" PRId64 "x%" PRId64 "x%" PRId64 "). Calculated output size: (%" PRId64 "x%" PRId64
                            "x%" PRId64 "). Output size is too small", w->in[0], w->in[1], w->in[2], w->out[0],
                            w->out[1], w->out[2]);
    return 0;
}

void td_adaptive_windows(td_windows *w, int dims, int ndim, const int64_t *sizes, const int64_t *output)
{
    *w = (td_windows){.adaptive = true};
    for (int i = 0; i < 3; i++) {
        bool there = i >= 3 - dims;
        w->in[i] = there ? sizes[ndim - 3 + i] : 1, w->out[i] = there ? output[i - (3 - dims)] : 1;
        w->dilation[i] = 1;
    }
}

static int check_input(const char *op, td_tensor *self, int dims)
{
    td_shape_text text;
    bool fits = self->ndim == dims + 1 || self->ndim == dims + 2;
    for (int i = self->ndim - dims - 1; fits && i < self->ndim; i++)
        fits = self->sizes[i] > 0;
    if (self->ndim != dims + 1 && self->ndim != dims + 2)
        return td_error(TD_E_RUNTIME, "%s: non-empty %dD or %dD (batch mode) tensor expected for input, but got: %s", op, dims + 1,
                        dims + 2, td_shape_str(self->ndim, self->sizes, text));
    if (!fits)
        return td_error(TD_E_RUNTIME, "%s: Expected %dD or %dD (batch mode) tensor with optional 0 dim batch size for input, but got:%s", op,
                        dims + 1, dims + 2, td_shape_str(self->ndim, self->sizes, text));
    if (self->dtype == TD_BOOL || td_is_complex(self))
        return td_error(TD_E_NOT_IMPLEMENTED, "\"%s\" not implemented for '%s'", op,
                        td_dtype_title((td_dtype)self->dtype));
    return 0;
}

static int spec_of(td_spec *spec, td_tensor *self, int dims, const td_windows *w, td_dtype dtype)
{
    td_spec_set(spec, self->ndim, self->sizes, dtype, self->device);
    for (int i = 0; i < dims; i++)
        spec->sizes[self->ndim - dims + i] = w->out[3 - dims + i];
    return 0;
}

#define MAX_POOL(n)                                                                                                    \
    int td_meta_max_pool##n##d_with_indices(td_spec *specs, td_tensor *self, int64_t n_kernel, const int64_t *kernel,  \
                                            int64_t n_stride, const int64_t *stride, int64_t n_padding, const int64_t *padding, \
                                            int64_t n_dilation, const int64_t *dilation, bool ceil_mode)               \
    {                                                                                                                  \
        td_windows w;                                                                                                  \
        if (check_input("max_pool" #n "d", self, n) ||                                                                 \
            td_pool_windows(&w, "max_pool" #n "d", n, self->ndim, self->sizes, n_kernel, kernel, n_stride, stride, n_padding, \
                            padding, n_dilation, dilation, ceil_mode))                                                 \
            return -1;                                                                                                 \
        spec_of(&specs[1], self, n, &w, TD_I64);                                                                       \
        return spec_of(&specs[0], self, n, &w, (td_dtype)self->dtype);                                                 \
    }                                                                                                                  \
    td_tensor *td_op_max_pool##n##d(td_tensor *self, int64_t n_kernel, const int64_t *kernel, int64_t n_stride,        \
                                    const int64_t *stride, int64_t n_padding, const int64_t *padding, int64_t n_dilation, \
                                    const int64_t *dilation, bool ceil_mode)                                           \
    {                                                                                                                  \
        td_tensor *results[2];                                                                                         \
        if (td_max_pool##n##d_with_indices(results, self, n_kernel, kernel, n_stride, stride, n_padding, padding, n_dilation, \
                                           dilation, ceil_mode))                                                       \
            return NULL;                                                                                               \
        td_tensor_release(results[1]);                                                                                 \
        return results[0];                                                                                             \
    }
MAX_POOL(2)
MAX_POOL(3)

/* One dimension is two, the first of size 1. */
int td_op_max_pool1d_with_indices(td_tensor **results, td_tensor *self, int64_t n_kernel, const int64_t *kernel,
                                  int64_t n_stride,
                                  const int64_t *stride, int64_t n_padding, const int64_t *padding, int64_t n_dilation,
                                  const int64_t *dilation, bool ceil_mode)
{
    td_windows w;
    td_shape_text text;
    if (self->ndim != 2 && self->ndim != 3)
        return td_error(TD_E_RUNTIME, "max_pool1d() Expected 2D or 3D input tensor, but got %s",
                        td_shape_str(self->ndim, self->sizes, text));
    if (check_input("max_pool1d", self, 1) ||
        td_pool_windows(&w, "max_pool1d", 1, self->ndim, self->sizes, n_kernel, kernel, n_stride, stride, n_padding,
                        padding, n_dilation,
                        dilation, ceil_mode))
        return -1;
    TD_AUTO td_tensor *x = td_unsqueeze(self, -2);
    td_tensor *wide[2];
    if (!x || td_max_pool2d_with_indices(wide, x, 2, (int64_t[]){1, w.kernel[2]}, 2, (int64_t[]){1, w.stride[2]}, 2,
                                         (int64_t[]){0, w.pad[2]}, 2, (int64_t[]){1, w.dilation[2]}, ceil_mode))
        return -1;
    for (int i = 0; i < 2; i++) {
        results[i] = td_squeeze_dim(wide[i], -2);
        td_tensor_release(wide[i]);
    }
    if (results[0] && results[1])
        return 0;
    td_tensor_release(results[0]);
    td_tensor_release(results[1]);
    return -1;
}

td_tensor *td_op_max_pool1d(td_tensor *self, int64_t n_kernel, const int64_t *kernel, int64_t n_stride,
                            const int64_t *stride,
                            int64_t n_padding, const int64_t *padding, int64_t n_dilation, const int64_t *dilation,
                            bool ceil_mode)
{
    td_tensor *results[2];
    if (td_op_max_pool1d_with_indices(results, self, n_kernel, kernel, n_stride, stride, n_padding, padding,
                                      n_dilation, dilation, ceil_mode))
        return NULL;
    td_tensor_release(results[1]);
    return results[0];
}

int td_meta_max_pool_backward(td_spec *specs, td_tensor *grad, td_tensor *self, td_tensor *indices, int64_t dims)
{
    (void)grad, (void)indices, (void)dims;
    return td_spec_like(specs, self);
}

int td_meta_max_pool_pick(td_spec *specs, td_tensor *self, td_tensor *indices, int64_t dims)
{
    (void)dims;
    return td_spec_set(specs, indices->ndim, indices->sizes, (td_dtype)self->dtype, self->device);
}

static int check_adaptive(const char *op, td_tensor *self, int dims, int64_t n_output, const int64_t *output)
{
    td_shape_text text;
    if (n_output != dims)
        return td_error(TD_E_RUNTIME, "%s: output_size must be %d", op, dims);
    if (self->ndim != dims + 1 && self->ndim != dims + 2)
        return td_error(TD_E_RUNTIME, "%s(): Expected %dD or %dD tensor, but got %s", op, dims + 1, dims + 2,
                        td_shape_str(self->ndim, self->sizes, text));
    for (int i = 1; i < self->ndim; i++)
        if (self->sizes[i] == 0 && i >= self->ndim - dims)
            return td_error(TD_E_RUNTIME, "%s(): Expected input to have non-zero size for non-batch dimensions, but input has sizes %s with "
                            "dimension %d being empty", op, td_shape_str(self->ndim, self->sizes, text), i);
    for (int i = 0; i < dims; i++)
        if (output[i] < 0)
            return td_error(TD_E_RUNTIME, "%s: elements of output_size must be greater than or equal to 0 but received %" PRId64, op, output[i]);
    if (self->dtype == TD_BOOL || td_is_complex(self))
        return td_error(TD_E_NOT_IMPLEMENTED, "\"%s\" not implemented for '%s'", op,
                        td_dtype_title((td_dtype)self->dtype));
    return 0;
}

#define ADAPTIVE_MAX(n)                                                                                           \
    int td_meta_adaptive_max_pool##n##d(td_spec *specs, td_tensor *self, int64_t n_output, const int64_t *output) \
    {                                                                                                             \
        td_windows w;                                                                                             \
        if (check_adaptive("adaptive_max_pool" #n "d", self, n, n_output, output))                                \
            return -1;                                                                                            \
        td_adaptive_windows(&w, n, self->ndim, self->sizes, output);                                              \
        spec_of(&specs[1], self, n, &w, TD_I64);                                                                  \
        return spec_of(&specs[0], self, n, &w, (td_dtype)self->dtype);                                            \
    }
ADAPTIVE_MAX(2)
ADAPTIVE_MAX(3)

int td_op_adaptive_max_pool1d(td_tensor **results, td_tensor *self, int64_t n_output, const int64_t *output)
{
    if (check_adaptive("adaptive_max_pool1d", self, 1, n_output, output))
        return -1;
    TD_AUTO td_tensor *x = td_unsqueeze(self, -2);
    td_tensor *wide[2];
    if (!x || td_adaptive_max_pool2d(wide, x, 2, (int64_t[]){1, output[0]}))
        return -1;
    for (int i = 0; i < 2; i++) {
        results[i] = td_squeeze_dim(wide[i], -2);
        td_tensor_release(wide[i]);
    }
    if (results[0] && results[1])
        return 0;
    td_tensor_release(results[0]);
    td_tensor_release(results[1]);
    return -1;
}

int td_meta_avg_pool_windows(td_spec *specs, td_tensor *self, int64_t n_kernel, const int64_t *kernel,
                             int64_t n_stride, const int64_t *stride,
                             int64_t n_padding, const int64_t *padding, bool ceil_mode, bool include_pad,
                             const int64_t *divisor)
{
    (void)include_pad, (void)divisor;
    td_windows w;
    if (td_pool_windows(&w, "avg_pool", (int)n_kernel, self->ndim, self->sizes, n_kernel, kernel, n_stride, stride,
                        n_padding, padding, 0, NULL,
                        ceil_mode))
        return -1;
    return spec_of(specs, self, (int)n_kernel, &w, (td_dtype)self->dtype);
}

int td_meta_avg_pool_backward(td_spec *specs, td_tensor *grad, int64_t n_input, const int64_t *input, int64_t n_kernel,
                              const int64_t *kernel,
                              int64_t n_stride, const int64_t *stride, int64_t n_padding, const int64_t *padding,
                              bool ceil_mode,
                              bool include_pad, const int64_t *divisor)
{
    (void)n_kernel, (void)kernel, (void)n_stride, (void)stride, (void)n_padding, (void)padding, (void)ceil_mode,
    (void)include_pad;
    (void)divisor;
    return td_spec_set(specs, (int)n_input, input, (td_dtype)grad->dtype, grad->device);
}

static td_tensor *average(const char *op, int dims, td_tensor *self, int64_t n_kernel, const int64_t *kernel,
                          int64_t n_stride,
                          const int64_t *stride, int64_t n_padding, const int64_t *padding, bool ceil_mode,
                          bool include_pad,
                          const int64_t *divisor)
{
    td_windows w;
    if (dims == 1 && self->ndim != 2 && self->ndim != 3)
        return td_fail(TD_E_RUNTIME, "Expected 2 to 3 dimensions, but got %d-dimensional tensor for argument #1 'self' (while checking arguments "
                       "for avg_pool1d)", self->ndim);
    if (divisor && *divisor == 0)
        return td_fail(TD_E_RUNTIME, "divisor must be not zero");
    if (check_input(op, self, dims) ||
        td_pool_windows(&w, op, dims, self->ndim, self->sizes, n_kernel, kernel, n_stride, stride, n_padding, padding,
                        0, NULL, ceil_mode))
        return NULL;
    int at = 3 - dims;
    return td_avg_pool_windows(self, dims, w.kernel + at, dims, w.stride + at, dims, w.pad + at, ceil_mode,
                               include_pad, divisor);
}

td_tensor *td_op_avg_pool1d(td_tensor *self, int64_t n_kernel, const int64_t *kernel, int64_t n_stride,
                            const int64_t *stride,
                            int64_t n_padding, const int64_t *padding, bool ceil_mode, bool include_pad)
{
    return average("avg_pool1d", 1, self, n_kernel, kernel, n_stride, stride, n_padding, padding, ceil_mode,
                   include_pad, NULL);
}

td_tensor *td_op_avg_pool2d(td_tensor *self, int64_t n_kernel, const int64_t *kernel, int64_t n_stride,
                            const int64_t *stride,
                            int64_t n_padding, const int64_t *padding, bool ceil_mode, bool include_pad,
                            const int64_t *divisor)
{
    return average("avg_pool2d", 2, self, n_kernel, kernel, n_stride, stride, n_padding, padding, ceil_mode,
                   include_pad, divisor);
}

td_tensor *td_op_avg_pool3d(td_tensor *self, int64_t n_kernel, const int64_t *kernel, int64_t n_stride,
                            const int64_t *stride,
                            int64_t n_padding, const int64_t *padding, bool ceil_mode, bool include_pad,
                            const int64_t *divisor)
{
    return average("avg_pool3d", 3, self, n_kernel, kernel, n_stride, stride, n_padding, padding, ceil_mode,
                   include_pad, divisor);
}

int td_meta_adaptive_avg_windows(td_spec *specs, td_tensor *self, int64_t n_output, const int64_t *output)
{
    td_windows w;
    td_adaptive_windows(&w, (int)n_output, self->ndim, self->sizes, output);
    return spec_of(specs, self, (int)n_output, &w, (td_dtype)self->dtype);
}

int td_meta_adaptive_avg_backward(td_spec *specs, td_tensor *grad, int64_t n_input, const int64_t *input,
                                  int64_t n_output,
                                  const int64_t *output)
{
    (void)n_output, (void)output;
    return td_spec_set(specs, (int)n_input, input, (td_dtype)grad->dtype, grad->device);
}

#define ADAPTIVE_AVG(n)                                                                                \
    td_tensor *td_op_adaptive_avg_pool##n##d(td_tensor *self, int64_t n_output, const int64_t *output) \
    {                                                                                                  \
        if (check_adaptive("adaptive_avg_pool" #n "d", self, n, n_output, output))                     \
            return NULL;                                                                               \
        return td_adaptive_avg_windows(self, n_output, output);                                        \
    }
ADAPTIVE_AVG(1)
ADAPTIVE_AVG(2)
ADAPTIVE_AVG(3)
