/* Numbers rounded as quantization would round them: (clamp(round(x / scale) + zero_point) - zero_point) * scale, in floats.
 *
 * The mask says where the integer was in range: that is where gradients pass. */
#include "calls_ops_quantize_fake.h"
#include "dispatch/outputs.h"
#include "ops/compose.h"
#include "ops/quantize/range.h"
#include <math.h>
#include <tede/kernel.h>

static int check(int64_t least, int64_t most)
{
    return least <= most ? 0 : td_error(TD_E_RUNTIME, "`quant_min` should be less than or         equal to `quant_max`.");
}

/* inverse, scale and zero broadcast to self. Halves are computed in float32 and rounded once.  A zero point that isn't whole is added before
 * rounding.  Elements are multiplied by the reciprocal instead of divided by the scale, as in PyTorch's kernels: where x / scale is close to a half
 * the two round apart. */
static int rounded(td_tensor **results, td_tensor *self, td_tensor *inverse, td_tensor *scale, td_tensor *zero, int64_t least, int64_t most)
{
    const td_scalar low = td_int(least), high = td_int(most);
    const bool half = self->dtype == TD_F16 || self->dtype == TD_BF16;
    TD_AUTO td_tensor *x = half ? td_to(self, TD_F32) : td_ref(self), *steps = x ? td_mul_tensor(x, inverse) : NULL;
    const bool floats = zero && td_is_floating(zero);
    TD_AUTO td_tensor *whole = !steps ? NULL : floats ? td_ref(steps) : td_round(steps);
    TD_AUTO td_tensor *shifted = whole && zero ? td_add_tensor(whole, zero, td_int(1)) : NULL;
    TD_AUTO td_tensor *moved = shifted && floats ? td_round(shifted) : td_ref(shifted);
    TD_AUTO td_tensor *kept = moved ? td_clamp(moved, &low, &high) : NULL, *back = kept ? td_minus(kept, zero) : NULL;
    TD_AUTO td_tensor *above = moved ? td_ge_scalar(moved, low) : NULL, *below = moved ? td_le_scalar(moved, high) : NULL;
    TD_AUTO td_tensor *numbers = back && scale ? td_mul_tensor(back, scale) : NULL;
    results[0] = numbers ? td_to(numbers, (td_dtype)self->dtype) : NULL;
    results[1] = above && below ? td_logical_and(above, below) : NULL;
    return results[0] && results[1] ? 0 : td_results_drop(2, results);
}

int td_op_fake_quantize_per_tensor_affine_cachemask(td_tensor **results, td_tensor *self, double scale, int64_t zero_point, int64_t quant_min, int64_t quant_max)
{
    if (check(quant_min, quant_max))
        return -1;
    if (zero_point < quant_min || zero_point > quant_max)
        return td_error(TD_E_RUNTIME, "`zero_point` must be between `quant_min` and `quant_max`.");
    const float step = (float)scale;        /* the reciprocal is a float's, too: one of a double differs in its last bit */
    TD_AUTO td_tensor *inverse = td_wrapped_number(td_float(1.f / step)), *factor = td_wrapped_number(td_float(step));
    TD_AUTO td_tensor *zero = td_wrapped_number(td_int(zero_point));
    return rounded(results, self, inverse, factor, zero, quant_min, quant_max);
}

int td_op__fake_quantize_per_tensor_affine_cachemask_tensor_qparams(td_tensor **results, td_tensor *self, td_tensor *scale, td_tensor *zero_point,
                                                                    td_tensor *fake_quant_enabled, int64_t quant_min, int64_t quant_max)
{
    td_scalar on = td_int(1), step = td_float(1), zero = td_int(0);
    const bool meta = self->device.type == TD_META;     /* the results' form doesn't depend on the values */
    if (check(quant_min, quant_max) || (!meta && td_tensor_item(fake_quant_enabled, &on)))
        return -1;
    if (on.kind == TD_SCALAR_FLOAT ? on.d == 0 : on.i == 0) {
        results[0] = td_clone(self);
        results[1] = td_ones_like_options(self, TD_BOOL, TD_DEVICE_NONE, TD_MEMORY_FORMAT_NONE);
        return results[0] && results[1] ? 0 : td_results_drop(2, results);
    }
    if (!meta && (td_tensor_item(scale, &step) || td_tensor_item(zero_point, &zero)))
        return -1;
    const float one = (float)(step.kind == TD_SCALAR_FLOAT ? step.d : (double)step.i);
    const int64_t at = zero.kind == TD_SCALAR_FLOAT ? (int64_t)zero.d : zero.i;
    TD_AUTO td_tensor *inverse = td_wrapped_number(td_float(1.f / one)), *factor = td_wrapped_number(td_float(one)), *moved = td_wrapped_number(td_int(at));
    return rounded(results, self, inverse, factor, moved, quant_min, quant_max);
}

