/* What bytes_isa.c exports per instruction-set level: products of bytes without a sign and bytes with one, summed exactly in int32.
 *
 * A row of x is a number of runs of bytes: one for a matrix; of a window of an image, whose pixels have their channels last, one for each of its
 * lines or pixels, each at its offset. So neighbouring windows overlap in memory, and nobody copies them beside each other. A run is taken in
 * steps of 64 bytes.
 *
 * Weights lie in panels of 64 columns: of each four rows in turn the four bytes of every column, which is what the processor's dot products
 * of bytes and of tiles take. Steps are whole: what is missing of a run, or of a panel, is zero.
 *
 * Windows of channels apart, one for each channel, are sums of few products: of 64 channels at a time four taps of the window meet a quad,
 * which has the four bytes of channel 16 l + 4 v + i at 64 v + 16 l + 4 i, where interleaving the bytes of four pixels brings them. Fewer than
 * 64 channels are there as often as they fit, for neighbouring pixels. */
#ifndef TD_KERNELS_CPU_PACKED_BYTES_H
#define TD_KERNELS_CPU_PACKED_BYTES_H
#include "kernels/cpu/isa/isa.h"

enum {
    TD_BYTES_PANEL = 64,
    TD_BYTES_STEP = 64,                                 /* bytes of a row of x */
    TD_BYTES_STEP_OF_PANEL = TD_BYTES_STEP * TD_BYTES_PANEL,
    TD_BYTES_QUAD = 4 * TD_BYTES_PANEL,
    TD_BYTES_ROWS = 6,
    TD_BYTES_TILES = 32,                                /* rows that `tiles` multiplies at once; it reads 16 or all of them, and their steps whole */
};

static inline int64_t td_least_of(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t td_most_of(int64_t a, int64_t b) { return a > b ? a : b; }

/* The steps of a row: where they begin, counted from the row's first byte, and how many times four bytes they have. */
typedef struct td_bytes_step {
    int64_t offset;
    int     quads;
} td_bytes_step;

typedef struct td_bytes_table {
    /* sums[i][c] = row i of x, ldx bytes apart, times column c of a panel; at most TD_BYTES_ROWS rows */
    void (*dots)(int rows, int64_t n, const td_bytes_step *steps, const uint8_t *x, int64_t ldx, const int8_t *panel, int32_t *sums);
    /* the same with the processor's dot products of bytes; NULL where the level has none */
    void (*dots_bytes)(int rows, int64_t n, const td_bytes_step *steps, const uint8_t *x, int64_t ldx, const int8_t *panel, int32_t *sums);
    /* the same with products of tiles, of at most TD_BYTES_TILES rows, for all of which `sums` has room; between begin_tiles and end_tiles */
    void (*tiles)(int rows, int64_t n, const td_bytes_step *steps, const uint8_t *x, int64_t ldx, const int8_t *panel, int32_t *sums);
    void (*begin_tiles)(void);
    void (*end_tiles)(void);
    /* The sums of 64 channels apart: n quads of taps, which are at x + steps[].offset; the second as dots_bytes */
    void (*apart)(int64_t n, const td_bytes_step *steps, const uint8_t *x, const int8_t *quads, int32_t *sums);
    void (*apart_bytes)(int64_t n, const td_bytes_step *steps, const uint8_t *x, const int8_t *quads, int32_t *sums);
    /* A panel of bytes that lie elsewhere, of at most 64 columns: with pack_columns the k of a column are beside each other, and columns `ld`
     * apart; with pack_rows those of a row are. sums[c] = 128 times the sum of column c: what is too much where bytes with a sign were made ones
     * without by adding 128. NULL where there is no dots_bytes. */
    void (*pack_columns)(int64_t columns, int64_t k, const int8_t *from, int64_t ld, int8_t *panel, int32_t *sums);
    void (*pack_rows)(int64_t columns, int64_t k, const int8_t *from, int64_t ld, int8_t *panel, int32_t *sums);
    /* y = round((sum - less + more) * by) + zero, kept between least and 255 */
    void (*round)(int64_t n, const int32_t *sums, const int32_t *less, const float *more, const float *by, float least, float zero, uint8_t *y);
    /* y = sum - less, modulo 2^32 */
    void (*subtract)(int64_t n, const int32_t *sums, const int32_t *less, int32_t *y);
    /* y = (sum - less) * by + more */
    void (*scale)(int64_t n, const int32_t *sums, const int32_t *less, const float *more, const float *by, float *y);
} td_bytes_table;
TD_ISA_TABLES(td_bytes_table, td_bytes_table);

/* Whether products of bytes have an instruction here, which the tables of this level use (packed.c); and products of tiles. */
bool td_packed_multiplies_bytes(void);
bool td_packed_multiplies_tiles(void);

#endif
