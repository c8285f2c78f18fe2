/* Nested tensors of lists, masks and padded tensors, and back. */
#include "calls_layouts_nested_make.h"
#include "layouts/nested/nested.h"

#include <inttypes.h>

static int check_ranks(int64_t n, td_tensor *const *list)
{
    for (int64_t i = 0; i < n; i++) {
        if (td_has_layout(list[i]))
            return td_error(TD_E_RUNTIME, "nested tensors are made of strided tensors");
        if (i && list[i]->ndim != list[i - 1]->ndim)
            return td_error(TD_E_RUNTIME, "All Tensors given to nested_tensor must have the same dimension. Found dimension %d for Tensor at index %" PRId64
                            " and dimension %d for Tensor at index %" PRId64 ".", list[i]->ndim, i, list[i - 1]->ndim, i - 1);
    }
    return 0;
}

td_tensor *td_nested_of_list(int64_t n, td_tensor *const *list)
{
    if (check_ranks(n, list))
        return NULL;
    const int ndim = n ? list[0]->ndim : 0;
    TD_AUTO td_tensor *sizes = td_empty(2, (int64_t[]){n, ndim}, TD_I64);
    td_tensor_list lines = {0};
    if (!sizes || td_tensor_list_new(&lines, n))
        return NULL;
    int status = 0;
    for (int64_t i = 0; i < n && status == 0; i++) {
        if (ndim)
            memcpy((int64_t *)sizes->data + i * ndim, list[i]->sizes, sizeof(int64_t) * (size_t)ndim);
        status = (lines.items[i] = td_reshape(list[i], 1, (int64_t[]){list[i]->numel})) ? 0 : -1;
    }
    td_tensor *made = NULL;
    if (status == 0) {
        TD_AUTO td_tensor *buffer = n ? td_cat(n, lines.items, 0) : td_zeros(1, (int64_t[]){0}, td_default_dtype(), TD_DEVICE_NONE);
        made = td__nested_of_sizes(buffer, sizes);
    }
    td_tensor_list_release(&lines);
    return made;
}

/* In the first dimension that they differ in, or the first. */
td_tensor *td_jagged_of_list(int64_t n, td_tensor *const *list)
{
    if (!n)
        return td_fail(TD_E_RUNTIME, "Cannot construct a nested tensor from an empty list of tensors");
    if (check_ranks(n, list))
        return NULL;
    if (list[0]->ndim == 0)
        return td_fail(TD_E_RUNTIME, "Cannot construct a nested tensor from a list of scalar tensors");
    int dim = -1;
    for (int64_t i = 1; i < n; i++)
        for (int d = 0; d < list[0]->ndim; d++)
            if (list[i]->sizes[d] != list[0]->sizes[d] && d != dim) {
                if (dim >= 0)
                    return td_fail(TD_E_RUNTIME, "When constructing a nested tensor, all non-ragged dimensions must match for each tensor in the list");
                dim = d;
            }
    dim = dim < 0 ? 0 : dim;
    int64_t *counts = td_mem_alloc(sizeof *counts * (size_t)n);
    if (!counts)
        return NULL;
    for (int64_t i = 0; i < n; i++)
        counts[i] = list[i]->sizes[dim];
    TD_AUTO td_tensor *values = td_cat(n, list, dim);
    td_ragged *r = values ? td_ragged_of_counts(n, counts, values->device) : NULL;
    td_mem_free(counts, sizeof *counts * (size_t)n);
    td_tensor *x = r ? td__nested_of_jagged(values, r->offsets, TD_NONE, dim + 1, &r->shortest, &r->longest) : NULL;
    td_ragged_release(r);
    return x;
}

td_tensor *td_op__jagged_of_list(int64_t n, td_tensor *const *list) { return td_jagged_of_list(n, list); }

