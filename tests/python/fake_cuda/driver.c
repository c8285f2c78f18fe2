/* The driver's functions. */
#define _GNU_SOURCE
#include "fake.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct CUstream_st firsts[DEVICES];
static CUmodule modules;
static CUfunction functions;

CUresult cuGetErrorName(CUresult code, const char **name)
{
    static const struct { int code; const char *name; } names[] = {
        {0, "CUDA_SUCCESS"}, {1, "CUDA_ERROR_INVALID_VALUE"}, {2, "CUDA_ERROR_OUT_OF_MEMORY"}, {3, "CUDA_ERROR_NOT_INITIALIZED"}, {100, "CUDA_ERROR_NO_DEVICE"},
        {200, "CUDA_ERROR_INVALID_IMAGE"}, {201, "CUDA_ERROR_INVALID_CONTEXT"}, {209, "CUDA_ERROR_NO_BINARY_FOR_GPU"}, {400, "CUDA_ERROR_INVALID_HANDLE"},
        {500, "CUDA_ERROR_NOT_FOUND"}, {600, "CUDA_ERROR_NOT_READY"}, {700, "CUDA_ERROR_ILLEGAL_ADDRESS"},
        {900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"}, {901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"}, {904, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED"},
        {905, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION"}, {907, "CUDA_ERROR_CAPTURED_EVENT"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].code == code)
            return *name = names[i].name, SUCCESS;
    return INVALID_VALUE;
}
CUresult cuInit(unsigned flags)
{
    ENTER(false);
    if (flags)
        return INVALID_VALUE;
    for (int i = 0; i < DEVICES && !fake_contexts[i].first; i++)
        fake_contexts[i].first = fake_add_stream(&fake_contexts[i], &firsts[i]);
    return getenv("FAKE_CUDA_NONE") ? NO_DEVICE : SUCCESS;
}
CUresult cuDriverGetVersion(int *version) { return *version = 12080, SUCCESS; }
CUresult cuDeviceGetCount(int *n) { ENTER(false); return *n = DEVICES, SUCCESS; }
CUresult cuDeviceGet(CUdevice *device, int i) { ENTER(false); return *device = i, i >= 0 && i < DEVICES ? SUCCESS : INVALID_DEVICE; }
CUresult cuDeviceGetName(char *name, int size, CUdevice device) { ENTER(false); return snprintf(name, (size_t)size, "Fake %d", device), SUCCESS; }
CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device) { ENTER(false); return (void)device, *bytes = fake_limit, SUCCESS; }
CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice device)
{
    ENTER(false);
    const char *newest = getenv("FAKE_CUDA_ARCHITECTURE");
    const int architecture = newest ? atoi(newest) : 80 + 10 * device;
    switch (attribute) {
    case 1: *value = getenv("FAKE_CUDA_LANES") ? atoi(getenv("FAKE_CUDA_LANES")) : 64; break;
    case 8: *value = 48 << 10; break;
    case 16: *value = 3; break;
    case 18: *value = 0; break;
    case 75: *value = architecture / 10; break;
    case 76: *value = architecture % 10; break;
    default: return INVALID_VALUE;
    }
    return SUCCESS;
}
CUresult cuDeviceCanAccessPeer(int *can, CUdevice a, CUdevice b) { ENTER(false); return *can = a != b, SUCCESS; }
CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    ENTER(false);
    fake_contexts[device].retained = true;
    return *context = &fake_contexts[device], SUCCESS;
}
CUresult cuCtxGetCurrent(CUcontext *context) { ENTER(false); return *context = fake_current, SUCCESS; }
CUresult cuCtxSetCurrent(CUcontext context) { ENTER(false); return context && !context->retained ? INVALID_CONTEXT : (fake_current = context, SUCCESS); }
CUresult cuCtxSynchronize(void)
{
    ENTER(true);
    for (CUstream s = fake_streams; s; s = s->next)
        if (s->context == fake_current && s->capture)
            return fake_refused(s);
    return fake_run_context(fake_current), fake_current->dead ? ILLEGAL_ADDRESS : SUCCESS;
}
CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags)
{
    ENTER(true);
    if (flags || peer == fake_current || !peer->retained)
        return INVALID_VALUE;
    bool before = fake_current->peers[peer->device];
    fake_current->peers[peer->device] = true;
    return before ? PEER_ALREADY : SUCCESS;
}
CUresult cuMemGetInfo_v2(size_t *unused, size_t *total)
{
    ENTER(true);
    *unused = *total = fake_limit;
    for (block *b = fake_blocks; b; b = b->next)
        *unused -= b->device == fake_current->device ? b->bytes : 0;
    return SUCCESS;
}
CUresult cuMemAlloc_v2(CUdeviceptr *p, size_t bytes)
{
    ENTER(true);
    char *start = NULL;
    if (fake_refused(NULL))
        return CAPTURE_UNSUPPORTED;
    status = fake_take(&fake_blocks, &start, bytes, MEMORY);
    *p = (CUdeviceptr)(uintptr_t)start;
    return status;
}
/* Waits for the device, as the driver's does. */
CUresult cuMemFree_v2(CUdeviceptr p) { ENTER(true); return fake_refused(NULL) ? CAPTURE_UNSUPPORTED : (fake_run_context(NULL), fake_drop(&fake_blocks, (void *)(uintptr_t)p, MEMORY)); }
CUresult cuMemHostAlloc(void **p, size_t bytes, unsigned flags)
{
    ENTER(true);
    char *start = NULL;
    if (flags != 1)
        return INVALID_VALUE;
    if (fake_refused(NULL))
        return CAPTURE_UNSUPPORTED;
    status = fake_take(&fake_pinned, &start, bytes, HOST);
    return *p = start, status;
}
CUresult cuMemFreeHost(void *p) { ENTER(true); return fake_run_context(NULL), fake_drop(&fake_pinned, p, HOST); }

