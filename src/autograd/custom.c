/* User-defined autograd nodes: what autograd.Function is made with.
 *
 * How many results and saved tensors such a node has is known only after the forward computation, so these two arrays
 * are separate blocks here. */
#include "autograd/hooks.h"
#include "autograd/saved.h"

typedef struct custom_state {
    td_node_type     type;              /* its own, for the name */
    const td_custom *custom;
    void            *context;
    bool             no_zeros;
    int32_t          saved_room, input_room;
    char             name[];
} custom_state;

/* Absent gradients are passed as zeros, unless the Function turned that off (set_materialize_grads) or the output
 * never had one; `seen` owns all, so the handler outside may keep or release nothing. */
static int apply(td_node *node, td_tensor *const *grads, td_tensor **results)
{
    custom_state *state = node->state;
    td_tensor *few[16], **seen = few;
    int n = node->n_inputs, status = 0;
    if (n > TD_COUNT(few) && !(seen = td_mem_alloc((size_t)n * sizeof *seen)))
        return -1;
    for (int i = 0; i < n; i++) {
        seen[i] = grads[i] ? td_tensor_retain(grads[i]) : TD_NONE;
        if (!grads[i] && !state->no_zeros && node->inputs[i].defined && status == 0) {
            td_tensor *zeros = td_node_zeros(node, i);
            status = zeros ? 0 : -1;
            seen[i] = zeros ? zeros : TD_NONE;
        }
    }
    if (status == 0)
        status = state->custom->apply(state->context, node, n, seen, node->n_edges, results);
    for (int i = 0; i < n; i++)
        td_tensor_release(seen[i]);
    if (seen != few)
        td_mem_free(seen, (size_t)n * sizeof *seen);
    return status;
}

static void release_saved(td_node *node)
{
    custom_state *state = node->state;
    if (state->custom && state->custom->release_saved)
        state->custom->release_saved(state->context);
}

static void release(td_node *node)
{
    custom_state *state = node->state;
    td_mem_free(state->saved_room ? node->saved : NULL, (size_t)state->saved_room * sizeof *node->saved);
    td_mem_free(state->input_room ? node->inputs : NULL, (size_t)state->input_room * sizeof *node->inputs);
    if (state->custom && state->custom->drop)
        state->custom->drop(state->context);
}

static const td_node_type making = {.name = "custom", .apply = apply, .release = release, .release_saved = release_saved,
                                    .flags = TD_NODE_TAKES_UNDEFINED | TD_NODE_CUSTOM};

/* The type is copied into the node's own state with the name behind it, since each Function has another name.
 * state->custom is set last: until then an error must not drop the caller's context. */
td_node *td_node_custom(const td_custom *custom, void *context, const char *name, int n_operands,
                        td_tensor *const *operands)
{
    size_t length = strlen(name) + 1;
    td_node *node = td_node_new(&making, n_operands, 0, 0, sizeof(custom_state) + length);
    if (!node)
        return NULL;
    custom_state *state = node->state;
    memcpy(state->name, name, length);
    state->type = making;
    state->type.name = state->name;
    node->type = &state->type;
    for (int i = 0; i < n_operands && td_grad_enabled(); i++) {
        if (td_node_connect(node, i, operands[i]) != 0) {
            td_node_release(node);
            return NULL;
        }
    }
    state->custom = custom;             /* from here on the context is the node's */
    state->context = context;
    return node;
}

void *td_custom_context(const td_node *node)
{
    return node->type->flags & TD_NODE_CUSTOM ? ((custom_state *)node->state)->context : NULL;
}

bool td_custom_needs(const td_node *node, int operand)
{
    return operand >= 0 && operand < node->n_edges && node->edges[operand].node;
}

bool td_custom_wanted(const td_node *node)
{
    for (int i = 0; i < node->n_edges; i++)
        if (node->edges[i].node)
            return true;
    return false;
}

void td_custom_set_materialize(td_node *node, bool on) { ((custom_state *)node->state)->no_zeros = !on; }
void td_custom_leave_undefined(td_node *node, int output) { node->inputs[output].defined = false; }

/* Saving again replaces what was saved. A tensor that is one of the outputs is saved as a result, detached, or node
 * and output would hold each other; TD_NONE stands for itself. */
int td_custom_save(td_node *node, int n, td_tensor *const *tensors, int n_outputs, td_tensor *const *outputs)
{
    custom_state *state = node->state;
    td_saved *saved = td_mem_alloc((size_t)n * sizeof *saved);
    if (!saved)
        return -1;
    for (int i = 0; i < n; i++)
        saved[i] = (td_saved){NULL, 0, -1, NULL};
    td_node_release_saved(node);
    td_mem_free(state->saved_room ? node->saved : NULL, (size_t)state->saved_room * sizeof *saved);
    node->saved = saved;
    node->n_saved = n;
    node->released = false;
    state->saved_room = n ? n : 1;
    if (!n) {
        td_mem_free(saved, 0);
        state->saved_room = 0;
    }
    for (int i = 0; i < n; i++) {
        int output = 0, status;
        while (output < n_outputs && (outputs[output] != tensors[i] || tensors[i] == TD_NONE))
            output++;
        status = output < n_outputs ? td_node_save_result(node, i, tensors[i], output)
                                    : td_node_save(node, i, tensors[i]);
        if (status != 0)
            return -1;
    }
    return 0;
}

