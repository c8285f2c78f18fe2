/* Convolution of floats with 3 x 3 kernels by fewer multiplications (winograd.c). */
#ifndef TD_KERNELS_CPU_CONV_WINOGRAD_H
#define TD_KERNELS_CPU_CONV_WINOGRAD_H
#include "kernels/cpu/conv/conv.h"

/* Whether it is worth it, and exact enough: see winograd.c. */
bool td_winograd_takes(const td_conv *c);
void td_winograd(td_conv *c);           /* y = w * x; sets c->failed without memory */
/* The same for the kernels' gradient: of images [from, to) and one group, `cout * k` numbers; false without memory. */
bool td_winograd_weighs(const td_conv *c);
bool td_winograd_weigh(td_conv *c, int64_t from, int64_t to, int64_t group, float *sum);

enum { TD_WINOGRAD_LANES = 16 };

/* Matrices of 16 numbers per position lie as 16 planes, `plane` numbers apart.  For n tiles, as many as fill up lanes are read and
 * written. */
typedef struct td_winograd_table {
    /* the largest magnitude of n numbers, as bits: not a number is largest of all */
    uint32_t (*magnitude)(const float *x, int64_t n);
    /* G g G' of n kernels of nine numbers */
    void (*kernel)(const float *g, int64_t n, float *to, int64_t plane);
    /* even[i] = x[2 i], odd[i] = x[2 i + 1] */
    void (*split)(const float *x, int64_t n, float *even, float *odd);
    /* tiles of a row, from four rows of n + 1 even and n + 1 odd numbers, each pair `row` behind the other */
    void (*input)(const float *lines, int64_t row, int64_t n, float *to, int64_t plane);
    /* the same of a result's gradient, from two rows of n even and n odd numbers, `row` apart */
    void (*gradient)(const float *lines, int64_t row, int64_t n, float *to, int64_t plane);
    /* two rows of 2 n numbers, each with `start` added */
    void (*output)(const float *from, int64_t plane, int64_t n, float start, float *first, float *second);
} td_winograd_table;

TD_ISA_TABLES(td_winograd_table, td_winograd_table);

#endif
