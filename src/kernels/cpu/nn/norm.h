/* Loops of layer_norm, rms_norm, batch_norm and group_norm, for contiguous memory: y = (x - mean) rstd weight + bias, with
 * rstd = 1 / sqrt(var + eps). */
#ifndef TD_KERNELS_CPU_NN_NORM_H
#define TD_KERNELS_CPU_NN_NORM_H
#include "kernels/cpu/loops/operands.h"

/* Rows of n numbers, each with a mean and a reciprocal deviation (rms: no mean). */
typedef struct td_rows_job {
    int64_t rows, n, chunk;
    bool rms;
    double eps;
    const void *x, *grad, *weight, *bias;   /* weight and bias may be NULL */
    void *mean, *rstd, *y;                  /* forward: written; backward: read, y is the gradient of x (may be NULL) */
    double *sums;                           /* backward: per chunk of rows,
    n sums of g * xhat and n of g; may be NULL */
} td_rows_job;

/* x[outer][channels][inner]: batch norm (statistics per channel), group norm (per outer and group of channels). */
typedef struct td_channels_job {
    int64_t outer, channels, inner, group;  /* group: channels per group */
    double eps;
    bool training;
    const void *x, *grad, *weight, *bias;
    double *mean, *rstd;                    /* per channel, or per outer and group */
    double *sum_g, *sum_gx;                 /* per channel, or per outer and channel */
    void *y;
} td_channels_job;

typedef struct td_norm_table {
    /* [0] float32, [1] float64 */
    td_loop_body *rows[2], *rows_backward[2];
    td_loop_body *batch_stats[2], *batch_apply[2], *batch_sums[2], *batch_backward[2];
    td_loop_body *group[2], *group_sums[2], *group_backward[2];
} td_norm_table;

TD_ISA_TABLES(td_norm_table, td_norm_table);

#endif
