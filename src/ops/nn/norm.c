/* Normalization layers: checks, shapes, and backward passes that can themselves be differentiated.
 *
 * Note [Norms in pieces]
 * All of these norms are x -> (x - mean) / deviation over some dimensions of a suitable view, scaled by a weight that is
 * broadcast.  When a graph of the backward pass is being made, it is composed of small operators on that view;
 * otherwise a kernel does it in two passes over memory.
 *
 * Half types may come with float32 parameters (mixed precision); statistics then have the parameters' dtype.
 * Derivatives, with xhat the normalized input, gw = g * weight and means over the normalized dimensions: dx = rstd
 * (gw - mean(gw) - xhat mean(gw xhat)), dweight = sum(g xhat), dbias = sum(g). rms norm has no mean to subtract, so
 * the first mean is missing from dx. */
#include "calls_ops_nn_norm.h"
#include <inttypes.h>
#include <math.h>
#include "autograd/tangent.h"
#include "ops/compose.h"
#include "tensor/checked.h"

/* ---- the common view: x as four dimensions, statistics over some of them
 * weight is the shape in which weight and bias broadcast to the view; axes are those that the statistics reduce. */
typedef struct view4 {
    int64_t sizes[4], weight[4];
    int64_t axes[3];
    int n_axes;
} view4;

static td_tensor *converted(td_tensor *x, td_dtype dtype)
{
    return !x || x == TD_NONE || x->dtype == dtype ? (x ? td_ref(x) : NULL) : td_to_dtype(x, dtype, false, false,
        TD_MEMORY_FORMAT_NONE);
}

static int wide_pieces(td_tensor **results, const view4 *v, td_tensor *grad, td_tensor *input, td_tensor *weight,
                       double eps, bool rms,
                       const bool *mask, bool has_bias);

/* Half types are computed in float32 throughout.
 * Results are the gradients of input, weight and, with has_bias, bias; those that mask doesn't want are TD_NONE.
 * Converting records, so gradients of gradients come back in the operands' dtypes. */
static int pieces(td_tensor **results, const view4 *v, td_tensor *grad, td_tensor *input, td_tensor *weight,
                  double eps, bool rms,
                  const bool *mask, bool has_bias)
{
    td_dtype type = (td_dtype)input->dtype, param = weight == TD_NONE ? type : (td_dtype)weight->dtype;
    if (type != TD_F16 && type != TD_BF16)
        return wide_pieces(results, v, grad, input, weight, eps, rms, mask, has_bias);
    TD_AUTO td_tensor *g = converted(grad, TD_F32), *x = converted(input, TD_F32), *w = converted(weight, TD_F32);
    td_tensor *wide[3];
    if (!g || !x || !w || wide_pieces(wide, v, g, x, w, eps, rms, mask, has_bias))
        return -1;
    bool fine = true;
    for (int i = 0; i < 2 + has_bias; i++) {
        results[i] = converted(wide[i], i == 0 ? type : param);
        td_tensor_release(wide[i]);
        fine &= results[i] != NULL;
    }
    if (fine)
        return 0;
    for (int i = 0; i < 2 + has_bias; i++)
        td_tensor_release(results[i]);
    return -1;
}

/* Mean and deviation are computed again from the input, not taken from the forward pass: only so does the graph lead
 * from them to the input. For the sums' derivatives the count is a constant. */
static int wide_pieces(td_tensor **results, const view4 *v, td_tensor *grad, td_tensor *input, td_tensor *weight,
                       double eps, bool rms,
                       const bool *mask, bool has_bias)
{
    double count = 1;
    for (int i = 0; i < v->n_axes; i++)
        count *= (double)v->sizes[v->axes[i]];
    TD_AUTO td_tensor *x = td_reshape(input, 4, v->sizes), *g = td_reshape(grad, 4, v->sizes);
    TD_AUTO td_tensor *w = weight == TD_NONE ? td_ref(TD_NONE) : td_reshape(weight, 4, v->weight);
    TD_AUTO td_tensor *sum = td_sum_over(x, v->n_axes, v->axes, true);
    TD_AUTO td_tensor *mean = td_times(sum, td_float(1 / count));
    TD_AUTO td_tensor *centred = rms ? td_ref(x) : td_minus(x, mean);
    TD_AUTO td_tensor *squares = td_mul_tensor(centred, centred);
    TD_AUTO td_tensor *square_sum = td_sum_over(squares, v->n_axes, v->axes, true);
    TD_AUTO td_tensor *var = td_times(square_sum, td_float(1 / count));
    TD_AUTO td_tensor *var_eps = td_plus(var, td_float(eps));
    TD_AUTO td_tensor *rstd = td_rsqrt(var_eps);
    TD_AUTO td_tensor *xhat = td_mul_tensor(centred, rstd);
    TD_AUTO td_tensor *gx = td_mul_tensor(g, xhat);
    results[0] = results[1] = td_ref(TD_NONE);
    if (has_bias)
        results[2] = td_ref(TD_NONE);
    if (mask[0]) {
        TD_AUTO td_tensor *gw = w == TD_NONE ? td_ref(g) : td_mul_tensor(g, w);
        TD_AUTO td_tensor *gwx = td_mul_tensor(gw, xhat);
        TD_AUTO td_tensor *a_sum = td_sum_over(gw, v->n_axes, v->axes, true), *b_sum = td_sum_over(gwx, v->n_axes,
            v->axes, true);
        TD_AUTO td_tensor *a = td_times(a_sum, td_float(1 / count)), *b = td_times(b_sum, td_float(1 / count));
        TD_AUTO td_tensor *along = td_mul_tensor(xhat, b);
        TD_AUTO td_tensor *first = rms ? td_ref(gw) : td_minus(gw, a);
        TD_AUTO td_tensor *rest = td_minus(first, along);
        TD_AUTO td_tensor *dx = td_mul_tensor(rest, rstd);
        results[0] = td_reshape(dx, input->ndim, input->sizes);
    }
    if (mask[1]) {
        TD_AUTO td_tensor *dw = td_sum_to_size(gx, 4, v->weight);
        results[1] = td_reshape(dw, weight->ndim, weight->sizes);
    }
    if (has_bias && mask[2]) {
        int64_t n = v->weight[0] * v->weight[1] * v->weight[2] * v->weight[3];
        TD_AUTO td_tensor *db = td_sum_to_size(g, 4, v->weight);
        results[2] = weight == TD_NONE ? td_reshape(db, 1, &n) : td_reshape(db, weight->ndim, weight->sizes);
    }
    if (results[0] && results[1] && (!has_bias || results[2]))
        return 0;
    for (int i = 0; i < 2 + has_bias; i++)
        td_tensor_release(results[i]);
    return -1;
}

