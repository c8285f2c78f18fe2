/* The functions of mathematics at the corners: zeros of both signs, infinities, NaN, subnormals, huge arguments.
 *
 * The C library's double functions are the reference; errors in units in the last place are measured by tools/ulp.py.
 * Everything is called from loops of the kind that kernels contain. */
#include "td_test.h"

#include <complex.h>
#include "kernels/cpu/math/maths.h"

enum { MANY = 64 };

static const double corners[] = {
    0.0, -0.0, INFINITY, -INFINITY, NAN, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 0x1p-149, -0x1p-149, 0x1p-140, 0x1p-126,
    -0x1p-126, 1e-30, -1e-30, 1e-10, 3.0, -3.0, 10.0, -10.0, 50.0, -50.0, 87.0, -87.0, 88.5, -88.5, 90.0, -90.0, 100.0,
    -103.0, -104.5, 128.0, -128.0, -149.0, -151.0, 700.0, -740.0, 1e4, -1e4, 99999.0, 123456.0, 1e8, -1e8, 1e15, 1e22,
    -1e30, 3e38, -3e38, 0.99999994, 1.0000001, 0.75, 1.5707964, 3.1415927, 6e9, 0x1p60, -0x1p61, 1e20, 2.5, -2.5, 1.5,
    8.0,
};
_Static_assert(sizeof corners / sizeof *corners == MANY, "the loops below count on it");

static double silently_lgamma(double x)
{
    int sign;
    return lgamma_r(x, &sign);
}
static double true_sigmoid(double x) { return x < 0 ? exp(x) / (1 + exp(x)) : 1 / (1 + exp(-x)); }
static double true_rsqrt(double x)   { return 1 / sqrt(x); }
static double true_frac(double x)    { return x - trunc(x); }
static double true_sign(double x)    { return (x > 0) - (x < 0); }

#define LOOP(name, T, S) \
    static void name##_##S(const T *x, T *y) \
    { \
        _Pragma("omp simd") \
        for (int i = 0; i < MANY; i++) \
            y[i] = td_##name##_##S(x[i]); \
    }
#define FUNCTIONS(X) \
    X(exp, exp) X(exp2, exp2) X(expm1, expm1) X(log, log) X(log2, log2) X(log10, log10) X(log1p, log1p) X(sin, sin) \
    X(cos, cos) X(tan, tan) X(asin, asin) X(acos, acos) X(atan, atan) X(sinh, sinh) X(cosh, cosh) X(tanh, tanh) \
    X(asinh, asinh) X(acosh, acosh) X(atanh, atanh) X(erf, erf) X(erfc, erfc) X(lgamma, silently_lgamma) \
    X(sigmoid, true_sigmoid) X(sqrt, sqrt) X(rsqrt, true_rsqrt) X(floor, floor) X(ceil, ceil) X(trunc, trunc) \
    X(round, rint) X(frac, true_frac) X(sign, true_sign) X(abs, fabs)
#define LOOPS_OF(name, reference) LOOP(name, float, f32) LOOP(name, double, f64)
FUNCTIONS(LOOPS_OF)

static const struct {
    const char *name;
    void (*f32)(const float *, float *);
    void (*f64)(const double *, double *);
    double (*reference)(double);
} functions[] = {
#define ROW(name, reference) {#name, name##_f32, name##_f64, reference},
    FUNCTIONS(ROW)
};

/* Equal up to a few units, NaN for NaN, infinities and zeros exactly, zeros with their sign. */
static bool alike(double got, double want, double unit, double smallest)
{
    if (want != want || got != got)
        return want != want && got != got;
    if (want == 0 || isinf(want) || isinf(got))
        return got == want && signbit(got) == signbit(want);
    return fabs(got - want) <= 4 * fmax(unit * fabs(want), smallest);
}

TD_TEST(corners_in_float32_come_out_as_the_c_librarys)
{
    float x[MANY], y[MANY];
    for (int i = 0; i < MANY; i++)
        x[i] = (float)corners[i];
    for (size_t f = 0; f < sizeof functions / sizeof *functions; f++) {
        functions[f].f32(x, y);
        for (int i = 0; i < MANY; i++) {
            float want = (float)functions[f].reference(x[i]);
            if (!alike(y[i], want, 0x1p-24, 0x1p-149))
                td_test_complain(__FILE__, __LINE__, "%s(%a) in float32 is %a, not %a", functions[f].name, x[i], y[i],
                                 want);
        }
    }
}

