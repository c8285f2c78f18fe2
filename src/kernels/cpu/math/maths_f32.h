/* The single-precision functions of mathematics; maths_f64.h says how such functions are written.
 *
 * The ones that models spend their time in (exp, tanh, erf, log, sigmoid, ...) compute in float32 throughout.  Where
 * float32 would lose too much (pow, the inverse hyperbolic functions, lgamma) the middle part is in double, with
 * short polynomials: that is half the speed of float32 and still several times the C library's. */
#ifndef TD_KERNELS_CPU_MATH_MATHS_F32_H
#define TD_KERNELS_CPU_MATH_MATHS_F32_H

#include "base/base.h"
#include "kernels/cpu/math/maths_f64.h"

#define TD_INFF __builtin_inff()
#define TD_NANF __builtin_nanf("")
/* ln 2, 1 / ln 2 and pi/2 in pieces, the first of ln 2 short enough that its products with exponents are exact */
#define TD_LN2_HIGH_F  0x1.62e4p-1f
#define TD_LN2_LOW_F   0x1.7f7d1cp-20f
#define TD_LOG2E_F     0x1.715476p+0f
#define TD_LOG2E_LOW_F 0x1.4ae0cp-26f
#define TD_PIO2_F      0x1.921fb6p+0f
#define TD_PIO2_LOW_F  (-0x1.777a5cp-25f)

/* ---- classification, signs, rounding, choosing */

TD_MATHS int td_isnan_f32(float x)    { return x != x; }
TD_MATHS int td_isinf_f32(float x)    { return __builtin_fabsf(x) == TD_INFF; }
TD_MATHS int td_isfinite_f32(float x) { return __builtin_fabsf(x) < TD_INFF; }
TD_MATHS int td_signbit_f32(float x)  { return (int)(td_f32_bits(x) >> 31); }

TD_MATHS float td_abs_f32(float x)                { return __builtin_fabsf(x); }
TD_MATHS float td_copysign_f32(float x, float s)  { return __builtin_copysignf(x, s); }
TD_MATHS float td_floor_f32(float x)              { return __builtin_floorf(x); }
TD_MATHS float td_ceil_f32(float x)               { return __builtin_ceilf(x); }
TD_MATHS float td_trunc_f32(float x)              { return __builtin_truncf(x); }
TD_MATHS float td_round_f32(float x)              { return __builtin_rintf(x); }       /* halves to even */
TD_MATHS float td_frac_f32(float x)               { return x - __builtin_truncf(x); }
TD_MATHS float td_sqrt_f32(float x)               { return __builtin_sqrtf(x); }
/* NaN has no sign in PyTorch: 0. */
TD_MATHS float td_sign_f32(float x)               { return x > 0 ? 1.0f : x < 0 ? -1.0f : 0.0f; }
TD_MATHS float td_sgn_f32(float x)                { return td_sign_f32(x); }

/* maximum and minimum hand on a NaN, fmax and fmin prefer the number.  In two steps: one expression of both choices
 * would keep minimum(maximum(x, low), high) from being vectorised. */
TD_MATHS float td_maximum_f32(float a, float b)
{
    float m = a > b ? a : b;
    return a != a ? a : m;
}
TD_MATHS float td_minimum_f32(float a, float b)
{
    float m = a < b ? a : b;
    return a != a ? a : m;
}
TD_MATHS float td_fmax_f32(float a, float b)
{
    float m = a > b ? a : b;
    return b != b ? a : m;
}
TD_MATHS float td_fmin_f32(float a, float b)
{
    float m = a < b ? a : b;
    return b != b ? a : m;
}

TD_MATHS float td_nextafter_f32(float a, float b)
{
    uint32_t bits = td_f32_bits(a);
    float up = td_bits_f32(bits + 1), down = td_bits_f32(bits - 1);
    float step = (a < b) == (a > 0) ? up : down;
    float first = td_bits_f32((td_f32_bits(b) & 0x80000000u) | 1);
    float r = a == 0 ? first : step;
    r = a == b ? b : r;
    return a != a || b != b ? a + b : r;
}

/* The same of halves, of which both kinds are a sign and fifteen bits that count the numbers from zero on. */
TD_MATHS uint16_t td_nextafter_bits(uint16_t x, float a, float b, uint16_t equal, uint16_t nan)
{
    uint16_t step = (uint16_t)((a < b) == (a > 0) ? x + 1 : x - 1), first = b > 0 ? 1 : 0x8001;
    uint16_t r = a == 0 ? first : step;
    r = a == b ? equal : r;
    return a != a || b != b ? nan : r;
}
TD_MATHS td_f16 td_nextafter_f16(td_f16 a, td_f16 b)
{
    return td_nextafter_bits(a, td_f16_to_f32(a), td_f16_to_f32(b), b, 0x7e00);
}
TD_MATHS td_bf16 td_nextafter_bf16(td_bf16 a, td_bf16 b)
{
    return td_nextafter_bits(a, td_bf16_to_f32(a), td_bf16_to_f32(b), b, 0x7fc0);
}

