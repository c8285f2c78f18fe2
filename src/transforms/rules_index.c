/* Batching rules of indexing.  An operand without a batch is expanded to one, and where the indices differ between
 * members, the member's number becomes one more index.  See Note [Batching rules]. */
#include "calls_transforms_rules_index.h"
#include <tede/kernel.h>
#include "transforms/batch.h"

/* gather, scatter and their kin: all operands have one rank, and one dimension is indexed. Positions in the other
 * dimensions, the batch among them, are those of the index itself, so that with the batch in front of all and dim + 1
 * one call serves it. A number counts as one of one dimension, which is added behind the batch and dropped again. */
int td_rule_along(td_batch *b)
{
    td_tensor *self = td_operand(b, "self"), *index = td_operand(b, "index");
    int dim = td_wrap_dim(td_given(b, "dim")->integer, self->ndim);
    if (dim < 0)
        return -1;
    for (int i = 0; i < b->op->info.n_arguments; i++) {
        td_tensor *x = b->arguments[i].kind == TD_VALUE_TENSOR ? b->arguments[i].tensor : TD_NONE;
        if (x == TD_NONE)
            continue;
        TD_AUTO td_tensor *wide = td_expanded(b, x);
        if (td_batch_set(b, i, x->ndim ? td_tensor_retain(wide) : td_unsqueeze(wide, -1)) != 0)
            return -1;
    }
    td_changed(b, "dim")->integer = dim + 1;
    bool written = b->op->info.arguments[0].is_mutable;
    td_tensor *shape = b->modes & TD_ALONG_LIKE_INDEX ? index : self;
    if (shape->ndim || written)
        return td_batch_call(b, b->op, 0);
    TD_AUTO td_tensor *made = td_batch_made(b);
    return td_batch_give(b, 0, td_squeeze_dim(made, 1), 0);
}

/* [B] or [B, n] -> [B, 1, n, 1...] expanded to what stands around dimension `dim`. */
static td_tensor *index_along(td_tensor *index, td_tensor *like, int dim)
{
    int64_t sizes[TD_MAX_DIMS], wide[TD_MAX_DIMS];
    if (!index || !like)
        return NULL;
    int64_t n = index->ndim > 1 ? index->sizes[1] : 1;
    for (int d = 0; d < like->ndim; d++) {
        sizes[d] = d == 0 ? index->sizes[0] : d == dim ? n : 1;
        wide[d] = d == dim ? n : like->sizes[d];
    }
    TD_AUTO td_tensor *shaped = td_reshape(index, like->ndim, sizes);
    return td_expand(shaped, like->ndim, wide);
}

/* One index for all selects along the shifted dimension. An index per member is a gather, whose index has the
 * operand's rank: it is expanded, not copied, over the other dimensions. */
int td_rule_index_select(td_batch *b)
{
    td_tensor *self = td_operand(b, "self"), *index = td_operand(b, "index");
    int dim = td_wrap_dim(td_given(b, "dim")->integer, self->ndim);
    if (dim < 0)
        return -1;
    if (!td_is_batched(b, index) && self->ndim) {
        TD_AUTO td_tensor *front = td_front(b, self);
        return td_batch_give(b, 0, td_index_select(front, dim + 1, index), 0);
    }
    TD_AUTO td_tensor *wide = td_expanded(b, self);
    TD_AUTO td_tensor *line = self->ndim ? td_tensor_retain(wide) : td_unsqueeze(wide, -1);
    TD_AUTO td_tensor *indices = td_expanded(b, index);
    TD_AUTO td_tensor *along = index_along(indices, line, dim + 1);
    TD_AUTO td_tensor *picked = td_gather(line, dim + 1, along, false);
    return td_batch_give(b, 0, self->ndim ? td_tensor_retain(picked) : td_squeeze_dim(picked, 1), 0);
}

