/* Tier 2: a group of calls as one compiled loop.
 *
 * Note [Tier 2]
 * A group that comes again is printed (native_print.c) and compiled in the background (native_build.c), while slabs go on doing it. Sizes and strides are
 * arguments, so a loop is for all of them. When it is there, the next run does both: what differs is discarded for good, and the plan says so. Then
 * runs measure both tiers a few times, and the quicker one stays. A region that asks for tier 2 compiles at once and doesn't measure.
 *
 * Plans stay as long as the process. Their number is bounded; groups that come after the last one are done by slabs. */
#include "region/native.h"

#include <tede/auto.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/cache.h"

enum { PLANS = 1024, BUCKETS = 512, HOT = 3, MEASURED = 3, CHUNK = 16384, CHECKING = TD_NATIVE_BAD + 1 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static td_native_plan *buckets[BUCKETS], *plans[PLANS];
static int n_plans;
static uint64_t compiled_groups;

/* ---- plans */

typedef struct key { size_t size; char bytes[16384]; } key;

static bool put(key *k, const void *bytes, size_t size)
{
    if (k->size + size > sizeof k->bytes)
        return false;
    memcpy(k->bytes + k->size, bytes, size);
    k->size += size;
    return true;
}

/* All that the source depends on. */
static bool make_key(key *k, const td_native_loop *l, const char *compiler)
{
    bool fits = put(k, compiler, strlen(compiler) + 1);
    for (int v = 0; v < l->n_steps && fits; v++) {
        const td_native_step *s = &l->steps[v];
        const uint8_t bytes[] = {s->kind, s->rule, s->dtype, s->common, s->full, s->n};
        fits = put(k, bytes, sizeof bytes) && put(k, &s->formula, sizeof s->formula) && put(k, &s->run, sizeof s->run) &&
               put(k, s->of, sizeof *s->of * s->n);
    }
    for (int r = 0; r < l->n_runs && fits; r++) {
        const td_native_run *run = &l->runs[r];
        const int16_t words[] = {run->number, run->load, run->value, run->stored, run->spacing, (int16_t)run->x->dtype};
        fits = put(k, words, sizeof words);
    }
    return fits;
}

/* The plan of the loop, a new one if there is none; NULL: there are too many, or no memory. */
static td_native_plan *find_plan(const td_native_loop *l, const char *compiler)
{
    key k;
    k.size = 0;
    if (!make_key(&k, l, compiler ? compiler : ""))
        return NULL;
    const uint64_t hash = td_hash_words(0xCBF29CE484222325u, k.bytes, k.size);
    pthread_mutex_lock(&lock);
    td_native_plan *p = buckets[hash % BUCKETS];
    while (p && (p->hash != hash || p->key_size != k.size || memcmp(p->key, k.bytes, k.size)))
        p = p->next;
    if (!p && n_plans < PLANS && (p = calloc(1, sizeof *p + k.size))) {
        p->key = (char *)(p + 1);
        memcpy(p->key, k.bytes, k.size);
        p->hash = hash, p->key_size = k.size;
        p->compiler = *p->key ? p->key : NULL;      /* the key begins with it */
        p->next = buckets[hash % BUCKETS];
        p->number = n_plans;
        buckets[hash % BUCKETS] = p;
        __atomic_store_n(&plans[n_plans], p, __ATOMIC_RELEASE);
        __atomic_store_n(&n_plans, n_plans + 1, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&lock);
    return p;
}

/* ---- running */

typedef struct work {
    const td_native_loop *l;
    td_native_function   *function;
    int64_t rows, width, row_parts, width_parts;        /* of a part; parts */
    size_t  scratch;
    char   *data[TD_GROUP_TENSORS];
    int64_t steps[2 * TD_GROUP_TENSORS];
    bool    failed;
} work;

static void run_parts(void *context, int64_t from, int64_t to)
{
    work *w = context;
    const td_native_loop *l = w->l;
    const int last = l->ndim - 1;
    char *scratch = w->scratch ? td_mem_alloc(w->scratch) : NULL, *data[TD_GROUP_TENSORS];
    if (w->scratch && !scratch) {
        __atomic_store_n(&w->failed, true, __ATOMIC_RELAXED);
        return;
    }
    for (int64_t part = from; part < to; part++) {
        int64_t index[TD_MAX_DIMS], rest = part;
        const int64_t i = rest % w->width_parts * w->width;
        rest /= w->width_parts;
        const int64_t row = rest % w->row_parts * w->rows;
        rest /= w->row_parts;
        for (int d = last - 2; d >= 0; d--)
            index[d] = rest % l->sizes[d], rest /= l->sizes[d];
        for (int r = 0; r < l->n_runs; r++) {
            const td_native_run *run = &l->runs[r];
            if (run->number < 0)
                continue;
            char *at = w->data[run->number] + row * run->strides[last - 1] + i * run->strides[last];
            for (int d = 0; d < last - 1; d++)
                at += index[d] * run->strides[d];
            data[run->number] = at;
        }
        const int64_t rows = l->sizes[last - 1] - row, width = l->sizes[last] - i;
        w->function(rows < w->rows ? rows : w->rows, width < w->width ? width : w->width, data, w->steps, l->params, scratch);
    }
    td_mem_free(scratch, w->scratch);
}

/* Do the group; `data`: where the runs begin. */
static int run_loop(const td_native_loop *l, const td_native_plan *p, char *const *data)
{
    work w = {.l = l, .function = p->function};
    const int last = l->ndim - 1;
    const int64_t rows = l->sizes[last - 1], width = l->sizes[last];
    int64_t parts = 1;
    w.width = l->reduces || width <= 2 * CHUNK ? width : CHUNK;
    w.rows = width >= CHUNK ? 1 : CHUNK / width;
    w.rows = w.rows < rows ? w.rows : rows;
    w.width_parts = (width + w.width - 1) / w.width;
    w.row_parts = (rows + w.rows - 1) / w.rows;
    for (int d = 0; d < last - 1; d++)
        parts *= l->sizes[d];
    w.scratch = (size_t)((w.width + 15) / 16 * 16 * 8 * p->saved);
    for (int r = 0; r < l->n_runs; r++) {
        const td_native_run *run = &l->runs[r];
        if (run->number < 0)
            continue;
        w.data[run->number] = data[r];
        w.steps[run->number] = run->strides[last - 1];
        w.steps[l->n_numbered + run->number] = run->strides[last] / td_itemsize(run->x);
    }
    td_parallel_for(0, parts * w.row_parts * w.width_parts, 1, run_parts, &w);
    return w.failed ? td_error(TD_E_MEMORY, "no memory for the scratch of a compiled loop") : 0;
}

static int run_here(const td_native_loop *l, const td_native_plan *p)
{
    char *data[TD_GROUP_TENSORS];
    for (int r = 0; r < l->n_runs; r++)
        data[r] = l->runs[r].x->data;
    return run_loop(l, p, data);
}

/* ---- the first run */

static double element(const char *data, td_dtype dtype, int64_t i)
{
    switch (dtype) {
    case TD_F64: return ((const double *)data)[i];
    case TD_F32: return ((const float *)data)[i];
    case TD_F16: return td_f16_to_f32(((const uint16_t *)data)[i]);
    default: return td_bf16_to_f32(((const uint16_t *)data)[i]);
    }
}

/* Whether results are near enough: of integers and bool, the same. Sums in another order differ by parts of the largest element. */
static bool agree(const char *got, const char *wanted, td_dtype dtype, int64_t numel)
{
    if (!td_dtype_is_floating(dtype))
        return !memcmp(got, wanted, (size_t)(numel * td_itemsizes[dtype]));
    const double by = dtype == TD_F64 ? 1e-7 : dtype == TD_F32 ? 1e-5 : dtype == TD_F16 ? 2e-3 : 1.6e-2;
    double largest = 0;
    for (int64_t i = 0; i < numel; i++) {
        const double y = fabs(element(wanted, dtype, i));
        largest = y > largest && y < INFINITY ? y : largest;
    }
    const double least = by * (largest < 1 ? largest : 1);
    for (int64_t i = 0; i < numel; i++) {
        const double x = element(got, dtype, i), y = element(wanted, dtype, i);
        if (!(fabs(x - y) <= least + by * fabs(y)) && x != y && (x == x || y == y))
            return false;
    }
    return true;
}

/* Whether `got`, which lies as x does, has x's elements, nearly. */
static bool agrees_with(td_tensor *x, td_tensor *got)
{
    TD_AUTO td_tensor *a = td_make_contiguous(got), *b = td_make_contiguous(x);
    if (!a || !b)
        td_error_clear();
    return a && b && agree(a->data, b->data, x->dtype, x->numel);
}

/* Both tiers, of which the results of tier 1 stay. */
static int check(const td_native_loop *l, td_native_plan *p, td_group *g, td_region *r, int (*tier1)(td_group *g, td_region *r))
{
    char *data[TD_GROUP_TENSORS];
    td_tensor *copies[TD_GROUP_TENSORS] = {0};      /* strides of what is stored aren't negative */
    bool memory = true;
    for (int i = 0; i < l->n_runs; i++) {
        const td_native_run *run = &l->runs[i];
        td_tensor *x = run->x;
        data[i] = x->data;
        if (!run->stored)
            continue;
        memory = memory && (copies[i] = td_tensor_new_strided(x->ndim, x->sizes, x->strides, x->dtype, x->device));
        if (memory && run->load >= 0)
            memory = !td_copy_elements(copies[i], x);
        data[i] = memory ? copies[i]->data : NULL;
    }
    bool good = memory && !run_loop(l, p, data);
    if (!good)
        td_error_clear();               /* there is no memory for it today */
    const bool ran = good;
    const int status = tier1(g, r);
    for (int i = 0; i < l->n_runs; i++) {
        if (l->runs[i].stored && good && !status)
            good = agrees_with(l->runs[i].x, copies[i]);
        td_tensor_release(copies[i]);
    }
    if (ran && !good)
        snprintf(p->why, sizeof p->why, "its results differ from those of tier 1");
    __atomic_store_n(&p->state, !ran || status ? TD_NATIVE_BUILT : good ? TD_NATIVE_GOOD : TD_NATIVE_BAD, __ATOMIC_RELEASE);
    return status;
}

/* ---- which tier */

/* The tier of a loop that is known to be right: the one that is to be measured, or the quicker one. */
static int choose(const td_native_plan *p)
{
    if (p->measured[0] < MEASURED || p->measured[1] < MEASURED)
        return p->measured[0] <= p->measured[1] ? 0 : 1;
    return p->best[1] < p->best[0];
}

static void note(td_native_plan *p, int tier, double time, double elements)
{
    pthread_mutex_lock(&lock);
    p->best[tier] = p->measured[tier]++ && p->best[tier] < time / elements ? p->best[tier] : time / elements;
    pthread_mutex_unlock(&lock);
}

static void ask_for(td_native_plan *p, const td_native_loop *l)
{
    int cold = TD_NATIVE_COLD;
    if (!__atomic_compare_exchange_n(&p->state, &cold, TD_NATIVE_QUEUED, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
        return;
    char *source = p->source ? NULL : td_native_print(l, &p->saved);
    if (source)
        p->source = strdup(source);
    td_formula_text_free(source);
    if (p->source) {
        td_native_build_later(p);
        return;
    }
    snprintf(p->why, sizeof p->why, "it can't be printed: %s", td_error_message());
    td_error_clear();
    __atomic_store_n(&p->state, TD_NATIVE_BAD, __ATOMIC_RELEASE);
}

static td_native_outcome outcome(int status) { return status ? TD_NATIVE_FAILED : TD_NATIVE_DONE; }

static td_native_outcome run_described(td_native_loop *l, td_group *g, td_region *r, int (*tier1)(td_group *g, td_region *r))
{
    td_native_plan *p = td_native_describe(l, g, r) ? find_plan(l, r->compiler) : NULL;
    if (!p)
        return TD_NATIVE_DECLINED;
    const int64_t runs = __atomic_add_fetch(&p->runs, 1, __ATOMIC_RELAXED);
    int state = __atomic_load_n(&p->state, __ATOMIC_ACQUIRE);
    if (state == TD_NATIVE_COLD && (r->tier == 2 || runs >= HOT))
        ask_for(p, l);
    r->unsettled |= state != TD_NATIVE_GOOD && state != TD_NATIVE_BAD;
    if (state != TD_NATIVE_BUILT && state != TD_NATIVE_GOOD)
        return TD_NATIVE_DECLINED;
    for (int i = 0; i < g->n_storages; i++) {
        td_group_storage *s = &g->storages[i];
        if (!s->internal && s->s->flags & TD_STORAGE_LATE && td_late_fill_in(s->s))
            return TD_NATIVE_FAILED;
    }
    if (state == TD_NATIVE_BUILT) {
        if (!__atomic_compare_exchange_n(&p->state, &state, CHECKING, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
            return TD_NATIVE_DECLINED;
        return outcome(check(l, p, g, r, tier1));
    }
    const bool native = r->tier == 2 || choose(p), measures = p->measured[native] < MEASURED;
    const int64_t begin = measures ? td_nanoseconds() : 0;
    r->unsettled |= measures;
    double elements = 1;
    const int status = native ? run_here(l, p) : tier1(g, r);
    for (int d = 0; d < l->ndim; d++)
        elements *= (double)l->sizes[d];
    if (measures)
        note(p, native, (double)(td_nanoseconds() - begin), elements);
    if (native) {
        __atomic_add_fetch(&p->native_runs, 1, __ATOMIC_RELAXED);
        __atomic_add_fetch(&compiled_groups, 1, __ATOMIC_RELAXED);
    }
    return outcome(status);
}

td_native_outcome td_native_run_group(td_group *g, td_region *r, int (*tier1)(td_group *g, td_region *r))
{
    if (r->tier == 1)
        return TD_NATIVE_DECLINED;
    td_native_loop *l = td_mem_alloc(sizeof *l);
    if (!l) {
        td_error_clear();
        return TD_NATIVE_DECLINED;
    }
    const td_native_outcome result = run_described(l, g, r, tier1);
    td_mem_free(l, sizeof *l);
    return result;
}

/* ---- what there is */

void td_native_count(td_region_stats *stats)
{
    const int n = __atomic_load_n(&n_plans, __ATOMIC_ACQUIRE);
    stats->plans = (uint64_t)n;
    stats->compiled_groups = __atomic_load_n(&compiled_groups, __ATOMIC_RELAXED);
    for (int i = 0; i < n; i++) {
        const int state = __atomic_load_n(&plans[i]->state, __ATOMIC_ACQUIRE);
        const bool built = state == TD_NATIVE_BUILT || state == TD_NATIVE_GOOD || state == CHECKING;
        stats->cache_hits += built && plans[i]->cached;
        stats->compiled_plans += built;
        stats->discarded_plans += state == TD_NATIVE_BAD;
    }
}

bool td_region_plan_at(int i, td_region_plan *plan)
{
    static const char *const words[] = {"cold", "building", "built", "compiled", "discarded", "built"};
    if (i < 0 || i >= __atomic_load_n(&n_plans, __ATOMIC_ACQUIRE))
        return false;
    const td_native_plan *p = __atomic_load_n(&plans[i], __ATOMIC_ACQUIRE);
    const int state = __atomic_load_n(&p->state, __ATOMIC_ACQUIRE);
    const bool ready = state >= TD_NATIVE_BUILT;
    *plan = (td_region_plan){.state = words[state], .source = ready ? p->path : "", .why = ready ? p->why : "",
                             .runs = (uint64_t)p->runs, .compiled_runs = (uint64_t)p->native_runs};
    return true;
}
