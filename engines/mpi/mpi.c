/* Groups of processes by MPI: a communicator for each, and nonblocking calls for everything, so that whoever waits can stop.
 *
 * MPI_Init may be called once in a process: the first group makes the world, and all others are among its processes.  What blocks (the beginning, new
 * communicators, the end) runs on a thread of its own, and the caller waits for that no longer than its timeout: nothing in MPI can be interrupted.
 *
 * MPI doesn't see that a process on its own machine was killed.  So processes exchange their numbers at the beginning, and hold a descriptor of each
 * other (pidfd) that the kernel marks when it ends.  Those on other machines are seen by timeouts alone. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include "mpi.h"

/* Where a process is: two are on one machine if the kernel was started at the same time, and they see the same numbers. */
typedef struct place { char boot[40]; uint64_t numbers; int64_t pid, cores; } place;

static struct {
    pthread_mutex_t lock;
    bool            begun, broken, launched;
    int             rank, size, local, cores;
    int            *watched;            /* by rank, a descriptor; -1 */
    place          *places;
} world = {.lock = PTHREAD_MUTEX_INITIALIZER};

typedef struct group {
    MPI_Comm comm;
    int      rank, size;
    bool     exchanges;                 /* all on this machine, and not too many to send to each other, */
    bool     crowded;                   /* and one of them shares cores, so that all take the same ways */
    uint32_t calls;                     /* by exchange, so far */
    int      ranks[];                   /* in the world */
} group;

typedef struct request {
    MPI_Request handle;
    exchange   *exchange;               /* in place of the handle */
    void       *scratch;                /* operands in another order or multiplied; what is received is never there */
    td_dtype    dtype;
    td_part     divided;                /* by `by`, at the end */
    double      by;
    bool        receives;
    MPI_Aint    numbers[];              /* counts and places, which MPI reads until the request is done */
} request;

/* ---- what blocks */

typedef struct errand {
    int           (*run)(void *about);
    void           *about;              /* belongs to the errand */
    pthread_mutex_t lock;
    pthread_cond_t  ended;
    bool            done, left;
    int             status;
    td_code         code;
    char            message[1024];
} errand;

static void errand_free(errand *e)
{
    pthread_mutex_destroy(&e->lock);
    pthread_cond_destroy(&e->ended);
    free(e->about);
    free(e);
}
static void *run_errand(void *p)
{
    errand *e = p;
    const int status = e->run(e->about);
    pthread_mutex_lock(&e->lock);
    e->status = status, e->done = true;
    if (status)
        e->code = td_error_code(), snprintf(e->message, sizeof e->message, "%s", td_error_message());
    const bool left = e->left;
    pthread_cond_signal(&e->ended);
    pthread_mutex_unlock(&e->lock);
    if (left)
        errand_free(e);
    return NULL;
}

/* MPICH shares memory on a machine by files. It removes them at its end, and so leaves them behind where a process is killed. `which` is what their
 * paths begin with. */
static void remove_files(const char *which)
{
    char line[4352];
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps)) {
        char *path = strstr(line, which);
        if (path) {
            path[strcspn(path, "\n ")] = 0;
            unlink(path);
        }
    }
    if (maps)
        fclose(maps);
}

/* And those that a process left which was killed between making one and removing it: nobody else knows their names, and nobody has them open, or the
 * kernel would refuse a lease for writing. UCX fills a file before it removes it, which takes long enough to be killed meanwhile. */
static void remove_abandoned_files(void)
{
    DIR *folder = opendir("/dev/shm");
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        if (strncmp(entry->d_name, "mpich_shm_", 10) && strncmp(entry->d_name, "ucx_shm_", 8))
            continue;
        const int file = openat(dirfd(folder), entry->d_name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (file < 0)
            continue;
        if (fcntl(file, F_SETLEASE, F_WRLCK) == 0)
            unlinkat(dirfd(folder), entry->d_name, 0);
        close(file);
    }
    if (folder)
        closedir(folder);
}

