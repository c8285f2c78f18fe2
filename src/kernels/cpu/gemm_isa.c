/* Products of our own, for every dtype that has them.
 *
 * Those of floats and doubles are in gemm_real.h; here are the vectors that they're made of.  Integers and complex
 * numbers go by plain loops: the compiler vectorises the innermost one. */
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
#define T      float
#define SUFFIX f32
#include "kernels/cpu/gemm_real.h"
#undef T
#undef SUFFIX
#define T      double
#define SUFFIX f64
#include "kernels/cpu/gemm_real.h"
#undef T
#undef SUFFIX

/* Integers and complex numbers by plain loops, which the compiler vectorises: where both operands lie along k, each result is
 * a dot product; where a's columns do, a vector's product is a sum of columns; else rows of c are sums of b's rows. */
#define DOTS(T, a, ma, b, mb, START, STEP, END)                                    \
    for (int64_t i = 0; i < m; i++)                                                \
        for (int64_t j = 0; j < n; j++) {                                          \
            const T *x = a + i * ma.row, *y = b + j * mb.column;                   \
            START                                                                  \
            for (int64_t p = 0; p < k; p++) {                                      \
                STEP                                                               \
            }                                                                      \
            END                                                                    \
        }
#define ROWS(name, T, S)                                                                                               \
    static void name(int64_t m, int64_t n, int64_t k, S alpha, td_matrix ma, td_matrix mb, S beta, void *mc, int64_t ldc) \
    {                                                                                                                  \
        const T *a = ma.data, *b = mb.data;                                                                            \
        T *c = mc;                                                                                                     \
        for (int64_t i = 0; i < m; i++)                                                                                \
            for (int64_t j = 0; j < n; j++)                                                                            \
                c[i * ldc + j] = beta == 0 ? 0 : (T)((T)beta * c[i * ldc + j]);                                        \
        if (ma.column == 1 && mb.row == 1) {                                                                           \
            DOTS(T, a, ma, b, mb, T sum = 0;, sum = (T)(sum + x[p] * y[p]);,                                           \
                 c[i * ldc + j] = (T)(c[i * ldc + j] + (T)alpha * sum);)                                               \
            return;                                                                                                    \
        }                                                                                                              \
        if (n == 1 && ma.row == 1 && ldc == 1) {                                                                       \
            for (int64_t p = 0; p < k; p++) {                                                                          \
                const T x = (T)((T)alpha * b[p * mb.row]), *column = a + p * ma.column;                                \
                for (int64_t i = 0; i < m; i++)                                                                        \
                    c[i] = (T)(c[i] + x * column[i]);                                                                  \
            }                                                                                                          \
            return;                                                                                                    \
        }                                                                                                              \
        for (int64_t i = 0; i < m; i++, c += ldc)                                                                      \
            for (int64_t p = 0; p < k; p++) {                                                                          \
                T x = (T)((T)alpha * a[i * ma.row + p * ma.column]);                                                   \
                const T *row = b + p * mb.row;                                                                         \
                if (mb.column == 1)                                                                                    \
                    for (int64_t j = 0; j < n; j++)                                                                    \
                        c[j] = (T)(c[j] + x * row[j]);                                                                 \
                else                                                                                                   \
                    for (int64_t j = 0; j < n; j++)                                                                    \
                        c[j] = (T)(c[j] + x * row[j * mb.column]);                                                     \
            }                                                                                                          \
    }
ROWS(integers_1, uint8_t, int64_t)
ROWS(integers_2, uint16_t, int64_t)
ROWS(integers_4, uint32_t, int64_t)
ROWS(integers_8, uint64_t, int64_t)

/* Complex products by their four real ones: Annex G's care for infinities would make these loops calls.  An alpha or beta that is
 * real has no imaginary part to make NaN of them. */
