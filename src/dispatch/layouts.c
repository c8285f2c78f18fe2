/* What operators do for layouts other than strided where their entries name a pattern instead of a kernel: the operator itself on
 * the values, or on each part, of a tensor whose layout lists its parts (<tede/layout.h>).  And forms that are made of a kernel from outside. */
#include "calls_dispatch_layouts.h"
#include "dispatch/outputs.h"
#include "tensor/layout.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A pattern on the values alone is right only for layouts whose absent elements are zeros, and operators that keep
 * zero (the entry says so by naming the pattern). */
const td_layout_kernel *td_layout_pattern_of(const td_op *op, int slot)
{
    const int key = slot < 16 ? 0 : TD_KEY_DENSE + (slot - 16) / TD_DEVICE_TYPES;
    const td_layout_kind *kind = op->of_layouts ? td_layout_of_key(key) : NULL;
    if (!kind)
        return NULL;
    for (const td_layout_kernel *of = op->of_layouts; of->key; of++) {
        const bool holds = of->pattern == TD_LAYOUT_OWN ? kind->call != NULL
                           : kind->parts && (of->pattern == TD_LAYOUT_EACH_PART || kind->flags & TD_LAYOUT_ZEROS);
        if (of->pattern != TD_LAYOUT_KERNEL && of->pattern != TD_LAYOUT_KERNEL_ANYWHERE && (of->key == key || of->key == TD_KEY_DENSE) && holds)
            return of;
    }
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
    if (pattern->pattern == TD_LAYOUT_OWN)
        return td_layout_of_key(pattern->key)->call(op, pattern->word, arguments, results);
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

/* ---- one kernel from outside for all forms of an operator */

int td_layout_store(const td_op *op, td_tensor *to, td_tensor *result)
{
    td_tensor *owned = result ? td_tensor_retain(result) : NULL;
    return op->info.flags & TD_OP_INPLACE ? td_finish_inplace(op->info.name, to, owned) : td_finish_out(op->info.name, to, owned);
}

typedef struct form {
    td_boxed_kernel *kernel;
    void            *context;
    const td_op     *makes;
    const struct form *before;
} form;

static int run_form(const td_op *op, td_keyset keys, const td_value *arguments, td_value *results, void *context)
{
    const form *f = context;
    bool operand = false;
    for (int i = 0; i < f->makes->info.n_arguments; i++) {
        operand |= arguments[i].kind == TD_VALUE_TENSOR && arguments[i].tensor != TD_NONE && td_has_layout(arguments[i].tensor);
        for (int k = 0; k < arguments[i].count && arguments[i].kind == TD_VALUE_TENSORS; k++)
            operand |= arguments[i].tensors[k] != TD_NONE && td_has_layout(arguments[i].tensors[k]);
    }
    td_tensor *to = arguments[op->info.flags & TD_OP_INPLACE ? 0 : op->info.n_arguments - 1].tensor;
    td_value made = {0};
    if (!operand)                               /* out= alone has the layout */
        return td_layout_refuse(op->info.name, to), -1;
    if (f->kernel(f->makes, keys, arguments, &made, f->context))
        return -1;
    const int status = td_layout_store(op, to, made.tensor);
    td_values_release(&made, 1);
    if (status == 0 && op->info.n_results)
        results[0] = (td_value){.kind = TD_VALUE_TENSOR, .tensor = td_tensor_retain(to)};
    return status;
}

/* Whether a call of `op` has the arguments of one of `makes`, in the same order, with out= behind them if there is one. */
static bool is_form_of(const td_op *op, const td_op *makes)
{
    const td_op_info *a = &op->info, *b = &makes->info;
    const bool inplace = a->flags & TD_OP_INPLACE, out = a->flags & TD_OP_OUT;
    const size_t length = strlen(b->name);
    if (inplace == out || a->alias_of || strncmp(a->name, b->name, length) || strcmp(a->name + length, inplace ? "_" : "") ||
        a->n_arguments != b->n_arguments + out || strcmp(a->space ? a->space : "", b->space ? b->space : ""))
        return false;
    for (int i = 0; i < b->n_arguments; i++)
        if (a->arguments[i].kind != b->arguments[i].kind || a->arguments[i].is_out || strcmp(a->arguments[i].name, b->arguments[i].name))
            return false;
    return true;
}

/* Records are never freed: a call on another thread may be in one, as with implementations (structured.c). */
int td_layout_register_forms(const char *name, td_key key, int device, td_boxed_kernel *kernel, void *context)
{
    static const form *registered;
    const td_op *makes = td_op_find(name);
    if (!makes)
        return td_error(TD_E_VALUE, "no operator is named '%s'", name);
    if (makes->info.n_results != 1 || makes->info.results[0].kind != TD_VALUE_TENSOR || makes->info.flags & (TD_OP_INPLACE | TD_OP_OUT))
        return td_error(TD_E_VALUE, "%s makes no new tensor, which its other forms could store", name);
    if (td_register_boxed(name, key, device, kernel, context))
        return -1;
    form *made = NULL;
    if (kernel) {
        if (!(made = malloc(sizeof *made)))
            return td_error(TD_E_MEMORY, "no memory to register a kernel");
        *made = (form){kernel, context, makes, __atomic_load_n(&registered, __ATOMIC_RELAXED)};
        while (!__atomic_compare_exchange_n(&registered, &made->before, made, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {}
    }
    char full[160];
    for (int i = 0; i < td_op_count(); i++) {
        const td_op *op = td_op_at(i);
        if (!op || !is_form_of(op, makes))
            continue;
        snprintf(full, sizeof full, "%s::%s%s%s", td_op_space(op), op->info.name, op->info.overload[0] ? "." : "", op->info.overload);
        if (td_register_boxed(full, key, device, kernel ? run_form : NULL, made))
            return -1;
    }
    return 0;
}
