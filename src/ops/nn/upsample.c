/* Interpolation: sizes from factors, checks, and one entry point per mode and rank.
 *
 * One operator, resample, serves all modes and ranks: positions and weights for each dimension. For linear and cubic
 * modes an output position o lies at (o + 0.5) scale - 0.5 in the input, or at o (in - 1) / (out - 1) with align. A
 * factor that was given is used for the scale as it is; 0 stands for none, where the sizes' ratio counts. */
#include "calls_ops_nn_upsample.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "ops/compose.h"
#include "tensor/checked.h"

#define NUMBERS int64_t n_output, const int64_t *output, int64_t mode, bool align, double scale_d, double scale_h, double scale_w
#define GIVEN n_output, output, mode, align, scale_d, scale_h, scale_w

/* Where the output isn't empty the input mustn't be: there would be nothing to read, or to add to.  A scale is computed in the dtype that
 * positions are computed in: whether one just makes it to the next position must not depend on more precision than PyTorch uses. */
static int describe(td_resize_geometry *g, td_dtype dtype, int64_t ndim, const int64_t *in, NUMBERS)
{
    const double given[3] = {scale_d, scale_h, scale_w};
    const int dims = (int)n_output;
    if (n_output > ndim || n_output > 3)
        return td_error(TD_E_RUNTIME, "resample: an output of %" PRId64 " dimensions for an input of %" PRId64, n_output, ndim);
    if (mode < TD_RESIZE_NEAREST || mode > TD_RESIZE_LANCZOS_AA)
        return td_error(TD_E_RUNTIME, "resample: there is no mode %" PRId64, mode);
    const bool narrow = dtype != TD_F64 && (dtype != TD_U8 || mode < TD_RESIZE_LINEAR);     /* bytes have whole weights */
    *g = (td_resize_geometry){.dims = dims, .mode = (td_resize_mode)mode, .align_corners = align && mode >= TD_RESIZE_LINEAR,
                              .dtype = narrow ? TD_F32 : TD_F64, .planes = 1, .in = {1, 1, 1}, .out = {1, 1, 1}, .in_total = 1,
                              .out_total = 1, .scale = {1, 1, 1}};
    for (int64_t i = 0; i < ndim - dims; i++)
        g->planes = td_mul_saturated(g->planes, in[i]);
    for (int i = 3 - dims; i < 3; i++) {
        const int64_t from = g->in[i] = in[ndim - 3 + i], to = g->out[i] = output[i - (3 - dims)];
        if (from < 1 && to > 0)
            return td_error(TD_E_RUNTIME, "resample: an output of %" PRId64 " from an input of size 0", to);
        g->in_total = td_mul_saturated(g->in_total, from), g->out_total = td_mul_saturated(g->out_total, to);
        const int64_t steps = g->align_corners ? from - 1 : from, over = g->align_corners ? to - 1 : to;
        const double ratio = over < 1 ? 0 : narrow ? (double)((float)steps / (float)over) : (double)steps / (double)over;
        g->scale[i] = given[i] > 0 && !g->align_corners ? narrow ? (double)(float)(1 / given[i]) : 1 / given[i] : ratio;
        if (!(g->scale[i] * ((double)to + 1) < 9e18))
            return td_error(TD_E_RUNTIME, "resample: positions for a factor of %g are out of range", given[i]);
    }
    return 0;
}

int td_meta_resample(td_spec *specs, td_resize_geometry *g, td_tensor *self, NUMBERS)
{
    if (describe(g, (td_dtype)self->dtype, self->ndim, self->sizes, GIVEN))
        return -1;
    td_spec_like(specs, self);
    memcpy(specs->sizes + self->ndim - n_output, output, sizeof *output * (size_t)n_output);
    return 0;
}

int td_meta_resample_backward(td_spec *specs, td_resize_geometry *g, td_tensor *grad, int64_t n_input, const int64_t *input, NUMBERS)
{
    if (n_input != grad->ndim)
        return td_error(TD_E_RUNTIME, "resample_backward: a gradient of %d dimensions for an input of %" PRId64, grad->ndim, n_input);
    if (describe(g, (td_dtype)grad->dtype, n_input, input, GIVEN))
        return -1;
    for (int64_t i = 0; i < n_input; i++) {
        const int64_t d = i - (n_input - n_output), want = d < 0 ? input[i] : output[d];
        if (grad->sizes[i] != want)
            return td_error(TD_E_RUNTIME, "resample_backward: the gradient's size %" PRId64 " in dimension %" PRId64 " doesn't belong to the input's "
                            "%" PRId64, grad->sizes[i], i, input[i]);
    }
    return td_spec_set(specs, (int)n_input, input, (td_dtype)grad->dtype, grad->device);
}

