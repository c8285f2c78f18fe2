/* Numbers to integers and back, one body of each loop compiled for every width of the machine's vectors.  All give the same bits.
 *
 * Of bytes, floats hold an integer with and without its zero point exactly, so a number is kept within the dtype before it is rounded; of 32
 * bits doubles do.  Comparisons are written so that NaN goes with what is too large. */
#include "layouts/quantized/loops.h"
#include "base/levels.h"
#include "base/once.h"
#include "base/simd.h"

#include <math.h>

#define INLINE static inline __attribute__((always_inline))

INLINE int32_t kept(float x, float least, float most)
{
    x = x < most ? x : most;
    x = x > least ? x : least;
    return (int32_t)__builtin_rintf(x);
}
/* In int32 first, then moved by the zero point. */
INLINE int32_t kept_32(float x, double zero)
{
    double near = __builtin_rint((double)x);
    near = x < 2147483520.f ? near : 2147483647.;
    near = (near > -2147483648. ? near : -2147483648.) + zero;
    near = near < 2147483647. ? near : 2147483647.;
    return (int32_t)(near > -2147483648. ? near : -2147483648.);
}

/* What differs between bytes and 32 bits: an integer of x, which is scaled, a number of an integer, and zero points of channels. */
#define INTEGER_BYTE(x, zero, least, most)  (kept(x, (float)((least) - (zero)), (float)((most) - (zero))) + (int32_t)(zero))
#define INTEGER_WIDE(x, zero, least, most)  kept_32(x, (double)(zero))
/* The same where the zero point is added before, in floats, so that a tie goes to an even integer: what PyTorch's quantize_per_channel does, and
 * quantize_per_tensor, there to bytes by one fused step. */
#define SCALED_BYTE(x, inverse, zero, least, most) kept(__builtin_fmaf(x, inverse, (float)(zero)), (least), (most))
#define SCALED_WIDE(x, inverse, zero, least, most) MOVED_WIDE((x) * (inverse), zero, least, most)
#define MOVED_BYTE(x, zero, least, most)    kept((x) + (float)(zero), (least), (most))
#define MOVED_WIDE(x, zero, least, most)    kept_32((x) + (float)(zero), 0)
#define CENTERED_BYTE(q, zero) ((float)(q) - (float)(zero))
#define CENTERED_WIDE(q, zero) (float)((double)(q) - (double)(zero))

#define ZERO_BYTE float
#define ZERO_WIDE double

/* x[i], with the one scale and zero point of a, as an integer. */
#define TO_INTEGERS(function, T, integer)                                                               \
    INLINE void function(int64_t n, char *const *ptrs, const void *params)                              \
    {                                                                                                   \
        const td_affine a = *(const td_affine *)params;                                                 \
        T *to = (T *)ptrs[0];                                                                           \
        const float *x = (const float *)ptrs[1];                                                        \
        _Pragma("omp simd")                                                                             \
        for (int64_t i = 0; i < n; i++)                                                                 \
            to[i] = (T)(integer);                                                                       \
    }

