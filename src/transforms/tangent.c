/* Tangents of tensors, for forward-mode differentiation: where they are kept.
 *
 * A tensor with a tangent is a dual number.  It carries the ForwardAD key; the operators' kernels on that key compute
 * the results' tangents (forward.c, and what is generated from the entries). */
#include "calls_transforms_tangent.h"
#include "autograd/meta.h"
#include "transforms/level.h"
#include <tede/auto.h>
#include <tede/transforms.h>

bool td_forward_enabled(void) { return !td_masks_now.forward_disabled; }
bool td_set_forward_enabled(bool on)
{
    bool before = !td_masks_now.forward_disabled;
    td_masks_now.forward_disabled = !on;
    if (on)
        td_masks_now.exclude &= ~TD_KEYSET(TD_KEY_FORWARD_AD);
    else
        td_masks_now.exclude |= TD_KEYSET(TD_KEY_FORWARD_AD);
    return before;
}

/* Tangents outside transforms belong to an epoch, which ends with the dual level; those of wrappers end with them. */
static uint32_t epoch = 1;
void td_end_dual_level(void)
{
    __atomic_add_fetch(&epoch, 1, __ATOMIC_RELAXED);
    td_masks_now.include &= ~TD_KEYSET(TD_KEY_FORWARD_AD);
}

static td_tensor *own_tangent(const td_tensor *x)
{
    td_autograd_meta *meta = x->autograd;
    if (!meta || !meta->tangent)
        return NULL;
    return !meta->tangent_epoch || meta->tangent_epoch == __atomic_load_n(&epoch, __ATOMIC_RELAXED) ? meta->tangent : NULL;
}

/* Note [Views of what becomes dual]
 * A view may have been taken before a write gave its base a tangent.  Then it gets the same view of that at the
 * first query; and since it has no ForwardAD key, the thread includes that key from such a write to the end of the dual level.  Of
 * wrappers, a level looks at the bases' keys itself. */
void td_dual_by_write(const td_tensor *x)
{
    if (!x->extra)
        td_masks_now.include |= TD_KEYSET(TD_KEY_FORWARD_AD);
}

static bool same_places(const td_tensor *a, const td_tensor *b)
{
    return td_same_sizes(a->ndim, a->sizes, b->ndim, b->sizes) && td_same_sizes(a->ndim, a->strides, b->ndim, b->strides) &&
           a->dtype == b->dtype;
}
static td_tensor *tangent_of_view(td_tensor *x, td_tensor *of_base)
{
    td_keyset before = td_masks_now.exclude;
    td_masks_now.exclude |= TD_KEYSET(TD_KEY_FORWARD_AD);
    TD_AUTO td_tensor *part = same_places(of_base, x->base) ? td_view_again(x, of_base)
                            : td_fail(TD_E_NOT_IMPLEMENTED, "a view of a tensor that was given a tangent in place: the tangent lies "
                                      "in memory in another way than the tensor");
    td_masks_now.exclude = before;
    return part && td_set_tangent(x, part) == 0 ? part : NULL;
}

td_tensor *td_tangent(const td_tensor *x)
{
    if (!x)
        return NULL;
    const bool follows = x->base && !(x->flags & TD_FLAG_PRIMAL) && !x->extra == !x->base->extra;
    td_tensor *own = own_tangent(x), *of_base = own || !follows ? NULL : own_tangent(x->base);
    return TD_UNLIKELY(of_base != NULL) ? tangent_of_view((td_tensor *)x, of_base) : own;
}

int td_forward_ready(void);     /* forward.c */

int td_set_tangent(td_tensor *x, td_tensor *tangent)
{
    if (!tangent && !x->autograd)
        return 0;
    td_autograd_meta *meta = td_autograd_meta_of(x);
    if (!meta || td_forward_ready() != 0)
        return -1;
    td_tensor *old = meta->tangent;
    meta->tangent = td_tensor_retain(tangent);
    meta->tangent_epoch = x->extra ? 0 : __atomic_load_n(&epoch, __ATOMIC_RELAXED);
    if (tangent)
        x->keys |= TD_KEYSET(TD_KEY_FORWARD_AD);
    else
        x->keys &= ~TD_KEYSET(TD_KEY_FORWARD_AD);
    td_tensor_release(old);
    return 0;
}

/* Views of a dual number look at its tangent as they look at its value, so the two have to lie in memory alike; elements of an
 * expanded value can't have separate tangents where elements share memory. */
