/* Batching rules of views, copies and what makes tensors like others.  See Note [Batching rules]. */
#include "calls_transforms_rules_view.h"
#include <inttypes.h>
#include "transforms/batch.h"

static int give_self(td_batch *b, td_tensor *value, int dim) { return td_batch_give(b, 0, value, dim); }

/* The batch stays first; every named dimension moves up by one. */
int td_rule_permute(td_batch *b)
{
    td_tensor *x = td_operand(b, "self");
    const td_value *dims = td_given(b, "dims");
    int64_t order[TD_MAX_DIMS + 1] = {0};
    TD_AUTO td_tensor *front = td_front(b, x);
    if (dims->count != x->ndim)
        return td_error(TD_E_RUNTIME, "permute(sparse_coo): number of dimensions in the tensor input does not match the length of "
                        "the desired ordering of dimensions i.e. input.dim() = %d is not equal to len(dims) = %d", x->ndim, dims->count);
    for (int k = 0; k < dims->count; k++) {
        int d = td_wrap_dim(dims->ints[k], x->ndim);
        if (d < 0)
            return -1;
        order[k + 1] = d + 1;
    }
    return give_self(b, td_permute(front, dims->count + 1, order), 0);
}

/* By the member's sizes, with names for the dimensions: a batch of one member must not be squeezed away. */
int td_rule_squeeze(td_batch *b)
{
    td_tensor *x = td_operand(b, "self");
    int64_t dims[TD_MAX_DIMS];
    int n = 0;
    for (int d = 0; d < x->ndim; d++)
        if (x->sizes[d] == 1)
            dims[n++] = d + 1;
    TD_AUTO td_tensor *front = td_front(b, x);
    return give_self(b, td_squeeze_dims(front, n, dims), 0);
}

/* A number per member, broadcast over its elements. */
int td_rule_fill(td_batch *b)
{
    td_tensor *self = td_operand(b, "self"), *value = td_operand(b, "value");
    bool written = b->op->info.arguments[0].is_mutable;
    if (value->ndim)
        return td_error(TD_E_RUNTIME, "fill_ only supports 0-dimension value tensor but got tensor with %d dimensions.", value->ndim);
    TD_AUTO td_tensor *front = written ? td_front(b, self) : td_expanded(b, self);
    TD_AUTO td_tensor *place = written ? td_tensor_retain(front) : td_empty_like(front, TD_DTYPE_NONE, TD_DEVICE_NONE, TD_MEMORY_FORMAT_NONE);
    TD_AUTO td_tensor *each = td_is_batched(b, value) ? td_front(b, value) : td_tensor_retain(value);
    TD_AUTO td_tensor *padded = td_is_batched(b, value) ? td_padded(each, self->ndim) : td_tensor_retain(each);
    if (!place || !padded || td_copy_(place, padded) != 0)
        return -1;
    if (!written)
        return td_batch_give(b, 0, td_tensor_retain(place), 0);
    return td_batch_give(b, 0, td_tensor_retain(self), -1);
}

/* The ones go behind the batch, where expand() would have put new dimensions in front of it. */
int td_rule_expand(td_batch *b)
{
    const td_value *size = td_given(b, "size");
    int64_t sizes[TD_MAX_DIMS + 1] = {b->size};
    if (size->count >= TD_MAX_DIMS)
        return td_error(TD_E_RUNTIME, "expand: too many dimensions");
    TD_AUTO td_tensor *front = td_front(b, td_operand(b, "self"));
    TD_AUTO td_tensor *padded = td_padded(front, size->count);
    memcpy(sizes + 1, size->ints, sizeof *sizes * (size_t)size->count);
    return give_self(b, td_expand(padded, size->count + 1, sizes), 0);
}

/* One past the last element that lies within sizes and strides from offset; -1 where there is none.  Strides that go back
 * begin earlier: *first is the lowest. */
static int64_t end_of(int64_t ndim, const int64_t *sizes, const int64_t *strides, int64_t offset, int64_t *first)
{
    int64_t last = *first = offset;
    for (int64_t d = 0; d < ndim; d++) {
        if (sizes[d] == 0)
            return -1;
        *(strides[d] < 0 ? first : &last) += (sizes[d] - 1) * strides[d];
    }
    return last + 1;
}

