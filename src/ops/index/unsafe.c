/* _unsafe_index and _unsafe_masked_index (PyTorch's names, which its decompositions produce): indexing by tensors that a
 * mask vouches for. Where the mask is false, the index may lie outside and doesn't count.
 *
 * "Unsafe" permits a backend to leave the bounds checks out; here they are kept, since td_pick_run would write outside of
 * the tensor. */

#include "calls_ops_index_unsafe.h"
#include <tede/kernel.h>
#include "dispatch/outputs.h"
#include "ops/compose.h"

td_tensor *td_op__unsafe_index_tensor(td_tensor *self, int64_t n, td_tensor *const *indices) { return td_index_tensor(self, n, indices); }
td_tensor *td_op__unsafe_index_put(td_tensor *self, int64_t n, td_tensor *const *indices, td_tensor *values, bool accumulate)
{
    return td_index_put(self, n, indices, values, accumulate);
}

/* The indices clamped to [-size, size - 1] of their dimensions, what td_index_tensor accepts. A dimension of size 0 has no
 * such range; both callers return before for a self without elements. */
static int within(td_tensor_list *moved, td_tensor *self, int64_t n, td_tensor *const *indices)
{
    if (n > self->ndim)
        return td_error(TD_E_INDEX, "too many indices for tensor of dimension %d", self->ndim);
    if (td_tensor_list_new(moved, n))
        return -1;
    for (int64_t i = 0; i < n; i++) {
        td_scalar least = td_int(-self->sizes[i]), most = td_int(self->sizes[i] - 1);
        moved->items[i] = indices[i] == TD_NONE ? td_ref(TD_NONE) : td_clamp(indices[i], &least, &most);
        if (!moved->items[i])
            return -1;
    }
    return 0;
}
static td_tensor *others(td_tensor *mask) { return td_logical_not(mask); }

td_tensor *td_op__unsafe_masked_index(td_tensor *self, td_tensor *mask, int64_t n, td_tensor *const *indices, td_scalar fill)
{
    if (self->numel == 0) {              /* nothing to read: the fill in the indices' shape */
        int64_t sizes[TD_MAX_DIMS];
        int given = 0;
        td_tensor *some[TD_MAX_DIMS];
        for (int64_t i = 0; i < n && i < TD_MAX_DIMS; i++)
            if (indices[i] != TD_NONE)
                some[given++] = indices[i];
        int ndim = td_broadcast_shape(NULL, given, some, sizes);
        return ndim < 0 ? NULL : td_full(ndim, sizes, fill, (td_dtype)self->dtype, self->device);
    }
    TD_AUTO_LIST td_tensor_list moved = {0};
    if (within(&moved, self, n, indices))
        return NULL;
    TD_AUTO td_tensor *chosen = td_index_tensor(self, n, moved.items);
    TD_AUTO td_tensor *out = others(mask);
    return td_masked_fill_scalar(chosen, out, fill);
}
/* The clamped indices of masked-out positions address real elements. Since this adds, values of 0 there leave those
 * elements as they are, without a second pass over self. */
td_tensor *td_op__unsafe_masked_index_put_accumulate(td_tensor *self, td_tensor *mask, int64_t n, td_tensor *const *indices, td_tensor *values)
{
    if (self->numel == 0)
        return td_clone(self);
    TD_AUTO_LIST td_tensor_list moved = {0};
    if (within(&moved, self, n, indices))
        return NULL;
    TD_AUTO td_tensor *out = others(mask);
    TD_AUTO td_tensor *counted = td_masked_fill_scalar(values, out, td_int(0));
    return td_index_put(self, n, moved.items, counted, true);
}
