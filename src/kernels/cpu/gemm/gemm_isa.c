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

/* As many bfloat16 as a vector has floats, whose upper halves they are. */
enum { BRAINS = VBYTES / 4 };
INLINE vec_f32 floats_of_brains(const uint16_t *from)
{
#if defined(TD_AVX512)
    return (vec_f32)_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)from)), 16);
#elif defined(TD_AVX2)
    return (vec_f32)_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)from)), 16);
#else
    typedef uint32_t bits __attribute__((vector_size(VBYTES)));
    bits all = {0};
    for (int i = 0; i < BRAINS; i++)
        all[i] = (uint32_t)from[i] << 16;
    return (vec_f32)all;
#endif
}

/* As real.h's dots, whose order of additions this is. */
INLINE void dots_bf16(const int rows, int64_t n, const uint16_t *a, int64_t row, const float *x, float *to)
{
    vec_f32 sum[BESIDE][4] = {0};
    int64_t p = 0;
    for (; p + 4 * BRAINS <= n; p += 4 * BRAINS)
#pragma GCC unroll 4
        for (int i = 0; i < rows; i++) {
#pragma GCC unroll 2
            for (int line = 0; line < 4 * BRAINS; line += 32)
                __builtin_prefetch(a + (i + rows) * row + p + line, 0, 2);
#pragma GCC unroll 4
            for (int r = 0; r < 4; r++)
                add_product_f32(&sum[i][r], floats_of_brains(a + i * row + p + r * BRAINS), *(const vec_f32 *)(x + p + r * BRAINS));
        }
    for (; p < n; p += BRAINS) {
        const int count = n - p < BRAINS ? (int)(n - p) : BRAINS;
#pragma GCC unroll 4
        for (int i = 0; i < rows; i++) {
            float part[BRAINS] = {0};
            for (int l = 0; l < count; l++)
                part[l] = td_bits_f32((uint32_t)a[i * row + p + l] << 16);
            add_product_f32(&sum[i][0], *(const vec_f32 *)part, load_part_f32(x + p, count));
        }
    }
    vec_f32 all[4] = {{0}};
#pragma GCC unroll 4
    for (int i = 0; i < rows; i++)
        all[i] = (sum[i][0] + sum[i][1]) + (sum[i][2] + sum[i][3]);
    totals_f32(all[0], all[1], all[2], all[3], to);
}

static void gemv_bf16(int64_t m, int64_t k, float alpha, const uint16_t *a, int64_t row, const float *x, float beta, float *y)
{
    for (int64_t i = 0, some; i < m; i += some) {
        float totals[4];
        some = m - i >= BESIDE ? BESIDE : 1;
        if (some == BESIDE)
            dots_bf16(BESIDE, k, a + i * row, row, x, totals);
        else
            dots_bf16(1, k, a + i * row, 0, x, totals);
        for (int64_t r = 0; r < some; r++)
            y[i + r] = beta == 0 ? alpha * totals[r] : alpha * totals[r] + beta * y[i + r];
    }
}

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
    .f32 = gemm_f32, .f64 = gemm_f64, .gemv_f32 = gemv_f32, .gemv_f64 = gemv_f64, .gemv_bf16 = gemv_bf16,
    .pack_f32 = pack_f32, .pack_f64 = pack_f64,
    .pack_some_f32 = pack_some_f32, .pack_some_f64 = pack_some_f64,
    .packed_f32 = packed_f32, .packed_f64 = packed_f64,
    .narrow_f32 = narrow_f32, .narrow_f64 = narrow_f64,
    .bytes = VBYTES, .vectors = VECTORS, .rows = MR, .fused = FUSED,
    .integers = {integers_1, integers_2, integers_4, integers_8}, .c64 = rows_c64, .c128 = rows_c128,
    .expand_c64 = expand_c64, .expand_c128 = expand_c128,
};
