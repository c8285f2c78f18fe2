/* Support for language bindings: the link between a tensor and its wrapper object, and views made without an operator. */
#include <tede/foreign.h>
#include <inttypes.h>
#include <tede/auto.h>
#include "tensor/foreign.h"
#include "tensor/late.h"
#include "tensor/layout.h"
#include "tensor/tensor.h"

void *td_tensor_wrapper(const td_tensor *x)
{
    return x->wrapper;
}

void td_tensor_set_wrapper(td_tensor *x, void *wrapper)
{
    x->wrapper = wrapper;
    if (!wrapper)
        x->flags &= (uint16_t)~TD_FLAG_OWNS_WRAPPER;
}

void td_tensor_unwrap(td_tensor *x, void *wrapper)
{
    if (x && x->wrapper == wrapper) {
        x->wrapper = NULL;
        x->flags &= (uint16_t)~TD_FLAG_OWNS_WRAPPER;
    }
    td_tensor_release(x);
}

bool td_tensor_owns_wrapper(const td_tensor *x)
{
    return x->flags & TD_FLAG_OWNS_WRAPPER;
}

void td_tensor_own_wrapper(td_tensor *x, bool owns)
{
    if (owns)
        x->flags |= TD_FLAG_OWNS_WRAPPER;
    else
        x->flags &= (uint16_t)~TD_FLAG_OWNS_WRAPPER;
}

int64_t td_tensor_use_count(const td_tensor *x)
{
    return __atomic_load_n(&x->refcount, __ATOMIC_ACQUIRE);
}

void td_foreign_hooks(void (*drop_wrapper)(void *wrapper))
{
    __atomic_store_n(&td_tensor_hook.drop_wrapper, drop_wrapper, __ATOMIC_RELEASE);
}

td_tensor *td_tensor_view(td_tensor *x, int ndim, const int64_t *sizes, const int64_t *strides, int64_t offset)
{
    return td_view_strided(x, ndim, sizes, strides, offset);
}

td_tensor *td_tensor_alias(td_tensor *x, bool own_version)
{
    return td_alias_detached(x, own_version);
}

int td_tensor_count_apart(td_tensor *x)
{
    if (x->own_version || x->flags & TD_FLAG_INFERENCE)
        return 0;
    uint32_t *counter = td_version_new(td_tensor_version(x));
    if (!counter)
        return -1;
    x->own_version = counter;
    return 0;
}

int td_tensor_replace(td_tensor *x, td_tensor *source)
{
    if (x == source)
        return 0;
    if (td_settle(source) || td_settle_all())
        return -1;
    const bool fields = td_layout_with_strides(x) && td_layout_with_strides(x) == td_layout_with_strides(source);
    if (td_has_layout(x) && !fields && td_tensor_layout(x) != TD_STRIDED && td_tensor_layout(x) == td_tensor_layout(source))
        return td_layout_take(x, source);
    if (!fields && (td_has_layout(x) || td_has_layout(source)))
        return td_error(TD_E_RUNTIME, "Attempted to call `variable.set_data(tensor)`, but `variable` and `tensor` have incompatible tensor type.");
    if (!source->storage)
        return td_error(TD_E_RUNTIME, "set_data: the new data must be a strided tensor");
    TD_AUTO td_tensor *copy = fields ? td_alias_detached(source, false) : NULL;        /* whose fields x takes over */
    if (fields && !copy)
        return -1;
    /* x goes on counting with its group, from where it was: what was saved of it before still passes for unchanged, as in PyTorch. */
    if (td_version_move(x) < 0 || td_tensor_set_geometry(x, source->ndim, source->sizes, source->strides) < 0)
        return -1;
    td_storage *old = x->storage;
    td_tensor *base = x->base;          /* x is a view no longer */
    if (x->replay && __atomic_sub_fetch(&x->replay->refcount, 1, __ATOMIC_ACQ_REL) == 0)
        x->replay->drop(x->replay);
    x->base = NULL, x->replay = NULL;
    x->storage = td_storage_retain(source->storage);
    x->data = source->data;
    x->dtype = source->dtype;
    x->device = source->device;
    /* What the elements are: where they lie, and that they are still to be conjugated or negated. */
    const td_keyset of_elements = (TD_KEYSET(TD_KEY_AROUND) - 1) | TD_KEYSET(TD_KEY_UNALIGNED) | TD_KEYSET(TD_KEY_NEGATIVE) | TD_KEYSET(TD_KEY_CONJUGATE);
    x->keys = (x->keys & ~of_elements) | (source->keys & of_elements);
    const uint16_t flags_of_elements = TD_FLAG_READONLY | TD_FLAG_CONJ | TD_FLAG_NEG;
    x->flags = (uint16_t)((x->flags & ~flags_of_elements) | (source->flags & flags_of_elements) | TD_FLAG_REPLACED_DATA);
    td_tensor_update_flags(x);
    if (copy) {
        void *extra = x->extra;
        x->extra = copy->extra;
        copy->extra = extra;
    }
    td_storage_release(old);
    td_tensor_release(base);
    return 0;
}

