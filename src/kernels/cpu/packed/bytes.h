/* What bytes_isa.c exports per instruction-set level: products of bytes without a sign and bytes with one, summed exactly in int32.
 *
 * Weights lie in panels of 64 columns: of each four rows in turn the four bytes of every column, which is what the processor's dot
 * products of bytes take. What is missing of a panel is zero. */
#ifndef TD_KERNELS_CPU_PACKED_BYTES_H
#define TD_KERNELS_CPU_PACKED_BYTES_H
#include "kernels/cpu/isa/isa.h"

enum { TD_BYTES_PANEL = 64, TD_BYTES_ROWS = 6 };

typedef struct td_bytes_table {
    /* sums[i][c] = row i of x, ldx bytes apart and quads * 4 long, times column c of a panel; at most TD_BYTES_ROWS rows */
    void (*dots)(int rows, int64_t quads, const uint8_t *x, int64_t ldx, const int8_t *panel, int32_t *sums);
    /* the same with the processor's dot products of bytes; NULL where the level has none */
    void (*dots_bytes)(int rows, int64_t quads, const uint8_t *x, int64_t ldx, const int8_t *panel, int32_t *sums);
    /* y = round((sum - less + more) * by) + zero, kept between least and 255 */
    void (*round)(int64_t n, const int32_t *sums, const int32_t *less, const float *more, const float *by, float least, float zero, uint8_t *y);
    /* y = (sum - less) * by + more */
    void (*scale)(int64_t n, const int32_t *sums, const int32_t *less, const float *more, const float *by, float *y);
} td_bytes_table;
TD_ISA_TABLES(td_bytes_table, td_bytes_table);

/* Whether products of bytes have an instruction here, which the tables of this level use (packed.c). */
bool td_packed_multiplies_bytes(void);

#endif