static CUresult ask_copy(CUstream stream, char *to, char *from, size_t bytes)
{
    CUstream s = fake_stream_of(stream);
    if (!s)
        return INVALID_HANDLE;
    if (!to || !from || !bytes)
        return INVALID_VALUE;
    const bool pageable = (!fake_block_of(fake_blocks, from, bytes) && !fake_block_of(fake_pinned, from, bytes)) ||
                          (!fake_block_of(fake_blocks, to, bytes) && !fake_block_of(fake_pinned, to, bytes));
    if (pageable && s->capture)
        return fake_refused(s);
    operation *o = fake_ask(s, COPY);
    o->to = to, o->from = from, o->bytes = bytes;
    if (!fake_block_of(fake_blocks, from, bytes) && !fake_block_of(fake_pinned, from, bytes)) {
        o->snapshot = malloc(bytes);            /* the driver has taken it when it returns */
        memcpy(o->snapshot, from, bytes);
    }
    if (!fake_block_of(fake_blocks, to, bytes) && !fake_block_of(fake_pinned, to, bytes))
        fake_run_all(s);                             /* and written it */
    return SUCCESS;
}
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t n, CUstream s) { ENTER(true); return ask_copy(s, fake_place(to, n, -1), (char *)(uintptr_t)from, n); }
CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t n, CUstream s) { ENTER(true); return ask_copy(s, to, fake_place(from, n, -1), n); }
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t n, CUstream s)
{
    ENTER(true);
    return ask_copy(s, fake_place(to, n, fake_current->device), fake_place(from, n, fake_current->device), n);
}
CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t n, CUstream s)
{
    ENTER(true);
    return to_context && from_context ? ask_copy(s, fake_place(to, n, to_context->device), fake_place(from, n, from_context->device), n) : INVALID_CONTEXT;
}
CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char byte, size_t n, CUstream stream)
{
    ENTER(true);
    CUstream s = fake_stream_of(stream);
    char *at = fake_place(to, n, fake_current->device);
    if (!s || !at)
        return s ? INVALID_VALUE : INVALID_HANDLE;
    operation *o = fake_ask(s, FILL);
    o->to = at, o->byte = byte, o->bytes = n;
    return SUCCESS;
}

