/* Measures the functions of src/kernels/cpu/math/maths.h: the largest error in units in the last place, and the speed.
 *
 * tools/ulp.py compiles this file once per instruction-set level into a shared library and calls it.  float32 is
 * compared with the C library's long double functions (64 bits), float64 with libquadmath's (113 bits).  Where neither
 * has the function, float32 is compared with our float64 and ulp.py compares that with mpmath.  Every loop here is of
 * the kind that kernels contain, so what is measured is the vectorised code. */
#include "kernels/cpu/math/maths.h"
#include "kernels/cpu/loops/runs.h"
#include <float.h>
#include <quadmath.h>
#include <stdlib.h>
#include <time.h>

#define EXPORT __attribute__((visibility("default")))

/* name, range for speed and for evenly spread arguments, reference: L long double and quad, M by mpmath */
#define UNARY(X) \
    X(exp, -20, 20, L) X(exp2, -20, 20, L) X(expm1, -10, 10, L) X(log, 0, 100, L) X(log2, 0, 100, L) \
    X(log10, 0, 100, L) X(log1p, -1, 100, L) X(sin, -100, 100, L) X(cos, -100, 100, L) X(tan, -100, 100, L) \
    X(asin, -1, 1, L) X(acos, -1, 1, L) X(atan, -10, 10, L) X(sinh, -10, 10, L) X(cosh, -10, 10, L) \
    X(tanh, -5, 5, L) X(asinh, -10, 10, L) X(acosh, 1, 100, L) X(atanh, -1, 1, L) X(erf, -3, 3, L) \
    X(erfc, -3, 10, L) X(erfinv, -1, 1, M) X(erfcx, -5, 30, M) X(sigmoid, -20, 20, L) X(sqrt, 0, 100, L) \
    X(rsqrt, 0, 100, L) X(sinc, -10, 10, L) X(lgamma, -20, 40, L) X(digamma, -10, 40, M) X(i0, -20, 20, M) \
    X(i0e, -20, 20, M) X(i1, -20, 20, M) X(i1e, -20, 20, M) X(ndtri, 0, 1, M) X(log_ndtr, -20, 5, M) \
    X(entr, 0, 10, L) X(round, -100, 100, L) X(frac, -100, 100, L)
#define BINARY(X) \
    X(pow, 0, 10, L) X(atan2, -10, 10, L) X(hypot, -10, 10, L) X(fmod, -10, 10, L) X(remainder, -10, 10, L) \
    X(floor_div, -100, 100, L) X(logaddexp, 0, 20, L) X(logaddexp2, 0, 20, L) X(xlogy, 0, 10, L)

typedef void loop_f32(const float *x, const float *y, float *out, long n);
typedef void loop_f64(const double *x, const double *y, double *out, long n);

#define LOOPS(name, arguments_f32, arguments_f64) \
    static void name##_loop_f32(const float *x, const float *y, float *out, long n) \
    { \
        (void)y; \
        _Pragma("omp simd") for (long i = 0; i < n; i++) out[i] = td_##name##_f32 arguments_f32; \
    } \
    static void name##_loop_f64(const double *x, const double *y, double *out, long n) \
    { \
        (void)y; \
        _Pragma("omp simd") for (long i = 0; i < n; i++) out[i] = td_##name##_f64 arguments_f64; \
    }
#define UNARY_LOOPS(name, low, high, reference) LOOPS(name, (x[i]), (x[i]))
#define BINARY_LOOPS(name, low, high, reference) LOOPS(name, (x[i], y[i]), (x[i], y[i]))
UNARY(UNARY_LOOPS)
BINARY(BINARY_LOOPS)

/* Those that generated loops call for whole runs (RUNS in codegen/value.py) are measured so. */
#define RUN_1(name, S, T) \
    static void name##_run_loop_##S(const T *x, const T *y, T *out, long n) \
    { \
        (void)y; \
        TD_RUN(name, S)(x, out, n); \
    }
#define RUN_2(name, S, T) \
    static void name##_run_loop_##S(const T *x, const T *y, T *out, long n) { TD_RUN(name, S)(x, y, out, n); }