/* Indices of `size` lines, checked for all members as the operator checks them: looked up among the lines' numbers. A fill takes
 * negative ones, too. */
static td_tensor *lines_of(td_tensor *index, int64_t size, bool negative)
{
    TD_AUTO td_tensor *numbers = td_arange(td_int(size), TD_I64, index ? index->device : TD_DEVICE_NONE);
    if (negative)
        return td_take(numbers, index);
    TD_AUTO td_tensor *flat = td_reshape(index, 1, (int64_t[]){-1});
    TD_AUTO td_tensor *found = td_index_select(numbers, 0, flat);
    return index ? td_reshape(found, index->ndim, index->sizes) : NULL;
}

/* index_add, index_copy, index_fill, index_reduce: with one index for all only the dimension shifts. */
int td_rule_index_write(td_batch *b)
{
    td_tensor *self = td_operand(b, "self"), *index = td_operand(b, "index"), *source = td_operand(b, "source");
    int dim = td_wrap_dim(td_given(b, "dim")->integer, self->ndim);
    bool written = b->op->info.arguments[0].is_mutable;
    if (dim < 0)
        return -1;
    TD_AUTO td_tensor *whole = td_expanded(b, self);
    TD_AUTO td_tensor *wide = whole && !self->ndim ? td_unsqueeze(whole, -1) : td_tensor_retain(whole);
    TD_AUTO td_tensor *from = source == TD_NONE ? TD_NONE : td_expanded(b, source);
    td_tensor *value = td_operand(b, "value");
    if (!td_is_batched(b, index) && !td_is_batched(b, value)) {
        if (td_batch_put(b, "self", td_tensor_retain(wide)) != 0)
            return -1;
        if (source != TD_NONE && td_batch_put(b, "source", source->ndim ? td_tensor_retain(from) : td_unsqueeze(from, -1)) != 0)
            return -1;
        td_changed(b, "dim")->integer = dim + 1;
        if (self->ndim || written)
            return td_batch_call(b, b->op, 0);
        TD_AUTO td_tensor *line = td_batch_made(b);
        return td_batch_give(b, 0, td_squeeze_dim(line, 1), 0);
    }
    TD_AUTO td_tensor *named = td_expanded(b, index);
    TD_AUTO td_tensor *indices = lines_of(named, self->ndim ? self->sizes[dim] : 1, b->modes & TD_INDEX_WRITE_FILL);
    TD_AUTO td_tensor *line = source == TD_NONE || source->ndim ? td_tensor_retain(from) : td_unsqueeze(from, -1);
    TD_AUTO td_tensor *along = index_along(indices, source == TD_NONE ? wide : line, dim + 1);
    TD_AUTO td_tensor *made = NULL;
    if (b->modes & TD_INDEX_WRITE_ADD) {
        td_scalar alpha = td_given(b, "alpha")->scalar;
        TD_AUTO td_tensor *scaled = td_mul_scalar(line, alpha);
        made = td_scatter_add(wide, dim + 1, along, scaled);
    } else if (b->modes & TD_INDEX_WRITE_COPY) {
        made = td_scatter_src(wide, dim + 1, along, line);
    } else if (b->modes & TD_INDEX_WRITE_REDUCE) {
        made = td_scatter_reduce_two(wide, dim + 1, along, line, td_given(b, "reduce")->string,
                                     td_given(b, "include_self")->integer);
    } else if (value != TD_NONE) {
        TD_AUTO td_tensor *none = td_zeros_like(wide);
        TD_AUTO td_tensor *mask = td_to(none, TD_BOOL);
        TD_AUTO td_tensor *chosen = td_scatter_value(mask, dim + 1, along, td_bool(true));
        TD_AUTO td_tensor *fill = td_front(b, value);
        TD_AUTO td_tensor *cast = td_to(fill, (td_dtype)self->dtype);
        TD_AUTO td_tensor *padded = td_is_batched(b, value) ? td_padded(cast, wide ? wide->ndim - 1 : 0) : td_tensor_retain(cast);
        made = td_where(chosen, padded, wide);
    } else {
        made = td_scatter_value(wide, dim + 1, along, td_given(b, "value")->scalar);
    }
    TD_AUTO td_tensor *result = made && !self->ndim ? td_squeeze_dim(made, 1) : td_tensor_retain(made);
    if (!written)
        return td_batch_give(b, 0, td_tensor_retain(result), 0);
    b->results[0] = (td_value){.kind = TD_VALUE_TENSOR, .tensor = td_tensor_retain(self)};
    TD_AUTO td_tensor *place = td_front(b, self);
    return !result || !place || td_copy_(place, result) != 0 ? (td_tensor_release(self), -1) : 0;
}

