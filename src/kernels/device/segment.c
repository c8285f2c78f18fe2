/* segment_reduce on devices: segment.ck. */
#include "calls_kernels_device_segment.h"
#include <math.h>
#include "kernels/device/kernel.h"
#include "ops/reduce/segment.h"
#define TD_HOST
#include "kernels/device/segment.ck"

TD_SOURCE(segment);

static td_launch_of launch_of(const td_segments *p, const td_tensor *data, const char *kernel, segment_values *v)
{
    const bool wide = data->dtype == TD_F64;
    *v = (segment_values){p->outer * p->segments * p->inner, p->segments, p->n, p->inner, td_number_bits(p->first, wide),
                          td_number_bits(p->how == TD_SEGMENTS_MEAN && !p->given ? NAN : p->first, wide)};
    return (td_launch_of){.source = td_source_segment, .kernel = kernel, .values = v, .size = sizeof *v, .groups = td_launch_groups(data->device, v->count),
                          .types = {{"A", (td_dtype)data->dtype}, {"U", wide ? TD_F64 : TD_F32}}, .numbers = {{"HOW", p->how}, {"WIDE", wide}}};
}

int td_segment_reduce_on_device(const td_segments *p, td_tensor *data, td_tensor *out)
{
    segment_values v;
    const td_launch_of launch = launch_of(p, data, "segment_reduce", &v);
    return TD_LAUNCH_ON(launch, TD_READS(data), TD_READS(p->bounds), TD_WRITES(out));
}
int td_segment_slopes_on_device(const td_segments *p, td_tensor *grad, td_tensor *result, td_tensor *data, td_tensor *out)
{
    segment_values v;
    const td_launch_of launch = launch_of(p, data, "segment_slopes", &v);
    return TD_LAUNCH_ON(launch, TD_READS_AS(grad, (td_dtype)data->dtype), TD_READS_AS(result, (td_dtype)data->dtype), TD_READS(data), TD_READS(p->bounds), TD_UPDATES(out));
}