td_tensor *td_op__nested_tensor_from_tensor_list(int64_t n, td_tensor *const *list, td_dtype dtype, td_device device)
{
    TD_AUTO td_tensor *x = td_nested_of_list(n, list);
    if (!x || (dtype == TD_DTYPE_NONE && device.type < 0))
        return td_ref(x);
    return td_to_dtype_layout(x, dtype, device, false, false, TD_MEMORY_FORMAT_NONE);
}

/* ---- padded */

/* The place in a padded tensor of B times L rows of each of the values' rows. */
static td_tensor *places(const td_tensor *x, int64_t length)
{
    const td_nested *n = td_nested_of(x);
    const td_ragged *r = n->ragged;
    int64_t rows = 0;
    for (int64_t i = 0; i < r->n; i++)
        rows += r->counts[i];
    TD_AUTO td_tensor *to = td_empty(1, &rows, TD_I64);
    if (!to)
        return NULL;
    int64_t *at = (int64_t *)to->data;
    for (int64_t i = 0; i < r->n; i++)
        for (int64_t k = 0; k < r->counts[i]; k++)
            *at++ = i * length + k;
    return x->device.type == TD_CPU ? td_ref(to) : td__to_copy(to, TD_DTYPE_NONE, x->device, false, TD_MEMORY_FORMAT_NONE);
}

static td_tensor *padded_jagged(td_tensor *self, double padding, const int64_t *output_size, int64_t n_output)
{
    td_shape_text text;
    TD_AUTO td_tensor *x = td_nested_of(self)->ragged->lengths ? td_nested_contiguous_format(self, TD_CONTIGUOUS_FORMAT) : td_ref(self);
    if (!x)
        return NULL;
    const td_nested *n = td_nested_of(x);
    int64_t length = n->ragged->longest, sizes[TD_MAX_DIMS];
    if (output_size) {
        bool fits = n_output == x->ndim;
        for (int d = 0; d < x->ndim && fits; d++)
            fits = d == n->dim ? td_size_is_symbol(output_size[d]) || output_size[d] >= length || output_size[d] == -1
                               : output_size[d] == -1 || output_size[d] == x->sizes[d];
        if (!fits)
            return td_fail(TD_E_RUNTIME, "Value in output_size is less than NestedTensor padded size. Truncation is not supported. (%s)",
                           td_shape_str((int)(n_output < TD_MAX_DIMS ? n_output : TD_MAX_DIMS), output_size, text));
        length = output_size[n->dim] == -1 || td_size_is_symbol(output_size[n->dim]) ? length : output_size[n->dim];
    }
    const int at = td_inner_dim(n->dim);
    TD_AUTO td_tensor *values = td_nested_unpacked(x), *rows = at ? td_movedim_int(values, at, 0) : td_ref(values), *to = places(x, length);
    if (!rows || !to)
        return NULL;
    memcpy(sizes, rows->sizes, sizeof *sizes * rows->ndim);
    sizes[0] = n->ragged->n * length;
    const td_scalar fill = td_dtype_is_floating((td_dtype)x->dtype) || td_dtype_is_complex((td_dtype)x->dtype) ? td_float(padding) : td_int((int64_t)padding);
    TD_AUTO td_tensor *empty = td_full(rows->ndim, sizes, fill, (td_dtype)x->dtype, x->device), *all = td_index_copy(empty, 0, to, rows);
    if (!all)
        return NULL;
    memmove(sizes + 2, sizes + 1, sizeof *sizes * (size_t)(rows->ndim - 1));
    sizes[0] = n->ragged->n, sizes[1] = length;
    TD_AUTO td_tensor *seen = td_view(all, rows->ndim + 1, sizes);
    return at ? td_movedim_int(seen, 1, n->dim) : td_ref(seen);
}

