/* Copies, comparison, assignment by indices, and layers, of nested tensors: what isn't one call on their values. */
#include "calls_layouts_nested_more.h"
#include "layouts/nested/nested.h"
#include "tensor/device.h"

#include <inttypes.h>

/* ---- copies */

td_tensor *td_nested_clone_format(td_tensor *self, td_memory_format format)
{
    if (format == TD_CHANNELS_LAST || format == TD_CHANNELS_LAST_3D)
        return td_fail(TD_E_RUNTIME, "Nested tensor clone supports Preserve and Contiguous memory formats, called clone with memory format: %s",
                       format == TD_CHANNELS_LAST ? "ChannelsLast" : "ChannelsLast3d");
    TD_AUTO td_tensor *x = format == TD_CONTIGUOUS_FORMAT ? td_nested_contiguous_format(self, format) : td_ref(self);
    TD_AUTO td_tensor *values = x ? td_nested_unpacked(x) : NULL, *copy = td_clone(values);
    return copy ? td_nested_packed(copy, x, td_nested_of(x)->dim) : NULL;
}

/* On another device the offsets are there, too. */
td_tensor *td_nested__to_copy(td_tensor *self, td_dtype dtype, td_device device, bool non_blocking, td_memory_format format)
{
    const bool moves = device.type >= 0 && (device.type != self->device.type || (device.index >= 0 && device.index != self->device.index));
    TD_AUTO td_tensor *x = moves && td_is_jagged(self) && td_nested_of(self)->ragged->lengths ? td_nested_contiguous_format(self, TD_CONTIGUOUS_FORMAT)
                                                                                             : td_ref(self);
    TD_AUTO td_tensor *values = x ? td_nested_unpacked(x) : NULL, *copy = td__to_copy(values, dtype, device, non_blocking, format);
    if (!copy)
        return NULL;
    const td_nested *n = td_nested_of(x);
    if (!moves)
        return td_nested_packed(copy, x, n->dim);
    if (!n->ragged)
        return td__nested_of_sizes(copy, n->sizes);
    td_ragged *r = td_ragged_of_counts(n->ragged->n, n->ragged->counts, copy->device);
    td_tensor *made = r ? td__nested_of_jagged(copy, r->offsets, TD_NONE, n->dim, n->ragged->shown_shortest ? &r->shortest : NULL,
                                               n->ragged->shown_longest ? &r->longest : NULL) : NULL;
    td_ragged_release(r);
    return made;
}

/* ---- new tensors: of self's dtype and device, strided; of its own shape, nested like it */

static int names_own_shape(const char *op, const td_tensor *self, int64_t n, const int64_t *size)
{
    bool symbol = false, own = n == self->ndim;
    for (int64_t d = 0; d < n; d++) {
        symbol |= td_size_is_symbol(size[d]);
        own &= d < self->ndim && size[d] == self->sizes[d];
    }
    return symbol && !own ? td_error(TD_E_RUNTIME, "%s: the size has a ragged dimension, and isn't that of self", op) : symbol;
}

