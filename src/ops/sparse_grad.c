/* Gradients that are sparse tensors by nature: those of picking elements. */
#include "calls_ops_sparse_grad.h"
#include "ops/sparse.h"

td_tensor *td_op_gather_sparse_grad(td_tensor *grad, int64_t dim, td_tensor *index, int64_t n, const int64_t *shape)
{
    int64_t count = index->numel;
    TD_AUTO td_tensor *places = td_empty(2, (int64_t[]){n, count}, TD_I64), *line = td_reshape(index, 1, &count);
    TD_AUTO td_tensor *at = td_as_contiguous(line, TD_I64), *values = td_reshape(grad, 1, &count);
    if (!places || !at)
        return NULL;
    int64_t step = 1, which = td_wrap_dim(dim, (int)n);
    for (int64_t d = n - 1; d >= 0; d--) {
        int64_t *to = (int64_t *)places->data + d * count, size = index->sizes[d] ? index->sizes[d] : 1;
        for (int64_t i = 0; i < count; i++)
            to[i] = d == which ? ((const int64_t *)at->data)[i] : i / step % size;
        step *= size;
    }
    return td__sparse_coo_tensor_with_dims_and_tensors(n, 0, n, shape, places, values, TD_DTYPE_NONE, TD_DEVICE_NONE, NULL);
}
