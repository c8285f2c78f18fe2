/* deform_conv2d: a convolution whose windows read where offsets say, each tap weighed by a mask.
 *
 * Per image: what the taps read becomes a matrix, a row per channel and tap, a column per place of the result; the result is the product of
 * the weight with it, by groups. Backwards the same matrix holds the gradient, and goes to image, offsets and mask. */
#include "torchvision.h"

typedef struct deformed {
    int64_t     images, channels, height, width, outputs, out[2];
    int64_t     kernel[2], stride[2], pad[2], dilation[2], weight_groups, groups;    /* groups: of offsets */
    bool        use_mask;
    const void *image, *offset, *mask;          /* of one image; mask may be NULL */
    void       *columns, *grad_image, *grad_offset, *grad_mask;
} deformed;

#define T float
#define NAME(x) x##_f32
static float floor_f32(float x) { return floorf(x); }
#include "deform_loops.h"
#define T double
#define NAME(x) x##_f64
static double floor_f64(double x) { return floor(x); }
#include "deform_loops.h"

/* Arguments from `at` on: input, weight, offset, mask, bias, and nine numbers. */
static int describe(const td_op *op, const td_value *arguments, int at, deformed *d)
{
    const char *const title = operator_title(op);
    const td_value *a = arguments + at;
    static const char *const names[] = {"input", "weight", "offset", "mask", "bias"};
    d->use_mask = a[13].integer != 0;
    for (int i = 0; i < 4; i++)
        if ((i < 3 || d->use_mask) && td_tensor_ndim(a[i].tensor) != 4)
            return td_error(TD_E_RUNTIME, "%s: %s must have 4 dimensions, but has %d", title, names[i], td_tensor_ndim(a[i].tensor));
    for (int i = 1; i < 5; i++)
        if ((i != 3 || d->use_mask) && tv_same_dtype(op, arguments, at, at + i))
            return -1;
    td_tensor *x = a[0].tensor, *weight = a[1].tensor, *offset = a[2].tensor, *mask = a[3].tensor, *bias = a[4].tensor;
    d->images = size_of(x, 0), d->channels = size_of(x, 1), d->height = size_of(x, 2), d->width = size_of(x, 3);
    d->outputs = size_of(weight, 0), d->kernel[0] = size_of(weight, 2), d->kernel[1] = size_of(weight, 3);
    for (int i = 0; i < 2; i++)
        d->stride[i] = a[5 + i].integer, d->pad[i] = a[7 + i].integer, d->dilation[i] = a[9 + i].integer;
    d->weight_groups = a[11].integer, d->groups = a[12].integer;
    if (d->kernel[0] < 1 || d->kernel[1] < 1)
        return td_error(TD_E_RUNTIME, "%s: weight_h: %" PRId64 " weight_w: %" PRId64, title, d->kernel[0], d->kernel[1]);
    if (d->stride[0] < 1 || d->stride[1] < 1)
        return td_error(TD_E_RUNTIME, "%s: stride_h: %" PRId64 " stride_w: %" PRId64, title, d->stride[0], d->stride[1]);
    if (d->pad[0] < 0 || d->pad[1] < 0)
        return td_error(TD_E_RUNTIME, "%s: pad_h: %" PRId64 " pad_w: %" PRId64, title, d->pad[0], d->pad[1]);
    if (d->dilation[0] < 1 || d->dilation[1] < 1)
        return td_error(TD_E_RUNTIME, "%s: dil_h: %" PRId64 " dil_w: %" PRId64, title, d->dilation[0], d->dilation[1]);
    const int64_t most = INT32_MAX;
    if (d->stride[0] > most || d->stride[1] > most || d->pad[0] > most || d->pad[1] > most || d->dilation[0] > most / d->kernel[0] ||
        d->dilation[1] > most / d->kernel[1])
        return td_error(TD_E_RUNTIME, "%s: stride, padding or dilation is too large", title);
    const int64_t taps = d->kernel[0] * d->kernel[1];
    if (taps > most || d->weight_groups < 1 || d->groups < 1 || d->groups > most / 2 || size_of(weight, 1) != d->channels / d->weight_groups || d->channels % d->weight_groups)
        return td_error(TD_E_RUNTIME, "%s: %" PRId64 " input channels, a weight for %" PRId64 " of them in each of %" PRId64
                        " groups, %" PRId64 " groups of offsets", title, d->channels, size_of(weight, 1), d->weight_groups, d->groups);
    if (d->outputs % d->weight_groups)
        return td_error(TD_E_RUNTIME, "%s: the weight's %" PRId64 " outputs can't be divided among %" PRId64 " groups", title, d->outputs,
                        d->weight_groups);
    if (d->channels % d->groups)
        return td_error(TD_E_RUNTIME, "%s: %" PRId64 " input channels can't be divided among %" PRId64 " groups of offsets", title, d->channels, d->groups);
    if (size_of(offset, 1) != d->groups * 2 * taps)
        return td_error(TD_E_RUNTIME, "%s: offset.shape[1] is not valid: got: %" PRId64 " expected: %" PRId64, title, size_of(offset, 1),
                        d->groups * 2 * taps);
    if (d->use_mask && size_of(mask, 1) != d->groups * taps)
        return td_error(TD_E_RUNTIME, "%s: mask.shape[1] is not valid: got: %" PRId64 " expected: %" PRId64, title, size_of(mask, 1), d->groups * taps);
    if (size_of(offset, 0) != d->images || (d->use_mask && size_of(mask, 0) != d->images))
        return td_error(TD_E_RUNTIME, "%s: invalid batch size of %s", title, size_of(offset, 0) != d->images ? "offset" : "mask");
    for (int i = 0; i < 2; i++)
        d->out[i] = (size_of(x, 2 + i) + 2 * d->pad[i] - (d->dilation[i] * (d->kernel[i] - 1) + 1)) / d->stride[i] + 1;
    if (d->out[0] < 1 || d->out[1] < 1)
        return td_error(TD_E_RUNTIME, "%s: Calculated output size too small - out_h: %" PRId64 " out_w: %" PRId64, title, d->out[0], d->out[1]);
    for (int i = 2; i < (d->use_mask ? 4 : 3); i++)
        if (size_of(a[i].tensor, 2) != d->out[0] || size_of(a[i].tensor, 3) != d->out[1])
            return td_error(TD_E_RUNTIME, "%s: %s output dims: (%" PRId64 ", %" PRId64 ") - computed output dims: (%" PRId64 ", %" PRId64 ")", title,
                            names[i], size_of(a[i].tensor, 2), size_of(a[i].tensor, 3), d->out[0], d->out[1]);
    return td_check_sizes_of(op, at + 4, bias, 1, &d->outputs) || tv_floats(op, x) ? -1 : 0;
}

