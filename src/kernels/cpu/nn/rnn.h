/* One step of a recurrent layer. */
#ifndef TD_KERNELS_CPU_NN_RNN_H
#define TD_KERNELS_CPU_NN_RNN_H
#include <tede/geometry.h>
#include "kernels/cpu/loops/operands.h"

/* Rows are samples.  `saved` has 4 n numbers per row (LSTM: the gates; GRU: r, z, n and the hidden part of n). */
typedef struct td_cell_job {
    int mode;
    int64_t n;
    const void *gx, *gh;            /* gates from the input and from the hidden state, with biases */
    /* forward: units [first, last), whose gates in gh lie `apart` numbers apart, those of one row behind those of another */
    int64_t first, last, apart;
    const void *h_prev, *c_prev;
    void *h, *c, *saved;
    /* backward */
    const void *grad_h, *grad_c;    /* of this step's results */
    void *dh, *dc;                  /* in: from the next step; out: towards the previous one (dh: without the product) */
    void *dgx, *dgh;
} td_cell_job;

typedef struct td_rnn_table {
    td_loop_body *forward[2], *backward[2];
    /* to[i] += the sum of from[r * width + i] over the rows, for columns [first, last) */
    void (*sum_f32)(const float *from, int64_t rows, int64_t width, int64_t first, int64_t last, float *to);
    void (*sum_f64)(const double *from, int64_t rows, int64_t width, int64_t first, int64_t last, double *to);
} td_rnn_table;

TD_ISA_TABLES(td_rnn_table, td_rnn_table);

#endif
