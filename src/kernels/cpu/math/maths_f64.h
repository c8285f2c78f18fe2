/* The double-precision functions of mathematics, written so that a loop over them vectorises.
 *
 * Every function is straight-line code: both sides of each choice are computed and one is picked, exponents are
 * moved by integer arithmetic, and there are no tables but the one of 2/pi, so gcc makes SIMD code of a
 * loop over any of them at every instruction-set level.  Where a product has to be fused the code says so (td_fma_f64);
 * without FMA hardware that is an ordinary multiplication and addition and costs a fraction of an ULP.
 *
 * The polynomials are minimax fits of our own (Remez exchange in 50 digits), the splittings of constants are the
 * usual ones of Cody and Waite (1980).  docs/accuracy.md has the measured errors; tools/ulp.py writes it. */
#ifndef TD_KERNELS_CPU_MATH_MATHS_F64_H
#define TD_KERNELS_CPU_MATH_MATHS_F64_H

#include <math.h>
#include <stdint.h>
#include <string.h>
#include "base/simd.h"

/* gcc keeps a call of a large function in a loop rather than inline it, and then nothing vectorises. */
#define TD_MATHS static inline __attribute__((always_inline, unused))

#ifdef TD_FUSED
TD_MATHS float  td_fma_f32(float a, float b, float c)    { return __builtin_fmaf(a, b, c); }
TD_MATHS double td_fma_f64(double a, double b, double c) { return __builtin_fma(a, b, c); }
#else
TD_MATHS float  td_fma_f32(float a, float b, float c)    { return a * b + c; }
TD_MATHS double td_fma_f64(double a, double b, double c) { return a * b + c; }
#endif
#define TD_FMA_F32 td_fma_f32
#define TD_FMA_F64 td_fma_f64
#define TD_FMA(a, b, c) _Generic((a) + (b) + (c), float: td_fma_f32, default: td_fma_f64)(a, b, c)

/* TD_POLY_F64(n, x, c0, ..., c[n-1]) is c0 + c1 x + ... by Horner's rule. */
#define TD_POLY_F64(n, x, ...) TD_HORNER_##n(td_fma_f64, x, __VA_ARGS__)
#define TD_POLY_F32(n, x, ...) TD_HORNER_##n(td_fma_f32, x, __VA_ARGS__)
#define TD_HORNER_1(f, x, c) (c)
#define TD_HORNER_2(f, x, c, ...) f(x, TD_HORNER_1(f, x, __VA_ARGS__), c)
#define TD_HORNER_3(f, x, c, ...) f(x, TD_HORNER_2(f, x, __VA_ARGS__), c)
#define TD_HORNER_4(f, x, c, ...) f(x, TD_HORNER_3(f, x, __VA_ARGS__), c)
#define TD_HORNER_5(f, x, c, ...) f(x, TD_HORNER_4(f, x, __VA_ARGS__), c)
#define TD_HORNER_6(f, x, c, ...) f(x, TD_HORNER_5(f, x, __VA_ARGS__), c)
#define TD_HORNER_7(f, x, c, ...) f(x, TD_HORNER_6(f, x, __VA_ARGS__), c)
#define TD_HORNER_8(f, x, c, ...) f(x, TD_HORNER_7(f, x, __VA_ARGS__), c)
#define TD_HORNER_9(f, x, c, ...) f(x, TD_HORNER_8(f, x, __VA_ARGS__), c)
#define TD_HORNER_10(f, x, c, ...) f(x, TD_HORNER_9(f, x, __VA_ARGS__), c)
#define TD_HORNER_11(f, x, c, ...) f(x, TD_HORNER_10(f, x, __VA_ARGS__), c)
#define TD_HORNER_12(f, x, c, ...) f(x, TD_HORNER_11(f, x, __VA_ARGS__), c)
#define TD_HORNER_13(f, x, c, ...) f(x, TD_HORNER_12(f, x, __VA_ARGS__), c)
#define TD_HORNER_14(f, x, c, ...) f(x, TD_HORNER_13(f, x, __VA_ARGS__), c)
#define TD_HORNER_15(f, x, c, ...) f(x, TD_HORNER_14(f, x, __VA_ARGS__), c)
#define TD_HORNER_16(f, x, c, ...) f(x, TD_HORNER_15(f, x, __VA_ARGS__), c)
#define TD_HORNER_17(f, x, c, ...) f(x, TD_HORNER_16(f, x, __VA_ARGS__), c)
#define TD_HORNER_18(f, x, c, ...) f(x, TD_HORNER_17(f, x, __VA_ARGS__), c)
#define TD_HORNER_19(f, x, c, ...) f(x, TD_HORNER_18(f, x, __VA_ARGS__), c)
#define TD_HORNER_20(f, x, c, ...) f(x, TD_HORNER_19(f, x, __VA_ARGS__), c)
#define TD_HORNER_21(f, x, c, ...) f(x, TD_HORNER_20(f, x, __VA_ARGS__), c)
#define TD_HORNER_22(f, x, c, ...) f(x, TD_HORNER_21(f, x, __VA_ARGS__), c)
#define TD_HORNER_23(f, x, c, ...) f(x, TD_HORNER_22(f, x, __VA_ARGS__), c)
#define TD_HORNER_24(f, x, c, ...) f(x, TD_HORNER_23(f, x, __VA_ARGS__), c)
#define TD_HORNER_25(f, x, c, ...) f(x, TD_HORNER_24(f, x, __VA_ARGS__), c)
#define TD_HORNER_26(f, x, c, ...) f(x, TD_HORNER_25(f, x, __VA_ARGS__), c)
#define TD_HORNER_27(f, x, c, ...) f(x, TD_HORNER_26(f, x, __VA_ARGS__), c)

TD_MATHS uint64_t td_f64_bits(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, 8);
    return bits;
}
TD_MATHS double td_bits_f64(uint64_t bits)
{
    double x;
    memcpy(&x, &bits, 8);
    return x;
}

#define TD_INF  __builtin_inf()
#define TD_NAN  __builtin_nan("")
#define TD_LN2  0.6931471805599453
#define TD_PI   3.141592653589793
/* ln 2 and pi/2 in pieces; the first piece of ln 2 has 32 bits, so its product with an exponent is exact. */
#define TD_LN2_HIGH  0x1.62e42feep-1
#define TD_LN2_LOW   0x1.a39ef35793c76p-33
#define TD_PIO2_HIGH 0x1.921fb54442d18p+0
#define TD_PIO2_LOW  0x1.1a62633145c07p-54

/* ---- classification, signs, rounding, choosing */

TD_MATHS int td_isnan_f64(double x)    { return x != x; }
TD_MATHS int td_isinf_f64(double x)    { return __builtin_fabs(x) == TD_INF; }
TD_MATHS int td_isfinite_f64(double x) { return __builtin_fabs(x) < TD_INF; }
TD_MATHS int td_signbit_f64(double x)  { return (int)(td_f64_bits(x) >> 63); }

TD_MATHS double td_abs_f64(double x)                  { return __builtin_fabs(x); }
TD_MATHS double td_copysign_f64(double x, double s)   { return __builtin_copysign(x, s); }
TD_MATHS double td_floor_f64(double x)                { return __builtin_floor(x); }
TD_MATHS double td_ceil_f64(double x)                 { return __builtin_ceil(x); }
TD_MATHS double td_trunc_f64(double x)                { return __builtin_trunc(x); }
TD_MATHS double td_round_f64(double x)                { return __builtin_rint(x); }    /* halves to even */
TD_MATHS double td_frac_f64(double x)                 { return x - __builtin_trunc(x); }
TD_MATHS double td_sqrt_f64(double x)                 { return __builtin_sqrt(x); }
TD_MATHS double td_rsqrt_f64(double x)                { return 1.0 / __builtin_sqrt(x); }
/* NaN has no sign in PyTorch: 0. */
TD_MATHS double td_sign_f64(double x)                 { return x > 0 ? 1.0 : x < 0 ? -1.0 : 0.0; }
TD_MATHS double td_sgn_f64(double x)                  { return td_sign_f64(x); }

/* maximum and minimum hand on a NaN, fmax and fmin prefer the number.  In two steps: one expression of both choices
 * would keep minimum(maximum(x, low), high) from being vectorised. */
TD_MATHS double td_maximum_f64(double a, double b)
{
    double m = a > b ? a : b;
    return a != a ? a : m;
}
TD_MATHS double td_minimum_f64(double a, double b)
{
    double m = a < b ? a : b;
    return a != a ? a : m;
}
TD_MATHS double td_fmax_f64(double a, double b)
{
    double m = a > b ? a : b;
    return b != b ? a : m;
}
TD_MATHS double td_fmin_f64(double a, double b)
{
    double m = a < b ? a : b;
    return b != b ? a : m;
}

