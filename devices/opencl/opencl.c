/* OpenCL as a device: "opencl:0" and so on are the OpenCL 1.2 devices of all platforms, in their order.  TEDE_OPENCL_PARTS=n divides each
 * into n devices of as many compute units, where it can be divided.
 *
 *     cc -shared -fPIC opencl.c api.c -o opencl.so $(python -m tede.config --cflags --libs)
 *
 * and in Python tede.load_device("./opencl.so").  Built against tede's installed headers only; kernels come from the core.
 *
 * OpenCL 1.2 has no addresses that the CPU could compute with.  So a block has an address in a range that is reserved and can't be
 * read, and each use looks up the block that an address lies in: a buffer and an offset.  The core asks for few large blocks, so the
 * table is a short sorted array.
 *
 * A stream is an in-order queue.  Errors of a queue are met by the next call that waits. */
#include "api.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <tede/device.h>
#include <tede/formula.h>
#include <unistd.h>

enum { MOST = 32 };
static struct index { cl_device_id device; cl_context context; cl_command_queue first; size_t allocated; } indices[MOST];
static int n_indices;
static struct queue { struct queue *next; cl_command_queue handle; int index; } *queues;       /* besides the first ones */
static pthread_mutex_t queueing = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t enumerating = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t launching = PTHREAD_MUTEX_INITIALIZER;   /* a kernel's arguments are set one by one */
static pthread_mutex_t building = PTHREAD_MUTEX_INITIALIZER;
static pthread_t       leaver;                                  /* the thread that ends the process, once `leaving` */
static bool            leaving;
static pid_t           owner;                                   /* the process that enumerated the devices */

static int failed(const char *what, cl_int status)
{
    const bool memory = status == CL_MEM_OBJECT_ALLOCATION_FAILURE || status == CL_OUT_OF_HOST_MEMORY || status == CL_INVALID_BUFFER_SIZE;
    if (memory)
        return td_error(TD_E_MEMORY, "opencl: %s: out of memory (%s)", what, opencl_error(status));
    return td_error(TD_E_RUNTIME, "opencl: %s failed: %s (%d)", what, opencl_error(status), (int)status);
}
#define TRY(what, call) do { cl_int status_ = (call); if (status_ != CL_SUCCESS) return failed(what, status_); } while (0)

/* ---- what there is */

static void add_index(cl_device_id device)
{
    cl_int status;
    struct index found = {.device = device};
    found.context = clCreateContext(NULL, 1, &device, NULL, NULL, &status);
    if (status != CL_SUCCESS || n_indices == MOST)
        return;
    found.first = clCreateCommandQueue(found.context, device, CL_QUEUE_PROFILING_ENABLE, &status);
    if (status == CL_SUCCESS)
        indices[n_indices++] = found;
    else
        clReleaseContext(found.context);
}

/* A device, or its parts. */
static void add_device(cl_device_id device)
{
    const char *asked = getenv("TEDE_OPENCL_PARTS");
    const int parts = asked ? atoi(asked) : 1;
    cl_uint units = 0, n = 0;
    cl_device_id divided[MOST];
    if (parts > 1 && parts <= MOST && clGetDeviceInfo(device, CL_DEVICE_MAX_COMPUTE_UNITS, sizeof units, &units, NULL) == CL_SUCCESS &&
        units >= (cl_uint)parts) {
        const cl_device_partition_property equally[] = {CL_DEVICE_PARTITION_EQUALLY, (cl_device_partition_property)(units / (cl_uint)parts), 0};
        if (clCreateSubDevices(device, equally, MOST, divided, &n) != CL_SUCCESS)
            n = 0;
    }
    for (cl_uint i = 0; i < n && i < (cl_uint)parts; i++)
        add_index(divided[i]);
    if (n == 0)
        add_index(device);
}

