/* Views, and the arithmetic of sizes and strides.
 *
 * See Note [Views] in tensor.h for what a view remembers. */
#include <tede/foreign.h>
#include <tede/layout.h>
#include "tensor/head.h"
#include "tensor/late.h"
#include "tensor/masks.h"
#include "tensor/position.h"
#include <inttypes.h>
#include <stdio.h>

/* ---- geometry */

bool td_bounds(int ndim, const int64_t *sizes, const int64_t *strides, int64_t *low, int64_t *high)
{
    int64_t reach;
    *low = *high = 0;
    for (int d = 0; d < ndim; d++) {
        if (sizes[d] == 0) {
            *low = *high = 0;
            return true;
        }
    }
    for (int d = 0; d < ndim; d++) {
        int64_t *end = strides[d] < 0 ? low : high;
        if (__builtin_mul_overflow(sizes[d] - 1, strides[d], &reach) || __builtin_add_overflow(*end, reach, end))
            return false;
    }
    int64_t span;
    return !__builtin_sub_overflow(*high, *low, &span) && span < INT64_MAX;
}

/* Both shapes are traversed from the inside out.  A chunk is a maximal run of self's dimensions that lie in memory like
 * one dimension; the new dimensions must split each chunk exactly. */
bool td_view_strides(const td_tensor *self, int ndim, const int64_t *sizes, int64_t *strides)
{
    const int64_t *old_sizes = self->sizes, *old_strides = self->strides;
    if (self->numel == 0) {
        bool same = ndim == self->ndim && memcmp(sizes, old_sizes, (size_t)ndim * sizeof *sizes) == 0;
        if (same)
            memcpy(strides, old_strides, (size_t)ndim * sizeof *strides);
        else
            td_contiguous_strides(ndim, sizes, strides);
        return true;
    }
    int to = ndim - 1, from = self->ndim - 1;
    if (from < 0)
        for (; to >= 0; to--)
            strides[to] = 1;
    while (from >= 0) {
        int64_t step = old_strides[from], count = old_sizes[from--];
        while (from >= 0 && (old_sizes[from] == 1 || old_strides[from] == count * step))
            count *= old_sizes[from--];
        int64_t split = 1;
        for (; to >= 0 && (split < count || sizes[to] == 1); to--) {
            strides[to] = split * step;
            split *= sizes[to];
        }
        if (split != count)
            return false;
    }
    return to < 0;
}

int td_check_in_storage(const td_storage *s, int64_t offset, int ndim, const int64_t *sizes, const int64_t *strides,
                        td_dtype dtype)
{
    int64_t low, high, end = 0, itemsize = td_itemsizes[dtype];
    const int64_t numel = td_numel_checked(ndim, sizes);
    if (numel < 0)
        return -1;
    if (offset < 0)
        return td_error(TD_E_RUNTIME, "Tensor: invalid storage offset %" PRId64, offset);
    if (numel == 0)     /* reaches nothing, but has an address */
        return __builtin_mul_overflow(offset, itemsize, &end) ? (td_fail_overflow(ndim, sizes, strides), -1) : 0;
    bool fits = td_bounds(ndim, sizes, strides, &low, &high) && !__builtin_add_overflow(high, offset, &end) &&
                !__builtin_add_overflow(end, 1, &end) && !__builtin_mul_overflow(end, itemsize, &end);
    if (fits && offset + low >= 0 && end <= (int64_t)s->nbytes)
        return 0;
    td_shape_text text, more;
    td_shape_str(ndim, sizes, text);
    td_shape_str(ndim, strides, more);
    if (fits && offset + low < 0)
        return td_error(TD_E_RUNTIME, "setStorage: sizes %s, strides %s, storage offset %" PRId64
                        " reach %" PRId64 " elements below the storage", text, more, offset, -(offset + low));
    if (!fits)
        return td_error(TD_E_RUNTIME, "Storage size calculation overflowed with sizes=%s and strides=%s", text, more);
    return td_error(TD_E_RUNTIME, "setStorage: sizes %s, strides %s, storage offset %" PRId64 ", and itemsize %" PRId64
                    " requiring a storage size of %" PRId64 " are out of bounds for storage of size %zu",
                    text, more, offset, itemsize, end, s->nbytes);
}

