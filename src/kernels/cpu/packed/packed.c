/* Operators on rows of blocks: packing, unpacking, and products with activations.
 *
 * A product reads the weights as they are and multiplies bytes (packed_isa.c). That is faster than a product of bfloat16 for any number
 * of rows where the processor has dot products of bytes, since such products take twice as many operands a cycle. Where it has products
 * of tiles, many rows and weights become bfloat16, a block of weights at a time; where it has neither, many rows meet weights that are
 * unpacked to floats. Such blocks stay in the second cache. Sums don't depend on how the work is shared out, so results are the same for
 * any number of threads. */
#include "calls_kernels_cpu_packed_packed.h"
#include <tede/auto.h>
#include <tede/kernel.h>
#include <tede/modes.h>
#include "base/base.h"
#include "base/simd.h"
#include "base/tiles.h"
#include "kernels/cpu/gemm/gemm.h"
#include "kernels/cpu/packed/bytes.h"
#include "kernels/cpu/packed/formats.h"
#include "kernels/cpu/packed/packed.h"

enum {
    FEW = 16,                   /* rows of activations up to which bytes are multiplied without instructions for it */
    TILE = 96,                  /* rows of weights that are unpacked at once */
    BLOCK = 1 << 19,            /* bytes of quantized activations that stay in the second cache while all weights meet them */
    ENOUGH = 16,                /* rows of activations from which weights are unpacked for products of tiles */
    SHORT = 1 << 10,            /* bytes of rows */
    SOON = 3,                   /* rows of weights ahead of the one that is unpacked */
    PANELS = 96,                /* columns of activations that are packed at once: whole panels of pairs */
};

static int64_t clamp(int64_t x, int64_t low, int64_t high) { return x < low ? low : x > high ? high : x; }

#ifdef TD_FOR_V4
static bool has_bytes, has_tiles;
static int look_for_bytes(void)
{
    has_bytes = td_cpu_isa() == TD_V4 && td_cpu_multiplies_bytes();
    has_tiles = has_bytes && td_cpu_multiplies_tiles();
    return 0;
}
bool td_packed_multiplies_tiles(void) { return td_packed_multiplies_bytes() && has_tiles; }
bool td_packed_multiplies_bytes(void)
{
    static td_once once;
    td_once_run(&once, look_for_bytes);
    return has_bytes;
}
#else
bool td_packed_multiplies_bytes(void) { return false; }
bool td_packed_multiplies_tiles(void) { return false; }
#endif

typedef struct job {
    int            format;
    int64_t        m, n, k, row_bytes;
    const uint8_t *rows;
    const void    *x;                   /* td_packed_x of each row, or m x k floats */
    const float   *bias;
    float         *y;
    int            failed;              /* no memory */
} job;

static const td_packed_kernels *kernels_of(int format) { return &TD_ISA_PICK(td_packed_table)->formats[format]; }
static size_t scratch_bytes(int64_t k) { return sizeof(float) * 2 * TD_PACKED_ROWS * (size_t)(td_packed_padded(k) / 16) + 64; }
static void fail(job *j) { __atomic_store_n(&j->failed, 1, __ATOMIC_RELAXED); }
static int no_memory(void) { return td_error(TD_E_MEMORY, "DefaultCPUAllocator: can't allocate memory for a product with packed weights"); }

/* ---- packing and unpacking */

typedef struct conversion {
    int      format;
    int64_t  k, row_bytes;
    td_dtype dtype;                     /* of unpacked rows */
    const char *from;
    char       *to;
    int      failed;
} conversion;

static void pack_some(void *context, int64_t first, int64_t last)
{
    const conversion *c = context;
    for (int64_t i = first; i < last; i++)
        td_packed_quantize(c->format, (const float *)c->from + i * c->k, c->k, (uint8_t *)c->to + i * c->row_bytes);
}

static void unpack_some(void *context, int64_t first, int64_t last)
{
    conversion *c = context;
    const td_packed_kernels *f = kernels_of(c->format);
    const bool direct = c->dtype == TD_F32 || c->dtype == TD_BF16;
    const size_t bytes = scratch_bytes(c->k) + (direct ? 0 : sizeof(float) * (size_t)c->k), size = td_dtype_size(c->dtype);
    float *scratch = td_mem_alloc(bytes), *row = (float *)((char *)scratch + scratch_bytes(c->k));
    if (!scratch) {
        __atomic_store_n(&c->failed, 1, __ATOMIC_RELAXED);
        return;
    }
    for (int64_t i = first; i < last; i++) {
        const uint8_t *from = (const uint8_t *)c->from + i * c->row_bytes;
        char *to = c->to + (size_t)(i * c->k) * size;
        if (c->dtype == TD_BF16)
            f->unpack_bf16(from, c->k, scratch, (uint16_t *)to);
        else
            f->unpack_f32(from, c->k, scratch, direct ? (float *)to : row);
        if (!direct)
            td_convert(c->dtype, to, (int64_t)size, TD_F32, row, 4, c->k);
    }
    td_mem_free(scratch, bytes);
}

