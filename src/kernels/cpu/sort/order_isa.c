/* Quicksort of packed pairs in vectors, without a branch on what is compared.
 *
 * A split has a load, a comparison, a permutation and two stores for eight pairs, whatever their order is; within the second
 * cache these bound it, and no branch is guessed wrong.  It reads eight pairs, compares them with the pivot at
 * once and, by one permutation, has the smaller ones at the front of the register and the others at its back; it writes that
 * register twice, at either end of what is still free of the target.  So pairs go back and forth between two buffers, and
 * nothing is copied in between.  Up to 128 pairs are ordered in sixteen registers: columns by a sorting network (19
 * comparators, Knuth, volume 3, 5.3.4), then rows, after a transposition, by bitonic merges (Batcher, 1968).  After Bramas, "A
 * novel hybrid quicksort algorithm vectorized using AVX-512", 2017.  A split of eight pairs takes 9 cycles in the first two caches, three times
 * as long in the third.  Slower: pairs compared as doubles; sixteen parts in one pass before the splits. */
#include <string.h>
#include "base/base.h"
#define TD_SIMD_INTRINSICS
#include "base/simd.h"
#include "kernels/cpu/sort/order.h"

#ifdef TD_AVX512

enum { LANES = 8, LEAF = 128 };
typedef uint64_t V __attribute__((vector_size(64)));

static inline V smaller(V a, V b) { return (V)_mm512_min_epu64((__m512i)a, (__m512i)b); }
static inline V larger(V a, V b)  { return (V)_mm512_max_epu64((__m512i)a, (__m512i)b); }

/* ---- networks */

#define COMPARE(a, b) do { V low = smaller(a, b); b = larger(a, b); a = low; } while (0)
/* Each lane and the one named beside it: the lanes of `upper` keep the larger. */
#define EXCHANGE(x, upper, ...)                                                                             \
    do {                                                                                                    \
        V other = __builtin_shufflevector(x, x, __VA_ARGS__);                                                \
        x = (V)_mm512_mask_max_epu64((__m512i)smaller(x, other), upper, (__m512i)x, (__m512i)other);         \
    } while (0)

/* Networks are for 8 lanes: `merged` takes three exchanges for a sequence that rises and then falls, `sorted` six for any. */
static inline V merged(V x)     /* a bitonic register */
{
    EXCHANGE(x, 0xf0, 4, 5, 6, 7, 0, 1, 2, 3);
    EXCHANGE(x, 0xcc, 2, 3, 0, 1, 6, 7, 4, 5);
    EXCHANGE(x, 0xaa, 1, 0, 3, 2, 5, 4, 7, 6);
    return x;
}
static inline V sorted(V x)
{
    EXCHANGE(x, 0xaa, 1, 0, 3, 2, 5, 4, 7, 6);
    EXCHANGE(x, 0xcc, 3, 2, 1, 0, 7, 6, 5, 4);
    EXCHANGE(x, 0xaa, 1, 0, 3, 2, 5, 4, 7, 6);
    EXCHANGE(x, 0xf0, 7, 6, 5, 4, 3, 2, 1, 0);
    EXCHANGE(x, 0xcc, 2, 3, 0, 1, 6, 7, 4, 5);
    EXCHANGE(x, 0xaa, 1, 0, 3, 2, 5, 4, 7, 6);
    return x;
}
static inline V reversed(V x) { return __builtin_shufflevector(x, x, 7, 6, 5, 4, 3, 2, 1, 0); }

#define MIX(a, b, low, high)                                                            \
    do {                                                                                \
        V first = __builtin_shufflevector(a, b, low);                                   \
        b = __builtin_shufflevector(a, b, high);                                        \
        a = first;                                                                      \
    } while (0)
#define LANES_OF(...) __VA_ARGS__
#define MIX4(a, b)  MIX(a, b, LANES_OF(0, 1, 2, 3, 8, 9, 10, 11), LANES_OF(4, 5, 6, 7, 12, 13, 14, 15))
#define MIX2(a, b)  MIX(a, b, LANES_OF(0, 1, 8, 9, 4, 5, 12, 13), LANES_OF(2, 3, 10, 11, 6, 7, 14, 15))
#define MIX1(a, b)  MIX(a, b, LANES_OF(0, 8, 2, 10, 4, 12, 6, 14), LANES_OF(1, 9, 3, 11, 5, 13, 7, 15))

