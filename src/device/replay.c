/* What streams are asked for again and again, launched as graphs: see <tede/replay.h>.
 *
 * Note [Replays]
 * A function's Python runs at every call, so what a device is asked for is known when it has been. But mostly it is
 * what it was the last time, at the same addresses, since blocks that are taken and freed in the same order are the
 * same blocks. So a stream that is followed has a log: each kernel's launch, fill, copy within the device and call
 * of a vendor's library, with all that it was passed, as bytes. As long as a log is what an earlier one begins with
 * that has come SEEN times, nothing is asked of the device; when it is complete its graph is launched instead, which
 * is recorded first if there is none. Otherwise what was kept back is asked for then, call by call. Nothing is
 * compared but bytes: what is launched is what was asked for now, and so no address needs to be kept alive.
 *
 * What a graph can't hold (waiting, events, copies from and to the CPU, another's use of the stream's handle) ends a
 * log, and the next one begins: a function has a row of them, and for each place in it some that have come, since
 * Python may go another way.
 *
 * Random kernels read seed and offset from two words that are written in front of the log, and add to them what the
 * log has drawn so far: so they are asked for with the same numbers each time, as in graph.c. A second generator,
 * or one that was set meanwhile, begins another log.
 *
 * What a vendor's function returns is known before it is called: what it returned for these bytes. If it turns out
 * otherwise, that is an error.
 *
 * A stream's lock is held while the device is asked for what was kept back, which may take memory: so it is never
 * taken by who holds the lock of a device's memory, or of page-locked memory. */
#include "device/chosen.h"
#include "device/follow.h"
#include "base/random.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tede/replay.h>

enum { SEEN = 2, LEAST = 2, MOST = 32, PLACES = 64, MOST_BYTES = 16 << 20, MOST_ARGUMENTS = 64 };

/* Calls one behind the other: how long, of which kind, and what it was passed. */
typedef struct log {
    char   *bytes;
    int8_t *results;
    size_t  used, room;
    int     n, n_room;
} log;
typedef struct head { uint32_t bytes, kind; } head;
typedef struct launched { void *kernel; int64_t groups, lanes, n; } launched;
typedef struct moved { void *to; const void *from; int64_t bytes, byte; } moved;

/* A log that has come, at one place in the row. */
typedef struct variant {
    struct variant *next;
    log             log;
    int             place, runs;
    td_graph       *graph;
    bool            spoiled;        /* it can't be recorded */
} variant;

struct td_follower {
    td_follower  *next;
    td_stream    *stream, *side;    /* that graphs are recorded on */
    variant      *variants;         /* what came last in front */
    int           n_variants, place;
    bool          off, asking;
    log           now;
    variant      *expected;         /* begins with what there is of `now` */
    td_generator *generator;        /* that `now` has drawn from; NULL */
    uint64_t      words[2], next_offset;
    uint64_t     *states;           /* the device's: two words for each place */
    bool          written;          /* those of this log are */
    td_code       failed;           /* where nobody could be told */
    char          why[256];
};
struct td_replay { td_follower *followers; bool begun; };

static td_replay_stats stats;
#define COUNT(field, n) __atomic_fetch_add(&stats.field, (uint64_t)(n), __ATOMIC_RELAXED)
td_replay_stats td_replay_counts(void) { return stats; }

/* ---- requests */

static int ask(td_stream *stream, const td_request *r)
{
    const td_device device = td_stream_device(stream);
    const td_device_library *library = td_device_of(device.type);
    void *handle = td_stream_raw(stream);
    switch (r->kind) {
    case TD_ASK_LAUNCH: return library->launch(device, handle, r->target, r->count, r->lanes, r->n, r->arguments);
    case TD_ASK_FILL: return library->fill(device, handle, r->target, (uint8_t)r->n, (size_t)r->count);
    case TD_ASK_COPY:
        return library->transfer(device, handle, device, r->target, device, r->of, (size_t)r->count, true);
    case TD_ASK_PRODUCT: return library->product(device, handle, r->of);
    case TD_ASK_FUSED_PRODUCT: return library->fused_product(device, handle, r->of);
    case TD_ASK_CONVOLUTION: return library->convolution(device, handle, r->of);
    case TD_ASK_ATTENTION: return library->attention(device, handle, r->of);
    case TD_ASK_FFT: return library->fft(device, handle, r->of);
    default: return library->factor(device, handle, r->of);
    }
}

