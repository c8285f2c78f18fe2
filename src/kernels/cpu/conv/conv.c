/* Convolution: patches of the input become columns of a matrix, tile by tile, and products do the rest.
 *
 * Everything is seen as three-dimensional, with leading dimensions of size 1.  Three passes serve forward and backward, and
 * for transposed convolutions they change places:
 *
 *     correlate       y[o][p]  = sum_k w[o][k] columns(x)[k][p]
 *     spread          x       += w^T y, columns added back where they were taken from
 *     weigh           w[o][k]  = sum_p y[o][p] columns(x)[k][p]
 *
 * (elsewhere: forward, gradient of the input, gradient of the weights), where k runs over channels and kernel positions and p
 * over output positions.  1 x 1 kernels need no columns; those of
 * floats do without them (panels.c).  Tiles and partial sums depend on the shape only. */
#include "calls_kernels_cpu_conv_conv.h"
#include <complex.h>
#include "base/base.h"
#include "kernels/cpu/conv/conv.h"
#include <tede/cpu_library.h>
#include "kernels/cpu/conv/winograd.h"
#include "kernels/cpu/gemm/gemm.h"
#include "kernels/cpu/loops/operands.h"
#include "ops/iterate/iterator.h"
#include <tede/modes.h>

/* A tile of columns, which a second cache holds beside its product; partial sums of the weights' gradient, at most. */
enum { TILE_BYTES = 1 << 18, CHUNKS = 8 };

/* Weights of a group from which columns of many small images pay: where others read them once per image, and where others have sums of
 * them for each chunk of images. */
enum { MANY_WEIGHTS = 1 << 18, SOME_WEIGHTS = 1 << 14 };

typedef td_conv conv;

/* to = a b, or to += a b.  It is called from tasks, so floats take the kernels that stay on this thread; errors of the others are
 * noted, since a task can't return them. */
static void product(conv *c, int64_t m, int64_t n, int64_t k, td_matrix a, td_matrix b, bool add, void *to, int64_t ld)
{
    if (c->dtype == TD_F32)
        td_gemm_f32(m, n, k, 1, a, b, add, to, ld);
    else if (c->dtype == TD_F64)
        td_gemm_f64(m, n, k, 1, a, b, add, to, ld);
    else if (td_gemm_strided(c->dtype, m, n, k, td_int(1), a, b, td_int(add), to, ld))
        __atomic_store_n(&c->failed, 1, __ATOMIC_RELAXED);
}

static void *scratch(conv *c, size_t bytes)
{
    void *block = td_mem_alloc(bytes);
    if (!block)
        __atomic_store_n(&c->failed, 1, __ATOMIC_RELAXED);
    return block;
}

#define ADD_ROW(T)                                          \
    for (int64_t i = 0; i < n; i++)                         \
        ((T *)y)[i] += *(const T *)value
/* One number to n others; integers as unsigned ones, which wrap. */
static void add(const conv *c, char *y, const char *value, int64_t n)
{
    switch (c->dtype) {
    case TD_F32: ADD_ROW(float); break;
    case TD_F64: ADD_ROW(double); break;
    case TD_C64: ADD_ROW(float _Complex); break;
    case TD_C128: ADD_ROW(double _Complex); break;
    default: ADD_ROW(uint64_t); break;
    }
}

void td_conv_add_bias(const td_conv *c, int64_t g, int64_t channels, char *to, int64_t step, int64_t n)
{
    for (int64_t i = 0; c->bias && i < channels; i++)
        add(c, to + i * step * c->size, c->bias + (g * channels + i) * c->size, n);
}

