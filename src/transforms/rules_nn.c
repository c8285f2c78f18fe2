/* Batching rules (vmap) of layers: convolution, norms, pooling, losses, recurrent cells.  Where a layer has a batch dimension, members become
 * more of that; where the weights differ, members become groups or channels.  Gradients come as differentiable parts (TD_RECORDS is true of
 * wrappers), so that only those parts need rules.  See Note [Batching rules]. */
#include "calls_transforms_rules_nn.h"
#include "transforms/batch.h"

/* Members fold into the first dimension of every tensor, whatever that is; sizes of operands grow with it.  Argument
 * `except` is `other` (borrowed, NULL: none). */
static int fold(td_batch *b, int except, td_tensor *other)
{
    for (int i = 0; i < b->op->info.n_arguments; i++) {
        const td_arg *a = &b->op->info.arguments[i];
        td_tensor *x = b->arguments[i].kind == TD_VALUE_TENSOR ? b->arguments[i].tensor : TD_NONE;
        if (i == except && other) {
            if (td_batch_set(b, i, td_tensor_retain(other)) != 0)
                return -1;
        } else if (x != TD_NONE) {
            TD_AUTO td_tensor *wide = td_expanded(b, x);
            if (td_batch_set(b, i, td_folded(wide)) != 0)
                return -1;
        } else if (!strcmp(a->name, "input_size") && b->arguments[i].count) {
            int64_t sizes[TD_MAX_DIMS];
            memcpy(sizes, b->arguments[i].ints, sizeof *sizes * (size_t)b->arguments[i].count);
            sizes[0] *= b->size;
            if (td_batch_set_ints(b, i, b->arguments[i].count, sizes) != 0)
                return -1;
        }
    }
    td_value out[4];
    int n = b->op->info.n_results, status = 0;
    if (td_op_call(b->op, b->frame.values, out) != 0)
        return -1;
    for (int r = 0; r < n; r++) {
        TD_AUTO td_tensor *made = out[r].tensor;
        bool absent = made == TD_NONE || (n > 1 && made->ndim == 1 && made->numel == 0);      /* a gradient that nobody wants */
        status |= absent ? td_batch_give(b, r, td_tensor_retain(made), -1) : td_batch_give(b, r, td_unfolded(made, b->size), 0);
    }
    return status;
}

int td_rule_fold(td_batch *b) { return fold(b, -1, NULL); }

/* Queries, keys and values fold; so does a mask, unless all members and rows share it. */
int td_rule_attention(td_batch *b)
{
    int at = td_argument_index(b->op, "mask");
    td_tensor *mask = b->arguments[at].kind == TD_VALUE_TENSOR ? b->arguments[at].tensor : TD_NONE;
    TD_AUTO td_tensor *kept = NULL;
    if (mask != TD_NONE) {
        bool own = td_is_batched(b, mask);
        TD_AUTO td_tensor *wide = own ? td_front(b, mask) : td_expanded(b, mask);
        TD_AUTO td_tensor *padded = td_padded(wide, 4);
        if (!padded)
            return -1;
        int64_t sizes[TD_MAX_DIMS];
        memcpy(sizes, padded->sizes, sizeof *sizes * (size_t)padded->ndim);
        sizes[1] = b->arguments[td_argument_index(b->op, "query")].tensor->sizes[0];
        TD_AUTO td_tensor *rows = td_expand(padded, padded->ndim, sizes);
        kept = td_folded(rows);
    }
    return fold(b, at, kept);
}

/* ---- convolution */

/* [N, B * C, ...] from [B, N, C, ...] */
static td_tensor *into_channels(td_batch *b, td_tensor *logical)
{
    TD_AUTO td_tensor *wide = td_expanded(b, logical);
    if (!wide)
        return NULL;
    TD_AUTO td_tensor *transposed = td_transpose(wide, 0, 1);
    int64_t sizes[TD_MAX_DIMS];
    sizes[0] = logical->sizes[0], sizes[1] = b->size * logical->sizes[1];
    for (int d = 2; d < logical->ndim; d++)
        sizes[d] = logical->sizes[d];
    return td_reshape(transposed, logical->ndim, sizes);
}