RUN_1(exp, f32, float) RUN_1(erf, f32, float) RUN_1(tanh, f32, float) RUN_1(sqrt, f32, float)
RUN_1(sin, f32, float) RUN_1(cos, f32, float) RUN_1(tan, f32, float)
RUN_1(sin, f64, double) RUN_1(cos, f64, double) RUN_1(tan, f64, double)
RUN_2(fmod, f32, float) RUN_2(remainder, f32, float) RUN_2(floor_div, f32, float)
RUN_2(fmod, f64, double) RUN_2(remainder, f64, double) RUN_2(floor_div, f64, double)
static const struct run { const char *name; loop_f32 *f32; loop_f64 *f64; } runs[] = {
    {"exp", exp_run_loop_f32, NULL}, {"erf", erf_run_loop_f32, NULL}, {"tanh", tanh_run_loop_f32, NULL},
    {"sqrt", sqrt_run_loop_f32, NULL}, {"sin", sin_run_loop_f32, sin_run_loop_f64},
    {"cos", cos_run_loop_f32, cos_run_loop_f64}, {"tan", tan_run_loop_f32, tan_run_loop_f64},
    {"fmod", fmod_run_loop_f32, fmod_run_loop_f64}, {"remainder", remainder_run_loop_f32, remainder_run_loop_f64},
    {"floor_div", floor_div_run_loop_f32, floor_div_run_loop_f64},
};