/* The neighbour of a on the way to b.  Away from zero is one more in the bits, towards it one less. */
TD_MATHS double td_nextafter_f64(double a, double b)
{
    uint64_t bits = td_f64_bits(a);
    double up = td_bits_f64(bits + 1), down = td_bits_f64(bits - 1);
    double step = (a < b) == (a > 0) ? up : down;
    double first = td_bits_f64((td_f64_bits(b) & 0x8000000000000000u) | 1);
    double r = a == 0 ? first : step;
    r = a == b ? b : r;
    return a != a || b != b ? a + b : r;
}

/* ---- exact products and sums: a + b = result + *rest (Knuth's two-sum), a b = result + *rest (by fma, or Dekker, 1971) */

TD_MATHS double td_two_sum_f64(double a, double b, double *rest)
{
    double s = a + b, t = s - a;
    *rest = (a - (s - t)) + (b - t);
    return s;
}
TD_MATHS double td_two_product_f64(double a, double b, double *rest)
{
    double p = a * b;
#ifdef TD_FUSED
    *rest = __builtin_fma(a, b, -p);
#else
    double ta = a * 0x1.0000002p27, tb = b * 0x1.0000002p27;       /* Dekker: halves of 26 bits */
    double ah = ta - (ta - a), al = a - ah, bh = tb - (tb - b), bl = b - bh;
    *rest = ((ah * bh - p) + ah * bl + al * bh) + al * bl;
#endif
    return p;
}

/* ---- exponentials */

/* exp(x - less) 2^shift, less being small.  Adding 1.5 2^52 rounds x log2(e) to an integer that sits in the low bits;
 * the constant below carries twice the exponent bias as well, so halving the bits gives the exponents of two powers of
 * two whose product is 2^n.  Two steps, because 2^n alone may be out of range where the result isn't, subnormals
 * included.
 *
 * Two choices that look at the same variable become one with three branches, which costs twice as much when it is
 * vectorised; so the ends of the range are recognised by t and by x. */
TD_MATHS double td_exp_shifted_f64(double x, double less, int shift)
{
    double t = td_fma_f64(x, 1.4426950408889634, 0x1.8p52 + 2046), n = t - (0x1.8p52 + 2046);
    double r = td_fma_f64(n, -TD_LN2_LOW, td_fma_f64(n, -TD_LN2_HIGH, x)) - less;
    double q = TD_POLY_F64(10, r,
        0.5000000000000011, 0.1666666666666641, 0.04166666666652914, 0.008333333333495726, 0.0013888888943942729,
        0.00019841269505026, 2.4801492738925422e-05, 2.7557586788645112e-06, 2.7630387588199824e-07,
        2.5000217284910115e-08);
    double p = 1.0 + td_fma_f64(r * r, q, r);
    uint64_t e = td_f64_bits(t) + (uint64_t)(int64_t)shift;
    double y = p * td_bits_f64((e >> 1) << 52) * td_bits_f64((e - (e >> 1)) << 52);
    y = t > 0x1.8p52 + 2046 + 1200 ? TD_INF : y;
    return x < -830.0 ? 0.0 : y;
}
TD_MATHS double td_exp_f64(double x) { return td_exp_shifted_f64(x, 0.0, 0); }

/* The same without a constant: what x is above the nearest whole number is exact. */
TD_MATHS double td_exp2_f64(double x)
{
    double t = x + (0x1.8p52 + 2046), r = x - (t - (0x1.8p52 + 2046));
    double q = TD_POLY_F64(12, r,
        0.6931471805599453, 0.24022650695910072, 0.055504108664821736, 0.009618129107628562, 0.0013333558146381738,
        0.00015403530393171732, 1.5252733864844704e-05, 1.3215487003487834e-06, 1.0178047531328546e-07,
        7.054814808203157e-09, 4.4572392928663114e-10, 2.5855276422141982e-11);
    double p = td_fma_f64(r, q, 1.0);
    uint64_t e = td_f64_bits(t);
    double y = p * td_bits_f64((e >> 1) << 52) * td_bits_f64((e - (e >> 1)) << 52);
    y = t > 0x1.8p52 + 2046 + 1100 ? TD_INF : y;
    return x < -1100.0 ? 0.0 : y;
}

/* exp(x) - 1 = 2^n (exp(r) - 1) + (2^n - 1), in halves so that 2^1024 is in reach. */
TD_MATHS double td_expm1_f64(double x)
{
    double t = td_fma_f64(x, 1.4426950408889634, 0x1.8p52 + 1022), n = t - (0x1.8p52 + 1022);
    double r = td_fma_f64(n, -TD_LN2_LOW, td_fma_f64(n, -TD_LN2_HIGH, x));
    double q = TD_POLY_F64(11, r,
        0.5000000000000001, 0.1666666666666667, 0.04166666666665219, 0.008333333333326103, 0.0013888888895633087,
        0.00019841269874945519, 2.4801574492521546e-05, 2.7557255232247675e-06, 2.756794595011087e-07,
        2.5105289896108737e-08, 1.768786735466743e-09);
    double p = td_fma_f64(r * r, q, r), half = td_bits_f64(td_f64_bits(t) << 52);
    double y = 2.0 * td_fma_f64(half, p, half - 0.5);
    y = t > 0x1.8p52 + 1022 + 1024.5 ? TD_INF : y;
    return __builtin_copysign(x < -45.0 ? -1.0 : y, x);
}

/* By exp(-|x|), which can't overflow: 1 / (1 + z) on the right, z / (1 + z) on the left. */
TD_MATHS double td_sigmoid_f64(double x)
{
    double z = td_exp_f64(-__builtin_fabs(x));
    return (x < 0 ? z : 1.0) / (1.0 + z);
}

/* ---- logarithms */

/* x = 2^k (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)).  Good for positive numbers; others get fixed up by
 * td_log_special.  Conversions from 64-bit integers are by hand: only AVX-512 has an instruction for them. */
TD_MATHS double td_log_split_f64(double x, double *k)
{
    double bias = x < 0x1p-1022 ? 0x1p52 + 1077.0 : 0x1p52 + 1023.0;
    uint64_t bits = td_f64_bits(x < 0x1p-1022 ? x * 0x1p54 : x) + (0x3ff0000000000000u - 0x3fe6a09e667f3bcdu);
    *k = td_bits_f64(0x4330000000000000u | (bits >> 52)) - bias;
    return td_bits_f64((bits & 0x000fffffffffffffu) + 0x3fe6a09e667f3bcdu) - 1.0;
}
/* For x: y where it is positive and finite.  The last condition is about bits so that it stays a separate choice. */
TD_MATHS double td_log_special_f64(double x, double y)
{
    double other = x == 0 ? -TD_INF : TD_NAN;
    y = x > 0 ? y : other;
    return (int64_t)td_f64_bits(x) >= 0x7ff0000000000000 ? x : y;
}
/* log(1 + f) = f - f^2/2 + *tail, with s = f / (2 + f): log(1 + f) = 2 atanh(s). */
TD_MATHS double td_log_tail_f64(double f)
{
    double s = f / (2.0 + f), z = s * s, h = 0.5 * f * f;
    return s * td_fma_f64(z, TD_POLY_F64(7, z,
        0.6666666666666735, 0.39999999999409563, 0.2857142874369174, 0.22222198422971787, 0.18183572940825285,
        0.15313810548396342, 0.14798537503869383), h);
}
TD_MATHS double td_log_f64(double x)
{
    double k, f = td_log_split_f64(x, &k), h = 0.5 * f * f;
    double y = td_fma_f64(k, TD_LN2_HIGH, f - (h - td_fma_f64(k, TD_LN2_LOW, td_log_tail_f64(f))));
    return td_log_special_f64(x, y);
}
/* log(x) in another base, with log(1 + f) in two pieces (the high one has 32 bits or fewer) times 1 / log(base). */
TD_MATHS double td_log_base_f64(double x, double inv_high, double inv_low, double two_high, double two_low)
{
    double k, f = td_log_split_f64(x, &k), h = 0.5 * f * f;
    double high = td_bits_f64(td_f64_bits(f - h) & 0xffffffff00000000u);
    double low = ((f - high) - h) + td_log_tail_f64(f);
    double a = k * two_high, b = high * inv_high, sum = a + b;
    double rest = td_fma_f64(low + high, inv_low, td_fma_f64(low, inv_high, k * two_low));
    return td_log_special_f64(x, sum + (rest + ((a - sum) + b)));
}
TD_MATHS double td_log2_f64(double x)
{
    return td_log_base_f64(x, 0x1.71547652p+0, 0x1.705fc2eefa2p-33, 1.0, 0.0);
}
TD_MATHS double td_log10_f64(double x)
{
    return td_log_base_f64(x, 0x1.bcb7b152p-2, 0x1.b9438ca9aadd5p-36, 0x1.34413509f6p-2, 0x1.9fef311f12b36p-42);
}
/* 1 + x = 2^k (1 + f), where f is made from x itself, so nothing of a small x is lost. */
TD_MATHS double td_log1p_f64(double x)
{
    uint64_t e = (td_f64_bits(1.0 + x) + (0x3ff0000000000000u - 0x3fe6a09e667f3bcdu)) >> 52;
    double k = td_bits_f64(0x4330000000000000u | e) - (0x1p52 + 1023.0);
    double s = td_bits_f64((2048 - e) << 52);                                  /* 4 2^-k: 2^-1024 itself is subnormal */
    double f = (x * s) * 0.25 + (s * 0.25 - 1.0), h = 0.5 * f * f;
    double y = td_fma_f64(k, TD_LN2_HIGH, f - (h - td_fma_f64(k, TD_LN2_LOW, td_log_tail_f64(f))));
    double other = x == -1.0 ? -TD_INF : TD_NAN;
    y = x > -1.0 ? y : other;
    return (int64_t)td_f64_bits(x) >= 0x7ff0000000000000 ? x : __builtin_copysign(y, x);
}

