/* A segment_reduce whose arguments are checked, for the CPU's loops and those of devices (src/kernels/device/segment.c). */
#ifndef TD_OPS_REDUCE_SEGMENT_H
#define TD_OPS_REDUCE_SEGMENT_H
#include "tensor/tensor.h"

typedef enum { TD_SEGMENTS_MAX, TD_SEGMENTS_MEAN, TD_SEGMENTS_MIN, TD_SEGMENTS_SUM, TD_SEGMENTS_PROD } td_segment_reduction;
typedef struct td_segments {
    td_segment_reduction how;
    int        axis;
    int64_t    outer, n, inner, segments;       /* the data is [outer, n, inner] */
    double     first;                           /* what is reduced from: `initial`, if it was given */
    bool       given;
    td_tensor *bounds;       /* int64, [outer, segments + 1], on the data's device: where the segments begin and end */
} td_segments;

/* Contiguous results in data's dtype. */
int td_segment_reduce_on_device(const td_segments *p, td_tensor *data, td_tensor *out);
/* out is zeros at first. */
int td_segment_slopes_on_device(const td_segments *p, td_tensor *grad, td_tensor *result, td_tensor *data, td_tensor *out);

#endif
