/* What generated loops stand on: the inlines that formulas call, and scalar parameters in each compute dtype. */
#ifndef TD_KERNELS_CPU_FORMULA_H
#define TD_KERNELS_CPU_FORMULA_H
#include <complex.h>
#include "kernels/cpu/isa.h"
#include "kernels/cpu/maths.h"
#include "kernels/cpu/runs.h"
#include "ops/pointwise.h"

#define TD_COMPLEX_C64(real, imag)  __builtin_complex((float)(real), (float)(imag))
#define TD_COMPLEX_C128(real, imag) __builtin_complex((double)(real), (double)(imag))

static inline double td_scalar_f64(const td_scalar *s)
{
    return s->kind == TD_SCALAR_FLOAT || s->kind == TD_SCALAR_COMPLEX ? s->d : s->kind == TD_SCALAR_UINT ? (double)s->u : (double)s->i;
}
static inline float td_scalar_f32(const td_scalar *s) { return (float)td_scalar_f64(s); }
static inline double _Complex td_scalar_c128(const td_scalar *s)
{
    return __builtin_complex(td_scalar_f64(s), s->kind == TD_SCALAR_COMPLEX ? s->imag : 0.0);
}
static inline float _Complex td_scalar_c64(const td_scalar *s)
{
    return __builtin_complex((float)td_scalar_f64(s), s->kind == TD_SCALAR_COMPLEX ? (float)s->imag : 0.0f);
}
static inline int64_t td_scalar_i64(const td_scalar *s)
{
    return s->kind == TD_SCALAR_FLOAT || s->kind == TD_SCALAR_COMPLEX ? (int64_t)s->d : s->i;
}
static inline uint64_t td_scalar_u64(const td_scalar *s) { return (uint64_t)td_scalar_i64(s); }
static inline int32_t  td_scalar_i32(const td_scalar *s) { return (int32_t)td_scalar_i64(s); }

#endif
