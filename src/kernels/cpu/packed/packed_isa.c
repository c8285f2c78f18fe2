/* Kernels of packed weights, by what formats.h says of each format; compiled once per instruction-set level.
 *
 * A product of a few rows is bounded by reading the weights, so what is around the dot product of bytes must stay below the time of
 * a cache line: scales of four rows are converted first, many at a time, which also brings the rows into the first cache; the inner loop
 * then broadcasts them from there. */
#include "base/base.h"
#define TD_SIMD_INTRINSICS
#include "base/simd.h"
#include "kernels/cpu/packed/formats.h"
#include "kernels/cpu/packed/packed.h"

/* ---- activations */

static void quantize(int64_t k, const float *x, int run, td_packed_x to)
{
    const int64_t padded = td_packed_padded(k);
    float group[32];
    for (int64_t at = 0; at < padded; at += 32) {
        const float *from = x + at;
        if (at + 32 > k) {
            for (int i = 0; i < 32; i++)
                group[i] = at + i < k ? x[at + i] : 0;
            from = group;
        }
        /* What isn't finite makes the scale NaN, and with it the result. */
        float most = 0, odd = 0;
        _Pragma("omp simd reduction(max : most) reduction(+ : odd)")
        for (int i = 0; i < 32; i++) {
            const float size = __builtin_fabsf(from[i]);
            most = size > most ? size : most;
            odd += from[i] * 0;
        }
        const float scale = most / 127 + odd, inverse = most > 1e-30f && odd == 0 ? 127 / most : 0;
        int8_t *q = to.q + at;
        for (int i = 0; i < 32; i++)
            q[i] = (int8_t)(int)__builtin_rintf(odd == 0 ? from[i] * inverse : 0);
        for (int i = 0; i < 8; i++)
            to.lanes[at / 4 + i] = scale;
        const int each = run < 32 ? run : 32;
        for (int i = 0; i < 32; i += each) {
            int sum = 0;
            for (int l = i; l < i + each; l++)
                sum += q[l];
            to.scale[(at + i) / run] = scale;
            to.sums[(at + i) / run] = (float)sum * scale + ((at + i) % run ? to.sums[(at + i) / run] : 0);
        }
    }
}

/* ---- for all formats alike, with what differs as constants: these are expanded for each */

typedef codes_32 td_codes(const uint8_t *row, int64_t k, int64_t g);
typedef void td_scales(const uint8_t *row, int64_t k, bool folded, float *scale, float *shift);

/* Codes without a sign, also of formats whose codes are given with one. */
INLINE codes_32 unsigned_of(int offset, codes_32 codes)
{
    const uint8_t flip = offset == 128 ? 0x80 : 0;
    return (codes_32){codes.first ^ flip, codes.second ^ flip};
}

INLINE void unpack_group(td_codes *codes, int offset, int run, bool shifts, const uint8_t *row, int64_t k, int64_t g, const float *scale,
                         const float *shift, float *to)
{
    const codes_32 all = unsigned_of(offset, codes(row, k, g));
    uint8_t code[32];
    memcpy(code, &all, 32);
    for (int from = 0; from < 32; from += run) {
        const float d = scale[from / run], zero = shifts ? shift[from / run] : 0;
        for (int i = from; i < from + run && i < 32; i++)
            to[i] = shifts ? d * (float)((int)code[i] - offset) + zero : d * (float)((int)code[i] - offset);
    }
}

/* What shifts, or the codes' offset, add to the product of a row: a number for each of n runs. */
INLINE float of_shifts(int offset, bool shifts, int64_t n, const float *scale, const float *shift, const float *sums)
{
    float total = 0;
    const float *by = shifts ? shift : scale;
    _Pragma("omp simd reduction(+ : total)")
    for (int64_t i = 0; i < n; i++)
        total += by[i] * sums[i];
    return shifts ? total : -(float)offset * total;
}

/* Sums of products of bytes, for processors without an instruction for that: bytes are multiplied and added in pairs, which 16 bits hold
 * as long as codes have no sign and at most seven bits, or the sizes of signed ones meet what takes over their signs.  A vector has the
 * sums of four neighbours each, or of eight that are two apart; the first half belongs to the first run of 16. */
