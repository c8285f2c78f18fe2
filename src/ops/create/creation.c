/* Tensors from nothing (empty, zeros, full, arange) or after another (empty_like, new_zeros); copies and conversions (clone,
 * contiguous, copy_, to); fills.
 *
 * Memory formats: without one, a new tensor is contiguous and one made after another keeps its strides if it is dense, else their
 * order (torch.preserve_format). */

#include "calls_ops_create_creation.h"
#include <tede/device.h>
#include <math.h>
#include <stdlib.h>
#include <tede/auto.h>
#include <tede/kernel.h>
#include <tede/modes.h>
#include "autograd/node.h"
#include "dispatch/outputs.h"
#include "ops/create/create.h"
#include "ops/iterate/iterator.h"
#include "ops/iterate/strides.h"
#include "tensor/recorded.h"
#include "tensor/checked.h"
#include "tensor/device.h"
#include "tensor/foreign.h"

static td_dtype or_default(td_dtype dtype) { return dtype == TD_DTYPE_NONE ? td_default_dtype() : dtype; }
static td_device or_cpu(td_device device) { return device.type < 0 ? (td_device){TD_CPU, -1} : device; }

/* The strides of an explicit memory format, channels innermost; false with an error for another rank. */
static bool channels_last(int ndim, const int64_t *sizes, td_memory_format format, int64_t *strides)
{
    int rank = format == TD_CHANNELS_LAST ? 4 : 5;
    if (ndim != rank)
        return td_error(TD_E_RUNTIME, "required rank %d tensor to use channels_last%s format", rank, rank == 5 ? "_3d" : ""), false;
    td_channels_last_strides(ndim, sizes, strides);
    return true;
}
static bool is_channels(td_memory_format format) { return format == TD_CHANNELS_LAST || format == TD_CHANNELS_LAST_3D; }
/* Whether x lies in memory as the format says; any strides will do if it says nothing.  Dimensions of one element may have any. */
static bool lies_in(const td_tensor *x, td_memory_format format)
{
    int64_t strides[TD_MAX_DIMS];
    if (!is_channels(format))
        return format != TD_CONTIGUOUS_FORMAT || x->flags & TD_FLAG_CONTIGUOUS;
    if (x->ndim != (format == TD_CHANNELS_LAST ? 4 : 5) || !channels_last(x->ndim, x->sizes, format, strides))
        return false;
    for (int d = 0; d < x->ndim; d++)
        if (x->sizes[d] != 1 && x->strides[d] != strides[d])
            return false;
    return true;
}
/* A new tensor in an explicit format; the formats without channels all mean contiguous here. */
static td_tensor *empty_in(int ndim, const int64_t *sizes, td_dtype dtype, td_device device, td_memory_format format)
{
    int64_t strides[TD_MAX_DIMS];
    if (!is_channels(format))
        return td_tensor_new(ndim, sizes, dtype, device);
    return channels_last(ndim, sizes, format, strides) ? td_tensor_new_strided(ndim, sizes, strides, dtype, device) : NULL;
}

/* torch.utils.deterministic.fill_uninitialized_memory: NaN, or the largest integer, in what would be left as it was found.  The shift
 * leaves as many ones as the dtype has bits of value. */
int td_fill_new_memory(td_tensor *self)
{
    td_dtype dtype = (td_dtype)self->dtype;
    if (!td_fill_uninitialized() || td_is_foreign_dtype(dtype) || dtype == TD_F8_E8M0FNU || !td_converts(dtype))
        return 0;
    if (td_dtype_is_floating(dtype) || td_dtype_is_complex(dtype))
        return td_fill_value(self, td_float(NAN));
    if (dtype == TD_BOOL)
        return td_fill_value(self, td_bool(true));
    if (dtype == TD_U64)
        return td_fill_value(self, (td_scalar){TD_SCALAR_UINT, .u = UINT64_MAX});
    int bits = 8 * (int)td_dtype_size(dtype) - td_dtype_is_signed(dtype);
    return td_fill_value(self, td_int((int64_t)(UINT64_MAX >> (64 - bits))));
}
/* x, or NULL, x having been released: for results that are passed on in one expression. */
static td_tensor *uninitialized(td_tensor *x)
{
    if (x && td_fill_new_memory(x)) {
        td_tensor_release(x);
        return NULL;
    }
    return x;
}

td_tensor *td_op_empty_memory_format(int64_t n_size, const int64_t *size, td_dtype dtype, td_device device,
                                     td_memory_format memory_format)
{
    if (n_size > TD_MAX_DIMS)
        return td_fail(TD_E_RUNTIME, "empty: only tensors with up to %d dims are supported, got %lld", TD_MAX_DIMS, (long long)n_size);
    return uninitialized(empty_in((int)n_size, size, or_default(dtype), or_cpu(device), memory_format));
}

