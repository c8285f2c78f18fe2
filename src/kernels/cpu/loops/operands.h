/* What the kernels of neural networks share.
 *
 * They compute in float32 or float64: float16 and bfloat16 operands come as float32 copies, and results are rounded
 * once at the end (operands below).  A file with loops is compiled once per instruction set; it includes itself once per
 * type T, whose suffix is S, and N(name) is the name with that suffix. */
#ifndef TD_KERNELS_CPU_LOOPS_OPERANDS_H
#define TD_KERNELS_CPU_LOOPS_OPERANDS_H
#include <string.h>
#include <tede/auto.h>
#include <tede/kernel.h>
#include "kernels/cpu/isa/isa.h"
#include "tensor/tensor.h"

#define TD_PASTE_(a, b) a##_##b
#define TD_PASTE(a, b)  TD_PASTE_(a, b)
#define N(name)         TD_PASTE(name, S)

static inline td_dtype td_compute_dtype(const td_tensor *x)
{
    return x->dtype == TD_F64 ? TD_F64 : TD_F32;
}
/* TD_NONE passes. */
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
static inline void *td_data_or_null(const td_tensor *x) { return x == TD_NONE ? NULL : x->data; }

/* How many items of `cost` additions each make a task that is worth handing to a thread. */
static inline int64_t td_grain(int64_t cost)
{
    int64_t n = 32768 / (cost > 0 ? cost : 1);
    return n > 0 ? n : 1;
}
static inline int64_t td_ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

#endif
