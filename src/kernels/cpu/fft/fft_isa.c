/* Transforms of lines: one at a time; several side by side, a vector register holding one number of each; or, where a line is
 * long, by its own columns and rows (n = n1 * n2: the columns' transforms, products with powers of the root, the rows'
 * transforms), which are short lines again, side by side.  This file includes itself once per precision.
 *
 * Side by side no pass needs a shuffle or has an inner loop that is too short for vectors; one line alone has its inner loop along
 * s, which is 1 in a plan's first pass.  Up to TD_FFT_SIDE numbers the second cache holds the two buffers (4096 x 16 complex floats
 * with AVX-512: 512 KiB each), so the passes' loads and stores bound the speed and memory doesn't; a longer line goes through
 * memory twice, for its columns and for its rows, instead of once per radix.
 *
 * Every line goes through the same operations in the same order whatever the registers' width. */
#ifndef T
#include <math.h>
#include <string.h>
#include "base/base.h"
#include "base/simd.h"
#include "kernels/cpu/fft/fft.h"

#if VBYTES == 64
enum { VECTOR = 64 };
#elif VBYTES == 32
enum { VECTOR = 32 };
#else
enum { VECTOR = 16 };
#endif
#define JOIN_(a, b) a##_##b
#define JOIN(a, b)  JOIN_(a, b)

#define T float
#define TI int32_t
#define S f32
#include "kernels/cpu/fft/fft_isa.c"
#undef T
#undef TI
#undef S
#define T double
#define TI int64_t
#define S f64
#include "kernels/cpu/fft/fft_isa.c"
#undef T
#undef TI
#undef S

extern const td_fft_table TD_ISA_NAME(td_fft_table);
const td_fft_table TD_ISA_NAME(td_fft_table) = {.tasks = {tasks_f32, tasks_f64}};

#else
#define N(x) JOIN(x, S)
#define LANES ((int)(VECTOR / sizeof(T)))
typedef struct N(number) { T re, im; } N(number);
typedef T N(vector) __attribute__((vector_size(VECTOR)));
typedef TI N(indices) __attribute__((vector_size(VECTOR)));
typedef struct N(wide) { N(vector) re, im; } N(wide);
#define C N(number)
#define V N(vector)
#define W N(wide)

#define E C
#define R T
#define P(x) JOIN(JOIN(one, x), S)
#define SIMD _Pragma("omp simd")
#include "kernels/cpu/fft/passes.h"
#undef E
#undef R
#undef P
#undef SIMD
#define E W
#define R V
#define P(x) JOIN(JOIN(side, x), S)
#define SIMD
#include "kernels/cpu/fft/passes.h"
#undef E
#undef R
#undef P
#undef SIMD

static inline V N(load)(const void *from)
{
    V v;
    memcpy(&v, from, sizeof v);
    return v;
}
static inline void N(keep)(void *to, V v) { memcpy(to, &v, sizeof v); }

/* Where the elements of a pair of vectors go: even ones and odd ones apart, and back. */
static inline void N(apart)(V a, V b, V *even, V *odd)
{
    N(indices) e, o;
    for (int j = 0; j < LANES; j++)
        e[j] = 2 * j, o[j] = 2 * j + 1;
    *even = TD_SHUFFLE(a, b, e), *odd = TD_SHUFFLE(a, b, o);
}
static inline void N(together)(V even, V odd, V *a, V *b)
{
    N(indices) low, high;
    for (int j = 0; j < LANES; j++)
        low[j] = j / 2 + (j & 1) * LANES, high[j] = LANES / 2 + j / 2 + (j & 1) * LANES;
    *a = TD_SHUFFLE(even, odd, low), *b = TD_SHUFFLE(even, odd, high);
}
/* Rows become columns: blocks of half the size change places, then of a quarter, ... */
static inline __attribute__((always_inline)) void N(transpose_step)(V *rows, const int h)
{
    N(indices) low, high;
    for (int j = 0; j < LANES; j++)
        low[j] = j & h ? LANES + j - h : j, high[j] = j & h ? LANES + j : j + h;
#pragma GCC unroll 16
    for (int i = 0; i < LANES; i++)
        if (!(i & h)) {
            const V a = rows[i], b = rows[i + h];
            rows[i] = TD_SHUFFLE(a, b, low), rows[i + h] = TD_SHUFFLE(a, b, high);
        }
}
static inline __attribute__((always_inline)) void N(transpose)(V *rows)
{
    if (LANES >= 16)
        N(transpose_step)(rows, 8);
    if (LANES >= 8)
        N(transpose_step)(rows, 4);
    if (LANES >= 4)
        N(transpose_step)(rows, 2);
    N(transpose_step)(rows, 1);
}

