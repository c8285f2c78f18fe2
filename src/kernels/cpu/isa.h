/* One kernel file, three objects.
 *
 * Files that gain from wider vectors are compiled once per instruction-set level: -DTD_ISA=v2 -march=x86-64-v2, and
 * so for v3 and v4.  All in them is static but one const table of functions, named with TD_ISA_NAME; a caller declares
 * the three tables with TD_ISA_TABLES and takes one with TD_ISA_PICK.  (What they share themselves is in runs_isa.c.)  All levels give the same results. */
#ifndef TD_KERNELS_CPU_ISA_H
#define TD_KERNELS_CPU_ISA_H
#include <tede/base.h>

#define TD_ISA_PASTE_(a, b) a##_##b
#define TD_ISA_PASTE(a, b)  TD_ISA_PASTE_(a, b)
#ifdef TD_ISA
#define TD_ISA_NAME(x) TD_ISA_PASTE(x, TD_ISA)
#endif

#define TD_ISA_TABLES(type, name) extern const type name##_v2, name##_v3, name##_v4
#define TD_ISA_PICK(name) \
    (td_cpu_isa() == TD_V4 ? &name##_v4 : td_cpu_isa() == TD_V3 ? &name##_v3 : &name##_v2)

#endif