/* [N, B * C, ...] as a batch at dimension 1. */
static td_tensor *from_channels(td_tensor *x, int64_t size)
{
    if (!x)
        return NULL;
    int64_t sizes[TD_MAX_DIMS + 1];
    sizes[0] = x->sizes[0], sizes[1] = size, sizes[2] = x->sizes[1] / (size ? size : 1);
    for (int d = 2; d < x->ndim; d++)
        sizes[d + 1] = x->sizes[d];
    return td_reshape(x, x->ndim + 1, sizes);
}

/* [B * N, ...] of [N, ...], in the order that grouped operators want: all of a member's rows in a row. */
static td_tensor *folded_or_none(td_batch *b, td_tensor *x)
{
    if (x == TD_NONE)
        return td_tensor_retain(TD_NONE);
    TD_AUTO td_tensor *wide = td_expanded(b, x);
    return td_folded(wide);
}

/* A weight for all: members are more of the layer's batch, [B * N, C, ...]. A weight per member: members are groups,
 * with input [N, B * C, ...], weights [B * O, C, ...] and groups * B, since group g of a convolution sees only its
 * own channels and weights; the result's channels [N, B * O, ...] are the batch at dimension 1. An input that all
 * share needs no groups, if there were none: B * O output channels over the same C do (side by side). */
int td_rule_convolution(td_batch *b)
{
    td_tensor *input = td_operand(b, "input"), *weight = td_operand(b, "weight"), *bias = td_operand(b, "bias");
    if (!td_is_batched(b, weight) && !td_is_batched(b, bias)) {
        TD_AUTO td_tensor *made = td_batch_put(b, "input", folded_or_none(b, input)) ? NULL : td_batch_made(b);
        return td_batch_give(b, 0, td_unfolded(made, b->size), 0);
    }
    bool side_by_side = !td_is_batched(b, input) && td_given(b, "groups")->integer == 1 && !td_given(b, "transposed")->integer;
    if (td_batch_put(b, "input", side_by_side ? td_tensor_retain(input) : into_channels(b, input)) != 0 ||
        td_batch_put(b, "weight", folded_or_none(b, weight)) != 0 || td_batch_put(b, "bias", folded_or_none(b, bias)) != 0)
        return -1;
    if (!side_by_side)
        td_changed(b, "groups")->integer *= b->size;
    TD_AUTO td_tensor *made = td_batch_made(b);
    return td_batch_give(b, 0, from_channels(made, b->size), 1);
}

/* The gradients of a convolution's input and weight, each linear in the result's gradient. As in td_rule_convolution
 * members are more of the batch where the weight is shared, and groups elsewhere. The weight's gradient sums over the
 * batch, so there members are groups always; they come back as its first dimension, [B * O, ...]. */
int td_rule_convolution_gradient(td_batch *b)
{
    td_tensor *grad = td_operand(b, "grad_output"), *input = td_operand(b, "input"), *weight = td_operand(b, "weight");
    bool of_input = b->modes & TD_CONVOLUTION_GRADIENT_OF_INPUT;
    if (of_input && !td_is_batched(b, weight)) {
        if (td_batch_put(b, "grad_output", folded_or_none(b, grad)) != 0 || td_batch_put(b, "input", folded_or_none(b, input)) != 0)
            return -1;
        TD_AUTO td_tensor *made = td_batch_made(b);
        return td_batch_give(b, 0, td_unfolded(made, b->size), 0);
    }
    if (td_batch_put(b, "grad_output", into_channels(b, grad)) != 0 || td_batch_put(b, "input", into_channels(b, input)) != 0 ||
        td_batch_put(b, "weight", folded_or_none(b, weight)) != 0)
        return -1;
    td_changed(b, "groups")->integer *= b->size;
    TD_AUTO td_tensor *made = td_batch_made(b);
    return of_input ? td_batch_give(b, 0, from_channels(made, b->size), 1)
                       : td_batch_give(b, 0, td_unfolded(made, b->size), 0);
}

/* convolution_backward: the two above and the bias's gradient, a sum over all dimensions but the channels. They are
 * called at the level, for each has a rule; the frame's lowering is undone around them and restored, also
 * on an error. */
