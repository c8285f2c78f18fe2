/* tede/ops.h: every operator.  Generated from ops/: run `make gen` after changing an entry.
 *
 * Arguments are in the order of the schema.  Lists are a count and a pointer (a count of -1: absent); optional numbers
 * are pointers, NULL if absent; an optional tensor that is absent is TD_NONE, an optional dtype TD_DTYPE_NONE, an
 * optional device TD_DEVICE_NONE.  One result is a new reference, or NULL with an error recorded.  Several come in an
 * array, all or none.  In-place operators (td_add_...) and those with `out` return 0 or -1.
 *
 * Handed NULL for a tensor, an operator returns NULL (or -1) and leaves the thread's error as it was, so that a chain of
 * calls is checked once. */
#ifndef TEDE_OPS_H
#define TEDE_OPS_H
#include <tede/dispatch.h>
#include <tede/list.h>
#ifdef __cplusplus
extern "C" {
#endif


/* ==== activation ========================================================================================== */

/* ``max(self, 0)``; NaN stays NaN. */
TD_API td_tensor *td_relu(td_tensor *self);
TD_API int td_relu_(td_tensor *self) TD_MUST_USE;
/* Sigmoid linear unit, ``x * sigmoid(x)``, elementwise. */
TD_API td_tensor *td_silu(td_tensor *self);
TD_API int td_silu_(td_tensor *self) TD_MUST_USE;
TD_API int td_silu_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* Gaussian error linear unit, ``x * Phi(x)``; approximate='tanh' is the cheaper formula. */
TD_API td_tensor *td_gelu(td_tensor *self, const char *approximate);
TD_API int td_gelu_(td_tensor *self, const char *approximate) TD_MUST_USE;
TD_API int td_gelu_out(td_tensor *self, const char *approximate, td_tensor *out) TD_MUST_USE;
/* The derivative of gelu. */
TD_API td_tensor *td_gelu_backward(td_tensor *grad_output, td_tensor *self, const char *approximate);
/* The second derivative of gelu. */
TD_API td_tensor *td_gelu_double_backward(td_tensor *grad, td_tensor *self, const char *approximate);
/* x where positive, else ``alpha * (exp(x) - 1)``, scaled. */
TD_API td_tensor *td_elu(td_tensor *self, td_scalar alpha, td_scalar scale, td_scalar input_scale);
TD_API int td_elu_(td_tensor *self, td_scalar alpha, td_scalar scale, td_scalar input_scale) TD_MUST_USE;
TD_API int td_elu_out(td_tensor *self, td_scalar alpha, td_scalar scale, td_scalar input_scale,
        td_tensor *out) TD_MUST_USE;
/* x where positive, else ``negative_slope * x``. */
TD_API td_tensor *td_leaky_relu(td_tensor *self, td_scalar negative_slope);
TD_API int td_leaky_relu_(td_tensor *self, td_scalar negative_slope) TD_MUST_USE;
TD_API int td_leaky_relu_out(td_tensor *self, td_scalar negative_slope, td_tensor *out) TD_MUST_USE;
/* The derivative of leaky_relu, which is flat on both sides. */
TD_API td_tensor *td_leaky_relu_backward(td_tensor *grad_output, td_tensor *self, td_scalar negative_slope,
        bool self_is_result);
/* x where positive, else ``weight * x``. */
TD_API td_tensor *td__prelu_kernel(td_tensor *self, td_tensor *weight);
/* The derivative of prelu in x. */
TD_API td_tensor *td_prelu_backward(td_tensor *grad_output, td_tensor *self, td_tensor *weight);
/* The derivative of prelu in the weight. */
TD_API td_tensor *td_prelu_weight_backward(td_tensor *grad_output, td_tensor *self);
/* ``log(1 + exp(beta x)) / beta``; x itself above the threshold. */
TD_API td_tensor *td_softplus(td_tensor *self, td_scalar beta, td_scalar threshold);
TD_API int td_softplus_out(td_tensor *self, td_scalar beta, td_scalar threshold, td_tensor *out) TD_MUST_USE;
/* ``x * tanh(softplus(x))``. */
TD_API td_tensor *td_mish(td_tensor *self);
TD_API int td_mish_(td_tensor *self) TD_MUST_USE;
TD_API int td_mish_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* x between two bounds. */
TD_API td_tensor *td_hardtanh(td_tensor *self, td_scalar min_val, td_scalar max_val);
TD_API int td_hardtanh_(td_tensor *self, td_scalar min_val, td_scalar max_val) TD_MUST_USE;
TD_API int td_hardtanh_out(td_tensor *self, td_scalar min_val, td_scalar max_val, td_tensor *out) TD_MUST_USE;
/* The derivative of hardtanh. */
TD_API td_tensor *td_hardtanh_backward(td_tensor *grad_output, td_tensor *self, td_scalar min_val,
        td_scalar max_val);
/* ``x * relu6(x + 3) / 6``. */
TD_API td_tensor *td_hardswish(td_tensor *self);
TD_API int td_hardswish_(td_tensor *self) TD_MUST_USE;
TD_API int td_hardswish_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* ``relu6(x + 3) / 6``. */
TD_API td_tensor *td_hardsigmoid(td_tensor *self);
TD_API int td_hardsigmoid_(td_tensor *self) TD_MUST_USE;
TD_API int td_hardsigmoid_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* The derivative of hardsigmoid. */
TD_API td_tensor *td_hardsigmoid_backward(td_tensor *grad_output, td_tensor *self);
/* 0 within lambd of zero, else x. */
TD_API td_tensor *td_hardshrink(td_tensor *self, td_scalar lambd);
TD_API int td_hardshrink_out(td_tensor *self, td_scalar lambd, td_tensor *out) TD_MUST_USE;
/* The derivative of hardshrink and of softshrink. */
TD_API td_tensor *td_hardshrink_backward(td_tensor *grad_out, td_tensor *self, td_scalar lambd);
/* x moved towards zero by lambd. */
TD_API td_tensor *td_softshrink(td_tensor *self, td_scalar lambd);
TD_API int td_softshrink_out(td_tensor *self, td_scalar lambd, td_tensor *out) TD_MUST_USE;
/* The kernel of softshrink. */
TD_API td_tensor *td_softshrink_impl(td_tensor *self, td_scalar lambd);
/* x above the threshold, else the value. */
TD_API td_tensor *td_threshold(td_tensor *self, td_scalar threshold, td_scalar value);
TD_API int td_threshold_(td_tensor *self, td_scalar threshold, td_scalar value) TD_MUST_USE;
TD_API int td_threshold_out(td_tensor *self, td_scalar threshold, td_scalar value, td_tensor *out) TD_MUST_USE;
/* The derivative of threshold and of relu. */
TD_API td_tensor *td_threshold_backward(td_tensor *grad_output, td_tensor *self, td_scalar threshold);
/* ``log(sigmoid(x))`` without overflow. */
TD_API td_tensor *td_log_sigmoid(td_tensor *self);
TD_API int td_log_sigmoid_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* x, but at least min. */
TD_API td_tensor *td_clamp_min_same(td_tensor *self, td_scalar min);
/* x, but at most max. */
TD_API td_tensor *td_clamp_max_same(td_tensor *self, td_scalar max);
/* x between two bounds. */
TD_API td_tensor *td_clamp_both(td_tensor *self, td_scalar min, td_scalar max);
/* x between two bounds, elementwise. */
TD_API td_tensor *td_clamp_between(td_tensor *self, td_tensor *min, td_tensor *max);
/* x, but at least min, elementwise. */
TD_API td_tensor *td_clamp_min_tensor(td_tensor *self, td_tensor *min);
TD_API int td_clamp_min_tensor_(td_tensor *self, td_tensor *min) TD_MUST_USE;
TD_API int td_clamp_min_tensor_out(td_tensor *self, td_tensor *min, td_tensor *out) TD_MUST_USE;
/* x, but at most max, elementwise. */
TD_API td_tensor *td_clamp_max_tensor(td_tensor *self, td_tensor *max);
TD_API int td_clamp_max_tensor_(td_tensor *self, td_tensor *max) TD_MUST_USE;
TD_API int td_clamp_max_tensor_out(td_tensor *self, td_tensor *max, td_tensor *out) TD_MUST_USE;
/* ``log(x / (1 - x))``, with x clamped to [eps, 1 - eps] if eps is given. */
TD_API td_tensor *td_logit(td_tensor *self, const double *eps);
TD_API int td_logit_(td_tensor *self, const double *eps) TD_MUST_USE;
TD_API int td_logit_out(td_tensor *self, const double *eps, td_tensor *out) TD_MUST_USE;
/* logit without limits. */
TD_API td_tensor *td_logit_anywhere(td_tensor *self);
/* logit between two limits. */
TD_API td_tensor *td_logit_within(td_tensor *self, double low, double high);
/* Replaces NaN and infinities. */
TD_API td_tensor *td_nan_to_num_impl(td_tensor *self, double nan, double posinf, double neginf);
/* leaky_relu with slopes drawn from [lower, upper) in training, else with their mean. */
TD_API td_tensor *td_rrelu(td_tensor *self, td_scalar lower, td_scalar upper, bool training,
        td_generator *generator);
TD_API int td_rrelu_(td_tensor *self, td_scalar lower, td_scalar upper, bool training,
        td_generator *generator) TD_MUST_USE;
/* The factors of rrelu: one number is drawn for each element that is not positive. */
TD_API td_tensor *td_rrelu_slopes(td_tensor *self, double lower, double upper, td_generator *generator);
/* x times rrelu's factors, which are constants that depend on x. */
TD_API td_tensor *td_rrelu_scaled(td_tensor *self, td_tensor *noise);
/* The derivative of rrelu_scaled. */
TD_API td_tensor *td_rrelu_scaled_backward(td_tensor *grad_output, td_tensor *self, td_tensor *noise);

/* ==== arithmetic ========================================================================================== */

/* ``self ** exponent``; exponents such as 2, 0.5 and -1 are products, roots and reciprocals. */
TD_API td_tensor *td_pow_tensor_scalar(td_tensor *self, td_scalar exponent);
TD_API int td_pow_tensor_scalar_(td_tensor *self, td_scalar exponent) TD_MUST_USE;
TD_API int td_pow_tensor_scalar_out(td_tensor *self, td_scalar exponent, td_tensor *out) TD_MUST_USE;
/* The derivative of pow with a number as exponent. */
TD_API td_tensor *td_pow_backward(td_tensor *grad, td_tensor *self, td_scalar exponent);
/* ``self ** exponent`` of a number. */
TD_API td_tensor *td_pow_scalar(td_scalar self, td_tensor *exponent);
TD_API int td_pow_scalar_out(td_scalar self, td_tensor *exponent, td_tensor *out) TD_MUST_USE;
/* The derivative of a number's power. */
TD_API td_tensor *td_pow_exponent_backward(td_tensor *grad, td_scalar self, td_tensor *exponent,
        td_tensor *result);
/* ``self ** exponent`` in float64 or complex128. */
TD_API td_tensor *td_float_power_tensor_tensor(td_tensor *self, td_tensor *exponent);
TD_API int td_float_power_tensor_tensor_(td_tensor *self, td_tensor *exponent) TD_MUST_USE;
TD_API int td_float_power_tensor_tensor_out(td_tensor *self, td_tensor *exponent, td_tensor *out) TD_MUST_USE;
/* ``other - alpha * self``. */
TD_API td_tensor *td_rsub_tensor(td_tensor *self, td_tensor *other, td_scalar alpha);
/* The tensor itself. */
TD_API td_tensor *td_positive(td_tensor *self);
/* Elements no smaller than min and no larger than max. */
TD_API td_tensor *td_clamp(td_tensor *self, const td_scalar *min, const td_scalar *max);
TD_API int td_clamp_(td_tensor *self, const td_scalar *min, const td_scalar *max) TD_MUST_USE;
TD_API int td_clamp_out(td_tensor *self, const td_scalar *min, const td_scalar *max,
        td_tensor *out) TD_MUST_USE;
/* Elements no smaller than min and no larger than max, elementwise. */
TD_API td_tensor *td_clamp_tensor(td_tensor *self, td_tensor *min, td_tensor *max);
TD_API int td_clamp_tensor_(td_tensor *self, td_tensor *min, td_tensor *max) TD_MUST_USE;
TD_API int td_clamp_tensor_out(td_tensor *self, td_tensor *min, td_tensor *max, td_tensor *out) TD_MUST_USE;
/* x, but at least min. */
TD_API td_tensor *td_clamp_min(td_tensor *self, td_scalar min);
TD_API int td_clamp_min_(td_tensor *self, td_scalar min) TD_MUST_USE;
TD_API int td_clamp_min_out(td_tensor *self, td_scalar min, td_tensor *out) TD_MUST_USE;
/* x, but at most max. */
TD_API td_tensor *td_clamp_max(td_tensor *self, td_scalar max);
TD_API int td_clamp_max_(td_tensor *self, td_scalar max) TD_MUST_USE;
TD_API int td_clamp_max_out(td_tensor *self, td_scalar max, td_tensor *out) TD_MUST_USE;
/* NaN and infinities replaced, by 0 and the largest and smallest numbers by default. */
TD_API td_tensor *td_nan_to_num(td_tensor *self, const double *nan, const double *posinf, const double *neginf);
TD_API int td_nan_to_num_(td_tensor *self, const double *nan, const double *posinf,
        const double *neginf) TD_MUST_USE;
TD_API int td_nan_to_num_out(td_tensor *self, const double *nan, const double *posinf, const double *neginf,
        td_tensor *out) TD_MUST_USE;
/* Logarithm of the multivariate gamma function. */
TD_API td_tensor *td_mvlgamma(td_tensor *self, int64_t p);
TD_API int td_mvlgamma_(td_tensor *self, int64_t p) TD_MUST_USE;
TD_API int td_mvlgamma_out(td_tensor *self, int64_t p, td_tensor *out) TD_MUST_USE;
/* ``self * 2 ** other``. */
TD_API td_tensor *td_ldexp_tensor(td_tensor *self, td_tensor *other);
TD_API int td_ldexp_tensor_(td_tensor *self, td_tensor *other) TD_MUST_USE;
TD_API int td_ldexp_out(td_tensor *self, td_tensor *other, td_tensor *out) TD_MUST_USE;
/* Mantissas from 0.5 up to 1 and exponents of 2. */
TD_API int td_frexp_tensor(td_tensor **results, td_tensor *self) TD_MUST_USE;
TD_API int td_frexp_tensor_out(td_tensor *self, td_tensor *mantissa, td_tensor *exponent) TD_MUST_USE;
/* Rounded to a number of decimals. */
TD_API td_tensor *td_round_decimals(td_tensor *self, int64_t decimals);
TD_API int td_round_decimals_(td_tensor *self, int64_t decimals) TD_MUST_USE;
TD_API int td_round_decimals_out(td_tensor *self, int64_t decimals, td_tensor *out) TD_MUST_USE;
/* Radians as degrees. */
TD_API td_tensor *td_rad2deg(td_tensor *self);
TD_API int td_rad2deg_(td_tensor *self) TD_MUST_USE;
TD_API int td_rad2deg_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* Degrees as radians. */
TD_API td_tensor *td_deg2rad(td_tensor *self);
TD_API int td_deg2rad_(td_tensor *self) TD_MUST_USE;
TD_API int td_deg2rad_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* x where positive, else a slope per channel times x. */
TD_API td_tensor *td_prelu(td_tensor *self, td_tensor *weight);
/* Scaled exponential linear unit. */
TD_API td_tensor *td_selu(td_tensor *self);
TD_API int td_selu_(td_tensor *self) TD_MUST_USE;
/* x where positive, else ``alpha * (exp(x / alpha) - 1)``. */
TD_API td_tensor *td_celu(td_tensor *self, td_scalar alpha);
TD_API int td_celu_(td_tensor *self, td_scalar alpha) TD_MUST_USE;
/* x between 0 and 6. */
TD_API td_tensor *td_relu6(td_tensor *self);
TD_API int td_relu6_(td_tensor *self) TD_MUST_USE;
/* ``exp(x * x) * erfc(x)``. */
TD_API td_tensor *td_special_erfcx(td_tensor *self);
TD_API int td_special_erfcx_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* The normal cumulative distribution. */
TD_API td_tensor *td_special_ndtr(td_tensor *self);
TD_API int td_special_ndtr_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* ``self * log(1 + other)``, 0 where self is 0. */
TD_API td_tensor *td_special_xlog1py(td_tensor *self, td_tensor *other);
TD_API int td_special_xlog1py_out(td_tensor *self, td_tensor *other, td_tensor *out) TD_MUST_USE;
/* The Hurwitz zeta function. */
TD_API td_tensor *td_special_zeta(td_tensor *self, td_tensor *other);
TD_API int td_special_zeta_out(td_tensor *self, td_tensor *other, td_tensor *out) TD_MUST_USE;
/* The lower regularised incomplete gamma function. */
TD_API td_tensor *td_igamma(td_tensor *self, td_tensor *other);
TD_API int td_igamma_(td_tensor *self, td_tensor *other) TD_MUST_USE;
TD_API int td_igamma_out(td_tensor *self, td_tensor *other, td_tensor *out) TD_MUST_USE;
/* The upper regularised incomplete gamma function. */
TD_API td_tensor *td_igammac(td_tensor *self, td_tensor *other);
TD_API int td_igammac_(td_tensor *self, td_tensor *other) TD_MUST_USE;
TD_API int td_igammac_out(td_tensor *self, td_tensor *other, td_tensor *out) TD_MUST_USE;
/* Modified Bessel function of order 0. */
TD_API td_tensor *td_special_modified_bessel_i0(td_tensor *self);
TD_API int td_special_modified_bessel_i0_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* Modified Bessel function of order 1. */
TD_API td_tensor *td_special_modified_bessel_i1(td_tensor *self);
TD_API int td_special_modified_bessel_i1_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* The covariance matrix of variables in rows. */
TD_API td_tensor *td_cov(td_tensor *self, int64_t correction, td_tensor *fweights, td_tensor *aweights);
/* The correlation coefficients of variables in rows. */
TD_API td_tensor *td_corrcoef(td_tensor *self);
/* Slices along a dimension scaled down to a largest norm. */
TD_API td_tensor *td_renorm(td_tensor *self, td_scalar p, int64_t dim, td_scalar maxnorm);
TD_API int td_renorm_(td_tensor *self, td_scalar p, int64_t dim, td_scalar maxnorm) TD_MUST_USE;
TD_API int td_renorm_out(td_tensor *self, td_scalar p, int64_t dim, td_scalar maxnorm,
        td_tensor *out) TD_MUST_USE;
/* Powers of a vector's elements in columns, falling by default. */
TD_API td_tensor *td_vander(td_tensor *x, const int64_t *N, bool increasing);

/* ==== conv ================================================================================================ */

/* Convolution (strictly: correlation) over one, two or three dimensions, or its transpose. */
TD_API td_tensor *td_convolution(td_tensor *input, td_tensor *weight, td_tensor *bias, int64_t n_stride,
        const int64_t *stride, int64_t n_padding, const int64_t *padding, int64_t n_dilation,
        const int64_t *dilation, bool transposed, int64_t n_output_padding, const int64_t *output_padding,
        int64_t groups);
TD_API int td_convolution_out(td_tensor *input, td_tensor *weight, td_tensor *bias, int64_t n_stride,
        const int64_t *stride, int64_t n_padding, const int64_t *padding, int64_t n_dilation,
        const int64_t *dilation, bool transposed, int64_t n_output_padding, const int64_t *output_padding,
        int64_t groups, td_tensor *out) TD_MUST_USE;
/* Gradients of convolution. */
TD_API int td_convolution_backward(td_tensor **results, td_tensor *grad_output, td_tensor *input,
        td_tensor *weight, int64_t n_bias_sizes, const int64_t *bias_sizes, int64_t n_stride,
        const int64_t *stride, int64_t n_padding, const int64_t *padding, int64_t n_dilation,
        const int64_t *dilation, bool transposed, int64_t n_output_padding, const int64_t *output_padding,
        int64_t groups, int64_t n_output_mask, const bool *output_mask) TD_MUST_USE;
/* Gradients of convolution; differentiable where a graph is being made. */
TD_API int td_convolution_grad(td_tensor **results, td_tensor *grad_output, td_tensor *input, td_tensor *weight,
        int64_t n_stride, const int64_t *stride, int64_t n_padding, const int64_t *padding, int64_t n_dilation,
        const int64_t *dilation, bool transposed, int64_t n_output_padding, const int64_t *output_padding,
        int64_t groups, int64_t n_wants, const bool *wants) TD_MUST_USE;
/* The gradient of convolution's input, linear in the result's gradient and in the weight. */
TD_API td_tensor *td_convolution_grad_input(td_tensor *grad_output, td_tensor *input, td_tensor *weight,
        int64_t n_stride, const int64_t *stride, int64_t n_padding, const int64_t *padding, int64_t n_dilation,
        const int64_t *dilation, bool transposed, int64_t n_output_padding, const int64_t *output_padding,
        int64_t groups);
/* The gradient of convolution's weight, linear in the result's gradient and in the input. */
TD_API td_tensor *td_convolution_grad_weight(td_tensor *grad_output, td_tensor *input, td_tensor *weight,
        int64_t n_stride, const int64_t *stride, int64_t n_padding, const int64_t *padding, int64_t n_dilation,
        const int64_t *dilation, bool transposed, int64_t n_output_padding, const int64_t *output_padding,
        int64_t groups);
/* Convolution over the last dimension of [batch, channels, length], or without a batch. */
TD_API td_tensor *td_conv1d(td_tensor *input, td_tensor *weight, td_tensor *bias, int64_t n_stride,
        const int64_t *stride, int64_t n_padding, const int64_t *padding, int64_t n_dilation,
        const int64_t *dilation, int64_t groups);
/* The same with padding 'valid' (none) or 'same'. */
TD_API td_tensor *td_conv1d_padding(td_tensor *input, td_tensor *weight, td_tensor *bias, int64_t n_stride,
        const int64_t *stride, const char *padding, int64_t n_dilation, const int64_t *dilation,
        int64_t groups);
/* Convolution over the last two dimensions of [batch, channels, height, width], or without a batch. */
TD_API td_tensor *td_conv2d(td_tensor *input, td_tensor *weight, td_tensor *bias, int64_t n_stride,
        const int64_t *stride, int64_t n_padding, const int64_t *padding, int64_t n_dilation,
        const int64_t *dilation, int64_t groups);
/* The same with padding 'valid' (none) or 'same'. */
TD_API td_tensor *td_conv2d_padding(td_tensor *input, td_tensor *weight, td_tensor *bias, int64_t n_stride,
        const int64_t *stride, const char *padding, int64_t n_dilation, const int64_t *dilation,
        int64_t groups);
/* Convolution over the last three dimensions. */
TD_API td_tensor *td_conv3d(td_tensor *input, td_tensor *weight, td_tensor *bias, int64_t n_stride,
        const int64_t *stride, int64_t n_padding, const int64_t *padding, int64_t n_dilation,
        const int64_t *dilation, int64_t groups);
/* The same with padding 'valid' (none) or 'same'. */
TD_API td_tensor *td_conv3d_padding(td_tensor *input, td_tensor *weight, td_tensor *bias, int64_t n_stride,
        const int64_t *stride, const char *padding, int64_t n_dilation, const int64_t *dilation,
        int64_t groups);
/* The transpose of conv1d, which turns its results' shapes back into its inputs'. */
TD_API td_tensor *td_conv_transpose1d(td_tensor *input, td_tensor *weight, td_tensor *bias, int64_t n_stride,
        const int64_t *stride, int64_t n_padding, const int64_t *padding, int64_t n_output_padding,
        const int64_t *output_padding, int64_t groups, int64_t n_dilation, const int64_t *dilation);
/* The transpose of conv2d. */
TD_API td_tensor *td_conv_transpose2d_input(td_tensor *input, td_tensor *weight, td_tensor *bias,
        int64_t n_stride, const int64_t *stride, int64_t n_padding, const int64_t *padding,
        int64_t n_output_padding, const int64_t *output_padding, int64_t groups, int64_t n_dilation,
        const int64_t *dilation);
/* The transpose of conv3d. */
TD_API td_tensor *td_conv_transpose3d_input(td_tensor *input, td_tensor *weight, td_tensor *bias,
        int64_t n_stride, const int64_t *stride, int64_t n_padding, const int64_t *padding,
        int64_t n_output_padding, const int64_t *output_padding, int64_t groups, int64_t n_dilation,
        const int64_t *dilation);
/* The patches of images that a convolution would see, as columns (``unfold``). */
TD_API td_tensor *td_im2col(td_tensor *self, int64_t n_kernel_size, const int64_t *kernel_size,
        int64_t n_dilation, const int64_t *dilation, int64_t n_padding, const int64_t *padding, int64_t n_stride,
        const int64_t *stride);
TD_API int td_im2col_out(td_tensor *self, int64_t n_kernel_size, const int64_t *kernel_size, int64_t n_dilation,
        const int64_t *dilation, int64_t n_padding, const int64_t *padding, int64_t n_stride,
        const int64_t *stride, td_tensor *out) TD_MUST_USE;
/* Columns added back to where im2col took them from. */
TD_API td_tensor *td_columns_to_image(td_tensor *self, int64_t n_input_size, const int64_t *input_size,
        int64_t n_kernel_size, const int64_t *kernel_size, int64_t n_dilation, const int64_t *dilation,
        int64_t n_padding, const int64_t *padding, int64_t n_stride, const int64_t *stride);
/* Columns added up to images (``fold``). */
TD_API td_tensor *td_col2im(td_tensor *self, int64_t n_output_size, const int64_t *output_size,
        int64_t n_kernel_size, const int64_t *kernel_size, int64_t n_dilation, const int64_t *dilation,
        int64_t n_padding, const int64_t *padding, int64_t n_stride, const int64_t *stride);
TD_API int td_col2im_out(td_tensor *self, int64_t n_output_size, const int64_t *output_size,
        int64_t n_kernel_size, const int64_t *kernel_size, int64_t n_dilation, const int64_t *dilation,
        int64_t n_padding, const int64_t *padding, int64_t n_stride, const int64_t *stride,
        td_tensor *out) TD_MUST_USE;
/* conv1d of [time, batch, channels] with a weight of [width, channels in, channels out]. */
TD_API td_tensor *td_conv_tbc(td_tensor *self, td_tensor *weight, td_tensor *bias, int64_t pad);

/* ==== creation ============================================================================================ */

/* A tensor whose elements are whatever was in memory. */
TD_API td_tensor *td_empty_memory_format(int64_t n_size, const int64_t *size, td_dtype dtype, td_device device,
        td_memory_format memory_format);
TD_API int td_empty_out(int64_t n_size, const int64_t *size, td_dtype dtype, td_device device,
        td_memory_format memory_format, td_tensor *out) TD_MUST_USE;
/* An uninitialised tensor with given strides. */
TD_API td_tensor *td_empty_strided(int64_t n_size, const int64_t *size, int64_t n_stride, const int64_t *stride,
        td_dtype dtype, td_device device);
/* An uninitialised tensor of self's shape, dtype and device. */
TD_API td_tensor *td_empty_like(td_tensor *self, td_dtype dtype, td_device device,
        td_memory_format memory_format);
/* A tensor of zeros. */
TD_API td_tensor *td_zeros(int64_t n_size, const int64_t *size, td_dtype dtype, td_device device);
TD_API int td_zeros_out(int64_t n_size, const int64_t *size, td_dtype dtype, td_device device,
        td_tensor *out) TD_MUST_USE;
/* A tensor of ones. */
TD_API td_tensor *td_ones(int64_t n_size, const int64_t *size, td_dtype dtype, td_device device);
TD_API int td_ones_out(int64_t n_size, const int64_t *size, td_dtype dtype, td_device device,
        td_tensor *out) TD_MUST_USE;
/* A tensor filled with a number, of that number's dtype by default. */
TD_API td_tensor *td_full(int64_t n_size, const int64_t *size, td_scalar fill_value, td_dtype dtype,
        td_device device);
TD_API int td_full_out(int64_t n_size, const int64_t *size, td_scalar fill_value, td_dtype dtype,
        td_device device, td_tensor *out) TD_MUST_USE;
/* Zeros of self's shape, dtype and device. */
TD_API td_tensor *td_zeros_like_options(td_tensor *self, td_dtype dtype, td_device device,
        td_memory_format memory_format);
/* Ones of self's shape, dtype and device. */
TD_API td_tensor *td_ones_like_options(td_tensor *self, td_dtype dtype, td_device device,
        td_memory_format memory_format);
/* Self's shape, dtype and device, filled with a number. */
TD_API td_tensor *td_full_like(td_tensor *self, td_scalar fill_value, td_dtype dtype, td_device device,
        td_memory_format memory_format);
/* An uninitialised tensor of self's dtype and device. */
TD_API td_tensor *td_new_empty(td_tensor *self, int64_t n_size, const int64_t *size, td_dtype dtype,
        td_device device);
/* An uninitialised tensor of self's dtype and device, with given strides. */
TD_API td_tensor *td_new_empty_strided(td_tensor *self, int64_t n_size, const int64_t *size, int64_t n_stride,
        const int64_t *stride, td_dtype dtype, td_device device);
/* Zeros of self's dtype and device. */
TD_API td_tensor *td_new_zeros(td_tensor *self, int64_t n_size, const int64_t *size, td_dtype dtype,
        td_device device);
/* Ones of self's dtype and device. */
TD_API td_tensor *td_new_ones(td_tensor *self, int64_t n_size, const int64_t *size, td_dtype dtype,
        td_device device);
/* A number repeated, of self's dtype and device. */
TD_API td_tensor *td_new_full(td_tensor *self, int64_t n_size, const int64_t *size, td_scalar fill_value,
        td_dtype dtype, td_device device);
/* 0, 1, 2, ... below end. */
TD_API td_tensor *td_arange(td_scalar end, td_dtype dtype, td_device device);
/* start, start + 1, ... below end. */
TD_API td_tensor *td_arange_start(td_scalar start, td_scalar end, td_dtype dtype, td_device device);
/* start, start + step, ... below end (above it, if step is negative). */
TD_API td_tensor *td_arange_start_step(td_scalar start, td_scalar end, td_scalar step, td_dtype dtype,
        td_device device);
TD_API int td_arange_out(td_scalar end, td_dtype dtype, td_device device, td_tensor *out) TD_MUST_USE;
TD_API int td_arange_start_out(td_scalar start, td_scalar end, td_scalar step, td_dtype dtype, td_device device,
        td_tensor *out) TD_MUST_USE;
/* A copy, in self's order of dimensions, with a gradient back to self. */
TD_API td_tensor *td_clone_format(td_tensor *self, td_memory_format memory_format);
/* Self if it is contiguous, else a contiguous copy. */
TD_API td_tensor *td_contiguous_format(td_tensor *self, td_memory_format memory_format);
TD_API int td_copy_from_(td_tensor *self, td_tensor *src, bool non_blocking) TD_MUST_USE;
/* What copy_ makes of self, in new memory; it lies there as self does. */
TD_API td_tensor *td_copied(td_tensor *self, td_tensor *src, bool non_blocking);
/* self, which a program has just made of its numbers; modes and functionalize see so what no operator made. */
TD_API td_tensor *td_lift_fresh(td_tensor *self);
/* A copy of numbers that a graph holds, so that what is written to it isn't written to the graph's. */
TD_API td_tensor *td_lift_fresh_copy(td_tensor *self);
/* A gradient reduced to the shape and dtype of what was copied. */
TD_API td_tensor *td_copy_backward(td_tensor *grad, int64_t n_shape, const int64_t *shape, td_dtype dtype,
        td_device device);
/* A copy of another dtype or on another device. */
TD_API td_tensor *td__to_copy(td_tensor *self, td_dtype dtype, td_device device, bool non_blocking,
        td_memory_format memory_format);
/* Self as another dtype or on another device; itself if it is so already. */
TD_API td_tensor *td_to_dtype_layout(td_tensor *self, td_dtype dtype, td_device device, bool non_blocking,
        bool copy, td_memory_format memory_format);
/* Self as another dtype on another device. */
TD_API td_tensor *td_to_device(td_tensor *self, td_device device, td_dtype dtype, bool non_blocking, bool copy,
        td_memory_format memory_format);
/* Self as another dtype. */
TD_API td_tensor *td_to_dtype(td_tensor *self, td_dtype dtype, bool non_blocking, bool copy,
        td_memory_format memory_format);
/* Self with other's dtype and device. */
TD_API td_tensor *td_to_other(td_tensor *self, td_tensor *other, bool non_blocking, bool copy,
        td_memory_format memory_format);
TD_API int td_fill_scalar_(td_tensor *self, td_scalar value) TD_MUST_USE;
TD_API int td_fill_tensor_(td_tensor *self, td_tensor *value) TD_MUST_USE;
/* Self's shape filled with a number. */
TD_API td_tensor *td_fill_scalar(td_tensor *self, td_scalar value);
/* Self's shape filled with a 0-dim tensor's element. */
TD_API td_tensor *td_fill_tensor(td_tensor *self, td_tensor *value);
TD_API int td_zero_(td_tensor *self) TD_MUST_USE;
/* What zero_ makes of self, in new memory. */
TD_API td_tensor *td_zeroed(td_tensor *self);
/* A complex tensor from its parts. */
TD_API td_tensor *td_complex_op(td_tensor *real, td_tensor *imag);
TD_API int td_complex_op_out(td_tensor *real, td_tensor *imag, td_tensor *out) TD_MUST_USE;
/* Memory without values, its dimensions in a given order from the outermost stride to the innermost. */
TD_API td_tensor *td_empty_permuted(int64_t n_size, const int64_t *size, int64_t n_physical_layout,
        const int64_t *physical_layout, td_dtype dtype, td_device device);
TD_API int td_empty_permuted_out(int64_t n_size, const int64_t *size, int64_t n_physical_layout,
        const int64_t *physical_layout, td_dtype dtype, td_device device, td_tensor *out) TD_MUST_USE;
TD_API int td_fill_diagonal_(td_tensor *self, td_scalar fill_value, bool wrap) TD_MUST_USE;
/* Zeros that lie in memory as other does, strides, offset and all, behind the first dimensions of self. */
TD_API td_tensor *td__new_zeros_with_same_feature_meta(td_tensor *self, td_tensor *other,
        int64_t self_num_batch_dims);

/* ==== fft ================================================================================================= */

/* The transform of complex numbers. */
TD_API td_tensor *td__fft_c2c(td_tensor *self, int64_t n_dim, const int64_t *dim, int64_t normalization,
        bool forward);
TD_API int td__fft_c2c_out(td_tensor *self, int64_t n_dim, const int64_t *dim, int64_t normalization,
        bool forward, td_tensor *out) TD_MUST_USE;
/* The transform of real numbers, of whose last dimension the first half is kept. */
TD_API td_tensor *td__fft_r2c(td_tensor *self, int64_t n_dim, const int64_t *dim, int64_t normalization,
        bool onesided);
TD_API int td__fft_r2c_out(td_tensor *self, int64_t n_dim, const int64_t *dim, int64_t normalization,
        bool onesided, td_tensor *out) TD_MUST_USE;
/* The real transform of numbers of which half the last dimension is given. */
TD_API td_tensor *td__fft_c2r(td_tensor *self, int64_t n_dim, const int64_t *dim, int64_t normalization,
        int64_t last_dim_size);
TD_API int td__fft_c2r_out(td_tensor *self, int64_t n_dim, const int64_t *dim, int64_t normalization,
        int64_t last_dim_size, td_tensor *out) TD_MUST_USE;
/* The derivative of the transform of real numbers. */
TD_API td_tensor *td_fft_r2c_backward(td_tensor *grad, int64_t n_dim, const int64_t *dim, int64_t normalization,
        bool onesided, int64_t n_shape, const int64_t *shape);
/* The derivative of the transform to real numbers. */
TD_API td_tensor *td_fft_c2r_backward(td_tensor *grad, int64_t n_dim, const int64_t *dim,
        int64_t normalization);
/* The Fourier transform along a dimension. */
TD_API td_tensor *td_fft_fft(td_tensor *self, const int64_t *n, int64_t dim, const char *norm);
TD_API int td_fft_fft_out(td_tensor *self, const int64_t *n, int64_t dim, const char *norm,
        td_tensor *out) TD_MUST_USE;
/* The inverse Fourier transform along a dimension. */
TD_API td_tensor *td_fft_ifft(td_tensor *self, const int64_t *n, int64_t dim, const char *norm);
TD_API int td_fft_ifft_out(td_tensor *self, const int64_t *n, int64_t dim, const char *norm,
        td_tensor *out) TD_MUST_USE;
/* The Fourier transform of real numbers, the first half of it along a dimension. */
TD_API td_tensor *td_fft_rfft(td_tensor *self, const int64_t *n, int64_t dim, const char *norm);
TD_API int td_fft_rfft_out(td_tensor *self, const int64_t *n, int64_t dim, const char *norm,
        td_tensor *out) TD_MUST_USE;
/* The inverse of rfft along a dimension. */
TD_API td_tensor *td_fft_irfft(td_tensor *self, const int64_t *n, int64_t dim, const char *norm);
TD_API int td_fft_irfft_out(td_tensor *self, const int64_t *n, int64_t dim, const char *norm,
        td_tensor *out) TD_MUST_USE;
/* The transform of half a Hermitian signal, which is real along a dimension. */
TD_API td_tensor *td_fft_hfft(td_tensor *self, const int64_t *n, int64_t dim, const char *norm);
TD_API int td_fft_hfft_out(td_tensor *self, const int64_t *n, int64_t dim, const char *norm,
        td_tensor *out) TD_MUST_USE;
/* The inverse of hfft along a dimension. */
TD_API td_tensor *td_fft_ihfft(td_tensor *self, const int64_t *n, int64_t dim, const char *norm);
TD_API int td_fft_ihfft_out(td_tensor *self, const int64_t *n, int64_t dim, const char *norm,
        td_tensor *out) TD_MUST_USE;
/* The Fourier transform over two dimensions. */
TD_API td_tensor *td_fft_fft2(td_tensor *self, int64_t n_s, const int64_t *s, int64_t n_dim, const int64_t *dim,
        const char *norm);
TD_API int td_fft_fft2_out(td_tensor *self, int64_t n_s, const int64_t *s, int64_t n_dim, const int64_t *dim,
        const char *norm, td_tensor *out) TD_MUST_USE;
/* The inverse Fourier transform over two dimensions. */
TD_API td_tensor *td_fft_ifft2(td_tensor *self, int64_t n_s, const int64_t *s, int64_t n_dim, const int64_t *dim,
        const char *norm);
TD_API int td_fft_ifft2_out(td_tensor *self, int64_t n_s, const int64_t *s, int64_t n_dim, const int64_t *dim,
        const char *norm, td_tensor *out) TD_MUST_USE;
/* The Fourier transform of real numbers, the first half of it over two dimensions. */
TD_API td_tensor *td_fft_rfft2(td_tensor *self, int64_t n_s, const int64_t *s, int64_t n_dim, const int64_t *dim,
        const char *norm);
TD_API int td_fft_rfft2_out(td_tensor *self, int64_t n_s, const int64_t *s, int64_t n_dim, const int64_t *dim,
        const char *norm, td_tensor *out) TD_MUST_USE;
/* The inverse of rfft over two dimensions. */
TD_API td_tensor *td_fft_irfft2(td_tensor *self, int64_t n_s, const int64_t *s, int64_t n_dim,
        const int64_t *dim, const char *norm);
TD_API int td_fft_irfft2_out(td_tensor *self, int64_t n_s, const int64_t *s, int64_t n_dim, const int64_t *dim,
        const char *norm, td_tensor *out) TD_MUST_USE;
/* The transform of half a Hermitian signal, which is real over two dimensions. */
TD_API td_tensor *td_fft_hfft2(td_tensor *self, int64_t n_s, const int64_t *s, int64_t n_dim, const int64_t *dim,
        const char *norm);
TD_API int td_fft_hfft2_out(td_tensor *self, int64_t n_s, const int64_t *s, int64_t n_dim, const int64_t *dim,
        const char *norm, td_tensor *out) TD_MUST_USE;
/* The inverse of hfft over two dimensions. */
TD_API td_tensor *td_fft_ihfft2(td_tensor *self, int64_t n_s, const int64_t *s, int64_t n_dim,
        const int64_t *dim, const char *norm);
TD_API int td_fft_ihfft2_out(td_tensor *self, int64_t n_s, const int64_t *s, int64_t n_dim, const int64_t *dim,
        const char *norm, td_tensor *out) TD_MUST_USE;
/* The Fourier transform over several dimensions. */
TD_API td_tensor *td_fft_fftn(td_tensor *self, int64_t n_s, const int64_t *s, int64_t n_dim, const int64_t *dim,
        const char *norm);
TD_API int td_fft_fftn_out(td_tensor *self, int64_t n_s, const int64_t *s, int64_t n_dim, const int64_t *dim,
        const char *norm, td_tensor *out) TD_MUST_USE;
/* The inverse Fourier transform over several dimensions. */
TD_API td_tensor *td_fft_ifftn(td_tensor *self, int64_t n_s, const int64_t *s, int64_t n_dim, const int64_t *dim,
        const char *norm);
TD_API int td_fft_ifftn_out(td_tensor *self, int64_t n_s, const int64_t *s, int64_t n_dim, const int64_t *dim,
        const char *norm, td_tensor *out) TD_MUST_USE;
/* The Fourier transform of real numbers, the first half of it over several dimensions. */
TD_API td_tensor *td_fft_rfftn(td_tensor *self, int64_t n_s, const int64_t *s, int64_t n_dim, const int64_t *dim,
        const char *norm);
TD_API int td_fft_rfftn_out(td_tensor *self, int64_t n_s, const int64_t *s, int64_t n_dim, const int64_t *dim,
        const char *norm, td_tensor *out) TD_MUST_USE;
/* The inverse of rfft over several dimensions. */
TD_API td_tensor *td_fft_irfftn(td_tensor *self, int64_t n_s, const int64_t *s, int64_t n_dim,
        const int64_t *dim, const char *norm);
TD_API int td_fft_irfftn_out(td_tensor *self, int64_t n_s, const int64_t *s, int64_t n_dim, const int64_t *dim,
        const char *norm, td_tensor *out) TD_MUST_USE;
/* The transform of half a Hermitian signal, which is real over several dimensions. */
TD_API td_tensor *td_fft_hfftn(td_tensor *self, int64_t n_s, const int64_t *s, int64_t n_dim, const int64_t *dim,
        const char *norm);
TD_API int td_fft_hfftn_out(td_tensor *self, int64_t n_s, const int64_t *s, int64_t n_dim, const int64_t *dim,
        const char *norm, td_tensor *out) TD_MUST_USE;
/* The inverse of hfft over several dimensions. */
TD_API td_tensor *td_fft_ihfftn(td_tensor *self, int64_t n_s, const int64_t *s, int64_t n_dim,
        const int64_t *dim, const char *norm);
TD_API int td_fft_ihfftn_out(td_tensor *self, int64_t n_s, const int64_t *s, int64_t n_dim, const int64_t *dim,
        const char *norm, td_tensor *out) TD_MUST_USE;
/* The frequencies of the transform of n samples. */
TD_API td_tensor *td_fft_fftfreq(int64_t n, double d, td_dtype dtype, td_device device);
TD_API int td_fft_fftfreq_out(int64_t n, double d, td_dtype dtype, td_device device,
        td_tensor *out) TD_MUST_USE;
/* The frequencies of the first half of the transform of n samples. */
TD_API td_tensor *td_fft_rfftfreq(int64_t n, double d, td_dtype dtype, td_device device);
TD_API int td_fft_rfftfreq_out(int64_t n, double d, td_dtype dtype, td_device device,
        td_tensor *out) TD_MUST_USE;
/* Frequency zero moved to the middle. */
TD_API td_tensor *td_fft_fftshift(td_tensor *self, int64_t n_dim, const int64_t *dim);
/* Frequency zero moved back to the start. */
TD_API td_tensor *td_fft_ifftshift(td_tensor *self, int64_t n_dim, const int64_t *dim);

/* ==== foreach ============================================================================================= */

/* ``abs`` of each tensor. */
TD_API int td__foreach_abs(td_tensor_list *results, int64_t n_self, td_tensor *const *self) TD_MUST_USE;
TD_API int td__foreach_abs_(int64_t n_self, td_tensor *const *self) TD_MUST_USE;
/* ``acos`` of each tensor. */
TD_API int td__foreach_acos(td_tensor_list *results, int64_t n_self, td_tensor *const *self) TD_MUST_USE;
TD_API int td__foreach_acos_(int64_t n_self, td_tensor *const *self) TD_MUST_USE;
/* ``asin`` of each tensor. */
TD_API int td__foreach_asin(td_tensor_list *results, int64_t n_self, td_tensor *const *self) TD_MUST_USE;
TD_API int td__foreach_asin_(int64_t n_self, td_tensor *const *self) TD_MUST_USE;
/* ``atan`` of each tensor. */
TD_API int td__foreach_atan(td_tensor_list *results, int64_t n_self, td_tensor *const *self) TD_MUST_USE;
TD_API int td__foreach_atan_(int64_t n_self, td_tensor *const *self) TD_MUST_USE;
/* ``ceil`` of each tensor. */
TD_API int td__foreach_ceil(td_tensor_list *results, int64_t n_self, td_tensor *const *self) TD_MUST_USE;
TD_API int td__foreach_ceil_(int64_t n_self, td_tensor *const *self) TD_MUST_USE;
/* ``cos`` of each tensor. */
TD_API int td__foreach_cos(td_tensor_list *results, int64_t n_self, td_tensor *const *self) TD_MUST_USE;
TD_API int td__foreach_cos_(int64_t n_self, td_tensor *const *self) TD_MUST_USE;
/* ``cosh`` of each tensor. */
TD_API int td__foreach_cosh(td_tensor_list *results, int64_t n_self, td_tensor *const *self) TD_MUST_USE;
TD_API int td__foreach_cosh_(int64_t n_self, td_tensor *const *self) TD_MUST_USE;
/* ``erf`` of each tensor. */
TD_API int td__foreach_erf(td_tensor_list *results, int64_t n_self, td_tensor *const *self) TD_MUST_USE;
TD_API int td__foreach_erf_(int64_t n_self, td_tensor *const *self) TD_MUST_USE;
/* ``erfc`` of each tensor. */
TD_API int td__foreach_erfc(td_tensor_list *results, int64_t n_self, td_tensor *const *self) TD_MUST_USE;
TD_API int td__foreach_erfc_(int64_t n_self, td_tensor *const *self) TD_MUST_USE;
/* ``exp`` of each tensor. */
TD_API int td__foreach_exp(td_tensor_list *results, int64_t n_self, td_tensor *const *self) TD_MUST_USE;
TD_API int td__foreach_exp_(int64_t n_self, td_tensor *const *self) TD_MUST_USE;
/* ``expm1`` of each tensor. */
TD_API int td__foreach_expm1(td_tensor_list *results, int64_t n_self, td_tensor *const *self) TD_MUST_USE;
TD_API int td__foreach_expm1_(int64_t n_self, td_tensor *const *self) TD_MUST_USE;
/* ``floor`` of each tensor. */
TD_API int td__foreach_floor(td_tensor_list *results, int64_t n_self, td_tensor *const *self) TD_MUST_USE;
TD_API int td__foreach_floor_(int64_t n_self, td_tensor *const *self) TD_MUST_USE;
/* ``frac`` of each tensor. */
TD_API int td__foreach_frac(td_tensor_list *results, int64_t n_self, td_tensor *const *self) TD_MUST_USE;
TD_API int td__foreach_frac_(int64_t n_self, td_tensor *const *self) TD_MUST_USE;
/* ``lgamma`` of each tensor. */
TD_API int td__foreach_lgamma(td_tensor_list *results, int64_t n_self, td_tensor *const *self) TD_MUST_USE;
TD_API int td__foreach_lgamma_(int64_t n_self, td_tensor *const *self) TD_MUST_USE;
/* ``log`` of each tensor. */
TD_API int td__foreach_log(td_tensor_list *results, int64_t n_self, td_tensor *const *self) TD_MUST_USE;
TD_API int td__foreach_log_(int64_t n_self, td_tensor *const *self) TD_MUST_USE;
/* ``log10`` of each tensor. */
TD_API int td__foreach_log10(td_tensor_list *results, int64_t n_self, td_tensor *const *self) TD_MUST_USE;
TD_API int td__foreach_log10_(int64_t n_self, td_tensor *const *self) TD_MUST_USE;
/* ``log1p`` of each tensor. */
TD_API int td__foreach_log1p(td_tensor_list *results, int64_t n_self, td_tensor *const *self) TD_MUST_USE;
TD_API int td__foreach_log1p_(int64_t n_self, td_tensor *const *self) TD_MUST_USE;
/* ``log2`` of each tensor. */
TD_API int td__foreach_log2(td_tensor_list *results, int64_t n_self, td_tensor *const *self) TD_MUST_USE;
TD_API int td__foreach_log2_(int64_t n_self, td_tensor *const *self) TD_MUST_USE;
/* ``neg`` of each tensor. */
TD_API int td__foreach_neg(td_tensor_list *results, int64_t n_self, td_tensor *const *self) TD_MUST_USE;
TD_API int td__foreach_neg_(int64_t n_self, td_tensor *const *self) TD_MUST_USE;
/* ``reciprocal`` of each tensor. */
TD_API int td__foreach_reciprocal(td_tensor_list *results, int64_t n_self, td_tensor *const *self) TD_MUST_USE;
TD_API int td__foreach_reciprocal_(int64_t n_self, td_tensor *const *self) TD_MUST_USE;
/* ``round`` of each tensor. */
TD_API int td__foreach_round(td_tensor_list *results, int64_t n_self, td_tensor *const *self) TD_MUST_USE;
TD_API int td__foreach_round_(int64_t n_self, td_tensor *const *self) TD_MUST_USE;
/* ``rsqrt`` of each tensor. */
TD_API int td__foreach_rsqrt(td_tensor_list *results, int64_t n_self, td_tensor *const *self) TD_MUST_USE;
TD_API int td__foreach_rsqrt_(int64_t n_self, td_tensor *const *self) TD_MUST_USE;
/* ``sigmoid`` of each tensor. */
TD_API int td__foreach_sigmoid(td_tensor_list *results, int64_t n_self, td_tensor *const *self) TD_MUST_USE;
TD_API int td__foreach_sigmoid_(int64_t n_self, td_tensor *const *self) TD_MUST_USE;
/* ``sign`` of each tensor. */
TD_API int td__foreach_sign(td_tensor_list *results, int64_t n_self, td_tensor *const *self) TD_MUST_USE;
TD_API int td__foreach_sign_(int64_t n_self, td_tensor *const *self) TD_MUST_USE;
/* ``sin`` of each tensor. */
TD_API int td__foreach_sin(td_tensor_list *results, int64_t n_self, td_tensor *const *self) TD_MUST_USE;
TD_API int td__foreach_sin_(int64_t n_self, td_tensor *const *self) TD_MUST_USE;
/* ``sinh`` of each tensor. */
TD_API int td__foreach_sinh(td_tensor_list *results, int64_t n_self, td_tensor *const *self) TD_MUST_USE;
TD_API int td__foreach_sinh_(int64_t n_self, td_tensor *const *self) TD_MUST_USE;
/* ``sqrt`` of each tensor. */
TD_API int td__foreach_sqrt(td_tensor_list *results, int64_t n_self, td_tensor *const *self) TD_MUST_USE;
TD_API int td__foreach_sqrt_(int64_t n_self, td_tensor *const *self) TD_MUST_USE;
/* ``tan`` of each tensor. */
TD_API int td__foreach_tan(td_tensor_list *results, int64_t n_self, td_tensor *const *self) TD_MUST_USE;
TD_API int td__foreach_tan_(int64_t n_self, td_tensor *const *self) TD_MUST_USE;
/* ``tanh`` of each tensor. */
TD_API int td__foreach_tanh(td_tensor_list *results, int64_t n_self, td_tensor *const *self) TD_MUST_USE;
TD_API int td__foreach_tanh_(int64_t n_self, td_tensor *const *self) TD_MUST_USE;
/* ``trunc`` of each tensor. */
TD_API int td__foreach_trunc(td_tensor_list *results, int64_t n_self, td_tensor *const *self) TD_MUST_USE;
TD_API int td__foreach_trunc_(int64_t n_self, td_tensor *const *self) TD_MUST_USE;
/* ``mul`` of each tensor and a number. */
TD_API int td__foreach_mul_scalar(td_tensor_list *results, int64_t n_self, td_tensor *const *self,
        td_scalar scalar) TD_MUST_USE;
TD_API int td__foreach_mul_scalar_(int64_t n_self, td_tensor *const *self, td_scalar scalar) TD_MUST_USE;
/* ``div`` of each tensor and a number. */
TD_API int td__foreach_div_scalar(td_tensor_list *results, int64_t n_self, td_tensor *const *self,
        td_scalar scalar) TD_MUST_USE;
TD_API int td__foreach_div_scalar_(int64_t n_self, td_tensor *const *self, td_scalar scalar) TD_MUST_USE;
/* ``sub`` of each tensor and a number. */
TD_API int td__foreach_sub_scalar(td_tensor_list *results, int64_t n_self, td_tensor *const *self,
        td_scalar scalar) TD_MUST_USE;
TD_API int td__foreach_sub_scalar_(int64_t n_self, td_tensor *const *self, td_scalar scalar) TD_MUST_USE;
/* ``add`` of each tensor and a number. */
TD_API int td__foreach_add_scalar(td_tensor_list *results, int64_t n_self, td_tensor *const *self,
        td_scalar scalar) TD_MUST_USE;
TD_API int td__foreach_add_scalar_(int64_t n_self, td_tensor *const *self, td_scalar scalar) TD_MUST_USE;
/* ``clamp_min`` of each tensor and a number. */
TD_API int td__foreach_clamp_min_scalar(td_tensor_list *results, int64_t n_self, td_tensor *const *self,
        td_scalar scalar) TD_MUST_USE;
TD_API int td__foreach_clamp_min_scalar_(int64_t n_self, td_tensor *const *self, td_scalar scalar) TD_MUST_USE;
/* ``clamp_max`` of each tensor and a number. */
TD_API int td__foreach_clamp_max_scalar(td_tensor_list *results, int64_t n_self, td_tensor *const *self,
        td_scalar scalar) TD_MUST_USE;
TD_API int td__foreach_clamp_max_scalar_(int64_t n_self, td_tensor *const *self, td_scalar scalar) TD_MUST_USE;
/* ``mul`` of each tensor and its number. */
TD_API int td__foreach_mul_scalarlist(td_tensor_list *results, int64_t n_self, td_tensor *const *self,
        int64_t n_scalars, const td_scalar *scalars) TD_MUST_USE;
TD_API int td__foreach_mul_scalarlist_(int64_t n_self, td_tensor *const *self, int64_t n_scalars,
        const td_scalar *scalars) TD_MUST_USE;
/* ``div`` of each tensor and its number. */
TD_API int td__foreach_div_scalarlist(td_tensor_list *results, int64_t n_self, td_tensor *const *self,
        int64_t n_scalars, const td_scalar *scalars) TD_MUST_USE;
TD_API int td__foreach_div_scalarlist_(int64_t n_self, td_tensor *const *self, int64_t n_scalars,
        const td_scalar *scalars) TD_MUST_USE;
/* ``sub`` of each tensor and its number. */
TD_API int td__foreach_sub_scalarlist(td_tensor_list *results, int64_t n_self, td_tensor *const *self,
        int64_t n_scalars, const td_scalar *scalars) TD_MUST_USE;
TD_API int td__foreach_sub_scalarlist_(int64_t n_self, td_tensor *const *self, int64_t n_scalars,
        const td_scalar *scalars) TD_MUST_USE;
/* ``add`` of each tensor and its number. */
TD_API int td__foreach_add_scalarlist(td_tensor_list *results, int64_t n_self, td_tensor *const *self,
        int64_t n_scalars, const td_scalar *scalars) TD_MUST_USE;
TD_API int td__foreach_add_scalarlist_(int64_t n_self, td_tensor *const *self, int64_t n_scalars,
        const td_scalar *scalars) TD_MUST_USE;
/* ``clamp_min`` of each tensor and its number. */
TD_API int td__foreach_clamp_min_scalarlist(td_tensor_list *results, int64_t n_self, td_tensor *const *self,
        int64_t n_scalars, const td_scalar *scalars) TD_MUST_USE;
TD_API int td__foreach_clamp_min_scalarlist_(int64_t n_self, td_tensor *const *self, int64_t n_scalars,
        const td_scalar *scalars) TD_MUST_USE;
/* ``clamp_max`` of each tensor and its number. */
TD_API int td__foreach_clamp_max_scalarlist(td_tensor_list *results, int64_t n_self, td_tensor *const *self,
        int64_t n_scalars, const td_scalar *scalars) TD_MUST_USE;
TD_API int td__foreach_clamp_max_scalarlist_(int64_t n_self, td_tensor *const *self, int64_t n_scalars,
        const td_scalar *scalars) TD_MUST_USE;
/* ``mul`` of the pairs of two lists. */
TD_API int td__foreach_mul_list(td_tensor_list *results, int64_t n_self, td_tensor *const *self, int64_t n_other,
        td_tensor *const *other) TD_MUST_USE;
TD_API int td__foreach_mul_list_(int64_t n_self, td_tensor *const *self, int64_t n_other,
        td_tensor *const *other) TD_MUST_USE;
/* ``div`` of the pairs of two lists. */
TD_API int td__foreach_div_list(td_tensor_list *results, int64_t n_self, td_tensor *const *self, int64_t n_other,
        td_tensor *const *other) TD_MUST_USE;
TD_API int td__foreach_div_list_(int64_t n_self, td_tensor *const *self, int64_t n_other,
        td_tensor *const *other) TD_MUST_USE;
/* ``clamp_min`` of the pairs of two lists. */
TD_API int td__foreach_clamp_min_list(td_tensor_list *results, int64_t n_self, td_tensor *const *self,
        int64_t n_other, td_tensor *const *other) TD_MUST_USE;
TD_API int td__foreach_clamp_min_list_(int64_t n_self, td_tensor *const *self, int64_t n_other,
        td_tensor *const *other) TD_MUST_USE;
/* ``clamp_max`` of the pairs of two lists. */
TD_API int td__foreach_clamp_max_list(td_tensor_list *results, int64_t n_self, td_tensor *const *self,
        int64_t n_other, td_tensor *const *other) TD_MUST_USE;
TD_API int td__foreach_clamp_max_list_(int64_t n_self, td_tensor *const *self, int64_t n_other,
        td_tensor *const *other) TD_MUST_USE;
/* ``add`` of the pairs of two lists. */
TD_API int td__foreach_add_list(td_tensor_list *results, int64_t n_self, td_tensor *const *self, int64_t n_other,
        td_tensor *const *other, td_scalar alpha) TD_MUST_USE;
TD_API int td__foreach_add_list_(int64_t n_self, td_tensor *const *self, int64_t n_other,
        td_tensor *const *other, td_scalar alpha) TD_MUST_USE;
/* ``sub`` of the pairs of two lists. */
TD_API int td__foreach_sub_list(td_tensor_list *results, int64_t n_self, td_tensor *const *self, int64_t n_other,
        td_tensor *const *other, td_scalar alpha) TD_MUST_USE;
TD_API int td__foreach_sub_list_(int64_t n_self, td_tensor *const *self, int64_t n_other,
        td_tensor *const *other, td_scalar alpha) TD_MUST_USE;
/* A number, in a tensor, added to each tensor. */
TD_API int td__foreach_add_tensor(td_tensor_list *results, int64_t n_self, td_tensor *const *self,
        td_tensor *other, td_scalar alpha) TD_MUST_USE;
TD_API int td__foreach_add_tensor_(int64_t n_self, td_tensor *const *self, td_tensor *other,
        td_scalar alpha) TD_MUST_USE;
/* ``mul`` of each tensor and a number that is in a tensor. */
TD_API int td__foreach_mul_tensor(td_tensor_list *results, int64_t n_self, td_tensor *const *self,
        td_tensor *other) TD_MUST_USE;
TD_API int td__foreach_mul_tensor_(int64_t n_self, td_tensor *const *self, td_tensor *other) TD_MUST_USE;
/* ``div`` of each tensor and a number that is in a tensor. */
TD_API int td__foreach_div_tensor(td_tensor_list *results, int64_t n_self, td_tensor *const *self,
        td_tensor *other) TD_MUST_USE;
TD_API int td__foreach_div_tensor_(int64_t n_self, td_tensor *const *self, td_tensor *other) TD_MUST_USE;
/* The maximum of each tensor and a number. */
TD_API int td__foreach_maximum_scalar(td_tensor_list *results, int64_t n_self, td_tensor *const *self,
        td_scalar scalar) TD_MUST_USE;
TD_API int td__foreach_maximum_scalar_(int64_t n_self, td_tensor *const *self, td_scalar scalar) TD_MUST_USE;
/* The minimum of each tensor and a number. */
TD_API int td__foreach_minimum_scalar(td_tensor_list *results, int64_t n_self, td_tensor *const *self,
        td_scalar scalar) TD_MUST_USE;
TD_API int td__foreach_minimum_scalar_(int64_t n_self, td_tensor *const *self, td_scalar scalar) TD_MUST_USE;
/* The maximum of each tensor and its number. */
TD_API int td__foreach_maximum_scalarlist(td_tensor_list *results, int64_t n_self, td_tensor *const *self,
        int64_t n_scalars, const td_scalar *scalars) TD_MUST_USE;
TD_API int td__foreach_maximum_scalarlist_(int64_t n_self, td_tensor *const *self, int64_t n_scalars,
        const td_scalar *scalars) TD_MUST_USE;
/* The minimum of each tensor and its number. */
TD_API int td__foreach_minimum_scalarlist(td_tensor_list *results, int64_t n_self, td_tensor *const *self,
        int64_t n_scalars, const td_scalar *scalars) TD_MUST_USE;
TD_API int td__foreach_minimum_scalarlist_(int64_t n_self, td_tensor *const *self, int64_t n_scalars,
        const td_scalar *scalars) TD_MUST_USE;
/* The maximum of the pairs of two lists. */
TD_API int td__foreach_maximum_list(td_tensor_list *results, int64_t n_self, td_tensor *const *self,
        int64_t n_other, td_tensor *const *other) TD_MUST_USE;
TD_API int td__foreach_maximum_list_(int64_t n_self, td_tensor *const *self, int64_t n_other,
        td_tensor *const *other) TD_MUST_USE;
/* The minimum of the pairs of two lists. */
TD_API int td__foreach_minimum_list(td_tensor_list *results, int64_t n_self, td_tensor *const *self,
        int64_t n_other, td_tensor *const *other) TD_MUST_USE;
TD_API int td__foreach_minimum_list_(int64_t n_self, td_tensor *const *self, int64_t n_other,
        td_tensor *const *other) TD_MUST_USE;
/* The powers of the pairs of two lists. */
TD_API int td__foreach_pow_list(td_tensor_list *results, int64_t n_self, td_tensor *const *self,
        int64_t n_exponent, td_tensor *const *exponent) TD_MUST_USE;
TD_API int td__foreach_pow_list_(int64_t n_self, td_tensor *const *self, int64_t n_exponent,
        td_tensor *const *exponent) TD_MUST_USE;
/* A power of each tensor. */
TD_API int td__foreach_pow_scalar(td_tensor_list *results, int64_t n_self, td_tensor *const *self,
        td_scalar exponent) TD_MUST_USE;
TD_API int td__foreach_pow_scalar_(int64_t n_self, td_tensor *const *self, td_scalar exponent) TD_MUST_USE;
/* A power of each tensor, with its exponent. */
TD_API int td__foreach_pow_scalarlist(td_tensor_list *results, int64_t n_self, td_tensor *const *self,
        int64_t n_exponent, const td_scalar *exponent) TD_MUST_USE;
TD_API int td__foreach_pow_scalarlist_(int64_t n_self, td_tensor *const *self, int64_t n_exponent,
        const td_scalar *exponent) TD_MUST_USE;
/* A number to the power of each tensor. */
TD_API int td__foreach_pow_scalarandtensor(td_tensor_list *results, td_scalar self, int64_t n_exponent,
        td_tensor *const *exponent) TD_MUST_USE;
/* ``addcdiv`` of the triples of three lists. */
TD_API int td__foreach_addcdiv_scalar(td_tensor_list *results, int64_t n_self, td_tensor *const *self,
        int64_t n_tensor1, td_tensor *const *tensor1, int64_t n_tensor2, td_tensor *const *tensor2,
        td_scalar value) TD_MUST_USE;
TD_API int td__foreach_addcdiv_scalar_(int64_t n_self, td_tensor *const *self, int64_t n_tensor1,
        td_tensor *const *tensor1, int64_t n_tensor2, td_tensor *const *tensor2, td_scalar value) TD_MUST_USE;
/* ``addcmul`` of the triples of three lists. */
TD_API int td__foreach_addcmul_scalar(td_tensor_list *results, int64_t n_self, td_tensor *const *self,
        int64_t n_tensor1, td_tensor *const *tensor1, int64_t n_tensor2, td_tensor *const *tensor2,
        td_scalar value) TD_MUST_USE;
TD_API int td__foreach_addcmul_scalar_(int64_t n_self, td_tensor *const *self, int64_t n_tensor1,
        td_tensor *const *tensor1, int64_t n_tensor2, td_tensor *const *tensor2, td_scalar value) TD_MUST_USE;
/* ``addcdiv`` of the triples of three lists, each with its number. */
TD_API int td__foreach_addcdiv_scalarlist(td_tensor_list *results, int64_t n_self, td_tensor *const *self,
        int64_t n_tensor1, td_tensor *const *tensor1, int64_t n_tensor2, td_tensor *const *tensor2,
        int64_t n_scalars, const td_scalar *scalars) TD_MUST_USE;
TD_API int td__foreach_addcdiv_scalarlist_(int64_t n_self, td_tensor *const *self, int64_t n_tensor1,
        td_tensor *const *tensor1, int64_t n_tensor2, td_tensor *const *tensor2, int64_t n_scalars,
        const td_scalar *scalars) TD_MUST_USE;
/* ``addcmul`` of the triples of three lists, each with its number. */
TD_API int td__foreach_addcmul_scalarlist(td_tensor_list *results, int64_t n_self, td_tensor *const *self,
        int64_t n_tensor1, td_tensor *const *tensor1, int64_t n_tensor2, td_tensor *const *tensor2,
        int64_t n_scalars, const td_scalar *scalars) TD_MUST_USE;
TD_API int td__foreach_addcmul_scalarlist_(int64_t n_self, td_tensor *const *self, int64_t n_tensor1,
        td_tensor *const *tensor1, int64_t n_tensor2, td_tensor *const *tensor2, int64_t n_scalars,
        const td_scalar *scalars) TD_MUST_USE;
/* ``addcdiv`` of the triples of three lists, each with its number; the numbers are in a vector. */
TD_API int td__foreach_addcdiv_tensor(td_tensor_list *results, int64_t n_self, td_tensor *const *self,
        int64_t n_tensor1, td_tensor *const *tensor1, int64_t n_tensor2, td_tensor *const *tensor2,
        td_tensor *scalars) TD_MUST_USE;
/* ``addcmul`` of the triples of three lists, each with its number; the numbers are in a vector. */
TD_API int td__foreach_addcmul_tensor(td_tensor_list *results, int64_t n_self, td_tensor *const *self,
        int64_t n_tensor1, td_tensor *const *tensor1, int64_t n_tensor2, td_tensor *const *tensor2,
        td_tensor *scalars) TD_MUST_USE;
TD_API int td__foreach_addcdiv_tensor_(int64_t n_self, td_tensor *const *self, int64_t n_tensor1,
        td_tensor *const *tensor1, int64_t n_tensor2, td_tensor *const *tensor2,
        td_tensor *scalars) TD_MUST_USE;
TD_API int td__foreach_addcmul_tensor_(int64_t n_self, td_tensor *const *self, int64_t n_tensor1,
        td_tensor *const *tensor1, int64_t n_tensor2, td_tensor *const *tensor2,
        td_tensor *scalars) TD_MUST_USE;
/* From each tensor towards another one, by weights. */
TD_API int td__foreach_lerp_list(td_tensor_list *results, int64_t n_self, td_tensor *const *self,
        int64_t n_tensors1, td_tensor *const *tensors1, int64_t n_weights,
        td_tensor *const *weights) TD_MUST_USE;
TD_API int td__foreach_lerp_list_(int64_t n_self, td_tensor *const *self, int64_t n_tensors1,
        td_tensor *const *tensors1, int64_t n_weights, td_tensor *const *weights) TD_MUST_USE;
/* From each tensor towards another one, by one weight. */
TD_API int td__foreach_lerp_scalar(td_tensor_list *results, int64_t n_self, td_tensor *const *self,
        int64_t n_tensors1, td_tensor *const *tensors1, td_scalar weight) TD_MUST_USE;
TD_API int td__foreach_lerp_scalar_(int64_t n_self, td_tensor *const *self, int64_t n_tensors1,
        td_tensor *const *tensors1, td_scalar weight) TD_MUST_USE;
/* From each tensor towards another one, by its weight. */
TD_API int td__foreach_lerp_scalarlist(td_tensor_list *results, int64_t n_self, td_tensor *const *self,
        int64_t n_tensors1, td_tensor *const *tensors1, int64_t n_weight, const td_scalar *weight) TD_MUST_USE;
TD_API int td__foreach_lerp_scalarlist_(int64_t n_self, td_tensor *const *self, int64_t n_tensors1,
        td_tensor *const *tensors1, int64_t n_weight, const td_scalar *weight) TD_MUST_USE;
/* The largest element of each tensor. */
TD_API int td__foreach_max(td_tensor_list *results, int64_t n_self, td_tensor *const *self) TD_MUST_USE;
/* The norm of each tensor. */
TD_API int td__foreach_norm_scalar(td_tensor_list *results, int64_t n_self, td_tensor *const *self,
        td_scalar ord, td_dtype dtype) TD_MUST_USE;
/* The sum of each tensor's absolute values to a power. */
TD_API int td__foreach_powsum_scalar(td_tensor_list *results, int64_t n_self, td_tensor *const *self,
        td_scalar ord, td_dtype dtype) TD_MUST_USE;
/* The products of the pairs of two lists of matrices. */
TD_API int td__foreach_mm(td_tensor_list *results, int64_t n_self, td_tensor *const *self, int64_t n_mat2,
        td_tensor *const *mat2) TD_MUST_USE;
/* A copy of each tensor. */
TD_API int td__foreach_clone(td_tensor_list *results, int64_t n_self, td_tensor *const *self,
        td_memory_format memory_format) TD_MUST_USE;
TD_API int td__foreach_copy_(int64_t n_self, td_tensor *const *self, int64_t n_src, td_tensor *const *src,
        bool non_blocking) TD_MUST_USE;
TD_API int td__foreach_zero_(int64_t n_self, td_tensor *const *self) TD_MUST_USE;

/* ==== index =============================================================================================== */

/* Positions along a dimension, by an index vector. */
TD_API td_tensor *td_index_select(td_tensor *self, int64_t dim, td_tensor *index);
TD_API int td_index_select_out(td_tensor *self, int64_t dim, td_tensor *index, td_tensor *out) TD_MUST_USE;
/* ``out[i][j] = self[index[i][j]][j]`` (dim 0), and so on. */
TD_API td_tensor *td_gather(td_tensor *self, int64_t dim, td_tensor *index, bool sparse_grad);
/* The gradient of gather as a sparse tensor, an element per index. */
TD_API td_tensor *td_gather_sparse_grad(td_tensor *grad, int64_t dim, td_tensor *index, int64_t n_shape,
        const int64_t *shape);
TD_API int td_gather_out(td_tensor *self, int64_t dim, td_tensor *index, bool sparse_grad,
        td_tensor *out) TD_MUST_USE;
/* ``self[index[i][j]][j] = src[i][j]`` (dim 0), and so on. */
TD_API td_tensor *td_scatter_src(td_tensor *self, int64_t dim, td_tensor *index, td_tensor *src);
TD_API int td_scatter_src_out(td_tensor *self, int64_t dim, td_tensor *index, td_tensor *src,
        td_tensor *out) TD_MUST_USE;
TD_API int td_scatter_src_(td_tensor *self, int64_t dim, td_tensor *index, td_tensor *src) TD_MUST_USE;
/* What src sees of a gradient; zeros beyond the index. */
TD_API td_tensor *td_scatter_src_backward(td_tensor *grad, int64_t dim, td_tensor *index, int64_t n_shape,
        const int64_t *shape);
/* A number placed by index. */
TD_API td_tensor *td_scatter_value(td_tensor *self, int64_t dim, td_tensor *index, td_scalar value);
TD_API int td_scatter_value_out(td_tensor *self, int64_t dim, td_tensor *index, td_scalar value,
        td_tensor *out) TD_MUST_USE;
TD_API int td_scatter_value_(td_tensor *self, int64_t dim, td_tensor *index, td_scalar value) TD_MUST_USE;
/* Elements added or multiplied into positions that indices give: reduce is 'add' or 'multiply'. */
TD_API td_tensor *td_scatter_reduce(td_tensor *self, int64_t dim, td_tensor *index, td_tensor *src,
        const char *reduce);
TD_API int td_scatter_reduce_out(td_tensor *self, int64_t dim, td_tensor *index, td_tensor *src,
        const char *reduce, td_tensor *out) TD_MUST_USE;
TD_API int td_scatter_reduce_(td_tensor *self, int64_t dim, td_tensor *index, td_tensor *src,
        const char *reduce) TD_MUST_USE;
/* A number added or multiplied into positions that indices give: reduce is 'add' or 'multiply'. */
TD_API td_tensor *td_scatter_value_reduce(td_tensor *self, int64_t dim, td_tensor *index, td_scalar value,
        const char *reduce);
TD_API int td_scatter_value_reduce_out(td_tensor *self, int64_t dim, td_tensor *index, td_scalar value,
        const char *reduce, td_tensor *out) TD_MUST_USE;
TD_API int td_scatter_value_reduce_(td_tensor *self, int64_t dim, td_tensor *index, td_scalar value,
        const char *reduce) TD_MUST_USE;
/* ``self[index[i][j]][j] += src[i][j]`` (dim 0), and so on. */
TD_API td_tensor *td_scatter_add(td_tensor *self, int64_t dim, td_tensor *index, td_tensor *src);
TD_API int td_scatter_add_out(td_tensor *self, int64_t dim, td_tensor *index, td_tensor *src,
        td_tensor *out) TD_MUST_USE;
TD_API int td_scatter_add_(td_tensor *self, int64_t dim, td_tensor *index, td_tensor *src) TD_MUST_USE;
/* Elements reduced into positions that indices give: sum, prod, mean, amax or amin. */
TD_API td_tensor *td_scatter_reduce_two(td_tensor *self, int64_t dim, td_tensor *index, td_tensor *src,
        const char *reduce, bool include_self);
TD_API int td_scatter_reduce_two_out(td_tensor *self, int64_t dim, td_tensor *index, td_tensor *src,
        const char *reduce, bool include_self, td_tensor *out) TD_MUST_USE;
TD_API int td_scatter_reduce_two_(td_tensor *self, int64_t dim, td_tensor *index, td_tensor *src,
        const char *reduce, bool include_self) TD_MUST_USE;
/* The gradients of scatter_reduce. */
TD_API int td_scatter_reduce_backward(td_tensor **results, td_tensor *grad, td_tensor *self, int64_t dim,
        td_tensor *index, td_tensor *src, const char *reduce, bool include_self, td_tensor *result) TD_MUST_USE;
/* Slices added at positions along a dimension. */
TD_API td_tensor *td_index_add(td_tensor *self, int64_t dim, td_tensor *index, td_tensor *source,
        td_scalar alpha);
TD_API int td_index_add_out(td_tensor *self, int64_t dim, td_tensor *index, td_tensor *source, td_scalar alpha,
        td_tensor *out) TD_MUST_USE;
TD_API int td_index_add_(td_tensor *self, int64_t dim, td_tensor *index, td_tensor *source,
        td_scalar alpha) TD_MUST_USE;
/* What a source sees of a gradient. */
TD_API td_tensor *td_index_source_backward(td_tensor *grad, int64_t dim, td_tensor *index, int64_t n_shape,
        const int64_t *shape);
/* Slices copied to positions along a dimension. */
TD_API td_tensor *td_index_copy(td_tensor *self, int64_t dim, td_tensor *index, td_tensor *source);
TD_API int td_index_copy_out(td_tensor *self, int64_t dim, td_tensor *index, td_tensor *source,
        td_tensor *out) TD_MUST_USE;
TD_API int td_index_copy_(td_tensor *self, int64_t dim, td_tensor *index, td_tensor *source) TD_MUST_USE;
/* A number at positions along a dimension. */
TD_API td_tensor *td_index_fill_int_scalar(td_tensor *self, int64_t dim, td_tensor *index, td_scalar value);
TD_API int td_index_fill_int_scalar_out(td_tensor *self, int64_t dim, td_tensor *index, td_scalar value,
        td_tensor *out) TD_MUST_USE;
TD_API int td_index_fill_int_scalar_(td_tensor *self, int64_t dim, td_tensor *index,
        td_scalar value) TD_MUST_USE;
/* A 0-dim tensor's element at positions along a dimension. */
TD_API td_tensor *td_index_fill_int_tensor(td_tensor *self, int64_t dim, td_tensor *index, td_tensor *value);
TD_API int td_index_fill_int_tensor_out(td_tensor *self, int64_t dim, td_tensor *index, td_tensor *value,
        td_tensor *out) TD_MUST_USE;
TD_API int td_index_fill_int_tensor_(td_tensor *self, int64_t dim, td_tensor *index,
        td_tensor *value) TD_MUST_USE;
/* Slices reduced into positions along a dimension: prod, mean, amax or amin. */
TD_API td_tensor *td_index_reduce(td_tensor *self, int64_t dim, td_tensor *index, td_tensor *source,
        const char *reduce, bool include_self);
TD_API int td_index_reduce_out(td_tensor *self, int64_t dim, td_tensor *index, td_tensor *source,
        const char *reduce, bool include_self, td_tensor *out) TD_MUST_USE;
TD_API int td_index_reduce_(td_tensor *self, int64_t dim, td_tensor *index, td_tensor *source,
        const char *reduce, bool include_self) TD_MUST_USE;
/* The gradients of index_reduce. */
TD_API int td_index_reduce_backward(td_tensor **results, td_tensor *grad, td_tensor *self, int64_t dim,
        td_tensor *index, td_tensor *source, const char *reduce, bool include_self,
        td_tensor *result) TD_MUST_USE;
/* self, which has no derivative where several zeros were multiplied. */
TD_API td_tensor *td_scatter_reduce_once(td_tensor *self, td_tensor *zeros);
/* self, which has no derivative where several zeros were multiplied. */
TD_API td_tensor *td_index_reduce_once(td_tensor *self, td_tensor *zeros);
/* grad, unless more than one zero went to an element, where the second derivatives of its product are not computed. */
TD_API td_tensor *td_product_of_zeros(td_tensor *grad, td_tensor *zeros, const char *name, const char *values);
/* Elements by index tensors and masks, which are broadcast together. */
TD_API td_tensor *td_index_tensor(td_tensor *self, int64_t n_indices, td_tensor *const *indices);
TD_API int td_index_tensor_out(td_tensor *self, int64_t n_indices, td_tensor *const *indices,
        td_tensor *out) TD_MUST_USE;
/* Values placed by index tensors and masks. */
TD_API td_tensor *td_index_put(td_tensor *self, int64_t n_indices, td_tensor *const *indices, td_tensor *values,
        bool accumulate);
TD_API int td_index_put_out(td_tensor *self, int64_t n_indices, td_tensor *const *indices, td_tensor *values,
        bool accumulate, td_tensor *out) TD_MUST_USE;
TD_API int td_index_put_(td_tensor *self, int64_t n_indices, td_tensor *const *indices, td_tensor *values,
        bool accumulate) TD_MUST_USE;
TD_API int td__index_put_impl_(td_tensor *self, int64_t n_indices, td_tensor *const *indices, td_tensor *values,
        bool accumulate, bool unsafe) TD_MUST_USE;
/* Elements by their number in order. */
TD_API td_tensor *td_take(td_tensor *self, td_tensor *index);
TD_API int td_take_out(td_tensor *self, td_tensor *index, td_tensor *out) TD_MUST_USE;
/* Elements placed by number in order. */
TD_API td_tensor *td_put(td_tensor *self, td_tensor *index, td_tensor *source, bool accumulate);
TD_API int td_put_out(td_tensor *self, td_tensor *index, td_tensor *source, bool accumulate,
        td_tensor *out) TD_MUST_USE;
TD_API int td_put_(td_tensor *self, td_tensor *index, td_tensor *source, bool accumulate) TD_MUST_USE;
/* gather with broadcasting; without a dimension, of the elements in order. */
TD_API td_tensor *td_take_along_dim(td_tensor *self, td_tensor *indices, const int64_t *dim);
TD_API int td_take_along_dim_out(td_tensor *self, td_tensor *indices, const int64_t *dim,
        td_tensor *out) TD_MUST_USE;
/* self, with a number where the mask holds. */
TD_API td_tensor *td_masked_fill_scalar(td_tensor *self, td_tensor *mask, td_scalar value);
TD_API int td_masked_fill_scalar_(td_tensor *self, td_tensor *mask, td_scalar value) TD_MUST_USE;
TD_API int td_masked_fill_scalar_out(td_tensor *self, td_tensor *mask, td_scalar value,
        td_tensor *out) TD_MUST_USE;
/* masked_fill with a tensor's elements. */
TD_API td_tensor *td_masked_fill_with(td_tensor *self, td_tensor *mask, td_tensor *value);
TD_API int td_masked_fill_with_(td_tensor *self, td_tensor *mask, td_tensor *value) TD_MUST_USE;
/* self, with a 0-dim tensor's element where the mask holds. */
TD_API td_tensor *td_masked_fill_tensor(td_tensor *self, td_tensor *mask, td_tensor *value);
TD_API int td_masked_fill_out(td_tensor *self, td_tensor *mask, td_tensor *value, td_tensor *out) TD_MUST_USE;
TD_API int td_masked_fill_tensor_(td_tensor *self, td_tensor *mask, td_tensor *value) TD_MUST_USE;
/* The elements where a mask holds. */
TD_API td_tensor *td_masked_select(td_tensor *self, td_tensor *mask);
TD_API int td_masked_select_out(td_tensor *self, td_tensor *mask, td_tensor *out) TD_MUST_USE;
/* Gradients back where the mask held. */
TD_API td_tensor *td_masked_select_backward(td_tensor *grad, int64_t n_shape, const int64_t *shape,
        td_tensor *mask);
/* A source's elements, in order, where a mask holds. */
TD_API td_tensor *td_masked_scatter(td_tensor *self, td_tensor *mask, td_tensor *source);
TD_API int td_masked_scatter_out(td_tensor *self, td_tensor *mask, td_tensor *source,
        td_tensor *out) TD_MUST_USE;
TD_API int td_masked_scatter_(td_tensor *self, td_tensor *mask, td_tensor *source) TD_MUST_USE;
/* Gradients of the elements that were placed. */
TD_API td_tensor *td_masked_scatter_backward(td_tensor *grad, td_tensor *mask, int64_t n_shape,
        const int64_t *shape);
/* The coordinates of the elements that aren't 0, a row each. */
TD_API td_tensor *td_nonzero(td_tensor *self);
TD_API int td_nonzero_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* The first coordinates of what isn't 0, filled up to a given number. */
TD_API td_tensor *td_nonzero_static(td_tensor *self, int64_t size, int64_t fill_value);
TD_API int td_nonzero_static_out(td_tensor *self, int64_t size, int64_t fill_value, td_tensor *out) TD_MUST_USE;
/* The coordinates of what isn't 0, a tensor per dimension. */
TD_API int td_nonzero_numpy(td_tensor_list *results, td_tensor *self) TD_MUST_USE;
/* The coordinates of the elements that aren't 0, a row each. */
TD_API td_tensor *td_argwhere(td_tensor *self);
/* The coordinates where a condition holds, a tensor per dimension. */
TD_API int td_where_condition(td_tensor_list *results, td_tensor *condition) TD_MUST_USE;
/* Matrices with zeros above a diagonal. */
TD_API td_tensor *td_tril(td_tensor *self, int64_t diagonal);
TD_API int td_tril_out(td_tensor *self, int64_t diagonal, td_tensor *out) TD_MUST_USE;
TD_API int td_tril_(td_tensor *self, int64_t diagonal) TD_MUST_USE;
/* Matrices with zeros below a diagonal. */
TD_API td_tensor *td_triu(td_tensor *self, int64_t diagonal);
TD_API int td_triu_out(td_tensor *self, int64_t diagonal, td_tensor *out) TD_MUST_USE;
TD_API int td_triu_(td_tensor *self, int64_t diagonal) TD_MUST_USE;
/* The coordinates of a lower triangle. */
TD_API td_tensor *td_tril_indices(int64_t row, int64_t col, int64_t offset, td_dtype dtype, td_device device);
/* The coordinates of an upper triangle. */
TD_API td_tensor *td_triu_indices(int64_t row, int64_t col, int64_t offset, td_dtype dtype, td_device device);
/* Elements by index tensors. */
TD_API td_tensor *td__unsafe_index_tensor(td_tensor *self, int64_t n_indices, td_tensor *const *indices);
/* Values placed by index tensors. */
TD_API td_tensor *td__unsafe_index_put(td_tensor *self, int64_t n_indices, td_tensor *const *indices,
        td_tensor *values, bool accumulate);
/* Elements by index tensors where a mask is true, a number elsewhere. */
TD_API td_tensor *td__unsafe_masked_index(td_tensor *self, td_tensor *mask, int64_t n_indices,
        td_tensor *const *indices, td_scalar fill);
/* Values added at index tensors where a mask is true. */
TD_API td_tensor *td__unsafe_masked_index_put_accumulate(td_tensor *self, td_tensor *mask, int64_t n_indices,
        td_tensor *const *indices, td_tensor *values);

/* ==== linalg ============================================================================================== */

/* Raises what the function of that name does where a number that a factorization gave says that it failed. */
TD_API int td__linalg_check_errors(td_tensor *info, const char *api_name, bool is_matrix) TD_MUST_USE;
/* The Cholesky factor, and per matrix the order of the first minor that isn't positive, or 0. */
TD_API int td_linalg_cholesky_ex(td_tensor **results, td_tensor *self, bool upper,
        bool check_errors) TD_MUST_USE;
TD_API int td_linalg_cholesky_ex_out(td_tensor *self, bool upper, bool check_errors, td_tensor *L,
        td_tensor *info) TD_MUST_USE;
/* The triangular L with ``L @ L.mH`` equal to the matrix. */
TD_API td_tensor *td_linalg_cholesky(td_tensor *self, bool upper);
TD_API int td_linalg_cholesky_out(td_tensor *self, bool upper, td_tensor *out) TD_MUST_USE;
/* The older name of linalg.cholesky. */
TD_API td_tensor *td_cholesky(td_tensor *self, bool upper);
TD_API int td_cholesky_out(td_tensor *self, bool upper, td_tensor *out) TD_MUST_USE;
/* The derivative of the Cholesky factor. */
TD_API td_tensor *td_cholesky_backward(td_tensor *grad, td_tensor *L, bool upper);
/* Solves with a Cholesky factor. */
TD_API td_tensor *td_cholesky_solve_helper(td_tensor *self, td_tensor *A, bool upper);
/* Solves a system whose Cholesky factor is given. */
TD_API td_tensor *td_cholesky_solve(td_tensor *self, td_tensor *input2, bool upper);
TD_API int td_cholesky_solve_out(td_tensor *self, td_tensor *input2, bool upper, td_tensor *out) TD_MUST_USE;
/* The gradients of cholesky_solve. */
TD_API int td_cholesky_solve_backward(td_tensor **results, td_tensor *grad, td_tensor *self, td_tensor *input2,
        td_tensor *result, bool upper) TD_MUST_USE;
/* The inverse of the matrix whose Cholesky factor is given. */
TD_API td_tensor *td_cholesky_inverse(td_tensor *self, bool upper);
TD_API int td_cholesky_inverse_out(td_tensor *self, bool upper, td_tensor *out) TD_MUST_USE;
/* The LU factors in one matrix, and the rows exchanged. */
TD_API int td_linalg_lu_factor_ex(td_tensor **results, td_tensor *A, bool pivot, bool check_errors) TD_MUST_USE;
TD_API int td_linalg_lu_factor_ex_out(td_tensor *A, bool pivot, bool check_errors, td_tensor *LU,
        td_tensor *pivots, td_tensor *info) TD_MUST_USE;
/* The derivative of the LU factors. */
TD_API td_tensor *td_lu_factor_backward(td_tensor *grad, td_tensor *LU, td_tensor *pivots);
/* The LU factors in one matrix, and the rows exchanged; an error for singular matrices. */
TD_API int td_linalg_lu_factor(td_tensor **results, td_tensor *A, bool pivot) TD_MUST_USE;
TD_API int td_linalg_lu_factor_out(td_tensor *A, bool pivot, td_tensor *LU, td_tensor *pivots) TD_MUST_USE;
/* Permutation, lower and upper triangle from lu_factor's results. */
TD_API int td_lu_unpack(td_tensor **results, td_tensor *LU_data, td_tensor *LU_pivots, bool unpack_data,
        bool unpack_pivots) TD_MUST_USE;
TD_API int td_lu_unpack_out(td_tensor *LU_data, td_tensor *LU_pivots, bool unpack_data, bool unpack_pivots,
        td_tensor *P, td_tensor *L, td_tensor *U) TD_MUST_USE;
/* Exchanges of rows as a list of rows. */
TD_API td_tensor *td_pivots_to_permutation(td_tensor *pivots, int64_t n);
/* Permutation, lower and upper triangle whose product is the matrix. */
TD_API int td_linalg_lu(td_tensor **results, td_tensor *A, bool pivot) TD_MUST_USE;
TD_API int td_linalg_lu_out(td_tensor *A, bool pivot, td_tensor *P, td_tensor *L, td_tensor *U) TD_MUST_USE;
/* Solves a system whose LU factors are given. */
TD_API td_tensor *td_linalg_lu_solve(td_tensor *LU, td_tensor *pivots, td_tensor *B, bool left, bool adjoint);
TD_API int td_linalg_lu_solve_out(td_tensor *LU, td_tensor *pivots, td_tensor *B, bool left, bool adjoint,
        td_tensor *out) TD_MUST_USE;
/* The derivative of lu_solve by the factors. */
TD_API td_tensor *td_lu_solve_backward(td_tensor *grad, td_tensor *X, td_tensor *LU, td_tensor *pivots,
        bool left, bool adjoint);
/* Solves a system whose LU factors are given. */
TD_API td_tensor *td_lu_solve(td_tensor *self, td_tensor *LU_data, td_tensor *LU_pivots);
TD_API int td_lu_solve_out(td_tensor *self, td_tensor *LU_data, td_tensor *LU_pivots,
        td_tensor *out) TD_MUST_USE;
/* The X with ``A @ X = B``, and per matrix whether it was singular. */
TD_API int td_linalg_solve_ex(td_tensor **results, td_tensor *A, td_tensor *B, bool left,
        bool check_errors) TD_MUST_USE;
TD_API int td_linalg_solve_ex_out(td_tensor *A, td_tensor *B, bool left, bool check_errors, td_tensor *result,
        td_tensor *info) TD_MUST_USE;
/* The derivative of solve. */
TD_API int td_linalg_solve_backward(td_tensor **results, td_tensor *grad, td_tensor *X, td_tensor *A,
        int64_t n_B_shape, const int64_t *B_shape, bool left, int64_t n_wants, const bool *wants) TD_MUST_USE;
/* The X with ``A @ X = B``; an error for singular matrices. */
TD_API td_tensor *td_linalg_solve(td_tensor *A, td_tensor *B, bool left);
TD_API int td_linalg_solve_out(td_tensor *A, td_tensor *B, bool left, td_tensor *out) TD_MUST_USE;
/* The inverse, and per matrix whether it is singular. */
TD_API int td_linalg_inv_ex(td_tensor **results, td_tensor *A, bool check_errors) TD_MUST_USE;
TD_API int td_linalg_inv_ex_out(td_tensor *A, bool check_errors, td_tensor *inverse,
        td_tensor *info) TD_MUST_USE;
/* The derivative of the inverse. */
TD_API td_tensor *td_linalg_inv_backward(td_tensor *grad, td_tensor *inverse);
/* The inverse; an error for singular matrices. */
TD_API td_tensor *td_linalg_inv(td_tensor *A);
TD_API int td_linalg_inv_out(td_tensor *A, td_tensor *out) TD_MUST_USE;
/* The inverse; an error for singular matrices. */
TD_API td_tensor *td_inverse(td_tensor *self);
TD_API int td_inverse_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* Solves a triangular system. */
TD_API td_tensor *td_linalg_solve_triangular(td_tensor *self, td_tensor *B, bool upper, bool left,
        bool unitriangular);
TD_API int td_linalg_solve_triangular_out(td_tensor *self, td_tensor *B, bool upper, bool left,
        bool unitriangular, td_tensor *out) TD_MUST_USE;
/* The derivative of solve_triangular. */
TD_API int td_solve_triangular_backward(td_tensor **results, td_tensor *grad, td_tensor *X, td_tensor *A,
        int64_t n_B_shape, const int64_t *B_shape, bool upper, bool left, bool unitriangular, int64_t n_wants,
        const bool *wants) TD_MUST_USE;
/* The older form of linalg.solve_triangular. */
TD_API int td_triangular_solve(td_tensor **results, td_tensor *self, td_tensor *A, bool upper, bool transpose,
        bool unitriangular) TD_MUST_USE;
TD_API int td_triangular_solve_out(td_tensor *self, td_tensor *A, bool upper, bool transpose, bool unitriangular,
        td_tensor *solution, td_tensor *cloned_coefficient) TD_MUST_USE;
/* The determinant. */
TD_API td_tensor *td_linalg_det(td_tensor *A);
TD_API int td_linalg_det_out(td_tensor *A, td_tensor *out) TD_MUST_USE;
/* The derivative of the determinant. */
TD_API td_tensor *td_linalg_det_backward(td_tensor *grad, td_tensor *det, td_tensor *A);
/* The sign of the determinant and the logarithm of its absolute value. */
TD_API int td_linalg_slogdet(td_tensor **results, td_tensor *A) TD_MUST_USE;
TD_API int td_linalg_slogdet_out(td_tensor *A, td_tensor *sign, td_tensor *logabsdet) TD_MUST_USE;
/* The derivative of slogdet. */
TD_API td_tensor *td_slogdet_backward(td_tensor *grad_sign, td_tensor *grad_log, td_tensor *sign, td_tensor *A);
/* Logarithm of the determinant; NaN where that is negative. */
TD_API td_tensor *td_logdet(td_tensor *self);
/* A matrix with orthonormal columns and an upper triangle whose product is the matrix. */
TD_API int td_linalg_qr(td_tensor **results, td_tensor *A, const char *mode) TD_MUST_USE;
TD_API int td_linalg_qr_out(td_tensor *A, const char *mode, td_tensor *Q, td_tensor *R) TD_MUST_USE;
/* The derivative of qr. */
TD_API td_tensor *td_linalg_qr_backward(td_tensor *gQ, td_tensor *gR, td_tensor *Q, td_tensor *R,
        const char *mode);
/* The older form of linalg.qr. */
TD_API int td_qr(td_tensor **results, td_tensor *self, bool some) TD_MUST_USE;
TD_API int td_qr_out(td_tensor *self, bool some, td_tensor *Q, td_tensor *R) TD_MUST_USE;
/* Singular values and vectors. */
TD_API int td__linalg_svd(td_tensor **results, td_tensor *A, bool full_matrices, bool compute_uv,
        const char *driver) TD_MUST_USE;
TD_API int td__linalg_svd_out(td_tensor *A, bool full_matrices, bool compute_uv, const char *driver,
        td_tensor *U, td_tensor *S, td_tensor *Vh) TD_MUST_USE;
/* The derivative of the singular value decomposition. */
TD_API td_tensor *td_svd_backward(td_tensor *gU, td_tensor *gS, td_tensor *gVh, td_tensor *U, td_tensor *S,
        td_tensor *Vh);
/* Singular values and vectors, ``A = U @ diag(S) @ Vh``. */
TD_API int td_linalg_svd(td_tensor **results, td_tensor *A, bool full_matrices, const char *driver) TD_MUST_USE;
TD_API int td_linalg_svd_out(td_tensor *A, bool full_matrices, const char *driver, td_tensor *U, td_tensor *S,
        td_tensor *Vh) TD_MUST_USE;
/* ``left @ diag(values) @ right``. */
TD_API td_tensor *td_times_vectors(td_tensor *values, td_tensor *left, td_tensor *right);
/* Singular values, the largest first. */
TD_API td_tensor *td_linalg_svdvals(td_tensor *A, const char *driver);
TD_API int td_linalg_svdvals_out(td_tensor *A, const char *driver, td_tensor *out) TD_MUST_USE;
/* The older form of linalg.svd, which gives V, not its adjoint. */
TD_API int td_svd(td_tensor **results, td_tensor *self, bool some, bool compute_uv) TD_MUST_USE;
TD_API int td_svd_out(td_tensor *self, bool some, bool compute_uv, td_tensor *U, td_tensor *S,
        td_tensor *V) TD_MUST_USE;
/* Eigenvalues and eigenvectors of symmetric or Hermitian matrices. */
TD_API int td__linalg_eigh(td_tensor **results, td_tensor *A, const char *UPLO, bool compute_v) TD_MUST_USE;
TD_API int td__linalg_eigh_out(td_tensor *A, const char *UPLO, bool compute_v, td_tensor *eigenvalues,
        td_tensor *eigenvectors) TD_MUST_USE;
/* The derivative of eigh. */
TD_API td_tensor *td_eigh_backward(td_tensor *gL, td_tensor *gV, td_tensor *L, td_tensor *V);
/* Eigenvalues in ascending order and eigenvectors of symmetric or Hermitian matrices. */
TD_API int td_linalg_eigh(td_tensor **results, td_tensor *self, const char *UPLO) TD_MUST_USE;
TD_API int td_linalg_eigh_out(td_tensor *self, const char *UPLO, td_tensor *eigenvalues,
        td_tensor *eigenvectors) TD_MUST_USE;
/* Eigenvalues of symmetric or Hermitian matrices. */
TD_API td_tensor *td_linalg_eigvalsh(td_tensor *self, const char *UPLO);
TD_API int td_linalg_eigvalsh_out(td_tensor *self, const char *UPLO, td_tensor *out) TD_MUST_USE;
/* Eigenvalues and eigenvectors. */
TD_API int td__linalg_eig(td_tensor **results, td_tensor *A, bool compute_v) TD_MUST_USE;
/* The derivative of eig. */
TD_API td_tensor *td_eig_backward(td_tensor *gL, td_tensor *gV, td_tensor *L, td_tensor *V, td_dtype dtype);
/* Eigenvalues and eigenvectors, complex. */
TD_API int td_linalg_eig(td_tensor **results, td_tensor *self) TD_MUST_USE;
TD_API int td_linalg_eig_out(td_tensor *self, td_tensor *eigenvalues, td_tensor *eigenvectors) TD_MUST_USE;
/* Eigenvalues, complex. */
TD_API td_tensor *td_linalg_eigvals(td_tensor *self);
TD_API int td_linalg_eigvals_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* Least squares, by QR of matrices of full rank (0), by QR with pivots (1) or by singular values (2), which find the rank. */
TD_API int td__linalg_lstsq(td_tensor **results, td_tensor *A, td_tensor *B, double rcond,
        int64_t method) TD_MUST_USE;
/* The derivative of the least squares solution. */
TD_API int td_lstsq_backward(td_tensor **results, td_tensor *grad, td_tensor *A, td_tensor *B) TD_MUST_USE;
/* The X for which ``A @ X - B`` is smallest. */
TD_API int td_linalg_lstsq(td_tensor **results, td_tensor *self, td_tensor *b, const double *rcond,
        const char *driver) TD_MUST_USE;
TD_API int td_linalg_lstsq_out(td_tensor *self, td_tensor *b, const double *rcond, const char *driver,
        td_tensor *solution, td_tensor *residuals, td_tensor *rank, td_tensor *singular_values) TD_MUST_USE;
/* A matrix multiplied with itself; negative powers are those of the inverse. */
TD_API td_tensor *td_linalg_matrix_power(td_tensor *self, int64_t n);
TD_API int td_linalg_matrix_power_out(td_tensor *self, int64_t n, td_tensor *out) TD_MUST_USE;
/* A matrix multiplied with itself. */
TD_API td_tensor *td_matrix_power(td_tensor *self, int64_t n);
TD_API int td_matrix_power_out(td_tensor *self, int64_t n, td_tensor *out) TD_MUST_USE;
/* The matrix product. */
TD_API td_tensor *td_linalg_matmul(td_tensor *self, td_tensor *other);
TD_API int td_linalg_matmul_out(td_tensor *self, td_tensor *other, td_tensor *out) TD_MUST_USE;
/* ``sum(conj(x) * y)`` along a dimension. */
TD_API td_tensor *td_linalg_vecdot(td_tensor *x, td_tensor *y, int64_t dim);
TD_API int td_linalg_vecdot_out(td_tensor *x, td_tensor *y, int64_t dim, td_tensor *out) TD_MUST_USE;
/* The cross product of vectors with three elements. */
TD_API td_tensor *td_linalg_cross(td_tensor *self, td_tensor *other, int64_t dim);
TD_API int td_linalg_cross_out(td_tensor *self, td_tensor *other, int64_t dim, td_tensor *out) TD_MUST_USE;
/* The cross product, along the first dimension of size 3 by default. */
TD_API td_tensor *td_cross(td_tensor *self, td_tensor *other, const int64_t *dim);
TD_API int td_cross_out(td_tensor *self, td_tensor *other, const int64_t *dim, td_tensor *out) TD_MUST_USE;
/* The exponential function of matrices. */
TD_API td_tensor *td_linalg_matrix_exp(td_tensor *self);
/* The derivative of the exponential at a matrix (at its adjoint) along a direction. */
TD_API td_tensor *td_matrix_exp_differential(td_tensor *self, td_tensor *direction, bool adjoint);
/* The first columns of a product of Householder reflections. */
TD_API td_tensor *td_linalg_householder_product(td_tensor *input, td_tensor *tau);
TD_API int td_linalg_householder_product_out(td_tensor *input, td_tensor *tau, td_tensor *out) TD_MUST_USE;
/* The QR factors as LAPACK leaves them, Householder vectors below the diagonal. */
TD_API int td_geqrf(td_tensor **results, td_tensor *self) TD_MUST_USE;
TD_API int td_geqrf_a(td_tensor *self, td_tensor *a_, td_tensor *tau) TD_MUST_USE;
/* The product of the orthogonal matrix that geqrf's results stand for with another one. */
TD_API td_tensor *td_ormqr(td_tensor *self, td_tensor *input2, td_tensor *input3, bool left, bool transpose);
TD_API int td_ormqr_out(td_tensor *self, td_tensor *input2, td_tensor *input3, bool left, bool transpose,
        td_tensor *out) TD_MUST_USE;
/* The factors of a symmetric or Hermitian matrix, ``L D L^H``, in one matrix, and the rows exchanged. */
TD_API int td_linalg_ldl_factor_ex(td_tensor **results, td_tensor *self, bool hermitian,
        bool check_errors) TD_MUST_USE;
TD_API int td_linalg_ldl_factor_ex_out(td_tensor *self, bool hermitian, bool check_errors, td_tensor *LD,
        td_tensor *pivots, td_tensor *info) TD_MUST_USE;
/* The factors of a symmetric or Hermitian matrix, ``L D L^H``, in one matrix, and the rows exchanged. */
TD_API int td_linalg_ldl_factor(td_tensor **results, td_tensor *self, bool hermitian) TD_MUST_USE;
TD_API int td_linalg_ldl_factor_out(td_tensor *self, bool hermitian, td_tensor *LD,
        td_tensor *pivots) TD_MUST_USE;
/* Solves a system whose LDL factors are given. */
TD_API td_tensor *td_linalg_ldl_solve(td_tensor *LD, td_tensor *pivots, td_tensor *B, bool hermitian);
TD_API int td_linalg_ldl_solve_out(td_tensor *LD, td_tensor *pivots, td_tensor *B, bool hermitian,
        td_tensor *out) TD_MUST_USE;
/* A matrix norm by its number. */
TD_API td_tensor *td_linalg_matrix_norm(td_tensor *self, td_scalar ord, int64_t n_dim, const int64_t *dim,
        bool keepdim, td_dtype dtype);
TD_API int td_linalg_matrix_norm_out(td_tensor *self, td_scalar ord, int64_t n_dim, const int64_t *dim,
        bool keepdim, td_dtype dtype, td_tensor *out) TD_MUST_USE;
/* The Frobenius or the nuclear norm. */
TD_API td_tensor *td_linalg_matrix_norm_str_ord(td_tensor *self, const char *ord, int64_t n_dim,
        const int64_t *dim, bool keepdim, td_dtype dtype);
TD_API int td_linalg_matrix_norm_str_ord_out(td_tensor *self, const char *ord, int64_t n_dim, const int64_t *dim,
        bool keepdim, td_dtype dtype, td_tensor *out) TD_MUST_USE;
/* A vector or matrix norm. */
TD_API td_tensor *td_linalg_norm(td_tensor *self, const td_scalar *ord, int64_t n_dim, const int64_t *dim,
        bool keepdim, td_dtype dtype);
TD_API int td_linalg_norm_out(td_tensor *self, const td_scalar *ord, int64_t n_dim, const int64_t *dim,
        bool keepdim, td_dtype dtype, td_tensor *out) TD_MUST_USE;
/* A matrix norm by its name. */
TD_API td_tensor *td_linalg_norm_ord_str(td_tensor *self, const char *ord, int64_t n_dim, const int64_t *dim,
        bool keepdim, td_dtype dtype);
TD_API int td_linalg_norm_ord_str_out(td_tensor *self, const char *ord, int64_t n_dim, const int64_t *dim,
        bool keepdim, td_dtype dtype, td_tensor *out) TD_MUST_USE;
/* The condition number. */
TD_API td_tensor *td_linalg_cond(td_tensor *self, const td_scalar *p);
TD_API int td_linalg_cond_out(td_tensor *self, const td_scalar *p, td_tensor *out) TD_MUST_USE;
/* The condition number by a named norm. */
TD_API td_tensor *td_linalg_cond_p_str(td_tensor *self, const char *p);
TD_API int td_linalg_cond_p_str_out(td_tensor *self, const char *p, td_tensor *out) TD_MUST_USE;
/* The pseudo-inverse. */
TD_API td_tensor *td_linalg_pinv_atol_rtol_tensor(td_tensor *self, td_tensor *atol, td_tensor *rtol,
        bool hermitian);
TD_API int td_linalg_pinv_atol_rtol_tensor_out(td_tensor *self, td_tensor *atol, td_tensor *rtol, bool hermitian,
        td_tensor *out) TD_MUST_USE;
/* The pseudo-inverse. */
TD_API td_tensor *td_linalg_pinv_atol_rtol_float(td_tensor *self, const double *atol, const double *rtol,
        bool hermitian);
TD_API int td_linalg_pinv_atol_rtol_float_out(td_tensor *self, const double *atol, const double *rtol,
        bool hermitian, td_tensor *out) TD_MUST_USE;
/* The pseudo-inverse. */
TD_API td_tensor *td_linalg_pinv(td_tensor *self, double rcond, bool hermitian);
TD_API int td_linalg_pinv_out(td_tensor *self, double rcond, bool hermitian, td_tensor *out) TD_MUST_USE;
/* The pseudo-inverse. */
TD_API td_tensor *td_linalg_pinv_rcond_tensor(td_tensor *self, td_tensor *rcond, bool hermitian);
TD_API int td_linalg_pinv_rcond_tensor_out(td_tensor *self, td_tensor *rcond, bool hermitian,
        td_tensor *out) TD_MUST_USE;
/* The pseudo-inverse. */
TD_API td_tensor *td_pinverse(td_tensor *self, double rcond);
/* The derivative of the pseudo-inverse. */
TD_API td_tensor *td_pinv_backward(td_tensor *grad, td_tensor *pinv, td_tensor *A);
/* How many singular values are above a bound. */
TD_API td_tensor *td_linalg_matrix_rank_atol_rtol_tensor(td_tensor *input, td_tensor *atol, td_tensor *rtol,
        bool hermitian);
TD_API int td_linalg_matrix_rank_atol_rtol_tensor_out(td_tensor *input, td_tensor *atol, td_tensor *rtol,
        bool hermitian, td_tensor *out) TD_MUST_USE;
/* How many singular values are above a bound. */
TD_API td_tensor *td_linalg_matrix_rank_atol_rtol_float(td_tensor *self, const double *atol, const double *rtol,
        bool hermitian);
TD_API int td_linalg_matrix_rank_atol_rtol_float_out(td_tensor *self, const double *atol, const double *rtol,
        bool hermitian, td_tensor *out) TD_MUST_USE;
/* How many singular values are above a bound. */
TD_API td_tensor *td_linalg_matrix_rank(td_tensor *self, double tol, bool hermitian);
TD_API int td_linalg_matrix_rank_out(td_tensor *self, double tol, bool hermitian, td_tensor *out) TD_MUST_USE;
/* How many singular values are above a bound. */
TD_API td_tensor *td_linalg_matrix_rank_tol_tensor(td_tensor *input, td_tensor *tol, bool hermitian);
TD_API int td_linalg_matrix_rank_tol_tensor_out(td_tensor *input, td_tensor *tol, bool hermitian,
        td_tensor *out) TD_MUST_USE;
/* The inverse of a tensor as a map between its first and its other dimensions. */
TD_API td_tensor *td_linalg_tensorinv(td_tensor *self, int64_t ind);
TD_API int td_linalg_tensorinv_out(td_tensor *self, int64_t ind, td_tensor *out) TD_MUST_USE;
/* The X with ``tensordot(A, X, X.ndim) = B``. */
TD_API td_tensor *td_linalg_tensorsolve(td_tensor *self, td_tensor *other, int64_t n_dims, const int64_t *dims);
TD_API int td_linalg_tensorsolve_out(td_tensor *self, td_tensor *other, int64_t n_dims, const int64_t *dims,
        td_tensor *out) TD_MUST_USE;
/* Distances between all rows of two batches of matrices; ``compute_mode`` is PyTorch's, and changes nothing. */
TD_API td_tensor *td_cdist(td_tensor *x1, td_tensor *x2, double p, const int64_t *compute_mode);
/* cdist's kernel: distances of two batches of matrices, with p of 1, 2 or inf. */
TD_API td_tensor *td_pair_distances(td_tensor *x1, td_tensor *x2, double p);
/* Distances between all pairs of rows: the upper triangle of ``cdist(self, self, p)`` without its diagonal, as a vector. */
TD_API td_tensor *td_pdist(td_tensor *self, double p);
/* The kernel of pdist. */
TD_API td_tensor *td__pdist_forward(td_tensor *self, double p);
/* The gradient of pdist. */
TD_API td_tensor *td__pdist_backward(td_tensor *grad, td_tensor *self, double p, td_tensor *pdist);
/* The older form of linalg.vector_norm of order 2. */
TD_API td_tensor *td_frobenius_norm_dim(td_tensor *self, int64_t n_dim, const int64_t *dim, bool keepdim);
TD_API int td_frobenius_norm_dim_out(td_tensor *self, int64_t n_dim, const int64_t *dim, bool keepdim,
        td_tensor *out) TD_MUST_USE;
/* The sum of a matrix's singular values. */
TD_API td_tensor *td_nuclear_norm(td_tensor *self, bool keepdim);
TD_API int td_nuclear_norm_out(td_tensor *self, bool keepdim, td_tensor *out) TD_MUST_USE;
/* The sum of singular values of the matrices in two dimensions. */
TD_API td_tensor *td_nuclear_norm_dim(td_tensor *self, int64_t n_dim, const int64_t *dim, bool keepdim);
TD_API int td_nuclear_norm_dim_out(td_tensor *self, int64_t n_dim, const int64_t *dim, bool keepdim,
        td_tensor *out) TD_MUST_USE;
/* The norm over all dimensions but one. */
TD_API td_tensor *td_norm_except_dim(td_tensor *v, int64_t pow, int64_t dim);
/* What linalg.lu_factor_ex gives. */
TD_API int td__lu_with_info(td_tensor **results, td_tensor *self, bool pivot, bool check_errors) TD_MUST_USE;
/* What stack gives. */
TD_API td_tensor *td__stack(int64_t n_tensors, td_tensor *const *tensors, int64_t dim);
TD_API int td__stack_out(int64_t n_tensors, td_tensor *const *tensors, int64_t dim, td_tensor *out) TD_MUST_USE;
/* The sizes of a tensor, in a vector. */
TD_API td_tensor *td__shape_as_tensor(td_tensor *self);

/* ==== loss ================================================================================================ */

/* The cross entropy between logits and targets, which are class numbers or probabilities. Classes are dimension 1, or the only one. */
TD_API td_tensor *td_cross_entropy_loss(td_tensor *self, td_tensor *target, td_tensor *weight, int64_t reduction,
        int64_t ignore_index, double label_smoothing);
/* Cross entropy of rows of logits with class numbers in one pass; also each row's logsumexp and the weights' sum. */
TD_API int td_cross_entropy_rows(td_tensor **results, td_tensor *self, td_tensor *target, td_tensor *weight,
        int64_t reduction, int64_t ignore_index, double label_smoothing) TD_MUST_USE;
/* The gradient of cross_entropy_rows in one pass. */
TD_API td_tensor *td_cross_entropy_rows_backward(td_tensor *grad, td_tensor *self, td_tensor *target,
        td_tensor *weight, td_tensor *lse, td_tensor *total_weight, int64_t reduction, int64_t ignore_index,
        double label_smoothing);
/* The weight with which each logit's negative log probability enters the loss. */
TD_API td_tensor *td_cross_entropy_targets(td_tensor *self, td_tensor *target, td_tensor *weight,
        int64_t ignore_index, double label_smoothing);
/* The gradient of cross_entropy_rows; differentiable where a graph is being made. */
TD_API td_tensor *td_cross_entropy_grad(td_tensor *grad, td_tensor *self, td_tensor *target, td_tensor *weight,
        td_tensor *lse, td_tensor *total_weight, int64_t reduction, int64_t ignore_index,
        double label_smoothing);
/* The negative of each sample's log probability at its target class, weighted; of one or two dimensions. */
TD_API td_tensor *td_nll_loss(td_tensor *self, td_tensor *target, td_tensor *weight, int64_t reduction,
        int64_t ignore_index);
TD_API int td_nll_loss_out(td_tensor *self, td_tensor *target, td_tensor *weight, int64_t reduction,
        int64_t ignore_index, td_tensor *out) TD_MUST_USE;
/* nll_loss of images. */
TD_API td_tensor *td_nll_loss2d(td_tensor *self, td_tensor *target, td_tensor *weight, int64_t reduction,
        int64_t ignore_index);
TD_API int td_nll_loss2d_out(td_tensor *self, td_tensor *target, td_tensor *weight, int64_t reduction,
        int64_t ignore_index, td_tensor *out) TD_MUST_USE;
/* nll_loss of any rank; classes are dimension 1, or the only one. */
TD_API td_tensor *td_nll_loss_nd(td_tensor *self, td_tensor *target, td_tensor *weight, int64_t reduction,
        int64_t ignore_index);
/* nll_loss and the sum of the weights of the targets. */
TD_API int td_nll_loss_forward(td_tensor **results, td_tensor *self, td_tensor *target, td_tensor *weight,
        int64_t reduction, int64_t ignore_index) TD_MUST_USE;
/* The gradient of nll_loss. */
TD_API td_tensor *td_nll_loss_backward(td_tensor *grad_output, td_tensor *self, td_tensor *target,
        td_tensor *weight, int64_t reduction, int64_t ignore_index, td_tensor *total_weight);
/* The squared difference. */
TD_API td_tensor *td_mse_loss(td_tensor *self, td_tensor *target, int64_t reduction);
TD_API int td_mse_loss_out(td_tensor *self, td_tensor *target, int64_t reduction, td_tensor *out) TD_MUST_USE;
/* The absolute difference. */
TD_API td_tensor *td_l1_loss(td_tensor *self, td_tensor *target, int64_t reduction);
/* Half the squared difference over beta where the difference is below beta, else the absolute one less beta / 2. */
TD_API td_tensor *td_smooth_l1_loss(td_tensor *self, td_tensor *target, int64_t reduction, double beta);
TD_API int td_smooth_l1_loss_out(td_tensor *self, td_tensor *target, int64_t reduction, double beta,
        td_tensor *out) TD_MUST_USE;
/* Half the squared difference where it is at most delta, else delta times the absolute one less delta / 2. */
TD_API td_tensor *td_huber_loss(td_tensor *self, td_tensor *target, int64_t reduction, double delta);
TD_API int td_huber_loss_out(td_tensor *self, td_tensor *target, int64_t reduction, double delta,
        td_tensor *out) TD_MUST_USE;
/* The cross entropy of probabilities of one event; logarithms are cut off at -100. */
TD_API td_tensor *td_binary_cross_entropy(td_tensor *self, td_tensor *target, td_tensor *weight,
        int64_t reduction);
TD_API int td_binary_cross_entropy_out(td_tensor *self, td_tensor *target, td_tensor *weight, int64_t reduction,
        td_tensor *out) TD_MUST_USE;
/* The cross entropy of one event's logits, computed so that nothing overflows. */
TD_API td_tensor *td_binary_cross_entropy_with_logits(td_tensor *self, td_tensor *target, td_tensor *weight,
        td_tensor *pos_weight, int64_t reduction);
/* ``target * (log(target) - self)``: the divergence of log probabilities from target's distribution. */
TD_API td_tensor *td_kl_div(td_tensor *self, td_tensor *target, int64_t reduction, bool log_target);
/* ``log(1 + exp(-target * self))``. */
TD_API td_tensor *td_soft_margin_loss(td_tensor *self, td_tensor *target, int64_t reduction);
TD_API int td_soft_margin_loss_out(td_tensor *self, td_tensor *target, int64_t reduction,
        td_tensor *out) TD_MUST_USE;
/* self where target is 1, ``max(0, margin - self)`` where it is -1. */
TD_API td_tensor *td_hinge_embedding_loss(td_tensor *self, td_tensor *target, double margin, int64_t reduction);
/* ``max(0, -target * (input1 - input2) + margin)``. */
TD_API td_tensor *td_margin_ranking_loss(td_tensor *input1, td_tensor *input2, td_tensor *target, double margin,
        int64_t reduction);
/* One less the cosine where target is 1; the cosine less margin, at least 0, where it is -1. */
TD_API td_tensor *td_cosine_embedding_loss(td_tensor *input1, td_tensor *input2, td_tensor *target,
        double margin, int64_t reduction);
/* ``max(0, |anchor - positive| - |anchor - negative| + margin)``. */
TD_API td_tensor *td_triplet_margin_loss(td_tensor *anchor, td_tensor *positive, td_tensor *negative,
        double margin, double p, double eps, bool swap, int64_t reduction);
/* The negative log likelihood of counts under a Poisson distribution. */
TD_API td_tensor *td_poisson_nll_loss(td_tensor *input, td_tensor *target, bool log_input, bool full, double eps,
        int64_t reduction);
/* The cosine of the angle between vectors along a dimension; norms below eps count as eps. */
TD_API td_tensor *td_cosine_similarity(td_tensor *x1, td_tensor *x2, int64_t dim, double eps);
/* The p-norm of ``x1 - x2 + eps`` over the last dimension. */
TD_API td_tensor *td_pairwise_distance(td_tensor *x1, td_tensor *x2, double p, double eps, bool keepdim);
/* mse_loss, elementwise. */
TD_API td_tensor *td_squared_error(td_tensor *self, td_tensor *target);
/* smooth_l1_loss, elementwise. */
TD_API td_tensor *td_smooth_error(td_tensor *self, td_tensor *target, double beta);
/* huber_loss, elementwise. */
TD_API td_tensor *td_huber_error(td_tensor *self, td_tensor *target, double delta);
/* binary_cross_entropy, elementwise. */
TD_API td_tensor *td_binary_entropy(td_tensor *self, td_tensor *target);
/* binary_cross_entropy_with_logits, elementwise. */
TD_API td_tensor *td_logit_entropy(td_tensor *self, td_tensor *target);
/* binary_cross_entropy_with_logits with weights for positive targets, elementwise. */
TD_API td_tensor *td_weighted_logit_entropy(td_tensor *self, td_tensor *target, td_tensor *pos_weight);
/* kl_div, elementwise. */
TD_API td_tensor *td_divergence(td_tensor *self, td_tensor *target);
/* kl_div of log probabilities, elementwise. */
TD_API td_tensor *td_log_divergence(td_tensor *self, td_tensor *target);
/* soft_margin_loss, elementwise. */
TD_API td_tensor *td_margin_error(td_tensor *self, td_tensor *target);
/* The mean over the other classes of ``max(0, margin - x[target] + x[class]) ** p``. */
TD_API td_tensor *td_multi_margin_loss(td_tensor *self, td_tensor *target, td_scalar p, td_scalar margin,
        td_tensor *weight, int64_t reduction);
TD_API int td_multi_margin_loss_out(td_tensor *self, td_tensor *target, td_scalar p, td_scalar margin,
        td_tensor *weight, int64_t reduction, td_tensor *out) TD_MUST_USE;
/* The gradient of multi_margin_loss. */
TD_API td_tensor *td_multi_margin_loss_backward(td_tensor *grad_output, td_tensor *self, td_tensor *target,
        td_scalar p, td_scalar margin, td_tensor *weight, int64_t reduction);
/* Hinge loss of several classes per sample, those in front of the first negative label. */
TD_API td_tensor *td_multilabel_margin_loss(td_tensor *self, td_tensor *target, int64_t reduction);
TD_API int td_multilabel_margin_loss_out(td_tensor *self, td_tensor *target, int64_t reduction,
        td_tensor *out) TD_MUST_USE;
/* multilabel_margin_loss, and which classes are targets. */
TD_API int td_multilabel_margin_loss_forward(td_tensor **results, td_tensor *self, td_tensor *target,
        int64_t reduction) TD_MUST_USE;
/* The gradient of multilabel_margin_loss. */
TD_API td_tensor *td_multilabel_margin_loss_backward(td_tensor *grad_output, td_tensor *self, td_tensor *target,
        int64_t reduction, td_tensor *is_target);
/* Connectionist temporal classification: minus the log likelihood of labels without known positions. */
TD_API td_tensor *td_ctc_loss_intlist(td_tensor *log_probs, td_tensor *targets, int64_t n_input_lengths,
        const int64_t *input_lengths, int64_t n_target_lengths, const int64_t *target_lengths, int64_t blank,
        int64_t reduction, bool zero_infinity);
/* The same with lengths in tensors. */
TD_API td_tensor *td_ctc_loss_tensor(td_tensor *log_probs, td_tensor *targets, td_tensor *input_lengths,
        td_tensor *target_lengths, int64_t blank, int64_t reduction, bool zero_infinity);
/* Each sample's loss, and the log probabilities of all beginnings of alignments. */
TD_API int td__ctc_loss(td_tensor **results, td_tensor *log_probs, td_tensor *targets, int64_t n_input_lengths,
        const int64_t *input_lengths, int64_t n_target_lengths, const int64_t *target_lengths, int64_t blank,
        bool zero_infinity) TD_MUST_USE;
/* The same with lengths in tensors. */
TD_API int td__ctc_loss_tensor(td_tensor **results, td_tensor *log_probs, td_tensor *targets,
        td_tensor *input_lengths, td_tensor *target_lengths, int64_t blank, bool zero_infinity) TD_MUST_USE;
/* The gradient of ctc_loss with respect to the logits that log_softmax made log_probs of. */
TD_API td_tensor *td__ctc_loss_backward(td_tensor *grad, td_tensor *log_probs, td_tensor *targets,
        int64_t n_input_lengths, const int64_t *input_lengths, int64_t n_target_lengths,
        const int64_t *target_lengths, td_tensor *neg_log_likelihood, td_tensor *log_alpha, int64_t blank,
        bool zero_infinity);

/* ==== matmul ============================================================================================== */

/* The product of two matrices. Nothing is broadcast. */
TD_API td_tensor *td_mm(td_tensor *self, td_tensor *mat2);
TD_API int td_mm_out(td_tensor *self, td_tensor *mat2, td_tensor *out) TD_MUST_USE;
/* The product of two matrices of bytes, in int32. */
TD_API td_tensor *td__int_mm(td_tensor *self, td_tensor *mat2);
TD_API int td__int_mm_out(td_tensor *self, td_tensor *mat2, td_tensor *out) TD_MUST_USE;
/* Products of the matrices in two batches of equal length. */
TD_API td_tensor *td_bmm(td_tensor *self, td_tensor *mat2);
TD_API int td_bmm_out(td_tensor *self, td_tensor *mat2, td_tensor *out) TD_MUST_USE;
/* The product of a matrix with a vector. */
TD_API td_tensor *td_mv(td_tensor *self, td_tensor *vec);
TD_API int td_mv_out(td_tensor *self, td_tensor *vec, td_tensor *out) TD_MUST_USE;
/* The sum of the products of two vectors' elements. Complex numbers are not conjugated; ``vdot`` does that. */
TD_API td_tensor *td_dot(td_tensor *self, td_tensor *tensor);
TD_API int td_dot_out(td_tensor *self, td_tensor *tensor, td_tensor *out) TD_MUST_USE;
/* ``dot(conj(self), other)``. */
TD_API td_tensor *td_vdot(td_tensor *self, td_tensor *other);
TD_API int td_vdot_out(td_tensor *self, td_tensor *other, td_tensor *out) TD_MUST_USE;
/* The product of vectors, matrices, or batches of matrices, whose leading dimensions are broadcast. A vector counts as a row on the left and as a column on the right. */
TD_API td_tensor *td_matmul(td_tensor *self, td_tensor *other);
TD_API int td_matmul_out(td_tensor *self, td_tensor *other, td_tensor *out) TD_MUST_USE;
/* Gradients of matmul. */
TD_API int td_matmul_backward(td_tensor **results, td_tensor *grad, td_tensor *self, td_tensor *other,
        int64_t n_mask, const bool *mask) TD_MUST_USE;
/* ``beta * self + alpha * (mat1 @ mat2)``; self is broadcast. With ``beta=0`` self is not read, so its NaNs don't count. */
TD_API td_tensor *td_addmm(td_tensor *self, td_tensor *mat1, td_tensor *mat2, td_scalar beta, td_scalar alpha);
TD_API int td_addmm_(td_tensor *self, td_tensor *mat1, td_tensor *mat2, td_scalar beta,
        td_scalar alpha) TD_MUST_USE;
TD_API int td_addmm_out(td_tensor *self, td_tensor *mat1, td_tensor *mat2, td_scalar beta, td_scalar alpha,
        td_tensor *out) TD_MUST_USE;
/* ``relu`` or ``gelu`` of what ``addmm`` gives; as in PyTorch, on `cuda` the `gelu` is the one with tanh. */
TD_API td_tensor *td__addmm_activation(td_tensor *self, td_tensor *mat1, td_tensor *mat2, td_scalar beta,
        td_scalar alpha, bool use_gelu);
TD_API int td__addmm_activation_out(td_tensor *self, td_tensor *mat1, td_tensor *mat2, td_scalar beta,
        td_scalar alpha, bool use_gelu, td_tensor *out) TD_MUST_USE;
/* ``_addmm_activation`` without factors and gradients, which a device's library may compute in one call; `gelu` is the one with tanh. */
TD_API td_tensor *td__addmm_fused(td_tensor *self, td_tensor *mat1, td_tensor *mat2, bool use_gelu);
/* ``beta * self + alpha * (mat @ vec)``; self is broadcast. */
TD_API td_tensor *td_addmv(td_tensor *self, td_tensor *mat, td_tensor *vec, td_scalar beta, td_scalar alpha);
TD_API int td_addmv_(td_tensor *self, td_tensor *mat, td_tensor *vec, td_scalar beta,
        td_scalar alpha) TD_MUST_USE;
TD_API int td_addmv_out(td_tensor *self, td_tensor *mat, td_tensor *vec, td_scalar beta, td_scalar alpha,
        td_tensor *out) TD_MUST_USE;
/* ``beta * self + alpha * bmm(batch1, batch2)``; self is broadcast. */
TD_API td_tensor *td_baddbmm(td_tensor *self, td_tensor *batch1, td_tensor *batch2, td_scalar beta,
        td_scalar alpha);
TD_API int td_baddbmm_(td_tensor *self, td_tensor *batch1, td_tensor *batch2, td_scalar beta,
        td_scalar alpha) TD_MUST_USE;
TD_API int td_baddbmm_out(td_tensor *self, td_tensor *batch1, td_tensor *batch2, td_scalar beta, td_scalar alpha,
        td_tensor *out) TD_MUST_USE;
/* ``beta * self`` plus ``alpha`` times the sum of the batch's products; self is broadcast. */
TD_API td_tensor *td_addbmm(td_tensor *self, td_tensor *batch1, td_tensor *batch2, td_scalar beta,
        td_scalar alpha);
TD_API int td_addbmm_out(td_tensor *self, td_tensor *batch1, td_tensor *batch2, td_scalar beta, td_scalar alpha,
        td_tensor *out) TD_MUST_USE;
TD_API int td_addbmm_(td_tensor *self, td_tensor *batch1, td_tensor *batch2, td_scalar beta,
        td_scalar alpha) TD_MUST_USE;
/* ``beta * self + alpha * outer(vec1, vec2)``; self is broadcast. */
TD_API td_tensor *td_addr(td_tensor *self, td_tensor *vec1, td_tensor *vec2, td_scalar beta, td_scalar alpha);
TD_API int td_addr_(td_tensor *self, td_tensor *vec1, td_tensor *vec2, td_scalar beta,
        td_scalar alpha) TD_MUST_USE;
TD_API int td_addr_out(td_tensor *self, td_tensor *vec1, td_tensor *vec2, td_scalar beta, td_scalar alpha,
        td_tensor *out) TD_MUST_USE;
/* All products of an element of one vector with an element of the other. */
TD_API td_tensor *td_outer(td_tensor *self, td_tensor *vec2);
TD_API int td_outer_out(td_tensor *self, td_tensor *vec2, td_tensor *out) TD_MUST_USE;
/* An old name of ``outer``. */
TD_API td_tensor *td_ger(td_tensor *self, td_tensor *vec2);
TD_API int td_ger_out(td_tensor *self, td_tensor *vec2, td_tensor *out) TD_MUST_USE;
/* Products summed over the last dimension of both; with a 0-dim operand, plain multiplication. */
TD_API td_tensor *td_inner(td_tensor *self, td_tensor *other);
TD_API int td_inner_out(td_tensor *self, td_tensor *other, td_tensor *out) TD_MUST_USE;
/* The product of several matrices, in the order that takes the fewest multiplications. */
TD_API td_tensor *td_chain_matmul(int64_t n_matrices, td_tensor *const *matrices);
TD_API int td_chain_matmul_out(int64_t n_matrices, td_tensor *const *matrices, td_tensor *out) TD_MUST_USE;
/* The product of several matrices in the cheapest order; the first and the last may be vectors. */
TD_API td_tensor *td_linalg_multi_dot(int64_t n_tensors, td_tensor *const *tensors);
TD_API int td_linalg_multi_dot_out(int64_t n_tensors, td_tensor *const *tensors, td_tensor *out) TD_MUST_USE;
/* ``input @ weight.T + bias`` over the last dimension. */
TD_API td_tensor *td_linear(td_tensor *input, td_tensor *weight, td_tensor *bias);
TD_API int td_linear_out(td_tensor *input, td_tensor *weight, td_tensor *bias, td_tensor *out) TD_MUST_USE;
/* What linear_backward gives; a bias of several dimensions gets the whole gradient, which is summed to its shape. */
TD_API int td_linear_gradients(td_tensor **results, td_tensor *self, td_tensor *grad_output, td_tensor *weight,
        int64_t bias_ndim, int64_t n_output_mask, const bool *output_mask) TD_MUST_USE;
/* Gradients of linear. */
TD_API int td_linear_backward(td_tensor **results, td_tensor *self, td_tensor *grad_output, td_tensor *weight,
        int64_t n_output_mask, const bool *output_mask) TD_MUST_USE;
/* For each matrix ``w`` of weight, ``input1 @ w @ input2``, plus bias. */
TD_API td_tensor *td_bilinear(td_tensor *input1, td_tensor *input2, td_tensor *weight, td_tensor *bias);
/* ``self * factor``, and self as it is if the factor is 1. */
TD_API td_tensor *td_scale(td_tensor *self, td_scalar factor);
/* Einstein's notation: dimensions with the same letter go together, letters that the result doesn't name are summed. The operands are contracted in pairs, left to right or along ``path``. */
TD_API td_tensor *td_einsum(const char *equation, int64_t n_tensors, td_tensor *const *tensors, int64_t n_path,
        const int64_t *path);
/* Products summed over the given dimensions of both operands; the others follow, self's first. */
TD_API td_tensor *td_tensordot(td_tensor *self, td_tensor *other, int64_t n_dims_self, const int64_t *dims_self,
        int64_t n_dims_other, const int64_t *dims_other);
TD_API int td_tensordot_out(td_tensor *self, td_tensor *other, int64_t n_dims_self, const int64_t *dims_self,
        int64_t n_dims_other, const int64_t *dims_other, td_tensor *out) TD_MUST_USE;
/* The Kronecker product: every element of self times the whole of other, laid out in blocks. */
TD_API td_tensor *td_kron(td_tensor *self, td_tensor *other);
TD_API int td_kron_out(td_tensor *self, td_tensor *other, td_tensor *out) TD_MUST_USE;
/* A product of float8 matrices whose factors are scaled, as wholes or by rows and columns. */
TD_API td_tensor *td__scaled_mm(td_tensor *self, td_tensor *mat2, td_tensor *scale_a, td_tensor *scale_b,
        td_tensor *bias, td_tensor *scale_result, td_dtype out_dtype, bool use_fast_accum);
TD_API int td__scaled_mm_out(td_tensor *self, td_tensor *mat2, td_tensor *scale_a, td_tensor *scale_b,
        td_tensor *bias, td_tensor *scale_result, td_dtype out_dtype, bool use_fast_accum,
        td_tensor *out) TD_MUST_USE;

/* ==== nested ============================================================================================== */

/* A nested tensor's values, packed; of the strided layout its elements in one dimension. */
TD_API td_tensor *td__nested_values(td_tensor *self, td_tensor *like);
/* A nested tensor of like's structure over other values; ragged_idx is its ragged dimension, -1 that of like. */
TD_API td_tensor *td__nested_with(td_tensor *values, td_tensor *like, int64_t ragged_idx);
/* A jagged tensor over values; component i are those from offsets[i] on, up to the next offset, or lengths[i] of them. */
TD_API td_tensor *td__nested_of_jagged(td_tensor *values, td_tensor *offsets, td_tensor *lengths,
        int64_t ragged_idx, const int64_t *min_seqlen, const int64_t *max_seqlen);
/* A nested tensor of the strided layout, whose components lie one after the other in the buffer; sizes has a row for each. */
TD_API td_tensor *td__nested_of_sizes(td_tensor *buffer, td_tensor *sizes);
/* A nested tensor of the strided layout of copies of tensors, differentiable. */
TD_API td_tensor *td__nested_tensor_from_tensor_list(int64_t n_list, td_tensor *const *list, td_dtype dtype,
        td_device device);
/* A jagged tensor of copies of tensors, differentiable; they differ in one dimension at most. */
TD_API td_tensor *td__jagged_of_list(int64_t n_list, td_tensor *const *list);
/* The nested tensor of t's rows, t of (batch, length, features), for which mask, of (batch, length), is true: the first ones of each. */
TD_API td_tensor *td__nested_tensor_from_mask(td_tensor *t, td_tensor *mask, bool mask_check);
/* Whether what is true in each row of a mask comes first. */
TD_API int td__nested_tensor_from_mask_left_aligned(bool *results, td_tensor *t, td_tensor *mask) TD_MUST_USE;
/* The nested tensor of components, whose sizes are the rows of the second operand, that were padded at their ends. */
TD_API td_tensor *td__nested_from_padded(td_tensor *padded, td_tensor *cpu_nested_shape_example,
        bool fuse_transform_0213);
/* The nested tensor of the example's sizes of components that were padded at their ends. */
TD_API td_tensor *td__nested_from_padded_and_nested_example(td_tensor *padded, td_tensor *nt_example);
/* Rows that are packed by offsets, in a tensor of so many each, filled up or cut. */
TD_API td_tensor *td__jagged_to_padded_dense_forward(td_tensor *values, int64_t n_offsets,
        td_tensor *const *offsets, int64_t n_max_lengths, const int64_t *max_lengths, double padding_value);
/* The first rows of each member of a padded tensor, packed, as many as offsets say. */
TD_API td_tensor *td__padded_dense_to_jagged_forward(td_tensor *dense, int64_t n_offsets,
        td_tensor *const *offsets, const int64_t *total_L);
/* The jagged tensor whose components are the beginnings of a padded tensor's rows. */
TD_API td_tensor *td__nested_from_padded_tensor(td_tensor *padded, td_tensor *offsets, td_tensor *dummy,
        int64_t ragged_idx, td_tensor *min_seqlen, td_tensor *max_seqlen, const int64_t *sum_S);
/* The components of a nested tensor in a strided one, filled up with `padding` at their ends. */
TD_API td_tensor *td_to_padded_tensor(td_tensor *self, double padding, int64_t n_output_size,
        const int64_t *output_size);
/* The components' sizes, a row each. */
TD_API td_tensor *td__nested_tensor_size(td_tensor *self);
/* The components' strides, a row each. */
TD_API td_tensor *td__nested_tensor_strides(td_tensor *self);
/* Where the components begin in memory. */
TD_API td_tensor *td__nested_tensor_storage_offsets(td_tensor *self);
/* A nested tensor's values. */
TD_API td_tensor *td__nested_get_values(td_tensor *self);
/* Where the components of a jagged tensor begin among its values, and where the last one ends. */
TD_API td_tensor *td__nested_get_offsets(td_tensor *self);
/* The lengths of a jagged tensor's components, which leave values out; an empty tensor if they leave out none. */
TD_API td_tensor *td__nested_get_lengths(td_tensor *self);
/* The dimension in which a jagged tensor's components differ. */
TD_API int td__nested_get_ragged_idx(int64_t *results, td_tensor *self) TD_MUST_USE;
/* The least length of a component. */
TD_API td_tensor *td__nested_get_min_seqlen(td_tensor *self);
/* The greatest length of a component. */
TD_API td_tensor *td__nested_get_max_seqlen(td_tensor *self);
/* Which lengths of a jagged tensor are known: 1 for the least, 2 for the greatest, or their sum. */
TD_API int td__nested_known_seqlens(int64_t *results, td_tensor *self) TD_MUST_USE;
/* A jagged tensor of zeros of a size that names a ragged dimension, of a tensor that lives. */
TD_API td_tensor *td__jagged_zeros(int64_t n_size, const int64_t *size, td_dtype dtype, td_device device);

/* ==== nn ================================================================================================== */

/* ``exp(self)`` divided by its sum along a dimension, computed so that nothing overflows. */
TD_API td_tensor *td_softmax_int(td_tensor *self, int64_t dim, td_dtype dtype);
TD_API int td_softmax_int_out(td_tensor *self, int64_t dim, td_dtype dtype, td_tensor *out) TD_MUST_USE;
/* The kernel of softmax. */
TD_API td_tensor *td__softmax(td_tensor *self, int64_t dim, bool half_to_float);
TD_API int td__softmax_out(td_tensor *self, int64_t dim, bool half_to_float, td_tensor *out) TD_MUST_USE;
/* The gradient of softmax from its result. */
TD_API td_tensor *td__softmax_backward_data(td_tensor *grad_output, td_tensor *output, int64_t dim,
        td_dtype input_dtype);
/* The logarithm of softmax, without computing softmax first. */
TD_API td_tensor *td_log_softmax_int(td_tensor *self, int64_t dim, td_dtype dtype);
TD_API int td_log_softmax_int_out(td_tensor *self, int64_t dim, td_dtype dtype, td_tensor *out) TD_MUST_USE;
/* The kernel of log_softmax. */
TD_API td_tensor *td__log_softmax(td_tensor *self, int64_t dim, bool half_to_float);
TD_API int td__log_softmax_out(td_tensor *self, int64_t dim, bool half_to_float, td_tensor *out) TD_MUST_USE;
/* The gradient of log_softmax from its result. */
TD_API td_tensor *td__log_softmax_backward_data(td_tensor *grad_output, td_tensor *output, int64_t dim,
        td_dtype input_dtype);
/* softmax with zeros, not NaN, where a whole line is minus infinity. */
TD_API td_tensor *td__safe_softmax(td_tensor *self, int64_t dim, td_dtype dtype);
/* The same as ``softmax``. */
TD_API td_tensor *td_special_softmax(td_tensor *self, int64_t dim, td_dtype dtype);
/* The same as ``log_softmax``. */
TD_API td_tensor *td_special_log_softmax(td_tensor *self, int64_t dim, td_dtype dtype);
/* Each row brought to mean 0 and variance 1, then scaled by weight and shifted by bias. A row is what the last dimensions, as many as ``normalized_shape`` has, hold. */
TD_API td_tensor *td_layer_norm(td_tensor *input, int64_t n_normalized_shape, const int64_t *normalized_shape,
        td_tensor *weight, td_tensor *bias, double eps, bool cudnn_enable);
/* layer_norm, and each row's mean and reciprocal deviation. */
TD_API int td_native_layer_norm(td_tensor **results, td_tensor *input, int64_t n_normalized_shape,
        const int64_t *normalized_shape, td_tensor *weight, td_tensor *bias, double eps) TD_MUST_USE;
TD_API int td_native_layer_norm_out(td_tensor *input, int64_t n_normalized_shape,
        const int64_t *normalized_shape, td_tensor *weight, td_tensor *bias, double eps, td_tensor *out0,
        td_tensor *out1, td_tensor *out2) TD_MUST_USE;
/* Gradients of layer_norm in one pass. */
TD_API int td_native_layer_norm_backward(td_tensor **results, td_tensor *grad_out, td_tensor *input,
        int64_t n_normalized_shape, const int64_t *normalized_shape, td_tensor *mean, td_tensor *rstd,
        td_tensor *weight, td_tensor *bias, int64_t n_output_mask, const bool *output_mask) TD_MUST_USE;
/* Gradients of layer_norm; differentiable where a graph is being made. */
TD_API int td_layer_norm_grad(td_tensor **results, td_tensor *grad, td_tensor *input, int64_t n_normalized_shape,
        const int64_t *normalized_shape, td_tensor *mean, td_tensor *rstd, td_tensor *weight, double eps,
        int64_t n_output_mask, const bool *output_mask) TD_MUST_USE;
/* Each row divided by the root of its mean square, and scaled by weight. */
TD_API td_tensor *td_rms_norm(td_tensor *input, int64_t n_normalized_shape, const int64_t *normalized_shape,
        td_tensor *weight, const double *eps);
/* rms_norm, and each row's reciprocal root mean square. */
TD_API int td__fused_rms_norm(td_tensor **results, td_tensor *input, int64_t n_normalized_shape,
        const int64_t *normalized_shape, td_tensor *weight, const double *eps) TD_MUST_USE;
/* Gradients of rms_norm in one pass. */
TD_API int td__fused_rms_norm_backward(td_tensor **results, td_tensor *grad_out, td_tensor *input,
        int64_t n_normalized_shape, const int64_t *normalized_shape, td_tensor *rstd, td_tensor *weight,
        int64_t n_output_mask, const bool *output_mask) TD_MUST_USE;
/* Gradients of rms_norm; differentiable where a graph is being made. */
TD_API int td_rms_norm_grad(td_tensor **results, td_tensor *grad, td_tensor *input, int64_t n_normalized_shape,
        const int64_t *normalized_shape, td_tensor *rstd, td_tensor *weight, const double *eps,
        int64_t n_output_mask, const bool *output_mask) TD_MUST_USE;
/* Each channel (dimension 1) brought to mean 0 and variance 1 over everything else, scaled by weight and shifted by bias. In training the batch's own statistics are used, and mixed into the running ones; else the running ones are used. */
TD_API td_tensor *td_batch_norm(td_tensor *input, td_tensor *weight, td_tensor *bias, td_tensor *running_mean,
        td_tensor *running_var, bool training, double momentum, double eps, bool cudnn_enabled);
/* batch_norm, and the mean and reciprocal deviation of each channel that training used. */
TD_API int td_native_batch_norm(td_tensor **results, td_tensor *input, td_tensor *weight, td_tensor *bias,
        td_tensor *running_mean, td_tensor *running_var, bool training, double momentum,
        double eps) TD_MUST_USE;
TD_API int td_native_batch_norm_out(td_tensor *input, td_tensor *weight, td_tensor *bias,
        td_tensor *running_mean, td_tensor *running_var, bool training, double momentum, double eps,
        td_tensor *out0, td_tensor *out1, td_tensor *out2) TD_MUST_USE;
/* Gradients of batch_norm in two passes. */
TD_API int td_native_batch_norm_backward(td_tensor **results, td_tensor *grad_out, td_tensor *input,
        td_tensor *weight, td_tensor *running_mean, td_tensor *running_var, td_tensor *save_mean,
        td_tensor *save_invstd, bool train, double eps, int64_t n_output_mask,
        const bool *output_mask) TD_MUST_USE;
/* Gradients of batch_norm; differentiable where a graph is being made. */
TD_API int td_batch_norm_grad(td_tensor **results, td_tensor *grad, td_tensor *input, td_tensor *weight,
        td_tensor *running_mean, td_tensor *running_var, td_tensor *save_mean, td_tensor *save_invstd,
        bool training, double eps, int64_t n_output_mask, const bool *output_mask) TD_MUST_USE;
/* native_batch_norm with running statistics. */
TD_API int td__native_batch_norm_legit(td_tensor **results, td_tensor *input, td_tensor *weight, td_tensor *bias,
        td_tensor *running_mean, td_tensor *running_var, bool training, double momentum,
        double eps) TD_MUST_USE;
TD_API int td__native_batch_norm_legit_out(td_tensor *input, td_tensor *weight, td_tensor *bias,
        td_tensor *running_mean, td_tensor *running_var, bool training, double momentum, double eps,
        td_tensor *out0, td_tensor *out1, td_tensor *out2) TD_MUST_USE;
/* native_batch_norm without running statistics. */
TD_API int td__native_batch_norm_legit_no_stats(td_tensor **results, td_tensor *input, td_tensor *weight,
        td_tensor *bias, bool training, double momentum, double eps) TD_MUST_USE;
TD_API int td__native_batch_norm_legit_no_stats_out(td_tensor *input, td_tensor *weight, td_tensor *bias,
        bool training, double momentum, double eps, td_tensor *out0, td_tensor *out1,
        td_tensor *out2) TD_MUST_USE;
/* native_batch_norm in training, and an empty tensor where other backends keep what their backward pass needs. */
TD_API int td__batch_norm_with_update(td_tensor **results, td_tensor *input, td_tensor *weight, td_tensor *bias,
        td_tensor *running_mean, td_tensor *running_var, double momentum, double eps) TD_MUST_USE;
/* Mean and variance of each channel (dimension 1), mixed into the running ones if they are given. */
TD_API int td_batch_norm_update_stats(td_tensor **results, td_tensor *input, td_tensor *running_mean,
        td_tensor *running_var, double momentum) TD_MUST_USE;
/* batch_norm with statistics of each sample's own channels. */
TD_API td_tensor *td_instance_norm(td_tensor *input, td_tensor *weight, td_tensor *bias, td_tensor *running_mean,
        td_tensor *running_var, bool use_input_stats, double momentum, double eps, bool cudnn_enabled);
/* Each sample's channels in groups, each group brought to mean 0 and variance 1; weight and bias belong to channels. */
TD_API td_tensor *td_group_norm(td_tensor *input, int64_t num_groups, td_tensor *weight, td_tensor *bias,
        double eps, bool cudnn_enabled);
/* group_norm, and each group's mean and reciprocal deviation. */
TD_API int td_native_group_norm(td_tensor **results, td_tensor *input, td_tensor *weight, td_tensor *bias,
        int64_t N, int64_t C, int64_t HxW, int64_t group, double eps) TD_MUST_USE;
TD_API int td_native_group_norm_out(td_tensor *input, td_tensor *weight, td_tensor *bias, int64_t N, int64_t C,
        int64_t HxW, int64_t group, double eps, td_tensor *out0, td_tensor *out1, td_tensor *out2) TD_MUST_USE;
/* Gradients of group_norm in two passes. */
TD_API int td_native_group_norm_backward(td_tensor **results, td_tensor *grad_out, td_tensor *input,
        td_tensor *mean, td_tensor *rstd, td_tensor *weight, int64_t N, int64_t C, int64_t HxW, int64_t group,
        int64_t n_output_mask, const bool *output_mask) TD_MUST_USE;
/* Gradients of group_norm; differentiable where a graph is being made. */
TD_API int td_group_norm_grad(td_tensor **results, td_tensor *grad, td_tensor *grad_mean, td_tensor *grad_rstd,
        td_tensor *input, td_tensor *mean, td_tensor *rstd, td_tensor *weight, int64_t N, int64_t C, int64_t HxW,
        int64_t group, double eps, int64_t n_output_mask, const bool *output_mask) TD_MUST_USE;
/* The rows of weight that the indices name. The row ``padding_idx`` gets no gradient. */
TD_API td_tensor *td_embedding(td_tensor *weight, td_tensor *indices, int64_t padding_idx,
        bool scale_grad_by_freq, bool sparse);
TD_API int td_embedding_out(td_tensor *weight, td_tensor *indices, int64_t padding_idx, bool scale_grad_by_freq,
        bool sparse, td_tensor *out) TD_MUST_USE;
/* The gradient of embedding: sparse if ``sparse``. */
TD_API td_tensor *td_embedding_backward(td_tensor *grad, td_tensor *indices, int64_t num_weights,
        int64_t padding_idx, bool scale_grad_by_freq, bool sparse);
/* Rows of a gradient as the values of a sparse tensor, an element per index. */
TD_API td_tensor *td_embedding_sparse_backward(td_tensor *grad, td_tensor *indices, int64_t num_weights,
        int64_t padding_idx, bool scale_grad_by_freq);
/* Rows of a gradient added up by index. */
TD_API td_tensor *td_embedding_dense_backward(td_tensor *grad_output, td_tensor *indices, int64_t num_weights,
        int64_t padding_idx, bool scale_grad_by_freq);
/* The gradient of embedding_dense_backward. */
TD_API td_tensor *td_embedding_grad_grad(td_tensor *grad, td_tensor *indices, int64_t padding_idx);
/* Sums (mode 0), means (1) or maxima (2) of rows of weight over the bags that ``offsets`` begin. */
TD_API int td_embedding_bag(td_tensor **results, td_tensor *weight, td_tensor *indices, td_tensor *offsets,
        bool scale_grad_by_freq, int64_t mode, bool sparse, td_tensor *per_sample_weights,
        bool include_last_offset) TD_MUST_USE;
/* The same; indices equal to ``padding_idx`` don't count. */
TD_API int td_embedding_bag_padding_idx(td_tensor **results, td_tensor *weight, td_tensor *indices,
        td_tensor *offsets, bool scale_grad_by_freq, int64_t mode, bool sparse, td_tensor *per_sample_weights,
        bool include_last_offset, const int64_t *padding_idx) TD_MUST_USE;
/* The kernel of embedding_bag: also each index's bag, the bags' sizes, and the rows that the maxima came from. */
TD_API int td__embedding_bag(td_tensor **results, td_tensor *weight, td_tensor *indices, td_tensor *offsets,
        bool scale_grad_by_freq, int64_t mode, bool sparse, td_tensor *per_sample_weights,
        bool include_last_offset, int64_t padding_idx) TD_MUST_USE;
/* Gradients of embedding_bag. */
TD_API int td_embedding_bag_grad(td_tensor **results, td_tensor *grad, td_tensor *weight, td_tensor *indices,
        td_tensor *offset2bag, td_tensor *bag_size, td_tensor *max_indices, int64_t mode,
        bool scale_grad_by_freq, bool sparse, td_tensor *per_sample_weights, int64_t padding_idx, int64_t n_mask,
        const bool *mask) TD_MUST_USE;
/* ``softmax(scale * query @ key.T + mask) @ value`` over the last two dimensions. A boolean mask says which keys take part, one of numbers is added. With ``enable_gqa`` several query heads share one key head. */
TD_API td_tensor *td_scaled_dot_product_attention(td_tensor *query, td_tensor *key, td_tensor *value,
        td_tensor *attn_mask, double dropout_p, bool is_causal, const double *scale, bool enable_gqa);
/* Attention between (batch, length, features) operands with the projections in front of it and behind it, and its weights, or None. A mask is true where nobody looks: of (length, source) if mask_type is 0, (batch, source) if 1, (batch, heads, length, source) if 2. */
TD_API int td__native_multi_head_attention(td_tensor **results, td_tensor *query, td_tensor *key,
        td_tensor *value, int64_t embed_dim, int64_t num_head, td_tensor *qkv_weight, td_tensor *qkv_bias,
        td_tensor *proj_weight, td_tensor *proj_bias, td_tensor *mask, bool need_weights,
        bool average_attn_weights, const int64_t *mask_type) TD_MUST_USE;
/* A layer of a transformer's encoder without dropout, of strided or nested tensors. */
TD_API td_tensor *td__transformer_encoder_layer_fwd(td_tensor *src, int64_t embed_dim, int64_t num_heads,
        td_tensor *qkv_weight, td_tensor *qkv_bias, td_tensor *proj_weight, td_tensor *proj_bias, bool use_gelu,
        bool norm_first, double eps, td_tensor *norm_weight_1, td_tensor *norm_bias_1, td_tensor *norm_weight_2,
        td_tensor *norm_bias_2, td_tensor *ffn_weight_1, td_tensor *ffn_bias_1, td_tensor *ffn_weight_2,
        td_tensor *ffn_bias_2, td_tensor *mask, const int64_t *mask_type);
/* The parts of ``qkv + qkv_bias``, each of (batch, heads, length, width), the first one divided by the root of the width. */
TD_API int td__transform_bias_rescale_qkv(td_tensor **results, td_tensor *qkv, td_tensor *qkv_bias,
        int64_t num_heads) TD_MUST_USE;
/* Attention of four-dimensional operands in one pass, and the logarithm of each row's sum of exponentials. */
TD_API int td_attention(td_tensor **results, td_tensor *query, td_tensor *key, td_tensor *value, td_tensor *mask,
        bool is_causal, double scale) TD_MUST_USE;
/* Gradients of attention; the scores are computed again by tiles. */
TD_API int td_attention_backward(td_tensor **results, td_tensor *grad, td_tensor *query, td_tensor *key,
        td_tensor *value, td_tensor *mask, td_tensor *result, td_tensor *lse, bool is_causal,
        double scale) TD_MUST_USE;
/* Gradients of attention; differentiable where a graph is being made. */
TD_API int td_attention_grad(td_tensor **results, td_tensor *grad, td_tensor *query, td_tensor *key,
        td_tensor *value, td_tensor *mask, td_tensor *result, td_tensor *lse, bool is_causal, double scale,
        int64_t n_wants, const bool *wants) TD_MUST_USE;
/* Attention as GPUs have it; on the CPU an error, as in PyTorch. */
TD_API int td__flash_attention_forward(td_tensor **results, td_tensor *query, td_tensor *key, td_tensor *value,
        td_tensor *cum_seq_q, td_tensor *cum_seq_k, int64_t max_q, int64_t max_k, double dropout_p,
        bool is_causal, bool return_debug_mask, const double *scale, const int64_t *window_size_left,
        const int64_t *window_size_right, td_tensor *seqused_k, td_tensor *alibi_slopes) TD_MUST_USE;
/* Attention as GPUs have it; on the CPU an error, as in PyTorch. */
TD_API int td__efficient_attention_forward(td_tensor **results, td_tensor *query, td_tensor *key,
        td_tensor *value, td_tensor *bias, td_tensor *cu_seqlens_q, td_tensor *cu_seqlens_k,
        const int64_t *max_seqlen_q, const int64_t *max_seqlen_k, double dropout_p, int64_t custom_mask_type,
        bool compute_log_sumexp, const double *scale, td_tensor *seqlen_k,
        const int64_t *window_size) TD_MUST_USE;
TD_API int td_embedding_renorm_(td_tensor *self, td_tensor *indices, double max_norm,
        double norm_type) TD_MUST_USE;

/* ==== optimizer =========================================================================================== */

TD_API int td__fused_sgd_(int64_t n_self, td_tensor *const *self, int64_t n_grads, td_tensor *const *grads,
        int64_t n_momentum_buffer_list, td_tensor *const *momentum_buffer_list, double weight_decay,
        double momentum, double lr, double dampening, bool nesterov, bool maximize, bool is_first_step,
        td_tensor *grad_scale, td_tensor *found_inf) TD_MUST_USE;
TD_API int td__fused_sgd_tensor_lr_(int64_t n_self, td_tensor *const *self, int64_t n_grads,
        td_tensor *const *grads, int64_t n_momentum_buffer_list, td_tensor *const *momentum_buffer_list,
        double weight_decay, double momentum, td_tensor *lr, double dampening, bool nesterov, bool maximize,
        bool is_first_step, td_tensor *grad_scale, td_tensor *found_inf) TD_MUST_USE;
TD_API int td__fused_adam_(int64_t n_self, td_tensor *const *self, int64_t n_grads, td_tensor *const *grads,
        int64_t n_exp_avgs, td_tensor *const *exp_avgs, int64_t n_exp_avg_sqs, td_tensor *const *exp_avg_sqs,
        int64_t n_max_exp_avg_sqs, td_tensor *const *max_exp_avg_sqs, int64_t n_state_steps,
        td_tensor *const *state_steps, double lr, double beta1, double beta2, double weight_decay, double eps,
        bool amsgrad, bool maximize, td_tensor *grad_scale, td_tensor *found_inf) TD_MUST_USE;
TD_API int td__fused_adam_tensor_lr_(int64_t n_self, td_tensor *const *self, int64_t n_grads,
        td_tensor *const *grads, int64_t n_exp_avgs, td_tensor *const *exp_avgs, int64_t n_exp_avg_sqs,
        td_tensor *const *exp_avg_sqs, int64_t n_max_exp_avg_sqs, td_tensor *const *max_exp_avg_sqs,
        int64_t n_state_steps, td_tensor *const *state_steps, td_tensor *lr, double beta1, double beta2,
        double weight_decay, double eps, bool amsgrad, bool maximize, td_tensor *grad_scale,
        td_tensor *found_inf) TD_MUST_USE;
TD_API int td__fused_adamw_(int64_t n_self, td_tensor *const *self, int64_t n_grads, td_tensor *const *grads,
        int64_t n_exp_avgs, td_tensor *const *exp_avgs, int64_t n_exp_avg_sqs, td_tensor *const *exp_avg_sqs,
        int64_t n_max_exp_avg_sqs, td_tensor *const *max_exp_avg_sqs, int64_t n_state_steps,
        td_tensor *const *state_steps, double lr, double beta1, double beta2, double weight_decay, double eps,
        bool amsgrad, bool maximize, td_tensor *grad_scale, td_tensor *found_inf) TD_MUST_USE;
TD_API int td__fused_adamw_tensor_lr_(int64_t n_self, td_tensor *const *self, int64_t n_grads,
        td_tensor *const *grads, int64_t n_exp_avgs, td_tensor *const *exp_avgs, int64_t n_exp_avg_sqs,
        td_tensor *const *exp_avg_sqs, int64_t n_max_exp_avg_sqs, td_tensor *const *max_exp_avg_sqs,
        int64_t n_state_steps, td_tensor *const *state_steps, td_tensor *lr, double beta1, double beta2,
        double weight_decay, double eps, bool amsgrad, bool maximize, td_tensor *grad_scale,
        td_tensor *found_inf) TD_MUST_USE;
TD_API int td__fused_adagrad_(int64_t n_self, td_tensor *const *self, int64_t n_grads, td_tensor *const *grads,
        int64_t n_state_sums, td_tensor *const *state_sums, int64_t n_state_steps, td_tensor *const *state_steps,
        double lr, double lr_decay, double weight_decay, double eps, bool maximize, td_tensor *grad_scale,
        td_tensor *found_inf) TD_MUST_USE;

/* ==== packed ============================================================================================== */

/* Self with the elements of its last dimension in blocks of few bits. Formats: ``int8`` (a scale for each row), ``int4_g32``, ``int4_g64`` and ``int4_g128`` (a scale and a zero point for each group of so many), GGUF's ``q4_0``, ``q8_0``, ``q4_k`` and ``q6_k``, and ``mxfp4``. ``linear`` multiplies by it, ``to_dense`` unpacks it; its elements can't be written. */
TD_API td_tensor *td_to_packed(td_tensor *self, const char *format);
/* A packed tensor over a format's blocks, which are bytes. */
TD_API td_tensor *td__packed_from_blocks(td_tensor *blocks, int64_t n_size, const int64_t *size,
        const char *format, td_dtype dtype);
/* The rows of a matrix as blocks of a format. */
TD_API td_tensor *td__pack_rows(td_tensor *self, const char *format);
/* The matrix whose rows are these blocks. */
TD_API td_tensor *td__unpack_rows(td_tensor *rows, const char *format, int64_t columns, td_dtype dtype);
/* What ``linear`` gives of a weight whose rows are these blocks. */
TD_API td_tensor *td__packed_linear(td_tensor *input, td_tensor *rows, const char *format, int64_t columns,
        td_tensor *bias);
/* A matrix of codes of four bits (int32, 0 to 15) as `_weight_int4pack_mm_for_cpu` reads it, two codes in a byte. `innerKTiles` means nothing on the CPU. */
TD_API td_tensor *td__convert_weight_to_int4pack_for_cpu(td_tensor *self, int64_t innerKTiles);
/* ``self @ w.T`` of packed codes: ``w = (code - 8) * scale + zero``, with a scale and a zero for each `qGroupSize` columns of each row. */
TD_API td_tensor *td__weight_int4pack_mm_for_cpu(td_tensor *self, td_tensor *mat2, int64_t qGroupSize,
        td_tensor *qScaleAndZeros);
/* ``self @ (mat2.T * scales)``, where `mat2` is of int8 and has a scale for each row. */
TD_API td_tensor *td__weight_int8pack_mm(td_tensor *self, td_tensor *mat2, td_tensor *scales);
/* Codes of four bits, of which a byte holds those of two columns, scales and bias in one tensor, as `_dyn_quant_matmul_4bit` reads it. */
TD_API td_tensor *td__dyn_quant_pack_4bit_weight(td_tensor *weights, td_tensor *scales_zeros, td_tensor *bias,
        int64_t block_size, int64_t in_features, int64_t out_features);
/* ``inp @ w.T + bias`` for ``w = (code - 8) * scale``. Each row of `inp` is quantized to int8 on the way, with a scale and a zero point. */
TD_API td_tensor *td__dyn_quant_matmul_4bit(td_tensor *inp, td_tensor *packed_weights, int64_t block_size,
        int64_t in_features, int64_t out_features);
/* Codes of four bits as a device's `_weight_int4pack_mm` reads them. On the CPU it is `_convert_weight_to_int4pack_for_cpu`. */
TD_API td_tensor *td__convert_weight_to_int4pack(td_tensor *self, int64_t innerKTiles);
/* A device's product with codes of four bits. On the CPU it is `_weight_int4pack_mm_for_cpu`. */
TD_API td_tensor *td__weight_int4pack_mm(td_tensor *self, td_tensor *mat2, int64_t qGroupSize,
        td_tensor *qScaleAndZeros);
/* The same with scales and zeros in separate tensors. */
TD_API td_tensor *td__weight_int4pack_mm_with_scales_and_zeros(td_tensor *self, td_tensor *mat2,
        int64_t qGroupSize, td_tensor *qScale, td_tensor *qZeros);

/* ==== pad ================================================================================================= */

/* self with ``value`` around it: pad lists what goes before and behind, the last dimension first; less than 0 cuts off. */
TD_API td_tensor *td_constant_pad_nd(td_tensor *self, int64_t n_pad, const int64_t *pad, td_scalar value);
TD_API int td_constant_pad_nd_out(td_tensor *self, int64_t n_pad, const int64_t *pad, td_scalar value,
        td_tensor *out) TD_MUST_USE;
/* The gradient of constant_pad_nd: padding with the opposite sign. */
TD_API td_tensor *td_pad_taken_back(td_tensor *self, int64_t n_pad, const int64_t *pad);
/* Padding by mode: constant, reflect, replicate or circular. */
TD_API td_tensor *td_pad_mode(td_tensor *self, int64_t n_pad, const int64_t *pad, const char *mode,
        const double *value);
/* self repeated around itself. */
TD_API td_tensor *td__pad_circular(td_tensor *self, int64_t n_pad, const int64_t *pad);
/* The last dimensions widened by elements of self: 0 mirrored, 1 the outermost ones repeated, 2 self repeated. */
TD_API td_tensor *td_pad_edges(td_tensor *self, int64_t n_pad, const int64_t *pad, int64_t mode);
/* Gradients added up where the elements came from. */
TD_API td_tensor *td_pad_edges_backward(td_tensor *grad, td_tensor *self, int64_t n_pad, const int64_t *pad,
        int64_t mode);
/* The last dimension mirrored at its ends, which aren't repeated. */
TD_API td_tensor *td_reflection_pad1d(td_tensor *self, int64_t n_padding, const int64_t *padding);
TD_API int td_reflection_pad1d_out(td_tensor *self, int64_t n_padding, const int64_t *padding,
        td_tensor *out) TD_MUST_USE;
/* The last two dimensions mirrored at their ends. */
TD_API td_tensor *td_reflection_pad2d(td_tensor *self, int64_t n_padding, const int64_t *padding);
TD_API int td_reflection_pad2d_out(td_tensor *self, int64_t n_padding, const int64_t *padding,
        td_tensor *out) TD_MUST_USE;
/* The last three dimensions mirrored at their ends. */
TD_API td_tensor *td_reflection_pad3d(td_tensor *self, int64_t n_padding, const int64_t *padding);
TD_API int td_reflection_pad3d_out(td_tensor *self, int64_t n_padding, const int64_t *padding,
        td_tensor *out) TD_MUST_USE;
/* The elements at the ends of the last dimension repeated outwards. */
TD_API td_tensor *td_replication_pad1d(td_tensor *self, int64_t n_padding, const int64_t *padding);
TD_API int td_replication_pad1d_out(td_tensor *self, int64_t n_padding, const int64_t *padding,
        td_tensor *out) TD_MUST_USE;
/* The elements at the edges of the last two dimensions repeated outwards. */
TD_API td_tensor *td_replication_pad2d(td_tensor *self, int64_t n_padding, const int64_t *padding);
TD_API int td_replication_pad2d_out(td_tensor *self, int64_t n_padding, const int64_t *padding,
        td_tensor *out) TD_MUST_USE;
/* The elements at the edges of the last three dimensions repeated outwards. */
TD_API td_tensor *td_replication_pad3d(td_tensor *self, int64_t n_padding, const int64_t *padding);
TD_API int td_replication_pad3d_out(td_tensor *self, int64_t n_padding, const int64_t *padding,
        td_tensor *out) TD_MUST_USE;
/* Rows of zeros with a one where each class number says; without a number of classes, as many as needed. */
TD_API td_tensor *td_one_hot(td_tensor *self, int64_t num_classes);
/* Channels spread over space: [.., c r r, h, w] becomes [.., c, h r, w r]. */
TD_API td_tensor *td_pixel_shuffle(td_tensor *self, int64_t upscale_factor);
/* The opposite of pixel_shuffle. */
TD_API td_tensor *td_pixel_unshuffle(td_tensor *self, int64_t downscale_factor);
/* Channels of several groups interleaved. */
TD_API td_tensor *td_channel_shuffle(td_tensor *self, int64_t groups);
/* The same as channel_shuffle. */
TD_API td_tensor *td_native_channel_shuffle(td_tensor *self, int64_t groups);
/* The first half along a dimension times the sigmoid of the second. */
TD_API td_tensor *td_glu(td_tensor *self, int64_t dim);
TD_API int td_glu_out(td_tensor *self, int64_t dim, td_tensor *out) TD_MUST_USE;

/* ==== pointwise =========================================================================================== */

/* ``self + alpha * other``, elementwise with broadcasting. */
TD_API td_tensor *td_add_tensor(td_tensor *self, td_tensor *other, td_scalar alpha);
TD_API int td_add_tensor_(td_tensor *self, td_tensor *other, td_scalar alpha) TD_MUST_USE;
TD_API int td_add_out(td_tensor *self, td_tensor *other, td_scalar alpha, td_tensor *out) TD_MUST_USE;
/* ``self - alpha * other``, elementwise with broadcasting. */
TD_API td_tensor *td_sub_tensor(td_tensor *self, td_tensor *other, td_scalar alpha);
TD_API int td_sub_tensor_(td_tensor *self, td_tensor *other, td_scalar alpha) TD_MUST_USE;
TD_API int td_sub_out(td_tensor *self, td_tensor *other, td_scalar alpha, td_tensor *out) TD_MUST_USE;
/* ``self * other``, elementwise with broadcasting. */
TD_API td_tensor *td_mul_tensor(td_tensor *self, td_tensor *other);
TD_API int td_mul_tensor_(td_tensor *self, td_tensor *other) TD_MUST_USE;
TD_API int td_mul_out(td_tensor *self, td_tensor *other, td_tensor *out) TD_MUST_USE;
/* ``self / other``, elementwise; integers are divided as floats. */
TD_API td_tensor *td_div_tensor(td_tensor *self, td_tensor *other);
TD_API int td_div_tensor_(td_tensor *self, td_tensor *other) TD_MUST_USE;
TD_API int td_div_out(td_tensor *self, td_tensor *other, td_tensor *out) TD_MUST_USE;
/* Division with ``rounding_mode`` None (true division), 'trunc' (towards zero) or 'floor'. */
TD_API td_tensor *td_div_tensor_mode(td_tensor *self, td_tensor *other, const char *rounding_mode);
TD_API int td_div_tensor_mode_(td_tensor *self, td_tensor *other, const char *rounding_mode) TD_MUST_USE;
TD_API int td_div_out_mode(td_tensor *self, td_tensor *other, const char *rounding_mode,
        td_tensor *out) TD_MUST_USE;
/* Division rounded down, elementwise. */
TD_API td_tensor *td_floor_divide(td_tensor *self, td_tensor *other);
TD_API int td_floor_divide_(td_tensor *self, td_tensor *other) TD_MUST_USE;
TD_API int td_floor_divide_out(td_tensor *self, td_tensor *other, td_tensor *out) TD_MUST_USE;
/* Division rounded towards zero, elementwise. */
TD_API td_tensor *td_trunc_divide(td_tensor *self, td_tensor *other);
TD_API int td_trunc_divide_(td_tensor *self, td_tensor *other) TD_MUST_USE;
TD_API int td_trunc_divide_out(td_tensor *self, td_tensor *other, td_tensor *out) TD_MUST_USE;
/* Division rounded down, with a gradient of 0. */
TD_API td_tensor *td_floor_divide_mode(td_tensor *self, td_tensor *other);
/* The remainder with the sign of the divisor, as Python's ``%``. */
TD_API td_tensor *td_remainder_tensor(td_tensor *self, td_tensor *other);
TD_API int td_remainder_tensor_(td_tensor *self, td_tensor *other) TD_MUST_USE;
TD_API int td_remainder_out(td_tensor *self, td_tensor *other, td_tensor *out) TD_MUST_USE;
/* The remainder with the sign of the dividend, as C's ``fmod``. */
TD_API td_tensor *td_fmod_tensor(td_tensor *self, td_tensor *other);
TD_API int td_fmod_tensor_(td_tensor *self, td_tensor *other) TD_MUST_USE;
TD_API int td_fmod_out(td_tensor *self, td_tensor *other, td_tensor *out) TD_MUST_USE;
/* ``self ** exponent``, elementwise. */
TD_API td_tensor *td_pow_tensor_tensor(td_tensor *self, td_tensor *exponent);
TD_API int td_pow_tensor_tensor_(td_tensor *self, td_tensor *exponent) TD_MUST_USE;
TD_API int td_pow_tensor_tensor_out(td_tensor *self, td_tensor *exponent, td_tensor *out) TD_MUST_USE;
/* The angle of the points (other, self), in radians from -pi to pi. */
TD_API td_tensor *td_atan2(td_tensor *self, td_tensor *other);
TD_API int td_atan2_(td_tensor *self, td_tensor *other) TD_MUST_USE;
TD_API int td_atan2_out(td_tensor *self, td_tensor *other, td_tensor *out) TD_MUST_USE;
/* ``sqrt(self**2 + other**2)`` without overflow. */
TD_API td_tensor *td_hypot(td_tensor *self, td_tensor *other);
TD_API int td_hypot_(td_tensor *self, td_tensor *other) TD_MUST_USE;
TD_API int td_hypot_out(td_tensor *self, td_tensor *other, td_tensor *out) TD_MUST_USE;
/* The larger of both, NaN if one is NaN. */
TD_API td_tensor *td_maximum(td_tensor *self, td_tensor *other);
TD_API int td_maximum_out(td_tensor *self, td_tensor *other, td_tensor *out) TD_MUST_USE;
/* The smaller of both, NaN if one is NaN. */
TD_API td_tensor *td_minimum(td_tensor *self, td_tensor *other);
TD_API int td_minimum_out(td_tensor *self, td_tensor *other, td_tensor *out) TD_MUST_USE;
/* The larger of both; where one is NaN, the other. */
TD_API td_tensor *td_fmax(td_tensor *self, td_tensor *other);
TD_API int td_fmax_out(td_tensor *self, td_tensor *other, td_tensor *out) TD_MUST_USE;
/* The smaller of both; where one is NaN, the other. */
TD_API td_tensor *td_fmin(td_tensor *self, td_tensor *other);
TD_API int td_fmin_out(td_tensor *self, td_tensor *other, td_tensor *out) TD_MUST_USE;
/* The magnitude of self with the sign of other. */
TD_API td_tensor *td_copysign_tensor(td_tensor *self, td_tensor *other);
TD_API int td_copysign_tensor_(td_tensor *self, td_tensor *other) TD_MUST_USE;
TD_API int td_copysign_out(td_tensor *self, td_tensor *other, td_tensor *out) TD_MUST_USE;
/* The next floating point number after self towards other. */
TD_API td_tensor *td_nextafter(td_tensor *self, td_tensor *other);
TD_API int td_nextafter_(td_tensor *self, td_tensor *other) TD_MUST_USE;
TD_API int td_nextafter_out(td_tensor *self, td_tensor *other, td_tensor *out) TD_MUST_USE;
/* ``log(exp(self) + exp(other))``, elementwise, without overflow. Equal infinities give that infinity. */
TD_API td_tensor *td_logaddexp(td_tensor *self, td_tensor *other);
TD_API int td_logaddexp_out(td_tensor *self, td_tensor *other, td_tensor *out) TD_MUST_USE;
/* ``log2(2**self + 2**other)``, elementwise, without overflow. */
TD_API td_tensor *td_logaddexp2(td_tensor *self, td_tensor *other);
TD_API int td_logaddexp2_out(td_tensor *self, td_tensor *other, td_tensor *out) TD_MUST_USE;
/* ``self * log(other)``, 0 where self is 0. */
TD_API td_tensor *td_xlogy_tensor(td_tensor *self, td_tensor *other);
TD_API int td_xlogy_tensor_(td_tensor *self, td_tensor *other) TD_MUST_USE;
TD_API int td_xlogy_out(td_tensor *self, td_tensor *other, td_tensor *out) TD_MUST_USE;
/* Linear interpolation, ``self + weight * (end - self)``, exact at both ends. */
TD_API td_tensor *td_lerp_tensor(td_tensor *self, td_tensor *end, td_tensor *weight);
TD_API int td_lerp_tensor_(td_tensor *self, td_tensor *end, td_tensor *weight) TD_MUST_USE;
TD_API int td_lerp_out(td_tensor *self, td_tensor *end, td_tensor *weight, td_tensor *out) TD_MUST_USE;
/* Linear interpolation with one weight. */
TD_API td_tensor *td_lerp_scalar(td_tensor *self, td_tensor *end, td_scalar weight);
TD_API int td_lerp_scalar_(td_tensor *self, td_tensor *end, td_scalar weight) TD_MUST_USE;
TD_API int td_lerp_scalar_out(td_tensor *self, td_tensor *end, td_scalar weight, td_tensor *out) TD_MUST_USE;
/* ``self + value * tensor1 * tensor2``, elementwise. */
TD_API td_tensor *td_addcmul(td_tensor *self, td_tensor *tensor1, td_tensor *tensor2, td_scalar value);
TD_API int td_addcmul_(td_tensor *self, td_tensor *tensor1, td_tensor *tensor2, td_scalar value) TD_MUST_USE;
TD_API int td_addcmul_out(td_tensor *self, td_tensor *tensor1, td_tensor *tensor2, td_scalar value,
        td_tensor *out) TD_MUST_USE;
/* ``self + value * tensor1 / tensor2``, elementwise. */
TD_API td_tensor *td_addcdiv(td_tensor *self, td_tensor *tensor1, td_tensor *tensor2, td_scalar value);
TD_API int td_addcdiv_(td_tensor *self, td_tensor *tensor1, td_tensor *tensor2, td_scalar value) TD_MUST_USE;
TD_API int td_addcdiv_out(td_tensor *self, td_tensor *tensor1, td_tensor *tensor2, td_scalar value,
        td_tensor *out) TD_MUST_USE;
/* ``self`` where the condition holds, else ``other``. */
TD_API td_tensor *td_where_self(td_tensor *condition, td_tensor *self, td_tensor *other);
TD_API int td_where_self_out(td_tensor *condition, td_tensor *self, td_tensor *other,
        td_tensor *out) TD_MUST_USE;
/* Whether self equals other, elementwise. */
TD_API td_tensor *td_eq_tensor(td_tensor *self, td_tensor *other);
TD_API int td_eq_tensor_(td_tensor *self, td_tensor *other) TD_MUST_USE;
TD_API int td_eq_out(td_tensor *self, td_tensor *other, td_tensor *out) TD_MUST_USE;
/* Whether self differs from other, elementwise. */
TD_API td_tensor *td_ne_tensor(td_tensor *self, td_tensor *other);
TD_API int td_ne_tensor_(td_tensor *self, td_tensor *other) TD_MUST_USE;
TD_API int td_ne_out(td_tensor *self, td_tensor *other, td_tensor *out) TD_MUST_USE;
/* Whether self is less than other, elementwise. */
TD_API td_tensor *td_lt_tensor(td_tensor *self, td_tensor *other);
TD_API int td_lt_tensor_(td_tensor *self, td_tensor *other) TD_MUST_USE;
TD_API int td_lt_out(td_tensor *self, td_tensor *other, td_tensor *out) TD_MUST_USE;
/* Whether self is less than or equal to other, elementwise. */
TD_API td_tensor *td_le_tensor(td_tensor *self, td_tensor *other);
TD_API int td_le_tensor_(td_tensor *self, td_tensor *other) TD_MUST_USE;
TD_API int td_le_out(td_tensor *self, td_tensor *other, td_tensor *out) TD_MUST_USE;
/* Whether self is greater than other, elementwise. */
TD_API td_tensor *td_gt_tensor(td_tensor *self, td_tensor *other);
TD_API int td_gt_tensor_(td_tensor *self, td_tensor *other) TD_MUST_USE;
TD_API int td_gt_out(td_tensor *self, td_tensor *other, td_tensor *out) TD_MUST_USE;
/* Whether self is greater than or equal to other, elementwise. */
TD_API td_tensor *td_ge_tensor(td_tensor *self, td_tensor *other);
TD_API int td_ge_tensor_(td_tensor *self, td_tensor *other) TD_MUST_USE;
TD_API int td_ge_out(td_tensor *self, td_tensor *other, td_tensor *out) TD_MUST_USE;
/* Whether both are true (not zero), elementwise. */
TD_API td_tensor *td_logical_and(td_tensor *self, td_tensor *other);
TD_API int td_logical_and_(td_tensor *self, td_tensor *other) TD_MUST_USE;
TD_API int td_logical_and_out(td_tensor *self, td_tensor *other, td_tensor *out) TD_MUST_USE;
/* Whether one is true (not zero), elementwise. */
TD_API td_tensor *td_logical_or(td_tensor *self, td_tensor *other);
TD_API int td_logical_or_(td_tensor *self, td_tensor *other) TD_MUST_USE;
TD_API int td_logical_or_out(td_tensor *self, td_tensor *other, td_tensor *out) TD_MUST_USE;
/* Whether exactly one is true (not zero), elementwise. */
TD_API td_tensor *td_logical_xor(td_tensor *self, td_tensor *other);
TD_API int td_logical_xor_(td_tensor *self, td_tensor *other) TD_MUST_USE;
TD_API int td_logical_xor_out(td_tensor *self, td_tensor *other, td_tensor *out) TD_MUST_USE;
/* Whether self is false (zero), elementwise. */
TD_API td_tensor *td_logical_not(td_tensor *self);
TD_API int td_logical_not_(td_tensor *self) TD_MUST_USE;
TD_API int td_logical_not_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* Bitwise and; logical for bool. */
TD_API td_tensor *td_bitwise_and_tensor(td_tensor *self, td_tensor *other);
TD_API int td_bitwise_and_tensor_(td_tensor *self, td_tensor *other) TD_MUST_USE;
TD_API int td_bitwise_and_out(td_tensor *self, td_tensor *other, td_tensor *out) TD_MUST_USE;
/* Bitwise or; logical for bool. */
TD_API td_tensor *td_bitwise_or_tensor(td_tensor *self, td_tensor *other);
TD_API int td_bitwise_or_tensor_(td_tensor *self, td_tensor *other) TD_MUST_USE;
TD_API int td_bitwise_or_out(td_tensor *self, td_tensor *other, td_tensor *out) TD_MUST_USE;
/* Bitwise exclusive or; logical for bool. */
TD_API td_tensor *td_bitwise_xor_tensor(td_tensor *self, td_tensor *other);
TD_API int td_bitwise_xor_tensor_(td_tensor *self, td_tensor *other) TD_MUST_USE;
TD_API int td_bitwise_xor_out(td_tensor *self, td_tensor *other, td_tensor *out) TD_MUST_USE;
/* Bitwise complement; logical for bool. */
TD_API td_tensor *td_bitwise_not(td_tensor *self);
TD_API int td_bitwise_not_(td_tensor *self) TD_MUST_USE;
TD_API int td_bitwise_not_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* Bits shifted left. */
TD_API td_tensor *td_bitwise_left_shift_tensor(td_tensor *self, td_tensor *other);
TD_API int td_bitwise_left_shift_tensor_(td_tensor *self, td_tensor *other) TD_MUST_USE;
TD_API int td_bitwise_left_shift_out(td_tensor *self, td_tensor *other, td_tensor *out) TD_MUST_USE;
/* Bits shifted right, keeping the sign. */
TD_API td_tensor *td_bitwise_right_shift_tensor(td_tensor *self, td_tensor *other);
TD_API int td_bitwise_right_shift_tensor_(td_tensor *self, td_tensor *other) TD_MUST_USE;
TD_API int td_bitwise_right_shift_out(td_tensor *self, td_tensor *other, td_tensor *out) TD_MUST_USE;
/* Greatest common divisor, never negative. */
TD_API td_tensor *td_gcd(td_tensor *self, td_tensor *other);
TD_API int td_gcd_(td_tensor *self, td_tensor *other) TD_MUST_USE;
TD_API int td_gcd_out(td_tensor *self, td_tensor *other, td_tensor *out) TD_MUST_USE;
/* Least common multiple, never negative. */
TD_API td_tensor *td_lcm(td_tensor *self, td_tensor *other);
TD_API int td_lcm_(td_tensor *self, td_tensor *other) TD_MUST_USE;
TD_API int td_lcm_out(td_tensor *self, td_tensor *other, td_tensor *out) TD_MUST_USE;
/* 0 below zero, 1 above it, and ``values`` at it. */
TD_API td_tensor *td_heaviside(td_tensor *self, td_tensor *values);
TD_API int td_heaviside_(td_tensor *self, td_tensor *values) TD_MUST_USE;
TD_API int td_heaviside_out(td_tensor *self, td_tensor *values, td_tensor *out) TD_MUST_USE;

/* ==== pool ================================================================================================ */

/* The largest element of each window over the last dimension. */
TD_API td_tensor *td_max_pool1d(td_tensor *self, int64_t n_kernel_size, const int64_t *kernel_size,
        int64_t n_stride, const int64_t *stride, int64_t n_padding, const int64_t *padding, int64_t n_dilation,
        const int64_t *dilation, bool ceil_mode);
/* max_pool1d, and where the elements were. */
TD_API int td_max_pool1d_with_indices(td_tensor **results, td_tensor *self, int64_t n_kernel_size,
        const int64_t *kernel_size, int64_t n_stride, const int64_t *stride, int64_t n_padding,
        const int64_t *padding, int64_t n_dilation, const int64_t *dilation, bool ceil_mode) TD_MUST_USE;
/* The largest element of each window over the last two dimensions. */
TD_API td_tensor *td_max_pool2d(td_tensor *self, int64_t n_kernel_size, const int64_t *kernel_size,
        int64_t n_stride, const int64_t *stride, int64_t n_padding, const int64_t *padding, int64_t n_dilation,
        const int64_t *dilation, bool ceil_mode);
/* max_pool2d, and where the elements were within the image. */
TD_API int td_max_pool2d_with_indices(td_tensor **results, td_tensor *self, int64_t n_kernel_size,
        const int64_t *kernel_size, int64_t n_stride, const int64_t *stride, int64_t n_padding,
        const int64_t *padding, int64_t n_dilation, const int64_t *dilation, bool ceil_mode) TD_MUST_USE;
TD_API int td_max_pool2d_with_indices_out(td_tensor *self, int64_t n_kernel_size, const int64_t *kernel_size,
        int64_t n_stride, const int64_t *stride, int64_t n_padding, const int64_t *padding, int64_t n_dilation,
        const int64_t *dilation, bool ceil_mode, td_tensor *out0, td_tensor *out1) TD_MUST_USE;
/* The largest element of each window over the last three dimensions. */
TD_API td_tensor *td_max_pool3d(td_tensor *self, int64_t n_kernel_size, const int64_t *kernel_size,
        int64_t n_stride, const int64_t *stride, int64_t n_padding, const int64_t *padding, int64_t n_dilation,
        const int64_t *dilation, bool ceil_mode);
/* max_pool3d, and where the elements were within the volume. */
TD_API int td_max_pool3d_with_indices(td_tensor **results, td_tensor *self, int64_t n_kernel_size,
        const int64_t *kernel_size, int64_t n_stride, const int64_t *stride, int64_t n_padding,
        const int64_t *padding, int64_t n_dilation, const int64_t *dilation, bool ceil_mode) TD_MUST_USE;
TD_API int td_max_pool3d_with_indices_out(td_tensor *self, int64_t n_kernel_size, const int64_t *kernel_size,
        int64_t n_stride, const int64_t *stride, int64_t n_padding, const int64_t *padding, int64_t n_dilation,
        const int64_t *dilation, bool ceil_mode, td_tensor *out0, td_tensor *out1) TD_MUST_USE;
/* Gradients put where the indices of max_pool2d say. */
TD_API td_tensor *td_max_pool2d_with_indices_backward(td_tensor *grad_output, td_tensor *self,
        int64_t n_kernel_size, const int64_t *kernel_size, int64_t n_stride, const int64_t *stride,
        int64_t n_padding, const int64_t *padding, int64_t n_dilation, const int64_t *dilation, bool ceil_mode,
        td_tensor *indices);
TD_API int td_max_pool2d_with_indices_backward_grad_input(td_tensor *grad_output, td_tensor *self,
        int64_t n_kernel_size, const int64_t *kernel_size, int64_t n_stride, const int64_t *stride,
        int64_t n_padding, const int64_t *padding, int64_t n_dilation, const int64_t *dilation, bool ceil_mode,
        td_tensor *indices, td_tensor *out) TD_MUST_USE;
/* Gradients put where the indices of max_pool3d say. */
TD_API td_tensor *td_max_pool3d_with_indices_backward(td_tensor *grad_output, td_tensor *self,
        int64_t n_kernel_size, const int64_t *kernel_size, int64_t n_stride, const int64_t *stride,
        int64_t n_padding, const int64_t *padding, int64_t n_dilation, const int64_t *dilation, bool ceil_mode,
        td_tensor *indices);
TD_API int td_max_pool3d_with_indices_backward_grad_input(td_tensor *grad_output, td_tensor *self,
        int64_t n_kernel_size, const int64_t *kernel_size, int64_t n_stride, const int64_t *stride,
        int64_t n_padding, const int64_t *padding, int64_t n_dilation, const int64_t *dilation, bool ceil_mode,
        td_tensor *indices, td_tensor *out) TD_MUST_USE;
/* Gradients put where the largest elements were. */
TD_API td_tensor *td_max_pool_backward(td_tensor *grad_output, td_tensor *self, td_tensor *indices,
        int64_t dims);
/* The elements where the largest ones were: the gradient of max_pool_backward. */
TD_API td_tensor *td_max_pool_pick(td_tensor *self, td_tensor *indices, int64_t dims);
/* The largest elements of as many windows as the result has elements, and where they were. */
TD_API int td_adaptive_max_pool1d(td_tensor **results, td_tensor *self, int64_t n_output_size,
        const int64_t *output_size) TD_MUST_USE;
/* The same over two dimensions. */
TD_API int td_adaptive_max_pool2d(td_tensor **results, td_tensor *self, int64_t n_output_size,
        const int64_t *output_size) TD_MUST_USE;
TD_API int td_adaptive_max_pool2d_out(td_tensor *self, int64_t n_output_size, const int64_t *output_size,
        td_tensor *out0, td_tensor *out1) TD_MUST_USE;
/* The same over three dimensions. */
TD_API int td_adaptive_max_pool3d(td_tensor **results, td_tensor *self, int64_t n_output_size,
        const int64_t *output_size) TD_MUST_USE;
TD_API int td_adaptive_max_pool3d_out(td_tensor *self, int64_t n_output_size, const int64_t *output_size,
        td_tensor *out0, td_tensor *out1) TD_MUST_USE;
/* The mean of each window over the last dimension. */
TD_API td_tensor *td_avg_pool1d(td_tensor *self, int64_t n_kernel_size, const int64_t *kernel_size,
        int64_t n_stride, const int64_t *stride, int64_t n_padding, const int64_t *padding, bool ceil_mode,
        bool count_include_pad);
/* The mean of each window over the last two dimensions. */
TD_API td_tensor *td_avg_pool2d(td_tensor *self, int64_t n_kernel_size, const int64_t *kernel_size,
        int64_t n_stride, const int64_t *stride, int64_t n_padding, const int64_t *padding, bool ceil_mode,
        bool count_include_pad, const int64_t *divisor_override);
TD_API int td_avg_pool2d_out(td_tensor *self, int64_t n_kernel_size, const int64_t *kernel_size,
        int64_t n_stride, const int64_t *stride, int64_t n_padding, const int64_t *padding, bool ceil_mode,
        bool count_include_pad, const int64_t *divisor_override, td_tensor *out) TD_MUST_USE;
/* The mean of each window over the last three dimensions. */
TD_API td_tensor *td_avg_pool3d(td_tensor *self, int64_t n_kernel_size, const int64_t *kernel_size,
        int64_t n_stride, const int64_t *stride, int64_t n_padding, const int64_t *padding, bool ceil_mode,
        bool count_include_pad, const int64_t *divisor_override);
TD_API int td_avg_pool3d_out(td_tensor *self, int64_t n_kernel_size, const int64_t *kernel_size,
        int64_t n_stride, const int64_t *stride, int64_t n_padding, const int64_t *padding, bool ceil_mode,
        bool count_include_pad, const int64_t *divisor_override, td_tensor *out) TD_MUST_USE;
/* Gradients of avg_pool2d, spread over the windows that were averaged. */
TD_API td_tensor *td_avg_pool2d_backward(td_tensor *grad_output, td_tensor *self, int64_t n_kernel_size,
        const int64_t *kernel_size, int64_t n_stride, const int64_t *stride, int64_t n_padding,
        const int64_t *padding, bool ceil_mode, bool count_include_pad, const int64_t *divisor_override);
TD_API int td_avg_pool2d_backward_grad_input(td_tensor *grad_output, td_tensor *self, int64_t n_kernel_size,
        const int64_t *kernel_size, int64_t n_stride, const int64_t *stride, int64_t n_padding,
        const int64_t *padding, bool ceil_mode, bool count_include_pad, const int64_t *divisor_override,
        td_tensor *out) TD_MUST_USE;
/* Gradients of avg_pool3d, spread over the windows that were averaged. */
TD_API td_tensor *td_avg_pool3d_backward(td_tensor *grad_output, td_tensor *self, int64_t n_kernel_size,
        const int64_t *kernel_size, int64_t n_stride, const int64_t *stride, int64_t n_padding,
        const int64_t *padding, bool ceil_mode, bool count_include_pad, const int64_t *divisor_override);
TD_API int td_avg_pool3d_backward_grad_input(td_tensor *grad_output, td_tensor *self, int64_t n_kernel_size,
        const int64_t *kernel_size, int64_t n_stride, const int64_t *stride, int64_t n_padding,
        const int64_t *padding, bool ceil_mode, bool count_include_pad, const int64_t *divisor_override,
        td_tensor *out) TD_MUST_USE;
/* Means of as many windows as the result has elements. */
TD_API td_tensor *td_adaptive_avg_pool1d(td_tensor *self, int64_t n_output_size, const int64_t *output_size);
/* The same over two dimensions. */
TD_API td_tensor *td_adaptive_avg_pool2d(td_tensor *self, int64_t n_output_size, const int64_t *output_size);
TD_API int td_adaptive_avg_pool2d_out(td_tensor *self, int64_t n_output_size, const int64_t *output_size,
        td_tensor *out) TD_MUST_USE;
/* The same as adaptive_avg_pool2d. */
TD_API td_tensor *td__adaptive_avg_pool2d(td_tensor *self, int64_t n_output_size, const int64_t *output_size);
/* The same over three dimensions. */
TD_API td_tensor *td_adaptive_avg_pool3d(td_tensor *self, int64_t n_output_size, const int64_t *output_size);
TD_API int td_adaptive_avg_pool3d_out(td_tensor *self, int64_t n_output_size, const int64_t *output_size,
        td_tensor *out) TD_MUST_USE;
/* The kernel of adaptive_avg_pool. */
TD_API td_tensor *td_adaptive_avg_windows(td_tensor *self, int64_t n_output_size, const int64_t *output_size);
/* Gradients spread over the windows that were averaged. */
TD_API td_tensor *td_adaptive_avg_backward(td_tensor *grad, td_tensor *self, int64_t n_output_size,
        const int64_t *output_size);
/* The gradient of adaptive_avg_pool2d. */
TD_API td_tensor *td__adaptive_avg_pool2d_backward(td_tensor *grad_output, td_tensor *self);
/* The gradient of adaptive_avg_pool3d. */
TD_API td_tensor *td__adaptive_avg_pool3d_backward(td_tensor *grad_output, td_tensor *self);
/* Elements put where the indices of max_pool2d say, zeros elsewhere. */
TD_API td_tensor *td_max_unpool2d(td_tensor *self, td_tensor *indices, int64_t n_output_size,
        const int64_t *output_size);
TD_API int td_max_unpool2d_out(td_tensor *self, td_tensor *indices, int64_t n_output_size,
        const int64_t *output_size, td_tensor *out) TD_MUST_USE;
/* Elements put where the indices of max_pool3d say, zeros elsewhere. */
TD_API td_tensor *td_max_unpool3d(td_tensor *self, td_tensor *indices, int64_t n_output_size,
        const int64_t *output_size, int64_t n_stride, const int64_t *stride, int64_t n_padding,
        const int64_t *padding);
TD_API int td_max_unpool3d_out(td_tensor *self, td_tensor *indices, int64_t n_output_size,
        const int64_t *output_size, int64_t n_stride, const int64_t *stride, int64_t n_padding,
        const int64_t *padding, td_tensor *out) TD_MUST_USE;
/* The largest elements of windows at positions that random_samples choose for each channel, and where they were. */
TD_API int td_fractional_max_pool2d(td_tensor **results, td_tensor *self, int64_t n_kernel_size,
        const int64_t *kernel_size, int64_t n_output_size, const int64_t *output_size,
        td_tensor *random_samples) TD_MUST_USE;
TD_API int td_fractional_max_pool2d_out(td_tensor *self, int64_t n_kernel_size, const int64_t *kernel_size,
        int64_t n_output_size, const int64_t *output_size, td_tensor *random_samples, td_tensor *out0,
        td_tensor *out1) TD_MUST_USE;
/* The same over three dimensions. */
TD_API int td_fractional_max_pool3d(td_tensor **results, td_tensor *self, int64_t n_kernel_size,
        const int64_t *kernel_size, int64_t n_output_size, const int64_t *output_size,
        td_tensor *random_samples) TD_MUST_USE;
TD_API int td_fractional_max_pool3d_out(td_tensor *self, int64_t n_kernel_size, const int64_t *kernel_size,
        int64_t n_output_size, const int64_t *output_size, td_tensor *random_samples, td_tensor *out0,
        td_tensor *out1) TD_MUST_USE;

/* ==== quantized =========================================================================================== */

/* A tensor of integers that stand for self's elements, ``(integer - zero_point) * scale``. */
TD_API td_tensor *td_quantize_per_tensor(td_tensor *self, double scale, int64_t zero_point, td_dtype dtype);
/* The same with a scale and a zero point in tensors of one element. */
TD_API td_tensor *td_quantize_per_tensor_tensor_qparams(td_tensor *self, td_tensor *scale, td_tensor *zero_point,
        td_dtype dtype);
/* Each of the tensors quantized with its element of scales and zero_points. */
TD_API int td_quantize_per_tensor_tensors(td_tensor_list *results, int64_t n_tensors, td_tensor *const *tensors,
        td_tensor *scales, td_tensor *zero_points, td_dtype dtype) TD_MUST_USE;
/* Quantized with the scale and zero point that fit the range of self's elements. */
TD_API td_tensor *td_quantize_per_tensor_dynamic(td_tensor *self, td_dtype dtype, bool reduce_range);
/* Quantized with a scale and a zero point for each index of a dimension. */
TD_API td_tensor *td_quantize_per_channel(td_tensor *self, td_tensor *scales, td_tensor *zero_points,
        int64_t axis, td_dtype dtype);
/* The numbers that a quantized tensor's integers stand for, as float32; a packed tensor unpacked, in its dtype. Other tensors are converted to float32. */
TD_API td_tensor *td_dequantize_self(td_tensor *self);
/* dequantize with one rounding. */
TD_API td_tensor *td__dequantize_fused(td_tensor *self);
/* What an operator has computed from quantized operands, quantized; rounded before the zero point is added, where quantize_per_tensor rounds the sum. */
TD_API td_tensor *td__quantize_again(td_tensor *self, double scale, int64_t zero_point, td_dtype dtype);
/* The memory of integers as a quantized tensor, with another's scales and zero points. */
TD_API td_tensor *td__quantized_over(td_tensor *self, td_tensor *like);
/* The 256 integers of 8 bits in the order of their bytes, quantized as self is. */
TD_API td_tensor *td__every_integer(td_tensor *self);
/* Of each element what a table, one of `_every_integer` by some operator, has for it. */
TD_API td_tensor *td__look_up(td_tensor *self, td_tensor *table);
/* Tensors joined, quantized with a scale and a zero point of its own; with ``sums`` rounded once the zero point is added. */
TD_API td_tensor *td__quantized_cat(int64_t n_tensors, td_tensor *const *tensors, int64_t dim, double scale,
        int64_t zero_point, bool sums);
/* Each of the tensors dequantized. */
TD_API int td_dequantize_tensors(td_tensor_list *results, int64_t n_tensors,
        td_tensor *const *tensors) TD_MUST_USE;
/* A copy of a quantized tensor's integers. */
TD_API td_tensor *td_int_repr(td_tensor *self);
/* The scale of a tensor that is quantized per tensor. */
TD_API int td_q_scale(double *results, td_tensor *self) TD_MUST_USE;
/* The zero point of a tensor that is quantized per tensor. */
TD_API int td_q_zero_point(int64_t *results, td_tensor *self) TD_MUST_USE;
/* The scales of a tensor that is quantized per channel. */
TD_API td_tensor *td_q_per_channel_scales(td_tensor *self);
/* The zero points of a tensor that is quantized per channel. */
TD_API td_tensor *td_q_per_channel_zero_points(td_tensor *self);
/* The dimension whose indices have a scale each. */
TD_API int td_q_per_channel_axis(int64_t *results, td_tensor *self) TD_MUST_USE;
/* The number of the scheme, for qscheme(). */
TD_API int td__qscheme(int64_t *results, td_tensor *self) TD_MUST_USE;
/* A quantized tensor of integers. */
TD_API td_tensor *td__make_per_tensor_quantized_tensor(td_tensor *self, double scale, int64_t zero_point);
/* A quantized tensor of integers, with a scale and a zero point for each index of a dimension. */
TD_API td_tensor *td__make_per_channel_quantized_tensor(td_tensor *self, td_tensor *scale, td_tensor *zero_point,
        int64_t axis);
/* A quantized tensor without values. */
TD_API td_tensor *td__empty_affine_quantized(int64_t n_size, const int64_t *size, td_dtype dtype,
        td_device device, double scale, int64_t zero_point, td_memory_format memory_format);
/* The same with a scale and a zero point for each index of a dimension. */
TD_API td_tensor *td__empty_per_channel_affine_quantized(int64_t n_size, const int64_t *size, td_tensor *scales,
        td_tensor *zero_points, int64_t axis, td_dtype dtype, td_device device, td_memory_format memory_format);
/* A tensor without values that is quantized as another one is. */
TD_API td_tensor *td_empty_quantized(int64_t n_size, const int64_t *size, td_tensor *qtensor, td_dtype dtype,
        td_device device, td_memory_format memory_format);
/* Self quantized and dequantized; the gradient passes where the integer was in range. */
TD_API td_tensor *td_fake_quantize_per_tensor_affine(td_tensor *self, double scale, int64_t zero_point,
        int64_t quant_min, int64_t quant_max);
/* The same with a scale and a zero point in tensors of one element. */
TD_API td_tensor *td_fake_quantize_per_tensor_affine_tensor_qparams(td_tensor *self, td_tensor *scale,
        td_tensor *zero_point, int64_t quant_min, int64_t quant_max);
/* Self quantized and dequantized, and where the integers were in range. */
TD_API int td_fake_quantize_per_tensor_affine_cachemask(td_tensor **results, td_tensor *self, double scale,
        int64_t zero_point, int64_t quant_min, int64_t quant_max) TD_MUST_USE;
/* The gradient where the mask is true. */
TD_API td_tensor *td_fake_quantize_per_tensor_affine_cachemask_backward(td_tensor *grad, td_tensor *mask);
/* The same with a scale and a zero point in tensors, or self unless ``fake_quant_enabled``. */
TD_API int td__fake_quantize_per_tensor_affine_cachemask_tensor_qparams(td_tensor **results, td_tensor *self,
        td_tensor *scale, td_tensor *zero_point, td_tensor *fake_quant_enabled, int64_t quant_min,
        int64_t quant_max) TD_MUST_USE;
/* Self quantized and dequantized with a scale and a zero point for each index of a dimension. */
TD_API td_tensor *td_fake_quantize_per_channel_affine(td_tensor *self, td_tensor *scale, td_tensor *zero_point,
        int64_t axis, int64_t quant_min, int64_t quant_max);
/* The same, and where the integers were in range. */
TD_API int td_fake_quantize_per_channel_affine_cachemask(td_tensor **results, td_tensor *self, td_tensor *scale,
        td_tensor *zero_point, int64_t axis, int64_t quant_min, int64_t quant_max) TD_MUST_USE;
/* The gradient where the mask is true. */
TD_API td_tensor *td_fake_quantize_per_channel_affine_cachemask_backward(td_tensor *grad, td_tensor *mask);
/* Updates a moving range, a scale and a zero point from self where observing is on, and gives self fake-quantized where that is on. */
TD_API td_tensor *td_fused_moving_avg_obs_fake_quant(td_tensor *self, td_tensor *observer_on,
        td_tensor *fake_quant_on, td_tensor *running_min, td_tensor *running_max, td_tensor *scale,
        td_tensor *zero_point, double averaging_const, int64_t quant_min, int64_t quant_max, int64_t ch_axis,
        bool per_row_fake_quant, bool symmetric_quant);
/* Windows of images of bytes with channels last: the largest byte of each, or the mean of what they are above ``zero_point``, moved back and rounded. ``size`` has the result's lines and pixels; ``window`` the sizes, strides, padding and dilation; without it windows follow from ``size``. A mean is of ``divisor`` elements, of 0 as many as there are, with ``include_pad`` those of the padding as well. */
TD_API td_tensor *td__bytes_pool(td_tensor *x, int64_t n_size, const int64_t *size, int64_t n_window,
        const int64_t *window, bool maximum, bool include_pad, int64_t divisor, int64_t zero_point);
/* The sum of what two tensors' integers stand for, or with ``relu`` the part of it above 0, quantized with a scale and a zero point of its own. */
TD_API td_tensor *td__quantized_add(td_tensor *self, td_tensor *other, double scale, int64_t zero_point,
        bool relu);
/* The product likewise, whose integers are rounded before the zero point is added. */
TD_API td_tensor *td__quantized_mul(td_tensor *self, td_tensor *other, double scale, int64_t zero_point,
        bool relu);
/* Self quantized and dequantized; the scale and the zero point have gradients, times ``grad_factor``. */
TD_API td_tensor *td__fake_quantize_learnable_per_tensor_affine(td_tensor *self, td_tensor *scale,
        td_tensor *zero_point, int64_t quant_min, int64_t quant_max, double grad_factor);
/* Gradients of self, the scale and the zero point. */
TD_API int td__fake_quantize_learnable_per_tensor_affine_backward(td_tensor **results, td_tensor *grad,
        td_tensor *self, td_tensor *scale, td_tensor *zero_point, int64_t quant_min, int64_t quant_max,
        double grad_factor) TD_MUST_USE;
/* The same with a scale and a zero point for each index of a dimension. */
TD_API td_tensor *td__fake_quantize_learnable_per_channel_affine(td_tensor *self, td_tensor *scale,
        td_tensor *zero_point, int64_t axis, int64_t quant_min, int64_t quant_max, double grad_factor);
/* Gradients of self, the scales and the zero points. */
TD_API int td__fake_quantize_learnable_per_channel_affine_backward(td_tensor **results, td_tensor *grad,
        td_tensor *self, td_tensor *scale, td_tensor *zero_point, int64_t axis, int64_t quant_min,
        int64_t quant_max, double grad_factor) TD_MUST_USE;
/* A matrix of int8 as panels for `_bytes_product`. ``run`` of a row's bytes lie beside each other in what it is multiplied with: all of them, or of windows those of a line, or of a pixel where windows are dilated; 0: each row is the window of one channel. */
TD_API td_tensor *td__bytes_pack(td_tensor *weight, int64_t run);
/* Rows of bytes, or windows of an image with channels last, times a packed matrix, in integers; ``window`` ends with how many blocks of channels meet columns of their own; with ``apart`` each column is the product of one channel's windows and a row of its own: ``round((sum - less + more) * by) + zero_point`` as bytes, or ``(sum - less) * by + more`` as float32. Of a quantized x the bytes are a quantized tensor. */
TD_API td_tensor *td__bytes_product(td_tensor *x, td_tensor *panels, int64_t columns, td_tensor *less,
        td_tensor *more, td_tensor *by, int64_t n_window, const int64_t *window, bool apart, int64_t fill,
        int64_t least, double scale, int64_t zero_point, td_dtype dtype);

/* ==== random ============================================================================================== */

/* Uniform numbers in [0, 1). */
TD_API td_tensor *td_rand(int64_t n_size, const int64_t *size, td_dtype dtype, td_device device);
TD_API int td_rand_out(int64_t n_size, const int64_t *size, td_dtype dtype, td_device device,
        td_tensor *out) TD_MUST_USE;
/* Uniform numbers in [0, 1). */
TD_API td_tensor *td_rand_generator(int64_t n_size, const int64_t *size, td_generator *generator, td_dtype dtype,
        td_device device);
TD_API int td_rand_generator_out(int64_t n_size, const int64_t *size, td_generator *generator, td_dtype dtype,
        td_device device, td_tensor *out) TD_MUST_USE;
/* Uniform numbers in [0, 1), like a tensor. */
TD_API td_tensor *td_rand_like(td_tensor *self, td_dtype dtype, td_device device,
        td_memory_format memory_format);
/* Uniform numbers in [0, 1), like a tensor. */
TD_API td_tensor *td_rand_like_generator(td_tensor *self, td_generator *generator, td_dtype dtype,
        td_device device, td_memory_format memory_format);
/* Normal numbers with mean 0 and deviation 1. */
TD_API td_tensor *td_randn(int64_t n_size, const int64_t *size, td_dtype dtype, td_device device);
TD_API int td_randn_out(int64_t n_size, const int64_t *size, td_dtype dtype, td_device device,
        td_tensor *out) TD_MUST_USE;
/* Normal numbers with mean 0 and deviation 1. */
TD_API td_tensor *td_randn_generator(int64_t n_size, const int64_t *size, td_generator *generator,
        td_dtype dtype, td_device device);
TD_API int td_randn_generator_out(int64_t n_size, const int64_t *size, td_generator *generator, td_dtype dtype,
        td_device device, td_tensor *out) TD_MUST_USE;
/* Normal numbers with mean 0 and deviation 1, like a tensor. */
TD_API td_tensor *td_randn_like(td_tensor *self, td_dtype dtype, td_device device,
        td_memory_format memory_format);
/* Normal numbers with mean 0 and deviation 1, like a tensor. */
TD_API td_tensor *td_randn_like_generator(td_tensor *self, td_generator *generator, td_dtype dtype,
        td_device device, td_memory_format memory_format);
/* Integers in [low, high), low being 0 unless given. */
TD_API td_tensor *td_randint(int64_t high, int64_t n_size, const int64_t *size, td_dtype dtype,
        td_device device);
TD_API int td_randint_out(int64_t high, int64_t n_size, const int64_t *size, td_dtype dtype, td_device device,
        td_tensor *out) TD_MUST_USE;
/* Integers in [low, high), low being 0 unless given. */
TD_API td_tensor *td_randint_generator(int64_t high, int64_t n_size, const int64_t *size,
        td_generator *generator, td_dtype dtype, td_device device);
TD_API int td_randint_generator_out(int64_t high, int64_t n_size, const int64_t *size, td_generator *generator,
        td_dtype dtype, td_device device, td_tensor *out) TD_MUST_USE;
/* Integers in [low, high), low being 0 unless given. */
TD_API td_tensor *td_randint_low(int64_t low, int64_t high, int64_t n_size, const int64_t *size, td_dtype dtype,
        td_device device);
TD_API int td_randint_low_out(int64_t low, int64_t high, int64_t n_size, const int64_t *size, td_dtype dtype,
        td_device device, td_tensor *out) TD_MUST_USE;
/* Integers in [low, high), low being 0 unless given. */
TD_API td_tensor *td_randint_low_generator(int64_t low, int64_t high, int64_t n_size, const int64_t *size,
        td_generator *generator, td_dtype dtype, td_device device);
TD_API int td_randint_low_generator_out(int64_t low, int64_t high, int64_t n_size, const int64_t *size,
        td_generator *generator, td_dtype dtype, td_device device, td_tensor *out) TD_MUST_USE;
/* Integers in [low, high), like a tensor. */
TD_API td_tensor *td_randint_like(td_tensor *self, int64_t high, td_dtype dtype, td_device device,
        td_memory_format memory_format);
/* Integers in [low, high), like a tensor. */
TD_API td_tensor *td_randint_like_generator(td_tensor *self, int64_t high, td_generator *generator,
        td_dtype dtype, td_device device, td_memory_format memory_format);
/* Integers in [low, high), like a tensor. */
TD_API td_tensor *td_randint_like_low_dtype(td_tensor *self, int64_t low, int64_t high, td_dtype dtype,
        td_device device, td_memory_format memory_format);
/* Integers in [low, high), like a tensor. */
TD_API td_tensor *td_randint_like_low_generator_dtype(td_tensor *self, int64_t low, int64_t high,
        td_generator *generator, td_dtype dtype, td_device device, td_memory_format memory_format);
/* Integers in [low, high), like a tensor. */
TD_API td_tensor *td_randint_like_tensor(td_tensor *self, td_tensor *high, td_dtype dtype, td_device device,
        td_memory_format memory_format);
/* 0 ... n-1 in a random order. */
TD_API td_tensor *td_randperm(int64_t n, td_dtype dtype, td_device device);
TD_API int td_randperm_out(int64_t n, td_dtype dtype, td_device device, td_tensor *out) TD_MUST_USE;
/* 0 ... n-1 in a random order. */
TD_API td_tensor *td_randperm_generator(int64_t n, td_generator *generator, td_dtype dtype, td_device device);
TD_API int td_randperm_generator_out(int64_t n, td_generator *generator, td_dtype dtype, td_device device,
        td_tensor *out) TD_MUST_USE;
TD_API int td_uniform_(td_tensor *self, double from, double to, td_generator *generator) TD_MUST_USE;
TD_API int td_normal_(td_tensor *self, double mean, double std, td_generator *generator) TD_MUST_USE;
TD_API int td_log_normal_(td_tensor *self, double mean, double std, td_generator *generator) TD_MUST_USE;
TD_API int td_cauchy_(td_tensor *self, double median, double sigma, td_generator *generator) TD_MUST_USE;
TD_API int td_exponential_(td_tensor *self, double lambd, td_generator *generator) TD_MUST_USE;
TD_API int td_geometric_(td_tensor *self, double p, td_generator *generator) TD_MUST_USE;
TD_API int td_random_(td_tensor *self, td_generator *generator) TD_MUST_USE;
TD_API int td_random_to_(td_tensor *self, int64_t to, td_generator *generator) TD_MUST_USE;
TD_API int td_random_from_(td_tensor *self, int64_t from, const int64_t *to,
        td_generator *generator) TD_MUST_USE;
TD_API int td_bernoulli_tensor_(td_tensor *self, td_tensor *p, td_generator *generator) TD_MUST_USE;
TD_API int td_bernoulli_float_(td_tensor *self, double p, td_generator *generator) TD_MUST_USE;
/* 1 with the probability that an element is, else 0. */
TD_API td_tensor *td_bernoulli(td_tensor *self, td_generator *generator);
TD_API int td_bernoulli_out(td_tensor *self, td_generator *generator, td_tensor *out) TD_MUST_USE;
/* 1 with probability p, else 0, in the shape of a tensor. */
TD_API td_tensor *td_bernoulli_p(td_tensor *self, double p, td_generator *generator);
/* Normal numbers with a mean and a deviation for each. */
TD_API td_tensor *td_normal_tensor_tensor(td_tensor *mean, td_tensor *std, td_generator *generator);
TD_API int td_normal_tensor_tensor_out(td_tensor *mean, td_tensor *std, td_generator *generator,
        td_tensor *out) TD_MUST_USE;
/* Normal numbers with a mean for each. */
TD_API td_tensor *td_normal_tensor_float(td_tensor *mean, double std, td_generator *generator);
TD_API int td_normal_tensor_float_out(td_tensor *mean, double std, td_generator *generator,
        td_tensor *out) TD_MUST_USE;
/* Normal numbers with a deviation for each. */
TD_API td_tensor *td_normal_float_tensor(double mean, td_tensor *std, td_generator *generator);
TD_API int td_normal_float_tensor_out(double mean, td_tensor *std, td_generator *generator,
        td_tensor *out) TD_MUST_USE;
/* Indices drawn in proportion to weights. */
TD_API td_tensor *td_multinomial(td_tensor *self, int64_t num_samples, bool replacement,
        td_generator *generator);
TD_API int td_multinomial_out(td_tensor *self, int64_t num_samples, bool replacement, td_generator *generator,
        td_tensor *out) TD_MUST_USE;
/* Poisson numbers with a rate for each. */
TD_API td_tensor *td_poisson(td_tensor *self, td_generator *generator);
/* Gamma numbers with a shape parameter for each. */
TD_API td_tensor *td__standard_gamma(td_tensor *self, td_generator *generator);
/* Points of a simplex with concentrations. */
TD_API td_tensor *td__sample_dirichlet(td_tensor *self, td_generator *generator);
/* Numbers of successes among count trials. */
TD_API td_tensor *td_binomial(td_tensor *count, td_tensor *prob, td_generator *generator);
/* Normal numbers. */
TD_API td_tensor *td_normal_float_float(double mean, double std, int64_t n_size, const int64_t *size,
        td_generator *generator, td_dtype dtype, td_device device);
TD_API int td_normal_float_float_out(double mean, double std, int64_t n_size, const int64_t *size,
        td_generator *generator, td_dtype dtype, td_device device, td_tensor *out) TD_MUST_USE;
/* Elements set to 0 with probability p, the others scaled by 1 / (1 - p). */
TD_API td_tensor *td_dropout(td_tensor *input, double p, bool train);
TD_API int td_dropout_(td_tensor *self, double p, bool train) TD_MUST_USE;
/* Whole channels set to 0 with probability p, the others scaled. */
TD_API td_tensor *td_feature_dropout(td_tensor *input, double p, bool train);
TD_API int td_feature_dropout_(td_tensor *self, double p, bool train) TD_MUST_USE;
/* Dropout that keeps mean and variance of inputs that went through selu. */
TD_API td_tensor *td_alpha_dropout(td_tensor *input, double p, bool train);
TD_API int td_alpha_dropout_(td_tensor *self, double p, bool train) TD_MUST_USE;
/* alpha_dropout of whole channels. */
TD_API td_tensor *td_feature_alpha_dropout(td_tensor *input, double p, bool train);
TD_API int td_feature_alpha_dropout_(td_tensor *self, double p, bool train) TD_MUST_USE;
/* Dropout and what it kept. */
TD_API int td_native_dropout(td_tensor **results, td_tensor *input, double p, const bool *train) TD_MUST_USE;
/* The gradient of native_dropout. */
TD_API td_tensor *td_native_dropout_grad(td_tensor *grad, td_tensor *mask, double p, const bool *train);
/* A gradient where the mask holds, scaled. */
TD_API td_tensor *td_native_dropout_backward(td_tensor *grad_output, td_tensor *mask, double scale);

/* ==== rearrange =========================================================================================== */

/* Dimensions moved to other positions, the others kept in order. */
TD_API td_tensor *td_movedim_intlist(td_tensor *self, int64_t n_source, const int64_t *source,
        int64_t n_destination, const int64_t *destination);
/* A dimension moved to another position, the others kept in order. */
TD_API td_tensor *td_movedim_int(td_tensor *self, int64_t source, int64_t destination);
/* Two dimensions swapped. */
TD_API td_tensor *td_swapaxes(td_tensor *self, int64_t axis0, int64_t axis1);
/* Two dimensions swapped. */
TD_API td_tensor *td_swapdims(td_tensor *self, int64_t dim0, int64_t dim1);
/* The conjugate transpose of the last two dimensions. */
TD_API td_tensor *td_adjoint(td_tensor *self);
/* All elements in one dimension. */
TD_API td_tensor *td_ravel(td_tensor *self);
/* One dimension split into several. */
TD_API td_tensor *td_unflatten_int(td_tensor *self, int64_t dim, int64_t n_sizes, const int64_t *sizes);
TD_API int td_transpose_(td_tensor *self, int64_t dim0, int64_t dim1) TD_MUST_USE;
TD_API int td_t_(td_tensor *self) TD_MUST_USE;
TD_API int td_swapaxes_(td_tensor *self, int64_t axis0, int64_t axis1) TD_MUST_USE;
TD_API int td_swapdims_(td_tensor *self, int64_t dim0, int64_t dim1) TD_MUST_USE;
TD_API int td_squeeze_(td_tensor *self) TD_MUST_USE;
TD_API int td_squeeze_dim_(td_tensor *self, int64_t dim) TD_MUST_USE;
TD_API int td_squeeze_dims_(td_tensor *self, int64_t n_dim, const int64_t *dim) TD_MUST_USE;
TD_API int td_unsqueeze_(td_tensor *self, int64_t dim) TD_MUST_USE;
TD_API int td_as_strided_(td_tensor *self, int64_t n_size, const int64_t *size, int64_t n_stride,
        const int64_t *stride, const int64_t *storage_offset) TD_MUST_USE;
TD_API int td_resize_(td_tensor *self, int64_t n_size, const int64_t *size,
        td_memory_format memory_format) TD_MUST_USE;
/* What resize_ makes of self, in new memory. */
TD_API td_tensor *td_resized(td_tensor *self, int64_t n_size, const int64_t *size,
        td_memory_format memory_format);
TD_API int td_resize_as_(td_tensor *self, td_tensor *the_template, td_memory_format memory_format) TD_MUST_USE;
/* The order along some dimensions reversed, as a copy. */
TD_API td_tensor *td_flip(td_tensor *self, int64_t n_dims, const int64_t *dims);
TD_API int td_flip_out(td_tensor *self, int64_t n_dims, const int64_t *dims, td_tensor *out) TD_MUST_USE;
/* The order along the second dimension reversed. */
TD_API td_tensor *td_fliplr(td_tensor *self);
/* The order along the first dimension reversed. */
TD_API td_tensor *td_flipud(td_tensor *self);
/* Quarter turns in the plane of two dimensions. */
TD_API td_tensor *td_rot90(td_tensor *self, int64_t k, int64_t n_dims, const int64_t *dims);
/* Elements shifted along dimensions; those that leave come in at the other end. */
TD_API td_tensor *td_roll(td_tensor *self, int64_t n_shifts, const int64_t *shifts, int64_t n_dims,
        const int64_t *dims);
TD_API int td_roll_out(td_tensor *self, int64_t n_shifts, const int64_t *shifts, int64_t n_dims,
        const int64_t *dims, td_tensor *out) TD_MUST_USE;
/* Undoes a roll. */
TD_API td_tensor *td_roll_backward(td_tensor *grad, int64_t n_shifts, const int64_t *shifts, int64_t n_dims,
        const int64_t *dims);
/* Copies of the tensor side by side along each dimension. */
TD_API td_tensor *td_repeat(td_tensor *self, int64_t n_repeats, const int64_t *repeats);
/* The sum over the copies that repeat made. */
TD_API td_tensor *td_repeat_backward(td_tensor *grad, int64_t n_repeats, const int64_t *repeats, int64_t n_shape,
        const int64_t *shape);
/* As repeat, with missing repetitions taken as 1. */
TD_API td_tensor *td_tile(td_tensor *self, int64_t n_dims, const int64_t *dims);
/* Each position, as often as its number says. */
TD_API td_tensor *td_repeat_interleave_tensor(td_tensor *repeats, const int64_t *output_size);
/* Each element along a dimension repeated, as often as its number says. */
TD_API td_tensor *td_repeat_interleave_self_tensor(td_tensor *self, td_tensor *repeats, const int64_t *dim,
        const int64_t *output_size);
/* Each element along a dimension repeated. */
TD_API td_tensor *td_repeat_interleave_self_int(td_tensor *self, int64_t repeats, const int64_t *dim,
        const int64_t *output_size);
/* Joined along the second dimension; vectors along the first. */
TD_API td_tensor *td_hstack(int64_t n_tensors, td_tensor *const *tensors);
TD_API int td_hstack_out(int64_t n_tensors, td_tensor *const *tensors, td_tensor *out) TD_MUST_USE;
/* Joined along the first dimension, vectors as rows. */
TD_API td_tensor *td_vstack(int64_t n_tensors, td_tensor *const *tensors);
TD_API int td_vstack_out(int64_t n_tensors, td_tensor *const *tensors, td_tensor *out) TD_MUST_USE;
/* Joined along the third dimension. */
TD_API td_tensor *td_dstack(int64_t n_tensors, td_tensor *const *tensors);
TD_API int td_dstack_out(int64_t n_tensors, td_tensor *const *tensors, td_tensor *out) TD_MUST_USE;
/* Vectors as columns and matrices beside each other. */
TD_API td_tensor *td_column_stack(int64_t n_tensors, td_tensor *const *tensors);
TD_API int td_column_stack_out(int64_t n_tensors, td_tensor *const *tensors, td_tensor *out) TD_MUST_USE;
/* At least one dimension. */
TD_API td_tensor *td_atleast_1d(td_tensor *self);
/* At least one dimension each. */
TD_API int td_atleast_1d_sequence(td_tensor_list *results, int64_t n_tensors,
        td_tensor *const *tensors) TD_MUST_USE;
/* At least two dimensions; a vector is a row. */
TD_API td_tensor *td_atleast_2d(td_tensor *self);
/* At least two dimensions each. */
TD_API int td_atleast_2d_sequence(td_tensor_list *results, int64_t n_tensors,
        td_tensor *const *tensors) TD_MUST_USE;
/* At least three dimensions. */
TD_API td_tensor *td_atleast_3d(td_tensor *self);
/* At least three dimensions each. */
TD_API int td_atleast_3d_sequence(td_tensor_list *results, int64_t n_tensors,
        td_tensor *const *tensors) TD_MUST_USE;
/* All expanded to their common shape. */
TD_API int td_broadcast_tensors(td_tensor_list *results, int64_t n_tensors,
        td_tensor *const *tensors) TD_MUST_USE;
/* A grid's coordinates, one tensor per axis. */
TD_API int td_meshgrid(td_tensor_list *results, int64_t n_tensors, td_tensor *const *tensors) TD_MUST_USE;
/* A grid's coordinates; 'xy' swaps the first two dimensions. */
TD_API int td_meshgrid_indexing(td_tensor_list *results, int64_t n_tensors, td_tensor *const *tensors,
        const char *indexing) TD_MUST_USE;
/* Matrices along the diagonal of a larger one. */
TD_API td_tensor *td_block_diag(int64_t n_tensors, td_tensor *const *tensors);
/* All combinations of one element of each, as rows. */
TD_API td_tensor *td_cartesian_prod(int64_t n_tensors, td_tensor *const *tensors);
/* All combinations of r elements, as rows. */
TD_API td_tensor *td_combinations(td_tensor *self, int64_t r_, bool with_replacement);
/* Powers 0, 1, 2, ... of the elements, in a new last dimension. */
TD_API td_tensor *td_linalg_vander(td_tensor *x, const int64_t *N);
/* So many ranges, as equal as can be. */
TD_API int td_tensor_split_sections(td_tensor_list *results, td_tensor *self, int64_t sections,
        int64_t dim) TD_MUST_USE;
/* Ranges between the given positions. */
TD_API int td_tensor_split_indices(td_tensor_list *results, td_tensor *self, int64_t n_indices,
        const int64_t *indices, int64_t dim) TD_MUST_USE;
/* As tensor_split, with the number or the positions in a tensor. */
TD_API int td_tensor_split_tensor_indices_or_sections(td_tensor_list *results, td_tensor *self,
        td_tensor *tensor_indices_or_sections, int64_t dim) TD_MUST_USE;
/* Split along the second dimension; a vector along its only one. */
TD_API int td_hsplit_int(td_tensor_list *results, td_tensor *self, int64_t sections) TD_MUST_USE;
/* Split along the second dimension at positions. */
TD_API int td_hsplit_array(td_tensor_list *results, td_tensor *self, int64_t n_indices,
        const int64_t *indices) TD_MUST_USE;
/* Split along the first dimension. */
TD_API int td_vsplit_int(td_tensor_list *results, td_tensor *self, int64_t sections) TD_MUST_USE;
/* Split along the first dimension at positions. */
TD_API int td_vsplit_array(td_tensor_list *results, td_tensor *self, int64_t n_indices,
        const int64_t *indices) TD_MUST_USE;
/* Split along the third dimension. */
TD_API int td_dsplit_int(td_tensor_list *results, td_tensor *self, int64_t sections) TD_MUST_USE;
/* Split along the third dimension at positions. */
TD_API int td_dsplit_array(td_tensor_list *results, td_tensor *self, int64_t n_indices,
        const int64_t *indices) TD_MUST_USE;
/* As split. */
TD_API int td_unsafe_split_tensor(td_tensor_list *results, td_tensor *self, int64_t split_size,
        int64_t dim) TD_MUST_USE;
/* As split_with_sizes; autograd takes the results for separate tensors, which may be written. */
TD_API int td_unsafe_split_with_sizes(td_tensor_list *results, td_tensor *self, int64_t n_split_sizes,
        const int64_t *split_sizes, int64_t dim) TD_MUST_USE;
/* As chunk. */
TD_API int td_unsafe_chunk(td_tensor_list *results, td_tensor *self, int64_t chunks, int64_t dim) TD_MUST_USE;
/* The diagonal of a matrix, or a matrix with this diagonal. */
TD_API td_tensor *td_diag(td_tensor *self, int64_t diagonal);
TD_API int td_diag_out(td_tensor *self, int64_t diagonal, td_tensor *out) TD_MUST_USE;
/* Matrices whose diagonals are the last dimension. */
TD_API td_tensor *td_diag_embed(td_tensor *self, int64_t offset, int64_t dim1, int64_t dim2);
/* A matrix with all elements on a diagonal. */
TD_API td_tensor *td_diagflat(td_tensor *self, int64_t offset);
/* A diagonal of two dimensions, the last ones by default. */
TD_API td_tensor *td_linalg_diagonal(td_tensor *A, int64_t offset, int64_t dim1, int64_t dim2);
/* self, with a diagonal replaced. */
TD_API td_tensor *td_diagonal_scatter(td_tensor *self, td_tensor *src, int64_t offset, int64_t dim1,
        int64_t dim2);
TD_API int td_diagonal_scatter_out(td_tensor *self, td_tensor *src, int64_t offset, int64_t dim1, int64_t dim2,
        td_tensor *out) TD_MUST_USE;
/* self, with one position of a dimension replaced. */
TD_API td_tensor *td_select_scatter(td_tensor *self, td_tensor *src, int64_t dim, int64_t index);
TD_API int td_select_scatter_out(td_tensor *self, td_tensor *src, int64_t dim, int64_t index,
        td_tensor *out) TD_MUST_USE;
/* self, with a range of a dimension replaced. */
TD_API td_tensor *td_slice_scatter(td_tensor *self, td_tensor *src, int64_t dim, const int64_t *start,
        const int64_t *end, int64_t step);
TD_API int td_slice_scatter_out(td_tensor *self, td_tensor *src, int64_t dim, const int64_t *start,
        const int64_t *end, int64_t step, td_tensor *out) TD_MUST_USE;
/* self, with the elements that as_strided would show replaced. */
TD_API td_tensor *td_as_strided_scatter(td_tensor *self, td_tensor *src, int64_t n_size, const int64_t *size,
        int64_t n_stride, const int64_t *stride, const int64_t *storage_offset);
TD_API int td_as_strided_scatter_out(td_tensor *self, td_tensor *src, int64_t n_size, const int64_t *size,
        int64_t n_stride, const int64_t *stride, const int64_t *storage_offset, td_tensor *out) TD_MUST_USE;
/* A range along a dimension, copied. */
TD_API td_tensor *td_narrow_copy(td_tensor *self, int64_t dim, int64_t start, int64_t length);
TD_API int td_narrow_copy_out(td_tensor *self, int64_t dim, int64_t start, int64_t length,
        td_tensor *out) TD_MUST_USE;
/* Chunks of several tensors, side by side. */
TD_API td_tensor *td__chunk_cat(int64_t n_tensors, td_tensor *const *tensors, int64_t dim, int64_t num_chunks);
TD_API int td__chunk_cat_out(int64_t n_tensors, td_tensor *const *tensors, int64_t dim, int64_t num_chunks,
        td_tensor *out) TD_MUST_USE;

/* ==== reduce ============================================================================================== */

/* The sum over dimensions; integers are summed in int64. */
TD_API td_tensor *td_sum_dim_intlist(td_tensor *self, int64_t n_dim, const int64_t *dim, bool keepdim,
        td_dtype dtype);
TD_API int td_sum_intlist_out(td_tensor *self, int64_t n_dim, const int64_t *dim, bool keepdim, td_dtype dtype,
        td_tensor *out) TD_MUST_USE;
/* A gradient repeated over the dimensions that were summed. */
TD_API td_tensor *td_sum_backward(td_tensor *grad, int64_t n_shape, const int64_t *shape, int64_t n_dim,
        const int64_t *dim, bool keepdim, td_dtype dtype);
/* The sum of all elements. */
TD_API td_tensor *td_sum_all(td_tensor *self, td_dtype dtype);
TD_API int td_sum_out(td_tensor *self, td_dtype dtype, td_tensor *out) TD_MUST_USE;
/* The dimensions that a reduction took away, back with size 1. */
TD_API td_tensor *td_restore_dims(td_tensor *self, int64_t ndim, int64_t n_dim, const int64_t *dim,
        bool keepdim);
/* The sum of what isn't NaN. */
TD_API td_tensor *td_nansum(td_tensor *self, int64_t n_dim, const int64_t *dim, bool keepdim, td_dtype dtype);
TD_API int td_nansum_out(td_tensor *self, int64_t n_dim, const int64_t *dim, bool keepdim, td_dtype dtype,
        td_tensor *out) TD_MUST_USE;
/* The arithmetic mean over dimensions. */
TD_API td_tensor *td_mean_dims(td_tensor *self, int64_t n_dim, const int64_t *dim, bool keepdim,
        td_dtype dtype);
TD_API int td_mean_out(td_tensor *self, int64_t n_dim, const int64_t *dim, bool keepdim, td_dtype dtype,
        td_tensor *out) TD_MUST_USE;
/* A gradient spread evenly over the dimensions that a mean was taken of. */
TD_API td_tensor *td_mean_backward(td_tensor *grad, int64_t n_shape, const int64_t *shape, int64_t n_dim,
        const int64_t *dim, bool keepdim, td_dtype dtype);
/* The arithmetic mean of all elements. */
TD_API td_tensor *td_mean_all(td_tensor *self, td_dtype dtype);
TD_API int td_mean_dtype_out(td_tensor *self, td_dtype dtype, td_tensor *out) TD_MUST_USE;
/* The mean of what isn't NaN. */
TD_API td_tensor *td_nanmean(td_tensor *self, int64_t n_dim, const int64_t *dim, bool keepdim, td_dtype dtype);
TD_API int td_nanmean_out(td_tensor *self, int64_t n_dim, const int64_t *dim, bool keepdim, td_dtype dtype,
        td_tensor *out) TD_MUST_USE;
/* The product along a dimension. */
TD_API td_tensor *td_prod_dim_int(td_tensor *self, int64_t dim, bool keepdim, td_dtype dtype);
TD_API int td_prod_int_out(td_tensor *self, int64_t dim, bool keepdim, td_dtype dtype,
        td_tensor *out) TD_MUST_USE;
/* The product of all elements. */
TD_API td_tensor *td_prod(td_tensor *self, td_dtype dtype);
TD_API int td_prod_out(td_tensor *self, td_dtype dtype, td_tensor *out) TD_MUST_USE;
/* The gradient of a product; without a division where there are zeros. */
TD_API td_tensor *td_prod_backward(td_tensor *grad, td_tensor *self, td_tensor *result, const int64_t *dim,
        bool keepdim);
/* The largest element over dimensions; equal ones share the gradient. */
TD_API td_tensor *td_amax(td_tensor *self, int64_t n_dim, const int64_t *dim, bool keepdim);
TD_API int td_amax_out(td_tensor *self, int64_t n_dim, const int64_t *dim, bool keepdim,
        td_tensor *out) TD_MUST_USE;
/* The smallest element over dimensions; equal ones share the gradient. */
TD_API td_tensor *td_amin(td_tensor *self, int64_t n_dim, const int64_t *dim, bool keepdim);
TD_API int td_amin_out(td_tensor *self, int64_t n_dim, const int64_t *dim, bool keepdim,
        td_tensor *out) TD_MUST_USE;
/* A gradient shared by the elements that equal the result. */
TD_API td_tensor *td_extreme_backward(td_tensor *grad, td_tensor *self, td_tensor *result, int64_t n_dim,
        const int64_t *dim, bool keepdim);
/* The smallest and the largest element. */
TD_API int td_aminmax(td_tensor **results, td_tensor *self, const int64_t *dim, bool keepdim) TD_MUST_USE;
TD_API int td_aminmax_out(td_tensor *self, const int64_t *dim, bool keepdim, td_tensor *min,
        td_tensor *max) TD_MUST_USE;
/* The gradient of aminmax. */
TD_API td_tensor *td_aminmax_backward(td_tensor *grad_min, td_tensor *grad_max, td_tensor *self, td_tensor *min,
        td_tensor *max, const int64_t *dim, bool keepdim);
/* The largest element; NaN if there is one. */
TD_API td_tensor *td_max_all(td_tensor *self);
TD_API int td_max_unary_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* The smallest element; NaN if there is one. */
TD_API td_tensor *td_min_all(td_tensor *self);
TD_API int td_min_unary_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* The largest element along a dimension and its first position. */
TD_API int td_max_dim(td_tensor **results, td_tensor *self, int64_t dim, bool keepdim) TD_MUST_USE;
/* The smallest element along a dimension and its first position. */
TD_API int td_min_dim(td_tensor **results, td_tensor *self, int64_t dim, bool keepdim) TD_MUST_USE;
TD_API int td_max_dim_out(td_tensor *self, int64_t dim, bool keepdim, td_tensor *max,
        td_tensor *max_values) TD_MUST_USE;
TD_API int td_min_dim_out(td_tensor *self, int64_t dim, bool keepdim, td_tensor *min,
        td_tensor *min_indices) TD_MUST_USE;
/* The larger of two elements. */
TD_API td_tensor *td_max_other(td_tensor *self, td_tensor *other);
TD_API int td_max_out(td_tensor *self, td_tensor *other, td_tensor *out) TD_MUST_USE;
/* The smaller of two elements. */
TD_API td_tensor *td_min_other(td_tensor *self, td_tensor *other);
TD_API int td_min_out(td_tensor *self, td_tensor *other, td_tensor *out) TD_MUST_USE;
/* A gradient put where the values came from. */
TD_API td_tensor *td_value_selecting_reduction_backward(td_tensor *grad, int64_t dim, td_tensor *indices,
        int64_t n_sizes, const int64_t *sizes, bool keepdim);
/* The first position of the largest element. */
TD_API td_tensor *td_argmax(td_tensor *self, const int64_t *dim, bool keepdim);
TD_API int td_argmax_out(td_tensor *self, const int64_t *dim, bool keepdim, td_tensor *out) TD_MUST_USE;
/* The first position of the smallest element. */
TD_API td_tensor *td_argmin(td_tensor *self, const int64_t *dim, bool keepdim);
TD_API int td_argmin_out(td_tensor *self, const int64_t *dim, bool keepdim, td_tensor *out) TD_MUST_USE;
/* Whether some element isn't 0. */
TD_API td_tensor *td_any_all(td_tensor *self);
TD_API int td_any_all_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* Whether some element along a dimension isn't 0. */
TD_API td_tensor *td_any_dim(td_tensor *self, int64_t dim, bool keepdim);
TD_API int td_any_out(td_tensor *self, int64_t dim, bool keepdim, td_tensor *out) TD_MUST_USE;
/* Whether some element over dimensions isn't 0. */
TD_API td_tensor *td_any_dims(td_tensor *self, int64_t n_dim, const int64_t *dim, bool keepdim);
TD_API int td_any_dims_out(td_tensor *self, int64_t n_dim, const int64_t *dim, bool keepdim,
        td_tensor *out) TD_MUST_USE;
/* Whether no element is 0. */
TD_API td_tensor *td_all_all(td_tensor *self);
TD_API int td_all_all_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* Whether no element along a dimension is 0. */
TD_API td_tensor *td_all_dim(td_tensor *self, int64_t dim, bool keepdim);
TD_API int td_all_out(td_tensor *self, int64_t dim, bool keepdim, td_tensor *out) TD_MUST_USE;
/* Whether no element over dimensions is 0. */
TD_API td_tensor *td_all_dims(td_tensor *self, int64_t n_dim, const int64_t *dim, bool keepdim);
TD_API int td_all_dims_out(td_tensor *self, int64_t n_dim, const int64_t *dim, bool keepdim,
        td_tensor *out) TD_MUST_USE;
/* How many elements over dimensions aren't 0. */
TD_API td_tensor *td_count_nonzero_dim_intlist(td_tensor *self, int64_t n_dim, const int64_t *dim);
TD_API int td_count_nonzero_dim_intlist_out(td_tensor *self, int64_t n_dim, const int64_t *dim,
        td_tensor *out) TD_MUST_USE;
/* How many elements aren't 0. */
TD_API td_tensor *td_count_nonzero_dim(td_tensor *self, const int64_t *dim);
/* The variance over dimensions; ``correction`` is taken from the number of elements (1 by default). */
TD_API td_tensor *td_var_correction(td_tensor *self, int64_t n_dim, const int64_t *dim,
        const td_scalar *correction, bool keepdim);
TD_API int td_var_correction_out(td_tensor *self, int64_t n_dim, const int64_t *dim, const td_scalar *correction,
        bool keepdim, td_tensor *out) TD_MUST_USE;
/* The standard deviation over dimensions. */
TD_API td_tensor *td_std_correction(td_tensor *self, int64_t n_dim, const int64_t *dim,
        const td_scalar *correction, bool keepdim);
TD_API int td_std_correction_out(td_tensor *self, int64_t n_dim, const int64_t *dim, const td_scalar *correction,
        bool keepdim, td_tensor *out) TD_MUST_USE;
/* Variance and mean over dimensions. */
TD_API int td_var_mean_correction(td_tensor **results, td_tensor *self, int64_t n_dim, const int64_t *dim,
        const td_scalar *correction, bool keepdim) TD_MUST_USE;
/* Standard deviation and mean over dimensions. */
TD_API int td_std_mean_correction(td_tensor **results, td_tensor *self, int64_t n_dim, const int64_t *dim,
        const td_scalar *correction, bool keepdim) TD_MUST_USE;
/* The gradient of a variance, or of std, and a mean, of those that have gradients. */
TD_API td_tensor *td_moments_backward(td_tensor *grad, td_tensor *grad_mean, td_tensor *self, td_tensor *std,
        int64_t n_dim, const int64_t *dim, const td_scalar *correction, bool keepdim);
/* The gradient of a variance. */
TD_API td_tensor *td_var_backward(td_tensor *grad, td_tensor *self, int64_t n_dim, const int64_t *dim,
        const td_scalar *correction, bool keepdim);
/* The gradient of a standard deviation; 0 where that is 0. */
TD_API td_tensor *td_std_backward(td_tensor *grad, td_tensor *self, td_tensor *result, int64_t n_dim,
        const int64_t *dim, const td_scalar *correction, bool keepdim);
/* The variance of all elements. */
TD_API td_tensor *td_var_unbiased(td_tensor *self, bool unbiased);
/* The variance over dimensions, with or without the correction by 1. */
TD_API td_tensor *td_var_dim(td_tensor *self, int64_t n_dim, const int64_t *dim, bool unbiased, bool keepdim);
TD_API int td_var_out(td_tensor *self, int64_t n_dim, const int64_t *dim, bool unbiased, bool keepdim,
        td_tensor *out) TD_MUST_USE;
/* The standard deviation of all elements. */
TD_API td_tensor *td_std_unbiased(td_tensor *self, bool unbiased);
/* The standard deviation over dimensions, with or without the correction by 1. */
TD_API td_tensor *td_std_dim(td_tensor *self, int64_t n_dim, const int64_t *dim, bool unbiased, bool keepdim);
TD_API int td_std_out(td_tensor *self, int64_t n_dim, const int64_t *dim, bool unbiased, bool keepdim,
        td_tensor *out) TD_MUST_USE;
/* Variance and mean of all elements. */
TD_API int td_var_mean_unbiased(td_tensor **results, td_tensor *self, bool unbiased) TD_MUST_USE;
/* Variance and mean over dimensions, with or without the correction by 1. */
TD_API int td_var_mean_dim(td_tensor **results, td_tensor *self, int64_t n_dim, const int64_t *dim,
        bool unbiased, bool keepdim) TD_MUST_USE;
/* Standard deviation and mean of all elements. */
TD_API int td_std_mean_unbiased(td_tensor **results, td_tensor *self, bool unbiased) TD_MUST_USE;
/* Standard deviation and mean over dimensions, with or without the correction by 1. */
TD_API int td_std_mean_dim(td_tensor **results, td_tensor *self, int64_t n_dim, const int64_t *dim,
        bool unbiased, bool keepdim) TD_MUST_USE;
/* The p-norm of the elements over dimensions, seen as a vector. */
TD_API td_tensor *td_linalg_vector_norm(td_tensor *self, td_scalar ord, int64_t n_dim, const int64_t *dim,
        bool keepdim, td_dtype dtype);
TD_API int td_linalg_vector_norm_out(td_tensor *self, td_scalar ord, int64_t n_dim, const int64_t *dim,
        bool keepdim, td_dtype dtype, td_tensor *out) TD_MUST_USE;
/* The gradient of a p-norm; 0 where it has none. */
TD_API td_tensor *td_vector_norm_backward(td_tensor *grad, td_tensor *self, td_scalar ord, td_tensor *result,
        int64_t n_dim, const int64_t *dim, bool keepdim);
/* The p-norm over dimensions. */
TD_API td_tensor *td_norm_scalaropt_dim(td_tensor *self, const td_scalar *p, int64_t n_dim, const int64_t *dim,
        bool keepdim);
TD_API int td_norm_out(td_tensor *self, const td_scalar *p, int64_t n_dim, const int64_t *dim, bool keepdim,
        td_tensor *out) TD_MUST_USE;
/* The p-norm over dimensions, computed in another dtype. */
TD_API td_tensor *td_norm_scalaropt_dim_dtype(td_tensor *self, const td_scalar *p, int64_t n_dim,
        const int64_t *dim, bool keepdim, td_dtype dtype);
TD_API int td_norm_dtype_out(td_tensor *self, const td_scalar *p, int64_t n_dim, const int64_t *dim,
        bool keepdim, td_dtype dtype, td_tensor *out) TD_MUST_USE;
/* The p-norm of all elements, computed in another dtype. */
TD_API td_tensor *td_norm_scalaropt_dtype(td_tensor *self, const td_scalar *p, td_dtype dtype);
/* The p-norm of all elements. */
TD_API td_tensor *td_norm_scalar(td_tensor *self, td_scalar p);
/* The p-norm of a difference. */
TD_API td_tensor *td_dist(td_tensor *self, td_tensor *other, td_scalar p);
/* log(sum(exp(self))) over dimensions, without overflow. */
TD_API td_tensor *td_logsumexp(td_tensor *self, int64_t n_dim, const int64_t *dim, bool keepdim);
TD_API int td_logsumexp_out(td_tensor *self, int64_t n_dim, const int64_t *dim, bool keepdim,
        td_tensor *out) TD_MUST_USE;
/* A gradient times the softmax. */
TD_API td_tensor *td_logsumexp_backward(td_tensor *grad, td_tensor *self, td_tensor *result, int64_t n_dim,
        const int64_t *dim, bool keepdim);
/* log(sum(exp(self))) over dimensions, without overflow. */
TD_API td_tensor *td_special_logsumexp(td_tensor *self, int64_t n_dim, const int64_t *dim, bool keepdim);
TD_API int td_special_logsumexp_out(td_tensor *self, int64_t n_dim, const int64_t *dim, bool keepdim,
        td_tensor *out) TD_MUST_USE;
/* The sum of a matrix's diagonal. */
TD_API td_tensor *td_trace(td_tensor *self);
/* The only element as a Python number. */
TD_API int td_item(td_scalar *results, td_tensor *self) TD_MUST_USE;
/* The only element as a number. */
TD_API int td__local_scalar_dense(td_scalar *results, td_tensor *self) TD_MUST_USE;
/* Whether the only element isn't zero. */
TD_API int td_is_nonzero(bool *results, td_tensor *self) TD_MUST_USE;
/* Whether two tensors have the same shape and elements. */
TD_API int td_equal(bool *results, td_tensor *self, td_tensor *other) TD_MUST_USE;
/* Whether elements differ by at most ``atol + rtol * |other|``. */
TD_API td_tensor *td_isclose(td_tensor *self, td_tensor *other, double rtol, double atol, bool equal_nan);
/* Whether two tensors have the same shape; nested ones, whether their components have. */
TD_API int td_is_same_size(bool *results, td_tensor *self, td_tensor *other) TD_MUST_USE;
/* Whether all elements differ by at most ``atol + rtol * |other|``. */
TD_API int td_allclose(bool *results, td_tensor *self, td_tensor *other, double rtol, double atol,
        bool equal_nan) TD_MUST_USE;
/* The exclusive or of the elements' bits. */
TD_API td_tensor *td_hash_tensor(td_tensor *self, int64_t n_dim, const int64_t *dim, bool keepdim,
        int64_t mode);
TD_API int td_hash_tensor_out(td_tensor *self, int64_t n_dim, const int64_t *dim, bool keepdim, int64_t mode,
        td_tensor *out) TD_MUST_USE;
/* Whether all elements of a bool tensor are true. */
TD_API td_tensor *td__is_all_true(td_tensor *self);
/* Whether some element of a bool tensor is true. */
TD_API td_tensor *td__is_any_true(td_tensor *self);
/* A copy that holds the elements of all members of a batch, in front, for a check that reads them. */
TD_API td_tensor *td__all_members(td_tensor *self);
/* The least and the largest element. */
TD_API int td__aminmax(td_tensor **results, td_tensor *self) TD_MUST_USE;
/* The least and the largest element along a dimension. */
TD_API int td__aminmax_dim(td_tensor **results, td_tensor *self, int64_t dim, bool keepdim) TD_MUST_USE;

/* ==== rnn ================================================================================================= */

/* Long short-term memory over a sequence: the last layer's outputs, and the last hidden and cell states of all layers. */
TD_API int td_lstm_input(td_tensor **results, td_tensor *input, int64_t n_hx, td_tensor *const *hx,
        int64_t n_params, td_tensor *const *params, bool has_biases, int64_t num_layers, double dropout,
        bool train, bool bidirectional, bool batch_first) TD_MUST_USE;
/* Gated recurrent units over a sequence. */
TD_API int td_gru_input(td_tensor **results, td_tensor *input, td_tensor *hx, int64_t n_params,
        td_tensor *const *params, bool has_biases, int64_t num_layers, double dropout, bool train,
        bool bidirectional, bool batch_first) TD_MUST_USE;
/* A recurrent layer with tanh over a sequence. */
TD_API int td_rnn_tanh_input(td_tensor **results, td_tensor *input, td_tensor *hx, int64_t n_params,
        td_tensor *const *params, bool has_biases, int64_t num_layers, double dropout, bool train,
        bool bidirectional, bool batch_first) TD_MUST_USE;
/* A recurrent layer with relu over a sequence. */
TD_API int td_rnn_relu_input(td_tensor **results, td_tensor *input, td_tensor *hx, int64_t n_params,
        td_tensor *const *params, bool has_biases, int64_t num_layers, double dropout, bool train,
        bool bidirectional, bool batch_first) TD_MUST_USE;
/* One step of long short-term memory. */
TD_API int td_lstm_cell(td_tensor **results, td_tensor *input, int64_t n_hx, td_tensor *const *hx,
        td_tensor *w_ih, td_tensor *w_hh, td_tensor *b_ih, td_tensor *b_hh) TD_MUST_USE;
/* One step of gated recurrent units. */
TD_API td_tensor *td_gru_cell(td_tensor *input, td_tensor *hx, td_tensor *w_ih, td_tensor *w_hh, td_tensor *b_ih,
        td_tensor *b_hh);
/* One step of a recurrent layer with tanh. */
TD_API td_tensor *td_rnn_tanh_cell(td_tensor *input, td_tensor *hx, td_tensor *w_ih, td_tensor *w_hh,
        td_tensor *b_ih, td_tensor *b_hh);
/* One step of a recurrent layer with relu. */
TD_API td_tensor *td_rnn_relu_cell(td_tensor *input, td_tensor *hx, td_tensor *w_ih, td_tensor *w_hh,
        td_tensor *b_ih, td_tensor *b_hh);
/* One layer in one direction, from the products of the inputs with their weights: hidden states, cell states, and what the backward pass needs. Modes: 0 relu, 1 tanh, 2 LSTM, 3 GRU. */
TD_API int td_rnn_layer(td_tensor **results, td_tensor *gates, td_tensor *hx, td_tensor *cx, td_tensor *w_hh,
        td_tensor *b_hh, int64_t mode, bool reverse) TD_MUST_USE;
/* Gradients of rnn_layer. */
TD_API int td_rnn_layer_backward(td_tensor **results, td_tensor *grad, td_tensor *grad_cells, td_tensor *hx,
        td_tensor *cx, td_tensor *w_hh, td_tensor *result, td_tensor *cells, td_tensor *saved, int64_t mode,
        bool reverse, int64_t n_mask, const bool *mask) TD_MUST_USE;
/* Gradients of rnn_layer; differentiable where a graph is being made. */
TD_API int td_rnn_layer_grad(td_tensor **results, td_tensor *grad, td_tensor *grad_cells, td_tensor *gates,
        td_tensor *hx, td_tensor *cx, td_tensor *w_hh, td_tensor *b_hh, td_tensor *result, td_tensor *cells,
        td_tensor *saved, int64_t mode, bool reverse, int64_t n_wants, const bool *wants) TD_MUST_USE;

/* ==== scan ================================================================================================ */

/* Running sums along a dimension; integers are summed in int64. */
TD_API td_tensor *td_cumsum(td_tensor *self, int64_t dim, td_dtype dtype);
TD_API int td_cumsum_(td_tensor *self, int64_t dim, td_dtype dtype) TD_MUST_USE;
TD_API int td_cumsum_out(td_tensor *self, int64_t dim, td_dtype dtype, td_tensor *out) TD_MUST_USE;
/* Running sums from the end. */
TD_API td_tensor *td_cumsum_reverse(td_tensor *self, int64_t dim);
/* The gradient of running sums. */
TD_API td_tensor *td_cumsum_backward(td_tensor *grad, int64_t dim, td_dtype dtype);
/* Running products along a dimension. */
TD_API td_tensor *td_cumprod(td_tensor *self, int64_t dim, td_dtype dtype);
TD_API int td_cumprod_(td_tensor *self, int64_t dim, td_dtype dtype) TD_MUST_USE;
TD_API int td_cumprod_out(td_tensor *self, int64_t dim, td_dtype dtype, td_tensor *out) TD_MUST_USE;
/* The gradient of running products; without a division where there are zeros. */
TD_API td_tensor *td_cumprod_backward(td_tensor *grad, td_tensor *self, td_tensor *result, int64_t dim);
/* The recurrence ``y[i] = self[i] + factor[i] * y[i - 1]`` along a dimension (``y[i + 1]`` in reverse). */
TD_API td_tensor *td_linear_scan(td_tensor *self, td_tensor *factor, int64_t dim, bool reverse);
/* Each element's predecessor along a dimension (its successor, if back); 0 where there is none. */
TD_API td_tensor *td_shift_along(td_tensor *self, int64_t dim, bool back);
/* The largest element so far along a dimension and its last position. */
TD_API int td_cummax(td_tensor **results, td_tensor *self, int64_t dim) TD_MUST_USE;
TD_API int td_cummax_out(td_tensor *self, int64_t dim, td_tensor *values, td_tensor *indices) TD_MUST_USE;
/* The smallest element so far along a dimension and its last position. */
TD_API int td_cummin(td_tensor **results, td_tensor *self, int64_t dim) TD_MUST_USE;
TD_API int td_cummin_out(td_tensor *self, int64_t dim, td_tensor *values, td_tensor *indices) TD_MUST_USE;
/* Gradients summed where the values came from. */
TD_API td_tensor *td_cummax_backward(td_tensor *grad, td_tensor *indices, int64_t n_shape, const int64_t *shape,
        int64_t dim);
/* The logarithm of running sums of exponentials, without overflow. */
TD_API td_tensor *td_logcumsumexp(td_tensor *self, int64_t dim);
TD_API int td_logcumsumexp_out(td_tensor *self, int64_t dim, td_tensor *out) TD_MUST_USE;
/* The gradient of logcumsumexp, positive and negative parts apart. */
TD_API td_tensor *td_logcumsumexp_backward(td_tensor *grad, td_tensor *self, td_tensor *result, int64_t dim);
/* Differences of neighbours along a dimension, n times. */
TD_API td_tensor *td_diff(td_tensor *self, int64_t n, int64_t dim, td_tensor *prepend, td_tensor *append);
TD_API int td_diff_out(td_tensor *self, int64_t n, int64_t dim, td_tensor *prepend, td_tensor *append,
        td_tensor *out) TD_MUST_USE;
/* The integral by the trapezoidal rule, at given points. */
TD_API td_tensor *td_trapezoid_x(td_tensor *y, td_tensor *x, int64_t dim);
/* The integral by the trapezoidal rule, at equal distances. */
TD_API td_tensor *td_trapezoid_dx(td_tensor *y, td_scalar dx, int64_t dim);
/* Another name of trapezoid. */
TD_API td_tensor *td_trapz_x(td_tensor *y, td_tensor *x, int64_t dim);
/* Another name of trapezoid. */
TD_API td_tensor *td_trapz_dx(td_tensor *y, double dx, int64_t dim);
/* Running integrals by the trapezoidal rule, at given points. */
TD_API td_tensor *td_cumulative_trapezoid_x(td_tensor *y, td_tensor *x, int64_t dim);
/* Running integrals by the trapezoidal rule, at equal distances. */
TD_API td_tensor *td_cumulative_trapezoid_dx(td_tensor *y, td_scalar dx, int64_t dim);

/* ==== sequence ============================================================================================ */

/* Ones on the diagonal of a square matrix, zeros elsewhere. */
TD_API td_tensor *td_eye(int64_t n, td_dtype dtype, td_device device);
TD_API int td_eye_out(int64_t n, td_dtype dtype, td_device device, td_tensor *out) TD_MUST_USE;
/* Ones on the diagonal, zeros elsewhere. */
TD_API td_tensor *td_eye_m(int64_t n, int64_t m, td_dtype dtype, td_device device);
TD_API int td_eye_m_out(int64_t n, int64_t m, td_dtype dtype, td_device device, td_tensor *out) TD_MUST_USE;
/* Evenly spaced numbers from start to end, both included. */
TD_API td_tensor *td_linspace(td_scalar start, td_scalar end, int64_t steps, td_dtype dtype, td_device device);
TD_API int td_linspace_out(td_scalar start, td_scalar end, int64_t steps, td_dtype dtype, td_device device,
        td_tensor *out) TD_MUST_USE;
/* Evenly spaced numbers, with ends from 0-dim tensors. */
TD_API td_tensor *td_linspace_tensor_tensor(td_tensor *start, td_tensor *end, int64_t steps, td_dtype dtype,
        td_device device);
/* Evenly spaced numbers, with ends from 0-dim tensors. */
TD_API td_tensor *td_linspace_tensor_scalar(td_tensor *start, td_scalar end, int64_t steps, td_dtype dtype,
        td_device device);
/* Evenly spaced numbers, with ends from 0-dim tensors. */
TD_API td_tensor *td_linspace_scalar_tensor(td_scalar start, td_tensor *end, int64_t steps, td_dtype dtype,
        td_device device);
/* Powers of base with evenly spaced exponents. */
TD_API td_tensor *td_logspace(td_scalar start, td_scalar end, int64_t steps, double base, td_dtype dtype,
        td_device device);
TD_API int td_logspace_out(td_scalar start, td_scalar end, int64_t steps, double base, td_dtype dtype,
        td_device device, td_tensor *out) TD_MUST_USE;
/* Powers of base, with ends from 0-dim tensors. */
TD_API td_tensor *td_logspace_tensor_tensor(td_tensor *start, td_tensor *end, int64_t steps, double base,
        td_dtype dtype, td_device device);
/* Powers of base, with ends from 0-dim tensors. */
TD_API td_tensor *td_logspace_tensor_scalar(td_tensor *start, td_scalar end, int64_t steps, double base,
        td_dtype dtype, td_device device);
/* Powers of base, with ends from 0-dim tensors. */
TD_API td_tensor *td_logspace_scalar_tensor(td_scalar start, td_tensor *end, int64_t steps, double base,
        td_dtype dtype, td_device device);
/* start, start + 1, ... up to end, included; arange is what to use. */
TD_API td_tensor *td_range(td_scalar start, td_scalar end, td_dtype dtype, td_device device);
TD_API int td_range_out(td_scalar start, td_scalar end, td_dtype dtype, td_device device,
        td_tensor *out) TD_MUST_USE;
/* start, start + step, ... up to end, included; arange is what to use. */
TD_API td_tensor *td_range_step(td_scalar start, td_scalar end, td_scalar step, td_dtype dtype,
        td_device device);
TD_API int td_range_step_out(td_scalar start, td_scalar end, td_scalar step, td_dtype dtype, td_device device,
        td_tensor *out) TD_MUST_USE;
/* A 0-dim tensor of a number. */
TD_API td_tensor *td_scalar_tensor(td_scalar s, td_dtype dtype, td_device device);
/* A complex tensor from absolute values and angles. */
TD_API td_tensor *td_polar(td_tensor *abs, td_tensor *angle);
TD_API int td_polar_out(td_tensor *abs, td_tensor *angle, td_tensor *out) TD_MUST_USE;
/* The Hann window, periodic. */
TD_API td_tensor *td_hann_window(int64_t window_length, td_dtype dtype, td_device device);
/* The Hann window. */
TD_API td_tensor *td_hann_window_periodic(int64_t window_length, bool periodic, td_dtype dtype,
        td_device device);
/* The Hamming window, periodic. */
TD_API td_tensor *td_hamming_window(int64_t window_length, td_dtype dtype, td_device device);
/* The Hamming window. */
TD_API td_tensor *td_hamming_window_periodic(int64_t window_length, bool periodic, td_dtype dtype,
        td_device device);
/* The Blackman window, periodic. */
TD_API td_tensor *td_blackman_window(int64_t window_length, td_dtype dtype, td_device device);
/* The Blackman window. */
TD_API td_tensor *td_blackman_window_periodic(int64_t window_length, bool periodic, td_dtype dtype,
        td_device device);
/* The Bartlett window, periodic. */
TD_API td_tensor *td_bartlett_window(int64_t window_length, td_dtype dtype, td_device device);
/* The Bartlett window. */
TD_API td_tensor *td_bartlett_window_periodic(int64_t window_length, bool periodic, td_dtype dtype,
        td_device device);
/* The Kaiser window, periodic. */
TD_API td_tensor *td_kaiser_window(int64_t window_length, td_dtype dtype, td_device device);
/* The Kaiser window. */
TD_API td_tensor *td_kaiser_window_periodic(int64_t window_length, bool periodic, td_dtype dtype,
        td_device device);
/* The Hamming window with its coefficient. */
TD_API td_tensor *td_hamming_window_periodic_alpha(int64_t window_length, bool periodic, double alpha,
        td_dtype dtype, td_device device);
/* The Hamming window with both coefficients. */
TD_API td_tensor *td_hamming_window_periodic_alpha_beta(int64_t window_length, bool periodic, double alpha,
        double beta, td_dtype dtype, td_device device);
/* The Kaiser window with its shape parameter. */
TD_API td_tensor *td_kaiser_window_beta(int64_t window_length, bool periodic, double beta, td_dtype dtype,
        td_device device);

/* ==== shape =============================================================================================== */

/* The same elements in another shape, without a copy; an error where the strides don't allow it. */
TD_API td_tensor *td_view(td_tensor *self, int64_t n_size, const int64_t *size);
/* As ``view``, of memory that nobody else uses; the result counts as no view of it. */
TD_API td_tensor *td__unsafe_view(td_tensor *self, int64_t n_size, const int64_t *size);
/* The same elements in another shape, as a view if possible, else a copy. */
TD_API td_tensor *td_reshape(td_tensor *self, int64_t n_shape, const int64_t *shape);
/* Dimensions of size 1 repeated, and new ones in front, without a copy. */
TD_API td_tensor *td_expand_to(td_tensor *self, int64_t n_size, const int64_t *size, bool implicit);
/* The sum over the dimensions that broadcasting from ``size`` would repeat. */
TD_API td_tensor *td_sum_to_size(td_tensor *self, int64_t n_size, const int64_t *size);
/* Two dimensions swapped. */
TD_API td_tensor *td_transpose_int(td_tensor *self, int64_t dim0, int64_t dim1);
/* A matrix transposed; vectors and numbers as they are. */
TD_API td_tensor *td_t(td_tensor *self);
/* The dimensions in another order. */
TD_API td_tensor *td_permute(td_tensor *self, int64_t n_dims, const int64_t *dims);
/* Undoes a permutation. */
TD_API td_tensor *td_permute_backward(td_tensor *grad, int64_t n_dims, const int64_t *dims);
/* One position along a dimension, which disappears. */
TD_API td_tensor *td_select_int(td_tensor *self, int64_t dim, int64_t index);
/* Zeros but for one position. */
TD_API td_tensor *td_select_backward(td_tensor *grad_output, int64_t n_input_sizes, const int64_t *input_sizes,
        int64_t dim, int64_t index);
/* A range along a dimension; step may be negative, as in Python. */
TD_API td_tensor *td_slice_tensor(td_tensor *self, int64_t dim, const int64_t *start, const int64_t *end,
        int64_t step);
/* Zeros but for a range. */
TD_API td_tensor *td_slice_backward(td_tensor *grad_output, int64_t n_input_sizes, const int64_t *input_sizes,
        int64_t dim, const int64_t *start, const int64_t *end, int64_t step);
/* A range along a dimension, by its length. */
TD_API td_tensor *td_narrow(td_tensor *self, int64_t dim, int64_t start, int64_t length);
/* A range along a dimension, whose start is a 0-dim tensor. */
TD_API td_tensor *td_narrow_tensor(td_tensor *self, int64_t dim, td_tensor *start, int64_t length);
/* A new dimension of size 1. */
TD_API td_tensor *td_unsqueeze(td_tensor *self, int64_t dim);
/* Without the dimensions of size 1. */
TD_API td_tensor *td_squeeze(td_tensor *self);
/* Without a dimension, if its size is 1. */
TD_API td_tensor *td_squeeze_dim(td_tensor *self, int64_t dim);
/* Without those of the given dimensions whose size is 1. */
TD_API td_tensor *td_squeeze_dims(td_tensor *self, int64_t n_dim, const int64_t *dim);
/* A view with given sizes, strides (signed) and offset over self's storage. */
TD_API td_tensor *td_as_strided(td_tensor *self, int64_t n_size, const int64_t *size, int64_t n_stride,
        const int64_t *stride, const int64_t *storage_offset);
/* The gradient of as_strided, summed where the view overlaps itself. */
TD_API td_tensor *td_as_strided_backward(td_tensor *grad, int64_t n_base_size, const int64_t *base_size,
        int64_t n_base_stride, const int64_t *base_stride, int64_t base_offset, int64_t n_size,
        const int64_t *size, int64_t n_stride, const int64_t *stride, const int64_t *storage_offset);
/* as_strided of a tensor of the given geometry with self's elements; where that overlaps itself, of their mean. */
TD_API td_tensor *td_as_strided_through(td_tensor *self, int64_t n_base_size, const int64_t *base_size,
        int64_t n_base_stride, const int64_t *base_stride, int64_t base_offset, int64_t n_size,
        const int64_t *size, int64_t n_stride, const int64_t *stride, const int64_t *storage_offset);
/* The same memory without history. */
TD_API td_tensor *td_detach(td_tensor *self);
/* A view of all of self. */
TD_API td_tensor *td_alias(td_tensor *self);
/* A copy in memory that an accelerator reads directly. Without such a device it is an error. */
TD_API td_tensor *td_pin_memory(td_tensor *self, td_device device);
/* The same, for devices to implement. */
TD_API td_tensor *td__pin_memory(td_tensor *self, td_device device);
/* A diagonal of two dimensions, as the last dimension. */
TD_API td_tensor *td_diagonal(td_tensor *self, int64_t offset, int64_t dim1, int64_t dim2);
/* Zeros but for a diagonal. */
TD_API td_tensor *td_diagonal_backward(td_tensor *grad_output, int64_t n_input_sizes, const int64_t *input_sizes,
        int64_t offset, int64_t dim1, int64_t dim2);
/* Sliding windows along a dimension, as a new last dimension. */
TD_API td_tensor *td_unfold(td_tensor *self, int64_t dimension, int64_t size, int64_t step);
/* Windows added up where they overlap. */
TD_API td_tensor *td_unfold_backward(td_tensor *grad_in, int64_t n_input_sizes, const int64_t *input_sizes,
        int64_t dim, int64_t size, int64_t step);
/* One view per position along a dimension. */
TD_API int td_unbind_int(td_tensor_list *results, td_tensor *self, int64_t dim) TD_MUST_USE;
/* Gradients as one tensor, whose dimensions lie in the order of the operand's. */
TD_API td_tensor *td_unbind_backward(int64_t n_grads, td_tensor *const *grads, int64_t dim, int64_t n_strides,
        const int64_t *strides);
/* Consecutive ranges of given lengths. */
TD_API int td_split_with_sizes(td_tensor_list *results, td_tensor *self, int64_t n_split_sizes,
        const int64_t *split_sizes, int64_t dim) TD_MUST_USE;
/* Consecutive ranges of one length; the last may be shorter. */
TD_API int td_split_tensor(td_tensor_list *results, td_tensor *self, int64_t split_size,
        int64_t dim) TD_MUST_USE;
/* Consecutive ranges of given lengths. */
TD_API int td_split_sizes(td_tensor_list *results, td_tensor *self, int64_t n_split_size,
        const int64_t *split_size, int64_t dim) TD_MUST_USE;
/* At most so many ranges of equal length. */
TD_API int td_chunk(td_tensor_list *results, td_tensor *self, int64_t chunks, int64_t dim) TD_MUST_USE;
/* The real part, as a view; a real tensor itself. */
TD_API td_tensor *td_real(td_tensor *self);
/* The imaginary part, as a view. */
TD_API td_tensor *td_imag(td_tensor *self);
/* A complex tensor as a real one with a last dimension of 2. */
TD_API td_tensor *td_view_as_real(td_tensor *self);
/* A real tensor with a last dimension of 2 as a complex one. */
TD_API td_tensor *td_view_as_complex(td_tensor *self);
/* The same bytes as another dtype. */
TD_API td_tensor *td_view_dtype(td_tensor *self, td_dtype dtype);
/* The complex conjugate, as a view whose values nobody has computed yet; a real tensor itself. */
TD_API td_tensor *td_conj(td_tensor *self);
/* What conj gives of a complex tensor. */
TD_API td_tensor *td__conj(td_tensor *self);
/* The negative, as a view whose values nobody has computed yet. */
TD_API td_tensor *td__neg_view(td_tensor *self);
/* A tensor in whose memory no conjugate is left to compute; self where there is none. */
TD_API td_tensor *td_resolve_conj(td_tensor *self);
/* A tensor in whose memory no negative is left to compute; self where there is none. */
TD_API td_tensor *td_resolve_neg(td_tensor *self);
/* Several dimensions merged into one. */
TD_API td_tensor *td_flatten_using_ints(td_tensor *self, int64_t start_dim, int64_t end_dim);
/* Tensors one after another along a dimension. */
TD_API td_tensor *td_cat(int64_t n_tensors, td_tensor *const *tensors, int64_t dim);
TD_API int td_cat_out(int64_t n_tensors, td_tensor *const *tensors, int64_t dim, td_tensor *out) TD_MUST_USE;
/* The parts of a concatenation. */
TD_API int td_cat_backward(td_tensor_list *results, td_tensor *grad, int64_t n_ranks, const int64_t *ranks,
        int64_t n_shapes, const int64_t *shapes, int64_t dim) TD_MUST_USE;
/* Tensors side by side along a new dimension. */
TD_API td_tensor *td_stack(int64_t n_tensors, td_tensor *const *tensors, int64_t dim);
TD_API int td_stack_out(int64_t n_tensors, td_tensor *const *tensors, int64_t dim, td_tensor *out) TD_MUST_USE;
/* self in other's shape, without a copy. */
TD_API td_tensor *td_view_as(td_tensor *self, td_tensor *other);
/* self in other's shape. */
TD_API td_tensor *td_reshape_as(td_tensor *self, td_tensor *other);
/* self expanded to other's shape. */
TD_API td_tensor *td_expand_as(td_tensor *self, td_tensor *other);
/* self expanded to a shape. */
TD_API td_tensor *td_broadcast_to(td_tensor *self, int64_t n_size, const int64_t *size);

/* ==== signal ============================================================================================== */

/* Fourier transforms of windows that slide along a signal. */
TD_API td_tensor *td_stft_center(td_tensor *self, int64_t n_fft, const int64_t *hop_length,
        const int64_t *win_length, td_tensor *window, bool center, const char *pad_mode, bool normalized,
        const bool *onesided, const bool *return_complex, const bool *align_to_window);
/* The signal whose stft is given, as far as the windows cover it. */
TD_API td_tensor *td_istft(td_tensor *self, int64_t n_fft, const int64_t *hop_length, const int64_t *win_length,
        td_tensor *window, bool center, bool normalized, const bool *onesided, const int64_t *length,
        bool return_complex);
/* Derivatives along dimensions, from samples that are equally spaced or lie at given coordinates. */
TD_API int td_gradient_scalarint(td_tensor_list *results, td_tensor *self, const td_scalar *spacing,
        const int64_t *dim, int64_t edge_order) TD_MUST_USE;
/* Derivatives along dimensions, from samples that are equally spaced or lie at given coordinates. */
TD_API int td_gradient_scalararray(td_tensor_list *results, td_tensor *self, td_scalar spacing, int64_t n_dim,
        const int64_t *dim, int64_t edge_order) TD_MUST_USE;
/* Derivatives along dimensions, from samples that are equally spaced or lie at given coordinates. */
TD_API int td_gradient_array(td_tensor_list *results, td_tensor *self, int64_t n_dim, const int64_t *dim,
        int64_t edge_order) TD_MUST_USE;
/* Derivatives along dimensions, from samples that are equally spaced or lie at given coordinates. */
TD_API int td_gradient_scalarrayint(td_tensor_list *results, td_tensor *self, int64_t n_spacing,
        const td_scalar *spacing, const int64_t *dim, int64_t edge_order) TD_MUST_USE;
/* Derivatives along dimensions, from samples that are equally spaced or lie at given coordinates. */
TD_API int td_gradient_scalarrayarray(td_tensor_list *results, td_tensor *self, int64_t n_spacing,
        const td_scalar *spacing, int64_t n_dim, const int64_t *dim, int64_t edge_order) TD_MUST_USE;
/* Derivatives along dimensions, from samples that are equally spaced or lie at given coordinates. */
TD_API int td_gradient_tensorarrayint(td_tensor_list *results, td_tensor *self, int64_t n_spacing,
        td_tensor *const *spacing, const int64_t *dim, int64_t edge_order) TD_MUST_USE;
/* Derivatives along dimensions, from samples that are equally spaced or lie at given coordinates. */
TD_API int td_gradient_tensorarray(td_tensor_list *results, td_tensor *self, int64_t n_spacing,
        td_tensor *const *spacing, int64_t n_dim, const int64_t *dim, int64_t edge_order) TD_MUST_USE;
/* How many elements lie between given edges, or their weight. */
TD_API int td_histogram_bins_tensor(td_tensor **results, td_tensor *self, td_tensor *bins, td_tensor *weight,
        bool density) TD_MUST_USE;
TD_API int td_histogram_bins_tensor_out(td_tensor *self, td_tensor *bins, td_tensor *weight, bool density,
        td_tensor *hist, td_tensor *bin_edges) TD_MUST_USE;
/* How many elements lie in equally wide bins, or their weight. */
TD_API int td_histogram_bin_ct(td_tensor **results, td_tensor *self, int64_t bins, int64_t n_range,
        const double *range, td_tensor *weight, bool density) TD_MUST_USE;
TD_API int td_histogram_bin_ct_out(td_tensor *self, int64_t bins, int64_t n_range, const double *range,
        td_tensor *weight, bool density, td_tensor *hist, td_tensor *bin_edges) TD_MUST_USE;
/* The edges of equally wide bins, for each coordinate of points. */
TD_API int td__histogramdd_bin_edges(td_tensor_list *results, td_tensor *self, int64_t n_bins,
        const int64_t *bins, int64_t n_range, const double *range, td_tensor *weight, bool density) TD_MUST_USE;
/* How many points lie in the cells of an even grid, or their weight. */
TD_API td_tensor *td__histogramdd_from_bin_cts(td_tensor *self, int64_t n_bins, const int64_t *bins,
        int64_t n_range, const double *range, td_tensor *weight, bool density);
/* How many points lie in the cells of a grid, or their weight. */
TD_API td_tensor *td__histogramdd_from_bin_tensors(td_tensor *self, int64_t n_bins, td_tensor *const *bins,
        td_tensor *weight, bool density);
/* Consecutive stretches along a dimension reduced to a number each. */
TD_API td_tensor *td_segment_reduce(td_tensor *data, const char *reduce, td_tensor *lengths, td_tensor *indices,
        td_tensor *offsets, int64_t axis, bool unsafe, const td_scalar *initial);
/* The derivative of segment_reduce. */
TD_API td_tensor *td__segment_reduce_backward(td_tensor *grad, td_tensor *output, td_tensor *data,
        const char *reduce, td_tensor *lengths, td_tensor *offsets, int64_t axis, const td_scalar *initial);

/* ==== sort ================================================================================================ */

/* Elements in order along a dimension, and where they were; NaN counts as the largest, equal ones keep their order. */
TD_API int td_sort_stable(td_tensor **results, td_tensor *self, const bool *stable, int64_t dim,
        bool descending) TD_MUST_USE;
TD_API int td_sort_values_stable(td_tensor *self, const bool *stable, int64_t dim, bool descending,
        td_tensor *values, td_tensor *indices) TD_MUST_USE;
/* Elements in order along a dimension, and where they were; NaN counts as the largest. */
TD_API int td_sort_dim(td_tensor **results, td_tensor *self, int64_t dim, bool descending) TD_MUST_USE;
TD_API int td_sort_values(td_tensor *self, int64_t dim, bool descending, td_tensor *values,
        td_tensor *indices) TD_MUST_USE;
/* Where the elements in order are. */
TD_API td_tensor *td_argsort(td_tensor *self, int64_t dim, bool descending);
/* Where the elements in order are; equal ones keep their order. */
TD_API td_tensor *td_argsort_stable(td_tensor *self, bool stable, int64_t dim, bool descending);
TD_API int td_argsort_stable_out(td_tensor *self, bool stable, int64_t dim, bool descending,
        td_tensor *out) TD_MUST_USE;
/* Elements in order along the first dimension. */
TD_API td_tensor *td_msort(td_tensor *self);
TD_API int td_msort_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* The k largest (or smallest) elements along a dimension, in order, and where they are. */
TD_API int td_topk(td_tensor **results, td_tensor *self, int64_t k, int64_t dim, bool largest,
        bool sorted) TD_MUST_USE;
TD_API int td_topk_values(td_tensor *self, int64_t k, int64_t dim, bool largest, bool sorted, td_tensor *values,
        td_tensor *indices) TD_MUST_USE;
/* The k-th smallest element along a dimension and where it is. */
TD_API int td_kthvalue(td_tensor **results, td_tensor *self, int64_t k, int64_t dim, bool keepdim) TD_MUST_USE;
TD_API int td_kthvalue_values(td_tensor *self, int64_t k, int64_t dim, bool keepdim, td_tensor *values,
        td_tensor *indices) TD_MUST_USE;
/* The median (of two, the lower) along a dimension and where it is; NaN if there is one. */
TD_API int td_median_dim(td_tensor **results, td_tensor *self, int64_t dim, bool keepdim) TD_MUST_USE;
TD_API int td_median_dim_values(td_tensor *self, int64_t dim, bool keepdim, td_tensor *values,
        td_tensor *indices) TD_MUST_USE;
/* The median of what isn't NaN along a dimension and where it is. */
TD_API int td_nanmedian_dim(td_tensor **results, td_tensor *self, int64_t dim, bool keepdim) TD_MUST_USE;
TD_API int td_nanmedian_dim_values(td_tensor *self, int64_t dim, bool keepdim, td_tensor *values,
        td_tensor *indices) TD_MUST_USE;
/* The median of all elements (of two, the lower). */
TD_API td_tensor *td_median_all(td_tensor *self);
/* The median of all elements that aren't NaN. */
TD_API td_tensor *td_nanmedian_all(td_tensor *self);
/* The most frequent element along a dimension (of several, the smallest) and its last position. */
TD_API int td_mode(td_tensor **results, td_tensor *self, int64_t dim, bool keepdim) TD_MUST_USE;
TD_API int td_mode_values(td_tensor *self, int64_t dim, bool keepdim, td_tensor *values,
        td_tensor *indices) TD_MUST_USE;
/* Quantiles along a dimension, or of all elements. */
TD_API td_tensor *td_quantile(td_tensor *self, td_tensor *q, const int64_t *dim, bool keepdim,
        const char *interpolation);
TD_API int td_quantile_out(td_tensor *self, td_tensor *q, const int64_t *dim, bool keepdim,
        const char *interpolation, td_tensor *out) TD_MUST_USE;
/* A quantile along a dimension, or of all elements. */
TD_API td_tensor *td_quantile_scalar(td_tensor *self, double q, const int64_t *dim, bool keepdim,
        const char *interpolation);
TD_API int td_quantile_scalar_out(td_tensor *self, double q, const int64_t *dim, bool keepdim,
        const char *interpolation, td_tensor *out) TD_MUST_USE;
/* Quantiles of what isn't NaN. */
TD_API td_tensor *td_nanquantile(td_tensor *self, td_tensor *q, const int64_t *dim, bool keepdim,
        const char *interpolation);
TD_API int td_nanquantile_out(td_tensor *self, td_tensor *q, const int64_t *dim, bool keepdim,
        const char *interpolation, td_tensor *out) TD_MUST_USE;
/* A quantile of what isn't NaN. */
TD_API td_tensor *td_nanquantile_scalar(td_tensor *self, double q, const int64_t *dim, bool keepdim,
        const char *interpolation);
TD_API int td_nanquantile_scalar_out(td_tensor *self, double q, const int64_t *dim, bool keepdim,
        const char *interpolation, td_tensor *out) TD_MUST_USE;
/* Each different element once, in order; optionally where each element went and how often each occurs. */
TD_API int td__unique2(td_tensor **results, td_tensor *self, bool sorted, bool return_inverse,
        bool return_counts) TD_MUST_USE;
/* Each different element once, in order. */
TD_API int td__unique(td_tensor **results, td_tensor *self, bool sorted, bool return_inverse) TD_MUST_USE;
/* Each different slice along a dimension once, in order. */
TD_API int td_unique_dim(td_tensor **results, td_tensor *self, int64_t dim, bool sorted, bool return_inverse,
        bool return_counts) TD_MUST_USE;
/* Elements (or slices) without repetitions of the one before. */
TD_API int td_unique_consecutive(td_tensor **results, td_tensor *self, bool return_inverse, bool return_counts,
        const int64_t *dim) TD_MUST_USE;
/* Slices along a dimension without repetitions of the one before. */
TD_API int td_unique_dim_consecutive(td_tensor **results, td_tensor *self, int64_t dim, bool return_inverse,
        bool return_counts) TD_MUST_USE;
/* Where values would go into sorted rows to keep them sorted. */
TD_API td_tensor *td_searchsorted_tensor(td_tensor *sorted_sequence, td_tensor *self, bool out_int32, bool right,
        const char *side, td_tensor *sorter);
TD_API int td_searchsorted_out(td_tensor *sorted_sequence, td_tensor *self, bool out_int32, bool right,
        const char *side, td_tensor *sorter, td_tensor *out) TD_MUST_USE;
/* Where a number would go into a sorted row. */
TD_API td_tensor *td_searchsorted_scalar(td_tensor *sorted_sequence, td_scalar self, bool out_int32, bool right,
        const char *side, td_tensor *sorter);
TD_API int td_searchsorted_scalar_out(td_tensor *sorted_sequence, td_scalar self, bool out_int32, bool right,
        const char *side, td_tensor *sorter, td_tensor *out) TD_MUST_USE;
/* The number of the bucket that each value falls into. */
TD_API td_tensor *td_bucketize_tensor(td_tensor *self, td_tensor *boundaries, bool out_int32, bool right);
TD_API int td_bucketize_out(td_tensor *self, td_tensor *boundaries, bool out_int32, bool right,
        td_tensor *out) TD_MUST_USE;
/* The number of the bucket that a number falls into. */
TD_API td_tensor *td_bucketize_scalar(td_scalar self, td_tensor *boundaries, bool out_int32, bool right);
TD_API int td_bucketize_scalar_out(td_scalar self, td_tensor *boundaries, bool out_int32, bool right,
        td_tensor *out) TD_MUST_USE;
/* Whether elements are among others. */
TD_API td_tensor *td_isin_tensor_tensor(td_tensor *elements, td_tensor *test_elements, bool assume_unique,
        bool invert);
TD_API int td_isin_tensor_tensor_out(td_tensor *elements, td_tensor *test_elements, bool assume_unique,
        bool invert, td_tensor *out) TD_MUST_USE;
/* Whether elements equal a number. */
TD_API td_tensor *td_isin_tensor_scalar(td_tensor *elements, td_scalar test_element, bool assume_unique,
        bool invert);
TD_API int td_isin_tensor_scalar_out(td_tensor *elements, td_scalar test_element, bool assume_unique,
        bool invert, td_tensor *out) TD_MUST_USE;
/* Whether a number is among elements. */
TD_API td_tensor *td_isin_scalar_tensor(td_scalar element, td_tensor *test_elements, bool assume_unique,
        bool invert);
TD_API int td_isin_scalar_tensor_out(td_scalar element, td_tensor *test_elements, bool assume_unique,
        bool invert, td_tensor *out) TD_MUST_USE;
/* How many elements fall into each of equal bins. */
TD_API td_tensor *td_histc(td_tensor *self, int64_t bins, td_scalar min, td_scalar max);
TD_API int td_histc_out(td_tensor *self, int64_t bins, td_scalar min, td_scalar max,
        td_tensor *out) TD_MUST_USE;
/* How often each number occurs, or the sum of its weights. */
TD_API td_tensor *td_bincount(td_tensor *self, td_tensor *weights, int64_t minlength);

/* ==== sparse ============================================================================================== */

/* A COO tensor over indices and values, whose first ``sparse_dim`` dimensions are the indices' and the others the values'. */
TD_API td_tensor *td__sparse_coo_tensor_with_dims_and_tensors(int64_t sparse_dim, int64_t dense_dim,
        int64_t n_size, const int64_t *size, td_tensor *indices, td_tensor *values, td_dtype dtype,
        td_device device, const bool *is_coalesced);
/* The elements of a gradient at indices. */
TD_API td_tensor *td_sparse_constructor_values_backward(td_tensor *self, td_tensor *indices, td_dtype dtype);
/* An empty COO tensor. */
TD_API td_tensor *td__sparse_coo_tensor_with_dims(int64_t sparse_dim, int64_t dense_dim, int64_t n_size,
        const int64_t *size, td_dtype dtype, td_device device);
/* An empty COO tensor. */
TD_API td_tensor *td_sparse_coo_tensor_size(int64_t n_size, const int64_t *size, td_dtype dtype,
        td_device device);
/* A COO tensor just large enough for its indices. */
TD_API td_tensor *td_sparse_coo_tensor_indices(td_tensor *indices, td_tensor *values, td_dtype dtype,
        td_device device, const bool *is_coalesced);
/* A COO tensor of a shape. That the indices fit it is checked where they are used, or by ``check_invariants``. */
TD_API td_tensor *td_sparse_coo_tensor_indices_size(td_tensor *indices, td_tensor *values, int64_t n_size,
        const int64_t *size, td_dtype dtype, td_device device, const bool *is_coalesced);
/* What sparse_coo_tensor gives. */
TD_API td_tensor *td__sparse_coo_tensor_unsafe(td_tensor *indices, td_tensor *values, int64_t n_size,
        const int64_t *size, td_dtype dtype, td_device device, const bool *is_coalesced);
/* Raises unless indices and values make a COO tensor of the size. */
TD_API int td__validate_sparse_coo_tensor_args(td_tensor *indices, td_tensor *values, int64_t n_size,
        const int64_t *size, const bool *is_coalesced, const bool *check_pinning) TD_MUST_USE;
/* The linear index of each column of indices in a contiguous tensor of the size. */
TD_API td_tensor *td__coo_keys(td_tensor *indices, int64_t n_size, const int64_t *size);
/* The indices, a column each, of linear indices in a contiguous tensor of the size. */
TD_API td_tensor *td__coo_unkeys(td_tensor *self, int64_t n_size, const int64_t *size);
/* How many elements a sparse tensor specifies. */
TD_API int td__nnz(int64_t *results, td_tensor *self) TD_MUST_USE;
/* How many dimensions have indices. */
TD_API int td_sparse_dim(int64_t *results, td_tensor *self) TD_MUST_USE;
/* How many dimensions of a sparse tensor are those of its values. */
TD_API int td_dense_dim(int64_t *results, td_tensor *self) TD_MUST_USE;
/* Whether a COO tensor's indices are unique and in order. */
TD_API int td_is_coalesced(bool *results, td_tensor *self) TD_MUST_USE;
TD_API int td__coalesced_(td_tensor *self, bool coalesced) TD_MUST_USE;
/* A COO tensor's indices as they are. */
TD_API td_tensor *td__indices(td_tensor *self);
/* A COO tensor's values as they are. */
TD_API td_tensor *td__values(td_tensor *self);
/* A coalesced COO tensor's indices. */
TD_API td_tensor *td_indices(td_tensor *self);
/* A sparse tensor's values. */
TD_API td_tensor *td_values(td_tensor *self);
/* A sparse tensor like self with a gradient's values. */
TD_API td_tensor *td_values_backward(td_tensor *grad, td_tensor *self);
/* The same COO tensor with unique indices in order, the values of equal indices added up. */
TD_API td_tensor *td_coalesce(td_tensor *self);
/* What coalesce gives. */
TD_API td_tensor *td__coalesce(td_tensor *self);
/* The same elements as a strided tensor; one that is strided already is returned. */
TD_API td_tensor *td_to_dense(td_tensor *self, td_dtype dtype, const bool *masked_grad);
/* to_dense of a tensor of another layout. */
TD_API td_tensor *td__to_dense(td_tensor *self, td_dtype dtype, const bool *masked_grad);
/* The gradient of to_dense, of input's layout, and where that has elements by default. */
TD_API td_tensor *td_to_dense_backward(td_tensor *grad, td_tensor *input, const bool *masked_grad);
/* A COO tensor of the elements that aren't zero; the dimensions after the first ``sparse_dim`` are dense. */
TD_API td_tensor *td_to_sparse_sparse_dim(td_tensor *self, int64_t sparse_dim);
/* The gradient of to_sparse, of self's layout. */
TD_API td_tensor *td_to_sparse_backward(td_tensor *grad, td_tensor *self);
/* The elements of self at the indices that mask has. */
TD_API td_tensor *td_sparse_mask(td_tensor *self, td_tensor *mask);
/* The gradient of sparse_mask. */
TD_API td_tensor *td_sparse_mask_backward(td_tensor *grad, td_tensor *mask);
/* The values that self has at the indices of the sparse tensor mask, zeros where it has none. */
TD_API td_tensor *td__values_at(td_tensor *self, td_tensor *mask);
TD_API int td_sparse_resize_(td_tensor *self, int64_t n_size, const int64_t *size, int64_t sparse_dim,
        int64_t dense_dim) TD_MUST_USE;
TD_API int td_sparse_resize_and_clear_(td_tensor *self, int64_t n_size, const int64_t *size, int64_t sparse_dim,
        int64_t dense_dim) TD_MUST_USE;
TD_API int td_copy_sparse_to_sparse_(td_tensor *self, td_tensor *src, bool non_blocking) TD_MUST_USE;
/* A matrix of the rows that crow, col and values give, times a dense one. */
TD_API td_tensor *td__csr_product(td_tensor *crow, td_tensor *col, td_tensor *values, td_tensor *dense);
/* The elements that are kept of a matrix, of which two of every four in a row are zero at least, and where they are. */
TD_API int td__to_sparse_semi_structured(td_tensor **results, td_tensor *dense) TD_MUST_USE;
/* The matrix that was packed. */
TD_API td_tensor *td__semi_structured_to_dense(td_tensor *packed, td_tensor *meta);
/* The matrix that was packed, times a strided one. */
TD_API td_tensor *td__semi_structured_product(td_tensor *packed, td_tensor *meta, td_tensor *dense);
/* The product of a matrix of which two of every four elements are kept with a strided one. */
TD_API td_tensor *td__sparse_semi_structured_mm(td_tensor *mat1, td_tensor *mat1_meta, td_tensor *mat2,
        td_dtype out_dtype);
/* ``linear`` with such a weight, and perhaps an activation, ``relu`` or ``silu``. */
TD_API td_tensor *td__sparse_semi_structured_linear(td_tensor *input, td_tensor *weight, td_tensor *meta,
        td_tensor *bias, const char *activation, td_dtype out_dtype);
/* A CSR, CSC, BSR or BSC tensor over its parts. */
TD_API td_tensor *td_sparse_compressed_tensor_comp_plain_value_size(td_tensor *compressed_indices,
        td_tensor *plain_indices, td_tensor *values, int64_t n_size, const int64_t *size, td_dtype dtype,
        td_layout layout, td_device device);
/* A CSR, CSC, BSR or BSC tensor with room for so many elements or blocks, whose indices are zero. */
TD_API td_tensor *td__sparse_compressed_tensor_with_dims(int64_t nnz, int64_t dense_dim, int64_t n_size,
        const int64_t *size, int64_t n_blocksize, const int64_t *blocksize, td_dtype index_dtype, td_dtype dtype,
        td_layout layout, td_device device);
/* A compressed tensor just large enough for its indices. */
TD_API td_tensor *td_sparse_compressed_tensor_comp_plain_value(td_tensor *compressed_indices,
        td_tensor *plain_indices, td_tensor *values, td_dtype dtype, td_layout layout, td_device device);
/* Raises unless the parts make a tensor of the layout and the size. */
TD_API int td__validate_sparse_compressed_tensor_args(td_tensor *compressed_indices, td_tensor *plain_indices,
        td_tensor *values, int64_t n_size, const int64_t *size, td_layout layout,
        const bool *check_pinning) TD_MUST_USE;
/* Raises unless the indices are those of a compressed matrix, or of a batch of them, of the given sizes. */
TD_API int td__validate_compressed_sparse_indices(bool is_crow, td_tensor *compressed_idx, td_tensor *plain_idx,
        int64_t cdim, int64_t dim, int64_t nnz) TD_MUST_USE;
/* Where each row of a compressed tensor begins among its values. */
TD_API td_tensor *td_crow_indices(td_tensor *self);
/* Where each column of a compressed tensor begins among its values. */
TD_API td_tensor *td_ccol_indices(td_tensor *self);
/* The column of each value of a compressed tensor. */
TD_API td_tensor *td_col_indices(td_tensor *self);
/* The row of each value of a compressed tensor. */
TD_API td_tensor *td_row_indices(td_tensor *self);
/* The elements that aren't zero, by compressed rows. */
TD_API td_tensor *td_to_sparse_csr(td_tensor *self, const int64_t *dense_dim);
/* The elements that aren't zero, by compressed columns. */
TD_API td_tensor *td_to_sparse_csc(td_tensor *self, const int64_t *dense_dim);
/* The blocks that aren't zero, by compressed rows of blocks. */
TD_API td_tensor *td_to_sparse_bsr(td_tensor *self, int64_t n_blocksize, const int64_t *blocksize,
        const int64_t *dense_dim);
/* The blocks that aren't zero, by compressed columns of blocks. */
TD_API td_tensor *td_to_sparse_bsc(td_tensor *self, int64_t n_blocksize, const int64_t *blocksize,
        const int64_t *dense_dim);
/* A sparse tensor of the elements that aren't zero, COO by default. */
TD_API td_tensor *td_to_sparse(td_tensor *self, td_layout layout, int64_t n_blocksize, const int64_t *blocksize,
        const int64_t *dense_dim);
/* The sum of a sparse tensor's elements. */
TD_API td_tensor *td__sparse_sum(td_tensor *self);
/* The same, in another dtype. */
TD_API td_tensor *td__sparse_sum_dtype(td_tensor *self, td_dtype dtype);
/* Sums over dimensions, sparse unless no sparse dimension is left. */
TD_API td_tensor *td__sparse_sum_dim(td_tensor *self, int64_t n_dim, const int64_t *dim);
/* The same, in another dtype. */
TD_API td_tensor *td__sparse_sum_dim_dtype(td_tensor *self, int64_t n_dim, const int64_t *dim, td_dtype dtype);
/* The gradient of _sparse_sum, of self's pattern. */
TD_API td_tensor *td__sparse_sum_backward(td_tensor *grad, td_tensor *self, int64_t n_dim, const int64_t *dim);
/* Softmax over the elements that are specified along a dimension. */
TD_API td_tensor *td__sparse_softmax_int(td_tensor *self, int64_t dim, td_dtype dtype);
/* The logarithm of softmax over the elements that are specified along a dimension. */
TD_API td_tensor *td__sparse_log_softmax_int(td_tensor *self, int64_t dim, td_dtype dtype);
/* Softmax over the elements that are specified along a dimension. */
TD_API td_tensor *td__sparse_softmax(td_tensor *self, int64_t dim, bool half_to_float);
/* The logarithm of softmax over the elements that are specified along a dimension. */
TD_API td_tensor *td__sparse_log_softmax(td_tensor *self, int64_t dim, bool half_to_float);
/* The gradient of _sparse_softmax. */
TD_API td_tensor *td__sparse_softmax_backward_data(td_tensor *grad_output, td_tensor *output, int64_t dim,
        td_tensor *self);
/* The gradient of _sparse_log_softmax. */
TD_API td_tensor *td__sparse_log_softmax_backward_data(td_tensor *grad_output, td_tensor *output, int64_t dim,
        td_tensor *self);
/* A product of matrices, whose gradient for a sparse operand is sparse. */
TD_API td_tensor *td__sparse_mm(td_tensor *sparse, td_tensor *dense);
/* What a CSR matrix's product would add up, reduced otherwise. */
TD_API td_tensor *td__sparse_mm_reduce(td_tensor *sparse, td_tensor *dense, const char *reduce);
/* The same and, in PyTorch, where extrema came from; here for sums and means, which need no indices. */
TD_API int td__sparse_mm_reduce_impl(td_tensor **results, td_tensor *self, td_tensor *other,
        const char *reduce) TD_MUST_USE;
/* ``beta * self + alpha * mat1 @ mat2`` for a sparse mat1. */
TD_API td_tensor *td__sparse_addmm(td_tensor *self, td_tensor *mat1, td_tensor *mat2, td_scalar beta,
        td_scalar alpha);
/* The gradient of a product for its sparse left factor, of its pattern. */
TD_API td_tensor *td_mm_mat1_sparse_backward(td_tensor *grad, td_tensor *mat1, td_tensor *mat2,
        td_scalar alpha);
/* The product of two COO matrices. */
TD_API td_tensor *td__sparse_sparse_matmul(td_tensor *self, td_tensor *other);
/* The gradient of _sparse_sparse_matmul for one factor, of its pattern. */
TD_API td_tensor *td_sparse_sparse_matmul_backward(td_tensor *grad, td_tensor *a_, td_tensor *b, bool left);
/* ``beta * self + alpha * mat1 @ mat2`` at the elements of the CSR matrix self. */
TD_API td_tensor *td_sparse_sampled_addmm(td_tensor *self, td_tensor *mat1, td_tensor *mat2, td_scalar beta,
        td_scalar alpha);
/* The product of a COO and a strided matrix as a hybrid tensor of the rows that mat1 has. */
TD_API td_tensor *td_hspmm(td_tensor *mat1, td_tensor *mat2);
/* ``beta * self + alpha * mat1 @ mat2`` for COO self and mat1, as a COO tensor. */
TD_API td_tensor *td_sspaddmm(td_tensor *self, td_tensor *mat1, td_tensor *mat2, td_scalar beta,
        td_scalar alpha);
/* The product of a COO and a strided matrix as a COO tensor. */
TD_API td_tensor *td_smm(td_tensor *self, td_tensor *mat2);
TD_API int td_resize_as_sparse_(td_tensor *self, td_tensor *the_template) TD_MUST_USE;
/* A sparse matrix of diagonals. */
TD_API td_tensor *td__spdiags(td_tensor *diagonals, td_tensor *offsets, int64_t n_shape, const int64_t *shape,
        td_layout layout);
/* A COO tensor broadcast to a size. */
TD_API td_tensor *td__sparse_broadcast_to(td_tensor *self, int64_t n_size, const int64_t *size);
/* Where each of so many rows begins in a sorted list of rows. */
TD_API td_tensor *td__convert_indices_from_coo_to_csr(td_tensor *self, int64_t size, bool out_int32);
/* The rows and columns of a CSR matrix's elements. */
TD_API td_tensor *td__convert_indices_from_csr_to_coo(td_tensor *crow_indices, td_tensor *col_indices,
        bool out_int32, bool transpose);

/* ==== special ============================================================================================= */

/* Bessel function of the first kind of order 0. */
TD_API td_tensor *td_special_bessel_j0(td_tensor *self);
TD_API int td_special_bessel_j0_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* Bessel function of the first kind of order 1. */
TD_API td_tensor *td_special_bessel_j1(td_tensor *self);
TD_API int td_special_bessel_j1_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* Bessel function of the second kind of order 0. */
TD_API td_tensor *td_special_bessel_y0(td_tensor *self);
TD_API int td_special_bessel_y0_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* Bessel function of the second kind of order 1. */
TD_API td_tensor *td_special_bessel_y1(td_tensor *self);
TD_API int td_special_bessel_y1_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* Modified Bessel function of the second kind of order 0. */
TD_API td_tensor *td_special_modified_bessel_k0(td_tensor *self);
TD_API int td_special_modified_bessel_k0_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* Modified Bessel function of the second kind of order 1. */
TD_API td_tensor *td_special_modified_bessel_k1(td_tensor *self);
TD_API int td_special_modified_bessel_k1_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* ``sin(x) / x``. */
TD_API td_tensor *td_special_spherical_bessel_j0(td_tensor *x);
TD_API int td_special_spherical_bessel_j0_out(td_tensor *x, td_tensor *out) TD_MUST_USE;
/* The Airy function Ai. */
TD_API td_tensor *td_special_airy_ai(td_tensor *x);
TD_API int td_special_airy_ai_out(td_tensor *x, td_tensor *out) TD_MUST_USE;
/* ``exp(x)`` times the modified Bessel function of the second kind of order 0. */
TD_API td_tensor *td_special_scaled_modified_bessel_k0(td_tensor *x);
TD_API int td_special_scaled_modified_bessel_k0_out(td_tensor *x, td_tensor *out) TD_MUST_USE;
/* ``exp(x)`` times the modified Bessel function of the second kind of order 1. */
TD_API td_tensor *td_special_scaled_modified_bessel_k1(td_tensor *x);
TD_API int td_special_scaled_modified_bessel_k1_out(td_tensor *x, td_tensor *out) TD_MUST_USE;
/* Chebyshev's polynomial of the first kind, T_n(x). */
TD_API td_tensor *td_special_chebyshev_polynomial_t(td_tensor *x, td_tensor *n);
TD_API int td_special_chebyshev_polynomial_t_out(td_tensor *x, td_tensor *n, td_tensor *out) TD_MUST_USE;
/* Chebyshev's polynomial of the second kind, U_n(x). */
TD_API td_tensor *td_special_chebyshev_polynomial_u(td_tensor *x, td_tensor *n);
TD_API int td_special_chebyshev_polynomial_u_out(td_tensor *x, td_tensor *n, td_tensor *out) TD_MUST_USE;
/* Chebyshev's polynomial of the third kind, V_n(x). */
TD_API td_tensor *td_special_chebyshev_polynomial_v(td_tensor *x, td_tensor *n);
TD_API int td_special_chebyshev_polynomial_v_out(td_tensor *x, td_tensor *n, td_tensor *out) TD_MUST_USE;
/* Chebyshev's polynomial of the fourth kind, W_n(x). */
TD_API td_tensor *td_special_chebyshev_polynomial_w(td_tensor *x, td_tensor *n);
TD_API int td_special_chebyshev_polynomial_w_out(td_tensor *x, td_tensor *n, td_tensor *out) TD_MUST_USE;
/* Hermite's polynomial as physics has it, H_n(x). */
TD_API td_tensor *td_special_hermite_polynomial_h(td_tensor *x, td_tensor *n);
TD_API int td_special_hermite_polynomial_h_out(td_tensor *x, td_tensor *n, td_tensor *out) TD_MUST_USE;
/* Hermite's polynomial as statistics has it, He_n(x). */
TD_API td_tensor *td_special_hermite_polynomial_he(td_tensor *x, td_tensor *n);
TD_API int td_special_hermite_polynomial_he_out(td_tensor *x, td_tensor *n, td_tensor *out) TD_MUST_USE;
/* Laguerre's polynomial, L_n(x). */
TD_API td_tensor *td_special_laguerre_polynomial_l(td_tensor *x, td_tensor *n);
TD_API int td_special_laguerre_polynomial_l_out(td_tensor *x, td_tensor *n, td_tensor *out) TD_MUST_USE;
/* Legendre's polynomial, P_n(x). */
TD_API td_tensor *td_special_legendre_polynomial_p(td_tensor *x, td_tensor *n);
TD_API int td_special_legendre_polynomial_p_out(td_tensor *x, td_tensor *n, td_tensor *out) TD_MUST_USE;
/* The chebyshev_polynomial_t of degree n at ``2 * x - 1``. */
TD_API td_tensor *td_special_shifted_chebyshev_polynomial_t(td_tensor *x, td_tensor *n);
TD_API int td_special_shifted_chebyshev_polynomial_t_out(td_tensor *x, td_tensor *n,
        td_tensor *out) TD_MUST_USE;
/* The chebyshev_polynomial_u of degree n at ``2 * x - 1``. */
TD_API td_tensor *td_special_shifted_chebyshev_polynomial_u(td_tensor *x, td_tensor *n);
TD_API int td_special_shifted_chebyshev_polynomial_u_out(td_tensor *x, td_tensor *n,
        td_tensor *out) TD_MUST_USE;
/* The chebyshev_polynomial_v of degree n at ``2 * x - 1``. */
TD_API td_tensor *td_special_shifted_chebyshev_polynomial_v(td_tensor *x, td_tensor *n);
TD_API int td_special_shifted_chebyshev_polynomial_v_out(td_tensor *x, td_tensor *n,
        td_tensor *out) TD_MUST_USE;
/* The chebyshev_polynomial_w of degree n at ``2 * x - 1``. */
TD_API td_tensor *td_special_shifted_chebyshev_polynomial_w(td_tensor *x, td_tensor *n);
TD_API int td_special_shifted_chebyshev_polynomial_w_out(td_tensor *x, td_tensor *n,
        td_tensor *out) TD_MUST_USE;
/* The derivative of samples of Gamma(self) by self. */
TD_API td_tensor *td__standard_gamma_grad(td_tensor *self, td_tensor *output);
/* The derivative of samples of Beta(alpha, total - alpha) by alpha, divided by 1 - x. */
TD_API td_tensor *td__dirichlet_grad(td_tensor *x, td_tensor *alpha, td_tensor *total);

/* ==== tangents ============================================================================================ */

/* The tangent of a variance: twice the covariance of self and t. */
TD_API td_tensor *td_var_tangent(td_tensor *t, td_tensor *self, int64_t n_dim, const int64_t *dim,
        const td_scalar *correction, bool keepdim);
/* The tangent of a standard deviation; nothing where that is 0. */
TD_API td_tensor *td_std_tangent(td_tensor *t, td_tensor *self, td_tensor *result, int64_t n_dim,
        const int64_t *dim, const td_scalar *correction, bool keepdim);
/* The mean of t over where self is the extreme value. */
TD_API td_tensor *td_extreme_tangent(td_tensor *t, td_tensor *self, td_tensor *result, int64_t n_dim,
        const int64_t *dim, bool keepdim);
/* extreme_tangent for both ends. */
TD_API int td_aminmax_tangent(td_tensor **results, td_tensor *t, td_tensor *self, td_tensor *min, td_tensor *max,
        const int64_t *dim, bool keepdim) TD_MUST_USE;
/* The tangent of a vector norm. */
TD_API td_tensor *td_norm_tangent(td_tensor *t, td_tensor *self, td_scalar ord, td_tensor *result, int64_t n_dim,
        const int64_t *dim, bool keepdim);
/* The tangent of scatter_reduce: each element goes to one position, where factors times tangents are summed. */
TD_API td_tensor *td_scatter_reduce_tangent(td_tensor *t_self, td_tensor *t_src, td_tensor *self, int64_t dim,
        td_tensor *index, td_tensor *src, const char *reduce, bool include_self, td_tensor *result);
/* As scatter_reduce_tangent, of whole slices. */
TD_API td_tensor *td_index_reduce_tangent(td_tensor *t_self, td_tensor *t_source, td_tensor *self, int64_t dim,
        td_tensor *index, td_tensor *source, const char *reduce, bool include_self, td_tensor *result);
/* Running products by the product rule: a linear recurrence. */
TD_API td_tensor *td_cumprod_tangent(td_tensor *t, td_tensor *self, td_tensor *result, int64_t dim);
/* The sum of t over where self isn't NaN. */
TD_API td_tensor *td_nansum_tangent(td_tensor *t, td_tensor *self, int64_t n_dim, const int64_t *dim,
        bool keepdim);
/* The tangent of a product: each factor's t times the others. */
TD_API td_tensor *td_prod_tangent(td_tensor *t, td_tensor *self, td_tensor *result, const int64_t *dim,
        bool keepdim);
/* The mean of t by the softmax. */
TD_API td_tensor *td_logsumexp_tangent(td_tensor *t, td_tensor *self, td_tensor *result, int64_t n_dim,
        const int64_t *dim, bool keepdim);
/* Running means of t by the running softmax. */
TD_API td_tensor *td_logcumsumexp_tangent(td_tensor *t, td_tensor *self, td_tensor *result, int64_t dim);
/* How fast the argument of a complex number turns; 0 for real ones and at 0. */
TD_API td_tensor *td_angle_tangent(td_tensor *t, td_tensor *self);
/* t with the exponent taken away. */
TD_API td_tensor *td_frexp_tangent(td_tensor *t, td_tensor *exponent);
/* t times the slope of a power. */
TD_API td_tensor *td_pow_tangent(td_tensor *t, td_tensor *self, td_scalar exponent);
/* t times the slope of a number's power. */
TD_API td_tensor *td_pow_exponent_tangent(td_tensor *t, td_scalar self, td_tensor *exponent, td_tensor *result);
/* The tangent of ``beta * self + alpha * (a @ b)``. */
TD_API td_tensor *td_product_tangent(td_tensor *t_self, td_tensor *t_a, td_tensor *t_b, td_tensor *a_,
        td_tensor *b, td_scalar beta, td_scalar alpha);
/* The tangents of group_norm and of its statistics. */
TD_API int td_group_norm_tangent(td_tensor **results, td_tensor *t_input, td_tensor *t_weight, td_tensor *t_bias,
        td_tensor *input, td_tensor *weight, td_tensor *mean, td_tensor *rstd, int64_t N, int64_t C, int64_t HxW,
        int64_t group, double eps) TD_MUST_USE;
/* The tangent of layer_norm. */
TD_API td_tensor *td_layer_norm_tangent(td_tensor *t_input, td_tensor *t_weight, td_tensor *t_bias,
        td_tensor *input, int64_t n_normalized_shape, const int64_t *normalized_shape, td_tensor *weight,
        td_tensor *mean, td_tensor *rstd, double eps);
/* The tangent of rms_norm. */
TD_API td_tensor *td_rms_norm_tangent(td_tensor *t_input, td_tensor *t_weight, td_tensor *input,
        int64_t n_normalized_shape, const int64_t *normalized_shape, td_tensor *weight, td_tensor *rstd,
        const double *eps);
/* The tangent of batch_norm. */
TD_API td_tensor *td_batch_norm_tangent(td_tensor *t_input, td_tensor *t_weight, td_tensor *t_bias,
        td_tensor *input, td_tensor *weight, td_tensor *running_mean, td_tensor *running_var, td_tensor *mean,
        td_tensor *rstd, bool training, double momentum, double eps);
/* t without its mean by the softmax. */
TD_API td_tensor *td_log_softmax_tangent(td_tensor *t, td_tensor *result, int64_t dim);
/* The tangent of the gradient of softmax. */
TD_API td_tensor *td_softmax_backward_tangent(td_tensor *t_grad, td_tensor *t_output, td_tensor *grad_output,
        td_tensor *output, int64_t dim, td_dtype input_dtype);
/* The tangent of the gradient of log_softmax. */
TD_API td_tensor *td_log_softmax_backward_tangent(td_tensor *t_grad, td_tensor *t_output, td_tensor *grad_output,
        td_tensor *output, int64_t dim);
/* Each factor's tangent convolved with the other. */
TD_API td_tensor *td_convolution_tangent(td_tensor *t_input, td_tensor *t_weight, td_tensor *t_bias,
        td_tensor *input, td_tensor *weight, td_tensor *result, int64_t n_stride, const int64_t *stride,
        int64_t n_padding, const int64_t *padding, int64_t n_dilation, const int64_t *dilation, bool transposed,
        int64_t n_output_padding, const int64_t *output_padding, int64_t groups);
/* The bags of t, or what the maxima's rows change by. */
TD_API td_tensor *td_embedding_bag_tangent(td_tensor *t_weight, td_tensor *t_samples, td_tensor *weight,
        td_tensor *indices, td_tensor *offsets, td_tensor *max_indices, int64_t mode,
        td_tensor *per_sample_weights, bool include_last_offset, int64_t padding_idx);
/* t sampled at the same positions, and the derivative of the samples by the positions. */
TD_API td_tensor *td_grid_sampler_tangent(td_tensor *t_input, td_tensor *t_grid, td_tensor *input,
        td_tensor *grid, int64_t interpolation_mode, int64_t padding_mode, bool align_corners);
/* The recurrence again, with a tangent beside each state. */
TD_API int td_rnn_layer_tangent(td_tensor **results, td_tensor *t_gates, td_tensor *t_hx, td_tensor *t_cx,
        td_tensor *t_w_hh, td_tensor *t_b_hh, td_tensor *gates, td_tensor *hx, td_tensor *cx, td_tensor *w_hh,
        td_tensor *b_hh, int64_t mode, bool reverse) TD_MUST_USE;
/* The tangent of attention, by its probabilities. */
TD_API td_tensor *td_attention_tangent(td_tensor *t_query, td_tensor *t_key, td_tensor *t_value,
        td_tensor *query, td_tensor *key, td_tensor *value, td_tensor *mask, bool causal, double scale);
/* The sum of t by the gradient of each row. */
TD_API td_tensor *td_cross_entropy_tangent(td_tensor *t, td_tensor *self, td_tensor *target, td_tensor *weight,
        td_tensor *result, td_tensor *lse, td_tensor *total_weight, int64_t reduction, int64_t ignore_index,
        double label_smoothing);
/* ``L phi(L^-1 t L^-H)``, where phi takes the lower triangle with half of the diagonal. */
TD_API td_tensor *td_cholesky_tangent(td_tensor *t, td_tensor *L, bool upper);
/* ``A^-1 (t_B - t_A X)``. */
TD_API td_tensor *td_solve_tangent(td_tensor *t_A, td_tensor *t_B, td_tensor *A, td_tensor *X, bool left,
        bool vector);
/* The same for a triangle. */
TD_API td_tensor *td_solve_triangular_tangent(td_tensor *t_A, td_tensor *t_B, td_tensor *A, td_tensor *X,
        bool upper, bool left, bool unitriangular);
/* By the trace of ``A^-1 t``. */
TD_API int td_slogdet_tangent(td_tensor **results, td_tensor *t, td_tensor *A, td_tensor *sign) TD_MUST_USE;
/* As solve_tangent: of the matrix, what ``L L^H`` or ``U^H U`` changes by. */
TD_API td_tensor *td_cholesky_solve_tangent(td_tensor *t_self, td_tensor *t_input2, td_tensor *input2,
        td_tensor *result, bool upper);
/* ``-A^-1 t A^-1``. */
TD_API td_tensor *td_inv_tangent(td_tensor *t, td_tensor *inverse);
/* The sum of t by the cofactors. */
TD_API td_tensor *td_det_tangent(td_tensor *t, td_tensor *det, td_tensor *A);
/* Both triangles' tangents in one matrix. */
TD_API td_tensor *td_lu_factor_tangent(td_tensor *t, td_tensor *LU, td_tensor *pivots);
/* As solve_tangent, with the tangents of the factors. */
TD_API td_tensor *td_lu_solve_tangent(td_tensor *t_LU, td_tensor *t_B, td_tensor *LU, td_tensor *pivots,
        td_tensor *X, bool left, bool adjoint);
/* The tangents of Q and R. */
TD_API int td_qr_tangent(td_tensor **results, td_tensor *t, td_tensor *Q, td_tensor *R,
        const char *mode) TD_MUST_USE;
/* The tangents of singular values and vectors. */
TD_API int td_svd_tangent(td_tensor **results, td_tensor *t, td_tensor *U, td_tensor *S,
        td_tensor *Vh) TD_MUST_USE;
/* The tangents of eigenvalues and eigenvectors of a symmetric matrix. */
TD_API int td_eigh_tangent(td_tensor **results, td_tensor *t, td_tensor *L, td_tensor *V) TD_MUST_USE;
/* The tangents of eigenvalues and eigenvectors. */
TD_API int td_eig_tangent(td_tensor **results, td_tensor *t, td_tensor *L, td_tensor *V) TD_MUST_USE;
/* The tangent of the pseudo-inverse. */
TD_API td_tensor *td_pinv_tangent(td_tensor *t, td_tensor *pinv, td_tensor *A);
/* The tangent of the least squares solution, by the pseudo-inverse. */
TD_API td_tensor *td_lstsq_tangent(td_tensor *t_A, td_tensor *t_B, td_tensor *A, td_tensor *B);

/* ==== unary =============================================================================================== */

/* ``e ** self``, elementwise. */
TD_API td_tensor *td_exp(td_tensor *self);
TD_API int td_exp_(td_tensor *self) TD_MUST_USE;
TD_API int td_exp_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* ``2 ** self``, elementwise. */
TD_API td_tensor *td_exp2(td_tensor *self);
TD_API int td_exp2_(td_tensor *self) TD_MUST_USE;
TD_API int td_exp2_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* ``exp(self) - 1``, exact near zero. */
TD_API td_tensor *td_expm1(td_tensor *self);
TD_API int td_expm1_(td_tensor *self) TD_MUST_USE;
TD_API int td_expm1_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* Natural logarithm. */
TD_API td_tensor *td_log(td_tensor *self);
TD_API int td_log_(td_tensor *self) TD_MUST_USE;
TD_API int td_log_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* Logarithm to base 2. */
TD_API td_tensor *td_log2(td_tensor *self);
TD_API int td_log2_(td_tensor *self) TD_MUST_USE;
TD_API int td_log2_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* Logarithm to base 10. */
TD_API td_tensor *td_log10(td_tensor *self);
TD_API int td_log10_(td_tensor *self) TD_MUST_USE;
TD_API int td_log10_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* ``log(1 + self)``, exact near zero. */
TD_API td_tensor *td_log1p(td_tensor *self);
TD_API int td_log1p_(td_tensor *self) TD_MUST_USE;
TD_API int td_log1p_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* The derivative of log1p. */
TD_API td_tensor *td_log1p_backward(td_tensor *grad_output, td_tensor *self);
/* Square root. */
TD_API td_tensor *td_sqrt(td_tensor *self);
TD_API int td_sqrt_(td_tensor *self) TD_MUST_USE;
TD_API int td_sqrt_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* ``1 / sqrt(self)``. */
TD_API td_tensor *td_rsqrt(td_tensor *self);
TD_API int td_rsqrt_(td_tensor *self) TD_MUST_USE;
TD_API int td_rsqrt_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* Sine of radians. */
TD_API td_tensor *td_sin(td_tensor *self);
TD_API int td_sin_(td_tensor *self) TD_MUST_USE;
TD_API int td_sin_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* Cosine of radians. */
TD_API td_tensor *td_cos(td_tensor *self);
TD_API int td_cos_(td_tensor *self) TD_MUST_USE;
TD_API int td_cos_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* Tangent of radians. */
TD_API td_tensor *td_tan(td_tensor *self);
TD_API int td_tan_(td_tensor *self) TD_MUST_USE;
TD_API int td_tan_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* Inverse sine, in radians. */
TD_API td_tensor *td_asin(td_tensor *self);
TD_API int td_asin_(td_tensor *self) TD_MUST_USE;
TD_API int td_asin_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* Inverse cosine, in radians. */
TD_API td_tensor *td_acos(td_tensor *self);
TD_API int td_acos_(td_tensor *self) TD_MUST_USE;
TD_API int td_acos_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* Inverse tangent, in radians. */
TD_API td_tensor *td_atan(td_tensor *self);
TD_API int td_atan_(td_tensor *self) TD_MUST_USE;
TD_API int td_atan_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* Hyperbolic sine. */
TD_API td_tensor *td_sinh(td_tensor *self);
TD_API int td_sinh_(td_tensor *self) TD_MUST_USE;
TD_API int td_sinh_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* Hyperbolic cosine. */
TD_API td_tensor *td_cosh(td_tensor *self);
TD_API int td_cosh_(td_tensor *self) TD_MUST_USE;
TD_API int td_cosh_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* Hyperbolic tangent. */
TD_API td_tensor *td_tanh(td_tensor *self);
TD_API int td_tanh_(td_tensor *self) TD_MUST_USE;
TD_API int td_tanh_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* Inverse hyperbolic sine. */
TD_API td_tensor *td_asinh(td_tensor *self);
TD_API int td_asinh_(td_tensor *self) TD_MUST_USE;
TD_API int td_asinh_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* Inverse hyperbolic cosine. */
TD_API td_tensor *td_acosh(td_tensor *self);
TD_API int td_acosh_(td_tensor *self) TD_MUST_USE;
TD_API int td_acosh_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* Inverse hyperbolic tangent. */
TD_API td_tensor *td_atanh(td_tensor *self);
TD_API int td_atanh_(td_tensor *self) TD_MUST_USE;
TD_API int td_atanh_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* ``1 / (1 + exp(-self))``. */
TD_API td_tensor *td_sigmoid(td_tensor *self);
TD_API int td_sigmoid_(td_tensor *self) TD_MUST_USE;
TD_API int td_sigmoid_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* The error function. */
TD_API td_tensor *td_erf(td_tensor *self);
TD_API int td_erf_(td_tensor *self) TD_MUST_USE;
TD_API int td_erf_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* ``1 - erf(self)``, exact for large arguments. */
TD_API td_tensor *td_erfc(td_tensor *self);
TD_API int td_erfc_(td_tensor *self) TD_MUST_USE;
TD_API int td_erfc_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* The inverse of erf. */
TD_API td_tensor *td_erfinv(td_tensor *self);
TD_API int td_erfinv_(td_tensor *self) TD_MUST_USE;
TD_API int td_erfinv_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* Logarithm of the absolute value of the gamma function. */
TD_API td_tensor *td_lgamma(td_tensor *self);
TD_API int td_lgamma_(td_tensor *self) TD_MUST_USE;
TD_API int td_lgamma_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* Derivative of lgamma. */
TD_API td_tensor *td_digamma(td_tensor *self);
TD_API int td_digamma_(td_tensor *self) TD_MUST_USE;
TD_API int td_digamma_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* ``sin(pi x) / (pi x)``, 1 at zero. */
TD_API td_tensor *td_sinc(td_tensor *self);
TD_API int td_sinc_(td_tensor *self) TD_MUST_USE;
TD_API int td_sinc_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* Modified Bessel function of order 0. */
TD_API td_tensor *td_i0(td_tensor *self);
TD_API int td_i0_(td_tensor *self) TD_MUST_USE;
TD_API int td_i0_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* ``exp(-|x|) i0(x)``. */
TD_API td_tensor *td_special_i0e(td_tensor *self);
TD_API int td_special_i0e_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* Modified Bessel function of order 1. */
TD_API td_tensor *td_special_i1(td_tensor *self);
TD_API int td_special_i1_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* ``exp(-|x|) i1(x)``. */
TD_API td_tensor *td_special_i1e(td_tensor *self);
TD_API int td_special_i1e_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* The quantile function of the normal distribution. */
TD_API td_tensor *td_special_ndtri(td_tensor *self);
TD_API int td_special_ndtri_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* Logarithm of the normal cumulative distribution. */
TD_API td_tensor *td_special_log_ndtr(td_tensor *self);
TD_API int td_special_log_ndtr_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* ``-x log(x)``, 0 at zero, -inf below. */
TD_API td_tensor *td_special_entr(td_tensor *self);
TD_API int td_special_entr_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* ``1 / self``. */
TD_API td_tensor *td_reciprocal(td_tensor *self);
TD_API int td_reciprocal_(td_tensor *self) TD_MUST_USE;
TD_API int td_reciprocal_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* Absolute value; of complex numbers the modulus. */
TD_API td_tensor *td_abs(td_tensor *self);
TD_API int td_abs_(td_tensor *self) TD_MUST_USE;
TD_API int td_abs_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* The argument of a complex number; 0 or pi for real ones. */
TD_API td_tensor *td_angle(td_tensor *self);
TD_API int td_angle_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* ``-self``. */
TD_API td_tensor *td_neg(td_tensor *self);
TD_API int td_neg_(td_tensor *self) TD_MUST_USE;
TD_API int td_neg_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* -1, 0 or 1. */
TD_API td_tensor *td_sign(td_tensor *self);
TD_API int td_sign_(td_tensor *self) TD_MUST_USE;
TD_API int td_sign_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* The sign; for complex numbers ``self / abs(self)``. */
TD_API td_tensor *td_sgn(td_tensor *self);
TD_API int td_sgn_(td_tensor *self) TD_MUST_USE;
TD_API int td_sgn_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* The largest integer not above self. */
TD_API td_tensor *td_floor(td_tensor *self);
TD_API int td_floor_(td_tensor *self) TD_MUST_USE;
TD_API int td_floor_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* The smallest integer not below self. */
TD_API td_tensor *td_ceil(td_tensor *self);
TD_API int td_ceil_(td_tensor *self) TD_MUST_USE;
TD_API int td_ceil_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* Rounded towards zero. */
TD_API td_tensor *td_trunc(td_tensor *self);
TD_API int td_trunc_(td_tensor *self) TD_MUST_USE;
TD_API int td_trunc_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* Rounded to the nearest integer, halves to even. */
TD_API td_tensor *td_round(td_tensor *self);
TD_API int td_round_(td_tensor *self) TD_MUST_USE;
TD_API int td_round_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* The part after the point, with the sign of self. */
TD_API td_tensor *td_frac(td_tensor *self);
TD_API int td_frac_(td_tensor *self) TD_MUST_USE;
TD_API int td_frac_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* Whether the sign bit is set. */
TD_API td_tensor *td_signbit(td_tensor *self);
TD_API int td_signbit_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* Whether an element is NaN. */
TD_API td_tensor *td_isnan(td_tensor *self);
/* Whether an element is infinite. */
TD_API td_tensor *td_isinf(td_tensor *self);
/* Whether an element is neither infinite nor NaN. */
TD_API td_tensor *td_isfinite(td_tensor *self);
/* Whether an element is +inf. */
TD_API td_tensor *td_isposinf(td_tensor *self);
TD_API int td_isposinf_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* Whether an element is -inf. */
TD_API td_tensor *td_isneginf(td_tensor *self);
TD_API int td_isneginf_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* The complex conjugate, computed. */
TD_API td_tensor *td__conj_physical(td_tensor *self);
TD_API int td__conj_physical_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* The complex conjugate, computed; of real numbers self. */
TD_API td_tensor *td_conj_physical(td_tensor *self);
TD_API int td_conj_physical_(td_tensor *self) TD_MUST_USE;
TD_API int td_conj_physical_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* The derivative of angle. */
TD_API td_tensor *td_angle_backward(td_tensor *grad, td_tensor *self);
/* The derivative of sgn. */
TD_API td_tensor *td_sgn_backward(td_tensor *self, td_tensor *grad, td_tensor *sgn);
/* The n-th derivative of digamma. */
TD_API td_tensor *td_polygamma(int64_t n, td_tensor *self);
TD_API int td_polygamma_out(int64_t n, td_tensor *self, td_tensor *out) TD_MUST_USE;
TD_API int td_polygamma_(td_tensor *self, int64_t n) TD_MUST_USE;
/* ``self ** 2``. */
TD_API td_tensor *td_square(td_tensor *self);
TD_API int td_square_(td_tensor *self) TD_MUST_USE;
TD_API int td_square_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* ``self ** 3``. */
TD_API td_tensor *td_cube(td_tensor *self);

/* ==== upsample ============================================================================================ */

/* Interpolation to a given size: nearest. */
TD_API td_tensor *td_upsample_nearest1d(td_tensor *self, int64_t n_output_size, const int64_t *output_size,
        const double *scales);
TD_API int td_upsample_nearest1d_out(td_tensor *self, int64_t n_output_size, const int64_t *output_size,
        const double *scales, td_tensor *out) TD_MUST_USE;
/* The same by size or by factors. */
TD_API td_tensor *td_upsample_nearest1d_vec(td_tensor *input, int64_t n_output_size, const int64_t *output_size,
        int64_t n_scale_factors, const double *scale_factors);
/* Interpolation to a given size: nearest. */
TD_API td_tensor *td_upsample_nearest2d(td_tensor *self, int64_t n_output_size, const int64_t *output_size,
        const double *scales_h, const double *scales_w);
TD_API int td_upsample_nearest2d_out(td_tensor *self, int64_t n_output_size, const int64_t *output_size,
        const double *scales_h, const double *scales_w, td_tensor *out) TD_MUST_USE;
/* The same by size or by factors. */
TD_API td_tensor *td_upsample_nearest2d_vec(td_tensor *input, int64_t n_output_size, const int64_t *output_size,
        int64_t n_scale_factors, const double *scale_factors);
/* Interpolation to a given size: nearest. */
TD_API td_tensor *td_upsample_nearest3d(td_tensor *self, int64_t n_output_size, const int64_t *output_size,
        const double *scales_d, const double *scales_h, const double *scales_w);
TD_API int td_upsample_nearest3d_out(td_tensor *self, int64_t n_output_size, const int64_t *output_size,
        const double *scales_d, const double *scales_h, const double *scales_w, td_tensor *out) TD_MUST_USE;
/* The same by size or by factors. */
TD_API td_tensor *td_upsample_nearest3d_vec(td_tensor *input, int64_t n_output_size, const int64_t *output_size,
        int64_t n_scale_factors, const double *scale_factors);
/* Interpolation to a given size: nearest, from the middle of each. */
TD_API td_tensor *td__upsample_nearest_exact1d(td_tensor *self, int64_t n_output_size,
        const int64_t *output_size, const double *scales);
TD_API int td__upsample_nearest_exact1d_out(td_tensor *self, int64_t n_output_size, const int64_t *output_size,
        const double *scales, td_tensor *out) TD_MUST_USE;
/* The same by size or by factors. */
TD_API td_tensor *td__upsample_nearest_exact1d_vec(td_tensor *input, int64_t n_output_size,
        const int64_t *output_size, int64_t n_scale_factors, const double *scale_factors);
/* Interpolation to a given size: nearest, from the middle of each. */
TD_API td_tensor *td__upsample_nearest_exact2d(td_tensor *self, int64_t n_output_size,
        const int64_t *output_size, const double *scales_h, const double *scales_w);
TD_API int td__upsample_nearest_exact2d_out(td_tensor *self, int64_t n_output_size, const int64_t *output_size,
        const double *scales_h, const double *scales_w, td_tensor *out) TD_MUST_USE;
/* The same by size or by factors. */
TD_API td_tensor *td__upsample_nearest_exact2d_vec(td_tensor *input, int64_t n_output_size,
        const int64_t *output_size, int64_t n_scale_factors, const double *scale_factors);
/* Interpolation to a given size: nearest, from the middle of each. */
TD_API td_tensor *td__upsample_nearest_exact3d(td_tensor *self, int64_t n_output_size,
        const int64_t *output_size, const double *scales_d, const double *scales_h, const double *scales_w);
TD_API int td__upsample_nearest_exact3d_out(td_tensor *self, int64_t n_output_size, const int64_t *output_size,
        const double *scales_d, const double *scales_h, const double *scales_w, td_tensor *out) TD_MUST_USE;
/* The same by size or by factors. */
TD_API td_tensor *td__upsample_nearest_exact3d_vec(td_tensor *input, int64_t n_output_size,
        const int64_t *output_size, int64_t n_scale_factors, const double *scale_factors);
/* Interpolation to a given size: linear. */
TD_API td_tensor *td_upsample_linear1d(td_tensor *self, int64_t n_output_size, const int64_t *output_size,
        bool align_corners, const double *scales);
TD_API int td_upsample_linear1d_out(td_tensor *self, int64_t n_output_size, const int64_t *output_size,
        bool align_corners, const double *scales, td_tensor *out) TD_MUST_USE;
/* The same by size or by factors. */
TD_API td_tensor *td_upsample_linear1d_vec(td_tensor *input, int64_t n_output_size, const int64_t *output_size,
        bool align_corners, int64_t n_scale_factors, const double *scale_factors);
/* Interpolation to a given size: bilinear. */
TD_API td_tensor *td_upsample_bilinear2d(td_tensor *self, int64_t n_output_size, const int64_t *output_size,
        bool align_corners, const double *scales_h, const double *scales_w);
TD_API int td_upsample_bilinear2d_out(td_tensor *self, int64_t n_output_size, const int64_t *output_size,
        bool align_corners, const double *scales_h, const double *scales_w, td_tensor *out) TD_MUST_USE;
/* The same by size or by factors. */
TD_API td_tensor *td_upsample_bilinear2d_vec(td_tensor *input, int64_t n_output_size, const int64_t *output_size,
        bool align_corners, int64_t n_scale_factors, const double *scale_factors);
/* Interpolation to a given size: trilinear. */
TD_API td_tensor *td_upsample_trilinear3d(td_tensor *self, int64_t n_output_size, const int64_t *output_size,
        bool align_corners, const double *scales_d, const double *scales_h, const double *scales_w);
TD_API int td_upsample_trilinear3d_out(td_tensor *self, int64_t n_output_size, const int64_t *output_size,
        bool align_corners, const double *scales_d, const double *scales_h, const double *scales_w,
        td_tensor *out) TD_MUST_USE;
/* The same by size or by factors. */
TD_API td_tensor *td_upsample_trilinear3d_vec(td_tensor *input, int64_t n_output_size,
        const int64_t *output_size, bool align_corners, int64_t n_scale_factors, const double *scale_factors);
/* Interpolation to a given size: bicubic. */
TD_API td_tensor *td_upsample_bicubic2d(td_tensor *self, int64_t n_output_size, const int64_t *output_size,
        bool align_corners, const double *scales_h, const double *scales_w);
TD_API int td_upsample_bicubic2d_out(td_tensor *self, int64_t n_output_size, const int64_t *output_size,
        bool align_corners, const double *scales_h, const double *scales_w, td_tensor *out) TD_MUST_USE;
/* The same by size or by factors. */
TD_API td_tensor *td_upsample_bicubic2d_vec(td_tensor *input, int64_t n_output_size, const int64_t *output_size,
        bool align_corners, int64_t n_scale_factors, const double *scale_factors);
/* Interpolation by a linear filter that widens as images shrink, so that every element counts. */
TD_API td_tensor *td__upsample_bilinear2d_aa(td_tensor *self, int64_t n_output_size, const int64_t *output_size,
        bool align_corners, const double *scales_h, const double *scales_w);
TD_API int td__upsample_bilinear2d_aa_out(td_tensor *self, int64_t n_output_size, const int64_t *output_size,
        bool align_corners, const double *scales_h, const double *scales_w, td_tensor *out) TD_MUST_USE;
/* The same by size or by factors. */
TD_API td_tensor *td__upsample_bilinear2d_aa_vec(td_tensor *input, int64_t n_output_size,
        const int64_t *output_size, bool align_corners, int64_t n_scale_factors, const double *scale_factors);
/* Interpolation by a cubic filter that widens as images shrink, so that every element counts. */
TD_API td_tensor *td__upsample_bicubic2d_aa(td_tensor *self, int64_t n_output_size, const int64_t *output_size,
        bool align_corners, const double *scales_h, const double *scales_w);
TD_API int td__upsample_bicubic2d_aa_out(td_tensor *self, int64_t n_output_size, const int64_t *output_size,
        bool align_corners, const double *scales_h, const double *scales_w, td_tensor *out) TD_MUST_USE;
/* The same by size or by factors. */
TD_API td_tensor *td__upsample_bicubic2d_aa_vec(td_tensor *input, int64_t n_output_size,
        const int64_t *output_size, bool align_corners, int64_t n_scale_factors, const double *scale_factors);
/* Interpolation by a Lanczos filter that widens as images shrink, so that every element counts. */
TD_API td_tensor *td__upsample_lanczos2d_aa(td_tensor *self, int64_t n_output_size, const int64_t *output_size,
        bool align_corners, const double *scales_h, const double *scales_w);
TD_API int td__upsample_lanczos2d_aa_out(td_tensor *self, int64_t n_output_size, const int64_t *output_size,
        bool align_corners, const double *scales_h, const double *scales_w, td_tensor *out) TD_MUST_USE;
/* The same by size or by factors. */
TD_API td_tensor *td__upsample_lanczos2d_aa_vec(td_tensor *input, int64_t n_output_size,
        const int64_t *output_size, bool align_corners, int64_t n_scale_factors, const double *scale_factors);
/* The kernel of interpolation. Modes: 0 nearest, 1 nearest-exact, 2 linear, 3 cubic, 4 to 6 linear, cubic and Lanczos with antialiasing. A scale of 0 follows from the sizes. */
TD_API td_tensor *td_resample(td_tensor *self, int64_t n_output_size, const int64_t *output_size, int64_t mode,
        bool align_corners, double scale_d, double scale_h, double scale_w);
/* Gradients spread over what was interpolated. */
TD_API td_tensor *td_resample_backward(td_tensor *grad, int64_t n_input_size, const int64_t *input_size,
        int64_t n_output_size, const int64_t *output_size, int64_t mode, bool align_corners, double scale_d,
        double scale_h, double scale_w);
/* input, of 4 or 5 dimensions, sampled at the positions of grid, whose last dimension holds coordinates from -1 to 1, the last one first. Modes: 0 linear, 1 nearest, 2 cubic; outside: 0 zeros, 1 the border, 2 reflections. */
TD_API td_tensor *td_grid_sampler(td_tensor *input, td_tensor *grid, int64_t interpolation_mode,
        int64_t padding_mode, bool align_corners);
/* grid_sampler of images. */
TD_API td_tensor *td_grid_sampler_2d(td_tensor *input, td_tensor *grid, int64_t interpolation_mode,
        int64_t padding_mode, bool align_corners);
/* grid_sampler of volumes. */
TD_API td_tensor *td_grid_sampler_3d(td_tensor *input, td_tensor *grid, int64_t interpolation_mode,
        int64_t padding_mode, bool align_corners);
/* Gradients of grid_sampler in one pass. */
TD_API int td_grid_sampler_backward(td_tensor **results, td_tensor *grad_output, td_tensor *input,
        td_tensor *grid, int64_t interpolation_mode, int64_t padding_mode, bool align_corners,
        int64_t n_output_mask, const bool *output_mask) TD_MUST_USE;
/* Gradients of grid_sampler; differentiable where a graph is being made. */
TD_API int td_grid_sampler_grad(td_tensor **results, td_tensor *grad, td_tensor *input, td_tensor *grid,
        int64_t interpolation_mode, int64_t padding_mode, bool align_corners, int64_t n_wants,
        const bool *wants) TD_MUST_USE;
/* The positions that affine maps send a regular grid to: what grid_sampler takes. */
TD_API td_tensor *td_affine_grid_generator(td_tensor *theta, int64_t n_size, const int64_t *size,
        bool align_corners);
/* The gradient of affine_grid_generator, for which nothing is saved. */
TD_API td_tensor *td_affine_grid_generator_backward(td_tensor *grad, int64_t n_size, const int64_t *size,
        bool align_corners);

/* ==== copy ================================================================================================ */

/* What view gives, in new memory. */
TD_API td_tensor *td_view_copy(td_tensor *self, int64_t n_size, const int64_t *size);
TD_API int td_view_copy_out(td_tensor *self, int64_t n_size, const int64_t *size, td_tensor *out) TD_MUST_USE;
/* What expand gives, in new memory. */
TD_API td_tensor *td_expand_copy(td_tensor *self, int64_t n_size, const int64_t *size, bool implicit);
TD_API int td_expand_copy_out(td_tensor *self, int64_t n_size, const int64_t *size, bool implicit,
        td_tensor *out) TD_MUST_USE;
/* What transpose gives, in new memory. */
TD_API td_tensor *td_transpose_copy_int(td_tensor *self, int64_t dim0, int64_t dim1);
TD_API int td_transpose_copy_int_out(td_tensor *self, int64_t dim0, int64_t dim1, td_tensor *out) TD_MUST_USE;
/* What t gives, in new memory. */
TD_API td_tensor *td_t_copy(td_tensor *self);
TD_API int td_t_copy_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* What permute gives, in new memory. */
TD_API td_tensor *td_permute_copy(td_tensor *self, int64_t n_dims, const int64_t *dims);
TD_API int td_permute_copy_out(td_tensor *self, int64_t n_dims, const int64_t *dims,
        td_tensor *out) TD_MUST_USE;
/* What select gives, in new memory. */
TD_API td_tensor *td_select_copy_int(td_tensor *self, int64_t dim, int64_t index);
TD_API int td_select_copy_int_out(td_tensor *self, int64_t dim, int64_t index, td_tensor *out) TD_MUST_USE;
/* What slice gives, in new memory. */
TD_API td_tensor *td_slice_copy_tensor(td_tensor *self, int64_t dim, const int64_t *start, const int64_t *end,
        int64_t step);
TD_API int td_slice_copy_out(td_tensor *self, int64_t dim, const int64_t *start, const int64_t *end,
        int64_t step, td_tensor *out) TD_MUST_USE;
/* What unsqueeze gives, in new memory. */
TD_API td_tensor *td_unsqueeze_copy(td_tensor *self, int64_t dim);
TD_API int td_unsqueeze_copy_out(td_tensor *self, int64_t dim, td_tensor *out) TD_MUST_USE;
/* What squeeze gives, in new memory. */
TD_API td_tensor *td_squeeze_copy(td_tensor *self);
TD_API int td_squeeze_copy_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* What squeeze gives, in new memory. */
TD_API td_tensor *td_squeeze_copy_dim(td_tensor *self, int64_t dim);
TD_API int td_squeeze_copy_dim_out(td_tensor *self, int64_t dim, td_tensor *out) TD_MUST_USE;
/* What squeeze gives, in new memory. */
TD_API td_tensor *td_squeeze_copy_dims(td_tensor *self, int64_t n_dim, const int64_t *dim);
TD_API int td_squeeze_copy_dims_out(td_tensor *self, int64_t n_dim, const int64_t *dim,
        td_tensor *out) TD_MUST_USE;
/* What as_strided gives, in new memory. */
TD_API td_tensor *td_as_strided_copy(td_tensor *self, int64_t n_size, const int64_t *size, int64_t n_stride,
        const int64_t *stride, const int64_t *storage_offset);
TD_API int td_as_strided_copy_out(td_tensor *self, int64_t n_size, const int64_t *size, int64_t n_stride,
        const int64_t *stride, const int64_t *storage_offset, td_tensor *out) TD_MUST_USE;
/* What detach gives, in new memory. */
TD_API td_tensor *td_detach_copy(td_tensor *self);
TD_API int td_detach_copy_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* What alias gives, in new memory. */
TD_API td_tensor *td_alias_copy(td_tensor *self);
TD_API int td_alias_copy_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* What diagonal gives, in new memory. */
TD_API td_tensor *td_diagonal_copy(td_tensor *self, int64_t offset, int64_t dim1, int64_t dim2);
TD_API int td_diagonal_copy_out(td_tensor *self, int64_t offset, int64_t dim1, int64_t dim2,
        td_tensor *out) TD_MUST_USE;
/* What unfold gives, in new memory. */
TD_API td_tensor *td_unfold_copy(td_tensor *self, int64_t dimension, int64_t size, int64_t step);
TD_API int td_unfold_copy_out(td_tensor *self, int64_t dimension, int64_t size, int64_t step,
        td_tensor *out) TD_MUST_USE;
/* What unbind gives, in new memory. */
TD_API int td_unbind_copy_int(td_tensor_list *results, td_tensor *self, int64_t dim) TD_MUST_USE;
TD_API int td_unbind_copy_int_out(td_tensor *self, int64_t dim, int64_t n_out,
        td_tensor *const *out) TD_MUST_USE;
/* What split_with_sizes gives, in new memory. */
TD_API int td_split_with_sizes_copy(td_tensor_list *results, td_tensor *self, int64_t n_split_sizes,
        const int64_t *split_sizes, int64_t dim) TD_MUST_USE;
TD_API int td_split_with_sizes_copy_out(td_tensor *self, int64_t n_split_sizes, const int64_t *split_sizes,
        int64_t dim, int64_t n_out, td_tensor *const *out) TD_MUST_USE;
/* What split gives, in new memory. */
TD_API int td_split_copy_tensor(td_tensor_list *results, td_tensor *self, int64_t split_size,
        int64_t dim) TD_MUST_USE;
TD_API int td_split_copy_out(td_tensor *self, int64_t split_size, int64_t dim, int64_t n_out,
        td_tensor *const *out) TD_MUST_USE;
/* What view_as_real gives, in new memory. */
TD_API td_tensor *td_view_as_real_copy(td_tensor *self);
TD_API int td_view_as_real_copy_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* What view_as_complex gives, in new memory. */
TD_API td_tensor *td_view_as_complex_copy(td_tensor *self);
TD_API int td_view_as_complex_copy_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* What view gives, in new memory. */
TD_API td_tensor *td_view_copy_dtype(td_tensor *self, td_dtype dtype);
TD_API int td_view_copy_dtype_out(td_tensor *self, td_dtype dtype, td_tensor *out) TD_MUST_USE;
/* What _conj gives, in new memory. */
TD_API td_tensor *td__conj_copy(td_tensor *self);
TD_API int td__conj_copy_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* What _neg_view gives, in new memory. */
TD_API td_tensor *td__neg_view_copy(td_tensor *self);
TD_API int td__neg_view_copy_out(td_tensor *self, td_tensor *out) TD_MUST_USE;

/* ==== alias =============================================================================================== */

/* Alias of logit. */
TD_API td_tensor *td_special_logit(td_tensor *self, const double *eps);
TD_API int td_special_logit_out(td_tensor *self, const double *eps, td_tensor *out) TD_MUST_USE;
/* ``self ** exponent`` in float64 or complex128. */
TD_API td_tensor *td_float_power_scalar(td_scalar self, td_tensor *exponent);
TD_API int td_float_power_scalar_out(td_scalar self, td_tensor *exponent, td_tensor *out) TD_MUST_USE;
/* ``self ** exponent`` in float64 or complex128. */
TD_API td_tensor *td_float_power_tensor_scalar(td_tensor *self, td_scalar exponent);
TD_API int td_float_power_tensor_scalar_(td_tensor *self, td_scalar exponent) TD_MUST_USE;
TD_API int td_float_power_tensor_scalar_out(td_tensor *self, td_scalar exponent, td_tensor *out) TD_MUST_USE;
/* ``other - alpha * self``. */
TD_API td_tensor *td_rsub_scalar(td_tensor *self, td_scalar other, td_scalar alpha);
/* Alias of clamp. */
TD_API td_tensor *td_clip(td_tensor *self, const td_scalar *min, const td_scalar *max);
TD_API int td_clip_(td_tensor *self, const td_scalar *min, const td_scalar *max) TD_MUST_USE;
TD_API int td_clip_out(td_tensor *self, const td_scalar *min, const td_scalar *max, td_tensor *out) TD_MUST_USE;
/* Alias of clamp. */
TD_API td_tensor *td_clip_tensor(td_tensor *self, td_tensor *min, td_tensor *max);
TD_API int td_clip_tensor_(td_tensor *self, td_tensor *min, td_tensor *max) TD_MUST_USE;
TD_API int td_clip_tensor_out(td_tensor *self, td_tensor *min, td_tensor *max, td_tensor *out) TD_MUST_USE;
/* Alias of mvlgamma. */
TD_API td_tensor *td_special_multigammaln(td_tensor *self, int64_t p);
TD_API int td_special_multigammaln_out(td_tensor *self, int64_t p, td_tensor *out) TD_MUST_USE;
/* Alias of round. */
TD_API td_tensor *td_special_round_decimals(td_tensor *self, int64_t decimals);
TD_API int td_special_round_decimals_out(td_tensor *self, int64_t decimals, td_tensor *out) TD_MUST_USE;
/* ``self * log(1 + other)``, 0 where self is 0. */
TD_API td_tensor *td_special_xlog1py_self_scalar(td_scalar self, td_tensor *other);
TD_API int td_special_xlog1py_self_scalar_out(td_scalar self, td_tensor *other, td_tensor *out) TD_MUST_USE;
/* ``self * log(1 + other)``, 0 where self is 0. */
TD_API td_tensor *td_special_xlog1py_other_scalar(td_tensor *self, td_scalar other);
TD_API int td_special_xlog1py_other_scalar_out(td_tensor *self, td_scalar other, td_tensor *out) TD_MUST_USE;
/* The Hurwitz zeta function. */
TD_API td_tensor *td_special_zeta_self_scalar(td_scalar self, td_tensor *other);
TD_API int td_special_zeta_self_scalar_out(td_scalar self, td_tensor *other, td_tensor *out) TD_MUST_USE;
/* The Hurwitz zeta function. */
TD_API td_tensor *td_special_zeta_other_scalar(td_tensor *self, td_scalar other);
TD_API int td_special_zeta_other_scalar_out(td_tensor *self, td_scalar other, td_tensor *out) TD_MUST_USE;
/* Alias of igamma. */
TD_API td_tensor *td_special_gammainc(td_tensor *self, td_tensor *other);
TD_API int td_special_gammainc_out(td_tensor *self, td_tensor *other, td_tensor *out) TD_MUST_USE;
/* Alias of igammac. */
TD_API td_tensor *td_special_gammaincc(td_tensor *self, td_tensor *other);
TD_API int td_special_gammaincc_out(td_tensor *self, td_tensor *other, td_tensor *out) TD_MUST_USE;
/* Alias of linalg_det. */
TD_API td_tensor *td_det(td_tensor *self);
TD_API int td_det_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* Alias of linalg_slogdet. */
TD_API int td_slogdet(td_tensor **results, td_tensor *self) TD_MUST_USE;
TD_API int td_slogdet_out(td_tensor *self, td_tensor *sign, td_tensor *logabsdet) TD_MUST_USE;
/* Alias of linalg_matrix_exp. */
TD_API td_tensor *td_matrix_exp(td_tensor *self);
/* Alias of linalg_householder_product. */
TD_API td_tensor *td_orgqr(td_tensor *self, td_tensor *tau);
TD_API int td_orgqr_out(td_tensor *self, td_tensor *tau, td_tensor *out) TD_MUST_USE;
/* ``self + alpha * other``, elementwise with broadcasting. */
TD_API td_tensor *td_add_scalar(td_tensor *self, td_scalar other, td_scalar alpha);
TD_API int td_add_scalar_(td_tensor *self, td_scalar other, td_scalar alpha) TD_MUST_USE;
TD_API int td_add_scalar_out(td_tensor *self, td_scalar other, td_scalar alpha, td_tensor *out) TD_MUST_USE;
/* ``self - alpha * other``, elementwise with broadcasting. */
TD_API td_tensor *td_sub_scalar(td_tensor *self, td_scalar other, td_scalar alpha);
TD_API int td_sub_scalar_(td_tensor *self, td_scalar other, td_scalar alpha) TD_MUST_USE;
TD_API int td_sub_scalar_out(td_tensor *self, td_scalar other, td_scalar alpha, td_tensor *out) TD_MUST_USE;
/* Alias of sub. */
TD_API td_tensor *td_subtract_tensor(td_tensor *self, td_tensor *other, td_scalar alpha);
TD_API int td_subtract_tensor_(td_tensor *self, td_tensor *other, td_scalar alpha) TD_MUST_USE;
TD_API int td_subtract_out(td_tensor *self, td_tensor *other, td_scalar alpha, td_tensor *out) TD_MUST_USE;
/* Alias of sub. */
TD_API td_tensor *td_subtract_scalar(td_tensor *self, td_scalar other, td_scalar alpha);
TD_API int td_subtract_scalar_(td_tensor *self, td_scalar other, td_scalar alpha) TD_MUST_USE;
TD_API int td_subtract_scalar_out(td_tensor *self, td_scalar other, td_scalar alpha,
        td_tensor *out) TD_MUST_USE;
/* ``self * other``, elementwise with broadcasting. */
TD_API td_tensor *td_mul_scalar(td_tensor *self, td_scalar other);
TD_API int td_mul_scalar_(td_tensor *self, td_scalar other) TD_MUST_USE;
TD_API int td_mul_scalar_out(td_tensor *self, td_scalar other, td_tensor *out) TD_MUST_USE;
/* Alias of mul. */
TD_API td_tensor *td_multiply_tensor(td_tensor *self, td_tensor *other);
TD_API int td_multiply_tensor_(td_tensor *self, td_tensor *other) TD_MUST_USE;
TD_API int td_multiply_out(td_tensor *self, td_tensor *other, td_tensor *out) TD_MUST_USE;
/* Alias of mul. */
TD_API td_tensor *td_multiply_scalar(td_tensor *self, td_scalar other);
TD_API int td_multiply_scalar_(td_tensor *self, td_scalar other) TD_MUST_USE;
TD_API int td_multiply_scalar_out(td_tensor *self, td_scalar other, td_tensor *out) TD_MUST_USE;
/* ``self / other``, elementwise; integers are divided as floats. */
TD_API td_tensor *td_div_scalar(td_tensor *self, td_scalar other);
TD_API int td_div_scalar_(td_tensor *self, td_scalar other) TD_MUST_USE;
TD_API int td_div_scalar_out(td_tensor *self, td_scalar other, td_tensor *out) TD_MUST_USE;
/* Alias of div. */
TD_API td_tensor *td_divide_tensor(td_tensor *self, td_tensor *other);
TD_API int td_divide_tensor_(td_tensor *self, td_tensor *other) TD_MUST_USE;
TD_API int td_divide_out(td_tensor *self, td_tensor *other, td_tensor *out) TD_MUST_USE;
/* Alias of div. */
TD_API td_tensor *td_divide_scalar(td_tensor *self, td_scalar other);
TD_API int td_divide_scalar_(td_tensor *self, td_scalar other) TD_MUST_USE;
TD_API int td_divide_scalar_out(td_tensor *self, td_scalar other, td_tensor *out) TD_MUST_USE;
/* Alias of div. */
TD_API td_tensor *td_true_divide_tensor(td_tensor *self, td_tensor *other);
TD_API int td_true_divide_tensor_(td_tensor *self, td_tensor *other) TD_MUST_USE;
TD_API int td_true_divide_out(td_tensor *self, td_tensor *other, td_tensor *out) TD_MUST_USE;
/* Alias of div. */
TD_API td_tensor *td_true_divide_scalar(td_tensor *self, td_scalar other);
TD_API int td_true_divide_scalar_(td_tensor *self, td_scalar other) TD_MUST_USE;
TD_API int td_true_divide_scalar_out(td_tensor *self, td_scalar other, td_tensor *out) TD_MUST_USE;
/* Division with ``rounding_mode`` None (true division), 'trunc' (towards zero) or 'floor'. */
TD_API td_tensor *td_div_scalar_mode(td_tensor *self, td_scalar other, const char *rounding_mode);
TD_API int td_div_scalar_mode_(td_tensor *self, td_scalar other, const char *rounding_mode) TD_MUST_USE;
TD_API int td_div_scalar_mode_out(td_tensor *self, td_scalar other, const char *rounding_mode,
        td_tensor *out) TD_MUST_USE;
/* Alias of div. */
TD_API td_tensor *td_divide_tensor_mode(td_tensor *self, td_tensor *other, const char *rounding_mode);
TD_API int td_divide_tensor_mode_(td_tensor *self, td_tensor *other, const char *rounding_mode) TD_MUST_USE;
TD_API int td_divide_out_mode(td_tensor *self, td_tensor *other, const char *rounding_mode,
        td_tensor *out) TD_MUST_USE;
/* Alias of div. */
TD_API td_tensor *td_divide_scalar_mode(td_tensor *self, td_scalar other, const char *rounding_mode);
TD_API int td_divide_scalar_mode_(td_tensor *self, td_scalar other, const char *rounding_mode) TD_MUST_USE;
TD_API int td_divide_scalar_mode_out(td_tensor *self, td_scalar other, const char *rounding_mode,
        td_tensor *out) TD_MUST_USE;
/* Division rounded down, elementwise. */
TD_API td_tensor *td_floor_divide_scalar(td_tensor *self, td_scalar other);
TD_API int td_floor_divide_scalar_(td_tensor *self, td_scalar other) TD_MUST_USE;
TD_API int td_floor_divide_scalar_out(td_tensor *self, td_scalar other, td_tensor *out) TD_MUST_USE;
/* The remainder with the sign of the divisor, as Python's ``%``. */
TD_API td_tensor *td_remainder_scalar(td_tensor *self, td_scalar other);
TD_API int td_remainder_scalar_(td_tensor *self, td_scalar other) TD_MUST_USE;
TD_API int td_remainder_scalar_out(td_tensor *self, td_scalar other, td_tensor *out) TD_MUST_USE;
/* The remainder with the sign of the divisor, as Python's ``%``. */
TD_API td_tensor *td_remainder_scalar_tensor(td_scalar self, td_tensor *other);
TD_API int td_remainder_scalar_tensor_out(td_scalar self, td_tensor *other, td_tensor *out) TD_MUST_USE;
/* The remainder with the sign of the dividend, as C's ``fmod``. */
TD_API td_tensor *td_fmod_scalar(td_tensor *self, td_scalar other);
TD_API int td_fmod_scalar_(td_tensor *self, td_scalar other) TD_MUST_USE;
TD_API int td_fmod_scalar_out(td_tensor *self, td_scalar other, td_tensor *out) TD_MUST_USE;
/* Alias of atan2. */
TD_API td_tensor *td_arctan2(td_tensor *self, td_tensor *other);
TD_API int td_arctan2_(td_tensor *self, td_tensor *other) TD_MUST_USE;
TD_API int td_arctan2_out(td_tensor *self, td_tensor *other, td_tensor *out) TD_MUST_USE;
/* The magnitude of self with the sign of other. */
TD_API td_tensor *td_copysign_scalar(td_tensor *self, td_scalar other);
TD_API int td_copysign_scalar_(td_tensor *self, td_scalar other) TD_MUST_USE;
TD_API int td_copysign_scalar_out(td_tensor *self, td_scalar other, td_tensor *out) TD_MUST_USE;
/* ``self * log(other)``, 0 where self is 0. */
TD_API td_tensor *td_xlogy_scalar_self(td_scalar self, td_tensor *other);
TD_API int td_xlogy_scalar_self_out(td_scalar self, td_tensor *other, td_tensor *out) TD_MUST_USE;
/* ``self * log(other)``, 0 where self is 0. */
TD_API td_tensor *td_xlogy_scalar_other(td_tensor *self, td_scalar other);
TD_API int td_xlogy_scalar_other_(td_tensor *self, td_scalar other) TD_MUST_USE;
TD_API int td_xlogy_scalar_other_out(td_tensor *self, td_scalar other, td_tensor *out) TD_MUST_USE;
/* Alias of xlogy. */
TD_API td_tensor *td_special_xlogy_tensor(td_tensor *self, td_tensor *other);
TD_API int td_special_xlogy_out(td_tensor *self, td_tensor *other, td_tensor *out) TD_MUST_USE;
/* Alias of xlogy. */
TD_API td_tensor *td_special_xlogy_scalar_self(td_scalar self, td_tensor *other);
TD_API int td_special_xlogy_scalar_self_out(td_scalar self, td_tensor *other, td_tensor *out) TD_MUST_USE;
/* Alias of xlogy. */
TD_API td_tensor *td_special_xlogy_scalar_other(td_tensor *self, td_scalar other);
TD_API int td_special_xlogy_scalar_other_out(td_tensor *self, td_scalar other, td_tensor *out) TD_MUST_USE;
/* Whether self equals other, elementwise. */
TD_API td_tensor *td_eq_scalar(td_tensor *self, td_scalar other);
TD_API int td_eq_scalar_(td_tensor *self, td_scalar other) TD_MUST_USE;
TD_API int td_eq_scalar_out(td_tensor *self, td_scalar other, td_tensor *out) TD_MUST_USE;
/* Whether self differs from other, elementwise. */
TD_API td_tensor *td_ne_scalar(td_tensor *self, td_scalar other);
TD_API int td_ne_scalar_(td_tensor *self, td_scalar other) TD_MUST_USE;
TD_API int td_ne_scalar_out(td_tensor *self, td_scalar other, td_tensor *out) TD_MUST_USE;
/* Alias of ne. */
TD_API td_tensor *td_not_equal_tensor(td_tensor *self, td_tensor *other);
TD_API int td_not_equal_tensor_(td_tensor *self, td_tensor *other) TD_MUST_USE;
TD_API int td_not_equal_out(td_tensor *self, td_tensor *other, td_tensor *out) TD_MUST_USE;
/* Alias of ne. */
TD_API td_tensor *td_not_equal_scalar(td_tensor *self, td_scalar other);
TD_API int td_not_equal_scalar_(td_tensor *self, td_scalar other) TD_MUST_USE;
TD_API int td_not_equal_scalar_out(td_tensor *self, td_scalar other, td_tensor *out) TD_MUST_USE;
/* Whether self is less than other, elementwise. */
TD_API td_tensor *td_lt_scalar(td_tensor *self, td_scalar other);
TD_API int td_lt_scalar_(td_tensor *self, td_scalar other) TD_MUST_USE;
TD_API int td_lt_scalar_out(td_tensor *self, td_scalar other, td_tensor *out) TD_MUST_USE;
/* Alias of lt. */
TD_API td_tensor *td_less_tensor(td_tensor *self, td_tensor *other);
TD_API int td_less_tensor_(td_tensor *self, td_tensor *other) TD_MUST_USE;
TD_API int td_less_out(td_tensor *self, td_tensor *other, td_tensor *out) TD_MUST_USE;
/* Alias of lt. */
TD_API td_tensor *td_less_scalar(td_tensor *self, td_scalar other);
TD_API int td_less_scalar_(td_tensor *self, td_scalar other) TD_MUST_USE;
TD_API int td_less_scalar_out(td_tensor *self, td_scalar other, td_tensor *out) TD_MUST_USE;
/* Whether self is less than or equal to other, elementwise. */
TD_API td_tensor *td_le_scalar(td_tensor *self, td_scalar other);
TD_API int td_le_scalar_(td_tensor *self, td_scalar other) TD_MUST_USE;
TD_API int td_le_scalar_out(td_tensor *self, td_scalar other, td_tensor *out) TD_MUST_USE;
/* Alias of le. */
TD_API td_tensor *td_less_equal_tensor(td_tensor *self, td_tensor *other);
TD_API int td_less_equal_tensor_(td_tensor *self, td_tensor *other) TD_MUST_USE;
TD_API int td_less_equal_out(td_tensor *self, td_tensor *other, td_tensor *out) TD_MUST_USE;
/* Alias of le. */
TD_API td_tensor *td_less_equal_scalar(td_tensor *self, td_scalar other);
TD_API int td_less_equal_scalar_(td_tensor *self, td_scalar other) TD_MUST_USE;
TD_API int td_less_equal_scalar_out(td_tensor *self, td_scalar other, td_tensor *out) TD_MUST_USE;
/* Whether self is greater than other, elementwise. */
TD_API td_tensor *td_gt_scalar(td_tensor *self, td_scalar other);
TD_API int td_gt_scalar_(td_tensor *self, td_scalar other) TD_MUST_USE;
TD_API int td_gt_scalar_out(td_tensor *self, td_scalar other, td_tensor *out) TD_MUST_USE;
/* Alias of gt. */
TD_API td_tensor *td_greater_tensor(td_tensor *self, td_tensor *other);
TD_API int td_greater_tensor_(td_tensor *self, td_tensor *other) TD_MUST_USE;
TD_API int td_greater_out(td_tensor *self, td_tensor *other, td_tensor *out) TD_MUST_USE;
/* Alias of gt. */
TD_API td_tensor *td_greater_scalar(td_tensor *self, td_scalar other);
TD_API int td_greater_scalar_(td_tensor *self, td_scalar other) TD_MUST_USE;
TD_API int td_greater_scalar_out(td_tensor *self, td_scalar other, td_tensor *out) TD_MUST_USE;
/* Whether self is greater than or equal to other, elementwise. */
TD_API td_tensor *td_ge_scalar(td_tensor *self, td_scalar other);
TD_API int td_ge_scalar_(td_tensor *self, td_scalar other) TD_MUST_USE;
TD_API int td_ge_scalar_out(td_tensor *self, td_scalar other, td_tensor *out) TD_MUST_USE;
/* Alias of ge. */
TD_API td_tensor *td_greater_equal_tensor(td_tensor *self, td_tensor *other);
TD_API int td_greater_equal_tensor_(td_tensor *self, td_tensor *other) TD_MUST_USE;
TD_API int td_greater_equal_out(td_tensor *self, td_tensor *other, td_tensor *out) TD_MUST_USE;
/* Alias of ge. */
TD_API td_tensor *td_greater_equal_scalar(td_tensor *self, td_scalar other);
TD_API int td_greater_equal_scalar_(td_tensor *self, td_scalar other) TD_MUST_USE;
TD_API int td_greater_equal_scalar_out(td_tensor *self, td_scalar other, td_tensor *out) TD_MUST_USE;
/* Bitwise and; logical for bool. */
TD_API td_tensor *td_bitwise_and_scalar(td_tensor *self, td_scalar other);
TD_API int td_bitwise_and_scalar_(td_tensor *self, td_scalar other) TD_MUST_USE;
TD_API int td_bitwise_and_scalar_out(td_tensor *self, td_scalar other, td_tensor *out) TD_MUST_USE;
/* Bitwise and; logical for bool. */
TD_API td_tensor *td_bitwise_and_scalar_tensor(td_scalar self, td_tensor *other);
TD_API int td_bitwise_and_scalar_tensor_out(td_scalar self, td_tensor *other, td_tensor *out) TD_MUST_USE;
/* Bitwise or; logical for bool. */
TD_API td_tensor *td_bitwise_or_scalar(td_tensor *self, td_scalar other);
TD_API int td_bitwise_or_scalar_(td_tensor *self, td_scalar other) TD_MUST_USE;
TD_API int td_bitwise_or_scalar_out(td_tensor *self, td_scalar other, td_tensor *out) TD_MUST_USE;
/* Bitwise or; logical for bool. */
TD_API td_tensor *td_bitwise_or_scalar_tensor(td_scalar self, td_tensor *other);
TD_API int td_bitwise_or_scalar_tensor_out(td_scalar self, td_tensor *other, td_tensor *out) TD_MUST_USE;
/* Bitwise exclusive or; logical for bool. */
TD_API td_tensor *td_bitwise_xor_scalar(td_tensor *self, td_scalar other);
TD_API int td_bitwise_xor_scalar_(td_tensor *self, td_scalar other) TD_MUST_USE;
TD_API int td_bitwise_xor_scalar_out(td_tensor *self, td_scalar other, td_tensor *out) TD_MUST_USE;
/* Bitwise exclusive or; logical for bool. */
TD_API td_tensor *td_bitwise_xor_scalar_tensor(td_scalar self, td_tensor *other);
TD_API int td_bitwise_xor_scalar_tensor_out(td_scalar self, td_tensor *other, td_tensor *out) TD_MUST_USE;
/* Bits shifted left. */
TD_API td_tensor *td_bitwise_left_shift_tensor_scalar(td_tensor *self, td_scalar other);
TD_API int td_bitwise_left_shift_tensor_scalar_(td_tensor *self, td_scalar other) TD_MUST_USE;
TD_API int td_bitwise_left_shift_tensor_scalar_out(td_tensor *self, td_scalar other,
        td_tensor *out) TD_MUST_USE;
/* Bits shifted left. */
TD_API td_tensor *td_bitwise_left_shift_scalar_tensor(td_scalar self, td_tensor *other);
TD_API int td_bitwise_left_shift_scalar_tensor_out(td_scalar self, td_tensor *other,
        td_tensor *out) TD_MUST_USE;
/* Bits shifted right, keeping the sign. */
TD_API td_tensor *td_bitwise_right_shift_tensor_scalar(td_tensor *self, td_scalar other);
TD_API int td_bitwise_right_shift_tensor_scalar_(td_tensor *self, td_scalar other) TD_MUST_USE;
TD_API int td_bitwise_right_shift_tensor_scalar_out(td_tensor *self, td_scalar other,
        td_tensor *out) TD_MUST_USE;
/* Bits shifted right, keeping the sign. */
TD_API td_tensor *td_bitwise_right_shift_scalar_tensor(td_scalar self, td_tensor *other);
TD_API int td_bitwise_right_shift_scalar_tensor_out(td_scalar self, td_tensor *other,
        td_tensor *out) TD_MUST_USE;
/* Alias of movedim. */
TD_API td_tensor *td_moveaxis_intlist(td_tensor *self, int64_t n_source, const int64_t *source,
        int64_t n_destination, const int64_t *destination);
/* Alias of movedim. */
TD_API td_tensor *td_moveaxis_int(td_tensor *self, int64_t source, int64_t destination);
/* Alias of vstack. */
TD_API td_tensor *td_row_stack(int64_t n_tensors, td_tensor *const *tensors);
TD_API int td_row_stack_out(int64_t n_tensors, td_tensor *const *tensors, td_tensor *out) TD_MUST_USE;
/* Alias of cat. */
TD_API td_tensor *td_concat(int64_t n_tensors, td_tensor *const *tensors, int64_t dim);
TD_API int td_concat_out(int64_t n_tensors, td_tensor *const *tensors, int64_t dim, td_tensor *out) TD_MUST_USE;
/* Alias of cat. */
TD_API td_tensor *td_concatenate(int64_t n_tensors, td_tensor *const *tensors, int64_t dim);
TD_API int td_concatenate_out(int64_t n_tensors, td_tensor *const *tensors, int64_t dim,
        td_tensor *out) TD_MUST_USE;
/* Alias of segment_reduce. */
TD_API td_tensor *td__segment_reduce(td_tensor *data, const char *reduce, td_tensor *lengths, td_tensor *indices,
        td_tensor *offsets, int64_t axis, bool unsafe, const td_scalar *initial);
/* Alias of sparse_dim. */
TD_API int td__dimI(int64_t *results, td_tensor *self) TD_MUST_USE;
/* Alias of dense_dim. */
TD_API int td__dimV(int64_t *results, td_tensor *self) TD_MUST_USE;
/* Chebyshev's polynomial of the first kind, T_n(x). */
TD_API td_tensor *td_special_chebyshev_polynomial_t_x_scalar(td_scalar x, td_tensor *n);
TD_API int td_special_chebyshev_polynomial_t_x_scalar_out(td_scalar x, td_tensor *n,
        td_tensor *out) TD_MUST_USE;
/* Chebyshev's polynomial of the first kind, T_n(x). */
TD_API td_tensor *td_special_chebyshev_polynomial_t_n_scalar(td_tensor *x, td_scalar n);
TD_API int td_special_chebyshev_polynomial_t_n_scalar_out(td_tensor *x, td_scalar n,
        td_tensor *out) TD_MUST_USE;
/* Chebyshev's polynomial of the second kind, U_n(x). */
TD_API td_tensor *td_special_chebyshev_polynomial_u_x_scalar(td_scalar x, td_tensor *n);
TD_API int td_special_chebyshev_polynomial_u_x_scalar_out(td_scalar x, td_tensor *n,
        td_tensor *out) TD_MUST_USE;
/* Chebyshev's polynomial of the second kind, U_n(x). */
TD_API td_tensor *td_special_chebyshev_polynomial_u_n_scalar(td_tensor *x, td_scalar n);
TD_API int td_special_chebyshev_polynomial_u_n_scalar_out(td_tensor *x, td_scalar n,
        td_tensor *out) TD_MUST_USE;
/* Chebyshev's polynomial of the third kind, V_n(x). */
TD_API td_tensor *td_special_chebyshev_polynomial_v_x_scalar(td_scalar x, td_tensor *n);
TD_API int td_special_chebyshev_polynomial_v_x_scalar_out(td_scalar x, td_tensor *n,
        td_tensor *out) TD_MUST_USE;
/* Chebyshev's polynomial of the third kind, V_n(x). */
TD_API td_tensor *td_special_chebyshev_polynomial_v_n_scalar(td_tensor *x, td_scalar n);
TD_API int td_special_chebyshev_polynomial_v_n_scalar_out(td_tensor *x, td_scalar n,
        td_tensor *out) TD_MUST_USE;
/* Chebyshev's polynomial of the fourth kind, W_n(x). */
TD_API td_tensor *td_special_chebyshev_polynomial_w_x_scalar(td_scalar x, td_tensor *n);
TD_API int td_special_chebyshev_polynomial_w_x_scalar_out(td_scalar x, td_tensor *n,
        td_tensor *out) TD_MUST_USE;
/* Chebyshev's polynomial of the fourth kind, W_n(x). */
TD_API td_tensor *td_special_chebyshev_polynomial_w_n_scalar(td_tensor *x, td_scalar n);
TD_API int td_special_chebyshev_polynomial_w_n_scalar_out(td_tensor *x, td_scalar n,
        td_tensor *out) TD_MUST_USE;
/* Hermite's polynomial as physics has it, H_n(x). */
TD_API td_tensor *td_special_hermite_polynomial_h_x_scalar(td_scalar x, td_tensor *n);
TD_API int td_special_hermite_polynomial_h_x_scalar_out(td_scalar x, td_tensor *n, td_tensor *out) TD_MUST_USE;
/* Hermite's polynomial as physics has it, H_n(x). */
TD_API td_tensor *td_special_hermite_polynomial_h_n_scalar(td_tensor *x, td_scalar n);
TD_API int td_special_hermite_polynomial_h_n_scalar_out(td_tensor *x, td_scalar n, td_tensor *out) TD_MUST_USE;
/* Hermite's polynomial as statistics has it, He_n(x). */
TD_API td_tensor *td_special_hermite_polynomial_he_x_scalar(td_scalar x, td_tensor *n);
TD_API int td_special_hermite_polynomial_he_x_scalar_out(td_scalar x, td_tensor *n, td_tensor *out) TD_MUST_USE;
/* Hermite's polynomial as statistics has it, He_n(x). */
TD_API td_tensor *td_special_hermite_polynomial_he_n_scalar(td_tensor *x, td_scalar n);
TD_API int td_special_hermite_polynomial_he_n_scalar_out(td_tensor *x, td_scalar n, td_tensor *out) TD_MUST_USE;
/* Laguerre's polynomial, L_n(x). */
TD_API td_tensor *td_special_laguerre_polynomial_l_x_scalar(td_scalar x, td_tensor *n);
TD_API int td_special_laguerre_polynomial_l_x_scalar_out(td_scalar x, td_tensor *n, td_tensor *out) TD_MUST_USE;
/* Laguerre's polynomial, L_n(x). */
TD_API td_tensor *td_special_laguerre_polynomial_l_n_scalar(td_tensor *x, td_scalar n);
TD_API int td_special_laguerre_polynomial_l_n_scalar_out(td_tensor *x, td_scalar n, td_tensor *out) TD_MUST_USE;
/* Legendre's polynomial, P_n(x). */
TD_API td_tensor *td_special_legendre_polynomial_p_x_scalar(td_scalar x, td_tensor *n);
TD_API int td_special_legendre_polynomial_p_x_scalar_out(td_scalar x, td_tensor *n, td_tensor *out) TD_MUST_USE;
/* Legendre's polynomial, P_n(x). */
TD_API td_tensor *td_special_legendre_polynomial_p_n_scalar(td_tensor *x, td_scalar n);
TD_API int td_special_legendre_polynomial_p_n_scalar_out(td_tensor *x, td_scalar n, td_tensor *out) TD_MUST_USE;
/* The chebyshev_polynomial_t of degree n at ``2 * x - 1``. */
TD_API td_tensor *td_special_shifted_chebyshev_polynomial_t_x_scalar(td_scalar x, td_tensor *n);
TD_API int td_special_shifted_chebyshev_polynomial_t_x_scalar_out(td_scalar x, td_tensor *n,
        td_tensor *out) TD_MUST_USE;
/* The chebyshev_polynomial_t of degree n at ``2 * x - 1``. */
TD_API td_tensor *td_special_shifted_chebyshev_polynomial_t_n_scalar(td_tensor *x, td_scalar n);
TD_API int td_special_shifted_chebyshev_polynomial_t_n_scalar_out(td_tensor *x, td_scalar n,
        td_tensor *out) TD_MUST_USE;
/* The chebyshev_polynomial_u of degree n at ``2 * x - 1``. */
TD_API td_tensor *td_special_shifted_chebyshev_polynomial_u_x_scalar(td_scalar x, td_tensor *n);
TD_API int td_special_shifted_chebyshev_polynomial_u_x_scalar_out(td_scalar x, td_tensor *n,
        td_tensor *out) TD_MUST_USE;
/* The chebyshev_polynomial_u of degree n at ``2 * x - 1``. */
TD_API td_tensor *td_special_shifted_chebyshev_polynomial_u_n_scalar(td_tensor *x, td_scalar n);
TD_API int td_special_shifted_chebyshev_polynomial_u_n_scalar_out(td_tensor *x, td_scalar n,
        td_tensor *out) TD_MUST_USE;
/* The chebyshev_polynomial_v of degree n at ``2 * x - 1``. */
TD_API td_tensor *td_special_shifted_chebyshev_polynomial_v_x_scalar(td_scalar x, td_tensor *n);
TD_API int td_special_shifted_chebyshev_polynomial_v_x_scalar_out(td_scalar x, td_tensor *n,
        td_tensor *out) TD_MUST_USE;
/* The chebyshev_polynomial_v of degree n at ``2 * x - 1``. */
TD_API td_tensor *td_special_shifted_chebyshev_polynomial_v_n_scalar(td_tensor *x, td_scalar n);
TD_API int td_special_shifted_chebyshev_polynomial_v_n_scalar_out(td_tensor *x, td_scalar n,
        td_tensor *out) TD_MUST_USE;
/* The chebyshev_polynomial_w of degree n at ``2 * x - 1``. */
TD_API td_tensor *td_special_shifted_chebyshev_polynomial_w_x_scalar(td_scalar x, td_tensor *n);
TD_API int td_special_shifted_chebyshev_polynomial_w_x_scalar_out(td_scalar x, td_tensor *n,
        td_tensor *out) TD_MUST_USE;
/* The chebyshev_polynomial_w of degree n at ``2 * x - 1``. */
TD_API td_tensor *td_special_shifted_chebyshev_polynomial_w_n_scalar(td_tensor *x, td_scalar n);
TD_API int td_special_shifted_chebyshev_polynomial_w_n_scalar_out(td_tensor *x, td_scalar n,
        td_tensor *out) TD_MUST_USE;
/* Alias of exp2. */
TD_API td_tensor *td_special_exp2(td_tensor *self);
TD_API int td_special_exp2_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* Alias of expm1. */
TD_API td_tensor *td_special_expm1(td_tensor *self);
TD_API int td_special_expm1_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* Alias of log1p. */
TD_API td_tensor *td_special_log1p(td_tensor *self);
TD_API int td_special_log1p_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* Alias of asin. */
TD_API td_tensor *td_arcsin(td_tensor *self);
TD_API int td_arcsin_(td_tensor *self) TD_MUST_USE;
TD_API int td_arcsin_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* Alias of acos. */
TD_API td_tensor *td_arccos(td_tensor *self);
TD_API int td_arccos_(td_tensor *self) TD_MUST_USE;
TD_API int td_arccos_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* Alias of atan. */
TD_API td_tensor *td_arctan(td_tensor *self);
TD_API int td_arctan_(td_tensor *self) TD_MUST_USE;
TD_API int td_arctan_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* Alias of asinh. */
TD_API td_tensor *td_arcsinh(td_tensor *self);
TD_API int td_arcsinh_(td_tensor *self) TD_MUST_USE;
TD_API int td_arcsinh_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* Alias of acosh. */
TD_API td_tensor *td_arccosh(td_tensor *self);
TD_API int td_arccosh_(td_tensor *self) TD_MUST_USE;
TD_API int td_arccosh_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* Alias of atanh. */
TD_API td_tensor *td_arctanh(td_tensor *self);
TD_API int td_arctanh_(td_tensor *self) TD_MUST_USE;
TD_API int td_arctanh_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* Alias of sigmoid. */
TD_API td_tensor *td_special_expit(td_tensor *self);
TD_API int td_special_expit_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* Alias of erf. */
TD_API td_tensor *td_special_erf(td_tensor *self);
TD_API int td_special_erf_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* Alias of erfc. */
TD_API td_tensor *td_special_erfc(td_tensor *self);
TD_API int td_special_erfc_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* Alias of erfinv. */
TD_API td_tensor *td_special_erfinv(td_tensor *self);
TD_API int td_special_erfinv_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* Alias of lgamma. */
TD_API td_tensor *td_special_gammaln(td_tensor *self);
TD_API int td_special_gammaln_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* Alias of digamma. */
TD_API td_tensor *td_special_digamma(td_tensor *self);
TD_API int td_special_digamma_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* Alias of digamma. */
TD_API td_tensor *td_special_psi(td_tensor *self);
TD_API int td_special_psi_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* Alias of sinc. */
TD_API td_tensor *td_special_sinc(td_tensor *self);
TD_API int td_special_sinc_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* Alias of i0. */
TD_API td_tensor *td_special_i0(td_tensor *self);
TD_API int td_special_i0_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* Alias of abs. */
TD_API td_tensor *td_absolute(td_tensor *self);
TD_API int td_absolute_(td_tensor *self) TD_MUST_USE;
TD_API int td_absolute_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* Alias of neg. */
TD_API td_tensor *td_negative(td_tensor *self);
TD_API int td_negative_(td_tensor *self) TD_MUST_USE;
TD_API int td_negative_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* Alias of trunc. */
TD_API td_tensor *td_fix(td_tensor *self);
TD_API int td_fix_(td_tensor *self) TD_MUST_USE;
TD_API int td_fix_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* Alias of round. */
TD_API td_tensor *td_special_round(td_tensor *self);
TD_API int td_special_round_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* Alias of polygamma. */
TD_API td_tensor *td_special_polygamma(int64_t n, td_tensor *self);
TD_API int td_special_polygamma_out(int64_t n, td_tensor *self, td_tensor *out) TD_MUST_USE;

/* ==== short forms, with defaults filled in ==== */

static inline td_tensor *td_empty(int64_t n_size, const int64_t *size, td_dtype dtype)
{
    return td_empty_memory_format(n_size, size, dtype, TD_DEVICE_NONE, TD_MEMORY_FORMAT_NONE);
}
static inline td_tensor *td_zeros_like(td_tensor *self)
{
    return td_zeros_like_options(self, TD_DTYPE_NONE, TD_DEVICE_NONE, TD_MEMORY_FORMAT_NONE);
}
static inline td_tensor *td_ones_like(td_tensor *self)
{
    return td_ones_like_options(self, TD_DTYPE_NONE, TD_DEVICE_NONE, TD_MEMORY_FORMAT_NONE);
}
static inline td_tensor *td_clone(td_tensor *self)
{
    return td_clone_format(self, TD_MEMORY_FORMAT_NONE);
}
static inline td_tensor *td_contiguous(td_tensor *self)
{
    return td_contiguous_format(self, TD_CONTIGUOUS_FORMAT);
}
static inline int td_copy_(td_tensor *self, td_tensor *src)
{
    return td_copy_from_(self, src, false);
}
static inline td_tensor *td_to(td_tensor *self, td_dtype dtype)
{
    return td_to_dtype(self, dtype, false, false, TD_MEMORY_FORMAT_NONE);
}
static inline td_tensor *td_cross_entropy(td_tensor *self, td_tensor *target)
{
    return td_cross_entropy_loss(self, target, TD_NONE, 1, -100, 0.0);
}
static inline td_tensor *td_mse_loss_mean(td_tensor *self, td_tensor *target)
{
    return td_mse_loss(self, target, 1);
}
static inline td_tensor *td_softmax(td_tensor *self, int64_t dim)
{
    return td_softmax_int(self, dim, TD_DTYPE_NONE);
}
static inline td_tensor *td_log_softmax(td_tensor *self, int64_t dim)
{
    return td_log_softmax_int(self, dim, TD_DTYPE_NONE);
}
static inline td_tensor *td_add(td_tensor *self, td_tensor *other)
{
    return td_add_tensor(self, other, td_int(1));
}
static inline td_tensor *td_sub(td_tensor *self, td_tensor *other)
{
    return td_sub_tensor(self, other, td_int(1));
}
static inline td_tensor *td_mul(td_tensor *self, td_tensor *other)
{
    return td_mul_tensor(self, other);
}
static inline td_tensor *td_div(td_tensor *self, td_tensor *other)
{
    return td_div_tensor(self, other);
}
static inline td_tensor *td_remainder(td_tensor *self, td_tensor *other)
{
    return td_remainder_tensor(self, other);
}
static inline td_tensor *td_pow(td_tensor *self, td_tensor *exponent)
{
    return td_pow_tensor_tensor(self, exponent);
}
static inline td_tensor *td_where(td_tensor *condition, td_tensor *self, td_tensor *other)
{
    return td_where_self(condition, self, other);
}
static inline td_tensor *td_eq(td_tensor *self, td_tensor *other)
{
    return td_eq_tensor(self, other);
}
static inline td_tensor *td_ne(td_tensor *self, td_tensor *other)
{
    return td_ne_tensor(self, other);
}
static inline td_tensor *td_lt(td_tensor *self, td_tensor *other)
{
    return td_lt_tensor(self, other);
}
static inline td_tensor *td_le(td_tensor *self, td_tensor *other)
{
    return td_le_tensor(self, other);
}
static inline td_tensor *td_gt(td_tensor *self, td_tensor *other)
{
    return td_gt_tensor(self, other);
}
static inline td_tensor *td_ge(td_tensor *self, td_tensor *other)
{
    return td_ge_tensor(self, other);
}
static inline td_tensor *td_sum_dim(td_tensor *self, int64_t n_dim, const int64_t *dim, bool keepdim)
{
    return td_sum_dim_intlist(self, n_dim, dim, keepdim, TD_DTYPE_NONE);
}
static inline td_tensor *td_sum(td_tensor *self)
{
    return td_sum_all(self, TD_DTYPE_NONE);
}
static inline td_tensor *td_mean_dim(td_tensor *self, int64_t n_dim, const int64_t *dim, bool keepdim)
{
    return td_mean_dims(self, n_dim, dim, keepdim, TD_DTYPE_NONE);
}
static inline td_tensor *td_mean(td_tensor *self)
{
    return td_mean_all(self, TD_DTYPE_NONE);
}
static inline td_tensor *td_expand(td_tensor *self, int64_t n_size, const int64_t *size)
{
    return td_expand_to(self, n_size, size, false);
}
static inline td_tensor *td_transpose(td_tensor *self, int64_t dim0, int64_t dim1)
{
    return td_transpose_int(self, dim0, dim1);
}


#ifdef __cplusplus
}
#endif
#endif
