/* Groups on CUDA devices, by NCCL.
 *
 * A call is launched on the stream that is current where it is made, so it comes after what its operands wait for, and what is asked of the stream
 * later comes after it. A request is an event behind it. The communicator is made by the first call, which is the first to name a device.
 *
 * Sends and receives aren't launched at once: a stream does one thing after the other, so a send ahead of a receive would wait for a peer whose
 * send waits likewise. They are collected until the program asks for a request or makes another call, and launched together, as one call of
 * NCCL's. */
#include "nccl.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <tede/auto.h>
#include <tede/device.h>
#include <tede/tede.h>
#include <time.h>

#define TRY(what, call) do { ncclResult_t status_ = (call); if (status_ != ncclSuccess && status_ != ncclInProgress) return nccl_failed(what, status_); } while (0)

typedef struct request {
    struct request *next;               /* in `collected` */
    td_event       *event;
    td_stream      *stream;             /* retained while it is collected */
    td_collective   kind;
    td_part         part;
    ncclDataType_t  type;
    int             peer;
    bool            launched, made_op;
    ncclRedOp_t     op;
} request;

typedef struct group {
    int             rank, n;
    double          timeout;
    ncclUniqueId    id;
    pthread_mutex_t lock;
    ncclComm_t      comm;
    td_device       device;
    request        *collected;
    int             pending;            /* requests that aren't done */
    bool            aborted;
} group;

/* ---- groups */

static void *open_group(td_group_options *options)
{
    if (nccl_open())
        return NULL;
    group *g = calloc(1, sizeof *g);
    if (!g)
        return td_fail(TD_E_MEMORY, "nccl: no memory for a group");
    if (nccl_agree(options, &g->id)) {
        free(g);
        return NULL;
    }
    g->rank = options->rank, g->n = options->n_ranks, g->timeout = options->timeout;
    pthread_mutex_init(&g->lock, NULL);
    return g;
}

static void abort_communicator(group *g)
{
    if (g->comm && !g->aborted)
        ncclCommAbort(g->comm);
    g->aborted = true;
}

static void close_group(void *opaque)
{
    group *g = opaque;
    if (g->comm && !g->aborted && !g->pending)
        ncclCommDestroy(g->comm);
    else
        abort_communicator(g);
    pthread_mutex_destroy(&g->lock);
    free(g);
}

/* Makes the device's context this thread's, by asking something of it. */
static int enter(td_device device)
{
    td_event *event = td_event_new(device, false);
    const int status = event ? td_event_record(event, td_stream_current(device)) : -1;
    td_event_release(event);
    return status;
}

/* NCCL waits for all members without an end: a thread does, and who waits for the thread gives up in time. Whoever is last frees it. */
typedef struct meeting {
    pthread_mutex_t lock;
    pthread_cond_t  over;
    int             holders;
    bool            done;
    td_device       device;
    int             rank, n;
    ncclUniqueId    id;
    ncclComm_t      comm;
    ncclResult_t    status;
    bool            entered;
} meeting;

/* With the lock, which is let go of. */
static void leave(meeting *m)
{
    const bool last = --m->holders == 0;
    pthread_mutex_unlock(&m->lock);
    if (last)
        free(m);
}

static void *meet(void *opaque)
{
    meeting *m = opaque;
    ncclComm_t comm = NULL;
    const bool entered = td_device_set_current(m->device) == 0 && enter(m->device) == 0;
    const ncclResult_t status = entered ? ncclCommInitRank(&comm, m->n, m->id, m->rank) : ncclSuccess;
    pthread_mutex_lock(&m->lock);
    if (m->holders == 1 && comm)                        /* nobody waits for it any more */
        ncclCommAbort(comm);
    m->comm = comm, m->status = status, m->entered = entered, m->done = true;
    pthread_cond_signal(&m->over);
    leave(m);
    return NULL;
}