int td_op_fake_quantize_per_channel_affine_cachemask(td_tensor **results, td_tensor *self, td_tensor *scale, td_tensor *zero_point, int64_t axis,
                                                     int64_t quant_min, int64_t quant_max)
{
    if (scale->dtype != TD_F32 && scale->dtype != TD_BF16)
        return td_error(TD_E_RUNTIME, "Scale must be Float or BFloat16, found %s", td_dtype_title((td_dtype)scale->dtype));
    if (zero_point->dtype != TD_I32 && zero_point->dtype != TD_F32 && zero_point->dtype != TD_F16)
        return td_error(TD_E_RUNTIME, "Zero-point must be Int32, Float or Half, found %s", td_dtype_title((td_dtype)zero_point->dtype));
    if (scale->ndim != 1 || zero_point->ndim != 1)
        return td_error(TD_E_RUNTIME, "%s should be a 1-D tensor", scale->ndim != 1 ? "scale" : "zero point");
    if (scale->numel != zero_point->numel)
        return td_error(TD_E_RUNTIME, "scale and zero-point need to have the same dimensions");
    if (axis < 0 || axis >= self->ndim)
        return td_error(TD_E_RUNTIME, "`axis` must be between 0 and number of dimensions of input");
    if (scale->numel != self->sizes[axis])
        return td_error(TD_E_RUNTIME, "dimensions of scale and zero-point are not consistent with input tensor");
    if (check(quant_min, quant_max))
        return -1;
    /* A float zero point may lie anywhere: that of embeddings (per_channel_affine_float_qparams) puts a row's least number at the code 0. */
    if (zero_point->dtype == TD_I32 && zero_point->numel && !td_hides_values(zero_point)) {
        td_scalar low, high;
        TD_AUTO td_tensor *least = td_amin(zero_point, 0, NULL, false), *most = td_amax(zero_point, 0, NULL, false);
        if (!least || !most || td_tensor_item(least, &low) || td_tensor_item(most, &high))
            return -1;
        if (low.i < quant_min || high.i > quant_max)
            return td_error(TD_E_RUNTIME, "`zero_point` must be between `quant_min` and `quant_max`.");
    }
    int64_t sizes[TD_MAX_DIMS];
    for (int d = 0; d < self->ndim; d++)
        sizes[d] = d == axis ? -1 : 1;
    TD_AUTO td_tensor *steps = td_view(scale, self->ndim, sizes), *zero = td_view(zero_point, self->ndim, sizes);
    TD_AUTO td_tensor *inverse = steps ? td_reciprocal(steps) : NULL;
    return inverse && zero ? rounded(results, self, inverse, steps, zero, quant_min, quant_max) : -1;
}

td_tensor *td_op_fake_quantize_per_tensor_affine(td_tensor *self, double scale, int64_t zero_point, int64_t quant_min, int64_t quant_max)
{
    td_tensor *results[2];
    if (td_fake_quantize_per_tensor_affine_cachemask(results, self, scale, zero_point, quant_min, quant_max))
        return NULL;
    td_tensor_release(results[1]);
    return results[0];
}
td_tensor *td_op_fake_quantize_per_tensor_affine_tensor_qparams(td_tensor *self, td_tensor *scale, td_tensor *zero_point, int64_t quant_min, int64_t quant_max)
{
    td_tensor *results[2];
    TD_AUTO td_tensor *on = td_ones(1, (int64_t[]){1}, TD_I64, self->device);
    if (!on || td__fake_quantize_per_tensor_affine_cachemask_tensor_qparams(results, self, scale, zero_point, on, quant_min, quant_max))
        return NULL;
    td_tensor_release(results[1]);
    return results[0];
}
td_tensor *td_op_fake_quantize_per_channel_affine(td_tensor *self, td_tensor *scale, td_tensor *zero_point, int64_t axis, int64_t quant_min, int64_t quant_max)
{
    td_tensor *results[2];
    if (td_fake_quantize_per_channel_affine_cachemask(results, self, scale, zero_point, axis, quant_min, quant_max))
        return NULL;
    td_tensor_release(results[1]);
    return results[0];
}

/* The straight-through estimator (Bengio et al., arXiv:1308.3432): rounding counts as the identity, and out of range as a constant. */
td_tensor *td_op_fake_quantize_per_tensor_affine_cachemask_backward(td_tensor *grad, td_tensor *mask)
{
    if (mask->dtype != TD_BOOL)
        return td_fail(TD_E_RUNTIME, "the mask of a fake quantization is of bools, not %s", td_dtype_title((td_dtype)mask->dtype));
    return td_mul_tensor(grad, mask);
}

/* ---- with a moving range */

/* A switch is a tensor, so that a graph that was recorded can be switched; to read it waits for what computes it. */
static int truth(td_tensor *x, bool *on)
{
    td_scalar number;
    if (td_tensor_item(x, &number))
        return -1;
    *on = number.kind == TD_SCALAR_FLOAT ? number.d != 0 : number.i != 0;
    return 0;
}

/* The first range that is seen is taken, which an infinite running one stands for; later ones move it, as an average that forgets. */
static int move_range(td_tensor *running, td_tensor *seen, double by)
{
    TD_AUTO td_tensor *unset = td_isinf(running), *off = td_minus(seen, running), *step = off ? td_times(off, td_float((float)by)) : NULL;
    TD_AUTO td_tensor *next = step ? td_add_tensor(running, step, td_int(1)) : NULL;
    TD_AUTO td_tensor *made = unset && next ? td_where_self(unset, seen, next) : NULL;
    return made ? td_copy_(running, made) : -1;
}