/* Tasks: (image, group, tile of positions).  No two write to the same positions, so threads can't show. */
static void correlate(void *context, int64_t first, int64_t last)
{
    conv *c = context;
    int64_t tiles = td_ceil_div(c->g.out_total, c->tile);
    size_t bytes = c->g.pointwise ? 0 : (size_t)(c->g.k * c->tile * c->size);
    void *columns = bytes ? scratch(c, bytes) : NULL;
    if (bytes && !columns)
        return;
    for (int64_t t = first; t < last; t++) {
        int64_t g = t / tiles % c->g.groups, n = t / tiles / c->g.groups, p0 = t % tiles * c->tile;
        int64_t p1 = p0 + c->tile < c->g.out_total ? p0 + c->tile : c->g.out_total;
        char *y = td_conv_y(c, n, g) + p0 * c->size;
        td_matrix w = {td_conv_w(c, g), c->g.k, 1}, b = {columns, p1 - p0, 1};
        if (c->g.pointwise)
            b = (td_matrix){td_conv_x(c, n, g) + p0 * c->size, c->g.in_total, 1};
        else
            td_conv_gather(c, td_conv_x(c, n, g), p0, p1, columns, p1 - p0);
        product(c, c->g.cout, p1 - p0, c->g.k, w, b, false, y, c->g.out_total);
        td_conv_add_bias(c, g, c->g.cout, y, c->g.out_total, p1 - p0);
    }
    td_mem_free(columns, bytes);
}

/* Tasks: (image, group).  Patches overlap, so columns are added to x where other tiles have added before: tiles of one image stay on
 * one thread, in order. */
static void spread(void *context, int64_t first, int64_t last)
{
    conv *c = context;
    size_t bytes = c->g.pointwise ? 0 : (size_t)(c->g.k * c->tile * c->size);
    void *columns = bytes ? scratch(c, bytes) : NULL;
    if (bytes && !columns)
        return;
    for (int64_t t = first; t < last; t++) {
        int64_t g = t % c->g.groups, n = t / c->g.groups;
        char *x = td_conv_x(c, n, g);
        td_matrix w = {td_conv_w(c, g), 1, c->g.k};
        if (!c->g.pointwise)
            memset(x, 0, (size_t)(c->g.cin * c->g.in_total * c->size));
        for (int64_t p0 = 0; p0 < c->g.out_total; p0 += c->tile) {
            int64_t p1 = p0 + c->tile < c->g.out_total ? p0 + c->tile : c->g.out_total;
            td_matrix y = {td_conv_y(c, n, g) + p0 * c->size, c->g.out_total, 1};
            if (c->g.pointwise) {
                product(c, c->g.k, p1 - p0, c->g.cout, w, y, false, x + p0 * c->size, c->g.in_total);
                continue;
            }
            product(c, c->g.k, p1 - p0, c->g.cout, w, y, false, columns, p1 - p0);
            td_conv_scatter(c, x, p0, p1, columns, p1 - p0);
        }
        td_conv_add_bias(c, g, c->g.cin, x, c->g.in_total, c->g.in_total);
    }
    td_mem_free(columns, bytes);
}

/* Whether panels.c takes it; a stride of more than 16 rows isn't worth its packed copies. */
static bool conv_floats(const conv *c)
{
    return (c->dtype == TD_F32 || c->dtype == TD_F64) && c->g.stride[1] <= 16;
}

/* Tasks: (group, chunk of images).  All images add to the same weights; each chunk has separate sums, and how many chunks there are
 * depends on the batch alone. */
