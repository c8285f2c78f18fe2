/* What generated operators lean on: see glue.h. */
#include "calls_dispatch_glue.h"
#include <tede/transforms.h>
#include "dispatch/glue.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

int td_results_drop(int n, td_tensor **results)
{
    for (int i = 0; i < n; i++) {
        td_tensor_release(results[i]);
        results[i] = NULL;
    }
    return -1;
}

static int check_inplace(const char *op, td_tensor *self, td_tensor *result)
{
    td_shape_text want, have;
    if (result->ndim != self->ndim || memcmp(result->sizes, self->sizes, sizeof(int64_t) * self->ndim))
        return td_error(TD_E_RUNTIME, "%s: output with shape %s doesn't match the broadcast shape %s", op,
                        td_shape_str(self->ndim, self->sizes, have), td_shape_str(result->ndim, result->sizes, want));
    return td_check_cast(op, result->dtype, self->dtype);
}

int td_finish_inplace(const char *op, td_tensor *self, td_tensor *result)
{
    if (!result)
        return -1;
    if (TD_UNLIKELY(td_is_sparse(self) || td_is_sparse(result)))
        return check_inplace(op, self, result) ? td_results_drop(1, &result) : td_sparse_finish(op, self, result);
    int status = check_inplace(op, self, result) || td_check_overlap(op, self, 0, NULL) ? -1 : 0;
    if (status == 0 && self->device.type != TD_META)
        status = td_copy_elements(self, result);
    td_tensor_release(result);
    return status;
}

td_tensor *td_original(td_tensor *self) { return td_wants_grad(self) ? td_clone_detached(self) : td_tensor_retain(self); }

td_write_mark td_before_write(int64_t n, td_tensor *const *written)
{
    td_write_mark mark = {n ? written[0]->storage : NULL, 0};
    for (int64_t i = 0; i < n; i++)
        mark.versions += td_tensor_version(written[i]);
    return mark;
}

void td_wrote_since(td_write_mark before, int64_t n, td_tensor *const *written, const char *op)
{
    td_write_mark now = td_before_write(n, written);
    if (now.storage == before.storage && now.versions == before.versions) {
        for (int64_t i = 0; i < n; i++)
            td_wrote(written[i], op);
    } else if (n == 1 && __atomic_load_n(&td_values_saved, __ATOMIC_RELAXED)) {
        td_note_write(written[0], op, (uint32_t)before.versions + 1);
    }
}

int td_record_inplace(const char *op, td_tensor *self, td_tensor *result)
{
    if (!result)
        return -1;
    int status = check_inplace(op, self, result);
    if (status == 0)
        status = td_copy_from_(self, result, false);
    if (status == 0 && __atomic_load_n(&td_values_saved, __ATOMIC_RELAXED))
        td_note_write(self, op, td_tensor_version(self));
    td_tensor_release(result);
    return status;
}

int td_finish_out(const char *op, td_tensor *out, td_tensor *result)
{
    if (!result)
        return -1;
    if (TD_UNLIKELY(td_is_sparse(out) || td_is_sparse(result)))
        return td_check_cast(op, result->dtype, out->dtype) ? td_results_drop(1, &result) : td_sparse_finish(op, out, result);
    int status = -1;
    if (td_check_out_device(result->device, out->device) == 0 && td_check_cast(op, result->dtype, out->dtype) == 0 &&
        td_resize_strided(out, result->ndim, result->sizes, result->flags & TD_FLAG_NON_OVERLAPPING ? result->strides : NULL) == 0 &&
        td_check_overlap(op, out, 1, &result) == 0)
        status = out->device.type == TD_META ? 0 : td_copy_elements(out, result);
    td_tensor_release(result);
    return status;
}

int td_finish_outs(const char *op, int n, td_tensor *const *outs, td_tensor **results)
{
    int status = 0;
    for (int i = 0; i < n; i++) {
        if (status == 0)
            status = td_finish_out(op, outs[i], results[i]);
        else
            td_tensor_release(results[i]);
    }
    return status;
}

int td_finish_out_list(const char *op, int64_t n, td_tensor *const *outs, td_tensor_list *results)
{
    int status = results->count == n ? 0 : td_error(TD_E_RUNTIME, "%s_out() expected an out= argument of size %" PRId64 ", got size %" PRId64,
                                                     op, results->count, n);
    for (int64_t i = 0; i < n && status == 0; i++)
        status = td_finish_out(op, outs[i], td_tensor_retain(results->items[i]));
    td_tensor_list_release(results);
    return status;
}

