/* One kernel file, an object for each instruction-set level.
 *
 * Files that gain from wider vectors are compiled once per level of base/levels.h, with -DTD_ISA=v2 -march=x86-64-v2 for
 * instance.  All in them is static but one const table of functions, named with TD_ISA_NAME; a caller declares
 * the tables with TD_ISA_TABLES and takes one with TD_ISA_PICK.  (What they share themselves is in loops/runs_isa.c.)  Levels
 * may differ in last bits, where products are fused or polynomials are others (docs/accuracy.md has the errors by level); files whose
 * bits are the same at all levels say so. */
#ifndef TD_KERNELS_CPU_ISA_ISA_H
#define TD_KERNELS_CPU_ISA_ISA_H
#include <tede/base.h>
#include "base/levels.h"
#include "base/once.h"

#define TD_ISA_PASTE_(a, b) a##_##b
#define TD_ISA_PASTE(a, b)  TD_ISA_PASTE_(a, b)
#ifdef TD_ISA
#define TD_ISA_NAME(x) TD_ISA_PASTE(x, TD_ISA)
#endif

/* A level for loops alone has no tables: it takes those of the level below it. */
#define TD_ISA_TABLES(type, name) TD_ISA_LEVELS(TD_ISA_TABLE_, type, name) _Static_assert(1, "a semicolon follows")
#define TD_ISA_TABLE_(level, constant, test, scope, effort, flags, type, name) TD_ISA_TABLE_##scope(level, type, name)
#define TD_ISA_TABLE_ALL(level, type, name) extern const type name##_##level;
#define TD_ISA_TABLE_LOOPS(level, type, name)
#define TD_ISA_PICK(name) TD_KEPT(TD_ISA_FIND_(name))
#define TD_ISA_FIND_(name)                                                               \
    (__extension__({                                                                     \
        const td_isa isa_ = td_cpu_isa();                                                \
        __typeof__(&TD_ISA_PASTE(name, TD_ISA_LOWEST)) table_ = &TD_ISA_PASTE(name, TD_ISA_LOWEST); \
        TD_ISA_LEVELS(TD_ISA_TAKE_, name)                                                \
        table_;                                                                          \
    }))
#define TD_ISA_TAKE_(level, constant, test, scope, effort, flags, name) TD_ISA_TAKE_##scope(level, constant, name)
#define TD_ISA_TAKE_ALL(level, constant, name) table_ = isa_ >= (constant) ? &name##_##level : table_;
#define TD_ISA_TAKE_LOOPS(level, constant, name)

#endif
