/* Autocast: boxed kernels on the Autocast key of the operators whose traits have a policy (`autocast:` of the entry), and
 * nothing on any other.
 *
 * The first thread to turn autocast on registers them.  A thread that has it on
 * includes the key, so calls of these operators come here first: operands are cast, by the same recorded conversion
 * that Tensor.to is, and the call goes on without the key, for all that it is made of too.
 *
 * A weight is used by many calls, so casts of leaves that need a gradient are kept until the outermost end: they share one
 * node, too.  What was written since, or was cast when gradients were off and is needed when they are on, is cast anew. */
#include "calls_transforms_autocast.h"
#include "base/once.h"
#include <stdio.h>
#include <string.h>
#include <tede/autocast.h>
#include <tede/autograd_nodes.h>
#include "transforms/level.h"

/* ---- a thread's state */

typedef struct kept { td_tensor *source, *cast; uint32_t version; bool recorded; struct kept *next; } kept;

static _Thread_local struct state {
    int8_t dtypes[TD_DEVICE_TYPES];         /* by the type of device whose operands are cast */
    bool   cached;
} now = {{[0 ... TD_DEVICE_TYPES - 1] = TD_DTYPE_NONE}, true};
static _Thread_local int   depth;
static _Thread_local kept *casts;

void td_autocast_clear_cache(void)
{
    while (casts) {
        kept *k = casts;
        casts = k->next;
        td_tensor_release(k->source);
        td_tensor_release(k->cast);
        td_mem_free(k, sizeof *k);
    }
}

/* ---- casts */

static int (*type_of_object)(const td_tensor *x);

void td_autocast_set_type_of(int (*type_of)(const td_tensor *x)) { type_of_object = type_of; }

static int type_of(const td_tensor *x)
{
    if (TD_UNLIKELY(x->device.type == TD_META && x->flags & TD_FLAG_PYTHON && type_of_object)) {
        const int type = type_of_object(x);
        return type >= 0 && type < TD_DEVICE_TYPES ? type : TD_META;
    }
    return x->device.type;
}

static bool eligible(const td_tensor *x)
{
    return x != TD_NONE && td_dtype_is_floating((td_dtype)x->dtype) && x->dtype != TD_F64 && now.dtypes[type_of(x)] != TD_DTYPE_NONE;
}

static kept **find(const td_tensor *x)
{
    kept **at = &casts;
    while (*at && (*at)->source != x)
        at = &(*at)->next;
    return at;
}

/* The cast of a leaf that needs a gradient: a new reference. */
static td_tensor *cast_kept(td_tensor *x, td_dtype dtype)
{
    kept **at = find(x), *k = *at;
    const bool recorded = td_grad_enabled();
    if (k && k->cast->dtype == dtype && k->version == td_tensor_version(x) && k->recorded == recorded)
        return td_tensor_retain(k->cast);
    td_tensor *made = td_to(x, dtype);
    if (!made)
        return NULL;
    if (!k) {
        k = td_mem_alloc(sizeof *k);
        if (!k) {
            td_tensor_release(made);
            return NULL;
        }
        *k = (kept){td_tensor_retain(x), NULL, 0, false, NULL};
        *at = k;
    }
    td_tensor_release(k->cast);
    k->cast = td_tensor_retain(made);
    k->version = td_tensor_version(x);
    k->recorded = recorded;
    return made;
}

static td_tensor *cast(td_frame *f, td_tensor *x, td_dtype dtype)
{
    if (x->dtype == dtype)
        return x;
    const bool keep = now.cached && depth && dtype == (td_dtype)now.dtypes[type_of(x)] && x->dtype == TD_F32 && x->flags & TD_FLAG_REQUIRES_GRAD &&
                      !x->base && !td_wrapped_of(x) && !(x->flags & TD_FLAG_INFERENCE);
    return td_frame_keep(f, keep ? cast_kept(x, dtype) : td_to(x, dtype));
}

/* The k-th tensor of argument i, or NULL behind the last. */
static td_tensor **member(td_frame *f, int i, int k)
{
    td_value *v = &f->values[i];
    if (v->kind == TD_VALUE_TENSORS)
        return k < v->count ? &f->lists[i][k] : NULL;
    return v->kind == TD_VALUE_TENSOR && k == 0 ? &v->tensor : NULL;
}

/* By the device of the first operand that would be cast, else of the first one. */
static td_autocast_policy policy_of(td_frame *f, const td_op_traits *traits)
{
    td_tensor **x;
    int type = TD_CPU;
    bool met = false, found = false;
    for (int i = 0; i < f->count && !found; i++)
        for (int k = 0; !found && (x = member(f, i, k)); k++) {
            found = eligible(*x);
            type = *x != TD_NONE && (found || !met) ? type_of(*x) : type;
            met |= *x != TD_NONE;
        }
    return type > TD_META && traits->autocast_devices ? traits->autocast_devices : traits->autocast;
}

