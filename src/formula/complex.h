/* Complex numbers in languages that have none: a struct of two parts, and functions for what C has signs and a library for.
 *
 * codegen/maths.py reads this as text, once for each precision, and puts it around src/kernels/cpu/math/maths_complex.h, with whose letters it is
 * written: R is the real type, C the complex one, N(name) our function of the complex type, F(name) of the real one.  Sums and
 * products with a real number leave the other part alone, as C's do, so that the sign of a zero says on which side of a cut a number lies.
 *
 * Inverse functions are those of Kahan, "Branch Cuts for Complex Elementary Functions" (1987). */
typedef struct __attribute__((aligned(SIZE))) C { R real, imag; } C;
static inline C N(make)(R re, R im)
{
    C z;
    z.real = re;
    z.imag = im;
    return z;
}

/* ---- what needs functions of real numbers */

TD_MATHS C N(neg)(C z)              { return N(make)(-z.real, -z.imag); }
TD_MATHS C N(add)(C x, C y)         { return N(make)(x.real + y.real, x.imag + y.imag); }
TD_MATHS C N(sub)(C x, C y)         { return N(make)(x.real - y.real, x.imag - y.imag); }
TD_MATHS C N(add_real)(C z, R by)   { return N(make)(z.real + by, z.imag); }
TD_MATHS C N(div_real)(C z, R by)   { return N(make)(z.real / by, z.imag / by); }
TD_MATHS int N(equal)(C x, C y)     { return (x.real == y.real) & (x.imag == y.imag); }
TD_MATHS int N(differ)(C x, C y)    { return (x.real != y.real) | (x.imag != y.imag); }
TD_MATHS int N(truth)(C z)          { return (z.real != 0) | (z.imag != 0); }
/* -i z, by which functions of angles follow from those of hyperbolas, and i z. */
TD_MATHS C N(turned_back)(C z)      { return N(make)(z.imag, -z.real); }
TD_MATHS C N(turned)(C z)           { return N(make)(-z.imag, z.real); }
/* 0 times what isn't a number is 0 where it is a part of a number on an axis. */
TD_MATHS R N(part)(R x, R zero)     { return zero == 0 && x != x ? zero : x * zero; }

/* exp(a) may overflow where its product with cos(b) doesn't. */
TD_MATHS C N(exp)(C z)
{
    R large = z.real > 80 && F(isfinite)(z.real) ? z.real / 2 : 0, e = F(exp)(z.real - large), more = large > 0 ? F(exp)(large) : (R)1;
    C y = N(make)(e * F(cos)(z.imag) * more, e * F(sin)(z.imag) * more);
    if (F(isinf)(z.real) && !F(isfinite)(z.imag))
        return z.real > 0 ? N(make)(z.real, z.imag - z.imag) : N(make)(0, 0);
    return z.imag == 0 ? N(make)(e * more, z.imag) : y;
}
/* Near the unit circle the modulus' logarithm comes from |z|^2 - 1 = (x - 1)(x + 1) + y^2. */
TD_MATHS C N(log)(C z)
{
    R a = F(abs)(z.real), b = F(abs)(z.imag), x = a > b ? a : b, y = a > b ? b : a, r = F(hypot)(a, b);
    R near = F(log1p)((x - 1) * (x + 1) + y * y) / 2, huge = F(log)(F(hypot)(a / 2, b / 2)) + (R)0.69314718055994531;
    return N(make)(r > (R)0.7 && r < (R)1.4 ? near : F(isinf)(r) && F(isfinite)(x) ? huge : F(log)(r), F(atan2)(z.imag, z.real));
}
TD_MATHS C N(sqrt)(C z)
{
    R a = F(abs)(z.real), b = F(abs)(z.imag), large = a > (R)1e30 || b > (R)1e30 ? 16 : 1;
    R t = F(sqrt)((a / large + F(hypot)(a / large, b / large)) / 2), s = b / large / (2 * t);
    R by = large > 1 ? 4 : 1, p = (z.real < 0 ? s : t) * by, q = (z.real < 0 ? t : s) * by;
    if (z.real == 0 && z.imag == 0)
        return N(make)(0, z.imag);
    if (F(isinf)(b))
        return N(make)(b, z.imag);
    if (F(isinf)(a))
        p = z.real > 0 ? a : F(isnan)(b) ? b : (R)0, q = z.real < 0 ? a : F(isnan)(b) ? b : (R)0;
    return N(make)(p, F(copysign)(q, z.imag));
}
TD_MATHS C N(sinh)(C z)
{
    R s = F(sinh)(z.real), c = F(cosh)(z.real);
    return N(make)(N(part)(F(cos)(z.imag), s), z.imag == 0 ? z.imag : c * F(sin)(z.imag));
}
TD_MATHS C N(cosh)(C z)
{
    R s = F(sinh)(z.real), c = F(cosh)(z.real);
    return N(make)(c * F(cos)(z.imag), z.imag == 0 ? F(copysign)((R)1, s) * z.imag : N(part)(F(sin)(z.imag), s));
}
/* With t = tan(b) and s = sinh(a): (cosh(a) s (1 + t^2) + i t) / (1 + s^2 (1 + t^2)), and its limit where s^2 is all that counts. */
TD_MATHS C N(tanh)(C z)
{
    R t = F(tan)(z.imag), s = F(sinh)(z.real), c = F(cosh)(z.real), secant = 1 + t * t, by = 1 + s * s * secant;
    R far = 4 * F(sin)(z.imag) * F(cos)(z.imag) * F(exp)(-2 * F(abs)(z.real));
    if (F(abs)(z.real) > 20)
        return N(make)(F(copysign)((R)1, z.real), F(isfinite)(z.imag) ? far : F(copysign)((R)0, z.imag));
    return N(make)(z.real == 0 && !F(isfinite)(z.imag) ? z.real : c * s * secant / by, z.imag == 0 ? z.imag : t / by);
}
TD_MATHS C N(sin)(C z)  { return N(turned_back)(N(sinh)(N(turned)(z))); }
TD_MATHS C N(cos)(C z)  { return N(cosh)(N(turned)(z)); }
TD_MATHS C N(tan)(C z)  { return N(turned_back)(N(tanh)(N(turned)(z))); }

