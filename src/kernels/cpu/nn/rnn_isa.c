/* The elementwise part of a recurrent step (LSTM, GRU, RNN with tanh or relu), forward and backward.  PyTorch's order of gates. */
#ifndef S
#include "kernels/cpu/math/maths.h"
#include "kernels/cpu/nn/rnn.h"

#define TD_BODY "kernels/cpu/nn/rnn_isa.c"
#include "kernels/cpu/isa/both_reals.h"

extern const td_rnn_table TD_ISA_NAME(td_rnn_table);
const td_rnn_table TD_ISA_NAME(td_rnn_table) = {.forward = {forward_f32, forward_f64}, .backward = {backward_f32,
    backward_f64}, .sum_f32 = sum_f32, .sum_f64 = sum_f64};

#else

/* LSTM: c = f c_prev + i g, h = o tanh(c), with gates in the order i, f, g, o.  GRU: h = (h_prev - n) z + n, n = tanh(x_n + r
 * hidden), in the order r, z, n.  Else h = tanh or relu of the sum; a NaN passes.  One pass over memory; exponentials take most of
 * the time of the first two. */
static void N(forward)(void *context, int64_t first, int64_t last)
{
    const td_cell_job *job = context;
    const int64_t n = job->n, first_unit = job->first, count = job->last - first_unit, apart = job->apart;
    for (int64_t r = first; r < last; r++) {
        const int64_t gates = job->mode == TD_RNN_LSTM ? 4 : job->mode == TD_RNN_GRU ? 3 : 1, at = r * n + first_unit;
        const T *x = (const T *)job->gx + r * gates * n + first_unit, *g = (const T *)job->gh + r * gates * apart;
        const T *hp = (const T *)job->h_prev + at;
        T *h = (T *)job->h + at, *s = (T *)job->saved + r * 4 * n + first_unit;
        if (job->mode == TD_RNN_LSTM) {
            const T *cp = (const T *)job->c_prev + at;
            T *c = (T *)job->c + at;
#pragma omp simd
            for (int64_t i = 0; i < count; i++) {
                T in = N(td_sigmoid)(x[i] + g[i]), forget = N(td_sigmoid)(x[n + i] + g[apart + i]);
                T cell = N(td_tanh)(x[2 * n + i] + g[2 * apart + i]), out = N(td_sigmoid)(x[3 * n + i] + g[3 * apart + i]);
                T now = forget * cp[i] + in * cell;
                s[i] = in, s[n + i] = forget, s[2 * n + i] = cell, s[3 * n + i] = out;
                c[i] = now;
                h[i] = out * N(td_tanh)(now);
            }
        } else if (job->mode == TD_RNN_GRU) {
#pragma omp simd
            for (int64_t i = 0; i < count; i++) {
                T reset = N(td_sigmoid)(x[i] + g[i]), update = N(td_sigmoid)(x[n + i] + g[apart + i]),
                hidden = g[2 * apart + i];
                T fresh = N(td_tanh)(x[2 * n + i] + reset * hidden);
                s[i] = reset, s[n + i] = update, s[2 * n + i] = fresh, s[3 * n + i] = hidden;
                h[i] = (hp[i] - fresh) * update + fresh;
            }
        } else if (job->mode == TD_RNN_TANH) {
#pragma omp simd
            for (int64_t i = 0; i < count; i++)
                h[i] = N(td_tanh)(x[i] + g[i]);
        } else {
#pragma omp simd
            for (int64_t i = 0; i < count; i++) {
                T sum = x[i] + g[i];
                h[i] = sum <= 0 ? 0 : sum;
            }
        }
    }
}

/* The derivatives of these, sigmoid' = s (1 - s) and tanh' = 1 - t^2, from the gates that were saved.  An LSTM saves no tanh(c): it
 * is computed again from the cells. */
static void N(backward)(void *context, int64_t first, int64_t last)
{
    const td_cell_job *job = context;
    int64_t n = job->n;
    for (int64_t r = first; r < last; r++) {
        int64_t width = job->mode == TD_RNN_LSTM ? 4 * n : job->mode == TD_RNN_GRU ? 3 * n : n;
        const T *grad = (const T *)job->grad_h + r * n, *h = (const T *)job->h + r * n,
        *hp = (const T *)job->h_prev + r * n;
        const T *s = (const T *)job->saved + r * 4 * n;
        T *dh = (T *)job->dh + r * n, *dx = (T *)job->dgx + r * width, *dg = (T *)job->dgh + r * width;
        if (job->mode == TD_RNN_LSTM) {
            const T *cp = (const T *)job->c_prev + r * n, *c = (const T *)job->c + r * n,
            *grad_c = (const T *)job->grad_c + r * n;
            T *dc = (T *)job->dc + r * n;
#pragma omp simd
            for (int64_t i = 0; i < n; i++) {
                T in = s[i], forget = s[n + i], cell = s[2 * n + i], out = s[3 * n + i], t = N(td_tanh)(c[i]);
                T a = grad[i] + dh[i], b = grad_c[i] + dc[i] + a * out * (1 - t * t);
                dx[i] = b * cell * in * (1 - in);
                dx[n + i] = b * cp[i] * forget * (1 - forget);
                dx[2 * n + i] = b * in * (1 - cell * cell);
                dx[3 * n + i] = a * t * out * (1 - out);
                dc[i] = b * forget;
                dh[i] = 0;
            }
        } else if (job->mode == TD_RNN_GRU) {
#pragma omp simd
            for (int64_t i = 0; i < n; i++) {
                T reset = s[i], update = s[n + i], fresh = s[2 * n + i], hidden = s[3 * n + i], a = grad[i] + dh[i];
                T d_fresh = a * (1 - update) * (1 - fresh * fresh), d_reset = d_fresh * hidden * reset * (1 - reset);
                T d_update = a * (hp[i] - fresh) * update * (1 - update);
                dx[i] = dg[i] = d_reset;
                dx[n + i] = dg[n + i] = d_update;
                dx[2 * n + i] = d_fresh, dg[2 * n + i] = d_fresh * reset;
                dh[i] = a * update;
            }
        } else {
            bool tanh = job->mode == TD_RNN_TANH;
#pragma omp simd
            for (int64_t i = 0; i < n; i++) {
                T a = grad[i] + dh[i];
                dx[i] = tanh ? a * (1 - h[i] * h[i]) : h[i] > 0 ? a : 0;
                dh[i] = 0;
            }
        }
    }
}

/* Columns side by side, rows in order: which thread has which columns changes no bits. */
static void N(sum)(const T *from, int64_t rows, int64_t width, int64_t first, int64_t last, T *to)
{
    for (int64_t r = 0; r < rows; r++)
#pragma omp simd
        for (int64_t i = first; i < last; i++)
            to[i] += from[r * width + i];
}
#endif