/* log(exp(a) + exp(b)): the larger one plus log1p of what the smaller one is of it.  Equal infinities would be inf - inf. */
TD_MATHS double td_logaddexp_f64(double a, double b)
{
    double m = td_maximum_f64(a, b), d = -__builtin_fabs(a - b);
    double y = m + td_log1p_f64(td_exp_f64(d));
    return a == b && td_isinf_f64(a) ? a : a != a ? a : b != b ? b : y;
}
TD_MATHS double td_logaddexp2_f64(double a, double b)
{
    double m = td_maximum_f64(a, b), d = -__builtin_fabs(a - b);
    double y = td_fma_f64(td_log1p_f64(td_exp2_f64(d)), 1.4426950408889634, m);
    return a == b && td_isinf_f64(a) ? a : a != a ? a : b != b ? b : y;
}
/* 0 where x is 0, whatever y is; but a NaN in y stays. */
TD_MATHS double td_xlogy_f64(double x, double y)
{
    double r = x * td_log_f64(y);
    return y != y ? y : x == 0 ? 0.0 : r;
}
TD_MATHS double td_xlog1py_f64(double x, double y)
{
    double r = x * td_log1p_f64(y);
    return y != y ? y : x == 0 ? 0.0 : r;
}
/* -x log(x), with its limit 0 at 0 and -inf below. */
TD_MATHS double td_entr_f64(double x)
{
    double y = -x * td_log_f64(x);
    return x != x ? x : x > 0 ? y : x == 0 ? 0.0 : -TD_INF;
}

/* ---- powers */

/* log(x) as *low plus the result, good to about 2^-65, for pow.  x is positive. */
TD_MATHS double td_log_pair_f64(double x, double *low)
{
    double k, f = td_log_split_f64(x, &k);
    /* s + sl = f / (2 + f), z + zl its square, u + ul its cube */
    double d = 2.0 + f, dl = f - (d - 2.0), r = 1.0 / d, s = f * r, rest, zl, ul, vl;
    double sd = td_two_product_f64(s, d, &rest);
    double sl = (((f - sd) - rest) - s * dl) * r;
    double z = td_two_product_f64(s, s, &zl);
    zl = td_fma_f64(s + s, sl, zl);
    double u = td_two_product_f64(s, z, &ul);
    ul += td_fma_f64(s, zl, sl * z);
    double v = td_two_product_f64(u, 0x1.5555555555555p-1, &vl);               /* 2/3, and its next bits */
    vl += td_fma_f64(u, 0x1.5555555555555p-55, ul * 0x1.5555555555555p-1);
    double w = u * z * TD_POLY_F64(7, z,
        0.4000000000000228, 0.2857142857008691, 0.22222222522335724, 0.1818178414369703, 0.1538676814813298,
        0.13256554509301893, 0.13198870194640358);
    double a, b, h = td_two_sum_f64(k * TD_LN2_HIGH, s + s, &a);
    h = td_two_sum_f64(h, v, &b);
    double l = (a + b) + td_fma_f64(k, TD_LN2_LOW, w + ((sl + sl) + vl)), high = h + l;
    *low = (h - high) + l;
    return high;
}
/* exp(y log|x|): an absolute error of the product is a relative one of the result, hence logarithm and product in two pieces each. */
TD_MATHS double td_pow_f64(double x, double y)
{
    double a = __builtin_fabs(x), low, pl;
    double high = td_log_pair_f64(a, &low);
    high = td_log_special_f64(a, high);
    double p = td_two_product_f64(y, high, &pl), r = td_exp_shifted_f64(p, -td_fma_f64(y, low, pl), 0);
    /* A negative base: the sign follows an odd exponent, and other fractional ones have no real result. */
    double whole = __builtin_trunc(y), half = y * 0.5;
    int odd = whole == y && __builtin_trunc(half) != half;
    r = td_bits_f64(td_f64_bits(r) | (odd ? td_f64_bits(x) & 0x8000000000000000u : 0));
    r = x < 0 && a < TD_INF && whole != y ? TD_NAN : r;
    r = a == 1 && __builtin_fabs(y) == TD_INF ? 1.0 : r;
    return y == 0 || x == 1 ? 1.0 : r;
}
/* PyTorch's: the power of two is rounded, and may overflow, before it is multiplied. */
TD_MATHS double td_ldexp_f64(double x, double n) { return x * td_exp2_f64(n); }

/* Arguments whose squares would over- or underflow are scaled by 2^600; the sum of the two keeps what its terms were rounded by. */
TD_MATHS double td_hypot_f64(double x, double y)
{
    double a = __builtin_fabs(x), b = __builtin_fabs(y), big = a > b ? a : b, small = a > b ? b : a;
    double back = big > 0x1p500 ? 0x1p600 : big < 0x1p-500 ? 0x1p-600 : 1.0;
    double scale = big > 0x1p500 ? 0x1p-600 : big < 0x1p-500 ? 0x1p600 : 1.0;
    big *= scale;
    small *= scale;
    double p, q, pp = td_two_product_f64(big, big, &p), qq = td_two_product_f64(small, small, &q);
    double s = pp + qq, r = __builtin_sqrt(s + (((pp - s) + qq) + (p + q))) * back;
    r = x != x || y != y ? x + y : r;
    return a == TD_INF || b == TD_INF ? TD_INF : r;
}

/* ---- sine, cosine, tangent */

/* x = (4 m + quadrant) pi/2 + high + low, with high + low in [-pi/4, pi/4] or a hair beyond. */
struct td_angle_f64 { double high, low; uint64_t quadrant; };

/* The bits of 2/pi that matter for arguments of about 2^(16 row + 54): fraction of 2^(16 row) 2/pi, in four pieces.
 * What is left out contributes whole turns.  After Payne and Hanek (1983). */
