/* The caching memory allocator: every block of the library comes from here.
 *
 * A training step allocates the same sizes again and again, so the path back and forth must be short.  Blocks of at most
 * SMALL_MAX bytes belong to a size class, and each thread keeps a list of free ones per class: taking and returning one
 * is a few instructions without a lock.  A list that runs empty is refilled from the heap, and one that grows long is
 * halved.  The heap's small blocks live in slabs: runs of pages cut into blocks of one class, each with its own free
 * list, so that a slab that nobody uses goes back to the pages (spans.c).  A block may be freed by any thread.  Larger
 * blocks are separate spans.
 *
 * Frees are sized, so blocks need no headers: size gives the class, and the address gives the slab.
 *
 * Statistics: every list counts what it took and returned; td_memory_stats sums over threads.  The heap's own count of
 * live bytes (for the peak and the limit) learns of small blocks whenever a list goes to the heap, and so
 * lags behind by a list's length at most. */
#include "base/base.h"
#include "base/once.h"
#include "base/spans.h"
#include "base/watch.h"

#include <tede/memory.h>

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>

#if defined(__SANITIZE_ADDRESS__)
enum { WATCHED = 1, MOST_LOG = 39 };       /* beyond it the sanitizer would end the process */
#else
enum { WATCHED = 0, MOST_LOG = 48 };
#endif

enum {
    SMALL_MAX = 32 << 10,
    CLASSES = 3 + 16 + 8 * 5,
    LIST_BYTES = 128 << 10,
    LIST_MOST = 256,
    TICK = 1 << 14,          /* allocations of a class and thread between two looks at idle memory */
};

struct list {
    void *blocks;            /* each free block begins with a pointer to the next one */
    uint64_t taken, returned;
    int64_t supplied;        /* by the heap, less what went back to it */
    int64_t reported;        /* live blocks (taken - returned) that the heap knows of; under its lock */
    int64_t most;
};

/* A separate counter would be one more memory round trip on the fast path. */
static inline int64_t count(const struct list *list)
{
    return list->supplied + (int64_t)(list->returned - list->taken);
}

struct cache {
    struct list lists[CLASSES];
    struct cache *next, *prev;
};

static TD_TLS struct cache *mine;
/* On a thread whose memory is watched the lists are hidden, so that all takes the slow path, which reports. */
static TD_TLS struct cache *hidden;

/* Why the fast path is disabled: zero in the normal case.  No thread has lists before the allocator is ready or if it is
 * bypassed. */
enum { NOT_READY = 1, BYPASS = 2, TO_FAIL = 4 };
static uint32_t detour = NOT_READY;

static inline bool bypassed(void)
{
    return __atomic_load_n(&detour, __ATOMIC_RELAXED) & BYPASS;
}

/* Under the heap's lock, but for fail_in. */
static struct {
    struct td_run *slabs[CLASSES];           /* with free blocks */
    struct cache *caches;
    uint64_t live, peak, limit;              /* bytes, small blocks as far as reported */
    uint64_t blocks_large;
    uint64_t allocations, failures;          /* large blocks and those of ended threads; failures of all */
    int64_t ended_live;                      /* small blocks that ended threads took, less those they returned */
} heap;

static int64_t fail_in;                      /* how many allocations from now; 0 or less: in the past */
static bool fail_lastingly;

static pthread_key_t at_thread_end;

/* ---- size classes: 16, 32, 48; then in steps of 64 to 1024; then eight per doubling */

static inline unsigned class_of(size_t size)
{
    static const uint8_t by_sixteenths[65] = {
        0, 0, 1, 2, 3, 4, 4, 4, 4, 5, 5, 5, 5, 6, 6, 6, 6, 7, 7, 7, 7, 8, 8, 8, 8, 9, 9, 9, 9, 10, 10, 10, 10,
        11, 11, 11, 11, 12, 12, 12, 12, 13, 13, 13, 13, 14, 14, 14, 14, 15, 15, 15, 15, 16, 16, 16, 16,
        17, 17, 17, 17, 18, 18, 18, 18,
    };
    if (TD_LIKELY(size <= 1024))
        return by_sixteenths[(size + 15) >> 4];
    unsigned log = 63 - (unsigned)__builtin_clzll(size - 1);
    return 19 + (log - 10) * 8 + ((unsigned)((size - 1) >> (log - 3)) & 7);
}