static td_tensor *padded_strided(td_tensor *self, double padding, const int64_t *output_size, int64_t n_output)
{
    const int64_t count = td_nested_count(self);
    const int ndim = self->ndim - 1;
    int64_t sizes[TD_MAX_DIMS] = {0};
    if (!count)
        return td_zeros(1, (int64_t[]){0}, (td_dtype)self->dtype, self->device);
    if (self->numel == 0 && !output_size)
        return td_fail(TD_E_RUNTIME, "to_padded_tensor: at least one constituent tensor should have non-zero numel");
    for (int64_t i = 0; i < count; i++)
        for (int d = 0; d < ndim; d++)
            sizes[d] = td_nested_sizes(self, i)[d] > sizes[d] ? td_nested_sizes(self, i)[d] : sizes[d];
    if (output_size) {
        if (n_output != self->ndim)
            return td_fail(TD_E_RUNTIME, "Length of output_size does not match NestedTensor dims. Broadcasting is not supported.");
        if (output_size[0] != count && output_size[0] != -1)
            return td_fail(TD_E_RUNTIME, "output_size[0] should be equal to batch_size (%" PRId64 "), but is %" PRId64, count, output_size[0]);
        for (int d = 0; d < ndim; d++) {
            if (output_size[d + 1] != -1 && output_size[d + 1] < sizes[d])
                return td_fail(TD_E_RUNTIME, "Value in output_size is less than NestedTensor padded size. Truncation is not supported.");
            sizes[d] = output_size[d + 1] == -1 ? sizes[d] : output_size[d + 1];
        }
    }
    td_tensor_list list = {0}, filled = {0};
    if (td_nested_components(&list, self))
        return NULL;
    int status = td_tensor_list_new(&filled, count);
    const td_scalar fill = td_dtype_is_floating((td_dtype)self->dtype) || td_dtype_is_complex((td_dtype)self->dtype) ? td_float(padding)
                                                                                                                      : td_int((int64_t)padding);
    for (int64_t i = 0; i < count && status == 0; i++) {
        int64_t pad[2 * TD_MAX_DIMS] = {0};
        for (int d = 0; d < ndim; d++)
            pad[2 * (ndim - 1 - d) + 1] = sizes[d] - list.items[i]->sizes[d];
        status = (filled.items[i] = ndim ? td_constant_pad_nd(list.items[i], 2 * ndim, pad, fill) : td_ref(list.items[i])) ? 0 : -1;
    }
    td_tensor *made = status == 0 ? td_stack(count, filled.items, 0) : NULL;
    td_tensor_list_release(&list), td_tensor_list_release(&filled);
    return made;
}

td_tensor *td_op_to_padded_tensor(td_tensor *self, double padding, int64_t n_output, const int64_t *output_size)
{
    if (!td_is_nested(self))
        return td_fail(TD_E_RUNTIME, "to_padded_tensor: Expected a nested tensor");
    const int64_t *size = n_output ? output_size : NULL;
    return td_is_jagged(self) ? padded_jagged(self, padding, size, n_output) : padded_strided(self, padding, size, n_output);
}

/* The first rows of each of a padded tensor's members, as a jagged tensor. */
td_tensor *td_op__nested_from_padded_tensor(td_tensor *padded, td_tensor *offsets, td_tensor *dummy, int64_t ragged_idx, td_tensor *min_seqlen,
                                            td_tensor *max_seqlen, const int64_t *sum_S)
{
    (void)dummy, (void)min_seqlen, (void)max_seqlen, (void)sum_S;
    td_ragged *r = td_ragged_of(offsets, NULL);
    if (!r)
        return NULL;
    td_tensor *x = NULL;
    td_tensor_list list = {0};
    if (ragged_idx < 1 || ragged_idx >= padded->ndim || padded->sizes[0] != r->n) {
        td_error(TD_E_RUNTIME, "_nested_from_padded_tensor: %" PRId64 " offsets for a padded tensor with %" PRId64 " members", r->n + 1,
                 padded->ndim ? padded->sizes[0] : 0);
    } else if (td_tensor_list_new(&list, r->n) == 0) {
        int status = 0;
        for (int64_t i = 0; i < r->n && status == 0; i++) {
            TD_AUTO td_tensor *one = td_select_int(padded, 0, i);
            status = (list.items[i] = td_narrow(one, ragged_idx - 1, 0, r->counts[i])) ? 0 : -1;
        }
        TD_AUTO td_tensor *values = status == 0 ? td_cat(r->n, list.items, ragged_idx - 1) : NULL;
        x = values ? td__nested_of_jagged(values, r->offsets, TD_NONE, ragged_idx, NULL, NULL) : NULL;
        td_tensor_list_release(&list);
    }
    td_ragged_release(r);
    return x;
}

