/* Pooling of bytes, see pool_bytes.h; compiled once per instruction-set level. Elements of a pixel are pooled side by side, some channels at a time.
 *
 * A mean is the sum of the integers less the zero point of each, in int32, times one over the divisor, in float, and rounded when the zero point is
 * added. So is PyTorch's, but for vectors of channels that are last, which it rounds otherwise than the rest: a tie may go elsewhere there. Up to
 * 256 elements are added in 16 bits first. */
#include <string.h>
#include "base/base.h"
#include "base/simd.h"
#include "kernels/cpu/nn/pool.h"
#include "kernels/cpu/nn/pool_bytes.h"

enum { SIDE = 256 };                /* channels at a time */

/* For each pixel of a line of the result and each part of the channels: the window as from[2], to[2], its image's first byte x, and y. */
#define EACH_PART(...)                                                                                                  \
    const td_pool_geometry *g = &p->g;                                                                                  \
    const int64_t image = line / g->out[1], oh = line % g->out[1];                                                      \
    int64_t from[2], to[2];                                                                                             \
    td_pool_window(g, 1, oh, &from[0], &to[0]);                                                                         \
    for (int64_t ow = 0; ow < g->out[2]; ow++) {                                                                        \
        td_pool_window(g, 2, ow, &from[1], &to[1]);                                                                     \
        for (int64_t c = 0; c < p->channels; c += SIDE) {                                                               \
            const int64_t n = p->channels - c < SIDE ? p->channels - c : SIDE;                                          \
            const uint8_t *x = p->x + image * g->in_total * p->channels + c;                                            \
            uint8_t *y = p->y + (line * g->out[2] + ow) * p->channels + c;                                              \
            __VA_ARGS__                                                                                                 \
        }                                                                                                               \
    }
#define EACH_TAP(...)                                                                                                   \
    for (int64_t h = from[0]; h < to[0]; h += g->dilation[1])                                                           \
        for (int64_t w = from[1]; w < to[1]; w += g->dilation[2]) {                                                     \
            const uint8_t *tap = x + (h * g->in[2] + w) * p->channels;                                                  \
            __VA_ARGS__                                                                                                 \
        }

static void maximum(const td_pool_bytes *p, int64_t line)
{
    const uint8_t flip = p->flip;
    uint8_t best[SIDE];
    EACH_PART(
        memset(best, 0, (size_t)n);
        EACH_TAP(
            _Pragma("omp simd")
            for (int64_t i = 0; i < n; i++) {
                const uint8_t v = tap[i] ^ flip;
                best[i] = v > best[i] ? v : best[i];
            })
        _Pragma("omp simd")
        for (int64_t i = 0; i < n; i++)
            y[i] = best[i] ^ flip;)
}

static void flush(int64_t n, uint16_t *restrict some, int32_t *restrict sums)
{
    _Pragma("omp simd")
    for (int64_t i = 0; i < n; i++)
        sums[i] += some[i], some[i] = 0;
}

static void average(const td_pool_bytes *p, int64_t line)
{
    const uint8_t flip = p->flip;
    const float zero = (float)p->zero;
    int32_t sums[SIDE];
    uint16_t some[SIDE];
    EACH_PART(
        int64_t count = 0;
        memset(sums, 0, (size_t)n * sizeof *sums);
        memset(some, 0, (size_t)n * sizeof *some);
        EACH_TAP(
            _Pragma("omp simd")
            for (int64_t i = 0; i < n; i++)
                some[i] += (uint8_t)(tap[i] ^ flip);
            if (++count % 256 == 0)
                flush(n, some, sums);)
        flush(n, some, sums);
        const int64_t window[2][3] = {{0, from[0], from[1]}, {1, to[0], to[1]}};
        const float by = 1.f / (float)td_pool_divisor(g, 0, oh, ow, window[0], window[1]);
        const int32_t less = (int32_t)count * p->zero;
        _Pragma("omp simd")
        for (int64_t i = 0; i < n; i++) {
            float near = __builtin_rintf((float)(sums[i] - less) * by + zero);
            near = near > 0.f ? near : 0.f;
            y[i] = (uint8_t)(int)(near < 255.f ? near : 255.f) ^ flip;
        })
}

extern const td_pool_bytes_table TD_ISA_NAME(td_pool_bytes_table);
const td_pool_bytes_table TD_ISA_NAME(td_pool_bytes_table) = {maximum, average};
