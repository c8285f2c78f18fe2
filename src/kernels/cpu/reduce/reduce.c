/* The engine of reductions, see reduce.h.
 *
 * td_reduce() is called by operators.c, which says which leaf and what is made of its accumulators.
 *
 * Dimensions are split into kept and reduced ones, both sorted by stride and merged.  If the fastest is a reduced one,
 * an output is a sum of runs; if it is a kept one, outputs are taken TILE columns at a time down the rows.
 * What isn't contiguous or not of the compute type passes through a block on the stack.
 *
 * None of these choices may depend on the number of outputs in batch-invariant mode (tede/modes.h).
 *
 * A group is what one accumulator tile holds: a few outputs with runs, a tile of columns with rows.  Where a group has
 * more than 2 * CHUNK elements to fold it is cut into chunks, whose accumulators are merged in order. */
#include "calls_kernels_cpu_reduce_reduce.h"
#include "kernels/cpu/reduce/reduce.h"

#include <stdlib.h>

#include <tede/auto.h>
#include <tede/kernel.h>
#include <tede/modes.h>
#include "base/base.h"
#include "ops/iterate/iterator.h"

/* CHUNK: elements that are worth a task; BATCH: outputs of a group of runs; BUFFER: elements of the block that conversions go
 * through, 32 KB at most. */
enum { CHUNK = 32768, BATCH = 128, BUFFER = 4096 };

/* The kept dimensions, or the reduced ones. */
typedef struct side { int n; int64_t sizes[TD_MAX_DIMS], strides[TD_MAX_DIMS], out[TD_MAX_DIMS]; } side;

typedef struct job {
    const td_leaf  *leaf;
    td_dtype        from, to;            /* stored dtype, compute dtype */
    int64_t         from_size, to_size;
    const char     *data;
    bool            vertical, direct;    /* direct: runs or rows are contiguous and of the compute type */
    bool            transposed;          /* vertical: rows aren't, but columns are */
    bool            many;                /* not vertical: short runs, for the leaf that takes many */
    int64_t         wide;                /* columns of a group */
    int64_t         tiles;               /* groups along kept dimension 0 */
    int64_t         groups, chunks;
    int64_t         length, turns;       /* reduced dimension 0, and how many times it is iterated */
    int64_t         piece, pieces;       /* of the length in one chunk */
    int64_t         several;             /* such iterations in one chunk */
    int64_t         fold;                /* narrow dense rows: this many make one */
    int64_t         count;
    double          p;
    td_red_finish  *finish;
    void           *context;
    td_word        *partial;
    side            kept, reduced;       /* bytes; kept.out in elements of the result.  Last, because to clear their
                                            3 KB would take a fifth of the time of a small sum */
} job;

/* Sorted by magnitude of the stride, smallest first; dimensions with stride 0, which are expanded, come last. */
static void add_dim(side *s, int64_t size, int64_t stride, int64_t out)
{
    int at = s->n++;
    for (; at > 0; at--) {
        int64_t before = llabs(s->strides[at - 1]), mine = llabs(stride);
        if (mine == 0 || (before != 0 && before <= mine))
            break;
        s->sizes[at] = s->sizes[at - 1], s->strides[at] = s->strides[at - 1], s->out[at] = s->out[at - 1];
    }
    s->sizes[at] = size, s->strides[at] = stride, s->out[at] = out;
}

/* Neighbours of which one goes on where the other ends become one, if they do so in the result too. */
static void merge_dims(side *s)
{
    int kept = 0;
    for (int d = 1; d < s->n; d++) {
        if (s->strides[d] == s->strides[kept] * s->sizes[kept] && s->out[d] == s->out[kept] * s->sizes[kept]) {
            s->sizes[kept] *= s->sizes[d];
        } else {
            kept++;
            s->sizes[kept] = s->sizes[d], s->strides[kept] = s->strides[d], s->out[kept] = s->out[d];
        }
    }
    s->n = kept + 1;
}

