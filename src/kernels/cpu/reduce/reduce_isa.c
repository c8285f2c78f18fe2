/* The leaves of reductions, see reduce.h.
 *
 * Runs are folded with four vectors of 64 bytes in blocks of BLOCK elements, whose results are folded in double
 * precision: the error grows with the block, not with the run.  Columns are folded in T for ROWS rows at a time, then
 * likewise.  The 64 bytes are as many of the machine's vectors as they take, so all levels give the same bits. */
#include "base/base.h"
#include "kernels/cpu/math/exp_run.h"
#include "kernels/cpu/reduce/reduce.h"
#include "kernels/cpu/isa/extremes.h"

#define PARTS (64 / VBYTES)
/* For each of the machine's vectors in so many of 64 bytes. */
#define EACH_PART(vectors, k) _Pragma("GCC unroll 16") for (int64_t k = 0; k < (vectors) * PARTS; k++)

/* Elements of a run, rows of a column, that are folded in their own type: 4096 floats over 64 lanes are 64 additions deep, as are 64
 * rows. */
enum { BLOCK = 4096, ROWS = 64 };
enum { AHEAD = 12288 };         /* bytes: what the next rows begin with isn't foreseen by the processor */

#define INF __builtin_inf()
#define NAME(op) TD_ISA_PASTE(op, SUFFIX)

static inline double merge_sum(double a, double b)  { return a + b; }
static inline double merge_prod(double a, double b) { return a * b; }
/* NaN wins: a NaN accumulator compares false with everything. */
static inline double merge_max(double a, double b)  { return ((b > a) | (b != b)) ? b : a; }
static inline double merge_min(double a, double b)  { return ((b < a) | (b != b)) ? b : a; }

/* The merges once more for four doubles, where four runs end together. */
#define FOUR __builtin_shufflevector
#define four_merge_sum(a, b)  ((a) + (b))
#define four_merge_prod(a, b) ((a) * (b))
#define four_merge_max        max_four
#define four_merge_min        min_four

/* The conversion is spelled out: GCC makes two of it. */
INLINE void four_from_f32(four_f64 *to, const float *x)
{
#if VBYTES > 16
    *to = _mm256_cvtps_pd(_mm_loadu_ps(x));
#else
    for (int i = 0; i < 4; i++)
        (*to)[i] = x[i];
#endif
}
INLINE void four_from_f64(four_f64 *to, const double *x) { *to = *(const four_f64 *)x; }

/* Two maxima and sums of exponentials below them: sums are brought below the larger maximum.  Where that is infinite or NaN it is
 * the result itself, so the sum is 1, whose logarithm is 0; or 0 where all was -inf. */
static double merge_lse(double *m, double s, double m2, double s2)
{
    double top = merge_max(*m, m2), low = s, high = s2;
    if (top == -INF || top == INF || top != top) {
        *m = top;
        return top == -INF ? 0 : 1;
    }
    if (*m == -INF) {
        *m = top;
        return s2;
    }
    low *= td_exp_f64(*m - top), high *= td_exp_f64(m2 - top);
    *m = top;
    return low + high;
}

/* ---- floating types */
#define T float
#define I int32_t
#define SUFFIX f32
#define EXP td_exp_f32
#define POW td_pow_f32
#include "kernels/cpu/reduce/leaves.h"
#undef T
#undef I
#undef SUFFIX
#undef EXP
#undef POW

#define T double
#define I int64_t
#define SUFFIX f64
#define EXP td_exp_f64
#define POW td_pow_f64
#include "kernels/cpu/reduce/leaves.h"

/* ---- integers: exact in any order, so the compiler may choose one */

/* How an element enters, and how two accumulators become one. */
static inline int64_t sum_i(int64_t a, int64_t b)  { return a + b; }
static inline int64_t prod_i(int64_t a, int64_t b) { return a * b; }
static inline int64_t max_i(int64_t a, int64_t b)  { return b > a ? b : a; }
static inline int64_t min_i(int64_t a, int64_t b)  { return b < a ? b : a; }
static inline int64_t count_i(int64_t a, int64_t b) { return a + (b != 0); }

