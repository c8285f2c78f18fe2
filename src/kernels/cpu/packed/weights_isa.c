/* Products with weights of few bits as torchao passes them, see weights.h; compiled once per instruction-set level.
 *
 * Codes become floats in registers: of 64 rows of int4 those of one column lie side by side, so that a number of x meets 64 sums; of int8
 * a row's do. Scales and zeros enter once for each group: sum (code - 8) scale x + zero x = scale sum code x + (zero - 8 scale) sum x. */
#include "base/base.h"
#define TD_SIMD_INTRINSICS
#include "base/simd.h"
#include "kernels/cpu/isa/vectors.h"
#include "kernels/cpu/packed/weights.h"

enum {
    LANES = VBYTES / 4,
    TOGETHER = VBYTES == 64 ? 4 : 1,            /* rows of x: 32 registers hold their sums */
    HALF = TD_WEIGHTS_BLOCK / 2,
    PARTS = HALF / LANES,
};

/* As many bytes as a vector has floats: from memory, their nibbles, and as floats. (The compilers convert such short vectors one by one.) */
#if defined(TD_AVX512)
typedef __m128i few;
INLINE few load_few(const void *at) { return _mm_loadu_si128(at); }
INLINE vec_f32 floats_of_unsigned(few x) { return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(x)); }
INLINE vec_f32 floats_of_signed(few x) { return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(x)); }
#elif defined(TD_AVX2)
typedef __m128i few;
INLINE few load_few(const void *at) { return _mm_loadl_epi64(at); }
INLINE vec_f32 floats_of_unsigned(few x) { return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(x)); }
INLINE vec_f32 floats_of_signed(few x) { return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(x)); }
#else
typedef uint32_t few;
typedef int32_t vec_i32 __attribute__((vector_size(VBYTES)));
INLINE few load_few(const void *at)
{
    few x = 0;
    for (int i = 0; i < 4; i++)
        x |= (few)((const uint8_t *)at)[i] << 8 * i;
    return x;
}
INLINE vec_f32 floats_of_unsigned(few x)
{
    const vec_i32 whole = {(int)(x & 255), (int)(x >> 8 & 255), (int)(x >> 16 & 255), (int)(x >> 24)};
    return __builtin_convertvector(whole, vec_f32);
}
INLINE vec_f32 floats_of_signed(few x)
{
    const vec_i32 whole = {(int8_t)x, (int8_t)(x >> 8), (int8_t)(x >> 16), (int8_t)(x >> 24)};
    return __builtin_convertvector(whole, vec_f32);
}
#endif
#ifdef TD_AVX2
INLINE few low_nibbles(few x) { return _mm_and_si128(x, _mm_set1_epi8(15)); }
INLINE few high_nibbles(few x) { return _mm_and_si128(_mm_srli_epi16(x, 4), _mm_set1_epi8(15)); }
#else
INLINE few low_nibbles(few x) { return x & 0x0f0f0f0f; }
INLINE few high_nibbles(few x) { return x >> 4 & 0x0f0f0f0f; }
#endif

/* One group of columns for M rows of x and 64 of weights: the first 32 rows' codes are the low nibbles. */
INLINE void int4_group(int M, int64_t group, const float *x, int64_t ldx, const uint8_t *codes, float sums[TOGETHER][TD_WEIGHTS_BLOCK])
{
    vec_f32 low[TOGETHER][PARTS] = {0}, high[TOGETHER][PARTS] = {0};
    for (int64_t k = 0; k < group; k++) {
        _Pragma("GCC unroll 8")
        for (int p = 0; p < PARTS; p++) {
            const few both = load_few(codes + k * HALF + p * LANES);
            const vec_f32 first = floats_of_unsigned(low_nibbles(both)), second = floats_of_unsigned(high_nibbles(both));
            _Pragma("GCC unroll 4")
            for (int i = 0; i < M; i++) {
                const vec_f32 by = x[i * ldx + k] - (vec_f32){0};
                add_product_f32(&low[i][p], first, by);
                add_product_f32(&high[i][p], second, by);
            }
        }
    }
    for (int i = 0; i < M; i++)
        for (int p = 0; p < PARTS; p++) {
            memcpy(sums[i] + p * LANES, &low[i][p], VBYTES);
            memcpy(sums[i] + HALF + p * LANES, &high[i][p], VBYTES);
        }
}

INLINE void int4_rows(int M, int64_t rows, int64_t k, int64_t group, const float *x, const uint8_t *codes, const float *pairs, int64_t step,
                      float *y, int64_t ldy)
{
    float total[TOGETHER][TD_WEIGHTS_BLOCK] = {0}, sums[TOGETHER][TD_WEIGHTS_BLOCK];
    for (int64_t g = 0; g < k / group; g++, pairs += step) {
        const uint8_t *from = codes + g * group * (rows / 2);
        if (rows == TD_WEIGHTS_BLOCK) {
            int4_group(M, group, x + g * group, k, from, sums);
        } else {                /* fewer rows: neighbours share a byte */
            memset(sums, 0, sizeof sums);
            for (int64_t c = 0; c < group; c++)
                for (int i = 0; i < M; i++)
                    for (int64_t j = 0; j < rows / 2; j++) {
                        sums[i][2 * j] += x[i * k + g * group + c] * (float)(from[c * (rows / 2) + j] & 15);
                        sums[i][2 * j + 1] += x[i * k + g * group + c] * (float)(from[c * (rows / 2) + j] >> 4);
                    }
        }
        for (int i = 0; i < M; i++) {
            float all = 0;
            _Pragma("omp simd reduction(+ : all)")
            for (int64_t c = 0; c < group; c++)
                all += x[i * k + g * group + c];
            for (int64_t j = 0; j < rows; j++)
                total[i][j] += pairs[2 * j] * sums[i][j] + (pairs[2 * j + 1] - 8 * pairs[2 * j]) * all;
        }
    }
    for (int i = 0; i < M; i++)
        memcpy(y + i * ldy, total[i], sizeof(float) * (size_t)rows);
}