#if defined(TD_AVX2)
typedef __m256 sums_32;
INLINE sums_32 no_sums(void) { return _mm256_setzero_ps(); }
INLINE float total(sums_32 x)
{
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1)), two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
/* sum += scale * x's scale * codes times q */
INLINE void add_32(int offset, int run, codes_32 codes, const float *scale, const int8_t *q, const float *lanes, sums_32 *sum)
{
    __m256i u = _mm256_set_m128i((__m128i)codes.second, (__m128i)codes.first), s = _mm256_loadu_si256((const __m256i *)q);
    if (offset == 128)
        s = _mm256_sign_epi8(s, u), u = _mm256_abs_epi8(u);
    const __m256 dots = _mm256_cvtepi32_ps(_mm256_madd_epi16(_mm256_maddubs_epi16(u, s), _mm256_set1_epi16(1)));
    const __m256 d = run >= 32 ? _mm256_set1_ps(scale[0]) : _mm256_set_m128(_mm_set1_ps(scale[1]), _mm_set1_ps(scale[0]));
    *sum = _mm256_fmadd_ps(_mm256_mul_ps(d, _mm256_loadu_ps(lanes)), dots, *sum);
}
#else
typedef float sums_32 __attribute__((vector_size(16)));
typedef int32_t whole_4 __attribute__((vector_size(16)));
INLINE sums_32 no_sums(void) { return (sums_32){0}; }
INLINE float total(sums_32 x) { return (x[0] + x[2]) + (x[1] + x[3]); }
INLINE whole_4 dots_16(int offset, codes_16 codes, const int8_t *q)
{
#if defined(TD_SSSE3)
    __m128i u = (__m128i)codes, s = _mm_loadu_si128((const __m128i *)q);
    if (offset == 128)
        s = _mm_sign_epi8(s, u), u = _mm_abs_epi8(u);
    return (whole_4)_mm_madd_epi16(_mm_maddubs_epi16(u, s), _mm_set1_epi16(1));
#elif defined(TD_ARM_VECTORS)
    const int8x16_t u = (int8x16_t)codes, s = vld1q_s8(q);
    const int16x8_t products = vmull_s8(vget_low_s8(u), vget_low_s8(s));
    (void)offset;
    return (whole_4)vpaddlq_s16(vmlal_s8(products, vget_high_s8(u), vget_high_s8(s)));
#else
    whole_4 sums = {0};
    (void)offset;
    for (int i = 0; i < 16; i++)
        sums[i / 4] += (int8_t)codes[i] * q[i];
    return sums;
#endif
}
INLINE void add_32(int offset, int run, codes_32 codes, const float *scale, const int8_t *q, const float *lanes, sums_32 *sum)
{
    const whole_4 first = dots_16(offset, codes.first, q), second = dots_16(offset, codes.second, q + 16);
    if (run >= 32)
        *sum += scale[0] * lanes[0] * __builtin_convertvector(first + second, sums_32);
    else
        *sum += lanes[0] * (scale[0] * __builtin_convertvector(first, sums_32) + scale[1] * __builtin_convertvector(second, sums_32));
}
#endif

/* R rows of weights, of which `rows` are there, and M of x. */
INLINE void tile_32(int R, int M, td_codes *codes, int offset, int run, bool shifts, int rows, const uint8_t *w, int64_t row_bytes, int64_t apart, int64_t k,
                    const td_packed_x *x, const float *scales, int64_t step, float *y, int64_t ldy)
{
    sums_32 sums[4][4];
    const uint8_t *row[4];
    const int64_t groups = (k + 31) / 32, bytes = row_bytes / groups, next = apart == row_bytes ? R * row_bytes : row_bytes;
    for (int r = 0; r < R; r++) {
        row[r] = w + (r < rows ? r : rows - 1) * apart;
        for (int j = 0; j < M; j++)
            sums[r][j] = no_sums();
    }
    for (int64_t g = 0; g < groups; g++) {
        _Pragma("GCC unroll 4")
        for (int r = 0; r < R; r++) {
            if (M == 1)                     /* of the rows that come next, as below */
                __builtin_prefetch(row[r] + next + g * bytes);
            const codes_32 c = codes(row[r], k, g);
            _Pragma("GCC unroll 4")
            for (int j = 0; j < M; j++)
                add_32(offset, run, c, scales + 2 * r * step + 32 * g / run, x[j].q + 32 * g, x[j].lanes + 8 * g, &sums[r][j]);
        }
    }
    for (int r = 0; r < R && r < rows; r++)
        for (int j = 0; j < M; j++) {
            const float *scale = scales + 2 * r * step;
            y[j * ldy + r] = total(sums[r][j]);
            if (offset != 128)
                y[j * ldy + r] += of_shifts(offset, shifts, (k + run - 1) / run, scale, scale + step, x[j].sums);
        }
}

