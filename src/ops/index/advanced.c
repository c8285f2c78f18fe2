/* Advanced indexing: x[indices] with index tensors and boolean masks (index, index_put), nonzero, and masked_select,
 * masked_scatter, masked_fill, whose result or result's shape depends on the data. Their gradients, and those of
 * scatter_reduce and index_reduce, are at the end.
 *
 * Index tensors are broadcast together and folded into one tensor of byte offsets; then reading is a gather and writing a
 * scatter over (dimensions in front, index points, dimensions behind), see ops/index/kernels.h. The schema entries are in
 * ops/index.yaml. */

#include "calls_ops_index_advanced.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <tede/dispatch.h>
#include <tede/kernel.h>
#include "base/names.h"
#include "ops/index/index.h"
#include "ops/iterate/strides.h"
#include "ops/reduce/reduce.h"
#include "tensor/checked.h"

/* ---- where a tensor isn't 0 */

/* How many of n bytes aren't 0. SIDE counters of one byte each stand side by side, so that a vector unit counts 64 bytes at
 * once; they are added up after 255 turns, before one could overflow. */
static int64_t count_range(const uint8_t *m, int64_t n)
{
    enum { SIDE = 64, TURNS = 255 };
    int64_t count = 0, i = 0;
    while (i + SIDE <= n) {
        uint8_t lane[SIDE] = {0};
        for (int turn = 0; turn < TURNS && i + SIDE <= n; turn++, i += SIDE)
            for (int k = 0; k < SIDE; k++)
                lane[k] = (uint8_t)(lane[k] + (m[i + k] != 0));
        for (int k = 0; k < SIDE; k++)
            count += lane[k];
    }
    for (; i < n; i++)
        count += m[i] != 0;
    return count;
}
static int64_t count_true(const td_tensor *mask) { return count_range((const uint8_t *)mask->data, mask->numel); }

/* A bit for each of up to 64 bytes, set where the byte isn't 0. Eight bytes at a time: adding 0x7f to the lower seven bits
 * carries into the eighth if any is set, never into the next byte; the byte's own eighth bit is or-ed in. The
 * multiplication then gathers the eight bits: the products of a bit and a bit of the constant all fall on different
 * positions (8i + 7j), so nothing carries. */
static inline uint64_t bits_of(const uint8_t *m, int64_t n)
{
    const uint64_t ones = UINT64_C(0x0101010101010101), low = 0x7f * ones;
    uint64_t bits = 0;
    if (n < 64) {
        for (int64_t k = 0; k < n; k++)
            bits |= (uint64_t)(m[k] != 0) << k;
        return bits;
    }
#pragma GCC unroll 8
    for (int k = 0; k < 64; k += 8) {
        uint64_t word;
        memcpy(&word, m + k, 8);
        word = (((word & low) + low) | word) >> 7 & ones;               /* 0 or 1 in each byte */
        bits |= word * UINT64_C(0x0102040810204080) >> 56 << k;         /* these side by side in the highest one */
    }
    return bits;
}

/* The same on a device, whose kernels list the true elements first. */
static td_tensor *positions_on_device(const td_tensor *self, td_tensor *mask, int64_t room, int64_t filler)
{
    TD_AUTO td_tensor *all = td_true_positions_on_device(mask);
    if (!all)
        return NULL;
    const int64_t ndim = self->ndim, rows = room < 0 ? all->numel : room, found = all->numel < rows ? all->numel : rows;
    int64_t strides[2] = {room < 0 || !ndim ? 1 : ndim, room < 0 ? rows : 1};
    TD_AUTO td_tensor *out = td_tensor_new_strided(2, (int64_t[]){rows, ndim}, strides, TD_I64, self->device);
    TD_AUTO td_tensor *first = td_view_strided(all, 1, &found, (int64_t[]){1}, 0);
    if (!out || !first || (found < rows && td_fill_value(out, td_int(filler))) || td_coordinates_on_device(first, self->ndim, self->sizes, out))
        return NULL;
    return td_tensor_retain(out);
}

/* The coordinates of all elements that aren't 0, as rows of [count, ndim]. `room` < 0: as many rows as there are (nonzero);
 * otherwise exactly `room`, the rest filled with `filler` (nonzero_static). The mask is read 64 elements at a time; bits &
 * (bits - 1) drops the lowest set bit, so zeros cost nothing each. */
static td_tensor *positions(td_tensor *self, int64_t room, int64_t filler)
{
    if (self->device.type == TD_META)
        return td_fail(TD_E_NOT_IMPLEMENTED, "nonzero: a mask on the meta device has no elements that decide the result's shape");
    TD_AUTO td_tensor *mask = td_as_contiguous(self, TD_BOOL);
    if (!mask)
        return NULL;
    if (mask->device.type != TD_CPU)
        return positions_on_device(self, mask, room, filler);
    int64_t count = count_true(mask), ndim = self->ndim, rows = room < 0 ? count : room;
    /* Coordinates lie together by dimension, as PyTorch's do; those of nonzero_static by element. */
    int64_t strides[2] = {room < 0 || !ndim ? 1 : ndim, room < 0 ? rows : 1}, step = strides[0], across = strides[1];
    td_tensor *out = td_tensor_new_strided(2, (int64_t[]){rows, ndim}, strides, TD_I64, self->device);
    if (!out)
        return NULL;
    int64_t *to = (int64_t *)out->data, at[TD_MAX_DIMS] = {0}, found = 0;
    const uint8_t *m = (const uint8_t *)mask->data;
    int64_t inner = ndim ? self->sizes[ndim - 1] : 1;
    for (int64_t i = 0; i < mask->numel && found < rows; i += inner) {
        for (int64_t k = 0; k < inner; k += 64) {
            uint64_t bits = bits_of(m + i + k, inner - k < 64 ? inner - k : 64);
            if (ndim == 1) {
                for (; bits && found < rows; bits &= bits - 1)
                    to[found++] = k + __builtin_ctzll(bits);
                continue;
            }
            for (; bits && found < rows; bits &= bits - 1, found++, to += step) {
                for (int64_t d = 0; d + 1 < ndim; d++)
                    to[d * across] = at[d];
                if (ndim)
                    to[(ndim - 1) * across] = k + __builtin_ctzll(bits);
            }
        }
        to += ndim == 1 ? found : 0;
        for (int64_t d = ndim - 1; d-- > 0;) {
            if (++at[d] < self->sizes[d])
                break;
            at[d] = 0;
        }
    }
    for (; found < rows; found++, to += step)
        for (int64_t d = 0; d < ndim; d++)
            to[d * across] = filler;
    return out;
}