static size_t class_size(unsigned class)
{
    if (class < 19)
        return class < 3 ? 16 * (class + 1) : 64 * (class - 2);
    unsigned log = 10 + (class - 19) / 8, step = (class - 19) % 8;
    return ((size_t)8 + step + 1) << (log - 3);
}

static size_t slab_size(unsigned class)
{
    return class < 19 ? 64 << 10 : 256 << 10;
}

/* ---- the heap: slabs.  Its lock is held. */

static void slab_link(struct td_run **list, struct td_run *slab)
{
    slab->prev = NULL;
    slab->next = *list;
    if (*list)
        (*list)->prev = slab;
    *list = slab;
}

static void slab_unlink(struct td_run **list, struct td_run *slab)
{
    if (slab->next)
        slab->next->prev = slab->prev;
    *(slab->prev ? &slab->prev->next : list) = slab->next;
}

/* Up to `count` blocks, linked; how many in *got. */
static void *slabs_take(unsigned class, uint32_t count, uint32_t *got)
{
    struct td_run **list = &heap.slabs[class];
    uint32_t capacity = (uint32_t)(slab_size(class) / class_size(class));
    void *blocks = NULL, **end = &blocks;
    for (*got = 0; *got < count; ++*got) {
        struct td_run *slab = *list;
        if (!slab) {
            slab = td_slab_new(slab_size(class));
            if (!slab)
                break;
            slab_link(list, slab);
        }
        void **block = slab->blocks;
        if (block)
            slab->blocks = *block;
        else
            block = (void **)((char *)td_slab_start(slab) + class_size(class) * slab->carved++);
        if (++slab->used == capacity)
            slab_unlink(list, slab);
        *end = block;
        end = block;
    }
    *end = NULL;
    return blocks;
}

static void slabs_return(unsigned class, void **block)
{
    struct td_run *slab = td_slab_of(block), **list = &heap.slabs[class];
    if (slab->used == slab_size(class) / class_size(class))
        slab_link(list, slab);
    *block = slab->blocks;
    slab->blocks = block;
    if (--slab->used == 0) {
        slab_unlink(list, slab);
        td_slab_free(slab);
    }
}

/* Other threads read the counters while their owner writes them. */
#define PUT(counter, value) __atomic_store_n(&(counter), (value), __ATOMIC_RELAXED)
#define PEEK(counter)       __atomic_load_n(&(counter), __ATOMIC_RELAXED)

/* ---- the heap's count of live bytes.  Its lock is held. */

static void live_changed(int64_t bytes)
{
    heap.live += (uint64_t)bytes;
    if (heap.live > heap.peak)
        heap.peak = heap.live;
    /* Live and kept blocks together stay within the live peak, so a loop that needs the same memory each time never
     * faults it in again, and the process never grows beyond what it once needed.  (Keeping a quarter of the peak, the first
     * rule, made a step that writes 329 MB take 89 ms instead of 48.) */
    uint64_t keep = heap.peak - heap.live > 64 << 20 ? heap.peak - heap.live : 64 << 20;
    uint64_t room = heap.limit > heap.live ? heap.limit - heap.live : 0;
    td_spans.most_kept = heap.limit && keep > room ? room : keep;
}

static void report(struct list *list, unsigned class)
{
    int64_t live = (int64_t)(PEEK(list->taken) - PEEK(list->returned));
    live_changed((live - list->reported) * (int64_t)class_size(class));
    list->reported = live;
}

static bool over_limit(size_t size)
{
    return heap.limit && (size > heap.limit || heap.live > heap.limit - size);
}

/* ---- threads' lists */

/* Return blocks to the heap until `keep` are left. */
static void shorten(struct list *list, unsigned class, int64_t keep)
{
    while (count(list) > keep) {
        void **block = list->blocks;
        list->blocks = *block;
        list->supplied--;
        slabs_return(class, block);
    }
    report(list, class);
}