/* Eight pairs in each of eight registers: columns are sorted, then transposed, so that each register is in order. */
static inline void sort_rows_of_eight(V *x)
{
#define PAIR(a, b) COMPARE(x[a], x[b])
    PAIR(0, 2); PAIR(1, 3); PAIR(4, 6); PAIR(5, 7); PAIR(0, 4); PAIR(1, 5); PAIR(2, 6); PAIR(3, 7); PAIR(0, 1); PAIR(2, 3);
    PAIR(4, 5); PAIR(6, 7); PAIR(2, 4); PAIR(3, 5); PAIR(1, 4); PAIR(3, 6); PAIR(1, 2); PAIR(3, 4); PAIR(5, 6);
#undef PAIR
    MIX4(x[0], x[4]); MIX4(x[1], x[5]); MIX4(x[2], x[6]); MIX4(x[3], x[7]);
    MIX2(x[0], x[2]); MIX2(x[1], x[3]); MIX2(x[4], x[6]); MIX2(x[5], x[7]);
    MIX1(x[0], x[1]); MIX1(x[2], x[3]); MIX1(x[4], x[5]); MIX1(x[6], x[7]);
}

/* The lanes that exist when `left` pairs are left. */
static inline __mmask8 lanes(int64_t left) { return left >= LANES ? 0xff : left <= 0 ? 0 : (__mmask8)((1 << left) - 1); }

/* The loops below go away: an array of registers that is indexed by a variable lies in memory. */
#define ALWAYS static inline __attribute__((always_inline))

/* Registers whose numbers differ in the bit `half`.  Where there is no register, think of the largest pairs. */
ALWAYS void compare_halves(V *x, const int registers, const int half)
{
#pragma GCC unroll 16
    for (int i = 0; i < registers; i++)
        if (!(i & half) && i + half < registers)
            COMPARE(x[i], x[i + half]);
}

/* Runs of `width` registers each become runs of twice as many. */
ALWAYS void merge_runs(V *x, const int registers, const int width)
{
#pragma GCC unroll 16
    for (int i = 0; i < registers; i++)
        if (!(i & width) && (i ^ (2 * width - 1)) < registers) {
            const int mirror = i ^ (2 * width - 1);
            V high = reversed(x[mirror]), low = x[i];
            x[i] = smaller(low, high);
            x[mirror] = larger(low, high);
        }
    if (width > 4)
        compare_halves(x, registers, 4);
    if (width > 2)
        compare_halves(x, registers, 2);
    if (width > 1)
        compare_halves(x, registers, 1);
#pragma GCC unroll 16
    for (int i = 0; i < registers; i++)
        x[i] = merged(x[i]);
}

/* n pairs in `registers` registers; those beyond the end are the largest. */
ALWAYS void network(const uint64_t *from, uint64_t *to, int64_t n, const int registers)
{
    V x[16];
#pragma GCC unroll 16
    for (int i = 0; i < registers; i++)
        x[i] = (V)_mm512_mask_loadu_epi64(_mm512_set1_epi64(-1), lanes(n - LANES * i), from + LANES * i);
    if (registers >= 8)
        sort_rows_of_eight(x);
    if (registers == 16)
        sort_rows_of_eight(x + 8);
#pragma GCC unroll 8
    for (int i = registers / 8 * 8; i < registers; i++)
        x[i] = sorted(x[i]);
    if (registers > 1)
        merge_runs(x, registers, 1);
    if (registers > 2)
        merge_runs(x, registers, 2);
    if (registers > 4)
        merge_runs(x, registers, 4);
    if (registers > 8)
        merge_runs(x, registers, 8);
#pragma GCC unroll 16
    for (int i = 0; i < registers; i++)
        _mm512_mask_storeu_epi64(to + LANES * i, lanes(n - LANES * i), (__m512i)x[i]);
}

/* The number of registers is a constant in each: few enough sizes for the code to stay small, near enough for little to be in vain. */
static void sort_leaf(const uint64_t *from, uint64_t *to, int64_t n)
{
    if (n <= 8)
        network(from, to, n, 1);
    else if (n <= 16)
        network(from, to, n, 2);
    else if (n <= 32)
        network(from, to, n, 4);
    else if (n <= 48)
        network(from, to, n, 6);
    else if (n <= 64)
        network(from, to, n, 8);
    else if (n <= 96)
        network(from, to, n, 12);
    else
        network(from, to, n, 16);
}

