/* Rows of a compressed matrix times a strided one, see csr.h: the row-wise product, with the sums of up to eight vectors of columns
 * in registers while a row's elements go by.
 *
 * Every element reads another row of the strided matrix, from wherever its column says.  What bounds the loop is that reading, from
 * the second-level cache if it is large enough: a strip of columns is computed for all rows before the next one, so that it need only
 * hold a strip.  (Fetching rows ahead of their use costs more
 * than it saves: the loads of several elements are under way at once.)  With a single column there is one number to fetch
 * per element and the indices are most of what is read, for which they are checked in pieces just before they are used. */
#include "kernels/cpu/gemm/csr.h"
#include "kernels/cpu/isa/vectors.h"

enum { PIECE = 2048 };      /* elements whose indices are checked at a time */

/* Without a branch for each, so that it vectorises; negative ones are large as unsigned. */
INLINE bool within(const int64_t *col, int64_t n, int64_t inner)
{
    uint64_t most = 0;
    for (int64_t k = 0; k < n; k++)
        most = (uint64_t)col[k] > most ? (uint64_t)col[k] : most;
    return n == 0 || most < (uint64_t)inner;
}

/* The last row of a piece of rows from `i`, at least one, whose indices fit in the first-level cache. */
INLINE int64_t piece_end(const td_csr_product *p, int64_t i, int64_t end)
{
    const int64_t limit = p->crow[i] + PIECE;
    do
        i++;
    while (i < end && p->crow[i + 1] <= limit);
    return i;
}

#define STRIP(T, N)                                                                                                        \
    INLINE void strip_##T##_##N(const td_csr_product *p, int64_t begin, int64_t end, int64_t column)                       \
    {                                                                                                                      \
        enum { W = VBYTES / sizeof(real_##T) };                                                                            \
        const int64_t *col = p->col, columns = p->columns;                                                                  \
        const real_##T *values = p->values, *dense = (const real_##T *)p->dense + column;                                  \
        for (int64_t i = begin; i < end; i++) {                                                                            \
            vec_##T sum[N] = {0};                                                                                          \
            for (int64_t k = p->crow[i]; k < p->crow[i + 1]; k++) {                                                        \
                const real_##T *from = dense + col[k] * columns;                                                           \
                const vec_##T v = values[k] - (vec_##T){0};                                                                \
                for (int u = 0; u < N; u++)                                                                                \
                    add_product_##T(&sum[u], v, *(const vec_##T *)(from + u * W));                                         \
            }                                                                                                              \
            for (int u = 0; u < N; u++)                                                                                    \
                *(vec_##T *)((real_##T *)p->out + i * columns + column + u * W) = sum[u];                                  \
        }                                                                                                                  \
    }

/* Fewer columns than a vector has. */
#define REST(T)                                                                                                            \
    INLINE void rest_##T(const td_csr_product *p, int64_t begin, int64_t end, int64_t column)                              \
    {                                                                                                                      \
        const int64_t columns = p->columns, n = columns - column;                                                          \
        const real_##T *values = p->values, *dense = (const real_##T *)p->dense + column;                                  \
        for (int64_t i = begin; i < end; i++) {                                                                            \
            real_##T sum[VBYTES / sizeof(real_##T)] = {0}, *to = (real_##T *)p->out + i * columns + column;                \
            for (int64_t k = p->crow[i]; k < p->crow[i + 1]; k++)                                                          \
                for (int64_t j = 0; j < n; j++)                                                                            \
                    sum[j] += values[k] * dense[p->col[k] * columns + j];                                                  \
            for (int64_t j = 0; j < n; j++)                                                                                \
                to[j] = sum[j];                                                                                            \
        }                                                                                                                  \
    }                                                                                                                      \
    /* One column: four sums, so that an addition need not wait for the one before. */                                     \
    INLINE void single_##T(const td_csr_product *p, int64_t begin, int64_t end)                                            \
    {                                                                                                                      \
        const int64_t *col = p->col;                                                                                       \
        const real_##T *v = p->values, *x = p->dense;                                                                      \
        for (int64_t i = begin; i < end; i++) {                                                                            \
            real_##T s0 = 0, s1 = 0, s2 = 0, s3 = 0;                                                                       \
            int64_t k = p->crow[i];                                                                                        \
            const int64_t until = p->crow[i + 1];                                                                          \
            for (; k + 4 <= until; k += 4) {                                                                               \
                s0 += v[k] * x[col[k]], s1 += v[k + 1] * x[col[k + 1]];                                                    \
                s2 += v[k + 2] * x[col[k + 2]], s3 += v[k + 3] * x[col[k + 3]];                                            \
            }                                                                                                              \
            for (; k < until; k++)                                                                                         \
                s0 += v[k] * x[col[k]];                                                                                    \
            ((real_##T *)p->out)[i] = (s0 + s1) + (s2 + s3);                                                               \
        }                                                                                                                  \
    }

/* One strip as wide as can be from `column`; its width. */
#define PRODUCT(T)                                                                                                         \
    static int64_t strip_##T(const td_csr_product *p, int64_t begin, int64_t end, int64_t column)                          \
    {                                                                                                                      \
        enum { W = VBYTES / sizeof(real_##T) };                                                                            \
        const int64_t left = p->columns - column;                                                                          \
        if (left >= 8 * W)                                                                                                 \
            return strip_##T##_8(p, begin, end, column), 8 * W;                                                            \
        if (left >= 4 * W)                                                                                                 \
            return strip_##T##_4(p, begin, end, column), 4 * W;                                                            \
        if (left >= 2 * W)                                                                                                 \
            return strip_##T##_2(p, begin, end, column), 2 * W;                                                            \
        if (left >= W)                                                                                                     \
            return strip_##T##_1(p, begin, end, column), W;                                                                \
        if (p->columns == 1)                                                                                               \
            return single_##T(p, begin, end), 1;                                                                           \
        return rest_##T(p, begin, end, column), left;                                                                      \
    }                                                                                                                      \
    static void product_##T(void *context, int64_t begin, int64_t end)                                                     \
    {                                                                                                                      \
        td_csr_product *p = context;                                                                                       \
        int64_t width = 0;                                                                                                 \
        for (int64_t i = begin, next; i < end; i = next) {                                                                 \
            next = piece_end(p, i, end);                                                                                   \
            if (!within(p->col + p->crow[i], p->crow[next] - p->crow[i], p->inner)) {                                      \
                __atomic_store_n(&p->outside, true, __ATOMIC_RELAXED);                                                     \
                return;                                                                                                    \
            }                                                                                                              \
            width = strip_##T(p, i, next, 0);                                                                              \
        }                                                                                                                  \
        for (int64_t column = width; begin < end && column < p->columns; column += width)                                  \
            width = strip_##T(p, begin, end, column);                                                                      \
    }

typedef float  real_f32;
typedef double real_f64;
STRIP(f32, 1) STRIP(f32, 2) STRIP(f32, 4) STRIP(f32, 8) REST(f32) PRODUCT(f32)
STRIP(f64, 1) STRIP(f64, 2) STRIP(f64, 4) STRIP(f64, 8) REST(f64) PRODUCT(f64)

const td_csr_table TD_ISA_NAME(td_csr_table) = {product_f32, product_f64};