static void end_of_thread(void *cache)
{
    struct cache *c = cache;
    td_heap_lock();
    for (unsigned class = 0; class < CLASSES; class++) {
        struct list *list = &c->lists[class];
        shorten(list, class, 0);
        heap.allocations += list->taken;
        heap.ended_live += list->reported;
    }
    *(c->prev ? &c->prev->next : &heap.caches) = c->next;
    if (c->next)
        c->next->prev = c->prev;
    td_heap_unlock();
    mine = NULL;
    free(c);
}

static uint64_t limit_from_environment(void)
{
    const char *text = getenv("TEDE_MEMORY_LIMIT");
    char *unit;
    double number = text ? strtod(text, &unit) : 0;
    if (!text || unit == text || !(number > 0))
        return 0;
    int letter = *unit | 0x20, shift = letter == 'k' ? 10 : letter == 'm' ? 20 : letter == 'g' ? 30 : 0;
    number *= (double)(UINT64_C(1) << shift);
    return number < 0x1p63 ? (uint64_t)number : 0;
}

static int start(void)
{
    const char *bypass = getenv("TEDE_NO_CACHE");
    heap.limit = limit_from_environment();
    live_changed(0);
    pthread_key_create(&at_thread_end, end_of_thread);
    if (WATCHED || (bypass && *bypass && *bypass != '0'))
        __atomic_or_fetch(&detour, BYPASS, __ATOMIC_RELAXED);
    __atomic_and_fetch(&detour, ~NOT_READY, __ATOMIC_RELEASE);
    return 0;
}

static void make_ready(void)
{
    static td_once once;
    td_once_run(&once, start);
}

static struct cache *cache_of_thread(void)
{
    if (mine)
        return mine;
    struct cache *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    if (pthread_setspecific(at_thread_end, c) != 0) {
        free(c);
        return NULL;
    }
    for (unsigned class = 0; class < CLASSES; class++) {
        size_t most = LIST_BYTES / class_size(class);
        c->lists[class].most = most > LIST_MOST ? LIST_MOST : (int64_t)most;
    }
    td_heap_lock();
    c->next = heap.caches;
    if (c->next)
        c->next->prev = c;
    heap.caches = c;
    td_heap_unlock();
    return mine = c;
}

static inline void *list_take(struct list *list)
{
    void **block = list->blocks;
    list->blocks = *block;
    PUT(list->taken, list->taken + 1);
    return block;
}

static inline void list_put(struct list *list, void *block)
{
    *(void **)block = list->blocks;
    list->blocks = block;
    PUT(list->returned, list->returned + 1);
}

static bool refill(struct list *list, unsigned class)
{
    uint32_t got = 0;
    td_heap_lock();
    td_spans_release_idle();
    report(list, class);
    if (!over_limit(class_size(class))) {
        list->blocks = slabs_take(class, (uint32_t)(list->most / 2), &got);
        list->supplied += got;
    }
    td_heap_unlock();
    return got > 0;
}

/* ---- the slow path */

static void *no_memory(size_t size)
{
    td_heap_lock();
    heap.failures++;
    uint64_t live = heap.live, limit = heap.limit;
    td_heap_unlock();
    if (limit)
        return td_fail(TD_E_MEMORY, "DefaultCPUAllocator: can't allocate memory: you tried to allocate %zu bytes; "
                       "%" PRIu64 " are in use and the limit is %" PRIu64, size, live, limit);
    return td_fail(TD_E_MEMORY, "DefaultCPUAllocator: can't allocate memory: you tried to allocate %zu bytes; "
                   "%" PRIu64 " are in use", size, live);
}

static bool must_fail(void)
{
    int64_t n = __atomic_fetch_sub(&fail_in, 1, __ATOMIC_RELAXED);
    const bool lastingly = __atomic_load_n(&fail_lastingly, __ATOMIC_RELAXED);
    if (n == 1 && !lastingly)
        __atomic_and_fetch(&detour, ~TO_FAIL, __ATOMIC_RELAXED);
    return n == 1 || (n < 1 && lastingly);
}

static size_t rounded(size_t size)
{
    return size <= SMALL_MAX ? class_size(class_of(size)) : td_span_size(size);
}