/* "H: 3, W: 4" */
static const char *named(int dims, const int64_t *sizes, char *text, size_t room)
{
    int at = 0;
    for (int i = 0; i < dims; i++)
        at += snprintf(text + at, room - (size_t)at, "%s%c: %" PRId64, i ? ", " : "", "DHW"[3 - dims + i], sizes[i]);
    return text;
}

/* Which kernel PyTorch would name when it has none for a dtype. */
static const char *kernel_name(int dims, int mode)
{
    if (mode >= TD_RESIZE_LINEAR_AA)
        return "compute_index_ranges_weights";
    if (mode <= TD_RESIZE_NEAREST_EXACT && dims == 2)
        return "upsample_nearest2d_channels_last";
    return mode <= TD_RESIZE_NEAREST_EXACT ? "compute_indices_weights_nearest"
        : mode == TD_RESIZE_LINEAR && dims == 2 ? "upsample_bilinear2d_channels_last"
        : mode == TD_RESIZE_LINEAR ? "compute_indices_weights_linear" : "compute_indices_weights_cubic";
}

/* Bytes are resampled as images are; antialiasing isn't there for half types, as in PyTorch. */
static bool has_kernel(const td_tensor *x, int dims, int mode)
{
    if (x->dtype == TD_U8)
        return mode <= TD_RESIZE_NEAREST_EXACT || dims == 2;
    return x->dtype == TD_F32 || x->dtype == TD_F64 || (td_is_floating(x) && mode < TD_RESIZE_LINEAR_AA);
}

/* The operators of fixed rank, whose checks are PyTorch's: describe() lets more through, inputs of any rank and empty ones among them.
 * scales[i] is NULL where no factor was given. factors has three numbers, aligned at the end, as the kernel takes them. */
static td_tensor *resample(int dims, int mode, td_tensor *self, int64_t n_output, const int64_t *output, bool align,
                           const double *const *scales)
{
    td_shape_text text;
    char in[100], out[100];
    double factors[3] = {0};
    if (n_output != dims)
        return td_fail(TD_E_RUNTIME, "It is expected output_size equals to %d, but got size %" PRId64, dims, n_output);
    if (self->ndim != dims + 2)
        return td_fail(TD_E_RUNTIME, "It is expected input_size equals to %d, but got size %d", dims + 2, self->ndim);
    bool positive = true;
    for (int i = 0; i < dims; i++) {
        positive &= output[i] > 0 && self->sizes[i + 2] > 0;
        factors[3 - dims + i] = scales[i] ? *scales[i] : 0;
    }
    if (!positive)
        return td_fail(TD_E_RUNTIME, "Input and output sizes should be greater than 0, but got input (%s) %soutput (%s)",
                       named(dims, self->sizes + 2, in, sizeof in), dims == 1 ? "and " : "",
                       named(dims, output, out, sizeof out));
    if (self->sizes[1] == 0)
        return td_fail(TD_E_RUNTIME, "Non-empty %dD data tensor expected but got a tensor with sizes %s", dims + 2,
                       td_shape_str(self->ndim, self->sizes, text));
    if (!has_kernel(self, dims, mode))
        return td_fail(TD_E_NOT_IMPLEMENTED, "\"%s\" not implemented for '%s'", kernel_name(dims, mode),
                       td_dtype_title((td_dtype)self->dtype));
    if (mode < TD_RESIZE_LINEAR_AA && (self->dtype != TD_U8 || mode <= TD_RESIZE_NEAREST_EXACT))
        return td_resample(self, dims, output, mode, align, factors[0], factors[1], factors[2]);
    /* One dimension after the other: the filter may be wide, and bytes are rounded in between as in PyTorch. */
    const int64_t wide[2] = {self->sizes[2], output[1]};
    bool image = self->dtype == TD_U8 && self->sizes[1] <= 4;       /* an axis that keeps its size is left alone */
    for (int i = 0; i < 2 && image; i++)
        factors[1 + i] = output[i] == self->sizes[2 + i] ? 0 : factors[1 + i];
    TD_AUTO td_tensor *rows = td_resample(self, 2, wide, mode, align, 0, 0, factors[2]);
    return td_resample(rows, 2, output, mode, align, 0, factors[1], 0);
}

