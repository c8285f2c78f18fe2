/* Regions: recording calls, and computing them when somebody needs them.
 *
 * Note [Recording]
 * Within a region the thread's calls have the key TD_LATE, the highest of the device keys. Elementwise operators have their own kernel there:
 * it does all that it does in a call of now (promotion, shapes, errors), makes a late result (see Note [Late tensors]) and passes what is left to
 * record_pointwise(). Composites and views do what they do anyway, and record as they call. Everything else comes to the fallback, record_other():
 * structured operators describe their results, whose implementation on TD_LATE is record_impl(); what is left, what isn't elementwise and writes,
 * and what may refuse an element is called at once, after what it needs has been computed.
 *
 * So errors about arguments are raised where the call is, and there is one list of calls in the order of the program. */
#include "region/region.h"
#include <pthread.h>
#include <stdlib.h>
#include "base/once.h"
#include "base/warn.h"
#include "base/watch.h"
#include "dispatch/spec.h"
#include <tede/auto.h>
#include <tede/foreign.h>
#include "region/native.h"
#include "tensor/head.h"
#include "tensor/layout.h"
#include "tensor/recorded.h"

static _Thread_local td_region *region_now;
static _Thread_local bool last_settled;
static td_region_stats stats;
#define COUNT(field, n) __atomic_fetch_add(&stats.field, (uint64_t)(n), __ATOMIC_RELAXED)

td_region_stats td_region_counts(void)
{
    td_region_stats now = stats;
    td_native_count(&now);
    return now;
}
bool td_region_on(void) { return td_in_region(); }
bool td_region_settled(void) { return last_settled; }

/* ---- memory */

typedef struct td_arena_block { struct td_arena_block *before; size_t size; _Alignas(16) char data[]; } td_arena_block;

void *td_arena_new(td_arena *a, size_t bytes)
{
    bytes = (bytes + 15) & ~(size_t)15;
    if (!a->block || a->used + bytes > a->block->size) {
        const size_t size = bytes > 65536 - sizeof *a->block ? bytes : 65536 - sizeof *a->block;
        td_arena_block *block = td_mem_alloc(sizeof *block + size);
        if (!block)
            return NULL;
        *block = (td_arena_block){.before = a->block, .size = size};
        a->block = block, a->used = 0;
    }
    void *p = a->block->data + a->used;
    a->used += bytes;
    return p;
}

static void arena_free(td_arena *a)
{
    for (td_arena_block *b = a->block, *before; b; b = before) {
        before = b->before;
        td_mem_free(b, sizeof *b + b->size);
    }
    *a = (td_arena){0};
}

/* ---- other threads
 *
 * Note [Other threads]
 * What a region has yet to compute may be of use to another thread, and what that one writes may still be read by the region's calls. Regions are
 * no place for locks of their own: to record a call takes some tens of nanoseconds. A program whose threads hold one lock while they record
 * (td_region_set_lock; Python's) has none of them in the midst of a call while another thread holds that lock, which can so compute
 * what is recorded. It does before each call of its own (td_region_settle_others), so writes and reads keep the program's order. */

static td_region_lock lock;
static td_region *regions;
static pthread_mutex_t regions_lock = PTHREAD_MUTEX_INITIALIZER;

void td_region_set_lock(const td_region_lock *of_program)
{
    lock = *of_program;
    td_regions.let_go = lock.let_go, td_regions.take_again = lock.take_again;
}

static int refuse(void)
{
    return td_error(TD_E_RUNTIME, "a tensor that another thread's region computes can't be used here before the region has ended");
}
static int lost(void) { return td_error(TD_E_RUNTIME, "a tensor's elements were lost by an error in its region"); }

