/* Saving variables for the backward pass, and getting them back: Note [Saved variables] in node.h. */
#include <tede/transforms.h>
#include "autograd/engine.h"
#include "autograd/hooks.h"
#include "autograd/needs.h"
#include "autograd/node.h"
#include "autograd/saved.h"
#include "autograd/tangent.h"
#include "base/watch.h"
#include "dispatch/outputs.h"
#include "dispatch/writes.h"
#include <stdio.h>

/* ---- saved-tensor hooks: a stack per thread.  What was packed keeps the pair of hooks alive. */

typedef struct hooks_entry {
    int64_t               refcount;
    const td_saved_hooks *hooks;
    void                 *context;
    struct hooks_entry   *below;
} hooks_entry;

typedef struct packed {
    int64_t      refcount;
    hooks_entry *hooks;
    void        *handle;
    td_edge      history;       /* where the gradient of an operand goes */
} packed;

static TD_TLS hooks_entry *hooks_top;
static TD_TLS char *disabled;

static void hooks_release(hooks_entry *entry)
{
    if (!entry || __atomic_sub_fetch(&entry->refcount, 1, __ATOMIC_ACQ_REL) != 0)
        return;
    if (entry->hooks->drop)
        entry->hooks->drop(entry->context);
    td_mem_free(entry, sizeof *entry);
}

int td_saved_hooks_push(const td_saved_hooks *hooks, void *context)
{
    if (disabled)
        return td_error(TD_E_RUNTIME, "%s", disabled);
    hooks_entry *entry = td_mem_alloc(sizeof *entry);
    if (!entry)
        return -1;
    *entry = (hooks_entry){1, hooks, context, hooks_top};
    hooks_top = entry;
    return 0;
}

void td_saved_hooks_pop(void)
{
    hooks_entry *entry = hooks_top;
    if (!entry)
        return;
    hooks_top = entry->below;
    entry->below = NULL;
    hooks_release(entry);
}

void *td_saved_hooks_swap(void *stack)
{
    void *before = hooks_top;
    hooks_top = stack;
    return before;
}

void *td_saved_hooks_top(void) { return hooks_top; }

/* Pops down to `top` if that is still in the stack; else nothing, for then somebody else has replaced the stack. */
void td_saved_hooks_unwind(void *top)
{
    const hooks_entry *entry = hooks_top;
    while (entry && entry != top)
        entry = entry->below;
    while (entry == top && hooks_top != top)
        td_saved_hooks_pop();
}

int td_saved_hooks_disable(const char *message)
{
    char *copy = NULL;
    size_t size = message ? strlen(message) + 1 : 0;
    if (message && hooks_top)
        return td_error(TD_E_RUNTIME, "%s", message);
    if (message && !(copy = td_mem_alloc(size)))
        return -1;
    if (message)
        memcpy(copy, message, size);
    if (disabled)
        td_mem_free(disabled, strlen(disabled) + 1);
    disabled = copy;
    return 0;
}

const char *td_saved_hooks_disabled(void) { return disabled; }

static void packed_release(packed *p)
{
    if (!p || __atomic_sub_fetch(&p->refcount, 1, __ATOMIC_ACQ_REL) != 0)
        return;
    if (p->hooks->hooks->drop_handle)
        p->hooks->hooks->drop_handle(p->handle);
    hooks_release(p->hooks);
    td_node_release(p->history.node);
    td_mem_free(p, sizeof *p);
}

/* The same elements without history: by the class's own detach where there is one. */
static td_tensor *alias_of(td_tensor *x)
{
    return TD_UNLIKELY(x->flags & TD_FLAG_PYTHON) ? td_need_detach(x) : td_alias_detached(x, false);
}

/* The hooks see an operand as itself (a parameter, say), and of a result an alias without history, since what they keep of it would
 * hold the node that holds what they keep.  What they compute is not recorded. */
