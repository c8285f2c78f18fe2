/* Which instruction-set level this machine has, in the sense of the x86-64 psABI's levels.
 *
 * A level counts only if the operating system saves its registers too: XCR0 says so.  TEDE_CPU=v2|v3|v4 forces a
 * lower level; a higher one than the machine has is not believed.  Elsewhere than on x86-64 the lowest level stands for
 * the compiler's own baseline. */
#include "base.h"

#include <stdlib.h>

#if defined(__x86_64__)
#include <cpuid.h>

static uint64_t enabled_state(void)
{
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

static bool all(uint32_t bits, uint32_t wanted)
{
    return (bits & wanted) == wanted;
}

static td_isa detect(void)
{
    enum { YMM = 0x6, ZMM = 0xe6 };    /* XCR0: SSE and AVX state; these, opmask and both halves of ZMM */
    unsigned a, b, c, d, c1, b7, c80;
    if (!__get_cpuid(1, &a, &b, &c1, &d) || !all(c1, bit_OSXSAVE))
        return TD_V2;
    if (!__get_cpuid_count(7, 0, &a, &b7, &c, &d) || !__get_cpuid(0x80000001, &a, &b, &c80, &d))
        return TD_V2;
    uint64_t state = enabled_state();
    if ((state & YMM) != YMM || !all(c1, bit_AVX | bit_F16C | bit_FMA | bit_MOVBE) ||
        !all(b7, bit_AVX2 | bit_BMI | bit_BMI2) || !all(c80, bit_ABM))
        return TD_V2;
    if ((state & ZMM) != ZMM || !all(b7, bit_AVX512F | bit_AVX512BW | bit_AVX512CD | bit_AVX512DQ | bit_AVX512VL))
        return TD_V3;
    return TD_V4;
}
#else
static td_isa detect(void)
{
    return TD_V2;
}
#endif

const char *td_isa_name(td_isa isa)
{
    static const char *const names[TD_ISAS] = {"v2", "v3", "v4"};
    return (unsigned)isa < TD_ISAS ? names[isa] : "unknown";
}

td_isa td_cpu_isa(void)
{
    static int known = -1;    /* every thread would compute the same, so a race is harmless */
    int isa = __atomic_load_n(&known, __ATOMIC_RELAXED);
    if (TD_LIKELY(isa >= 0))
        return (td_isa)isa;
    isa = detect();
    const char *forced = getenv("TEDE_CPU");
    for (int lower = 0; forced && lower < isa; lower++)
        if (strcmp(forced, td_isa_name((td_isa)lower)) == 0)
            isa = lower;
    __atomic_store_n(&known, isa, __ATOMIC_RELAXED);
    return (td_isa)isa;
}