/* ---- layer norm and rms norm ---------------------------------------------------------------------------------------- */

/* Both kinds of norm have PyTorch's message, which differs by a comma: "[*, 3]" for layer norm and "[*3]" for rms
 * norm. */
static int check_shapes(td_tensor *input, int64_t n, const int64_t *shape, td_tensor *weight, td_tensor *bias, bool rms)
{
    td_shape_text a, b;
    if (n < 1)
        return td_error(TD_E_RUNTIME, "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one element, "
                        "but got normalized_shape = []");
    td_tensor *params[] = {weight, bias};
    for (int i = 0; i < 2; i++) {
        bool same = params[i] == TD_NONE || params[i]->ndim == n;
        for (int d = 0; same && params[i] != TD_NONE && d < n; d++)
            same = params[i]->sizes[d] == shape[d];
        if (!same)
            return td_error(TD_E_RUNTIME, "Expected %s to be of same shape as normalized_shape, but got %s of shape %s and "
                            "normalized_shape = %s", i ? "bias" : "weight", i ? "bias" : "weight",
                            td_shape_str(params[i]->ndim, params[i]->sizes, a), td_shape_str((int)n, shape, b));
    }
    if (rms && input->ndim < n)
        return td_error(TD_E_VALUE, "Input tensor must have at least %" PRId64 " dimensions, but got %d", n, input->ndim);
    bool fits = input->ndim >= n;
    for (int64_t d = 0; fits && d < n; d++)
        fits = input->sizes[input->ndim - n + d] == shape[d];
    if (!fits) {
        const char *inner = td_shape_str((int)n, shape, a) + 1;
        return td_error(TD_E_RUNTIME, "Given normalized_shape=[%s, expected input with shape [*%s%s, but got input of size%s", inner,
                        rms ? "" : ", ", inner, td_shape_str(input->ndim, input->sizes, b));
    }
    return 0;
}

/* Parameters have one dtype: the input's, or, for halves, float32.
 * The first parameter that is present decides whether the call is a mixed one; all others must then be as it is. An
 * input that isn't floating point passes: its own error is the caller's. */
static int check_parameters(const td_tensor *input, int n, td_tensor *const *parameters)
{
    int first = 0;
    while (first < n && parameters[first] == TD_NONE)
        first++;
    const td_dtype dtype = (td_dtype)input->dtype;
    const bool mixed = first < n && parameters[first]->dtype != input->dtype;
    if (first == n || (!mixed && !td_is_floating(input)))     /* else the input's dtype is what is refused */
        return 0;
    for (int i = first; i < n; i++) {
        const td_tensor *x = parameters[i];
        if (x == TD_NONE || x->dtype == (mixed ? TD_F32 : input->dtype))
            continue;
        return mixed ? td_error(TD_E_RUNTIME, "mixed dtype (CPU): expect parameter to have scalar type of Float")
                     : td_error(TD_E_RUNTIME, "expected scalar type %s but found %s", td_dtype_title(dtype), td_dtype_title((td_dtype)x->dtype));
    }
    return mixed && dtype != TD_F16 && dtype != TD_BF16 ? td_error(TD_E_RUNTIME, "mixed dtype (CPU): all inputs must share same datatype.") : 0;
}

/* rms norm of integers skips the parameters' check, since there the input's dtype is what PyTorch names. */
static int check_rows(td_tensor *input, int64_t n, const int64_t *shape, td_tensor *weight, td_tensor *bias, bool rms)
{
    td_tensor *params[] = {weight, bias};
    if (check_shapes(input, n, shape, weight, bias, rms))
        return -1;
    if (!(rms && !td_is_floating(input)) && check_parameters(input, 2, params))
        return -1;
    return td_is_floating(input) ? 0 : td_error(TD_E_NOT_IMPLEMENTED, "\"%s\" not implemented for '%s'",
                                                rms ? "rms_norm" : "LayerNormKernelImpl",
                                                td_dtype_title((td_dtype)input->dtype));
}

