/* Copies that leave the CPU.
 *
 * A device's library copies bytes.  Neighbouring elements of one dtype go in one piece, from a device to itself or another
 * of its indices without passing here.  Everything else is done on the CPU: the span of memory that a tensor reaches over
 * is fetched as it lies, so that strides stay what they are, and for a target whose elements don't fill their span the
 * span is fetched, changed and sent back. */
#include "calls_kernels_cpu_move_transfer.h"
#include <tede/kernel.h>
#include "base/watch.h"
#include "ops/pointwise/pointwise.h"
#include "tensor/device.h"

/* Bytes from the first byte of a tensor's span to its first element, and in all of the span. */
static int span(const td_tensor *x, int64_t *before, int64_t *all)
{
    int64_t low, high;
    if (!x->storage || x->storage->device.type == TD_META) {
        char name[32];
        return td_error(TD_E_NOT_IMPLEMENTED, "Cannot copy out of a tensor without memory, on %s; no data!", td_device_str(x->device, name));
    }
    if (!td_bounds(x->ndim, x->sizes, x->strides, &low, &high))
        return td_error(TD_E_RUNTIME, "a tensor reaches over more than memory");
    *before = -low * td_itemsize(x);
    *all = x->numel ? (high - low + 1) * td_itemsize(x) : 0;
    return 0;
}

static int copy_bytes(td_device to_device, void *to, td_device from_device, const void *from, int64_t n)
{
    return td_device_copy_bytes(to_device, to, from_device, from, (size_t)n, false);
}

/* x on the CPU, a new reference: strides and the bits for conjugates and negatives stay, and what lies between the elements comes
 * along. */
td_tensor *td_host_copy(td_tensor *x)
{
    int64_t before, all;
    if (!x || span(x, &before, &all) != 0)
        return NULL;
    td_tensor *here = td_tensor_new_strided(x->ndim, x->sizes, x->strides, (td_dtype)x->dtype, (td_device){TD_CPU, -1});
    if (!here)
        return NULL;
    here->flags |= x->flags & (TD_FLAG_CONJ | TD_FLAG_NEG | TD_FLAG_WRAPPED_NUMBER);
    if (copy_bytes(here->device, here->data - before, x->device, x->data - before, all) != 0) {
        td_tensor_release(here);
        return NULL;
    }
    TD_EMIT(.kind = TD_EVENT_COPY, .tensor = x, .name = "device", .numbers = {all});
    return here;
}

/* x on `device`, a new reference.  Without gaps and overlaps it keeps its strides, else it becomes contiguous. */
td_tensor *td_device_copy(td_tensor *x, td_device device)
{
    const bool dense = x->flags & TD_FLAG_NON_OVERLAPPING;
    td_tensor *there = dense ? td_tensor_new_strided(x->ndim, x->sizes, x->strides, (td_dtype)x->dtype, device)
                             : td_tensor_new(x->ndim, x->sizes, (td_dtype)x->dtype, device);
    if (there && td_copy_across(there, x) != 0) {
        td_tensor_release(there);
        return NULL;
    }
    return there;
}

/* Whether the bytes of one in order are those of the other: dtype, sizes and lazy bits agree, and both are contiguous or both without gaps
 * and of the same strides. */
static bool same_geometry(const td_tensor *a, const td_tensor *b)
{
    return a->dtype == b->dtype && a->ndim == b->ndim && !((a->flags ^ b->flags) & (TD_FLAG_CONJ | TD_FLAG_NEG)) && !memcmp(a->sizes, b->sizes, sizeof(int64_t) * a->ndim) &&
           (a->flags & b->flags & TD_FLAG_CONTIGUOUS ||
            (a->flags & b->flags & TD_FLAG_NON_OVERLAPPING && !memcmp(a->strides, b->strides, sizeof(int64_t) * a->ndim)));
}

int td_copy_late(td_tensor *dst, td_tensor *src)
{
    td_tensor *here = dst->device.type == TD_CPU ? dst : src, *there = here == dst ? src : dst;
    if (!td_is_outside(there->device) || here->device.type != TD_CPU || !here->storage || !td_storage_is_pinned(here->storage) || !there->storage ||
        !td_device_of(there->device.type)->transfer || !same_geometry(dst, src))
        return 1;
    td_stream *stream = td_stream_current(there->device);
    if (!stream || td_pinned_used_on(here->storage->data, stream))
        return -1;
    return td_device_copy_bytes(dst->device, dst->data, src->device, src->data, (size_t)(dst->numel * td_itemsize(dst)), true);
}

/* dst, on a device, takes the elements of src, which is on the CPU. */
static int send(td_tensor *dst, td_tensor *src)
{
    int64_t before, all;
    if (same_geometry(dst, src))
        return copy_bytes(dst->device, dst->data, src->device, src->data, dst->numel * td_itemsize(dst));
    if (span(dst, &before, &all) != 0)
        return -1;
    /* What lies between the elements is other tensors' business, and must come back as it was. */
    const bool whole = dst->flags & TD_FLAG_NON_OVERLAPPING;
    td_tensor *here = whole ? td_tensor_new_strided(dst->ndim, dst->sizes, dst->strides, (td_dtype)dst->dtype, (td_device){TD_CPU, -1})
                            : td_host_copy(dst);
    if (here)
        here->flags |= dst->flags & (TD_FLAG_CONJ | TD_FLAG_NEG);
    int status = here && td_copy_elements(here, src) == 0
                     ? copy_bytes(dst->device, dst->data - before, here->device, here->data - before, all) : -1;
    td_tensor_release(here);
    return status;
}

/* Within one type of device bytes are copied if the geometry allows; from the CPU, see send(); to the CPU, x is fetched and the
 * CPU's copy converts; between two types of devices, and all that is left, it is fetched and sent. */
int td_copy_across(td_tensor *dst, td_tensor *src)
{
    const bool to = td_is_outside(dst->device), from = td_is_outside(src->device);
    if (!dst->storage || !src->storage)
        return td_error(TD_E_NOT_IMPLEMENTED, "copy_: a tensor that is not strided can't be copied between devices; use .to_dense() first");
    if (src->storage->device.type == TD_META)
        return td_error(TD_E_NOT_IMPLEMENTED, "Cannot copy out of meta tensor; no data!");
    if (to && from && dst->device.type == src->device.type && same_geometry(dst, src))
        return copy_bytes(dst->device, dst->data, src->device, src->data, dst->numel * td_itemsize(dst));
    if (to && from && dst->device.type == src->device.type && dst->device.index == src->device.index) {
        const int status = td_copy_on_device(dst, src);
        if (status != TD_DECLINED)
            return status;
    }
    if (!from) {        /* a number is passed to a kernel by value, for which nobody waits */
        const int status = to && src->device.type == TD_CPU && src->ndim == 0 && !same_geometry(dst, src) ? td_copy_on_device(dst, src) : TD_DECLINED;
        return status == TD_DECLINED ? send(dst, src) : status;
    }
    td_tensor *here = td_host_copy(src);
    int status = !here ? -1 : to ? send(dst, here) : td_copy_elements(dst, here);
    td_tensor_release(here);
    return status;
}
