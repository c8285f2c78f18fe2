/* Choosing how a product is computed, and cutting it into tiles.
 *
 * Products of floats and doubles are ours (real.h) wherever the processor has fused multiply-add: no result depends
 * on how c is cut into tiles, so they're cut for the threads at hand; those of complex numbers become real ones
 * (complex.c), but for a few rows.  Others go to OpenBLAS if they're large, in tiles that depend on the shape only, each
 * computed by one thread from the whole of k; operands with strides that it can't read are copied first.  bfloat16 has products of
 * its own where the processor has (pairs.c); elsewhere it and float16 become float32, and the result is rounded once. */
#include "base/base.h"
#include "base/watch.h"
#include "kernels/cpu/gemm/gemm.h"
#include "libs/openblas.h"
#include "tensor/checked.h"

#include <complex.h>
#include <limits.h>
#include <tede/cpu_library.h>
#include <tede/kernel.h>
#include <tede/modes.h>

enum {
    SMALL = 24 * 24 * 24,           /* products up to here are faster without the library */
    TILE_M = 256, TILE_N = 512,     /* of c, for one thread's work */
    SPLIT = 96 * 96 * 96,           /* products up to here stay on one thread */
    WIDEST = 4096,                  /* columns of b that all threads pack together */
    FEW = 96,                       /* rows for which they don't */
    TALL = 16,                      /* rows from which complex products are real ones */
    LARGE = 512,                    /* rows and columns from which one thread works like several: b streams by once */
};

static const td_gemm_table *kernels(void)
{
    return TD_ISA_PICK(td_gemm_table);
}

/* Whether BLAS can read it; gives its transposition and leading dimension. */
static bool blas_operand(td_matrix x, int64_t rows, int64_t columns, int *trans, int *ld)
{
    int64_t lead;
    if ((x.column == 1 || columns == 1) && (x.row >= columns || rows == 1)) {
        *trans = TD_CBLAS_NO_TRANS, lead = rows == 1 ? columns : x.row;
    } else if ((x.row == 1 || rows == 1) && (x.column >= rows || columns == 1)) {
        *trans = TD_CBLAS_TRANS, lead = columns == 1 ? rows : x.column;
    } else {
        return false;
    }
    *ld = (int)(lead > 0 ? lead : 1);
    return lead < INT_MAX;
}

/* Element (row, column) of a matrix whose elements have `size` bytes. */
static const void *at(td_matrix x, int64_t size, int64_t row, int64_t column)
{
    return (const char *)x.data + size * (row * x.row + column * x.column);
}

typedef struct product {
    td_dtype dtype;             /* float32, float64, complex or integers */
    int64_t m, n, k, ldc, size;
    td_scalar alpha, beta;
    td_matrix a, b;
    char *c;
    int64_t tile_m, tile_n, across;
    const td_openblas *blas;
    int ta, tb, lda, ldb;       /* what blas_operand() found, if blas is set */
    int64_t count, step_a, step_b, step_c;
    const void *bias;           /* n numbers that every row of c gets added; floats only */
    bool row;                   /* one row of floats, by the kernel for vectors: rounded in another order than one of many */
} product;

static double _Complex complex_of(td_scalar s)
{
    return s.kind == TD_SCALAR_COMPLEX ? __builtin_complex(s.d, s.imag) : __builtin_complex(td_scalar_double(s), 0.0);
}

/* y = alpha a x + beta y, for an m x k matrix.  Every number of a is used once, so memory's speed is the bound, and packing or
 * broadcasting it, as the tiles do, would only add work. */
static void vector(const product *p, int64_t m, int64_t k, td_matrix a, const void *x, int64_t step_x, void *y,
                   int64_t step_y)
{
    if (p->dtype == TD_F32)
        kernels()->gemv_f32(m, k, (float)td_scalar_double(p->alpha), a, x, step_x, (float)td_scalar_double(p->beta), y,
                            step_y);
    else
        kernels()->gemv_f64(m, k, td_scalar_double(p->alpha), a, x, step_x, td_scalar_double(p->beta), y, step_y);
}

/* For the kernels that take no bias: the library's and those for vectors.  c is added to while its tile is in the cache. */
static void add_bias(const product *p, int64_t m, int64_t n, const void *bias, void *c)
{
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++)
            if (p->dtype == TD_F32)
                ((float *)c)[i * p->ldc + j] += ((const float *)bias)[j];
            else
                ((double *)c)[i * p->ldc + j] += ((const double *)bias)[j];
}

/* One tile, m x n, over the whole of k, on the calling thread.  n and the row flag of the whole product decide, not those of the
 * tile: else a tile of one column would be summed up in another order than its neighbours. */
