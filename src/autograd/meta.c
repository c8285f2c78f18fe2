/* Leaves, histories and the thread's modes: the metadata queries about a tensor's gradient.
 *
 * Whether a tensor requires a gradient is not one bit.  A leaf has a flag, a result has a node, and a view requires
 * one as soon as its base does, even a view made under no_grad: it is a leaf then, with its own gradient. */
#include "autograd/hooks.h"
#include "autograd/meta.h"
#include "autograd/needs.h"

/* ---- the record */

/* Called when x is freed. Most tensors have a node at most, so all rare fields are tested at once. The record is
 * detached first: nothing that is released here finds it. */
static void drop_autograd(td_tensor *x)
{
    td_autograd_meta *meta = x->autograd;
    x->autograd = NULL;
    if (meta->grad_fn)
        td_node_release(meta->grad_fn);
    if (TD_UNLIKELY((intptr_t)meta->grad | (intptr_t)meta->accumulator | (intptr_t)meta->box | (intptr_t)meta->hooks |
                    (intptr_t)meta->accumulated_hooks | (intptr_t)meta->name | (intptr_t)meta->tangent)) {
        td_tensor_release(meta->grad);
        td_tensor_release(meta->tangent);
        td_accumulator_forget(meta->accumulator);
        td_grad_box_release(meta->box);
        td_hooks_free(meta->hooks);
        td_hooks_free(meta->accumulated_hooks);
        if (meta->name)
            td_mem_free(meta->name, strlen(meta->name) + 1);
    }
    td_mem_free(meta, sizeof *meta);
}

static td_autograd_meta *meta_new(void)
{
    td_autograd_meta *meta = td_mem_alloc(sizeof *meta);
    if (TD_UNLIKELY(!meta))
        return NULL;
    *meta = (td_autograd_meta){.grad = NULL};
    if (TD_UNLIKELY(__atomic_load_n(&td_tensor_hook.drop_autograd, __ATOMIC_RELAXED) != drop_autograd))
        __atomic_store_n(&td_tensor_hook.drop_autograd, drop_autograd, __ATOMIC_RELAXED);
    return meta;
}