/* The statistics' shape: the normalized dimensions have size 1. */
static void stats_spec(td_spec *spec, td_tensor *input, int64_t n, td_dtype dtype)
{
    td_spec_set(spec, input->ndim, input->sizes, dtype, input->device);
    for (int64_t d = input->ndim - n; d < input->ndim; d++)
        spec->sizes[d] = 1;
}

/* Results: output, mean, rstd. Saved statistics follow the parameters' dtype, the first one present. */
int td_meta_native_layer_norm(td_spec *specs, td_tensor *input, int64_t n, const int64_t *shape, td_tensor *weight,
                              td_tensor *bias,
                              double eps)
{
    (void)eps;
    if (check_rows(input, n, shape, weight, bias, false))
        return -1;
    td_dtype stats = weight != TD_NONE ? (td_dtype)weight->dtype : bias != TD_NONE ? (td_dtype)bias->dtype : (td_dtype)input->dtype;
    stats_spec(&specs[1], input, n, stats);
    stats_spec(&specs[2], input, n, stats);
    return td_spec_like(&specs[0], input);
}

/* cudnn_enable and cudnn_enabled mean nothing on a CPU. */
td_tensor *td_op_layer_norm(td_tensor *input, int64_t n, const int64_t *shape, td_tensor *weight, td_tensor *bias,
                            double eps,
                            bool cudnn_enable)
{
    (void)cudnn_enable;
    td_tensor *results[3];
    if (td_native_layer_norm(results, input, n, shape, weight, bias, eps))
        return NULL;
    td_tensor_release(results[1]);
    td_tensor_release(results[2]);
    return results[0];
}

static int64_t rows_of(const td_tensor *input, int64_t n)
{
    int64_t rows = 1;
    for (int64_t d = 0; d < input->ndim - n; d++)
        rows *= input->sizes[d];
    return rows;
}

/* What a backward pass is given from the forward pass: a gradient for each element, two numbers for each group. */
static int check_saved(const char *op, const td_tensor *grad, const td_tensor *input, const td_tensor *mean, const td_tensor *rstd, int64_t groups)
{
    return td_check_numel(op, "grad_out", grad, input->numel) || td_check_numel(op, "mean", mean, groups) ||
           td_check_numel(op, "rstd", rstd, groups) ? -1 : 0;
}

int td_meta_native_layer_norm_backward(td_spec *specs, td_tensor *grad, td_tensor *input, int64_t n,
                                       const int64_t *shape,
                                       td_tensor *mean, td_tensor *rstd, td_tensor *weight, td_tensor *bias,
                                       int64_t n_mask,
                                       const bool *mask)
{
    (void)n_mask;
    if (check_rows(input, n, shape, weight, bias, false) ||
        check_saved("native_layer_norm_backward", grad, input, mean, rstd, rows_of(input, n)))
        return -1;
    td_dtype type = weight == TD_NONE ? (td_dtype)input->dtype : (td_dtype)weight->dtype;
    mask[0] ? td_spec_like(&specs[0], input) : td_spec_none(&specs[0]);
    mask[1] ? td_spec_set(&specs[1], (int)n, shape, type, input->device) : td_spec_none(&specs[1]);
    return mask[2] ? td_spec_set(&specs[2], (int)n, shape, type, input->device) : td_spec_none(&specs[2]);
}

/* Every row is normalized: [rows, width]. */
static view4 rows_view(const td_tensor *input, int64_t n, const int64_t *shape)
{
    int64_t width = 1, rows = 1;
    for (int64_t i = 0; i < n; i++)
        width *= shape[i];
    for (int i = 0; i < input->ndim - n; i++)
        rows *= input->sizes[i];
    return (view4){.sizes = {rows, width, 1, 1}, .weight = {1, width, 1, 1}, .axes = {1}, .n_axes = 1};
}

/* Where nothing records, the kernel reads the saved statistics; see Note [Norms in pieces] for the other case. */
int td_op_layer_norm_grad(td_tensor **results, td_tensor *grad, td_tensor *input, int64_t n, const int64_t *shape,
                          td_tensor *mean,
                          td_tensor *rstd, td_tensor *weight, double eps, int64_t n_mask, const bool *mask)
{
    if (!TD_RECORDS(grad, input, weight, mean, rstd))
        return td_native_layer_norm_backward(results, grad, input, n, shape, mean, rstd, weight, TD_NONE, n_mask, mask);
    view4 v = rows_view(input, n, shape);
    if (pieces(results, &v, grad, input, weight, eps, false, mask, true))
        return -1;
    if (mask[2] && weight == TD_NONE) {         /* a bias alone says its shape itself */
        td_tensor *line = results[2];
        results[2] = td_reshape(line, n, shape);
        td_tensor_release(line);
        if (!results[2]) {
            td_tensor_release(results[0]);
            td_tensor_release(results[1]);
            return -1;
        }
    }
    return 0;
}

int td_meta__fused_rms_norm(td_spec *specs, td_tensor *input, int64_t n, const int64_t *shape, td_tensor *weight,
                            const double *eps)
{
    (void)eps;
    if (check_rows(input, n, shape, weight, TD_NONE, true))
        return -1;
    stats_spec(&specs[1], input, n, input->dtype == TD_F64 ? TD_F64 : TD_F32);
    return td_spec_like(&specs[0], input);
}

