/* The loops of softmax and cross entropy.
 *
 * Memory bounds long rows that aren't in the caches, so the next one is fetched while passes over this one go on; exponentials bound the
 * others.  A row, or a column of a block, is computed by one thread from its own numbers.
 *
 * The largest element is subtracted first, so that no exponential overflows.  Rows that lie across memory
 * (job->columns) are taken in blocks of columns side by side, and short rows are transposed to lie so. */
#ifndef S
#include "kernels/cpu/math/exp_run.h"
#include "kernels/cpu/nn/softmax.h"
#include "ops/iterate/iterator.h"

enum { NARROW = 64 /* a row that is as long, or shorter, doesn't fill vectors */ };
enum { COLUMNS = TD_SOFTMAX_COLUMNS, FETCH_BYTES = 32 << 10 /* of a row that is fetched ahead, at most */ };

#define TD_BODY "kernels/cpu/nn/softmax_isa.c"
#include "kernels/cpu/isa/both_reals.h"

extern const td_softmax_table TD_ISA_NAME(td_softmax_table);
const td_softmax_table TD_ISA_NAME(td_softmax_table) = {
    .forward = {forward_f32, forward_f64}, .backward = {backward_f32, backward_f64},
    .entropy = {entropy_f32, entropy_f64}, .entropy_backward = {entropy_backward_f32, entropy_backward_f64},
};

#else

/* In separate lanes, so that no comparison waits for the one before.  Meanwhile the next row is fetched, or, where the
 * exponentials do that, the memory that the result will take. */
static T N(row_max)(const T *x, int64_t n, int64_t ahead, const T *y)
{
    enum { LANES = VBYTES / sizeof(T), SIDE = 4 * LANES };
    T lane[SIDE], top = -(T)__builtin_inf();
    int64_t i = 0;
    for (int j = 0; j < SIDE; j++)
        lane[j] = top;
    for (; i + SIDE <= n; i += SIDE) {
        for (int line = 0; line < 4 * VBYTES && ahead && !TD_EXP_FETCHES(T); line += 64)
            __builtin_prefetch((const char *)(x + i) + ahead + line);
        for (int line = 0; line < 4 * VBYTES && y; line += 64)
            __builtin_prefetch((const char *)(y + i) + line, 1);
#pragma omp simd
        for (int j = 0; j < SIDE; j++)
            lane[j] = x[i + j] > lane[j] ? x[i + j] : lane[j];
    }
    for (; i < n && n >= LANES; i += LANES) {       /* the last vector may overlap the one before */
        const T *last = i + LANES <= n ? x + i : x + n - LANES;
#pragma omp simd
        for (int j = 0; j < LANES; j++)
            lane[j] = last[j] > lane[j] ? last[j] : lane[j];
    }
#pragma omp simd reduction(max : top)
    for (int j = 0; j < SIDE; j++)
        top = lane[j] > top ? lane[j] : top;
    for (; i < n; i++)
        top = x[i] > top ? x[i] : top;
    return top;
}

/* How far ahead the next row is, to be fetched meanwhile: later passes find theirs in the cache, and would leave memory idle. */
static int64_t N(next_row)(int64_t n) { return n * (int64_t)sizeof(T) <= FETCH_BYTES ? n * (int64_t)sizeof(T) : 0; }

/* Three passes: the maximum, which waits for memory; exponentials with their sum, and the scaling, which find the row in the cache
 * if it fits. */
static void N(row)(const T *x, T *y, int64_t n, bool log)
{
    const int64_t ahead = N(next_row)(n);
    const T top = N(row_max)(x, n, ahead, TD_EXP_FETCHES(T) && ahead ? y : NULL);
    if (log) {
        const T shift = N(td_log)(N(td_exp_less_ahead)(x, top, NULL, n, ahead));
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            y[i] = x[i] - top - shift;
        return;
    }
    const T scale = 1 / N(td_exp_less_ahead)(x, top, y, n, ahead);
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] *= scale;
}

/* The same passes over a block of `width` columns, rows `step` apart.  Maxima and sums of 64 columns stay in the first cache. */
static void N(columns)(const T *x, T *y, int64_t n, int64_t step, int width, bool log)
{
    T top[COLUMNS], sum[COLUMNS];
#pragma omp simd
    for (int j = 0; j < width; j++)
        top[j] = -(T)__builtin_inf(), sum[j] = 0;
    for (int64_t i = 0; i < n; i++)
#pragma omp simd
        for (int j = 0; j < width; j++)
            top[j] = x[i * step + j] > top[j] ? x[i * step + j] : top[j];
    for (int64_t i = 0; i < n; i++)
        for (int j = 0; j < width; j++) {
            T e = N(td_exp)(x[i * step + j] - top[j]);
            if (!log)
                y[i * step + j] = e;
            sum[j] += e;
        }
#pragma omp simd
    for (int j = 0; j < width; j++)
        sum[j] = log ? N(td_log)(sum[j]) : 1 / sum[j];
    for (int64_t i = 0; i < n; i++)
#pragma omp simd
        for (int j = 0; j < width; j++)
            y[i * step + j] = log ? x[i * step + j] - top[j] - sum[j] : y[i * step + j] * sum[j];
}