/* Without dot products of bytes. */
INLINE void dot_pairs(td_codes *codes, td_scales *scales, int offset, int run, bool shifts, int rows, const uint8_t *w, int64_t row_bytes,
                      int64_t apart, int64_t k, int64_t m, const td_packed_x *x, float *scratch, float *y, int64_t ldy)
{
    const int64_t step = td_packed_padded(k) / 16;
    for (int r = 0; r < TD_PACKED_ROWS; r++)
        scales(w + (r < rows ? r : rows - 1) * apart, k, true, scratch + 2 * r * step, scratch + (2 * r + 1) * step);
    int64_t i = 0;
    for (; i + 4 <= m; i += 4)
        for (int r = 0; r < rows; r++)
            tile_32(1, 4, codes, offset, run, shifts, 1, w + r * apart, row_bytes, apart, k, x + i, scratch + 2 * r * step, step,
                    y + i * ldy + r, ldy);
    for (; i < m; i++)
        tile_32(4, 1, codes, offset, run, shifts, rows, w, row_bytes, apart, k, x + i, scratch, step, y + i * ldy, ldy);
}

#ifdef TD_AVX512
/* sums += the dot products of four bytes without a sign and four with one */
INLINE __m512i dot4(__m512i sums, __m512i u, __m512i s)
{
    __asm__("vpdpbusd %2, %1, %0" : "+v"(sums) : "v"(u), "vm"(s));
    return sums;
}

/* 64 codes from two groups of 16 bytes, whose low nibbles come first. */
INLINE __m512i nibbles_64(const uint8_t *first, const uint8_t *second)
{
    const __m512i low = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)first));
    const __m512i both = _mm512_mask_broadcast_i32x4(low, 0xff00, _mm_loadu_si128((const __m128i *)second));
    const __m512i down = _mm512_set_epi64(0x0004000400040004, 0x0004000400040004, 0, 0, 0x0004000400040004, 0x0004000400040004, 0, 0);
    return _mm512_and_si512(_mm512_srlv_epi16(both, down), _mm512_set1_epi8(15));
}
INLINE __m512i two_halves(const uint8_t *first, const uint8_t *second)
{
    return _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_loadu_si256((const __m256i *)first)),
                              _mm256_loadu_si256((const __m256i *)second), 1);
}

/* codes_F of groups 2 i and 2 i + 1 with i = 4 b + c; c is constant in the loop that matters, b counts blocks of 256, and `rest` is
 * whether it is the last block, which isn't a whole one */
INLINE __m512i wide_int8(const uint8_t *row, int64_t k, int64_t b, int c, bool rest)
{
    (void)k, (void)rest;
    return _mm512_xor_si512(_mm512_loadu_si512(row + 256 * b + 64 * c), _mm512_set1_epi8(-128));
}
#define WIDE_INT4(F)                                                                                        \
    INLINE __m512i wide_##F(const uint8_t *row, int64_t k, int64_t b, int c, bool rest)                     \
    {                                                                                                       \
        const uint8_t *at = at_##F(row, k) + 128 * b;                                                       \
        if (rest && 256 * b + 64 * c >= k / 128 * 128)                                                      \
            return nibbles_64(at + 32 * c, at + 32 * c + 16);                                               \
        const __m512i both = _mm512_loadu_si512(at + c / 2 * 64);                                           \
        return _mm512_and_si512(c % 2 ? _mm512_srli_epi16(both, 4) : both, _mm512_set1_epi8(15));           \
    }
