/* The backward engine: runs the nodes of the gradient graph in topological order.
 *
 * It runs on the calling thread, but for nodes of accelerators (ready_queues.c).  First it finds all nodes that the roots lead to and counts the edges into each; then it
 * runs nodes that wait for nothing any more, the latest first.  A node's gradients are added up in the pass's own slots until
 * the node is run, so nothing of a pass is left in the graph, and after an error the graph can be gone through again.
 *
 * A node may itself start a pass (checkpointing does).  That is an ordinary call, with separate entries; where such
 * calls would nest too deep for the thread's stack, the pass goes on on a fresh thread, while this one waits.
 *
 * Note [Passes with inputs]
 * Nodes are needed if they lead to an input.  Gradients that arrive at an input are captured after its hooks have run; its
 * node is run only if another input lies behind it.  td_backward_inputs captures nothing: it runs the inputs' nodes, with
 * all their hooks: leaves' accumulate, and inputs with a history keep their gradient (td_retain_grad). */
#include <tede/promotion.h>
#include "autograd/engine.h"
#include "autograd/ready_queues.h"
#include "autograd/modes.h"
#include "autograd/needs.h"
#include "autograd/saved.h"
#include "base/watch.h"
#include "tensor/device.h"
#include <pthread.h>
#include <time.h>

TD_TLS td_task *td_task_now;
TD_TLS td_node *td_node_now;
static TD_TLS int depth;
static int64_t next_id;

enum { MOST_DEPTH = 40 };

/* A caller's arguments. */
typedef struct request {
    int n, n_inputs;
    td_tensor *const *roots, *const *grads, *const *inputs;
    td_tensor **results;                /* NULL: accumulate */
    bool keep, create_graph, allow_unused;
} request;

/* ---- fitting a gradient to the result that it belongs to */

static int fail_shape(const td_node *from, int i, const td_tensor *grad, const td_input_meta *meta)
{
    td_shape_text got, expected;
    return td_error(TD_E_RUNTIME, "Function %s returned an invalid gradient at index %d - got %s but expected shape compatible with %s",
                    from ? td_node_name(from) : "GraphRoot", i, td_shape_str(grad->ndim, grad->sizes, got),
                    td_shape_str(meta->ndim, meta->sizes, expected));
}

/* Whether a tensor of shape `meta` expands to the gradient's shape. */
static bool expands_to(const td_input_meta *meta, const td_tensor *grad)
{
    int missing = grad->ndim - meta->ndim;
    if (missing < 0)
        return false;
    for (int d = 0; d < meta->ndim; d++)
        if (meta->sizes[d] != 1 && meta->sizes[d] != grad->sizes[d + missing])
            return false;
    return true;
}

/* A formula may return the gradient of the broadcast operand: it is summed to the operand's shape, made real for a
 * real operand (the imaginary part has no effect on it) and converted to its dtype. Kept out of line, for most
 * gradients fit. */
static int __attribute__((noinline)) fit(const td_node *from, int i, const td_input_meta *meta, td_tensor **grad)
{
    td_tensor *x = *grad;
    bool sums = !td_same_sizes(meta->ndim, meta->sizes, x->ndim, x->sizes);
    if (sums && !expands_to(meta, x))
        return fail_shape(from, i, x, meta);
    if (x->device.type != meta->device.type || x->device.index != meta->device.index) {
        char expected[32], got[32];
        if (x->ndim != 0 && !meta->is_python && !(x->flags & TD_FLAG_PYTHON))
            return td_error(TD_E_RUNTIME, "Function %s returned an invalid gradient at index %d - expected device %s but got %s",
                            from ? td_node_name(from) : "GraphRoot", i, td_device_str(meta->device, expected),
                            td_device_str(x->device, got));
    }
    if (from && from->type->flags & TD_NODE_CUSTOM && td_dtype_is_complex(x->dtype) && !td_dtype_is_complex(meta->dtype))
        return td_error(TD_E_RUNTIME, "Expected isFloatingType(grad.scalar_type()) || (input_is_complex == grad_is_complex) to be true, "
                        "but got false.  Function %s returned a complex gradient at index %d, whose input is real",
                        td_node_name(from), i);
    td_tensor *fitted = td_grad_fit(x, meta->ndim, meta->sizes, meta->any_dtype ? x->dtype : meta->dtype);
    if (!fitted)
        return -1;
    *grad = fitted;
    td_tensor_release(x);
    return 0;
}