/* The references, for T long double and __float128: s is the suffix of the type's functions, PI its pi. */
#define PLAIN(T, s, name)  static T ref_##name##_##s(T x) { return name##s(x); }
#define PLAIN2(T, s, name) static T ref_##name##_##s(T x, T y) { return name##s(x, y); }
#define REFERENCES(T, s, PI) \
    PLAIN(T, s, exp) PLAIN(T, s, exp2) PLAIN(T, s, expm1) PLAIN(T, s, log) PLAIN(T, s, log2) PLAIN(T, s, log10) \
    PLAIN(T, s, log1p) PLAIN(T, s, sin) PLAIN(T, s, cos) PLAIN(T, s, tan) PLAIN(T, s, asin) PLAIN(T, s, acos) \
    PLAIN(T, s, atan) PLAIN(T, s, sinh) PLAIN(T, s, cosh) PLAIN(T, s, tanh) PLAIN(T, s, asinh) PLAIN(T, s, acosh) \
    PLAIN(T, s, atanh) PLAIN(T, s, erf) PLAIN(T, s, erfc) PLAIN(T, s, sqrt) PLAIN(T, s, lgamma) \
    PLAIN2(T, s, pow) PLAIN2(T, s, atan2) PLAIN2(T, s, hypot) PLAIN2(T, s, fmod) \
    static T ref_round_##s(T x) { return rint##s(x); } \
    static T ref_frac_##s(T x) { return x - trunc##s(x); } \
    static T ref_rsqrt_##s(T x) { return 1 / sqrt##s(x); } \
    static T ref_sigmoid_##s(T x) { return 1 / (1 + exp##s(-x)); } \
    static T ref_entr_##s(T x) { return x > 0 ? -x * log##s(x) : x == 0 ? 0 : x < 0 ? -INFINITY : x; } \
    static T ref_sinc_##s(T x) \
    { \
        T a = x - 2 * rint##s(x / 2); \
        a = fabs##s(a) > (T)0.5 ? copysign##s(1, a) - a : a; \
        return x == 0 ? 1 : sin##s(PI * a) / (PI * x); \
    } \
    static T ref_remainder_##s(T a, T b) \
    { \
        T m = fmod##s(a, b); \
        return m != 0 && (b < 0) != (m < 0) ? m + b : m; \
    } \
    static T ref_floor_div_##s(T a, T b) { return b == 0 ? a / b : rint##s((a - ref_remainder_##s(a, b)) / b); } \
    static T ref_logaddexp_##s(T a, T b) \
    { \
        T m = a > b ? a : b; \
        return a != a || b != b ? a + b : m + (a == b ? log##s(2) : log1p##s(exp##s(-fabs##s(a - b)))); \
    } \
    static T ref_logaddexp2_##s(T a, T b) \
    { \
        T m = a > b ? a : b; \
        return a != a || b != b ? a + b : m + (a == b ? 1 : log1p##s(exp2##s(-fabs##s(a - b))) / log##s(2)); \
    } \
    static T ref_xlogy_##s(T x, T y) { return y != y ? y : x == 0 ? 0 : x * log##s(y); }
REFERENCES(long double, l, 3.14159265358979323846264338327950288L)
REFERENCES(__float128, q, M_PIq)

static struct function {
    const char *name;
    int arity;
    double low, high;
    loop_f32 *f32;
    loop_f64 *f64;
    long double (*one_l)(long double);
    __float128 (*one_q)(__float128);
    long double (*two_l)(long double, long double);
    __float128 (*two_q)(__float128, __float128);
} functions[] = {
#define REFERENCE_L(name) ref_##name##_l, ref_##name##_q
#define REFERENCE_M(name) NULL, NULL
#define UNARY_ROW(name, low, high, kind) \
    {#name, 1, low, high, name##_loop_f32, name##_loop_f64, REFERENCE_##kind(name), NULL, NULL},
#define BINARY_ROW(name, low, high, kind) \
    {#name, 2, low, high, name##_loop_f32, name##_loop_f64, NULL, NULL, REFERENCE_##kind(name)},
    UNARY(UNARY_ROW) BINARY(BINARY_ROW)
};

__attribute__((constructor)) static void take_runs(void)
{
    for (int f = 0; f < TD_COUNT(functions); f++)
        for (int r = 0; r < TD_COUNT(runs); r++)
            if (!strcmp(functions[f].name, runs[r].name)) {
                functions[f].f32 = runs[r].f32 ? runs[r].f32 : functions[f].f32;
                functions[f].f64 = runs[r].f64 ? runs[r].f64 : functions[f].f64;
            }
}

EXPORT int ulp_count(void) { return TD_COUNT(functions); }
EXPORT const char *ulp_name(int f) { return functions[f].name; }
EXPORT int ulp_arity(int f) { return functions[f].arity; }
EXPORT int ulp_has_reference(int f) { return functions[f].one_l || functions[f].two_l; }
EXPORT double ulp_low(int f) { return functions[f].low; }
EXPORT double ulp_high(int f) { return functions[f].high; }
EXPORT void ulp_apply_f64(int f, const double *x, const double *y, double *out, long n)
{
    functions[f].f64(x, y, out, n);
}

enum { BLOCK = 4096 };

struct worst { double error, x, y, got, want; };

static void judge(struct worst *w, double error, double x, double y, double got, double want)
{
    if (!(error <= w->error))
        *w = (struct worst){error, x, y, got, want};
}
/* The distance of got from want in units of a format with `digits` bits and smallest exponent `low`.  An infinity
 * counts as the next power of two, so that a result just short of it isn't infinitely wrong. */
static double distance_l(double got, long double want, int digits, int low, int high)
{
    if (want != want || got != got)
        return want != want && got != got ? 0 : INFINITY;
    long double limit = ldexpl(1, high);
    long double g = isinf(got) ? copysignl(limit, got) : got;
    long double x = fabsl(want) > limit ? copysignl(limit, want) : want;
    int e = x == 0 ? low : ilogbl(x);
    return (double)(fabsl(g - x) / ldexpl(1, (e < low ? low : e) - (digits - 1)));
}
static double distance_q(double got, __float128 want)
{
    if (want != want || got != got)
        return want != want && got != got ? 0 : INFINITY;
    __float128 limit = ldexpq(1, 1024);
    __float128 g = isinf(got) ? copysignq(limit, got) : got;
    __float128 x = fabsq(want) > limit ? copysignq(limit, want) : want;
    int e = x == 0 ? -1022 : ilogbq(x);
    return (double)(fabsq(g - x) / ldexpq(1, (e < -1022 ? -1022 : e) - 52));
}

static uint64_t state = 88172645463325252u;
static uint64_t next(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}
static double uniform(double low, double high) { return low + (high - low) * ((double)(next() >> 11) * 0x1p-53); }

static void check_f32(const struct function *f, const float *x, const float *y, int n, struct worst *w)
{
    static float out[BLOCK];
    static double wide_x[BLOCK], wide_y[BLOCK], wide[BLOCK];
    f->f32(x, y, out, n);
    if (!f->one_l && !f->two_l) {
        for (int i = 0; i < n; i++)
            wide_x[i] = x[i], wide_y[i] = y[i];
        f->f64(wide_x, wide_y, wide, n);
    }
    for (int i = 0; i < n; i++) {
        long double want = f->one_l ? f->one_l(x[i]) : f->two_l ? f->two_l(x[i], y[i]) : wide[i];
        judge(w, distance_l(out[i], want, 24, -126, 128), x[i], y[i], out[i], (double)want);
    }
}

/* One argument: every stride-th bit pattern and an even spread.  Two: random patterns and even spreads. */
EXPORT struct worst ulp_measure_f32(int index, uint32_t stride)
{
    const struct function *f = &functions[index];
    static float x[BLOCK], y[BLOCK];
    struct worst w = {0};
    state = 88172645463325252u;
    uint64_t total = 0x100000000u / stride, bits = next() % stride;
    for (uint64_t done = 0; done < total; done += BLOCK) {
        for (int i = 0; i < BLOCK; i++, bits += stride) {
            x[i] = td_bits_f32(f->arity == 1 ? (uint32_t)bits : (uint32_t)next());
            y[i] = td_bits_f32((uint32_t)next());
        }
        check_f32(f, x, y, BLOCK, &w);
    }
    for (uint64_t done = 0; done < total / 8; done += BLOCK) {
        for (int i = 0; i < BLOCK; i++) {
            x[i] = (float)uniform(f->low, f->high);
            y[i] = (float)uniform(f->low, f->high);
        }
        check_f32(f, x, y, BLOCK, &w);
    }
    return w;
}

/* All inputs of a half type through float32: the largest error of the rounded result, 0.5 being perfect. */
EXPORT struct worst ulp_measure_half(int index, int bf16)
{
    const struct function *f = &functions[index];
    static float x[BLOCK], out[BLOCK];
    struct worst w = {0};
    for (uint32_t start = 0; start < 0x10000; start += BLOCK) {
        for (int i = 0; i < BLOCK; i++)
            x[i] = bf16 ? td_bf16_to_f32((td_bf16)(start + i)) : td_f16_to_f32((td_f16)(start + i));
        f->f32(x, x, out, BLOCK);
        for (int i = 0; i < BLOCK; i++) {
            double got = bf16 ? td_bf16_to_f32(td_f32_to_bf16(out[i])) : td_f16_to_f32(td_f32_to_f16(out[i]));
            double wide = x[i], error;
            long double want;
            if (f->one_l)
                want = f->one_l(x[i]);
            else
                f->f64(&wide, &wide, &wide, 1), want = wide;
            error = bf16 ? distance_l(got, want, 8, -126, 128) : distance_l(got, want, 11, -14, 16);
            judge(&w, error, x[i], 0, got, (double)want);
        }
    }
    return w;
}

/* Random bit patterns, even spreads, and values of all signs around powers of two near 1. */
EXPORT struct worst ulp_measure_f64(int index, long total)
{
    const struct function *f = &functions[index];
    static double x[BLOCK], y[BLOCK], out[BLOCK];
    struct worst w = {0};
    state = 88172645463325252u;
    for (long done = 0; done < total; done += BLOCK) {
        for (int i = 0; i < BLOCK; i++) {
            double *both[2] = {&x[i], &y[i]};
            int kind = (int)(next() % 4);
            for (int k = 0; k < 2; k++)
                *both[k] = kind == 0 ? td_bits_f64(next())
                         : kind == 1 ? ldexp(uniform(-1, 1), (int)(next() % 40) - 30)
                         : kind == 2 ? copysign(1.0, uniform(-1, 1)) + ldexp(uniform(-1, 1), -(int)(next() % 30))
                         : uniform(f->low, f->high);
        }
        f->f64(x, y, out, BLOCK);
        for (int i = 0; i < BLOCK; i++) {
            __float128 want = f->one_q ? f->one_q(x[i]) : f->two_q(x[i], y[i]);
            judge(&w, distance_q(out[i], want), x[i], y[i], out[i], (double)want);
        }
    }
    return w;
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
/* Elements per nanosecond on data that stay in the first-level cache, the best of several runs. */
EXPORT double ulp_speed(int index, int wide)
{
    enum { N = 2048, REPEATS = 20 };
    const struct function *f = &functions[index];
    static _Alignas(64) float x[N], y[N], out[N];
    static _Alignas(64) double x64[N / 2], y64[N / 2], out64[N / 2];
    for (int i = 0; i < N; i++) {
        x[i] = (float)uniform(f->low, f->high);
        y[i] = (float)uniform(f->low, f->high);
        x64[i / 2] = x[i];
        y64[i / 2] = y[i];
    }
    double best = INFINITY;
    for (int run = 0; run < 100; run++) {
        double start = seconds();
        for (int k = 0; k < REPEATS; k++) {
            if (wide)
                f->f64(x64, y64, out64, N / 2);
            else
                f->f32(x, y, out, N);
            __asm__ volatile("" ::: "memory");
        }
        double took = seconds() - start;
        best = took < best ? took : best;
    }
    return (wide ? N / 2 : N) * (double)REPEATS / best * 1e-9;
}
