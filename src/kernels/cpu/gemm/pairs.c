/* Products of bfloat16 on processors with instructions for dot products: what is shared out between threads, and copies of
 * operands that don't lie in pairs.
 *
 * The sums are floats, rounded once at the end; their order depends on k alone, as in gemm.c.  A pair is two neighbours along k
 * in the 32 bits of a float, so tiles.h and its packing move pairs as if they were floats; depth counts pairs. */
#include "base/base.h"
#include "base/simd.h"
#include "base/tiles.h"
#include "kernels/cpu/gemm/gemm.h"

#include <string.h>
#include <tede/kernel.h>

enum {
    LANES = 16, WIDE = 48,          /* numbers of a vector; of a panel */
    WIDEST = 1024,                  /* columns that are packed at once: rows of floats for them stay in the second cache */
    WIDEST_PACKED = 1 << 21,        /* pairs of them, where sums need no room: rows of a are packed less often */
    FEW = 96,                       /* rows for which b is packed by those who need it, part by part */
};

#ifdef TD_FOR_V4
static bool has_pairs, has_tiles;
static int look_for_pairs(void)
{
    has_pairs = td_cpu_isa() == TD_V4 && td_cpu_multiplies_bf16();
    has_tiles = has_pairs && td_cpu_multiplies_tiles();
    return 0;
}
bool td_gemm_has_tiles(void) { return td_gemm_has_pairs() && has_tiles; }
bool td_gemm_has_pairs(void)
{
    static td_once once;
    td_once_run(&once, look_for_pairs);
    return has_pairs;
}
#else
bool td_gemm_has_pairs(void) { return false; }
bool td_gemm_has_tiles(void) { return false; }
#endif

/* One product, or a pass over some columns of it. */
typedef struct product {
    int64_t m, n, k, ldc;
    float alpha, beta;
    td_matrix a, b;                 /* a: pairs side by side, steps count pairs; b: steps count halves */
    uint16_t *c;
    const float *bias;
    float *packed;                  /* b's panels, or NULL: each part is packed by whom it is given to */
    int64_t tile;                   /* rows or columns of a part */
    int failed;
    bool tiles;                     /* by the processor's products of tiles */
    bool transposed;                /* c's rows and columns have changed places */
} product;

static int64_t rounded_up(int64_t x, int64_t unit)
{
    return (x + unit - 1) / unit * unit;
}

/* Threads may set it together: it only ever becomes 1, and is read after all of them have ended. */
static void fail(int *failed)
{
    __atomic_store_n(failed, 1, __ATOMIC_RELAXED);
}

static uint16_t *in_c(const product *p, int64_t i, int64_t j) { return p->c + (p->transposed ? j * p->ldc + i : i * p->ldc + j); }

/* Product of tiles, whose sums need no room of their own but between passes. */
static void multiply_tiles(product *p, int64_t m, int64_t n, td_matrix a, const float *packed, const float *bias, uint16_t *c)
{
    const int64_t k = (p->k + 1) / 2;
    const size_t bytes = td_tiles_room(m, n, k);
    float *room = td_mem_alloc(bytes);
    if (!room) {
        fail(&p->failed);
        return;
    }
    TD_ISA_PICK(td_gemm_pairs_table)->tiles(&(td_tile_product){
        .m = m, .n = n, .k = k, .alpha = p->alpha, .beta = p->beta, .a = a, .b = packed, .c = c, .ldc = p->ldc, .halves = true,
        .transposed = p->transposed, .bias = bias, .room = room});
    td_mem_free(room, bytes);
}

/* m rows of n columns of c, by way of floats: sums need 32 bits from pass to pass, and a half written between them would be
 * rounded more than once.  Where c's rows lie one behind the other, all are converted by one call. */
static void multiply(product *p, int64_t m, int64_t n, td_matrix a, const float *packed, const float *bias, uint16_t *c)
{
    if (p->tiles) {
        multiply_tiles(p, m, n, a, packed, bias, c);
        return;
    }
    const size_t bytes = (size_t)(m * n) * 4;
    float *sums = td_mem_alloc(bytes);
    if (!sums) {
        fail(&p->failed);
        return;
    }
    const int64_t rows = p->ldc == n ? 1 : m, wide = m * n / rows;
    for (int64_t i = 0; p->beta != 0 && i < rows; i++)
        td_convert(TD_F32, sums + i * wide, 4, TD_BF16, c + i * p->ldc, 2, wide);
    TD_ISA_PICK(td_gemm_pairs_table)->packed(m, n, (p->k + 1) / 2, p->alpha, a, packed, p->beta, sums, n, bias);
    for (int64_t i = 0; i < rows; i++)
        td_convert(TD_BF16, c + i * p->ldc, 2, TD_F32, sums + i * wide, 4, wide);
    td_mem_free(sums, bytes);
}

