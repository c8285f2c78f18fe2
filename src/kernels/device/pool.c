/* Pooling on devices: pool.ck. */
#include "calls_kernels_device_pool.h"
#include "kernels/device/kernel.h"
#define TD_HOST
#include "kernels/device/pool.ck"

#include <string.h>

TD_SOURCE(pool);

static pool_values values_of(const td_pool_geometry *g)
{
    return (pool_values){.planes = g->planes, .in_total = g->in_total, .out_total = g->out_total, TD_WINDOWS(g), .divisor = g->divisor,
                         .adaptive = g->adaptive, .include_pad = g->include_pad, .dims = g->dims};
}

/* Sums by position are computed in `sums`. */
static int run(const char *kernel, bool last_counts, const td_pool_geometry *g, td_dtype sums, td_tensor *const buffers[4], int64_t groups)
{
    const pool_values v = values_of(g);
    td_launch_of launch = {.source = td_source_pool, .kernel = kernel, TD_VALUES(v), .groups = groups, .numbers = {{"LAST_COUNTS", last_counts}},
                           .types = {{"A", (td_dtype)buffers[0]->dtype}, {"B", sums}},
                           .buffers = {buffers[0], buffers[1], buffers[2], buffers[3]}};
    return td_launch(&launch);
}

/* from -> out, an item for each element of out. */
static int by_elements(const char *kernel, const td_pool_geometry *g, td_tensor *from, td_tensor *out)
{
    TD_AUTO td_tensor *x = td_make_contiguous(from), *y = x ? td_writable(out, (td_dtype)out->dtype) : NULL;
    if (!y)
        return -1;
    return run(kernel, false, g, (td_dtype)out->dtype, (td_tensor *[4]){x, y}, td_launch_groups(out->device, out->numel)) || td_write_back(out, y) ? -1 : 0;
}

static int maxima(const char *kernel, const td_pool_geometry *g, td_tensor *self, td_tensor *samples, td_tensor *out, td_tensor *indices)
{
    TD_AUTO td_tensor *x = td_make_contiguous(self), *u = samples ? td_make_contiguous(samples) : NULL;
    TD_AUTO td_tensor *y = td_writable(out, (td_dtype)out->dtype), *at = td_writable(indices, TD_I64);
    if (!x || (samples && !u) || !y || !at)
        return -1;
    td_tensor *const buffers[4] = {x, u ? u : y, u ? y : at, u ? at : NULL};
    return run(kernel, false, g, (td_dtype)out->dtype, buffers, td_launch_groups(out->device, g->in_total ? out->numel : 0)) || td_write_back(out, y) ||
           td_write_back(indices, at) ? -1 : 0;
}

int td_on_device_max_pool(td_tensor *self, const td_pool_geometry *geometry, td_tensor *out0, td_tensor *out1)
{
    return maxima("pool_maxima", geometry, self, NULL, out0, out1);
}
int td_on_device_fractional_max_pool(td_tensor *self, td_tensor *random_samples, const td_pool_geometry *geometry, td_tensor *out0, td_tensor *out1)
{
    return maxima("pool_fractional", geometry, self, random_samples, out0, out1);
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

/* Halves are added up in float32 and rounded once. */
static int put(td_tensor *from, td_tensor *indices, const td_pool_geometry *g, bool last_counts, td_tensor *out)
{
    const td_dtype dtype = (td_dtype)out->dtype, sums = dtype == TD_F16 || dtype == TD_BF16 ? TD_F32 : dtype;
    TD_AUTO td_tensor *x = td_make_contiguous(from), *at = td_as_contiguous(indices, TD_I64), *y = td_writable(out, sums);
    if (!x || !at || !y)
        return -1;
    return run("pool_put", last_counts, g, sums, (td_tensor *[4]){x, at, y}, td_launch_many(out->device, out->numel ? g->planes : 0)) ||
           td_write_back(out, y) ? -1 : 0;
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
    TD_AUTO td_tensor *x = td_make_contiguous(self), *at = td_as_contiguous(indices, TD_I64), *y = td_writable(out0, (td_dtype)out0->dtype);
    if (!x || !at || !y)
        return -1;
    return run("pool_pick", false, geometry, (td_dtype)out0->dtype, (td_tensor *[4]){x, at, y}, td_launch_groups(out0->device, out0->numel)) ||
           td_write_back(out0, y) ? -1 : 0;
}