int td_results_exact(const char *words, int n, td_tensor *const *outs, td_tensor **results)
{
    for (int i = 0; i < n; i++)
        if (results[i] != TD_NONE && td_check_exact(words, (td_dtype)results[i]->dtype, (td_dtype)outs[i]->dtype))
            return td_results_drop(n, results);
    return 0;
}

td_tensor *td_exact(const char *words, const td_tensor *out, td_tensor *result)
{
    return result && td_results_exact(words, 1, (td_tensor *[]){(td_tensor *)out}, &result) ? NULL : result;
}

int td_check_own_dtype(const td_tensor *self, td_dtype dtype)
{
    return dtype == TD_DTYPE_NONE || dtype == (td_dtype)self->dtype ? 0 :
           td_error(TD_E_RUNTIME, "Bad in-place call: input tensor dtype %s and output tensor dtype %s should match",
                    td_dtype_name((td_dtype)self->dtype), td_dtype_name(dtype));
}

int td_list_exact(const char *words, int64_t n, td_tensor *const *outs, td_tensor_list *results)
{
    for (int64_t i = 0; i < n && i < results->count; i++)
        if (td_check_exact(words, (td_dtype)results->items[i]->dtype, (td_dtype)outs[i]->dtype)) {
            td_tensor_list_release(results);
            return -1;
        }
    return 0;
}

int td_factory_out(td_dtype *dtype, td_device *device, const td_tensor *out)
{
    if (*dtype != TD_DTYPE_NONE && td_check_exact("dtype {want} does not match dtype of out parameter ({got})", *dtype, (td_dtype)out->dtype))
        return -1;
    *dtype = (td_dtype)out->dtype;
    char want[32], have[32];
    if (device && device->type >= 0 && device->type != out->device.type)
        return td_error(TD_E_RUNTIME, "device type %s does not match device type of out parameter (%s)", td_device_str(*device, want),
                        td_device_str(out->device, have));
    if (device)
        *device = out->device;
    return 0;
}

int td_finish_factory(td_tensor *out, td_tensor *result)
{
    bool fits = result && out->ndim == result->ndim && !memcmp(out->sizes, result->sizes, sizeof *out->sizes * out->ndim);
    if (result && !fits && td_resize(out, result->ndim, result->sizes)) {
        td_tensor_release(result);
        return -1;
    }
    return td_finish_out("", out, result);
}

int td_fill_in_order(const char *op, td_tensor *out, td_tensor *result)
{
    if (op && result && out->numel && out->numel != result->numel) {
        td_shape_text have;
        if (td_warn("The number of elements in the out tensor of shape %s is %" PRId64 " which does not match the computed number of "
                    "elements %" PRId64 ". Note that this may occur as a result of rounding error. The out tensor will be resized to a "
                    "tensor of shape (%" PRId64 ",).", td_shape_str(out->ndim, out->sizes, have), out->numel, result->numel,
                    result->numel)) {
            td_tensor_release(result);
            return -1;
        }
        return td_finish_factory(out, result);
    }
    if (!result || out->numel != result->numel || (out->ndim == 1 && result->ndim == 1))
        return op ? td_finish_out(op, out, result) : td_finish_factory(out, result);
    td_tensor *shaped = td_reshape(result, out->ndim, out->sizes);
    td_tensor_release(result);
    return td_finish_out("", out, shaped);
}

bool td_has_channels_last(const td_tensor *x)
{
    int64_t least = 0;
    if ((x->ndim != 4 && x->ndim != 5) || x->strides[1] == 0)
        return false;
    for (int k = 0; k < x->ndim; k++) {
        int d = k == 0 ? 1 : k == x->ndim - 1 ? 0 : x->ndim - k;
        if (x->sizes[d] == 0 || x->strides[d] < least || (d == 0 && least == x->strides[1]))
            return false;
        least = x->strides[d] * (x->sizes[d] > 1 ? x->sizes[d] : 1);
    }
    return true;
}

/* Results with their channels innermost if those of one of the operands (or of all) are.  Generated code declares it where it is
 * called; on failure the results are dropped. */
int td_follow_format(int n_results, td_tensor **results, int64_t n, td_tensor *const *of, bool all);
int td_follow_format(int n_results, td_tensor **results, int64_t n, td_tensor *const *of, bool all)
{
    for (int k = 0; k < n_results; k++) {
        td_tensor *x = results[k];
        int64_t found = 0;
        for (int64_t i = 0; i < n; i++)
            found += of[i] != TD_NONE && of[i]->ndim == x->ndim && td_has_channels_last(of[i]);
        if (!found || (all && found < n))
            continue;
        results[k] = td_clone_format(x, x->ndim == 4 ? TD_CHANNELS_LAST : TD_CHANNELS_LAST_3D);
        td_tensor_release(x);
        if (!results[k])
            return td_results_drop(n_results, results);
    }
    return 0;
}