/* rms norm has no mean; rstd is checked in its place. */
int td_meta__fused_rms_norm_backward(td_spec *specs, td_tensor *grad, td_tensor *input, int64_t n, const int64_t *shape,
                                     td_tensor *rstd, td_tensor *weight, int64_t n_mask, const bool *mask)
{
    (void)n_mask;
    if (check_rows(input, n, shape, weight, TD_NONE, true) ||
        check_saved("_fused_rms_norm_backward", grad, input, rstd, rstd, rows_of(input, n)))
        return -1;
    mask[0] ? td_spec_like(&specs[0], input) : td_spec_none(&specs[0]);
    return mask[1] ? td_spec_like(&specs[1], weight) : td_spec_none(&specs[1]);
}

/* eps defaults to the precision of the dtype that is computed in: float32's for half types. */
int td_op_rms_norm_grad(td_tensor **results, td_tensor *grad, td_tensor *input, int64_t n, const int64_t *shape,
                        td_tensor *rstd,
                        td_tensor *weight, const double *eps, int64_t n_mask, const bool *mask)
{
    if (!TD_RECORDS(grad, input, weight, rstd))
        return td__fused_rms_norm_backward(results, grad, input, n, shape, rstd, weight, n_mask, mask);
    view4 v = rows_view(input, n, shape);
    double least = eps ? *eps : input->dtype == TD_F64 ? 0x1p-52 : 0x1p-23;
    return pieces(results, &v, grad, input, weight, least, true, mask, false);
}

/* Of complex rows, and of a weight of another dtype.  Complex rows are divided by the root of the mean of x^2, a complex
 * number, as PyTorch does. */
static td_tensor *composed_rms_norm(td_tensor *input, int64_t n, td_tensor *weight, const double *eps)
{
    int64_t last[TD_MAX_DIMS];
    for (int64_t i = 0; i < n; i++)
        last[i] = -1 - i;
    const td_dtype dtype = (td_dtype)input->dtype, wide = dtype == TD_F16 || dtype == TD_BF16 ? TD_F32 : dtype;
    TD_AUTO td_tensor *dense = td_contiguous(input);
    TD_AUTO td_tensor *x = td_to_dtype(dense, wide, false, false, TD_MEMORY_FORMAT_NONE);
    TD_AUTO td_tensor *squares = td_mul_tensor(x, x);
    TD_AUTO td_tensor *mean = td_mean_dims(squares, n, last, true, TD_DTYPE_NONE);
    TD_AUTO td_tensor *shifted = td_plus(mean, td_float(eps ? *eps : wide == TD_C128 || wide == TD_F64 ? 0x1p-52 : 0x1p-23));
    TD_AUTO td_tensor *scale = td_rsqrt(shifted);
    TD_AUTO td_tensor *y = td_mul_tensor(x, scale);
    TD_AUTO td_tensor *weighted = weight == TD_NONE ? td_ref(y) : td_mul_tensor(y, weight);
    return td_to_dtype(weighted, dtype, false, false, TD_MEMORY_FORMAT_NONE);
}

td_tensor *td_op_rms_norm(td_tensor *input, int64_t n, const int64_t *shape, td_tensor *weight, const double *eps)
{
    if (td_is_complex(input) || (td_is_floating(input) && weight != TD_NONE && weight->dtype != input->dtype))
        return check_shapes(input, n, shape, weight, TD_NONE, true) ? NULL : composed_rms_norm(input, n, weight, eps);
    td_tensor *results[2];
    if (td__fused_rms_norm(results, input, n, shape, weight, eps))
        return NULL;
    td_tensor_release(results[1]);
    return results[0];
}

/* ---- batch norm ----------------------------------------------------------------------------------------------------- */

static int check_channels(const char *name, td_tensor *x, int64_t channels)
{
    if (x == TD_NONE || x->numel == channels)
        return 0;
    return td_error(TD_E_RUNTIME, "%s should contain %" PRId64 " elements not %" PRId64, name, channels, x->numel);
}

/* Channels are dimension 1. In evaluation nothing is saved, so mean and rstd are empty. */
int td_meta_native_batch_norm(td_spec *specs, td_tensor *input, td_tensor *weight, td_tensor *bias,
                              td_tensor *running_mean,
                              td_tensor *running_var, bool training, double momentum, double eps)
{
    (void)momentum, (void)eps;
    if (input->ndim < 2)
        return td_error(TD_E_INDEX, "Dimension out of range (expected to be in range of [-%d, %d], but got 1)",
                        input->ndim ? input->ndim : 1, input->ndim ? input->ndim - 1 : 0);
    int64_t channels = input->sizes[1];
    if (!training && (running_mean == TD_NONE || running_var == TD_NONE))
        return td_error(TD_E_RUNTIME, "%s must be defined in evaluation mode",
                        running_mean == TD_NONE ? "running_mean" : "running_var");
    if (check_channels("running_mean", running_mean, channels) || check_channels("running_var", running_var,
        channels) ||
        check_channels("weight", weight, channels) || check_channels("bias", bias, channels))
        return -1;
    if (!td_is_floating(input))
        return td_error(TD_E_NOT_IMPLEMENTED, "\"batch_norm\" not implemented for '%s'",
                        td_dtype_title((td_dtype)input->dtype));
    if (check_parameters(input, 4, (td_tensor *[]){weight, bias, running_mean, running_var}))
        return -1;
    td_dtype stats = weight != TD_NONE ? (td_dtype)weight->dtype : running_mean != TD_NONE ? (td_dtype)running_mean->dtype
        : (td_dtype)input->dtype;
    int64_t length[] = {training ? channels : 0};
    td_spec_set(&specs[1], 1, length, stats, input->device);
    td_spec_set(&specs[2], 1, length, stats, input->device);
    return td_spec_like(&specs[0], input);
}