/* Byte offset (and position in the result) of index `i` of the dimensions from `first` on. */
static int64_t locate(const side *s, int first, int64_t i, int64_t *out)
{
    int64_t offset = 0;
    for (int d = first; d < s->n; d++) {
        int64_t at = i % s->sizes[d];
        i /= s->sizes[d];
        offset += at * s->strides[d];
        if (out)
            *out += at * s->out[d];
    }
    return offset;
}

/* A run into one accumulator; what can't be folded where it lies is converted a block at a time. */
static void run_through(const job *j, td_word *acc, const char *at, int64_t n, int64_t base)
{
    int64_t stride = j->reduced.strides[0];
    if (j->direct) {
        j->leaf->run(acc, at, n, base, j->p);
        return;
    }
    _Alignas(64) char block[BUFFER * 8];
    for (int64_t i = 0; i < n; i += BUFFER) {
        int64_t m = n - i < BUFFER ? n - i : BUFFER;
        td_convert(j->to, block, j->to_size, j->from, at + i * stride, stride, m);
        j->leaf->run(acc, block, m, base + i, j->p);
    }
}

/* Short runs, of which as many as a block holds are converted at a time. */
static void runs_through(const job *j, td_word *acc, int64_t cols, const char *at)
{
    const int64_t n = j->length, stride = j->kept.strides[0];
    if (j->direct && stride % j->to_size == 0) {
        j->leaf->runs(acc, cols, at, n, stride / j->to_size);
        return;
    }
    _Alignas(64) char block[BUFFER * 8];
    td_word part[BATCH * TD_RED_WORDS];
    const int64_t most = BUFFER / n < BATCH ? BUFFER / n : BATCH;
    for (int64_t i = 0, m; i < cols; i += m, at += m * stride) {
        m = cols - i < most ? cols - i : most;
        if (stride == n * j->from_size)
            td_convert(j->to, block, j->to_size, j->from, at, j->from_size, m * n);
        else for (int64_t k = 0; k < m; k++)
            td_convert(j->to, block + k * n * j->to_size, j->to_size, j->from, at + k * stride, j->from_size, n);
        j->leaf->runs(part, m, block, n, n);
        for (int64_t w = 0; w < j->leaf->words; w++)
            memcpy(acc + w * cols + i, part + w * m, sizeof *acc * (size_t)m);
    }
}

/* Rows of `cols` columns into as many accumulators, likewise. */
static void rows_through(const job *j, td_word *acc, int64_t cols, const char *at, int64_t rows, int64_t base)
{
    int64_t stride = j->reduced.strides[0];
    if (j->direct && stride % j->to_size == 0) {
        j->leaf->rows(acc, cols, at, rows, stride / j->to_size, base, j->p);
        return;
    }
    _Alignas(64) char block[BUFFER * 8];
    int64_t most = BUFFER / cols;
    for (int64_t r = 0; r < rows; r += most) {
        int64_t m = rows - r < most ? rows - r : most;
        if (j->transposed)
            td_transpose_block((size_t)j->to_size, block, cols * j->to_size, at + r * stride, j->kept.strides[0], cols, m);
        else for (int64_t k = 0; k < m; k++)
            td_convert(j->to, block + k * cols * j->to_size, j->to_size, j->from, at + (r + k) * stride,
                       j->kept.strides[0], cols);
        j->leaf->rows(acc, cols, block, m, cols, base + r, j->p);
    }
}

/* Narrow dense rows, `fold` of them seen as one wide row, since a loop over a few columns would be all beginning and end; then the
 * parts are merged. */
static void narrow_rows(const job *j, td_word *acc, int64_t cols, const char *at, int64_t rows)
{
    int64_t wide = cols * j->fold, whole = rows / j->fold, words = j->leaf->words;
    td_word tile[TD_RED_TILE * TD_RED_WORDS], part[TD_RED_TILE * TD_RED_WORDS];
    if (whole) {
        j->leaf->init(tile, wide);
        j->leaf->rows(tile, wide, at, whole, wide, 0, j->p);
        for (int64_t f = 0; f < j->fold; f++) {
            for (int64_t w = 0; w < words; w++)
                memcpy(part + w * cols, tile + w * wide + f * cols, sizeof(td_word) * (size_t)cols);
            j->leaf->merge(acc, part, cols);
        }
    }
    int64_t done = whole * j->fold;
    j->leaf->rows(acc, cols, at + done * cols * j->to_size, rows - done, cols, 0, j->p);
}

