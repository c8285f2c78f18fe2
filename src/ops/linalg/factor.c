/* Factorisations in LAPACK's own form: what they check and return, and the product with an orthogonal factor.
 *
 * geqrf leaves R in the upper triangle and below it the vectors v_i of reflections H_i = 1 - tau_i v_i v_i^H, whose
 * product is Q; ldl_factor leaves L and the blocks of D in one matrix. Both are LAPACK's layouts, which ormqr,
 * householder_product and ldl_solve read. */

#include "calls_ops_linalg_factor.h"
#include <inttypes.h>
#include <tede/kernel.h>
#include "dispatch/outputs.h"
#include "ops/linalg/linalg.h"
#include "ops/linalg/matmul.h"

/* One tau for each reflection: min(rows, columns) for each matrix. */
int td_meta_geqrf(td_spec *specs, td_tensor *self)
{
    if (self->ndim < 2)
        return td_error(TD_E_RUNTIME, "torch.geqrf: input must have at least 2 dimensions.");
    int64_t rows = self->sizes[self->ndim - 2], columns = self->sizes[self->ndim - 1], sizes[TD_MAX_DIMS];
    memcpy(sizes, self->sizes, sizeof *sizes * (self->ndim - 2));
    sizes[self->ndim - 2] = rows < columns ? rows : columns;
    td_spec_like(specs, self);
    td_spec_set(specs + 1, self->ndim - 1, sizes, (td_dtype)self->dtype, self->device);
    return td_spec_columns(specs);
}

/* Q is m by m, of reflections whose vectors are in input's columns: input widened with zeros gives all of its columns.
 * Checks are in PyTorch's order. Q is made and multiplied with, where LAPACK would apply one reflection after the
 * other: that takes more arithmetic, but it records, so the derivative is that of its parts. */
td_tensor *td_op_ormqr(td_tensor *self, td_tensor *tau, td_tensor *other, bool left, bool transpose)
{
    const char *side = left ? "-2" : "-1";
    if (self->ndim < 2)
        return td_fail(TD_E_RUNTIME, "torch.ormqr: input must have at least 2 dimensions.");
    if (other->ndim < 2)
        return td_fail(TD_E_RUNTIME, "torch.ormqr: other must have at least 2 dimensions.");
    int64_t m = self->sizes[self->ndim - 2], n = self->sizes[self->ndim - 1];
    int64_t k = tau->ndim ? tau->sizes[tau->ndim - 1] : 0, along = other->sizes[other->ndim - (left ? 2 : 1)];
    if (along < k)
        return td_fail(TD_E_RUNTIME, "torch.ormqr: other.shape[%s] must be greater than or equal to tau.shape[-1]", side);
    if (along != m)
        return td_fail(TD_E_RUNTIME, "torch.ormqr: other.shape[%s] must be equal to input.shape[-2]", side);
    if (k != (along < n ? along : n))
        return td_fail(TD_E_RUNTIME, "torch.ormqr: tau.shape[-1] must be equal to min(other.shape[%s], input.shape[-1])", side);
    if (self->ndim - tau->ndim != 1)
        return td_fail(TD_E_RUNTIME, "torch.ormqr: Expected tau to have one dimension less than input, but got tau.ndim equal to %d and "
                       "input.ndim is equal to %d", tau->ndim, self->ndim);
    if (self->ndim != other->ndim)
        return td_fail(TD_E_RUNTIME, "torch.ormqr: Expected other to have the same number of dimensions as input, but got other.ndim equal to "
                       "%d and input.ndim is equal to %d", other->ndim, self->ndim);
    td_shape_text have;
    if (memcmp(self->sizes, tau->sizes, sizeof *self->sizes * (self->ndim - 2)))
        return td_fail(TD_E_RUNTIME, "torch.ormqr: Expected batch dimensions of tau to be equal to input.shape[:-2], but got %s",
                       td_shape_str(tau->ndim - 1, tau->sizes, have));
    if (memcmp(self->sizes, other->sizes, sizeof *self->sizes * (self->ndim - 2)))
        return td_fail(TD_E_RUNTIME, "torch.ormqr: Expected batch dimensions of other to be equal to input.shape[:-2], but got %s",
                       td_shape_str(other->ndim - 2, other->sizes, have));
    if (tau->dtype != self->dtype)
        return td_fail(TD_E_RUNTIME, "torch.ormqr: Expected input and tau to have the same dtype, but input has dtype %s and tau has dtype %s",
                       td_dtype_title((td_dtype)self->dtype), td_dtype_title((td_dtype)tau->dtype));
    if (other->dtype != self->dtype)
        return td_fail(TD_E_RUNTIME, "torch.ormqr: Expected input and other to have the same dtype, but input has dtype %s and other has dtype %s",
                       td_dtype_title((td_dtype)self->dtype), td_dtype_title((td_dtype)other->dtype));
    TD_AUTO td_tensor *vectors = td_narrow(self, -1, 0, k < m ? k : m);
    int64_t sizes[TD_MAX_DIMS];
    memcpy(sizes, self->sizes, sizeof *sizes * self->ndim);
    sizes[self->ndim - 1] = m - (k < m ? k : m);
    TD_AUTO td_tensor *zeros = td_zeros(self->ndim, sizes, (td_dtype)self->dtype, self->device);
    TD_AUTO td_tensor *square = td_cat(2, (td_tensor *[]){vectors, zeros}, -1);
    TD_AUTO td_tensor *Q = td_linalg_householder_product(square, tau);
    TD_AUTO td_tensor *factor = transpose ? td_adjoint_of(Q) : td_ref(Q);
    /* The product of the transposes: its transpose lies in columns. */
    TD_AUTO td_tensor *transposed = td_transpose_int(factor, -2, -1), *other_transposed = td_transpose_int(other, -2, -1);
    TD_AUTO td_tensor *product = left ? td_matmul(other_transposed, transposed) : td_matmul(transposed, other_transposed);
    TD_AUTO td_tensor *result = td_transpose_int(product, -2, -1);
    return td_clone(result);        /* as it lies, and no view */
}

