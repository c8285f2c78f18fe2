/* Keys, and the sorting and selecting of pairs: what ops/index/sort_kernels.h declares.
 *
 * Elements become unsigned keys that compare as they do (-0 as 0, NaN above everything), inverted for a descending order, so one
 * comparison serves all dtypes.  A narrow pair is a key of 32 bits above an index of 32 bits, a wide one two numbers of 64.  The
 * index makes pairs different: compared as wholes they have one order only, a stable one, whatever algorithm finds it and on how
 * many threads.  Algorithms of ties.h compare keys alone. */
#include "ops/index/sort_kernels.h"

#include <stdlib.h>
#include <tede/auto.h>
#include <tede/kernel.h>
#include "base/base.h"
#include "kernels/cpu/sort/order.h"

typedef struct pair { uint64_t key, index; } pair;

#define P         uint64_t
#define NAME(x)   x##_narrow
#define KEY_NARROW(p) ((int64_t)((p) >> 32))
#define KEY(p)    KEY_NARROW(p)
#define LESS(a, b) ((a) < (b))
#define BITS      32
#include "kernels/cpu/sort/keys.h"
#include "kernels/cpu/sort/ties.h"
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
#include "kernels/cpu/sort/keys.h"
#include "kernels/cpu/sort/ties.h"

/* The longest row whose indices narrow pairs take. */
#define MOST_NARROW INT64_C(0x7ffffffe)

