/* Pooling over windows of a fixed size: checks, shapes, and the forms for one, two and three dimensions.
 *
 * One dimension is two, the first of size 1, as in PyTorch.  The checks come in PyTorch's order and words, which differ
 * between max_pool and avg_pool and between two and three dimensions. */
#include "calls_ops_nn_pool.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <tede/kernel.h>
#include "dispatch/outputs.h"
#include "ops/compose.h"
#include "ops/nn/pool.h"
#include "tensor/checked.h"

/* What the messages of an operator say that others don't. */
typedef struct wording {
    const char *op;
    const char *lists;              /* before "a single int" of a list of the wrong length */
    const char *extents;            /* the function that is named where dimensions are empty; NULL: none, in other words */
    bool        counts_channels;    /* too few dimensions are an index out of range: the channels' */
    bool        covers;             /* the input has to be as large as a window, whatever the padding is */
} wording;

static const wording max_pool2d = {.op = "max_pool2d", .lists = "either "};
static const wording max_pool3d = {.op = "max_pool3d", .lists = "either ", .extents = "max_pool3d_with_indices_out_cpu_template()"};
static const wording avg_pool2d = {.op = "avg_pool2d", .lists = "either ", .counts_channels = true};
static const wording avg_pool3d = {.op = "avg_pool3d", .lists = "", .extents = "avg_pool3d()", .covers = true};

/* One number per dimension from one for all, from one each, or from none at all.
 * `otherwise` stands for an absent list: the kernel's sizes for a stride. Without it a list is required. to[] always gets three
 * numbers, aligned at the end, with 1 in front. */
static int fill(const wording *w, const char *what, int dims, int64_t n, const int64_t *values, const int64_t *otherwise, int64_t *to)
{
    if (n != 1 && n != dims && !(n == 0 && otherwise))
        return td_error(TD_E_RUNTIME, "%s: %s must %sbe %sa single int, or a tuple of %s ints", w->op, what, w->lists,
                        otherwise ? "omitted, " : "", dims == 2 ? "two" : "three");
    for (int i = 0; i < 3; i++)
        to[i] = i < 3 - dims ? 1 : n == 0 ? otherwise[i] : values[n == 1 ? 0 : i - (3 - dims)];
    return 0;
}

/* Likewise of a dilation; ones for an operator that has none (NULL). */
static int fill_dilation(const wording *w, int dims, int64_t n, const int64_t *values, int64_t *to)
{
    if (values && n != 1 && n != dims)
        return td_error(TD_E_RUNTIME, "%s: dilation must be either a single int, or a tuple of %s ints", w->op, dims == 2 ? "two" : "three");
    for (int i = 0; i < 3; i++)
        to[i] = i < 3 - dims || !values ? 1 : values[n == 1 ? 0 : i - (3 - dims)];
    return 0;
}

static int check_positive(const char *what, const char *prefix, int dims, const int64_t *x)
{
    static const char axes[3] = {'T', 'H', 'W'};
    bool bad = false;
    for (int i = 3 - dims; i < 3; i++)
        bad |= x[i] <= 0;
    if (!bad)
        return 0;
    char text[100];
    for (int i = 3 - dims, at = 0; i < 3; i++)
        at += snprintf(text + at, sizeof text - (size_t)at, "%s%s%c: %" PRId64, at ? " " : "", prefix, axes[i], x[i]);
    return td_error(TD_E_RUNTIME, "%s should be greater than zero, but got %s", what, text);
}

static int check_extents(const wording *w, int dims, int ndim, const int64_t *sizes)
{
    td_shape_text text;
    int first = ndim - dims - 1;
    for (int i = first; i < ndim; i++)
        if (sizes[i] <= 0 || ndim > dims + 2)
            return w->extents ? td_error(TD_E_RUNTIME, "%s: Expected input's non-batch dimensions to have positive length, "
                                         "but input has a shape of %s and non-batch dimension %" PRId64 " has length zero!",
                                         w->extents, td_shape_str(ndim, sizes, text), sizes[i])
                : td_error(TD_E_RUNTIME, "Expected 3D or 4D (batch mode) tensor with optional 0 dim batch size for input, "
                           "but got:%s", td_shape_str(ndim, sizes, text));
    return 0;
}

