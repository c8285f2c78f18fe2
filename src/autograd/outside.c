/* Gradients of operators defined at run time: a boxed kernel on the Autograd key that makes a node. */
#include <tede/autograd_nodes.h>
#include <tede/dispatch.h>
#include "autograd/hooks.h"
#include "autograd/node.h"
#include "dispatch/op.h"
#include <stdio.h>
#include <stdlib.h>

/* One per operator, never freed, as its row. */
typedef struct registered {
    const td_op_gradient *gradient;
    void                 *context;
} registered;

/* One per node. */
typedef struct call {
    const registered *of;
    void             *state;
} call;

static int apply(void *context, td_node *node, int n_grads, td_tensor *const *grads, int n_results, td_tensor **results)
{
    call *c = context;
    return c->of->gradient->backward(c->of->context, c->state, node, n_grads, grads, n_results, results);
}
static void drop(void *context)
{
    call *c = context;
    if (c->state && c->of->gradient->drop_state)
        c->of->gradient->drop_state(c->state);
    td_mem_free(c, sizeof *c);
}
static const td_custom custom = {apply, NULL, drop};

/* The tensors among values, counted or written to `list`. */
static int gather(int n, const td_value *values, td_tensor **list)
{
    int count = 0;
    for (int i = 0; i < n; i++) {
        if (values[i].kind == TD_VALUE_TENSOR) {
            if (list)
                list[count] = values[i].tensor;
            count++;
        }
        for (int k = 0; values[i].kind == TD_VALUE_TENSORS && k < values[i].count; k++, count++)
            if (list)
                list[count] = values[i].tensors[k];
    }
    return count;
}

/* Results are the node's outputs from here on; those that were replaced are put back. */
static int connect(const td_op_info *info, td_node *node, int n_operands, td_tensor **operands, td_value *results)
{
    int n = gather(info->n_results, results, NULL), at = 0;
    td_tensor *few[16], **outputs = few;
    uint8_t marks[64] = {0};
    if (n > 64)
        return td_error(TD_E_RUNTIME, "%s: at most 64 results can be recorded", info->name);
    if (n > TD_COUNT(few) && !(outputs = td_mem_alloc((size_t)n * sizeof *outputs)))
        return -1;
    gather(info->n_results, results, outputs);
    for (int i = 0; i < info->n_results; i++) {
        int members = results[i].kind == TD_VALUE_TENSORS ? results[i].count : results[i].kind == TD_VALUE_TENSOR;
        for (int k = 0; k < members; k++, at++)
            marks[at] = info->results[i].is_mutable ? TD_OUTPUT_DIRTY : 0;
    }
    int status = td_custom_outputs(node, n, outputs, marks, n_operands, operands);
    at = 0;
    for (int i = 0; i < info->n_results; i++) {
        if (results[i].kind == TD_VALUE_TENSOR)
            results[i].tensor = outputs[at++];
        for (int k = 0; results[i].kind == TD_VALUE_TENSORS && k < results[i].count; k++)
            ((td_tensor **)results[i].tensors)[k] = outputs[at++];
    }
    if (outputs != few)
        td_mem_free(outputs, (size_t)n * sizeof *outputs);
    return status;
}

/* The node is made before the call, so its edges lead to the operands' histories as they were before the call
 * writes to any; the call runs below autograd. setup() sees results with their history and saves what backward()
 * needs. `c` is the node's from td_node_custom on. */
static int record(const td_op *op, td_keyset keys, const td_value *arguments, td_value *results, void *context)
{
    const registered *of = context;
    const td_op_info *info = &op->info;
    td_keyset below = keys & ~TD_KEYSET(TD_KEY_AUTOGRAD);
    int n = gather(info->n_arguments, arguments, NULL), status;
    td_tensor *few[16], **operands = few;
    if (n > TD_COUNT(few) && !(operands = td_mem_alloc((size_t)n * sizeof *operands)))
        return -1;
    gather(info->n_arguments, arguments, operands);
    if (!td_any_wants_grad(n, operands)) {
        status = td_op_call_keys(op, below, arguments, results);
    } else {
        char name[128];
        snprintf(name, sizeof name, "%sBackward", info->name);
        call *c = td_mem_alloc_zero(sizeof *c);
        td_node *node = c ? td_node_custom(&custom, c, name, n, operands) : NULL;
        if (c && !node)
            td_mem_free(c, sizeof *c);
        status = node ? 0 : -1;
        if (node) {
            c->of = of;
            td_keyset excluded = td_below_autograd();
            status = td_op_call_keys(op, below, arguments, results);
            td_end_below(excluded);
            bool called = status == 0;
            if (called && (status = connect(info, node, n, operands, results)) == 0 && of->gradient->setup)
                status = of->gradient->setup(of->context, node, arguments, results, &c->state);
            if (called && status != 0)
                td_values_release(results, info->n_results);
        }
        td_node_release(node);
    }
    if (operands != few)
        td_mem_free(operands, (size_t)n * sizeof *operands);
    return status;
}

