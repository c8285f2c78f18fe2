/* The formats of packed weights: what a block holds.
 *
 * An element is scale * (code - OFFSET) + shift, where code has no sign, and neighbours of a run (16 or 32 elements) share scale and
 * shift.  So a format is two functions, from which unpacking and products follow for all alike:
 *
 *     codes_F(row, g, to)                        the codes of elements 32 g ... 32 g + 31
 *     scales_F(row, k, folded, scale, shift)     scales and shifts of a whole row, one for each run; `folded`: the shift takes
 *                                                OFFSET in, so that an element is scale * code + shift
 *
 * and three constants: OFFSET, the elements of a run, and whether there are shifts at all.
 *
 * Sources: GGUF's blocks are described by the structs of ggml's ggml-common.h (block_q4_0, block_q8_0, block_q4_K, block_q6_K,
 * block_mxfp4); the bits of MXFP4 by the OCP Microscaling Formats specification 1.0; int8 and int4 are the schemes of torchao's
 * Int8WeightOnlyConfig and Int4WeightOnlyConfig (scale and zero point in bfloat16, an element is (code - 8) * scale + zero), in blocks of
 * this library's own. */
#ifndef TD_KERNELS_CPU_PACKED_FORMATS_H
#define TD_KERNELS_CPU_PACKED_FORMATS_H
#include "base/base.h"
#define TD_SIMD_INTRINSICS
#include "base/simd.h"
#include "kernels/cpu/isa/vectors.h"

enum { TD_PACKED_PAD = 64 };                    /* rows of int8 and of quantized activations are multiples of so many */
static inline int64_t td_packed_padded(int64_t k) { return (k + TD_PACKED_PAD - 1) / TD_PACKED_PAD * TD_PACKED_PAD; }

INLINE float half_at(const uint8_t *p)
{
    td_f16 x;
    memcpy(&x, p, 2);
    return td_f16_to_f32(x);
}
INLINE float brain_at(const uint8_t *p)
{
    td_bf16 x;
    memcpy(&x, p, 2);
    return td_bf16_to_f32(x);
}

/* 16 halves at a time; what is behind the n-th may be written, too. */
INLINE void floats_of_halves(int64_t n, const td_f16 *from, float *to)
{
    for (int64_t i = 0; i < n; i += 16)
#ifdef TD_AVX512
        _mm512_storeu_ps(to + i, _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(from + i))));
#else
        for (int j = 0; j < 16; j++)
            to[i + j] = td_f16_to_f32(from[i + j]);
#endif
}
/* to[j] = by * bytes[j], for eight bytes without a sign */
INLINE void eight_times(float by, uint64_t bytes, float *to)
{
#ifdef TD_AVX2
    _mm256_storeu_ps(to, _mm256_mul_ps(_mm256_set1_ps(by), _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_cvtsi64_si128((long long)bytes)))));
#else
    for (int j = 0; j < 8; j++)
        to[j] = by * (float)(bytes >> 8 * j & 255);
#endif
}

/* 32 codes of four bits: the first half in the low nibbles of 16 bytes, the second in the high ones. */
INLINE void nibbles(const uint8_t *from, uint8_t *to)
{
    for (int i = 0; i < 16; i++) {
        to[i] = from[i] & 15;
        to[i + 16] = from[i] >> 4;
    }
}

/* ---- int8: the codes of a row, padded with zeros' codes; a scale behind them, in 64 bytes that keep rows aligned */
enum { OFFSET_int8 = 128, RUN_int8 = 32, SHIFTS_int8 = 0 };
INLINE void codes_int8(const uint8_t *row, int64_t g, uint8_t *to)
{
    for (int i = 0; i < 32; i++)
        to[i] = row[32 * g + i] ^ 0x80;
}
INLINE void scales_int8(const uint8_t *row, int64_t k, bool folded, float *scale, float *shift)
{
    (void)folded, (void)shift;
    float d;
    memcpy(&d, row + td_packed_padded(k), 4);
    for (int64_t g = 0; g < td_packed_padded(k) / 32; g++)
        scale[g] = d;
}

/* n pairs of bfloat16 scales and zero points, each for so many groups of 32. */
INLINE void pairs_of_scales(int groups, int64_t n, const uint32_t *pairs, bool folded, float *scale, float *shift)
{
    for (int64_t i = 0; i < n; i++)
        for (int j = 0; j < groups; j++) {
            const float d = td_bits_f32(pairs[i] << 16), zero = td_bits_f32(pairs[i] & 0xffff0000);
            scale[i * groups + j] = d;
            shift[i * groups + j] = folded ? zero - 8 * d : zero;
        }
}

