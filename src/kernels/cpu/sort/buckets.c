/* The order of many pairs (a sample sort): first into buckets of a few thousand, which are then put in order within the second cache.
 *
 * Each pair moves once into its bucket and is then ordered within a cache; splitting in two instead, it would move eight times
 * through memory, whose speed bounds long rows.  Where buckets begin a sample of the keys says, as far as the
 * first bits of keys tell: a table of those, which fits into the first cache, has each pair's bucket.  What it can't tell
 * apart makes a bucket that is large; pivots that are pairs, all different, split that one.  Of a million's 14.8 ms buckets take 5, splits 4, the last
 * 128 of each 3; to find buckets by comparisons with 16 keys at once takes 4 ms where the table takes 1.9. */
#include <string.h>
#include <tede/kernel.h>
#include "base/base.h"
#include "kernels/cpu/sort/order.h"

enum { BUCKETS = TD_BUCKETS, EACH = 8, SAMPLES = BUCKETS * EACH, BLOCK = 1024, MOST_PARTS = 16 };

typedef struct work {
    const td_order_table *table;
    const td_sorter      *s;
    const void           *row;              /* what pairs are made from, or NULL: then they are in `a` */
    void                 *values;           /* of a row in order, and where they were */
    int64_t              *indices;
    uint64_t             *a, *to;
    int64_t               n, parts;
    td_buckets            by;
    uint8_t              *which;            /* the bucket of each pair */
    int64_t               at[MOST_PARTS][BUCKETS];      /* how many of a part fall into a bucket; then, where the next one goes */
    bool                  mute[MOST_PARTS];
} work;

static int64_t part_start(const work *w, int64_t part) { return w->n / BLOCK * part / w->parts * BLOCK; }
static int64_t part_end(const work *w, int64_t part)   { return part + 1 == w->parts ? w->n : part_start(w, part + 1); }

/* Pairs [from, to): made from the row into `room`, or where they lie.  A row's are made twice, for counting
 * and for scattering, instead of being stored between. */
static const uint64_t *block_of(const work *w, int64_t from, int64_t to, uint64_t *room)
{
    if (!w->row)
        return w->a + from;
    w->table->pairs(w->s->dtype, w->row, from, to, w->s->descending, room);
    return room;
}

/* EACH samples per bucket, in order; every EACH-th is where a bucket begins.  The generator always starts with the same seed, so equal
 * rows take equal time. */
static void sample(work *w)
{
    uint64_t some[SAMPLES], spare[SAMPLES], seed = 1;
    for (int k = 0; k < SAMPLES; k++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        const int64_t i = (int64_t)((seed >> 32) * (uint64_t)w->n >> 32);
        some[k] = *block_of(w, i, i + 1, some + k);
    }
    w->table->sort(some, spare, SAMPLES, false);
    const uint32_t low = (uint32_t)(some[0] >> 32), range = (uint32_t)(some[SAMPLES - 1] >> 32) - low;
    const int bits = range ? 32 - __builtin_clz(range) : 0;
    w->by.low = low;
    w->by.shift = bits > TD_BUCKET_BITS ? (uint32_t)(bits - TD_BUCKET_BITS) : 0;
    w->by.most = range >> w->by.shift;
    uint32_t at = 0;
    for (int b = 0; b < BUCKETS; b++) {
        const uint32_t end = b + 1 < BUCKETS ? ((uint32_t)(some[(b + 1) * EACH] >> 32) - low) >> w->by.shift : w->by.most + 1;
        memset(w->by.bucket + at, b, end - at);
        at = end;
    }
}

/* Part by part, since each needs separate positions in every bucket: then no thread waits for another in scatter_parts(). */
static void count_parts(void *context, int64_t first, int64_t last)
{
    work *w = context;
    uint64_t room[BLOCK];
    for (int64_t part = first; part < last; part++)
        for (int64_t i = part_start(w, part), end = part_end(w, part); i < end; i += BLOCK) {
            const int64_t to = end - i < BLOCK ? end : i + BLOCK;
            w->table->bucket(block_of(w, i, to, room), to - i, &w->by, w->which + i, w->at[part]);
            if (w->row && w->s->dtype == TD_F32)
                w->mute[part] |= w->table->mute((const float *)w->row + i, to - i);
        }
}