/* A separate block from the heap; what it holds is zero if *zeroed says so. */
static void *large_alloc(size_t size, bool *zeroed)
{
    size_t whole = rounded(size);
    void *block = NULL;
    *zeroed = false;
    if (whole && whole <= (size_t)1 << MOST_LOG) {
        td_heap_lock();
        if (!over_limit(whole)) {
            if (!bypassed())
                block = td_span_alloc(size, zeroed);
            else if (posix_memalign(&block, size < 64 ? 16 : 64, size ? size : 1) != 0)
                block = NULL;
        }
        if (block) {
            heap.blocks_large++;
            heap.allocations++;
            live_changed((int64_t)whole);
        }
        td_spans_release_idle();
        td_heap_unlock();
    }
    return block ? block : no_memory(size);
}

static void large_free(void *block, size_t size)
{
    size_t whole = rounded(size);
    td_heap_lock();
    heap.blocks_large--;
    live_changed(-(int64_t)whole);
    if (bypassed())
        free(block);
    else
        td_span_free(block, size);
    td_heap_unlock();
}

/* Without a list of this thread's own, because there was no memory for it. */
static void *listless_alloc(unsigned class)
{
    uint32_t got;
    td_heap_lock();
    void *block = over_limit(class_size(class)) ? NULL : slabs_take(class, 1, &got);
    if (block) {
        heap.allocations++;
        heap.ended_live++;
        live_changed((int64_t)class_size(class));
    }
    td_heap_unlock();
    return block;
}

static void listless_free(void *block, unsigned class)
{
    td_heap_lock();
    heap.ended_live--;
    live_changed(-(int64_t)class_size(class));
    slabs_return(class, block);
    td_heap_unlock();
}

static void *long_alloc(size_t size, bool *zeroed);
static void long_free(void *block, size_t size);

static void *watched_alloc(size_t size, bool *zeroed)
{
    mine = hidden, hidden = NULL;
    void *block = long_alloc(size, zeroed);
    hidden = mine, mine = NULL;
    if (block)
        TD_EMIT(.kind = TD_EVENT_ALLOCATE, .pointer = block, .numbers = {(int64_t)rounded(size)});
    return block;
}

static void watched_free(void *block, size_t size)
{
    TD_EMIT(.kind = TD_EVENT_FREE, .pointer = block, .numbers = {(int64_t)rounded(size)});
    mine = hidden, hidden = NULL;
    long_free(block, size);
    hidden = mine, mine = NULL;
}

void td_watch_memory(bool on)
{
    if (on && !hidden && (mine || (mine = cache_of_thread())))
        hidden = mine, mine = NULL;
    else if (!on && hidden)
        mine = hidden, hidden = NULL;
}

static void *long_alloc(size_t size, bool *zeroed)
{
    if (TD_UNLIKELY(hidden != NULL))
        return watched_alloc(size, zeroed);
    uint32_t why = __atomic_load_n(&detour, __ATOMIC_ACQUIRE);
    if (why & NOT_READY)
        make_ready();
    if (why & TO_FAIL && must_fail())
        return no_memory(size);
    if (size > SMALL_MAX || bypassed())
        return large_alloc(size, zeroed);
    *zeroed = false;
    unsigned class = class_of(size);
    struct cache *c = cache_of_thread();
    void *block = NULL;
    if (!c)
        block = listless_alloc(class);
    else if (c->lists[class].blocks || refill(&c->lists[class], class))
        block = list_take(&c->lists[class]);
    return block ? block : no_memory(size);
}

static __attribute__((noinline)) void long_free(void *block, size_t size)
{
    if (TD_UNLIKELY(hidden != NULL)) {
        watched_free(block, size);
        return;
    }
    if (size > SMALL_MAX || bypassed()) {
        large_free(block, size);
        return;
    }
    unsigned class = class_of(size);
    struct cache *c = cache_of_thread();
    if (!c) {
        listless_free(block, class);
        return;
    }
    struct list *list = &c->lists[class];
    list_put(list, block);
    if (count(list) > list->most) {
        td_heap_lock();
        shorten(list, class, list->most / 2);
        td_heap_unlock();
    }
}

static __attribute__((noinline)) void *long_alloc_of_any(size_t size)
{
    bool zeroed;
    return long_alloc(size, &zeroed);
}

static __attribute__((noinline)) void *alloc_and_look_after_idle_memory(size_t size)
{
    td_heap_lock();
    td_spans_release_idle();
    td_heap_unlock();
    return long_alloc_of_any(size);
}

