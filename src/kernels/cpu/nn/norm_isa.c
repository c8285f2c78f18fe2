/* The loops of layer, rms, batch and group norm.
 *
 * All of them are bound by memory once a tensor is larger than the caches: a row is read once if it is short enough to be in the cache
 * when it is read again.  A row, a group or a channel is summed by one thread in an order that follows from its length, so the number
 * of threads changes no bits.
 *
 * Sums that run over many elements are kept in double precision across rows, in single precision within a row of the vector loop's
 * lanes. */
#ifndef S
#include <math.h>
#include <string.h>
#include "kernels/cpu/nn/norm.h"
#include "kernels/cpu/isa/vectors.h"

enum {
    FETCH_BYTES = 32 << 10,     /* of a row that is fetched ahead, at most */
    TOGETHER = 8,               /* rows of a matrix whose columns are summed at a time */
    CHANNELS = 512,             /* whose factors are kept at a time */
};

#define TD_BODY "kernels/cpu/nn/norm_isa.c"
#include "kernels/cpu/isa/both_reals.h"

#define BOTH(name) .name = {name##_f32, name##_f64}
extern const td_norm_table TD_ISA_NAME(td_norm_table);
const td_norm_table TD_ISA_NAME(td_norm_table) = {
    BOTH(rows), BOTH(rows_backward), BOTH(batch_stats), BOTH(batch_apply), BOTH(batch_sums), BOTH(batch_backward),
    BOTH(group),
    BOTH(group_sums), BOTH(group_backward),
};

#else

/* The sums of x - centre (unless `sum` is NULL) and of its square (unless `square` is): four times 64 bytes at a time, so that no
 * addition waits for the one before.  What lies `ahead` bytes further on, the next row, is fetched meanwhile: passes that find their
 * row in the cache leave memory idle. */
INLINE void N(sums_less)(const T *x, int64_t n, T centre, int64_t ahead, T *sum, T *square)
{
    enum { ONE = VBYTES / sizeof(T), PARTS = 64 / VBYTES, LANES = 64 / sizeof(T) };
    N(vec) sums[4 * PARTS] = {{0}}, squares[4 * PARTS] = {{0}};
    int64_t i = 0;
    for (; i + 4 * LANES <= n; i += 4 * LANES)
#pragma GCC unroll 16
        for (int r = 0; r < 4 * PARTS; r++) {
            if (ahead && r % PARTS == 0)
                __builtin_prefetch((const char *)(x + i + r * ONE) + ahead);
            const N(vec) d = *(const N(vec) *)(x + i + r * ONE) - centre;
            if (sum)
                sums[r] += d;
            if (square)
                squares[r] += d * d;
        }
    for (; i + LANES <= n; i += LANES)
#pragma GCC unroll 4
        for (int r = 0; r < PARTS; r++) {
            const N(vec) d = *(const N(vec) *)(x + i + r * ONE) - centre;
            sums[r] += d, squares[r] += d * d;
        }
    T lane[2][LANES];
#pragma GCC unroll 4
    for (int r = 0; r < PARTS; r++) {
        *(N(vec) *)(lane[0] + r * ONE) = (sums[r] + sums[PARTS + r]) + (sums[2 * PARTS + r] + sums[3 * PARTS + r]);
        *(N(vec) *)(lane[1] + r * ONE) = (squares[r] + squares[PARTS + r]) + (squares[2 * PARTS + r] + squares[3 * PARTS + r]);
    }
#pragma GCC unroll 4
    for (int w = LANES / 2; w > 0; w /= 2)
        for (int r = 0; r < w; r++)
            lane[0][r] += lane[0][r + w], lane[1][r] += lane[1][r + w];
    for (; i < n; i++)
        lane[0][0] += x[i] - centre, lane[1][0] += (x[i] - centre) * (x[i] - centre);
    if (sum)
        *sum = lane[0][0];
    if (square)
        *square = lane[1][0];
}

/* Without the sum: rms_norm, and the second pass of moments(). */
static T N(squares_less)(const T *x, int64_t n, T centre, int64_t ahead)
{
    T square;
    N(sums_less)(x, n, centre, ahead, NULL, &square);
    return square;
}

/* Mean and sum of squared distances from it by shifted data (Chan, Golub and LeVeque, 1983), in one pass about the first element; once
 * more about the mean where that is so far away from the first that digits would be lost. */
