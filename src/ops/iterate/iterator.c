/* The iterator (PyTorch's TensorIterator): runs an elementwise loop over operands of any strides and dtypes.  See kernel.h for what
 * it does, iterator.h for what a plan is.
 *
 * Four paths, by what the operands allow:
 *   all contiguous, of the compute dtypes, of one shape: the loop runs on them as they are;
 *   rows (the plan's first dimension) that are long: the loop runs on pieces of rows;
 *   the same, and an operand is transposed: tiles of rows, in which that operand alone is transposed by blocks;
 *   short rows: the loop runs on blocks of several whole rows.
 * Operands that are not contiguous over a piece, or of another dtype, go through a block in scratch memory on the
 * stack.  What a block holds depends on the shape alone, never on how many threads share the work.
 *
 * Note [Kinds of operands]
 *   DIRECT    the piece lies contiguous in memory, in the compute dtype
 *   CONVERT   contiguous, but of another dtype
 *   GATHER    anything else
 *   REPEATED  the same values in every block (a single element; or a row, below many rows): gathered once
 *   SINGLE    one element for a whole long row (a column): the block is filled when the row begins, unless there is a loop
 *             that takes the element itself (DIRECT then)
 *
 * On the direct path an output that the caches wouldn't hold is written past them, through a block in scratch memory. */
#include "calls_ops_iterate_iterator.h"
#include "base/watch.h"
#include "ops/iterate/iterator.h"

enum {
    SCRATCH = 24 * 1024,            /* bytes of blocks, together; the rest of the first cache is the operands' own */
    LONGEST = 1024,                 /* elements of a block */
    SHORTEST = 128,
    LONG_ROW = 128,                 /* elements of a row from which the loop is called once for it */
    TILE_ALONG = 128,
    TILE_ACROSS = 32,
    SLACK = 128,                    /* bytes of a block for its alignment and for filling beyond its end */
    DIRECT_PIECE = 16384,           /* elements of a piece when nothing goes through scratch */
    STREAMED = 512,                 /* elements on their way past the caches */
    TURNING_BYTES = 512 << 10,      /* half of a core's own cache: less is there as a whole */
    COSTLY = 8,                     /* a formula that takes as long as memory does */
};

/* ---- the plan */

static int64_t magnitude(int64_t stride) { return stride < 0 ? -stride : stride; }

/* Whether dimension a should be outside of b: the first operand that steps in both decides. */
static bool outside(const td_plan *plan, int a, int b)
{
    for (int k = 0; k < plan->count; k++) {
        int64_t x = magnitude(plan->strides[k][a]), y = magnitude(plan->strides[k][b]);
        if (x && y && x != y)
            return x > y;
    }
    return false;
}

static void swap_dims(td_plan *plan, int a, int b)
{
    int64_t t = plan->sizes[a];
    plan->sizes[a] = plan->sizes[b], plan->sizes[b] = t;
    for (int k = 0; k < plan->count; k++)
        t = plan->strides[k][a], plan->strides[k][a] = plan->strides[k][b], plan->strides[k][b] = t;
}

/* Where the first operand that moves along d goes backwards, all operands start at the other end.  Elementwise loops may visit
 * elements in any order, so the result is the same, and a reversed view merges and copies like a plain one. */
static void flip(td_plan *plan, int d)
{
    for (int k = 0; k < plan->count; k++) {
        if (plan->strides[k][d] == 0)
            continue;
        if (plan->strides[k][d] > 0)
            return;
        break;
    }
    for (int k = 0; k < plan->count; k++) {
        plan->data[k] += (plan->sizes[d] - 1) * plan->strides[k][d];
        plan->strides[k][d] = -plan->strides[k][d];
    }
}

/* Two dimensions are one where a step of the outer is as wide as all of the inner, for every operand.  Broadcast dimensions, whose
 * strides are 0, merge with each other, too. */
static bool mergeable(const td_plan *plan, int inner, int outer)
{
    for (int k = 0; k < plan->count; k++)
        if (plan->strides[k][outer] != plan->sizes[inner] * plan->strides[k][inner])
            return false;
    return true;
}

/* Dimensions of size 1 are dropped, the rest is sorted by insertion, since there are few, which mostly are in order already.  One
 * moves only past neighbours that it beats: outside() is no total order, as an operand that is broadcast has no say.  A tensor
 * of one element keeps one dimension of size 1, so that the loops below need no case for it. */
void td_plan_make(td_plan *plan, int ndim, const int64_t *sizes, int count, td_tensor *const *operands)
{
    plan->count = count;
    plan->numel = 1;
    for (int k = 0; k < count; k++)
        plan->data[k] = operands[k]->data;
    int n = 0;
    for (int d = ndim - 1; d >= 0; d--) {
        plan->numel *= sizes[d];
        if (sizes[d] == 1)
            continue;
        plan->sizes[n] = sizes[d];
        for (int k = 0; k < count; k++) {
            const td_tensor *x = operands[k];
            int own = d - ndim + x->ndim;
            plan->strides[k][n] = own < 0 || x->sizes[own] == 1 ? 0 : x->strides[own] * td_itemsize(x);
        }
        n++;
    }
    for (int d = 0; d < n; d++)
        flip(plan, d);
    for (int d = 1; d < n; d++)
        for (int at = d; at > 0 && outside(plan, at - 1, at); at--)
            swap_dims(plan, at - 1, at);
    int kept = 0;
    for (int d = 1; d < n; d++) {
        if (mergeable(plan, kept, d)) {
            plan->sizes[kept] *= plan->sizes[d];
        } else if (++kept != d) {
            plan->sizes[kept] = plan->sizes[d];
            for (int k = 0; k < count; k++)
                plan->strides[k][kept] = plan->strides[k][d];
        }
    }
    plan->ndim = kept + 1;
    if (n == 0) {
        plan->sizes[0] = 1;
        for (int k = 0; k < count; k++)
            plan->strides[k][0] = 0;
    }
}