/* The line that follows in a bucket is fetched meanwhile. */
static void scatter_parts(void *context, int64_t first, int64_t last)
{
    enum { LINE = 64 / sizeof(uint64_t), FEW = BLOCK / 4 };     /* leaves room for the buckets' lines in the first cache */
    work *w = context;
    uint64_t room[FEW];
    const uint8_t *which = w->which;
    uint64_t *target = w->to;
    for (int64_t part = first; part < last; part++) {
        int64_t *at = w->at[part];
        for (int64_t i = part_start(w, part), end = part_end(w, part); i < end; i += FEW) {
            const int64_t to = end - i < FEW ? end : i + FEW;
            const uint64_t *block = block_of(w, i, to, room);
            for (int64_t k = i; k < to; k++) {
                const int64_t place = at[which[k]]++;
                target[place] = block[k - i];
                __builtin_prefetch(target + place + LINE, 1);
            }
        }
    }
}

/* A bucket that would keep one thread busy while the others have ended. */
static bool is_large(const work *w, int64_t n) { return n > w->n / 8; }

/* A bucket's values and indices while its pairs are in the cache. */
static void take_bucket(const work *w, int64_t start, int64_t n)
{
    if (!w->row)
        return;
    td_sorter bucket = *w->s;
    bucket.pairs = (char *)(w->a + start);
    w->table->take(&bucket, w->row, n, (char *)w->values + start * td_itemsizes[bucket.dtype], w->indices + start);
}

static void order_buckets(void *context, int64_t first, int64_t last)
{
    work *w = context;
    const int64_t *ends = w->at[w->parts - 1];      /* by now, of all parts */
    for (int64_t b = first; b < last; b++) {
        const int64_t start = b ? ends[b - 1] : 0, n = ends[b] - start;
        if (n && !is_large(w, n)) {
            w->table->sort(w->to + start, w->a + start, n, true);
            take_bucket(w, start, n);
        }
    }
}

/* Counts become the positions where each part's share of each bucket begins: bucket after bucket and, within one, part after part. */
static void fill_buckets(work *w)
{
    const int64_t threads = td_num_threads(), most = w->n / BLOCK < MOST_PARTS ? w->n / BLOCK : MOST_PARTS;
    w->table = TD_ISA_PICK(td_order_table);
    w->parts = threads < most ? threads : most;
    sample(w);
    td_parallel_for(0, w->parts, 1, count_parts, w);
    int64_t at = 0;
    for (int b = 0; b < BUCKETS; b++)
        for (int64_t part = 0; part < w->parts; part++) {
            const int64_t count = w->at[part][b];
            w->at[part][b] = at;
            at += count;
        }
    td_parallel_for(0, w->parts, 1, scatter_parts, w);
}

/* Small buckets by one thread each; large ones afterwards, each by all threads. */
static void empty_buckets(work *w)
{
    const int64_t *ends = w->at[w->parts - 1];
    td_parallel_for(0, BUCKETS, 1, order_buckets, w);
    for (int64_t b = 0, start = 0; b < BUCKETS; start = ends[b++]) {
        const int64_t n = ends[b] - start;
        if (is_large(w, n)) {
            memcpy(w->a + start, w->to + start, sizeof *w->a * (size_t)n);
            td_order_by_halves(w->a + start, w->to + start, n);
            take_bucket(w, start, n);
        }
    }
}

void td_order_by_buckets(uint64_t *a, uint64_t *spare, uint8_t *which, int64_t n)
{
    work w = {.a = a, .to = spare, .which = which, .n = n};
    fill_buckets(&w);
    empty_buckets(&w);
}

void td_order_row_by_buckets(td_sorter *s, const void *row, void *values, int64_t *indices)
{
    uint64_t *a = (uint64_t *)s->pairs;
    work w = {.a = a, .to = (uint64_t *)s->spare, .which = (uint8_t *)a, .n = s->n, .s = s, .row = row, .values = values,
              .indices = indices};
    fill_buckets(&w);
    s->exact_keys = true;
    for (int64_t part = 0; part < w.parts; part++)
        s->exact_keys &= !w.mute[part];
    empty_buckets(&w);
}
