/* The functions of mathematics that kernels are made of, by type, and forms of a few of them for whole runs.
 *
 * td_exp_f32, td_exp_f64, td_exp_c64, ...: scalar inlines, see the four files.  A loop cannot branch and stay
 * vectorised, so sine, cosine and tangent always pay for huge arguments there, and loops over fmod, remainder and floor
 * division, which branch, are scalar.  Their td_..._run_ functions look at a block first and take the cheap form where
 * that is enough: five times as fast.  Those of exp, erf, tanh and sqrt are in maths_wide.h.  Generated loops use them
 * (RUNS in codegen/value.py). */
#ifndef TD_KERNELS_CPU_MATHS_H
#define TD_KERNELS_CPU_MATHS_H

#include "kernels/cpu/maths_f32.h"
#include "kernels/cpu/maths_f64.h"
#include "kernels/cpu/maths_complex.h"
#include "kernels/cpu/maths_int.h"
#include "kernels/cpu/maths_wide.h"
#include "kernels/cpu/special.h"

enum { TD_RUN_BLOCK = 256 };

/* y[i] = td_sin_f32(x[i]) and so on, for i below n; y may be x. */
#define TD_ANGLE_RUN(name, T, S, LIMIT, ABS) \
    static inline void td_##name##_run_##S(const T *x, T *y, int64_t n) \
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
                    y[i] = td_##name##_##S(x[i]); \
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

/* y[i] = td_fmod_f32(a[i], b[i]) and so on, for i below n; y may be a or b. */
#define TD_DIVISION_RUN(name, T, S, RESULT) \
    static inline void td_##name##_run_##S(const T *a, const T *b, T *y, int64_t n) \
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

#ifndef __AVX512F__
#define TD_PLAIN_RUN(name) \
    static inline void td_##name##_run_f32(const float *x, float *y, int64_t n) \
    { \
        _Pragma("omp simd") \
        for (int64_t i = 0; i < n; i++) \
            y[i] = td_##name##_f32(x[i]); \
    }
TD_PLAIN_RUN(exp)
TD_PLAIN_RUN(erf)
TD_PLAIN_RUN(tanh)
TD_PLAIN_RUN(sqrt)
#undef TD_PLAIN_RUN
#endif

#endif