/* ---- int4: {scale, zero, codes of 32 elements after codes of 32 elements} for each group */
#define INT4(F, GROUP)                                                                                  \
    enum { OFFSET_##F = 8, RUN_##F = 32, SHIFTS_##F = 1, BYTES_##F = 4 + GROUP / 2 };                   \
    INLINE const uint8_t *at_##F(const uint8_t *row, int64_t g)                                         \
    {                                                                                                   \
        return row + g / (GROUP / 32) * BYTES_##F + 4 + g % (GROUP / 32) * 16;                          \
    }                                                                                                   \
    INLINE void codes_##F(const uint8_t *row, int64_t g, uint8_t *to) { nibbles(at_##F(row, g), to); }  \
    INLINE void scales_##F(const uint8_t *row, int64_t k, bool folded, float *scale, float *shift)      \
    {                                                                                                   \
        uint32_t few[32];                                                                               \
        for (int64_t b = 0, n; b < k / GROUP; b += n) {                                                 \
            n = k / GROUP - b < 32 ? k / GROUP - b : 32;                                                \
            for (int64_t i = 0; i < n; i++)                                                             \
                memcpy(&few[i], row + (b + i) * BYTES_##F, 4);                                          \
            pairs_of_scales(GROUP / 32, n, few, folded, scale + b * (GROUP / 32), shift + b * (GROUP / 32)); \
        }                                                                                               \
    }
INT4(int4_g32, 32)
INT4(int4_g64, 64)
INT4(int4_g128, 128)

/* ---- Q4_0: {half scale, 32 codes} */
enum { OFFSET_q4_0 = 8, RUN_q4_0 = 32, SHIFTS_q4_0 = 0, BYTES_q4_0 = 18 };
INLINE const uint8_t *at_q4_0(const uint8_t *row, int64_t g) { return row + g * BYTES_q4_0 + 2; }
INLINE void codes_q4_0(const uint8_t *row, int64_t g, uint8_t *to) { nibbles(at_q4_0(row, g), to); }

/* ---- Q8_0: {half scale, 32 signed bytes} */
enum { OFFSET_q8_0 = 128, RUN_q8_0 = 32, SHIFTS_q8_0 = 0, BYTES_q8_0 = 34 };
INLINE void codes_q8_0(const uint8_t *row, int64_t g, uint8_t *to)
{
    for (int i = 0; i < 32; i++)
        to[i] = row[g * BYTES_q8_0 + 2 + i] ^ 0x80;
}

#define HALF_SCALES(F)                                                                             \
    INLINE void scales_##F(const uint8_t *row, int64_t k, bool folded, float *scale, float *shift) \
    {                                                                                              \
        (void)folded, (void)shift;                                                                 \
        td_f16 few[32] = {0};                                                                      \
        for (int64_t g = 0, n; g < k / 32; g += n) {                                               \
            n = k / 32 - g < 32 ? k / 32 - g : 32;                                                 \
            for (int64_t i = 0; i < n; i++)                                                        \
                memcpy(&few[i], row + (g + i) * BYTES_##F, 2);                                     \
            floats_of_halves(n, few, scale + g);                                                   \
        }                                                                                          \
    }
HALF_SCALES(q4_0)
HALF_SCALES(q8_0)

/* ---- Q4_K: 256 elements: {half d, half dmin, eight scales and minima of six bits, 4 x 32 bytes}; of each 32 bytes the low
 * nibbles are a run and the high ones the next.  An element is d * scale * code - dmin * minimum. */
enum { OFFSET_q4_k = 0, RUN_q4_k = 32, SHIFTS_q4_k = 1, BYTES_q4_k = 144 };
INLINE void codes_q4_k(const uint8_t *row, int64_t g, uint8_t *to)
{
    const uint8_t *from = row + g / 8 * BYTES_q4_k + 16 + g % 8 / 2 * 32;
    const int down = g % 2 * 4;
    for (int i = 0; i < 32; i++)
        to[i] = from[i] >> down & 15;
}
/* Of the first four runs the six bits are in one byte; of the others the upper two are in the upper bits of the first four's. */
INLINE void scales_q4_k(const uint8_t *row, int64_t k, bool folded, float *scale, float *shift)
{
    (void)folded;
    td_f16 halves[2][16] = {{0}};
    float both[2][16];
    for (int64_t b = 0, n; b < k / 256; b += n) {
        n = k / 256 - b < 16 ? k / 256 - b : 16;
        for (int64_t i = 0; i < n; i++)
            for (int j = 0; j < 2; j++)
                memcpy(&halves[j][i], row + (b + i) * BYTES_q4_k + 2 * j, 2);
        for (int j = 0; j < 2; j++)
            floats_of_halves(16, halves[j], both[j]);
        for (int64_t i = 0; i < n; i++) {
            uint32_t s[3];
            memcpy(s, row + (b + i) * BYTES_q4_k + 4, 12);
            const uint64_t low = s[0] & 0x3f3f3f3f, high = (s[2] & 0x0f0f0f0f) | (s[0] >> 6 & 0x03030303) << 4;
            const uint64_t low_minima = s[1] & 0x3f3f3f3f, high_minima = (s[2] >> 4 & 0x0f0f0f0f) | (s[1] >> 6 & 0x03030303) << 4;
            eight_times(both[0][i], high << 32 | low, scale + 8 * (b + i));
            eight_times(-both[1][i], high_minima << 32 | low_minima, shift + 8 * (b + i));
        }
    }
}

/* ---- Q6_K: 256 elements: {128 bytes of low nibbles, 64 of the two upper bits, 16 signed scales, half d}; either half of the block
 * has four groups of 32: of 64 bytes the low nibbles are groups 0 and 1, the high ones 2 and 3; two bits of 32 bytes each. */
enum { OFFSET_q6_k = 32, RUN_q6_k = 16, SHIFTS_q6_k = 0, BYTES_q6_k = 210 };
INLINE void codes_q6_k(const uint8_t *row, int64_t g, uint8_t *to)
{
    const uint8_t *block = row + g / 8 * BYTES_q6_k;
    const int half = (int)(g % 8 / 4), j = (int)(g % 4);
    const uint8_t *low = block + 64 * half + 32 * (j & 1), *high = block + 128 + 32 * half;
    for (int i = 0; i < 32; i++)
        to[i] = (uint8_t)((low[i] >> (j >> 1) * 4 & 15) | (high[i] >> 2 * j & 3) << 4);
}
INLINE void scales_q6_k(const uint8_t *row, int64_t k, bool folded, float *scale, float *shift)
{
    (void)folded, (void)shift;
    td_f16 halves[16] = {0};
    float d[16];
    for (int64_t b = 0, n; b < k / 256; b += n) {
        n = k / 256 - b < 16 ? k / 256 - b : 16;
        for (int64_t i = 0; i < n; i++)
            memcpy(&halves[i], row + (b + i) * BYTES_q6_k + 208, 2);
        floats_of_halves(16, halves, d);
        for (int64_t i = 0; i < n; i++)
            for (int j = 0; j < 16; j++)
                scale[16 * (b + i) + j] = d[i] * (float)(int8_t)row[(b + i) * BYTES_q6_k + 192 + j];
    }
}

/* ---- MXFP4: {exponent, 32 floats of four bits}: sign, two bits of exponent, one of mantissa.  Codes are twice their values, plus 12 */
enum { OFFSET_mxfp4 = 12, RUN_mxfp4 = 32, SHIFTS_mxfp4 = 0, BYTES_mxfp4 = 17 };
static const uint8_t twice_mxfp4[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};
INLINE const uint8_t *at_mxfp4(const uint8_t *row, int64_t g) { return row + g * BYTES_mxfp4 + 1; }
INLINE void codes_mxfp4(const uint8_t *row, int64_t g, uint8_t *to)
{
    const uint8_t *from = at_mxfp4(row, g);
    for (int i = 0; i < 16; i++)
        to[i] = twice_mxfp4[from[i] & 15], to[i + 16] = twice_mxfp4[from[i] >> 4];
}
/* Half of 2^(e - 127), which is subnormal for e of 0 and 1; 255 is NaN. */
INLINE float scale_mxfp4(uint32_t e)
{
    const uint32_t normal = (e - 1) << 23, small = 0x200000u << (e & 1);
    return td_bits_f32(e == 255 ? 0x7fc00000 : e > 1 ? normal : small);
}
INLINE void scales_mxfp4(const uint8_t *row, int64_t k, bool folded, float *scale, float *shift)
{
    (void)folded, (void)shift;
    uint32_t few[32];
    for (int64_t g = 0, n; g < k / 32; g += n) {
        n = k / 32 - g < 32 ? k / 32 - g : 32;
        for (int64_t i = 0; i < n; i++)
            few[i] = row[(g + i) * BYTES_mxfp4];
        for (int64_t i = 0; i < n; i++)
            scale[g + i] = scale_mxfp4(few[i]);
    }
}

#define TD_PACKED_EACH(X) \
    X(INT8, int8) X(INT4_G32, int4_g32) X(INT4_G64, int4_g64) X(INT4_G128, int4_g128) X(Q4_0, q4_0) X(Q8_0, q8_0) X(Q4_K, q4_k) \
    X(Q6_K, q6_k) X(MXFP4, mxfp4)

#endif
