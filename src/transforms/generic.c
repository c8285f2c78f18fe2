/* The rules that follow from an operator's schema: for formulas, for dimensions by name, for operators that take any
 * number of leading dimensions.  See Note [Batching rules]. */
#include "calls_transforms_generic.h"
#include "transforms/batch.h"
#include <tede/kernel.h>

/* A tensor without dimensions counts less in type promotion; with the batch's dimension it no longer looks like one. */
static td_tensor *as_promoted(td_batch *b, td_tensor *logical, td_tensor *x, td_dtype common)
{
    (void)b;
    if (!x || logical->ndim || x->dtype == TD_BOOL || x->dtype == common || common == TD_DTYPE_NONE)
        return td_tensor_retain(x);
    return td_to(x, common);
}

/* Operands broadcast: the batch goes in front of the longest shape. Operands without one need nothing, for
 * broadcasting aligns them at their ends; batched ones are padded behind the batch to that length. Types are promoted
 * by the logical operands, before the shapes change. */
int td_rule_pointwise(td_batch *b)
{
    td_tensor *logical[TD_MOST_ARGUMENTS];
    int n = 0, rank = 0;
    for (int i = 0; i < b->op->info.n_arguments; i++)
        if (b->arguments[i].kind == TD_VALUE_TENSOR && b->arguments[i].tensor != TD_NONE) {
            logical[n++] = b->arguments[i].tensor;
            rank = logical[n - 1]->ndim > rank ? logical[n - 1]->ndim : rank;
        }
    if (b->op->info.arguments[0].is_mutable && n && logical[0]->ndim < rank && td_batch_check(b) != 0)
        return -1;
    bool promotes = n > 1 && !(b->modes & TD_POINTWISE_OWN_DTYPES);
    td_dtype common = promotes ? td_result_type(n, logical) : TD_DTYPE_NONE;
    for (int i = 0; i < b->op->info.n_arguments; i++) {
        td_tensor *x = b->arguments[i].kind == TD_VALUE_TENSOR ? b->arguments[i].tensor : TD_NONE;
        if (!td_is_batched(b, x))
            continue;
        TD_AUTO td_tensor *front = td_front(b, x);
        bool written = b->op->info.arguments[i].is_mutable;
        TD_AUTO td_tensor *promoted = written ? td_tensor_retain(front) : as_promoted(b, x, front, common);
        if (td_batch_set(b, i, td_padded(promoted, rank)) != 0)
            return -1;
    }
    return td_batch_call(b, b->op, 0);
}

/* ---- dimensions by name */

static bool names_one_dim(const td_arg *a) { return a->kind == TD_VALUE_INT && td_names_dims(a); }

/* Sizes of the operand or result, which have the batch in front, too. */
static bool names_shape(const td_arg *a)
{
    static const char *const names[] = {"size", "shape", "sizes", "input_sizes", "self_sizes"};
    for (size_t i = 0; a->kind == TD_VALUE_INTS && i < TD_COUNT(names); i++)
        if (!strcmp(a->name, names[i]))
            return true;
    return false;
}

/* Negative dimensions are resolved by the member's rank first: -1 plus one would be the batch's. -1 with an error for
 * one out of range. */
static int shift_dim(int64_t dim, int ndim)
{
    int wrapped = td_wrap_dim(dim, ndim);
    return wrapped < 0 ? -1 : wrapped + 1;
}

/* Drop the dimension that a tensor without any was given, where it is still there. */
static int drop_added(td_batch *b)
{
    for (int r = 0; r < b->op->info.n_results; r++) {
        td_value *v = &b->results[r];
        if (v->kind != TD_VALUE_TENSOR || v->tensor == TD_NONE)
            continue;
        td_wrapped *w = td_wrapped_at(v->tensor, b->level);
        if (!w || w->value->ndim < 2)
            continue;
        td_tensor *squeezed = td_squeeze_dim(w->value, 1);
        td_tensor_release(v->tensor);
        if (!(v->tensor = td_wrap(b->level, squeezed, 0))) {
            td_values_release(b->results, b->op->info.n_results);
            return -1;
        }
    }
    return 0;
}

/* The batch stands first, so every dimension that an argument names moves up by one, and sizes get it in front; see
 * TD_DIMS_ABSENT_IS_ALL and those below it for the exceptions. A list that is absent and means all dimensions is
 * written out, or the batch would be reduced, too; where there is room for one dimension alone and a member has more, members are
 * called one by one. A number is called as one of one dimension, which its dims 0 and
 * -1 name. */
