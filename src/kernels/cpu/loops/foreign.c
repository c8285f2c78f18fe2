/* Conversions from and to formats (complex32, float8) and dtypes from outside (td_dtype_register), in blocks on the stack: by way of
 * complex64 for complex32, of float32 for the others.
 *
 * Each pair of dtypes has a function, since those who call it have no place for more than a
 * pointer to it. */
#include "calls_kernels_cpu_loops_foreign.h"
#include "kernels/cpu/loops/foreign.h"

enum { BLOCK = 256 };

static td_dtype by_way_of(td_dtype dtype) { return dtype == TD_C32 ? TD_C64 : td_is_keyed_dtype(dtype) ? TD_F32 : dtype; }

static void load(td_dtype from, void *block, const char *s, int64_t n)
{
    if (from == TD_C32)
        td_convert(TD_F32, block, 4, TD_F16, s, 2, 2 * n);
    else
        td_dtype_loader(from)(block, s, n);
}
/* float16 with what fits of a NaN's bits, which conversions to the dtype itself don't keep: PyTorch's do where these formats are
 * involved. */
static void narrow(char *to, const void *from, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        const float x = ((const float *)from)[i];
        const uint32_t bits = td_f32_bits(x);
        ((td_f16 *)to)[i] = (td_f16)(x != x ? 0x7e00 | (bits >> 13 & 0x3ff) | (bits >> 16 & 0x8000) : td_f32_to_f16(x));
    }
}
static void store(td_dtype to, char *d, const void *block, int64_t n)
{
    if (to == TD_C32)
        narrow(d, block, 2 * n);
    else
        td_dtype_storer(to)(d, block, n);
}

static void convert(td_dtype to, void *dst, td_dtype from, const void *src, int64_t n)
{
    _Alignas(64) char in[BLOCK * 16], out[BLOCK * 16];
    const td_dtype wide_from = by_way_of(from), wide_to = by_way_of(to);
    const int64_t to_size = td_itemsizes[to], from_size = td_itemsizes[from];
    for (int64_t i = 0; i < n; i += BLOCK) {
        int64_t m = n - i < BLOCK ? n - i : BLOCK;
        const char *s = (const char *)src + i * from_size;
        char *d = (char *)dst + i * to_size;
        if (to == from) {
            memcpy(d, s, (size_t)(m * to_size));
            continue;
        }
        if (from == TD_C32 && to == TD_F16) {
            td_copy_run(2, d, 2, s, 4, m);
            continue;
        }
        if (wide_from != from)
            load(from, wide_from == to ? d : in, s, m), s = in;
        if (wide_from == to)
            continue;
        if (td_is_float8(from) && to == TD_F16) {
            narrow(d, s, m);
            continue;
        }
        if (wide_from != wide_to)
            td_convert(wide_to, wide_to == to ? d : out, td_itemsizes[wide_to], wide_from, s, td_itemsizes[wide_from], m), s = out;
        if (wide_to != to)
            store(to, d, s, m);
    }
}

#define PAIR(F, D)                                                                                                     \
    static void from_##F##_##D(void *to, const void *from, int64_t n) { convert(TD_##D, to, TD_##F, from, n); }         \
    static void to_##F##_##D(void *to, const void *from, int64_t n) { convert(TD_##F, to, TD_##D, from, n); }
#define OWN(DO, F)                                                                                                     \
    DO(F, BOOL) DO(F, U8) DO(F, I8) DO(F, I16) DO(F, I32) DO(F, I64) DO(F, U16) DO(F, U32) DO(F, U64) DO(F, F16)       \
    DO(F, BF16) DO(F, F32) DO(F, F64) DO(F, C64) DO(F, C128) DO(F, C32) DO(F, F8_E4M3FN) DO(F, F8_E5M2)                \
    DO(F, F8_E4M3FNUZ) DO(F, F8_E5M2FNUZ) DO(F, F8_E8M0FNU) DO(F, DTYPE_A) DO(F, DTYPE_B) DO(F, DTYPE_C) DO(F, DTYPE_D)
OWN(PAIR, C32)
OWN(PAIR, F8_E4M3FN)
OWN(PAIR, F8_E5M2)
OWN(PAIR, F8_E4M3FNUZ)
OWN(PAIR, F8_E5M2FNUZ)
OWN(PAIR, F8_E8M0FNU)
OWN(PAIR, DTYPE_A)
OWN(PAIR, DTYPE_B)
OWN(PAIR, DTYPE_C)
OWN(PAIR, DTYPE_D)

td_convert_run *td_foreign_converter(td_dtype to, td_dtype from)
{
/* The rows without those of bits, which have no conversions. */
#define PLACE(dtype) ((dtype) - ((dtype) < TD_DTYPE_A ? TD_C32 : TD_DTYPE_A - (TD_F4_E2M1FN_X2 - TD_C32)))
#define FROM(F, D) [TD_##D] = from_##F##_##D,
#define TO(F, D) [TD_##D] = to_##F##_##D,
#define ROW(DO, F) [PLACE(TD_##F)] = {OWN(DO, F)}
#define ROWS(DO)                                                                                                       \
    ROW(DO, C32), ROW(DO, F8_E4M3FN), ROW(DO, F8_E5M2), ROW(DO, F8_E4M3FNUZ), ROW(DO, F8_E5M2FNUZ), ROW(DO, F8_E8M0FNU), \
        ROW(DO, DTYPE_A), ROW(DO, DTYPE_B), ROW(DO, DTYPE_C), ROW(DO, DTYPE_D)
    static td_convert_run *const out[][TD_DTYPES] = {ROWS(FROM)};
    static td_convert_run *const in[][TD_DTYPES] = {ROWS(TO)};
    if (!td_converts(to) || !td_converts(from))
        return NULL;
    return td_is_keyed_dtype(from) ? out[PLACE(from)][to] : in[PLACE(to)][from];
}