static void enumerate(void)
{
    cl_platform_id platforms[MOST];
    cl_device_id devices[MOST];
    cl_uint n_platforms = 0, n_devices;
    if (clGetPlatformIDs(MOST, platforms, &n_platforms) != CL_SUCCESS)
        return;
    for (cl_uint p = 0; p < n_platforms && p < MOST; p++)
        if (clGetDeviceIDs(platforms[p], CL_DEVICE_TYPE_ALL, MOST, devices, &n_devices) == CL_SUCCESS)
            for (cl_uint d = 0; d < n_devices && d < MOST; d++)
                add_device(devices[d]);
}

static void leave(void);

/* Looked for until something is found. */
static int count(void)
{
    pthread_mutex_lock(&enumerating);
    const bool open = n_indices || opencl_open() == 0;
    if (open && !n_indices) {
        enumerate();
        owner = getpid();
        if (n_indices)
            atexit(leave);
        else
            td_error(TD_E_RUNTIME, "opencl: there is no OpenCL device; on Debian, pocl-opencl-icd is one that is the CPU");
    }
    pthread_mutex_unlock(&enumerating);
    return n_indices;
}

static int properties(int index, td_device_properties *p)
{
    cl_device_id device = indices[index].device;
    cl_uint units = 1;
    cl_ulong memory = 0, shared = 0;
    size_t group = 1;
    cl_device_fp_config doubles = 0;
    cl_bool unified = CL_FALSE;
    TRY("reading a device's name", clGetDeviceInfo(device, CL_DEVICE_NAME, sizeof p->name, p->name, NULL));
    TRY("reading a driver's version", clGetDeviceInfo(device, CL_DRIVER_VERSION, sizeof p->driver, p->driver, NULL));
    TRY("reading properties", clGetDeviceInfo(device, CL_DEVICE_MAX_COMPUTE_UNITS, sizeof units, &units, NULL));
    TRY("reading properties", clGetDeviceInfo(device, CL_DEVICE_GLOBAL_MEM_SIZE, sizeof memory, &memory, NULL));
    TRY("reading properties", clGetDeviceInfo(device, CL_DEVICE_LOCAL_MEM_SIZE, sizeof shared, &shared, NULL));
    TRY("reading properties", clGetDeviceInfo(device, CL_DEVICE_MAX_WORK_GROUP_SIZE, sizeof group, &group, NULL));
    TRY("reading properties", clGetDeviceInfo(device, CL_DEVICE_DOUBLE_FP_CONFIG, sizeof doubles, &doubles, NULL));
    TRY("reading properties", clGetDeviceInfo(device, CL_DEVICE_HOST_UNIFIED_MEMORY, sizeof unified, &unified, NULL));
    p->units = (int)units;
    p->memory = memory;
    p->shared = (size_t)shared;
    p->doubles = doubles != 0;
    p->unified = unified;
    p->dialect = TD_DIALECT_OPENCL;
    p->lanes = 1;
    while (p->lanes < 256 && (size_t)p->lanes * 2 <= group)
        p->lanes *= 2;
    return 0;
}

/* ---- memory: blocks by address, in order */

typedef struct block { char *start; size_t bytes; cl_mem buffer; } block;
static block *blocks;
static size_t n_blocks, capacity;
static pthread_mutex_t blocks_lock = PTHREAD_MUTEX_INITIALIZER;

