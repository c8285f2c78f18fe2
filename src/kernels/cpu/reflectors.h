/* Real matrices brought into narrow bands by Householder's reflections, and eigenvectors of such bands. */
#ifndef TD_KERNELS_CPU_REFLECTORS_H
#define TD_KERNELS_CPU_REFLECTORS_H
#include "base/base.h"
#include "kernels/cpu/isa.h"

/* Rows of the matrices that are worked on are a multiple of this apart. */
enum { TD_BAND_UNIT = 16 };

/* Functions return -1 without memory, else 0, or what they say. */
typedef struct td_reflectors_table {
    /* a = q t q', a's lower triangle read, n x n numbers in rows that a multiple of TD_BAND_UNIT apart; t's diagonal goes to d,
     * what is beside it to e, the reflections' vectors replace a, their factors go to tau */
    int (*tridiagonal_f32)(int64_t n, float *a, int64_t row, float *d, float *e, float *tau);
    int (*tridiagonal_f64)(int64_t n, double *a, int64_t row, double *d, double *e, double *tau);
    /* each of `count` rows x becomes (q x')' */
    int (*turn_f32)(int64_t n, const float *a, int64_t row, const float *tau, int64_t count, float *x, int64_t row_x);
    int (*turn_f64)(int64_t n, const double *a, int64_t row, const double *tau, int64_t count, double *x, int64_t row_x);
} td_reflectors_table;

TD_ISA_TABLES(td_reflectors_table, td_reflectors_table);

/* 1: no convergence. */
typedef struct td_conquer_table {
    /* the eigenvalues of a tridiagonal matrix, in ascending order, replace d; the eigenvectors are the n rows of x */
    int (*conquer_f32)(int64_t n, float *d, const float *e, float *x);
    int (*conquer_f64)(int64_t n, double *d, const double *e, double *x);
} td_conquer_table;

TD_ISA_TABLES(td_conquer_table, td_conquer_table);

/* The eigenvalues of an n x n matrix of floats or doubles in rows, of whose triangles one is read, in ascending order; with
 * `vectors`, its rows become the eigenvectors.  1 if it isn't finite, x being what it was;
 * 2 without convergence. */
int td_symmetric(td_dtype dtype, int64_t n, void *x, bool lower, bool vectors, void *values);
/* Below this, LAPACK's own ways of going on alone decide the vectors' signs. */
enum { TD_OWN_BANDS = 33 };

#endif
