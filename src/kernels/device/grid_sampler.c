/* Images read at given positions on devices: grid_sampler.ck. */
#include "calls_kernels_device_grid_sampler.h"
#include "kernels/cpu/loops/operands.h"
#include "kernels/device/kernel.h"
#define TD_HOST
#include "kernels/device/grid_sampler.ck"

TD_SOURCE(grid_sampler);

static int run(const char *kernel, const td_sample_geometry *g, sample_values v, const bool *wants, td_tensor *const buffers[5])
{
    v.n = g->batch * v.parts * g->out_total, v.channels = g->channels, v.in_total = g->in_total, v.out_total = g->out_total, v.outside = (int32_t)g->outside, v.align = g->align_corners;
    for (int d = 0; d < 3; d++)
        v.in[d] = g->in[d];
    td_launch_of launch = {
        .source = td_source_grid_sampler, .kernel = kernel, TD_VALUES(v), .groups = td_launch_groups(buffers[0]->device, g->channels ? v.n : 0),
        .types = {{"A", (td_dtype)buffers[0]->dtype}, {"P", g->dtype}}, .buffers = {buffers[0], buffers[1], buffers[2], buffers[3], buffers[4]},
        .numbers = {{"DIMS", g->dims}, {"TAPS", g->mode == TD_SAMPLE_NEAREST ? 1 : g->mode == TD_SAMPLE_LINEAR ? 2 : 4}}};
    if (wants)
        launch.numbers[2] = (td_source_number){"WANTS_X", wants[0]}, launch.numbers[3] = (td_source_number){"WANTS_GRID", wants[1]},
        launch.numbers[4] = (td_source_number){"WIDE", g->dtype == TD_F64};
    return td_launch(&launch);
}

/* Channels are divided as long as there are fewer work items than `enough`. */
int td_on_device_grid_sample(td_tensor *input, td_tensor *grid, const td_sample_geometry *g, td_tensor *out0)
{
    const int64_t positions = g->batch * g->out_total, enough = 1 << 16;
    sample_values v = {.parts = 1};
    if (positions && positions < enough)
        v.parts = enough / positions < g->channels ? enough / positions : g->channels;
    v.each = v.parts ? td_ceil_div(g->channels, v.parts) : 0;
    TD_AUTO td_tensor *x = td_make_contiguous(input), *at = td_make_contiguous(grid), *y = td_target(out0, (td_dtype)out0->dtype);
    return !x || !at || !y || run("sample", g, v, NULL, (td_tensor *[5]){x, at, y}) || td_finish(out0, y) ? -1 : 0;
}

int td_on_device_grid_sampler_backward(td_tensor *grad, td_tensor *input, td_tensor *grid, const td_sample_geometry *g, td_tensor *out0, td_tensor *out1)
{
    const bool wants[2] = {out0 != TD_NONE, out1 != TD_NONE};
    if (!td_device_computes(input->device, g->dtype))
        return td_leave_to_cpu(td_dtype_name(g->dtype));
    TD_AUTO td_tensor *slopes = td_make_contiguous(grad), *x = td_make_contiguous(input), *at = td_make_contiguous(grid);
    TD_AUTO td_tensor *dx = td_target(out0, g->dtype), *dgrid = td_target(out1, (td_dtype)input->dtype);
    return !slopes || !x || !at || !dx || !dgrid || (wants[0] && td_zero_(dx)) || (wants[1] && !g->channels && td_zero_(dgrid)) ||
           run("sample_back", g, (sample_values){.parts = 1}, wants, (td_tensor *[5]){slopes, x, at, dx, dgrid}) || td_finish(out0, dx) ||
           td_finish(out1, dgrid) ? -1 : 0;
}