static const double td_two_over_pi[4][61] __attribute__((unused)) = {
    {
        0x1.45f306dc9c882p-1, 0x1.06dc9c882a53fp-1, 0x1.391054a7f09d5p-2, 0x1.529fc2757d1f5p-4,
        0x1.f84eafa3ea69bp-1, 0x1.5f47d4d377036p-2, 0x1.ea69bb81b6c52p-1, 0x1.bb81b6c52b327p-1,
        0x1.b6c52b3278872p-1, 0x1.2b3278872083fp-1, 0x1.e21c820ff28b1p-3, 0x1.2083fca2c757bp-1,
        0x1.fca2c757bd778p-1, 0x1.8eaf7aef1586dp-2, 0x1.bd778ac36e48dp-1, 0x1.8ac36e48dc748p-1,
        0x1.6e48dc74849bap-1, 0x1.b8e909374b801p-2, 0x1.09374b801924bp-2, 0x1.a5c00c925dd41p-1,
        0x1.924bba8274648p-6, 0x1.77504e8c90e7fp-3, 0x1.3a32439fc3bd6p-5, 0x1.2439fc3bd6396p-1,
        0x1.fc3bd63962534p-1, 0x1.d63962534e7ddp-1, 0x1.62534e7dd1046p-1, 0x1.4e7dd1046bea5p-1,
        0x1.d1046bea5d768p-1, 0x1.afa975da24274p-3, 0x1.75da24274ce38p-3, 0x1.1213a671c09adp-2,
        0x1.d338e04d68befp-1, 0x1.c09ad17df904ep-2, 0x1.68befc827323ap-1, 0x1.f904e64758e60p-2,
        0x1.cc8eb1cc1a99cp-3, 0x1.ac7306a673e93p-1, 0x1.06a673e93908bp-1, 0x1.cfa4e422fc5dep-3,
        0x1.3908bf177bf25p-1, 0x1.7e2ef7e4a0ec7p-2, 0x1.7bf250763ff12p-1, 0x1.41d8ffc4bffefp-3,
        0x1.ff897ffde0598p-4, 0x1.2fffbc0b301fdp-1, 0x1.bc0b301fde5e2p-1, 0x1.301fde5e2316bp-1,
        0x1.de5e2316b414dp-1, 0x1.18b5a0a6d1f6dp-4, 0x1.6829b47db4d9fp-2, 0x1.b47db4d9fb3c9p-2,
        0x1.b4d9fb3c9f2c2p-2, 0x1.fb3c9f2c26dd3p-2, 0x1.3e584dba7a31fp-3, 0x1.36e9e8c7ecd3cp-5,
        0x1.3d18fd9a797fap-2, 0x1.fb34f2ff516bap-3, 0x1.3cbfd45aea4f7p-1, 0x1.d45aea4f758fdp-1,
        0x1.d49eeb1faf97cp-2,
    },
    {
        0x1.4a7f09d5f47d4p-54, 0x1.09d5f47d4d377p-54, 0x1.e8fa9a6ee06dbp-55, 0x1.a6ee06db14accp-59,
        0x1.7036d8a5664f1p-54, 0x1.b14acc9e21c82p-55, 0x1.664f10e4107f9p-54, 0x1.10e4107f9458ep-54,
        0x1.07f9458eaf7aep-58, 0x1.9458eaf7aef15p-54, 0x1.abdebbc561b72p-56, 0x1.aef1586dc91b8p-54,
        0x1.586dc91b8e909p-54, 0x1.92371d2126e97p-55, 0x1.8e909374b8019p-54, 0x1.26e9700324977p-55,
        0x1.700324977504ep-55, 0x1.24977504e8c90p-55, 0x1.7504e8c90e7f0p-55, 0x1.d1921cfe1deb1p-56,
        0x1.cfe1deb1cb129p-60, 0x1.deb1cb129a73ep-60, 0x1.cb129a73ee882p-60, 0x1.29a73ee88235fp-56,
        0x1.cfba208d7d4bap-54, 0x1.046bea5d76890p-57, 0x1.7d4baed1213a6p-54, 0x1.aed1213a671c0p-54,
        0x1.213a671c09ad1p-54, 0x1.9c7026b45f7e4p-56, 0x1.35a2fbf209cc8p-59, 0x1.7df904e64758ep-58,
        0x1.904e64758e60dp-54, 0x1.91d639835339fp-56, 0x1.8e60d4ce7d272p-54, 0x1.a99cfa4e422fcp-55,
        0x1.f49c845f8bbdfp-56, 0x1.2117e2ef7e4a0p-54, 0x1.e2ef7e4a0ec7fp-54, 0x1.f9283b1ff897fp-56,
        0x1.d8ffc4bffef02p-59, 0x1.fc4bffef02cc0p-55, 0x1.fff7816603fbcp-54, 0x1.6603fbcbc462dp-62,
        0x1.fde5e2316b414p-61, 0x1.cbc462d6829b4p-54, 0x1.8b5a0a6d1f6d3p-56, 0x1.05368fb69b3f6p-55,
        0x1.47db4d9fb3c9fp-54, 0x1.b3f6793e584dbp-59, 0x1.6793e584dba7ap-55, 0x1.e584dba7a31fbp-55,
        0x1.b74f463f669e5p-56, 0x1.a31fb34f2ff51p-55, 0x1.669e5fea2d752p-56, 0x1.7fa8b5d49eeb1p-58,
        0x1.16ba93dd63f5fp-55, 0x1.27bac7ebe5f17p-56, 0x1.63f5f2f8bd9e8p-55, 0x1.f2f8bd9e839cfp-55,
        0x1.7b3d0739f78a5p-56,
    },
    {
        0x1.a6ee06db14accp-107, 0x1.b6c52b3278872p-113, 0x1.4acc9e21c820fp-111, 0x1.3c439041fe516p-112,
        0x1.c820ff28b1d5ep-111, 0x1.fe5163abdebbcp-112, 0x1.163abdebbc561p-108, 0x1.5ef5de2b0db92p-107,
        0x1.e2b0db92371d2p-111, 0x1.0db92371d2126p-107, 0x1.1b8e909374b80p-110, 0x1.d2126e9700324p-107,
        0x1.ba5c00c925dd4p-109, 0x1.924bba8274648p-118, 0x1.25dd413a32439p-109, 0x1.413a32439fc3bp-109,
        0x1.1921cfe1deb1cp-108, 0x1.cfe1deb1cb129p-108, 0x1.deb1cb129a73ep-108, 0x1.962534e7dd104p-109,
        0x1.4e7dd1046bea5p-113, 0x1.d1046bea5d768p-113, 0x1.afa975da24274p-115, 0x1.4baed1213a671p-110,
        0x1.da24274ce3813p-107, 0x1.3a671c09ad17dp-110, 0x1.c7026b45f7e41p-108, 0x1.35a2fbf209cc8p-107,
        0x1.f7e413991d639p-108, 0x1.3991d63983533p-112, 0x1.d639835339f49p-112, 0x1.835339f49c845p-112,
        0x1.339f49c845f8bp-108, 0x1.272117e2ef7e4p-110, 0x1.17e2ef7e4a0ecp-110, 0x1.77bf250763ff1p-109,
        0x1.250763ff12fffp-109, 0x1.d8ffc4bffef02p-107, 0x1.c4bffef02cc07p-107, 0x1.fbc0b301fde5ep-109,
        0x1.980fef2f118b5p-112, 0x1.fde5e2316b414p-109, 0x1.788c5ad05368fp-107, 0x1.a0a6d1f6d367ep-116,
        0x1.b47db4d9fb3c9p-114, 0x1.f6d367ecf27cbp-108, 0x1.9fb3c9f2c26ddp-110, 0x1.e4f96136e9e8cp-109,
        0x1.6136e9e8c7ecdp-109, 0x1.4f463f669e5fep-112, 0x1.8fd9a797fa8b5p-110, 0x1.a797fa8b5d49ep-110,
        0x1.fd45aea4f758fp-109, 0x1.aea4f758fd7cbp-109, 0x1.eeb1faf97c5ecp-110, 0x1.f5f2f8bd9e839p-111,
        0x1.7c5ecf41ce7dep-110, 0x1.67a0e73ef14a5p-109, 0x1.ce7de294a4ba9p-110, 0x1.78a5292ea6bfbp-108,
        0x1.497535fdafd88p-111,
    },
    {
        0x1.3c439041fe516p-160, 0x1.07f9458eaf7aep-170, 0x1.e5163abdebbc5p-164, 0x1.d5ef5de2b0db9p-167,
        0x1.ebbc561b7246ep-164, 0x1.586dc91b8e909p-166, 0x1.6e48dc74849bap-161, 0x1.b8e909374b801p-162,
        0x1.26e9700324977p-167, 0x1.d2e006492eea0p-160, 0x1.924bba8274648p-166, 0x1.2eea09d1921cfp-160,
        0x1.3a32439fc3bd6p-165, 0x1.cfe1deb1cb129p-172, 0x1.f877ac72c4a69p-162, 0x1.ac72c4a69cfbap-162,
        0x1.62534e7dd1046p-161, 0x1.4e7dd1046bea5p-161, 0x1.d1046bea5d768p-161, 0x1.afa975da24274p-163,
        0x1.aed1213a671c0p-166, 0x1.213a671c09ad1p-166, 0x1.9c7026b45f7e4p-168, 0x1.8135a2fbf209cp-163,
        0x1.68befc827323ap-161, 0x1.f209cc8eb1cc1p-163, 0x1.cc8eb1cc1a99cp-163, 0x1.d639835339f49p-160,
        0x1.06a673e93908bp-161, 0x1.3e93908bf177bp-165, 0x1.908bf177bf250p-165, 0x1.f177bf250763fp-165,
        0x1.7bf250763ff12p-161, 0x1.41d8ffc4bffefp-163, 0x1.ff897ffde0598p-164, 0x1.7ffde05980fefp-164,
        0x1.7816603fbcbc4p-162, 0x1.980fef2f118b5p-160, 0x1.ef2f118b5a0a6p-160, 0x1.18b5a0a6d1f6dp-164,
        0x1.414da3eda6cfdp-165, 0x1.b47db4d9fb3c9p-162, 0x1.6d367ecf27cb0p-160, 0x1.9e4f96136e9e8p-169,
        0x1.e584dba7a31fbp-167, 0x1.36e9e8c7ecd3cp-165, 0x1.e8c7ecd3cbfd4p-165, 0x1.fb34f2ff516bap-163,
        0x1.e5fea2d7527bap-164, 0x1.45aea4f758fd7p-165, 0x1.a93dd63f5f2f8p-163, 0x1.d63f5f2f8bd9ep-163,
        0x1.af97c5ecf41cep-162, 0x1.c5ecf41ce7de2p-162, 0x1.e839cfbc52949p-163, 0x1.9f78a5292ea6bp-164,
        0x1.4a525d4d7f6bfp-165, 0x1.2ea6bfb5fb11fp-164, 0x1.5fdafd88fc6aep-163, 0x1.7ec47e3574215p-162,
        0x1.f8d5d08560330p-164,
    },
};

