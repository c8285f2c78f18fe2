/* Matrix products on raw memory, for every dtype that has them.
 *
 * c = alpha * op(a) op(b) + beta * c with row-major c[m][n]; op(a)[i][p] is a[i * rsa + p * csa], so transposed and
 * strided operands (negative steps, too) come without a copy where the kernel at hand can read them. */
#ifndef TD_KERNELS_CPU_GEMM_GEMM_H
#define TD_KERNELS_CPU_GEMM_GEMM_H
#include <tede/base.h>
#include "kernels/cpu/isa/isa.h"

static inline int64_t td_between(int64_t x, int64_t low, int64_t high) { return x < low ? low : x > high ? high : x; }

/* One matrix operand: steps count elements. */
typedef struct td_matrix {
    const void *data;
    int64_t row, column;
} td_matrix;

/* 0, or -1 with an error recorded (no memory; a dtype without products).  With beta == 0, c is not read, so that
 * NaN in fresh memory doesn't show.  Run by td_parallel_for; the result is the same for any number of threads. */
int td_gemm_strided(td_dtype dtype, int64_t m, int64_t n, int64_t k, td_scalar alpha, td_matrix a, td_matrix b,
                    td_scalar beta, void *c, int64_t ldc);
/* c = a b, and bias (n numbers: doubles for float64, else floats) added to every row.  For floats, halves too. */
int td_gemm_bias(td_dtype dtype, int64_t m, int64_t n, int64_t k, td_matrix a, td_matrix b, const void *bias, void *c,
                 int64_t ldc);
/* The same in BLAS's manner: op(a) is a or its transpose, leading dimensions count elements. */
int td_gemm(td_dtype dtype, bool transa, bool transb, int64_t m, int64_t n, int64_t k, td_scalar alpha, const void *a,
            int64_t lda, const void *b, int64_t ldb, td_scalar beta, void *c, int64_t ldc);
/* `count` products of one shape, operands a given number of elements apart. */
int td_gemm_batched(td_dtype dtype, int64_t count, int64_t m, int64_t n, int64_t k, td_scalar alpha, td_matrix a,
                    int64_t step_a, td_matrix b, int64_t step_b, td_scalar beta, void *c, int64_t ldc, int64_t step_c);

/* The same for complex numbers, by a real product of twice the width.  a's columns are 1 apart, or count is 1. */
int td_gemm_complex(td_dtype dtype, int64_t count, int64_t m, int64_t n, int64_t k, double _Complex alpha, td_matrix a,
                    int64_t step_a, td_matrix b, int64_t step_b, double beta, void *c, int64_t ldc, int64_t step_c);

/* The same for bfloat16 where the processor has dot products of it (AVX512-BF16): k > 0; bias: n floats, or NULL. */
bool td_gemm_has_pairs(void);
/* Whether it has products of tiles of them, too (AMX_BF16). */
bool td_gemm_has_tiles(void);
int td_gemm_pairs(int64_t count, int64_t m, int64_t n, int64_t k, float alpha, td_matrix a, int64_t step_a, td_matrix b,
                  int64_t step_b, float beta, void *c, int64_t ldc, int64_t step_c, const float *bias);

/* On the calling thread only, for kernels with their own tiling: c = alpha * a b + beta * c in float32 or float64.
 * Cannot fail. */
void td_gemm_f32(int64_t m, int64_t n, int64_t k, float alpha, td_matrix a, td_matrix b, float beta, float *c,
                 int64_t ldc);
void td_gemm_f64(int64_t m, int64_t n, int64_t k, double alpha, td_matrix a, td_matrix b, double beta, double *c,
                 int64_t ldc);

/* ---- what gemm_isa.c exports per instruction-set level
 *
 * A b that serves many products is packed once: pack() writes td_gemm_packed_size(...) numbers, packed() reads them.
 * They lie in panels of columns, pass over k after pass: [pass][panel][depth][columns]; passes are as long as
 * td_gemm_depth says, except for the last, panels as wide as td_gemm_panel says, and the last is filled up with zeros. */
