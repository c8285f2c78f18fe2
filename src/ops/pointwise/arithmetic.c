/* Arithmetic that chooses between operators (div's rounding modes, powers, clamp, ldexp, prelu), and derivatives too long for a
 * formula in ops/.  All are made of calls of other operators, except frexp, which is a kernel. */

#include "calls_ops_pointwise_arithmetic.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <tede/auto.h>
#include <tede/kernel.h>
#include "base/scalar.h"
#include "dispatch/outputs.h"
#include "ops/compose.h"
#include "ops/iterate/strides.h"

/* div by its rounding mode: each is a separate pointwise operator. */
td_tensor *td_op_div_tensor_mode(td_tensor *self, td_tensor *other, const char *rounding_mode)
{
    if (!rounding_mode)
        return td_div(self, other);
    if (!strcmp(rounding_mode, "floor"))
        return td_floor_divide_mode(self, other);
    if (!strcmp(rounding_mode, "trunc"))
        return td_trunc_divide(self, other);
    return td_fail(TD_E_RUNTIME, "div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '%s'", rounding_mode);
}

/* self + weight (end - self), the weight as a number without dimensions. */
td_tensor *td_op_lerp_scalar(td_tensor *self, td_tensor *end, td_scalar weight)
{
    if (td_scalar_check(weight, (td_dtype)self->dtype))
        return NULL;
    TD_AUTO td_tensor *number = td_wrapped_number(weight);
    return td_lerp_tensor(self, end, number);
}

/* log(x / (1 - x)), with x clamped to [eps, 1 - eps] if there is an eps; one below 0 is none. */
td_tensor *td_op_logit(td_tensor *self, const double *eps)
{
    TD_AUTO td_tensor *x = td_dtype_is_floating(self->dtype) ? td_tensor_retain(self) : td_to(self, td_default_dtype());
    if (!eps || *eps < 0)
        return td_logit_anywhere(x);
    if (!x || (x->dtype != TD_F16 && x->dtype != TD_BF16))
        return td_logit_within(x, *eps, 1 - *eps);
    float limits[2] = {(float)*eps, (float)(1 - *eps)};         /* of halves: rounded to them, so the upper one may be 1 */
    uint16_t halves[2];
    td_convert(x->dtype, halves, 2, TD_F32, limits, 4, 2);
    td_convert(TD_F32, limits, 4, x->dtype, halves, 2, 2);
    return td_logit_within(x, limits[0], limits[1]);
}

/* d angle(z) = Im(dz conj(z)) / |z|^2: the gradient is grad i z / |z|^2, at a right angle to z.  A real number's angle is 0 or pi,
 * so its derivative is 0. */
td_tensor *td_op_angle_backward(td_tensor *grad, td_tensor *self)
{
    if (!td_dtype_is_complex(self->dtype))
        return td_zeros_like(self);
    TD_AUTO td_tensor *modulus = td_abs(self);
    TD_AUTO td_tensor *zero = td_eq_scalar(modulus, td_int(0));
    TD_AUTO td_tensor *ratio = td_div(grad, modulus);
    TD_AUTO td_tensor *scale = td_masked_fill_scalar(ratio, zero, td_int(0));     /* at 0 there is no direction */
    TD_AUTO td_tensor *direction = td_sgn(self);
    TD_AUTO td_tensor *i = td_wrapped_number(td_complex(0, 1));     /* a quarter turn to the left */
    TD_AUTO td_tensor *rotated = td_mul(direction, i);
    return td_mul(rotated, scale);
}

/* d sgn(z) = (dz - Re(dz conj(s)) s) / |z| with s = sgn(z): only what is at right angles to z changes its direction.  0 at z = 0. */
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

/* ---- powers */

/* x ** 0 and x ** 1, which lie in memory as a loop over x would leave them. */
static td_tensor *trivial_power(td_tensor *x, bool one)
{
    int64_t strides[TD_MAX_DIMS];
    if (!td_strides_in_order(1, &x, x->ndim, x->sizes, strides))
        td_contiguous_strides(x->ndim, x->sizes, strides);
    TD_AUTO td_tensor *power = td_empty_strided(x->ndim, x->sizes, x->ndim, strides, (td_dtype)x->dtype, x->device);
    return power && (one ? td_copy_from_(power, x, false) : td_fill_scalar_(power, td_int(1))) == 0 ? td_ref(power) : NULL;
}

