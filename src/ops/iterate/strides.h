/* Where results lie in memory, after their operands. */
#ifndef TD_OPS_ITERATE_STRIDES_H
#define TD_OPS_ITERATE_STRIDES_H
#include "tensor/tensor.h"

/* Strides without gaps for a result of `sizes`, its dimensions in the order of those of the n operands; false if these
 * say nothing and it is contiguous. */
bool td_strides_in_order(int n, td_tensor *const *in, int ndim, const int64_t *sizes, int64_t *strides);

/* Whether x has the strides of a new tensor, of dimensions of size 1, too: those of a contiguous one may be anything. */
static inline bool td_has_plain_strides(const td_tensor *x)
{
    int64_t step = 1;
    for (int d = x->ndim - 1; d >= 0; d--) {
        if (x->strides[d] != step)
            return false;
        step *= x->sizes[d] ? x->sizes[d] : 1;
    }
    return true;
}

#endif