/* ---- splitting */

/* The permutation that brings the lanes of a mask to the front, the others to the back: a byte per lane. */
#define LOWER(m, i)  __builtin_popcount((m) & ((1u << (i)) - 1))
#define PLACE(m, i)  ((m) >> (i) & 1 ? LOWER(m, i) : __builtin_popcount(m) + (i) - LOWER(m, i))
#define LANE(m, i)   ((uint64_t)(i) << 8 * PLACE(m, i))
#define ORDER(m)     (LANE(m, 1) | LANE(m, 2) | LANE(m, 3) | LANE(m, 4) | LANE(m, 5) | LANE(m, 6) | LANE(m, 7))
#define ORDERS4(m)   ORDER(m), ORDER(m + 1), ORDER(m + 2), ORDER(m + 3)
#define ORDERS16(m)  ORDERS4(m), ORDERS4(m + 4), ORDERS4(m + 8), ORDERS4(m + 12)
#define ORDERS64(m)  ORDERS16(m), ORDERS16(m + 16), ORDERS16(m + 32), ORDERS16(m + 48)
static const uint64_t orders[256] = {ORDERS64(0u), ORDERS64(64u), ORDERS64(128u), ORDERS64(192u)};

/* Pairs go to both ends of what is free of `to`; what is behind the last whole registers goes one by one. */
static int64_t split(const uint64_t *from, uint64_t *to, int64_t n, uint64_t pivot)
{
    const __m512i p = _mm512_set1_epi64((long long)pivot);
    int64_t i = 0, low = 0, high = n;
    for (; i + 2 * LANES <= n; i += LANES) {       /* two registers are free, so the two writes cannot meet */
        const __m512i x = _mm512_loadu_si512(from + i);
        const __mmask8 below = _mm512_cmplt_epu64_mask(x, p);
        const __m512i order = _mm512_cvtepu8_epi64(_mm_loadl_epi64((const __m128i *)&orders[below]));
        const __m512i ordered = _mm512_permutexvar_epi64(order, x);
        _mm512_storeu_si512(to + low, ordered);
        _mm512_storeu_si512(to + high - LANES, ordered);
        const int count = __builtin_popcount(below);
        low += count;
        high -= LANES - count;
    }
    for (; i < n; i++) {
        const bool below = from[i] < pivot;
        to[below ? low : high - 1] = from[i];
        low += below;
        high -= !below;
    }
    return low;
}

/* The middle one of a few pairs from anywhere. */
static uint64_t middle(const uint64_t *a, int64_t n, uint64_t *seed)
{
    uint64_t sample[32];
    const int count = n >= 512 ? 32 : 8;
    for (int k = 0; k < count; k++) {
        *seed = *seed * 6364136223846793005u + 1442695040888963407u;
        sample[k] = a[(*seed >> 32) * (uint64_t)n >> 32];
    }
    sort_leaf(sample, sample, count);
    return sample[count / 2];
}

/* `a` in order, in place or (`away`) in b, whose contents are lost either way.  The positions that pivots are taken from
 * nobody can foresee, so no input is a bad one, and the depth needs no limit. */
static void quick(uint64_t *a, uint64_t *b, int64_t n, bool away, uint64_t *seed)
{
    while (n > LEAF) {
        const int64_t cut = split(a, b, n, middle(a, n, seed));
        quick(b, a, cut, !away, seed);
        uint64_t *rest = a + cut;
        a = b + cut, b = rest;
        n -= cut;
        away = !away;
    }
    sort_leaf(a, away ? b : a, n);
}

static void sort_pairs(uint64_t *a, uint64_t *b, int64_t n, bool away)
{
    uint64_t seed = td_ticks();     /* the order is the same whatever the pivots are */
    quick(a, b, n, away, &seed);
}