int td_cpu__pack_rows(td_tensor *self, const char *format, td_tensor *out)
{
    TD_AUTO td_tensor *from = td_as_contiguous(self, TD_F32), *to = td_writable(out, TD_U8);
    if (!from || !to)
        return -1;
    const int64_t k = self->sizes[1];
    conversion c = {.format = td_packed_find(format), .k = k, .row_bytes = to->sizes[1], .from = from->data, .to = to->data};
    td_parallel_for(0, self->sizes[0], clamp(4096 / (k + 1), 1, 4096), pack_some, &c);
    return td_write_back(out, to);
}

int td_cpu__unpack_rows(td_tensor *rows, const char *format, int64_t columns, td_dtype dtype, td_tensor *out)
{
    (void)dtype;
    TD_AUTO td_tensor *from = td_make_contiguous(rows), *to = td_writable(out, (td_dtype)out->dtype);
    if (!from || !to)
        return -1;
    conversion c = {.format = td_packed_find(format), .k = columns, .row_bytes = rows->sizes[1], .dtype = (td_dtype)to->dtype,
                    .from = from->data, .to = to->data};
    if (columns)
        td_parallel_for(0, rows->sizes[0], clamp(16384 / (columns + 1), 1, 16384), unpack_some, &c);
    return c.failed ? no_memory() : td_write_back(out, to);
}

/* ---- few rows */

/* One row of x times rows of weights that are shorter than what the processor fetches by itself once it has seen where reading goes: the four that are
 * multiplied together are a quarter of all apart, so that each of the four goes on through memory from tile to tile. */
static void short_dots(const job *j, int64_t first, int64_t last, float *scratch)
{
    enum { R = TD_PACKED_ROWS };
    const td_packed_kernels *f = kernels_of(j->format);
    const int64_t all = clamp(j->n - first * R, 0, (last - first) * R), step = (all + R - 1) / R;
    for (int64_t t = 0; t < step; t++) {
        const int64_t r = first * R + t, there = (all - t + step - 1) / step;
        float sums[R];
        (td_packed_multiplies_bytes() ? f->dot_bytes : f->dot)((int)there, j->rows + r * j->row_bytes, j->row_bytes, step * j->row_bytes, j->k, 1, j->x, scratch,
                                                     sums, R);
        for (int64_t q = 0; q < there; q++)
            j->y[r + q * step] = sums[q] + (j->bias ? j->bias[r + q * step] : 0);
    }
}

static void some_dots(void *context, int64_t first, int64_t last)
{
    job *j = context;
    const td_packed_kernels *f = kernels_of(j->format);
    float *scratch = td_mem_alloc(scratch_bytes(j->k));
    if (!scratch) {
        fail(j);
        return;
    }
    if (j->m == 1 && j->row_bytes < SHORT) {
        short_dots(j, first, last, scratch);
        td_mem_free(scratch, scratch_bytes(j->k));
        return;
    }
    for (int64_t from = 0, m; from < j->m; from += m) {
        m = clamp(BLOCK / (3 * j->k + 1), 4, j->m - from);
        m = m < j->m - from ? m / 4 * 4 : m;
        float *y = j->y + from * j->n;
        for (int64_t tile = first; tile < last; tile++) {
            const int64_t r = tile * TD_PACKED_ROWS, n = clamp(j->n - r, 0, TD_PACKED_ROWS);
            (td_packed_multiplies_bytes() ? f->dot_bytes : f->dot)((int)n, j->rows + r * j->row_bytes, j->row_bytes, j->row_bytes, j->k, m,
                                                         (const td_packed_x *)j->x + from, scratch, y + r, j->n);
            for (int64_t i = 0; j->bias && i < m; i++)
                for (int64_t c = r; c < r + n; c++)
                    y[i * j->n + c] += j->bias[c];
        }
    }
    td_mem_free(scratch, scratch_bytes(j->k));
}

