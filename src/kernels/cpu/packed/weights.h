/* What weights_isa.c exports per instruction-set level: products with weights of few bits as torchao passes them. */
#ifndef TD_KERNELS_CPU_PACKED_WEIGHTS_H
#define TD_KERNELS_CPU_PACKED_WEIGHTS_H
#include "kernels/cpu/isa/isa.h"

enum { TD_WEIGHTS_BLOCK = 64 };         /* rows of weights whose codes lie side by side */

typedef struct td_weights_table {
    /* y (m x rows, ldy between rows) = x (m x k) times `rows` rows of weights: 64, or 16, 32 or 48 at the end of a matrix.  codes: rows / 2
     * bytes for each column; pairs: {scale, zero} of each row, `step` floats on those of the next group of columns. */
    void (*int4)(int64_t m, int64_t rows, int64_t k, int64_t group, const float *x, const uint8_t *codes, const float *pairs, int64_t step,
                 float *y, int64_t ldy);
    /* the same with rows of k signed bytes, and a scale for each */
    void (*int8)(int64_t m, int64_t rows, int64_t k, const float *x, const int8_t *w, const float *scales, float *y, int64_t ldy);
    /* a row of floats as int8: even columns, then odd ones, less the zero point; returns the scale */
    float (*quantize)(int64_t k, const float *x, int16_t *q);
    /* of m such rows and one row of codes, two columns in a byte, with a scale for each group of columns */
    void (*dynamic)(int64_t m, int64_t k, int64_t group, const int16_t *q, const float *by, const uint8_t *codes, const float *scales,
                    float bias, float *y, int64_t ldy);
} td_weights_table;
TD_ISA_TABLES(td_weights_table, td_weights_table);

#endif
