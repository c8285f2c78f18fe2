/* What meta functions of pooling share. */
#ifndef TD_OPS_NN_POOL_H
#define TD_OPS_NN_POOL_H
#include <tede/geometry.h>
#include "dispatch/spec.h"

/* Windows of one element at every position, of a tensor whose last `dims` dimensions are pooled to the sizes of `out`; at most three.  The
 * caller puts in other windows. */
void td_pool_planes(td_pool_geometry *g, int dims, const td_tensor *self, const int64_t *out);
/* The result's sizes. */
int td_pool_spec(td_spec *spec, const td_tensor *self, const td_pool_geometry *g, td_dtype dtype);
/* The result of an input whose channels are innermost lies likewise, also that of a single volume. */
int td_pool_follow_format(td_spec *spec, td_tensor *self, int dims);

/* 0, or -1 with the words of PyTorch's checkDimRange. */
int td_check_rank(const char *op, const td_tensor *x, int from, int to);
/* Two results without a dimension of size 1; takes over the references of `wide`. */
int td_squeeze_pair(td_tensor **results, td_tensor **wide, int64_t dim);

/* 0 if the gradient of adaptive pooling ("avg" or "max") has elements. */
int td_check_adaptive_grad(const char *kind, const td_tensor *grad, int dims);

#endif
