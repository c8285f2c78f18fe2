/* max_pool, avg_pool and their adaptive relatives: what their loops are passed, and the table of those that gain from wider vectors. */
#ifndef TD_KERNELS_CPU_NN_POOL_H
#define TD_KERNELS_CPU_NN_POOL_H
#include <tede/geometry.h>
#include "kernels/cpu/loops/operands.h"

typedef struct td_pooling {
    td_pool_geometry w;
    const void *x;
    void *y;
    int64_t *at;                /* of max pooling: positions within the plane; or NULL */
} td_pooling;

/* Lines of one part of an output row, see pool_isa.c: what windows may cover there. */
#define TD_POOL_LINES 4096

/* Over planes; windows of equal steps (not adaptive) in planes of less than 2^31 elements, for which td_pool_part() finds
 * a part. */
typedef struct td_pool_table {
    int lanes;                  /* of float32 */
    td_loop_body *maximum[2], *average[2];
} td_pool_table;

/* Outputs at a time, given the lanes of a vector: as many as leave the windows' lines within their room, or 0. */
static inline int64_t td_pool_part(const td_pool_geometry *w, int64_t lanes)
{
    const int64_t rows = w->kernel[0] * w->kernel[1], reach = (w->kernel[2] - 1) * w->dilation[2];
    if (w->kernel[0] > TD_POOL_LINES || rows > TD_POOL_LINES || w->kernel[2] > TD_POOL_LINES || reach > TD_POOL_LINES || w->stride[2] > TD_POOL_LINES)
        return 0;
    const int64_t room = TD_POOL_LINES / rows - reach, part = room / w->stride[2] / lanes * lanes - lanes;
    return part > 8 * lanes ? 8 * lanes : part > 0 ? part : 0;
}

/* What a window's sum is divided by: `divisor_override`, or how many elements it has.  With include_pad (count_include_pad) padding
 * counts, but not what ceil_mode lets the last window reach beyond it. */
static inline int64_t td_pool_divisor(const td_pool_geometry *w, int64_t od, int64_t oh, int64_t ow, const int64_t *from,
                                      const int64_t *to)
{
    if (w->divisor)
        return w->divisor;
    const int64_t o[3] = {od, oh, ow};
    int64_t count = 1;
    for (int d = 0; d < 3; d++) {
        int64_t size = to[d] - from[d];
        if (!w->adaptive && w->include_pad) {
            int64_t start = o[d] * w->stride[d] - w->padding[d], stop = start + w->kernel[d];
            size = (stop < w->in[d] + w->padding[d] ? stop : w->in[d] + w->padding[d]) - start;
        }
        count *= size;
    }
    return count;
}

TD_ISA_TABLES(td_pool_table, td_pool_table);

#endif
