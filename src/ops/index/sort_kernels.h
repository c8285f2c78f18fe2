/* Orders of rows: what sort, topk, median, mode, unique and their like share.
 *
 * An element becomes an unsigned key that sorts as it does: NaN above everything, -0 equal to 0; reversed for
 * descending order.  Keys of up to 32 bits are packed with the index in 64 bits. */
#ifndef TD_OPS_INDEX_SORT_KERNELS_H
#define TD_OPS_INDEX_SORT_KERNELS_H
#include "tensor/tensor.h"

/* One sorter serves any number of rows of the same length and dtype, one after the other; the memory is allocated once, by
 * td_sorter_make. */
typedef struct td_sorter {
    int64_t n;                  /* elements of a row */
    bool    narrow;             /* keys of 32 bits */
    bool    descending;
    bool    exact_keys;            /* ordered, and elements follow from keys: no NaN and no -0 among them */
    td_dtype dtype;
    uint64_t low;               /* what telling keys of int64 and uint64 are counted from */
    size_t  bytes;
    char   *pairs, *spare;
} td_sorter;

/* Allocates for rows of n elements; -1 if there is no memory. */
int  td_sorter_make(td_sorter *s, td_dtype dtype, int64_t n, bool descending);
void td_sorter_free(td_sorter *s);
/* Take a contiguous row and order all of it, equal elements as they come: the elements, and where they were. */
void td_sorter_sort(td_sorter *s, const void *row, void *values, int64_t *indices);
/* Take a contiguous row; then order it only so far that position k (and, smaller, those before it) are right. */
void td_sorter_load(td_sorter *s, const void *row);
void td_sorter_select(td_sorter *s, int64_t k);
/* The same for one position alone, which of equal ones it is as in PyTorch's kthvalue. */
void td_sorter_select_first(td_sorter *s, int64_t k);
/* Take a contiguous row; the first k chosen (and in order).  These three order equal elements as PyTorch does. */
void td_sorter_top(td_sorter *s, const void *row, int64_t k, bool sorted);
/* Loaded rows: sorted; position k right. */
void td_sorter_sort_unstable(td_sorter *s);
void td_sorter_nth(td_sorter *s, int64_t k);
/* The first n elements of the order and where they were in the row. */
void    td_sorter_take(const td_sorter *s, const void *row, int64_t n, void *values, int64_t *indices);
int64_t td_sorter_index(const td_sorter *s, int64_t place);
/* How many NaN a loaded row (not descending) has, and where the first is. */
int64_t td_sorter_nans(const td_sorter *s, int64_t *first);
bool    td_sorter_same(const td_sorter *s, int64_t place, int64_t other);       /* equal keys */

/* Integers as int64 in the same order: those of uint64 less 2^63. */
td_tensor *td_ordered_int64(td_tensor *x);

/* A tensor with `dim` moved to the end, contiguous: rows of x->sizes[dim] elements. */
td_tensor *td_rows_of(td_tensor *x, int dim);
/* Copy rows back to where they came from. */
int td_rows_to(td_tensor *to, int dim, td_tensor *rows);

/* On a device with programs: positions of values in sorted rows, int32 or int64; whether they are among `known`, which is in order. */
td_tensor *td_places_on_device(td_tensor *sequence, td_tensor *values, td_tensor *sorter, bool right, td_dtype dtype);
td_tensor *td_members_on_device(td_tensor *known, td_tensor *values, bool invert);
/* Bodies that such a device's kernels are. */
td_tensor *td_op_searchsorted_tensor(td_tensor *sequence, td_tensor *self, bool out_int32, bool right, const char *side, td_tensor *sorter);
td_tensor *td_op_searchsorted_scalar(td_tensor *sequence, td_scalar self, bool out_int32, bool right, const char *side, td_tensor *sorter);
td_tensor *td_op_bucketize_tensor(td_tensor *self, td_tensor *boundaries, bool out_int32, bool right);
td_tensor *td_op_bucketize_scalar(td_scalar self, td_tensor *boundaries, bool out_int32, bool right);
td_tensor *td_op_isin_tensor_tensor(td_tensor *elements, td_tensor *test_elements, bool assume_unique, bool invert);
td_tensor *td_op_isin_tensor_scalar(td_tensor *elements, td_scalar test_element, bool assume_unique, bool invert);
td_tensor *td_op_isin_scalar_tensor(td_scalar element, td_tensor *test_elements, bool assume_unique, bool invert);

#endif
