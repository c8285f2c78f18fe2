/* Reductions on the CPU: one engine, many leaves.
 *
 * A leaf folds elements of one compute type into accumulators of one to three words (a sum; a maximum and where it was; a
 * count, mean and sum of squares).  It comes in two shapes: along a contiguous run into one accumulator (where runs are short, along
 * many), and down the columns of a tile of rows into one accumulator per column.  The engine finds which of the two suits a
 * tensor's strides, cuts the work into pieces whose size depends on shapes only, runs the pieces on threads and merges them in
 * order, so results never depend on the number of threads. */
#ifndef TD_KERNELS_CPU_REDUCE_REDUCE_H
#define TD_KERNELS_CPU_REDUCE_REDUCE_H
#include "kernels/cpu/isa/isa.h"
#include "tensor/tensor.h"

typedef enum td_reduction {
    TD_RED_SUM, TD_RED_PROD, TD_RED_MAX, TD_RED_MIN, TD_RED_COUNT,     /* COUNT: elements that aren't 0 */
    TD_RED_ARGMAX, TD_RED_ARGMIN,                                      /* value, index */
    TD_RED_NANSUM, TD_RED_ABSSUM, TD_RED_SQUARES, TD_RED_POWERS, TD_RED_ABSMAX, TD_RED_ABSMIN,
    TD_RED_VAR,                                                        /* count, mean, sum of squared differences */
    TD_RED_LSE,                                                        /* maximum, sum of exp(x - maximum) */
    TD_REDUCTIONS
} td_reduction;

/* Every reduction has leaves for float32, float64 and, if it is for integers, int64; some have others besides. */
typedef enum td_red_type { TD_RED_F32, TD_RED_F64, TD_RED_I64, TD_RED_U8, TD_RED_I8, TD_RED_I16, TD_RED_I32, TD_RED_TYPES } td_red_type;

typedef union td_word { double d; int64_t i; } td_word;

/* Columns of a tile, elements of a short run, at most. */
enum { TD_RED_TILE = 1024, TD_RED_RUN = 512, TD_RED_WORDS = 3 };

/* Word w of column i is acc[w * cols + i].  `base` is the position of the first element (row) along the reduced
 * dimension, `p` a parameter of the reduction.  Strides count elements. */
typedef struct td_leaf {
    int words;
    void (*init)(td_word *acc, int64_t cols);
    void (*run)(td_word *acc, const void *x, int64_t n, int64_t base, double p);
    void (*rows)(td_word *acc, int64_t cols, const void *x, int64_t rows, int64_t stride, int64_t base, double p);
    void (*merge)(td_word *acc, const td_word *other, int64_t cols);
    /* Or NULL: init and run of `count` contiguous runs, `stride` apart, that have `shortest` to TD_RED_RUN elements; word w of
     * run i is acc[w * count + i].  What it finds is what init and run find, bit by bit. */
    void (*runs)(td_word *acc, int64_t count, const void *x, int64_t n, int64_t stride);
    int64_t shortest;
} td_leaf;

typedef struct td_leaf_table {
    td_leaf leaves[TD_REDUCTIONS][TD_RED_TYPES];
    void (*roots)(double *x, int64_t n);        /* of what was accumulated, in place */
    void (*logs)(double *x, int64_t n);
} td_leaf_table;
TD_ISA_TABLES(td_leaf_table, td_reduce_table);

/* Takes finished accumulators: `cols` outputs, element numbers at, at + step, ... of the result, of which each
 * folded `count` elements. */
typedef void td_red_finish(void *context, const td_word *acc, int64_t cols, int64_t at, int64_t step, int64_t count);

/* Reduce x over the dimensions marked in `reduced`.  With ARGMAX and ARGMIN one dimension is marked; their indices are
 * positions along it.  -1 only for lack of memory. */
int td_reduce(td_reduction kind, td_dtype compute, td_tensor *x, const bool *reduced, double p, td_red_finish *finish,
              void *context);

#endif