/* Give an owned gradient to a node's slot; with `from` NULL it is a root's. */
static int deliver(td_task *task, const td_node *from, int i, const td_edge *edge, td_entry *to, td_tensor *grad)
{
    if (TD_UNLIKELY(edge->input >= to->node->n_inputs)) {
        td_tensor_release(grad);
        return td_error(TD_E_RUNTIME, "%s has no result %d", td_node_name(to->node), edge->input);
    }
    const td_input_meta *meta = &to->node->inputs[edge->input];
    if (TD_LIKELY(meta->defined)) {
        bool fits = grad->dtype == meta->dtype && grad->device.type == meta->device.type &&
                    grad->device.index == meta->device.index &&
                    td_same_sizes(meta->ndim, meta->sizes, grad->ndim, grad->sizes);
        if (TD_UNLIKELY(!fits) && fit(from, i, meta, &grad) != 0) {
            td_tensor_release(grad);
            return -1;
        }
    }
    return td_grad_add(&task->slots[to->first + (uint32_t)edge->input], grad, task->create_graph);
}

/* ---- running one node */

static void drop_results(td_tensor **results, int n)
{
    for (int i = 0; i < n; i++)
        td_tensor_release(results[i]);
}

static int check_nan(td_node *node, td_tensor *const *results)
{
    bool check;
    if (!td_anomaly(&check) || !check)
        return 0;
    for (int i = 0; i < node->n_edges; i++) {
        td_tensor *x = results[i];
        int found = x && x != TD_NONE ? td_need_has_nan(x) : 0;
        if (found < 0)
            return -1;
        if (found)
            return td_error(TD_E_RUNTIME, "Function '%s' returned nan values in its %dth output.", td_node_name(node), i);
    }
    return 0;
}

/* Hooks on the node's results, and gradients that tensors keep. */
static int run_tensor_hooks(td_task *task, td_node *node, td_tensor **grads)
{
    if (node->type->flags & TD_NODE_ACCUMULATES)
        return td_accumulator_run_hooks(node, false, grads);
    td_node_extra *extra = td_node_extra_now(node);
    if (TD_LIKELY(!extra))
        return 0;
    if (td_node_has_hooks(node))
        for (int i = 0; i < node->n_inputs; i++)
            if (td_hooks_run_tensor(&node->lock, &extra->hooks, i, &grads[i]) != 0)
                return -1;
    return __atomic_load_n(&extra->retained, __ATOMIC_ACQUIRE) ? td_node_run_retained(node, grads, task->create_graph) : 0;
}

static int apply(td_task *task, td_node *node, td_tensor **grads, td_tensor **results)
{
    bool hooked = td_node_has_hooks(node), any = node->type->flags & TD_NODE_TAKES_UNDEFINED;
    int status = 0;
    if (TD_UNLIKELY(hooked))
        status = td_hooks_run_pre(node, node->n_inputs, grads);
    for (int i = 0; i < node->n_inputs && !any; i++)
        any = grads[i] != NULL;
    if (any && status == 0) {
        if (node->type->flags & TD_NODE_ACCUMULATES) {
            status = td_accumulate(node, grads, task->create_graph);
            if (TD_UNLIKELY(hooked) && status == 0 && !grads[0])
                status = td_accumulator_adopted(node, &grads[0]);
            if (status == 0)
                status = td_accumulator_run_hooks(node, true, NULL);
        } else {
            status = node->type->apply(node, grads, results);
        }
        if (TD_UNLIKELY(status == 0 && td_anomaly_is_on()))
            status = check_nan(node, results);
    }
    /* What was saved may have hooked the node: then the formula had the gradients alone, and such hooks see none, as in PyTorch. */
    if (TD_UNLIKELY(td_node_has_hooks(node)) && status == 0)
        status = td_hooks_run_post(node, node->n_edges, results, hooked ? node->n_inputs : 0, grads);
    if (TD_UNLIKELY(status != 0) && td_anomaly_is_on())
        td_anomaly_report(node);
    return status;
}

/* A node called by hand (grad_fn(...)): no hooks and no fitting, and gradients are retained, so that apply() may
 * overwrite its list. */
