/* Convolution: checks, shapes, and the forms for one, two and three dimensions.
 *
 * convolution is the operator with a kernel; conv1d to conv_transpose3d fill its lists and add the batch dimension.
 * Input is [batch, channels, spatial...], weight [out, in / groups, kernel...], or [in, out / groups, kernel...] if
 * transposed. What PyTorch calls convolution is a cross-correlation: no kernel is flipped. */
#include "calls_ops_nn_conv.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "base/warn.h"
#include "ops/compose.h"
#include "tensor/checked.h"

/* The numbers of a convolution as its operators take them. */
#define NUMBERS                                                                                                       \
    int64_t n_stride, const int64_t *stride, int64_t n_padding, const int64_t *padding, int64_t n_dilation,           \
    const int64_t *dilation, bool transposed, int64_t n_output, const int64_t *output_padding, int64_t groups
#define GIVEN n_stride, stride, n_padding, padding, n_dilation, dilation, transposed, n_output, output_padding, groups

/* One number for each of 1 to 3 spatial dimensions. */
typedef struct numbers {
    int dims;
    const int64_t *stride, *padding, *dilation, *output_padding;
} numbers;

/* output_padding picks one of several input sizes of the convolution that this one transposes, of which there are no
 * more than the stride. */
static int check_numbers(const numbers *g, bool transposed)
{
    td_shape_text text;
    for (int i = 0; i < g->dims; i++) {
        if (g->padding[i] < 0)
            return td_error(TD_E_RUNTIME, "negative padding is not supported");
        if (g->stride[i] <= 0)
            return td_error(TD_E_RUNTIME, "non-positive stride is not supported");
        if (g->dilation[i] <= 0)
            return td_error(TD_E_RUNTIME, "dilation should be greater than zero, but got %s", td_shape_str(g->dims,
                g->dilation, text));
        if (g->output_padding[i] < 0)
            return td_error(TD_E_RUNTIME, "negative output_padding is not supported");
        if (transposed && g->output_padding[i] >= g->stride[i] && g->output_padding[i] >= g->dilation[i])
            return td_error(TD_E_RUNTIME, "output padding must be smaller than either stride or dilation, but got output_padding %" PRId64
                            ", stride %" PRId64 ", dilation %" PRId64, g->output_padding[i], g->stride[i],
                            g->dilation[i]);
    }
    return 0;
}

/* In PyTorch's order. Products with groups come after it is known to be at most weight's first size. Sizes of padded
 * input and kernel are listed for all dimensions as soon as one doesn't fit; a transposed convolution has no such
 * limit. */
