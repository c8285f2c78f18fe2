/* Convolution on devices, its gradients, im2col and its reverse: products whose one operand are columns that are read from the image in passing
 * (product.ck).
 *
 * The three passes are those of src/kernels/cpu/conv/conv.c, by which transposed convolutions come along: correlate (y from x), spread (x from y)
 * and weigh (w from x and y).  Spreading is done from where it ends: elements of x a stride apart meet the same taps, which lie
 * evenly, so that each such phase is a correlation of y.  Tensors of any strides, channels last too, are read as they lie.
 *
 * A vendor's library that convolves is tried first (by_library).  It takes all operands in one layout, so what lies otherwise is copied. */
#include "calls_kernels_device_conv.h"
#include "kernels/device/product.h"
#define TD_HOST
#include "kernels/device/conv.ck"

#include <string.h>

TD_SOURCE(conv);

/* Strides of images, channels, and the three spatial dimensions. */
typedef struct strides { int64_t image, channel, at[3]; } strides;

static strides strides_of(const td_tensor *x)
{
    const int dims = x->ndim - 2;
    strides s = {.image = x->strides[0], .channel = x->strides[1]};
    for (int d = 0; d < dims; d++)
        s.at[3 - dims + d] = x->strides[2 + d];
    return s;
}

enum { LAST = PRODUCT_DIMS - 1 };

/* Positions count in 32 bits within a plane. */
static bool fits(const td_conv_geometry *g)
{
    bool fit = g->in_total <= INT32_MAX && g->out_total <= INT32_MAX && g->k <= INT32_MAX;
    for (int d = 0; d < 3; d++)
        fit &= g->in[d] + 2 * g->padding[d] + g->stride[d] < INT32_MAX && g->kernel[d] * g->dilation[d] < INT32_MAX;
    return fit;
}

/* Taps of x at the positions of y. */
static void look_at(product_values *v, const td_conv_geometry *g, strides x, strides w)
{
    v->position_image = x.image, v->position_channel = x.channel, v->b_batch[LAST] = g->cin * x.channel;
    v->total = g->out_total, v->taps = g->kernel[0] * g->kernel[1] * g->kernel[2];
    v->tap_channel = w.channel;
    for (int d = 0; d < 3; d++) {
        v->image_stride[d] = x.at[d], v->size[d] = g->in[d];
        v->count[d] = g->out[d], v->step[d] = g->stride[d], v->start[d] = -g->padding[d];
        v->tap[d] = g->kernel[d], v->skip[d] = g->dilation[d], v->tap_stride[d] = w.at[d];
    }
}

static void share_groups(product_values *v, const td_conv_geometry *g) { v->batch = v->sizes[LAST] = g->groups; }

static void set_bias(product_values *v, const td_tensor *bias, td_dtype dtype)
{
    if (bias == TD_NONE)
        return;
    v->has_bias = true, v->beta = td_product_number(td_int(1), dtype);
    v->bias_row = bias->strides[0], v->bias_batch = v->m * bias->strides[0];
}

/* Kernels of one element are plain products of an image's channels, where their planes lie evenly: to[rows][positions] = w from. */
static int pointwise(const td_conv_geometry *g, bool spread, td_tensor *w, td_tensor *from, td_tensor *to, td_tensor *bias)
{
    int64_t of_from[3], of_to[3];
    const int64_t m = spread ? g->cin : g->cout, k = spread ? g->cout : g->cin;
    if (!g->pointwise || g->groups != 1 || !g->batch || !td_view_strides(from, 3, (int64_t[]){g->batch, k, g->in_total}, of_from) ||
        !td_view_strides(to, 3, (int64_t[]){g->batch, m, g->in_total}, of_to))
        return 1;
    product_values v = td_product_of((td_dtype)to->dtype, m, g->in_total, k);
    v.batch = v.sizes[LAST] = g->batch, v.b_batch[LAST] = of_from[0], v.c_batch = of_to[0];
    v.a_row = w->strides[spread], v.a_column = w->strides[!spread];
    v.b_row = of_from[1], v.b_column = of_from[2], v.c_row = of_to[1], v.c_column = of_to[2];
    TD_AUTO td_tensor *added = td_tensor_retain(TD_NONE);
    if (bias != TD_NONE && !(added = td_view(bias, g->dims + 1, (int64_t[]){m, 1, 1, 1})))
        return -1;
    const int status = td_product_by_library(&v, 1, 1, w, from, to, added);
    if (status <= 0)
        return status;
    set_bias(&v, bias, (td_dtype)to->dtype);
    v.bias_batch = 0;
    return td_product_launch(TD_PRODUCT_PLAIN, &v, w, from, to, bias);
}

/* ---- by a vendor's library */

