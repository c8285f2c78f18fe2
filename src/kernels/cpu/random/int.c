/* Random integers and permutations.
 *
 * PyTorch maps words to a range by a remainder: of 32 bits for ranges below 2^28, where the skew stays under about
 * 5%, of 64 bits from there on.  Dividing is the slow part, so short ranges multiply by a reciprocal instead. */
#include "ops/random/fill.h"
#include "kernels/cpu/random/levels.h"

#include <inttypes.h>
#include <math.h>

const char *td_random_type_name(td_dtype dtype)
{
    static const char *const names[TD_DTYPES] = {
        [TD_BOOL] = "bool", [TD_U8] = "unsigned char", [TD_I8] = "signed char", [TD_I16] = "short int",
        [TD_I32] = "int", [TD_I64] = "long int", [TD_U16] = "short unsigned int", [TD_U32] = "unsigned int",
        [TD_U64] = "long unsigned int", [TD_F16] = "c10::Half", [TD_BF16] = "c10::BFloat16", [TD_F32] = "float",
        [TD_F64] = "double"};
    return dtype >= 0 && dtype < TD_DTYPES && names[dtype] ? names[dtype] : td_dtype_name(dtype);
}

static int64_t smallest(td_dtype dtype)
{
    return td_dtype_is_signed(dtype) ? -td_random_largest(dtype) - 1 : 0;
}

/* ---- remainders */

/* words[i] mod range + base, for range < 2^28.  The quotient by the rounded reciprocal is off by one at most. */
TD_BODY void remainders32(int64_t *out, const uint32_t *words, int64_t n, uint64_t range, int64_t base, bool fused)
{
    (void)fused;
    double divisor = (double)range, reciprocal = 1 / divisor;
    #pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        double x = (double)(int32_t)(words[i] ^ 0x80000000) + 0x1p31;
        double quotient = (double)(int32_t)(x * reciprocal - 0x1p31) + 0x1p31;
        int32_t rest = (int32_t)(x - quotient * divisor);
        rest += rest < 0 ? (int32_t)range : 0;
        rest -= rest >= (int32_t)range ? (int32_t)range : 0;
        out[i] = base + rest;
    }
}
TD_LEVELS(remainders32, (int64_t *out, const uint32_t *words, int64_t n, uint64_t range, int64_t base), out, words, n,
          range, base)

/* Words modulo `range`, plus base; range 0 stands for 2^64.  pairs: of 64 bits, the first word is the higher half. */
static void fill_range(td_generator *g, td_dtype dtype, void *out, int64_t n, uint64_t range, int64_t base, bool pairs)
{
    int64_t values[TD_RANDOM_BLOCK];
    uint32_t words[2 * TD_RANDOM_BLOCK];
    g = td_random_lock(g);
    for (int64_t i = 0; i < n; i += TD_RANDOM_BLOCK) {
        int64_t m = n - i < TD_RANDOM_BLOCK ? n - i : TD_RANDOM_BLOCK;
        td_random_words(g, words, pairs ? 2 * m : m);
        if (pairs) {
            bool whole = range == 0, half = range == UINT64_C(1) << 63;
            for (int64_t j = 0; j < m; j++) {
                uint64_t x = (uint64_t)words[2 * j] << 32 | words[2 * j + 1];
                values[j] = (int64_t)((whole ? x : half ? x & INT64_MAX : x % range) + (uint64_t)base);
            }
        } else if (range < UINT64_C(1) << 28) {
            TD_LEVEL(remainders32, values, words, m, range, base);
        } else {      /* 2^31 */
            for (int64_t j = 0; j < m; j++)
                values[j] = (int64_t)(words[j] % range) + base;
        }
        td_random_store_i64(dtype, out, i, values, m);
    }
    td_random_unlock(g);
}

/* random_() without bounds: all numbers of an integer dtype from 0 on; of a floating one integers up to 2^digits, all of which it
 * holds. */
int td_fill_random(td_generator *g, td_dtype dtype, void *out, int64_t n)
{
    if (n == 0)
        return 0;
    if (dtype > TD_I64 && !td_is_drawn(dtype))
        return td_random_no_kernel("random_kernel_cpu", dtype);
    fill_range(g, dtype, out, n, (uint64_t)td_random_largest(dtype) + 1, 0, dtype == TD_F64 || dtype == TD_I64);
    return 0;
}

/* ---- bounds */

