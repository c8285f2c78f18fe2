/* The engine of reductions, for kernels that need one (reduce.c). */
#ifndef TD_KERNELS_DEVICE_REDUCE_H
#define TD_KERNELS_DEVICE_REDUCE_H
#include "kernels/device/kernel.h"
#include "kernels/device/reduce_kinds.ck"

/* What is folded (REDUCE_...), what becomes of it (AFTER_...), computed in which dtype; results of any dtype, or TD_NONE. */
typedef struct td_fold {
    int        kind, after;
    td_dtype   compute;
    td_tensor *out, *second;
    double     p;
} td_fold;

/* Along the marked dimensions, which the results lack or have with size 1. */
int td_fold_on_device(const td_fold *fold, td_tensor *self, const bool *mask);

#endif
