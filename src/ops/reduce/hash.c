/* hash_tensor: the exclusive or of all elements' bits, of floats as double, of integers as int64; a checksum that doesn't
 * depend on the order of elements. */

#include "calls_ops_reduce_hash.h"
#include <inttypes.h>
#include <tede/kernel.h>
#include "dispatch/outputs.h"
#include "ops/compose.h"

td_tensor *td_op_hash_tensor(td_tensor *self, int64_t n_dim, const int64_t *dim, bool keepdim, int64_t mode)
{
    if (!self->numel && !n_dim)
        return td_fail(TD_E_RUNTIME, "hash_tensor: Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with the "
                       "'dim' argument.");
    if (mode != 0)
        return td_fail(TD_E_RUNTIME, "Unknown hash_tensor mode: %" PRId64, mode);
    if (td_is_complex(self))
        return td_fail(TD_E_NOT_IMPLEMENTED, "\"xor_sum_cpu\" not implemented for '%s'", td_dtype_title((td_dtype)self->dtype));
    bool reduced[TD_MAX_DIMS] = {false};
    for (int64_t i = 0; i < n_dim; i++) {
        int d = td_wrap_dim(dim[i], self->ndim);
        if (d < 0)
            return NULL;
        if (self->ndim && reduced[d])
            return td_fail(TD_E_RUNTIME, "dim %d appears multiple times in the list of dims", d);
        if (self->ndim && !self->sizes[d])
            return td_fail(TD_E_INDEX, "hash_tensor: Expected reduction dim %d to have non-zero size.", d);
        reduced[d] = true;
    }
    /* Kept dimensions first, reduced ones last: after the copy below, the elements of each result lie one after the other.
     * An empty list of dimensions reduces all. */
    int64_t order[TD_MAX_DIMS], sizes[TD_MAX_DIMS], count = 0, kept = 1, n_sizes = 0;
    for (int last = 0; last < 2; last++)
        for (int d = 0; d < self->ndim; d++)
            if ((n_dim == 0 || reduced[d]) == last)
                order[count++] = d;
    for (int d = 0; d < self->ndim; d++) {
        bool gone = n_dim == 0 || reduced[d];
        kept *= gone ? 1 : self->sizes[d];
        if (!gone || keepdim)
            sizes[n_sizes++] = gone ? 1 : self->sizes[d];
    }
    bool floating = td_is_floating(self);
    TD_AUTO td_tensor *permuted = td_permute(self, count, order);
    TD_AUTO td_tensor *numbers = permuted ? td_as_contiguous(permuted, floating ? TD_F64 : TD_I64) : NULL;
    td_tensor *out = numbers ? td_tensor_new((int)n_sizes, sizes, TD_U64, self->device) : NULL;
    if (!out || out->device.type == TD_META)
        return out;
    const uint64_t *from = (const uint64_t *)numbers->data;
    int64_t each = kept ? self->numel / kept : 0;
    for (int64_t k = 0; k < kept; k++) {
        uint64_t hash = 0;
        for (int64_t i = 0; i < each; i++)
            hash ^= from[k * each + i];
        ((uint64_t *)out->data)[k] = hash;
    }
    return out;
}
