/* Exponentials of a row less a number, and their sum: what softmax, logsumexp, cross entropy and attention do with each row.
 *
 * The number is the row's maximum, or a logsumexp, so no exponential overflows; sums are of the row's own type. */
#ifndef TD_KERNELS_CPU_MATH_EXP_RUN_H
#define TD_KERNELS_CPU_MATH_EXP_RUN_H
#include "kernels/cpu/isa/vectors.h"
#include "kernels/cpu/math/maths.h"
#include "kernels/cpu/math/maths_wide.h"
#include <string.h>

/* y[i] = exp(x[i] - shift) for i below n, unless y is NULL; y may be x.  Where TD_EXP_FETCHES says so, what lies `ahead` bytes
 * further on is fetched meanwhile, a line at a time: memory would be idle. */
#ifdef TD_AVX512
#define TD_EXP_FETCHES(T) (sizeof(T) == 4)
TD_MATHS float td_exp_less_ahead_f32(const float *x, float shift, float *y, int64_t n, int64_t ahead)
{
    const __m512 less = _mm512_set1_ps(shift);
    __m512 sum = _mm512_setzero_ps();
    int64_t i = 0;
    for (; i + 16 <= n; i += 16) {
        if (ahead)
            __builtin_prefetch((const char *)(x + i) + ahead);
        const __m512 e = td_wide_exp(_mm512_sub_ps(_mm512_loadu_ps(x + i), less));
        if (y)
            _mm512_storeu_ps(y + i, e);
        sum = _mm512_add_ps(sum, e);
    }
    if (i < n) {
        const __mmask16 rest = (__mmask16)((1u << (n - i)) - 1);
        const __m512 e = td_wide_exp(_mm512_sub_ps(_mm512_maskz_loadu_ps(rest, x + i), less));
        if (y)
            _mm512_mask_storeu_ps(y + i, rest, e);
        sum = _mm512_mask_add_ps(sum, rest, sum, e);
    }
    return _mm512_reduce_add_ps(sum);
}
/* A vector's lanes of `rows` rows, `step` numbers apart, at once: each lane has its shift and its sum.  No sum across lanes is needed, and
 * a column gets the same bits whatever its neighbours are. */
TD_MATHS void td_exp_columns_f32(float *x, int64_t step, int64_t rows, const float *shift, float *sums)
{
    const __m512 less = _mm512_loadu_ps(shift);
    __m512 sum = _mm512_setzero_ps();
    for (int64_t i = 0; i < rows; i++, x += step) {
        const __m512 e = td_wide_exp(_mm512_sub_ps(_mm512_loadu_ps(x), less));
        _mm512_storeu_ps(x, e);
        sum = _mm512_add_ps(sum, e);
    }
    _mm512_storeu_ps(sums, sum);
}
#define TD_EXP_LESS(T, S)
#else
#define TD_EXP_FETCHES(T) false
#define TD_EXP_LESS TD_EXP_LESS_PLAIN
#endif
#define TD_EXP_LESS_PLAIN(T, S) \
    TD_MATHS T td_exp_less_ahead_##S(const T *x, T shift, T *y, int64_t n, int64_t ahead) \
    { \
        T sum = 0; \
        (void)ahead; \
        _Pragma("omp simd reduction(+ : sum)") \
        for (int64_t i = 0; i < n; i++) { \
            const T e = td_exp_##S(x[i] - shift); \
            if (y) \
                y[i] = e; \
            sum += e; \
        } \
        return sum; \
    }
TD_EXP_LESS(float, f32)
TD_EXP_LESS_PLAIN(double, f64)
TD_MATHS float td_exp_less_f32(const float *x, float shift, float *y, int64_t n) { return td_exp_less_ahead_f32(x, shift, y, n, 0); }
TD_MATHS double td_exp_less_f64(const double *x, double shift, double *y, int64_t n) { return td_exp_less_ahead_f64(x, shift, y, n, 0); }
#undef TD_EXP_LESS
#undef TD_EXP_LESS_PLAIN

#define TD_EXP_COLUMNS(T, S) \
    TD_MATHS void td_exp_columns_##S(T *x, int64_t step, int64_t rows, const T *shift, T *sums) \
    { \
        enum { LANES = VBYTES / sizeof(T) }; \
        T less[LANES], sum[LANES] = {0}; \
        memcpy(less, shift, sizeof less); \
        for (int64_t i = 0; i < rows; i++, x += step) \
            _Pragma("omp simd") \
            for (int l = 0; l < LANES; l++) \
                x[l] = td_exp_##S(x[l] - less[l]), sum[l] += x[l]; \
        memcpy(sums, sum, sizeof sum); \
    }
#ifndef TD_AVX512
TD_EXP_COLUMNS(float, f32)
#endif
TD_EXP_COLUMNS(double, f64)
#undef TD_EXP_COLUMNS

#endif
