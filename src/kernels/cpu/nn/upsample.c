/* Interpolation by separable weights: each output position looks at 1, 2 or 4 positions along each dimension, or with
 * antialiasing at as many as its filter covers.
 *
 * Positions and weights are computed once per dimension, in float for float32 and half types: whether an element just
 * makes it to the next position must not depend on more precision than PyTorch uses.
 *
 * The operators are in src/ops/nn/upsample.c. */
#include "calls_kernels_cpu_nn_upsample.h"
#include <math.h>
#include "base/base.h"
#include "kernels/cpu/nn/upsample.h"
#include "tensor/checked.h"

typedef td_resize_axis axis;
enum { WIDE = 16 };             /* channels that come last for which pixels are mixed as they lie */

/* What the loops need: tables of the three axes, and the last one by taps, so that a vector of outputs reads a vector of positions and
 * weights. */
typedef struct resampling {
    axis axes[3];
    int32_t *places;        /* the last axis once more: [taps][step]; or NULL, where a row has more elements than it counts */
    void *weights;
    int64_t step;           /* out, and room for a vector */
    int32_t *bases;         /* where vectors of positions begin, or NULL: see near_f32 */
    int64_t channels;       /* that come last; else 1 */
    int failed;
    const void *x;
    void *y;
} resampling;

/* Cubic convolution (Keys, 1981) with a = -0.75, as in PyTorch: for distances up to 1, and from 1 to 2. */
static double cubic_inner(double x) { return ((-0.75 + 2) * x - (-0.75 + 3)) * x * x + 1; }
static double cubic_outer(double x) { return ((-0.75 * x - 5 * -0.75) * x + 8 * -0.75) * x - 4 * -0.75; }

/* The filters of antialiasing, as in Pillow; the cubic one has another parameter than above. */
static double filter(int mode, double x)
{
    x = fabs(x);
    if (mode == TD_RESIZE_LINEAR_AA)
        return x < 1 ? 1 - x : 0;
    if (mode == TD_RESIZE_CUBIC_AA)
        return x < 1 ? (1.5 * x - 2.5) * x * x + 1 : x < 2 ? (((x - 5) * x + 8) * x - 4) * -0.5 : 0;
    const double pi = 3.14159265358979323846;
    return x == 0 ? 1 : x < 3 ? sin(pi * x) / (pi * x) * (sin(pi * x / 3) / (pi * x / 3)) : 0;
}

/* How far the filter reaches before it is stretched. */
static double reach(int mode) { return mode == TD_RESIZE_LINEAR_AA ? 1 : mode == TD_RESIZE_CUBIC_AA ? 2 : 3; }

/* Antialiasing stretches its filter where the input is reduced, so that all of it counts. */
int64_t td_resize_taps(const td_resize_geometry *g, int d)
{
    if (d < 3 - g->dims)
        return 1;
    if (g->mode < TD_RESIZE_LINEAR_AA)
        return g->mode <= TD_RESIZE_NEAREST_EXACT ? 1 : g->mode == TD_RESIZE_LINEAR ? 2 : 4;
    const double times = g->scale[d] > 1 ? g->scale[d] : 1;
    return g->in[d] == g->out[d] && g->scale[d] == 1 ? 1 : (int64_t)ceil(reach(g->mode) * times) * 2 + 1;
}

/* All filters are 1 at 0 and 0 at the other whole numbers: an axis that keeps its size has one tap. */
#define FILL_AA(name, T)                                                                                       \
    static void name(axis *a, const td_resize_geometry *g, int d)                                              \
    {                                                                                                          \
        const T scale = (T)g->scale[d], times = scale >= 1 ? scale : 1;                                        \
        const T support = (T)reach(g->mode) * times;                                                           \
        for (int64_t o = 0; o < a->out; o++) {                                                                 \
            int64_t *at = a->at + o * a->taps;                                                                 \
            double *weight = a->weight + o * a->taps, total = 0;                                               \
            const T center = scale * ((T)o + (T)0.5);                                                          \
            int64_t from = (int64_t)(center - support + (T)0.5), to = (int64_t)(center + support + (T)0.5);    \
            from = a->taps == 1 ? o : from > 0 ? from : 0, to = to < a->in ? to : a->in;                       \
            for (int64_t k = 0; k < a->taps; k++) {                                                            \
                bool inside = from + k < to;                                                                   \
                at[k] = inside ? from + k : a->in - 1;                                                         \
                weight[k] = inside ? filter(g->mode, (double)(((T)(from + k) - center + (T)0.5) / times)) : 0; \
                total += weight[k];                                                                            \
            }                                                                                                  \
            for (int64_t k = 0; k < a->taps && total != 0; k++)                                                \
                weight[k] /= total;                                                                            \
        }                                                                                                      \
    }
