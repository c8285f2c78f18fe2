/* How a pointwise kernel goes over its runs: which of the kernels that a formula has is taken, and what it gets. */
#ifndef TD_KERNELS_DEVICE_SWEEP_H
#define TD_KERNELS_DEVICE_SWEEP_H
#include <tede/tensor.h>
#include "ops/pointwise/pointwise.h"

enum { TD_SWEEP_RUNS = TD_MAX_OPERANDS + 1 };

typedef struct td_sweep {
    int      ndim;              /* 0: all runs are contiguous */
    int      pack, depth;       /* as in td_formula_kernel */
    uint32_t constants;         /* a bit for each run */
    bool     narrow;
    int64_t  n, packs;          /* elements and packs, of 1 or more elements */
    int64_t  sizes[TD_MAX_DIMS], strides[TD_SWEEP_RUNS][TD_MAX_DIMS];     /* with packs the last ones are a pack's */
} td_sweep;

/* Run 0 is written.  The others are of its shape or broadcast to it. */
void td_sweep_of(td_sweep *to, int n_runs, td_tensor *const *runs);
/* A rounded-down reciprocal for sizes of 1 to 2^31 - 1: q = (high half of rest * multiplier + rest) >> shift. */
void td_sweep_reciprocal(int64_t size, uint32_t *multiplier, int32_t *shift);

/* A copy between tensors of one dtype whose innermost dimensions differ; TD_DECLINED for others. */
int td_copy_by_tiles(td_tensor *dst, td_tensor *src);

#endif