/* Both blocks have room for all pairs: every algorithm here moves pairs between the two or needs none. */
int td_sorter_make(td_sorter *s, td_dtype dtype, int64_t n, bool descending)
{
    bool narrow = td_itemsizes[dtype] <= 4 && n <= MOST_NARROW;
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

#define TOP32 (UINT32_C(1) << 31)
#define TOP64 (UINT64_C(1) << 63)

static void load_pairs(const td_sorter *s, const void *row, int64_t from, int64_t to, uint64_t *pairs)
{
    TD_ISA_PICK(td_order_table)->pairs(s->dtype, row, from, to, s->descending, pairs);
}

/* Wide keys go through `spare`, which is free before anything is ordered. */
void td_sorter_load(td_sorter *s, const void *row)
{
    if (s->narrow) {
        load_pairs(s, row, 0, s->n, (uint64_t *)s->pairs);
        return;
    }
    TD_ISA_PICK(td_order_table)->keys(s->dtype, row, s->n, s->descending, (uint64_t *)s->spare);
    for (int64_t i = 0; i < s->n; i++)
        ((pair *)s->pairs)[i] = (pair){((uint64_t *)s->spare)[i], (uint64_t)i};
}

/* ---- the whole order */

/* Rows below ALONE stay on one thread; above LONG they go to buckets (buckets.c), where the level has vectors for it. */
enum { SPLITS = 4, ALONE = 1 << 17, LONG = 1 << 18 };       /* an even number of splits: what they leave lies where it was */

typedef struct piece { uint64_t *a, *b; int64_t n; } piece;

/* By vectors where the level has them, else digit by digit: both leave the order in `a`. */
static void order_piece(uint64_t *a, uint64_t *spare, int64_t n)
{
    const td_order_table *table = TD_ISA_PICK(td_order_table);
    if (table->sort)
        table->sort(a, spare, n, false);
    else
        sort_narrow(a, spare, n);
}

static int by_pair(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* Pieces 2k and 2k + 1 out of piece k, by the middle of 63 pairs from regular positions.  A pivot that splits badly makes pieces unequal,
 * which costs threads their time and no more. */
static void split_pieces(void *context, int64_t from, int64_t to)
{
    for (int64_t k = to - 1; k >= from; k--) {
        piece *whole = (piece *)context + k, *half = (piece *)context + (1 << SPLITS) + 2 * k;
        uint64_t sample[63];
        int64_t cut = 0;
        if (whole->n) {
            for (int i = 0; i < 63; i++)
                sample[i] = whole->a[whole->n * i / 63];
            qsort(sample, 63, sizeof *sample, by_pair);
            cut = TD_ISA_PICK(td_order_table)->split(whole->a, whole->b, whole->n, sample[31]);
        }
        half[0] = (piece){whole->b, whole->a, cut};
        half[1] = (piece){whole->b + cut, whole->a + cut, whole->n - cut};
    }
}
static void order_pieces(void *context, int64_t from, int64_t to)
{
    for (int64_t k = from; k < to; k++) {
        piece *p = (piece *)context + k;
        order_piece(p->a, p->b, p->n);
    }
}

/* Splitting doubles the pieces, and the threads that split, SPLITS times; then 16 pieces are put in order by themselves. */
void td_order_by_halves(uint64_t *a, uint64_t *spare, int64_t n)
{
    if (n < ALONE || td_num_threads() == 1) {
        order_piece(a, spare, n);
        return;
    }
    piece pieces[2 << SPLITS] = {{a, spare, n}};
    for (int level = 0; level < SPLITS; level++) {
        td_parallel_for(0, 1 << level, 1, split_pieces, pieces);
        memcpy(pieces, pieces + (1 << SPLITS), sizeof *pieces << (level + 1));
    }
    td_parallel_for(0, 1 << SPLITS, 1, order_pieces, pieces);
}

/* Pairs in `a`; `spare` has room for twice as many. */
static void order(uint64_t *a, uint64_t *spare, int64_t n)
{
    if (n > LONG && TD_ISA_PICK(td_order_table)->bucket)
        td_order_by_buckets(a, spare, (uint8_t *)(spare + n), n);
    else
        td_order_by_halves(a, spare, n);
}

/* Keys of 64 bits by their highest 32 that differ at all; what is equal in these is put in order by the bits below.  The distance from
 * the lowest key has its highest bit within the 32; runs of equal ones have at most 32 bits left, so twice is enough. */
static void order_wide(td_sorter *s, const void *row)
{
    const int64_t n = s->n;
    uint64_t *pairs = (uint64_t *)s->pairs, *keys = pairs + n, *spare = (uint64_t *)s->spare, low = UINT64_MAX, high = 0;
    TD_ISA_PICK(td_order_table)->keys(s->dtype, row, n, s->descending, keys);
    for (int64_t i = 0; i < n; i++) {
        low = keys[i] < low ? keys[i] : low;
        high = keys[i] > high ? keys[i] : high;
    }
    const int shift = (high - low) >> 32 ? 32 - __builtin_clzll(high - low) : 0;
    for (int64_t i = 0; i < n; i++)
        pairs[i] = (keys[i] - low) >> shift << 32 | (uint64_t)i;
    order(pairs, spare, n);
    for (int64_t i = 0, end; shift && i < n; i = end) {
        for (end = i + 1; end < n && pairs[end] >> 32 == pairs[i] >> 32; end++) {}
        if (end == i + 1)
            continue;
        for (int64_t k = i; k < end; k++) {
            const uint64_t index = pairs[k] & UINT32_MAX;
            pairs[k] = ((keys[index] - low) & ((UINT64_C(1) << shift) - 1)) << 32 | index;
        }
        order(pairs + i, spare, end - i);
    }
    s->narrow = true;
    s->exact_keys = !shift && s->dtype != TD_F64;
    s->low = low;
}

/* The paths: buckets for long narrow rows; wide keys in two rounds of narrow pairs; a radix sort of wide pairs only where an index
 * has more than 31 bits. */
void td_sorter_sort(td_sorter *s, const void *row, void *values, int64_t *indices)
{
    const td_order_table *table = TD_ISA_PICK(td_order_table);
    s->narrow = td_itemsizes[s->dtype] <= 4 && s->n <= MOST_NARROW;     /* again, for the next row */
    if (s->narrow && table->bucket && s->n > LONG) {
        td_order_row_by_buckets(s, row, values, indices);
        return;
    }
    if (s->n <= MOST_NARROW && !s->narrow) {
        order_wide(s, row);
    } else {
        td_sorter_load(s, row);
        s->exact_keys = s->narrow && !(s->dtype == TD_F32 && table->mute(row, s->n));
        if (s->narrow)
            td_order_by_halves((uint64_t *)s->pairs, (uint64_t *)s->spare, s->n);
        else
            sort_wide((pair *)s->pairs, (pair *)s->spare, s->n);
    }
    td_sorter_take(s, row, s->n, values, indices);
}
/* Pairs as wholes, so the same one is found always; td_sorter_select_first() compares keys, as PyTorch does. */
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

/* The first k in order where k is small: a heap that most elements don't get into, which a block can see at once. */
static void first_few(td_sorter *s, const void *row, int64_t k)
{
    enum { BLOCK = 1024 };
    uint64_t *heap = (uint64_t *)s->pairs, block[BLOCK];
    load_pairs(s, row, 0, k, heap);
    heap_select_narrow(heap, k, k);
    for (int64_t from = k; from < s->n; from += BLOCK) {
        const int64_t count = s->n - from < BLOCK ? s->n - from : BLOCK;
        if (!TD_ISA_PICK(td_order_table)->any_below(s->dtype, row, from, from + count, s->descending, (uint32_t)(heap[0] >> 32)))
            continue;
        load_pairs(s, row, from, from + count, block);
        for (int64_t i = 0; i < count; i++)
            if (KEY_NARROW(block[i]) < KEY_NARROW(heap[0]))
                heap_down_narrow(heap, 0, k, block[i]);
    }
    sort_heap_narrow(heap, k);
}

/* As PyTorch's topk: up to a 64th of the row by a heap (C++'s partial_sort), more by nth_element and a sort of what is before it.
 * Which of equal elements are taken follows from that. */
void td_sorter_top(td_sorter *s, const void *row, int64_t k, bool sorted)
{
    bool few = k * 64 <= s->n;
    if (k == 0)
        return;
    if (few && s->narrow) {
        first_few(s, row, k);
        return;
    }
    td_sorter_load(s, row);
    if (few) {
        partial_sort_wide((pair *)s->pairs, s->n, k);
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
    if (s->narrow) {
        TD_ISA_PICK(td_order_table)->take(s, row, n, values, indices);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        indices[i] = (int64_t)((const pair *)s->pairs)[i].index;
    switch (td_itemsizes[s->dtype]) {
    case 1: TAKE(uint8_t);
    case 2: TAKE(uint16_t);
    case 4: TAKE(uint32_t);
    default: TAKE(uint64_t);
    }
}
/* NaN has the highest key, and nothing else has; `first`: where the first pair of one is, or -1. */
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

/* int64 in x's order: uint64 with its highest bit flipped, others as they are. */
td_tensor *td_ordered_int64(td_tensor *x)
{
    td_tensor *y = x->dtype == TD_U64 ? td_tensor_new(x->ndim, x->sizes, TD_I64, x->device) : td_as_contiguous(x, TD_I64);
    if (!y || x->dtype != TD_U64)
        return y;
    if (td_copy_elements(y, x)) {
        td_tensor_release(y);
        return NULL;
    }
    for (int64_t i = 0; i < y->numel; i++)
        ((uint64_t *)y->data)[i] ^= TOP64;
    return y;
}

/* ---- rows */

/* A view with dimension `dim` last and the others in their order. */
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