/* Good for every finite double; infinities give NaN.  x 2/pi is a sum of exact products, of which multiples of 4
 * are dropped; what remains is added up carefully, because 61 of its leading bits can cancel. */
TD_MATHS struct td_angle_f64 td_reduce_f64(double x)
{
    uint64_t e = (td_f64_bits(x) >> 52) & 0x7ff, row = ((e < 1077 ? 1077 : e) - 1077) >> 4;
    double a = x * td_bits_f64((1023 - 16 * row) << 52);
    double r0, r1, r2;
    double p0 = td_two_product_f64(a, td_two_over_pi[0][row], &r0);
    double p1 = td_two_product_f64(a, td_two_over_pi[1][row], &r1);
    double p2 = td_two_product_f64(a, td_two_over_pi[2][row], &r2);
    double p3 = a * td_two_over_pi[3][row];
    p0 = p0 - 4.0 * __builtin_rint(p0 * 0.25);
    r0 = r0 - 4.0 * __builtin_rint(r0 * 0.25);
    p1 = p1 - 4.0 * __builtin_rint(p1 * 0.25);
    double l1, l2, m1, m2, m3, m4;
    double s = td_two_sum_f64(p0, r0, &l1);
    s = td_two_sum_f64(s, p1, &l2);
    double t = s + 0x1.8p52;
    s -= t - 0x1.8p52;
    double u = td_two_sum_f64(r1, p2, &m1), v = td_two_sum_f64(l1, l2, &m2);
    u = td_two_sum_f64(u, v, &m3);
    s = td_two_sum_f64(s, u, &m4);
    double tail = m4 + ((m1 + m3) + (m2 + (r2 + p3)));
    struct td_angle_f64 angle;
    angle.high = td_two_product_f64(s, TD_PIO2_HIGH, &angle.low);
    angle.low += td_fma_f64(s, TD_PIO2_LOW, tail * TD_PIO2_HIGH);
    angle.quadrant = td_f64_bits(t);
    return angle;
}
/* Cody and Waite's reduction: a third of the work, good for |x| < TD_ANGLE_SMALL_F64. */
#define TD_ANGLE_SMALL_F64 1e6
TD_MATHS struct td_angle_f64 td_reduce_small_f64(double x)
{
    double t = td_fma_f64(x, 0x1.45f306dc9c883p-1, 0x1.8p52), n = t - 0x1.8p52;
    double a = td_fma_f64(n, -0x1.921fb544p+0, x);
    double p = n * 0x1.0b4611a6p-34, b = a - p, bl = (a - b) - p;
    double q = n * 0x1.3198a2ep-69, c = b - q, cl = (b - c) - q;
    double low = (bl + cl) - n * 0x1.b839a252049c1p-104;
    struct td_angle_f64 angle;
    angle.high = c + low;
    angle.low = (c - angle.high) + low;
    angle.quadrant = td_f64_bits(t);
    return angle;
}
/* sin(x + low) and cos(x + low) on [-pi/4, pi/4]: a polynomial of x, and low times the first terms of its derivative. */
TD_MATHS double td_sin_kernel_f64(double x, double low)
{
    double z = x * x, v = z * x;
    double r = TD_POLY_F64(5, z, 0.008333333333322005, -0.00019841269829495766, 2.755731358766315e-06,
                           -2.5050742309895723e-08, 1.589590468216893e-10);
    return x - td_fma_f64(v, 0.1666666666666663, td_fma_f64(z, td_fma_f64(-v, r, 0.5 * low), -low));
}
TD_MATHS double td_cos_kernel_f64(double x, double low)
{
    double z = x * x, h = 0.5 * z, w = 1.0 - h;
    double r = z * TD_POLY_F64(6, z,
        0.041666666666666595, -0.0013888888888872906, 2.4801587288753946e-05, -2.7557314150077756e-07,
        2.0875696742642302e-09, -1.13583179953634e-11);
    return w + (((1.0 - w) - h) + td_fma_f64(z, r, -x * low));
}
/* The sine of an angle, `turn` quarters of a circle further on (the cosine: 1).  Odd quadrants take the cosine, the second bit is
 * the sign. */
TD_MATHS double td_sin_quadrant_f64(struct td_angle_f64 a, uint64_t turn)
{
    double s = td_sin_kernel_f64(a.high, a.low), c = td_cos_kernel_f64(a.high, a.low);
    uint64_t q = a.quadrant + turn;
    return td_bits_f64(td_f64_bits(q & 1 ? c : s) ^ (q & 2) << 62);
}
TD_MATHS double td_tan_quadrant_f64(struct td_angle_f64 a)
{
    double s = td_sin_kernel_f64(a.high, a.low), c = td_cos_kernel_f64(a.high, a.low);
    return (a.quadrant & 1 ? -c : s) / (a.quadrant & 1 ? s : c);
}
/* Below 2^-27 a sine or tangent is its argument, the products above may underflow there. */
TD_MATHS double td_sin_f64(double x)
{
    double y = td_sin_quadrant_f64(td_reduce_f64(x), 0);
    return __builtin_fabs(x) < 0x1p-27 ? x : y;
}
TD_MATHS double td_cos_f64(double x) { return td_sin_quadrant_f64(td_reduce_f64(x), 1); }
TD_MATHS double td_tan_f64(double x)
{
    double y = td_tan_quadrant_f64(td_reduce_f64(x));
    return __builtin_fabs(x) < 0x1p-27 ? x : y;
}
TD_MATHS double td_sin_small_f64(double x)
{
    double y = td_sin_quadrant_f64(td_reduce_small_f64(x), 0);
    return x == 0 ? x : y;
}
TD_MATHS double td_cos_small_f64(double x) { return td_sin_quadrant_f64(td_reduce_small_f64(x), 1); }
TD_MATHS double td_tan_small_f64(double x)
{
    double y = td_tan_quadrant_f64(td_reduce_small_f64(x));
    return x == 0 ? x : y;
}

/* sin(pi x) and cos(pi x), whose reduction is exact. */
TD_MATHS struct td_angle_f64 td_reduce_pi_f64(double x)
{
    double a = x - 2.0 * __builtin_rint(x * 0.5), t = a + a + 0x1.8p52, f = a - 0.5 * (t - 0x1.8p52);
    struct td_angle_f64 angle;
    angle.high = td_two_product_f64(f, TD_PI, &angle.low);
    angle.low = td_fma_f64(f, 2 * TD_PIO2_LOW, angle.low);
    angle.quadrant = td_f64_bits(t);
    return angle;
}
TD_MATHS double td_sinpi_f64(double x) { return td_sin_quadrant_f64(td_reduce_pi_f64(x), 0); }
TD_MATHS double td_sinc_f64(double x)
{
    double y = td_sinpi_f64(x) / (TD_PI * x);
    return __builtin_fabs(x) < 0x1p-28 ? 1.0 : y;
}

/* ---- inverse trigonometric functions */