const char *td_symbol_str(int64_t size, td_symbol_text buffer)
{
    const int64_t factor = td_symbol_factor(size), id = td_symbol_id(size);
    if (factor == 1)
        snprintf(buffer, sizeof(td_symbol_text), "j%" PRId64, id);
    else
        snprintf(buffer, sizeof(td_symbol_text), "%" PRId64 "*j%" PRId64, factor, id);
    return buffer;
}

const char *td_shape_str(int ndim, const int64_t *sizes, td_shape_text buffer)
{
    enum { ROOM = sizeof(td_shape_text) - 8 };      /* for ", ...]" */
    int at = 0;
    buffer[at++] = '[';
    for (int d = 0; d < ndim; d++) {
        char number[32];
        int length = !td_size_is_symbol(sizes[d]) ? snprintf(number, sizeof number, "%s%" PRId64, d ? ", " : "", sizes[d])
                                                  : snprintf(number, sizeof number, "%s%s", d ? ", " : "", td_symbol_str(sizes[d], (td_symbol_text){0}));
        if (at + length > ROOM) {
            at += snprintf(buffer + at, 8, ", ...");
            break;
        }
        memcpy(buffer + at, number, (size_t)length);
        at += length;
    }
    buffer[at++] = ']';
    buffer[at] = 0;
    return buffer;
}

int td_wrap_dim(int64_t dim, int ndim)
{
    int range = ndim > 0 ? ndim : 1;     /* a 0-dim tensor takes 0 and -1, too */
    if (TD_UNLIKELY(dim < -range || dim >= range))
        return td_error(TD_E_INDEX, "Dimension out of range (expected to be in range of [%d, %d], but got %" PRId64 ")",
                        -range, range - 1, dim);
    return (int)(dim < 0 ? dim + range : dim);
}

int td_tensor_set_geometry(td_tensor *x, int ndim, const int64_t *sizes, const int64_t *strides)
{
    if (td_check_sizes(ndim, sizes) != 0)
        return -1;
    int64_t *shape = x->inline_shape, *old = x->sizes, kept[2 * TD_MAX_DIMS];
    size_t bytes = (size_t)ndim * sizeof *sizes, old_bytes = 2 * (size_t)x->ndim * sizeof *sizes;
    if (ndim > TD_INLINE_DIMS && !(shape = td_mem_alloc(2 * bytes)))
        return -1;
    /* sizes and strides may be x's own */
    memcpy(kept, sizes, bytes);
    memcpy(kept + ndim, strides, bytes);
    x->sizes = shape;
    x->strides = shape + (ndim > TD_INLINE_DIMS ? ndim : TD_INLINE_DIMS);
    memcpy(x->sizes, kept, bytes);
    memcpy(x->strides, kept + ndim, bytes);
    if (old != x->inline_shape)
        td_mem_free(old, old_bytes);
    x->ndim = (uint8_t)ndim;
    td_tensor_update_flags(x);
    return 0;
}

/* ---- views */

/* The flags of x whose dimensions are self's in another order: how many elements, and whether they overlap, is known. */
static inline void flags_of_permuted(td_tensor *x, const td_tensor *self)
{
    int64_t step = 1;
    bool contiguous = true;
    for (int d = x->ndim - 1; d >= 0; d--) {
        contiguous &= x->sizes[d] == 1 || x->strides[d] == step;
        step *= x->sizes[d];
    }
    x->numel = self->numel;
    x->flags |= (uint16_t)((self->flags & TD_FLAG_NON_OVERLAPPING) | (contiguous || !x->numel ? TD_FLAG_CONTIGUOUS : 0));
}

