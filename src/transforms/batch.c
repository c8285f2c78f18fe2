/* A call at a vmap level: which rule, and what rules have in common.  See Note [Batching rules]. */
#include "calls_transforms_batch.h"
#include "transforms/batch.h"
#include <assert.h>
#include <stdio.h>

/* Borrowed. A tensor that is not wrapped at this level is what all members share: it is its own physical tensor.
 * Wrappers of outer levels stay as they are, for the rule runs below this level only. */
td_tensor *td_physical(const td_batch *b, td_tensor *x, int *dim)
{
    td_wrapped *w = x != TD_NONE ? td_wrapped_at(x, b->level) : NULL;
    *dim = w ? w->dim : -1;
    return w ? w->value : x;
}

/* A view: the other dimensions keep their order, so that logical dimension d is physical dimension d + 1. */
td_tensor *td_front(const td_batch *b, td_tensor *x)
{
    int dim;
    x = td_physical(b, x, &dim);
    if (dim <= 0)
        return td_tensor_retain(x);
    int64_t order[TD_MAX_DIMS];
    order[0] = dim;
    for (int d = 0, k = 1; d < x->ndim; d++)
        if (d != dim)
            order[k++] = d;
    return td_permute(x, x->ndim, order);
}

/* An operand that all members share gets the batch with stride 0: no element is copied until a kernel or a reshape
 * needs it. */
td_tensor *td_expanded(const td_batch *b, td_tensor *x)
{
    td_tensor *front = td_front(b, x);
    if (!front || front == TD_NONE || td_is_batched(b, x))
        return front;
    int64_t sizes[TD_MAX_DIMS + 1];
    sizes[0] = b->size;
    memcpy(sizes + 1, front->sizes, sizeof *sizes * (size_t)front->ndim);
    td_tensor *wide = td_expand(front, front->ndim + 1, sizes);
    td_tensor_release(front);
    return wide;
}

/* Broadcasting aligns shapes at their ends: a batch of members of shape [3], [B, 3], would line its B up with the
 * 2 of another operand's [B, 2, 3]. As [B, 1, 3] both have their batches first. */
td_tensor *td_padded(td_tensor *x, int rank)
{
    if (!x || x->ndim - 1 >= rank)
        return td_tensor_retain(x);
    int64_t sizes[TD_MAX_DIMS + 1];
    int more = rank - (x->ndim - 1);
    sizes[0] = x->sizes[0];
    for (int d = 0; d < more; d++)
        sizes[1 + d] = 1;
    for (int d = 1; d < x->ndim; d++)
        sizes[d + more] = x->sizes[d];
    return td_view(x, rank + 1, sizes);
}

/* A copy where the batch is expanded or not next in memory, else a view. Of a batch of numbers nothing folds. */
td_tensor *td_folded(td_tensor *x)
{
    if (!x || x->ndim < 2)
        return td_tensor_retain(x);
    int64_t sizes[TD_MAX_DIMS];
    memcpy(sizes, x->sizes + 1, sizeof *sizes * (size_t)(x->ndim - 1));
    sizes[0] *= x->sizes[0];
    return td_reshape(x, x->ndim - 1, sizes);
}

/* The inverse. An empty batch has no rows to divide among its members: dimension 1 becomes 0. */
td_tensor *td_unfolded(td_tensor *x, int64_t size)
{
    if (!x)
        return NULL;
    int64_t sizes[TD_MAX_DIMS + 1];
    memcpy(sizes + 1, x->sizes, sizeof *sizes * (size_t)x->ndim);
    sizes[0] = size, sizes[1] = size ? x->sizes[0] / size : 0;
    return td_reshape(x, x->ndim + 1, sizes);
}