/* ---- the traversal */

typedef enum kind { DIRECT, CONVERT, GATHER, REPEATED, SINGLE } kind;

typedef struct loop_state {
    const td_plan  *plan;
    td_loop        *loop;
    const void     *params;
    int             n_out;
    int64_t         rows_of_block;                  /* 1: pieces of long rows */
    int64_t         piece;                          /* elements of a block at most; of a row's piece if rows_of_block is 1 */
    int64_t         pieces;                         /* of a row */
    int64_t         rows;
    bool            plain_rows;                     /* see run_rows */
    int             across;                         /* not 0: tiles of dimensions 0 and `across`, see run_tiles */
    int64_t         along_size, across_size;        /* of a tile */
    int64_t         along_tiles, across_tiles;
    bool            fetch;                          /* what the next tile takes is fetched: it comes from far */
    int64_t         temporary;                      /* bytes of scratch for elements on their way to or from conversion */
    kind            kind[TD_MAX_OPERANDS];
    size_t          size[TD_MAX_OPERANDS];          /* of an element, as stored */
    size_t          compute_size[TD_MAX_OPERANDS];
    td_convert_run *convert[TD_MAX_OPERANDS];       /* NULL if stored in the compute dtype */
} loop_state;

/* Where rows begin: a position in dimensions 1 and up. */
typedef struct position {
    int64_t index[TD_MAX_DIMS];
} position;

/* Row number `row` as an index per dimension.  A thread seeks its first row and counts on from there. */
static void seek(const td_plan *plan, position *at, int64_t row)
{
    for (int d = 1; d < plan->ndim; d++) {
        int64_t outer = row ? td_quotient(row, plan->sizes[d]) : 0;
        at->index[d] = row - outer * plan->sizes[d];
        row = outer;
    }
}

static int64_t offset_of(const td_plan *plan, const position *at, int k)
{
    int64_t offset = 0;
    for (int d = 1; d < plan->ndim; d++)
        offset += at->index[d] * plan->strides[k][d];
    return offset;
}

/* `rows` rows of `length` elements, `step` bytes from row to row, into a block of rows that follow each other. */
static void rows_in(size_t size, char *block, const char *row, int64_t along, int64_t step, int64_t length, int64_t rows)
{
    int64_t bytes = length * (int64_t)size;
    if (along == 0 && step != 0) {
        td_fill_rows(size, block, length, row, step, rows);
    } else if (step == 0 && rows > 1) {      /* the same row again and again: what is there is doubled */
        td_copy_run(size, block, (int64_t)size, row, along, length);
        for (int64_t done = bytes, all = rows * bytes; done < all; done += done)
            memcpy(block + done, block, (size_t)(done < all - done ? done : all - done));
    } else if (step == (int64_t)size && length > 1) {
        td_transpose_block(size, block, bytes, row, along, length, rows);
    } else if (rows > length) {              /* the longer of the two dimensions goes inside */
        for (int64_t i = 0; i < length; i++)
            td_copy_run(size, block + i * (int64_t)size, bytes, row + i * along, step, rows);
    } else {
        for (int64_t j = 0; j < rows; j++)
            td_copy_run(size, block + j * bytes, (int64_t)size, row + j * step, along, length);
    }
}

/* The inverse of rows_in, without its cases for broadcasting: callers have checked that no two elements of an output share memory. */
static void rows_out(size_t size, const char *block, char *row, int64_t along, int64_t step, int64_t length, int64_t rows)
{
    int64_t bytes = length * (int64_t)size;
    if (step == (int64_t)size && length > 1) {
        td_transpose_block(size, row, along, block, bytes, rows, length);
    } else if (rows > length) {
        for (int64_t i = 0; i < length; i++)
            td_copy_run(size, row + i * along, step, block + i * (int64_t)size, bytes, rows);
    } else {
        for (int64_t j = 0; j < rows; j++)
            td_copy_run(size, row + j * step, along, block + j * bytes, (int64_t)size, length);
    }
}

/* Copy `rows` whole rows of operand k from `from` on into `block`, or out of it. */
static void copy_rows(const loop_state *w, int k, const position *from, int64_t rows, char *block, bool out)
{
    const td_plan *plan = w->plan;
    const int64_t *strides = plan->strides[k];
    int64_t length = plan->sizes[0];
    char *row = plan->data[k] + offset_of(plan, from, k);
    position at;
    memcpy(at.index, from->index, (size_t)plan->ndim * sizeof *at.index);
    while (rows > 0) {
        int64_t together = 1, step = 0;
        if (plan->ndim > 1) {
            together = plan->sizes[1] - at.index[1] < rows ? plan->sizes[1] - at.index[1] : rows;
            step = strides[1];
        }
        rows -= together;
        at.index[1] += together;
        if (out)
            rows_out(w->size[k], block, row, strides[0], step, length, together);
        else
            rows_in(w->size[k], block, row, strides[0], step, length, together);
        block += together * length * (int64_t)w->size[k];
        row += together * step;
        for (int d = 1; d < plan->ndim - 1 && at.index[d] == plan->sizes[d]; d++) {
            row += strides[d + 1] - strides[d] * plan->sizes[d];
            at.index[d] = 0;
            at.index[d + 1]++;
        }
    }
}