static void compute(const product *p, int64_t m, int64_t n, td_matrix a, td_matrix b, const void *bias, void *c)
{
    const td_openblas *blas = p->blas;
    bool real = p->dtype == TD_F32 || p->dtype == TD_F64;
    if (real && p->n == 1) {
        vector(p, m, p->k, a, b.data, b.row, c, p->ldc);
    } else if (p->row) {
        vector(p, n, p->k, (td_matrix){b.data, b.column, b.row}, a.data, a.column, c, 1);
    } else if (p->dtype == TD_F32) {
        float alpha = (float)td_scalar_double(p->alpha), beta = (float)td_scalar_double(p->beta);
        if (blas)
            blas->sgemm(TD_CBLAS_ROW_MAJOR, p->ta, p->tb, (int)m, (int)n, (int)p->k, alpha, a.data, p->lda, b.data,
                        p->ldb,
                        beta, c, (int)p->ldc);
        else
            kernels()->f32(m, n, p->k, alpha, a, b, beta, c, p->ldc, bias);
    } else if (p->dtype == TD_F64) {
        double alpha = td_scalar_double(p->alpha), beta = td_scalar_double(p->beta);
        if (blas)
            blas->dgemm(TD_CBLAS_ROW_MAJOR, p->ta, p->tb, (int)m, (int)n, (int)p->k, alpha, a.data, p->lda, b.data,
                        p->ldb,
                        beta, c, (int)p->ldc);
        else
            kernels()->f64(m, n, p->k, alpha, a, b, beta, c, p->ldc, bias);
    } else if (p->dtype == TD_C64) {
        float _Complex alpha = (float _Complex)complex_of(p->alpha), beta = (float _Complex)complex_of(p->beta);
        if (blas)
            blas->cgemm(TD_CBLAS_ROW_MAJOR, p->ta, p->tb, (int)m, (int)n, (int)p->k, &alpha, a.data, p->lda, b.data,
                        p->ldb,
                        &beta, c, (int)p->ldc);
        else
            kernels()->c64(m, n, p->k, alpha, a, b, beta, c, p->ldc);
    } else if (p->dtype == TD_C128) {
        double _Complex alpha = complex_of(p->alpha), beta = complex_of(p->beta);
        if (blas)
            blas->zgemm(TD_CBLAS_ROW_MAJOR, p->ta, p->tb, (int)m, (int)n, (int)p->k, &alpha, a.data, p->lda, b.data,
                        p->ldb,
                        &beta, c, (int)p->ldc);
        else
            kernels()->c128(m, n, p->k, alpha, a, b, beta, c, p->ldc);
    } else {
        int which = p->size == 1 ? 0 : p->size == 2 ? 1 : p->size == 4 ? 2 : 3;
        kernels()->integers[which](m, n, p->k, td_scalar_int(p->alpha), a, b, td_scalar_int(p->beta), c, p->ldc);
    }
}

/* Whole products [from, to), if they're small reals. */
static bool narrow(const product *p, int64_t from, int64_t to)
{
    if (!td_dtype_is_floating(p->dtype) || p->blas || p->row || p->bias || p->n == 1 || p->tile_m < p->m ||
        p->tile_n < p->n)
        return false;
    td_matrix a = p->a, b = p->b;
    a.data = (const char *)a.data + from * p->step_a * p->size;
    b.data = (const char *)b.data + from * p->step_b * p->size;
    void *c = p->c + from * p->step_c * p->size;
    const double alpha = td_scalar_double(p->alpha), beta = td_scalar_double(p->beta);
    return p->dtype == TD_F32 ? kernels()->narrow_f32(to - from, p->m, p->n, p->k, (float)alpha, a, p->step_a, b,
                                                      p->step_b, (float)beta, c, p->ldc, p->step_c)
                              : kernels()->narrow_f64(to - from, p->m, p->n, p->k, alpha, a, p->step_a, b,
                                                      p->step_b, beta, c, p->ldc, p->step_c);
}

