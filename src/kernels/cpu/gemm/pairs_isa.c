/* Products of bfloat16 by the processor's own dot products: where a float of tiles.h would be, two neighbours along k are.
 *
 * vdpbf16ps adds both products of a pair to a float; it takes subnormal numbers for zeros.  Only AVX-512 has it, and not
 * everywhere (td_gemm_has_pairs), so the other levels have no kernels here. */
#include "kernels/cpu/gemm/tile_vectors.h"
#include "kernels/cpu/isa/tile_registers.h"

#ifdef TD_AVX512
typedef vec_f32 vec_pairs;
ADD_PRODUCT(add_product_pairs, vec_f32, "vdpbf16ps")
/* A pair's bits may be those of a signalling NaN, which arithmetic would change. */
INLINE vec_f32 spread_pairs(const float *from)
{
    int32_t bits;
    memcpy(&bits, from, 4);
    return (vec_f32)_mm512_set1_epi32(bits);
}
#define fma_pairs        fma_f32
#define load_part_pairs  load_part_f32
#define store_part_pairs store_part_f32
#define zip_low_pairs    zip_low_f32
#define zip_high_pairs   zip_high_f32
#define T      float
#define SUFFIX pairs
#include "kernels/cpu/gemm/tiles.h"

/* Rows of b, two of which make one of pairs; the last has zeros beside it if k is odd.  Read across panels, as they lie. */
static void rows_to_panels(int64_t depth, int64_t left, int64_t width, const uint16_t *b, int64_t row, float *to)
{
    for (int64_t p = 0; p < depth; p++, b += 2 * row)
        for (int64_t j = 0, step; j < width; j += step) {
            step = td_gemm_panel(width - j, LANES, VECTORS);
            float *at = to + j * depth + p * step;
            for (int64_t v = 0; v < step; v += LANES) {
                const int64_t count = width - j - v;
                const __mmask16 some = count >= LANES ? 0xffff : (__mmask16)((1u << (count > 0 ? count : 0)) - 1);
                const uint16_t *from = b + j + v;
                const __m512i low = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(some, from));
                const __m512i high = 2 * p + 1 < left ? _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(some, from + row))
                                                      : _mm512_setzero_si512();
                _mm512_storeu_si512(at + v, _mm512_or_si512(low, _mm512_slli_epi32(high, 16)));
            }
        }
}

/* Columns of b whose pairs lie in pieces of k, an even number of halves apart. */
static void columns_to_panels(int64_t depth, int64_t width, const uint16_t *b, int64_t column, float *to)
{
    for (int64_t j = 0, step; j < width; j += step) {
        step = td_gemm_panel(width - j, LANES, VECTORS);
        for (int64_t v = 0; v < step; v += LANES) {
            const int64_t count = width - j - v;
            transpose_rows_pairs(LANES, count >= LANES ? LANES : count > 0 ? (int)count : 0, depth,
                            (const float *)(b + (j + v) * column), column / 2, to + j * depth + v, step);
        }
    }
}

/* Pairs of two rows, number by number; bits only, so that NaN and subnormal numbers stay what they are. */
static void zip(int64_t n, const uint16_t *low, const uint16_t *high, uint16_t *to)
{
    for (int64_t i = 0; i < n; i++)
        to[2 * i] = low[i], to[2 * i + 1] = high ? high[i] : 0;
}

static void pack_some(int64_t n, int64_t k, td_matrix b, int64_t first, int64_t end, float *to)
{
    const int64_t pairs = (k + 1) / 2, step = td_gemm_depth(pairs, 4);
    for (int64_t p = 0; p < pairs; p += step) {
        const int64_t depth = pairs - p < step ? pairs - p : step;
        const uint16_t *from = (const uint16_t *)b.data + 2 * p * b.row + first * b.column;
        if (b.column == 1)
            rows_to_panels(depth, k - 2 * p, end - first, from, b.row, to + first * depth);
        else
            columns_to_panels(depth, end - first, from, b.column, to + first * depth);
        to += td_gemm_packed_size(n, depth, LANES);
    }
}

