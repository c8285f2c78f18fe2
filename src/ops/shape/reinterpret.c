/* The same memory reinterpreted: complex numbers as pairs, bytes as another dtype, and conjugates and negatives that
 * nobody has computed yet.
 *
 * x.conj() and the imaginary part of it are views with a bit set: what the memory holds is the conjugate or the negative of
 * the tensor's values.  The keys Conjugate and Negative come with the bits, and ops/iterate/lazy.c keeps all operators right that
 * don't know of them. */
#include "calls_ops_shape_reinterpret.h"
#include <inttypes.h>
#include <tede/auto.h>
#include <tede/foreign.h>
#include <tede/transforms.h>
#include "autograd/node.h"
#include "dispatch/outputs.h"
#include "ops/iterate/lazy.h"
#include "tensor/checked.h"

/* With room for a dimension more than a tensor may have: making the view refuses it. */
typedef struct geometry { int ndim; int64_t sizes[TD_MAX_DIMS + 1], strides[TD_MAX_DIMS + 1]; } geometry;

/* Only the dimensions that there are: all would take as long as the rest of a view. */
static inline void geometry_of(const td_tensor *x, geometry *g)
{
    g->ndim = x->ndim;
    for (int d = 0; d < x->ndim; d++)
        g->sizes[d] = x->sizes[d], g->strides[d] = x->strides[d];
}

/* How a reinterpreted view is made again from its base: what its own base was reinterpreted by, then one step more.
 * (Strides and offset come last, in src/autograd/view.c.) */
typedef td_tensor *reinterpretation(td_tensor *x);
typedef struct steps {
    td_view_replay    head;
    td_view_replay   *before;           /* counted, or NULL */
    reinterpretation *again;
} steps;

static void drop_steps(td_replay *replay)
{
    steps *s = (steps *)replay;
    if (s->before && __atomic_sub_fetch(&s->before->head.refcount, 1, __ATOMIC_ACQ_REL) == 0)
        s->before->head.drop(&s->before->head);
    td_mem_free(s, sizeof *s);
}

static td_tensor *apply_steps(td_view_replay *replay, td_tensor *base)
{
    steps *s = (steps *)replay;
    TD_AUTO td_tensor *seen = s->before ? s->before->apply(s->before, base) : td_tensor_retain(base);
    return s->again(seen);
}

/* A view that self's sizes and strides alone can't express; `again` makes it anew on another base.  view_as_complex needs
 * its operand's geometry for that, which only a base has. */
static td_tensor *view_as(td_tensor *self, td_dtype dtype, const geometry *g, reinterpretation *again)
{
    td_tensor *view = td_view_as_dtype(self, dtype, g->ndim, g->sizes, g->strides, 0);
    if (!view || !view->base || (self->base && again == td_view_as_complex))
        return view;
    steps *s = td_mem_alloc(sizeof *s);
    if (!s) {
        td_tensor_release(view);
        return NULL;
    }
    *s = (steps){{{1, drop_steps}, apply_steps}, (td_view_replay *)view->replay, again};   /* takes over view's reference */
    view->replay = &s->head.head;
    return view;
}

/* Pairs (real, imaginary) as a new last dimension of stride 1; strides double, since they count elements of half the size.  Of a
 * conjugate the memory holds other imaginary parts than the values, hence the error. */
td_tensor *td_op_view_as_real(td_tensor *self)
{
    if (!td_dtype_is_complex(self->dtype))
        return td_fail(TD_E_RUNTIME, "view_as_real is only supported for complex tensors");
    if (self->flags & TD_FLAG_CONJ)
        return td_fail(TD_E_RUNTIME, "view_as_real doesn't work on unresolved conjugated tensors.  To resolve the conjugate tensor so "
                       "you can view it as real, use self.resolve_conj(); however, be warned that the resulting tensor will NOT "
                       "alias the original.");
    geometry g;
    geometry_of(self, &g);
    for (int d = 0; d < g.ndim; d++)
        g.strides[d] = td_mul_saturated(g.strides[d], 2);
    g.sizes[g.ndim] = 2, g.strides[g.ndim++] = 1;
    return view_as(self, td_dtype_to_real(self->dtype), &g, td_view_as_real);
}

/* The opposite: the last dimension must hold pairs without a gap, and all else must begin at whole pairs. */
td_tensor *td_op_view_as_complex(td_tensor *self)
{
    if (self->dtype != TD_F16 && self->dtype != TD_F32 && self->dtype != TD_F64)
        return td_fail(TD_E_RUNTIME, "view_as_complex is only supported for half, float and double tensors, but got a tensor of scalar "
                       "type: %s", td_dtype_title(self->dtype));
    if (!self->ndim)
        return td_fail(TD_E_RUNTIME, "Input tensor must have one or more dimensions");
    if (self->sizes[self->ndim - 1] != 2)
        return td_fail(TD_E_RUNTIME, "Tensor must have a last dimension of size 2");
    if (self->strides[self->ndim - 1] != 1)
        return td_fail(TD_E_RUNTIME, "Tensor must have a last dimension with stride 1");
    geometry g;
    geometry_of(self, &g);
    g.ndim--;
    for (int d = 0; d < g.ndim; d++) {
        if (g.strides[d] % 2)
            return td_fail(TD_E_RUNTIME, "Tensor must have a stride divisible by 2 for all but last dimension");
        g.strides[d] /= 2;
    }
    if (td_tensor_offset(self) % 2)
        return td_fail(TD_E_RUNTIME, "Tensor must have a storage_offset divisible by 2");
    return view_as(self, td_dtype_to_complex(self->dtype), &g, td_view_as_complex);
}

/* The bytes as another dtype.  Wider or narrower elements change the last dimension, which must be contiguous; strides and offset must
 * be whole numbers of the new elements. */
