/* A 2:4 matrix times a strided one: of every four elements of a row two are kept, in the order of their columns. */
#ifndef TD_KERNELS_CPU_GEMM_SEMI_H
#define TD_KERNELS_CPU_GEMM_SEMI_H
#include <tede/kernel.h>
#include "kernels/cpu/isa/isa.h"

/* packed is [rows, inner / 2], meta [rows, inner / 16]: from the lowest bits on two for each kept element, its place among its four.
 * A strip is [inner, width]: `columns` of dense, which lies by its steps, and zeros; out is [rows, width].  width is one, two or four
 * vectors. */
typedef struct td_semi_product {
    const float   *packed, *dense;
    const int16_t *meta;
    float         *strip, *out;
    int64_t        inner, columns, width, row_step, column_step;
} td_semi_product;

typedef struct td_semi_table {
    td_loop_body *pack, *product;       /* of rows of the strip; of rows of the result */
    int           lanes;
} td_semi_table;
TD_ISA_TABLES(td_semi_table, td_semi_table);

#endif