/* A member's elements are not for another to see, whatever its storage holds. */
static int check_within_member(const td_tensor *member, int64_t offset, const td_value *size, const td_value *stride, int64_t at)
{
    td_shape_text sizes, strides;
    int64_t first, begin;
    int64_t end = end_of(size->count, size->ints, stride->ints, at, &first);
    if (end < 0)
        return 0;
    int64_t room = end_of(member->ndim, member->sizes, member->strides, offset, &begin);
    const char *please = "This is not supported inside of vmap, please try to rewrite the `as_strided` call as a sequence of PyTorch "
                         "view operations";
    td_shape_str(size->count, size->ints, sizes), td_shape_str(stride->count, stride->ints, strides);
    if (room < 0)
        return td_error(TD_E_RUNTIME, "result = tensor.as_strided(%s, %s, %" PRId64 ") can access memory outside of `tensor`. `tensor` has "
                        "no storage but the passed-in (size, stride, storage_offset) imply a result with some storage. %s", sizes,
                        strides, at, please);
    if (end > room || first < begin)
        return td_error(TD_E_RUNTIME, "result = tensor.as_strided(%s, %s, %" PRId64 ") can access memory outside of `tensor`. `result` can "
                        "access some memory in range [%" PRId64 ", %" PRId64 "], but `tensor` can only access some memory in range [%"
                        PRId64 ", %" PRId64 "]. %s", sizes, strides, at, first, end, begin, room, please);
    return 0;
}

/* The offset counts from the storage's start, and the first member lies where the wrapper says. */
int td_rule_as_strided(td_batch *b)
{
    int dim;
    td_tensor *self = td_operand(b, "self"), *x = td_physical(b, self, &dim);
    const td_value *size = td_given(b, "size"), *stride = td_given(b, "stride"), *offset = td_given(b, "storage_offset");
    int64_t sizes[TD_MAX_DIMS + 1] = {b->size}, strides[TD_MAX_DIMS + 1] = {x->strides[dim]};
    if (size->count >= TD_MAX_DIMS || size->count != stride->count)
        return td_error(TD_E_RUNTIME, "Tensor.as_strided(size, stride, ...): size and stride must have the same length! "
                        "Got size %d and stride %d", (int)size->count, (int)stride->count);
    memcpy(sizes + 1, size->ints, sizeof *sizes * (size_t)size->count);
    memcpy(strides + 1, stride->ints, sizeof *strides * (size_t)stride->count);
    int64_t from = td_tensor_offset(x);
    if (check_within_member(self, from, size, stride, offset->kind ? offset->integer : from) != 0)
        return -1;
    const int64_t *start = offset->kind ? &offset->integer : NULL;
    if (!b->op->info.arguments[0].is_mutable)
        return give_self(b, td_as_strided(x, size->count + 1, sizes, size->count + 1, strides, start), 0);
    td_wrapped *w = td_wrapped_at(self, b->level);
    if (td_as_strided_(w->value, size->count + 1, sizes, size->count + 1, strides, start) != 0)
        return -1;
    w->dim = 0;
    return td_wrapper_refresh(self) != 0 ? -1 : give_self(b, td_tensor_retain(self), -1);
}

/* As for expand: new dimensions stand behind the batch, which is repeated once. */
int td_rule_repeat(td_batch *b)
{
    const td_value *repeats = td_given(b, "repeats");
    int64_t times[TD_MAX_DIMS + 1] = {1};
    if (repeats->count < td_operand(b, "self")->ndim || repeats->count >= TD_MAX_DIMS)
        return td_error(TD_E_RUNTIME, "Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor");
    TD_AUTO td_tensor *front = td_front(b, td_operand(b, "self"));
    TD_AUTO td_tensor *padded = td_padded(front, repeats->count);
    memcpy(times + 1, repeats->ints, sizeof *times * (size_t)repeats->count);
    return give_self(b, td_repeat(padded, repeats->count + 1, times), 0);
}

/* Without dimensions a member is rolled as if it were flat: so is each row of [B, numel]. */
int td_rule_roll(td_batch *b)
{
    const td_value *shifts = td_given(b, "shifts");
    if (td_given(b, "dims")->kind == TD_VALUE_INTS && td_given(b, "dims")->count)
        return td_rule_dims(b);
    TD_AUTO td_tensor *front = td_front(b, td_operand(b, "self"));
    if (!front)
        return -1;
    TD_AUTO td_tensor *flat = td_reshape(front, 2, (int64_t[]){b->size, td_operand(b, "self")->numel});
    TD_AUTO td_tensor *rolled = td_roll(flat, shifts->count, shifts->ints, 1, (int64_t[]){1});
    return give_self(b, td_reshape(rolled, front->ndim, front->sizes), 0);
}