/* ---- the seam */

void *td_mem_alloc(size_t size)
{
    struct cache *c = mine;
    if (TD_UNLIKELY(size > SMALL_MAX || !c || __atomic_load_n(&detour, __ATOMIC_RELAXED)))
        return long_alloc_of_any(size);
    struct list *list = &c->lists[class_of(size)];
    if (TD_UNLIKELY(!list->blocks))
        return long_alloc_of_any(size);
    if (TD_UNLIKELY(list->taken % TICK == TICK - 1))
        return alloc_and_look_after_idle_memory(size);
    return list_take(list);
}

void td_mem_free(void *block, size_t size)
{
    struct cache *c = mine;
    if (!block)
        return;
    if (TD_UNLIKELY(size > SMALL_MAX || !c)) {
        long_free(block, size);
        return;
    }
    unsigned class = class_of(size);
    struct list *list = &c->lists[class];
    if (TD_UNLIKELY(count(list) >= list->most)) {
        long_free(block, size);
        return;
    }
    list_put(list, block);
}

void *td_mem_alloc_zero(size_t size)
{
    bool zeroed = false;
    void *block = size > SMALL_MAX ? long_alloc(size, &zeroed) : td_mem_alloc(size);
    if (block && !zeroed)
        memset(block, 0, size);
    return block;
}

/* A failure leaves the old block as it was. */
void *td_mem_realloc(void *block, size_t old_size, size_t new_size)
{
    if (!block)
        return td_mem_alloc(new_size);
    if (rounded(old_size) == rounded(new_size) && !bypassed())
        return block;
    void *moved = td_mem_alloc(new_size);
    if (!moved)
        return NULL;
    memcpy(moved, block, old_size < new_size ? old_size : new_size);
    td_mem_free(block, old_size);
    return moved;
}

/* ---- what tede/memory.h offers */

/* The heap's lock is held. */
static void report_all(void)
{
    for (struct cache *c = heap.caches; c; c = c->next)
        for (unsigned class = 0; class < CLASSES; class++)
            report(&c->lists[class], class);
}

void td_memory_stats(struct td_memory_stats *stats)
{
    make_ready();
    td_heap_lock();
    report_all();
    int64_t live = heap.ended_live;
    uint64_t allocations = heap.allocations;
    for (struct cache *c = heap.caches; c; c = c->next)
        for (unsigned class = 0; class < CLASSES; class++) {
            allocations += PEEK(c->lists[class].taken);
            live += c->lists[class].reported;
        }
    *stats = (struct td_memory_stats){
        .allocated = heap.live,
        .peak = heap.peak,
        .reserved = td_spans.reserved,
        .kept = td_spans.kept,
        .live_blocks = heap.blocks_large + (uint64_t)live,
        .allocations = allocations,
        .failures = heap.failures,
        .limit = heap.limit,
    };
    td_heap_unlock();
}

void td_memory_reset_peak(void)
{
    make_ready();
    td_heap_lock();
    report_all();
    heap.peak = heap.live;
    live_changed(0);
    td_heap_unlock();
}

void td_empty_cache(void)
{
    td_heap_lock();
    for (unsigned class = 0; mine && class < CLASSES; class++)
        shorten(&mine->lists[class], class, 0);
    td_spans_release(0);
    td_heap_unlock();
}

uint64_t td_memory_limit(void)
{
    make_ready();
    td_heap_lock();
    uint64_t limit = heap.limit;
    td_heap_unlock();
    return limit;
}

void td_set_memory_limit(uint64_t bytes)
{
    make_ready();
    td_heap_lock();
    heap.limit = bytes;
    live_changed(0);
    td_spans_release(td_spans.most_kept);
    td_heap_unlock();
}

void td_memory_fail_at(uint64_t n, bool lastingly)
{
    __atomic_and_fetch(&detour, ~TO_FAIL, __ATOMIC_RELAXED);
    __atomic_store_n(&fail_in, n < INT64_MAX ? (int64_t)n : INT64_MAX, __ATOMIC_RELAXED);
    __atomic_store_n(&fail_lastingly, lastingly, __ATOMIC_RELAXED);
    if (n)
        __atomic_or_fetch(&detour, TO_FAIL, __ATOMIC_RELEASE);
}
