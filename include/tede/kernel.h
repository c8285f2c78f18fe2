/* tede/kernel.h: what kernels are built with, ours and yours.
 *
 * The iterator takes operands of any shape, stride and dtype, and a loop over short contiguous runs of one compute
 * dtype per operand; it broadcasts, reorders, flips and merges dimensions, gathers and casts what isn't
 * contiguous in blocks that stay in the first cache, and splits the work over threads.
 *
 * A boxed kernel from outside usually goes like this: check the arguments (td_check_*, which name operator, argument and
 * position from the schema), make the result (td_output), pick a loop by dtype (TD_SWITCH_FLOATS and the like), and
 * run it by the iterator, or by td_parallel_for over td_accessors. */
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
/* Convert n elements between strided runs (strides in bytes), of dtypes that stand for numbers (not bits, float4 and quantized ones). */
TD_API void td_convert(td_dtype to, void *dst, int64_t dst_stride, td_dtype from, const void *src, int64_t src_stride,
                       int64_t n);

/* Shape of the broadcast of several tensors into sizes[TD_MAX_DIMS]; its ndim, or -1 with PyTorch's error. */
TD_API int td_broadcast_shape(const char *op, int n, td_tensor *const *tensors, int64_t *sizes);
/* The dtype of a result of these operands by PyTorch's three categories (tensors with dimensions, 0-dim tensors,
 * wrapped numbers). */
TD_API td_dtype td_result_type(int n, td_tensor *const *tensors);
/* out must not overlap itself, nor partly an input: PyTorch's errors. */
TD_API int td_check_overlap(const char *op, td_tensor *out, int n, td_tensor *const *inputs) TD_MUST_USE;

/* ---- checks of arguments, for kernels that are called with the operator and boxed arguments.  `argument` is its number in the
 * schema, from 0.  0, or -1 with an error such as
 *     toy::scale(): argument 'x' (position 1) must have 2 dimensions, but has 3 */
enum { TD_ANY = -1 };
TD_API int td_check_defined(const td_op *op, int argument, const td_tensor *x) TD_MUST_USE;   /* not TD_NONE */
TD_API int td_check_ndim(const td_op *op, int argument, const td_tensor *x, int ndim) TD_MUST_USE;
/* Exactly these sizes; TD_ANY lets one pass. */
TD_API int td_check_sizes_of(const td_op *op, int argument, const td_tensor *x, int ndim, const int64_t *sizes) TD_MUST_USE;
/* One of the dtypes in a mask of TD_DTYPE_BIT(dtype). */
TD_API int td_check_dtype_of(const td_op *op, int argument, const td_tensor *x, uint64_t dtypes) TD_MUST_USE;
/* Any test of your own: `good`, or what the argument "must" be, printf-style. */
TD_API int td_check_argument(const td_op *op, int argument, bool good, const char *must, ...) TD_MUST_USE TD_PRINTF(4, 5);
/* All tensor arguments that aren't single numbers on the CPU are on one device: PyTorch's error. */
TD_API int td_check_same_device(const td_op *op, const td_value *arguments) TD_MUST_USE;
#define TD_DTYPE_BIT(dtype) (UINT64_C(1) << (dtype))
#define TD_FLOATS   (TD_DTYPE_BIT(TD_F16) | TD_DTYPE_BIT(TD_BF16) | TD_DTYPE_BIT(TD_F32) | TD_DTYPE_BIT(TD_F64))
#define TD_INTEGERS (TD_DTYPE_BIT(TD_U8) | TD_DTYPE_BIT(TD_I8) | TD_DTYPE_BIT(TD_I16) | TD_DTYPE_BIT(TD_I32) | \
                     TD_DTYPE_BIT(TD_I64) | TD_DTYPE_BIT(TD_U16) | TD_DTYPE_BIT(TD_U32) | TD_DTYPE_BIT(TD_U64))

/* Put a new uninitialised tensor into a boxed call's result; returns it (the result owns it), NULL on an error. */
TD_API td_tensor *td_output(td_value *result, int64_t ndim, const int64_t *sizes, td_dtype dtype, td_device device);

/* Go by dtype: RUN(T), a macro or function-like statement, with the C type of the elements; other dtypes return -1 with
 * PyTorch's error ("\"name\" not implemented for 'Half'").  For a function that returns int. */
#define TD_CASE_(code, T, RUN) case code: RUN(T); break;
#define TD_SWITCH_(name, dtype, CASES) \
    switch (dtype) { CASES default: return td_error(TD_E_NOT_IMPLEMENTED, "\"%s\" not implemented for '%s'", name, \
                                                    td_dtype_title(dtype)); }
#define TD_SWITCH_FLOATS(name, dtype, RUN) \
    TD_SWITCH_(name, dtype, TD_CASE_(TD_F32, float, RUN) TD_CASE_(TD_F64, double, RUN))
#define TD_SWITCH_INTEGERS(name, dtype, RUN) \
    TD_SWITCH_(name, dtype, TD_CASE_(TD_U8, uint8_t, RUN) TD_CASE_(TD_I8, int8_t, RUN) TD_CASE_(TD_I16, int16_t, RUN) \
               TD_CASE_(TD_I32, int32_t, RUN) TD_CASE_(TD_I64, int64_t, RUN))
#define TD_SWITCH_REALS(name, dtype, RUN) \
    TD_SWITCH_(name, dtype, TD_CASE_(TD_U8, uint8_t, RUN) TD_CASE_(TD_I8, int8_t, RUN) TD_CASE_(TD_I16, int16_t, RUN) \
               TD_CASE_(TD_I32, int32_t, RUN) TD_CASE_(TD_I64, int64_t, RUN) TD_CASE_(TD_F32, float, RUN) \
               TD_CASE_(TD_F64, double, RUN))

/* A tensor's elements by index, whatever its strides: *TD_AT(float, a, i, j). */
typedef struct td_accessor { char *data; const int64_t *sizes, *strides; int64_t item; } td_accessor;
static inline td_accessor td_access(const td_tensor *x)
{
    td_accessor a;
    a.data = (char *)td_tensor_data(x), a.sizes = td_tensor_sizes(x), a.strides = td_tensor_strides(x);
    a.item = (int64_t)td_dtype_size(td_tensor_dtype(x));
    return a;
}
static inline char *td_at(const td_accessor *a, int n, const int64_t *index)
{
    int64_t at = 0;
    for (int d = 0; d < n; d++)
        at += index[d] * a->strides[d];
    return a->data + at * a->item;
}
#ifndef __cplusplus
#define TD_AT(T, accessor, ...) \
    ((T *)td_at(&(accessor), (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]){__VA_ARGS__}))
#endif

/* ---- operands as a loop wants them.
 * An owned contiguous tensor with x's elements: x itself if it is so already.  td_as_contiguous also converts. */
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