static size_t size_of_call(td_request_kind kind)
{
    return kind == TD_ASK_PRODUCT ? sizeof(td_product) : kind == TD_ASK_FUSED_PRODUCT ? sizeof(td_fused_product)
         : kind == TD_ASK_CONVOLUTION ? sizeof(td_convolution_call)
         : kind == TD_ASK_ATTENTION ? sizeof(td_attention_call) : kind == TD_ASK_FFT ? sizeof(td_fft_call) : sizeof(td_factor_call);
}

static size_t whole_words(size_t bytes) { return (bytes + 7) & ~(size_t)7; }
static size_t bytes_of(const td_request *r)
{
    size_t bytes = sizeof(head);
    if (r->kind == TD_ASK_LAUNCH) {
        bytes += sizeof(launched);
        for (int i = 0; i < r->n; i++)
            bytes += sizeof(size_t) + (r->arguments[i].size ? whole_words(r->arguments[i].size) : sizeof(void *));
        return bytes;
    }
    const bool moves = r->kind == TD_ASK_FILL || r->kind == TD_ASK_COPY;
    return bytes + (moves ? sizeof(moved) : whole_words(size_of_call(r->kind)));
}

static int make_room(log *l, size_t bytes)
{
    if (l->used + bytes > l->room) {
        const size_t room = 2 * l->room + bytes + 4096;
        char *more = realloc(l->bytes, room);
        if (!more)
            return -1;
        l->bytes = more, l->room = room;
    }
    if (l->n == l->n_room) {
        int8_t *more = realloc(l->results, (size_t)(2 * l->n_room + 64));
        if (!more)
            return -1;
        l->results = more, l->n_room = 2 * l->n_room + 64;
    }
    return 0;
}

static void put(log *l, const void *data, size_t bytes)
{
    memset(l->bytes + l->used, 0, whole_words(bytes));
    memcpy(l->bytes + l->used, data, bytes);
    l->used += whole_words(bytes);
}

static int append(log *l, const td_request *r)
{
    const size_t bytes = bytes_of(r);
    if (l->used + bytes > MOST_BYTES || (r->kind == TD_ASK_LAUNCH && r->n > MOST_ARGUMENTS) || make_room(l, bytes))
        return -1;
    put(l, &(head){(uint32_t)bytes, (uint32_t)r->kind}, sizeof(head));
    if (r->kind == TD_ASK_LAUNCH) {
        put(l, &(launched){r->target, r->count, r->lanes, r->n}, sizeof(launched));
        for (int i = 0; i < r->n; i++) {
            const td_kernel_argument *a = &r->arguments[i];
            put(l, &a->size, sizeof a->size);
            put(l, a->size ? a->data : (const void *)&a->data, a->size ? a->size : sizeof a->data);
        }
    } else if (r->kind == TD_ASK_FILL || r->kind == TD_ASK_COPY) {
        put(l, &(moved){r->target, r->of, r->count, r->n}, sizeof(moved));
    } else {
        put(l, r->of, size_of_call(r->kind));
    }
    l->results[l->n++] = 0;
    return 0;
}

/* The call at `at`, which is advanced. */
static td_request read_call(const char **at, td_kernel_argument *arguments)
{
    const head *h = (const head *)(const void *)*at;
    const char *data = *at + sizeof *h;
    td_request r = {.kind = (td_request_kind)h->kind, .of = data};
    *at += h->bytes;
    if (r.kind == TD_ASK_LAUNCH) {
        const launched *l = (const launched *)(const void *)data;
        r.target = l->kernel, r.count = l->groups, r.lanes = (int)l->lanes, r.n = (int)l->n, r.arguments = arguments;
        data += sizeof *l;
        for (int i = 0; i < r.n; i++) {
            size_t size;
            memcpy(&size, data, sizeof size);
            data += sizeof size;
            arguments[i] = (td_kernel_argument){data, size};
            if (!size)                  /* memory of the device: its address is what was noted */
                arguments[i].data = *(void *const *)(const void *)data;
            data += size ? whole_words(size) : sizeof(void *);
        }
    } else if (r.kind == TD_ASK_FILL || r.kind == TD_ASK_COPY) {
        const moved *m = (const moved *)(const void *)data;
        r.target = m->to, r.of = m->from, r.count = m->bytes, r.n = (int)m->byte;
    }
    return r;
}