static void enlist(td_region *r)
{
    pthread_mutex_lock(&regions_lock);
    if ((r->next = regions))
        regions->prev = r;
    __atomic_store_n(&regions, r, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&regions_lock);
}
static void strike_off(td_region *r)
{
    pthread_mutex_lock(&regions_lock);
    *(r->prev ? &r->prev->next : &regions) = r->next;
    if (r->next)
        r->next->prev = r->prev;
    pthread_mutex_unlock(&regions_lock);
}

static int flush(td_region *r);

void td_region_settle_others(void)
{
    td_region *mine = region_now;
    td_tensor *const *results_given = td_results_given;
    if (mine && (mine->flushing || (__atomic_load_n(&regions, __ATOMIC_RELAXED) == mine && !mine->next)))
        return;                     /* most often this is the only one */
    pthread_mutex_lock(&regions_lock);
    for (td_region *r = regions; r; r = r->next)
        if (r != mine && !r->flushing && (r->n_calls | r->n_storages)) {
            region_now = r, td_results_given = NULL;
            if (r->n_calls)
                COUNT(early_flushes, 1);
            if (flush(r) && !r->error)
                r->error = td_error_detach();
        }
    pthread_mutex_unlock(&regions_lock);
    region_now = mine, td_results_given = results_given;
}

/* Have a storage's elements computed that isn't this thread's region's; one with memory has some already. The body of a loop, maybe a region's own,
 * has what it reads, and who waits for its end may hold the lock. */
static int settle_elsewhere(td_storage *s)
{
    if (!lock.take || td_in_parallel())
        return s->flags & TD_STORAGE_LATE ? refuse() : 0;
    void *taken = lock.take();
    td_region_settle_others();
    lock.give_back(taken);
    return s->flags & TD_STORAGE_LATE ? lost() : 0;
}

/* The error of calls that another thread has done. */
static int error_of(td_region *r)
{
    if (TD_LIKELY(!r->error))
        return 0;
    void *error = r->error;
    r->error = NULL;
    return td_error_attach(error);
}

/* ---- late tensors */

static int join(td_tensor *x)
{
    td_late_storage *late = x->storage->context;
    if (!late)
        return lost();
    const bool elsewhere = late->region != region_now;
    if (elsewhere && !lock.take)
        return refuse();
    void *taken = elsewhere ? lock.take() : NULL;
    td_late_head *head = td_arena_new(&late->region->arena, sizeof *head);
    if (head) {
        *head = (td_late_head){td_tensor_retain(x), late->heads};
        late->heads = head;
    }
    if (elsewhere)
        lock.give_back(taken);
    return head ? 0 : -1;
}

/* A result without memory; its sizes are checked as those of a tensor that is made now. */
static td_tensor *make(int ndim, const int64_t *sizes, const int64_t *strides, td_dtype dtype)
{
    td_region *r = region_now;
    int64_t numel = td_check_sizes(ndim, sizes) ? -1 : td_numel_checked(ndim, sizes), low = 0, high = 0, contiguous[TD_MAX_DIMS], nbytes;
    if (numel < 0)
        return NULL;
    if (!strides) {
        if (td_contiguous_strides(ndim, sizes, contiguous) < 0)
            return td_fail_overflow(ndim, sizes, NULL);
        strides = contiguous;
    }
    if (!td_bounds(ndim, sizes, strides, &low, &high) || __builtin_mul_overflow(high + 1, td_itemsizes[dtype], &nbytes))
        return td_fail_overflow(ndim, sizes, strides);
    if (r->n_storages == r->storage_room) {
        const int64_t room = 2 * r->storage_room + 64;
        td_late_storage **more = td_mem_alloc((size_t)room * sizeof *more);
        if (!more)
            return NULL;
        if (r->storages)
            memcpy(more, r->storages, (size_t)r->n_storages * sizeof *more);
        td_mem_free(r->storages, (size_t)r->storage_room * sizeof *more);
        r->storages = more, r->storage_room = room;
    }
    nbytes = numel ? nbytes : 0;
    void *address = td_late_address((size_t)nbytes);
    td_late_storage *late = address ? td_arena_new(&r->arena, sizeof *late) : NULL;
    td_storage *s = late ? td_mem_alloc(sizeof *s) : NULL;
    td_tensor *x = s ? td_head_new(ndim, dtype, (td_device){TD_CPU, -1}, TD_KEYS_CPU | TD_KEYSET(TD_LATE) |
                                   (td_masks_now.inference ? TD_KEYSET(TD_KEY_AUTOGRAD) : 0), td_masks_now.inference ? TD_FLAG_INFERENCE : 0) : NULL;
    if (!x) {
        td_mem_free(s, sizeof *s);
        return NULL;
    }
    td_storage_init(s, (td_device){TD_CPU, -1}, (size_t)nbytes, sizeof *s);
    s->flags = TD_STORAGE_LATE;
    s->data = address;
    s->context = late;
    *late = (td_late_storage){.s = s, .region = r};
    x->storage = s, x->data = address;
    for (int d = 0; d < ndim; d++)
        x->sizes[d] = sizes[d], x->strides[d] = strides[d];
    td_tensor_update_flags(x);
    if (join(x)) {
        td_tensor_release(x);
        return NULL;
    }
    r->storages[r->n_storages++] = late;
    return x;
}