FILL_AA(fill_aa_f32, float)
FILL_AA(fill_aa_f64, double)

/* nearest: floor(o scale), or of the middle (nearest-exact); linear: two neighbours of the position, weighted by distance, or
 * the element itself, twice, where the size is kept, whatever the scale; cubic: four.  Beyond the edges the last element is repeated. */
#define FILL(name, T, FLOOR)                                                                                    \
    static void name(axis *a, const td_resize_geometry *g, int d)                                               \
    {                                                                                                           \
        const int mode = g->mode;                                                                               \
        const T scale = (T)g->scale[d];                                                                         \
        for (int64_t o = 0; o < a->out; o++) {                                                                  \
            int64_t *at = a->at + o * a->taps;                                                                  \
            double *weight = a->weight + o * a->taps;                                                           \
            if (mode <= TD_RESIZE_NEAREST_EXACT) {                                                              \
                int64_t i = (int64_t)FLOOR(mode == TD_RESIZE_NEAREST ? (T)o * scale : ((T)o + (T)0.5) * scale); \
                at[0] = i < a->in - 1 ? i : a->in - 1, weight[0] = 1;                                           \
                continue;                                                                                       \
            }                                                                                                   \
            T from = g->align_corners ? scale * (T)o : scale * ((T)o + (T)0.5) - (T)0.5;                        \
            if (mode == TD_RESIZE_LINEAR) {                                                                     \
                from = from < 0 ? 0 : from;                                                                     \
                const bool same = a->in == a->out;                                                              \
                int64_t i = same ? o : (int64_t)from < a->in - 1 ? (int64_t)from : a->in - 1;                   \
                T part = same ? 0 : from - (T)i;                                                                \
                part = part < 0 ? 0 : part > 1 ? 1 : part;                                                      \
                at[0] = i, at[1] = i < a->in - 1 && !same ? i + 1 : i;                                          \
                weight[0] = (double)(1 - part), weight[1] = (double)part;                                       \
                continue;                                                                                       \
            }                                                                                                   \
            T base = FLOOR(from), part = from - base;                                                           \
            for (int k = 0; k < 4; k++) {                                                                       \
                int64_t i = (int64_t)base - 1 + k;                                                              \
                at[k] = i < 0 ? 0 : i > a->in - 1 ? a->in - 1 : i;                                              \
            }                                                                                                   \
            weight[0] = cubic_outer((double)part + 1), weight[1] = cubic_inner((double)part);                   \
            weight[2] = cubic_inner(1 - (double)part), weight[3] = cubic_outer(2 - (double)part);               \
        }                                                                                                       \
    }
FILL(fill_f32, float, floorf)
FILL(fill_f64, double, floor)

/* The nearest of doubles.  PyTorch takes a double's position, rounded to float, from rows as they come, and a float's
 * scale where channels are innermost and for gradients, which know doubled sizes as such. */
static void fill_nearest_f64(axis *a, const td_resize_geometry *g, int d, bool coarse)
{
    const int mode = g->mode;
    const double scale = g->scale[d], shift = mode == TD_RESIZE_NEAREST ? 0 : 0.5;
    const float narrow = (float)scale;
    const bool exact = coarse && mode == TD_RESIZE_NEAREST, same = exact && a->in == a->out, twice = exact && a->out == 2 * a->in;
    for (int64_t o = 0; o < a->out; o++) {
        double from = scale * ((double)o + shift) - shift;
        from = coarse ? ((double)o + shift) * (double)narrow : (from < 0 ? 0 : from) + shift;
        int64_t i = same ? o : twice ? o / 2 : (int64_t)floorf((float)from);
        a->at[o] = i < a->in - 1 ? i : a->in - 1, a->weight[o] = 1;
    }
}

