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
/* x where positive, else ``weight * x``. */
TD_API td_tensor *td__prelu_kernel(td_tensor *self, td_tensor *weight);
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
/* ``x * relu6(x + 3) / 6``. */
TD_API td_tensor *td_hardswish(td_tensor *self);
TD_API int td_hardswish_(td_tensor *self) TD_MUST_USE;
TD_API int td_hardswish_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* ``relu6(x + 3) / 6``. */
TD_API td_tensor *td_hardsigmoid(td_tensor *self);
TD_API int td_hardsigmoid_(td_tensor *self) TD_MUST_USE;
TD_API int td_hardsigmoid_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* 0 within lambd of zero, else x. */
TD_API td_tensor *td_hardshrink(td_tensor *self, td_scalar lambd);
TD_API int td_hardshrink_out(td_tensor *self, td_scalar lambd, td_tensor *out) TD_MUST_USE;
/* x moved towards zero by lambd. */
TD_API td_tensor *td_softshrink(td_tensor *self, td_scalar lambd);
TD_API int td_softshrink_out(td_tensor *self, td_scalar lambd, td_tensor *out) TD_MUST_USE;
/* x above the threshold, else the value. */
TD_API td_tensor *td_threshold(td_tensor *self, td_scalar threshold, td_scalar value);
TD_API int td_threshold_(td_tensor *self, td_scalar threshold, td_scalar value) TD_MUST_USE;
TD_API int td_threshold_out(td_tensor *self, td_scalar threshold, td_scalar value, td_tensor *out) TD_MUST_USE;
/* ``log(sigmoid(x))`` without overflow. */
TD_API td_tensor *td_log_sigmoid(td_tensor *self);
TD_API int td_log_sigmoid_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* x, but at least min. */
TD_API td_tensor *td_clamp_min(td_tensor *self, td_scalar min);
TD_API int td_clamp_min_(td_tensor *self, td_scalar min) TD_MUST_USE;
TD_API int td_clamp_min_out(td_tensor *self, td_scalar min, td_tensor *out) TD_MUST_USE;
/* x, but at most max. */
TD_API td_tensor *td_clamp_max(td_tensor *self, td_scalar max);
TD_API int td_clamp_max_(td_tensor *self, td_scalar max) TD_MUST_USE;
TD_API int td_clamp_max_out(td_tensor *self, td_scalar max, td_tensor *out) TD_MUST_USE;
/* x between two bounds. */
TD_API td_tensor *td_clamp_both(td_tensor *self, td_scalar min, td_scalar max);
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
/* Replaces NaN and infinities. */
TD_API td_tensor *td_nan_to_num_impl(td_tensor *self, double nan, double posinf, double neginf);

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
/* A tensor filled with a number, of that number's dtype unless told. */
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
TD_API int td_arange_start_out(td_scalar start, td_scalar end, td_scalar step, td_dtype dtype, td_device device,
        td_tensor *out) TD_MUST_USE;
/* A copy, in self's order of dimensions, with a gradient back to self. */
TD_API td_tensor *td_clone_format(td_tensor *self, td_memory_format memory_format);
/* Self if it is contiguous, else a contiguous copy. */
TD_API td_tensor *td_contiguous_format(td_tensor *self, td_memory_format memory_format);
TD_API int td_copy_from_(td_tensor *self, td_tensor *src, bool non_blocking) TD_MUST_USE;
/* A gradient reduced to the shape and dtype of what was copied. */
TD_API td_tensor *td_copy_backward(td_tensor *grad, int64_t n_shape, const int64_t *shape, td_dtype dtype);
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
/* A complex tensor from its parts. */
TD_API td_tensor *td_complex_op(td_tensor *real, td_tensor *imag);
TD_API int td_complex_op_out(td_tensor *real, td_tensor *imag, td_tensor *out) TD_MUST_USE;

/* ==== matmul ============================================================================================== */

/* The product of two matrices. Nothing is broadcast. */
TD_API td_tensor *td_mm(td_tensor *self, td_tensor *mat2);
TD_API int td_mm_out(td_tensor *self, td_tensor *mat2, td_tensor *out) TD_MUST_USE;
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
/* The product of vectors, matrices, or batches of matrices, whose leading dimensions are broadcast. A vector counts as a */
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
TD_API int td_addbmm_(td_tensor *self, td_tensor *batch1, td_tensor *batch2, td_scalar beta,
        td_scalar alpha) TD_MUST_USE;
TD_API int td_addbmm_out(td_tensor *self, td_tensor *batch1, td_tensor *batch2, td_scalar beta, td_scalar alpha,
        td_tensor *out) TD_MUST_USE;
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
/* Gradients of linear. */
TD_API int td_linear_backward(td_tensor **results, td_tensor *self, td_tensor *grad_output, td_tensor *weight,
        int64_t n_output_mask, const bool *output_mask) TD_MUST_USE;
