/* tede/autograd.h: gradients.
 *
 * A tensor that requires a gradient is a leaf (td_set_requires_grad) or the result of operators on such.  Each
 * such operator leaves a node that knows how to turn gradients of its results into gradients of its operands;
 * td_backward traverses the nodes from the roots. */
#ifndef TEDE_AUTOGRAD_H
#define TEDE_AUTOGRAD_H
#include <tede/tensor.h>
#ifdef __cplusplus
extern "C" {
#endif

typedef struct td_node td_node;

TD_API bool td_requires_grad(td_tensor *x);
TD_API int  td_set_requires_grad(td_tensor *x, bool on) TD_MUST_USE;
TD_API bool td_is_leaf(td_tensor *x);
/* The accumulated gradient: borrowed, NULL while there is none. */
TD_API td_tensor *td_grad(td_tensor *x);
/* Replace it (NULL or TD_NONE: take it away).  Checks shape, dtype and device. */
TD_API int td_set_grad(td_tensor *x, td_tensor *grad) TD_MUST_USE;
/* Let a tensor that is no leaf keep its gradient in td_grad, too. */
TD_API int  td_retain_grad(td_tensor *x) TD_MUST_USE;
TD_API bool td_retains_grad(td_tensor *x);
/* Cut x off from what made it, in place; it becomes a leaf that requires no gradient.  An error for views. */
TD_API int td_detach_history(td_tensor *x) TD_MUST_USE;

/* Gradients of `roots`, accumulated into the leaves' td_grad.  `grads` may be NULL, or hold NULL for roots with one
 * element.  With `create_graph` the backward pass can itself be differentiated; without `retain_graph` what the
 * nodes saved is freed on the way. */
TD_API int td_backward(int n, td_tensor *const *roots, td_tensor *const *grads, bool retain_graph,
                       bool create_graph) TD_MUST_USE;
/* The same, but only the gradients of `inputs` are accumulated, and no more is computed than they need.  Inputs that
 * are no leaves get td_retain_grad. */
TD_API int td_backward_inputs(int n, td_tensor *const *roots, td_tensor *const *grads, int n_inputs,
                              td_tensor *const *inputs, bool retain_graph, bool create_graph) TD_MUST_USE;
/* The same for the gradients of given inputs (all that is needed for them and no more): n_inputs owned
 * references in `results`, NULL where an input is not reached and `allow_unused`. */
TD_API int td_autograd_grad(int n, td_tensor *const *roots, td_tensor *const *grads, int n_inputs,
                            td_tensor *const *inputs, td_tensor **results, bool retain_graph, bool create_graph,
                            bool allow_unused) TD_MUST_USE;

/* The thread's modes; each returns what was set before. */
TD_API bool td_grad_enabled(void);
TD_API bool td_set_grad_enabled(bool on);
TD_API bool td_inference_mode(void);
TD_API bool td_set_inference_mode(bool on);
/* For code that implements an operator, below its gradient: nothing is recorded, although td_grad_enabled says what the
 * program chose. */
TD_API bool td_set_below_autograd(bool on);

#ifdef __cplusplus
}
#endif
#endif