/* Without elements there is nothing to normalize, but weight and bias take part in the graph.
 * The first element of each stands for all: with nothing to multiply it only makes the edge of the graph. */
static td_tensor *empty_batch(td_tensor *input, td_tensor *weight, td_tensor *bias)
{
    TD_AUTO td_tensor *x = td_clone(input);
    TD_AUTO td_tensor *w = weight == TD_NONE ? td_ref(weight) : td_select_int(weight, 0, 0);
    TD_AUTO td_tensor *b = bias == TD_NONE ? td_ref(bias) : td_select_int(bias, 0, 0);
    TD_AUTO td_tensor *scaled = w == TD_NONE ? (x ? td_ref(x) : NULL) : td_mul_tensor(x, w);
    return b == TD_NONE ? (scaled ? td_ref(scaled) : NULL) : td_add_tensor(scaled, b, td_int(1));
}

int td_op__native_batch_norm_legit(td_tensor **results, td_tensor *input, td_tensor *weight, td_tensor *bias,
                                   td_tensor *running_mean, td_tensor *running_var, bool training, double momentum,
                                   double eps)
{
    return td_native_batch_norm(results, input, weight, bias, running_mean, running_var, training, momentum, eps);
}

int td_op__native_batch_norm_legit_no_stats(td_tensor **results, td_tensor *input, td_tensor *weight, td_tensor *bias,
                                            bool training, double momentum, double eps)
{
    return td_native_batch_norm(results, input, weight, bias, TD_NONE, TD_NONE, training, momentum, eps);
}

/* The fourth result is cuDNN's reserve space in PyTorch, which is empty on a CPU. */
int td_op__batch_norm_with_update(td_tensor **results, td_tensor *input, td_tensor *weight, td_tensor *bias,
                                  td_tensor *running_mean, td_tensor *running_var, double momentum, double eps)
{
    TD_AUTO td_tensor *reserve = td_tensor_new(1, (int64_t[]){0}, TD_U8, input->device);
    if (!reserve ||
        td_native_batch_norm(results, input, weight, bias, running_mean, running_var, true, momentum, eps))
        return -1;
    results[3] = td_ref(reserve);
    return 0;
}

/* running += momentum (now - running), in place. */
static int mix_in(td_tensor *running, td_tensor *now, double momentum)
{
    if (running == TD_NONE)
        return 0;
    TD_AUTO td_tensor *fitted = td_to_dtype(now, (td_dtype)running->dtype, false, false, TD_MEMORY_FORMAT_NONE);
    return fitted ? td_lerp_scalar_(running, fitted, td_float(momentum)) : -1;
}

/* Running variances are unbiased, n / (n - 1) times the batch's, while the variance that is returned is the biased
 * one. One element per channel gives NaN (0 times infinity). */
int td_op_batch_norm_update_stats(td_tensor **results, td_tensor *input, td_tensor *running_mean, td_tensor *running_var,
                                  double momentum)
{
    int64_t others[TD_MAX_DIMS];
    int n = 0;
    if (td_wrap_dim(1, input->ndim) < 0)
        return -1;
    for (int d = 0; d < input->ndim; d++)
        if (d != 1)
            others[n++] = d;
    td_tensor *found[2];
    td_scalar none = td_int(0);
    td_shape_text text;
    if (!input->numel)
        return td_error(TD_E_RUNTIME, "input tensor must have at least one element, but got input_sizes = %s",
                        td_shape_str(input->ndim, input->sizes, text));
    if (td_var_mean_correction(found, input, n, others, &none, false))
        return -1;
    TD_AUTO td_tensor *var = found[0], *mean = found[1];
    const double count = (double)input->numel / (double)input->sizes[1];
    TD_AUTO td_tensor *unbiased = td_mul_scalar(var, td_float(count / (count - 1)));
    if (!unbiased || mix_in(running_mean, mean, momentum) || mix_in(running_var, unbiased, momentum))
        return -1;
    results[0] = td_ref(mean), results[1] = td_ref(var);
    return 0;
}

td_tensor *td_op_batch_norm(td_tensor *input, td_tensor *weight, td_tensor *bias, td_tensor *running_mean,
                            td_tensor *running_var,
                            bool training, double momentum, double eps, bool cudnn_enabled)
{
    (void)cudnn_enabled;
    td_tensor *results[3];
    if (td_tangent(input) && ((running_mean != TD_NONE && td_tangent(running_mean)) || (running_var != TD_NONE && td_tangent(running_var))))
        return td_fail(TD_E_RUNTIME, "batch_norm is not differentiable wrt running_mean and running_var, they cannot have forward grad defined");
    if (input->numel == 0)
        return empty_batch(input, weight, bias);
    if (td_native_batch_norm(results, input, weight, bias, running_mean, running_var, training, momentum, eps))
        return NULL;
    td_tensor_release(results[1]);
    td_tensor_release(results[2]);
    return results[0];
}