/* ---- LDL^H */

/* The pivots tell 1 by 1 from 2 by 2 blocks of D by their sign, as in LAPACK's sytrf; hence one for each row. */
int td_meta_linalg_ldl_factor_ex(td_spec *specs, td_tensor *self, bool hermitian, bool check_errors)
{
    (void)hermitian, (void)check_errors;
    if (td_check_square("torch.linalg.ldl_factor_ex", self) || td_check_linalg_dtype("torch.linalg.ldl_factor_ex", self, true))
        return -1;
    td_spec_like(specs, self);
    td_spec_set(specs + 1, self->ndim - 1, self->sizes, TD_I32, self->device);
    td_spec_set(specs + 2, self->ndim - 2, self->sizes, TD_I32, self->device);
    return td_spec_columns(specs);
}
int td_op_linalg_ldl_factor(td_tensor **results, td_tensor *self, bool hermitian)
{
    td_tensor *all[3];
    if (td_linalg_ldl_factor_ex(all, self, hermitian, false))
        return -1;
    results[0] = all[0], results[1] = all[1];
    td_tensor_release(all[2]);
    return 0;
}
/* PyTorch's batch error here is that of elementwise broadcasting, without the operator's name, so this isn't
 * join_batch. */
int td_meta_linalg_ldl_solve(td_spec *specs, td_tensor *LD, td_tensor *pivots, td_tensor *B, bool hermitian)
{
    (void)hermitian;
    const char *op = "torch.linalg.ldl_solve";
    if (td_check_square(op, LD) || td_check_linalg_dtype(op, LD, true))
        return -1;
    if (B->ndim < 2)
        return td_error(TD_E_RUNTIME, "%s: Expected B to have at least 2 dimensions, but it has %d dimensions instead", op, B->ndim);
    if (LD->sizes[LD->ndim - 2] != B->sizes[B->ndim - 2])
        return td_error(TD_E_RUNTIME, "linalg.ldl_solve: Incompatible shapes of A and B for the equation AX = B (%" PRId64 "x%" PRId64 " and %" PRId64
                        "x%" PRId64 ")", LD->sizes[LD->ndim - 2], LD->sizes[LD->ndim - 1], B->sizes[B->ndim - 2], B->sizes[B->ndim - 1]);
    if (td_check_pivots_shape(op, "LD", LD, pivots))
        return -1;
    if (pivots->dtype != TD_I32 && pivots->dtype != TD_I64)
        return td_error(TD_E_RUNTIME, "%s: Expected pivots to be integers. Got %s", op, td_dtype_title((td_dtype)pivots->dtype));
    if (LD->dtype != B->dtype)
        return td_error(TD_E_RUNTIME, "%s: LD dtype %s does not match b dtype %s", op, td_dtype_title((td_dtype)LD->dtype),
                        td_dtype_title((td_dtype)B->dtype));
    int64_t sizes[TD_MAX_DIMS];
    const int n = td_matmul_batch(LD, B, sizes);
    if (n < 0)
        return -1;
    memcpy(sizes + n, B->sizes + B->ndim - 2, 2 * sizeof *sizes);
    td_spec_set(specs, n + 2, sizes, (td_dtype)B->dtype, B->device);
    return td_spec_columns(specs);
}
