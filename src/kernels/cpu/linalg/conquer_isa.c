/* Eigenvalues and eigenvectors of symmetric tridiagonal matrices, by divide and conquer.
 *
 * Cuppen's (1981): taking a number e out of the middle leaves two halves; from their values d and vectors, those of the
 * whole follow, whose matrix is diag(d) + rho z z'.  Where z is small or two d are close a value stays as it is; the others
 * are the roots of 1 + rho sum z_i^2 / (d_i - x), one between each two d.  All are searched for at once, each as its distance
 * from the nearest d; vectors are orthogonal if z is then chosen anew so that the roots found are exact (Gu and Eisenstat,
 * 1994).  Numbers of the tridiagonal matrix are doubles throughout; vectors are rows, which products of T rotate.
 *
 * The products bound it: two of half the rows each per level, since a vector of one half is 0 in the other.  The equation is
 * evaluated for TOGETHER roots at once, a lane each, so that its divisions are a vector's. */
#ifndef S
#include <float.h>
#include <math.h>
#include <tede/kernel.h>
#define TD_SIMD_INTRINSICS
#include "base/simd.h"
#include "kernels/cpu/gemm/gemm.h"
#include "kernels/cpu/loops/operands.h"
#include "kernels/cpu/linalg/reflectors.h"
#include "kernels/cpu/isa/vectors.h"

/* Up to SMALL numbers QL steps are cheaper than dividing; TOGETHER roots are found side by side. */
enum { SMALL = 32, TOGETHER = 16 };

/* Where roots are: the nearest d and how far from it. */
typedef struct located_roots {
    int64_t count;
    double *d, *z, *origin, *eta;       /* `origin`: the nearest d itself; z as a vector of length 1 */
    double rho, precision;
} located_roots;

/* Two halves on their way to be one: z, the roots' poles and weights, where the roots are, the new z and vectors' lengths, in arrays of n;
 * type 1: a vector of the first half, 2: of the second, 3: of both. */
typedef struct merging {
    int64_t  n, cut, count, same;
    double   rho, precision, least;     /* `least`: what is so small is nothing */
    double  *z, *pole, *weight, *origin, *eta, *fresh, *lengths;
    int64_t *kept, *still;
    uint8_t *type;
} merging;

/* Implicit QL steps with Wilkinson's shift on at most SMALL numbers: rows of x turn along.  0, or 1 without convergence. */
static int small(int64_t n, double *d, double *e, double (*x)[SMALL])
{
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < SMALL; j++)
            x[i][j] = i == j;
    for (int64_t first = 0, steps = 0; first < n; steps = 0, first++)
        for (int64_t last;; steps++) {
            for (last = first; last < n - 1; last++)
                if (fabs(e[last]) <= DBL_EPSILON * (fabs(d[last]) + fabs(d[last + 1])) / 2 + 1e-100)
                    break;
            if (last == first)
                break;
            if (steps == 60)
                return 1;
            double g = (d[first + 1] - d[first]) / (2 * e[first]), r = sqrt(g * g + 1);
            g = d[last] - d[first] + e[first] / (g + copysign(r, g));
            double s = 1, c = 1, p = 0;
            int64_t i = last - 1;
            for (; i >= first; i--) {
                const double f = s * e[i], b = c * e[i];
                r = sqrt(f * f + g * g);
                e[i + 1] = r;
                if (r == 0) {
                    d[i + 1] -= p, e[last] = 0;
                    break;
                }
                s = f / r, c = g / r;
                g = d[i + 1] - p;
                r = (d[i] - g) * s + 2 * c * b;
                p = s * r;
                d[i + 1] = g + p, g = c * r - b;
                for (int64_t j = 0; j < SMALL; j++) {
                    const double low = x[i + 1][j], high = x[i][j];
                    x[i + 1][j] = s * high + c * low, x[i][j] = c * high - s * low;
                }
            }
            if (i >= first)
                continue;
            d[first] -= p, e[first] = g, e[last] = 0;
        }
    return 0;
}

/* What the equation is at eta from the origins of TOGETHER roots, `first` being the first: the sums over the d up to each
 * root and beyond it, and their slopes. */
