/* Bessel and Airy functions and orthogonal polynomials.
 *
 * Where no series is both short and exact, the functions are integrals of analytic integrands that fall off like a
 * Gaussian or faster, summed at equal steps: the error of such a sum falls exponentially with 1 / step, so that a few dozen
 * terms give all digits. */
#include "kernels/cpu/math/special.h"
#include <stdbool.h>

#define PI    3.14159265358979323846
#define EULER 0.57721566490153286061

/* ---- Bessel functions: those of the C library, but as PyTorch's at infinity, where they have no value */

double td_bessel_j0_f64(double x) { return isinf(x) ? NAN : j0(x); }
double td_bessel_j1_f64(double x) { return isinf(x) ? NAN : j1(x); }
double td_bessel_y0_f64(double x) { return x < 0 || isinf(x) ? NAN : y0(x); }
double td_bessel_y1_f64(double x) { return x < 0 || isinf(x) ? NAN : y1(x); }
double td_spherical_bessel_j0_f64(double x)
{
    return isinf(x) ? 0 : fabs(x) < 1e-4 ? 1 - x * x / 6 : sin(x) / x;
}

/* ---- modified Bessel functions of the second kind */

/* K0(x) or K1(x) for small x > 0, by the series with a logarithm (Abramowitz and Stegun, 9.6.13 and 9.6.11). */
static double k_series(double x, int order)
{
    double quarter = x * x / 4, term = 1, harmonic = 0, plain = 0, weighted = 0;
    for (int k = 0; k < 40; k++) {
        plain += term;                                      /* of I0 or I1 */
        weighted += term * (order ? 2 * harmonic + 1.0 / (k + 1) - 2 * EULER : harmonic - EULER);
        harmonic += 1.0 / (k + 1);
        term *= quarter / ((k + 1.0) * (k + 1 + order));
    }
    return order ? 1 / x + log(x / 2) * (x / 2) * plain - x / 4 * weighted : -log(x / 2) * plain + weighted;
}
/* exp(x) K(x) = the integral over t > 0 of exp(-2 x sinh(t / 2)^2) cosh(order t). */
static double k_integral(double x, int order)
{
    double step = fmin(0.15, 0.5 / sqrt(x)), sum = 0.5;
    for (int k = 1; k < 200; k++) {
        double t = k * step, s = sinh(t / 2), term = exp(-2 * x * s * s) * (order ? cosh(t) : 1);
        sum += term;
        if (term < 1e-18 * sum)
            break;
    }
    return sum * step;
}
/* The series below 2, the integral from there on; the factor exp(x) is put on or taken off. */
static double bessel_k(double x, int order, bool scaled)
{
    if (!(x > 0))
        return x == 0 ? INFINITY : NAN;
    if (x < 2)
        return k_series(x, order) * (scaled ? exp(x) : 1);
    return isinf(x) ? 0 : k_integral(x, order) * (scaled ? 1 : exp(-x));
}
double td_modified_bessel_k0_f64(double x)        { return bessel_k(x, 0, false); }
double td_modified_bessel_k1_f64(double x)        { return bessel_k(x, 1, false); }
double td_scaled_modified_bessel_k0_f64(double x) { return bessel_k(x, 0, true); }
double td_scaled_modified_bessel_k1_f64(double x) { return bessel_k(x, 1, true); }

/* ---- the Airy function Ai */

