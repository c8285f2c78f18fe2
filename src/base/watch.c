/* One watcher per thread, which gets no events while it handles one: what it does isn't news. */
#include "base/watch.h"

#include <time.h>

TD_TLS td_watch_state td_watch_now;
TD_TLS bool td_strict_views;
int td_watched_threads;
int td_isa_now = TD_ISAS;

bool td_set_strict_views(bool on)
{
    bool before = td_strict_views;
    td_strict_views = on;
    return before;
}

int64_t td_nanoseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

void td_emit(td_trace_event *event)
{
    td_watch_state state = td_watch_now;
    event->time = td_nanoseconds();
    td_watch_now.watcher = NULL;
    td_watch_memory(false);
    state.watcher(event, state.context);
    td_watch_memory(true);
    td_watch_now = state;
}
