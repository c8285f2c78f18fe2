/* What products of reals are made of, at each level: how large their tiles are, and vectors that tiles.h and real.h
 * name by N(...). */
#ifndef TD_KERNELS_CPU_GEMM_TILE_VECTORS_H
#define TD_KERNELS_CPU_GEMM_TILE_VECTORS_H
#include <string.h>
#include "base/base.h"
#define TD_SIMD_INTRINSICS
#include "base/simd.h"
#include "kernels/cpu/gemm/gemm.h"
#include "kernels/cpu/isa/vectors.h"

/* MR rows of VECTORS vectors of c are computed together: as many as the registers take.
 *
 *     AVX-512     8 x 3 = 24 sums, 3 vectors of b and a broadcast: 28 of 32 registers
 *     AVX2        6 x 2 = 12 sums, 2 and 1: 15 of 16
 *     others      4 x 2 =  8 sums, 2 and 1: 11 of 16 (SSE2; without FMA a product needs one more)
 *
 * Two multiply-adds a cycle with a latency of four need at least eight sums that don't wait for each other; all have them.
 * LINES: the power of two that covers the rows.  BESIDE: how many rows of a matrix meet a vector at once in gemv, with four
 * sums each. */
#if VBYTES == 64
#define MR      8
#define VECTORS 3
#define LINES   8
#define BESIDE  4
#elif VBYTES == 32
#define MR      6
#define VECTORS 2
#define LINES   8
#define BESIDE  2
#else
#define MR      4
#define VECTORS 2
#define LINES   4
#define BESIDE  2
#endif

/* How the inner kernel meets a: anyhow, with k's steps side by side, or packed. */
enum { STRIDED, ALONG, PACKED };

#define PASTE_(a, b) a##_##b
#define PASTE(a, b)  PASTE_(a, b)
#define N(name)      PASTE(name, SUFFIX)
#define NOINLINE     __attribute__((noinline))

#ifdef TD_FUSED
enum { FUSED = true };
#else
enum { FUSED = false };
#endif
/* Whether parts of vectors are read and written as fast as whole ones. */
#if defined(TD_AVX512)
enum { PARTS = true };
#else
enum { PARTS = false };
#endif

/* a b + c, rounded once where the level has it; elsewhere in two steps. */
INLINE vec_f32 fma_f32(vec_f32 a, vec_f32 b, vec_f32 c)
{
#if defined(TD_AVX512)
    return (vec_f32)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(TD_AVX2)
    return (vec_f32)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#elif defined(TD_ADD_PRODUCT)
    add_product_f32(&c, a, b);
    return c;
#else
    return a * b + c;
#endif
}
INLINE vec_f64 fma_f64(vec_f64 a, vec_f64 b, vec_f64 c)
{
#if defined(TD_AVX512)
    return (vec_f64)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c);
#elif defined(TD_AVX2)
    return (vec_f64)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
#elif defined(TD_ADD_PRODUCT)
    add_product_f64(&c, a, b);
    return c;
#else
    return a * b + c;
#endif
}

/* The first `count` lanes of memory; the others read as 0 and aren't written. */
INLINE vec_f32 load_part_f32(const float *from, int count)
{
#if defined(TD_AVX512)
    return (vec_f32)_mm512_maskz_loadu_ps((__mmask16)((1u << count) - 1), from);
#else
    if (count == VBYTES / 4)
        return *(const vec_f32 *)from;
    vec_f32 v = {0};
    memcpy(&v, from, (size_t)count * 4);
    return v;
#endif
}
INLINE vec_f64 load_part_f64(const double *from, int count)
{
#if defined(TD_AVX512)
    return (vec_f64)_mm512_maskz_loadu_pd((__mmask8)((1u << count) - 1), from);
#else
    if (count == VBYTES / 8)
        return *(const vec_f64 *)from;
    vec_f64 v = {0};
    memcpy(&v, from, (size_t)count * 8);
    return v;
#endif
}
INLINE void store_part_f32(float *to, vec_f32 v, int count)
{
#if defined(TD_AVX512)
    _mm512_mask_storeu_ps(to, (__mmask16)((1u << count) - 1), (__m512)v);
#else
    if (count == VBYTES / 4)
        *(vec_f32 *)to = v;
    else
        memcpy(to, &v, (size_t)count * 4);
#endif
}
INLINE void store_part_f64(double *to, vec_f64 v, int count)
{
#if defined(TD_AVX512)
    _mm512_mask_storeu_pd(to, (__mmask8)((1u << count) - 1), (__m512d)v);
#else
    if (count == VBYTES / 8)
        *(vec_f64 *)to = v;
    else
        memcpy(to, &v, (size_t)count * 8);
#endif
}

/* One number in all lanes. */
INLINE vec_f32 spread_f32(const float *from) { return *from - (vec_f32){0}; }       /* minus 0: what changes nothing */
INLINE vec_f64 spread_f64(const double *from) { return *from - (vec_f64){0}; }

#endif