/* Segments of each member: what says where they lie has the batch in front, as the data has. */
int td_rule_segments(td_batch *b)
{
    int axis = td_argument_index(b->op, "axis"), data = td_argument_index(b->op, "data");
    if (b->arguments[axis].integer < 0)
        b->frame.values[axis].integer += b->arguments[data].tensor->ndim;
    b->frame.values[axis].integer++;
    for (int i = 0; i < b->op->info.n_arguments; i++) {
        td_tensor *x = b->arguments[i].kind == TD_VALUE_TENSOR ? b->arguments[i].tensor : TD_NONE;
        TD_AUTO td_tensor *wide = x == TD_NONE ? TD_NONE : td_expanded(b, x);
        if (x != TD_NONE && td_batch_set(b, i, td_contiguous(wide)) != 0)
            return -1;
    }
    return td_batch_call(b, b->op, 0);
}

/* ---- x[indices] */

typedef struct indexing {
    td_tensor_list list;        /* indices, masks converted to index tensors; NULL where a dimension is kept */
    int  rank, first, count;    /* of the broadcast indices; the first indexed dimension; how many are */
    bool adjacent, batched;
} indexing;

/* Masks become their nonzero positions, one index tensor per dimension, which needs their values: a mask per member
 * has no one shape and is refused. The caller frees p->list, also after an error (list_free). */
static int indexing_of(td_batch *b, const td_value *indices, td_tensor *self, indexing *p)
{
    *p = (indexing){.first = -1, .adjacent = true};
    if (td_tensor_list_new(&p->list, TD_MAX_DIMS) != 0)
        return -1;
    int at = 0, last = -1;
    for (int k = 0; k < indices->count; k++) {
        td_tensor *x = indices->tensors[k];
        if (x == TD_NONE) {
            at++;
            continue;
        }
        bool mask = x->dtype == TD_BOOL || x->dtype == TD_U8;
        if (mask && td_is_batched(b, x))
            return td_error(TD_E_RUNTIME, "vmap: We do not support batching operators that can support dynamic shape. Attempting to "
                            "batch over indexing with a boolean mask.");
        TD_AUTO_LIST td_tensor_list parts = {0};
        if (mask) {
            if (td_nonzero_numpy(&parts, x) != 0)
                return -1;
        } else if (td_tensor_list_new(&parts, 1) == 0) {
            parts.items[0] = td_tensor_retain(x);
        } else {
            return -1;
        }
        for (int64_t i = 0; i < parts.count && at < TD_MAX_DIMS; i++, at++) {
            td_tensor *part = p->list.items[at] = td_tensor_retain(parts.items[i]);
            p->adjacent &= last < 0 || last == at - 1;
            p->first = p->first < 0 ? at : p->first;
            p->rank = part->ndim > p->rank ? part->ndim : p->rank;
            p->batched |= td_is_batched(b, part);
            p->count++;
            last = at;
        }
    }
    if (at > self->ndim)
        return td_error(TD_E_INDEX, "too many indices for tensor of dimension %d", self->ndim);
    return 0;
}