/* ---- exponentials */

/* exp(x) factor for |x| < 170, garbage beyond.  Adding 1.5 2^23 rounds to an integer that sits in the low bits, here of
 * x / (2 ln 2): its power of two, applied twice, overflows and underflows gradually where it should. */
TD_MATHS float td_exp_raw_f32(float x, float factor)
{
    float t = td_fma_f32(x, 0.5f * TD_LOG2E_F, 0x1.8p23f + 127), n = t - (0x1.8p23f + 127);
    float r = td_fma_f32(n, -2.0f * TD_LN2_LOW_F, td_fma_f32(n, -2.0f * TD_LN2_HIGH_F, x));
    float p = TD_POLY_F32(8, r,
        1.0f, 1.0f, 0.500000358f, 0.166666135f, 0.0416612588f, 0.00833611563f, 0.00141046639f, 0.000196106979f);
    float s = td_bits_f32(td_f32_bits(t) << 23);
    return p * factor * s * s;
}
/* Two choices that look at the same variable become one with three branches, which costs twice as much when it is
 * vectorised; x and half of it keep them apart. */
TD_MATHS float td_exp_f32(float x)
{
    float y = td_exp_raw_f32(x, 1.0f), half = 0.5f * x;
    y = half > 64.0f ? TD_INFF : y;
    return x < -128.0f ? 0.0f : y;
}
TD_MATHS float td_exp2_f32(float x)
{
    float t = td_fma_f32(0.5f, x, 0x1.8p23f + 127), r = td_fma_f32(t - (0x1.8p23f + 127), -2.0f, x);
    float p = TD_POLY_F32(8, r,
        1.0f, 0.693147361f, 0.240226656f, 0.0555023961f, 0.00961697381f, 0.00133677491f, 0.000156355876f,
        1.34052061e-05f);
    float s = td_bits_f32(td_f32_bits(t) << 23), y = p * s * s;
    y = t > 0x1.8p23f + 227 ? TD_INFF : y;
    return x < -200.0f ? 0.0f : y;
}
/* exp(x) - 1 = 2^n (exp(r) - 1) + (2^n - 1), in halves so that 2^128 is in reach. */
TD_MATHS float td_expm1_f32(float x)
{
    float t = td_fma_f32(x, TD_LOG2E_F, 0x1.8p23f + 126), n = t - (0x1.8p23f + 126);
    float r = td_fma_f32(n, -TD_LN2_LOW_F, td_fma_f32(n, -TD_LN2_HIGH_F, x));
    float q = TD_POLY_F32(6, r, 0.5f, 0.166666672f, 0.0416663252f, 0.00833321922f, 0.0013943318f, 0.00019962668f);
    float p = td_fma_f32(r * r, q, r), half = td_bits_f32(td_f32_bits(t) << 23);
    float y = 2.0f * td_fma_f32(half, p, half - 0.5f);
    y = t > 0x1.8p23f + 126 + 128.5f ? TD_INFF : y;
    return __builtin_copysignf(x < -20.0f ? -1.0f : y, x);
}
TD_MATHS float td_sigmoid_f32(float x)
{
    float a = __builtin_fabsf(x), z = td_exp_raw_f32(-a, 1.0f);
    z = a > 128.0f ? 0.0f : z;
    return (x < 0 ? z : 1.0f) / (1.0f + z);
}
/* tanh |x| = e / (e + 2) with e = exp(2 |x|) - 1 = 2^n 2 p + (2^n - 1).  An error of e shrinks on the way, so ln 2 in
 * one piece will do; the polynomial is split in two for latency's sake. */
TD_MATHS float td_tanh_f32(float x)
{
    float a = __builtin_fabsf(x);
    float t = td_fma_f32(a, 2.0f * TD_LOG2E_F, 0x1.8p23f + 128), n = t - (0x1.8p23f + 128);
    float r = td_fma_f32(n, -0.5f * (float)TD_LN2, a), z = r * r;
    float even = TD_POLY_F32(3, z, 1.0f, 0.333330601f, 0.0446186177f);
    float odd = TD_POLY_F32(3, z, 0.666666687f, 0.133331507f, 0.0127761075f);
    float p = td_fma_f32(z, td_fma_f32(odd, r, even), r), twice = td_bits_f32(td_f32_bits(t) << 23);
    float e = td_fma_f32(twice, p, td_fma_f32(0.5f, twice, -1.0f));
    return __builtin_copysignf(a > 9.1f ? 1.0f : e / (e + 2.0f), x);
}

/* ---- logarithms */

