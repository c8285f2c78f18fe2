/* Tangents of the norms of layers: what the `jvp:` of their entries calls.
 *
 * A norm's map x -> (x - mean) / deviation has a symmetric derivative: a projection, scaled.  So its tangent is what its
 * backward kernel makes of t in the place of a gradient, and the weight comes afterwards.  The tangents of weight and bias
 * are linear in what was normalized. */
#include "calls_ops_nn_norm_tangent.h"
#include "dispatch/outputs.h"
#include "ops/compose.h"

#define LET(x) TD_AUTO td_tensor *x

/* A vector as a view that broadcasts along one dimension.
 * A view, so it fails for a vector of another length than the dimension's. */
static td_tensor *along(td_tensor *v, const td_tensor *like, int64_t dim)
{
    int64_t sizes[TD_MAX_DIMS];
    for (int d = 0; d < like->ndim; d++)
        sizes[d] = d == dim ? like->sizes[d] : 1;
    return td_view(v, like->ndim, sizes);
}

/* x times a vector that may be absent: along a dimension, or along the last ones for -1. */
static td_tensor *times_along(td_tensor *x, td_tensor *v, int64_t dim)
{
    if (!x || v == TD_NONE)
        return x ? td_ref(x) : NULL;
    LET(wide) = dim < 0 ? td_ref(v) : along(v, x, dim);
    return td_mul_tensor(x, wide);
}

/* *sum += term, which is taken over. */
static int add(td_tensor **sum, td_tensor *term)
{
    td_tensor *next = *sum && term ? td_add_tensor(*sum, term, td_int(1)) : term ? td_ref(term) : NULL;
    td_tensor_release(*sum);
    td_tensor_release(term);
    *sum = next;
    return next ? 0 : -1;
}

/* The first of n results; the others go.  NULL after a failure. */
static td_tensor *first_of(int status, int n, td_tensor **parts)
{
    td_tensor *first = status ? NULL : td_ref(parts[0]);
    if (!status)
        td_results_drop(n, parts);
    return first;
}

/* The engine calls these only if an operand has a tangent; a call by the operator's name may come without. */
static bool none_moves(td_tensor *input, td_tensor *weight, td_tensor *bias)
{
    const bool none = input == TD_NONE && weight == TD_NONE && bias == TD_NONE;
    if (none)
        td_error(TD_E_RUNTIME, "no operand of the norm has a tangent");
    return none;
}

/* The mask of a backward pass that is used for its first gradient. */
static const bool only_input[] = {true, false, false};

/* weight and bias have the normalized shape, which is the last dimensions': they broadcast as they are. */
td_tensor *td_op_layer_norm_tangent(td_tensor *t_input, td_tensor *t_weight, td_tensor *t_bias, td_tensor *input, int64_t n_shape,
                                    const int64_t *shape, td_tensor *weight, td_tensor *mean, td_tensor *rstd, double eps)
{
    if (none_moves(t_input, t_weight, t_bias))
        return NULL;
    td_tensor *sum = NULL, *parts[3];
    int status = 0;
    if (t_input != TD_NONE) {
        LET(x) = first_of(td_layer_norm_grad(parts, t_input, input, n_shape, shape, mean, rstd, TD_NONE, eps, 3, only_input), 3, parts);
        status = add(&sum, times_along(x, weight, -1));
    }
    if (status == 0 && t_weight != TD_NONE) {
        LET(normal) = first_of(td_native_layer_norm(parts, input, n_shape, shape, TD_NONE, TD_NONE, eps), 3, parts);
        status = add(&sum, td_mul_tensor(normal, t_weight));
    }
    if (status == 0 && t_bias != TD_NONE)
        add(&sum, td_ref(t_bias));
    return sum;
}

/* No mean is taken away, so the projection is along x alone; it is symmetric as well. */
td_tensor *td_op_rms_norm_tangent(td_tensor *t_input, td_tensor *t_weight, td_tensor *input, int64_t n_shape, const int64_t *shape,
                                  td_tensor *weight, td_tensor *rstd, const double *eps)
{
    if (none_moves(t_input, t_weight, TD_NONE))
        return NULL;
    td_tensor *sum = NULL, *parts[2];
    int status = 0;
    if (t_input != TD_NONE) {
        LET(x) = first_of(td_rms_norm_grad(parts, t_input, input, n_shape, shape, rstd, TD_NONE, eps, 2, only_input), 2, parts);
        status = add(&sum, times_along(x, weight, -1));
    }
    if (status == 0 && t_weight != TD_NONE) {
        LET(normal) = first_of(td__fused_rms_norm(parts, input, n_shape, shape, TD_NONE, eps), 2, parts);
        add(&sum, td_mul_tensor(normal, t_weight));
    }
    return sum;
}

