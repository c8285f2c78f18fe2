/* The allocation seam: blocks, threads, statistics, limits, failing on purpose. */
#include "../td_test.h"

#include "base/base.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

static struct td_memory_stats now(void)
{
    struct td_memory_stats stats;
    td_memory_stats(&stats);
    return stats;
}

/* Whether blocks go to the C library: then nothing is kept, and nothing is reserved. */
static bool bypassed(void)
{
#if defined(__SANITIZE_ADDRESS__)
    return true;
#else
    const char *text = getenv("TEDE_NO_CACHE");
    return text && *text == '1';
#endif
}

static uint64_t next_random(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *state >> 33;
}

/* Sizes of all kinds, small ones mostly. */
static size_t some_size(uint64_t *state)
{
    size_t most = (size_t)1 << (next_random(state) % 4 ? next_random(state) % 12 : next_random(state) % 23);
    return next_random(state) % most;
}

static void fill(unsigned char *block, size_t size, unsigned char with)
{
    memset(block, with, size);
}

static bool filled(const unsigned char *block, size_t size, unsigned char with)
{
    return size == 0 || (block[0] == with && memcmp(block, block + 1, size - 1) == 0);
}

TD_TEST(blocks_are_aligned_and_apart)
{
    enum { N = 300 };
    static unsigned char *blocks[N];
    for (size_t size = 0; size < 3000000; size += 1 + size / 7) {
        int n = size < 4096 ? N : 3, got = 0;
        for (; got < n && (blocks[got] = td_mem_alloc(size)); got++)
            fill(blocks[got], size, (unsigned char)got);
        bool fine = true;
        for (int i = 0; i < got; i++) {
            fine = fine && (uintptr_t)blocks[i] % (size < 64 ? 16 : 64) == 0 &&
                   filled(blocks[i], size, (unsigned char)i) && (i == 0 || blocks[i] != blocks[i - 1]);
            td_mem_free(blocks[i], size);
        }
        CHECK(fine);
        CHECK(got == n);
    }
}

TD_TEST(freeing_null_is_fine)
{
    td_mem_free(NULL, 0);
    td_mem_free(NULL, 1 << 20);
}

TD_TEST(zeroed_blocks_are_zero_however_often_they_are_reused)
{
    uint64_t random = 7;
    for (int i = 0; i < 400; i++) {
        size_t size = i % 40 == 0 ? 6000000 : some_size(&random);
        unsigned char *block = TRY(td_mem_alloc_zero(size));
        bool zero = filled(block, size, 0);
        fill(block, size, 0xff);
        td_mem_free(block, size);
        CHECK(zero);
    }
}

TD_TEST(realloc_keeps_the_contents)
{
    uint64_t random = 3;
    size_t size = 0;
    unsigned char *block = NULL;
    for (int i = 0; i < 300; i++) {
        size_t larger = some_size(&random);
        unsigned char *moved = td_mem_realloc(block, size, larger);
        bool fine = moved && filled(moved, size < larger ? size : larger, 0x5a);
        if (!fine) {
            td_mem_free(moved ? moved : block, moved ? larger : size);
            CHECK(!fine && moved == NULL && td_test_failing);
            return;
        }
        block = moved;
        size = larger;
        fill(block, size, 0x5a);
    }
    td_mem_free(block, size);
}

TD_TEST(a_size_that_cannot_be_is_an_error)
{
    CHECK_FAILS(td_mem_alloc(SIZE_MAX), TD_E_MEMORY, "can't allocate memory: you tried to allocate 18446744073709551615 bytes");
    CHECK_FAILS(td_mem_alloc((size_t)1 << 63), TD_E_MEMORY);
    CHECK_FAILS(td_mem_alloc(((size_t)1 << 63) - 4096), TD_E_MEMORY);
    CHECK_FAILS(td_mem_alloc_zero((size_t)1 << 48), TD_E_MEMORY, "281474976710656");
    unsigned char *block = TRY(td_mem_alloc(100));
    fill(block, 100, 1);
    td_error_clear();
    bool kept = td_mem_realloc(block, 100, SIZE_MAX / 2) == NULL && td_error_code() == TD_E_MEMORY && filled(block, 100, 1);
    td_mem_free(block, 100);
    CHECK(kept);
}

TD_TEST(statistics_count_what_lives)
{
    struct td_memory_stats before = now();
    void *small = TRY(td_mem_alloc(100));
    void *large = td_mem_alloc(1 << 20);
    struct td_memory_stats during = now();
    td_mem_free(small, 100);
    td_mem_free(large, 1 << 20);
    CHECK(large);
    struct td_memory_stats after = now();
    CHECK_EQ(during.live_blocks - before.live_blocks, 2);
    CHECK_EQ(during.allocated - before.allocated, (1 << 20) + 128);
    CHECK_EQ(during.allocations - before.allocations, 2);
    CHECK_EQ(after.live_blocks, before.live_blocks);
    CHECK_EQ(after.allocated, before.allocated);
    CHECK(after.peak >= during.allocated);
    td_memory_reset_peak();
    CHECK_EQ(now().peak, before.allocated);
    CHECK(bypassed() || during.reserved >= during.allocated);
}