/* x_backward(grad, input_sizes, dim, ...): the dimensions are those of what was viewed. */
int td_rule_view_backward(td_batch *b)
{
    const char *grad = td_form_name(b, 0);
    const td_value *size = td_given(b, "input_sizes");
    int64_t sizes[TD_MAX_DIMS + 1] = {b->size};
    if (size->count >= TD_MAX_DIMS)
        return td_error(TD_E_RUNTIME, "%s: too many dimensions", b->op->info.name);
    memcpy(sizes + 1, size->ints, sizeof *sizes * (size_t)size->count);
    bool added = size->count == 0;      /* windows of a number: it gets a dimension to be cut along */
    TD_AUTO td_tensor *front = td_front(b, td_operand(b, grad));
    sizes[1] = added ? 1 : sizes[1];
    if (td_batch_put(b, grad, added ? td_unsqueeze(front, 1) : td_tensor_retain(front)) != 0 ||
        td_batch_put_ints(b, "input_sizes", size->count + 1 + added, sizes) != 0)
        return -1;
    for (int i = 0; i < b->op->info.n_arguments; i++)
        if (!strncmp(b->op->info.arguments[i].name, "dim", 3)) {
            int d = td_wrap_dim(b->arguments[i].integer, size->count);
            if (d < 0)
                return -1;
            b->frame.values[i].integer = d + 1;
        }
    if (!added)
        return td_batch_call(b, b->op, 0);
    TD_AUTO td_tensor *line = td_batch_made(b);
    return td_batch_give(b, 0, td_squeeze_dim(line, 1), 0);
}

/* Each member has the strides that the call names; members lie one after the other, without overlap: the batch's
 * stride is a member's extent. */
int td_rule_new_empty_strided(td_batch *b)
{
    const td_value *size = td_given(b, "size"), *stride = td_given(b, "stride");
    int64_t sizes[TD_MAX_DIMS + 1] = {b->size}, strides[TD_MAX_DIMS + 1];
    if (size->count >= TD_MAX_DIMS || size->count != stride->count)
        return td_error(TD_E_RUNTIME, "mismatch in length of strides and shape");
    int64_t first, end = end_of(size->count, size->ints, stride->ints, 0, &first);
    strides[0] = end < 0 ? 0 : end;
    for (int d = 0; d < size->count; d++)
        sizes[d + 1] = size->ints[d], strides[d + 1] = stride->ints[d];
    if (td_batch_put(b, "self", td_front(b, td_operand(b, "self"))) != 0 || td_batch_put_ints(b, "size", size->count + 1, sizes) != 0 ||
        td_batch_put_ints(b, "stride", size->count + 1, strides) != 0)
        return -1;
    return td_batch_call(b, b->op, 0);
}

/* A list mixes batched operands with others, so all get the batch and the dimension moves up by one. */
int td_rule_cat(td_batch *b)
{
    const td_value *list = td_given(b, "tensors");
    int rank = 0;
    for (int k = 0; k < list->count; k++)
        rank = list->tensors[k]->ndim > rank ? list->tensors[k]->ndim : rank;
    int dim = td_wrap_dim(td_given(b, "dim")->integer, rank);
    if (dim < 0)
        return -1;
    td_tensor_list wide;
    if (td_tensor_list_new(&wide, list->count) != 0)
        return -1;
    int status = 0;
    int64_t kept = 0;
    for (int k = 0; k < list->count && status == 0; k++) {
        if (list->tensors[k]->ndim == 1 && list->tensors[k]->numel == 0 && rank != 1)
            continue;                   /* PyTorch's old habit: such a tensor joins anything */
        status = (wide.items[kept++] = td_expanded(b, list->tensors[k])) ? 0 : -1;
    }
    if (status == 0)
        status = give_self(b, td_cat(kept, wide.items, dim + 1), 0);
    td_tensor_list_release(&wide);
    return status;
}

/* The batch moved to another dimension of what a wrapper wraps, in place: resize_ must change the caller's own tensor,
 * where a permuted view of it (td_front) would leave that one behind. Neighbours are exchanged one by one, so that the
 * others keep their order. */
static int move_batch(td_wrapped *w, int to)
{
    for (int step = to < w->dim ? -1 : 1; w->dim != to; w->dim += step)
        if (td_transpose_(w->value, w->dim, w->dim + step) != 0)
            return -1;
    return 0;
}

/* Each member keeps its elements in their order, as far as there is room for them. Resizing the whole batch would
 * move elements from one member to the next, so they are copied out before and back, member by member, after. */
