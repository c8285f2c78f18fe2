/* Conversions from and to dtypes from outside (td_dtype_register), through float32, in blocks on the stack.
 *
 * Each pair of dtypes has a function, since those who call it have no place for more than a
 * pointer to it. */
#include "calls_kernels_cpu_loops_foreign.h"
#include "kernels/cpu/loops/foreign.h"

enum { BLOCK = 256 };

static void convert(td_dtype to, void *dst, td_dtype from, const void *src, int64_t n)
{
    float block[BLOCK];
    for (int64_t i = 0; i < n; i += BLOCK) {
        int64_t m = n - i < BLOCK ? n - i : BLOCK;
        const char *s = (const char *)src + i * td_itemsizes[from];
        char *d = (char *)dst + i * td_itemsizes[to];
        if (td_is_foreign_dtype(from))
            td_dtype_loader(from)(block, s, m);
        else
            td_convert(TD_F32, block, 4, from, s, td_itemsizes[from], m);
        if (td_is_foreign_dtype(to))
            td_dtype_storer(to)(d, block, m);
        else
            td_convert(to, d, td_itemsizes[to], TD_F32, block, 4, m);
    }
}

#define PAIR(F, D)                                                                                                     \
    static void from_##F##_##D(void *to, const void *from, int64_t n) { convert(TD_##D, to, TD_DTYPE_##F, from, n); }   \
    static void to_##F##_##D(void *to, const void *from, int64_t n) { convert(TD_DTYPE_##F, to, TD_##D, from, n); }
#define OWN(DO, F)                                                                                                     \
    DO(F, BOOL) DO(F, U8) DO(F, I8) DO(F, I16) DO(F, I32) DO(F, I64) DO(F, U16) DO(F, U32) DO(F, U64) DO(F, F16)       \
    DO(F, BF16) DO(F, F32) DO(F, F64) DO(F, C64) DO(F, C128) DO(F, DTYPE_A) DO(F, DTYPE_B) DO(F, DTYPE_C) DO(F, DTYPE_D)
OWN(PAIR, A)
OWN(PAIR, B)
OWN(PAIR, C)
OWN(PAIR, D)

td_convert_run *td_foreign_converter(td_dtype to, td_dtype from)
{
#define FROM(F, D) [TD_##D] = from_##F##_##D,
#define TO(F, D) [TD_##D] = to_##F##_##D,
    static td_convert_run *const out[][TD_DTYPES] = {{OWN(FROM, A)}, {OWN(FROM, B)}, {OWN(FROM, C)}, {OWN(FROM, D)}};
    static td_convert_run *const in[][TD_DTYPES] = {{OWN(TO, A)}, {OWN(TO, B)}, {OWN(TO, C)}, {OWN(TO, D)}};
    return td_is_foreign_dtype(from) ? out[from - TD_DTYPE_A][to] : in[to - TD_DTYPE_A][from];
}
