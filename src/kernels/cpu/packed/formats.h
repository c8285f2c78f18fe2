/* The formats of packed weights: what a block holds.
 *
 * An element is scale * (code - OFFSET) + shift, where code has no sign, and neighbours of a run (16 to 128 elements) share scale and
 * shift.  So a format is two functions, from which unpacking and products follow for all alike:
 *
 *     codes_F(row, k, g)                         the codes of elements 32 g ... 32 g + 31
 *     scales_F(row, k, folded, scale, shift)     scales and shifts of a whole row, one for each run; `folded`: the shift takes
 *                                                OFFSET in, so that an element is scale * code + shift
 *
 *     part_F(row, k, from, n)                    what scales_F takes for a row, of n columns, to give those of elements from `from` on
 *
 * and four constants: OFFSET, the elements of a run, whether there are shifts at all, and PART, of which parts of a row begin at multiples.  With an OFFSET of 128 the codes are given less
 * it, as the signed bytes that these formats store.
 *
 * Sources: GGUF's blocks are described by the structs of ggml's ggml-common.h (block_q4_0, block_q8_0, block_q4_K, block_q6_K,
 * block_mxfp4); the bits of MXFP4 by the OCP Microscaling Formats specification 1.0; int8 and int4 are the schemes of torchao's
 * Int8WeightOnlyConfig and Int4WeightOnlyConfig (scale and zero point in bfloat16, an element is (code - 8) * scale + zero), in blocks of
 * this library's own: a row's scales come first, which are converted many at a time. */
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

/* 32 codes, in vectors that every machine has. */
typedef uint8_t codes_16 __attribute__((vector_size(16), aligned(1), may_alias));
typedef struct codes_32 {
    codes_16 first, second;
} codes_32;

INLINE codes_16 bytes_at(const uint8_t *from) { return *(const codes_16 *)from; }
/* 32 codes of four bits: the first half in the low nibbles of 16 bytes, the second in the high ones. */
INLINE codes_32 nibbles(codes_16 both) { return (codes_32){both & 15, both >> 4}; }
/* 32 codes that are the low nibbles of as many bytes, or the high ones. */
INLINE codes_32 nibbles_of(const uint8_t *from, bool high)
{
    const codes_16 first = bytes_at(from), second = bytes_at(from + 16);
    return high ? (codes_32){first >> 4, second >> 4} : (codes_32){first & 15, second & 15};
}

/* ---- int8: the codes of a row, padded with zeros' codes; a scale behind them, in 64 bytes that keep rows aligned */
enum { OFFSET_int8 = 128, RUN_int8 = 64, SHIFTS_int8 = 0, PART_int8 = 64 };
INLINE const uint8_t *part_int8(const uint8_t *row, int64_t k, int64_t from, int64_t n)
{
    (void)from;
    return row + td_packed_padded(k) - td_packed_padded(n);
}
INLINE codes_32 codes_int8(const uint8_t *row, int64_t k, int64_t g)
{
    (void)k;
    return (codes_32){bytes_at(row + 32 * g), bytes_at(row + 32 * g + 16)};
}
INLINE void scales_int8(const uint8_t *row, int64_t k, bool folded, float *scale, float *shift)
{
    (void)folded, (void)shift;
    float d;
    memcpy(&d, row + td_packed_padded(k), 4);
    for (int64_t g = 0; g < td_packed_padded(k) / RUN_int8; g++)
        scale[g] = d;
}

/* ---- int4: {scale, zero} of each group, then codes: those of 128 elements in 64 bytes, first the low nibbles and then the high ones; of the
 * rest, 32 in 16 bytes */
