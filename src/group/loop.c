/* Serving sockets by one thread and one poll(). */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>
#include "base/base.h"
#include "group/loop.h"
#include "group/wait.h"

enum { RECEIVE_ROOM = 1 << 16 };

/* ---- bytes */

int bytes_add(bytes *b, const void *data, size_t size)
{
    if (b->size + size > b->room) {
        size_t room = b->size + size > 2 * b->room ? b->size + size : 2 * b->room;
        char *more = td_mem_realloc(b->data, b->room, room);
        if (!more)
            return -1;
        b->data = more, b->room = room;
    }
    if (size)
        memcpy(b->data + b->size, data, size);
    b->size += size;
    return 0;
}
int bytes_add_number(bytes *b, uint64_t number) { return bytes_add(b, &number, sizeof number); }
int bytes_add_blob(bytes *b, const void *data, size_t size)
{
    return bytes_add_number(b, size) == 0 ? bytes_add(b, data, size) : -1;
}

void bytes_drop(bytes *b, size_t size)
{
    b->size -= size;
    if (size && b->size)
        memmove(b->data, b->data + size, b->size);
    if (b->size == 0 && b->room > RECEIVE_ROOM)
        bytes_free(b);              /* a large message was an exception */
}

void bytes_free(bytes *b)
{
    td_mem_free(b->data, b->room);
    *b = (bytes){0};
}

/* ---- peers */

void loop_flush(peer *p)
{
    size_t sent = 0;
    while (sent < p->out.size) {
        ssize_t n = send(p->fd, p->out.data + sent, p->out.size - sent, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            p->failed = p->failed || (errno != EAGAIN && errno != EWOULDBLOCK);
            break;
        }
        sent += (size_t)n;
    }
    bytes_drop(&p->out, sent);
}

/* Takes the messages that are whole, as long as their answers aren't many; how many bytes they had. */
static size_t take_some(loop *l, peer *p)
{
    size_t done = 0;
    while (!p->failed && p->in.size > done && p->in.size - done >= p->needed && p->out.size < RECEIVE_ROOM) {
        p->needed = 0;
        int64_t n = l->protocol->take(l, p, p->in.data + done, p->in.size - done);
        td_error_clear();           /* of no thread that anybody sees; that it is closed is what a peer learns */
        p->failed = p->failed || n < 0;
        if (n <= 0)
            break;
        done += (size_t)n;
    }
    bytes_drop(&p->in, done);
    return done;
}

static void take_messages(loop *l, peer *p)
{
    loop_flush(p);
    while (!p->failed && p->out.size == 0 && take_some(l, p) > 0)
        loop_flush(p);
    loop_flush(p);
}

static void receive(loop *l, peer *p)
{
    char room[RECEIVE_ROOM];
    ssize_t n = recv(p->fd, room, sizeof room, 0);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) || (n > 0 && bytes_add(&p->in, room, (size_t)n) != 0))
        p->failed = true;
    if (!p->failed)
        take_messages(l, p);
}

static void close_peer(loop *l, peer *p)
{
    l->protocol->forget(p);
    close(p->fd);
    bytes_free(&p->in), bytes_free(&p->out);
    td_mem_free(p, l->protocol->peer_size);
}

static size_t polled_size(int room) { return (size_t)(room + 2) * sizeof(struct pollfd); }
static size_t peers_size(int room) { return (size_t)room * sizeof(peer *); }

static void free_room(loop *l)
{
    if (l->room) {
        td_mem_free(l->peers, peers_size(l->room));
        td_mem_free(l->polled, polled_size(l->room));
    }
}

static int make_room(loop *l)
{
    if (l->count < l->room)
        return 0;
    const int room = l->room ? 2 * l->room : 16;
    peer **peers = td_mem_alloc(peers_size(room));
    struct pollfd *polled = peers ? td_mem_alloc(polled_size(room)) : NULL;
    if (!polled)
        return td_mem_free(peers, peers_size(room)), -1;
    if (l->count)
        memcpy(peers, l->peers, peers_size(l->count));
    free_room(l);
    l->peers = peers, l->polled = polled, l->room = room;
    return 0;
}

static void accept_peers(loop *l)
{
    for (;;) {
        int fd = accept(l->listener, NULL, NULL);
        if (fd < 0) {
            l->full = errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR && errno != ECONNABORTED;
            return;
        }
        peer *p = socket_prepare(fd) == 0 && make_room(l) == 0 ? td_mem_alloc_zero(l->protocol->peer_size) : NULL;
        if (p) {
            p->fd = fd;
            l->peers[l->count++] = p;
        } else {
            close(fd);
            td_error_clear();
        }
    }
}

static void close_failed(loop *l)
{
    int kept = 0;
    for (int i = 0; i < l->count; i++) {
        if (l->peers[i]->failed)
            close_peer(l, l->peers[i]);
        else
            l->peers[kept++] = l->peers[i];
    }
    l->count = kept;
}

static void *serve(void *context)
{
    loop *l = context;
    for (;;) {
        l->polled[0] = (struct pollfd){l->wake[0], POLLIN, 0};
        l->polled[1] = (struct pollfd){l->full ? -1 : l->listener, POLLIN, 0};
        for (int i = 0; i < l->count; i++)
            l->polled[i + 2] = (struct pollfd){l->peers[i]->fd, l->peers[i]->out.size ? POLLOUT : POLLIN, 0};
        int timeout = l->full ? SLICE_MS : -1;
        l->full = false;
        if (poll(l->polled, (nfds_t)l->count + 2, timeout) < 0)
            continue;
        if (l->polled[0].revents)
            return NULL;
        for (int i = 0; i < l->count; i++) {
            peer *p = l->peers[i];
            if (!l->polled[i + 2].revents || p->failed)
                continue;
            if (p->out.size == 0)
                receive(l, p);
            else
                take_messages(l, p);        /* those that came before it stopped reading */
        }
        close_failed(l);
        if (l->polled[1].revents)
            accept_peers(l);
    }
}

/* ---- starting and stopping */

static void close_all(loop *l)
{
    for (int i = 0; i < l->count; i++)
        close_peer(l, l->peers[i]);
    const int descriptors[] = {l->listener, l->wake[0], l->wake[1]};
    for (int i = 0; i < TD_COUNT(descriptors); i++)
        if (descriptors[i] >= 0)
            close(descriptors[i]);
    free_room(l);
}

static int begin(loop *l, int descriptor)
{
    if ((l->listener = socket_listen(descriptor, &l->port)) < 0 || make_room(l) != 0)
        return -1;
    if (pipe(l->wake) != 0)
        return td_error(TD_E_DIST_NETWORK, "pipe: %s", strerror(errno));
    for (int i = 0; i < 2; i++)
        fcntl(l->wake[i], F_SETFD, FD_CLOEXEC);
    /* Signals are for the program's threads, which wait in poll() and are to be woken. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int status = pthread_create(&l->thread, NULL, serve, l);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return status ? td_error(TD_E_RUNTIME, "a server can't have a thread: %s", strerror(status)) : 0;
}

int loop_start(loop *l, const protocol *protocol, void *context, int descriptor, int port)
{
    *l = (loop){.protocol = protocol, .context = context, .listener = -1, .port = port, .wake = {-1, -1}, .process = getpid()};
    if (begin(l, descriptor) == 0)
        return 0;
    close_all(l);
    return -1;
}

void loop_stop(loop *l)
{
    if (l->process == getpid()) {
        while (write(l->wake[1], "", 1) < 0 && errno == EINTR)
            ;
        pthread_join(l->thread, NULL);
    }
    close_all(l);
}
