/* TCPStore: a client of a server, which may be in this process.
 *
 * Each call takes a connection of its own and puts it back, so a thread that waits holds no other up.  Almost always there is one.  A call
 * that fails halfway closes its connection, since what comes on it next would answer another message.  Messages without an answer are
 * followed by a ping: so they have arrived when a call returns, whichever connection the next one takes.
 *
 * A child of fork() has its parent's connections; it leaves them alone and opens its own. */
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>
#include "base/base.h"
#include "group/loop.h"
#include "group/server.h"
#include "group/store.h"
#include "group/table.h"
#include "group/wait.h"

enum { MOST_IDLE = 4, ANSWER_MS = 5000 };

typedef struct tcp {
    server         *server;         /* if it is here */
    char           *host;
    size_t          host_size;
    int             port, idle[MOST_IDLE], idle_count;
    int64_t         timeout;
    pid_t           process;        /* whose connections these are */
    pthread_mutex_t lock;
} tcp;

/* ---- connections */

static int greet(int fd, int64_t deadline)
{
    char message[10] = {ASK_VALIDATE};
    const uint32_t validation = VALIDATION, nonce = (uint32_t)getpid();
    uint32_t answer;
    memcpy(message + 1, &validation, 4);
    message[5] = ASK_PING;
    memcpy(message + 6, &nonce, 4);
    if (socket_send(fd, message, sizeof message, deadline) != 0 || socket_receive(fd, &answer, sizeof answer, deadline) != 0)
        return -1;
    return answer == nonce ? 0 : td_error(TD_E_DIST_NETWORK, "Ping failed, invalid value returned from server: is a store at that port?");
}

