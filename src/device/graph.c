/* Graphs: what a stream is asked for, recorded by the device and launched as one, many times.
 *
 * While a stream records, nothing that it is asked for is done, so the rest of the core changes in four places:
 *
 * - memory comes from a pool of the graph's, where no other stream finds it (memory.c), and no event is asked about;
 * - a stream that waits for an event of the recording joins it (td_event_wait);
 * - kernels that note errors do so in the record of the stream that began, and whoever waits for a stream on which the graph was launched
 *   reads that one too (td_late_follow);
 * - random kernels read seed and offset from two words of the device's memory, to which they add their own: each launch advances the
 *   generator by what all of them take, and writes the words before.
 *
 * The addresses that were recorded must stay good, so the pool lives as long as a graph that has recorded in it. */
#include "device/device.h"
#include "device/follow.h"
#include "base/random.h"

#include <stdlib.h>
#include <string.h>

/* What a graph takes of a generator. */
typedef struct draws {
    struct draws *next;
    td_generator *generator;
    uint64_t      taken;
    void         *state;        /* seed and offset / 4 of the launch; the device's own, since in the graph's pool it would be written before that */
} draws;

struct td_graph {
    td_device  device;
    int64_t    refcount;
    uint64_t   pool, serial;
    td_stream *recorder, *last; /* that it was recorded on, and launched on last */
    void      *handle;          /* the device's, once it is recorded */
    draws     *draws;
    bool       recording, notes;
};

/* Pools that graphs use, by number. */
typedef struct owner { struct owner *next; uint64_t pool; int graphs; } owner;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static owner   *owners;
static uint64_t n_pools, n_recordings;

td_graph *td_graph_new(void)
{
    td_graph *graph = calloc(1, sizeof *graph);
    if (!graph)
        return td_fail(TD_E_MEMORY, "no memory for a graph");
    graph->refcount = 1;
    return graph;
}

uint64_t   td_graph_pool_new(void) { return __atomic_add_fetch(&n_pools, 1, __ATOMIC_RELAXED); }
uint64_t   td_graph_pool(const td_graph *graph) { return graph->pool; }
uint64_t   td_graph_serial(const td_graph *graph) { return graph->serial; }
td_stream *td_graph_stream(const td_graph *graph) { return graph->recorder; }
void       td_graph_notes(td_graph *graph) { graph->notes = true; }

static int enter_pool(uint64_t pool)
{
    pthread_mutex_lock(&lock);
    owner *o = owners;
    while (o && o->pool != pool)
        o = o->next;
    if (!o && (o = calloc(1, sizeof *o))) {
        *o = (owner){.next = owners, .pool = pool};
        owners = o;
    }
    if (o)
        o->graphs++;
    pthread_mutex_unlock(&lock);
    return o ? 0 : td_error(TD_E_MEMORY, "no memory for a graph's pool");
}

/* The last graph of a pool leaves its memory to everybody. */
static void leave_pool(td_device device, uint64_t pool)
{
    owner *left = NULL;
    pthread_mutex_lock(&lock);
    for (owner **at = &owners; *at && !left; at = left ? at : &(*at)->next)
        if ((*at)->pool == pool && --(*at)->graphs == 0) {
            left = *at;
            *at = left->next;
        }
    pthread_mutex_unlock(&lock);
    if (left)
        td_device_memory_disown(device, pool);
    free(left);
}

int td_graph_reset(td_graph *graph)
{
    const td_device device = graph->device;
    if (graph->recording)
        return td_error(TD_E_RUNTIME, "a graph is reset that records: end that first");
    if (!graph->pool)
        return 0;
    const int status = graph->last ? td_stream_drain(graph->last) : 0;
    if (graph->handle)
        td_device_of(device.type)->graph_free(device, graph->handle);
    for (draws *d = graph->draws, *next; d; d = next) {
        next = d->next;
        td_generator_release(d->generator);
        td_device_of(device.type)->free(device, d->state, 2 * sizeof(uint64_t));
        free(d);
    }
    leave_pool(device, graph->pool);
    *graph = (td_graph){.refcount = graph->refcount};
    return status;
}

void td_graph_release(td_graph *graph)
{
    if (!graph || __atomic_sub_fetch(&graph->refcount, 1, __ATOMIC_ACQ_REL))
        return;
    if (graph->recording && td_graph_end(graph))
        td_error_clear();
    if (td_graph_reset(graph))
        td_error_clear();
    free(graph);
}