typedef struct td_gemm_table {
    /* bias: n numbers added to every row of c, or NULL */
    void (*f32)(int64_t m, int64_t n, int64_t k, float alpha, td_matrix a, td_matrix b, float beta, float *c,
                int64_t ldc, const float *bias);
    void (*f64)(int64_t m, int64_t n, int64_t k, double alpha, td_matrix a, td_matrix b, double beta, double *c,
                int64_t ldc, const double *bias);
    void (*pack_f32)(int64_t n, int64_t k, td_matrix b, float *to);
    void (*pack_f64)(int64_t n, int64_t k, td_matrix b, double *to);
    /* columns [first, end) alone, to where they belong; they begin with a wide panel and end with b, or two panels before */
    void (*pack_some_f32)(int64_t n, int64_t k, td_matrix b, int64_t first, int64_t end, float *to);
    void (*pack_some_f64)(int64_t n, int64_t k, td_matrix b, int64_t first, int64_t end, double *to);
    void (*packed_f32)(int64_t m, int64_t n, int64_t k, float alpha, td_matrix a, const float *b, float beta, float *c,
                       int64_t ldc, const float *bias);
    void (*packed_f64)(int64_t m, int64_t n, int64_t k, double alpha, td_matrix a, const double *b, double beta,
                       double *c, int64_t ldc, const double *bias);
    /* `count` small products, without packing; false, and nothing done, where that would be slower: c is wider than a
     * panel, or b too long or doesn't lie in rows */
    bool (*narrow_f32)(int64_t count, int64_t m, int64_t n, int64_t k, float alpha, td_matrix a, int64_t step_a,
                       td_matrix b, int64_t step_b, float beta, float *c, int64_t ldc, int64_t step_c);
    bool (*narrow_f64)(int64_t count, int64_t m, int64_t n, int64_t k, double alpha, td_matrix a, int64_t step_a,
                       td_matrix b, int64_t step_b, double beta, double *c, int64_t ldc, int64_t step_c);
    int bytes, vectors, rows;       /* of a vector; of the widest panel; of a tile */
    bool fused;                     /* whether the level has fused multiply-add: else a library may be faster */
    /* y[i] = alpha * sum_p a[i][p] x[p] + beta * y[i], with steps for x and y */
    void (*gemv_f32)(int64_t m, int64_t k, float alpha, td_matrix a, const float *x, int64_t step_x, float beta,
                     float *y, int64_t step_y);
    void (*gemv_f64)(int64_t m, int64_t k, double alpha, td_matrix a, const double *x, int64_t step_x, double beta,
                     double *y, int64_t step_y);
    /* the same for rows of bfloat16, whose numbers lie side by side, and x and y of floats */
    void (*gemv_bf16)(int64_t m, int64_t k, float alpha, const uint16_t *a, int64_t row, const float *x, float beta, float *y);
    /* wrapping integers of 1, 2, 4 and 8 bytes */
    void (*integers[4])(int64_t m, int64_t n, int64_t k, int64_t alpha, td_matrix a, td_matrix b, int64_t beta, void *c,
                        int64_t ldc);
    void (*c64)(int64_t m, int64_t n, int64_t k, float _Complex alpha, td_matrix a, td_matrix b, float _Complex beta,
                void *c, int64_t ldc);
    void (*c128)(int64_t m, int64_t n, int64_t k, double _Complex alpha, td_matrix a, td_matrix b, double _Complex beta,
                 void *c, int64_t ldc);
    /* n numbers of b, `step` apart, times alpha and, behind them, times i alpha */
    void (*expand_c64)(int64_t n, const void *b, int64_t step, double _Complex alpha, void *to);
    void (*expand_c128)(int64_t n, const void *b, int64_t step, double _Complex alpha, void *to);
} td_gemm_table;

TD_ISA_TABLES(td_gemm_table, td_gemm_table);

/* A product of tiles (AMX): c = alpha a b + beta c + bias, of m rows, n columns and k pairs.  a's pairs or its rows lie side by side, b in panels.
 * Rows of a may be made as they are needed: make() says where so many pairs of some of `most` rows are, from `pair` on; returns how many rows. */
typedef struct td_tile_product {
    int64_t m, n, k;
    float alpha, beta;
    td_matrix a;
    int (*make)(const void *context, int64_t row, int most, int64_t pair, int64_t pairs, td_matrix *made);      /* or NULL: they are in a */
    const void *context;
    const float *b;
    void *c;
    int64_t ldc;
    bool halves, transposed;        /* c has bfloat16, else floats; c has n rows of m columns */
    const float *bias;              /* of each column of c; or NULL */
    float *room;                    /* td_tiles_room() bytes */
} td_tile_product;

