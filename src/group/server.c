/* The server of TCP stores: a table, and what clients' messages do to it.
 *
 * Lengths are checked before anything is made of them.  A client that waits is looked at whenever a key appears. */
#include <pthread.h>
#include <unistd.h>
#include "base/base.h"
#include "group/loop.h"
#include "group/server.h"
#include "group/table.h"

enum { MOST_MESSAGE = 256 << 20 };      /* all values of a multi_set, say */

typedef struct client {
    peer     peer;
    bool     valid, waits, gets;        /* gets: the key that it waits for is to be answered by its value */
    td_blobs keys;                      /* that it waits for */
} client;

struct server {
    server *next;                       /* of those of this process that may be shared */
    int     count;
    loop    loop;
    table   data;
};

/* ---- reading a message */

typedef struct reader { const char *data; size_t size, at, needed; bool broken; } reader;

/* The next bytes; NULL if they haven't come. */
static const char *next(reader *r, size_t size)
{
    if (size > MOST_MESSAGE || r->at + size > MOST_MESSAGE) {
        r->broken = true;
        return NULL;
    }
    if (r->size - r->at < size) {
        r->needed = r->at + size;
        return NULL;
    }
    r->at += size;
    return r->data + r->at - size;
}
static bool next_number(reader *r, uint64_t *number)
{
    const char *p = next(r, sizeof *number);
    if (p)
        memcpy(number, p, sizeof *number);
    return p;
}
static bool next_text(reader *r, size_t most, text *t)
{
    uint64_t size;
    if (!next_number(r, &size))
        return false;
    r->broken = size > most;
    t->size = (size_t)size;
    return !r->broken && (t->data = next(r, t->size)) != NULL;
}
/* A key has room for the "/" that clients put before it. */
static bool next_key(reader *r, text *t) { return next_text(r, TD_STORE_MOST_KEY + 1, t); }
static bool next_value(reader *r, text *t) { return next_text(r, TD_STORE_MOST_VALUE, t); }
static bool next_count(reader *r, uint64_t *n)
{
    if (!next_number(r, n))
        return false;
    r->broken = *n > TD_STORE_MOST_KEYS;
    return !r->broken;
}

/* ---- answering.  A client that can't be answered, or breaks a rule, is closed: what isn't 0 ends up there. */

static int answer_byte(client *c, int byte) { return bytes_add(&c->peer.out, &(char){(char)byte}, 1); }
static int answer_number(client *c, int64_t number) { return bytes_add_number(&c->peer.out, (uint64_t)number); }
static int answer_blob(client *c, const td_blob *b) { return bytes_add_blob(&c->peer.out, b->data, b->size); }

static bool has_all(const server *s, const td_blobs *keys)
{
    for (int64_t i = 0; i < keys->count; i++)
        if (!table_has(&s->data, (text){keys->items[i].data, keys->items[i].size}))
            return false;
    return true;
}

/* Answers the client's wait if it is over. */
static int look_at_wait(const server *s, client *c)
{
    if (!has_all(s, &c->keys))
        return 0;
    const td_blob *value = c->gets ? table_get(&s->data, (text){c->keys.items[0].data, c->keys.items[0].size}) : NULL;
    int status = !c->gets ? answer_byte(c, STOP_WAITING) : value ? answer_blob(c, value) : -1;
    c->waits = c->gets = false;
    td_blobs_free(&c->keys);
    return status;
}
static int wait_for_keys(const server *s, client *c)
{
    c->waits = true;
    return look_at_wait(s, c);
}

enum { INCOMPLETE = 1, BROKEN = -1 };

static int read_keys(reader *r, td_blobs *keys)
{
    uint64_t n;
    text key;
    if (!next_count(r, &n))
        return INCOMPLETE;
    for (uint64_t i = 0; i < n; i++) {
        if (!next_key(r, &key))
            return INCOMPLETE;
        if (td_blobs_add(keys, td_blob_new(key.data, key.size)) != 0)
            return BROKEN;
    }
    return 0;
}