static int pack(td_saved *slot, td_tensor *x, hooks_entry *hooks)
{
    packed *p = td_mem_alloc_zero(sizeof *p);
    td_tensor *alias = slot->output < 0 ? td_retain_fast(x) : alias_of(x);
    if (!p || !alias || (slot->output < 0 && td_gradient_edge(x, &p->history) != 0)) {
        td_tensor_release(alias);
        td_mem_free(p, sizeof *p);
        return -1;
    }
    p->refcount = 1;
    p->hooks = hooks;
    __atomic_fetch_add(&p->hooks->refcount, 1, __ATOMIC_RELAXED);
    hooks_entry *top = hooks_top;
    uint32_t version = td_tensor_version(alias);
    bool before = td_set_grad_enabled(false);
    hooks_top = NULL;                       /* what the hook saves is not packed again */
    int status = hooks->hooks->pack(hooks->context, alias, &p->handle);
    hooks_top = top;
    td_set_grad_enabled(before);
    if (status == 0 && td_tensor_version(alias) != version) {
        if (hooks->hooks->drop_handle)
            hooks->hooks->drop_handle(p->handle);
        status = td_error(TD_E_RUNTIME, "A saved tensor pack hook is modifying its input in place. Tensors provided as input to "
                          "pack hook can not be modified by in-place operations as this can lead to unexpected side-effects. Please "
                          "open an issue if you need to perform in-place operations on the input to a pack hook.");
    }
    td_tensor_release(alias);
    if (status != 0) {
        hooks_release(p->hooks);
        td_node_release(p->history.node);
        td_mem_free(p, sizeof *p);
        return -1;
    }
    slot->packed = p;
    return 0;
}

/* ---- saving */

/* td_values_saved is set once and never cleared: until then in-place operators needn't note their writes. It is a
 * hint for messages, so relaxed order does. */
static int save(td_node *node, int i, td_tensor *x, int output)
{
    td_saved *slot = &node->saved[i];
    if (TD_UNLIKELY(x->flags & TD_FLAG_INFERENCE) && !td_masks_now.inference)
        return td_error(TD_E_RUNTIME, "Inference tensors cannot be saved for backward. Please do not use Tensors created in "
                        "inference mode in computation tracked by autograd. To work around this, you can make a clone to get a normal "
                        "tensor and use it in autograd, or use `torch.no_grad()` instead of `torch.inference_mode()`.");
    slot->output = output;
    slot->version = td_tensor_version(x);
    if (!__atomic_load_n(&td_values_saved, __ATOMIC_RELAXED))
        __atomic_store_n(&td_values_saved, true, __ATOMIC_RELAXED);
    TD_EMIT(.kind = TD_EVENT_SAVE, .tensor = x, .name = td_node_name(node), .pointer = node);
    if (TD_UNLIKELY(hooks_top != NULL) && !(x->flags & TD_FLAG_WRAPPED_NUMBER))     /* a number is no tensor to programs */
        return pack(slot, x, hooks_top);
    slot->tensor = output < 0 ? td_retain_fast(x) : alias_of(x);
    return slot->tensor ? 0 : -1;
}

int td_node_save(td_node *node, int i, td_tensor *operand)
{
    if (TD_UNLIKELY(!operand))
        return td_error_code() != TD_OK ? -1 : td_error(TD_E_VALUE, "%s: an operand to save is NULL", td_node_name(node));
    if (operand == TD_NONE) {
        node->saved[i].output = TD_SAVED_OPERAND;
        return 0;
    }
    return save(node, i, operand, operand->autograd && operand->autograd->grad_fn ? TD_SAVED_RESULT_OF_ANOTHER : TD_SAVED_OPERAND);
}

int td_node_save_result(td_node *node, int i, td_tensor *result, int output)
{
    if (TD_UNLIKELY(!result || result == TD_NONE))
        return td_node_save(node, i, result);
    return save(node, i, result, output);
}

/* See saved.h. The alias shares the version counter, and the slot keeps the version it was saved at, so that
 * unpacking it still reports the write. */
int td_saved_untie(td_node *node, td_tensor *x)
{
    td_tensor *root = x->base ? x->base : x;
    for (int i = 0; i < node->n_saved; i++) {
        td_saved *slot = &node->saved[i];
        td_tensor *t = slot->tensor;
        if (!t || slot->output >= 0 || (t != root && t->base != root))
            continue;
        td_tensor *alias = alias_of(t);
        if (!alias)
            return -1;
        slot->tensor = alias;
        slot->output = TD_SAVED_OPERAND;
        td_tensor_release(t);
    }
    return 0;
}

/* Fields are taken under the lock, which td_node_saved reads them under, and released outside it, since that may run
 * anything. */
void td_node_release_saved(td_node *node)
{
    for (int i = 0; i < node->n_saved; i++) {
        td_saved *slot = &node->saved[i];
        if (!slot->tensor && !slot->packed)
            continue;
        td_lock(&node->lock);
        td_tensor *tensor = slot->tensor;
        packed *p = slot->packed;
        slot->tensor = NULL;
        slot->packed = NULL;
        node->released = true;
        td_unlock(&node->lock);
        td_tensor_release(tensor);
        packed_release(p);
    }
    if (node->type->release_saved)
        node->type->release_saved(node);
}

void td_node_free_saved(td_node *node) { td_node_release_saved(node); }

