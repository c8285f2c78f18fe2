/* Nested tensors seen otherwise: dimensions moved, added, picked from, and joined.
 *
 * A jagged tensor is seen otherwise by its values.  Of the strided layout, each component is, and the result is a new tensor. */
#include "calls_layouts_nested_shape.h"
#include "layouts/nested/nested.h"
#include "tensor/checked.h"

#include <inttypes.h>

static int ragged_dim(const td_tensor *x) { return td_nested_of(x)->dim; }

/* The result of one call on each component, of the strided layout. */
static td_tensor *by_component(td_tensor *x, td_each *each, void *context)
{
    td_tensor_list list = {0};
    if (td_nested_each(&list, x, each, context))
        return NULL;
    td_tensor *joined = td_nested_joined(&list, x, ragged_dim(x));
    td_tensor_list_release(&list);
    return joined;
}

td_tensor *td_nested_values(td_tensor *self)
{
    return td_nested_unpacked(self);
}

td_tensor *td_nested_alias(td_tensor *self) { return td_alias_detached(self, false); }

int td_nested_copy_from_(td_tensor *self, td_tensor *src, bool non_blocking)
{
    if (!td_is_nested(self) || !td_is_nested(src))
        return td_error(TD_E_RUNTIME, "copy_ only supports tensors that are the same size for Nested implementations");
    td_shape_text to, from;
    const td_nested *a = td_nested_of(self), *b = td_nested_of(src);
    const bool same = a->ragged || b->ragged ? a->ragged == b->ragged && a->dim == b->dim && a->values->numel == b->values->numel
                                             : a->sizes->numel == b->sizes->numel && !memcmp(a->sizes->data, b->sizes->data, sizeof(int64_t) * (size_t)a->sizes->numel);
    if (!same && (!a->ragged || !b->ragged))
        return td_error(TD_E_RUNTIME, "copy_ only supports tensors that are the same size for Nested implementations");
    if (!same)
        return td_error(TD_E_RUNTIME, "copy_() only supports Nested Tensors that have same size and the exact same offset tensor (expected %s, got %s)",
                        td_shape_str(self->ndim, self->sizes, to), td_shape_str(src->ndim, src->sizes, from));
    return td_copy_from_(a->values, b->values, non_blocking);
}

/* ---- order of dimensions */

static td_tensor *transposed(td_tensor *x, void *dims) { return td_transpose_int(x, ((int64_t *)dims)[0], ((int64_t *)dims)[1]); }

td_tensor *td_nested_transpose_int(td_tensor *self, int64_t dim0, int64_t dim1)
{
    const int a = td_wrap_dim(dim0, self->ndim), b = td_wrap_dim(dim1, self->ndim), ragged = ragged_dim(self);
    if (a < 0 || b < 0)
        return NULL;
    if (a == b)
        return td_alias(self);
    if (a == 0 || b == 0)
        return td_is_jagged(self) ? td_fail(TD_E_VALUE, "Transpose is not supported on the batch dimension for jagged NT")
                                  : td_fail(TD_E_RUNTIME, "Nested tensor dimension 0 cannot be transposed");
    int64_t dims[2] = {td_inner_dim(a), td_inner_dim(b)};
    if (!td_is_jagged(self))
        return by_component(self, transposed, dims);
    TD_AUTO td_tensor *values = td_nested_unpacked(self), *moved = td_transpose_int(values, dims[0], dims[1]);
    return td_nested_packed(moved, self, a == ragged ? b : b == ragged ? a : ragged);
}

typedef struct ints { int64_t n, at[TD_MAX_DIMS]; } ints;
static td_tensor *permuted(td_tensor *x, void *dims) { return td_permute(x, ((ints *)dims)->n, ((ints *)dims)->at); }

td_tensor *td_nested_permute(td_tensor *self, int64_t n, const int64_t *dims)
{
    ints inner = {.n = n - 1};
    int ragged = 0;
    uint64_t seen = 0;
    if (n != self->ndim)
        return td_fail(TD_E_VALUE, "permute(): number of dimensions in the tensor input (%d) does not match the length of the desired ordering of dimensions "
                       "(%" PRId64 ").", self->ndim, n);
    for (int d = 0; d < n; d++) {
        const int from = td_wrap_dim(dims[d], self->ndim);
        if (from < 0)
            return NULL;
        if (seen >> from & 1)
            return td_fail(TD_E_VALUE, "permute(): duplicate dims are not allowed.");
        seen |= UINT64_C(1) << from;
        if ((d == 0) != (from == 0))
            return td_fail(TD_E_VALUE, "Permute is not supported on the batch dimension for jagged NT");
        if (d > 0)
            inner.at[d - 1] = td_inner_dim(from);
        ragged = from == ragged_dim(self) ? d : ragged;
    }
    if (!td_is_jagged(self))
        return by_component(self, permuted, &inner);
    TD_AUTO td_tensor *values = td_nested_unpacked(self), *moved = td_permute(values, inner.n, inner.at);
    return td_nested_packed(moved, self, ragged);
}

