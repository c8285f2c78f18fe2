/* Images read at given positions: grid_sampler and its gradients.  Threads share the positions forward, the samples backward,
 * since positions may share elements. */
#include "calls_kernels_cpu_nn_grid_sampler.h"
#include "kernels/cpu/nn/grid_sampler.h"

int td_cpu_grid_sample(td_tensor *input, td_tensor *grid, const td_sample_geometry *g, td_tensor *out)
{
    TD_AUTO td_tensor *x = td_operand(input, g->dtype), *at = td_operand(grid, g->dtype), *y = td_target(out, g->dtype);
    if (!x || !at || !y)
        return -1;
    const td_sampling_table *loops = TD_ISA_PICK(td_sampling_table);
    td_sampling s = {.g = *g, .x = x->data, .grid = at->data, .y = y->data};
    if (out->numel)
        td_parallel_for(0, g->batch * g->out_total, td_grain(20 * g->channels), g->dtype == TD_F64 ? loops->forward_f64 : loops->forward_f32, &s);
    return td_finish(out, y);
}

/* dx is added to from positions that may share elements, hence whole samples for a thread, in the order of the positions. */
int td_cpu_grid_sampler_backward(td_tensor *grad, td_tensor *input, td_tensor *grid, const td_sample_geometry *g, td_tensor *out0,
                                 td_tensor *out1)
{
    TD_AUTO td_tensor *x = td_operand(input, g->dtype), *at = td_operand(grid, g->dtype), *slopes = td_operand(grad, g->dtype);
    TD_AUTO td_tensor *dx = td_target(out0, g->dtype), *dgrid = td_target(out1, g->dtype);
    if (!x || !at || !slopes || !dx || !dgrid)
        return -1;
    const td_sampling_table *loops = TD_ISA_PICK(td_sampling_table);
    td_sampling s = {*g, x->data, at->data, slopes->data, NULL, td_data_or_null(dx), td_data_or_null(dgrid)};
    if (s.dx)
        memset(s.dx, 0, (size_t)(dx->numel * td_itemsize(dx)));
    td_parallel_for(0, g->batch, td_grain(40 * g->channels * g->out_total), g->dtype == TD_F64 ? loops->backward_f64 : loops->backward_f32, &s);
    return td_finish(out0, dx) || td_finish(out1, dgrid) ? -1 : 0;
}
