/* Images and volumes read at given positions: what grid_sampler.c says and the loops of grid_sampler_isa.c do. */
#ifndef TD_KERNELS_CPU_NN_GRID_SAMPLER_H
#define TD_KERNELS_CPU_NN_GRID_SAMPLER_H
#include <tede/geometry.h>
#include "kernels/cpu/loops/operands.h"

typedef struct td_sampling {
    td_sample_geometry g;
    const void *x, *grid, *grad;
    void *y, *dx, *dgrid;       /* a gradient that nobody wants is NULL */
} td_sampling;

/* Contexts are td_sampling; forward takes a range of all samples' positions, backward one of samples. */
typedef struct td_sampling_table {
    void (*forward_f32)(void *, int64_t, int64_t), (*forward_f64)(void *, int64_t, int64_t);
    void (*backward_f32)(void *, int64_t, int64_t), (*backward_f64)(void *, int64_t, int64_t);
} td_sampling_table;
TD_ISA_TABLES(td_sampling_table, td_sampling_table);

#endif
