/* Levels, their wrappers, and the two ends of a grad or jvp level: see Note [Levels]. */
#include "calls_transforms_level.h"
#include "autograd/hooks.h"
#include "base/once.h"
#include "tensor/head.h"
#include "transforms/level.h"
#include <tede/autograd_nodes.h>
#include <tede/auto.h>

_Thread_local td_level *td_level_now;

/* A level holds its outer one; the chain is released in a loop, however deep. */
static void level_release(td_level *level)
{
    while (level && __atomic_sub_fetch(&level->refcount, 1, __ATOMIC_ACQ_REL) == 0) {
        td_level *outer = level->outer;
        td_mem_free(level, sizeof *level);
        level = outer;
    }
}

/* ---- wrappers */

static void wrapped_destroy(void *extra)
{
    td_wrapped *w = extra;
    td_tensor_release(w->value);
    level_release(w->level);
    td_mem_free(w, sizeof *w);
}

/* Of the same value, at the same dimension; with a separate version counter if the value below gets one. */
static td_tensor *wrapped_alias(td_tensor *x, bool own_version)
{
    td_wrapped *w = td_wrapped_of(x);
    td_tensor *value = own_version ? td_alias_detached(w->value, true) : td_tensor_retain(w->value);
    return td_wrap(w->level, value, w->dim);
}

/* A view that somebody makes without an operator: made by one after all. */
static td_tensor *wrapped_view(td_tensor *x, td_dtype dtype, int ndim, const int64_t *sizes, const int64_t *strides,
                               int64_t byte_offset)
{
    if (dtype != x->dtype)
        return td_fail(TD_E_NOT_IMPLEMENTED, "views of another dtype aren't there under transforms of functions");
    int64_t offset = td_tensor_offset(x) + byte_offset / td_itemsize(x);
    return td_as_strided(x, ndim, sizes, ndim, strides, &offset);
}

static int wrapped_readable(const td_tensor *x)
{
    for (const td_wrapped *w; (w = td_wrapped_of(x)); x = w->value)
        if (w->dim >= 0)
            return td_error(TD_E_RUNTIME, "vmap: It looks like you're calling .item() on a Tensor. We don't support vmap "
                            "over calling .item() on a Tensor, please try to rewrite what you're doing with other operations. "
                            "If error is occurring somewhere inside PyTorch internals, please file a bug report.");
    return 0;
}

static const td_tensor *wrapped_inside(const td_tensor *x) { return td_wrapped_of(x)->value; }

const td_extra_table td_wrapped_table = {wrapped_destroy, wrapped_alias, wrapped_view, wrapped_readable, wrapped_inside, NULL};

/* Sizes or strides but the batch's; dim -1 copies them all. */
static void without(const int64_t *from, int n, int dim, int64_t *to)
{
    for (int d = 0, k = 0; d < n; d++)
        if (d != dim)
            to[k++] = from[d];
}

/* After an in-place change below (resize_, t_, set_) a wrapper shows its value's geometry, storage and dtype again,
 * from the innermost value outward: each level's head is made of the one it wraps. */
int td_wrapper_refresh(td_tensor *x)
{
    td_wrapped *w = td_wrapped_of(x);
    td_tensor *value = w->value;
    if (td_wrapped_of(value) && td_wrapper_refresh(value) != 0)
        return -1;
    int64_t sizes[TD_MAX_DIMS], strides[TD_MAX_DIMS];
    without(value->sizes, value->ndim, w->dim, sizes);
    without(value->strides, value->ndim, w->dim, strides);
    if (td_tensor_set_geometry(x, value->ndim - (w->dim >= 0), sizes, strides) != 0)
        return -1;
    td_storage *old = x->storage;
    x->storage = td_storage_retain(value->storage);
    td_storage_release(old);
    x->data = value->data;
    x->dtype = value->dtype;
    return 0;
}

/* Takes over `value`, also on an error. The wrapper is a head without elements: it shares storage, data
 * pointer and version counter, so overlap checks and saved versions see through it. own_version[1] counts the
 * counter's users. */
