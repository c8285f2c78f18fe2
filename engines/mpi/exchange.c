/* Calls in which every rank of one machine sends to every other at once.
 *
 * MPI's algorithms keep the number of messages low, by rounds that wait for each other and by copies of all operands.  On one machine a message costs
 * little, a round costs a switch of processes where ranks share cores, and fresh pages of such copies cost more than the sums.  So here a rank sends each
 * other one its part, adds what comes, and, where all need the result, sends on the piece that it has added: one round, or two.  Where nothing is added
 * what comes is the result.
 *
 * What is received for adding goes through slots of one chunk for each rank, two of them, so that the next chunk is on its way while one is added, and is
 * still in the cache then.  Operands are added in the order of ranks, so where several ranks compute the same sum, it has the same bits. */
#include <stdlib.h>
#include <string.h>
#include "mpi.h"

enum { SLOTS = 2, STAGES = 2, CHUNK = 1 << 18, CALLS = 1 << 12 };
typedef enum stage { IDLE, ADDING, SENDING_ON } stage;

typedef struct slot {
    stage        stage;
    int64_t      first;                 /* its chunk's first element */
    char        *received;              /* a chunk of each other rank, in order */
    MPI_Request *requests;              /* to and from each other rank */
} slot;

struct exchange {
    MPI_Comm     comm;
    MPI_Datatype type;
    MPI_Op       op;
    int          rank, size, tag;
    bool         adds, sends_on;        /* which stages there are */
    int64_t      element, chunk, next, end;     /* bytes of an element; elements of a chunk, before those not begun, of the longest part */
    td_part     *from, *to;             /* by rank: what it is sent, and what it has computed in the end; `to` of this rank is its own result */
    slot         slots[SLOTS];
    char         room[];
};

static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

/* How much of a part is in a chunk. */
static int64_t within(const exchange *e, const td_part *part, int64_t first)
{
    const int64_t left = part->count - first;
    return left < 0 ? 0 : left < e->chunk ? left : e->chunk;
}
static char *at(const exchange *e, const td_part *part, int64_t first) { return (char *)part->data + first * e->element; }

/* Begin a stage of a slot's chunk: one message to each other rank and one from it, if there is anything in them. */
static int post(exchange *e, slot *s, stage stage)
{
    const int tag = ((e->tag * SLOTS + (int)(s - e->slots)) * STAGES + (stage == SENDING_ON)) * 2 + 1;
    const td_part *own = &e->to[e->rank];
    s->stage = stage;
    for (int step = 1, n = 0; step < e->size; step++) {
        const int to = (e->rank + step) % e->size, from = (e->rank + e->size - step) % e->size;
        const bool adding = stage == ADDING;
        const td_part *part = adding || !e->adds ? &e->from[to] : own;
        const int64_t comes = within(e, adding ? own : &e->to[from], s->first), goes = within(e, part, s->first);
        char *into = adding ? s->received + (from - (from > e->rank)) * e->chunk * e->element : at(e, &e->to[from], s->first);
        if (comes && mpi_check(MPI_Irecv_c(into, comes * e->element, MPI_BYTE, from, tag, e->comm, &s->requests[n++]), "MPI_Irecv_c"))
            return -1;
        if (goes && mpi_check(MPI_Isend_c(at(e, part, s->first), goes * e->element, MPI_BYTE, to, tag, e->comm, &s->requests[n++]),
                              "MPI_Isend_c"))
            return -1;
    }
    return 0;
}

/* A slot takes the next chunk, if there is one. */
static int begin(exchange *e, slot *s)
{
    s->stage = IDLE;
    if (e->next >= e->end)
        return 0;
    s->first = e->next;
    e->next += e->chunk;
    return post(e, s, e->adds ? ADDING : SENDING_ON);
}

/* Whether all messages of a slot are through; -1 with an error. */
static int arrived(const exchange *e, slot *s)
{
    for (int i = 0; i < 2 * (e->size - 1); i++) {
        MPI_Status status = {0};
        int done = 1;
        if (s->requests[i] != MPI_REQUEST_NULL && mpi_check(MPI_Test(&s->requests[i], &done, &status), "MPI_Test"))
            return -1;
        if (!done)
            return 0;
    }
    return 1;
}

