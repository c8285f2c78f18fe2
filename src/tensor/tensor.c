/* Tensor objects: construction, reference counting, accessors.
 *
 * td_tensor_new is what every operator's result costs, so its path for a small CPU tensor is straight: see
 * Note [Small tensors]. */
#include "tensor/late.h"
#include "tensor/checked.h"
#include "tensor/device.h"
#include "tensor/head.h"
#include "tensor/masks.h"
#include "tensor/position.h"
#include <inttypes.h>
#include <stdio.h>

td_tensor_hooks td_tensor_hook;

static td_tensor none = {.refcount = 1, .dtype = TD_DTYPE_NONE, .device = {-1, -1},
                         .sizes = none.inline_shape, .strides = none.inline_shape + TD_INLINE_DIMS};
td_tensor *const TD_NONE = &none;

/* ---- references */

td_tensor *td_tensor_retain(td_tensor *x)
{
    if (x && x != &none)
        td_raise_count(&x->refcount);
    return x;
}

static void __attribute__((noinline)) drop_rest(td_tensor *x)
{
    void (*drop_autograd)(td_tensor *) = __atomic_load_n(&td_tensor_hook.drop_autograd, __ATOMIC_RELAXED);
    void (*drop_wrapper)(void *) = __atomic_load_n(&td_tensor_hook.drop_wrapper, __ATOMIC_RELAXED);
    if (x->autograd && drop_autograd)
        drop_autograd(x);
    if (x->flags & TD_FLAG_OWNS_WRAPPER && drop_wrapper)
        drop_wrapper(x->wrapper);
    if (x->replay && __atomic_sub_fetch(&x->replay->refcount, 1, __ATOMIC_ACQ_REL) == 0)
        x->replay->drop(x->replay);
    if (x->own_version)
        td_version_release(x->own_version);
    if (x->extra)
        (*(td_extra_table **)x->extra)->destroy(x->extra);
    if (x->sizes != x->inline_shape)
        td_mem_free(x->sizes, 2 * (size_t)x->ndim * sizeof *x->sizes);
}

/* A base is never a view, so this goes at most one tensor deep. */
void td_tensor_release(td_tensor *x)
{
    while (x && x != &none) {
        if (!td_drop_count(&x->refcount))
            return;
        bool plain = !((intptr_t)x->autograd | (intptr_t)x->own_version | (intptr_t)x->replay | (intptr_t)x->extra |
                       (x->flags & TD_FLAG_OWNS_WRAPPER)) && x->sizes == x->inline_shape;
        if (TD_UNLIKELY(!plain))
            drop_rest(x);
        td_storage *storage = x->storage, *behind = td_storage_behind(x);
        td_tensor *base = x->base;
        if (!(x->flags & TD_FLAG_WITH_STORAGE)) {
            if (storage && td_drop_count(&storage->refcount))
                td_storage_destroy(storage);
            td_mem_free(x, sizeof *x);
        } else if (TD_LIKELY(storage == behind && behind->flags == TD_STORAGE_INLINE &&
                             __atomic_load_n(&behind->refcount, __ATOMIC_ACQUIRE) == 1)) {
            td_mem_free(x, td_block_bytes(behind));
        } else {
            td_storage_release(storage);
            if (__atomic_sub_fetch(&behind->parts, 1, __ATOMIC_ACQ_REL) == 0)
                td_mem_free(x, td_block_bytes(behind));
        }
        x = base;
    }
}

/* ---- what a tensor is */

int            td_tensor_ndim(const td_tensor *x) { return x->ndim; }
const int64_t *td_tensor_sizes(const td_tensor *x) { return x->sizes; }
const int64_t *td_tensor_strides(const td_tensor *x) { return x->strides; }
int64_t        td_tensor_numel(const td_tensor *x) { return x->numel; }
td_dtype       td_tensor_dtype(const td_tensor *x) { return x->dtype; }
td_device      td_tensor_device(const td_tensor *x) { return x->device; }
td_storage    *td_tensor_storage(const td_tensor *x) { return x->storage; }
td_tensor     *td_tensor_base(const td_tensor *x) { return x->base; }
bool           td_tensor_is_contiguous(const td_tensor *x) { return x->flags & TD_FLAG_CONTIGUOUS; }

