/* td_parallel_for: a small pool that takes chunks of one loop at a time.
 *
 * A loop is cut into several chunks per thread, which caller and workers claim one by one.  The caller claims too and
 * at the end waits only for chunks that somebody has begun, so a worker that isn't scheduled (its core may be busy with
 * another process) costs nothing.  A loop that finds the pool taken by another thread's loop runs on its own thread; so
 * do nested loops.  Each thread begins with a fixed part, the same in every loop of a length, because its core's
 * cache holds what it read and wrote there in the loops before (100,000 elements: a third of the time); then it helps
 * with the others' parts.
 *
 * Note [Claiming chunks]
 * A part's ticket holds the loop's number in its upper half and the next unclaimed chunk in its lower half; a claim is a
 * compare-and-exchange that adds one.  The loop's description is atomic fields, rewritten only when every chunk of the
 * loop before is claimed and all tickets are closed (lower half all ones).  Whoever reads them late, in the middle of a
 * rewrite or after it, fails its exchange, because the ticket that it read before is no longer there.  So nobody ever
 * waits for a worker to leave a loop.  The caller returns when `done`, the number of finished chunks, says so.
 *
 * Workers spin for some tens of microseconds before they sleep on a futex (on a condition where there is none), because the next loop of a training step
 * mostly follows at once; they don't when there are more threads than cores, or when the core is the caller's.
 *
 * Note [Busy cores]
 * Only a chunk that is begun can hold a loop up: its worker may lose its core to another process for some milliseconds.
 * A caller that spent most of a loop waiting so leaves the workers alone for a multiple of that time, doubled each time
 * that it happens again, so that what is lost in all stays a small part.  It begins with twice: sixteen times was too much, beside a library whose threads
 * spin for milliseconds after a loop most of a measurement ran on one thread.
 *
 * Note [Waking late]
 * To wake a worker takes the caller 5 to 20 microseconds, for nothing if the worker comes when all is done: because its
 * core is busy, or because short loops come one at a time.  After some such loops the caller begins alone and wakes
 * workers only when the first chunks show that the rest will take long; now and then it tries again at once. */
#define _GNU_SOURCE 1
#include "base/base.h"
#include "base/once.h"
#include "base/simd.h"
#include "base/watch.h"

#include <errno.h>
#include <limits.h>
#ifndef TD_NO_FUTEX
#include <linux/futex.h>
#include <sys/syscall.h>
#endif
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    MAX_WORKERS = 255,
    CHUNKS_PER_THREAD = 8,
    SPIN_NS = 30000,
    STALL_NS = 100000,                  /* see Note [Busy cores] */
    PENALTY_FIRST = 2,                  /* times the stall */
    PENALTY_MOST_NS = 100000000,
    UNHELPED_MOST = 4,                  /* see Note [Waking late] */
    WORTH_WAKING_NS = 50000,
    TRY_AGAIN_NS = 500000,
};

#define LOAD(x)      __atomic_load_n(&(x), __ATOMIC_ACQUIRE)
#define STORE(x, to) __atomic_store_n(&(x), (to), __ATOMIC_RELEASE)
#define CLOSED       UINT32_MAX

/* A cache line each: as long as nobody helps, a claim costs no traffic between cores. */
struct part {
    _Alignas(64) uint64_t ticket;
};

static struct pool {
    struct part parts[MAX_WORKERS + 1];
    _Alignas(64) uint32_t done;         /* finished chunks; the caller sleeps on it */
    uint32_t waiting;                   /* whether the caller sleeps */
    _Alignas(64) uint32_t posted;       /* the newest loop's number; workers sleep on it */
    uint32_t sleepers;
    /* The loop: see Note [Claiming chunks].  Workers that wait don't touch its line while it is written. */
    _Alignas(64) td_loop_body *body;
    void *context;
    int64_t begin, end, step;
    uint32_t chunks, open;              /* parts that the chunks are dealt out to */
    int32_t caller_core;
    /* Belongs to whoever holds `taken`. */
    _Alignas(64) uint32_t taken;
    int workers;
    int cores;
    int keep;                           /* workers from this number on leave */
    int64_t alone_until, penalty;       /* nanoseconds; see Note [Busy cores] */
    int unhelped;                       /* loops in a row whose workers were woken and came too late */
    int64_t try_again;
    pthread_t threads[MAX_WORKERS];
} pool = {.keep = MAX_WORKERS};

