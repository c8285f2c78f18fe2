/* In-place and out= forms made of functional results: see outputs.h. */
#include "calls_dispatch_outputs.h"
#include "dispatch/outputs.h"
#include <tede/foreign.h>
#include <tede/spec.h>
#include <tede/transforms.h>
#include "tensor/layout.h"
#include "tensor/recorded.h"

#include <inttypes.h>
#include <string.h>

int td_results_drop(int n, td_tensor **results)
{
    for (int i = 0; i < n; i++) {
        td_tensor_release(results[i]);
        results[i] = NULL;
    }
    return -1;
}

/* An in-place operator may broadcast its operands to self, and never self to them. */
int td_check_inplace_result(const char *op, td_tensor *self, td_tensor *result)
{
    td_shape_text want, have;
    if (result->ndim != self->ndim || memcmp(result->sizes, self->sizes, sizeof(int64_t) * self->ndim))
        return td_error(TD_E_RUNTIME, "%s: output with shape %s doesn't match the broadcast shape %s", op,
                        td_shape_str(self->ndim, self->sizes, have), td_shape_str(result->ndim, result->sizes, want));
    return td_check_cast(op, result->dtype, self->dtype);
}

void *td_layout_refuse(const char *op, const td_tensor *x)
{
    char backend[64];
    return td_fail(TD_E_NOT_IMPLEMENTED, "Could not run 'aten::%s' with arguments from the '%s' backend.", op,
                   td_backend_title(x->keys, backend, sizeof backend));
}

/* Takes over `given`. A strided target gets the elements; one of a layout takes over the result's parts, and keeps
 * its own dtype. Between two layouts nothing is converted behind the caller's back. */
int td_layout_finish(const char *op, td_tensor *to, td_tensor *given)
{
    TD_AUTO td_tensor *result = given;
    if (!td_has_layout(to)) {
        TD_AUTO td_tensor *dense = td_layout_to_dense(result);
        return !dense || td_resize_output(to, dense->ndim, dense->sizes) || td_check_overlap(op, to, 0, NULL) ? -1
                   : td_copy_elements(to, dense);
    }
    if (td_layout_with_strides(to))
        return td_resize_output(to, result->ndim, result->sizes) ? -1 : td_copy_(to, result);
    if (td_tensor_layout(to) != td_tensor_layout(result))
        return td_error(TD_E_NOT_IMPLEMENTED, "%s: a result of layout %s can't be stored in a tensor of layout %s", op,
                        td_layout_name(td_tensor_layout(result)), td_layout_name(td_tensor_layout(to)));
    TD_AUTO td_tensor *cast = result->dtype == to->dtype ? td_tensor_retain(result) : td_to(result, (td_dtype)to->dtype);
    return cast ? td_layout_take(to, cast) : -1;
}

static bool is_copied_late(td_tensor *to, td_tensor *from) { return td_is_recorded(to, 2, (td_tensor *[]){to, from}) && from->numel; }

/* Checks come before the first element is written, so a refused call leaves self as it was. Takes over `result`, also
 * on an error, as all functions here do. */
int td_finish_inplace(const char *op, td_tensor *self, td_tensor *result)
{
    if (!result)
        return -1;
    if (TD_UNLIKELY(td_has_layout(self) || td_has_layout(result)))
        return td_check_inplace_result(op, self, result) ? td_results_drop(1, &result) : td_layout_finish(op, self, result);
    int status = td_check_inplace_result(op, self, result) || td_check_overlap(op, self, 0, NULL) ? -1 : 0;
    if (status == 0 && self->device.type != TD_META)
        status = is_copied_late(self, result) ? td_regions.copy(self, result) : td_copy_elements(self, result);
    td_tensor_release(result);
    return status;
}

/* An out= whose elements are elsewhere, as in functionalize, is written to by calls that its owner takes. */
static int finish_hollow(const char *op, td_tensor *out, td_tensor *result)
{
    bool fits = out->ndim == result->ndim && !memcmp(out->sizes, result->sizes, sizeof *out->sizes * out->ndim);
    int status = td_check_out_device(result->device, out->device) || td_check_cast(op, result->dtype, out->dtype) ? -1 : 0;
    if (status == 0 && !fits)
        status = td_resize_(out, result->ndim, result->sizes, TD_MEMORY_FORMAT_NONE);
    if (status == 0)
        status = td_copy_from_(out, result, false);
    td_tensor_release(result);
    return status;
}

bool td_loses_tangent(const td_tensor *out, const td_tensor *result)
{
    return (out->keys | result->keys) & TD_KEYSET(TD_KEY_FORWARD_AD) & ~td_masks_now.exclude && (td_tangent(out) || td_tangent(result));
}

int td_fail_out_tangent(const char *op)
{
    return td_error(TD_E_NOT_IMPLEMENTED, "Trying to use forward AD with %s_out that does not support it because it is an out= function", op);
}

