/* Convolutions whose operands have their channels side by side (channels last).
 *
 *     1 x 1 kernels       each position is an image of one pixel, so images are rows that kernels are multiplied with
 *     depthwise ones      a position's channels are a vector, and each kernel element a vector that it is multiplied with
 *
 * The second is also how planes with short rows are computed, which hardly fill a vector: transposing them costs less.  Result,
 * input's gradient and kernels' gradient are all sums over a box of products of two vectors (td_box), and differ in what the box
 * is: kernel elements that meet an input, those that met the result, or positions. */
#include "calls_kernels_cpu_conv_inside.h"
#include "kernels/cpu/conv/conv.h"

/* Rows that are shorter than this are transposed, if there are enough channels; positions that are summed up in float32. */
enum { SHORT_ROW = 16, ENOUGH_CHANNELS = 16, SUM_OF_FLOATS = 1024 };

bool td_conv_channels_inside(const td_tensor *x)
{
    int64_t step = x->sizes[1];
    if (x->sizes[1] < 2 || x->strides[1] != 1)
        return false;
    for (int i = x->ndim; i-- > 0; step *= i == 1 ? 1 : x->sizes[i])
        if (i != 1 && x->sizes[i] != 1 && x->strides[i] != step)
            return false;
    return true;
}

td_tensor *td_conv_channels_behind(td_tensor *x)
{
    int64_t order[TD_MAX_DIMS] = {0};
    if (x == TD_NONE)
        return td_tensor_retain(x);
    for (int i = 1; i < x->ndim; i++)
        order[i] = i + 1 < x->ndim ? i + 1 : 1;
    return td_permute(x, x->ndim, order);
}

td_conv_geometry td_conv_of_pixels(const td_conv_geometry *g)
{
    td_conv_geometry pixels = *g;
    pixels.batch *= g->out_total, pixels.in_total = pixels.out_total = 1;
    for (int i = 0; i < 3; i++)
        pixels.in[i] = pixels.out[i] = 1;
    return pixels;
}

bool td_conv_is_inside(const td_tensor *input, const td_conv_geometry *g)
{
    const bool floats = input->dtype == TD_F32 || input->dtype == TD_F64;
    bool plain = floats && !g->transposed && g->cin == 1 && g->cout == 1 && g->groups >= ENOUGH_CHANNELS && g->in_total > 0 && g->out_total > 0;
    for (int i = 0; i < 3; i++)
        plain = plain && (g->stride[i] == 1 || g->dilation[i] == 1);
    return plain && !g->pointwise && (td_conv_channels_inside(input) || (g->in[2] < SHORT_ROW && g->in_total > 1));
}

/* The kernel elements that an output or, with `back`, an input at `at` along dimension i meets: the first, and how many; where the
 * first one's partner is, and steps from one to the next, of the kernel and of the partner. */
typedef struct range {
    int64_t first, count, at, step, partner;
} range;

static range meets(const td_conv_geometry *g, int i, int64_t at, bool back)
{
    const int64_t s = g->stride[i], d = g->dilation[i], limit = back ? g->out[i] : g->in[i];
    range r = {.step = 1, .partner = d};
    if (!back) {
        r.at = at * s - g->padding[i];
        r.first = r.at < 0 ? td_ceil_div(-r.at, d) : 0, r.at += r.first * d;
        r.count = r.at < limit ? (limit - 1 - r.at) / d + 1 : 0;
    } else {        /* the partner lies (at + padding - element * d) / s further on: less with each element */
        const int64_t from = at + g->padding[i];
        r.step = s, r.partner = s == 1 ? -d : -1;
        r.first = from % s, r.at = (from - r.first) / s;
        if (s == 1)
            r.first = 0, r.at = from;
        const int64_t over = r.at - (limit - 1), skip = over > 0 ? td_ceil_div(over, -r.partner) : 0;
        r.first += skip * s, r.at += skip * r.partner;
        r.count = r.at >= 0 ? r.at / -r.partner + 1 : 0;
    }
    const int64_t left = r.first < g->kernel[i] ? (g->kernel[i] - 1 - r.first) / r.step + 1 : 0;
    r.count = r.count < left ? r.count : left;
    return r;
}

