/* Forward-mode differentiation (jvp): tangents of results.
 *
 * Most operators' tangents come from formulas (generated kernels on the ForwardAD key) or, for linear ones, from the
 * operator itself.  What has neither takes the slow path: the gradient of the gradient.  With v a stand-in for the
 * result's gradient, g(v) = J^T v is linear in v, and its gradient with respect to v along t is J t.  That is right for
 * whatever can be differentiated twice, but makes a small graph and several calls; docs/transforms.md lists who needs it.
 *
 * In-place operators compute as their functional forms do, write, and take over the tangent.  A view's tangent is a view
 * of its base's tangent, so a write to one is seen by the other. */
#include "calls_transforms_forward.h"
#include "autograd/meta.h"
#include "autograd/node.h"
#include "autograd/tangent.h"
#include "base/once.h"
#include "dispatch/outputs.h"
#include "tensor/position.h"
#include "transforms/level.h"

/* Around a generated tangent kernel: neither the call itself nor the calls of its formula compute tangents.
 * td_forward_end puts the mask back. */
td_keyset td_forward_begin(void)
{
    td_keyset before = td_masks_now.exclude;
    td_masks_now.exclude |= TD_KEYSET(TD_KEY_FORWARD_AD);
    return before;
}

td_tensor *td_forward_operand(td_tensor *x, bool conjugated)
{
    td_tensor *t = td_tangent(x);
    return conjugated && td_dtype_is_complex((td_dtype)t->dtype) ? td_conj(t) : td_tensor_retain(t);
}

/* Nobody makes a graph of these tensors, and nobody sees what is done with them except who counts calls. */
static bool unseen(int n, td_tensor *const *tensors)
{
    if (td_masks_now.include & ~(TD_KEYSET(TD_KEY_TRACING) | TD_KEYSET(TD_KEY_PROFILER) | TD_KEYSET(TD_KEY_FORWARD_AD)))
        return false;
    for (int i = 0; i < n; i++) {
        td_keyset known = TD_KEYS_CPU | TD_KEYSET(TD_KEY_AUTOGRAD) | TD_KEYSET(TD_KEY_FORWARD_AD);
        if (!tensors[i] || (tensors[i]->keys & ~known) || td_wants_grad(tensors[i]))
            return false;
    }
    return true;
}

bool td_forward_fusable(int n, td_tensor *const *tensors)
{
    for (int i = 0; i < n; i++)
        if (!tensors[i] || td_dtype_is_complex((td_dtype)tensors[i]->dtype))
            return false;
    return unseen(n, tensors);
}

/* A formula's parts run without modes where only tracing or the profiler would see them: they are parts of one call. */
td_keyset td_parts_begin(int n, td_tensor *const *tensors)
{
    td_keyset before = td_masks_now.include;
    if (before && unseen(n, tensors))
        td_masks_now.include = 0;
    return before;
}
void td_parts_end(td_keyset include) { td_masks_now.include = include; }

/* Tangents are summed as gradients are: into the first one where nobody else can see it. */
int td_forward_add(td_tensor **sum, td_tensor *term)
{
    if (!term)
        return -1;
    if (term == TD_NONE)
        return 0;
    td_tensor *old = *sum;
    if (!old) {
        *sum = td_tensor_retain(term);
        return 0;
    }
    td_tensor *both[] = {old, term};
    td_keyset watched = td_masks_now.include;
    if (td_forward_fusable(2, both))
        td_masks_now.include = 0;       /* part of the call that is watched */
    *sum = td_add(old, term);
    td_masks_now.include = watched;
    td_tensor_release(old);
    return *sum ? 0 : -1;
}

int td_forward_take(td_tensor **sums, int n, td_tensor **terms)
{
    int status = 0;
    for (int i = 0; i < n; i++) {
        status |= td_forward_add(&sums[i], terms[i]);
        td_tensor_release(terms[i]);
    }
    return status;
}