static META(meta_deform)
{
    (void)context;
    deformed d = {0};
    if (describe(op, arguments, 0, &d))
        return -1;
    td_tensor *x = arguments[0].tensor;
    return td_spec_set(specs, 4, (int64_t[]){d.images, d.outputs, d.out[0], d.out[1]}, td_tensor_dtype(x), td_tensor_device(x));
}

/* The operands, contiguous and of the computed dtype. */
typedef struct operands { td_tensor *x, *weight, *offset, *mask; } operands;
static void drop_operands(operands *o)
{
    td_tensor_release(o->x), td_tensor_release(o->weight), td_tensor_release(o->offset), td_tensor_release(o->mask);
}
static int bring(const td_value *a, td_dtype dtype, bool use_mask, operands *o)
{
    o->x = td_as_contiguous(a[0].tensor, dtype), o->weight = td_as_contiguous(a[1].tensor, dtype);
    o->offset = td_as_contiguous(a[2].tensor, dtype), o->mask = use_mask ? td_as_contiguous(a[3].tensor, dtype) : TD_NONE;
    return o->x && o->weight && o->offset && o->mask ? 0 : -1;
}
#define AUTO_OPERANDS __attribute__((cleanup(drop_operands))) operands

static char *image_of(td_tensor *x, int64_t n)
{
    return (char *)td_tensor_data(x) + n * (td_tensor_numel(x) / size_of(x, 0)) * (int64_t)td_dtype_size(td_tensor_dtype(x));
}
static void at_image(deformed *d, const operands *o, int64_t n)
{
    d->image = image_of(o->x, n), d->offset = image_of(o->offset, n), d->mask = d->use_mask ? image_of(o->mask, n) : NULL;
}
#define LOOP(name) (dtype == TD_F64 ? name##_f64 : name##_f32)
enum { GRAIN = 4096 };      /* elements that are worth a thread */

static IMPL(deform)
{
    (void)context;
    deformed d = {0};
    AUTO_OPERANDS o = {0};
    const td_dtype dtype = computed(td_tensor_dtype(arguments[0].tensor));
    if (describe(op, arguments, 0, &d) || bring(arguments, dtype, d.use_mask, &o))
        return -1;
    if (!td_tensor_numel(results[0]))
        return 0;
    const int64_t area = d.out[0] * d.out[1], taps = d.kernel[0] * d.kernel[1], g = d.weight_groups, depth = d.channels / g * taps;
    const td_device device = td_tensor_device(o.x);
    TD_AUTO td_tensor *columns = td_zeros(3, (int64_t[]){g, depth, area}, dtype, device);
    TD_AUTO td_tensor *weight = td_reshape(o.weight, 3, (int64_t[]){g, d.outputs / g, depth});
    TD_AUTO td_tensor *bias = td_reshape(arguments[4].tensor, 3, (int64_t[]){d.outputs, 1, 1});
    if (!columns || !weight || !bias)
        return -1;
    d.columns = td_tensor_data(columns);
    for (int64_t n = 0; n < d.images; n++) {
        at_image(&d, &o, n);
        td_parallel_for(0, d.channels * taps, 1 + GRAIN / area, LOOP(columns), &d);
        TD_AUTO td_tensor *product = td_bmm(weight, columns);
        TD_AUTO td_tensor *shaped = product ? td_reshape(product, 3, (int64_t[]){d.outputs, d.out[0], d.out[1]}) : NULL;
        TD_AUTO td_tensor *sum = shaped ? td_add(shaped, bias) : NULL, *to = td_select_int(results[0], 0, n);
        if (!sum || !to || td_copy_elements(to, sum))
            return -1;
    }
    return 0;
}