/* (asin(s) - s) / s for z = s^2 <= 1/4 */
TD_MATHS double td_asin_tail_f64(double z)
{
    return z * TD_POLY_F64(13, z,
        0.1666666666666676, 0.07499999999970815, 0.04464285717459854, 0.030381942708421237, 0.022372214969652995,
        0.017351612336172394, 0.013980816712021825, 0.011398943170603058, 0.010780082574892744,
        0.0037070376800568306, 0.021705952564781184, -0.020996998154209412, 0.032627363592607386);
}
/* asin(a) = pi/2 - 2 asin(sqrt((1 - a) / 2)) above 1/2, and the same for acos. */
TD_MATHS double td_asin_f64(double x)
{
    double a = __builtin_fabs(x), z = a > 0.5 ? 0.5 - 0.5 * a : a * a, s = a > 0.5 ? __builtin_sqrt(z) : a;
    double t = s * td_asin_tail_f64(z);
    double wide = TD_PIO2_HIGH - (2.0 * s - (TD_PIO2_LOW - 2.0 * t));
    return __builtin_copysign(a > 0.5 ? wide : s + t, x);
}
TD_MATHS double td_acos_f64(double x)
{
    double a = __builtin_fabs(x), z = a > 0.5 ? 0.5 - 0.5 * a : a * a, s = a > 0.5 ? __builtin_sqrt(z) : x;
    double t = s * td_asin_tail_f64(z);
    double middle = TD_PIO2_HIGH - (s - (TD_PIO2_LOW - t));
    double left = 2.0 * (TD_PIO2_HIGH - (s - (TD_PIO2_LOW - t))), right = 2.0 * (s + t);
    return a > 0.5 ? (x < 0 ? left : right) : a <= 0.5 ? middle : x;
}
/* The angle of (b, a), both at least 0: atan(a / b), reduced to |t| <= tan(pi/8) by turning it by pi/4 or pi/2. */
TD_MATHS double td_atan_positive_f64(double a, double b)
{
    int steep = a > 2.414213562373095 * b, middle = a > 0.41421356237309503 * b;
    double t = (steep ? -b : middle ? a - b : a) / (steep ? a : middle ? a + b : b);
    double high = steep ? TD_PIO2_HIGH : middle ? 0.5 * TD_PIO2_HIGH : 0.0;
    double low = steep ? TD_PIO2_LOW : middle ? 0.5 * TD_PIO2_LOW : 0.0;
    double z = t * t;
    double p = z * TD_POLY_F64(11, z,
        -0.333333333333332, 0.19999999999953072, -0.14285714280148043, 0.11111110781189014, -0.09090897696451519,
        0.07692059188670594, -0.0666309302161008, 0.058478131319518824, -0.0503897764356961, 0.038056617274874055,
        -0.017898871185410642);
    return high + (t + td_fma_f64(t, p, low));
}
TD_MATHS double td_atan_f64(double x)
{
    return __builtin_copysign(td_atan_positive_f64(__builtin_fabs(x), 1.0), x);
}
/* Large and small arguments are scaled, so that nothing over- or underflows on the way to the quotient; two infinities are 45
 * degrees. */
TD_MATHS double td_atan2_f64(double y, double x)
{
    double a = __builtin_fabs(y), b = __builtin_fabs(x), big = a > b ? a : b;
    double scale = big > 0x1p1000 ? 0x1p-100 : big < 0x1p-900 ? 0x1p100 : 1.0;
    int same = a == TD_INF && b == TD_INF;
    double r = td_atan_positive_f64(same ? 1.0 : a * scale, same || big == 0 ? 1.0 : b * scale);
    r = td_signbit_f64(x) ? 2.0 * TD_PIO2_HIGH - (r - 2.0 * TD_PIO2_LOW) : r;
    return x != x || y != y ? x + y : __builtin_copysign(r, y);
}

/* ---- hyperbolic functions and their inverses */

/* With exp(a) / 2, which is in range as long as the result is.  Below 1, where exp(a) - exp(-a) would cancel, the odd series. */
TD_MATHS double td_sinh_f64(double x)
{
    double a = __builtin_fabs(x), z = a * a, e = td_exp_shifted_f64(a, 0.0, -1);
    double small = td_fma_f64(a * z, TD_POLY_F64(7, z,
        0.16666666666666669, 0.008333333333333148, 0.0001984126984143181, 2.755731915709124e-06,
        2.505212313375614e-08, 1.6057259991676135e-10, 7.75874226216441e-13), a);
    return __builtin_copysign(a < 1.0 ? small : e - 0.25 / e, x);
}
TD_MATHS double td_cosh_f64(double x)
{
    double e = td_exp_shifted_f64(__builtin_fabs(x), 0.0, -1);
    return e + 0.25 / e;
}
/* From 22 on tanh is 1 in double precision. */
TD_MATHS double td_tanh_f64(double x)
{
    double a = __builtin_fabs(x), e = td_expm1_f64(a > 22.0 ? 44.0 : a + a);
    return __builtin_copysign(x != x ? x : e / (e + 2.0), x);
}
/* log(1 + v), where v is a + sqrt(a^2 + 1) - 1 without its cancellation; from 2^60 on log(2 a). */
TD_MATHS double td_asinh_f64(double x)
{
    double a = __builtin_fabs(x), big = a > 0x1p60 ? TD_LN2 : 0.0;
    double v = a + a * a / (1.0 + __builtin_sqrt(td_fma_f64(a, a, 1.0)));
    return __builtin_copysign(td_log1p_f64(a > 0x1p60 ? a : v) + big, x);
}
TD_MATHS double td_acosh_f64(double x)
{
    double t = x - 1.0, big = x > 0x1p60 ? TD_LN2 : 0.0;
    double v = t + __builtin_sqrt(t * (x + 1.0));
    double y = td_log1p_f64(x > 0x1p60 ? x : v) + big;
    return x < 1.0 ? TD_NAN : y;
}
TD_MATHS double td_atanh_f64(double x)
{
    double a = __builtin_fabs(x);
    return __builtin_copysign(0.5 * td_log1p_f64((a + a) / (1.0 - a)), x);
}

/* ---- the error function and its relatives */

/* (1 + 2 a) exp(a^2) erfc(a) for a from 0.45 on is smooth in (a - 4) / (a + 4). */
TD_MATHS double td_erfcx_smooth_f64(double a)
{
    double t = (a - 4.0) / (a + 4.0);
    return TD_POLY_F64(23, t,
        1.2329951186255526, -0.13962111684056247, 0.015379652102621778, 0.06809705425468543, -0.10103906603642838,
        0.09373283499863742, -0.06633036580926178, 0.03716751553211513, -0.016197734094085224, 0.005031970034143391,
        -0.0007577730273150857, -0.00019925705470592975, 0.00015062049726941232, -2.439773193460779e-05,
        -1.1218603379313005e-05, 5.705737603220663e-06, 2.8739293100014545e-07, -8.184237771742518e-07,
        8.211991795807854e-08, 1.0238617110813986e-07, -2.2876995661301934e-08, -9.35320999193181e-09,
        3.265519843607427e-09);
}
TD_MATHS double td_erf_small_f64(double x)
{
    double z = x * x;
    return td_fma_f64(x, TD_POLY_F64(13, z,
        0.1283791670955126, -0.3761263890318375, 0.11283791670954857, -0.026866170645072896, 0.0052239776247808645,
        -0.00085483269787418, 0.00012055331036879583, -1.4925593506360982e-05, 1.646097280853056e-06,
        -1.6350025137276185e-07, 1.4657879317063364e-08, -1.1365664155696104e-09, 5.945259093885316e-11), x);
}
TD_MATHS double td_erfc_large_f64(double a)
{
    double low, high = td_two_product_f64(a, a, &low), g = td_erfcx_smooth_f64(a) / td_fma_f64(2.0, a, 1.0);
    return td_exp_shifted_f64(-high, low, 0) * g;
}
/* From 6.5 on erf is 1 in double precision. */
TD_MATHS double td_erf_f64(double x)
{
    double a = __builtin_fabs(x), c = a > 6.5 ? 6.5 : a;
    double y = c < 1.0 ? td_erf_small_f64(c) : 1.0 - td_erfc_large_f64(c);
    return __builtin_copysign(y, x);
}
TD_MATHS double td_erfc_f64(double x)
{
    double a = __builtin_fabs(x), c = a > 28.0 ? 28.0 : a;
    double large = td_erfc_large_f64(c);
    return a < 0.5 ? 1.0 - td_erf_small_f64(x) : x < 0 ? 2.0 - large : x != x ? x : large;
}
/* exp(x^2) erfc(x) */
TD_MATHS double td_erfcx_f64(double x)
{
    double a = __builtin_fabs(x), low, high = td_two_product_f64(a, a, &low);
    double c = a > 0x1p60 ? 0x1p60 : a;
    double e = td_exp_shifted_f64(high, high > 720.0 ? 0.0 : -low, 0);
    double g = a < 0.45 ? e * (1.0 - td_erf_small_f64(a)) : td_erfcx_smooth_f64(c) / td_fma_f64(2.0, a, 1.0);
    double y = x < 0 ? 2.0 * e - g : g;
    return x != x ? x : y;
}

