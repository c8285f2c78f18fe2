/* Views that only shuffle dimensions, and where a tensor lies in its storage, also if that has been given another block
 * since: see Note [Resizing a shared storage] in storage.c. */
#ifndef TD_TENSOR_PLACE_H
#define TD_TENSOR_PLACE_H
#include "tensor/tensor.h"

/* Of an address in one of the storage's blocks: bytes from the block's begin. */
int64_t td_storage_place(const td_storage *s, const char *data);
/* A view with self's dimensions in another order. */
td_tensor *td_view_permuted(td_tensor *self, const int64_t *sizes, const int64_t *strides);
/* Let x look at the present block. */
void    td_tensor_follow(td_tensor *x);

#endif
