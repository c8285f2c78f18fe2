/* Pooling on devices: pool.ck. */
#include "calls_kernels_device_pool.h"
#include "kernels/device/kernel.h"
#define TD_HOST
#include "kernels/device/pool.ck"

TD_SOURCE(pool);

static pool_values values_of(const td_pool_geometry *g)
{
    return (pool_values){.planes = g->planes, .in_total = g->in_total, .out_total = g->out_total, TD_WINDOWS(g), .divisor = g->divisor,
                         .adaptive = g->adaptive, .include_pad = g->include_pad, .dims = g->dims};
}

/* Sums by position are computed in `sums`. */
static td_launch_of launch_of(const char *kernel, const pool_values *v, const td_tensor *from, td_dtype sums, bool last_counts, int64_t groups)
{
    return (td_launch_of){.source = td_source_pool, .kernel = kernel, .values = v, .size = sizeof *v, .groups = groups,
                          .numbers = {{"LAST_COUNTS", last_counts}}, .types = {{"A", (td_dtype)from->dtype}, {"B", sums}}, .late = v->limits.kind != 0};
}

/* from -> out, an item for each element of out. */
static int by_elements(const char *kernel, const td_pool_geometry *g, td_tensor *from, td_tensor *out)
{
    const pool_values v = values_of(g);
    return TD_LAUNCH_ON(launch_of(kernel, &v, from, (td_dtype)out->dtype, false, td_launch_groups(out->device, out->numel)), TD_READS(from), TD_WRITES(out));
}

int td_on_device_max_pool(td_tensor *self, const td_pool_geometry *geometry, td_tensor *out0, td_tensor *out1)
{
    const pool_values v = values_of(geometry);
    const int64_t groups = td_launch_groups(out0->device, geometry->in_total ? out0->numel : 0);
    return TD_LAUNCH_ON(launch_of("pool_maxima", &v, self, (td_dtype)out0->dtype, false, groups), TD_READS(self), TD_WRITES(out0), TD_WRITES(out1));
}
int td_on_device_fractional_max_pool(td_tensor *self, td_tensor *random_samples, const td_pool_geometry *geometry, td_tensor *out0, td_tensor *out1)
{
    const pool_values v = values_of(geometry);
    const int64_t groups = td_launch_groups(out0->device, geometry->in_total ? out0->numel : 0);
    return TD_LAUNCH_ON(launch_of("pool_fractional", &v, self, (td_dtype)out0->dtype, false, groups), TD_READS(self), TD_READS(random_samples),
                        TD_WRITES(out0), TD_WRITES(out1));
}
int td_on_device_avg_pool(td_tensor *self, const td_pool_geometry *geometry, td_tensor *out0)
{
    return by_elements("pool_averages", geometry, self, out0);
}
int td_on_device_avg_pool_backward(td_tensor *grad_output, td_tensor *self, const td_pool_geometry *geometry, td_tensor *out0)
{
    (void)self;
    return by_elements("pool_shares", geometry, grad_output, out0);
}

#define INVALID "invalid maxIdx %lld, image of %lld elements"

/* Halves are added up in float32 and rounded once. */
static int put(td_tensor *from, td_tensor *indices, const td_pool_geometry *g, bool last_counts, td_tensor *out)
{
    pool_values v = values_of(g);
    v.limits = last_counts ? td_index_limits(0, v.in_total, TD_E_RUNTIME, "max_unpool", "Found an invalid max index: %lld (output volumes are of %lld elements)", 0)
                           : td_index_limits(0, v.in_total, TD_E_RUNTIME, "max_pool_backward", INVALID, 0);
    const td_dtype dtype = (td_dtype)out->dtype, sums = dtype == TD_F16 || dtype == TD_BF16 ? TD_F32 : dtype;
    return TD_LAUNCH_ON(launch_of("pool_put", &v, from, sums, last_counts, td_launch_many(out->device, out->numel ? g->planes : 0)), TD_READS(from),
                        TD_READS_AS(indices, TD_I64), {out, sums, TD_WRITTEN});
}

int td_on_device_max_pool_backward(td_tensor *grad_output, td_tensor *self, td_tensor *indices, const td_pool_geometry *geometry, td_tensor *out0)
{
    (void)self;
    return put(grad_output, indices, geometry, false, out0);
}
int td_on_device_max_unpool(td_tensor *self, td_tensor *indices, const td_pool_geometry *geometry, td_tensor *out0)
{
    td_pool_geometry back = *geometry;      /* the larger planes are the result's */
    back.in_total = geometry->out_total, back.out_total = geometry->in_total;
    return put(self, indices, &back, true, out0);
}
int td_on_device_max_pool_pick(td_tensor *self, td_tensor *indices, const td_pool_geometry *geometry, td_tensor *out0)
{
    pool_values v = values_of(geometry);
    v.limits = td_index_limits(0, v.in_total, TD_E_RUNTIME, "max_pool_pick", INVALID, 0);
    return TD_LAUNCH_ON(launch_of("pool_pick", &v, self, (td_dtype)out0->dtype, false, td_launch_groups(out0->device, out0->numel)), TD_READS(self),
                        TD_READS_AS(indices, TD_I64), TD_WRITES(out0));
}