int td_graph_begin(td_graph *graph, td_device device, uint64_t pool, td_graph_mode mode)
{
    td_stream *stream = td_stream_current(device);
    if (!stream)
        return -1;
    device = td_stream_device(stream);
    const td_device_library *library = td_device_of(device.type);
    if (!library->graph_begin)
        return td_error(TD_E_RUNTIME, "%s: this device doesn't record graphs", library->name);
    if (graph->pool)
        return td_error(TD_E_RUNTIME, "This CUDAGraph instance already owns a captured graph. To capture a new graph, create a new instance.");
    if (td_stream_id(stream) == 0)
        return td_error(TD_E_RUNTIME, "CUDA graphs must be captured on a non-default stream. (However, after capture, it's ok to replay them on the default "
                        "stream.)");
    if (td_stream_is_recording(stream))
        return td_error(TD_E_RUNTIME, "the stream records another graph");
    pool = pool ? pool : td_graph_pool_new();
    /* The record is made before, so that it isn't cleared by each launch. */
    if ((library->launch && !td_late_record(stream)) || enter_pool(pool))
        return -1;
    graph->device = device, graph->pool = pool, graph->recorder = stream, graph->recording = true;
    graph->serial = __atomic_add_fetch(&n_recordings, 1, __ATOMIC_RELAXED);
    td_device_memory_recording(device, 1);
    if (td_stream_settle(stream) || library->graph_begin(device, td_stream_raw(stream), mode)) {
        graph->recording = false;
        td_device_memory_recording(device, -1);
        leave_pool(device, pool);
        *graph = (td_graph){.refcount = graph->refcount};
        return -1;
    }
    td_stream_set_graph(stream, graph);
    return 0;
}

int td_graph_end(td_graph *graph)
{
    if (!graph->recording)
        return td_error(TD_E_RUNTIME, "capture_end: this graph isn't being captured");
    const td_device device = graph->device;
    for (td_stream *s = td_stream_first(device); s; s = td_stream_next(s))
        if (td_stream_graph(s) == graph)
            td_stream_set_graph(s, NULL);
    graph->handle = td_device_of(device.type)->graph_end(device, td_stream_raw(graph->recorder));
    graph->recording = false;
    td_device_memory_recording(device, -1);
    return graph->handle ? 0 : td_error_code() == TD_OK ? td_error(TD_E_RUNTIME, "%s: no graph, for no reason given", td_device_name(device.type)) : -1;
}

/* ---- random numbers */

int td_graph_reserve(td_device device, td_generator *g, uint64_t n, uint64_t *seed, uint64_t *offset, void **state)
{
    td_stream *stream = td_stream_current(device);
    td_graph *graph = stream ? td_stream_graph(stream) : NULL;
    draws *d = graph ? graph->draws : NULL;
    *state = NULL;
    if (!graph)
        return stream ? td_stream_reserve(stream, g, n, seed, offset, state) : -1;
    while (d && d->generator != g)
        d = d->next;
    if (!d) {
        if (td_random_reserve(g, 0, seed, offset))      /* that it is a device's */
            return -1;
        if (!(d = calloc(1, sizeof *d)) || !(d->state = td_device_of(device.type)->alloc(td_stream_device(stream), 2 * sizeof(uint64_t)))) {
            free(d);
            return td_error_code() == TD_OK ? td_error(TD_E_MEMORY, "no memory for a graph's generators") : -1;
        }
        d->generator = td_generator_retain(g);
        d->next = graph->draws;
        graph->draws = d;
    }
    *seed = 0, *offset = d->taken, *state = d->state;
    d->taken += n;
    return 0;
}

int td_stream_put_words(td_stream *stream, void *to, const uint64_t *words)
{
    const td_device device = td_stream_device(stream);
    const td_device_library *library = td_device_of(device.type);
    const size_t bytes = 2 * sizeof *words;
    uint64_t *pinned = library->host_alloc ? td_pinned_new(device, bytes) : NULL;
    if (!pinned && library->host_alloc)
        return -1;
    if (pinned)
        memcpy(pinned, words, bytes);
    int status = td_stream_settle(stream) ||
                 library->transfer(device, td_stream_raw(stream), device, to, (td_device){TD_CPU, -1}, pinned ? pinned : words, bytes, pinned != NULL) ? -1 : 0;
    status = pinned && td_pinned_used_on(pinned, stream) ? -1 : status;
    if (pinned)
        td_pinned_free(pinned);
    return status && td_error_code() == TD_OK ? td_error(TD_E_RUNTIME, "%s: a generator's state can't be set, for no reason given", library->name) : status;
}

static int set_state(td_stream *stream, const draws *d)
{
    uint64_t seed, offset;
    return td_random_reserve(d->generator, d->taken, &seed, &offset) ? -1 : td_stream_put_words(stream, d->state, (uint64_t[]){seed, offset / 4});
}

/* A launch comes after the one before it, whose memory it uses. */
int td_graph_launch(td_graph *graph)
{
    if (!graph->handle)
        return td_error(TD_E_RUNTIME, "Called CUDAGraph::replay without a preceding successful capture.");
    td_stream *stream = td_stream_current(graph->device);
    if (!stream || (graph->last && td_stream_wait(stream, graph->last)))
        return -1;
    for (draws *d = graph->draws; d; d = d->next)
        if (set_state(stream, d))
            return -1;
    if (td_stream_settle(stream) || td_device_of(graph->device.type)->graph_launch(graph->device, td_stream_raw(stream), graph->handle))
        return -1;
    graph->last = stream;
    if (graph->notes)
        td_late_follow(stream, graph->recorder);
    return 0;
}
