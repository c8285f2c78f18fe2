/* The passes of a transform, by Stockham's scheme: radix by radix from one buffer to the other, in order without any
 * reordering.  Included for one line at a time and for several side by side: E is a complex number or a vector of them, one
 * per line, whose parts have type R; C is the scalar one, of T.
 *
 * A pass reads and writes every number once, and its roots once per s numbers, so the number of passes counts: radix 8 comes
 * first, and every prime up to 13 has a pass whose radix is a constant. */

static inline E P(add)(E a, E b) { return (E){a.re + b.re, a.im + b.im}; }
static inline E P(sub)(E a, E b) { return (E){a.re - b.re, a.im - b.im}; }
static inline E P(mul)(E a, C w) { return (E){a.re * w.re - a.im * w.im, a.re * w.im + a.im * w.re}; }
/* A product with a root; the block in which the roots are 1 goes without, so that an infinite number doesn't meet a root's part 0. */
#define TWIDDLED(a, w) (p ? P(mul)(a, w) : (a))
static inline E P(minus_i)(E a)  { return (E){a.im, -a.re}; }      /* -i a */

/* One pass: m = n / r blocks of r numbers that lie m * s apart, s at a time.  roots[k * s] is exp(-2 pi i k / n). */
static void P(pass2)(int64_t m, int64_t s, const E *x, E *y, const C *roots)
{
    for (int64_t p = 0; p < m; p++) {
        const C w = roots[p * s];
        const E *a = x + s * p, *b = a + s * m;
        E *to = y + 2 * s * p;
        SIMD
        for (int64_t q = 0; q < s; q++) {
            const E u = a[q], v = b[q];
            to[q] = P(add)(u, v);
            to[q + s] = TWIDDLED(P(sub)(u, v), w);
        }
    }
}
/* Radix 4 has no product but those with the roots: a quarter turn exchanges parts.  It halves the passes, and loads and stores with them,
 * that radix 2 would need. */
static void P(pass4)(int64_t m, int64_t s, const E *x, E *y, const C *roots)
{
    for (int64_t p = 0; p < m; p++) {
        const C w1 = roots[p * s], w2 = roots[2 * p * s], w3 = roots[3 * p * s];
        const E *a = x + s * p, *b = a + s * m, *c = b + s * m, *d = c + s * m;
        E *to = y + 4 * s * p;
        SIMD
        for (int64_t q = 0; q < s; q++) {
            const E ac = P(add)(a[q], c[q]), ac2 = P(sub)(a[q], c[q]), bd = P(add)(b[q], d[q]), bd2 = P(minus_i)(P(sub)(b[q], d[q]));
            to[q] = P(add)(ac, bd);
            to[q + s] = TWIDDLED(P(add)(ac2, bd2), w1);
            to[q + 2 * s] = TWIDDLED(P(sub)(ac, bd), w2);
            to[q + 3 * s] = TWIDDLED(P(sub)(ac2, bd2), w3);
        }
    }
}

/* Radix 8: two of radix 4, of the even and of the odd numbers.  A third fewer passes than radix 4. */
static inline void P(turn4)(E a, E b, E c, E d, E *to)
{
    const E ac = P(add)(a, c), ac2 = P(sub)(a, c), bd = P(add)(b, d), bd2 = P(minus_i)(P(sub)(b, d));
    to[0] = P(add)(ac, bd), to[1] = P(add)(ac2, bd2), to[2] = P(sub)(ac, bd), to[3] = P(sub)(ac2, bd2);
}
static void P(pass8)(int64_t m, int64_t s, const E *x, E *y, const C *roots)
{
    const T c = (T)M_SQRT1_2;
    for (int64_t p = 0; p < m; p++) {
        const C w1 = roots[p * s], w2 = roots[2 * p * s], w3 = roots[3 * p * s], w4 = roots[4 * p * s];
        const C w5 = roots[5 * p * s], w6 = roots[6 * p * s], w7 = roots[7 * p * s];
        const E *from = x + s * p;
        const int64_t step = s * m;
        E *to = y + 8 * s * p;
        SIMD
        for (int64_t q = 0; q < s; q++) {
            const E *a = from + q;
            E e[4], o[4];
            P(turn4)(a[0], a[2 * step], a[4 * step], a[6 * step], e);
            P(turn4)(a[step], a[3 * step], a[5 * step], a[7 * step], o);
            o[1] = (E){c * (o[1].re + o[1].im), c * (o[1].im - o[1].re)};
            o[2] = P(minus_i)(o[2]);
            o[3] = (E){c * (o[3].im - o[3].re), -c * (o[3].re + o[3].im)};
            to[q] = P(add)(e[0], o[0]);
            to[q + s] = TWIDDLED(P(add)(e[1], o[1]), w1);
            to[q + 2 * s] = TWIDDLED(P(add)(e[2], o[2]), w2);
            to[q + 3 * s] = TWIDDLED(P(add)(e[3], o[3]), w3);
            to[q + 4 * s] = TWIDDLED(P(sub)(e[0], o[0]), w4);
            to[q + 5 * s] = TWIDDLED(P(sub)(e[1], o[1]), w5);
            to[q + 6 * s] = TWIDDLED(P(sub)(e[2], o[2]), w6);
            to[q + 7 * s] = TWIDDLED(P(sub)(e[3], o[3]), w7);
        }
    }
}

