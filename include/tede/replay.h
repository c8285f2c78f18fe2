/* tede/replay.h: work of devices that comes again, launched as graphs.
 *
 * Between td_replay_begin and td_replay_end the streams that are current are followed. What they are asked for
 * twice, the same kernels and calls of vendors' libraries with the same addresses, sizes and numbers, is kept back
 * the next time until it is complete, recorded as a graph, and launched; from then on it is launched whenever it
 * comes again. What differs is done call by call, as ever. Random numbers are new each time. Streams of devices without
 * graphs aren't followed. */
#ifndef TEDE_REPLAY_H
#define TEDE_REPLAY_H
#include <tede/device.h>
#ifdef __cplusplus
extern "C" {
#endif

/* What has come, and its graphs: of one function, say. */
typedef struct td_replay td_replay;
TD_API td_replay *td_replay_new(void);
TD_API void       td_replay_release(td_replay *replay);
/* 0; 1 with nothing done where the replay has begun already, in another thread; -1 with an error. A stream that is
 * followed already stays with whoever follows it. */
TD_API int        td_replay_begin(td_replay *replay) TD_MUST_USE;
/* What was kept back is done. -1 with the error of that; the streams are left in either case. */
TD_API int        td_replay_end(td_replay *replay) TD_MUST_USE;

/* Of the process, since it began: graphs that were recorded, their launches, and how many calls those stood for. */
typedef struct td_replay_stats { uint64_t graphs, launches, calls; } td_replay_stats;
TD_API td_replay_stats td_replay_counts(void);

#ifdef __cplusplus
}
#endif
#endif