TD_TEST(a_freed_block_is_handed_out_again_with_its_pages)
{
    enum { SIZE = 40000000 };
    if (bypassed())
        return;
    unsigned char *first = TRY(td_mem_alloc(SIZE));
    fill(first, SIZE, 3);
    td_mem_free(first, SIZE);
    CHECK(now().kept >= SIZE);
    unsigned char *second = TRY(td_mem_alloc(SIZE - 1000));
    bool same = second == first && second[SIZE / 2] == 3;
    td_mem_free(second, SIZE - 1000);
    CHECK(same);
}

TD_TEST(no_more_is_kept_than_promised_and_the_cache_can_be_emptied)
{
    enum { N = 60, SIZE = 3 << 20 };
    static void *blocks[N];
    if (bypassed() || td_test_failing)
        return;
    td_memory_reset_peak();
    for (int round = 0; round < 4; round++) {
        size_t size = round % 2 ? SIZE : 5 * SIZE / 2;
        int got = 0;
        for (; got < N && (blocks[got] = td_mem_alloc(size)); got++)
            fill(blocks[got], 4096, 1);
        for (int i = 0; i < got; i++)
            td_mem_free(blocks[i], size);
        CHECK(got == N);
        struct td_memory_stats stats = now();
        uint64_t spare = stats.peak - stats.allocated, most = spare > 64 << 20 ? spare : 64 << 20;
        CHECK(stats.kept <= most);
        CHECK(stats.kept > 0);
    }
    td_empty_cache();
    CHECK_EQ(now().kept, 0);
    CHECK(now().reserved <= 64 << 20);
}

TD_TEST(a_limit_holds)
{
    uint64_t before = td_memory_limit();
    uint64_t live = now().allocated;
    td_set_memory_limit(live + (10 << 20));
    void *fits = td_mem_alloc(8 << 20);
    void *too_much = td_mem_alloc(4 << 20);
    bool refused = td_error_code() == TD_E_MEMORY && (td_test_failing || strstr(td_error_message(), "the limit is"));
    td_error_clear();
    int small = 0;
    static void *blocks[20000];
    while (small < 20000 && (blocks[small] = td_mem_alloc(1000)))
        small++;
    bool small_stopped = small < 20000;
    for (int i = 0; i < small; i++)
        td_mem_free(blocks[i], 1000);
    td_mem_free(fits, 8 << 20);
    td_mem_free(too_much, 4 << 20);
    void *fits_now = td_mem_alloc(9 << 20);
    td_mem_free(fits_now, 9 << 20);
    td_set_memory_limit(before);
    if (td_test_failing)
        return;
    td_error_clear();
    CHECK(fits && !too_much && refused && small_stopped && fits_now);
    CHECK(small < (2 << 20) / 1000 + 300);
}

TD_TEST(the_nth_allocation_can_be_made_to_fail)
{
    if (td_test_failing)
        return;
    void *blocks[6];
    for (int lastingly = 0; lastingly < 2; lastingly++) {
        uint64_t failures = now().failures;
        td_memory_fail_at(3, lastingly);
        for (int i = 0; i < 6; i++)
            blocks[i] = i % 2 ? td_mem_alloc_zero(100) : td_mem_alloc(200000);
        td_memory_fail_at(0, false);
        int got = 0;
        for (int i = 0; i < 6; i++) {
            got |= (blocks[i] != NULL) << i;
            td_mem_free(blocks[i], i % 2 ? 100 : 200000);
        }
        CHECK_EQ(got, lastingly ? 0x3 : 0x3b);
        CHECK_EQ(td_error_code(), TD_E_MEMORY);
        CHECK_EQ(now().failures - failures, lastingly ? 4 : 1);
        td_error_clear();
    }
}

/* ---- threads: each has a box where anybody leaves blocks for it to free */

enum { THREADS = 4, BOX = 64, ROUNDS = 20000 };

struct block { unsigned char *bytes; size_t size; unsigned char with; };

static struct box {
    pthread_mutex_t lock;
    struct block blocks[BOX];
    int count;
} boxes[THREADS];