/* ---- who wrote last, for messages: a ring of recent writes.  In anomaly mode a write has a record of its line. */

enum { WRITES = 256 };
static struct { const char *op; uint32_t counter, version; void *record; } writes[WRITES];      /* `counter`: td_version_name */
static uint32_t n_writes;
static uint8_t writes_lock;
bool td_values_saved;

static td_drop *drop_record;            /* of the last hooks: records outlive the mode that made them */

void td_note_write(td_tensor *x, const char *op, uint32_t version)
{
    if (x->flags & TD_FLAG_INFERENCE || !(x->storage || x->own_version))
        return;
    const td_anomaly_hooks *hooks = TD_UNLIKELY(td_anomaly_is_on()) ? td_anomaly_hooks_now() : NULL;
    void *record = hooks && hooks->line ? hooks->record(NULL) : NULL;
    uint32_t counter = td_version_name(x);
    td_lock(&writes_lock);
    uint32_t at = n_writes++ % WRITES;
    void *old = writes[at].record;
    td_drop *drop_old = drop_record;
    writes[at].op = op;
    writes[at].counter = counter;
    writes[at].version = version;
    writes[at].record = record;
    if (record)
        drop_record = hooks->drop;
    td_unlock(&writes_lock);
    if (TD_UNLIKELY(old != NULL))
        drop_old(old);
}

/* The operator of the first write after `version`, and the record of its line, which is the caller's; NULL if it isn't known.
 * The latest entry counts: a call is entered after those that it made. */
static const char *writer_after(const td_tensor *x, uint32_t version, void **record)
{
    const char *op = NULL;
    uint32_t counter = td_version_name(x);
    *record = NULL;
    td_lock(&writes_lock);
    for (uint32_t back = 1; back <= WRITES && !op; back++) {
        uint32_t at = (n_writes - back) % WRITES;
        if (writes[at].op && writes[at].counter == counter && writes[at].version == version + 1) {
            op = writes[at].op;
            *record = writes[at].record;
            writes[at].record = NULL;
        }
    }
    td_unlock(&writes_lock);
    return op;
}

/* ---- unpacking */

static void *fail_freed(void)
{
    return td_fail(TD_E_RUNTIME, "Trying to backward through the graph a second time (or directly access saved tensors after "
                   "they have already been freed). Saved intermediate values of the graph are freed when you call .backward() "
                   "or autograd.grad(). Specify retain_graph=True if you need to backward through the graph a "
                   "second time or if you need to access saved tensors after calling backward.");
}

/* PyTorch's messages call AddBackward0 Add, and a Function's FooBackward Foo. */
int td_node_short_name(const char *name)
{
    size_t length = strlen(name);
    while (length && name[length - 1] >= '0' && name[length - 1] <= '9')
        length--;
    return length > 8 && !memcmp(name + length - 8, "Backward", 8) ? (int)length - 8 : (int)strlen(name);
}

static void *fail_overwritten(td_node *node, const td_saved *slot, td_tensor *x, uint32_t now)
{
    char maker[160] = "", writer[400] = "", saver[300] = "", line[200];
    td_shape_text shape;
    td_node *made_by = node;
    int output = slot->output;
    if (output < 0) {
        if (td_gradient_fn(x, &made_by) != 0)
            td_error_clear(), made_by = NULL;
        output = made_by ? x->autograd->output : 0;
    }
    if (made_by)
        snprintf(maker, sizeof maker, ", which is output %d of %.*s,", output, td_node_short_name(td_node_name(made_by)),
                 td_node_name(made_by));
    const td_anomaly_hooks *hooks = td_anomaly_hooks_now();
    void *record = td_node_record(node);
    if (record && hooks && hooks->line) {
        hooks->line(record, line);
        snprintf(saver, sizeof saver, " (%s)", line);
    }
    const char *op = writer_after(x, slot->version, &record);
    if (op) {
        int length = snprintf(writer, sizeof writer, ", and %s wrote over it", op);
        if (record && hooks && hooks->line) {
            hooks->line(record, line);
            snprintf(writer + length, sizeof writer - (size_t)length, " (%s)", line);
        }
    }
    if (record)
        drop_record(record);
    return td_fail(TD_E_RUNTIME, "one of the variables needed for gradient computation has been modified by an inplace "
                   "operation: [torch.%sTensor %s]%s is at version %u; expected version %u instead. %s had saved it%s%s. Hint: %s",
                   td_dtype_title(x->dtype), td_shape_str(x->ndim, x->sizes, shape), maker, now, slot->version,
                   td_node_name(node), saver, writer, *saver ? "the backtrace further above shows the operation that failed to compute its "
                   "gradient." : "enable anomaly detection to find the lines of both, with torch.autograd.set_detect_anomaly(True, "
                   "check_nan=False).");
}