static void N(moments)(const T *x, int64_t n, double *mean, double *m2, int64_t ahead)
{
    double away = 0, square = 0;
    enum { BLOCK = 1024, FAR = 8 };
    for (int64_t at = 0; at < n; at += BLOCK) {
        T part, squares;
        N(sums_less)(x + at, n - at < BLOCK ? n - at : BLOCK, x[0], ahead, &part, &squares);
        away += (double)part, square += (double)squares;
    }
    const double shift = n ? away / (double)n : 0;
    *mean = n ? (double)x[0] + shift : (double)NAN, *m2 = square - away * shift;
    if (away * shift <= FAR * *m2)
        return;
    *m2 = 0;
    for (int64_t at = 0; at < n; at += BLOCK)
        *m2 += (double)N(squares_less)(x + at, n - at < BLOCK ? n - at : BLOCK, (T)*mean, 0);
}

/* A loop for each case, so that none reads a weight that isn't there. */
static void N(affine)(const T *x, T *y, int64_t n, T scale, T shift, const T *w, const T *b)
{
    if (w && b)
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            y[i] = (x[i] * scale + shift) * w[i] + b[i];
    else if (w)
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            y[i] = (x[i] * scale + shift) * w[i];
    else if (b)
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            y[i] = x[i] * scale + shift + b[i];
    else
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            y[i] = x[i] * scale + shift;
}

/* Rows [from, to).  Statistics read a row from memory, the result reads it from the cache while short rows behind it are fetched. */
static void N(rows)(void *context, int64_t from, int64_t to)
{
    const td_rows_job *job = context;
    int64_t n = job->n, bytes = n * (int64_t)sizeof(T), ahead = bytes <= FETCH_BYTES ? bytes : 0;
    for (int64_t r = from; r < to; r++) {
        const T *x = (const T *)job->x + r * n;
        double mean = 0, m2;
        if (job->rms) {
            m2 = (double)N(squares_less)(x, n, 0, ahead);
        } else {
            N(moments)(x, n, &mean, &m2, ahead);
        }
        T rstd = (T)(1 / sqrt(m2 / (double)n + job->eps));
        if (job->mean)
            ((T *)job->mean)[r] = (T)mean;
        ((T *)job->rstd)[r] = rstd;
        N(affine)(x, (T *)job->y + r * n, n, rstd, job->rms ? 0 : -(T)mean * rstd, job->weight, job->bias);
    }
}

/* dx = rstd (gw - mean(gw) - xhat mean(gw xhat)), gw = g w; rms has no mean(gw).  `from` and `to` count chunks. */
static void N(rows_backward)(void *context, int64_t from, int64_t to)
{
    const td_rows_job *job = context;
    int64_t n = job->n;
    const T *w = job->weight;
    for (int64_t c = from; c < to; c++) {
        int64_t last = (c + 1) * job->chunk < job->rows ? (c + 1) * job->chunk : job->rows;
        double *sum_gx = job->sums ? job->sums + c * 2 * n : NULL, *sum_g = job->sums ? sum_gx + n : NULL;
        if (sum_g)
            memset(sum_gx, 0, (size_t)(2 * n) * sizeof(double));
        for (int64_t r = c * job->chunk; r < last; r++) {
            const T *x = (const T *)job->x + r * n, *g = (const T *)job->grad + r * n;
            const T rstd = ((const T *)job->rstd)[r], mean = job->rms ? 0 : ((const T *)job->mean)[r];
            if (sum_g)
#pragma omp simd
                for (int64_t i = 0; i < n; i++) {
                    sum_gx[i] += (double)(g[i] * ((x[i] - mean) * rstd));
                    sum_g[i] += (double)g[i];
                }
            if (!job->y)
                continue;
            T a = 0, b = 0;
            if (w) {
#pragma omp simd reduction(+ : a, b)
                for (int64_t i = 0; i < n; i++) {
                    a += g[i] * w[i];
                    b += g[i] * w[i] * (x[i] - mean);
                }
            } else {
#pragma omp simd reduction(+ : a, b)
                for (int64_t i = 0; i < n; i++) {
                    a += g[i];
                    b += g[i] * (x[i] - mean);
                }
            }
            T *dx = (T *)job->y + r * n;
            const T slope = -b * rstd * rstd * rstd / (T)n, shift = job->rms ? 0 : -a * rstd / (T)n;
            if (w)
#pragma omp simd
                for (int64_t i = 0; i < n; i++)
                    dx[i] = rstd * g[i] * w[i] + slope * (x[i] - mean) + shift;
            else
#pragma omp simd
                for (int64_t i = 0; i < n; i++)
                    dx[i] = rstd * g[i] + slope * (x[i] - mean) + shift;
        }
    }
}

