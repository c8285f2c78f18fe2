/* The incomplete gamma functions P (igamma) and Q (igammac): the power series where x < a + 1 and Legendre's continued fraction, by
 * Lentz's method, elsewhere (Numerical Recipes, 6.2). */
#include <stdbool.h>
#include "kernels/cpu/math/maths.h"
#include "kernels/cpu/math/special.h"

#define TWO_PI 6.28318530717958647693

/* x^a e^-x / gamma(a + 1): the factor of the series.  For large a by logarithms of ratios, which keep the digits. */
static double gamma_prefactor(double a, double x)
{
    if (a > 20) {      /* Stirling around x = a: exp(a (log(1 + d) - d)), d = (x - a) / a */
        double d = (x - a) / a, exponent = fabs(d) < 0.5 ? a * (log1p(d) - d) : a * log(x / a) - (x - a);
        double series = 1 / (12 * a) - 1 / (360 * a * a * a) + 1 / (1260 * a * a * a * a * a);
        return exp(exponent - series) / sqrt(TWO_PI * a);
    }
    return exp(a * log(x) - x - td_lgamma_f64(a + 1));
}
/* P(a, x) = prefactor times the sum of x^k / ((a + 1) ... (a + k)): all terms are positive, so nothing cancels. */
static double gamma_lower_series(double a, double x)
{
    double term = 1, sum = 1;
    for (int k = 1; k < 20000 && fabs(term) > 1e-17 * fabs(sum); k++)
        sum += term *= x / (a + k);
    return sum * gamma_prefactor(a, x);
}
/* Q(a, x) by the modified method of Lentz: c and d are ratios of successive numerators and denominators, kept off 0 by 1e-300. */
static double gamma_upper_fraction(double a, double x)
{
    double b = x + 1 - a, c = 1e300, d = 1 / b, h = d;
    for (int k = 1; k < 20000; k++) {
        double an = -k * (k - a);
        b += 2;
        d = an * d + b;
        d = fabs(d) < 1e-300 ? 1e-300 : d;
        c = b + an / c;
        c = fabs(c) < 1e-300 ? 1e-300 : c;
        d = 1 / d;
        double delta = d * c;
        h *= delta;
        if (fabs(delta - 1) < 1e-16)
            break;
    }
    return h * gamma_prefactor(a, x) * a;
}
/* Around x = a, for large a, where the series and the fraction take sqrt(a) steps and more: Temme's uniform expansion,
 * Q = erfc(eta sqrt(a / 2)) / 2 + exp(-a eta^2 / 2) / sqrt(2 pi a) (c0 + c1 / a), eta^2 / 2 = d - log(1 + d), d = (x - a) / a. */
static double gamma_upper_uniform(double a, double x)
{
    double d = (x - a) / a, half = d - log1p(d), eta = copysign(sqrt(2 * fmax(half, 0.0)), d);
    double c0 = fabs(eta) > 0.05 ? 1 / d - 1 / eta
              : -1. / 3 + eta * (1. / 12 + eta * (-2. / 135 + eta * (1. / 864 + eta * (1. / 2835 - eta * 139. / 777600))));
    return erfc(eta * sqrt(a / 2)) / 2 + exp(-a * half) / sqrt(TWO_PI * a) * (c0 - (1. / 540 + eta / 288) / a);
}
/* log gamma(1 + a) for 0 <= a <= 1/8, with a relative error of a few units: (1 - euler) a - log(1 + a) + the sum of
 * (zeta(k) - 1) (-a)^k / k. */
static double log_gamma_1p(double a)
{
    static const double zeta_less_one[] = {     /* of 2, 3, ... 13 */
        0.6449340668482264, 0.2020569031595943, 0.08232323371113819, 0.03692775514336993, 0.01734306198444914, 0.008349277381922827,
        0.00407735619794434, 0.0020083928260822143, 0.0009945751278180853, 0.0004941886041194645, 0.0002460865533080483, 0.00012271334757848915};
    double sum = 0;
    for (int k = 13; k >= 2; k--)
        sum = zeta_less_one[k - 2] / k - a * sum;
    return a * (a * sum + 0.42278433509846714) - log1p(a);
}
/* Q(a, x) for small a and x, where P is so near to 1 that its complement keeps no digits: with g = x^a / gamma(a + 1) it is
 * 1 - g - g a times the sum of (-x)^k / (k! (a + k)). */
static double gamma_upper_series(double a, double x)
{
    double log_g = a * log(x) - log_gamma_1p(a), term = 1, sum = 0;
    for (int k = 1; k < 100 && fabs(term) > 1e-18 * fabs(sum); k++)
        sum += (term *= -x / k) / (a + k);
    return -expm1(log_g) - exp(log_g) * a * sum;
}
/* P (or Q, the upper one) with the limits at 0 and infinity.  One of the two is computed directly, the other is its complement, where
 * that has digits. */
static double gamma_part(double a, double x, bool upper)
{
    if (isnan(a) || isnan(x) || x < 0 || a < 0)
        return NAN;
    if (a == 0)
        return x > 0 ? !upper : NAN;
    if (x == 0)
        return upper;
    if (isinf(a))
        return isinf(x) ? NAN : upper;
    if (isinf(x))
        return !upper;
    if (a > 20000 && fabs(x - a) < 0.3 * a)
        return upper ? gamma_upper_uniform(a, x) : 1 - gamma_upper_uniform(a, x);
    if (upper && a <= 0.125 && x < a + 1)
        return gamma_upper_series(a, x);
    if (x < a + 1)
        return upper ? 1 - gamma_lower_series(a, x) : gamma_lower_series(a, x);
    return upper ? gamma_upper_fraction(a, x) : 1 - gamma_upper_fraction(a, x);
}
double td_igamma_f64(double a, double x)  { return gamma_part(a, x, false); }
double td_igammac_f64(double a, double x) { return gamma_part(a, x, true); }