td_tensor *td_op_empty_strided(int64_t n_size, const int64_t *size, int64_t n_stride, const int64_t *stride, td_dtype dtype,
                               td_device device)
{
    if (n_size != n_stride)
        return td_fail(TD_E_RUNTIME, "dimensionality of sizes (%lld) must match dimensionality of strides (%lld)",
                       (long long)n_size, (long long)n_stride);
    return uninitialized(td_tensor_new_strided(n_size, size, stride, or_default(dtype), or_cpu(device)));
}

/* A tensor dense in memory keeps its strides; any other only their order. */
td_tensor *td_op_empty_like(td_tensor *self, td_dtype dtype, td_device device, td_memory_format format)
{
    td_dtype kind = dtype == TD_DTYPE_NONE ? (td_dtype)self->dtype : dtype;
    td_device where = device.type < 0 ? self->device : device;
    int64_t strides[TD_MAX_DIMS];
    if (is_channels(format))
        return uninitialized(empty_in(self->ndim, self->sizes, kind, where, format));
    return uninitialized(format != TD_CONTIGUOUS_FORMAT && td_strides_like(self, strides)
                             ? td_tensor_new_strided(self->ndim, self->sizes, strides, kind, where)
                             : td_tensor_new(self->ndim, self->sizes, kind, where));
}

/* The strides of empty_like; false if contiguous ones are meant, for which a tensor needs no strides. */
bool td_strides_like(const td_tensor *x, int64_t *strides)
{
    if (!x->numel)                                           /* nothing to be dense or not */
        return memcpy(strides, x->strides, sizeof *strides * (size_t)x->ndim), true;
    return !td_has_plain_strides(x) &&
           (td_dense_order_strides(x, strides) || td_strides_in_order(1, &(td_tensor *){(td_tensor *)x}, x->ndim, x->sizes, strides));
}

/* Strides of a dense tensor in the order of x's dimensions, outermost stride first; false if contiguous will do. */
bool td_dense_order_strides(const td_tensor *x, int64_t *strides)
{
    int order[TD_MAX_DIMS], n = x->ndim;
    for (int d = 0; d < n; d++)
        order[d] = d;
    for (int i = 1; i < n; i++)
        for (int j = i; j > 0 && llabs(x->strides[order[j - 1]]) < llabs(x->strides[order[j]]); j--) {
            int t = order[j];
            order[j] = order[j - 1], order[j - 1] = t;
        }
    /* From the narrowest stride on, each must be the product of the sizes before; dimensions of size 1 keep what they have. */
    int64_t step = 1;
    for (int i = n; i-- > 0;) {
        int d = order[i];
        if (x->sizes[d] > 1 && llabs(x->strides[d]) != step)
            return false;     /* gaps or overlap: not dense */
        strides[d] = x->sizes[d] > 1 ? step : llabs(x->strides[d]);
        step = td_mul_saturated(step, x->sizes[d] > 1 ? x->sizes[d] : 1);
    }
    return true;
}

/* x with the value in it, or NULL, x having been released. */
static td_tensor *filled(td_tensor *x, td_scalar value)
{
    if (x && td_fill_value(x, value)) {
        td_tensor_release(x);
        return NULL;
    }
    return x;
}

td_tensor *td_op_zeros(int64_t n_size, const int64_t *size, td_dtype dtype, td_device device)
{
    return filled(td_op_empty_memory_format(n_size, size, dtype, device, TD_MEMORY_FORMAT_NONE), td_int(0));
}
td_tensor *td_op_ones(int64_t n_size, const int64_t *size, td_dtype dtype, td_device device)
{
    return filled(td_op_empty_memory_format(n_size, size, dtype, device, TD_MEMORY_FORMAT_NONE), td_int(1));
}

/* full's dtype, if none is named: bool, int64, the default dtype, or a complex one, which for all but float64 is complex64. */
static td_dtype dtype_of_number(td_scalar s)
{
    td_dtype real = td_default_dtype();
    return s.kind == TD_SCALAR_BOOL ? TD_BOOL : s.kind == TD_SCALAR_INT || s.kind == TD_SCALAR_UINT ? TD_I64
         : s.kind == TD_SCALAR_FLOAT ? real : real == TD_F64 ? TD_C128 : TD_C64;
}

td_tensor *td_op_full(int64_t n_size, const int64_t *size, td_scalar fill_value, td_dtype dtype, td_device device)
{
    td_dtype kind = dtype == TD_DTYPE_NONE ? dtype_of_number(fill_value) : dtype;
    return filled(td_op_empty_memory_format(n_size, size, kind, device, TD_MEMORY_FORMAT_NONE), fill_value);
}

td_tensor *td_op_zeros_like_options(td_tensor *self, td_dtype dtype, td_device device, td_memory_format format)
{
    return filled(td_op_empty_like(self, dtype, device, format), td_int(0));
}
td_tensor *td_op_ones_like_options(td_tensor *self, td_dtype dtype, td_device device, td_memory_format format)
{
    return filled(td_op_empty_like(self, dtype, device, format), td_int(1));
}
td_tensor *td_op_full_like(td_tensor *self, td_scalar value, td_dtype dtype, td_device device, td_memory_format format)
{
    return filled(td_op_empty_like(self, dtype, device, format), value);
}