typedef struct sums { double below[TOGETHER], slope_below[TOGETHER], above[TOGETHER], slope_above[TOGETHER]; } sums;

#define LANES (VBYTES / 8)

/* 1 / x, to 28 bits or as exactly as a double is. */
INLINE vec_f64 inverse(vec_f64 x, bool rough)
{
#ifdef TD_AVX512
    vec_f64 y = (vec_f64)_mm512_rcp14_pd((__m512d)x);
    const __m512d one = _mm512_set1_pd(1);
    y = (vec_f64)_mm512_fmadd_pd(_mm512_fnmadd_pd((__m512d)x, (__m512d)y, one), (__m512d)y, (__m512d)y);
    return rough ? y : (vec_f64)_mm512_fmadd_pd(_mm512_fnmadd_pd((__m512d)x, (__m512d)y, one), (__m512d)y, (__m512d)y);
#else
    (void)rough;
    return 1 / x;
#endif
}

/* The sums over `from` <= i < `to` for LANES roots, with one division for both sums; that division bounds the loop, so it is an
 * approximation and Newton's steps where AVX-512 has one. */
INLINE void add_some(const located_roots *p, int64_t from, int64_t to, const double *origin, const double *eta, bool rough,
                     double *sum, double *slope)
{
    const vec_f64 o = *(const vec_f64 *)origin, e = *(const vec_f64 *)eta;
    vec_f64 s = {0}, t = {0};
    for (int64_t i = from; i < to; i++) {
        const vec_f64 z = (vec_f64){0} + p->z[i], x = z * inverse(p->d[i] - o - e, rough);
        add_product_f64(&s, x, z), add_product_f64(&t, x, x);
    }
    *(vec_f64 *)sum += s, *(vec_f64 *)slope += t;
}

/* Poles among the TOGETHER roots themselves are below some and above others; those before and behind are so for all. */
static void add_up(const located_roots *p, int64_t first, const double *origin, const double *eta, sums *s)
{
    memset(s, 0, sizeof *s);
    const int64_t n = p->count, next = first + TOGETHER < n ? first + TOGETHER : n;
    for (int64_t i = first + 1; i < next; i++)
        for (int l = 0; l < TOGETHER; l++) {
            const double t = p->z[i] / (p->d[i] - origin[l] - eta[l]);
            if (i <= first + l)
                s->below[l] += t * p->z[i], s->slope_below[l] += t * t;
            else
                s->above[l] += t * p->z[i], s->slope_above[l] += t * t;
        }
    for (int l = 0; l < TOGETHER; l += LANES) {
        if (p->precision > 1e-9) {
            add_some(p, 0, first + 1, origin + l, eta + l, true, s->below + l, s->slope_below + l);
            add_some(p, next, n, origin + l, eta + l, true, s->above + l, s->slope_above + l);
        } else {
            add_some(p, 0, first + 1, origin + l, eta + l, false, s->below + l, s->slope_below + l);
            add_some(p, next, n, origin + l, eta + l, false, s->above + l, s->slope_above + l);
        }
    }
}

/* Between two poles at a and b the sums are taken for c + s / (a - x) + t / (b - x), which has their values and slopes; the
 * step to that function's root, given the equation's value f and slope, and c (Bunch, Nielsen and Sorensen, 1978). */
static double step(double a, double b, double f, double slope, double c)
{
    const double linear = (a + b) * f - a * b * slope, product = a * b * f;
    const double inside = linear * linear - 4 * product * c, root = sqrt(inside > 0 ? inside : 0);
    return linear <= 0 ? (c == 0 ? product / linear : (linear - root) / (2 * c)) : 2 * product / (linear + root);
}

/* Roots first to first + TOGETHER - 1.  The sign in the middle of the gap shows which of its poles is nearer: that one becomes the
 * origin, so that eta keeps all its digits.  Each step is bracketed by [low, high]; one that leaves it is replaced by
 * bisection, so it ends. */