td_tensor *td_op_nonzero(td_tensor *self) { return positions(self, -1, 0); }
td_tensor *td_op_nonzero_static(td_tensor *self, int64_t size, int64_t fill_value)
{
    if (size < 0)
        return td_fail(TD_E_RUNTIME, "nonzero_static: 'size' must be an non-negative integer");
    return positions(self, size, fill_value);
}
td_tensor *td_op_argwhere(td_tensor *self) { return td_nonzero(self); }

int td_op_nonzero_numpy(td_tensor_list *results, td_tensor *self)
{
    TD_AUTO td_tensor *x = self->ndim ? td_tensor_retain(self) : td_unsqueeze(self, 0);
    TD_AUTO td_tensor *at = td_nonzero(x);
    return at ? td_unbind_int(results, at, 1) : -1;
}
int td_op_where_condition(td_tensor_list *results, td_tensor *condition) { return td_op_nonzero_numpy(results, condition); }

/* ---- index tensors */

/* A resolved x[indices]. forget() releases what it holds; where resolve() fails, it has done so. */
typedef struct indexed {
    int        n;                            /* one position per dimension of the tensor */
    td_tensor *at[TD_MAX_DIMS + 1];          /* owned int64 tensors, NULL for whole dimensions */
    int        front, rank;                  /* of the index points: the result's dimensions before them, and theirs */
    int64_t    points[TD_MAX_DIMS];
    td_tensor *offsets;                      /* in units, contiguous, of the points' shape */
    int64_t    unit;                         /* bytes; on a device up to 16, as far as they divide all offsets, so that it may move packs */
    td_picking    pick;                         /* sizes, far, along and the offsets filled in */
} indexed;

static void forget(indexed *x)
{
    for (int d = 0; d < x->n; d++)
        td_tensor_release(x->at[d]);
    td_tensor_release(x->offsets);
}

/* The columns of nonzero(mask), one index for each dimension that the mask spans. */
static int take_mask(indexed *x, const td_tensor *self, td_tensor *mask, int64_t position)
{
    td_shape_text a, b;
    for (int d = 0; d < mask->ndim; d++)
        if (x->n + d >= self->ndim || mask->sizes[d] != self->sizes[x->n + d])
            return td_error(TD_E_INDEX, "The shape of the mask %s at index %d does not match the shape of the indexed tensor %s "
                            "at index %" PRId64, td_shape_str(mask->ndim, mask->sizes, a), d,
                            td_shape_str(self->ndim, self->sizes, b), x->n + d + 0 * position);
    TD_AUTO td_tensor *near = td_is_outside(self->device) && mask->device.type == TD_CPU ? td_device_copy(mask, self->device)
                                                                                         : td_tensor_retain(mask);
    TD_AUTO td_tensor *found = near ? positions(near, -1, 0) : NULL;
    if (!found)
        return -1;
    for (int d = 0; d < mask->ndim; d++) {
        td_tensor *column = td_view_strided(found, 1, &found->sizes[0], &found->strides[0], d * found->strides[1]);
        td_tensor *own = column ? td_make_contiguous(column) : NULL;
        td_tensor_release(column);
        if (!own)
            return -1;
        x->at[x->n++] = own;
    }
    return 0;
}

/* What self is indexed by, or written with, has elements if self has. */
static int check_memory(const td_tensor *self, const td_tensor *other)
{
    return self->device.type == TD_META || other == TD_NONE || other->device.type != TD_META ? 0 : td_error(
        TD_E_RUNTIME, "Expected all tensors to be on the same device, but found at least two devices, %s and meta!",
        td_device_name(self->device.type));
}

/* An index is on the CPU or where self is. */
static int check_place(const td_tensor *self, const td_tensor *index)
{
    char name[32];
    if (index == TD_NONE || !td_is_outside(index->device) || (index->device.type == self->device.type && index->device.index == self->device.index))
        return 0;
    return td_error(TD_E_RUNTIME, "indices should be either on cpu or on the same device as the indexed tensor (%s)", td_device_str(self->device, name));
}

/* The indices as one entry per dimension of self: a mask takes as many dimensions as it has itself, the missing ones at the
 * end are whole. The count is checked before each entry is written, so `at` can't be overrun by long index lists. */
static int collect(indexed *x, const td_tensor *self, int64_t n, td_tensor *const *indices)
{
    for (int64_t i = 0; i < n; i++) {
        td_tensor *index = indices[i];
        if (check_memory(self, index) || check_place(self, index))
            return -1;
        bool mask = index != TD_NONE && (index->dtype == TD_BOOL || index->dtype == TD_U8);
        if (x->n + (mask ? index->ndim : 1) > self->ndim)
            return td_error(TD_E_INDEX, "too many indices for tensor of dimension %d (got %" PRId64 ")", self->ndim, n);
        if (index == TD_NONE) {
            x->at[x->n++] = NULL;
        } else if (mask) {
            if (index->dtype == TD_U8 && td_warn("indexing with dtype torch.uint8 is now deprecated, please use a dtype torch.bool "
                                                 "instead."))
                return -1;
            if (take_mask(x, self, index, i))
                return -1;
        } else if (index->dtype != TD_I64 && index->dtype != TD_I32) {
            return td_error(TD_E_INDEX, "tensors used as indices must be long, int, byte or bool tensors");
        } else {
            TD_AUTO td_tensor *near = td_is_outside(self->device) && index->device.type == TD_CPU ? td_device_copy(index, self->device)
                                                                                                  : td_tensor_retain(index);
            td_tensor *own = near ? td_as_contiguous(near, TD_I64) : NULL;
            if (!own)
                return -1;
            x->at[x->n++] = own;
        }
    }
    while (x->n < self->ndim)
        x->at[x->n++] = NULL;
    return 0;
}