/* Short rows, COLUMNS at a time as columns of a block.  What one gets doesn't depend on how many there are: vectors are always
 * whole. */
static void N(narrow_rows)(const T *x, T *y, int64_t rows, int64_t n, bool log)
{
    enum { LANES = VBYTES / sizeof(T), ROW = COLUMNS * sizeof(T) };
    T block[NARROW * COLUMNS], powers[NARROW * COLUMNS], top[COLUMNS], sum[COLUMNS];
    if (rows < COLUMNS)
        memset(block, 0, ROW * (size_t)n);
    for (int64_t m; rows > 0; rows -= m, x += m * n, y += m * n) {
        m = rows < COLUMNS ? rows : COLUMNS;
        const int64_t width = (m + LANES - 1) / LANES * LANES;
        td_transpose_block(sizeof(T), (char *)block, ROW, (const char *)x, n * (int64_t)sizeof(T), m, n);
        memcpy(top, block, ROW);
        for (int64_t i = 1; i < n; i++)
#pragma omp simd
            for (int64_t j = 0; j < width; j++)
                top[j] = block[i * COLUMNS + j] > top[j] ? block[i * COLUMNS + j] : top[j];
        T *const e = log ? memcpy(powers, block, ROW * (size_t)n) : block;
        for (int64_t j = 0; j < width; j += LANES)
            N(td_exp_columns)(e + j, COLUMNS, n, top + j, sum + j);
#pragma omp simd
        for (int64_t j = 0; j < width; j++)
            sum[j] = log ? N(td_log)(sum[j]) : 1 / sum[j];
        for (int64_t i = 0; i < n; i++)
#pragma omp simd
            for (int64_t j = 0; j < width; j++)
                block[i * COLUMNS + j] = log ? block[i * COLUMNS + j] - top[j] - sum[j] : block[i * COLUMNS + j] * sum[j];
        td_transpose_block(sizeof(T), (char *)y, n * (int64_t)sizeof(T), (const char *)block, ROW, n, m);
    }
}

/* Where block t of columns begins; how many they are. */
static int64_t N(block)(const td_softmax_job *job, int64_t t, int *width)
{
    const int64_t blocks = (job->inner + COLUMNS - 1) / COLUMNS, at = t % blocks * COLUMNS;
    *width = (int)(job->inner - at < COLUMNS ? job->inner - at : COLUMNS);
    return t / blocks * job->n * job->inner + at;
}

/* Tasks [from, to): blocks of columns, see softmax.h. */
static void N(forward)(void *context, int64_t from, int64_t to)
{
    const td_softmax_job *job = context;
    if (!job->columns && job->n <= NARROW) {
        N(narrow_rows)((const T *)job->x + from * job->n, (T *)job->y + from * job->n, to - from, job->n, job->log);
        return;
    }
    for (int64_t t = from; t < to; t++) {
        int width;
        const int64_t at = N(block)(job, t, &width);
        if (!job->columns)
            N(row)((const T *)job->x + at, (T *)job->y + at, job->n, job->log);
        else
            N(columns)((const T *)job->x + at, (T *)job->y + at, job->n, job->inner, width, job->log);
    }
}

/* dx = y (g - sum of g y); of log_softmax, where y is a logarithm, dx = g - exp(y) sum of g. */
static void N(row_backward)(const T *y, const T *g, T *dx, int64_t n, bool log)
{
    T sum = 0;
    if (log) {
#pragma omp simd reduction(+ : sum)
        for (int64_t i = 0; i < n; i++)
            sum += g[i];
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            dx[i] = g[i] - N(td_exp)(y[i]) * sum;
        return;
    }
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++)
        sum += g[i] * y[i];
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        dx[i] = y[i] * (g[i] - sum);
}

/* The same for blocks of columns; below, of log_softmax. */
static void N(columns_backward)(const T *y, const T *g, T *dx, int64_t n, int64_t step, int width)
{
    T sum[COLUMNS] = {0};
    for (int64_t at = 0; at < n * step; at += step)
#pragma omp simd
        for (int j = 0; j < width; j++)
            sum[j] += g[at + j] * y[at + j];
    for (int64_t at = 0; at < n * step; at += step)
#pragma omp simd
        for (int j = 0; j < width; j++)
            dx[at + j] = y[at + j] * (g[at + j] - sum[j]);
}