/* For each matrix ``w`` of weight, ``input1 @ w @ input2``, plus bias. */
TD_API td_tensor *td_bilinear(td_tensor *input1, td_tensor *input2, td_tensor *weight, td_tensor *bias);
/* ``self * factor``, and self as it is if the factor is 1. */
TD_API td_tensor *td_scale(td_tensor *self, td_scalar factor);
/* Einstein's notation: dimensions with the same letter go together, letters that the result doesn't name are summed. The */
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
/* The same as ``softmax``. */
TD_API td_tensor *td_special_softmax(td_tensor *self, int64_t dim, td_dtype dtype);
/* The same as ``log_softmax``. */
TD_API td_tensor *td_special_log_softmax(td_tensor *self, int64_t dim, td_dtype dtype);

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
TD_API int td_maximum_(td_tensor *self, td_tensor *other) TD_MUST_USE;
TD_API int td_maximum_out(td_tensor *self, td_tensor *other, td_tensor *out) TD_MUST_USE;
/* The smaller of both, NaN if one is NaN. */
TD_API td_tensor *td_minimum(td_tensor *self, td_tensor *other);
TD_API int td_minimum_(td_tensor *self, td_tensor *other) TD_MUST_USE;
TD_API int td_minimum_out(td_tensor *self, td_tensor *other, td_tensor *out) TD_MUST_USE;
/* The larger of both; where one is NaN, the other. */
TD_API td_tensor *td_fmax(td_tensor *self, td_tensor *other);
TD_API int td_fmax_(td_tensor *self, td_tensor *other) TD_MUST_USE;
TD_API int td_fmax_out(td_tensor *self, td_tensor *other, td_tensor *out) TD_MUST_USE;
/* The smaller of both; where one is NaN, the other. */
TD_API td_tensor *td_fmin(td_tensor *self, td_tensor *other);
TD_API int td_fmin_(td_tensor *self, td_tensor *other) TD_MUST_USE;
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
TD_API int td_logaddexp_(td_tensor *self, td_tensor *other) TD_MUST_USE;
TD_API int td_logaddexp_out(td_tensor *self, td_tensor *other, td_tensor *out) TD_MUST_USE;
/* ``log2(2**self + 2**other)``, elementwise, without overflow. */
TD_API td_tensor *td_logaddexp2(td_tensor *self, td_tensor *other);
TD_API int td_logaddexp2_(td_tensor *self, td_tensor *other) TD_MUST_USE;
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

/* ==== shape =============================================================================================== */

/* The same elements in another shape, without a copy; an error where the strides don't allow it. */
TD_API td_tensor *td_view(td_tensor *self, int64_t n_size, const int64_t *size);
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
TD_API td_tensor *td_as_strided_backward(td_tensor *grad, td_tensor *self, int64_t n_size, const int64_t *size,
        int64_t n_stride, const int64_t *stride, const int64_t *storage_offset);
/* The same memory without history. */
TD_API td_tensor *td_detach(td_tensor *self);
/* A view of all of self. */
TD_API td_tensor *td_alias(td_tensor *self);
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
/* The complex conjugate; a real tensor itself. */
TD_API td_tensor *td_conj(td_tensor *self);
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
TD_API int td_angle_(td_tensor *self) TD_MUST_USE;
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
TD_API int td_signbit_(td_tensor *self) TD_MUST_USE;
TD_API int td_signbit_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* Whether an element is NaN. */
TD_API td_tensor *td_isnan(td_tensor *self);
/* Whether an element is infinite. */
TD_API td_tensor *td_isinf(td_tensor *self);
/* Whether an element is neither infinite nor NaN. */
TD_API td_tensor *td_isfinite(td_tensor *self);
/* Whether an element is +inf. */
TD_API td_tensor *td_isposinf(td_tensor *self);
TD_API int td_isposinf_(td_tensor *self) TD_MUST_USE;
TD_API int td_isposinf_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* Whether an element is -inf. */
TD_API td_tensor *td_isneginf(td_tensor *self);
TD_API int td_isneginf_(td_tensor *self) TD_MUST_USE;
TD_API int td_isneginf_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* The complex conjugate, computed. */
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
/* ``self ** 2``. */
TD_API td_tensor *td_square(td_tensor *self);
TD_API int td_square_(td_tensor *self) TD_MUST_USE;
TD_API int td_square_out(td_tensor *self, td_tensor *out) TD_MUST_USE;
/* self, with a number where the mask holds. */
TD_API td_tensor *td_masked_fill_scalar(td_tensor *self, td_tensor *mask, td_scalar value);
TD_API int td_masked_fill_scalar_(td_tensor *self, td_tensor *mask, td_scalar value) TD_MUST_USE;
TD_API int td_masked_fill_scalar_out(td_tensor *self, td_tensor *mask, td_scalar value,
        td_tensor *out) TD_MUST_USE;
/* self, with a 0-dim tensor's element where the mask holds. */
TD_API td_tensor *td_masked_fill_tensor(td_tensor *self, td_tensor *mask, td_tensor *value);
TD_API int td_masked_fill_tensor_(td_tensor *self, td_tensor *mask, td_tensor *value) TD_MUST_USE;
TD_API int td_masked_fill_out(td_tensor *self, td_tensor *mask, td_tensor *value, td_tensor *out) TD_MUST_USE;

/* ==== short forms, with defaults filled in ==== */

#if !defined(__cplusplus)
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
static inline td_tensor *td_expand(td_tensor *self, int64_t n_size, const int64_t *size)
{
    return td_expand_to(self, n_size, size, false);
}
static inline td_tensor *td_transpose(td_tensor *self, int64_t dim0, int64_t dim1)
{
    return td_transpose_int(self, dim0, dim1);
}
#endif


#ifdef __cplusplus
}
#endif
#endif