/* ---- products of tiles: 16 rows of a times 16 columns of a panel, 16 pairs at a time
 *
 * Two tiles of rows meet two of columns, so that each that is loaded serves two products; sixteen rows or fewer meet four of columns, since a product
 * waits longer for its sums than for its operands. A pass over k is so short that its two tiles of columns stay in the first cache while a group's
 * blocks meet them one after the other, each from the second cache, with sums that are read and written again: at 1024^3 a pass over all of k takes a
 * fifth longer, since both operands come from the second cache then; to fetch b ahead, into either cache, gains nothing. What lies beyond it is reached at a third of the speed: b, once for each group.
 *
 * A step adds its even and its odd numbers of k apart, then both to the sums, so a result's bits depend on where steps end. Those are whole but for the
 * last of a panel's pitch: they depend on k alone. What the last one lacks is zero. */
typedef struct tile_pass {
    const td_tile_product *p;
    int64_t pitch, skipped;                 /* pairs of a panel; of them, those before this part */
    int64_t depth, steps, each, rest;       /* of the part: pairs; steps; pairs of each; of the last one, if it has fewer, else 0 */
    const float *b;
    int64_t from, whole;                    /* of the pass: the first step, and how many there are but for the last of the part if it has fewer pairs */
    bool ends, first, last;                 /* whether that one is there, too; whether sums begin, and end */
} tile_pass;

/* 16 columns of a panel. */
typedef struct tile_column {
    const float *at;
    int64_t bytes;                          /* of a row of the panel */
    const float *rest;
} tile_column;

/* Rows of a: [step][row][pair]. */
static void pack_tile_rows(const tile_pass *t, int rows, const float *a, int64_t row, int64_t column, float *to)
{
    for (int64_t s = 0; s < t->steps; s++, to += TD_TILE_STEP) {
        const int64_t some = s == t->steps - 1 && t->rest ? t->rest : t->each;
        const float *from = a + s * t->each * column;
        if (column == 1) {
            const __mmask16 mask = (__mmask16)((1u << some) - 1);
            for (int r = 0; r < rows; r++)
                _mm512_store_si512(to + 16 * r, _mm512_maskz_loadu_epi32(mask, from + r * row));
        } else {
            transpose_rows_pairs(LANES, (int)some, rows, from, column, to, 16);
        }
    }
}

/* What is missing of the last step would meet zeros, but isn't a number that zero makes zero. */
static void copy_rest(const tile_pass *t, tile_column *c, float *to)
{
    const float *from = (const float *)((const char *)c->at + (t->steps - 1) * t->each * c->bytes);
    for (int64_t r = 0; r < t->each; r++)
        _mm512_store_si512(to + 16 * r, r < t->rest ? _mm512_loadu_si512((const char *)from + r * c->bytes) : _mm512_setzero_si512());
    c->rest = to;
}

INLINE __m512 as_floats(__m256i halves) { return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16)); }
/* Rounded to even; NaN stays one. */
INLINE __m256i as_halves(__m512 x)
{
    const __m512i bits = _mm512_castps_si512(x), odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i up = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
    const __m512i any = _mm512_mask_mov_epi32(up, _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), _mm512_set1_epi32(0x7fc00000));
    return _mm512_cvtepi32_epi16(_mm512_srli_epi32(any, 16));
}

/* A tile of sums, rows x columns of which are those from (i, j) on, to c. */
static void finish_tile(const td_tile_product *p, const float *sums, int rows, int columns, int64_t i, int64_t j)
{
    vec_f32 turned[16];
    if (p->transposed) {
        for (int r = 0; r < 16; r++)
            turned[r] = *(const vec_f32 *)(sums + 16 * r);
        transpose_pairs(LANES, turned);
        sums = (const float *)turned;
        const int64_t swap = i;
        const int across = rows;
        rows = columns, columns = across, i = j, j = swap;
    }
    const __mmask16 some = (__mmask16)((1u << columns) - 1);
    const bool halves = p->halves, adds = p->bias != NULL, scales = p->alpha != 1, keeps = p->beta != 0;
    const __m512 bias = adds ? _mm512_maskz_loadu_ps(some, p->bias + j) : _mm512_setzero_ps();
    const __m512 alpha = _mm512_set1_ps(p->alpha), beta = _mm512_set1_ps(p->beta);
    const int64_t size = halves ? 2 : 4, row = p->ldc * size;
    char *to = (char *)p->c + (i * p->ldc + j) * size;
    for (int r = 0; r < rows; r++, sums += 16, to += row) {
        __m512 x = _mm512_maskz_load_ps(some, sums);     /* the rest may be denormals */
        if (scales)
            x = _mm512_mul_ps(x, alpha);
        if (keeps)
            x = _mm512_fmadd_ps(beta, halves ? as_floats(_mm256_maskz_loadu_epi16(some, to)) : _mm512_maskz_loadu_ps(some, to), x);
        if (adds)
            x = _mm512_add_ps(x, bias);
        if (halves)
            _mm256_mask_storeu_epi16(to, some, as_halves(x));
        else
            _mm512_mask_storeu_ps(to, some, x);
    }
}

