/* Loops of convolution on packed copies of the input, see panels.c: compiled once per instruction-set level, and included by itself
 * for float and double.
 *
 *     slide       4 rows x BESIDE vectors of sums: with AVX-512 16, and 4 of the input and a factor beside them, 21 of 32
 *                 registers; with AVX2 8, 2 and 1: 11 of 16
 *     taps        4 vectors of sums; each product needs a load of x, which bounds it
 *     box         up to 8 vectors of channels, two loads for each product
 *     dots        up to 9 sums, those of a 3 x 3 kernel, for each vector of y
 *     panels      copies only */
#ifndef S
#define TD_SIMD_INTRINSICS
#include "base/simd.h"
#include "kernels/cpu/conv/conv.h"
#include "kernels/cpu/gemm/gemm.h"
#include "kernels/cpu/isa/vectors.h"
#if VBYTES == 64
/* Of a vector; of a panel, as in gemm/gemm_isa.c; side by side in registers with four rows of sums. */
enum { BYTES = 64, VECTORS = 3, BESIDE = 4 };
#elif VBYTES == 32
enum { BYTES = 32, VECTORS = 2, BESIDE = 2 };
#else
enum { BYTES = 16, VECTORS = 2, BESIDE = 2 };
#endif

/* Sums of dots() that are kept in registers together. */
enum { MOST_DOTS = 9 };

typedef int16_t place_b16;          /* as in isa/vectors.h */

#define TD_BODY "kernels/cpu/conv/conv_isa.c"
#include "kernels/cpu/isa/both_reals.h"
#define TD_BODY "kernels/cpu/conv/rows.h"
#include "kernels/cpu/isa/both_reals.h"
#define T uint16_t
#define S b16
#include "kernels/cpu/conv/rows.h"
#undef T
#undef S

#ifdef TD_AVX512
/* Panels of pairs; if the number of rows is odd, the last has zeros beside it. */
static void panels_pairs(const uint16_t *x, const int64_t *offsets, int64_t rows, int64_t depth, int64_t width, float *to)
{
    enum { LANES = 16 };
    for (int64_t j = 0, step; j < width; j += step, x += step) {
        step = td_gemm_panel(width - j, LANES, VECTORS);
        for (int64_t p = 0; p < depth; p++, to += step)
            for (int64_t i = 0; i < step; i += LANES) {
                const __m512i low = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(x + offsets[2 * p] + i)));
                const __m512i high = 2 * p + 1 < rows
                    ? _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(x + offsets[2 * p + 1] + i))) : _mm512_setzero_si512();
                _mm512_storeu_si512(to + i, _mm512_or_si512(low, _mm512_slli_epi32(high, 16)));
            }
    }
}
#define PAIRS panels_pairs
#else
#define PAIRS NULL
#endif

extern const td_conv_table TD_ISA_NAME(td_conv_table);
const td_conv_table TD_ISA_NAME(td_conv_table) = {
    .box_f32 = box_f32, .box_f64 = box_f64, .taps_f32 = taps_f32, .taps_f64 = taps_f64, .slide_f32 = slide_f32, .slide_f64 = slide_f64, .panels_f32 = panels_f32, .panels_f64 = panels_f64,
    .panels_pairs = PAIRS, .rows_b16 = rows_b16, .every_b16 = every_b16,
    .rows_of_evens_f32 = rows_of_evens_f32, .rows_of_evens_f64 = rows_of_evens_f64, .rows_of_evens_b16 = rows_of_evens_b16,
    .rows_f32 = rows_f32, .rows_f64 = rows_f64, .fill_f32 = fill_f32, .fill_f64 = fill_f64,
    .every_f32 = every_f32, .every_f64 = every_f64,
    .sum_f32 = sum_f32, .sum_f64 = sum_f64, .dots_f32 = dots_f32, .dots_f64 = dots_f64,
};

#else

/* Four vectors of sums at a time, each kernel element in turn. */
static void N(taps)(const T *x, const int64_t *offsets, const T *w, int64_t k, T start, int64_t n, int64_t writable, T *y)
{
    enum { LANES = BYTES / sizeof(T), BLOCK = 4 * LANES };
    typedef T V __attribute__((vector_size(BYTES), aligned(sizeof(T)), may_alias));
    for (int64_t q = 0; q < n; q += BLOCK, x += BLOCK, y += BLOCK) {
        V sum[4];
        for (int r = 0; r < 4; r++)
            sum[r] = start - (V){0};
        for (int64_t t = 0; t < k; t++)
            for (int r = 0; r < 4; r++)
                sum[r] += w[t] * *(const V *)(x + offsets[t] + r * LANES);
        if (writable - q >= BLOCK)
            for (int r = 0; r < 4; r++)
                *(V *)(y + r * LANES) = sum[r];
        else
            memcpy(y, sum, (size_t)(n - q < BLOCK ? n - q : BLOCK) * sizeof(T));
    }
}