/* Fold chunk c of group g into acc: a range of `piece` elements of the first reduced dimension, for `several` indices of the others;
 * where the outputs are goes to *out, how many there are is returned. */
static int64_t fold(const job *j, int64_t g, int64_t c, td_word *acc, int64_t *out)
{
    int64_t tile = g % j->tiles, first = tile * j->wide, words = j->leaf->words;
    int64_t cols = j->kept.sizes[0] - first < j->wide ? j->kept.sizes[0] - first : j->wide;
    *out = first * j->kept.out[0];
    const char *data = j->data + first * j->kept.strides[0] + locate(&j->kept, 1, g / j->tiles, out);
    int64_t from = c % j->pieces * j->piece, turn = c / j->pieces * j->several;
    int64_t n = j->length - from < j->piece ? j->length - from : j->piece;
    int64_t end = turn + j->several < j->turns ? turn + j->several : j->turns;
    j->leaf->init(acc, cols);
    if (j->count == 0)
        return cols;
    if (j->vertical) {
        for (; turn < end; turn++) {
            const char *at = data + from * j->reduced.strides[0] + locate(&j->reduced, 1, turn, NULL);
            if (j->fold)
                narrow_rows(j, acc, cols, at, n);
            else
                rows_through(j, acc, cols, at, n, from);
        }
        return cols;
    }
    if (j->many) {
        runs_through(j, acc, cols, data);
        return cols;
    }
    for (int64_t i = 0; i < cols; i++) {
        td_word one[TD_RED_WORDS];
        j->leaf->init(one, 1);
        const char *start = data + i * j->kept.strides[0] + from * j->reduced.strides[0];
        for (int64_t t = turn; t < end; t++)
            run_through(j, one, start + locate(&j->reduced, 1, t, NULL), n, from);
        for (int64_t w = 0; w < words; w++)
            acc[w * cols + i] = one[w];
    }
    return cols;
}

/* Groups that no other task has a part of: results are finished at once. */
static void whole_groups(void *context, int64_t from, int64_t to)
{
    const job *j = context;
    td_word acc[TD_RED_TILE * TD_RED_WORDS];
    for (int64_t g = from; g < to; g++) {
        int64_t out, cols = fold(j, g, 0, acc, &out);
        j->finish(j->context, acc, cols, out, j->kept.out[0], j->count);
    }
}

/* Chunks into separate accumulators, which wait for the rest of their group. */
static void chunks_of_groups(void *context, int64_t from, int64_t to)
{
    const job *j = context;
    for (int64_t k = from; k < to; k++) {
        int64_t out;
        fold(j, k / j->chunks, k % j->chunks, j->partial + k * j->wide * j->leaf->words, &out);
    }
}

/* Chunks on threads; then, here, those of each group are merged in order, whoever folded them. */
static int run_chunks(job *j)
{
    int64_t room = j->wide * j->leaf->words;
    size_t bytes = sizeof(td_word) * (size_t)(room * j->groups * j->chunks);
    j->partial = td_mem_alloc(bytes);
    if (!j->partial)
        return -1;
    td_parallel_for(0, j->groups * j->chunks, 1, chunks_of_groups, j);
    for (int64_t g = 0; g < j->groups; g++) {
        int64_t tile = g % j->tiles, first = tile * j->wide, out = first * j->kept.out[0];
        int64_t cols = j->kept.sizes[0] - first < j->wide ? j->kept.sizes[0] - first : j->wide;
        locate(&j->kept, 1, g / j->tiles, &out);
        td_word *acc = j->partial + g * j->chunks * room;
        for (int64_t c = 1; c < j->chunks; c++)
            j->leaf->merge(acc, acc + c * room, cols);
        j->finish(j->context, acc, cols, out, j->kept.out[0], j->count);
    }
    td_mem_free(j->partial, bytes);
    return 0;
}