static int set(server *s, client *c, reader *r)
{
    text key, value;
    (void)c;
    return next_key(r, &key) && next_value(r, &value) ? table_set(&s->data, key, value.data, value.size) : INCOMPLETE;
}
static int append(server *s, client *c, reader *r)
{
    text key, value;
    (void)c;
    if (!next_key(r, &key) || !next_value(r, &value))
        return INCOMPLETE;
    const td_blob *old = table_get(&s->data, key);
    return old && old->size + value.size > TD_STORE_MOST_VALUE ? BROKEN : table_append(&s->data, key, value.data, value.size);
}
static int compare_set(server *s, client *c, reader *r)
{
    text key, expected, desired;
    td_blob now;
    if (!next_key(r, &key) || !next_value(r, &expected) || !next_value(r, &desired))
        return INCOMPLETE;
    int status = table_compare_set(&s->data, key, (td_blob){(void *)expected.data, expected.size}, (td_blob){(void *)desired.data, desired.size}, &now);
    if (status == 0) {
        status = answer_blob(c, &now);
        td_blob_free(&now);
    }
    return status;
}
/* Clients wait for a key before they get it; one that is deleted in between is waited for again. */
static int get(server *s, client *c, reader *r)
{
    text key;
    if (!next_key(r, &key))
        return INCOMPLETE;
    c->gets = true;
    return td_blobs_add(&c->keys, td_blob_new(key.data, key.size)) == 0 ? wait_for_keys(s, c) : BROKEN;
}
static int add(server *s, client *c, reader *r)
{
    text key;
    uint64_t amount;
    int64_t sum;
    if (!next_key(r, &key) || !next_number(r, &amount))
        return INCOMPLETE;
    return table_add(&s->data, key, (int64_t)amount, &sum) == 0 ? answer_number(c, sum) : BROKEN;
}
static int check(server *s, client *c, reader *r)
{
    td_blobs keys = {0};
    int status = read_keys(r, &keys);
    if (status == 0)
        status = answer_byte(c, has_all(s, &keys) ? READY : NOT_READY);
    td_blobs_free(&keys);
    return status;
}
static int wait_message(server *s, client *c, reader *r)
{
    td_blobs keys = {0};
    int status = read_keys(r, &keys);
    if (status != 0) {
        td_blobs_free(&keys);
        return status;
    }
    c->keys = keys;
    return wait_for_keys(s, c);
}
static int delete(server *s, client *c, reader *r)
{
    text key;
    return next_key(r, &key) ? answer_number(c, table_delete(&s->data, key)) : INCOMPLETE;
}
static int multi_get(server *s, client *c, reader *r)
{
    td_blobs keys = {0};
    int status = read_keys(r, &keys);
    for (int64_t i = 0; i < keys.count && status == 0; i++) {
        const td_blob *value = table_get(&s->data, (text){keys.items[i].data, keys.items[i].size});
        status = value && c->peer.out.size + value->size <= MOST_MESSAGE ? answer_blob(c, value) : BROKEN;
    }
    td_blobs_free(&keys);
    return status;
}
/* Looks first whether all has come, so that nobody sees a part. */
static int multi_set(server *s, client *c, reader *r)
{
    (void)c;
    for (int take = 0; take < 2; take++) {
        uint64_t n;
        text key, value;
        size_t at = r->at;
        if (!next_count(r, &n))
            return INCOMPLETE;
        for (uint64_t i = 0; i < n; i++) {
            if (!next_key(r, &key) || !next_value(r, &value))
                return INCOMPLETE;
            if (take && table_set(&s->data, key, value.data, value.size) != 0)
                return BROKEN;
        }
        if (!take)
            r->at = at;
    }
    return 0;
}
static int push(server *s, client *c, reader *r)
{
    text key, value;
    (void)c;
    return next_key(r, &key) && next_value(r, &value) ? table_push(&s->data, key, value.data, value.size) : INCOMPLETE;
}
static int pop(server *s, client *c, reader *r)
{
    text key;
    td_blob value;
    if (!next_key(r, &key))
        return INCOMPLETE;
    if (!table_pop(&s->data, key, &value))
        return answer_number(c, 0);
    int status = answer_number(c, 1) == 0 ? answer_blob(c, &value) : BROKEN;
    td_blob_free(&value);
    return status;
}
static int queue_len(server *s, client *c, reader *r)
{
    text key;
    return next_key(r, &key) ? answer_number(c, table_queue_len(&s->data, key)) : INCOMPLETE;
}
static int list_keys(const server *s, client *c)
{
    td_blobs keys = {0};
    int status = table_list(&s->data, &keys) == 0 ? answer_number(c, keys.count) : BROKEN;
    for (int64_t i = 0; i < keys.count && status == 0; i++)
        status = answer_blob(c, &keys.items[i]);
    td_blobs_free(&keys);
    return status;
}
/* As td_store_barrier does it with other messages, so that both kinds of clients meet. */
static int barrier(server *s, client *c, reader *r)
{
    text key;
    uint64_t world_size;
    int64_t sum;
    if (!next_key(r, &key) || !next_number(r, &world_size))
        return INCOMPLETE;
    bytes members = {0}, last = {0};
    int status = bytes_add(&members, key.data, key.size) | bytes_add(&members, "/num_members", sizeof "/num_members" - 1) |
                 bytes_add(&last, key.data, key.size) | bytes_add(&last, "/last_member", sizeof "/last_member" - 1);
    if (status == 0)
        status = table_add(&s->data, (text){members.data, members.size}, 1, &sum);
    if (status == 0 && sum == (int64_t)world_size)
        status = table_set(&s->data, (text){last.data, last.size}, "1", 1);
    if (status == 0)
        status = td_blobs_add(&c->keys, td_blob_new(last.data, last.size));
    bytes_free(&members), bytes_free(&last);
    return status == 0 ? wait_for_keys(s, c) : BROKEN;
}

