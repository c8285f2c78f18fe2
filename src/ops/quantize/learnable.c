/* Fake quantization whose scale and zero point are learned: arXiv:1902.08153 and 1903.08066.
 *
 * What an element is rounded to moves with the scale by how far it was rounded, out of range by the range's end; with the zero point out of
 * range alone.  A zero point is a float on its way, and is used as the nearest integer of the range. */
#include "calls_ops_quantize_learnable.h"
#include "dispatch/outputs.h"
#include "ops/compose.h"
#include <inttypes.h>
#include <tede/kernel.h>

/* The integer nearest to a zero point within the range; `up` has halves go up, as PyTorch's gradients per tensor have it. */
static td_tensor *whole(td_tensor *zero_point, int64_t least, int64_t most, bool up)
{
    const td_scalar low = td_int(least), high = td_int(most);
    TD_AUTO td_tensor *near = up ? td_plus(zero_point, td_float(.5)) : td_round(zero_point);
    TD_AUTO td_tensor *kept = near ? td_clamp(near, &low, &high) : NULL;
    return kept ? td_to(kept, TD_I32) : NULL;
}

static td_tensor *number_of(const char *name, td_tensor *x)
{
    return x->numel == 1 ? td_view(x, 0, NULL) : td_fail(TD_E_RUNTIME, "%s must have one element, got %" PRId64, name, x->numel);
}

static int check_range(int64_t least, int64_t most)
{
    return least <= 0 && most >= 0 ? 0 : td_error(TD_E_RUNTIME, "Expected `quant_min` to be less than or equal to 0 and `quant_max` to be at least 0, "
                                                  "got %" PRId64 " and %" PRId64, least, most);
}

td_tensor *td_op__fake_quantize_learnable_per_tensor_affine(td_tensor *self, td_tensor *scale, td_tensor *zero_point, int64_t quant_min,
                                                            int64_t quant_max, double grad_factor)
{
    (void)grad_factor;
    TD_AUTO td_tensor *step = number_of("scale", scale), *zero = number_of("zero_point", zero_point);
    TD_AUTO td_tensor *at = zero ? whole(zero, quant_min, quant_max, false) : NULL;
    return step && at ? td_fake_quantize_per_tensor_affine_tensor_qparams(self, step, at, quant_min, quant_max) : NULL;
}

td_tensor *td_op__fake_quantize_learnable_per_channel_affine(td_tensor *self, td_tensor *scale, td_tensor *zero_point, int64_t axis, int64_t quant_min,
                                                             int64_t quant_max, double grad_factor)
{
    (void)grad_factor;
    TD_AUTO td_tensor *at = whole(zero_point, quant_min, quant_max, false);
    return at ? td_fake_quantize_per_channel_affine(self, scale, at, axis, quant_min, quant_max) : NULL;
}

/* step and zero broadcast to self; dims are those that are summed over, shape that of the scale.
 *
 * With y = (q - zero) step and q = clamp(round(x / step) + zero): dy/dstep is q - zero - x / step where q is in range (rounding counts as the
 * identity), q - zero at the ends; dy/dzero is 0 in range, where zero cancels, and -step at the ends. */