/* Operand k's elements into its block: those of `rows` rows, or n elements of one row from `column` on. */
static void fill_block(const loop_state *w, int k, const position *at, int64_t rows, int64_t column, int64_t n, char *block,
                       char *temporary)
{
    const td_plan *plan = w->plan;
    char *native = w->convert[k] ? temporary : block;
    if (w->rows_of_block > 1)
        copy_rows(w, k, at, rows, native, false);
    else
        td_copy_run(w->size[k], native, (int64_t)w->size[k],
                    plan->data[k] + offset_of(plan, at, k) + column * plan->strides[k][0], plan->strides[k][0], n);
    if (w->convert[k])
        w->convert[k](block, native, n);
}

/* n times operand k's element, which is converted once. */
static void fill_single(const loop_state *w, int k, const char *element, int64_t n, char *block)
{
    char value[16];
    if (w->convert[k]) {
        w->convert[k](value, element, 1);
        element = value;
    }
    td_fill_rows(w->compute_size[k], block, n, element, 0, 1);
}

/* An output's block, converted back and stored where its elements belong: the inverse of fill_block. */
static void empty_block(const loop_state *w, int k, const position *at, int64_t rows, int64_t column, int64_t n, char *block,
                        char *temporary)
{
    const td_plan *plan = w->plan;
    char *native = w->convert[k] ? temporary : block;
    if (w->convert[k])
        w->convert[k](native, block, n);
    if (w->rows_of_block > 1)
        copy_rows(w, k, at, rows, native, true);
    else
        td_copy_run(w->size[k], plan->data[k] + offset_of(plan, at, k) + column * plan->strides[k][0],
                    plan->strides[k][0], native, (int64_t)w->size[k], n);
}

/* Whole rows of a matrix, where every operand is DIRECT, or a block that stays or that an element fills. */
static void run_rows(const loop_state *w, int64_t from, int64_t to, char *const *blocks)
{
    const td_plan *plan = w->plan;
    const int64_t n = plan->sizes[0];
    char *ptrs[TD_MAX_OPERANDS], *singles[TD_MAX_OPERANDS];
    int64_t steps[TD_MAX_OPERANDS];
    int single[TD_MAX_OPERANDS], n_single = 0;
    for (int k = 0; k < plan->count; k++) {
        const bool direct = w->kind[k] == DIRECT;
        ptrs[k] = direct ? plan->data[k] + from * plan->strides[k][1] : blocks[k];
        steps[k] = direct ? plan->strides[k][1] : 0;
        if (w->kind[k] == SINGLE)
            single[n_single] = k, singles[n_single++] = plan->data[k] + from * plan->strides[k][1];
    }
    for (int64_t row = from; row < to; row++) {
        for (int i = 0; i < n_single; i++) {
            const int k = single[i];
            fill_single(w, k, singles[i], n, blocks[k]);
            singles[i] += plan->strides[k][1];
        }
        w->loop(n, ptrs, w->params);
        for (int k = 0; k < plan->count; k++)
            ptrs[k] += steps[k];
    }
}

/* Blocks [from, to), which one thread takes.  `scratch` is 64-byte aligned: first the temporary for conversion, then a block for
 * each operand that isn't DIRECT.  Each block is filled, computed and emptied while it is in the first cache. */
static void run_blocks(const loop_state *w, int64_t from, int64_t to, char *scratch)
{
    const td_plan *plan = w->plan;
    char *ptrs[TD_MAX_OPERANDS], *blocks[TD_MAX_OPERANDS], *temporary = scratch;
    scratch += w->temporary;
    for (int k = 0; k < plan->count; k++) {
        blocks[k] = scratch;
        if (w->kind[k] != DIRECT)
            scratch += ((size_t)w->piece * w->compute_size[k] + SLACK) & ~(size_t)63;
    }
    const char *single[TD_MAX_OPERANDS] = {NULL};       /* the elements that fill the blocks of rows' single ones */
    position at;
    int64_t row = w->rows_of_block > 1 ? from * w->rows_of_block : td_quotient(from, w->pieces);
    int64_t piece = w->rows_of_block > 1 ? 0 : from - row * w->pieces;
    for (int k = 0; k < plan->count; k++) {
        if (w->kind[k] == REPEATED) {
            position start;
            seek(plan, &start, 0);
            int64_t rows = w->rows < w->rows_of_block ? w->rows : w->rows_of_block;
            fill_block(w, k, &start, rows, 0, w->rows_of_block > 1 ? rows * plan->sizes[0] : w->piece, blocks[k], temporary);
        }
    }
    if (w->plain_rows) {
        run_rows(w, from, to, blocks);
        return;
    }
    seek(plan, &at, row);
    for (int64_t b = from; b < to; b++) {
        int64_t rows = 1, column = 0, n;
        if (w->rows_of_block > 1) {
            rows = w->rows - row < w->rows_of_block ? w->rows - row : w->rows_of_block;
            n = rows * plan->sizes[0];
        } else {
            column = piece * w->piece;
            piece = piece + 1 < w->pieces ? piece + 1 : 0;
            n = plan->sizes[0] - column < w->piece ? plan->sizes[0] - column : w->piece;
        }
        for (int k = 0; k < plan->count; k++) {
            ptrs[k] = blocks[k];
            if (w->kind[k] == DIRECT) {
                ptrs[k] = plan->data[k] + offset_of(plan, &at, k) + column * plan->strides[k][0];
            } else if (w->kind[k] == SINGLE) {
                const char *element = plan->data[k] + offset_of(plan, &at, k);
                if (element != single[k])
                    fill_single(w, k, element, w->piece, blocks[k]);
                single[k] = element;
            }
            else if (k >= w->n_out && w->kind[k] == CONVERT)
                w->convert[k](blocks[k], plan->data[k] + offset_of(plan, &at, k) + column * plan->strides[k][0], n);
            else if (k >= w->n_out && w->kind[k] == GATHER)
                fill_block(w, k, &at, rows, column, n, blocks[k], temporary);
        }
        w->loop(n, ptrs, w->params);
        for (int k = 0; k < w->n_out; k++) {
            if (w->kind[k] == CONVERT)
                w->convert[k](plan->data[k] + offset_of(plan, &at, k) + column * plan->strides[k][0], blocks[k], n);
            else if (w->kind[k] == GATHER)
                empty_block(w, k, &at, rows, column, n, blocks[k], temporary);
        }
        int64_t advance = w->rows_of_block > 1 ? rows : column + n == plan->sizes[0];
        row += advance;
        if (plan->ndim > 1 && advance) {
            at.index[1] += advance;
            for (int d = 1; d < plan->ndim - 1 && at.index[d] >= plan->sizes[d]; d++) {
                at.index[d + 1] += at.index[d] / plan->sizes[d];
                at.index[d] %= plan->sizes[d];
            }
        }
    }
}

