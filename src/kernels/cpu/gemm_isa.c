/* Products of our own: for small matrices, where calling a library costs more than the product, for vectors, for
 * integers, and for machines without OpenBLAS.
 *
 * The inner kernel holds an MR x NR block of c in registers and walks over k; each step broadcasts MR elements of a and
 * multiplies them with NR elements of b.  a is read where it lies, whatever its steps.  b must have columns side by
 * side: panels that don't are copied to a zero-padded buffer first.  Where the processor has masked loads and stores they
 * serve the last columns; elsewhere these go through buffers. */
#ifndef GEMM_BODY
#define GEMM_BODY
#include <string.h>
#include "base/base.h"
#include "kernels/cpu/gemm.h"
#if defined(__AVX512F__) || defined(__FMA__)
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
enum { VBYTES = 64, MR = 12 };
#elif defined(__AVX2__)
enum { VBYTES = 32, MR = 6 };
#else
enum { VBYTES = 16, MR = 4 };
#endif
enum { KC = 256, PANEL = 2 * VBYTES * KC };     /* steps of k per pass; bytes of a packed panel of b */

#define PASTE_(a, b) a##_##b
#define PASTE(a, b)  PASTE_(a, b)
#define N(name)      PASTE(name, SUFFIX)
#define INLINE       static inline __attribute__((always_inline))

typedef float  vec_f32 __attribute__((vector_size(VBYTES), aligned(4), may_alias));
typedef double vec_f64 __attribute__((vector_size(VBYTES), aligned(8), may_alias));

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
    memcpy(to, &v, (size_t)count * 4);
#endif
}
INLINE void store_part_f64(double *to, vec_f64 v, int count)
{
#if defined(__AVX512F__)
    _mm512_mask_storeu_pd(to, (__mmask8)((1u << count) - 1), (__m512d)v);
#else
    memcpy(to, &v, (size_t)count * 8);
#endif
}
#if defined(__AVX512F__)
enum { MASKS = 1 };
#else
enum { MASKS = 0 };
#endif
enum { WHOLE, WIDE, NARROW };    /* 2 vectors of columns; one and a part; a part of one (or all of it) */

#define T      float
#define SUFFIX f32
#include "gemm_isa.c"
#undef T
#undef SUFFIX
#define T      double
#define SUFFIX f64
#include "gemm_isa.c"
#undef T
#undef SUFFIX
#undef GEMM_BODY

/* Plain loops over rows: the compiler vectorises the innermost one where b's columns lie side by side. */
#define ROWS(name, T, S)                                                                                               \
    static void name(int64_t m, int64_t n, int64_t k, S alpha, td_matrix ma, td_matrix mb, S beta, void *mc, int64_t ldc) \
    {                                                                                                                  \
        const T *a = ma.data, *b = mb.data;                                                                            \
        for (int64_t i = 0; i < m; i++) {                                                                              \
            T *c = (T *)mc + i * ldc;                                                                                  \
            for (int64_t j = 0; j < n; j++)                                                                            \
                c[j] = beta == 0 ? 0 : (T)((T)beta * c[j]);                                                            \
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
        }                                                                                                              \
    }
ROWS(integers_1, uint8_t, int64_t)
ROWS(integers_2, uint16_t, int64_t)
ROWS(integers_4, uint32_t, int64_t)
ROWS(integers_8, uint64_t, int64_t)

/* Complex products by their four real ones: Annex G's care for infinities would make these loops calls. */
#define COMPLEX(name, R)                                                                                             \
    static void name(int64_t m, int64_t n, int64_t k, R _Complex alpha, td_matrix ma, td_matrix mb, R _Complex beta, \
                     void *mc, int64_t ldc)                                                                          \
    {                                                                                                                \
        const R *a = ma.data, *b = mb.data;                                                                          \
        const R ar = __real__ alpha, ai = __imag__ alpha, br = __real__ beta, bi = __imag__ beta;                    \
        for (int64_t i = 0; i < m; i++) {                                                                            \
            R *c = (R *)mc + 2 * i * ldc;                                                                            \
            for (int64_t j = 0; j < n; j++) {                                                                        \
                R re = c[2 * j], im = c[2 * j + 1];                                                                  \
                c[2 * j] = beta == 0 ? 0 : br * re - bi * im;                                                        \
                c[2 * j + 1] = beta == 0 ? 0 : br * im + bi * re;                                                    \
            }                                                                                                        \
            for (int64_t p = 0; p < k; p++) {                                                                        \
                const R *at = a + 2 * (i * ma.row + p * ma.column), *row = b + 2 * p * mb.row;                       \
                R xr = ar * at[0] - ai * at[1], xi = ar * at[1] + ai * at[0];                                        \
                for (int64_t j = 0; j < n; j++) {                                                                    \
                    R yr = row[2 * j * mb.column], yi = row[2 * j * mb.column + 1];                                  \
                    c[2 * j] += xr * yr - xi * yi;                                                                   \
                    c[2 * j + 1] += xr * yi + xi * yr;                                                               \
                }                                                                                                    \
            }                                                                                                        \
        }                                                                                                            \
    }
