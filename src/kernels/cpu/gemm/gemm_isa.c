/* Matrix products (GEMM) and products of a matrix and a vector, for every dtype; compiled once per instruction-set level.
 *
 * Those of floats and doubles are in tiles.h and real.h, of integers in integers.h.  Complex numbers go by plain
 * loops: the compiler vectorises the innermost one. */
#include "kernels/cpu/gemm/tile_vectors.h"

#define T      float
#define SUFFIX f32
#include "kernels/cpu/gemm/tiles.h"
#include "kernels/cpu/gemm/real.h"
#undef T
#undef SUFFIX
#define T      double
#define SUFFIX f64
#include "kernels/cpu/gemm/tiles.h"
#include "kernels/cpu/gemm/real.h"
#undef T
#undef SUFFIX

/* Small products of integers and those of complex numbers by plain loops, which the compiler vectorises: where both operands lie
 * along k, each result is a dot product; where a's columns do, a vector's product is a sum of columns; else rows of c are sums
 * of b's rows. */
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
#include "kernels/cpu/gemm/integers.h"

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