/* The stack's scratch: the blocks are cut to SCRATCH bytes, but not below SHORTEST elements; the rest is room for those, since
 * 12 operands of 16 bytes and the temporary take 128 x 13 x 16 bytes at most. */
static void blocks_body(void *context, int64_t from, int64_t to)
{
    _Alignas(64) char scratch[SCRATCH + LONGEST * 16 + TD_MAX_OPERANDS * SLACK];
    run_blocks(context, from, to, scratch);
}

/* Tiles instead of pieces of rows: where an operand's fastest dimension is not the first one (it is transposed), iterating
 * along rows would fetch a cache line for each of its elements.  Such operands pass through blocks of a tile's size; then
 * the loop runs row by row of the tile, in which the others lie as they would without tiles. */
static void tile_in(const loop_state *w, int k, const char *at, char *block, char *temporary, int64_t along, int64_t across)
{
    char *native = w->convert[k] ? temporary : block;
    const int64_t size = (int64_t)w->size[k], step = w->plan->strides[k][0];
    if (w->fetch && w->plan->strides[k][w->across] == size) {
        td_transpose_ahead(w->size[k], native, along * size, at, step, along, across);
    } else {
        rows_in(w->size[k], native, at, step, w->plan->strides[k][w->across], along, across);
    }
    if (w->convert[k])
        w->convert[k](block, native, along * across);
}

static void tile_out(const loop_state *w, int k, char *at, char *block, char *temporary, int64_t along, int64_t across)
{
    char *native = w->convert[k] ? temporary : block;
    if (w->convert[k])
        w->convert[k](native, block, along * across);
    rows_out(w->size[k], native, at, w->plan->strides[k][0], w->plan->strides[k][w->across], along, across);
}

/* One tile, `at` being its corner in each operand.  GATHER is transposed as a whole before and after, CONVERT goes row by row.
 * A SINGLE block is filled again only where the next row has another element. */
static void run_tile(const loop_state *w, char *const *at, char *const *blocks, char *temporary, int64_t along, int64_t across)
{
    const td_plan *plan = w->plan;
    char *ptrs[TD_MAX_OPERANDS];
    for (int k = w->n_out; k < plan->count; k++)
        if (w->kind[k] == GATHER)
            tile_in(w, k, at[k], blocks[k], temporary, along, across);
    for (int64_t j = 0; j < across; j++) {
        for (int k = 0; k < plan->count; k++) {
            char *row = at[k] + j * plan->strides[k][w->across];
            ptrs[k] = w->kind[k] == DIRECT ? row : blocks[k];
            for (int64_t line = 0; w->fetch && w->kind[k] == DIRECT && line < along * (int64_t)w->size[k]; line += 64)
                __builtin_prefetch(row + across * plan->strides[k][w->across] + line);
            if (w->kind[k] == GATHER)
                ptrs[k] += j * along * (int64_t)w->compute_size[k];
            else if (w->kind[k] == CONVERT && k >= w->n_out)
                w->convert[k](ptrs[k], row, along);
            else if (w->kind[k] == SINGLE && (j == 0 || plan->strides[k][w->across] != 0))
                fill_single(w, k, row, along, ptrs[k]);
        }
        w->loop(along, ptrs, w->params);
        for (int k = 0; k < w->n_out; k++)
            if (w->kind[k] == CONVERT)
                w->convert[k](at[k] + j * plan->strides[k][w->across], ptrs[k], along);
    }
    for (int k = 0; k < w->n_out; k++)
        if (w->kind[k] == GATHER)
            tile_out(w, k, at[k], blocks[k], temporary, along, across);
}

