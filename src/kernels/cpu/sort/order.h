/* Keys that sort as their elements do, and the ascending order of packed pairs: a key of 32 bits above an index of 32
 * bits, all different. */
#ifndef TD_KERNELS_CPU_SORT_ORDER_H
#define TD_KERNELS_CPU_SORT_ORDER_H
#include "kernels/cpu/isa/isa.h"
#include "ops/index/sort_kernels.h"

/* A key's bucket: its distance from the lowest key, without `shift` bits and not above `most`, is looked up. */
enum { TD_BUCKETS = 256, TD_BUCKET_BITS = 14 };
typedef struct td_buckets { uint32_t low, shift, most; uint8_t bucket[1 << TD_BUCKET_BITS]; } td_buckets;

/* What order_isa.c exports per instruction-set level. */
typedef struct td_order_table {
    /* What is below the pivot to the front of `to`, the rest behind it; returns how many are below.  Keeps what lies
     * in the order of indices so, where `sort` is NULL. */
    int64_t (*split)(const uint64_t *from, uint64_t *to, int64_t n, uint64_t pivot);
    /* The pairs of `a` in order, in a or (`away`) in b, which has room for as many; NULL at levels where a radix sort is
     * faster. */
    void (*sort)(uint64_t *a, uint64_t *b, int64_t n, bool away);
    /* The bucket of each pair, counted; NULL where `sort` is. */
    void (*bucket)(const uint64_t *pairs, int64_t n, const td_buckets *by, uint8_t *which, int64_t *counts);
    /* The pairs of a row's elements from `from` to `to`, of a dtype of up to four bytes; keys alone, of any dtype. */
    void (*pairs)(td_dtype dtype, const void *row, int64_t from, int64_t to, bool descending, uint64_t *pairs);
    void (*keys)(td_dtype dtype, const void *row, int64_t n, bool descending, uint64_t *keys);
    /* Whether any key of these elements is below the limit. */
    bool (*any_below)(td_dtype dtype, const void *row, int64_t from, int64_t to, bool descending, uint32_t limit);
    /* Whether keys of these don't tell the elements: NaN, whose bits are lost, or -0. */
    bool (*mute)(const float *x, int64_t n);
    /* What td_sorter_take does for narrow pairs. */
    void (*take)(const td_sorter *s, const void *row, int64_t n, void *values, int64_t *indices);
} td_order_table;
TD_ISA_TABLES(td_order_table, td_order_table);

/* Narrow pairs in order.  Those of a row and what they stand for: */
void td_order_row_by_buckets(td_sorter *s, const void *row, void *values, int64_t *indices);
/* Those in `a`, with room for as many pairs in `spare` and as many bytes in `which`. */
void td_order_by_buckets(uint64_t *a, uint64_t *spare, uint8_t *which, int64_t n);
/* The same for pairs in `a` by splitting in two, as often as threads need it. */
void td_order_by_halves(uint64_t *a, uint64_t *spare, int64_t n);

#endif