td_tensor *td_wrap(td_level *level, td_tensor *value, int dim)
{
    if (!value || value == TD_NONE)
        return value;
    td_wrapped *w = td_mem_alloc(sizeof *w);
    int ndim = value->ndim - (dim >= 0);
    td_tensor *x = w ? td_head_new(ndim, (td_dtype)value->dtype, value->device,
                                   TD_KEYSET(TD_KEY_TRANSFORMS) | TD_KEYSET(TD_KEY_UNWRAP),
                                   value->flags & (TD_FLAG_INFERENCE | TD_FLAG_WRAPPED_NUMBER)) : NULL;
    if (!x) {
        td_mem_free(w, sizeof *w);
        td_tensor_release(value);
        return NULL;
    }
    without(value->sizes, value->ndim, dim, x->sizes);
    without(value->strides, value->ndim, dim, x->strides);
    x->storage = td_storage_retain(value->storage);
    x->data = value->data;
    if (value->own_version) {
        __atomic_fetch_add(&value->own_version[1], 1, __ATOMIC_RELAXED);
        x->own_version = value->own_version;
    }
    __atomic_fetch_add(&level->refcount, 1, __ATOMIC_RELAXED);
    *w = (td_wrapped){&td_wrapped_table, level, value, dim};
    x->extra = w;
    td_tensor_update_flags(x);
    return x;
}

/* ---- frames */

/* Replace every tensor of the frame by what `each` gives: borrowed, or kept in the frame. */
static int frame_map(td_frame *f, td_tensor *(*each)(td_frame *f, td_level *level, td_tensor *x), td_level *level)
{
    for (int i = 0; i < f->count; i++) {
        td_value *v = &f->values[i];
        if (v->kind == TD_VALUE_TENSOR && v->tensor != TD_NONE && !(v->tensor = each(f, level, v->tensor)))
            return -1;
        for (int k = 0; v->kind == TD_VALUE_TENSORS && k < v->count; k++)
            if (f->lists[i][k] != TD_NONE && !(f->lists[i][k] = each(f, level, f->lists[i][k])))
                return -1;
    }
    return 0;
}

/* ---- going below */

/* Below a level the modes are those from outside it: gradients are recorded only if they were before the grad level
 * turned them on, and the autograd and forward keys are excluded to match. The last level out takes the transform key
 * with it, and calls run as if there were none. */
td_lowered td_transform_lower(void)
{
    td_level *level = td_level_now;
    td_lowered before = {level, td_masks_now.include, td_masks_now.exclude, td_masks_now.grad_disabled};
    td_level_now = level ? level->outer : NULL;
    if (!td_level_now)
        td_masks_now.include &= ~TD_KEYSET(TD_KEY_TRANSFORMS);
    if (level && level->kind == TD_TRANSFORM_GRAD && !level->grad_before)
        td_masks_now.grad_disabled = true;
    td_masks_now.exclude &= ~(TD_KEYSET(TD_KEY_AUTOGRAD) | TD_KEYSET(TD_KEY_FORWARD_AD));
    if (td_masks_now.grad_disabled || td_masks_now.inference)
        td_masks_now.exclude |= TD_KEYSET(TD_KEY_AUTOGRAD);
    if (!td_forward_enabled() || (level && level->kind == TD_TRANSFORM_JVP && !level->forward_before))
        td_masks_now.exclude |= TD_KEYSET(TD_KEY_FORWARD_AD);
    return before;
}

void td_transform_raise(td_lowered before)
{
    td_level_now = before.level;
    td_masks_now.include = before.include;
    td_masks_now.exclude = before.exclude;
    td_masks_now.grad_disabled = before.grad_disabled;
}

/* ---- the front */

/* A wrapper that outlived its level is its value, at whatever level that is alive; a batch without its vmap has no
 * meaning. */
static td_tensor *revive(td_frame *f, td_level *level, td_tensor *x)
{
    (void)f, (void)level;
    for (td_wrapped *w; (w = td_wrapped_of(x)) && !w->level->alive; x = w->value)
        if (w->dim >= 0)
            return td_fail(TD_E_RUNTIME, "Unsupported: a tensor of a batch was used after the vmap that made it had ended");
    return x;
}

/* At a grad or jvp level every operand is wrapped, constants too (dim -1), so that the derivative kernels record this
 * level's history on this level's heads and leave the tensors inside alone. */
static td_tensor *lift(td_frame *f, td_level *level, td_tensor *x)
{
    return td_wrapped_at(x, level) ? x : td_frame_keep(f, td_wrap(level, td_tensor_retain(x), -1));
}