/* Tiles [from, to), which one thread takes: the two tiled dimensions by td_tile_at, all others by division of what is left. */
static void run_tiles(const loop_state *w, int64_t from, int64_t to, char *scratch)
{
    const td_plan *plan = w->plan;
    char *blocks[TD_MAX_OPERANDS], *temporary = scratch;
    scratch += w->temporary;
    for (int k = 0; k < plan->count; k++) {
        blocks[k] = scratch;
        int64_t elements = w->kind[k] == DIRECT ? 0 : w->kind[k] == GATHER ? w->piece : w->along_size;
        scratch += ((size_t)elements * w->compute_size[k] + SLACK) & ~(size_t)63;
    }
    for (int64_t t = from; t < to; t++) {
        int64_t i, j, outer = td_tile_at(t, w->across_tiles, w->along_tiles, &j, &i);
        i *= w->along_size, j *= w->across_size;
        int64_t along = plan->sizes[0] - i < w->along_size ? plan->sizes[0] - i : w->along_size;
        int64_t across = plan->sizes[w->across] - j < w->across_size ? plan->sizes[w->across] - j : w->across_size;
        char *at[TD_MAX_OPERANDS];
        for (int k = 0; k < plan->count; k++)
            at[k] = plan->data[k] + i * plan->strides[k][0] + j * plan->strides[k][w->across];
        for (int d = 1; d < plan->ndim; d++) {
            if (d == w->across)
                continue;
            int64_t further = td_quotient(outer, plan->sizes[d]), index = outer - further * plan->sizes[d];
            outer = further;
            for (int k = 0; k < plan->count; k++)
                at[k] += index * plan->strides[k][d];
        }
        run_tile(w, at, blocks, temporary, along, across);
    }
}

static void tiles_body(void *context, int64_t from, int64_t to)
{
    _Alignas(64) char scratch[SCRATCH + LONGEST * 16 + TD_MAX_OPERANDS * SLACK];
    run_tiles(context, from, to, scratch);
}

/* The dimension in which some input that must be gathered is contiguous; 0 if there is none or it's too small. */
static int find_across(const loop_state *w)
{
    const td_plan *plan = w->plan;
    for (int k = w->n_out; k < plan->count; k++)
        for (int d = 1; d < plan->ndim && w->kind[k] == GATHER && plan->strides[k][0] != 0; d++)
            if (plan->strides[k][d] == (int64_t)w->size[k] && plan->sizes[d] >= 16)
                return d;
    return 0;
}

/* Sizes of tiles: 128 x 32 elements, halved until the blocks fit the scratch memory, across first, since long rows cost fewer calls
 * of the loop, but not below 8, which are half a cache line of float32.  They depend on shapes and dtypes alone. */
static bool run_as_tiles(loop_state *w, size_t widest, int64_t cost)
{
    const td_plan *plan = w->plan;
    if (!(w->across = find_across(w)))
        return false;
    int64_t tile = (int64_t)widest, rows = 0;       /* bytes of an element of the tile, and of one of a row */
    int64_t bytes = 0;                              /* of an element of all operands */
    for (int k = 0; k < plan->count; k++) {
        bytes += (int64_t)w->size[k];
        if (w->kind[k] == REPEATED)
            w->kind[k] = plan->strides[k][0] == 0 ? SINGLE : GATHER;
        if (w->kind[k] == GATHER)
            tile += (int64_t)w->compute_size[k];
        else if (w->kind[k] != DIRECT)
            rows += (int64_t)w->compute_size[k];
    }
    int64_t along = TILE_ALONG, across = TILE_ACROSS, small = plan->sizes[w->across];
    while (along * (across * tile + rows) > SCRATCH)
        across > 8 ? (across /= 2) : (along /= 2);
    w->across_size = small < across ? small : across;
    w->along_size = along < plan->sizes[0] ? along : plan->sizes[0];
    w->across_tiles = (small + w->across_size - 1) / w->across_size;
    w->along_tiles = (plan->sizes[0] + w->along_size - 1) / w->along_size;
    w->piece = w->across_size * w->along_size;
    w->fetch = plan->numel * bytes > TD_STREAM_BYTES;
    w->temporary = (int64_t)(((size_t)w->piece * widest + SLACK) & ~(size_t)63);
    int64_t tiles = plan->numel / plan->sizes[0] / small * w->across_tiles * w->along_tiles;
    if (plan->numel * cost < 2 * TD_THREAD_WORK)
        tiles_body(w, 0, tiles);
    else
        td_parallel_for(0, tiles, TD_CHUNK_WORK / (w->piece * cost) + 1, tiles_body, w);
    return true;
}

/* Whether operand k's rows follow each other without a gap. */
static bool is_linear(const td_plan *plan, int k, size_t size)
{
    if (plan->strides[k][0] != (int64_t)size && plan->sizes[0] != 1)
        return false;
    for (int d = 1; d < plan->ndim; d++)
        if (plan->strides[k][d] != plan->strides[k][d - 1] * plan->sizes[d - 1])
            return false;
    return true;
}

/* Whether operand k stays where it is in all dimensions from `from` on. */
static bool is_constant(const td_plan *plan, int k, int from)
{
    for (int d = from; d < plan->ndim; d++)
        if (plan->strides[k][d] != 0)
            return false;
    return true;
}

/* Where one input is a single element along each row, and all else direct: by the loop that takes it so, without a block. */
static bool read_singles(loop_state *w, td_loop *const *singles)
{
    int found = 0;
    for (int k = 0; k < w->plan->count; k++) {
        const bool single = k >= w->n_out && !w->convert[k] && w->plan->strides[k][0] == 0 && w->kind[k] != DIRECT;
        if (!single && w->kind[k] != DIRECT)
            return false;
        if (single)
            found = found ? -1 : k;
    }
    if (found <= 0 || !singles[found - w->n_out])
        return false;
    w->kind[found] = DIRECT;
    w->loop = singles[found - w->n_out];
    return true;
}

