/* Factorizations and solutions by our own kernels (factor.ck), for devices without a library and for what it doesn't take. */
#ifndef TD_KERNELS_DEVICE_FACTOR_H
#define TD_KERNELS_DEVICE_FACTOR_H
#include "kernels/device/kernel.h"

/* What a td_factor_call points to, as tensors; TD_NONE or NULL where it has nothing. */
typedef struct td_factor_tensors { td_tensor *a, *b, *pivots, *info, *values, *vt; } td_factor_tensors;

/* Dtypes that the kernels are for. */
static inline bool td_factors(const td_tensor *x) { return x->dtype == TD_F32 || x->dtype == TD_F64 || x->dtype == TD_C64 || x->dtype == TD_C128; }

/* As td_device_factor; eigenvalues and singular values of large matrices are left to the CPU. */
int td_factor_by_kernels(const td_factor_call *c, const td_factor_tensors *x);
/* QR with LAPACK's factors of the reflections; q (m x k) may be TD_NONE. */
int td_reflections_by_kernels(const td_factor_call *c, td_tensor *a, td_tensor *taus, td_tensor *q, td_tensor *info);

/* x = op(t)^-1 x in place, for n x n triangles of `matrices` and x of n x k, both in columns.  op: the transpose and the conjugate if they are asked for. */
typedef struct td_triangle { td_tensor *matrices; bool upper, unit, transposed, conjugate; } td_triangle;
int td_solve_triangles(const td_triangle *t, td_tensor *x);
/* Rows of x (in columns) exchanged as pivots say, or back. */
int td_exchange_rows(td_tensor *pivots, td_tensor *x, bool back);
#endif
