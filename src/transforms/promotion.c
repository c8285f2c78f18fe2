/* The promotion rules of the Python array API standard, for threads that ask for them (td_set_promotion).
 *
 * The key Promotion is then in the thread's mask, above all others, and this is its fallback: operators that promote get
 * operands of one dtype, by the standard's table, or the call is a TypeError.  What an operator is made of runs without the
 * key, by PyTorch's rules, and so do formulas of gradients. */
#include "calls_transforms_promotion.h"
#include "base/once.h"

#include <string.h>
#include <tede/auto.h>
#include <tede/promotion.h>
#include "dispatch/outputs.h"

enum { MOST_OPERANDS = 64 };
typedef enum kind { BOOLEAN, INTEGER, REAL, COMPLEX } kind;

static kind kind_of(td_dtype dtype)
{
    return dtype == TD_BOOL ? BOOLEAN : td_dtype_is_complex(dtype) ? COMPLEX : td_dtype_is_floating(dtype) ? REAL : INTEGER;
}

/* ---- by which operands an operator promotes */

static bool is_named(const char *name, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!strcmp(name, names[i]))
            return true;
    return false;
}

static bool takes_part(const td_arg *a)
{
    static const char *const conditions[] = {"condition", "mask"};
    static const char *const numbers[] = {"self", "other", "exponent", "end", "min", "max"};
    if (a->is_out || is_named(a->name, conditions, TD_COUNT(conditions)))
        return false;
    return a->kind != TD_VALUE_SCALAR || is_named(a->name, numbers, TD_COUNT(numbers));
}

/* ---- the standard's table */

static int fail_mixed(const td_op *op, const char *a, const char *b)
{
    return td_error(TD_E_TYPE, "%s: the array API doesn't promote %s with %s; convert one with .to(), or leave promotion(\"array_api\")",
                    op->info.name, a, b);
}

static td_dtype together(const td_op *op, td_dtype a, td_dtype b)
{
    if (a == b)
        return a;
    kind ka = kind_of(a), kb = kind_of(b);
    if (ka == INTEGER && kb == INTEGER) {
        if (td_dtype_is_signed(a) == td_dtype_is_signed(b))
            return td_itemsizes[a] > td_itemsizes[b] ? a : b;
        td_dtype with = td_dtype_is_signed(a) ? a : b, without = td_dtype_is_signed(a) ? b : a;
        if (td_itemsizes[with] > td_itemsizes[without])
            return with;
        if (td_itemsizes[without] < 8)
            return td_itemsizes[without] == 1 ? TD_I16 : td_itemsizes[without] == 2 ? TD_I32 : TD_I64;
    } else if (ka >= REAL && kb >= REAL) {
        return td_promote_types(a, b);
    }
    return fail_mixed(op, td_dtype_name(a), td_dtype_name(b)), TD_DTYPE_NONE;
}

/* A number's kind with a tensor's dtype: the dtype of the result. */
static td_dtype with_number(const td_op *op, td_dtype dtype, td_scalar value)
{
    static const char *const words[] = {[BOOLEAN] = "a bool", [INTEGER] = "an int", [REAL] = "a float", [COMPLEX] = "a complex number"};
    kind number = value.kind == TD_SCALAR_BOOL ? BOOLEAN : value.kind == TD_SCALAR_FLOAT ? REAL
                : value.kind == TD_SCALAR_COMPLEX ? COMPLEX : INTEGER;
    kind own = kind_of(dtype);
    if (number == own || (own > number && number != BOOLEAN))
        return own == INTEGER && td_scalar_check(value, dtype) ? TD_DTYPE_NONE : dtype;
    if (own == REAL && number == COMPLEX)
        return td_dtype_to_complex(dtype);
    return fail_mixed(op, words[number], td_dtype_name(dtype)), TD_DTYPE_NONE;
}

/* ---- a call */

typedef struct operands {
    td_dtype  dtype;                       /* of the tensors */
    int       n_numbers;
    td_scalar numbers[MOST_OPERANDS];
} operands;

static int count_in(const td_op *op, operands *all, const td_tensor *x)
{
    if (x == TD_NONE)
        return 0;
    if (!(x->flags & TD_FLAG_WRAPPED_NUMBER)) {
        all->dtype = all->dtype == TD_DTYPE_NONE ? (td_dtype)x->dtype : together(op, all->dtype, (td_dtype)x->dtype);
        return all->dtype == TD_DTYPE_NONE ? -1 : 0;
    }
    return all->n_numbers < MOST_OPERANDS ? td_tensor_item((td_tensor *)x, &all->numbers[all->n_numbers++]) : 0;
}

