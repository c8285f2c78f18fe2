/* Gradients of gradients by the autograd engine (double backward of fused kernels).  See recorded.h. */
#include "calls_ops_recorded.h"
#include "ops/compose.h"
#include "ops/recorded.h"

enum { MOST = 8 };

/* Aliases, so that an operand which was computed from another one doesn't lead there.  They record also where only forward mode needs
 * this gradient's derivative. */
static td_tensor *leaf(td_tensor *x)
{
    TD_AUTO td_tensor *own = td_view_as(x, x);
    return own && (td_requires_grad(own) || td_set_requires_grad(own, true) == 0) ? td_ref(own) : NULL;
}

/* The gradients of those leaves that are wanted, in their places; one that doesn't depend on a leaf comes back as TD_NONE.  The graph
 * is kept and recorded itself (create_graph), since these gradients are to be differentiated further. */
static int differentiated(td_recorded *make, const void *context, int n_made, td_tensor *const *grads, int n, td_tensor **leaves,
                          const bool *wants, td_tensor **results)
{
    td_tensor *made[MOST] = {NULL}, *of[MOST], *found[MOST] = {NULL};
    int asked = 0, at = 0;
    for (int i = 0; i < n; i++)
        if (wants[i])
            of[asked++] = leaves[i];
    if (make(made, leaves, context))
        return -1;
    int status = td_autograd_grad(n_made, made, grads, asked, of, found, true, true, true);
    for (int i = 0; i < n_made; i++)
        td_tensor_release(made[i]);
    for (int i = 0; i < n && status == 0; i++) {
        results[i] = wants[i] ? found[at++] : NULL;
        if (!results[i])
            results[i] = td_ref(TD_NONE);
    }
    return status;
}

int td_recorded_gradients(td_recorded *make, const void *context, int n_made, td_tensor *const *grads, int n,
                          td_tensor *const *operands, const bool *wants, td_tensor **results)
{
    td_tensor *leaves[MOST] = {NULL};
    bool before = td_set_grad_enabled(true);
    int status = 0;
    for (int i = 0; i < n && status == 0; i++) {
        leaves[i] = operands[i] == TD_NONE ? td_ref(TD_NONE) : wants[i] ? leaf(operands[i]) : td_ref(operands[i]);
        status = leaves[i] ? 0 : -1;
    }
    if (status == 0)
        status = differentiated(make, context, n_made, grads, n, leaves, wants, results);
    td_set_grad_enabled(before);
    for (int i = 0; i < n; i++)
        td_tensor_release(leaves[i]);
    return status;
}
