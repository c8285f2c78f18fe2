/* The larger and the smaller of numbers, lane by lane.  A NaN wins: one in x by a comparison that doesn't wait for `a`, one in `a`
 * since the instruction gives its second operand where a comparison has no answer.  GCC finds neither in plain C. */
#ifndef TD_KERNELS_CPU_ISA_EXTREMES_H
#define TD_KERNELS_CPU_ISA_EXTREMES_H
#include <stdint.h>
#define TD_SIMD_INTRINSICS
#include "base/simd.h"
#include "kernels/cpu/isa/vectors.h"

/* Four doubles, whatever the machine's vectors are;
 * by macros, since without AVX there is no settled convention for passing them. */
typedef double  four_f64 __attribute__((vector_size(32), aligned(8), may_alias));
typedef int64_t four_i64 __attribute__((vector_size(32)));
#if VBYTES > 16
#define FOUR_OF(op, a, x) _mm256_blendv_pd(_mm256_##op##_pd(x, a), x, _mm256_cmp_pd(x, x, _CMP_UNORD_Q))
#define max_four(a, x) FOUR_OF(max, a, x)
#define min_four(a, x) FOUR_OF(min, a, x)
#else
#define FOUR_PICK(mask, x, a) ((four_f64)(((mask) & (four_i64)(x)) | (~(mask) & (four_i64)(a))))
#define max_four(a, x) FOUR_PICK(((x) > (a)) | ((x) != (x)), x, a)
#define min_four(a, x) FOUR_PICK(((x) < (a)) | ((x) != (x)), x, a)
#endif

#if VBYTES == 64
#define EXTREME_OF(op, S, s)                                                                          \
    INLINE vec_##S op##_vector_##S(vec_##S a, vec_##S x)                                              \
    {                                                                                                 \
        const vec_##S most = _mm512_##op##_p##s(x, a);                                                \
        return _mm512_mask_mov_p##s(most, _mm512_cmp_p##s##_mask(x, x, _CMP_UNORD_Q), x);             \
    }
#elif VBYTES == 32
#define EXTREME_OF(op, S, s)                                                                          \
    INLINE vec_##S op##_vector_##S(vec_##S a, vec_##S x)                                              \
    {                                                                                                 \
        return _mm256_blendv_p##s(_mm256_##op##_p##s(x, a), x, _mm256_cmp_p##s(x, x, _CMP_UNORD_Q));  \
    }
#else
#define better_max >
#define better_min <
#define EXTREME_OF(op, S, s)                                                                          \
    INLINE vec_##S op##_vector_##S(vec_##S a, vec_##S x)                                              \
    {                                                                                                 \
        for (unsigned i = 0; i < sizeof a / sizeof a[0]; i++)                                         \
            a[i] = ((x[i] better_##op a[i]) | (x[i] != x[i])) ? x[i] : a[i];                          \
        return a;                                                                                     \
    }
#endif
EXTREME_OF(max, f32, s)
EXTREME_OF(min, f32, s)
EXTREME_OF(max, f64, d)
EXTREME_OF(min, f64, d)
#undef EXTREME_OF

#endif
