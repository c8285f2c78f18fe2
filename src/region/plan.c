/* Groups: calls that are done together, slab by slab, so that what passes between them stays in the cache.
 *
 * Note [Slabs]
 * Calls one after the other form a group if each computes row i of its results from row i of its operands: elementwise operators do, and reductions,
 * softmax and norms that leave the leading dimensions alone. A row is an index of dimension k, where the dimensions 0 to k are the leading ones of
 * all results in the group; the dimensions before k are gone through index by index, k in slabs of so many rows that all tensors' slabs fit the cache. For each slab
 * all calls of the group are made in order, by the kernels that they have anyway, on tensors that show the slab: results are eager's to the
 * bit. What no later call reads and nobody holds has memory for one slab, and is never written out.
 *
 * A call in the midst of them that isn't one may come behind the group, if nothing that then comes before it has what it writes, or writes what it has.
 *
 * A storage that the group writes must have the same rows for all tensors over it (no views that are shifted or transposed). Operands that are
 * only read may lie as they like, and be broadcast. */
#include "region/plan.h"

/* A slab of all tensors stays in a core's own cache with room to spare; what is in the first cache anyway isn't worth it. */
enum { SLAB_BYTES = 384 << 10, LEAST_BYTES = 32 << 10, SHORT_ROW = 64 };
size_t td_slab_bytes = SLAB_BYTES, td_slab_least = LEAST_BYTES;

void td_region_set_slab(size_t bytes, size_t least)
{
    td_slab_bytes = bytes ? bytes : SLAB_BYTES, td_slab_least = bytes || least ? least : LEAST_BYTES;
    td_region_least = td_slab_least / 4;
}

/* ---- how calls go along rows */

static bool is_elementwise(const td_late_call *c) { return c->kind == TD_LATE_FORMULA || c->kind == TD_LATE_COPY; }

/* The dimensions before the least that an argument names; none where all are meant, or some have another rank: a list of tensors
 * may have an old empty one. */
static int before_dims(const td_late_call *c)
{
    const int ndim = c->in[0]->ndim;
    const td_value *v = &c->values[c->rows->argument];
    const int64_t *dims = v->kind == TD_VALUE_INT ? &v->integer : v->ints;
    const int n = v->kind == TD_VALUE_INT ? 1 : v->kind == TD_VALUE_INTS ? v->count : 0;
    for (int i = 1; c->values[0].kind == TD_VALUE_TENSORS && i < c->n_in; i++)
        if (c->in[i]->ndim != ndim)
            return 0;
    int64_t least = n ? ndim : 0;
    for (int i = 0; i < n; i++) {
        const int64_t dim = dims[i] < 0 ? dims[i] + ndim : dims[i];
        least = dim < least ? dim : least;
    }
    return (int)least;
}

/* How many leading dimensions the call leaves alone, of the operand that has most; 0: it can't be done by rows. */
static int leading_dims(const td_late_call *c)
{
    if (is_elementwise(c))
        return c->out[0]->ndim;
    if (!c->rows || !c->n_in || c->in[0] == TD_NONE)
        return 0;
    if (!c->rows->names_dims)
        return c->in[0]->ndim - c->values[c->rows->argument].count;
    /* Many short rows are summed together, in an order that depends on how many there are. */
    const int64_t before = c->in[0]->numel, after = c->out[0]->numel;
    return after >= before || before >= SHORT_ROW * after ? before_dims(c) : 0;
}

/* The tensor whose rows the call goes along. */
static const td_tensor *of_rows(const td_late_call *c) { return is_elementwise(c) ? c->out[0] : c->in[0]; }

/* ---- a group's tensors */

static int find_storage(td_group *g, const td_tensor *x, int shift)
{
    int64_t strides[TD_MAX_DIMS] = {0};
    bool whole = true;                  /* has all of the leading dimensions, and its first row lies in the storage's */
    const int64_t item = td_itemsize(x);
    for (int d = 0; d <= g->k; d++) {
        const int own = d - shift;
        whole = whole && own >= 0 && x->sizes[own] == g->sizes[d];
        strides[d] = own >= 0 ? x->strides[own] * item : 0;
    }
    int64_t end = (intptr_t)x->data - (intptr_t)x->storage->data + item;
    whole = whole && end >= item;
    for (int own = g->k + 1 - shift; own < x->ndim && whole; own++) {
        whole = x->strides[own] >= 0;
        end += x->sizes[own] ? (x->sizes[own] - 1) * x->strides[own] * item : 0;
    }
    whole = whole && end <= strides[g->k];
    for (int d = 0; d < g->k && whole; d++)
        whole = strides[d] >= strides[d + 1];
    for (int i = 0; i < g->n_storages; i++)
        if (g->storages[i].s == x->storage) {
            g->aligned[i] = g->aligned[i] && whole && !memcmp(strides, g->storages[i].strides, sizeof *strides * (size_t)(g->k + 1));
            return i;
        }
    td_group_storage *s = &g->storages[g->n_storages];
    s->s = x->storage;
    g->aligned[g->n_storages] = whole, g->written[g->n_storages] = false;
    memcpy(s->strides, strides, sizeof *strides * (size_t)(g->k + 1));
    return g->n_storages++;
}