/* At exit, while MPI runs on a thread that can't be stopped: the destructors of its libraries would take away what it runs on. */
static void leave(int status, void *unused)
{
    (void)unused;
    remove_files("/dev/shm/mpich_shm_");
    remove_files("/dev/shm/ucx_shm_");
    remove_abandoned_files();
    fflush(NULL);
    _exit(status);
}

static void register_leave(void)
{
#ifdef __GLIBC__
    on_exit(leave, NULL);
#else
    (void)leave;            /* nothing else tells the status */
#endif
}
static void leave_at_exit(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, register_leave);
}

/* run(about) on another thread; *about, of malloc's, is copied back when it ends in time. What isn't done by then goes on alone. `lost` gives a reason to
 * wait no longer, or NULL. */
static int in_time(int (*run)(void *about), void *about, size_t size, double seconds, const char *(*lost)(void), const char *what)
{
    pthread_t thread;
    errand *e = calloc(1, sizeof *e);
    if (!e || !(e->about = malloc(size))) {
        free(e);
        return td_error(TD_E_MEMORY, "%s: no memory", what);
    }
    memcpy(e->about, about, size);
    e->run = run;
    pthread_mutex_init(&e->lock, NULL);
    pthread_cond_init(&e->ended, NULL);
    if (pthread_create(&thread, NULL, run_errand, e)) {
        errand_free(e);
        return td_error(TD_E_RUNTIME, "%s: no thread could be started", what);
    }
    pthread_detach(thread);
    double waited = 0, step = 0.02;
    const char *gone = NULL;
    pthread_mutex_lock(&e->lock);
    while (!e->done && waited < seconds && !gone) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += (long)(step * 1e9);
        until.tv_sec += until.tv_nsec / 1000000000, until.tv_nsec %= 1000000000;
        if (pthread_cond_timedwait(&e->ended, &e->lock, &until) == ETIMEDOUT)
            waited += step, gone = waited > 0.5 ? lost() : NULL;
    }
    const bool done = e->done;
    const int status = e->status;
    e->left = true;
    pthread_mutex_unlock(&e->lock);
    if (!done) {
        leave_at_exit();
        return gone ? td_error(TD_E_RUNTIME, "Connection closed by peer: waiting for %s, and %s", what, gone)
                    : td_error(TD_E_RUNTIME, "Timed out waiting %lldms for %s", (long long)(seconds * 1e3), what);
    }
    if (status)
        td_error(e->code, "%s", e->message);
    else
        memcpy(about, e->about, size);
    errand_free(e);
    return status;
}

/* ---- the world */

static void fill_place(place *p)
{
    struct stat s;
    *p = (place){.pid = getpid(), .cores = world.cores};
    const int file = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    if (file >= 0) {
        if (read(file, p->boot, sizeof p->boot - 1) < 0)
            p->boot[0] = 0;
        close(file);
    }
    p->numbers = stat("/proc/self/ns/pid", &s) == 0 ? (uint64_t)s.st_ino : 0;
}

static int count_cores(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : (int)sysconf(_SC_NPROCESSORS_ONLN);
}

typedef struct beginning { int provided, rank, size; place *places; } beginning;
static int begin(void *p)
{
    beginning *b = p;
    if (mpi_check(MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &b->provided), "MPI_Init_thread") ||
        mpi_check(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler") ||
        mpi_check(MPI_Comm_rank(MPI_COMM_WORLD, &b->rank), "MPI_Comm_rank") || mpi_check(MPI_Comm_size(MPI_COMM_WORLD, &b->size), "MPI_Comm_size"))
        return -1;
    place own;
    fill_place(&own);
    b->places = malloc(sizeof own * (size_t)b->size);
    if (!b->places)
        return td_error(TD_E_MEMORY, "no memory for the places of %d processes", b->size);
    if (mpi_check(MPI_Allgather(&own, (int)sizeof own, MPI_BYTE, b->places, (int)sizeof own, MPI_BYTE, MPI_COMM_WORLD), "MPI_Allgather"))
        return -1;
    remove_files("/dev/shm/mpich_shm_");        /* all have opened them, and no later communicator opens them again */
    return 0;
}

/* What the library reads when it begins. Waits inside of it spin, unless they are asked to yield; and the provider shm of libfabric, which MPICH doesn't
 * need, leaves files behind in /dev/shm. UCX does so too in the moment before it removes its own; without shared memory, though, it has MPICH end
 * processes that can't reach another any more. */
