/* Gradient accumulation: adding gradients up, and storing them in .grad of a leaf, where the graph ends.
 *
 * Note [Who may write a gradient]
 * A sum may be formed in place only if nobody else can see the memory: one reference to the tensor, one to its storage
 * (two, if the tensor is a view whose base nobody else holds), no wrapper, no history, and no graph being made.  A leaf
 * that has no gradient yet takes over such a tensor as it is, if it has the leaf's strides; else it gets a copy.  A
 * leaf's gradient itself is added to in place, whoever looks at it: that is what programs that hold x.grad expect.
 *
 * Passes on several threads may end at the same leaf.  Its accumulator has a mutex, held while the sum is formed, unless
 * that makes a graph: then the sum is formed outside, and put in place if nobody was faster.  Forming a sum may call foreign
 * code, which may wait for the interpreter: so a pass never waits for the mutex with the interpreter's lock held (bindings let
 * go of it before a pass begins), and the mutex lets its own thread in again, for that code may begin a pass itself. */
#include "autograd/engine.h"
#include "autograd/hooks.h"
#include "autograd/needs.h"
#include "base/once.h"
#include <pthread.h>
#include <tede/foreign.h>
#include <tede/layout.h>
#include "tensor/layout.h"

typedef struct accumulator {
    td_tensor      *leaf;
    pthread_mutex_t mutex;
    bool            apart;          /* the leaf has another one by now: see td_renew_accumulator */
} accumulator;

bool td_is_exclusive(const td_tensor *x)
{
    if (x->refcount != 1 || x->wrapper || x->autograd || x->extra || x->own_version || !x->storage)
        return false;
    if (x->flags & (TD_FLAG_INFERENCE | TD_FLAG_PYTHON | TD_FLAG_CONJ | TD_FLAG_NEG) ||
        x->storage->flags & ~TD_STORAGE_INLINE)
        return false;
    const td_tensor *base = x->base;
    if (base && (base->refcount != 1 || base->wrapper || base->autograd))
        return false;
    return __atomic_load_n(&x->storage->refcount, __ATOMIC_ACQUIRE) == 1 + (base != NULL);
}

/* to += from is possible where `to` is. */
static bool can_add_to(const td_tensor *to, const td_tensor *from)
{
    return to->flags & TD_FLAG_NON_OVERLAPPING && to->dtype == from->dtype && !from->extra && !(from->flags & TD_FLAG_PYTHON) &&
           td_same_sizes(to->ndim, to->sizes, from->ndim, from->sizes) && td_is_exclusive(to);
}

/* Takes over `grad`, also on an error. A sum goes into whichever of the two tensors nobody else can see (Note [Who
 * may write a gradient]): then n gradients cost n - 1 additions and no allocation. */
int td_grad_add(td_tensor **slot, td_tensor *grad, bool create_graph)
{
    td_tensor *old = *slot, *sum;
    if (!old) {
        *slot = grad;
        return 0;
    }
    bool fresh = create_graph || TD_UNLIKELY(td_is_watched());
    if (!fresh && can_add_to(old, grad)) {
        int status = td_need_add_(old, grad);
        td_tensor_release(grad);
        return status;
    }
    if (!fresh && can_add_to(grad, old)) {
        if (td_need_add_(grad, old) != 0) {
            td_tensor_release(grad);
            return -1;
        }
        sum = grad;
    } else {
        /* Of the two orders only strided + sparse exists. */
        sum = td_has_layout(grad) && !td_has_layout(old) ? td_need_add(old, grad) : td_need_add(grad, old);
        td_tensor_release(grad);
        if (!sum)
            return -1;
    }
    *slot = sum;
    td_tensor_release(old);
    return 0;
}

/* The sum calls operators, so it is formed without the lock, and stored if the gradient is still the one that it was
 * formed of; else all is done again. */
int td_grad_box_add(td_grad_box *box, td_tensor *grad, bool create_graph)
{
    for (;;) {
        td_lock(&box->lock);
        td_tensor *old = td_tensor_retain(box->grad);
        td_unlock(&box->lock);
        td_tensor *sum = old ? td_need_add(old, grad) : create_graph ? td_need_clone(grad) : td_need_copy_of(grad, NULL);
        if (!sum) {
            td_tensor_release(old);
            return -1;
        }
        td_lock(&box->lock);
        bool first = box->grad == old;
        if (first)
            box->grad = sum;
        td_unlock(&box->lock);
        td_tensor_release(first ? old : sum);
        td_tensor_release(old);
        if (first)
            return 0;
    }
}