/* A head that shares self's storage and version counter, nothing else. */
static inline __attribute__((always_inline)) td_tensor *alias(td_tensor *self, td_dtype dtype, int ndim, const int64_t *sizes,
                                                              const int64_t *strides, char *data, bool permuted)
{
    td_keyset keys = self->keys & ~(TD_KEYSET(TD_KEY_PYTHON) | TD_KEYSET(TD_KEY_AUTOGRAD) | TD_KEYSET(TD_KEY_FORWARD_AD));
    if (self->flags & TD_FLAG_INFERENCE)
        keys |= TD_KEYSET(TD_KEY_AUTOGRAD);
    td_tensor *x = td_head_new(ndim, dtype, self->device, keys, self->flags & TD_FLAGS_OF_ALIASES);
    if (TD_UNLIKELY(!x))
        return NULL;
    for (int d = 0; d < ndim; d++) {
        x->sizes[d] = sizes[d];
        x->strides[d] = strides[d];
    }
    x->data = data;
    x->storage = td_storage_retain(self->storage);
    if (TD_UNLIKELY(self->own_version != NULL)) {
        __atomic_fetch_add(&self->own_version[1], 1, __ATOMIC_RELAXED);
        x->own_version = self->own_version;
    }
    if (permuted)
        flags_of_permuted(x, self);
    else
        td_tensor_update_flags(x);
    return td_late_joined(x);
}

/* The bytes [*begin, *end) that a geometry reaches, counted from `at`; false if one of them doesn't fit. */
static inline bool reach(int ndim, const int64_t *sizes, const int64_t *strides, int64_t itemsize, int64_t at, int64_t *begin, int64_t *end)
{
    int64_t low = 0, high = 1, step;
    bool fits = true;
    for (int d = 0; d < ndim; d++) {
        int64_t *side = strides[d] < 0 ? &low : &high;
        fits &= !__builtin_mul_overflow(sizes[d] - 1, strides[d], &step) && !__builtin_add_overflow(*side, step, side);
    }
    return fits && !__builtin_mul_overflow(low, itemsize, begin) && !__builtin_add_overflow(*begin, at, begin) &&
           !__builtin_mul_overflow(high, itemsize, end) && !__builtin_add_overflow(*end, at, end);
}

/* A view that leaves the storage is an error, except what self reaches, too: a storage may shrink under its tensors, whose old
 * bytes stay (see Note [Resizing a shared storage]), and a wrapper without elements (see td_tensor_hollow) has none. */
static int __attribute__((noinline)) check_within_self(const td_tensor *self, td_dtype dtype, int ndim, const int64_t *sizes,
                                                       const int64_t *strides, int64_t byte_offset)
{
    const int64_t itemsize = td_itemsizes[dtype], place = td_storage_position(self->storage, self->data);
    int64_t begin, end, own_begin, own_end, first;
    for (int d = 0; d < ndim; d++)
        if (!sizes[d])      /* nothing is reached; what is left is that the first element has an address */
            return __builtin_add_overflow(place, byte_offset, &first) ? (td_fail_overflow(ndim, sizes, strides), -1) : 0;
    if (!reach(ndim, sizes, strides, itemsize, byte_offset, &begin, &end) || __builtin_add_overflow(place, byte_offset, &first))
        return td_fail_overflow(ndim, sizes, strides), -1;
    if (self->numel && reach(self->ndim, self->sizes, self->strides, td_itemsize(self), 0, &own_begin, &own_end) && begin >= own_begin &&
        end <= own_end)
        return 0;
    return td_check_in_storage(self->storage, first / itemsize, ndim, sizes, strides, dtype);
}