/* ---- dimensions more and fewer */

static td_tensor *unsqueezed(td_tensor *x, void *dim) { return td_unsqueeze(x, *(int64_t *)dim); }
td_tensor *td_nested_unsqueeze(td_tensor *self, int64_t dim)
{
    const int d = td_wrap_dim(dim, self->ndim + 1);
    int64_t inner = d - 1;
    if (d <= 0)
        return d < 0 ? NULL : td_fail(TD_E_RUNTIME, "unsqueeze(): not supported for NestedTensor on dim=0");
    if (!td_is_jagged(self))
        return by_component(self, unsqueezed, &inner);
    TD_AUTO td_tensor *values = td_nested_unpacked(self), *more = td_unsqueeze(values, inner);
    return td_nested_packed(more, self, ragged_dim(self) + (d <= ragged_dim(self)));
}

td_tensor *td_nested_squeeze(td_tensor *self)
{
    (void)self;
    return td_fail(TD_E_RUNTIME, "For nested tensors, squeeze without the dim argument is not supported: name the dimension");
}

static td_tensor *squeezed(td_tensor *x, void *dim) { return td_squeeze_dim(x, *(int64_t *)dim); }
td_tensor *td_nested_squeeze_dim(td_tensor *self, int64_t dim)
{
    const int d = td_wrap_dim(dim, self->ndim), ragged = ragged_dim(self);
    int64_t inner = d - 1;
    if (d < 0)
        return NULL;
    if (d == 0 && !td_is_jagged(self))
        return td_fail(TD_E_RUNTIME, "For nested tensors, squeezing dimension 0 is not supported at the moment if you need this feature");
    if (d == 0 || (td_is_jagged(self) && d == ragged))
        return td_fail(TD_E_RUNTIME, "squeeze(): not supported for NestedTensor on %s", d == 0 ? "dim=0" : "ragged dim");
    if (self->sizes[d] != 1)
        return td_alias(self);
    if (!td_is_jagged(self))
        return by_component(self, squeezed, &inner);
    TD_AUTO td_tensor *values = td_nested_unpacked(self), *fewer = td_squeeze_dim(values, inner);
    return td_nested_packed(fewer, self, ragged - (d < ragged));
}

/* The size of one component for one of the whole; -1 in a dimension that it has: its size there. */
static td_tensor *reshaped(td_tensor *x, void *context)
{
    ints shape = *(ints *)context;
    for (int d = 0; d < shape.n && d < x->ndim; d++)
        shape.at[d] = shape.at[d] == -1 ? x->sizes[d] : shape.at[d];
    return td_reshape(x, shape.n, shape.at);
}

/* The sizes of the values for those of the whole, in which the ragged dimension is named by its symbol, or by -1 where it was: its place;
 * 0 with an error if there is none. */
static int inner_sizes(const char *op, const td_tensor *self, int64_t n, const int64_t *size, int64_t *inner)
{
    const td_nested *x = td_nested_of(self);
    td_shape_text from, to;
    int at = 0;
    int64_t before = 1, had = 1;
    bool fits = n >= 2 && n < TD_MAX_DIMS && (size[0] == self->sizes[0] || size[0] == -1);
    for (int d = 1; fits && d < n && !at; d++)
        at = size[d] == self->sizes[x->dim] || (size[d] == -1 && d == x->dim) ? d : 0;
    for (int d = 1; fits && d < n; d++) {
        inner[d - 1] = d == at ? x->values->sizes[x->dim - 1] : size[d];
        fits = d == at || !td_size_is_symbol(size[d]);
        before = d < at && fits ? td_mul_saturated(before, size[d]) : before;
    }
    for (int d = 1; d < x->dim; d++)
        had *= self->sizes[d];
    if (fits && at && before == had)
        return at;
    td_error(TD_E_RUNTIME, "%s(): cannot view shape %s as %s", op, td_shape_str(self->ndim, self->sizes, from),
             td_shape_str(n < TD_MAX_DIMS ? (int)n : TD_MAX_DIMS, size, to));
    return 0;
}