/* Four counts of each bucket: one that has just been written is slow to read. */
static void find_buckets(const uint64_t *pairs, int64_t n, const td_buckets *by, uint8_t *which, int64_t *counts)
{
    enum { BLOCK = 256, COUNTS = 4 };
    const uint32_t low = by->low, shift = by->shift, most = by->most;
    uint32_t parts[COUNTS][TD_BUCKETS] = {{0}};
    for (int64_t from = 0; from < n; from += BLOCK) {
        const int64_t count = n - from < BLOCK ? n - from : BLOCK;
        uint32_t at[BLOCK];
#pragma omp simd
        for (int64_t i = 0; i < count; i++) {
            const uint32_t key = (uint32_t)(pairs[from + i] >> 32), place = (key - low) >> shift;
            at[i] = key < low ? 0 : place < most ? place : most;
        }
        for (int64_t i = 0; i < count; i++)
            parts[i % COUNTS][which[from + i] = by->bucket[at[i]]]++;
    }
    for (int b = 0; b < TD_BUCKETS; b++)
        counts[b] += parts[0][b] + parts[1][b] + parts[2][b] + parts[3][b];
}
#else

/* In the order that they come in, for a radix sort by keys alone follows. */
static int64_t split(const uint64_t *from, uint64_t *to, int64_t n, uint64_t pivot)
{
    int64_t below = 0;
    for (int64_t i = 0; i < n; i++)
        below += from[i] < pivot;
    uint64_t *next[2] = {to + below, to};
    for (int64_t i = 0; i < n; i++)
        *next[from[i] < pivot]++ = from[i];
    return below;
}
#define sort_pairs   NULL
#define find_buckets NULL

#endif

/* ---- keys */

/* Bits of floats are ordered as integers for positive numbers and in reverse for negative ones: those are inverted, and the
 * sign of the others is set.  Adding 0 makes 0 of -0; every NaN becomes the highest key, as PyTorch sorts it. */
static inline uint32_t key_f32(float x)
{
    uint32_t bits = td_f32_bits(x + 0.0f);
    return x != x ? UINT32_MAX : bits ^ (bits >> 31 ? UINT32_MAX : UINT32_C(1) << 31);
}
static inline uint64_t key_f64(double x)
{
    uint64_t bits;
    double clean = x + 0.0;
    memcpy(&bits, &clean, 8);
    return x != x ? UINT64_MAX : bits ^ (bits >> 63 ? UINT64_MAX : UINT64_C(1) << 63);
}
#define TOP32 (UINT32_C(1) << 31)
#define TOP64 (UINT64_C(1) << 63)

#define NARROW(T, expression)                                                                 \
    for (int64_t i = from; i < to; i++) {                                                     \
        T x = ((const T *)row)[i];                                                            \
        EACH((uint32_t)(expression) ^ flip);                                                  \
    }                                                                                         \
    break
#define NARROW_DTYPES                                       \
    case TD_BOOL: NARROW(uint8_t, x != 0);                  \
    case TD_U8:   NARROW(uint8_t, x);                       \
    case TD_I8:   NARROW(int8_t, (uint32_t)x ^ TOP32);      \
    case TD_I16:  NARROW(int16_t, (uint32_t)x ^ TOP32);     \
    case TD_I32:  NARROW(int32_t, (uint32_t)x ^ TOP32);     \
    case TD_U16:  NARROW(uint16_t, x);                      \
    case TD_U32:  NARROW(uint32_t, x);                      \
    case TD_F16:  NARROW(uint16_t, key_f32(td_f16_to_f32(x)));      \
    case TD_BF16: NARROW(uint16_t, key_f32(td_bf16_to_f32(x)));     \
    default:      NARROW(float, key_f32(x))
#define WIDE(T, expression)                                 \
    for (int64_t i = 0; i < n;     i++) {                    \
        T x = ((const T *)row)[i];                          \
        keys[i] = (uint64_t)(expression) ^ flip;            \
    }                                                       \
    break

/* The pairs of the elements from `from` to `to`. */
static void load_pairs(td_dtype dtype, const void *row, int64_t from, int64_t to, bool descending, uint64_t *pairs)
{
#define EACH(key) pairs[i - from] = (uint64_t)(key) << 32 | (uint64_t)i
    uint32_t flip = descending ? UINT32_MAX : 0;
    switch (dtype) {
        NARROW_DTYPES;
    }
#undef EACH
}

/* Whether any of their keys is below the limit. */
static bool any_below(td_dtype dtype, const void *row, int64_t from, int64_t to, bool descending, uint32_t limit)
{
#define EACH(key) found |= (key) < limit
    uint32_t flip = descending ? UINT32_MAX : 0, found = 0;
    switch (dtype) {
        NARROW_DTYPES;
    }
    return found;
#undef EACH
}