static int check_shapes(td_tensor *input, td_tensor *weight, td_tensor *bias, const numbers *g, bool transposed,
                        int64_t groups)
{
    td_shape_text a, b;
#define SHAPE(x, text) td_shape_str((x)->ndim, (x)->sizes, text)
    if (groups <= 0)
        return td_error(TD_E_RUNTIME, "non-positive groups is not supported");
    if (weight->ndim != input->ndim)
        return td_error(TD_E_RUNTIME, "Expected %d-dimensional input for %d-dimensional weight %s, but got %d-dimensional input of size %s "
                        "instead", weight->ndim, weight->ndim, SHAPE(weight, a), input->ndim, SHAPE(input, b));
    if (weight->sizes[0] < groups)
        return td_error(TD_E_RUNTIME, "Given groups=%" PRId64 ", expected weight to be at least %" PRId64 " at dimension 0, but got weight of "
                        "size %s instead", groups, groups, SHAPE(weight, a));
    if (weight->sizes[0] % groups)
        return td_error(TD_E_RUNTIME, "Given groups=%" PRId64 ", expected weight to be divisible by %" PRId64 " at dimension 0, but got weight "
                        "of size [%s] instead", groups, groups, SHAPE(weight, a));
    int64_t channels = transposed ? weight->sizes[1] * groups : weight->sizes[0];
    if (!transposed && input->sizes[1] != weight->sizes[1] * groups)
        return td_error(TD_E_RUNTIME, "Given groups=%" PRId64 ", weight of size %s, expected input%s to have %" PRId64 " channels, but got %"
                        PRId64 " channels instead", groups, SHAPE(weight, a), SHAPE(input, b), weight->sizes[1] * groups, input->sizes[1]);
    if (transposed && input->sizes[1] != weight->sizes[0])
        return td_error(TD_E_RUNTIME, "Given transposed=1, weight of size %s, expected input%s to have %" PRId64 " channels, but got %" PRId64
                        " channels instead", SHAPE(weight, a), SHAPE(input, b), weight->sizes[0], input->sizes[1]);
    if (bias != TD_NONE && (bias->ndim != 1 || bias->sizes[0] != channels))
        return td_error(TD_E_RUNTIME, "Given %sweight of size %s, expected bias to be 1-dimensional with %" PRId64 " elements, but got bias of "
                        "size %s instead", transposed ? "transposed=1, " : "", SHAPE(weight, a), channels, SHAPE(bias, b));
    if (input->dtype == TD_BOOL)
        return td_error(TD_E_NOT_IMPLEMENTED, "\"convolution\" not implemented for 'Bool'");
    if (td_is_complex(input) && input->dtype != weight->dtype)
        return td_error(TD_E_RUNTIME, "Input type (CPU%sType) and weight type (torch.%sTensor) should be the same",
                        td_dtype_title((td_dtype)input->dtype), td_dtype_title((td_dtype)weight->dtype));
    if (bias != TD_NONE && bias->dtype != input->dtype)
        return td_error(TD_E_RUNTIME, "Input type (%s) and bias type (%s) should be the same", td_cpp_name(input->dtype),
                        td_cpp_name(bias->dtype));
    if (input->dtype != weight->dtype)
        return td_error(TD_E_RUNTIME, "expected scalar type %s but found %s", td_dtype_title((td_dtype)input->dtype),
                        td_dtype_title((td_dtype)weight->dtype));
    for (int i = 0; i < g->dims; i++)
        if (!weight->sizes[i + 2])
            return td_error(TD_E_RUNTIME, "convolution: a kernel needs at least one element in each dimension, but weight is of size %s", SHAPE(weight, a));
    if (transposed)
        return 0;
    char padded[96] = "", kernel[96] = "";
    bool larger = false;
    for (int i = 0; i < g->dims; i++)
        larger |= td_window_room(input->sizes[i + 2], g->padding[i], td_window_span(weight->sizes[i + 2], g->dilation[i])) < 0;
    for (int i = 0; i < g->dims && larger; i++) {
        size_t p = strlen(padded), k = strlen(kernel);
        snprintf(padded + p, sizeof padded - p, i ? " x %" PRId64 : "%" PRId64, td_add_saturated(input->sizes[i + 2], 2 * g->padding[i]));
        snprintf(kernel + k, sizeof kernel - k, i ? " x %" PRId64 : "%" PRId64, td_window_span(weight->sizes[i + 2], g->dilation[i]));
    }
    return larger ? td_error(TD_E_RUNTIME,
                             "Calculated padded input size per channel: (%s). Kernel size: (%s). Kernel size can't be greater "
                             "than actual input size", padded, kernel) : 0;
}

static int check_count(const char *what, int64_t n, const int64_t *values, int dims)
{
    td_shape_text text;
    return n == dims ? 0 : td_error(TD_E_RUNTIME,
                                    "expected %s to be a single integer value or a list of %d values to match the convolution "
                                    "dimensions, but got %s=%s", what, dims, what, td_shape_str((int)n, values, text));
}

/* The geometry, and the result's sizes: floor((in + 2 padding - span) / stride) + 1, or, transposed, (in - 1) stride + span +
 * output_padding - 2 padding, with span = dilation (kernel - 1) + 1. td_check_ints keeps strides and paddings to 32 bits, as
 * PyTorch's kernels do, so sums of a few can't overflow; the products that can are checked. */
