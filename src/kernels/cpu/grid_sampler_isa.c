/* Sums of weighted elements of a channel, for some places side by side. */
#ifndef S
#include "kernels/cpu/nn.h"
#include "kernels/cpu/vectors.h"
#ifdef __AVX2__
#include <immintrin.h>
#endif

/* A vector of elements; 0 where the place is before the first. */
INLINE vec_f32 pick_f32(const td_place_f32 *at, const float *x)
{
#if defined(__AVX512F__)
    const __m512i i = _mm512_loadu_si512(at);
    return (vec_f32)_mm512_mask_i32gather_ps(_mm512_setzero_ps(), (__mmask16)~_mm512_movepi32_mask(i), i, x, 4);
#elif defined(__AVX2__)
    const __m256i i = _mm256_loadu_si256((const __m256i *)at);
    return (vec_f32)_mm256_mask_i32gather_ps(_mm256_setzero_ps(), x, i, (__m256)~i, 4);
#else
    vec_f32 v = {0};
    for (int k = 0; k < VBYTES / 4; k++)
        v[k] = at[k] < 0 ? 0 : x[at[k]];
    return v;
#endif
}
INLINE vec_f64 pick_f64(const td_place_f64 *at, const double *x)
{
#if defined(__AVX512F__)
    const __m512i i = _mm512_loadu_si512(at);
    return (vec_f64)_mm512_mask_i64gather_pd(_mm512_setzero_pd(), (__mmask8)~_mm512_movepi64_mask(i), i, x, 8);
#elif defined(__AVX2__)
    const __m256i i = _mm256_loadu_si256((const __m256i *)at);
    return (vec_f64)_mm256_mask_i64gather_pd(_mm256_setzero_pd(), x, i, (__m256d)~i, 8);
#else
    vec_f64 v = {0};
    for (int k = 0; k < VBYTES / 8; k++)
        v[k] = at[k] < 0 ? 0 : x[at[k]];
    return v;
#endif
}

#define TD_BODY "grid_sampler_isa.c"
#include "kernels/cpu/both_reals.h"

extern const td_blend_table TD_ISA_NAME(td_blend_table);
const td_blend_table TD_ISA_NAME(td_blend_table) = {blend_f32, blend_f64};

#else

static void N(blend)(int64_t n, int taps, const N(td_place) *at, const T *weight, const T *x, T *y)
{
    enum { LANES = VBYTES / sizeof(T) };
    for (int64_t j = 0; j < n; j += LANES) {
        N(vec) sum = {0};
        for (int t = 0; t < taps; t++)
            sum += N(pick)(at + t * TD_BLEND + j, x) * *(const N(vec) *)(weight + t * TD_BLEND + j);
        if (n - j >= LANES)
            *(N(vec) *)(y + j) = sum;
        else
            memcpy(y + j, &sum, (size_t)(n - j) * sizeof(T));
    }
}
#endif
