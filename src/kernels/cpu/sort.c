/* Keys, and the sorting and selecting of pairs, see sort.h. */
#include "ops/sort_kernels.h"

#include <stdlib.h>
#include <tede/auto.h>
#include <tede/kernel.h>
#include "base/base.h"

typedef struct pair { uint64_t key, index; } pair;

#define P         uint64_t
#define NAME(x)   x##_narrow
#define KEY(p)    ((int64_t)((p) >> 32))
#define LESS(a, b) ((a) < (b))
#define BITS      32
#include "kernels/cpu/sort_keys.h"
#include "kernels/cpu/sort_ties.h"
#undef P
#undef NAME
#undef KEY
#undef LESS
#undef BITS

#define P         pair
#define NAME(x)   x##_wide
#define KEY(p)    ((p).key)
#define LESS(a, b) ((a).key < (b).key || ((a).key == (b).key && (a).index < (b).index))
#define BITS      64
#include "kernels/cpu/sort_keys.h"
#include "kernels/cpu/sort_ties.h"

int td_sorter_make(td_sorter *s, td_dtype dtype, int64_t n, bool descending)
{
    bool narrow = td_itemsizes[dtype] <= 4 && n < INT64_C(0x7fffffff);
    *s = (td_sorter){.n = n, .narrow = narrow, .descending = descending, .dtype = dtype};
    s->bytes = (size_t)n * (narrow ? 8 : 16);
    s->pairs = td_mem_alloc(s->bytes);
    s->spare = s->pairs ? td_mem_alloc(s->bytes) : NULL;
    if (s->spare)
        return 0;
    td_sorter_free(s);
    return -1;
}

void td_sorter_free(td_sorter *s)
{
    td_mem_free(s->pairs, s->bytes);
    td_mem_free(s->spare, s->bytes);
    s->pairs = s->spare = NULL;
}

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
    for (int64_t i = 0; i < s->n; i++) {                                                      \
        T x = ((const T *)row)[i];                                                            \
        ((uint64_t *)s->pairs)[i] = (uint64_t)((uint32_t)(expression) ^ flip) << 32 | (uint64_t)i; \
    }                                                                                         \
    break
#define WIDE(T, expression)                                                                   \
    for (int64_t i = 0; i < s->n; i++) {                                                      \
        T x = ((const T *)row)[i];                                                            \
        ((pair *)s->pairs)[i] = (pair){(uint64_t)(expression) ^ flip, (uint64_t)i};           \
    }                                                                                         \
    break

static void load_narrow(td_sorter *s, const void *row)
{
    uint32_t flip = s->descending ? UINT32_MAX : 0;
    switch (s->dtype) {
    case TD_BOOL: NARROW(uint8_t, x != 0);
    case TD_U8:   NARROW(uint8_t, x);
    case TD_I8:   NARROW(int8_t, (uint32_t)x ^ TOP32);
    case TD_I16:  NARROW(int16_t, (uint32_t)x ^ TOP32);
    case TD_I32:  NARROW(int32_t, (uint32_t)x ^ TOP32);
    case TD_U16:  NARROW(uint16_t, x);
    case TD_U32:  NARROW(uint32_t, x);
    case TD_F16:  NARROW(uint16_t, key_f32(td_f16_to_f32(x)));
    case TD_BF16: NARROW(uint16_t, key_f32(td_bf16_to_f32(x)));
    default:      NARROW(float, key_f32(x));
    }
}