/* On meta `data` counts from address 0, so that views keep their offset; nobody outside sees it. */
void *td_tensor_data(const td_tensor *x) { return x->device.type == TD_META || td_settle(x) || td_settle_all() ? NULL : x->data; }

int64_t td_tensor_offset(const td_tensor *x)
{
    return x->storage ? td_storage_position(x->storage, x->data) / td_itemsize(x) : 0;
}

void td_tensor_follow(td_tensor *x)
{
    if (x->storage)
        x->data = (char *)x->storage->data + td_storage_position(x->storage, x->data);
}

uint32_t td_tensor_version(const td_tensor *x)
{
    return x->storage || x->own_version ? __atomic_load_n(td_version_of(x), __ATOMIC_RELAXED) : 0;
}

/* ---- geometry */

static int check_signs(int64_t ndim, const int64_t *sizes)
{
    if (ndim < 0 || ndim > TD_MAX_DIMS)
        return td_error(TD_E_RUNTIME, "a tensor has at most %d dimensions, got %" PRId64, TD_MAX_DIMS, ndim);
    for (int d = 0; d < ndim; d++) {
        if (sizes[d] < 0) {
            td_shape_text text;
            return td_error(TD_E_RUNTIME, "Trying to create tensor with negative dimension %" PRId64 ": %s", sizes[d],
                            td_shape_str((int)ndim, sizes, text));
        }
    }
    return 0;
}

/* The product is taken in order, as PyTorch's is: what comes behind a 0 can't overflow any more. */
int64_t td_numel_checked(int ndim, const int64_t *sizes)
{
    int64_t numel = 1;
    bool overflow = false;
    for (int d = 0; d < ndim; d++)
        overflow |= __builtin_mul_overflow(numel, sizes[d], &numel);
    td_shape_text text;
    return TD_LIKELY(!overflow) ? numel : td_error(TD_E_RUNTIME, "numel: integer multiplication overflow (sizes %s)", td_shape_str(ndim, sizes, text));
}

int td_check_sizes(int64_t ndim, const int64_t *sizes)
{
    return check_signs(ndim, sizes) || td_numel_checked((int)ndim, sizes) < 0 ? -1 : 0;
}

int64_t td_contiguous_strides(int ndim, const int64_t *sizes, int64_t *strides)
{
    int64_t step = 1;
    bool empty = false, overflow = false, stride_overflow = false;
    for (int d = ndim - 1; d >= 0; d--) {
        stride_overflow = overflow;
        strides[d] = step;
        empty |= sizes[d] == 0;
        overflow |= __builtin_mul_overflow(step, sizes[d] > 0 ? sizes[d] : 1, &step);
    }
    if (TD_UNLIKELY(overflow) && (stride_overflow || !empty))
        return -1;
    return empty ? 0 : step;
}

void td_channels_last_strides(int ndim, const int64_t *sizes, int64_t *strides)
{
    int64_t step = 1;
    for (int k = 0; k < ndim; k++) {
        int d = k == 0 ? 1 : k == ndim - 1 ? 0 : ndim - k;
        strides[d] = step;
        step = td_mul_saturated(step, sizes[d] > 1 ? sizes[d] : 1);     /* of an empty tensor they may reach anywhere */
    }
}

