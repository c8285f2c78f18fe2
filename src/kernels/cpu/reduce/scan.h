/* Running folds along a dimension (cumsum and its relatives): what scan_isa.c exports per instruction-set level. */
#ifndef TD_KERNELS_CPU_REDUCE_SCAN_H
#define TD_KERNELS_CPU_REDUCE_SCAN_H
#include "kernels/cpu/isa/isa.h"
#include "tensor/tensor.h"

enum { TD_SCAN_TILE = 128 };

/* (outer, length, inner), contiguous; an item is a tile of inner columns of one outer index. */
typedef struct td_scan_job {
    const void *x, *c;
    void       *out;
    int64_t    *at;
    int64_t     length, inner, tiles;
    int         sign;       /* -1: from the end */
} td_scan_job;

/* By the type that is computed in; bodies of td_parallel_for over items.  Each scan is a table of its own, td_scan_cumsum, which scan_isa.c
 * defines and scan.c declares, so that a new one needs no line here. */
typedef struct td_scan { td_loop_body *f32, *f64, *i64, *c128; } td_scan;

#endif
