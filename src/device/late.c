/* Errors that kernels find, raised where the CPU waits for the device anyway.
 *
 * An index is read by the kernel that uses it, long after the call; looking at indices before would wait for the device at each call.  So a kernel
 * that meets a bad one leaves it out and notes it in its stream's record, the first one alone.  The record is read by whatever waits for the
 * stream and has had kernels that may note something since: then it costs a copy of 32 bytes more, else nothing.  It is cleared when its
 * error is raised, so that each is raised once and the device stays usable.
 *
 * Notes of several threads that share a stream, written while one of them reads the record, may be lost behind the error that is raised. */
#include "device/device.h"
#include "device/follow.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what errors say: numbered, since what a kernel can write is never taken for an address */

typedef struct late_kind { td_code code; const char *op, *text; int dim; } late_kind;
enum { KINDS = 1024 };
static late_kind       kinds[KINDS + 1] = {{TD_E_INDEX, "an operator", NULL, 0}};       /* the first stands for those that have no room */
static int             n_kinds = 1;
static pthread_mutex_t kinds_lock = PTHREAD_MUTEX_INITIALIZER;

int td_late_kind(td_code code, const char *op, const char *text, int dim)
{
    int at = 1;
    pthread_mutex_lock(&kinds_lock);
    while (at < n_kinds && (kinds[at].op != op || kinds[at].text != text || kinds[at].dim != dim || kinds[at].code != code))
        at++;
    if (at == n_kinds && n_kinds <= KINDS)
        kinds[n_kinds++] = (late_kind){code, op, text, dim};
    pthread_mutex_unlock(&kinds_lock);
    return 1 + (at <= KINDS ? at : 0);
}

static int raise(td_device device, const int64_t *record)
{
    const int64_t kind = record[TD_LATE_KIND] - 1;
    const late_kind *k = &kinds[kind >= 0 && kind < __atomic_load_n(&n_kinds, __ATOMIC_ACQUIRE) ? kind : 0];
    const long long index = record[TD_LATE_INDEX], size = record[TD_LATE_SIZE];
    char text[256], name[32];
    if (k->text)
        snprintf(text, sizeof text, k->text, index, size);
    else
        snprintf(text, sizeof text, "index %lld is out of bounds for dimension %d with size %lld", index, k->dim, size);
    return td_error(k->code, "%s (in %s, which %s ran before this call)", text, k->op, td_device_str(device, name));
}

/* ---- records */

static int clear(td_stream *stream, void *record)
{
    static const int64_t zeros[TD_LATE_WORDS];
    const td_device device = td_stream_device(stream);
    const td_device_library *library = td_device_of(device.type);
    if (td_stream_settle(stream))
        return -1;
    if (library->fill)
        return library->fill(device, td_stream_raw(stream), record, 0, sizeof zeros);
    return library->transfer ? library->transfer(device, td_stream_raw(stream), device, record, (td_device){TD_CPU, -1}, zeros, sizeof zeros, false)
                             : library->copy(device, record, (td_device){TD_CPU, -1}, zeros, sizeof zeros);
}

static int64_t *seen_new(const td_device_library *library)
{
    const size_t size = TD_LATE_WORDS * sizeof(int64_t);
    int64_t *made = library->host_alloc ? library->host_alloc(size) : malloc(size);
    if (!made && td_error_code() == TD_OK)
        td_error(TD_E_MEMORY, "no memory for a record of errors");
    return made;
}

/* Whose record kernels use that the stream is asked for: within a graph there is one. */
static td_stream *home(td_stream *stream)
{
    td_graph *graph = td_stream_graph(stream);
    return graph ? td_graph_stream(graph) : stream;
}

/* It stays for ever, as its stream does, and isn't counted as a tensor's memory. */
void *td_late_record(td_stream *stream)
{
    stream = home(stream);
    td_late *late = td_stream_late(stream);
    void *record = __atomic_load_n(&late->record, __ATOMIC_ACQUIRE);
    if (record)
        return record;
    const td_device device = td_stream_device(stream);
    const td_device_library *library = td_device_of(device.type);
    pthread_mutex_lock(&late->lock);
    if (!late->record && (late->seen || (late->seen = seen_new(library)))) {
        record = library->alloc(device, TD_LATE_WORDS * sizeof(int64_t));
        if (record && clear(stream, record)) {
            library->free(device, record, TD_LATE_WORDS * sizeof(int64_t));
            record = NULL;
        }
        __atomic_store_n(&late->record, record, __ATOMIC_RELEASE);
    }
    record = late->record;
    pthread_mutex_unlock(&late->lock);
    if (!record && td_error_code() == TD_OK)
        td_error(TD_E_MEMORY, "%s: no memory for a record of errors", library->name);
    return record;
}

