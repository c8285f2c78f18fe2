/* Products of bytes, see bytes.h; compiled once per instruction-set level.  Sums are exact, so all levels give the same bits. */
#include "base/base.h"
#define TD_SIMD_INTRINSICS
#include "base/simd.h"
#include "kernels/cpu/isa/tile_registers.h"
#include "kernels/cpu/isa/vectors.h"
#include "kernels/cpu/packed/bytes.h"

enum { PANEL = TD_BYTES_PANEL };

static void dots(int rows, int64_t n, const td_bytes_step *steps, const uint8_t *x, int64_t ldx, const int8_t *panel, int32_t *sums)
{
    for (int i = 0; i < rows; i++, x += ldx, sums += PANEL) {
        int32_t s[PANEL] = {0};
        for (int64_t k = 0; k < n; k++)
            for (int q = 0; q < steps[k].quads; q++) {
                const int8_t *w = panel + k * TD_BYTES_STEP_OF_PANEL + q * PANEL * 4;
                const uint8_t *four = x + steps[k].offset + 4 * q;
                const int a = four[0], b = four[1], c = four[2], d = four[3];
                for (int j = 0; j < PANEL; j++)
                    s[j] += a * w[4 * j] + b * w[4 * j + 1] + c * w[4 * j + 2] + d * w[4 * j + 3];
            }
        memcpy(sums, s, sizeof s);
    }
}

static void apart(int64_t n, const td_bytes_step *steps, const uint8_t *x, const int8_t *quads, int32_t *sums)
{
    int32_t s[PANEL] = {0};
    for (int64_t q = 0; q < n; q++, steps += 4, quads += TD_BYTES_QUAD) {
        const uint8_t *a = x + steps[0].offset, *b = x + steps[1].offset, *c = x + steps[2].offset, *d = x + steps[3].offset;
        for (int j = 0; j < PANEL; j++) {
            const int8_t *w = quads + j / 4 % 4 * 64 + j / 16 * 16 + j % 4 * 4;
            s[j] += a[j] * w[0] + b[j] * w[1] + c[j] * w[2] + d[j] * w[3];
        }
    }
    memcpy(sums, s, sizeof s);
}

#ifdef TD_AVX512
INLINE __m512i dot4(__m512i sums, __m512i u, __m512i s)
{
    __asm__("vpdpbusd %2, %1, %0" : "+v"(sums) : "v"(u), "v"(s));
    return sums;
}

/* Six rows by 64 columns: 24 registers of sums, four of weights, and one of x. */
INLINE void block(int rows, int64_t n, const td_bytes_step *steps, const uint8_t *x, int64_t ldx, const int8_t *panel, int32_t *sums)
{
    __m512i s[TD_BYTES_ROWS][4];
    _Pragma("GCC unroll 6")
    for (int i = 0; i < rows; i++)
        _Pragma("GCC unroll 4")
        for (int v = 0; v < 4; v++)
            s[i][v] = _mm512_setzero_si512();
    for (int64_t k = 0; k < n; k++, panel += TD_BYTES_STEP_OF_PANEL) {
        const uint8_t *from = x + steps[k].offset;
        const int8_t *at = panel;
        for (int q = 0; q < steps[k].quads; q++, from += 4, at += PANEL * 4) {
            __m512i w[4];
            _Pragma("GCC unroll 4")
            for (int v = 0; v < 4; v++)
                w[v] = _mm512_loadu_si512(at + 64 * v);
            _Pragma("GCC unroll 6")
            for (int i = 0; i < rows; i++) {
                int32_t four;
                memcpy(&four, from + i * ldx, 4);
                const __m512i u = _mm512_set1_epi32(four);
                _Pragma("GCC unroll 4")
                for (int v = 0; v < 4; v++)
                    s[i][v] = dot4(s[i][v], u, w[v]);
            }
        }
    }
    _Pragma("GCC unroll 6")
    for (int i = 0; i < rows; i++)
        _Pragma("GCC unroll 4")
        for (int v = 0; v < 4; v++)
            _mm512_storeu_si512(sums + i * PANEL + 16 * v, s[i][v]);
}