static int describe(td_conv_geometry *g, int64_t *sizes, td_tensor *input, td_tensor *weight, td_tensor *bias, NUMBERS)
{
    const int dims = weight->ndim - 2;
    if (dims < 1 || dims > 3)
        return td_error(TD_E_RUNTIME, "weight should have at least three dimensions and at most five, but got %d",
                        weight->ndim);
    if (check_count("stride", n_stride, stride, dims) || check_count("padding", n_padding, padding, dims) ||
        check_count("dilation", n_dilation, dilation, dims) || check_count("output_padding", n_output, output_padding,
                                                                           dims))
        return -1;
    numbers given = {dims, stride, padding, dilation, output_padding};
    if (check_numbers(&given, transposed) || td_check_ints(dims, stride) || td_check_ints(dims, padding) || td_check_ints(dims, dilation) ||
        td_check_ints(dims, output_padding) || check_shapes(input, weight, bias, &given, transposed, groups))
        return -1;
    sizes[0] = input->sizes[0], sizes[1] = transposed ? weight->sizes[1] * groups : weight->sizes[0];
    for (int i = 0; i < dims; i++) {
        int64_t in = input->sizes[i + 2], span = td_window_span(weight->sizes[i + 2], dilation[i]), steps;
        if (!transposed)
            sizes[i + 2] = td_add_saturated(td_window_room(in, padding[i], span) / stride[i], 1);
        else if (td_mul_checked(in - 1, stride[i], &steps) || td_add_checked(steps, span, &steps) ||
                 td_add_checked(steps, output_padding[i] - 2 * padding[i], &sizes[i + 2]))
            return -1;
        /* PyTorch transposes integers by another kernel, which makes no empty result. */
        if (sizes[i + 2] < (transposed && td_dtype_is_integral((td_dtype)input->dtype)))
            return td_error(TD_E_RUNTIME, "Output size is too small: convolution: the result would have size %" PRId64 " in dimension %d",
                            sizes[i + 2], i + 2);
    }
    const int64_t *x = transposed ? sizes : input->sizes, *y = transposed ? input->sizes : sizes;
    *g = (td_conv_geometry){.dims = dims, .transposed = transposed, .pointwise = true, .batch = sizes[0], .groups = groups,
                            .cin = weight->sizes[1], .cout = weight->sizes[0] / groups, .in = {1, 1, 1}, .out = {1, 1, 1},
                            .kernel = {1, 1, 1}, .stride = {1, 1, 1}, .dilation = {1, 1, 1}, .in_total = 1, .out_total = 1,
                            .k = weight->sizes[1]};
    for (int i = 3 - dims, d = 0; i < 3; i++, d++) {
        g->in[i] = x[d + 2], g->out[i] = y[d + 2], g->kernel[i] = weight->sizes[d + 2];
        g->stride[i] = stride[d], g->padding[i] = padding[d], g->dilation[i] = dilation[d];
        g->in_total = td_mul_saturated(g->in_total, g->in[i]), g->out_total = td_mul_saturated(g->out_total, g->out[i]);
        g->k = td_mul_saturated(g->k, g->kernel[i]);
        g->pointwise &= g->kernel[i] == 1 && g->stride[i] == 1 && g->padding[i] == 0 && g->in[i] == g->out[i];   /* no output_padding */
    }
    return 0;
}

int td_meta_convolution(td_spec *specs, td_conv_geometry *g, td_tensor *input, td_tensor *weight, td_tensor *bias, NUMBERS)
{
    int64_t sizes[5];
    return describe(g, sizes, input, weight, bias, GIVEN) ? -1
         : td_spec_set(specs, g->dims + 2, sizes, (td_dtype)input->dtype, input->device);
}

