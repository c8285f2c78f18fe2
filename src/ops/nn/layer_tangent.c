/* Tangents of layers that are linear in each operand, or nearly so: what the `jvp:` of their entries calls. */
#include "calls_ops_nn_layer_tangent.h"
#include "dispatch/outputs.h"
#include "ops/compose.h"

#define LET(x) TD_AUTO td_tensor *x

/* ---- softmax */

/* t - sum(p t), where p = exp(result) are the probabilities. */
td_tensor *td_op_log_softmax_tangent(td_tensor *t, td_tensor *result, int64_t dim)
{
    LET(p) = td_exp(result);
    LET(product) = td_mul_tensor(p, t);
    LET(mean) = td_sum_over(product, 1, &dim, true);
    return td_minus(t, mean);
}

/* y (g - sum(y g))
 * The derivative in g is the same map of t_g; in y it is t_y (g - sum(y g)) - y sum(t_y g). */
td_tensor *td_op_softmax_backward_tangent(td_tensor *t_grad, td_tensor *t_output, td_tensor *grad, td_tensor *output, int64_t dim,
                                          td_dtype input_dtype)
{
    LET(by_grad) = t_grad == TD_NONE ? td_ref(TD_NONE) : td__softmax_backward_data(t_grad, output, dim, input_dtype);
    if (t_output == TD_NONE)
        return by_grad ? td_ref(by_grad) : NULL;
    LET(product) = td_mul_tensor(output, grad);
    LET(sum) = td_sum_over(product, 1, &dim, true);
    LET(centred) = td_minus(grad, sum);
    LET(own) = td_mul_tensor(t_output, centred);
    LET(moved) = td_mul_tensor(t_output, grad);
    LET(shift) = td_sum_over(moved, 1, &dim, true);
    LET(shifted) = td_mul_tensor(output, shift);
    LET(by_output) = td_minus(own, shifted);
    return td_sum_of(by_grad, by_output);
}

/* g - exp(y) sum(g)
 * In g: t_g - exp(y) sum(t_g); in y: -t_y exp(y) sum(g). */
td_tensor *td_op_log_softmax_backward_tangent(td_tensor *t_grad, td_tensor *t_output, td_tensor *grad, td_tensor *output, int64_t dim)
{
    LET(p) = td_exp(output);
    const bool still = t_grad == TD_NONE;
    LET(sum_of_t) = still ? td_ref(TD_NONE) : td_sum_over(t_grad, 1, &dim, true);
    LET(shift) = still ? td_ref(TD_NONE) : td_mul_tensor(p, sum_of_t);
    LET(by_grad) = still ? td_ref(TD_NONE) : td_minus(t_grad, shift);
    if (t_output == TD_NONE)
        return by_grad ? td_ref(by_grad) : NULL;
    LET(sum) = td_sum_over(grad, 1, &dim, true);
    LET(slope) = td_mul_tensor(p, sum);
    LET(product) = td_mul_tensor(t_output, slope);
    LET(by_output) = td_neg(product);
    return td_sum_of(by_grad, by_output);
}

/* ---- embedding_bag: sums and means are linear in the table and in the weights of samples; maxima are picked */

/* mode 2 is max: each element's row is known from the forward pass, and -1 marks an empty bag, whose tangent is 0.
 * The index is raised to 0 for the gather, and what that picked is then overwritten. */
td_tensor *td_op_embedding_bag_tangent(td_tensor *t_weight, td_tensor *t_samples, td_tensor *weight, td_tensor *indices,
                                       td_tensor *offsets, td_tensor *max_indices, int64_t mode, td_tensor *samples, bool last_offset,
                                       int64_t padding_idx)
{
    if (mode == 2) {
        if (t_weight == TD_NONE)
            return td_ref(TD_NONE);
        LET(none) = td_wrapped_number(td_int(0));
        LET(empty) = td_lt_tensor(max_indices, none);
        LET(rows) = td_maximum(max_indices, none);
        LET(picked) = td_gather(t_weight, 0, rows, false);
        return td_masked_fill_scalar(picked, empty, td_int(0));
    }
    LET(sum) = td_ref(TD_NONE);
    td_tensor *const tables[] = {t_weight, weight}, *const factors[] = {samples, t_samples};
    for (int i = 0; i < 2; i++) {
        td_tensor *parts[4];
        if ((i ? t_samples : t_weight) == TD_NONE)
            continue;
        if (td__embedding_bag(parts, tables[i], indices, offsets, false, mode, false, factors[i], last_offset, padding_idx))
            return NULL;
        td_tensor *next = td_sum_of(sum, parts[0]);
        td_results_drop(4, parts);
        td_tensor_release(sum);
        if (!(sum = next))
            return NULL;
    }
    return td_ref(sum);
}

/* ---- grid_sampler: linear in the image.  As to the positions, the gradient of ones is each channel's slope, if channels are
 * separate images. */

/* Channels become images [N * C, 1, ...], each with a copy of its image's grid (an expanded view). The backward pass
 * for a gradient of ones then gives the slope of each channel in each coordinate; with t_grid it is summed over
 * coordinates. */
td_tensor *td_op_grid_sampler_tangent(td_tensor *t_input, td_tensor *t_grid, td_tensor *input, td_tensor *grid, int64_t mode,
                                      int64_t padding, bool align)
{
    LET(by_input) = t_input == TD_NONE ? td_ref(TD_NONE) : td_grid_sampler(t_input, grid, mode, padding, align);
    if (t_grid == TD_NONE)
        return by_input ? td_ref(by_input) : NULL;
    int n = input->ndim;
    if (n < 4 || grid->ndim != n)
        return td_fail(TD_E_RUNTIME, "grid_sampler_tangent: input and grid must have 4 or 5 dimensions");
    int64_t images = input->sizes[0] * input->sizes[1], sizes[TD_MAX_DIMS], wide[TD_MAX_DIMS], flat[TD_MAX_DIMS];
    memcpy(sizes, input->sizes, sizeof *sizes * (size_t)n);
    sizes[0] = images, sizes[1] = 1;
    LET(alone) = td_reshape(input, n, sizes);
    for (int d = 0; d < n; d++)
        wide[d + (d > 0)] = flat[d] = grid->sizes[d];
    wide[1] = input->sizes[1], flat[0] = images;
    LET(each) = td_unsqueeze(grid, 1);
    LET(spread) = td_expand(each, n + 1, wide);
    LET(places) = td_reshape(spread, n, flat);
    memcpy(sizes + 2, grid->sizes + 1, sizeof *sizes * (size_t)(n - 2));
    LET(one) = td_ones(n, sizes, (td_dtype)input->dtype, input->device);
    td_tensor *slopes[2];
    if (!alone || !places || !one ||
        td_grid_sampler_grad(slopes, one, alone, places, mode, padding, align, 2, (const bool[]){false, true}))
        return NULL;
    LET(slope) = td_reshape(slopes[1], n + 1, wide);
    td_results_drop(2, slopes);
    LET(moves) = td_unsqueeze(t_grid, 1);
    LET(product) = td_mul_tensor(slope, moves);
    LET(by_grid) = td_sum_over(product, 1, (int64_t[]){-1}, false);
    return td_sum_of(by_input, by_grid);
}