static int argument_of(const td_batch *b, const char *name)
{
    int i = td_argument_index(b->op, name);
    assert(i >= 0);
    return i;
}
const td_value *td_given(const td_batch *b, const char *name) { return &b->arguments[argument_of(b, name)]; }
td_value       *td_changed(td_batch *b, const char *name) { return &b->frame.values[argument_of(b, name)]; }
td_tensor *td_operand(const td_batch *b, const char *name)
{
    int i = td_argument_index(b->op, name);
    return i >= 0 && b->arguments[i].kind == TD_VALUE_TENSOR ? b->arguments[i].tensor : TD_NONE;
}
const char *td_form_name(const td_batch *b, int i)
{
    const char *name = b->form;
    while (i-- > 0)
        name += strlen(name) + 1;
    return name;
}
td_tensor *td_form_operand(const td_batch *b, int i) { return td_operand(b, td_form_name(b, i)); }
int td_batch_put(td_batch *b, const char *name, td_tensor *x) { return td_batch_set(b, argument_of(b, name), x); }
int td_batch_put_ints(td_batch *b, const char *name, int64_t n, const int64_t *items)
{
    return td_batch_set_ints(b, argument_of(b, name), n, items);
}

int td_batch_set(td_batch *b, int argument, td_tensor *x)
{
    if (!x)
        return -1;
    if (x != TD_NONE && !(x = td_frame_keep(&b->frame, x)))
        return -1;
    b->frame.values[argument].kind = x == TD_NONE ? TD_VALUE_NONE : TD_VALUE_TENSOR;
    b->frame.values[argument].tensor = x;
    return 0;
}

int td_batch_set_ints(td_batch *b, int argument, int64_t n, const int64_t *items)
{
    /* Kept as the memory of a tensor that the frame drops. */
    td_tensor *block = td_frame_keep(&b->frame, td_tensor_new(1, (int64_t[]){n ? n : 1}, TD_I64, (td_device){TD_CPU, -1}));
    if (!block)
        return -1;
    memcpy(block->data, items, sizeof *items * (size_t)n);
    b->frame.values[argument] = (td_value){.kind = TD_VALUE_INTS, .count = (int32_t)n, .ints = (const int64_t *)block->data};
    return 0;
}

/* dim < 0: a result that all members share, or TD_NONE, which no level wraps. */
int td_batch_give(td_batch *b, int i, td_tensor *value, int dim)
{
    td_tensor *x = dim < 0 ? value : td_wrap(b->level, value, dim);
    b->results[i] = (td_value){.kind = TD_VALUE_TENSOR, .tensor = x};
    return x ? 0 : -1;
}

td_tensor *td_batch_made(td_batch *b)
{
    td_value made;
    return td_op_call(b->op, b->frame.values, &made) ? NULL : made.tensor;
}

/* Results that are arguments come first in a schema, in the arguments' order: they are replaced by what the caller
 * passed, whose wrapper then takes over a changed geometry. The others are wrapped. On an error nothing is left in
 * `results`. */
int td_batch_call(td_batch *b, const td_op *op, int dim)
{
    if (td_op_call(op, b->frame.values, b->results) != 0)
        return -1;
    int status = 0, n = op->info.n_results, written = 0;
    for (int i = 0; i < op->info.n_arguments; i++)      /* what was written comes back as it was passed */
        if (op->info.arguments[i].is_mutable && b->arguments[i].kind == TD_VALUE_TENSOR && written < n) {
            td_tensor_release(b->results[written].tensor);
            b->results[written++].tensor = td_tensor_retain(b->arguments[i].tensor);
            if (td_wrapped_of(b->arguments[i].tensor))
                status |= td_wrapper_refresh(b->arguments[i].tensor);
        }
    for (int r = written; r < n && dim >= 0; r++) {
        td_value *v = &b->results[r];
        if (v->kind == TD_VALUE_TENSOR && !(v->tensor = td_wrap(b->level, v->tensor, dim)))
            status = -1;
        td_tensor **items = (td_tensor **)v->tensors;
        for (int k = 0; v->kind == TD_VALUE_TENSORS && k < v->count; k++)
            if (!(items[k] = td_wrap(b->level, items[k], dim)))
                status = -1;
    }
    if (status != 0)
        td_values_release(b->results, n);
    return status;
}