/* A tangent of the result's shape and dtype: converted as the value was (a real result takes the real part), and
 * expanded where an operand was broadcast, as a view. */
static td_tensor *fitted(td_tensor *result, td_tensor *t)
{
    if (!t)
        return NULL;
    TD_AUTO td_tensor *cast = t->dtype == result->dtype ? td_tensor_retain(t)
                            : td_dtype_is_complex((td_dtype)t->dtype) && !td_dtype_is_complex((td_dtype)result->dtype)
                                  ? td_real(t) : td_to(t, (td_dtype)result->dtype);
    if (cast && !td_same_sizes(result->ndim, result->sizes, cast->ndim, cast->sizes))
        return td_expand(cast, result->ndim, result->sizes);
    return td_tensor_retain(cast);
}

/* What the call's node saved of its result was saved before the result had a tangent. */
static int share_with_saved(td_tensor *x)
{
    td_autograd_meta *meta = x->autograd;
    td_node *node = meta ? meta->grad_fn : NULL;
    int status = 0;
    for (int i = 0; node && i < node->n_saved; i++)
        if (node->saved[i].tensor && node->saved[i].output >= 0 && node->saved[i].output == meta->output)
            status |= td_set_tangent(node->saved[i].tensor, td_tangent(x));
    return status;
}

/* Whether others may look at t's memory, who holds one reference to it. A "yes" may be wrong. */
static bool is_lent(const td_tensor *t)
{
    return __atomic_load_n(&t->refcount, __ATOMIC_RELAXED) > 1 || t->base ||
           (t->storage && __atomic_load_n(&t->storage->refcount, __ATOMIC_RELAXED) > 1);
}

/* Note [Tangents have memory of their own]
 * x + 1 has x's tangent, but a write to one must not be seen by the other: a result that is no view gets a copy of a tangent
 * that was lent. */
static int give_tangent(td_tensor *x, td_tensor *t, bool lent)
{
    if (!t)
        return -1;
    TD_AUTO td_tensor *own = lent && !x->base ? td_clone(t) : td_tensor_retain(t);
    return own && td_set_tangent(x, own) == 0 ? share_with_saved(x) : -1;
}

/* Takes over `result` and `sum`. A sum of NULL is a tangent of zero, and none is set. */
td_tensor *td_forward_end(td_keyset before, int status, td_tensor *result, td_tensor *sum, bool conjugated)
{
    if (status == 0 && sum && td_is_differentiable(result->dtype)) {
        const bool lent = is_lent(sum);
        TD_AUTO td_tensor *resolved = conjugated && td_dtype_is_complex((td_dtype)sum->dtype) ? td_conj(sum) : td_tensor_retain(sum);
        TD_AUTO td_tensor *t = fitted(result, resolved);
        status = give_tangent(result, t, lent);
    }
    td_masks_now.exclude = before;
    td_tensor_release(sum);
    if (status == 0)
        return result;
    td_tensor_release(result);
    return NULL;
}

int td_forward_end_all(td_keyset before, int status, int n_results, td_tensor **results, int n, td_tensor **sums)
{
    for (int i = 0; i < n; i++) {
        if (status == 0 && sums[i] && results[i] != TD_NONE && td_is_differentiable(results[i]->dtype)) {
            const bool lent = is_lent(sums[i]);
            TD_AUTO td_tensor *t = fitted(results[i], sums[i]);
            status = give_tangent(results[i], t, lent);
        }
        td_tensor_release(sums[i]);
    }
    td_masks_now.exclude = before;
    if (status != 0)
        td_results_drop(n_results, results);
    return status;
}

/* ---- boxed: operators without a generated kernel */

static bool is_float(const td_tensor *x) { return x != TD_NONE && td_is_differentiable(x->dtype); }

static int set_result(td_tensor *result, td_tensor *t)
{
    if (!t || result == TD_NONE || !td_is_differentiable(result->dtype))
        return t ? 0 : -1;
    const bool lent = is_lent(t);
    TD_AUTO td_tensor *fit = fitted(result, t);
    return give_tangent(result, fit, lent);
}