/* An integer as `dtype` holds it, and back; INT64_MIN where it doesn't fit, as x86-64 converts. */
static int64_t through(td_dtype dtype, int64_t x)
{
    union { uint16_t half; float f; double d; } stored;
    td_random_store_i64(dtype, &stored, 0, &x, 1);
    double value = dtype == TD_F16 ? (double)td_f16_to_f32(stored.half)
                 : dtype == TD_BF16 ? (double)td_bf16_to_f32(stored.half)
                 : dtype == TD_F32 ? (double)stored.f : stored.d;
    return value >= -0x1p63 && value < 0x1p63 ? (int64_t)value : INT64_MIN;
}
/* The distance between neighbours of `dtype` around x. */
static int64_t spacing(td_dtype dtype, int64_t x)
{
    uint64_t magnitude = x < 0 ? -(uint64_t)x : (uint64_t)x;
    int log = magnitude ? 63 - __builtin_clzll(magnitude) : 0, shift = log - td_random_digits(dtype) + 1;
    return shift >= 0 ? (int64_t)(UINT64_C(1) << shift) : 0;
}
/* Large integers are rounded when stored in a floating dtype; move the bounds inwards so that none leaves them. */
static int64_t round_from(td_dtype dtype, int64_t from)
{
    int64_t next = through(dtype, from + 1);
    return next < from ? next + spacing(dtype, from + 1) : from;
}
static int64_t round_to(td_dtype dtype, int64_t to)
{
    int64_t last = through(dtype, to - 1);
    return last >= to ? last - spacing(dtype, to - 1) : to;
}

/* PyTorch's refusals and warnings, of the smallest and the largest number that may come. */
static int check_bounds(td_dtype dtype, int64_t from, int64_t last)
{
    bool from_fits, last_fits;
    if (td_is_drawn(dtype)) {
        double max = dtype == TD_F16 ? 65504.0 : 0x1p64;      /* the others hold any int64 */
        from_fits = fabs((double)from) <= max, last_fits = fabs((double)last) <= max;
    } else {
        from_fits = from >= smallest(dtype) && from <= td_random_largest(dtype);
        last_fits = last >= smallest(dtype) && last <= td_random_largest(dtype);
    }
    if (!from_fits)
        return td_error(TD_E_RUNTIME, "from is out of bounds for %s: random_ got from=%lld", td_random_type_name(dtype),
                        (long long)from);
    if (!last_fits)
        return td_error(TD_E_RUNTIME, "to - 1 is out of bounds for %s: random_ got to - 1 = %lld", td_random_type_name(dtype),
                        (long long)last);
    /* Beyond the significand not every integer is a value. */
    int digits = td_is_drawn(dtype) ? td_random_digits(dtype) : 63;
    const char *which[] = {fabs((double)from) > ldexp(1, digits) ? "from" : NULL, fabs((double)last) > ldexp(1, digits) ? "to - 1" : NULL};
    for (int i = 0; i < 2 && digits < 63; i++)
        if (which[i] && td_warn("%s is out of bounds [-(2^%d), 2^%d]. Due to precision limitations %s can support discrete uniform "
                                "distribution only within this range. This warning will become an error in later versions, so "
                                "please fix the code", which[i], digits, digits, td_random_type_name(dtype)))
            return -1;
    return 0;
}

/* bool, integers and floating types. */
static bool takes_range(td_dtype dtype) { return dtype >= TD_BOOL && dtype <= TD_F64; }

/* random_(from, to): 64 bits for a number where the range is 2^28 or more. */
int td_fill_random_from_to(td_generator *g, td_dtype dtype, void *out, int64_t n, int64_t from, int64_t to)
{
    if (from >= to)
        return td_error(TD_E_RUNTIME, "random_ expects 'from' to be less than 'to', but got from=%lld >= to=%lld",
                        (long long)from, (long long)to);
    if (!takes_range(dtype))
        return td_error(TD_E_RUNTIME, "check_random_bounds handles only integral, floating-point and boolean types, "
                        "not %s", td_dtype_name(dtype));
    if (td_is_drawn(dtype)) {
        from = round_from(dtype, from), to = round_to(dtype, to);
        if (from >= to)
            return td_error(TD_E_RUNTIME, "random_ expects 'from' casted to dtype to be less than 'to' casted to "
                            "dtype, but got from=%lld >= to=%lld", (long long)from, (long long)to);
    }
    if (check_bounds(dtype, from, to - 1))
        return -1;
    uint64_t range = (uint64_t)to - (uint64_t)from;
    fill_range(g, dtype, out, n, range, from, range >= UINT64_C(1) << 28);
    return 0;
}

/* random_(from, None): up to the dtype's largest number, 2^digits for a floating one; from the smallest int64 on, all 64 bits. */
int td_fill_random_from(td_generator *g, td_dtype dtype, void *out, int64_t n, int64_t from)
{
    if (!takes_range(dtype))
        return td_error(TD_E_RUNTIME, "random_from_to_impl handles only integral, floating-point and boolean types, "
                        "not %s", td_dtype_name(dtype));
    if (from == INT64_MIN) {
        if (n == 0)
            return 0;
        if (dtype != TD_I64 && dtype != TD_F64 && dtype != TD_F32 && dtype != TD_BF16)
            return td_error(TD_E_RUNTIME, "random_full_64_bits_range_kernel_cpu handles only int64, double, float and "
                            "bfloat16, not %s", td_dtype_name(dtype));
        fill_range(g, dtype, out, n, 0, 0, true);
        return 0;
    }
    int64_t last = dtype == TD_U64 ? -1 : td_random_largest(dtype);      /* uint64's largest isn't an int64: refused below */
    if (td_is_drawn(dtype)) {
        from = round_from(dtype, from);
        if (from >= last)
            return td_error(TD_E_RUNTIME, "random_ expects 'from' casted to dtype to be less than or equal to 'to_inc' "
                            "casted to dtype, but got from=%lld > to_inc=%lld", (long long)from, (long long)last);
    }
    if (check_bounds(dtype, from, last))
        return -1;
    uint64_t range = (uint64_t)last - (uint64_t)from + 1;
    fill_range(g, dtype, out, n, range, from, range >= UINT64_C(1) << 28);
    return 0;
}