static int make_communicator(group *g, td_device device)
{
    pthread_t thread;
    struct timespec end;
    meeting *m = calloc(1, sizeof *m);
    if (!m)
        return td_error(TD_E_MEMORY, "nccl: no memory for a communicator");
    *m = (meeting){.holders = 2, .device = device, .rank = g->rank, .n = g->n, .id = g->id};
    pthread_mutex_init(&m->lock, NULL);
    pthread_cond_init(&m->over, NULL);
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += (time_t)g->timeout + 1;
    if (pthread_create(&thread, NULL, meet, m)) {
        free(m);
        return td_error(TD_E_RUNTIME, "nccl: no thread could be started to make a communicator");
    }
    pthread_detach(thread);
    pthread_mutex_lock(&m->lock);
    while (!m->done && pthread_cond_timedwait(&m->over, &m->lock, &end) != ETIMEDOUT)
        ;
    const bool done = m->done, entered = m->entered;
    const ncclResult_t status = m->status;
    g->comm = m->comm;
    g->device = device;
    leave(m);
    if (!done)
        return td_error(TD_E_RUNTIME, "nccl: Timed out after %.0f s waiting for the other ranks to make a communicator (rank %d of %d)", g->timeout, g->rank, g->n);
    if (!entered)
        return td_error(TD_E_RUNTIME, "nccl: device cuda:%d can't be used", device.index);
    return status == ncclSuccess && g->comm ? 0 : nccl_failed("making a communicator", status);
}

/* With the lock: the communicator, of the device that the group's first call was on, and that device's context. */
static int prepare(group *g, td_device device)
{
    if (g->aborted)
        return td_error(TD_E_RUNTIME, "nccl: the group's communicator was aborted");
    if (!g->comm && make_communicator(g, device))
        return -1;
    if (device.index != g->device.index)
        return td_error(TD_E_RUNTIME, "nccl: a group's tensors must be on one device, cuda:%d, not cuda:%d", g->device.index, device.index);
    return enter(device);
}

/* ---- what is sent */

static const int8_t types[TD_DTYPES] = {
    [TD_U8] = ncclUint8 + 1, [TD_I8] = ncclInt8 + 1, [TD_I32] = ncclInt32 + 1, [TD_I64] = ncclInt64 + 1, [TD_U32] = ncclUint32 + 1, [TD_U64] = ncclUint64 + 1,
    [TD_F16] = ncclFloat16 + 1, [TD_BF16] = ncclBfloat16 + 1, [TD_F32] = ncclFloat32 + 1, [TD_F64] = ncclFloat64 + 1, [TD_BOOL] = ncclUint8 + 1,
    [TD_C64] = ncclFloat32 + 1, [TD_C128] = ncclFloat64 + 1,
};
typedef struct element { ncclDataType_t type; size_t per; ncclRedOp_t op; } element;

/* What only moves, moves as bytes. */
static element moved(td_dtype dtype) { return (element){ncclUint8, td_dtype_size(dtype), ncclSum}; }