/* x = 2^k (1 + f), 1 + f in [2/3, 4/3).  Good for positive numbers; td_log_special sets the others right. */
TD_MATHS float td_log_split_f32(float x, float *k)
{
    uint32_t base = x < 0x1p-126f ? 0x3f2aaaabu + (23u << 23) : 0x3f2aaaabu;
    uint32_t bits = td_f32_bits(x < 0x1p-126f ? x * 0x1p23f : x) - base;
    *k = (float)((int32_t)bits >> 23);
    return td_bits_f32((bits & 0x007fffffu) + 0x3f2aaaabu) - 1.0f;
}
/* For x: y where it is positive and finite.  The last condition is about bits so that it stays a separate choice. */
TD_MATHS float td_log_special_f32(float x, float y)
{
    float other = x == 0 ? -TD_INFF : TD_NANF;
    y = x > 0 ? y : other;
    return (int32_t)td_f32_bits(x) >= 0x7f800000 ? x : y;
}
/* k ln 2 + log(1 + f).  As a float32 ln 2 is off by a twentieth of a unit only. */
TD_MATHS float td_log_near_one_f32(float f, float k)
{
    float q = TD_POLY_F32(10, f,
        -0.5f, 0.333333343f, -0.249998197f, 0.19999598f, -0.16679579f, 0.143044397f, -0.12195769f, 0.107544027f,
        -0.1284509f, 0.120065443f);
    return td_fma_f32(k, (float)TD_LN2, td_fma_f32(f * f, q, f));
}
TD_MATHS float td_log_f32(float x)
{
    float k, f = td_log_split_f32(x, &k);
    return td_log_special_f32(x, td_log_near_one_f32(f, k));
}
TD_MATHS float td_log2_f32(float x)
{
    float k, f = td_log_split_f32(x, &k);
    float q = TD_POLY_F32(9, f,
        -0.721345723f, 0.480897456f, -0.360886723f, 0.288644433f, -0.233629614f, 0.202763423f, -0.260179132f,
        0.198444963f, 0.15205653f);
    return td_log_special_f32(x, k + td_fma_f32(f, TD_LOG2E_F, td_fma_f32(f, TD_LOG2E_LOW_F, f * f * q)));
}
TD_MATHS float td_log10_f32(float x)
{
    float k, f = td_log_split_f32(x, &k);
    float q = TD_POLY_F32(10, f,
        -0.217147246f, 0.144764826f, -0.108571909f, 0.0868578479f, -0.0724653378f, 0.0620991886f, -0.052662801f,
        0.0470141396f, -0.0569546893f, 0.0508428477f);
    float rest = td_fma_f32(k, 0x1.3509f8p-18f, td_fma_f32(f, -0x1.5b235ep-27f, f * f * q));
    return td_log_special_f32(x, td_fma_f32(k, 0x1.344p-2f, td_fma_f32(f, 0x1.bcb7b2p-2f, rest)));
}
/* 1 + x = 2^e (1 + f) with f from x itself, as in double precision. */
TD_MATHS float td_log1p_f32(float x)
{
    int32_t e = (int32_t)(td_f32_bits(1.0f + x) - 0x3f2aaaabu) >> 23;
    float s = td_bits_f32((uint32_t)(129 - e) << 23);                          /* 4 2^-e: 2^-128 itself is subnormal */
    float f = (x * s) * 0.25f + (s * 0.25f - 1.0f), y = td_log_near_one_f32(f, (float)e);
    float other = x == -1.0f ? -TD_INFF : TD_NANF;
    y = x > -1.0f ? y : other;
    return (int32_t)td_f32_bits(x) >= 0x7f800000 ? x : __builtin_copysignf(y, x);
}
TD_MATHS float td_logaddexp_f32(float a, float b)
{
    float m = td_maximum_f32(a, b), y = m + td_log1p_f32(td_exp_f32(-__builtin_fabsf(a - b)));
    return a == b && td_isinf_f32(a) ? a : a != a ? a : b != b ? b : y;
}
TD_MATHS float td_logaddexp2_f32(float a, float b)
{
    float m = td_maximum_f32(a, b);
    float y = td_fma_f32(td_log1p_f32(td_exp2_f32(-__builtin_fabsf(a - b))), TD_LOG2E_F, m);
    return a == b && td_isinf_f32(a) ? a : a != a ? a : b != b ? b : y;
}
TD_MATHS float td_xlogy_f32(float x, float y)
{
    float r = x * td_log_f32(y);
    return y != y ? y : x == 0 ? 0.0f : r;
}
TD_MATHS float td_xlog1py_f32(float x, float y)
{
    float r = x * td_log1p_f32(y);
    return y != y ? y : x == 0 ? 0.0f : r;
}
TD_MATHS float td_entr_f32(float x)
{
    float y = -x * td_log_f32(x);
    return x != x ? x : x > 0 ? y : x == 0 ? 0.0f : -TD_INFF;
}

/* ---- powers and roots */

