/* The gradient of an operator that was defined at run time: a boxed kernel on its Autograd key that makes a node. */
#include <tede/autograd_nodes.h>
#include <tede/dispatch.h>
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

/* Results are the node's outputs from here on; those that were replaced go back to their places. */
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
