/* What products of reals are made of, at each level: how large their tiles are, and vectors that gemm_tiles.h and gemm_real.h
 * name by N(...). */
#ifndef TD_KERNELS_CPU_GEMM_VECTORS_H
#define TD_KERNELS_CPU_GEMM_VECTORS_H
#include <string.h>
#include "base/base.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/vectors.h"
#if defined(__AVX512F__) || defined(__FMA__)
#include <immintrin.h>
#endif

/* MR rows of VECTORS vectors of c are computed together: as many as the registers take.  LINES: the power of two that
 * covers the rows.  BESIDE: how many rows meet a vector at once. */
#if defined(__AVX512F__)
#define MR      8
#define VECTORS 3
#define LINES   8
#define BESIDE  4
#elif defined(__AVX2__)
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

#if defined(__AVX512F__) || defined(__FMA__)
enum { FUSED = true };
#else
enum { FUSED = false };
#endif
/* Whether parts of vectors are read and written as fast as whole ones. */
#if defined(__AVX512F__)
enum { PARTS = true };
#else
enum { PARTS = false };
#endif

INLINE vec_f32 fma_f32(vec_f32 a, vec_f32 b, vec_f32 c)
{
#if defined(__AVX512F__)
    return (vec_f32)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__FMA__)
    return (vec_f32)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#else
    return a * b + c;
#endif
}
INLINE vec_f64 fma_f64(vec_f64 a, vec_f64 b, vec_f64 c)
{
#if defined(__AVX512F__)
    return (vec_f64)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c);
#elif defined(__FMA__)
    return (vec_f64)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
#else
    return a * b + c;
#endif
}

/* The first `count` lanes of memory; the others read as 0 and aren't written. */
INLINE vec_f32 load_part_f32(const float *from, int count)
{
#if defined(__AVX512F__)
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
#if defined(__AVX512F__)
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
#if defined(__AVX512F__)
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
#if defined(__AVX512F__)
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
