/* Padding with a constant (constant_pad_nd), one-hot vectors, shuffles of channels and pixels (pixel_shuffle, channel_shuffle), glu.
 *
 * Paddings come in pairs (before, behind), the last dimension first, as torch.nn.functional.pad takes them. */
#include "calls_ops_shape_pad.h"
#include "ops/index/kernels.h"
#include "tensor/device.h"
#include <inttypes.h>
#include <string.h>
#include "ops/compose.h"
#include "tensor/checked.h"

/* What negative padding leaves of self is copied into the middle of a result full of `value`.  A dimension cut off altogether has no
 * elements to copy, wherever it would begin. */
static td_tensor *padded(td_tensor *self, int64_t n_pad, const int64_t *pad, int sign, td_scalar value)
{
    if (n_pad % 2)
        return td_fail(TD_E_RUNTIME, "Length of pad must be even but instead it equals %" PRId64, n_pad);
    if (n_pad / 2 > self->ndim)
        return td_fail(TD_E_RUNTIME, "Length of pad should be no more than twice the number of dimensions of the input. Pad length is %" PRId64
                       " while the input has %d dimensions.", n_pad, self->ndim);
    int64_t sizes[TD_MAX_DIMS];
    bool grows = false;
    TD_AUTO td_tensor *from = td_ref(self);
    for (int d = 0; d < self->ndim; d++) {
        int64_t at = 2 * (self->ndim - 1 - d);
        int64_t before = at < n_pad ? sign * pad[at] : 0, behind = at < n_pad ? sign * pad[at + 1] : 0;
        if (__builtin_add_overflow(self->sizes[d], before, &sizes[d]) || __builtin_add_overflow(sizes[d], behind,
            &sizes[d]))
            return td_fail(TD_E_RUNTIME, "constant_pad_nd: the size of dimension %d overflows", d);
        int64_t cut_off = 0;
        for (int k = 0; k < 2; k++)
            if ((k ? behind : before) < 0 && __builtin_sub_overflow(cut_off, k ? behind : before, &cut_off))
                cut_off = INT64_MAX;
        if (cut_off > self->sizes[d])
            return td_fail(TD_E_RUNTIME, "narrow(): length must be non-negative: dimension %d has %" PRId64 " elements, and padding of %" PRId64
                           " and %" PRId64 " cuts off %" PRId64, d, self->sizes[d], before, behind, cut_off);
        if (sizes[d] < 0)
            return td_fail(TD_E_RUNTIME, "The input size %" PRId64 ", plus negative padding %" PRId64 " and %" PRId64 " resulted in a negative "
                           "output size, which is invalid. Check dimension %d of your input.", self->sizes[d], before,
                           behind, d);
        grows |= before > 0 || behind > 0;
        int64_t start = before < 0 ? -before : 0, stop = self->sizes[d] + (behind < 0 ? behind : 0);     /* they fit: the size has been checked */
        if (start || stop != self->sizes[d]) {
            td_tensor *cut = td_narrow(from, d, start < stop ? start : 0, start < stop ? stop - start : 0);
            td_tensor_release(from);
            from = cut;
        }
    }
    if (!grows)
        return td_clone(from);          /* in its own order, as what is added isn't */
    TD_AUTO td_tensor *out = self->flags & TD_FLAG_PYTHON       /* of its class */
                                 ? td_new_full(self, self->ndim, sizes, value, TD_DTYPE_NONE, TD_DEVICE_NONE)
                                 : td_full(self->ndim, sizes, value, (td_dtype)self->dtype, self->device);
    /* narrow by narrow: a chain of views, of which each replaces the one before. */
    TD_AUTO td_tensor *middle = out ? td_ref(out) : NULL;
    for (int d = 0; d < self->ndim && from; d++) {
        int64_t at = 2 * (self->ndim - 1 - d), before = at < n_pad ? sign * pad[at] : 0;
        td_tensor *inner = td_narrow(middle, d, before > 0 && from->numel ? before : 0, from->sizes[d]);
        td_tensor_release(middle);
        middle = inner;
    }
    return td_copy_(middle, from) ? NULL : td_ref(out);
}

/* No derivative here: it is pad_taken_back, by its entry. */
td_tensor *td_op_constant_pad_nd(td_tensor *self, int64_t n_pad, const int64_t *pad, td_scalar value)
{
    return padded(self, n_pad, pad, 1, value);
}