/* x ** number.  For some exponents a product or a root is both faster and nearer than the general function: 2, 3, 1/2, -1/2, -1, -2,
 * which are those that PyTorch's kernel singles out. */
td_tensor *td_op_pow_tensor_scalar(td_tensor *self, td_scalar exponent)
{
    TD_AUTO td_tensor *number = td_wrapped_number(exponent);
    td_dtype dtype = number ? td_result_type(2, (td_tensor *[]){self, number}) : TD_DTYPE_NONE;
    if (dtype == TD_DTYPE_NONE)
        return NULL;
    bool whole = td_dtype_is_integral(dtype) || dtype == TD_BOOL;
    double e = td_scalar_double(exponent);
    if (whole && e < 0)
        return td_fail(TD_E_RUNTIME, "Integers to negative integer powers are not allowed.");
    TD_AUTO td_tensor *x = td_to(self, dtype);
    if (!x)
        return NULL;
    if (exponent.kind != TD_SCALAR_COMPLEX) {
        if (e == 0 || e == 1)
            return trivial_power(x, e == 1);
        if (e == 2)
            return td_square(x);
        if (e == 3)
            return td_cube(x);
        /* Integers and halves refuse an exponent that they can't hold. */
        if ((whole || dtype == TD_F16 || dtype == TD_BF16) && td_scalar_check(exponent, dtype))
            return NULL;
        if (!whole && e == 0.5)
            return td_sqrt(x);
        if (!whole && e == -0.5 && !td_dtype_is_complex(dtype))
            return td_rsqrt(x);
        if (!whole && e == -1)
            return td_reciprocal(x);
        if (!whole && e == -2) {
            TD_AUTO td_tensor *square = td_square(x);
            return td_reciprocal(square);
        }
    }
    return td_pow(x, number);
}

/* d x^n = n x^(n-1) dx; zeros for n = 0, where x^-1 would be infinite at 0.  A real self under a complex exponent has a real gradient. */
td_tensor *td_op_pow_backward(td_tensor *grad, td_tensor *self, td_scalar exponent)
{
    if (exponent.kind != TD_SCALAR_COMPLEX && td_scalar_double(exponent) == 0)
        return td_zeros_like(self);
    TD_AUTO td_tensor *lower = td_pow_tensor_scalar(self, td_scalar_sub(exponent, td_int(1)));
    TD_AUTO td_tensor *slope = td_times(lower, exponent);
    TD_AUTO td_tensor *conjugate = td_conj(slope);
    TD_AUTO td_tensor *product = td_mul(grad, conjugate);
    if (product && td_dtype_is_complex((td_dtype)product->dtype) && !td_dtype_is_complex((td_dtype)self->dtype))
        return td_real(product);
    return td_ref(product);
}

/* number ** x, always contiguous, as PyTorch's overload is.  1 ** x is 1 whatever x is, NaN included. */
td_tensor *td_op_pow_scalar(td_scalar self, td_tensor *exponent)
{
    TD_AUTO td_tensor *number = td_wrapped_number(self);
    if (self.kind == TD_SCALAR_BOOL && exponent->dtype == TD_BOOL)
        return td_fail(TD_E_NOT_IMPLEMENTED, "\"pow\" not implemented for 'Bool'");
    td_dtype dtype = number ? td_result_type(2, (td_tensor *[]){number, exponent}) : TD_DTYPE_NONE;
    if (dtype == TD_DTYPE_NONE)
        return NULL;
    TD_AUTO td_tensor *power = td_empty_like(exponent, dtype, TD_DEVICE_NONE, TD_CONTIGUOUS_FORMAT);
    const bool one = self.kind != TD_SCALAR_COMPLEX && td_scalar_double(self) == 1;
    return power && (one ? td_fill_scalar_(power, td_int(1)) : td_pow_tensor_tensor_out(number, exponent, power)) == 0 ? td_ref(power) : NULL;
}
/* d b^x = b^x log(b) dx.  The logarithm is that of the number itself, not of its rounding to the default dtype.  For b = 0 it is
 * infinite: the gradient is 0 where Re x >= 0, as PyTorch defines it. */
