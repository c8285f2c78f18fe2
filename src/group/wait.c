/* Interruptions, deadlines, conditions and sockets. */
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include "base/base.h"
#include "group/wait.h"

static pthread_mutex_t       lock = PTHREAD_MUTEX_INITIALIZER;
static td_interrupt_handler *handler;
static void                 *handler_context;

void td_set_interrupt_handler(td_interrupt_handler *new_handler, void *context)
{
    pthread_mutex_lock(&lock);
    handler = new_handler;
    handler_context = context;
    pthread_mutex_unlock(&lock);
}

int td_interrupted(void)
{
    pthread_mutex_lock(&lock);
    td_interrupt_handler *handle = handler;
    void *context = handler_context;
    pthread_mutex_unlock(&lock);
    return handle ? handle(context) : 0;
}

int64_t clock_ms(void)
{
    return td_nanoseconds() / 1000000;
}

int64_t deadline_after(int64_t timeout)
{
    int64_t now = clock_ms();
    return timeout == 0 || timeout > INT64_MAX - now ? INT64_MAX : now + (timeout > 0 ? timeout : 0);
}

int condition_init(pthread_cond_t *condition)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    int status = pthread_cond_init(condition, &attributes);
    pthread_condattr_destroy(&attributes);
    return status ? td_error(TD_E_RUNTIME, "no condition can be made: %s", strerror(status)) : 0;
}

static int64_t slice(int64_t deadline)
{
    int64_t left = deadline - clock_ms();
    return left < 0 ? 0 : left < SLICE_MS ? left : SLICE_MS;
}

int condition_wait(pthread_cond_t *condition, pthread_mutex_t *lock, int64_t deadline)
{
    if (clock_ms() >= deadline)
        return 0;
    int64_t until = clock_ms() + slice(deadline);
    struct timespec time = {(time_t)(until / 1000), (long)(until % 1000) * 1000000};
    if (pthread_cond_timedwait(condition, lock, &time) != ETIMEDOUT)
        return 1;
    pthread_mutex_unlock(lock);         /* whoever interrupts may need what others hold */
    int status = td_interrupted();
    pthread_mutex_lock(lock);
    return status == 0 ? 1 : -1;
}

int descriptor_wait(int descriptor, short events, int64_t deadline)
{
    for (;;) {
        struct pollfd one = {descriptor, events, 0};
        int64_t left = slice(deadline);
        int n = poll(&one, 1, (int)left);
        if (n > 0)
            return 1;
        if (n < 0 && errno != EINTR)
            return td_error(TD_E_DIST_NETWORK, "poll: %s", strerror(errno));
        if (td_interrupted() != 0)
            return -1;
        if (n == 0 && clock_ms() >= deadline)
            return 0;
    }
}

static int set_flags(int descriptor)
{
    const int on = 1;
    setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);       /* of no use to a listening one, and no harm */
    return fcntl(descriptor, F_SETFD, FD_CLOEXEC) == 0 && fcntl(descriptor, F_SETFL, O_NONBLOCK) == 0 ? descriptor : -1;
}

int socket_prepare(int descriptor) { return set_flags(descriptor) < 0 ? -1 : 0; }

/* ---- listening */

static int bound(int family, int port, int *code)
{
    int fd = socket(family, SOCK_STREAM, 0), on = 1, off = 0;
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port), .sin6_addr = in6addr_any};
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr = {htonl(INADDR_ANY)}};
    const struct sockaddr *address = family == AF_INET6 ? (struct sockaddr *)&six : (struct sockaddr *)&four;
    if (fd >= 0) {
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        if (family == AF_INET6)
            setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);        /* takes IPv4 as well */
        if (bind(fd, address, family == AF_INET6 ? sizeof six : sizeof four) == 0)
            return fd;
    }
    *code = errno;
    if (fd >= 0)
        close(fd);
    return -1;
}

