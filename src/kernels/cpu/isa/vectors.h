/* Vectors as wide as the instruction set's, for kernels that spell out which numbers stay in registers. */
#ifndef TD_KERNELS_CPU_ISA_VECTORS_H
#define TD_KERNELS_CPU_ISA_VECTORS_H
#include <stdint.h>
#include "base/simd.h"

#define INLINE static inline __attribute__((always_inline))

typedef float  vec_f32 __attribute__((vector_size(VBYTES), aligned(4), may_alias));
typedef double vec_f64 __attribute__((vector_size(VBYTES), aligned(8), may_alias));

typedef int32_t place_f32;      /* an integer as wide as the number */
typedef int64_t place_f64;

/* sum += a * b.  Spelled out, since GCC otherwise lets the sum change places with a factor, whose register is free then, and
 * moves and spills sums in the inner kernel for that: a tenth of its time. */
#ifdef TD_ADD_PRODUCT
#define ADD_PRODUCT(name, V, instruction)                                 \
    INLINE void name(V *sum, V a, V b)                                    \
    {                                                                     \
        TD_ADD_PRODUCT(instruction, *sum, a, b);                          \
    }
#else
#define ADD_PRODUCT(name, V, instruction) \
    INLINE void name(V *sum, V a, V b)    \
    {                                     \
        *sum += a * b;                    \
    }
#endif
ADD_PRODUCT(add_product_f32, vec_f32, TD_ADD_PRODUCT_F32)
ADD_PRODUCT(add_product_f64, vec_f64, TD_ADD_PRODUCT_F64)

/* The lower (upper) halves of two vectors, their lanes alternating. */
#define LOW_16  0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define HIGH_16 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#define LOW_8  0, 8, 1, 9, 2, 10, 3, 11
#define HIGH_8 4, 12, 5, 13, 6, 14, 7, 15
#define LOW_4  0, 4, 1, 5
#define HIGH_4 2, 6, 3, 7
#define LOW_2  0, 2
#define HIGH_2 1, 3
/* Every second number of two vectors. */
#define EVEN_2  0, 2
#define EVEN_4  EVEN_2, 4, 6
#define EVEN_8  EVEN_4, 8, 10, 12, 14
#define EVEN_16 EVEN_8, 16, 18, 20, 22, 24, 26, 28, 30
#define EVEN_32 EVEN_16, 32, 34, 36, 38, 40, 42, 44, 46, 48, 50, 52, 54, 56, 58, 60, 62
#if VBYTES == 64
#define EVEN_b16 EVEN_32
#define EVEN_f32 EVEN_16
#define EVEN_f64 EVEN_8
#elif VBYTES == 32
#define EVEN_b16 EVEN_16
#define EVEN_f32 EVEN_8
#define EVEN_f64 EVEN_4
#else
#define EVEN_b16 EVEN_8
#define EVEN_f32 EVEN_4
#define EVEN_f64 EVEN_2
#endif
#if VBYTES == 64
#define LOW_F32  LOW_16
#define HIGH_F32 HIGH_16
#define LOW_F64  LOW_8
#define HIGH_F64 HIGH_8
#elif VBYTES == 32
#define LOW_F32  LOW_8
#define HIGH_F32 HIGH_8
#define LOW_F64  LOW_4
#define HIGH_F64 HIGH_4
#else
#define LOW_F32  LOW_4
#define HIGH_F32 HIGH_4
#define LOW_F64  LOW_2
#define HIGH_F64 HIGH_2
#endif
INLINE vec_f32 zip_low_f32(vec_f32 a, vec_f32 b) { return __builtin_shufflevector(a, b, LOW_F32); }
INLINE vec_f32 zip_high_f32(vec_f32 a, vec_f32 b) { return __builtin_shufflevector(a, b, HIGH_F32); }
INLINE vec_f64 zip_low_f64(vec_f64 a, vec_f64 b) { return __builtin_shufflevector(a, b, LOW_F64); }
INLINE vec_f64 zip_high_f64(vec_f64 a, vec_f64 b) { return __builtin_shufflevector(a, b, HIGH_F64); }

/* The sums of four vectors' numbers, all at once. */
#define TOTALS(S, T)                                                                                             \
    INLINE void totals_##S(vec_##S a, vec_##S b, vec_##S c, vec_##S d, T *to)                                    \
    {                                                                                                            \
        enum { COUNT = VBYTES / sizeof(T) };                                                                     \
        const vec_##S ab = zip_low_##S(a, b) + zip_high_##S(a, b), cd = zip_low_##S(c, d) + zip_high_##S(c, d);  \
        if (COUNT == 2) {                                                                                        \
            to[0] = ab[0], to[1] = ab[1], to[2] = cd[0], to[3] = cd[1];                                          \
            return;                                                                                              \
        }                                                                                                        \
        const vec_##S acbd = zip_low_##S(ab, cd) + zip_high_##S(ab, cd);                                         \
        T sums[4] = {0};                                                                                         \
        for (int i = 0; i < COUNT; i += 4)                                                                       \
            for (int j = 0; j < 4; j++)                                                                          \
                sums[j] += acbd[i + j];                                                                          \
        to[0] = sums[0], to[1] = sums[2], to[2] = sums[1], to[3] = sums[3];                                      \
    }
TOTALS(f32, float)
TOTALS(f64, double)

#endif