/* The new_* methods: self decides about dtype and device only, never about strides. */
static td_tensor *new_after(td_tensor *self, int64_t n, const int64_t *size, td_dtype dtype, td_device device)
{
    return td_op_empty_memory_format(n, size, dtype == TD_DTYPE_NONE ? (td_dtype)self->dtype : dtype,
                                     device.type < 0 ? self->device : device, TD_MEMORY_FORMAT_NONE);
}
td_tensor *td_op_new_empty(td_tensor *self, int64_t n, const int64_t *size, td_dtype dtype, td_device device)
{
    return new_after(self, n, size, dtype, device);
}
td_tensor *td_op_new_empty_strided(td_tensor *self, int64_t n_size, const int64_t *size, int64_t n_stride, const int64_t *stride,
                                   td_dtype dtype, td_device device)
{
    return td_op_empty_strided(n_size, size, n_stride, stride, dtype == TD_DTYPE_NONE ? (td_dtype)self->dtype : dtype,
                               device.type < 0 ? self->device : device);
}
td_tensor *td_op_new_zeros(td_tensor *self, int64_t n, const int64_t *size, td_dtype dtype, td_device device)
{
    return filled(new_after(self, n, size, dtype, device), td_int(0));
}
td_tensor *td_op_new_ones(td_tensor *self, int64_t n, const int64_t *size, td_dtype dtype, td_device device)
{
    return filled(new_after(self, n, size, dtype, device), td_int(1));
}
td_tensor *td_op_new_full(td_tensor *self, int64_t n, const int64_t *size, td_scalar value, td_dtype dtype, td_device device)
{
    return filled(new_after(self, n, size, dtype, device), value);
}

/* ---- arange */

/* The short forms are the long one with 0 and 1 filled in. */
td_tensor *td_op_arange(td_scalar end, td_dtype dtype, td_device device)
{
    return td_arange_start_step(td_int(0), end, td_int(1), dtype, device);
}
td_tensor *td_op_arange_start(td_scalar start, td_scalar end, td_dtype dtype, td_device device)
{
    return td_arange_start_step(start, end, td_int(1), dtype, device);
}

typedef struct arange_work { char *data; size_t item; td_dtype dtype; bool whole; int64_t start, step; double fstart, fstep; } arange_work;

/* Each element is computed from its index, as PyTorch does, so nothing accumulates; halves round once from float.  That also makes
 * the result independent of how threads share the range.  Blocks of 512 int64 or double (4 KB) stay in the first cache between
 * being computed and being converted. */
static void arange_range(void *context, int64_t from, int64_t to)
{
    const arange_work *w = context;
    enum { BLOCK = 512 };
    double  reals[BLOCK];
    int64_t ints[BLOCK];
    for (int64_t at = from; at < to; at += BLOCK) {
        int64_t n = to - at < BLOCK ? to - at : BLOCK;
        if (w->whole) {
            for (int64_t i = 0; i < n; i++)
                ints[i] = w->start + (at + i) * w->step;
            td_convert(w->dtype, w->data + at * (int64_t)w->item, (int64_t)w->item, TD_I64, ints, 8, n);
        } else {
            bool narrow = w->dtype == TD_F32 || w->dtype == TD_F16 || w->dtype == TD_BF16;
            for (int64_t i = 0; i < n; i++)
                reals[i] = narrow ? (double)(float)(w->fstart + w->fstep * (double)(at + i)) : w->fstart + w->fstep * (double)(at + i);
            td_convert(w->dtype, w->data + at * (int64_t)w->item, (int64_t)w->item, TD_F64, reals, 8, n);
        }
    }
}

/* The number of elements is ceil((end - start) / step): in double, except for integers, whose differences are taken modulo 2^64, where
 * they are right for any two int64.  Elements of integer dtypes are counted in int64, with start and step truncated first. */
