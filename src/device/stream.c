/* Streams and events: queues of a device's work, and places in them.
 *
 * A stream that nobody holds any more is parked, not freed, and the next one that is made takes its place.  So memory that was
 * freed in the order of a stream stays reusable, and there are as many streams as were ever held at a time.
 *
 * A device whose library has no streams has one, on which `synchronize` waits for everything. */
#include "device/chosen.h"
#include "device/device.h"
#include "device/follow.h"

#include <pthread.h>
#include <stdlib.h>

struct td_stream {
    td_device  device;
    int        priority;
    int64_t    id;
    void      *handle;
    int64_t    refcount;
    td_stream *next;            /* of those of its device */
    td_graph  *graph;           /* that it records */
    td_late    late;
    td_following following;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static td_stream      *firsts[TD_DEVICE_TYPES];         /* an array by index */

static _Thread_local td_chosen chosen;

td_chosen td_streams_chosen(void) { return chosen; }
void      td_streams_choose(const td_chosen *streams) { chosen = *streams; }

/* In memory that is cleared. */
static void set_up(td_stream *s, td_device device, int priority, int64_t id)
{
    pthread_mutexattr_t recursive;
    *s = (td_stream){.device = device, .priority = priority, .id = id, .refcount = 1, .late = {.lock = PTHREAD_MUTEX_INITIALIZER}};
    pthread_mutexattr_init(&recursive);
    pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&s->following.lock, &recursive);
    pthread_mutexattr_destroy(&recursive);
}

int td_streams_prepare(int type, int count)
{
    td_stream *made = calloc((size_t)count, sizeof *made);
    if (!made)
        return td_error(TD_E_MEMORY, "no memory for a device's streams");
    for (int i = 0; i < count; i++)
        set_up(&made[i], (td_device){(int8_t)type, (int8_t)i}, 0, 0);
    __atomic_store_n(&firsts[type], made, __ATOMIC_RELEASE);
    return 0;
}

td_stream *td_stream_first(td_device device)
{
    if (device.type <= TD_META)
        return td_fail(TD_E_VALUE, "a stream belongs to a device from outside, not to %s", td_device_name(device.type));
    return td_device_resolve(&device) ? NULL : &__atomic_load_n(&firsts[device.type], __ATOMIC_ACQUIRE)[device.index];
}

td_stream *td_stream_current(td_device device)
{
    td_stream *first = td_stream_first(device);
    for (int i = 0; first && i < chosen.count; i++)
        if (chosen.streams[i]->device.type == first->device.type && chosen.streams[i]->device.index == first->device.index)
            return chosen.streams[i];
    return first;
}

int td_stream_set_current(td_stream *stream)
{
    int at = 0;
    while (at < chosen.count && (chosen.streams[at]->device.type != stream->device.type || chosen.streams[at]->device.index != stream->device.index))
        at++;
    if (at == TD_MOST_CHOSEN)
        return td_error(TD_E_RUNTIME, "a thread chooses streams of at most %d devices", TD_MOST_CHOSEN);
    chosen.streams[at] = stream;
    chosen.count += at == chosen.count;
    return 0;
}

td_stream *td_stream_new(td_device device, int priority)
{
    td_stream *first = td_stream_first(device), *found = NULL, *last = first;
    if (!first)
        return NULL;
    const td_device_library *library = td_device_of(first->device.type);
    if (!library->stream_new)
        return td_stream_retain(first);
    pthread_mutex_lock(&lock);
    for (td_stream *s = first->next; s; last = s, s = s->next)
        if (!found && s->priority == priority && __atomic_load_n(&s->refcount, __ATOMIC_ACQUIRE) == 0)
            found = s;
    if (found) {
        __atomic_store_n(&found->refcount, 1, __ATOMIC_RELAXED);
    } else if (!(found = calloc(1, sizeof *found))) {
        td_error(TD_E_MEMORY, "no memory for a stream");
    } else {
        set_up(found, first->device, priority, last->id + 1);
        found->handle = library->stream_new(first->device, priority);
        if (found->handle) {
            __atomic_store_n(&last->next, found, __ATOMIC_RELEASE);
        } else {
            free(found);
            found = NULL;
            if (td_error_code() == TD_OK)
                td_error(TD_E_RUNTIME, "%s: no new stream, for no reason given", library->name);
        }
    }
    pthread_mutex_unlock(&lock);
    return found;
}

td_stream *td_stream_retain(td_stream *stream)
{
    if (stream)
        __atomic_fetch_add(&stream->refcount, 1, __ATOMIC_RELAXED);
    return stream;
}

void td_stream_release(td_stream *stream)
{
    if (stream)
        __atomic_fetch_sub(&stream->refcount, 1, __ATOMIC_ACQ_REL);
}

/* Streams are only ever added, at the end. */
td_stream *td_stream_next(const td_stream *stream) { return __atomic_load_n(&stream->next, __ATOMIC_ACQUIRE); }

td_device td_stream_device(const td_stream *stream) { return stream->device; }
int64_t   td_stream_id(const td_stream *stream) { return stream->id; }
int       td_stream_priority(const td_stream *stream) { return stream->priority; }
void     *td_stream_raw(const td_stream *stream) { return stream->handle; }
td_late  *td_stream_late(td_stream *stream) { return &stream->late; }
td_following *td_stream_following(td_stream *stream) { return &stream->following; }

td_graph *td_stream_graph(const td_stream *stream) { return __atomic_load_n(&stream->graph, __ATOMIC_ACQUIRE); }
void      td_stream_set_graph(td_stream *stream, td_graph *graph) { __atomic_store_n(&stream->graph, graph, __ATOMIC_RELEASE); }
bool      td_stream_is_recording(td_stream *stream) { return td_stream_graph(stream) != NULL; }

