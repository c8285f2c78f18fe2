/* Rows of halves for kernels of floats. */
#ifndef TD_KERNELS_CPU_LOOPS_HALF_ROWS_H
#define TD_KERNELS_CPU_LOOPS_HALF_ROWS_H
#include "kernels/cpu/loops/operands.h"

/* Computes rows [from, to) in place: row r is at block + r * width (so block itself may lie before the memory). */
typedef void td_floats_body(const void *job, float *block, int64_t from, int64_t to);

/* Whether x (and out, the same) are contiguous halves whose rows of `width` elements are worth it. */
bool td_takes_half_rows(const td_tensor *x, const td_tensor *out, int64_t width);

/* out's rows from x's: some at a time become floats that stay in the cache, in which `body` works, and are rounded from there.
 * `cost`: about how many additions an element takes. */
int td_run_half_rows(const td_tensor *x, td_tensor *out, int64_t width, int64_t cost, td_floats_body *body, const void *job);

#endif