/* Dimensions of size 1 are left out.  A reduced dimension that runs backwards is run forwards, but not where positions along it are
 * the result (`ordered`).  `out` counts the results as they lie in the contiguous output. */
static void plan_dims(job *j, const td_tensor *x, const bool *reduced, bool ordered)
{
    int64_t out = 1, item = j->from_size;
    j->count = 1;
    for (int d = x->ndim; d-- > 0;) {
        int64_t size = x->sizes[d], stride = x->strides[d] * item;
        if (reduced[d])
            j->count *= size;
        if (size != 1) {
            if (!reduced[d] || !ordered) {
                if (stride < 0 && reduced[d])
                    j->data += (size - 1) * stride, stride = -stride;
            }
            add_dim(reduced[d] ? &j->reduced : &j->kept, size, stride, reduced[d] ? 0 : out);
        }
        if (!reduced[d])
            out *= size;
    }
    for (int k = 0; k < 2; k++) {
        side *s = k ? &j->reduced : &j->kept;
        if (s->n == 0)
            s->n = 1, s->sizes[0] = 1, s->strides[0] = s->out[0] = 0;
        else
            merge_dims(s);
    }
}

/* Integers of what types are folded as they are, if the reduction has leaves for those: any may become int64. */
static const int8_t type_of[TD_DTYPES] = {
    [TD_F32] = TD_RED_F32, [TD_F64] = TD_RED_F64, [TD_I64] = TD_RED_I64, [TD_BOOL] = TD_RED_U8, [TD_U8] = TD_RED_U8,
    [TD_I8] = TD_RED_I8, [TD_I16] = TD_RED_I16, [TD_I32] = TD_RED_I32,
};
static const int8_t dtype_of[TD_RED_TYPES] = {
    [TD_RED_F32] = TD_F32, [TD_RED_F64] = TD_F64, [TD_RED_I64] = TD_I64, [TD_RED_U8] = TD_U8, [TD_RED_I8] = TD_I8,
    [TD_RED_I16] = TD_I16, [TD_RED_I32] = TD_I32,
};

/* The leaf for what is stored: integers narrower than int64 keep their type if there is a leaf for it, else become int32 or int64. */
static td_red_type leaf_type(const td_leaf *leaves, td_dtype stored, td_dtype compute)
{
    const td_red_type own = (td_red_type)type_of[stored];
    if (compute != TD_I64 || own < TD_RED_U8)
        return (td_red_type)type_of[compute];
    return leaves[own].run ? own : leaves[TD_RED_I32].run ? TD_RED_I32 : TD_RED_I64;
}

/* x with each output's elements next to each other, whatever the dimensions: all outputs are then added up in the same order, by
 * themselves and among any number of others. The dimensions stay where they are, only the memory is another. */
static td_tensor *rows_of(td_tensor *x, const bool *reduced)
{
    int64_t order[TD_MAX_DIMS], back[TD_MAX_DIMS];
    int n = 0;
    for (int last = 0; last < 2; last++)
        for (int d = 0; d < x->ndim; d++)
            if (reduced[d] == last)
                back[d] = n, order[n++] = d;
    TD_AUTO td_tensor *moved = td_permute(x, x->ndim, order);
    TD_AUTO td_tensor *dense = moved ? td_make_contiguous(moved) : NULL;
    return td_permute(dense, x->ndim, back);
}

/* The choice of the shape is by strides and sizes: columns where a kept dimension is the fastest, unless they are few; runs else,
 * unless they are short and many, which a leaf takes together or which pass through a transposed block.  Large reductions wait for
 * memory; all that the rest of this function does is keep a small one cheap and a large one in pieces that threads share. */