COMPLEX(rows_c64, float)
COMPLEX(rows_c128, double)

extern const td_gemm_table TD_ISA_NAME(td_gemm_table);
const td_gemm_table TD_ISA_NAME(td_gemm_table) = {
    .f32 = gemm_f32, .f64 = gemm_f64, .gemv_f32 = gemv_f32, .gemv_f64 = gemv_f64, .bias_f32 = bias_f32,
    .bias_f64 = bias_f64,
    .integers = {integers_1, integers_2, integers_4, integers_8}, .c64 = rows_c64, .c128 = rows_c128,
};

#else /* the body, for a T named SUFFIX */

#define V     N(vec)
#define LANES ((int)(VBYTES / sizeof(T)))
#define NR    (2 * LANES)

/* rows x width of c, by its shape.  b is read where it is only as far as `width`, except from a packed panel, whose
 * steps are NR. */
INLINE void N(micro)(const int rows, const int shape, int width, int64_t k, const T *a, int64_t row, int64_t column,
                     const T *b, int64_t step_b, T alpha, T beta, T *c, int64_t ldc)
{
    V acc[MR][2];
    const int part = shape == WIDE ? width - LANES : width;
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++)
        acc[i][0] = acc[i][1] = (V){0};
    /* Three rows per pointer: as far as an address can reach without arithmetic. */
    const T *at[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++)
        at[i] = a + 3 * i * row;
    for (int64_t p = 0; p < k; p++) {
        const V b0 = shape == NARROW ? N(load_part)(b, part) : *(const V *)b;
        const V b1 = shape == NARROW ? b0 : shape == WIDE ? N(load_part)(b + LANES, part) : *(const V *)(b + LANES);
#pragma GCC unroll 16
        for (int i = 0; i < rows; i++) {
            const V x = (V){0} + at[i / 3][i % 3 * row];
            acc[i][0] = N(fma)(x, b0, acc[i][0]);
            if (shape != NARROW)
                acc[i][1] = N(fma)(x, b1, acc[i][1]);
        }
        b += step_b;
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++)
            at[i] += column;
    }
    const V va = (V){0} + alpha, vb = (V){0} + beta;
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++) {
        T *to = c + i * ldc;
        V x = va * acc[i][0], y = va * acc[i][1];
        if (beta != 0) {
            x = N(fma)(vb, shape == NARROW ? N(load_part)(to, part) : *(V *)to, x);
            if (shape != NARROW)
                y = N(fma)(vb, shape == WIDE ? N(load_part)(to + LANES, part) : *(V *)(to + LANES), y);
        }
        if (shape == NARROW)
            N(store_part)(to, x, part);
        else
            *(V *)to = x;
        if (shape == WIDE)
            N(store_part)(to + LANES, y, part);
        else if (shape == WHOLE)
            *(V *)(to + LANES) = y;
    }
}

#define MICRO(r, shape)                                     \
    case r: N(micro)(r, shape, width, k, a, row, column, b, step_b, alpha, beta, c, ldc); break;
#if defined(__AVX512F__)
#define EACH(shape) MICRO(1, shape) MICRO(2, shape) MICRO(3, shape) MICRO(4, shape) MICRO(5, shape) MICRO(6, shape) \
    MICRO(7, shape) MICRO(8, shape) MICRO(9, shape) MICRO(10, shape) MICRO(11, shape) MICRO(12, shape)
#elif defined(__AVX2__)
#define EACH(shape) MICRO(1, shape) MICRO(2, shape) MICRO(3, shape) MICRO(4, shape) MICRO(5, shape) MICRO(6, shape)
#else
#define EACH(shape) MICRO(1, shape) MICRO(2, shape) MICRO(3, shape) MICRO(4, shape)
#endif
static void N(strip)(int rows, int width, int64_t k, const T *a, int64_t row, int64_t column, const T *b,
                     int64_t step_b,
                     T alpha, T beta, T *c, int64_t ldc)
{
    if (width == NR)
        switch (rows) { EACH(WHOLE) }
    else if (MASKS && width > LANES)
        switch (rows) { EACH(WIDE) }
    else if (MASKS)
        switch (rows) { EACH(NARROW) }
}
#undef MICRO
#undef EACH

/* k x width of b, to k x NR with zeros behind. */
static void N(pack)(int64_t k, int64_t width, const T *b, int64_t row, int64_t column, T *to)
{
    if (column == 1) {
        for (int64_t p = 0; p < k; p++, to += NR) {
            memcpy(to, b + p * row, (size_t)width * sizeof(T));
            memset(to + width, 0, (size_t)(NR - width) * sizeof(T));
        }
        return;
    }
    if (width < NR)
        memset(to, 0, (size_t)(k * NR) * sizeof(T));
    int64_t p = 0;
    if (row == 1)
        for (; p + 4 <= k; p += 4)      /* four steps at a time, so that a line of b is used as it comes */
            for (int64_t j = 0; j < width; j++) {
                const T *x = b + p + j * column;
                T *y = to + p * NR + j;
                y[0] = x[0], y[NR] = x[1], y[2 * NR] = x[2], y[3 * NR] = x[3];
            }
    for (; p < k; p++)
        for (int64_t j = 0; j < width; j++)
            to[p * NR + j] = b[p * row + j * column];
}

