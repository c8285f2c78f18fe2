/* Whether a call is recorded within a region: one test for all that have calls to record. See Note [Late tensors] in late.h. */
#ifndef TD_TENSOR_RECORDED_H
#define TD_TENSOR_RECORDED_H
#include "tensor/late.h"

/* Whether all operands, of which some may be TD_NONE or NULL, are plain ones on the CPU that may be read later, and one makes it worth it,
 * or recorded calls have the tensor that is written. `out`: NULL for a new one. */
bool td_operands_wait(const td_tensor *out, int n, td_tensor *const *operands);
static inline bool td_is_recorded(const td_tensor *out, int n, td_tensor *const *operands)
{
    return TD_UNLIKELY(td_in_region()) && td_operands_wait(out, n, operands);
}

#endif