static void weigh(void *context, int64_t first, int64_t last)
{
    conv *c = context;
    const bool floats = conv_floats(c) && !c->g.pointwise;
    size_t bytes = c->g.pointwise || floats ? 0 : (size_t)(c->g.k * c->tile * c->size);
    void *columns = bytes ? scratch(c, bytes) : NULL;
    if (bytes && !columns)
        return;
    for (int64_t t = first; t < last; t++) {
        int64_t g = t / c->chunks, from = t % c->chunks * c->per_chunk;
        int64_t to = from + c->per_chunk < c->g.batch ? from + c->per_chunk : c->g.batch;
        char *sum = c->partial + t * c->g.cout * c->g.k * c->size;
        if (c->winograd) {
            if (!td_winograd_weigh(c, from, to, g, (float *)sum))
                __atomic_store_n(&c->failed, 1, __ATOMIC_RELAXED);
            continue;
        }
        if (floats && c->g.out_total) {
            td_conv_weigh(c, from, to, g, sum);
            continue;
        }
        if (from >= to || c->g.out_total == 0)
            memset(sum, 0, (size_t)(c->g.cout * c->g.k * c->size));
        for (int64_t n = from; n < to; n++)
            for (int64_t p0 = 0; p0 < c->g.out_total; p0 += c->tile) {
                int64_t p1 = p0 + c->tile < c->g.out_total ? p0 + c->tile : c->g.out_total;
                td_matrix y = {td_conv_y(c, n, g) + p0 * c->size, c->g.out_total, 1}, b = {columns, 1, p1 - p0};
                if (c->g.pointwise)
                    b = (td_matrix){td_conv_x(c, n, g) + p0 * c->size, 1, c->g.in_total};
                else
                    td_conv_gather(c, td_conv_x(c, n, g), p0, p1, columns, p1 - p0);
                product(c, c->g.cout, c->g.k, p1 - p0, y, b, n > from || p0 > 0, sum, c->g.k);
            }
    }
    td_mem_free(columns, bytes);
}

#define SUM(T)                                                               \
    for (int64_t g = 0; g < c->g.groups; g++)                                \
        for (int64_t i = 0; i < c->chunks; i++) {                            \
            const T *from = (const T *)c->partial + (g * c->chunks + i) * n; \
            T *to = (T *)c->w + g * n;                                       \
            for (int64_t j = 0; j < n; j++)                                  \
                to[j] = i ? to[j] + from[j] : from[j];                       \
        }
/* Chunk after chunk, whichever was ready first. */
static void sum_partials(const conv *c)
{
    int64_t n = c->g.cout * c->g.k;
    switch (c->dtype) {
    case TD_F32: SUM(float) break;
    case TD_F64: SUM(double) break;
    case TD_C64: SUM(float _Complex) break;
    default: SUM(double _Complex) break;
    }
}

/* y = correlate(x, w), or one of the others, of data in the dtype. */
static conv conv_of(const td_conv_geometry *g, td_dtype dtype, char *x, char *w, char *y)
{
    const int64_t size = (int64_t)td_dtype_size(dtype);
    int64_t tile = g->pointwise ? 4096 : TILE_BYTES / ((g->k ? g->k : 1) * (int64_t)td_dtype_size(dtype == TD_BF16 ? TD_F32 : dtype));
    tile = tile < 64 ? 64 : tile;
    return (conv){.dtype = dtype, .size = size, .g = *g, .tile = tile < g->out_total ? tile : g->out_total > 0 ? g->out_total : 1,
                  .x = x, .w = w, .y = y};
}

/* One channel and one kernel per group: sums of shifted planes, no products. */
static bool depthwise(const conv *c)
{
    return c->g.cin == 1 && c->g.cout == 1 && conv_floats(c);
}

/* From the most special to the most general: products as operands lie, one channel per group, Winograd, columns of many images,
 * packed copies (panels.c), columns tile by tile.  Batch invariance rules out what is chosen by the batch's size. */
int td_conv_run_correlate(td_conv *c)
{
    if (c->g.batch * c->g.groups * c->g.cout * c->g.out_total == 0)
        return 0;
    if (td_conv_is_product(c))
        return td_conv_product(c);
    if (depthwise(c)) {
        td_conv_depthwise(c);
        return c->failed ? td_error(TD_E_MEMORY, "convolution: no memory for a plane") : 0;
    }
    if (conv_floats(c) && !c->g.pointwise) {
        const bool winograd = td_winograd_takes(c);
        if (!winograd && c->g.batch > 1 && td_conv_has_columns(c, MANY_WEIGHTS) && !td_batch_invariant())
            return td_conv_columns(c);
        (winograd ? td_winograd : td_conv_correlate)(c);
        return c->failed ? td_error(TD_E_MEMORY, "convolution: no memory for a tile of columns") : 0;
    }
    int64_t tiles = td_ceil_div(c->g.out_total, c->tile);
    td_parallel_for(0, c->g.batch * c->g.groups * tiles, td_grain(c->g.cout * c->tile * c->g.k / 16), correlate, c);
    return c->failed ? td_error(TD_E_MEMORY, "convolution: no memory for a tile of columns") : 0;
}

