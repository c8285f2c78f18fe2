/* What all devices check of embedding_bag before anything is read by index; the two wordings of indices are those of PyTorch's two paths. */
#ifndef TD_OPS_NN_EMBEDDING_H
#define TD_OPS_NN_EMBEDDING_H
#include <stdbool.h>
#include <stdint.h>

int td_check_bag_rows(const int64_t *at, int64_t n, int64_t rows, bool general);
/* Bags begin with the first of n indices, one after the other. */
int td_check_bag_offsets(const int64_t *begin, int64_t count, int64_t n);

#endif