WIDE_INT4(int4_g32)
WIDE_INT4(int4_g64)
WIDE_INT4(int4_g128)
INLINE __m512i wide_q4_0(const uint8_t *row, int64_t k, int64_t b, int c, bool rest)
{
    (void)k, (void)rest;
    const uint8_t *at = at_q4_0(row, 8 * b) + 2 * c * BYTES_q4_0;
    return nibbles_64(at, at + BYTES_q4_0);
}
INLINE __m512i wide_q8_0(const uint8_t *row, int64_t k, int64_t b, int c, bool rest)
{
    (void)k, (void)rest;
    const uint8_t *at = row + 8 * b * BYTES_q8_0 + 2 * c * BYTES_q8_0 + 2;
    return _mm512_xor_si512(two_halves(at, at + BYTES_q8_0), _mm512_set1_epi8(-128));
}
INLINE __m512i wide_q4_k(const uint8_t *row, int64_t k, int64_t b, int c, bool rest)
{
    (void)k, (void)rest;
    const __m256i both = _mm256_loadu_si256((const __m256i *)(row + b * BYTES_q4_k + 16 + c * 32));
    const __m512i apart = _mm512_inserti64x4(_mm512_castsi256_si512(both), _mm256_srli_epi16(both, 4), 1);
    return _mm512_and_si512(apart, _mm512_set1_epi8(15));
}
INLINE __m512i wide_q6_k(const uint8_t *row, int64_t k, int64_t b, int c, bool rest)
{
    (void)k, (void)rest;
    const uint8_t *block = row + b * BYTES_q6_k;
    const int half = c / 2, upper = c % 2;
    const __m512i both = _mm512_loadu_si512(block + 64 * half), low = upper ? _mm512_srli_epi16(both, 4) : both;
    const __m512i high = _mm512_broadcast_i64x4(_mm256_loadu_si256((const __m256i *)(block + 128 + 32 * half)));
    /* the two bits of the first 32 are lowest, or fifth; those of the others are next to them: all go to bits 4 and 5 */
    const __m512i by = _mm512_inserti64x4(_mm512_set1_epi16(upper ? 0 : 4), _mm256_set1_epi16(2), 1);
    const __m512i two = _mm512_and_si512(upper ? _mm512_srlv_epi16(high, by) : _mm512_sllv_epi16(high, by), _mm512_set1_epi8(0x30));
    return _mm512_ternarylogic_epi32(low, _mm512_set1_epi8(15), two, 0xea);         /* low & 15 | two */
}
INLINE __m512i wide_mxfp4(const uint8_t *row, int64_t k, int64_t b, int c, bool rest)
{
    (void)k, (void)rest;
    const __m512i table = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)twice_mxfp4));
    return _mm512_shuffle_epi8(table, nibbles_64(at_mxfp4(row, 8 * b + 2 * c), at_mxfp4(row, 8 * b + 2 * c + 1)));
}

/* The scales of 64 neighbours, one for every four. */
INLINE __m512 spread(int run, const float *scale)
{
    if (run >= 64)
        return _mm512_set1_ps(scale[0]);
    if (run == 32)
        return _mm512_mask_broadcastss_ps(_mm512_set1_ps(scale[0]), 0xff00, _mm_load_ss(scale + 1));
    const __m512i which = _mm512_set_epi32(3, 3, 3, 3, 2, 2, 2, 2, 1, 1, 1, 1, 0, 0, 0, 0);
    return _mm512_permutevar_ps(_mm512_broadcast_f32x4(_mm_loadu_ps(scale)), which);
}

INLINE __m512 dots_64(__m512i codes, const int8_t *q) { return _mm512_cvtepi32_ps(dot4(_mm512_setzero_si512(), codes, _mm512_loadu_si512(q))); }

/* Whether the scales of a single row of x are multiplied into those of weights first: where each is for less than a vector. */
#define TOGETHER(M, run) ((M) == 1 && (run) < 64)

/* One step of 64 columns, for one row of weights and M of x. */
INLINE void step_512(int M, int run, __m512i codes, const float *scale, int64_t i, const td_packed_x *x, __m512 *sums)
{
    const __m512 d = spread(run, scale);
    for (int j = 0; j < M; j++) {
        const __m512 dots = dots_64(codes, x[j].q + 64 * i);
        sums[j] = _mm512_fmadd_ps(d, TOGETHER(M, run) ? dots : _mm512_mul_ps(dots, _mm512_loadu_ps(x[j].lanes + 16 * i)), sums[j]);
    }
}
/* Two of them of one scale, which is multiplied in once. */
INLINE void steps_512(int M, __m512i first, __m512i second, const float *scale, int64_t i, const td_packed_x *x, __m512 *sums)
{
    const __m512 d = _mm512_set1_ps(scale[0]);
    for (int j = 0; j < M; j++) {
        const __m512 part = _mm512_mul_ps(dots_64(first, x[j].q + 64 * i), _mm512_loadu_ps(x[j].lanes + 16 * i));
        sums[j] = _mm512_fmadd_ps(d, _mm512_fmadd_ps(dots_64(second, x[j].q + 64 * i + 64), _mm512_loadu_ps(x[j].lanes + 16 * i + 16), part), sums[j]);
    }
}

