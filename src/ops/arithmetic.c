/* Arithmetic that chooses between operators, and derivatives too long for a formula. */
#include "bodies.h"

#include <string.h>
#include <tede/auto.h>
#include "dispatch/glue.h"

td_tensor *td_op_div_tensor_mode(td_tensor *self, td_tensor *other, const char *rounding_mode)
{
    if (!rounding_mode)
        return td_div(self, other);
    if (!strcmp(rounding_mode, "floor"))
        return td_floor_divide(self, other);
    if (!strcmp(rounding_mode, "trunc"))
        return td_trunc_divide(self, other);
    return td_fail(TD_E_RUNTIME, "div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '%s'", rounding_mode);
}

td_tensor *td_op_lerp_scalar(td_tensor *self, td_tensor *end, td_scalar weight)
{
    TD_AUTO td_tensor *number = td_wrapped_number(weight);
    return td_lerp_tensor(self, end, number);
}

td_tensor *td_op_masked_fill_scalar(td_tensor *self, td_tensor *mask, td_scalar value)
{
    TD_AUTO td_tensor *number = td_wrapped_number(value);
    return td_masked_fill_tensor(self, mask, number);
}

td_tensor *td_op_masked_fill_tensor(td_tensor *self, td_tensor *mask, td_tensor *value)
{
    if (mask->dtype != TD_BOOL)
        return td_fail(TD_E_RUNTIME, "masked_fill_ only supports boolean masks, but got mask with dtype %s", td_dtype_title(mask->dtype));
    if (value->ndim)
        return td_fail(TD_E_RUNTIME, "masked_fill_ only supports a 0-dimensional value tensor, but got tensor with %d dimension(s).", value->ndim);
    TD_AUTO td_tensor *same = td_to(value, (td_dtype)self->dtype);
    return td_where(mask, same, self);
}

td_tensor *td_op_logit(td_tensor *self, const double *eps)
{
    TD_AUTO td_tensor *x = td_dtype_is_floating(self->dtype) ? td_tensor_retain(self) : td_to(self, td_default_dtype());
    TD_AUTO td_tensor *inside = eps && x ? td_clamp_both(x, td_float(*eps), td_float(1 - *eps)) : td_tensor_retain(x);
    TD_AUTO td_tensor *one = td_wrapped_number(td_int(1));
    TD_AUTO td_tensor *rest = td_sub(one, inside);
    TD_AUTO td_tensor *odds = td_div(inside, rest);
    return td_log(odds);
}

td_tensor *td_op_angle_backward(td_tensor *grad, td_tensor *self)
{
    if (!td_dtype_is_complex(self->dtype))
        return td_zeros_like(grad);
    TD_AUTO td_tensor *square = td_mul(self, self);
    TD_AUTO td_tensor *modulus = td_abs(self);
    TD_AUTO td_tensor *scale = td_div(grad, modulus);
    TD_AUTO td_tensor *direction = td_sgn(self);
    TD_AUTO td_tensor *i = td_wrapped_number(td_complex(0, 1));
    TD_AUTO td_tensor *turned = td_mul(direction, i);
    return td_mul(turned, scale);
}

/* d sgn(z) = (dz - Re(dz conj(s)) s) / |z| with s = sgn(z). */
td_tensor *td_op_sgn_backward(td_tensor *self, td_tensor *grad, td_tensor *sgn)
{
    if (!td_dtype_is_complex(self->dtype))
        return td_zeros_like(grad);
    TD_AUTO td_tensor *conjugate = td_conj(grad);
    TD_AUTO td_tensor *product = td_mul(conjugate, sgn);
    TD_AUTO td_tensor *along = td_real(product);
    TD_AUTO td_tensor *parallel = td_mul(sgn, along);
    TD_AUTO td_tensor *across = td_sub(grad, parallel);
    TD_AUTO td_tensor *modulus = td_abs(self);
    TD_AUTO td_tensor *quotient = td_div(across, modulus);
    TD_AUTO td_tensor *zero = td_wrapped_number(td_int(0));
    TD_AUTO td_tensor *at_zero = td_eq(self, zero);
    return td_where(at_zero, zero, quotient);
}

/* gelu'' = phi(x) (2 - x^2) for the exact form; by the chain rule of tanh for the other. */
td_tensor *td_op_gelu_double_backward(td_tensor *grad, td_tensor *x, const char *approximate)
{
    TD_AUTO td_tensor *square = td_mul(x, x);
    TD_AUTO td_tensor *two = td_wrapped_number(td_int(2));
    if (strcmp(approximate, "tanh")) {
        TD_AUTO td_tensor *half = td_wrapped_number(td_float(-0.5));
        TD_AUTO td_tensor *exponent = td_mul(square, half);
        TD_AUTO td_tensor *bell = td_exp(exponent);
        TD_AUTO td_tensor *norm = td_wrapped_number(td_float(0.39894228040143267794));
        TD_AUTO td_tensor *phi = td_mul(bell, norm);
        TD_AUTO td_tensor *factor = td_sub(two, square);
        TD_AUTO td_tensor *second = td_mul(phi, factor);
        return td_mul(grad, second);
    }
    /* u = k (x + c x^3), t = tanh u: ((1 - t^2) (u' + x u'' / 2 - x t u'^2)) */
    const double k = 0.79788456080286535588, c = 0.044715;
    TD_AUTO td_tensor *cube = td_mul(square, x);
    TD_AUTO td_tensor *number_c = td_wrapped_number(td_float(c));
    TD_AUTO td_tensor *number_k = td_wrapped_number(td_float(k));
    TD_AUTO td_tensor *number_3kc = td_wrapped_number(td_float(3 * k * c));
    TD_AUTO td_tensor *one = td_wrapped_number(td_int(1));
    TD_AUTO td_tensor *scaled_cube = td_mul(cube, number_c);
    TD_AUTO td_tensor *inner = td_add(x, scaled_cube);
    TD_AUTO td_tensor *u = td_mul(inner, number_k);
    TD_AUTO td_tensor *t = td_tanh(u);
    TD_AUTO td_tensor *slope_part = td_mul(square, number_3kc);
    TD_AUTO td_tensor *slope = td_add(slope_part, number_k);              /* u' */
    TD_AUTO td_tensor *bend = td_mul(square, number_3kc);                 /* x u'' / 2 */
    TD_AUTO td_tensor *t_square = td_mul(t, t);
    TD_AUTO td_tensor *sech = td_sub(one, t_square);
    TD_AUTO td_tensor *slope_square = td_mul(slope, slope);
    TD_AUTO td_tensor *xt = td_mul(x, t);
    TD_AUTO td_tensor *last = td_mul(xt, slope_square);
    TD_AUTO td_tensor *first = td_add(slope, bend);
    TD_AUTO td_tensor *difference = td_sub(first, last);
    TD_AUTO td_tensor *second = td_mul(sech, difference);
    return td_mul(grad, second);
}