static int find_tensor(td_group *g, td_tensor *x, int shift)
{
    for (int i = 0; i < g->n_tensors; i++)
        if (g->tensors[i].x == x && g->tensors[i].shift == shift)
            return i;
    const int storage = find_storage(g, x, shift);
    g->tensors[g->n_tensors] = (td_group_tensor){x, shift, storage};
    return g->n_tensors++;
}

/* Whether each leading dimension of x is the group's, or one that is broadcast. */
static bool fits(const td_group *g, const td_tensor *x, int shift)
{
    for (int d = 0; d <= g->k; d++) {
        const int own = d - shift;
        if (own >= x->ndim || (own >= 0 && x->sizes[own] != g->sizes[d] && x->sizes[own] != 1))
            return false;
    }
    return true;
}

/* Add a call; false if it is none of the group, which may then be as it was or not: the caller keeps a copy of its counts. */
static bool add(td_group *g, const td_late_call *c)
{
    const int ndim = of_rows(c)->ndim, n = c->n_in + c->n_out;
    if (g->n_calls == TD_GROUP_CALLS || g->n_tensors + n > TD_GROUP_TENSORS || n > TD_MAX_OPERANDS + 8 || leading_dims(c) <= g->k)
        return false;
    /* Loops of complex numbers round the last elements of a run otherwise than the others: a slab would end in the middle. */
    if (c->kind == TD_LATE_FORMULA && td_dtype_is_complex(c->common))
        return false;
    for (int i = 0; i < n; i++) {
        td_tensor *x = c->in[i];
        const bool result = i >= c->n_in;
        if (x == TD_NONE) {
            g->operands[g->n_calls][i] = -1;
            continue;
        }
        /* Results of reductions have lost inner dimensions; weights of a norm have inner dimensions alone. */
        const int shift = result || (!is_elementwise(c) && !i) ? 0 : ndim - x->ndim;
        if (shift < 0 || !x->storage || x->device.type != TD_CPU || !fits(g, x, shift) || (result && !is_elementwise(c) && !(x->flags & TD_FLAG_CONTIGUOUS)))
            return false;
        const int number = find_tensor(g, x, shift);
        const int storage = g->tensors[number].storage;
        g->written[storage] |= result;
        if (g->written[storage] && !g->aligned[storage])
            return false;
        g->operands[g->n_calls][i] = (int16_t)number;
    }
    g->n_operands[g->n_calls++] = (uint8_t)n;
    return true;
}

/* Rows of what a storage holds, in bytes. */
static int64_t row_bytes(const td_group *g, const td_group_storage *s) { return s->strides[g->k]; }

/* Where the slab is to be divided: the first dimension of which an index is small enough. */
static int choose_k(const td_late_call *c)
{
    const td_tensor *x = of_rows(c);
    const int most = leading_dims(c) - 1;
    int64_t bytes = x->numel * td_itemsize(x);
    for (int d = 0; d <= most; d++) {
        bytes = x->sizes[d] ? bytes / x->sizes[d] : 0;
        if (bytes <= (int64_t)td_slab_bytes / 8 || d == most)
            return d;
    }
    return -1;
}

static bool is_late(const td_storage *s) { return s->flags & TD_STORAGE_LATE; }

static bool has_storage(const td_late_call *c, const td_storage *s)
{
    for (int i = 0; i < c->n_in + c->n_out; i++)
        if (c->in[i] != TD_NONE && c->in[i]->storage == s)
            return true;
    return false;
}

static bool writes_what_has(const td_late_call *a, const td_late_call *b)
{
    for (int i = 0; i < a->n_out; i++)
        if (a->out[i] != TD_NONE && has_storage(b, a->out[i]->storage))
            return true;
    return false;
}

/* Whether the order of the two calls matters. */
static bool conflict(const td_late_call *a, const td_late_call *b) { return writes_what_has(a, b) || writes_what_has(b, a); }

static bool waits_for_postponed(const td_group *g, const td_region *r, const td_late_call *c)
{
    for (int i = 0; i < g->n_postponed; i++)
        if (conflict(&r->calls[g->postponed[i]], c))
            return true;
    return false;
}

/* Add the call, or leave the group as it was. */
static bool try_add(td_group *g, const td_late_call *c)
{
    const int tensors = g->n_tensors, storages = g->n_storages;
    bool written[TD_GROUP_TENSORS], aligned[TD_GROUP_TENSORS];
    memcpy(written, g->written, (size_t)storages);
    memcpy(aligned, g->aligned, (size_t)storages);
    if (add(g, c))
        return true;
    g->n_tensors = tensors, g->n_storages = storages;
    memcpy(g->written, written, (size_t)storages);
    memcpy(g->aligned, aligned, (size_t)storages);
    return false;
}

