/* Integer functions, by type: results as PyTorch's, without traps.  Division by zero gives 0 here; kernels refuse it
 * before they start.  The smallest number divided by -1 wraps. */
#ifndef TD_KERNELS_CPU_MATHS_INT_H
#define TD_KERNELS_CPU_MATHS_INT_H
#include <stdint.h>

#define SIGNED(T, U, S, BITS) \
    static inline T td_trunc_div_##S(T a, T b) { return b == 0 ? 0 : b == -1 ? (T)(0 - (U)a) : a / b; } \
    static inline T td_fmod_##S(T a, T b) { return b == 0 || b == -1 ? 0 : a % b; } \
    static inline T td_remainder_##S(T a, T b) { T r = td_fmod_##S(a, b); return r != 0 && (r < 0) != (b < 0) ? r + b : r; } \
    static inline T td_floor_div_##S(T a, T b) { T q = td_trunc_div_##S(a, b); return td_fmod_##S(a, b) != 0 && (a < 0) != (b < 0) ? q - 1 : q; } \
    static inline T td_abs_##S(T a) { return a < 0 ? (T)(0 - (U)a) : a; } \
    static inline T td_sign_##S(T a) { return (a > 0) - (a < 0); } \
    static inline T td_shl_##S(T a, T n) { return n < 0 || n >= BITS ? 0 : (T)((U)a << n); } \
    static inline T td_shr_##S(T a, T n) { return a >> (n < 0 || n >= BITS ? BITS - 1 : n); }
#define UNSIGNED(T, S, BITS) \
    static inline T td_trunc_div_##S(T a, T b) { return b == 0 ? 0 : a / b; } \
    static inline T td_fmod_##S(T a, T b) { return b == 0 ? 0 : a % b; } \
    static inline T td_remainder_##S(T a, T b) { return td_fmod_##S(a, b); } \
    static inline T td_floor_div_##S(T a, T b) { return td_trunc_div_##S(a, b); } \
    static inline T td_abs_##S(T a) { return a; } \
    static inline T td_sign_##S(T a) { return a > 0; } \
    static inline T td_shl_##S(T a, T n) { return n >= BITS ? 0 : a << n; } \
    static inline T td_shr_##S(T a, T n) { return n >= BITS ? 0 : a >> n; }
#define BOTH(T, U, S) \
    static inline T td_maximum_##S(T a, T b) { return a > b ? a : b; } \
    static inline T td_minimum_##S(T a, T b) { return a < b ? a : b; } \
    static inline T td_gcd_##S(T a, T b) \
    { \
        U x = (U)td_abs_##S(a), y = (U)td_abs_##S(b); \
        while (y) { U t = x % y; x = y, y = t; } \
        return (T)x; \
    } \
    static inline T td_lcm_##S(T a, T b) \
    { \
        T g = td_gcd_##S(a, b); \
        return g == 0 ? 0 : td_abs_##S((T)((U)td_trunc_div_##S(a, g) * (U)b)); \
    } \
    static inline T td_pow_##S(T base, T exponent) \
    { \
        if (exponent < 0 || (exponent == 0 && 0)) \
            return base == 1 ? 1 : base == (T)-1 ? (exponent & 1 ? (T)-1 : 1) : 0; \
        U result = 1, factor = (U)base; \
        for (U n = (U)exponent; n; n >>= 1, factor *= factor) \
            if (n & 1) result *= factor; \
        return (T)result; \
    }
SIGNED(int32_t, uint32_t, i32, 32)
SIGNED(int64_t, uint64_t, i64, 64)
UNSIGNED(uint64_t, u64, 64)
BOTH(int32_t, uint32_t, i32)
BOTH(int64_t, uint64_t, i64)
BOTH(uint64_t, uint64_t, u64)
#undef SIGNED
#undef UNSIGNED
#undef BOTH

#endif