int td_rule_convolution_backward(td_batch *b)
{
    const td_value *grad = td_given(b, "grad_output"), *stride = td_given(b, "stride"), *padding = td_given(b, "padding");
    const td_value *dilation = td_given(b, "dilation"), *added = td_given(b, "output_padding");
    const bool *mask = td_given(b, "output_mask")->bools;
    td_tensor *made[3] = {NULL, NULL, NULL};
    int64_t dims[TD_MAX_DIMS] = {0};
    for (int d = 2; d < grad->tensor->ndim; d++)
        dims[d - 1] = d;
    int status = 0;
    td_level *level = b->level;
    td_level *below = td_level_now;
    td_masks masks = td_thread_masks();
    td_level_now = level;               /* its parts are calls at this level */
    td_masks_now.include |= TD_KEYSET(TD_KEY_TRANSFORMS);
    for (int k = 0; k < 2 && status == 0; k++) {
        made[k] = !mask[k] ? td_tensor_retain(TD_NONE)
                : (k ? td_convolution_grad_weight : td_convolution_grad_input)(
                      grad->tensor, td_operand(b, "input"), td_operand(b, "weight"), stride->count, stride->ints, padding->count, padding->ints,
                      dilation->count, dilation->ints, td_given(b, "transposed")->integer, added->count, added->ints, td_given(b, "groups")->integer);
        status = made[k] ? 0 : -1;
    }
    if (status == 0 && !(made[2] = mask[2] ? td_sum_dim_intlist(grad->tensor, grad->tensor->ndim - 1, dims, false, TD_DTYPE_NONE) : td_tensor_retain(TD_NONE)))
        status = -1;
    td_level_now = below;
    td_set_thread_masks(masks);
    for (int k = 0; k < 3; k++) {
        b->results[k] = (td_value){.kind = TD_VALUE_TENSOR, .tensor = made[k]};
        if (status != 0)
            td_tensor_release(made[k]);
    }
    return status;
}

/* ---- norms */

/* result * weight + bias, where these differ between members: dimension `at` of [B, ...] is the first of theirs. */
static td_tensor *affine(td_batch *b, td_tensor *x, td_tensor *weight, td_tensor *bias, int at, int after)
{
    td_tensor *result = td_tensor_retain(x);
    td_tensor *const both[] = {weight, bias};
    for (int k = 0; k < 2 && result; k++) {
        if (both[k] == TD_NONE)
            continue;
        int64_t sizes[TD_MAX_DIMS + 1];
        TD_AUTO td_tensor *wide = td_expanded(b, both[k]);
        if (!wide)
            break;
        int n = 0;
        sizes[n++] = b->size;
        for (int d = 1; d < at; d++)
            sizes[n++] = 1;
        for (int d = 1; d < wide->ndim; d++)
            sizes[n++] = wide->sizes[d];
        for (int d = 0; d < after; d++)
            sizes[n++] = 1;
        TD_AUTO td_tensor *shaped = td_reshape(wide, n, sizes);
        td_tensor *next = k ? td_add(result, shaped) : td_mul(result, shaped);
        td_tensor_release(result);
        result = next;
    }
    return result;
}

/* Only the last dimensions are normalized, so members are more rows. Weights that differ between members can't go
 * into the kernel, which takes one set: it runs without any, and the affine part follows by broadcasting. */
int td_rule_layer_norm(td_batch *b)
{
    bool rms = td_argument_index(b->op, "bias") < 0;
    td_tensor *input = td_operand(b, "input"), *weight = td_operand(b, "weight"), *bias = td_operand(b, "bias");
    bool own = td_is_batched(b, weight) || td_is_batched(b, bias);
    TD_AUTO td_tensor *front = own ? td_expanded(b, input) : td_front(b, input);
    if (td_batch_put(b, "input", td_tensor_retain(front)) != 0)
        return -1;
    if (!own)
        return td_batch_call(b, b->op, 0);
    td_value out[3];
    int n = b->op->info.n_results, status = 0;
    *td_changed(b, "weight") = (td_value){.kind = TD_VALUE_TENSOR, .tensor = TD_NONE};
    if (!rms)
        *td_changed(b, "bias") = *td_changed(b, "weight");
    if (td_op_call(b->op, b->frame.values, out) != 0)
        return -1;
    TD_AUTO td_tensor *made = out[0].tensor;
    status |= td_batch_give(b, 0, affine(b, made, weight, bias, made->ndim - td_given(b, "normalized_shape")->count, 0), 0);
    for (int r = 1; r < n; r++)
        status |= td_batch_give(b, r, out[r].tensor, 0);
    return status;
}

/* Statistics belong to a sample and group: members fold into the samples, N * B of them, and per-member weights
 * follow as in layer_norm. Mean and rstd unfold to a row per member. */
