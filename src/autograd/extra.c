/* Optional state of autograd nodes (td_node_extra): Python's objects for them, retained gradients, anomaly mode's records. */
#include "autograd/engine.h"
#include "autograd/hooks.h"

/* Made on first use, by whichever thread is first: the loser of the exchange frees its own and takes the winner's.
 * Release/acquire publish the zeroed block. It lives as long as the node. */
td_node_extra *td_node_extra_of(td_node *node)
{
    td_node_extra *extra = __atomic_load_n(&node->extra, __ATOMIC_ACQUIRE), *none = NULL;
    if (extra || !(extra = td_mem_alloc_zero(sizeof *extra)))
        return extra;
    if (__atomic_compare_exchange_n(&node->extra, &none, extra, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        return extra;
    td_mem_free(extra, sizeof *extra);
    return none;
}

void td_node_extra_free(td_node *node)
{
    td_node_extra *extra = node->extra;
    node->extra = NULL;
    td_hooks_free(extra->hooks);
    while (extra->retained) {
        td_retained *next = extra->retained->next;
        td_grad_box_release(extra->retained->box);
        td_mem_free(extra->retained, sizeof *next);
        extra->retained = next;
    }
    if (extra->metadata && extra->drop_metadata)
        extra->drop_metadata(extra->metadata);
    if (extra->record && extra->drop_record)
        extra->drop_record(extra->record);
    td_node_release(extra->parent);
    td_mem_free(extra, sizeof *extra);
}

/* ---- foreign objects */

void *td_node_object(const td_node *node)
{
    const td_node_extra *extra = td_node_extra_now(node);
    return extra ? __atomic_load_n(&extra->object, __ATOMIC_ACQUIRE) : NULL;
}

int td_node_set_object(td_node *node, void *object)
{
    if (!object && !td_node_extra_now(node))
        return 0;
    td_node_extra *extra = td_node_extra_of(node);
    if (!extra)
        return -1;
    __atomic_store_n(&extra->object, object, __ATOMIC_RELEASE);
    return 0;
}

void *td_node_metadata(const td_node *node)
{
    const td_node_extra *extra = td_node_extra_now(node);
    return extra ? __atomic_load_n(&extra->metadata, __ATOMIC_ACQUIRE) : NULL;
}

/* The old object is dropped outside the lock, for dropping may run anything. */
int td_node_set_metadata(td_node *node, void *metadata, td_drop *drop)
{
    td_node_extra *extra = td_node_extra_of(node);
    if (!extra)
        return -1;
    td_lock(&node->lock);
    void    *old = extra->metadata;
    td_drop *drop_old = extra->drop_metadata;
    __atomic_store_n(&extra->metadata, metadata, __ATOMIC_RELEASE);
    extra->drop_metadata = drop;
    td_unlock(&node->lock);
    if (old && drop_old)
        drop_old(old);
    return 0;
}

/* ---- retained gradients */

void td_grad_box_release(td_grad_box *box)
{
    if (!box || __atomic_sub_fetch(&box->refcount, 1, __ATOMIC_ACQ_REL) != 0)
        return;
    td_tensor_release(box->grad);
    td_mem_free(box, sizeof *box);
}

/* The box is shared by the tensor, which reads the gradient, and the node, which stores it: either may go first. */
int td_node_keep_grad(td_node *node, int input, td_grad_box *box)
{
    td_node_extra *extra = td_node_extra_of(node);
    td_retained *entry = extra ? td_mem_alloc(sizeof *entry) : NULL;
    if (!entry)
        return -1;
    __atomic_fetch_add(&box->refcount, 1, __ATOMIC_RELAXED);
    entry->box = box;
    entry->input = input;
    td_lock(&node->lock);
    entry->next = extra->retained;
    __atomic_store_n(&extra->retained, entry, __ATOMIC_RELEASE);        /* the engine looks without the lock */
    td_unlock(&node->lock);
    return 0;
}

void td_node_forget_grad(td_node *node, td_grad_box *box)
{
    td_retained *found = NULL;
    td_node_extra *extra = td_node_extra_now(node);
    if (!extra)
        return;
    td_lock(&node->lock);
    for (td_retained **at = &extra->retained; *at; at = &(*at)->next)
        if ((*at)->box == box) {
            found = *at;
            __atomic_store_n(at, found->next, __ATOMIC_RELEASE);
            break;
        }
    td_unlock(&node->lock);
    if (found) {
        td_grad_box_release(found->box);
        td_mem_free(found, sizeof *found);
    }
}

/* Adding up a gradient calls operators, so the lock is not held meanwhile: entries are counted through from the start
 * each time, and the box at hand is retained. More than the node's and this reference mean that a tensor still holds
 * the box; one that only the node holds belongs to a tensor that is gone, and is skipped. */
int td_node_run_retained(td_node *node, td_tensor *const *grads, bool create_graph)
{
    int status = 0;
    for (int done = 0; status == 0; done++) {
        td_grad_box *box = NULL;
        td_tensor *grad = NULL;
        int at = 0;
        td_lock(&node->lock);
        for (td_retained *r = td_node_extra_now(node)->retained; r && !box; r = r->next)
            if (at++ == done) {
                box = r->box;
                grad = grads[r->input];
                __atomic_fetch_add(&box->refcount, 1, __ATOMIC_RELAXED);
            }
        td_unlock(&node->lock);
        if (!box)
            return 0;
        if (grad && __atomic_load_n(&box->refcount, __ATOMIC_ACQUIRE) > 2)
            status = td_grad_box_add(box, grad, create_graph);
        td_grad_box_release(box);
    }
    return status;
}

/* ---- anomaly mode */

/* Set by any thread while others record and run: each is read on its own, and hooks outlive all nodes. */
bool td_anomaly_on;
static bool anomaly_nan = true;
static const td_anomaly_hooks *anomaly_hooks;

void td_set_anomaly(bool on, bool check_nan, const td_anomaly_hooks *hooks)
{
    __atomic_store_n(&anomaly_nan, check_nan, __ATOMIC_RELAXED);
    __atomic_store_n(&anomaly_hooks, hooks, __ATOMIC_RELEASE);
    __atomic_store_n(&td_anomaly_on, on, __ATOMIC_RELEASE);
}
static const td_anomaly_hooks *hooks_set(void) { return __atomic_load_n(&anomaly_hooks, __ATOMIC_ACQUIRE); }

bool td_anomaly(bool *check_nan)
{
    if (check_nan)
        *check_nan = __atomic_load_n(&anomaly_nan, __ATOMIC_RELAXED);
    return td_anomaly_is_on();
}

int td_anomaly_record(td_node *node)
{
    td_node_extra *extra = td_node_extra_of(node);
    if (!extra)
        return -1;
    if (td_task_now)
        extra->parent = td_node_retain(td_node_now);
    const td_anomaly_hooks *hooks = hooks_set();
    if (hooks && hooks->record) {
        extra->record = hooks->record(node);
        extra->drop_record = hooks->drop;
    }
    return 0;
}

const td_anomaly_hooks *td_anomaly_hooks_now(void) { return td_anomaly_is_on() ? hooks_set() : NULL; }

/* The failed node, then the nodes in whose backward each was made, outward. */
void td_anomaly_report(td_node *node)
{
    const td_anomaly_hooks *hooks = hooks_set();
    if (!hooks || !hooks->report)
        return;
    bool is_parent = false;
    for (td_node *n = node; n; is_parent = true) {
        const td_node_extra *extra = td_node_extra_now(n);
        hooks->report(n, extra ? extra->record : NULL, is_parent);
        n = extra ? extra->parent : NULL;
    }
}

void *td_node_record(const td_node *node)
{
    const td_node_extra *extra = td_node_extra_now(node);
    return extra ? extra->record : NULL;
}