static td_tensor *seen_as(const char *op, bool is_view, td_tensor *self, int64_t n, const int64_t *size)
{
    ints inner = {.n = n - 1};
    if (n < 1 && !td_is_jagged(self))
        return td_fail(TD_E_RUNTIME, "shape '[]' is invalid for a nested tensor");
    if (!td_is_jagged(self)) {
        if (n < 1 || n >= TD_MAX_DIMS || (size[0] != self->sizes[0] && size[0] != -1))
            return td_fail(TD_E_RUNTIME, "%s: For now nested %s cannot change the implicit batch dimension", op, op);
        for (int d = 1; d < n; d++)        /* a size that has no name is the component's own */
            inner.at[d - 1] = td_size_is_symbol(size[d]) && !td_symbol_id(size[d]) ? -1 : size[d];
        return by_component(self, reshaped, &inner);
    }
    const int at = inner_sizes(op, self, n, size, inner.at);
    if (!at)
        return NULL;
    TD_AUTO td_tensor *values = td_nested_unpacked(self);
    TD_AUTO td_tensor *seen = is_view ? td_view(values, inner.n, inner.at) : td_reshape(values, inner.n, inner.at);
    return td_nested_packed(seen, self, at);
}
td_tensor *td_nested_view(td_tensor *self, int64_t n, const int64_t *size) { return seen_as("view", true, self, n, size); }
td_tensor *td_nested_reshape(td_tensor *self, int64_t n, const int64_t *shape) { return seen_as("reshape", false, self, n, shape); }
td_tensor *td_nested__unsafe_view(td_tensor *self, int64_t n, const int64_t *size) { return seen_as("view", true, self, n, size); }

td_tensor *td_nested_expand_to(td_tensor *self, int64_t n, const int64_t *size, bool implicit)
{
    (void)implicit;
    td_shape_text from, to;
    ints inner = {.n = n - 1};
    bool fits = n == self->ndim && (size[0] == -1 || size[0] == self->sizes[0]) && td_is_jagged(self);
    for (int d = 1; d < n && fits; d++) {
        fits = d != ragged_dim(self) || size[d] == -1 || size[d] == self->sizes[d];
        inner.at[d - 1] = d == ragged_dim(self) ? -1 : size[d];
    }
    if (!fits)
        return td_fail(TD_E_RUNTIME, "expand(): cannot expand shape %s -> %s", td_shape_str(self->ndim, self->sizes, from),
                       td_shape_str(n < TD_MAX_DIMS ? (int)n : TD_MAX_DIMS, size, to));
    TD_AUTO td_tensor *values = td_nested_unpacked(self), *wide = td_expand(values, inner.n, inner.at);
    return td_nested_packed(wide, self, ragged_dim(self));
}

/* ---- picking */

static td_tensor *picked(td_tensor *x, void *at) { return td_select_int(x, ((int64_t *)at)[0], ((int64_t *)at)[1]); }

td_tensor *td_nested_select_int(td_tensor *self, int64_t dim, int64_t index)
{
    const int d = td_wrap_dim(dim, self->ndim), ragged = ragged_dim(self);
    const int64_t count = td_nested_count(self);
    int64_t at[2] = {d - 1, index};
    if (d < 0)
        return NULL;
    if (d == 0) {
        if (index < -count || index >= count)
            return td_fail(TD_E_INDEX, "index %" PRId64 " is out of bounds for dimension 0 with size %" PRId64, index, count);
        return td_nested_component(self, index < 0 ? index + count : index);
    }
    if (!td_is_jagged(self))
        return by_component(self, picked, at);
    if (d == ragged)
        return td_fail(TD_E_RUNTIME, "select(): not supported for NestedTensor on ragged dim");
    TD_AUTO td_tensor *values = td_nested_unpacked(self), *one = td_select_int(values, at[0], index);
    return td_nested_packed(one, self, ragged - (d < ragged));
}

int td_nested_unbind_int(td_tensor_list *results, td_tensor *self, int64_t dim)
{
    const int d = td_wrap_dim(dim, self->ndim);
    if (d != 0)
        return d < 0 ? -1 : td_is_jagged(self) ? td_error(TD_E_RUNTIME, "unbind(): only supported for NestedTensor on dim=0")
                                               : td_error(TD_E_RUNTIME, "NestedTensor can only be unbound along dimension 0 got dimension %d instead.", d);
    return td_nested_components(results, self);
}

/* ---- joining and splitting */

