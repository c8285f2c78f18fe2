/* Emitting events: how all layers notify the thread's watcher, the function that td_watch() registered (tede/trace.h). */
#ifndef TD_BASE_WATCH_H
#define TD_BASE_WATCH_H
#include <tede/trace.h>
#include "base/base.h"

typedef struct td_watch_state {
    td_watcher *watcher;
    void       *context;
} td_watch_state;
extern TD_TLS td_watch_state td_watch_now;

static inline bool td_watched(void) { return TD_UNLIKELY(td_watch_now.watcher != NULL); }
/* Fills in the time and passes the event to the watcher.  Only if td_watched(). */
void td_emit(td_trace_event *event);
/* The short forms for events of several sites. */
#define TD_EMIT(...)                                                                                                   \
    do {                                                                                                               \
        if (td_watched())                                                                                              \
            td_emit(&(td_trace_event){__VA_ARGS__});                                                                         \
    } while (0)

/* Begin or end watching on this thread: what belongs to base.  Allocations are events only while it is on. */
void td_watch_memory(bool on);
/* The instruction set that pointwise loops are looked up for, once td_cpu_isa has said; TD_ISAS: ask.  It is forgotten while
 * somebody watches. */
extern int td_isa_now;
/* Whether hidden copies are errors on this thread. */
extern TD_TLS bool td_strict_views;
/* How many threads are watched; loops that are looked up once for all are looked up each time while it isn't zero. */
extern int td_watched_threads;

#endif
