/* The allocator's large blocks, of whole pages: taken from the operating system and kept when they are freed.
 *
 * Fresh pages are dear (the kernel clears each at its first touch), so a freed block keeps its memory and the next one of
 * its size takes it over as it is.  Up to RUN_MAX a block is a run of pages in a chunk, an aligned 16 MB of address space
 * advised to use huge pages.  A chunk begins with a descriptor for each of its pages.  Free runs merge with free
 * neighbours and wait in bins by length, eight bins per doubling; a request is rounded up to a bin's least length, so
 * the first run of any bin from there on fits and no list is ever searched (the idea of TLSF, Masmano et al. 2004).
 * What is larger has a separate mapping, and when freed waits in a bin of mappings of just its length.
 *
 * Everything free that holds memory, run or mapping, is in one list by age.  Beyond `most_kept` bytes the oldest give
 * their memory back: a mapping from its end, as much as needed; a run as a whole, though it keeps its addresses.  An
 * empty chunk is unmapped when it is idle. */
#define _GNU_SOURCE 1
#include "base/spans.h"

#include <pthread.h>
#include <sys/mman.h>
#include <time.h>

enum {
    HUGE_PAGE = 2 << 20,
    CHUNK = 16 << 20,
    CHUNK_PAGES = CHUNK / TD_PAGE,
    RUN_MAX = 4 << 20,                     /* bytes */
    RUN_BINS = 8 + 8 * 10,                 /* up to CHUNK_PAGES, 2^12 */
    MAPPING_BINS = 8 + 8 * 36,             /* up to 2^38 pages */
    IDLE_SECONDS = 5,
};

struct chunk {
    uint64_t dirty[CHUNK_PAGES / 64];      /* a bit per page that was handed out since it last was fresh */
    struct td_run pages[CHUNK_PAGES];
};
enum { FIRST_PAGE = (sizeof(struct chunk) + TD_PAGE - 1) / TD_PAGE, USABLE = CHUNK_PAGES - FIRST_PAGE };

struct td_spans td_spans = {.most_kept = 64 << 20};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct td_run *bins[RUN_BINS], *mappings[MAPPING_BINS];
static uint64_t filled[(RUN_BINS + 63) / 64];    /* a bit per bin that isn't empty */
static struct td_run *newest, *oldest;

void td_heap_lock(void) { pthread_mutex_lock(&lock); }
void td_heap_unlock(void) { pthread_mutex_unlock(&lock); }

/* ---- lengths and bins */

static int bin_of(uint64_t pages)
{
    if (pages < 8)
        return (int)pages;
    int log = 63 - __builtin_clzll(pages);
    return 8 + (log - 3) * 8 + (int)(pages >> (log - 3) & 7);
}

/* Round up to the least length of a bin. */
static uint64_t round_pages(uint64_t pages)
{
    if (pages < 8)
        return pages ? pages : 1;
    uint64_t step = UINT64_C(1) << (60 - __builtin_clzll(pages));
    return (pages + step - 1) & ~(step - 1);
}

static uint64_t pages_of(size_t size)
{
    return round_pages(size / TD_PAGE + (size % TD_PAGE != 0));
}

size_t td_span_size(size_t size)
{
    return size > (size_t)1 << 49 ? 0 : pages_of(size) * TD_PAGE;
}

static void bin_add(struct td_run **bin, struct td_run *run)
{
    run->prev = NULL;
    run->next = *bin;
    if (*bin)
        (*bin)->prev = run;
    *bin = run;
}

static void bin_remove(struct td_run **bin, struct td_run *run)
{
    if (run->next)
        run->next->prev = run->prev;
    if (run->prev)
        run->prev->next = run->next;
    else
        *bin = run->next;
}

/* ---- the list by age */

static uint32_t seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return (uint32_t)now.tv_sec;
}

static void age_add(struct td_run *run)
{
    run->listed = run->touched > 0;
    run->time = seconds();
    if (!run->listed)
        return;
    td_spans.kept += run->touched * TD_PAGE;
    run->newer = NULL;
    run->older = newest;
    *(newest ? &newest->newer : &oldest) = run;
    newest = run;
}

static void age_remove(struct td_run *run)
{
    if (!run->listed)
        return;
    run->listed = false;
    td_spans.kept -= run->touched * TD_PAGE;
    *(run->newer ? &run->newer->older : &newest) = run->older;
    *(run->older ? &run->older->newer : &oldest) = run->newer;
}

/* ---- the operating system */

static void unmap(void *start, size_t size)
{
    munmap(start, size);
    td_spans.reserved -= size;
}