/* Sums in double precision, for channels whose elements lie side by side. */
static double N(sum)(const T *x, int64_t n)
{
    double s = 0;
#pragma omp simd reduction(+ : s)
    for (int64_t i = 0; i < n; i++)
        s += (double)x[i];
    return s;
}

/* The variance of a channel in two passes, about the mean. */
static double N(sum_squares)(const T *x, int64_t n, double centre)
{
    double s = 0;
#pragma omp simd reduction(+ : s)
    for (int64_t i = 0; i < n; i++)
        s += ((double)x[i] - centre) * ((double)x[i] - centre);
    return s;
}

/* What becomes the gradient of a channel's factor. */
static double N(sum_products)(const T *x, const T *y, int64_t n, double centre)
{
    double s = 0;
#pragma omp simd reduction(+ : s)
    for (int64_t i = 0; i < n; i++)
        s += (double)y[i] * ((double)x[i] - centre);
    return s;
}

/* sums[c] becomes the sum over rows of x - centre, or its square, or (given g) of g times it, for columns [from, to) of rows
 * `step` apart: a few rows at a time in T, the rest in double precision.  Without centre: 0. */
static inline __attribute__((always_inline)) void N(columns)(const T *x, const T *g, int64_t rows, int64_t step, int64_t from, int64_t to,
                                                             const double *centre, const bool squared, double *sums)
{
    for (int64_t c = from; c < to; c++)
        sums[c] = 0;
    for (int64_t o = 0, m; o < rows; o += m, x += m * step, g += g ? m * step : 0) {
        m = rows - o < TOGETHER ? 1 : TOGETHER;
        if (m == 1) {
#pragma omp simd
            for (int64_t c = from; c < to; c++) {
                const T d = x[c] - (centre ? (T)centre[c] : 0);
                sums[c] += (double)(squared ? d * d : g ? g[c] * d : d);
            }
            continue;
        }
#pragma omp simd
        for (int64_t c = from; c < to; c++) {
            const T less = centre ? (T)centre[c] : 0;
            T sum = 0;
#pragma GCC unroll 8
            for (int k = 0; k < TOGETHER; k++) {
                const T d = x[k * step + c] - less;
                sum += squared ? d * d : g ? g[k * step + c] * d : d;
            }
            sums[c] += (double)sum;
        }
    }
}

/* Per channel of [outer][channels][inner]; a matrix (inner == 1) goes row by row over all channels of the range. */
static void N(batch_stats)(void *context, int64_t from, int64_t to)
{
    td_channels_job *job = context;
    int64_t step = job->channels * job->inner;
    const T *x = job->x;
    double count = (double)(job->outer * job->inner);
    if (job->inner == 1) {
        N(columns)(x, NULL, job->outer, step, from, to, NULL, false, job->mean);
        for (int64_t c = from; c < to; c++)
            job->mean[c] /= count;
        N(columns)(x, NULL, job->outer, step, from, to, job->mean, true, job->rstd);
        for (int64_t c = from; c < to; c++) {
            const double off = job->mean[c] - (double)(T)job->mean[c], square = job->rstd[c] / count - off * off;
            job->rstd[c] = square < 0 ? 0 : square;
        }
        return;
    }
    for (int64_t c = from; c < to; c++) {
        double s = 0, q = 0;
        for (int64_t o = 0; o < job->outer; o++)
            s += N(sum)(x + o * step + c * job->inner, job->inner);
        s /= count;
        for (int64_t o = 0; o < job->outer; o++)
            q += N(sum_squares)(x + o * step + c * job->inner, job->inner, s);
        job->mean[c] = s, job->rstd[c] = q / count;
    }
}

