/* Batching rules of reductions, scans and sorts.  Most follow from their schemas; here are those for which no dimension
 * means all of them.  See Note [Batching rules]. */
#include "calls_transforms_rules_reduce.h"
#include "transforms/batch.h"

/* An operator without a dimension reduces a member to one number: members are rows of [B, numel], and the form with a
 * dimension (b->form) reduces dimension 1, so that one call serves all. Arguments go over by name; dim and keepdim
 * are this rule's, those that only the other form has take their defaults, and results that only it has (indices of
 * extrema) are released. keepdim puts back ones for the member's rank. */
int td_rule_flat(td_batch *b)
{
    static const int64_t one = 1;
    const td_op *op = td_op_find(b->form);
    td_value in[TD_MOST_ARGUMENTS], out[4];
    TD_AUTO td_tensor *front = td_front(b, td_operand(b, "self"));
    TD_AUTO td_tensor *flat = td_reshape(front, 2, (int64_t[]){b->size, td_operand(b, "self")->numel});
    if (!flat || !op)
        return -1;
    for (int i = 0; i < op->info.n_arguments; i++) {
        const td_arg *a = &op->info.arguments[i];
        int same = td_argument_index(b->op, a->name);
        in[i] = i == 0 ? (td_value){.kind = TD_VALUE_TENSOR, .tensor = flat}
              : !strcmp(a->name, "dim") && a->kind == TD_VALUE_INT ? (td_value){.kind = TD_VALUE_INT, .integer = 1}
              : !strcmp(a->name, "dim") ? (td_value){.kind = TD_VALUE_INTS, .count = 1, .ints = &one}
              : !strcmp(a->name, "keepdim") ? (td_value){.kind = TD_VALUE_BOOL, .integer = 0}
              : same >= 0 ? b->arguments[same] : a->default_value;
    }
    if (td_op_call(op, in, out) != 0)
        return -1;
    int n = b->op->info.n_results, more = op->info.n_results;
    for (int r = n; r < more; r++)
        td_tensor_release(out[r].tensor);
    int keep = td_argument_index(b->op, "keepdim"), status = 0;
    for (int r = 0; r < n; r++) {
        TD_AUTO td_tensor *value = out[r].tensor;
        int64_t sizes[TD_MAX_DIMS + 1] = {b->size};
        int rank = keep >= 0 && b->arguments[keep].integer ? td_operand(b, "self")->ndim : 0;
        for (int d = 0; d < rank; d++)
            sizes[d + 1] = 1;
        status |= td_batch_give(b, r, rank ? td_view(value, rank + 1, sizes) : td_tensor_retain(value), 0);
    }
    return status;
}

/* dim may be absent, and means then the flattened operand. */
int td_rule_maybe_flat(td_batch *b)
{
    int dim = td_argument_index(b->op, "dim");
    return b->arguments[dim].kind == TD_VALUE_NONE ? td_rule_flat(b) : td_rule_dims(b);
}

/* Members are searched for in one sequence, or each in its own. One sequence of all: the values' shape is free, so
 * the batch is simply one more dimension. Else sequences and values both get the batch in front, where searchsorted
 * wants equal leading dimensions: values of any shape become one row per member, [B, numel], and return to their
 * shape. */
int td_rule_search(td_batch *b)
{
    int sequence = td_argument_index(b->op, "sorted_sequence");
    sequence = sequence < 0 ? td_argument_index(b->op, "boundaries") : sequence;
    int values = td_argument_index(b->op, "self"), sorter = td_argument_index(b->op, "sorter");
    td_tensor *where = b->arguments[sequence].tensor, *what = b->arguments[values].tensor;
    bool plain = b->arguments[values].kind != TD_VALUE_TENSOR;
    if (!plain && (where->ndim != 1 || !what->ndim) && td_batch_check(b) != 0)
        return -1;
    if (!td_is_batched(b, where) && (sorter < 0 || !td_is_batched(b, b->arguments[sorter].tensor)) && where->ndim == 1)
        return td_batch_set(b, values, td_front(b, what)) != 0 ? -1 : td_batch_call(b, b->op, 0);
    if (plain)
        return td_rule_loop(b);
    TD_AUTO td_tensor *sequences = td_expanded(b, where);
    TD_AUTO td_tensor *wanted = td_expanded(b, what);
    if (!sequences || !wanted)
        return -1;
    bool flat = where->ndim == 1;
    TD_AUTO td_tensor *seen = flat ? td_reshape(wanted, 2, (int64_t[]){b->size, what->numel}) : td_tensor_retain(wanted);
    if (sorter < 0) {                   /* bucketize takes one sequence only */
        TD_AUTO td_tensor *found = td_searchsorted_tensor(sequences, seen, td_given(b, "out_int32")->integer, td_given(b, "right")->integer, NULL, TD_NONE);
        return td_batch_give(b, 0, td_reshape(found, wanted->ndim, wanted->sizes), 0);
    }
    if (td_batch_set(b, sequence, td_tensor_retain(sequences)) != 0 || td_batch_set(b, values, td_tensor_retain(seen)) != 0 ||
        (b->arguments[sorter].kind == TD_VALUE_TENSOR && b->arguments[sorter].tensor != TD_NONE &&
         td_batch_set(b, sorter, td_expanded(b, b->arguments[sorter].tensor)) != 0))
        return -1;
    TD_AUTO td_tensor *found = td_batch_made(b);
    return td_batch_give(b, 0, flat ? td_reshape(found, wanted->ndim, wanted->sizes) : td_tensor_retain(found), 0);
}

/* Elements may have any shape, so the batch in front changes nothing; but the test elements are one set of a call,
 * and a set per member is a call per member. */
int td_rule_isin(td_batch *b)
{
    return td_is_batched(b, td_operand(b, "test_elements")) ? td_rule_loop(b) : td_rule_leading(b);
}
