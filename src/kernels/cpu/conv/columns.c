/* Patches of an image as columns of a matrix (im2col, unfold) and their sum back into an image (col2im, fold): for convolutions
 * that go through it, and as operators.
 *
 * Copying bounds both.  Rows of the columns are written one after the other, and each run of positions in one output row is
 * read from one input row: in steps of 1 a memcpy.  Bounds are computed per run, not per number. */
#include "calls_kernels_cpu_conv_columns.h"
#include <complex.h>
#include "base/base.h"
#include "kernels/cpu/conv/conv.h"

typedef td_conv conv;

/* The output positions [*low, *high) of a row whose input column, shifted by `offset`, lies inside: those o with
 * 0 <= o * stride + offset < width, as if rows had no end; callers clip them. */
static void inside(const conv *c, int64_t offset, int64_t *low, int64_t *high)
{
    int64_t s = c->g.stride[2], last = c->g.in[2] - 1 - offset;
    *low = offset >= 0 ? 0 : s == 1 ? -offset : td_ceil_div(-offset, s);
    *high = last < 0 ? 0 : s == 1 ? last + 1 : last / s + 1;
}

/* Traverse the columns of positions [p0, p1): for each row k and each run of positions in one output row, the body has
 * the run's position in the columns (at + o for o in [ow, end)), and the part [from, to) of it whose input is inside. */
#define ITERATE(...)                                                                                                     \
    const int64_t ow0 = p0 % c->g.out[2], oh0 = p0 / c->g.out[2] % c->g.out[1], od0 = p0 / c->g.out[2] / c->g.out[1]; \
    const int64_t step = c->g.stride[2];                                                                              \
    int64_t row = 0;                                                                                                  \
    for (int64_t ch = 0; ch < c->g.cin; ch++)                                                                         \
        for (int64_t kd = 0; kd < c->g.kernel[0]; kd++)                                                               \
            for (int64_t kh = 0; kh < c->g.kernel[1]; kh++)                                                           \
                for (int64_t kw = 0; kw < c->g.kernel[2]; kw++, row++) {                                              \
                    const int64_t offset = kw * c->g.dilation[2] - c->g.padding[2];                                   \
                    int64_t low, high, ow = ow0, oh = oh0, od = od0;                                                  \
                    inside(c, offset, &low, &high);                                                                   \
                    for (int64_t p = p0; p < p1;) {                                                                   \
                        const int64_t n = c->g.out[2] - ow < p1 - p ? c->g.out[2] - ow : p1 - p, end = ow + n;        \
                        const int64_t id = od * c->g.stride[0] - c->g.padding[0] + kd * c->g.dilation[0];             \
                        const int64_t ih = oh * c->g.stride[1] - c->g.padding[1] + kh * c->g.dilation[1];             \
                        int64_t from = end, to = end;                                                                 \
                        if (id >= 0 && id < c->g.in[0] && ih >= 0 && ih < c->g.in[1]) {                               \
                            from = low < ow ? ow : low > end ? end : low;                                             \
                            to = high > end ? end : high < from ? from : high;                                        \
                        }                                                                                             \
                        const int64_t base = ((ch * c->g.in[0] + id) * c->g.in[1] + ih) * c->g.in[2] + offset;        \
                        const int64_t at = row * ld + p - p0 - ow;                                                    \
                        __VA_ARGS__                                                                                   \
                        p += n, ow = 0;                                                                               \
                        if (++oh == c->g.out[1])                                                                      \
                            oh = 0, od++;                                                                             \
                    }                                                                                                 \
                }

/* Gathering moves bits, so sizes are enough to tell types apart; scattering adds, so it needs types. */
typedef struct { uint64_t a, b; } wide;

#define GATHER(name, T)                                                                         \
    static void name(const conv *c, const T *x, int64_t p0, int64_t p1, T *columns, int64_t ld) \
    {                                                                                           \
        ITERATE(                                                                                   \
            if (from > ow)                                                                      \
                memset(columns + at + ow, 0, (size_t)(from - ow) * sizeof(T));                  \
            if (step == 1 && to > from)                                                         \
                memcpy(columns + at + from, x + base + from, (size_t)(to - from) * sizeof(T));  \
            else                                                                                \
                for (int64_t o = from; o < to; o++)                                             \
                    columns[at + o] = x[base + o * step];                                       \
            if (end > to)                                                                       \
                memset(columns + at + to, 0, (size_t)(end - to) * sizeof(T));)                  \
    }
