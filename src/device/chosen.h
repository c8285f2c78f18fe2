/* The streams that a thread's calls go to, for who works for another thread: a backward pass's workers. */
#ifndef TD_DEVICE_CHOSEN_H
#define TD_DEVICE_CHOSEN_H
#include <tede/device.h>

/* Few, so they are looked through.  They aren't held, since none is ever freed: one that is parked meanwhile may get a second user, whose work then
 * waits for the first one's. */
enum { TD_MOST_CHOSEN = 16 };
typedef struct td_chosen { int count; td_stream *streams[TD_MOST_CHOSEN]; } td_chosen;

/* This thread's; and make others this thread's. */
td_chosen td_streams_chosen(void);
void      td_streams_choose(const td_chosen *streams);

#endif