void td_tensor_update_flags(td_tensor *x)
{
    int64_t step = 1;
    uint64_t left = 0;          /* the dimensions that count */
    bool contiguous = true, dense = true;
    for (int d = x->ndim - 1; d >= 0; d--) {
        if (x->sizes[d] != 1) {
            contiguous &= x->strides[d] == step;
            step *= x->sizes[d];
            left |= UINT64_C(1) << d;
        }
    }
    const int64_t numel = step;
    if (numel == 0)
        contiguous = true;
    /* Dense: from one element on, some dimension always steps over exactly what is inside it.  Mostly the first one does
     * where the last doesn't: a matrix is transposed. */
    step = 1;
    for (int d = 0; !contiguous && d < x->ndim && (x->sizes[d] == 1 || x->strides[d] == step); d++) {
        step *= x->sizes[d];
        left &= ~(UINT64_C(1) << d);
    }
    while (!contiguous && left && dense) {
        uint64_t rest = left;
        while (rest && x->strides[__builtin_ctzll(rest)] != step)
            rest &= rest - 1;
        if ((dense = rest != 0)) {
            step *= x->sizes[__builtin_ctzll(rest)];
            left &= ~(rest & -rest);
        }
    }
    x->numel = numel;
    x->flags = (uint16_t)((x->flags & ~(TD_FLAG_CONTIGUOUS | TD_FLAG_NON_OVERLAPPING)) |
                          (contiguous ? TD_FLAG_CONTIGUOUS : 0) | (dense ? TD_FLAG_NON_OVERLAPPING : 0));
    /* See Note [Unaligned elements] in src/ops/iterate/lazy.c. */
    const uintptr_t item = (uintptr_t)td_itemsizes[x->dtype], step_of_two = item & -item;
    const bool unaligned = (uintptr_t)x->data & ((step_of_two < 8 ? step_of_two : 8) - 1);
    if (TD_UNLIKELY(unaligned) && numel && x->device.type == TD_CPU && x->storage)
        x->keys |= TD_KEYSET(TD_KEY_UNALIGNED);
    else
        x->keys &= ~TD_KEYSET(TD_KEY_UNALIGNED);
}

/* ---- making */

static inline td_tensor *new_head(int ndim, td_dtype dtype, td_device device)
{
    bool inference = td_masks_now.inference;        /* the key makes writes outside the mode go by td_check_inplace */
    return td_head_new(ndim, dtype, device, TD_KEYSET(TD_KEY_DENSE) | TD_KEYSET(device.type) |
                       (inference ? TD_KEYSET(TD_KEY_AUTOGRAD) : 0), inference ? TD_FLAG_INFERENCE : 0);
}

/* A device that isn't given is the CPU; the CPU and meta are one device each, whatever index a program names. */
static int check_kind(td_dtype dtype, td_device *device)
{
    if (TD_UNLIKELY((unsigned)dtype >= TD_DTYPES || !td_itemsizes[dtype]))
        return td_error(TD_E_TYPE, "not a dtype: %d", (int)dtype);
    if (device->type == -1)
        *device = (td_device){TD_CPU, -1};
    if (TD_UNLIKELY((unsigned)device->type >= TD_DEVICE_TYPES))
        return td_error(TD_E_RUNTIME, "not a device: %d", (int)device->type);
    if (device->type <= TD_META)
        device->index = -1;
    return 0;
}

void *td_fail_overflow(int ndim, const int64_t *sizes, const int64_t *strides)
{
    td_shape_text text, more;
    td_shape_str(ndim, sizes, text);
    for (int d = 0; d < ndim && !strides; d++)
        if (!sizes[d])
            return td_fail(TD_E_RUNTIME, "Stride calculation overflowed with sizes=%s", text);     /* no bytes at all */
    if (!strides)
        return td_fail(TD_E_RUNTIME, "Storage size calculation overflowed with sizes=%s", text);
    return td_fail(TD_E_RUNTIME, "Storage size calculation overflowed with sizes=%s and strides=%s", text,
                   td_shape_str(ndim, strides, more));
}

/* All but small CPU tensors. */
static td_tensor *__attribute__((noinline)) new_slower(int64_t ndim, const int64_t *sizes, td_dtype dtype, td_device device)
{
    if (check_kind(dtype, &device) != 0 || check_signs(ndim, sizes) != 0 || td_device_resolve(&device) != 0)
        return NULL;
    td_tensor *x = new_head((int)ndim, dtype, device);
    if (!x)
        return NULL;
    int64_t nbytes;
    for (int d = 0; d < ndim; d++)
        x->sizes[d] = sizes[d];
    x->numel = td_contiguous_strides((int)ndim, x->sizes, x->strides);
    if (x->numel < 0 || __builtin_mul_overflow(x->numel, td_itemsizes[dtype], &nbytes))
        td_fail_overflow((int)ndim, sizes, NULL);
    else
        x->storage = td_storage_new(device, (size_t)nbytes);
    if (!x->storage) {
        td_tensor_release(x);
        return NULL;
    }
    x->flags |= TD_FLAG_CONTIGUOUS | TD_FLAG_NON_OVERLAPPING;
    x->data = x->storage->data;
    return x;
}

