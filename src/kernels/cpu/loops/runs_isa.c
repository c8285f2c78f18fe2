/* The functions of runs.h.  They look at a block first, and take the cheap form where that is enough: a comparison per number, of a block
 * that stays in the first cache. */
#include "kernels/cpu/loops/runs.h"
#include "kernels/cpu/math/maths.h"
#include "kernels/cpu/math/maths_wide.h"

/* A block is looked through for arguments that need the long reduction (a NaN counts as one); if there is none, it isn't computed.
 * Where it is, small arguments still take the short one, since the two round differently: an element's result doesn't depend on its
 * neighbours. */
#define TD_ANGLE_RUN(name, T, S, LIMIT, ABS) \
    void TD_RUN(name, S)(const T *x, T *y, int64_t n) \
    { \
        for (int64_t start = 0; start < n; start += TD_RUN_BLOCK) { \
            int64_t end = start + TD_RUN_BLOCK < n ? start + TD_RUN_BLOCK : n; \
            int large = 0; \
            _Pragma("omp simd reduction(|:large)") \
            for (int64_t i = start; i < end; i++) \
                large |= !(ABS(x[i]) < LIMIT); \
            if (large) { \
                _Pragma("omp simd") \
                for (int64_t i = start; i < end; i++) \
                    y[i] = ABS(x[i]) < LIMIT ? td_##name##_small_##S(x[i]) : td_##name##_##S(x[i]); \
            } else { \
                _Pragma("omp simd") \
                for (int64_t i = start; i < end; i++) \
                    y[i] = td_##name##_small_##S(x[i]); \
            } \
        } \
    }
TD_ANGLE_RUN(sin, float, f32, TD_ANGLE_SMALL_F32, __builtin_fabsf)
TD_ANGLE_RUN(cos, float, f32, TD_ANGLE_SMALL_F32, __builtin_fabsf)
TD_ANGLE_RUN(tan, float, f32, TD_ANGLE_SMALL_F32, __builtin_fabsf)
TD_ANGLE_RUN(sin, double, f64, TD_ANGLE_SMALL_F64, __builtin_fabs)
TD_ANGLE_RUN(cos, double, f64, TD_ANGLE_SMALL_F64, __builtin_fabs)
TD_ANGLE_RUN(tan, double, f64, TD_ANGLE_SMALL_F64, __builtin_fabs)
#undef TD_ANGLE_RUN

/* The same of quotients: near ones are exact in one step and vectorise, far ones go one by one. */
#define TD_DIVISION_RUN(name, T, S, RESULT) \
    void TD_RUN(name, S)(const T *a, const T *b, T *y, int64_t n) \
    { \
        for (int64_t start = 0; start < n; start += TD_RUN_BLOCK) { \
            int64_t end = start + TD_RUN_BLOCK < n ? start + TD_RUN_BLOCK : n; \
            int far = 0; \
            _Pragma("omp simd reduction(|:far)") \
            for (int64_t i = start; i < end; i++) \
                far |= !td_fmod_is_near_##S(a[i], b[i]); \
            if (far) { \
                for (int64_t i = start; i < end; i++) \
                    y[i] = td_##name##_##S(a[i], b[i]); \
            } else { \
                _Pragma("omp simd") \
                for (int64_t i = start; i < end; i++) { \
                    const T mod = td_fmod_near_##S(a[i], b[i]); \
                    y[i] = RESULT; \
                } \
            } \
        } \
    }
TD_DIVISION_RUN(fmod, float, f32, mod)
TD_DIVISION_RUN(remainder, float, f32, td_remainder_from_fmod_f32(mod, b[i]))
TD_DIVISION_RUN(floor_div, float, f32, td_floor_div_from_fmod_f32(a[i], b[i], mod))
TD_DIVISION_RUN(fmod, double, f64, mod)
TD_DIVISION_RUN(remainder, double, f64, td_remainder_from_fmod_f64(mod, b[i]))
TD_DIVISION_RUN(floor_div, double, f64, td_floor_div_from_fmod_f64(a[i], b[i], mod))
#undef TD_DIVISION_RUN

#ifdef TD_AVX512
/* The second cache answers too late for so many instructions in flight: with what comes fetched, exp takes a fifth less. */
enum { AHEAD = 128 };
#define TD_WIDE_RUN(name) \
    void TD_RUN(name, f32)(const float *x, float *y, int64_t n) \
    { \
        int64_t i = 0; \
        for (; i + 16 <= n; i += 16) { \
            __builtin_prefetch(x + i + AHEAD); \
            _mm512_storeu_ps(y + i, td_wide_##name(_mm512_loadu_ps(x + i))); \
        } \
        if (i < n) { \
            const __mmask16 rest = (__mmask16)((1u << (n - i)) - 1); \
            _mm512_mask_storeu_ps(y + i, rest, td_wide_##name(_mm512_maskz_loadu_ps(rest, x + i))); \
        } \
    }
TD_WIDE_RUN(exp)
TD_WIDE_RUN(erf)
TD_WIDE_RUN(tanh)
TD_WIDE_RUN(sigmoid)
TD_WIDE_RUN(sqrt)
#undef TD_WIDE_RUN
#else
#define TD_PLAIN_RUN(name) \
    void TD_RUN(name, f32)(const float *x, float *y, int64_t n) \
    { \
        _Pragma("omp simd") \
        for (int64_t i = 0; i < n; i++) \
            y[i] = td_##name##_f32(x[i]); \
    }
TD_PLAIN_RUN(exp)
TD_PLAIN_RUN(erf)
TD_PLAIN_RUN(tanh)
TD_PLAIN_RUN(sigmoid)
TD_PLAIN_RUN(sqrt)
#undef TD_PLAIN_RUN
#endif
