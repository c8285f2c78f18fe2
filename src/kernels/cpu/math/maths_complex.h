/* The functions of mathematics for complex numbers: suffix c64 (float _Complex) and c128.
 *
 * Products and quotients are PyTorch's, whatever the compiler's flags say about complex arithmetic.  What the C library
 * has it does, with the special values of C's Annex G; these loops don't vectorise.  The second half of this file is
 * the body; it is included once per type: R is the real type, C the complex one, N(name) our function of the complex
 * type, F(name) of the real one, L(name) the library's. */
#ifndef TD_KERNELS_CPU_MATH_MATHS_COMPLEX_H
#define TD_KERNELS_CPU_MATH_MATHS_COMPLEX_H

#include <complex.h>
#undef I                                    /* too short a name to take from everybody who includes this */
#include "kernels/cpu/math/maths_f32.h"
#include "kernels/cpu/math/maths_f64.h"

#define R float
#define C float _Complex
#define N(name) td_##name##_c64
#define F(name) td_##name##_f32
#define L(name) name##f
#include "kernels/cpu/math/maths_complex.h"
#undef R
#undef C
#undef N
#undef F
#undef L

#define R double
#define C double _Complex
#define N(name) td_##name##_c128
#define F(name) td_##name##_f64
#define L(name) name
#include "kernels/cpu/math/maths_complex.h"
#undef R
#undef C
#undef N
#undef F
#undef L

#elif defined R

TD_MATHS R N(real)(C z)         { return __real__ z; }
TD_MATHS R N(imag)(C z)         { return __imag__ z; }
TD_MATHS C N(make)(R re, R im)  { return __builtin_complex(re, im); }
TD_MATHS C N(scale)(C z, R by)  { return N(make)(__real__ z * by, __imag__ z * by); }
TD_MATHS C N(conj)(C z)         { return N(make)(__real__ z, -__imag__ z); }
TD_MATHS int N(isnan)(C z)      { return F(isnan)(__real__ z) | F(isnan)(__imag__ z); }
TD_MATHS int N(isinf)(C z)      { return F(isinf)(__real__ z) | F(isinf)(__imag__ z); }
TD_MATHS int N(isfinite)(C z)   { return F(isfinite)(__real__ z) & F(isfinite)(__imag__ z); }
TD_MATHS R N(abs)(C z)          { return F(hypot)(__real__ z, __imag__ z); }
TD_MATHS R N(angle)(C z)        { return F(atan2)(__imag__ z, __real__ z); }

TD_MATHS C N(mul)(C x, C y)
{
    R a = __real__ x, b = __imag__ x, c = __real__ y, d = __imag__ y;
    return N(make)(a * c - b * d, a * d + b * c);
}
/* Smith's quotient (1962): everything over the larger part of the divisor, so that its square can't overflow. */
TD_MATHS C N(div)(C x, C y)
{
    R a = __real__ x, b = __imag__ x, c = __real__ y, d = __imag__ y;
    int turn = F(abs)(c) < F(abs)(d);
    R ratio = (turn ? c : d) / (turn ? d : c), unit = 1 / (turn ? c * ratio + d : c + d * ratio);
    R re = (turn ? a * ratio + b : a + b * ratio) * unit, im = (turn ? b * ratio - a : b - a * ratio) * unit;
    int zero = c == 0 && d == 0;
    return N(make)(zero ? a / F(abs)(c) : re, zero ? b / F(abs)(d) : im);
}
TD_MATHS C N(reciprocal)(C z) { return N(div)(N(make)(1, 0), z); }
TD_MATHS C N(sgn)(C z)
{
    R r = N(abs)(z);
    return r == 0 ? N(make)(0, 0) : N(make)(__real__ z / r, __imag__ z / r);
}

/* ---- by the C library: for languages without one src/formula/complex.h has those that are nothing but a call */

static inline C N(exp)(C z)   { return L(cexp)(z); }
static inline C N(log)(C z)   { return L(clog)(z); }
static inline C N(sqrt)(C z)  { return L(csqrt)(z); }
static inline C N(sin)(C z)   { return L(csin)(z); }
static inline C N(cos)(C z)   { return L(ccos)(z); }
static inline C N(tan)(C z)   { return L(ctan)(z); }
static inline C N(sinh)(C z)  { return L(csinh)(z); }
static inline C N(cosh)(C z)  { return L(ccosh)(z); }
static inline C N(tanh)(C z)  { return L(ctanh)(z); }
static inline C N(asin)(C z)  { return L(casin)(z); }
static inline C N(acos)(C z)  { return L(cacos)(z); }
static inline C N(atan)(C z)  { return L(catan)(z); }
static inline C N(asinh)(C z) { return L(casinh)(z); }
static inline C N(acosh)(C z) { return L(cacosh)(z); }
static inline C N(atanh)(C z) { return L(catanh)(z); }

static inline C N(exp2)(C z)    { return L(cexp)(N(scale)(z, (R)0.69314718055994531)); }
static inline C N(log2)(C z)    { return N(scale)(L(clog)(z), (R)1.4426950408889634); }
static inline C N(log10)(C z)   { return N(scale)(L(clog)(z), (R)0.43429448190325183); }
static inline C N(rsqrt)(C z)   { return N(reciprocal)(L(csqrt)(z)); }
static inline C N(sigmoid)(C z)
{
    C e = L(cexp)(N(make)(-__real__ z, -__imag__ z));
    return N(reciprocal)(N(make)(1 + __real__ e, __imag__ e));
}
/* exp(a) cos(b) - 1 = (exp(a) - 1) cos(b) - 2 sin(b/2)^2: nothing cancels near 0. */
static inline C N(expm1)(C z)
{
    R a = __real__ z, b = __imag__ z, s = F(sin)(b / 2);
    return N(make)(F(expm1)(a) * F(cos)(b) - 2 * s * s, F(exp)(a) * F(sin)(b));
}
/* Near 0 the modulus of 1 + z comes from |1 + z|^2 - 1 = a (2 + a) + b^2. */
static inline C N(log1p)(C z)
{
    R a = __real__ z, b = __imag__ z, near = F(log1p)(a * (2 + a) + b * b) / 2, far = F(log)(F(hypot)(1 + a, b));
    return N(make)(N(abs)(z) < (R)0.5 ? near : far, F(atan2)(b, 1 + a));
}
static inline C N(sinc)(C z)
{
    C p = N(scale)(z, (R)3.14159265358979324);
    return __real__ z == 0 && __imag__ z == 0 ? N(make)(1, 0) : N(div)(L(csin)(p), p);
}
/* PyTorch's, including NaN for 0 to the power of 0. */
static inline C N(pow)(C x, C y) { return L(cpow)(x, y); }

#endif