/* An odd radix: with sums and differences of the numbers j and r - j, the k-th and the (r - k)-th result share their products. */
static inline __attribute__((always_inline)) void P(odd)(const int r, int64_t m, int64_t s, const E *x, E *y, const C *roots, int64_t n)
{
    const int half = r / 2;
    C turn[TD_FFT_RADIX], w[TD_FFT_RADIX];
    for (int k = 0; k < r; k++)
        turn[k] = roots[n / r * k];
    for (int64_t p = 0; p < m; p++) {
        const E *from = x + s * p;
        E *to = y + r * s * p;
        for (int k = 1; k < r; k++)
            w[k] = roots[k * p * s];
        SIMD
        for (int64_t q = 0; q < s; q++) {
            E sum[TD_FFT_RADIX / 2], difference[TD_FFT_RADIX / 2], total = from[q];
#pragma GCC unroll 6
            for (int j = 0; j < half; j++) {
                const E a = from[q + s * m * (j + 1)], b = from[q + s * m * (r - 1 - j)];
                sum[j] = P(add)(a, b), difference[j] = P(sub)(a, b);
                total = P(add)(total, sum[j]);
            }
#pragma GCC unroll 6
            for (int k = 1; k <= half; k++) {
                const C first = turn[k];
                E u = from[q], v = {-first.im * difference[0].im, first.im * difference[0].re};
                u.re += first.re * sum[0].re, u.im += first.re * sum[0].im;
#pragma GCC unroll 6
                for (int j = 1; j < half; j++) {
                    const C t = turn[k * (j + 1) % r];
                    u.re += t.re * sum[j].re, u.im += t.re * sum[j].im;
                    v.re -= t.im * difference[j].im, v.im += t.im * difference[j].re;
                }
                to[q + s * k] = TWIDDLED(P(add)(u, v), w[k]);
                to[q + s * (r - k)] = TWIDDLED(P(sub)(u, v), w[r - k]);
            }
            to[q] = total;
        }
    }
}
static void P(pass3)(int64_t m, int64_t s, const E *x, E *y, const C *roots, int64_t n)  { P(odd)(3, m, s, x, y, roots, n); }
static void P(pass5)(int64_t m, int64_t s, const E *x, E *y, const C *roots, int64_t n)  { P(odd)(5, m, s, x, y, roots, n); }
static void P(pass7)(int64_t m, int64_t s, const E *x, E *y, const C *roots, int64_t n)  { P(odd)(7, m, s, x, y, roots, n); }
static void P(pass11)(int64_t m, int64_t s, const E *x, E *y, const C *roots, int64_t n) { P(odd)(11, m, s, x, y, roots, n); }
static void P(pass13)(int64_t m, int64_t s, const E *x, E *y, const C *roots, int64_t n) { P(odd)(13, m, s, x, y, roots, n); }

/* The primes 17 to 31, seldom met: r^2 products for r numbers, each with a root that is looked up. */
static void P(pass_any)(int r, int64_t m, int64_t s, const E *x, E *y, const C *roots, int64_t n)
{
    for (int64_t p = 0; p < m; p++)
        for (int k = 0; k < r; k++)
            for (int64_t q = 0; q < s; q++) {
                E sum = x[q + s * p];
                for (int i = 1; i < r; i++)
                    sum = P(add)(sum, k ? P(mul)(x[q + s * (p + m * i)], roots[(k * i % r) * (n / r)]) : x[q + s * (p + m * i)]);
                y[q + s * (r * p + k)] = TWIDDLED(sum, roots[p * k * s]);
            }
}

/* The forward transform of x, with y as work space; returns the buffer that holds it, which depends on the number of passes.  s is
 * the product of the radices so far, rest what is left of n. */
static __attribute__((noinline)) E *P(plain)(const td_fft_plan *plan, E *x, E *y)
{
    int64_t rest = plan->n, s = 1, n = plan->n;
    const C *roots = plan->roots;
    for (int f = 0; f < plan->n_factors; f++) {
        int r = plan->factors[f];
        int64_t m = rest / r;
        switch (r) {
        case 2: P(pass2)(m, s, x, y, roots); break;
        case 3: P(pass3)(m, s, x, y, roots, n); break;
        case 4: P(pass4)(m, s, x, y, roots); break;
        case 5: P(pass5)(m, s, x, y, roots, n); break;
        case 7: P(pass7)(m, s, x, y, roots, n); break;
        case 8: P(pass8)(m, s, x, y, roots); break;
        case 11: P(pass11)(m, s, x, y, roots, n); break;
        case 13: P(pass13)(m, s, x, y, roots, n); break;
        default: P(pass_any)(r, m, s, x, y, roots, n); break;
        }
        rest = m, s *= r;
        E *t = x;
        x = y, y = t;
    }
    return x;
}

/* Bluestein's (1970): jk = (j^2 + k^2 - (k - j)^2) / 2 makes a convolution of the sum.  Before, between and after the two transforms: */
static void P(chirp_in)(const td_fft_plan *plan, E *x)
{
    const C *chirp = plan->chirp;
    for (int64_t k = 0; k < plan->n; k++)
        x[k] = P(mul)(x[k], chirp[k]);
    memset((void *)(x + plan->n), 0, (size_t)(plan->inner->n - plan->n) * sizeof *x);
}
static void P(chirp_filter)(const td_fft_plan *plan, E *z)
{
    const C *filter = plan->filter;
    for (int64_t k = 0; k < plan->inner->n; k++) {       /* conjugated, so that the next forward transform goes back */
        const E v = P(mul)(z[k], filter[k]);
        z[k] = (E){v.re, -v.im};
    }
}
static void P(chirp_out)(const td_fft_plan *plan, E *x)
{
    const C *chirp = plan->chirp;
    for (int64_t k = 0; k < plan->n; k++)
        x[k] = P(mul)((E){x[k].re, -x[k].im}, chirp[k]);
}
#undef TWIDDLED
