/* How a sample moves with its parameter: dx / d(alpha) of a Gamma sample, and of a Beta sample divided by 1 - x.
 *
 * A sample x of a distribution F(x; alpha) that keeps its quantile F(x; alpha) = u as alpha changes moves by
 * -(dF / d(alpha)) / (dF / dx) (implicit reparameterisation; Jankowiak and Obermeyer, arXiv 1806.01851, whose expansions and
 * fitted constants these are).  No one formula does everywhere: power series near the ends of the support, Rice's saddle
 * point expansion where the parameters are large, a rational function fitted to numerical values in between.  The fits
 * are good to a few parts in ten thousand, so equality with PyTorch takes its regions and constants, not the limit. */
#include "kernels/cpu/math/maths.h"
#include "kernels/cpu/math/special.h"

static double or_zero(double x) { return isnan(x) ? 0 : x; }

/* c[0] + c[1] x + ... + c[3] x^3 */
static double cubic(double x, const double *c) { return c[0] + x * (c[1] + x * (c[2] + x * c[3])); }

/* ---- Gamma */

/* F = x^alpha sum over k of (-x)^k / (k! (alpha + k)) / Gamma(alpha), for small x. */
static double gamma_by_series(double alpha, double x)
{
    double term = 1, sum = 0, slope = 0;
    for (int k = 0; k <= 5; k++) {
        double below = alpha + k;
        term *= k ? -x / k : 1;
        sum += term / below;
        slope += term / (below * below);
    }
    double rise = pow(x, alpha), density = pow(x, alpha - 1) * exp(-x);
    return or_zero(-((log(x) - td_digamma_f64(alpha)) * (rise * sum) - rise * slope) / density);
}

/* For large alpha: the saddle point expansion. */
static double gamma_by_saddle(double alpha, double x)
{
    double square = alpha * alpha, apart = alpha - x, ratio = log(x / alpha), root = sqrt(8 * alpha);
    if (0.9 * alpha <= x && x <= 1.1 * alpha) {     /* the expansion is 0 / 0 at x = alpha: its series there */
        double scale = 1 + 24 * alpha * (1 + 12 * alpha);
        double near = 1440 * square + 6 * x * (53 - 120 * x) - 65 * x * x / alpha + alpha * (107 + 3600 * x);
        return scale * near / (1244160 * square * square);
    }
    double far = pow(-apart - alpha * ratio, -1.5);
    double inner = ratio * (root / apart + (x < alpha ? -far : far)) - sqrt(2 / alpha) * (alpha + x) / (apart * apart);
    double stirling = 1 + (1 + 1 / (24 * alpha)) / (12 * alpha);
    return -stirling * x * inner / root;
}

/* In between: exp of a ratio of polynomials. */
static double gamma_by_fit(double alpha, double x)
{
    static const double fit[3][2][4] = {    /* by powers of log(x / alpha), numerator and denominator in log(alpha) */
        {{0.16009398, -0.094634809, 0.025146376, -0.0030648343}, {1, 0.32668115, 0.10406089, 0.0014179084}},
        {{0.53487893, 0.1298071, 0.065735949, -0.0015649758}, {0.16639465, 0.020070113, -0.0035938915, -0.00058392623}},
        {{0.040121004, -0.0065914022, -0.0026286047, -0.0013441777},
         {0.017050642, -0.0021309326, 0.00085092367, -1.5247877e-07}}};
    double u = log(x / alpha), v = log(alpha), value[2];
    for (int i = 0; i < 2; i++)
        value[i] = cubic(v, fit[0][i]) + u * (cubic(v, fit[1][i]) + u * cubic(v, fit[2][i]));
    return exp(value[0] / value[1]);
}

double td_standard_gamma_grad_f64(double alpha, double x)
{
    return x < 0.8f ? gamma_by_series(alpha, x) : alpha > 8 ? gamma_by_saddle(alpha, x) : gamma_by_fit(alpha, x);
}

/* ---- Beta and Dirichlet */

/* Near 0: F by the binomial series of (1 - x)^(beta - 1). */
static double beta_by_series_alpha(double x, double alpha, double beta)
{
    double outer = td_digamma_f64(alpha) - td_digamma_f64(alpha + beta) - log(x), term = 1, sum = 0;
    for (int k = 0; k <= 10; k++) {
        double below = alpha + k;
        term *= k ? (k - beta) * x / k : 1;
        sum += term / below * (outer + 1 / below);
    }
    return or_zero(x * pow(1 - x, -beta) * sum);
}

/* Near 1, with x and the parameters exchanged: the derivative by beta of the same series, whose coefficients are the
 * products (beta - 1) ... (beta - k). */