/* All of a log, on a stream. */
static int ask_log(const log *l, td_stream *stream)
{
    td_kernel_argument arguments[MOST_ARGUMENTS];
    const char *at = l->bytes;
    for (int i = 0; i < l->n; i++) {
        const td_request r = read_call(&at, arguments);
        const int status = l->results[i] == 1 ? 1 : ask(stream, &r);        /* what was declined did nothing */
        if (status < 0)
            return -1;
        if (status != l->results[i])
            return td_error(TD_E_RUNTIME, "%s: a vendor's library declines a call that it took before",
                            td_device_name(td_stream_device(stream).type));
    }
    return 0;
}

/* Whether the variant begins with what there is of `now`; up to `from` it does. */
static bool begins_with(const variant *v, const td_follower *f, size_t from)
{
    return v->place == f->place && v->log.used >= f->now.used &&
           !memcmp(v->log.bytes + from, f->now.bytes + from, f->now.used - from);
}
static bool is_expected(const variant *v) { return v && v->runs >= SEEN && !v->spoiled && v->log.n >= LEAST; }

static variant *find(const td_follower *f)
{
    variant *found = NULL;
    for (variant *v = f->variants; v && !is_expected(found); v = v->next)
        if ((is_expected(v) || !found) && begins_with(v, f, 0))
            found = v;
    return found;
}

/* ---- the end of a log */

static bool keeps(const td_follower *f) { return td_stream_following(f->stream)->keeps; }
static void keep(td_follower *f, bool on)
{
    __atomic_store_n(&td_stream_following(f->stream)->keeps, on, __ATOMIC_RELEASE);
}

static void *state_of(const td_follower *f) { return f->states + 2 * f->place; }
static int write_words(td_follower *f)
{
    if (!f->generator || f->written)
        return 0;
    f->written = true;
    return td_stream_put_words(f->stream, state_of(f), f->words);
}

static int ask_now(td_follower *f)
{
    const int status = write_words(f) || ask_log(&f->now, f->stream) ? -1 : 0;
    keep(f, false);
    return status;
}

/* On a stream of its own, since the first one can't be. The thread's other calls that the driver takes for unsafe
 * are allowed: a library's first call on the stream may allocate. */
static int record(td_follower *f, variant *v)
{
    const td_chosen chosen = td_streams_chosen();
    int status = f->side || (f->side = td_stream_new(td_stream_device(f->stream), 0)) ? 0 : -1;
    td_graph *graph = status ? NULL : td_graph_new();
    if (graph && !td_stream_set_current(f->side)) {
        status = td_graph_begin(graph, td_stream_device(f->stream), 0, TD_GRAPH_RELAXED);
        if (status == 0) {
            status = ask_log(&v->log, f->side);
            status = td_graph_end(graph) || status ? -1 : 0;
        }
    }
    td_streams_choose(&chosen);
    if (graph && status == 0) {
        v->graph = graph;
        COUNT(graphs, 1);
        return 0;
    }
    td_graph_release(graph);
    td_error_clear();
    v->spoiled = true;
    return -1;
}

static int launch(td_follower *f, variant *v)
{
    if (!v->graph && record(f, v))
        return ask_now(f);
    const td_chosen chosen = td_streams_chosen();
    const int status = write_words(f) || td_stream_set_current(f->stream) || td_graph_launch(v->graph) ? -1 : 0;
    td_streams_choose(&chosen);
    keep(f, false);
    COUNT(launches, status == 0);
    COUNT(calls, status == 0 ? v->log.n : 0);
    return status;
}

static void free_variant(variant *v)
{
    td_graph_release(v->graph);
    free(v->log.bytes);
    free(v->log.results);
    free(v);
}

static void to_front(td_follower *f, variant *v)
{
    variant **at = &f->variants;
    while (*at != v)
        at = &(*at)->next;
    *at = v->next;
    v->next = f->variants;
    f->variants = v;
    v->runs++;
}

/* The log was asked for call by call. */
static void remember(td_follower *f)
{
    for (variant *v = f->variants; v; v = v->next)
        if (v->log.used == f->now.used && begins_with(v, f, 0) &&
            !memcmp(v->log.results, f->now.results, (size_t)f->now.n))
            return to_front(f, v);
    if (f->n_variants == MOST) {
        variant **last = &f->variants;
        while ((*last)->next)
            last = &(*last)->next;
        free_variant(*last);
        *last = NULL;
        f->n_variants--;
    }
    variant *v = malloc(sizeof *v);
    if (!v)
        return;
    *v = (variant){.next = f->variants, .log = f->now, .place = f->place, .runs = 1};
    f->now = (log){0};
    f->variants = v;
    f->n_variants++;
}

