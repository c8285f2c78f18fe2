/* Functions of mathematics for whole runs, compiled once per instruction-set level: TD_RUN(sin, f32)(x, y, n).
 *
 * A loop cannot branch and stay vectorised, so as scalar inlines sine, cosine and tangent always pay for huge arguments,
 * and loops over fmod, remainder and floor division, which branch, are scalar: five times as slow as what looks first.
 * exp, erf, tanh, sigmoid and sqrt are as math/maths_wide.h has them.  Generated loops use these (RUNS in codegen/value.py). */
#ifndef TD_KERNELS_CPU_LOOPS_RUNS_H
#define TD_KERNELS_CPU_LOOPS_RUNS_H
#include "kernels/cpu/isa/isa.h"

/* What generated loops hand over at once, when a run is a part of a formula. */
enum { TD_RUN_BLOCK = 256 };

#define TD_RUN(name, S) TD_ISA_NAME(td_##name##_run_##S)

/* y[i] = td_sin_f32(x[i]) and so on, for i below n; y may be x. */
#define TD_RUN_OF_ONE(name, T, S) void TD_RUN(name, S)(const T *x, T *y, int64_t n);
/* y[i] = td_fmod_f32(a[i], b[i]) and so on, for i below n; y may be a or b. */
#define TD_RUN_OF_TWO(name, T, S) void TD_RUN(name, S)(const T *a, const T *b, T *y, int64_t n);
#define TD_RUNS_OF(T, S) \
    TD_RUN_OF_ONE(sin, T, S) TD_RUN_OF_ONE(cos, T, S) TD_RUN_OF_ONE(tan, T, S) \
    TD_RUN_OF_TWO(fmod, T, S) TD_RUN_OF_TWO(remainder, T, S) TD_RUN_OF_TWO(floor_div, T, S)
TD_RUNS_OF(float, f32)
TD_RUNS_OF(double, f64)
TD_RUN_OF_ONE(exp, float, f32)
TD_RUN_OF_ONE(erf, float, f32)
TD_RUN_OF_ONE(tanh, float, f32)
TD_RUN_OF_ONE(sigmoid, float, f32)
TD_RUN_OF_ONE(sqrt, float, f32)
#undef TD_RUN_OF_ONE
#undef TD_RUN_OF_TWO
#undef TD_RUNS_OF

#endif