/* The sums of four vectors. */
INLINE __m128 totals_512(__m512 a, __m512 b, __m512 c, __m512 d)
{
    const __m512 ab = _mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
    const __m512 cd = _mm512_add_ps(_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));
    const __m512d low = _mm512_unpacklo_pd(_mm512_castps_pd(ab), _mm512_castps_pd(cd)), high = _mm512_unpackhi_pd(_mm512_castps_pd(ab), _mm512_castps_pd(cd));
    const __m512 all = _mm512_add_ps(_mm512_castpd_ps(low), _mm512_castpd_ps(high));
    const __m256 two = _mm256_add_ps(_mm512_castps512_ps256(all), _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(all), 1)));
    return _mm_add_ps(_mm256_castps256_ps128(two), _mm256_extractf128_ps(two, 1));
}

enum { AHEAD = 6 << 10 };       /* bytes from a row to those that are fetched meanwhile, at least: short rows pass sooner than memory answers */

typedef __m512i td_wide(const uint8_t *row, int64_t k, int64_t b, int c, bool rest);

INLINE void tile_512(int M, td_codes *codes, td_wide *wide, int offset, int run, bool shifts, int rows, const uint8_t *w, int64_t row_bytes,
                     int64_t apart, int64_t k, const td_packed_x *x, float *scales, int64_t step, float *y, int64_t ldy)
{
    enum { R = TD_PACKED_ROWS };
    __m512 sums[R][4];
    const uint8_t *row[R];
    const int64_t whole = k / 64, runs = (k + run - 1) / run;
    for (int r = 0; r < R; r++) {           /* rows that aren't there are the last one again */
        row[r] = w + (r < rows ? r : rows - 1) * apart;
        float *scale = scales + 2 * r * step;
        for (int j = 0; j < M; j++)
            sums[r][j] = _mm512_setzero_ps();
        for (int64_t i = 0; i < runs; i += 16) {
            const __mmask16 some = runs - i >= 16 ? 0xffff : (__mmask16)((1u << (runs - i)) - 1);
            const __m512 d = _mm512_maskz_loadu_ps(some, scale + i);
            const __m512 by = shifts ? _mm512_maskz_loadu_ps(some, scale + step + i) : _mm512_mul_ps(d, _mm512_set1_ps(-(float)offset));
            for (int j = 0; j < M; j++)
                sums[r][j] = _mm512_fmadd_ps(by, _mm512_maskz_loadu_ps(some, x[j].sums + i), sums[r][j]);
            if (TOGETHER(M, run)) {         /* what is stored by a mask can't be read again before it has reached the cache */
                const __m512 both = _mm512_mul_ps(d, _mm512_maskz_loadu_ps(some, x[0].scale + i));
                if (step >= 16)
                    _mm512_storeu_ps(scale + i, both);
                else
                    _mm512_mask_storeu_ps(scale + i, some, both);
            }
        }
    }
    /* The next rows are fetched meanwhile: the processor's own prefetching begins anew at each page, which is a row or two. */
    const bool together = apart == row_bytes;
    const int64_t bytes = whole >= 4 ? row_bytes / (whole / 4) : 0, tile = together ? R * row_bytes : row_bytes, least = together ? AHEAD : AHEAD / R;
    const int64_t ahead = tile ? (least + tile - 1) / tile * tile : 0;
    for (int64_t b = 0; b < whole / 4; b++) {
        const int64_t next = ahead + b * bytes;
        _Pragma("GCC unroll 2")
        for (int c = 0; c < 4; c += 2) {
            _Pragma("GCC unroll 4")
            for (int r = 0; r < R; r++) {
                const float *scale = scales + 2 * r * step + (256 * b + 64 * c) / run;
                const __m512i first = wide(row[r], k, b, c, false), second = wide(row[r], k, b, c + 1, false);
                _mm_prefetch((const char *)row[r] + next + bytes / 4 * c, _MM_HINT_T0);
                _mm_prefetch((const char *)row[r] + next + bytes / 4 * (c + 1), _MM_HINT_T0);
                if (run == 128) {
                    steps_512(M, first, second, scale, 4 * b + c, x, sums[r]);
                    continue;
                }
                step_512(M, run, first, scale, 4 * b + c, x, sums[r]);
                step_512(M, run, second, scale + 64 / run, 4 * b + c + 1, x, sums[r]);
            }
        }
    }
    for (int64_t i = whole / 4 * 4; i < whole; i++)
        for (int r = 0; r < R; r++)
            step_512(M, run, wide(row[r], k, i / 4, (int)(i % 4), true), scales + 2 * r * step + 64 * i / run, i, x, sums[r]);
    if (k % 64) {                           /* a group of 32, or of int8 any number in whole ones */
        _Alignas(64) uint8_t last[64] = {0};
        for (int r = 0; r < R; r++) {
            const float *scale = scales + 2 * r * step + 64 * whole / run;
            float d[4] = {0};
            const int groups = (int)((k % 64 + 31) / 32);
            for (int g = 0; g < groups; g++) {
                const codes_32 c = unsigned_of(offset, codes(row[r], k, 2 * whole + g));
                memcpy(last + 32 * g, &c, 32);
            }
            for (int g = 0; g < (32 * groups + run - 1) / run; g++)
                d[g] = scale[g];
            step_512(M, run, _mm512_load_si512(last), d, whole, x, sums[r]);
        }
    }
    for (int j = 0; j < M; j++) {
        const __m128 all = totals_512(sums[0][j], sums[1][j], sums[2][j], sums[3][j]);
        _mm_mask_storeu_ps(y + j * ldy, (__mmask8)((1 << rows) - 1), all);
    }
}