int td_late_fill_in(td_storage *s)
{
    char *data = s->nbytes ? td_mem_alloc(s->nbytes) : NULL;
    if (s->nbytes && !data)
        return -1;
    for (td_late_head *h = ((td_late_storage *)s->context)->heads; h; h = h->next)
        if (h->x->storage == s) {
            h->x->data = (char *)((intptr_t)h->x->data - (intptr_t)s->data + (intptr_t)data);
            h->x->keys &= ~TD_KEYSET(TD_LATE);
        }
    s->data = data;
    s->capacity = s->nbytes;
    s->flags = 0;
    s->context = NULL;
    return 0;
}

/* ---- recording */

static td_late_call *new_call(int n_in, int n_out, td_tensor *const *out)
{
    td_region *r = region_now;
    if (r->n_calls == r->room) {
        const int64_t room = 2 * r->room + 64;
        td_late_call *more = td_mem_alloc((size_t)room * sizeof *more);
        if (!more)
            return NULL;
        if (r->calls)
            memcpy(more, r->calls, (size_t)r->n_calls * sizeof *more);
        td_mem_free(r->calls, (size_t)r->room * sizeof *more);
        r->calls = more, r->room = room;
    }
    td_late_call *c = &r->calls[r->n_calls];
    td_tensor **operands = td_arena_new(&r->arena, (size_t)(n_in + n_out) * sizeof *operands);
    if (!operands)
        return NULL;
    *c = (td_late_call){.n_in = (uint16_t)n_in, .n_out = (uint16_t)n_out, .in = operands, .out = operands + n_in};
    for (int i = 0; i < n_in; i++)
        c->in[i] = TD_NONE;
    for (int i = 0; i < n_out; i++)
        c->out[i] = td_tensor_retain(out[i]);
    return c;
}

static void release_operands(td_late_call *c)
{
    for (int i = 0; i < c->n_out; i++)
        if (c->out[i] != TD_NONE)
            c->out[i]->storage->flags &= (uint8_t)~TD_STORAGE_AWAITED;
    for (int i = 0; i < c->n_in + c->n_out; i++)
        td_tensor_release(c->in[i]);
}

/* An operand is this region's or has memory, and is in the set of those then. */
static int note(td_tensor *x)
{
    if (td_is_late(x)) {
        const td_late_storage *late = x->storage->context;
        if (TD_LIKELY(late && late->region == region_now))
            return 0;
        if (settle_elsewhere(x->storage))
            return -1;
    }
    return td_noted_add(&region_now->noted, x->storage);
}