static void roots(located_roots *p, int64_t first)
{
    const int64_t n = p->count;
    double origin[TOGETHER], eta[TOGETHER], low[TOGETHER], high[TOGETHER], gap[TOGETHER], one = 1 / p->rho;
    bool right[TOGETHER], found[TOGETHER];
    sums s;
    for (int l = 0; l < TOGETHER; l++) {    /* lanes without a root repeat the last one */
        const int64_t j = first + l < n ? first + l : n - 1;
        origin[l] = p->d[j];
        gap[l] = j < n - 1 ? p->d[j + 1] - p->d[j] : p->rho;
        eta[l] = gap[l] / 2;
        found[l] = false;
    }
    add_up(p, first, origin, eta, &s);
    for (int l = 0; l < TOGETHER; l++) {
        const int64_t j = first + l < n ? first + l : n - 1;
        const double f = one + s.below[l] + s.above[l], half = gap[l] / 2;
        right[l] = f < 0 && j < n - 1;
        low[l] = right[l] ? -half : f < 0 ? half : 0, high[l] = right[l] ? 0 : f < 0 ? gap[l] : half;
        if (right[l])
            origin[l] = p->d[j + 1];
        /* The two nearest poles as they are, the others as they were in the middle. */
        const double squares = p->z[j] * p->z[j], others = j < n - 1 ? p->z[j + 1] * p->z[j + 1] : 0;
        const double c = f + (squares - others) / half, a = right[l] ? -gap[l] : 0, b = a + gap[l];
        const double linear = c * (a + b) + squares + others, product = c * a * b + squares * b + others * a;
        const double inside = linear * linear - 4 * product * c, root = sqrt(inside > 0 ? inside : 0);
        double guess = linear <= 0 ? (linear - root) / (2 * c) : 2 * product / (linear + root);
        if (j == n - 1)
            guess = squares / c;
        eta[l] = guess > low[l] && guess < high[l] ? guess : (low[l] + high[l]) / 2;
    }
    for (int iteration = 0, left = TOGETHER; left > 0 && iteration < 200; iteration++) {
        add_up(p, first, origin, eta, &s);
        left = 0;
        for (int l = 0; l < TOGETHER; l++) {
            const double f = one + s.below[l] + s.above[l], slope = s.slope_below[l] + s.slope_above[l];
            const double error = 8 * (s.above[l] - s.below[l]) + one + fabs(eta[l]) * slope;
            if (found[l] || fabs(f) <= p->precision * error)
                found[l] = true;
            if (found[l])
                continue;
            left++;
            if (f < 0)
                low[l] = eta[l];
            else
                high[l] = eta[l];
            const double a = (right[l] ? -gap[l] : 0) - eta[l], b = a + gap[l];
            const bool last = first + l >= n - 1;
            const double c = last ? f - a * slope : f - a * s.slope_below[l] - b * s.slope_above[l];
            const double more = eta[l] + (last ? a + a * a * slope / c : step(a, b, f, slope, c));
            const double middle = (low[l] + high[l]) / 2;
            if (middle == low[l] || middle == high[l])
                found[l] = true;
            eta[l] = more > low[l] && more < high[l] ? more : middle;
        }
    }
    for (int l = 0; l < TOGETHER && first + l < n; l++)
        p->origin[first + l] = origin[l], p->eta[first + l] = eta[l];
}

/* The z for which the roots found are those of the equation, but for a common factor: the squares are products over all roots of their
 * distances from d[i], divided by those of the other d (Gu and Eisenstat).  The sign stays. */
static void renew(const located_roots *p, double *to)
{
    const int64_t n = p->count;
    for (int64_t i = 0; i < n; i++)
        to[i] = 1;
    const double *d = p->d, *origin = p->origin, *eta = p->eta;
    int64_t j = 0;
    for (; j + 4 <= n; j += 4)      /* four at a time have one division */
#pragma omp simd
        for (int64_t i = 0; i < n; i++) {
            const double x = d[i], d0 = d[j] - x, d1 = d[j + 1] - x, d2 = d[j + 2] - x, d3 = d[j + 3] - x;
            const double up = (origin[j] - x + eta[j]) * (origin[j + 1] - x + eta[j + 1]);
            const double more = (origin[j + 2] - x + eta[j + 2]) * (origin[j + 3] - x + eta[j + 3]);
            const double down = (d0 == 0 ? 1 : d0) * (d1 == 0 ? 1 : d1) * ((d2 == 0 ? 1 : d2) * (d3 == 0 ? 1 : d3));
            to[i] *= up * more / down;
        }
    for (; j < n; j++)
        for (int64_t i = 0; i < n; i++)
            to[i] *= (origin[j] - d[i] + eta[j]) / (i == j ? 1 : d[j] - d[i]);
    for (int64_t i = 0; i < n; i++)
        to[i] = copysign(sqrt(fabs(to[i])), p->z[i]);
}