/* ---- permutations */

/* Fisher and Yates: element i changes places with one of those from i on.  The words of a block are reduced before
 * its swaps, so that the divisions overlap. */
#define SHUFFLE(type)                                                                          \
    static void shuffle_##type(td_generator *g, type *x, int64_t n)                            \
    {                                                                                          \
        uint32_t words[TD_RANDOM_BLOCK];                                                       \
        for (int64_t i = 0; i < n - 1; i += TD_RANDOM_BLOCK) {                                 \
            int64_t m = n - 1 - i < TD_RANDOM_BLOCK ? n - 1 - i : TD_RANDOM_BLOCK;             \
            td_random_words(g, words, m);                                                      \
            for (int64_t j = 0; j < m; j++)                                                    \
                words[j] %= (uint32_t)(n - i - j);                                             \
            for (int64_t j = 0; j < m; j++) {                                                  \
                type saved = x[i + j];                                                         \
                x[i + j] = x[i + j + words[j]];                                                \
                x[i + j + words[j]] = saved;                                                   \
            }                                                                                  \
        }                                                                                      \
    }                                                                                          \
    /* Inside out, with 64 bits for each index: for lengths where 32 would be skewed. */       \
    static void build_##type(td_generator *g, td_dtype dtype, type *x, int64_t n)              \
    {                                                                                          \
        for (int64_t i = 0; i < n; i++) {                                                      \
            int64_t z = (int64_t)(td_random64(g) % (uint64_t)(i + 1));                         \
            x[i] = x[z];                                                                       \
            td_random_store_i64(dtype, x, z, &i, 1);                                           \
        }                                                                                      \
    }
SHUFFLE(uint8_t)
SHUFFLE(uint16_t)
SHUFFLE(uint32_t)
SHUFFLE(uint64_t)

/* 0, 1, ... n - 1: what is shuffled. */
static void count_up(td_dtype dtype, void *out, int64_t n)
{
    int64_t values[TD_RANDOM_BLOCK];
    for (int64_t i = 0; i < n; i += TD_RANDOM_BLOCK) {
        int64_t m = n - i < TD_RANDOM_BLOCK ? n - i : TD_RANDOM_BLOCK;
        for (int64_t j = 0; j < m; j++)
            values[j] = i + j;
        td_random_store_i64(dtype, out, i, values, m);
    }
}

/* By the size of an element: shuffling needs no values.  From UINT32_MAX / 20 on PyTorch draws 64 bits for each index. */
int td_fill_randperm(td_generator *g, td_dtype dtype, void *out, int64_t n)
{
    static const struct { const char *limit, *name; } limits[] = {{"2049", "Half"}, {"", ""}, {"2^24+1", "Float"},
                                                                {"2^53+1", "Double"}};
    if (n < 0)
        return td_error(TD_E_RUNTIME, "randperm: n must be non-negative, got %lld", (long long)n);
    if (td_is_drawn(dtype)) {
        if (dtype != TD_BF16 && n > (INT64_C(1) << td_random_digits(dtype)) + 1)
            return td_error(TD_E_RUNTIME, "n cannot be greater than %s for %s type.", limits[dtype - TD_F16].limit,
                            limits[dtype - TD_F16].name);
    } else if (dtype == TD_BOOL || dtype > TD_I64) {
        return td_random_no_kernel("randperm", dtype);
    } else if (n - 1 > td_random_largest(dtype)) {
        return td_error(TD_E_RUNTIME, "value cannot be converted to type %s_t without overflow: randperm got n=%lld",
                        td_dtype_name(dtype), (long long)n);
    }
    bool large = n >= UINT32_MAX / 20;
    g = td_random_lock(g);
    if (!large)
        count_up(dtype, out, n);
    switch (td_dtype_size(dtype)) {
    case 1:  large ? build_uint8_t(g, dtype, out, n) : shuffle_uint8_t(g, out, n); break;
    case 2:  large ? build_uint16_t(g, dtype, out, n) : shuffle_uint16_t(g, out, n); break;
    case 4:  large ? build_uint32_t(g, dtype, out, n) : shuffle_uint32_t(g, out, n); break;
    default: large ? build_uint64_t(g, dtype, out, n) : shuffle_uint64_t(g, out, n); break;
    }
    td_random_unlock(g);
    return 0;
}