td_tensor *td_op__nested_from_padded(td_tensor *padded, td_tensor *sizes, bool fused)
{
    TD_AUTO td_tensor *x = fused ? td_permute(padded, 4, (int64_t[]){0, 2, 1, 3}) : td_ref(padded), *rows = td_as_contiguous(sizes, TD_I64);
    if (!x || !rows)
        return NULL;
    if (sizes->device.type == TD_META)
        return td_fail(TD_E_NOT_IMPLEMENTED, "_nested_from_padded: sizes are read, so they can't be on meta");
    if (rows->ndim != 2 || x->ndim < 1 || rows->sizes[0] != x->sizes[0] || (!fused && rows->sizes[1] != x->ndim - 1) || rows->sizes[1] > x->ndim - 1)
        return td_fail(TD_E_RUNTIME, "_nested_from_padded: sizes have a row for each member, and a column for each of its dimensions");
    td_tensor_list list = {0};
    if (td_tensor_list_new(&list, x->sizes[0]))
        return NULL;
    const int n = (int)rows->sizes[1];
    int status = 0;
    for (int64_t i = 0; i < list.count && status == 0; i++) {
        td_tensor *one = td_select_int(x, 0, i);
        if (fused) {        /* heads and their width are one dimension of the result */
            td_tensor *flat = td_flatten_using_ints(one, 1, 2);
            td_tensor_release(one);
            one = flat;
        }
        for (int d = 0; d < n && one; d++) {
            td_tensor *less = td_narrow(one, d, 0, ((const int64_t *)rows->data)[i * n + d]);
            td_tensor_release(one);
            one = less;
        }
        status = (list.items[i] = one) ? 0 : -1;
    }
    td_tensor *made = status == 0 ? td_nested_of_list(list.count, list.items) : NULL;
    td_tensor_list_release(&list);
    return made;
}

td_tensor *td_op__nested_from_padded_and_nested_example(td_tensor *padded, td_tensor *nt_example)
{
    TD_AUTO td_tensor *sizes = td__nested_tensor_size(nt_example);
    return td__nested_from_padded(padded, sizes, false);
}

/* The kernels of PyTorch under the names of theirs, for one ragged dimension. */
td_tensor *td_op__jagged_to_padded_dense_forward(td_tensor *values, int64_t n_offsets, td_tensor *const *offsets, int64_t n_max_lengths,
                                                 const int64_t *max_lengths, double padding_value)
{
    if (n_offsets != 1 || n_max_lengths != 1)
        return td_fail(TD_E_RUNTIME, "_jagged_to_padded_dense_forward(): only a single jagged dim is supported for now");
    int64_t sizes[TD_MAX_DIMS];
    TD_AUTO td_tensor *x = td__nested_of_jagged(values, offsets[0], TD_NONE, 1, NULL, NULL);
    if (!x)
        return NULL;
    memcpy(sizes, x->sizes, sizeof *sizes * x->ndim);
    sizes[1] = td_nested_of(x)->ragged->longest > max_lengths[0] ? td_nested_of(x)->ragged->longest : max_lengths[0];
    TD_AUTO td_tensor *whole = td_to_padded_tensor(x, padding_value, x->ndim, sizes);
    return td_narrow(whole, 1, 0, max_lengths[0]);
}

