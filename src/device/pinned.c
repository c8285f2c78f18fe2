/* Page-locked memory of the CPU, from which a device copies by itself while the CPU goes on.
 *
 * Locking pages is slow, so blocks are kept by powers of two.  A block that a copy on a stream used is reused once an event behind that
 * copy has happened. */
#include "device/device.h"

#include <pthread.h>
#include <stdlib.h>

typedef struct pinned {
    struct pinned *next;        /* in the table while it is live, else among its size's */
    void          *start;
    int            power, type;
    td_stream     *stream;      /* the last that used it; or NULL */
    td_event      *event;       /* when it is free: behind that use */
} pinned;

enum { SMALLEST = 12, POWERS = 48, BUCKETS = 1024 };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pinned *unused[POWERS], *live[BUCKETS];

static pinned **bucket(const void *start) { return &live[((uintptr_t)start >> SMALLEST) * 0x9E3779B97F4A7C15u >> 54]; }

/* Whether what used a free block is done; another stream's is waited for only if `wait`. */
static bool settled(pinned *b, bool wait)
{
    if (!b->event)
        return true;
    int done = wait ? (td_event_drain(b->event) ? -1 : 1) : td_event_query(b->event);
    if (done < 0)
        td_error_clear();
    if (done == 0)
        return false;
    td_event_release(b->event);
    b->event = NULL;
    return true;
}

void *td_pinned_new(td_device device, size_t nbytes)
{
    const td_device_library *library = td_device_of(device.type);
    int power = nbytes <= (size_t)1 << SMALLEST ? SMALLEST : 64 - __builtin_clzll(nbytes - 1);
    if (power >= POWERS)
        return td_fail(TD_E_MEMORY, "no page-locked memory for %zu bytes", nbytes);
    pthread_mutex_lock(&lock);
    pinned *b = NULL;
    for (pinned **at = &unused[power]; *at && !b; at = b ? at : &(*at)->next)
        if ((*at)->type == device.type && settled(*at, false)) {
            b = *at;
            *at = b->next;
        }
    if (!b && (b = calloc(1, sizeof *b))) {
        *b = (pinned){.start = library->host_alloc((size_t)1 << power), .power = power, .type = device.type};
        if (!b->start) {
            free(b);
            b = NULL;
        }
    }
    if (b) {
        pinned **at = bucket(b->start);
        b->stream = NULL;
        b->next = *at;
        *at = b;
    }
    pthread_mutex_unlock(&lock);
    return b ? b->start : td_error_code() != TD_OK ? NULL : td_fail(TD_E_MEMORY, "%s: no page-locked memory for %zu bytes", library->name, nbytes);
}

static pinned **find(const void *start)
{
    pinned **at = bucket(start);
    while (*at && (*at)->start != start)
        at = &(*at)->next;
    return at;
}

void td_pinned_free(void *start)
{
    pthread_mutex_lock(&lock);
    pinned **at = find(start), *b = *at;
    if (b)
        *at = b->next;
    pthread_mutex_unlock(&lock);
    if (!b)
        return;
    if (b->stream && (!(b->event = td_event_new(td_stream_device(b->stream), false)) || td_event_mark(b->event, b->stream))) {
        td_error_clear();
        if (td_stream_drain(b->stream))
            td_error_clear();
    }
    pthread_mutex_lock(&lock);
    b->next = unused[b->power];
    unused[b->power] = b;
    pthread_mutex_unlock(&lock);
}

/* A second stream makes the first one wait for nothing: its work is waited for here, which is rare. */
int td_pinned_used_on(void *start, td_stream *stream)
{
    td_stream *before = NULL;
    pthread_mutex_lock(&lock);
    pinned *b = *find(start);
    if (b) {
        before = b->stream;
        b->stream = stream;
    }
    pthread_mutex_unlock(&lock);
    return before && before != stream ? td_stream_drain(before) : 0;
}

void td_pinned_empty_cache(void)
{
    pthread_mutex_lock(&lock);
    for (int power = 0; power < POWERS; power++)
        for (pinned *b = unused[power], *next; b; b = next) {
            next = b->next;
            settled(b, true);
            td_device_of(b->type)->host_free(b->start, (size_t)1 << b->power);
            free(b);
            unused[power] = next;
        }
    pthread_mutex_unlock(&lock);
}