TD_TEST(corners_in_float64_come_out_as_the_c_librarys)
{
    double y[MANY], x[MANY];
    for (int scale = 0; scale < 3; scale++) {
        for (int i = 0; i < MANY; i++)
            x[i] = scale == 0 ? corners[i] : scale == 1 ? corners[i] * 0x1p-940 : corners[i] * 0x1p+890;
        for (size_t f = 0; f < sizeof functions / sizeof *functions; f++) {
            functions[f].f64(x, y);
            for (int i = 0; i < MANY; i++) {
                double want = functions[f].reference(x[i]);
                if (!alike(y[i], want, 0x1p-53, 0x1p-1074))
                    td_test_complain(__FILE__, __LINE__, "%s(%a) is %a, not %a", functions[f].name, x[i], y[i],
                                     want);
            }
        }
    }
}

/* fmax and fmin may give either of two zeros. */
#define PAIRS(X) \
    X(pow, pow, false) X(atan2, atan2, false) X(hypot, hypot, false) X(fmod, fmod, false) X(copysign, copysign, false) \
    X(fmax, fmax, true) X(fmin, fmin, true)
TD_TEST(pairs_of_corners_come_out_as_the_c_librarys)
{
    for (int k = 0; k < MANY * MANY; k++) {
        double a = corners[k / MANY], b = corners[k % MANY];
        float c = (float)a, d = (float)b;
#define PAIR_CHECK(name, reference, any_zero) \
        float name##_got = td_##name##_f32(c, d), name##_want = (float)reference(c, d); \
        double name##_wide = td_##name##_f64(a, b), name##_right = reference(a, b); \
        if (!alike(name##_got, name##_want, 0x1p-24, 0x1p-149) && !(any_zero && name##_got == 0 && name##_want == 0)) \
            td_test_complain(__FILE__, __LINE__, #name "(%a, %a) in float32 is %a", c, d, name##_got); \
        if (!alike(name##_wide, name##_right, 0x1p-53, 0x1p-1074) && \
            !(any_zero && name##_wide == 0 && name##_right == 0)) \
            td_test_complain(__FILE__, __LINE__, #name "(%a, %a) is %a", a, b, name##_wide);
        PAIRS(PAIR_CHECK)
        CHECK(alike(td_nextafter_f32(c, d), nextafterf(c, d), 0, 0));
        CHECK(alike(td_nextafter_f64(a, b), nextafter(a, b), 0, 0));
    }
}

TD_TEST(maximum_and_minimum_hand_on_nan)
{
    CHECK(isnan(td_maximum_f32(NAN, 1)) && isnan(td_maximum_f32(1, NAN)) && isnan(td_minimum_f64(NAN, 1)));
    CHECK(isnan(td_minimum_f64(1, NAN)) && td_maximum_f32(2, 1) == 2 && td_minimum_f64(-INFINITY, 1) == -INFINITY);
    CHECK(td_fmax_f32(NAN, 1) == 1 && td_fmin_f64(1, NAN) == 1 && isnan(td_fmax_f64(NAN, NAN)));
}

TD_TEST(remainder_and_floor_division_follow_python)
{
    static const double cases[][4] = {      /* a, b, remainder, floor division */
        {5, 3, 2, 1}, {-5, 3, 1, -2}, {5, -3, -1, -2}, {-5, -3, -2, 1}, {1, INFINITY, 1, 0},
        {-1, INFINITY, INFINITY, -1}, {1, -INFINITY, -INFINITY, -1}, {1, 0, NAN, INFINITY}, {0, 0, NAN, NAN},
        {0.5, 0.25, 0, 2}, {-0.0, 1, -0.0, -0.0}, {1e30, 3, -1, NAN}, {NAN, 1, NAN, NAN},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double a = cases[i][0], b = cases[i][1], r = cases[i][2], q = cases[i][3];
        if (a == 1e30) {
            CHECK(td_remainder_f64(a, b) == fmod(a, b) && td_remainder_f32((float)a, 3) == fmodf((float)a, 3));
            continue;
        }
        CHECK(alike(td_remainder_f64(a, b), r, 0, 0) && alike(td_remainder_f32((float)a, (float)b), r, 0, 0));
        CHECK(alike(td_floor_div_f64(a, b), q, 0, 0) && alike(td_floor_div_f32((float)a, (float)b), q, 0, 0));
    }
}

/* What the three levels' forms for runs give, those that this machine has. */
#define RUN_OF(name, level) \
    void td_##name##_run_f64_##level(const double *x, double *y, int64_t n); \
    void td_##name##_run_f32_##level(const float *x, float *y, int64_t n);
#define RUN_OF_TWO(name, level) \
    void td_##name##_run_f64_##level(const double *a, const double *b, double *y, int64_t n); \
    void td_##name##_run_f32_##level(const float *a, const float *b, float *y, int64_t n);
#define CHECK_RUN(name, level) \
    td_##name##_run_f64_##level(x, y, N); \
    td_##name##_run_f32_##level(u, w, N); \
    for (int i = 0; i < N; i++) { \
        CHECK(alike(y[i], td_##name##_f64(x[i]), 0x1p-53, 0x1p-1074)); \
        CHECK(alike(w[i], td_##name##_f32(u[i]), 0x1p-24, 0x1p-149)); \
    }
#define CHECK_RUN_OF_TWO(name, level) \
    td_##name##_run_f64_##level(x, z, y, N); \
    td_##name##_run_f32_##level(u, v, w, N); \
    for (int i = 0; i < N; i++) \
        CHECK(alike(y[i], td_##name##_f64(x[i], z[i]), 0, 0) && alike(w[i], td_##name##_f32(u[i], v[i]), 0, 0));
#define CHECK_LEVEL(level) \
    RUN_OF(sin, level) RUN_OF(cos, level) RUN_OF(tan, level) \
    RUN_OF_TWO(fmod, level) RUN_OF_TWO(remainder, level) RUN_OF_TWO(floor_div, level) \
    static void check_##level(const double *x, const double *z, const float *u, const float *v) \
    { \
        static double y[N]; \
        static float w[N]; \
        CHECK_RUN(sin, level) \
        CHECK_RUN(cos, level) \
        CHECK_RUN(tan, level) \
        CHECK_RUN_OF_TWO(fmod, level) \
        CHECK_RUN_OF_TWO(remainder, level) \
        CHECK_RUN_OF_TWO(floor_div, level) \
        memcpy(w, u, sizeof w); \
        td_sin_run_f32_##level(w, w, N); \
        for (int i = 0; i < N; i++) \
            CHECK(alike(w[i], td_sin_f32(u[i]), 0x1p-24, 0x1p-149)); \
    }
enum { N = 1000 };
#define CHECK_LEVEL_OF(level, ...) CHECK_LEVEL(level)
TD_ISA_LEVELS(CHECK_LEVEL_OF)

TD_TEST(forms_for_runs_give_what_the_scalar_forms_give)
{
    static double x[N], z[N];
    static float u[N], v[N];
    for (int i = 0; i < N; i++) {
        x[i] = (i - 500) * (i > 600 && i < 610 ? 1e17 : 0.37);
        z[i] = i % 7 - 3.5 + (i == 300 ? 1e-20 : 0);
        u[i] = (float)x[i];
        v[i] = (float)z[i];
    }
    z[900] = 0, v[900] = 0, z[901] = INFINITY, v[901] = INFINITY;
#define CHECK_IF_HERE(level, constant, ...) \
    if (td_cpu_isa() >= (constant)) \
        check_##level(x, z, u, v);
    TD_ISA_LEVELS(CHECK_IF_HERE)
}

TD_TEST(special_functions_at_their_special_points)
{
    CHECK(td_erfinv_f32(1) == INFINITY && td_erfinv_f64(-1) == -INFINITY);
    CHECK(isnan(td_erfinv_f64(1.5)) && isnan(td_erfinv_f32(NAN)));
    CHECK(td_ndtri_f32(0) == -INFINITY && td_ndtri_f64(1) == INFINITY && td_ndtri_f64(0.5) == 0);
    CHECK(isnan(td_ndtri_f64(-0.1)));
    CHECK(td_log_ndtr_f64(-INFINITY) == -INFINITY && td_log_ndtr_f32(INFINITY) == 0 && isnan(td_log_ndtr_f64(NAN)));
    CHECK(td_digamma_f64(0.0) == -INFINITY && td_digamma_f64(-0.0) == INFINITY && isnan(td_digamma_f32(-2)));
    CHECK_NEAR(td_digamma_f64(1), -0.5772156649015329, 1e-16);
    CHECK_NEAR(td_digamma_f64(-1.5), 0.7031566406452432, 3e-16);
    CHECK(td_digamma_f64(INFINITY) == INFINITY && isnan(td_digamma_f64(-INFINITY)));
    CHECK(td_i0_f64(0) == 1 && td_i0e_f32(INFINITY) == 0 && td_i1_f64(-0.0) == 0 && signbit(td_i1_f64(-0.0)));
    CHECK(td_i0_f64(1000) == INFINITY && td_i1_f32(-200) == -INFINITY && isnan(td_i0e_f64(NAN)));
    CHECK_NEAR(td_i0_f64(1), 1.2660658777520084, 3e-16);
    CHECK_NEAR(td_i1e_f64(20), 0.0875062221832887, 3e-17);
    CHECK_NEAR(td_erfcx_f64(-1), 5.008980080762283, 2e-15);
    CHECK(td_erfcx_f64(-INFINITY) == INFINITY && td_erfcx_f64(INFINITY) == 0);
    CHECK(td_sinc_f64(0) == 1 && td_sinc_f32(-0.0f) == 1 && td_sinc_f64(3) == 0 && isnan(td_sinc_f32(INFINITY)));
    CHECK(td_entr_f64(0) == 0 && td_entr_f64(-1) == -INFINITY && td_entr_f32(INFINITY) == -INFINITY);
    CHECK(isnan(td_entr_f32(NAN)));
    CHECK(td_xlogy_f64(0, INFINITY) == 0 && isnan(td_xlogy_f64(0, NAN)) && td_xlogy_f32(1, 0) == -INFINITY);
    CHECK(td_logaddexp_f64(INFINITY, INFINITY) == INFINITY && td_logaddexp_f32(-INFINITY, -INFINITY) == -INFINITY);
    CHECK(isnan(td_logaddexp_f64(NAN, 1)) && isnan(td_logaddexp2_f32(1, NAN)) && td_logaddexp2_f64(3, 3) == 4);
    CHECK(td_zeta_f64(1, 1) == INFINITY && isnan(td_zeta_f64(0.5, 1)) && isnan(td_zeta_f64(2.5, -0.5)));
    CHECK_NEAR(td_zeta_f64(2, 1), 1.6449340668482264, 5e-16);
    CHECK_NEAR(td_zeta_f64(3, -1.5), 0.11810202582086413, 1e-13);
    CHECK_NEAR(td_polygamma_f64(1, 0.5), 4.934802200544679, 2e-15);
    CHECK_NEAR(td_polygamma_f64(3, 1), 6.493939402266829, 1e-14);
    CHECK(td_polygamma_f64(1, INFINITY) == 0 && td_polygamma_f64(1, 1e300) == 1e-300 && td_polygamma_f32(1, 1e30f) == 1e-30f);
    CHECK_NEAR(td_zeta_f64(3, -11.5), 0.0034662182928941204, 1e-15);
    CHECK_NEAR(td_zeta_f64(3, -20.25), -62.01139276237192, 2e-14);
    CHECK_NEAR(td_zeta_f64(4, -20.25), 259.757538823981699, 2e-13);
    CHECK_NEAR(td_zeta_f64(5, -1000.75), 1020.06561595093843, 1e-12);
    CHECK(td_zeta_f64(INFINITY, -20.5) == INFINITY && td_zeta_f64(1e20, -20.5) == INFINITY && td_zeta_f64(3, INFINITY) == 0);
    CHECK_NEAR(td_zeta_f64(101, -20.25), td_zeta_f64(101, -9.25), 1e44);
    CHECK_NEAR(td_zeta_f64(2, -1e12 - 0.5), 9.869604401088358, 5e-15);    /* in no more steps */
    CHECK(td_ldexp_f32(3, 2) == 12 && td_ldexp_f64(1, -1074) == 0x1p-1074 && isinf(td_ldexp_f32(1e-30f, 130)));
}

TD_TEST(integers_divide_shift_and_raise_as_in_pytorch)
{
    CHECK(td_floor_div_i32(-5, 3) == -2 && td_floor_div_i64(5, -3) == -2 && td_trunc_div_i64(-5, 3) == -1);
    CHECK(td_remainder_i32(-5, 3) == 1 && td_remainder_i64(5, -3) == -1 && td_fmod_i32(-5, 3) == -2);
    CHECK(td_floor_div_i32(INT32_MIN, -1) == INT32_MIN && td_floor_div_i64(INT64_MIN, -1) == INT64_MIN);
    CHECK(td_fmod_i32(INT32_MIN, -1) == 0 && td_remainder_i64(INT64_MIN, -1) == 0);
    CHECK(td_abs_i64(INT64_MIN) == INT64_MIN && td_abs_i32(INT32_MIN) == INT32_MIN);
    CHECK(td_floor_div_i32(1, 0) == 0 && td_remainder_i64(1, 0) == 0 && td_fmod_u64(1, 0) == 0);
    CHECK(td_trunc_div_i32(INT32_MIN, INT32_MAX) == -1 && td_trunc_div_i32(INT32_MAX, INT32_MIN) == 0);
    CHECK(td_trunc_div_u64(UINT64_MAX, 3) == UINT64_MAX / 3 && td_remainder_u64(UINT64_MAX, 10) == 5);
    CHECK(td_shl_i32(5, 32) == 0 && td_shl_i64(5, -1) == 0 && td_shr_i64(-5, 64) == -1 && td_shr_i32(5, -1) == 0);
    CHECK(td_shr_u64(5, 64) == 0 && td_shl_i32(1, 31) == INT32_MIN && td_shr_i32(-8, 1) == -4);
    CHECK(td_pow_i64(2, 10) == 1024 && td_pow_i64(3, 41) == -420491770248316829 && td_pow_i32(-1, -3) == -1);
    CHECK(td_pow_i64(-1, -4) == 1 && td_pow_i32(0, -1) == 0 && td_pow_i64(2, -1) == 0 && td_pow_u64(0, 0) == 1);
    CHECK(td_gcd_i32(-12, 18) == 6 && td_lcm_i64(-4, 6) == 12 && td_lcm_i64(0, 0) == 0);
    CHECK(td_gcd_i64(INT64_MIN, 0) == INT64_MIN && td_trunc_div_u64(1, 0) == 0);
    uint64_t state = 1;
    for (int i = 0; i < 100000; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        int32_t a = (int32_t)(state >> 32), b = (int32_t)state >> (i % 31);
        if (b != 0 && !(a == INT32_MIN && b == -1))
            CHECK(td_trunc_div_i32(a, b) == a / b && td_fmod_i32(a, b) == a % b);
    }
}

TD_TEST(complex_quotients_survive_large_and_small_parts)
{
    double _Complex big = td_make_c128(1e300, 1e300), one = td_div_c128(big, big);
    CHECK(creal(one) == 1 && cimag(one) == 0);
    float _Complex q = td_div_c64(td_make_c64(1, 2), td_make_c64(3, -4));
    CHECK_NEAR(crealf(q), -0.2, 1e-7);
    CHECK_NEAR(cimagf(q), 0.4, 1e-7);
    float _Complex infinite = td_div_c64(td_make_c64(1, 0), td_make_c64(0, 0));
    CHECK(isinf(crealf(infinite)) && isnan(cimagf(infinite)));
    float _Complex product = td_mul_c64(td_make_c64(INFINITY, 0), td_make_c64(1, 0));
    CHECK(isinf(crealf(product)) && isnan(cimagf(product)));             /* the plain formula, not Annex G's */
    double _Complex small = td_log1p_c128(td_make_c128(1e-10, 1e-10)), e = td_expm1_c128(td_make_c128(1e-10, 1e-10));
    CHECK_NEAR(creal(small), 1e-10, 1e-19);
    CHECK_NEAR(cimag(e), 1e-10 + 1e-20, 1e-25);
    CHECK(creal(td_sgn_c128(0)) == 0 && td_abs_c64(td_make_c64(3e38f, 0)) == 3e38f);
    CHECK_NEAR(creal(td_sinc_c128(td_make_c128(1, 1))), -1.8380389551874887, 1e-14);
}
