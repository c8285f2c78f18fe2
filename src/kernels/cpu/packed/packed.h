/* What packed_isa.c exports per instruction-set level: unpacking, and products of a few rows.
 *
 * Activations become int8, each group of 32 with a scale, and meet the codes of the weights in integers; the sum of a group is
 * multiplied by both scales.  What codes without a sign add, OFFSET times the sum of a run of activations, and what shifts add are products
 * of one number for each run, apart from the products of elements. */
#ifndef TD_KERNELS_CPU_PACKED_PACKED_H
#define TD_KERNELS_CPU_PACKED_PACKED_H
#include <tede/packed.h>
#include "kernels/cpu/isa/isa.h"

/* A row of activations, padded with zeros to a multiple of TD_PACKED_PAD. */
typedef struct td_packed_x {
    int8_t *q;
    float  *lanes;          /* the scale of each four */
    float  *scale, *sums;   /* of each run: the scale; and the sum of q times the scale */
} td_packed_x;

enum { TD_PACKED_ROWS = 4 };            /* rows of weights that are multiplied together */

typedef struct td_packed_kernels {
    int run;                            /* 16 to 128 */
    /* Elements of a row.  `scratch` has room for 2 numbers for every 16 columns, rounded up to TD_PACKED_PAD, of one row. */
    void (*unpack_f32)(const uint8_t *row, int64_t k, float *scratch, float *to);
    void (*unpack_bf16)(const uint8_t *row, int64_t k, float *scratch, uint16_t *to);
    /* y[i * ldy + r] = x[i] times row r of `rows` (at most TD_PACKED_ROWS, which scratch has room for), which are `apart` bytes from each other */
    void (*dot)(int rows, const uint8_t *w, int64_t row_bytes, int64_t apart, int64_t k, int64_t m, const td_packed_x *x, float *scratch, float *y,
                int64_t ldy);
    /* the same with the processor's dot products of bytes; NULL where the level has none (td_cpu_multiplies_bytes) */
    void (*dot_bytes)(int rows, const uint8_t *w, int64_t row_bytes, int64_t apart, int64_t k, int64_t m, const td_packed_x *x, float *scratch, float *y,
                      int64_t ldy);
    /* unpack_bf16 by the processor's conversion, of elements [from, end), which are multiples of `part` or the row's end; NULL as dot_bytes
     * (td_gemm_has_pairs) */
    void (*unpack_fast)(const uint8_t *row, int64_t k, int64_t from, int64_t end, float *scratch, uint16_t *to);
    int part;
} td_packed_kernels;

typedef struct td_packed_table {
    void (*quantize)(int64_t k, const float *x, int run, td_packed_x to);
    td_packed_kernels formats[TD_PACKED_FORMATS];
} td_packed_table;
TD_ISA_TABLES(td_packed_table, td_packed_table);

/* n columns of w as blocks of a format, x of rows of floats: what is behind td_cpu__pack_rows. */
void td_packed_quantize(int format, const float *x, int64_t k, uint8_t *to);

#endif