int td_node_call(td_node *node, td_tensor *const *grads, td_tensor **results)
{
    td_tensor *few[16], **own = few;
    int status = 0, n = node->n_inputs;
    if (n > TD_COUNT(few) && !(own = td_mem_alloc((size_t)n * sizeof *own)))
        return -1;
    for (int i = 0; i < n; i++)
        own[i] = grads[i] && grads[i] != TD_NONE ? td_tensor_retain(grads[i]) : NULL;
    for (int i = 0; i < node->n_edges; i++)
        results[i] = NULL;
    if (node->type->flags & TD_NODE_ACCUMULATES)
        status = own[0] ? td_accumulate(node, own, td_grad_enabled()) : 0;
    else
        status = node->type->apply(node, own, results);
    for (int i = 0; i < n; i++)
        td_tensor_release(own[i]);
    if (own != few)
        td_mem_free(own, (size_t)n * sizeof *own);
    return status;
}

/* The order is PyTorch's: hooks of tensors, captures, pre-hooks, the formula, post-hooks. Then gradients and,
 * unless the graph is kept, saved variables are dropped before the results are delivered, so that the peak of
 * memory stays low. An edge without a gradient counts as delivered all the same, or its node would wait for ever.
 * With devices the pass's lock guards slots, counts and queues, not the formulas. */
int td_task_run_node(td_task *task, uint32_t index, td_tensor **results)
{
    td_entry *entry = &task->entries[index];
    td_node *node = entry->node;
    td_tensor **grads = &task->slots[entry->first];
    td_node_now = node;
    if (run_tensor_hooks(task, node, grads) != 0)
        return -1;
    for (int c = entry->capture; c >= 0; c = task->captures[c].next)
        if (task->captures[c].result >= 0)
            task->captured[task->captures[c].result] = td_tensor_retain(grads[task->captures[c].slot]);
    bool runs = !task->restricted || entry->needed;
    int n = runs ? node->n_edges : 0, i = 0;
    for (int e = 0; e < n; e++)
        results[e] = NULL;
    TD_EMIT(.kind = TD_EVENT_NODE, .name = td_node_name(node), .pointer = node, .numbers = {(int64_t)node->sequence});
    int status = runs ? apply(task, node, grads, results) : 0;
    for (int g = 0; g < node->n_inputs; g++) {
        td_tensor_release(grads[g]);
        grads[g] = NULL;
    }
    if (TD_UNLIKELY(status != 0)) {
        drop_results(results, n);
        return -1;
    }
    TD_EMIT(.kind = TD_EVENT_NODE_END, .name = td_node_name(node), .pointer = node,
            .numbers = {runs && !task->keep ? node->n_saved : 0});
    if (runs && !task->keep)
        td_node_release_saved(node);
    if (TD_UNLIKELY(task->devices != NULL))
        td_pass_lock(task);
    for (; i < n && status == 0; i++) {
        td_tensor *grad = results[i];
        const td_edge *edge = &node->edges[i];
        results[i] = NULL;
        if (grad == TD_NONE)
            grad = NULL;
        if (!edge->node) {
            td_tensor_release(grad);
            continue;
        }
        uint32_t to = td_task_find(task, edge->node);
        td_entry *next = &task->entries[to];
        if (task->restricted && !next->needed && next->capture < 0)
            td_tensor_release(grad);
        else if (grad)
            status = deliver(task, node, i, edge, next, grad);
        if (--next->dependencies == 0 && status == 0 && (!task->restricted || next->needed || next->capture >= 0))
            status = TD_UNLIKELY(task->devices != NULL) ? td_ready_push(task, to) : td_task_push(task, to);
    }
    if (TD_UNLIKELY(task->devices != NULL))
        td_pass_unlock(task);
    drop_results(results, n);
    return status;
}

/* ---- a whole pass */

static td_tensor *root_gradient(const request *r, int i)
{
    td_tensor *root = r->roots[i], *grad = r->grads ? r->grads[i] : NULL;
    if (grad && grad != TD_NONE) {
        if (!td_same_sizes(root->ndim, root->sizes, grad->ndim, grad->sizes)) {
            td_shape_text got, expected;
            return td_fail(TD_E_RUNTIME, "Mismatch in shape: grad_output[%d] has a shape of torch.Size(%s) and output[%d] has a shape of "
                           "torch.Size(%s).", i, td_shape_str(grad->ndim, grad->sizes, got), i,
                           td_shape_str(root->ndim, root->sizes, expected));
        }
        if (td_dtype_is_complex(root->dtype) != td_dtype_is_complex(grad->dtype))
            return td_fail(TD_E_RUNTIME, "For complex Tensors, both grad_output and output are required to have the same dtype. Mismatch "
                           "in dtype: grad_output[%d] has a dtype of torch.%s and output[%d] has a dtype of torch.%s.", i,
                           td_dtype_name(grad->dtype), i, td_dtype_name(root->dtype));
        return td_tensor_retain(grad);
    }
    if (root->numel != 1)
        return td_fail(TD_E_RUNTIME, "grad can be implicitly created only for scalar outputs");
    if (!td_dtype_is_floating(root->dtype))
        return td_fail(TD_E_RUNTIME, "grad can be implicitly created only for real scalar outputs but got torch.%s",
                       td_dtype_name(root->dtype));
    return td_need_ones_like(root);
}