/* Tiles [from, to) of all products: product by product, rows of tiles within it, and tiles along c's rows fastest. */
static void tiles(void *context, int64_t from, int64_t to)
{
    const product *p = context;
    if (narrow(p, from, to))
        return;
    int64_t down = (p->m + p->tile_m - 1) / p->tile_m, each = down * p->across;
    for (int64_t t = from; t < to; t++) {
        int64_t which = t / each, i = t % each / p->across * p->tile_m, j = t % p->across * p->tile_n;
        int64_t m = p->m - i < p->tile_m ? p->m - i : p->tile_m, n = p->n - j < p->tile_n ? p->n - j : p->tile_n;
        td_matrix a = p->a, b = p->b;
        a.data = (const char *)at(p->a, p->size, i, 0) + which * p->step_a * p->size;
        b.data = (const char *)at(p->b, p->size, 0, j) + which * p->step_b * p->size;
        char *c = p->c + (which * p->step_c + i * p->ldc + j) * p->size;
        const char *bias = p->bias ? (const char *)p->bias + j * p->size : NULL;
        compute(p, m, n, a, b, bias, c);
        if (bias && (p->blas || p->row || p->n == 1))
            add_bias(p, m, n, bias, c);
    }
}

/* A tile size that cuts `whole` into nearly equal pieces of at most `most`, in multiples of `unit`. */
static int64_t even(int64_t whole, int64_t most, int64_t unit)
{
    int64_t pieces = (whole + most - 1) / most, size = (whole + pieces - 1) / (pieces ? pieces : 1);
    return td_between((size + unit - 1) / unit * unit, unit, most > unit ? most : unit);
}

/* One pass over k of some columns: b is packed once, by all threads, before all rows meet it. */
typedef struct pass {
    product p;                  /* of this pass alone */
    void *packed;
    int64_t wide, parts;        /* columns of a part that is packed at once; the last part is longer */
} pass;

/* Parts [from, to) of b, each to its place among the panels: parts are whole panels but for the end, so no two threads write to
 * the same panel. */
static void pack_parts(void *context, int64_t from, int64_t to)
{
    const pass *s = context;
    const product *p = &s->p;
    const int64_t first = from * s->wide, end = to == s->parts ? p->n : to * s->wide;
    if (p->dtype == TD_F32)
        kernels()->pack_some_f32(p->n, p->k, p->b, first, end, s->packed);
    else
        kernels()->pack_some_f64(p->n, p->k, p->b, first, end, s->packed);
}

/* Tiles of rows [from, to) against all of the packed columns.  a's rows and c's are this thread's alone. */
static void rows_of_pass(void *context, int64_t from, int64_t to)
{
    const pass *s = context;
    const product *p = &s->p;
    const int64_t i = from * p->tile_m, m = td_between(to * p->tile_m, 0, p->m) - i;
    const double alpha = td_scalar_double(p->alpha), beta = td_scalar_double(p->beta);
    const td_matrix a = {at(p->a, p->size, i, 0), p->a.row, p->a.column};
    void *c = p->c + i * p->ldc * p->size;
    if (p->dtype == TD_F32)
        kernels()->packed_f32(m, p->n, p->k, (float)alpha, a, s->packed, (float)beta, c, p->ldc, p->bias);
    else
        kernels()->packed_f64(m, p->n, p->k, alpha, a, s->packed, beta, c, p->ldc, p->bias);
}

/* Products whose rows all threads share, one after the other; false, and nothing done, if there is no memory.
 *
 * A pass packs at most `depth` x WIDEST numbers of b, which is 8 MiB of floats or doubles (512 or 256 deep), by all threads, and
 * waits for them; then rows of a meet them all.  Without sharing every thread would pack b again for its own rows.  About four
 * tiles of rows per thread even out what threads take; they are multiples of 24, which 8, 6 and 4 rows of a tile divide.  The
 * first pass applies beta, later ones add, and the last adds the bias: sums are in the order of one thread's gemm(). */
static bool shared(const product *p)
{
    const int64_t lanes = kernels()->bytes / p->size, wide = lanes * kernels()->vectors, threads = td_num_threads();
    const int64_t step = td_gemm_depth(p->k, p->size), most = WIDEST / wide * wide;
    const int64_t columns = p->n < most ? p->n : most, passes = (p->k + step - 1) / step;
    const size_t bytes = (size_t)(td_gemm_packed_size(columns, step, lanes) * p->size);
    pass s = {.p = *p, .packed = td_mem_alloc(bytes), .wide = wide};
    if (!s.packed)
        return false;
    s.p.tile_m = even(p->m, td_between(p->m / (4 * threads), 24, 128), 24);
    const int64_t tiles = (p->m + s.p.tile_m - 1) / s.p.tile_m;
    for (int64_t which = 0; which < p->count; which++)
        for (int64_t j = 0; j < p->n; j += most)
            for (int64_t nth = 0, q = 0; nth < passes; nth++, q += step) {
                s.p.n = td_between(p->n - j, 0, most), s.p.k = td_between(p->k - q, 0, step);
                s.p.a.data = (const char *)at(p->a, p->size, 0, q) + which * p->step_a * p->size;
                s.p.b.data = (const char *)at(p->b, p->size, q, j) + which * p->step_b * p->size;
                s.p.c = p->c + (which * p->step_c + j) * p->size;
                s.p.beta = nth ? td_int(1) : p->beta;
                s.p.bias = p->bias && nth == passes - 1 ? (const char *)p->bias + j * p->size : NULL;
                s.parts = td_between(s.p.n / wide - 1, 1, s.p.n);
                td_parallel_for(0, s.parts, td_between(s.parts / (2 * threads), 1, 6), pack_parts, &s);
                td_parallel_for(0, tiles, 1, rows_of_pass, &s);
            }
    td_mem_free(s.packed, bytes);
    return true;
}