typedef struct c_f32 { float re, im; } c_f32;
typedef struct c_f64 { double re, im; } c_f64;
#define COMPLEX(name, R, C)                                                                                          \
    static void name(int64_t m, int64_t n, int64_t k, R _Complex alpha, td_matrix ma, td_matrix mb, R _Complex beta, \
                     void *mc, int64_t ldc)                                                                          \
    {                                                                                                                \
        const C *a = ma.data, *b = mb.data;                                                                          \
        C *c = mc;                                                                                                   \
        const R ar = __real__ alpha, ai = __imag__ alpha, br = __real__ beta, bi = __imag__ beta;                    \
        for (int64_t i = 0; i < m; i++)                                                                              \
            for (int64_t j = 0; j < n; j++) {                                                                        \
                const C old = c[i * ldc + j];                                                                        \
                c[i * ldc + j] = beta == 0 ? (C){0, 0} : bi == 0 ? (C){br * old.re, br * old.im}                     \
                                 : (C){br * old.re - bi * old.im, br * old.im + bi * old.re};                        \
            }                                                                                                        \
        if (ma.column == 1 && mb.row == 1) {                                                                         \
            DOTS(C, a, ma, b, mb, R re = 0; R im = 0; _Pragma("omp simd reduction(+ : re, im)"),                     \
                 re += x[p].re * y[p].re - x[p].im * y[p].im; im += x[p].re * y[p].im + x[p].im * y[p].re;,          \
                 C *to = c + i * ldc + j; to->re += ai == 0 ? ar * re : ar * re - ai * im;                           \
                 to->im += ai == 0 ? ar * im : ar * im + ai * re;)                                                   \
            return;                                                                                                  \
        }                                                                                                            \
        for (int64_t i = 0; i < m; i++, c += ldc)                                                                    \
            for (int64_t p = 0; p < k; p++) {                                                                        \
                const C at = a[i * ma.row + p * ma.column], *row = b + p * mb.row;                                   \
                const C x = ai == 0 ? (C){ar * at.re, ar * at.im}                                                    \
                                    : (C){ar * at.re - ai * at.im, ar * at.im + ai * at.re};                         \
                for (int64_t j = 0; j < n; j++) {                                                                    \
                    const C y = row[j * mb.column];                                                                  \
                    c[j].re += x.re * y.re - x.im * y.im;                                                            \
                    c[j].im += x.re * y.im + x.im * y.re;                                                            \
                }                                                                                                    \
            }                                                                                                        \
    }
/* A row of b as two of real numbers, which meet the real and the imaginary parts of a: x, and i x. */
#define EXPAND(name, R, C)                                                                                           \
    static void name(int64_t n, const void *from, int64_t step, double _Complex alpha, void *to)                     \
    {                                                                                                                \
        const C *b = from;                                                                                           \
        C *re = to, *im = re + n;                                                                                    \
        const R ar = (R)__real__ alpha, ai = (R)__imag__ alpha;                                                      \
        if (step == 1 && alpha == 1) {                                                                               \
            memcpy(re, b, (size_t)n * sizeof(C));                                                                    \
            for (int64_t j = 0; j < n; j++)                                                                          \
                im[j] = (C){-b[j].im, b[j].re};                                                                      \
            return;                                                                                                  \
        }                                                                                                            \
        for (int64_t j = 0; j < n; j++) {                                                                            \
            const C y = b[j * step], x = alpha == 1 ? y : (C){ar * y.re - ai * y.im, ar * y.im + ai * y.re};          \
            re[j] = x, im[j] = (C){-x.im, x.re};                                                                     \
        }                                                                                                            \
    }
EXPAND(expand_c64, float, c_f32)
EXPAND(expand_c128, double, c_f64)
COMPLEX(rows_c64, float, c_f32)
COMPLEX(rows_c128, double, c_f64)

extern const td_gemm_table TD_ISA_NAME(td_gemm_table);
const td_gemm_table TD_ISA_NAME(td_gemm_table) = {
    .f32 = gemm_f32, .f64 = gemm_f64, .gemv_f32 = gemv_f32, .gemv_f64 = gemv_f64,
    .pack_f32 = pack_f32, .pack_f64 = pack_f64,
    .pack_some_f32 = pack_some_f32, .pack_some_f64 = pack_some_f64,
    .packed_f32 = packed_f32, .packed_f64 = packed_f64,
    .narrow_f32 = narrow_f32, .narrow_f64 = narrow_f64,
    .bytes = VBYTES, .vectors = VECTORS, .rows = MR, .fused = FUSED,
    .integers = {integers_1, integers_2, integers_4, integers_8}, .c64 = rows_c64, .c128 = rows_c128,
    .expand_c64 = expand_c64, .expand_c128 = expand_c128,
};