/* Eight accumulators, so that no step waits for the one before.  Sums and products wrap, as PyTorch's do. */
#define INTEGER(op, X, start, step, join)                                                                           \
    static void op##_init(td_word *acc, int64_t cols)                                                               \
    {                                                                                                               \
        for (int64_t i = 0; i < cols; i++)                                                                          \
            acc[i].i = start;                                                                                       \
    }                                                                                                               \
    static void op##_merge(td_word *acc, const td_word *other, int64_t cols)                                        \
    {                                                                                                               \
        for (int64_t i = 0; i < cols; i++)                                                                          \
            acc[i].i = join(acc[i].i, other[i].i);                                                                  \
    }                                                                                                               \
    static void op##_run(td_word *acc, const void *from, int64_t n, int64_t base, double p)                         \
    {                                                                                                               \
        (void)base, (void)p;                                                                                        \
        const X *x = from;                                                                                          \
        int64_t lane[8];                                                                                            \
        for (int k = 0; k < 8; k++)                                                                                 \
            lane[k] = start;                                                                                        \
        int64_t i = 0;                                                                                              \
        for (; i + 8 <= n; i += 8)                                                                                  \
            for (int k = 0; k < 8; k++)                                                                             \
                lane[k] = step(lane[k], x[i + k]);                                                                  \
        int64_t a = acc->i;                                                                                         \
        for (; i < n; i++)                                                                                          \
            a = step(a, x[i]);                                                                                      \
        for (int k = 0; k < 8; k++)                                                                                 \
            a = join(a, lane[k]);                                                                                   \
        acc->i = a;                                                                                                 \
    }                                                                                                               \
    static void op##_rows(td_word *acc, int64_t cols, const void *from, int64_t rows, int64_t stride, int64_t base, \
                          double p)                                                                                 \
    {                                                                                                               \
        (void)base, (void)p;                                                                                        \
        int64_t *a = &acc->i;                                                                                       \
        for (int64_t r = 0; r < rows; r++) {                                                                        \
            const X *x = (const X *)from + r * stride;                                                              \
            for (int64_t i = 0; i < cols; i++)                                                                      \
                a[i] = step(a[i], x[i]);                                                                            \
        }                                                                                                           \
    }

INTEGER(sum_i64, int64_t, 0, sum_i, sum_i)
INTEGER(prod_i64, int64_t, 1, prod_i, prod_i)
INTEGER(count_i64, int64_t, 0, count_i, sum_i)

/* Bytes are counted in bytes, 255 vectors at a time. */
static void count_u8_run(td_word *acc, const void *from, int64_t n, int64_t base, double p)
{
    (void)base, (void)p;
    const uint8_t *x = from;
    int64_t i = 0, total = 0;
    while (i + 64 <= n) {
        uint8_t lane[64] = {0};
        for (int turn = 0; turn < 255 && i + 64 <= n; turn++, i += 64)
            for (int k = 0; k < 64; k++)
                lane[k] = (uint8_t)(lane[k] + (x[i + k] != 0));
        for (int k = 0; k < 64; k++)
            total += lane[k];
    }
    for (; i < n; i++)
        total += x[i] != 0;
    acc->i += total;
}
/* The same for columns, 255 rows at a time. */
static void count_u8_rows(td_word *acc, int64_t cols, const void *from, int64_t rows, int64_t stride, int64_t base, double p)
{
    (void)base, (void)p;
    uint8_t tile[TD_RED_TILE];
    for (int64_t r = 0; r < rows; r += 255) {
        int64_t m = rows - r < 255 ? rows - r : 255;
        memset(tile, 0, (size_t)cols);
        for (int64_t k = 0; k < m; k++) {
            const uint8_t *x = (const uint8_t *)from + (r + k) * stride;
            for (int64_t i = 0; i < cols; i++)
                tile[i] = (uint8_t)(tile[i] + (x[i] != 0));
        }
        for (int64_t i = 0; i < cols; i++)
            acc[i].i += tile[i];
    }
}

/* The largest (smallest) one of a type, as wide as it is, until it goes into the accumulator. */
#define EXTREME_START(op, start, join)                                                                                \
    static void op##_init(td_word *acc, int64_t cols)                                                                 \
    {                                                                                                                 \
        for (int64_t i = 0; i < cols; i++)                                                                            \
            acc[i].i = start;                                                                                         \
    }                                                                                                                 \
    static void op##_merge(td_word *acc, const td_word *other, int64_t cols)                                          \
    {                                                                                                                 \
        for (int64_t i = 0; i < cols; i++)                                                                            \
            acc[i].i = join(acc[i].i, other[i].i);                                                                    \
    }