/* Bytes are mixed with whole weights of at most 15 bits, as in Pillow and PyTorch: the sums are exact, in double too.  What
 * falls on the same position at an edge counts as one weight.  Returns how many bits the weights were shifted by. */
static int whole_weights(axis *a)
{
    double largest = 0;
    if (a->taps == 1)
        return 0;
    for (int64_t o = 0; o < a->out; o++) {
        const int64_t *at = a->at + o * a->taps;
        double *weight = a->weight + o * a->taps;
        for (int64_t k = a->taps - 1; k > 0; k--)
            if (at[k] == at[k - 1])
                weight[k - 1] += weight[k], weight[k] = 0;
        for (int64_t k = 0; k < a->taps; k++)
            largest = fmax(largest, weight[k]);
    }
    int bits = 0;
    while (bits < 22 && (int64_t)(0.5 + ldexp(largest, bits + 1)) < 1 << 15)
        bits++;
    for (int64_t i = 0; i < a->out * a->taps; i++)
        a->weight[i] = trunc(ldexp(a->weight[i], bits) + copysign(0.5, a->weight[i]));
    return bits;
}

int td_resize_fill(td_resize_axis *a, const td_resize_geometry *g, int d, bool coarse, bool whole)
{
    const bool wide = g->dtype == TD_F64;
    if (d < 3 - g->dims)
        a->at[0] = 0, a->weight[0] = 1;
    else if (g->mode <= TD_RESIZE_NEAREST_EXACT && wide)
        fill_nearest_f64(a, g, d, coarse);
    else
        (g->mode >= TD_RESIZE_LINEAR_AA ? (wide ? fill_aa_f64 : fill_aa_f32) : wide ? fill_f64 : fill_f32)(a, g, d);
    return whole ? whole_weights(a) : 0;
}

/* A row of the result: the source rows mixed into one, then that one read at each output's positions.  Mixing reads whole rows by
 * vectors and is bound by memory; the second step works in the cache, where `near` needs no gather.  Outer taps are mixed up to 16 at a
 * time.  Backward the same weights spread each gradient over the positions it was read from. */
