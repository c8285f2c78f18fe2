/* The k largest of n scored entries, with equal scores in the order that PyTorch's topk leaves them.
 *
 * topk sorts with the C++ library's partial_sort, nth_element and sort, which keep no order among equals; which of
 * them come out, and where, follows from the steps these algorithms take.  GNU's take the same steps everywhere, so
 * here are those steps.  Ties are common in the half types and among categories of weight zero. */
#ifndef TD_KERNELS_RANDOM_SELECT_H
#define TD_KERNELS_RANDOM_SELECT_H

#include <stdint.h>

typedef struct td_scored { double score; int64_t index; } td_scored;

/* Brings the k largest, NaN before all else, to the front, in descending order. */
void td_select_largest(td_scored *x, int64_t n, int64_t k);

#endif