/* The positions whose partners kernel element k has along dimension i. */
static range positions(const td_conv_geometry *g, int i, int64_t k)
{
    const int64_t s = g->stride[i], from = k * g->dilation[i] - g->padding[i];
    range r = {.first = from < 0 ? td_ceil_div(-from, s) : 0, .step = 1, .partner = s};
    r.at = from + r.first * s;
    r.count = r.at < g->in[i] ? (g->in[i] - 1 - r.at) / s + 1 : 0;
    r.count = r.count < g->out[i] - r.first ? r.count : g->out[i] - r.first;
    return r;
}

typedef struct work {
    const td_conv_geometry *g;
    td_dtype dtype;
    int64_t size, channels;
    const char *x, *w, *bias;       /* what the box's second vectors are of, and its first ones; or NULL */
    char *y;
    bool back;
    int64_t per_sum;                /* images whose positions are summed up at a time */
    int failed;
} work;

static void sum_box(const work *j, const td_box *b, const char *start, void *y)
{
    const td_conv_table *table = TD_ISA_PICK(td_conv_table);
    if (j->dtype == TD_F32)
        table->box_f32(b, (const float *)start, j->channels, y);
    else
        table->box_f64(b, (const double *)start, j->channels, y);
}

/* Tasks: (image, row) of the result, or of the input's gradient. */
static void rows(void *context, int64_t first, int64_t last)
{
    const work *j = context;
    const td_conv_geometry *g = j->g;
    const int64_t *size = j->back ? g->in : g->out, *other = j->back ? g->out : g->in;
    const int64_t pixel = j->channels, line = other[2] * pixel, plane = other[1] * line;
    for (int64_t t = first; t < last; t++) {
        const int64_t image = t / (size[0] * size[1]);
        const range d = meets(g, 0, t / size[1] % size[0], j->back), h = meets(g, 1, t % size[1], j->back);
        const int64_t base = image * other[0] * plane + d.at * plane + h.at * line;
        const int64_t element = (d.first * g->kernel[1] + h.first) * g->kernel[2];
        for (int64_t i = 0; i < size[2]; i++) {
            const range w = meets(g, 2, i, j->back);
            const td_box b = {.count = {d.count, h.count, w.count}, .first = j->w + (element + w.first) * pixel * j->size,
                              .second = j->x + (base + w.at * pixel) * j->size,
                              .step_first = {d.step * g->kernel[1] * g->kernel[2] * pixel, h.step * g->kernel[2] * pixel, w.step * pixel},
                              .step_second = {d.partner * plane, h.partner * line, w.partner * pixel}};
            sum_box(j, &b, j->bias, j->y + (t * size[2] + i) * pixel * j->size);
        }
    }
}

/* Tasks: kernel elements. Boxes of some images' positions are summed up, then added in double. */
static void elements(void *context, int64_t first, int64_t last)
{
    work *j = context;
    const td_conv_geometry *g = j->g;
    const int64_t pixel = j->channels, taps = g->kernel[0] * g->kernel[1] * g->kernel[2];
    const int64_t line = g->in[2] * pixel, plane = g->in[1] * line, line_y = g->out[2] * pixel, plane_y = g->out[1] * line_y;
    const size_t bytes = (size_t)pixel * (sizeof(double) + (size_t)j->size);
    double *total = td_mem_alloc(bytes);
    char *part = (char *)(total + pixel);
    if (!total) {
        __atomic_store_n(&j->failed, 1, __ATOMIC_RELAXED);
        return;
    }
    for (int64_t t = first; t < last; t++) {
        const range d = positions(g, 0, t / (g->kernel[1] * g->kernel[2])), h = positions(g, 1, t / g->kernel[2] % g->kernel[1]);
        const range w = positions(g, 2, t % g->kernel[2]);
        memset(total, 0, (size_t)pixel * sizeof(double));
        for (int64_t at = 0; at < g->batch * (d.count > 0 ? d.count : 0);) {
            /* images and depth: several images where there is no depth, else one plane at a time */
            const int64_t n = at / d.count, z = at % d.count;
            const int64_t some = g->in[0] > 1 || g->out[0] > 1 ? 1 : g->batch - n < j->per_sum ? g->batch - n : j->per_sum;
            const td_box b = {.count = {some, h.count, w.count},
                              .first = j->w + ((n * g->out[0] + d.first + z) * plane_y + h.first * line_y + w.first * pixel) * j->size,
                              .second = j->x + ((n * g->in[0] + d.at + z * d.partner) * plane + h.at * line + w.at * pixel) * j->size,
                              .step_first = {plane_y, line_y, pixel}, .step_second = {plane, h.partner * line, w.partner * pixel}};
            sum_box(j, &b, NULL, part);
            for (int64_t c = 0; c < pixel; c++)
                total[c] += j->dtype == TD_F32 ? (double)((const float *)part)[c] : ((const double *)part)[c];
            at += some;
        }
        for (int64_t c = 0; c < pixel; c++)
            if (j->dtype == TD_F32)
                ((float *)j->y)[c * taps + t] = (float)total[c];
            else
                ((double *)j->y)[c * taps + t] = total[c];
    }
    td_mem_free(total, bytes);
}

