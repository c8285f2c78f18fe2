/* Views returned by a handler in Python: what __torch_dispatch__ makes of x.view(2, 2) for a class without storage.
 *
 * Such a result is tied to its operand as a view is to its base: one version counter, and a write to either changes both
 * histories.  Sizes and strides don't say how it came about, so that it is made anew by the same call, on another base. */
#include <tede/dispatch.h>
#include <tede/foreign.h>
#include "autograd/meta.h"
#include "dispatch/op.h"

enum { MOST_ARGUMENTS = 8 };

typedef struct call_again {
    td_view_replay  head;
    td_view_replay *before;         /* of the operand, counted; or NULL */
    const td_op    *op;
    td_value        arguments[MOST_ARGUMENTS];      /* lists are copies; the first is the operand, which changes */
} call_again;

static void drop(td_replay *replay)
{
    call_again *c = (call_again *)replay;
    if (c->before && __atomic_sub_fetch(&c->before->head.refcount, 1, __ATOMIC_ACQ_REL) == 0)
        c->before->head.drop(&c->before->head);
    for (int i = 1; i < c->op->info.n_arguments; i++)
        if (c->arguments[i].kind == TD_VALUE_INTS && c->arguments[i].count > 0)
            td_mem_free((void *)c->arguments[i].ints, sizeof(int64_t) * (size_t)c->arguments[i].count);
    td_mem_free(c, sizeof *c);
}

/* From the base outward: first the operand's own view function, then this call. The operand's history is not
 * kept, only how it is made. */
static td_tensor *apply(td_view_replay *replay, td_tensor *base)
{
    call_again *c = (call_again *)replay;
    td_tensor *seen = c->before ? c->before->apply(c->before, base) : td_tensor_retain(base);
    if (!seen)
        return NULL;
    td_value in[MOST_ARGUMENTS], out;
    memcpy(in, c->arguments, sizeof in);
    in[0].tensor = seen;
    int status = td_op_call(c->op, in, &out);
    td_tensor_release(seen);
    return status == 0 ? out.tensor : NULL;
}

/* Whether a call can be kept: its operand, and numbers. */
static bool is_plain(const td_op *op, const td_value *arguments)
{
    if (op->info.n_arguments < 1 || op->info.n_arguments > MOST_ARGUMENTS || arguments[0].kind != TD_VALUE_TENSOR)
        return false;
    for (int i = 1; i < op->info.n_arguments; i++)
        switch (arguments[i].kind) {
        case TD_VALUE_NONE: case TD_VALUE_INT: case TD_VALUE_BOOL: case TD_VALUE_INTS: case TD_VALUE_DTYPE: break;
        default: return false;
        }
    return true;
}

static call_again *keep(const td_op *op, const td_value *arguments)
{
    call_again *c = td_mem_alloc_zero(sizeof *c);
    if (!c)
        return NULL;
    c->head = (td_view_replay){{1, drop}, apply};
    c->op = op;
    c->arguments[0] = (td_value){.kind = TD_VALUE_TENSOR};
    for (int i = 1; i < op->info.n_arguments; i++) {
        td_value v = arguments[i];
        if (v.kind == TD_VALUE_INTS && v.count > 0) {
            int64_t *copy = td_mem_alloc(sizeof *copy * (size_t)v.count);
            if (!copy) {
                drop(&c->head.head);
                return NULL;
            }
            memcpy(copy, v.ints, sizeof *copy * (size_t)v.count);
            v.ints = copy;
        }
        c->arguments[i] = v;
    }
    c->before = (td_view_replay *)arguments[0].tensor->replay;
    if (c->before)
        __atomic_fetch_add(&c->before->head.refcount, 1, __ATOMIC_RELAXED);
    return c;
}

/* The storage has no elements that are read: it carries the version counter, and x's offset in it stays. */
static void share_storage(td_tensor *x, td_tensor *operand)
{
    td_storage *own = x->storage;
    x->data = (char *)operand->storage->data + (x->data - (char *)own->data);
    x->storage = td_storage_retain(operand->storage);
    td_storage_release(own);
}

static int tie(td_tensor *x, td_tensor *operand, call_again *again, bool several)
{
    if (!td_tensor_is_hollow(x) || x->base || x == operand || x->autograd || x->storage == operand->storage)
        return 0;
    if (again) {
        __atomic_fetch_add(&again->head.head.refcount, 1, __ATOMIC_RELAXED);
        x->replay = &again->head.head;
    }
    share_storage(x, operand);
    x->base = td_tensor_retain(operand->base ? operand->base : operand);
    x->flags |= (uint16_t)((operand->flags & TD_FLAGS_OF_CREATION) | (several ? TD_FLAG_MULTI_VIEW : 0));
    x->keys |= TD_KEYSET(TD_KEY_AUTOGRAD);
    x->attr_version = td_tensor_version(x);
    return 0;
}

int td_results_as_views(const td_op *op, const td_value *arguments, td_value *results)
{
    bool parts = results[0].kind == TD_VALUE_TENSORS && op->info.n_arguments && op->info.arguments[0].alias;      /* split: a composite */
    if (!(op->info.flags & TD_OP_VIEW || parts) || op->info.n_results != 1 || !op->info.n_arguments ||
        arguments[0].kind != TD_VALUE_TENSOR || !td_tensor_is_hollow(arguments[0].tensor))
        return 0;
    td_tensor *operand = arguments[0].tensor;
    if (op->info.flags & TD_OP_DETACHES) {          /* counted together, and no view */
        td_tensor *x = results[0].kind == TD_VALUE_TENSOR ? results[0].tensor : TD_NONE;
        if (x == TD_NONE || x == operand || !td_tensor_is_hollow(x) || x->base)
            return 0;
        if (x->storage != operand->storage)
            share_storage(x, operand);
        if (x->own_version && !operand->own_version) {          /* set_(), by which a handler may put it there, counts apart */
            td_version_release(x->own_version);
            x->own_version = NULL;
        }
        return 0;
    }
    bool several = results[0].kind == TD_VALUE_TENSORS;
    call_again *again = !several && is_plain(op, arguments) ? keep(op, arguments) : NULL;
    if (!several && is_plain(op, arguments) && !again)
        return -1;
    int status = several || results[0].kind != TD_VALUE_TENSOR ? 0 : tie(results[0].tensor, operand, again, false);
    for (int k = 0; several && k < results[0].count && status == 0; k++)
        status = tie(results[0].tensors[k], operand, NULL, true);
    if (again && __atomic_sub_fetch(&again->head.head.refcount, 1, __ATOMIC_ACQ_REL) == 0)
        drop(&again->head.head);
    return status;
}