/* What is reduced: NCCL's dtype and operation. Of bool any is the larger, all the smaller; a complex number is two real ones, of a sum. */
static int reduced(group *g, const td_engine_call *call, element *e, bool *made)
{
    static const int8_t ops[TD_REDUCTIONS] = {[TD_REDUCE_SUM] = ncclSum + 1, [TD_REDUCE_AVG] = ncclAvg + 1, [TD_REDUCE_PRODUCT] = ncclProd + 1,
                                              [TD_REDUCE_MIN] = ncclMin + 1, [TD_REDUCE_MAX] = ncclMax + 1, [TD_REDUCE_PREMUL_SUM] = ncclSum + 1};
    static const int8_t of_bools[TD_REDUCTIONS] = {[TD_REDUCE_SUM] = ncclMax + 1, [TD_REDUCE_PRODUCT] = ncclMin + 1, [TD_REDUCE_MIN] = ncclMin + 1,
                                                   [TD_REDUCE_MAX] = ncclMax + 1, [TD_REDUCE_BOR] = ncclMax + 1, [TD_REDUCE_BAND] = ncclMin + 1};
    const bool is_complex = td_dtype_is_complex(call->dtype);
    const int op = (call->dtype == TD_BOOL ? of_bools : ops)[call->reduction] - 1, type = types[call->dtype] - 1;
    *made = false;
    if (type < 0)
        return td_error(TD_E_TYPE, "nccl: there is no reduction of %s", td_dtype_name(call->dtype));
    if (op < 0 || (is_complex && op != ncclSum && op != ncclAvg))
        return td_error(TD_E_VALUE, "nccl: there is no such reduction of %s: %s", td_dtype_name(call->dtype),
                        is_complex || call->dtype == TD_BOOL ? "it isn't defined" : "NCCL has no bitwise operations");
    *e = (element){type, is_complex ? 2 : 1, op};
    if (call->reduction != TD_REDUCE_PREMUL_SUM)
        return 0;
    _Alignas(8) char factor[8];
    if (call->dtype == TD_F64)
        memcpy(factor, &call->factor, 8);
    else if (call->dtype == TD_F32)
        memcpy(factor, &(float){(float)call->factor}, 4);
    else if (call->dtype == TD_F16)
        memcpy(factor, &(_Float16){(_Float16)call->factor}, 2);
    else
        return td_error(TD_E_TYPE, "nccl: PREMUL_SUM is of float16, float32 and float64, not of %s", td_dtype_name(call->dtype));
    TRY("making a reduction", ncclRedOpCreatePreMulSum(&e->op, factor, type, ncclScalarHostImmediate, g->comm));
    *made = true;
    return 0;
}

/* Whether parts lie one behind the other, all of one size. */
static bool in_a_row(const td_part *parts, int n, size_t item)
{
    for (int i = 1; i < n; i++)
        if (parts[i].count != parts[0].count || (char *)parts[i].data != (char *)parts[0].data + (size_t)i * (size_t)parts[0].count * item)
            return false;
    return true;
}

/* A call that is several of NCCL's: all of them are made, or the group of calls ends and the error stays. */
#define EACH(what, count, call) \
    do { \
        TRY(what, ncclGroupStart()); \
        ncclResult_t each_ = ncclSuccess; \
        for (int i = 0; i < (count) && (each_ == ncclSuccess || each_ == ncclInProgress); i++) \
            each_ = (call); \
        ncclResult_t ended_ = ncclGroupEnd(); \
        TRY(what, each_ == ncclSuccess || each_ == ncclInProgress ? ended_ : each_); \
    } while (0)

static int launch(group *g, const td_engine_call *call, element e, cudaStream_t stream)
{
    const td_part *from = call->from, *to = call->to;
    const size_t item = td_dtype_size(call->dtype);
    const int root = call->root, n = g->n;
    const bool at_root = root == g->rank;
#define COUNT(part) ((size_t)(part).count * e.per)
    switch (call->kind) {
    case TD_ALL_REDUCE:
        TRY("all_reduce", ncclAllReduce(from->data, to->data, COUNT(*from), e.type, e.op, g->comm, stream));
        return 0;
    case TD_BROADCAST:
        TRY("broadcast", ncclBroadcast(to->data, to->data, COUNT(*to), e.type, root, g->comm, stream));
        return 0;
    case TD_REDUCE:
        TRY("reduce", ncclReduce(from->data, at_root ? to->data : NULL, COUNT(*from), e.type, e.op, root, g->comm, stream));
        return 0;
    case TD_ALL_GATHER:
        if (in_a_row(to, n, item))
            TRY("all_gather", ncclAllGather(from->data, to->data, COUNT(*from), e.type, g->comm, stream));
        else
            EACH("all_gather", n, ncclBroadcast(from->data, to[i].data, COUNT(to[i]), e.type, i, g->comm, stream));
        return 0;
    case TD_REDUCE_SCATTER:
        if (in_a_row(from, n, item))
            TRY("reduce_scatter", ncclReduceScatter(from->data, to->data, COUNT(*to), e.type, e.op, g->comm, stream));
        else
            EACH("reduce_scatter", n, ncclReduce(from[i].data, to->data, COUNT(from[i]), e.type, e.op, i, g->comm, stream));
        return 0;
    case TD_GATHER:                     /* each sends to the root, which also receives */
        EACH("gather", 1 + at_root * n, i == 0 ? ncclSend(from->data, COUNT(*from), e.type, root, g->comm, stream)
                                               : ncclRecv(to[i - 1].data, COUNT(to[i - 1]), e.type, i - 1, g->comm, stream));
        return 0;
    case TD_SCATTER:
        EACH("scatter", 1 + at_root * n, i == 0 ? ncclRecv(to->data, COUNT(*to), e.type, root, g->comm, stream)
                                                : ncclSend(from[i - 1].data, COUNT(from[i - 1]), e.type, i - 1, g->comm, stream));
        return 0;
    case TD_ALL_TO_ALL:
        EACH("all_to_all", 2 * n, i < n ? ncclSend(from[i].data, COUNT(from[i]), e.type, i, g->comm, stream)
                                        : ncclRecv(to[i - n].data, COUNT(to[i - n]), e.type, i - n, g->comm, stream));
        return 0;
    default:
        return td_error(TD_E_NOT_IMPLEMENTED, "nccl: there is no such call");
    }
}