/* Decide kinds and block sizes, and go: on tiles if an input is transposed, else on blocks.  A block has the most of 1024, 512, 256
 * or 128 elements with which all operands that may need one fit the scratch memory. */
static void run_plan(const td_plan *plan, int n_out, td_tensor *const *operands, const td_dtype *compute, td_loop *loop,
                     td_loop *const *singles, const void *params, int cost)
{
    loop_state w;
    w.plan = plan, w.loop = loop, w.params = params, w.n_out = n_out;
    w.rows = 1;
    w.across = 0;
    size_t scratch = 0, widest = 0;
    for (int d = 1; d < plan->ndim; d++)
        w.rows *= plan->sizes[d];
    for (int k = 0; k < plan->count; k++) {
        td_dtype stored = operands[k]->dtype;
        bool out = k < n_out;
        w.size[k] = td_itemsizes[stored];
        w.compute_size[k] = td_itemsizes[compute[k]];
        w.convert[k] = NULL;
        if (stored != compute[k])
            w.convert[k] = out ? td_converter(stored, compute[k]) : td_converter(compute[k], stored);
    }
    for (int k = 0; k < plan->count; k++) {
        bool direct = !w.convert[k] && plan->strides[k][0] == (int64_t)w.size[k] && plan->sizes[0] >= LONG_ROW;
        if (!direct)
            scratch += w.compute_size[k];
        if (w.convert[k] && w.size[k] > widest)
            widest = w.size[k];
    }
    int64_t block = LONGEST;
    while (block > SHORTEST && block * (int64_t)(scratch + widest) > SCRATCH)
        block /= 2;
    bool short_rows = plan->sizes[0] < LONG_ROW && w.rows > 1;
    w.rows_of_block = short_rows ? td_quotient(block, plan->sizes[0]) : 1;
    bool through_scratch = false;
    for (int k = 0; k < plan->count; k++) {
        bool contiguous = short_rows ? is_linear(plan, k, w.size[k])
                                     : plan->strides[k][0] == (int64_t)w.size[k] || plan->sizes[0] == 1;
        bool again = w.rows > 1 && (short_rows || plan->sizes[0] <= block);     /* rows are whole, and there are more */
        bool constant = k >= n_out && is_constant(plan, k, again ? 1 : 0);
        bool single = k >= n_out && !short_rows && plan->strides[k][0] == 0;
        w.kind[k] = contiguous && !w.convert[k] ? DIRECT : constant ? REPEATED : single ? SINGLE
                                                : contiguous ? CONVERT : GATHER;
        through_scratch |= w.kind[k] != DIRECT;
    }
    w.temporary = (int64_t)(((size_t)block * widest + SLACK) & ~(size_t)63);
    if (!short_rows && run_as_tiles(&w, widest, cost > 0 ? cost : 1))
        return;
    if (singles && !short_rows && read_singles(&w, singles))
        through_scratch = false;
    w.piece = short_rows ? w.rows_of_block * plan->sizes[0] : through_scratch ? block : DIRECT_PIECE;
    if (!short_rows && w.piece > plan->sizes[0])
        w.piece = plan->sizes[0];
    w.pieces = short_rows ? 1 : td_quotient(plan->sizes[0] + w.piece - 1, w.piece);
    w.plain_rows = !short_rows && w.pieces == 1 && plan->ndim == 2;
    for (int k = 0; k < plan->count; k++)
        w.plain_rows &= w.kind[k] != CONVERT && w.kind[k] != GATHER;
    int64_t blocks = short_rows ? td_quotient(w.rows + w.rows_of_block - 1, w.rows_of_block) : w.rows * w.pieces;
    if (blocks == 1 || plan->numel * cost < 2 * TD_THREAD_WORK)
        blocks_body(&w, 0, blocks);
    else
        td_parallel_for(0, blocks, TD_CHUNK_WORK / (w.piece * (cost > 0 ? cost : 1)) + 1, blocks_body, &w);
}

/* Two loops in a row over the same large operands find nothing in a cache of LRU order if both begin at the start: what comes first
 * was evicted first.  Alternating directions (boustrophedon) let the second one begin with what is still there.  Elements are
 * independent, so the results are the same. */
void td_for_elements(int64_t n, int64_t bytes, int64_t grain, td_loop_body *body, void *context)
{
    static _Thread_local bool from_the_end;
    if (bytes < TURNING_BYTES || td_num_threads() > 1 || !(from_the_end = !from_the_end)) {
        td_parallel_for(0, n, grain, body, context);
        return;
    }
    TD_EMIT(.kind = TD_EVENT_PARALLEL, .numbers = {n, grain, 1});
    const int64_t piece = (n / 64 + 4 * LONGEST) & ~(int64_t)(LONGEST - 1);
    for (int64_t at = (n - 1) / piece * piece; at >= 0; at -= piece)
        body(context, at, n - at < piece ? n : at + piece);
}

/* ---- the direct path: contiguous operands of one shape, perhaps with single elements among them */

typedef struct direct {
    int          count;
    char *const *data;
    td_loop     *loop;
    const void  *params;
    int64_t      piece;                     /* elements that the loop takes at once */
    int64_t      step[TD_MAX_OPERANDS];     /* bytes from element to element; 0: `data` is a block of equal ones */
} direct;