/* ---- lines into the lanes and out of them */

/* `count` lines, whose numbers lie `step` apart; lanes past them repeat the last. */
typedef struct N(lines_at) { char *at[VECTOR / sizeof(T)]; int64_t step; int count; bool real, adjacent; } N(lines_at);


/* Fills up lanes without a line, and finds out whether lines lie side by side, so that one load has a number of each. */
static __attribute__((noinline)) void N(settle)(N(lines_at) *l)
{
    const int64_t item = (int64_t)(l->real ? sizeof(T) : sizeof(C));
    l->adjacent = l->count == LANES;
    for (int i = 1; i < LANES; i++) {
        if (i >= l->count)
            l->at[i] = l->at[l->count - 1];
        l->adjacent &= l->at[i] == l->at[0] + i * item;
    }
}

/* n numbers of each line into x.  Three cases: lines side by side (a load and a shuffle), each line in one piece (LANES numbers of
 * each are transposed), anything else (number by number, and what is left of the second).  `swap`: see single(). */
static __attribute__((noinline)) void N(gather)(const N(lines_at) *l, int64_t n, bool swap, W *x)
{
    const V none = {0};
    const int64_t item = (int64_t)(l->real ? sizeof(T) : sizeof(C));
    int64_t k = 0;
    if (l->adjacent)
        for (; k < n; k++) {
            const char *from = l->at[0] + k * l->step * item;
            if (l->real)
                x[k] = (W){N(load)(from), none};
            else
                N(apart)(N(load)(from), N(load)(from + VECTOR), &x[k].re, &x[k].im);
        }
    else if (l->step == 1)
        for (; k + LANES <= n; k += LANES) {
            V re[VECTOR / sizeof(T)], im[VECTOR / sizeof(T)];
            for (int i = 0; i < LANES; i++) {
                const char *from = l->at[i] + k * item;
                if (l->real)
                    re[i] = N(load)(from), im[i] = none;
                else
                    N(apart)(N(load)(from), N(load)(from + VECTOR), &re[i], &im[i]);
            }
            N(transpose)(re);
            if (!l->real)
                N(transpose)(im);
            for (int i = 0; i < LANES; i++)
                x[k + i] = (W){re[i], im[i]};
        }
    for (; k < n; k++)
        for (int i = 0; i < LANES; i++) {
            const T *from = (const T *)(l->at[i] + k * l->step * item);
            x[k].re[i] = from[0], x[k].im[i] = l->real ? 0 : from[1];
        }
    for (k = 0; k < n && swap; k++)
        x[k] = (W){x[k].im, x[k].re};
}

/* The inverse of gather(), with the scale.  Real results are the real parts; lanes that repeat a line aren't written. */
static __attribute__((noinline)) void N(scatter)(const W *x, int64_t n, bool swap, T scale, const N(lines_at) *l)
{
    const int64_t item = (int64_t)(l->real ? sizeof(T) : sizeof(C));
    int64_t k = 0;
    if (l->adjacent)
        for (; k < n; k++) {
            char *to = l->at[0] + k * l->step * item;
            const V re = (swap ? x[k].im : x[k].re) * scale, im = (swap ? x[k].re : x[k].im) * scale;
            V a = re, b;
            if (!l->real) {
                N(together)(re, im, &a, &b);
                N(keep)(to + VECTOR, b);
            }
            N(keep)(to, a);
        }
    else if (l->step == 1 && l->count == LANES)
        for (; k + LANES <= n; k += LANES) {
            V re[VECTOR / sizeof(T)], im[VECTOR / sizeof(T)];
            for (int i = 0; i < LANES; i++)
                re[i] = (swap ? x[k + i].im : x[k + i].re) * scale, im[i] = (swap ? x[k + i].re : x[k + i].im) * scale;
            N(transpose)(re);
            if (!l->real)
                N(transpose)(im);
            for (int i = 0; i < LANES; i++) {
                char *to = l->at[i] + k * item;
                V a = re[i], b;
                if (!l->real) {
                    N(together)(re[i], im[i], &a, &b);
                    N(keep)(to + VECTOR, b);
                }
                N(keep)(to, a);
            }
        }
    for (; k < n; k++)
        for (int i = 0; i < l->count; i++) {
            T *to = (T *)(l->at[i] + k * l->step * item);
            to[0] = (swap ? x[k].im[i] : x[k].re[i]) * scale;
            if (!l->real)
                to[1] = (swap ? x[k].re[i] : x[k].im[i]) * scale;
        }
}