int td_register_gradient(const char *name, const td_op_gradient *gradient, void *context)
{
    registered *of = malloc(sizeof *of);
    if (!of)
        return td_error(TD_E_MEMORY, "no memory to register a gradient for '%s'", name);
    *of = (registered){gradient, context};
    if (td_register_boxed(name, TD_KEY_AUTOGRAD, TD_CPU, record, of) == 0)
        return 0;
    free(of);
    return -1;
}

/* ---- operators without a gradient */

static bool warns = true;
void td_warn_without_gradient(bool on) { __atomic_store_n(&warns, on, __ATOMIC_RELAXED); }
bool td_warns_without_gradient(void) { return __atomic_load_n(&warns, __ATOMIC_RELAXED); }

static int warn_of(const td_op *op)
{
    return td_warn("%s::%s: an autograd kernel was not registered to the Autograd key(s) but we are trying to backprop through it. This "
                   "may lead to silently incorrect behavior. This behavior is deprecated and will be removed in a future version of "
                   "PyTorch. If your operator is differentiable, please ensure you have registered an autograd kernel to the correct "
                   "Autograd key (e.g. DispatchKey::Autograd, DispatchKey::CompositeImplicitAutograd). If your operator is not "
                   "differentiable, or to squash this warning and use the previous behavior, please register "
                   "torch::CppFunction::makeFallthrough() to DispatchKey::Autograd.", op->info.space ? op->info.space : "aten", op->info.name);
}
static int warn_at_tensor(void *op, td_tensor *grad, td_tensor **replacement)
{
    (void)grad, (void)replacement;
    return warn_of(op);
}
static int warn_at_node(void *op, td_node *node, int n_grads, td_tensor *const *grads, int n_results, td_tensor **results)
{
    (void)node, (void)n_grads, (void)grads, (void)n_results, (void)results;
    return warn_of(op);
}
static const td_custom unknown = {warn_at_node, NULL, NULL};

static int hook_on(td_tensor *x, const td_op *op)
{
    td_hook *hook = td_tensor_add_hook(x, warn_at_tensor, (void *)op, NULL);
    td_hook_release(hook);
    return hook ? 0 : -1;
}
/* What the kernel recorded itself gets a hook; else the gradient ends here.  What was written is left as it is. */
static int mark_result(const td_op *op, td_tensor *x, bool written, td_node *node, int output)
{
    if (x == TD_NONE || !td_is_differentiable(x->dtype))
        return 0;
    if (!td_requires_grad(x))
        return written ? 0 : td_set_gradient_edge(x, node, output);
    if (hook_on(x, op) != 0)
        return -1;
    return written && x->base && td_requires_grad(x->base) ? hook_on(x->base, op) : 0;
}

/* PyTorch's fallback of the Autograd key: the call runs with autograd still on, so its parts may record; results that
 * they left without a history get a node that warns when a gradient arrives, and ends there. */
static int without_gradient(const td_op *op, td_keyset keys, const td_value *arguments, td_value *results, void *context)
{
    (void)context;
    td_keyset below = keys & ~TD_KEYSET(TD_KEY_AUTOGRAD);
    td_tensor *operands[64];
    int n = gather(op->info.n_arguments, arguments, NULL);
    if (!td_warns_without_gradient() || n > TD_COUNT(operands) || td_op_has_default(op))
        return td_op_call_keys(op, below, arguments, results);
    gather(op->info.n_arguments, arguments, operands);
    if (!td_any_wants_grad(n, operands))
        return td_op_call_keys(op, below, arguments, results);
    td_node *node = td_node_custom(&unknown, (void *)op, "WarnNotImplemented", n, operands);
    int status = node ? td_op_call_keys(op, below, arguments, results) : -1;
    const bool called = node && status == 0;
    td_tensor *outputs[64];
    bool written[64];
    int m = called ? gather(op->info.n_results, results, NULL) : 0, at = 0;
    if (m <= TD_COUNT(outputs)) {
        gather(m ? op->info.n_results : 0, results, outputs);
        for (int i = 0; i < op->info.n_results && m; i++) {
            int members = results[i].kind == TD_VALUE_TENSORS ? results[i].count : results[i].kind == TD_VALUE_TENSOR;
            for (int k = 0; k < members; k++)
                written[at++] = op->info.results[i].is_mutable;
        }
        status = status == 0 ? td_custom_make_room(node, m) : status;
        for (int i = 0; i < m && status == 0; i++)
            status = outputs[i] == TD_NONE ? 0 : td_describe_input(node, i, outputs[i]) || mark_result(op, outputs[i], written[i], node, i);
    }
    if (called && status != 0)
        td_values_release(results, op->info.n_results);
    td_node_release(node);
    return status == 0 ? 0 : -1;
}

bool td_has_gradient_kernel(const td_op *op)
{
    td_boxed_entry **boxed = __atomic_load_n(&op->boxed, __ATOMIC_ACQUIRE);
    const td_boxed_entry *entry = boxed ? __atomic_load_n(&boxed[TD_SLOT_AUTOGRAD], __ATOMIC_ACQUIRE) : NULL;
    return entry && entry->kernel && entry->kernel != without_gradient;
}

int td_register_no_gradient(const char *op)
{
    return td_register_boxed(op, TD_KEY_AUTOGRAD, TD_CPU, without_gradient, NULL);
}
