/* CUDA as a device: "cuda:0" and so on are the devices of NVIDIA's driver, in its order.
 *
 *     cc -shared -fPIC *.c -o cuda.so $(python -m tede.config --cflags --libs)
 *
 * Built against tede's installed headers only, and against nothing of CUDA's (api.h); kernels come from the core.
 *
 * The driver works on the context of the calling thread.  Each index has one, the device's primary context, which other libraries in the
 * process share; every function here makes it current first where it isn't (which costs less to ask than to do), since a thread may have come from another index.  Streams
 * are of the kind that doesn't wait for the first one: the core orders them by events. */
#include "cuda.h"

#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdint.h>
#include <string.h>

enum { MOST = 64, MOST_ARGUMENTS = 64 };
static struct index { CUdevice device; CUcontext context; int major, minor; } indices[MOST];
static int n_indices;
static bool forked;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

int cuda_failed(const char *what, CUresult status)
{
    const char *name = NULL;
    if (cuGetErrorName(status, &name) != CUDA_SUCCESS || !name)
        name = "unknown error";
    return status == CUDA_ERROR_OUT_OF_MEMORY ? td_error(TD_E_MEMORY, "cuda: %s: out of memory (%s)", what, name)
                                              : td_error(TD_E_RUNTIME, "cuda: %s failed: %s (%d)", what, name, (int)status);
}

/* ---- what there is */

static void after_fork(void) { forked = true; }

static int enumerate(void)
{
    int found = 0;
    if (cuda_open())
        return -1;
    CUresult status = cuInit(0);
    if (status != CUDA_SUCCESS || (status = cuDeviceGetCount(&found)) != CUDA_SUCCESS || found == 0)
        return status == CUDA_SUCCESS || status == CUDA_ERROR_NO_DEVICE ? td_error(TD_E_RUNTIME, "cuda: there is a driver, but no CUDA device")
                                                                        : cuda_failed("starting the driver", status);
    found = found < MOST ? found : MOST;
    for (int i = 0; i < found; i++) {
        struct index *x = &indices[i];
        CUDA_TRY("reading a device", cuDeviceGet(&x->device, i));
        CUDA_TRY("reading properties", cuDeviceGetAttribute(&x->major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, x->device));
        CUDA_TRY("reading properties", cuDeviceGetAttribute(&x->minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, x->device));
    }
    pthread_atfork(NULL, NULL, after_fork);
    __atomic_store_n(&n_indices, found, __ATOMIC_RELEASE);
    return 0;
}

/* Without a lock once they are known: every call comes here. */
static int count(void)
{
    const int known = __atomic_load_n(&n_indices, __ATOMIC_ACQUIRE);
    if (known)
        return known;
    pthread_mutex_lock(&lock);
    int status = n_indices ? 0 : enumerate();
    pthread_mutex_unlock(&lock);
    return status ? 0 : n_indices;
}

int cuda_architecture(int index) { return 10 * indices[index].major + indices[index].minor; }

static int properties(int index, td_device_properties *p)
{
    const struct index *x = &indices[index];
    int version = 0, shared = 0, threads = 0, integrated = 0;
    size_t memory = 0;
    CUDA_TRY("reading a device's name", cuDeviceGetName(p->name, sizeof p->name, x->device));
    CUDA_TRY("reading the driver's version", cuDriverGetVersion(&version));
    CUDA_TRY("reading properties", cuDeviceTotalMem_v2(&memory, x->device));
    CUDA_TRY("reading properties", cuDeviceGetAttribute(&p->units, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, x->device));
    CUDA_TRY("reading properties", cuDeviceGetAttribute(&shared, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, x->device));
    CUDA_TRY("reading properties", cuDeviceGetAttribute(&threads, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, x->device));
    CUDA_TRY("reading properties", cuDeviceGetAttribute(&integrated, CU_DEVICE_ATTRIBUTE_INTEGRATED, x->device));
    snprintf(p->driver, sizeof p->driver, "CUDA %d.%d", version / 1000, version % 1000 / 10);
    p->memory = memory;
    p->shared = (size_t)shared;
    p->dialect = TD_DIALECT_CUDA;
    p->doubles = true;
    p->unified = integrated != 0;
    p->major = x->major;
    p->minor = x->minor;
    p->lanes = 1;
    while (p->lanes < 256 && p->lanes * 2 <= threads)
        p->lanes *= 2;
    return 0;
}

/* ---- contexts */

/* Copies between indices go directly where the machine can do that; elsewhere the driver takes them through the CPU's memory. */
static void connect(const struct index *from, const struct index *to)
{
    int can = 0;
    if (from->context && to->context && cuDeviceCanAccessPeer(&can, from->device, to->device) == CUDA_SUCCESS && can &&
        cuCtxSetCurrent(from->context) == CUDA_SUCCESS)
        cuCtxEnablePeerAccess(to->context, 0);
}

