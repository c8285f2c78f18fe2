/* Nodes: made in one block, connected to their operands' nodes, freed without recursion.
 *
 * Note [Freeing graphs]
 * A graph may be a chain of a million nodes, so dropping the last reference to its end must not recurse.  A node
 * whose count falls to zero goes to a list of its thread.  Whoever was first there frees the list's nodes one by one; what
 * they hold (nodes, and tensors whose histories are nodes) comes to the same list meanwhile. */
#include "autograd/engine.h"
#include "autograd/hooks.h"
#include "autograd/node.h"
#include "autograd/record.h"
#include "autograd/saved.h"
#include "dispatch/outputs.h"
#include <tede/autograd_nodes.h>

static TD_TLS uint64_t next_sequence;
static TD_TLS td_node *dying;
static TD_TLS bool     draining;

static inline size_t round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

/* One block: the node, edges, saved variables, inputs, and the type's state, aligned to 16. The counts are bounded
 * first, so that no product overflows and the size fits 32 bits. Sequence numbers grow per thread and order the
 * backward pass; accumulators have the highest, to run as soon as they are ready. */
td_node *td_node_new(const td_node_type *type, int n_edges, int n_inputs, int n_saved, size_t state_bytes)
{
    size_t edges = sizeof(td_node), saved, inputs, state, bytes;
    if (TD_UNLIKELY(n_edges > INT32_MAX / 64 || n_inputs > INT32_MAX / 64 || n_saved > INT32_MAX / 64 ||
                    state_bytes > INT32_MAX))
        return td_fail(TD_E_MEMORY, "%s: more operands or results than a node can have", type->name);
    saved  = edges + (size_t)n_edges * sizeof(td_edge);
    inputs = saved + (size_t)n_saved * sizeof(td_saved);
    state  = round_up(inputs + (size_t)n_inputs * sizeof(td_input_meta), 16);
    bytes  = state + state_bytes;
    if (bytes > UINT32_MAX)
        return td_fail(TD_E_MEMORY, "%s: more operands or results than a node can have", type->name);
    char *block = td_mem_alloc(bytes);
    if (TD_UNLIKELY(!block))
        return NULL;
    td_node *node = (td_node *)block;
    node->refcount = 1;
    node->type = type;
    node->sequence = type->flags & TD_NODE_ACCUMULATES ? UINT64_MAX : next_sequence++;
    node->task = NULL;
    node->entry = 0;
    node->n_edges = n_edges;
    node->n_inputs = n_inputs;
    node->n_saved = n_saved;
    node->bytes = (uint32_t)bytes;
    node->released = false;
    node->lock = 0;
    node->edges = (td_edge *)(block + edges);
    node->saved = (td_saved *)(block + saved);
    node->inputs = (td_input_meta *)(block + inputs);
    node->extra = NULL;
    node->state = block + state;
    for (int i = 0; i < n_edges; i++)
        node->edges[i] = (td_edge){NULL, 0};
    for (int i = 0; i < n_saved; i++)
        node->saved[i] = (td_saved){NULL, 0, -1, NULL};
    for (int i = 0; i < n_inputs; i++) {
        node->inputs[i].sizes = node->inputs[i].inline_sizes;
        node->inputs[i].ndim = 0;
        node->inputs[i].defined = false;
    }
    if (state_bytes)
        memset(node->state, 0, state_bytes);
    if (TD_UNLIKELY(td_anomaly_is_on()) && td_anomaly_record(node) != 0) {
        td_node_release(node);
        return NULL;
    }
    return node;
}

td_node *td_node_retain(td_node *node)
{
    if (node)
        __atomic_fetch_add(&node->refcount, 1, __ATOMIC_RELAXED);
    return node;
}

/* Saved variables first, while the state that the type's release_saved looks at is whole. The type's release is
 * last, and may free blocks that replaced the node's arrays (custom.c). */
static void destroy(td_node *node)
{
    td_node_release_saved(node);
    if (node->extra)
        td_node_extra_free(node);
    for (int i = 0; i < node->n_inputs; i++)
        if (node->inputs[i].sizes != node->inputs[i].inline_sizes)
            td_mem_free(node->inputs[i].sizes, (size_t)node->inputs[i].ndim * sizeof(int64_t));
    for (int i = 0; i < node->n_edges; i++)
        td_node_release(node->edges[i].node);
    if (node->type->release)
        node->type->release(node);
    td_mem_free(node, node->bytes);
}

/* See Note [Freeing graphs]. */
static void __attribute__((noinline)) bury(td_node *node)
{
    node->next = dying;
    dying = node;
    if (draining)
        return;
    draining = true;
    while ((node = dying)) {
        dying = node->next;
        destroy(node);
    }
    draining = false;
}

/* The only holder needs no atomic subtraction, since nobody else can retain a node without a reference; acquire
 * orders the other threads' last uses before the destruction. For accumulators see Note [A leaf and its accumulator]. */
void td_node_release(td_node *node)
{
    if (!node)
        return;
    if (TD_UNLIKELY(node->type->flags & TD_NODE_ACCUMULATES)) {
        if (td_accumulator_drop(node))
            bury(node);
    } else if (__atomic_load_n(&node->refcount, __ATOMIC_ACQUIRE) == 1 ||
               __atomic_sub_fetch(&node->refcount, 1, __ATOMIC_ACQ_REL) == 0)
        bury(node);
}