td_tensor *td_tensor_new(int64_t ndim, const int64_t *sizes, td_dtype dtype, td_device device)
{
    if (TD_UNLIKELY((unsigned)dtype >= TD_C32 || device.type != TD_CPU || (uint64_t)ndim > TD_INLINE_DIMS))
        return new_slower(ndim, sizes, dtype, device);
    uint64_t product = 1;
    bool odd = false;
    for (int64_t d = 0; d < ndim; d++) {
        odd |= sizes[d] <= 0 || sizes[d] > TD_STORAGE_INLINE_LIMIT;     /* so the product of five fits, where it is used */
        product *= (uint64_t)sizes[d];
    }
    const int64_t numel = odd ? 0 : (int64_t)product, nbytes = numel * td_itemsizes[dtype];
    if (odd || nbytes > TD_STORAGE_INLINE_LIMIT)
        return new_slower(ndim, sizes, dtype, device);
    td_tensor *x = td_mem_alloc((size_t)(TD_HEAD_BYTES + (int64_t)sizeof(td_storage) + nbytes));
    if (TD_UNLIKELY(!x))
        return NULL;
    td_head_init(x, (int)ndim, dtype, (td_device){TD_CPU, -1}, TD_KEYSET(TD_KEY_DENSE) | TD_KEYSET(TD_CPU) |
                 (td_masks_now.inference ? TD_KEYSET(TD_KEY_AUTOGRAD) : 0),
                 TD_FLAG_WITH_STORAGE | TD_FLAG_CONTIGUOUS | TD_FLAG_NON_OVERLAPPING |
                 (td_masks_now.inference ? TD_FLAG_INFERENCE : 0));
    td_storage *s = td_storage_behind(x);
    td_storage_init_inline(s, (size_t)nbytes);
    s->parts = 2;
    x->storage = s;
    x->data = s->data;
    x->numel = numel;
    int64_t *shape = x->inline_shape, step = 1;
    for (int64_t d = ndim - 1; d >= 0; d--) {
        int64_t size = sizes[d];
        shape[d] = size;
        shape[d + TD_INLINE_DIMS] = step;
        step *= size;
    }
    return x;
}

/* A head over `storage`, whose reference it takes over (also after a failure). */
static td_tensor *over(td_storage *storage, char *data, int ndim, const int64_t *sizes, const int64_t *strides,
                       td_dtype dtype)
{
    td_tensor *x = storage ? new_head(ndim, dtype, storage->device) : NULL;
    if (!x) {
        td_storage_release(storage);
        return NULL;
    }
    x->storage = storage;
    x->data = data;
    for (int d = 0; d < ndim; d++)
        x->sizes[d] = sizes[d];
    for (int d = 0; strides && d < ndim; d++)
        x->strides[d] = strides[d];
    if (!strides)
        td_contiguous_strides(ndim, x->sizes, x->strides);
    td_tensor_update_flags(x);
    return x;
}

/* The bytes below (`*below`, counted positive) and in all of a geometry. */
static int extent(int64_t ndim, const int64_t *sizes, const int64_t *strides, td_dtype dtype, int64_t *below, int64_t *all)
{
    int64_t low, high, contiguous[TD_MAX_DIMS], itemsize = td_itemsizes[dtype];
    if (check_signs(ndim, sizes))
        return -1;
    if (!strides && td_contiguous_strides((int)ndim, sizes, contiguous) < 0)
        return td_fail_overflow((int)ndim, sizes, NULL), -1;
    const int64_t numel = td_numel_checked((int)ndim, sizes);
    if (numel < 0)
        return -1;
    if (!td_bounds((int)ndim, sizes, strides ? strides : contiguous, &low, &high) ||
        __builtin_mul_overflow(high - low + 1, itemsize, all))
        return td_fail_overflow((int)ndim, sizes, strides), -1;
    *below = -low * itemsize;
    if (numel == 0)
        *all = 0;
    return 0;
}

td_tensor *td_tensor_new_strided(int64_t ndim, const int64_t *sizes, const int64_t *strides, td_dtype dtype,
                                 td_device device)
{
    int64_t below, all;
    if (check_kind(dtype, &device) != 0 || extent(ndim, sizes, strides, dtype, &below, &all) != 0)
        return NULL;
    td_storage *storage = td_storage_new(device, (size_t)all);
    return storage ? over(storage, (char *)((intptr_t)storage->data + below), (int)ndim, sizes, strides, dtype) : NULL;
}