/* The statistics that the forward pass used have an element per channel: saved in training, running in evaluation. */
int td_meta_native_batch_norm_backward(td_spec *specs, td_tensor *grad, td_tensor *input, td_tensor *weight,
                                       td_tensor *running_mean, td_tensor *running_var, td_tensor *save_mean,
                                       td_tensor *save_invstd, bool train, double eps, int64_t n_mask, const bool *mask)
{
    (void)eps, (void)n_mask;
    const char *op = "native_batch_norm_backward";
    if (input->ndim < 2)
        return td_error(TD_E_RUNTIME, "%s: input must have at least 2 dimensions, but has %d", op, input->ndim);
    if (check_saved(op, grad, input, train ? save_mean : running_mean, train ? save_invstd : running_var, input->sizes[1]) ||
        (weight != TD_NONE && td_check_numel(op, "weight", weight, input->sizes[1])))
        return -1;
    td_dtype type = weight == TD_NONE ? (td_dtype)input->dtype : (td_dtype)weight->dtype;
    int64_t length[] = {input->sizes[1]};
    mask[0] ? td_spec_like(&specs[0], input) : td_spec_none(&specs[0]);
    mask[1] ? td_spec_set(&specs[1], 1, length, type, input->device) : td_spec_none(&specs[1]);
    return mask[2] ? td_spec_set(&specs[2], 1, length, type, input->device) : td_spec_none(&specs[2]);
}

/* With fixed statistics only a scale is left: dx = g w rstd. */
static int evaluation_pieces(td_tensor **results, const view4 *v, td_tensor *grad, td_tensor *input, td_tensor *weight,
                             td_tensor *mean, td_tensor *var, double eps, const bool *mask)
{
    TD_AUTO td_tensor *g = td_reshape(grad, 4, v->sizes), *x = td_reshape(input, 4, v->sizes);
    TD_AUTO td_tensor *m = td_reshape(mean, 4, v->weight), *r = td_reshape(var, 4, v->weight);
    TD_AUTO td_tensor *w = weight == TD_NONE ? td_ref(TD_NONE) : td_reshape(weight, 4, v->weight);
    TD_AUTO td_tensor *shifted = td_plus(r, td_float(eps));
    TD_AUTO td_tensor *rstd = td_rsqrt(shifted);
    TD_AUTO td_tensor *gr = td_mul_tensor(g, rstd);
    TD_AUTO td_tensor *dx = w == TD_NONE ? td_ref(gr) : td_mul_tensor(gr, w);
    TD_AUTO td_tensor *centred = td_minus(x, m);
    TD_AUTO td_tensor *along = td_mul_tensor(gr, centred);
    TD_AUTO td_tensor *dw = td_sum_to_size(along, 4, v->weight), *db = td_sum_to_size(g, 4, v->weight);
    int64_t n = v->weight[1];
    results[0] = mask[0] ? td_reshape(dx, input->ndim, input->sizes) : td_ref(TD_NONE);
    results[1] = mask[1] ? td_reshape(dw, 1, &n) : td_ref(TD_NONE);
    results[2] = mask[2] ? td_reshape(db, 1, &n) : td_ref(TD_NONE);
    if (results[0] && results[1] && results[2])
        return 0;
    for (int i = 0; i < 3; i++)
        td_tensor_release(results[i]);
    return -1;
}

/* The view is [batch, channels, positions], reduced over the first and the last. */
int td_op_batch_norm_grad(td_tensor **results, td_tensor *grad, td_tensor *input, td_tensor *weight,
                          td_tensor *running_mean,
                          td_tensor *running_var, td_tensor *save_mean, td_tensor *save_invstd, bool training,
                          double eps,
                          int64_t n_mask, const bool *mask)
{
    if (!TD_RECORDS(grad, input, weight))
        return td_native_batch_norm_backward(results, grad, input, weight, running_mean, running_var, save_mean,
                                             save_invstd,
                                             training, eps, n_mask, mask);
    if (input->ndim < 2)
        return td_error(TD_E_RUNTIME, "batch_norm_grad: input must have at least 2 dimensions, but has %d", input->ndim);
    int64_t channels = input->sizes[1], inner = 1;
    for (int i = 2; i < input->ndim; i++)
        inner *= input->sizes[i];
    view4 v = {.sizes = {input->sizes[0], channels, inner, 1}, .weight = {1, channels, 1, 1}, .axes = {0, 2},
               .n_axes = 2};
    if (!training && check_saved("batch_norm_grad", grad, input, running_mean, running_var, channels))
        return -1;
    if (!training)
        return evaluation_pieces(results, &v, grad, input, weight, running_mean, running_var, eps, mask);
    return pieces(results, &v, grad, input, weight, eps, false, mask, true);
}

/* Running statistics per instance and channel: copies for each instance, whose updates are averaged.
 * b copies, one after the other. td_clone makes them a tensor that batch norm may write to. */
static td_tensor *repeated(td_tensor *x, int64_t times)
{
    if (x == TD_NONE)
        return td_ref(TD_NONE);
    if (x->ndim > 1)
        return td_fail(TD_E_RUNTIME, "instance_norm: Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor: "
                       "weight, bias and running statistics are of one dimension, not %d", x->ndim);
    int64_t n = x->numel;
    TD_AUTO td_tensor *flat = td_reshape(x, 2, (int64_t[]){1, n});
    TD_AUTO td_tensor *wide = td_expand(flat, 2, (int64_t[]){times, n});
    TD_AUTO td_tensor *own = td_clone(wide);
    return td_reshape(own, 1, (int64_t[]){times * n});
}