/* Real lines of 2 h numbers: even ones are real parts, odd ones imaginary.  A line in one piece looks like h complex numbers. */
static void N(gather_pairs)(const N(lines_at) *l, int64_t h, W *x)
{
    if (l->step == 1) {
        N(lines_at) same = *l;
        same.real = same.adjacent = false;
        N(gather)(&same, h, false, x);
        return;
    }
    const int64_t step = l->step * (int64_t)sizeof(T);
    for (int64_t k = 0; k < h; k++)
        if (l->adjacent)
            x[k] = (W){N(load)(l->at[0] + 2 * k * step), N(load)(l->at[0] + (2 * k + 1) * step)};
        else
            for (int i = 0; i < LANES; i++) {
                x[k].re[i] = *(const T *)(l->at[i] + 2 * k * step);
                x[k].im[i] = *(const T *)(l->at[i] + (2 * k + 1) * step);
            }
}
/* Back, parts exchanged. */
static void N(scatter_pairs)(const W *x, int64_t h, T scale, const N(lines_at) *l)
{
    if (l->step == 1) {
        N(lines_at) same = *l;
        same.real = same.adjacent = false;
        N(scatter)(x, h, true, scale, &same);
        return;
    }
    const int64_t step = l->step * (int64_t)sizeof(T);
    for (int64_t k = 0; k < h; k++)
        if (l->adjacent) {
            N(keep)(l->at[0] + 2 * k * step, x[k].im * scale);
            N(keep)(l->at[0] + (2 * k + 1) * step, x[k].re * scale);
        } else {
            for (int i = 0; i < l->count; i++) {
                *(T *)(l->at[i] + 2 * k * step) = x[k].im[i] * scale;
                *(T *)(l->at[i] + (2 * k + 1) * step) = x[k].re[i] * scale;
            }
        }
}

/* ---- lines side by side */

/* A transform without a chirp.  Buffers of more than the first cache holds go through it by columns and rows, so that the second cache
 * is read and written once for each of them instead of once per radix; `work` has room for two of the longer ones. */
static W *N(side_by_parts)(const td_fft_plan *plan, W *x, W *y, W *work)
{
    if (!plan->columns || plan->n < TD_FFT_PARTS)
        return JOIN(side_plain, S)(plan, x, y);
    const int64_t n1 = plan->columns->n, n2 = plan->rows->n, row = n2 + 1;      /* no power of two, for the cache's sake */
    const C *roots = plan->roots;
    W *more = work + n2;                /* the longer one */
    for (int64_t j = 0; j < n2; j++) {
        for (int64_t k = 0; k < n1; k++)
            work[k] = x[j + n2 * k];
        const W *z = JOIN(side_plain, S)(plan->columns, work, more);
        y[j] = z[0];
        for (int64_t k = 1; k < n1; k++)
            y[k * row + j] = j ? JOIN(side_mul, S)(z[k], roots[j * k]) : z[k];
    }
    for (int64_t k = 0; k < n1; k++) {
        const W *z = JOIN(side_plain, S)(plan->rows, y + k * row, work);
        for (int64_t j = 0; j < n2; j++)
            x[k + n1 * j] = z[j];
    }
    return x;
}

/* A transform with or without the chirp; x and y are both work space, and the result is in either. */
static W *N(side)(const td_fft_plan *plan, W *x, W *y, W *work)
{
    if (!plan->inner)
        return N(side_by_parts)(plan, x, y, work);
    JOIN(side_chirp_in, S)(plan, x);
    W *z = N(side_by_parts)(plan->inner, x, y, work);
    JOIN(side_chirp_filter, S)(plan, z);
    W *back = N(side_by_parts)(plan->inner, z, z == x ? y : x, work);
    JOIN(side_chirp_out, S)(plan, back);
    return back;
}

/* From the transform z of h complex numbers, which are a real line's even and odd ones: X[k] = (z[k] + z*[h - k]) / 2 -
 * i w^k (z[k] - z*[h - k]) / 2, w the root for 2 h; the first, the last and the one between
 * them without products, as infinities want it.  Up to n_to. */