/* The call is in the list: what was there before the region is awaited from now on. */
static int recorded(td_late_call *c)
{
    for (int i = 0; i < c->n_in + c->n_out; i++)
        if (c->in[i] != TD_NONE && note(c->in[i])) {
            release_operands(c);
            return -1;
        }
    for (int i = 0; i < c->n_out; i++)
        if (c->out[i] != TD_NONE && !td_is_late(c->out[i]))
            c->out[i]->storage->flags |= TD_STORAGE_AWAITED;
    region_now->n_calls++;
    COUNT(recorded_calls, 1);
    return 0;
}

static int record_copy(td_tensor *dst, td_tensor *src)
{
    td_late_call *c = new_call(1, 1, &dst);
    if (!c)
        return -1;
    c->kind = TD_LATE_COPY;
    c->in[0] = td_tensor_retain(src);
    return recorded(c);
}

static int record_pointwise(const td_pointwise *op, td_dtype common, td_tensor *const *in, const td_scalar *params, td_tensor *out)
{
    td_scalar *numbers = td_arena_new(&region_now->arena, op->n_params * sizeof *numbers);
    td_late_call *c = numbers ? new_call(op->n_in, 1, &out) : NULL;
    if (!c)
        return -1;
    if (op->n_params)
        memcpy(numbers, params, op->n_params * sizeof *numbers);
    c->kind = TD_LATE_FORMULA;
    c->pointwise = op, c->common = common, c->params = numbers;
    for (int i = 0; i < op->n_in; i++)
        c->in[i] = td_tensor_retain(in[i]);
    return recorded(c);
}

static bool noted(const td_storage *s) { return region_now && td_noted_has(&region_now->noted, s); }

static int record_work(const td_late_work *work, td_tensor *const *tensors)
{
    td_tensor *out[work->n];
    int n_out = 0;
    for (int i = 0; i < work->n; i++)
        if (work->written >> i & 1 && tensors[i])
            out[n_out++] = tensors[i];
    td_late_work *copy = td_arena_new(&region_now->arena, sizeof *copy);
    void *context = copy ? td_arena_new(&region_now->arena, work->bytes) : NULL;
    td_late_call *c = context ? new_call(work->n, n_out, out) : NULL;
    if (!c)
        return -1;
    *copy = *work;
    copy->context = memcpy(context, work->context, work->bytes);
    c->kind = TD_LATE_WORK;
    c->work = copy;
    for (int i = 0; i < work->n; i++)
        if (tensors[i])
            c->in[i] = td_tensor_retain(tensors[i]);
    return recorded(c);
}

/* Lists and texts are copied; tensors are put into c->in, as often as they come. */
static int copy_values(td_late_call *c, const td_op *op, const td_value *arguments)
{
    td_arena *arena = &region_now->arena;
    td_tensor **in = c->in;
    const int n = op->info.n_arguments;
    if (!(c->values = td_arena_new(arena, (size_t)n * sizeof *c->values)))
        return -1;
    for (int i = 0; i < n; i++) {
        td_value v = arguments[i];
        const void *list = NULL;
        size_t bytes = 0;
        switch (v.kind) {
        case TD_VALUE_TENSOR: *in++ = td_tensor_retain(v.tensor); break;
        case TD_VALUE_TENSORS:
            for (int k = 0; k < v.count; k++)
                in[k] = td_tensor_retain(v.tensors[k]);
            v.tensors = in;
            in += v.count;
            break;
        case TD_VALUE_INTS: list = v.ints, bytes = sizeof *v.ints * (size_t)v.count; break;
        case TD_VALUE_FLOATS: list = v.numbers, bytes = sizeof *v.numbers * (size_t)v.count; break;
        case TD_VALUE_BOOLS: list = v.bools, bytes = sizeof *v.bools * (size_t)v.count; break;
        case TD_VALUE_SCALARS: list = v.scalars, bytes = sizeof *v.scalars * (size_t)v.count; break;
        case TD_VALUE_STRING: list = v.string, bytes = v.string ? strlen(v.string) + 1 : 0; break;
        default: break;
        }
        if (bytes) {
            void *copy = td_arena_new(arena, bytes);
            if (!copy)
                return -1;
            memcpy(copy, list, bytes);
            v.ints = copy;              /* the union's pointers are one */
        }
        c->values[i] = v;
    }
    return 0;
}

