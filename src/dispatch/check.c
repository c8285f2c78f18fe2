/* Argument checks and result allocation for kernels from outside (<tede/kernel.h>).  Names and positions come from the schema. */
#include "calls_dispatch_check.h"
#include <tede/kernel.h>
#include <stdarg.h>
#include <stdio.h>
#include "dispatch/frame.h"
#include "dispatch/op.h"
#include "dispatch/spec.h"

/* An argument out of range (-1, say) is no argument's fault, and the message names the operator alone. */
static int refuse(const td_op *op, int argument, const char *what)
{
    const td_op_info *info = &op->info;
    const char *space = info->space ? info->space : "aten";
    if (argument < 0 || argument >= info->n_arguments)
        return td_error(TD_E_RUNTIME, "%s::%s(): %s", space, info->name, what);
    return td_error(TD_E_RUNTIME, "%s::%s(): argument '%s' (position %d) %s", space, info->name, info->arguments[argument].name,
                    argument + 1, what);
}

/* `must` is a format that continues "must "; what is too long for the text is cut off. */
int td_check_argument(const td_op *op, int argument, bool good, const char *must, ...)
{
    if (good)
        return 0;
    char text[256] = "must ";
    va_list list;
    va_start(list, must);
    vsnprintf(text + 5, sizeof text - 5, must, list);
    va_end(list);
    return refuse(op, argument, text);
}

int td_check_defined(const td_op *op, int argument, const td_tensor *x)
{
    return x && x != TD_NONE ? 0 : refuse(op, argument, "must be a tensor, but is None");
}

int td_check_ndim(const td_op *op, int argument, const td_tensor *x, int ndim)
{
    if (td_check_defined(op, argument, x))
        return -1;
    return td_check_argument(op, argument, x->ndim == ndim, "have %d dimension%s, but has %d", ndim, ndim == 1 ? "" : "s", x->ndim);
}

int td_check_sizes_of(const td_op *op, int argument, const td_tensor *x, int ndim, const int64_t *sizes)
{
    if (td_check_ndim(op, argument, x, ndim))
        return -1;
    bool good = true;
    for (int d = 0; d < ndim; d++)
        good &= sizes[d] == TD_ANY || sizes[d] == x->sizes[d];
    td_shape_text wanted, has;
    if (good)
        return 0;
    return td_check_argument(op, argument, false, "have sizes %s (-1: any), but has %s", td_shape_str(ndim, sizes, wanted),
                             td_shape_str(x->ndim, x->sizes, has));
}

/* A bit per dtype; the list of names in the message ends where the text has no room for another. */
int td_check_dtype_of(const td_op *op, int argument, const td_tensor *x, uint64_t dtypes)
{
    if (td_check_defined(op, argument, x))
        return -1;
    if (dtypes >> x->dtype & 1)
        return 0;
    char text[200] = "";
    for (int d = 0, at = 0; d < TD_DTYPES && at < (int)sizeof text - 16; d++)
        if (dtypes >> d & 1)
            at += snprintf(text + at, sizeof text - (size_t)at, "%s%s", at ? ", " : "", td_dtype_name(d));
    return td_check_argument(op, argument, false, "have one of the dtypes %s, but has %s", text, td_dtype_name(x->dtype));
}

/* Numbers on the CPU (no dimensions) go with any device, as in PyTorch. */
int td_check_same_device(const td_op *op, const td_value *arguments)
{
    const td_tensor *first = NULL;
    for (int i = 0; i < op->info.n_arguments; i++) {
        const td_value *v = &arguments[i];
        for (int k = 0; k < td_tensors_in(v); k++) {
            const td_tensor *x = td_tensor_in(v, k);
            if (!x || x == TD_NONE || (x->ndim == 0 && x->device.type == TD_CPU))
                continue;
            if (!first)
                first = x;
            if (x->device.type == TD_CPU && op->info.arguments[i].from_cpu)
                continue;
            if (first->device.type != x->device.type || first->device.index != x->device.index) {
                char a[32], b[32];
                if (op->info.arguments[i].from_cpu)
                    return td_error(TD_E_RUNTIME, "%s should be either on cpu or on the same device as the indexed tensor (%s)",
                                    op->info.arguments[i].name, td_device_str(first->device, a));
                return td_error(TD_E_RUNTIME, "Expected all tensors to be on the same device, but found at least two devices, %s and "
                                "%s! (when checking argument for argument %s in method %s::%s)", td_device_str(first->device, a),
                                td_device_str(x->device, b), op->info.arguments[i].name, op->info.space ? op->info.space : "aten",
                                op->info.name);
            }
        }
    }
    return 0;
}

int td_check_one_device(const td_op *op, int n, const td_spec_inputs *operands)
{
    const td_tensor *first = NULL;
    for (int i = 0; i < n; i++)
        for (int64_t k = 0; k < operands[i].count; k++) {
            const td_tensor *x = operands[i].tensors[k];
            if (!x || x == TD_NONE || (x->ndim == 0 && x->device.type == TD_CPU))
                continue;
            first = first ? first : x;
            char a[32], b[32];
            if (first->device.type != x->device.type || first->device.index != x->device.index)
                return td_error(TD_E_RUNTIME, "Expected all tensors to be on the same device, but found at least two devices, %s and %s! "
                                "(in method %s::%s)", td_device_str(first->device, a), td_device_str(x->device, b), td_op_space(op), op->info.name);
        }
    return 0;
}

td_tensor *td_output(td_value *result, int64_t ndim, const int64_t *sizes, td_dtype dtype, td_device device)
{
    td_tensor *x = td_tensor_new(ndim, sizes, dtype, device);
    *result = (td_value){.kind = x ? TD_VALUE_TENSOR : TD_VALUE_NONE, .tensor = x};
    return x;
}
