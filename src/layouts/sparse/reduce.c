/* Reductions of sparse tensors: sums, norms, softmax.
 *
 * What is reduced over sparse dimensions groups the elements by the indices that are left; over dense ones it is an operator on the
 * values. */
#include "calls_layouts_sparse_reduce.h"
#include "layouts/sparse/sparse.h"
#include "tensor/layout.h"

/* A shift by 64, which is how many dimensions there may be, would be undefined. */
static uint64_t all_dims(const td_tensor *x) { return x->ndim ? (UINT64_C(2) << (x->ndim - 1)) - 1 : 0; }

/* The dimensions of a list as a mask; all of them for none.  False with an error. */
static bool mask_of(td_tensor *x, int64_t n, const int64_t *dims, uint64_t *mask)
{
    *mask = n <= 0 ? all_dims(x) : 0;
    for (int64_t i = 0; i < n; i++) {
        int d = td_wrap_dim(dims[i], x->ndim);
        if (d < 0)
            return false;
        if (*mask >> d & 1)
            return td_error(TD_E_RUNTIME, "dim %d appears multiple times in the list of dims", d), false;
        *mask |= UINT64_C(1) << d;
    }
    return true;
}

/* ---- sums */

/* Of a COO tensor. Dense dimensions are summed in the values; summed sparse ones leave the indices, which makes elements meet, and
 * coalescing adds those up. If no sparse dimension is left the sum is strided. Integers are summed in int64, as in PyTorch, unless a
 * dtype is given. The result stays coalesced where no index row went. */
static td_tensor *sum_coo(td_tensor *x, uint64_t mask, td_dtype dtype)
{
    const td_sparse *s = td_sparse_of(x);
    int64_t dense[TD_MAX_DIMS + 1], n_dense = 0, rows[TD_MAX_DIMS], sizes[TD_MAX_DIMS], n_rows = 0, n = 0;
    for (int d = 0; d < x->ndim; d++) {
        bool summed = mask >> d & 1;
        if (d < s->sparse_dim && !summed)
            rows[n_rows++] = d;
        if (d >= s->sparse_dim && summed)
            dense[n_dense++] = d - s->sparse_dim + 1;
        if (!summed)
            sizes[n++] = x->sizes[d];
    }
    if (n_rows == 0) {              /* the elements themselves are added up, too */
        dense[n_dense++] = 0;
        return td_sum_dim_intlist(s->values, n_dense, dense, false, dtype);
    }
    TD_AUTO td_tensor *values = n_dense ? td_sum_dim_intlist(s->values, n_dense, dense, false, dtype)
                                        : dtype == TD_DTYPE_NONE ? td_ref(s->values) : td_to(s->values, dtype);
    TD_AUTO td_tensor *integers = values && n_dense == 0 && dtype == TD_DTYPE_NONE &&
                                          !td_dtype_is_floating((td_dtype)values->dtype) &&
                                          !td_dtype_is_complex((td_dtype)values->dtype)
                                      ? td_to(values, TD_I64)
                                      : td_ref(values);
    TD_AUTO td_tensor *order = td_empty(1, &n_rows, TD_I64);
    if (order)
        memcpy(order->data, rows, sizeof *rows * (size_t)n_rows);
    TD_AUTO td_tensor *indices = td_index_select(s->indices, 0, order);
    TD_AUTO td_tensor *sum = td_coo_new((int)n, sizes, (int)n_rows, indices, integers, n_rows == s->sparse_dim && s->coalesced);
    return td_sparse_settled(sum);
}

/* keepdim: each summed dimension is put back, which says whether it is a sparse one. */
static td_tensor *put_back(td_tensor *sum, uint64_t mask, int ndim)
{
    td_tensor *x = td_ref(sum);
    for (int d = 0; d < ndim && x; d++)
        if (mask >> d & 1) {
            td_tensor *wider = td_unsqueeze(x, d);
            td_tensor_release(x);
            x = wider;
        }
    return x;
}