/* Whole sums of a block. They are finished, a tile now and then, while the next block's products are made: rounding and writing them takes about as
 * long as ten steps, in which the processor's products of tiles would stand still. */
typedef struct tile_waiting {
    const float *sums;
    int tile, rows, columns;                /* the next one, of four; rows; tiles of columns */
    int64_t i, j;
} tile_waiting;

static void finish_next(const td_tile_product *p, tile_waiting *w)
{
    const int d = w->rows > 16 ? w->tile / 2 * 16 : 0, c = w->rows > 16 ? w->tile % 2 : w->tile;
    const int64_t left = p->n - w->j - 16 * c;
    if (d < w->rows && c < w->columns)
        finish_tile(p, w->sums + 256 * w->tile, w->rows - d < 16 ? w->rows - d : 16, left < 16 ? (int)left : 16, w->i + d, w->j + 16 * c);
    w->tile++;
}

/* Up to 2 x 2 tiles. */
INLINE void two_by_two(const bool two, const tile_pass *t, const float *a, const tile_column *b, float *sums, tile_waiting *w)
{
    if (t->first) {
        TILE_ZERO(0);
        TILE_ZERO(1);
        TILE_ZERO(2);
        TILE_ZERO(3);
    } else {
        TILE_LOAD(0, sums, 64);
        TILE_LOAD(2, sums + 512, 64);
        if (two) {
            TILE_LOAD(1, sums + 256, 64);
            TILE_LOAD(3, sums + 768, 64);
        }
    }
    const int64_t step0 = b[0].bytes, step1 = b[1].bytes, down0 = t->each * step0, down1 = t->each * step1;
    const char *b0 = (const char *)b[0].at + t->from * down0, *b1 = (const char *)b[1].at + t->from * down1;
    for (int64_t s = 0; s < t->whole; s++, a += TD_TILE_STEP, b0 += down0, b1 += down1) {
        if (w->tile < 4 && s * 4 >= w->tile * t->whole)
            finish_next(t->p, w);
        TILE_LOAD(6, b0, step0);
        TILE_LOAD(4, a, 64);
        TILE_ADD_PAIRS(0, 4, 6);
        if (two) {
            TILE_LOAD(7, b1, step1);
            TILE_ADD_PAIRS(1, 4, 7);
        }
        TILE_LOAD(5, a + 256, 64);
        TILE_ADD_PAIRS(2, 5, 6);
        if (two)
            TILE_ADD_PAIRS(3, 5, 7);
    }
    if (t->ends) {
        TILE_LOAD(4, a, 64);
        TILE_LOAD(5, a + 256, 64);
        TILE_LOAD(6, b[0].rest, 64);
        TILE_ADD_PAIRS(0, 4, 6);
        TILE_ADD_PAIRS(2, 5, 6);
        if (two) {
            TILE_LOAD(7, b[1].rest, 64);
            TILE_ADD_PAIRS(1, 4, 7);
            TILE_ADD_PAIRS(3, 5, 7);
        }
    }
    while (w->tile < 4)
        finish_next(t->p, w);
    TILE_STORE(0, sums, 64);
    TILE_STORE(2, sums + 512, 64);
    if (two) {
        TILE_STORE(1, sums + 256, 64);
        TILE_STORE(3, sums + 768, 64);
    }
}

