/* Where results lie in memory, after their operands. */
#ifndef TD_OPS_STRIDES_H
#define TD_OPS_STRIDES_H
#include "tensor/tensor.h"

/* Strides without gaps for a result of `sizes`, its dimensions in the order of those of the n operands; false if these
 * say nothing and it is contiguous. */
bool td_strides_in_order(int n, td_tensor *const *in, int ndim, const int64_t *sizes, int64_t *strides);

#endif