td_tensor *td_sparse_sum_dim_intlist(td_tensor *self, int64_t n, const int64_t *dims, bool keepdim, td_dtype dtype)
{
    uint64_t mask;
    if (!mask_of(self, n, dims, &mask))
        return NULL;
    const bool all = mask == all_dims(self);
    if (!td_is_coo(self) && n > 0 && td_tensor_layout(self) != TD_SPARSE_CSR)
        return td_fail(TD_E_RUNTIME, "Currently the only compressed sparse format supported for sum.dim_IntList is CSR, but got layout %s",
                       td_sparse_title(td_tensor_layout(self)));
    if (all && !keepdim && (td_is_coo(self) || n <= 0))
        return td_sum_dim_intlist(td_sparse_of(self)->values, -1, NULL, false, dtype);
    if (!td_is_coo(self) && !keepdim)
        return td_fail(TD_E_RUNTIME, "reduction operations on CSR tensors with keepdim=False is unsupported");
    TD_AUTO td_tensor *coo = td_sparse_coo(self), *without = coo ? sum_coo(coo, mask, dtype) : NULL;
    TD_AUTO td_tensor *sum = !without || !keepdim ? td_ref(without) : put_back(without, mask, self->ndim);
    if (td_is_coo(self) || !sum)
        return td_ref(sum);
    TD_AUTO td_tensor *sparse = td_sparse_coo(sum);
    return td_sparse_like_layout(sparse, self);
}

/* Made of coalesce() and values(), which have gradients, so that the sum's has self's pattern. */
td_tensor *td_op__sparse_sum(td_tensor *self)
{
    TD_AUTO td_tensor *x = td_is_coo(self) ? td_coalesce(self) : td_ref(self), *values = td_values(x);
    return td_sum(values);
}
td_tensor *td_op__sparse_sum_dtype(td_tensor *self, td_dtype dtype)
{
    TD_AUTO td_tensor *x = td_is_coo(self) ? td_coalesce(self) : td_ref(self), *values = td_values(x);
    return td_sum_dim_intlist(values, -1, NULL, false, dtype);
}
td_tensor *td_op__sparse_sum_dim_dtype(td_tensor *self, int64_t n, const int64_t *dim, td_dtype dtype)
{
    TD_AUTO td_tensor *x = td_to(self, dtype);
    return td__sparse_sum_dim(x, n, dim);
}
td_tensor *td_op__sparse_sum_dim(td_tensor *self, int64_t n, const int64_t *dim)
{
    uint64_t mask;
    if (!td_is_coo(self))
        return td_layout_refuse("_indices", self);
    if (n == 0)
        return td_fail(TD_E_RUNTIME, "sparse.sum: expected dim to name at least one dimension");
    return mask_of(self, n, dim, &mask) ? sum_coo(self, mask, TD_DTYPE_NONE) : NULL;
}

/* Each element's share of the gradient of its sum: of self's pattern. */
td_tensor *td_op__sparse_sum_backward(td_tensor *grad, td_tensor *self, int64_t n, const int64_t *dims)
{
    uint64_t mask;
    TD_AUTO td_tensor *x = td_is_coo(self) ? td_sparse_settled(self) : td_layout_refuse("_sparse_sum_backward", self);
    if (!x || !mask_of(x, n, dims, &mask))
        return NULL;
    const td_sparse *s = td_sparse_of(x);
    int64_t sizes[TD_MAX_DIMS], rows[TD_MAX_DIMS], shape[TD_MAX_DIMS + 1], n_rows = 0, kept = 0;
    for (int d = 0; d < x->ndim; d++) {
        if (!(mask >> d & 1))
            sizes[kept++] = x->sizes[d];
        if (!(mask >> d & 1) && d < s->sparse_dim)
            rows[n_rows++] = d;
        if (d >= s->sparse_dim)
            shape[d - s->sparse_dim + 1] = mask >> d & 1 ? 1 : x->sizes[d];
    }
    TD_AUTO td_tensor *found = NULL;
    if (n_rows) {
        TD_AUTO td_tensor *order = td_empty(1, &n_rows, TD_I64);
        if (order)
            memcpy(order->data, rows, sizeof *rows * (size_t)n_rows);
        TD_AUTO td_tensor *indices = td_index_select(s->indices, 0, order);
        int64_t like[TD_MAX_DIMS + 1] = {indices ? indices->sizes[1] : 0};
        memcpy(like + 1, sizes + n_rows, sizeof *sizes * (size_t)(kept - n_rows));
        TD_AUTO td_tensor *none = td_zeros(1 + kept - n_rows, like, (td_dtype)grad->dtype, grad->device);
        TD_AUTO td_tensor *pattern = td_coo_new((int)kept, sizes, (int)n_rows, indices, none, false);
        found = pattern ? td__values_at(grad, pattern) : NULL;
        shape[0] = td_sparse_nnz(x);
    } else {
        found = td_sparse_dense(grad);
        shape[0] = 1;
    }
    TD_AUTO td_tensor *shaped = td_reshape(found, 1 + s->dense_dim, shape),
                      *wide = td_expand(shaped, s->values->ndim, s->values->sizes);
    TD_AUTO td_tensor *values = td_contiguous(wide);
    return td_sparse_with_values(x, values);
}