/* In-place operators return what they were called on, not what that was lifted to. */
static void return_operands(const td_op *op, const td_value *arguments, const td_frame *f, td_value *results)
{
    for (int r = 0; r < op->info.n_results; r++)
        for (int i = 0; results[r].kind == TD_VALUE_TENSOR && i < f->count; i++)
            if (op->info.arguments[i].is_mutable && f->values[i].kind == TD_VALUE_TENSOR &&
                results[r].tensor == f->values[i].tensor && results[r].tensor != arguments[i].tensor) {
                td_tensor_release(results[r].tensor);
                results[r].tensor = td_tensor_retain(arguments[i].tensor);
            }
}

/* Of a view whose base has a tangent, too: Note [Views of what becomes dual]. */
static td_keyset history_keys(const td_frame *f)
{
    td_keyset keys = 0;
    for (int i = 0; i < f->count; i++) {
        const td_value *v = &f->values[i];
        td_tensor *const *tensors = v->kind == TD_VALUE_TENSORS ? v->tensors : &v->tensor;
        const int n = v->kind == TD_VALUE_TENSORS ? v->count : v->kind == TD_VALUE_TENSOR;
        for (int k = 0; k < n; k++)
            keys |= tensors[k]->keys | (tensors[k]->base ? tensors[k]->base->keys & TD_KEYSET(TD_KEY_FORWARD_AD) : 0);
    }
    return keys & (TD_KEYSET(TD_KEY_AUTOGRAD) | TD_KEYSET(TD_KEY_FORWARD_AD));
}

/* What a derivative is taken of must not write to what it was not given: a tensor that is neither an argument nor made inside. */
static int fail_captured(const td_op *op)
{
    return td_error(TD_E_RUNTIME, "During a grad (vjp, jvp, grad, etc) transform, the function provided attempted to call in-place "
                    "operation (%s::%s%s%s) that would mutate a captured Tensor. This is not supported; please rewrite the function "
                    "being transformed to explicitly accept the mutated Tensor(s) as inputs.", td_op_space(op), op->info.name, *op->info.overload ? "." : "",
                    op->info.overload);
}

/* What was defined at run time as made of other operators, without a registered gradient or kernel: its parts have derivatives at
 * this level, and it has none. */
static bool comes_apart(const td_op *op, td_keyset keys)
{
    int device = 63 - __builtin_clzll((keys & TD_KEYS_DEVICES) | 1);
    return td_op_has_default(op) && !td_has_gradient_kernel(op) && !td_op_has_kernel(op, TD_KEY_DENSE, device);
}

/* The kernel of TD_KEY_TRANSFORMS: a call while a level is open comes here before autocast and autograd see it. A
 * vmap level handles its call whole. At a grad or jvp level the operands are lifted, the call goes on through the
 * autograd keys that they carry, and ends in lower_end, which continues below the level. At a functionalize level it goes on to that
 * key's kernel, past autograd: below the level it is recorded. */
static int front(const td_op *op, td_keyset keys, const td_value *arguments, td_value *results, void *context)
{
    (void)context;
    td_frame f;
    td_level *level = td_level_now;
    if (op->info.n_arguments > TD_MOST_ARGUMENTS)
        return td_error(TD_E_RUNTIME, "%s: too many arguments for a transform", op->info.name);
    if (td_frame_begin(&f, op, arguments) != 0)
        return -1;
    int status = frame_map(&f, revive, level);
    if (status != 0) {
    } else if (!level) {
        td_masks before = td_thread_masks();
        td_masks_now.include &= ~TD_KEYSET(TD_KEY_TRANSFORMS);
        status = td_op_call(op, f.values, results);
        td_set_thread_masks(before);
        if (status == 0)
            return_operands(op, arguments, &f, results);
    } else if (level->kind == TD_TRANSFORM_VMAP) {
        status = td_vmap_call(op, keys, level, f.values, results);
    } else if (level->kind == TD_TRANSFORM_FUNCTIONALIZE) {
        status = td_op_call_keys(op, (keys & (TD_KEYSET(TD_KEY_PROFILER) | TD_KEYSET(TD_KEY_TRACING))) | TD_KEYSET(TD_KEY_FUNCTIONALIZE),
                                 f.values, results);
    } else if (op->info.flags & TD_OP_INPLACE && f.values[0].kind == TD_VALUE_TENSOR && !td_wrapped_at(f.values[0].tensor, level)) {
        status = fail_captured(op);
    } else if ((status = frame_map(&f, lift, level)) == 0) {
        td_keyset around = TD_KEYSET(TD_KEY_PROFILER) | TD_KEYSET(TD_KEY_TRACING) | TD_KEYSET(TD_KEY_AUTOCAST) |
                           TD_KEYSET(TD_KEY_FUNCTIONALIZE);
        keys = comes_apart(op, keys) ? keys & around
                                     : (keys & around) | TD_KEYSET(TD_KEY_UNWRAP) | (history_keys(&f) & ~td_masks_now.exclude);
        status = td_op_call_keys(op, keys, f.values, results);
        if (status == 0)
            return_operands(op, arguments, &f, results);
    }
    td_frame_end(&f);
    return status;
}

