/* Small words for operators that are composed of others.  All pass NULL on, the error of the first failure being set, and none takes
 * over a reference. */
#ifndef TD_OPS_COMPOSE_H
#define TD_OPS_COMPOSE_H
#include <tede/auto.h>
#include <tede/autograd.h>
#include <tede/dispatch.h>
#include <tede/foreign.h>
#include <tede/list.h>
#include "base/names.h"
#include "tensor/tensor.h"

static inline bool td_is_some(const td_tensor *x) { return x && x != TD_NONE; }
/* A reference, also to TD_NONE. */
static inline td_tensor *td_ref(td_tensor *x) { return td_tensor_retain(x); }

static inline td_tensor *td_times(td_tensor *x, td_scalar factor)
{
    TD_AUTO td_tensor *number = td_wrapped_number(factor);
    return td_mul_tensor(x, number);
}
static inline td_tensor *td_plus(td_tensor *x, td_scalar other)
{
    TD_AUTO td_tensor *number = td_wrapped_number(other);
    return td_add_tensor(x, number, td_int(1));
}
static inline td_tensor *td_sum_over(td_tensor *x, int64_t n, const int64_t *dims, bool keepdim)
{
    return td_sum_dim_intlist(x, n, dims, keepdim, TD_DTYPE_NONE);
}
static inline td_tensor *td_minus(td_tensor *a, td_tensor *b) { return td_sub_tensor(a, b, td_int(1)); }
/* a + b, where either may be absent. */
static inline td_tensor *td_sum_of(td_tensor *a, td_tensor *b)
{
    return !a || !b ? NULL : a == TD_NONE ? td_ref(b) : b == TD_NONE ? td_ref(a) : td_add_tensor(a, b, td_int(1));
}
/* The conjugate transpose of the last two dimensions. */
static inline td_tensor *td_adjoint_of(td_tensor *x)
{
    TD_AUTO td_tensor *t = td_transpose_int(x, -2, -1);
    return td_conj(t);
}
/* -1 with an error if the elements of x can't be read since it stands for a batch (vmap). */
static inline int td_check_readable(const td_tensor *x)
{
    return x->extra && TD_EXTRA_TABLE(x)->readable ? TD_EXTRA_TABLE(x)->readable(x) : 0;
}
static inline bool td_stands_for_batch(const td_tensor *x)
{
    if (td_check_readable(x) == 0)
        return false;
    td_error_clear();
    return true;
}
/* Whether its elements cannot be looked at: it is on meta, stands for a batch (vmap), or is an object of a class whose elements are
 * elsewhere.  What then depends on them takes the path that is right for all values. */
static inline bool td_hides_values(const td_tensor *x)
{
    return x->device.type == TD_META || td_tensor_is_hollow(x) || td_stands_for_batch(x);
}
/* A tensor whose elements a check can read on the host: x, or a copy of all members if it stands for a batch.  Not for meta. */
static inline td_tensor *td_with_values(td_tensor *x) { return x && td_stands_for_batch(x) ? td__all_members(x) : td_ref(x); }
/* Whether it is an object of a class whose elements are elsewhere, or a level's wrapper of one. Not for meta. */
static inline bool td_has_no_elements(const td_tensor *x) { return x->storage && x->storage->device.type == TD_META && x->device.type != TD_META; }
static inline bool td_is_floating(const td_tensor *x) { return td_dtype_is_floating((td_dtype)x->dtype); }
static inline bool td_is_complex(const td_tensor *x) { return td_dtype_is_complex((td_dtype)x->dtype); }
/* Whether backward formulas must be differentiable themselves: then they are composed of operators that record. */
static inline bool td_records(int n, td_tensor *const *tensors)
{
    bool enabled = td_grad_enabled();
    td_keyset derivatives = TD_KEYSET(TD_KEY_TRANSFORMS) | (TD_KEYSET(TD_KEY_FORWARD_AD) & ~td_thread_masks().exclude);
    for (int i = 0; i < n; i++)
        if (td_is_some(tensors[i]) && ((enabled && td_requires_grad(tensors[i])) || tensors[i]->keys & derivatives))
            return true;
    return false;
}
#define TD_RECORDS(...) \
    td_records((int)(sizeof((td_tensor *[]){__VA_ARGS__}) / sizeof(td_tensor *)), (td_tensor *[]){__VA_ARGS__})

#endif
