/* What generated autograd kernels keep in a node, and how their backward formulas return gradients. */
#ifndef TD_AUTOGRAD_RECORD_H
#define TD_AUTOGRAD_RECORD_H
#include <tede/list.h>
#include "autograd/node.h"

/* What a composite operator takes for self in its in-place form, and how it stores its result (released): both so that the
 * gradient follows. */
td_tensor *td_original(td_tensor *self);
int        td_record_inplace(const char *op, td_tensor *self, td_tensor *result);
/* How it stores its result (released) in an out= where one of them needs a gradient: out takes over the history, as with copy_. */
int        td_record_out(const char *op, td_tensor *out, td_tensor *result);
/* A copy with the history that x has now: what an in-place operator overwrites but its gradient needs. */
td_tensor *td_clone_detached(td_tensor *x);

/* ---- gradients of pointwise operators */
/* An operand's shape and dtype where they differ from the result's; NULL where they don't. */
typedef struct td_fit { int32_t ndim, dtype; int64_t sizes[]; } td_fit;
int        td_fit_save(td_fit **fit, const td_tensor *operand, const td_tensor *result);
td_tensor *td_fit_apply(td_tensor *grad, const td_fit *fit);
void       td_fit_free(td_fit *fit);

/* ---- what nodes keep besides tensors */
typedef struct td_ints { int64_t n; int64_t *items; } td_ints;
int  td_ints_save(td_ints *ints, int64_t n, const int64_t *items);
int  td_ints_save_shapes(td_ints *ranks, td_ints *shapes, int64_t n, td_tensor *const *tensors);
void td_ints_free(td_ints *ints);

/* ---- gradients */
/* *place = value, retained; TD_NONE leaves NULL (no gradient).  -1 if value is NULL. */
int td_give(td_tensor **place, td_tensor *value);
/* All gradients of a node's results, zeros where undefined. */
int td_node_all_grads(td_node *node, td_tensor *const *grads, td_tensor_list *list);
int td_node_saved_list(td_node *node, int first, int64_t n, td_tensor_list *list);
/* Whether a fused gradient may run: no graph is being made, dense real floats on the CPU. */
bool td_fusable(int n, td_tensor *const *tensors);

#endif
