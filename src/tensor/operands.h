/* Operands as kernels get them: contiguous, in the dtype that is computed in, TD_NONE as it is. */
#ifndef TD_TENSOR_OPERANDS_H
#define TD_TENSOR_OPERANDS_H
#include <tede/kernel.h>
#include "tensor/tensor.h"

static inline td_dtype td_compute_dtype(const td_tensor *x)
{
    return x->dtype == TD_F64 ? TD_F64 : TD_F32;
}
static inline td_tensor *td_operand(td_tensor *x, td_dtype dtype)
{
    return x == TD_NONE ? td_tensor_retain(x) : td_as_contiguous(x, dtype);
}
/* For a result whose elements are all written, whatever they were. */
static inline td_tensor *td_target(td_tensor *x, td_dtype dtype)
{
    const td_keyset lazy = TD_KEYSET(TD_KEY_CONJUGATE) | TD_KEYSET(TD_KEY_NEGATIVE) | TD_KEYSET(TD_KEY_UNALIGNED);
    const bool fits = x == TD_NONE || (x->flags & TD_FLAG_CONTIGUOUS && x->dtype == (int8_t)dtype && !(x->keys & lazy));
    return fits ? td_tensor_retain(x) : td_tensor_new(x->ndim, x->sizes, dtype, x->device);
}
static inline int td_finish(td_tensor *x, td_tensor *written)
{
    return x == TD_NONE || x == written ? 0 : td_write_back(x, written);
}

#endif
