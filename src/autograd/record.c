/* Run-time support for generated autograd kernels: copies of in-place operands, write-backs, returned gradients.  See record.h. */
#include "calls_autograd_record.h"
#include "autograd/record.h"
#include "autograd/tangent.h"
#include "dispatch/outputs.h"
#include "dispatch/writes.h"
#include "tensor/late.h"

#include <string.h>
#include <tede/transforms.h>

td_tensor *td_original(td_tensor *self) { return td_wants_grad(self) ? td_clone_detached(self) : td_tensor_retain(self); }

/* Takes over `result`, the functional form's, and writes it to self. The write is noted under the in-place operator's
 * name, which an error in the backward pass then gives, not as a copy_. */
int td_record_inplace(const char *op, td_tensor *self, td_tensor *result)
{
    if (!result)
        return -1;
    int status = td_check_inplace_result(op, self, result);
    if (status == 0)
        status = td_copy_from_(self, result, false);
    if (status == 0 && __atomic_load_n(&td_values_saved, __ATOMIC_RELAXED))
        td_note_write(self, op, td_tensor_version(self));
    td_tensor_release(result);
    return status;
}

int td_record_out(const char *op, td_tensor *out, td_tensor *result)
{
    if (!result)
        return -1;
    bool fits = out->ndim == result->ndim && !memcmp(out->sizes, result->sizes, sizeof *out->sizes * out->ndim);
    int status = td_check_out_device(result->device, out->device) || td_check_cast(op, result->dtype, out->dtype) ? -1 : 0;
    if (status == 0 && !fits)
        status = td_requires_grad(out) ? td_error(TD_E_RUNTIME, "cannot resize variables that require grad")
                                       : td_resize_output(out, result->ndim, result->sizes);
    if (status == 0)
        status = td_copy_from_(out, result, false);
    if (status == 0 && __atomic_load_n(&td_values_saved, __ATOMIC_RELAXED))
        td_note_write(out, op, td_tensor_version(out));
    td_tensor_release(result);
    return status;
}

/* ---- gradients */

/* Shape and dtype of an operand that was broadcast or promoted, for its gradient to be summed and converted to;
 * nothing (NULL) in the common case that they are the result's. */
int td_fit_save(td_fit **fit, const td_tensor *operand, const td_tensor *result)
{
    if (operand->dtype == result->dtype && operand->ndim == result->ndim &&
        !memcmp(operand->sizes, result->sizes, sizeof(int64_t) * operand->ndim))
        return 0;
    *fit = td_mem_alloc(sizeof **fit + sizeof(int64_t) * operand->ndim);
    if (!*fit)
        return -1;
    (*fit)->ndim = operand->ndim, (*fit)->dtype = operand->dtype;
    memcpy((*fit)->sizes, operand->sizes, sizeof(int64_t) * operand->ndim);
    return 0;
}

td_tensor *td_fit_apply(td_tensor *grad, const td_fit *fit)
{
    return fit ? td_grad_fit(grad, fit->ndim, fit->sizes, (td_dtype)fit->dtype) : td_tensor_retain(grad);
}

void td_fit_free(td_fit *fit)
{
    if (fit)
        td_mem_free(fit, sizeof *fit + sizeof(int64_t) * fit->ndim);
}

int td_ints_save(td_ints *ints, int64_t n, const int64_t *items)
{
    *ints = (td_ints){n, NULL};
    if (n <= 0)
        return 0;
    ints->items = td_mem_alloc(sizeof(int64_t) * n);
    if (!ints->items) {
        ints->n = 0;
        return -1;
    }
    memcpy(ints->items, items, sizeof(int64_t) * n);
    return 0;
}

/* Shapes one after the other, with ranks to take them apart. After an error td_ints_free is called for both, which
 * accepts what isn't filled yet. */