/* Results lie in memory as empty_like(like) does. */
int td_keep_order(int n_results, td_tensor **results, const td_tensor *like);
int td_keep_order(int n_results, td_tensor **results, const td_tensor *like)
{
    int64_t strides[TD_MAX_DIMS];
    for (int k = 0; k < n_results; k++) {
        td_tensor *x = results[k];
        if (x->ndim != like->ndim || memcmp(x->sizes, like->sizes, sizeof *x->sizes * x->ndim) ||
            !memcmp(x->strides, like->strides, sizeof *x->strides * x->ndim))
            continue;
        if (!td_strides_like(like, strides))
            td_contiguous_strides(like->ndim, like->sizes, strides);
        bool moves = false;                  /* else only dimensions without steps differ */
        for (int d = 0; d < x->ndim && x->numel; d++)
            moves |= x->sizes[d] > 1 && x->strides[d] != strides[d];
        if (!moves) {
            if (td_tensor_set_geometry(x, x->ndim, x->sizes, strides))
                return td_results_drop(n_results, results);
            continue;
        }
        results[k] = td_tensor_new_strided(x->ndim, x->sizes, strides, (td_dtype)x->dtype, x->device);
        int status = !results[k] ? -1 : x->device.type == TD_META ? 0 : td_copy_elements(results[k], x);
        td_tensor_release(x);
        if (status)
            return td_results_drop(n_results, results);
    }
    return 0;
}

int td_refuse(const td_tensor *x, const char *text)
{
    const char *title = td_dtype_title((td_dtype)x->dtype);
    if (!strchr(text, ' '))
        return td_error(TD_E_NOT_IMPLEMENTED, "\"%s\" not implemented for '%s'", text, title);
    const char *place = strstr(text, "{}");
    return place ? td_error(TD_E_RUNTIME, "%.*s%s%s", (int)(place - text), text, title, place + 2)
                 : td_error(TD_E_RUNTIME, "%s", text);
}

/* ---- lists */

int td_copy_list(td_tensor_list *list)
{
    for (int64_t i = 0; i < list->count; i++) {
        td_tensor *copy = td_clone_format(list->items[i], TD_CONTIGUOUS_FORMAT);
        td_tensor_release(list->items[i]);
        if (!(list->items[i] = copy)) {
            td_tensor_list_release(list);
            return -1;
        }
    }
    return 0;
}

int td_check_lists(int count, const int64_t *lengths)
{
    if (lengths[0] == 0)
        return td_error(TD_E_RUNTIME, "Tensor list must have at least one tensor.");
    for (int k = 1; k < count; k++)
        if (lengths[k] != lengths[0])
            return td_error(TD_E_RUNTIME, "Tensor lists must have the same number of tensors, got %" PRId64 " and %" PRId64, lengths[0], lengths[k]);
    return 0;
}
int td_check_numbers(int64_t tensors, int64_t numbers)
{
    return tensors == numbers ? 0 : td_error(TD_E_RUNTIME, "Tensor list must have same number of elements as scalar list.");
}
int td_check_number(const td_tensor *number)
{
    return number->ndim == 0 && number->numel == 1 ? 0 :
           td_error(TD_E_RUNTIME, "scalar tensor expected to be 0 dim but it has %d dimensions and %" PRId64 " elements.", number->ndim, number->numel);
}

int td_fail_out_grad(const char *op)
{
    return td_error(TD_E_RUNTIME, "%s(): functions with out=... arguments don't support automatic differentiation, but one "
                    "of the arguments requires grad.", op);
}

int td_refuse_grad(const char *op, const char *argument)
{
    return td_error(TD_E_RUNTIME, "The function '%s' is not differentiable with respect to argument '%s'. This input cannot have requires_grad "
                    "True.", op, argument);
}

int td_refuse_complex_grad(const char *op)
{
    return td_error(TD_E_RUNTIME, "%s does not support automatic differentiation for outputs with complex dtype.", op);
}

int td_check_sealed(const td_tensor *x)
{
    return td_is_sealed(x) ? td_fail_sealed() : 0;
}

int td_check_guarded(const char *op, const char *argument, const td_tensor *x)
{
    return td_readonly(x) ? td_fail_readonly(op, argument, x) : td_check_sealed(x);
}