static int gradient(td_conv_geometry *g, td_tensor *grad, td_tensor *input, td_tensor *weight, NUMBERS)
{
    int64_t sizes[5];
    if (describe(g, sizes, input, weight, TD_NONE, GIVEN))
        return -1;
    if (grad->ndim != g->dims + 2 || memcmp(grad->sizes, sizes, sizeof *sizes * (size_t)grad->ndim))
        return td_error(TD_E_RUNTIME, "convolution_backward: the gradient's shape must be the result's");
    return td_is_floating(input) || td_is_complex(input) ? 0
         : td_error(TD_E_RUNTIME, "convolution_backward: gradients are for floating and complex numbers, got %s",
                    td_dtype_title((td_dtype)input->dtype));
}

/* Gradients of input, weight and bias. bias_sizes is PyTorch's argument and isn't needed: a bias has the gradient's
 * channels. */
int td_meta_convolution_backward(td_spec *specs, td_conv_geometry *g, td_tensor *grad, td_tensor *input, td_tensor *weight,
                                 int64_t n_bias, const int64_t *bias_sizes, NUMBERS, int64_t n_mask, const bool *mask)
{
    (void)n_bias, (void)bias_sizes, (void)n_mask;
    if (gradient(g, grad, input, weight, GIVEN))
        return -1;
    mask[0] ? td_spec_like(&specs[0], input) : td_spec_none(&specs[0]);
    mask[1] ? td_spec_like(&specs[1], weight) : td_spec_none(&specs[1]);
    return mask[2] ? td_spec_set(&specs[2], 1, &grad->sizes[1], (td_dtype)weight->dtype,
                                 weight->device) : td_spec_none(&specs[2]);
}

int td_meta_convolution_grad_input(td_spec *specs, td_conv_geometry *g, td_tensor *grad, td_tensor *input, td_tensor *weight, NUMBERS)
{
    return gradient(g, grad, input, weight, GIVEN) ? -1 : td_spec_like(specs, input);
}

int td_meta_convolution_grad_weight(td_spec *specs, td_conv_geometry *g, td_tensor *grad, td_tensor *input, td_tensor *weight, NUMBERS)
{
    return gradient(g, grad, input, weight, GIVEN) ? -1 : td_spec_like(specs, weight);
}

/* The kernel computes all three at once, but doesn't record. Where the backward pass is differentiated the gradients
 * of input and weight are differentiable operators, whose derivatives are convolutions again; the bias's is a sum. */
int td_op_convolution_grad(td_tensor **results, td_tensor *grad, td_tensor *input, td_tensor *weight, NUMBERS, int64_t n_wants,
                           const bool *wants)
{
    if (!TD_RECORDS(grad, input, weight))
        return td_convolution_backward(results, grad, input, weight, -1, NULL, GIVEN, n_wants, wants);
    results[0] = results[1] = results[2] = NULL;
    results[0] = wants[0] ? td_convolution_grad_input(grad, input, weight, GIVEN) : td_ref(TD_NONE);
    results[1] = wants[1] ? td_convolution_grad_weight(grad, input, weight, GIVEN) : td_ref(TD_NONE);
    int64_t dims[TD_MAX_DIMS] = {0};
    for (int i = 2; i < grad->ndim; i++)
        dims[i - 1] = i;
    results[2] = !wants[2] ? td_ref(TD_NONE) : td_sum_over(grad, grad->ndim - 1, dims, false);
    if (results[0] && results[1] && results[2])
        return 0;
    for (int i = 0; i < 3; i++)
        td_tensor_release(results[i]);
    return -1;
}

/* ---- the tangent: the bias goes along with the first convolution */

/* conv(t_x, w) + conv(x, t_w) + t_b. Where only the bias has a tangent no convolution is run: it is broadcast along
 * the channels, the dimension in front of the spatial ones. */