/* The indices as they go with a batch in front of self: its number first, then each member's. */
static int indices_below(td_batch *b, const indexing *p, bool number, td_tensor_list *out)
{
    if (td_tensor_list_new(out, TD_MAX_DIMS) != 0)
        return -1;
    int at = 0, last = 0;
    if (number) {
        int64_t sizes[TD_MAX_DIMS] = {b->size};
        for (int d = 0; d < p->rank; d++)
            sizes[d + 1] = 1;
        TD_AUTO td_tensor *numbers = td_arange(td_int(b->size), TD_I64, TD_DEVICE_NONE);
        if (!(out->items[at++] = td_view(numbers, p->rank + 1, sizes)))
            return -1;
        last = 1;
    }
    for (int k = 0; k < p->list.count && at < TD_MAX_DIMS; k++, at++) {
        td_tensor *x = p->list.items[k];
        out->items[at] = td_tensor_retain(TD_NONE);
        if (!x)
            continue;
        TD_AUTO td_tensor *front = td_front(b, x);
        out->items[at] = td_is_batched(b, x) ? td_padded(front, p->rank) : td_tensor_retain(front);
        if (!out->items[at])
            return -1;
        last = at + 1;
    }
    for (int k = last; k < at; k++)
        out->items[k] = NULL;
    out->count = last;      /* what comes after is NULL */
    return 0;
}

/* [B, indices, before, after] -> [B, before, indices, after], or back. Advanced indices that stand together leave
 * their broadcast shape where they stood; with others in between it goes first (NumPy's rule). The member's number,
 * an index in front of a kept dimension, separates them: the member's own indices then come out first and are moved
 * to where they would have been. */
static td_tensor *moved(td_tensor *x, const indexing *p, bool back)
{
    if (!x || !p->adjacent || p->first <= 0 || !p->count)
        return td_tensor_retain(x);
    int64_t order[TD_MAX_DIMS];
    int n = 0, front = back ? p->first : p->rank, next = back ? p->rank : p->first;
    order[n++] = 0;
    for (int d = 0; d < next; d++)
        order[n++] = 1 + front + d;
    for (int d = 0; d < front; d++)
        order[n++] = 1 + d;
    while (n < x->ndim)
        order[n] = n, n++;
    return td_permute(x, x->ndim, order);
}

/* The lists have gaps and a shortened count: every slot is released, NULL ones included. */
static void list_free(td_tensor_list *list)
{
    list->count = list->items ? TD_MAX_DIMS : 0;
    td_tensor_list_release(list);
}

/* Three cases: one index for all, where the batch is a kept dimension in front; an index per member into a batch,
 * where the member's number becomes an index of dimension 0; an index per member into what all share, where the batch
 * is one more dimension of the indices, and comes out where their shape does. */
int td_rule_index(td_batch *b)
{
    td_tensor *self = td_operand(b, "self");
    indexing p;
    td_tensor_list below = {0};
    int status = indexing_of(b, td_given(b, "indices"), self, &p);
    bool number = td_is_batched(b, self);
    if (status == 0 && number && !p.batched) {      /* one index for all: the batch is one more dimension that is kept */
        td_tensor *indices[TD_MAX_DIMS + 1] = {TD_NONE};
        int n = 1;
        for (int k = 0; k < TD_MAX_DIMS - 1 && n <= self->ndim; k++)
            indices[n++] = p.list.items[k] ? p.list.items[k] : TD_NONE;
        while (n > 1 && indices[n - 1] == TD_NONE)
            n--;
        TD_AUTO td_tensor *front = td_front(b, self);
        TD_AUTO td_tensor *made = td_index_tensor(front, n, indices);
        status = td_batch_give(b, 0, td_tensor_retain(made), p.adjacent ? 0 : p.rank);
    } else if (status == 0 && (status = indices_below(b, &p, number, &below)) == 0) {
        TD_AUTO td_tensor *front = td_front(b, self);
        TD_AUTO td_tensor *made = td_index_tensor(front, below.count, below.items);
        if (number) {
            TD_AUTO td_tensor *placed = moved(made, &p, false);
            status = td_batch_give(b, 0, td_tensor_retain(placed), 0);
        } else {
            status = td_batch_give(b, 0, td_tensor_retain(made), p.adjacent && p.first > 0 ? p.first : 0);
        }
    }
    list_free(&below);
    list_free(&p.list);
    return status;
}