/* Strides without gaps: the last dimension's is 1, or the second's. */
static void packed_strides(int ndim, const int64_t *sizes, bool last, int64_t *strides)
{
    int64_t n = last ? sizes[1] : 1;
    strides[1] = 1;
    for (int d = ndim - 1; d >= 0; d--)
        if (!last || d != 1)
            strides[d] = n, n *= sizes[d];
}
static bool is_packed(const td_tensor *x, bool last)
{
    int64_t strides[5];
    bool packed = true;
    packed_strides(x->ndim, x->sizes, last, strides);
    for (int d = 0; d < x->ndim; d++)
        packed &= x->sizes[d] == 1 || x->strides[d] == strides[d];
    return packed;
}
static td_tensor *new_packed(const td_tensor *x, bool last)
{
    int64_t strides[5];
    packed_strides(x->ndim, x->sizes, last, strides);
    return td_tensor_new_strided(x->ndim, x->sizes, strides, (td_dtype)x->dtype, x->device);
}
static td_tensor *pack(td_tensor *x, bool last)
{
    int64_t strides[5];
    packed_strides(x->ndim, x->sizes, last, strides);
    return td_laid_out(x, is_packed(x, last), strides);
}

static int add_bias(td_tensor *bias, td_tensor *y, bool last)
{
    if (bias == TD_NONE)
        return 0;
    conv_values v = {.batch = y->sizes[0], .channels = y->sizes[1], .out_total = y->numel / (y->sizes[0] * y->sizes[1])};
    v.taps = last ? 1 : v.out_total;
    TD_AUTO td_tensor *added = td_make_contiguous(bias);
    return !added ? -1 : td_launch(&(td_launch_of){.source = td_source_conv, .kernel = "conv_bias", TD_VALUES(v), .types = {{"A", (td_dtype)y->dtype}},
                                                   .buffers = {added, y}, .groups = td_launch_groups(y->device, y->numel)});
}

/* The library's kernels take 32-bit counts, hence the limit on elements. */
/* x, w and y, of which `kind` names the one that is computed; 1 where there is no library that takes it.  As in PyTorch, channels lie last in all of them
 * if they do in one that is read. */
static int by_library(const td_conv_geometry *g, td_convolution_kind kind, td_tensor *x, td_tensor *w, td_tensor *y, td_tensor *bias)
{
    td_tensor *operands[] = {y, x, w}, *result = operands[kind];
    td_convolution_call c = {.size = sizeof c, .dtype = (td_dtype)result->dtype, .kind = kind, .flags = td_library_flags(), .dims = g->dims, .batch = g->batch,
                        .groups = g->groups, .in_channels = g->cin * g->groups, .out_channels = g->cout * g->groups};
    if (!td_device_of(result->device.type)->convolution || c.flags & TD_CONVOLUTION_OFF || !td_dtype_is_floating(c.dtype))
        return 1;
    for (int i = 0; i < 3; i++) {
        if (!operands[i]->numel || operands[i]->numel > INT32_MAX)
            return 1;
        c.channels_last |= operands[i] != result && is_packed(operands[i], true) && !is_packed(operands[i], false);
    }
    for (int d = 0; d < g->dims; d++) {
        const int at = 3 - g->dims + d;
        c.in[d] = g->in[at], c.out[d] = g->out[at], c.window[d] = g->kernel[at];
        c.stride[d] = g->stride[at], c.padding[d] = g->padding[at], c.dilation[d] = g->dilation[at];
    }
    const bool in_place = is_packed(result, c.channels_last);
    TD_AUTO td_tensor *computed = in_place ? td_tensor_retain(result) : new_packed(result, c.channels_last);
    TD_AUTO td_tensor *of_y = result == y ? td_tensor_retain(computed) : pack(y, c.channels_last);
    TD_AUTO td_tensor *of_x = result == x ? td_tensor_retain(computed) : pack(x, c.channels_last);
    TD_AUTO td_tensor *of_w = result == w ? td_tensor_retain(computed) : pack(w, c.channels_last);
    if (!computed || !of_x || !of_w || !of_y)
        return -1;
    c.x = of_x->data, c.w = of_w->data, c.y = of_y->data;
    const int status = td_device_convolution(result->device, &c);
    return status ? status : add_bias(bias, computed, c.channels_last) || (!in_place && td_copy_elements(result, computed)) ? -1 : 0;
}

/* ---- by the kernels of product.ck */