/* x += w^T y: by correlations of y where spread.c has them, which share out better than whole images do. */
static int run_spread(conv *c)
{
    if (td_conv_is_whole(c))
        return td_conv_spread_whole(c);
    if (c->g.out_total == 0 || c->g.cout == 0)
        memset(c->x, 0, (size_t)(c->g.batch * c->g.groups * c->g.cin * c->g.in_total * c->size));
    else if (conv_floats(c) && td_conv_has_columns(c, MANY_WEIGHTS))
        return td_conv_spread_columns(c);
    else if (conv_floats(c) && !c->g.pointwise && td_conv_has_phases(c))
        return td_conv_spread(c);
    td_parallel_for(0, c->g.batch * c->g.groups, td_grain(c->g.cout * c->g.out_total * c->g.k / 16), spread, c);
    return c->failed ? td_error(TD_E_MEMORY, "convolution: no memory for a tile of columns") : 0;
}

/* At least one chunk, even of no image: it is where the zeros come from. */
static int run_weigh(conv *c)
{
    if (td_conv_is_product(c))
        return td_conv_weigh_product(c);
    if (conv_floats(c) && td_conv_has_columns(c, SOME_WEIGHTS))
        return td_conv_weigh_columns(c);
    c->chunks = c->g.batch < CHUNKS ? c->g.batch : CHUNKS;
    c->chunks = c->chunks > 0 ? c->chunks : 1;
    c->per_chunk = td_ceil_div(c->g.batch, c->chunks);
    size_t bytes = (size_t)(c->g.groups * c->chunks * c->g.cout * c->g.k * c->size);
    if (!(c->partial = td_mem_alloc(bytes)))
        return -1;
    c->winograd = td_winograd_weighs(c);
    td_parallel_for(0, c->g.groups * c->chunks, 1, weigh, c);
    if (!c->failed)
        sum_partials(c);
    td_mem_free(c->partial, bytes);
    return c->failed ? td_error(TD_E_MEMORY, "convolution_backward: no memory for a tile of columns") : 0;
}

/* bfloat16 where the processor multiplies it; a channel and a kernel of their own aren't worth it. */
static bool takes_pairs(const td_tensor *input, const td_conv_geometry *g)
{
    return input->dtype == TD_BF16 && !g->transposed && g->stride[1] <= 16 && td_gemm_has_pairs() && (g->cin > 1 || g->cout > 1);
}

/* 1 x 1 kernels are products as they lie; the bias is there before. */
static int correlate_pairs(conv *c)
{
    if (c->g.batch * c->g.groups * c->g.cout * c->g.out_total == 0)
        return 0;
    if (c->g.pointwise && c->g.groups == 1 && c->g.k > 0) {
        uint16_t *y = (uint16_t *)c->y;
        for (int64_t i = 0; c->bias && i < c->g.batch * c->g.cout; i++) {
            uint16_t b;
            td_convert(TD_BF16, &b, 2, TD_F32, (const float *)c->bias + i % c->g.cout, 4, 1);
            td_copy_run(2, (char *)(y + i * c->g.out_total), 2, (const char *)&b, 0, c->g.out_total);
        }
        return td_gemm_pairs(c->g.batch, c->g.cout, c->g.out_total, c->g.k, 1, (td_matrix){c->w, c->g.k, 1}, 0, (td_matrix){c->x, c->g.in_total, 1},
                             c->g.cin * c->g.in_total, c->bias ? 1 : 0, y, c->g.out_total, c->g.cout * c->g.out_total, NULL);
    }
    return td_conv_pairs(c) ? 0 : td_error(TD_E_MEMORY, "convolution: no memory for a tile of columns");
}