/* Whether no two elements share memory; a "no" may be wrong. */
static bool own_places(const td_tensor *x)
{
    for (int d = 0; d < x->ndim; d++)
        if (x->sizes[d] > 1 && x->strides[d] == 0)
            return false;
    return true;
}

/* t with its dimensions in memory in the order of x's, without gaps: a copy that members of a batch may differ in. */
static td_tensor *ordered_alike(const td_tensor *x, td_tensor *t)
{
    int64_t order[TD_MAX_DIMS], back[TD_MAX_DIMS];
    td_stride_order(x->ndim, x->strides, order);
    for (int d = 0; d < x->ndim; d++)
        back[order[d]] = d;
    TD_AUTO td_tensor *sorted = td_permute(t, x->ndim, order);
    TD_AUTO td_tensor *dense = td_clone_format(sorted, TD_CONTIGUOUS_FORMAT);
    return td_permute(dense, x->ndim, back);
}

/* Views of memory as it is need a tangent that lies in memory as its tensor does (`jvp: linear_laid_out`), or whose conjugate
 * is computed if its tensor's is (`linear_resolved`).  It gets one that lasts, for other views to share. */
static int lay_out_alike(const td_op *op, td_tensor *x)
{
    td_tensor *t = td_tangent(x);
    if (t && op->tangents == TD_TANGENTS_LINEAR_RESOLVED && (t->keys & ~x->keys & TD_KEYSET(TD_KEY_CONJUGATE) || td_wrapped_of(t))) {
        TD_AUTO td_tensor *plain = td_resolve_conj(t);
        return plain ? td_set_tangent(x, plain) : -1;
    }
    if (!t || op->tangents != TD_TANGENTS_LINEAR_LAID_OUT || td_same_sizes(t->ndim, t->strides, x->ndim, x->strides))
        return 0;
    int64_t dense[TD_MAX_DIMS];
    if (td_dense_order_strides(x, dense) && td_same_sizes(x->ndim, dense, x->ndim, x->strides)) {
        TD_AUTO td_tensor *ordered = ordered_alike(x, t);
        return ordered ? td_set_tangent(x, ordered) : -1;
    }
    /* of t, whose batches of members it needs */
    TD_AUTO td_tensor *alike = td_new_empty_strided(t, x->ndim, x->sizes, x->ndim, x->strides, TD_DTYPE_NONE, TD_DEVICE_NONE);
    if (!alike || !own_places(alike))
        return alike ? 0 : -1;
    return td_copy_(alike, t) != 0 ? -1 : td_set_tangent(x, alike);
}

/* The operator of the tangents, zeros where there are none.  Its number `value`, which is put beside what the operands give,
 * has the tangent zero. */
static int linear(const td_op *op, const td_value *arguments, td_value *results)
{
    td_frame f;
    td_value made[8];
    if (td_frame_begin(&f, op, arguments) != 0)
        return -1;
    int status = 0;
    for (int i = 0; i < f.count && status == 0; i++) {
        td_value *v = &f.values[i];
        int n = v->kind == TD_VALUE_TENSORS ? v->count : v->kind == TD_VALUE_TENSOR;
        td_tensor **place = v->kind == TD_VALUE_TENSORS ? f.lists[i] : &v->tensor;
        for (int k = 0; k < n && status == 0; k++)
            if (is_float(place[k])) {
                if (lay_out_alike(op, place[k]) != 0) {
                    status = -1;
                    break;
                }
                td_tensor *t = td_tangent(place[k]);
                place[k] = td_frame_keep(&f, t ? td_tensor_retain(t) : td_zeros_like(place[k]));
                status = place[k] ? 0 : -1;
            }
        if (v->kind == TD_VALUE_SCALAR && !strcmp(op->info.arguments[i].name, "value"))
            v->scalar = td_int(0);
    }
    if (status == 0 && (status = td_op_call(op, f.values, made)) == 0) {
        for (int r = 0; r < op->info.n_results; r++) {
            if (results[r].kind == TD_VALUE_TENSOR)
                status |= set_result(results[r].tensor, made[r].tensor);
            for (int k = 0; results[r].kind == TD_VALUE_TENSORS && k < results[r].count; k++)
                status |= set_result(results[r].tensors[k], made[r].tensors[k]);
        }
        td_values_release(made, op->info.n_results);
    }
    td_frame_end(&f);
    return status;
}