/* On first use, since a context takes some hundred megabytes of its device. */
static int make_context(int index)
{
    CUcontext context = NULL;
    pthread_mutex_lock(&lock);
    CUresult status = indices[index].context ? CUDA_SUCCESS : cuDevicePrimaryCtxRetain(&context, indices[index].device);
    if (context) {
        __atomic_store_n(&indices[index].context, context, __ATOMIC_RELEASE);
        for (int i = 0; i < n_indices; i++)
            if (i != index)
                connect(&indices[index], &indices[i]), connect(&indices[i], &indices[index]);
    }
    pthread_mutex_unlock(&lock);
    CUDA_TRY("making a context", status);
    return 0;
}

int cuda_enter(int index)
{
    if (forked)
        return td_error(TD_E_RUNTIME, "Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must use the 'spawn' start "
                        "method");
    if (!__atomic_load_n(&indices[index].context, __ATOMIC_ACQUIRE) && make_context(index))
        return -1;
    CUcontext current = NULL;
    CUDA_TRY("asking for the current context", cuCtxGetCurrent(&current));
    if (current != indices[index].context)
        CUDA_TRY("making a context current", cuCtxSetCurrent(indices[index].context));
    return 0;
}

/* ---- memory */

static CUdeviceptr address(const void *block) { return (CUdeviceptr)(uintptr_t)block; }

static int memory_info(int index, size_t *unused, size_t *total)
{
    return CUDA_CALL(index, "reading how much memory is unused", cuMemGetInfo_v2(unused, total));
}

static void *alloc(td_device device, size_t nbytes)
{
    CUdeviceptr block = 0;
    CUresult status;
    CUDA_UNRECORDED(status, cuda_enter(device.index) ? CUDA_SUCCESS : cuMemAlloc_v2(&block, nbytes));
    if (status != CUDA_SUCCESS)
        cuda_failed("an allocation", status);
    return (void *)(uintptr_t)block;
}

static void release(td_device device, void *block, size_t nbytes)
{
    (void)nbytes;
    CUDA_FREE(device.index, cuMemFree_v2(address(block)));
}

/* Of any context, for all of them. */
static void *host_alloc(size_t nbytes)
{
    void *block = NULL;
    CUresult status;
    int index = n_indices - 1;
    while (index > 0 && !__atomic_load_n(&indices[index].context, __ATOMIC_ACQUIRE))
        index--;
    CUDA_UNRECORDED(status, cuda_enter(index) ? CUDA_SUCCESS : cuMemHostAlloc(&block, nbytes, CU_MEMHOSTALLOC_PORTABLE));
    if (status != CUDA_SUCCESS)
        cuda_failed("page-locked memory", status);
    return block;
}

static void host_free(void *block, size_t nbytes)
{
    (void)nbytes;
    CUDA_FREE(0, cuMemFreeHost(block));
}

static int transfer(td_device device, void *stream, td_device to_device, void *to, td_device from_device, const void *from, size_t nbytes,
                    bool later)
{
    const bool to_here = to_device.type == device.type, from_here = from_device.type == device.type;
    if (cuda_enter(device.index))
        return -1;
    if (!from_here)
        CUDA_TRY("a copy to the device", cuMemcpyHtoDAsync_v2(address(to), from, nbytes, stream));
    else if (!to_here)
        CUDA_TRY("a copy from the device", cuMemcpyDtoHAsync_v2(to, address(from), nbytes, stream));
    else if (to_device.index == from_device.index)
        CUDA_TRY("a copy", cuMemcpyDtoDAsync_v2(address(to), address(from), nbytes, stream));
    else
        CUDA_TRY("a copy between devices", cuMemcpyPeerAsync(address(to), indices[to_device.index].context, address(from),
                                                             indices[from_device.index].context, nbytes, stream));
    if (!later)
        CUDA_TRY("a copy", cuStreamSynchronize(stream));
    return 0;
}

static int copy(td_device to_device, void *to, td_device from_device, const void *from, size_t nbytes)
{
    return transfer(to_device.type != TD_CPU ? to_device : from_device, NULL, to_device, to, from_device, from, nbytes, false);
}

static int fill(td_device device, void *stream, void *to, uint8_t byte, size_t nbytes)
{
    return CUDA_CALL(device.index, "filling memory", cuMemsetD8Async(address(to), byte, nbytes, stream));
}

/* ---- streams */

