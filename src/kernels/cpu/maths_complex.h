/* Functions of complex numbers, by type: products and quotients as PyTorch computes them, the rest from libm. */
#ifndef TD_KERNELS_CPU_MATHS_COMPLEX_H
#define TD_KERNELS_CPU_MATHS_COMPLEX_H
#include <complex.h>
#include <math.h>

static inline float _Complex td_mul_c64(float _Complex x, float _Complex y) { float a = crealf(x), b = cimagf(x), c = crealf(y), d = cimagf(y); return __builtin_complex(a * c - b * d, a * d + b * c); }
static inline float _Complex td_div_c64(float _Complex x, float _Complex y)
{
    float a = crealf(x), b = cimagf(x), c = crealf(y), d = cimagf(y), s = fmaxf(fabsf(c), fabsf(d));
    float scale = s == 0 ? 1 : s, p = c / scale, q = d / scale, n = p * p + q * q;
    n = s == 0 ? 0 : n * scale;
    return __builtin_complex((a * p + b * q) / n, (b * p - a * q) / n);
}
static inline float _Complex td_exp_c64(float _Complex x) { return cexpf(x); }
static inline float _Complex td_log_c64(float _Complex x) { return clogf(x); }
static inline float _Complex td_sqrt_c64(float _Complex x) { return csqrtf(x); }
static inline float _Complex td_sin_c64(float _Complex x) { return csinf(x); }
static inline float _Complex td_cos_c64(float _Complex x) { return ccosf(x); }
static inline float _Complex td_tan_c64(float _Complex x) { return ctanf(x); }
static inline float _Complex td_sinh_c64(float _Complex x) { return csinhf(x); }
static inline float _Complex td_cosh_c64(float _Complex x) { return ccoshf(x); }
static inline float _Complex td_tanh_c64(float _Complex x) { return ctanhf(x); }
static inline float _Complex td_asin_c64(float _Complex x) { return casinf(x); }
static inline float _Complex td_acos_c64(float _Complex x) { return cacosf(x); }
static inline float _Complex td_atan_c64(float _Complex x) { return catanf(x); }
static inline float _Complex td_asinh_c64(float _Complex x) { return casinhf(x); }
static inline float _Complex td_acosh_c64(float _Complex x) { return cacoshf(x); }
static inline float _Complex td_atanh_c64(float _Complex x) { return catanhf(x); }
static inline float td_abs_c64(float _Complex x) { return hypotf(crealf(x), cimagf(x)); }
static inline float td_angle_c64(float _Complex x) { return atan2f(cimagf(x), crealf(x)); }
static inline float _Complex td_pow_c64(float _Complex x, float _Complex y) { return cpowf(x, y); }
static inline float _Complex td_rsqrt_c64(float _Complex x) { return td_div_c64(1, csqrtf(x)); }
static inline float _Complex td_sigmoid_c64(float _Complex x) { return td_div_c64(1, 1 + cexpf(-x)); }
static inline float _Complex td_expm1_c64(float _Complex x) { float a = crealf(x), b = cimagf(x), s = sinf(b / 2); return __builtin_complex(expm1f(a) * cosf(b) - 2 * s * s, expf(a) * sinf(b)); }
static inline float _Complex td_exp2_c64(float _Complex x) { return cexpf(x * (float)0.69314718055994530942); }
static inline float _Complex td_log2_c64(float _Complex x) { return clogf(x) / (float)0.69314718055994530942; }
static inline float _Complex td_log10_c64(float _Complex x) { return clogf(x) / (float)2.30258509299404568402; }
static inline float _Complex td_log1p_c64(float _Complex x) { return clogf(1 + x); }
static inline float _Complex td_sgn_c64(float _Complex x) { float m = td_abs_c64(x); return m == 0 ? 0 : x / m; }
static inline float _Complex td_sinc_c64(float _Complex x) { float _Complex p = x * (float)3.14159265358979323846; return x == 0 ? 1 : td_div_c64(csinf(p), p); }
static inline int td_isnan_c64(float _Complex x) { return (crealf(x) != crealf(x)) | (cimagf(x) != cimagf(x)); }
static inline int td_isinf_c64(float _Complex x) { return (__builtin_isinf(crealf(x)) != 0) | (__builtin_isinf(cimagf(x)) != 0); }
static inline int td_isfinite_c64(float _Complex x) { return __builtin_isfinite(crealf(x)) & __builtin_isfinite(cimagf(x)); }
static inline double _Complex td_mul_c128(double _Complex x, double _Complex y) { double a = creal(x), b = cimag(x), c = creal(y), d = cimag(y); return __builtin_complex(a * c - b * d, a * d + b * c); }
static inline double _Complex td_div_c128(double _Complex x, double _Complex y)
{
    double a = creal(x), b = cimag(x), c = creal(y), d = cimag(y), s = fmax(fabs(c), fabs(d));
    double scale = s == 0 ? 1 : s, p = c / scale, q = d / scale, n = p * p + q * q;
    n = s == 0 ? 0 : n * scale;
    return __builtin_complex((a * p + b * q) / n, (b * p - a * q) / n);
}
static inline double _Complex td_exp_c128(double _Complex x) { return cexp(x); }
static inline double _Complex td_log_c128(double _Complex x) { return clog(x); }
static inline double _Complex td_sqrt_c128(double _Complex x) { return csqrt(x); }
static inline double _Complex td_sin_c128(double _Complex x) { return csin(x); }
static inline double _Complex td_cos_c128(double _Complex x) { return ccos(x); }
static inline double _Complex td_tan_c128(double _Complex x) { return ctan(x); }
static inline double _Complex td_sinh_c128(double _Complex x) { return csinh(x); }
static inline double _Complex td_cosh_c128(double _Complex x) { return ccosh(x); }
static inline double _Complex td_tanh_c128(double _Complex x) { return ctanh(x); }
static inline double _Complex td_asin_c128(double _Complex x) { return casin(x); }
static inline double _Complex td_acos_c128(double _Complex x) { return cacos(x); }
static inline double _Complex td_atan_c128(double _Complex x) { return catan(x); }
static inline double _Complex td_asinh_c128(double _Complex x) { return casinh(x); }
static inline double _Complex td_acosh_c128(double _Complex x) { return cacosh(x); }
static inline double _Complex td_atanh_c128(double _Complex x) { return catanh(x); }
static inline double td_abs_c128(double _Complex x) { return hypot(creal(x), cimag(x)); }
static inline double td_angle_c128(double _Complex x) { return atan2(cimag(x), creal(x)); }
static inline double _Complex td_pow_c128(double _Complex x, double _Complex y) { return cpow(x, y); }
static inline double _Complex td_rsqrt_c128(double _Complex x) { return td_div_c128(1, csqrt(x)); }
static inline double _Complex td_sigmoid_c128(double _Complex x) { return td_div_c128(1, 1 + cexp(-x)); }
static inline double _Complex td_expm1_c128(double _Complex x) { double a = creal(x), b = cimag(x), s = sin(b / 2); return __builtin_complex(expm1(a) * cos(b) - 2 * s * s, exp(a) * sin(b)); }
static inline double _Complex td_exp2_c128(double _Complex x) { return cexp(x * (double)0.69314718055994530942); }
static inline double _Complex td_log2_c128(double _Complex x) { return clog(x) / (double)0.69314718055994530942; }
static inline double _Complex td_log10_c128(double _Complex x) { return clog(x) / (double)2.30258509299404568402; }
static inline double _Complex td_log1p_c128(double _Complex x) { return clog(1 + x); }
static inline double _Complex td_sgn_c128(double _Complex x) { double m = td_abs_c128(x); return m == 0 ? 0 : x / m; }
static inline double _Complex td_sinc_c128(double _Complex x) { double _Complex p = x * (double)3.14159265358979323846; return x == 0 ? 1 : td_div_c128(csin(p), p); }
static inline int td_isnan_c128(double _Complex x) { return (creal(x) != creal(x)) | (cimag(x) != cimag(x)); }
static inline int td_isinf_c128(double _Complex x) { return (__builtin_isinf(creal(x)) != 0) | (__builtin_isinf(cimag(x)) != 0); }
static inline int td_isfinite_c128(double _Complex x) { return __builtin_isfinite(creal(x)) & __builtin_isfinite(cimag(x)); }

#endif