/* The sum of a chunk, from the first rank's operand on; it is formed in this rank's result if that operand is its own, else in what the first rank sent. */
static int add(const exchange *e, const slot *s)
{
    const td_part *result = &e->to[e->rank];
    const int64_t n = within(e, result, s->first), room = e->chunk * e->element;
    char *own = at(e, &e->from[e->rank], s->first), *to = at(e, result, s->first), *sum = e->rank == 0 ? to : s->received;
    if (!n)
        return 0;
    if (sum == to && own != to)
        memcpy(to, own, (size_t)(n * e->element));
    for (int rank = 1; rank < e->size; rank++) {
        char *operand = rank == e->rank ? own : s->received + (rank - (rank > e->rank)) * room;
        if (mpi_check(MPI_Reduce_local_c(operand, sum, n, e->type, e->op), "MPI_Reduce_local_c"))
            return -1;
    }
    if (sum != to)
        memcpy(to, sum, (size_t)(n * e->element));
    return 0;
}

int exchange_test(exchange *e)
{
    bool busy = false, moved;
    do {
        moved = busy = false;
        for (slot *s = e->slots; s < e->slots + SLOTS; s++) {
            const int done = s->stage == IDLE ? 0 : arrived(e, s);
            if (done > 0) {
                const bool added = s->stage == ADDING;
                if ((added && add(e, s)) || (added && e->sends_on ? post(e, s, SENDING_ON) : begin(e, s)))
                    return -1;
                moved = true;
            }
            if (done < 0)
                return -1;
            busy |= s->stage != IDLE;
        }
    } while (moved && busy);
    return !busy;
}

exchange *exchange_begin(MPI_Comm comm, int rank, int size, uint32_t number, int64_t element, const td_part *from, const td_part *to, MPI_Datatype type,
                         MPI_Op op)
{
    const size_t parts = sizeof(td_part) * (size_t)size, requests = sizeof(MPI_Request) * 2 * (size_t)(size - 1);
    int64_t longest = 0;
    for (int i = 0; i < size; i++)
        longest = most(longest, most(from ? from[i].count : 0, to[i].count));
    const bool    adds = op != NULL;    /* else ranks needn't know each other's longest part, so a part is one message */
    const int64_t chunk = !adds || longest < CHUNK / element ? most(longest, 1) : CHUNK / element;
    const size_t  received = adds ? (size_t)(chunk * element) * (size_t)(size - 1) : 0;
    exchange *e = malloc(sizeof *e + 2 * parts + SLOTS * (requests + received));
    if (!e) {
        td_error(TD_E_MEMORY, "no memory for a call");
        return NULL;
    }
    *e = (exchange){.comm = comm, .type = type, .op = op, .rank = rank, .size = size, .tag = (int)(number % CALLS), .adds = adds,
                    .element = element, .chunk = chunk, .end = longest};
    e->from = (td_part *)e->room, e->to = e->from + size;
    for (int i = 0; i < size; i++)
        e->from[i] = from ? from[i] : to[rank];
    memcpy(e->to, to, parts);
    MPI_Request *free_requests = (MPI_Request *)(e->to + size);
    char *free_room = (char *)(free_requests + SLOTS * 2 * (size - 1));
    for (int i = 0; i < SLOTS; i++) {
        e->slots[i].requests = free_requests + i * 2 * (size - 1);
        e->slots[i].received = free_room + (size_t)i * received;
        for (int k = 0; k < 2 * (size - 1); k++)
            e->slots[i].requests[k] = MPI_REQUEST_NULL;
    }
    for (int i = 0; i < size; i++)
        e->sends_on |= i != rank && to[i].count;
    for (int i = 0; i < SLOTS; i++)
        if (begin(e, &e->slots[i]))
            return NULL;                /* what MPI may still read and write stays */
    return e;
}