static void dots_bytes(int rows, int64_t n, const td_bytes_step *steps, const uint8_t *x, int64_t ldx, const int8_t *panel, int32_t *sums)
{
    if (rows == TD_BYTES_ROWS) {
        block(TD_BYTES_ROWS, n, steps, x, ldx, panel, sums);
        return;
    }
    if (rows >= 3) {
        block(3, n, steps, x, ldx, panel, sums);
        x += 3 * ldx, sums += 3 * PANEL, rows -= 3;
    }
    if (rows == 2)
        block(2, n, steps, x, ldx, panel, sums);
    else if (rows == 1)
        block(1, n, steps, x, ldx, panel, sums);
}

/* The bytes of four rows beside each other, first of two and two: part l of s[v] has those of 16 l + 4 v and the next three. */
INLINE void interleave(const __m512i r[4], __m512i s[4])
{
    const __m512i ab[2] = {_mm512_unpacklo_epi8(r[0], r[1]), _mm512_unpackhi_epi8(r[0], r[1])};
    const __m512i cd[2] = {_mm512_unpacklo_epi8(r[2], r[3]), _mm512_unpackhi_epi8(r[2], r[3])};
    _Pragma("GCC unroll 4")
    for (int v = 0; v < 4; v++)
        s[v] = v % 2 ? _mm512_unpackhi_epi16(ab[v / 2], cd[v / 2]) : _mm512_unpacklo_epi16(ab[v / 2], cd[v / 2]);
}
INLINE void store_in_order(const __m512i s[4], int32_t *to)
{
    const __m512i even_a = _mm512_shuffle_i32x4(s[0], s[1], 0x88), even_b = _mm512_shuffle_i32x4(s[2], s[3], 0x88);
    const __m512i odd_a = _mm512_shuffle_i32x4(s[0], s[1], 0xdd), odd_b = _mm512_shuffle_i32x4(s[2], s[3], 0xdd);
    _mm512_storeu_si512(to, _mm512_shuffle_i32x4(even_a, even_b, 0x88));
    _mm512_storeu_si512(to + 16, _mm512_shuffle_i32x4(odd_a, odd_b, 0x88));
    _mm512_storeu_si512(to + 32, _mm512_shuffle_i32x4(even_a, even_b, 0xdd));
    _mm512_storeu_si512(to + 48, _mm512_shuffle_i32x4(odd_a, odd_b, 0xdd));
}

static void apart_bytes(int64_t n, const td_bytes_step *steps, const uint8_t *x, const int8_t *quads, int32_t *sums)
{
    __m512i s[4] = {_mm512_setzero_si512(), _mm512_setzero_si512(), _mm512_setzero_si512(), _mm512_setzero_si512()};
    for (int64_t q = 0; q < n; q++, steps += 4, quads += TD_BYTES_QUAD) {
        __m512i r[4], four[4];
        _Pragma("GCC unroll 4")
        for (int i = 0; i < 4; i++)
            r[i] = _mm512_loadu_si512(x + steps[i].offset);
        interleave(r, four);
        _Pragma("GCC unroll 4")
        for (int v = 0; v < 4; v++)
            s[v] = dot4(s[v], four[v], _mm512_loadu_si512(quads + 64 * v));
    }
    store_in_order(s, sums);            /* part l of s[v] has channels from 16 l + 4 v on */
}

/* ---- packing */

/* Of 16 columns, 16 times four bytes each: columns first, then beside each other. */
INLINE void transpose(__m512i r[16])
{
    __m512i t[16];
    _Pragma("GCC unroll 8")
    for (int i = 0; i < 16; i += 2)
        t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]), t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
    _Pragma("GCC unroll 4")
    for (int i = 0; i < 16; i += 4) {
        r[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]), r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
        r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]), r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
    }
    /* part l of r[4 g + i] has four bytes 4 l + i of columns 4 g to 4 g + 3 */
    _Pragma("GCC unroll 4")
    for (int i = 0; i < 4; i++) {
        const __m512i even_a = _mm512_shuffle_i32x4(r[i], r[4 + i], 0x88), even_b = _mm512_shuffle_i32x4(r[8 + i], r[12 + i], 0x88);
        const __m512i odd_a = _mm512_shuffle_i32x4(r[i], r[4 + i], 0xdd), odd_b = _mm512_shuffle_i32x4(r[8 + i], r[12 + i], 0xdd);
        t[i] = _mm512_shuffle_i32x4(even_a, even_b, 0x88), t[4 + i] = _mm512_shuffle_i32x4(odd_a, odd_b, 0x88);
        t[8 + i] = _mm512_shuffle_i32x4(even_a, even_b, 0xdd), t[12 + i] = _mm512_shuffle_i32x4(odd_a, odd_b, 0xdd);
    }
    memcpy(r, t, sizeof t);
}