static inline int check_reach(const td_tensor *self, td_dtype dtype, int ndim, const int64_t *sizes, const int64_t *strides, int64_t byte_offset)
{
    int64_t begin, end, at = (intptr_t)self->data - (intptr_t)self->storage->data;
    bool inside = !__builtin_add_overflow(at, byte_offset, &at) && reach(ndim, sizes, strides, td_itemsizes[dtype], at, &begin, &end) &&
                  begin >= 0 && end <= (int64_t)self->storage->nbytes;
    return TD_LIKELY(inside) ? 0 : check_within_self(self, dtype, ndim, sizes, strides, byte_offset);
}

static inline __attribute__((always_inline)) td_tensor *view_of_elements(td_tensor *self, td_dtype dtype, int ndim, const int64_t *sizes,
                                                                         const int64_t *strides, int64_t byte_offset, bool permuted)
{
    if (TD_UNLIKELY(!self->storage))
        return td_fail(TD_E_RUNTIME, "views need a strided tensor: this one's layout has no storage");
    if (!permuted && check_reach(self, dtype, ndim, sizes, strides, byte_offset) != 0)
        return NULL;
    td_tensor *x = alias(self, dtype, ndim, sizes, strides, (char *)((intptr_t)self->data + byte_offset), permuted);
    if (TD_UNLIKELY(!x) || self->flags & TD_FLAG_INFERENCE)
        return x;
    x->flags |= self->flags & TD_FLAGS_OF_VIEWS;
    x->flags |= (uint16_t)td_creation_flags();
    const td_keyset of_dtype = TD_KEYSET(TD_KEY_DTYPE) | TD_KEYSET(TD_KEY_UNALIGNED);
    x->keys = (self->keys & ~(TD_KEYSET(TD_KEY_PYTHON) | of_dtype)) | (x->keys & of_dtype) | TD_KEYSET(TD_KEY_AUTOGRAD);
    x->base = self->base ? self->base : self;
    td_raise_count(&x->base->refcount);
    x->attr_version = __atomic_load_n(td_version_of(x), __ATOMIC_RELAXED);
    if (self->replay) {
        __atomic_fetch_add(&self->replay->refcount, 1, __ATOMIC_RELAXED);
        x->replay = self->replay;
    }
    return x;
}

static inline __attribute__((always_inline)) td_tensor *view(td_tensor *self, td_dtype dtype, int ndim, const int64_t *sizes,
                                                             const int64_t *strides, int64_t byte_offset, bool permuted)
{
    if (!self || (!permuted && td_check_sizes(ndim, sizes) != 0))
        return NULL;
    if (TD_UNLIKELY(self->extra != NULL) && TD_EXTRA_TABLE(self)->view)
        return TD_EXTRA_TABLE(self)->view(self, dtype, ndim, sizes, strides, byte_offset);
    return view_of_elements(self, dtype, ndim, sizes, strides, byte_offset, permuted);
}

td_tensor *td_plain_view(td_tensor *self, td_dtype dtype, int ndim, const int64_t *sizes, const int64_t *strides, int64_t byte_offset)
{
    return view_of_elements(self, dtype, ndim, sizes, strides, byte_offset, false);
}

td_tensor *td_view_as_dtype(td_tensor *self, td_dtype dtype, int ndim, const int64_t *sizes, const int64_t *strides,
                            int64_t byte_offset)
{
    return view(self, dtype, ndim, sizes, strides, byte_offset, false);
}

td_tensor *td_view_strided(td_tensor *self, int ndim, const int64_t *sizes, const int64_t *strides, int64_t offset)
{
    int64_t bytes;
    if (TD_UNLIKELY(self && __builtin_mul_overflow(offset, td_itemsize(self), &bytes)))
        return td_fail(TD_E_RUNTIME, "Storage size calculation overflowed with an offset of %" PRId64 " elements", offset);
    return self ? view(self, self->dtype, ndim, sizes, strides, bytes, false) : NULL;
}

td_tensor *td_view_permuted(td_tensor *self, const int64_t *sizes, const int64_t *strides)
{
    return view(self, self->dtype, self->ndim, sizes, strides, 0, true);
}