td_tensor *td_op_convolution_tangent(td_tensor *t_input, td_tensor *t_weight, td_tensor *t_bias, td_tensor *input, td_tensor *weight,
                                     td_tensor *result, NUMBERS)
{
    if (t_input == TD_NONE && t_weight == TD_NONE && t_bias == TD_NONE)
        return td_fail(TD_E_RUNTIME, "convolution_tangent: no operand has a tangent");
    if (t_input == TD_NONE && t_weight == TD_NONE) {
        int64_t sizes[TD_MAX_DIMS];
        for (int d = 0; d < result->ndim; d++)
            sizes[d] = d == result->ndim - 1 - (weight->ndim - 2) ? result->sizes[d] : 1;
        return td_reshape(t_bias, result->ndim, sizes);
    }
    TD_AUTO td_tensor *by_input = t_input == TD_NONE ? td_ref(TD_NONE) : td_convolution(t_input, weight, t_bias, GIVEN);
    TD_AUTO td_tensor *by_weight = t_weight == TD_NONE ? td_ref(TD_NONE)
                                 : td_convolution(input, t_weight, t_input == TD_NONE ? t_bias : TD_NONE, GIVEN);
    return td_sum_of(by_input, by_weight);
}

/* ---- conv1d, conv2d, conv3d and their transposes --------------------------------------------------------------------- */

/* One number stands for all dimensions. */
static int fill(const char *what, int64_t n, const int64_t *values, int dims, int64_t *to)
{
    if (n != 1 && check_count(what, n, values, dims))
        return -1;
    for (int i = 0; i < dims; i++)
        to[i] = values[n == 1 ? 0 : i];
    return 0;
}

/* dims + 1 dimensions mean a single sample. The weight's rank is checked against the operator's in the words that
 * PyTorch has for a stride of another length. */
static td_tensor *convolve(const char *name, int dims, td_tensor *input, td_tensor *weight, td_tensor *bias,
                           int64_t n_stride,
                           const int64_t *stride, int64_t n_padding, const int64_t *padding, int64_t n_dilation,
                           const int64_t *dilation,
                           bool transposed, int64_t n_output, const int64_t *output, int64_t groups)
{
    int64_t s[3], p[3], d[3], o[3];
    td_shape_text text;
    if (input->ndim != dims + 1 && input->ndim != dims + 2)
        return td_fail(TD_E_RUNTIME, "Expected %dD (unbatched) or %dD (batched) input to %s, but got input of size: %s", dims + 1, dims + 2,
                       name, td_shape_str(input->ndim, input->sizes, text));
    int given = weight->ndim > 2 ? weight->ndim - 2 : 1;
    if (given != dims) {
        if (fill("stride", n_stride, stride, dims, s) == 0)
            td_error(TD_E_RUNTIME, "expected stride to be a single integer value or a list of %d values to match the convolution dimensions, but "
                     "got stride=%s", given, td_shape_str(dims, s, text));
        return NULL;
    }
    if (fill("stride", n_stride, stride, dims, s) || fill("padding", n_padding, padding, dims, p) ||
        fill("dilation", n_dilation, dilation, dims, d) || fill("output_padding", n_output, output, dims, o))
        return NULL;
    bool batched = input->ndim == dims + 2;
    TD_AUTO td_tensor *x = batched ? td_ref(input) : td_unsqueeze(input, 0);
    TD_AUTO td_tensor *y = td_convolution(x, weight, bias, dims, s, dims, p, dims, d, transposed, dims, o, groups);
    return batched ? (y ? td_ref(y) : NULL) : td_squeeze_dim(y, 0);
}

/* "valid" is no padding. "same" pads dilation (kernel - 1) in all, half on each side; an odd total has one more
 * behind, which convolution can't do, so the input is padded for that. */