int td_rule_group_norm(td_batch *b)
{
    td_tensor *weight = td_operand(b, "weight"), *bias = td_operand(b, "bias");
    if (!td_is_batched(b, weight) && !td_is_batched(b, bias)) {
        TD_AUTO td_tensor *wide = td_expanded(b, td_operand(b, "input"));
        if (td_batch_put(b, "input", td_folded(wide)) != 0)
            return -1;
    } else {
        if (td_batch_put(b, "input", folded_or_none(b, td_operand(b, "input"))) != 0)
            return -1;
        *td_changed(b, "weight") = *td_changed(b, "bias") = (td_value){.kind = TD_VALUE_TENSOR, .tensor = TD_NONE};
    }
    td_changed(b, "N")->integer *= b->size;
    td_value out[3];
    if (td_op_call(b->op, b->frame.values, out) != 0)
        return -1;
    int status = 0;
    for (int r = 0; r < 3; r++) {
        TD_AUTO td_tensor *flat = out[r].tensor;
        TD_AUTO td_tensor *made = td_unfolded(flat, b->size);
        bool own = r == 0 && td_changed(b, "weight")->tensor == TD_NONE && td_changed(b, "bias")->tensor == TD_NONE &&
                   (weight != TD_NONE || bias != TD_NONE);
        status |= td_batch_give(b, r, !made ? NULL : own ? affine(b, made, weight, bias, 2, made->ndim - 3) : td_tensor_retain(made), 0);
    }
    return status;
}

/* One input for all: it is normalised once, and each member's weight and bias come after. */
static int shared_batch_norm(td_batch *b)
{
    td_value out[3];
    td_tensor *weight = td_operand(b, "weight"), *bias = td_operand(b, "bias");
    if (td_batch_put(b, "weight", td_tensor_retain(TD_NONE)) != 0 || td_batch_put(b, "bias", td_tensor_retain(TD_NONE)) != 0 ||
        td_op_call(b->op, b->frame.values, out) != 0)
        return -1;
    TD_AUTO td_tensor *made = out[0].tensor;
    int status = td_batch_give(b, 0, affine(b, made, weight, bias, 2, made->ndim - 2), 0);
    for (int r = 1; r < 3; r++)
        status |= td_batch_give(b, r, out[r].tensor, -1);
    return status;
}

/* Statistics are each channel's, over the batch: members become channels, [N, B * C, ...], and weights and running
 * statistics fold to [B * C] alongside. Running statistics that all members share would have to take B updates at
 * once, which is refused in training, as in PyTorch. */
int td_rule_batch_norm(td_batch *b)
{
    td_tensor *input = td_operand(b, "input");
    if (!td_is_batched(b, input) && !td_is_batched(b, td_operand(b, "running_mean")) && !td_is_batched(b, td_operand(b, "running_var")))
        return shared_batch_norm(b);
    bool training = td_given(b, "training")->integer;
    static const char *const stats[] = {"running_mean", "running_var"}, *const folds[] = {"weight", "bias", "running_mean", "running_var"};
    for (int i = 0; i < 2; i++)
        if (training && td_operand(b, stats[i]) != TD_NONE && !td_is_batched(b, td_operand(b, stats[i])))
            return td_error(TD_E_RUNTIME, "Batch norm got a batched tensor as input while the running_mean or running_var, which will be "
                            "updated in place, were not batched.\nIf you are using a module and do not need eval mode, please set "
                            "`track_running_stats` to be False. If you are using a prebuilt module and do not need eval mode, please see the "
                            "functorch website for resources on how to patch your module to work with vmap");
    if (td_batch_put(b, "input", into_channels(b, input)) != 0)
        return -1;
    td_tensor *kept[2] = {NULL, NULL};
    int status = 0;
    for (int i = 0; i < TD_COUNT(folds) && status == 0; i++)
        status = td_batch_put(b, folds[i], folded_or_none(b, td_operand(b, folds[i])));
    for (int i = 0; i < 2; i++)
        kept[i] = td_changed(b, stats[i])->kind == TD_VALUE_TENSOR ? td_changed(b, stats[i])->tensor : NULL;
    td_value out[3];
    if (status != 0 || td_op_call(b->op, b->frame.values, out) != 0)
        return -1;
    for (int i = 0; i < 2 && training && status == 0; i++) {     /* folding may have copied what was to be written */
        td_tensor *stat = td_operand(b, stats[i]);
        if (stat == TD_NONE || !kept[i])
            continue;
        TD_AUTO td_tensor *place = td_front(b, stat);
        TD_AUTO td_tensor *now = td_unfolded(kept[i], b->size);
        status = !place || !now || (now->data != place->data && td_copy_(place, now) != 0) ? -1 : 0;
    }
    TD_AUTO td_tensor *made = out[0].tensor;
    status |= td_batch_give(b, 0, from_channels(made, b->size), 1);
    for (int r = 1; r < 3; r++) {
        TD_AUTO td_tensor *stat = out[r].tensor;
        bool none = !stat || stat->numel == 0;
        status |= td_batch_give(b, r, none ? td_tensor_retain(stat) : td_unfolded(stat, b->size), none ? -1 : 0);
    }
    return status;
}

