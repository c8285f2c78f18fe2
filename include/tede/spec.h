/* tede/spec.h: structured kernels: an operator's meta half says what its results are, an implementation per device fills them.
 *
 * A structured operator (`kind: kernel` or `pointwise` in its entry) has one meta function: it checks the arguments and fills in a
 * td_spec for each result.  From that function and one implementation follow the functional form, the one in place, the one with
 * out= and the one on meta tensors, with all checks and error texts.  So a device registers a single function for
 *
 *     td_register_boxed_impl("aten::cumsum", my_device, cumsum, NULL);
 *
 * and `x.cumsum(0)`, `x.cumsum_(0)` and `torch.cumsum(x, 0, out=y)` work on its tensors.  The CPU's own implementations stand in
 * the same table, and may be replaced there.
 *
 * An operator that is defined at run time becomes structured by td_op_set_meta. */
#ifndef TEDE_SPEC_H
#define TEDE_SPEC_H
#include <tede/dispatch.h>
#include <tede/geometry.h>
#ifdef __cplusplus
extern "C" {
#endif

/* ---- the meta half */

/* A result before there is memory for it. */
typedef struct td_spec {
    int       ndim;
    td_dtype  dtype;
    td_device device;
    bool      strided;                    /* `strides` are given; else contiguous */
    bool      absent;                     /* this result is not there: TD_NONE */
    int64_t   sizes[TD_MAX_DIMS];
    int64_t   strides[TD_MAX_DIMS];       /* in elements */
} td_spec;

/* Describe a result.  Each returns 0, or -1 with an error, so a meta function can end with it.  Sizes below 0, or whose product
 * doesn't fit, are an error when the result is made. */
static inline int td_spec_set(td_spec *spec, int64_t ndim, const int64_t *sizes, td_dtype dtype, td_device device)
{
    if (ndim < 0 || ndim > TD_MAX_DIMS)
        return td_error(TD_E_RUNTIME, "a result has 0 to %d dimensions, not %lld", TD_MAX_DIMS, (long long)ndim);
    spec->ndim = (int)ndim, spec->dtype = dtype, spec->device = device;
    spec->strided = spec->absent = false;
    for (int64_t i = 0; i < ndim; i++)
        spec->sizes[i] = sizes[i];
    return 0;
}
static inline int td_spec_set_strided(td_spec *spec, int64_t ndim, const int64_t *sizes, const int64_t *strides, td_dtype dtype,
                                      td_device device)
{
    if (td_spec_set(spec, ndim, sizes, dtype, device))
        return -1;
    spec->strided = true;
    for (int64_t i = 0; i < ndim; i++)
        spec->strides[i] = strides[i];
    return 0;
}
/* As x is: its shape, dtype and device; contiguous. */
TD_API int td_spec_like(td_spec *spec, const td_tensor *x);
/* A result that isn't there. */
static inline int td_spec_none(td_spec *spec)
{
    spec->absent = true;
    return 0;
}

/* ---- implementations
 *
 * An implementation is called with the arguments as they were passed (strided, of any dtype that the meta half lets pass, and in
 * case of an elementwise operator not broadcast), and with a tensor for each result, of the shape, strides and dtype that was described.
 * Results share no memory with arguments, except that an elementwise operator's may be one of its operands, exactly.  A
 * result that is absent is TD_NONE.  Of an operator with a geometry (<tede/geometry.h>) one more value follows the arguments, whose
 * `geometry` points to it.  0, or -1 with an error. */
typedef int td_boxed_impl(const td_op *op, const td_value *arguments, td_tensor *const *results, void *context);

/* `op`: the functional form's name.  A later registration covers an earlier one; NULL takes the last one away again.  An error if
 * the operator isn't structured. */
TD_API int td_register_boxed_impl(const char *op, int device, td_boxed_impl *impl, void *context) TD_MUST_USE;
/* The same of a function with the operator's C arguments, its results behind them: for cumsum
 *     int cumsum(td_tensor *self, int64_t dim, td_dtype dtype, td_tensor *out);
 * An operator whose entry names a geometry passes that in place of all numbers: tensors, geometry, results (<tede/geometry.h>).  Not for
 * elementwise operators, nor for those that were defined at run time. */
TD_API int td_register_impl(const char *op, int device, td_kernel impl) TD_MUST_USE;
/* Whether an implementation is registered for a device. */
TD_API bool td_op_has_impl(const td_op *op, int device);
/* The number of an operator's argument by its name; -1 where there is none. */
TD_API int td_argument_named(const td_op_info *info, const char *name);

/* ---- structured operators from outside */

/* Check the arguments of op and describe its results, `specs` holding one for each. */
typedef int td_boxed_meta(const td_op *op, const td_value *arguments, td_spec *specs, void *context);

/* Make an operator structured that td_op_define has defined in functional form, all of whose results are tensors.  Its forms are
 * what else is defined by then in its namespace: `name_`, whose first argument is written, and overloads with the same arguments
 * and an out= argument for each result. */
TD_API int td_op_set_meta(const td_op *op, td_boxed_meta *meta, void *context) TD_MUST_USE;
/* The same with a geometry of so many bytes: `geometry` of the value behind the arguments points to them, zeroed, for the meta function
 * to fill and for the implementations to read. */
TD_API int td_op_set_meta_geometry(const td_op *op, td_boxed_meta *meta, size_t geometry, void *context) TD_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