static int too_small(int dims, int64_t channels, const int64_t *in, const int64_t *out)
{
    char from[100], to[100];
    int a = snprintf(from, sizeof from, "%" PRId64, channels), b = snprintf(to, sizeof to, "%" PRId64, channels);
    for (int i = 3 - dims; i < 3; i++) {
        a += snprintf(from + a, sizeof from - (size_t)a, "x%" PRId64, in[i]);
        b += snprintf(to + b, sizeof to - (size_t)b, "x%" PRId64, out[i]);
    }
    return td_error(TD_E_RUNTIME, "Given input size: (%s). Calculated output size: (%s). Output size is too small", from, to);
}

/* How many windows fit: rounded down, or up as long as a window begins inside.
 * The last window, with ceil_mode, must begin in the input or in the padding before it, not in that behind; PyTorch
 * drops it otherwise. room may be negative, where C's division would round up. All steps saturate, as the numbers are
 * the caller's. */
static int64_t windows_of(int64_t in, int64_t kernel, int64_t stride, int64_t pad, int64_t dilation, bool ceil_mode)
{
    int64_t room = td_add_saturated(td_window_room(in, pad, td_window_span(kernel, dilation)), ceil_mode ? stride - 1 : 0);
    int64_t n = td_add_saturated(room >= 0 ? room / stride : -((stride - 1 - room) / stride), 1);
    return ceil_mode && td_mul_saturated(n - 1, stride) >= td_add_saturated(in, pad) ? n - 1 : n;
}

void td_pool_planes(td_pool_geometry *g, int dims, const td_tensor *self, const int64_t *out)
{
    *g = (td_pool_geometry){.dims = dims, .planes = 1, .kernel = {1, 1, 1}, .stride = {1, 1, 1}, .dilation = {1, 1, 1}, .in_total = 1,
                            .out_total = 1, .include_pad = true};
    for (int i = 0; i < self->ndim - dims; i++)
        g->planes = td_mul_saturated(g->planes, self->sizes[i]);
    for (int i = 0; i < 3; i++) {
        const int d = i - (3 - dims);
        g->in[i] = d < 0 ? 1 : self->sizes[self->ndim - dims + d], g->out[i] = d < 0 ? 1 : out[d];
        g->in_total = td_mul_saturated(g->in_total, g->in[i]), g->out_total = td_mul_saturated(g->out_total, g->out[i]);
    }
}

int td_pool_spec(td_spec *spec, const td_tensor *self, const td_pool_geometry *g, td_dtype dtype)
{
    td_spec_set(spec, self->ndim, self->sizes, dtype, self->device);
    memcpy(spec->sizes + self->ndim - g->dims, g->out + 3 - g->dims, sizeof *g->out * (size_t)g->dims);
    return 0;
}

/* 0, or -1 with PyTorch's error.  Empty lists stand for the default; one number for all dimensions.  Numbers are checked to be in the
 * range of an int, as PyTorch takes them, so that what kernels compute from them and from sizes fits an int64. */