/* ---- inverses of the error function and of the normal distribution */

TD_MATHS double td_erfinv_central_f64(double x)
{
    double z = x * x;
    return x * TD_POLY_F64(14, z,
        0.886226925452758, 0.2320136665346595, 0.12755617530431362, 0.08655212937106409, 0.0649596109426709,
        0.05173149547863752, 0.04283239484095982, 0.03652514070477257, 0.031127982155075798, 0.031688280831772955,
        0.008093491047341644, 0.07429405070023778, -0.07724951320383183, 0.11386635351359811);
}
/* The z >= 0 with erfc(z) = y, for y in (0, 0.5]: a fit good to 27 bits and one step of Halley's method, with
 * erfc(z) as exp(-z^2) g(z) scaled by 2^60, so that it stays normal for the smallest y. */
TD_MATHS double td_erfcinv_tail_f64(double y)
{
    double v = __builtin_sqrt(-td_log_f64(y)), t = (v - 2.0) / (v + 2.0);
    double z = v * TD_POLY_F64(13, t,
        0.8340941616575227, 0.43091765707665597, -0.4237640111512345, 0.20194474511610472, 0.0067483702557293015,
        -0.1282556584949705, 0.13761598864465127, -0.07117369654040136, -0.0147220178920721, 0.06579677790687427,
        -0.06554439432906663, 0.03548753060508723, -0.009098430111300232);
    double low, high = td_two_product_f64(z, z, &low), g = td_erfcx_smooth_f64(z) / td_fma_f64(2.0, z, 1.0);
    double d = 0.886226925452758 * (g - (y * 0x1p60) / td_exp_shifted_f64(-high, low, 60));
    return z + d * td_fma_f64(z, d, 1.0);
}
TD_MATHS double td_erfinv_f64(double x)
{
    double a = __builtin_fabs(x), tail = td_erfcinv_tail_f64(1.0 - a);
    tail = a == 1 ? TD_INF : a < 1 ? tail : TD_NAN;
    return a <= 0.5 ? td_erfinv_central_f64(x) : __builtin_copysign(tail, x);
}
TD_MATHS double td_ndtri_f64(double p)
{
    double q = p < 0.5 ? p : 1.0 - p, tail = td_erfcinv_tail_f64(q + q);
    tail = q > 0 ? tail : q == 0 ? TD_INF : TD_NAN;
    double d = p - 0.5;
    return 1.4142135623730951 * (__builtin_fabs(d) <= 0.25 ? td_erfinv_central_f64(d + d) : p < 0.5 ? -tail : tail);
}
/* log of the normal distribution function, by the scaled complement on the far left, by log1p of the complement
 * on the right. */
TD_MATHS double td_log_ndtr_f64(double x)
{
    double a = __builtin_fabs(x), low, high = td_two_product_f64(x, 0.5 * x, &low);
    double b = 0.7071067811865476 * (a > 1e150 ? 1e150 : a);
    double g = 0.5 * td_erfcx_smooth_f64(b) / td_fma_f64(2.0, b, 1.0);
    double middle = 0.5 * td_erf_small_f64(b);
    double tail = a < 0.75 ? 0.5 - middle : td_exp_shifted_f64(-high, a > 40.0 ? 0.0 : low, 0) * g;
    double left = td_log_f64(x < -1.0 ? g : tail) - (x < -1.0 ? high : 0.0), right = td_log1p_f64(-tail);
    return x != x ? x : x < 0 ? left : right;
}

/* ---- modified Bessel functions of the first kind: a power series up to 12, exp(x) / sqrt(x) f(1/x) beyond */

/* The series in z = x^2 / 4.  At 12 a rounding of z counts six times, so most of it is made good: the logarithm's
 * derivative is near 1 / (1 + x / 2). */
TD_MATHS double td_i0_small_f64(double a)
{
    double low, z = 0.25 * td_two_product_f64(a, a, &low);
    double p = td_fma_f64(z, TD_POLY_F64(18, z,
        1.0, 0.2500000000000002, 0.0277777777777772, 0.0017361111111117793, 6.944444444400332e-05,
        1.9290123458625653e-06, 3.936759884006175e-08, 6.151187427664421e-10, 7.594056993251913e-12,
        7.594073509823361e-14, 6.275962684853153e-16, 4.3590928962570654e-18, 2.5757944220054367e-20,
        1.3262027546305444e-22, 5.594400246901359e-25, 2.719285874471863e-27, 2.9891841734548056e-30,
        5.589407263466166e-32), 1.0);
    return td_fma_f64(p, 0.25 * low / td_fma_f64(0.5, a, 1.0), p);
}
TD_MATHS double td_i0_large_f64(double a)
{
    double t = 1.0 / (a < 12.0 ? 12.0 : a);
    return TD_POLY_F64(19, t,
        0.3989422804014327, 0.049867785050185895, 0.028050629081887993, 0.029219409895050924, 0.044740954105407245,
        0.09081303335077341, 0.20531407621846817, 2.4504596510705783, -94.08522113460306, 3887.845000538328,
        -115508.8651822292, 2558636.975476566, -41780659.65084488, 493563722.2703703, -4058060975.7370605,
        21543188826.338596, -61941154320.13508, 41495719160.48629, 147539767195.2393) * __builtin_sqrt(t);
}
TD_MATHS double td_i1_small_f64(double a)
{
    double low, z = 0.25 * td_two_product_f64(a, a, &low);
    double p = td_fma_f64(z, TD_POLY_F64(18, z,
        0.5, 0.08333333333333336, 0.006944444444444381, 0.00034722222222228783, 1.1574074074034697e-05,
        2.755731922549532e-07, 4.920949857495022e-09, 6.834652657847423e-11, 7.594057452154693e-13,
        6.903699244489283e-15, 5.2299942775333883e-17, 3.353026203310154e-19, 1.840291051873139e-21,
        8.829854309447799e-24, 3.517955036561898e-26, 1.5726601722769738e-28, 1.8641404968061855e-31,
        2.8718116861215e-33), 1.0);
    return 0.5 * a * td_fma_f64(p, 0.25 * low / td_fma_f64(0.5, a, 2.0), p);
}
TD_MATHS double td_i1_large_f64(double a)
{
    double t = 1.0 / (a < 12.0 ? 12.0 : a);
    return TD_POLY_F64(19, t,
        0.3989422804014327, -0.1496033551505444, -0.04675104847530652, -0.04090717220867902, -0.05752439508573548,
        -0.1109545037231914, -0.24609375683680138, -2.6075503410058536, 96.2118471986789, -3971.962422510828,
        117445.49119725052, -2587417.5770428297, 41951897.10161225, -490694520.0663235, 3972215706.407348,
        -20482930702.058704, 54497771057.793106, -12648144287.270956, -195544057391.5496) * __builtin_sqrt(t);
}
/* exp() is taken 2^-10 smaller, since it overflows before the Bessel functions do. */
TD_MATHS double td_i0_f64(double x)
{
    double a = __builtin_fabs(x), e = td_exp_shifted_f64(a, 0.0, -10);
    double large = e * td_i0_large_f64(a) * 0x1p10;
    large = a > 715.0 ? a * TD_INF : large;
    return a <= 12.0 ? td_i0_small_f64(a) : large;
}
TD_MATHS double td_i0e_f64(double x)
{
    double a = __builtin_fabs(x), e = td_exp_f64(-a);
    return x != x ? x : a <= 12.0 ? e * td_i0_small_f64(a) : td_i0_large_f64(a);
}
TD_MATHS double td_i1_f64(double x)
{
    double a = __builtin_fabs(x), e = td_exp_shifted_f64(a, 0.0, -10);
    double large = e * td_i1_large_f64(a) * 0x1p10;
    large = a > 715.0 ? a * TD_INF : large;
    return __builtin_copysign(a <= 12.0 ? td_i1_small_f64(a) : large, x);
}
TD_MATHS double td_i1e_f64(double x)
{
    double a = __builtin_fabs(x), e = td_exp_f64(-a);
    double y = a <= 12.0 ? e * td_i1_small_f64(a) : td_i1_large_f64(a);
    return x != x ? x : __builtin_copysign(y, x);
}