/* Whether b is to be packed (as real.h does it) and there is enough of it and of a.  Two barriers per pass need rows to pay for
 * them.  Inside of another parallel loop, threads are busy already; with many products, whole ones are shared out instead. */
static bool shares(const product *p)
{
    const int64_t threads = td_num_threads(), wide = kernels()->bytes / p->size * kernels()->vectors;
    const bool large = p->m >= LARGE && p->n >= LARGE;
    return (threads > 1 || large) && !td_in_parallel() && !p->blas && td_dtype_is_floating(p->dtype) && p->count < 2 * threads &&
           p->m >= FEW && p->n >= 2 * wide && p->k >= 64 &&
           (p->b.column != 1 || p->m > 128 || p->k > 128);
}

/* Cuts c into tiles and shares them out.  A vector's product is cut into pieces of about 2^18 numbers of the matrix (a megabyte of
 * floats).  Tiles of our own kernels depend on the number of threads, which doesn't show in results (see tiles.h); those of
 * the library depend on the shape only, as its order of additions is unknown.  The grain joins small tiles until a task has
 * some 2^16 multiplications, so that starting it costs little beside them. */
static void run(product *p)
{
    if (shares(p) && shared(p))
        return;
    double work = (double)p->m * (double)p->n * (double)p->k;
    p->tile_m = p->m > 0 ? p->m : 1, p->tile_n = p->n > 0 ? p->n : 1;
    if (p->m == 1 || p->n == 1) {
        int64_t long_side = td_between((1 << 18) / (p->k + 1) / 64 * 64, 64, INT64_MAX);
        /* Numbers that lie side by side across the sums are read in long pieces. */
        if (p->n == 1 ? p->a.row == 1 : p->b.column == 1)
            long_side = td_between(long_side, even(p->m * p->n, 2048, 64) / td_num_threads(), INT64_MAX);
        if (p->n == 1)
            p->tile_m = td_between(long_side, 1, p->tile_m);
        else
            p->tile_n = td_between(long_side, 1, p->tile_n);
    } else if (work > SPLIT && !p->blas && td_dtype_is_floating(p->dtype)) {
        const int64_t threads = td_num_threads(), tiles = threads > 1 ? 4 * threads : 1;
        const int64_t wide = kernels()->bytes / p->size * kernels()->vectors, most = WIDEST / 2 * 4 / p->size / wide * wide;
        if (p->m < FEW) {       /* cut across columns, so that b is packed once */
            p->tile_n = even(p->n, td_between(p->n * p->count / tiles / wide * wide, 2 * wide, most), wide);
        } else {
            p->tile_n = even(p->n, most, wide);
            int64_t across = (p->n + p->tile_n - 1) / p->tile_n * p->count;
            p->tile_m = even(p->m, td_between(p->m * across / tiles, 48, p->m > 48 ? p->m : 48), 24);
        }
    } else if (work > SPLIT && p->m > 0 && p->n > 0) {
        /* A thin result of a deep product is cut finer, for want of other work to share out. */
        int64_t most_m = p->m * p->n <= TILE_M * TILE_N ? td_between(p->m / 2, 24, TILE_M) : td_between(p->m / 4, TILE_M,
            4 * TILE_M);
        p->tile_m = even(p->m, most_m, 24);
        p->tile_n = even(p->n, TILE_N, 64);
        if (p->count > 8 && p->m * p->n <= TILE_M * TILE_N)
            p->tile_m = p->m, p->tile_n = p->n;
    }
    int64_t down = (p->m + p->tile_m - 1) / p->tile_m;
    p->across = (p->n + p->tile_n - 1) / p->tile_n;
    int64_t n_tiles = down * p->across * p->count;
    double per_tile = (double)p->tile_m * (double)p->tile_n * (double)(p->k + 1);
    int64_t grain = (int64_t)td_between((int64_t)((1 << 16) / (per_tile > 0 ? per_tile : 1)), 1, 1 << 16);
    if (n_tiles <= grain)
        tiles(p, 0, n_tiles);
    else
        td_parallel_for(0, n_tiles, grain, tiles, p);
}

