/* The PMI-1 protocol, by which MPI_Init of processes that nobody launched together find one another.
 *
 * It is lines of "key=value" words that begin with "cmd=".  A process says its number, puts its addresses under keys, and gets those of
 * the others after a barrier.  There is one namespace, and nothing is spawned. */
#include <stdio.h>
#include <stdarg.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include "base/base.h"
#include "group/loop.h"
#include "group/table.h"

enum { MOST_LINE = 8192, MOST_KEY = 256, MOST_VALUE = 4096 };

typedef struct process {
    peer    peer;
    td_pmi *server;             /* that it has said its number to; NULL */
    int     rank;
    bool    waits, done;        /* in the barrier; has said that it is done */
} process;

struct td_pmi {
    int   size;
    bool  lost;                 /* one that had said its number has gone: no barrier is passed from then on */
    process **processes;        /* by rank; NULL */
    char  name[64];             /* of the namespace: MPICH names memory that it shares after it, so no two servers have the same */
    loop  loop;
    table data;
};

static int say(process *p, const char *format, ...) TD_PRINTF(2, 3);
static int say(process *p, const char *format, ...)
{
    char line[MOST_LINE];
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    return n > 0 && n < MOST_LINE ? bytes_add(&p->peer.out, line, (size_t)n) : -1;
}

/* What follows " name=" in a line, up to the next space; an empty text if there is nothing. */
static text word(text line, const char *name)
{
    size_t length = strlen(name);
    for (size_t at = 0; at + length < line.size; at++) {
        if ((at == 0 || line.data[at - 1] == ' ') && memcmp(line.data + at, name, length) == 0 && line.data[at + length] == '=') {
            size_t from = at + length + 1, to = from;
            while (to < line.size && line.data[to] != ' ')
                to++;
            return (text){line.data + from, to - from};
        }
    }
    return (text){"", 0};
}
static bool is(text t, const char *what) { return t.size == strlen(what) && memcmp(t.data, what, t.size) == 0; }

static int greet(td_pmi *s, process *p, text line)
{
    text id = word(line, "pmiid");
    int64_t rank = -1;
    if (number_of((td_blob){(void *)id.data, id.size}, id, &rank) != 0 || rank < 0 || rank >= s->size || p->server || s->processes[rank])
        return -1;
    p->server = s, p->rank = (int)rank, s->processes[rank] = p;
    return say(p, "cmd=initack rc=0\ncmd=set size=%d\ncmd=set rank=%d\ncmd=set debug=0\n", s->size, (int)rank);
}

static int put(td_pmi *s, process *p, text line)
{
    text key = word(line, "key"), value = word(line, "value");
    if (key.size == 0 || key.size > MOST_KEY || value.size > MOST_VALUE || s->data.values.count >= TD_STORE_MOST_KEYS)
        return say(p, "cmd=put_result rc=-1 msg=too_long\n");
    return table_set(&s->data, key, value.data, value.size) == 0 ? say(p, "cmd=put_result rc=0 msg=success\n") : -1;
}

static int get(const td_pmi *s, process *p, text line)
{
    const td_blob *value = table_get(&s->data, word(line, "key"));
    return value ? say(p, "cmd=get_result rc=0 msg=success value=%.*s\n", (int)value->size, (const char *)value->data) :
                   say(p, "cmd=get_result rc=-1 msg=key_not_found value=unknown\n");
}

/* The last of the processes lets all of them out. */
static int barrier(const td_pmi *s, process *p)
{
    int waiting = 0;
    p->waits = true;
    for (int i = 0; i < s->size; i++)
        waiting += s->processes[i] && s->processes[i]->waits;
    for (int i = 0; i < s->size && waiting == s->size; i++) {
        process *other = s->processes[i];
        other->waits = false;
        other->peer.failed = other->peer.failed || say(other, "cmd=barrier_out rc=0\n") != 0;
        loop_flush(&other->peer);
    }
    return s->lost ? -1 : 0;
}

static int answer(td_pmi *s, process *p, text line)
{
    text command = word(line, "cmd");
    if (is(command, "initack"))
        return greet(s, p, line);
    if (!p->server)
        return -1;
    if (is(command, "init"))
        return say(p, "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n");
    if (is(command, "get_maxes"))
        return say(p, "cmd=maxes rc=0 kvsname_max=%d keylen_max=%d vallen_max=%d\n", 64, MOST_KEY, MOST_VALUE);
    if (is(command, "get_appnum"))
        return say(p, "cmd=appnum rc=0 appnum=0\n");
    if (is(command, "get_my_kvsname"))
        return say(p, "cmd=my_kvsname rc=0 kvsname=%s\n", s->name);
    if (is(command, "get_universe_size"))
        return say(p, "cmd=universe_size rc=0 size=%d\n", s->size);
    if (is(command, "put"))
        return put(s, p, line);
    if (is(command, "get"))
        return get(s, p, line);
    if (is(command, "barrier_in"))
        return barrier(s, p);
    if (is(command, "finalize"))
        return p->done = true, say(p, "cmd=finalize_ack rc=0\n");
    return -1;                      /* "abort", too: the process ends by itself */
}

static int64_t take(loop *l, peer *p, const char *data, size_t size)
{
    const char *end = memchr(data, '\n', size < MOST_LINE ? size : MOST_LINE);
    if (!end)
        return size < MOST_LINE ? 0 : -1;
    text line = {data, (size_t)(end - data)};
    return memchr(data, 0, line.size) || answer(l->context, (process *)p, line) != 0 ? -1 : (int64_t)line.size + 1;
}

/* Who waits for it in a barrier would wait for ever. */
static void forget(peer *peer)
{
    td_pmi *s = ((process *)peer)->server;
    if (!s)
        return;
    s->lost |= !((process *)peer)->done;
    s->processes[((process *)peer)->rank] = NULL;
    for (int i = 0; i < s->size; i++)
        if (s->lost && s->processes[i] && s->processes[i]->waits)
            shutdown(s->processes[i]->peer.fd, SHUT_RDWR);
}

static const protocol pmi_protocol = {sizeof(process), take, forget};

static void server_free(td_pmi *s)
{
    td_mem_free(s->processes, sizeof(process *) * (size_t)s->size);
    td_mem_free(s, sizeof *s);
}

td_pmi *td_pmi_serve(int size)
{
    if (size < 1)
        return td_fail(TD_E_VALUE, "a PMI server is for at least 1 process, not %d", size);
    td_pmi *s = td_mem_alloc_zero(sizeof *s);
    if (!s)
        return NULL;
    if (!(s->processes = td_mem_alloc_zero(sizeof(process *) * (size_t)size)))
        return td_mem_free(s, sizeof *s), NULL;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    snprintf(s->name, sizeof s->name, "tede_%d_%lld_%ld", (int)getpid(), (long long)now.tv_sec, now.tv_nsec);
    s->size = size;
    if (loop_start(&s->loop, &pmi_protocol, s, -1, 0) == 0)
        return s;
    server_free(s);
    return NULL;
}

int td_pmi_port(const td_pmi *s) { return s->loop.port; }

void td_pmi_release(td_pmi *s)
{
    if (!s)
        return;
    loop_stop(&s->loop);
    table_free(&s->data);
    server_free(s);
}