CUresult cuStreamCreateWithPriority(CUstream *s, unsigned flags, int priority)
{
    ENTER(true);
    (void)priority;
    if (flags != 1)
        return INVALID_VALUE;
    *s = fake_add_stream(fake_current, malloc(sizeof **s));
    fake_counts[STREAMS]++;
    return SUCCESS;
}
CUresult cuStreamDestroy_v2(CUstream stream)
{
    ENTER(true);
    CUstream s = stream ? fake_stream_of(stream) : NULL;
    if (!s)
        return INVALID_HANDLE;
    fake_run_all(s);
    s->live = false;
    fake_counts[STREAMS]--;
    return SUCCESS;
}
CUresult cuStreamSynchronize(CUstream stream)
{
    ENTER(true);
    CUstream s = fake_stream_of(stream);
    if (!s)
        return INVALID_HANDLE;
    if (s->capture)
        return fake_refused(s);
    fake_run_all(s);
    return fake_current->dead ? ILLEGAL_ADDRESS : SUCCESS;
}
CUresult cuEventCreate(CUevent *event, unsigned flags)
{
    ENTER(true);
    *event = calloc(1, sizeof **event);
    **event = (struct CUevent_st){.context = fake_current, .timed = !(flags & 2), .live = true};
    fake_counts[EVENTS]++;
    return SUCCESS;
}
CUresult cuEventDestroy_v2(CUevent event)
{
    ENTER(true);
    if (!event || !event->live)
        return INVALID_HANDLE;
    event->live = false;
    fake_counts[EVENTS]--;
    fake_drop_event(event);
    return SUCCESS;
}
static void ask_event(CUstream s, int kind, CUevent event)
{
    operation *o = fake_ask(s, kind);
    o->event = event;
    o->serial = event->recorded;
    event->uses++;
}
CUresult cuEventRecord(CUevent event, CUstream stream)
{
    ENTER(true);
    CUstream s = fake_stream_of(stream);
    if (!s || !event->live || event->context != fake_current)
        return INVALID_HANDLE;
    if ((event->capture = s->capture)) {
        event->stream = s;
        return SUCCESS;
    }
    if (event->stream && event->stream != s && event->done < event->recorded)
        fake_run_all(event->stream);
    event->stream = s;
    event->recorded++;
    ask_event(s, RECORD, event);
    return SUCCESS;
}
CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags)
{
    ENTER(true);
    CUstream s = fake_stream_of(stream);
    if (!s || flags || !event->live)
        return INVALID_HANDLE;
    if (event->capture && event->stream->capture != event->capture)
        return CAPTURED_EVENT;
    if (event->capture) {
        s->capture = s->capture ? s->capture : event->capture;
        event->stream->joined = s == s->capture->origin;
        return s->capture == event->capture ? SUCCESS : (s->capture->invalid = true, 905);
    }
    if (s->capture && event->stream)
        return s->capture->invalid = true, 905;
    if (event->stream)
        ask_event(s, WAIT, event);
    return SUCCESS;
}
CUresult cuEventSynchronize(CUevent event)
{
    ENTER(true);
    if (!event->live)
        return INVALID_HANDLE;
    if (event->capture || fake_refused(NULL))
        return event->capture ? CAPTURED_EVENT : CAPTURE_UNSUPPORTED;
    while (event->done < event->recorded)
        fake_run_one(event->stream);
    return event->context->dead ? ILLEGAL_ADDRESS : SUCCESS;
}
CUresult cuEventQuery(CUevent event)
{
    ENTER(true);
    if (!event->live)
        return INVALID_HANDLE;
    if (event->capture || fake_refused(NULL))
        return event->capture ? CAPTURED_EVENT : CAPTURE_UNSUPPORTED;
    const bool done = event->done == event->recorded;
    if (!done)
        fake_run_one(event->stream);
    return event->context->dead ? ILLEGAL_ADDRESS : done ? SUCCESS : NOT_READY;
}
CUresult cuEventElapsedTime(float *milliseconds, CUevent from, CUevent to)
{
    ENTER(true);
    if (!from->timed || !to->timed || !from->recorded || !to->recorded)
        return INVALID_HANDLE;
    if (from->done < from->recorded || to->done < to->recorded)
        return NOT_READY;
    *milliseconds = (float)((double)(to->when.tv_sec - from->when.tv_sec) * 1e3 + (double)(to->when.tv_nsec - from->when.tv_nsec) / 1e6);
    return SUCCESS;
}