static int seed(td_task *task, const request *r)
{
    static const char nowhere[] = "element %d of tensors does not require grad and does not have a grad_fn";
    for (int i = 0; i < r->n; i++) {
        td_tensor *root = r->roots[i];
        td_edge edge;
        if (!root || root == TD_NONE || !td_requires_grad(root))
            return td_error_code() != TD_OK && !root ? -1 : td_error(TD_E_RUNTIME, nowhere, i);
        td_tensor *grad = root_gradient(r, i);
        if (!grad)
            return -1;
        int found = td_gradient_edge(root, &edge);
        if (found == 0 && !edge.node)
            found = td_error(TD_E_RUNTIME, nowhere, i);
        uint32_t entry = found == 0 ? td_task_add(task, edge.node) : UINT32_MAX;
        if (entry != UINT32_MAX && deliver(task, NULL, i, &edge, &task->entries[entry], grad) != 0)
            entry = UINT32_MAX;
        else if (entry == UINT32_MAX)
            td_tensor_release(grad);
        /* Until the end the graph is held by the caller's roots, or, if a hook lets go of those, by these. */
        td_node_release(task->root_nodes[i]);
        task->root_nodes[i] = edge.node;
        if (entry == UINT32_MAX)
            return -1;
    }
    return 0;
}

/* See Note [Passes with inputs]. */
static int mark_inputs(td_task *task, const request *r)
{
    for (int i = 0; i < r->n_inputs; i++) {
        td_tensor *input = r->inputs[i];
        td_node *node;
        if (!input || input == TD_NONE || !td_requires_grad(input))
            return td_error(TD_E_RUNTIME, "One of the differentiated Tensors does not require grad");
        if (td_gradient_fn(input, &node) != 0)
            return -1;
        int slot = node ? input->autograd->output : 0;
        node = node ? td_node_retain(node) : td_accumulator_if_any(input);
        uint32_t entry = node ? td_task_find(task, node) : UINT32_MAX;
        td_node_release(node);
        if (entry == UINT32_MAX)
            continue;
        task->captures[i] = (td_capture){task->entries[entry].capture, slot, r->results ? i : -1};
        if (r->results)
            task->entries[entry].capture = i;
        else
            task->entries[entry].needed = true;
    }
    return td_task_restrict(task);
}

/* The check comes first, so that either all results are handed out or none. */
static int hand_out(td_task *task, const request *r)
{
    for (int i = 0; i < r->n_inputs; i++)
        if (!task->captured[i] && !r->allow_unused)
            return td_error(TD_E_RUNTIME, "The differentiated Tensor at index %d appears to not have been used in the graph. Set "
                            "allow_unused=True if this is the desired behavior.", i);
    for (int i = 0; i < r->n_inputs; i++) {
        r->results[i] = task->captured[i];
        task->captured[i] = NULL;
    }
    return 0;
}

static int run_at_end(td_task *task)
{
    int status = 0;
    for (int i = 0; i < task->n_at_end && status == 0; i++)     /* callbacks may queue more */
        status = task->at_end[i].fn(task->at_end[i].context);
    return status;
}

/* ---- interrupts: a coarse clock costs a few nanoseconds per node, and is right for nodes of any length */

static int (*interrupted)(void);

void td_backward_set_interrupt(int (*ask)(void)) { __atomic_store_n(&interrupted, ask, __ATOMIC_RELEASE); }

enum { ASK_EVERY = 100000000 };     /* nanoseconds */