/* ---- leaves */

/* Optimizers run over a leaf and its gradient in step: with equal strides that is one loop over memory. Strides of
 * dimensions of size 1 don't matter. */
static bool has_strides_of(const td_tensor *x, const td_tensor *leaf)
{
    if (!(leaf->flags & TD_FLAG_NON_OVERLAPPING))
        return x->flags & TD_FLAG_CONTIGUOUS;
    for (int d = 0; d < x->ndim; d++)
        if (x->sizes[d] == 1 ? !x->strides[d] : x->strides[d] != leaf->strides[d])
            return false;
    return true;
}

/* The first gradient of a leaf where a graph is made: a copy with the leaf's strides, and a history, a CopyBackwards as in PyTorch. */
static td_tensor *adopt_with_graph(const td_tensor *leaf, td_tensor *x)
{
    if (td_tensor_is_hollow(x) || td_has_layout(x) || (x->flags | leaf->flags) & TD_FLAG_PYTHON ||
        !td_same_sizes(x->ndim, x->sizes, leaf->ndim, leaf->sizes))
        return td_need_clone(x);
    int64_t plain[TD_MAX_DIMS];
    const int64_t *wanted = leaf->strides;
    if (!(leaf->flags & TD_FLAG_NON_OVERLAPPING)) {
        td_contiguous_strides(leaf->ndim, leaf->sizes, plain);
        wanted = plain;
    }
    td_tensor *copy = td_need_zeros(leaf->ndim, leaf->sizes, wanted, x->dtype, x->device);
    if (copy && td_need_copy_(copy, x) == 0)
        return copy;
    td_tensor_release(copy);
    return NULL;
}

/* The same of a tensor of another layout: nobody else can see it or its values. All parts are contiguous; indices are never written. */
static bool is_exclusive_by_parts(const td_tensor *x)
{
    if (x->refcount != 1 || x->wrapper || x->autograd || x->base || x->flags & (TD_FLAG_INFERENCE | TD_FLAG_PYTHON))
        return false;
    const td_layout_kind *kind = td_layout_describe(td_tensor_layout(x));
    td_layout_part parts[TD_LAYOUT_PARTS];
    const int n = kind && kind->parts ? kind->parts(x, parts) : 0;
    for (int i = 0; i < n; i++)
        if (parts[i].tensor && !(parts[i].tensor->flags & TD_FLAG_CONTIGUOUS && (!parts[i].values || td_is_exclusive(parts[i].tensor))))
            return false;
    return n > 0;
}

/* The first gradient of a leaf: *grad itself, taken over, or a copy with the leaf's strides. */
static td_tensor *adopt(const td_tensor *leaf, td_tensor **grad)
{
    td_tensor *x = *grad;
    if (TD_UNLIKELY(!td_same_sizes(x->ndim, x->sizes, leaf->ndim, leaf->sizes)) && !td_tensor_is_hollow(leaf)) {
        td_tensor *whole = td_need_zeros(leaf->ndim, leaf->sizes, NULL, x->dtype, x->device);   /* of another shape when it was used */
        if (whole && td_need_copy_(whole, x) == 0)
            return whole;
        td_tensor_release(whole);
        return NULL;
    }
    if (TD_UNLIKELY(td_has_layout(x)) && !td_is_watched() && is_exclusive_by_parts(x)) {
        *grad = NULL;
        return x;
    }
    if (TD_UNLIKELY(td_tensor_is_hollow(x) || td_has_layout(x) || (x->flags | leaf->flags) & TD_FLAG_PYTHON))
        return td_need_clone(x);
    if (td_is_exclusive(x) && has_strides_of(x, leaf)) {
        if (TD_UNLIKELY(td_is_watched()))
            return td_need_detach(x);
        if (x->base)
            return td_alias_detached(x, false);
        *grad = NULL;
        return x;
    }
    return td_need_copy_of(x, leaf->flags & TD_FLAG_NON_OVERLAPPING ? leaf->strides : NULL);
}

