/* Real matrices as products of reflections and a triangle. */
#ifndef TD_KERNELS_CPU_LINALG_QR_H
#define TD_KERNELS_CPU_LINALG_QR_H
#include "base/base.h"
#include "kernels/cpu/isa/isa.h"

/* a: the n columns of an m x n matrix, each in one piece, which stay as they are.  r: `rows` x n numbers in columns, the upper
 * triangle and zeros; q: the first `columns` columns of Q, none or min(m, n) at least.  Signs are LAPACK's.  -1 without memory. */
typedef struct td_qr_table {
    int (*f32)(int64_t m, int64_t n, const float *a, int64_t rows, float *r, int64_t columns, float *q);
    int (*f64)(int64_t m, int64_t n, const double *a, int64_t rows, double *r, int64_t columns, double *q);
} td_qr_table;

TD_ISA_TABLES(td_qr_table, td_qr_table);

#endif