static int average_back(td_tensor *running, td_tensor *used, int64_t times)
{
    if (running == TD_NONE)
        return 0;
    TD_AUTO td_tensor *wide = td_reshape(used, 2, (int64_t[]){times, running->numel});
    TD_AUTO td_tensor *sum = td_sum_over(wide, 1, (int64_t[]){0}, false);
    TD_AUTO td_tensor *average = td_times(sum, td_float(1 / (double)times));
    TD_AUTO td_tensor *place = td_alias(running);       /* made inside every transform, none of which writes to what it captures */
    return average && place ? td_copy_(place, average) : -1;
}

/* Batch norm of one sample with b * c channels: each instance's channel is one then, and weight, bias and statistics
 * are repeated for it. */
td_tensor *td_op_instance_norm(td_tensor *input, td_tensor *weight, td_tensor *bias, td_tensor *running_mean,
                               td_tensor *running_var,
                               bool use_input_stats, double momentum, double eps, bool cudnn_enabled)
{
    if (!use_input_stats && (running_mean == TD_NONE || running_var == TD_NONE))
        return td_fail(TD_E_RUNTIME, "Expected running_mean and running_var to be defined when use_input_stats is false");
    if ((running_mean == TD_NONE) != (running_var == TD_NONE))
        return td_fail(TD_E_VALUE, "running_mean and running_var must either both be None or neither be None");
    if (input->ndim < 2)
        return td_fail(TD_E_RUNTIME, "instance_norm: expected at least 2 dimensions, got %d", input->ndim);
    int64_t b = input->sizes[0], c = input->sizes[1], sizes[TD_MAX_DIMS];
    for (int i = 0; i < input->ndim; i++)
        sizes[i] = input->sizes[i];
    sizes[0] = 1, sizes[1] = b * c;
    TD_AUTO td_tensor *w = repeated(weight, b), *add = repeated(bias, b);
    TD_AUTO td_tensor *mean = repeated(running_mean, b), *var = repeated(running_var, b);
    TD_AUTO td_tensor *dense = td_contiguous(input);
    TD_AUTO td_tensor *x = td_reshape(dense, input->ndim, sizes);
    TD_AUTO td_tensor *y = td_batch_norm(x, w, add, mean, var, use_input_stats, momentum, eps, cudnn_enabled);
    if (!y || (use_input_stats && (average_back(running_mean, mean, b) || average_back(running_var, var, b))))
        return NULL;
    return td_reshape(y, input->ndim, input->sizes);
}

/* ---- group norm ----------------------------------------------------------------------------------------------------- */

static int check_groups(td_tensor *input, int64_t groups, td_tensor *weight, td_tensor *bias)
{
    td_shape_text a, b;
    if (groups <= 0)
        return td_error(TD_E_RUNTIME, "Expected num groups to be greater than 0, got %" PRId64, groups);
    if (input->ndim < 2)
        return td_error(TD_E_RUNTIME, "Expected at least 2 dimensions for input tensor but received %d", input->ndim);
    int64_t channels = input->sizes[1];
    if (channels % groups)
        return td_error(TD_E_RUNTIME, "Expected number of channels in input to be divisible by num_groups, but got input of shape %s and "
                        "num_groups=%" PRId64, td_shape_str(input->ndim, input->sizes, a), groups);
    td_tensor *params[] = {weight, bias};
    for (int i = 0; i < 2; i++)
        if (params[i] != TD_NONE && (params[i]->ndim != 1 || params[i]->numel != channels))
            return td_error(TD_E_RUNTIME, "Expected %s to be a vector of size equal to the number of channels in input, but got %s of "
                            "shape %s and input of shape %s", i ? "bias" : "weight", i ? "bias" : "weight",
                            td_shape_str(params[i]->ndim, params[i]->sizes, a), td_shape_str(input->ndim, input->sizes,
                                b));
    return 0;
}

td_tensor *td_op_group_norm(td_tensor *input, int64_t groups, td_tensor *weight, td_tensor *bias, double eps,
                            bool cudnn_enabled)
{
    (void)cudnn_enabled;
    if (check_groups(input, groups, weight, bias))
        return NULL;
    int64_t inner = 1;
    for (int i = 2; i < input->ndim; i++)
        inner *= input->sizes[i];
    td_tensor *results[3];
    if (td_native_group_norm(results, input, weight, bias, input->sizes[0], input->sizes[1], inner, groups, eps))
        return NULL;
    td_tensor_release(results[1]);
    td_tensor_release(results[2]);
    return results[0];
}

/* N, C and HxW come from the caller and need only agree with the number of elements: saturated, a product that
 * overflows agrees with none. */
int td_meta_native_group_norm(td_spec *specs, td_tensor *input, td_tensor *weight, td_tensor *bias, int64_t N,
                              int64_t C, int64_t HxW,
                              int64_t group, double eps)
{
    (void)eps;
    if (check_groups(input, group, weight, bias))
        return -1;
    if (input->numel != td_mul_saturated(td_mul_saturated(N, C), HxW) || (C && input->sizes[1] != C))
        return td_error(TD_E_RUNTIME, "native_group_norm: N * C * HxW is %" PRId64 ", but input has %" PRId64 " elements", N * C * HxW,
                        input->numel);
    if (check_parameters(input, 2, (td_tensor *[]){weight, bias}))
        return -1;
    if (!td_is_floating(input))
        return td_error(TD_E_NOT_IMPLEMENTED, "\"GroupNormKernelImpl\" not implemented for '%s'",
                        td_dtype_title((td_dtype)input->dtype));
    td_dtype stats = weight != TD_NONE ? (td_dtype)weight->dtype : (td_dtype)input->dtype;
    td_spec_set(&specs[1], 2, (int64_t[]){N, group}, stats, input->device);
    td_spec_set(&specs[2], 2, (int64_t[]){N, group}, stats, input->device);
    return td_spec_like(&specs[0], input);
}

