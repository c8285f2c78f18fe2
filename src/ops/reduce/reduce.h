/* What reductions' meta functions and kernels share: which dimensions, what shape. The kernels are
 * src/kernels/cpu/reduce/operators.c; the entries are in ops/reduce.yaml. */
#ifndef TD_OPS_REDUCE_REDUCE_H
#define TD_OPS_REDUCE_REDUCE_H
#include <tede/auto.h>
#include <tede/dispatch.h>
#include <tede/list.h>
#include "dispatch/spec.h"

/* Mark the dimensions of a list: all of them if it is absent (n < 0), or empty and `empty_is_all`. `mask` has TD_MAX_DIMS
 * elements; -1 for a dimension that isn't there or comes twice. */
int td_reduce_mask(const td_tensor *x, int64_t n, const int64_t *dim, bool empty_is_all, bool *mask);
/* The result's shape: without the marked dimensions, or with size 1 for them. */
int td_reduce_spec(td_spec *spec, const td_tensor *x, const bool *mask, bool keepdim, td_dtype dtype);
/* How many elements fold into one. */
int64_t td_reduce_count(const td_tensor *x, const bool *mask);

/* The bin of x in [low, high] is (x scale - from) / width of their number, which there is one of more for high. */
typedef struct td_bins { double low, high, from, width, scale; } td_bins;
/* On a device with programs: how many elements of a contiguous x lie in each bin; without a range, how many are each of the numbers from 0, within
 * which they are known to be.  int64. */
td_tensor *td_count_on_device(td_tensor *x, int64_t bins, const td_bins *range);

/* Products of what is before each element along a dimension: cumprod, one step later, starting with 1. */
td_tensor *td_product_before(td_tensor *x, int64_t dim);
/* Whether a gradient of products needs the general formula, which is right for all values but slower. Where elements can't be
 * read (vmap) the answer is yes; on meta either has the right shape, and the answer is no. */
int td_may_have_zeros(td_tensor *x, bool *answer);

/* x times, plus and compared with a number. It counts as a Python number in type promotion (td_wrapped_number), so float32
 * stays float32. */
static inline td_tensor *td_mul_number(td_tensor *x, double number)
{
    TD_AUTO td_tensor *n = td_wrapped_number(td_float(number));
    return td_mul(x, n);
}
static inline td_tensor *td_add_number(td_tensor *x, double number)
{
    TD_AUTO td_tensor *n = td_wrapped_number(td_float(number));
    return td_add(x, n);
}
static inline td_tensor *td_eq_number(td_tensor *x, double number)
{
    TD_AUTO td_tensor *n = td_wrapped_number(td_float(number));
    return td_eq(x, n);
}
/* logsumexp of complex numbers by its definition, with the largest real part taken out, which is not done where that is infinite: operators, on
 * any device, since it is rare. */
int td_complex_logsumexp(td_tensor *self, int64_t n_dim, const int64_t *dim, td_tensor *out);

#endif