static double beta_by_series_beta(double x, double alpha, double beta)
{
    double outer = td_digamma_f64(alpha + beta) - td_digamma_f64(beta), term = 1, product = 1, slope = 0;
    double sum = outer / alpha;
    for (int k = 1; k <= 8; k++) {
        term *= -x / k;
        slope = slope * (beta - k) + product;
        product *= beta - k;
        sum += term / (alpha + k) * (slope + outer * product);
    }
    return or_zero(-pow(1 - x, 1 - beta) * sum);
}

static double stirling(double x) { return 1 + 1 / (12 * x) + 1 / (288 * x * x); }

static double beta_by_saddle(double x, double a, double b)
{
    double total = a + b, mean = a / total, deviation = sqrt(a * b / (total + 1)) / total, rest = 1 - x;
    if (mean - 0.1 * deviation <= x && x <= mean + 0.1 * deviation) {     /* 0 / 0 at the mean: its series there */
        double series = 8 * rest * (135 * b - 11);
        series = (453 + 1620 * b * rest - 455 * x) * b + a * series;
        series = 3 * (59 + 180 * b - 90 * x) * b * b + a * series;
        series = (43 + 20 * (16 + 27 * b) * x) * b * b * b + a * series;
        series = 47 * x * b * b * b * b + a * series;
        double scale = (1 + 12 * a) * (1 + 12 * b) / (total * total) / rest;
        return scale * series / (12960 * a * a * a * b * b * (1 + 12 * total));
    }
    double apart = b * x - a * rest;
    double first = (-2 * a * a * rest - a * b * rest - x * b * b) / (sqrt(2 * a / b) * pow(total, 1.5) * apart * apart);
    double far = pow(b * log(b / (total * rest)) + a * log(a / (total * x)), -1.5);
    double second = log(a / (total * x)) / 2 * (sqrt(8 * a * b / total) / apart + (x < mean ? far : -far));
    return stirling(a) * stirling(b) / stirling(total) * -x / sqrt(2 * a * b / total) * (first + second);
}

/* A first guess times a fitted ratio of polynomials in log(x), log(alpha / x) and log(total x / alpha). */
static double beta_by_fit(double x, double alpha, double total)
{
    static const double fit[2][3][3][4] = {
        {{{1.003668233, -0.01061107488, -0.0657888334, 0.01201642863},
          {0.6336835991, -0.3557432599, 0.05486251648, -0.001465281033},
          {-0.03276231906, 0.004474107445, 0.002429354597, -0.0001557569013}},
         {{0.221950385, -0.3187676331, 0.01799915743, 0.01074823814},
          {-0.2951249643, 0.06219954479, 0.01535556598, 0.001550077057},
          {0.02155310298, 0.004170831599, 0.001292462449, 6.976601077e-05}},
         {{-0.05980841433, 0.008441916499, 0.01085618172, 0.002319392565},
          {0.02911413504, 0.01400243777, -0.002721828457, 0.000751041181},
          {0.005900514878, -0.001936558688, -9.495446725e-06, 5.385558597e-05}}},
        {{{1, -0.02924021934, -0.04438342661, 0.007285809825},
          {0.6357567472, -0.3473456711, 0.05454656494, -0.002407477521},
          {-0.03301322327, 0.004845219414, 0.00231480583, -0.0002307248149}},
         {{0.5925320577, -0.1757678135, 0.01505928619, 0.000564515273},
          {0.1014815858, -0.06589186703, 0.01272886114, -0.0007316646956},
          {-0.007258481865, 0.001096195486, 0.0003934994223, -4.12701925e-05}},
         {{0.06469649321, -0.0236701437, 0.002902096474, -5.896963079e-05},
          {0.001925008108, -0.002869809258, 0.0008000589141, -6.063713228e-05},
          {-0.0003477407336, 6.959756487e-05, 1.097287507e-05, -1.650964693e-06}}}};
    double u = log(x), a = log(alpha) - u, b = log(total) - a, value[2] = {0};
    for (int which = 0; which < 2; which++)
        for (int i = 2; i >= 0; i--) {
            const double (*row)[4] = fit[which][i];
            value[which] = value[which] * u + cubic(b, row[0]) + a * (cubic(b, row[1]) + a * cubic(b, row[2]));
        }
    return value[0] / value[1] * x * (td_digamma_f64(total) - td_digamma_f64(alpha)) / (total - alpha);
}

/* total: the sum of all concentrations.  A component is a Beta(alpha, total - alpha) sample; `edge` says how near it is to 0 or 1. */
double td_dirichlet_grad_f64(double x, double alpha, double total)
{
    double beta = total - alpha, edge = total * x * (1 - x);
    if (x <= 0.5 && edge < 2.5)
        return beta_by_series_alpha(x, alpha, beta);
    if (x >= 0.5 && edge < 0.75)
        return -beta_by_series_beta(1 - x, beta, alpha);
    return alpha > 6 && beta > 6 ? beta_by_saddle(x, alpha, beta) : beta_by_fit(x, alpha, total);
}
