/* Arithmetic of sizes, strides, counts and bytes, for which programs may name any number: a result that doesn't fit is an error, or
 * stands at the end of the range where it is only compared, never wrapped. */
#ifndef TD_TENSOR_CHECKED_H
#define TD_TENSOR_CHECKED_H
#include "tensor/tensor.h"
#include <inttypes.h>

/* 0, or -1 with an error. */
static inline int td_mul_checked(int64_t a, int64_t b, int64_t *product)
{
    return TD_LIKELY(!__builtin_mul_overflow(a, b, product)) ? 0
         : td_error(TD_E_RUNTIME, "integer multiplication overflow: %" PRId64 " * %" PRId64, a, b);
}
static inline int td_add_checked(int64_t a, int64_t b, int64_t *sum)
{
    return TD_LIKELY(!__builtin_add_overflow(a, b, sum)) ? 0 : td_error(TD_E_RUNTIME, "integer addition overflow: %" PRId64 " + %" PRId64, a, b);
}

/* Saturated: INT64_MIN or INT64_MAX stand for what lies beyond. */
static inline int64_t td_mul_saturated(int64_t a, int64_t b)
{
    int64_t product;
    return TD_LIKELY(!__builtin_mul_overflow(a, b, &product)) ? product : (a < 0) != (b < 0) ? INT64_MIN : INT64_MAX;
}
static inline int64_t td_add_saturated(int64_t a, int64_t b)
{
    int64_t sum;
    return TD_LIKELY(!__builtin_add_overflow(a, b, &sum)) ? sum : b < 0 ? INT64_MIN : INT64_MAX;
}
static inline int64_t td_sub_saturated(int64_t a, int64_t b)
{
    int64_t difference;
    return TD_LIKELY(!__builtin_sub_overflow(a, b, &difference)) ? difference : b > 0 ? INT64_MIN : INT64_MAX;
}

/* The bytes of an array; what doesn't fit is a number that no allocation gives. */
static inline size_t td_array_bytes(int64_t count, size_t each)
{
    size_t bytes;
    return TD_LIKELY(count >= 0 && !__builtin_mul_overflow((size_t)count, each, &bytes)) ? bytes : SIZE_MAX;
}
/* ceil(a / b) of a >= 0 and b > 0. */
static inline int64_t td_quotient_up(int64_t a, int64_t b) { return a / b + (a % b != 0); }

/* Numbers that windows are made of, as PyTorch takes them: in the range of an int.  So all that is computed from them and from sizes of
 * memory fits. */
static inline int td_check_ints(int64_t n, const int64_t *values)
{
    for (int64_t i = 0; i < n; i++)
        if (values[i] > INT32_MAX || values[i] < INT32_MIN)
            return td_error(TD_E_RUNTIME, "value cannot be converted to type int without overflow: %" PRId64, values[i]);
    return 0;
}

/* An expanded tensor may have more elements than a loop gets through: an error at once for who takes them one by one. */
static inline int td_check_steps(const char *op, int64_t steps)
{
    return TD_LIKELY(steps <= INT64_C(1) << 53) ? 0
         : td_error(TD_E_RUNTIME, "%s: %" PRId64 " elements are too many to compute with", op, steps);
}

/* How many elements in from the first one a window reaches: dilation * (kernel - 1) + 1. */
static inline int64_t td_window_span(int64_t kernel, int64_t dilation)
{
    return td_add_saturated(td_mul_saturated(dilation, kernel - 1), 1);
}
/* How far a window that spans so much can move in a padded dimension, less than 0 if it doesn't fit. */
static inline int64_t td_window_room(int64_t in, int64_t pad, int64_t span)
{
    return td_sub_saturated(td_add_saturated(in, td_mul_saturated(pad, 2)), span);
}

#endif