/* ---- losses: one per row first, then the member's mean or sum */

/* weight[classes] where each member has its own weights. */
static td_tensor *of_member(td_batch *b, td_tensor *weight, td_tensor *classes)
{
    if (!classes)
        return NULL;
    TD_AUTO td_tensor *table = td_front(b, weight);
    TD_AUTO td_tensor *flat = td_reshape(classes, 2, (int64_t[]){b->size, b->size ? classes->numel / b->size : 0});
    TD_AUTO td_tensor *picked = td_gather(table, 1, flat, false);
    return td_reshape(picked, classes->ndim, classes->sizes);
}

/* How much each row counts: its class's weight, or one; nothing where it is ignored. */
static td_tensor *row_weights(td_batch *b, td_tensor *target, td_tensor *weight, int64_t ignore, td_dtype dtype)
{
    TD_AUTO td_tensor *counts = td_ne_scalar(target, td_int(ignore));
    TD_AUTO td_tensor *ones = td_to(counts, dtype);
    if (weight == TD_NONE)
        return td_tensor_retain(ones);
    TD_AUTO td_tensor *safe = td_mul(target, counts);
    TD_AUTO td_tensor *picked = td_is_batched(b, weight) ? of_member(b, weight, safe) : td_take(weight, safe);
    TD_AUTO td_tensor *cast = td_to(picked, dtype);
    return td_mul(cast, ones);
}

/* Rows of the loss without weights, times what each row counts: where weights differ between members. */
static td_tensor *weighted(td_batch *b, td_tensor *rows, td_tensor *classes, td_tensor *weight, int64_t ignore)
{
    if (!td_is_batched(b, weight) || !rows || !classes)
        return td_tensor_retain(rows);
    TD_AUTO td_tensor *counts = row_weights(b, classes, weight, ignore, (td_dtype)rows->dtype);
    return td_mul(rows, counts);
}

/* Over all dimensions but the batch's; what has no other is a number per member already. */
static td_tensor *sum_of_member(td_tensor *x)
{
    int64_t dims[TD_MAX_DIMS];
    if (!x || x->ndim < 2)
        return td_tensor_retain(x);
    for (int d = 1; d < x->ndim; d++)
        dims[d - 1] = d;
    return td_sum_dim_intlist(x, x->ndim - 1, dims, false, TD_DTYPE_NONE);
}

/* nll_loss_forward and cross_entropy_rows: (loss[, logsumexp], total weight). The kernel's own reduction would run
 * over the members, too; so rows fold and are computed without one, and the sum, or the sum divided by the total
 * weight (a mean is weighted), is taken per member. A member that is one row ([C]) needs no folding: the batch stands
 * where the rows do. */
