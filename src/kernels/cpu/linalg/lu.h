/* Factors of real matrices in rows, for whoever solves with them. */
#ifndef TD_KERNELS_CPU_LINALG_LU_H
#define TD_KERNELS_CPU_LINALG_LU_H
#include "base/base.h"
#include "kernels/cpu/isa/isa.h"

/* Matrices of so many rows, which meet so many columns, or fewer, go through `many`. */
enum { TD_LU_SMALL = 8, TD_LU_COLUMNS = 8, TD_LU_COMPLEX = 16 };     /* the last: complex ones, by complex_f32 or _f64 */

typedef struct td_lu_table {
    /* a = p l u in place, l's diagonal of ones not stored.  pivots: min(m, n) rows (from 1 on) that changed places, one after
     * the other; *info: the first zero on u's diagonal (from 1 on), or 0.  -1 without memory. */
    int (*factor_f32)(int64_t m, int64_t n, float *a, int64_t row, int *pivots, int *info);
    int (*factor_f64)(int64_t m, int64_t n, double *a, int64_t row, int *pivots, int *info);
    /* x = a^-1 x for an n x n matrix factored so, and x of k columns */
    int (*solve_f32)(int64_t n, int64_t k, const float *a, int64_t row, const int *pivots, float *x, int64_t row_x);
    int (*solve_f64)(int64_t n, int64_t k, const double *a, int64_t row, const int *pivots, double *x, int64_t row_x);
    /* a = u' u in place, for the upper triangle; *info: the first pivot (from 1 on) that isn't positive, or 0 */
    int (*cholesky_f32)(int64_t n, float *a, int64_t row, int *info);
    int (*cholesky_f64)(int64_t n, double *a, int64_t row, int *info);
    /* a = p l u and x = a^-1 x for `count` n x n matrices and as many x of k columns, which follow each other; pivots may be NULL */
    void (*many_f32)(int64_t count, int64_t n, int64_t k, float *a, float *x, int *pivots, int *info);
    void (*many_f64)(int64_t count, int64_t n, int64_t k, double *a, double *x, int *pivots, int *info);
    /* p a = l u for a complex n x n matrix in columns, of few rows, as LAPACK's getrf does it; the first zero on u's diagonal, or 0 */
    int (*complex_f32)(int64_t n, float *a, int *pivots);
    int (*complex_f64)(int64_t n, double *a, int *pivots);
} td_lu_table;

TD_ISA_TABLES(td_lu_table, td_lu_table);

#endif