/* ---- requests */

static void drop(group *g, request *r)
{
    if (r->made_op && !g->aborted)
        ncclRedOpDestroy(r->op, g->comm);
    td_event_release(r->event);
    td_stream_release(r->stream);
    free(r);
}

static request *new_request(td_collective kind)
{
    request *r = calloc(1, sizeof *r);
    if (!r || !(r->event = td_event_new((td_device){TD_CUDA, 0}, false))) {
        free(r);
        return td_fail(TD_E_MEMORY, "nccl: no memory for a request");
    }
    r->kind = kind;
    return r;
}

/* With the lock: launches what was collected; each is behind the stream that it was asked on. */
static int launch_collected(group *g)
{
    request *all = g->collected;
    int status = 0;
    if (!all)
        return 0;
    g->collected = NULL;
    if (enter(g->device))
        return -1;
    ncclResult_t each = ncclGroupStart();
    for (request *r = all; r && each == ncclSuccess; r = r->next) {
        cudaStream_t stream = td_stream_handle(r->stream);
        each = r->kind == TD_SEND ? ncclSend(r->part.data, (size_t)r->part.count, r->type, r->peer, g->comm, stream)
                                  : ncclRecv(r->part.data, (size_t)r->part.count, r->type, r->peer, g->comm, stream);
    }
    const ncclResult_t ended = ncclGroupEnd();
    each = each == ncclSuccess ? ended : each;
    if (each != ncclSuccess && each != ncclInProgress)
        status = nccl_failed("sending and receiving", each);
    for (request *next, *r = all; r; r = next) {
        next = r->next;
        r->next = NULL;
        r->launched = true;
        status |= status ? 0 : td_event_record(r->event, r->stream);
    }
    return status;
}

static void *begin(group *g, const td_engine_call *call)
{
    const bool reduces = call->kind == TD_ALL_REDUCE || call->kind == TD_REDUCE || call->kind == TD_REDUCE_SCATTER;
    const bool is_message = call->kind == TD_SEND || call->kind == TD_RECV;
    element e = moved(call->dtype);
    request *r = new_request(call->kind);
    td_stream *stream = td_stream_current(call->device);
    if (!r || !stream || prepare(g, call->device) || (!is_message && launch_collected(g)) || (reduces && reduced(g, call, &e, &r->made_op)))
        goto failed;
    r->op = e.op;
    if (is_message) {
        if (call->root < 0) {
            td_error(TD_E_VALUE, "nccl: a receive names the rank that sends");
            goto failed;
        }
        r->part = call->kind == TD_SEND ? call->from[0] : call->to[0];
        r->part.count *= (int64_t)e.per;
        r->type = e.type, r->peer = call->root, r->stream = td_stream_retain(stream);
        request **end = &g->collected;
        while (*end)
            end = &(*end)->next;
        *end = r;
    } else {
        if (launch(g, call, e, call->stream) || td_event_record(r->event, stream))
            goto failed;
        r->launched = true;
    }
    g->pending++;
    return r;
failed:
    if (r)
        drop(g, r);
    return NULL;
}

