/* Loops of convolution that gain from wider vectors. */
#ifndef TD_KERNELS_CPU_CONV_H
#define TD_KERNELS_CPU_CONV_H
#include "kernels/cpu/nn.h"

/* One kernel per channel; images of three dimensions. */
typedef struct td_depthwise_job {
    int64_t groups;
    const void *x, *w, *bias;       /* bias may be NULL */
    void *y;
    const int64_t *in, *out, *kernel, *stride, *pad, *dilation;
} td_depthwise_job;

typedef struct td_conv_table {
    td_loop_body *depthwise[2];     /* over images x channels */
} td_conv_table;

TD_ISA_TABLES(td_conv_table, td_conv_table);

#endif