td_tensor *td_op_pow_exponent_backward(td_tensor *grad, td_scalar self, td_tensor *exponent, td_tensor *result)
{
    TD_AUTO td_tensor *number = td_full(0, NULL, self, td_is_complex(result) ? TD_C128 : TD_F64, result->device);
    TD_AUTO td_tensor *log = td_log(number);
    TD_AUTO td_tensor *slope = td_mul(result, log);
    TD_AUTO td_tensor *conjugate = td_conj(slope);
    TD_AUTO td_tensor *product = td_mul(grad, conjugate);
    if (td_scalar_bool(self))
        return td_ref(product);
    TD_AUTO td_tensor *zero = td_wrapped_number(td_int(0));
    TD_AUTO td_tensor *real = td_real(exponent);
    TD_AUTO td_tensor *flat = td_ge(real, zero);
    return td_where(flat, zero, product);
}

/* In double or complex double, whatever the operands are: NumPy's float_power. */
td_tensor *td_op_float_power_tensor_tensor(td_tensor *self, td_tensor *exponent)
{
    bool complex = td_is_complex(self) || td_is_complex(exponent);
    td_dtype dtype = complex ? TD_C128 : TD_F64;
    TD_AUTO td_tensor *a = td_to(self, dtype);
    td_scalar power;
    if (a && exponent->flags & TD_FLAG_WRAPPED_NUMBER && exponent->device.type == TD_CPU && !td_tensor_item(exponent, &power))
        return td_pow_tensor_scalar(a, power);      /* squares and roots have separate loops */
    TD_AUTO td_tensor *b = td_to(exponent, dtype);
    if (b && self->flags & TD_FLAG_WRAPPED_NUMBER && self->device.type == TD_CPU && !td_tensor_item(self, &power))
        return td_pow_scalar(power, b);             /* which lies in rows, however exponents lie */
    return td_pow(a, b);
}

td_tensor *td_op_rsub_tensor(td_tensor *self, td_tensor *other, td_scalar alpha) { return td_sub_tensor(other, self, alpha); }

td_tensor *td_op_positive(td_tensor *self)
{
    if (self->dtype == TD_BOOL)
        return td_fail(TD_E_RUNTIME, "The `+` operator, on a bool tensor is not supported.");
    return td_ref(self);
}

static bool is_whole(const td_tensor *x) { return x->dtype == TD_BOOL || td_dtype_is_integral((td_dtype)x->dtype); }

/* addcdiv divides integers by integers nowhere; one of them may be. */
int td_check_quotient(td_tensor *self, td_tensor *tensor1, td_tensor *tensor2, td_scalar value);
int td_check_quotient(td_tensor *self, td_tensor *tensor1, td_tensor *tensor2, td_scalar value)
{
    (void)self, (void)value;
    return !(is_whole(tensor1) && is_whole(tensor2)) ? 0
        : td_error(TD_E_RUNTIME, "Integer division with addcdiv is no longer supported, and in a future  release addcdiv will perform a "
                   "true division of tensor1 and tensor2. The historic addcdiv behavior can be implemented as (input + value * "
                   "torch.trunc(tensor1 / tensor2)).to(input.dtype) for integer inputs and as (input + value * tensor1 / tensor2) for "
                   "float inputs. The future addcdiv behavior is just the latter implementation: (input + value * tensor1 / tensor2), "
                   "for all dtypes.");
}

/* ---- bounds */

/* A bound below 0 of unsigned numbers wraps around, as in PyTorch, but not silently. */
static int wrap_bound(td_scalar *bound, td_dtype dtype)
{
    if (!bound || bound->kind != TD_SCALAR_INT || bound->i >= 0 || !td_dtype_is_integral(dtype) || td_dtype_is_signed(dtype))
        return 0;
    if (td_warn("clamp: %" PRId64 " doesn't fit %s and wraps around", bound->i, td_dtype_name(dtype)))
        return -1;
    if (dtype == TD_U64)
        bound->kind = TD_SCALAR_UINT;
    else
        bound->i &= (INT64_C(1) << 8 * td_dtype_size(dtype)) - 1;
    return 0;
}