/* ---- the gamma function's logarithm and its derivatives */

/* glibc's; the sign goes to a local, so threads don't meet in signgam. */
static inline double td_lgamma_f64(double x)
{
    int sign;
    return lgamma_r(x, &sign);
}

/* psi on the positive side: up to 3 a polynomial on [1, 2], with the root taken out, and psi(x + 1) = psi(x) + 1/x;
 * beyond, the asymptotic series, moved up by 6 where x is small. */
TD_MATHS double td_digamma_positive_f64(double x)
{
    double u = x < 1 ? x + 1.0 : x > 2 ? x - 1.0 : x, t = u - 1.5;
    double near = ((u - 1.4616321449683622) - 9.549995429965697e-17) * TD_POLY_F64(23, t,
        0.9510558760318328, -0.4236274212814606, 0.24054248424078778, -0.1484049230538801, 0.0949887244527632,
        -0.06192213327556105, 0.040760833948797356, -0.026975796656895378, 0.017907248062468097,
        -0.011908220169136717, 0.007927026560528266, -0.005279936426012252, 0.0035180510649975598,
        -0.00234550156418852, 0.0015637847923257874, -0.0010364230435163358, 0.000688930904890967,
        -0.0004860631778513511, 0.00032990940566332105, -0.00014460560538310244, 8.650788060252122e-05,
        -0.00017837206702241073, 0.00012611081311656965);
    double step = 1.0 / (x < 1 ? -x : x - 1.0);
    near += x < 1 || x > 2 ? step : 0.0;

    double w = x < 9.0 ? x + 6.0 : x, r = 1.0 / w, z = r * r;
    double sum = TD_POLY_F64(6, x, 120.0, 548.0, 675.0, 340.0, 75.0, 6.0);
    double product = x * TD_POLY_F64(6, x, 120.0, 274.0, 225.0, 85.0, 15.0, 1.0);
    double series = z * TD_POLY_F64(9, z, 1.0 / 12, -1.0 / 120, 1.0 / 252, -1.0 / 240, 1.0 / 132, -691.0 / 32760,
                                    1.0 / 12, -3617.0 / 8160, 43867.0 / 14364);
    double far = td_log_f64(w) - (td_fma_f64(0.5, r, series) + (x < 9.0 ? sum / product : 0.0));
    return x <= 3.0 ? near : far;
}
/* Left of 0 by reflection: psi(x) = psi(1 - x) - pi cot(pi x). */
TD_MATHS double td_digamma_f64(double x)
{
    double y = td_digamma_positive_f64(x < 0 ? 1.0 - x : x);
    double cot = TD_PI / td_tan_quadrant_f64(td_reduce_pi_f64(x));
    y = x < 0 ? y - cot : y;
    y = x < 0 && x == __builtin_floor(x) ? TD_NAN : y;
    return x == 0 ? __builtin_copysign(TD_INF, -x) : y;
}

/* Hurwitz's zeta function by Euler and Maclaurin's summation: terms up to 10, then integral and corrections, with
 * B(2j) / (2j)! as coefficients.  s > 1; q is no pole. */
static inline double td_zeta_sum_f64(double s, double q)
{
    static const double bernoulli[] = {
        1.0 / 12, -1.0 / 720, 1.0 / 30240, -1.0 / 1209600, 1.0 / 47900160, -691.0 / 1307674368000.0,
        1.0 / 74724249600.0, -3617.0 / 10670622842880000.0, 43867.0 / 5109094217170944000.0,
        -174611.0 / 802857662698291200000.0, 77683.0 / 14101100039391805440000.0,
        -236364091.0 / 1693824136731743669452800000.0,
    };
    double sum = 0, a = q;
    for (int i = 0; i < 10 || a <= 10.0; i++, a += 1.0) {
        double term = pow(a, -s);
        sum += term;
        if (a > 0 && term < 0x1p-54 * fabs(sum))
            return sum;
    }
    double power = pow(a, -s), rising = s, k = 0;
    /* a^(1 - s) may be in range where a^-s isn't. */
    double integral = power > 0x1p-1000 ? power * a : pow(a, 1.0 - s);
    sum += integral / (s - 1.0) + 0.5 * power;
    power /= a;
    for (int j = 0; j < (int)(sizeof bernoulli / sizeof *bernoulli); j++) {
        double term = bernoulli[j] * rising * power;
        sum += term;
        if (fabs(term) < 0x1p-54 * fabs(sum))
            break;
        rising *= (s + k + 1.0) * (s + k + 2.0);
        power /= a * a;
        k += 2.0;
    }
    return sum;
}
/* Far left of zero the terms would be as many as q is large: those below zero are the difference of two sums over their absolute
 * values.  Scalar. */
static inline double td_zeta_f64(double s, double q)
{
    if (s == 1)
        return TD_INF;
    if (s < 1 || s != s || q != q)
        return TD_NAN;
    if (q <= 0) {
        if (q == floor(q))
            return TD_INF;
        if (s != floor(s))
            return TD_NAN;
        double right = q - floor(q);
        if (q < -10.0 && s > 100.0) {
            q = right - 10.0;               /* what is left of it is lost beside the terms around zero */
        } else if (q < -10.0) {
            double below = td_zeta_sum_f64(s, 1.0 - right) - td_zeta_sum_f64(s, 1.0 - q);
            return td_zeta_sum_f64(s, right) + (fmod(s, 2.0) != 0 ? -below : below);
        }
    }
    return td_zeta_sum_f64(s, q);
}
/* zeta(2, x), left of 1/2 by reflection: psi1(x) = (pi / sin(pi x))^2 - psi1(1 - x). */
static inline double td_trigamma_f64(double x)
{
    double s = td_sinpi_f64(x);
    return x < 0.5 ? TD_PI * TD_PI / (s * s) - td_zeta_f64(2.0, 1.0 - x) : td_zeta_f64(2.0, x);
}
/* psi_n(x) = (-1)^(n + 1) n! zeta(n + 1, x) */
static inline double td_polygamma_f64(int64_t n, double x)
{
    if (n == 0)
        return td_digamma_f64(x);
    if (n == 1)
        return td_trigamma_f64(x);
    return (n & 1 ? 1.0 : -1.0) * td_exp_f64(td_lgamma_f64((double)n + 1.0)) * td_zeta_f64((double)n + 1.0, x);
}

/* ---- division's relatives */

/* fmod where td_fmod_is_near says so: the quotient's integer part may come out one too large, then the remainder has
 * the wrong sign and b is added back.  Both remainders are exact. */
TD_MATHS double td_fmod_near_f64(double a, double b)
{
    double x = __builtin_fabs(a), y = __builtin_fabs(b), rest, q = __builtin_trunc(x / y);
    double p = td_two_product_f64(q, y, &rest), r = (x - p) - rest;
    r = r < 0 ? r + y : r;
    r = r >= y ? r - y : r;
    r = y == TD_INF && x < TD_INF ? x : r;
    return __builtin_copysign(r, a);
}
TD_MATHS int td_fmod_is_near_f64(double a, double b)
{
    double x = __builtin_fabs(a), y = __builtin_fabs(b);
    return x < 0x1p52 * y && y > 0x1p-900 && y < 0x1p900 && x < 0x1p900;
}
/* The rare case is scalar, so loops over these three don't vectorise; loops/runs.h has forms for runs that do. */
static inline double td_fmod_f64(double a, double b)
{
    return __builtin_expect(td_fmod_is_near_f64(a, b), 1) ? td_fmod_near_f64(a, b) : fmod(a, b);
}
/* PyTorch's remainder, with the sign of the divisor, and floor division, from fmod. */
TD_MATHS double td_remainder_from_fmod_f64(double mod, double b)
{
    return mod != 0 && (b < 0) != (mod < 0) ? mod + b : mod;
}
TD_MATHS double td_floor_div_from_fmod_f64(double a, double b, double mod)
{
    double div = (a - mod) / b, ratio = a / b;
    div = mod != 0 && (b < 0) != (mod < 0) ? div - 1.0 : div;
    double whole = __builtin_floor(div);
    whole = div - whole > 0.5 ? whole + 1.0 : whole;
    whole = div != 0 ? whole : __builtin_copysign(0.0, ratio);
    return b == 0 ? ratio : whole;
}
static inline double td_remainder_f64(double a, double b)
{
    return td_remainder_from_fmod_f64(td_fmod_f64(a, b), b);
}
static inline double td_floor_div_f64(double a, double b)
{
    return td_floor_div_from_fmod_f64(a, b, td_fmod_f64(a, b));
}

#endif