/* x with a dimension of size 1 put in, or taken out: below the dispatcher where that is all the same. */
static td_tensor *with_dim(td_tensor *x, int64_t dim)
{
    if (!x || !unseen(1, &x))
        return td_unsqueeze(x, dim);
    int64_t sizes[TD_MAX_DIMS], strides[TD_MAX_DIMS];
    int at = td_wrap_dim(dim, x->ndim + 1);
    for (int d = 0; d <= x->ndim; d++) {
        sizes[d] = d == at ? 1 : x->sizes[d - (d > at)];
        strides[d] = d == at ? 1 : x->strides[d - (d > at)];
    }
    return td_view_strided(x, x->ndim + 1, sizes, strides, 0);
}
static td_tensor *without_dim(td_tensor *x, int64_t dim)
{
    if (!x || !unseen(1, &x))
        return td_squeeze_dim(x, dim);
    int64_t sizes[TD_MAX_DIMS], strides[TD_MAX_DIMS];
    int at = td_wrap_dim(dim, x->ndim);
    for (int d = 0; d < x->ndim - 1; d++) {
        sizes[d] = x->sizes[d + (d >= at)];
        strides[d] = x->strides[d + (d >= at)];
    }
    return td_view_strided(x, x->ndim - 1, sizes, strides, 0);
}

/* (values, indices) along a dimension: the tangent is picked as the values were. */
static int pick(const td_op *op, const td_value *arguments, td_value *results)
{
    int at = 0;
    while (strcmp(op->info.arguments[at].name, "dim"))
        at++;
    td_tensor *t = td_tangent(arguments[0].tensor), *values = results[0].tensor;
    int64_t dim = arguments[at].integer;
    if (!t)
        return 0;
    bool dropped = values->ndim < t->ndim;
    TD_AUTO td_tensor *index = dropped ? with_dim(results[1].tensor, dim) : td_tensor_retain(results[1].tensor);
    TD_AUTO td_tensor *picked = td_gather(t, dim, index, false);
    TD_AUTO td_tensor *fit = dropped ? without_dim(picked, dim) : td_tensor_retain(picked);
    return give_tangent(values, fit, false);
}

/* Random operators: the tangent is what the numbers drawn make of it, and nothing where only numbers come out. */
static bool is_random(const td_op *op)
{
    for (int i = 0; i < op->info.n_arguments; i++)
        if (op->info.arguments[i].kind == TD_VALUE_GENERATOR)
            return true;
    return false;
}

/* ---- the slow path */

typedef struct sources { td_tensor *leaves[16], *tangents[16]; int n; } sources;

/* A leaf in the place of each operand with a tangent. */
static int plant(td_frame *f, sources *s)
{
    for (int i = 0; i < f->count; i++) {
        td_value *v = &f->values[i];
        int n = v->kind == TD_VALUE_TENSORS ? v->count : v->kind == TD_VALUE_TENSOR;
        td_tensor **place = v->kind == TD_VALUE_TENSORS ? f->lists[i] : &v->tensor;
        for (int k = 0; k < n; k++) {
            td_tensor *t = td_tangent(place[k]);
            if (!t || s->n == (int)TD_COUNT(s->leaves))
                continue;
            /* Through a view, so that a derivative of the tangent with respect to the operand is seen. */
            bool history = td_requires_grad(place[k]);
            td_tensor *leaf = history ? td_alias(place[k]) : td_detach(place[k]);
            if (!td_frame_keep(f, leaf) || (!history && td_set_requires_grad(leaf, true) != 0) || td_set_tangent(leaf, NULL) != 0)
                return -1;
            s->leaves[s->n] = place[k] = leaf;
            s->tangents[s->n++] = t;
        }
    }
    return 0;
}