/* ---- the lower end of a grad or jvp level */

static td_tensor *unwrap(td_frame *f, td_level *level, td_tensor *x)
{
    (void)f;
    td_wrapped *w = td_wrapped_at(x, level);
    return w ? w->value : x;
}

/* The wrapper among the operands whose value is, or shares memory with, `value`. */
static td_tensor *operand_like(int n, const td_value *arguments, const td_level *level, const td_tensor *value, bool same)
{
    for (int i = 0; i < n; i++) {
        const td_value *v = &arguments[i];
        td_tensor *const *list = v->kind == TD_VALUE_TENSORS ? v->tensors : &v->tensor;
        int count = v->kind == TD_VALUE_TENSORS ? v->count : v->kind == TD_VALUE_TENSOR;
        for (int k = 0; k < count; k++) {
            td_wrapped *w = td_wrapped_at(list[k], level);
            if (w && (same ? w->value == value : w->value->storage == value->storage))
                return list[k];
        }
    }
    return NULL;
}

/* Wraps one result, which is taken over. */
static td_tensor *wrap_result(const td_op *op, const td_value *arguments, td_level *level, td_tensor *value)
{
    if (!value || value == TD_NONE)
        return value;
    int n = op->info.n_arguments;
    td_tensor *operand = operand_like(n, arguments, level, value, true);
    if (operand) {
        td_tensor_retain(operand);
        td_tensor_release(value);
        return operand;
    }
    operand = value->base || op->info.flags & TD_OP_VIEW ? operand_like(n, arguments, level, value, false) : NULL;
    unsigned multi = value->flags & TD_FLAG_MULTI_VIEW;
    td_tensor *x = td_wrap(level, value, -1);
    if (!x || !operand || op->info.flags & TD_OP_DETACHES)
        return x;
    x->base = td_tensor_retain(operand->base ? operand->base : operand);
    x->flags |= (uint16_t)(multi | (operand->flags & (TD_FLAGS_OF_CREATION | TD_FLAG_PRIMAL)) | td_creation_flags());
    x->keys |= TD_KEYSET(TD_KEY_AUTOGRAD);
    x->attr_version = td_tensor_version(x);
    return x;
}

/* The kernel of TD_KEY_UNWRAP, behind the derivatives: the same call on what this level's wrappers hold, one level
 * out; results are wrapped again, mutated operands refreshed. frame_map can't fail with unwrap, which makes nothing. */
static int lower_end(const td_op *op, td_keyset keys, const td_value *arguments, td_value *results, void *context)
{
    (void)keys, (void)context;
    td_level *level = td_level_now;
    td_frame f;
    if (!level)
        return td_error(TD_E_RUNTIME, "%s: a wrapped tensor was used outside the transform that made it", op->info.name);
    if (td_frame_begin(&f, op, arguments) != 0)
        return -1;
    frame_map(&f, unwrap, level);
    td_lowered before = td_transform_lower();
    int status = td_op_call(op, f.values, results);
    td_transform_raise(before);
    td_frame_end(&f);
    if (status != 0)
        return -1;
    for (int i = 0; i < op->info.n_arguments; i++)
        if (op->info.arguments[i].is_mutable && arguments[i].kind == TD_VALUE_TENSOR &&
            td_wrapped_at(arguments[i].tensor, level))
            status |= td_wrapper_refresh(arguments[i].tensor);
    for (int r = 0; r < op->info.n_results; r++) {
        if (results[r].kind == TD_VALUE_TENSOR && !(results[r].tensor = wrap_result(op, arguments, level, results[r].tensor)))
            status = -1;
        td_tensor **items = (td_tensor **)results[r].tensors;
        for (int k = 0; results[r].kind == TD_VALUE_TENSORS && k < results[r].count; k++)
            if (!(items[k] = wrap_result(op, arguments, level, items[k])))
                status = -1;
    }
    if (status != 0)
        td_values_release(results, op->info.n_results);
    return status;
}

