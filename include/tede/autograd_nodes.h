/* tede/autograd_nodes.h: the gradient graph from outside: looking at it, hooking into it, adding nodes of your own.
 *
 * Nodes are counted; a node keeps alive all that its gradients flow to.  What is lent here stays valid while you
 * hold the node or tensor that you asked.
 *
 * Callbacks get a context of yours; `drop(context)` is called once when it is no longer needed (either may be NULL).
 * A callback returns 0, or -1 with an error recorded (td_error, td_error_foreign), which ends the backward pass
 * with that error.  No lock of the library is held while one runs, and it may call anything, a backward pass too. */
#ifndef TEDE_AUTOGRAD_NODES_H
#define TEDE_AUTOGRAD_NODES_H
#include <tede/autograd.h>
#ifdef __cplusplus
extern "C" {
#endif

typedef void td_drop(void *context);

/* ---- the graph ------------------------------------------------------------------------------------------------- */

/* Where x came from: the node (an owned reference, NULL for leaves) and which of its results x is.  0 or -1. */
TD_API int td_history(td_tensor *x, td_node **node, int *output) TD_MUST_USE;
/* Where x's gradient goes: as td_history, and for a leaf that requires a gradient its accumulator.  NULL if it goes
 * nowhere. */
TD_API int td_gradient_target(td_tensor *x, td_node **node, int *input) TD_MUST_USE;

/* A tensor that stands for result `input` of node as a root or an input of a backward pass: of its shape, without
 * memory of its own, with that history; the leaf of an accumulator.  An owned reference. */
TD_API td_tensor *td_node_stand_in(td_node *node, int input);

TD_API td_node    *td_node_hold(td_node *node);          /* add a reference; NULL is fine */
TD_API void        td_node_drop(td_node *node);
TD_API const char *td_node_name(const td_node *node);    /* "MulBackward0" */
TD_API uint64_t    td_node_sequence(const td_node *node);
TD_API uint64_t    td_node_next_sequence(void);          /* what the next node of this thread gets */
TD_API int         td_node_inputs(const td_node *node);  /* results of the call = gradients that it takes */
TD_API int         td_node_edges(const td_node *node);   /* operands of the call = gradients that it gives */
/* Edge i: the next node (borrowed; NULL where no gradient is wanted) and the slot there. */
TD_API td_node    *td_node_edge(const td_node *node, int i, int *input);
/* A pass runs ready nodes by descending number. */
TD_API void        td_node_set_sequence(td_node *node, uint64_t number);
/* Of result i: sizes (borrowed), ndim, dtype and device; -1 if that result has no gradient (no error recorded). */
TD_API int         td_node_input_meta(const td_node *node, int i, int *ndim, const int64_t **sizes, td_dtype *dtype,
                                      td_device *device);
/* The leaf of an accumulator ("AccumulateGrad"), borrowed; NULL for other nodes. */
TD_API td_tensor  *td_node_variable(const td_node *node);
TD_API int         td_node_saved_count(const td_node *node);
/* Saved variable i: an owned reference (TD_NONE if there is none); NULL with an error if it is overwritten or freed. */
TD_API td_tensor  *td_node_saved_tensor(td_node *node, int i);
/* The number of the saved variable of this name ("self", "other", "result"); -1 if there is none.  A list ("tensors") has
 * *count variables from there on; for one that is no list *count is -1. */
TD_API int         td_node_saved_index(const td_node *node, const char *name, int *count);
struct td_value;      /* dispatch.h */
/* What the node keeps of the call besides tensors: the number, list or name of this name ("dim", "alpha", "self_sym_sizes"),
 * borrowed.  Of kind TD_VALUE_NONE if it wasn't given; false if the node keeps none of that name. */
TD_API bool        td_node_saved_value(const td_node *node, const char *name, struct td_value *value);
/* Drop what the node saved, as a backward pass without retain_graph does. */
TD_API void        td_node_free_saved(td_node *node);

/* A slot for a binding's object that stands for this node.  The node does not own it: the object holds the node, and
 * empties the slot before it dies. */
TD_API void *td_node_object(const td_node *node);
TD_API int   td_node_set_object(td_node *node, void *object) TD_MUST_USE;
/* A slot for one foreign object that the node owns (Python's node.metadata). */
TD_API void *td_node_metadata(const td_node *node);
TD_API int   td_node_set_metadata(td_node *node, void *metadata, td_drop *drop) TD_MUST_USE;

/* The dtype that leaf x's gradient must have: x's, unless another was set; TD_ANY_DTYPE: it may have any, and comes as it is. */
enum { TD_ANY_DTYPE = -1 };
TD_API int td_grad_dtype(const td_tensor *leaf);
TD_API int td_set_grad_dtype(td_tensor *leaf, int dtype) TD_MUST_USE;
/* Whether x may be written in place by a call that isn't recorded: 0, or -1 with an error. */
TD_API int td_check_write(td_tensor *x) TD_MUST_USE;
/* Leaf x looks at other memory from now on: graphs made later end at a new accumulator, with its own hooks. */
TD_API void td_renew_accumulator(td_tensor *x);

TD_API const char *td_tensor_name(const td_tensor *x);   /* x.name; NULL if it has none */
TD_API int         td_tensor_set_name(td_tensor *x, const char *name) TD_MUST_USE;

/* Calls found(context, leaf) for each leaf that requires a gradient and that gradients of the given tensors flow to (TD_NONE members are
 * passed over), once; the order isn't said. Ends early with -1 if found() does. */
TD_API int td_graph_leaves(int n, td_tensor *const *outputs, int (*found)(void *context, td_tensor *leaf), void *context) TD_MUST_USE;

/* ---- hooks -----------------------------------------------------------------------------------------------------
 *
 * At a node run, in this order: tensor hooks on its results, retained gradients, captured gradients (td_autograd_grad),
 * pre hooks, the node itself, post hooks.  Hooks of one kind run in the order in which they were added.  At a leaf the
 * post hooks are followed by those that wait for the accumulated gradient. */
typedef struct td_hook td_hook;

/* One gradient; set *replacement (NULL at first) to an owned tensor to replace it.  `grad` may be TD_NONE. */
typedef int td_tensor_hook_fn(void *context, td_tensor *grad, td_tensor **replacement);
/* All gradients that a node takes: set members of `replacements` (NULL at first).  grads[i] may be TD_NONE. */
typedef int td_node_pre_hook_fn(void *context, int n, td_tensor *const *grads, td_tensor **replacements);
/* What a node gave, and what it took. */
typedef int td_node_post_hook_fn(void *context, int n_results, td_tensor *const *results, int n_grads,
                                 td_tensor *const *grads, td_tensor **replacements);
typedef int td_leaf_hook_fn(void *context, td_tensor *leaf);

/* Each gives a handle, an owned reference, or NULL with an error (then `drop` was not called).  A handle that is
 * released leaves its hook in place. */
TD_API td_hook *td_tensor_add_hook(td_tensor *x, td_tensor_hook_fn *fn, void *context, td_drop *drop);
TD_API td_hook *td_leaf_add_hook(td_tensor *leaf, td_leaf_hook_fn *fn, void *context, td_drop *drop);
TD_API td_hook *td_node_add_pre_hook(td_node *node, td_node_pre_hook_fn *fn, void *context, td_drop *drop);
TD_API td_hook *td_node_add_post_hook(td_node *node, td_node_post_hook_fn *fn, void *context, td_drop *drop);
TD_API td_hook *td_node_add_tensor_hook(td_node *node, int input, td_tensor_hook_fn *fn, void *context, td_drop *drop);
/* From now on it isn't called; its context is dropped (after the call, if it is running). */
TD_API void     td_hook_remove(td_hook *hook);
TD_API bool     td_hook_is_removed(const td_hook *hook);
TD_API void     td_hook_release(td_hook *hook);
/* Remove all of x's tensor hooks whose context is dropped by `drop`. */
TD_API int      td_tensor_remove_hooks(td_tensor *x, td_drop *drop) TD_MUST_USE;
/* For collectors of cycles: while x and its node belong to the caller alone, each hook of x whose context is dropped by `drop`. */
TD_API void     td_tensor_visit_hooks(const td_tensor *x, td_drop *drop, void (*visit)(td_hook *hook, void *context, void *arg), void *arg);
/* Whether nothing but one reference keeps the node alive; and the hooks of such a node. */
TD_API bool     td_node_is_unshared(const td_node *node);
TD_API void     td_node_visit_hooks(const td_node *node, td_drop *drop, void (*visit)(td_hook *hook, void *context, void *arg), void *arg);
/* The node that made x, borrowed, if nothing but x's one reference keeps it alive; NULL otherwise. */
TD_API td_node *td_tensor_sole_node(const td_tensor *x);
/* Whether what the node saved has been dropped after its last use. */
TD_API bool     td_node_is_released(const td_node *node);
/* Run a single node, outside of a pass: grads has one per input (NULL or TD_NONE: zeros), results is an array of one per edge,
 * which become owned or NULL.  Hooks are not called. */
TD_API int      td_node_call(td_node *node, td_tensor *const *grads, td_tensor **results) TD_MUST_USE;

/* ---- nodes of your own ------------------------------------------------------------------------------------------
 *
 * node = td_node_custom(...) before the forward computation, which usually runs with gradients disabled; then save what
 * the backward computation needs (td_custom_save), and td_custom_outputs makes the results its outputs. */
typedef struct td_custom {
    /* grads: one per output, TD_NONE where undefined unless `materialize`.  results: one per operand, NULL at first, for
     * owned tensors; NULL or TD_NONE means no gradient. */
    int (*apply)(void *context, td_node *node, int n_grads, td_tensor *const *grads, int n_results, td_tensor **results);
    /* Called as saved variables are dropped after the last use; may be NULL. */
    void (*release_saved)(void *context);
    td_drop *drop;
} td_custom;

/* `name` is copied.  An edge per operand: nothing flows to members that are TD_NONE or require no gradient.  With gradients
 * disabled, or when no operand requires one, there is a node all the same; td_custom_wanted says.  `custom` must
 * outlive the node.  NULL with an error (then context is not dropped). */
TD_API td_node *td_node_custom(const td_custom *custom, void *context, const char *name, int n_operands,
                               td_tensor *const *operands);
TD_API void    *td_custom_context(const td_node *node);      /* NULL for nodes that are not custom */
TD_API bool     td_custom_wanted(const td_node *node);
TD_API bool     td_custom_needs(const td_node *node, int operand);
/* Replace what is saved by these.  A result of the node's own (in `outputs`, may be NULL with n_outputs 0) is saved
 * so that it doesn't keep the node alive; TD_NONE members are fine.  Call it after td_custom_outputs. */
TD_API int td_custom_save(td_node *node, int n, td_tensor *const *tensors, int n_outputs,
                          td_tensor *const *outputs) TD_MUST_USE;
/* Zeros in place of undefined gradients; on at first. */
TD_API void td_custom_set_materialize(td_node *node, bool on);
/* This output's gradient stays undefined nevertheless. */
TD_API void td_custom_leave_undefined(td_node *node, int output);

enum { TD_OUTPUT_DIRTY = 1, TD_OUTPUT_NOT_DIFFERENTIABLE = 2 };
/* Make outputs[0..n) the node's results, by the rules of autograd.Function: marks[i] says which were written in place
 * (these must be among the operands) and which have no gradient.  An operand that is returned unchanged becomes a
 * view of itself.  Members are owned by the caller and may be replaced (the old reference dropped); TD_NONE and tensors
 * of integers pass as they are.  With nothing wanted the outputs require no gradient. */
TD_API int td_custom_outputs(td_node *node, int n, td_tensor **outputs, const uint8_t *marks, int n_operands,
                             td_tensor *const *operands) TD_MUST_USE;

/* ---- the gradient of an operator from outside (td_op_define) -----------------------------------------------------------
 *
 * The operator becomes one node.  Its operands are the tensors among its arguments, in the schema's order, members of lists
 * one by one; what it writes (Tensor(a!)) is treated as autograd.Function's dirty outputs are. */
typedef struct td_op_gradient {
    /* After the call: what the backward computation needs, by td_custom_save and in *state (NULL at first).  May be NULL. */
    int (*setup)(void *context, td_node *node, const struct td_value *arguments, const struct td_value *results, void **state);
    /* As td_custom's apply, with the state that setup left. */
    int (*backward)(void *context, void *state, td_node *node, int n_grads, td_tensor *const *grads, int n_results,
                    td_tensor **results);
    td_drop *drop_state;
} td_op_gradient;
/* `op` as in td_op_find; `gradient` and `context` must stay. */
TD_API int td_register_gradient(const char *op, const td_op_gradient *gradient, void *context) TD_MUST_USE;
/* The operator has no gradient that anybody knows of: what it gives for operands that want one warns when a backward pass
 * comes by, unless the operator is made of others, or warnings are off.  Another kernel on its Autograd key takes this one's
 * place. */
TD_API int  td_register_no_gradient(const char *op) TD_MUST_USE;
TD_API void td_warn_without_gradient(bool on);
TD_API bool td_warns_without_gradient(void);

/* ---- the running backward pass, of this thread ------------------------------------------------------------------- */

TD_API bool     td_backward_running(void);
TD_API int64_t  td_backward_id(void);             /* rising, from 0; -1 if none runs */
TD_API bool     td_backward_keeps_graph(void);
TD_API td_node *td_backward_node(void);           /* the node that is being run; borrowed, NULL if none is */
TD_API bool     td_backward_has_inputs(void);     /* the running pass is for given inputs only */
/* Whether the pass will run this node: 1, 0, or -1 with an error outside of one. */
TD_API int      td_backward_will_run(td_node *node);
/* interrupted() is asked by running passes, some times a second, on the thread that began them; when it returns
 * other than 0, with an error recorded, the pass ends with that error.  NULL at first: nobody is asked. */
TD_API void     td_backward_set_interrupt(int (*interrupted)(void));
/* Thread-local state, such as modes, which is to hold on every thread that works for a pass of this one.
 * swap() exchanges the thread's state with a block of `size` bytes.  A thread that takes a copy over has it retained before
 * and released afterwards; both may be NULL, since the thread that began the pass waits and keeps what its state points to.
 * The pass ends with the error of a retain() that returns -1. */
typedef struct td_carried_state {
    size_t size;
    void (*swap)(void *state);
    int  (*retain)(void *state);
    void (*release)(void *state);
} td_carried_state;
TD_API int      td_backward_carry(const td_carried_state *state) TD_MUST_USE;
/* Call fn(context), then drop, at the end of the running pass (of the outermost one, if they are nested). */
TD_API int      td_backward_at_end(int (*fn)(void *context), void *context, td_drop *drop) TD_MUST_USE;

/* ---- saved-tensor hooks, of this thread ------------------------------------------------------------------------------
 *
 * While some are pushed, pack(context, x, &handle) is called for whatever a node saves (x: a detached alias), and the
 * handle is kept instead of x; unpack(context, handle) gives an owned tensor with the same elements. */
typedef struct td_saved_hooks {
    int        (*pack)(void *context, td_tensor *x, void **handle);
    td_tensor *(*unpack)(void *context, void *handle);
    td_drop     *drop_handle;
    td_drop     *drop;
} td_saved_hooks;
/* `hooks` must outlive all nodes; `context` is dropped when popped and the last handle is gone. */
TD_API int  td_saved_hooks_push(const td_saved_hooks *hooks, void *context) TD_MUST_USE;
TD_API void td_saved_hooks_pop(void);
/* Pack what a node has saved already. 0, or -1 with an error: there are hooks on it, it is freed, or pack fails. */
TD_API int  td_node_saved_hooks(td_node *node, int i, const td_saved_hooks *hooks, void *context) TD_MUST_USE;
/* While not NULL, pushing fails with this message (which is copied); returns nothing, NULL allows it again. */
TD_API int         td_saved_hooks_disable(const char *message) TD_MUST_USE;
TD_API const char *td_saved_hooks_disabled(void);          /* the message, or NULL; borrowed */

/* ---- anomaly mode, process wide ------------------------------------------------------------------------------------
 *
 * While it is on, record(node) is called for each new node; the foreign object that it gives (a traceback) belongs to
 * the node.  When a node fails in a backward pass, or with `check_nan` gives NaNs, which is an error then,
 * report(node, record) is called, for it and then for the node during whose run it was made, and so on.  Writes in place
 * are recorded too, as record(NULL): line(record, text) gives the source line of either, for the message about a saved value that
 * was overwritten. */
typedef struct td_anomaly_hooks {
    void *(*record)(td_node *node);
    void  (*report)(td_node *node, void *record, bool is_parent);
    td_drop *drop;
    void  (*line)(void *record, char text[200]);            /* may be NULL */
} td_anomaly_hooks;
TD_API void td_set_anomaly(bool on, bool check_nan, const td_anomaly_hooks *hooks);
TD_API bool td_anomaly(bool *check_nan);
TD_API void *td_node_record(const td_node *node);          /* borrowed; NULL if there is none */

#ifdef __cplusplus
}
#endif
#endif
