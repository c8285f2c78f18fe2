/* Counting on devices: count.ck. */
#include "calls_kernels_device_count.h"
#include "kernels/device/kernel.h"
#include "ops/reduce/reduce.h"
#define TD_HOST
#include "kernels/device/count.ck"

TD_SOURCE(count);

/* Enough copies for 2^16 counters, and for no counter of 32 bits to overflow. */
td_tensor *td_count_on_device(td_tensor *x, int64_t bins, const td_bins *range)
{
    const td_bins r = range ? *range : (td_bins){0};
    const int64_t groups = td_launch_groups(x->device, x->numel);
    count_values v = {x->numel, bins, 1 + (1 << 16) / (bins + 1), td_number_bits(r.low, true), td_number_bits(r.high, true), td_number_bits(r.from, true),
                      td_number_bits(r.width, true), td_number_bits(r.scale, true)};
    v.copies = v.copies < groups ? v.copies : groups > 0 ? groups : 1;
    if (v.n >> 30 > v.copies)
        v.copies = v.n >> 30;
    TD_AUTO td_tensor *counts = td_zeros(2, (int64_t[]){v.copies, bins}, TD_I32, x->device);
    if (!counts || td_launch(&(td_launch_of){.source = td_source_count, .kernel = "count", TD_VALUES(v), .groups = groups, .buffers = {x, counts},
                                             .types = {{"A", (td_dtype)x->dtype}, {"U", range ? TD_F64 : TD_F32}},
                                             .numbers = {{"RANGE", range != NULL}, {"WIDE", range != NULL}}}))
        return NULL;
    return td_sum_dim(counts, 1, (int64_t[]){0}, false);
}