/* Elements [from, to), which one thread takes, in calls of `piece` elements: blocks of equal ones are no longer than that. */
static void direct_body(void *context, int64_t from, int64_t to)
{
    const direct *w = context;
    char *ptrs[TD_MAX_OPERANDS];
    for (int64_t at = from; at < to; at += w->piece) {
        for (int k = 0; k < w->count; k++)
            ptrs[k] = w->data[k] + at * w->step[k];
        w->loop(to - at < w->piece ? to - at : w->piece, ptrs, w->params);
    }
}

/* The one output through a block.  While that is written the processor doesn't look far ahead, so the next piece is fetched. */
static void streaming_body(void *context, int64_t from, int64_t to)
{
    const direct *w = context;
    char *ptrs[TD_MAX_OPERANDS];
    _Alignas(64) char block[STREAMED * 16];
    for (int64_t at = from; at < to; at += w->piece) {
        const int64_t n = to - at < w->piece ? to - at : w->piece;
        for (int k = 1; k < w->count; k++) {
            const int64_t bytes = n * w->step[k];
            ptrs[k] = w->data[k] + at * w->step[k];
            for (int64_t line = 0; line < bytes; line += 64)
                __builtin_prefetch(ptrs[k] + bytes + line);
        }
        ptrs[0] = block;
        w->loop(n, ptrs, w->params);
        td_copy_streaming(w->data[0] + at * w->step[0], block, n * w->step[0]);
    }
    td_end_streaming();
}

/* How long blocks of equal elements are: filling long ones costs more than calling a loop again. */
static int64_t singles_of(int64_t n) { return n < 4 * LONGEST ? LONGEST / 4 : LONGEST; }

/* `single` has a bit for each operand whose data is such a block.  An output that is also an input is not streamed: its lines are in
 * the cache already, as they were read. */
static void __attribute__((noinline)) run_direct(int n_out, int count, char *const *data, const td_dtype *compute, unsigned single,
                                                 int64_t piece, td_loop *loop, const void *params, int64_t n, int64_t cost)
{
    direct w;
    w.count = count, w.data = data, w.loop = loop, w.params = params;
    w.piece = piece;
    int64_t bytes = 0;
    bool apart = n_out == 1;
    for (int k = 0; k < count; k++) {
        w.step[k] = single >> k & 1 ? 0 : td_itemsizes[compute[k]];
        bytes += n * w.step[k];
        apart &= k == 0 || data[k] != data[0];
    }
    /* Else too little is saved, or memory waits for the loop anyway. */
    const bool stream = apart && bytes > TD_STREAM_BYTES && n * w.step[0] >= bytes / 4 && cost < COSTLY;
    if (stream && w.piece > STREAMED)
        w.piece = STREAMED;
    if (n * cost < 2 * TD_THREAD_WORK)
        direct_body(&w, 0, n);
    else    /* whole cache lines of any dtype */
        td_for_elements(n, bytes, (TD_CHUNK_WORK / (cost > 0 ? cost : 1) + LONGEST) & ~(int64_t)(LONGEST - 1),
                        stream ? streaming_body : direct_body, &w);
}

/* Operands with one element become blocks of that element, converted once. */
static void __attribute__((noinline)) run_singles(int n_out, int count, td_tensor *const *operands, const td_dtype *compute,
                                                  unsigned single, td_loop *loop, td_loop *const *singles, const void *params,
                                                  int64_t n, int cost)
{
    _Alignas(64) char blocks[SCRATCH + 4 * LONGEST];
    char *data[TD_MAX_OPERANDS], *block = blocks;
    int64_t length = n < singles_of(n) ? n : singles_of(n);
    bool whole = false;
    for (int k = n_out; singles && k < count; k++)
        if (single == 1u << k && singles[k - n_out])
            loop = singles[k - n_out], whole = true, length = 1;
    for (int k = 0; k < count; k++) {
        data[k] = operands[k]->data;
        if (!(single >> k & 1))
            continue;
        char value[16];
        td_dtype stored = operands[k]->dtype;
        if (stored != compute[k]) {
            td_converter(compute[k], stored)(value, data[k], 1);
            data[k] = value;
        }
        int64_t size = td_itemsizes[compute[k]];
        td_copy_run((size_t)size, block, size, data[k], 0, length);
        data[k] = block;
        block += (length * size + 63) & ~(int64_t)63;
    }
    run_direct(n_out, count, data, compute, single, whole ? n : singles_of(n), loop, params, n, cost);
}