/* The logical shape of what self[indices] is. */
static int logical_shape(td_batch *b, td_tensor *self, const indexing *p, int64_t *sizes)
{
    int64_t wide[TD_MAX_DIMS];
    int n = 0;
    for (int d = 0; d < p->rank; d++)
        wide[d] = 1;
    for (int k = 0; k < p->list.count; k++)
        for (int d = 0; p->list.items[k] && d < p->list.items[k]->ndim; d++) {
            int64_t size = p->list.items[k]->sizes[d];
            if (size != 1)
                wide[p->rank - p->list.items[k]->ndim + d] = size;
        }
    (void)b;
    bool first = !p->adjacent || p->first <= 0;
    for (int d = 0; first && d < p->rank; d++)
        sizes[n++] = wide[d];
    for (int k = 0; k < self->ndim; k++) {
        if (!first && k == p->first)
            for (int d = 0; d < p->rank; d++)
                sizes[n++] = wide[d];
        if (!p->list.items[k])
            sizes[n++] = self->sizes[k];
    }
    return n;
}

/* Always by the member's number: two members never name one element, so that accumulate and the order of writes mean
 * what they mean for each of them. Values are broadcast to the logical shape first, since the moved dimensions don't
 * align otherwise. */
int td_rule_index_put(td_batch *b)
{
    td_tensor *self = td_operand(b, "self"), *values = td_operand(b, "values");
    bool written = b->op->info.arguments[0].is_mutable, accumulate = td_given(b, "accumulate")->integer;
    indexing p;
    td_tensor_list below = {0};
    int64_t shape[TD_MAX_DIMS + 1];
    int status = indexing_of(b, td_given(b, "indices"), self, &p);
    if (status == 0)
        status = indices_below(b, &p, true, &below);
    if (status == 0) {
        int rank = logical_shape(b, self, &p, shape + 1);
        shape[0] = b->size;
        TD_AUTO td_tensor *front = td_front(b, values);
        TD_AUTO td_tensor *padded = td_is_batched(b, values) ? td_padded(front, rank) : td_tensor_retain(front);
        TD_AUTO td_tensor *wide = td_expand(padded, rank + 1, shape);
        TD_AUTO td_tensor *placed = moved(wide, &p, true);
        TD_AUTO td_tensor *place = written ? td_front(b, self) : td_expanded(b, self);
        if (written) {
            status = td_index_put_(place, below.count, below.items, placed, accumulate);
            b->results[0] = (td_value){.kind = TD_VALUE_TENSOR, .tensor = td_tensor_retain(self)};
            if (status != 0)
                td_tensor_release(self);
        } else {
            status = td_batch_give(b, 0, td_index_put(place, below.count, below.items, placed, accumulate), 0);
        }
    }
    list_free(&below);
    list_free(&p.list);
    return status;
}

/* The elements that indices of the flattened members name, counted from the first: taken from their own numbers, so that take's checks
 * and its sense of negative indices hold for each member. */
static td_tensor *flat_positions(td_tensor *indices, int64_t numel)
{
    TD_AUTO td_tensor *numbers = td_arange(td_int(numel), TD_I64, indices ? indices->device : TD_DEVICE_NONE);
    return td_take(numbers, indices);
}

