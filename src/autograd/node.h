/* Nodes of the gradient graph, and what generated code uses to build them.
 *
 * A node stands for one call.  It has an edge per differentiable operand (in schema order; a list of tensors
 * takes one edge per member), to the node that made the operand, and an input slot per result of the call.
 * apply() gets the results' gradients and returns the operands'.
 *
 * What generated code does around a recorded call, in this order: td_wants_grad of the operands; td_node_new,
 * td_node_connect, td_node_save; for in-place forms td_check_inplace; the kernel, below autograd; then td_set_history
 * (new results) or td_rebase_history (written operands), and td_node_save_result.  An in-place call's own operand is
 * edge 0, its version has been bumped before td_rebase_history, and its result is saved after that.
 *
 * Note [Saved variables]
 * An operand is saved as itself, with the version it had; unpacking it after a write is an error that names
 * both operators.  A result is saved as a detached alias and gets its history back when unpacked, so that node
 * and result don't hold each other alive.  Formulas that need only a shape save the shape, in the node's state.
 *
 * One circle stays, as in PyTorch: a call saves an operand, and a later write to that operand takes in what the
 * call gave (buffer[1] = buffer[0] * w).  Such a graph can't be gone through, since the operand is overwritten; its memory
 * comes back when the buffer is detached in place. */
#ifndef TD_AUTOGRAD_NODE_H
#define TD_AUTOGRAD_NODE_H
#include <tede/autograd.h>
#include "tensor/masks.h"
#include "tensor/tensor.h"

typedef struct td_node_type {
    const char *name;                 /* "MulBackward0" */
    /* grads: one per input slot, borrowed, NULL where undefined (zero).  results: one per edge, initially NULL,
     * to be filled with owned references, NULL or TD_NONE where zero or not wanted.  0, or -1 with an error
     * recorded (then the engine releases what was filled in).  Not called when all of grads are undefined. */
    int (*apply)(td_node *node, td_tensor *const *grads, td_tensor **results);
    /* Drops what `state` owns, when the node is freed; may be NULL. */
    void (*release)(td_node *node);
    /* Called when the saved variables are dropped, after the node's last use in a backward pass without
     * retain_graph, for what else is of no use then; may be NULL.  May be called again, and before release(). */
    void (*release_saved)(td_node *node);
    unsigned flags;                   /* TD_NODE_* */
    const char *saved_names;          /* of the saved variables, with spaces between; NULL: they have none.  "tensors*" at
                                       * the end names all the rest */
    const struct td_saved_value *values;    /* what else is kept, in `state`, by name; ends with a name of NULL; or NULL */
} td_node_type;

/* A number, shape or the like in a node's state: how to read it. */
typedef struct td_saved_value {
    const char *name;
    td_value_kind kind;
    int32_t     at;                   /* where it is in the state: int64_t, double, bool, td_scalar, td_ints, char[], ... */
    int32_t     given;                /* where a bool says whether it was given, or for bools an int64_t how many; -1: none */
} td_saved_value;

enum {
    TD_NODE_TAKES_UNDEFINED = 1,      /* apply() runs even if all its gradients are undefined */
    TD_NODE_ACCUMULATES = 2,          /* the end of the graph at a leaf: accumulate.c */
    TD_NODE_CUSTOM = 4,               /* made from outside: custom.c */
};

typedef struct td_edge {
    td_node *node;                    /* counted; NULL: no gradient wanted */
    int32_t  input;                   /* which of node's input slots */
} td_edge;

typedef struct td_saved {
    td_tensor *tensor;
    uint32_t   version;
    int32_t    output;                /* which result of the node's own call, or one of the below */
    void      *packed;                /* by saved-tensor hooks: saved.c */
} td_saved;

enum {
    TD_SAVED_OPERAND = -1,
    TD_SAVED_RESULT_OF_ANOTHER = -2,  /* an operand with a history, which detach_() may take away meanwhile */
};

/* Shape, dtype and device of a result, to check its gradient and to make zeros. */
typedef struct td_input_meta {
    int64_t  *sizes;                  /* inline_sizes or a block */
    int64_t   inline_sizes[5];
    int8_t    ndim, dtype;
    bool      defined;
    bool      any_dtype;              /* of a leaf's gradient: see td_set_grad_dtype */
    bool      is_python;              /* of a class with __torch_dispatch__: it may live elsewhere than it says */
    td_device device;
} td_input_meta;

typedef struct td_node_extra td_node_extra;   /* hooks, anomaly record, the foreign object: hooks.h */

