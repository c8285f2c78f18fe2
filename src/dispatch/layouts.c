/* What operators do for layouts other than strided where their entries name a pattern instead of a kernel: the operator itself on
 * the values, or on each part, of a tensor whose layout lists its parts (<tede/layout.h>). */
#include "calls_dispatch_layouts.h"
#include "dispatch/outputs.h"
#include "tensor/layout.h"

/* A pattern on the values alone is right only for layouts whose absent elements are zeros, and operators that keep
 * zero (the entry says so by naming the pattern). */
const td_layout_kernel *td_layout_pattern_of(const td_op *op, int slot)
{
    const int key = slot < 16 ? 0 : TD_KEY_DENSE + (slot - 16) / TD_DEVICE_TYPES;
    const td_layout_kind *kind = op->of_layouts ? td_layout_of_key(key) : NULL;
    if (!kind || !kind->parts)
        return NULL;
    for (const td_layout_kernel *of = op->of_layouts; of->key; of++)
        if (of->pattern != TD_LAYOUT_KERNEL && (of->key == key || of->key == TD_KEY_DENSE) &&
            (of->pattern == TD_LAYOUT_EACH_PART || kind->flags & TD_LAYOUT_ZEROS))
            return of;
    return NULL;
}

/* A tensor like x of parts that `op` made of x's: of the values alone, or of all tensors. */
static td_tensor *of_parts(const td_op *op, td_tensor *x, bool all, int at, const td_value *arguments)
{
    enum { ROOM = 64 };
    td_layout_part parts[TD_LAYOUT_PARTS];
    td_value changed[ROOM];
    td_tensor *made[TD_LAYOUT_PARTS] = {NULL};
    const int n = td_layout_parts(x, parts), n_arguments = op->info.n_arguments;
    if (n < 0 || n_arguments > ROOM)
        return n < 0 ? NULL : td_fail(TD_E_RUNTIME, "%s: too many arguments for a tensor of another layout than strided", op->info.name);
    int status = 0;
    for (int i = 0; i < n && status == 0; i++) {
        if (!parts[i].tensor || !(all || parts[i].values))
            continue;
        memcpy(changed, arguments, sizeof *changed * (size_t)n_arguments);
        changed[at].tensor = parts[i].tensor;
        for (int k = 0; k < n_arguments && !parts[i].values; k++)
            if (op->info.arguments[k].kind == TD_VALUE_DTYPE)
                changed[k] = (td_value){.kind = TD_VALUE_NONE};
        td_value result = {0};
        status = td_op_call(op, changed, &result);
        if (status == 0)
            parts[i].tensor = made[i] = result.tensor;
    }
    td_tensor *like = status == 0 ? td_layout_from_parts(x, n, parts) : NULL;
    for (int i = 0; i < n; i++)
        td_tensor_release(made[i]);
    return like;
}

/* For calls with one operand of a layout: elements of two don't correspond. On the values the operand is settled
 * first (COO: coalesced), for a function of a sum is not the sum of the function's values. */
int td_call_by_pattern(const td_op *op, const td_layout_kernel *pattern, const td_value *arguments, td_value *results)
{
    const bool inplace = op->info.flags & TD_OP_INPLACE;
    const td_op *makes = pattern->makes ? pattern->makes : op;
    int at = -1, to = inplace ? 0 : -1;
    for (int i = 0; i < op->info.n_arguments; i++) {
        if (op->info.arguments[i].is_out)
            to = i;
        else if (arguments[i].kind == TD_VALUE_TENSOR && arguments[i].tensor != TD_NONE && td_has_layout(arguments[i].tensor))
            at = at < 0 ? i : -2;
    }
    if (at < 0 || makes->info.n_arguments > op->info.n_arguments) {      /* out= alone has the layout, or several operands do */
        for (int i = 0; i < op->info.n_arguments; i++)
            if (arguments[i].kind == TD_VALUE_TENSOR && arguments[i].tensor != TD_NONE && td_has_layout(arguments[i].tensor))
                return td_layout_refuse(op->info.name, arguments[i].tensor), -1;
        return td_error(TD_E_RUNTIME, "%s: no operand of another layout than strided", op->info.name);
    }
    td_tensor *operand = arguments[at].tensor;
    const td_layout_kind *kind = td_layout_describe(td_tensor_layout(operand));
    if (!kind)
        return td_layout_refuse(op->info.name, operand), -1;
    TD_AUTO td_tensor *x = pattern->pattern == TD_LAYOUT_VALUES && kind->settled ? kind->settled(operand, inplace ? op->info.name : NULL)
                                                                         : td_tensor_retain(operand);
    td_tensor *made = x ? of_parts(makes, x, pattern->pattern == TD_LAYOUT_EACH_PART, at, arguments) : NULL;
    if (!made)
        return -1;
    if (to < 0) {
        results[0] = (td_value){.kind = TD_VALUE_TENSOR, .tensor = made};
        return 0;
    }
    td_tensor *target = arguments[to].tensor;
    if (inplace ? td_finish_inplace(op->info.name, target, made) : td_finish_out(op->info.name, target, made))
        return -1;
    if (op->info.n_results)
        results[0] = (td_value){.kind = TD_VALUE_TENSOR, .tensor = td_tensor_retain(target)};
    return 0;
}