static int end_log(td_follower *f)
{
    int status = 0;
    f->asking = true;
    if (keeps(f) && f->expected->log.used == f->now.used) {
        to_front(f, f->expected);
        status = launch(f, f->expected);
    } else if (f->now.n) {
        status = keeps(f) ? ask_now(f) : 0;
        if (status == 0)
            remember(f);
    }
    /* A kernel may have drawn that is asked for in the next log. */
    status = status || write_words(f) ? -1 : 0;
    f->asking = false;
    f->place++;
    f->now.used = 0, f->now.n = 0;
    f->expected = NULL;
    td_generator_release(f->generator);
    f->generator = NULL;
    return status;
}

static int settle(td_follower *f)
{
    const int status = f->asking || !(f->now.n || f->generator) ? 0 : end_log(f);
    if (status && td_error_code() == TD_OK)
        td_error(TD_E_RUNTIME, "%s: what was kept back failed, for no reason given",
                 td_device_name(td_stream_device(f->stream).type));
    return status;
}

/* ---- what a stream is asked for */

static int follow(td_follower *f, const td_request *r)
{
    if (f->asking || f->off || td_stream_graph(f->stream))
        return ask(f->stream, r);
    const bool first = f->now.n == 0;
    const size_t before = f->now.used;
    if (append(&f->now, r)) {                   /* too long: not followed any more */
        const int status = settle(f);
        f->off = true;
        return status ? -1 : ask(f->stream, r);
    }
    const int last = f->now.n - 1;
    if (first || (f->expected && !begins_with(f->expected, f, before)))
        f->expected = find(f);
    if (first)
        keep(f, is_expected(f->expected));
    if (keeps(f) && is_expected(f->expected))
        return f->now.results[last] = f->expected->log.results[last];
    f->asking = true;
    int status = 0;
    if (keeps(f)) {         /* all but the last, whose result isn't known */
        const size_t used = f->now.used;
        f->now.n--, f->now.used = before;
        status = ask_now(f);
        f->now.n++, f->now.used = used;
    }
    status = status || write_words(f) ? -1 : ask(f->stream, r);
    f->asking = false;
    f->now.results[last] = (int8_t)status;
    if (status < 0) {       /* nothing is kept back any more, and it isn't to come again */
        f->now.n = 0, f->now.used = 0;
        f->off = true;
    }
    return status;
}

/* The stream's follower, with the lock held; NULL without it. */
static td_follower *take(td_stream *stream)
{
    td_following *of = td_stream_following(stream);
    if (!__atomic_load_n(&of->follower, __ATOMIC_ACQUIRE))
        return NULL;
    pthread_mutex_lock(&of->lock);
    if (!of->follower)
        pthread_mutex_unlock(&of->lock);
    return of->follower;
}
static void put_back(td_stream *stream) { pthread_mutex_unlock(&td_stream_following(stream)->lock); }

int td_stream_ask(td_stream *stream, const td_request *request)
{
    td_follower *f = take(stream);
    if (!f)
        return ask(stream, request);
    const int status = follow(f, request);
    put_back(stream);
    return status;
}

int td_stream_settle(td_stream *stream)
{
    td_follower *f = take(stream);
    if (!f)
        return 0;
    const int status = settle(f);
    put_back(stream);
    return status;
}

int td_device_settle(td_device device)
{
    for (td_stream *s = td_stream_first(device); s; s = td_stream_next(s))
        if (td_stream_settle(s))
            return -1;
    return 0;
}

/* Whoever has the handle may ask for anything, now and later: nothing is kept back any more. */
void *td_stream_handle(const td_stream *stream)
{
    td_stream *asked = (td_stream *)stream;
    td_follower *f = take(asked);
    if (!f)
        return td_stream_raw(stream);
    if (settle(f)) {
        f->failed = td_error_code();
        snprintf(f->why, sizeof f->why, "%s", td_error_message());
        td_error_clear();
    }
    f->off = true;
    put_back(asked);
    return td_stream_raw(stream);
}

