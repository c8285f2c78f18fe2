/* In-place writes to views, and how they change autograd histories (CopySlices).
 *
 * Note [Writing to a view]
 * Let v be a view of b, and let v be written by f.  From then on b is made of its old self and of f's result:
 * b's history becomes a CopySlices node.  From the gradient of b it cuts out v's part, lets f's node turn that
 * into gradients of f's operands, and puts the one for v's old value back in the place of what it cut out; the rest of b's
 * gradient goes on to b's old history.  v itself, and every other view of b, is now a view of the new b.  They learn
 * it at the next query of their history: their version is no longer the one that their history was made at, and td_gradient_fn makes
 * them a new one, AsStridedBackward0 (or what their replay record gives).
 *
 * f's node is then no node of the graph itself: it runs, and what it saved is freed, as a part of CopySlices.  If it
 * saved its result, and a second derivative needs that, its history must lead to CopySlices too, as v's does. */
#include <tede/autograd_nodes.h>
#include <tede/transforms.h>
#include <tede/auto.h>
#include "autograd/hooks.h"
#include "autograd/meta.h"
#include "autograd/needs.h"
#include "autograd/saved.h"
#include "dispatch/writes.h"
#include <stdio.h>

/* ---- how a view lies in its base: sizes and strides of both, offset from the base's first element (in bytes, because
 * a view may have another dtype) */
typedef struct geometry {
    int64_t         offset;
    td_view_replay *replay;                 /* counted, or NULL */
    td_dtype        dtype;
    td_device       device;
    int             ndim, base_ndim;
    int64_t         numbers[];              /* base sizes, base strides, sizes, strides */
} geometry;

static size_t geometry_bytes(const td_tensor *view, const td_tensor *base)
{
    return sizeof(geometry) + 2 * (size_t)(view->ndim + base->ndim) * sizeof(int64_t);
}

static void geometry_fill(geometry *g, const td_tensor *view, const td_tensor *base)
{
    int64_t *at = g->numbers;
    g->offset = view->data - base->data;
    g->replay = view->replay != base->replay ? (td_view_replay *)view->replay : NULL;
    if (g->replay)
        __atomic_fetch_add(&g->replay->head.refcount, 1, __ATOMIC_RELAXED);
    g->dtype = view->dtype;
    g->device = base->device;
    g->ndim = view->ndim;
    g->base_ndim = base->ndim;
    for (int d = 0; d < base->ndim; d++)
        *at++ = base->sizes[d];
    for (int d = 0; d < base->ndim; d++)
        *at++ = base->strides[d];
    for (int d = 0; d < view->ndim; d++)
        *at++ = view->sizes[d];
    for (int d = 0; d < view->ndim; d++)
        *at++ = view->strides[d];
}

static const int64_t *base_sizes(const geometry *g) { return g->numbers; }
static const int64_t *base_strides(const geometry *g) { return g->numbers + g->base_ndim; }
static const int64_t *view_sizes(const geometry *g) { return g->numbers + 2 * g->base_ndim; }
static const int64_t *view_strides(const geometry *g) { return view_sizes(g) + g->ndim; }

static void geometry_release(geometry *g)
{
    if (g->replay && __atomic_sub_fetch(&g->replay->head.refcount, 1, __ATOMIC_ACQ_REL) == 0)
        g->replay->head.drop(&g->replay->head);
    g->replay = NULL;
}

/* ---- AsStridedBackward0 */

static int as_strided_backward(td_node *node, td_tensor *const *grads, td_tensor **results)
{
    const geometry *g = node->state;
    int64_t itemsize = td_itemsizes[g->dtype];
    if (!grads[0]->numel) {     /* zeros, which depend on nothing */
        int64_t strides[TD_MAX_DIMS];
        if (td_contiguous_strides(g->base_ndim, base_sizes(g), strides) < 0)
            return -1;
        results[0] = td_need_zeros_beside(grads[0], g->base_ndim, base_sizes(g), strides);
        return results[0] ? 0 : -1;
    }
    results[0] = td_need_as_strided_backward(grads[0], g->base_ndim, base_sizes(g), base_strides(g), g->ndim, view_sizes(g),
                                             view_strides(g), g->offset / itemsize);
    return results[0] ? 0 : -1;
}