/* Of no input channels: the bias, or zeros. */
static int correlate_nothing(conv *c)
{
    memset(c->y, 0, (size_t)(c->g.batch * c->g.groups * c->g.cout * c->g.out_total * c->size));
    for (int64_t t = 0; t < c->g.batch * c->g.groups; t++)
        td_conv_add_bias(c, t % c->g.groups, c->g.cout, td_conv_y(c, t / c->g.groups, t % c->g.groups), c->g.out_total, c->g.out_total);
    return 0;
}

/* By the library that a plug-in has offered for bfloat16: x, w and y, of which `kind` names the one that is computed. 1 where there is none, or it leaves
 * the call. */
static int by_library(const td_conv_geometry *g, td_convolution_kind kind, td_tensor *x, td_tensor *w, td_tensor *bias, td_tensor *y)
{
    td_tensor *operands[] = {y, x, w}, *result = operands[kind];
    const td_cpu_library *library = result != TD_NONE && result->dtype == TD_BF16 ? td_cpu_library_in_use() : NULL;
    if (!library || !y->numel || !x->numel || !w->numel || y->numel > INT32_MAX || x->numel > INT32_MAX || w->numel > INT32_MAX)
        return 1;
    TD_AUTO td_tensor *of_y = kind == TD_CONVOLUTION_FORWARD ? td_target(y, TD_BF16) : td_operand(y, TD_BF16);
    TD_AUTO td_tensor *of_x = kind == TD_CONVOLUTION_GRAD_INPUT ? td_target(x, TD_BF16) : td_operand(x, TD_BF16);
    TD_AUTO td_tensor *of_w = kind == TD_CONVOLUTION_GRAD_WEIGHT ? td_target(w, TD_BF16) : td_operand(w, TD_BF16);
    TD_AUTO td_tensor *b = td_operand(bias, TD_F32);
    if (!of_x || !of_w || !of_y || !b)
        return -1;
    td_convolution_call c = {.size = sizeof c, .dtype = TD_BF16, .kind = kind, .dims = g->dims, .batch = g->batch, .groups = g->groups,
                             .in_channels = g->cin * g->groups, .out_channels = g->cout * g->groups, .x = of_x->data, .y = of_y->data, .w = of_w->data};
    for (int d = 0; d < g->dims; d++) {
        const int at = 3 - g->dims + d;
        c.in[d] = g->in[at], c.out[d] = g->out[at], c.window[d] = g->kernel[at];
        c.stride[d] = g->stride[at], c.padding[d] = g->padding[at], c.dilation[d] = g->dilation[at];
    }
    const int status = library->convolution(&c, td_data_or_null(b));
    td_tensor *computed = kind == TD_CONVOLUTION_FORWARD ? of_y : kind == TD_CONVOLUTION_GRAD_INPUT ? of_x : of_w;
    return status ? status : td_finish(result, computed);
}

/* 1 x 1 kernels on channels that lie side by side: rows times a matrix. */
static bool is_of_pixels(const td_tensor *input, const td_conv_geometry *g)
{
    return g->pointwise && !g->transposed && g->k > 0 && g->out_total > 1 && td_dtype_is_floating((td_dtype)input->dtype) && td_conv_channels_inside(input);
}

static int correlate_pixels(td_tensor *input, td_tensor *weight, td_tensor *bias, const td_conv_geometry *g, td_tensor *out)
{
    const td_dtype type = takes_pairs(input, g) ? TD_BF16 : td_conv_dtype(input);
    const td_conv_geometry pixels = td_conv_of_pixels(g);
    TD_AUTO td_tensor *from = td_conv_channels_behind(input), *to = td_conv_channels_behind(out);
    TD_AUTO td_tensor *x = from ? td_operand(from, type) : NULL, *y = to ? td_target(to, type) : NULL;
    TD_AUTO td_tensor *w = td_operand(weight, type), *b = td_operand(bias, type == TD_BF16 ? TD_F32 : type);
    if (!x || !y || !w || !b)
        return -1;
    conv c = conv_of(&pixels, type, x->data, w->data, y->data);
    c.bias = td_data_or_null(b);
    return c.g.batch * c.g.groups * c.g.cout == 0 ? 0 : td_conv_product(&c) ? -1 : td_finish(to, y);
}