GATHER(gather_4, uint32_t)
GATHER(gather_8, uint64_t)
GATHER(gather_16, wide)

#define SCATTER(name, T)                                                            \
    static void name(const conv *c, T *x, int64_t p0, int64_t p1, const T *columns, int64_t ld) \
    {                                                                               \
        ITERATE(                                                                       \
            T *to_x = x + base;                                                     \
            const T *from_c = columns + at;                                         \
            if (step == 1) {                                                        \
                _Pragma("omp simd")                                                 \
                for (int64_t o = from; o < to; o++)                                 \
                    to_x[o] += from_c[o];                                           \
            } else {                                                                \
                for (int64_t o = from; o < to; o++)                                 \
                    to_x[o * step] += from_c[o];                                    \
            })                                                                      \
    }
SCATTER(scatter_f32, float)
SCATTER(scatter_f64, double)
SCATTER(scatter_c64, float _Complex)
SCATTER(scatter_c128, double _Complex)
SCATTER(scatter_i64, uint64_t)

void td_conv_gather(const td_conv *c, const char *x, int64_t p0, int64_t p1, void *columns, int64_t ld)
{
    if (c->size == 4)
        gather_4(c, (const uint32_t *)x, p0, p1, columns, ld);
    else if (c->size == 8)
        gather_8(c, (const uint64_t *)x, p0, p1, columns, ld);
    else
        gather_16(c, (const wide *)x, p0, p1, columns, ld);
}

void td_conv_scatter(const td_conv *c, char *x, int64_t p0, int64_t p1, const void *columns, int64_t ld)
{
    switch (c->dtype) {
    case TD_F32: scatter_f32(c, (float *)x, p0, p1, columns, ld); break;
    case TD_F64: scatter_f64(c, (double *)x, p0, p1, columns, ld); break;
    case TD_C64: scatter_c64(c, (float _Complex *)x, p0, p1, columns, ld); break;
    case TD_C128: scatter_c128(c, (double _Complex *)x, p0, p1, columns, ld); break;
    default: scatter_i64(c, (uint64_t *)x, p0, p1, columns, ld); break;
    }
}

/* ---- patches as columns, for their own sake ---------------------------------------------------------------------------- */

/* A task is some images: images don't share memory, so what is added up in one has one order. */
static void gather_images(void *context, int64_t first, int64_t last)
{
    const conv *c = context;
    for (int64_t n = first; n < last; n++)
        td_conv_gather(c, td_conv_x(c, n, 0), 0, c->g.out_total, c->y + n * c->g.k * c->g.out_total * c->size, c->g.out_total);
}

static void scatter_images(void *context, int64_t first, int64_t last)
{
    const conv *c = context;
    for (int64_t n = first; n < last; n++) {
        memset(td_conv_x(c, n, 0), 0, (size_t)(c->g.cin * c->g.in_total * c->size));
        td_conv_scatter(c, td_conv_x(c, n, 0), 0, c->g.out_total, c->y + n * c->g.k * c->g.out_total * c->size, c->g.out_total);
    }
}

/* unfold: [batch][k][positions], one image after the other. */
int td_cpu_im2col(td_tensor *self, const td_conv_geometry *g, td_tensor *out)
{
    td_dtype type = td_conv_dtype(self);
    TD_AUTO td_tensor *x = td_operand(self, type), *y = td_target(out, type);
    if (!x || !y)
        return -1;
    conv c = {.dtype = type, .size = (int64_t)td_dtype_size(type), .g = *g, .x = x->data, .y = y->data};
    td_parallel_for(0, g->batch, td_grain(g->k * g->out_total), gather_images, &c);
    return td_finish(out, y);
}

/* fold: numbers that patches share are added up.  Halves are added in float32 and rounded once. */
int td_cpu_columns_to_image(td_tensor *self, const td_conv_geometry *g, td_tensor *out)
{
    td_dtype type = td_conv_dtype(self);
    TD_AUTO td_tensor *y = td_operand(self, type), *x = td_target(out, type);
    if (!x || !y)
        return -1;
    conv c = {.dtype = type, .size = (int64_t)td_dtype_size(type), .g = *g, .x = x->data, .y = y->data};
    td_parallel_for(0, g->batch, td_grain(g->k * g->out_total), scatter_images, &c);
    return td_finish(out, x);
}