/* Sizes from factors; exactly one of the two is given.
 * n_output or n_factors below 0 stands for an absent list. The size is floor(in * factor) in double, and bounded so
 * that the cast is safe and exact. */
static td_tensor *by_factors(const char *op, int dims, int mode, td_tensor *input, int64_t n_output,
                             const int64_t *output, bool align,
                             int64_t n_factors, const double *factors)
{
    int64_t sizes[3];
    const double *scales[3] = {NULL, NULL, NULL};
    if ((n_output >= 0) == (n_factors >= 0))
        return td_fail(TD_E_RUNTIME, "Must specify exactly one of output_size and scale_factors");
    if (n_output >= 0)
        return resample(dims, mode, input, n_output, output, align, scales);
    if (n_factors != dims || input->ndim != dims + 2)
        return td_fail(TD_E_RUNTIME, "%s: expected %d factors for an input of %d dimensions, got %" PRId64 " for %d",
                       op, dims, dims + 2,
                       n_factors, input->ndim);
    for (int i = 0; i < dims; i++) {
        double size = floor((double)input->sizes[i + 2] * factors[i]);
        if (!(size >= 0 && size < 9e15))
            return td_fail(TD_E_RUNTIME, "%s: a factor of %g for size %" PRId64 " is out of range", op, factors[i],
                           input->sizes[i + 2]);
        sizes[i] = (int64_t)size;
        scales[i] = &factors[i];
    }
    return resample(dims, mode, input, dims, sizes, align, scales);
}

#define SCALES_1 const double *scales_w
#define SCALES_2 const double *scales_h, const double *scales_w
#define SCALES_3 const double *scales_d, const double *scales_h, const double *scales_w
#define LIST_1   scales_w
#define LIST_2   scales_h, scales_w
#define LIST_3   scales_d, scales_h, scales_w

#define RESIZE(name, dims, mode, ALIGN, align)                                                                                               \
    td_tensor *td_op_##name(td_tensor *self, int64_t n_output, const int64_t *output, ALIGN SCALES_##dims)                                   \
    {                                                                                                                                        \
        return resample(dims, mode, self, n_output, output, align, (const double *const[]){LIST_##dims});                                    \
    }                                                                                                                                        \
    td_tensor *td_op_##name##_vec(td_tensor *input, int64_t n_output, const int64_t *output, ALIGN int64_t n_factors, const double *factors) \
    {                                                                                                                                        \
        return by_factors(#name, dims, mode, input, n_output, output, align, n_factors, factors);                                            \
    }
#define ALIGN bool align,
RESIZE(upsample_nearest1d, 1, TD_RESIZE_NEAREST, , false)
RESIZE(upsample_nearest2d, 2, TD_RESIZE_NEAREST, , false)
RESIZE(upsample_nearest3d, 3, TD_RESIZE_NEAREST, , false)
RESIZE(_upsample_nearest_exact1d, 1, TD_RESIZE_NEAREST_EXACT, , false)
RESIZE(_upsample_nearest_exact2d, 2, TD_RESIZE_NEAREST_EXACT, , false)
RESIZE(_upsample_nearest_exact3d, 3, TD_RESIZE_NEAREST_EXACT, , false)
RESIZE(upsample_linear1d, 1, TD_RESIZE_LINEAR, ALIGN, align)
RESIZE(upsample_bilinear2d, 2, TD_RESIZE_LINEAR, ALIGN, align)
RESIZE(upsample_trilinear3d, 3, TD_RESIZE_LINEAR, ALIGN, align)
RESIZE(upsample_bicubic2d, 2, TD_RESIZE_CUBIC, ALIGN, align)
RESIZE(_upsample_bilinear2d_aa, 2, TD_RESIZE_LINEAR_AA, ALIGN, align)
RESIZE(_upsample_bicubic2d_aa, 2, TD_RESIZE_CUBIC_AA, ALIGN, align)
RESIZE(_upsample_lanczos2d_aa, 2, TD_RESIZE_LANCZOS_AA, ALIGN, align)