/* ---- entering and leaving */

/* A backward pass may run nodes on another thread: it carries the level over, by exchanging it before and after. */
static void swap_level(void *state)
{
    td_level **other = state, *level = td_level_now;
    td_level_now = *other;
    *other = level;
}

static int register_ends(void)
{
    return td_register_fallback(TD_KEY_TRANSFORMS, TD_CPU, front, NULL) == 0 &&
           td_register_fallback(TD_KEY_UNWRAP, TD_CPU, lower_end, NULL) == 0 &&
           td_backward_carry(&(td_carried_state){sizeof td_level_now, swap_level, NULL, NULL}) == 0 ? 0 : -1;
}

int td_transform_enter(td_transform kind, int64_t size, td_randomness randomness)
{
    static td_once once;
    if (td_once_run(&once, register_ends) != 0)
        return -1;
    td_level *level = td_mem_alloc_zero(sizeof *level);
    if (!level)
        return -1;
    level->refcount = 1;
    level->outer = td_level_now;        /* takes over this thread's reference */
    level->number = td_level_now ? td_level_now->number + 1 : 1;
    level->kind = (uint8_t)kind;
    level->randomness = (uint8_t)randomness;
    level->alive = true;
    level->grad_before = !td_masks_now.grad_disabled;
    level->forward_before = td_forward_enabled();
    level->size = size;
    td_level_now = level;
    td_masks_now.include |= TD_KEYSET(TD_KEY_TRANSFORMS);
    if (kind == TD_TRANSFORM_GRAD)
        td_set_grad_enabled(true);
    else if (kind == TD_TRANSFORM_JVP)
        td_set_forward_enabled(true);
    return level->number;
}

void td_transform_leave(void)
{
    td_level *level = td_level_now;
    if (!level)
        return;
    level->alive = false;
    td_level_now = level->outer;
    if (!td_level_now)
        td_masks_now.include &= ~TD_KEYSET(TD_KEY_TRANSFORMS);
    if (level->kind == TD_TRANSFORM_GRAD)
        td_set_grad_enabled(level->grad_before);
    else if (level->kind == TD_TRANSFORM_JVP)
        td_set_forward_enabled(level->forward_before);
    if (level->outer)                   /* a wrapper may keep the record, and with it the outer one */
        __atomic_fetch_add(&level->outer->refcount, 1, __ATOMIC_RELAXED);
    level_release(level);
}

int          td_transform_level(void) { return td_level_now ? td_level_now->number : 0; }
td_transform td_transform_kind(void) { return td_level_now ? (td_transform)td_level_now->kind : TD_TRANSFORM_VMAP; }
bool         td_transform_is_open(td_transform kind)
{
    const td_level *level = td_level_now;
    while (level && level->kind != kind)
        level = level->outer;
    return level;
}
int64_t      td_transform_size(void) { return td_level_now ? td_level_now->size : 0; }
td_randomness td_transform_randomness(void) { return td_level_now ? (td_randomness)td_level_now->randomness : TD_RANDOM_ERROR; }

td_tensor *td_transform_wrap(td_tensor *x, int dim)
{
    if (!x || !td_level_now)
        return x ? td_fail(TD_E_RUNTIME, "no transform is open on this thread") : NULL;
    return td_wrap(td_level_now, td_tensor_retain(x), dim);
}

td_tensor *td_transform_unwrap(td_tensor *x, int level, int *dim)
{
    int none;
    dim = dim ? dim : &none;
    *dim = -1;
    td_wrapped *w = x ? td_wrapped_of(x) : NULL;
    if (!w || !(level < 0 || (level == 0 ? w->level == td_level_now : w->level->alive && w->level->number == level)))
        return td_tensor_retain(x);
    *dim = w->dim;
    return td_tensor_retain(w->value);
}

int td_wrapper_level(const td_tensor *x)
{
    td_wrapped *w = td_wrapped_of(x);
    return !w ? 0 : w->level->alive ? w->level->number : -1;
}
bool td_wrapper_is_batch(const td_tensor *x)
{
    td_wrapped *w = td_wrapped_of(x);
    return w && w->dim >= 0;
}
bool td_wrapper_any(const td_tensor *x, bool (*is)(const td_tensor *x))
{
    bool found = is(x);
    for (td_wrapped *w; !found && (w = td_wrapped_of(x)); x = w->value)
        found = is(w->value);
    return found;
}