/* ---- outputs */

static bool is_among(td_tensor *x, int n, td_tensor *const *list)
{
    for (int i = 0; i < n; i++)
        if (list[i] == x)
            return true;
    return false;
}

/* An operand that is returned as it was: a view of itself, not recorded. */
static int view_of_itself(td_tensor **output)
{
    td_tensor *x = *output;
    bool before = td_set_grad_enabled(false);
    td_tensor *view = td_view_strided(x, x->ndim, x->sizes, x->strides, 0);
    td_set_grad_enabled(before);
    if (!view)
        return -1;
    *output = view;
    td_tensor_release(x);
    return 0;
}

/* An output that is marked non-differentiable, or whose Function recorded nothing, must not show the operand's
 * history: an operand comes back as a detached alias (as a view of itself, if it requires no gradient), and a new
 * tensor loses what it recorded inside. */
static int without_gradient(td_tensor **output, bool is_operand, bool dirty)
{
    td_tensor *x = *output;
    if (!td_requires_grad(x))
        return is_operand && !dirty ? view_of_itself(output) : 0;
    if (is_operand) {
        td_tensor *alias = td_alias_detached(x, false);
        if (!alias)
            return -1;
        *output = alias;
        td_tensor_release(x);
        return 0;
    }
    return x->base ? 0 : td_detach_history(x);
}

/* An output that was marked dirty: its history becomes this node, under the rules for in-place writes, even where the
 * forward function ran without gradients. */
static int written(td_node *node, int i, int n, td_tensor *x)
{
    if (!x->base && x->flags & TD_FLAG_REQUIRES_GRAD)
        return td_error(TD_E_RUNTIME, "a leaf Variable that requires grad has been used in an in-place operation.");
    if (x->base && n > 1)
        return td_error(TD_E_RUNTIME, "If your Function modifies inplace an input that is a view of another Tensor, your Function "
                        "cannot return more than one Tensor. This is not supported by the current autograd engine. You should either "
                        "make sure the input is not a view (using .clone() for example) or make your Function only return one Tensor "
                        "(potentially splitting it into two Functions: one doing the inplace that returns a single Tensor and a second "
                        "one that does the other operations). (%s)", td_node_name(node));
    bool before = td_set_grad_enabled(true);
    int status = td_check_inplace(x, td_node_name(node));
    td_set_grad_enabled(before);
    return status == 0 ? td_rebase_history(x, node, i) : -1;
}

int td_custom_make_room(td_node *node, int n)
{
    custom_state *state = node->state;
    td_input_meta *inputs = td_mem_alloc_zero((size_t)(n ? n : 1) * sizeof *inputs);
    if (!inputs)
        return -1;
    for (int i = 0; i < n; i++)
        inputs[i].sizes = inputs[i].inline_sizes;
    node->inputs = inputs;
    node->n_inputs = n;
    state->input_room = n ? n : 1;
    return 0;
}

/* `outputs` are owned by the caller before and after, but members may be replaced (by views or aliases). A view
 * among several differentiable outputs is marked: it may not be written later, as the results of split() may not. */
int td_custom_outputs(td_node *node, int n, td_tensor **outputs, const uint8_t *marks, int n_operands,
                      td_tensor *const *operands)
{
    bool wanted = td_custom_wanted(node);
    if (td_custom_make_room(node, n) != 0)
        return -1;
    int several = 0;
    for (int i = 0; i < n; i++)
        several += outputs[i] != TD_NONE && !(marks && marks[i] & TD_OUTPUT_NOT_DIFFERENTIABLE) && td_is_differentiable(outputs[i]->dtype);
    for (int i = 0; i < n; i++) {
        if (outputs[i] == TD_NONE)
            continue;
        if (td_describe_input(node, i, outputs[i]) != 0)
            return -1;
        int mark = marks ? marks[i] : 0;
        bool dirty = mark & TD_OUTPUT_DIRTY, is_operand = is_among(outputs[i], n_operands, operands);
        bool differentiable = wanted && !(mark & TD_OUTPUT_NOT_DIFFERENTIABLE) && td_is_differentiable(outputs[i]->dtype);
        int status;
        if (!differentiable)
            status = without_gradient(&outputs[i], is_operand, dirty);
        else if (dirty)
            status = written(node, i, n, outputs[i]);
        else if (is_operand && view_of_itself(&outputs[i]) != 0)
            status = -1;
        else {
            td_tensor *x = outputs[i];
            status = td_set_gradient_edge(x, node, i);
            if (status == 0)                /* it may have been made as a leaf */
                x->flags &= (uint16_t)~(TD_FLAG_REQUIRES_GRAD | (x->base ? TD_FLAG_NO_GRAD_VIEW | TD_FLAG_INFERENCE_VIEW : 0));
        }
        if (status == 0 && outputs[i]->base && !(dirty && is_operand)) {
            td_autograd_meta *meta = td_autograd_meta_of(outputs[i]);
            if (!meta)
                return -1;
            meta->custom_view = true;
            outputs[i]->flags |= wanted && several > 1 ? TD_FLAG_MULTI_VIEW : 0;
        }
        if (status != 0)
            return -1;
    }
    return 0;
}
