/* Images read at given places.
 *
 * Along each dimension a place is a few taps: elements and weights, 1 of them for the nearest element, 2 for linear, 4
 * for cubic interpolation.  The result is the sum over all combinations of the product of weights and the element; the
 * gradient of a coordinate takes that dimension's derivatives instead of its weights.  Threads share the places forward,
 * the samples backward, since places may share elements. */
#include "calls_kernels_cpu_grid_sampler.h"
#include <math.h>
#include "kernels/cpu/nn.h"

enum { LINEAR, NEAREST, CUBIC };
enum { ZEROS, BORDER, REFLECTION };
enum { MOST_TAPS = 16 };

typedef struct sampling {
    int dims, mode, padding;
    bool align;
    int64_t channels, elements, places, size[3];    /* elements and places of one sample's channel */
    const void *x, *grid, *grad;
    void *y, *dx, *dgrid;
} sampling;

#define LOOPS(S, T, FLOOR, NEAR, FMOD)                                                                                \
    typedef struct taps_##S {                                                                                         \
        int count;                                                                                                    \
        int64_t at[4];              /* -1: outside, where all is zero */                                              \
        T weight[4], slope[4];                                                                                        \
    } taps_##S;                                                                                                       \
    /* x thrown back between low / 2 and high / 2; *slope changes its sign with every throw. */                       \
    static T reflect_##S(T x, int64_t low, int64_t high, T *slope)                                                    \
    {                                                                                                                 \
        if (low == high) {                                                                                            \
            *slope = 0;                                                                                               \
            return 0;                                                                                                 \
        }                                                                                                             \
        const T least = (T)low / 2, span = (T)(high - low) / 2;                                                       \
        T away = x - least;                                                                                           \
        if (away < 0)                                                                                                 \
            away = -away, *slope = -*slope;                                                                           \
        const T rest = FMOD(away, span), times = FLOOR(away / span);                                                  \
        if (FMOD(times, 2) == 0)                                                                                      \
            return rest + least;                                                                                      \
        *slope = -*slope;                                                                                             \
        return span - rest + least;                                                                                   \
    }                                                                                                                 \
    static T inside_##S(const sampling *s, T x, int64_t size, T *slope)                                               \
    {                                                                                                                 \
        if (s->padding == REFLECTION)                                                                                 \
            x = s->align ? reflect_##S(x, 0, 2 * (size - 1), slope) : reflect_##S(x, -1, 2 * size - 1, slope);        \
        if (s->padding != ZEROS && !(x > 0)) {                                                                        \
            *slope = 0;                                                                                               \
            return 0;                                                                                                 \
        }                                                                                                             \
        if (s->padding != ZEROS && x >= (T)(size - 1)) {                                                              \
            *slope = 0;                                                                                               \
            return (T)(size - 1);                                                                                     \
        }                                                                                                             \
        return x;                                                                                                     \
    }                                                                                                                 \
    static int64_t element_##S(T x, int64_t size) { return x >= 0 && x <= (T)(size - 1) ? (int64_t)x : -1; }          \
    static void find_##S(const sampling *s, T place, int64_t size, taps_##S *t)                                       \
    {                                                                                                                 \
        T slope = s->align ? (T)(size - 1) / 2 : (T)size / 2;                                                         \
        T x = s->align ? (place + 1) / 2 * (T)(size - 1) : ((place + 1) * (T)size - 1) / 2;                           \
        if (s->mode != CUBIC)                                                                                         \
            x = inside_##S(s, x, size, &slope);                                                                       \
        if (s->mode == NEAREST) {                                                                                     \
            t->count = 1, t->at[0] = element_##S(NEAR(x), size), t->weight[0] = 1, t->slope[0] = 0;                   \
            return;                                                                                                   \
        }                                                                                                             \
        const T base = FLOOR(x), part = x - base;                                                                     \
        if (s->mode == LINEAR) {                                                                                      \
            t->count = 2;                                                                                             \
            t->at[0] = element_##S(base, size), t->at[1] = element_##S(base + 1, size);                               \
            t->weight[0] = 1 - part, t->weight[1] = part, t->slope[0] = -slope, t->slope[1] = slope;                  \
            return;                                                                                                   \
        }                                                                                                             \
        const T a = (T)-0.75;                                                                                         \
        t->count = 4;                                                                                                 \
        for (int k = 0; k < 4; k++) {                                                                                 \
            T unused = 1, d = k == 0 ? part + 1 : k == 1 ? part : k == 2 ? 1 - part : 2 - part;                       \
            t->at[k] = element_##S(inside_##S(s, base + (T)(k - 1), size, &unused), size);                            \
            bool near = k == 1 || k == 2;                                                                             \
            t->weight[k] = near ? ((a + 2) * d - (a + 3)) * d * d + 1 : ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;    \
            t->slope[k] = (k < 2 ? slope : -slope) *                                                                  \
                          (near ? (3 * (a + 2) * d - 2 * (a + 3)) * d : (3 * a * d - 10 * a) * d + 8 * a);            \
        }                                                                                                             \
    }                                                                                                                 \
    /* The taps of a place, depth first; a dimension that isn't there has one tap. */                                 \
    static void find_all_##S(const sampling *s, const T *place, taps_##S t[3])                                        \
    {                                                                                                                 \
        t[0] = (taps_##S){.count = 1, .weight = {1}};                                                                 \
        for (int d = 3 - s->dims; d < 3; d++)                                                                         \
            find_##S(s, place[2 - d], s->size[d], &t[d]);                                                             \
    }                                                                                                                 \
    static void forward_##S(void *context, int64_t first, int64_t last)                                               \
    {                                                                                                                 \
        const sampling *s = context;                                                                                  \
        const td_blend_table *table = TD_ISA_PICK(td_blend_table);                                                    \
        td_place_##S at[MOST_TAPS * TD_BLEND];                                                                        \
        T weights[MOST_TAPS * TD_BLEND];                                                                              \
        for (int64_t i = first, count; i < last; i += count) {                                                        \
            const int64_t n = i / s->places, p = i % s->places;                                                       \
            count = s->places - p < last - i ? s->places - p : last - i;                                              \
            count = count < TD_BLEND ? count : TD_BLEND;                                                              \
            int taps = 0;                                                                                             \
            for (int64_t j = 0; j < TD_BLEND; j++) {                                                                  \
                taps_##S t[3];                                                                                        \
                find_all_##S(s, (const T *)s->grid + (i + (j < count ? j : 0)) * s->dims, t);                         \
                taps = 0;                                                                                             \
                for (int d = 0; d < t[0].count; d++)                                                                  \
                    for (int h = 0; h < t[1].count; h++)                                                              \
                        for (int w = 0; w < t[2].count; w++, taps++) {                                                \
                            const bool outside = t[0].at[d] < 0 || t[1].at[h] < 0 || t[2].at[w] < 0;                  \
                            const T weight = t[0].weight[d] * t[1].weight[h] * t[2].weight[w];                        \
                            /* In images NaN places give NaN, in volumes zero: PyTorch's way. */                      \
                            weights[taps * TD_BLEND + j] = outside && s->dims == 3 ? 0 : weight;                      \
                            at[taps * TD_BLEND + j] = (td_place_##S)(outside ? -1                                                    \
                                : (t[0].at[d] * s->size[1] + t[1].at[h]) * s->size[2] + t[2].at[w]);                   \
                        }                                                                                             \
            }                                                                                                         \
            const T *x = (const T *)s->x + n * s->channels * s->elements;                                             \
            T *y = (T *)s->y + n * s->channels * s->places + p;                                                       \
            for (int64_t c = 0; c < s->channels; c++)                                                                 \
                table->S(count, taps, at, weights, x + c * s->elements, y + c * s->places);                           \
        }                                                                                                             \
    }                                                                                                                 \
    static void backward_##S(void *context, int64_t first, int64_t last)                                              \
    {                                                                                                                 \
        const sampling *s = context;                                                                                  \
        for (int64_t i = first * s->places; i < last * s->places; i++) {                                              \
            const int64_t n = i / s->places, p = i % s->places, image = n * s->channels * s->elements;                \
            const T *x = (const T *)s->x + image, *g = (const T *)s->grad + n * s->channels * s->places + p;          \
            T *dx = s->dx ? (T *)s->dx + image : NULL, slope[3] = {0};                                                \
            taps_##S t[3];                                                                                            \
            find_all_##S(s, (const T *)s->grid + i * s->dims, t);                                                     \
            for (int d = 0; d < t[0].count; d++)                                                                      \
                for (int h = 0; h < t[1].count; h++)                                                                  \
                    for (int w = 0; w < t[2].count; w++) {                                                            \
                        if (t[0].at[d] < 0 || t[1].at[h] < 0 || t[2].at[w] < 0)                                       \
                            continue;                                                                                 \
                        const int64_t at = (t[0].at[d] * s->size[1] + t[1].at[h]) * s->size[2] + t[2].at[w];          \
                        const T a = t[0].weight[d], b = t[1].weight[h], e = t[2].weight[w];                           \
                        T product = 0;                                                                                \
                        for (int64_t c = 0; c < s->channels; c++) {                                                   \
                            product += x[c * s->elements + at] * g[c * s->places];                                    \
                            if (dx)                                                                                   \
                                dx[c * s->elements + at] += g[c * s->places] * (a * b * e);                           \
                        }                                                                                             \
                        slope[0] += product * t[0].slope[d] * b * e;                                                  \
                        slope[1] += product * a * t[1].slope[h] * e;                                                  \
                        slope[2] += product * a * b * t[2].slope[w];                                                  \
                    }                                                                                                 \
            for (int d = 3 - s->dims; s->dgrid && d < 3; d++)                                                         \
                ((T *)s->dgrid)[i * s->dims + 2 - d] = slope[d];                                                      \
        }                                                                                                             \
    }
LOOPS(f32, float, floorf, nearbyintf, fmodf)
LOOPS(f64, double, floor, nearbyint, fmod)

static sampling describe(td_tensor *x, td_tensor *grid, int64_t mode, int64_t padding, bool align)
{
    sampling s = {.dims = x->ndim - 2, .mode = (int)mode, .padding = (int)padding, .align = align, .channels = x->sizes[1],
                  .elements = 1, .places = 1, .x = x->data, .grid = grid->data};
    for (int i = 0; i < 3; i++) {
        int d = i - (3 - s.dims);
        s.size[i] = d < 0 ? 1 : x->sizes[2 + d];
        s.elements *= s.size[i], s.places *= d < 0 ? 1 : grid->sizes[1 + d];
    }
    return s;
}

static int sample(td_tensor *input, td_tensor *grid, int64_t mode, int64_t padding, bool align, td_tensor *out)
{
    int64_t elements = 1;
    for (int d = 2; d < input->ndim; d++)
        elements *= input->sizes[d];
    const td_dtype type = elements > INT32_MAX ? TD_F64 : td_compute_dtype(input);       /* as wide as places are */
    TD_AUTO td_tensor *x = td_operand(input, type), *at = td_operand(grid, type), *y = td_target(out, type);
    if (!x || !at || !y)
        return -1;
    sampling s = describe(x, at, mode, padding, align);
    s.y = y->data;
    if (out->numel)
        td_parallel_for(0, x->sizes[0] * s.places, td_grain(20 * s.channels), type == TD_F64 ? forward_f64 : forward_f32, &s);
    return td_finish(out, y);
}

int td_cpu_grid_sampler_2d(td_tensor *input, td_tensor *grid, int64_t mode, int64_t padding, bool align, td_tensor *out)
{
    return sample(input, grid, mode, padding, align, out);
}

int td_cpu_grid_sampler_3d(td_tensor *input, td_tensor *grid, int64_t mode, int64_t padding, bool align, td_tensor *out)
{
    return sample(input, grid, mode, padding, align, out);
}

int td_cpu_grid_sampler_backward(td_tensor *grad, td_tensor *input, td_tensor *grid, int64_t mode, int64_t padding,
                                 bool align, int64_t n_mask, const bool *mask, td_tensor *out0, td_tensor *out1)
{
    (void)n_mask, (void)mask;
    td_dtype type = td_compute_dtype(input);
    TD_AUTO td_tensor *x = td_operand(input, type), *at = td_operand(grid, type), *g = td_operand(grad, type);
    TD_AUTO td_tensor *dx = td_target(out0, type), *dgrid = td_target(out1, type);
    if (!x || !at || !g || !dx || !dgrid)
        return -1;
    sampling s = describe(x, at, mode, padding, align);
    s.grad = g->data, s.dx = td_data_or_null(dx), s.dgrid = td_data_or_null(dgrid);
    if (s.dx)
        memset(s.dx, 0, (size_t)(dx->numel * td_itemsize(dx)));
    td_parallel_for(0, x->sizes[0], td_grain(40 * s.channels * s.places), type == TD_F64 ? backward_f64 : backward_f32, &s);
    return td_finish(out0, dx) || td_finish(out1, dgrid) ? -1 : 0;
}