static void pack_parts(void *context, int64_t from, int64_t to)
{
    const product *p = context;
    /* What is left behind the last part, a panel or less, is that part's: how wide it is depends on what is before. */
    const int64_t end = to * p->tile >= p->n - WIDE ? p->n : to * p->tile;
    if (from == 0 || from * p->tile < p->n - WIDE)
        TD_ISA_PICK(td_gemm_pairs_table)->pack_some(p->n, p->k, p->b, from * p->tile, end, p->packed);
}

/* Rows of a against b's columns that pack_parts() has packed for all. */
static void row_parts(void *context, int64_t from, int64_t to)
{
    product *p = context;
    for (int64_t part = from; part < to; part++) {
        const int64_t i = part * p->tile;
        const td_matrix a = {(const float *)p->a.data + i * p->a.row, p->a.row, p->a.column};
        multiply(p, td_between(p->m - i, 0, p->tile), p->n, a, p->packed, p->bias && p->transposed ? p->bias + i : p->bias, in_c(p, i, 0));
    }
}

/* All rows of a against some columns, packed by the thread that needs them: nobody waits for anybody, and b is read once. */
static void column_parts(void *context, int64_t from, int64_t to)
{
    product *p = context;
    const size_t bytes = (size_t)td_gemm_packed_size(p->tile, (p->k + 1) / 2, LANES) * 4;
    float *packed = td_mem_alloc(bytes);
    if (!packed) {
        fail(&p->failed);
        return;
    }
    for (int64_t part = from; part < to; part++) {
        const int64_t j = part * p->tile, n = td_between(p->n - j, 0, p->tile);
        const td_matrix b = {(const uint16_t *)p->b.data + j * p->b.column, p->b.row, p->b.column};
        TD_ISA_PICK(td_gemm_pairs_table)->pack_some(n, p->k, b, 0, n, packed);
        multiply(p, p->m, n, p->a, packed, p->bias && !p->transposed ? p->bias + j : p->bias, in_c(p, 0, j));
    }
    td_mem_free(packed, bytes);
}

/* rows x k halves as pairs, row by row or, if rows lie side by side, pair by pair. */
typedef struct copying {
    td_matrix from;
    int64_t rows, k, pairs;
    uint16_t *to;
} copying;

static void copy_rows(void *context, int64_t first, int64_t last)
{
    const copying *c = context;
    for (int64_t i = first; i < last; i++) {
        uint16_t *to = c->to + i * 2 * c->pairs;
        td_convert(TD_BF16, to, 2, TD_BF16, (const uint16_t *)c->from.data + i * c->from.row, c->from.column * 2, c->k);
        if (c->k % 2)
            to[c->k] = 0;
    }
}

static void copy_pairs(void *context, int64_t first, int64_t last)
{
    const copying *c = context;
    for (int64_t p = first; p < last; p++) {
        const uint16_t *from = (const uint16_t *)c->from.data + 2 * p * c->from.column;
        TD_ISA_PICK(td_gemm_pairs_table)->zip(c->rows, from, 2 * p + 1 < c->k ? from + c->from.column : NULL, c->to + p * 2 * c->rows);
    }
}

/* *x becomes a matrix of pairs in a new block; NULL if there is no memory. */
static void *pair_copy(td_matrix *x, int64_t rows, int64_t k, size_t *bytes)
{
    copying job = {*x, rows, k, (k + 1) / 2, NULL};
    *bytes = (size_t)(rows * job.pairs) * 4;
    job.to = td_mem_alloc(*bytes);
    if (!job.to)
        return NULL;
    if (x->row == 1 && rows > 1)
        td_parallel_for(0, job.pairs, td_between((1 << 15) / (rows + 1), 1, 1 << 15), copy_pairs, &job);
    else
        td_parallel_for(0, rows, td_between((1 << 15) / (k + 1), 1, 1 << 15), copy_rows, &job);
    *x = x->row == 1 && rows > 1 ? (td_matrix){job.to, 1, rows} : (td_matrix){job.to, job.pairs, 1};
    return job.to;
}

/* One product or, in the second path, some columns of it at a time; a and b lie in pairs.  Few rows are cut across columns, many
 * across rows with b packed once for all; a part of rows is a multiple of 24, three tiles of 8. */