/* An out that must be resized gets the result's strides where each element has its own memory. */
int td_finish_out(const char *op, td_tensor *out, td_tensor *result)
{
    if (!result)
        return -1;
    if (TD_UNLIKELY(td_loses_tangent(out, result)))
        return td_results_drop(1, &result), td_fail_out_tangent(op);
    if (TD_UNLIKELY(td_has_layout(out) || td_has_layout(result)))
        return td_check_cast(op, result->dtype, out->dtype) ? td_results_drop(1, &result) : td_layout_finish(op, out, result);
    if (TD_UNLIKELY(td_tensor_is_hollow(out)))
        return finish_hollow(op, out, result);
    int status = -1;
    if (td_check_out_device(result->device, out->device) == 0 && td_check_cast(op, result->dtype, out->dtype) == 0 &&
        td_check_overlap(op, out, 1, &result) == 0 &&       /* of an expanded out, too, that would have memory for each element once it is resized */
        td_resize_strided(out, result->ndim, result->sizes, result->flags & TD_FLAG_NON_OVERLAPPING ? result->strides : NULL) == 0)
        status = out->device.type == TD_META ? 0 : is_copied_late(out, result) ? td_regions.copy(out, result) : td_copy_elements(out, result);
    td_tensor_release(result);
    return status;
}

int td_finish_contiguous_out(const char *op, td_tensor *out, td_tensor *result)
{
    bool plain = result && !td_has_layout(out) && !td_has_layout(result);
    if (plain && (td_check_out_device(result->device, out->device) || td_check_cast(op, result->dtype, out->dtype) ||
                  td_resize_output(out, result->ndim, result->sizes)))
        return td_results_drop(1, &result);
    return td_finish_out(op, out, result);
}

/* After the first error the other results are only released. */
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

static int check_count(const char *op, int64_t n, const td_tensor_list *results)
{
    return results->count == n ? 0 : td_error(TD_E_RUNTIME, "%s_out() expected an out= argument of size %" PRId64 ", got size %" PRId64, op,
                                              results->count, n);
}

int td_finish_out_list(const char *op, int64_t n, td_tensor *const *outs, td_tensor_list *results)
{
    int status = check_count(op, n, results);
    for (int64_t i = 0; i < n && status == 0; i++)
        status = td_finish_out(op, outs[i], td_tensor_retain(results->items[i]));
    td_tensor_list_release(results);
    return status;
}

int td_fill_out_list(const char *op, int64_t n, td_tensor *const *outs, td_tensor_list *results)
{
    int status = check_count(op, n, results);
    for (int64_t i = 0; i < n && status == 0; i++)
        status = td_copy_from_(outs[i], results->items[i], false);
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

/* torch.zeros(..., out=x): what is not given is out's, and what is given must be. */
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

/* PyTorch's test of strides (is_channels_last_strides_2d): in the order C, W, H, (D,) N each stride must be at
 * least the extent of the dimensions before it. So for k = 0 dimension 1 is looked at, and dimension 0 comes last;
 * one image whose strides fit both formats doesn't count. */
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

static bool is_dense_channels_last(const td_tensor *x)
{
    int64_t expected = 1;
    if (x->ndim != 4 && x->ndim != 5)
        return false;
    for (int k = 0; k < x->ndim; k++) {
        int d = k == 0 ? 1 : k == x->ndim - 1 ? 0 : x->ndim - k;
        if (x->sizes[d] == 1)
            continue;
        if (x->strides[d] != expected)
            return false;
        expected *= x->sizes[d];
    }
    return true;
}

/* The first result lies as x does if x is contiguous: row by row or, where it isn't that, with its channels innermost. Strides of
 * dimensions of size 1 count for nothing here. Of others it has its channels innermost where x's strides say so. Generated code
 * declares it where it is called. */
int td_follow_dense(int n_results, td_tensor **results, const td_tensor *x);
int td_follow_dense(int n_results, td_tensor **results, const td_tensor *x)
{
    td_tensor *made = results[0];
    if (td_tensor_is_contiguous(x) || (!is_dense_channels_last(x) && !td_has_channels_last(x)))
        return 0;
    results[0] = td_clone_format(made, made->ndim == 4 ? TD_CHANNELS_LAST : TD_CHANNELS_LAST_3D);
    td_tensor_release(made);
    return results[0] ? 0 : td_results_drop(n_results, results);
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

void td_lay_results(int n_results, td_spec *specs, int64_t n, td_tensor *const *of)
{
    for (int k = 0; k < n_results; k++) {
        td_spec *x = &specs[k];
        bool found = false, fits = true;
        for (int64_t i = 0; i < n; i++)
            found |= of[i] != TD_NONE && of[i]->ndim == x->ndim && td_has_channels_last(of[i]);
        if (!found || x->absent)
            continue;
        int64_t next = 1;
        for (int i = 0; i < x->ndim; i++) {
            const int d = i == 0 ? 1 : i == x->ndim - 1 ? 0 : x->ndim - i;
            x->strides[d] = next;
            fits = fits && !__builtin_mul_overflow(next, x->sizes[d] > 1 ? x->sizes[d] : 1, &next);
        }
        x->strided = fits;              /* what doesn't fit is an error where it is made */
    }
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
