/* What the indexing operators share: geometry of operands, checks of indices and of overlapping memory.
 *
 * PyTorch's indexing operators come as gather/scatter (an index of the result's rank), the index_ family (a vector of
 * positions along one dimension), take/put (positions of the flattened tensor) and x[indices] (index tensors and masks
 * together). All of them end in one td_picking, ops/index/kernels.h; index.c holds the first three, advanced.c the last. */
#ifndef TD_OPS_INDEX_INDEX_H
#define TD_OPS_INDEX_INDEX_H
#include <tede/auto.h>
#include <tede/dispatch.h>
#include <tede/list.h>
#include "autograd/record.h"
#include "dispatch/outputs.h"
#include "ops/index/kernels.h"
#include "tensor/device.h"
#include "tensor/late.h"

/* Sizes and strides; a 0-dim tensor counts as one of a single element. */
typedef struct td_geometry { int ndim; int64_t sizes[TD_MAX_DIMS], strides[TD_MAX_DIMS]; } td_geometry;
static inline td_geometry td_geometry_of(const td_tensor *x)
{
    td_geometry g = {.ndim = x->ndim};
    for (int d = 0; d < x->ndim; d++)
        g.sizes[d] = x->sizes[d], g.strides[d] = x->strides[d];
    if (x->ndim == 0)
        g.ndim = 1, g.sizes[0] = 1, g.strides[0] = 0;
    return g;
}

/* x, or a copy if it shares memory with `target`, which is going to be written; what is on the CPU goes to target's device. */
static inline td_tensor *td_apart(td_tensor *x, const td_tensor *target)
{
    if (TD_UNLIKELY(td_is_outside(target->device)) && x->device.type == TD_CPU)
        return td_device_copy(x, target->device);
    return x->storage && x->storage == target->storage ? td_clone_detached(x) : td_tensor_retain(x);
}

/* Whether two tensors' ranges of memory meet. */
bool td_share_elements(const td_tensor *a, const td_tensor *b);
/* Whether x's elements fill a range of memory without gaps, in some order and direction of the dimensions. */
bool td_is_dense(const td_tensor *x);
/* That an input shares no memory with `out`: an error. Only tensors without gaps are looked at; others may lie between each
 * other's elements, and callers copy what meets (td_apart). */
int td_check_apart(const td_tensor *out, const td_tensor *input);
/* Whether elements of x share an address since a dimension was expanded. */
bool td_is_expanded(const td_tensor *x);
/* The warning with which PyTorch still lets `op` write to an expanded tensor; -1 if it became an error. */
int td_warn_expanded(const char *op, const char *form);
/* For out= forms: checks that `out` has self's dtype (`message` is the error otherwise) and shares no memory with the
 * inputs. */
int td_index_out(td_tensor *out, const td_tensor *self, const td_tensor *index, const char *message);
/* An integer index as a contiguous int64 tensor. */
td_tensor *td_index_of(const char *op, td_tensor *index);
/* That all are in 0 ... size of the rule - 1.  On a device the loop over `far` sees to that, if it gets the rule (td_picking); where that has no elements there will
 * be no loop. */
int td_index_check(const td_tensor *index, const td_tensor *far, const td_index_rule *rule);

/* ---- look-ups within a region
 *
 * Indices are read and checked at once, and `self` when the result is needed, if it may be read later. Between begin and end all else is computed at once. */
typedef struct td_lookup { bool late; td_keyset exclude; } td_lookup;
TD_MUST_USE int td_lookup_begin(td_lookup *l, td_tensor *self, int64_t n, td_tensor *const *indices);
void td_lookup_end(const td_lookup *l);
/* A new tensor of self's dtype and device; strides: NULL for contiguous ones. */
td_tensor *td_lookup_result(const td_lookup *l, td_tensor *self, int ndim, const int64_t *sizes, const int64_t *strides);
/* GET into it: td_pick_run, now or later. */
TD_MUST_USE int td_lookup_run(const td_lookup *l, td_picking *p);

#endif
