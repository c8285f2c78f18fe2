/* Triangular systems, real and complex, for whoever solves with factors. */
#ifndef TD_KERNELS_CPU_LINALG_TRIANGLES_H
#define TD_KERNELS_CPU_LINALG_TRIANGLES_H
#include "base/base.h"
#include "kernels/cpu/isa/isa.h"

/* A triangle of an n x n matrix whose numbers lie `row` and `column` elements apart; the other one isn't read, nor is the
 * diagonal of a `unit` one, which is all ones. */
typedef struct td_triangle { const void *data; int64_t row, column; bool upper, unit; } td_triangle;

/* x = t^-1 x, for k columns of n numbers that lie row_x and column_x elements apart, one of which is 1.  -1 without memory. */
typedef int td_triangle_solver(int64_t n, int64_t k, td_triangle t, void *x, int64_t row_x, int64_t column_x);

typedef struct td_triangles_table {
    td_triangle_solver *f32, *f64, *c64, *c128;
} td_triangles_table;

TD_ISA_TABLES(td_triangles_table, td_triangles_table);

static inline td_triangle_solver *td_triangle_solver_of(td_dtype dtype)
{
    const td_triangles_table *t = TD_ISA_PICK(td_triangles_table);
    return dtype == TD_F32 ? t->f32 : dtype == TD_F64 ? t->f64 : dtype == TD_C64 ? t->c64 : t->c128;
}

#endif
