/* Running folds along a dimension.
 *
 * Tiles of inner columns go down the rows side by side, so all but the last dimension vectorise.  Along the last dimension a running sum
 * is bound by the latency of additions, not by memory, unless several go at once.  Floating types are
 * accumulated in double precision. */
#include "base/base.h"
#include "kernels/cpu/math/maths.h"
#include "kernels/cpu/reduce/scan.h"

typedef struct { double re, im; } c128;

/* out[k] = sum + x[0] + ... + x[k] for eight k in three steps, of which each adds what lies 1, 2 and 4 positions before; the
 * last one is the new sum.  The same additions at every instruction-set level, so the same bits. */
#if VBYTES == 64
#define EIGHT(T, A, x, out, sum) \
    typedef A eight __attribute__((vector_size(64))); \
    const eight none = {0}; \
    eight v; \
    for (int k = 0; k < 8; k++) \
        v[k] = (x)[k]; \
    v += __builtin_shufflevector(none, v, 0, 8, 9, 10, 11, 12, 13, 14); \
    v += __builtin_shufflevector(none, v, 0, 1, 8, 9, 10, 11, 12, 13); \
    v += __builtin_shufflevector(none, v, 0, 1, 2, 3, 8, 9, 10, 11); \
    v += sum; \
    for (int k = 0; k < 8; k++) \
        (out)[k] = (T)v[k]; \
    sum = v[7]
#else
#define EIGHT(T, A, x, out, sum) \
    const A a = (x)[0], b = a + (x)[1], c = (A)(x)[1] + (x)[2], d = (A)(x)[2] + (x)[3], e = (A)(x)[3] + (x)[4], \
            f = (A)(x)[4] + (x)[5], g = (A)(x)[5] + (x)[6], h = (A)(x)[6] + (x)[7]; \
    const A c2 = c + a, d2 = d + b, e2 = e + c, f2 = f + d, g2 = g + e, h2 = h + f; \
    (out)[0] = (T)(a + sum), (out)[1] = (T)(b + sum), (out)[2] = (T)(c2 + sum), (out)[3] = (T)(d2 + sum); \
    (out)[4] = (T)(e2 + a + sum), (out)[5] = (T)(f2 + b + sum), (out)[6] = (T)(g2 + c2 + sum); \
    (out)[7] = (T)(sum = h2 + d2 + sum)
#endif

/* The loop of all scans: SETUP makes column i's accumulator, STEP takes row r of it.  A tile's accumulators, 128 numbers, stay in the
 * first cache while rows stream by.  Single columns have a loop apart, whose accumulator stays in a register. */
#define ITERATE(T, A, SETUP, STEP)                                                                 \
    const td_scan_job *w = context;                                                             \
    for (int64_t item = from; item < to; item++) {                                              \
        int64_t first = item % w->tiles * TD_SCAN_TILE, left = w->inner - first;                \
        int64_t cols = left < TD_SCAN_TILE ? left : TD_SCAN_TILE;                               \
        int64_t step = w->sign * w->inner, length = w->length;                                  \
        int64_t place = item / w->tiles * w->length * w->inner + first;                         \
        if (w->sign < 0)                                                                        \
            place += (w->length - 1) * w->inner;                                                \
        const T *x = (const T *)w->x + place;                                                   \
        T *out = (T *)w->out + place;                                                           \
        if (cols == 1) {                                                                        \
            enum { i = 0 };                                                                     \
            A acc[1];                                                                           \
            int64_t where[1];                                                                   \
            (void)where;                                                                        \
            SETUP;                                                                              \
            for (int64_t r = 0; r < length; r++, x += step, out += step, place += step) {       \
                STEP;                                                                           \
            }                                                                                   \
            continue;                                                                           \
        }                                                                                       \
        A acc[TD_SCAN_TILE];                                                                    \
        int64_t where[TD_SCAN_TILE];                                                            \
        (void)where;                                                                            \
        for (int64_t i = 0; i < cols; i++) {                                                    \
            SETUP;                                                                              \
        }                                                                                       \
        for (int64_t r = 0; r < length; r++, x += step, out += step, place += step)             \
            for (int64_t i = 0; i < cols; i++) {                                                \
                STEP;                                                                           \
            }                                                                                   \
    }

