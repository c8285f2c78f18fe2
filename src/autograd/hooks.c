/* Hook lists: adding, removing while running, running.  See hooks.h and the rules in <tede/autograd_nodes.h>. */
#include "autograd/hooks.h"
#include <tede/foreign.h>
#include <sched.h>

void td_spin(uint8_t *lock)
{
    for (int tries = 0; __atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE); tries++)
        if (tries > 50)
            sched_yield();
}

/* ---- one hook */

static td_hook *hook_new(td_hook_kind kind, void *context, td_drop *drop)
{
    td_hook *hook = td_mem_alloc_zero(sizeof *hook);
    if (hook) {
        hook->refcount = 1;
        hook->kind = kind;
        hook->context = context;
        hook->drop = drop;
    }
    return hook;
}

void td_hook_release(td_hook *hook)
{
    if (!hook || __atomic_sub_fetch(&hook->refcount, 1, __ATOMIC_ACQ_REL) != 0)
        return;
    if (!hook->removed && hook->drop)
        hook->drop(hook->context);
    td_mem_free(hook, sizeof *hook);
}

bool td_hook_is_removed(const td_hook *hook) { return __atomic_load_n(&hook->removed, __ATOMIC_ACQUIRE); }

/* The context goes when the last call that uses it is over. */
void td_hook_remove(td_hook *hook)
{
    if (!hook)
        return;
    td_lock(&hook->lock);
    bool last = !hook->removed && hook->running == 0;
    __atomic_store_n(&hook->removed, true, __ATOMIC_RELEASE);
    td_unlock(&hook->lock);
    if (last && hook->drop)
        hook->drop(hook->context);
}

/* running and removed change together under the hook's lock, so exactly one of the last leave() and td_hook_remove
 * drops the context. */
static bool enter(td_hook *hook)
{
    td_lock(&hook->lock);
    bool alive = !hook->removed;
    hook->running += alive;
    td_unlock(&hook->lock);
    return alive;
}

static void leave(td_hook *hook)
{
    td_lock(&hook->lock);
    bool last = --hook->running == 0 && hook->removed;
    td_unlock(&hook->lock);
    if (last && hook->drop)
        hook->drop(hook->context);
}

/* ---- lists */

void td_hooks_free(td_hook *list)
{
    while (list) {
        td_hook *next = list->next;
        td_hook_release(list);
        list = next;
    }
}

/* Append under the owner's lock; the list takes a new reference.  Removed hooks are swept out on the way. */
static td_hook *append(uint8_t *lock, td_hook **list, td_hook *hook)
{
    td_hook *swept = NULL;
    hook->refcount = 2;
    td_lock(lock);
    td_hook **at = list;
    while (*at) {
        td_hook *old = *at;
        if (td_hook_is_removed(old)) {
            __atomic_store_n(at, old->next, __ATOMIC_RELEASE);
            old->next = swept;
            swept = old;
        } else
            at = &old->next;
    }
    __atomic_store_n(at, hook, __ATOMIC_RELEASE);       /* td_node_has_hooks looks without the lock */
    td_unlock(lock);
    td_hooks_free(swept);
    return hook;
}

/* The hooks of a list as an array of owned references.  Each counts as running, so that a hook which another one removes is
 * called once more, as in PyTorch. */
typedef struct snapshot {
    td_hook **hooks, *few[8];
    int       count, room;
} snapshot;

/* Counted and taken under one hold of the lock; where they are too many, room is made without it and all is begun
 * again. */
static int take(snapshot *s, uint8_t *lock, td_hook **list, td_hook_kind kind)
{
    s->hooks = s->few;
    s->room = TD_COUNT(s->few);
    for (;;) {
        int count = 0;
        td_lock(lock);
        for (td_hook *h = *list; h; h = h->next)
            count += h->kind == kind && !td_hook_is_removed(h);
        s->count = 0;
        if (count <= s->room) {
            for (td_hook *h = *list; h && s->count < count; h = h->next)
                if (h->kind == kind && enter(h)) {
                    __atomic_fetch_add(&h->refcount, 1, __ATOMIC_RELAXED);
                    s->hooks[s->count++] = h;
                }
        }
        td_unlock(lock);
        if (count <= s->room)
            return 0;
        if (s->hooks != s->few)
            td_mem_free(s->hooks, (size_t)s->room * sizeof *s->hooks);
        s->room = count;
        s->hooks = td_mem_alloc((size_t)count * sizeof *s->hooks);
        if (!s->hooks)
            return -1;
    }
}