static int refuse_mask(const char *op, const char *dtype)
{
    return td_error(TD_E_RUNTIME, "%s only supports boolean masks, but got mask with dtype %s", op, dtype);
}

/* The offset of each index point: the sum over indexed dimensions of (index, counted from the end if negative) times
 * the stride. All bounds are checked here (on a device by the kernel that adds), so the loop runs with range = limit = 0. If there are no points, or nothing
 * at each of them, nothing is read through the indices and their bounds are not checked. */
static int fold_offsets(indexed *x, const td_tensor *self)
{
    td_tensor *list[TD_MAX_DIMS] = {NULL};
    int count = 0;
    for (int d = 0; d < x->n; d++)
        if (x->at[d])
            list[count++] = x->at[d];
    x->rank = td_broadcast_shape("index", count, list, x->points);
    if (x->rank < 0) {
        td_shape_text a;
        char text[1024] = "";
        for (int i = 0; i < count; i++)
            snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", i ? ", " : "",
                     td_shape_str(list[i]->ndim, list[i]->sizes, a));
        return td_error(TD_E_INDEX, "shape mismatch: indexing tensors could not be broadcast together with shapes %s", text);
    }
    x->offsets = td_tensor_new(x->rank, x->points, TD_I64, self->device);
    if (!x->offsets || self->device.type == TD_META)
        return x->offsets ? 0 : -1;
    bool nothing = false;
    for (int d = 0; d < x->n; d++)
        nothing |= !x->at[d] && !self->sizes[d];
    int64_t *to = (int64_t *)x->offsets->data;
    x->unit = self->device.type == TD_CPU ? 1 : 16;
    for (int d = 0; d < x->n; d++)
        while (x->at[d] && self->strides[d] * td_itemsize(self) % x->unit)
            x->unit /= 2;
    if (td_fill_value(x->offsets, td_int(0)))
        return -1;
    for (int d = 0; d < x->n; d++) {
        if (!x->at[d])
            continue;
        int64_t size = self->sizes[d], reach = self->strides[d] * td_itemsize(self), low = 0, high = -1;
        if (self->device.type == TD_CPU && td_index_bounds(x->at[d], &low, &high))
            return -1;
        if (x->offsets->numel && x->at[d]->numel && size == 0)
            return td_error(TD_E_INDEX, "index is out of bounds for dimension with size 0");
        if (x->offsets->numel && x->at[d]->numel && !nothing && (low < -size || high >= size))
            return td_error(TD_E_INDEX, "index %" PRId64 " is out of bounds for dimension %d with size %" PRId64,
                            high >= size ? high : low, d, size);
        TD_AUTO td_tensor *wide = td_expand(x->at[d], x->rank, x->points);
        TD_AUTO td_tensor *dense = wide ? td_make_contiguous(wide) : NULL;
        if (!dense)
            return -1;
        if (dense->device.type != TD_CPU && td_index_fold_on_device(x->offsets, dense, size, reach / x->unit, d))
            return -1;
        const int64_t *from = (const int64_t *)dense->data;
        for (int64_t i = 0; dense->device.type == TD_CPU && i < dense->numel; i++)
            to[i] += (from[i] + (from[i] < 0 ? size : 0)) * reach;
    }
    return 0;
}

/* The result's dimensions: index points stand where the indexed dimensions were if those are neighbours, else in front
 * (NumPy's rule for advanced indexing). Position -1 of the loop stands for "in front"; with no index at all the points are
 * 0-dim and add nothing. */
static int resolve(indexed *x, td_tensor *self, int64_t n, td_tensor *const *indices)
{
    memset(x, 0, offsetof(indexed, pick));
    if (collect(x, self, n, indices) || fold_offsets(x, self)) {
        forget(x);
        return -1;
    }
    int first = -1, last = -1, inside = 0;
    for (int d = 0; d < x->n; d++)
        if (x->at[d]) {
            first = first < 0 ? d : first;
            last = d;
            inside++;
        }
    bool together = last - first + 1 == inside;
    td_picking *p = &x->pick;
    memset(p, 0, offsetof(td_picking, sizes));
    p->dtype = (td_dtype)self->dtype, p->reach = x->unit, p->range = p->limit = 0, p->outside = false;
    p->of[0] = self, p->of[2] = x->offsets, p->far_data = self->data, p->far_bytes = td_mul_saturated(self->numel, td_itemsize(self)), p->index = (const int64_t *)x->offsets->data;
    for (int d = together && first >= 0 ? 0 : -1; d < x->n || (d == x->n && first < 0); d++) {
        if (d == (together && first >= 0 ? first : -1)) {
            int64_t step = x->offsets->numel;
            x->front = p->ndim;
            for (int k = 0; k < x->rank; k++) {
                if (p->ndim == TD_MAX_DIMS)
                    goto too_many;
                step /= x->points[k] ? x->points[k] : 1;
                p->sizes[p->ndim] = x->points[k], p->along[p->ndim] = step, p->far[p->ndim++] = 0;
            }
        }
        if (d < 0 || d >= x->n || x->at[d])
            continue;
        if (p->ndim == TD_MAX_DIMS)
            goto too_many;
        p->sizes[p->ndim] = self->sizes[d], p->along[p->ndim] = 0, p->far[p->ndim++] = self->strides[d] * td_itemsize(self);
    }
    return 0;
too_many:
    forget(x);
    return td_error(TD_E_INDEX, "index: the result would have more than %d dimensions", TD_MAX_DIMS);
}

/* The result's dimensions lie as self's do, by the iterator's rules: self stands still along the points, an index beside them.
 * 1: in an order of their own, 0: contiguous, -1: an error. */
