/* softmax and what is computed with it, on contiguous [outer][n][inner]. */
#ifndef TD_KERNELS_CPU_NN_SOFTMAX_H
#define TD_KERNELS_CPU_NN_SOFTMAX_H
#include "kernels/cpu/loops/operands.h"

enum { TD_SOFTMAX_COLUMNS = 64 };      /* numbers side by side whose slices make a task, where slices aren't contiguous */

typedef struct td_softmax_job {
    int64_t n, inner;
    bool columns;               /* slices are taken as columns, and added up so: where inner isn't 1, or might not be for other columns */
    bool log;
    const void *x, *grad;       /* of the backward pass: the result and its gradient */
    void *y;
} td_softmax_job;

/* The cross entropy of rows of n logits. */
typedef struct td_entropy_job {
    int64_t n, ignore;
    const void *x, *weight;     /* weight: n numbers, or NULL */
    const int64_t *target;
    double smoothing, grad_scale;
    const void *grad;           /* one per row if `rows`, else one */
    bool grad_rows;
    void *loss, *lse;           /* one per row; the loss is weighted */
    void *dx;
} td_entropy_job;

typedef struct td_softmax_table {
    /* [0] for float32, [1] for float64; [from, to) counts blocks of columns of `inner`, slice after slice of `outer` */
    td_loop_body *forward[2], *backward[2];
    td_loop_body *entropy[2], *entropy_backward[2];
} td_softmax_table;

TD_ISA_TABLES(td_softmax_table, td_softmax_table);

#endif