EXTREME_START(max, INT64_MIN, max_i)
EXTREME_START(min, INT64_MAX, min_i)

/* Loops in X, of which a vector mostly holds more than of int64. */
#define EXTREME(op, S, X, join, better)                                                                               \
    static inline X op##_of_##S(const X *x, int64_t n)                                                                \
    {                                                                                                                 \
        X a = x[0];                                                                                                   \
        for (int64_t i = 1; i < n; i++)                                                                               \
            a = x[i] better a ? x[i] : a;                                                                             \
        return a;                                                                                                     \
    }                                                                                                                 \
    static void op##_run_##S(td_word *acc, const void *x, int64_t n, int64_t base, double p)                          \
    {                                                                                                                 \
        (void)base, (void)p;                                                                                          \
        if (n > 0)                                                                                                    \
            acc->i = join(acc->i, op##_of_##S(x, n));                                                                 \
    }                                                                                                                 \
    static void op##_rows_##S(td_word *acc, int64_t cols, const void *from, int64_t rows, int64_t stride,             \
                              int64_t base, double p)                                                                 \
    {                                                                                                                 \
        (void)base, (void)p;                                                                                          \
        X tile[TD_RED_TILE];                                                                                          \
        memcpy(tile, from, rows > 0 ? (size_t)cols * sizeof(X) : 0);                                                  \
        for (int64_t r = 1; r < rows; r++) {                                                                          \
            const X *x = (const X *)from + r * stride;                                                                \
            for (int64_t i = 0; i < cols; i++)                                                                        \
                tile[i] = x[i] better tile[i] ? x[i] : tile[i];                                                       \
        }                                                                                                             \
        for (int64_t i = 0; i < cols && rows > 0; i++)                                                                \
            acc[i].i = join(acc[i].i, tile[i]);                                                                       \
    }
#define EXTREMES(S, X) EXTREME(max, S, X, max_i, >) EXTREME(min, S, X, min_i, <)
EXTREMES(u8, uint8_t)
EXTREMES(i8, int8_t)
EXTREMES(i16, int16_t)
EXTREMES(i32, int32_t)
EXTREMES(i64, int64_t)

/* Where it is: the first of several. */
#define PLACE_START(op, start, better)                                                                                \
    static void arg##op##_init(td_word *acc, int64_t cols)                                                            \
    {                                                                                                                 \
        for (int64_t i = 0; i < cols; i++)                                                                            \
            acc[i].i = start, acc[cols + i].i = -1;                                                                   \
    }                                                                                                                 \
    static void arg##op##_merge(td_word *acc, const td_word *other, int64_t cols)                                     \
    {                                                                                                                 \
        for (int64_t i = 0; i < cols; i++)                                                                            \
            if (other[cols + i].i >= 0 && (acc[cols + i].i < 0 || other[i].i better acc[i].i))                        \
                acc[i] = other[i], acc[cols + i] = other[cols + i];                                                   \
    }
PLACE_START(max, INT64_MIN, >)
PLACE_START(min, INT64_MAX, <)

/* As ARG in leaves.h; a position within 1024 rows fits all types that have this. */
#define PLACE(op, S, X, better)                                                                                       \
    static void arg##op##_run_##S(td_word *acc, const void *from, int64_t n, int64_t base, double p)                  \
    {                                                                                                                 \
        (void)p;                                                                                                      \
        for (int64_t i = 0; i < n; i += 1024) {                                                                       \
            const X *x = (const X *)from + i, top = op##_of_##S(x, n - i < 1024 ? n - i : 1024);                      \
            if (acc[1].i >= 0 && !(top better acc[0].i))                                                              \
                continue;                                                                                             \
            int64_t k = 0;                                                                                            \
            while (x[k] != top)                                                                                       \
                k++;                                                                                                  \
            acc[0].i = top, acc[1].i = base + i + k;                                                                  \
        }                                                                                                             \
    }                                                                                                                 \
    static void arg##op##_rows_##S(td_word *acc, int64_t cols, const void *from, int64_t rows, int64_t stride,        \
                                   int64_t base, double p)                                                            \
    {                                                                                                                 \
        (void)p;                                                                                                      \
        X value[TD_RED_TILE], at[TD_RED_TILE];                                                                        \
        for (int64_t r = 0; r < rows; r += 1024) {                                                                    \
            const int64_t m = rows - r < 1024 ? rows - r : 1024;                                                      \
            const X *x = (const X *)from + r * stride;                                                                \
            for (int64_t i = 0; i < cols; i++)                                                                        \
                value[i] = x[i], at[i] = 0;                                                                           \
            for (int64_t k = 1; k < m; k++) {                                                                         \
                x += stride;                                                                                          \
                for (int64_t i = 0; i < cols; i++) {                                                                  \
                    const bool take = x[i] better value[i];                                                           \
                    value[i] = take ? x[i] : value[i], at[i] = take ? (X)k : at[i];                                   \
                }                                                                                                     \
            }                                                                                                         \
            for (int64_t i = 0; i < cols; i++)                                                                        \
                if (acc[cols + i].i < 0 || value[i] better acc[i].i)                                                  \
                    acc[i].i = value[i], acc[cols + i].i = base + r + at[i];                                          \
        }                                                                                                             \
    }