/* The Maclaurin series, in long double for what its terms cancel. */
static double airy_series(double x)
{
    const long double at_zero = 0.355028053887817239260063186004L, slope = 0.258819403792806798405183560189L;
    long double cube = (long double)x * x * x, f = 1, g = x, even = 1, odd = x;
    for (int k = 1; k < 120; k++) {
        even *= cube / ((3.0L * k - 1) * (3.0L * k));
        odd *= cube / ((3.0L * k) * (3.0L * k + 1));
        f += even, g += odd;
    }
    return (double)(at_zero * f - slope * g);
}
/* Along the path of steepest descent: exp(-z) / (pi x^(1/4)) times the integral of exp(-u^2) cos(u^3 x^(-3/4) / 3). */
static double airy_integral(double x)
{
    double root = sqrt(x), scale = 1 / (3 * root * sqrt(root)), step = 0.125, sum = 0.5;
    for (int k = 1; k < 52; k++) {
        double u = k * step;
        sum += exp(-u * u) * cos(u * u * u * scale);
    }
    return exp(-2.0 / 3 * x * root) / (PI * sqrt(root)) * sum * step;
}
/* The asymptotic expansion for large -x (Abramowitz and Stegun, 10.4.60), up to its smallest term. */
static double airy_oscillating(double x)
{
    double root = sqrt(x), z = 2.0 / 3 * x * root, term = 1, last = 1, p = 1, q = 0;
    for (int k = 0; k < 60; k++) {
        term *= (6 * k + 1.0) * (6 * k + 5) / (72.0 * (k + 1) * z);      /* c_(k+1) / z^(k+1) */
        if (term > last || term < 1e-17)
            break;
        last = term;
        switch ((k + 1) & 3) {
        case 1: q += term; break;
        case 2: p -= term; break;
        case 3: q -= term; break;
        default: p += term;
        }
    }
    return (sin(z + PI / 4) * p - cos(z + PI / 4) * q) / sqrt(PI * root);
}
double td_airy_ai_f64(double x)
{
    if (isnan(x) || isinf(x))
        return NAN;
    return x > 103.892 ? 0 : x > 3 ? airy_integral(x) : x > -8 ? airy_series(x) : airy_oscillating(-x);
}

/* ---- orthogonal polynomials: by their recurrences, or where that is closer and shorter, by angles */

static int64_t degree(double n) { return n > -1 && n < 0x1p63 ? (int64_t)n : -1; }
static bool is_even(int64_t n) { return n % 2 == 0; }
/* Above this degree no recurrence is followed to its end, which could take years: a closed form, or the limit of large degrees, whose
 * relative error is about one over the degree. What overflows is NaN, as it is by the recurrence. */
enum { MOST_STEPS = 1 << 24 };
/* I_0 by its series, whose terms are all positive. */
static double bessel_i0(double x)
{
    double sum = 1, term = 1;
    for (int k = 1; term > 1e-17 * sum && !isinf(sum); k++)
        sum += term *= x * x / (4. * k * k);
    return sum;
}
static double unless_infinite(double y) { return isinf(y) ? NAN : y; }

/* p, q, 2 x q - p, ...: the n-th. */
static double chebyshev(int64_t n, double x, double q)
{
    double p = 1;
    for (int64_t k = 2; k <= n && !isnan(q); k++) {
        double r = 2 * x * q - p;
        p = q, q = r;
    }
    return n == 0 ? 1 : q;
}
/* T(n, cos t) = cos(n t): by the angle inside [-1, 1] where that is shorter, cosh outside where the recurrence is too long; at the
 * ends the value is known.  U, V and W in the same way, with other starts. */
double td_chebyshev_polynomial_t_f64(double x, double degree_)
{
    int64_t n = degree(degree_);
    if (n < 0)
        return 0;
    if (fabs(x) == 1)
        return x > 0 || is_even(n) ? 1 : -1;
    if (n > MOST_STEPS && fabs(x) > 1) {
        double t = acosh(fabs(x)), y = cosh((double)n * t);
        return unless_infinite(x > 0 || is_even(n) ? y : -y);
    }
    return n > 6 && fabs(x) < 1 ? cos((double)n * acos(x)) : chebyshev(n, x, x);
}
double td_chebyshev_polynomial_u_f64(double x, double degree_)
{
    int64_t n = degree(degree_);
    if (n < 0)
        return 0;
    if (fabs(x) == 1)
        return x > 0 || is_even(n) ? (double)n + 1 : -((double)n + 1);
    if (n > MOST_STEPS && fabs(x) > 1) {
        double t = acosh(fabs(x)), y = sinh(((double)n + 1) * t) / sinh(t);
        return unless_infinite(x > 0 || is_even(n) ? y : -y);
    }
    return n > 8 && fabs(x) < 1 ? sin(((double)n + 1) * acos(x)) / sin(acos(x)) : chebyshev(n, x, x + x);
}
double td_chebyshev_polynomial_v_f64(double x, double degree_)
{
    int64_t n = degree(degree_);
    if (n < 0)
        return 0;
    if (fabs(x) == 1)
        return x > 0 ? 1 : is_even(n) ? 2 * (double)n + 1 : -(2 * (double)n + 1);
    if (n > MOST_STEPS && fabs(x) > 1) {
        double t = acosh(fabs(x)), m = (double)n + 0.5, y = x > 0 ? cosh(m * t) / cosh(t / 2) : sinh(m * t) / sinh(t / 2);
        return unless_infinite(x > 0 || is_even(n) ? y : -y);
    }
    return n > 8 && fabs(x) < 1 ? cos(((double)n + 0.5) * acos(x)) / cos(acos(x) / 2) : chebyshev(n, x, x + x - 1);
}
double td_chebyshev_polynomial_w_f64(double x, double degree_)
{
    int64_t n = degree(degree_);
    if (n < 0)
        return 0;
    if (fabs(x) == 1)
        return x > 0 ? 2 * (double)n + 1 : is_even(n) ? 1 : -1;
    if (n > MOST_STEPS && fabs(x) > 1) {
        double t = acosh(fabs(x)), m = (double)n + 0.5, y = x > 0 ? sinh(m * t) / sinh(t / 2) : cosh(m * t) / cosh(t / 2);
        return unless_infinite(x > 0 || is_even(n) ? y : -y);
    }
    return n > 8 && fabs(x) < 1 ? sin(((double)n + 0.5) * acos(x)) / sin(acos(x) / 2) : chebyshev(n, x, x + x + 1);
}

