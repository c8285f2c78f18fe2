/* The thread's dispatch-key include and exclude masks, where generated stubs reach them in one instruction.
 *
 * Note [no_grad]
 * no_grad excludes the Autograd key: what is off is not even tested. inference_mode does so too, and marks
 * new tensors with TD_FLAG_INFERENCE. */
#ifndef TD_TENSOR_MASKS_H
#define TD_TENSOR_MASKS_H
#include <tede/dispatch.h>
#include "tensor/tensor.h"

typedef struct td_thread_state {
    td_keyset include, exclude;
    bool      inference;
    bool      grad_disabled;      /* mirrors the Autograd bit of `exclude` outside kernels */
    bool      forward_disabled;   /* of forward mode: mirrors the ForwardAD bit of `exclude` likewise */
    bool      below;              /* foreign code implements an operator: nothing is recorded, whatever it says */
} td_thread_state;
extern _Thread_local td_thread_state td_masks_now __attribute__((tls_model("initial-exec")));

/* What a view made now is marked with. */
static inline unsigned td_creation_flags(void)
{
    return td_masks_now.inference ? TD_FLAG_NO_GRAD_VIEW | TD_FLAG_INFERENCE_VIEW
         : td_masks_now.grad_disabled ? TD_FLAG_NO_GRAD_VIEW : 0;
}

#endif