/* ---- others over all elements */

/* The norm of the values that are there, after repeated indices were added up; absent zeros are not looked at. */
td_tensor *td_sparse_linalg_vector_norm(td_tensor *self, td_scalar ord, int64_t n, const int64_t *dim, bool keepdim, td_dtype dtype)
{
    if (n > 0 || keepdim)
        return td_fail(
            TD_E_RUNTIME, "norm_sparse currently %s",
            keepdim ? "does not support keepdim=True"
                    : "only supports full reductions, so 'dim' must either be empty or contain all dimensions of the input");
    if (dtype != TD_DTYPE_NONE)
        return td_fail(TD_E_RUNTIME, "norm_sparse currently does not support 'dtype' argument");
    (void)dim;
    TD_AUTO td_tensor *x = td_sparse_settled(self);
    return x ? td_linalg_vector_norm(td_sparse_of(x)->values, ord, -1, NULL, false, TD_DTYPE_NONE) : NULL;
}
/* Absent elements are zeros, which decide nothing. */
td_tensor *td_sparse_any_all(td_tensor *self) { return td_any_all(td_sparse_of(self)->values); }

/* A tensor of several elements gets the strided operator's error, from one of two elements. */
int td_sparse_is_nonzero(bool *result, td_tensor *self)
{
    TD_AUTO td_tensor *dense = self->numel > 1 ? td_zeros(1, (int64_t[]){2}, TD_F32, self->device) : td_sparse_dense(self);
    return dense ? td_is_nonzero(result, dense) : -1;
}
int td_sparse__local_scalar_dense(td_scalar *result, td_tensor *self)
{
    if (self->numel != 1)
        return td_tensor_item(self, result);
    TD_AUTO td_tensor *dense = td_sparse_dense(self);
    return dense ? td_tensor_item(dense, result) : -1;
}

/* ---- softmax over the elements that are there */

/* To which group each element belongs: those that differ in dimension d alone. Their keys with index d set to zero
 * are equal, and unique() numbers them. */
static td_tensor *groups(td_tensor *x, int d, int64_t *count)
{
    const td_sparse *s = td_sparse_of(x);
    TD_AUTO td_tensor *zero = td_clone(s->indices), *row = zero ? td_select_int(zero, 0, d) : NULL;
    if (!row || td_zero_(row))
        return NULL;
    TD_AUTO td_tensor *keys = td__coo_keys(zero, s->sparse_dim, x->sizes);
    td_tensor *found[3];
    if (!keys || td__unique2(found, keys, true, true, false))
        return NULL;
    *count = found[0]->numel;
    td_tensor_release(found[0]), td_tensor_release(found[2]);
    return found[1];
}

/* For each element what `reduce` ("sum" or "amax") gives of its group's. */
static td_tensor *over_groups(td_tensor *values, td_tensor *group, int64_t count, bool largest)
{
    TD_AUTO td_tensor *reduced = td_rows_reduced(values, group, count, largest ? "amax" : "sum");
    return td_index_select(reduced, 0, group);
}

/* Only elements that are there take part: the others count as -inf, not as 0, as in PyTorch. Each group's largest
 * value is subtracted first, so exp() sees nothing above zero; log_softmax is x - max - log(sum exp(x - max)). */
