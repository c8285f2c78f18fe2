/* Pooling by rows: each element of the window is one pass over a part of an output row, which stays in the first cache.
 *
 * The elements come in the order of the window, so sums have the bits and maxima the positions that a walk through one
 * window after the other would give. */
#ifndef S
#include "kernels/cpu/pool.h"

enum { PART = 128 };            /* outputs at a time */

/* For every part [o0, o1) of an output row: the window's rows [from, to) in the outer dimensions. */
#define EACH_PART(...)                                                          \
    for (int64_t od = 0; od < w->out[0]; od++)                                  \
        for (int64_t oh = 0; oh < w->out[1]; oh++) {                            \
            int64_t from[2], to[2];                                             \
            td_window(w, 0, od, &from[0], &to[0]);                              \
            td_window(w, 1, oh, &from[1], &to[1]);                              \
            for (int64_t o0 = 0; o0 < w->out[2]; o0 += PART) {                  \
                const int64_t o1 = o0 + PART < w->out[2] ? o0 + PART : w->out[2]; \
                const int64_t line = (od * w->out[1] + oh) * w->out[2];         \
                __VA_ARGS__                                                     \
            }                                                                   \
        }
/* For every element of the window: the input at `place + o * step` for the outputs [low, high) that have it. */
#define EACH_TAP(...)                                                                                        \
    for (int64_t d = from[0]; d < to[0]; d += w->dilation[0])                                                \
        for (int64_t h = from[1]; h < to[1]; h += w->dilation[1])                                            \
            for (int64_t k = 0; k < w->kernel[2]; k++) {                                                     \
                const int64_t offset = k * w->dilation[2] - w->pad[2], step = w->stride[2];                  \
                const int64_t place = (d * w->in[1] + h) * w->in[2] + offset, end = w->in[2] - offset;       \
                int64_t low = offset < 0 ? td_ceil_div(-offset, step) : 0, high = end > 0 ? td_ceil_div(end, step) : 0; \
                low = low < o0 ? o0 : low, high = high > o1 ? o1 : high;                                     \
                if (step == 1)                                                                               \
                    _Pragma("omp simd")                                                                      \
                    for (int64_t o = low; o < high; o++) {                                                   \
                        const T v = x[place + o];                                                            \
                        const int32_t seat = (int32_t)(place + o);                                           \
                        __VA_ARGS__                                                                          \
                    }                                                                                        \
                else if (step == 2)                                                                          \
                    _Pragma("omp simd")                                                                      \
                    for (int64_t o = low; o < high; o++) {                                                   \
                        const T v = x[place + 2 * o];                                                        \
                        const int32_t seat = (int32_t)(place + 2 * o);                                       \
                        __VA_ARGS__                                                                          \
                    }                                                                                        \
                else                                                                                         \
                    for (int64_t o = low; o < high; o++) {                                                   \
                        const T v = x[place + o * step];                                                     \
                        const int32_t seat = (int32_t)(place + o * step);                                    \
                        __VA_ARGS__                                                                          \
                    }                                                                                        \
            }

#define TD_BODY "pool_isa.c"
#include "kernels/cpu/both_reals.h"

extern const td_pool_table TD_ISA_NAME(td_pool_table);
const td_pool_table TD_ISA_NAME(td_pool_table) = {
    .maximum = {maximum_f32, maximum_f64}, .average = {average_f32, average_f64},
};

#else

/* NaN wins over everything, the last one over others; where nothing is more than -inf, the first place counts. */
static void N(maximum)(void *context, int64_t first, int64_t last)
{
    const td_pooling *p = context;
    const td_windows *w = &p->w;
    T best[PART];
    int32_t where[PART];
    for (int64_t plane = first; plane < last; plane++) {
        const T *x = (const T *)p->x + plane * p->in_total;
        T *y = (T *)p->y + plane * p->out_total;
        int64_t *at = p->at + plane * p->out_total;
        EACH_PART(
            const int32_t top = (int32_t)((from[0] * w->in[1] + from[1]) * w->in[2]), step = (int32_t)w->stride[2];
            const int32_t pad = (int32_t)w->pad[2], skip = (int32_t)w->dilation[2];
#pragma omp simd
            for (int32_t i = 0; i < (int32_t)(o1 - o0); i++) {
                best[i] = -(T)__builtin_inf();
                where[i] = top + ((int32_t)o0 + i) * step - pad;
            }
            /* Where padding comes first, the first element inside. */
            for (int32_t i = 0; i < (int32_t)(o1 - o0) && where[i] < top; i++)
                while (where[i] < top)
                    where[i] += skip;
            EACH_TAP(
                const bool better = v > best[o - o0] || v != v;
                best[o - o0] = better ? v : best[o - o0];
                where[o - o0] = better ? seat : where[o - o0];)
            for (int64_t i = 0; i < o1 - o0; i++)
                y[line + o0 + i] = best[i], at[line + o0 + i] = where[i];)
    }
}

static void N(average)(void *context, int64_t first, int64_t last)
{
    const td_pooling *p = context;
    const td_windows *w = &p->w;
    T sum[PART];
    for (int64_t plane = first; plane < last; plane++) {
        const T *x = (const T *)p->x + plane * p->in_total;
        T *y = (T *)p->y + plane * p->out_total;
        EACH_PART(
            memset(sum, 0, sizeof sum);
            EACH_TAP((void)seat; sum[o - o0] += v;)
            const int64_t o[2] = {od, oh};
            int64_t count = 1;
            for (int i = 0; i < 2; i++) {
                int64_t start = o[i] * w->stride[i] - w->pad[i], stop = start + w->kernel[i], most = w->in[i] + w->pad[i];
                count *= w->include_pad ? (stop < most ? stop : most) - start : to[i] - from[i];
            }
            const int32_t outer = (int32_t)count, step = (int32_t)w->stride[2], pad = (int32_t)w->pad[2];
            const int32_t size = (int32_t)w->kernel[2], in = (int32_t)w->in[2], fixed = (int32_t)w->divisor;
            const int32_t least = w->include_pad ? -pad : 0, most = w->include_pad ? in + pad : in;
#pragma omp simd
            for (int32_t i = 0; i < (int32_t)(o1 - o0); i++) {
                int32_t start = ((int32_t)o0 + i) * step - pad, stop = start + size;
                start = start < least ? least : start, stop = stop > most ? most : stop;
                y[line + o0 + i] = sum[i] / (T)(fixed ? fixed : outer * (stop - start));
            })
    }
}
#endif