/* cumsum, cumprod, y[r] = x[r] + c[r] y[r - 1] (linear), and running extremes: of equal ones the last, and a NaN stays. */
#define REALS(T, name, A)                                                                               \
    static void cumsum_columns_##name(void *context, int64_t from, int64_t to)                          \
    {                                                                                                   \
        ITERATE(T, A, acc[i] = 0, out[i] = (T)(acc[i] += x[i]))                                            \
    }                                                                                                   \
    static void cumsum_##name(void *context, int64_t from, int64_t to)                                  \
    {                                                                                                   \
        const td_scan_job *w = context;                                                                 \
        if (w->inner == 1 && w->sign > 0) {                                                             \
            /* Eight at a time, so that only one addition in eight waits for the one before. */         \
            for (int64_t item = from; item < to; item++) {                                              \
                const T *x = (const T *)w->x + item * w->length;                                        \
                T *out = (T *)w->out + item * w->length;                                                \
                A sum = 0;                                                                              \
                int64_t r = 0;                                                                          \
                for (; r + 8 <= w->length; r += 8) {                                                    \
                    EIGHT(T, A, x + r, out + r, sum);                                                   \
                }                                                                                       \
                for (; r < w->length; r++)                                                              \
                    out[r] = (T)(sum += x[r]);                                                          \
            }                                                                                           \
        } else {                                                                                        \
            cumsum_columns_##name(context, from, to);                                                   \
        }                                                                                               \
    }                                                                                                   \
    static void cumprod_##name(void *context, int64_t from, int64_t to)                                 \
    {                                                                                                   \
        ITERATE(T, A, acc[i] = 1, out[i] = (T)(acc[i] *= x[i]))                                            \
    }                                                                                                   \
    static void linear_##name(void *context, int64_t from, int64_t to)                                  \
    {                                                                                                   \
        ITERATE(T, A, acc[i] = 0, out[i] = (T)(acc[i] = x[i] + acc[i] * ((const T *)w->c)[place + i]))     \
    }                                                                                                   \
    static void cummax_##name(void *context, int64_t from, int64_t to)                                  \
    {                                                                                                   \
        ITERATE(T, T, (acc[i] = x[i], where[i] = 0),                                                       \
             int take = (x[i] >= acc[i]) | (x[i] != x[i]);                                              \
             out[i] = acc[i] = take ? x[i] : acc[i]; w->at[place + i] = where[i] = take ? r : where[i]) \
    }                                                                                                   \
    static void cummin_##name(void *context, int64_t from, int64_t to)                                  \
    {                                                                                                   \
        ITERATE(T, T, (acc[i] = x[i], where[i] = 0),                                                       \
             int take = (x[i] <= acc[i]) | (x[i] != x[i]);                                              \
             out[i] = acc[i] = take ? x[i] : acc[i]; w->at[place + i] = where[i] = take ? r : where[i]) \
    }

REALS(float, f32, double)
REALS(double, f64, double)
REALS(int64_t, i64, int64_t)

/* log(exp(a) + exp(b)), the larger one out front.  An infinity is the result as it is, since inf - inf is none. */
static inline double log_of_sum(double a, double b)
{
    double high = b > a || b != b ? b : a, low = b > a || b != b ? a : b;
    return high != high || low != low ? high + low : __builtin_isinf(high) ? high : high + td_log1p_f64(td_exp_f64(low - high));
}
/* Single columns go in stretches, as running sums of what the numbers' exponentials are below the largest one, so that
 * exponentials and logarithms go by vectors; where the first result is far below that, or not finite, one by one. */
