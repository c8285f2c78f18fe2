/* NCCL between processes on one machine: what a rank has is a file in a folder that the unique id names, and a call of several ranks ends when all
 * have written theirs.
 *
 * As in NCCL, a call is an operation of its stream that ends when its peers have come, a send when it was received, and calls within one group
 * go on together.  Files are left until all ranks have destroyed their communicators. */
#define _GNU_SOURCE
#include "fake.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef int ncclResult_t;
typedef struct { char internal[128]; } ncclUniqueId;
enum { SYSTEM = 2, INVALID_ARGUMENT = 4, INVALID_USAGE = 5, MOST_RANKS = 16, MOST_OPS = 64, FIRST_OP = 100, PATH = 256 };
enum { SUM, PROD, MAX, MIN, AVG };
typedef enum { ALL_REDUCE, BROADCAST, REDUCE, ALL_GATHER, REDUCE_SCATTER, SEND, RECV } kind;

typedef struct ncclComm {
    char         folder[128];
    int          rank, n, error;
    bool         aborted;
    CUcontext    context;
    long         calls, sent[MOST_RANKS], received[MOST_RANKS];
    double       factors[MOST_OPS];
    bool         ops[MOST_OPS];
} *ncclComm_t;
typedef struct call {
    struct call *next;
    ncclComm_t   comm;
    CUstream     stream;
    kind         kind;
    const char  *from;
    char        *to;
    size_t       count;
    int          type, op, root;
    long         number;
    bool         posted, done;
} call;
static _Thread_local int   depth;
static _Thread_local call *grouped;

static const size_t sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};

/* ---- files */

static void name_of(const call *c, int rank, char *path)
{
    if (c->kind == SEND || c->kind == RECV)
        snprintf(path, PATH, "%s/p.%d.%d.%ld", c->comm->folder, c->kind == SEND ? c->comm->rank : c->root, c->kind == SEND ? c->root : c->comm->rank, c->number);
    else
        snprintf(path, PATH, "%s/c.%ld.%d", c->comm->folder, c->number, rank);
}
static bool there(const char *path) { return access(path, F_OK) == 0; }
static int post(const char *path, const void *data, size_t bytes)
{
    char part[PATH + 8];
    snprintf(part, sizeof part, "%s.part", path);
    int file = open(part, O_CREAT | O_WRONLY | O_TRUNC, 0600);
    bool good = file >= 0 && write(file, data, bytes) == (ssize_t)bytes;
    if (file >= 0)
        close(file);
    return good && rename(part, path) == 0 ? 0 : SYSTEM;
}
/* The bytes of a file that is there; NULL if it has another number of them. */
static char *get(const char *path, size_t bytes)
{
    char *data = malloc(bytes + 1);
    int file = open(path, O_RDONLY);
    bool good = file >= 0 && read(file, data, bytes + 1) == (ssize_t)bytes;
    if (file >= 0)
        close(file);
    return good ? data : (free(data), NULL);
}

/* ---- arithmetic: floats as doubles, integers as 64 bits */