/* Two threads may both need it first, for a shared parameter: one exchange wins. */
td_autograd_meta *td_autograd_meta_of(td_tensor *x)
{
    td_autograd_meta *meta = x->autograd, *none = NULL;
    if (TD_LIKELY(meta != NULL) || !(meta = meta_new()))
        return meta;
    if (__atomic_compare_exchange_n(&x->autograd, &none, meta, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        return meta;
    td_mem_free(meta, sizeof *meta);
    return none;
}

/* ---- queries */

/* See the top: a flag, a node, or the base's. */
bool td_requires_grad(td_tensor *x)
{
    if (!x || x == TD_NONE)
        return false;
    if (x->flags & TD_FLAG_REQUIRES_GRAD || (x->autograd && x->autograd->grad_fn))
        return true;
    td_tensor *base = x->base;
    return base && td_is_differentiable(x->dtype) &&
           (base->flags & TD_FLAG_REQUIRES_GRAD || (base->autograd && base->autograd->grad_fn));
}

bool td_any_wants_grad(int n, td_tensor *const *list)
{
    if (!td_grad_enabled())
        return false;
    for (int i = 0; i < n; i++)
        if (td_requires_grad(list[i]))
            return true;
    return false;
}

/* What was unpacked in a leaf's place has the leaf's accumulator for its history: it is a leaf to programs. */
bool td_is_leaf(td_tensor *x)
{
    td_node *node;
    if (td_gradient_fn(x, &node) != 0) {
        td_error_clear();
        return false;
    }
    return !node || node->type->flags & TD_NODE_ACCUMULATES;
}

/* Where x's gradient goes; the reference is the caller's. Empty, without an error, where x requires none, and of a view that was made
 * of a leaf while gradients were off: what is computed from it has a history, which ends there, as in PyTorch. */
int td_gradient_edge(td_tensor *x, td_edge *edge)
{
    td_node *node;
    *edge = (td_edge){NULL, 0};
    if (td_gradient_fn(x, &node) != 0)
        return -1;
    if (node) {
        edge->node = td_node_retain(node);
        edge->input = x->autograd->output;
    } else if (x->flags & TD_FLAG_REQUIRES_GRAD)
        edge->node = td_accumulator(x);
    else
        return 0;
    return edge->node ? 0 : -1;
}

int td_history(td_tensor *x, td_node **node, int *output)
{
    if (td_gradient_fn(x, node) != 0)
        return -1;
    if (*node && (*node)->type->flags & TD_NODE_ACCUMULATES)
        *node = NULL;
    td_node_retain(*node);
    *output = *node ? x->autograd->output : 0;
    return 0;
}

int td_gradient_target(td_tensor *x, td_node **node, int *input)
{
    td_edge edge;
    int status = td_gradient_edge(x, &edge);
    *node = edge.node;
    *input = edge.input;
    return status;
}

const char *td_tensor_name(const td_tensor *x) { return x->autograd ? x->autograd->name : NULL; }

int td_tensor_set_name(td_tensor *x, const char *name)
{
    td_autograd_meta *meta = td_autograd_meta_of(x);
    size_t size = name ? strlen(name) + 1 : 0;
    char *copy = NULL;
    if (!meta || (name && !(copy = td_mem_alloc(size))))
        return -1;
    if (name)
        memcpy(copy, name, size);
    if (meta->name)
        td_mem_free(meta->name, strlen(meta->name) + 1);
    meta->name = copy;
    return 0;
}

/* ---- leaves */

int td_set_requires_grad(td_tensor *x, bool on)
{
    td_node *node;
    if (td_gradient_fn(x, &node) != 0)
        return -1;
    if (node)
        return on ? 0 : td_error(TD_E_RUNTIME, "you can only change requires_grad flags of leaf variables. If you want to use a "
                                 "computed variable in a subgraph that doesn't require differentiation use var_no_grad = var.detach().");
    if (!on) {
        x->flags &= (uint16_t)~TD_FLAG_REQUIRES_GRAD;
        if (!x->base)
            x->keys &= ~TD_KEYSET(TD_KEY_AUTOGRAD);
        return 0;
    }
    if (!td_is_differentiable(x->dtype))
        return td_error(TD_E_RUNTIME, "only Tensors of floating point and complex dtype can require gradients");
    if (x->flags & TD_FLAG_INFERENCE && !td_masks_now.inference)
        return td_error(TD_E_RUNTIME, "Setting requires_grad=True on inference tensor outside InferenceMode is not allowed.");
    if (!td_autograd_meta_of(x))
        return -1;
    x->flags |= TD_FLAG_REQUIRES_GRAD;
    x->keys |= TD_KEYSET(TD_KEY_AUTOGRAD);
    return 0;
}

/* detach_(): x becomes a leaf that requires nothing. A retained gradient is taken off the node, which others may hold
 * on to. */
int td_detach_history(td_tensor *x)
{
    if (x->base)
        return td_error(TD_E_RUNTIME, "Can't detach views in-place. Use detach() instead. If you are using DistributedDataParallel "
                        "(DDP) for training, and gradient_as_bucket_view is set as True, gradients are views of DDP buckets, and hence "
                        "detach_() cannot be called on these gradients. To fix this error, please refer to the Optimizer.zero_grad() "
                        "function in torch/optim/optimizer.py as the solution.");
    td_autograd_meta *meta = x->autograd;
    if (meta) {
        td_node *node = meta->grad_fn;
        if (node && meta->box)
            td_node_forget_grad(node, meta->box);
        meta->grad_fn = NULL;
        meta->output = 0;
        td_node_release(node);
    }
    if (meta && meta->tangent) {
        td_tensor_release(meta->tangent);
        meta->tangent = NULL;
        x->keys &= ~TD_KEYSET(TD_KEY_FORWARD_AD);
    }
    x->flags &= (uint16_t)~TD_FLAG_REQUIRES_GRAD;
    x->keys &= ~TD_KEYSET(TD_KEY_AUTOGRAD);
    return 0;
}

/* ---- the gradient */

td_tensor *td_grad(td_tensor *x)
{
    td_autograd_meta *meta = x ? x->autograd : NULL;
    return !meta ? NULL : meta->box ? meta->box->grad : meta->grad;
}

int td_grad_dtype(const td_tensor *leaf)
{
    return leaf->autograd && leaf->autograd->own_grad_dtype ? leaf->autograd->grad_dtype : leaf->dtype;
}

int td_set_grad_dtype(td_tensor *leaf, int dtype)
{
    td_tensor *grad = td_grad(leaf);
    if (!td_is_leaf(leaf))
        return td_error(TD_E_RUNTIME, "grad_dtype can only be set on leaf tensors.");
    if (grad && dtype != TD_ANY_DTYPE && dtype != grad->dtype)
        return td_error(TD_E_RUNTIME, "Cannot set grad_dtype to '%s' because there is already a gradient with dtype '%s'. Please clear "
                        "the gradient (.grad = None) before changing grad_dtype, or ensure the new grad_dtype matches the existing "
                        "gradient's dtype.", td_dtype_title((td_dtype)dtype), td_dtype_name(grad->dtype));
    td_autograd_meta *meta = td_autograd_meta_of(leaf);
    if (!meta)
        return -1;
    meta->own_grad_dtype = dtype != leaf->dtype;
    meta->grad_dtype = (int8_t)dtype;
    if (meta->accumulator)
        td_accumulator_describe(meta->accumulator, leaf);
    return 0;
}

static int check_grad(td_tensor *x, td_tensor *grad)
{
    td_shape_text a, b;
    int dtype = td_grad_dtype(x);
    if (grad == x)
        return td_error(TD_E_RUNTIME, "can't assign Variable as its own grad");
    if (dtype != TD_ANY_DTYPE && grad->dtype != dtype)
        return td_error(TD_E_RUNTIME, "attempting to assign a gradient with dtype '%s' to a tensor with grad_dtype '%s'. The gradient "
                        "must match the tensor's grad_dtype (defaults to the tensor's dtype). You can set the tensor's grad_dtype "
                        "attribute with a specific dtype, or None to allow any dtype. Set grad_dtype with caution. Diverging the dtypes "
                        "of a tensor and its gradient may break downstream systems that assume they match.",
                        td_dtype_name(grad->dtype), td_dtype_title((td_dtype)dtype));
    if (grad->device.type != x->device.type || grad->device.index != x->device.index) {
        char to[32], from[32];
        return td_error(TD_E_RUNTIME, "attempting to assign a gradient with device type '%s' to a tensor with device type '%s'. "
                        "Please ensure that the gradient and the tensor are on the same device",
                        td_device_str(grad->device, from), td_device_str(x->device, to));
    }
    if (!td_same_sizes(x->ndim, x->sizes, grad->ndim, grad->sizes))
        return td_error(TD_E_RUNTIME, "attempting to assign a gradient of size '%s' to a tensor of size '%s'. Please ensure that "
                        "the gradient and the tensor are the same size", td_shape_str(grad->ndim, grad->sizes, a),
                        td_shape_str(x->ndim, x->sizes, b));
    return 0;
}

/* Exchanged atomically with what was there, since another thread's pass may store a gradient; the old one is released
 * after. */
int td_set_grad(td_tensor *x, td_tensor *grad)
{
    if (grad == TD_NONE)
        grad = NULL;
    if (!grad && !x->autograd)
        return 0;
    if (grad && check_grad(x, grad) != 0)
        return -1;
    td_autograd_meta *meta = td_autograd_meta_of(x);
    if (!meta)
        return -1;
    td_grad_box *box = meta->box;
    td_tensor   *was;
    td_tensor_retain(grad);
    if (box) {                          /* a pass that runs may be reading it: see td_node_run_retained */
        td_lock(&box->lock);
        was = __atomic_exchange_n(&box->grad, grad, __ATOMIC_ACQ_REL);
        td_unlock(&box->lock);
    } else
        was = __atomic_exchange_n(&meta->grad, grad, __ATOMIC_ACQ_REL);
    td_tensor_release(was);
    return 0;
}

bool td_retains_grad(td_tensor *x) { return x->autograd && x->autograd->box; }

/* The gradient moves into a box that the node shares, so the pass stores it without knowing the tensor. */
int td_retain_grad(td_tensor *x)
{
    td_node *node;
    if (!td_requires_grad(x))
        return td_error(TD_E_RUNTIME, "can't retain_grad on Tensor that has requires_grad=False");
    if (td_gradient_fn(x, &node) != 0)
        return -1;
    if (!node || x->autograd->box)
        return 0;
    td_autograd_meta *meta = x->autograd;
    td_grad_box *box = td_mem_alloc_zero(sizeof *box);
    if (!box)
        return -1;
    box->refcount = 1;
    if (td_node_keep_grad(node, meta->output, box) != 0) {
        td_grad_box_release(box);
        return -1;
    }
    box->grad = meta->grad;
    meta->grad = NULL;
    meta->box = box;
    return 0;
}

/* ---- histories.  A retained gradient moves on to the new node; hooks stay with the value that they were put on. */

int td_set_gradient_edge(td_tensor *x, td_node *node, int output)
{
    td_autograd_meta *meta = x->autograd;
    if (!meta && !(meta = x->autograd = meta_new()))    /* x is new, or the caller's to write */
        return -1;
    td_node *old = meta->grad_fn;
    if (TD_UNLIKELY(meta->box != NULL)) {
        if (td_node_keep_grad(node, output, meta->box) != 0)
            return -1;
        if (old)
            td_node_forget_grad(old, meta->box);
    }
    meta->grad_fn = td_node_retain(node);
    meta->output = output;
    x->keys |= TD_KEYSET(TD_KEY_AUTOGRAD);
    if (x->base)
        x->attr_version = td_tensor_version(x);
    if (old)
        td_node_release(old);
    return 0;
}

int td_set_history(td_tensor *x, td_node *node, int output)
{
    if (x == TD_NONE)           /* what a __torch_dispatch__ may return */
        return 0;
    if (!td_is_differentiable(x->dtype))
        return td_error(TD_E_RUNTIME, "Autograd not support dtype: %s", td_dtype_title((td_dtype)x->dtype));
    if (TD_UNLIKELY(td_describe_input(node, output, x) != 0))
        return -1;
    return td_set_gradient_edge(x, node, output);
}

/* The gradient of `copy` goes where that of x goes: to the same slot of the same node. */
int td_share_history(td_tensor *copy, td_tensor *x)
{
    td_edge edge;
    if (td_gradient_edge(x, &edge) != 0)
        return -1;
    int status = edge.node ? td_set_gradient_edge(copy, edge.node, edge.input) : 0;
    td_node_release(edge.node);
    return status;
}

td_tensor *td_node_zeros(td_node *node, int i)
{
    const td_input_meta *meta = &node->inputs[i];
    if (!meta->defined)
        return td_fail(TD_E_RUNTIME, "%s: result %d has no gradient", td_node_name(node), i);
    return td_need_zeros(meta->ndim, meta->sizes, NULL, meta->dtype, meta->device);
}

/* The adjoint of what was done to an operand: broadcasting becomes a sum, a real number taken as complex the real
 * part, a conversion the conversion back. */
td_tensor *td_grad_fit(td_tensor *grad, int ndim, const int64_t *sizes, td_dtype dtype)
{
    if (!grad)
        return NULL;
    td_tensor *fitted = td_tensor_retain(grad), *next;
    if (grad == TD_NONE)
        return fitted;
    if (!td_same_sizes(ndim, sizes, grad->ndim, grad->sizes)) {
        next = td_need_sum_to_size(fitted, ndim, sizes);
        td_tensor_release(fitted);
        if (!(fitted = next))
            return NULL;
    }
    if (fitted->dtype != dtype && td_dtype_is_complex(fitted->dtype) && !td_dtype_is_complex(dtype)) {
        next = td_need_real(fitted);
        td_tensor_release(fitted);
        if (!(fitted = next))
            return NULL;
    }
    if (fitted->dtype != dtype) {
        next = td_need_convert(fitted, dtype);
        td_tensor_release(fitted);
        fitted = next;
    }
    return fitted;
}

/* ---- modes.  See Note [no_grad] in tensor/masks.h. */

bool td_grad_enabled(void) { return !td_masks_now.grad_disabled && !td_masks_now.inference; }

/* The mode and the mask of keys are set together: with the Autograd key excluded, dispatch doesn't reach the
 * recording kernels at all. Inference mode and kernels below autograd keep it excluded. */
bool td_set_grad_enabled(bool on)
{
    bool before = !td_masks_now.grad_disabled;
    td_keyset keys = TD_KEYSET(TD_KEY_AUTOGRAD);
    td_masks_now.grad_disabled = !on;
    if (on && !td_masks_now.inference && !td_masks_now.below)
        td_masks_now.exclude &= ~keys;
    else
        td_masks_now.exclude |= keys;
    return before;
}

bool td_inference_mode(void) { return td_masks_now.inference; }

/* Inference mode has no gradients either; what no_grad said before holds again after it. */
bool td_set_inference_mode(bool on)
{
    bool before = td_masks_now.inference;
    td_keyset keys = TD_KEYSET(TD_KEY_AUTOGRAD);
    td_masks_now.inference = on;
    if (on || td_masks_now.grad_disabled || td_masks_now.below)
        td_masks_now.exclude |= keys;
    else
        td_masks_now.exclude &= ~keys;
    return before;
}

bool td_set_below_autograd(bool on)
{
    bool before = td_masks_now.below;
    td_masks_now.below = on;
    td_set_grad_enabled(!td_masks_now.grad_disabled);
    return before;
}