enum { STRETCH = 64, CLOSE = 16 };
#define LOGCUMSUMEXP(T, name)                                                                       \
    static void logcumsumexp_row_##name(const T *x, T *out, int64_t step, int64_t length)           \
    {                                                                                               \
        double acc = -__builtin_inf(), v[STRETCH];                                                  \
        for (int64_t r = 0, n; r < length; r += n, x += n * step, out += n * step) {                \
            n = length - r < STRETCH ? length - r : STRETCH;                                        \
            for (int64_t k = 0; k < n; k++)                                                         \
                v[k] = x[k * step];                                                                 \
            const double least = r && !(v[0] > acc) ? acc : v[0];                                   \
            double high = least;                                                                    \
            int number = 1;                                                                         \
            _Pragma("omp simd reduction(max:high) reduction(&:number)")                             \
            for (int64_t k = 0; k < n; k++) {                                                       \
                high = v[k] > high ? v[k] : high;                                                   \
                number &= v[k] == v[k];                                                             \
            }                                                                                       \
            if (!number || !(high - least < CLOSE)) {                                               \
                for (int64_t k = 0; k < n; k++)                                                     \
                    out[k * step] = (T)(acc = log_of_sum(acc, v[k]));                               \
                continue;                                                                           \
            }                                                                                       \
            _Pragma("omp simd")                                                                     \
            for (int64_t k = 0; k < n; k++)                                                         \
                v[k] = td_exp_f64(v[k] - high);                                                     \
            double sum = r ? td_exp_f64(acc - high) : 0;                                            \
            for (int64_t k = 0; k < n; k++)                                                         \
                v[k] = sum += v[k];                                                                 \
            _Pragma("omp simd")                                                                     \
            for (int64_t k = 0; k < n; k++)                                                         \
                v[k] = high + td_log_f64(v[k]);                                                     \
            acc = v[n - 1];                                                                         \
            for (int64_t k = 0; k < n; k++)                                                         \
                out[k * step] = (T)v[k];                                                            \
        }                                                                                           \
    }                                                                                               \
    static void logcumsumexp_##name(void *context, int64_t from, int64_t to)                        \
    {                                                                                               \
        const td_scan_job *job = context;                                                           \
        if (job->inner == 1) {                                                                      \
            int64_t length = job->length, first = job->sign < 0 ? length - 1 : 0;                   \
            for (int64_t item = from; item < to; item++)                                            \
                logcumsumexp_row_##name((const T *)job->x + item * length + first,                  \
                                        (T *)job->out + item * length + first, job->sign, length);  \
            return;                                                                                 \
        }                                                                                           \
        ITERATE(T, double, acc[i] = -__builtin_inf(), out[i] = (T)(acc[i] = log_of_sum(acc[i], x[i]))) \
    }
LOGCUMSUMEXP(float, f32)
LOGCUMSUMEXP(double, f64)

/* The same by the larger real part; two of -inf stay -inf. */
static inline double _Complex complex_log_of_sum(double _Complex a, c128 b_)
{
    double _Complex b = __builtin_complex(b_.re, b_.im);
    int first = __real__ a > __real__ b;
    double _Complex high = first ? a : b, low = first ? b : a;
    return __builtin_isinf(__real__ low) && __real__ high == __real__ low && __real__ low < 0
               ? high : high + td_log1p_c128(td_exp_c128(low - high));
}
/* Complex numbers are computed in double precision, whatever they are stored in. */
static void logcumsumexp_c128(void *context, int64_t from, int64_t to)
{
    ITERATE(c128, double _Complex, acc[i] = __builtin_complex(-__builtin_inf(), 0.0), acc[i] = complex_log_of_sum(acc[i], x[i]);
            out[i] = ((c128){__real__ acc[i], __imag__ acc[i]}))
}

static inline c128 times(c128 a, c128 b) { return (c128){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}; }
static inline c128 plus(c128 a, c128 b) { return (c128){a.re + b.re, a.im + b.im}; }
static void cumsum_c128(void *context, int64_t from, int64_t to)
{
    ITERATE(c128, c128, acc[i] = ((c128){0, 0}), out[i] = acc[i] = plus(acc[i], x[i]))
}
static void cumprod_c128(void *context, int64_t from, int64_t to)
{
    ITERATE(c128, c128, acc[i] = ((c128){1, 0}), out[i] = acc[i] = times(acc[i], x[i]))
}
static void linear_c128(void *context, int64_t from, int64_t to)
{
    ITERATE(c128, c128, acc[i] = ((c128){0, 0}),
         out[i] = acc[i] = plus(x[i], times(acc[i], ((const c128 *)w->c)[place + i])))
}

#define EACH(op) {op##_f32, op##_f64, op##_i64, NULL}
#define EACH_COMPLEX(op) {op##_f32, op##_f64, op##_i64, op##_c128}
#define SCAN(op, ...) \
    extern const td_scan TD_ISA_NAME(td_scan_##op); \
    const td_scan TD_ISA_NAME(td_scan_##op) = __VA_ARGS__
SCAN(cumsum, EACH_COMPLEX(cumsum));
SCAN(cumprod, EACH_COMPLEX(cumprod));
SCAN(linear, EACH_COMPLEX(linear));
SCAN(cummax, EACH(cummax));
SCAN(cummin, EACH(cummin));
SCAN(logcumsumexp, {logcumsumexp_f32, logcumsumexp_f64, NULL, logcumsumexp_c128});