/* One result y of a recorded call: J t for the tangents of its operands. */
static td_tensor *transposed(td_tensor *y, const sources *s)
{
    td_tensor *gradients[16] = {NULL}, *roots[16], *along[16], *tangent = NULL;
    TD_AUTO td_tensor *v = td_zeros_like(y);
    if (!v || td_set_requires_grad(v, true) != 0)
        return NULL;
    if (td_autograd_grad(1, &y, &v, s->n, s->leaves, gradients, true, true, true) != 0)
        return NULL;
    int n = 0;
    for (int i = 0; i < s->n; i++)
        if (gradients[i] && td_requires_grad(gradients[i]))
            roots[n] = gradients[i], along[n++] = s->tangents[i];
    if (n && td_autograd_grad(n, roots, along, 1, &v, &tangent, true, true, true) != 0)
        tangent = NULL;
    else if (!tangent)
        tangent = td_tensor_retain(TD_NONE);
    for (int i = 0; i < s->n; i++)
        td_tensor_release(gradients[i]);
    return tangent;
}

static int long_way(const td_op *op, const td_value *arguments, td_value *results)
{
    td_frame f;
    sources s = {.n = 0};
    td_value made[8];
    if (td_frame_begin(&f, op, arguments) != 0)
        return -1;
    bool before = td_set_grad_enabled(true);
    td_keyset excluded = td_masks_now.exclude;
    td_masks_now.exclude &= ~TD_KEYSET(TD_KEY_AUTOGRAD);
    int status = plant(&f, &s);
    if (status == 0 && s.n && (status = td_op_call(op, f.values, made)) == 0) {
        for (int r = 0; r < op->info.n_results && status == 0; r++) {
            for (int k = 0; k < td_tensors_in(&made[r]) && status == 0; k++) {
                td_tensor *y = td_tensor_in(&made[r], k), *result = td_tensor_in(&results[r], k);
                if (y == TD_NONE || !td_requires_grad(y))
                    continue;
                TD_AUTO td_tensor *t = transposed(y, &s);
                bool kept = before || !t || t == TD_NONE;
                TD_AUTO td_tensor *plain = kept ? td_tensor_retain(t) : td_detach(t);
                status = !plain ? -1 : plain == TD_NONE ? 0 : set_result(result, plain);
            }
        }
        td_values_release(made, op->info.n_results);
    }
    td_masks_now.exclude = excluded;
    td_set_grad_enabled(before);
    td_masks_now.exclude = excluded;
    td_frame_end(&f);
    return status;
}

/* ---- in place */

/* Zeros that lie as x does; if t has batches of members, so have they. */
static td_tensor *zeros_beside(td_tensor *x, td_tensor *t)
{
    if (!t || (!t->extra && !(t->flags & TD_FLAG_PYTHON)))
        return td_zeros_like(x);
    TD_AUTO td_tensor *zeros = td_new_empty_strided(t, x->ndim, x->sizes, x->ndim, x->strides, TD_DTYPE_NONE, TD_DEVICE_NONE);
    return zeros && td_zero_(zeros) == 0 ? td_tensor_retain(zeros) : NULL;
}

