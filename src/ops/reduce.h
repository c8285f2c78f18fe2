/* What reductions' meta functions and kernels share: which dimensions, what shape. */
#ifndef TD_OPS_REDUCE_H
#define TD_OPS_REDUCE_H
#include <tede/auto.h>
#include <tede/dispatch.h>
#include <tede/list.h>
#include "ops/spec.h"

/* Mark the dimensions of a list: all of them if it is absent (n < 0), or empty and `empty_is_all`. */
int td_reduce_mask(const td_tensor *x, int64_t n, const int64_t *dim, bool empty_is_all, bool *mask);
int td_reduce_spec(td_spec *spec, const td_tensor *x, const bool *mask, bool keepdim, td_dtype dtype);
/* How many elements fold into one. */
int64_t td_reduce_count(const td_tensor *x, const bool *mask);

/* x times, plus, and x to the power of a number. */
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
#endif