static int reserve(td_follower *f, td_generator *g, uint64_t n, uint64_t *seed, uint64_t *offset, void **state)
{
    const td_device device = td_stream_device(f->stream);
    *state = NULL;
    if (td_random_reserve(g, n, seed, offset))
        return -1;
    if (f->asking || f->off || td_stream_graph(f->stream))
        return 0;
    if (f->generator && (f->generator != g || f->words[0] != *seed || f->next_offset != *offset) && settle(f))
        return -1;
    if (f->place >= PLACES)
        return 0;
    if (!f->states && !(f->states = td_device_of(device.type)->alloc(device, PLACES * sizeof f->words)))
        return td_error_code() == TD_OK ? td_error(TD_E_MEMORY, "no memory for a generator's state") : -1;
    if (!f->generator) {
        f->generator = td_generator_retain(g);
        f->words[0] = *seed, f->words[1] = *offset / 4, f->written = false;
    }
    f->next_offset = *offset + n;
    *offset -= 4 * f->words[1], *seed = 0, *state = state_of(f);
    return 0;
}

int td_stream_reserve(td_stream *stream, td_generator *g, uint64_t n, uint64_t *seed, uint64_t *offset, void **state)
{
    td_follower *f = take(stream);
    if (!f)
        return td_random_reserve(g, n, seed, offset);
    const int status = reserve(f, g, n, seed, offset, state);
    put_back(stream);
    return status;
}

/* ---- from begin to end */

td_replay *td_replay_new(void)
{
    td_replay *replay = calloc(1, sizeof *replay);
    if (!replay)
        return td_fail(TD_E_MEMORY, "no memory for a replay");
    return replay;
}

static td_follower *follower_of(td_replay *replay, td_stream *stream)
{
    td_follower *f = replay->followers;
    while (f && f->stream != stream)
        f = f->next;
    if (f || !(f = calloc(1, sizeof *f)))
        return f ? f : td_fail(TD_E_MEMORY, "no memory to follow a stream");
    f->stream = td_stream_retain(stream);
    f->next = replay->followers;
    return replay->followers = f;
}

static int attach(td_replay *replay, td_stream *stream)
{
    td_following *of = td_stream_following(stream);
    td_follower *f = follower_of(replay, stream);
    if (!f)
        return -1;
    pthread_mutex_lock(&of->lock);
    if (!of->follower && !td_stream_graph(stream)) {
        f->place = 0;
        f->off = false;
        f->failed = TD_OK;
        __atomic_store_n(&of->follower, f, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&of->lock);
    return 0;
}

int td_replay_begin(td_replay *replay)
{
    if (__atomic_exchange_n(&replay->begun, true, __ATOMIC_ACQUIRE))
        return 1;
    for (int type = TD_META + 1; type < TD_DEVICE_TYPES; type++) {
        const td_device_library *library = td_device_of(type);
        const bool followed = library && library->graph_begin && library->launch && library->transfer;
        for (int i = 0; followed && i < td_device_count(type); i++) {
            td_stream *stream = td_stream_current((td_device){(int8_t)type, (int8_t)i});
            if (!stream || attach(replay, stream)) {
                if (td_replay_end(replay))
                    td_error_clear();
                return -1;
            }
        }
    }
    return 0;
}

int td_replay_end(td_replay *replay)
{
    int status = 0;
    for (td_follower *f = replay->followers; f; f = f->next) {
        td_following *of = td_stream_following(f->stream);
        pthread_mutex_lock(&of->lock);
        if (of->follower == f) {
            status = settle(f) ? -1 : f->failed != TD_OK ? td_error(f->failed, "%s", f->why) : status;
            __atomic_store_n(&of->follower, NULL, __ATOMIC_RELEASE);
        }
        pthread_mutex_unlock(&of->lock);
    }
    __atomic_store_n(&replay->begun, false, __ATOMIC_RELEASE);
    return status;
}

void td_replay_release(td_replay *replay)
{
    if (!replay)
        return;
    if (td_replay_end(replay))
        td_error_clear();
    for (td_follower *f = replay->followers, *next; f; f = next) {
        const td_device device = td_stream_device(f->stream);
        next = f->next;
        if (td_stream_drain(f->stream))
            td_error_clear();
        for (variant *v = f->variants, *after; v; v = after) {
            after = v->next;
            free_variant(v);
        }
        if (f->states)
            td_device_of(device.type)->free(device, f->states, PLACES * sizeof f->words);
        td_stream_release(f->side);
        td_stream_release(f->stream);
        free(f->now.bytes);
        free(f->now.results);
        free(f);
    }
    free(replay);
}
