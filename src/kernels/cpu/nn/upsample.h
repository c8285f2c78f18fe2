/* Loops of interpolate (nearest, linear, cubic; antialiased), see upsample.c. */
#ifndef TD_KERNELS_CPU_NN_UPSAMPLE_H
#define TD_KERNELS_CPU_NN_UPSAMPLE_H
#include <tede/geometry.h>
#include "kernels/cpu/loops/operands.h"

/* One dimension: for each output `taps` elements of the input and their weights. */
typedef struct td_resize_axis {
    int64_t in, out, taps;
    int64_t *at;            /* [out][taps] */
    double *weight;
} td_resize_axis;

int64_t td_resize_taps(const td_resize_geometry *g, int d);
/* Fills the lists of dimension d.  `coarse`: nearest elements of doubles as PyTorch finds them where channels are innermost and for gradients.
 * `whole`: weights are whole numbers, for bytes; returns how many bits they were shifted by. */
int td_resize_fill(td_resize_axis *a, const td_resize_geometry *g, int d, bool coarse, bool whole);
/* Whether x lies as channels_last, for which PyTorch has other loops. */
bool td_channels_innermost(const td_tensor *x);
/* The modes that only copy: nearest.c. */
int td_resize_nearest(td_tensor *self, const td_resize_geometry *g, td_tensor *out);

typedef struct td_upsample_table {
    /* y[i] = the sum of weights[r] rows[r][i] over the n rows; added to y if `add` */
    void (*mix_f32)(int n, const float *const *rows, const float *weights, int64_t width, bool add, float *y);
    void (*mix_f64)(int n, const double *const *rows, const double *weights, int64_t width, bool add, double *y);
    /* y[i] = the sum of weights[k][i] x[places[k][i]] over the taps; lists are `step` long */
    void (*pick_f32)(const float *x, int64_t taps, const int32_t *places, const float *weights, int64_t step, int64_t n,
                     float *y);
    void (*pick_f64)(const double *x, int64_t taps, const int32_t *places, const double *weights, int64_t step, int64_t n,
                     double *y);
    /* The same where the places of as many neighbours as a vector has bytes / size lie in two vectors: from bases[i / lanes]
     * on; places counts from there, x is read so far, and y is written up to `room`.  bytes is 0 at levels without it. */
    void (*near_f32)(const float *x, int64_t taps, const int32_t *bases, const int32_t *places, const float *weights,
                     int64_t step, int64_t n, int64_t room, float *y);
    void (*near_f64)(const double *x, int64_t taps, const int32_t *bases, const int32_t *places, const double *weights,
                     int64_t step, int64_t n, int64_t room, double *y);
    int bytes;
} td_upsample_table;

TD_ISA_TABLES(td_upsample_table, td_upsample_table);

#endif