void td_late_arm(td_stream *stream)
{
    td_graph *graph = td_stream_graph(stream);
    if (graph)
        td_graph_notes(graph);
    else
        __atomic_store_n(&td_stream_late(stream)->armed, true, __ATOMIC_RELEASE);
}

/* Recorders are few, and a stream is in the chain once. */
void td_late_follow(td_stream *stream, td_stream *recorder)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    td_late_arm(recorder);
    pthread_mutex_lock(&lock);
    while (stream != recorder && td_stream_late(stream)->also)
        stream = td_stream_late(stream)->also;
    if (stream != recorder)
        __atomic_store_n(&td_stream_late(stream)->also, recorder, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&lock);
}

/* Asks for a copy of the record; the CPU's end is as long-lived as the stream. */
static int read_record(td_stream *stream, int64_t *to)
{
    const td_device device = td_stream_device(stream);
    const td_device_library *library = td_device_of(device.type);
    const void *record = td_stream_late(stream)->record;
    if (td_stream_settle(stream))
        return -1;
    return library->transfer ? library->transfer(device, td_stream_raw(stream), (td_device){TD_CPU, -1}, to, device, record,
                                                 TD_LATE_WORDS * sizeof *to, true)
                             : library->copy((td_device){TD_CPU, -1}, to, device, record, TD_LATE_WORDS * sizeof *to);
}

int td_late_begin(td_stream *stream, bool *reading)
{
    td_late *late = td_stream_late(stream);
    *reading = false;
    if (!__atomic_load_n(&late->armed, __ATOMIC_ACQUIRE) || td_stream_graph(stream))
        return 0;
    pthread_mutex_lock(&late->lock);
    if (__atomic_exchange_n(&late->armed, false, __ATOMIC_ACQ_REL)) {
        *reading = true;
        if (read_record(stream, late->seen) == 0)
            return 0;
        *reading = false;
        td_late_arm(stream);
        pthread_mutex_unlock(&late->lock);
        return -1;
    }
    pthread_mutex_unlock(&late->lock);
    return 0;
}

int td_late_end(td_stream *stream, bool waited, bool reading, int status)
{
    td_late *late = td_stream_late(stream);
    if (reading && status)
        td_late_arm(stream);
    else if (reading && late->seen[TD_LATE_TAKEN])
        status = clear(stream, late->record) ? -1 : raise(td_stream_device(stream), late->seen);
    if (reading)
        pthread_mutex_unlock(&late->lock);
    if (!waited || status || !__atomic_load_n(&late->also, __ATOMIC_ACQUIRE))
        return status;
    td_stream *also = __atomic_exchange_n(&late->also, NULL, __ATOMIC_ACQ_REL);
    if (also)
        td_late_arm(also);
    return also ? td_stream_synchronize(also) : 0;
}

/* ---- events: a copy of the record as it was there, so that nothing later is waited for where there is no error */

int td_late_snapshot(td_stream *stream, int64_t **seen)
{
    const td_device device = td_stream_device(stream);
    const size_t size = TD_LATE_WORDS * sizeof **seen;
    const bool pinned = td_device_of(device.type)->host_alloc != NULL;
    if (*seen)
        (*seen)[TD_LATE_TAKEN] = 0;
    if (!__atomic_load_n(&td_stream_late(stream)->armed, __ATOMIC_ACQUIRE) || td_stream_graph(stream))
        return 0;
    if (!*seen && !(*seen = pinned ? td_pinned_new(device, size) : malloc(size)))
        return td_error_code() != TD_OK ? -1 : td_error(TD_E_MEMORY, "no memory for an event's record of errors");
    return (pinned && td_pinned_used_on(*seen, stream)) || read_record(stream, *seen) ? -1 : 0;
}

void td_late_forget(td_device device, int64_t *seen)
{
    if (seen && td_device_of(device.type)->host_alloc)
        td_pinned_free(seen);
    else
        free(seen);
}