int socket_listen(int descriptor, int *port)
{
    int code = 0;
    if (descriptor < 0 && (descriptor = bound(AF_INET6, *port, &code)) < 0)
        descriptor = bound(AF_INET, *port, &code);
    struct sockaddr_storage address = {0};
    socklen_t size = sizeof address;
    if (descriptor >= 0 && (listen(descriptor, 2048) != 0 || set_flags(descriptor) < 0 ||
                            getsockname(descriptor, (struct sockaddr *)&address, &size) != 0)) {
        code = errno;
        close(descriptor);
        descriptor = -1;
    }
    if (descriptor < 0)
        return td_error(TD_E_DIST_NETWORK, "The server socket has failed to listen on any local network address. port: %d, "
                        "code: %d, message: %s", *port, code, strerror(code));
    *port = ntohs(address.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&address)->sin6_port : ((struct sockaddr_in *)&address)->sin_port);
    return descriptor;
}

/* ---- connecting */

/* A connected descriptor; -1 with an error if interrupted, -2 if nobody is there (yet). */
static int connect_to(const struct addrinfo *to, int64_t deadline)
{
    int fd = socket(to->ai_family, to->ai_socktype, to->ai_protocol);
    if (fd < 0)
        return -2;
    int status = -2, code = 0;
    socklen_t size = sizeof code;
    if (set_flags(fd) >= 0) {
        if (connect(fd, to->ai_addr, to->ai_addrlen) == 0)
            return fd;
        if (errno == EINPROGRESS || errno == EINTR) {
            int ready = descriptor_wait(fd, POLLOUT, deadline);
            if (ready == 1 && getsockopt(fd, SOL_SOCKET, SO_ERROR, &code, &size) == 0 && code == 0)
                return fd;
            status = ready < 0 ? -1 : -2;
        }
    }
    close(fd);
    return status;
}

/* As connect_to, of any of the host's addresses. */
static int connect_any(const char *host, const char *port, int64_t deadline)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *addresses = NULL;
    if (getaddrinfo(host, port, &hints, &addresses) != 0)
        return -2;
    int fd = -2;
    for (const struct addrinfo *a = addresses; a && fd == -2; a = a->ai_next)
        fd = connect_to(a, deadline);
    freeaddrinfo(addresses);
    return fd;
}

int socket_connect(const char *host, int port, int64_t timeout, int64_t deadline, bool once)
{
    char service[12];
    snprintf(service, sizeof service, "%d", port);
    for (int64_t pause = 5;; pause = pause < 500 ? 2 * pause : 500) {
        int fd = connect_any(host, service, deadline);
        if (fd != -2)
            return fd;
        if (once)
            return td_error(TD_E_DIST_NETWORK, "Failed to connect to (%s, %d). Did the remote server shutdown or crash?", host, port);
        /* Not of a socket: nothing is there that could become ready. */
        int64_t until = clock_ms() + pause;
        if (descriptor_wait(-1, 0, until < deadline ? until : deadline) < 0)
            return -1;
        if (clock_ms() >= deadline)
            return td_error(TD_E_DIST_NETWORK, "The client socket has timed out after %lldms while trying to connect to (%s, %d).",
                            (long long)timeout, host, port);
    }
}

/* ---- moving bytes */

static int slow(const char *what)
{
    return td_error(TD_E_DIST_NETWORK, "%s: the other side took too long", what);
}

int socket_send(int descriptor, const void *data, size_t size, int64_t deadline)
{
    for (const char *p = data; size;) {
        ssize_t n = send(descriptor, p, size, MSG_NOSIGNAL);
        if (n >= 0) {
            p += n, size -= (size_t)n;
        } else if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) {
            int ready = descriptor_wait(descriptor, POLLOUT, deadline);
            if (ready != 1)
                return ready < 0 ? -1 : slow("Failed to send");
        } else {
            return td_error(TD_E_DIST_NETWORK, "Failed to send: %s. Did the remote server shutdown or crash?", strerror(errno));
        }
    }
    return 0;
}

int socket_receive(int descriptor, void *data, size_t size, int64_t deadline)
{
    for (char *p = data; size;) {
        ssize_t n = recv(descriptor, p, size, 0);
        if (n > 0) {
            p += n, size -= (size_t)n;
        } else if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) {
            int ready = descriptor_wait(descriptor, POLLIN, deadline);
            if (ready != 1)
                return ready < 0 ? -1 : slow("Failed to recv");
        } else {
            return td_error(TD_E_DIST_NETWORK, n == 0 ? "Failed to recv, got 0 bytes. Connection was likely closed. Did the remote server "
                            "shutdown or crash?" : "Failed to recv: %s", strerror(errno));
        }
    }
    return 0;
}