td_tensor *td_op_arange_start_step(td_scalar start, td_scalar end, td_scalar step, td_dtype dtype, td_device device)
{
    if ((start.kind == TD_SCALAR_COMPLEX && start.imag != 0) || (end.kind == TD_SCALAR_COMPLEX && end.imag != 0) ||
        (step.kind == TD_SCALAR_COMPLEX && step.imag != 0))
        return td_fail(TD_E_RUNTIME, "value cannot be converted to type double without overflow");
    bool whole = start.kind <= TD_SCALAR_INT && end.kind <= TD_SCALAR_INT && step.kind <= TD_SCALAR_INT;
    td_dtype kind = dtype != TD_DTYPE_NONE ? dtype : whole ? TD_I64 : td_default_dtype();
    double first = td_scalar_double(start), last = td_scalar_double(end), by = td_scalar_double(step);
    if (by == 0)
        return td_fail(TD_E_RUNTIME, "step must be nonzero");
    if (!isfinite(first) || !isfinite(last))
        return td_fail(TD_E_RUNTIME, "unsupported range: %g -> %g", first, last);
    if (by > 0 ? first > last : first < last)
        return td_fail(TD_E_RUNTIME, "upper bound and lower bound inconsistent with step sign");
    /* A quotient that rounding puts just above a whole number gives an element more, as in PyTorch, which divides so, too. */
    double count = ceil((last - first) / by);
    if (kind == TD_I64 && !whole) {      /* only here PyTorch counts with whole numbers that were given as others */
        start = td_int(td_scalar_int(start)), end = td_int(td_scalar_int(end)), step = td_int(td_scalar_int(step));
        if (step.i == 0)
            return td_fail(TD_E_VALUE, "step must be nonzero");
        whole = true;
    }
    if (whole) {     /* exact beyond 2^53 */
        uint64_t span = by > 0 ? (uint64_t)end.i - (uint64_t)start.i : (uint64_t)start.i - (uint64_t)end.i;
        uint64_t stride = by > 0 ? (uint64_t)step.i : 0 - (uint64_t)step.i;
        count = (double)(span / stride + (span % stride != 0));
    }
    if (!(count < 9e18))        /* int64 holds what is left */
        return td_fail(TD_E_RUNTIME, "invalid size, possible overflow?");
    int64_t n = (int64_t)count;
    td_tensor *out = td_tensor_new(1, &n, kind, or_cpu(device));
    if (!out || out->device.type == TD_META)
        return out;
    if (td_dtype_is_complex(kind) || kind == TD_BOOL || (td_is_keyed_dtype(kind) && !td_is_foreign_dtype(kind))) {
        td_tensor_release(out);
        return td_fail(TD_E_NOT_IMPLEMENTED, "\"arange_cpu\" not implemented for '%s'", td_dtype_title(kind));
    }
    bool ints = whole || td_dtype_is_integral(kind);
    if (out->device.type != TD_CPU) {
        if (!td_arange_on_device(out, ints, td_scalar_int(start), td_scalar_int(step), first, by))
            return out;
        td_tensor_release(out);
        return NULL;
    }
    arange_work work = {out->data, td_dtype_size(kind), kind, ints, td_scalar_int(start), td_scalar_int(step), first, by};
    td_parallel_for(0, n, 32768, arange_range, &work);
    return out;
}

/* Computed in the dtype of `out`, which must be the one named, if one is. */
int td_op_arange_start_out(td_scalar start, td_scalar end, td_scalar step, td_dtype dtype, td_device device, td_tensor *out)
{
    (void)device;
    if (dtype != TD_DTYPE_NONE && dtype != (td_dtype)out->dtype)
        return td_error(TD_E_RUNTIME, "dtype %s does not match dtype of out tensor (%s)", td_dtype_title(dtype),
                        td_dtype_title((td_dtype)out->dtype));
    return td_fill_in_order("arange", out, td_op_arange_start_step(start, end, step, (td_dtype)out->dtype, out->device));
}
int td_op_arange_out(td_scalar end, td_dtype dtype, td_device device, td_tensor *out)
{
    return td_op_arange_start_out(td_int(0), end, td_int(1), dtype, device, out);
}

/* ---- copies */

/* Copies elements now or, within a region, late. */
static int copy_into(td_tensor *dst, td_tensor *src)
{
    if (td_is_recorded(dst, 2, (td_tensor *[]){dst, src}) && src->numel)
        return td_regions.copy(dst, src);
    return td_copy_elements(dst, src);
}

/* A new tensor for a copy of self: as td_op_empty_like makes it but, within a region, without memory. */
static td_tensor *for_copy(td_tensor *self, td_dtype dtype, td_device device, td_memory_format format)
{
    int64_t strides[TD_MAX_DIMS];
    if (!td_is_recorded(NULL, 1, &self) || is_channels(format) || (device.type >= 0 && device.type != TD_CPU) || !self->numel ||
        (dtype != TD_DTYPE_NONE && td_is_keyed_dtype(dtype)))
        return td_op_empty_like(self, dtype, device, format);
    return td_regions.make(self->ndim, self->sizes, format != TD_CONTIGUOUS_FORMAT && td_strides_like(self, strides) ? strides : NULL,
                           dtype == TD_DTYPE_NONE ? (td_dtype)self->dtype : dtype);
}

/* td_copy_elements resolves conjugates and negatives, so a clone is plain. */
td_tensor *td_op_clone_format(td_tensor *self, td_memory_format format)
{
    td_tensor *copy = for_copy(self, TD_DTYPE_NONE, TD_DEVICE_NONE, format);
    if (copy && copy->device.type != TD_META && copy_into(copy, self)) {
        td_tensor_release(copy);
        return NULL;
    }
    return copy;
}

