/* cdist and pdist on devices: distance.ck. */
#include "calls_kernels_device_distance.h"
#include <math.h>
#include "kernels/device/kernel.h"
#define TD_HOST
#include "kernels/device/distance.ck"

TD_SOURCE(distance);

static int kind_of(double p)
{
    return p == 0 ? DISTANCE_COUNT : p == 1 ? DISTANCE_ABSOLUTE : p == 2 ? DISTANCE_SQUARES : isinf(p) ? DISTANCE_LARGEST : DISTANCE_POWERS;
}

static distance_values values_of(int64_t batch, int64_t rows, int64_t columns, int64_t width, double p)
{
    return (distance_values){batch, rows, columns, width, td_number(p), td_number(p - 1), td_number(1 / p)};
}

static int distances(const distance_values *v, double p, bool pairs, td_tensor *a, td_tensor *b, td_tensor *out)
{
    td_launch_of launch = {
        .source = td_source_distance, .kernel = "distances", TD_VALUES(*v), .types = {{"A", (td_dtype)a->dtype}},
        .numbers = {{"KIND", kind_of(p)}, {"PAIRS", pairs}, {"BACKWARD", false}}, .groups = out->numel ? td_launch_groups(a->device, v->batch * v->rows * v->columns) : 0,
    };
    return TD_LAUNCH_ON(launch, TD_READS(a), TD_READS(b), TD_WRITES(out));
}
int td_on_device_pair_distances(td_tensor *x1, td_tensor *x2, double p, td_tensor *out0)
{
    const distance_values v = values_of(x1->sizes[0], x1->sizes[1], x2->sizes[1], x1->sizes[2], p);
    return distances(&v, p, false, x1, x2, out0);
}
int td_on_device__pdist_forward(td_tensor *self, double p, td_tensor *out0)
{
    const distance_values v = values_of(1, self->sizes[0], self->sizes[0], self->sizes[1], p);
    return distances(&v, p, true, self, self, out0);
}
int td_on_device__pdist_backward(td_tensor *grad, td_tensor *self, double p, td_tensor *pdist, td_tensor *out0)
{
    const distance_values v = values_of(1, self->sizes[0], self->sizes[0], self->sizes[1], p);
    td_launch_of launch = {
        .source = td_source_distance, .kernel = "distance_slopes", TD_VALUES(v), .types = {{"A", (td_dtype)self->dtype}},
        .numbers = {{"KIND", kind_of(p)}, {"BACKWARD", true}}, .groups = out0->numel ? td_launch_groups(self->device, out0->numel) : 0,
    };
    return TD_LAUNCH_ON(launch, TD_READS(grad), TD_READS(self), TD_READS(pdist), TD_WRITES(out0));
}