static void *map_once(size_t size, size_t alignment)
{
    char *start = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start == MAP_FAILED)
        return NULL;
    if ((uintptr_t)start % alignment) {
        munmap(start, size);
        start = mmap(NULL, size + alignment, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (start == MAP_FAILED)
            return NULL;
        size_t before = -(uintptr_t)start % alignment;
        if (before)
            munmap(start, before);
        munmap(start + before + size, alignment - before);
        start += before;
    }
    madvise(start, size, MADV_HUGEPAGE);
    td_spans.reserved += size;
    return start;
}

static void *map(size_t size, size_t alignment)
{
    void *start = map_once(size, alignment);
    if (!start && td_spans.kept) {
        td_spans_release(0);
        start = map_once(size, alignment);
    }
    return start;
}

/* ---- runs */

static struct chunk *chunk_of(const void *inside)
{
    return (struct chunk *)((uintptr_t)inside & -(uintptr_t)CHUNK);
}

static uint32_t index_of(const struct td_run *run)
{
    return (uint32_t)(run - chunk_of(run)->pages);
}

static void *start_of(const struct td_run *run)
{
    return (char *)chunk_of(run) + (size_t)index_of(run) * TD_PAGE;
}

/* How many of the run's pages are dirty; they are marked so, or fresh, afterwards. */
static uint64_t mark(struct td_run *run, bool dirty)
{
    uint64_t *bits = chunk_of(run)->dirty, count = 0;
    for (uint64_t at = index_of(run), end = at + run->pages; at < end;) {
        uint64_t in_word = 64 - at % 64, n = end - at < in_word ? end - at : in_word;
        uint64_t mask = (n == 64 ? ~UINT64_C(0) : (UINT64_C(1) << n) - 1) << at % 64, *word = &bits[at / 64];
        count += (uint64_t)__builtin_popcountll(*word & mask);
        *word = dirty ? *word | mask : *word & ~mask;
        at += n;
    }
    return count;
}

/* Describe a stretch of pages at its two ends. */
static void describe(struct td_run *run, uint64_t pages, bool free)
{
    struct td_run *last = run + pages - 1;
    run->first = last->first = index_of(run);
    run->free = last->free = free;
    run->pages = pages;
    run->mapping = run->listed = false;
}

static void put_free_run(struct td_run *run, uint64_t pages, uint64_t touched)
{
    describe(run, pages, true);
    run->touched = touched;
    int bin = bin_of(pages);
    bin_add(&bins[bin], run);
    filled[bin / 64] |= UINT64_C(1) << bin % 64;
    age_add(run);
}

static void take_out(struct td_run *run)
{
    int bin = bin_of(run->pages);
    bin_remove(&bins[bin], run);
    if (!bins[bin])
        filled[bin / 64] &= ~(UINT64_C(1) << bin % 64);
    age_remove(run);
}

static int filled_from(int bin)
{
    for (int word = bin / 64; word < TD_COUNT(filled); word++) {
        uint64_t bits = filled[word] & (word == bin / 64 ? ~UINT64_C(0) << bin % 64 : ~UINT64_C(0));
        if (bits)
            return word * 64 + __builtin_ctzll(bits);
    }
    return -1;
}

/* `pages` is rounded. */
static struct td_run *run_alloc(uint64_t pages)
{
    int bin = filled_from(bin_of(pages));
    if (bin < 0) {
        struct chunk *chunk = map(CHUNK, CHUNK);
        if (!chunk)
            return NULL;
        put_free_run(&chunk->pages[FIRST_PAGE], USABLE, 0);
        bin = bin_of(USABLE);
    }
    struct td_run *run = bins[bin];
    uint64_t all = run->pages, touched = run->touched;
    take_out(run);
    describe(run, pages, false);
    run->touched = mark(run, true);
    if (all > pages)
        put_free_run(run + pages, all - pages, touched - run->touched);
    return run;
}

static void run_free(struct td_run *run)
{
    struct chunk *chunk = chunk_of(run);
    uint64_t pages = run->pages, touched = pages;
    struct td_run *after = run + pages;
    if (after < chunk->pages + CHUNK_PAGES && after->free) {
        take_out(after);
        pages += after->pages;
        touched += after->touched;
    }
    if (run > chunk->pages + FIRST_PAGE && run[-1].free) {
        run = &chunk->pages[run[-1].first];
        take_out(run);
        pages += run->pages;
        touched += run->touched;
    }
    put_free_run(run, pages, touched);
}

/* ---- blocks */