static int few_rows(job *j, const float *x)
{
    const td_packed_kernels *f = kernels_of(j->format);
    const int64_t padded = td_packed_padded(j->k), runs = (padded + f->run - 1) / f->run, each = 2 * padded + (8 * runs + 63) / 64 * 64;      /* bytes of a row */
    const size_t bytes = (size_t)j->m * ((size_t)each + sizeof(td_packed_x));
    char *block = td_mem_alloc(bytes);
    if (!block)
        return -1;
    td_packed_x *all = (td_packed_x *)(block + j->m * each);
    for (int64_t i = 0; i < j->m; i++) {
        char *at = block + i * each;
        all[i] = (td_packed_x){(int8_t *)at, (float *)(at + padded), (float *)(at + 2 * padded), (float *)(at + 2 * padded) + runs};
        TD_ISA_PICK(td_packed_table)->quantize(j->k, x + i * j->k, f->run, all[i]);
    }
    j->x = all;
    td_parallel_for(0, (j->n + TD_PACKED_ROWS - 1) / TD_PACKED_ROWS, clamp((1 << 15) / (j->k * j->m + 1), 1, 1 << 15), some_dots, j);
    td_mem_free(block, bytes);
    return j->failed ? -1 : 0;
}

/* ---- many rows */

static void some_panels(void *context, int64_t first, int64_t last)
{
    job *j = context;
    const td_packed_kernels *f = kernels_of(j->format);
    const size_t scratch = scratch_bytes(j->k), unpacked = (size_t)(TILE * j->k) * 4, sums = (size_t)(j->m * TILE) * 4;
    char *block = td_mem_alloc(scratch + unpacked + sums);
    if (!block) {
        fail(j);
        return;
    }
    float *weights = (float *)(block + scratch), *y = (float *)(block + scratch + unpacked);
    for (int64_t tile = first; tile < last; tile++) {
        const int64_t c = tile * TILE, n = clamp(j->n - c, 0, TILE);
        for (int64_t r = 0; r < n; r++)
            f->unpack_f32(j->rows + (c + r) * j->row_bytes, j->k, (float *)block, weights + r * j->k);
        td_gemm_f32(j->m, n, j->k, 1, (td_matrix){j->x, j->k, 1}, (td_matrix){weights, 1, j->k}, 0, y, n);
        for (int64_t i = 0; i < j->m; i++)
            for (int64_t r = 0; r < n; r++)
                j->y[i * j->n + c + r] = y[i * n + r] + (j->bias ? j->bias[c + r] : 0);
    }
    td_mem_free(block, scratch + unpacked + sums);
}

static int many_rows(job *j, const float *x)
{
    j->x = x;
    td_parallel_for(0, (j->n + TILE - 1) / TILE, 1, some_panels, j);
    return j->failed ? -1 : 0;
}

/* ---- many rows by products of tiles: weights become bfloat16 as they are packed, and are the rows of the product, whose other operand, x
 * transposed, is packed once for all; x is rounded to bfloat16, which loses less than int8 does */

typedef struct tiled {
    job         of;
    const void *x;              /* m x k of bfloat16 */
    char       *y;              /* of bfloat16 or floats */
    bool        halves;
    float      *packed;
    int64_t     at_once;        /* rows of weights */
} tiled;

static void pack_columns(void *context, int64_t first, int64_t last)
{
    const tiled *t = context;
    const int64_t m = t->of.m, parts = clamp(m / PANELS, 1, m);
    TD_ISA_PICK(td_gemm_pairs_table)->pack_some(m, t->of.k, (td_matrix){t->x, 1, t->of.k}, first * PANELS, last == parts ? m : last * PANELS, t->packed);
}

/* Rows of weights that are unpacked as they are packed. Where x has few rows, whole ones, of the 32 that are multiplied together: memory is read in
 * the order in which it lies. Else a part of a row, which begins and ends within blocks of 256 elements. */
enum { TOGETHER = TD_TILE_ROWS, MOST = 2 * TD_GEMM_PASS(4) + 2 * 256 };
typedef struct unpacking {
    const job *of;
    int64_t    first;
    bool       whole;
    float     *scratch;
    uint16_t  *rows;
} unpacking;

static int unpacked(const void *context, int64_t row, int most, int64_t pair, int64_t pairs, td_matrix *made)
{
    const unpacking *u = context;
    const job *j = u->of;
    const td_packed_kernels *f = kernels_of(j->format);
    const uint8_t *at = j->rows + (u->first + row) * j->row_bytes;
    if (u->whole) {
        for (int r = 0; r < most && pair == 0; r++)
            f->unpack_fast(at + r * j->row_bytes, j->k, 0, j->k, u->scratch, u->rows + r * j->k);
        *made = (td_matrix){u->rows + 2 * pair, j->k / 2, 1};
        return most;
    }
    const int64_t from = 2 * pair / f->part * f->part, to = (2 * (pair + pairs) + f->part - 1) / f->part * f->part, end = to < j->k ? to : j->k;
    for (int64_t b = j->row_bytes * from / j->k; b < j->row_bytes * end / j->k; b += 64)       /* of a row that comes soon */
        __builtin_prefetch(at + SOON * j->row_bytes + b);
    f->unpack_fast(at, j->k, from, end, u->scratch, u->rows);
    *made = (td_matrix){u->rows + 2 * pair - from, 0, 1};
    return 1;
}