/* Add the calls from i on that go along the group's rows, up to the first that doesn't; where it `postpones`, up to the first of these too many. */
static void extend(td_group *g, td_region *r, int64_t i, bool postpones)
{
    for (; i < r->n_calls; i++) {
        if (r->calls[i].dropped)
            continue;
        if (!waits_for_postponed(g, r, &r->calls[i]) && try_add(g, &r->calls[i]))
            g->last = i;
        else if (postpones && g->n_postponed < TD_GROUP_POSTPONED)
            g->postponed[g->n_postponed++] = i;
        else
            break;
    }
    while (g->n_postponed && g->postponed[g->n_postponed - 1] > g->last)
        g->n_postponed--;
}

static bool make_with(td_group *g, td_region *r, int64_t i, int k)
{
    const td_tensor *x = of_rows(&r->calls[i]);
    g->first = i, g->k = k;
    g->n_calls = g->n_tensors = g->n_storages = g->n_postponed = 0;
    memcpy(g->sizes, x->sizes, sizeof *x->sizes * (size_t)(k + 1));
    extend(g, r, i, false);
    return g->n_calls > 1;
}

/* Put the postponed calls behind the group. Storages whose last use is among the calls that were moved end with the one that is the last now. */
static void reorder(td_group *g, td_region *r)
{
    const int64_t last = g->last;
    td_late_storage *all = NULL;
    for (int64_t i = g->first; i <= last; i++)
        for (td_late_storage *late = r->calls[i].ends, *next; late; late = next)
            next = late->next, late->next = all, all = late;
    for (int n = g->n_postponed; n-- > 0; g->last--) {
        const int64_t from = g->postponed[n];
        const td_late_call c = r->calls[from];
        memmove(&r->calls[from], &r->calls[from + 1], (size_t)(g->last - from) * sizeof c);
        r->calls[g->last] = c;
    }
    for (int64_t i = g->first; i <= last; i++)
        r->calls[i].ends = NULL;
    for (td_late_storage *late = all, *next; late; late = next) {
        next = late->next;
        int64_t i = last;
        while (r->calls[i].dropped || !has_storage(&r->calls[i], late->s))
            i--;
        late->last_use = i;
        late->next = r->calls[i].ends;
        r->calls[i].ends = late;
    }
}

/* Give internal storages buffers, each from the call that writes it first to the last one that has it. */
static void share_buffers(td_group *g)
{
    int last[TD_GROUP_TENSORS];
    bool has[TD_GROUP_TENSORS] = {false};
    g->n_buffers = 0;
    for (int c = 0; c < g->n_calls; c++)
        for (int i = 0; i < g->n_operands[c]; i++)
            if (g->operands[c][i] >= 0)
                last[g->tensors[g->operands[c][i]].storage] = c;
    for (int c = 0; c < g->n_calls; c++)
        for (int i = 0; i < g->n_operands[c]; i++) {
            const int storage = g->operands[c][i] < 0 ? -1 : g->tensors[g->operands[c][i]].storage;
            td_group_storage *s = &g->storages[storage];
            if (storage < 0 || has[storage] || !s->internal)
                continue;
            int b = 0;
            while (b < g->n_buffers && (g->buffers[b].row_bytes != s->row_bytes || g->buffers[b].free_after >= c))
                b++;
            g->n_buffers += b == g->n_buffers;
            g->buffers[b] = (td_group_buffer){.row_bytes = s->row_bytes, .free_after = last[storage]};
            s->buffer = (int16_t)b;
            has[storage] = true;
        }
}

bool td_group_make(td_group *g, td_region *r, int64_t i)
{
    const int k = choose_k(&r->calls[i]);
    if (k < 0 || of_rows(&r->calls[i])->numel < 2)
        return false;
    if (!make_with(g, r, i, k))
        return false;
    /* A later call that leaves fewer dimensions alone may still join, if the slabs are larger. */
    for (int64_t next = g->last + 1; next < r->n_calls && g->k > 0; next++) {
        if (r->calls[next].dropped)
            continue;
        const int most = leading_dims(&r->calls[next]) - 1, calls = g->n_calls, now = g->k;
        if (most < 0 || most >= now)
            break;
        if (!make_with(g, r, i, most) || g->n_calls <= calls) {
            make_with(g, r, i, now);
            break;
        }
        next = g->last;
    }
    extend(g, r, g->last + 1, true);
    if (g->n_postponed)
        reorder(g, r);
    int64_t all = 0;
    g->bytes = 0;
    for (int s = 0; s < g->n_storages; s++) {
        td_group_storage *of = &g->storages[s];
        td_late_storage *late = is_late(of->s) ? of->s->context : NULL;
        of->internal = late && !late->held && late->last_use <= g->last;
        of->row_bytes = row_bytes(g, of);
        if (!of->internal)
            g->bytes += of->row_bytes > 0 ? of->row_bytes : -of->row_bytes;
        all += (int64_t)of->s->nbytes;
    }
    share_buffers(g);
    for (int b = 0; b < g->n_buffers; b++)
        g->bytes += g->buffers[b].row_bytes;
    return all > (int64_t)td_slab_least;
}
