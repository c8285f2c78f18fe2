/* CPU feature detection: which instruction-set level of base/levels.h this machine has.
 *
 * A level counts only if the operating system saves its registers too: on x86-64 XCR0 says so.  TEDE_CPU=name forces a lower
 * level; a higher one than the machine has is not believed. */
#include "base/base.h"
#include "base/levels.h"
#include "base/once.h"
#include "base/tiles.h"

#include <stdlib.h>

static bool td_has_any(void) { return true; }

#if defined(__x86_64__)
#include <cpuid.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

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

enum { YMM = 0x6, ZMM = 0xe6 };    /* XCR0: SSE and AVX state; these, opmask and both halves of ZMM */

static bool td_has_v3(void)
{
    unsigned a, b, c, d, c1, b7, c80;
    if (!__get_cpuid(1, &a, &b, &c1, &d) || !all(c1, bit_OSXSAVE))
        return false;
    if (!__get_cpuid_count(7, 0, &a, &b7, &c, &d) || !__get_cpuid(0x80000001, &a, &b, &c80, &d))
        return false;
    return (enabled_state() & YMM) == YMM && all(c1, bit_AVX | bit_F16C | bit_FMA | bit_MOVBE) &&
           all(b7, bit_AVX2 | bit_BMI | bit_BMI2) && all(c80, bit_ABM);
}

static bool td_has_v4(void)
{
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (enabled_state() & ZMM) == ZMM &&
           all(b, bit_AVX512F | bit_AVX512BW | bit_AVX512CD | bit_AVX512DQ | bit_AVX512VL);
}
#elif defined(__aarch64__)
#include <sys/auxv.h>

static bool td_has_sve(void)
{
    enum { SVE = 1 << 22 };         /* HWCAP_SVE of the kernel's <asm/hwcap.h> */
    return getauxval(AT_HWCAP) & SVE;
}
#endif

static const struct level {
    const char *name;
    bool (*has)(void);
} levels[TD_ISAS] = {
#define LEVEL(name, constant, test, ...) [constant] = {#name, test},
    TD_ISA_LEVELS(LEVEL)
#undef LEVEL
};

#if defined(__x86_64__)
bool td_cpu_multiplies_bf16(void)
{
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & 1u << 5);
}

bool td_cpu_multiplies_bytes(void)
{
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (c & 1u << 11);
}

bool td_cpu_permutes_bytes(void)
{
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (c & 1u << 1);
}

/* The kernel makes room for the tiles of those threads alone whose process has asked for it; it refuses where a thread's stack for signals is
 * too small for them.  No level has them: where one is forced, they aren't used. */
static bool tiles;
static int look_for_tiles(void)
{
    enum { TILES = 3 << 17, TILE_DATA = 18, REQUEST = 0x1023, WANTED = 3 << 24 | 1 << 22 };     /* XCR0; arch_prctl: ARCH_REQ_XCOMP_PERM; CPUID.7.0:EDX */
    unsigned a, b, c, d;
    tiles = !getenv("TEDE_CPU") && __get_cpuid_count(7, 0, &a, &b, &c, &d) && all(d, WANTED) && (enabled_state() & TILES) == TILES;
#if defined(__linux__)
    tiles = tiles && syscall(SYS_arch_prctl, REQUEST, TILE_DATA) == 0;
#else
    tiles = false;
#endif
    return 0;
}
bool td_cpu_multiplies_tiles(void)
{
    static td_once once;
    td_once_run(&once, look_for_tiles);
    return tiles;
}

static bool copies_strings;
static int look_for_strings(void)
{
    unsigned a, b, c, d;
    copies_strings = __get_cpuid_count(7, 0, &a, &b, &c, &d) && d >> 4 & 1;
    return 0;
}
bool td_cpu_copies_strings(void)
{
    static td_once once;
    td_once_run(&once, look_for_strings);
    return copies_strings;
}
#else
bool td_cpu_multiplies_bf16(void) { return false; }
bool td_cpu_multiplies_bytes(void) { return false; }
bool td_cpu_permutes_bytes(void) { return false; }
bool td_cpu_multiplies_tiles(void) { return false; }
bool td_cpu_copies_strings(void) { return false; }
#endif

const char *td_isa_name(td_isa isa)
{
    return isa >= 0 && isa < TD_ISAS ? levels[isa].name : "unknown";
}

static td_isa best;
static int look_for_level(void)
{
    td_isa isa = 0;
    while (isa + 1 < TD_ISAS && levels[isa + 1].has())
        isa++;
    const char *forced = getenv("TEDE_CPU");
    for (td_isa lower = 0; forced && lower < isa; lower++)
        if (strcmp(forced, levels[lower].name) == 0)
            isa = lower;
    best = isa;
    return 0;
}
td_isa td_cpu_isa(void)
{
    static td_once once;
    td_once_run(&once, look_for_level);
    return best;
}