static int prepare(const td_group_options *options)
{
    char text[32];
    if (options->address) {
        const int descriptor = relay_begin(options->address, options->world_rank);
        if (descriptor < 0)
            return -1;
        snprintf(text, sizeof text, "%d", descriptor);
        setenv("PMI_FD", text, 1);
        snprintf(text, sizeof text, "%d", options->world_rank);
        setenv("PMI_RANK", text, 1);
        snprintf(text, sizeof text, "%d", options->world_size);
        setenv("PMI_SIZE", text, 1);
    }
    const char *local = getenv("MPI_LOCALNRANKS") ? getenv("MPI_LOCALNRANKS") : getenv("LOCAL_WORLD_SIZE");
    const int ranks = local ? atoi(local) : options->address ? options->world_size : 1;
    if (ranks > world.cores) {
        setenv("MPIR_CVAR_CH4_PROGRESS_THROTTLE", "1", 0);
        setenv("MPIR_CVAR_CH4_PROGRESS_THROTTLE_NO_PROGRESS_COUNT", "64", 0);
    }
    setenv("FI_PROVIDER", "^shm", 0);
    return 0;
}

/* With the lock. */
static int begin_world(const td_group_options *options)
{
    int already = 0;
    beginning b = {0};
    if (world.broken)
        return td_error(TD_E_RUNTIME, "MPI couldn't begin before in this process, and can't be asked twice");
    if (mpi_open() || mpi_check(MPI_Initialized(&already), "MPI_Initialized"))
        return -1;
    if (already)
        return td_error(TD_E_RUNTIME, "the program has called MPI_Init itself");
    world.cores = count_cores();
    world.launched = !options->address;
    if (prepare(options))
        return -1;
    world.broken = true;
    const int status = in_time(begin, &b, sizeof b, options->timeout, relay_lost, "processes to begin with MPI");
    if (options->address)       /* programs that this one starts aren't ranks */
        unsetenv("PMI_FD"), unsetenv("PMI_RANK"), unsetenv("PMI_SIZE");
    if (status)
        return -1;
    if (b.provided < MPI_THREAD_MULTIPLE)
        return td_error(TD_E_RUNTIME, "this MPI can't be called by several threads (it provides %d)", b.provided);
    int *watched = malloc(sizeof *watched * (size_t)b.size);
    if (!watched)
        return td_error(TD_E_MEMORY, "no memory for %d processes", b.size);
    world.places = b.places, world.rank = b.rank, world.size = b.size, world.watched = watched;
    for (int i = 0; i < b.size; i++) {
        const place *p = &b.places[i], *own = &b.places[b.rank];
        const bool here = !memcmp(p->boot, own->boot, sizeof p->boot) && p->numbers == own->numbers && p->boot[0];
        world.local += here;
        watched[i] = here && i != b.rank ? (int)syscall(SYS_pidfd_open, (pid_t)p->pid, 0) : -1;
    }
    world.broken = false, world.begun = true;
    return 0;
}

/* A rank of the world, among n or all, whose process has ended; -1. */
static int any_gone(const int *ranks, int n, int self)
{
    for (int i = 0; i < n; i++) {
        const int rank = ranks ? ranks[i] : i;
        if (rank == self || !world.watched || world.watched[rank] < 0)
            continue;
        struct pollfd p = {.fd = world.watched[rank], .events = POLLIN};
        if (poll(&p, 1, 0) > 0)
            return i;
    }
    return -1;
}

static const char *another_gone(void) { return any_gone(NULL, world.size, world.rank) >= 0 ? "a process has ended" : NULL; }

/* ---- groups */