static int count_tensors(const td_op *op, const td_value *arguments)
{
    int n = 0;
    for (int i = 0; i < op->info.n_arguments; i++)
        n += arguments[i].kind == TD_VALUE_TENSOR ? 1 : arguments[i].kind == TD_VALUE_TENSORS ? arguments[i].count : 0;
    return n;
}

/* The implementation of structured operators on TD_LATE. */
static int record_impl(const td_op *op, const td_value *arguments, td_tensor *const *results, void *context)
{
    td_tensor *out[op->info.n_results + op->info.n_arguments];
    int n_out = op->info.n_results;
    memcpy(out, results, (size_t)n_out * sizeof *out);
    for (int i = 0; i < op->info.n_arguments; i++)          /* a norm's running averages */
        if (op->info.arguments[i].is_updated && arguments[i].kind == TD_VALUE_TENSOR && arguments[i].tensor != TD_NONE)
            out[n_out++] = arguments[i].tensor;
    td_late_call *c = new_call(count_tensors(op, arguments), n_out, out);
    if (!c)
        return -1;
    if (copy_values(c, op, arguments)) {
        release_operands(c);
        return -1;
    }
    c->kind = TD_LATE_STRUCTURED;
    c->op = op, c->rows = context;
    return recorded(c);
}

enum { MOST_PARTS = 16 };

/* The implementation where the entry says `late: joins`: each operand is copied to its place, so that what computes it can write there. */
static int record_parts(const td_op *op, const td_value *arguments, td_tensor *const *results, void *context)
{
    td_tensor *all = results[0];
    const td_value *parts = &arguments[0];
    const int64_t dim = arguments[1].integer < 0 ? arguments[1].integer + all->ndim : arguments[1].integer;
    int64_t sizes[TD_MAX_DIMS], at = 0;
    if (parts->count > MOST_PARTS || !all->numel)
        return record_impl(op, arguments, results, context);
    memcpy(sizes, all->sizes, sizeof *sizes * all->ndim);
    for (int i = 0; i < parts->count; i++) {
        td_tensor *x = parts->tensors[i];
        if (!x->numel)
            continue;
        sizes[dim] = x->sizes[dim];
        TD_AUTO td_tensor *place = td_tensor_view(all, all->ndim, sizes, all->strides, at * all->strides[dim]);
        if (!place || record_copy(place, x))
            return -1;
        at += sizes[dim];
    }
    return 0;
}

/* The tensors among the arguments, as often as they come. */
static int tensors_of(const td_op *op, const td_value *arguments, td_tensor **tensors)
{
    int n = 0;
    for (int i = 0; i < op->info.n_arguments; i++) {
        const td_value *v = &arguments[i];
        if (v->kind == TD_VALUE_TENSOR)
            tensors[n++] = v->tensor;
        for (int k = 0; v->kind == TD_VALUE_TENSORS && k < v->count; k++)
            tensors[n++] = v->tensors[k];
    }
    return n;
}

/* Whether the operator's calls may be recorded: structured ones in their functional form, of which nothing about elements is an error. */
static bool may_record(const td_op *op, const td_value *arguments)
{
    if (!op->structured || op->structured->forms[0] != op || !op->unbox || op->info.flags & TD_OP_DATA_DEPENDENT ||
        !op->structured->impls[TD_CPU] || !op->structured->impls[TD_CPU]->typed)
        return false;
    if (op->info.flags & TD_OP_CHECKS_ELEMENTS && !td_late_checks(op, arguments))
        return false;
    for (int i = 0; i < op->info.n_arguments; i++)
        if (arguments[i].kind == TD_VALUE_GENERATOR)
            return false;
    return true;
}