/* self in the dtype that it has in common with its bounds: a float bound makes integers floats.  That dtype must hold the bounds. */
static td_tensor *bounded_by(td_tensor *self, td_scalar *a, td_scalar *b)
{
    td_tensor *promoted[3] = {self};
    TD_AUTO td_tensor *low = a ? td_wrapped_number(*a) : NULL;
    TD_AUTO td_tensor *high = b ? td_wrapped_number(*b) : NULL;
    int n = 1;
    if (td_is_complex(self))
        return td_fail(TD_E_NOT_IMPLEMENTED, "clamp is not supported for complex types");
    if ((a && a->kind == TD_SCALAR_COMPLEX) || (b && b->kind == TD_SCALAR_COMPLEX))
        return td_is_floating(self) ? td_fail(TD_E_RUNTIME, "value cannot be converted to type double without overflow")
                                    : td_fail(TD_E_NOT_IMPLEMENTED, "clamp is not supported for complex types");
    if (a && a->kind != TD_SCALAR_UINT)         /* that one is an integer like another, which has no dtype in common with it */
        promoted[n++] = low;
    if (b && b->kind != TD_SCALAR_UINT)
        promoted[n++] = high;
    td_dtype dtype = td_result_type(n, promoted);
    if (dtype == TD_DTYPE_NONE || (a && td_scalar_check(*a, dtype)) || (b && td_scalar_check(*b, dtype)) ||
        wrap_bound(a, dtype) || wrap_bound(b, dtype))
        return NULL;
    return td_to(self, dtype);
}
/* The bounds are copied, since wrap_bound may change them. */
td_tensor *td_op_clamp(td_tensor *self, const td_scalar *min, const td_scalar *max)
{
    if (!min && !max)
        return td_fail(TD_E_RUNTIME, "torch.clamp: At least one of 'min' or 'max' must not be None");
    td_scalar low = min ? *min : td_int(0), high = max ? *max : td_int(0);
    TD_AUTO td_tensor *x = bounded_by(self, min ? &low : NULL, max ? &high : NULL);
    if (!x || !max)
        return td_clamp_min_same(x, low);
    return min ? td_clamp_both(x, low, high) : td_clamp_max_same(x, high);
}
td_tensor *td_op_clamp_min(td_tensor *self, td_scalar min) { return td_op_clamp(self, &min, NULL); }
td_tensor *td_op_clamp_max(td_tensor *self, td_scalar max) { return td_op_clamp(self, NULL, &max); }
td_tensor *td_op_clamp_tensor(td_tensor *self, td_tensor *min, td_tensor *max)
{
    if (min == TD_NONE && max == TD_NONE)
        return td_fail(TD_E_RUNTIME, "torch.clamp: At least one of 'min' or 'max' must not be None");
    if (min != TD_NONE && max != TD_NONE && self->dtype == TD_BOOL && min->dtype == TD_BOOL && max->dtype == TD_BOOL)
        return td_fail(TD_E_NOT_IMPLEMENTED, "\"clamp_cpu\" not implemented for 'Bool'");
    if (td_is_complex(self) || (min != TD_NONE && td_is_complex(min)) || (max != TD_NONE && td_is_complex(max)))
        return td_fail(TD_E_NOT_IMPLEMENTED, "clamp is not supported for complex types");
    return max == TD_NONE ? td_clamp_min_tensor(self, min) : min == TD_NONE ? td_clamp_max_tensor(self, max)
        : td_clamp_between(self, min, max);
}

