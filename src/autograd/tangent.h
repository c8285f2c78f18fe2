/* Forward mode as generated kernels use it; src/transforms/forward.c implements it. */
#ifndef TD_AUTOGRAD_TANGENT_H
#define TD_AUTOGRAD_TANGENT_H
#include <tede/dispatch.h>
#include "tensor/tensor.h"

td_tensor *td_tangent(const td_tensor *x);
/* The thread's ForwardAD key is excluded while formulas run. */
td_keyset  td_forward_begin(void);
/* The result with the tangent `sum` (taken over, may be NULL), or NULL after dropping both. */
td_tensor *td_forward_end(td_keyset before, int status, td_tensor *result, td_tensor *sum, bool conjugated);
/* An operand's tangent, conjugated for formulas that are gradients of complex operands. */
td_tensor *td_forward_operand(td_tensor *x, bool conjugated);
int        td_forward_add(td_tensor **sum, td_tensor *term);
/* Of operators with several results: tangents of the first n of them are added, and taken over. */
int        td_forward_take(td_tensor **sums, int n, td_tensor **terms);
int        td_forward_end_all(td_keyset before, int status, int n_results, td_tensor **results, int n, td_tensor **sums);
/* Whether a fused tangent may run: nothing is recorded, and calls are not counted. */
bool       td_forward_fusable(int n, td_tensor *const *tensors);

#endif
