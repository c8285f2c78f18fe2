/* Doing a group of calls: see Note [Slabs] in plan.c. */
#include "region/plan.h"
#include "base/warn.h"
#include "base/watch.h"
#include "tensor/head.h"

typedef struct work {
    const td_group *g;
    td_region      *r;
    int64_t         rows, slabs;        /* of a slab; in all indices before k */
    int64_t         buffer_bytes;       /* of a thread's internal storages */
    int             failed;             /* the error's code, and what it says */
    char            message[256];
} work;

/* What one thread makes of the group's tensors. */
typedef struct slab_tensors {
    int64_t     shown;                          /* rows that the heads show; 0: none yet */
    char       *buffer;
    td_storage *storages[TD_GROUP_TENSORS];     /* of internal ones: the buffer's parts */
    td_tensor  *heads[TD_GROUP_TENSORS];
} slab_tensors;

static void drop(const work *w, slab_tensors *t)
{
    for (int i = 0; i < w->g->n_tensors; i++)
        td_tensor_release(t->heads[i]);
    for (int i = 0; i < w->g->n_storages; i++)
        td_storage_release(t->storages[i]);
    td_mem_free(t->buffer, (size_t)w->buffer_bytes);
}

static int prepare(const work *w, slab_tensors *t)
{
    const td_group *g = w->g;
    memset(t, 0, sizeof *t);
    if (w->buffer_bytes && !(t->buffer = td_mem_alloc((size_t)w->buffer_bytes)))
        return -1;
    for (int i = 0; i < g->n_storages; i++)
        if (g->storages[i].internal && !(t->storages[i] = td_storage_from_memory(t->buffer + g->buffers[g->storages[i].buffer].offset,
                                                                                 (size_t)(w->rows * g->storages[i].row_bytes), (td_device){TD_CPU, -1}, NULL, NULL)))
            return -1;
    for (int i = 0; i < g->n_tensors; i++) {
        const td_tensor *x = g->tensors[i].x;
        const int at = g->tensors[i].storage;
        td_tensor *h = td_head_new(x->ndim, x->dtype, x->device, TD_KEYS_CPU, x->flags & TD_FLAG_WRAPPED_NUMBER);
        if (!h)
            return -1;
        t->heads[i] = h;
        h->storage = td_storage_retain(t->storages[at] ? t->storages[at] : x->storage);
        memcpy(h->sizes, x->sizes, sizeof *x->sizes * x->ndim);
        memcpy(h->strides, x->strides, sizeof *x->strides * x->ndim);
    }
    return 0;
}

/* Let the heads show rows `from` to `to` of dimension k at the indices before it. */
static void show(const work *w, slab_tensors *t, const int64_t *index, int64_t from, int64_t to)
{
    const td_group *g = w->g;
    const bool changed = t->shown != to - from;
    t->shown = to - from;
    for (int i = 0; i < g->n_tensors; i++) {
        const td_tensor *x = g->tensors[i].x;
        const td_group_storage *s = &g->storages[g->tensors[i].storage];
        td_tensor *h = t->heads[i];
        int64_t offset = 0;
        for (int d = 0; d <= g->k; d++) {
            const int own = d - g->tensors[i].shift;
            if (own < 0 || x->sizes[own] == 1)
                continue;
            offset += (d < g->k ? index[d] : from) * x->strides[own];
            h->sizes[own] = d < g->k ? 1 : to - from;
        }
        h->data = s->internal ? t->buffer + g->buffers[s->buffer].offset + ((intptr_t)x->data - (intptr_t)x->storage->data) : x->data + offset * td_itemsize(x);
        if (changed)
            td_tensor_update_flags(h);
    }
}

static int run_slab_call(const slab_tensors *t, const td_late_call *c, const int16_t *operands)
{
    td_tensor *tensors[TD_MAX_OPERANDS + 8];
    for (int i = 0; i < c->n_in + c->n_out; i++)
        tensors[i] = operands[i] < 0 ? TD_NONE : t->heads[operands[i]];
    return td_late_call_run(c, tensors);
}

/* Slabs are numbered through all indices before k. */
static void run_slabs(void *context, int64_t from, int64_t to)
{
    work *w = context;
    const td_group *g = w->g;
    slab_tensors t;
    const td_thread_state masks = td_masks_now;
    td_masks_now.exclude |= TD_KEYSET(TD_LATE) | TD_KEYSET(TD_KEY_AUTOGRAD) | TD_KEYSET(TD_KEY_FORWARD_AD);
    const bool warned = td_warned_before;       /* a handler may wait for a lock that who waits for this thread has */
    td_warned_before = true;
    int status = prepare(w, &t);
    for (int64_t slab = from; slab < to && !status; slab++) {
        int64_t index[TD_MAX_DIMS], rest = slab / w->slabs;
        for (int d = g->k - 1; d >= 0; d--)
            index[d] = rest % g->sizes[d], rest /= g->sizes[d];
        const int64_t begin = slab % w->slabs * w->rows, end = begin + w->rows < g->sizes[g->k] ? begin + w->rows : g->sizes[g->k];
        show(w, &t, index, begin, end);
        int n = 0;
        for (int64_t i = g->first; i <= g->last && !status; i++)
            if (!w->r->calls[i].dropped)
                status = run_slab_call(&t, &w->r->calls[i], g->operands[n++]);
    }
    drop(w, &t);
    td_masks_now = masks;
    td_warned_before = warned;
    int none = 0;
    if (status && __atomic_compare_exchange_n(&w->failed, &none, td_error_code(), false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
        strncpy(w->message, td_error_message(), sizeof w->message - 1);
}

int td_group_run(td_group *g, td_region *r)
{
    work w = {.g = g, .r = r};
    int64_t outer = 1;
    for (int d = 0; d < g->k; d++)
        outer *= g->sizes[d];
    const int64_t size = g->sizes[g->k];
    w.rows = (int64_t)td_slab_bytes / (g->bytes ? g->bytes : 1);
    w.rows = w.rows > 64 ? w.rows & ~(int64_t)63 : w.rows < 1 ? 1 : w.rows;
    w.rows = w.rows > size ? size : w.rows;
    w.slabs = (size + w.rows - 1) / w.rows;
    for (int i = 0; i < g->n_storages; i++) {
        td_group_storage *s = &g->storages[i];
        if (!s->internal && s->s->flags & TD_STORAGE_LATE && td_late_fill_in(s->s))
            return -1;
    }
    for (int b = 0; b < g->n_buffers; b++) {
        g->buffers[b].offset = w.buffer_bytes;
        w.buffer_bytes += (w.rows * g->buffers[b].row_bytes + 127) & ~(int64_t)63;
    }
    td_parallel_for(0, outer * w.slabs, 1, run_slabs, &w);
    return w.failed ? td_error(w.failed, "%s", w.message) : 0;
}
