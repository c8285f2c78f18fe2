/* Interpolation: rows mixed, and positions picked from a row (upsample.c, upsample.h).
 *
 * Sums are made tap after tap in one order, for vectors and for what is left of a row. */
#ifndef S
#include "base/simd.h"
#include "kernels/cpu/nn/upsample.h"

enum { BYTES = VBYTES, NEAR = BYTES > 16 ? BYTES : 0 };     /* nothing permutes two vectors of 16 */
typedef int32_t place_f32;          /* as wide as the number */
typedef int64_t place_f64;

#define TD_BODY "kernels/cpu/nn/upsample_isa.c"
#include "kernels/cpu/isa/both_reals.h"

extern const td_upsample_table TD_ISA_NAME(td_upsample_table);
const td_upsample_table TD_ISA_NAME(td_upsample_table) = {
    .mix_f32 = mix_f32, .mix_f64 = mix_f64, .pick_f32 = pick_f32, .pick_f64 = pick_f64,
    .near_f32 = near_f32, .near_f64 = near_f64, .bytes = NEAR,
};

#else

/* Two rows at a time, which halves how often y is read and written. */
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

/* Gathers, where the processor has them. */
static void N(pick)(const T *x, int64_t taps, const int32_t *places, const T *weights, int64_t step, int64_t n,
                    T *y)
{
    if (taps == 1) {        /* nearest: a copy */
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            y[i] = x[places[i]];
    } else if (taps == 2) {
        const int32_t *at = places + step;
        const T *w = weights + step;
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            y[i] = weights[i] * x[places[i]] + w[i] * x[at[i]];
    } else {
        for (int64_t k = 0; k < taps; k++, places += step, weights += step)
#pragma omp simd
            for (int64_t i = 0; i < n; i++)
                y[i] = (k ? y[i] : 0) + weights[i] * x[places[i]];
    }
}

/* All positions of a vector lie in the two vectors from its base on, so one permutation of two registers takes the place of a gather.
 * The last vector is stored whole if there is room behind the row: the next row writes there again. */
static void N(near)(const T *x, int64_t taps, const int32_t *bases, const int32_t *places, const T *weights, int64_t step,
                    int64_t n, int64_t room, T *y)
{
    enum { LANES = BYTES / sizeof(T) };
    typedef T V __attribute__((vector_size(BYTES), aligned(sizeof(T)), may_alias));
    typedef N(place) I __attribute__((vector_size(BYTES)));
    typedef int32_t P __attribute__((vector_size(LANES * 4), aligned(4), may_alias));
    for (int64_t i = 0; i < n; i += LANES, places += LANES, weights += LANES, y += LANES) {
        const T *from = x + *bases++;
        const V a = *(const V *)from, b = *(const V *)(from + LANES);
        V sum = TD_SHUFFLE(a, b, __builtin_convertvector(*(const P *)places, I));
        if (taps > 1)
            sum *= *(const V *)weights;
        for (int64_t k = 1; k < taps; k++) {
            const I at = __builtin_convertvector(*(const P *)(places + k * step), I);
            sum += *(const V *)(weights + k * step) * TD_SHUFFLE(a, b, at);
        }
        if (room - i >= LANES)
            *(V *)y = sum;
        else
            memcpy(y, &sum, (size_t)(n - i) * sizeof(T));
    }
}
#endif
