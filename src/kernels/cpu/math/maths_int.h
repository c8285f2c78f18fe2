/* Integer functions with PyTorch's results, and without its undefined corners: nothing here traps.
 *
 * Division by zero gives 0 (kernels that must refuse it look before they start), the smallest number divided by -1
 * wraps.  32-bit division goes through double, where the quotient is exact after truncation, because processors have
 * no SIMD division of integers; so loops over it vectorise. */
#ifndef TD_KERNELS_CPU_MATH_MATHS_INT_H
#define TD_KERNELS_CPU_MATH_MATHS_INT_H

#include <stdint.h>

/* ---- truncating division and what follows from it */

static inline int32_t td_trunc_div_i32(int32_t a, int32_t b)
{
    /* 0 and -1 are set apart first, so the conversion back is always in range. */
    int32_t q = (int32_t)((double)a / (double)(b == 0 || b == -1 ? 1 : b));
    q = b == -1 ? (int32_t)(0 - (uint32_t)a) : q;
    return b == 0 ? 0 : q;
}
static inline uint64_t td_trunc_div_u64(uint64_t a, uint64_t b)
{
    if ((a | b) >> 32 == 0)                       /* on many processors the 64-bit instruction takes thrice as long */
        return b == 0 ? 0 : (uint32_t)a / (uint32_t)b;
    return b == 0 ? 0 : a / b;
}
static inline int64_t td_trunc_div_i64(int64_t a, int64_t b)
{
    if (((uint64_t)a | (uint64_t)b) >> 32 == 0)
        return b == 0 ? 0 : (uint32_t)a / (uint32_t)b;
    if (b == 0 || b == -1)
        return b == 0 ? 0 : (int64_t)(0 - (uint64_t)a);
    return a / b;
}

