/* gather, scatter, index_select and their relatives: the iteration over the index space that a td_picking describes, see
 * ops/index/kernels.h.
 *
 * Dimensions are merged where they continue each other; what is left are rows, the last dimension, for which index_isa.c has the
 * loops.  Addresses come from data, so the processor foresees none of them: all loops fetch what comes next. */
#include "calls_kernels_cpu_move_index.h"
#include "kernels/cpu/move/index.h"

#include <tede/kernel.h>
#include "base/base.h"
#include "ops/iterate/iterator.h"

enum {
    PART = 8192,            /* elements of a row that are checked and picked at a time */
    SHORT = 64,             /* rows of so many or fewer are packed */
    MOST_PACKED = 256,      /* elements of packed rows */
};

typedef struct pick_job {
    td_picking          *p;
    td_index_loop       *loop;
    const td_index_table *table;
    int64_t              parts;     /* of a row: so long ones are shared too, and checked while they are in the cache */
    bool                 blocks;    /* copies of rows that lie together on both sides */
    bool                 stream;    /* ... and are written past the caches */
    int64_t              packed;    /* short rows that go through the loop as one; 0: none */
    int64_t              places[MOST_PACKED];
} pick_job;

static bool within(const pick_job *j, const td_index_row *r)
{
    int64_t low, high;
    j->table->range(r->index, r->n, &low, &high);
    return low >= 0 && high < j->p->limit;
}

/* Where the next row begins, whose memory is fetched meanwhile.  A fetch from a wrong address is harmless, so the indices need
 * no checks here.  `left` rows of the innermost of the other dimensions follow, this one included. */
static inline void look_ahead(const pick_job *j, int64_t left, td_index_row *r)
{
    const td_picking *p = j->p;
    const int d = p->ndim - 2;
    r->next_index = r->index, r->next_far = r->far;
    if (left > 1 && p->along[d + 1] != 0)
        r->next_index += p->along[d], r->next_far += p->far[d];
}

/* n rows that lie together, along one dimension; their memory is fetched some rows ahead. */
static void copy_blocks(const pick_job *j, const td_index_row *row, int64_t n)
{
    enum { ROWS = 8, MOST = 1024 };
    const td_picking *p = j->p;
    const int d = p->ndim - 2;
    const int64_t bytes = row->n * row->near_step, fetched = bytes < MOST ? bytes : MOST;
    const int64_t reach = row->reach, range = row->range, along = p->along[d], far_step = p->far[d], near_step = p->near[d];
    const int64_t *index = row->index;
    char *far = row->far, *near = row->near;
    for (int64_t i = 0; i < n; i++, index += along, far += far_step, near += near_step) {
        if (n - i > ROWS) {
            const char *later = far + ROWS * far_step + index[ROWS * along] * reach;
            for (int64_t line = 0; line < fetched; line += 64)
                __builtin_prefetch(later + line);
        }
        char *there = far + (index[0] + (index[0] < 0 ? range : 0)) * reach;
        if (j->stream)
            td_copy_streaming(near, there, bytes);
        else if (p->what == TD_PLACE_GET)
            memcpy(near, there, (size_t)bytes);
        else
            memcpy(there, near, (size_t)bytes);
    }
}

/* A part is checked just before it is picked, which brings its indices into the cache.  One with an index outside is left out; who
 * called td_pick_run() finds `outside` set, looks for the index and reports it. */
static inline void one_part(const pick_job *j, const td_index_row *r)
{
    if (j->p->limit && !within(j, r))
        __atomic_store_n(&j->p->outside, true, __ATOMIC_RELAXED);
    else
        j->loop(r);
}

/* Rows [n] of the innermost dimensions but one, as many at a time as have positions: the loop's beginning and end are paid once. */
static void packed_rows(const pick_job *j, td_index_row row, int64_t n)
{
    const td_picking *p = j->p;
    const int64_t length = row.n, last = p->ndim - 1, d = last - 1;
    row.places = j->places;
    for (int64_t m; n > 0; n -= m) {
        m = n < j->packed ? n : j->packed;
        row.n = m * length;
        one_part(j, &row);
        row.far += m * p->far[d], row.near += m * p->near[d], row.index += m * p->along[d];
    }
}

/* Short rows, whose indices and near elements lie together. */
static void pack(pick_job *j)
{
    const td_picking *p = j->p;
    const int last = p->ndim - 1, d = last - 1;
    const int64_t n = p->sizes[last], size = td_itemsizes[p->dtype];
    if (last == 0 || n > SHORT || p->range || p->along[last] != 1 || p->along[d] != n || p->near[last] != size || p->near[d] != n * size)
        return;
    j->packed = MOST_PACKED / n < p->sizes[d] ? MOST_PACKED / n : p->sizes[d];
    for (int64_t i = 0, r = 0; r < j->packed; r++)
        for (int64_t k = 0; k < n; k++)
            j->places[i++] = r * p->far[d] + k * p->far[last];
}

/* To the next row: one more in the innermost but one dimension, or in the one before. */
static void next_row(const td_picking *p, int64_t *at, td_index_row *row)
{
    for (int d = p->ndim - 1; d-- > 0;) {
        row->far += p->far[d], row->near += p->near[d], row->index += p->along[d];
        if (++at[d] < p->sizes[d])
            break;
        at[d] = 0;
        row->far -= p->sizes[d] * p->far[d], row->near -= p->sizes[d] * p->near[d];
        row->index -= p->sizes[d] * p->along[d];
    }
}