bool td_any_batched(const td_batch *b)
{
    for (int i = 0; i < b->op->info.n_arguments; i++) {
        const td_value *v = &b->arguments[i];
        if (v->kind == TD_VALUE_TENSOR && td_is_batched(b, v->tensor))
            return true;
        for (int k = 0; v->kind == TD_VALUE_TENSORS && k < v->count; k++)
            if (td_is_batched(b, v->tensors[k]))
                return true;
    }
    return false;
}

/* ---- which rule */

static const td_batching loop = {td_rule_loop, 0, NULL};

/* A row without a rule is that of an operator defined at run time: it shares nothing with one of aten's of its name.
 * Acquire pairs with the release stores of td_vmap_register and td_op_set_traits: who sees the pointer sees the
 * record behind it. */
static const td_batching *batching_of(const td_op *op)
{
    const td_batching *own = __atomic_load_n(&op->batching, __ATOMIC_ACQUIRE);
    return own ? own : &loop;
}

/* ---- rules from outside.  They stay, for a call on another thread may be on its way to one that was replaced. */

typedef struct given_rule {
    td_batching        batching;    /* first: what op->batching points to */
    td_boxed_kernel   *rule;
    void              *context;
    struct given_rule *next;
} given_rule;
static given_rule *given_rules;

/* Runs at the level, with wrappers: a rule from outside unwraps and lowers on its own, so neither a frame nor
 * td_transform_lower stands around it. The cast back is safe for call_given stands in no other td_batching. */
static int call_given(td_batch *b)
{
    const given_rule *given = (const given_rule *)__atomic_load_n(&b->op->batching, __ATOMIC_ACQUIRE);      /* rules are only replaced by rules */
    return given->rule(b->op, 0, b->arguments, b->results, given->context);
}