/* log(v) and log2(v) to 38 bits for positive normal doubles, which is what a float32 result needs of them. */
TD_MATHS double td_log_split_short(double v, double *k)
{
    uint64_t bits = td_f64_bits(v) + (0x3ff0000000000000u - 0x3fe5555555555555u);
    *k = td_bits_f64(0x4330000000000000u | (bits >> 52)) - (0x1p52 + 1023.0);
    return td_bits_f64((bits & 0x000fffffffffffffu) + 0x3fe5555555555555u) - 1.0;
}
TD_MATHS double td_log_short(double v)
{
    double k, f = td_log_split_short(v, &k);
    return td_fma_f64(k, TD_LN2, f * TD_POLY_F64(14, f,
        1.000000000002501, -0.5000000000170831, 0.3333333311454479, -0.24999999423058908, 0.20000031176211155,
        -0.16666722700112654, 0.14284054933181065, -0.12497615731782402, 0.11152876125612057, -0.10051617776343781,
        0.08558762820961448, -0.07744311115920101, 0.10937815297255032, -0.10437263685554093));
}
TD_MATHS double td_log2_short(double v)
{
    double k, f = td_log_split_short(v, &k);
    return td_fma_f64(f, TD_POLY_F64(14, f,
        1.4426950408925716, -0.7213475204691274, 0.48089834380653634, -0.36067375189874035, 0.28853945795544494,
        -0.2404499818732404, 0.20607535215885855, -0.18030248239178365, 0.1609019907806943, -0.14501419118842523,
        0.12347684677945915, -0.11172679242039205, 0.15779931887509277, -0.15057788559599355), k);
}
/* 2^y in double's range, to 28 bits, exact for whole y */
TD_MATHS double td_exp2_short(double y)
{
    double t = y + (0x1.8p52 + 1023), r = y - (t - (0x1.8p52 + 1023));
    return TD_POLY_F64(7, r,
        1.0, 0.693147214965531, 0.24022652782884554, 0.055503105549840275, 0.009617692998580903,
        0.0013406642671208644, 0.00015594667830263673) * td_bits_f64(td_f64_bits(t) << 52);
}
/* 2^(y log2|x|) in double, where 38 bits of the logarithm are enough; the exponent is kept in range, beyond it float32 is 0 or
 * infinite. */
TD_MATHS float td_pow_f32(float x, float y)
{
    float a = __builtin_fabsf(x);
    double l = td_log2_short((double)a);
    l = a == 0 ? -TD_INF : a == TD_INFF ? TD_INF : l;
    double p = (double)y * l;
    float r = (float)td_exp2_short(__builtin_fabs(p) > 300.0 ? __builtin_copysign(300.0, p) : p);
    r = x != x || y != y ? x + y : r;
    float whole = __builtin_truncf(y), half = y * 0.5f;
    int odd = whole == y && __builtin_truncf(half) != half;
    r = td_bits_f32(td_f32_bits(r) | (odd ? td_f32_bits(x) & 0x80000000u : 0));
    r = x < 0 && a < TD_INFF && whole != y ? TD_NANF : r;
    r = a == 1 && __builtin_fabsf(y) == TD_INFF ? 1.0f : r;
    return y == 0 || x == 1 ? 1.0f : r;
}
/* PyTorch's: the power of two is rounded, and may overflow, before it is multiplied. */
TD_MATHS float td_ldexp_f32(float x, float n) { return x * td_exp2_f32(n); }

#ifdef TD_AVX512
/* Two cubic steps from a guess made by halving the exponent.  In vectors of 512 bits, whose square roots and divisions
 * take four times as long as those of 128, that is faster. */
TD_MATHS float td_rsqrt_f32(float x)
{
    float s = x < 0x1p-126f ? x * 0x1p24f : x, back = x < 0x1p-126f ? 0x1p12f : 1.0f;
    float y = td_bits_f32(0x5f375a86u - (td_f32_bits(s) >> 1));
    float h = s * y, e = td_fma_f32(-h, y, 1.0f);
    y = td_fma_f32(y * e, td_fma_f32(0.375f, e, 0.5f), y);
    h = s * y;
    e = td_fma_f32(-h, y, 1.0f);
    y = td_fma_f32(y * e, td_fma_f32(0.375f, e, 0.5f), y) * back;
    y = x > 0 ? y : x == 0 ? 1.0f / x : TD_NANF;
    return x == TD_INFF ? 0.0f : y;
}
#else
TD_MATHS float td_rsqrt_f32(float x) { return 1.0f / __builtin_sqrtf(x); }
#endif

/* In double no float32's square over- or underflows. */
TD_MATHS float td_hypot_f32(float x, float y)
{
    double a = x, b = y;
    float r = (float)__builtin_sqrt(a * a + b * b);
    return td_isinf_f32(x) || td_isinf_f32(y) ? TD_INFF : r;
}

/* ---- sine, cosine, tangent: the reduction in double, the polynomials in float32 */

struct td_angle_f32 { float high, low; uint32_t quadrant; };

/* Good for every finite float32, and without a table, since a gather costs more than all of this.  1/(2 pi) comes in
 * three pieces of 29 bits, whose products with a float32 are exact in double, and a fourth; of the products the
 * fractions count.  Arguments above 2^80 see later bits of it, for them the first 57 make whole turns. */