static int ask_now_and_then(int64_t *due)
{
    int (*ask)(void) = __atomic_load_n(&interrupted, __ATOMIC_RELAXED);
    struct timespec t;
    if (!ask)
        return 0;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
    int64_t now = (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
    if (TD_LIKELY(now < *due))
        return 0;
    bool first = *due == 0;
    *due = now + ASK_EVERY;
    return first ? 0 : ask();
}

/* The roots' nodes are in the heap; they go to their devices' ready queues. */
static int run_on_devices(td_task *task)
{
    uint32_t n = task->n_ready, few[16], *first = n > TD_COUNT(few) ? td_mem_alloc(n * sizeof *first) : few;
    if (!first)
        return -1;
    for (uint32_t i = 0; i < n; i++)
        first[i] = td_task_pop(task);
    td_left_region left;
    int status = td_leave_region(&left) ? -1 : td_ready_run(task, first, n, ask_now_and_then);
    td_return_to_region(&left);
    if (first != few)
        td_mem_free(first, n * sizeof *first);
    return status;
}

/* Roots are the first entries, for seed() adds them before the search does any. One that another root leads to waits
 * for it as any node does. */
static int run(td_task *task, const request *r)
{
    int64_t due = 0;
    if (seed(task, r) != 0 || td_task_discover(task) != 0)
        return -1;
    if (task->restricted && mark_inputs(task, r) != 0)
        return -1;
    for (uint32_t i = 0; i < task->n_entries && i < (uint32_t)r->n; i++) {      /* only roots can wait for nothing */
        const td_entry *entry = &task->entries[i];
        bool wanted = !task->restricted || entry->needed || entry->capture >= 0;
        if (entry->dependencies == 0 && wanted && td_task_push(task, i) != 0)
            return -1;
    }
    if (TD_UNLIKELY(__atomic_load_n(&td_any_device, __ATOMIC_RELAXED) && task->n_ready > 0) && td_ready_wanted(task)) {
        if (run_on_devices(task) != 0)
            return -1;
    }
    while (task->n_ready > 0)
        if (td_task_run_node(task, td_task_pop(task), task->results) != 0 || TD_UNLIKELY(ask_now_and_then(&due) != 0))
            return -1;
    td_node_now = NULL;
    if (run_at_end(task) != 0)
        return -1;
    return r->results ? hand_out(task, r) : 0;
}

/* The thread's state (modes, running node, hooks for saved tensors, the outer pass) is put back whatever happens.
 * What fits 32 pointers lies on the stack: passes of a few roots need no block. Contexts of callbacks are dropped
 * once the task is freed. */
static int pass(const request *r)
{
    td_task task;
    td_task_init(&task);
    size_t bytes = (size_t)r->n * sizeof(td_node *) +
                   (size_t)r->n_inputs * (sizeof(td_tensor *) + sizeof(td_capture));
    void *few[32], *block = few;
    if (bytes > sizeof few && !(block = td_mem_alloc(bytes)))
        return -1;
    memset(block, 0, bytes);
    task.root_nodes = block;
    task.captured = (td_tensor **)(task.root_nodes + r->n);
    task.captures = (td_capture *)(task.captured + r->n_inputs);
    task.outer = td_task_now;
    task.id = __atomic_fetch_add(&next_id, 1, __ATOMIC_RELAXED);
    task.keep = r->keep;
    task.create_graph = r->create_graph;
    task.restricted = r->inputs != NULL;

    td_thread_state modes = td_masks_now;
    td_node *running = td_node_now;
    void    *saved_hooks = td_saved_hooks_top();
    td_masks_now.inference = false;
    td_masks_now.include &= ~TD_KEYSET(TD_KEY_PROMOTION);      /* formulas are written for PyTorch's rules */
    td_set_grad_enabled(r->create_graph);
    td_task_now = &task;
    depth++;
    int status = run(&task, r);
    depth--;
    td_task_now = task.outer;
    td_node_now = running;
    td_masks_now = modes;
    td_saved_hooks_unwind(saved_hooks);             /* those that hooks have pushed and left there */

    td_task_free(&task);
    for (int i = 0; i < task.n_at_end; i++)
        if (task.at_end[i].drop)
            task.at_end[i].drop(task.at_end[i].context);
    td_mem_free(task.at_end, (size_t)task.n_at_end * sizeof *task.at_end);
    for (int i = 0; i < r->n_inputs; i++)
        td_tensor_release(task.captured[i]);
    for (int i = 0; i < r->n; i++)
        td_node_release(task.root_nodes[i]);
    if (block != few)
        td_mem_free(block, bytes);
    return status;
}

/* ---- passes within passes within ...: see the top.  The thread's modes come along, and its error goes back. */

typedef struct relay {
    const request  *request;
    td_task        *outer;
    td_modes        modes;
    int             status;
    void           *error;              /* of td_error_detach */
} relay;

static void *relay_run(void *argument)
{
    relay *r = argument;
    td_modes none;
    td_task_now = r->outer;
    r->status = td_modes_enter(&r->modes, &none);
    if (r->status == 0) {
        r->status = pass(r->request);
        td_modes_leave(&r->modes, &none);
    }
    td_task_now = NULL;
    if (r->status != 0)
        r->error = td_error_detach();
    return NULL;
}

static int pass_on_fresh_thread(const request *request)
{
    relay r = {.request = request, .outer = td_task_now};
    td_left_region left;
    if (td_leave_region(&left))
        return -1;
    td_modes_copy(&r.modes);
    pthread_t thread;
    const bool made = pthread_create(&thread, NULL, relay_run, &r) == 0;
    if (made)
        pthread_join(thread, NULL);
    td_return_to_region(&left);
    if (!made)
        return td_error(TD_E_RUNTIME, "backward: passes are nested %d deep, and no thread can be made for another", depth);
    return r.status == 0 ? 0 : td_error_attach(r.error);
}

static int start(const request *r)
{
    return depth < MOST_DEPTH ? pass(r) : pass_on_fresh_thread(r);
}

int td_backward(int n, td_tensor *const *roots, td_tensor *const *grads, bool retain_graph, bool create_graph)
{
    return start(&(request){.n = n, .roots = roots, .grads = grads, .keep = retain_graph, .create_graph = create_graph});
}

int td_backward_inputs(int n, td_tensor *const *roots, td_tensor *const *grads, int n_inputs, td_tensor *const *inputs,
                       bool retain_graph, bool create_graph)
{
    if (n_inputs <= 0)
        return td_error(TD_E_RUNTIME, "'inputs' argument to backward cannot be empty.");
    for (int i = 0; i < n_inputs; i++)
        if (td_retain_grad(inputs[i]) != 0)
            return -1;
    return start(&(request){.n = n, .roots = roots, .grads = grads, .n_inputs = n_inputs, .inputs = inputs,
                            .keep = retain_graph, .create_graph = create_graph});
}

int td_autograd_grad(int n, td_tensor *const *roots, td_tensor *const *grads, int n_inputs, td_tensor *const *inputs,
                     td_tensor **results, bool retain_graph, bool create_graph, bool allow_unused)
{
    for (int i = 0; i < n_inputs; i++)
        results[i] = NULL;
    if (n_inputs <= 0)
        return td_error(TD_E_RUNTIME, "`inputs` argument to `grad()` cannot be empty.");
    return start(&(request){.n = n, .roots = roots, .grads = grads, .n_inputs = n_inputs, .inputs = inputs,
                            .results = results, .keep = retain_graph, .create_graph = create_graph,
                            .allow_unused = allow_unused});
}

/* ---- looking at the running pass */

bool     td_backward_running(void) { return td_task_now != NULL; }
int64_t  td_backward_id(void) { return td_task_now ? td_task_now->id : -1; }
bool     td_backward_keeps_graph(void) { return td_task_now && td_task_now->keep; }
bool     td_backward_has_inputs(void) { return td_task_now && td_task_now->restricted; }
td_node *td_backward_node(void) { return td_task_now ? td_node_now : NULL; }

int td_backward_will_run(td_node *node)
{
    td_task *task = td_task_now;
    if (!task)
        return td_error(TD_E_RUNTIME, "_get_should_execute_nodes should only be called during the backward pass");
    uint32_t at = td_task_find(task, node);
    if (at == UINT32_MAX || !task->restricted)
        return at != UINT32_MAX;
    const td_entry *entry = &task->entries[at];
    if (entry->capture >= 0 && node->type->flags & TD_NODE_ACCUMULATES)
        return td_error(TD_E_RUNTIME, "A leaf node was passed to _will_engine_execute_node but we are currently running "
                        "autograd.grad(). This is currently not supported.");
    return entry->needed || entry->capture >= 0;
}

int td_backward_at_end(int (*fn)(void *context), void *context, td_drop *drop)
{
    td_task *task = td_task_now;
    if (!task)
        return td_error(TD_E_RUNTIME, "Final callbacks can only be installed during backward pass.");
    while (task->outer)
        task = task->outer;
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;        /* workers of a pass may come here at once */
    size_t size = sizeof *task->at_end;
    pthread_mutex_lock(&lock);
    td_at_end *more = td_mem_realloc(task->at_end, (size_t)task->n_at_end * size, ((size_t)task->n_at_end + 1) * size);
    if (more) {
        task->at_end = more;
        more[task->n_at_end++] = (td_at_end){fn, context, drop};
    }
    pthread_mutex_unlock(&lock);
    return more ? 0 : -1;
}
