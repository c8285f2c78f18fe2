/* Distances between rows of two matrices. */
#ifndef TD_KERNELS_CPU_REDUCE_DISTANCE_H
#define TD_KERNELS_CPU_REDUCE_DISTANCE_H
#include "kernels/cpu/isa/isa.h"
#include "ops/iterate/iterator.h"

typedef enum td_distance { TD_DISTANCE_ABSOLUTE, TD_DISTANCE_EUCLIDEAN, TD_DISTANCE_LARGEST } td_distance;

/* y[b][i][j]: from row i of x1[b] to row j of x2[b], which have `width` numbers. */
typedef struct td_distance_job {
    td_distance kind;
    int64_t rows, columns, width;
    int64_t down, across;          /* tasks of a matrix: blocks of x1's rows, of x2's */
    const void *x1, *x2;
    void *y;
    int failed;                    /* for lack of memory */
} td_distance_job;

enum { TD_DISTANCE_ROWS = 64 };    /* in such a block */

typedef struct td_distance_table { td_loop_body *tasks[2]; } td_distance_table;     /* float32, float64 */
TD_ISA_TABLES(td_distance_table, td_distance_table);

#endif