static td_tensor *convolve_padding(const char *name, int dims, td_tensor *input, td_tensor *weight, td_tensor *bias,
                                   int64_t n_stride,
                                   const int64_t *stride, const char *padding, int64_t n_dilation,
                                   const int64_t *dilation, int64_t groups)
{
    int64_t d[3], before[3], pad[6], zero = 0;
    bool uneven = false;
    if (!strcmp(padding, "valid"))
        return convolve(name, dims, input, weight, bias, n_stride, stride, 1, &zero, n_dilation, dilation, false, 1,
                        &zero, groups);
    if (strcmp(padding, "same"))
        return td_fail(TD_E_RUNTIME, "Invalid padding string: '%s'", padding);
    for (int64_t i = 0; i < n_stride; i++)
        if (stride[i] != 1)
            return td_fail(TD_E_RUNTIME, "padding='same' is not supported for strided convolutions");
    td_shape_text a, b;
    if (weight->ndim != dims + 2)
        return td_fail(TD_E_RUNTIME, "Expected %d-dimensional input for %d-dimensional weight%s, but got %d-dimensional input of "
                       "size %s instead", weight->ndim, weight->ndim, td_shape_str(weight->ndim, weight->sizes, a),
                       input->ndim, td_shape_str(input->ndim, input->sizes, b));
    if (fill("dilation", n_dilation, dilation, dims, d))
        return NULL;
    for (int i = 0; i < dims; i++) {
        int64_t total = td_mul_saturated(d[i], weight->sizes[i + 2] - 1);
        before[i] = total / 2;
        /* What is left over goes behind; pad lists the last dimension first. */
        pad[2 * (dims - 1 - i)] = 0, pad[2 * (dims - 1 - i) + 1] = total - 2 * before[i];
        uneven |= total & 1;
    }
    if (uneven && TD_WARN_ONCE("Using padding='same' with even kernel lengths and odd dilation may require a zero-padded copy of the input be "
                          "created"))
        return NULL;
    TD_AUTO td_tensor *x = uneven ? td_constant_pad_nd(input, 2 * dims, pad, td_int(0)) : td_ref(input);
    return x ? convolve(name, dims, x, weight, bias, n_stride, stride, dims, before, dims, d, false, 1, &zero,
                        groups) : NULL;
}

#define CONV(n)                                                                                                        \
    td_tensor *td_op_conv##n##d(td_tensor *input, td_tensor *weight, td_tensor *bias, int64_t n_stride, const int64_t *stride, \
                                int64_t n_padding, const int64_t *padding, int64_t n_dilation, const int64_t *dilation, \
                                int64_t groups)                                                                        \
    {                                                                                                                  \
        int64_t zero = 0;                                                                                              \
        return convolve("conv" #n "d", n, input, weight, bias, n_stride, stride, n_padding, padding, n_dilation, dilation, false, 1, \
                        &zero, groups);                                                                                \
    }                                                                                                                  \
    td_tensor *td_op_conv##n##d_padding(td_tensor *input, td_tensor *weight, td_tensor *bias, int64_t n_stride, const int64_t *stride, \
                                        const char *padding, int64_t n_dilation, const int64_t *dilation, int64_t groups) \
    {                                                                                                                  \
        return convolve_padding("conv" #n "d", n, input, weight, bias, n_stride, stride, padding, n_dilation, dilation, groups); \
    }
CONV(1)
CONV(2)
CONV(3)

#define TRANSPOSED(name, n)                                                                                            \
    td_tensor *td_op_##name(td_tensor *input, td_tensor *weight, td_tensor *bias, int64_t n_stride, const int64_t *stride, \
                            int64_t n_padding, const int64_t *padding, int64_t n_output, const int64_t *output, int64_t groups, \
                            int64_t n_dilation, const int64_t *dilation)                                               \
    {                                                                                                                  \
        return convolve("conv_transpose" #n "d", n, input, weight, bias, n_stride, stride, n_padding, padding, n_dilation, dilation, \
                        true, n_output, output, groups);                                                               \
    }
TRANSPOSED(conv_transpose1d, 1)
TRANSPOSED(conv_transpose2d_input, 2)
TRANSPOSED(conv_transpose3d_input, 3)