#define TD_BODY "kernels/cpu/linalg/conquer_isa.c"
#include "kernels/cpu/isa/both_reals.h"

extern const td_conquer_table TD_ISA_NAME(td_conquer_table);
const td_conquer_table TD_ISA_NAME(td_conquer_table) = {.conquer_f32 = conquer_f32, .conquer_f64 = conquer_f64};

#else
#define DTYPE (sizeof(T) == 4 ? TD_F32 : TD_F64)

/* Work space for matrices of n rows: two times n x n numbers, 7 n doubles and 3 n indices. */
typedef struct N(workspace) {
    T *rows, *vectors;
    double *doubles;
    int64_t *indices;
} N(workspace);

/* At most SMALL numbers; e has n - 1 and isn't changed. */
static int N(leaf)(int64_t n, double *d, const double *e, T *x, int64_t row, int64_t *order)
{
    double vectors[SMALL][SMALL], beside[SMALL] = {0};
    memcpy(beside, e, (size_t)(n - 1) * sizeof *e);
    if (small(n, d, beside, vectors))
        return 1;
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < n; j++)
            x[i * row + j] = (T)vectors[i][j];
        int64_t at = i;
        for (; at > 0 && d[order[at - 1]] > d[i]; at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
    return 0;
}

/* `order` names rows by ascending d: one list of them goes in after the other. */
static void N(zip)(const double *d, const int64_t *a, int64_t count_a, const int64_t *b, int64_t count_b, int64_t *order)
{
    for (int64_t i = 0, j = 0, to = 0; i < count_a || j < count_b; to++)
        order[to] = j == count_b || (i < count_a && d[a[i]] <= d[b[j]]) ? a[i++] : b[j++];
}

/* The numbers of merging two halves, and which values stay as they are: `same` of them in `still`, by ascending d; `count` are in `kept`. */
static merging N(begin)(int64_t n, int64_t cut, double beside, const double *d, const T *x, int64_t row, const N(workspace) *workspace)
{
    merging m = {.n = n, .cut = cut, .rho = 2 * fabs(beside), .precision = sizeof(T) == 4 ? FLT_EPSILON / 2 : DBL_EPSILON / 2};
    m.z = workspace->doubles, m.pole = m.z + n, m.weight = m.pole + n, m.origin = m.weight + n, m.eta = m.origin + n, m.fresh = m.eta + n;
    m.lengths = m.fresh + n;
    m.kept = workspace->indices, m.still = m.kept + n, m.type = (uint8_t *)(m.still + n);
    double largest = 0, most_z = 0;
    for (int64_t i = 0; i < n; i++) {
        m.z[i] = (i < cut ? x[i * row + cut - 1] : copysign(1, beside) * x[i * row + cut]) * M_SQRT1_2;
        largest = fmax(largest, fabs(d[i])), most_z = fmax(most_z, fabs(m.z[i]));
        m.type[i] = i < cut ? 1 : 2;
    }
    m.least = 8 * m.precision * fmax(largest, most_z);
    return m;
}

/* Where two d are so close that rotating their vectors into each other changes nothing else: one of the two has no part in z any more, and
 * stays.  False, with nothing done, where they aren't. */