/* An alias of x whose history is the node that saved it as its result, or where an operand's gradient goes. */
static td_tensor *with_history(td_tensor *x, td_node *node, int output, bool is_result)
{
    td_tensor *alias = alias_of(x);
    int status = !alias ? -1 : is_result ? td_set_result_history(alias, node, output)
                                         : td_set_gradient_edge(alias, node, output);
    if (status == 0 && td_tangent(x))
        status = td_set_tangent(alias, td_tangent(x));
    if (status == 0)
        return alias;
    td_tensor_release(alias);
    return NULL;
}

static td_tensor *unpack(td_node *node, int output, packed *p)
{
    hooks_entry *entry = p->hooks;
    td_tensor *x = entry->hooks->unpack(entry->context, p->handle), *result = x;
    if (!x || !td_is_differentiable(x->dtype))
        return x;
    if (output >= 0)
        result = with_history(x, node, output, true);
    else if (p->history.node)
        result = with_history(x, p->history.node, p->history.input, false);
    if (result != x)
        td_tensor_release(x);
    return result;
}

/* The reference is taken under the lock, since another thread's pass may release the variable; all else happens
 * outside. The version is compared after: a write between saving and here is an error, whoever made it. */
td_tensor *td_node_saved(td_node *node, int i)
{
    td_saved *slot = &node->saved[i];
    td_lock(&node->lock);
    td_tensor *x = slot->tensor;
    packed *p = slot->packed;
    if (x)
        td_retain_fast(x);
    else if (p)
        __atomic_fetch_add(&p->refcount, 1, __ATOMIC_RELAXED);
    bool released = node->released;
    td_unlock(&node->lock);
    if (TD_UNLIKELY(!x)) {
        if (!p)
            return released ? fail_freed() : TD_NONE;
        x = unpack(node, slot->output, p);
        packed_release(p);
        return x;
    }
    uint32_t now = td_tensor_version(x);
    if (TD_UNLIKELY(now != slot->version)) {
        fail_overwritten(node, slot, x, now);
        td_tensor_release(x);
        return NULL;
    }
    if (TD_UNLIKELY(slot->output == TD_SAVED_RESULT_OF_ANOTHER && !(x->autograd && x->autograd->grad_fn))) {
        td_tensor_release(x);
        return td_fail(TD_E_RUNTIME, "Trying to use a saved tensor that has been detached in-place, i.e. with .detach_().This is not "
                       "supported, please use out-of-place `.detach()` instead");
    }
    if (slot->output < 0 || !td_grad_enabled() || !td_is_differentiable(x->dtype))
        return x;
    td_tensor *result = with_history(x, node, slot->output, true);
    td_tensor_release(x);
    return result;
}

bool td_node_is_released(const td_node *node) { return node->released; }

td_tensor *td_node_saved_tensor(td_node *node, int i)
{
    if (i < 0 || i >= node->n_saved)
        return td_fail(TD_E_INDEX, "%s has saved %d tensors, and none with number %d", td_node_name(node),
                       node->n_saved, i);
    return td_node_saved(node, i);
}

int td_node_saved_hooks(td_node *node, int i, const td_saved_hooks *hooks, void *context)
{
    td_saved *slot = i >= 0 && i < node->n_saved ? &node->saved[i] : NULL;
    if (slot && slot->packed)
        return td_error(TD_E_RUNTIME, "Calling register_hooks on a saved tensor whose hooks have already been set. Hint: only one "
                        "pair of hooks is allowed at a time.");
    if (!slot || !slot->tensor)
        return node->released ? td_error(TD_E_RUNTIME, "Calling register_hooks on a saved tensor after it has been freed. Saved "
                                         "intermediate values of the graph are freed when you call .backward() or autograd.grad(). "
                                         "Specify retain_graph=True if you need to backward through the graph a second time or if you need "
                                         "to access saved variables after calling backward.")
             : td_error(TD_E_RUNTIME, "Calling register_hooks on a saved tensor with value None is forbidden");
    hooks_entry *entry = td_mem_alloc(sizeof *entry);
    if (!entry)
        return -1;
    *entry = (hooks_entry){2, hooks, context, NULL};      /* more than will be let go of: not dropped if pack fails */
    td_tensor *x = slot->tensor;
    if (pack(slot, x, entry) != 0) {
        td_mem_free(entry, sizeof *entry);
        return -1;
    }
    entry->refcount = 1;                    /* what was packed holds it */
    slot->tensor = NULL;
    td_tensor_release(x);
    return 0;
}