typedef struct creation { int n, tag; MPI_Comm comm; int ranks[]; } creation;
static int create(void *p)
{
    creation *c = p;
    MPI_Group all, some;
    if (mpi_check(MPI_Comm_group(MPI_COMM_WORLD, &all), "MPI_Comm_group"))
        return -1;
    int status = mpi_check(MPI_Group_incl(all, c->n, c->ranks, &some), "MPI_Group_incl");
    if (!status) {
        status = mpi_check(MPI_Comm_create_group(MPI_COMM_WORLD, some, c->tag, &c->comm), "MPI_Comm_create_group") ||
                 mpi_check(MPI_Comm_set_errhandler(c->comm, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler") ? -1 : 0;
        MPI_Group_free(&some);
    }
    MPI_Group_free(&all);
    return status;
}

/* Groups with common members may be made by several threads at once, so each has a tag; MPI allows those below 32768. */
static int tag_of(const char *name)
{
    uint32_t hash = 2166136261u;
    for (; *name; name++)
        hash = (hash ^ (uint8_t)*name) * 16777619u;
    return (int)((hash ^ hash >> 15) & 0x7fff);
}

/* Calls are exchanges (exchange.c) among few ranks of one machine where that is quicker: sums of parts if they are large, since MPICH copies all operands;
 * what is small where ranks share cores, since it saves switches between them; and all-to-all, whose large messages MPICH sends at a hundredth of the rate. */
enum { MOST_EXCHANGING = 16, ALL_AT_ONCE = 4 << 10, SMALL = 128 << 10, LARGE_PARTS = 64 << 10 };

static void find_ways(group *g)
{
    g->exchanges = g->size > 1 && g->size <= MOST_EXCHANGING;
    g->crowded = false;
    for (int i = 0; i < g->size; i++) {
        const int rank = g->ranks[i];
        g->exchanges &= rank == world.rank || world.watched[rank] >= 0;
        g->crowded |= world.local > world.places[rank].cores;
    }
    g->crowded &= g->exchanges;
}

static void *open_group(td_group_options *o)
{
    pthread_mutex_lock(&world.lock);
    int status = world.begun ? 0 : begin_world(o);
    pthread_mutex_unlock(&world.lock);
    if (status)
        return NULL;
    if (o->rank < 0)
        o->rank = world.rank, o->n_ranks = world.size;
    if (!o->ranks && (o->n_ranks != world.size || o->rank != world.rank))
        return td_fail(TD_E_RUNTIME, "MPI has begun with this process as rank %d of %d, and a group with it as rank %d of %d must say which of them are its members",
                       world.rank, world.size, o->rank, o->n_ranks);
    const size_t size = sizeof(creation) + sizeof(int) * (size_t)o->n_ranks;
    creation *c = malloc(size);
    group *g = malloc(sizeof *g + sizeof(int) * (size_t)o->n_ranks);
    status = c && g ? 0 : td_error(TD_E_MEMORY, "no memory for a group of %d", o->n_ranks);
    if (!status) {
        *c = (creation){.n = o->n_ranks, .tag = tag_of(o->name)};
        for (int i = 0; i < o->n_ranks; i++) {
            const int rank = g->ranks[i] = c->ranks[i] = o->ranks ? o->ranks[i] : i;
            if (rank < 0 || rank >= world.size)
                status = td_error(TD_E_VALUE, "there is no process %d among %d", rank, world.size);
        }
    }
    if (!status)
        status = in_time(create, c, size, o->timeout, another_gone, "the members of a group to make it");
    if (!status)
        g->comm = c->comm, g->rank = o->rank, g->size = o->n_ranks, g->calls = 0, find_ways(g);
    free(c);
    if (!status)
        return g;
    free(g);
    return NULL;
}

/* Its communicator stays: freeing one is a call of all members, which needn't close it together. */
static void close_group(void *p) { free(p); }

static int gone(void *p, int rank)
{
    group *g = p;
    if (rank < 0)
        return any_gone(g->ranks, g->size, world.rank);
    return any_gone(&g->ranks[rank], 1, world.rank) >= 0 ? rank : -1;
}
static bool crowded(void) { return world.local > world.cores; }

typedef struct nothing { int unused; } nothing;
static int finalize(void *p)
{
    (void)p;
    return mpi_check(MPI_Finalize(), "MPI_Finalize");
}
/* A launcher takes a process that leaves without MPI_Finalize for one that has crashed. Processes that were started otherwise needn't wait for
 * each other here. */
static void end(bool failed)
{
    nothing n = {0};
    if (world.begun && world.launched && !failed && in_time(finalize, &n, sizeof n, 1e9, another_gone, "MPI_Finalize"))
        td_error_clear();
    world.begun = false, world.broken = true;
}

/* ---- calls */

static request *request_new(const td_engine_call *call, size_t numbers)
{
    request *r = calloc(1, sizeof *r + sizeof *r->numbers * numbers);
    if (!r)
        return td_fail(TD_E_MEMORY, "no memory for a call");
    r->handle = MPI_REQUEST_NULL, r->dtype = call->dtype, r->by = 1;
    return r;
}
static void request_free(request *r)
{
    free(r->exchange);
    free(r->scratch);
    free(r);
}
/* The request, if MPI has taken the call. */
static void *begun(request *r, int status)
{
    if (status == 0)
        return r;
    request_free(r);
    return NULL;
}
#define BEGUN(r, name, ...) begun(r, mpi_check(name(__VA_ARGS__), #name))

static int64_t size_of(const td_engine_call *call) { return (int64_t)td_dtype_size(call->dtype); }

/* Counts and places of parts in bytes, from the first one's address on. */
static void *lay_out(const td_engine_call *call, int n, const td_part *parts, MPI_Aint *numbers)
{
    char *base = NULL;
    for (int i = 0; i < n && !base; i++)
        base = parts[i].count ? parts[i].data : NULL;
    for (int i = 0; i < n; i++) {
        numbers[i] = parts[i].count * size_of(call);
        numbers[n + i] = parts[i].count ? (char *)parts[i].data - base : 0;
    }
    return base;
}

/* Messages of the program have even tags, those of exchanges odd ones. */
static int tag_of_program(const td_engine_call *call) { return call->tag > INT_MAX / 2 ? -1 : 2 * call->tag; }

/* Make a call of messages from each rank to each other (exchange.c). */
static void *exchanged(request *r, group *g, int64_t element, const td_part *from, const td_part *to, MPI_Datatype type, MPI_Op op)
{
    r->exchange = exchange_begin(g->comm, g->rank, g->size, __atomic_fetch_add(&g->calls, 1, __ATOMIC_RELAXED), element, from, to, type, op);
    return begun(r, r->exchange ? 0 : -1);
}

/* All that is read, in order, into memory of the request's; multiplied, if the reduction says so. */
static int copy_operands(request *r, const td_engine_call *call)
{
    int64_t n = 0;
    for (int i = 0; i < call->n_from; i++)
        n += call->from[i].count;
    char *place = r->scratch = malloc((size_t)(n * size_of(call)) + 1);
    if (!place)
        return td_error(TD_E_MEMORY, "no memory for a reduction's operands");
    for (int i = 0; i < call->n_from; place += call->from[i].count * size_of(call), i++)
        if (call->from[i].count)
            memcpy(place, call->from[i].data, (size_t)(call->from[i].count * size_of(call)));
    if (call->reduction == TD_REDUCE_PREMUL_SUM)
        mpi_scale(call->dtype, r->scratch, n, call->factor);
    return 0;
}

/* What all reductions have to do before and after. *from: what is read. */
static request *reduction(const td_engine_call *call, size_t numbers, MPI_Datatype *type, MPI_Op *op, const void **from, const group *g)
{
    bool together = true;
    for (int i = 1; i < call->n_from; i++)
        together &= (char *)call->from[i - 1].data + call->from[i - 1].count * size_of(call) == call->from[i].data;
    request *r = request_new(call, numbers);
    if (!r)
        return NULL;
    if (mpi_reduction(call, type, op))
        return begun(r, -1);
    *from = call->from[0].data;
    if (!together || call->reduction == TD_REDUCE_PREMUL_SUM) {
        if (copy_operands(r, call))
            return begun(r, -1);
        *from = r->scratch;
    }
    if (call->reduction == TD_REDUCE_AVG && call->n_to)
        r->divided = call->to[0], r->by = 1.0 / g->size;
    if (call->n_to && *from == call->to[0].data && call->to[0].count)
        *from = MPI_IN_PLACE;
    return r;
}

static void *all_reduce(void *p, const td_engine_call *call)
{
    group *g = p;
    MPI_Datatype type;
    MPI_Op op;
    const void *from;
    request *r = reduction(call, 0, &type, &op, &from, g);
    const int64_t bytes = call->to[0].count * size_of(call);
    if (r && g->crowded && bytes && bytes <= SMALL) {
        td_part parts[MOST_EXCHANGING], sums[MOST_EXCHANGING] = {0};
        char *source = from == MPI_IN_PLACE ? call->to[0].data : (void *)from, *to = call->to[0].data;
        for (int i = 0; i < g->size; i++) {         /* each adds a piece, which it sends on; or all of it, if that is little */
            const bool all = bytes <= ALL_AT_ONCE;
            const int64_t n = call->to[0].count, first = all ? 0 : n * i / g->size, end = all ? n : n * (i + 1) / g->size;
            parts[i] = (td_part){source + first * size_of(call), end - first};
            if (!all || i == g->rank)
                sums[i] = (td_part){to + first * size_of(call), end - first};
        }
        return exchanged(r, g, size_of(call), parts, sums, type, op);
    }
    return !r ? NULL : BEGUN(r, MPI_Iallreduce_c, from, call->to[0].data, call->to[0].count, type, op, g->comm, &r->handle);
}
static void *reduce(void *p, const td_engine_call *call)
{
    group *g = p;
    MPI_Datatype type;
    MPI_Op op;
    const void *from;
    request *r = reduction(call, 0, &type, &op, &from, g);
    return !r ? NULL : BEGUN(r, MPI_Ireduce_c, from, call->n_to ? call->to[0].data : NULL, call->from[0].count, type, op, call->root, g->comm, &r->handle);
}
/* Whether the result is in memory of its own, or of what this rank adds itself: what others are sent must stay until then. */
static bool apart(const td_engine_call *call, int rank)
{
    const uintptr_t to = (uintptr_t)call->to[0].data, end = to + (uintptr_t)(call->to[0].count * size_of(call));
    bool all = true;
    for (int i = 0; i < call->n_from; i++) {
        const uintptr_t from = (uintptr_t)call->from[i].data;
        all &= from >= end || to >= from + (uintptr_t)(call->from[i].count * size_of(call)) || (i == rank && from == to);
    }
    return all;
}
/* Each adds its part of all. */
static void *exchanged_parts(group *g, const td_engine_call *call)
{
    MPI_Datatype type;
    MPI_Op op;
    td_part parts[MOST_EXCHANGING], sums[MOST_EXCHANGING] = {0};
    request *r = request_new(call, 0);
    if (!r || mpi_reduction(call, &type, &op))
        return r ? begun(r, -1) : NULL;
    if (call->from[g->rank].count != call->to[0].count)
        return begun(r, td_error(TD_E_VALUE, "reduce_scatter: a part of %" PRId64 " elements can't be summed where %" PRId64 " are", call->from[g->rank].count,
                                 call->to[0].count));
    sums[g->rank] = call->to[0];
    memcpy(parts, call->from, sizeof *parts * (size_t)g->size);
    if (call->reduction == TD_REDUCE_PREMUL_SUM || !apart(call, g->rank)) {
        if (copy_operands(r, call))
            return begun(r, -1);
        char *place = r->scratch;
        for (int i = 0; i < g->size; place += parts[i++].count * size_of(call))
            parts[i].data = place;
    }
    if (call->reduction == TD_REDUCE_AVG)
        r->divided = call->to[0], r->by = 1.0 / g->size;
    return exchanged(r, g, size_of(call), parts, sums, type, op);
}
static void *reduce_scatter(void *p, const td_engine_call *call)
{
    group *g = p;
    MPI_Datatype type;
    MPI_Op op;
    const void *from;
    int64_t largest = 0;
    for (int i = 0; i < g->size; i++)
        largest = call->from[i].count > largest ? call->from[i].count : largest;
    if (g->crowded || (g->exchanges && largest * size_of(call) >= LARGE_PARTS))
        return exchanged_parts(g, call);
    request *r = reduction(call, (size_t)g->size, &type, &op, &from, g);
    if (!r)
        return NULL;
    for (int i = 0; i < g->size; i++)
        r->numbers[i] = call->from[i].count;
    /* In place MPI reads all parts from where the result goes, which isn't what one of the parts being the result means. */
    if (from == MPI_IN_PLACE)
        from = call->from[0].data;
    void *to = call->to[0].data;
    return BEGUN(r, MPI_Ireduce_scatter_c, from, to, r->numbers, type, op, g->comm, &r->handle);
}

static void *broadcast(void *p, const td_engine_call *call)
{
    group *g = p;
    request *r = request_new(call, 0);
    return !r ? NULL : BEGUN(r, MPI_Ibcast_c, call->to[0].data, call->to[0].count * size_of(call), MPI_BYTE, call->root, g->comm, &r->handle);
}
static void *all_gather(void *p, const td_engine_call *call)
{
    group *g = p;
    int64_t largest = 0;
    for (int i = 0; i < g->size; i++)
        largest = call->to[i].count > largest ? call->to[i].count : largest;
    if ((g->crowded || (g->exchanges && largest * size_of(call) > ALL_AT_ONCE)) && largest * size_of(call) <= SMALL) {
        const td_part *own = &call->to[g->rank], *from = &call->from[0];
        request *e = request_new(call, 0);
        if (e && from->count != own->count)
            return begun(e, td_error(TD_E_VALUE, "all_gather: %" PRId64 " elements can't go where %" PRId64 " are", from->count, own->count));
        if (e && from->data != own->data && from->count)
            memcpy(own->data, from->data, (size_t)(from->count * size_of(call)));
        return !e ? NULL : exchanged(e, g, size_of(call), NULL, call->to, NULL, NULL);
    }
    request *r = request_new(call, 2 * (size_t)g->size);
    if (!r)
        return NULL;
    void *base = lay_out(call, g->size, call->to, r->numbers);
    const bool in_place = call->from[0].data == call->to[g->rank].data && call->from[0].count;
    return BEGUN(r, MPI_Iallgatherv_c, in_place ? MPI_IN_PLACE : call->from[0].data, call->from[0].count * size_of(call), MPI_BYTE, base, r->numbers,
                 r->numbers + g->size, MPI_BYTE, g->comm, &r->handle);
}
static void *gather(void *p, const td_engine_call *call)
{
    group *g = p;
    const bool root = call->root == g->rank;
    request *r = request_new(call, 2 * (size_t)g->size);
    if (!r)
        return NULL;
    void *base = root ? lay_out(call, g->size, call->to, r->numbers) : NULL;
    const bool in_place = root && call->from[0].data == call->to[g->rank].data && call->from[0].count;
    return BEGUN(r, MPI_Igatherv_c, in_place ? MPI_IN_PLACE : call->from[0].data, call->from[0].count * size_of(call), MPI_BYTE, base, r->numbers,
                 r->numbers + g->size, MPI_BYTE, call->root, g->comm, &r->handle);
}
static void *scatter(void *p, const td_engine_call *call)
{
    group *g = p;
    const bool root = call->root == g->rank;
    request *r = request_new(call, 2 * (size_t)g->size);
    if (!r)
        return NULL;
    void *base = root ? lay_out(call, g->size, call->from, r->numbers) : NULL;
    const bool in_place = root && call->to[0].data == call->from[g->rank].data && call->to[0].count;
    return BEGUN(r, MPI_Iscatterv_c, base, r->numbers, r->numbers + g->size, MPI_BYTE, in_place ? MPI_IN_PLACE : call->to[0].data,
                 call->to[0].count * size_of(call), MPI_BYTE, call->root, g->comm, &r->handle);
}
static void *all_to_all(void *p, const td_engine_call *call)
{
    group *g = p;
    const int n = g->size;
    const td_part *from_own = &call->from[g->rank], *to_own = &call->to[g->rank];
    request *r = request_new(call, 4 * (size_t)n);
    if (!r)
        return NULL;
    if (g->exchanges && from_own->count == to_own->count && !(from_own->count && from_own->data == to_own->data)) {
        if (from_own->count)
            memcpy(to_own->data, from_own->data, (size_t)(to_own->count * size_of(call)));
        return exchanged(r, g, size_of(call), call->from, call->to, NULL, NULL);
    }
    void *from = lay_out(call, n, call->from, r->numbers), *to = lay_out(call, n, call->to, r->numbers + 2 * n);
    return BEGUN(r, MPI_Ialltoallv_c, from, r->numbers, r->numbers + n, MPI_BYTE, to, r->numbers + 2 * n, r->numbers + 3 * n, MPI_BYTE, g->comm, &r->handle);
}
static void *send(void *p, const td_engine_call *call)
{
    group *g = p;
    request *r = request_new(call, 0);
    return !r ? NULL : BEGUN(r, MPI_Isend_c, call->from[0].data, call->from[0].count * size_of(call), MPI_BYTE, call->root, tag_of_program(call), g->comm, &r->handle);
}
static void *recv(void *p, const td_engine_call *call)
{
    group *g = p;
    request *r = request_new(call, 0);
    const int from = call->root < 0 ? MPI_ANY_SOURCE : call->root;
    if (r)
        r->receives = true;
    return !r ? NULL : BEGUN(r, MPI_Irecv_c, call->to[0].data, call->to[0].count * size_of(call), MPI_BYTE, from, tag_of_program(call), g->comm, &r->handle);
}
static void *barrier(void *p, const td_engine_call *call)
{
    group *g = p;
    request *r = request_new(call, 0);
    if (r && g->crowded) {
        td_part bytes[MOST_EXCHANGING];
        char *place = r->scratch = calloc(1, MOST_EXCHANGING);
        if (!place)
            return begun(r, td_error(TD_E_MEMORY, "no memory for a barrier"));
        for (int i = 0; i < g->size; i++)
            bytes[i] = (td_part){place + i, 1};
        return exchanged(r, g, 1, NULL, bytes, NULL, NULL);
    }
    return !r ? NULL : BEGUN(r, MPI_Ibarrier, g->comm, &r->handle);
}

static int test(void *p, void *q, int *source)
{
    request *r = q;
    int flag = 0;
    MPI_Status status = {0};
    (void)p;
    if (r->exchange && (flag = exchange_test(r->exchange)) < 0)
        return -1;
    if (!r->exchange && mpi_check(MPI_Test(&r->handle, &flag, &status), "MPI_Test")) {
        r->handle = MPI_REQUEST_NULL;
        return -1;
    }
    if (!flag)
        return 0;
    *source = status.MPI_SOURCE;
    if (r->by != 1)
        mpi_scale(r->dtype, r->divided.data, r->divided.count, r->by);
    request_free(r);
    return 1;
}

/* Only a message that is awaited can be taken back, if its transfer hasn't begun; a collective can't, and goes on if the others come. */
static int release(void *p, void *q)
{
    request *r = q;
    (void)p;
    if (r->exchange)
        return 0;
    if (r->handle != MPI_REQUEST_NULL) {
        MPI_Status status = {0};
        int done = 0, failed = !r->receives || MPI_Cancel(&r->handle);
        for (int i = 0; i < 1000 && !failed && !done; i++)
            failed = MPI_Test(&r->handle, &done, &status);
        if (failed || !done)
            return 0;
    }
    request_free(r);
    return 1;
}

static const td_group_engine engine = {
    .abi = TD_GROUP_ABI, .size = sizeof engine, .name = "mpi", .devices = 1 << TD_CPU, .open = open_group, .close = close_group,
    .call = {[TD_ALL_REDUCE] = all_reduce, [TD_BROADCAST] = broadcast, [TD_REDUCE] = reduce, [TD_ALL_GATHER] = all_gather, [TD_GATHER] = gather,
             [TD_SCATTER] = scatter, [TD_REDUCE_SCATTER] = reduce_scatter, [TD_ALL_TO_ALL] = all_to_all, [TD_SEND] = send, [TD_RECV] = recv,
             [TD_BARRIER] = barrier},
    .test = test, .release = release, .gone = gone, .crowded = crowded, .end = end,
};

__attribute__((constructor)) static void register_engine(void)
{
    if (td_group_register(&engine))
        return;                 /* td_library_load reports what is recorded */
}