static void load_wide(td_sorter *s, const void *row)
{
    uint64_t flip = s->descending ? UINT64_MAX : 0;
    switch (s->dtype) {
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

void td_sorter_load(td_sorter *s, const void *row)
{
    if (s->narrow)
        load_narrow(s, row);
    else
        load_wide(s, row);
}

void td_sorter_sort(td_sorter *s)
{
    if (s->narrow)
        sort_narrow((uint64_t *)s->pairs, (uint64_t *)s->spare, s->n);
    else
        sort_wide((pair *)s->pairs, (pair *)s->spare, s->n);
}
void td_sorter_select(td_sorter *s, int64_t k)
{
    if (s->narrow)
        select_narrow((uint64_t *)s->pairs, (uint64_t *)s->spare, s->n, k);
    else
        select_wide((pair *)s->pairs, (pair *)s->spare, s->n, k);
}
void td_sorter_select_first(td_sorter *s, int64_t k)
{
    if (s->narrow)
        select_first_narrow((uint64_t *)s->pairs, s->n, k);
    else
        select_first_wide((pair *)s->pairs, s->n, k);
}
#define EITHER(call, ...)                                       \
    do {                                                        \
        if (s->narrow)                                          \
            call##_narrow((uint64_t *)s->pairs, __VA_ARGS__);   \
        else                                                    \
            call##_wide((pair *)s->pairs, __VA_ARGS__);         \
    } while (0)

void td_sorter_sort_unstable(td_sorter *s) { EITHER(intro_sort, s->n); }
void td_sorter_nth(td_sorter *s, int64_t k) { EITHER(intro_select, s->n, k); }
void td_sorter_top(td_sorter *s, int64_t k, bool sorted)
{
    if (k == 0)
        return;
    if (k * 64 <= s->n) {
        EITHER(partial_sort, s->n, k);
        return;
    }
    EITHER(intro_select, s->n, k - 1);
    if (sorted)
        EITHER(intro_sort, k - 1);
}
int64_t td_sorter_index(const td_sorter *s, int64_t place)
{
    return s->narrow ? (int64_t)(((const uint64_t *)s->pairs)[place] & UINT32_MAX)
                     : (int64_t)((const pair *)s->pairs)[place].index;
}
#define TAKE(T)                                             \
    for (int64_t i = 0; i < n; i++)                         \
        ((T *)values)[i] = ((const T *)row)[indices[i]];    \
    break
void td_sorter_take(const td_sorter *s, const void *row, int64_t n, void *values, int64_t *indices)
{
    if (s->narrow)
        for (int64_t i = 0; i < n; i++)
            indices[i] = (int64_t)(((const uint64_t *)s->pairs)[i] & UINT32_MAX);
    else
        for (int64_t i = 0; i < n; i++)
            indices[i] = (int64_t)((const pair *)s->pairs)[i].index;
    switch (td_itemsizes[s->dtype]) {
    case 1: TAKE(uint8_t);
    case 2: TAKE(uint16_t);
    case 4: TAKE(uint32_t);
    default: TAKE(uint64_t);
    }
}
int64_t td_sorter_nans(const td_sorter *s, int64_t *first)
{
    int64_t count = 0;
    *first = -1;
    if (!td_dtype_is_floating(s->dtype))
        return 0;
    uint64_t top = s->dtype == TD_F64 ? UINT64_MAX : UINT32_MAX;
    for (int64_t i = 0; i < s->n; i++)
        count += (s->narrow ? ((const uint64_t *)s->pairs)[i] >> 32 : ((const pair *)s->pairs)[i].key) == top;
    for (int64_t i = 0; count && *first < 0; i++)
        if ((s->narrow ? ((const uint64_t *)s->pairs)[i] >> 32 : ((const pair *)s->pairs)[i].key) == top)
            *first = i;
    return count;
}
bool td_sorter_same(const td_sorter *s, int64_t place, int64_t other)
{
    return s->narrow ? ((const uint64_t *)s->pairs)[place] >> 32 == ((const uint64_t *)s->pairs)[other] >> 32
                     : ((const pair *)s->pairs)[place].key == ((const pair *)s->pairs)[other].key;
}

/* ---- rows */

static td_tensor *moved(td_tensor *x, int dim)
{
    int64_t sizes[TD_MAX_DIMS], strides[TD_MAX_DIMS];
    int n = 0;
    for (int d = 0; d < x->ndim; d++)
        if (d != dim)
            sizes[n] = x->sizes[d], strides[n++] = x->strides[d];
    if (x->ndim)
        sizes[n] = x->sizes[dim], strides[n++] = x->strides[dim];
    return td_view_strided(x, n, sizes, strides, 0);
}

td_tensor *td_rows_of(td_tensor *x, int dim)
{
    if (dim == x->ndim - 1 || x->ndim == 0)
        return td_make_contiguous(x);
    TD_AUTO td_tensor *view = moved(x, dim);
    return view ? td_make_contiguous(view) : NULL;
}

int td_rows_to(td_tensor *to, int dim, td_tensor *rows)
{
    if (to == rows)
        return 0;
    TD_AUTO td_tensor *view = moved(to, dim);
    return view ? td_copy_elements(view, rows) : -1;
}