static META(meta_back)
{
    (void)context;
    deformed d = {0};
    if (describe(op, arguments, 1, &d) || td_check_sizes_of(op, 0, arguments[0].tensor, 4, (int64_t[]){d.images, d.outputs, d.out[0], d.out[1]}) ||
        tv_same_dtype(op, arguments, 0, 1))
        return -1;
    for (int i = 0; i < 5; i++)
        if (td_spec_like(specs + i, arguments[1 + i].tensor))
            return -1;
    return 0;
}

/* grads: of input, weight, offset, mask and bias, of the computed dtype and zero. */
static int backward(td_dtype dtype, deformed *d, const operands *o, td_tensor *grad, td_tensor **grads)
{
    const int64_t area = d->out[0] * d->out[1], taps = d->kernel[0] * d->kernel[1], g = d->weight_groups, depth = d->channels / g * taps;
    const int64_t shape[] = {g, d->outputs / g, depth};
    TD_AUTO td_tensor *columns = td_zeros(3, (int64_t[]){g, depth, area}, dtype, td_tensor_device(o->x)), *weight = td_reshape(o->weight, 3, shape);
    TD_AUTO td_tensor *across = weight ? td_transpose_int(weight, 1, 2) : NULL, *sum = td_zeros(3, shape, dtype, td_tensor_device(o->x));
    if (!columns || !across || !sum)
        return -1;
    for (int64_t n = 0; n < d->images; n++) {
        TD_AUTO td_tensor *one = td_select_int(grad, 0, n);
        TD_AUTO td_tensor *by_group = one ? td_reshape(one, 3, (int64_t[]){g, d->outputs / g, area}) : NULL;
        TD_AUTO td_tensor *back = by_group ? td_bmm(across, by_group) : NULL, *plain = back ? td_make_contiguous(back) : NULL;
        if (!plain)
            return -1;
        at_image(d, o, n);
        d->columns = td_tensor_data(plain), d->grad_image = image_of(grads[0], n), d->grad_offset = image_of(grads[2], n);
        d->grad_mask = d->use_mask ? image_of(grads[3], n) : NULL;
        td_parallel_for(0, d->channels, 1 + GRAIN / (area * taps), LOOP(image_back), d);
        td_parallel_for(0, d->groups * taps, 1 + GRAIN / area, LOOP(places_back), d);
        d->columns = td_tensor_data(columns);
        td_parallel_for(0, d->channels * taps, 1 + GRAIN / area, LOOP(columns), d);
        TD_AUTO td_tensor *upright = td_transpose_int(columns, 1, 2);
        TD_AUTO td_tensor *product = upright ? td_bmm(by_group, upright) : NULL;
        if (!product || td_add_tensor_(sum, product, td_int(1)))
            return -1;
    }
    TD_AUTO td_tensor *all = td_reshape(sum, 4, td_tensor_sizes(o->weight)), *bias = td_sum_dim(grad, 3, (int64_t[]){0, 2, 3}, false);
    return all && bias ? td_copy_elements(grads[1], all) || td_copy_elements(grads[4], bias) : -1;
}

static IMPL(back)
{
    (void)context;
    deformed d = {0};
    AUTO_OPERANDS o = {0};
    const td_dtype dtype = computed(td_tensor_dtype(arguments[1].tensor));
    TD_AUTO_LIST td_tensor_list grads = {0};
    TD_AUTO td_tensor *grad = td_as_contiguous(arguments[0].tensor, dtype);
    if (!grad || describe(op, arguments, 1, &d) || bring(arguments + 1, dtype, d.use_mask, &o) || td_tensor_list_new(&grads, 5))
        return -1;
    for (int i = 0; i < 5; i++)
        if (!(grads.items[i] = td_zeros(td_tensor_ndim(results[i]), td_tensor_sizes(results[i]), dtype, td_tensor_device(grad))))
            return -1;
    if (td_tensor_numel(grad) && backward(dtype, &d, &o, grad, grads.items))
        return -1;
    for (int i = 0; i < 5; i++)
        if (td_copy_elements(results[i], grads.items[i]))
            return -1;
    return 0;
}

#define OPERANDS "Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, SymInt stride_h, SymInt stride_w, SymInt pad_h, SymInt pad_w, " \
                 "SymInt dilation_h, SymInt dilation_w, SymInt groups, SymInt offset_groups, bool use_mask"
int tv_define_deform(void)
{
    static const operator_entry entries[] = {
        {"torchvision::deform_conv2d(" OPERANDS ") -> Tensor", meta_deform, deform, NULL},
        {"torchvision::_deform_conv2d_backward(Tensor grad, " OPERANDS ") -> (Tensor, Tensor, Tensor, Tensor, Tensor)", meta_back, back, NULL},
    };
    return operators_define(2, entries) || tv_gradient("deform_conv2d") ? -1 : 0;
}