void td_storage_set_readonly(td_storage *s)
{
    s->flags |= TD_STORAGE_READONLY;
}

void td_storage_fix_size(td_storage *s)
{
    s->flags |= TD_STORAGE_FIXED;
}

bool td_storage_is_resizable(const td_storage *s)
{
    return !(s->flags & (TD_STORAGE_FOREIGN | TD_STORAGE_SHARED | TD_STORAGE_FIXED));
}

bool td_storage_is_readonly(const td_storage *s)
{
    return s->flags & TD_STORAGE_READONLY;
}

void td_tensor_set_read_only(td_tensor *x)
{
    x->flags |= TD_FLAG_READONLY;
}

bool td_tensor_is_read_only(const td_tensor *x)
{
    return x && td_readonly(x);
}

void td_tensor_count_write(td_tensor *x) { td_bump_version(x); }

void td_tensor_set_version(td_tensor *x, uint32_t version)
{
    if (!(x->flags & TD_FLAG_INFERENCE) && x->storage)
        __atomic_store_n(td_version_of(x), version, __ATOMIC_RELAXED);
}

bool td_tensor_is_inference(const td_tensor *x)
{
    return x->flags & TD_FLAG_INFERENCE;
}

bool td_tensor_is_conj(const td_tensor *x)
{
    return x->flags & TD_FLAG_CONJ;
}

bool td_tensor_is_neg(const td_tensor *x)
{
    return x->flags & TD_FLAG_NEG;
}

td_tensor *td_wrapped_number_as(td_scalar value, td_dtype dtype)
{
    bool real = value.kind == TD_SCALAR_FLOAT || value.kind == TD_SCALAR_INT;
    if (!real || (dtype != TD_F32 && dtype != TD_F64))
        return td_wrapped_number(value);
    td_tensor *x = td_tensor_new(0, NULL, dtype, (td_device){TD_CPU, -1});
    if (!x)
        return NULL;
    bool is_float = value.kind == TD_SCALAR_FLOAT;
    if (dtype == TD_F32)
        *(float *)x->data = is_float ? (float)value.d : (float)value.i;
    else
        *(double *)x->data = is_float ? value.d : (double)value.i;
    x->flags |= TD_FLAG_WRAPPED_NUMBER;
    return x;
}

bool td_tensor_is_wrapped_number(const td_tensor *x)
{
    return x->flags & TD_FLAG_WRAPPED_NUMBER;
}

/* ---- tensors of classes with __torch_dispatch__ */

void td_tensor_set_python(td_tensor *x, bool on)
{
    td_keyset key = TD_KEYSET(TD_KEY_PYTHON);
    x->keys = on ? x->keys | key : x->keys & ~key;
    x->flags = (uint16_t)(on ? x->flags | TD_FLAG_PYTHON : x->flags & ~TD_FLAG_PYTHON);
}

bool td_tensor_is_python(const td_tensor *x) { return x->flags & TD_FLAG_PYTHON; }

static int (*contiguous_of)(const td_tensor *x, int format);
void td_foreign_contiguous(int (*says)(const td_tensor *x, int format)) { contiguous_of = says; }
int td_says_contiguous(const td_tensor *x, int format) { return contiguous_of ? contiguous_of(x, format) : 2; }

/* Its storage is one of the meta device, and so are its keys: if Python is left out, meta kernels run. */
td_tensor *td_tensor_hollow(int64_t ndim, const int64_t *sizes, const int64_t *strides, int64_t offset, td_dtype dtype,
                            td_device device)
{
    td_tensor *x = strides ? td_tensor_new_strided(ndim, sizes, strides, dtype, (td_device){TD_META, -1})
                           : td_tensor_new(ndim, sizes, dtype, (td_device){TD_META, -1});
    int64_t bytes;
    if (!x)
        return NULL;
    if (offset < 0 || __builtin_mul_overflow(offset, td_itemsize(x), &bytes) || __builtin_add_overflow(bytes, x->storage->nbytes, &x->storage->nbytes)) {
        td_tensor_release(x);
        return td_fail(TD_E_RUNTIME, "Tensor: invalid storage offset %" PRId64, offset);
    }
    x->data = (char *)((intptr_t)x->data + bytes);
    x->device = device;
    td_tensor_set_python(x, true);
    return x;
}

bool td_tensor_is_hollow(const td_tensor *x)
{
    return x->flags & TD_FLAG_PYTHON && x->storage && x->storage->device.type == TD_META &&
           x->device.type != TD_META;
}