/* What x is multiplied with and what is added, of a channel. */
static inline T N(scale_of)(const td_channels_job *job, int64_t c)
{
    return (T)job->rstd[c] * (job->weight ? ((const T *)job->weight)[c] : 1);
}
static inline T N(shift_of)(const td_channels_job *job, int64_t c, T scale)
{
    return (job->bias ? ((const T *)job->bias)[c] : 0) - (T)job->mean[c] * scale;
}

/* y = x scale + shift.  Of a matrix the factors of CHANNELS columns are computed once for all rows; 2 x 512 numbers stay in the
 * first cache. */
static void N(batch_apply)(void *context, int64_t from, int64_t to)
{
    const td_channels_job *job = context;
    const int64_t inner = job->inner, n = job->channels;
    if (inner == 1) {
        T scale[CHANNELS], shift[CHANNELS];
        for (int64_t first = 0, m; first < n; first += m) {
            m = n - first < CHANNELS ? n - first : CHANNELS;
            for (int64_t c = 0; c < m; c++)
                scale[c] = N(scale_of)(job, first + c), shift[c] = N(shift_of)(job, first + c, scale[c]);
            for (int64_t i = from; i < to; i++) {
                const T *x = (const T *)job->x + i * n + first;
                T *y = (T *)job->y + i * n + first;
#pragma omp simd
                for (int64_t c = 0; c < m; c++)
                    y[c] = x[c] * scale[c] + shift[c];
            }
        }
        return;
    }
    for (int64_t i = from; i < to; i++) {
        const T *x = (const T *)job->x + i * n * inner;
        T *y = (T *)job->y + i * n * inner;
        for (int64_t c = 0; c < n; c++) {
            const T scale = N(scale_of)(job, c), shift = N(shift_of)(job, c, scale);
#pragma omp simd
            for (int64_t k = 0; k < inner; k++)
                y[c * inner + k] = x[c * inner + k] * scale + shift;
        }
    }
}

/* Per channel: the sums of g and of g (x - mean).  The mean was rounded to T for the matrix, which is made good by sum_g times the
 * difference. */
static void N(batch_sums)(void *context, int64_t from, int64_t to)
{
    td_channels_job *job = context;
    int64_t step = job->channels * job->inner;
    const T *x = job->x, *g = job->grad;
    if (job->inner == 1) {
        N(columns)(g, NULL, job->outer, step, from, to, NULL, false, job->sum_g);
        N(columns)(x, g, job->outer, step, from, to, job->mean, false, job->sum_gx);
        for (int64_t c = from; c < to; c++)
            job->sum_gx[c] -= job->sum_g[c] * (job->mean[c] - (double)(T)job->mean[c]);
        return;
    }
    for (int64_t c = from; c < to; c++) {
        double s = 0, p = 0;
        for (int64_t o = 0; o < job->outer; o++) {
            int64_t at = o * step + c * job->inner;
            s += N(sum)(g + at, job->inner);
            p += N(sum_products)(x + at, g + at, job->inner, job->mean[c]);
        }
        job->sum_g[c] = s, job->sum_gx[c] = p;
    }
}

/* dx = a g + slope (x - mean) + shift, or a g, by numbers of the channel. */
typedef struct N(slopes) { T a, slope, mean, shift; } N(slopes);
/* From the sums of batch_sums(): a = rstd w, slope = -sum_gx rstd^2 a / count, shift = -sum_g a / count. */
static inline N(slopes) N(slopes_of)(const td_channels_job *job, int64_t c)
{
    const double count = (double)(job->outer * job->inner), rstd = job->rstd[c];
    const double scale = rstd * (job->weight ? (double)((const T *)job->weight)[c] : 1);
    return (N(slopes)){(T)scale, (T)(-job->sum_gx[c] / count * rstd * rstd * scale), (T)job->mean[c],
                       (T)(-job->sum_g[c] / count * scale)};
}