/* A single row of x comes last, since it changes the scales. */
#define BYTES_KERNEL(F)                                                                                                            \
    static void dot_bytes_##F(int rows, const uint8_t *w, int64_t row_bytes, int64_t apart, int64_t k, int64_t m, const td_packed_x *x, \
                              float *scratch, float *y, int64_t ldy)                                                               \
    {                                                                                                                              \
        const int64_t step = td_packed_padded(k) / 16;                                                                             \
        for (int r = 0; r < TD_PACKED_ROWS; r++)                                                                                   \
            scales_##F(w + (r < rows ? r : rows - 1) * apart, k, true, scratch + 2 * r * step, scratch + (2 * r + 1) * step);  \
        int64_t i = 0;                                                                                                             \
        for (; i + 4 <= m; i += 4)                                                                                                 \
            tile_512(4, codes_##F, wide_##F, OFFSET_##F, RUN_##F, SHIFTS_##F, rows, w, row_bytes, apart, k, x + i, scratch, step,  \
                     y + i * ldy, ldy);                                                                                            \
        if (i + 2 <= m) {                                                                                                          \
            tile_512(2, codes_##F, wide_##F, OFFSET_##F, RUN_##F, SHIFTS_##F, rows, w, row_bytes, apart, k, x + i, scratch, step,  \
                     y + i * ldy, ldy);                                                                                            \
            i += 2;                                                                                                                \
        }                                                                                                                          \
        if (i < m)                                                                                                                 \
            tile_512(1, codes_##F, wide_##F, OFFSET_##F, RUN_##F, SHIFTS_##F, rows, w, row_bytes, apart, k, x + i, scratch, step,  \
                     y + i * ldy, ldy);                                                                                            \
    }
#else
#define BYTES_KERNEL(F)
#endif

#ifdef TD_AVX512
enum { FLOATS, BRAINS, BRAINS_FAST };       /* what is unpacked; the last by the processor's conversion, which takes subnormal numbers for zeros */