int td_vmap_register(const char *name, td_boxed_kernel *rule, void *context)
{
    td_op *op = (td_op *)td_op_find(name);
    if (!op)
        return td_error(TD_E_VALUE, "there is no operator %s", name);
    given_rule *given = td_mem_alloc_zero(sizeof *given);
    if (!given)
        return -1;
    *given = (given_rule){{call_given, 0, NULL}, rule, context, __atomic_load_n(&given_rules, __ATOMIC_RELAXED)};
    while (!__atomic_compare_exchange_n(&given_rules, &given->next, given, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
        ;
    __atomic_store_n(&op->batching, &given->batching, __ATOMIC_RELEASE);
    return 0;
}

/* The functional form at this same level, where its own rule applies, then a copy into self. It needs no frame:
 * nothing is changed, and nothing is lowered. A result larger than self is refused as PyTorch refuses to broadcast
 * the output. */
int td_rule_inplace(td_batch *b)
{
    const td_op *functional = td_op_find(b->op->functional);
    td_tensor *self = b->arguments[0].tensor;
    td_value made;
    if (td_op_call(functional, b->arguments, &made) != 0)
        return -1;
    TD_AUTO td_tensor *result = made.tensor;
    if (result->ndim != self->ndim || memcmp(result->sizes, self->sizes, sizeof(int64_t) * self->ndim)) {
        td_shape_text want, have;
        return td_error(TD_E_RUNTIME, "%s: output with shape %s doesn't match the broadcast shape %s", b->op->info.name,
                        td_shape_str(self->ndim, self->sizes, have), td_shape_str(result->ndim, result->sizes, want));
    }
    if (td_copy_(self, result) != 0)
        return -1;
    return td_batch_give(b, 0, td_tensor_retain(self), -1);
}

/* Members can't all write to memory that they share: B results have no room in it. The wording is PyTorch's, which
 * names the family of the rule and not always the operator. */
static int fail_unbatched_write(const td_op *op, const char *other)
{
    char name[128];
    td_batch_rule *rule = batching_of(op)->rule;
    int length = (int)strlen(op->info.name);
    if (rule == td_rule_pointwise)
        snprintf(name, sizeof name, "inplace arithmetic");
    else if (rule == td_rule_random)
        snprintf(name, sizeof name, "inplace %.*s", length - 1, op->info.name);
    else
        snprintf(name, sizeof name, "%s::%s", td_op_space(op), op->info.name);
    other = rule == td_rule_pointwise || rule == td_rule_random ? "other" : other;
    return td_error(TD_E_RUNTIME, "vmap: %s(self, *extra_args) is not possible because there exists a Tensor `%s` in "
                    "extra_args that has more elements than `self`. This happened due to `%s` being vmapped over but `self` not "
                    "being vmapped over in a vmap. Please try to use out-of-place operators instead of %s. If said operator "
                    "is being called inside the PyTorch framework, please file a bug report instead.", name, other, other, name);
}

/* The order of the cases matters: a call without a batch goes below unchanged, before anything is refused; rules
 * from outside come next, and see writes and out= forms, too; writes to what members share are refused before any
 * other rule could run; composites come apart at the level, in-place forms call at the level, and only what is
 * left is lowered, around its rule alone. */
int td_vmap_call(const td_op *op, td_keyset keys, td_level *level, const td_value *arguments, td_value *results)
{
    td_batch b = {.op = op, .level = level, .size = level->size, .arguments = arguments, .results = results};
    const td_batching *row = batching_of(op);
    b.modes = row->modes, b.form = row->form;
    bool any = td_any_batched(&b);
    if (!any && row->rule && row->rule != td_rule_random) {       /* parts may draw numbers without operands */
        td_lowered before = td_transform_lower();
        int status = td_op_call(op, arguments, results);
        td_transform_raise(before);
        return status;
    }
    if (row->rule == call_given)
        return row->rule(&b);
    if (any && op->info.flags & TD_OP_OUT)
        return td_error(TD_E_RUNTIME, "Batching rule not implemented for %s::%s.%s; the fallback path doesn't work on out= or view ops.",
                        td_op_space(op), op->info.name, op->info.overload);
    bool refused = row->rule == td_rule_random && level->randomness != TD_RANDOM_DIFFERENT;      /* for another reason, by the rule */
    if (op->info.flags & TD_OP_INPLACE && any && arguments[0].kind == TD_VALUE_TENSOR && !td_is_batched(&b, arguments[0].tensor) && !refused) {
        for (int i = 1; i < op->info.n_arguments; i++)
            if (arguments[i].kind == TD_VALUE_TENSOR && td_is_batched(&b, arguments[i].tensor))
                return fail_unbatched_write(op, op->info.arguments[i].name);
        return fail_unbatched_write(op, "other");
    }
    if (!row->rule && row->modes & TD_PARTS_EXPAND_SELF) {
        td_frame f;
        if (td_frame_begin(&f, op, arguments) != 0)
            return -1;
        td_lowered before = td_transform_lower();
        td_tensor *wide = td_expanded(&b, arguments[0].tensor);
        td_transform_raise(before);
        f.values[0].tensor = td_frame_keep(&f, td_wrap(level, wide, 0));
        int status = f.values[0].tensor ? op->unbox(op->composite, keys & ~TD_KEYSET(TD_KEY_TRANSFORMS), f.values, results) : -1;
        td_frame_end(&f);
        return status;
    }
    if (!row->rule)                    /* its parts come back here */
        return op->unbox(op->composite, keys & ~TD_KEYSET(TD_KEY_TRANSFORMS), arguments, results);
    if (row->rule == td_rule_inplace)
        return row->rule(&b);
    if (td_frame_begin(&b.frame, op, arguments) != 0)
        return -1;
    td_lowered before = td_transform_lower();
    int status = row->rule(&b);
    td_transform_raise(before);
    td_frame_end(&b.frame);
    return status;
}