/* Degrees above which Hermite polynomials overflow at every x that matters: NaN there. */
enum { HERMITE_LIMIT = 512 };

/* The physicists' polynomials: H(k + 1) = 2 x H(k) - 2 k H(k - 1); below the probabilists': He(k + 1) = x He(k) - k He(k - 1). */
double td_hermite_polynomial_h_f64(double x, double degree_)
{
    int64_t n = degree(degree_);
    if (n <= 0 || n > HERMITE_LIMIT)
        return n < 0 ? 0 : n == 0 ? 1 : NAN;
    double p = 1, q = x + x;
    for (int64_t k = 2; k < n + n; k += 2) {
        double r = (x + x) * q - (double)k * p;
        p = q, q = r;
    }
    return q;
}
double td_hermite_polynomial_he_f64(double x, double degree_)
{
    int64_t n = degree(degree_);
    if (n <= 0 || n > HERMITE_LIMIT)
        return n < 0 ? 0 : n == 0 ? 1 : NAN;
    double p = 1, q = x;
    for (int64_t k = 1; k < n; k++) {
        double r = x * q - (double)k * p;
        p = q, q = r;
    }
    return q;
}
double td_laguerre_polynomial_l_f64(double x, double degree_)
{
    int64_t n = degree(degree_);
    if (n < 0)
        return 0;
    if (n == 0 || x == 0)
        return 1;
    if (n > MOST_STEPS) {               /* Hilb's formula */
        double z = 2 * sqrt(((double)n + 0.5) * fabs(x));
        return unless_infinite(exp(x / 2) * (x > 0 ? td_bessel_j0_f64(z) : bessel_i0(z)));
    }
    double p = 1, q = 1 - x;
    for (int64_t k = 1; k < n && !isnan(q); k++) {
        double r = ((double)(2 * k + 1) - x) * q - (double)k * p;
        p = q, q = r / (double)(k + 1);
    }
    return q;
}
double td_legendre_polynomial_p_f64(double x, double degree_)
{
    int64_t n = degree(degree_);
    if (n < 0)
        return 0;
    if (fabs(x) == 1)
        return x > 0 || is_even(n) ? 1 : -1;
    if (n > MOST_STEPS) {               /* Hilb's formula; P_n(-x) = (-1)^n P_n(x) */
        double m = (double)n + 0.5, t = fabs(x) < 1 ? acos(fabs(x)) : acosh(fabs(x));
        double y = fabs(x) < 1 ? sqrt(t / sin(t)) * td_bessel_j0_f64(m * t) : sqrt(t / sinh(t)) * bessel_i0(m * t);
        return unless_infinite(x > 0 || is_even(n) ? y : -y);
    }
    double p = 1, q = x;
    for (int64_t k = 1; k < n && !isnan(q); k++) {
        double r = (double)(2 * k + 1) * x * q - (double)k * p;
        p = q, q = r / (double)(k + 1);
    }
    return n == 0 ? 1 : q;
}