/* exp(y) is the probability: log_softmax keeps only its logarithm. */
static void N(log_columns_backward)(const T *y, const T *g, T *dx, int64_t n, int64_t step, int width)
{
    T sum[COLUMNS] = {0};
    for (int64_t at = 0; at < n * step; at += step)
#pragma omp simd
        for (int j = 0; j < width; j++)
            sum[j] += g[at + j];
    for (int64_t at = 0; at < n * step; at += step)
#pragma omp simd
        for (int j = 0; j < width; j++)
            dx[at + j] = g[at + j] - N(td_exp)(y[at + j]) * sum[j];
}

/* The result and its gradient give the gradient of the input; x itself isn't needed. */
static void N(backward)(void *context, int64_t from, int64_t to)
{
    const td_softmax_job *job = context;
    for (int64_t t = from; t < to; t++) {
        int width;
        const int64_t at = N(block)(job, t, &width);
        const T *y = (const T *)job->x + at, *g = (const T *)job->grad + at;
        T *dx = (T *)job->y + at;
        if (!job->columns)
            N(row_backward)(y, g, dx, job->n, job->log);
        else
            (job->log ? N(log_columns_backward) : N(columns_backward))(y, g, dx, job->n, job->inner, width);
    }
}

/* loss = w[t] (1 - s) (lse - x[t]) + s / n sum_c w[c] (lse - x[c]), where lse counts from the largest, `top`. */
static T N(row_loss)(const td_entropy_job *job, const T *x, int64_t t, T top, T lse)
{
    const T *weight = job->weight;
    const int64_t n = job->n;
    T loss = (T)(1 - job->smoothing) * (lse - (x[t] - top)) * (weight ? weight[t] : 1), sum = 0;
    if (job->smoothing == 0)
        return loss;
    if (weight) {
#pragma omp simd reduction(+ : sum)
        for (int64_t c = 0; c < n; c++)
            sum += weight[c] * (lse - (x[c] - top));
    } else {
#pragma omp simd reduction(+ : sum)
        for (int64_t c = 0; c < n; c++)
            sum += lse - (x[c] - top);
    }
    return loss + (T)(job->smoothing / (double)n) * sum;
}

/* Some rows at a time, whose logarithms are taken together. */
static void N(entropy)(void *context, int64_t from, int64_t to)
{
    enum { ROWS = 16 };
    const td_entropy_job *job = context;
    const int64_t n = job->n, ahead = N(next_row)(n);
    for (int64_t r = from; r < to; r += ROWS) {
        const int64_t m = to - r < ROWS ? to - r : ROWS;
        const T *x = (const T *)job->x + r * n;
        T top[ROWS], lse[ROWS] = {0};
        for (int64_t i = 0; i < m; i++) {
            top[i] = N(row_max)(x + i * n, n, ahead, NULL);
            lse[i] = N(td_exp_less_ahead)(x + i * n, top[i], NULL, n, ahead);
        }
#pragma omp simd
        for (int i = 0; i < ROWS; i++)
            lse[i] = N(td_log)(lse[i]);
        for (int64_t i = 0; i < m; i++) {
            const int64_t t = job->target[r + i];
            ((T *)job->lse)[r + i] = top[i] + lse[i];
            ((T *)job->loss)[r + i] = t == job->ignore ? 0 : N(row_loss)(job, x + i * n, t, top[i], lse[i]);
        }
    }
}

/* dx[c] = g ((W) p[c] - v[c]), where v holds the weights of the targets (smoothed) and W is their sum. */
static void N(entropy_backward)(void *context, int64_t from, int64_t to)
{
    const td_entropy_job *job = context;
    const int64_t n = job->n;
    const T *weight = job->weight;
    const T spread = (T)(job->smoothing / (double)n);
    T total = 0;
    if (job->smoothing > 0)
        for (int64_t c = 0; c < n; c++)
            total += weight ? weight[c] : 1;
    for (int64_t r = from; r < to; r++) {
        const T *x = (const T *)job->x + r * n;
        T *dx = (T *)job->dx + r * n;
        int64_t t = job->target[r];
        if (t == job->ignore) {
            memset(dx, 0, (size_t)n * sizeof(T));
            continue;
        }
        T g = ((const T *)job->grad)[job->grad_rows ? r : 0] * (T)job->grad_scale, lse = ((const T *)job->lse)[r];
        T own = (T)(1 - job->smoothing) * (weight ? weight[t] : 1), sum = g * (own + spread * total);
        if (job->smoothing == 0) {
            N(td_exp_less)(x, lse, dx, n);
#pragma omp simd
            for (int64_t c = 0; c < n; c++)
                dx[c] *= sum;
        } else if (weight)
#pragma omp simd
            for (int64_t c = 0; c < n; c++)
                dx[c] = sum * N(td_exp)(x[c] - lse) - g * spread * weight[c];
        else
#pragma omp simd
            for (int64_t c = 0; c < n; c++)
                dx[c] = sum * N(td_exp)(x[c] - lse) - g * spread;
        dx[t] -= g * own;
    }
}
#endif