/* Everything that is not plain: checks first. */
static int __attribute__((noinline)) iterate_any(int n_out, int n_in, td_tensor *const *operands, const td_dtype *compute,
                                                 td_loop *loop, td_loop *const *singles, const void *params, int cost)
{
    int count = n_out + n_in;
    int64_t shape[TD_MAX_DIMS];
    const int64_t *sizes = shape;
    int ndim;
    if (count < 1 || count > TD_MAX_OPERANDS)
        return td_error(TD_E_RUNTIME, "td_iterate takes 1 to %d operands, got %d", TD_MAX_OPERANDS, count);
    bool meta = false;
    for (int k = 0; k < count; k++) {
        if (!operands[k])
            return -1;
        meta |= operands[k]->device.type == TD_META;
        if (operands[k]->device.type > TD_META || !operands[k]->storage) {
            char name[32];
            return td_error(TD_E_RUNTIME, "td_iterate: operand %d is not a strided tensor on the CPU but on %s", k,
                            td_device_str(operands[k]->device, name));
        }
    }
    if (n_out > 0) {
        ndim = operands[0]->ndim;
        sizes = operands[0]->sizes;
    } else {
        ndim = td_broadcast_shape(NULL, count, operands, shape);
        if (ndim < 0)
            return -1;
    }
    for (int k = 0; k < count; k++) {
        const td_tensor *x = operands[k];
        bool fits = x->ndim <= ndim && (k >= n_out || x->ndim == ndim);
        for (int d = 0; d < x->ndim && fits; d++)
            fits = x->sizes[d] == sizes[d + ndim - x->ndim] || (x->sizes[d] == 1 && k >= n_out);
        if (!fits) {
            td_shape_text own, wanted;
            return td_error(TD_E_RUNTIME, "td_iterate: operand %d of shape %s doesn't broadcast to %s", k,
                            td_shape_str(x->ndim, x->sizes, own), td_shape_str(ndim, sizes, wanted));
        }
    }
    if (meta)
        return 0;
    td_plan plan;
    td_plan_make(&plan, ndim, sizes, count, operands);
    if (plan.numel > 0) {
        TD_EMIT(.kind = TD_EVENT_ITERATE, .n = plan.ndim, .sizes = plan.sizes, .strides = plan.strides[0],
                .numbers = {count, ndim});
        run_plan(&plan, n_out, operands, compute, loop, singles, params, cost);
    }
    return 0;
}

/* Contiguous, of this dtype and on the CPU: fields that lie side by side, checked in one comparison. */
static inline bool is_plain(const td_tensor *x, td_dtype dtype)
{
    _Static_assert(offsetof(td_tensor, flags) == offsetof(td_tensor, dtype) + 2 &&
                   offsetof(td_tensor, device) == offsetof(td_tensor, dtype) + 4 && TD_CPU == 0, "the fields have moved");
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    uint64_t word;
    memcpy(&word, &x->dtype, sizeof word);
    return (word & (0xffull << 32 | TD_FLAG_CONTIGUOUS << 16 | 0xff)) == (TD_FLAG_CONTIGUOUS << 16 | (uint64_t)(uint8_t)dtype);
#else
    return x->flags & TD_FLAG_CONTIGUOUS && x->dtype == (int8_t)dtype && x->device.type == TD_CPU;
#endif
}

/* What td_iterate looked at in vain: single elements, threads, or anything. */
static int __attribute__((noinline)) iterate_slower(int n_out, int n_in, td_tensor *const *operands, const td_dtype *compute,
                                                    td_loop *loop, td_loop *const *singles, const void *params, int cost)
{
    int count = n_out + n_in;
    if (n_out < 1 || count > TD_MAX_OPERANDS || !operands[0])
        return iterate_any(n_out, n_in, operands, compute, loop, singles, params, cost);
    const td_tensor *first = operands[0];
    int64_t n = first->numel, blocks = 0;
    unsigned single = 0;
    bool plain = n > 0;
    char *data[TD_MAX_OPERANDS];
    for (int k = 0; k < count; k++) {
        const td_tensor *x = operands[k];
        if (!x)
            return -1;
        data[k] = x->data;
        if (x->numel == n && is_plain(x, compute[k]))
            continue;
        single |= 1u << k;
        blocks += td_itemsizes[compute[k]];
        plain &= k >= n_out && x->numel == 1 && x->ndim <= first->ndim && x->device.type == TD_CPU && x->storage;
    }
    if (!plain || blocks * LONGEST > SCRATCH)
        return iterate_any(n_out, n_in, operands, compute, loop, singles, params, cost);
    TD_EMIT(.kind = TD_EVENT_ITERATE, .n = 1, .sizes = &n, .numbers = {count, first->ndim});
    if (single)
        run_singles(n_out, count, operands, compute, single, loop, singles, params, n, cost);
    else
        run_direct(n_out, count, data, compute, 0, n, loop, params, n, cost);
    return 0;
}

/* The path of small contiguous operands: a count and one masked comparison per operand, then the loop. */
int td_iterate_singles(int n_out, int n_in, td_tensor *const *operands, const td_dtype *compute, td_loop *loop,
                       td_loop *const *singles, const void *params, int cost)
{
    int count = n_out + n_in;
    char *data[TD_MAX_OPERANDS];
    if (TD_LIKELY(n_out >= 1 && count <= TD_MAX_OPERANDS && operands[0])) {
        /* Operands broadcast to the first, so those with as many elements have its shape, but for dimensions of size 1. */
        int64_t n = operands[0]->numel;
        int k = 0;
        for (; k < count; k++) {
            const td_tensor *x = operands[k];
            if (TD_UNLIKELY(!x || x->numel != n || !is_plain(x, compute[k])))
                break;
            data[k] = x->data;
        }
        if (TD_LIKELY(k == count && n * cost < 2 * TD_THREAD_WORK)) {
            if (TD_LIKELY(n > 0))
                loop(n, data, params);
            return 0;
        }
    }
    return iterate_slower(n_out, n_in, operands, compute, loop, singles, params, cost);
}

int td_iterate(int n_out, int n_in, td_tensor *const *operands, const td_dtype *compute, td_loop *loop, const void *params,
               int cost)
{
    return td_iterate_singles(n_out, n_in, operands, compute, loop, NULL, params, cost);
}