/* The largest finite numbers stand for infinities by default.  A complex number's parts are replaced one by one. */
td_tensor *td_op_nan_to_num(td_tensor *self, const double *nan, const double *posinf, const double *neginf)
{
    static const double largest[TD_DTYPES] = {[TD_F16] = 65504, [TD_BF16] = 0x1.fep127, [TD_F32] = 0x1.fffffep127,
                                              [TD_F64] = 0x1.fffffffffffffp1023};
    if (td_is_complex(self)) {
        TD_AUTO td_tensor *plain = td_resolve_conj(self);
        TD_AUTO td_tensor *real = td_real(plain), *imag = td_imag(plain);
        TD_AUTO td_tensor *clean = td_nan_to_num(real, nan, posinf, neginf), *clean_imag = td_nan_to_num(imag, nan, posinf, neginf);
        return td_complex_op(clean, clean_imag);
    }
    if (!td_is_floating(self))
        return td_clone(self);
    double top = largest[self->dtype];
    return td_nan_to_num_impl(self, nan ? *nan : 0, posinf ? *posinf : top, neginf ? *neginf : -top);
}

/* ---- made of others */

/* The multivariate log-gamma function: p (p - 1) / 4 log(pi) + sum over j = 1..p of lgamma(x + (1 - j) / 2). */
td_tensor *td_op_mvlgamma(td_tensor *self, int64_t p)
{
    if (p < 1)
        return td_fail(TD_E_RUNTIME, "p has to be greater than or equal to 1");
    td_dtype dtype = td_is_floating(self) ? (td_dtype)self->dtype : td_default_dtype();
    TD_AUTO td_tensor *steps = td_arange_start_step(td_float(-0.5 * (double)p + 0.5), td_float(0.5), td_float(0.5), dtype, self->device);
    TD_AUTO td_tensor *x = td_to(self, dtype);
    TD_AUTO td_tensor *column = td_unsqueeze(x, -1);
    TD_AUTO td_tensor *all = td_add(column, steps);
    TD_AUTO td_tensor *each = td_lgamma(all);
    TD_AUTO td_tensor *sum = td_sum_over(each, 1, (int64_t[]){-1}, false);
    return td_plus(sum, td_float((double)p * ((double)p - 1) * 0.25 * 1.1447298858494001741434));
}

/* By an integer: in double, where no power that a float may be multiplied by is out of reach. */
/* The result lies as empty_like(self) where that has its shape, else as a loop over both operands, of which none is converted, would
 * leave it. */
static td_tensor *laid_as_scaled(td_tensor *self, td_tensor *other, td_tensor *result)
{
    int64_t strides[TD_MAX_DIMS];
    const int n = result->ndim;
    const bool alike = self->ndim == n && !memcmp(self->sizes, result->sizes, sizeof *result->sizes * (size_t)n);
    if (!(alike ? td_strides_like(self, strides) : td_strides_in_order(2, (td_tensor *[]){self, other}, n, result->sizes, strides)))
        td_contiguous_strides(n, result->sizes, strides);
    if (!memcmp(strides, result->strides, sizeof *strides * (size_t)n))
        return td_tensor_retain(result);
    TD_AUTO td_tensor *laid = td_empty_strided(n, result->sizes, n, strides, (td_dtype)result->dtype, result->device);
    return laid && td_copy_from_(laid, result, false) == 0 ? td_ref(laid) : NULL;
}

td_tensor *td_op_ldexp_tensor(td_tensor *self, td_tensor *other)
{
    if (other->dtype == TD_BOOL && td_is_floating(self))
        return td_fail(TD_E_NOT_IMPLEMENTED, "\"ldexp_cpu_exp\" not implemented for 'Bool'");
    if (!td_dtype_is_integral((td_dtype)other->dtype) || !(td_is_floating(self) || td_is_complex(self))) {
        TD_AUTO td_tensor *power = td_pow_scalar(td_float(2), other);
        return td_mul(self, power);
    }
    td_dtype dtype = td_result_type(2, (td_tensor *[]){self, other});
    if (dtype == TD_DTYPE_NONE)
        return NULL;
    if (td_dtype_is_integral(dtype) || dtype == TD_BOOL)
        dtype = td_default_dtype();
    TD_AUTO td_tensor *two = td_wrapped_number(td_float(2));
    TD_AUTO td_tensor *exponent = td_to_dtype(other, TD_F64, false, false, TD_MEMORY_FORMAT_NONE);
    TD_AUTO td_tensor *power = td_pow(two, exponent);
    TD_AUTO td_tensor *wide = td_to_dtype(self, td_dtype_is_complex((td_dtype)self->dtype) ? TD_C128 : TD_F64, false, false,
                                          TD_MEMORY_FORMAT_NONE);
    TD_AUTO td_tensor *product = td_mul(wide, power);
    TD_AUTO td_tensor *result = td_to_dtype(product, dtype, false, false, TD_MEMORY_FORMAT_NONE);
    return result ? laid_as_scaled(self, other, result) : NULL;
}

