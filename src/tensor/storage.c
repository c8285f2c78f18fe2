/* Storages: counted blocks of bytes on one device.
 *
 * Small contents live right behind the head, so that a small tensor costs two blocks instead of three; the head is
 * exactly 64 bytes, which aligns what follows.  Everything else has a separate block.
 *
 * Note [Resizing a shared storage]
 * Tensors hold the address of their first element, so memory must not move away under them.  When a storage that
 * others look at grows, its old block stays alive as long as the storage does: the others go on seeing the old
 * bytes, never freed ones.  Whoever resizes sets the `data` of the tensors it knows of; the others follow when they
 * are resized themselves or their storage's bounds are asked for (td_tensor_follow). */
#include <inttypes.h>
#include <tede/foreign.h>
#include "device/device.h"
#include "tensor/head.h"
#include "tensor/late.h"
#include "tensor/position.h"
#include "tensor/weak.h"

_Static_assert(offsetof(struct td_storage, inline_data) == 64, "the head pushes inline data off its alignment");

typedef struct retired {
    struct retired *next;
    void           *data;
    size_t          capacity;
} retired;

static td_storage *new_head(td_device device, size_t nbytes)
{
    td_storage *s = td_mem_alloc(sizeof *s);
    if (s)
        td_storage_init(s, device, nbytes, sizeof *s);
    return s;
}

static void *device_alloc(td_device device, size_t nbytes)
{
    return device.type == TD_CPU ? td_mem_alloc(nbytes) : td_device_block_new(device, nbytes);
}

static void device_free(td_device device, void *block, size_t nbytes)
{
    if (device.type == TD_CPU)
        td_mem_free(block, nbytes);
    else if (block)
        td_device_block_free(device, block, nbytes);
}

td_storage *td_storage_new(td_device device, size_t nbytes)
{
    if (device.type == TD_CPU && nbytes <= TD_STORAGE_INLINE_LIMIT) {
        td_storage *s = td_mem_alloc(sizeof *s + nbytes);
        if (s)
            td_storage_init_inline(s, nbytes);
        return s;
    }
    if (nbytes > PTRDIFF_MAX)
        return td_fail(TD_E_RUNTIME, "Storage size calculation overflowed with size of %zu bytes", nbytes);
    if (device.type > TD_META && td_device_resolve(&device))
        return NULL;
    td_storage *s = new_head(device, nbytes);
    if (!s || device.type == TD_META || !nbytes)
        return s;
    s->data = device_alloc(device, nbytes);
    if (!s->data) {
        td_mem_free(s, s->block);
        return NULL;
    }
    s->capacity = nbytes;
    return s;
}

td_storage *td_storage_from_memory(void *data, size_t nbytes, td_device device, void (*release)(void *), void *context)
{
    td_storage *s = new_head(device, nbytes);
    if (!s)
        return NULL;
    s->data = data;
    s->release = release;
    s->context = context;
    s->flags = TD_STORAGE_FOREIGN;
    return s;
}

td_storage *td_storage_retain(td_storage *s)
{
    if (s)
        td_raise_count(&s->refcount);
    return s;
}

/* Give up the memory that s has, but not its head. */
static void drop_memory(td_storage *s)
{
    if (s->flags & TD_STORAGE_FOREIGN) {
        if (s->release)
            s->release(s->context);
    } else if (s->capacity) {
        device_free(s->device, s->data, s->capacity);
    }
}

void td_storage_destroy(td_storage *s)
{
    if (TD_UNLIKELY(s->flags & (TD_STORAGE_COUNTED_APART | TD_STORAGE_WEAKLY_HELD))) {
        td_version_forget(s);
        td_weak_storage_forget(s);
    }
    drop_memory(s);
    if (!(s->flags & (TD_STORAGE_FOREIGN | TD_STORAGE_LATE))) {
        for (retired *old = s->context, *next; old; old = next) {
            next = old->next;
            device_free(s->device, old->data, old->capacity);
            td_mem_free(old, sizeof *old);
        }
    }
    if (!s->parts)
        td_mem_free(s, s->block);
    else if (__atomic_sub_fetch(&s->parts, 1, __ATOMIC_ACQ_REL) == 0)
        td_mem_free(td_head_before(s), td_block_bytes(s));
}

void td_storage_release(td_storage *s)
{
    if (s && td_drop_count(&s->refcount))
        td_storage_destroy(s);
}

static int settle_storage(const td_storage *s) { return s->flags & (TD_STORAGE_LATE | TD_STORAGE_AWAITED) ? td_regions.settle((td_storage *)s) : td_settle_all(); }

void     *td_storage_data(const td_storage *s) { return settle_storage(s) ? NULL : s->data; }
size_t    td_storage_nbytes(const td_storage *s) { return s->nbytes; }
td_device td_storage_device(const td_storage *s) { return s->device; }
int64_t   td_storage_use_count(const td_storage *s) { return __atomic_load_n(&s->refcount, __ATOMIC_RELAXED); }

static bool lies_in(const char *data, const void *block, size_t bytes)
{
    return (uintptr_t)data - (uintptr_t)block <= bytes;
}