/* What view() does, with all known from the start: same dtype, a contiguous whole, nothing that views take over. */
td_tensor *td_tensor_at(td_tensor *x, int n, const int64_t *index)
{
    const bool plain = ((x->keys | td_masks_now.include) & ~td_masks_now.exclude) < TD_KEYSET(TD_KEY_AROUND);
    if (n > x->ndim || !(x->flags & TD_FLAG_CONTIGUOUS) || !x->storage || x->flags & TD_FLAG_INFERENCE ||
        (intptr_t)x->extra | (intptr_t)x->own_version | (intptr_t)x->replay || !plain)
        return NULL;
    const int64_t *sizes = x->sizes, *strides = x->strides;
    int64_t offset = 0, numel = 1;
    for (int d = 0; d < n; d++) {
        int64_t i = index[d] < 0 ? index[d] + sizes[d] : index[d];
        if (i < 0 || i >= sizes[d])
            return NULL;
        offset += i * strides[d];
    }
    const int ndim = x->ndim - n;
    unsigned flags = (x->flags & TD_FLAGS_OF_VIEWS) | TD_FLAG_CONTIGUOUS | TD_FLAG_NON_OVERLAPPING | td_creation_flags();
    td_tensor *y = td_head_new(ndim, x->dtype, x->device, (x->keys & ~TD_KEYSET(TD_KEY_PYTHON)) | TD_KEYSET(TD_KEY_AUTOGRAD), flags);
    if (TD_UNLIKELY(!y))
        return NULL;
    for (int d = 0; d < ndim; d++) {
        numel *= y->sizes[d] = sizes[n + d];
        y->strides[d] = strides[n + d];
    }
    y->numel = numel;
    y->data = (char *)((intptr_t)x->data + offset * td_itemsize(x));
    y->storage = x->storage;
    td_raise_count(&y->storage->refcount);
    y->base = x->base ? x->base : x;
    td_raise_count(&y->base->refcount);
    y->attr_version = __atomic_load_n(td_version_of(x), __ATOMIC_RELAXED);
    return td_late_joined(y);
}

td_tensor *td_alias_as(td_tensor *self, td_dtype dtype, int ndim, const int64_t *sizes, const int64_t *strides)
{
    if (!self || td_check_sizes(ndim, sizes) != 0)
        return NULL;
    if (!self->storage || (self->extra && TD_EXTRA_TABLE(self)->view))      /* what it has of views is all that it has */
        return td_view_as_dtype(self, dtype, ndim, sizes, strides, 0);
    if (check_reach(self, dtype, ndim, sizes, strides, 0) != 0)
        return NULL;
    return alias(self, dtype, ndim, sizes, strides, self->data, false);
}

td_tensor *td_alias_detached(td_tensor *self, bool own_version)
{
    if (!self)
        return NULL;
    if (self->extra && TD_EXTRA_TABLE(self)->alias)
        return TD_EXTRA_TABLE(self)->alias(self, own_version);
    return td_plain_alias(self, self->dtype, own_version);
}

td_tensor *td_plain_alias_as(td_tensor *self, td_dtype dtype, int ndim, const int64_t *sizes, const int64_t *strides)
{
    return alias(self, dtype, ndim, sizes, strides, self->data, false);
}

td_tensor *td_plain_alias(td_tensor *self, td_dtype dtype, bool own_version)
{
    if (!self->storage)
        return td_fail(TD_E_RUNTIME, "detach: a tensor without a storage can't be aliased here");
    uint32_t *version = NULL;
    if (own_version && !(version = td_version_new(0)))
        return NULL;
    td_tensor *x = alias(self, dtype, self->ndim, self->sizes, self->strides, self->data, true);
    if (!x) {
        if (version)
            td_version_release(version);
        return NULL;
    }
    if (own_version) {
        if (x->own_version)
            __atomic_fetch_sub(&x->own_version[1], 1, __ATOMIC_RELAXED);    /* self still holds it */
        x->own_version = version;
    }
    return x;
}