int td_ints_save_shapes(td_ints *ranks, td_ints *shapes, int64_t n, td_tensor *const *tensors)
{
    int64_t total = 0;
    for (int64_t i = 0; i < n; i++)
        total += tensors[i]->ndim;
    *ranks = *shapes = (td_ints){0};
    if (n && !(ranks->items = td_mem_alloc(sizeof(int64_t) * n)))
        return -1;
    ranks->n = n;
    if (total && !(shapes->items = td_mem_alloc(sizeof(int64_t) * total)))
        return -1;
    for (int64_t i = 0; i < n; i++) {
        ranks->items[i] = tensors[i]->ndim;
        for (int k = 0; k < tensors[i]->ndim; k++)
            shapes->items[shapes->n++] = tensors[i]->sizes[k];
    }
    return 0;
}

void td_ints_free(td_ints *ints)
{
    if (ints->items)
        td_mem_free(ints->items, sizeof(int64_t) * ints->n);
    *ints = (td_ints){0};
}

/* `value` is borrowed; an absent tensor becomes the engine's NULL. */
int td_give(td_tensor **place, td_tensor *value)
{
    if (!value)
        return -1;
    *place = value == TD_NONE ? NULL : td_tensor_retain(value);
    return 0;
}

/* A formula over a list of results needs every member's gradient: absent ones as zeros. After an error the caller
 * releases what is there. */
int td_node_all_grads(td_node *node, td_tensor *const *grads, td_tensor_list *list)
{
    if (td_tensor_list_new(list, node->n_inputs))
        return -1;
    for (int i = 0; i < node->n_inputs; i++)
        if (!(list->items[i] = grads[i] ? td_tensor_retain(grads[i]) : td_node_zeros(node, i)))
            return -1;
    return 0;
}

int td_node_saved_list(td_node *node, int first, int64_t n, td_tensor_list *list)
{
    if (td_tensor_list_new(list, n))
        return -1;
    for (int64_t i = 0; i < n; i++)
        if (!(list->items[i] = td_node_saved(node, (int)(first + i))))
            return -1;
    return 0;
}

/* The tangent is copied, too, for it is overwritten with x. */
static int copy_tangent(td_tensor *copy, td_tensor *x)
{
    td_tensor *t = td_tangent(x);
    TD_AUTO td_tensor *own = t ? td_clone(t) : NULL;
    return !t ? 0 : own ? td_set_tangent(copy, own) : -1;
}

/* A copy of x as it is before an in-place call overwrites it, with x's history and tangent: formulas that use the old
 * value differentiate through it. */
td_tensor *td_clone_detached(td_tensor *x)
{
    td_tensor *copy;
    if (TD_UNLIKELY(x->flags & TD_FLAG_PYTHON || x->extra)) {      /* its elements aren't in its memory, or not they alone */
        td_keyset before = td_below_autograd();
        copy = td_clone(x);
        td_end_below(before);
    } else if ((copy = td_tensor_new(x->ndim, x->sizes, x->dtype, x->device)) && x->device.type != TD_META && td_copy_elements(copy, x)) {
        td_tensor_release(copy);
        return NULL;
    }
    if (copy && (td_share_history(copy, x) || copy_tangent(copy, x))) {
        td_tensor_release(copy);
        return NULL;
    }
    return copy;
}

/* Several operators may run as one loop only where nobody can tell: no autograd, no mode, no transform, plain CPU
 * tensors. */
bool td_fusable(int n, td_tensor *const *tensors)
{
    if (!(td_masks_now.exclude & TD_KEYSET(TD_KEY_AUTOGRAD)) || td_masks_now.include & ~TD_KEYSET(TD_LATE))   /* somebody watches */
        return false;
    for (int i = 0; i < n; i++)
        if (!tensors[i] || (tensors[i]->keys & ~(TD_KEYS_CPU | TD_KEYSET(TD_KEY_AUTOGRAD) | TD_KEYSET(TD_LATE))) ||
            !(td_dtype_is_floating(tensors[i]->dtype) || tensors[i]->dtype == TD_BOOL))
            return false;
    return true;
}