static void release_geometry(td_node *node) { geometry_release(node->state); }

static const td_node_type as_strided_type = {"AsStridedBackward0", as_strided_backward, release_geometry, NULL, 0, NULL, NULL};

/* The node of x as a view of `of`, which has x's dtype: x's base, or a view that it was made from. */
static td_node *as_strided_node(td_tensor *x, td_tensor *of)
{
    td_node *node = td_node_new(&as_strided_type, 1, 1, 0, geometry_bytes(x, of));
    if (!node)
        return NULL;
    geometry_fill(node->state, x, of);
    if (td_describe_input(node, 0, x) != 0 || td_node_connect(node, 0, of) != 0) {
        td_node_release(node);
        return NULL;
    }
    return node;
}

/* The view of another base of the same geometry, recorded if gradients are wanted. */
static td_tensor *geometry_apply(const geometry *g, td_tensor *base)
{
    const char *start = base->data;
    td_tensor *seen = g->replay ? g->replay->apply(g->replay, base) : td_tensor_retain(base);
    if (!seen)
        return NULL;
    int64_t offset = (g->offset + (start - seen->data)) / td_itemsize(seen);
    bool same = offset == 0 && td_same_sizes(g->ndim, view_sizes(g), seen->ndim, seen->sizes) &&
                td_same_sizes(g->ndim, view_strides(g), seen->ndim, seen->strides);
    if (same && seen != base)
        return seen;
    if (seen->keys >> TD_KEY_PYTHON & 1) {
        td_tensor *called = td_need_as_strided(seen, g->ndim, view_sizes(g), view_strides(g), offset);
        td_tensor_release(seen);
        return called;
    }
    td_tensor *view = td_view_strided(seen, g->ndim, view_sizes(g), view_strides(g), offset);
    td_node *node = view && td_wants_grad(seen) ? as_strided_node(view, seen) : NULL;
    if (view && td_wants_grad(seen) && (!node || td_set_gradient_edge(view, node, 0) != 0)) {
        td_tensor_release(view);
        view = NULL;
    }
    td_node_release(node);
    td_tensor_release(seen);
    return view;
}

td_tensor *td_view_again(td_tensor *view, td_tensor *base)
{
    geometry *g = td_mem_alloc(geometry_bytes(view, view->base));
    if (!g)
        return NULL;
    geometry_fill(g, view, view->base);
    td_tensor *again = geometry_apply(g, base);
    geometry_release(g);
    td_mem_free(g, geometry_bytes(view, view->base));
    return again;
}

/* The node of view x on its base as that is now. A view with a replay record (one whose strides don't say how it
 * came about) is made again by its call, and lends its history. */
static td_node *view_node(td_tensor *x, int *output)
{
    *output = 0;
    if (x->replay) {
        bool before = td_set_grad_enabled(true);
        td_tensor *again = td_view_again(x, x->base);
        td_set_grad_enabled(before);
        td_node *node = again && again->autograd ? td_node_retain(again->autograd->grad_fn) : NULL;
        if (node)
            *output = again->autograd->output;
        else if (again)
            td_error(TD_E_RUNTIME, "a view's history could not be made again after its base was written");
        td_tensor_release(again);
        return node;
    }
    return as_strided_node(x, x->base);
}

/* ---- what may be written: PyTorch's rules and words */