int64_t td_storage_position(const td_storage *s, const char *data)
{
    if (TD_UNLIKELY(s->flags & TD_STORAGE_LATE))
        return (intptr_t)data - (intptr_t)s->data;
    const void *block = s->data;
    if (TD_UNLIKELY(!lies_in(data, block, s->nbytes) && s->device.type != TD_META && !(s->flags & TD_STORAGE_FOREIGN))) {
        if (lies_in(data, s->inline_data, s->block - sizeof *s))
            block = s->inline_data;
        for (const retired *old = s->context; old; old = old->next)
            if (lies_in(data, old->data, old->capacity))
                block = old->data;
    }
    return (intptr_t)data - (intptr_t)block;
}

static int copy_bytes(td_device device, void *to, const void *from, size_t nbytes)
{
    if (device.type != TD_CPU)
        return td_device_copy_bytes(device, to, device, from, nbytes, true);
    memcpy(to, from, nbytes);
    return 0;
}

static void release_storage(void *s) { td_storage_release(s); }

int td_storage_take(td_storage *s, td_storage *source, td_tensor *const *holders, int64_t n, int64_t others)
{
    if (settle_storage(s) || settle_storage(source))
        return -1;
    bool retired_blocks = !(s->flags & TD_STORAGE_FOREIGN) && s->context;
    if (s->device.type != TD_CPU || source->device.type != TD_CPU || s->nbytes != source->nbytes || retired_blocks)
        return td_error(TD_E_RUNTIME, "this storage can't take the memory of another one");
    if (td_storage_use_count(s) != n + others)
        return td_error(TD_E_RUNTIME, "the storage has %" PRId64 " holders, and %" PRId64 " are known", td_storage_use_count(s), n + others);
    intptr_t moved = (intptr_t)source->data - (intptr_t)s->data;
    drop_memory(s);
    s->data = source->data;
    s->capacity = 0;
    s->release = release_storage;
    s->context = td_storage_retain(source);
    s->flags = (uint8_t)((s->flags & ~TD_STORAGE_INLINE) | TD_STORAGE_FOREIGN);
    for (int64_t i = 0; i < n; i++)
        holders[i]->data = (char *)holders[i]->data + moved;
    return 0;
}

/* ---- of streams, and page-locked */

int td_stream_uses(td_stream *stream, const td_tensor *x)
{
    const td_storage *s = x->storage;
    td_device device = td_stream_device(stream);
    if (!s || !s->capacity || s->device.type != device.type || s->device.index != device.index)
        return 0;
    for (const retired *old = s->context; old; old = old->next)
        if (td_device_block_used_on(old->data, stream))
            return -1;
    return td_device_block_used_on(s->data, stream);
}

td_storage *td_storage_pinned(td_device device, size_t nbytes)
{
    if (td_device_resolve(&device))
        return NULL;
    const td_device_library *library = td_device_of(device.type);
    if (!library || !library->host_alloc || !nbytes)
        return td_storage_new((td_device){TD_CPU, -1}, nbytes);
    void *data = td_pinned_new(device, nbytes);
    td_storage *s = data ? td_storage_from_memory(data, nbytes, (td_device){TD_CPU, -1}, td_pinned_free, data) : NULL;
    if (data && !s)
        td_pinned_free(data);
    return s;
}

bool td_storage_is_pinned(const td_storage *s) { return s->flags & TD_STORAGE_FOREIGN && s->release == td_pinned_free; }

int td_storage_resize(td_storage *s, size_t nbytes)
{
    if (settle_storage(s))
        return -1;
    if (!td_storage_is_resizable(s))
        return td_error(TD_E_RUNTIME, "Trying to resize storage that is not resizable");
    if (nbytes > PTRDIFF_MAX)
        return td_error(TD_E_RUNTIME, "Trying to resize storage to %zu bytes, more than memory can hold", nbytes);
    size_t room = s->flags & TD_STORAGE_INLINE ? s->block - sizeof(td_storage) : s->capacity;
    bool shared = td_storage_use_count(s) > 1, wasteful = !shared && nbytes < room / 2 && room > TD_STORAGE_INLINE_LIMIT;
    if (s->device.type == TD_META || (nbytes <= room && !wasteful)) {
        s->nbytes = nbytes;
        return 0;
    }
    retired *old = NULL;
    if (shared && s->capacity && !(old = td_mem_alloc(sizeof *old)))
        return -1;
    size_t kept = nbytes < s->nbytes ? nbytes : s->nbytes;
    void *data = nbytes ? device_alloc(s->device, nbytes) : NULL;
    if ((nbytes && !data) || (kept && copy_bytes(s->device, data, s->data, kept) != 0)) {
        if (data)
            device_free(s->device, data, nbytes);
        td_mem_free(old, sizeof *old);
        return -1;
    }
    if (old) {
        *old = (retired){.next = s->context, .data = s->data, .capacity = s->capacity};
        s->context = old;
    } else if (s->capacity) {
        device_free(s->device, s->data, s->capacity);
    }
    s->data = data;
    s->nbytes = nbytes;
    s->capacity = nbytes;
    s->flags &= (uint8_t)~TD_STORAGE_INLINE;
    return 0;
}
