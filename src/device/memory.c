/* Memory of devices: blocks that are kept for reuse in the order of streams.
 *
 * To ask a device for memory is slow, and to return it makes everything wait.  So the device gives segments; blocks are cut from
 * them and joined again with free neighbours, and a segment is returned by empty_cache or when memory is short.
 *
 * Invariant: a free block belongs to one stream, and all work that used it was queued on that stream before the block was freed (or
 * has happened).  What takes the block next is queued on the same stream later, so nobody waits.  A block that a second stream used
 * (td_stream_uses) waits in `pending` until an event of that stream has happened.
 *
 * Sizes of segments are those of PyTorch's caching allocator: 2 MiB for blocks up to 1 MiB, 20 MiB up to 10, else whole 2 MiB.  A free
 * block is found in constant time, by the two-level bins of Masmano et al., "TLSF: a new dynamic memory allocator for real-time
 * systems" (2004).
 *
 * What a stream allocates while it records a graph is cut from segments of that graph's pool, and reused within graphs of the pool alone: a launch writes there
 * at any time.
 *
 * Devices without streams have nothing to order by: each block is the device's own. */
#include "device/device.h"
#include "device/follow.h"
#include "base/watch.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Atomic operations on what is smaller than WORD bytes take the word around it. */
enum { ROUND = 512, WORD = 4, MIB = 1 << 20, SMALL = MIB, SUBDIVISIONS = 8, BINS = 56 * SUBDIVISIONS };

typedef struct user { struct user *next; td_stream *stream; td_event *event; } user;

typedef struct block {
    char         *start;
    size_t        bytes;
    td_stream    *stream;
    struct block *before, *after;       /* neighbours in the segment */
    struct block *previous, *next;      /* of free blocks: in the bin; of live ones `next`: in the table; of pending ones: in the list */
    user         *users;                /* other streams, while it is live or pending */
    bool          live, small;
    uint64_t      owner;                /* the pool of graphs whose segment it is cut from; 0: everybody's */
} block;

/* The free blocks of a stream, small and large segments' apart. */
typedef struct arena {
    struct arena *next;
    td_stream    *stream;
    bool          small;
    uint64_t      owner;
    uint64_t      filled;               /* a bit for each power of two that has a filled bin */
    uint8_t       subfilled[BINS / SUBDIVISIONS];
    block        *bins[BINS];
} arena;

/* Of an index of a device. */
typedef struct pool {
    pthread_mutex_t  lock;
    td_device        device;
    td_device_memory stats;
    arena           *arenas;
    block           *pending, *spare;   /* records for reuse */
    int              recordings;        /* streams that record graphs: nothing may be waited for */
    block          **table;             /* live blocks by address, chained */
    size_t           table_size, n_live;
} pool;

static pool *pools[TD_DEVICE_TYPES];
static bool  kept = true;               /* as for the CPU's memory: TEDE_NO_CACHE=1 returns every block to the device, exact in size */

int td_device_memory_prepare(int type, int count)
{
    pool *made = calloc((size_t)count, sizeof *made);
    if (!made)
        return td_error(TD_E_MEMORY, "no memory for a device's pools of memory");
    for (int i = 0; i < count; i++) {
        made[i].device = (td_device){(int8_t)type, (int8_t)i};
        pthread_mutex_init(&made[i].lock, NULL);
    }
    const char *asked = getenv("TEDE_NO_CACHE");
    kept = !asked || !*asked || !strcmp(asked, "0");
    __atomic_store_n(&pools[type], made, __ATOMIC_RELEASE);
    return 0;
}

static pool *pool_of(td_device device) { return &__atomic_load_n(&pools[device.type], __ATOMIC_ACQUIRE)[device.index]; }

/* ---- records of blocks */

static block *new_record(pool *p)
{
    block *b = p->spare;
    if (b)
        p->spare = b->next;
    else if (!(b = malloc(sizeof *b)))
        return td_fail(TD_E_MEMORY, "no memory for the record of a block");
    *b = (block){0};
    return b;
}
static void drop_record(pool *p, block *b)
{
    b->next = p->spare;
    p->spare = b;
}

