/* Products of bytes, see bytes.h; compiled once per instruction-set level.  Sums are exact, so all levels give the same bits. */
#include "base/base.h"
#define TD_SIMD_INTRINSICS
#include "base/simd.h"
#include "kernels/cpu/isa/vectors.h"
#include "kernels/cpu/packed/bytes.h"

enum { PANEL = TD_BYTES_PANEL };

static void dots(int rows, int64_t quads, const uint8_t *x, int64_t ldx, const int8_t *panel, int32_t *sums)
{
    for (int i = 0; i < rows; i++, x += ldx, sums += PANEL) {
        int32_t s[PANEL] = {0};
        for (int64_t q = 0; q < quads; q++) {
            const int8_t *w = panel + q * PANEL * 4;
            const int a = x[4 * q], b = x[4 * q + 1], c = x[4 * q + 2], d = x[4 * q + 3];
            for (int j = 0; j < PANEL; j++)
                s[j] += a * w[4 * j] + b * w[4 * j + 1] + c * w[4 * j + 2] + d * w[4 * j + 3];
        }
        memcpy(sums, s, sizeof s);
    }
}

#ifdef TD_AVX512
INLINE __m512i dot4(__m512i sums, __m512i u, __m512i s)
{
    __asm__("vpdpbusd %2, %1, %0" : "+v"(sums) : "v"(u), "v"(s));
    return sums;
}

/* Six rows by 64 columns: 24 registers of sums, four of weights, and one of x. */
INLINE void tile(int rows, int64_t quads, const uint8_t *x, int64_t ldx, const int8_t *panel, int32_t *sums)
{
    __m512i s[TD_BYTES_ROWS][4];
    _Pragma("GCC unroll 6")
    for (int i = 0; i < rows; i++)
        _Pragma("GCC unroll 4")
        for (int v = 0; v < 4; v++)
            s[i][v] = _mm512_setzero_si512();
    for (int64_t q = 0; q < quads; q++, panel += PANEL * 4) {
        __m512i w[4];
        _Pragma("GCC unroll 4")
        for (int v = 0; v < 4; v++)
            w[v] = _mm512_loadu_si512(panel + 64 * v);
        _Pragma("GCC unroll 6")
        for (int i = 0; i < rows; i++) {
            int32_t four;
            memcpy(&four, x + i * ldx + 4 * q, 4);
            const __m512i u = _mm512_set1_epi32(four);
            _Pragma("GCC unroll 4")
            for (int v = 0; v < 4; v++)
                s[i][v] = dot4(s[i][v], u, w[v]);
        }
    }
    _Pragma("GCC unroll 6")
    for (int i = 0; i < rows; i++)
        _Pragma("GCC unroll 4")
        for (int v = 0; v < 4; v++)
            _mm512_storeu_si512(sums + i * PANEL + 16 * v, s[i][v]);
}

static void dots_bytes(int rows, int64_t quads, const uint8_t *x, int64_t ldx, const int8_t *panel, int32_t *sums)
{
    if (rows == TD_BYTES_ROWS) {
        tile(TD_BYTES_ROWS, quads, x, ldx, panel, sums);
        return;
    }
    if (rows >= 3) {
        tile(3, quads, x, ldx, panel, sums);
        x += 3 * ldx, sums += 3 * PANEL, rows -= 3;
    }
    if (rows == 2)
        tile(2, quads, x, ldx, panel, sums);
    else if (rows == 1)
        tile(1, quads, x, ldx, panel, sums);
}
#else
#define dots_bytes NULL
#endif

static void round_sums(int64_t n, const int32_t *restrict sums, const int32_t *restrict less, const float *restrict more, const float *restrict by,
                       float least, float zero, uint8_t *restrict y)
{
    for (int64_t i = 0; i < n; i++) {
        float near = __builtin_rintf(((float)(sums[i] - less[i]) + more[i]) * by[i]) + zero;
        near = near < least ? least : near;
        near = near > 255.f ? 255.f : near;
        y[i] = (uint8_t)(int)near;
    }
}

static void scale_sums(int64_t n, const int32_t *restrict sums, const int32_t *restrict less, const float *restrict more, const float *restrict by,
                       float *restrict y)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = (float)(sums[i] - less[i]) * by[i] + more[i];
}

extern const td_bytes_table TD_ISA_NAME(td_bytes_table);
const td_bytes_table TD_ISA_NAME(td_bytes_table) = {dots, dots_bytes, round_sums, scale_sums};