static void pack_columns(int64_t columns, int64_t k, const int8_t *from, int64_t ld, int8_t *panel, int32_t *sums)
{
    const __m512i all = _mm512_set1_epi8((char)0x80);
    memset(sums, 0, PANEL * sizeof *sums);
    for (int64_t p = 0; p < k; p += TD_BYTES_STEP, panel += TD_BYTES_STEP_OF_PANEL) {
        const __mmask64 there = k - p < TD_BYTES_STEP ? ((__mmask64)1 << (k - p)) - 1 : ~(__mmask64)0;
        for (int64_t c = 0; c < PANEL; c += 16) {
            __m512i r[16];
            _Pragma("GCC unroll 16")
            for (int i = 0; i < 16; i++)
                r[i] = c + i < columns ? _mm512_maskz_loadu_epi8(there, from + (c + i) * ld + p) : _mm512_setzero_si512();
            transpose(r);
            __m512i s[2] = {_mm512_loadu_si512(sums + c), _mm512_setzero_si512()};
            _Pragma("GCC unroll 16")
            for (int i = 0; i < 16; i++) {
                _mm512_storeu_si512(panel + i * 4 * PANEL + 4 * c, r[i]);
                s[i % 2] = dot4(s[i % 2], all, r[i]);
            }
            _mm512_storeu_si512(sums + c, _mm512_add_epi32(s[0], s[1]));
        }
    }
}

static void pack_rows(int64_t columns, int64_t k, const int8_t *from, int64_t ld, int8_t *panel, int32_t *sums)
{
    const __m512i all = _mm512_set1_epi8((char)0x80);
    __m512i sum[4] = {_mm512_setzero_si512(), _mm512_setzero_si512(), _mm512_setzero_si512(), _mm512_setzero_si512()};
    const __mmask64 there = columns < PANEL ? ((__mmask64)1 << columns) - 1 : ~(__mmask64)0;
    const int64_t whole = (k + TD_BYTES_STEP - 1) / TD_BYTES_STEP * TD_BYTES_STEP;
    for (int64_t p = 0; p < whole; p += 4, panel += 4 * PANEL) {
        __m512i r[4], s[4];
        _Pragma("GCC unroll 4")
        for (int i = 0; i < 4; i++)
            r[i] = p + i < k ? _mm512_maskz_loadu_epi8(there, from + (p + i) * ld) : _mm512_setzero_si512();
        interleave(r, s);
        store_in_order(s, (int32_t *)panel);
        _Pragma("GCC unroll 4")
        for (int v = 0; v < 4; v++)
            sum[v] = dot4(sum[v], all, s[v]);
    }
    store_in_order(sum, sums);
}

/* ---- products of tiles: 16 rows of 64 bytes times 64 rows of 16 columns, added to 16 x 16 sums. A tile of weights is what lies in a panel: 16
 * times four rows of 16 columns. */
#define LOAD TILE_LOAD
#define STORE(tile, to) TILE_STORE(tile, to, PANEL * 4)
#define ZERO TILE_ZERO
#define MULTIPLY TILE_ADD_BYTES

static void begin_tiles(void)
{
    tile_shapes shapes = {.palette = 1};
    for (int i = 0; i < 8; i++)
        shapes.row_bytes[i] = 64, shapes.rows[i] = 16;
    shape_tiles(&shapes);
}
static void end_tiles(void) { release_tiles(); }

/* 32 rows by 32 columns: each tile of x and of weights meets two. */
static void two_by_two(int64_t n, const td_bytes_step *steps, const uint8_t *x, int64_t ldx, const int8_t *panel, int32_t *sums)
{
    ZERO(0);
    ZERO(1);
    ZERO(2);
    ZERO(3);
    for (int64_t k = 0; k < n; k++, panel += TD_BYTES_STEP_OF_PANEL) {
        const uint8_t *from = x + steps[k].offset;
        LOAD(6, panel, 4 * PANEL);
        LOAD(4, from, ldx);
        MULTIPLY(0, 4, 6);
        LOAD(7, panel + 64, 4 * PANEL);
        MULTIPLY(1, 4, 7);
        LOAD(5, from + 16 * ldx, ldx);
        MULTIPLY(2, 5, 6);
        MULTIPLY(3, 5, 7);
    }
    STORE(0, sums);
    STORE(1, sums + 16);
    STORE(2, sums + 16 * PANEL);
    STORE(3, sums + 16 * PANEL + 16);
}