static size_t place_in(const pool *p, const void *start) { return ((uintptr_t)start / ROUND * 0x9E3779B97F4A7C15u >> 20) & (p->table_size - 1); }

static int grow_table(pool *p)
{
    size_t old_size = p->table_size, size = old_size ? 2 * old_size : 256;
    block **old = p->table, **table = calloc(size, sizeof *table);
    if (!table)
        return td_error(TD_E_MEMORY, "no memory for the table of a device's blocks");
    p->table = table;
    p->table_size = size;
    for (size_t i = 0; i < old_size; i++)
        for (block *b = old[i], *next; b; b = next) {
            next = b->next;
            size_t at = place_in(p, b->start);
            b->next = table[at];
            table[at] = b;
        }
    free(old);
    return 0;
}

static block **find_live(pool *p, const void *start)
{
    block **at = p->table_size ? &p->table[place_in(p, start)] : NULL;
    while (at && *at && (*at)->start != start)
        at = &(*at)->next;
    return at && *at ? at : NULL;
}

/* ---- bins: powers of two, each divided in eight */

static int bin_of(size_t bytes)
{
    size_t units = bytes / ROUND;
    int power = 63 - __builtin_clzll(units | 1);
    return power * SUBDIVISIONS + (int)(power >= 3 ? units >> (power - 3) & 7 : units << (3 - power) & 7);
}
/* The first bin all of whose blocks have so many bytes. */
static int bin_for(size_t bytes)
{
    int bin = bin_of(bytes), power = bin / SUBDIVISIONS;
    bool exact = power <= 3 || !((bytes / ROUND) & (((size_t)1 << (power - 3)) - 1));
    return exact ? bin : bin + 1;
}

static arena *arena_of(pool *p, td_stream *stream, bool small, uint64_t owner)
{
    for (arena *a = p->arenas; a; a = a->next)
        if (a->stream == stream && a->small == small && a->owner == owner)
            return a;
    arena *a = calloc(1, sizeof *a);
    if (!a)
        return td_fail(TD_E_MEMORY, "no memory for a stream's free blocks");
    a->next = p->arenas;
    a->stream = stream;
    a->small = small;
    a->owner = owner;
    return p->arenas = a;
}

static void put_free(arena *a, block *b)
{
    int bin = bin_of(b->bytes);
    b->previous = NULL;
    b->next = a->bins[bin];
    if (b->next)
        b->next->previous = b;
    a->bins[bin] = b;
    a->filled |= (uint64_t)1 << bin / SUBDIVISIONS;
    a->subfilled[bin / SUBDIVISIONS] |= (uint8_t)(1 << bin % SUBDIVISIONS);
}

static void take_free(arena *a, block *b)
{
    int bin = bin_of(b->bytes), power = bin / SUBDIVISIONS;
    if (b->next)
        b->next->previous = b->previous;
    if (b->previous)
        b->previous->next = b->next;
    else if (!(a->bins[bin] = b->next) && !(a->subfilled[power] &= (uint8_t)~(1 << bin % SUBDIVISIONS)))
        a->filled &= ~((uint64_t)1 << power);
    b->next = b->previous = NULL;
}

static block *find_free(arena *a, size_t bytes)
{
    int bin = bin_for(bytes), power = bin / SUBDIVISIONS;
    if (bin >= BINS)
        return NULL;
    unsigned rest = a->subfilled[power] & (0xFFu << bin % SUBDIVISIONS);
    if (!rest) {
        uint64_t above = power < 63 ? a->filled & ~(((uint64_t)2 << power) - 1) : 0;
        if (!above)
            return NULL;
        power = __builtin_ctzll(above);
        rest = a->subfilled[power];
    }
    return a->bins[power * SUBDIVISIONS + __builtin_ctz(rest)];
}

