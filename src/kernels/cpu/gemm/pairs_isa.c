/* Products of bfloat16 by the processor's own dot products: where a float of tiles.h would be, two neighbours along k are.
 *
 * vdpbf16ps adds both products of a pair to a float; it takes subnormal numbers for zeros.  Only AVX-512 has it, and not
 * everywhere (td_gemm_has_pairs), so the other levels have no kernels here. */
#include "kernels/cpu/gemm/tile_vectors.h"

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

const td_gemm_pairs_table TD_ISA_NAME(td_gemm_pairs_table) = {pack_some, packed_pairs, zip};
#else
const td_gemm_pairs_table TD_ISA_NAME(td_gemm_pairs_table) = {0};
#endif
