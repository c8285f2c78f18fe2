/* The order of dimensions in memory, permuting views, and the position of a tensor within its storage, also after the storage has got another block: see
 * Note [Resizing a shared storage] in storage.c. */
#ifndef TD_TENSOR_POSITION_H
#define TD_TENSOR_POSITION_H
#include <stdlib.h>
#include "tensor/tensor.h"

/* Dimensions from the widest step to the narrowest; of equal ones in their order. An insertion sort, for they are few. */
static inline void td_stride_order(int ndim, const int64_t *strides, int64_t *order)
{
    for (int d = 0, at; d < ndim; order[at] = d, d++)
        for (at = d; at > 0 && llabs(strides[order[at - 1]]) < llabs(strides[d]); at--)
            order[at] = order[at - 1];
}

/* Of an address in one of the storage's blocks: bytes from the block's begin. */
int64_t td_storage_position(const td_storage *s, const char *data);
/* A view with self's dimensions in another order. */
td_tensor *td_view_permuted(td_tensor *self, const int64_t *sizes, const int64_t *strides);
/* Let x look at the present block. */
void    td_tensor_follow(td_tensor *x);

#endif