td_tensor *td_op__padded_dense_to_jagged_forward(td_tensor *dense, int64_t n_offsets, td_tensor *const *offsets, const int64_t *total_L)
{
    (void)total_L;
    if (n_offsets != 1)
        return td_fail(TD_E_RUNTIME, "_padded_dense_to_jagged_forward(): only a single jagged dim is supported for now");
    TD_AUTO td_tensor *x = td__nested_from_padded_tensor(dense, offsets[0], dense, 1, TD_NONE, TD_NONE, NULL);
    return x ? td_nested_unpacked(x) : NULL;
}

/* ---- masks */

/* How many rows each member of a (batch, length) mask has, if what is true comes first: 1, 0 if it doesn't, or -1. */
static int left_aligned(td_tensor *mask, int64_t *counts)
{
    TD_AUTO td_tensor *here = mask->device.type > TD_CPU ? td__to_copy(mask, TD_BOOL, (td_device){TD_CPU, -1}, false, TD_MEMORY_FORMAT_NONE)
                                                         : td_as_contiguous(mask, TD_BOOL);
    if (!here)
        return -1;
    const bool *m = (const bool *)here->data;
    const int64_t length = here->sizes[1];
    int aligned = 1;
    for (int64_t i = 0; i < here->sizes[0]; i++) {
        counts[i] = 0;
        for (int64_t k = 0; k < length; k++) {
            aligned &= !m[i * length + k] || counts[i] == k;
            counts[i] += m[i * length + k];
        }
    }
    return aligned;
}

static int check_mask(const td_tensor *t, const td_tensor *mask)
{
    if (mask->dtype != TD_BOOL)
        return td_error(TD_E_RUNTIME, "Expected mask to be of ScalarType Bool, but got %s instead.", td_dtype_name((td_dtype)mask->dtype));
    if (mask->ndim != 2)
        return td_error(TD_E_RUNTIME, "Padding mask should be 2D");
    if (t->ndim != 3)
        return td_error(TD_E_RUNTIME, "Input should be a 3D tensor, N * L * D");
    if (t->sizes[0] != mask->sizes[0] || t->sizes[1] != mask->sizes[1])
        return td_error(TD_E_RUNTIME, "Mask size should match input size");
    return 0;
}

int td_op__nested_tensor_from_mask_left_aligned(bool *result, td_tensor *t, td_tensor *mask)
{
    if (check_mask(t, mask))
        return -1;
    int64_t *counts = td_mem_alloc(sizeof *counts * (size_t)(mask->sizes[0] + 1));
    const int aligned = counts ? left_aligned(mask, counts) : -1;
    td_mem_free(counts, sizeof *counts * (size_t)(mask->sizes[0] + 1));
    *result = aligned == 1;
    return aligned < 0 ? -1 : 0;
}

td_tensor *td_op__nested_tensor_from_mask(td_tensor *t, td_tensor *mask, bool mask_check)
{
    if (check_mask(t, mask))
        return NULL;
    const int64_t n = mask->sizes[0];
    const size_t room = sizeof(int64_t) * (size_t)(n + 1);
    int64_t *counts = td_mem_alloc(room);
    td_tensor_list list = {0};
    td_tensor *made = NULL;
    int status = counts ? left_aligned(mask, counts) : -1;
    if (status == 0 && mask_check)
        td_error(TD_E_RUNTIME, "Mask must be left-aligned without gaps");
    if ((status == 1 || (status == 0 && !mask_check)) && td_tensor_list_new(&list, n) == 0) {
        status = 0;
        for (int64_t i = 0; i < n && status == 0; i++) {
            TD_AUTO td_tensor *one = td_select_int(t, 0, i);
            status = (list.items[i] = td_narrow(one, 0, 0, counts[i])) ? 0 : -1;
        }
        made = status == 0 ? td_nested_of_list(n, list.items) : NULL;
        td_tensor_list_release(&list);
    }
    td_mem_free(counts, room);
    return made;
}