#define LOOPS(S, T)                                                                                                   \
    static void far_##S(const T *x, const axis *w, T *y)                                                              \
    {                                                                                                                 \
        for (int64_t o = 0; o < w->out; o++) {                                                                        \
            T sum = 0;                                                                                                \
            for (int64_t i = o * w->taps; i < (o + 1) * w->taps; i++)                                                 \
                sum += (T)w->weight[i] * x[w->at[i]];                                                                 \
            y[o] = sum;                                                                                               \
        }                                                                                                             \
    }                                                                                                                 \
    static void forward_##S(void *context, int64_t first, int64_t last)                                               \
    {                                                                                                                 \
        const resampling *r = context;                                                                                \
        const axis *d = &r->axes[0], *h = &r->axes[1], *w = &r->axes[2];                                              \
        const td_upsample_table *table = TD_ISA_PICK(td_upsample_table);                                              \
        const int32_t *places = r->places;                                                                            \
        const T *weights = r->weights;                                                                                \
        const int64_t last_row = w->in + 2 * table->bytes / (int64_t)sizeof(T);                                       \
        const size_t bytes = (size_t)last_row * sizeof(T);                                                            \
        T *mixed = td_mem_alloc(bytes);                                                                               \
        if (!mixed) {                                                                                                 \
            __atomic_store_n((int *)&r->failed, 1, __ATOMIC_RELAXED);                                                 \
            return;                                                                                                   \
        }                                                                                                             \
        memset(mixed + w->in, 0, (size_t)(last_row - w->in) * sizeof(T));                                             \
        const T *end = (const T *)r->y + last * d->out * h->out * w->out;                                             \
        for (int64_t p = first; p < last; p++) {                                                                      \
            const T *x = (const T *)r->x + p * d->in * h->in * w->in;                                                 \
            T *y = (T *)r->y + p * d->out * h->out * w->out;                                                          \
            for (int64_t od = 0; od < d->out; od++)                                                                   \
                for (int64_t oh = 0; oh < h->out; oh++, y += w->out) {                                                \
                    const T *rows[16];                                                                                \
                    T outer[16];                                                                                      \
                    const bool one = d->taps * h->taps == 1;                                                          \
                    int n = 0, mixes = 0;                                                                             \
                    for (int64_t t = 0; t < d->taps * h->taps; t++) {                                                 \
                        const int64_t i = od * d->taps + t / h->taps, j = oh * h->taps + t % h->taps;                 \
                        rows[n] = x + (d->at[i] * h->in + h->at[j]) * w->in;                                          \
                        outer[n++] = (T)(d->weight[i] * h->weight[j]);                                                \
                        if (!one && (n == 16 || t == d->taps * h->taps - 1)) {                                        \
                            table->mix_##S(n, rows, outer, w->in, mixes++, mixed);                                    \
                            n = 0;                                                                                    \
                        }                                                                                             \
                    }                                                                                                 \
                    if (one && r->bases)                                                                              \
                        memcpy(mixed, rows[0], (size_t)w->in * sizeof(T));                                            \
                    if (r->bases)                                                                                     \
                        table->near_##S(mixed, w->taps, r->bases, places, weights, r->step, w->out, end - y, y);      \
                    else if (places)                                                                                  \
                        table->pick_##S(one ? rows[0] : mixed, w->taps, places, weights, r->step, w->out, y);         \
                    else                                                                                              \
                        far_##S(one ? rows[0] : mixed, w, y);                                                         \
                }                                                                                                     \
        }                                                                                                             \
        td_mem_free(mixed, bytes);                                                                                    \
    }                                                                                                                 \
    static void pixels_##S(void *context, int64_t first, int64_t last)                                                \
    {                                                                                                                 \
        const resampling *r = context;                                                                                \
        const axis *d = &r->axes[0], *h = &r->axes[1], *w = &r->axes[2];                                              \
        const td_upsample_table *table = TD_ISA_PICK(td_upsample_table);                                              \
        const int64_t row = w->in * r->channels;                                                                      \
        const size_t bytes = (size_t)row * sizeof(T);                                                                 \
        T *mixed = td_mem_alloc(bytes), *y = (T *)r->y + first * w->out * r->channels;                                \
        if (!mixed) {                                                                                                 \
            __atomic_store_n((int *)&r->failed, 1, __ATOMIC_RELAXED);                                                 \
            return;                                                                                                   \
        }                                                                                                             \
        for (int64_t line = first; line < last; line++) {                                                             \
            const int64_t od = line / h->out % d->out, oh = line % h->out;                                            \
            const T *x = (const T *)r->x + line / (d->out * h->out) * d->in * h->in * row;                            \
            const T *rows[16];                                                                                        \
            T by[16];                                                                                                 \
            int n = 0, mixes = 0;                                                                                     \
            for (int64_t t = 0, taps = d->taps * h->taps; t < taps; t++) {                                            \
                const int64_t i = od * d->taps + t / h->taps, j = oh * h->taps + t % h->taps;                         \
                rows[n] = x + (d->at[i] * h->in + h->at[j]) * row, by[n++] = (T)(d->weight[i] * h->weight[j]);        \
                if (n == 16 || t == taps - 1)                                                                         \
                    table->mix_##S(n, rows, by, row, mixes++, mixed), n = 0;                                          \
            }                                                                                                         \
            for (int64_t o = 0; o < w->out; o++, y += r->channels) {                                                  \
                mixes = 0;                                                                                            \
                for (int64_t k = 0; k < w->taps; k++) {                                                               \
                    const int64_t i = o * w->taps + k;                                                                \
                    rows[n] = mixed + w->at[i] * r->channels, by[n++] = (T)w->weight[i];                              \
                    if (n == 16 || k == w->taps - 1)                                                                  \
                        table->mix_##S(n, rows, by, r->channels, mixes++, y), n = 0;                                  \
                }                                                                                                     \
            }                                                                                                         \
        }                                                                                                             \
        td_mem_free(mixed, bytes);                                                                                    \
    }                                                                                                                 \
    static void backward_##S(void *context, int64_t first, int64_t last)                                              \
    {                                                                                                                 \
        const resampling *r = context;                                                                                \
        const axis *d = &r->axes[0], *h = &r->axes[1], *w = &r->axes[2];                                              \
        for (int64_t p = first; p < last; p++) {                                                                      \
            const T *g = (const T *)r->x + p * d->out * h->out * w->out;                                              \
            T *y = (T *)r->y + p * d->in * h->in * w->in;                                                             \
            memset(y, 0, (size_t)(d->in * h->in * w->in) * sizeof(T));                                                \
            for (int64_t od = 0; od < d->out; od++)                                                                   \
                for (int64_t oh = 0; oh < h->out; oh++, g += w->out)                                                  \
                    for (int64_t kd = 0; kd < d->taps; kd++)                                                          \
                        for (int64_t kh = 0; kh < h->taps; kh++) {                                                    \
                            const T outer = (T)(d->weight[od * d->taps + kd] * h->weight[oh * h->taps + kh]);         \
                            T *row = y + (d->at[od * d->taps + kd] * h->in + h->at[oh * h->taps + kh]) * w->in;       \
                            for (int64_t ow = 0; ow < w->out; ow++)                                                   \
                                for (int64_t kw = 0; kw < w->taps; kw++)                                              \
                                    row[w->at[ow * w->taps + kw]] += outer * (T)w->weight[ow * w->taps + kw] * g[ow]; \
                        }                                                                                             \
        }                                                                                                             \
    }