int td_reduce(td_reduction kind, td_dtype compute, td_tensor *x, const bool *reduced, double p, td_red_finish *finish,
              void *context)
{
    const td_leaf_table *table = TD_ISA_PICK(td_reduce_table);
    const td_red_type type = leaf_type(table->leaves[kind], (td_dtype)x->dtype, compute);
    compute = (td_dtype)dtype_of[type];
    bool ordered = kind == TD_RED_ARGMAX || kind == TD_RED_ARGMIN;
    const bool invariant = td_batch_invariant();
    TD_AUTO td_tensor *dense = invariant ? rows_of(x, reduced) : td_tensor_retain(x);
    if (!dense)
        return -1;
    x = dense;
    job j;
    memset(&j, 0, offsetof(job, kept));
    j.kept.n = j.reduced.n = 0;
    j.leaf = &table->leaves[kind][type], j.from = (td_dtype)x->dtype, j.to = compute, j.from_size = td_itemsize(x);
    j.to_size = td_itemsizes[compute], j.data = x->data, j.p = p, j.finish = finish, j.context = context;
    if (type == TD_RED_U8)
        j.from = TD_U8;             /* bool holds 0 and 1, and an int8 that is counted is 0 or not */
    plan_dims(&j, x, reduced, ordered);
    int64_t outputs = 1;
    for (int d = 0; d < j.kept.n; d++)
        outputs *= j.kept.sizes[d];
    if (outputs == 0)
        return 0;
    int64_t along = llabs(j.reduced.strides[0]), across = llabs(j.kept.strides[0]);
    bool same = j.from == j.to;
    j.length = j.reduced.sizes[0], j.turns = 1;
    for (int d = 1; d < j.reduced.n; d++)
        j.turns *= j.reduced.sizes[d];
    if (j.count == 0)
        j.length = j.turns = 1;
    j.vertical = j.count > 0 && j.kept.sizes[0] > 1 && across != 0 && (along == 0 || across < along);
    if (j.vertical) {
        j.direct = same && j.kept.strides[0] == j.to_size;
        bool narrow = j.direct && !ordered && j.kept.sizes[0] <= 64 && j.length >= 64 &&
                      j.reduced.strides[0] == j.kept.sizes[0] * j.to_size;
        if (!narrow && j.kept.sizes[0] < 8 && j.length >= 32)
            j.vertical = false;     /* few columns: strided runs are cheaper */
        else
            j.fold = narrow ? 256 / j.kept.sizes[0] : 0;
    } else if (j.leaf->runs && j.turns == 1 && j.length >= j.leaf->shortest && j.length <= TD_RED_RUN &&
               j.reduced.strides[0] == j.from_size) {
        j.many = true;
    } else if (j.count > 0 && j.length <= 32 && j.kept.sizes[0] >= 64 && !invariant) {
        j.vertical = true, j.direct = false;    /* many short runs are transposed on the way through a block */
        j.transposed = same && j.reduced.strides[0] == j.to_size;
    }
    if (j.vertical) {
        j.wide = j.kept.sizes[0] < TD_RED_TILE ? j.kept.sizes[0] : TD_RED_TILE;
    } else {
        j.direct = same && (j.reduced.strides[0] == j.to_size || j.length == 1);
        j.wide = j.kept.sizes[0] < BATCH ? j.kept.sizes[0] : BATCH;
        if (j.wide * j.length * j.turns > 2 * CHUNK)
            j.wide = j.length * j.turns > CHUNK ? 1 : CHUNK / (j.length * j.turns);
    }
    j.tiles = (j.kept.sizes[0] + j.wide - 1) / j.wide;
    j.groups = outputs / j.kept.sizes[0] * j.tiles;
    int64_t work = j.length * j.turns * j.wide;
    j.piece = j.length, j.pieces = 1, j.several = j.turns, j.chunks = 1;
    if (work > 2 * CHUNK && (j.groups < 64 || invariant)) {
        int64_t step = CHUNK / j.wide > 0 ? CHUNK / j.wide : 1;
        if (j.length >= step) {
            j.piece = step < 64 ? 64 : step;
            j.pieces = (j.length + j.piece - 1) / j.piece;
            j.several = 1;
        } else {
            j.several = step / j.length;
        }
        j.chunks = j.pieces * ((j.turns + j.several - 1) / j.several);
    }
    if (j.chunks > 1)
        return run_chunks(&j);
    td_parallel_for(0, j.groups, work > CHUNK ? 1 : CHUNK / (work + 1) + 1, whole_groups, &j);
    return 0;
}