static int connection(tcp *t, int64_t timeout, bool once)
{
    int64_t deadline = deadline_after(timeout);
    int fd = socket_connect(t->host, t->port, timeout, deadline, once);
    if (fd >= 0 && greet(fd, deadline) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static int take(tcp *t)
{
    int fd = -1;
    pthread_mutex_lock(&t->lock);
    if (t->process != getpid()) {
        for (int i = 0; i < t->idle_count; i++)
            close(t->idle[i]);
        t->idle_count = 0, t->process = getpid();
    }
    if (t->idle_count)
        fd = t->idle[--t->idle_count];
    pthread_mutex_unlock(&t->lock);
    return fd >= 0 ? fd : connection(t, t->timeout, true);
}

static void give(tcp *t, int fd)
{
    pthread_mutex_lock(&t->lock);
    if (t->idle_count < MOST_IDLE)
        t->idle[t->idle_count++] = fd, fd = -1;
    pthread_mutex_unlock(&t->lock);
    if (fd >= 0)
        close(fd);
}

/* ---- a call: a message, and a connection on which its answer comes */

typedef struct call { tcp *t; bytes message; int fd, status; int64_t deadline; } call;

/* When an answer must have come that nobody waits for on purpose: a small timeout is one of waits. */
static int64_t answer_deadline(int64_t timeout) { return deadline_after(timeout && timeout < ANSWER_MS ? ANSWER_MS : timeout); }

static call begin(void *self, int kind)
{
    call c = {.t = self, .fd = -1, .deadline = answer_deadline(((tcp *)self)->timeout)};
    c.status = bytes_add(&c.message, &(char){(char)kind}, 1);
    return c;
}
static void put_number(call *c, uint64_t number)
{
    if (c->status == 0)
        c->status = bytes_add_number(&c->message, number);
}
static void put_value(call *c, const void *data, size_t size)
{
    if (c->status == 0)
        c->status = bytes_add_blob(&c->message, data, size);
}
/* Users' keys begin with "/" on the wire, so none is one of the store's own. */
static void put_key(call *c, const char *key)
{
    size_t size = strlen(key);
    put_number(c, size + 1);
    if (c->status == 0 && (c->status = bytes_add(&c->message, "/", 1)) == 0)
        c->status = bytes_add(&c->message, key, size);
}
static void put_keys(call *c, int64_t n, const char *const *keys)
{
    put_number(c, (uint64_t)n);
    for (int64_t i = 0; i < n; i++)
        put_key(c, keys[i]);
}
static void send_message(call *c)
{
    if (c->status == 0 && (c->fd < 0 && (c->fd = take(c->t)) < 0))
        c->status = -1;
    if (c->status == 0)
        c->status = socket_send(c->fd, c->message.data, c->message.size, c->deadline);
    c->message.size = 0;
}
static void receive(call *c, void *data, size_t size)
{
    if (c->status == 0)
        c->status = socket_receive(c->fd, data, size, c->deadline);
}
static int64_t receive_number(call *c)
{
    int64_t number = 0;
    receive(c, &number, sizeof number);
    return number;
}
static td_blob receive_value(call *c)
{
    td_blob value = {NULL, 0};
    uint64_t size = (uint64_t)receive_number(c);
    if (c->status == 0 && size > TD_STORE_MOST_VALUE)
        c->status = td_error(TD_E_DIST_NETWORK, "a store's server answers with %llu bytes", (unsigned long long)size);
    if (c->status == 0 && !(value = td_blob_new(NULL, (size_t)size)).data)
        c->status = -1;
    receive(c, value.data, value.size);
    if (c->status != 0)
        td_blob_free(&value);
    return value;
}
static int finish(call *c)
{
    bytes_free(&c->message);
    if (c->fd >= 0 && c->status == 0)
        give(c->t, c->fd);
    else if (c->fd >= 0)
        close(c->fd);
    return c->status;
}
/* Of messages that have no answer. */
static int finish_with_ping(call *c)
{
    const uint32_t nonce = (uint32_t)getpid();
    uint32_t answer;
    if (c->status == 0)
        c->status = bytes_add(&c->message, &(char){ASK_PING}, 1) | bytes_add(&c->message, &nonce, sizeof nonce);
    send_message(c);
    receive(c, &answer, sizeof answer);
    return finish(c);
}

/* Waits on the call's connection: 1, 0 when the deadline has come, -1. */
static int wait_on(call *c, int64_t n, const char *const *keys, int64_t deadline)
{
    char answer = -1;
    c->message.size = 0;
    if (c->status == 0)
        c->status = bytes_add(&c->message, &(char){ASK_WAIT}, 1);
    put_keys(c, n, keys);
    send_message(c);
    int ready = c->status == 0 ? descriptor_wait(c->fd, POLLIN, deadline) : -1;
    if (ready < 0)
        return c->status = -1;
    c->deadline = deadline_after(ANSWER_MS);
    if (ready == 0) {
        /* It may have answered meanwhile, and answers this, too. */
        c->status = bytes_add(&c->message, &(char){ASK_CANCEL_WAIT}, 1);
        send_message(c);
        receive(c, &answer, 1);
        if (c->status == 0 && answer == STOP_WAITING)
            ready = 1, receive(c, &answer, 1);
    } else {
        receive(c, &answer, 1);
    }
    return c->status == 0 ? ready : -1;
}

/* ---- operations */

static int set(void *self, const char *key, const void *value, size_t size)
{
    call c = begin(self, ASK_SET);
    put_key(&c, key), put_value(&c, value, size);
    return finish_with_ping(&c);
}

static int get(void *self, const char *key, int64_t timeout, td_blob *value)
{
    call c = begin(self, ASK_WAIT);
    int ready = wait_on(&c, 1, &key, deadline_after(timeout));
    if (ready == 0)
        return finish(&c), store_timed_out(1, &key, "/", timeout);
    c.deadline = answer_deadline(timeout);
    if (c.status == 0)
        c.status = bytes_add(&c.message, &(char){ASK_GET}, 1);
    put_key(&c, key);
    send_message(&c);
    *value = receive_value(&c);
    return finish(&c);
}

static int add(void *self, const char *key, int64_t amount, int64_t *sum)
{
    call c = begin(self, ASK_ADD);
    put_key(&c, key), put_number(&c, (uint64_t)amount);
    send_message(&c);
    *sum = receive_number(&c);
    return finish(&c);
}

static int wait_for(void *self, int64_t n, const char *const *keys, int64_t timeout)
{
    call c = begin(self, ASK_WAIT);
    int ready = wait_on(&c, n, keys, deadline_after(timeout));
    int status = finish(&c);
    return status == 0 && ready == 0 ? store_timed_out(n, keys, "/", timeout) : status;
}

static int check(void *self, int64_t n, const char *const *keys)
{
    char answer = NOT_READY;
    call c = begin(self, ASK_CHECK);
    put_keys(&c, n, keys);
    send_message(&c);
    receive(&c, &answer, 1);
    return finish(&c) == 0 ? answer == READY : -1;
}

static int compare_set(void *self, const char *key, td_blob expected, td_blob desired, td_blob *now)
{
    call c = begin(self, ASK_COMPARE_SET);
    put_key(&c, key), put_value(&c, expected.data, expected.size), put_value(&c, desired.data, desired.size);
    send_message(&c);
    *now = receive_value(&c);
    return finish(&c);
}

static int delete_key(void *self, const char *key)
{
    call c = begin(self, ASK_DELETE);
    put_key(&c, key);
    send_message(&c);
    int64_t deleted = receive_number(&c);
    return finish(&c) == 0 ? deleted == 1 : -1;
}

static int64_t num_keys(void *self)
{
    call c = begin(self, ASK_NUM_KEYS);
    send_message(&c);
    int64_t n = receive_number(&c);
    return finish(&c) == 0 ? n : -1;
}

static int append(void *self, const char *key, const void *value, size_t size)
{
    call c = begin(self, ASK_APPEND);
    put_key(&c, key), put_value(&c, value, size);
    return finish_with_ping(&c);
}

static int multi_get(void *self, int64_t n, const char *const *keys, int64_t timeout, td_blobs *values)
{
    call c = begin(self, ASK_WAIT);
    int ready = wait_on(&c, n, keys, deadline_after(timeout));
    if (ready == 0)
        return finish(&c), store_timed_out(n, keys, "/", timeout);
    c.deadline = answer_deadline(timeout);
    if (c.status == 0)
        c.status = bytes_add(&c.message, &(char){ASK_MULTI_GET}, 1);
    put_keys(&c, n, keys);
    send_message(&c);
    for (int64_t i = 0; i < n && c.status == 0; i++)
        if (td_blobs_add(values, receive_value(&c)) != 0)
            c.status = -1;
    return finish(&c);
}

static int multi_set(void *self, int64_t n, const char *const *keys, const td_blob *values)
{
    call c = begin(self, ASK_MULTI_SET);
    put_number(&c, (uint64_t)n);
    for (int64_t i = 0; i < n; i++)
        put_key(&c, keys[i]), put_value(&c, values[i].data, values[i].size);
    return finish_with_ping(&c);
}

static int queue_push(void *self, const char *key, const void *value, size_t size)
{
    call c = begin(self, ASK_PUSH);
    put_key(&c, key), put_value(&c, value, size);
    return finish_with_ping(&c);
}

static int queue_pop(void *self, const char *key, bool block, int64_t timeout, td_blob *value)
{
    int64_t deadline = deadline_after(timeout), count = 0;
    call c = begin(self, ASK_POP);
    while (c.status == 0 && count == 0) {
        if (block && wait_on(&c, 1, &key, deadline) == 0)
            return finish(&c), store_timed_out(1, &key, "/", timeout);
        c.message.size = 0;
        if (c.status == 0)
            c.status = bytes_add(&c.message, &(char){ASK_POP}, 1);
        put_key(&c, key);
        send_message(&c);
        count = receive_number(&c);         /* 0: another client was faster */
        if (!block)
            break;
    }
    if (c.status == 0 && count)
        *value = receive_value(&c);
    int status = finish(&c);
    return status == 0 && !count ? td_error(TD_E_DIST_QUEUE, "queue is empty") : status;
}

static int64_t queue_len(void *self, const char *key)
{
    call c = begin(self, ASK_QUEUE_LEN);
    put_key(&c, key);
    send_message(&c);
    int64_t n = receive_number(&c);
    return finish(&c) == 0 ? n : -1;
}

/* Those that users have made, without their "/". */
static int list_keys(void *self, td_blobs *keys)
{
    call c = begin(self, ASK_LIST_KEYS);
    send_message(&c);
    int64_t n = receive_number(&c);
    for (int64_t i = 0; i < n && c.status == 0; i++) {
        td_blob key = receive_value(&c);
        if (c.status == 0 && key.size && *(char *)key.data == '/' && td_blobs_add(keys, td_blob_new((char *)key.data + 1, key.size - 1)) != 0)
            c.status = -1;
        td_blob_free(&key);
    }
    return finish(&c);
}

static int64_t timeout_of(void *self) { return __atomic_load_n(&((tcp *)self)->timeout, __ATOMIC_RELAXED); }
static void set_timeout(void *self, int64_t timeout) { __atomic_store_n(&((tcp *)self)->timeout, timeout, __ATOMIC_RELAXED); }

static void release(void *self)
{
    tcp *t = self;
    for (int i = 0; i < t->idle_count; i++)
        close(t->idle[i]);
    server_release(t->server);
    pthread_mutex_destroy(&t->lock);
    td_mem_free(t->host, t->host_size);
    td_mem_free(t, sizeof *t);
}

static td_store *another(void *self)
{
    const tcp *t = self;
    td_store_tcp_options options = TD_STORE_TCP_OPTIONS;
    options.timeout = t->timeout, options.wait_for_workers = false;
    return td_store_tcp(t->host, t->port, &options);
}

static const td_store_kind kind = {
    .name = "TCPStore", .set = set, .get = get, .add = add, .wait = wait_for, .check = check, .compare_set = compare_set,
    .delete_key = delete_key, .num_keys = num_keys, .release = release, .append = append, .multi_get = multi_get, .multi_set = multi_set,
    .queue_push = queue_push, .queue_pop = queue_pop, .queue_len = queue_len, .list_keys = list_keys, .clone = another,
    .timeout = timeout_of, .set_timeout = set_timeout,
};

/* ---- making one */

static int add_joined(tcp *t, int64_t amount, int64_t *joined)
{
    call c = begin(t, ASK_ADD);
    put_value(&c, JOINED_KEY, sizeof JOINED_KEY - 1), put_number(&c, (uint64_t)amount);
    send_message(&c);
    *joined = receive_number(&c);
    return finish(&c);
}

/* Counts this store; the master waits for the others, so that its server lives until all have found it. */
static int join(tcp *t, int64_t world_size)
{
    int64_t joined, deadline = deadline_after(t->timeout);
    int status = add_joined(t, 1, &joined);
    for (int64_t pause = 1; status == 0 && t->server && joined < world_size; pause = pause < 20 ? pause + 1 : pause) {
        int64_t now = clock_ms();
        if (now >= deadline)
            return td_error(TD_E_DIST_STORE, "Timed out after %lld seconds waiting for clients. %lld/%lld clients joined.",
                            (long long)((t->timeout + 999) / 1000), (long long)joined, (long long)world_size);
        if (descriptor_wait(-1, 0, now + pause < deadline ? now + pause : deadline) < 0)
            return -1;
        status = add_joined(t, 0, &joined);
    }
    return status;
}

td_store *td_store_tcp(const char *host, int port, const td_store_tcp_options *options)
{
    if (options->world_size == 0)
        return td_fail(TD_E_VALUE, "TCPStore world size cannot be 0");
    if (port < 0 || port > 65535)
        return td_fail(TD_E_VALUE, "port must have value from 0 to 65535 but was %d.", port);
    tcp *t = td_mem_alloc_zero(sizeof *t);
    if (!t)
        return NULL;
    pthread_mutex_init(&t->lock, NULL);
    t->port = port, t->timeout = options->timeout, t->process = getpid(), t->host_size = strlen(host) + 1;
    t->host = td_mem_alloc(t->host_size);
    int status = t->host ? 0 : -1;
    if (status == 0)
        memcpy(t->host, host, t->host_size);
    if (status == 0 && options->is_master) {
        t->server = server_start(port, options->listen_fd, options->multi_tenant);
        if (t->server)
            t->port = server_port(t->server);
        else
            status = -1;
    }
    int fd = status == 0 ? connection(t, t->timeout, false) : -1;
    if (fd >= 0)
        give(t, fd);
    if (fd < 0 || (options->wait_for_workers && options->world_size > 0 && join(t, options->world_size) != 0))
        return release(t), NULL;
    td_store *s = td_store_new(&kind, t);
    if (!s)
        release(t);
    return s;
}

static const tcp *tcp_of(const td_store *s) { return store_kind(s) == &kind ? store_self(s) : NULL; }

int td_store_tcp_port(const td_store *s) { return tcp_of(s) ? tcp_of(s)->port : 0; }
const char *td_store_tcp_host(const td_store *s) { return tcp_of(s) ? tcp_of(s)->host : NULL; }

/* "[localhost]:1234": the name that the address has, else the address. */
static void show_address(const struct sockaddr_storage *a, socklen_t size, char *to, size_t room)
{
    char name[INET6_ADDRSTRLEN] = "?";
    const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)a;
    const struct sockaddr_in *four = (const struct sockaddr_in *)a;
    bool is_six = a->ss_family == AF_INET6, here = is_six ? IN6_IS_ADDR_LOOPBACK(&six->sin6_addr) : four->sin_addr.s_addr == htonl(INADDR_LOOPBACK);
    (void)size;
    if (here)
        memcpy(name, "localhost", sizeof "localhost");
    else
        inet_ntop(a->ss_family, is_six ? (const void *)&six->sin6_addr : (const void *)&four->sin_addr, name, sizeof name);
    snprintf(to, room, is_six ? "[%s]:%d" : "%s:%d", name, ntohs(is_six ? six->sin6_port : four->sin_port));
}

size_t td_store_tcp_describe(td_store *s, char *buffer, size_t size)
{
    tcp *t = (tcp *)tcp_of(s);
    char here[80] = "?", there[80] = "?", served[40] = "<nullptr>";
    struct sockaddr_storage address;
    int fd = -1, n;
    if (t) {
        pthread_mutex_lock(&t->lock);
        fd = t->idle_count ? t->idle[t->idle_count - 1] : -1;
        socklen_t length = sizeof address;
        if (fd >= 0 && getsockname(fd, (struct sockaddr *)&address, &length) == 0)
            show_address(&address, length, here, sizeof here);
        length = sizeof address;
        if (fd >= 0 && getpeername(fd, (struct sockaddr *)&address, &length) == 0)
            show_address(&address, length, there, sizeof there);
        if (t->server)
            snprintf(served, sizeof served, "TCPServer(port=%d)", t->port);
        pthread_mutex_unlock(&t->lock);
    }
    n = snprintf(buffer, size, "TCPStore(client=TCPClient(SocketImpl(fd=%d, addr=%s, remote=%s)), server=%s)", fd, here, there, served);
    return n > 0 ? (size_t)n : 0;
}
