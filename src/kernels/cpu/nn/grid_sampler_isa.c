/* Images read at given positions, a block of positions side by side.
 *
 * Along each dimension a position is a few taps: elements and weights, 1 of them for the nearest element, 2 for linear, 4
 * for cubic interpolation.  The result is the sum over all combinations of the product of weights and the element; the
 * gradient of a coordinate takes that dimension's derivatives instead of its weights. */
#ifndef S
#define TD_SIMD_INTRINSICS
#include "base/simd.h"
#include "kernels/cpu/nn/grid_sampler.h"
#include "kernels/cpu/isa/vectors.h"

/* Places that are looked up together: their taps, up to 16 rows of indices and weights, are 8 KB in float32.  Cubic interpolation
 * is for images: 4 x 4. */
enum { BLOCK = 64, MOST_TAPS = 16 };


/* As inlines of one name for both types.  Halves go to even, as in PyTorch's nearest. */
INLINE float  floor_f32(float x) { return __builtin_floorf(x); }
INLINE double floor_f64(double x) { return __builtin_floor(x); }
INLINE float  nearest_f32(float x) { return __builtin_nearbyintf(x); }
INLINE double nearest_f64(double x) { return __builtin_nearbyint(x); }

/* A vector of elements; 0 where the position is before the first. */
INLINE vec_f32 pick_f32(const place_f32 *at, const float *x)
{
#if defined(TD_AVX512)
    const __m512i i = _mm512_loadu_si512(at);
    return (vec_f32)_mm512_mask_i32gather_ps(_mm512_setzero_ps(), (__mmask16)~_mm512_movepi32_mask(i), i, x, 4);
#elif defined(TD_AVX2)
    const __m256i i = _mm256_loadu_si256((const __m256i *)at);
    return (vec_f32)_mm256_mask_i32gather_ps(_mm256_setzero_ps(), x, i, (__m256)~i, 4);
#else
    vec_f32 v = {0};
    for (int k = 0; k < VBYTES / 4; k++)
        v[k] = at[k] < 0 ? 0 : x[at[k]];
    return v;
#endif
}
INLINE vec_f64 pick_f64(const place_f64 *at, const double *x)
{
#if defined(TD_AVX512)
    const __m512i i = _mm512_loadu_si512(at);
    return (vec_f64)_mm512_mask_i64gather_pd(_mm512_setzero_pd(), (__mmask8)~_mm512_movepi64_mask(i), i, x, 8);
#elif defined(TD_AVX2)
    const __m256i i = _mm256_loadu_si256((const __m256i *)at);
    return (vec_f64)_mm256_mask_i64gather_pd(_mm256_setzero_pd(), x, i, (__m256d)~i, 8);
#else
    vec_f64 v = {0};
    for (int k = 0; k < VBYTES / 8; k++)
        v[k] = at[k] < 0 ? 0 : x[at[k]];
    return v;
#endif
}

#define TD_BODY "kernels/cpu/nn/grid_sampler_isa.c"
#include "kernels/cpu/isa/both_reals.h"

extern const td_sampling_table TD_ISA_NAME(td_sampling_table);
const td_sampling_table TD_ISA_NAME(td_sampling_table) = {forward_f32, forward_f64, backward_f32, backward_f64};

#else

/* A block's taps along one dimension: row k has every position's k-th. */
typedef struct N(taps) {
    int count;
    N(place) at[4][BLOCK];          /* -1: outside, where all is zero */
    T weight[4][BLOCK], slope[4][BLOCK];
} N(taps);

/* A block's taps along all dimensions, and all their combinations: elements of a channel and products of weights. */
typedef struct N(block) {
    N(taps) along[3];
    int taps;
    N(place) at[MOST_TAPS][BLOCK];
    T weight[MOST_TAPS][BLOCK];
} N(block);

/* x thrown back between low / 2 and high / 2; *slope changes its sign with every throw. */
INLINE T N(reflect)(T x, int64_t low, int64_t high, T *slope)
{
    const T least = (T)low / 2, span = (T)(high - low) / 2, signed_away = x - least;
    const T away = signed_away < 0 ? -signed_away : signed_away;
    const T rest = away - N(floor)(away / (2 * span)) * (2 * span);
    const bool back = rest >= span;
    *slope = low == high ? 0 : (signed_away < 0) == back ? *slope : -*slope;
    return low == high ? 0 : (back ? 2 * span - rest : rest) + least;
}

/* A coordinate as the padding has it; *slope becomes 0 where it is clamped, since the result doesn't depend on it there. */
INLINE T N(inside)(int padding, bool align, T x, int64_t size, T *slope)
{
    const T last = (T)(size - 1);
    if (padding == TD_OUTSIDE_ZEROS)
        return x;
    if (padding == TD_OUTSIDE_REFLECTION)
        x = align ? N(reflect)(x, 0, 2 * (size - 1), slope) : N(reflect)(x, -1, 2 * size - 1, slope);
    *slope = x > 0 && x < last ? *slope : 0;
    x = x > 0 ? x : 0;              /* NaN, too */
    return x < last ? x : last;
}