TD_MATHS struct td_angle_f32 td_reduce_f32(float x)
{
    double d = x;
    int huge = __builtin_fabs(d) > 0x1p80;
    double a = d * (huge ? 0x1.29fc275p-58 : 0x1.45f306dp-3);
    double b = d * (huge ? 0x1.f47d4d2p-88 : 0x1.9391054p-32);
    double c = d * (huge ? 0x1.77036d8p-116 : 0x1.4fe13abp-61);
    double rest = huge ? 0x1.4acc9e21c820fp-145 : 0x1.d1f534ddc0db6p-90;
    a -= __builtin_rint(a);
    b -= __builtin_rint(b);
    c -= __builtin_rint(c);
    double t = 4.0 * (a + (b + c)) + 0x1.8p52, n = t - 0x1.8p52;
    double r = 2.0 * TD_PI * ((td_fma_f64(n, -0.25, a) + b) + td_fma_f64(d, rest, c));
    struct td_angle_f32 angle;
    angle.high = (float)r;
    angle.low = (float)(r - (double)angle.high);
    angle.quadrant = (uint32_t)(int32_t)n;
    return angle;
}
/* Cody and Waite's reduction, good for |x| < TD_ANGLE_SMALL_F32. */
#define TD_ANGLE_SMALL_F32 1e5f
TD_MATHS struct td_angle_f32 td_reduce_small_f32(float x)
{
    float t = td_fma_f32(x, 0x1.45f306p-1f, 0x1.8p23f), n = t - 0x1.8p23f;
    struct td_angle_f32 angle;
#ifdef TD_FUSED
    float a = td_fma_f32(n, -TD_PIO2_F, x), b = td_fma_f32(n, -TD_PIO2_LOW_F, a);
    angle.high = td_fma_f32(n, 0x1.ee59dap-50f, b);
    angle.low = 0.0f;
#else
    double d = n, r = ((double)x - d * 0x1.921fb544p+0) - d * 0x1.0b4611a626331p-34;
    angle.high = (float)r;
    angle.low = 0.0f;
#endif
    angle.quadrant = td_f32_bits(t);
    return angle;
}
TD_MATHS float td_sin_kernel_f32(float x, float low)
{
    float z = x * x, q = TD_POLY_F32(3, z, -0.166666552f, 0.00833215564f, -0.000195146335f);
    return x + td_fma_f32(x * z, q, low);
}
TD_MATHS float td_cos_kernel_f32(float x, float low)
{
    float z = x * x, q = TD_POLY_F32(3, z, 0.0416666456f, -0.00138873095f, 2.44324146e-05f);
    return td_fma_f32(z, -0.5f, 1.0f) + td_fma_f32(z * z, q, -x * low);
}
TD_MATHS float td_sin_quadrant_f32(struct td_angle_f32 a, uint32_t turn)
{
    float s = td_sin_kernel_f32(a.high, a.low), c = td_cos_kernel_f32(a.high, a.low);
    uint32_t q = a.quadrant + turn;
    return td_bits_f32(td_f32_bits(q & 1 ? c : s) ^ (q & 2) << 30);
}
TD_MATHS float td_tan_quadrant_f32(struct td_angle_f32 a)
{
    float s = td_sin_kernel_f32(a.high, a.low), c = td_cos_kernel_f32(a.high, a.low);
    return (a.quadrant & 1 ? -c : s) / (a.quadrant & 1 ? s : c);
}
TD_MATHS float td_sin_f32(float x)
{
    float y = td_sin_quadrant_f32(td_reduce_f32(x), 0);
    return x == 0 ? x : y;
}
TD_MATHS float td_cos_f32(float x) { return td_sin_quadrant_f32(td_reduce_f32(x), 1); }
TD_MATHS float td_tan_f32(float x)
{
    float y = td_tan_quadrant_f32(td_reduce_f32(x));
    return x == 0 ? x : y;
}
TD_MATHS float td_sin_small_f32(float x)
{
    float y = td_sin_quadrant_f32(td_reduce_small_f32(x), 0);
    return x == 0 ? x : y;
}
TD_MATHS float td_cos_small_f32(float x) { return td_sin_quadrant_f32(td_reduce_small_f32(x), 1); }
TD_MATHS float td_tan_small_f32(float x)
{
    float y = td_tan_quadrant_f32(td_reduce_small_f32(x));
    return x == 0 ? x : y;
}

TD_MATHS struct td_angle_f32 td_reduce_pi_f32(float x)
{
    float a = x - 2.0f * __builtin_rintf(x * 0.5f), t = a + a + 0x1.8p23f, f = a - 0.5f * (t - 0x1.8p23f);
    double r = (double)f * TD_PI;
    struct td_angle_f32 angle;
    angle.high = (float)r;
    angle.low = (float)(r - (double)angle.high);
    angle.quadrant = td_f32_bits(t);
    return angle;
}
TD_MATHS float td_sinpi_f32(float x) { return td_sin_quadrant_f32(td_reduce_pi_f32(x), 0); }
/* Below 2^-14 the result is 1; 0 / 0 could come up nowhere else. */
TD_MATHS float td_sinc_f32(float x)
{
    float y = (float)((double)td_sinpi_f32(x) / (TD_PI * (double)x));
    return __builtin_fabsf(x) < 0x1p-14f ? 1.0f : y;
}

