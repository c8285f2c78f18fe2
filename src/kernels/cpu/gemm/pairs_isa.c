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
 * waits longer for its sums than for its operands. A pass over k is so short that its rows of a and two tiles of columns stay in the first cache
 * (an eighth of the time at 1024^3, though sums go to the second cache and back between passes), and is cut into steps of as many pairs each, at most
 * 16; what the last one lacks is zero. The order of additions depends on k alone. */
typedef struct tile_pass {
    const td_tile_product *p;
    int64_t pitch, skipped;                 /* pairs of a panel; of them, those before this pass */
    int64_t depth, steps, each, rest;       /* pairs; steps; pairs of each; of the last one, if it has fewer, else 0 */
    const float *b;
    bool first, last;
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
    const __m512 bias = p->bias ? _mm512_maskz_loadu_ps(some, p->bias + j) : _mm512_setzero_ps();
    const __m512 alpha = _mm512_set1_ps(p->alpha), beta = _mm512_set1_ps(p->beta);
    for (int r = 0; r < rows; r++, sums += 16) {
        __m512 x = _mm512_load_ps(sums);
        if (p->alpha != 1)
            x = _mm512_mul_ps(x, alpha);
        if (p->halves) {
            uint16_t *to = (uint16_t *)p->c + (i + r) * p->ldc + j;
            if (p->beta != 0)
                x = _mm512_fmadd_ps(beta, as_floats(_mm256_maskz_loadu_epi16(some, to)), x);
            if (p->bias)
                x = _mm512_add_ps(x, bias);
            _mm256_mask_storeu_epi16(to, some, as_halves(x));
        } else {
            float *to = (float *)p->c + (i + r) * p->ldc + j;
            if (p->beta != 0)
                x = _mm512_fmadd_ps(beta, _mm512_maskz_loadu_ps(some, to), x);
            if (p->bias)
                x = _mm512_add_ps(x, bias);
            _mm512_mask_storeu_ps(to, some, x);
        }
    }
}

