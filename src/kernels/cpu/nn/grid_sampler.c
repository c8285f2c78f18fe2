/* Images read at given places: grid_sampler and its gradients.  Threads share the places forward, the samples backward,
 * since places may share elements. */
#include "calls_kernels_cpu_nn_grid_sampler.h"
#include "kernels/cpu/nn/grid_sampler.h"

/* Dimensions that aren't there have one element; x and grid are contiguous. */
static td_sampling describe(td_tensor *x, td_tensor *grid, int64_t mode, int64_t padding, bool align)
{
    td_sampling s = {.dims = x->ndim - 2, .mode = (int)mode, .padding = (int)padding, .align = align, .channels = x->sizes[1],
                  .elements = 1, .places = 1, .x = x->data, .grid = grid->data};
    for (int i = 0; i < 3; i++) {
        int d = i - (3 - s.dims);
        s.size[i] = d < 0 ? 1 : x->sizes[2 + d];
        s.elements *= s.size[i], s.places *= d < 0 ? 1 : grid->sizes[1 + d];
    }
    return s;
}

/* Places are counted in integers as wide as the type: tensors with more elements than an int32 counts go by double. */
static int sample(td_tensor *input, td_tensor *grid, int64_t mode, int64_t padding, bool align, td_tensor *out)
{
    int64_t elements = 1;
    for (int d = 2; d < input->ndim; d++)
        elements *= input->sizes[d];
    const td_dtype type = elements > INT32_MAX ? TD_F64 : td_compute_dtype(input);       /* as wide as places are */
    TD_AUTO td_tensor *x = td_operand(input, type), *at = td_operand(grid, type), *y = td_target(out, type);
    if (!x || !at || !y)
        return -1;
    const td_sampling_table *loops = TD_ISA_PICK(td_sampling_table);
    td_sampling s = describe(x, at, mode, padding, align);
    s.y = y->data;
    if (out->numel)
        td_parallel_for(0, x->sizes[0] * s.places, td_grain(20 * s.channels), type == TD_F64 ? loops->forward_f64 : loops->forward_f32, &s);
    return td_finish(out, y);
}

int td_cpu_grid_sampler_2d(td_tensor *input, td_tensor *grid, int64_t mode, int64_t padding, bool align, td_tensor *out)
{
    return sample(input, grid, mode, padding, align, out);
}

int td_cpu_grid_sampler_3d(td_tensor *input, td_tensor *grid, int64_t mode, int64_t padding, bool align, td_tensor *out)
{
    return sample(input, grid, mode, padding, align, out);
}

/* dx is added to from places that may share elements, hence whole samples for a thread, in the order of the places. */
int td_cpu_grid_sampler_backward(td_tensor *grad, td_tensor *input, td_tensor *grid, int64_t mode, int64_t padding,
                                 bool align, int64_t n_mask, const bool *mask, td_tensor *out0, td_tensor *out1)
{
    (void)n_mask, (void)mask;
    td_dtype type = td_compute_dtype(input);
    TD_AUTO td_tensor *x = td_operand(input, type), *at = td_operand(grid, type), *g = td_operand(grad, type);
    TD_AUTO td_tensor *dx = td_target(out0, type), *dgrid = td_target(out1, type);
    if (!x || !at || !g || !dx || !dgrid)
        return -1;
    const td_sampling_table *loops = TD_ISA_PICK(td_sampling_table);
    td_sampling s = describe(x, at, mode, padding, align);
    s.grad = g->data, s.dx = td_data_or_null(dx), s.dgrid = td_data_or_null(dgrid);
    if (s.dx)
        memset(s.dx, 0, (size_t)(dx->numel * td_itemsize(dx)));
    td_parallel_for(0, x->sizes[0], td_grain(40 * s.channels * s.places), type == TD_F64 ? loops->backward_f64 : loops->backward_f32, &s);
    return td_finish(out0, dx) || td_finish(out1, dgrid) ? -1 : 0;
}
