/* Interpolation: sizes from factors, checks, and one entry point per mode and rank.
 *
 * One operator, resample, serves all modes and ranks: positions and weights for each dimension. For linear and cubic
 * modes an output position o lies at (o + 0.5) scale - 0.5 in the input, or at o (in - 1) / (out - 1) with align. A
 * factor that was given is used for the scale as it is; 0 stands for none, where the sizes' ratio counts. */
#include "calls_ops_nn_upsample.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include "ops/compose.h"

/* In the order of the kernel's modes. NEAREST rounds down (0.5 isn't added), as older programs expect; the
 * antialiased ones widen the filter when an image shrinks. */
enum { NEAREST, NEAREST_EXACT, LINEAR, CUBIC, ANTIALIASED, LINEAR_AA = ANTIALIASED, CUBIC_AA, LANCZOS_AA };

int td_meta_resample(td_spec *specs, td_tensor *self, int64_t n_output, const int64_t *output, int64_t mode,
                     bool align, double scale_d,
                     double scale_h, double scale_w)
{
    (void)mode, (void)align, (void)scale_d, (void)scale_h, (void)scale_w;
    if (n_output > self->ndim)
        return td_error(TD_E_RUNTIME, "resample: an output of %" PRId64 " dimensions for an input of %d", n_output, self->ndim);
    td_spec_like(specs, self);
    for (int64_t i = 0; i < n_output; i++) {
        int64_t *size = &specs->sizes[self->ndim - n_output + i];
        if (*size < 1 && output[i] > 0)
            return td_error(TD_E_RUNTIME, "resample: %" PRId64 " places of an input that has none", output[i]);
        *size = output[i];
    }
    return 0;
}

/* Where the output isn't empty the input mustn't be: there would be nothing to add to. */
int td_meta_resample_backward(td_spec *specs, td_tensor *grad, int64_t n_input, const int64_t *input, int64_t n_output,
                              const int64_t *output,
                              int64_t mode, bool align, double scale_d, double scale_h, double scale_w)
{
    (void)mode, (void)align, (void)scale_d, (void)scale_h, (void)scale_w;
    if (n_input != grad->ndim || n_output > n_input)
        return td_error(TD_E_RUNTIME, "resample_backward: a gradient of %d dimensions for an input of %" PRId64, grad->ndim, n_input);
    for (int64_t i = 0; i < n_input; i++) {
        const int64_t place = i - (n_input - n_output), want = place < 0 ? input[i] : output[place];
        if (grad->sizes[i] != want || (place >= 0 && want > 0 && input[i] < 1))
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
    if (mode >= ANTIALIASED)
        return "compute_index_ranges_weights";
    if (mode <= NEAREST_EXACT && dims == 2)
        return "upsample_nearest2d_channels_last";
    return mode <= NEAREST_EXACT ? "compute_indices_weights_nearest"
        : mode == LINEAR && dims == 2 ? "upsample_bilinear2d_channels_last"
        : mode == LINEAR ? "compute_indices_weights_linear" : "compute_indices_weights_cubic";
}

/* Bytes are resampled as images are; antialiasing isn't there for half types, as in PyTorch. */
static bool has_kernel(const td_tensor *x, int dims, int mode)
{
    if (x->dtype == TD_U8)
        return mode <= NEAREST_EXACT || dims == 2;
    return x->dtype == TD_F32 || x->dtype == TD_F64 || (td_is_floating(x) && mode < ANTIALIASED);
}

/* scales[i] is NULL where no factor was given. factors has three numbers, aligned at the end, as the kernel takes
 * them. */
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
    if (mode < ANTIALIASED && (self->dtype != TD_U8 || mode <= NEAREST_EXACT))
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

#define NEAREST_OF(name, dims, mode)                                                                             \
    td_tensor *td_op_##name(td_tensor *self, int64_t n_output, const int64_t *output, SCALES_##dims)             \
    {                                                                                                            \
        return resample(dims, mode, self, n_output, output, false, (const double *const[]){LIST_##dims}); \
    }                                                                                                            \
    td_tensor *td_op_##name##_vec(td_tensor *input, int64_t n_output, const int64_t *output, int64_t n_factors,  \
                                  const double *factors)                                                         \
    {                                                                                                            \
        return by_factors(#name, dims, mode, input, n_output, output, false, n_factors, factors);                \
    }
NEAREST_OF(upsample_nearest1d, 1, NEAREST)
NEAREST_OF(upsample_nearest2d, 2, NEAREST)
NEAREST_OF(upsample_nearest3d, 3, NEAREST)
NEAREST_OF(_upsample_nearest_exact1d, 1, NEAREST_EXACT)
NEAREST_OF(_upsample_nearest_exact2d, 2, NEAREST_EXACT)
NEAREST_OF(_upsample_nearest_exact3d, 3, NEAREST_EXACT)

#define SMOOTH(name, dims, mode)                                                                                       \
    td_tensor *td_op_##name(td_tensor *self, int64_t n_output, const int64_t *output, bool align, SCALES_##dims)       \
    {                                                                                                                  \
        return resample(dims, mode, self, n_output, output, align, (const double *const[]){LIST_##dims});       \
    }                                                                                                                  \
    td_tensor *td_op_##name##_vec(td_tensor *input, int64_t n_output, const int64_t *output, bool align, int64_t n_factors, \
                                  const double *factors)                                                               \
    {                                                                                                                  \
        return by_factors(#name, dims, mode, input, n_output, output, align, n_factors, factors);                      \
    }
SMOOTH(upsample_linear1d, 1, LINEAR)
SMOOTH(upsample_bilinear2d, 2, LINEAR)
SMOOTH(upsample_trilinear3d, 3, LINEAR)
SMOOTH(upsample_bicubic2d, 2, CUBIC)
SMOOTH(_upsample_bilinear2d_aa, 2, LINEAR_AA)
SMOOTH(_upsample_bicubic2d_aa, 2, CUBIC_AA)
SMOOTH(_upsample_lanczos2d_aa, 2, LANCZOS_AA)
