/* Special functions that are not worth a vectorised loop: computed in double, one element after the other.
 *
 * Formulas find them as they find the maths inlines, by name and type. */
#ifndef TD_KERNELS_CPU_MATH_SPECIAL_H
#define TD_KERNELS_CPU_MATH_SPECIAL_H
#include <math.h>
#include <stdint.h>

#define TD_SPECIAL_1(name) \
    double td_##name##_f64(double x); \
    static inline float td_##name##_f32(float x) { return (float)td_##name##_f64(x); }
#define TD_SPECIAL_2(name) \
    double td_##name##_f64(double x, double n); \
    static inline float td_##name##_f32(float x, float n) { return (float)td_##name##_f64(x, n); }
#define TD_SPECIAL_3(name) \
    double td_##name##_f64(double x, double n, double m); \
    static inline float td_##name##_f32(float x, float n, float m) { return (float)td_##name##_f64(x, n, m); }

TD_SPECIAL_1(airy_ai)
TD_SPECIAL_1(bessel_j0)
TD_SPECIAL_1(bessel_j1)
TD_SPECIAL_1(bessel_y0)
TD_SPECIAL_1(bessel_y1)
TD_SPECIAL_1(spherical_bessel_j0)
TD_SPECIAL_1(modified_bessel_k0)
TD_SPECIAL_1(modified_bessel_k1)
TD_SPECIAL_1(scaled_modified_bessel_k0)
TD_SPECIAL_1(scaled_modified_bessel_k1)
/* Orthogonal polynomials of the degree that n is cut to: 0 for a negative one, and one that no int64 holds. */
TD_SPECIAL_2(chebyshev_polynomial_t)
TD_SPECIAL_2(chebyshev_polynomial_u)
TD_SPECIAL_2(chebyshev_polynomial_v)
TD_SPECIAL_2(chebyshev_polynomial_w)
TD_SPECIAL_2(hermite_polynomial_h)
TD_SPECIAL_2(hermite_polynomial_he)
TD_SPECIAL_2(laguerre_polynomial_l)
TD_SPECIAL_2(legendre_polynomial_p)
/* Of a and x (special_gamma.c). */
TD_SPECIAL_2(igamma)
TD_SPECIAL_2(igammac)
/* How samples move with their parameter (special_sample.c). */
TD_SPECIAL_2(standard_gamma_grad)
TD_SPECIAL_3(dirichlet_grad)

#undef TD_SPECIAL_1
#undef TD_SPECIAL_2
#undef TD_SPECIAL_3
#endif