#define BODIES(name, T, SIZE, least, most)                                                              \
    TO_INTEGERS(requantize_##name, T, INTEGER_##SIZE(x[i] * a.inverse, a.zero_point, least, most))      \
    TO_INTEGERS(quantize_##name, T, SCALED_##SIZE(x[i], a.inverse, a.zero_point, least, most))          \
    INLINE void quantize_channels_##name(int64_t n, char *const *ptrs, const void *params)              \
    {                                                                                                   \
        (void)params;                                                                                   \
        T *to = (T *)ptrs[0];                                                                           \
        const float *x = (const float *)ptrs[1], *inverse = (const float *)ptrs[2];                     \
        const ZERO_##SIZE *zero = (const ZERO_##SIZE *)ptrs[3];                                                   \
        _Pragma("omp simd")                                                                             \
        for (int64_t i = 0; i < n; i++)                                                                 \
            to[i] = (T)MOVED_##SIZE(x[i] * inverse[i], zero[i], least, most);                           \
    }                                                                                                   \
    INLINE void dequantize_##name(int64_t n, char *const *ptrs, const void *params)                     \
    {                                                                                                   \
        const td_affine a = *(const td_affine *)params;                                                 \
        float *to = (float *)ptrs[0];                                                                   \
        const T *q = (const T *)ptrs[1];                                                                \
        _Pragma("omp simd")                                                                             \
        for (int64_t i = 0; i < n; i++)                                                                 \
            to[i] = a.scale * CENTERED_##SIZE(q[i], a.zero_point);                                      \
    }                                                                                                   \
    INLINE void dequantize_channels_##name(int64_t n, char *const *ptrs, const void *params)            \
    {                                                                                                   \
        (void)params;                                                                                   \
        float *to = (float *)ptrs[0];                                                                   \
        const T *q = (const T *)ptrs[1];                                                                \
        const float *scale = (const float *)ptrs[2];                                                    \
        const ZERO_##SIZE *zero = (const ZERO_##SIZE *)ptrs[3];                                                   \
        _Pragma("omp simd")                                                                             \
        for (int64_t i = 0; i < n; i++)                                                                 \
            to[i] = scale[i] * CENTERED_##SIZE(q[i], zero[i]);                                          \
    }                                                                                                   \
    INLINE void fused_##name(int64_t n, char *const *ptrs, const void *params)                          \
    {                                                                                                   \
        const td_affine a = *(const td_affine *)params;                                                 \
        const float shift = -a.scale * (float)a.zero_point;                                             \
        float *to = (float *)ptrs[0];                                                                   \
        const T *q = (const T *)ptrs[1];                                                                \
        _Pragma("omp simd")                                                                             \
        for (int64_t i = 0; i < n; i++)                                                                 \
            to[i] = __builtin_fmaf(a.scale, (float)q[i], shift);                                        \
    }                                                                                                   \
    INLINE void add_##name(int64_t n, char *const *ptrs, const void *params)                            \
    {                                                                                                   \
        const td_affine_pair p = *(const td_affine_pair *)params;                                       \
        const float shift_a = -p.a.scale * (float)p.a.zero_point, shift_b = -p.b.scale * (float)p.b.zero_point; \
        const float floor = p.relu ? 0 : -INFINITY;                                                     \
        T *to = (T *)ptrs[0];                                                                           \
        const T *a = (const T *)ptrs[1], *b = (const T *)ptrs[2];                                       \
        _Pragma("omp simd")                                                                             \
        for (int64_t i = 0; i < n; i++) {                                                               \
            float sum = __builtin_fmaf(p.a.scale, (float)a[i], shift_a) + __builtin_fmaf(p.b.scale, (float)b[i], shift_b); \
            sum = sum < floor ? floor : sum;                                                            \
            to[i] = (T)INTEGER_##SIZE(sum * p.to.inverse, p.to.zero_point, least, most);                \
        }                                                                                               \
    }                                                                                                   \
    INLINE void multiply_##name(int64_t n, char *const *ptrs, const void *params)                       \
    {                                                                                                   \
        const td_affine_pair p = *(const td_affine_pair *)params;                                       \
        const float zero_a = (float)p.a.zero_point, zero_b = (float)p.b.zero_point;                     \
        const ZERO_##SIZE zero = (ZERO_##SIZE)p.to.zero_point, low = p.relu ? zero : (least), high = (most);   \
        T *to = (T *)ptrs[0];                                                                           \
        const T *a = (const T *)ptrs[1], *b = (const T *)ptrs[2];                                       \
        _Pragma("omp simd")                                                                             \
        for (int64_t i = 0; i < n; i++) {                                                               \
            ZERO_##SIZE product = __builtin_rintf(((float)a[i] - zero_a) * ((float)b[i] - zero_b) * p.factor); \
            product += zero;                                                                            \
            product = product < low ? low : product;                                                    \
            to[i] = (T)(int32_t)(product > high ? high : product);                                      \
        }                                                                                               \
    }
BODIES(i8, int8_t, BYTE, -128, 127)
BODIES(u8, uint8_t, BYTE, 0, 255)
BODIES(i32, int32_t, WIDE, INT32_MIN, INT32_MAX)

INLINE void look_up_u8(int64_t n, char *const *ptrs, const void *params)
{
    const uint8_t *table = params, *x = (const uint8_t *)ptrs[1];
    uint8_t *to = (uint8_t *)ptrs[0];
    for (int64_t i = 0; i < n; i++)
        to[i] = table[x[i]];
}

/* Bytes without a sign, those with one moved up; up to 256 of each lane are added in 16 bits first. */
INLINE int64_t sum_bytes(int64_t n, const uint8_t *x, uint8_t flip)
{
    enum { LANES = 64, MANY = 256 * LANES };
    int64_t total = 0;
    for (int64_t at = 0; at < n; at += MANY) {
        const int64_t some = n - at < MANY ? n - at : MANY;
        const int64_t whole = some / LANES * LANES;
        uint16_t sums[LANES] = {0};
        for (int64_t i = 0; i < whole; i += LANES)
            for (int l = 0; l < LANES; l++)
                sums[l] = (uint16_t)(sums[l] + (x[at + i + l] ^ flip));
        for (int l = 0; whole && l < LANES; l++)
            total += sums[l];
        const uint64_t even = 0x00ff00ff00ff00ff, flips = flip * UINT64_C(0x0101010101010101);
        uint64_t eight, rest = 0;                       /* four sums of 16 bits */
        int64_t i = whole;
        for (; i + 8 <= some; i += 8) {
            __builtin_memcpy(&eight, x + at + i, 8);
            eight ^= flips;
            rest += (eight & even) + (eight >> 8 & even);
        }
        total += (int64_t)(rest * UINT64_C(0x0001000100010001) >> 48);
        for (; i < some; i++)
            total += x[at + i] ^ flip;
    }
    return total - (flip ? 128 * n : 0);
}
INLINE int64_t sum_i8(int64_t n, const void *x) { return sum_bytes(n, x, 0x80); }
INLINE int64_t sum_u8(int64_t n, const void *x) { return sum_bytes(n, x, 0); }

#define FOR_LEVEL(body, name, level, target) \
    target static void body##_##name##_##level(int64_t n, char *const *ptrs, const void *params) { body##_##name(n, ptrs, params); }
#define FOR_ROWS(body, level, target) \
    FOR_LEVEL(body, i8, level, target) FOR_LEVEL(body, u8, level, target) FOR_LEVEL(body, i32, level, target)
#define ROWS(body, level) .body = {body##_i8_##level, body##_u8_##level, body##_i32_##level}
#define LEVEL(level, target)                                                                            \
    FOR_ROWS(quantize, level, target) FOR_ROWS(requantize, level, target) FOR_ROWS(quantize_channels, level, target) \
    FOR_ROWS(dequantize, level, target) FOR_ROWS(dequantize_channels, level, target)                    \
    FOR_ROWS(fused, level, target) FOR_ROWS(add, level, target) FOR_ROWS(multiply, level, target)       \
    FOR_LEVEL(look_up, u8, level, target)                                                               \
    target static int64_t sum_i8_##level(int64_t n, const void *x) { return sum_i8(n, x); }             \
    target static int64_t sum_u8_##level(int64_t n, const void *x) { return sum_u8(n, x); }             \
    static const td_affine_loops loops_##level = {ROWS(quantize, level), ROWS(requantize, level), ROWS(quantize_channels, level), ROWS(dequantize, level), \
                                                  ROWS(dequantize_channels, level), ROWS(fused, level), ROWS(add, level), ROWS(multiply, level), \
                                                  .look_up = look_up_u8_##level, .sum = {sum_i8_##level, sum_u8_##level}};
LEVEL(any, )
#ifdef TD_FOR_V4
LEVEL(v3, TD_FOR_V3)
LEVEL(v4, TD_FOR_V4)

/* A table of 256 in four registers, each instruction looks up in two (AVX512_VBMI). */
typedef uint8_t bytes_64 __attribute__((vector_size(64), aligned(1), may_alias));
typedef int8_t signs_64 __attribute__((vector_size(64)));
TD_FOR_V4 static inline bytes_64 permuted(const bytes_64 *table, bytes_64 x)
{
    bytes_64 low = x, high = x;
    __asm__("vpermi2b %2, %1, %0" : "+v"(low) : "v"(table[0]), "v"(table[1]));
    __asm__("vpermi2b %2, %1, %0" : "+v"(high) : "v"(table[2]), "v"(table[3]));
    const bytes_64 upper = (bytes_64)((signs_64)x < 0);
    return (low & ~upper) | (high & upper);
}
TD_FOR_V4 static void look_up_permuting(int64_t n, char *const *ptrs, const void *params)
{
    const bytes_64 *from = params, table[4] = {from[0], from[1], from[2], from[3]};
    const char *x = ptrs[1];
    char *to = ptrs[0];
    int64_t i = 0;
    for (; i + 64 <= n; i += 64)
        *(bytes_64 *)(to + i) = permuted(table, *(const bytes_64 *)(x + i));
    if (i < n) {
        bytes_64 rest = {0};
        __builtin_memcpy(&rest, x + i, (size_t)(n - i));
        rest = permuted(table, rest);
        __builtin_memcpy(to + i, &rest, (size_t)(n - i));
    }
}
static td_affine_loops loops_permuting;
static int make_permuting(void)
{
    loops_permuting = loops_v4;
    loops_permuting.look_up = td_cpu_permutes_bytes() ? look_up_permuting : loops_v4.look_up;
    return 0;
}

const td_affine_loops *td_affine_loops_here(void)
{
    static td_once once;
    if (td_cpu_isa() >= TD_V4 && td_once_run(&once, make_permuting) == 0)
        return &loops_permuting;
    return td_cpu_isa() >= TD_V3 ? &loops_v3 : &loops_any;
}
#else
const td_affine_loops *td_affine_loops_here(void) { return &loops_any; }
#endif
