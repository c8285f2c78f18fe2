/* tede/wait.h: what waits on other processes share: Ctrl-C ends them, and errors of their own. */
#ifndef TEDE_WAIT_H
#define TEDE_WAIT_H
#include <tede/base.h>
#ifdef __cplusplus
extern "C" {
#endif

/* Codes beside those of tede/base.h: distributed.DistError in Python, a RuntimeError, and its kinds. */
#define TD_E_DIST         ((td_code)64)
#define TD_E_DIST_BACKEND ((td_code)65)      /* DistBackendError: an engine of process groups */
#define TD_E_DIST_NETWORK ((td_code)66)      /* DistNetworkError: a connection */
#define TD_E_DIST_STORE   ((td_code)67)      /* DistStoreError: a store; a wait on one that took too long */
#define TD_E_DIST_QUEUE   ((td_code)68)      /* QueueEmptyError */

/* Whoever waits on other processes calls this at least ten times a second: 0, or -1 with an error if the program is to stop waiting (Ctrl-C
 * in Python).  A handler says so; without one nothing interrupts. */
typedef int td_interrupt_handler(void *context);
TD_API int  td_interrupted(void) TD_MUST_USE;
TD_API void td_set_interrupt_handler(td_interrupt_handler *handler, void *context);

#ifdef __cplusplus
}
#endif
#endif