/* Components from `from` on. */
static td_tensor *some(td_tensor *self, int64_t from, int64_t count)
{
    td_tensor_list list = {0};
    if (td_nested_components(&list, self))
        return NULL;
    td_tensor *joined = NULL;
    if (!td_is_jagged(self)) {
        joined = td_nested_of_list(count, list.items + from);
    } else {
        const td_nested *n = td_nested_of(self);
        TD_AUTO td_tensor *values = td_cat(count, list.items + from, td_inner_dim(n->dim));
        td_ragged *r = values ? td_ragged_of_counts(count, n->ragged->counts + from, self->device) : NULL;
        joined = r ? td__nested_of_jagged(values, r->offsets, TD_NONE, n->dim, NULL, NULL) : NULL;
        td_ragged_release(r);
    }
    td_tensor_list_release(&list);
    return joined;
}

typedef struct range { int64_t dim, step; const int64_t *start, *end; } range;
static td_tensor *sliced(td_tensor *x, void *context)
{
    const range *r = context;
    return td_slice_tensor(x, r->dim, r->start, r->end, r->step);
}

/* Of the strided layout, a part of the batch, too; along the ragged dimension, of each component. */
td_tensor *td_nested_slice_tensor(td_tensor *self, int64_t dim, const int64_t *start, const int64_t *end, int64_t step)
{
    const int d = td_wrap_dim(dim, self->ndim), ragged = ragged_dim(self);
    const int64_t count = td_nested_count(self);
    range inner = {d - 1, step, start, end};
    if (d < 0)
        return NULL;
    if (d == 0) {
        int64_t from = start ? *start : 0, to = end ? *end : count;
        from = from < 0 ? from + count : from, to = to < 0 ? to + count : to;
        from = from < 0 ? 0 : from > count ? count : from, to = to < from ? from : to > count ? count : to;
        if (td_is_jagged(self) || step != 1)
            return td_fail(TD_E_RUNTIME, "slice(): not supported for NestedTensor on dim=0");
        return some(self, from, to - from);
    }
    if (!td_is_jagged(self) || d == ragged)
        return by_component(self, sliced, &inner);
    TD_AUTO td_tensor *values = td_nested_unpacked(self), *part = sliced(values, &inner);
    return td_nested_packed(part, self, ragged);
}

/* Parts of a dimension behind the batch, one by one. */
static int parts_of(td_tensor_list *results, td_tensor *self, int64_t step, int64_t if_empty, int d)
{
    const int64_t size = self->sizes[d], n = size ? (size - 1) / step + 1 : if_empty;
    if (td_tensor_list_new(results, n))
        return -1;
    for (int64_t i = 0; i < n; i++) {
        const int64_t end = (i + 1) * step < size ? (i + 1) * step : size, start = i * step;
        if (!(results->items[i] = td_slice_tensor(self, d, &start, &end, 1))) {
            td_tensor_list_release(results);
            return -1;
        }
    }
    return 0;
}

int td_nested_split_tensor(td_tensor_list *results, td_tensor *self, int64_t split_size, int64_t dim)
{
    const int d = td_wrap_dim(dim, self->ndim);
    if (d < 0)
        return -1;
    if (d == 0 || td_size_is_symbol(self->sizes[d]))
        return td_error(TD_E_RUNTIME, "split(): not supported for NestedTensor on %s", d == 0 ? "dim=0" : "ragged dim");
    if (split_size < 0 || (split_size == 0 && self->sizes[d]))
        return td_error(TD_E_RUNTIME, "split expects split_size be non-negative, but got split_size=%" PRId64, split_size);
    return parts_of(results, self, split_size ? split_size : 1, 1, d);
}

int td_nested_chunk(td_tensor_list *results, td_tensor *self, int64_t chunks, int64_t dim)
{
    const int d = td_wrap_dim(dim, self->ndim);
    const int64_t count = td_nested_count(self);
    if (d < 0)
        return -1;
    if (chunks < 1)
        return td_error(TD_E_RUNTIME, "chunk expects `chunks` to be greater than 0, got: %" PRId64, chunks);
    if (td_size_is_symbol(self->sizes[d]))
        return td_error(TD_E_RUNTIME, "chunk(): not supported for NestedTensor on ragged dim");
    if (d > 0)
        return parts_of(results, self, self->sizes[d] ? (self->sizes[d] - 1) / chunks + 1 : 1, chunks, d);
    if (!td_is_jagged(self))
        return td_error(TD_E_RUNTIME, "Chunk for nested tensors is currently only supported for the last dimension.");
    const int64_t step = count ? (count - 1) / chunks + 1 : 1, n = count ? (count - 1) / step + 1 : 0;
    if (td_tensor_list_new(results, n))
        return -1;
    for (int64_t i = 0; i < n; i++)
        if (!(results->items[i] = some(self, i * step, (i + 1) * step < count ? step : count - i * step))) {
            td_tensor_list_release(results);
            return -1;
        }
    return 0;
}

