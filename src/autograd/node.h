/* Nodes of the gradient graph, and what generated code uses to build them.
 *
 * A node stands for one call.  It has an edge per differentiable operand (in schema order; a list of tensors
 * takes one edge per member), to the node that made the operand, and an input slot per result of the call.
 * apply() gets the results' gradients and returns the operands'.
 *
 * Note [Saved variables]
 * An operand is saved as itself, with the version it had; unpacking it after a write is an error that names
 * both operators.  A result is saved as a detached alias and gets its history back when unpacked, so that node
 * and result don't hold each other alive.  Formulas that need only a shape save the shape, in the node's state. */
#ifndef TD_AUTOGRAD_NODE_H
#define TD_AUTOGRAD_NODE_H
#include <tede/autograd.h>
#include "dispatch/masks.h"
#include "tensor/tensor.h"

typedef struct td_node_type {
    const char *name;                 /* "MulBackward0" */
    /* grads: one per input slot, borrowed, NULL where undefined (zero).  results: one per edge, initially NULL,
     * to be filled with owned references, NULL where zero or not wanted.  0, or -1 with an error recorded
     * (then the engine releases what was filled in). */
    int (*apply)(td_node *node, td_tensor *const *grads, td_tensor **results);
    /* Drops what `state` owns; may be NULL.  Called when the node is freed or, with the saved variables, after
     * its last use in a backward pass without retain_graph. */
    void (*release)(td_node *node);
} td_node_type;

typedef struct td_edge {
    td_node *node;                    /* counted; NULL: no gradient wanted */
    int32_t  input;                   /* which of node's input slots */
} td_edge;

typedef struct td_saved {
    td_tensor *tensor;
    uint32_t   version;
    int32_t    output;                /* which result of the node's own call; -1: an operand */
    void      *packed;                /* by saved-tensor hooks */
} td_saved;

/* Shape, dtype and device of a result, to check its gradient and to make zeros. */
typedef struct td_input_meta {
    int64_t  *sizes;                  /* inline_sizes or a block */
    int64_t   inline_sizes[5];
    int8_t    ndim, dtype;
    bool      defined;
    td_device device;
} td_input_meta;

typedef struct td_node_extra td_node_extra;   /* hooks, anomaly record, metadata, the Python object: engine.h */

struct td_node {
    int64_t             refcount;
    const td_node_type *type;
    uint64_t            sequence;     /* rising with creation, per thread; UINT64_MAX for accumulators */
    int32_t             n_edges, n_inputs, n_saved;
    bool                released;     /* saved variables are gone */
    td_edge            *edges;
    td_saved           *saved;
    td_input_meta      *inputs;
    td_node_extra      *extra;
    size_t              bytes;        /* of this block */
    void               *state;        /* the formula's scalars and shapes: zeroed at first */
};

/* A new node in one allocation; all edges empty. */
td_node *td_node_new(const td_node_type *type, int n_edges, int n_inputs, int n_saved, size_t state_bytes);
td_node *td_node_retain(td_node *node);
void     td_node_release(td_node *node);      /* deep graphs are freed without recursion */

/* Whether a call on these needs a node: gradients are enabled and x requires one.  x may be NULL or TD_NONE. */
bool td_wants_grad(td_tensor *x);
bool td_any_wants_grad(int n, td_tensor *const *list);

/* Connect edge i to where x's gradient goes (nothing if x wants none or is TD_NONE). */
int  td_node_connect(td_node *node, int i, td_tensor *x) TD_MUST_USE;
static inline bool td_node_wants(const td_node *node, int i) { return node->edges[i].node != NULL; }

int        td_node_save(td_node *node, int i, td_tensor *operand) TD_MUST_USE;    /* TD_NONE is fine */
int        td_node_save_result(td_node *node, int i, td_tensor *result, int output) TD_MUST_USE;
/* An owned reference (TD_NONE if that was saved); NULL with an error if it was overwritten or freed. */
td_tensor *td_node_saved(td_node *node, int i);

/* Make `node` the history of x as the node's result number `output` (x must be new: a result, or a view just made). */
int td_set_history(td_tensor *x, td_node *node, int output) TD_MUST_USE;
/* After an in-place operator on x: its history becomes `node`; if x is a view its base's history is rebased. */
int td_rebase_history(td_tensor *x, td_node *node, int output) TD_MUST_USE;
/* Before an in-place or out= operator while gradients are enabled: leaves that require a gradient, and views that
 * must not be written, are errors in PyTorch's words. `op` names the operator.  */
int td_check_inplace(td_tensor *x, const char *op) TD_MUST_USE;
/* The node that made x; for views, made anew if the base changed.  Borrowed; NULL for leaves.  */
td_node *td_grad_fn(td_tensor *x);

/* Zeros for an undefined gradient of result i: a new tensor. */
td_tensor *td_node_zeros(td_node *node, int i);
/* Reduce a gradient to an operand's shape (sum over broadcast dimensions), kind (real part for a real operand)
 * and dtype.  Takes a borrowed grad, returns an owned one. */
td_tensor *td_grad_fit(td_tensor *grad, int ndim, const int64_t *sizes, td_dtype dtype);

/* Run below autograd: the thread's Autograd key is excluded until the guard ends. */
static inline td_keyset td_below_autograd(void)
{
    td_keyset before = td_masks_now.exclude;
    td_masks_now.exclude |= TD_KEYSET(TD_KEY_AUTOGRAD) | TD_KEYSET(TD_KEY_FORWARD_AD);
    return before;
}
static inline void td_end_below(td_keyset before) { td_masks_now.exclude = before; }

#endif