td_node *td_node_hold(td_node *node) { return td_node_retain(node); }
void     td_node_drop(td_node *node) { td_node_release(node); }

/* ---- connecting */

/* Edge i: to the node that made x, at x's number among its results, or to a leaf's accumulator. Views ask first
 * whether their base was written (td_gradient_edge); a tensor without a gradient leaves the edge empty, and its
 * gradient is not wanted. */
int td_node_connect(td_node *node, int i, td_tensor *x)
{
    if (!x || x == TD_NONE)
        return 0;
    td_autograd_meta *meta = x->autograd;
    if (TD_UNLIKELY(x->base != NULL))
        return td_gradient_edge(x, &node->edges[i]);
    if (!meta)
        return 0;
    if (meta->grad_fn)
        node->edges[i] = (td_edge){td_node_retain(meta->grad_fn), meta->output};
    else if (x->flags & TD_FLAG_REQUIRES_GRAD)
        return (node->edges[i].node = td_accumulator(x)) ? 0 : -1;
    return 0;
}

/* Result i as the engine checks its gradient against it: sizes are copied, for x may be resized or freed before the
 * pass. */
int td_describe_input(td_node *node, int i, const td_tensor *x)
{
    td_input_meta *meta = &node->inputs[i];
    int64_t *sizes = meta->inline_sizes;
    if (TD_UNLIKELY(x->ndim > TD_COUNT(meta->inline_sizes)) &&
        !(sizes = td_mem_alloc((size_t)x->ndim * sizeof *sizes)))
        return -1;
    if (meta->sizes != meta->inline_sizes)
        td_mem_free(meta->sizes, (size_t)meta->ndim * sizeof *sizes);
    for (int d = 0; d < x->ndim; d++)
        sizes[d] = x->sizes[d];
    meta->sizes = sizes;
    meta->ndim = (int8_t)x->ndim;
    meta->dtype = x->dtype;
    meta->any_dtype = false;
    meta->device = x->device;
    meta->is_python = x->flags & TD_FLAG_PYTHON;
    meta->defined = true;
    return 0;
}

/* ---- looking at nodes */

uint64_t td_node_sequence(const td_node *node) { return node->sequence; }
uint64_t td_node_next_sequence(void) { return next_sequence; }
void     td_node_set_sequence(td_node *node, uint64_t number) { node->sequence = number; }
int      td_node_inputs(const td_node *node) { return node->n_inputs; }
int      td_node_edges(const td_node *node) { return node->n_edges; }
int td_node_saved_index(const td_node *node, const char *name, int *count)
{
    const char *at = node->type->saved_names;
    size_t length = strlen(name);
    for (int i = 0; at && *at; i++) {
        size_t n = strcspn(at, " *");
        bool list = at[n] == '*';
        if (n == length && !strncmp(at, name, n)) {
            *count = list ? node->n_saved - i : -1;
            return i;
        }
        at += n + list;
        at += *at == ' ';
    }
    return -1;
}

static td_value value_at(const td_saved_value *v, const char *state)
{
    const char *at = state + v->at;
    td_value out = {.kind = (uint8_t)v->kind};
    switch (v->kind) {
    case TD_VALUE_INT:    out.integer = *(const int64_t *)at; break;
    case TD_VALUE_BOOL:   out.integer = *(const bool *)at; break;
    case TD_VALUE_FLOAT:  out.number = *(const double *)at; break;
    case TD_VALUE_SCALAR: out.scalar = *(const td_scalar *)at; break;
    case TD_VALUE_DTYPE:  out.integer = *(const td_dtype *)at; break;
    case TD_VALUE_DEVICE: out.device = *(const td_device *)at; break;
    case TD_VALUE_STRING: out.string = at; break;
    case TD_VALUE_MEMORY_FORMAT: out.integer = *(const td_memory_format *)at; break;
    case TD_VALUE_INTS:
        out.ints = ((const td_ints *)at)->items;
        out.count = (int32_t)((const td_ints *)at)->n;
        break;
    case TD_VALUE_BOOLS:
        out.bools = (const bool *)at;
        out.count = (int32_t)*(const int64_t *)(state + v->given);
        break;
    default: out.kind = TD_VALUE_NONE;
    }
    return out;
}

bool td_node_saved_value(const td_node *node, const char *name, td_value *value)
{
    const td_saved_value *v = node->type->values;
    while (v && v->name && strcmp(v->name, name))
        v++;
    if (!v || !v->name)
        return false;
    bool absent = v->kind != TD_VALUE_BOOLS && v->given >= 0 && !*((const bool *)node->state + v->given);
    *value = absent ? (td_value){.kind = TD_VALUE_NONE} : value_at(v, node->state);
    return true;
}

int      td_node_saved_count(const td_node *node) { return node->n_saved; }

const char *td_node_name(const td_node *node)
{
    return node->type->name;
}

td_node *td_node_edge(const td_node *node, int i, int *input)
{
    if (i < 0 || i >= node->n_edges)
        return NULL;
    if (input)
        *input = node->edges[i].input;
    return node->edges[i].node;
}

int td_node_input_meta(const td_node *node, int i, int *ndim, const int64_t **sizes, td_dtype *dtype, td_device *device)
{
    if (i < 0 || i >= node->n_inputs || !node->inputs[i].defined)
        return -1;
    const td_input_meta *meta = &node->inputs[i];
    *ndim = meta->ndim;
    *sizes = meta->sizes;
    *dtype = meta->dtype;
    *device = meta->device;
    return 0;
}