static int result_strides(const indexed *x, td_tensor *self, int64_t *strides)
{
    const td_picking *p = &x->pick;
    td_tensor *in[TD_MAX_DIMS + 2];
    int64_t    at[TD_MAX_DIMS], sizes[TD_MAX_DIMS];
    int        n = 0, ordered = -1;
    if (self->flags & TD_FLAG_CONTIGUOUS && td_has_plain_strides(self))
        return 0;
    for (int j = 0; j < p->ndim; j++)
        at[j] = p->far[j] / td_itemsize(self);
    if (!(in[n++] = td_view_strided(self, p->ndim, p->sizes, at, 0)))
        goto done;
    for (int d = 0; d < x->n; d++) {
        const td_tensor *index = x->at[d];
        if (!index)
            continue;
        for (int j = 0; j < p->ndim; j++) {
            const int k = j - x->front, own = k - x->rank + index->ndim;
            sizes[j] = k >= 0 && k < x->rank ? x->points[k] : 1;
            at[j] = k < 0 ? index->numel : k >= x->rank ? 1 : own < 0 || index->sizes[own] != sizes[j] ? 0 : index->strides[own];
        }
        if (!(in[n++] = td_view_strided(x->at[d], p->ndim, sizes, at, 0)))
            goto done;
    }
    ordered = td_strides_in_order(n, in, p->ndim, p->sizes, strides);
done:
    while (n)
        td_tensor_release(in[--n]);
    return ordered;
}

static td_tensor *look_up(const td_lookup *l, td_tensor *self, int64_t n_indices, td_tensor *const *indices)
{
    indexed x;
    int64_t strides[TD_MAX_DIMS];
    if (resolve(&x, self, n_indices, indices))
        return NULL;
    const int ordered = result_strides(&x, self, strides);
    td_tensor *out = ordered < 0 ? NULL : td_lookup_result(l, self, x.pick.ndim, x.pick.sizes, ordered ? strides : NULL);
    if (out && out->numel && out->device.type != TD_META) {
        x.pick.what = TD_PLACE_GET, x.pick.of[1] = out, x.pick.near_data = out->data;
        for (int d = 0; d < out->ndim; d++)
            x.pick.near[d] = out->strides[d] * td_itemsize(out);
        if (td_lookup_run(l, &x.pick)) {
            td_tensor_release(out);
            out = NULL;
        }
    }
    forget(&x);
    return out;
}

td_tensor *td_op_index_tensor(td_tensor *self, int64_t n_indices, td_tensor *const *indices)
{
    td_lookup l;
    if (td_lookup_begin(&l, self, n_indices, indices))
        return NULL;
    td_tensor *out = look_up(&l, self, n_indices, indices);
    td_lookup_end(&l);
    return out;
}

/* Whether x[mask] = value is masked_fill_, which needs no list of coordinates: one value of self's dtype, under one mask
 * that fits self's leading dimensions. */
static bool is_fill(td_tensor *self, int64_t n_indices, td_tensor *const *indices, td_tensor *values)
{
    if (n_indices != 1 || indices[0] == TD_NONE || values->numel != 1 || values->dtype != self->dtype || self->device.type == TD_META ||
        values->device.type == TD_META)
        return false;
    const td_tensor *mask = indices[0];
    bool fits = mask->dtype == TD_BOOL && mask->device.type == self->device.type && mask->ndim > 0 && mask->ndim <= self->ndim;
    for (int d = 0; fits && d < mask->ndim; d++)
        fits = mask->sizes[d] == self->sizes[d];
    return fits;
}

/* x[mask] = value by masked_fill_. A mask over self's leading dimensions is repeated along the rest by strides of 0. The
 * write goes to an alias with a separate version counter, because the dispatcher already counts index_put_ as one change
 * of self. */
static int fill_where(td_tensor *self, td_tensor *mask, td_tensor *value)
{
    int64_t strides[TD_MAX_DIMS];
    for (int d = 0; d < self->ndim; d++)
        strides[d] = d < mask->ndim ? mask->strides[d] : 0;
    TD_AUTO td_tensor *wide = td_view_strided(mask, self->ndim, self->sizes, strides, 0);
    TD_AUTO td_tensor *own = td_apart(value, self);
    TD_AUTO td_tensor *number = own ? td_view_strided(own, 0, NULL, NULL, 0) : NULL;
    TD_AUTO td_tensor *apart = td_alias_detached(self, true);       /* this write is counted once, by index_put_ */
    return wide && number && apart ? td_masked_fill_tensor_(apart, wide, number) : -1;
}

/* One value under one mask is written as a number, whatever its dtype, as masked_fill_ would. */
static bool is_one_mask(int64_t n_indices, td_tensor *const *indices)
{
    int masks = 0;
    for (int64_t i = 0; i < n_indices; i++) {
        if (indices[i] != TD_NONE && indices[i]->dtype != TD_BOOL)
            return false;
        masks += indices[i] != TD_NONE;
    }
    return masks == 1;
}

/* self[indices] = values, or += with accumulate. The order of the checks decides which error a wrong call gets: masks of
 * bytes, the cast of a single value, devices, overlap, indices, shapes, dtypes. `unsafe` would allow to leave the bounds
 * checks out and is ignored: a write outside would corrupt memory. */