/* ---- inverse trigonometric functions */

TD_MATHS float td_asin_tail_f32(float z)
{
    return z * TD_POLY_F32(6, z,
        0.166666597f, 0.0750050396f, 0.0445169657f, 0.0318076313f, 0.014438916f, 0.037516024f);
}
TD_MATHS float td_asin_f32(float x)
{
    float a = __builtin_fabsf(x), z = a > 0.5f ? 0.5f - 0.5f * a : a * a, s = a > 0.5f ? __builtin_sqrtf(z) : a;
    float t = s * td_asin_tail_f32(z), wide = TD_PIO2_F - (2.0f * s - (TD_PIO2_LOW_F - 2.0f * t));
    return __builtin_copysignf(a > 0.5f ? wide : s + t, x);
}
TD_MATHS float td_acos_f32(float x)
{
    float a = __builtin_fabsf(x), z = a > 0.5f ? 0.5f - 0.5f * a : a * a, s = a > 0.5f ? __builtin_sqrtf(z) : x;
    float t = s * td_asin_tail_f32(z), middle = TD_PIO2_F - (s - (TD_PIO2_LOW_F - t));
    return a > 0.5f ? (x < 0 ? 2.0f * middle : 2.0f * (s + t)) : a <= 0.5f ? middle : x;
}
TD_MATHS float td_atan_positive_f32(float a, float b)
{
    int steep = a > 2.41421356f * b, middle = a > 0.414213562f * b;
    float t = (steep ? -b : middle ? a - b : a) / (steep ? a : middle ? a + b : b);
    float high = steep ? TD_PIO2_F : middle ? 0.5f * TD_PIO2_F : 0.0f;
    float low = steep ? TD_PIO2_LOW_F : middle ? 0.5f * TD_PIO2_LOW_F : 0.0f;
    float z = t * t, p = z * TD_POLY_F32(5, z,
        -0.333333164f, 0.199984699f, -0.142434955f, 0.105934858f, -0.0607730076f);
    return high + (t + td_fma_f32(t, p, low));
}
TD_MATHS float td_atan_f32(float x)
{
    return __builtin_copysignf(td_atan_positive_f32(__builtin_fabsf(x), 1.0f), x);
}
TD_MATHS float td_atan2_f32(float y, float x)
{
    float a = __builtin_fabsf(y), b = __builtin_fabsf(x), big = a > b ? a : b;
    float scale = big > 0x1p100f ? 0x1p-30f : big < 0x1p-90f ? 0x1p60f : 1.0f;
    int same = a == TD_INFF && b == TD_INFF;
    float r = td_atan_positive_f32(same ? 1.0f : a * scale, same || big == 0 ? 1.0f : b * scale);
    r = td_signbit_f32(x) ? 2.0f * TD_PIO2_F - (r - 2.0f * TD_PIO2_LOW_F) : r;
    return x != x || y != y ? x + y : __builtin_copysignf(r, y);
}

/* ---- hyperbolic functions and their inverses */

/* exp(a) / 2 for a >= 0, in range a little longer than exp(a) */
TD_MATHS float td_exp_half_f32(float a)
{
    float y = td_exp_raw_f32(a, 0.5f);
    return a > 128.0f ? TD_INFF : y;
}
TD_MATHS float td_sinh_f32(float x)
{
    float a = __builtin_fabsf(x), z = a * a, e = td_exp_half_f32(a);
    float small = td_fma_f32(a * z, TD_POLY_F32(4, z,
        0.166666672f, 0.0083333496f, 0.000198361595f, 2.81695134e-06f), a);
    return __builtin_copysignf(a < 1.0f ? small : e - 0.25f / e, x);
}
TD_MATHS float td_cosh_f32(float x)
{
    float e = td_exp_half_f32(__builtin_fabsf(x));
    return e + 0.25f / e;
}
/* Below 2^-10 the logarithm of nearly 1 would have too few digits even in double: two terms of the series, here and in atanh. */
TD_MATHS float td_asinh_f32(float x)
{
    float a = __builtin_fabsf(x);
    double d = a, y = td_log_short(d + __builtin_sqrt(d * d + 1.0));
    y = a < 0x1p-10f ? d - d * d * d * (1.0 / 6) : y;
    return __builtin_copysignf(a == TD_INFF || a != a ? a : (float)y, x);
}
TD_MATHS float td_acosh_f32(float x)
{
    double d = x, y = td_log_short(d + __builtin_sqrt((d - 1.0) * (d + 1.0)));
    return x >= 1 ? (x == TD_INFF ? x : (float)y) : TD_NANF;
}
TD_MATHS float td_atanh_f32(float x)
{
    float a = __builtin_fabsf(x);
    double d = a, y = 0.5 * td_log_short((1.0 + d) / (1.0 - d));
    y = a < 0x1p-10f ? d + d * d * d * (1.0 / 3) : y;
    return __builtin_copysignf(a < 1 ? (float)y : a == 1 ? TD_INFF : TD_NANF, x);
}