/* The remainder with the dividend's sign (fmod), with the divisor's (remainder), and the quotient rounded down. */
#define TD_DIVISION(T, U, S) \
    static inline T td_fmod_##S(T a, T b) \
    { \
        return b == 0 ? 0 : (T)((U)a - (U)td_trunc_div_##S(a, b) * (U)b); \
    } \
    static inline T td_remainder_##S(T a, T b) \
    { \
        T r = td_fmod_##S(a, b); \
        return r != 0 && (r < 0) != (b < 0) ? (T)(r + b) : r; \
    } \
    static inline T td_floor_div_##S(T a, T b) \
    { \
        T q = td_trunc_div_##S(a, b), r = (T)((U)a - (U)q * (U)b); \
        return b != 0 && r != 0 && (r < 0) != (b < 0) ? (T)(q - 1) : q; \
    }
TD_DIVISION(int32_t, uint32_t, i32)
TD_DIVISION(int64_t, uint64_t, i64)
#undef TD_DIVISION
static inline uint64_t td_floor_div_u64(uint64_t a, uint64_t b) { return td_trunc_div_u64(a, b); }
static inline uint64_t td_fmod_u64(uint64_t a, uint64_t b)      { return b == 0 ? 0 : a - td_trunc_div_u64(a, b) * b; }
static inline uint64_t td_remainder_u64(uint64_t a, uint64_t b) { return td_fmod_u64(a, b); }

/* ---- signs and shifts */

static inline uint8_t  td_abs_u8(uint8_t a)    { return a; }
static inline int8_t   td_abs_i8(int8_t a)     { return (int8_t)(a < 0 ? -a : a); }
static inline int16_t  td_abs_i16(int16_t a)   { return (int16_t)(a < 0 ? -a : a); }
static inline int32_t  td_abs_i32(int32_t a)   { return a < 0 ? (int32_t)(0 - (uint32_t)a) : a; }
static inline int64_t  td_abs_i64(int64_t a)   { return a < 0 ? (int64_t)(0 - (uint64_t)a) : a; }
static inline uint64_t td_abs_u64(uint64_t a)  { return a; }
static inline uint8_t  td_sign_u8(uint8_t a)   { return a > 0; }
static inline int8_t   td_sign_i8(int8_t a)    { return (int8_t)((a > 0) - (a < 0)); }
static inline int16_t  td_sign_i16(int16_t a)  { return (int16_t)((a > 0) - (a < 0)); }
static inline int32_t  td_sign_i32(int32_t a)  { return (a > 0) - (a < 0); }
static inline int64_t  td_sign_i64(int64_t a)  { return (a > 0) - (a < 0); }
static inline uint64_t td_sign_u64(uint64_t a) { return a > 0; }
static inline uint8_t  td_sgn_u8(uint8_t a)    { return td_sign_u8(a); }
static inline int8_t   td_sgn_i8(int8_t a)     { return td_sign_i8(a); }
static inline int16_t  td_sgn_i16(int16_t a)   { return td_sign_i16(a); }
static inline int32_t  td_sgn_i32(int32_t a)   { return td_sign_i32(a); }
static inline int64_t  td_sgn_i64(int64_t a)   { return td_sign_i64(a); }
static inline uint64_t td_sgn_u64(uint64_t a)  { return td_sign_u64(a); }

/* A count that is negative or not below the width shifts everything out: 0, or copies of the sign to the right. */
static inline int32_t td_shl_i32(int32_t a, int32_t n)
{
    return (uint32_t)n < 32 ? (int32_t)((uint32_t)a << (n & 31)) : 0;
}
static inline int64_t td_shl_i64(int64_t a, int64_t n)
{
    return (uint64_t)n < 64 ? (int64_t)((uint64_t)a << (n & 63)) : 0;
}
static inline uint64_t td_shl_u64(uint64_t a, uint64_t n) { return n < 64 ? a << (n & 63) : 0; }
static inline int32_t  td_shr_i32(int32_t a, int32_t n)   { return a >> ((uint32_t)n < 32 ? n : 31); }
static inline int64_t  td_shr_i64(int64_t a, int64_t n)   { return a >> ((uint64_t)n < 64 ? n : 63); }
static inline uint64_t td_shr_u64(uint64_t a, uint64_t n) { return n < 64 ? a >> (n & 63) : 0; }

/* ---- the rest, alike for all types */

#define TD_EXTREMES(T, S)                                              \
    static inline T td_maximum_##S(T a, T b) { return a > b ? a : b; } \
    static inline T td_minimum_##S(T a, T b) { return a < b ? a : b; }
TD_EXTREMES(uint8_t, u8)
TD_EXTREMES(int8_t, i8)
TD_EXTREMES(int16_t, i16)
/* gcd by Euclid on magnitudes, which hold the smallest number as well.  x^n by squaring, modulo 2^bits. */
#define TD_COMMON(T, U, S) \
    TD_EXTREMES(T, S)      \
    static inline T td_gcd_##S(T a, T b) \
    { \
        U x = (U)td_abs_##S(a), y = (U)td_abs_##S(b); \
        while (y) { \
            U r = x % y; \
            x = y; \
            y = r; \
        } \
        return (T)x; \
    } \
    static inline T td_lcm_##S(T a, T b) \
    { \
        T g = td_gcd_##S(a, b); \
        return g == 0 ? 0 : td_abs_##S((T)((U)td_trunc_div_##S(a, g) * (U)b)); \
    } \
    static inline T td_power_##S(T x, U n) \
    { \
        U result = 1, square = (U)x; \
        for (; n; n >>= 1, square *= square) \
            result *= n & 1 ? square : 1; \
        return (T)result; \
    }
TD_COMMON(int32_t, uint32_t, i32)
TD_COMMON(int64_t, uint64_t, i64)
TD_COMMON(uint64_t, uint64_t, u64)
#undef TD_COMMON
#undef TD_EXTREMES

/* A negative exponent leaves 1 and -1 their powers, everything else becomes 0. */
static inline int32_t td_pow_i32(int32_t x, int32_t n)
{
    if (n < 0)
        return x == 1 ? 1 : x == -1 ? (n & 1 ? -1 : 1) : 0;
    return td_power_i32(x, (uint32_t)n);
}
static inline int64_t td_pow_i64(int64_t x, int64_t n)
{
    if (n < 0)
        return x == 1 ? 1 : x == -1 ? (n & 1 ? -1 : 1) : 0;
    return td_power_i64(x, (uint64_t)n);
}
static inline uint64_t td_pow_u64(uint64_t x, uint64_t n) { return td_power_u64(x, n); }

#endif