/* self's tangent becomes t: in place, so that views of it see it; one that self's base has not yet begins as zeros. */
static int take_over(td_tensor *self, td_tensor *t)
{
    if (!td_tangent(self) && !t)
        return 0;
    if (!td_tangent(self) && self->base && self->base != self) {
        TD_AUTO td_tensor *whole = td_tangent(self->base) ? td_tensor_retain(td_tangent(self->base))
                                                      : zeros_beside(self->base, t);
        if (!whole || (!td_tangent(self->base) && td_set_tangent(self->base, whole) != 0))
            return -1;
        td_dual_by_write(self);
        int64_t offset = td_tensor_offset(self) - td_tensor_offset(self->base) + td_tensor_offset(whole);
        bool alike = td_same_sizes(whole->ndim, whole->strides, self->base->ndim, self->base->strides);
        TD_AUTO td_tensor *part = alike ? td_as_strided(whole, self->ndim, self->sizes, self->ndim, self->strides, &offset)
                                        : td_zeros_like(self);
        if (!part || td_set_tangent(self, part) != 0)
            return -1;
    } else if (!td_tangent(self)) {
        TD_AUTO td_tensor *fit = fitted(self, t);
        bool wrapped = fit && (fit->extra || self->extra);
        bool cloned = wrapped && td_same_sizes(fit->ndim, fit->strides, self->ndim, self->strides);
        TD_AUTO td_tensor *copy = !fit || cloned ? td_clone(fit)
                                  : wrapped || fit->flags & TD_FLAG_PYTHON  /* of its batch, of its class */
                                      ? td_new_empty_strided(fit, self->ndim, self->sizes, self->ndim, self->strides, TD_DTYPE_NONE, TD_DEVICE_NONE)
                                      : td_empty_strided(self->ndim, self->sizes, self->ndim, self->strides, (td_dtype)fit->dtype, fit->device);
        if (!copy || (!cloned && td_copy_(copy, fit) != 0))
            return -1;
        td_dual_by_write(self);
        return td_set_tangent(self, copy);
    }
    td_tensor *own = td_tangent(self);
    return t ? td_copy_(own, t) : td_zero_(own);
}

static bool may_record(td_tensor *x) { return td_requires_grad(x) || (x && td_wrapped_of(x)); }

/* Whether the tangent that a call has may have a history, here or at another level. */
static bool is_recorded(const td_op *op, const td_value *arguments)
{
    for (int i = 0; i < op->info.n_arguments && td_grad_enabled(); i++)
        if (arguments[i].kind == TD_VALUE_TENSOR && (may_record(arguments[i].tensor) || may_record(td_tangent(arguments[i].tensor))))
            return true;
    return false;
}

static int in_place(const td_op *op, td_keyset keys, const td_value *arguments, td_value *results)
{
    td_tensor *self = arguments[0].tensor;
    TD_AUTO td_tensor *t = NULL;
    if (op->tangents == TD_TANGENTS_COPIED) {
        td_tensor *source = td_tangent(arguments[1].tensor);
        td_keyset before = td_forward_begin();
        t = source ? fitted(self, source) : NULL;
        td_masks_now.exclude = before;
        if (source && !t)
            return -1;
    } else if (op->info.flags & TD_OP_INPLACE_VIEW) {       /* of the value and of the tangent */
        td_value made, in[8];
        if (lay_out_alike(op, self) != 0)
            return -1;
        memcpy(in, arguments, sizeof *in * (size_t)op->info.n_arguments);
        if ((in[0].tensor = td_tangent(self)) && td_op_call(op, in, &made) != 0)
            return -1;
        if (in[0].tensor)
            td_values_release(&made, 1);
        return td_op_call_keys(op, keys, arguments, results);
    } else if (op->functional && !is_random(op)) {
        td_value made, in[TD_MOST_ARGUMENTS];
        memcpy(in, arguments, sizeof *in * (size_t)op->info.n_arguments);
        const bool recorded = is_recorded(op, arguments);       /* then the tangent's history keeps what self was until now */
        TD_AUTO td_tensor *old = recorded ? td_clone(self) : NULL;
        for (int i = 0; recorded && i < op->info.n_arguments; i++)
            if (in[i].kind == TD_VALUE_TENSOR && in[i].tensor == self)
                in[i].tensor = old;
        if ((recorded && !old) || td_op_call(td_op_find(op->functional), in, &made) != 0)
            return -1;
        t = td_tensor_retain(td_tangent(made.tensor));
        td_tensor_release(made.tensor);
    }
    if (td_op_call_keys(op, keys, arguments, results) != 0)
        return -1;
    td_keyset before = td_forward_begin();
    int status = take_over(self, t) == 0 ? share_with_saved(self) : -1;
    td_masks_now.exclude = before;
    if (status != 0)
        td_values_release(results, op->info.n_results);
    return status;
}