/* self, with another reference, if it lies so already; else a copy. */
td_tensor *td_op_contiguous_format(td_tensor *self, td_memory_format format)
{
    if (format == TD_PRESERVE_FORMAT && self->flags & TD_FLAG_CONTIGUOUS)
        return td_tensor_retain(self);
    if (format == TD_PRESERVE_FORMAT)
        return td_fail(TD_E_RUNTIME, "preserve memory format is unsupported by the contiguous operator");
    format = is_channels(format) ? format : TD_CONTIGUOUS_FORMAT;
    const int says = TD_UNLIKELY(self->flags & TD_FLAG_PYTHON) ? td_says_contiguous(self, format) : 2;
    if (says < 0)
        return NULL;
    return (says == 2 ? lies_in(self, format) : says) ? td_tensor_retain(self) : td_clone_format(self, format);
}

/* src is broadcast to self, never self to src, and converted.  A copy onto the same elements returns before the overlap check, which
 * would refuse expanded tensors. */
int td_op_copy_from_(td_tensor *self, td_tensor *src, bool non_blocking)
{
    int64_t sizes[TD_MAX_DIMS];
    td_tensor *both[] = {self, src};
    int ndim = td_broadcast_shape("copy_", 2, both, sizes);
    if (ndim < 0)
        return -1;
    if (ndim != self->ndim || memcmp(sizes, self->sizes, sizeof *sizes * ndim)) {
        td_shape_text a, b;
        return td_error(TD_E_RUNTIME, "copy_: output with shape %s doesn't match the broadcast shape %s",
                        td_shape_str(self->ndim, self->sizes, a), td_shape_str(ndim, sizes, b));
    }
    if (src->storage == self->storage && src->data == self->data && src->dtype == self->dtype && src->ndim == ndim &&
        !((src->keys ^ self->keys) & TD_KEYS_LAZY) && !memcmp(src->sizes, sizes, sizeof *sizes * (size_t)ndim) &&
        !memcmp(src->strides, self->strides, sizeof *sizes * (size_t)ndim))
        return 0;                   /* they are the same elements, which may even share memory among themselves */
    if (self->device.type == TD_META || td_check_overlap("copy_", self, 1, &src))
        return self->device.type == TD_META ? 0 : -1;
    if (src->device.type == TD_META)
        return td_error(TD_E_NOT_IMPLEMENTED, "Cannot copy out of meta tensor; no data!");
    const int status = TD_UNLIKELY(non_blocking) ? td_copy_late(self, src) : 1;
    return status > 0 ? copy_into(self, src) : status;
}

td_tensor *td_op_zeroed(td_tensor *self) { return td_fill_scalar(self, td_int(0)); }
td_tensor *td_op_lift_fresh(td_tensor *self) { return td_tensor_retain(self); }
td_tensor *td_op_lift_fresh_copy(td_tensor *self) { return td_clone(self); }

/* The gradient of src: summed over what was broadcast, in its dtype, on its device. */
td_tensor *td_op_copy_backward(td_tensor *grad, int64_t n_shape, const int64_t *shape, td_dtype dtype, td_device device)
{
    td_tensor *fitted = td_grad_fit(grad, (int)n_shape, shape, dtype);
    if (!fitted || (fitted->device.type == device.type && fitted->device.index == device.index))
        return fitted;
    td_tensor *moved = td__to_copy(fitted, TD_DTYPE_NONE, device, false, TD_MEMORY_FORMAT_NONE);
    td_tensor_release(fitted);
    return moved;
}

/* The copy that to() makes when it must: conversion of dtype, device and format in one. */
td_tensor *td_op__to_copy(td_tensor *self, td_dtype dtype, td_device device, bool non_blocking, td_memory_format format)
{
    td_tensor *copy = for_copy(self, dtype, device, format);
    if (!copy || copy->device.type == TD_META)
        return copy;
    if (td_op_copy_from_(copy, self, non_blocking)) {
        td_tensor_release(copy);
        return NULL;
    }
    return copy;
}

/* Whether to() has nothing to do for the format: it goes by the format that the strides suggest, as PyTorch's does, and not by how the elements lie.
 * So a (10, 2, 1, 1) tensor, whose elements lie in both formats, is copied when channels_last is wanted, and gets its strides. */
static bool suggests(const td_tensor *x, td_memory_format format)
{
    if (format == TD_CONTIGUOUS_FORMAT)
        return !td_has_channels_last(x);
    return !is_channels(format) || (x->ndim == (format == TD_CHANNELS_LAST ? 4 : 5) && td_has_channels_last(x));
}

/* to() in all its forms: self, with another reference, where dtype, device and format are as they should be already; of devices other
 * than cpu and meta the index counts, which is resolved first. */