static int fail_view(td_tensor *x, bool indirect)
{
    td_autograd_meta *meta = x->autograd;
    td_node *made_by = meta ? meta->grad_fn : NULL;
    const char *object = indirect ? "its base or another view of its base has been" : "is being";
    bool custom = meta && meta->custom_view, no_grad = x->flags & TD_FLAG_NO_GRAD_VIEW && !custom;
    const bool inference = x->flags & TD_FLAG_INFERENCE_VIEW;
    char start[256], reason[400];
    int at = made_by ? snprintf(start, sizeof start, "Output %d of %.*s is a view", meta->output,
                                td_node_short_name(td_node_name(made_by)), td_node_name(made_by)) : 0;
    if (no_grad || !made_by)
        snprintf(start + at, sizeof start - (size_t)at, "%s created in %s mode and %s modified inplace %s.",
                 made_by ? " of a view which was" : "A view was", inference ? "inference" : "no_grad", object,
                 inference ? "in normal mode" : "with grad mode enabled");
    else
        snprintf(start + at, sizeof start - (size_t)at, " and %s modified inplace.", object);
    snprintf(reason, sizeof reason, "Given that this use case is ambiguous and error-prone, it is forbidden. You can clarify your code "
             "by moving both the view and the inplace either both inside the %s block (if you don't want the inplace to be tracked) "
             "or both outside (if you want the inplace to be tracked).", inference ? "inference_mode" : "no_grad");
    return td_error(TD_E_RUNTIME, "%s %s", start, no_grad ? reason
        : x->flags & TD_FLAG_MULTI_VIEW ? "This view is the output of a function that returns multiple views. Such functions do not "
                  "allow the output views to be modified inplace. You should replace the inplace operation by an out-of-place one."
        : "This view was created inside a custom Function (or because an input was returned as-is) and the autograd logic to handle "
          "view+inplace would override the custom backward associated with the custom Function, leading to incorrect gradients. This "
          "behavior is forbidden. You can fix this by cloning the output of the custom Function.");
}

static bool is_restricted(const td_tensor *x)
{
    return x->flags & (TD_FLAG_NO_GRAD_VIEW | TD_FLAG_MULTI_VIEW) || (x->autograd && x->autograd->custom_view);
}

/* Under no_grad all but sealed tensors may be written, as optimizers write to leaves. Recorded, a write would make
 * a leaf the result of a call, and its gradient would have no place to accumulate. */
int td_check_inplace(td_tensor *x, const char *op)
{
    if (!x || x == TD_NONE)
        return 0;
    (void)op;
    if (TD_UNLIKELY(td_is_sealed(x)))
        return td_fail_sealed();
    if (!td_grad_enabled())
        return 0;
    if (x->base) {
        if (is_restricted(x))
            return fail_view(x, false);
        if (td_requires_grad(x) && !(x->base->autograd && x->base->autograd->grad_fn))
            return td_error(TD_E_RUNTIME, "a view of a leaf Variable that requires grad is being used in an in-place operation.");
    } else if (x->flags & TD_FLAG_REQUIRES_GRAD)
        return td_error(TD_E_RUNTIME, "a leaf Variable that requires grad is being used in an in-place operation.");
    return 0;
}

int td_check_write(td_tensor *x) { return td_check_inplace(x, "set_"); }

/* ---- histories of views */

static int __attribute__((noinline)) renew_view(td_tensor *x, td_node **node)
{
    td_autograd_meta *meta = x->autograd;
    int output;
    *node = meta ? meta->grad_fn : NULL;
    if ((!*node && !td_requires_grad(x->base)) || !td_is_differentiable(x->dtype))
        return 0;
    if (is_restricted(x))
        return fail_view(x, true);
    td_node *fresh = view_node(x, &output);
    if (!fresh)
        return -1;
    int status = td_set_gradient_edge(x, fresh, output);
    td_node_release(fresh);
    *node = status == 0 ? fresh : NULL;     /* x holds it */
    return status;
}

/* Lends x's node. A view whose base was written since its history was made has a new one first. */
int td_gradient_fn(td_tensor *x, td_node **node)
{
    *node = NULL;
    if (TD_UNLIKELY(!x || x == TD_NONE))
        return 0;
    if (TD_UNLIKELY(x->base != NULL) && x->attr_version != td_tensor_version(x))
        return renew_view(x, node);
    *node = x->autograd ? x->autograd->grad_fn : NULL;
    return 0;
}

