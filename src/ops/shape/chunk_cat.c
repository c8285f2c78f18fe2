/* _chunk_cat: every tensor cut into the same number of chunks, the last ones filled up with zeros; the k-th chunks of all
 * lie side by side in row k of the result.  FSDP packs gradients so before reduce-scatter: a row is what one process gets. */

#include "calls_ops_shape_chunk_cat.h"
#include <inttypes.h>
#include <string.h>
#include <tede/kernel.h>
#include "dispatch/outputs.h"
#include "ops/compose.h"
#include "tensor/checked.h"

/* Each tensor is padded with zeros behind dim to a multiple of num_chunks, seen as [..., num_chunks, rest], and these are joined along
 * their last dimension.  Dimensions behind dim vanish into `rest`, so tensors may differ in them. */
td_tensor *td_op__chunk_cat(int64_t n, td_tensor *const *tensors, int64_t dim, int64_t num_chunks)
{
    if (!n)
        return td_fail(TD_E_RUNTIME, "_chunk_cat expects a non-empty input tensor list");
    int d = td_wrap_dim(dim, tensors[0]->ndim);
    if (d < 0)
        return NULL;
    if (num_chunks < 1)
        return td_fail(TD_E_RUNTIME, "_chunk_cat expects positive num_chunks");
    const td_tensor *first = tensors[0];
    for (int64_t i = 0; i < n; i++) {
        const td_tensor *x = tensors[i];
        if (dim < 0 && x->ndim != first->ndim)
            return td_fail(TD_E_RUNTIME, "_chunk_cat expects non-negative dim when input tensors have different ndims");
        if (!x->numel)
            return td_fail(TD_E_RUNTIME, "_chunk_cat expects non-empty tensor");
        if (x->dtype != first->dtype)
            return td_fail(TD_E_RUNTIME, "_chunk_cat expects all input tensors with the same dtype");
        if (x->ndim <= d)
            return td_fail(TD_E_RUNTIME, "_chunk_cat expects dim < ndim for all input tensors");
        if (memcmp(x->sizes, first->sizes, sizeof *x->sizes * d))
            return td_fail(TD_E_RUNTIME, "_chunk_cat expects same sizes of 0,...,dim-1 dimensions for all tensors");
    }
    TD_AUTO_LIST td_tensor_list parts = {0};
    if (td_tensor_list_new(&parts, n))
        return NULL;
    for (int64_t i = 0; i < n; i++) {
        td_tensor *x = tensors[i];
        int64_t size = x->sizes[d], whole = td_mul_saturated(td_quotient_up(size, num_chunks), num_chunks), pad[2 * TD_MAX_DIMS] = {0}, sizes[TD_MAX_DIMS + 1];
        int after = x->ndim - d;
        pad[2 * after - 1] = whole - size;
        memcpy(sizes, x->sizes, sizeof *sizes * d);
        sizes[d] = num_chunks, sizes[d + 1] = -1;
        TD_AUTO td_tensor *filled = whole == size ? td_ref(x) : td_constant_pad_nd(x, 2 * after, pad, td_int(0));
        if (!(parts.items[i] = td_reshape(filled, d + 2, sizes)))
            return NULL;
    }
    return td_cat(n, parts.items, d + 1);
}
