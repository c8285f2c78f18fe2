/* Late tensors: results whose elements are still to be computed, within a region (src/region/).
 *
 * Note [Late tensors]
 * Within a region calls are recorded, and their results are heads with sizes and strides over a storage without memory: its address lies
 * in a range that is reserved and that nobody can read, so that positions, views and overlap are computed as ever. A late tensor, and each
 * view of it, has the key of TD_LATE, which is no device: dispatch sends its calls to the region. When the elements are computed the storage
 * gets memory, and the tensors over it, which the region lists, are moved there and lose the key.
 *
 * A call that writes into memory that is there is recorded, too: the storage has a flag, and whoever reads tensors over it knows by that
 * (td_is_awaited).
 *
 * Whoever reads elements without a call of the dispatcher (the value of a tensor, its address, its text) asks for them first: td_settle. */
#ifndef TD_TENSOR_LATE_H
#define TD_TENSOR_LATE_H
#include "tensor/masks.h"

/* The last bit of device types: of calls within a region, and of late tensors. */
enum { TD_LATE = TD_DEVICE_TYPES - 1 };

typedef struct td_pointwise td_pointwise;
/* What a kernel that has checked its arguments leaves for later: `run` on tensors (NULL where one is absent), of which it writes those in `written`. */
typedef struct td_late_work {
    int       (*run)(const void *context, td_tensor *const *tensors);
    const void *context;                                /* copied */
    size_t      bytes;
    int         n;
    uint32_t    written;
} td_late_work;
/* What the layers below call of src/region/; set before the first region begins. */
typedef struct td_late_functions {
    int (*settle)(td_storage *s);
    int (*join)(td_tensor *x);                          /* a head over a late storage is made */
    int (*pointwise)(const td_pointwise *op, td_dtype common, td_tensor *const *in, const td_scalar *params, td_tensor *out);
    td_tensor *(*make)(int ndim, const int64_t *sizes, const int64_t *strides, td_dtype dtype);
    int (*copy)(td_tensor *dst, td_tensor *src);        /* of which td_may_wait_for is true */
    int (*work)(const td_late_work *w, td_tensor *const *tensors);
    bool (*noted)(const td_storage *s);                 /* whether a recorded call of this thread reads or writes it; not of late storages */
    void *(*let_go)(void);                              /* of td_region_lock; or NULL */
    void  (*take_again)(void *let_go);
} td_late_functions;
extern td_late_functions td_regions;
/* How many threads are in a region: loops are looked up each time while it isn't zero. */
extern int td_region_threads;
/* Elements from which on an operand makes a call worth to be recorded. */
extern uint64_t td_region_least;

static inline bool td_in_region(void) { return (td_masks_now.include & ~td_masks_now.exclude) >> TD_LATE & 1; }
static inline bool td_is_late(const td_tensor *x) { return x->keys >> TD_LATE & 1; }
/* Whether elements of x are still to be computed: it is late, or will be written. */
static inline bool td_is_awaited(const td_tensor *x) { return td_is_late(x) || (x->storage && x->storage->flags & TD_STORAGE_AWAITED); }
/* Have the elements of x computed if they are awaited; 0, or -1 with the error of what computes them. */
static inline int td_settle(const td_tensor *x) { return TD_UNLIKELY(td_is_awaited(x)) ? td_regions.settle(x->storage) : 0; }
/* Whether elements may be read later: nobody writes the storage behind the dispatcher's back. */
static inline bool td_may_wait(const td_storage *s) { return !(s->flags & (TD_STORAGE_FOREIGN | TD_STORAGE_SHARED | TD_STORAGE_FIXED)); }
/* The same of a tensor, which must be a plain one on the CPU. */
static inline bool td_may_wait_for(const td_tensor *x)
{
    const td_keyset others = (TD_KEYS_DEVICES & ~TD_KEYSET(TD_LATE)) | TD_KEYS_LAYOUTS | TD_KEYSET(TD_KEY_DTYPE) | TD_KEYSET(TD_KEY_CONJUGATE) |
                             TD_KEYSET(TD_KEY_NEGATIVE) | TD_KEYSET(TD_KEY_UNALIGNED);
    return (x->keys & others) == TD_KEYSET(TD_CPU) && x->storage && td_may_wait(x->storage);
}
/* Whether a call with this operand, which may wait, is worth to be recorded. */
static inline bool td_is_worth_recording(const td_tensor *x) { return td_is_awaited(x) || (uint64_t)x->numel >= td_region_least; }
/* What is recorded reads tensors as they are when it runs: do it before something about a tensor changes, or its address gets out. */
static inline int td_settle_all(void) { return TD_UNLIKELY(td_in_region()) ? td_regions.settle(NULL) : 0; }
/* Whether recorded calls of this thread, which is in a region, have x, or its storage through another tensor. */
static inline bool td_is_noted(const td_tensor *x) { return !x->storage || td_is_late(x) || td_regions.noted(x->storage); }
/* x is written at once: do what reads or writes it first. */
static inline int td_settle_to_write(const td_tensor *x)
{
    return TD_UNLIKELY(td_in_region()) && td_is_noted(x) ? td_regions.settle(NULL) : 0;
}
/* Let the thread's calls be computed at once, for code that reads what they give without asking; what `exclude` was, to be put back. */
static inline td_keyset td_pause_region(void)
{
    const td_keyset exclude = td_masks_now.exclude;
    td_masks_now.exclude |= TD_KEYSET(TD_LATE);
    return exclude;
}
/* Other threads are to work for this one, which waits for them: what is recorded is computed, the calls from here on are computed at once, and the
 * program's lock is let go. */
typedef struct td_left_region { bool left; td_keyset exclude; void *lock; } td_left_region;
int  td_leave_region(td_left_region *l);
void td_return_to_region(const td_left_region *l);
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