int td_rule_resize(td_batch *b)
{
    td_tensor *self = td_operand(b, "self");
    const td_value *size = td_given(b, "size"), *format = td_given(b, "memory_format");
    int64_t sizes[TD_MAX_DIMS + 1] = {b->size}, numel = 1;
    if (format->kind != TD_VALUE_NONE && format->integer != TD_CONTIGUOUS_FORMAT && format->integer != TD_MEMORY_FORMAT_NONE)
        return td_error(TD_E_RUNTIME, "resize_: batching rule only supports None or Contiguous MemoryFormat");
    if (size->count >= TD_MAX_DIMS)
        return td_error(TD_E_RUNTIME, "resize_: too many dimensions");
    for (int d = 0; d < size->count; d++)
        numel *= sizes[d + 1] = size->ints[d];
    td_wrapped *w = td_wrapped_at(self, b->level);
    int batch = w->dim < size->count ? w->dim : size->count;
    int64_t kept = numel < self->numel ? numel : self->numel;
    TD_AUTO td_tensor *flat = move_batch(w, 0) == 0 ? td_reshape(w->value, 2, (int64_t[]){b->size, self->numel}) : NULL;
    TD_AUTO td_tensor *before = td_clone(flat);
    if (!before || td_resize_(w->value, size->count + 1, sizes, TD_MEMORY_FORMAT_NONE) != 0)
        return -1;
    TD_AUTO td_tensor *line = td_view(w->value, 2, (int64_t[]){b->size, numel});
    TD_AUTO td_tensor *place = td_narrow(line, 1, 0, kept), *from = td_narrow(before, 1, 0, kept);
    if (!place || !from || td_copy_(place, from) != 0 || move_batch(w, batch) != 0 || td_wrapper_refresh(self) != 0)
        return -1;
    return td_batch_give(b, 0, td_tensor_retain(self), -1);
}

/* A member's dimension among those of the wrapped tensor, whose batch is at `batch`; -1 if there is none. *shift counts by
 * how many the batch moves, where dimensions before it come or go. */
static int of_wrapped(const td_batch *b, const td_tensor *self, int batch, int64_t dim, int *shift)
{
    bool added = b->modes & TD_SHAPE_INPLACE_OF_RESULT, drops = b->modes & TD_SHAPE_INPLACE_DROPS;
    int d = td_wrap_dim(dim, self->ndim + added);
    if (d >= batch || d < 0)
        return d < 0 ? -1 : d + 1;
    *shift += added ? 1 : drops && self->sizes[d] == 1 ? -1 : 0;
    return d;
}

/* t_, unsqueeze_, ...: the wrapped tensor, which is the caller's own, changes its shape; the batch stays between the
 * dimensions that it lies between. */
int td_rule_shape_inplace(td_batch *b)
{
    td_tensor *self = td_operand(b, "self");
    td_wrapped *w = td_wrapped_at(self, b->level);
    const int batch = w->dim;
    int shift = 0, n_ones = 0;
    int64_t ones[TD_MAX_DIMS];
    for (int d = 0; d < self->ndim; d++)
        if (self->sizes[d] == 1)
            ones[n_ones++] = of_wrapped(b, self, batch, d, &shift);
    if (b->op->info.n_arguments == 1) {  /* squeeze_(): by the member's sizes, since a batch of one member stays */
        if (td_squeeze_dims_(w->value, n_ones, ones) != 0)
            return -1;
        w->dim += shift;
        return td_wrapper_refresh(self) != 0 ? -1 : td_batch_give(b, 0, td_tensor_retain(self), -1);
    }
    shift = 0;
    if (td_batch_put(b, "self", td_tensor_retain(w->value)) != 0)
        return -1;
    for (int i = 1; i < b->op->info.n_arguments; i++) {
        td_value *v = &b->frame.values[i];
        if (v->kind == TD_VALUE_INTS && td_batch_set_ints(b, i, v->count, v->ints) != 0)
            return -1;
        int64_t *dims = v->kind == TD_VALUE_INTS ? (int64_t *)v->ints : &v->integer;
        for (int k = 0; k < (v->kind == TD_VALUE_INTS ? v->count : 1); k++)
            if ((dims[k] = of_wrapped(b, self, batch, dims[k], &shift)) < 0)
                return -1;
    }
    if (self->ndim == 0 && !(b->modes & TD_SHAPE_INPLACE_OF_RESULT))     /* its dimensions 0 and -1 are none of the batch's tensor */
        return td_batch_give(b, 0, td_tensor_retain(self), -1);
    w->dim += shift;
    if (td_batch_call(b, b->op, 0) == 0)
        return 0;
    w->dim = batch;
    return -1;
}

/* One answer for the whole batch. */
int td_rule_whole(td_batch *b)
{
    return td_batch_put(b, "self", td_front(b, td_operand(b, "self"))) != 0 ? -1 : td_batch_call(b, b->op, -1);
}

/* What PyTorch refuses under vmap, too, in its words. */
int td_rule_unsupported(td_batch *b)
{
    return td_error(TD_E_RUNTIME, "vmap over torch.%s isn't supported yet. Please file an issue at "
                    "https://github.com/pytorch/pytorch/issues if you need this feature.", b->op->info.name);
}

/* The results' shapes depend on values (nonzero, unique): members' would differ, and no tensor holds them all. */
int td_rule_data_dependent(td_batch *b)
{
    static const char please[] = "Please file an issue at https://github.com/pytorch/pytorch/issues";
    return td_error(TD_E_RUNTIME, "vmap: We do not support batching operators that can output dynamic shape. Attempted to vmap over "
                    "aten::%s. %s if you need this feature.", b->op->info.name, please);
}