/* ---- segments */

static size_t segment_bytes(size_t bytes)
{
    return bytes <= SMALL ? 2 * MIB : bytes < 10 * MIB ? 20 * MIB : (bytes + 2 * MIB - 1) / (2 * MIB) * (2 * MIB);
}

static void note_reserved(pool *p, size_t bytes)
{
    p->stats.reserved += bytes;
    p->stats.total_reserved += bytes;
    if (++p->stats.segments > p->stats.peak_segments)
        p->stats.peak_segments = p->stats.segments;
    if (p->stats.reserved > p->stats.peak_reserved)
        p->stats.peak_reserved = p->stats.reserved;
}

/* Of what the stream has been asked for; the lock of who follows it (replay.c) isn't taken under this one. */
static int drain(td_stream *stream)
{
    const td_device device = td_stream_device(stream);
    return td_device_of(device.type)->stream_synchronize(device, td_stream_raw(stream));
}

/* Segments all of which is free, back to the device; their streams have done what used them, and keep nothing back.  With the lock held. */
static void release_segments(pool *p)
{
    const td_device_library *library = td_device_of(p->device.type);
    for (arena *a = p->arenas; a && !p->recordings; a = a->next) {
        bool waited = false;
        if (__atomic_load_n(&td_stream_following(a->stream)->keeps, __ATOMIC_ACQUIRE))
            continue;
        for (int bin = 0; bin < BINS; bin++)
            for (block *b = a->bins[bin], *next; b; b = next) {
                next = b->next;
                if (b->before || b->after || a->owner)
                    continue;
                if (!waited && drain(a->stream))
                    return td_error_clear();
                waited = true;
                take_free(a, b);
                library->free(p->device, b->start, b->bytes);
                p->stats.reserved -= b->bytes;
                p->stats.total_returned += b->bytes;
                p->stats.segments--;
                p->stats.device_frees++;
                drop_record(p, b);
            }
    }
}

static void free_block(pool *p, block *b);

/* Blocks that another stream used: those whose events have happened, or all after waiting. */
static void settle_pending(pool *p, bool wait)
{
    for (block **at = &p->pending; *at && !p->recordings;) {
        block *b = *at;
        if (b->owner) {
            at = &b->next;
            continue;
        }
        while (b->users) {
            user *u = b->users;
            int done = !u->event ? 1 : wait ? (td_event_drain(u->event) ? -1 : 1) : td_event_query(u->event);
            if (done == 0)
                break;
            if (done < 0)
                td_error_clear();
            b->users = u->next;
            td_event_release(u->event);
            free(u);
        }
        if (b->users) {
            at = &b->next;
            continue;
        }
        *at = b->next;
        free_block(p, b);
    }
}

static void *ask_device(pool *p, size_t bytes)
{
    const td_device_library *library = td_device_of(p->device.type);
    if (p->stats.limit && p->stats.reserved + bytes > p->stats.limit)
        return NULL;
    p->stats.device_allocations++;
    return library->alloc(p->device, bytes);
}

static const char *bytes_text(uint64_t bytes, char *buffer)
{
    const char *unit = bytes < 1024 ? "bytes" : bytes < MIB ? "KiB" : bytes < 1024u * MIB ? "MiB" : "GiB";
    double count = (double)bytes / (bytes < 1024 ? 1 : bytes < MIB ? 1024 : bytes < 1024u * MIB ? MIB : 1024.0 * MIB);
    snprintf(buffer, 32, bytes < 1024 ? "%.0f %s" : "%.2f %s", count, unit);
    return buffer;
}

