/* Allocation and initialization of tensor objects (their heads), shared by tensor.c and view.c.
 *
 * Fields are set one by one: compilers turn the clearing of a whole head into an instruction (rep stos) that takes
 * longer than everything else here together. */
#ifndef TD_TENSOR_HEAD_H
#define TD_TENSOR_HEAD_H
#include "tensor/tensor.h"

enum {
    TD_HEAD_BYTES = (sizeof(td_tensor) + 63) & ~63,     /* of a head with its storage behind it */
    TD_STORAGE_INLINE_LIMIT = 1024 - TD_HEAD_BYTES - sizeof(td_storage),
};

static inline void td_head_init(td_tensor *x, int ndim, td_dtype dtype, td_device device, td_keyset keys, unsigned flags)
{
    x->refcount = 1;
    x->keys = keys;
    x->storage = NULL;
    x->data = NULL;
    x->dtype = (int8_t)dtype;
    x->ndim = (uint8_t)ndim;
    x->flags = (uint16_t)flags;
    x->device = device;
    x->attr_version = 0;
    x->autograd = NULL;
    x->base = NULL;
    x->replay = NULL;
    x->own_version = NULL;
    x->wrapper = NULL;
    x->extra = NULL;
    x->sizes = x->inline_shape;
    x->strides = x->inline_shape + TD_INLINE_DIMS;
}

/* A head without storage, data, sizes and strides filled in; keys and flags as given. */
static inline td_tensor *td_head_new(int ndim, td_dtype dtype, td_device device, td_keyset keys, unsigned flags)
{
    td_tensor *x = td_mem_alloc(sizeof *x);
    if (TD_UNLIKELY(!x))
        return NULL;
    const td_keyset of_dtype = TD_KEYSET(TD_KEY_DTYPE);
    td_head_init(x, ndim, dtype, device, td_is_keyed_dtype(dtype) ? keys | of_dtype : keys & ~of_dtype, flags);
    if (TD_UNLIKELY(ndim > TD_INLINE_DIMS)) {
        x->sizes = td_mem_alloc(2 * (size_t)ndim * sizeof *x->sizes);
        if (!x->sizes) {
            td_mem_free(x, sizeof *x);
            return NULL;
        }
        x->strides = x->sizes + ndim;
    }
    return x;
}

static inline void td_storage_init(td_storage *s, td_device device, size_t nbytes, size_t block)
{
    s->refcount = 1;
    s->data = NULL;
    s->nbytes = nbytes;
    s->capacity = 0;
    s->release = NULL;
    s->context = NULL;
    s->version = 0;
    s->block = (uint32_t)block;
    s->device = device;
    s->flags = 0;
    s->parts = 0;
    s->version_name = 0;
}

static inline void td_storage_init_inline(td_storage *s, size_t nbytes)
{
    td_storage_init(s, (td_device){TD_CPU, -1}, nbytes, sizeof *s + nbytes);
    s->data = s->inline_data;
    s->flags = TD_STORAGE_INLINE;
}

/* The storage behind a head with TD_FLAG_WITH_STORAGE, the head before a storage with `parts`, the size of their block. */
static inline td_storage *td_storage_behind(td_tensor *x) { return (td_storage *)((char *)x + TD_HEAD_BYTES); }
static inline void *td_head_before(td_storage *s) { return (char *)s - TD_HEAD_BYTES; }
static inline size_t td_block_bytes(const td_storage *s) { return TD_HEAD_BYTES + s->block; }

void td_storage_destroy(td_storage *s);

/* While the process has one thread, counting needs no locked instructions, of which a view would take four. */
#if defined(__has_include) && __has_include(<sys/single_threaded.h>)
#include <sys/single_threaded.h>
#define TD_ONE_THREAD __libc_single_threaded
#else
#define TD_ONE_THREAD 0
#endif
static inline void td_raise_count(int64_t *count)
{
    if (TD_LIKELY(TD_ONE_THREAD))
        __atomic_store_n(count, *count + 1, __ATOMIC_RELAXED);
    else
        __atomic_fetch_add(count, 1, __ATOMIC_RELAXED);
}

/* Who sees a count of one holds the only reference: nobody else can add to it, and no locked instruction is needed. */
static inline bool td_drop_count(int64_t *count)
{
    const int64_t now = __atomic_load_n(count, __ATOMIC_ACQUIRE);
    if (now == 1)
        return true;
    if (TD_UNLIKELY(!TD_ONE_THREAD))
        return __atomic_sub_fetch(count, 1, __ATOMIC_ACQ_REL) == 0;
    __atomic_store_n(count, now - 1, __ATOMIC_RELAXED);
    return false;
}

#endif