static bool parts_of(product *p)
{
    const int64_t threads = td_num_threads();
    if (p->m < FEW) {
        /* As many columns as a part of the second cache takes, so that b is read once. */
        const int64_t most = td_between((1 << 17) / ((p->k + 1) / 2) / WIDE, 1, WIDEST / WIDE) * WIDE;
        p->tile = td_between(rounded_up(p->n / threads, WIDE), WIDE, most);
        td_parallel_for(0, (p->n + p->tile - 1) / p->tile, td_between((1 << 18) / (p->m * p->tile * p->k), 1, 64), column_parts, p);
        return !p->failed;
    }
    const int64_t pairs = (p->k + 1) / 2, widest = p->tiles ? td_between(WIDEST_PACKED / pairs / WIDE * WIDE, WIDEST, 4 * WIDEST) : WIDEST;
    const size_t bytes = (size_t)td_gemm_packed_size(p->n < widest ? p->n : widest, pairs, LANES) * 4;
    float *packed = td_mem_alloc(bytes);
    if (!packed)
        return false;
    for (int64_t j = 0; j < p->n; j += widest) {
        product some = *p;
        some.n = td_between(p->n - j, 0, widest), some.packed = packed, some.tile = 2 * WIDE;
        some.b.data = (const uint16_t *)p->b.data + j * p->b.column;
        some.bias = p->bias && !p->transposed ? p->bias + j : p->bias, some.c = in_c(p, 0, j);
        td_parallel_for(0, (some.n + some.tile - 1) / some.tile, td_between((1 << 15) / (some.tile * p->k), 1, 1 << 15), pack_parts, &some);
        const int64_t each = threads > 1 ? p->m / (4 * threads) : p->m;
        some.tile = p->tiles ? rounded_up(td_between(each, 32, 32 * td_tile_group(some.n, pairs)), 32) : rounded_up(td_between(p->m / (4 * threads), 24, 128), 24);
        td_parallel_for(0, (p->m + some.tile - 1) / some.tile, td_between((1 << 18) / (some.tile * some.n * p->k), 1, 1 << 18), row_parts, &some);
        p->failed |= some.failed;
    }
    td_mem_free(packed, bytes);
    return !p->failed;
}

typedef struct batch {
    product first;
    int64_t step_a, step_b, step_c;
    int failed;
} batch;

/* Product number `which`.  a is read as it lies if pairs lie side by side: k is even and rows begin at even steps.  b may lie in
 * rows (packing zips two) or in columns with the same condition as a; otherwise a copy lies so. */
static bool one(const batch *all, int64_t which)
{
    product p = all->first;
    p.a.data = (const uint16_t *)p.a.data + which * all->step_a;
    p.b.data = (const uint16_t *)p.b.data + which * all->step_b;
    p.c += which * all->step_c;
    size_t bytes_a = 0, bytes_b = 0;
    void *a = NULL, *b = NULL;
    const bool even = p.k % 2 == 0;
    if (even && p.a.column == 1 && (p.a.row % 2 == 0 || p.m == 1))
        p.a.row /= 2;
    else if (!(a = pair_copy(&p.a, p.m, p.k, &bytes_a)))
        return false;
    if (p.b.column != 1 && !(p.b.row == 1 && even && p.b.column % 2 == 0)) {
        td_matrix transposed = {p.b.data, p.b.column, p.b.row};
        if (!(b = pair_copy(&transposed, p.n, p.k, &bytes_b))) {
            td_mem_free(a, bytes_a);
            return false;
        }
        p.b = (td_matrix){b, 1, 2 * transposed.row};
    }
    const bool done = parts_of(&p);
    td_mem_free(b, bytes_b);
    td_mem_free(a, bytes_a);
    return done;
}

static void several(void *context, int64_t from, int64_t to)
{
    batch *all = context;
    for (int64_t which = from; which < to; which++)
        if (!one(all, which))
            fail(&all->failed);
}

/* With two products per thread and more, each thread does whole ones; fewer are each shared out between all threads. */
int td_gemm_pairs(int64_t count, int64_t m, int64_t n, int64_t k, float alpha, td_matrix a, int64_t step_a, td_matrix b,
                  int64_t step_b, float beta, void *c, int64_t ldc, int64_t step_c, const float *bias)
{
    batch all = {{m, n, k, ldc, alpha, beta, a, b, c, bias, NULL, 0, 0, td_gemm_has_tiles(), false}, step_a, step_b, step_c, 0};
    /* Where b's pairs lie side by side, its columns are rows as they lie: rather turn sums round than all of b. */
    if (all.first.tiles && b.row == 1 && k > 1 && m * (k + 2 * n) < n * k) {
        const td_matrix a_turned = {a.data, a.column, a.row};
        all.first.a = (td_matrix){b.data, b.column, b.row}, all.first.b = a_turned;
        all.first.m = n, all.first.n = m, all.first.transposed = true;
        all.step_a = step_b, all.step_b = step_a;
    }
    if (count >= 2 * td_num_threads())
        td_parallel_for(0, count, td_between((1 << 18) / (m * n * k), 1, 1 << 18), several, &all);
    else
        several(&all, 0, count);
    return all.failed ? td_error(TD_E_MEMORY, "DefaultCPUAllocator: can't allocate memory for a matrix product") : 0;
}