/* ---- the error function and its relatives */

/* Up to 0.93 a polynomial, beyond it 1 - exp(polynomial). */
TD_MATHS float td_erf_f32(float x)
{
    float a = __builtin_fabsf(x), z = x * x;
    a = a > 4.0f ? 4.0f : a;
    float small = td_fma_f32(a, TD_POLY_F32(7, z,
        0.128379166f, -0.376126319f, 0.112836637f, -0.0268577058f, 0.00519695366f, -0.000809771416f,
        8.18512053e-05f), a);
    float l = TD_POLY_F32(8, a,
        0.000170552565f, -1.12949514f, -0.633386672f, -0.108236626f, 0.0250914991f, -0.00416052761f,
        0.000432303117f, -2.09095633e-05f);
    float t = td_fma_f32(l, TD_LOG2E_F, 0x1.8p23f + 127), n = t - (0x1.8p23f + 127);
    float r = td_fma_f32(n, -TD_LN2_LOW_F, td_fma_f32(n, -TD_LN2_HIGH_F, l));
    float p = TD_POLY_F32(7, r,
        1.0f, 1.0f, 0.49999994f, 0.166665196f, 0.0416683927f, 0.00836878084f, 0.00138145196f);
    float large = td_fma_f32(-p, td_bits_f32(td_f32_bits(t) << 23), 1.0f);
    return __builtin_copysignf(z > 0.8649f ? large : small, x);
}
TD_MATHS float td_erfc_f32(float x)  { return (float)td_erfc_f64((double)x); }
TD_MATHS float td_erfcx_f32(float x) { return (float)td_erfcx_f64((double)x); }

TD_MATHS float td_erfinv_central_f32(float x)
{
    float z = x * x;
    return x * TD_POLY_F32(7, z,
        0.886226952f, 0.232013404f, 0.127572551f, 0.0861732289f, 0.0690735653f, 0.0294869691f, 0.0979731679f);
}
/* The fit of td_erfcinv_tail_f64 as it is: its 27 bits are enough, so no step of Halley's. */
TD_MATHS float td_erfcinv_tail_f32(float y)
{
    double v = __builtin_sqrt(-td_log_short((double)y)), t = (v - 2.0) / (v + 2.0);
    return (float)(v * TD_POLY_F64(13, t,
        0.8340941616575227, 0.43091765707665597, -0.4237640111512345, 0.20194474511610472, 0.0067483702557293015,
        -0.1282556584949705, 0.13761598864465127, -0.07117369654040136, -0.0147220178920721, 0.06579677790687427,
        -0.06554439432906663, 0.03548753060508723, -0.009098430111300232));
}
TD_MATHS float td_erfinv_f32(float x)
{
    float a = __builtin_fabsf(x), tail = td_erfcinv_tail_f32(1.0f - a);
    tail = a == 1 ? TD_INFF : a < 1 ? tail : TD_NANF;
    return a <= 0.5f ? td_erfinv_central_f32(x) : __builtin_copysignf(tail, x);
}
TD_MATHS float td_ndtri_f32(float p)
{
    float q = p < 0.5f ? p : 1.0f - p, tail = td_erfcinv_tail_f32(q + q), d = p - 0.5f;
    tail = q > 0 ? tail : q == 0 ? TD_INFF : TD_NANF;
    float z = __builtin_fabsf(d) <= 0.25f ? td_erfinv_central_f32(d + d) : p < 0.5f ? -tail : tail;
    return td_fma_f32(z, 1.41421354f, z * 2.42e-8f);
}
TD_MATHS float td_log_ndtr_f32(float x) { return (float)td_log_ndtr_f64((double)x); }

/* ---- modified Bessel functions: through double, since a power series in float32 loses several bits */

TD_MATHS float td_i0_f32(float x)  { return (float)td_i0_f64((double)x); }
TD_MATHS float td_i0e_f32(float x) { return (float)td_i0e_f64((double)x); }
TD_MATHS float td_i1_f32(float x)  { return (float)td_i1_f64((double)x); }
TD_MATHS float td_i1e_f32(float x) { return (float)td_i1e_f64((double)x); }

/* ---- the gamma function's logarithm and its derivatives */

/* In double: a polynomial between 0.75 and 2.25 with the zeros at 1 and 2 taken out, elsewhere Stirling's series, moved
 * up by 6 where it is small; the reflection formula for negative arguments. */
