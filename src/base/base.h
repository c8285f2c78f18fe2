/* Inside the base layer and for everything above it: the allocation seam and the half types.
 *
 * Every allocation of the library goes through td_mem_*, see alloc.c. */
#ifndef TD_BASE_BASE_H
#define TD_BASE_BASE_H

#include <tede/base.h>
#include "base/levels.h"
#include <string.h>

#define TD_LIKELY(x)   __builtin_expect(!!(x), 1)
#define TD_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define TD_COUNT(array) ((int)(sizeof(array) / sizeof *(array)))
/* A thread-local that one instruction reaches.  Such space is scarce in a library that is opened late (a few hundred
 * bytes for all libraries together), so only pointers and flags are declared so. */
#define TD_TLS _Thread_local __attribute__((tls_model("initial-exec")))

/* ---- the seam.  Sized frees, so blocks carry no header.  64-byte aligned from 64 bytes on, 16 below.
 * NULL with TD_E_MEMORY recorded when there is none.  td_mem_alloc(0) gives a unique valid pointer. */
void *td_mem_alloc(size_t size);
void *td_mem_alloc_zero(size_t size);
void  td_mem_free(void *block, size_t size);       /* NULL is fine */
void *td_mem_realloc(void *block, size_t old_size, size_t new_size);

/* Nanoseconds of a clock that never goes back. */
int64_t td_nanoseconds(void);

/* ---- errors that travel to another thread, with their foreign object */
/* The pending error is taken off this thread; NULL if there was no memory for one. */
void *td_error_detach(void);
/* It becomes this thread's: -1. */
int   td_error_attach(void *error);

/* ---- dtypes, beside the public functions: sizes by dtype, 0 where there is none (yet); conversions of float8 and of those from
 * plug-ins, by way of float */
extern uint8_t td_itemsizes[TD_DTYPES];
typedef void td_dtype_load(float *to, const void *from, int64_t n);
typedef void td_dtype_store(void *to, const float *from, int64_t n);
const char *td_device_name(int type);       /* NULL where there is none */
void        td_device_set_name(int type, const char *name);
td_dtype_load  *td_dtype_loader(td_dtype dtype);
td_dtype_store *td_dtype_storer(td_dtype dtype);
static inline bool td_is_foreign_dtype(int dtype) { return dtype >= TD_DTYPE_A && dtype < TD_DTYPES; }
/* Those whose tensors carry TD_KEY_DTYPE, so that no kernel meets one that its entry doesn't say it takes: formats, and dtypes
 * from outside. */
static inline bool td_is_keyed_dtype(int dtype) { return dtype >= TD_C32 && dtype < TD_DTYPES; }
static inline bool td_is_float8(int dtype) { return dtype >= TD_F8_E4M3FN && dtype <= TD_F8_E8M0FNU; }
/* Whether its elements stand for numbers that convert; else they are bits without a meaning of their own. */
static inline bool td_converts(int dtype) { return dtype < TD_F4_E2M1FN_X2 || dtype >= TD_DTYPE_A; }

/* ---- half types, exact both ways (round to nearest even, NaN kept, subnormals right) */
typedef uint16_t td_f16;     /* the bits of an IEEE binary16 */
typedef uint16_t td_bf16;    /* the upper half of a binary32 */

/* Branch-free, so that loops over them vectorise. */
static inline float td_bits_f32(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, 4);
    return value;
}
static inline uint32_t td_f32_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, 4);
    return bits;
}
static inline float td_bf16_to_f32(td_bf16 x) { return td_bits_f32((uint32_t)x << 16); }
static inline td_bf16 td_f32_to_bf16(float x)
{
    uint32_t bits = td_f32_bits(x), rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    return (td_bf16)(x != x ? 0x7fc0 : rounded);
}
static inline float td_f16_to_f32(td_f16 x)
{
    /* Shift exponent and mantissa into place and multiply by 2^112: subnormals come out right by themselves;
     * what was infinite or NaN needs its exponent filled up again. */
    uint32_t magnitude = (uint32_t)(x & 0x7fff) << 13, sign = (uint32_t)(x & 0x8000) << 16;
    uint32_t bits = td_f32_bits(td_bits_f32(magnitude) * td_bits_f32(0x77800000));
    bits |= (x & 0x7c00) == 0x7c00 ? 0x7f800000 : 0;
    return td_bits_f32(bits | sign);
}
static inline td_f16 td_f32_to_f16(float x)
{
    /* Scale up and down so that the addition of a power of two rounds at the half type's last bit. */
    uint32_t bits = td_f32_bits(x), sign = bits & 0x80000000, twice = bits << 1;
    float base = (td_bits_f32(bits & 0x7fffffff) * td_bits_f32(0x77800000)) * td_bits_f32(0x08800000);
    uint32_t bias = twice & 0xff000000;
    bias = bias < 0x71000000 ? 0x71000000 : bias;
    uint32_t r = td_f32_bits(td_bits_f32((bias >> 1) + 0x07800000) + base);
    uint32_t half = ((r >> 13) & 0x7c00) + (r & 0xfff);
    return (td_f16)((sign >> 16) | (twice > 0xff000000 ? 0x7e00 : half));
}

#endif
