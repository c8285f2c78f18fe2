/* Computing what a region has recorded. */
#include "region/region.h"
#include "dispatch/spec.h"
#include "region/native.h"

/* The references that views over the storage hold to what they are views of. */
static void count_bases(const td_late_storage *late, int by)
{
    for (const td_late_head *h = late->heads; h; h = h->next)
        if (h->x->base)
            __atomic_fetch_add(&h->x->base->refcount, by, __ATOMIC_RELAXED);
}

/* Whether somebody outside of the region holds x or a view of it: calls hold their operands and results, the storage's list its heads. */
static bool is_held(const td_late_storage *late)
{
    for (const td_late_head *h = late->heads; h; h = h->next)
        if (h->x->refcount > 1)
            return true;
    return false;
}

/* The calls' references are taken away and given again, so that what is left of the counts is held from outside. */
static void count_calls(td_region *r, int by)
{
    for (int64_t i = 0; i < r->n_calls; i++)
        for (int k = 0; k < r->calls[i].n_in + r->calls[i].n_out; k++)
            if (r->calls[i].in[k] != TD_NONE)
                __atomic_fetch_add(&r->calls[i].in[k]->refcount, by, __ATOMIC_RELAXED);
}

static td_late_storage *late_storage(const td_tensor *x)
{
    return x != TD_NONE && x->storage->flags & TD_STORAGE_LATE ? x->storage->context : NULL;
}

/* From the last call to the first: one is dropped if no result is held from outside or read by a call that isn't dropped. */
static void drop_dead(td_region *r)
{
    count_calls(r, -1);
    for (int64_t i = 0; i < r->n_storages; i++)
        count_bases(r->storages[i], -1);
    for (int64_t i = 0; i < r->n_storages; i++)
        r->storages[i]->held = r->storages[i]->needed = is_held(r->storages[i]);
    for (int64_t i = 0; i < r->n_storages; i++)
        count_bases(r->storages[i], 1);
    count_calls(r, 1);
    for (int64_t i = r->n_calls; i-- > 0;) {
        td_late_call *c = &r->calls[i];
        td_late_storage *late;
        c->dropped = true;
        for (int k = 0; k < c->n_out; k++)      /* what was there before the region is read by anybody */
            if (c->out[k] != TD_NONE && (!(late = late_storage(c->out[k])) || late->needed))
                c->dropped = false;
        for (int k = 0; !c->dropped && k < c->n_in; k++)
            if ((late = late_storage(c->in[k])))
                late->needed = true;
        for (int k = 0; !c->dropped && k < c->n_in + c->n_out; k++)
            if ((late = late_storage(c->in[k])) && late->last_use < i)
                late->last_use = i;
    }
}

/* Have each call know the storages whose last use it is. */
static void find_ends(td_region *r)
{
    for (int64_t i = 0; i < r->n_calls; i++)
        r->calls[i].ends = NULL;
    for (int64_t i = 0; i < r->n_storages; i++) {
        td_late_storage *late = r->storages[i];
        if (late->held || !late->needed)
            continue;
        late->next = r->calls[late->last_use].ends;
        r->calls[late->last_use].ends = late;
    }
}

/* The storage's tensors are held by calls and by the region's list alone: nobody reads it any more. */
static void give_up_memory(td_storage *s)
{
    if (s->flags & TD_STORAGE_LATE)     /* it was within a group, in slabs */
        return;
    td_mem_free(s->data, s->capacity);
    s->data = NULL, s->capacity = 0;
}

/* The calls from first to last are done. */
static void give_up_ends(td_region *r, int64_t first, int64_t last)
{
    for (int64_t i = first; i <= last; i++)
        for (td_late_storage *late = r->calls[i].ends; late; late = late->next)
            give_up_memory(late->s);
}

int td_late_call_run(const td_late_call *c, td_tensor **tensors)
{
    if (c->kind == TD_LATE_FORMULA)
        return td_pointwise_compute(c->pointwise, c->common, tensors, c->params, tensors[c->n_in]);
    if (c->kind == TD_LATE_COPY)
        return td_copy_elements(tensors[1], tensors[0]);
    if (c->kind == TD_LATE_WORK) {
        td_tensor *used[c->n_in];
        for (int i = 0; i < c->n_in; i++)
            used[i] = tensors[i] == TD_NONE ? NULL : tensors[i];
        return c->work->run(c->work->context, used);
    }
    const int n = c->op->info.n_arguments;
    td_value values[n], results[c->op->info.n_results];
    td_tensor **next = tensors;
    for (int i = 0; i < n; i++) {
        values[i] = c->values[i];
        if (values[i].kind == TD_VALUE_TENSOR)
            values[i].tensor = *next++;
        else if (values[i].kind == TD_VALUE_TENSORS)
            values[i].tensors = next, next += values[i].count;
    }
    td_results_given = tensors + c->n_in;
    const int status = c->op->unbox(c->op->on_strided, TD_KEYS_CPU, values, results);
    td_results_given = NULL;
    if (status)
        return -1;
    td_values_release(results, c->op->info.n_results);
    return 0;
}

static int run_alone(const td_late_call *c)
{
    for (int k = 0; k < c->n_out; k++)
        if (late_storage(c->out[k]) && td_late_fill_in(c->out[k]->storage))
            return -1;
    return td_late_call_run(c, c->in);
}

int td_region_run(td_region *r)
{
    drop_dead(r);
    find_ends(r);
    td_group *g = td_mem_alloc(sizeof *g);
    int status = g ? 0 : -1;
    for (int64_t i = 0; i < r->n_calls && !status; i++) {
        if (r->calls[i].dropped)
            continue;
        if (!td_group_make(g, r, i)) {
            status = run_alone(&r->calls[i]);
            give_up_ends(r, i, i);
            continue;
        }
        const td_native_outcome done = td_native_run_group(g, r, td_group_run);
        status = done == TD_NATIVE_DECLINED ? td_group_run(g, r) : done;
        r->n_fused += g->n_calls;
        give_up_ends(r, g->first, g->last);
        i = g->last;
    }
    td_mem_free(g, sizeof *g);
    return status;
}