/* Units [from, to): parts of rows if rows are cut or if there is one row only; else whole rows, as many at a time as are left in
 * the innermost of the other dimensions. */
static void pick_range(const pick_job *j, int64_t from, int64_t to)
{
    td_picking *p = j->p;
    const int last = p->ndim - 1;
    int64_t at[TD_MAX_DIMS], part = from % j->parts, rest = from / j->parts;
    td_index_row row = {.far = p->far_data, .near = p->near_data, .index = p->index, .far_step = p->far[last],
                        .near_step = p->near[last], .index_step = p->along[last], .reach = p->reach, .range = p->range};
    for (int d = last; d-- > 0;) {
        at[d] = rest % p->sizes[d];
        rest /= p->sizes[d];
        row.far += at[d] * p->far[d], row.near += at[d] * p->near[d], row.index += at[d] * p->along[d];
    }
    for (int64_t i = from; i < to && (last == 0 || j->parts > 1); i++) {
        const int64_t start = part * PART, left = p->sizes[last] - start;
        td_index_row r = row;
        r.far += start * r.far_step, r.near += start * r.near_step, r.index += start * r.index_step;
        r.n = left < PART ? left : PART;
        look_ahead(j, last ? p->sizes[last - 1] - at[last - 1] : 0, &r);
        one_part(j, &r);
        if (++part < j->parts)
            continue;
        part = 0;
        next_row(p, at, &row);
    }
    if (last == 0 || j->parts > 1)
        return;
    row.n = p->sizes[last];
    for (int64_t i = from; i < to;) {       /* whole rows: as many as lie one after the other */
        const int d = last - 1;
        int64_t left = p->sizes[d] - at[d], n = to - i < left ? to - i : left;
        i += n;
        if (j->blocks || j->packed) {
            if (j->packed)
                packed_rows(j, row, n);
            else
                copy_blocks(j, &row, n);
            at[d] += n - 1;
            row.far += (n - 1) * p->far[d], row.near += (n - 1) * p->near[d], row.index += (n - 1) * p->along[d];
        } else {
            for (;; left--, at[d]++) {
                look_ahead(j, left, &row);
                one_part(j, &row);
                if (--n == 0)
                    break;
                row.far += p->far[d], row.near += p->near[d], row.index += p->along[d];
            }
        }
        next_row(p, at, &row);
    }
}

/* The body for threads.  What went past the caches must have arrived before another thread looks. */
static void parts(void *context, int64_t from, int64_t to)
{
    const pick_job *j = context;
    pick_range(j, from, to);
    if (j->stream)
        td_end_streaming();
}

/* Blocks of bytes are copied where the index is the same along a row (index_select of rows, an embedding), past the caches if what
 * is read and written is more than they hold; short rows are packed; all else goes element by element.  Only reading is shared by
 * threads: elements that are written may coincide, and on one thread they are written and added in the order of the index. */
int td_pick_run(td_picking *p)
{
    if (p->of[0]->device.type != TD_CPU)
        return td_pick_on_device(p);
    int64_t size = td_itemsizes[p->dtype];
    td_picking_merge(p);
    int64_t count = 1, last = p->ndim - 1, length = p->sizes[last];
    for (int d = 0; d < last; d++)
        count *= p->sizes[d];
    if (count == 0 || length == 0)
        return 0;
    bool block = p->along[last] == 0 && p->far[last] == size && p->near[last] == size;
    pick_job j;
    j.p = p, j.table = TD_ISA_PICK(td_index_table), j.parts = (length - 1) / PART + 1;
    j.blocks = block && p->what <= TD_PLACE_SET, j.packed = 0;
    pack(&j);
    if (p->what == TD_PLACE_GET)
        j.loop = block ? j.table->get_block : j.table->get[size];
    else if (p->what == TD_PLACE_SET)
        j.loop = block ? j.table->set_block : j.table->set[size];
    else
        j.loop = j.table->fold[p->what][p->dtype];
    int64_t written = count * length * size;
    j.stream = block && p->what == TD_PLACE_GET && ((uintptr_t)p->near_data | (uintptr_t)(length * size)) % 64 == 0 &&
               written + (written < p->far_bytes ? written : p->far_bytes) > TD_STREAM_BYTES;
    int64_t grain = TD_THREAD_WORK / (length < PART ? length : PART) + 1;
    if (p->what == TD_PLACE_GET)
        td_parallel_for(0, count * j.parts, grain, parts, &j);
    else
        parts(&j, 0, count * j.parts);
    return 0;
}

void td_index_range(const int64_t *index, int64_t n, int64_t *low, int64_t *high)
{
    *low = 0, *high = -1;
    if (n)
        TD_ISA_PICK(td_index_table)->range(index, n, low, high);
}
int td_index_bounds(td_tensor *index, int64_t *low, int64_t *high)
{
    if (index->device.type != TD_CPU)
        return td_index_bounds_on_device(index, low, high);
    td_index_range((const int64_t *)index->data, index->numel, low, high);
    return 0;
}