static bool N(join)(merging *m, int64_t i, int64_t last, double *d, T *x, int64_t row)
{
    double *z = m->z;
    const double both = sqrt(z[last] * z[last] + z[i] * z[i]), c = z[i] / both, s = z[last] / both;
    if (!(fabs((d[i] - d[last]) * c * s) <= m->least))
        return false;
    T *one = x + last * row, *other = x + i * row;
    for (int64_t j = 0; j < m->n; j++) {
        const T a = one[j], b = other[j];
        one[j] = (T)(c * a - s * b), other[j] = (T)(c * b + s * a);
    }
    const double a = d[last], b = d[i];
    d[last] = a * c * c + b * s * s, d[i] = a * s * s + b * c * c;
    z[i] = both, z[last] = 0;
    if (m->type[i] != m->type[last])
        m->type[i] = m->type[last] = 3;
    int64_t at = m->same++;
    for (; at > 0 && d[m->still[at - 1]] > d[last]; at--)
        m->still[at] = m->still[at - 1];
    m->still[at] = last;
    return true;
}

static void N(deflate)(merging *m, double *d, T *x, int64_t row, const int64_t *order)
{
    int64_t last = -1;
    for (int64_t o = 0; o < m->n; o++) {
        const int64_t i = order[o];
        if (m->rho * fabs(m->z[i]) <= m->least) {
            m->still[m->same++] = i;
            continue;
        }
        if (last >= 0 && !N(join)(m, i, last, d, x, row))
            m->kept[m->count++] = last;
        last = i;
    }
    if (last >= 0)
        m->kept[m->count++] = last;
}

/* The vectors of the roots, from those of the halves: first in x, and those that stay behind them.  Rows go by type, so that what is 0 isn't
 * multiplied; they are copied, since the new ones replace them. */
static int N(rotate)(const merging *m, T *x, int64_t row, const N(workspace) *workspace)
{
    const int64_t n = m->n, cut = m->cut, count = m->count, same = m->same;
    const double *pole = m->pole, *origin = m->origin, *eta = m->eta, *fresh = m->fresh;
    double *lengths = m->lengths;
    int64_t at[4] = {0};
    for (int64_t i = 0; i < count; i++)
        at[m->type[m->kept[i]]]++;
    const int64_t first = at[1], both = at[3], second = at[2], right = n - cut;
    int64_t next[4] = {0, 0, first + both, first};
    T *low = workspace->rows, *high = low + (first + both) * cut, *rest = high + (both + second) * right, *u = workspace->vectors;
    memset(lengths, 0, (size_t)count * sizeof *lengths);
    for (int64_t i = 0; i < count; i++) {
        const int64_t to = next[m->type[m->kept[i]]]++;
        const T *from = x + m->kept[i] * row;
        if (to < first + both)
            memcpy(low + to * cut, from, (size_t)cut * sizeof(T));
        if (to >= first)
            memcpy(high + (to - first) * right, from + cut, (size_t)right * sizeof(T));
        T *line = u + to * count;
#pragma omp simd
        for (int64_t j = 0; j < count; j++) {
            const double number = fresh[i] / (pole[i] - origin[j] - eta[j]);
            line[j] = (T)number;
            lengths[j] += number * number;
        }
    }
    for (int64_t j = 0; j < count; j++)
        lengths[j] = 1 / sqrt(lengths[j]);
    for (int64_t i = 0; i < count; i++)
        for (int64_t j = 0; j < count; j++)
            u[i * count + j] *= (T)lengths[j];
    for (int64_t i = 0; i < same; i++)
        memcpy(rest + i * n, x + m->still[i] * row, (size_t)n * sizeof(T));
    if (td_gemm_strided(DTYPE, count, cut, first + both, td_int(1), (td_matrix){u, 1, count}, (td_matrix){low, cut, 1},
                        td_int(0), x, row) ||
        td_gemm_strided(DTYPE, count, right, both + second, td_int(1), (td_matrix){u + first * count, 1, count},
                        (td_matrix){high, right, 1}, td_int(0), x + cut, row))
        return -1;
    for (int64_t i = 0; i < same; i++)
        memcpy(x + (count + i) * row, rest + i * n, (size_t)n * sizeof(T));
    return 0;
}