/* The transposed convolution is the forward one's gradient for its input, and the weight is [in][out / groups] as it would be there, so
 * nothing is copied for it. */
int td_cpu_convolution(td_tensor *input, td_tensor *weight, td_tensor *bias, const td_conv_geometry *g, td_tensor *out)
{
    const int status = g->transposed ? 1 : by_library(g, TD_CONVOLUTION_FORWARD, input, weight, bias, out);
    if (status <= 0)
        return status;
    if (td_conv_is_inside(input, g))
        return td_conv_inside(input, weight, bias, g, out);
    if (is_of_pixels(input, g))
        return correlate_pixels(input, weight, bias, g, out);
    const bool nothing = !g->transposed && !g->cin, pairs = !nothing && takes_pairs(input, g);
    td_dtype type = pairs ? TD_BF16 : td_conv_dtype(input);
    TD_AUTO td_tensor *x = td_operand(input, type), *w = td_operand(weight, type), *y = td_target(out, type);
    TD_AUTO td_tensor *b = td_operand(bias, pairs ? TD_F32 : type);
    if (!x || !w || !b || !y)
        return -1;
    conv c = g->transposed ? conv_of(g, type, y->data, w->data, x->data) : conv_of(g, type, x->data, w->data, y->data);
    c.bias = td_data_or_null(b);
    return (nothing ? correlate_nothing(&c) : pairs ? correlate_pairs(&c) : g->transposed ? run_spread(&c) : td_conv_run_correlate(&c)) ? -1 : td_finish(out, y);
}

/* The gradient of the bias: sums over images and positions, a task per channel. */
typedef struct channels {
    const td_tensor *grad;
    int64_t total;              /* positions */
    void *sums;
} channels;

/* Floats are summed in double, by 16 parts added in a fixed order: the same result at every vector width. */
#define BIAS(T, name)                                                                           \
    {                                                                                           \
        double sum[16] = {0};                                                                   \
        for (int64_t n = 0; n < g->sizes[0]; n++)                                               \
            table->name((const T *)g->data + (n * g->sizes[1] + ch) * b->total, b->total, sum); \
        for (int lane = 1; lane < 16; lane++)                                                   \
            sum[0] += sum[lane];                                                                \
        ((T *)b->sums)[ch] = (T)sum[0];                                                         \
    }
#define BIAS_COMPLEX(T)                                                                 \
    {                                                                                   \
        double _Complex sum = 0;                                                        \
        for (int64_t n = 0; n < g->sizes[0]; n++)                                       \
            for (int64_t i = 0; i < b->total; i++)                                      \
                sum += ((const T *)g->data)[(n * g->sizes[1] + ch) * b->total + i];     \
        ((T *)b->sums)[ch] = (T)sum;                                                    \
    }
static void bias_sums(void *context, int64_t first, int64_t last)
{
    const channels *b = context;
    const td_tensor *g = b->grad;
    const td_conv_table *table = TD_ISA_PICK(td_conv_table);
    for (int64_t ch = first; ch < last; ch++)
        switch (g->dtype) {
        case TD_F32: BIAS(float, sum_f32) break;
        case TD_F64: BIAS(double, sum_f64) break;
        case TD_C64: BIAS_COMPLEX(float _Complex) break;
        default: BIAS_COMPLEX(double _Complex) break;
        }
}

/* Of channels side by side: rows are added, a task some channels. */
typedef struct rows_of_channels {
    const td_tensor *grad;      /* [rows][channels] */
    int64_t rows, channels;
    void *sums;
} rows_of_channels;

enum { CHANNELS_AT_ONCE = 64, ROWS_AT_ONCE = 1024 };

