/* Gradients that are sparse tensors by nature: those of picking elements. */
#include "calls_layouts_sparse_grad.h"
#include <inttypes.h>
#include "layouts/sparse/sparse.h"
#include "tensor/checked.h"
#include "tensor/device.h"

/* gather's gradient, an element for each one picked, at its own position in the other dimensions and at index[...] in
 * `dim`: a position in `index` is taken apart by row-major strides. An index that was picked twice stands twice, and
 * coalescing adds them. */
td_tensor *td_op_gather_sparse_grad(td_tensor *grad, int64_t dim, td_tensor *index, int64_t n, const int64_t *shape)
{
    int64_t count = index->numel;
    bool fits = index->ndim == n || (index->ndim <= 1 && n <= 1);       /* a number may stand for a vector of one */
    if (!fits || td_wrap_dim(dim, (int)n) < 0)
        return !fits ? td_fail(TD_E_RUNTIME, "gather_sparse_grad: the index must have as many dimensions as the shape") : NULL;
    TD_AUTO td_tensor *places = td_empty(2, (int64_t[]){n, count}, TD_I64), *line = td_reshape(index, 1, &count);
    TD_AUTO td_tensor *near = td_on_host(line), *at = td_as_contiguous(near, TD_I64), *values = td_reshape(grad, 1, &count);
    if (!places || !at)
        return NULL;
    int64_t step = 1, which = td_wrap_dim(dim, (int)n);
    for (int64_t d = n - 1; d >= 0; d--) {
        int64_t *to = (int64_t *)places->data + d * count, size = d < index->ndim && index->sizes[d] ? index->sizes[d] : 1;
        for (int64_t i = 0; i < count; i++)
            to[i] = d == which ? ((const int64_t *)at->data)[i] : i / step % size;
        step *= size;
    }
    TD_AUTO td_tensor *there = td_is_outside(grad->device) ? td_layout_on(places, grad->device) : td_ref(places);
    return !there ? NULL : td__sparse_coo_tensor_with_dims_and_tensors(n, 0, n, shape, there, values, TD_DTYPE_NONE, TD_DEVICE_NONE, NULL);
}

/* A hybrid tensor with a dense row per looked-up index, O(batch) instead of O(table); rows that were looked up twice
 * stand twice. */
td_tensor *td_op_embedding_sparse_backward(td_tensor *grad, td_tensor *indices, int64_t rows, int64_t padding_idx, bool by_freq)
{
    if (by_freq)
        return td_fail(TD_E_RUNTIME, "embedding_backward: scale_grad_by_freq not supported with sparse gradients");
    if (grad->ndim < 1 || grad->numel != td_mul_saturated(indices->numel, grad->sizes[grad->ndim - 1]))
        return td_fail(TD_E_RUNTIME, "embedding_sparse_backward: the gradient must have a row for each index");
    const int64_t width = grad->sizes[grad->ndim - 1];
    TD_AUTO td_tensor *line = td_reshape(indices, 1, (int64_t[]){indices->numel}), *index = td_to(line, TD_I64);
    TD_AUTO td_tensor *values = td_reshape(grad, 2, (int64_t[]){indices->numel, width});
    TD_AUTO td_tensor *padding = td_wrapped_number(td_int(padding_idx)), *kept = padding_idx >= 0 ? td_ne_tensor(index, padding) : NULL;
    if (padding_idx >= 0) {         /* the padding row has no gradient */
        TD_AUTO td_tensor *list = td_nonzero(kept), *chosen = list ? td_view(list, 1, (int64_t[]){list->sizes[0]}) : NULL;
        td_tensor *some = td_index_select(index, 0, chosen), *of = td_index_select(values, 0, chosen);
        td_tensor_release(index), td_tensor_release(values);
        index = some, values = of;
    }
    TD_AUTO td_tensor *row = td_unsqueeze(index, 0);
    return td__sparse_coo_tensor_with_dims_and_tensors(1, 1, 2, (int64_t[]){rows, width}, row, values, TD_DTYPE_NONE,
                                                       TD_DEVICE_NONE, NULL);
}