/* Roots of 1 - z and 1 + z. */
TD_MATHS C N(root_below)(C z)   { return N(sqrt)(N(make)(1 - z.real, -z.imag)); }
TD_MATHS C N(root_above)(C z)   { return N(sqrt)(N(make)(1 + z.real, z.imag)); }
TD_MATHS C N(asin)(C z)
{
    C a = N(root_below)(z), b = N(root_above)(z);
    R across = !F(isinf)(z.real) ? a.real * b.real - a.imag * b.imag : F(isinf)(z.imag) ? F(abs)(z.imag) : (R)0;
    return N(make)(z.real == 0 ? z.real : F(atan2)(z.real, across), F(asinh)(a.real * b.imag - a.imag * b.real));
}
TD_MATHS C N(acos)(C z)
{
    C a = N(root_below)(z), b = N(root_above)(z);
    return N(make)(2 * F(atan2)(a.real, b.real), F(asinh)(b.real * a.imag - b.imag * a.real));
}
TD_MATHS C N(acosh)(C z)
{
    C a = N(sqrt)(N(make)(z.real - 1, z.imag)), b = N(root_above)(z);
    return N(make)(F(asinh)(a.real * b.real + a.imag * b.imag), 2 * F(atan2)(a.imag, b.real));
}
/* Far from the origin 1 / z is left of it, and a quarter of a turn. */
TD_MATHS C N(atanh)(C z)
{
    R a = F(abs)(z.real), b = z.imag, r = F(hypot)(a, b), below = (1 - a) * (1 - a) + b * b;
    R far = F(isinf)(r) ? (R)0 : a / r / r, near = a == 0 ? a : F(log1p)(4 * a / below) / 4;
    R angle = r > (R)1e9 ? F(copysign)((R)1.57079632679489662, b) : F(atan2)(2 * b, (1 - a) * (1 + a) - b * b) / 2;
    return N(make)(F(copysign)(r > (R)1e9 ? far : near, z.real), angle);
}
TD_MATHS C N(asinh)(C z)    { return N(turned_back)(N(asin)(N(turned)(z))); }
TD_MATHS C N(atan)(C z)     { return N(turned_back)(N(atanh)(N(turned)(z))); }
TD_MATHS C N(pow)(C x, C y) { return N(exp)(N(mul)(y, N(log)(x))); }
