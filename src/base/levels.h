/* The instruction-set levels that kernels are compiled for: one block for each architecture, lowest level first.
 *
 * X(name, constant, test, scope, effort, flags, ...), where
 *  name      ends the names of the level's tables and loops, and is what TEDE_CPU=name forces;
 *  constant  is its td_isa;
 *  test      in base/cpu.c says whether this machine has it; a level counts only if those before it do;
 *  scope     ALL kernels are compiled for it, or LOOPS: only those that the generator makes from formulas;
 *  effort    FULL, or LIGHT: compiled in less time, for what few machines have;
 *  flags     are the compiler's.  What isn't a kernel is compiled with those of the lowest level.
 * tools/levels.py reads the list for meson through the compiler, so that a compiler for another machine finds its own. */
#ifndef TD_BASE_LEVELS_H
#define TD_BASE_LEVELS_H

#if defined(__x86_64__)     /* the x86-64 psABI's */
#define TD_ISA_LOWEST v2
#define TD_ISA_LEVELS(X, ...)                                                                               \
    X(v2, TD_V2, td_has_any, ALL, LIGHT, "-march=x86-64-v2", __VA_ARGS__)                                   \
    X(v3, TD_V3, td_has_v3, ALL, FULL, "-march=x86-64-v3", __VA_ARGS__)                                     \
    X(v4, TD_V4, td_has_v4, ALL, FULL, "-march=x86-64-v4 -mprefer-vector-width=512", __VA_ARGS__)
#elif defined(__aarch64__)
#define TD_ISA_LOWEST neon
#define TD_ISA_LEVELS(X, ...)                                                                               \
    X(neon, TD_NEON, td_has_any, ALL, FULL, "-march=armv8-a", __VA_ARGS__)                                  \
    X(sve, TD_SVE, td_has_sve, LOOPS, FULL, "-march=armv8.2-a+sve", __VA_ARGS__)
#else                       /* what the compiler takes for granted */
#define TD_ISA_LOWEST base
#define TD_ISA_LEVELS(X, ...) X(base, TD_BASE, td_has_any, ALL, FULL, "", __VA_ARGS__)
#endif

#ifndef TD_ISA_LEVELS_ONLY
#include <tede/base.h>

#define TD_ISA_CONSTANT_(name, constant, ...) constant,
enum { TD_ISA_LEVELS(TD_ISA_CONSTANT_) TD_ISAS };
#undef TD_ISA_CONSTANT_

/* Apart from levels: dot products of bfloat16 (AVX512_BF16). */
bool td_cpu_multiplies_bf16(void);
/* Dot products of bytes (AVX512_VNNI). */
bool td_cpu_multiplies_bytes(void);
/* Tables of 128 bytes (AVX512_VBMI). */
bool td_cpu_permutes_bytes(void);
/* Whether the processor's own string copy is the fastest for any size (FSRM, "fast short rep mov").  It knows from the start
 * that whole lines will be written, so none of them is read first. */
bool td_cpu_copies_strings(void);
#endif

#endif
