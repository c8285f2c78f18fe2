/* What all devices check of ctc_loss's labels before they are read. */
#ifndef TD_OPS_NN_CTC_H
#define TD_OPS_NN_CTC_H
#include "tensor/tensor.h"

/* Where each sample's labels begin in `targets`, which is contiguous, int64 and on the CPU; -1 if one isn't a class. */
int td_ctc_begins(const td_tensor *targets, int64_t batch, int64_t classes, const int64_t *target, int64_t *begins);

#endif