static td_tensor *convert(td_tensor *self, td_dtype dtype, td_device device, bool non_blocking, bool copy, td_memory_format format)
{
    td_dtype kind = dtype == TD_DTYPE_NONE ? (td_dtype)self->dtype : dtype;
    td_device where = device.type < 0 ? self->device : device;
    if (where.type > TD_META && where.index < 0 && td_device_resolve(&where))
        return NULL;
    /* Two indices agree if they are the same or one of them is not known. */
    bool same = kind == (td_dtype)self->dtype && where.type == self->device.type &&
                (where.index == self->device.index || where.index < 0 || self->device.index < 0) &&
                suggests(self, format);
    return same && !copy ? td_tensor_retain(self) : td__to_copy(self, dtype, device, non_blocking, format);
}
td_tensor *td_op_to_dtype_layout(td_tensor *self, td_dtype dtype, td_device device, bool non_blocking, bool copy,
                                 td_memory_format format)
{
    return convert(self, dtype, device, non_blocking, copy, format);
}
td_tensor *td_op_to_device(td_tensor *self, td_device device, td_dtype dtype, bool non_blocking, bool copy, td_memory_format format)
{
    return convert(self, dtype, device, non_blocking, copy, format);
}
td_tensor *td_op_to_dtype(td_tensor *self, td_dtype dtype, bool non_blocking, bool copy, td_memory_format format)
{
    return convert(self, dtype, TD_DEVICE_NONE, non_blocking, copy, format);
}
td_tensor *td_op_to_other(td_tensor *self, td_tensor *other, bool non_blocking, bool copy, td_memory_format format)
{
    return convert(self, other->dtype, other->device, non_blocking, copy, format);
}

/* ---- fills */

/* One element's bytes, repeated over a range of elements. */
typedef struct fill_work { char *data; size_t item; char pattern[16]; } fill_work;
static void fill_range(void *context, int64_t from, int64_t to)
{
    const fill_work *w = context;
    const int64_t item = (int64_t)w->item;
    td_copy_run(w->item, w->data + from * item, item, w->pattern, 0, to - from);
}

/* Dtypes whose 0 is bytes of 0: all but those from outside, which may have another. */
static bool has_zero_bytes(int dtype) { return dtype < TD_DTYPE_A; }
enum { FEW_BYTES = 1024 };

/* The element `one` everywhere in a tensor of another device: bytes that are all the same by the device itself, others as a copy that
 * broadcasts, for which nobody waits: a scalar is made a vector for that. */
static int fill_there(td_tensor *self, td_tensor *one)
{
    const size_t item = td_dtype_size(self->dtype);
    const char *bytes = one->data;
    bool even = self->storage && self->flags & (TD_FLAG_CONTIGUOUS | TD_FLAG_NON_OVERLAPPING) && !(self->flags & (TD_FLAG_CONJ | TD_FLAG_NEG));
    for (size_t i = 1; i < item && even; i++)
        even = bytes[i] == bytes[0];
    const int status = even ? td_device_fill_bytes(self->device, self->data, (uint8_t)bytes[0], (size_t)self->numel * item) : 1;
    if (status != 1)
        return status;
    TD_AUTO td_tensor *to = self->ndim ? td_tensor_retain(self) : td_view_strided(self, 1, (int64_t[]){1}, (int64_t[]){1}, 0);
    return to ? td_copy_elements(to, one) : -1;
}

/* Fills a contiguous tensor's memory in one run; any other through the iterator, from a 0-dim tensor.  Few bytes of 0, the most frequent
 * case, skip the conversion of the number.  The number goes through complex128, uint64 or int64, each of which holds its kind
 * exactly, to one element of the dtype, whose bytes are repeated. */
int td_fill_value(td_tensor *self, td_scalar value)
{
    if (TD_UNLIKELY(td_in_region()) && self->numel && td_may_wait_for(self) && td_is_noted(self)) {
        TD_AUTO td_tensor *one = td_tensor_new(0, NULL, (td_dtype)self->dtype, self->device);
        return !one || td_fill_value(one, value) ? -1 : td_regions.copy(self, one);
    }
    if (td_settle_to_write(self))
        return -1;
    if (self->device.type == TD_META || !self->numel)
        return td_is_foreign_dtype((td_dtype)self->dtype) ? 0 : td_scalar_check(value, (td_dtype)self->dtype);
    const size_t bytes = (size_t)self->numel * td_dtype_size(self->dtype);
    if (value.kind == TD_SCALAR_INT && value.i == 0 && self->device.type == TD_CPU && bytes <= FEW_BYTES &&
        self->flags & TD_FLAG_CONTIGUOUS && has_zero_bytes(self->dtype)) {
        memset(self->data, 0, bytes);
        return 0;
    }
    const bool zero = value.kind == TD_SCALAR_INT && value.i == 0 && has_zero_bytes(self->dtype);
    if (!zero && !td_converts(self->dtype))
        return td_error(TD_E_NOT_IMPLEMENTED, "\"fill_cpu\" not implemented for '%s'", td_dtype_title((td_dtype)self->dtype));
    if (td_scalar_check(value, (td_dtype)self->dtype))
        return -1;
    if (self->device.type > TD_META) {      /* another device: one element is made here and broadcast there */
        td_tensor *one = td_tensor_new(0, NULL, (td_dtype)self->dtype, (td_device){TD_CPU, -1});
        int status = one && td_fill_value(one, value) == 0 ? fill_there(self, one) : -1;
        td_tensor_release(one);
        return status;
    }
    fill_work work = {.data = self->data, .item = td_dtype_size(self->dtype)};
    /* One element in the dtype; the pattern has room for the widest, complex128. */
    double complex_value[2] = {td_scalar_double(value), value.kind == TD_SCALAR_COMPLEX ? value.imag : 0};
    int64_t whole = value.i;
    if (zero)
        memset(work.pattern, 0, sizeof work.pattern);
    else if (value.kind == TD_SCALAR_FLOAT || value.kind == TD_SCALAR_COMPLEX)
        td_convert(self->dtype, work.pattern, 16, TD_C128, complex_value, 16, 1);
    else
        td_convert(self->dtype, work.pattern, 16, value.kind == TD_SCALAR_UINT ? TD_U64 : TD_I64, &whole, 8, 1);
    if (self->flags & TD_FLAG_CONTIGUOUS) {
        td_parallel_for(0, self->numel, 65536, fill_range, &work);
        return 0;
    }
    TD_AUTO td_tensor *one = td_tensor_new(0, NULL, self->dtype, self->device);
    if (!one)
        return -1;
    memcpy(one->data, work.pattern, work.item);
    return td_copy_elements(self, one);
}