static void snapshot_drop(snapshot *s)
{
    for (int i = 0; i < s->count; i++) {
        leave(s->hooks[i]);
        td_hook_release(s->hooks[i]);
    }
    if (s->hooks != s->few)
        td_mem_free(s->hooks, (size_t)s->room * sizeof *s->hooks);
}

/* ---- running */

static int check_replacement(const td_tensor *was, const td_tensor *now)
{
    if (was == TD_NONE || now == TD_NONE)
        return 0;
    if (!td_same_sizes(was->ndim, was->sizes, now->ndim, now->sizes)) {
        td_shape_text a, b;
        return td_error(TD_E_RUNTIME, "hook has changed the size of value (was %s, got %s)",
                        td_shape_str(was->ndim, was->sizes, a), td_shape_str(now->ndim, now->sizes, b));
    }
    if (was->dtype != now->dtype)
        return td_error(TD_E_RUNTIME, "hook has changed the type of value (was torch.%sTensor got torch.%sTensor)",
                        td_dtype_title(was->dtype), td_dtype_title(now->dtype));
    if (was->device.type != now->device.type)
        return td_error(TD_E_RUNTIME, "hook has changed the device of value");
    return 0;
}

/* Put an owned replacement in the place of an owned gradient. */
static int replace(td_tensor **grad, td_tensor *replacement)
{
    td_tensor *was = *grad ? *grad : TD_NONE;
    if (check_replacement(was, replacement) != 0) {
        td_tensor_release(replacement);
        return -1;
    }
    *grad = replacement == TD_NONE ? NULL : replacement;
    td_tensor_release(was);
    return 0;
}

/* Each hook gets what the one before it returned. */
int td_hooks_run_tensor(uint8_t *lock, td_hook **list, int input, td_tensor **grad)
{
    snapshot s;
    if (!__atomic_load_n(list, __ATOMIC_ACQUIRE))       /* another thread may be adding one */
        return 0;
    int status = take(&s, lock, list, TD_HOOK_TENSOR);
    for (int i = 0; i < s.count && status == 0; i++) {
        td_hook *hook = s.hooks[i];
        if (hook->input != input)
            continue;
        td_tensor *replacement = NULL;
        status = hook->tensor(hook->context, *grad ? *grad : TD_NONE, &replacement);
        if (status != 0)
            td_tensor_release(replacement);
        else if (replacement)
            status = replace(grad, replacement);
    }
    snapshot_drop(&s);
    return status;
}

int td_hooks_run_leaf(uint8_t *lock, td_hook **list, td_tensor *leaf)
{
    snapshot s;
    if (!__atomic_load_n(list, __ATOMIC_ACQUIRE))
        return 0;
    int status = take(&s, lock, list, TD_HOOK_LEAF);
    for (int i = 0; i < s.count && status == 0; i++)
        status = s.hooks[i]->leaf(s.hooks[i]->context, leaf);
    snapshot_drop(&s);
    return status;
}

static void fill_none(int n, td_tensor *const *from, td_tensor **to)
{
    for (int i = 0; i < n; i++)
        to[i] = from[i] ? from[i] : TD_NONE;
}

/* Room for views and replacements, n of each kind that is needed, on the stack where they are few. */
typedef struct scratch {
    td_tensor **room, *few[24];
    size_t      bytes;
} scratch;

static td_tensor **scratch_new(scratch *s, int n)
{
    s->bytes = (size_t)n * sizeof *s->room;
    s->room = n <= TD_COUNT(s->few) ? s->few : td_mem_alloc(s->bytes);
    if (s->room)
        memset(s->room, 0, s->bytes);
    return s->room;
}

static void scratch_free(scratch *s)
{
    if (s->room != s->few)
        td_mem_free(s->room, s->bytes);
}

