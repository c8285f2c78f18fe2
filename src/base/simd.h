/* Compiler and processor specifics (vector extensions, intrinsics): the one file that knows which they are.
 *
 * What this file names, others test: TD_FUSED, VBYTES, TD_AVX512 and so on, never the compiler's own macros, and it alone includes
 * the compilers' headers of intrinsics.  Those take half a second to read, so they come only where TD_SIMD_INTRINSICS is defined
 * before the file is included. */
#ifndef TD_BASE_SIMD_H
#define TD_BASE_SIMD_H
#include <stddef.h>
#include <stdint.h>

/* ---- what a file is compiled for: the level of base/levels.h in kernels, the lowest one elsewhere */

/* A multiplication and an addition are one instruction, rounded once. */
#if defined(__FMA__) || defined(__aarch64__)
#define TD_FUSED
#endif

/* Bytes of the widest registers that have a fixed size. */
#if defined(__AVX512F__)
#define VBYTES 64
#elif defined(__AVX2__)
#define VBYTES 32
#else
#define VBYTES 16
#endif

/* AVX-512: sixteen floats with masks, tables in registers; kernels may have a form of its intrinsics beside the plain one. */
#if defined(__AVX512F__) && defined(__AVX512VL__)
#define TD_AVX512
#endif
/* AVX2 at least, whose intrinsics may be used; the conversions of float16; stores that go around the caches. */
#if defined(__AVX2__)
#define TD_AVX2
#endif
/* Products of bytes that are added in pairs, in 16 bytes: x86's, and those of aarch64. */
#if defined(__SSSE3__)
#define TD_SSSE3
#endif
#if defined(__aarch64__) && defined(__ARM_NEON)
#define TD_ARM_VECTORS
#endif
#if defined(__F16C__)
#define TD_CONVERTS_HALVES
#endif
#if defined(__SSE2__)
#define TD_STREAMS
#endif
/* The same by the compiler's names, which need no header. */
#if defined(__F16C__) && defined(__GNUC__) && !defined(__clang__)
#define TD_HALVES_BY_NAME
#endif

/* sum += a * b in whole registers, by the instruction that the processor calls so. */
#if defined(TD_AVX2)
#define TD_ADD_PRODUCT(instruction, sum, a, b) __asm__(instruction " %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b))
#define TD_ADD_PRODUCT_F32 "vfmadd231ps"
#define TD_ADD_PRODUCT_F64 "vfmadd231pd"
#elif defined(__aarch64__)
#define TD_ADD_PRODUCT(lanes, sum, a, b) __asm__("fmla %0." lanes ", %1." lanes ", %2." lanes : "+w"(sum) : "w"(a), "w"(b))
#define TD_ADD_PRODUCT_F32 "4s"
#define TD_ADD_PRODUCT_F64 "2d"
#endif

/* ---- functions for more than that, in a file that is compiled once; td_cpu_isa() says whether they may be called */

#if defined(__x86_64__)
#define TD_FOR_ANY __attribute__((target("sse4.2")))
#define TD_FOR_V3  __attribute__((target("avx2,fma,f16c")))
#if defined(__clang__)
#define TD_FOR_V4 __attribute__((target("avx512f,avx512bw,avx512cd,avx512dq,avx512vl,fma,f16c")))
#else                               /* GCC takes half of the widest registers if not asked */
#define TD_FOR_V4 __attribute__((target("avx512f,avx512bw,avx512cd,avx512dq,avx512vl,fma,f16c,prefer-vector-width=512")))
#endif
#endif

/* ---- single instructions */

/* In a loop that waits for another thread. */
static inline void td_pause(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Behind stores that went around the caches. */
static inline void td_fence(void)
{
#if defined(__SSE2__)
    __builtin_ia32_sfence();
#endif
}

/* A number that is another one each time. */
static inline uint64_t td_ticks(void)
{
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#else
    static uint64_t ticks;
    return __atomic_add_fetch(&ticks, UINT64_C(0x9e3779b97f4a7c15), __ATOMIC_RELAXED);
#endif
}

/* The processor's own copy of strings, if td_cpu_copies_strings(). */
static inline void td_copy_string(char *to, const char *from, int64_t bytes)
{
#if defined(__x86_64__)
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
#else
    __builtin_memcpy(to, from, (size_t)bytes);
#endif
}

/* Lane i of the result is lane which[i] of the vectors a and b, one behind the other.  Lanes that are known to the compiler are
 * better said by __builtin_shufflevector, which GCC and Clang both have. */
#if defined(__GNUC__) && !defined(__clang__)
#define TD_SHUFFLE(a, b, which) __builtin_shuffle(a, b, which)
#else
#define TD_SHUFFLE(a, b, which)                                                                                  \
    (__extension__({                                                                                             \
        const __typeof__(a) a_ = (a), b_ = (b);                                                                  \
        const __typeof__(which) which_ = (which);                                                                \
        enum { LANES_ = sizeof a_ / sizeof a_[0] };                                                              \
        __typeof__((a) + (b)) shuffled_ = a_;                                                                    \
        for (int lane_ = 0; lane_ < (int)LANES_; lane_++) {                                                      \
            const int from_ = (int)which_[lane_] & (2 * LANES_ - 1);                                             \
            shuffled_[lane_] = from_ < (int)LANES_ ? a_[from_] : b_[from_ - LANES_];                             \
        }                                                                                                        \
        shuffled_;                                                                                               \
    }))
#endif

#endif

#if defined(TD_SIMD_INTRINSICS) && !defined(TD_SIMD_INTRINSICS_HERE)
#define TD_SIMD_INTRINSICS_HERE
#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(TD_ARM_VECTORS)
#include <arm_neon.h>
#endif
#endif
