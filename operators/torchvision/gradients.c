/* Gradients: the operator torchvision::_X_backward, called with what its schema names.
 *
 * Of X's node is kept what arguments of _X_backward have the names of arguments or results of X; `batch_size`, `channels`, `height` and
 * `width` are the sizes of X's first operand, and `grad` is the gradient of X's first result. What _X_backward gives are the gradients of X's
 * first operands, in their order. */
#include "torchvision.h"
#include <stdio.h>

enum { MOST = 20 };
typedef struct call {
    td_value arguments[MOST];       /* of _X_backward; its tensors are saved under their numbers */
} call;
typedef struct gradient {
    char name[40], backward[72];
} gradient;

static int setup(void *context, td_node *node, const td_value *arguments, const td_value *results, void **state)
{
    static const char *const sizes[] = {"batch_size", "channels", "height", "width"};
    const gradient *of = context;
    char name[72];
    snprintf(name, sizeof name, "torchvision::%s", of->name);
    const td_op_info *forward = td_op_describe(td_op_find(name)), *backward = td_op_describe(td_op_find(of->backward));
    td_tensor *saved[MOST];
    call *c = *state = calloc(1, sizeof *c);
    if (!c)
        return td_error(TD_E_MEMORY, "%s: no memory for its backward pass", of->name);
    for (int i = 0; i < backward->n_arguments; i++) {
        const char *wanted = backward->arguments[i].name;
        const int at = td_argument_named(forward, wanted);
        saved[i] = TD_NONE;
        if (at >= 0 && arguments[at].kind == TD_VALUE_TENSOR)
            saved[i] = arguments[at].tensor;
        else if (at >= 0)
            c->arguments[i] = arguments[at];
        else if (backward->arguments[i].kind == TD_VALUE_TENSOR && strcmp(wanted, "grad"))
            saved[i] = results[1].tensor;
        for (int k = 0; k < 4 && at < 0; k++)
            if (!strcmp(wanted, sizes[k]))
                c->arguments[i] = (td_value){.kind = TD_VALUE_INT, .integer = size_of(arguments[0].tensor, k)};
    }
    return td_custom_save(node, backward->n_arguments, saved, forward->n_results > 1, &results[1].tensor);
}

static int run(void *context, void *state, td_node *node, int n_grads, td_tensor *const *grads, int n_results, td_tensor **results)
{
    (void)n_grads;
    const gradient *of = context;
    const td_op *op = td_op_find(of->backward);
    const td_op_info *info = td_op_describe(op);
    td_value arguments[MOST], made[8] = {{0}};
    TD_AUTO_LIST td_tensor_list held = {0};
    if (td_tensor_list_new(&held, info->n_arguments))
        return -1;
    memcpy(arguments, ((call *)state)->arguments, sizeof arguments);
    for (int i = 0; i < info->n_arguments; i++) {
        if (info->arguments[i].kind != TD_VALUE_TENSOR)
            continue;
        held.items[i] = strcmp(info->arguments[i].name, "grad") ? td_node_saved_tensor(node, i) : td_tensor_retain(grads[0]);
        if (!held.items[i])
            return -1;
        arguments[i] = (td_value){.kind = TD_VALUE_TENSOR, .tensor = held.items[i]};
    }
    if (td_op_call(op, arguments, made))
        return -1;
    for (int i = 0; i < info->n_results; i++) {
        if (i < n_results && td_custom_needs(node, i))
            results[i] = made[i].tensor;
        else
            td_tensor_release(made[i].tensor);
    }
    return 0;
}
static const td_op_gradient once = {setup, run, free};

static int refuse(void *context, void *state, td_node *node, int n_grads, td_tensor *const *grads, int n_results, td_tensor **results)
{
    (void)state, (void)node, (void)n_grads, (void)grads, (void)n_results, (void)results;
    return td_error(TD_E_RUNTIME, "double backwards on %s not supported", ((const gradient *)context)->name);
}
static const td_op_gradient twice = {.backward = refuse};

int tv_gradient(const char *name)
{
    char forward[72];
    gradient *g = malloc(sizeof *g);        /* stays, as the operator does */
    if (!g)
        return td_error(TD_E_MEMORY, "torchvision::%s: no memory for its gradient", name);
    snprintf(g->name, sizeof g->name, "%s", name);
    snprintf(g->backward, sizeof g->backward, "torchvision::_%s_backward", name);
    snprintf(forward, sizeof forward, "torchvision::%s", name);
    return td_register_gradient(forward, &once, g) || td_register_gradient(g->backward, &twice, g) ? -1 : 0;
}
