/* Eight bits as floating point numbers, exact both ways: rounded to nearest even, once.
 *
 * What is beyond the largest number of e4m3fn becomes that number, also infinities; e5m2 has infinities, and fnuz NaN for it.
 *
 * A format is its bits of mantissa, the bias of its exponent, the code of its largest number, what becomes of larger ones and of
 * NaN, and whether it has signs of zero and NaN ("fnuz": it has neither, and the code of -0 is NaN).  The loops are written once;
 * constants make five of each.  They are free of branches and don't meet subnormal floats, so that neither the processor's mode for
 * these (torch.set_flush_denormal) nor vectorizing changes a result.
 *
 * float8_e8m0fnu is a power of two, the exponent of a float alone. */
#include "base/float8.h"

#define IN static inline __attribute__((always_inline))

/* A number below the smallest normal one is its mantissa times a power of two. */
IN float widen(uint8_t x, int mantissa, int bias, int nan_from, int infinity, bool fnuz)
{
    const uint32_t magnitude = x & 0x7f, sign = (uint32_t)(x & 0x80) << 24;
    const float small = (float)(int)magnitude * td_bits_f32((uint32_t)(128 - bias - mantissa) << 23);
    const uint32_t normal = (magnitude << (23 - mantissa)) + ((uint32_t)(127 - bias) << 23);
    uint32_t bits = magnitude >> mantissa ? normal : td_f32_bits(small);
    bits = (int)magnitude >= nan_from ? 0x7fc00000 | magnitude << (23 - mantissa) : (int)magnitude == infinity ? 0x7f800000 : bits;
    return td_bits_f32(fnuz && x == 0x80 ? 0x7f800001 : bits | sign);
}

/* Numbers below the smallest normal one are rounded by adding a power of two, whose last bit is the format's; others by adding
 * half of what is cut off, less a bit if the last one that stays is 0. */
IN uint8_t narrow(float x, int mantissa, int bias, uint32_t largest, uint32_t beyond, uint32_t nan, bool fnuz)
{
    const uint32_t bits = td_f32_bits(x), sign = bits >> 24 & 0x80, magnitude = bits & 0x7fffffff, cut = 23 - (uint32_t)mantissa;
    const uint32_t power = (uint32_t)(151 - bias - mantissa) << 23;
    const uint32_t small = td_f32_bits(td_bits_f32(magnitude) + td_bits_f32(power)) - power;
    const uint32_t normal = (magnitude - ((uint32_t)(127 - bias) << 23) + ((1u << (cut - 1)) - 1) + (magnitude >> cut & 1)) >> cut;
    uint32_t code = magnitude < (uint32_t)(128 - bias) << 23 ? small : normal;
    code = code > largest ? beyond : code;
    code = magnitude > 0x7f800000 ? nan : code;
    return (uint8_t)(code | (fnuz && (code == 0 || code == 0x80) ? 0 : sign));
}

/* Its NaN is 0xff, which infinities become, too; it has no sign, and no zero: 2^-127 stands for that. */
IN float widen_e8m0(uint8_t x) { return td_bits_f32(x == 0xff ? 0x7f800001 : x ? (uint32_t)x << 23 : 0x00400000); }
IN uint8_t narrow_e8m0(float x)
{
    const uint32_t magnitude = td_f32_bits(x) & 0x7fffffff, exponent = magnitude >> 23;
    const bool half = magnitude & 0x400000, rest = magnitude & 0x3fffff;
    return (uint8_t)(exponent == 0xff ? 0xff : exponent + (half && (rest || exponent)));
}

#define LOOPS(name, from, to)                                       \
    static void load_##name(float *dst, const void *src, int64_t n) \
    {                                                               \
        const uint8_t *s = src;                                     \
        for (int64_t i = 0; i < n; i++)                             \
            dst[i] = from;                                          \
    }                                                               \
    static void store_##name(void *dst, const float *src, int64_t n) \
    {                                                               \
        uint8_t *d = dst;                                           \
        for (int64_t i = 0; i < n; i++)                             \
            d[i] = to;                                              \
    }
LOOPS(e4m3fn, widen(s[i], 3, 7, 0x7f, -1, false), narrow(src[i], 3, 7, 0x7e, 0x7e, 0x7f, false))
LOOPS(e5m2, widen(s[i], 2, 15, 0x7d, 0x7c, false), narrow(src[i], 2, 15, 0x7b, 0x7c, 0x7f, false))
LOOPS(e4m3fnuz, widen(s[i], 3, 8, 0x80, -1, true), narrow(src[i], 3, 8, 0x7f, 0x80, 0x80, true))
LOOPS(e5m2fnuz, widen(s[i], 2, 16, 0x80, -1, true), narrow(src[i], 2, 16, 0x7f, 0x80, 0x80, true))
LOOPS(e8m0fnu, widen_e8m0(s[i]), narrow_e8m0(src[i]))

const struct td_float8 td_float8[] = {
    {load_e4m3fn, store_e4m3fn}, {load_e5m2, store_e5m2}, {load_e4m3fnuz, store_e4m3fnuz}, {load_e5m2fnuz, store_e5m2fnuz},
    {load_e8m0fnu, store_e8m0fnu},
};