/* Copying a matrix (in another dtype, or so that BLAS can read it), its faster dimension first. */
typedef struct copying {
    td_dtype from, to;
    td_matrix in;
    char *out;
    int64_t rows, columns;
} copying;

static void copy_rows(void *context, int64_t first, int64_t last)
{
    const copying *c = context;
    int64_t in = (int64_t)td_dtype_size(c->from), out = (int64_t)td_dtype_size(c->to);
    for (int64_t i = first; i < last; i++)
        td_convert(c->to, c->out + i * c->columns * out, out, c->from, at(c->in, in, i, 0), c->in.column * in,
                   c->columns);
}

/* *x becomes a matrix in a new block, or in none if there is no memory. */
static void *packed_copy(td_dtype from, td_dtype to, td_matrix *x, int64_t rows, int64_t columns, size_t *bytes)
{
    *bytes = (size_t)(rows * columns) * td_dtype_size(to);
    void *block = td_mem_alloc(*bytes);
    if (!block)
        return NULL;
    int64_t r = x->row < 0 ? -x->row : x->row, c = x->column < 0 ? -x->column : x->column;
    bool transposed = rows > 1 && (columns == 1 || r < c);
    copying job = {from, to, *x, block, rows, columns};
    if (transposed)
        job.in = (td_matrix){x->data, x->column, x->row}, job.rows = columns, job.columns = rows;
    td_parallel_for(0, job.rows, td_between(16384 / (job.columns + 1), 1, 16384), copy_rows, &job);
    *x = transposed ? (td_matrix){block, 1, rows} : (td_matrix){block, columns, 1};
    return block;
}

static int multiply(product *p);

/* A matrix of halves times a vector: numbers of bfloat16 become floats in registers, rows of float16 a few at a time, while they are in the
 * first cache. */
enum { HALVES = 4096 };
typedef struct half_rows { const product *p; const float *x; } half_rows;

static void some_half_rows(void *context, int64_t first, int64_t last)
{
    const half_rows *h = context;
    const product *p = h->p;
    float rows[HALVES], y[64];
    const float alpha = (float)td_scalar_double(p->alpha), beta = (float)td_scalar_double(p->beta);
    const bool direct = p->dtype == TD_BF16;
    const int64_t most = direct ? 64 : td_between(HALVES / p->k, 1, 64);
    for (int64_t i = first, m; i < last; i += m) {
        m = last - i < most ? last - i : most;
        char *to = p->c + i * p->ldc * 2;
        if (beta != 0)
            td_convert(TD_F32, y, 4, p->dtype, to, p->ldc * 2, m);
        if (direct)
            kernels()->gemv_bf16(m, p->k, alpha, (const uint16_t *)at(p->a, 2, i, 0), p->a.row, h->x, beta, y);
        for (int64_t from = direct ? p->k : 0, k; from < p->k; from += k) {       /* in one piece, but for single long rows */
            k = p->k - from < HALVES ? p->k - from : HALVES;
            for (int64_t r = 0; r < m; r++)
                td_convert(TD_F32, rows + r * k, 4, p->dtype, at(p->a, 2, i + r, from), 2, k);
            kernels()->gemv_f32(m, k, alpha, (td_matrix){rows, k, 1}, h->x + from, 1, from ? 1 : beta, y, 1);
        }
        for (int64_t r = 0; p->bias && r < m; r++)
            y[r] += ((const float *)p->bias)[i + r];
        td_convert(p->dtype, to, p->ldc * 2, TD_F32, y, 4, m);
    }
}

/* c = a x for halves: x becomes floats once, for all rows. */
static int half_vector(product *p)
{
    size_t bytes;
    td_matrix x = p->b;
    void *copy = packed_copy(p->dtype, TD_F32, &x, p->k, 1, &bytes);
    if (!copy)
        return -1;
    half_rows job = {p, copy};
    td_parallel_for(0, p->m, td_between((1 << 16) / p->k, 1, 1 << 16), some_half_rows, &job);
    td_mem_free(copy, bytes);
    return 0;
}

/* A few rows times a matrix of halves, which becomes floats some columns at a time, while they are in the second cache. */
enum { HALF_ROWS = 64, HALF_BLOCK = 1 << 16 };
typedef struct half_columns { const product *p; td_matrix a; int64_t width; int failed; } half_columns;

