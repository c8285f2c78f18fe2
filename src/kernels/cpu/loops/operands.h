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
#include "tensor/operands.h"

#define TD_PASTE_(a, b) a##_##b
#define TD_PASTE(a, b)  TD_PASTE_(a, b)
#define N(name)         TD_PASTE(name, S)

static inline void *td_data_or_null(const td_tensor *x) { return x == TD_NONE ? NULL : x->data; }

/* How many items of `cost` additions each make a task that is worth handing to a thread. */
static inline int64_t td_grain(int64_t cost)
{
    int64_t n = 32768 / (cost > 0 ? cost : 1);
    return n > 0 ? n : 1;
}
static inline int64_t td_ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

#endif