/* In evaluation the statistics are constants and the map is a scale per channel. In training `normal` is computed
 * without the running statistics, which would be updated a second time. */
td_tensor *td_op_batch_norm_tangent(td_tensor *t_input, td_tensor *t_weight, td_tensor *t_bias, td_tensor *input, td_tensor *weight,
                                    td_tensor *running_mean, td_tensor *running_var, td_tensor *mean, td_tensor *rstd, bool training,
                                    double momentum, double eps)
{
    if (none_moves(t_input, t_weight, t_bias))
        return NULL;
    td_tensor *sum = NULL, *parts[3];
    int status = 0;
    if (t_input != TD_NONE) {
        LET(x) = first_of(td_batch_norm_grad(parts, t_input, input, TD_NONE, running_mean, running_var, mean, rstd, training, eps, 3,
                                             only_input), 3, parts);
        status = add(&sum, times_along(x, weight, 1));
    }
    if (status == 0 && t_weight != TD_NONE) {
        td_tensor *used_mean = training ? TD_NONE : running_mean, *used_var = training ? TD_NONE : running_var;
        LET(normal) = first_of(td_native_batch_norm(parts, input, TD_NONE, TD_NONE, used_mean, used_var, training, momentum, eps), 3, parts);
        status = add(&sum, times_along(normal, t_weight, 1));
    }
    if (status == 0 && t_bias != TD_NONE)
        add(&sum, along(t_bias, input, 1));
    return sum;
}

/* Its statistics are results with tangents, too.
 * d mean = mean(t) and d rstd = -rstd^3 mean((x - mean) t), for each group. */
int td_op_group_norm_tangent(td_tensor **results, td_tensor *t_input, td_tensor *t_weight, td_tensor *t_bias, td_tensor *input,
                             td_tensor *weight, td_tensor *mean, td_tensor *rstd, int64_t N, int64_t C, int64_t HxW, int64_t group,
                             double eps)
{
    if (none_moves(t_input, t_weight, t_bias))
        return -1;
    if (group <= 0 || N < 0 || C < 0 || HxW < 0 || C % group || (N > 0 && C > 0 && HxW > 0 && input->numel / N / C / HxW != 1))
        return td_error(TD_E_RUNTIME, "group_norm_tangent: an input of %lld elements is no batch of groups of channels",
                        (long long)input->numel);
    int64_t rows[] = {N, group, C / group * HxW}, last[] = {2};
    td_tensor *sum = NULL, *means = td_ref(TD_NONE), *deviations = td_ref(TD_NONE);
    if (t_input != TD_NONE) {
        td_tensor *parts[3];
        if (td_group_norm_grad(parts, t_input, TD_NONE, TD_NONE, input, mean, rstd, TD_NONE, N, C, HxW, group, eps, 3,
                               (const bool[]){true, false, false}))
            return -1;
        sum = times_along(parts[0], weight, 1);
        td_results_drop(3, parts);
        LET(t) = td_reshape(t_input, 3, rows);
        LET(x) = td_reshape(input, 3, rows);
        LET(middle) = td_unsqueeze(mean, 2);
        LET(centred) = td_minus(x, middle);
        LET(product) = td_mul_tensor(centred, t);
        LET(covariance) = td_mean_dims(product, 1, last, false, TD_DTYPE_NONE);
        LET(square) = td_mul_tensor(rstd, rstd);
        LET(cube) = td_mul_tensor(square, rstd);
        LET(slope) = td_mul_tensor(covariance, cube);
        means = td_mean_dims(t, 1, last, false, TD_DTYPE_NONE);
        deviations = td_neg(slope);
        if (!sum || !means || !deviations)
            goto fail;
    }
    if (t_weight != TD_NONE) {
        td_tensor *parts[3];
        if (td_native_group_norm(parts, input, TD_NONE, TD_NONE, N, C, HxW, group, eps))
            goto fail;
        int status = add(&sum, times_along(parts[0], t_weight, 1));
        td_results_drop(3, parts);
        if (status)
            goto fail;
    }
    if (t_bias != TD_NONE) {
        LET(wide) = along(t_bias, input, 1);
        if (add(&sum, td_expand(wide, input->ndim, input->sizes)))
            goto fail;
    }
    results[0] = sum ? sum : td_ref(TD_NONE), results[1] = means, results[2] = deviations;
    return 0;
fail:
    td_tensor_release(sum);
    td_tensor_release(means);
    td_tensor_release(deviations);
    return -1;
}
