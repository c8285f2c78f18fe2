/* Interpolation: rows mixed, and positions picked from a row. */
#ifndef S
#include "kernels/cpu/upsample.h"

#define TD_BODY "upsample_isa.c"
#include "kernels/cpu/both_reals.h"

extern const td_upsample_table TD_ISA_NAME(td_upsample_table);
const td_upsample_table TD_ISA_NAME(td_upsample_table) = {
    .mix_f32 = mix_f32, .mix_f64 = mix_f64, .pick_f32 = pick_f32, .pick_f64 = pick_f64,
};

#else

static void N(mix)(int n, const T *const *rows, const T *weights, int64_t width, bool add, T *y)
{
    for (int r = 0; r < n; r += 2, add = true) {
        const T *a = rows[r], *b = rows[r + 1 < n ? r + 1 : r], v = weights[r], w = r + 1 < n ? weights[r + 1] : 0;
        if (r + 1 == n)
#pragma omp simd
            for (int64_t i = 0; i < width; i++)
                y[i] = (add ? y[i] : 0) + v * a[i];
        else
#pragma omp simd
            for (int64_t i = 0; i < width; i++)
                y[i] = (add ? y[i] : 0) + (v * a[i] + w * b[i]);
    }
}

static void N(pick)(const T *x, int taps, const int32_t *places, const T *weights, int64_t n, T *y)
{
    if (taps == 1) {        /* nearest: a copy */
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            y[i] = x[places[i]];
    } else if (taps == 2) {
        const int32_t *at = places + n;
        const T *w = weights + n;
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            y[i] = weights[i] * x[places[i]] + w[i] * x[at[i]];
    } else {
        for (int k = 0; k < taps; k++, places += n, weights += n)
#pragma omp simd
            for (int64_t i = 0; i < n; i++)
                y[i] = (k ? y[i] : 0) + weights[i] * x[places[i]];
    }
}
#endif