td_node *td_grad_fn(td_tensor *x)
{
    td_node *node;
    return td_gradient_fn(x, &node) == 0 ? node : NULL;
}

/* ---- CopySlices: Note [Writing to a view] */

typedef struct copy_slices {
    td_node *fn;                /* the write's own node */
    int32_t  output;
    geometry view;
} copy_slices;

enum { MOST_RESULTS = 8 };      /* of a call that writes to a view */

/* *whole with `part`, which may stand for a batch that *whole doesn't: then *whole is made anew, as a batch of both. */
static int put_part(const geometry *g, td_tensor **whole, td_tensor *slice, td_tensor *part)
{
    if (TD_LIKELY(!(part->keys & TD_KEYSET(TD_KEY_TRANSFORMS)) || !td_wrapper_any(part, td_wrapper_is_batch)))
        return td_need_copy_(slice, part);
    TD_AUTO td_tensor *zeros = td_need_zeros_beside(part, g->base_ndim, base_sizes(g), base_strides(g));
    TD_AUTO td_tensor *both = td_need_add(*whole, zeros);
    td_tensor *wider = both ? td_need_zeros_beside(both, g->base_ndim, base_sizes(g), base_strides(g)) : NULL;
    TD_AUTO td_tensor *place = wider && td_need_copy_(wider, both) == 0 ? geometry_apply(g, wider) : NULL;
    if (!place || td_need_copy_(place, part) != 0) {
        td_tensor_release(wider);
        return -1;
    }
    td_tensor_release(*whole);
    *whole = wider;
    return 0;
}

/* Gradient of the new base -> of the old base (first) and of the write's other operands. */
static int copy_slices_apply(td_node *node, td_tensor *const *grads, td_tensor **results)
{
    copy_slices *state = node->state;
    const geometry *g = &state->view;
    td_node *fn = state->fn;
    td_tensor *of_results[MOST_RESULTS] = {NULL}, *whole, *slice = NULL, *cut = NULL;
    int status = -1;
    whole = td_need_zeros_beside(grads[0], g->base_ndim, base_sizes(g), base_strides(g));
    if (whole && td_need_copy_(whole, grads[0]) == 0 && (slice = geometry_apply(g, whole)) &&
        (cut = td_need_clone(slice))) {
        of_results[state->output] = cut;
        status = fn->type->apply(fn, of_results, results);
    }
    if (status == 0 && node->edges[0].node) {
        td_tensor *part = results[0];
        if (!part || part == TD_NONE) {
            part = td_need_zeros(g->ndim, view_sizes(g), NULL, g->dtype, g->device);
            status = part ? 0 : -1;
        }
        results[0] = NULL;
        if (status == 0)
            status = put_part(g, &whole, slice, part);
        td_tensor_release(part);
        if (status == 0)
            results[0] = td_tensor_retain(whole);
    } else {
        td_tensor_release(results[0]);
        results[0] = NULL;
    }
    td_tensor_release(cut);
    td_tensor_release(slice);
    td_tensor_release(whole);
    return status;
}

static void copy_slices_release(td_node *node)
{
    copy_slices *state = node->state;
    if (state->fn)
        __atomic_store_n(&td_node_extra_now(state->fn)->copy_slices, NULL, __ATOMIC_RELEASE);
    td_node_release(state->fn);
    geometry_release(&state->view);
}

static void copy_slices_release_saved(td_node *node)
{
    copy_slices *state = node->state;
    if (state->fn)                          /* not so if anomaly mode had no memory for its record */
        td_node_release_saved(state->fn);
}

static const td_node_type copy_slices_type = {"CopySlices", copy_slices_apply, copy_slices_release,
                                              copy_slices_release_saved, 0, NULL, NULL};