static void some_tiles(void *context, int64_t first, int64_t last)
{
    tiled *t = context;
    job *j = &t->of;
    const bool whole = td_tile_group(j->m, j->k / 2) == 1;
    const size_t room = td_tiles_room(t->at_once, j->m, j->k / 2), rows = sizeof(uint16_t) * (size_t)(whole ? TOGETHER * j->k : MOST);
    const size_t bytes = room + rows + scratch_bytes(whole ? j->k : MOST);
    char *block = td_mem_alloc(bytes);
    if (!block) {
        fail(j);
        return;
    }
    unpacking u = {.of = j, .whole = whole, .rows = (uint16_t *)(block + room), .scratch = (float *)(block + room + rows)};
    for (int64_t from = first * t->at_once, n; from < j->n && from < last * t->at_once; from += n) {
        n = clamp(j->n - from, 0, t->at_once);
        u.first = from;
        TD_ISA_PICK(td_gemm_pairs_table)->tiles(&(td_tile_product){
            .m = n, .n = j->m, .k = j->k / 2, .alpha = 1, .make = unpacked, .context = &u, .b = t->packed,
            .c = t->y + from * (t->halves ? 2 : 4), .ldc = j->n, .halves = t->halves, .transposed = true, .bias = j->bias ? j->bias + from : NULL, .room = (float *)block});
    }
    td_mem_free(block, bytes);
}

/* As many rows of weights at once as a product of tiles keeps in the second cache. */
static int by_tiles(const job *j, const void *x, void *y, bool halves)
{
    const size_t bytes = (size_t)td_gemm_packed_size(j->m, j->k / 2, 16) * 4;
    const int64_t threads = td_num_threads(), each = threads > 1 ? j->n / (4 * threads) : j->n, group = 32 * td_tile_group(j->m, j->k / 2);
    tiled t = {.of = *j, .x = x, .y = y, .halves = halves, .packed = td_mem_alloc(bytes), .at_once = clamp(each / 32 * 32, 32, group < 128 ? 128 : group)};
    if (!t.packed)
        return -1;
    td_parallel_for(0, clamp(j->m / PANELS, 1, j->m), clamp((1 << 15) / (PANELS * j->k), 1, 1 << 15), pack_columns, &t);
    td_parallel_for(0, (j->n + t.at_once - 1) / t.at_once, clamp((1 << 18) / (j->m * t.at_once * j->k), 1, 1 << 18), some_tiles, &t);
    td_mem_free(t.packed, bytes);
    return t.of.failed ? -1 : 0;
}

int td_cpu__packed_linear(td_tensor *input, td_tensor *rows, const char *format, int64_t columns, td_tensor *bias, td_tensor *out)
{
    TD_AUTO td_tensor *x = td_make_contiguous(input), *w = td_make_contiguous(rows), *to = td_writable(out, (td_dtype)out->dtype);
    TD_AUTO td_tensor *added = bias == TD_NONE ? td_tensor_retain(x) : td_as_contiguous(bias, TD_F32);
    if (!x || !w || !to || !added)
        return -1;
    const int64_t n = w->sizes[0];
    job j = {.format = td_packed_find(format), .m = n ? to->numel / n : 0, .n = n, .k = columns, .row_bytes = w->sizes[1],
             .rows = (const uint8_t *)w->data, .bias = bias == TD_NONE ? NULL : (const float *)added->data};
    const td_dtype dtype = (td_dtype)to->dtype;
    if (!to->numel)
        return 0;
    const bool tiles = td_gemm_has_tiles() && j.m >= ENOUGH && j.k > 0 && j.k % 2 == 0 && !td_batch_invariant();
    const bool direct = dtype == TD_F32 || (tiles && dtype == TD_BF16);      /* whether sums are written as they are to be */
    const size_t bytes = (size_t)to->numel * 4;
    TD_AUTO td_tensor *from = td_as_contiguous(x, tiles ? TD_BF16 : TD_F32);
    if (!from)
        return -1;
    void *y = direct ? to->data : td_mem_alloc(bytes);
    j.y = y;
    const bool few = td_packed_multiplies_bytes() || j.m <= FEW;
    const bool done = y && (tiles ? by_tiles(&j, from->data, y, dtype == TD_BF16) : (few ? few_rows : many_rows)(&j, (const float *)from->data)) == 0;
    if (done && !direct)
        td_convert(dtype, to->data, (int64_t)td_dtype_size(dtype), TD_F32, y, 4, to->numel);
    if (!direct)
        td_mem_free(y, bytes);
    return done ? td_write_back(out, to) : no_memory();
}