static double real(int type, const char *p, size_t i) { return fake_load(type == 6 ? 2 : type == 7 ? 0 : type == 8 ? 1 : 3, p, (long long)i); }
static void set_real(int type, char *p, size_t i, double x) { fake_store(type == 6 ? 2 : type == 7 ? 0 : type == 8 ? 1 : 3, p, (long long)i, x); }
static int64_t whole(int type, const char *p, size_t i)
{
    switch (type) {
    case 0: return ((const int8_t *)p)[i];
    case 1: return ((const uint8_t *)p)[i];
    case 2: return ((const int32_t *)p)[i];
    case 3: return ((const uint32_t *)p)[i];
    default: return ((const int64_t *)p)[i];
    }
}
static void set_whole(int type, char *p, size_t i, int64_t x) { memcpy(p + i * sizes[type], &x, sizes[type]); }
#define COMBINED(a, b) (op == PROD ? (a) * (b) : op == MAX ? ((a) > (b) ? (a) : (b)) : op == MIN ? ((a) < (b) ? (a) : (b)) : (a) + (b))
static void reduce(const call *c, char *const *parts, size_t first)
{
    const int op = c->op, type = c->type;
    for (size_t i = 0; i < c->count; i++) {
        if (type < 6) {
            int64_t x = whole(type, parts[0], first + i);
            for (int r = 1; r < c->comm->n; r++)
                x = COMBINED(x, whole(type, parts[r], first + i));
            set_whole(type, c->to, i, op == AVG ? x / c->comm->n : x);
        } else {
            double x = 0;
            for (int r = 0; r < c->comm->n; r++) {
                double own = real(type, parts[r], first + i) * (op >= FIRST_OP ? c->comm->factors[op - FIRST_OP] : 1);
                x = r ? COMBINED(x, own) : own;
            }
            set_real(type, c->to, i, op == AVG ? x / c->comm->n : x);
        }
    }
}

/* ---- one call: true when it is over */

static size_t bytes_posted(const call *c) { return c->count * sizes[c->type] * (c->kind == REDUCE_SCATTER ? (size_t)c->comm->n : 1); }
static bool step(call *c)
{
    char path[PATH], *parts[MOST_RANKS] = {NULL};
    ncclComm_t comm = c->comm;
    const size_t bytes = c->count * sizes[c->type];
    if (c->done || comm->aborted || comm->error)
        return true;
    name_of(c, comm->rank, path);
    if (!c->posted && c->kind != RECV && (c->kind != BROADCAST || c->root == comm->rank))
        comm->error = post(path, c->from, bytes_posted(c));
    c->posted = true;
    if (c->kind == SEND)
        return c->done = !there(path);
    if (c->kind == RECV) {
        if (!there(path))
            return false;
        parts[0] = get(path, bytes);
        comm->error = parts[0] ? 0 : INVALID_USAGE;
        if (parts[0])
            memcpy(c->to, parts[0], bytes), unlink(path);
        free(parts[0]);
        return c->done = true;
    }
    for (int r = 0; r < comm->n; r++)
        if (name_of(c, r, path), (c->kind != BROADCAST || r == c->root) && !there(path))
            return false;
    for (int r = 0; r < comm->n; r++)
        if (name_of(c, r, path), c->kind != BROADCAST || r == c->root)
            comm->error |= (parts[r] = get(path, bytes_posted(c))) ? 0 : INVALID_USAGE;
    if (!comm->error) {
        switch (c->kind) {
        case ALL_REDUCE: reduce(c, parts, 0); break;
        case REDUCE: if (c->root == comm->rank) reduce(c, parts, 0); break;
        case REDUCE_SCATTER: reduce(c, parts, (size_t)comm->rank * c->count); break;
        case BROADCAST: memcpy(c->to, parts[c->root], bytes); break;
        default:
            for (int r = 0; r < comm->n; r++)
                memcpy(c->to + (size_t)r * bytes, parts[r], bytes);
        }
    }
    for (int r = 0; r < comm->n; r++)
        free(parts[r]);
    return c->done = true;
}
/* All of a group of calls, each as far as it gets. */
static bool step_all(void *context)
{
    call *all = context;
    bool over = true;
    for (call *c = all; c; c = c->next)
        over &= step(c);
    for (call *next; over && all; all = next)
        next = all->next, free(all);
    return over;
}

static void launch(call *all)
{
    while (all) {                       /* those of one stream together */
        call *same = NULL, **end = &same, *others = NULL, **rest = &others;
        CUstream stream = all->stream;
        for (call *c = all, *next; c; c = next) {
            next = c->next, c->next = NULL;
            if (c->stream == stream)
                *end = c, end = &c->next;
            else
                *rest = c, rest = &c->next;
        }
        operation *o = fake_ask(stream, EXCHANGE);
        o->step = step_all, o->context = same;
        all = others;
    }
}

