/* Waiting with an end: deadlines, and conditions and sockets that are waited for in short slices, so that Ctrl-C ends it. */
#ifndef TD_GROUP_WAIT_H
#define TD_GROUP_WAIT_H
#include <tede/store.h>
#include <pthread.h>

enum { SLICE_MS = 100 };
/* In milliseconds of a clock that nobody sets; INT64_MAX never comes, and is what a timeout of 0 gives. */
int64_t clock_ms(void);
int64_t deadline_after(int64_t timeout);
int     condition_init(pthread_cond_t *condition);              /* on that clock */
/* Until it is signalled or a slice is over, holding `lock` before and after: 1, 0 if the deadline has come, -1 if interrupted. */
int     condition_wait(pthread_cond_t *condition, pthread_mutex_t *lock, int64_t deadline);
/* Until the descriptor can be read (POLLIN) or written: 1, 0 if the deadline has come first, -1 with an error. */
int     descriptor_wait(int descriptor, short events, int64_t deadline);

/* ---- sockets: -1 with a TD_E_DIST_NETWORK.  All descriptors are closed by exec. */
/* Listens at a port of all of this host's addresses; 0 is chosen by the system, and *port says what it is.  If `descriptor` isn't -1, it is
 * a bound socket, which this takes over. */
int socket_listen(int descriptor, int *port);
/* Tries again until the deadline, as the other side may come later; `once`: no. */
int socket_prepare(int descriptor);      /* a connected one: 0 or -1 */
int socket_connect(const char *host, int port, int64_t timeout, int64_t deadline, bool once);
int socket_send(int descriptor, const void *data, size_t size, int64_t deadline);
int socket_receive(int descriptor, void *data, size_t size, int64_t deadline);
#endif