/* The sum into a leaf that has a gradient, where no graph is made of it. */
static int add_to_leaf(td_autograd_meta *meta, td_tensor *grad)
{
    td_tensor *old = td_tensor_retain(meta->grad);          /* foreign code may take it away from the leaf */
    if (TD_LIKELY(!td_has_layout(old) || td_has_layout(grad))) {
        int status = td_need_add_(old, grad);
        td_tensor_release(old);
        return status;
    }
    td_tensor *sum = td_need_add(grad, old);                /* a sparse gradient becomes a strided one */
    td_tensor_release(old);
    if (!sum)
        return -1;
    old = __atomic_exchange_n(&meta->grad, sum, __ATOMIC_ACQ_REL);
    td_tensor_release(old);
    return 0;
}

int td_accumulate(td_node *node, td_tensor **grad, bool create_graph)
{
    accumulator *a = node->state;
    td_autograd_meta *meta = a->leaf->autograd;
    if (!create_graph) {
        int status;
        pthread_mutex_lock(&a->mutex);
        if (meta->grad) {
            status = add_to_leaf(meta, *grad);
        } else {
            td_tensor *first = adopt(a->leaf, grad), *now = NULL;
            status = first ? 0 : -1;
            if (first && !__atomic_compare_exchange_n(&meta->grad, &now, first, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
                status = add_to_leaf(meta, first);          /* what adopt() called has given the leaf a gradient */
                td_tensor_release(first);
            }
        }
        pthread_mutex_unlock(&a->mutex);
        return status;
    }
    for (;;) {
        pthread_mutex_lock(&a->mutex);
        td_tensor *old = td_tensor_retain(meta->grad);
        pthread_mutex_unlock(&a->mutex);
        td_tensor *sum = !old ? adopt_with_graph(a->leaf, *grad) : td_has_layout(old) ? td_need_add(*grad, old) : td_need_add(old, *grad);
        if (!sum) {
            td_tensor_release(old);
            return -1;
        }
        pthread_mutex_lock(&a->mutex);
        bool first = meta->grad == old;
        if (first)
            __atomic_store_n(&meta->grad, sum, __ATOMIC_RELEASE);
        pthread_mutex_unlock(&a->mutex);
        td_tensor_release(first ? old : sum);
        td_tensor_release(old);
        if (first)
            return 0;
    }
}

int td_accumulator_adopted(td_node *node, td_tensor **shown)
{
    accumulator *a = node->state;
    pthread_mutex_lock(&a->mutex);
    td_tensor *grad = td_tensor_retain(a->leaf->autograd->grad);
    pthread_mutex_unlock(&a->mutex);
    *shown = grad ? td_alias_detached(grad, false) : NULL;
    td_tensor_release(grad);
    return grad && !*shown ? -1 : 0;
}

int td_accumulator_run_hooks(td_node *node, bool after, td_tensor **grad)
{
    td_tensor *leaf = ((accumulator *)node->state)->leaf;
    td_autograd_meta *meta = leaf->autograd;
    return after ? td_hooks_run_leaf(&meta->lock, &meta->accumulated_hooks, leaf)
                 : td_hooks_run_tensor(&meta->lock, &meta->hooks, 0, grad);
}

static int apply(td_node *node, td_tensor *const *grads, td_tensor **results)
{
    (void)results;
    td_tensor *grad = td_tensor_retain(grads[0]);
    int status = grad ? td_accumulate(node, &grad, td_grad_enabled()) : 0;
    td_tensor_release(grad);
    return status;
}

/* ---- the node
 *
 * Note [A leaf and its accumulator]
 * A leaf keeps its one accumulator, which all graphs that end at the leaf share.  A graph must keep the leaf alive, but
 * leaf and accumulator must not hold each other: so the accumulator holds a reference to the leaf only while somebody
 * besides the leaf holds the accumulator, that is, while its count is above 1.  Who counts from 1 to 2 has the leaf at
 * hand, and retains it; who counts from 2 to 1 releases it, which may be the end of both.  That needs no lock: whatever
 * the order in which two threads do the one and the other, the leaf's references come out right. */

static const td_node_type accumulate_type = {.name = "AccumulateGrad", .apply = apply, .flags = TD_NODE_ACCUMULATES};

bool td_accumulator_drop(td_node *node)
{
    td_tensor *leaf = ((accumulator *)node->state)->leaf;
    if (!leaf)              /* the leaf itself lets go, or it was never given one */
        return __atomic_sub_fetch(&node->refcount, 1, __ATOMIC_ACQ_REL) == 0;
    if (TD_UNLIKELY(((accumulator *)node->state)->apart)) {
        if (__atomic_sub_fetch(&node->refcount, 1, __ATOMIC_ACQ_REL) != 0)
            return false;
        pthread_mutex_destroy(&((accumulator *)node->state)->mutex);
        td_tensor_release(leaf);
        return true;
    }
    if (__atomic_sub_fetch(&node->refcount, 1, __ATOMIC_ACQ_REL) == 1)
        td_tensor_release(leaf);
    return false;
}

void td_accumulator_forget(td_node *node)
{
    if (!node)
        return;
    pthread_mutex_destroy(&((accumulator *)node->state)->mutex);
    ((accumulator *)node->state)->leaf = NULL;
    td_node_release(node);
}

/* Graphs that end at the old one hold the leaf through it as before: what the accumulator had of the leaf it keeps, up to
 * its end. */
void td_renew_accumulator(td_tensor *x)
{
    td_node *node = x->autograd ? x->autograd->accumulator : NULL;
    if (!node)
        return;
    x->autograd->accumulator = NULL;
    if (__atomic_load_n(&node->refcount, __ATOMIC_ACQUIRE) == 1) {
        td_accumulator_forget(node);
    } else {
        ((accumulator *)node->state)->apart = true;
        td_node_release(node);
    }
}

td_node *td_accumulator_if_any(td_tensor *x)
{
    td_node *node = x->autograd ? __atomic_load_n(&x->autograd->accumulator, __ATOMIC_ACQUIRE) : NULL;
    if (node && __atomic_fetch_add(&node->refcount, 1, __ATOMIC_ACQ_REL) == 1)
        td_retain_fast(x);
    return node;
}

static pthread_mutexattr_t reentrant;
static int make_reentrant(void)
{
    pthread_mutexattr_init(&reentrant);
    pthread_mutexattr_settype(&reentrant, PTHREAD_MUTEX_RECURSIVE);
    return 0;
}

void td_accumulator_describe(td_node *node, const td_tensor *leaf)
{
    int dtype = td_grad_dtype(leaf);
    node->inputs[0].any_dtype = dtype == TD_ANY_DTYPE;
    node->inputs[0].dtype = (int8_t)(dtype == TD_ANY_DTYPE ? leaf->dtype : dtype);
}

static td_node *first_accumulator(td_tensor *x)
{
    static td_once once;
    td_once_run(&once, make_reentrant);
    td_node *made = td_node_new(&accumulate_type, 0, 1, 0, sizeof(accumulator)), *none = NULL;
    if (!made)
        return NULL;
    if (td_describe_input(made, 0, x) != 0) {
        td_node_release(made);
        return NULL;
    }
    td_accumulator_describe(made, x);
    accumulator *a = made->state;
    pthread_mutex_init(&a->mutex, &reentrant);
    a->leaf = x;
    if (!__atomic_compare_exchange_n(&x->autograd->accumulator, &none, made, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        td_accumulator_forget(made);
    return td_accumulator_if_any(x);
}

td_node *td_accumulator(td_tensor *x)
{
    if (!td_autograd_meta_of(x))
        return NULL;
    td_node *node = td_accumulator_if_any(x);
    if (TD_UNLIKELY(!node))
        return first_accumulator(x);
    td_input_meta *input = &node->inputs[0];
    if (TD_LIKELY((input->dtype == x->dtype || x->autograd->own_grad_dtype) &&
                  td_same_sizes(input->ndim, input->sizes, x->ndim, x->sizes)))
        return node;
    if (td_describe_input(node, 0, x) == 0) {   /* x.data = something else */
        td_accumulator_describe(node, x);
        return node;
    }
    td_node_release(node);
    return NULL;
}

td_tensor *td_node_variable(const td_node *node)
{
    return node->type == &accumulate_type ? ((accumulator *)node->state)->leaf : NULL;
}
