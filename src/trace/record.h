/* Interface between event emission and recording, which share the Tracing key: see watch.c. */
#ifndef TD_TRACE_RECORD_H
#define TD_TRACE_RECORD_H
#include "base/watch.h"

extern TD_TLS td_recording *td_recording_now;
/* A call of the recording thread. */
int td_recorded_call(const td_op *op, td_keyset keys, const td_value *arguments, td_value *results);
/* The fallback on the key is registered once, by whoever needs it first. */
int td_tracing_start(void);

#endif