/* Rows 0 to cut - 1 of x are the vectors of one half, the others the other's; `order` names them by ascending d. */
static int N(merge)(int64_t n, int64_t cut, double beside, double *d, T *x, int64_t row, int64_t *order, N(workspace) *workspace)
{
    merging m = N(begin)(n, cut, beside, d, x, row, workspace);
    N(deflate)(&m, d, x, row, order);
    const int64_t count = m.count, same = m.same;
    if (!count) {
        memcpy(order, m.still, (size_t)n * sizeof *order);
        return 0;
    }
    double length = 0;
    for (int64_t i = 0; i < count; i++)
        length += m.z[m.kept[i]] * m.z[m.kept[i]];
    length = sqrt(length);
    for (int64_t i = 0; i < count; i++)
        m.pole[i] = d[m.kept[i]], m.weight[i] = m.z[m.kept[i]] / length;
    located_roots p = {count, m.pole, m.weight, m.origin, m.eta, m.rho * length * length, m.precision};
    for (int64_t first = 0; first < count; first += TOGETHER)
        roots(&p, first);
    renew(&p, m.fresh);
    if (N(rotate)(&m, x, row, workspace))
        return -1;
    for (int64_t i = 0; i < same; i++)
        m.pole[i] = d[m.still[i]];
    for (int64_t i = 0; i < count; i++)
        d[i] = m.origin[i] + m.eta[i], m.kept[i] = i;
    for (int64_t i = 0; i < same; i++)
        d[count + i] = m.pole[i], m.still[i] = count + i;
    N(zip)(d, m.kept, count, m.still, same, order);
    return 0;
}

/* The matrix with |e| taken from both of the numbers beside the cut is two halves; |e| z z' puts it back, z being 1 at the cut and the
 * sign of e behind it (merge).  x's other blocks are 0 and stay so until then. */
static int N(halves)(int64_t n, double *d, double *e, T *x, int64_t row, int64_t *order, N(workspace) *workspace)
{
    if (n <= SMALL)
        return N(leaf)(n, d, e, x, row, order);
    const int64_t cut = n / 2;
    const double beside = e[cut - 1];
    d[cut - 1] -= fabs(beside), d[cut] -= fabs(beside);
    int status = N(halves)(cut, d, e, x, row, order, workspace);
    if (!status)
        status = N(halves)(n - cut, d + cut, e + cut, x + cut * row + cut, row, order + cut, workspace);
    if (status)
        return status;
    for (int64_t i = cut; i < n; i++)
        order[i] += cut;
    memcpy(workspace->indices, order, (size_t)n * sizeof *order);
    N(zip)(d, workspace->indices, cut, workspace->indices + cut, n - cut, order);
    return N(merge)(n, cut, beside, d, x, row, order, workspace);
}

/* d and e are scaled to at most 1 first, so that the limits below are relative to the largest number. */
static int N(conquer)(int64_t n, T *d, const T *e, T *x)
{
    const size_t bytes = (size_t)(3 * n * n) * sizeof(T) + (size_t)(9 * n) * sizeof(double) + (size_t)(4 * n) * sizeof(int64_t);
    double *numbers = td_mem_alloc(bytes), scale = 0;
    if (!numbers)
        return -1;
    double *beside = numbers + n;
    N(workspace) workspace = {.doubles = numbers + 2 * n, .indices = (int64_t *)(numbers + 9 * n)};
    int64_t *order = workspace.indices + 3 * n;
    workspace.rows = (T *)(order + n), workspace.vectors = workspace.rows + n * n;
    T *rows = workspace.vectors + n * n;
    for (int64_t i = 0; i < n; i++)
        scale = fmax(scale, fmax(fabs((double)d[i]), i < n - 1 ? fabs((double)e[i]) : 0));
    scale = scale > 0 ? scale : 1;
    for (int64_t i = 0; i < n; i++)
        numbers[i] = d[i] / scale, beside[i] = i < n - 1 ? e[i] / scale : 0;
    memset(rows, 0, (size_t)(n * n) * sizeof(T));
    const int status = N(halves)(n, numbers, beside, rows, n, order, &workspace);
    for (int64_t i = 0; i < n && !status; i++) {
        d[i] = (T)(numbers[order[i]] * scale);
        memcpy(x + i * n, rows + order[i] * n, (size_t)n * sizeof(T));
    }
    td_mem_free(numbers, bytes);
    return status;
}
#undef DTYPE
#endif