INLINE __m256i brains_16(int kind, __m512 x)
{
    if (kind == BRAINS_FAST) {
        __m256i y;
        __asm__("vcvtneps2bf16 %1, %0" : "=v"(y) : "v"(x));
        return y;
    }
    const __m512i bits = _mm512_castps_si512(x), odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i nearest = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
    const __m512i kept = _mm512_mask_mov_epi32(nearest, _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), _mm512_set1_epi32(0x7fc00000));
    return _mm512_cvtepi32_epi16(_mm512_srli_epi32(kept, 16));
}
/* Of two vectors, as the last kind has it. */
INLINE __m512i brains_32(__m512 low, __m512 high)
{
    __m512i y;
    __asm__("vcvtne2ps2bf16 %1, %2, %0" : "=v"(y) : "v"(low), "v"(high));
    return y;
}
INLINE __m512 elements(int offset, bool shifts, __m512i whole, float scale, float shift)
{
    const __m512 x = _mm512_mul_ps(_mm512_set1_ps(scale), _mm512_cvtepi32_ps(_mm512_sub_epi32(whole, _mm512_set1_epi32(offset))));
    return shifts ? _mm512_add_ps(x, _mm512_set1_ps(shift)) : x;
}

/* Unpacks 64 elements from codes_F's bytes. Where a run has more of them than there are codes, it has a table of what each stands for. */
INLINE void unpack_64(int kind, int offset, int run, bool shifts, __m512i codes, const float *scale, const float *shift, char *to)
{
    if (kind != FLOATS && run >= 32 && offset < 32) {
        const __m512i low = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0), high = _mm512_add_epi32(low, _mm512_set1_epi32(16));
        __m512i table = _mm512_setzero_si512();
        _Pragma("GCC unroll 2")
        for (int p = 0; p < 2; p++) {
            if (p == 0 || run < 64) {
                const float d = scale[32 * p / run], zero = shifts ? shift[32 * p / run] : 0;
                table = _mm512_castsi256_si512(brains_16(kind, elements(offset, shifts, low, d, zero)));
                if (offset > 8)             /* codes of five bits */
                    table = _mm512_inserti64x4(table, brains_16(kind, elements(offset, shifts, high, d, zero)), 1);
            }
            const __m256i half = p ? _mm512_extracti64x4_epi64(codes, 1) : _mm512_castsi512_si256(codes);
            _mm512_storeu_si512(to + 64 * p, _mm512_permutexvar_epi16(_mm512_cvtepu8_epi16(half), table));
        }
        return;
    }
    _Alignas(64) uint8_t bytes[64];
    if (kind == BRAINS_FAST && !shifts) {       /* less their offset, codes are bytes with a sign */
        _mm512_store_si512(bytes, _mm512_sub_epi8(codes, _mm512_set1_epi8((char)offset)));
        _Pragma("GCC unroll 2")
        for (int p = 0; p < 2; p++) {
            const __m512 d = _mm512_set1_ps(scale[32 * p / run]), e = _mm512_set1_ps(scale[(32 * p + 16) / run]);
            const __m512i low = _mm512_cvtepi8_epi32(_mm_load_si128((const __m128i *)(bytes + 32 * p)));
            const __m512i high = _mm512_cvtepi8_epi32(_mm_load_si128((const __m128i *)(bytes + 32 * p + 16)));
            _mm512_storeu_si512(to + 64 * p, brains_32(_mm512_mul_ps(d, _mm512_cvtepi32_ps(low)), _mm512_mul_ps(e, _mm512_cvtepi32_ps(high))));
        }
        return;
    }
    _mm512_store_si512(bytes, codes);
    _Pragma("GCC unroll 4")
    for (int p = 0; p < 4; p++) {
        const __m512i whole = _mm512_cvtepu8_epi32(_mm_load_si128((const __m128i *)(bytes + 16 * p)));
        const __m512 x = elements(offset, shifts, whole, scale[16 * p / run], shifts ? shift[16 * p / run] : 0);
        if (kind == FLOATS)
            _mm512_storeu_ps(to + 64 * p, x);
        else
            _mm256_storeu_si256((__m256i *)(to + 32 * p), brains_16(kind, x));
    }
}
/* Elements [from, end), `from` a multiple of 64, of which scale and shift begin with the first. Returns up to where it has unpacked. */
INLINE int64_t unpack_wide(td_wide *wide, int offset, int run, bool shifts, const uint8_t *row, int64_t k, int64_t from, int64_t end,
                           const float *scale, const float *shift, int kind, void *to)
{
    const int64_t last = from + (end - from) / 64 * 64;
    for (int64_t at = from; at < last; at += 64)
        unpack_64(kind, offset, run, shifts, wide(row, k, at / 256, (int)(at / 64 % 4), true), scale + (at - from) / run, shift + (at - from) / run,
                  (char *)to + (kind == FLOATS ? 4 : 2) * (at - from));
    return last;
}
#define WIDE_OF(F) wide_##F
#else
enum { FLOATS, BRAINS };
typedef void td_wide(void);
INLINE int64_t unpack_wide(td_wide *wide, int offset, int run, bool shifts, const uint8_t *row, int64_t k, int64_t from, int64_t end,
                           const float *scale, const float *shift, int kind, void *to)
{
    (void)wide, (void)offset, (void)run, (void)shifts, (void)row, (void)k, (void)end, (void)scale, (void)shift, (void)kind, (void)to;
    return from;
}
#define WIDE_OF(F) NULL
#endif