static void N(from_pairs)(const W *z, int64_t h, const C *roots, int64_t n_to, W *x)
{
    const V none = {0}, half = none + (T)0.5;
    x[0] = (W){z[0].re + z[0].im, none};
    x[h] = (W){z[0].re - z[0].im, none};
    for (int64_t k = 1; k < h; k++) {
        const W a = z[k], b = z[h - k];
        const W sum = {(a.re + b.re) * half, (a.im - b.im) * half}, difference = {(a.im + b.im) * half, (b.re - a.re) * half};
        x[k] = JOIN(side_add, S)(sum, JOIN(side_mul, S)(difference, roots[k]));
    }
    if (h % 2 == 0)
        x[h / 2] = (W){z[h / 2].re, none - z[h / 2].im};
    for (int64_t k = h + 1; k < n_to; k++)
        x[k] = (W){x[2 * h - k].re, none - x[2 * h - k].im};
}
/* The way back, unscaled: z[k] = x[k] + x*[h - k] + i w^-k (x[k] - x*[h - k]), with real and imaginary parts exchanged, since the
 * transform that follows goes forward. */
static void N(to_pairs)(const W *x, int64_t h, const C *roots, W *z)
{
    z[0] = (W){x[0].re - x[h].re, x[0].re + x[h].re};
    for (int64_t k = 1; k < h; k++) {
        const W a = x[k], b = x[h - k];
        const W sum = {a.re + b.re, a.im - b.im}, difference = {a.re - b.re, a.im + b.im};
        const W turned = JOIN(side_mul, S)(difference, (C){roots[k].re, -roots[k].im});
        z[k] = (W){sum.im + turned.re, sum.re - turned.im};
    }
}

/* What a task does with lines [from, to): LANES at a time from gathering to scattering, so that they stay in the cache between.  Their
 * numbers are `inner` apart: along the last dimension 1, and then lines are each in one piece. */
static void N(batch)(const td_fft_job *job, int64_t from, int64_t to, W *x, W *work)
{
    const td_fft_plan *plan = job->plan;
    const bool swap = !job->forward;
    const int64_t n = plan->n, h = n / 2, stride = job->inner;
    const bool pairs = plan->half != NULL, from_pairs = pairs && job->from_end == TD_FFT_REAL, to_pairs = pairs && job->to_end == TD_FFT_REAL;
    W *y = x + job->scratch;
    for (int64_t line = from; line < to; line += LANES) {
        N(lines_at) in = {.step = stride, .real = job->from_end == TD_FFT_REAL}, out = {.step = stride, .real = job->to_end == TD_FFT_REAL};
        in.count = out.count = to - line < LANES ? (int)(to - line) : LANES;
        for (int i = 0; i < in.count; i++) {
            const int64_t outer = (line + i) / stride, at = (line + i) % stride;
            in.at[i] = (char *)job->from + (outer * job->n_from * stride + at) * (int64_t)(in.real ? sizeof(T) : sizeof(C));
            out.at[i] = (char *)job->to + (outer * job->n_to * stride + at) * (int64_t)(out.real ? sizeof(T) : sizeof(C));
        }
        N(settle)(&in), N(settle)(&out);
        if (from_pairs) {
            N(gather_pairs)(&in, h, x);
            const W *z = N(side)(plan->half, x, y, work);
            W *to_there = z == x ? y : x;
            N(from_pairs)(z, h, plan->half_roots, job->n_to, to_there);
            N(scatter)(to_there, job->n_to, false, (T)job->scale, &out);
            continue;
        }
        const int64_t given = job->from_end == TD_FFT_HALF ? h + 1 : n;
        if (to_pairs) {
            N(gather)(&in, given, false, x);
            N(to_pairs)(x, h, plan->half_roots, y);
            N(scatter_pairs)(N(side)(plan->half, y, x, work), h, (T)job->scale, &out);
            continue;
        }
        N(gather)(&in, given, swap, x);
        if (job->from_end == TD_FFT_HALF) {      /* what the other half would conjugate must be real */
            W *ends[] = {x, n % 2 ? x : x + n / 2};
            for (int e = 0; e < 2; e++)
                *(swap ? &ends[e]->re : &ends[e]->im) = (V){0};
            for (int64_t k = given; k < n; k++)
                x[k] = swap ? (W){-x[n - k].re, x[n - k].im} : (W){x[n - k].re, -x[n - k].im};
        }
        N(scatter)(N(side)(plan, x, y, work), job->n_to, swap, (T)job->scale, &out);
    }
}

