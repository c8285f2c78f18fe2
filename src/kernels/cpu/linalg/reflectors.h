/* Real matrices brought into narrow bands by Householder's reflections, and eigenvectors of such bands. */
#ifndef TD_KERNELS_CPU_LINALG_REFLECTORS_H
#define TD_KERNELS_CPU_LINALG_REFLECTORS_H
#include "base/base.h"
#include "kernels/cpu/isa/isa.h"

/* Rows of the matrices that are worked on are a multiple of this apart. */
enum { TD_BAND_UNIT = 16 };

/* Functions return -1 without memory, else 0, or what they say. */
typedef struct td_reflectors_table {
    /* a = q t q', a's lower triangle read, n x n numbers in rows that a multiple of TD_BAND_UNIT apart; t's diagonal goes to d,
     * what is beside it to e, the reflections' vectors replace a, their factors go to tau */
    int (*tridiagonal_f32)(int64_t n, float *a, int64_t row, float *d, float *e, float *tau);
    int (*tridiagonal_f64)(int64_t n, double *a, int64_t row, double *d, double *e, double *tau);
    /* a = q b p' with an upper bidiagonal b, for m x n numbers, m >= n; n reflections' vectors from the left go to rows of
     * `left`, from the right to `right`, whose rows are as long as a's */
    int (*bidiagonal_f32)(int64_t m, int64_t n, float *a, int64_t row, float *d, float *e, float *tau_left, float *tau_right,
                          float *left, int64_t long_row, float *right);
    int (*bidiagonal_f64)(int64_t m, int64_t n, double *a, int64_t row, double *d, double *e, double *tau_left,
                          double *tau_right, double *left, int64_t long_row, double *right);
    /* each of `count` rows x, or columns, of `length` numbers becomes q x; the n vectors in a's rows are 0 behind number
     * r - 1 or, `backwards`, before number r, which is when the last one is the first to be applied to x */
    int (*apply_f32)(int64_t n, int64_t length, const float *a, int64_t row, const float *tau, bool backwards, bool columns,
                    int64_t count, float *x, int64_t row_x);
    int (*apply_f64)(int64_t n, int64_t length, const double *a, int64_t row, const double *tau, bool backwards, bool columns,
                    int64_t count, double *x, int64_t row_x);
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
/* The singular values of m x n numbers in columns, and the singular vectors, unless u is NULL: in columns too, `full` or
 * min(m, n).  Returns as above. */
int td_singular(td_dtype dtype, int64_t m, int64_t n, const void *x, bool full, void *values, void *u, void *vt);
/* Below this, LAPACK's own recurrences alone decide the vectors' signs. */
enum { TD_OWN_BANDS = 33 };

#endif