static ncclResult_t ask(ncclComm_t comm, CUstream handle, call c)
{
    CUstream stream = comm && fake_current == comm->context ? fake_stream_of(handle) : NULL;
    const size_t n = comm ? (size_t)comm->n : 0, bytes = c.type >= 0 && c.type < 10 ? c.count * sizes[c.type] : 0;
    const bool reduces = c.kind == ALL_REDUCE || c.kind == REDUCE || c.kind == REDUCE_SCATTER;
    if (!stream || c.type < 0 || c.type > 9 || c.root < 0 || c.root >= comm->n || comm->aborted)
        return INVALID_ARGUMENT;
    if (reduces && c.op > AVG && !(c.op >= FIRST_OP && c.op < FIRST_OP + MOST_OPS && comm->ops[c.op - FIRST_OP] && c.type >= 6))
        return INVALID_ARGUMENT;
    const bool reads = c.kind != RECV && (c.kind != BROADCAST || c.root == comm->rank), writes = c.kind != SEND && (c.kind != REDUCE || c.root == comm->rank);
    if ((reads && !fake_place((CUdeviceptr)(uintptr_t)c.from, bytes * (c.kind == REDUCE_SCATTER ? n : 1), comm->context->device)) ||
        (writes && !fake_place((CUdeviceptr)(uintptr_t)c.to, bytes * (c.kind == ALL_GATHER ? n : 1), comm->context->device)))
        return INVALID_ARGUMENT;
    call *made = malloc(sizeof *made);
    *made = c;
    made->comm = comm, made->stream = stream;
    made->number = c.kind == SEND ? comm->sent[c.root]++ : c.kind == RECV ? comm->received[c.root]++ : comm->calls++;
    fake_counts[COLLECTIVES]++;
    if (!depth)
        return launch(made), 0;
    call **end = &grouped;
    while (*end)
        end = &(*end)->next;
    *end = made;
    return 0;
}
#define CALL(...) ENTER(true); return ask(comm, stream, (call){__VA_ARGS__})

ncclResult_t ncclAllReduce(const void *from, void *to, size_t count, int type, int op, ncclComm_t comm, CUstream stream)
{
    CALL(.kind = ALL_REDUCE, .from = from, .to = to, .count = count, .type = type, .op = op);
}
ncclResult_t ncclBroadcast(const void *from, void *to, size_t count, int type, int root, ncclComm_t comm, CUstream stream)
{
    CALL(.kind = BROADCAST, .from = from, .to = to, .count = count, .type = type, .root = root);
}
ncclResult_t ncclReduce(const void *from, void *to, size_t count, int type, int op, int root, ncclComm_t comm, CUstream stream)
{
    CALL(.kind = REDUCE, .from = from, .to = to, .count = count, .type = type, .op = op, .root = root);
}
ncclResult_t ncclAllGather(const void *from, void *to, size_t count, int type, ncclComm_t comm, CUstream stream)
{
    CALL(.kind = ALL_GATHER, .from = from, .to = to, .count = count, .type = type);
}
ncclResult_t ncclReduceScatter(const void *from, void *to, size_t count, int type, int op, ncclComm_t comm, CUstream stream)
{
    CALL(.kind = REDUCE_SCATTER, .from = from, .to = to, .count = count, .type = type, .op = op);
}
ncclResult_t ncclSend(const void *from, size_t count, int type, int peer, ncclComm_t comm, CUstream stream)
{
    CALL(.kind = SEND, .from = from, .count = count, .type = type, .root = peer);
}
ncclResult_t ncclRecv(void *to, size_t count, int type, int peer, ncclComm_t comm, CUstream stream)
{
    CALL(.kind = RECV, .to = to, .count = count, .type = type, .root = peer);
}
ncclResult_t ncclGroupStart(void) { ENTER(true); return depth++, 0; }
ncclResult_t ncclGroupEnd(void)
{
    if (!depth)
        return INVALID_USAGE;
    depth--;
    ENTER(true);
    if (!depth)
        launch(grouped), grouped = NULL;
    return 0;
}