/* ---- a long line, by columns and rows; `middle` has room for it */

/* Number j2 + n2 j1 of the line is row j1 of column j2.  First columns, LANES at a time, and the products with the powers of the root;
 * then rows of `middle`, whose results go to columns of `to`: number k1 + n1 k2 (the four-step scheme, Bailey 1990). */
static void N(split)(const td_fft_plan *plan, const C *from, C *middle, C *to, bool swap, T scale, W *x)
{
    const int64_t n1 = plan->columns->n, n2 = plan->rows->n, blocks = (n2 + TD_FFT_BLOCK - 1) / TD_FFT_BLOCK;
    W *y = x + (n1 > n2 ? n1 : n2);
    const C *coarse = plan->coarse;
    const T *fine = plan->fine;
    for (int64_t j = 0; j < n2; j += LANES) {
        N(lines_at) in = {.step = n2, .count = n2 - j < LANES ? (int)(n2 - j) : LANES}, out = in;
        for (int i = 0; i < in.count; i++)
            in.at[i] = (char *)(from + j + i), out.at[i] = (char *)(middle + j + i);
        N(settle)(&in), N(settle)(&out);
        N(gather)(&in, n1, swap, x);
        W *z = JOIN(side_plain, S)(plan->columns, x, y);
        for (int64_t k = 0; k < n1; k++) {
            const T *at = fine + 2 * TD_FFT_BLOCK * k + j % TD_FFT_BLOCK;
            const W w = JOIN(side_mul, S)((W){N(load)(at), N(load)(at + TD_FFT_BLOCK)}, coarse[k * blocks + j / TD_FFT_BLOCK]);
            z[k] = (W){z[k].re * w.re - z[k].im * w.im, z[k].re * w.im + z[k].im * w.re};
        }
        N(scatter)(z, n1, false, 1, &out);
    }
    for (int64_t k = 0; k < n1; k += LANES) {
        N(lines_at) in = {.step = 1, .count = n1 - k < LANES ? (int)(n1 - k) : LANES}, out = in;
        out.step = n1;
        for (int i = 0; i < in.count; i++)
            in.at[i] = (char *)(middle + (k + i) * n2), out.at[i] = (char *)(to + k + i);
        N(settle)(&in), N(settle)(&out);
        N(gather)(&in, n2, false, x);
        N(scatter)(JOIN(side_plain, S)(plan->rows, x, y), n2, swap, scale, &out);
    }
}

/* ---- one line */

/* The forward transform of x with a plan that has no chirp, by columns and rows if it has them; the result is in x or y. */
static C *N(line)(const td_fft_plan *plan, C *x, C *y, W *work)
{
    if (!plan->columns)
        return JOIN(one_plain, S)(plan, x, y);
    N(split)(plan, x, y, x, false, 1, work);
    return x;
}

/* The same with any plan. */
static C *N(any)(const td_fft_plan *plan, C *x, C *y, W *work)
{
    if (!plan->inner)
        return N(line)(plan, x, y, work);
    JOIN(one_chirp_in, S)(plan, x);
    C *z = N(line)(plan->inner, x, y, work);
    JOIN(one_chirp_filter, S)(plan, z);
    C *result = N(line)(plan->inner, z, z == x ? y : x, work);
    JOIN(one_chirp_out, S)(plan, result);
    return result;
}

