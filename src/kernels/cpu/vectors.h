/* Vectors as wide as the instruction set's, for kernels that spell out which numbers stay in registers. */
#ifndef TD_KERNELS_CPU_VECTORS_H
#define TD_KERNELS_CPU_VECTORS_H

#if defined(__AVX512F__)
#define VBYTES 64
#elif defined(__AVX2__)
#define VBYTES 32
#else
#define VBYTES 16
#endif

typedef float  vec_f32 __attribute__((vector_size(VBYTES), aligned(4), may_alias));
typedef double vec_f64 __attribute__((vector_size(VBYTES), aligned(8), may_alias));

/* sum += a * b.  Spelled out, since GCC otherwise lets the sum change places with a factor, whose register is free then, and
 * moves and spills sums in the inner kernel for that: a tenth of its time. */
#if defined(__AVX512F__) || defined(__FMA__)
#define ADD_PRODUCT(name, V, instruction)                                 \
    static inline __attribute__((always_inline)) void name(V *sum, V a, V b)                                    \
    {                                                                     \
        __asm__(instruction " %2, %1, %0" : "+v"(*sum) : "v"(a), "v"(b)); \
    }
#else
#define ADD_PRODUCT(name, V, instruction) \
    static inline __attribute__((always_inline)) void name(V *sum, V a, V b)    \
    {                                     \
        *sum += a * b;                    \
    }
#endif
ADD_PRODUCT(add_product_f32, vec_f32, "vfmadd231ps")
ADD_PRODUCT(add_product_f64, vec_f64, "vfmadd231pd")

#endif