/* What another thread's region computes. */
static int settle_each(int n, td_tensor *const *tensors)
{
    for (int i = 0; i < n; i++)
        if (td_settle(tensors[i]))
            return -1;
    return 0;
}

/* Whether the operator writes, in a region: what recorded calls have. */
static bool writes(const td_op *op, const td_value *arguments)
{
    bool declared = false;
    for (int i = 0; i < op->info.n_arguments; i++) {
        const td_value *v = &arguments[i];
        if (!op->info.arguments[i].is_mutable && !op->info.arguments[i].is_updated)
            continue;
        declared = true;
        if (!region_now || (v->kind == TD_VALUE_TENSOR && v->tensor != TD_NONE && td_is_noted(v->tensor)))
            return true;
        for (int k = 0; v->kind == TD_VALUE_TENSORS && k < v->count; k++)
            if (v->tensors[k] != TD_NONE && td_is_noted(v->tensors[k]))
                return true;
    }
    return !declared && op->info.flags & (TD_OP_INPLACE | TD_OP_OUT);
}

static int settle(td_storage *s);

/* The kernel of structured operators in a region, registered once; of those that don't go along rows. */
static td_impl impl_of_regions = {.boxed = record_impl};

static int record_other(const td_op *op, td_keyset keys, const td_value *arguments, td_value *results, void *context)
{
    (void)context;
    td_tensor *tensors[count_tensors(op, arguments) + 1];
    const int n = tensors_of(op, arguments, tensors);
    if (region_now && !region_now->flushing && td_is_recorded(NULL, n, tensors) && may_record(op, arguments))
        return op->unbox(op->on_strided, keys, arguments, results);
    keys &= ~TD_KEYSET(TD_LATE);
    if (op->late.leaves_work && region_now && !region_now->flushing && td_in_region()) {
        const td_kernel kernel = td_pick(op, &keys);
        return kernel ? op->unbox(kernel, keys, arguments, results) : -1;
    }
    bool awaited = false;
    for (int i = 0; i < n; i++)
        awaited |= td_is_awaited(tensors[i]);
    /* A call that neither reads what is awaited nor writes what late calls have leaves those late. */
    if ((awaited || writes(op, arguments)) && (region_now ? settle(NULL) : settle_each(n, tensors)))
        return -1;
    const td_keyset exclude = td_pause_region();
    const td_kernel kernel = td_pick(op, &keys);        /* whoever called this one counts what it writes */
    const int status = !kernel ? -1 : op->unbox ? op->unbox(kernel, keys, arguments, results) : td_call_boxed(op, keys, arguments, results);
    td_masks_now.exclude = exclude;
    return status;
}

/* ---- from begin to end */

static int flush(td_region *r)
{
    if (r->flushing || !(r->n_calls | r->n_storages))
        return 0;
    const td_keyset exclude = td_masks_now.exclude;
    td_masks_now.exclude |= TD_KEYSET(TD_LATE) | TD_KEYSET(TD_KEY_AUTOGRAD) | TD_KEYSET(TD_KEY_FORWARD_AD);
    r->flushing = td_warned_before = true;
    const int status = td_region_run(r);
    r->flushing = td_warned_before = false;
    td_masks_now.exclude = exclude;
    for (int64_t i = 0; i < r->n_calls; i++) {
        td_late_call *c = &r->calls[i];
        COUNT(dropped_calls, c->dropped);
        release_operands(c);
    }
    COUNT(fused_calls, r->n_fused);
    r->n_calls = r->n_fused = 0;
    td_noted_clear(&r->noted);
    /* Heads hold their storage: it goes with the last of them. */
    for (int64_t i = 0; i < r->n_storages; i++) {
        td_late_storage *late = r->storages[i];
        if (late->s->flags & TD_STORAGE_LATE)
            late->s->context = NULL;
        for (td_late_head *h = late->heads; h; h = h->next)
            td_tensor_release(h->x);
    }
    r->n_storages = 0;
    arena_free(&r->arena);
    return status;
}

