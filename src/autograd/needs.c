/* The few operators that autograd's machinery calls, by their names in <tede/ops.h>. */
#include "calls_autograd_needs.h"
#include "autograd/needs.h"
#include "tensor/late.h"
#include "tensor/layout.h"
#include "tensor/tensor.h"
#include <tede/auto.h>
#include <tede/autograd.h>
#include <tede/kernel.h>

td_tensor *td_need_add(td_tensor *a, td_tensor *b) { return td_add(a, b); }
int        td_need_add_(td_tensor *a, td_tensor *b) { return td_add_tensor_(a, b, td_int(1)); }
td_tensor *td_need_ones_like(td_tensor *x) { return td_ones_like(x); }
td_tensor *td_need_clone(td_tensor *x) { return td_clone(x); }
td_tensor *td_need_as_strided(td_tensor *x, int ndim, const int64_t *sizes, const int64_t *strides, int64_t offset)
{
    offset += td_tensor_offset(x);
    return td_as_strided(x, ndim, sizes, ndim, strides, &offset);
}
/* Below autograd, so that a class's own detach is called and no view is recorded. */
td_tensor *td_need_detach(td_tensor *x)
{
    bool before = td_set_below_autograd(true);
    td_tensor *alias = td_detach(x);
    td_set_below_autograd(before);
    return alias;
}
int        td_need_copy_(td_tensor *to, td_tensor *from) { return td_copy_(to, from); }
td_tensor *td_need_convert(td_tensor *x, td_dtype dtype) { return td_to(x, dtype); }
td_tensor *td_need_real(td_tensor *x) { return td_real(x); }

td_tensor *td_need_sum_to_size(td_tensor *x, int ndim, const int64_t *sizes)
{
    return td_sum_to_size(x, ndim, sizes);
}

/* All bits zero are zero in every dtype, so the CPU's memory is set without a call of an operator; meta tensors have
 * none. */
td_tensor *td_need_zeros(int ndim, const int64_t *sizes, const int64_t *strides, td_dtype dtype, td_device device)
{
    for (int d = 1; d < ndim; d++)
        if (TD_UNLIKELY(td_size_is_symbol(sizes[d])))
            return td__jagged_zeros(ndim, sizes, dtype, device);
    if (TD_UNLIKELY(td_is_watched())) {
        td_tensor *zeros = strides ? td_empty_strided(ndim, sizes, ndim, strides, dtype, device) : td_zeros(ndim, sizes, dtype, device);
        if (strides && zeros && td_zero_(zeros) != 0) {
            td_tensor_release(zeros);
            return NULL;
        }
        return zeros;
    }
    td_tensor *x = strides ? td_tensor_new_strided(ndim, sizes, strides, dtype, device)
                           : td_tensor_new(ndim, sizes, dtype, device);
    if (x && device.type == TD_CPU)
        memset(x->storage->data, 0, x->storage->nbytes);
    else if (x && device.type != TD_META && td_zero_(x) != 0) {
        td_tensor_release(x);
        return NULL;
    }
    return x;
}

/* Under a transform, or for a class of Python's, zeros must be of x's own kind (a batch, a subclass), which only an
 * operator called on x makes. */
td_tensor *td_need_zeros_beside(td_tensor *x, int ndim, const int64_t *sizes, const int64_t *strides)
{
    if (TD_LIKELY(!(x->keys & TD_KEYSET(TD_KEY_TRANSFORMS)) && !(x->flags & TD_FLAG_PYTHON)))
        return td_need_zeros(ndim, sizes, strides, x->dtype, x->device);
    td_tensor *zeros = td_new_empty_strided(x, ndim, sizes, ndim, strides, TD_DTYPE_NONE, TD_DEVICE_NONE);
    if (zeros && td_zero_(zeros) != 0) {
        td_tensor_release(zeros);
        return NULL;
    }
    return zeros;
}

/* A class of Python's decides itself how its copies lie. */
static td_tensor *copy_by_operators(td_tensor *x, const int64_t *strides)
{
    if (x->flags & TD_FLAG_PYTHON)
        return td_clone(x);
    if (!strides)
        return td_clone_format(x, TD_CONTIGUOUS_FORMAT);
    td_tensor *copy = td_new_empty_strided(x, x->ndim, x->sizes, x->ndim, strides, TD_DTYPE_NONE, TD_DEVICE_NONE);
    if (copy && td_copy_(copy, x) != 0) {
        td_tensor_release(copy);
        return NULL;
    }
    return copy;
}

/* Elements are copied directly where they are what memory holds; lazy conjugates and negatives, and other layouts, go
 * through copy_. */
td_tensor *td_need_copy_of(td_tensor *x, const int64_t *strides)
{
    if (TD_UNLIKELY(x->flags & TD_FLAG_PYTHON || td_is_watched())) {
        bool before = td_set_below_autograd(true);
        td_tensor *copy = copy_by_operators(x, strides);
        td_set_below_autograd(before);
        return copy;
    }
    if (TD_UNLIKELY(td_has_layout(x)))
        return td_need_clone(x);
    const bool late = TD_UNLIKELY(td_in_region()) && x->numel && td_may_wait_for(x) && td_is_worth_recording(x);
    td_tensor *copy = late ? td_regions.make(x->ndim, x->sizes, strides, x->dtype)
                    : strides ? td_tensor_new_strided(x->ndim, x->sizes, strides, x->dtype, x->device)
                              : td_tensor_new(x->ndim, x->sizes, x->dtype, x->device);
    bool plain = x->device.type == TD_CPU && !x->extra && !(x->flags & (TD_FLAG_CONJ | TD_FLAG_NEG));
    if (copy && x->device.type != TD_META && (late ? td_regions.copy(copy, x) : plain ? td_copy_elements(copy, x) : td_copy_(copy, x)) != 0) {
        td_tensor_release(copy);
        return NULL;
    }
    return copy;
}

/* Offsets count from the base's first element here. */
td_tensor *td_need_as_strided_backward(td_tensor *grad, int base_ndim, const int64_t *base_sizes, const int64_t *base_strides,
                                       int ndim, const int64_t *sizes, const int64_t *strides, int64_t offset)
{
    return td_as_strided_backward(grad, base_ndim, base_sizes, base_ndim, base_strides, 0, ndim, sizes, ndim, strides, &offset);
}

/* 1, 0, or -1 with an error. */
int td_need_has_nan(td_tensor *x)
{
    td_scalar count;
    TD_AUTO td_tensor *nans = td_isnan(x);
    TD_AUTO td_tensor *sum = td_sum(nans);
    if (!sum || td__local_scalar_dense(&count, sum) != 0)
        return -1;
    return td_scalar_int(count) != 0;
}
