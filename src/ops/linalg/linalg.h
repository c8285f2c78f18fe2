/* What the parts of linear algebra share.
 * The checks are defined in linalg.c; factor.c, more.c, old.c and grad_*.c call them. All return 0, or -1 with the
 * error recorded. */
#ifndef TD_OPS_LINALG_LINALG_H
#define TD_OPS_LINALG_LINALG_H
#include "ops/compose.h"

/* PyTorch's rule for solve: B is a batch of vectors if it has one dimension, or A's shape without the last one. */
bool td_solve_takes_vector(const td_tensor *A, const td_tensor *B);
/* solve_ex has a number for each matrix of A. Where B's batch repeats them, or has none, these are found without B. */
bool td_solve_repeats(const td_tensor *A, const td_tensor *result, bool vector);
int  td_solve_info(td_tensor *A, td_tensor *info);
/* 0 for a batch of matrices (square ones, of floating point numbers), else -1 with PyTorch's error. */
int td_check_matrix(const char *op, const td_tensor *x, const char *name);
int td_check_square(const char *op, const td_tensor *x);
int td_check_epsilon(const td_tensor *x);
int td_check_linalg_dtype(const char *op, const td_tensor *x, bool halves);     /* floating-point or complex; halves, where the kernel says what it takes */
int td_check_pivots_shape(const char *op, const char *name, const td_tensor *matrices, const td_tensor *pivots);

/* 0 if factors from this mode have derivatives. */
int td_check_qr_derivative(const char *mode, const td_tensor *Q, const td_tensor *R);

/* How least squares are found: the routines of LAPACK. gels, QR, takes the matrix to have full rank; gelsy, QR with pivots, and gelsd,
 * singular values, find the rank. */
typedef enum td_lstsq { TD_LSTSQ_GELS, TD_LSTSQ_GELSY, TD_LSTSQ_GELSD } td_lstsq;

/* What LAPACK's numbers are of; a number other than 0 means something else in each. */
typedef enum td_factorization {
    TD_FACTORS_LU,              /* position of a zero on U's diagonal */
    TD_FACTORS_LU_SOLVE,        /* the same, met while solving */
    TD_FACTORS_LU_INVERSE,
    TD_FACTORS_CHOLESKY,        /* order of the leading minor that isn't positive-definite */
} td_factorization;

/* An error that names the first matrix whose factorization failed; info: LAPACK's number of each. */
int td_check_info(td_factorization what, const char *op, td_tensor *info);

#endif