/* A real line by half as many complex numbers: see from_pairs() and to_pairs(). */
static void N(single_pairs)(const td_fft_job *job, int64_t line, C *x, W *work)
{
    const td_fft_plan *half = job->plan->half;
    const int64_t h = half->n, stride = job->inner, outer = line / stride, at = line % stride;
    const C *roots = job->plan->half_roots;
    const T scale = (T)job->scale, less = scale / 2;
    C *y = x + job->scratch, *z = x;
    if (job->from_end == TD_FFT_REAL) {
        const T *from = (const T *)job->from + outer * 2 * h * stride + at;
        C *to = (C *)job->to + outer * job->n_to * stride + at;
        if (half->columns && stride == 1) {
            N(split)(half, (const C *)from, y, x, false, 1, work);
        } else {
            for (int64_t k = 0; k < h; k++)
                x[k] = (C){from[2 * k * stride], from[(2 * k + 1) * stride]};
            z = N(any)(half, x, y, work);
        }
        to[0] = (C){scale * (z[0].re + z[0].im), 0};
        to[h * stride] = (C){scale * (z[0].re - z[0].im), 0};
#pragma omp simd
        for (int64_t k = 1; k < h; k++) {
            const C a = z[k], b = z[h - k], w = roots[k], d = {a.im + b.im, b.re - a.re};
            to[k * stride] = (C){less * (a.re + b.re + d.re * w.re - d.im * w.im), less * (a.im - b.im + d.re * w.im + d.im * w.re)};
        }
        if (h % 2 == 0)
            to[h / 2 * stride] = (C){scale * z[h / 2].re, scale * -z[h / 2].im};
        for (int64_t k = h + 1; k < job->n_to; k++)
            to[k * stride] = (C){to[(2 * h - k) * stride].re, -to[(2 * h - k) * stride].im};
        return;
    }
    const C *in = (const C *)job->from + outer * job->n_from * stride + at;
    T *to = (T *)job->to + outer * 2 * h * stride + at;
    /* The parts are exchanged here, or by split(). */
    const bool cut = half->columns && stride == 1;
    const T even = in[0].re + in[h * stride].re, odd = in[0].re - in[h * stride].re;
    x[0] = cut ? (C){even, odd} : (C){odd, even};
#pragma omp simd
    for (int64_t k = 1; k < h; k++) {
        const C a = in[k * stride], b = in[(h - k) * stride], w = roots[k], d = {a.re - b.re, a.im + b.im};
        const T re = a.re + b.re - d.im * w.re + d.re * w.im, im = a.im - b.im + d.re * w.re + d.im * w.im;
        x[k] = cut ? (C){re, im} : (C){im, re};
    }
    if (cut) {
        N(split)(half, x, y, (C *)to, true, scale, work);
        return;
    }
    z = N(any)(half, x, y, work);
    for (int64_t k = 0; k < h; k++)
        to[2 * k * stride] = scale * z[k].im, to[(2 * k + 1) * stride] = scale * z[k].re;
}

/* Backward transforms are forward ones with real and imaginary parts exchanged at both ends.  For halves, the imaginary parts of the
 * first number and, of an even n, the middle one count as 0, as if the input had been symmetric. */
static void N(single)(const td_fft_job *job, int64_t line, C *x, W *work)
{
    const td_fft_plan *plan = job->plan;
    const int64_t n = plan->n, stride = job->inner, outer = line / stride, at = line % stride;
    const bool swap = !job->forward;
    const T scale = (T)job->scale;
    C *y = x + job->scratch;
    if (plan->half) {
        N(single_pairs)(job, line, x, work);
        return;
    }
    if (plan->columns && stride == 1 && job->from_end == TD_FFT_COMPLEX && job->to_end == TD_FFT_COMPLEX) {
        N(split)(plan, (const C *)job->from + outer * n, x, (C *)job->to + outer * n, swap, scale, work);
        return;
    }
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
        if (job->from_end == TD_FFT_HALF) {
            C *ends[] = {x, n % 2 ? x : x + n / 2};
            for (int e = 0; e < 2; e++)
                *(swap ? &ends[e]->re : &ends[e]->im) = 0;
        }
    }
    C *const result = N(any)(plan, x, y, work);
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

static void N(tasks)(void *context, int64_t from, int64_t to)
{
    td_fft_job *job = context;
    /* Two buffers, side by side of vectors, and two of vectors for columns or rows. */
    const int64_t numbers = 2 * job->scratch * (job->side ? LANES : 1), more = 2 * job->split_scratch * LANES;
    const size_t bytes = (size_t)(numbers + more + LANES) * sizeof(C);
    char *block = td_mem_alloc(bytes);
    if (!block) {
        __atomic_store_n(&job->failed, 1, __ATOMIC_RELAXED);
        return;
    }
    W *wide = (W *)(((uintptr_t)block + VECTOR - 1) & ~(uintptr_t)(VECTOR - 1));
    for (int64_t task = from; task < to; task++) {
        const int64_t first = task * TD_FFT_BLOCK, last = first + TD_FFT_BLOCK;
        if (job->side)
            N(batch)(job, first, last < job->lines ? last : job->lines, wide + 2 * job->split_scratch, wide);
        else
            N(single)(job, task, (C *)(wide + 2 * job->split_scratch), wide);
    }
    td_mem_free(block, bytes);
}
#undef N
#undef LANES
#undef C
#undef V
#undef W
#endif
