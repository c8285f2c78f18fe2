/* What meta functions and kernels of losses share. */
#ifndef TD_OPS_NN_LOSS_H
#define TD_OPS_NN_LOSS_H
#include "tensor/tensor.h"

/* 0 if target holds class numbers for self's shape (classes in dimension 1, or the only one). */
int td_check_classes(td_tensor *self, td_tensor *target, td_tensor *weight);

#endif