int td_op__index_put_impl_(td_tensor *self, int64_t n_indices, td_tensor *const *indices, td_tensor *values, bool accumulate,
                           bool unsafe)
{
    (void)unsafe;
    for (int64_t i = 0; i < n_indices && values->numel == 1 && !accumulate; i++)     /* one value under a mask: masked_fill_ */
        if (indices[i] != TD_NONE && indices[i]->dtype == TD_U8)
            return refuse_mask("masked_fill_", td_cpp_name(indices[i]->dtype));
    if (!accumulate && values->dtype != self->dtype && is_one_mask(n_indices, indices) && values->numel == 1 &&
        values->device.type == TD_CPU) {
        td_scalar number;
        TD_AUTO td_tensor *own = td_tensor_item(values, &number) || td_scalar_check(number, (td_dtype)self->dtype)
                                     ? NULL : td_as_contiguous(values, (td_dtype)self->dtype);
        return own ? td_op__index_put_impl_(self, n_indices, indices, own, false, unsafe) : -1;
    }
    if (check_memory(self, values))
        return -1;
    for (int64_t i = 0; i < n_indices && self->device.type == TD_META; i++)
        if (indices[i] != TD_NONE && indices[i]->device.type == TD_META && indices[i]->dtype == TD_BOOL)
            return 0;           /* how many positions there are nobody knows; nothing is written */
    bool expanded = td_is_expanded(self);
    if (expanded ? td_warn_expanded("index_put_", "tensor[indices] = tensor") : td_check_overlap("index_put_", self, 0, NULL))
        return -1;
    if (!accumulate && !expanded && is_fill(self, n_indices, indices, values))
        return fill_where(self, indices[0], values);
    if (td_check_apart(self, values))
        return -1;
    for (int64_t i = 0; i < n_indices; i++)
        if (indices[i] != TD_NONE && td_check_apart(self, indices[i]))
            return -1;
    indexed x;
    if (resolve(&x, self, n_indices, indices))
        return -1;
    td_picking *p = &x.pick;
    int status = -1, extra = values->ndim - p->ndim;
    bool fits = extra <= 0, empty = false;
    /* One value for a single mask may have any number of dimensions, as in masked_fill_. */
    if (values->numel == 1 && n_indices == 1 && indices[0] != TD_NONE && indices[0]->dtype == TD_BOOL && !accumulate)
        fits = true;
    TD_AUTO td_tensor *near = td_apart(values, self);
    for (int d = 0; d < p->ndim; d++) {
        int from = d + extra;
        int64_t size = from < 0 ? 1 : values->sizes[from];
        fits &= size == 1 || size == p->sizes[d];
        empty |= p->sizes[d] == 0;
        p->near[d] = size == 1 || !near ? 0 : near->strides[from] * td_itemsize(near);
    }
    td_shape_text a, b;
    if (!fits) {
        td_error(TD_E_RUNTIME, "shape mismatch: value tensor of shape %s cannot be broadcast to indexing result of shape %s",
                 td_shape_str(values->ndim, values->sizes, a), td_shape_str(p->ndim, p->sizes, b));
    } else if (values->dtype != self->dtype) {
        td_error(TD_E_RUNTIME, "Index put requires the source and destination dtypes match, got %s for the destination and %s for "
                 "the source.", td_dtype_title((td_dtype)self->dtype), td_dtype_title((td_dtype)values->dtype));
    } else if (near) {
        p->what = accumulate ? TD_PLACE_ADD : TD_PLACE_SET, p->of[1] = near, p->near_data = near->data;
        status = !empty && self->device.type != TD_META ? td_pick_run(p) : 0;
    }
    forget(&x);
    return status;
}
int td_op_index_put_(td_tensor *self, int64_t n_indices, td_tensor *const *indices, td_tensor *values, bool accumulate)
{
    return td_op__index_put_impl_(self, n_indices, indices, values, accumulate, false);
}
td_tensor *td_op_index_put(td_tensor *self, int64_t n_indices, td_tensor *const *indices, td_tensor *values, bool accumulate)
{
    td_tensor *out = td_clone(self);
    if (out && td_op__index_put_impl_(out, n_indices, indices, values, accumulate, false)) {
        td_tensor_release(out);
        return NULL;
    }
    return out;
}

/* ---- masks */

static int check_mask(const char *op, const td_tensor *mask)
{
    return mask->dtype == TD_BOOL
               ? 0 : td_error(TD_E_RUNTIME, "%s: expected BoolTensor for mask, but got %s", op,
                              td_dtype_title((td_dtype)mask->dtype));
}

/* A value of a wider kind that self's dtype can't hold is an error, as it is for a number. */
static int check_fill(const td_tensor *self, const td_tensor *mask, td_tensor *value)
{
    if (mask->dtype != TD_BOOL)
        return refuse_mask("masked_fill_", td_cpp_name(mask->dtype));
    if (value->ndim != 0)
        return td_error(TD_E_RUNTIME, "masked_fill_ only supports a 0-dimensional value tensor, but got tensor with %d dimension(s).",
                        value->ndim);
    td_scalar number;
    if (self->dtype == value->dtype || value->device.type == TD_META || self->device.type == TD_META || !td_is_plain(value))
        return 0;
    return td_tensor_item(value, &number) ? -1 : td_scalar_check(number, (td_dtype)self->dtype);
}
td_tensor *td_op_masked_fill_tensor(td_tensor *self, td_tensor *mask, td_tensor *value)
{
    return check_fill(self, mask, value) ? NULL : td_masked_fill_with(self, mask, value);
}
int td_op_masked_fill_tensor_(td_tensor *self, td_tensor *mask, td_tensor *value)
{
    return check_fill(self, mask, value) ? -1 : td_masked_fill_with_(self, mask, value);
}

/* The `count` elements that a mask lets through.  Each is written at the position of the next, which moves on only if
 * the mask says so: no branch depends on the mask, which no processor could foresee. */
typedef struct { uint64_t half[2]; } bytes16;
#define SELECT(T, name)                                                                    \
    static void select_##name(const void *from, const uint8_t *m, int64_t count, void *to) \
    {                                                                                      \
        for (int64_t i = 0, taken = 0; taken < count; i++) {                               \
            ((T *)to)[taken] = ((const T *)from)[i];                                       \
            taken += m[i] != 0;                                                            \
        }                                                                                  \
    }
SELECT(uint8_t, 1)
SELECT(uint16_t, 2)
SELECT(uint32_t, 4)
SELECT(uint64_t, 8)
SELECT(bytes16, 16)

/* The mask is cut into at most PARTS parts of at least LEAST elements; they are counted first, so that each knows where it
 * writes. `at` holds counts, later the starting positions and the total behind the last. */
enum { PARTS = 64, LEAST = 1 << 15 };
typedef struct selection {
    int64_t        size, n, each, at[PARTS + 1];
    const char    *from;
    const uint8_t *mask;
    char          *to;
} selection;

static void count_parts(void *context, int64_t first, int64_t last)
{
    selection *w = context;
    for (int64_t k = first; k < last; k++)
        w->at[k] = count_range(w->mask + k * w->each, w->n - k * w->each < w->each ? w->n - k * w->each : w->each);
}

static void select_parts(void *context, int64_t first, int64_t last)
{
    const selection *w = context;
    for (int64_t k = first; k < last; k++) {
        const uint8_t *m = w->mask + k * w->each;
        const char *from = w->from + k * w->each * w->size;
        const int64_t count = w->at[k + 1] - w->at[k];
        char *to = w->to + w->at[k] * w->size;
        switch (w->size) {
        case 1: select_1(from, m, count, to); break;
        case 2: select_2(from, m, count, to); break;
        case 4: select_4(from, m, count, to); break;
        case 8: select_8(from, m, count, to); break;
        default: select_16(from, m, count, to); break;
        }
    }
}