static void int4(int64_t m, int64_t rows, int64_t k, int64_t group, const float *x, const uint8_t *codes, const float *pairs, int64_t step,
                 float *y, int64_t ldy)
{
    int64_t i = 0;
    for (; i + TOGETHER <= m; i += TOGETHER)
        int4_rows(TOGETHER, rows, k, group, x + i * k, codes, pairs, step, y + i * ldy, ldy);
    for (; i < m; i++)
        int4_rows(1, rows, k, group, x + i * k, codes, pairs, step, y + i * ldy, ldy);
}

/* M rows of x and R of weights */
INLINE void int8_rows(int M, int R, int64_t k, const float *x, const int8_t *w, const float *scales, float *y, int64_t ldy)
{
    vec_f32 sums[4][4] = {0};
    float rest[4][4] = {0};
    int64_t at = 0;
    for (; at + LANES <= k; at += LANES)
        _Pragma("GCC unroll 4")
        for (int r = 0; r < R; r++) {
            const vec_f32 codes = floats_of_signed(load_few(w + r * k + at));
            _Pragma("GCC unroll 4")
            for (int i = 0; i < M; i++)
                add_product_f32(&sums[i][r], codes, *(const vec_f32 *)(x + i * k + at));
        }
    for (; at < k; at++)
        for (int i = 0; i < M; i++)
            for (int r = 0; r < R; r++)
                rest[i][r] += x[i * k + at] * (float)w[r * k + at];
    for (int i = 0; i < M; i++)
        for (int r = 0; r < R; r++) {
            float sum = rest[i][r];
            for (int l = 0; l < LANES; l++)
                sum += sums[i][r][l];
            y[i * ldy + r] = sum * scales[r];
        }
}

static void int8(int64_t m, int64_t rows, int64_t k, const float *x, const int8_t *w, const float *scales, float *y, int64_t ldy)
{
    for (int64_t r = 0; r < rows;) {
        const bool four = r + 4 <= rows;
        int64_t i = 0;
        for (; i + TOGETHER <= m && four; i += TOGETHER)
            int8_rows(TOGETHER, 4, k, x + i * k, w + r * k, scales + r, y + i * ldy + r, ldy);
        for (; i < m; i++)
            if (four)
                int8_rows(1, 4, k, x + i * k, w + r * k, scales + r, y + i * ldy + r, ldy);
            else
                int8_rows(1, 1, k, x + i * k, w + r * k, scales + r, y + i * ldy + r, ldy);
        r += four ? 4 : 1;
    }
}

/* The range, which contains 0, becomes -128 ... 127; the zero point is rounded from the end that is nearer to its code. */
static float quantize(int64_t k, const float *x, int16_t *q)
{
    float least = 0, most = 0, odd = 0;
    _Pragma("omp simd reduction(max : most) reduction(min : least) reduction(+ : odd)")
    for (int64_t i = 0; i < k; i++) {
        most = x[i] > most ? x[i] : most;
        least = x[i] < least ? x[i] : least;
        odd += x[i] * 0;
    }
    if (odd != 0) {             /* something that isn't finite shows in the result */
        memset(q, 0, sizeof *q * (size_t)k);
        return odd;
    }
    const float scale = least == most ? 1 : 255 / (most - least), low = least * scale, high = most * scale;
    const float point = (-128 + low) + (127 + high) > 0 ? -128 - low : 127 - high;
    const int zero = (int)__builtin_rintf(point < -128 ? -128 : point > 127 ? 127 : point);
    for (int64_t i = 0; i < k; i++) {
        const int code = (int)__builtin_roundf(x[i] * scale) + zero;
        q[i % 2 * (k / 2) + i / 2] = (int16_t)((code < -128 ? -128 : code > 127 ? 127 : code) - zero);
    }
    return scale != 0 ? 1 / scale : 0;
}

static void dynamic(int64_t m, int64_t k, int64_t group, const int16_t *q, const float *by, const uint8_t *codes, const float *scales,
                    float bias, float *y, int64_t ldy)
{
    for (int64_t i = 0; i < m; i++) {
        const int16_t *even = q + i * k, *odd = even + k / 2;
        float total = 0;
        for (int64_t g = 0; g < k / group; g++) {
            int32_t sum = 0;
            _Pragma("omp simd reduction(+ : sum)")
            for (int64_t j = g * (group / 2); j < (g + 1) * (group / 2); j++)
                sum += (int32_t)(int16_t)((codes[j] & 15) - 8) * even[j] + (int32_t)(int16_t)((codes[j] >> 4) - 8) * odd[j];
            total += scales[g] * (float)sum;
        }
        y[i * ldy] = total * by[i] + bias;
    }
}

extern const td_weights_table TD_ISA_NAME(td_weights_table);
const td_weights_table TD_ISA_NAME(td_weights_table) = {.int4 = int4, .int8 = int8, .quantize = quantize, .dynamic = dynamic};