int td_meta_native_group_norm_backward(td_spec *specs, td_tensor *grad, td_tensor *input, td_tensor *mean,
                                       td_tensor *rstd,
                                       td_tensor *weight, int64_t N, int64_t C, int64_t HxW, int64_t group,
                                       int64_t n_mask,
                                       const bool *mask)
{
    (void)n_mask;
    const char *op = "native_group_norm_backward";
    td_spec made[3];
    if (td_meta_native_group_norm(made, input, weight, TD_NONE, N, C, HxW, group, 0) || check_saved(op, grad, input, mean, rstd, N * group))
        return -1;
    td_dtype type = weight == TD_NONE ? (td_dtype)input->dtype : (td_dtype)weight->dtype;
    mask[0] ? td_spec_like(&specs[0], input) : td_spec_none(&specs[0]);
    mask[1] ? td_spec_set(&specs[1], 1, &C, type, input->device) : td_spec_none(&specs[1]);
    return mask[2] ? td_spec_set(&specs[2], 1, &C, type, input->device) : td_spec_none(&specs[2]);
}

/* What the gradients of mean and rstd add to the input's: d mean / dx = 1 / m, d rstd / dx = -rstd^3 (x - mean) / m. */
static td_tensor *from_statistics(const view4 *v, td_tensor *input, td_tensor *grad_mean, td_tensor *grad_rstd, double eps)
{
    const int64_t rows[4] = {v->sizes[0], v->sizes[1], 1, 1};
    double share = 1 / (double)(v->sizes[2] * v->sizes[3]);
    TD_AUTO td_tensor *x = td_reshape(input, 4, v->sizes);
    TD_AUTO td_tensor *gm = grad_mean == TD_NONE ? td_zeros(4, rows, (td_dtype)input->dtype, input->device)
        : td_reshape(grad_mean, 4, rows);
    TD_AUTO td_tensor *all = td_expand(gm, 4, v->sizes);
    TD_AUTO td_tensor *even = td_times(all, td_float(share));
    if (grad_rstd == TD_NONE)
        return td_reshape(even, input->ndim, input->sizes);
    TD_AUTO td_tensor *gr = td_reshape(grad_rstd, 4, rows);
    TD_AUTO td_tensor *mean = td_mean_dims(x, v->n_axes, v->axes, true, TD_DTYPE_NONE);
    TD_AUTO td_tensor *centred = td_minus(x, mean);
    TD_AUTO td_tensor *squares = td_mul_tensor(centred, centred);
    TD_AUTO td_tensor *var = td_mean_dims(squares, v->n_axes, v->axes, true, TD_DTYPE_NONE);
    TD_AUTO td_tensor *shifted = td_plus(var, td_float(eps)), *power = td_wrapped_number(td_float(-1.5));
    TD_AUTO td_tensor *cube = td_pow_tensor_tensor(shifted, power);
    TD_AUTO td_tensor *slope = td_mul_tensor(gr, cube);
    TD_AUTO td_tensor *along = td_mul_tensor(centred, slope);
    TD_AUTO td_tensor *scaled = td_times(along, td_float(share));
    TD_AUTO td_tensor *sum = td_minus(even, scaled);
    return td_reshape(sum, input->ndim, input->sizes);
}

/* mean and rstd are results with gradients of their own; usually those are absent, and then this is the kernel alone.
 * Their share is added whatever computed the rest. */
int td_op_group_norm_grad(td_tensor **results, td_tensor *grad, td_tensor *grad_mean, td_tensor *grad_rstd,
                          td_tensor *input, td_tensor *mean, td_tensor *rstd, td_tensor *weight, int64_t N, int64_t C,
                          int64_t HxW, int64_t group, double eps, int64_t n_mask, const bool *mask)
{
    td_spec made[3];
    if (td_meta_native_group_norm(made, input, weight, TD_NONE, N, C, HxW, group, eps) ||
        check_saved("group_norm_grad", grad, input, mean, rstd, N * group))
        return -1;
    view4 v = {.sizes = {N, group, C / group, HxW}, .weight = {1, group, C / group, 1}, .axes = {2, 3}, .n_axes = 2};
    int status = !TD_RECORDS(grad, grad_mean, grad_rstd, input, mean, rstd, weight)
        ? td_native_group_norm_backward(results, grad, input, mean, rstd, weight, N, C, HxW, group, n_mask, mask)
        : pieces(results, &v, grad, input, weight, eps, false, mask, true);
    if (status || !mask[0] || (grad_mean == TD_NONE && grad_rstd == TD_NONE))
        return status;
    TD_AUTO td_tensor *more = from_statistics(&v, input, grad_mean, grad_rstd, eps);
    td_tensor *sum = td_add_tensor(results[0], more, td_int(1));
    td_tensor_release(results[0]);
    results[0] = sum;
    if (sum)
        return 0;
    td_tensor_release(results[1]);
    td_tensor_release(results[2]);
    return -1;
}
