/* Pooling: what its loops are told, and the table of those that gain from wider vectors. */
#ifndef TD_KERNELS_CPU_POOL_H
#define TD_KERNELS_CPU_POOL_H
#include "kernels/cpu/nn.h"
#include "ops/pool.h"

typedef struct td_pooling {
    td_windows w;
    int64_t in_total, out_total;
    const void *x;
    void *y;
    int64_t *at;                /* of max pooling: positions within the plane */
} td_pooling;

/* Over planes; windows of equal steps (not adaptive) in planes of less than 2^31 elements. */
typedef struct td_pool_table {
    td_loop_body *maximum[2], *average[2];
} td_pool_table;

TD_ISA_TABLES(td_pool_table, td_pool_table);

#endif