static int append(td_tensor_list *all, int64_t *at, td_tensor *x)
{
    td_tensor_list list = {0};
    if (!td_is_nested(x))
        return td_error(TD_E_RUNTIME, "cat(): expected each tensor in given list to be nested.");
    if (td_nested_components(&list, x))
        return -1;
    for (int64_t i = 0; i < list.count; i++)
        all->items[(*at)++] = td_tensor_retain(list.items[i]);
    td_tensor_list_release(&list);
    return 0;
}

/* One after the other along the batch; or per component, or of the values, along another dimension. */
td_tensor *td_nested_cat(int64_t n, td_tensor *const *tensors, int64_t dim)
{
    td_tensor *like = NULL;
    for (int64_t i = 0; i < n && !like; i++)
        like = td_is_nested(tensors[i]) ? tensors[i] : NULL;
    const int d = td_wrap_dim(dim, like->ndim);
    if (d < 0)
        return NULL;
    int64_t count = 0, at = 0;
    td_tensor_list all = {0};
    td_tensor *joined = NULL;
    if (d == 0) {
        for (int64_t i = 0; i < n; i++)
            count += td_is_nested(tensors[i]) ? td_nested_count(tensors[i]) : 0;
        if (td_tensor_list_new(&all, count))
            return NULL;
        int status = 0;
        for (int64_t i = 0; i < n && status == 0; i++)
            status = append(&all, &at, tensors[i]);
        if (status == 0)
            joined = td_is_jagged(like) ? td_jagged_of_list(count, all.items) : td_nested_of_list(count, all.items);
        td_tensor_list_release(&all);
        return joined;
    }
    if (td_tensor_list_new(&all, n))
        return NULL;
    td_shape_text one, two;
    int status = 0;
    for (int64_t i = 0; i < n && status == 0; i++) {
        td_tensor *x = tensors[i];
        if (!td_is_nested(x))
            status = td_error(TD_E_RUNTIME, "cat(): expected each tensor in given list to be nested.");
        else if (td_is_jagged(like) && d == ragged_dim(like))
            status = td_error(TD_E_RUNTIME, "cat(): not supported for NestedTensor on ragged dim");
        else if (td_is_jagged(x) != td_is_jagged(like) || td_nested_count(x) != td_nested_count(like) ||
                 (td_is_jagged(x) && (td_nested_of(x)->ragged != td_nested_of(like)->ragged || ragged_dim(x) != ragged_dim(like))))
            status = td_error(TD_E_RUNTIME, "cat(): tensors of shapes %s and %s don't have the same structure", td_shape_str(like->ndim, like->sizes, one),
                              td_shape_str(x->ndim, x->sizes, two));
        else if (td_is_jagged(x))
            status = (all.items[i] = td_nested_unpacked(x)) ? 0 : -1;
        else
            all.items[i] = td_tensor_retain(x);
    }
    if (status == 0 && td_is_jagged(like)) {
        TD_AUTO td_tensor *values = td_cat(n, all.items, td_inner_dim(d));
        joined = td_nested_packed(values, like, ragged_dim(like));
    } else if (status == 0) {
        td_tensor_list made = {0};
        status = td_tensor_list_new(&made, td_nested_count(like));
        for (int64_t k = 0; k < made.count && status == 0; k++) {
            td_tensor_list members = {0};
            status = td_tensor_list_new(&members, n);
            for (int64_t i = 0; i < n && status == 0; i++)
                status = (members.items[i] = td_nested_component(tensors[i], k)) ? 0 : -1;
            if (status == 0)
                status = (made.items[k] = td_cat(n, members.items, td_inner_dim(d))) ? 0 : -1;
            td_tensor_list_release(&members);
        }
        joined = status == 0 ? td_nested_of_list(made.count, made.items) : NULL;
        td_tensor_list_release(&made);
    }
    td_tensor_list_release(&all);
    return joined;
}

/* Itself if its values are contiguous and leave nothing out. */
td_tensor *td_nested_contiguous_format(td_tensor *self, td_memory_format format)
{
    (void)format;
    const td_nested *n = td_nested_of(self);
    if (!n->ragged || (!n->ragged->lengths && n->values->flags & TD_FLAG_CONTIGUOUS && n->dim == 1))
        return td_ref(self);
    if (n->ragged->lengths) {
        td_tensor_list list = {0};
        if (td_nested_components(&list, self))
            return NULL;
        td_tensor *joined = td_nested_joined(&list, self, n->dim);
        td_tensor_list_release(&list);
        return joined;
    }
    TD_AUTO td_tensor *values = td_nested_unpacked(self), *packed = td_contiguous(values);
    return td_nested_packed(packed, self, n->dim);
}