static void some_half_columns(void *context, int64_t first, int64_t last)
{
    half_columns *h = context;
    const product *p = h->p;
    const bool transposed = p->b.row == 1;
    const size_t bytes = (size_t)(h->width * (p->k + p->m)) * 4;
    float *b = td_mem_alloc(bytes), *c = b + h->width * p->k;
    if (!b) {
        __atomic_store_n(&h->failed, 1, __ATOMIC_RELAXED);
        return;
    }
    const float alpha = (float)td_scalar_double(p->alpha), beta = (float)td_scalar_double(p->beta);
    for (int64_t j = first * h->width, n; j < p->n && j < last * h->width; j += n) {
        n = p->n - j < h->width ? p->n - j : h->width;
        for (int64_t i = 0; i < (transposed ? n : p->k); i++)
            if (transposed)
                td_convert(TD_F32, b + i * p->k, 4, p->dtype, at(p->b, 2, 0, j + i), 2, p->k);
            else
                td_convert(TD_F32, b + i * n, 4, p->dtype, at(p->b, 2, i, j), p->b.column * 2, n);
        for (int64_t i = 0; beta != 0 && i < p->m; i++)
            td_convert(TD_F32, c + i * n, 4, p->dtype, p->c + (i * p->ldc + j) * 2, 2, n);
        kernels()->f32(p->m, n, p->k, alpha, h->a, transposed ? (td_matrix){b, 1, p->k} : (td_matrix){b, n, 1}, beta, c, n,
                       p->bias ? (const float *)p->bias + j : NULL);
        for (int64_t i = 0; i < p->m; i++)
            td_convert(p->dtype, p->c + (i * p->ldc + j) * 2, 2, TD_F32, c + i * n, 4, n);
    }
    td_mem_free(b, bytes);
}

/* Columns in blocks of HALF_BLOCK floats (256 KiB), multiples of 48, the widest panel: each column's k numbers are converted by
 * one thread only and read back from its second cache by all rows. */
static int half_matrix(const product *p)
{
    size_t bytes;
    half_columns job = {.p = p, .a = p->a, .width = td_between(HALF_BLOCK / p->k / 48 * 48, 48, p->n)};
    void *copy = packed_copy(p->dtype, TD_F32, &job.a, p->m, p->k, &bytes);
    if (!copy)
        return -1;
    td_parallel_for(0, (p->n + job.width - 1) / job.width, 1, some_half_columns, &job);
    td_mem_free(copy, bytes);
    return job.failed ? td_error(TD_E_MEMORY, "DefaultCPUAllocator: can't allocate memory for a matrix product") : 0;
}

/* By the library that a plug-in has offered; 1 where there is none, or it leaves the product. */
static int by_library(const product *p)
{
    const td_cpu_library *library = td_cpu_library_in_use();
    if (!library)
        return 1;
    const td_product call = {
        .size = sizeof call, .dtype = p->dtype, .batch = p->count, .m = p->m, .n = p->n, .k = p->k,
        .a = {(void *)p->a.data, p->step_a, p->a.row, p->a.column}, .b = {(void *)p->b.data, p->step_b, p->b.row, p->b.column},
        .c = {p->c, p->step_c, p->ldc, 1}, .alpha = td_scalar_double(p->alpha), .beta = td_scalar_double(p->beta),
    };
    return library->product(&call, p->bias);
}

/* float16 and bfloat16: sums are floats and each result is rounded once, as in PyTorch.  Paths from the cheapest on:
 *
 *     a plug-in's library             where it takes bfloat16
 *     a matrix and a vector           memory bounds it: halves are converted on the fly, in the first cache
 *     bfloat16 with dot products      no conversion at all (pairs.c)
 *     up to HALF_ROWS rows            b is read once, in blocks of columns
 *     others                          both operands become floats as a whole: much less work than the product
 *
 * A batch-invariant product mustn't take the path for vectors only because it has one row. */