/* One tile of rows, up to four of columns; as the last of a group's blocks, whose second tile of rows is 5, up to two. */
INLINE void one_by(const int columns, const tile_pass *t, const float *a, const tile_column *b, float *sums, tile_waiting *w)
{
    const char *at[4];
    for (int c = 0; c < columns; c++)
        at[c] = (const char *)b[c].at + t->from * t->each * b[c].bytes;
    if (t->first) {
        TILE_ZERO(0);
        TILE_ZERO(1);
        TILE_ZERO(2);
        TILE_ZERO(3);
    } else {
        TILE_LOAD(0, sums, 64);
        if (columns > 1)
            TILE_LOAD(1, sums + 256, 64);
        if (columns > 2)
            TILE_LOAD(2, sums + 512, 64);
        if (columns > 3)
            TILE_LOAD(3, sums + 768, 64);
    }
    const int64_t steps = t->whole + t->ends;
    for (int64_t s = 0; s < steps; s++, a += TD_TILE_STEP) {
        if (w->tile < 4 && s * 4 >= w->tile * steps)
            finish_next(t->p, w);
        int64_t bytes[4];
        _Pragma("GCC unroll 4")
        for (int c = 0; c < columns; c++) {
            bytes[c] = b[c].bytes;
            if (s == t->whole)
                at[c] = (const char *)b[c].rest, bytes[c] = 64;
        }
        TILE_LOAD(4, a, 64);
        TILE_LOAD(6, at[0], bytes[0]);
        TILE_ADD_PAIRS(0, 4, 6);
        if (columns > 1) {
            TILE_LOAD(7, at[1], bytes[1]);
            TILE_ADD_PAIRS(1, 4, 7);
        }
        if (columns > 2) {
            TILE_LOAD(5, at[2], bytes[2]);
            TILE_ADD_PAIRS(2, 4, 5);
        }
        if (columns > 3) {
            TILE_LOAD(6, at[3], bytes[3]);
            TILE_ADD_PAIRS(3, 4, 6);
        }
        _Pragma("GCC unroll 4")
        for (int c = 0; c < columns; c++)
            at[c] += t->each * bytes[c];
    }
    while (w->tile < 4)
        finish_next(t->p, w);
    TILE_STORE(0, sums, 64);
    if (columns > 1)
        TILE_STORE(1, sums + 256, 64);
    if (columns > 2)
        TILE_STORE(2, sums + 512, 64);
    if (columns > 3)
        TILE_STORE(3, sums + 768, 64);
}

/* Shapes for rows of a, at most 32, and steps of `each` pairs: sums in 0 to 3, a in 4 and 5, b behind them. */
static void shape_for(int rows, int64_t each)
{
    const int down[2] = {rows < 16 ? rows : 16, rows - 16};
    const bool two = rows > 16;
    tile_shapes shapes = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        const bool of_a = i == 4 || (two && i == 5);
        shapes.row_bytes[i] = of_a ? (uint16_t)(4 * each) : 64;
        shapes.rows[i] = (uint8_t)(i < 4 ? down[two && i > 1] : of_a ? down[i - 4] : each);
    }
    shape_tiles(&shapes);
}

/* One pass of a group's rows, from `first` on, times the columns from j on; each block's sums lie behind those of the block before. */
static void tile_columns(const tile_pass *t, int64_t first, int64_t rows, const float *a, int64_t j, const tile_column *b, int count, float *sums,
                         tile_waiting *w)
{
    a += t->from * TD_TILE_STEP;
    for (int64_t i = 0; i < rows; i += TD_TILE_ROWS, a += t->steps * TD_TILE_STEP, sums += TD_TILE_BLOCK) {
        const int some = rows - i < TD_TILE_ROWS ? (int)(rows - i) : TD_TILE_ROWS;
        if (some > 16)
            (count > 1 ? two_by_two(true, t, a, b, sums, w) : two_by_two(false, t, a, b, sums, w));
        else
            (count > 3   ? one_by(4, t, a, b, sums, w)
             : count > 2 ? one_by(3, t, a, b, sums, w)
             : count > 1 ? one_by(2, t, a, b, sums, w)
                         : one_by(1, t, a, b, sums, w));
        if (t->last)
            *w = (tile_waiting){sums, 0, some, count, first + i, j};
    }
}