static void *mapping_alloc(uint64_t pages, bool *zeroed)
{
    struct td_run **bin = &mappings[bin_of(pages)], *run = *bin;
    *zeroed = run == NULL;
    if (!run)
        return map(pages * TD_PAGE, HUGE_PAGE);
    bin_remove(bin, run);
    age_remove(run);
    return run;
}

void *td_span_alloc(size_t size, bool *zeroed)
{
    uint64_t pages = pages_of(size);
    if (pages > RUN_MAX / TD_PAGE)
        return mapping_alloc(pages, zeroed);
    struct td_run *run = run_alloc(pages);
    if (!run)
        return NULL;
    *zeroed = run->touched == 0;
    return start_of(run);
}

void td_span_free(void *block, size_t size)
{
    uint64_t pages = pages_of(size);
    if (pages > RUN_MAX / TD_PAGE) {
        struct td_run *run = block;
        run->pages = run->touched = pages;
        run->mapping = run->free = true;
        bin_add(&mappings[bin_of(pages)], run);
        age_add(run);
    } else {
        struct chunk *chunk = chunk_of(block);
        run_free(&chunk->pages[((char *)block - (char *)chunk) / TD_PAGE]);
    }
    if (td_spans.kept > td_spans.most_kept)
        td_spans_release(td_spans.most_kept);
}

struct td_run *td_slab_new(size_t size)
{
    struct td_run *run = run_alloc(pages_of(size));
    if (!run)
        return NULL;
    for (uint64_t i = 1; i < run->pages; i++)
        run[i].first = run->first, run[i].free = false;
    run->blocks = NULL;
    run->used = run->carved = 0;
    return run;
}

void td_slab_free(struct td_run *slab)
{
    run_free(slab);
    if (td_spans.kept > td_spans.most_kept)
        td_spans_release(td_spans.most_kept);
}

struct td_run *td_slab_of(const void *block)
{
    struct chunk *chunk = chunk_of(block);
    return &chunk->pages[chunk->pages[((char *)block - (char *)chunk) / TD_PAGE].first];
}

void *td_slab_start(const struct td_run *slab)
{
    return start_of(slab);
}

/* ---- releasing */

static void release_run(struct td_run *run)
{
    madvise(start_of(run), run->pages * TD_PAGE, MADV_DONTNEED);
    age_remove(run);
    mark(run, false);
    run->touched = 0;
}

static void release_mapping(struct td_run *run, uint64_t excess)
{
    uint64_t cut = ((excess + HUGE_PAGE - 1) & -(uint64_t)HUGE_PAGE) / TD_PAGE;
    if (cut < run->touched) {
        run->touched -= cut;
        td_spans.kept -= cut * TD_PAGE;
        madvise((char *)run + run->touched * TD_PAGE, cut * TD_PAGE, MADV_DONTNEED);
        return;
    }
    bin_remove(&mappings[bin_of(run->pages)], run);
    age_remove(run);
    unmap(run, run->pages * TD_PAGE);
}

static void release_oldest(uint64_t excess)
{
    if (oldest->mapping)
        release_mapping(oldest, excess);
    else
        release_run(oldest);
}

/* Unmap chunks without a block that were last used more than `age` seconds ago; 0: all of them.  A chunk's descriptors
 * make it dear to map anew, so this is not for memory that is merely above the bound. */
static void release_chunks(uint32_t now, uint32_t age)
{
    for (struct td_run *run = bins[bin_of(USABLE)], *next; run; run = next) {
        next = run->next;
        if (run->pages != USABLE || (age && now - run->time <= age))
            continue;
        take_out(run);
        unmap(chunk_of(run), CHUNK);
    }
}

void td_spans_release(uint64_t keep)
{
    while (oldest && td_spans.kept > keep)
        release_oldest(td_spans.kept - keep);
    if (keep == 0)
        release_chunks(0, 0);
}

void td_spans_release_idle(void)
{
    static uint32_t last_look;
    uint32_t now = seconds();
    if (now == last_look)
        return;
    last_look = now;
    while (oldest && now - oldest->time > IDLE_SECONDS)
        release_oldest(UINT64_MAX - HUGE_PAGE);
    release_chunks(now, IDLE_SECONDS);
}

/* ---- fork: the child's heap must not be in the middle of something */

static void unlock_in_child(void)
{
    pthread_mutex_init(&lock, NULL);
}

__attribute__((constructor)) static void survive_fork(void)
{
    pthread_atfork(td_heap_lock, td_heap_unlock, unlock_in_child);
}