typedef uint32_t loose_u32 __attribute__((aligned(1), may_alias));
INLINE void scales_int4(int group, const uint8_t *row, int64_t k, bool folded, float *scale, float *shift)
{
    const loose_u32 *pairs = (const loose_u32 *)row;
    const float by = folded ? 8 : 0;
#ifdef TD_AVX512
    for (int64_t i = 0; i < k / group; i += 16) {
        const __mmask16 some = k / group - i >= 16 ? 0xffff : (__mmask16)((1u << (k / group - i)) - 1);
        const __m512i both = _mm512_maskz_loadu_epi32(some, pairs + i);
        const __m512 d = _mm512_castsi512_ps(_mm512_slli_epi32(both, 16)), zero = _mm512_castsi512_ps(_mm512_and_si512(both, _mm512_set1_epi32((int)0xffff0000)));
        _mm512_storeu_ps(scale + i, d);
        _mm512_storeu_ps(shift + i, _mm512_sub_ps(zero, _mm512_mul_ps(_mm512_set1_ps(by), d)));
    }
#else
    _Pragma("omp simd")
    for (int64_t i = 0; i < k / group; i++) {
        scale[i] = td_bits_f32(pairs[i] << 16);
        shift[i] = td_bits_f32(pairs[i] & 0xffff0000) - by * scale[i];
    }
#endif
}
#define INT4(F, GROUP)                                                                                                      \
    enum { OFFSET_##F = 8, RUN_##F = GROUP, SHIFTS_##F = 1, PART_##F = GROUP < 64 ? 64 : GROUP };                           \
    INLINE const uint8_t *part_##F(const uint8_t *row, int64_t k, int64_t from, int64_t n)                                  \
    {                                                                                                                       \
        (void)k, (void)n;                                                                                                   \
        return row + from / GROUP * 4;                                                                                      \
    }                                                                                                                       \
    INLINE const uint8_t *at_##F(const uint8_t *row, int64_t k) { return row + k / GROUP * 4; }                             \
    INLINE codes_32 codes_##F(const uint8_t *row, int64_t k, int64_t g)                                                     \
    {                                                                                                                       \
        const uint8_t *at = at_##F(row, k);                                                                                 \
        return g < k / 128 * 4 ? nibbles_of(at + g / 4 * 64 + g % 2 * 32, g % 4 / 2) : nibbles(bytes_at(at + 16 * g));      \
    }                                                                                                                       \
    INLINE void scales_##F(const uint8_t *row, int64_t k, bool folded, float *scale, float *shift)                          \
    {                                                                                                                       \
        scales_int4(GROUP, row, k, folded, scale, shift);                                                                   \
    }
INT4(int4_g32, 32)
INT4(int4_g64, 64)
INT4(int4_g128, 128)

/* ---- blocks of so many elements, which have their scales */
#define BLOCKS(F, ELEMENTS)                                                                             \
    enum { PART_##F = ELEMENTS < 64 ? 64 : ELEMENTS };                                                   \
    INLINE const uint8_t *part_##F(const uint8_t *row, int64_t k, int64_t from, int64_t n)               \
    {                                                                                                   \
        (void)k, (void)n;                                                                               \
        return row + from / ELEMENTS * BYTES_##F;                                                       \
    }

/* ---- Q4_0: {half scale, 32 codes} */
enum { OFFSET_q4_0 = 8, RUN_q4_0 = 32, SHIFTS_q4_0 = 0, BYTES_q4_0 = 18 };
BLOCKS(q4_0, 32)
INLINE const uint8_t *at_q4_0(const uint8_t *row, int64_t g) { return row + g * BYTES_q4_0 + 2; }
INLINE codes_32 codes_q4_0(const uint8_t *row, int64_t k, int64_t g)
{
    (void)k;
    return nibbles(bytes_at(at_q4_0(row, g)));
}

/* ---- Q8_0: {half scale, 32 signed bytes} */
enum { OFFSET_q8_0 = 128, RUN_q8_0 = 32, SHIFTS_q8_0 = 0, BYTES_q8_0 = 34 };
BLOCKS(q8_0, 32)
INLINE codes_32 codes_q8_0(const uint8_t *row, int64_t k, int64_t g)
{
    (void)k;
    return (codes_32){bytes_at(row + g * BYTES_q8_0 + 2), bytes_at(row + g * BYTES_q8_0 + 18)};
}

/* The halves at the start of 16 blocks, which are words so far apart: picked from registers, since inserting them one by one takes as long
 * as the products. */
#ifdef TD_AVX512
INLINE __m512i words(const uint8_t *at, int i) { return _mm512_loadu_si512(at + 64 * i); }
#define PICKED(a, b, c, d, e, f, g, h)                                                                                                    \
    _mm512_castsi128_si512(_mm_set_epi16(h, g, f, e, d, c, b, a))
INLINE __m256i halves_q4_0(const uint8_t *at)
{
    const __m512i upper = _mm512_castsi256_si512(_mm256_loadu_si256((const __m256i *)(at + 256)));
    const __m512i low = _mm512_permutex2var_epi16(words(at, 0), PICKED(0, 9, 18, 27, 36, 45, 54, 63), words(at, 1));
    const __m512i high = _mm512_permutex2var_epi16(words(at, 2), PICKED(8, 17, 26, 35, 44, 53, 62, 0), words(at, 3));
    const __m512i last = _mm512_mask_permutexvar_epi16(high, 0x80, _mm512_set1_epi16(7), upper);
    return _mm256_set_m128i(_mm512_castsi512_si128(last), _mm512_castsi512_si128(low));
}
INLINE __m256i halves_q8_0(const uint8_t *at)
{
    const __m512i first = PICKED(0, 17, 34, 51, 0, 0, 0, 0), a = _mm512_permutex2var_epi16(words(at, 0), first, words(at, 1));
    const __m512i second = PICKED(0, 0, 0, 0, 4, 21, 38, 55), b = _mm512_permutex2var_epi16(words(at, 2), second, words(at, 3));
    const __m512i third = PICKED(8, 25, 42, 59, 0, 0, 0, 0), c = _mm512_permutex2var_epi16(words(at, 4), third, words(at, 5));
    const __m512i fourth = PICKED(0, 0, 0, 0, 12, 29, 46, 63), d = _mm512_permutex2var_epi16(words(at, 6), fourth, words(at, 7));
    const __m128i low = _mm_blend_epi16(_mm512_castsi512_si128(a), _mm512_castsi512_si128(b), 0xf0);
    return _mm256_set_m128i(_mm_blend_epi16(_mm512_castsi512_si128(c), _mm512_castsi512_si128(d), 0xf0), low);
}
#undef PICKED
#define FLOATS_16(F, at, to) _mm512_storeu_ps(to, _mm512_cvtph_ps(halves_##F(at)))
#else
#define FLOATS_16(F, at, to)                                                  \
    do {                                                                      \
        td_f16 some[16];                                                      \
        for (int i = 0; i < 16; i++)                                          \
            memcpy(&some[i], (at) + i * BYTES_##F, 2);                        \
        floats_of_halves(16, some, to);                                       \
    } while (0)
#endif

#define HALF_SCALES(F)                                                                             \
    INLINE void scales_##F(const uint8_t *row, int64_t k, bool folded, float *scale, float *shift) \
    {                                                                                              \
        (void)folded, (void)shift;                                                                 \
        const int64_t n = k / 32;                                                                  \
        for (int64_t g = 0; n >= 16 && g < n; g += 16) {    /* the last 16, which may overlap */   \
            const int64_t at = g < n - 16 ? g : n - 16;                                            \
            FLOATS_16(F, row + at * BYTES_##F, scale + at);                                        \
        }                                                                                          \
        for (int64_t g = 0; n < 16 && g < n; g++)                                                  \
            scale[g] = half_at(row + g * BYTES_##F);                                               \
    }
HALF_SCALES(q4_0)
HALF_SCALES(q8_0)

/* ---- Q4_K: 256 elements: {half d, half dmin, eight scales and minima of six bits, 4 x 32 bytes}; of each 32 bytes the low
 * nibbles are a run and the high ones the next.  An element is d * scale * code - dmin * minimum. */
enum { OFFSET_q4_k = 0, RUN_q4_k = 32, SHIFTS_q4_k = 1, BYTES_q4_k = 144 };
BLOCKS(q4_k, 256)
INLINE codes_32 codes_q4_k(const uint8_t *row, int64_t k, int64_t g)
{
    (void)k;
    return nibbles_of(row + g / 8 * BYTES_q4_k + 16 + g % 8 / 2 * 32, g % 2);
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
BLOCKS(q6_k, 256)
INLINE codes_16 two_bits(codes_16 from, int j) { return (j == 0 ? from << 4 : j == 1 ? from << 2 : j == 2 ? from : from >> 2) & 0x30; }
INLINE codes_32 codes_q6_k(const uint8_t *row, int64_t k, int64_t g)
{
    (void)k;
    const uint8_t *block = row + g / 8 * BYTES_q6_k;
    const int half = (int)(g % 8 / 4), j = (int)(g % 4);
    const uint8_t *low = block + 64 * half + 32 * (j & 1), *high = block + 128 + 32 * half;
    const codes_32 four = nibbles_of(low, j >> 1);
    return (codes_32){four.first | two_bits(bytes_at(high), j), four.second | two_bits(bytes_at(high + 16), j)};
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
        for (int64_t i = 0; i < n; i++) {
            const uint8_t *sixteen = row + (b + i) * BYTES_q6_k + 192;
#ifdef TD_AVX512
            const __m512 whole = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)sixteen)));
            _mm512_storeu_ps(scale + 16 * (b + i), _mm512_mul_ps(_mm512_set1_ps(d[i]), whole));
#else
            for (int j = 0; j < 16; j++)
                scale[16 * (b + i) + j] = d[i] * (float)(int8_t)sixteen[j];
#endif
        }
    }
}

/* ---- MXFP4: {exponent, 32 floats of four bits}: sign, two bits of exponent, one of mantissa.  Codes are twice their values, plus 12 */
enum { OFFSET_mxfp4 = 12, RUN_mxfp4 = 32, SHIFTS_mxfp4 = 0, BYTES_mxfp4 = 17 };
BLOCKS(mxfp4, 32)
static const uint8_t twice_mxfp4[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};
INLINE const uint8_t *at_mxfp4(const uint8_t *row, int64_t g) { return row + g * BYTES_mxfp4 + 1; }
INLINE codes_32 codes_mxfp4(const uint8_t *row, int64_t k, int64_t g)
{
    (void)k;
    const codes_16 table = bytes_at(twice_mxfp4);
    const codes_32 which = nibbles(bytes_at(at_mxfp4(row, g)));
    return (codes_32){TD_SHUFFLE(table, table, which.first), TD_SHUFFLE(table, table, which.second)};
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
    int64_t g = 0;
#ifdef TD_AVX512
    const __m512i apart = _mm512_mullo_epi32(_mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0), _mm512_set1_epi32(BYTES_mxfp4));
    for (; g + 16 <= k / 32; g += 16) {
        const __m512i bytes = _mm512_i32gather_epi32(apart, row + g * BYTES_mxfp4, 1), e = _mm512_and_si512(bytes, _mm512_set1_epi32(255));
        const __m512i normal = _mm512_slli_epi32(_mm512_sub_epi32(e, _mm512_set1_epi32(1)), 23), two = _mm512_set1_epi32(2);
        const __m512i small = _mm512_set1_epi32(0x200000), up = _mm512_and_si512(e, _mm512_set1_epi32(1));
        const __m512i bits = _mm512_mask_sllv_epi32(normal, _mm512_cmplt_epi32_mask(e, two), small, up);
        const __mmask16 none = _mm512_cmpeq_epi32_mask(e, _mm512_set1_epi32(255));
        _mm512_storeu_si512(scale + g, _mm512_mask_mov_epi32(bits, none, _mm512_set1_epi32(0x7fc00000)));
    }
#endif
    for (; g < k / 32; g++)
        scale[g] = scale_mxfp4(row[g * BYTES_mxfp4]);
}

#define TD_PACKED_EACH(X) \
    X(INT8, int8) X(INT4_G32, int4_g32) X(INT4_G64, int4_g64) X(INT4_G128, int4_g128) X(Q4_0, q4_0) X(Q8_0, q8_0) X(Q4_K, q4_k) \
    X(Q6_K, q6_k) X(MXFP4, mxfp4)

#endif