/* Some rows are summed up in their type, as products with ones, and these sums in double. */
#define BIAS_ROWS(T, box)                                                                                        \
    {                                                                                                            \
        T ones[CHANNELS_AT_ONCE], part[CHANNELS_AT_ONCE];                                                        \
        for (int c = 0; c < CHANNELS_AT_ONCE; c++)                                                               \
            ones[c] = 1;                                                                                         \
        for (int64_t i = 0; i < r->rows; i += ROWS_AT_ONCE) {                                                    \
            const td_box b = {.count = {1, 1, r->rows - i < ROWS_AT_ONCE ? r->rows - i : ROWS_AT_ONCE},          \
                              .first = (const T *)r->grad->data + i * r->channels + from, .second = ones,        \
                              .step_first = {0, 0, r->channels}};                                                \
            TD_ISA_PICK(td_conv_table)->box(&b, NULL, n, part);                                                  \
            for (int64_t c = 0; c < n; c++)                                                                      \
                sum[c] += (double)part[c];                                                                       \
        }                                                                                                        \
        for (int64_t c = 0; c < n; c++)                                                                          \
            ((T *)r->sums)[from + c] = (T)sum[c];                                                                \
    }
static void bias_sums_of_rows(void *context, int64_t first, int64_t last)
{
    const rows_of_channels *r = context;
    for (int64_t t = first; t < last; t++) {
        const int64_t from = t * CHANNELS_AT_ONCE, left = r->channels - from, n = left < CHANNELS_AT_ONCE ? left : CHANNELS_AT_ONCE;
        double sum[CHANNELS_AT_ONCE] = {0};
        if (r->grad->dtype == TD_F32)
            BIAS_ROWS(float, box_f32)
        else
            BIAS_ROWS(double, box_f64)
    }
}

static int bias_gradient_of_rows(const td_tensor *g, int64_t channels, td_tensor *out)
{
    if (out == TD_NONE)
        return 0;
    TD_AUTO td_tensor *y = td_target(out, (td_dtype)g->dtype);
    if (!y)
        return -1;
    rows_of_channels r = {g, channels ? g->numel / channels : 0, channels, y->data};
    td_parallel_for(0, td_ceil_div(channels, CHANNELS_AT_ONCE), td_grain(r.rows * CHANNELS_AT_ONCE / 8), bias_sums_of_rows, &r);
    return td_finish(out, y);
}

static int bias_gradient(const td_tensor *g, td_tensor *out)
{
    if (out == TD_NONE)
        return 0;
    TD_AUTO td_tensor *y = td_target(out, (td_dtype)g->dtype);
    if (!y)
        return -1;
    channels b = {g, 1, y->data};
    for (int i = 2; i < g->ndim; i++)
        b.total *= g->sizes[i];
    td_parallel_for(0, g->sizes[1], td_grain(g->sizes[0] * b.total), bias_sums, &b);
    return td_finish(out, y);
}

/* The gradients of a convolution whose operands have their channels side by side: 1 x 1 kernels, see is_of_pixels, or depthwise ones. */
static int backward_inside(td_tensor *grad, td_tensor *input, td_tensor *weight, const td_conv_geometry *g, td_tensor *out0, td_tensor *out1,
                           td_tensor *out2)
{
    const td_dtype type = td_conv_dtype(input);
    const bool pixels = g->pointwise;
    TD_AUTO td_tensor *view = td_conv_channels_behind(grad), *y = view ? td_operand(view, type) : NULL;
    if (!y)
        return -1;
    if (!pixels) {
        if ((out0 != TD_NONE && td_conv_inside_spread(y, weight, g, out0)) || (out1 != TD_NONE && td_conv_inside_weigh(y, input, g, out1)))
            return -1;
        return bias_gradient_of_rows(y, g->groups, out2);
    }
    TD_AUTO td_tensor *from = td_conv_channels_behind(input), *to = td_conv_channels_behind(out0);
    TD_AUTO td_tensor *x = from ? td_operand(from, type) : NULL, *dx = to ? td_target(to, type) : NULL;
    TD_AUTO td_tensor *w = td_operand(weight, type), *dw = td_target(out1, type);
    if (!x || !dx || !w || !dw)
        return -1;
    const td_conv_geometry flat = td_conv_of_pixels(g);
    if (dx != TD_NONE) {
        conv c = conv_of(&flat, type, dx->data, w->data, y->data);
        if (run_spread(&c) || td_finish(to, dx))
            return -1;
    }
    if (dw != TD_NONE) {
        conv c = conv_of(&flat, type, x->data, dw->data, y->data);
        if (run_weigh(&c) || td_finish(out1, dw))
            return -1;
    }
    return bias_gradient_of_rows(y, g->cout * g->groups, out2);
}

