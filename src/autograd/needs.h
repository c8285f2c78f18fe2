/* The operators that autograd itself calls.
 *
 * The formulas of nodes are generated; these few serve the machinery: adding gradients up, fitting them to an
 * operand, views written in place.  needs.c maps them to <tede/ops.h>; tests of the machinery alone bring their own.
 * Each gives a new reference, or NULL or -1 with an error.  Called with gradients enabled they record themselves. */
#ifndef TD_AUTOGRAD_NEEDS_H
#define TD_AUTOGRAD_NEEDS_H
#include <tede/tensor.h>
#include "tensor/masks.h"

/* Whether a Python mode sees the thread's calls. What is computed for it has to be computed by operators. */
static inline bool td_is_watched(void)
{
    return td_masks_now.include & ~td_masks_now.exclude & TD_KEYSET(TD_KEY_PYTHON);
}

td_tensor *td_need_add(td_tensor *a, td_tensor *b);
int        td_need_add_(td_tensor *a, td_tensor *b);
/* Of any strides, for a result nobody sees yet; strides may be NULL for contiguous. */
td_tensor *td_need_zeros(int ndim, const int64_t *sizes, const int64_t *strides, td_dtype dtype, td_device device);
/* Same, of x's dtype and device; under a transform, of as many as x has of itself. */
td_tensor *td_need_zeros_beside(td_tensor *x, int ndim, const int64_t *sizes, const int64_t *strides);
td_tensor *td_need_ones_like(td_tensor *x);
/* A copy with the given strides (NULL: contiguous), not recorded; and a recorded one. */
td_tensor *td_need_copy_of(td_tensor *x, const int64_t *strides);
td_tensor *td_need_clone(td_tensor *x);
td_tensor *td_need_detach(td_tensor *x);        /* by the operator, not recorded */
int        td_need_copy_(td_tensor *to, td_tensor *from);
td_tensor *td_need_sum_to_size(td_tensor *x, int ndim, const int64_t *sizes);
td_tensor *td_need_convert(td_tensor *x, td_dtype dtype);
td_tensor *td_need_real(td_tensor *x);
/* By the operator: a class from Python may have no memory of its own. The offset counts elements from x's first. */
td_tensor *td_need_as_strided(td_tensor *x, int ndim, const int64_t *sizes, const int64_t *strides, int64_t offset);
/* The gradient of as_strided: zeros of the base's geometry with `grad` added at the view's elements; the offset counts
 * elements from the base's first. */
td_tensor *td_need_as_strided_backward(td_tensor *grad, int base_ndim, const int64_t *base_sizes,
                                       const int64_t *base_strides, int ndim, const int64_t *sizes, const int64_t *strides, int64_t offset);
int        td_need_has_nan(td_tensor *x);        /* 1, 0 or -1 */

#endif