/* Elements of one contiguous tensor at positions of another, both flat. */
static int pick_flat(td_place what, td_tensor *far, td_tensor *near, td_tensor *positions)
{
    td_picking p;
    memset(&p, 0, offsetof(td_picking, sizes));
    p.what = what, p.dtype = (td_dtype)far->dtype, p.ndim = 1, p.sizes[0] = positions->numel, p.far[0] = 0, p.near[0] = td_itemsize(far);
    p.along[0] = 1, p.of[0] = far, p.of[1] = near, p.of[2] = positions, p.reach = td_itemsize(far), p.range = p.limit = 0, p.outside = false;
    p.far_data = far->data, p.near_data = near->data, p.index = (const int64_t *)positions->data, p.far_bytes = far->numel * td_itemsize(far);
    return td_pick_run(&p);
}

/* The elements of self where the mask holds, in row-major order of their broadcast shape. Two passes on threads: count each
 * part, turn the counts into starting positions by a prefix sum, then copy. Each part has its own stretch of the result, so
 * the outcome doesn't depend on the number of threads. */
td_tensor *td_op_masked_select(td_tensor *self, td_tensor *mask)
{
    int64_t sizes[TD_MAX_DIMS];
    int ndim = check_mask("masked_select", mask) ? -1
             : td_broadcast_shape("masked_select", 2, (td_tensor *[]){self, mask}, sizes);
    if (ndim < 0)
        return NULL;
    TD_AUTO td_tensor *wide = td_expand(self, ndim, sizes);
    TD_AUTO td_tensor *wide_mask = td_expand(mask, ndim, sizes);
    TD_AUTO td_tensor *x = wide ? td_make_contiguous(wide) : NULL;
    TD_AUTO td_tensor *bools = wide_mask ? td_as_contiguous(wide_mask, TD_BOOL) : NULL;
    if (!x || !bools)
        return NULL;
    if (x->device.type != TD_CPU) {
        TD_AUTO td_tensor *at = td_true_positions_on_device(bools);
        TD_AUTO td_tensor *out = at ? td_tensor_new(1, &at->numel, (td_dtype)self->dtype, self->device) : NULL;
        return out && !pick_flat(TD_PLACE_GET, x, out, at) ? td_tensor_retain(out) : NULL;
    }
    selection w = {.size = td_itemsize(x), .n = x->numel, .from = x->data, .mask = (const uint8_t *)bools->data};
    w.each = w.n / PARTS + 1 > LEAST ? w.n / PARTS + 1 : LEAST;
    const int64_t parts = (w.n + w.each - 1) / w.each;
    td_parallel_for(0, parts, 1, count_parts, &w);
    int64_t count = 0;
    for (int64_t k = 0; k < parts; k++) {
        const int64_t here = w.at[k];
        w.at[k] = count;
        count += here;
    }
    w.at[parts] = count;
    td_tensor *out = td_tensor_new(1, &count, (td_dtype)self->dtype, self->device);
    if (!out)
        return NULL;
    w.to = out->data;
    td_parallel_for(0, parts, 1, select_parts, &w);
    return out;
}

int td_op_masked_select_out(td_tensor *self, td_tensor *mask, td_tensor *out)
{
    return td_index_out(out, self, mask, "masked_select(): self and result must have the same scalar type") ? -1
         : td_finish_out("masked_select", out, td_op_masked_select(self, mask));
}

/* Every element is written, those whose mask is false with themselves: a mispredicted branch costs more than a store. The
 * operand's address is chosen, not its value, so the source is never read behind its end; once it is used up, the rest of
 * the mask is false (the number was checked) and the loop ends. */
typedef struct { uint64_t half[2]; } number16;
#define SCATTER(T)                                              \
    do {                                                        \
        const T *next = (const T *)from->data;                  \
        const T *end = next + from->numel;                      \
        T *out = (T *)x->data;                                  \
        for (int64_t i = 0; i < x->numel && next < end; i++) {  \
            const T *choice[2] = {out + i, next};               \
            out[i] = *choice[m[i] != 0];                        \
            next += m[i] != 0;                                  \
        }                                                       \
    } while (0)

int td_op_masked_scatter_(td_tensor *self, td_tensor *mask, td_tensor *source)
{
    if (source->dtype != self->dtype)
        return td_error(TD_E_RUNTIME, "masked_scatter: expected self and source to have same dtypes but got %s and %s",
                        td_dtype_title((td_dtype)self->dtype), td_dtype_title((td_dtype)source->dtype));
    if (mask->dtype != TD_BOOL)
        return refuse_mask("masked_scatter_", td_dtype_title((td_dtype)mask->dtype));
    if (td_check_overlap("masked_scatter_", self, 0, NULL))
        return -1;
    if (self->device.type == TD_META)
        return 0;
    TD_AUTO td_tensor *wide_mask = td_expand(mask, self->ndim, self->sizes);
    TD_AUTO td_tensor *bools = wide_mask ? td_as_contiguous(wide_mask, TD_BOOL) : NULL;
    TD_AUTO td_tensor *own = td_apart(source, self);
    TD_AUTO td_tensor *from = own ? td_make_contiguous(own) : NULL;
    if (!bools || !from)
        return -1;
    TD_AUTO td_tensor *at = bools->device.type == TD_CPU ? td_tensor_retain(TD_NONE) : td_true_positions_on_device(bools);
    if (!at)
        return -1;
    if ((at == TD_NONE ? count_true(bools) : at->numel) > from->numel)
        return td_error(TD_E_RUNTIME, "masked_scatter: expected self to have no more true positions in the mask than elements in "
                        "source: Number of elements of source < number of ones in mask");
    TD_AUTO td_tensor *x = td_writable(self, (td_dtype)self->dtype);
    if (!x)
        return -1;
    if (at != TD_NONE) {
        if (pick_flat(TD_PLACE_SET, x, from, at))
            return -1;
    } else if (from->numel) {
        const uint8_t *m = (const uint8_t *)bools->data;
        switch (td_itemsize(x)) {
        case 1: SCATTER(uint8_t); break;
        case 2: SCATTER(uint16_t); break;
        case 4: SCATTER(uint32_t); break;
        case 8: SCATTER(uint64_t); break;
        default: SCATTER(number16); break;
        }
    }
    return td_write_back(self, x);
}
td_tensor *td_op_masked_scatter(td_tensor *self, td_tensor *mask, td_tensor *source)
{
    int64_t sizes[TD_MAX_DIMS];
    int ndim = td_broadcast_shape("masked_scatter", 2, (td_tensor *[]){self, mask}, sizes);
    TD_AUTO td_tensor *wide = ndim < 0 ? NULL : td_expand(self, ndim, sizes);
    td_tensor *out = wide ? td_clone_format(wide, TD_CONTIGUOUS_FORMAT) : NULL;
    if (out && td_op_masked_scatter_(out, mask, source)) {
        td_tensor_release(out);
        return NULL;
    }
    return out;
}