static int pool(td_pool_geometry *g, const wording *words, int dims, const td_tensor *self, int64_t n_kernel, const int64_t *kernel,
                int64_t n_stride, const int64_t *stride, int64_t n_padding, const int64_t *padding, int64_t n_dilation,
                const int64_t *dilation, bool ceil_mode)
{
    td_pool_geometry w;
    if (fill(words, "kernel_size", dims, n_kernel, kernel, NULL, w.kernel) ||
        fill(words, "stride", dims, n_stride, stride, w.kernel, w.stride) ||
        fill(words, "padding", dims, n_padding, padding, NULL, w.padding) ||
        fill_dilation(words, dims, n_dilation, dilation, w.dilation) ||
        td_check_ints(3, w.kernel) || td_check_ints(3, w.stride) || td_check_ints(3, w.padding) || td_check_ints(3, w.dilation))
        return -1;
    const int ndim = self->ndim;
    if (ndim < 3 && words->counts_channels)
        return td_error(TD_E_INDEX, "Dimension out of range (expected to be in range of [%d, %d], but got -3)", -ndim,
                        ndim - 1);
    if (ndim != dims + 1 && ndim != dims + 2 && !words->counts_channels)
        return td_error(TD_E_RUNTIME, "non-empty %dD or %dD (batch mode) tensor expected for input", dims + 1, dims + 2);
    for (int i = 3 - dims; i < 3; i++) {
        int64_t k = w.kernel[i], p = w.padding[i], d = w.dilation[i];
        if (p < 0)
            return td_error(TD_E_RUNTIME, "pad must be non-negative, but got pad: %" PRId64, p);
        if (k > 0 && p > ((k - 1) * d + 1) / 2)
            return td_error(TD_E_RUNTIME, "pad should be at most half of effective kernel size, but got pad=%" PRId64
                            ", kernel_size=%" PRId64 " and dilation=%" PRId64, p, k, d);
    }
    if (check_positive("kernel size", "k", dims, w.kernel) || check_positive("stride", "d", dims, w.stride) ||
        check_positive("dilation", "dilation", dims, w.dilation) || check_extents(words, dims, ndim, self->sizes))
        return -1;
    bool fits = true, any = true;
    int64_t out[3] = {0};
    for (int i = 3 - dims; i < 3; i++) {
        const int64_t in = self->sizes[ndim - 3 + i], n = windows_of(in, w.kernel[i], w.stride[i], w.padding[i], w.dilation[i], ceil_mode);
        fits &= in >= w.kernel[i], any &= n >= 1;
        out[i - (3 - dims)] = n;
    }
    for (int i = 3 - dims; i < 3 && dims > 1; i++)
        if (w.padding[i] > w.kernel[i] / 2)             /* dilation or not */
            return dims == 2 ? td_error(TD_E_RUNTIME, "pad should be smaller than or equal to half of kernel size, but got padW = %" PRId64
                                        ", padH = %" PRId64 ", kW = %" PRId64 ", kH = %" PRId64, w.padding[2], w.padding[1], w.kernel[2], w.kernel[1])
                             : td_error(TD_E_RUNTIME, "pad should be smaller than or equal to half of kernel size, but got kT: %" PRId64
                                        " kW: %" PRId64 " kH: %" PRId64 " padT: %" PRId64 " padW: %" PRId64 " padH: %" PRId64, w.kernel[0],
                                        w.kernel[2], w.kernel[1], w.padding[0], w.padding[2], w.padding[1]);
    td_pool_planes(g, dims, self, out);
    for (int i = 3 - dims; i < 3; i++)
        g->kernel[i] = w.kernel[i], g->stride[i] = w.stride[i], g->padding[i] = w.padding[i], g->dilation[i] = w.dilation[i];
    if (!fits && words->covers)
        return td_error(TD_E_RUNTIME, "input image (T: %" PRId64 " H: %" PRId64 " W: %" PRId64 ") smaller than kernel size "
                        "(kT: %" PRId64 " kH: %" PRId64 " kW: %" PRId64 ")", g->in[0], g->in[1], g->in[2], g->kernel[0],
                        g->kernel[1], g->kernel[2]);
    return any ? 0 : too_small(dims, self->sizes[ndim - dims - 1], g->in, g->out);
}

static int no_kernel(const char *op, const td_tensor *x)
{
    return td_error(TD_E_NOT_IMPLEMENTED, "\"%s\" not implemented for '%s'", op, td_dtype_title((td_dtype)x->dtype));
}