int td_fail_readonly(const char *op, const char *argument, const td_tensor *x)
{
    return td_error(TD_E_RUNTIME, "%s: %s is read-only%s; write to a copy, %s.clone()", op, argument,
                    x->flags & TD_FLAG_READONLY ? ": it, or what it is a view of, was made by read_only()" :
                    ": its memory was lent to be read, by an array, a buffer, DLPack or a file", argument);
}

int td_check_layout(const td_value *value)
{
    return value->kind == TD_VALUE_NONE || value->integer == TD_STRIDED
               ? 0 : td_error(TD_E_NOT_IMPLEMENTED, "only tensors of the strided layout can be made so far");
}

int td_values_from_tensors(td_value *values, int n, td_tensor *const *tensors)
{
    for (int i = 0; i < n; i++)
        values[i] = (td_value){.kind = TD_VALUE_TENSOR, .tensor = tensors[i]};
    return 0;
}

/* ---- gradients */

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

int td_give(td_tensor **place, td_tensor *value)
{
    if (!value)
        return -1;
    *place = value == TD_NONE ? NULL : td_tensor_retain(value);
    return 0;
}

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

bool td_fusable(int n, td_tensor *const *tensors)
{
    if (!(td_masks_now.exclude & TD_KEYSET(TD_KEY_AUTOGRAD)) || td_masks_now.include)   /* somebody watches */
        return false;
    for (int i = 0; i < n; i++)
        if (!tensors[i] || (tensors[i]->keys & ~(TD_KEYS_CPU | TD_KEYSET(TD_KEY_AUTOGRAD))) ||
            !(td_dtype_is_floating(tensors[i]->dtype) || tensors[i]->dtype == TD_BOOL))
            return false;
    return true;
}

/* ---- arithmetic on numbers, by Python's rules: integers stay exact unless divided */

static bool is_complex(td_scalar a) { return a.kind == TD_SCALAR_COMPLEX; }
static bool both_int(td_scalar a, td_scalar b)
{
    return (a.kind == TD_SCALAR_INT || a.kind == TD_SCALAR_BOOL) && (b.kind == TD_SCALAR_INT || b.kind == TD_SCALAR_BOOL);
}
static double imag_of(td_scalar a) { return is_complex(a) ? a.imag : 0; }

td_scalar td_scalar_neg(td_scalar a)
{
    if (is_complex(a))
        return td_complex(-a.d, -a.imag);
    if (a.kind == TD_SCALAR_FLOAT)
        return td_float(-a.d);
    td_scalar negative = td_int(-td_scalar_int(a));     /* of -2**63: 2**63, which has the same bits */
    negative.kind = a.kind != TD_SCALAR_UINT && negative.i == INT64_MIN ? TD_SCALAR_UINT : TD_SCALAR_INT;
    return negative;
}
td_scalar td_scalar_conj(td_scalar a) { return is_complex(a) ? td_complex(a.d, -a.imag) : a; }
td_scalar td_scalar_add(td_scalar a, td_scalar b)
{
    int64_t sum;
    if (both_int(a, b) && !__builtin_add_overflow(a.i, b.i, &sum))      /* else a float */
        return td_int(sum);
    double real = td_scalar_double(a) + td_scalar_double(b);
    return is_complex(a) || is_complex(b) ? td_complex(real, imag_of(a) + imag_of(b)) : td_float(real);
}
td_scalar td_scalar_sub(td_scalar a, td_scalar b) { return td_scalar_add(a, td_scalar_neg(b)); }
td_scalar td_scalar_mul(td_scalar a, td_scalar b)
{
    int64_t product;
    if (both_int(a, b) && !__builtin_mul_overflow(a.i, b.i, &product))
        return td_int(product);
    double x = td_scalar_double(a), y = td_scalar_double(b);
    if (!is_complex(a) && !is_complex(b))
        return td_float(x * y);
    return td_complex(x * y - imag_of(a) * imag_of(b), x * imag_of(b) + imag_of(a) * y);
}
td_scalar td_scalar_div(td_scalar a, td_scalar b)
{
    double x = td_scalar_double(a), y = td_scalar_double(b);
    if (!is_complex(a) && !is_complex(b))
        return td_float(x / y);
    double norm = y * y + imag_of(b) * imag_of(b);
    return td_complex((x * y + imag_of(a) * imag_of(b)) / norm, (imag_of(a) * y - x * imag_of(b)) / norm);
}
td_scalar td_scalar_pow(td_scalar a, td_scalar b) { return td_float(pow(td_scalar_double(a), td_scalar_double(b))); }
