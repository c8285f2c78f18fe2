/* Images read at given positions on devices: grid_sampler.ck. */
#include "calls_kernels_device_grid_sampler.h"
#include "kernels/device/kernel.h"
#define TD_HOST
#include "kernels/device/grid_sampler.ck"

TD_SOURCE(grid_sampler);

static td_launch_of launch_of(const char *kernel, const td_sample_geometry *g, sample_values *v, const td_tensor *x)
{
    v->n = g->batch * v->parts * g->out_total, v->channels = g->channels, v->in_total = g->in_total, v->out_total = g->out_total;
    v->outside = (int32_t)g->outside, v->align = g->align_corners;
    for (int d = 0; d < 3; d++)
        v->in[d] = g->in[d];
    return (td_launch_of){.source = td_source_grid_sampler, .kernel = kernel, .values = v, .size = sizeof *v, .types = {{"A", (td_dtype)x->dtype}, {"P", g->dtype}},
                          .numbers = {{"DIMS", g->dims}, {"TAPS", g->mode == TD_SAMPLE_NEAREST ? 1 : g->mode == TD_SAMPLE_LINEAR ? 2 : 4}},
                          .groups = td_launch_groups(x->device, g->channels ? v->n : 0)};
}

/* Channels are divided as long as there are fewer work items than `enough`. */
int td_on_device_grid_sample(td_tensor *input, td_tensor *grid, const td_sample_geometry *g, td_tensor *out0)
{
    const int64_t positions = g->batch * g->out_total, enough = 1 << 16;
    sample_values v = {.parts = 1};
    if (positions && positions < enough)
        v.parts = enough / positions < g->channels ? enough / positions : g->channels;
    v.each = v.parts ? (g->channels + v.parts - 1) / v.parts : 0;
    return TD_LAUNCH_ON(launch_of("sample", g, &v, input), TD_READS(input), TD_READS(grid), TD_WRITES(out0));
}

int td_on_device_grid_sampler_backward(td_tensor *grad, td_tensor *input, td_tensor *grid, const td_sample_geometry *g, td_tensor *out0, td_tensor *out1)
{
    const bool of_x = out0 != TD_NONE, of_grid = out1 != TD_NONE;
    sample_values v = {.parts = 1};
    td_launch_of launch = launch_of("sample_back", g, &v, input);
    launch.numbers[2] = (td_source_number){"WANTS_X", of_x}, launch.numbers[3] = (td_source_number){"WANTS_GRID", of_grid};
    launch.numbers[4] = (td_source_number){"WIDE", g->dtype == TD_F64};
    if (!td_device_computes(input->device, g->dtype))
        return td_leave_to_cpu(td_dtype_name(g->dtype));
    if ((of_x && td_zero_(out0)) || (of_grid && !g->channels && td_zero_(out1)))
        return -1;
    return TD_LAUNCH_ON(launch, TD_READS(grad), TD_READS(input), TD_READS(grid), {out0, g->dtype, TD_UPDATED}, TD_WRITES(out1));
}
