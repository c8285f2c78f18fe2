/* What a tensor knows about its gradient.  Made when first needed, freed with the tensor.
 *
 * A leaf's gradient is in `grad`.  A tensor with a history has one only after td_retain_grad, in a box that it
 * shares with the node that made it: neither keeps the other alive. */
#ifndef TD_AUTOGRAD_META_H
#define TD_AUTOGRAD_META_H
#include "autograd/node.h"

typedef struct td_hook td_hook;

/* A reference-counted slot for a gradient, which two hold. */
typedef struct td_grad_box {
    int64_t    refcount;
    td_tensor *grad;
    uint8_t    lock;
} td_grad_box;

struct td_autograd_meta {
    td_tensor   *grad;
    td_tensor   *tangent;           /* forward mode's: transforms/forward.c */
    td_node     *grad_fn;           /* counted */
    td_node     *accumulator;       /* of a leaf: see Note [A leaf and its accumulator] */
    int32_t      output;            /* which result of grad_fn */
    uint32_t     tangent_epoch;
    uint8_t      lock;
    bool         custom_view;       /* a view made inside a custom function: see td_check_inplace */
    bool         own_grad_dtype;    /* the gradient's dtype is not the leaf's but grad_dtype; TD_ANY_DTYPE: whatever comes */
    int8_t       grad_dtype;
    td_grad_box *box;               /* td_retain_grad was called */
    td_hook     *hooks;             /* a leaf's tensor hooks; others' hang on their node */
    td_hook     *accumulated_hooks; /* run after a leaf's gradient was accumulated */
    char        *name;
};

/* x's record, made if there is none; NULL with an error. */
td_autograd_meta *td_autograd_meta_of(td_tensor *x);

/* Where x's gradient goes: its grad_fn or, for a leaf, its accumulator.  An owned reference in edge->node, NULL if x
 * requires no gradient. */
int td_gradient_edge(td_tensor *x, td_edge *edge) TD_MUST_USE;
/* The accumulator of leaf x, shared by all graphs that end at x.  An owned reference. */
td_node *td_accumulator(td_tensor *x);
/* What the accumulator's gradient must look like, once more. */
void td_accumulator_describe(td_node *node, const td_tensor *leaf);
/* If x has one now: an owned reference, or NULL. */
td_node *td_accumulator_if_any(td_tensor *x);
/* The leaf goes away, and with it its accumulator (NULL is fine). */
void td_accumulator_forget(td_node *node);

/* Replace the history of x: what td_set_history and td_rebase_history come down to. */
int td_set_gradient_edge(td_tensor *x, td_node *node, int output) TD_MUST_USE;
/* The history of an alias of what `fn` gave as result number `output`: fn, unless that wrote to a view. */
int td_set_result_history(td_tensor *result, td_node *fn, int output) TD_MUST_USE;
/* What `view` is of its base, of another tensor with the base's sizes, strides and dtype: recorded if gradients are wanted. */
td_tensor *td_view_again(td_tensor *view, td_tensor *base);
int td_describe_input(td_node *node, int i, const td_tensor *x) TD_MUST_USE;

/* *slot += grad for a slot that only this thread can see: in place where nobody else holds *slot's memory, and no graph
 * is made of it.  Takes over `grad`. */
int td_grad_add(td_tensor **slot, td_tensor *grad, bool create_graph) TD_MUST_USE;
/* Nobody but the caller's one reference can see x or its memory. */
bool td_is_exclusive(const td_tensor *x);
/* The sum into a box. Borrows `grad`. */
int  td_grad_box_add(td_grad_box *box, td_tensor *grad, bool create_graph) TD_MUST_USE;
void td_grad_box_release(td_grad_box *box);

static inline bool td_is_differentiable(int dtype) { return dtype >= TD_F16 && dtype <= TD_F4_E2M1FN_X2; }
static inline bool td_same_sizes(int ndim, const int64_t *a, int other_ndim, const int64_t *b)
{
    if (ndim != other_ndim)
        return false;
    for (int d = 0; d < ndim; d++)
        if (a[d] != b[d])
            return false;
    return true;
}

/* Locks of one byte, for a few instructions at a time. */
void td_spin(uint8_t *lock);
static inline void td_lock(uint8_t *lock)
{
    if (TD_UNLIKELY(__atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE)))
        td_spin(lock);
}
static inline void td_unlock(uint8_t *lock) { __atomic_store_n(lock, 0, __ATOMIC_RELEASE); }

/* The node, made by td_node_custom, has n results, of which nothing is known yet. */
int td_custom_make_room(td_node *node, int n) TD_MUST_USE;

#endif
