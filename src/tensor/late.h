/* Late tensors: results whose elements are still to be computed, within a region (src/region/).
 *
 * Note [Late tensors]
 * Within a region calls are recorded, and their results are heads with sizes and strides over a storage without memory: its address lies
 * in a range that is reserved and that nobody can read, so that positions, views and overlap are computed as ever. A late tensor, and each
 * view of it, has the key of TD_LATE, which is no device: dispatch sends its calls to the region. When the elements are computed the storage
 * gets memory, and the tensors over it, which the region lists, are moved there and lose the key.
 *
 * Whoever reads elements without a call of the dispatcher (the value of a tensor, its address, its text) asks for them first: td_settle. */
#ifndef TD_TENSOR_LATE_H
#define TD_TENSOR_LATE_H
#include "tensor/masks.h"

/* The last bit of device types: of calls within a region, and of late tensors. */
enum { TD_LATE = TD_DEVICE_TYPES - 1 };

typedef struct td_pointwise td_pointwise;
/* What the layers below call of src/region/; set before the first region begins. */
typedef struct td_late_functions {
    int (*settle)(td_storage *s);
    int (*join)(td_tensor *x);                          /* a head over a late storage is made */
    int (*pointwise)(const td_pointwise *op, td_dtype common, td_tensor *const *in, const td_scalar *params, td_tensor *out);
    td_tensor *(*make)(int ndim, const int64_t *sizes, const int64_t *strides, td_dtype dtype);
} td_late_functions;
extern td_late_functions td_regions;
/* How many threads are in a region: loops are looked up each time while it isn't zero. */
extern int td_region_threads;
/* Elements from which on an operand makes a call worth to be recorded. */
extern uint64_t td_region_least;

static inline bool td_in_region(void) { return (td_masks_now.include & ~td_masks_now.exclude) >> TD_LATE & 1; }
static inline bool td_is_late(const td_tensor *x) { return x->keys >> TD_LATE & 1; }
/* Have the elements of x computed if they are late; 0, or -1 with the error of what computes them. */
static inline int td_settle(const td_tensor *x) { return TD_UNLIKELY(td_is_late(x)) ? td_regions.settle(x->storage) : 0; }
/* Whether elements may be read later: nobody writes the storage behind the dispatcher's back. */
static inline bool td_may_wait(const td_storage *s) { return !(s->flags & (TD_STORAGE_FOREIGN | TD_STORAGE_SHARED | TD_STORAGE_FIXED)); }
/* What is recorded reads tensors as they are when it runs: do it before something about a tensor changes, or its address gets out. */
static inline int td_settle_all(void) { return TD_UNLIKELY(td_in_region()) ? td_regions.settle(NULL) : 0; }
/* x has just been made over its storage, with the keys of what it was made of. */
static inline td_tensor *td_late_joined(td_tensor *x)
{
    if (TD_LIKELY(!x || !td_is_late(x)) || !td_regions.join(x))
        return x;
    td_tensor_release(x);
    return NULL;
}
/* Reserve the address of a storage without memory; NULL where no range can be reserved. */
void *td_late_address(size_t nbytes);

#endif