/* The dtype that all operands are brought to; TD_DTYPE_NONE where there is no tensor, or with an error (-1). */
static int common_dtype(const td_op *op, const td_value *arguments, td_dtype *dtype)
{
    operands all = {.dtype = TD_DTYPE_NONE};
    for (int i = 0; i < op->info.n_arguments; i++) {
        const td_value *v = &arguments[i];
        if (!takes_part(&op->info.arguments[i]))
            continue;
        if (v->kind == TD_VALUE_TENSOR && count_in(op, &all, v->tensor))
            return -1;
        for (int k = 0; v->kind == TD_VALUE_TENSORS && k < v->count; k++)
            if (count_in(op, &all, v->tensors[k]))
                return -1;
        if (v->kind == TD_VALUE_SCALAR && all.n_numbers < MOST_OPERANDS)
            all.numbers[all.n_numbers++] = v->scalar;
    }
    *dtype = all.dtype;
    for (int i = 0; i < all.n_numbers && *dtype != TD_DTYPE_NONE; i++)
        if ((*dtype = with_number(op, *dtype, all.numbers[i])) == TD_DTYPE_NONE)
            return -1;
    return 0;
}

static bool is_converted(const td_tensor *x, td_dtype dtype)
{
    return x != TD_NONE && !(x->flags & TD_FLAG_WRAPPED_NUMBER) && x->dtype != (int8_t)dtype;
}

static int promote(const td_op *op, td_keyset keys, const td_value *arguments, td_value *results, void *context)
{
    (void)context;
    td_keyset own = TD_KEYSET(TD_KEY_PROMOTION);
    td_dtype dtype = TD_DTYPE_NONE;
    if (op->info.flags & TD_OP_PROMOTES && common_dtype(op, arguments, &dtype))
        return -1;
    td_value values[MOST_OPERANDS];
    td_tensor *made[MOST_OPERANDS], *items[MOST_OPERANDS];
    int n_made = 0, n_items = 0, status = 0, n = op->info.n_arguments;
    td_masks before = td_thread_masks();
    td_set_thread_masks((td_masks){before.include & ~own, before.exclude});
    memcpy(values, arguments, sizeof *values * (size_t)(n < MOST_OPERANDS ? n : 0));
    for (int i = 0; i < n && n < MOST_OPERANDS && status == 0 && dtype != TD_DTYPE_NONE; i++) {
        const td_arg *a = &op->info.arguments[i];
        td_value *v = &values[i];
        if (!takes_part(a))
            continue;
        if (v->kind == TD_VALUE_TENSOR && is_converted(v->tensor, dtype)) {
            if (a->is_mutable)
                status = td_error(TD_E_TYPE, "%s: the result is %s, and by the array API's rules what is written stays %s", op->info.name,
                                  td_dtype_name(dtype), td_dtype_name((td_dtype)v->tensor->dtype));
            else if (!(v->tensor = made[n_made++] = td_to(v->tensor, dtype)))
                status = -1;
        } else if (v->kind == TD_VALUE_TENSORS && n_items + v->count <= MOST_OPERANDS && n_made + v->count < MOST_OPERANDS) {
            td_tensor **copy = items + n_items;
            for (int k = 0; k < v->count && status == 0; k++) {
                copy[k] = is_converted(v->tensors[k], dtype) ? made[n_made++] = td_to(v->tensors[k], dtype) : v->tensors[k];
                status = copy[k] ? 0 : -1;
            }
            n_items += v->count;
            v->tensors = copy;
        }
    }
    if (status == 0)
        status = td_op_call_keys(op, keys & ~own, n < MOST_OPERANDS ? values : arguments, results);
    td_set_thread_masks(before);
    for (int i = 0; i < n_made; i++)
        td_tensor_release(made[i]);
    return status;
}

/* ---- the thread's choice */

static int register_rules(void) { return td_register_fallback((td_key)TD_KEY_PROMOTION, TD_CPU, promote, NULL); }

int td_set_promotion(td_promotion rules)
{
    static td_once once;
    if (td_once_run(&once, register_rules) != 0)
        return -1;
    td_masks masks = td_thread_masks();
    td_keyset key = TD_KEYSET(TD_KEY_PROMOTION);
    masks.include = rules == TD_PROMOTION_ARRAY_API ? masks.include | key : masks.include & ~key;
    td_set_thread_masks(masks);
    return 0;
}
td_promotion td_get_promotion(void)
{
    return td_thread_masks().include & TD_KEYSET(TD_KEY_PROMOTION) ? TD_PROMOTION_ARRAY_API : TD_PROMOTION_PYTORCH;
}