struct td_node {
    union {
        int64_t     refcount;
        td_node    *next;             /* while it waits to be freed */
    };
    const td_node_type *type;
    uint64_t            sequence;     /* rising with creation, per thread; UINT64_MAX for accumulators */
    void               *task;         /* the running backward pass that has claimed this node, and where it keeps */
    uint32_t            entry;        /* what it knows of it: engine.h */
    int32_t             n_edges, n_inputs, n_saved;
    uint32_t            bytes;        /* of this block */
    bool                released;     /* saved variables are gone */
    uint8_t             lock;         /* over `saved` and `extra` */
    td_edge            *edges;
    td_saved           *saved;
    td_input_meta      *inputs;
    td_node_extra      *extra;
    void               *state;        /* the formula's scalars and shapes: zeroed at first */
};

/* A new node in one allocation; all edges empty. */
td_node *td_node_new(const td_node_type *type, int n_edges, int n_inputs, int n_saved, size_t state_bytes);
td_node *td_node_retain(td_node *node);
void     td_node_release(td_node *node);      /* deep graphs are freed without recursion */

/* Whether a call on these needs a node: gradients are enabled and x requires one.  x may be NULL or TD_NONE. */
static inline bool td_wants_grad(td_tensor *x)
{
    return x && x->keys & TD_KEYSET(TD_KEY_AUTOGRAD) && !td_masks_now.grad_disabled && !td_masks_now.inference &&
           td_requires_grad(x);
}
bool td_any_wants_grad(int n, td_tensor *const *list);

/* Connect edge i to where x's gradient goes (nothing if x wants none or is TD_NONE). */
int  td_node_connect(td_node *node, int i, td_tensor *x) TD_MUST_USE;
static inline bool td_node_wants(const td_node *node, int i) { return node->edges[i].node != NULL; }

int        td_node_save(td_node *node, int i, td_tensor *operand) TD_MUST_USE;    /* TD_NONE is fine */
int        td_node_save_result(td_node *node, int i, td_tensor *result, int output) TD_MUST_USE;
/* An owned reference (TD_NONE if that was saved, or nothing); NULL with an error if it was overwritten or freed. */
td_tensor *td_node_saved(td_node *node, int i);

/* Make `node` the history of x as the node's result number `output` (x must be new: a result, or a view just made).
 * A dtype that has no gradients is an error. */
int td_set_history(td_tensor *x, td_node *node, int output) TD_MUST_USE;
/* Let `copy`, a new tensor with x's elements, have the history that x has now: its gradient goes where x's goes. */
int td_share_history(td_tensor *copy, td_tensor *x) TD_MUST_USE;
/* After an in-place operator on x: its history becomes `node`; if x is a view its base's history is rebased. */
int td_rebase_history(td_tensor *x, td_node *node, int output) TD_MUST_USE;
/* Before an in-place or out= operator that will be recorded (an operand wants a gradient): leaves that require a
 * gradient, and views that must not be written, are errors in PyTorch's words.  `op` names the operator. */
int td_check_inplace(td_tensor *x, const char *op) TD_MUST_USE;
/* Keep in mind that `op` writes x next: for the message when a saved value turns out to be overwritten. */
/* The node that made x; for views, made anew if the base changed.  Borrowed; NULL for leaves, and with an error
 * where a view's history can't be made anew.  td_gradient_fn tells the two apart: 0 or -1. */
td_node *td_grad_fn(td_tensor *x);
int      td_gradient_fn(td_tensor *x, td_node **node) TD_MUST_USE;

/* Zeros for an undefined gradient of result i: a new tensor. */
td_tensor *td_node_zeros(td_node *node, int i);
/* Reduce a gradient to an operand's shape (sum over broadcast dimensions), kind (real part for a real operand)
 * and dtype.  Takes a borrowed grad, returns an owned one. */
td_tensor *td_grad_fit(td_tensor *grad, int ndim, const int64_t *sizes, td_dtype dtype);

/* How to make a view anew that as_strided can't express (another dtype, conj, ...): x->replay points to one.  apply()
 * returns the view of another base of the same geometry and dtype, recorded like any call.  Counted; see td_replay. */
typedef struct td_view_replay {
    td_replay   head;
    td_tensor *(*apply)(struct td_view_replay *replay, td_tensor *base);
} td_view_replay;

/* Run below autograd: the thread's Autograd key is excluded until the guard ends. */
static inline td_keyset td_below_autograd(void)
{
    td_keyset before = td_masks_now.exclude;
    td_masks_now.exclude |= TD_KEYSET(TD_KEY_AUTOGRAD) | TD_KEYSET(TD_KEY_FORWARD_AD);
    return before;
}
static inline void td_end_below(td_keyset before) { td_masks_now.exclude = before; }

#endif