/* Keys of 64 bits; narrower dtypes' are their own numbers, for short rows (operators.c) and wide pairs. */
static void load_keys(td_dtype dtype, const void *row, int64_t n, bool descending, uint64_t *keys)
{
    uint64_t flip = descending ? UINT64_MAX : 0;
    switch (dtype) {
    case TD_BOOL: WIDE(uint8_t, x != 0);
    case TD_U8:   WIDE(uint8_t, x);
    case TD_I8:   WIDE(int8_t, (uint64_t)x ^ TOP64);
    case TD_I16:  WIDE(int16_t, (uint64_t)x ^ TOP64);
    case TD_I32:  WIDE(int32_t, (uint64_t)x ^ TOP64);
    case TD_I64:  WIDE(int64_t, (uint64_t)x ^ TOP64);
    case TD_U16:  WIDE(uint16_t, x);
    case TD_U32:  WIDE(uint32_t, x);
    case TD_U64:  WIDE(uint64_t, x);
    case TD_F16:  WIDE(uint16_t, key_f32(td_f16_to_f32(x)));
    case TD_BF16: WIDE(uint16_t, key_f32(td_bf16_to_f32(x)));
    case TD_F32:  WIDE(float, key_f32(x));
    default:      WIDE(double, key_f64(x));
    }
}

/* Without branches: the loop is a vector's, and rows of ordinary numbers have to be read to their end anyway. */
static bool is_mute(const float *x, int64_t n)
{
    uint32_t found = 0;
    for (int64_t i = 0; i < n; i++)
        found |= (x[i] != x[i]) | (td_f32_bits(x[i]) == TOP32);
    return found;
}

/* ---- elements out of their keys, which beats fetching them from all over the row */

#define BLOCK_OF(expression)                                                    \
    for (int64_t i = from; i < to; i++) {                                       \
        const uint32_t key = (uint32_t)(pairs[i] >> 32) ^ flip;                 \
        values[i] = (expression);                                               \
    }                                                                           \
    break
#define FETCH(T)                                            \
    for (int64_t i = from; i < to; i++)                     \
        ((T *)out)[i] = ((const T *)row)[indices[i]];       \
    break

static void take_block(const td_sorter *s, const void *row, int64_t from, int64_t to, void *out, const int64_t *indices)
{
    const uint64_t *pairs = (const uint64_t *)s->pairs;
    if (s->exact_keys && td_itemsizes[s->dtype] == 4) {
        const uint32_t flip = s->descending ? UINT32_MAX : 0;
        uint32_t *values = out;
        switch (s->dtype) {
        case TD_U32: BLOCK_OF(key);
        case TD_I32: BLOCK_OF(key ^ TOP32);
        default:     BLOCK_OF(key >> 31 ? key ^ TOP32 : ~key);
        }
    } else if (s->exact_keys && td_itemsizes[s->dtype] == 8) {
        const uint64_t flip = (s->descending ? UINT64_MAX : 0) ^ (s->dtype == TD_I64 ? TOP64 : 0);
        for (int64_t i = from; i < to; i++)
            ((uint64_t *)out)[i] = ((pairs[i] >> 32) + s->low) ^ flip;
    } else {
        switch (td_itemsizes[s->dtype]) {
        case 1: FETCH(uint8_t);
        case 2: FETCH(uint16_t);
        case 4: FETCH(uint32_t);
        default: FETCH(uint64_t);
        }
    }
}

/* Block by block, so that indices are in the first cache when elements are fetched by them. */
static void take(const td_sorter *s, const void *row, int64_t n, void *values, int64_t *indices)
{
    const uint64_t *pairs = (const uint64_t *)s->pairs;
    enum { BLOCK = 1024 };
    for (int64_t from = 0; from < n; from += BLOCK) {
        const int64_t to = n - from < BLOCK ? n : from + BLOCK;
        for (int64_t i = from; i < to; i++)
            indices[i] = (int64_t)(pairs[i] & UINT32_MAX);
        take_block(s, row, from, to, values, indices);
    }
}

extern const td_order_table TD_ISA_NAME(td_order_table);
const td_order_table TD_ISA_NAME(td_order_table) = {
    .split = split, .sort = sort_pairs, .bucket = find_buckets, .pairs = load_pairs, .keys = load_keys,
    .any_below = any_below, .mute = is_mute, .take = take,
};