td_tensor *td_op_view_dtype(td_tensor *self, td_dtype dtype)
{
    int64_t old = (int64_t)td_dtype_size(self->dtype), new = (int64_t)td_dtype_size(dtype);
    if (self->flags & (TD_FLAG_CONJ | TD_FLAG_NEG))
        return td_fail(TD_E_RUNTIME, "torch.Tensor.view is not supported for %s when converting to a different dtype.",
                       self->flags & TD_FLAG_CONJ ? "conjugate view tensors" : "tensors with negative bit set");
    geometry g;
    geometry_of(self, &g);
    if (old != new) {
        if (!self->ndim)
            return td_fail(TD_E_RUNTIME, "self.dim() cannot be 0 to view %s as %s (different element sizes)", td_dtype_title(self->dtype),
                           td_dtype_title(dtype));
        int last = g.ndim - 1;
        int64_t ratio = old < new ? new / old : 1;
        if (g.sizes[last] % ratio)
            return td_fail(TD_E_RUNTIME, "self.size(-1) must be divisible by %" PRId64 " to view %s as %s (different element sizes), but "
                           "got %" PRId64, ratio, td_dtype_title(self->dtype), td_dtype_title(dtype), g.sizes[last]);
        if (td_tensor_offset(self) % ratio)
            return td_fail(TD_E_RUNTIME, "self.storage_offset() must be divisible by %" PRId64 " to view %s as %s (different element "
                           "sizes), but got %" PRId64, ratio, td_dtype_title(self->dtype), td_dtype_title(dtype), td_tensor_offset(self));
        if (g.strides[last] != 1)
            return td_fail(TD_E_RUNTIME, "self.stride(-1) must be 1 to view %s as %s (different element sizes), but got %" PRId64,
                           td_dtype_title(self->dtype), td_dtype_title(dtype), g.strides[last]);
        if (old > new) {        /* each element becomes old / new of them */
            for (int d = 0; d < last; d++)
                g.strides[d] *= old / new;
            g.sizes[last] *= old / new;
        } else {
            for (int d = 0; d < last; d++) {
                if (g.strides[d] % ratio)
                    return td_fail(TD_E_RUNTIME, "self.stride(%d) must be divisible by %" PRId64 " to view %s as %s (different element "
                                   "sizes), but got %" PRId64, d, ratio, td_dtype_title(self->dtype), td_dtype_title(dtype), g.strides[d]);
                g.strides[d] /= ratio;
            }
            g.sizes[last] /= ratio;
        }
    }
    return td_alias_as(self, dtype, g.ndim, g.sizes, g.strides);     /* gradients don't go through: no view of self to them */
}

/* ---- conjugates and negatives */

/* The whole of self as a view with the bit flipped: a conjugate's conjugate has none.  The key follows the bit. */
static td_tensor *view_with_bit(td_tensor *self, unsigned flag, td_key key, reinterpretation *again)
{
    if (td_lazy_ready() != 0)
        return NULL;
    geometry g;
    geometry_of(self, &g);
    td_tensor *view = view_as(self, (td_dtype)self->dtype, &g, again);
    if (!view)
        return NULL;
    view->flags ^= (uint16_t)flag;
    view->keys = view->flags & flag ? view->keys | TD_KEYSET(key) : view->keys & ~TD_KEYSET(key);
    return view;
}

td_tensor *td_op__conj(td_tensor *self)
{
    if (!td_dtype_is_complex(self->dtype))
        return td_fail(TD_E_RUNTIME, "_conj: the tensor must be complex, not %s", td_dtype_title(self->dtype));
    return view_with_bit(self, TD_FLAG_CONJ, TD_KEY_CONJUGATE, td__conj);
}
td_tensor *td_op__neg_view(td_tensor *self) { return view_with_bit(self, TD_FLAG_NEG, TD_KEY_NEGATIVE, td__neg_view); }

td_tensor *td_op_conj(td_tensor *self)
{
    return td_dtype_is_complex(self->dtype) ? td__conj(self) : td_tensor_retain(self);
}
td_tensor *td_op_conj_physical(td_tensor *self)
{
    return td_dtype_is_complex(self->dtype) ? td__conj_physical(self) : td_tensor_retain(self);
}
/* A wrapper of a transform has none of the bits itself: what it stands for has them. */
td_tensor *td_op_resolve_conj(td_tensor *self) { return td_wrapper_any(self, td_tensor_is_conj) ? td_clone(self) : td_tensor_retain(self); }
td_tensor *td_op_resolve_neg(td_tensor *self) { return td_wrapper_any(self, td_tensor_is_neg) ? td_clone(self) : td_tensor_retain(self); }

/* Real (0) and imaginary part (1) as views.  Of a conjugate they are taken from what it is the conjugate of: the imaginary part is then
 * a negative. */
static td_tensor *part_of(td_tensor *self, int which)
{
    bool conjugate = td_wrapper_any(self, td_tensor_is_conj);
    TD_AUTO td_tensor *own = conjugate ? td__conj(self) : td_tensor_retain(self);
    TD_AUTO td_tensor *pairs = td_view_as_real(own);
    TD_AUTO td_tensor *part = td_select_int(pairs, -1, which);
    return conjugate && which ? td__neg_view(part) : td_tensor_retain(part);
}
td_tensor *td_op_real(td_tensor *self)
{
    return td_dtype_is_complex(self->dtype) ? part_of(self, 0) : td_tensor_retain(self);
}
td_tensor *td_op_imag(td_tensor *self)
{
    if (!td_dtype_is_complex(self->dtype))
        return td_fail(TD_E_RUNTIME, "imag is not implemented for tensors with non-complex dtypes.");
    return part_of(self, 1);
}