static void N(gemm)(int64_t m, int64_t n, int64_t k, T alpha, td_matrix ma, td_matrix mb, T beta, T *c, int64_t ldc)
{
    const T *a = ma.data, *b = mb.data;
    _Alignas(64) T packed[PANEL / sizeof(T)], block[MR * NR];
    int64_t p = 0;
    do {    /* once even if k is 0, to scale c */
        int64_t depth = k - p < KC ? k - p : KC;
        T scale = p ? 1 : beta;
        for (int64_t j = 0; j < n; j += NR) {
            int64_t width = n - j < NR ? n - j : NR, step = mb.row;
            const T *panel = b + p * mb.row + j * mb.column;
            if (mb.column != 1 || (!MASKS && width < NR)) {
                N(pack)(depth, width, panel, mb.row, mb.column, packed);
                panel = packed, step = NR;
            }
            for (int64_t i = 0; i < m; i += MR) {
                int rows = (int)(m - i < MR ? m - i : MR);
                T *to = c + i * ldc + j;
                const T *from = a + i * ma.row + p * ma.column;
                if (MASKS || width == NR) {
                    N(strip)(rows, (int)width, depth, from, ma.row, ma.column, panel, step, alpha, scale, to, ldc);
                    continue;
                }
                N(strip)(rows, NR, depth, from, ma.row, ma.column, panel, step, alpha, 0, block, NR);
                for (int r = 0; r < rows; r++)
                    for (int64_t x = 0; x < width; x++) {
                        T old = scale == 0 ? 0 : scale * to[r * ldc + x];
                        to[r * ldc + x] = old + block[r * NR + x];
                    }
            }
        }
        p += depth;
    } while (p < k);
}

static void N(bias)(int64_t m, int64_t n, const T *bias, T *c, int64_t ldc)
{
    for (int64_t i = 0; i < m; i++) {
        T *row = c + i * ldc;
#pragma omp simd
        for (int64_t j = 0; j < n; j++)
            row[j] += bias[j];
    }
}

static T N(dot)(int64_t n, const T *x, const T *y)
{
    V acc[4] = {{0}};
    int64_t i = 0;
    for (; i + 4 * LANES <= n; i += 4 * LANES)
        for (int r = 0; r < 4; r++)
            acc[r] = N(fma)(*(const V *)(x + i + r * LANES), *(const V *)(y + i + r * LANES), acc[r]);
    for (; i + LANES <= n; i += LANES)
        acc[0] = N(fma)(*(const V *)(x + i), *(const V *)(y + i), acc[0]);
    V sum = (acc[0] + acc[1]) + (acc[2] + acc[3]);
    T total = 0;
    for (int r = 0; r < LANES; r++)
        total += sum[r];
    for (; i < n; i++)
        total += x[i] * y[i];
    return total;
}

static void N(gemv)(int64_t m, int64_t k, T alpha, td_matrix ma, const T *x, int64_t step_x, T beta, T *y,
                    int64_t step_y)
{
    const T *a = ma.data;
    if (ma.row == 1 && step_y == 1 && m > 1) {     /* columns lie side by side: add them up, a block of y at a time */
        T sum[16 * LANES];
        for (int64_t i = 0; i < m; i += 16 * LANES) {
            int64_t width = m - i < 16 * LANES ? m - i : 16 * LANES;
            if (width == 16 * LANES) {
                V acc[16];
#pragma GCC unroll 16
                for (int r = 0; r < 16; r++)
                    acc[r] = (V){0};
                for (int64_t p = 0; p < k; p++) {
                    const V s = (V){0} + x[p * step_x];
                    const T *from = a + i + p * ma.column;
#pragma GCC unroll 16
                    for (int r = 0; r < 16; r++)
                        acc[r] = N(fma)(s, *(const V *)(from + r * LANES), acc[r]);
                }
                memcpy(sum, acc, sizeof sum);
            } else {
                memset(sum, 0, sizeof sum);
                for (int64_t p = 0; p < k; p++)
                    for (int64_t r = 0; r < width; r++)
                        sum[r] += x[p * step_x] * a[i + r + p * ma.column];
            }
            for (int64_t r = 0; r < width; r++)
                y[i + r] = beta == 0 ? alpha * sum[r] : alpha * sum[r] + beta * y[i + r];
        }
        return;
    }
    for (int64_t i = 0; i < m; i++) {
        const T *row = a + i * ma.row;
        T total = 0;
        if (ma.column == 1 && step_x == 1)
            total = N(dot)(k, row, x);
        else
            for (int64_t p = 0; p < k; p++)
                total += row[p * ma.column] * x[p * step_x];
        T *to = y + i * step_y;
        *to = beta == 0 ? alpha * total : alpha * total + beta * *to;
    }
}
#undef V
#undef LANES
#undef NR
#endif