static td_tensor *softmax(td_tensor *self, int64_t dim, bool of_logs)
{
    TD_AUTO td_tensor *x = td_sparse_settled(self);
    int d = td_wrap_dim(dim, self->ndim);
    if (!x || d < 0)
        return NULL;
    const td_sparse *s = td_sparse_of(x);
    TD_AUTO td_tensor *result = NULL;
    if (d >= s->sparse_dim) {
        int in_values = d - s->sparse_dim + 1;
        result = of_logs ? td_log_softmax_int(s->values, in_values, TD_DTYPE_NONE)
                         : td_softmax_int(s->values, in_values, TD_DTYPE_NONE);
        return td_sparse_with_values(x, result);
    }
    if (!td_dtype_is_floating((td_dtype)x->dtype))
        return td_fail(TD_E_NOT_IMPLEMENTED, "\"softmax\" not implemented for '%s'", td_dtype_title((td_dtype)x->dtype));
    int64_t count = 0;
    TD_AUTO td_tensor *group = groups(x, d, &count), *largest = over_groups(s->values, group, count, true);
    TD_AUTO td_tensor *shifted = td_minus(s->values, largest), *powers = td_exp(shifted),
                      *sums = over_groups(powers, group, count, false);
    if (of_logs) {
        TD_AUTO td_tensor *logs = td_log(sums);
        result = td_minus(shifted, logs);
    } else {
        result = td_div_tensor(powers, sums);
    }
    return td_sparse_with_values(x, result);
}

/* With output y of softmax: y (g - sum y g); of log_softmax: g - exp(y) sum g; sums over groups. */
static td_tensor *softmax_backward(td_tensor *grad, td_tensor *output, int64_t dim, bool of_logs)
{
    if (!td_is_coo(output))
        return td_layout_refuse("_sparse_softmax_backward_data", output);
    int d = td_wrap_dim(dim, output->ndim);
    TD_AUTO td_tensor *y = td_part_values(output), *g = d < 0 ? NULL : td__values_at(grad, output);
    TD_AUTO td_tensor *terms = of_logs ? td_ref(g) : td_mul(y, g), *sums = NULL;
    if (!terms)
        return NULL;
    if (d >= td_sparse_of(output)->sparse_dim) {
        sums = td_sum_over(terms, 1, (int64_t[]){d - td_sparse_of(output)->sparse_dim + 1}, true);
    } else {
        int64_t count = 0;
        TD_AUTO td_tensor *group = groups(output, d, &count);
        sums = over_groups(terms, group, count, false);
    }
    TD_AUTO td_tensor *powers = of_logs ? td_exp(y) : td_ref(y);
    TD_AUTO td_tensor *product = of_logs ? td_mul(powers, sums) : td_minus(g, sums);
    TD_AUTO td_tensor *result = of_logs ? td_minus(g, product) : td_mul(powers, product);
    return td_sparse_with_values(output, result);
}

td_tensor *td_sparse__sparse_softmax(td_tensor *self, int64_t dim, bool half) { return (void)half, softmax(self, dim, false); }
td_tensor *td_sparse__sparse_log_softmax(td_tensor *self, int64_t dim, bool half) { return (void)half, softmax(self, dim, true); }
td_tensor *td_op__sparse_softmax(td_tensor *self, int64_t dim, bool half)
{
    return (void)dim, (void)half, td_layout_refuse("_sparse_softmax", self);
}
td_tensor *td_op__sparse_log_softmax(td_tensor *self, int64_t dim, bool half)
{
    return (void)dim, (void)half, td_layout_refuse("_sparse_log_softmax", self);
}
td_tensor *td_op__sparse_softmax_int(td_tensor *self, int64_t dim, td_dtype dtype)
{
    TD_AUTO td_tensor *x = dtype == TD_DTYPE_NONE ? td_ref(self) : td_to(self, dtype);
    return td__sparse_softmax(x, dim, false);
}
td_tensor *td_op__sparse_log_softmax_int(td_tensor *self, int64_t dim, td_dtype dtype)
{
    TD_AUTO td_tensor *x = dtype == TD_DTYPE_NONE ? td_ref(self) : td_to(self, dtype);
    return td__sparse_log_softmax(x, dim, false);
}
td_tensor *td_op__sparse_softmax_backward_data(td_tensor *grad, td_tensor *output, int64_t dim, td_tensor *self)
{
    return (void)self, softmax_backward(grad, output, dim, false);
}
td_tensor *td_op__sparse_log_softmax_backward_data(td_tensor *grad, td_tensor *output, int64_t dim, td_tensor *self)
{
    return (void)self, softmax_backward(grad, output, dim, true);
}