static int replace_all(int status, int n, td_tensor **grads, td_tensor **replacements)
{
    for (int i = 0; i < n; i++) {
        if (status != 0)
            td_tensor_release(replacements[i]);
        else if (replacements[i])
            status = replace(&grads[i], replacements[i]);
    }
    return status;
}

int td_hooks_run_pre(td_node *node, int n, td_tensor **grads)
{
    snapshot s;
    scratch  room;
    int status = take(&s, &node->lock, &node->extra->hooks, TD_HOOK_PRE);
    for (int i = 0; i < s.count && status == 0; i++) {
        td_tensor **seen = scratch_new(&room, 2 * n);
        if (!seen) {
            status = -1;
            break;
        }
        fill_none(n, grads, seen);
        status = s.hooks[i]->pre(s.hooks[i]->context, n, seen, seen + n);
        status = replace_all(status, n, grads, seen + n);
        scratch_free(&room);
    }
    snapshot_drop(&s);
    return status;
}

int td_hooks_run_post(td_node *node, int n_results, td_tensor **results, int n_grads, td_tensor *const *grads)
{
    snapshot s;
    scratch  room;
    int status = take(&s, &node->lock, &node->extra->hooks, TD_HOOK_POST);
    for (int i = 0; i < s.count && status == 0; i++) {
        td_tensor **seen = scratch_new(&room, 2 * n_results + n_grads);
        if (!seen) {
            status = -1;
            break;
        }
        td_tensor **replacements = seen + n_results + n_grads;
        fill_none(n_results, results, seen);
        fill_none(n_grads, grads, seen + n_results);
        status = s.hooks[i]->post(s.hooks[i]->context, n_results, seen, n_grads, seen + n_results, replacements);
        status = replace_all(status, n_results, results, replacements);
        scratch_free(&room);
    }
    snapshot_drop(&s);
    return status;
}

/* ---- adding */

td_hook *td_node_add_tensor_hook(td_node *node, int input, td_tensor_hook_fn *fn, void *context, td_drop *drop)
{
    if (input < 0 || input >= node->n_inputs)
        return td_fail(TD_E_INDEX, "%s has %d results, and none with number %d", td_node_name(node), node->n_inputs, input);
    td_node_extra *extra = td_node_extra_of(node);
    td_hook *hook = extra ? hook_new(TD_HOOK_TENSOR, context, drop) : NULL;
    if (!hook)
        return NULL;
    hook->tensor = fn;
    hook->input = input;
    return append(&node->lock, &extra->hooks, hook);
}

td_hook *td_node_add_pre_hook(td_node *node, td_node_pre_hook_fn *fn, void *context, td_drop *drop)
{
    td_node_extra *extra = td_node_extra_of(node);
    td_hook *hook = extra ? hook_new(TD_HOOK_PRE, context, drop) : NULL;
    if (!hook)
        return NULL;
    hook->pre = fn;
    return append(&node->lock, &extra->hooks, hook);
}

td_hook *td_node_add_post_hook(td_node *node, td_node_post_hook_fn *fn, void *context, td_drop *drop)
{
    td_node_extra *extra = td_node_extra_of(node);
    td_hook *hook = extra ? hook_new(TD_HOOK_POST, context, drop) : NULL;
    if (!hook)
        return NULL;
    hook->post = fn;
    return append(&node->lock, &extra->hooks, hook);
}

td_hook *td_tensor_add_hook(td_tensor *x, td_tensor_hook_fn *fn, void *context, td_drop *drop)
{
    td_node *node;
    if (!td_requires_grad(x))
        return td_fail(TD_E_RUNTIME, "cannot register a hook on a tensor that doesn't require gradient");
    if (td_gradient_fn(x, &node) != 0)
        return NULL;
    td_autograd_meta *meta = td_autograd_meta_of(x);
    if (!meta)
        return NULL;
    if (node)
        return td_node_add_tensor_hook(node, meta->output, fn, context, drop);
    td_hook *hook = hook_new(TD_HOOK_TENSOR, context, drop);
    if (!hook)
        return NULL;
    hook->tensor = fn;
    return append(&meta->lock, &meta->hooks, hook);
}