static int wanted;                      /* threads, the caller included; 0: not known yet */
static TD_TLS bool inside;

/* sleep_on(word, value) returns after a wake(), at once if *word isn't `value` any more, and sometimes for nothing. */
#ifndef TD_NO_FUTEX
static void sleep_on(uint32_t *word, uint32_t value)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void wake(uint32_t *word, int count)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}

static void forget_sleepers(void) {}
#else
/* One condition for all words.  Who wakes has changed the word before, and takes the lock that sleepers compare under, so
 * no change is missed. */
static pthread_mutex_t sleep_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t  changed = PTHREAD_COND_INITIALIZER;

static void sleep_on(uint32_t *word, uint32_t value)
{
    pthread_mutex_lock(&sleep_lock);
    if (__atomic_load_n(word, __ATOMIC_SEQ_CST) == value)
        pthread_cond_wait(&changed, &sleep_lock);
    pthread_mutex_unlock(&sleep_lock);
}

static void wake(uint32_t *word, int count)
{
    (void)word, (void)count;
    pthread_mutex_lock(&sleep_lock);
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&sleep_lock);
}

/* In a forked child, where a worker may have held the lock. */
static void forget_sleepers(void)
{
    sleep_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    changed = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
}
#endif

/* Until *word differs from `value`, for a while if spinning makes sense; whether it does. */
static bool spin_until_changed(uint32_t *word, uint32_t value, bool sensible)
{
    if (!sensible || LOAD(wanted) > pool.cores)
        return LOAD(*word) != value;
    int64_t start = td_nanoseconds();
    do {
        for (int i = 0; i < 16; i++) {
            if (LOAD(*word) != value)
                return true;
            td_pause();
        }
    } while (td_nanoseconds() - start < SPIN_NS);
    return false;
}

/* The first chunk of part i; that of the part behind the last is their number. */
static uint32_t first_chunk(uint32_t i, uint32_t chunks, uint32_t parts)
{
    return (uint32_t)((uint64_t)chunks * i / parts);
}

/* What the caller of a loop keeps about it. */
typedef struct progress {
    int64_t start;
    uint32_t chunks, finished;
    bool asleep;                        /* workers are, and wait to be woken: see Note [Waking late] */
} progress;

static void wake_if_worth_it(progress *p)
{
    if ((td_nanoseconds() - p->start) / p->finished * (p->chunks - p->finished) > WORTH_WAKING_NS) {
        p->asleep = false;
        wake(&pool.posted, (int)(p->chunks - p->finished));
    }
}

