/* A thread that serves sockets: it listens, gathers what comes by peer, and hands each message to whoever knows the protocol.
 *
 * Nothing that comes from a socket is trusted.  What breaks a rule closes that peer and concerns no other; memory is taken for bytes that
 * are there only; who doesn't read the answers isn't read from any more, so that answers don't pile up. */
#ifndef TD_GROUP_LOOP_H
#define TD_GROUP_LOOP_H
#include <tede/store.h>
#include <pthread.h>
#include <sys/types.h>

/* Bytes that grow: messages in the making, or as far as they have come. */
typedef struct bytes { char *data; size_t size, room; } bytes;
int  bytes_add(bytes *b, const void *data, size_t size);
int  bytes_add_number(bytes *b, uint64_t number);
int  bytes_add_blob(bytes *b, const void *data, size_t size);      /* its length before it */
void bytes_drop(bytes *b, size_t size);                            /* the first of them */
void bytes_free(bytes *b);

/* The other end of a connection.  A protocol's own struct begins with this. */
typedef struct peer {
    int    fd;
    bool   failed;          /* to be closed */
    bytes  in, out;
    size_t needed;          /* bytes of `in` below which its first message isn't whole */
} peer;

typedef struct loop loop;
typedef struct protocol {
    size_t  peer_size;      /* of the struct, which is zero at first */
    /* Takes the first message of `size` bytes: how many of them it has, 0 if it isn't whole (p->needed may say what is known of its length),
     * -1 if it breaks a rule or memory is short.  Answers are added to p->out, or to another peer's, which is flushed then. */
    int64_t (*take)(loop *l, peer *p, const char *data, size_t size);
    void    (*forget)(peer *p);
} protocol;

struct loop {
    const protocol *protocol;
    void           *context;
    int             listener, port, wake[2];
    bool            full;           /* there is no descriptor for another peer, so the listener isn't polled for a while */
    pid_t           process;        /* that the thread is in: not a child of it */
    pthread_t       thread;
    peer          **peers;
    int             count, room;
    struct pollfd  *polled;
};

/* Listens at the port (0: one that the system chooses), on `descriptor` if it isn't -1, which is taken over.  0 or -1. */
int  loop_start(loop *l, const protocol *protocol, void *context, int descriptor, int port);
/* Sends what the peer has to be sent, as far as it takes it. */
void loop_flush(peer *p);
/* In a child of fork(), too, where there is no thread to stop. */
void loop_stop(loop *l);

#endif