/* put: a scatter to the flattened tensor, [B, numel]. */
int td_rule_put(td_batch *b)
{
    td_tensor *self = td_operand(b, "self"), *index = td_operand(b, "index");
    bool written = b->op->info.arguments[0].is_mutable;
    TD_AUTO td_tensor *wide = td_expanded(b, self);
    TD_AUTO td_tensor *flat = td_reshape(wide, 2, (int64_t[]){b->size, self->numel});
    TD_AUTO td_tensor *indices = td_expanded(b, index);
    TD_AUTO td_tensor *line = td_reshape(indices, 2, (int64_t[]){b->size, index->numel});
    TD_AUTO td_tensor *positive = flat_positions(line, self->numel);
    TD_AUTO td_tensor *from = td_expanded(b, td_operand(b, "source"));
    TD_AUTO td_tensor *source = td_reshape(from, 2, (int64_t[]){b->size, index->numel});
    TD_AUTO td_tensor *put = td_given(b, "accumulate")->integer ? td_scatter_add(flat, 1, positive, source) : td_scatter_src(flat, 1, positive, source);
    TD_AUTO td_tensor *made = wide ? td_reshape(put, wide->ndim, wide->sizes) : NULL;
    if (!written)
        return td_batch_give(b, 0, td_tensor_retain(made), 0);
    TD_AUTO td_tensor *place = td_front(b, self);
    if (!made || !place || td_copy_(place, made) != 0)
        return -1;
    return td_batch_give(b, 0, td_tensor_retain(self), -1);
}

/* take: along the flattened tensor. */
int td_rule_take(td_batch *b)
{
    td_tensor *self = td_operand(b, "self"), *index = td_operand(b, "index");
    if (!td_is_batched(b, self)) {
        TD_AUTO td_tensor *below = td_front(b, index);
        return td_batch_give(b, 0, td_take(self, below), 0);
    }
    TD_AUTO td_tensor *front = td_front(b, self);
    TD_AUTO td_tensor *flat = td_reshape(front, 2, (int64_t[]){b->size, self->numel});
    TD_AUTO td_tensor *indices = td_expanded(b, index);
    TD_AUTO td_tensor *line = td_reshape(indices, 2, (int64_t[]){b->size, index->numel});
    TD_AUTO td_tensor *positive = flat_positions(line, self->numel);
    TD_AUTO td_tensor *picked = td_gather(flat, 1, positive, false);
    return !indices ? -1 : td_batch_give(b, 0, td_reshape(picked, indices->ndim, indices->sizes), 0);
}

/* ---- embedding */

/* Members' rows side by side: index + B * rows. Indices are looked up in a table of the rows' numbers, so that what lies outside of a
 * member's table is refused, not found in its neighbour's. */
static td_tensor *offset_indices(td_batch *b, td_tensor *indices, int64_t rows)
{
    TD_AUTO td_tensor *wide = td_expanded(b, indices);
    TD_AUTO td_tensor *numbers = td_arange(td_int(rows), TD_I64, indices->device);
    TD_AUTO td_tensor *table = td_unsqueeze(numbers, 1);
    TD_AUTO td_tensor *found = td_embedding(table, wide, -1, false, false);
    TD_AUTO td_tensor *inside = td_squeeze_dim(found, -1);
    TD_AUTO td_tensor *members = td_arange(td_int(b->size), TD_I64, indices->device);
    TD_AUTO td_tensor *starts = td_mul_scalar(members, td_int(rows));
    TD_AUTO td_tensor *padded = td_padded(starts, indices->ndim);
    return td_add(inside, padded);
}

/* One table for all: the indices' shape is free, their batch stays where it is. A table per member: they are stacked
 * to [B * rows, width] and indices shifted by the member's first row; padding_idx matters for gradients only, and
 * would name a row of the first member. */