/* ---- programs */

char *fake_temporary(const char *end, char *path, size_t size)
{
    static int n;
    const char *folder = getenv("TMPDIR");
    return snprintf(path, size, "%s/fake_cuda_%ld_%d%s", folder ? folder : "/tmp", (long)getpid(), n++, end), path;
}

CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
    ENTER(true);
    const head *h = image;
    char path[300];
    int architecture[2];
    if (fake_refused(NULL))
        return CAPTURE_UNSUPPORTED;
    if (memcmp(h->magic, "FAKECU1", 8))
        return INVALID_IMAGE;
    cuDeviceGetAttribute(&architecture[0], 75, fake_current->device), cuDeviceGetAttribute(&architecture[1], 76, fake_current->device);
    const int own = 10 * architecture[0] + architecture[1];
    if (h->ptx ? h->architecture > own : h->architecture / 10 != own / 10 || h->architecture > own)
        return NO_BINARY_FOR_GPU;
    FILE *file = fopen(fake_temporary(".so", path, sizeof path), "wb");
    bool good = file && fwrite(h + 1, 1, h->bytes, file) == h->bytes;
    good = file && fclose(file) == 0 && good;
    void *library = good ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    unlink(path);
    if (!library)
        return INVALID_IMAGE;
    *module = malloc(sizeof **module);
    **module = (struct CUmod_st){modules, fake_current, library, true};
    modules = *module;
    fake_counts[MODULES]++;
    return SUCCESS;
}
CUresult cuModuleUnload(CUmodule module)
{
    ENTER(true);
    if (!module->live || module->context != fake_current)
        return INVALID_HANDLE;
    module->live = false;
    fake_counts[MODULES]--;
    return SUCCESS;
}
CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
    ENTER(true);
    char full[300];
    if (!module->live || module->context != fake_current)
        return INVALID_HANDLE;
    struct CUfunc_st f = {.next = functions, .module = module, .set = (void (*)(unsigned, unsigned, unsigned, unsigned))dlsym(module->library, "fake_set"),
                         .barrier = (void (**)(void))dlsym(module->library, "fake_barrier")};
    snprintf(full, sizeof full, "%s__call", name), f.call = (void (*)(void **))dlsym(module->library, full);
    snprintf(full, sizeof full, "%s__kinds", name), f.kinds = dlsym(module->library, full);
    snprintf(full, sizeof full, "%s__sizes", name), f.sizes = dlsym(module->library, full);
    if (!f.call || !f.set)
        return NOT_FOUND;
    *function = malloc(sizeof f);
    **function = f;
    functions = *function;
    return SUCCESS;
}
CUresult cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned lx, unsigned ly, unsigned lz, unsigned shared, CUstream stream, void **values,
                        void **extra)
{
    ENTER(true);
    CUstream s = fake_stream_of(stream);
    if (!s || !f->module->live || f->module->context != fake_current)
        return INVALID_HANDLE;
    if (!gx || gy != 1 || gz != 1 || !lx || lx > MOST_LANES || ly != 1 || lz != 1 || shared || extra)
        return INVALID_VALUE;
    operation *o = fake_ask(s, LAUNCH);
    o->function = f;
    o->groups = gx;
    o->lanes = lx;
    for (int i = 0; f->kinds[i]; i++) {
        o->values[i] = malloc(f->sizes[i]);
        memcpy(o->values[i], values[i], f->sizes[i]);
    }
    fake_counts[LAUNCHES]++;
    return SUCCESS;
}

