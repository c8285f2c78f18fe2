/* The server of TCP stores: a thread that answers clients of a port. */
#ifndef TD_GROUP_SERVER_H
#define TD_GROUP_SERVER_H
#include <tede/store.h>

/* What a client's message begins with.  The protocol is PyTorch's: numbers are of 64 bits in the machine's order, strings and blobs are
 * a length and bytes, lists a count and members. */
enum {
    ASK_VALIDATE, ASK_SET, ASK_COMPARE_SET, ASK_GET, ASK_ADD, ASK_CHECK, ASK_WAIT, ASK_NUM_KEYS, ASK_DELETE, ASK_APPEND, ASK_MULTI_GET,
    ASK_MULTI_SET, ASK_CANCEL_WAIT, ASK_PING, ASK_PUSH, ASK_POP, ASK_QUEUE_LEN, ASK_LIST_KEYS,
    ASK_BARRIER,
};
enum { READY, NOT_READY };                  /* of ASK_CHECK */
enum { STOP_WAITING, WAIT_CANCELED };       /* of ASK_WAIT */
#define VALIDATION 0x3c85f7ceu              /* follows ASK_VALIDATE, which is a connection's first message */
#define JOINED_KEY "init/"                  /* counts the stores that were made with a world size */

typedef struct server server;
/* One that listens at the port (0: one that the system chooses), on `descriptor` if it isn't -1, which is taken over.  With `shared` it
 * is one that this process has there already, if there is one. */
server *server_start(int port, int descriptor, bool shared);
int     server_port(const server *s);
void    server_release(server *s);          /* accepts NULL; the last one ends it */

#endif