int td_stream_drain(td_stream *stream)
{
    const td_device_library *library = td_device_of(stream->device.type);
    if (td_stream_settle(stream))
        return -1;
    return library->stream_synchronize ? library->stream_synchronize(stream->device, stream->handle)
         : library->synchronize ? library->synchronize(stream->device.index) : 0;
}

int td_stream_synchronize(td_stream *stream)
{
    bool reading;
    return td_late_begin(stream, &reading) ? -1 : td_late_end(stream, true, reading, td_stream_drain(stream));
}

/* All streams of it: what each has noted is raised by one call after the other. */
int td_device_synchronize(td_device device)
{
    if (td_device_resolve(&device))
        return -1;
    const td_device_library *library = td_device_of(device.type);
    int status = library && td_device_settle(device) ? -1 : library && library->synchronize ? library->synchronize(device.index) : 0;
    for (td_stream *s = library ? td_stream_first(device) : NULL; s && status == 0; s = td_stream_next(s))
        if (__atomic_load_n(&s->late.armed, __ATOMIC_ACQUIRE))
            status = td_stream_synchronize(s);
    return status;
}

int td_stream_query(td_stream *stream)
{
    td_event *event = td_event_new(stream->device, false);
    int status = !event || td_event_mark(event, stream) ? -1 : td_event_query(event);
    td_event_release(event);
    return status;
}

int td_stream_wait(td_stream *stream, td_stream *other)
{
    if (stream == other)
        return 0;
    td_event *event = td_event_new(other->device, false);
    int status = !event || td_event_mark(event, other) || td_event_wait(event, stream) ? -1 : 0;
    td_event_release(event);
    return status;
}

/* ---- events */

struct td_event {
    td_device  device;
    void      *handle;          /* made when it is first recorded */
    bool       timed;
    int64_t   *seen;            /* what kernels had noted there (td_late_snapshot) */
    td_stream *stream;          /* that it was recorded on last */
    td_stream *marked;          /* the same, of the core's own waits, too */
    uint64_t   serial;          /* of the graph that recorded it; 0 */
};

td_event *td_event_new(td_device device, bool timed)
{
    td_stream *first = td_stream_first(device);
    td_event *event = first ? td_mem_alloc(sizeof *event) : NULL;
    if (event)
        *event = (td_event){.device = first->device, .timed = timed};
    return event;
}

void td_event_release(td_event *event)
{
    if (!event)
        return;
    if (event->handle)
        td_device_of(event->device.type)->event_free(event->device, event->handle);
    td_late_forget(event->device, event->seen);
    td_mem_free(event, sizeof *event);
}

int td_event_mark(td_event *event, td_stream *stream)
{
    const td_device_library *library = td_device_of(event->device.type);
    if (!event->handle && stream->device.type == event->device.type)
        event->device = stream->device;
    if (stream->device.type != event->device.type || stream->device.index != event->device.index) {
        char a[32], b[32];
        return td_error(TD_E_RUNTIME, "Event device %s does not match recording stream's device %s.", td_device_str(event->device, a),
                        td_device_str(stream->device, b));
    }
    if (!library->event_new)
        return td_stream_drain(stream);
    if (td_stream_settle(stream))
        return -1;
    if (!event->handle && !(event->handle = library->event_new(event->device, event->timed)))
        return td_error_code() == TD_OK ? td_error(TD_E_RUNTIME, "%s: no new event, for no reason given", library->name) : -1;
    td_graph *graph = td_stream_graph(stream);
    event->marked = stream;
    event->serial = graph ? td_graph_serial(graph) : 0;
    return library->event_record(event->device, event->handle, stream->handle);
}

int td_event_record(td_event *event, td_stream *stream)
{
    if (stream->device.type == event->device.type && td_late_snapshot(stream, &event->seen))
        return -1;
    event->stream = stream;
    return td_event_mark(event, stream);
}

/* A stream of another device can't be made to wait: the CPU does. */
int td_event_wait(td_event *event, td_stream *stream)
{
    if (!event->handle)
        return 0;
    if (stream->device.type != event->device.type)
        return td_event_synchronize(event);
    if (td_stream_settle(stream) || td_device_of(event->device.type)->event_wait(stream->device, event->handle, stream->handle))
        return -1;
    /* The stream joins a recording that has the event. */
    td_graph *graph = event->serial ? td_stream_graph(event->marked) : NULL;
    if (graph && td_graph_serial(graph) == event->serial)
        td_stream_set_graph(stream, graph);
    return 0;
}

int td_event_drain(td_event *event)
{
    return event->handle ? td_device_of(event->device.type)->event_synchronize(event->device, event->handle) : 0;
}

/* What has been noted may have been raised meanwhile: the stream knows, which is waited for only then. */
int td_event_synchronize(td_event *event)
{
    const int status = td_event_drain(event);
    return status == 0 && event->seen && event->seen[TD_LATE_TAKEN] ? td_stream_synchronize(event->stream) : status;
}

int td_event_query(td_event *event)
{
    return event->handle ? td_device_of(event->device.type)->event_query(event->device, event->handle) : 1;
}

int td_event_time(td_event *from, td_event *to, double *milliseconds)
{
    if (!from->timed || !to->timed)
        return td_error(TD_E_VALUE, "Both events must be created with argument 'enable_timing=True'.");
    if (!from->handle || !to->handle)
        return td_error(TD_E_VALUE, "Both events must be recorded before calculating elapsed time.");
    if (td_event_query(from) != 1 || td_event_query(to) != 1)
        return td_error_code() != TD_OK ? -1 : td_error(TD_E_RUNTIME, "Both events must be completed before calculating elapsed time.");
    return td_device_of(from->device.type)->event_time(from->device, from->handle, to->handle, milliseconds);
}
