/* Rows of a 2:4 matrix times a strip of columns, see semi.h: several rows at a time, with their sums in registers.
 *
 * A kept element costs one multiplication with a row of the strip, whose place is two bits of meta: half of what all elements cost.
 * Operands come from the first-level cache, at the rate of the multiplications: the strip is packed, so that its rows don't compete for
 * places there, and taken in blocks of rows that fit; the packed rows of the matrix go by once for each block. */
#include "kernels/cpu/gemm/semi.h"
#include "kernels/cpu/isa/vectors.h"

enum { CACHE = 32 << 10, CHUNK = 16, W = VBYTES / sizeof(float) };          /* bytes of a block; columns that one element of meta is about */

/* Rows k of the strip, from wherever the strides say; what it has beyond the matrix's columns is zero. */
static void pack(void *context, int64_t begin, int64_t end)
{
    const td_semi_product *p = context;
    for (int64_t k = begin; k < end; k++) {
        float *to = p->strip + k * p->width;
        const float *from = p->dense + k * p->row_step;
        for (int64_t j = 0; j < p->columns; j++)
            to[j] = from[j * p->column_step];
        for (int64_t j = p->columns; j < p->width; j++)
            to[j] = 0;
    }
}

/* The sums of R rows over columns [from, to) of the packed matrix, added to what is there unless these are the first. */
#define STRIP(R, N)                                                                                                          \
    INLINE void strip_##R##_##N(const td_semi_product *p, int64_t row, int64_t from, int64_t to)                            \
    {                                                                                                                        \
        float *out = p->out + row * p->width;                                                                                \
        vec_f32 sum[R][N] = {{{0}}};                                                                                         \
        if (from > 0)                                                                                                        \
            _Pragma("GCC unroll 8") for (int r = 0; r < R; r++)                                                              \
                _Pragma("GCC unroll 8") for (int u = 0; u < N; u++)                                                          \
                    sum[r][u] = *(const vec_f32 *)(out + (r * N + u) * W);                                                   \
        for (int64_t k = from; k < to; k += CHUNK) {                                                                         \
            const float *strip = p->strip + k * (N * W);                                                                     \
            const float *values = p->packed + row * (p->inner / 2) + k / 2;                                                  \
            const int16_t *meta = p->meta + row * (p->inner / CHUNK) + k / CHUNK;                                            \
            uint32_t at[R];                                                                                                  \
            _Pragma("GCC unroll 8") for (int r = 0; r < R; r++)                                                              \
                at[r] = (uint16_t)meta[r * (p->inner / CHUNK)];                                                              \
            for (int g = 0; g < CHUNK / 4; g++, strip += 4 * N * W, values += 2)                                             \
                _Pragma("GCC unroll 8") for (int r = 0; r < R; r++) {                                                        \
                    const float *a = strip + (at[r] & 3) * (N * W), *b = strip + (at[r] >> 2 & 3) * (N * W);                 \
                    const vec_f32 v = values[r * (p->inner / 2)] - (vec_f32){0}, w = values[r * (p->inner / 2) + 1] - (vec_f32){0}; \
                    at[r] >>= 4;                                                                                             \
                    _Pragma("GCC unroll 8") for (int u = 0; u < N; u++)                                                      \
                        add_product_f32(&sum[r][u], v, *(const vec_f32 *)(a + u * W));                                       \
                    _Pragma("GCC unroll 8") for (int u = 0; u < N; u++)                                                      \
                        add_product_f32(&sum[r][u], w, *(const vec_f32 *)(b + u * W));                                       \
                }                                                                                                            \
        }                                                                                                                    \
        _Pragma("GCC unroll 8") for (int r = 0; r < R; r++)                                                                  \
            _Pragma("GCC unroll 8") for (int u = 0; u < N; u++)                                                              \
                *(vec_f32 *)(out + (r * N + u) * W) = sum[r][u];                                                             \
    }

#define STRIPS(R, N)                                                                                                         \
    STRIP(1, N) STRIP(R, N)                                                                                                  \
    static void strips_##N(const td_semi_product *p, int64_t begin, int64_t end)                                            \
    {                                                                                                                        \
        const int64_t fit = CACHE / (N * VBYTES) / CHUNK * CHUNK;                                                            \
        for (int64_t from = 0; from < p->inner; from += fit) {                                                               \
            const int64_t to = from + fit < p->inner ? from + fit : p->inner;                                                \
            int64_t row = begin;                                                                                             \
            for (; row + R <= end; row += R)                                                                                 \
                strip_##R##_##N(p, row, from, to);                                                                           \
            for (; row < end; row++)                                                                                         \
                strip_1_##N(p, row, from, to);                                                                               \
        }                                                                                                                    \
    }
/* As many sums as hide the latency of an addition, and fit in registers. */
#if VBYTES == 64
STRIPS(8, 1) STRIPS(4, 2) STRIPS(4, 4)
#else
STRIPS(8, 1) STRIPS(4, 2) STRIPS(2, 4)
#endif

static void product(void *context, int64_t begin, int64_t end)
{
    const td_semi_product *p = context;
    if (p->width == W)
        strips_1(p, begin, end);
    else if (p->width == 2 * W)
        strips_2(p, begin, end);
    else
        strips_4(p, begin, end);
}

const td_semi_table TD_ISA_NAME(td_semi_table) = {pack, product, W};