static bool lie_alike(const td_tensor *x, const td_tensor *t)
{
    unsigned lazy = TD_FLAG_CONJ | TD_FLAG_NEG;
    if (x->extra || t->extra || !x->storage || !t->storage)
        return true;
    for (int d = 0; d < x->ndim; d++)
        if (x->sizes[d] > 1 && x->strides[d] == 0)
            return true;
    for (int d = 0; d < x->ndim; d++)
        if (x->sizes[d] != 1 && x->strides[d] != t->strides[d])
            return false;
    return (x->flags & lazy) == (t->flags & lazy) && (!x->numel || td_tensor_offset(x) == td_tensor_offset(t)) &&
           x->storage->nbytes == t->storage->nbytes;
}
static td_tensor *laid_like(td_tensor *x, td_tensor *t)
{
    TD_AUTO td_tensor *seen = td__new_zeros_with_same_feature_meta(t, x, 0);
    TD_AUTO td_tensor *conjugate = x->flags & TD_FLAG_CONJ ? td_conj(seen) : td_tensor_retain(seen);
    TD_AUTO td_tensor *copy = x->flags & TD_FLAG_NEG ? td__neg_view(conjugate) : td_tensor_retain(conjugate);
    return copy && td_copy_(copy, t) == 0 ? td_tensor_retain(copy) : NULL;
}

/* At vmap levels a tangent has all the batches that its value has, or a write that gives each member another tangent had no room:
 * vmap(jacfwd(f)) comes with units that only the inner batch tells apart. */
static bool is_batch_of(const td_tensor *x, const td_level *level)
{
    for (const td_wrapped *w; (w = td_wrapped_of(x)); x = w->value)
        if (w->level == level)
            return w->dim >= 0;
    return false;
}
static bool has_batches_of(const td_tensor *t, const td_tensor *x)
{
    for (const td_wrapped *w; (w = td_wrapped_of(x)); x = w->value)
        if (w->dim >= 0 && !is_batch_of(t, w->level))
            return false;
    return true;
}
static td_tensor *batched_like(td_tensor *x, td_tensor *t)
{
    td_keyset before = td_masks_now.exclude;
    td_masks_now.exclude |= TD_KEYSET(TD_KEY_FORWARD_AD);
    TD_AUTO td_tensor *ones = td_ones_like(x);
    td_tensor *spread = td_mul(t, ones);
    td_masks_now.exclude = before;
    return spread;
}

td_tensor *td_make_dual(td_tensor *x, td_tensor *tangent)
{
    if (!x || !tangent)
        return NULL;
    td_shape_text a, b;
    if (!td_is_differentiable(x->dtype))
        return td_fail(TD_E_VALUE, "Expected primal to be floating point or complex, but got: %s", td_dtype_name(x->dtype));
    if (!td_is_differentiable(tangent->dtype))
        return td_fail(TD_E_VALUE, "Expected tangent to be floating point or complex, but got: %s", td_dtype_name(tangent->dtype));
    if (x->dtype != tangent->dtype)
        return td_fail(TD_E_RUNTIME, "Expected primal and tangent to have the same dtype, but got %s and %s",
                       td_dtype_name(x->dtype), td_dtype_name(tangent->dtype));
    if (!td_same_sizes(x->ndim, x->sizes, tangent->ndim, tangent->sizes))
        return td_fail(TD_E_RUNTIME, "Trying to set a forward gradient that has a different size than that of the original Tensor, "
                       "this is not supported. Tensor is of size %s while the given forward gradient is of size %s.",
                       td_shape_str(x->ndim, x->sizes, a), td_shape_str(tangent->ndim, tangent->sizes, b));
    if (td_tangent(x) || td_tangent(tangent))
        return td_fail(TD_E_RUNTIME, "Making a dual Tensor based on a Tensor that already has a forward gradient at the same level 0 is "
                       "not supported.");
    TD_AUTO td_tensor *fitting = TD_UNLIKELY(!has_batches_of(tangent, x)) ? batched_like(x, tangent) : lie_alike(x, tangent) ? td_tensor_retain(tangent) : laid_like(x, tangent);
    td_tensor *dual = fitting ? td_alias(x) : NULL;
    if (dual && td_set_tangent(dual, fitting) != 0) {
        td_tensor_release(dual);
        return NULL;
    }
    return dual;
}

td_tensor *td_primal(td_tensor *x)
{
    if (!x)
        return NULL;
    td_keyset before = td_masks_now.exclude;
    td_masks_now.exclude |= TD_KEYSET(TD_KEY_FORWARD_AD);
    td_tensor *plain = td_tangent(x) ? td_alias(x) : td_tensor_retain(x);
    td_masks_now.exclude = before;
    if (plain && plain != x)
        plain->flags |= TD_FLAG_PRIMAL;
    return plain;
}
