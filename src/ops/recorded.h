/* Gradients of gradients by the engine: where the backward pass of a kernel is itself differentiated, the operator is made again
 * of operators that record, and these are differentiated. */
#ifndef TD_OPS_RECORDED_H
#define TD_OPS_RECORDED_H
#include <tede/tensor.h>

/* Makes the results again of operands that record.  0 or -1. */
typedef int td_recorded(td_tensor **made, td_tensor *const *operands, const void *context);

/* results[i]: the gradient of operand i if wants[i], else TD_NONE, given those of the `n_made` things made.  0 or -1. */
int td_recorded_gradients(td_recorded *make, const void *context, int n_made, td_tensor *const *grads, int n,
                          td_tensor *const *operands, const bool *wants, td_tensor **results);

#endif