/* The element at a whole coordinate; -1 outside and for NaN. */
INLINE N(place) N(element)(T x, T last) { return x >= 0 && x <= last ? (N(place))x : -1; }

/* Cubic convolution (Keys, 1981) with a = -0.75: four taps of distances d, to each of which padding applies; and its derivative. */
INLINE void N(find_cubic)(int padding, bool align, const T *x, int64_t size, T slope, N(taps) *t)
{
    const T a = (T)-0.75, last = (T)(size - 1);
    t->count = 4;
    for (int k = 0; k < 4; k++) {
        const bool near = k == 1 || k == 2;
        const T direction = k < 2 ? slope : -slope;
#pragma omp simd
        for (int j = 0; j < BLOCK; j++) {
            const T base = N(floor)(x[j]), part = x[j] - base;
            const T d = k == 0 ? part + 1 : k == 1 ? part : k == 2 ? 1 - part : 2 - part;
            T unused = 1;
            t->at[k][j] = N(element)(N(inside)(padding, align, base + (T)(k - 1), size, &unused), last);
            t->weight[k][j] = near ? ((a + 2) * d - (a + 3)) * d * d + 1 : ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
            t->slope[k][j] = direction * (near ? (3 * (a + 2) * d - 2 * (a + 3)) * d : (3 * a * d - 10 * a) * d + 8 * a);
        }
    }
}

/* Padding and alignment are constants at every call. */
INLINE void N(find)(int mode, int padding, bool align, const T *place, int64_t size, N(taps) *t)
{
    const T last = (T)(size - 1), slope = align ? last / 2 : (T)size / 2;
    T x[BLOCK];
#pragma omp simd
    for (int j = 0; j < BLOCK; j++)
        x[j] = align ? (place[j] + 1) / 2 * last : ((place[j] + 1) * (T)size - 1) / 2;
    if (mode == TD_SAMPLE_CUBIC) {
        N(find_cubic)(padding, align, x, size, slope, t);
        return;
    }
    t->count = mode == TD_SAMPLE_LINEAR ? 2 : 1;
    if (mode == TD_SAMPLE_NEAREST) {
#pragma omp simd
        for (int j = 0; j < BLOCK; j++) {
            T unused = 1;
            t->at[0][j] = N(element)(N(nearest)(N(inside)(padding, align, x[j], size, &unused)), last);
            t->weight[0][j] = 1, t->slope[0][j] = 0;
        }
        return;
    }
#pragma omp simd
    for (int j = 0; j < BLOCK; j++) {
        T steep = slope;
        const T within = N(inside)(padding, align, x[j], size, &steep), base = N(floor)(within), part = within - base;
        t->at[0][j] = N(element)(base, last), t->at[1][j] = N(element)(base + 1, last);
        t->weight[0][j] = 1 - part, t->weight[1][j] = part;
        t->slope[0][j] = -steep, t->slope[1][j] = steep;
    }
}

/* Fills a block from the positions at `grid`; those behind `count` are the first once more. */
static void N(look)(const td_sampling *s, const T *grid, int64_t count, N(block) *b)
{
    for (int d = 0; d < 3; d++) {
        N(taps) *t = &b->along[d];
        if (d < 3 - s->g.dims) {      /* a dimension that isn't there has one tap */
            t->count = 1;
            for (int j = 0; j < BLOCK; j++)
                t->at[0][j] = 0, t->weight[0][j] = 1, t->slope[0][j] = 0;
            continue;
        }
        T place[BLOCK];
        for (int64_t j = 0; j < BLOCK; j++)
            place[j] = grid[(j < count ? j : 0) * s->g.dims + 2 - d];
#define FIND(padding)                                            \
    if (s->g.align_corners)                                      \
        N(find)(s->g.mode, padding, true, place, s->g.in[d], t); \
    else                                                         \
        N(find)(s->g.mode, padding, false, place, s->g.in[d], t)
        if (s->g.outside == TD_OUTSIDE_ZEROS)
            FIND(TD_OUTSIDE_ZEROS);
        else if (s->g.outside == TD_OUTSIDE_BORDER)
            FIND(TD_OUTSIDE_BORDER);
        else
            FIND(TD_OUTSIDE_REFLECTION);
#undef FIND
    }
    const N(taps) *t = b->along;
    const N(place) rows = (N(place))s->g.in[1], columns = (N(place))s->g.in[2];
    const bool volume = s->g.dims == 3;
    b->taps = 0;
    for (int d = 0; d < t[0].count; d++)
        for (int h = 0; h < t[1].count; h++)
            for (int w = 0; w < t[2].count; w++, b->taps++)
#pragma omp simd
                for (int j = 0; j < BLOCK; j++) {
                    const N(place) z = t[0].at[d][j], y = t[1].at[h][j], x = t[2].at[w][j];
                    const bool outside = (z | y | x) < 0;
                    const T weight = t[0].weight[d][j] * t[1].weight[h][j] * t[2].weight[w][j];
                    /* In images NaN positions give NaN, in volumes zero, as in PyTorch. */
                    b->weight[b->taps][j] = outside && volume ? 0 : weight;
                    b->at[b->taps][j] = outside ? -1 : (z * rows + y) * columns + x;
                }
}