int td_rule_embedding(td_batch *b)
{
    td_tensor *weight = td_operand(b, "weight"), *indices = td_operand(b, "indices");
    if (!td_is_batched(b, weight)) {
        int dim;
        td_tensor *below = td_physical(b, indices, &dim);
        if (td_batch_put(b, "indices", td_tensor_retain(below)) != 0)
            return -1;
        return td_batch_call(b, b->op, dim);
    }
    TD_AUTO td_tensor *front = td_front(b, weight);
    TD_AUTO td_tensor *rows = td_folded(front);
    if (td_batch_put(b, "weight", td_tensor_retain(rows)) != 0 ||
        td_batch_put(b, "indices", offset_indices(b, indices, weight->sizes[0])) != 0)
        return -1;
    td_changed(b, "padding_idx")->integer = -1;
    return td_batch_call(b, b->op, 0);
}

/* The gradient of the stacked tables, [B * rows, width], cut into members. The padding row is zeroed after, in every
 * member, for the kernel knows of one such row. */
int td_rule_embedding_backward(td_batch *b)
{
    td_tensor *grad = td_operand(b, "grad_output"), *indices = td_operand(b, "indices");
    int64_t rows = td_given(b, "num_weights")->integer, padding = td_given(b, "padding_idx")->integer;
    TD_AUTO td_tensor *wide = td_expanded(b, grad);
    TD_AUTO td_tensor *below = offset_indices(b, indices, rows);
    TD_AUTO td_tensor *all = td_embedding_dense_backward(wide, below, rows * b->size, -1, td_given(b, "scale_grad_by_freq")->integer);
    TD_AUTO td_tensor *made = td_unfolded(all, b->size);
    if (padding >= 0 && made) {
        TD_AUTO td_tensor *row = td_select_int(made, 1, padding);
        if (!row || td_zero_(row) != 0)
            return -1;
    }
    return td_batch_give(b, 0, td_tensor_retain(made), 0);
}

/* The k-th true element takes the k-th of source: each member's positions are counted along its elements. */
int td_rule_masked_scatter(td_batch *b)
{
    td_tensor *self = td_operand(b, "self"), *mask = td_operand(b, "mask"), *source = td_operand(b, "source");
    int rank = self->ndim > mask->ndim ? self->ndim : mask->ndim;
    TD_AUTO td_tensor *whole = td_expanded(b, self), *wide_mask = td_expanded(b, mask), *given = td_expanded(b, source);
    TD_AUTO td_tensor *x = td_padded(whole, rank), *m = td_padded(wide_mask, rank);
    if (!x || !m || !given)
        return -1;
    int64_t sizes[TD_MAX_DIMS + 1];
    for (int d = 0; d <= rank; d++)
        sizes[d] = x->sizes[d] == 1 ? m->sizes[d] : x->sizes[d];
    TD_AUTO td_tensor *wide = td_expand(m, rank + 1, sizes);
    TD_AUTO td_tensor *flat = td_reshape(wide, 2, (int64_t[]){b->size, -1});
    TD_AUTO td_tensor *from = td_reshape(given, 2, (int64_t[]){b->size, source->numel});
    TD_AUTO td_tensor *count = td_cumsum(flat, 1, TD_I64), *one = td_wrapped_number(td_int(1));
    TD_AUTO td_tensor *before = td_sub(count, one);
    TD_AUTO td_tensor *supply = td_wrapped_number(td_int(source->numel));
    TD_AUTO td_tensor *enough = td_le(count, supply);
    TD_AUTO td_tensor *all = td__is_all_true(enough);
    td_scalar fits = td_bool(true), least = td_int(0);
    if (!all || (all->device.type != TD_META && td_tensor_item(all, &fits)))
        return -1;
    if (!td_scalar_bool(fits))
        return td_error(TD_E_RUNTIME, "Number of elements of source < number of ones in mask");
    TD_AUTO td_tensor *at = td_clamp(before, &least, NULL);
    if (!at || source->numel == 0)
        return at ? td_batch_give(b, 0, td_expand(x, rank + 1, sizes), 0) : -1;
    /* Where the mask is false the position doesn't matter, but must exist. */
    td_scalar most = td_int(source->numel - 1);
    TD_AUTO td_tensor *inside = td_clamp(at, NULL, &most);
    TD_AUTO td_tensor *picked = td_gather(from, 1, inside, false);
    TD_AUTO td_tensor *shaped = td_reshape(picked, rank + 1, sizes);
    return td_batch_give(b, 0, td_where(wide, shaped, x), 0);
}