static int correlate(const td_conv_geometry *g, td_tensor *x, td_tensor *w, td_tensor *bias, td_tensor *y)
{
    int status = by_library(g, TD_CONVOLUTION_FORWARD, x, w, y, bias);
    status = status > 0 ? pointwise(g, false, w, x, y, bias) : status;
    if (status <= 0)
        return status;
    const strides of_y = strides_of(y), of_w = strides_of(w);
    product_values v = td_product_of((td_dtype)y->dtype, g->cout, g->batch * g->out_total, g->k);
    share_groups(&v, g);
    look_at(&v, g, strides_of(x), of_w);
    v.a_row = of_w.image, v.a_batch[LAST] = g->cout * of_w.image;
    v.other_image = of_y.image, v.c_row = of_y.channel, v.c_batch = g->cout * of_y.channel;
    memcpy(v.other_stride, of_y.at, sizeof v.other_stride);
    set_bias(&v, bias, (td_dtype)y->dtype);
    return td_product_launch(TD_PRODUCT_GATHER, &v, w, x, y, bias);
}

/* Scattering y's contributions would need atomic additions; gathered by phases each element of x is summed by one work item, over the taps
 * that meet it and no others: a stride of 2 in two dimensions is four products of a quarter of the taps each. */
static int64_t common_divisor(int64_t a, int64_t b) { return b ? common_divisor(b, a % b) : a; }

/* Elements p, p + stride, ... of dimension d of x: how many there are, which taps meet them, and where in y. */
static int64_t phase_of(product_values *v, const td_conv_geometry *g, int d, int64_t p, strides x, strides w)
{
    const int64_t period = g->stride[d] / common_divisor(g->stride[d], g->dilation[d]);
    int64_t first = 0;
    while (first < period && first < g->kernel[d] && (p + g->padding[d] - first * g->dilation[d]) % g->stride[d])
        first++;
    const int64_t taps = first < period && first < g->kernel[d] ? (g->kernel[d] - first + period - 1) / period : 0;
    v->count[d] = (g->in[d] - p + g->stride[d] - 1) / g->stride[d];
    v->step[d] = 1, v->start[d] = taps ? (p + g->padding[d] - first * g->dilation[d]) / g->stride[d] : 0;
    v->tap[d] = taps ? taps : 1, v->skip[d] = -(period * g->dilation[d] / g->stride[d]);
    v->tap_first += first * w.at[d], v->tap_stride[d] = period * w.at[d];
    v->other_first += p * x.at[d], v->other_stride[d] = g->stride[d] * x.at[d];
    return taps;
}

static int spread(const td_conv_geometry *g, td_tensor *y, td_tensor *w, td_tensor *bias, td_tensor *x)
{
    const strides of_x = strides_of(x), of_y = strides_of(y), of_w = strides_of(w);
    int64_t p[3], phases[3];
    int status = by_library(g, TD_CONVOLUTION_GRAD_INPUT, x, w, y, bias);
    status = status > 0 ? pointwise(g, true, w, y, x, bias) : status;
    if (status <= 0)
        return status;
    for (int d = 0; d < 3; d++)
        phases[d] = g->stride[d] < g->in[d] ? g->stride[d] : g->in[d];
    for (p[0] = 0; p[0] < phases[0]; p[0]++)
        for (p[1] = 0; p[1] < phases[1]; p[1]++)
            for (p[2] = 0; p[2] < phases[2]; p[2]++) {
                product_values v = td_product_of((td_dtype)x->dtype, g->cin, 0, 0);
                int64_t taps = 1, total = 1;
                share_groups(&v, g);
                for (int d = 0; d < 3; d++) {
                    taps *= phase_of(&v, g, d, p[d], of_x, of_w);
                    total *= v.count[d];
                    v.image_stride[d] = of_y.at[d], v.size[d] = g->out[d];
                }
                v.n = g->batch * total, v.k = g->out_total ? g->cout * taps : 0;
                v.total = total, v.taps = taps ? taps : 1;
                v.position_image = of_y.image, v.position_channel = of_y.channel, v.b_batch[LAST] = g->cout * of_y.channel;
                v.a_row = of_w.channel, v.tap_channel = of_w.image, v.a_batch[LAST] = g->cout * of_w.image;
                v.other_image = of_x.image, v.c_row = of_x.channel, v.c_batch = g->cin * of_x.channel;
                set_bias(&v, bias, (td_dtype)x->dtype);
                if (td_product_launch(TD_PRODUCT_GATHER, &v, w, y, x, bias))
                    return -1;
            }
    return 0;
}

static int weigh(const td_conv_geometry *g, td_tensor *x, td_tensor *y, td_tensor *w)
{
    const strides of_y = strides_of(y), of_w = strides_of(w);
    const int status = by_library(g, TD_CONVOLUTION_GRAD_WEIGHT, x, w, y, TD_NONE);
    if (status <= 0)
        return status;
    product_values v = td_product_of((td_dtype)w->dtype, g->cout, g->k, g->batch * g->out_total);
    share_groups(&v, g);
    look_at(&v, g, strides_of(x), of_w);
    v.a_row = of_y.channel, v.a_batch[LAST] = g->cout * of_y.channel, v.other_image = of_y.image;
    memcpy(v.other_stride, of_y.at, sizeof v.other_stride);
    v.c_row = of_w.image, v.c_batch = g->cout * of_w.image;
    return td_product_launch(TD_PRODUCT_WEIGH, &v, y, x, w, TD_NONE);
}