td_tensor *td_tensor_from_memory(void *data, int64_t ndim, const int64_t *sizes, const int64_t *strides,
                                 td_dtype dtype, td_device device, void (*release)(void *context), void *context)
{
    int64_t below, all;
    if (check_kind(dtype, &device) != 0 || extent(ndim, sizes, strides, dtype, &below, &all) != 0)
        return NULL;
    td_storage *storage = td_storage_from_memory(data ? (char *)data - below : NULL, (size_t)all, device, release, context);
    td_tensor *x = over(td_storage_retain(storage), data, (int)ndim, sizes, strides, dtype);
    if (!x && storage)
        storage->release = NULL;    /* the memory stays the caller's when this fails */
    td_storage_release(storage);
    return x;
}

td_tensor *td_tensor_over(td_storage *storage, int64_t offset, int64_t ndim, const int64_t *sizes,
                          const int64_t *strides, td_dtype dtype)
{
    int64_t contiguous[TD_MAX_DIMS];
    if (!storage || check_kind(dtype, &(td_device){storage->device.type, 0}) != 0 || td_check_sizes(ndim, sizes) != 0)
        return NULL;
    if (!strides) {
        if (td_contiguous_strides((int)ndim, sizes, contiguous) < 0)
            return td_fail_overflow((int)ndim, sizes, NULL);
        strides = contiguous;
    }
    if (td_check_in_storage(storage, offset, (int)ndim, sizes, strides, dtype) != 0)
        return NULL;
    if (!td_storage_data(storage) && storage->flags & TD_STORAGE_LATE)
        return NULL;
    char *data = (char *)((intptr_t)storage->data + offset * td_itemsizes[dtype]);
    td_tensor *x = over(td_storage_retain(storage), data, (int)ndim, sizes, strides, dtype);
    if (!x)
        return NULL;
    x->own_version = td_version_new(0);
    if (!x->own_version) {
        td_tensor_release(x);
        return NULL;
    }
    return x;
}

/* ---- single numbers */

static td_dtype dtype_of(td_scalar value)
{
    switch (value.kind) {
    case TD_SCALAR_BOOL: return TD_BOOL;
    case TD_SCALAR_INT: return TD_I64;
    case TD_SCALAR_UINT: return TD_U64;
    case TD_SCALAR_FLOAT: return td_default_dtype();
    default: return td_dtype_to_complex(td_default_dtype());
    }
}

td_tensor *td_tensor_from_scalar(td_scalar value)
{
    td_tensor *x = td_tensor_new(0, NULL, dtype_of(value), (td_device){TD_CPU, -1});
    if (!x)
        return NULL;
    switch (x->dtype) {
    case TD_BOOL: *(bool *)x->data = value.i != 0; break;
    case TD_I64: *(int64_t *)x->data = value.i; break;
    case TD_U64: *(uint64_t *)x->data = value.u; break;
    case TD_F16: *(td_f16 *)x->data = td_f32_to_f16((float)value.d); break;
    case TD_BF16: *(td_bf16 *)x->data = td_f32_to_bf16((float)value.d); break;
    case TD_F32: *(float *)x->data = (float)value.d; break;
    case TD_F64: *(double *)x->data = value.d; break;
    case TD_C64: ((float *)x->data)[0] = (float)value.d, ((float *)x->data)[1] = (float)value.imag; break;
    case TD_C128: ((double *)x->data)[0] = value.d, ((double *)x->data)[1] = value.imag; break;
    default: break;
    }
    return x;
}

/* Promotion takes it for the default float dtype, but the number itself stays exact for operands that are wider. */
td_tensor *td_wrapped_number(td_scalar value)
{
    td_tensor *x = NULL;
    if (value.kind == TD_SCALAR_FLOAT && (x = td_tensor_new(0, NULL, TD_F64, (td_device){TD_CPU, -1})))
        *(double *)x->data = value.d;
    else if (value.kind == TD_SCALAR_COMPLEX && (x = td_tensor_new(0, NULL, TD_C128, (td_device){TD_CPU, -1})))
        ((double *)x->data)[0] = value.d, ((double *)x->data)[1] = value.imag;
    else if (value.kind != TD_SCALAR_FLOAT && value.kind != TD_SCALAR_COMPLEX)
        x = td_tensor_from_scalar(value);
    if (x)
        x->flags |= TD_FLAG_WRAPPED_NUMBER;
    return x;
}

