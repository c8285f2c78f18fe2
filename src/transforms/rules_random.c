/* Random operators at a vmap level: an error, the same numbers for all members, or different ones.
 *
 * Different: the operator fills a batch at once.  Same: it runs for one member, and every member gets that. */
#include "calls_transforms_rules_random.h"
#include "transforms/batch.h"

static int fail(const char *text) { return td_error(TD_E_RUNTIME, "%s", text); }

/* rand(size), randn(size), randint(low, high, size): a longer size. */
static int factory(td_batch *b)
{
    int size = td_argument_index(b->op, "size");
    if (size < 0)
        return td_batch_loop(b, true);        /* randperm: a permutation per member */
    int64_t sizes[TD_MAX_DIMS + 1] = {b->size};
    const td_value *v = &b->arguments[size];
    if (v->count >= TD_MAX_DIMS)
        return fail("a tensor has too many dimensions");
    memcpy(sizes + 1, v->ints, sizeof *sizes * (size_t)v->count);
    return td_batch_set_ints(b, size, v->count + 1, sizes) != 0 ? -1 : td_batch_call(b, b->op, 0);
}

/* One member's numbers for all, written to self. */
static int same_in_place(td_batch *b)
{
    TD_AUTO td_tensor *front = td_front(b, b->arguments[0].tensor);
    TD_AUTO td_tensor *first = td_select_int(front, 0, 0);
    TD_AUTO td_tensor *one = td_clone(first);
    td_value out;
    for (int i = 1; i < b->op->info.n_arguments; i++)
        if (b->arguments[i].kind == TD_VALUE_TENSOR && td_is_batched(b, b->arguments[i].tensor))
            return fail("Vmap does not currently support same randomness with a batched tensor input");
    if (td_batch_set(b, 0, td_tensor_retain(one)) != 0 || td_op_call(b->op, b->frame.values, &out) != 0)
        return -1;
    td_tensor_release(out.tensor);
    if (td_copy_(front, one) != 0)
        return -1;
    return td_batch_give(b, 0, td_tensor_retain(b->arguments[0].tensor), -1);
}

int td_rule_random(td_batch *b)
{
    int mode = b->level->randomness;
    bool any = td_any_batched(b), writes = b->op->info.flags & TD_OP_INPLACE;
    bool like = b->op->info.flags & TD_OP_FACTORY;      /* rand_like: its operand says the shape only */
    if (b->op->info.flags & TD_OP_OUT)
        return fail("vmap: We do not support calling out variants of random operations inside of vmap. Please use non-out variants as a workaround");
    if (mode == TD_RANDOM_ERROR)
        return fail("vmap: called random operation while in randomness error mode. Please either use the 'same' or 'different' "
                    "randomness flags on vmap or perform the randomness operation out of vmap");
    if (mode == TD_RANDOM_UNSUPPORTED)
        return fail("vmap: We do not yet support calling random operations inside of vmap. Please perform random operations outside of vmap "
                    "as a workaround");
    if (mode == TD_RANDOM_SAME) {
        if (!any)
            return td_batch_call(b, b->op, -1);
        if (writes)
            return same_in_place(b);
        if (!like)
            return fail("Vmap does not currently support same randomness with a batched tensor input");
        TD_AUTO td_tensor *front = td_front(b, b->arguments[0].tensor);
        return td_batch_set(b, 0, td_select_int(front, 0, 0)) != 0 ? -1 : td_batch_call(b, b->op, -1);
    }
    if (writes && !td_is_batched(b, b->arguments[0].tensor))
        return fail("vmap: Cannot ask for different inplace randomness on an unbatched tensor. This will appear like same randomness. If "
                    "this is necessary for your usage, please file an issue with functorch.");
    bool takes = false;
    for (int i = 0; i < b->op->info.n_arguments; i++)
        takes |= b->op->info.arguments[i].kind == TD_VALUE_TENSOR;
    if (takes && b->modes & TD_RANDOM_ROWS && b->arguments[0].tensor->ndim == 2) {
        TD_AUTO td_tensor *wide = td_expanded(b, b->arguments[0].tensor);
        TD_AUTO td_tensor *rows = td_batch_set(b, 0, td_folded(wide)) ? NULL : td_batch_made(b);
        return td_batch_give(b, 0, td_unfolded(rows, b->size), 0);
    }
    return takes ? td_batch_leading(b, TD_LEADING_EXPAND) : factory(b);
}
