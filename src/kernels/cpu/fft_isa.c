/* The passes of a transform, by Stockham's scheme: radix by radix from one buffer to the other, in order without any
 * reordering; the inner loop runs over contiguous numbers as soon as one pass is done.  This file includes itself once per
 * precision. */
#ifndef T
#include <complex.h>
#include <string.h>
#include "base/base.h"
#include "kernels/cpu/fft.h"
#undef I

#define T float
#define N(x) x##_f32
#include "kernels/cpu/fft_isa.c"
#undef T
#undef N
#define T double
#define N(x) x##_f64
#include "kernels/cpu/fft_isa.c"
#undef T
#undef N

extern const td_fft_table TD_ISA_NAME(td_fft_table);
const td_fft_table TD_ISA_NAME(td_fft_table) = {.lines = {lines_f32, lines_f64}};

#else
typedef struct N(number) { T re, im; } N(number);
#define C N(number)

static inline C N(add)(C a, C b) { return (C){a.re + b.re, a.im + b.im}; }
static inline C N(sub)(C a, C b) { return (C){a.re - b.re, a.im - b.im}; }
static inline C N(mul)(C a, C b) { return (C){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}; }
static inline C N(minus_i)(C a)  { return (C){a.im, -a.re}; }      /* -i a */

/* One pass: m = n / r blocks of r numbers that lie m * s apart, s at a time.  roots[k * s] is exp(-2 pi i k / n). */
static void N(pass2)(int64_t m, int64_t s, const C *x, C *y, const C *roots)
{
    for (int64_t p = 0; p < m; p++) {
        const C w = roots[p * s], *a = x + s * p, *b = a + s * m;
        C *to = y + 2 * s * p;
#pragma omp simd
        for (int64_t q = 0; q < s; q++) {
            const C u = a[q], v = b[q];
            to[q] = N(add)(u, v);
            to[q + s] = N(mul)(N(sub)(u, v), w);
        }
    }
}
static void N(pass3)(int64_t m, int64_t s, const C *x, C *y, const C *roots)
{
    const T half_root3 = (T)0.86602540378443864676;
    for (int64_t p = 0; p < m; p++) {
        const C w1 = roots[p * s], w2 = roots[2 * p * s], *a = x + s * p, *b = a + s * m, *c = b + s * m;
        C *to = y + 3 * s * p;
#pragma omp simd
        for (int64_t q = 0; q < s; q++) {
            const C sum = N(add)(b[q], c[q]), difference = N(sub)(b[q], c[q]);
            const C middle = {a[q].re - (T)0.5 * sum.re, a[q].im - (T)0.5 * sum.im};
            const C turn = {half_root3 * difference.im, -half_root3 * difference.re};
            to[q] = N(add)(a[q], sum);
            to[q + s] = N(mul)(N(add)(middle, turn), w1);
            to[q + 2 * s] = N(mul)(N(sub)(middle, turn), w2);
        }
    }
}
static void N(pass4)(int64_t m, int64_t s, const C *x, C *y, const C *roots)
{
    for (int64_t p = 0; p < m; p++) {
        const C w1 = roots[p * s], w2 = roots[2 * p * s], w3 = roots[3 * p * s];
        const C *a = x + s * p, *b = a + s * m, *c = b + s * m, *d = c + s * m;
        C *to = y + 4 * s * p;
#pragma omp simd
        for (int64_t q = 0; q < s; q++) {
            const C ac = N(add)(a[q], c[q]), ac2 = N(sub)(a[q], c[q]), bd = N(add)(b[q], d[q]), bd2 = N(minus_i)(N(sub)(b[q], d[q]));
            to[q] = N(add)(ac, bd);
            to[q + s] = N(mul)(N(add)(ac2, bd2), w1);
            to[q + 2 * s] = N(mul)(N(sub)(ac, bd), w2);
            to[q + 3 * s] = N(mul)(N(sub)(ac2, bd2), w3);
        }
    }
}
static void N(pass5)(int64_t m, int64_t s, const C *x, C *y, const C *roots)
{
    const T c1 = (T)0.30901699437494742410, c2 = (T)-0.80901699437494742410, s1 = (T)0.95105651629515357212, s2 = (T)0.58778525229247312917;
    for (int64_t p = 0; p < m; p++) {
        const C w1 = roots[p * s], w2 = roots[2 * p * s], w3 = roots[3 * p * s], w4 = roots[4 * p * s];
        const C *a = x + s * p, *b = a + s * m, *c = b + s * m, *d = c + s * m, *e = d + s * m;
        C *to = y + 5 * s * p;
#pragma omp simd
        for (int64_t q = 0; q < s; q++) {
            const C be = N(add)(b[q], e[q]), be2 = N(sub)(b[q], e[q]), cd = N(add)(c[q], d[q]), cd2 = N(sub)(c[q], d[q]);
            const C u = {a[q].re + c1 * be.re + c2 * cd.re, a[q].im + c1 * be.im + c2 * cd.im};
            const C v = {a[q].re + c2 * be.re + c1 * cd.re, a[q].im + c2 * be.im + c1 * cd.im};
            const C i = {s1 * be2.im + s2 * cd2.im, -(s1 * be2.re + s2 * cd2.re)};
            const C j = {s2 * be2.im - s1 * cd2.im, -(s2 * be2.re - s1 * cd2.re)};
            to[q] = N(add)(a[q], N(add)(be, cd));
            to[q + s] = N(mul)(N(add)(u, i), w1);
            to[q + 2 * s] = N(mul)(N(add)(v, j), w2);
            to[q + 3 * s] = N(mul)(N(sub)(v, j), w3);
            to[q + 4 * s] = N(mul)(N(sub)(u, i), w4);
        }
    }
}
/* Any other radix, by the definition. */
static void N(pass_any)(int r, int64_t m, int64_t s, const C *x, C *y, const C *roots, int64_t n)
{
    for (int64_t p = 0; p < m; p++)
        for (int k = 0; k < r; k++) {
            const C w = roots[p * k * s];
            for (int64_t q = 0; q < s; q++) {
                C sum = x[q + s * p];
                for (int i = 1; i < r; i++)
                    sum = N(add)(sum, N(mul)(x[q + s * (p + m * i)], roots[(int64_t)((k * i) % r) * (n / r)]));
                y[q + s * (r * p + k)] = N(mul)(sum, w);
            }
        }
}

