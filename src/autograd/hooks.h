/* Hooks, and the rest that a node has only sometimes.
 *
 * A hook is counted: its list, its handles and the pass that is running it hold it.  Lists are copied under their
 * owner's lock before the hooks are called without it.  A removed hook stays in its list until the next append sweeps it out. */
#ifndef TD_AUTOGRAD_HOOKS_H
#define TD_AUTOGRAD_HOOKS_H
#include <tede/autograd_nodes.h>
#include "autograd/meta.h"

typedef enum td_hook_kind { TD_HOOK_TENSOR, TD_HOOK_LEAF, TD_HOOK_PRE, TD_HOOK_POST } td_hook_kind;

struct td_hook {
    int64_t  refcount;
    td_hook *next;              /* in its list */
    uint8_t  kind, lock;
    bool     removed;
    int32_t  running;           /* under lock: calls in progress */
    int32_t  input;             /* of a tensor hook on a node */
    union {
        td_tensor_hook_fn    *tensor;
        td_leaf_hook_fn      *leaf;
        td_node_pre_hook_fn  *pre;
        td_node_post_hook_fn *post;
    };
    void    *context;
    td_drop *drop;
};

/* A result of the node that keeps its gradient. */
typedef struct td_retained {
    struct td_retained *next;
    td_grad_box        *box;
    int32_t             input;
} td_retained;

struct td_node_extra {
    td_hook     *hooks;
    td_retained *retained;
    void        *object;        /* weak */
    void        *metadata;
    td_drop     *drop_metadata;
    void        *record;        /* by anomaly mode */
    td_drop     *drop_record;
    td_node     *parent;        /* counted: the node during whose run this one was made */
    td_node     *copy_slices;   /* weak: of the node of a write to a view: see Note [Writing to a view] */
};

td_node_extra *td_node_extra_of(td_node *node);        /* made if there is none; NULL with an error */
/* NULL if there is none.  Any thread may add it, or hooks to it, at any time. */
static inline td_node_extra *td_node_extra_now(const td_node *node) { return __atomic_load_n(&node->extra, __ATOMIC_ACQUIRE); }
static inline bool td_node_has_hooks(const td_node *node)
{
    const td_node_extra *extra = td_node_extra_now(node);
    return extra && __atomic_load_n(&extra->hooks, __ATOMIC_ACQUIRE);
}
void td_node_extra_free(td_node *node);

/* Free a list whose owner goes away. */
void td_hooks_free(td_hook *list);
/* Run the tensor hooks of a list that are for `input`: *grad (owned, may be NULL) is replaced by what they give. */
int td_hooks_run_tensor(uint8_t *lock, td_hook **list, int input, td_tensor **grad);
int td_hooks_run_leaf(uint8_t *lock, td_hook **list, td_tensor *leaf);
int td_hooks_run_pre(td_node *node, int n, td_tensor **grads);
int td_hooks_run_post(td_node *node, int n_results, td_tensor **results, int n_grads, td_tensor *const *grads);

/* result number `input` of node keeps its gradient in box (which is retained), or does so no more. */
int  td_node_keep_grad(td_node *node, int input, td_grad_box *box);
void td_node_forget_grad(td_node *node, td_grad_box *box);
int  td_node_run_retained(td_node *node, td_tensor *const *grads, bool create_graph);

/* ---- anomaly mode */
extern bool td_anomaly_on;
static inline bool td_anomaly_is_on(void) { return __atomic_load_n(&td_anomaly_on, __ATOMIC_RELAXED); }
int  td_anomaly_record(td_node *node);                  /* called by td_node_new while it is on */
void td_anomaly_report(td_node *node);
const td_anomaly_hooks *td_anomaly_hooks_now(void);     /* NULL while it is off */

/* Whether somebody registered a kernel for the operator on the Autograd key, other than td_register_no_gradient: outside.c. */
bool td_has_gradient_kernel(const td_op *op);

#endif
