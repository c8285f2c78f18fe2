/* What meta functions and kernels of products share. */
#ifndef TD_OPS_LINALG_MATMUL_H
#define TD_OPS_LINALG_MATMUL_H
#include "tensor/tensor.h"

/* The batch dimensions of a product: their number, or -1 with an error. */
int td_matmul_batch(const td_tensor *a, const td_tensor *b, int64_t *sizes);

#endif