LOOPS(f32, float)
LOOPS(f64, double)

/* Sums of whole weights become bytes: shifted down, rounded, cut off at 0 and 255. */
static void round_bytes(td_tensor *y, int bits)
{
    double *x = (double *)y->data;
    for (int64_t i = 0; i < y->numel; i++) {
        double rounded = floor(ldexp(x[i], -bits) + 0.5);
        x[i] = rounded < 0 ? 0 : rounded > 255 ? 255 : rounded;
    }
}

/* The last axis tap by tap, and vector by vector where the places of each are near. */
static void lay_out(resampling *r, td_dtype type, int64_t lanes)
{
    const axis *w = &r->axes[2];
    memset(r->places, 0, (size_t)(r->step * w->taps) * sizeof(int32_t));
    memset(r->weights, 0, (size_t)(r->step * w->taps) * td_dtype_size(type));
    for (int64_t o = 0; o < w->out; o++)
        for (int64_t k = 0; k < w->taps; k++) {
            int64_t from = o * w->taps + k, to = k * r->step + o;
            r->places[to] = (int32_t)w->at[from];
            if (type == TD_F64)
                ((double *)r->weights)[to] = w->weight[from];
            else
                ((float *)r->weights)[to] = (float)w->weight[from];
        }
    bool near = lanes > 0;
    for (int64_t o = 0; near && o < w->out; o += lanes) {
        const int64_t end = (o + lanes < w->out ? o + lanes : w->out) * w->taps;
        int64_t low = w->at[o * w->taps], high = low;
        for (int64_t i = o * w->taps; i < end; i++)
            low = w->at[i] < low ? w->at[i] : low, high = w->at[i] > high ? w->at[i] : high;
        r->bases[o / lanes] = (int32_t)low;
        near = high - low < 2 * lanes;
    }
    if (!near)
        r->bases = NULL;
    for (int64_t o = 0; near && o < w->out; o++)
        for (int64_t k = 0; k < w->taps; k++)
            r->places[k * r->step + o] -= r->bases[o / lanes];
}