/* [channel][element] to [element][channel]; NULL without memory. */
static char *transposed_kernels(const td_tensor *w, int64_t channels, int64_t taps, int64_t size)
{
    char *to = td_mem_alloc((size_t)(channels * taps * size));
    for (int64_t c = 0; to && c < channels; c++)
        for (int64_t t = 0; t < taps; t++)
            if (size == 4)
                ((uint32_t *)to)[t * channels + c] = ((const uint32_t *)w->data)[c * taps + t];
            else
                ((uint64_t *)to)[t * channels + c] = ((const uint64_t *)w->data)[c * taps + t];
    return to;
}

/* `x` has its channels as the last dimension, and is dense. */
static int convolve(td_tensor *x, td_tensor *weight, td_tensor *bias, const td_conv_geometry *g, td_tensor *to, bool back)
{
    const td_dtype type = (td_dtype)x->dtype;
    TD_AUTO td_tensor *target = td_conv_channels_behind(to), *y = target ? td_target(target, type) : NULL;
    TD_AUTO td_tensor *w = td_operand(weight, type), *b = td_operand(bias, type);
    if (!y || !w || !b)
        return -1;
    const int64_t size = (int64_t)td_dtype_size(type), taps = g->kernel[0] * g->kernel[1] * g->kernel[2];
    const int64_t *n = back ? g->in : g->out;
    char *kernels = transposed_kernels(w, g->groups, taps, size);
    if (!kernels)
        return -1;
    work j = {.g = g, .dtype = type, .size = size, .channels = g->groups, .x = x->data, .w = kernels, .bias = td_data_or_null(b), .y = y->data,
              .back = back};
    td_parallel_for(0, g->batch * n[0] * n[1], td_grain(n[2] * g->groups * taps / 8), rows, &j);
    td_mem_free(kernels, (size_t)(g->groups * taps * size));
    return td_finish(target, y);
}

int td_conv_inside(td_tensor *input, td_tensor *weight, td_tensor *bias, const td_conv_geometry *g, td_tensor *out)
{
    TD_AUTO td_tensor *view = td_conv_channels_behind(input), *x = view ? td_operand(view, (td_dtype)input->dtype) : NULL;
    return x ? convolve(x, weight, bias, g, out, false) : -1;
}

int td_conv_inside_spread(td_tensor *y, td_tensor *weight, const td_conv_geometry *g, td_tensor *out)
{
    return convolve(y, weight, TD_NONE, g, out, true);
}

int td_conv_inside_weigh(td_tensor *y, td_tensor *input, const td_conv_geometry *g, td_tensor *out)
{
    const td_dtype type = (td_dtype)input->dtype;
    TD_AUTO td_tensor *view = td_conv_channels_behind(input), *x = view ? td_operand(view, type) : NULL, *w = td_target(out, type);
    if (!x || !w)
        return -1;
    const int64_t taps = g->kernel[0] * g->kernel[1] * g->kernel[2], images = SUM_OF_FLOATS / g->out_total;
    work j = {.g = g, .dtype = type, .size = (int64_t)td_dtype_size(type), .channels = g->groups, .x = x->data, .w = y->data, .y = w->data,
              .per_sum = images > 1 ? images : 1};
    td_parallel_for(0, taps, td_grain(g->batch * g->out_total * g->groups / 8), elements, &j);
    return j.failed ? td_error(TD_E_MEMORY, "convolution_backward: no memory for sums") : td_finish(out, w);
}