int td_tensor_item(td_tensor *x, td_scalar *value)
{
    if (!x)
        return -1;
    if (x->numel != 1)
        return td_error(TD_E_RUNTIME, "a Tensor with %" PRId64 " elements cannot be converted to Scalar", x->numel);
    if (td_settle(x))
        return -1;
    if (x->device.type == TD_META)
        return td_error(TD_E_RUNTIME, "Tensor.item() cannot be called on meta tensors");
    if (x->storage && x->storage->device.type == TD_META)
        return td_error(TD_E_RUNTIME, "Cannot access data pointer of Tensor that doesn't have storage");
    if (x->device.type != TD_CPU && x->storage) {
        td_tensor *here = td_host_copy(x);
        int status = td_tensor_item(here, value);
        td_tensor_release(here);
        return status;
    }
    if (!x->storage)
        return td_error(TD_E_RUNTIME, "item: the tensor must be strided; copy it with .to_dense() first");
    if (TD_UNLIKELY(x->extra != NULL) && TD_EXTRA_TABLE(x)->readable && TD_EXTRA_TABLE(x)->readable(x) != 0)
        return -1;
    if (TD_UNLIKELY(x->extra != NULL) && TD_EXTRA_TABLE(x)->item)
        return TD_EXTRA_TABLE(x)->item(x, value);
    _Alignas(16) char p[16];        /* elements may be unaligned */
    memcpy(p, x->data, (size_t)td_itemsize(x));
    double sign = x->flags & TD_FLAG_NEG ? -1 : 1;
    if (TD_UNLIKELY(sign < 0) && td_dtype_is_integral((td_dtype)x->dtype))
        td_negate_integer(p, td_itemsize(x));
    switch (x->dtype) {
    case TD_BOOL: *value = td_bool(*(const uint8_t *)p != 0); return 0;
    case TD_U8: *value = td_int(*(const uint8_t *)p); return 0;
    case TD_I8: *value = td_int(*(const int8_t *)p); return 0;
    case TD_I16: *value = td_int(*(const int16_t *)p); return 0;
    case TD_I32: *value = td_int(*(const int32_t *)p); return 0;
    case TD_I64: *value = td_int(*(const int64_t *)p); return 0;
    case TD_U16: *value = td_int(*(const uint16_t *)p); return 0;
    case TD_U32: *value = td_int(*(const uint32_t *)p); return 0;
    case TD_U64:
        *value = td_int(*(const int64_t *)p);
        value->kind = value->i < 0 ? TD_SCALAR_UINT : TD_SCALAR_INT;
        return 0;
    case TD_F16: *value = td_float(sign * td_f16_to_f32(*(const td_f16 *)p)); return 0;
    case TD_BF16: *value = td_float(sign * td_bf16_to_f32(*(const td_bf16 *)p)); return 0;
    case TD_F32: *value = td_float(sign * *(const float *)p); return 0;
    case TD_F64: *value = td_float(sign * *(const double *)p); return 0;
    default:
        if (!td_converts(x->dtype))
            return td_error(TD_E_NOT_IMPLEMENTED, "\"_local_scalar_dense_cpu\" not implemented for '%s'", td_dtype_title((td_dtype)x->dtype));
        if (td_is_float8(x->dtype) || td_is_foreign_dtype(x->dtype)) {
            float number;
            td_dtype_loader(x->dtype)(&number, p, 1);
            *value = td_float(sign * number);
            return 0;
        }
    }
    double imag_sign = x->flags & TD_FLAG_CONJ ? -sign : sign;
    if (x->dtype == TD_C32)
        *value = td_complex(sign * td_f16_to_f32(((const td_f16 *)p)[0]), imag_sign * td_f16_to_f32(((const td_f16 *)p)[1]));
    else if (x->dtype == TD_C64)
        *value = td_complex(sign * ((const float *)p)[0], imag_sign * ((const float *)p)[1]);
    else
        *value = td_complex(sign * ((const double *)p)[0], imag_sign * ((const double *)p)[1]);
    return 0;
}