#define PLACES(S, X) PLACE(max, S, X, >) PLACE(min, S, X, <)
PLACES(i32, int32_t)
PLACES(i64, int64_t)

/* What finish() in operators.c needs of whole rows, here since this file is compiled for each level. */
static void roots(double *x, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        x[i] = __builtin_sqrt(x[i]);
}
static void logs(double *x, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        x[i] = td_log_f64(x[i]);
}

/* Rows of the table.  Short runs are taken together from 64 bytes on, a whole vector of accumulators. */
#define LEAF(words, op) {words, op##_init, op##_run, op##_rows, op##_merge, NULL, 0}
#define FLOAT(words, op, S, runs, shortest) {words, op##_init_##S, op##_run_##S, op##_rows_##S, op##_merge_##S, runs, shortest}
#define FLOATS(words, op) [TD_RED_F32] = FLOAT(words, op, f32, NULL, 0), [TD_RED_F64] = FLOAT(words, op, f64, NULL, 0)
#define RUNS(words, op)                                                                                               \
    [TD_RED_F32] = FLOAT(words, op, f32, op##_runs_f32, 16), [TD_RED_F64] = FLOAT(words, op, f64, op##_runs_f64, 8)
#define TYPED(words, op, S) {words, op##_init, op##_run_##S, op##_rows_##S, op##_merge, NULL, 0}
#define INTEGERS(words, op) [TD_RED_I32] = TYPED(words, op, i32), [TD_RED_I64] = TYPED(words, op, i64)
#define NARROW(op)          [TD_RED_U8] = TYPED(1, op, u8), [TD_RED_I8] = TYPED(1, op, i8), [TD_RED_I16] = TYPED(1, op, i16)
extern const td_leaf_table TD_ISA_NAME(td_reduce_table);
const td_leaf_table TD_ISA_NAME(td_reduce_table) = {
    .roots = roots, .logs = logs,
    .leaves = {
        [TD_RED_SUM]     = {RUNS(1, sum), [TD_RED_I64] = LEAF(1, sum_i64)},
        [TD_RED_PROD]    = {RUNS(1, prod), [TD_RED_I64] = LEAF(1, prod_i64)},
        [TD_RED_MAX]     = {RUNS(1, max), NARROW(max), INTEGERS(1, max)},
        [TD_RED_MIN]     = {RUNS(1, min), NARROW(min), INTEGERS(1, min)},
        [TD_RED_COUNT]   = {FLOATS(1, count), [TD_RED_I64] = LEAF(1, count_i64),
                            [TD_RED_U8] = {1, count_i64_init, count_u8_run, count_u8_rows, count_i64_merge, NULL, 0}},
        [TD_RED_ARGMAX]  = {FLOATS(2, argmax), INTEGERS(2, argmax)},
        [TD_RED_ARGMIN]  = {FLOATS(2, argmin), INTEGERS(2, argmin)},
        [TD_RED_NANSUM]  = {RUNS(1, nansum), [TD_RED_I64] = LEAF(1, sum_i64)},
        [TD_RED_ABSSUM]  = {RUNS(1, abssum)},
        [TD_RED_SQUARES] = {RUNS(1, squares)},
        [TD_RED_POWERS]  = {FLOATS(1, powers)},
        [TD_RED_ABSMAX]  = {RUNS(1, absmax)},
        [TD_RED_ABSMIN]  = {RUNS(1, absmin)},
        [TD_RED_VAR]     = {FLOATS(3, var)},
        [TD_RED_LSE]     = {RUNS(2, lse)},
    },
};
