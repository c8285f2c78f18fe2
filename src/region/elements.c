/* Operators that refuse elements, as an index out of bounds: where those can be looked at when the operator is called, and all are good, its work is late
 * as others' is. Else it is called at once, and says itself what is wrong. */
#include "region/region.h"

/* To look at more would cost too much of what the call does. */
enum { MOST_ELEMENTS = 1 << 16 };

#define ALL_WITHIN(T)                                                          \
    do {                                                                       \
        const T *elements = (const T *)x->data;                                \
        bool within = true;                                                    \
        for (int64_t i = 0; i < x->numel; i++)                                 \
            within &= (elements[i] >= 0 && elements[i] < bound) || elements[i] == other; \
        return within;                                                         \
    } while (0)

static bool all_within(const td_tensor *x, int64_t bound, int64_t other)
{
    if (x->dtype == TD_I64)
        ALL_WITHIN(int64_t);
    if (x->dtype == TD_I32)
        ALL_WITHIN(int32_t);
    return false;
}

bool td_late_checks(const td_op *op, const td_value *arguments)
{
    const td_late_rule rule = op->late;
    if (!rule.checks)
        return false;
    const td_tensor *x = arguments[rule.index].tensor;
    const td_value *below = &arguments[rule.below];
    if (x == TD_NONE || td_is_awaited(x) || !(x->flags & TD_FLAG_CONTIGUOUS) || x->numel > MOST_ELEMENTS || x->device.type != TD_CPU)
        return false;
    int64_t bound = below->integer;
    if (below->kind == TD_VALUE_TENSOR) {
        const int dim = rule.dim < 0 ? rule.dim + below->tensor->ndim : rule.dim;
        if (dim < 0 || dim >= below->tensor->ndim)
            return false;
        bound = below->tensor->sizes[dim];
    }
    return all_within(x, bound, rule.but ? arguments[rule.but].integer : 0);
}
