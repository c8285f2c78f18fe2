/* Loops of convolution on pictures of the input, see conv_panels.c. */
#ifndef S
#include "kernels/cpu/conv.h"
#include "kernels/cpu/gemm.h"
#if defined(__AVX512F__)
enum { BYTES = 64, VECTORS = 3 };   /* of a vector; of a panel: as in gemm_isa.c */
#elif defined(__AVX2__)
enum { BYTES = 32, VECTORS = 2 };
#else
enum { BYTES = 16, VECTORS = 2 };
#endif

typedef int32_t place_f32;          /* as wide as the number */
typedef int64_t place_f64;

#define TD_BODY "conv_isa.c"
#include "kernels/cpu/both_reals.h"

extern const td_conv_table TD_ISA_NAME(td_conv_table);
const td_conv_table TD_ISA_NAME(td_conv_table) = {
    .taps_f32 = taps_f32, .taps_f64 = taps_f64, .panels_f32 = panels_f32, .panels_f64 = panels_f64,
    .rows_f32 = rows_f32, .rows_f64 = rows_f64, .fill_f32 = fill_f32, .fill_f64 = fill_f64,
    .sum_f32 = sum_f32, .sum_f64 = sum_f64,
};

#else

/* Four vectors of sums at a time, each kernel element in turn. */
static void N(taps)(const T *x, const int64_t *offsets, const T *w, int64_t k, T start, int64_t n, int64_t room, T *y)
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
        if (room - q >= BLOCK)
            for (int r = 0; r < 4; r++)
                *(V *)(y + r * LANES) = sum[r];
        else
            memcpy(y, sum, (size_t)(n - q < BLOCK ? n - q : BLOCK) * sizeof(T));
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

/* The last vectors of all rows first: what they write too far belongs to rows that come later. */
static void N(rows)(const T *from, int64_t step, int64_t rows, int64_t low, int64_t high, int64_t width, T *to)
{
    enum { LANES = BYTES / sizeof(T) };
    typedef T V __attribute__((vector_size(BYTES), aligned(sizeof(T)), may_alias));
    typedef N(place) I __attribute__((vector_size(BYTES), aligned(sizeof(T)), may_alias));
    for (int64_t i = (width - 1) / LANES * LANES; i >= 0; i -= LANES) {
        I inside;
        for (int64_t lane = 0; lane < LANES; lane++)
            inside[lane] = i + lane >= low && i + lane < high ? -1 : 0;
        if (i >= low && i + LANES <= high)
            for (int64_t r = 0; r < rows; r++)
                *(V *)(to + r * width + i) = *(const V *)(from + r * step + i);
        else
            for (int64_t r = 0; r < rows; r++)
                *(I *)(to + r * width + i) = inside & *(const I *)(from + r * step + i);
    }
}
#endif