/* result[k] = self[k-th true position], so grad goes back to the true positions and zero elsewhere; a broadcast self gets
 * the sum over what it was expanded to. */
td_tensor *td_op_masked_select_backward(td_tensor *grad, int64_t n_shape, const int64_t *shape, td_tensor *mask)
{
    TD_AUTO td_tensor *zeros = td_new_zeros(grad, n_shape, shape, TD_DTYPE_NONE, TD_DEVICE_NONE);
    TD_AUTO td_tensor *whole = td_masked_scatter(zeros, mask, grad);
    return td_sum_to_size(whole, n_shape, shape);
}

/* The k-th true position takes source[k], so source's gradient is the gradient at the true positions, in order; the part of
 * a source that wasn't taken gets zeros. */
td_tensor *td_op_masked_scatter_backward(td_tensor *grad, td_tensor *mask, int64_t n_shape, const int64_t *shape)
{
    int64_t numel = 1;
    for (int64_t d = 0; d < n_shape; d++)
        numel *= shape[d];
    TD_AUTO td_tensor *taken = td_masked_select(grad, mask);
    if (!taken)
        return NULL;
    int64_t rest = numel - taken->numel;
    TD_AUTO td_tensor *zeros = td_new_zeros(grad, 1, &rest, TD_DTYPE_NONE, TD_DEVICE_NONE);
    TD_AUTO td_tensor *flat = zeros ? td_cat(2, (td_tensor *[]){taken, zeros}, 0) : NULL;
    return td_reshape(flat, n_shape, shape);
}

/* ---- gradients */

/* For index_add and index_copy: d source[i] = grad[index[i]]. The reshape restores a 0-dim source, which index_select
 * returns as a vector of one. */
td_tensor *td_op_index_source_backward(td_tensor *grad, int64_t dim, td_tensor *index, int64_t n_shape, const int64_t *shape)
{
    TD_AUTO td_tensor *picked = td_index_select(grad, dim, index);
    return td_reshape(picked, n_shape, shape);
}

/* scatter_reduce and index_reduce have the same gradients but for how an index is applied: `place` puts values where it
 * says, `fetch` reads them there. indexed: a vector along dim (index_reduce); otherwise an index of src's rank
 * (scatter_reduce). */
typedef struct placing { bool indexed; int64_t dim; td_tensor *index; } placing;

static td_tensor *fetch(const placing *w, td_tensor *x)
{
    return w->indexed ? td_index_select(x, w->dim, w->index) : td_gather(x, w->dim, w->index, false);
}
static td_tensor *place_sum(const placing *w, td_tensor *zeros, td_tensor *values)
{
    return w->indexed ? td_index_add(zeros, w->dim, w->index, values, td_int(1))
                      : td_scatter_add(zeros, w->dim, w->index, values);
}
static td_tensor *place_zero(const placing *w, td_tensor *x)
{
    return w->indexed ? td_index_fill_int_scalar(x, w->dim, w->index, td_int(0))
                      : td_scatter_value(x, w->dim, w->index, td_int(0));
}

static td_tensor *without_zeros(td_tensor *x)
{
    TD_AUTO td_tensor *zero = td_eq_number(x, 0);
    return td_masked_fill_scalar(x, zero, td_int(1));
}

/* The gradient of scatter_reduce_once and index_reduce_once: grad itself, unless a position received more than one zero. There
 * the gradients are zero, but not their derivatives: the product of the others, in another zero. PyTorch refuses a second
 * derivative then, too. */
td_tensor *td_op_product_of_zeros(td_tensor *grad, td_tensor *zeros, const char *name, const char *values)
{
    td_scalar value = td_int(0);
    if (zeros->numel) {
        TD_AUTO td_tensor *counts = td_dtype_is_complex((td_dtype)zeros->dtype) ? td_real(zeros) : td_tensor_retain(zeros);
        TD_AUTO td_tensor *most = td_max_all(counts);
        if (!most || td_item(&value, most) != 0)
            return NULL;
    }
    if (td_scalar_double(value) > 1)
        return td_fail(TD_E_RUNTIME, "%s(): Double backward is unsupported for %s when >1 zeros in %s are scattered to the same position in self",
                       name, values, values);
    return td_tensor_retain(grad);
}

/* The product of everything that went to a position but one element: the result by the element.  A zero is counted as one
 * in its own gradient; a second zero in src makes the result, and so the gradients, zero. */