/* The forward transform of x, with y as work space; returns the buffer that holds it. */
static C *N(plain)(const td_fft_plan *plan, C *x, C *y)
{
    int64_t rest = plan->n, s = 1;
    const C *roots = plan->roots;
    for (int f = 0; f < plan->n_factors; f++) {
        int r = plan->factors[f];
        int64_t m = rest / r;
        switch (r) {
        case 2: N(pass2)(m, s, x, y, roots); break;
        case 3: N(pass3)(m, s, x, y, roots); break;
        case 4: N(pass4)(m, s, x, y, roots); break;
        case 5: N(pass5)(m, s, x, y, roots); break;
        default: N(pass_any)(r, m, s, x, y, roots, plan->n); break;
        }
        rest = m, s *= r;
        C *t = x;
        x = y, y = t;
    }
    return x;
}

/* Bluestein: jk = (j^2 + k^2 - (k - j)^2) / 2 makes a convolution of the sum. */
static C *N(transform)(const td_fft_plan *plan, C *x, C *y)
{
    if (!plan->inner)
        return N(plain)(plan, x, y);
    const C *chirp = plan->chirp, *filter = plan->filter;
    int64_t n = plan->n, m = plan->inner->n;
    for (int64_t k = 0; k < n; k++)
        x[k] = N(mul)(x[k], chirp[k]);
    memset(x + n, 0, (size_t)(m - n) * sizeof *x);
    C *z = N(plain)(plan->inner, x, y), *other = z == x ? y : x;
    for (int64_t k = 0; k < m; k++) {        /* conjugated, so that the next forward transform goes back */
        C v = N(mul)(z[k], filter[k]);
        z[k] = (C){v.re, -v.im};
    }
    C *back = N(plain)(plan->inner, z, other);
    for (int64_t k = 0; k < n; k++)
        back[k] = N(mul)((C){back[k].re, -back[k].im}, chirp[k]);
    return back;
}

/* Backward transforms are forward ones with real and imaginary parts exchanged at both ends. */
static void N(lines)(void *context, int64_t from, int64_t to)
{
    td_fft_job *job = context;
    const td_fft_plan *plan = job->plan;
    int64_t n = plan->n, stride = job->inner;
    C *x = td_mem_alloc(2 * sizeof(C) * (size_t)job->scratch);
    if (!x) {
        __atomic_store_n(&job->failed, 1, __ATOMIC_RELAXED);
        return;
    }
    C *y = x + job->scratch;
    bool swap = !job->forward;
    T scale = (T)job->scale;
    for (int64_t line = from; line < to; line++) {
        int64_t outer = line / stride, at = line % stride;
        if (job->from_end == TD_FFT_REAL) {
            const T *in = (const T *)job->from + outer * job->n_from * stride + at;
            for (int64_t k = 0; k < n; k++)
                x[k] = swap ? (C){0, in[k * stride]} : (C){in[k * stride], 0};
        } else {
            const C *in = (const C *)job->from + outer * job->n_from * stride + at;
            int64_t given = job->from_end == TD_FFT_HALF ? n / 2 + 1 : n;
            for (int64_t k = 0; k < given; k++) {
                C v = in[k * stride];
                x[k] = swap ? (C){v.im, v.re} : v;
            }
            for (int64_t k = given; k < n; k++) {
                C v = in[(n - k) * stride];
                x[k] = swap ? (C){-v.im, v.re} : (C){v.re, -v.im};
            }
            if (job->from_end == TD_FFT_HALF) {      /* what the other half would conjugate must be real */
                C *ends[] = {x, n % 2 ? x : x + n / 2};
                for (int e = 0; e < 2; e++)
                    *(swap ? &ends[e]->re : &ends[e]->im) = 0;
            }
        }
        const C *result = N(transform)(plan, x, y);
        if (job->to_end == TD_FFT_REAL) {
            T *out = (T *)job->to + outer * job->n_to * stride + at;
            for (int64_t k = 0; k < job->n_to; k++)
                out[k * stride] = scale * (swap ? result[k].im : result[k].re);
        } else {
            C *out = (C *)job->to + outer * job->n_to * stride + at;
            for (int64_t k = 0; k < job->n_to; k++)
                out[k * stride] = swap ? (C){scale * result[k].im, scale * result[k].re} : (C){scale * result[k].re, scale * result[k].im};
        }
    }
    td_mem_free(x, 2 * sizeof(C) * (size_t)job->scratch);
}
#undef C
#endif