/* Rows of a block; sums, and a step's numbers of a, of a block. */
enum { TD_TILE_ROWS = 32, TD_TILE_BLOCK = 1024, TD_TILE_STEP = 16 * TD_TILE_ROWS + 16 };

/* What pairs_isa.c exports: NULL but for v4.  k counts halves in the first, pairs in the second; b's columns lie side by
 * side, or its rows (then k and the step between columns are even). */
typedef struct td_gemm_pairs_table {
    void (*pack_some)(int64_t n, int64_t k, td_matrix b, int64_t first, int64_t end, float *to);
    void (*packed)(int64_t m, int64_t n, int64_t k, float alpha, td_matrix a, const float *b, float beta, float *c, int64_t ldc,
                   const float *bias);
    void (*zip)(int64_t n, const uint16_t *low, const uint16_t *high, uint16_t *to);   /* n pairs; high: NULL for zeros */
    void (*tiles)(const td_tile_product *p);
} td_gemm_pairs_table;
TD_ISA_TABLES(td_gemm_pairs_table, td_gemm_pairs_table);

/* The most steps of one pass over k, for numbers of a size. */
#define TD_GEMM_PASS(size) ((size) == 4 ? 512 : 256)

/* Steps of one pass over k: as equal as can be. */
static inline int64_t td_gemm_depth(int64_t k, int64_t size)
{
    int64_t most = TD_GEMM_PASS(size), passes = (k + most - 1) / most;
    return passes > 1 ? ((k + passes - 1) / passes + 7) / 8 * 8 : k;
}

/* Columns of the panel that begins `left` columns before the end, given numbers per vector and vectors of a wide panel: wide
 * ones as long as two vectors or more are left, since one vector alone is slow. */
static inline int64_t td_gemm_panel(int64_t left, int64_t lanes, int vectors)
{
    int64_t whole = (left + lanes - 1) / lanes;
    return lanes * (whole < vectors ? whole : vectors == 3 && whole == 4 ? 2 : vectors);
}

static inline int64_t td_gemm_packed_size(int64_t n, int64_t k, int64_t lanes)
{
    return (n + lanes - 1) / lanes * lanes * k;
}

/* How a product of tiles is cut, given c's columns and k in pairs. A group's rows of a, for a part of k, stay in the second cache (512 KB) while b
 * streams by once; where a meets few columns it streams by itself, and a block's rows for one pass stay in the first cache. */
enum { TD_TILE_PASS = 128 };
static inline int64_t td_tile_part(int64_t n) { return n <= 64 ? TD_TILE_PASS : TD_GEMM_PASS(4); }
static inline int64_t td_tile_group(int64_t n, int64_t k)       /* blocks */
{
    const int64_t part = td_tile_part(n), blocks = (1 << 17) / TD_TILE_ROWS / (k < part ? k : part);
    return n <= 64 ? 1 : blocks < 32 ? blocks : 32;
}

/* Blocks of a group, if there are so many rows, and floats that a's rows of them have for a part. */
static inline int64_t td_tile_blocks(int64_t m, int64_t n, int64_t k)
{
    const int64_t all = (m + TD_TILE_ROWS - 1) / TD_TILE_ROWS, group = td_tile_group(n, k);
    return all < group ? all : group;
}
static inline int64_t td_tile_floats(int64_t m, int64_t n, int64_t k)
{
    const int64_t part = td_tile_part(n);
    return td_tile_blocks(m, n, k) * (((k < part ? k : part) + 15) / 16 * TD_TILE_STEP);
}

/* Those, and sums: of all columns if they wait for the next part; else of a group, or two blocks in turn. */
static inline size_t td_tiles_room(int64_t m, int64_t n, int64_t k)
{
    const int64_t blocks = td_tile_blocks(m, n, k), sums = k > td_tile_part(n) ? blocks * ((n + 63) / 64 * 2) : blocks + 1;
    return (size_t)(td_tile_floats(m, n, k) + sums * TD_TILE_BLOCK) * 4;
}

#endif