static int product_gradients(const placing *w, td_tensor *grad, td_tensor *self, td_tensor *src, td_tensor *result,
                             bool include_self, td_tensor **results)
{
#define PRODUCT(start, values) (!(start) || !(values) ? NULL : w->indexed                                                   \
    ? td_index_reduce(start, w->dim, w->index, values, "prod", include_self)                                                \
    : td_scatter_reduce_two(start, w->dim, w->index, values, "prod", include_self))
    TD_AUTO td_tensor *self_ones = without_zeros(self);
    TD_AUTO td_tensor *self_others = PRODUCT(self_ones, src);
    TD_AUTO td_tensor *self_part = td_div(self_others, self_ones);
    results[0] = td_mul(grad, self_part);
    TD_AUTO td_tensor *is_zero = td_eq_number(src, 0);
    TD_AUTO td_tensor *zero = is_zero ? td_to(is_zero, (td_dtype)grad->dtype) : NULL;
    TD_AUTO td_tensor *none = td_zeros_like(self);
    TD_AUTO td_tensor *counts = none && zero ? place_sum(w, none, zero) : NULL;
    TD_AUTO td_tensor *count = counts ? fetch(w, counts) : NULL;
    TD_AUTO td_tensor *one = count ? td_eq_number(count, 1) : NULL;
    TD_AUTO td_tensor *single = td_logical_and(is_zero, one);
    TD_AUTO td_tensor *src_clear = td_masked_fill_scalar(src, single, td_int(1));
    TD_AUTO td_tensor *clear_result = PRODUCT(self, src_clear);
    TD_AUTO td_tensor *clear_scaled = td_mul(grad, clear_result);
    TD_AUTO td_tensor *scaled = td_mul(grad, result);
    TD_AUTO td_tensor *src_ones = without_zeros(src);
    TD_AUTO td_tensor *of_single = clear_scaled ? fetch(w, clear_scaled) : NULL;
    TD_AUTO td_tensor *of_all = scaled ? fetch(w, scaled) : NULL;
    TD_AUTO td_tensor *by_element = td_div(of_all, src_ones);
    TD_AUTO td_tensor *of_src = td_where(single, of_single, by_element);
    results[1] = w->indexed ? td_index_reduce_once(of_src, count) : td_scatter_reduce_once(of_src, count);
    return results[0] && results[1] ? 0 : -1;
#undef PRODUCT
}

/* sum: each element of src gets the gradient of its position. mean: the same divided by how many went there. prod: see
 * product_gradients. amax, amin: the gradient is shared equally among all that equal the result, self included if it took
 * part, as PyTorch does it for ties. Counts are at least 1 so that untouched positions don't divide by zero. Without
 * include_self the positions that were written don't depend on self, so its gradient is cleared there. */
static int reduce_gradients(const placing *w, td_tensor *grad, td_tensor *self, td_tensor *src, const char *reduce,
                            bool include_self, td_tensor *result, td_tensor **results)
{
    results[0] = results[1] = NULL;
    int status = 0;
    if (!strcmp(reduce, "sum")) {
        results[0] = td_tensor_retain(grad);
        results[1] = fetch(w, grad);
    } else if (!strcmp(reduce, "mean")) {
        TD_AUTO td_tensor *ones = include_self ? td_ones_like(self) : td_zeros_like(self);
        TD_AUTO td_tensor *each = td_ones_like(src);
        TD_AUTO td_tensor *counts = ones && each ? place_sum(w, ones, each) : NULL;
        TD_AUTO td_tensor *one = td_wrapped_number(td_float(1));
        TD_AUTO td_tensor *below = td_maximum(counts, one);
        results[0] = td_div(grad, below);
        TD_AUTO td_tensor *there = fetch(w, grad);
        TD_AUTO td_tensor *count = fetch(w, below);
        results[1] = td_div(there, count);
    } else if (!strcmp(reduce, "prod")) {
        status = product_gradients(w, grad, self, src, result, include_self, results);
    } else {
        TD_AUTO td_tensor *there = fetch(w, result);
        TD_AUTO td_tensor *self_same = td_eq(self, result);
        TD_AUTO td_tensor *src_same = td_eq(src, there);
        TD_AUTO td_tensor *self_is = self_same ? td_to(self_same, (td_dtype)grad->dtype) : NULL;
        TD_AUTO td_tensor *src_is = src_same ? td_to(src_same, (td_dtype)grad->dtype) : NULL;
        TD_AUTO td_tensor *start = include_self ? td_tensor_retain(self_is) : td_zeros_like(self);
        TD_AUTO td_tensor *counts = start && src_is ? place_sum(w, start, src_is) : NULL;
        TD_AUTO td_tensor *one = td_wrapped_number(td_float(1));
        TD_AUTO td_tensor *below = td_maximum(counts, one);
        TD_AUTO td_tensor *share = td_div(grad, below);
        results[0] = td_mul(share, self_is);
        TD_AUTO td_tensor *fetched = fetch(w, share);
        results[1] = td_mul(fetched, src_is);
    }
    if (status == 0 && results[0] && results[1] && !include_self) {
        td_tensor *cleared = place_zero(w, results[0]);
        td_tensor_release(results[0]);
        results[0] = cleared;
    }
    return status == 0 && results[0] && results[1] ? 0 : td_results_drop(2, results);
}

int td_op_scatter_reduce_backward(td_tensor **results, td_tensor *grad, td_tensor *self, int64_t dim, td_tensor *index,
                                  td_tensor *src, const char *reduce, bool include_self, td_tensor *result)
{
    placing w = {false, dim, index};
    bool smaller = index->ndim != src->ndim || memcmp(index->sizes, src->sizes, sizeof(int64_t) * src->ndim);
    if (!smaller || src->ndim == 0)
        return reduce_gradients(&w, grad, self, src, reduce, include_self, result, results);
    /* Only a corner of src was used. */
    td_tensor *part = td_tensor_retain(src);
    for (int d = 0; d < src->ndim && part; d++) {
        td_tensor *next = td_narrow(part, d, 0, index->sizes[d]);
        td_tensor_release(part);
        part = next;
    }
    int status = part ? reduce_gradients(&w, grad, self, part, reduce, include_self, result, results) : -1;
    td_tensor_release(part);
    for (int d = 0; d < src->ndim && status == 0; d++) {
        int64_t sizes[TD_MAX_DIMS];
        memcpy(sizes, results[1]->sizes, sizeof(int64_t) * results[1]->ndim);
        if (sizes[d] == src->sizes[d])
            continue;
        sizes[d] = src->sizes[d] - sizes[d];
        TD_AUTO td_tensor *zeros = td_new_zeros(grad, src->ndim, sizes, TD_DTYPE_NONE, TD_DEVICE_NONE);
        td_tensor *whole = zeros ? td_cat(2, (td_tensor *[]){results[1], zeros}, d) : NULL;
        td_tensor_release(results[1]);
        results[1] = whole;
        status = whole ? 0 : td_results_drop(2, results);
    }
    return status;
}
int td_op_index_reduce_backward(td_tensor **results, td_tensor *grad, td_tensor *self, int64_t dim, td_tensor *index,
                                td_tensor *source, const char *reduce, bool include_self, td_tensor *result)
{
    placing w = {true, dim, index};
    return reduce_gradients(&w, grad, self, source, reduce, include_self, result, results);
}