/* The gradient of constant_pad_nd: what was added is cut off, what was cut off is 0. */
td_tensor *td_op_pad_taken_back(td_tensor *self, int64_t n_pad, const int64_t *pad)
{
    int64_t back[2 * TD_MAX_DIMS];
    if (n_pad > 2 * TD_MAX_DIMS)
        return td_fail(TD_E_RUNTIME, "pad_taken_back: %" PRId64 " numbers for %d dimensions", n_pad, self->ndim);
    for (int64_t i = 0; i < n_pad; i++)
        back[i] = -pad[i];
    return td_constant_pad_nd(self, n_pad, back, td_int(0));
}

/* classes -1: one more than the largest value, which must be read for that.  On meta no value is checked. */
td_tensor *td_op_one_hot(td_tensor *self, int64_t classes)
{
    if (self->dtype != TD_I64)
        return td_fail(TD_E_RUNTIME, "one_hot is only applicable to index tensor of type LongTensor.");
    if (self->numel == 0 && classes <= 0)
        return td_fail(TD_E_RUNTIME, "Can not infer total number of classes from empty tensor.");
    bool meta = self->device.type == TD_META;
    if (meta && classes == -1)
        return td_fail(TD_E_RUNTIME, "Tensor.item() cannot be called on meta tensors: one_hot needs num_classes there");
    TD_AUTO td_tensor *dense = td_contiguous(self);
    if (!dense)
        return NULL;
    /* Values are read before the result is made, since it has an element for each of them that is written without a check. */
    const int64_t *at = (const int64_t *)dense->data;
    int64_t least = 0, most = -1, sizes[TD_MAX_DIMS + 1];
    if (!meta && td_index_bounds(dense, &least, &most))
        return NULL;
    if (least < 0)
        return td_fail(TD_E_RUNTIME, "Class values must be non-negative.");
    if (classes == -1 && td_add_checked(most, 1, &classes))
        return NULL;
    else if (classes < 1)
        return td_fail(TD_E_RUNTIME, "num_classes should be positive");
    else if (most >= classes)
        return td_fail(TD_E_RUNTIME, "Class values must be smaller than num_classes.");
    for (int i = 0; i < self->ndim; i++)
        sizes[i] = self->sizes[i];
    sizes[self->ndim] = classes;
    td_tensor *out = td_zeros(self->ndim + 1, sizes, TD_I64, self->device);
    if (out && td_is_outside(out->device)) {
        TD_AUTO td_tensor *index = td_unsqueeze(dense, -1);
        if (index && !td_scatter_value_(out, -1, index, td_int(1)))
            return out;
        td_tensor_release(out);
        return NULL;
    }
    for (int64_t i = 0; out && i < self->numel && !meta; i++)
        ((int64_t *)out->data)[i * classes + at[i]] = 1;
    return out;
}

/* The last three dimensions seen as five (`apart`), put in another order and joined to three.  Arrays have room for two dimensions more
 * than a tensor may have; reshape refuses those. */
static td_tensor *regrouped(td_tensor *self, const int64_t *apart, const int64_t *order, const int64_t *joined)
{
    const int n = self->ndim, lead = n - 3;
    int64_t sizes[TD_MAX_DIMS + 3], places[TD_MAX_DIMS + 3], shape[TD_MAX_DIMS];
    for (int i = 0; i < lead; i++)
        sizes[i] = shape[i] = self->sizes[i], places[i] = i;
    for (int i = 0; i < 5; i++)
        sizes[lead + i] = apart[i], places[lead + i] = lead + order[i];
    memcpy(shape + lead, joined, 3 * sizeof *joined);
    TD_AUTO td_tensor *split = td_reshape(self, n + 2, sizes);
    TD_AUTO td_tensor *permuted = td_permute(split, n + 2, places);
    TD_AUTO td_tensor *dense = td_clone_format(permuted, TD_CONTIGUOUS_FORMAT);
    return td_reshape(dense, n, shape);
}

/* Channels become pixels: [c r r, h, w] seen as [c, r, r, h, w], permuted to [c, h, r, w, r], joined to [c, h r, w r].  Shi et al. 2016,
 * "Real-Time Single Image and Video Super-Resolution Using an Efficient Sub-Pixel Convolutional Neural Network". */
td_tensor *td_op_pixel_shuffle(td_tensor *self, int64_t r)
{
    int n = self->ndim;
    if (n < 3)
        return td_fail(TD_E_RUNTIME, "pixel_shuffle expects input to have at least 3 dimensions, but got input with %d dimension(s)", n);
    if (r <= 0)
        return td_fail(TD_E_RUNTIME, "pixel_shuffle expects a positive upscale_factor, but got %" PRId64, r);
    int64_t c = self->sizes[n - 3], h = self->sizes[n - 2], w = self->sizes[n - 1];
    int64_t square, tall, wide;
    if (__builtin_mul_overflow(r, r, &square))
        return td_fail(TD_E_VALUE, "upscale factor is too large, (upscale_factor)^2 overflowed: upscale_factor=%" PRId64, r);
    if (td_mul_checked(h, r, &tall) || td_mul_checked(w, r, &wide))
        return NULL;
    if (c % square)
        return td_fail(TD_E_RUNTIME, "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of upscale_factor, but "
                       "input.size(-3)=%" PRId64 " is not divisible by %" PRId64, c, square);
    return regrouped(self, (int64_t[]){c / square, r, r, h, w}, (int64_t[]){0, 3, 1, 4, 2}, (int64_t[]){c / square, tall, wide});
}

