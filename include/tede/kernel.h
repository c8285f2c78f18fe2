/* tede/kernel.h: what kernels are built with, ours and yours.
 *
 * The iterator takes operands of any shape, stride and dtype, and a loop over short contiguous runs of one compute
 * dtype per operand; it broadcasts, reorders, flips and merges dimensions, gathers and casts what isn't
 * contiguous in blocks that stay in the first cache, and splits the work over threads. */
#ifndef TEDE_KERNEL_H
#define TEDE_KERNEL_H
#include <tede/dispatch.h>
#include <tede/tensor.h>
#ifdef __cplusplus
extern "C" {
#endif

enum { TD_MAX_OPERANDS = 12 };

/* n elements; ptrs[k] is operand k's run, contiguous, in operand k's compute dtype (outputs first).  Runs of outputs
 * and inputs may be the same memory, never partly overlapping.  `params` is the caller's. */
typedef void td_loop(int64_t n, char *const *ptrs, const void *params);

/* Apply a loop to every element.  `operands`: outputs first (n_out of them), all of shape `sizes` after
 * broadcasting (outputs have it exactly).  compute[k]: the dtype that the loop takes operand k in.  `cost` is
 * roughly how many additions one element costs (1 for add, 10 for exp): it decides about threads.
 * Outputs' memory overlap is checked by the caller (td_check_overlap). */
TD_API int td_iterate(int n_out, int n_in, td_tensor *const *operands, const td_dtype *compute, td_loop *loop,
                      const void *params, int cost) TD_MUST_USE;

/* Copy with conversion, any strides: dst has src's shape or src broadcasts to it.  No dispatch, no history. */
TD_API int td_copy_elements(td_tensor *dst, td_tensor *src) TD_MUST_USE;
/* Convert n elements between strided runs (strides in bytes). */
TD_API void td_convert(td_dtype to, void *dst, int64_t dst_stride, td_dtype from, const void *src, int64_t src_stride,
                       int64_t n);

/* Shape of the broadcast of several tensors into sizes[TD_MAX_DIMS]; its ndim, or -1 with PyTorch's error. */
TD_API int td_broadcast_shape(const char *op, int n, td_tensor *const *tensors, int64_t *sizes);
/* The dtype of a result of these operands by PyTorch's three categories (tensors with dimensions, 0-dim tensors,
 * wrapped numbers). */
TD_API td_dtype td_result_type(int n, td_tensor *const *tensors);
/* out must not overlap itself, nor partly an input: PyTorch's errors. */
TD_API int td_check_overlap(const char *op, td_tensor *out, int n, td_tensor *const *inputs) TD_MUST_USE;

/* An owned contiguous tensor with x's elements: x itself if it is so already.  td_as_contiguous also converts. */
TD_API td_tensor *td_make_contiguous(td_tensor *x);
TD_API td_tensor *td_as_contiguous(td_tensor *x, td_dtype dtype);
/* For writing: x itself if contiguous and of the dtype, else a new tensor with x's elements, whose contents
 * td_write_back copies to x. */
TD_API td_tensor *td_writable(td_tensor *x, td_dtype dtype);
TD_API int        td_write_back(td_tensor *x, td_tensor *written) TD_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
