/* Products of our own, for every dtype that has them.
 *
 * Those of floats and doubles are in gemm_tiles.h and gemm_real.h.  Integers and complex numbers go by plain loops: the
 * compiler vectorises the innermost one. */
#include "kernels/cpu/gemm_vectors.h"

#define T      float
#define SUFFIX f32
#include "kernels/cpu/gemm_tiles.h"
#include "kernels/cpu/gemm_real.h"
#undef T
#undef SUFFIX
#define T      double
#define SUFFIX f64
#include "kernels/cpu/gemm_tiles.h"
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
        for (int64_t i = 0; i < m; i++, c += ldc) {                                                                    \
            const T *row = a + i * ma.row;                                                                             \
            int64_t p = 0;                                                                                             \
            /* Four rows of b at a time, so that c is read and written for a fourth of the products. */                \
            for (; mb.column == 1 && p + 4 <= k; p += 4) {                                                             \
                const T x0 = (T)((T)alpha * row[p * ma.column]), x1 = (T)((T)alpha * row[(p + 1) * ma.column]);        \
                const T x2 = (T)((T)alpha * row[(p + 2) * ma.column]), x3 = (T)((T)alpha * row[(p + 3) * ma.column]);  \
                const T *b0 = b + p * mb.row, *b1 = b0 + mb.row, *b2 = b1 + mb.row, *b3 = b2 + mb.row;                 \
                for (int64_t j = 0; j < n; j++)                                                                        \
                    c[j] = (T)(c[j] + x0 * b0[j] + x1 * b1[j] + x2 * b2[j] + x3 * b3[j]);                              \
            }                                                                                                          \
            for (; p < k; p++) {                                                                                       \
                const T x = (T)((T)alpha * row[p * ma.column]), *from = b + p * mb.row;                                \
                for (int64_t j = 0; j < n; j++)                                                                        \
                    c[j] = (T)(c[j] + x * from[j * mb.column]);                                                        \
            }                                                                                                          \
        }                                                                                                              \
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