static int cast_all(td_frame *f, const td_op *op, td_autocast_policy how)
{
    if (how == TD_AUTOCAST_UNSAFE)
        return td_error(TD_E_RUNTIME, "%s is unsafe to autocast: it takes probabilities, of which half types leave only 0 and 1 near the ends. Use one "
                        "of logits, as binary_cross_entropy_with_logits is, which is safe to autocast", op->info.name);
    bool wide = how == TD_AUTOCAST_FP32;
    td_tensor **x;
    for (int i = 0; how == TD_AUTOCAST_PROMOTE && i < f->count; i++)
        for (int k = 0; (x = member(f, i, k)); k++)
            if (eligible(*x) && (*x)->dtype == TD_F32)
                wide = true;
    for (int i = 0; i < f->count; i++)
        for (int k = 0; (x = member(f, i, k)); k++)
            if (eligible(*x) && !(*x = cast(f, *x, wide ? TD_F32 : (td_dtype)now.dtypes[type_of(*x)])))
                return -1;
    return 0;
}

static int call(const td_op *op, td_keyset keys, const td_value *arguments, td_value *results, void *context)
{
    (void)context;
    td_frame f;
    if (td_frame_begin(&f, op, arguments) != 0)
        return -1;
    const td_autocast_policy how = policy_of(&f, op->info.traits);
    if (how == TD_AUTOCAST_AS_IT_IS || how == TD_AUTOCAST_NOT) {        /* what it is made of has policies */
        td_frame_end(&f);
        return td_op_call_keys(op, keys & (TD_KEYSET(TD_KEY_AUTOCAST) - 1), arguments, results);
    }
    const td_keyset on = td_masks_now.include & TD_KEYSET(TD_KEY_AUTOCAST);
    td_masks_now.include &= ~on;
    int status = cast_all(&f, op, how);
    if (status == 0)
        status = td_op_call(op, f.values, results);
    td_masks_now.include |= on;
    td_frame_end(&f);
    return status;
}

/* ---- turning it on */

int td_autocast_register(const td_op *op)
{
    return td_op_set_boxed((td_op *)op, td_key_slot(TD_KEY_AUTOCAST, TD_CPU), call, NULL);
}

static void swap_state(void *state)
{
    struct state *other = state, mine = now;
    now = *other;
    *other = mine;
}

/* A kernel that somebody has registered before stays. What is carried can't be taken back, so it comes last. */
static int register_all(void)
{
    for (int i = 0; i < td_op_count(); i++) {
        const td_op *op = td_op_at(i);
        if (op && (op->info.traits->autocast || op->info.traits->autocast_devices) && !td_op_has_kernel(op, TD_KEY_AUTOCAST, TD_CPU) && td_autocast_register(op) != 0)
            return -1;
    }
    return td_backward_carry(&(td_carried_state){sizeof now, swap_state, NULL, NULL});
}

td_autocast td_autocast_now(void) { return td_autocast_now_on(TD_CPU); }

td_autocast td_autocast_now_on(int device_type)
{
    const bool known = device_type >= 0 && device_type < TD_DEVICE_TYPES;
    return (td_autocast){known ? (td_dtype)now.dtypes[device_type] : TD_DTYPE_NONE, now.cached, device_type};
}

int td_autocast_set(td_autocast state)
{
    static td_once once;
    if (state.dtype != TD_DTYPE_NONE && td_once_run(&once, register_all) != 0)
        return -1;
    if (state.device_type < 0 || state.device_type >= TD_DEVICE_TYPES)
        return td_error(TD_E_VALUE, "autocast: there is no type %d of devices", state.device_type);
    now.dtypes[state.device_type] = (int8_t)state.dtype;
    now.cached = state.cached;
    bool on = false;
    for (int type = 0; type < TD_DEVICE_TYPES; type++)
        on |= now.dtypes[type] != TD_DTYPE_NONE;
    td_masks_now.include &= ~TD_KEYSET(TD_KEY_AUTOCAST);
    if (on)
        td_masks_now.include |= TD_KEYSET(TD_KEY_AUTOCAST);
    return 0;
}

int td_autocast_deeper(int by)
{
    depth = depth + by > 0 ? depth + by : 0;
    if (!depth)
        td_autocast_clear_cache();
    return depth;
}

int td_autocast_begin(td_autocast *before, td_dtype dtype, bool cached)
{
    td_autocast was = td_autocast_now();
    if (td_autocast_set((td_autocast){dtype, cached, TD_CPU}) != 0)
        return -1;
    td_autocast_deeper(1);
    *before = was;
    return 0;
}

void td_autocast_end(td_autocast before)
{
    if (td_autocast_set(before) != 0)           /* cannot be: what held before has been set before */
        td_error_clear();
    td_autocast_deeper(-1);
}
