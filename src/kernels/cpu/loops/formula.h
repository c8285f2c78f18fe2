/* What generated loops stand on: the inlines that formulas call, and scalar parameters in each compute dtype. */
#ifndef TD_KERNELS_CPU_LOOPS_FORMULA_H
#define TD_KERNELS_CPU_LOOPS_FORMULA_H
#include <complex.h>
#include "kernels/cpu/isa/isa.h"
#include "kernels/cpu/loops/runs.h"
#include "kernels/cpu/math/maths.h"
#include "ops/pointwise/pointwise.h"

#define TD_COMPLEX_C64(real, imag)  __builtin_complex((float)(real), (float)(imag))
#define TD_COMPLEX_C128(real, imag) __builtin_complex((double)(real), (double)(imag))

static inline double td_scalar_f64(const td_scalar *s)
{
    return s->kind == TD_SCALAR_FLOAT || s->kind == TD_SCALAR_COMPLEX ? s->d : s->kind == TD_SCALAR_UINT ? (double)s->u : (double)s->i;
}
/* See Note [Pairs of bfloat16] in codegen/value.py.  A level that is compiled in less time has none: it converts. */
#ifdef TD_ISA_LIGHT
#define TD_OF_PAIRS(name) NULL
#else
#define TD_PAIRS
#define TD_OF_PAIRS(name) TD_ISA_NAME(name)
typedef uint32_t td_pair16 __attribute__((aligned(2), may_alias));
typedef uint16_t td_pair8 __attribute__((aligned(1), may_alias));

static inline float td_low16(uint32_t pair) { return td_bits_f32(pair << 16); }
static inline float td_high16(uint32_t pair) { return td_bits_f32(pair & 0xffff0000u); }
static inline int td_low8(uint16_t pair) { return pair & 0xff; }
static inline int td_high8(uint16_t pair) { return pair >> 8; }
/* A single one behind the pairs. */
#define td_last16(pair) td_bf16_to_f32(*(const td_bf16 *)&(pair))
#define td_last8(pair)  (*(const uint8_t *)&(pair))
static inline void td_last_float(td_pair16 *at, float x) { *(td_bf16 *)at = td_f32_to_bf16(x); }
static inline void td_last_int(td_pair8 *at, int value) { *(uint8_t *)at = (uint8_t)(value != 0); }

/* td_f32_to_bf16, with the result in the upper half. */
static inline uint32_t td_rounded16(float x)
{
    uint32_t bits = td_f32_bits(x), rounded = bits + 0x7fff + (bits >> 16 & 1);
    return x != x ? 0x7fc00000 : rounded;
}
static inline uint32_t td_of_floats(float low, float high)
{
    return td_rounded16(low) >> 16 | (td_rounded16(high) & 0xffff0000u);
}
static inline uint16_t td_of_bools(int low, int high) { return (uint16_t)((low != 0) | (high != 0) << 8); }
#endif

/* See Note [Blocks of float16] in codegen/value.py.  By the compiler's names, since the header with the official ones takes
 * half a second to read. */
#ifdef TD_HALVES_BY_NAME
#define TD_OF_HALVES(name) TD_ISA_NAME(name)
#ifdef TD_AVX512
#define TD_HALVES 16
#define TD_TO_FLOATS(x)  __builtin_ia32_vcvtph2ps512_mask(x, (td_floats){0}, -1, 4)
#define TD_TO_HALVES(x)  __builtin_ia32_vcvtps2ph512_mask(x, 0, (td_halves){0}, -1)
#define TD_ANY_NAN(x)    __builtin_ia32_cmpps512_mask(x, x, 3, -1, 4)
#else
#define TD_HALVES 8
#define TD_TO_FLOATS(x)  __builtin_ia32_vcvtph2ps256(x)
#define TD_TO_HALVES(x)  __builtin_ia32_vcvtps2ph256(x, 0)
#define TD_ANY_NAN(x)    __builtin_ia32_movmskps256(__builtin_ia32_cmpps256(x, x, 3))
#endif
typedef float td_floats __attribute__((vector_size(4 * TD_HALVES), may_alias));
typedef int   td_words __attribute__((vector_size(4 * TD_HALVES), may_alias));
typedef short td_halves __attribute__((vector_size(2 * TD_HALVES), aligned(2), may_alias));
typedef float td_block_of_floats[TD_HALVES] __attribute__((aligned(4 * TD_HALVES)));

static inline void td_widen(float *to, const td_f16 *from) { *(td_floats *)to = TD_TO_FLOATS(*(const td_halves *)from); }
static inline void td_narrow(td_f16 *to, const float *from)
{
    td_floats x = *(const td_floats *)from;
    if (TD_UNLIKELY(TD_ANY_NAN(x))) {    /* the processor would keep its payload */
        const td_words nan = x != x, plain = ((td_words)x & (int)0x80000000) | 0x7fc00000;
        x = (td_floats)((nan & plain) | (~nan & (td_words)x));
    }
    *(td_halves *)to = TD_TO_HALVES(x);
}
#else
#define TD_OF_HALVES(name) NULL
#endif

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
static inline uint8_t  td_scalar_u8(const td_scalar *s)  { return (uint8_t)td_scalar_i64(s); }
static inline int8_t   td_scalar_i8(const td_scalar *s)  { return (int8_t)td_scalar_i64(s); }
static inline int16_t  td_scalar_i16(const td_scalar *s) { return (int16_t)td_scalar_i64(s); }
static inline int32_t  td_scalar_i32(const td_scalar *s) { return (int32_t)td_scalar_i64(s); }

#endif