/* Places [first, last) of all samples.  A block's taps are found once and serve all channels; a channel is a gather and a
 * multiplication per tap, bound by the gathers. */
static void N(forward)(void *context, int64_t first, int64_t last)
{
    enum { LANES = VBYTES / sizeof(T) };
    const td_sampling *s = context;
    N(block) b;
    for (int64_t i = first, count; i < last; i += count) {
        const int64_t n = i / s->g.out_total, p = i % s->g.out_total;
        count = s->g.out_total - p < last - i ? s->g.out_total - p : last - i;
        count = count < BLOCK ? count : BLOCK;
        N(look)(s, (const T *)s->grid + i * s->g.dims, count, &b);
        for (int64_t c = 0; c < s->g.channels; c++) {
            const T *x = (const T *)s->x + (n * s->g.channels + c) * s->g.in_total;
            T *y = (T *)s->y + (n * s->g.channels + c) * s->g.out_total + p;
            for (int64_t j = 0; j < count; j += LANES) {
                N(vec) sum = {0};
                for (int t = 0; t < b.taps; t++)
                    sum += N(pick)(b.at[t] + j, x) * *(const N(vec) *)(b.weight[t] + j);
                if (count - j >= LANES)
                    *(N(vec) *)(y + j) = sum;
                else
                    memcpy(y + j, &sum, (size_t)(count - j) * sizeof(T));
            }
        }
    }
}

/* dx[at] += weight * g, position by position: two may meet in an element. */
static void N(spread)(int64_t count, const N(place) *at, const T *weight, const T *g, T *dx)
{
    T more[BLOCK];
    for (int j = 0; j < BLOCK; j++)
        more[j] = weight[j] * g[j];
    for (int64_t j = 0; j < count; j++)
        if (at[j] >= 0)
            dx[at[j]] += more[j];
}

/* The coordinates' gradients, dots[t] being the sums over channels of elements times gradients. */
static void N(slopes)(const td_sampling *s, const N(block) *b, int64_t count, T dots[MOST_TAPS][BLOCK], T *dgrid)
{
    const N(taps) *t = b->along;
    const bool volume = s->g.dims == 3;
    T sums[3][BLOCK] = {{0}};
    int k = 0;
    for (int d = 0; d < t[0].count; d++)
        for (int h = 0; h < t[1].count; h++)
            for (int w = 0; w < t[2].count; w++, k++)
#pragma omp simd
                for (int j = 0; j < BLOCK; j++) {
                    const bool outside = volume && b->at[k][j] < 0;     /* as in look */
                    const T dot = dots[k][j], z = t[0].weight[d][j], y = t[1].weight[h][j], x = t[2].weight[w][j];
                    sums[0][j] += outside ? 0 : dot * t[0].slope[d][j] * y * x;
                    sums[1][j] += outside ? 0 : dot * z * t[1].slope[h][j] * x;
                    sums[2][j] += outside ? 0 : dot * z * y * t[2].slope[w][j];
                }
    for (int d = 3 - s->g.dims; d < 3; d++)
        for (int64_t j = 0; j < count; j++)
            dgrid[j * s->g.dims + 2 - d] = sums[d][j];
}

/* Samples [first, last), see grid_sampler.c.  The dots over channels are vectors; spreading into dx is scalar. */
static void N(backward)(void *context, int64_t first, int64_t last)
{
    enum { LANES = VBYTES / sizeof(T) };
    const td_sampling *s = context;
    N(block) b;
    T dots[MOST_TAPS][BLOCK], g[BLOCK] = {0};
    for (int64_t i = first * s->g.out_total, count; i < last * s->g.out_total; i += count) {
        const int64_t n = i / s->g.out_total, p = i % s->g.out_total;
        count = s->g.out_total - p < BLOCK ? s->g.out_total - p : BLOCK;
        N(look)(s, (const T *)s->grid + i * s->g.dims, count, &b);
        memset(dots, 0, sizeof(dots));
        for (int64_t c = 0; c < s->g.channels; c++) {
            const int64_t image = (n * s->g.channels + c) * s->g.in_total;
            memcpy(g, (const T *)s->grad + (n * s->g.channels + c) * s->g.out_total + p, (size_t)count * sizeof(T));
            for (int t = 0; s->dgrid && t < b.taps; t++)
                for (int64_t j = 0; j < count; j += LANES)
                    *(N(vec) *)(dots[t] + j) += N(pick)(b.at[t] + j, (const T *)s->x + image) * *(const N(vec) *)(g + j);
            for (int t = 0; s->dx && t < b.taps; t++)
                N(spread)(count, b.at[t], b.weight[t], g, (T *)s->dx + image);
        }
        if (s->dgrid)
            N(slopes)(s, &b, count, dots, (T *)s->dgrid + i * s->g.dims);
    }
}
#endif