int td_rule_class_loss(td_batch *b)
{
    td_tensor *self = td_operand(b, "self"), *target = td_operand(b, "target"), *weight = td_operand(b, "weight");
    int64_t reduction = td_given(b, "reduction")->integer, ignore = td_given(b, "ignore_index")->integer;
    if (td_is_batched(b, weight) && td_batch_put(b, "weight", TD_NONE) != 0)
        return -1;
    TD_AUTO td_tensor *x = td_expanded(b, self);
    TD_AUTO td_tensor *classes = td_expanded(b, target);
    bool single = self->ndim == 1;
    if (td_batch_put(b, "self", single ? td_tensor_retain(x) : td_folded(x)) != 0 ||
        td_batch_put(b, "target", single ? td_tensor_retain(classes) : td_folded(classes)) != 0)
        return -1;
    td_changed(b, "reduction")->integer = 0;
    td_value out[3];
    if (td_op_call(b->op, b->frame.values, out) != 0)
        return -1;
    int n = b->op->info.n_results, status = 0;
    TD_AUTO td_tensor *flat = out[0].tensor;
    TD_AUTO td_tensor *plain = single ? td_tensor_retain(flat) : td_unfolded(flat, b->size);
    TD_AUTO td_tensor *rows = weighted(b, plain, classes, weight, ignore);
    td_tensor_release(out[n - 1].tensor);
    TD_AUTO td_tensor *counts = row_weights(b, classes, weight, ignore, (td_dtype)self->dtype);
    TD_AUTO td_tensor *total = sum_of_member(counts);
    TD_AUTO td_tensor *sum = reduction ? sum_of_member(rows) : td_tensor_retain(rows);
    status |= td_batch_give(b, 0, reduction == 1 ? td_div(sum, total) : td_tensor_retain(sum), 0);
    if (n == 3) {
        TD_AUTO td_tensor *lse = out[1].tensor;
        status |= td_batch_give(b, 1, single ? td_tensor_retain(lse) : td_unfolded(lse, b->size), 0);
    }
    return status | td_batch_give(b, n - 1, td_tensor_retain(total), 0);
}

/* multi_margin_loss, and multilabel_margin_loss_forward, which also marks classes: rows fold, and each member's are
 * reduced. */
int td_rule_margin_loss(td_batch *b)
{
    td_tensor *self = td_operand(b, "self"), *target = td_operand(b, "target");
    td_value *how = td_changed(b, "reduction");
    td_tensor *weight = td_operand(b, "weight");
    int64_t reduction = how->integer;
    bool single = self->ndim < 2, marks = b->op->info.n_results == 2;
    TD_AUTO td_tensor *x = td_expanded(b, self);
    TD_AUTO td_tensor *classes = td_expanded(b, target);
    TD_AUTO td_tensor *row = x && !self->ndim ? td_unsqueeze(x, -1) : single ? td_tensor_retain(x) : td_folded(x);
    TD_AUTO td_tensor *of_row = !single ? td_folded(classes) : marks && !target->ndim ? td_unsqueeze(classes, -1)
                              : !marks && target->ndim ? td_squeeze_dim(classes, 1) : td_tensor_retain(classes);
    if (td_batch_put(b, "self", td_tensor_retain(row)) != 0 || td_batch_put(b, "target", td_tensor_retain(of_row)) != 0 ||
        (td_is_batched(b, weight) && td_batch_put(b, "weight", TD_NONE) != 0))
        return -1;
    how->integer = 0;
    td_value out[2];
    if (td_op_call(b->op, b->frame.values, out) != 0)
        return -1;
    TD_AUTO td_tensor *flat = out[0].tensor;
    TD_AUTO td_tensor *plain = single ? td_tensor_retain(flat) : td_unfolded(flat, b->size);
    TD_AUTO td_tensor *rows = weighted(b, plain, single ? of_row : classes, weight, -1);
    bool of_one = single && !marks && target->ndim && !reduction;       /* a member's result has its target's one dimension */
    int status = td_batch_give(b, 0, of_one ? td_unsqueeze(rows, 1) : single || !reduction ? td_tensor_retain(rows)
                                     : reduction == 1 ? td_mean_dim(rows, 1, (int64_t[]){1}, false)
                                                      : td_sum_dim_intlist(rows, 1, (int64_t[]){1}, false, TD_DTYPE_NONE), 0);
    if (marks) {
        TD_AUTO td_tensor *found = out[1].tensor;
        status |= td_batch_give(b, 1, !target->ndim ? td_squeeze_dim(found, 1) : single ? td_tensor_retain(found)
                                                                                   : td_unfolded(found, b->size), 0);
    }
    return status;
}

/* Distances between the pairs of each member's rows: pdist takes matrices only, so the pairs i < j are gathered from
 * [B, n, m], in pdist's order, which is that of triu_indices, and one norm reduces their differences. */
