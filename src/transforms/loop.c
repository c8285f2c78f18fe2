/* vmap's fallback: an operator without a batching rule runs once per member of the batch: slow, so it warns, once per operator, and is counted. */
#include "calls_transforms_loop.h"
#include "transforms/batch.h"
#include <stdio.h>

static int64_t loops;
static void  (*on_loop)(const char *op);
int64_t td_vmap_fallback_count(void) { return __atomic_load_n(&loops, __ATOMIC_RELAXED); }
void    td_vmap_on_fallback(void (*warn)(const char *op)) { __atomic_store_n(&on_loop, warn, __ATOMIC_RELEASE); }

enum { FULL_NAME = 128 };
/* "aten::histogram.bin_ct" */
static const char *full_name(const td_op *op, char *buffer)
{
    const td_op_info *info = &op->info;
    snprintf(buffer, FULL_NAME, "%s::%s%s%s", td_op_space(op), info->name, *info->overload ? "." : "", info->overload);
    return buffer;
}

/* A view, so that an in-place operator writes to the batch; what all members share is passed to each of them. */
static td_tensor *member(td_batch *b, td_tensor *x, int64_t i)
{
    int dim;
    td_tensor *value = td_physical(b, x, &dim);
    return dim < 0 ? td_tensor_retain(value) : td_select_int(value, dim, i);
}

/* The frame keeps all members' views until the call ends: memory grows with the batch, by a tensor's head per
 * operand. */
static int set_member(td_batch *b, int64_t i)
{
    for (int a = 0; a < b->op->info.n_arguments; a++) {
        const td_value *v = &b->arguments[a];
        if (v->kind == TD_VALUE_TENSOR && v->tensor != TD_NONE && td_batch_set(b, a, member(b, v->tensor, i)) != 0)
            return -1;
        for (int k = 0; v->kind == TD_VALUE_TENSORS && k < v->count; k++)
            if (v->tensors[k] != TD_NONE && !(b->frame.lists[a][k] = td_frame_keep(&b->frame, member(b, v->tensors[k], i))))
                return -1;
    }
    return 0;
}

/* Members' results, made[i * n + r], stacked to one batch per result, at the front; lists member by member. The
 * shapes must be each other's, for td_stack refuses others. What the first one has not (TD_NONE) counts as absent
 * from all. */
static int collect(td_batch *b, int n, td_value *made, int64_t size)
{
    for (int r = 0; r < n; r++) {
        td_value *first = &made[r];
        if (first->kind == TD_VALUE_TENSOR) {
            td_tensor_list list;
            if (first->tensor == TD_NONE) {
                b->results[r] = (td_value){.kind = TD_VALUE_TENSOR, .tensor = TD_NONE};
                continue;
            }
            if (td_tensor_list_new(&list, size) != 0)
                return -1;
            for (int64_t i = 0; i < size; i++)
                list.items[i] = td_tensor_retain(made[i * n + r].tensor);
            int status = td_batch_give(b, r, td_stack(list.count, list.items, 0), 0);
            td_tensor_list_release(&list);
            if (status != 0)
                return -1;
        } else if (first->kind == TD_VALUE_TENSORS) {
            td_tensor_list out, list;
            if (td_tensor_list_new(&out, first->count) != 0)
                return -1;
            for (int k = 0; k < first->count; k++) {
                if (td_tensor_list_new(&list, size) == 0) {
                    for (int64_t i = 0; i < size; i++)
                        list.items[i] = td_tensor_retain(made[i * n + r].tensors[k]);
                    out.items[k] = td_wrap(b->level, td_stack(list.count, list.items, 0), 0);
                    td_tensor_list_release(&list);
                }
                if (!out.items[k]) {
                    td_tensor_list_release(&out);
                    return -1;
                }
            }
            b->results[r] = (td_value){.kind = TD_VALUE_TENSORS, .count = (int32_t)out.count, .tensors = out.items};
        } else {
            return td_error(TD_E_RUNTIME, "Batching rule not implemented for %s. We could not generate a fallback.",
                            full_name(b->op, (char[FULL_NAME]){0}));
        }
    }
    return 0;
}

int td_rule_loop(td_batch *b) { return td_batch_loop(b, false); }

/* All checks come before the first member runs, so that a refusal has written to nothing; an error in a later member
 * leaves earlier ones' writes, as it would in a loop of the program's. An empty batch is refused, since only a run
 * shows the results' shapes. */
int td_batch_loop(td_batch *b, bool quiet)
{
    const td_op_info *info = &b->op->info;
    int n = info->n_results;
    void (*warn)(const char *op) = __atomic_load_n(&on_loop, __ATOMIC_ACQUIRE);
    if (warn && !quiet) {
        warn(full_name(b->op, (char[FULL_NAME]){0}));
        if (td_error_code() != TD_OK)       /* it refuses */
            return -1;
    }
    __atomic_fetch_add(&loops, 1, __ATOMIC_RELAXED);
    for (int r = 0; r < n; r++)
        if (info->results[r].kind != TD_VALUE_TENSOR && info->results[r].kind != TD_VALUE_TENSORS)
            return td_error(TD_E_RUNTIME, "Batching rule not implemented for %s. We could not generate a fallback.",
                            full_name(b->op, (char[FULL_NAME]){0}));
    if (!b->size)
        return td_error(TD_E_RUNTIME, "vmap: %s has no batching rule, and nothing to go by in an empty batch",
                        full_name(b->op, (char[FULL_NAME]){0}));
    td_value *made = td_mem_alloc_zero(sizeof *made * (size_t)(b->size * (n ? n : 1)));
    if (!made)
        return -1;
    int status = 0;
    int64_t done = 0;
    for (; done < b->size && status == 0; done++) {
        status = set_member(b, done);
        if (status == 0)
            status = td_op_call(b->op, b->frame.values, made + done * n);
        if (status != 0)
            break;
    }
    bool writes = info->flags & TD_OP_INPLACE;
    if (status == 0 && writes)
        b->results[0] = (td_value){.kind = TD_VALUE_TENSOR, .tensor = td_tensor_retain(b->arguments[0].tensor)};
    else if (status == 0)
        status = collect(b, n, made, b->size);
    for (int64_t i = 0; i < done; i++)
        td_values_release(made + i * n, n);
    td_mem_free(made, sizeof *made * (size_t)(b->size * (n ? n : 1)));
    return status;
}
