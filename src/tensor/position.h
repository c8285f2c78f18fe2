/* Permuting views, and the position of a tensor within its storage, also after the storage has got another block: see
 * Note [Resizing a shared storage] in storage.c. */
#ifndef TD_TENSOR_POSITION_H
#define TD_TENSOR_POSITION_H
#include "tensor/tensor.h"

/* Of an address in one of the storage's blocks: bytes from the block's begin. */
int64_t td_storage_position(const td_storage *s, const char *data);
/* A view with self's dimensions in another order. */
td_tensor *td_view_permuted(td_tensor *self, const int64_t *sizes, const int64_t *strides);
/* Let x look at the present block. */
void    td_tensor_follow(td_tensor *x);

#endif
