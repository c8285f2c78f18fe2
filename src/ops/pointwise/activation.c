/* Activation functions that need more than a formula: checks of their parameters (softshrink, hardtanh), or random numbers (rrelu). */
#include "calls_ops_pointwise_activation.h"
#include "device/device.h"
#include <float.h>
#include <math.h>
#include <tede/kernel.h>
#include "dispatch/spec.h"
#include "ops/compose.h"
#include "ops/random/fill.h"

/* The largest finite number of a floating dtype; halves' own, since a lambda above it would be infinite in them. */
static double largest(td_dtype dtype)
{
    return dtype == TD_F64 ? DBL_MAX : dtype == TD_F16 ? 65504 : dtype == TD_BF16 ? 0x1.fep127 : (double)FLT_MAX;
}

/* softshrink's lambda is checked against the dtype here, the formula is a separate operator. */
td_tensor *td_op_softshrink(td_tensor *self, td_scalar lambd)
{
    if (!td_is_floating(self))
        return td_fail(TD_E_NOT_IMPLEMENTED, "\"softshrink_check\" not implemented for '%s'",
                       td_dtype_title((td_dtype)self->dtype));
    double by = td_scalar_double(lambd), most = largest((td_dtype)self->dtype);
    if (!(by >= 0 && by <= most))
        return td_fail(TD_E_RUNTIME, "lambda must be in range [0, %g] for input dtype %s, but found %g", most,
                       td_dtype_title((td_dtype)self->dtype), by);
    return td_softshrink_impl(self, lambd);
}

/* hardtanh's bounds of integers: they must be int64s, and not negative for unsigned numbers, as PyTorch demands. */
int td_check_limits(td_tensor *self, td_scalar min_val, td_scalar max_val);
int td_check_limits(td_tensor *self, td_scalar min_val, td_scalar max_val)
{
    if (td_dtype_is_integral((td_dtype)self->dtype) && (td_scalar_check(min_val, TD_I64) || td_scalar_check(max_val, TD_I64)))
        return -1;
    bool signless = td_dtype_is_integral((td_dtype)self->dtype) && !td_dtype_is_signed((td_dtype)self->dtype);
    return !signless || (td_scalar_int(min_val) >= 0 && td_scalar_int(max_val) >= 0) ? 0
        : td_error(TD_E_RUNTIME, "cannot do hardtanh on an unsigned type with negative limits");
}

/* ---- rrelu */

/* Also refuses NaN, which is not finite. */
static int check_slopes(double lower, double upper)
{
    if (!isfinite(lower) || !isfinite(upper))
        return td_error(TD_E_RUNTIME, "rrelu: %s bound must be finite, got %g", isfinite(lower) ? "upper" : "lower",
                        isfinite(lower) ? upper : lower);
    return lower <= upper ? 0
        : td_error(TD_E_RUNTIME, "Lower bound should be less than or equal to the upper bound");
}

/* Randomized leaky ReLU (Xu et al. 2015, "Empirical Evaluation of Rectified Activations"): a slope for each element, drawn from
 * lower to upper where x is not positive, 1 elsewhere.  The result is x times its slope, so the slopes are the derivative. */
td_tensor *td_op_rrelu_slopes(td_tensor *self, double lower, double upper, td_generator *generator)
{
    TD_AUTO td_tensor *x = td_make_contiguous(self);
    if (x && td_is_outside(x->device)) {
        TD_AUTO td_tensor *zero = td_wrapped_number(td_int(0)), *one = td_wrapped_number(td_int(1)), *drawn = td_le(x, zero);
        TD_AUTO td_tensor *slopes = td_tensor_new(x->ndim, x->sizes, (td_dtype)x->dtype, x->device);
        if (x->dtype != TD_F32 && x->dtype != TD_F64 && x->dtype != TD_BF16)
            return td_fail(TD_E_NOT_IMPLEMENTED, "left to the CPU: slopes of %s", td_dtype_name((td_dtype)x->dtype));
        return !slopes || td_uniform_(slopes, lower, upper, generator) ? NULL : td_where_self(drawn, slopes, one);
    }
    TD_AUTO td_tensor *noise = x ? td_tensor_new(x->ndim, x->sizes, (td_dtype)x->dtype, x->device) : NULL;
    if (!noise || (noise->device.type != TD_META &&
                   td_sample_rrelu(generator, (td_dtype)x->dtype, noise->data, noise->numel, x->data, lower, upper)))
        return NULL;
    return td_ref(noise);
}

/* Half the bounds' sum, in which truth values add up to a truth value, as in PyTorch. */
static td_scalar middle_slope(td_scalar lower, td_scalar upper)
{
    double sum = td_scalar_double(lower) + td_scalar_double(upper);
    bool booleans = lower.kind == TD_SCALAR_BOOL && upper.kind == TD_SCALAR_BOOL;
    return td_float((booleans ? sum != 0 : sum) / 2);
}

td_tensor *td_op_rrelu(td_tensor *self, td_scalar lower, td_scalar upper, bool training, td_generator *generator)
{
    double from = td_scalar_double(lower), to = td_scalar_double(upper);
    if (td_scalar_check(lower, TD_F64) || td_scalar_check(upper, TD_F64) || check_slopes(from, to))
        return NULL;
    TD_AUTO td_tensor *flat = td_contiguous(self);     /* as the result is */
    if (!training)
        return td_leaky_relu(flat, middle_slope(lower, upper));
    if (self->dtype == TD_BF16) {      /* the slopes are rounded only in the product */
        TD_AUTO td_tensor *wide = td_to(flat, TD_F32);
        TD_AUTO td_tensor *slopes = td_rrelu_slopes(wide, from, to, generator);
        TD_AUTO td_tensor *scaled = td_rrelu_scaled(wide, slopes);
        return td_to(scaled, TD_BF16);
    }
    TD_AUTO td_tensor *noise = td_rrelu_slopes(flat, from, to, generator);
    return td_rrelu_scaled(flat, noise);
}

int td_op_rrelu_(td_tensor *self, td_scalar lower, td_scalar upper, bool training, td_generator *generator)
{
    double from = td_scalar_double(lower), to = td_scalar_double(upper);
    if (td_scalar_check(lower, TD_F64) || td_scalar_check(upper, TD_F64) || check_slopes(from, to))
        return -1;
    if (!training)
        return td_leaky_relu_(self, middle_slope(lower, upper));
    if (self->dtype == TD_BF16) {
        TD_AUTO td_tensor *before = td_clone(self);
        TD_AUTO td_tensor *scaled = td_rrelu(before, lower, upper, training, generator);
        return td_copy_from_(self, scaled, false);
    }
    TD_AUTO td_tensor *noise = td_rrelu_slopes(self, from, to, generator);
    return td_mul_tensor_(self, noise);
}
