/* Products of matrices and of their adjoints, for the derivatives in grad_*.c.  All pass NULL on. */
#ifndef TD_OPS_LINALG_PRODUCTS_H
#define TD_OPS_LINALG_PRODUCTS_H
#include "ops/linalg/linalg.h"

/* A local tensor whose reference is dropped at the end of its block, even if what it was assigned is NULL.
 * Reassigning one means releasing it first. */
#define LET(x) TD_AUTO td_tensor *x

static inline td_tensor *mm(td_tensor *a, td_tensor *b) { return td_matmul(a, b); }
/* a^H b and a b^H */
static inline td_tensor *adjoint_mm(td_tensor *a, td_tensor *b)
{
    LET(adjoint) = td_adjoint_of(a);
    return td_matmul(adjoint, b);
}
static inline td_tensor *mm_adjoint(td_tensor *a, td_tensor *b)
{
    LET(adjoint) = td_adjoint_of(b);
    return td_matmul(a, adjoint);
}
/* x scaled per column (row) by the numbers of a batch of vectors. */
static inline td_tensor *times_columns(td_tensor *x, td_tensor *v)
{
    LET(row) = td_unsqueeze(v, -2);
    return td_mul_tensor(x, row);
}
static inline td_tensor *times_rows(td_tensor *v, td_tensor *x)
{
    LET(column) = td_unsqueeze(v, -1);
    return td_mul_tensor(column, x);
}
/* References to all n values, or to none, and -1, if one of them is NULL. */
static inline int give_all(int n, td_tensor **results, td_tensor *const *values)
{
    for (int i = 0; i < n; i++)
        if (!values[i])
            return -1;
    for (int i = 0; i < n; i++)
        results[i] = td_ref(values[i]);
    return 0;
}

#endif