int td_op_fill_scalar_(td_tensor *self, td_scalar value) { return td_fill_value(self, value); }
/* The value may be of any dtype that converts: it is broadcast by the copy. */
int td_op_fill_tensor_(td_tensor *self, td_tensor *value)
{
    if (value->ndim)
        return td_error(TD_E_RUNTIME, "fill_ only supports 0-dimension value tensor but got tensor with %d dimensions.", value->ndim);
    return self->device.type == TD_META ? 0 : copy_into(self, value);
}
int td_op_zero_(td_tensor *self) { return td_fill_value(self, td_int(0)); }
td_tensor *td_op_fill_scalar(td_tensor *self, td_scalar value)
{
    return filled(td_op_empty_like(self, TD_DTYPE_NONE, TD_DEVICE_NONE, TD_MEMORY_FORMAT_NONE), value);
}
td_tensor *td_op_fill_tensor(td_tensor *self, td_tensor *value)
{
    td_tensor *copy = td_empty_like(self, TD_DTYPE_NONE, TD_DEVICE_NONE, TD_MEMORY_FORMAT_NONE);
    if (copy && td_op_fill_tensor_(copy, value)) {
        td_tensor_release(copy);
        return NULL;
    }
    return copy;
}

int td_out_check_complex_op(td_tensor *real, td_tensor *imag, td_tensor *out)
{
    (void)imag;
    td_dtype dtype = td_dtype_to_complex((td_dtype)real->dtype);
    return !td_dtype_is_floating((td_dtype)real->dtype) || out->dtype == dtype
               ? 0 : td_error(TD_E_RUNTIME, "Expected object of scalar type %s but got scalar type %s for argument 'out'",
                              td_dtype_title(dtype), td_dtype_title((td_dtype)out->dtype));
}
/* Both parts are copied into the result's view_as_real: one strided copy each. */
td_tensor *td_op_complex_op(td_tensor *real, td_tensor *imag)
{
    const uint32_t parts_of = 1u << TD_F16 | 1u << TD_F32 | 1u << TD_F64;
    if (real->dtype >= TD_C32 || imag->dtype >= TD_C32 || !(parts_of >> real->dtype & 1) || !(parts_of >> imag->dtype & 1))
        return td_fail(TD_E_RUNTIME, "Expected both inputs to be Half, Float or Double tensors but got %s and %s",
                       td_dtype_title(real->dtype), td_dtype_title(imag->dtype));
    if (real->dtype != imag->dtype)
        return td_fail(TD_E_RUNTIME, "Expected object of scalar type %s but got scalar type %s for second argument",
                       td_dtype_title(real->dtype), td_dtype_title(imag->dtype));
    int64_t sizes[TD_MAX_DIMS], strides[TD_MAX_DIMS];
    td_tensor *both[] = {real, imag};
    int ndim = td_broadcast_shape("complex", 2, both, sizes);
    if (ndim < 0)
        return NULL;
    const td_dtype dtype = td_dtype_to_complex(real->dtype);
    td_tensor *out = td_strides_in_order(2, both, ndim, sizes, strides) ? td_tensor_new_strided(ndim, sizes, strides, dtype, real->device)
                                                                        : td_tensor_new(ndim, sizes, dtype, real->device);
    if (!out || out->device.type == TD_META)
        return out;
    TD_AUTO td_tensor *parts = td_view_as_real(out);
    for (int k = 0; k < 2 && parts; k++) {
        TD_AUTO td_tensor *part = td_select_int(parts, -1, k);
        if (!part || td_copy_elements(part, both[k])) {
            td_tensor_release(out);
            return NULL;
        }
    }
    if (!parts) {
        td_tensor_release(out);
        return NULL;
    }
    return out;
}