static void *hammer(void *number)
{
    int me = (int)(intptr_t)number;
    uint64_t random = (uint64_t)me + 1;
    intptr_t wrong = 0;
    for (int i = 0; i < ROUNDS; i++) {
        struct block block = {NULL, some_size(&random), (unsigned char)i};
        block.bytes = td_mem_alloc(block.size);
        if (!block.bytes)
            continue;
        fill(block.bytes, block.size < 5000 ? block.size : 5000, block.with);
        struct box *box = &boxes[next_random(&random) % THREADS];
        pthread_mutex_lock(&box->lock);
        if (box->count < BOX) {
            struct block kept = box->blocks[box->count];
            box->blocks[box->count++] = block;
            block = kept;
            block.bytes = NULL;
        } else {
            struct block *slot = &box->blocks[next_random(&random) % BOX], kept = *slot;
            *slot = block;
            block = kept;
        }
        pthread_mutex_unlock(&box->lock);
        if (block.bytes) {
            wrong += !filled(block.bytes, block.size < 5000 ? block.size : 5000, block.with);
            td_mem_free(block.bytes, block.size);
        }
        if (i % 4000 == 0)
            td_empty_cache();
    }
    return (void *)wrong;
}

static int64_t hammer_with_threads(void)
{
    pthread_t threads[THREADS];
    int64_t wrong = 0;
    int started = 0;
    for (int i = 0; i < THREADS; i++) {
        pthread_mutex_init(&boxes[i].lock, NULL);
        boxes[i].count = 0;
    }
    while (started < THREADS && pthread_create(&threads[started], NULL, hammer, (void *)(intptr_t)started) == 0)
        started++;
    for (int i = 0; i < started; i++) {
        void *result;
        pthread_join(threads[i], &result);
        wrong += (intptr_t)result;
    }
    for (int i = 0; i < THREADS; i++)
        while (boxes[i].count) {
            struct block *block = &boxes[i].blocks[--boxes[i].count];
            wrong += !filled(block->bytes, block->size < 5000 ? block->size : 5000, block->with);
            td_mem_free(block->bytes, block->size);
        }
    return wrong + (started < THREADS);
}

TD_TEST(threads_may_free_each_others_blocks)
{
    if (td_test_failing)
        return;
    struct td_memory_stats before = now();
    CHECK_EQ(hammer_with_threads(), 0);
    struct td_memory_stats after = now();
    CHECK_EQ(after.allocations - before.allocations, THREADS * ROUNDS);
    CHECK_EQ(after.allocated, before.allocated);
}

static void *allocate_once(void *unused)
{
    (void)unused;
    void *block = td_mem_alloc(300);
    return block;
}

TD_TEST(a_block_outlives_the_thread_that_made_it)
{
    uint64_t before = now().live_blocks;
    pthread_t thread;
    void *block;
    CHECK_EQ(pthread_create(&thread, NULL, allocate_once, NULL), 0);
    pthread_join(thread, &block);
    uint64_t during = now().live_blocks;
    td_mem_free(block, 300);
    if (td_test_failing)
        return;
    CHECK_EQ(during, before + 1);
    CHECK_EQ(now().live_blocks, before);
}

/* ---- fork */

static bool stop;

static void *churn(void *number)
{
    uint64_t random = (uint64_t)(intptr_t)number + 77;
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        size_t size = some_size(&random);
        td_mem_free(td_mem_alloc(size), size);
    }
    return NULL;
}

static int fork_and_allocate(void)
{
    pid_t child = fork();
    if (child == 0) {
        alarm(60);
        uint64_t random = 5;
        for (int i = 0; i < 2000; i++) {
            size_t size = some_size(&random);
            unsigned char *block = td_mem_alloc(size);
            if (!block)
                _exit(2);
            fill(block, size, 1);
            td_mem_free(block, size);
        }
        _exit(0);
    }
    int status = 1;
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    return status;
}

TD_TEST(a_child_forked_while_threads_allocate_can_allocate)
{
    if (td_test_failing)
        return;
    pthread_t threads[3];
    int started = 0, status = 0;
    __atomic_store_n(&stop, false, __ATOMIC_RELAXED);
    while (started < 3 && pthread_create(&threads[started], NULL, churn, (void *)(intptr_t)started) == 0)
        started++;
    for (int i = 0; i < 10; i++)
        status |= fork_and_allocate();
    __atomic_store_n(&stop, true, __ATOMIC_RELAXED);
    for (int i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    CHECK_EQ(status, 0);
}

/* ---- AddressSanitizer sees every block */

#if defined(__SANITIZE_ADDRESS__)
static bool child_is_stopped(void (*crime)(void))
{
    pid_t child = fork();
    if (child == 0) {
        fclose(stderr);
        crime();
        _exit(0);
    }
    int status = 0;
    return waitpid(child, &status, 0) == child && !(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void overflow(void)
{
    volatile char *block = td_mem_alloc(100);
    block[100] = 1;
}

static void use_after_free(void)
{
    volatile char *block = td_mem_alloc(100);
    td_mem_free((void *)block, 100);
    block[0] = 1;
}

TD_TEST(an_overflow_and_a_use_after_free_are_reported)
{
    if (td_test_failing)
        return;
    CHECK(child_is_stopped(overflow));
    CHECK(child_is_stopped(use_after_free));
}
#endif