static bool argument_has_tangent(const td_value *v)
{
    if (v->kind == TD_VALUE_TENSOR && td_tangent(v->tensor))
        return true;
    for (int k = 0; v->kind == TD_VALUE_TENSORS && k < v->count; k++)
        if (td_tangent(v->tensors[k]))
            return true;
    return false;
}

/* Keys outlive the tangents of a level that has ended, and views of a dual number's primal have them too. */
static bool has_tangent(const td_op *op, const td_value *arguments)
{
    for (int i = 0; i < op->info.n_arguments; i++)
        if (argument_has_tangent(&arguments[i]))
            return true;
    return false;
}

/* An out= form has no tangent to give: it refuses what is written to if that has one, and operands if the operator has a derivative.
 * Where numbers come out that none is known for (bessel_y1), they are computed, as by the form without out=. */
static int check_out_form(const td_op *op, const td_value *arguments)
{
    const td_op *base = op->structured ? op->structured->forms[0] : NULL;
    bool derived = !base || base->kernels[TD_SLOT_AUTOGRAD];
    for (int i = 0; i < op->info.n_arguments; i++)
        if (op->info.arguments[i].is_mutable && arguments[i].kind == TD_VALUE_TENSOR)
            derived |= !td_dtype_is_floating(arguments[i].tensor->dtype) && !td_dtype_is_complex(arguments[i].tensor->dtype);
    for (int i = 0; i < op->info.n_arguments; i++)
        if ((derived || op->info.arguments[i].is_mutable) && argument_has_tangent(&arguments[i]))
            return td_fail_out_tangent(op->info.name);
    return 0;
}

static int forward(const td_op *op, td_keyset keys, const td_value *arguments, td_value *results, void *context)
{
    (void)context;
    keys &= ~TD_KEYSET(TD_KEY_FORWARD_AD);
    if (!has_tangent(op, arguments))
        return td_op_call_keys(op, keys, arguments, results);
    if (op->info.flags & TD_OP_OUT)
        return check_out_form(op, arguments) != 0 ? -1 : td_op_call_keys(op, keys, arguments, results);
    if (op->info.n_arguments > TD_MOST_ARGUMENTS)
        return td_error(TD_E_RUNTIME, "%s: too many arguments for forward mode", op->info.name);
    if (op->info.n_arguments && op->info.arguments[0].is_mutable)
        return in_place(op, keys, arguments, results);
    td_kernel records = op->kernels[TD_SLOT_AUTOGRAD];
    if (td_op_call_keys(op, keys, arguments, results) != 0)
        return -1;
    const bool follows = records ? records != op->composite : op->info.flags & TD_OP_LINEAR && !op->composite;
    if (!follows || op->info.flags & TD_OP_DETACHES)
        return 0;
    td_keyset before = td_forward_begin();
    int status = op->info.flags & TD_OP_LINEAR ? linear(op, arguments, results)
               : op->tangents == TD_TANGENTS_PICKED ? pick(op, arguments, results)
               : is_random(op) ? 0 : long_way(op, arguments, results);
    td_masks_now.exclude = before;
    if (status != 0)
        td_values_release(results, op->info.n_results);
    return status;
}

/* Registered when the first dual number is made. */
static int register_forward(void) { return td_register_fallback(TD_KEY_FORWARD_AD, TD_CPU, forward, NULL); }
int td_forward_ready(void)
{
    static td_once once;
    return td_once_run(&once, register_forward);
}