/* ---- communicators */

const char *ncclGetErrorString(ncclResult_t code) { return code == SYSTEM ? "unhandled system error" : code == INVALID_ARGUMENT ? "invalid argument" : code == INVALID_USAGE ? "invalid usage" : "no error"; }
ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    const char *folder = getenv("TMPDIR");
    snprintf(id->internal, sizeof id->internal, "%s/fake_nccl_XXXXXX", folder ? folder : P_tmpdir);
    return mkdtemp(id->internal) ? 0 : SYSTEM;
}
static bool all_there(ncclComm_t comm, const char *what)
{
    char path[PATH];
    int n = 0;
    for (int r = 0; r < comm->n; r++)
        n += (snprintf(path, sizeof path, "%s/%s.%d", comm->folder, what, r), there(path));
    return n == comm->n;
}
ncclResult_t ncclCommInitRank(ncclComm_t *out, int n, ncclUniqueId id, int rank)
{
    char path[PATH];
    CUcontext context;
    {
        ENTER(true);
        context = fake_current;
    }
    if (n < 1 || n > MOST_RANKS || rank < 0 || rank >= n || !there(id.internal))
        return INVALID_ARGUMENT;
    ncclComm_t comm = calloc(1, sizeof *comm);
    comm->rank = rank, comm->n = n, comm->context = context;
    memcpy(comm->folder, id.internal, sizeof comm->folder);
    snprintf(path, sizeof path, "%s/here.%d", comm->folder, rank);
    if (there(path) || post(path, "", 0))
        return free(comm), INVALID_USAGE;       /* a rank can be one process only */
    while (!all_there(comm, "here"))
        usleep(200);
    pthread_mutex_lock(&fake_lock);
    fake_counts[COMMUNICATORS]++;
    pthread_mutex_unlock(&fake_lock);
    return *out = comm, 0;
}
static void go(ncclComm_t comm)
{
    char path[PATH];
    snprintf(path, sizeof path, "%s/left.%d", comm->folder, comm->rank);
    post(path, "", 0);
    if (!all_there(comm, "left"))
        return;
    DIR *folder = opendir(comm->folder);
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        snprintf(path, sizeof path, "%s/%.100s", comm->folder, entry->d_name);
        unlink(path);
    }
    if (folder)
        closedir(folder);
    rmdir(comm->folder);
}
/* Waits for its calls. */
ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    ENTER(false);
    if (!comm || comm->aborted)
        return INVALID_ARGUMENT;
    fake_run_context(comm->context);
    comm->aborted = true;
    fake_counts[COMMUNICATORS]--;
    return go(comm), 0;
}
/* Its calls are over, whether they are done or not. */
ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    ENTER(false);
    if (!comm || comm->aborted)
        return INVALID_ARGUMENT;
    comm->aborted = true;
    fake_counts[COMMUNICATORS]--;
    return go(comm), 0;
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error) { ENTER(false); return *error = comm->error, 0; }
ncclResult_t ncclRedOpCreatePreMulSum(int *op, void *scalar, int type, int residence, ncclComm_t comm)
{
    ENTER(true);
    int i = 0;
    while (i < MOST_OPS && comm->ops[i])
        i++;
    if (i == MOST_OPS || type < 6 || type > 9 || residence != 1)
        return INVALID_ARGUMENT;
    comm->ops[i] = true;
    comm->factors[i] = real(type, scalar, 0);
    return *op = FIRST_OP + i, 0;
}
ncclResult_t ncclRedOpDestroy(int op, ncclComm_t comm)
{
    ENTER(true);
    if (op < FIRST_OP || op >= FIRST_OP + MOST_OPS || !comm->ops[op - FIRST_OP])
        return INVALID_ARGUMENT;
    return comm->ops[op - FIRST_OP] = false, 0;
}