static void *start(void *opaque, const td_engine_call *call)
{
    group *g = opaque;
    pthread_mutex_lock(&g->lock);
    request *r = begin(g, call);
    pthread_mutex_unlock(&g->lock);
    return r;
}

/* A number that all have added to has come by all of them. */
static void *barrier(void *opaque, const td_engine_call *call)
{
    group *g = opaque;
    TD_AUTO td_tensor *one = td_zeros(1, (int64_t[]){1}, TD_U8, (td_device){TD_CUDA, g->comm ? g->device.index : td_device_current(TD_CUDA)});
    if (!one)
        return NULL;
    td_part part = {td_tensor_data(one), 1};
    td_engine_call sum = *call;
    sum.kind = TD_ALL_REDUCE, sum.dtype = TD_U8, sum.device = td_tensor_device(one), sum.from = sum.to = &part, sum.n_from = sum.n_to = 1;
    sum.reduction = TD_REDUCE_SUM, sum.stream = td_stream_handle(td_stream_current(sum.device));
    return start(g, &sum);              /* its memory is free for what the stream does later */
}

static int test(void *opaque, void *request_, int *source)
{
    group *g = opaque;
    request *r = request_;
    ncclResult_t later = ncclSuccess, asked;
    pthread_mutex_lock(&g->lock);
    int done = g->aborted ? td_error(TD_E_RUNTIME, "nccl: the group's communicator was aborted") : 0;
    if (!done && ((asked = ncclCommGetAsyncError(g->comm, &later)) || (later && later != ncclInProgress)))
        done = nccl_failed("a call that was under way", asked ? asked : later);
    if (!done && r->launched)
        done = td_event_query(r->event);
    if (done > 0) {
        *source = r->kind == TD_RECV ? r->peer : -1;
        g->pending--;
        drop(g, r);
    }
    pthread_mutex_unlock(&g->lock);
    return done;
}

static int flush(void *opaque)
{
    group *g = opaque;
    pthread_mutex_lock(&g->lock);
    const int status = g->aborted ? 0 : launch_collected(g);
    pthread_mutex_unlock(&g->lock);
    return status;
}

/* Nothing of NCCL's can be taken back but all: what its kernels wait for never comes, so the communicator is aborted, after which they have ended. */
static int release(void *opaque, void *request_)
{
    group *g = opaque;
    request *r = request_;
    pthread_mutex_lock(&g->lock);
    for (request **at = &g->collected; *at; at = &(*at)->next)
        if (*at == r) {
            *at = r->next;
            break;
        }
    if (r->launched)
        abort_communicator(g);
    g->pending--;
    drop(g, r);
    pthread_mutex_unlock(&g->lock);
    return 1;
}

static const td_group_engine engine = {
    .abi = TD_GROUP_ABI, .size = sizeof engine, .name = "nccl", .devices = 1u << TD_CUDA, .open = open_group, .close = close_group,
    .call = {[TD_ALL_REDUCE] = start, [TD_BROADCAST] = start, [TD_REDUCE] = start, [TD_ALL_GATHER] = start, [TD_GATHER] = start, [TD_SCATTER] = start,
             [TD_REDUCE_SCATTER] = start, [TD_ALL_TO_ALL] = start, [TD_SEND] = start, [TD_RECV] = start, [TD_BARRIER] = barrier},
    .test = test, .release = release, .flush = flush,
};

__attribute__((constructor)) static void add(void) { (void)!td_group_register(&engine); }
