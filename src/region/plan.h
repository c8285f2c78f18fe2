/* Groups of calls that are done slab by slab: see plan.c. */
#ifndef TD_REGION_PLAN_H
#define TD_REGION_PLAN_H
#include "region/region.h"

/* What a group does with a storage. */
typedef struct td_group_storage {
    td_storage *s;
    int64_t     strides[TD_MAX_DIMS];   /* bytes of the leading dimensions, of the first tensor over it */
    bool        internal;               /* nobody reads it after the group: it needs memory for a slab alone */
    int16_t     buffer;                 /* of an internal one: which of the group's buffers */
    int64_t     row_bytes;
} td_group_storage;

/* Memory for a slab, which internal storages of equal rows have one after the other. */
typedef struct td_group_buffer {
    int64_t row_bytes, offset;          /* where it begins in a thread's memory */
    int     free_after;                 /* the group's call after which nobody has it */
} td_group_buffer;

/* An operand or a result as a call of the group has it: `shift` is how many dimensions fewer it has than the call. */
typedef struct td_group_tensor {
    td_tensor *x;
    int        shift, storage;
} td_group_tensor;

enum { TD_GROUP_CALLS = 64, TD_GROUP_TENSORS = 128, TD_GROUP_POSTPONED = 4 };
typedef struct td_group {
    int64_t          first, last;       /* calls, of which dropped ones aren't part of it */
    int64_t          postponed[TD_GROUP_POSTPONED];     /* calls between them that come behind it */
    int              n_calls, n_tensors, n_storages, n_buffers, n_postponed;
    int              k;                 /* dimension k is divided into slabs, those before it are gone through one by one */
    int64_t          sizes[TD_MAX_DIMS];        /* of the leading dimensions 0 to k */
    int64_t          bytes;             /* of what a row of all tensors takes */
    td_group_storage storages[TD_GROUP_TENSORS];
    bool             written[TD_GROUP_TENSORS], aligned[TD_GROUP_TENSORS];      /* storages; aligned: all tensors over it have the same rows there */
    td_group_buffer  buffers[TD_GROUP_TENSORS];
    td_group_tensor  tensors[TD_GROUP_TENSORS];
    uint8_t          n_operands[TD_GROUP_CALLS];
    int16_t          operands[TD_GROUP_CALLS][TD_MAX_OPERANDS + 8];     /* of each call, in c->in's order and then c->out's: numbers of tensors */
} td_group;

extern size_t td_slab_bytes, td_slab_least;
/* The longest group that begins with call i; false if it is no more than that call, or not worth it. */
bool td_group_make(td_group *g, td_region *r, int64_t i);
int  td_group_run(td_group *g, td_region *r);

#endif
