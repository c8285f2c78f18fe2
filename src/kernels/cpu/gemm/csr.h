/* A matrix that is compressed by rows times a strided one (CSR SpMM, and SpMV where that has one column). */
#ifndef TD_KERNELS_CPU_GEMM_CSR_H
#define TD_KERNELS_CPU_GEMM_CSR_H
#include <tede/kernel.h>
#include "kernels/cpu/isa/isa.h"

/* Row i of the result, [rows, columns] in rows without gaps, is the sum over k from crow[i] up to crow[i + 1] of values[k] times row
 * col[k] of `dense`, [inner, columns].  crow has been checked; a col outside of dense sets `outside`, and its row isn't computed. */
typedef struct td_csr_product {
    const int64_t *crow, *col;
    const void    *values, *dense;
    void          *out;
    int64_t        inner, columns;
    bool           outside;
} td_csr_product;

typedef struct td_csr_table { td_loop_body *f32, *f64; } td_csr_table;      /* bodies of rows [begin, end) for threads */
TD_ISA_TABLES(td_csr_table, td_csr_table);

#endif