static void *stream_new(td_device device, int priority)
{
    CUstream stream = NULL;
    return CUDA_CALL(device.index, "a new stream", cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, priority)) ? NULL : stream;
}

static void stream_free(td_device device, void *stream)
{
    CUDA_FREE(device.index, cuStreamDestroy_v2(stream));
}

static int stream_synchronize(td_device device, void *stream)
{
    return CUDA_CALL(device.index, "work of a stream", cuStreamSynchronize(stream));
}

static int synchronize(int index)
{
    return CUDA_CALL(index, "work of the device", cuCtxSynchronize());
}

/* ---- events */

static void *event_new(td_device device, bool timed)
{
    CUevent event = NULL;
    return CUDA_CALL(device.index, "a new event", cuEventCreate(&event, timed ? CU_EVENT_DEFAULT : CU_EVENT_DISABLE_TIMING)) ? NULL : event;
}

static void event_free(td_device device, void *event)
{
    CUDA_FREE(device.index, cuEventDestroy_v2(event));
}

static int event_record(td_device device, void *event, void *stream)
{
    return CUDA_CALL(device.index, "recording an event", cuEventRecord(event, stream));
}

/* The event may be another index's. */
static int event_wait(td_device device, void *event, void *stream)
{
    return CUDA_CALL(device.index, "waiting for an event", cuStreamWaitEvent(stream, event, 0));
}

static int event_synchronize(td_device device, void *event)
{
    return CUDA_CALL(device.index, "waiting for an event", cuEventSynchronize(event));
}

static int event_query(td_device device, void *event)
{
    CUresult status;
    if (cuda_enter(device.index))
        return -1;
    CUDA_UNRECORDED(status, cuEventQuery(event));
    return status == CUDA_ERROR_NOT_READY ? 0 : status == CUDA_SUCCESS ? 1 : cuda_failed("what an event stands behind", status);
}

static int event_time(td_device device, void *from, void *to, double *milliseconds)
{
    float time = 0;
    if (cuda_enter(device.index))
        return -1;
    CUDA_TRY("an event's time", cuEventElapsedTime(&time, from, to));
    *milliseconds = (double)time;
    return 0;
}

/* ---- programs: cuda_build is in nvrtc.c */

static void program_free(td_device device, void *program)
{
    CUDA_FREE(device.index, cuModuleUnload(program));
}

static void *kernel(td_device device, void *program, const char *name)
{
    CUfunction found = NULL;
    return CUDA_CALL(device.index, name, cuModuleGetFunction(&found, program, name)) ? NULL : found;
}

static int launch(td_device device, void *stream, void *kernel, int64_t groups, int lanes, int n_arguments, const td_kernel_argument *arguments)
{
    CUdeviceptr addresses[MOST_ARGUMENTS];
    void *values[MOST_ARGUMENTS];
    if (n_arguments > MOST_ARGUMENTS || groups < 1 || groups > INT_MAX)
        return td_error(TD_E_RUNTIME, "cuda: a kernel of %d arguments in %lld groups; there may be %d in %d", n_arguments, (long long)groups,
                        MOST_ARGUMENTS, INT_MAX);
    for (int i = 0; i < n_arguments; i++) {
        addresses[i] = address(arguments[i].data);
        values[i] = arguments[i].size ? (void *)(uintptr_t)arguments[i].data : &addresses[i];
    }
    return CUDA_CALL(device.index, "a kernel's launch", cuLaunchKernel(kernel, (unsigned)groups, 1, 1, (unsigned)lanes, 1, 1, 0, stream, values, NULL));
}

TD_EXPORT_DEVICE = {
    .abi = TD_DEVICE_ABI, .size = sizeof(td_device_library), .name = "cuda", .count = count, .alloc = alloc, .free = release, .copy = copy,
    .synchronize = synchronize, .properties = properties, .memory_info = memory_info, .host_alloc = host_alloc, .host_free = host_free,
    .stream_new = stream_new, .stream_free = stream_free, .stream_synchronize = stream_synchronize, .transfer = transfer, .fill = fill,
    .event_new = event_new, .event_free = event_free, .event_record = event_record, .event_wait = event_wait,
    .event_synchronize = event_synchronize, .event_query = event_query, .event_time = event_time, .build = cuda_build, .kernel = kernel,
    .launch = launch, .program_free = program_free, .product = cuda_product, .convolution = cuda_convolution,
    .library_version = cuda_library_version, .fft = cuda_fft, .factor = cuda_factor, .graph_begin = cuda_graph_begin, .graph_end = cuda_graph_end,
    .graph_launch = cuda_graph_launch, .graph_free = cuda_graph_free, .fused_product = cuda_fused_product,
    .attention = cuda_attention,
};