typedef const uint8_t *td_part(const uint8_t *row, int64_t k, int64_t from, int64_t n);

INLINE void unpack(td_codes *codes, td_scales *scales, td_part *part, td_wide *wide, int offset, int run, bool shifts, const uint8_t *row, int64_t k,
                   int64_t from, int64_t end, float *scratch, int kind, void *to)
{
    float *shift = scratch + td_packed_padded(end - from) / 16, group[32];
    scales(part(row, k, from, end - from), end - from, false, scratch, shift);
    for (int64_t at = unpack_wide(wide, offset, run, shifts, row, k, from, end, scratch, shift, kind, to); at < end; at += 32) {
        const int64_t n = end - at < 32 ? end - at : 32, done = at - from;
        unpack_group(codes, offset, run, shifts, row, k, at / 32, scratch + done / run, shift + done / run, group);
        if (kind == FLOATS)
            memcpy((float *)to + done, group, sizeof(float) * (size_t)n);
        for (int64_t i = 0; kind != FLOATS && i < n; i++)
            ((uint16_t *)to)[done + i] = td_f32_to_bf16(group[i]);
    }
}

#define KERNELS(NUMBER, F)                                                                                                         \
    static void unpack_f32_##F(const uint8_t *row, int64_t k, float *scratch, float *to)                                           \
    {                                                                                                                              \
        unpack(codes_##F, scales_##F, part_##F, WIDE_OF(F), OFFSET_##F, RUN_##F, SHIFTS_##F, row, k, 0, k, scratch, FLOATS, to);   \
    }                                                                                                                              \
    static void unpack_bf16_##F(const uint8_t *row, int64_t k, float *scratch, uint16_t *to)                                       \
    {                                                                                                                              \
        unpack(codes_##F, scales_##F, part_##F, WIDE_OF(F), OFFSET_##F, RUN_##F, SHIFTS_##F, row, k, 0, k, scratch, BRAINS, to);   \
    }                                                                                                                              \
    static void dot_##F(int rows, const uint8_t *w, int64_t row_bytes, int64_t apart, int64_t k, int64_t m, const td_packed_x *x, float *scratch, \
                        float *y, int64_t ldy)                                                                                     \
    {                                                                                                                              \
        dot_pairs(codes_##F, scales_##F, OFFSET_##F, RUN_##F, SHIFTS_##F, rows, w, row_bytes, apart, k, m, x, scratch, y, ldy);    \
    }                                                                                                                              \
    BYTES_KERNEL(F)
TD_PACKED_EACH(KERNELS)

#ifdef TD_AVX512
#define FAST_KERNEL(NUMBER, F)                                                                                                     \
    static void unpack_fast_##F(const uint8_t *row, int64_t k, int64_t from, int64_t end, float *scratch, uint16_t *to)            \
    {                                                                                                                              \
        unpack(codes_##F, scales_##F, part_##F, WIDE_OF(F), OFFSET_##F, RUN_##F, SHIFTS_##F, row, k, from, end, scratch, BRAINS_FAST, to); \
    }
TD_PACKED_EACH(FAST_KERNEL)
#define OTHERS_OF(F) dot_bytes_##F, unpack_fast_##F, PART_##F
#else
#define OTHERS_OF(F) NULL, NULL, PART_##F
#endif

#define ROW(NUMBER, F)                                                                                       \
    [TD_PACKED_##NUMBER] = {RUN_##F, unpack_f32_##F, unpack_bf16_##F, dot_##F, OTHERS_OF(F)},
extern const td_packed_table TD_ISA_NAME(td_packed_table);
const td_packed_table TD_ISA_NAME(td_packed_table) = {.quantize = quantize, .formats = {TD_PACKED_EACH(ROW)}};