static void *out_of_memory(pool *p, size_t bytes)
{
    char asked[32], total[32], unused[32], allocated[32], idle[32], limit[48] = "", name[32], cause[256] = "";
    size_t left = 0, all = 0;
    const td_device_library *library = td_device_of(p->device.type);
    if (td_error_code() != TD_OK)
        snprintf(cause, sizeof cause, " (%s)", td_error_message());
    p->stats.failures++;
    if (!library->memory_info || library->memory_info(p->device.index, &left, &all))
        left = all = 0;
    if (p->stats.limit)
        snprintf(limit, sizeof limit, " %s allowed;", bytes_text(p->stats.limit, total));
    return td_fail(TD_E_MEMORY, "%s out of memory. Tried to allocate %s. The device has a total capacity of %s of which %s is free.%s Of the allocated "
                   "memory %s is allocated by tede, and %s is reserved by tede but unallocated.%s", td_device_str(p->device, name),
                   bytes_text(bytes, asked), all ? bytes_text(all, total) : "an unknown size", all ? bytes_text(left, unused) : "an unknown part",
                   limit, bytes_text(p->stats.allocated, allocated), bytes_text(p->stats.reserved - p->stats.allocated, idle), cause);
}

/* A free block for the arena, from the device; when it has no memory, after the cache was emptied. */
static block *new_segment(pool *p, arena *a, size_t bytes)
{
    size_t whole = kept ? segment_bytes(bytes) : bytes;
    block *b = new_record(p);
    if (!b)
        return NULL;
    void *start = ask_device(p, whole);
    if (!start) {
        p->stats.retries++;
        settle_pending(p, true);
        release_segments(p);
        td_error_clear();
        start = ask_device(p, whole);
        if (!start && whole > bytes)
            start = ask_device(p, whole = bytes);
    }
    if (!start) {
        drop_record(p, b);
        return out_of_memory(p, bytes);
    }
    *b = (block){.start = start, .bytes = whole, .stream = a->stream, .small = a->small, .owner = a->owner};
    note_reserved(p, whole);
    put_free(a, b);
    return b;
}

/* Cut what is left over from a block that is taken, unless that is too little to be of use. */
static int cut(pool *p, arena *a, block *b, size_t bytes)
{
    size_t rest = b->bytes - bytes;
    if (!kept || rest < (a->small ? ROUND : SMALL))
        return 0;
    block *tail = new_record(p);
    if (!tail)
        return -1;
    *tail = (block){.start = b->start + bytes, .bytes = rest, .stream = b->stream, .small = b->small, .before = b, .after = b->after,
                    .owner = b->owner};
    if (b->after)
        b->after->before = tail;
    b->after = tail;
    b->bytes = bytes;
    put_free(a, tail);
    return 0;
}

static size_t rounded(size_t nbytes)
{
    const size_t unit = kept ? ROUND : WORD;
    return (nbytes + unit - 1) / unit * unit;
}

static void *take(pool *p, td_stream *stream, size_t nbytes)
{
    const size_t bytes = rounded(nbytes);
    if (p->pending)
        settle_pending(p, false);
    if (p->n_live >= p->table_size && grow_table(p))
        return NULL;
    const td_graph *graph = td_stream_graph(stream);
    arena *a = arena_of(p, stream, bytes <= SMALL, graph ? td_graph_pool(graph) : 0);
    block *b = a && (kept || a->owner) ? find_free(a, bytes) : NULL;
    if (a && !b)
        b = new_segment(p, a, bytes);
    if (!b)
        return NULL;
    take_free(a, b);
    if (cut(p, a, b, bytes)) {
        put_free(a, b);
        return NULL;
    }
    size_t at = place_in(p, b->start);
    b->live = true;
    b->next = p->table[at];
    p->table[at] = b;
    p->n_live++;
    if (++p->stats.blocks > p->stats.peak_blocks)
        p->stats.peak_blocks = p->stats.blocks;
    p->stats.allocations++;
    p->stats.allocated += b->bytes;
    p->stats.total_allocated += b->bytes;
    if (p->stats.allocated > p->stats.peak_allocated)
        p->stats.peak_allocated = p->stats.allocated;
    return b->start;
}