int td_rule_dims(td_batch *b)
{
    td_tensor *x = b->arguments[0].tensor;
    bool everything = b->modes & TD_DIMS_ABSENT_IS_ALL, added = x->ndim == 0 && !(b->modes & TD_DIMS_KEEPS_0D);
    bool alike = b->modes & TD_DIMS_ALL_OPERANDS;
    if (added && !b->op->unbox)                 /* td_op_define's: nothing tells whether it takes the dimension that is added */
        return td_rule_loop(b);
    for (int i = 1; i < b->op->info.n_arguments; i++)
        if (names_one_dim(&b->op->info.arguments[i]) && b->arguments[i].kind == TD_VALUE_NONE && (!everything || x->ndim > 1))
            return td_rule_loop(b);
    int more = b->modes & TD_DIMS_OF_RESULT ? 1 : 0;
    if (added && td_batch_check(b) != 0)        /* some operators have no dimension 0 of a number */
        return -1;
    TD_AUTO td_tensor *front = alike ? td_expanded(b, x) : td_front(b, x);
    if (td_batch_set(b, 0, added ? td_unsqueeze(front, -1) : td_tensor_retain(front)) != 0)
        return -1;
    for (int i = 1; i < b->op->info.n_arguments && alike; i++) {
        td_tensor *other = b->arguments[i].kind == TD_VALUE_TENSOR ? b->arguments[i].tensor : TD_NONE;
        TD_AUTO td_tensor *wide = other == TD_NONE ? TD_NONE : td_expanded(b, other);
        if (other != TD_NONE && td_batch_set(b, i, added ? td_unsqueeze(wide, -1) : td_tensor_retain(wide)) != 0)
            return -1;
    }
    for (int i = 1; i < b->op->info.n_arguments; i++) {
        const td_arg *a = &b->op->info.arguments[i];
        td_value *v = &b->frame.values[i];
        int64_t dims[TD_MAX_DIMS + 1];
        if (names_shape(a) && v->kind == TD_VALUE_INTS && v->count < TD_MAX_DIMS) {
            dims[0] = b->size;
            memcpy(dims + 1, v->ints, sizeof *dims * (size_t)v->count);
            if (td_batch_set_ints(b, i, v->count + 1, dims) != 0)
                return -1;
        } else if (names_one_dim(a) && v->kind == TD_VALUE_NONE) {
            *v = (td_value){.kind = TD_VALUE_INT, .integer = 1};
        } else if (td_names_dims(a) && v->kind == TD_VALUE_INT) {
            if ((v->integer = shift_dim(v->integer, x->ndim + more)) < 0)
                return -1;
        } else if (td_names_dims(a) && a->kind == TD_VALUE_INTS && (v->kind == TD_VALUE_NONE || !v->count) && everything) {
            int n = added ? 1 : x->ndim;
            for (int d = 0; d < n; d++)
                dims[d] = d + 1;
            if (td_batch_set_ints(b, i, n, dims) != 0)
                return -1;
        } else if (td_names_dims(a) && v->kind == TD_VALUE_INTS && v->count <= TD_MAX_DIMS) {
            for (int k = 0; k < v->count; k++)
                if ((dims[k] = shift_dim(v->ints[k], x->ndim)) < 0)
                    return -1;
            if (td_batch_set_ints(b, i, v->count, dims) != 0)
                return -1;
        }
    }
    if (td_batch_call(b, b->op, 0) != 0)
        return -1;
    return added ? drop_added(b) : 0;
}

/* Operators over the last dimensions, whatever stands before them: all operands get the batch in front. */
int td_rule_leading(td_batch *b) { return td_batch_leading(b, b->modes); }

/* The call with meta tensors of the members' shapes, for errors alone: with the batch in front a vector that is
 * refused would pass for a matrix. It runs with no transform included, so it reaches the meta kernel and no rule. */
int td_batch_check(const td_batch *b)
{
    const td_op_info *info = &b->op->info;
    td_value values[info->n_arguments + 1], results[info->n_results + 1];
    td_tensor *made[info->n_arguments + 1];
    int n = 0, status = 0;
    for (int i = 0; i < info->n_arguments; i++) {
        values[i] = b->arguments[i];
        td_tensor *x = values[i].kind == TD_VALUE_TENSOR ? values[i].tensor : TD_NONE;
        if (x == TD_NONE || status)
            continue;
        td_tensor *bare = td_tensor_new(x->ndim, x->sizes, (td_dtype)x->dtype, (td_device){TD_META, -1});
        values[i].tensor = bare;
        status = bare ? (made[n++] = bare, 0) : -1;
    }
    const td_masks masks = td_thread_masks();
    td_set_thread_masks((td_masks){0, masks.exclude});
    status = status ? status : td_op_call(b->op, values, results);
    td_set_thread_masks(masks);
    if (status == 0)
        td_values_release(results, info->n_results);
    while (n--)
        td_tensor_release(made[n]);
    return status;
}

/* All batch dimensions of these operators are alike, so one more in front is served by the same call. Where the
 * operator doesn't broadcast them (TD_LEADING_EXPAND) shared operands are expanded, and ranks made equal unless each
 * operand has its own. */
int td_batch_leading(td_batch *b, uint32_t modes)
{
    if (modes & TD_LEADING_CHECKED && td_batch_check(b))
        return -1;
    bool expand = modes & TD_LEADING_EXPAND;
    int rank = 0;
    for (int i = 0; i < b->op->info.n_arguments; i++)
        if (b->arguments[i].kind == TD_VALUE_TENSOR && b->arguments[i].tensor != TD_NONE &&
            b->arguments[i].tensor->ndim > rank)
            rank = b->arguments[i].tensor->ndim;
    for (int i = 0; i < b->op->info.n_arguments; i++) {
        td_tensor *x = b->arguments[i].kind == TD_VALUE_TENSOR ? b->arguments[i].tensor : TD_NONE;
        if (x == TD_NONE || !(expand || td_is_batched(b, x)))
            continue;
        TD_AUTO td_tensor *front = expand ? td_expanded(b, x) : td_front(b, x);
        if (td_batch_set(b, i, expand && !(modes & TD_LEADING_OWN_RANKS) ? td_padded(front, rank) : td_tensor_retain(front)) != 0)
            return -1;
    }
    return td_batch_call(b, b->op, 0);
}