static int validate(client *c, reader *r)
{
    const char *p = next(r, sizeof(uint32_t));
    uint32_t number;
    if (!p)
        return INCOMPLETE;
    memcpy(&number, p, sizeof number);
    c->valid = number == VALIDATION;
    return c->valid ? 0 : BROKEN;
}
static int ping(client *c, reader *r)
{
    const char *p = next(r, sizeof(uint32_t));
    return p ? bytes_add(&c->peer.out, p, sizeof(uint32_t)) : INCOMPLETE;
}
static int cancel_wait(client *c)
{
    c->waits = c->gets = false;
    td_blobs_free(&c->keys);
    return answer_byte(c, WAIT_CANCELED);
}

static int take_message(server *s, client *c, reader *r)
{
    const char *kind = next(r, 1);
    if (!kind)
        return INCOMPLETE;
    if (!c->valid)
        return *kind == ASK_VALIDATE ? validate(c, r) : BROKEN;
    if (c->waits && *kind != ASK_CANCEL_WAIT)
        return BROKEN;              /* a client that waits says nothing but that it doesn't any longer */
    switch (*kind) {
    case ASK_SET: return set(s, c, r);
    case ASK_COMPARE_SET: return compare_set(s, c, r);
    case ASK_GET: return get(s, c, r);
    case ASK_ADD: return add(s, c, r);
    case ASK_CHECK: return check(s, c, r);
    case ASK_WAIT: return wait_message(s, c, r);
    case ASK_NUM_KEYS: return answer_number(c, s->data.values.count);
    case ASK_DELETE: return delete(s, c, r);
    case ASK_APPEND: return append(s, c, r);
    case ASK_MULTI_GET: return multi_get(s, c, r);
    case ASK_MULTI_SET: return multi_set(s, c, r);
    case ASK_CANCEL_WAIT: return cancel_wait(c);
    case ASK_PING: return ping(c, r);
    case ASK_PUSH: return push(s, c, r);
    case ASK_POP: return pop(s, c, r);
    case ASK_QUEUE_LEN: return queue_len(s, c, r);
    case ASK_LIST_KEYS: return list_keys(s, c);
    case ASK_BARRIER: return barrier(s, c, r);
    default: return BROKEN;
    }
}

static bool makes_keys(int kind)
{
    return kind == ASK_SET || kind == ASK_COMPARE_SET || kind == ASK_ADD || kind == ASK_APPEND || kind == ASK_MULTI_SET || kind == ASK_PUSH ||
           kind == ASK_BARRIER;
}

static int64_t take(loop *l, peer *p, const char *data, size_t size)
{
    server *s = l->context;
    reader r = {.data = data, .size = size};
    int status = take_message(s, (client *)p, &r);
    p->needed = r.needed;
    if (status != 0 || r.broken)
        return r.broken || status == BROKEN ? -1 : 0;
    for (int i = 0; makes_keys(data[0]) && i < l->count; i++) {
        client *other = (client *)l->peers[i];
        if (other->waits && !other->peer.failed) {
            other->peer.failed = look_at_wait(s, other) != 0;
            loop_flush(&other->peer);
        }
    }
    return (int64_t)r.at;
}

static void forget(peer *p) { td_blobs_free(&((client *)p)->keys); }

static const protocol store_protocol = {sizeof(client), take, forget};

/* ---- servers */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static server         *shared_ones;

server *server_start(int port, int descriptor, bool shared)
{
    pthread_mutex_lock(&lock);
    server *s = shared && port ? shared_ones : NULL;
    while (s && (s->loop.port != port || s->loop.process != getpid()))
        s = s->next;
    if (s) {
        s->count++;
        if (descriptor >= 0)
            close(descriptor);
    } else if ((s = td_mem_alloc_zero(sizeof *s))) {
        s->count = 1;
        if (loop_start(&s->loop, &store_protocol, s, descriptor, port) != 0) {
            td_mem_free(s, sizeof *s);
            s = NULL;
        } else if (shared) {
            s->next = shared_ones, shared_ones = s;
        }
    }
    pthread_mutex_unlock(&lock);
    return s;
}

int server_port(const server *s) { return s->loop.port; }

void server_release(server *s)
{
    if (!s)
        return;
    pthread_mutex_lock(&lock);
    bool last = --s->count == 0;
    for (server **at = &shared_ones; last && *at; at = &(*at)->next)
        if (*at == s) {
            *at = s->next;
            break;
        }
    pthread_mutex_unlock(&lock);
    if (!last)
        return;
    loop_stop(&s->loop);
    table_free(&s->data);
    td_mem_free(s, sizeof *s);
}