/* Joined with its free neighbours, into the bins. */
static void free_block(pool *p, block *b)
{
    arena *a = arena_of(p, b->stream, b->small, b->owner);
    b->live = false;
    if (b->after && !b->after->live) {
        block *after = b->after;
        take_free(a, after);
        b->bytes += after->bytes;
        if ((b->after = after->after))
            b->after->before = b;
        drop_record(p, after);
    }
    if (b->before && !b->before->live) {
        block *before = b->before;
        take_free(a, before);
        before->bytes += b->bytes;
        if ((before->after = b->after))
            before->after->before = before;
        drop_record(p, b);
        b = before;
    }
    put_free(a, b);
}

static void *new_block(td_device device, size_t nbytes)
{
    const td_device_library *library = td_device_of(device.type);
    if (!library->stream_new) {
        void *block = library->alloc(device, nbytes);
        return block || td_error_code() != TD_OK ? block : td_fail(TD_E_MEMORY, "%s: no memory for %zu bytes", library->name, nbytes);
    }
    td_stream *stream = td_stream_current(device);
    pool *p = pool_of(device);
    if (nbytes > (size_t)1 << 60)
        return td_fail(TD_E_MEMORY, "%s: no memory for %zu bytes", library->name, nbytes);
    pthread_mutex_lock(&p->lock);
    void *block = take(p, stream, nbytes);
    pthread_mutex_unlock(&p->lock);
    if (!block && td_stream_following(stream)->keeps && td_error_code() == TD_E_MEMORY) {
        td_error_clear();               /* what is kept back holds free memory */
        if (td_stream_settle(stream))
            return NULL;
        pthread_mutex_lock(&p->lock);
        block = take(p, stream, nbytes);
        pthread_mutex_unlock(&p->lock);
    }
    return block;
}

static void note(td_event_kind kind, td_device device, void *block, size_t nbytes)
{
    char name[32];
    TD_EMIT(.kind = kind, .name = td_device_str(device, name), .pointer = block, .numbers = {(int64_t)rounded(nbytes)});
}

void *td_device_block_new(td_device device, size_t nbytes)
{
    void *block = new_block(device, nbytes);
    if (block)
        note(TD_EVENT_ALLOCATE, device, block, nbytes);
    return block;
}

static void mark_users(td_device device, block *b)
{
    for (user *u = b->users; u; u = u->next)
        if (!(u->event = td_event_new(device, false)) || td_event_mark(u->event, u->stream)) {
            td_error_clear();           /* without an event: wait at once */
            if (td_stream_drain(u->stream))
                td_error_clear();
        }
}

void td_device_block_free(td_device device, void *start, size_t nbytes)
{
    if (start)
        note(TD_EVENT_FREE, device, start, nbytes);
    const td_device_library *library = td_device_of(device.type);
    if (!library->stream_new) {
        library->free(device, start, nbytes);
        return;
    }
    pool *p = pool_of(device);
    pthread_mutex_lock(&p->lock);
    block **at = find_live(p, start), *b = at ? *at : NULL;
    if (b) {
        *at = b->next;
        b->next = NULL;
        p->n_live--;
        p->stats.blocks--;
        p->stats.frees++;
        p->stats.allocated -= b->bytes;
        p->stats.total_freed += b->bytes;
        if (b->users && !b->owner) {    /* the block is nobody's meanwhile */
            pthread_mutex_unlock(&p->lock);
            mark_users(device, b);
            pthread_mutex_lock(&p->lock);
        }
        if (b->users) {
            b->next = p->pending;
            p->pending = b;
        } else {
            free_block(p, b);
        }
        if (!kept)
            release_segments(p);
    }
    pthread_mutex_unlock(&p->lock);
}

