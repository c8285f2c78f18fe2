/* Computing what a region has recorded. */
#include "region/region.h"
#include "dispatch/spec.h"
#include "region/plan.h"

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
        r->storages[i]->held = r->storages[i]->needed = is_held(r->storages[i]);
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

int td_late_call_run(const td_late_call *c, td_tensor **tensors)
{
    if (c->kind == TD_LATE_FORMULA)
        return td_pointwise_compute(c->pointwise, c->common, tensors, c->params, tensors[c->n_in]);
    if (c->kind == TD_LATE_COPY)
        return td_copy_elements(tensors[1], tensors[0]);
    const int n = c->op->info.n_arguments;
    td_value values[n], results[c->n_out];
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
    td_values_release(results, c->n_out);
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
    td_group *g = td_mem_alloc(sizeof *g);
    int status = g ? 0 : -1;
    for (int64_t i = 0; i < r->n_calls && !status; i++) {
        if (r->calls[i].dropped)
            continue;
        if (!td_group_make(g, r, i)) {
            status = run_alone(&r->calls[i]);
            continue;
        }
        status = td_group_run(g, r);
        r->n_fused += g->n_calls;
        i = g->last;
    }
    td_mem_free(g, sizeof *g);
    return status;
}