bool td_channels_innermost(const td_tensor *x)
{
    int64_t strides[TD_MAX_DIMS];
    bool as_laid_out = x->ndim > 3 && x->sizes[1] > 1;
    if (as_laid_out)
        td_channels_last_strides(x->ndim, x->sizes, strides);
    for (int d = 0; as_laid_out && d < x->ndim; d++)
        as_laid_out = x->sizes[d] == 1 || x->strides[d] == strides[d];
    return as_laid_out;
}

static int no_memory(void) { return td_error(TD_E_MEMORY, "interpolate: no memory for a row"); }

/* Tables for three axes, then planes on threads; each plane is written by one thread, in order, forward and backward. */
static int run(td_tensor *from, const td_resize_geometry *g, td_tensor *to, bool back)
{
    const bool bytewise = from->dtype == TD_U8 && g->mode >= TD_RESIZE_LINEAR;
    const td_dtype type = g->dtype;
    int bits = 0;
    const bool innermost = td_channels_innermost(from);
    const bool pixels = !back && innermost && from->sizes[1] >= WIDE && from->ndim - g->dims == 2 && td_channels_innermost(to) && (td_dtype)from->dtype == type;
    TD_AUTO td_tensor *x = pixels ? td_tensor_retain(from) : td_operand(from, type), *y = pixels ? td_tensor_retain(to) : td_target(to, type);
    if (!x || !y)
        return -1;
    resampling r = {.x = x->data, .y = y->data, .channels = 1};
    int64_t places = 0;
    for (int i = 0; i < 3; i++) {
        r.axes[i] = (axis){.in = g->in[i], .out = g->out[i], .taps = td_resize_taps(g, i)};
        places = td_add_saturated(places, td_mul_saturated(g->out[i], r.axes[i].taps));
    }
    const int64_t lanes = TD_ISA_PICK(td_upsample_table)->bytes / (int64_t)td_dtype_size(type);
    r.step = g->out[2] + lanes;
    const int64_t last = td_mul_saturated(r.step, r.axes[2].taps + 1), count = td_add_saturated(places, last);
    const size_t bytes = td_array_bytes(count, sizeof(int64_t) + sizeof(double));
    int64_t *block = td_mem_alloc(bytes), *at = block;
    if (!block)
        return -1;
    double *weight = (double *)(block + count);
    for (int i = 0; i < 3; i++) {
        axis *a = &r.axes[i];
        a->at = at, a->weight = weight;
        at += a->out * a->taps, weight += a->out * a->taps;
        bits += td_resize_fill(a, g, i, back || innermost, bytewise);
    }
    r.weights = weight;
    if (g->in[2] <= INT32_MAX) {
        r.places = (int32_t *)at, r.bases = r.places + r.step * r.axes[2].taps;
        lay_out(&r, type, lanes);
    }
    if (pixels) {
        r.channels = from->sizes[1];
        const int64_t lines = g->planes / r.channels * g->out[0] * g->out[1];
        td_parallel_for(0, lines, td_grain(td_mul_saturated(8, g->out[2] * r.channels)), type == TD_F64 ? pixels_f64 : pixels_f32, &r);
        td_mem_free(block, bytes);
        return r.failed ? no_memory() : 0;
    }
    td_loop_body *body = type == TD_F64 ? (back ? backward_f64 : forward_f64) : (back ? backward_f32 : forward_f32);
    td_parallel_for(0, g->planes, td_grain(td_mul_saturated(8, back ? g->in_total : g->out_total)), body, &r);
    td_mem_free(block, bytes);
    if (r.failed)
        return no_memory();
    if (bytewise)
        round_bytes(y, bits);
    return td_finish(to, y);
}

int td_cpu_resample(td_tensor *self, const td_resize_geometry *g, td_tensor *out)
{
    return g->mode <= TD_RESIZE_NEAREST_EXACT && self->dtype == out->dtype ? td_resize_nearest(self, g, out) : run(self, g, out, false);
}
int td_cpu_resample_backward(td_tensor *grad, const td_resize_geometry *g, td_tensor *out) { return run(grad, g, out, true); }