int td_meta_frexp_tensor(td_spec *specs, td_tensor *self)
{
    if (!td_is_floating(self))
        return td_error(TD_E_RUNTIME, "torch.frexp() only supports floating-point dtypes");
    td_spec_like(specs, self);
    return td_spec_set(specs + 1, self->ndim, self->sizes, TD_I32, self->device);
}
/* C's frexp leaves the exponent of infinities and NaN unspecified; it is 0 here. */
int td_cpu_frexp_tensor(td_tensor *self, td_tensor *out0, td_tensor *out1)
{
    TD_AUTO td_tensor *x = td_as_contiguous(self, TD_F64);
    TD_AUTO td_tensor *mantissa = td_tensor_new(out0->ndim, out0->sizes, TD_F64, out0->device);
    if (!x || !mantissa)
        return -1;
    const double *from = (const double *)x->data;
    int32_t *exponent = (int32_t *)out1->data;
    for (int64_t i = 0; i < x->numel; i++) {
        int e = 0;
        ((double *)mantissa->data)[i] = frexp(from[i], &e);
        exponent[i] = isfinite(from[i]) ? e : 0;
    }
    return td_copy_elements(out0, mantissa);
}

/* The weight is one number, or one per channel, which is dimension 1: it gets self's rank, so that broadcasting does the rest. */
td_tensor *td_op_prelu(td_tensor *self, td_tensor *weight)
{
    if (self->dtype != weight->dtype)
        return td_fail(TD_E_RUNTIME, "prelu: Type promoting not supported. Got %s and %s", td_dtype_title((td_dtype)self->dtype),
                       td_dtype_title((td_dtype)weight->dtype));
    if (weight->ndim > 1)
        return td_fail(TD_E_RUNTIME, "prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = %d", weight->ndim);
    if (weight->numel == 1 && weight->ndim == 0)
        return td__prelu_kernel(self, weight);
    /* A vector has no channels: its weight must be a single number. */
    int64_t channels = self->ndim > 1 ? self->sizes[1] : 1, shape[TD_MAX_DIMS];
    if (weight->numel != 1 && !self->ndim)
        return td_fail(TD_E_RUNTIME, "Not allow zero-dim input tensor.");
    if (weight->numel != 1 && channels != weight->numel)
        return td_fail(TD_E_RUNTIME, "Mismatch of parameter numbers and input channel size. Found parameter numbers = %lld and channel size = "
                       "%lld.", (long long)weight->numel, (long long)channels);
    for (int d = 0; d < self->ndim; d++)
        shape[d] = d == 1 ? weight->numel : 1;
    if (self->ndim == 1)
        shape[0] = 1;
    TD_AUTO td_tensor *wide = td_reshape(weight, self->ndim, shape);
    return td__prelu_kernel(self, wide);
}

/* alpha and scale from Klambauer et al. 2017, "Self-Normalizing Neural Networks": the fixed point at mean 0 and variance 1. */
td_tensor *td_op_selu(td_tensor *self)
{
    return td_elu(self, td_float(1.6732632423543772848170429916717), td_float(1.0507009873554804934193349852946), td_float(1));
}
/* Barron 2017, "Continuously Differentiable Exponential Linear Units": elu whose exponential is stretched by alpha. */
td_tensor *td_op_celu(td_tensor *self, td_scalar alpha)
{
    double a = td_scalar_double(alpha);
    return a == 0 ? td_fail(TD_E_RUNTIME, "ZeroDivisionError: alpha cannot be 0 for CELU") : td_elu(self, alpha, td_float(1), td_float(1 / a));
}
td_tensor *td_op_relu6(td_tensor *self) { return td_hardtanh(self, td_int(0), td_int(6)); }