/* `vectors` vectors of channels, all products of the box. */
INLINE void N(box_block)(const int vectors, const td_box *b, const T *first, const T *second, const T *start, T *y)
{
    enum { LANES = BYTES / sizeof(T), MOST = 8 };
    N(vec) sum[MOST];
#pragma GCC unroll 8
    for (int v = 0; v < vectors; v++)
        sum[v] = start ? *(const N(vec) *)(start + v * LANES) : (N(vec)){0};
    for (int64_t i = 0; i < b->count[0]; i++, first += b->step_first[0], second += b->step_second[0]) {
        const T *p = first, *q = second;
        for (int64_t j = 0; j < b->count[1]; j++, p += b->step_first[1], q += b->step_second[1]) {
            const T *r = p, *s = q;
            for (int64_t k = 0; k < b->count[2]; k++, r += b->step_first[2], s += b->step_second[2])
#pragma GCC unroll 8
                for (int v = 0; v < vectors; v++)
                    N(add_product)(&sum[v], *(const N(vec) *)(r + v * LANES), *(const N(vec) *)(s + v * LANES));
        }
    }
#pragma GCC unroll 8
    for (int v = 0; v < vectors; v++)
        *(N(vec) *)(y + v * LANES) = sum[v];
}

/* The last vector begins before the one in front of it ends, where it would reach too far; fewer channels than a vector come one by one. */
static void N(box)(const td_box *b, const T *start, int64_t n, T *y)
{
    enum { LANES = BYTES / sizeof(T) };
    const T *first = b->first, *second = b->second;
    int64_t c = 0;
#define TD_BLOCK(vectors)                                                                        \
    for (; c + vectors * LANES <= n; c += vectors * LANES)                                       \
        N(box_block)(vectors, b, first + c, second + c, start ? start + c : NULL, y + c);
    TD_BLOCK(8)
    TD_BLOCK(4)
    TD_BLOCK(2)
    TD_BLOCK(1)
#undef TD_BLOCK
    if (c == n)
        return;
    if (n >= LANES) {
        c = n - LANES;
        N(box_block)(1, b, first + c, second + c, start ? start + c : NULL, y + c);
        return;
    }
    for (; c < n; c++) {
        T sum = start ? start[c] : 0;
        for (int64_t i = 0; i < b->count[0]; i++)
            for (int64_t j = 0; j < b->count[1]; j++)
                for (int64_t k = 0; k < b->count[2]; k++)
                    sum += first[c + i * b->step_first[0] + j * b->step_first[1] + k * b->step_first[2]] *
                           second[c + i * b->step_second[0] + j * b->step_second[1] + k * b->step_second[2]];
        y[c] = sum;
    }
}

/* A line of the input, for the rows that it belongs to: the last of them meets the kernel's row number `first`, which is at w, the
 * one above it the next.  With `all`, every row meets one, and none needs a check. */
INLINE void N(slide_line)(const int rows, const int beside, const td_slide *s, const T *line, const T *w, const bool all,
                          int64_t first, N(vec) (*sum)[BESIDE])
{
    enum { LANES = BYTES / sizeof(T) };
    typedef N(vec) V;
    for (int64_t j = 0; j < s->kernel[2]; j++) {
        V at[BESIDE];
#pragma GCC unroll 4
        for (int v = 0; v < beside; v++)
            at[v] = *(const V *)(line + j * s->apart + v * LANES);
#pragma GCC unroll 4
        for (int r = rows - 1; r >= 0; r--)
            if (all || (uint64_t)(first + rows - 1 - r) < (uint64_t)s->kernel[1]) {
                const V factor = w[(rows - 1 - r) * s->kernel[2] + j] - (V){0};
#pragma GCC unroll 4
                for (int v = 0; v < beside; v++)
                    N(add_product)(&sum[r][v], factor, at[v]);
            }
    }
}

/* `rows` rows of `beside` vectors of sums: each vector of the packed copy that is read serves all rows that it belongs to. */
INLINE void N(slide_block)(const int rows, const int beside, const td_slide *s,
                            const T *x, const T *w, T start, int64_t n, T *y, int64_t writable)
{
    enum { LANES = BYTES / sizeof(T) };
    typedef N(vec) V;
    V sum[4][BESIDE];
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int v = 0; v < beside; v++)
            sum[r][v] = start - (V){0};
    for (int64_t d = 0; d < s->kernel[0]; d++, x += s->plane, w += s->kernel[1] * s->kernel[2]) {
        const T *line = x;
        for (int64_t i = 0; i < rows + s->kernel[1] - 1; i++, line += s->line) {
            const int64_t first = i - (rows - 1);
            if (first >= 0 && i < s->kernel[1])
                N(slide_line)(rows, beside, s, line, w + first * s->kernel[2], true, first, sum);
            else
                N(slide_line)(rows, beside, s, line, w + first * s->kernel[2], false, first, sum);
        }
    }
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++, y += s->width, writable -= s->width) {
        V part[BESIDE];
        T *to = writable >= beside * LANES ? y : (T *)part;
#pragma GCC unroll 4
        for (int v = 0; v < beside; v++)
            *(V *)(to + v * LANES) = sum[r][v];
        if (to != y)
            memcpy(y, part, (size_t)(n < beside * LANES ? n : beside * LANES) * sizeof(T));
    }
}