/* layout[i] is the dimension that comes i-th in memory, the outermost first. */
td_tensor *td_op_empty_permuted(int64_t n_size, const int64_t *size, int64_t n_layout, const int64_t *layout, td_dtype dtype, td_device device)
{
    int64_t strides[TD_MAX_DIMS] = {0}, step = 1;
    if (n_size != n_layout)
        return td_fail(TD_E_RUNTIME, "Number of dimensions in size does not match the length of the physical_layout; i.e. len(size) = %lld is not "
                       "equal to len(physical_layout) = %lld", (long long)n_size, (long long)n_layout);
    if (td_check_sizes(n_size, size))
        return NULL;
    bool seen[TD_MAX_DIMS] = {false};
    for (int64_t i = 0; i < n_size; i++) {
        int64_t d = layout[i];
        if (d < 0 || d >= n_size)
            return td_fail(TD_E_RUNTIME, "Dimension out of range (expected to be between 0 and %lld, but got %lld at index %lld).  NB: negative dims not "
                           "currently supported; file an issue if you want it.", (long long)n_size - 1, (long long)d, (long long)i);
        if (seen[d])
            return td_fail(TD_E_RUNTIME, "Duplicate dim not allowed");
        seen[d] = true;
    }
    for (int64_t i = n_size - 1; i >= 0; i--) {     /* innermost first; saturated, as td_tensor_new_strided checks the product */
        strides[layout[i]] = step;
        step = td_mul_saturated(step, size[layout[i]] > 1 ? size[layout[i]] : 1);
    }
    return uninitialized(td_tensor_new_strided((int)n_size, size, strides, or_default(dtype), or_cpu(device)));
}

/* The diagonal is a 1-d view whose step is the sum of all strides. */
int td_op_fill_diagonal_(td_tensor *self, td_scalar fill_value, bool wrap)
{
    if (self->ndim < 2)
        return td_error(TD_E_RUNTIME, "dimensions must larger than 1");
    int64_t least = self->sizes[0], step = 0;       /* the diagonal's length and stride */
    for (int d = 0; d < self->ndim; d++) {
        if (self->ndim > 2 && self->sizes[d] != self->sizes[0])
            return td_error(TD_E_RUNTIME, "all dimensions of input must be of equal length");
        least = self->sizes[d] < least ? self->sizes[d] : least;
        step += self->strides[d];
    }
    int64_t offset = td_tensor_offset(self), rows = self->sizes[0], columns = self->sizes[1];
    TD_AUTO td_tensor *diagonal = td_as_strided(self, 1, &least, 1, &step, &offset);
    if (!diagonal || td_fill_scalar_(diagonal, fill_value))
        return -1;
    if (!wrap || self->ndim > 2 || rows <= columns + 1)
        return 0;
    /* The diagonals that begin again below: one row stays free between them. */
    for (int64_t top = columns + 1; top < rows; top += columns + 1) {
        int64_t count = rows - top < columns ? rows - top : columns, place = offset + top * self->strides[0];
        TD_AUTO td_tensor *more = td_as_strided(self, 1, &count, 1, &step, &place);
        if (!more || td_fill_scalar_(more, fill_value))
            return -1;
    }
    return 0;
}

/* Zeros for a tangent of `self`'s batch in the memory layout of `other`: its strides, storage size and offset, behind self's first
 * n_batch dimensions, so that whatever views other also views the tangent. */
td_tensor *td_op__new_zeros_with_same_feature_meta(td_tensor *self, td_tensor *other, int64_t n_batch)
{
    int ndim = (int)n_batch + other->ndim;
    if (n_batch < 0 || n_batch > self->ndim || ndim > TD_MAX_DIMS || !other->storage)
        return td_fail(TD_E_RUNTIME, "_new_zeros_with_same_feature_meta: %lld batch dimensions of a tensor with %d, before one with %d",
                       (long long)n_batch, self->ndim, other->ndim);
    int64_t sizes[TD_MAX_DIMS], strides[TD_MAX_DIMS], n = (int64_t)other->storage->nbytes / td_itemsize(other);
    for (int d = 0; d < other->ndim; d++)
        sizes[n_batch + d] = other->sizes[d], strides[n_batch + d] = other->strides[d];
    for (int64_t d = n_batch; d-- > 0; n *= sizes[d])
        sizes[d] = self->sizes[d], strides[d] = n;
    td_tensor *room = td_zeros(1, &n, (td_dtype)other->dtype, other->device);
    if (!room || td_tensor_set_geometry(room, ndim, sizes, strides) != 0) {
        td_tensor_release(room);
        return NULL;
    }
    room->data += td_tensor_offset(other) * td_itemsize(other);
    return room;
}