static int check(const td_conv_geometry *g, const td_tensor *x, const td_tensor *w)
{
    return !td_device_computes(x->device, td_dtype_to_real((td_dtype)x->dtype)) ? td_leave_to_cpu(td_dtype_name((td_dtype)x->dtype))
         : w->dtype != x->dtype ? td_leave_to_cpu("operands of two dtypes")
         : fits(g) || !x->numel ? 0 : td_leave_to_cpu("a plane of 2^31 elements");
}

int td_on_device_convolution(td_tensor *input, td_tensor *weight, td_tensor *bias, const td_conv_geometry *geometry, td_tensor *out0)
{
    if (check(geometry, input, weight) || (bias != TD_NONE && check(geometry, input, bias)))
        return -1;
    TD_AUTO td_tensor *x = td_resolve_conj(input), *w = td_resolve_conj(weight), *added = bias == TD_NONE ? td_tensor_retain(bias) : td_resolve_conj(bias);
    return !x || !w || !added ? -1 : out0->numel == 0 ? 0 : (geometry->transposed ? spread : correlate)(geometry, x, w, added, out0);
}

static conv_values values_of(const td_conv_geometry *g)
{
    return (conv_values){.batch = g->batch, .channels = g->cin, .taps = g->kernel[0] * g->kernel[1] * g->kernel[2], .in_total = g->in_total,
                         .out_total = g->out_total, TD_WINDOWS(g)};
}

static int run(const char *kernel, const conv_values *v, td_tensor *from, td_tensor *to, bool by_group)
{
    td_launch_of launch = {.source = td_source_conv, .kernel = kernel, TD_VALUES(*v), .types = {{"A", (td_dtype)to->dtype}}, .complex = true,
                           .groups = (by_group ? td_launch_many : td_launch_groups)(to->device, to->numel)};
    return TD_LAUNCH_ON(launch, TD_READS(from), TD_WRITES(to));
}

int td_on_device_convolution_backward(td_tensor *grad_output, td_tensor *input, td_tensor *weight, const td_conv_geometry *geometry, td_tensor *out0,
                                      td_tensor *out1, td_tensor *out2)
{
    const td_conv_geometry *g = geometry;
    if (check(g, input, weight) || check(g, input, grad_output))
        return -1;
    /* Complex gradients go through the conjugate of the other factor. */
    const bool complex = td_dtype_is_complex((td_dtype)input->dtype);
    TD_AUTO td_tensor *x = complex ? td_conj_physical(input) : td_tensor_retain(input), *w = complex ? td_conj_physical(weight) : td_tensor_retain(weight);
    TD_AUTO td_tensor *grad = td_resolve_conj(grad_output);
    if (!x || !w || !grad)
        return -1;
    if (out0 != TD_NONE && out0->numel && (g->transposed ? correlate : spread)(g, grad, w, TD_NONE, out0))
        return -1;
    if (out1 != TD_NONE && out1->numel && (g->transposed ? weigh(g, grad, x, out1) : weigh(g, x, grad, out1)))
        return -1;
    if (out2 == TD_NONE)
        return 0;
    conv_values v = values_of(g);
    v.channels = out2->numel, v.out_total = g->transposed ? g->in_total : g->out_total;
    return run("conv_channels", &v, grad, out2, true);
}

int td_on_device_convolution_grad_input(td_tensor *grad_output, td_tensor *input, td_tensor *weight, const td_conv_geometry *geometry, td_tensor *out0)
{
    return td_on_device_convolution_backward(grad_output, input, weight, geometry, out0, TD_NONE, TD_NONE);
}
int td_on_device_convolution_grad_weight(td_tensor *grad_output, td_tensor *input, td_tensor *weight, const td_conv_geometry *geometry, td_tensor *out0)
{
    return td_on_device_convolution_backward(grad_output, input, weight, geometry, TD_NONE, out0, TD_NONE);
}

int td_on_device_im2col(td_tensor *self, const td_conv_geometry *geometry, td_tensor *out0)
{
    const conv_values v = values_of(geometry);
    return run("conv_columns", &v, self, out0, false);
}
int td_on_device_columns_to_image(td_tensor *self, const td_conv_geometry *geometry, td_tensor *out0)
{
    const conv_values v = values_of(geometry);
    return run("conv_images", &v, self, out0, false);
}