/* Blocks of columns from the last to the first: what a row writes too far is where the next one begins.  Blocks at
 * the right edge are narrower, so that less is computed in vain; fewer than four rows go one by one. */
static void N(slide)(const td_slide *s, const T *x, const T *w, T start, int64_t rows, T *y, int64_t writable)
{
    enum { LANES = BYTES / sizeof(T), BLOCK = BESIDE * LANES };
    for (int64_t q = (s->width - 1) / BLOCK * BLOCK; q >= 0; q -= BLOCK) {
        const int64_t n = s->width - q;
        if (rows == 4 && n > BLOCK / 2)
            N(slide_block)(4, BESIDE, s, x + q, w, start, n, y + q, writable - q);
        else if (rows == 4 && n > LANES)
            N(slide_block)(4, BESIDE / 2, s, x + q, w, start, n, y + q, writable - q);
        else if (rows == 4)
            N(slide_block)(4, 1, s, x + q, w, start, n, y + q, writable - q);
        else
            for (int64_t r = 0; r < rows; r++)
                N(slide_block)(1, BESIDE, s, x + q + r * s->line, w, start, n, y + q + r * s->width,
                               writable - q - r * s->width);
    }
}

static void N(fill)(const T *values, int64_t rows, int64_t n, T *to, int64_t step)
{
    for (int64_t r = 0; r < rows; r++, to += step) {
        const T value = values[r];
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            to[i] = value;
    }
}

/* Number i goes to part i % 16 at every level, so the vector's width doesn't show. */
static void N(sum)(const T *x, int64_t n, double *sums)
{
    double part[16];
    memcpy(part, sums, sizeof part);
    int64_t i = 0;
    for (; i + 16 <= n; i += 16)
#pragma omp simd
        for (int lane = 0; lane < 16; lane++)
            part[lane] += (double)x[i + lane];
    for (int lane = 0; i < n; i++, lane++)
        part[lane] += (double)x[i];
    memcpy(sums, part, sizeof part);
}

/* A block of dots: each vector of y serves all of them. */
INLINE void N(dot_block)(const int taps, const T *y, const T *x, const int64_t *offsets, int64_t n, double *sums)
{
    enum { LANES = BYTES / sizeof(T) };
    N(vec) sum[MOST_DOTS] = {{0}};
    for (int64_t i = 0; i + LANES <= n; i += LANES)
#pragma GCC unroll 9
        for (int t = 0; t < taps; t++)
            N(add_product)(&sum[t], *(const N(vec) *)(y + i), *(const N(vec) *)(x + offsets[t] + i));
    for (int t = 0; t < taps; t++) {
        double total = 0;
        for (int lane = 0; lane < LANES; lane++)
            total += (double)sum[t][lane];
        for (int64_t i = n / LANES * LANES; i < n; i++)
            total += (double)y[i] * (double)x[offsets[t] + i];
        sums[t] += total;
    }
}

/* Kernel elements in blocks of 9, 5, 3 and 1: the number of sums must be a constant for them to stay in registers. */
static void N(dots)(const T *y, const T *x, const int64_t *offsets, int64_t k, int64_t n, double *sums)
{
    for (int64_t t = 0, step; t < k; t += step) {
        step = k - t >= MOST_DOTS ? MOST_DOTS : k - t >= 5 ? 5 : k - t >= 3 ? 3 : 1;
        if (step == MOST_DOTS)
            N(dot_block)(MOST_DOTS, y, x, offsets + t, n, sums + t);
        else if (step == 5)
            N(dot_block)(5, y, x, offsets + t, n, sums + t);
        else if (step == 3)
            N(dot_block)(3, y, x, offsets + t, n, sums + t);
        else
            N(dot_block)(1, y, x, offsets + t, n, sums + t);
    }
}

/* As wide as td_gemm_panel says, each copied row by row: loads at any alignment, stores one behind the other. */
static void N(panels)(const T *x, const int64_t *offsets, int64_t depth, int64_t width, T *to)
{
    enum { LANES = BYTES / sizeof(T) };
    typedef T V __attribute__((vector_size(BYTES), aligned(sizeof(T)), may_alias));
    for (int64_t j = 0, step; j < width; j += step, x += step) {
        step = td_gemm_panel(width - j, LANES, VECTORS);
        for (int64_t p = 0; p < depth; p++, to += step)
            for (int64_t i = 0; i < step; i += LANES)
                *(V *)(to + i) = *(const V *)(x + offsets[p] + i);
    }
}
#endif