/* Move the running range by that of self, and derive scale and zero point from it; the four are written in place.  Per row they are resized when
 * the first batch says how many rows there are.  Nothing of this has a history: self is seen through an alias. */
static int observe(td_tensor *self, td_tensor *running_min, td_tensor *running_max, td_tensor *scale, td_tensor *zero_point, double by, int64_t least,
                   int64_t most, int64_t axis, bool per_row, bool symmetric)
{
    TD_AUTO td_tensor *rows = NULL, *low = NULL, *high = NULL;
    TD_AUTO td_tensor *plain = td_alias_detached(self, false);
    if (!plain)
        return -1;
    if (per_row) {
        TD_AUTO td_tensor *moved = td_transpose_int(plain, 0, axis);
        rows = moved ? td_flatten_using_ints(moved, 1, -1) : NULL;
        low = rows ? td_amin(rows, 1, (int64_t[]){1}, false) : NULL, high = rows ? td_amax(rows, 1, (int64_t[]){1}, false) : NULL;
    } else {
        low = td_amin(plain, 0, NULL, false), high = td_amax(plain, 0, NULL, false);
    }
    const int64_t n = per_row && rows ? rows->sizes[0] : 1;
    if (!low || !high)
        return -1;
    td_tensor *const kept[] = {running_min, running_max, scale, zero_point};
    for (int i = 0; i < 4; i++)
        if (per_row && kept[i]->numel != n && (td_resize(kept[i], 1, &n) || (i < 2 && td_fill_scalar_(kept[i], td_float(i ? -__builtin_inf() : __builtin_inf())))))
            return -1;
    if (move_range(running_min, low, by) || move_range(running_max, high, by))
        return -1;
    TD_AUTO td_tensor *from = td_clamp_max(running_min, td_int(0)), *to = td_clamp_min(running_max, td_int(0));
    if (!from || !to)
        return -1;
    if (from->numel != to->numel)
        return td_error(TD_E_RUNTIME, "running_min has %lld elements and running_max %lld", (long long)from->numel, (long long)to->numel);
    TD_AUTO td_tensor *steps = td_empty(from->ndim, from->sizes, TD_F32), *zeros = td_empty(from->ndim, from->sizes, TD_I32);
    TD_AUTO td_tensor *f = td_as_contiguous(from, TD_F32), *t = td_as_contiguous(to, TD_F32);
    if (!steps || !zeros || !f || !t)
        return -1;
    for (int64_t i = 0; i < f->numel; i++) {
        double a = ((const float *)f->data)[i], b = ((const float *)t->data)[i];
        int64_t zero;
        double step;
        if (symmetric) {        /* the zero point is the range's middle: both ends go as far as the farther one, in steps of -side - 1 ... side */
            const int64_t side = (most - least) / 2;
            const double reach = fmax(fabs(a / (double)(-side - 1)), fabs(b / (double)side));
            a = reach * (double)(-side - 1), b = reach * (double)side;
        }
        td_choose_qparams(a, b, least, most, &step, &zero);
        ((float *)steps->data)[i] = (float)step;
        ((int32_t *)zeros->data)[i] = (int32_t)zero;
    }
    TD_AUTO td_tensor *steps_like = td_view(steps, scale->ndim, scale->sizes), *zeros_like = td_view(zeros, zero_point->ndim, zero_point->sizes);
    return !steps_like || !zeros_like ? -1 : td_copy_(scale, steps_like) || td_copy_(zero_point, zeros_like) ? -1 : 0;
}

td_tensor *td_op_fused_moving_avg_obs_fake_quant(td_tensor *self, td_tensor *observer_on, td_tensor *fake_quant_on, td_tensor *running_min,
                                                 td_tensor *running_max, td_tensor *scale, td_tensor *zero_point, double averaging_const,
                                                 int64_t quant_min, int64_t quant_max, int64_t ch_axis, bool per_row_fake_quant, bool symmetric_quant)
{
    bool observing, rounding;
    if (!self->numel)
        return td_clone(self);
    if (truth(observer_on, &observing) || truth(fake_quant_on, &rounding))
        return NULL;
    if (ch_axis >= self->ndim)
        return td_fail(TD_E_RUNTIME, "Error in fused_moving_avg_obs_fake_quant_cpu: ch_axis must be < self.dim()");
    if (observing && observe(self, running_min, running_max, scale, zero_point, averaging_const, quant_min, quant_max, ch_axis, per_row_fake_quant, symmetric_quant))
        return NULL;
    if (!rounding)
        return td_clone(self);
    return per_row_fake_quant ? td_fake_quantize_per_channel_affine(self, scale, zero_point, ch_axis, quant_min, quant_max)
                              : td_fake_quantize_per_tensor_affine_tensor_qparams(self, scale, zero_point, quant_min, quant_max);
}