static int gradients(td_tensor **results, td_tensor *grad, td_tensor *self, td_tensor *step, td_tensor *zero, int64_t n_dims, const int64_t *dims,
                     td_tensor *shape, int64_t least, int64_t most, double factor)
{
    const td_scalar low = td_int(least), high = td_int(most);
    TD_AUTO td_tensor *inverse = td_reciprocal(step), *steps = inverse ? td_mul_tensor(self, inverse) : NULL, *near = steps ? td_round(steps) : NULL;
    TD_AUTO td_tensor *at = near ? td_sum_of(near, zero) : NULL, *kept = at ? td_clamp(at, &low, &high) : NULL;
    TD_AUTO td_tensor *inside = at && kept ? td_eq(at, kept) : NULL, *outside = inside ? td_logical_not(inside) : NULL;
    TD_AUTO td_tensor *back = kept ? td_minus(kept, zero) : NULL;
    TD_AUTO td_tensor *rounding = back && steps ? td_minus(back, steps) : NULL;
    TD_AUTO td_tensor *by_scale = rounding && inside ? td_where_self(inside, rounding, back) : NULL;
    TD_AUTO td_tensor *of_scale = by_scale ? td_mul_tensor(by_scale, grad) : NULL, *beyond = outside ? td_mul_tensor(grad, outside) : NULL;
    TD_AUTO td_tensor *of_zero = beyond ? td_mul_tensor(beyond, step) : NULL;
    TD_AUTO td_tensor *scale_sum = of_scale ? td_sum_over(of_scale, n_dims, dims, false) : NULL;
    TD_AUTO td_tensor *zero_sum = of_zero ? td_sum_over(of_zero, n_dims, dims, false) : NULL;
    TD_AUTO td_tensor *scale_row = scale_sum ? td_view(scale_sum, shape->ndim, shape->sizes) : NULL;
    TD_AUTO td_tensor *zero_row = zero_sum ? td_view(zero_sum, shape->ndim, shape->sizes) : NULL;
    results[0] = inside ? td_mul_tensor(grad, inside) : NULL;
    results[1] = scale_row ? td_times(scale_row, td_float(factor)) : NULL;
    results[2] = zero_row ? td_times(zero_row, td_float(-factor)) : NULL;
    return results[0] && results[1] && results[2] ? 0 : td_results_drop(3, results);
}

int td_op__fake_quantize_learnable_per_tensor_affine_backward(td_tensor **results, td_tensor *grad, td_tensor *self, td_tensor *scale,
                                                              td_tensor *zero_point, int64_t quant_min, int64_t quant_max, double grad_factor)
{
    if (check_range(quant_min, quant_max))
        return -1;
    int64_t dims[TD_MAX_DIMS];
    for (int d = 0; d < self->ndim; d++)
        dims[d] = d;
    TD_AUTO td_tensor *step = number_of("scale", scale), *number = number_of("zero_point", zero_point);
    TD_AUTO td_tensor *zero = number ? whole(number, quant_min, quant_max, true) : NULL;
    return step && zero ? gradients(results, grad, self, step, zero, self->ndim, dims, scale, quant_min, quant_max, grad_factor) : -1;
}

int td_op__fake_quantize_learnable_per_channel_affine_backward(td_tensor **results, td_tensor *grad, td_tensor *self, td_tensor *scale,
                                                               td_tensor *zero_point, int64_t axis, int64_t quant_min, int64_t quant_max,
                                                               double grad_factor)
{
    if (check_range(quant_min, quant_max))
        return -1;
    if (axis < 0 || axis >= self->ndim || scale->ndim != 1 || zero_point->ndim != 1 || scale->numel != self->sizes[axis] ||
        zero_point->numel != self->sizes[axis])
        return td_error(TD_E_RUNTIME, "dimensions of scale and zero-point are not consistent with input tensor");
    int64_t dims[TD_MAX_DIMS], along[TD_MAX_DIMS];
    int n = 0;
    for (int d = 0; d < self->ndim; d++) {
        along[d] = d == axis ? -1 : 1;
        if (d != axis)
            dims[n++] = d;
    }
    TD_AUTO td_tensor *points = whole(zero_point, quant_min, quant_max, false);
    TD_AUTO td_tensor *step = td_view(scale, self->ndim, along), *zero = points ? td_view(points, self->ndim, along) : NULL;
    if (!step || !zero)
        return -1;
    if (n)
        return gradients(results, grad, self, step, zero, n, dims, scale, quant_min, quant_max, grad_factor);
    /* No dimension is summed over, which an empty list would not say. */
    TD_AUTO td_tensor *row_grad = td_unsqueeze(grad, 0), *row = td_unsqueeze(self, 0);
    if (!row_grad || !row || gradients(results, row_grad, row, step, zero, 1, (int64_t[]){0}, scale, quant_min, quant_max, grad_factor))
        return -1;
    td_tensor *whole_row = results[0];
    results[0] = td_squeeze_dim(whole_row, 0);
    td_tensor_release(whole_row);
    return results[0] ? 0 : td_results_drop(3, results);
}