/* Trained: dx = rstd w (g - mean(g) - xhat mean(g xhat)); with running statistics, which are constants, dx = rstd w g. */
static void N(batch_backward)(void *context, int64_t from, int64_t to)
{
    const td_channels_job *job = context;
    const int64_t inner = job->inner, n = job->channels;
    if (inner == 1) {
        T a[CHANNELS], slope[CHANNELS], mean[CHANNELS], shift[CHANNELS];
        for (int64_t first = 0, m; first < n; first += m) {
            m = n - first < CHANNELS ? n - first : CHANNELS;
            for (int64_t c = 0; c < m; c++) {
                const N(slopes) s = N(slopes_of)(job, first + c);
                a[c] = s.a, slope[c] = s.slope, mean[c] = s.mean, shift[c] = s.shift;
            }
            for (int64_t o = from; o < to; o++) {
                const T *x = (const T *)job->x + o * n + first, *g = (const T *)job->grad + o * n + first;
                T *dx = (T *)job->y + o * n + first;
                if (job->training)
#pragma omp simd
                    for (int64_t c = 0; c < m; c++)
                        dx[c] = a[c] * g[c] + slope[c] * (x[c] - mean[c]) + shift[c];
                else
#pragma omp simd
                    for (int64_t c = 0; c < m; c++)
                        dx[c] = g[c] * a[c];
            }
        }
        return;
    }
    for (int64_t o = from; o < to; o++)
        for (int64_t c = 0; c < n; c++) {
            const int64_t at = (o * n + c) * inner;
            const T *x = (const T *)job->x + at, *g = (const T *)job->grad + at;
            T *dx = (T *)job->y + at;
            const N(slopes) s = N(slopes_of)(job, c);
            if (job->training)
#pragma omp simd
                for (int64_t k = 0; k < inner; k++)
                    dx[k] = s.a * g[k] + s.slope * (x[k] - s.mean) + s.shift;
            else
#pragma omp simd
                for (int64_t k = 0; k < inner; k++)
                    dx[k] = g[k] * s.a;
        }
}

/* Group norm: [from, to) counts (outer, group) pairs. */
static void N(group)(void *context, int64_t from, int64_t to)
{
    td_channels_job *job = context;
    const int64_t inner = job->inner, groups = job->channels / job->group, run = job->group * inner;
    const T *w = job->weight, *b = job->bias;
    for (int64_t i = from; i < to; i++) {
        const T *x = (const T *)job->x + i * run;
        T *y = (T *)job->y + i * run;
        double mean, m2;
        N(moments)(x, run, &mean, &m2, 0);
        double rstd = 1 / sqrt(m2 / (double)run + job->eps);
        job->mean[i] = mean, job->rstd[i] = rstd;
        for (int64_t d = 0; d < job->group; d++) {
            int64_t c = i % groups * job->group + d;
            T scale = (T)rstd * (w ? w[c] : 1), shift = (b ? b[c] : 0) - (T)mean * scale;
            N(affine)(x + d * inner, y + d * inner, inner, scale, shift, NULL, NULL);
        }
    }
}

/* Per (outer, channel): the sums of g and of g x. */
static void N(group_sums)(void *context, int64_t from, int64_t to)
{
    td_channels_job *job = context;
    for (int64_t i = from; i < to; i++) {
        const T *x = (const T *)job->x + i * job->inner, *g = (const T *)job->grad + i * job->inner;
        job->sum_g[i] = N(sum)(g, job->inner);
        job->sum_gx[i] = N(sum_products)(x, g, job->inner, 0);
    }
}

/* The same formula for a group, where g is times the channel's weight, as dx = s g + slope x + shift. */
static void N(group_backward)(void *context, int64_t from, int64_t to)
{
    const td_channels_job *job = context;
    const int64_t inner = job->inner, groups = job->channels / job->group, run = job->group * inner;
    const T *w = job->weight;
    for (int64_t i = from; i < to; i++) {
        double a = 0, b = 0, mean = job->mean[i], rstd = job->rstd[i];
        for (int64_t d = 0; d < job->group; d++) {
            double scale = w ? (double)w[i % groups * job->group + d] : 1;
            a += scale * job->sum_g[i * job->group + d];
            b += scale * job->sum_gx[i * job->group + d];
        }
        double slope = -(b - mean * a) * rstd * rstd * rstd / (double)run,
        shift = -a * rstd / (double)run - slope * mean;
        for (int64_t d = 0; d < job->group; d++) {
            int64_t at = i * run + d * inner;
            const T *x = (const T *)job->x + at, *g = (const T *)job->grad + at;
            T *dx = (T *)job->y + at, s = (T)(rstd * (w ? (double)w[i % groups * job->group + d] : 1));
#pragma omp simd
            for (int64_t k = 0; k < inner; k++)
                dx[k] = s * g[k] + (T)slope * x[k] + (T)shift;
        }
    }
}
#endif