static int settle(td_storage *s)
{
    td_region *r = region_now;
    if (!r)
        return s ? settle_elsewhere(s) : 0;
    if (r->flushing)
        return 0;
    if (r->n_calls)
        COUNT(early_flushes, 1);
    if (flush(r) || error_of(r))
        return -1;
    return s && s->flags & TD_STORAGE_LATE ? settle_elsewhere(s) : 0;
}

static int set_up(void)
{
    td_regions = (td_late_functions){settle, join, record_pointwise, make, record_copy, record_work, noted, lock.let_go, lock.take_again};
    for (int key = TD_KEY_DENSE; key < TD_KEY_AROUND; key++)
        if (td_register_fallback(key, TD_LATE, record_other, NULL))
            return -1;
    for (int i = 0; i < td_op_count(); i++) {
        td_op *op = (td_op *)td_op_at(i);
        if (!op || !op->on_strided)
            continue;
        if (op->info.flags & TD_OP_POINTWISE) {
            if (td_op_set_kernel(op, TD_SLOT_LATE, op->on_strided))
                return -1;
        } else {
            __atomic_store_n(&op->structured->impls[TD_LATE], &impl_of_regions, __ATOMIC_RELEASE);
        }
    }
    for (td_rows *r = td_rows_of_ops; r->op; r++) {
        const td_op *op = td_op_find(r->op);
        r->impl = (td_impl){.boxed = op->late.joins ? record_parts : record_impl, .context = r};
        __atomic_store_n(&op->structured->impls[TD_LATE], &r->impl, __ATOMIC_RELEASE);
    }
    return 0;
}

int td_region_begin(void) { return td_region_begin_with(&(td_region_options){.size = sizeof(td_region_options)}); }

int td_region_begin_with(const td_region_options *options)
{
    static td_once once;
    if (region_now) {
        region_now->depth++;
        return 0;
    }
    td_region *r = td_once_run(&once, set_up) || !td_late_address(0) ? NULL : td_mem_alloc(sizeof *r);
    if (!r)
        return -1;
    const char *named = getenv("TEDE_COMPILER");
    *r = (td_region){.depth = 1, .tier = options->tier ? options->tier : options->compiler || !named || *named ? 0 : 1};
    if (options->compiler && !(r->compiler = strdup(options->compiler))) {
        td_mem_free(r, sizeof *r);
        return td_error(TD_E_MEMORY, "no memory for a compiler's name");
    }
    region_now = r;
    enlist(r);
    td_masks_now.include |= TD_KEYSET(TD_LATE);
    __atomic_add_fetch(&td_region_threads, 1, __ATOMIC_RELAXED);
    __atomic_store_n(&td_isa_now, TD_ISAS, __ATOMIC_RELAXED);
    return 0;
}

int td_region_end(void)
{
    td_region *r = region_now;
    if (!r)
        return td_error(TD_E_RUNTIME, "td_region_end: this thread is in no region");
    if (--r->depth)
        return 0;
    const int status = flush(r) | error_of(r);
    strike_off(r);
    td_masks_now.include &= ~TD_KEYSET(TD_LATE);
    __atomic_sub_fetch(&td_region_threads, 1, __ATOMIC_RELAXED);
    COUNT(regions, 1);
    region_now = NULL;
    last_settled = !r->unsettled;
    arena_free(&r->arena);
    td_noted_free(&r->noted);
    td_mem_free(r->calls, (size_t)r->room * sizeof *r->calls);
    td_mem_free(r->storages, (size_t)r->storage_room * sizeof *r->storages);
    free(r->compiler);
    td_mem_free(r, sizeof *r);
    return status;
}