/* ---- graphs */

static _Thread_local int thread_mode;           /* 0: global, 1: of this thread, 2: relaxed */

CUresult fake_refused(CUstream s)
{
    for (CUstream other = fake_streams; other; other = other->next) {
        CUgraph g = other->capture;
        const bool own = g && pthread_equal(g->thread, pthread_self());
        if (g && (s ? s == other : (thread_mode == 0 && g->mode == 0) || (thread_mode < 2 && g->mode < 2 && own)))
            return g->invalid = true, CAPTURE_UNSUPPORTED;
    }
    return SUCCESS;
}
CUresult cuThreadExchangeStreamCaptureMode(int *mode)
{
    ENTER(false);
    const int before = thread_mode;
    return thread_mode = *mode, *mode = before, SUCCESS;
}
CUresult cuStreamBeginCapture_v2(CUstream stream, int mode)
{
    ENTER(true);
    CUstream s = stream ? fake_stream_of(stream) : NULL;
    if (!s || s->capture || mode < 0 || mode > 2)
        return stream ? INVALID_VALUE : CAPTURE_UNSUPPORTED;
    s->capture = calloc(1, sizeof *s->capture);
    *s->capture = (struct CUgraph_st){.origin = s, .mode = mode, .thread = pthread_self()};
    s->capture->tail = &s->capture->head;
    return SUCCESS;
}
static void free_graph(CUgraph g)
{
    for (operation *o = g->head, *next; o; o = next) {
        next = o->next;
        fake_free_operation(o);
    }
    free(g);
}
CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
    ENTER(true);
    CUstream s = fake_stream_of(stream);
    CUgraph g = s ? s->capture : NULL;
    *graph = NULL;
    if (!g || g->origin != s)
        return INVALID_VALUE;
    for (CUstream other = fake_streams; other; other = other->next)
        if (other->capture == g) {
            status = other != s && !other->joined ? CAPTURE_UNJOINED : status;
            other->capture = NULL;
        }
    status = g->invalid ? CAPTURE_INVALIDATED : status;
    if (status)
        free_graph(g);
    else
        *graph = g;
    return status;
}
CUresult cuGraphInstantiateWithFlags(CUgraph *made, CUgraph graph, unsigned long long flags)
{
    ENTER(true);
    if (flags)
        return INVALID_VALUE;
    *made = malloc(sizeof **made);
    **made = *graph;
    graph->head = NULL;                         /* which isn't instantiated twice */
    fake_counts[GRAPHS]++;
    return SUCCESS;
}
CUresult cuGraphDestroy(CUgraph graph) { ENTER(true); return free_graph(graph), SUCCESS; }
CUresult cuGraphExecDestroy(CUgraph graph)
{
    ENTER(true);
    fake_run_context(NULL);
    free_graph(graph);
    fake_counts[GRAPHS]--;
    return SUCCESS;
}
static void *copy_of(const void *from, size_t bytes) { return from ? memcpy(malloc(bytes), from, bytes) : NULL; }
CUresult cuGraphLaunch(CUgraph graph, CUstream stream)
{
    ENTER(true);
    CUstream s = fake_stream_of(stream);
    if (!s || s->context != graph->origin->context)
        return INVALID_HANDLE;
    if (s->capture)
        return fake_refused(s);
    for (const operation *from = graph->head; from; from = from->next) {
        operation *o = fake_ask(s, from->kind), *next = o->next;
        *o = *from;
        o->next = next;
        for (int i = 0; i < MOST_ARGUMENTS; i++)
            o->values[i] = from->values[i] ? copy_of(from->values[i], from->function->sizes[i]) : NULL;
        o->convolution = copy_of(from->convolution, sizeof *from->convolution);
        o->context = o->kind == CALL ? copy_of(from->context, from->bytes) : from->context;
        fake_counts[LAUNCHES] += o->kind == LAUNCH, fake_counts[GRAPH_KERNELS] += o->kind == LAUNCH;
    }
    fake_counts[GRAPH_LAUNCHES]++;
    return SUCCESS;
}