/* A part of k, packed in `a`, of a group's rows times all columns. Where it is the only one, sums lie where those of the columns before lay. */
static void tile_group(tile_pass *t, int64_t at, int64_t first, int64_t rows, const float *a, float *sums)
{
    const td_tile_product *p = t->p;
    const bool only = t->depth == p->k;
    const int across = rows > 16 ? 2 : 4;               /* tiles of columns at a time */
    const int64_t blocks = (rows + TD_TILE_ROWS - 1) / TD_TILE_ROWS, steps = TD_TILE_PASS / 16;
    int64_t panel = 0, step = td_gemm_panel(p->n, LANES, VECTORS), v = 0;
    tile_waiting w = {.tile = 4};
    _Alignas(64) float rests[4 * 256];
    for (int64_t j = 0, nth = 0; j < p->n; j += across * 16, nth++) {
        tile_column b[4] = {{0}};
        int count = 0;
        for (; count < across && j + 16 * count < p->n; count++) {
            b[count] = (tile_column){t->b + panel * t->pitch + t->skipped * step + v, step * 4, NULL};
            if (t->rest)
                copy_rest(t, &b[count], rests + 256 * count);
            if ((v += 16) == step)
                panel += step, v = 0, step = td_gemm_panel(p->n - panel, LANES, VECTORS);
        }
        float *to = sums + (only ? blocks == 1 ? nth % 2 : 0 : nth * blocks) * TD_TILE_BLOCK;
        for (t->from = 0; t->from < t->steps; t->from += steps) {
            const int64_t some = t->steps - t->from < steps ? t->steps - t->from : steps;
            t->ends = t->rest && t->from + some == t->steps;
            t->whole = some - t->ends;
            t->first = at == 0 && t->from == 0, t->last = at + t->depth == p->k && t->from + some == t->steps;
            tile_columns(t, first, rows, a, j, b, count, to, &w);
        }
    }
    while (w.tile < 4)
        finish_next(p, &w);
}

/* Rows that the last block of a group lacks are computed from what lies there, and written nowhere. */
static void tiles(const td_tile_product *p)
{
    const int64_t step = td_gemm_depth(p->k, 4), group = td_tile_group(p->n, p->k) * TD_TILE_ROWS, part = td_tile_part(p->n);
    float *a = p->room, *sums = a + td_tile_floats(p->m, p->n, p->k);
    for (int64_t i = 0; i < p->m; i += group) {
        const int64_t rows = p->m - i < group ? p->m - i : group;
        tile_pass t = {.p = p, .b = p->b};
        for (int64_t k = 0; k < p->k; k += t.pitch) {
            t.pitch = p->k - k < step ? p->k - k : step;
            const int64_t parts = (t.pitch + part - 1) / part, most = ((t.pitch + parts - 1) / parts + 15) / 16 * 16;
            for (t.skipped = 0; t.skipped < t.pitch; t.skipped += t.depth) {
                t.depth = t.pitch - t.skipped < most ? t.pitch - t.skipped : most;
                t.steps = (t.depth + 15) / 16, t.each = t.depth < 16 ? t.depth : 16;
                t.rest = t.depth == t.steps * t.each ? 0 : t.depth - (t.steps - 1) * t.each;
                shape_for(rows < TD_TILE_ROWS ? (int)rows : TD_TILE_ROWS, t.each);
                const td_matrix from = {(const float *)p->a.data + i * p->a.row + (k + t.skipped) * p->a.column, p->a.row, p->a.column};
                td_matrix made;
                for (int64_t r = 0, n; p->make && r < rows; r += n) {
                    const int64_t left = TD_TILE_ROWS - r % TD_TILE_ROWS;
                    n = p->make(p->context, i + r, (int)(rows - r < left ? rows - r : left), k + t.skipped, t.depth, &made);
                    pack_tile_rows(&t, (int)n, made.data, made.row, 1, a + r / TD_TILE_ROWS * t.steps * TD_TILE_STEP + r % TD_TILE_ROWS * 16);
                }
                for (int64_t r = 0; !p->make && r < rows; r += TD_TILE_ROWS)
                    pack_tile_rows(&t, rows - r < TD_TILE_ROWS ? (int)(rows - r) : TD_TILE_ROWS, (const float *)from.data + r * from.row, from.row, from.column,
                                   a + r / TD_TILE_ROWS * t.steps * TD_TILE_STEP);
                tile_group(&t, k + t.skipped, i, rows, a, sums);
            }
            t.b += td_gemm_packed_size(p->n, t.pitch, LANES);
        }
    }
    release_tiles();
}

const td_gemm_pairs_table TD_ISA_NAME(td_gemm_pairs_table) = {pack_some, packed_pairs, zip, tiles};
#else
const td_gemm_pairs_table TD_ISA_NAME(td_gemm_pairs_table) = {0};
#endif