/* ---- what they are made of */

td_tensor *td_op__nested_get_values(td_tensor *self) { return td_is_nested(self) ? td_nested_unpacked(self) : td_layout_refuse("_nested_get_values", self); }

td_tensor *td_op__nested_get_offsets(td_tensor *self)
{
    return td_is_jagged(self) ? td_alias_detached(td_nested_of(self)->ragged->offsets, false) : td_layout_refuse("_nested_get_offsets", self);
}

td_tensor *td_op__nested_get_lengths(td_tensor *self)
{
    if (!td_is_jagged(self))
        return td_layout_refuse("_nested_get_lengths", self);
    td_tensor *lengths = td_nested_of(self)->ragged->lengths;
    return lengths ? td_alias_detached(lengths, false) : td_zeros(1, (int64_t[]){0}, TD_I64, self->device);
}

int td_op__nested_get_ragged_idx(int64_t *result, td_tensor *self)
{
    if (!td_is_jagged(self))
        return td_layout_refuse("_nested_get_ragged_idx", self), -1;
    *result = td_nested_of(self)->dim;
    return 0;
}

static td_tensor *shown(int64_t length, bool *known)
{
    *known = true;
    return td_full(0, NULL, td_int(length), TD_I64, (td_device){TD_CPU, -1});
}

td_tensor *td_op__nested_get_min_seqlen(td_tensor *self)
{
    td_ragged *r = td_is_jagged(self) ? td_nested_of(self)->ragged : NULL;
    return r ? shown(r->shortest, &r->shown_shortest) : td_layout_refuse("_nested_get_min_seqlen", self);
}
td_tensor *td_op__nested_get_max_seqlen(td_tensor *self)
{
    td_ragged *r = td_is_jagged(self) ? td_nested_of(self)->ragged : NULL;
    return r ? shown(r->longest, &r->shown_longest) : td_layout_refuse("_nested_get_max_seqlen", self);
}
int td_op__nested_known_seqlens(int64_t *result, td_tensor *self)
{
    if (!td_is_jagged(self))
        return td_layout_refuse("_nested_known_seqlens", self), -1;
    const td_ragged *r = td_nested_of(self)->ragged;
    *result = (r->shown_shortest ? 1 : 0) + (r->shown_longest ? 2 : 0);
    return 0;
}

static bool is_strided(const td_tensor *x) { return td_is_nested(x) && !td_is_jagged(x); }

td_tensor *td_op__nested_tensor_size(td_tensor *self)
{
    return is_strided(self) ? td_alias_detached(td_nested_of(self)->sizes, false) : td_layout_refuse("_nested_tensor_size", self);
}

td_tensor *td_op__nested_tensor_strides(td_tensor *self)
{
    if (!is_strided(self))
        return td_layout_refuse("_nested_tensor_strides", self);
    const td_tensor *sizes = td_nested_of(self)->sizes;
    td_tensor *strides = td_empty(2, sizes->sizes, TD_I64);
    for (int64_t i = 0; strides && i < sizes->sizes[0]; i++)
        td_contiguous_strides((int)sizes->sizes[1], td_nested_sizes(self, i), (int64_t *)strides->data + i * sizes->sizes[1]);
    return strides;
}

td_tensor *td_op__nested_tensor_storage_offsets(td_tensor *self)
{
    if (!is_strided(self))
        return td_layout_refuse("_nested_tensor_storage_offsets", self);
    const td_tensor *sizes = td_nested_of(self)->sizes;
    td_tensor *at = td_empty(1, sizes->sizes, TD_I64);
    int64_t sum = 0;
    for (int64_t i = 0; at && i < sizes->sizes[0]; i++) {
        ((int64_t *)at->data)[i] = sum;
        sum += td_numel_checked((int)sizes->sizes[1], td_nested_sizes(self, i));
    }
    return at;
}