/* A single volume counts as a batch of one for the format's sake: `single` puts a dimension of size 1 in front of
 * both lists. */
int td_pool_follow_format(td_spec *spec, td_tensor *self, int dims)
{
    const bool single = dims == 3 && self->ndim == 4;
    int64_t sizes[TD_MAX_DIMS] = {1}, strides[TD_MAX_DIMS] = {self->numel};
    memcpy(sizes + single, self->sizes, sizeof *sizes * (size_t)self->ndim);
    memcpy(strides + single, self->strides, sizeof *strides * (size_t)self->ndim);
    if (self->ndim + single != dims + 2 || self->flags & TD_FLAG_CONTIGUOUS || !self->numel)
        return 0;
    TD_AUTO td_tensor *batch = td_view_strided(self, dims + 2, sizes, strides, 0);
    if (!batch)
        return -1;
    if (!td_has_channels_last(batch))
        return 0;
    memmove(sizes + single, spec->sizes, sizeof *sizes * (size_t)spec->ndim);
    td_channels_last_strides(dims + 2, sizes, strides);
    memcpy(spec->strides, strides + single, sizeof *strides * (size_t)spec->ndim);
    spec->strided = true;
    return 0;
}

/* ---- the largest elements */

#define MAX_POOL(n)                                                                                                    \
    int td_meta_max_pool##n##d_with_indices(td_spec *specs, td_pool_geometry *g, td_tensor *self, int64_t n_kernel,    \
                                            const int64_t *kernel, int64_t n_stride, const int64_t *stride, int64_t n_padding, \
                                            const int64_t *padding, int64_t n_dilation, const int64_t *dilation, bool ceil_mode) \
    {                                                                                                                  \
        if (pool(g, &max_pool##n##d, n, self, n_kernel, kernel, n_stride, stride, n_padding, padding, n_dilation, dilation, ceil_mode)) \
            return -1;                                                                                                 \
        if (self->dtype == TD_BOOL || td_is_complex(self))                                                             \
            return no_kernel("max_pool" #n "d", self);                                                                 \
        td_pool_spec(&specs[1], self, g, TD_I64);                                                                      \
        td_pool_spec(&specs[0], self, g, (td_dtype)self->dtype);                                                       \
        return td_pool_follow_format(&specs[0], self, n) | td_pool_follow_format(&specs[1], self, n);                                  \
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
/* The second result is each largest element's position in its plane of the input, which max_unpool and the backward
 * pass use. */
MAX_POOL(2)
MAX_POOL(3)

/* Whether a gradient, or the indices, are of the result that the geometry describes. */
static int check_results(const td_tensor *x, const td_tensor *self, const td_pool_geometry *g)
{
    td_spec want;
    td_pool_spec(&want, self, g, (td_dtype)self->dtype);
    for (int i = 0; i < want.ndim; i++)
        if (x->ndim != want.ndim || x->sizes[i] != want.sizes[i])
            return td_error(TD_E_RUNTIME, "Expected a tensor of dimension %d and tensor.size[%d] == %" PRId64 " but got: dimension %d and "
                            "tensor.size[%d] = %" PRId64, want.ndim, i, want.sizes[i], x->ndim, i, i < x->ndim ? x->sizes[i] : 0);
    return 0;
}

/* The backward pass adds each gradient at its index.  The window's sizes are checked as in the forward pass, though the indices alone
 * would be enough. */
#define MAX_POOL_BACKWARD(n)                                                                                                          \
    int td_meta_max_pool##n##d_with_indices_backward(                                                                                 \
        td_spec *specs, td_pool_geometry *g, td_tensor *grad, td_tensor *self, int64_t n_kernel, const int64_t *kernel, int64_t n_stride, \
        const int64_t *stride, int64_t n_padding, const int64_t *padding, int64_t n_dilation, const int64_t *dilation, bool ceil_mode, \
        td_tensor *indices)                                                                                                           \
    {                                                                                                                                 \
        if (pool(g, &max_pool##n##d, n, self, n_kernel, kernel, n_stride, stride, n_padding, padding, n_dilation, dilation, ceil_mode) || \
            check_results(grad, self, g) || check_results(indices, self, g))                                                          \
            return -1;                                                                                                                \
        if (indices->dtype != TD_I64)                                                                                                 \
            return td_error(TD_E_RUNTIME, "expected scalar type Long but found %s", td_dtype_title((td_dtype)indices->dtype));        \
        td_spec_like(specs, self);                                                                                                    \
        return td_pool_follow_format(specs, self, n);                                                                                         \
    }
MAX_POOL_BACKWARD(2)
MAX_POOL_BACKWARD(3)

int td_meta_max_pool_backward(td_spec *specs, td_pool_geometry *g, td_tensor *grad, td_tensor *self, td_tensor *indices, int64_t dims)
{
    const bool planes = dims >= 0 && dims <= 3 && grad->ndim == self->ndim && self->ndim >= dims &&
                        !memcmp(grad->sizes, self->sizes, sizeof *self->sizes * (size_t)(self->ndim - dims));
    if (!planes)
        return td_error(TD_E_RUNTIME, "max_pool_backward: the gradient must have a plane for each of self's");
    if (td_check_adaptive_grad("max", grad, (int)dims) || td_check_numel("max_pool_backward", "indices", indices, grad->numel))
        return -1;
    td_pool_planes(g, (int)dims, self, grad->sizes + grad->ndim - dims);
    td_spec_like(specs, self);
    return td_pool_follow_format(specs, self, (int)dims);
}

/* The derivative of max_pool_backward, and max pooling's tangent: elements at known positions. */
int td_meta_max_pool_pick(td_spec *specs, td_pool_geometry *g, td_tensor *self, td_tensor *indices, int64_t dims)
{
    if (dims < 0 || dims > 3 || indices->ndim != self->ndim || self->ndim < dims ||
        memcmp(indices->sizes, self->sizes, sizeof *self->sizes * (size_t)(self->ndim - dims)))
        return td_error(TD_E_RUNTIME, "max_pool_pick: the indices must have a plane for each of self's");
    td_pool_planes(g, (int)dims, self, indices->sizes + indices->ndim - dims);
    return td_spec_set(specs, indices->ndim, indices->sizes, (td_dtype)self->dtype, self->device);
}

/* ---- one dimension */

static int one_int(const char *op, const char *what, int64_t n, bool may_be_omitted)
{
    return n == 1 || (n == 0 && may_be_omitted) ? 0
        : td_error(TD_E_RUNTIME, "%s() argument '%s' should contain one int (got %" PRId64 ")", op, what, n);
}

/* Windows of a line are those of an image of one row. */
static int max_of_line(td_tensor **results, td_tensor *self, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation, bool ceil_mode)
{
    TD_AUTO td_tensor *x = td_unsqueeze(self, -2);
    td_tensor *wide[2];
    if (!x || td_max_pool2d_with_indices(wide, x, 2, (int64_t[]){1, kernel}, 2, (int64_t[]){1, stride}, 2, (int64_t[]){0, padding}, 2,
                                         (int64_t[]){1, dilation}, ceil_mode))
        return -1;
    return td_squeeze_pair(results, wide, -2);
}

int td_op_max_pool1d_with_indices(td_tensor **results, td_tensor *self, int64_t n_kernel, const int64_t *kernel,
                                  int64_t n_stride, const int64_t *stride, int64_t n_padding, const int64_t *padding,
                                  int64_t n_dilation, const int64_t *dilation, bool ceil_mode)
{
    if (td_check_rank("max_pool1d", self, 2, 3) || one_int("max_pool1d", "kernel_size", n_kernel, false) ||
        one_int("max_pool1d", "stride", n_stride, true) || one_int("max_pool1d", "padding", n_padding, false) ||
        one_int("max_pool1d", "dilation", n_dilation, false))
        return -1;
    return max_of_line(results, self, *kernel, n_stride ? *stride : *kernel, *padding, *dilation, ceil_mode);
}

/* Both are released on every path, and both results or none are left. */
int td_squeeze_pair(td_tensor **results, td_tensor **wide, int64_t dim)
{
    for (int i = 0; i < 2; i++) {
        results[i] = td_squeeze_dim(wide[i], dim);
        td_tensor_release(wide[i]);
    }
    if (results[0] && results[1])
        return 0;
    td_tensor_release(results[0]);
    td_tensor_release(results[1]);
    return -1;
}

int td_check_rank(const char *op, const td_tensor *x, int from, int to)
{
    return x->ndim >= from && x->ndim <= to ? 0
        : td_error(TD_E_RUNTIME, "Expected %d to %d dimensions, but got %d-dimensional tensor for argument #1 'self' (while "
                   "checking arguments for %s)", from, to, x->ndim, op);
}

/* max_pool2d_with_indices, which computes it, checks the same: without indices PyTorch has these words. */
static int check_max_pool1d(td_tensor *self, int64_t n_kernel, const int64_t *kernel, int64_t n_stride,
                            const int64_t *stride, int64_t n_padding, const int64_t *padding, int64_t n_dilation,
                            const int64_t *dilation, bool ceil_mode)
{
    td_shape_text text;
    int n = self->ndim;
    if ((n != 2 && n != 3) || self->sizes[n - 2] == 0 || self->sizes[n - 1] == 0)
        return td_error(TD_E_RUNTIME, "max_pool1d: Expected 2D or 3D (batch mode) tensor with optional 0 dim batch size for "
                        "input, but got:%s", td_shape_str(n, self->sizes, text));
    const struct { const char *name, *kinds; int64_t n; bool omitted; } lists[] = {
        {"kernel_size", "an int, list of ints or tuple", n_kernel, false},
        {"stride", "None, an int, list of ints, or tuple", n_stride, true},
        {"padding", "an int, list of ints, or tuple", n_padding, false},
        {"dilation", "an int, list of ints or tuple", n_dilation, false}};
    for (int i = 0; i < 4; i++)
        if (lists[i].n != 1 && !(lists[i].n == 0 && lists[i].omitted))
            return td_error(TD_E_RUNTIME, "max_pool1d() %s must be %s of ints of size 1 but got size %" PRId64,
                            lists[i].name, lists[i].kinds, lists[i].n);
    int64_t k = *kernel, s = n_stride ? *stride : k, p = *padding, d = *dilation;
    if (td_check_ints(4, (int64_t[]){k, s, p, d}))
        return -1;
    if (k <= 0 || s <= 0)
        return td_error(TD_E_RUNTIME, "max_pool1d() %s must be greater than zero, but got %" PRId64,
                        k <= 0 ? "kernel_size" : "stride", k <= 0 ? k : s);
    if (p < 0)
        return td_error(TD_E_RUNTIME, "max_pool1d() padding must be non-negative, but got %" PRId64, p);
    if (p > k / 2)
        return td_error(TD_E_RUNTIME, "max_pool1d() padding should be at most half of kernel size, but got padding=%" PRId64
                        " and kernel_size=%" PRId64, p, k);
    if (d <= 0)
        return td_error(TD_E_RUNTIME, "max_pool1d() dilation must be greater than zero, but got %" PRId64, d);
    int64_t out = windows_of(self->sizes[n - 1], k, s, p, d, ceil_mode);
    if (out < 0)
        return td_error(TD_E_RUNTIME, "max_pool1d() Invalid computed output size: %" PRId64, out);
    return !td_is_floating(self) ? no_kernel("max_pool1d_impl", self) : 0;
}

td_tensor *td_op_max_pool1d(td_tensor *self, int64_t n_kernel, const int64_t *kernel, int64_t n_stride,
                            const int64_t *stride, int64_t n_padding, const int64_t *padding, int64_t n_dilation,
                            const int64_t *dilation, bool ceil_mode)
{
    td_tensor *results[2];
    if (check_max_pool1d(self, n_kernel, kernel, n_stride, stride, n_padding, padding, n_dilation, dilation, ceil_mode) ||
        max_of_line(results, self, *kernel, n_stride ? *stride : *kernel, *padding, *dilation, ceil_mode))
        return NULL;
    td_tensor_release(results[1]);
    return results[0];
}

/* ---- means */

/* include_pad counts padding in the mean's divisor, which `divisor` replaces; neither changes the shape. */
static int average(td_pool_geometry *g, int dims, td_tensor *self, int64_t n_kernel, const int64_t *kernel, int64_t n_stride,
                   const int64_t *stride, int64_t n_padding, const int64_t *padding, bool ceil_mode, bool include_pad, const int64_t *divisor)
{
    if (divisor && *divisor == 0)
        return td_error(TD_E_RUNTIME, "divisor must be not zero");
    if (pool(g, dims == 2 ? &avg_pool2d : &avg_pool3d, dims, self, n_kernel, kernel, n_stride, stride, n_padding, padding, 0, NULL, ceil_mode))
        return -1;
    g->include_pad = include_pad, g->divisor = divisor ? *divisor : 0;
    return td_is_floating(self) || self->dtype == TD_I64 ? 0 : no_kernel(dims == 2 ? "avg_pool2d" : "avg_pool3d_out_frame", self);
}

#define AVG_POOL(n)                                                                                                                \
    int td_meta_avg_pool##n##d(td_spec *specs, td_pool_geometry *g, td_tensor *self, int64_t n_kernel, const int64_t *kernel,      \
                               int64_t n_stride, const int64_t *stride, int64_t n_padding, const int64_t *padding, bool ceil_mode, \
                               bool include_pad, const int64_t *divisor)                                                           \
    {                                                                                                                              \
        return average(g, n, self, n_kernel, kernel, n_stride, stride, n_padding, padding, ceil_mode, include_pad, divisor) ? -1   \
             : td_pool_spec(specs, self, g, (td_dtype)self->dtype);                                                                \
    }                                                                                                                              \
    int td_meta_avg_pool##n##d_backward(td_spec *specs, td_pool_geometry *g, td_tensor *grad, td_tensor *self, int64_t n_kernel,   \
                                        const int64_t *kernel, int64_t n_stride, const int64_t *stride, int64_t n_padding,         \
                                        const int64_t *padding, bool ceil_mode, bool include_pad, const int64_t *divisor)          \
    {                                                                                                                              \
        return average(g, n, self, n_kernel, kernel, n_stride, stride, n_padding, padding, ceil_mode, include_pad, divisor) ||     \
               check_results(grad, self, g) ? -1 : td_spec_like(specs, self);                                          \
    }
AVG_POOL(2)
AVG_POOL(3)

td_tensor *td_op_avg_pool1d(td_tensor *self, int64_t n_kernel, const int64_t *kernel, int64_t n_stride,
                            const int64_t *stride, int64_t n_padding, const int64_t *padding, bool ceil_mode,
                            bool include_pad)
{
    if (td_check_rank("avg_pool1d", self, 2, 3) || one_int("avg_pool1d", "kernel_size", n_kernel, false) ||
        one_int("avg_pool1d", "stride", n_stride, true) || one_int("avg_pool1d", "padding", n_padding, false))
        return NULL;
    TD_AUTO td_tensor *x = td_unsqueeze(self, -2);
    TD_AUTO td_tensor *y = td_avg_pool2d(x, 2, (int64_t[]){1, *kernel}, 2, (int64_t[]){1, n_stride ? *stride : *kernel}, 2,
                                         (int64_t[]){0, *padding}, ceil_mode, include_pad, NULL);
    return td_squeeze_dim(y, -2);
}