int td_rule_pdist(td_batch *b)
{
    TD_AUTO td_tensor *x = td_front(b, td_operand(b, "self"));
    if (!x || x->ndim != 3)
        return td_rule_loop(b);
    TD_AUTO td_tensor *pairs = td_triu_indices(x->sizes[1], x->sizes[1], 1, TD_I64, x->device);
    TD_AUTO td_tensor *i = td_select_int(pairs, 0, 0), *j = td_select_int(pairs, 0, 1);
    TD_AUTO td_tensor *left = td_index_select(x, 1, i), *right = td_index_select(x, 1, j);
    TD_AUTO td_tensor *difference = td_sub(left, right);
    return td_batch_give(b, 0, td_linalg_vector_norm(difference, td_float(td_given(b, "p")->number), 1, (int64_t[]){-1}, false, TD_DTYPE_NONE), 0);
}

/* Rows of logits fold with their targets; classes' weights are no rows. */
int td_rule_class_targets(td_batch *b)
{
    td_tensor *self = td_operand(b, "self"), *target = td_operand(b, "target");
    if (self->ndim < 2 || td_is_batched(b, td_operand(b, "weight")))
        return td_rule_loop(b);
    if (td_batch_put(b, "self", folded_or_none(b, self)) != 0 || td_batch_put(b, "target", folded_or_none(b, target)) != 0)
        return -1;
    TD_AUTO td_tensor *made = td_batch_made(b);
    return td_batch_give(b, 0, td_unfolded(made, b->size), 0);
}

/* The gradient of each row's own loss is that of the reduced one, spread over the rows. */
int td_rule_nll_backward(td_batch *b)
{
    td_tensor *grad = td_operand(b, "grad_output"), *self = td_operand(b, "self"), *target = td_operand(b, "target");
    td_tensor *weight = td_operand(b, "weight"), *total = td_operand(b, "total_weight");
    int64_t reduction = td_given(b, "reduction")->integer;
    bool single = self->ndim == 1;
    TD_AUTO td_tensor *g = td_expanded(b, grad);
    TD_AUTO td_tensor *whole = td_expanded(b, total);
    TD_AUTO td_tensor *scaled = reduction == 1 ? td_div(g, whole) : td_tensor_retain(g);
    TD_AUTO td_tensor *x = td_expanded(b, self);
    TD_AUTO td_tensor *classes = td_expanded(b, target);
    if (!classes || !x)
        return -1;
    TD_AUTO td_tensor *padded = reduction ? td_padded(scaled, classes->ndim - 1) : td_tensor_retain(scaled);
    TD_AUTO td_tensor *even = td_expand(padded, classes->ndim, classes->sizes);
    TD_AUTO td_tensor *spread = weighted(b, even, classes, weight, td_given(b, "ignore_index")->integer);
    if (td_is_batched(b, weight) && td_batch_put(b, "weight", TD_NONE) != 0)
        return -1;
    TD_AUTO td_tensor *one = td_tensor_from_scalar(td_float(1));
    if (td_batch_put(b, "grad_output", single ? td_tensor_retain(spread) : td_folded(spread)) != 0 ||
        td_batch_put(b, "self", single ? td_tensor_retain(x) : td_folded(x)) != 0 ||
        td_batch_put(b, "target", single ? td_tensor_retain(classes) : td_folded(classes)) != 0 ||
        td_batch_put(b, "total_weight", td_to(one, (td_dtype)self->dtype)) != 0)
        return -1;
    td_changed(b, "reduction")->integer = 0;
    TD_AUTO td_tensor *made = td_batch_made(b);
    return td_batch_give(b, 0, single ? td_tensor_retain(made) : td_unfolded(made, b->size), 0);
}

/* Steps come first, rows second: members become more rows, if they share the weights. */
int td_rule_rnn_layer(td_batch *b)
{
    if (td_is_batched(b, td_operand(b, "w_hh")) || td_is_batched(b, td_operand(b, "b_hh")))
        return td_rule_loop(b);
    td_value out[3];
    if (td_batch_put(b, "gates", into_channels(b, td_operand(b, "gates"))) != 0 || td_batch_put(b, "hx", folded_or_none(b, td_operand(b, "hx"))) != 0 ||
        td_batch_put(b, "cx", folded_or_none(b, td_operand(b, "cx"))) != 0 || td_op_call(b->op, b->frame.values, out) != 0)
        return -1;
    int status = 0;
    for (int r = 0; r < 3; r++) {
        TD_AUTO td_tensor *made = out[r].tensor;
        bool none = !made || made == TD_NONE || made->ndim < 2;
        status |= td_batch_give(b, r, none ? td_tensor_retain(made) : from_channels(made, b->size), none ? -1 : 1);
    }
    return status;
}
