/* What MPI says while it begins goes by this thread to the PMI server and back.
 *
 * MPICH ends the process if its server is gone or can't be reached, before an error handler can be set.  So it is given one end of a pair of sockets, which
 * stays open whatever happens: MPI waits there for ever then, and whoever waits for MPI asks relay_lost(). */
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "mpi.h"

typedef struct relay { int rank, server, own; char address[256]; } relay;

static _Atomic(const char *) lost;

static int connect_to_server(const char *address)
{
    char host[256];
    const char *colon = strrchr(address, ':');
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    int fd = -1;
    if (!colon)
        return -1;
    snprintf(host, sizeof host, "%.*s", (int)(colon - address), address);
    if (getaddrinfo(host, colon + 1, &hints, &found))
        return -1;
    for (const struct addrinfo *a = found; a && fd < 0; a = a->ai_next) {
        fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol);
        if (fd >= 0 && connect(fd, a->ai_addr, a->ai_addrlen))
            close(fd), fd = -1;
    }
    freeaddrinfo(found);
    return fd;
}

/* Says this process's number. What the server answers, MPI knows from its environment: four lines. */
static int greet(const relay *r)
{
    char line[64], c;
    const int n = snprintf(line, sizeof line, "cmd=initack pmiid=%d\n", r->rank);
    int lines = 0;
    if (send(r->server, line, (size_t)n, MSG_NOSIGNAL) != n)
        return -1;
    while (lines < 4 && recv(r->server, &c, 1, 0) == 1)
        lines += c == '\n';
    return lines == 4 ? 0 : -1;
}

/* Send on what has come: false at the end. */
static bool pass(int from, int to)
{
    char room[4096];
    const ssize_t n = recv(from, room, sizeof room, 0);
    if (n < 0 && errno == EINTR)
        return true;
    for (ssize_t done = 0, some; done < n; done += some)
        if ((some = send(to, room + done, (size_t)(n - done), MSG_NOSIGNAL)) <= 0)
            return false;
    return n > 0;
}

static void *run_relay(void *p)
{
    relay *r = p;
    r->server = connect_to_server(r->address);
    if (r->server < 0 || greet(r))
        atomic_store(&lost, "where processes are to meet can't be reached");
    while (!atomic_load(&lost)) {
        struct pollfd ends[] = {{.fd = r->server, .events = POLLIN}, {.fd = r->own, .events = POLLIN}};
        if (poll(ends, 2, -1) < 0)
            continue;
        if (ends[1].revents && !pass(r->own, r->server))        /* MPI is done */
            break;
        if (ends[0].revents && !pass(r->server, r->own))
            atomic_store(&lost, "a process has ended");
    }
    if (r->server >= 0)
        close(r->server);
    if (!atomic_load(&lost))
        close(r->own);
    free(r);
    return NULL;
}

int relay_begin(const char *address, int rank)
{
    int ends[2];
    pthread_t thread;
    relay *r = malloc(sizeof *r);
    if (!r)
        return td_error(TD_E_MEMORY, "no memory to begin with MPI");
    *r = (relay){.rank = rank, .server = -1};
    snprintf(r->address, sizeof r->address, "%s", address);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends)) {
        free(r);
        return td_error(TD_E_RUNTIME, "no sockets to begin with MPI: %s", strerror(errno));
    }
    r->own = ends[0];
    if (pthread_create(&thread, NULL, run_relay, r)) {
        close(ends[0]), close(ends[1]);
        free(r);
        return td_error(TD_E_RUNTIME, "no thread could be started to begin with MPI");
    }
    pthread_detach(thread);
    return ends[1];
}

const char *relay_lost(void) { return atomic_load(&lost); }