/* Of y = correlate(x, w): dx = spread(dy, w), dw = weigh(dy, x), dbias = dy summed up.  Of the transposed one, y = spread(x, w):
 * dx = correlate(dy, w), and dw = weigh with the roles of x and dy exchanged.  What isn't wanted is TD_NONE. */
int td_cpu_convolution_backward(td_tensor *grad, td_tensor *input, td_tensor *weight, const td_conv_geometry *geometry, td_tensor *out0,
                                td_tensor *out1, td_tensor *out2)
{
    const bool transposed = geometry->transposed;
    td_dtype type = td_conv_dtype(input);
    if (!transposed) {
        const int of_input = by_library(geometry, TD_CONVOLUTION_GRAD_INPUT, out0, weight, TD_NONE, grad);
        const int of_weight = of_input < 0 ? -1 : by_library(geometry, TD_CONVOLUTION_GRAD_WEIGHT, input, out1, TD_NONE, grad);
        if (of_weight < 0)
            return -1;
        out0 = of_input == 0 ? TD_NONE : out0, out1 = of_weight == 0 ? TD_NONE : out1;
        if (out0 == TD_NONE && out1 == TD_NONE && out2 == TD_NONE)
            return 0;
    }
    if (td_conv_is_inside(input, geometry) || is_of_pixels(input, geometry))
        return backward_inside(grad, input, weight, geometry, out0, out1, out2);
    TD_AUTO td_tensor *x = td_operand(input, type), *g = td_operand(grad, type), *dx = td_target(out0, type),
    *dw = td_target(out1, type);
    /* Complex gradients go through the conjugate of the other factor. */
    TD_AUTO td_tensor *wc = td_dtype_is_complex(type) ? td_conj_physical(weight) : td_tensor_retain(weight);
    TD_AUTO td_tensor *xc = td_dtype_is_complex(type) ? td_conj_physical(x) : td_tensor_retain(x);
    TD_AUTO td_tensor *w = wc ? td_operand(wc, type) : NULL;
    if (!x || !g || !dx || !dw || !w || !xc)
        return -1;
    if (dx != TD_NONE) {
        conv c = transposed ? conv_of(geometry, type, g->data, w->data, dx->data) : conv_of(geometry, type, dx->data, w->data, g->data);
        if ((transposed ? td_conv_run_correlate(&c) : run_spread(&c)) || td_finish(out0, dx))
            return -1;
    }
    if (dw != TD_NONE) {
        conv c = transposed ? conv_of(geometry, type, g->data, dw->data, xc->data) : conv_of(geometry, type, xc->data, dw->data, g->data);
        if (run_weigh(&c) || td_finish(out1, dw))
            return -1;
    }
    return bias_gradient(g, out2);
}

/* One gradient alone, for graphs that need no other. */
int td_cpu_convolution_grad_input(td_tensor *grad, td_tensor *input, td_tensor *weight, const td_conv_geometry *g, td_tensor *out)
{
    return td_cpu_convolution_backward(grad, input, weight, g, out, TD_NONE, TD_NONE);
}

int td_cpu_convolution_grad_weight(td_tensor *grad, td_tensor *input, td_tensor *weight, const td_conv_geometry *g, td_tensor *out)
{
    return td_cpu_convolution_backward(grad, input, weight, g, TD_NONE, out, TD_NONE);
}