/* The inverse: [c, h r, w r] seen as [c, h, r, w, r], permuted to [c, r, r, h, w]. */
td_tensor *td_op_pixel_unshuffle(td_tensor *self, int64_t r)
{
    int n = self->ndim;
    if (n < 3)
        return td_fail(TD_E_RUNTIME, "pixel_unshuffle expects input to have at least 3 dimensions, but got input with %d dimension(s)", n);
    if (r <= 0)
        return td_fail(TD_E_RUNTIME, "pixel_unshuffle expects a positive downscale_factor, but got %" PRId64, r);
    int64_t c = self->sizes[n - 3], h = self->sizes[n - 2], w = self->sizes[n - 1];
    int64_t square, deep;
    if (td_mul_checked(r, r, &square) || td_mul_checked(c, square, &deep))
        return NULL;
    if (h % r || w % r)
        return td_fail(TD_E_RUNTIME, "pixel_unshuffle expects %s to be divisible by downscale_factor, but input.size(%d)=%" PRId64
                       " is not divisible by %" PRId64, h % r ? "height" : "width", h % r ? -2 : -1, h % r ? h : w, r);
    return regrouped(self, (int64_t[]){c, h / r, r, w / r, r}, (int64_t[]){0, 2, 4, 1, 3}, (int64_t[]){deep, h / r, w / r});
}

/* Channels as [groups, channels / groups], transposed: afterwards neighbours come from different groups (Zhang et al. 2018,
 * "ShuffleNet"). */
td_tensor *td_op_channel_shuffle(td_tensor *self, int64_t groups)
{
    int n = self->ndim;
    td_shape_text text;
    if (n < 3)
        return td_fail(TD_E_RUNTIME, "channel_shuffle expects input with > 2 dims, but got input with sizes %s",
                       td_shape_str(n, self->sizes, text));
    if (groups <= 0)
        return td_fail(TD_E_RUNTIME, "Number of groups to divide channels in must be positive. Value of groups:%" PRId64, groups);
    if (self->sizes[1] % groups)
        return td_fail(TD_E_RUNTIME, "Number of channels must be divisible by groups. Got %" PRId64 " channels and %" PRId64
                       " groups.", self->sizes[1], groups);
    int64_t inner = 1;      /* elements of a channel, which move together */
    for (int i = 2; i < n; i++)
        inner *= self->sizes[i];
    TD_AUTO td_tensor *split = td_reshape(self, 4, (int64_t[]){self->sizes[0], groups, self->sizes[1] / groups, inner});
    TD_AUTO td_tensor *transposed = td_transpose_int(split, 1, 2);
    TD_AUTO td_tensor *shuffled = td_reshape(transposed, n, self->sizes);       /* a copy, or a view where nothing changes places */
    return shuffled && shuffled->storage == self->storage ? td_clone_format(shuffled, TD_CONTIGUOUS_FORMAT) : td_ref(shuffled);
}

/* The gated linear unit a sigmoid(b), a and b being the halves along dim (Dauphin et al. 2017, "Language Modeling with Gated
 * Convolutional Networks"). */
td_tensor *td_op_glu(td_tensor *self, int64_t dim)
{
    if (self->ndim == 0)
        return td_fail(TD_E_RUNTIME, "glu does not support 0-dimensional tensors");
    int d = td_wrap_dim(dim, self->ndim);
    if (d < 0)
        return NULL;
    int64_t size = self->sizes[d];
    if (size % 2)
        return td_fail(TD_E_RUNTIME, "Halving dimension must be even, but dimension %d is size %" PRId64, d, size);
    if (!td_is_floating(self))
        return td_fail(TD_E_NOT_IMPLEMENTED, "\"glu_cpu\" not implemented for '%s'",
                       td_dtype_title((td_dtype)self->dtype));
    TD_AUTO td_tensor *first = td_narrow(self, d, 0, size / 2), *second = td_narrow(self, d, size / 2, size / 2);
    TD_AUTO td_tensor *gate = td_sigmoid(second);
    return td_mul_tensor(first, gate);
}