#define NEW(name, like)                                                                                                              \
    td_tensor *td_nested_new_##name(td_tensor *self, int64_t n, const int64_t *size, td_dtype dtype, td_device device)              \
    {                                                                                                                                \
        const int own = names_own_shape("new_" #name, self, n, size);                                                                \
        return own < 0 ? NULL : own ? like(self, dtype, device, TD_MEMORY_FORMAT_NONE)                                               \
                                    : td_new_##name(td_nested_of(self)->values, n, size, dtype, device);                             \
    }
NEW(empty, td_empty_like)
NEW(zeros, td_zeros_like_options)
NEW(ones, td_ones_like_options)
#undef NEW

td_tensor *td_nested_new_full(td_tensor *self, int64_t n, const int64_t *size, td_scalar fill_value, td_dtype dtype, td_device device)
{
    const int own = names_own_shape("new_full", self, n, size);
    return own < 0 ? NULL : own ? td_full_like(self, fill_value, dtype, device, TD_MEMORY_FORMAT_NONE)
                                : td_new_full(td_nested_of(self)->values, n, size, fill_value, dtype, device);
}

/* ---- comparison */

/* Whether the components have the same sizes. */
static bool same_sizes(const td_tensor *a, const td_tensor *b)
{
    if (!td_is_nested(a) || !td_is_nested(b) || td_is_jagged(a) != td_is_jagged(b) || a->ndim != b->ndim || td_nested_count(a) != td_nested_count(b))
        return false;
    const td_nested *x = td_nested_of(a), *y = td_nested_of(b);
    if (!x->ragged)
        return !x->sizes->numel || !memcmp(x->sizes->data, y->sizes->data, sizeof(int64_t) * (size_t)x->sizes->numel);
    bool same = x->dim == y->dim && (x->ragged->n == 0 || !memcmp(x->ragged->counts, y->ragged->counts, sizeof(int64_t) * (size_t)x->ragged->n));
    for (int d = 0; d < a->ndim && same; d++)
        same = d == x->dim || a->sizes[d] == b->sizes[d];
    return same;
}

int td_nested_is_same_size(bool *result, td_tensor *self, td_tensor *other)
{
    if (!td_is_nested(self) || !td_is_nested(other))
        return td_error(TD_E_RUNTIME, "Expected both self and other to be nested tensors. Self %s nested. While Other %s nested.",
                        td_is_nested(self) ? "is" : "is not", td_is_nested(other) ? "is" : "is not");
    const bool jagged = td_is_jagged(self) && td_is_jagged(other);         /* of these the symbols say it */
    *result = jagged ? self->ndim == other->ndim && !memcmp(self->sizes, other->sizes, sizeof *self->sizes * self->ndim) : same_sizes(self, other);
    return 0;
}

typedef int comparison(bool *result, td_tensor *a, td_tensor *b, void *context);

static int compared(bool *result, td_tensor *self, td_tensor *other, comparison *compare, void *context)
{
    *result = same_sizes(self, other);
    if (!*result)
        return 0;
    TD_AUTO td_tensor *a = td_nested_contiguous_format(self, TD_CONTIGUOUS_FORMAT), *b = td_nested_contiguous_format(other, TD_CONTIGUOUS_FORMAT);
    TD_AUTO td_tensor *x = a ? td_nested_unpacked(a) : NULL, *y = b ? td_nested_unpacked(b) : NULL;
    return x && y ? compare(result, x, y, context) : -1;
}

static int equal(bool *result, td_tensor *a, td_tensor *b, void *context) { return (void)context, td_equal(result, a, b); }
int td_nested_equal(bool *result, td_tensor *self, td_tensor *other) { return compared(result, self, other, equal, NULL); }

typedef struct tolerance { double rtol, atol; bool equal_nan; } tolerance;
static int close_to(bool *result, td_tensor *a, td_tensor *b, void *context)
{
    const tolerance *t = context;
    return td_allclose(result, a, b, t->rtol, t->atol, t->equal_nan);
}
int td_nested_allclose(bool *result, td_tensor *self, td_tensor *other, double rtol, double atol, bool equal_nan)
{
    return compared(result, self, other, close_to, &(tolerance){rtol, atol, equal_nan});
}

/* ---- by indices and masks */

/* Indices of components and of rows in them, as indices of rows of the values. */
static td_tensor *rows_at(td_tensor *self, td_tensor *component, td_tensor *row)
{
    const td_ragged *r = td_nested_of(self)->ragged;
    TD_AUTO td_tensor *starts = td_empty(1, &r->n, TD_I64), *counts = td_empty(1, &r->n, TD_I64);
    if (!starts || !counts)
        return NULL;
    for (int64_t i = 0; i < r->n; i++)
        ((int64_t *)starts->data)[i] = r->starts[i], ((int64_t *)counts->data)[i] = r->counts[i];
    TD_AUTO td_tensor *from = td__to_copy(starts, TD_DTYPE_NONE, component->device, false, TD_MEMORY_FORMAT_NONE);
    TD_AUTO td_tensor *of = td__to_copy(counts, TD_DTYPE_NONE, component->device, false, TD_MEMORY_FORMAT_NONE);
    td_tensor *const which[] = {component};
    TD_AUTO td_tensor *first = td_index_tensor(from, 1, which), *size = td_index_tensor(of, 1, which);
    TD_AUTO td_tensor *end = td_ge_tensor(row, size), *any = td__is_any_true(end);
    bool outside = false;
    if (!any || (any->device.type != TD_META && td_is_nonzero(&outside, any)))
        return NULL;
    return outside ? td_fail(TD_E_INDEX, "index_put(): Some indices in the ragged dimension are out of bounds!") : td_add_tensor(first, row, td_int(1));
}

/* Where the ragged dimension isn't indexed, in the padded tensor. */
static td_tensor *put_padded(td_tensor *self, int64_t n, td_tensor *const *indices, td_tensor *values, bool accumulate)
{
    const td_nested *x = td_nested_of(self);
    if (x->ragged->lengths || x->dim != 1)
        return td_fail(TD_E_RUNTIME, "index_put(): If ragged dimension is not part of indices, this only works on contiguous NJTs");
    TD_AUTO td_tensor *padded = td_to_padded_tensor(self, 0., 0, NULL), *put = td_index_put(padded, n, indices, values, accumulate);
    TD_AUTO td_tensor *packed = td__nested_from_padded_tensor(put, x->ragged->offsets, put, x->dim, TD_NONE, TD_NONE, NULL);
    TD_AUTO td_tensor *rows = packed ? td_nested_unpacked(packed) : NULL;
    return td_nested_packed(rows, self, x->dim);
}

td_tensor *td_nested_index_put(td_tensor *self, int64_t n, td_tensor *const *indices, td_tensor *values, bool accumulate)
{
    if (!td_is_nested(self) || !td_is_jagged(self))
        return td_fail(TD_E_NOT_IMPLEMENTED, "index_put(): of a jagged tensor, by strided indices and values");
    const int dim = td_nested_of(self)->dim;
    td_tensor *inner[TD_MAX_DIMS];
    if (n > self->ndim)
        return td_fail(TD_E_INDEX, "Too many indices: got %" PRId64 " but tensor has %d dimensions", n, self->ndim);
    for (int64_t i = 0; i < n; i++)
        if (td_is_some(indices[i]) && td_is_nested(indices[i]))
            return td_fail(TD_E_NOT_IMPLEMENTED, "index_put(): a nested tensor can't be an index");
    if (n <= dim)
        return put_padded(self, n, indices, values, accumulate);
    if (!td_is_some(indices[0]) || !td_is_some(indices[dim]))
        return td_fail(TD_E_RUNTIME, "index_put(): with the ragged dimension, the batch is indexed, too");
    TD_AUTO td_tensor *rows = rows_at(self, indices[0], indices[dim]), *all = td_nested_unpacked(self);
    for (int64_t i = 1; i < n; i++)
        inner[i - 1] = i == dim ? rows : indices[i];
    TD_AUTO td_tensor *put = rows ? td_index_put(all, n - 1, inner, values, accumulate) : NULL;
    return td_nested_packed(put, self, dim);
}

/* Of a matrix: the elements of each component where its mask is true. */
td_tensor *td_nested_masked_select(td_tensor *self, td_tensor *mask)
{
    if (!td_is_jagged(self) || self->ndim > 2)
        return td_fail(TD_E_RUNTIME, "masked_select only support 2-D selections currently");
    if (!td_is_nested(mask) || mask->ndim != self->ndim || mask->sizes[1] != self->sizes[1]) {
        td_shape_text one, two;
        return td_fail(TD_E_RUNTIME, "Mask with shape %s is not compatible with input's shape %s", td_shape_str(mask->ndim, mask->sizes, one),
                       td_shape_str(self->ndim, self->sizes, two));
    }
    td_tensor_list x = {0}, m = {0}, all = {0};
    int status = td_nested_components(&x, self) || td_nested_components(&m, mask) ? -1 : td_tensor_list_new(&all, x.count);
    for (int64_t i = 0; i < x.count && status == 0; i++)
        status = (all.items[i] = td_masked_select(x.items[i], m.items[i])) ? 0 : -1;
    td_tensor *made = status == 0 ? td_jagged_of_list(all.count, all.items) : NULL;
    td_tensor_list_release(&x), td_tensor_list_release(&m), td_tensor_list_release(&all);
    return made;
}

/* ---- layers */

typedef struct convolving {
    td_tensor *weight, *bias;
    int64_t    n[4], groups;
    const int64_t *stride, *padding, *dilation, *output_padding;
    bool       transposed;
} convolving;

static td_tensor *convolved(td_tensor *x, void *context)
{
    const convolving *c = context;
    TD_AUTO td_tensor *one = td_unsqueeze(x, 0);
    TD_AUTO td_tensor *made = td_convolution(one, c->weight, c->bias, c->n[0], c->stride, c->n[1], c->padding, c->n[2], c->dilation, c->transposed, c->n[3],
                                             c->output_padding, c->groups);
    return td_squeeze_dim(made, 0);
}

/* Each component by itself: none sees another's elements. */
td_tensor *td_nested_convolution(td_tensor *input, td_tensor *weight, td_tensor *bias, int64_t n_stride, const int64_t *stride, int64_t n_padding,
                                 const int64_t *padding, int64_t n_dilation, const int64_t *dilation, bool transposed, int64_t n_output_padding,
                                 const int64_t *output_padding, int64_t groups)
{
    convolving c = {weight, bias, {n_stride, n_padding, n_dilation, n_output_padding}, groups, stride, padding, dilation, output_padding, transposed};
    if (!td_is_nested(input) || td_is_nested(weight) || (td_is_some(bias) && td_is_nested(bias)) || (td_is_jagged(input) && td_nested_of(input)->dim == 1))
        return td_fail(TD_E_NOT_IMPLEMENTED, "convolution of a nested tensor: strided weights, and channels in the dimension behind the batch's");
    td_tensor_list list = {0};
    if (td_nested_each(&list, input, convolved, &c))
        return NULL;
    td_tensor *made = td_nested_joined(&list, input, td_nested_of(input)->dim);
    td_tensor_list_release(&list);
    return made;
}

/* Channels are the dimension behind the batch's: statistics are over all components' elements. */
td_tensor *td_nested_batch_norm(td_tensor *input, td_tensor *weight, td_tensor *bias, td_tensor *running_mean, td_tensor *running_var, bool training,
                                double momentum, double eps, bool cudnn_enabled)
{
    if (!td_is_nested(input) || !td_is_jagged(input) || td_nested_of(input)->dim == 1)
        return td_fail(TD_E_NOT_IMPLEMENTED, "batch_norm of a nested tensor: a jagged one, with channels in the dimension behind the batch's");
    TD_AUTO td_tensor *x = td_nested_of(input)->ragged->lengths ? td_nested_contiguous_format(input, TD_CONTIGUOUS_FORMAT) : td_ref(input);
    TD_AUTO td_tensor *values = x ? td_nested_unpacked(x) : NULL, *one = td_unsqueeze(values, 0);
    TD_AUTO td_tensor *made = td_batch_norm(one, weight, bias, running_mean, running_var, training, momentum, eps, cudnn_enabled);
    TD_AUTO td_tensor *packed = td_squeeze_dim(made, 0);
    return packed ? td_nested_packed(packed, x, td_nested_of(x)->dim) : NULL;
}