/* Claim and run chunks of part i until none is left. */
static void run_part(uint32_t i, progress *caller)
{
    uint32_t finished = 0, chunks;
    for (;;) {
        uint64_t ticket = LOAD(pool.parts[i].ticket);
        td_loop_body *body = LOAD(pool.body);
        void *context = LOAD(pool.context);
        int64_t begin = LOAD(pool.begin), end = LOAD(pool.end), step = LOAD(pool.step);
        uint32_t chunk = (uint32_t)ticket, open = LOAD(pool.open);
        chunks = LOAD(pool.chunks);
        if (i >= open || chunk >= first_chunk(i + 1, chunks, open))
            break;
        if (!__atomic_compare_exchange_n(&pool.parts[i].ticket, &ticket, ticket + 1, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
            continue;
        int64_t from = begin + chunk * step;
        body(context, from, chunk == chunks - 1 ? end : from + step);
        finished++;
        if (caller && ++caller->finished < chunks && caller->asleep)
            wake_if_worth_it(caller);
    }
    /* A loop doesn't end before all of this is counted, so `chunks` is still its number. */
    if (finished && __atomic_add_fetch(&pool.done, finished, __ATOMIC_SEQ_CST) == chunks &&
        __atomic_load_n(&pool.waiting, __ATOMIC_SEQ_CST))
        wake(&pool.done, 1);
}

/* Thread `own`'s part, then the others'. */
static void run_chunks(uint32_t own, progress *caller)
{
    uint32_t open = LOAD(pool.open);
    for (uint32_t i = own; i < open; i++)
        run_part(i, caller);
    for (uint32_t i = 0; i < own && i < open; i++)
        run_part(i, caller);
}

static void *work(void *number)
{
    inside = true;
    uint32_t seen = 0;
    for (;;) {
        if (!spin_until_changed(&pool.posted, seen, sched_getcpu() != LOAD(pool.caller_core))) {
            __atomic_add_fetch(&pool.sleepers, 1, __ATOMIC_SEQ_CST);
            while (__atomic_load_n(&pool.posted, __ATOMIC_SEQ_CST) == seen)
                sleep_on(&pool.posted, seen);
            __atomic_sub_fetch(&pool.sleepers, 1, __ATOMIC_SEQ_CST);
        }
        seen = LOAD(pool.posted);
        if ((int)(intptr_t)number >= LOAD(pool.keep))
            return NULL;
        run_chunks((uint32_t)(intptr_t)number + 1, NULL);
    }
}

static void post(void)
{
    __atomic_add_fetch(&pool.posted, 1, __ATOMIC_SEQ_CST);
}

/* ---- how many */

static int count_cores(void)
{
    /* The kernel refuses a set smaller than its own, whose size it doesn't tell. */
    for (int cpus = 1024; cpus <= 1 << 20; cpus *= 4) {
        cpu_set_t *set = CPU_ALLOC(cpus);
        if (!set)
            break;
        size_t size = CPU_ALLOC_SIZE(cpus);
        int count = sched_getaffinity(0, size, set) == 0 ? CPU_COUNT_S(size, set) : 0;
        CPU_FREE(set);
        if (count > 0)
            return count;
        if (errno != EINVAL)
            break;
    }
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? (int)online : 1;
}

/* OMP_NUM_THREADS may be a list, one number per nesting level; the first one counts. */
static int from_environment(const char *name)
{
    const char *text = getenv(name);
    if (!text)
        return 0;
    char *rest;
    long n = strtol(text, &rest, 10);
    return rest != text && (*rest == 0 || *rest == ',') && n > 0 && n <= INT_MAX ? (int)n : 0;
}

int td_num_threads(void)
{
    int n = LOAD(wanted);
    if (TD_LIKELY(n))
        return n;
    n = from_environment("TEDE_NUM_THREADS");
    if (!n)
        n = from_environment("OMP_NUM_THREADS");
    if (!n)
        n = count_cores();
    int none = 0;
    __atomic_compare_exchange_n(&wanted, &none, n, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    return LOAD(wanted);
}

int td_set_num_threads(int n)
{
    if (n < 1)
        return td_error(TD_E_RUNTIME, "set_num_threads expects a positive integer, got %d", n);
    STORE(wanted, n);    /* the next loop makes or ends workers */
    return 0;
}

bool td_in_parallel(void)
{
    return inside;
}

/* ---- the pool's life; all of it while holding `taken` */

static void close_parts(void)
{
    for (int i = 0; i <= MAX_WORKERS; i++)
        STORE(pool.parts[i].ticket, pool.parts[i].ticket | CLOSED);
}

static void forget_workers(void)
{
    /* In a forked child: the workers stayed behind.  Whoever held the pool, it is free now. */
    pool.workers = 0;
    pool.sleepers = 0;
    pool.waiting = 0;
    pool.chunks = 0;
    close_parts();
    pool.open = 0;
    pool.keep = MAX_WORKERS;
    pool.taken = 0;
    forget_sleepers();
}

static int prepare(void)
{
    pool.cores = count_cores();
    close_parts();
    pthread_atfork(NULL, NULL, forget_workers);
    return 0;
}

static void resize(int workers)
{
    if (workers < pool.workers) {
        STORE(pool.keep, workers);
        post();
        wake(&pool.posted, INT_MAX);
        while (pool.workers > workers)
            pthread_join(pool.threads[--pool.workers], NULL);
        STORE(pool.keep, MAX_WORKERS);
    }
    /* Signals belong to the program's own threads. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (; pool.workers < workers; pool.workers++)
        if (pthread_create(&pool.threads[pool.workers], NULL, work, (void *)(intptr_t)pool.workers) != 0)
            break;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void run_in_pool(int64_t begin, int64_t end, int64_t step, uint32_t chunks, td_loop_body *body, void *context)
{
    uint64_t loop = LOAD(pool.parts[0].ticket) >> 32;       /* part 0 is open in every loop */
    uint32_t before = LOAD(pool.open), open = (uint32_t)pool.workers + 1 < chunks ? (uint32_t)pool.workers + 1 : chunks;
    for (uint32_t i = 0; i < before; i++)
        STORE(pool.parts[i].ticket, loop << 32 | CLOSED);
    STORE(pool.body, body);
    STORE(pool.context, context);
    STORE(pool.begin, begin);
    STORE(pool.end, end);
    STORE(pool.step, step);
    STORE(pool.chunks, chunks);
    STORE(pool.open, open);
    STORE(pool.caller_core, sched_getcpu());
    STORE(pool.done, 0);
    for (uint32_t i = 0; i < open; i++)
        STORE(pool.parts[i].ticket, (loop + 1) << 32 | first_chunk(i, chunks, open));
    post();
    int64_t start = td_nanoseconds();
    progress p = {.start = start, .chunks = chunks};
    bool asleep = __atomic_load_n(&pool.sleepers, __ATOMIC_SEQ_CST);
    if (asleep && (pool.unhelped < UNHELPED_MOST || start > pool.try_again))
        wake(&pool.posted, (int)(chunks - 1));
    else
        p.asleep = asleep;

    inside = true;
    run_chunks(0, &p);
    inside = false;
    if (p.finished < chunks) {
        pool.unhelped = 0;
    } else if (asleep && !p.asleep && ++pool.unhelped >= UNHELPED_MOST) {
        pool.unhelped = UNHELPED_MOST;
        pool.try_again = start + TRY_AGAIN_NS;
    }
    if (LOAD(pool.done) == chunks)
        return;

    int64_t waiting_since = td_nanoseconds();
    uint32_t done;
    while ((done = LOAD(pool.done)) != chunks) {
        if (spin_until_changed(&pool.done, done, true))
            continue;
        __atomic_store_n(&pool.waiting, 1, __ATOMIC_SEQ_CST);
        if (__atomic_load_n(&pool.done, __ATOMIC_SEQ_CST) == done)
            sleep_on(&pool.done, done);
        __atomic_store_n(&pool.waiting, 0, __ATOMIC_SEQ_CST);
    }
    int64_t now = td_nanoseconds(), waited = now - waiting_since;
    if (waited > STALL_NS && waited > (now - start) / 2) {
        int64_t first = waited * PENALTY_FIRST;
        pool.penalty = pool.penalty * 2 > first ? pool.penalty * 2 : first;
        if (pool.penalty > PENALTY_MOST_NS)
            pool.penalty = PENALTY_MOST_NS;
        pool.alone_until = now + pool.penalty;
    } else if (pool.penalty) {
        pool.penalty -= pool.penalty / 64;
    }
}

/* Whether workers are to be left alone. */
static bool alone(void)
{
    if (pool.alone_until && td_nanoseconds() >= pool.alone_until)
        pool.alone_until = 0;
    return pool.alone_until != 0;
}

void td_parallel_for(int64_t begin, int64_t end, int64_t grain, td_loop_body *body, void *context)
{
    if (end <= begin)
        return;
    uint64_t count = (uint64_t)end - (uint64_t)begin;
    uint64_t unit = grain < 1 ? 1 : (uint64_t)grain;
    if (count <= unit || inside || td_num_threads() == 1 || unit > INT64_MAX / 2 ||
        __atomic_exchange_n(&pool.taken, 1, __ATOMIC_ACQUIRE)) {
        TD_EMIT(.kind = TD_EVENT_PARALLEL, .numbers = {(int64_t)count, grain, 1});
        body(context, begin, end);
        return;
    }
    static td_once once;
    td_once_run(&once, prepare);
    int workers = td_num_threads() - 1;
    if (workers > MAX_WORKERS)
        workers = MAX_WORKERS;
    if (workers != pool.workers)
        resize(workers);

    uint64_t units = (count - 1) / unit + 1;
    uint64_t pieces = (uint64_t)(pool.workers + 1) * CHUNKS_PER_THREAD;
    uint64_t step = ((units - 1) / pieces + 1) * unit;
    uint64_t chunks = (count - 1) / step + 1;
    bool shared = pool.workers && chunks > 1 && !alone();
    TD_EMIT(.kind = TD_EVENT_PARALLEL, .numbers = {(int64_t)count, (int64_t)step, shared ? pool.workers + 1 : 1});
    if (shared)
        run_in_pool(begin, end, (int64_t)step, (uint32_t)chunks, body, context);
    else
        body(context, begin, end);
    __atomic_store_n(&pool.taken, 0, __ATOMIC_RELEASE);
}