/* Where the mask is the same for all, so is how many elements each member has. */
int td_rule_masked_select(td_batch *b)
{
    td_tensor *self = td_operand(b, "self"), *mask = td_operand(b, "mask");
    if (td_is_batched(b, mask))
        return td_error(TD_E_RUNTIME, "vmap: Attempted to vmap over `mask` in torch.masked_select(self, mask) We cannot support this "
                        "because for each batch this would return a differently shaped Tensor. Please file an issue at "
                        "https://github.com/pytorch/pytorch/issues ");
    int64_t sizes[TD_MAX_DIMS + 1] = {b->size};
    int rank = td_broadcast_shape("masked_select", 2, (td_tensor *[]){self, mask}, sizes + 1);
    if (rank < 0 || rank >= TD_MAX_DIMS)
        return rank < 0 ? -1 : td_error(TD_E_RUNTIME, "masked_select: too many dimensions");
    TD_AUTO td_tensor *front = td_front(b, self), *padded = td_padded(front, rank), *wide = td_expand(padded, rank + 1, sizes);
    TD_AUTO td_tensor *wide_mask = td_expand(mask, rank, sizes + 1), *line = td_reshape(wide_mask, 1, (int64_t[]){-1});
    TD_AUTO td_tensor *places = td_nonzero(line), *index = td_reshape(places, 1, (int64_t[]){-1});
    TD_AUTO td_tensor *flat = td_reshape(wide, 2, (int64_t[]){b->size, line ? line->numel : 0});
    return td_batch_give(b, 0, td_index_select(flat, 1, index), 0);
}

/* Each true element's gradient goes where its source came from: as many elements on as there were true ones before. */
int td_rule_masked_scatter_backward(td_batch *b)
{
    td_tensor *grad = td_operand(b, "grad"), *mask = td_operand(b, "mask");
    const td_value *shape = td_given(b, "shape");
    int64_t sizes[TD_MAX_DIMS + 1] = {b->size}, numel = 1;
    for (int d = 0; d < shape->count; d++)
        numel *= sizes[d + 1] = shape->ints[d];
    TD_AUTO td_tensor *whole = td_expanded(b, grad), *wide_mask = td_expanded(b, mask);
    TD_AUTO td_tensor *padded = td_padded(wide_mask, grad->ndim), *wide = whole ? td_expand(padded, whole->ndim, whole->sizes) : NULL;
    TD_AUTO td_tensor *chosen = td_mul(whole, wide), *from = td_reshape(chosen, 2, (int64_t[]){b->size, grad->numel});
    TD_AUTO td_tensor *line = td_reshape(wide, 2, (int64_t[]){b->size, grad->numel});
    TD_AUTO td_tensor *count = td_cumsum(line, 1, TD_I64), *one = td_wrapped_number(td_int(1)), *before = td_sub(count, one);
    td_scalar least = td_int(0), most = td_int(numel ? numel - 1 : 0);      /* of false ones, which add 0 */
    TD_AUTO td_tensor *at = td_clamp(before, &least, &most);
    TD_AUTO td_tensor *none = td_new_zeros(from, 2, (int64_t[]){b->size, numel}, TD_DTYPE_NONE, TD_DEVICE_NONE);
    TD_AUTO td_tensor *made = numel ? td_scatter_add(none, 1, at, from) : td_tensor_retain(none);
    return td_batch_give(b, 0, td_reshape(made, shape->count + 1, sizes), 0);
}
