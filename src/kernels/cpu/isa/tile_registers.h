/* Products of tiles (AMX): registers of 16 rows of 64 bytes, which a thread shapes before it uses them and releases afterwards.
 *
 * td_cpu_multiplies_tiles says whether they are there; only the level of AVX-512 is asked. A register's number is written out. The compiler doesn't
 * know of these registers, and so leaves them alone. */
#ifndef TD_KERNELS_CPU_ISA_TILE_REGISTERS_H
#define TD_KERNELS_CPU_ISA_TILE_REGISTERS_H
#include <stdint.h>

#define TILE_LOAD(tile, from, stride) __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #tile : : "r"(from), "r"((int64_t)(stride)) : "memory")
#define TILE_STORE(tile, to, stride) __asm__ volatile("tilestored %%tmm" #tile ", (%0,%1,1)" : : "r"(to), "r"((int64_t)(stride)) : "memory")
#define TILE_ZERO(tile) __asm__ volatile("tilezero %%tmm" #tile : : : "memory")
/* sums += a times b: bytes without a sign and with one, four of a row at a time; bfloat16, two at a time */
#define TILE_ADD_BYTES(sums, a, b) __asm__ volatile("tdpbusd %%tmm" #b ", %%tmm" #a ", %%tmm" #sums : : : "memory")
#define TILE_ADD_PAIRS(sums, a, b) __asm__ volatile("tdpbf16ps %%tmm" #b ", %%tmm" #a ", %%tmm" #sums : : : "memory")

typedef struct tile_shapes {
    uint8_t  palette, start, reserved[14];
    uint16_t row_bytes[16];
    uint8_t  rows[16];
} tile_shapes;

static inline void shape_tiles(const tile_shapes *shapes) { __asm__ volatile("ldtilecfg %0" : : "m"(*shapes) : "memory"); }
static inline void release_tiles(void) { __asm__ volatile("tilerelease" : : : "memory"); }

#endif
