/* Norms and factors under the names that older programs use. */

#include "calls_ops_linalg_old.h"
#include <tede/kernel.h>
#include "base/warn.h"
#include "dispatch/outputs.h"
#include "ops/compose.h"

td_tensor *td_op_frobenius_norm_dim(td_tensor *self, int64_t n_dim, const int64_t *dim, bool keepdim)
{
    if (n_dim > 2)
        return td_fail(TD_E_RUNTIME, "Expected at most 2 dimensions, but got %lld dimensions instead.", (long long)n_dim);
    return td_linalg_vector_norm(self, td_int(2), n_dim, dim, keepdim, TD_DTYPE_NONE);
}
static int old_nuclear_norm(void)
{
    return TD_WARN_ONCE("at::nuclear_norm is deprecated and it is just left for JIT compatibility. It will be removed in a future PyTorch "
                   "release. Please use `linalg.matrix_norm(A, 'nuc', dim, keepdim)` instead");
}
td_tensor *td_op_nuclear_norm(td_tensor *self, bool keepdim)
{
    return old_nuclear_norm() ? NULL : td_linalg_matrix_norm_str_ord(self, "nuc", 2, (int64_t[]){-2, -1}, keepdim, TD_DTYPE_NONE);
}
td_tensor *td_op_nuclear_norm_dim(td_tensor *self, int64_t n_dim, const int64_t *dim, bool keepdim)
{
    return old_nuclear_norm() ? NULL : td_linalg_matrix_norm_str_ord(self, "nuc", n_dim, dim, keepdim, TD_DTYPE_NONE);
}
/* weight_norm's norms: over all dimensions but one, which the result keeps, with size 1 elsewhere. Seen as a matrix
 * each position along dim is a row (the first dimension) or a column (the last); one in between is moved to the
 * front. -1 stands for no dimension: one norm of all. */
td_tensor *td_op_norm_except_dim(td_tensor *v, int64_t power, int64_t dim)
{
    if (dim == -1)
        return td_norm_scalar(v, td_int(power));
    if (!v->ndim)
        return td_fail(TD_E_INDEX, "Dimension specified as %lld but tensor has no dimensions", (long long)dim);
    int d = td_wrap_dim(dim, v->ndim);
    if (d < 0)
        return NULL;
    if (d > 0 && d < v->ndim - 1) {
        TD_AUTO td_tensor *first = td_transpose_int(v, 0, d);
        TD_AUTO td_tensor *norm = td_norm_except_dim(first, power, 0);
        return td_transpose_int(norm, 0, d);
    }
    const bool last = d > 0;                /* one row, or one column, for each position along dim */
    int64_t sizes[TD_MAX_DIMS];
    for (int k = 0; k < v->ndim; k++)
        sizes[k] = k == d ? v->sizes[d] : 1;
    TD_AUTO td_tensor *flat = td_contiguous(v);
    TD_AUTO td_tensor *rows = td_view(flat, 2, (int64_t[]){last ? -1 : v->sizes[d], last ? v->sizes[d] : -1});
    TD_AUTO td_tensor *norm = td_norm_scalaropt_dim(rows, &(td_scalar){.kind = TD_SCALAR_INT, .i = power}, 1, (int64_t[]){!last}, false);
    return td_view(norm, v->ndim, sizes);
}
/* The name that torch.lu's programs know; the same three results. As in PyTorch nothing is checked: factors of a singular matrix are some. */
int td_op__lu_with_info(td_tensor **results, td_tensor *self, bool pivot, bool check_errors)
{
    (void)check_errors;
    return td_linalg_lu_factor_ex(results, self, pivot, false);
}
td_tensor *td_op__stack(int64_t n, td_tensor *const *tensors, int64_t dim) { return td_stack(n, tensors, dim); }
/* A shape is known on the host, so its tensor is on the CPU whatever self's device is. */
td_tensor *td_op__shape_as_tensor(td_tensor *self)
{
    int64_t n = self->ndim;
    td_tensor *out = td_tensor_new(1, &n, TD_I64, (td_device){TD_CPU, -1});
    for (int d = 0; out && d < n; d++)
        ((int64_t *)out->data)[d] = self->sizes[d];
    return out;
}