int td_set_result_history(td_tensor *result, td_node *fn, int output)
{
    td_node_extra *extra = td_node_extra_now(fn);
    td_node *slices = extra ? __atomic_load_n(&extra->copy_slices, __ATOMIC_ACQUIRE) : NULL;
    const geometry *g = slices ? &((copy_slices *)slices->state)->view : NULL;
    if (!g || g->replay)
        return td_set_gradient_edge(result, fn, output);
    size_t bytes = sizeof *g + 2 * (size_t)(g->ndim + g->base_ndim) * sizeof(int64_t);
    td_node *node = td_node_new(&as_strided_type, 1, 1, 0, bytes);
    if (!node)
        return -1;
    memcpy(node->state, g, bytes);
    node->edges[0].node = td_node_retain(slices);
    int status = td_describe_input(node, 0, result);
    if (status == 0)
        status = td_set_gradient_edge(result, node, 0);
    td_node_release(node);
    return status;
}

td_tensor *td_node_stand_in(td_node *node, int input)
{
    td_tensor *leaf = td_node_variable(node);
    if (leaf && leaf->autograd->accumulator == node)         /* it may have another one by now */
        return td_tensor_retain(leaf);
    const td_input_meta *meta = input >= 0 && input < node->n_inputs ? &node->inputs[input] : NULL;
    if (!meta || !meta->defined)
        return td_fail(TD_E_RUNTIME, "%s has no result %d that a gradient can be asked for", td_node_name(node), input);
    int64_t strides[TD_MAX_DIMS] = {0};
    td_tensor *zero = td_need_zeros(0, NULL, NULL, meta->dtype, meta->device);
    td_tensor *view = zero ? td_view_strided(zero, meta->ndim, meta->sizes, strides, 0) : NULL;
    td_tensor *alone = view ? td_alias_detached(view, true) : NULL;
    td_tensor_release(view);
    td_tensor_release(zero);
    if (alone && td_set_gradient_edge(alone, node, input) != 0) {
        td_tensor_release(alone);
        return NULL;
    }
    return alone;
}

static int rebase_view(td_tensor *x, td_node *fn, int output)
{
    if (fn->n_inputs > MOST_RESULTS || fn->n_edges < 1)
        return td_error(TD_E_RUNTIME, "Functions which modify views in-place must return a single Variable");
    size_t bytes = sizeof(copy_slices) + geometry_bytes(x, x->base);
    td_node_extra *extra = td_node_extra_of(fn);
    td_node *node = extra ? td_node_new(&copy_slices_type, fn->n_edges, 1, 0, bytes) : NULL;
    if (!node)
        return -1;
    copy_slices *state = node->state;
    __atomic_store_n(&extra->copy_slices, node, __ATOMIC_RELEASE);
    state->fn = td_node_retain(fn);
    state->output = output;
    geometry_fill(&state->view, x, x->base);
    int status = td_node_connect(node, 0, x->base);
    for (int i = 1; i < fn->n_edges; i++)
        node->edges[i] = (td_edge){td_node_retain(fn->edges[i].node), fn->edges[i].input};
    if (status == 0)
        status = td_describe_input(node, 0, x->base);
    if (status == 0)
        status = td_set_gradient_edge(x->base, node, 0);
    td_node_release(node);
    if (status == 0 && !x->replay) {                /* at once: the base may be detached before the next query */
        int view_output = 0;
        td_node *fresh = view_node(x, &view_output);
        status = fresh ? td_set_gradient_edge(x, fresh, view_output) : -1;
        td_node_release(fresh);
    }
    x->attr_version = td_tensor_version(x) - !!x->replay;
    return status;
}

int td_rebase_history(td_tensor *x, td_node *node, int output)
{
    if (!x || x == TD_NONE || !td_is_differentiable(x->dtype))
        return 0;
    if (td_saved_untie(node, x) != 0 || td_describe_input(node, output, x) != 0)
        return -1;
    return x->base ? rebase_view(x, node, output) : td_set_gradient_edge(x, node, output);
}