int td_tensor_remove_hooks(td_tensor *x, td_drop *drop)
{
    snapshot s;
    td_node *node;
    if (td_gradient_fn(x, &node) != 0)
        return -1;
    td_autograd_meta *meta = x->autograd;
    td_node_extra *extra = node ? td_node_extra_now(node) : NULL;
    if (!meta || (node && !extra))
        return 0;
    if (take(&s, node ? &node->lock : &meta->lock, node ? &extra->hooks : &meta->hooks, TD_HOOK_TENSOR) != 0)
        return -1;
    for (int i = 0; i < s.count; i++)
        if (s.hooks[i]->drop == drop && (!node || s.hooks[i]->input == meta->output))
            td_hook_remove(s.hooks[i]);
    snapshot_drop(&s);
    return 0;
}

td_hook *td_leaf_add_hook(td_tensor *leaf, td_leaf_hook_fn *fn, void *context, td_drop *drop)
{
    td_node *node;
    if (!td_requires_grad(leaf))
        return td_fail(TD_E_RUNTIME, "cannot register a hook on a tensor that doesn't require gradient");
    if (td_gradient_fn(leaf, &node) != 0)
        return NULL;
    if (node)
        return td_fail(TD_E_RUNTIME, "post accumulate grad hooks cannot be registered on non-leaf tensors");
    td_autograd_meta *meta = td_autograd_meta_of(leaf);
    td_hook *hook = meta ? hook_new(TD_HOOK_LEAF, context, drop) : NULL;
    if (!hook)
        return NULL;
    hook->leaf = fn;
    return append(&meta->lock, &meta->accumulated_hooks, hook);
}

/* ---- looking */

static int alive(uint8_t *lock, td_hook *const *list)
{
    int n = 0;
    td_lock(lock);
    for (const td_hook *hook = *list; hook; hook = hook->next)
        n += !td_hook_is_removed(hook);
    td_unlock(lock);
    return n;
}

int td_node_hook_count(td_node *node)
{
    td_node_extra *extra = td_node_extra_now(node);
    int n = extra ? alive(&node->lock, &extra->hooks) : 0;
    td_tensor *leaf = td_node_variable(node);
    td_autograd_meta *meta = leaf ? leaf->autograd : NULL;
    return meta ? n + alive(&meta->lock, &meta->hooks) + alive(&meta->lock, &meta->accumulated_hooks) : n;
}

/* ---- cycles through hooks */

static void visit_list(td_hook *list, td_drop *drop, void (*visit)(td_hook *, void *, void *), void *arg)
{
    for (td_hook *next; list; list = next) {
        next = list->next;
        if (list->drop == drop && !td_hook_is_removed(list))
            visit(list, list->context, arg);
    }
}

void td_tensor_visit_hooks(const td_tensor *x, td_drop *drop, void (*visit)(td_hook *hook, void *context, void *arg), void *arg)
{
    td_autograd_meta *meta = x->autograd;
    if (!meta || __atomic_load_n(&x->refcount, __ATOMIC_ACQUIRE) != 1)
        return;
    visit_list(meta->hooks, drop, visit, arg);
    visit_list(meta->accumulated_hooks, drop, visit, arg);
    td_node *node = td_tensor_sole_node(x);
    if (node && td_node_extra_now(node))
        visit_list(td_node_extra_now(node)->hooks, drop, visit, arg);
}

bool td_node_is_unshared(const td_node *node) { return __atomic_load_n(&node->refcount, __ATOMIC_ACQUIRE) == 1; }

void td_node_visit_hooks(const td_node *node, td_drop *drop, void (*visit)(td_hook *hook, void *context, void *arg), void *arg)
{
    if (td_node_extra_now(node) && td_node_is_unshared(node))
        visit_list(td_node_extra_now(node)->hooks, drop, visit, arg);
}

td_node *td_tensor_sole_node(const td_tensor *x)
{
    td_node *node = x->autograd ? x->autograd->grad_fn : NULL;
    return node && __atomic_load_n(&x->refcount, __ATOMIC_ACQUIRE) == 1 &&
           td_node_is_unshared(node) ? node : NULL;
}