static int halves(product *p)
{
    const int status = p->dtype == TD_BF16 && p->m > 1 && p->n > 1 && p->k > 0 ? by_library(p) : 1;
    if (status <= 0)
        return status;
    if (p->n == 1 && p->count == 1 && p->a.column == 1 && p->k > 0 && !p->bias)
        return half_vector(p);
    if (p->m == 1 && p->count == 1 && p->b.row == 1 && p->k > 0 && !td_batch_invariant()) {
        product transposed = *p;
        transposed.a = (td_matrix){p->b.data, p->b.column, p->b.row}, transposed.b = (td_matrix){p->a.data, p->a.column, p->a.row};
        transposed.m = p->n, transposed.n = 1, transposed.ldc = 1;
        return half_vector(&transposed);
    }
    if (p->dtype == TD_BF16 && p->n > 1 && p->k > 0 && td_gemm_has_pairs()) {
        TD_EMIT(.kind = TD_EVENT_LIBRARY, .name = "tede gemm", .numbers = {p->m, p->n, p->k, p->count});
        return td_gemm_pairs(p->count, p->m, p->n, p->k, (float)td_scalar_double(p->alpha), p->a, p->step_a, p->b, p->step_b,
                             (float)td_scalar_double(p->beta), p->c, p->ldc, p->step_c, p->bias);
    }
    if (p->m > 1 && p->m <= HALF_ROWS && p->n > 1 && p->count == 1 && p->k > 0)
        return half_matrix(p);
    size_t na = 0, nb = 0, nc = (size_t)(p->m * p->n) * 4;
    td_dtype half = p->dtype;
    for (int64_t which = 0; which < p->count; which++) {
        td_matrix a = p->a, b = p->b;
        a.data = (const char *)a.data + which * p->step_a * 2, b.data = (const char *)b.data + which * p->step_b * 2;
        char *to = p->c + which * p->step_c * 2;
        void *pa = packed_copy(half, TD_F32, &a, p->m, p->k, &na);
        void *pb = pa ? packed_copy(half, TD_F32, &b, p->k, p->n, &nb) : NULL;
        float *c = pb ? td_mem_alloc(nc) : NULL;
        int status = -1;
        if (c) {
            td_matrix old = {to, p->ldc, 1};
            if (td_scalar_double(p->beta) != 0) {
                copying job = {half, TD_F32, old, (char *)c, p->m, p->n};
                copy_rows(&job, 0, p->m);
            }
            product inner = {.dtype = TD_F32, .m = p->m, .n = p->n, .k = p->k, .ldc = p->n, .alpha = p->alpha,
                             .beta = p->beta,
                             .a = a, .b = b, .c = (char *)c, .count = 1, .bias = p->bias};
            status = multiply(&inner);
            for (int64_t i = 0; !status && i < p->m; i++)
                td_convert(half, to + i * p->ldc * 2, 2, TD_F32, c + i * p->n, 4, p->n);
        }
        td_mem_free(c, nc);
        td_mem_free(pb, nb);
        td_mem_free(pa, na);
        if (status)
            return status;
    }
    return 0;
}

/* Products of bools, which are accepted where nothing is multiplied: what was there, or nothing. */
static int empty_sums(const product *p)
{
    if (p->k)
        return td_error(TD_E_NOT_IMPLEMENTED, "\"addmm_impl_cpu_\" not implemented for 'Bool'");
    for (int64_t i = 0; i < p->count && td_scalar_double(p->beta) == 0; i++)
        for (int64_t row = 0; row < p->m; row++)
            memset((bool *)p->c + i * p->step_c + row * p->ldc, 0, (size_t)p->n);
    return 0;
}

static int multiply(product *p)
{
    p->size = (int64_t)td_dtype_size(p->dtype);
    if (td_check_steps("product of matrices", p->k))
        return -1;
    if (p->dtype == TD_F16 || p->dtype == TD_BF16)
        return halves(p);
    if (p->dtype == TD_BOOL)
        return empty_sums(p);
    bool floating = td_dtype_is_floating(p->dtype) || td_dtype_is_complex(p->dtype);
    bool large = (double)p->m * (double)p->n * (double)p->k > SMALL && p->m > 1 && p->n > 1;
    /* Batch invariance needs one order of additions whatever m is, which the library doesn't promise, so nothing goes to it. */
    bool own = (td_dtype_is_floating(p->dtype) && kernels()->fused) || td_batch_invariant();
    p->row = p->m == 1 && td_dtype_is_floating(p->dtype) && !td_batch_invariant();
    if (td_dtype_is_complex(p->dtype) && large && p->m >= TALL && kernels()->fused && !td_batch_invariant() &&
        (p->a.column == 1 || p->count == 1) && cimag(complex_of(p->beta)) == 0)
        return td_gemm_complex(p->dtype, p->count, p->m, p->n, p->k, complex_of(p->alpha), p->a, p->step_a, p->b, p->step_b,
                               creal(complex_of(p->beta)), p->c, p->ldc, p->step_c);
    if (!floating || own || !large || p->m >= INT_MAX || p->n >= INT_MAX || p->k >= INT_MAX || p->ldc >= INT_MAX ||
        !(p->blas = td_openblas_get())) {
        p->blas = NULL;
        TD_EMIT(.kind = TD_EVENT_LIBRARY, .name = "tede gemm", .numbers = {p->m, p->n, p->k, p->count});
        run(p);
        return 0;
    }
    /* Where steps fit neither way, that operand is copied. */
    void *copies[2] = {0};
    size_t bytes[2] = {0};
    int status = 0;
    if (p->count == 1) {
        if (!blas_operand(p->a, p->m, p->k, &p->ta, &p->lda))
            status = (copies[0] = packed_copy(p->dtype, p->dtype, &p->a, p->m, p->k, &bytes[0])) ? 0 : -1;
        if (!status && !blas_operand(p->b, p->k, p->n, &p->tb, &p->ldb))
            status = (copies[1] = packed_copy(p->dtype, p->dtype, &p->b, p->k, p->n, &bytes[1])) ? 0 : -1;
    }
    if (!status) {
        if (!blas_operand(p->a, p->m, p->k, &p->ta, &p->lda) || !blas_operand(p->b, p->k, p->n, &p->tb, &p->ldb))
            p->blas = NULL;
        TD_EMIT(.kind = TD_EVENT_LIBRARY, .name = p->blas ? "OpenBLAS gemm" : "tede gemm",
                .numbers = {p->m, p->n, p->k, p->count});
        run(p);
    }
    td_mem_free(copies[0], bytes[0]);
    td_mem_free(copies[1], bytes[1]);
    return status;
}