/* How many blocks start at or below an address. */
static size_t below(const char *at)
{
    size_t low = 0, high = n_blocks;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (blocks[middle].start <= at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static int find(const void *at, cl_mem *buffer, size_t *offset)
{
    pthread_mutex_lock(&blocks_lock);
    size_t i = below(at);
    bool good = i > 0 && (const char *)at <= blocks[i - 1].start + blocks[i - 1].bytes;
    if (good) {
        *buffer = blocks[i - 1].buffer;
        *offset = (size_t)((const char *)at - blocks[i - 1].start);
    }
    pthread_mutex_unlock(&blocks_lock);
    return good ? 0 : td_error(TD_E_RUNTIME, "opencl: %p is no address of the device's", at);
}

static void *alloc(td_device device, size_t nbytes)
{
    cl_int status;
    cl_mem buffer = clCreateBuffer(indices[device.index].context, CL_MEM_READ_WRITE, nbytes, NULL, &status);
    if (status != CL_SUCCESS)
        return failed("an allocation", status), NULL;
    char *start = mmap(NULL, nbytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    pthread_mutex_lock(&blocks_lock);
    block *bigger = n_blocks < capacity ? blocks : realloc(blocks, (capacity + 64) * sizeof *blocks);
    bool good = start != MAP_FAILED && bigger;
    if (bigger) {
        capacity = n_blocks < capacity ? capacity : capacity + 64;
        blocks = bigger;
    }
    if (good) {
        size_t at = below(start);
        memmove(blocks + at + 1, blocks + at, (n_blocks - at) * sizeof *blocks);
        blocks[at] = (block){start, nbytes, buffer};
        n_blocks++;
        indices[device.index].allocated += nbytes;
    }
    pthread_mutex_unlock(&blocks_lock);
    if (good)
        return start;
    clReleaseMemObject(buffer);
    if (start != MAP_FAILED)
        munmap(start, nbytes);
    return td_fail(TD_E_MEMORY, "opencl: no addresses for %zu bytes", nbytes);
}

static void release(td_device device, void *start, size_t nbytes)
{
    cl_mem buffer = NULL;
    pthread_mutex_lock(&blocks_lock);
    size_t i = below(start);
    if (i > 0 && blocks[i - 1].start == (char *)start) {
        buffer = blocks[i - 1].buffer;
        memmove(blocks + i - 1, blocks + i, (n_blocks - i) * sizeof *blocks);
        n_blocks--;
        indices[device.index].allocated -= nbytes;
    }
    pthread_mutex_unlock(&blocks_lock);
    if (buffer) {
        clReleaseMemObject(buffer);
        munmap(start, nbytes);
    }
}

/* OpenCL doesn't say what others have taken. */
static int memory_info(int index, size_t *unused, size_t *total)
{
    cl_ulong memory = 0;
    TRY("reading properties", clGetDeviceInfo(indices[index].device, CL_DEVICE_GLOBAL_MEM_SIZE, sizeof memory, &memory, NULL));
    pthread_mutex_lock(&blocks_lock);
    *total = (size_t)memory;
    *unused = indices[index].allocated < *total ? *total - indices[index].allocated : 0;
    pthread_mutex_unlock(&blocks_lock);
    return 0;
}

/* Any memory that stays may be read and written later.  Whole pages need no copies of their ends; what page-locking there is, is
 * the driver's. */
static void *host_alloc(size_t nbytes)
{
    void *block = NULL;
    return posix_memalign(&block, 4096, nbytes) == 0 ? block : td_fail(TD_E_MEMORY, "opencl: no memory for %zu bytes", nbytes);
}
static void host_free(void *block, size_t nbytes)
{
    (void)nbytes;
    free(block);
}

/* ---- streams */

static cl_command_queue queue_of(td_device device, void *stream) { return stream ? (cl_command_queue)stream : indices[device.index].first; }

static void *stream_new(td_device device, int priority)
{
    (void)priority;
    cl_int status;
    struct index *i = &indices[device.index];
    struct queue *q = malloc(sizeof *q);
    if (!q)
        return td_fail(TD_E_MEMORY, "opencl: no memory for a queue");
    q->index = device.index;
    q->handle = clCreateCommandQueue(i->context, i->device, CL_QUEUE_PROFILING_ENABLE, &status);
    if (status != CL_SUCCESS) {
        free(q);
        failed("a new queue", status);
        return NULL;
    }
    pthread_mutex_lock(&queueing);
    q->next = queues, queues = q;
    pthread_mutex_unlock(&queueing);
    return q->handle;
}
static void stream_free(td_device device, void *stream)
{
    (void)device;
    pthread_mutex_lock(&queueing);
    struct queue **at = &queues;
    while ((*at)->handle != (cl_command_queue)stream)
        at = &(*at)->next;
    struct queue *q = *at;
    *at = q->next;
    pthread_mutex_unlock(&queueing);
    clReleaseCommandQueue(q->handle);
    free(q);
}
static int stream_synchronize(td_device device, void *stream)
{
    TRY("work of a queue", clFinish(queue_of(device, stream)));
    return 0;
}
static int synchronize(int index)
{
    cl_int status = clFinish(indices[index].first);
    pthread_mutex_lock(&queueing);
    for (const struct queue *q = queues; q && status == CL_SUCCESS; q = q->next)
        if (q->index == index)
            status = clFinish(q->handle);
    pthread_mutex_unlock(&queueing);
    TRY("work of a queue", status);
    return 0;
}

/* Before the destructors of the device's library run, which were registered earlier.  PoCL compiles a kernel for its groups when it first runs, on a
 * thread of its own, by an LLVM that those destructors take apart: so the queues are finished, and nothing is launched or built any more.  A
 * child of fork() has none of the threads that it would wait for. */
static void leave(void)
{
    if (getpid() != owner)
        return;
    pthread_mutex_lock(&building);
    pthread_mutex_lock(&launching);
    leaver = pthread_self();
    leaving = true;
    pthread_mutex_unlock(&launching);
    pthread_mutex_unlock(&building);
    for (int i = 0; i < n_indices; i++)
        if (synchronize(i))
            td_error_clear();
}

/* Locks, unless the process is ending: -1 with an error in the thread that ends it, and the others stop here. */
static int enter(pthread_mutex_t *lock)
{
    pthread_mutex_lock(lock);
    if (!leaving)
        return 0;
    pthread_mutex_unlock(lock);
    while (!pthread_equal(pthread_self(), leaver))
        pause();
    return td_error(TD_E_RUNTIME, "opencl: the process is ending");
}

/* Between two devices, whose contexts don't share buffers, by way of the CPU. */
static int across(td_device to_device, cl_command_queue queue, void *to, td_device from_device, const void *from, size_t nbytes)
{
    cl_mem source, target;
    size_t source_at, target_at;
    void *between = malloc(nbytes);
    if (!between)
        return td_error(TD_E_MEMORY, "opencl: no memory for %zu bytes on their way from one device to another", nbytes);
    (void)to_device;
    cl_int status = find(from, &source, &source_at) || find(to, &target, &target_at) ? CL_INVALID_MEM_OBJECT
                  : clEnqueueReadBuffer(indices[from_device.index].first, source, CL_TRUE, source_at, nbytes, between, 0, NULL, NULL);
    if (status == CL_SUCCESS)
        status = clEnqueueWriteBuffer(queue, target, CL_TRUE, target_at, nbytes, between, 0, NULL, NULL);
    free(between);
    TRY("a copy between devices", status);
    return 0;
}

static int transfer(td_device device, void *stream, td_device to_device, void *to, td_device from_device, const void *from, size_t nbytes,
                    bool later)
{
    cl_command_queue queue = queue_of(device, stream);
    cl_mem source, target;
    size_t source_at, target_at;
    const cl_bool wait = !later;
    const bool to_here = to_device.type == device.type, from_here = from_device.type == device.type;
    if (to_here && from_here && to_device.index != from_device.index)
        return across(to_device, queue, to, from_device, from, nbytes);
    if ((from_here && find(from, &source, &source_at)) || (to_here && find(to, &target, &target_at)))
        return -1;
    if (!from_here)
        TRY("a copy to the device", clEnqueueWriteBuffer(queue, target, wait, target_at, nbytes, from, 0, NULL, NULL));
    else if (!to_here)
        TRY("a copy from the device", clEnqueueReadBuffer(queue, source, wait, source_at, nbytes, to, 0, NULL, NULL));
    else
        TRY("a copy", clEnqueueCopyBuffer(queue, source, target, source_at, target_at, nbytes, 0, NULL, NULL));
    return 0;
}
static int copy(td_device to_device, void *to, td_device from_device, const void *from, size_t nbytes)
{
    td_device device = to_device.type != TD_CPU ? to_device : from_device;
    return transfer(device, NULL, to_device, to, from_device, from, nbytes, false);
}

static int fill(td_device device, void *stream, void *to, uint8_t byte, size_t nbytes)
{
    cl_mem target;
    size_t at;
    if (find(to, &target, &at))
        return -1;
    TRY("filling memory", clEnqueueFillBuffer(queue_of(device, stream), target, &byte, 1, at, nbytes, 0, NULL, NULL));
    return 0;
}

/* ---- events: a marker of a queue, held in a record since recording again takes another one */

typedef struct event { cl_event marker; } event;

static void *event_new(td_device device, bool timed)
{
    (void)device, (void)timed;
    event *e = calloc(1, sizeof *e);
    if (!e)
        td_error(TD_E_MEMORY, "opencl: no memory for an event");
    return e;
}
static void event_free(td_device device, void *which)
{
    (void)device;
    event *e = which;
    if (e->marker)
        clReleaseEvent(e->marker);
    free(e);
}
static int event_record(td_device device, void *which, void *stream)
{
    event *e = which;
    cl_event marker;
    TRY("recording an event", clEnqueueMarkerWithWaitList(queue_of(device, stream), 0, NULL, &marker));
    if (e->marker)
        clReleaseEvent(e->marker);
    e->marker = marker;
    TRY("recording an event", clFlush(queue_of(device, stream)));
    return 0;
}
static int event_wait(td_device device, void *which, void *stream)
{
    event *e = which;
    cl_context of;
    if (!e->marker)
        return 0;
    TRY("waiting for an event", clGetEventInfo(e->marker, CL_EVENT_CONTEXT, sizeof of, &of, NULL));
    if (of == indices[device.index].context)
        TRY("waiting for an event", clEnqueueBarrierWithWaitList(queue_of(device, stream), 1, &e->marker, NULL));
    else
        TRY("waiting for an event", clWaitForEvents(1, &e->marker));
    return 0;
}
static int event_synchronize(td_device device, void *which)
{
    (void)device;
    event *e = which;
    if (e->marker)
        TRY("waiting for an event", clWaitForEvents(1, &e->marker));
    return 0;
}
static int event_query(td_device device, void *which)
{
    (void)device;
    event *e = which;
    cl_int state = CL_COMPLETE;
    if (e->marker)
        TRY("looking at an event", clGetEventInfo(e->marker, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL));
    return state < 0 ? failed("work of a queue", state) : state == CL_COMPLETE;
}
static int event_time(td_device device, void *from, void *to, double *milliseconds)
{
    (void)device;
    cl_ulong start, end;
    TRY("an event's time", clGetEventProfilingInfo(((event *)from)->marker, CL_PROFILING_COMMAND_END, sizeof start, &start, NULL));
    TRY("an event's time", clGetEventProfilingInfo(((event *)to)->marker, CL_PROFILING_COMMAND_END, sizeof end, &end, NULL));
    *milliseconds = ((double)end - (double)start) / 1e6;
    return 0;
}

/* ---- programs */

static void program_free(td_device device, void *program)
{
    (void)device;
    clReleaseProgram((cl_program)program);
}

static int keep_binary(cl_program program, td_binary *binary)
{
    size_t size = 0;
    if (clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof size, &size, NULL) != CL_SUCCESS || !size || !(binary->data = malloc(size)))
        return 0;
    binary->size = size;
    unsigned char *data = binary->data;
    if (clGetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof data, &data, NULL) == CL_SUCCESS)
        return 0;
    free(binary->data);
    binary->data = NULL;
    return 0;
}

static void *build(td_device device, const char *source, const char *options, td_binary *binary)
{
    struct index *i = &indices[device.index];
    cl_int status;
    const bool again = binary->data != NULL;
    const unsigned char *data = binary->data;
    cl_program program = again ? clCreateProgramWithBinary(i->context, 1, &i->device, &binary->size, &data, NULL, &status)
                               : clCreateProgramWithSource(i->context, 1, &source, NULL, &status);
    if (status != CL_SUCCESS)
        return again ? NULL : (failed("a program", status), NULL);
    if (enter(&building))
        return clReleaseProgram(program), NULL;
    status = clBuildProgram(program, 1, &i->device, options, NULL, NULL);
    pthread_mutex_unlock(&building);
    if (status == CL_SUCCESS) {
        if (!again)
            keep_binary(program, binary);
        return program;
    }
    char log[1500] = "";
    if (!again) {
        clGetProgramBuildInfo(program, i->device, CL_PROGRAM_BUILD_LOG, sizeof log - 1, log, NULL);
        td_error(TD_E_RUNTIME, "opencl: a program doesn't compile (error %d): %s", (int)status, log);
    }
    clReleaseProgram(program);
    return NULL;
}

/* A kernel that the device can't run is refused here, by what it lacks; a launch would only say that it failed. */
static void *kernel(td_device device, void *program, const char *name)
{
    cl_int status;
    cl_ulong needed = 0, local = 0;
    cl_device_id where = indices[device.index].device;
    cl_kernel found = clCreateKernel((cl_program)program, name, &status);
    if (status != CL_SUCCESS)
        return failed(name, status), NULL;
    if (clGetKernelWorkGroupInfo(found, where, CL_KERNEL_LOCAL_MEM_SIZE, sizeof needed, &needed, NULL) != CL_SUCCESS ||
        clGetDeviceInfo(where, CL_DEVICE_LOCAL_MEM_SIZE, sizeof local, &local, NULL) != CL_SUCCESS || needed <= local)
        return found;
    clReleaseKernel(found);
    return td_fail(TD_E_RUNTIME, "opencl: kernel %s needs %llu bytes of local memory, the device has %llu", name, (unsigned long long)needed,
                   (unsigned long long)local);
}

static int set_arguments(cl_kernel kernel, int n, const td_kernel_argument *arguments)
{
    cl_uint at = 0;
    for (int i = 0; i < n; i++) {
        cl_mem buffer;
        size_t offset;
        if (arguments[i].size) {
            TRY("a kernel's argument", clSetKernelArg(kernel, at++, arguments[i].size, arguments[i].data));
        } else {
            if (find(arguments[i].data, &buffer, &offset))
                return -1;
            TRY("a kernel's argument", clSetKernelArg(kernel, at++, sizeof buffer, &buffer));
            TRY("a kernel's argument", clSetKernelArg(kernel, at++, sizeof(cl_long), &(cl_long){(cl_long)offset}));
        }
    }
    return 0;
}

static int launch(td_device device, void *stream, void *kernel, int64_t groups, int lanes, int n_arguments, const td_kernel_argument *arguments)
{
    size_t local = (size_t)lanes, global = (size_t)groups * local;
    if (enter(&launching))
        return -1;
    int status = set_arguments(kernel, n_arguments, arguments);
    cl_int launched = status ? CL_SUCCESS : clEnqueueNDRangeKernel(queue_of(device, stream), kernel, 1, NULL, &global, &local, 0, NULL, NULL);
    pthread_mutex_unlock(&launching);
    if (status)
        return status;
    TRY("a kernel's launch", launched);
    return 0;
}

TD_EXPORT_DEVICE = {
    .abi = TD_DEVICE_ABI, .size = sizeof(td_device_library), .name = "opencl", .count = count, .alloc = alloc, .free = release, .copy = copy,
    .synchronize = synchronize, .properties = properties, .memory_info = memory_info, .host_alloc = host_alloc, .host_free = host_free, .stream_new = stream_new,
    .stream_free = stream_free, .stream_synchronize = stream_synchronize, .transfer = transfer, .fill = fill, .event_new = event_new, .event_free = event_free,
    .event_record = event_record, .event_wait = event_wait, .event_synchronize = event_synchronize, .event_query = event_query,
    .event_time = event_time, .build = build, .kernel = kernel, .launch = launch, .program_free = program_free,
};