/* 16 rows by 64 columns. */
static void one_by_four(int64_t n, const td_bytes_step *steps, const uint8_t *x, int64_t ldx, const int8_t *panel, int32_t *sums)
{
    ZERO(0);
    ZERO(1);
    ZERO(2);
    ZERO(3);
    for (int64_t k = 0; k < n; k++, panel += TD_BYTES_STEP_OF_PANEL) {
        LOAD(4, x + steps[k].offset, ldx);
        LOAD(5, panel, 4 * PANEL);
        MULTIPLY(0, 4, 5);
        LOAD(6, panel + 64, 4 * PANEL);
        MULTIPLY(1, 4, 6);
        LOAD(7, panel + 128, 4 * PANEL);
        MULTIPLY(2, 4, 7);
        LOAD(5, panel + 192, 4 * PANEL);
        MULTIPLY(3, 4, 5);
    }
    STORE(0, sums);
    STORE(1, sums + 16);
    STORE(2, sums + 32);
    STORE(3, sums + 48);
}

static void tiles(int rows, int64_t n, const td_bytes_step *steps, const uint8_t *x, int64_t ldx, const int8_t *panel, int32_t *sums)
{
    if (rows <= 16) {
        one_by_four(n, steps, x, ldx, panel, sums);
        return;
    }
    two_by_two(n, steps, x, ldx, panel, sums);
    two_by_two(n, steps, x, ldx, panel + 128, sums + 32);
}
#undef LOAD
#undef STORE
#undef ZERO
#undef MULTIPLY
#else
#define dots_bytes NULL
#define apart_bytes NULL
#define tiles NULL
#define begin_tiles NULL
#define end_tiles NULL
#define pack_columns NULL
#define pack_rows NULL
#endif

/* A sum as a byte; NaN, of factors that are none, is the least. */
INLINE uint8_t rounded(int32_t sum, int32_t less, float more, float by, float least, float zero)
{
    float near = __builtin_rintf(((float)(sum - less) + more) * by) + zero;
    near = near > least ? near : least;
    return (uint8_t)(int)(near < 255.f ? near : 255.f);
}

static void round_sums(int64_t n, const int32_t *restrict sums, const int32_t *restrict less, const float *restrict more, const float *restrict by,
                       float least, float zero, uint8_t *restrict y)
{
    int64_t i = 0;
#ifdef TD_AVX512
    for (; i + 16 <= n; i += 16) {
        __m512 v = _mm512_cvtepi32_ps(_mm512_sub_epi32(_mm512_loadu_si512(sums + i), _mm512_loadu_si512(less + i)));
        v = _mm512_mul_ps(_mm512_add_ps(v, _mm512_loadu_ps(more + i)), _mm512_loadu_ps(by + i));
        v = _mm512_add_ps(_mm512_roundscale_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC), _mm512_set1_ps(zero));
        v = _mm512_min_ps(_mm512_max_ps(v, _mm512_set1_ps(least)), _mm512_set1_ps(255.f));
        _mm_storeu_si128((__m128i *)(y + i), _mm512_cvtepi32_epi8(_mm512_cvttps_epi32(v)));
    }
#endif
    for (; i < n; i++)
        y[i] = rounded(sums[i], less[i], more[i], by[i], least, zero);
}

static void subtract_sums(int64_t n, const int32_t *restrict sums, const int32_t *restrict less, int32_t *restrict y)
{
    _Pragma("omp simd")
    for (int64_t i = 0; i < n; i++)
        y[i] = (int32_t)((uint32_t)sums[i] - (uint32_t)less[i]);
}

static void scale_sums(int64_t n, const int32_t *restrict sums, const int32_t *restrict less, const float *restrict more, const float *restrict by,
                       float *restrict y)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = (float)(sums[i] - less[i]) * by[i] + more[i];
}

extern const td_bytes_table TD_ISA_NAME(td_bytes_table);
const td_bytes_table TD_ISA_NAME(td_bytes_table) = {
    dots, dots_bytes, tiles, begin_tiles, end_tiles, apart, apart_bytes, pack_columns, pack_rows, round_sums, subtract_sums, scale_sums,
};