/* Up to 2 x 2 tiles. */
INLINE void two_by_two(const bool two, const tile_pass *t, const float *a, const tile_column *b, float *sums)
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
    const char *b0 = (const char *)b[0].at, *b1 = (const char *)b[1].at;
    const int64_t step0 = b[0].bytes, step1 = b[1].bytes, down0 = t->each * step0, down1 = t->each * step1;
    for (int64_t s = t->rest ? 1 : 0; s < t->steps; s++, a += TD_TILE_STEP, b0 += down0, b1 += down1) {
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
    if (t->rest) {
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
    TILE_STORE(0, sums, 64);
    TILE_STORE(2, sums + 512, 64);
    if (two) {
        TILE_STORE(1, sums + 256, 64);
        TILE_STORE(3, sums + 768, 64);
    }
}

/* One tile of rows, up to four of columns. */
INLINE void one_by(const int columns, const tile_pass *t, const float *a, const tile_column *b, float *sums)
{
    const char *at[4] = {(const char *)b[0].at, (const char *)b[1].at, (const char *)b[2].at, (const char *)b[3].at};
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
    for (int64_t s = 0; s < t->steps; s++, a += TD_TILE_STEP) {
        int64_t bytes[4];
        _Pragma("GCC unroll 4")
        for (int c = 0; c < columns; c++) {
            bytes[c] = b[c].bytes;
            if (s == t->steps - 1 && t->rest)
                at[c] = (const char *)b[c].rest, bytes[c] = 64;
        }
        TILE_LOAD(4, a, 64);
        TILE_LOAD(5, at[0], bytes[0]);
        TILE_ADD_PAIRS(0, 4, 5);
        if (columns > 1) {
            TILE_LOAD(6, at[1], bytes[1]);
            TILE_ADD_PAIRS(1, 4, 6);
        }
        if (columns > 2) {
            TILE_LOAD(7, at[2], bytes[2]);
            TILE_ADD_PAIRS(2, 4, 7);
        }
        if (columns > 3) {
            TILE_LOAD(5, at[3], bytes[3]);
            TILE_ADD_PAIRS(3, 4, 5);
        }
        _Pragma("GCC unroll 4")
        for (int c = 0; c < columns; c++)
            at[c] += t->each * bytes[c];
    }
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

/* Rows from i on, at most 32 and packed in `a`, times all columns. */
static void tile_rows(const tile_pass *t, int64_t i, int rows, const float *a, float *sums)
{
    const td_tile_product *p = t->p;
    _Alignas(64) float own[TD_TILE_BLOCK], rests[4 * 256];
    const int across = rows > 16 ? 2 : 4;               /* tiles of columns at a time */
    int64_t panel = 0, step = td_gemm_panel(p->n, LANES, VECTORS), v = 0;
    for (int64_t j = 0; j < p->n; j += across * 16, sums += TD_TILE_BLOCK) {
        tile_column b[4] = {{0}};
        int count = 0;
        for (; count < across && j + 16 * count < p->n; count++) {
            b[count] = (tile_column){t->b + panel * t->pitch + t->skipped * step + v, step * 4, NULL};
            if (t->rest)
                copy_rest(t, &b[count], rests + 256 * count);
            if ((v += 16) == step)
                panel += step, v = 0, step = td_gemm_panel(p->n - panel, LANES, VECTORS);
        }
        float *to = t->first && t->last ? own : sums;
        if (rows > 16)
            (count > 1 ? two_by_two(true, t, a, b, to) : two_by_two(false, t, a, b, to));
        else
            (count > 3 ? one_by(4, t, a, b, to) : count > 2 ? one_by(3, t, a, b, to) : count > 1 ? one_by(2, t, a, b, to) : one_by(1, t, a, b, to));
        for (int d = 0; t->last && d < rows; d += 16)
            for (int c = 0; c < count; c++) {
                const int64_t left = p->n - j - 16 * c;
                finish_tile(p, to + (d / 16 * 2 + c) * 256, rows - d < 16 ? rows - d : 16, left < 16 ? (int)left : 16, i + d, j + 16 * c);
            }
    }
}

static void tiles(const td_tile_product *p)
{
    const int64_t step = td_gemm_depth(p->k, 4), wide = (p->n + 63) / 64 * 2 * TD_TILE_BLOCK;
    float *a = p->room, *sums = a + TD_TILE_PASS / 16 * TD_TILE_STEP;
    tile_pass t = {.p = p, .b = p->b};
    int shaped_rows = 0;
    int64_t shaped = 0;
    for (int64_t k = 0; k < p->k; k += t.pitch) {
        t.pitch = p->k - k < step ? p->k - k : step;
        const int64_t parts = (t.pitch + TD_TILE_PASS - 1) / TD_TILE_PASS, most = ((t.pitch + parts - 1) / parts + 15) / 16 * 16;
        for (t.skipped = 0; t.skipped < t.pitch; t.skipped += t.depth) {
            t.depth = t.pitch - t.skipped < most ? t.pitch - t.skipped : most;
            t.steps = (t.depth + 15) / 16, t.each = (t.depth + t.steps - 1) / t.steps;
            t.rest = t.depth == t.steps * t.each ? 0 : t.depth - (t.steps - 1) * t.each;
            const int64_t at = k + t.skipped;
            t.first = at == 0, t.last = at + t.depth == p->k;
            for (int64_t i = 0; i < p->m; i += TD_TILE_ROWS) {
                const int rows = p->m - i < TD_TILE_ROWS ? (int)(p->m - i) : TD_TILE_ROWS;
                if (rows != shaped_rows || t.each != shaped)
                    shape_for(rows, t.each), shaped_rows = rows, shaped = t.each;
                pack_tile_rows(&t, rows, (const float *)p->a.data + i * p->a.row + at * p->a.column, p->a.row, p->a.column, a);
                tile_rows(&t, i, rows, a, sums + i / TD_TILE_ROWS * wide);
            }
        }
        t.b += td_gemm_packed_size(p->n, t.pitch, LANES);
    }
    release_tiles();
}

const td_gemm_pairs_table TD_ISA_NAME(td_gemm_pairs_table) = {pack_some, packed_pairs, zip, tiles};
#else
const td_gemm_pairs_table TD_ISA_NAME(td_gemm_pairs_table) = {0};
#endif