int td_device_block_used_on(void *start, td_stream *stream)
{
    td_device device = td_stream_device(stream);
    if (!td_device_of(device.type)->stream_new)
        return 0;
    pool *p = pool_of(device);
    int status = 0;
    pthread_mutex_lock(&p->lock);
    block **at = find_live(p, start);
    user *u = at && (*at)->stream != stream ? (*at)->users : NULL;
    bool known = !at || (*at)->stream == stream;
    for (; u && !known; u = u->next)
        known = u->stream == stream;
    if (!known && !(u = malloc(sizeof *u))) {
        status = td_error(TD_E_MEMORY, "no memory to note that a stream uses a block");
    } else if (!known) {
        *u = (user){(*at)->users, stream, NULL};
        (*at)->users = u;
    }
    pthread_mutex_unlock(&p->lock);
    return status;
}

/* ---- graphs */

void td_device_memory_recording(td_device device, int change)
{
    pool *p = pool_of(device);
    pthread_mutex_lock(&p->lock);
    p->recordings += change;
    pthread_mutex_unlock(&p->lock);
}

void td_device_memory_disown(td_device device, uint64_t owner)
{
    pool *p = pool_of(device);
    pthread_mutex_lock(&p->lock);
    for (size_t i = 0; i < p->table_size; i++)
        for (block *b = p->table[i]; b; b = b->next)
            b->owner = b->owner == owner ? 0 : b->owner;
    for (block *b = p->pending; b; b = b->next)
        b->owner = b->owner == owner ? 0 : b->owner;
    for (arena **at = &p->arenas, *a; (a = *at);) {
        arena *to = a->owner == owner ? p->arenas : NULL;
        if (!to) {
            at = &a->next;
            continue;
        }
        while (to && (to->stream != a->stream || to->small != a->small || to->owner))
            to = to->next;
        for (int bin = 0; bin < BINS; bin++)
            for (block *b = a->bins[bin], *next; b; b = next) {
                next = b->next;
                b->owner = 0;
                if (to)
                    put_free(to, b);
            }
        if (to) {
            *at = a->next;
            free(a);
        } else {
            a->owner = 0;
        }
    }
    if (!kept)
        release_segments(p);
    pthread_mutex_unlock(&p->lock);
}

/* ---- what programs ask for */

static pool *resolve(td_device *device)
{
    if (device->type <= TD_META)
        return td_fail(TD_E_VALUE, "memory is counted here for devices from outside, not for %s", td_device_name(device->type));
    return td_device_resolve(device) ? NULL : pool_of(*device);
}

int td_device_memory_stats(td_device device, td_device_memory *stats)
{
    pool *p = resolve(&device);
    if (!p)
        return -1;
    pthread_mutex_lock(&p->lock);
    *stats = p->stats;
    pthread_mutex_unlock(&p->lock);
    return 0;
}

int td_device_memory_reset_peak(td_device device)
{
    pool *p = resolve(&device);
    if (!p)
        return -1;
    pthread_mutex_lock(&p->lock);
    p->stats.peak_allocated = p->stats.allocated;
    p->stats.peak_reserved = p->stats.reserved;
    p->stats.peak_blocks = p->stats.blocks;
    p->stats.peak_segments = p->stats.segments;
    pthread_mutex_unlock(&p->lock);
    return 0;
}

int td_device_empty_cache(td_device device)
{
    pool *p = resolve(&device);
    if (!p || td_device_settle(device))
        return -1;
    pthread_mutex_lock(&p->lock);
    settle_pending(p, true);
    release_segments(p);
    pthread_mutex_unlock(&p->lock);
    return 0;
}

int td_device_set_memory_limit(td_device device, uint64_t bytes)
{
    pool *p = resolve(&device);
    if (!p)
        return -1;
    pthread_mutex_lock(&p->lock);
    p->stats.limit = bytes;
    pthread_mutex_unlock(&p->lock);
    return 0;
}

int td_device_memory_info(td_device device, size_t *unused, size_t *total)
{
    if (!resolve(&device))
        return -1;
    const td_device_library *library = td_device_of(device.type);
    if (!library->memory_info)
        return td_error(TD_E_NOT_IMPLEMENTED, "device '%s' doesn't say how much memory it has", library->name);
    return library->memory_info(device.index, unused, total);
}