int td_gemm_batched(td_dtype dtype, int64_t count, int64_t m, int64_t n, int64_t k, td_scalar alpha, td_matrix a,
                    int64_t step_a, td_matrix b, int64_t step_b, td_scalar beta, void *c, int64_t ldc, int64_t step_c)
{
    if (m == 0 || n == 0 || count == 0)
        return 0;
    product p = {.dtype = dtype, .m = m, .n = n, .k = k, .ldc = ldc, .alpha = alpha, .beta = beta, .a = a, .b = b,
                 .c = c,
                 .count = count, .step_a = step_a, .step_b = step_b, .step_c = step_c};
    return multiply(&p);
}

int td_gemm_strided(td_dtype dtype, int64_t m, int64_t n, int64_t k, td_scalar alpha, td_matrix a, td_matrix b,
                    td_scalar beta, void *c, int64_t ldc)
{
    return td_gemm_batched(dtype, 1, m, n, k, alpha, a, 0, b, 0, beta, c, ldc, 0);
}

int td_gemm_bias(td_dtype dtype, int64_t m, int64_t n, int64_t k, td_matrix a, td_matrix b, const void *bias, void *c,
                 int64_t ldc)
{
    if (m == 0 || n == 0)
        return 0;
    product p = {.dtype = dtype, .m = m, .n = n, .k = k, .ldc = ldc, .alpha = td_int(1), .beta = td_int(0), .a = a,
                 .b = b,
                 .c = c, .count = 1, .bias = bias};
    return multiply(&p);
}

int td_gemm(td_dtype dtype, bool transa, bool transb, int64_t m, int64_t n, int64_t k, td_scalar alpha, const void *a,
            int64_t lda, const void *b, int64_t ldb, td_scalar beta, void *c, int64_t ldc)
{
    return td_gemm_strided(dtype, m, n, k, alpha, transa ? (td_matrix){a, 1, lda} : (td_matrix){a, lda, 1},
                           transb ? (td_matrix){b, 1, ldb} : (td_matrix){b, ldb, 1}, beta, c, ldc);
}

/* For callers that are parallel themselves (conv, linalg): one thread, and no error, since packing without memory goes panel by
 * panel on the stack.  Without fused multiply-add the library's kernels are faster than ours. */
#define SERIAL(name, T, function, own)                                                                                \
    void name(int64_t m, int64_t n, int64_t k, T alpha, td_matrix a, td_matrix b, T beta, T *c, int64_t ldc)          \
    {                                                                                                                 \
        const td_openblas *blas;                                                                                      \
        int ta, tb, lda, ldb;                                                                                         \
        if (!kernels()->fused && (double)m * (double)n * (double)k > SMALL && m > 1 && n > 1 &&                    \
            ldc < INT_MAX && k < INT_MAX &&                                                                              \
            blas_operand(a, m, k, &ta, &lda) && blas_operand(b, k, n, &tb, &ldb) && (blas = td_openblas_get()))       \
            blas->function(TD_CBLAS_ROW_MAJOR, ta, tb, (int)m, (int)n, (int)k, alpha, a.data, lda, b.data, ldb, beta, \
                           c, (int)ldc);                                                                              \
        else if (m > 0 && n > 0)                                                                                      \
            kernels()->own(m, n, k, alpha, a, b, beta, c, ldc, NULL);                                                       \
    }
SERIAL(td_gemm_f32, float, sgemm, f32)
SERIAL(td_gemm_f64, double, dgemm, f64)