TD_MATHS float td_lgamma_f32(float x)
{
    double a = __builtin_fabsf(x), t = a - 1.5;
    int middle = a >= 0.75 && a <= 2.25;
    double poly = (a - 1.0) * (a - 2.0) * TD_POLY_F64(14, t,
        0.48312895112313814, -0.14595989895207817, 0.06291130158247837, -0.0313082916299631, 0.016799858543561964,
        -0.009429257726095394, 0.005418003595389352, -0.0031825737252242255, 0.0020604362247636267,
        -0.0012853936003995937, 0.0003808841606119234, -0.0001807907291200935, 0.0006349694838789315,
        -0.0004247162138279945);
    double w = a < 7.0 ? a + 6.0 : a, r = 1.0 / w, z = r * r;
    double stirling = (w - 0.5) * (td_log_f64(w) - 1.0) + 0.41893853320467274
                    + r * TD_POLY_F64(6, z, 1.0 / 12, -1.0 / 360, 1.0 / 1260, -1.0 / 1680, 1.0 / 1188, -691.0 / 360360);
    double product = a * TD_POLY_F64(6, a, 120.0, 274.0, 225.0, 85.0, 15.0, 1.0);
    product = middle || a >= 7.0 ? 1.0 : product;
    double s = __builtin_fabs(td_sin_kernel_f64(TD_PI * (a - __builtin_rint(a)), 0.0));
    double half = __builtin_fabs(td_cos_kernel_f64(TD_PI * (a - __builtin_floor(a) - 0.5), 0.0));
    s = __builtin_fabs(a - __builtin_rint(a)) > 0.25 ? half : s;
    double base = middle ? poly : stirling, l = td_log_f64(x < 0 ? TD_PI * product / (a * s) : product);
    float y = (float)(x < 0 ? l - base : base - l) + 0.0f;                     /* no -0 at 1 and 2 */
    y = x <= 0 && x == __builtin_floorf(x) ? TD_INFF : y;
    return td_isinf_f32(x) ? TD_INFF : x != x ? x : y;
}
TD_MATHS float td_digamma_f32(float x) { return (float)td_digamma_f64((double)x); }

static inline float td_zeta_f32(float s, float q)           { return (float)td_zeta_f64((double)s, (double)q); }
static inline float td_polygamma_f32(int64_t n, float x)    { return (float)td_polygamma_f64(n, (double)x); }

/* ---- division's relatives, see maths_f64.h */

/* In double quotient, product and remainder are exact where td_fmod_is_near says so. */
TD_MATHS float td_fmod_near_f32(float a, float b)
{
    double x = __builtin_fabsf(a), y = __builtin_fabsf(b), q = __builtin_trunc(x / y), r = x - q * y;
    return __builtin_copysignf(y == TD_INF && x < TD_INF ? (float)x : (float)r, a);
}
TD_MATHS int td_fmod_is_near_f32(float a, float b)
{
    float x = __builtin_fabsf(a), y = __builtin_fabsf(b);
    return x < 0x1p27f * y && x < TD_INFF;
}
#ifdef TD_FUSED
/* Any quotient, up to 2^277: a step takes off 51 bits of it, exactly, since what remains is a multiple of the product of
 * the last places of quotient and divisor. */
TD_MATHS float td_fmod_f32(float a, float b)
{
    double x = __builtin_fabsf(a), y = __builtin_fabsf(b), inverse = 1.0 / y, r = x;
    r = __builtin_fma(-__builtin_trunc(r * inverse), y, r);
    r = __builtin_fma(-__builtin_trunc(r * inverse), y, r);
    r = __builtin_fma(-__builtin_trunc(r * inverse), y, r);
    r = __builtin_fma(-__builtin_trunc(r * inverse), y, r);
    r = __builtin_fma(-__builtin_trunc(r * inverse), y, r);
    r = __builtin_fma(-__builtin_trunc(r * inverse), y, r);
    double up = r < 0 ? y : 0.0, down = x < TD_INF ? x : TD_NAN;
    r += up;
    r -= r >= y ? y : 0.0;
    return __builtin_copysignf((float)(y == TD_INF ? down : r), a);
}
#else
static inline float td_fmod_f32(float a, float b)
{
    return __builtin_expect(td_fmod_is_near_f32(a, b), 1) ? td_fmod_near_f32(a, b) : (float)fmod(a, b);
}
#endif
TD_MATHS float td_remainder_from_fmod_f32(float mod, float b)
{
    return mod != 0 && (b < 0) != (mod < 0) ? mod + b : mod;
}
TD_MATHS float td_floor_div_from_fmod_f32(float a, float b, float mod)
{
    float div = (a - mod) / b, ratio = a / b;
    div = mod != 0 && (b < 0) != (mod < 0) ? div - 1.0f : div;
    float whole = __builtin_floorf(div);
    whole = div - whole > 0.5f ? whole + 1.0f : whole;
    whole = div != 0 ? whole : __builtin_copysignf(0.0f, ratio);
    return b == 0 ? ratio : whole;
}
TD_MATHS float td_remainder_f32(float a, float b)
{
    return td_remainder_from_fmod_f32(td_fmod_f32(a, b), b);
}
TD_MATHS float td_floor_div_f32(float a, float b)
{
    return td_floor_div_from_fmod_f32(a, b, td_fmod_f32(a, b));
}

#endif
