/* The same elements elsewhere: dimensions moved (movedim), orders reversed (flip, rot90, roll), repetition (repeat, tile,
 * repeat_interleave), diagonals (diag_embed), copies with a part replaced (slice_scatter and its like), transpose_ and resize_.
 *
 * Everything that can be is a view of a view.  What must be a copy is one td_copy_elements per part, from and to
 * views that say where the elements go: the copy routine knows all strides. */

#include "calls_ops_shape_rearrange.h"
#include <inttypes.h>
#include <tede/kernel.h>
#include "dispatch/outputs.h"
#include "dispatch/writes.h"
#include "ops/compose.h"
#include "ops/index/index.h"
#include "ops/index/kernels.h"
#include "tensor/checked.h"
#include "tensor/layout.h"

/* ---- dimensions moved */

/* A permutation: the named dimensions at their destinations, all others in their order at the positions left. */
td_tensor *td_op_movedim_intlist(td_tensor *self, int64_t n_source, const int64_t *source, int64_t n_destination,
                                 const int64_t *destination)
{
    td_shape_text a, b;
    if (n_source != n_destination)
        return td_fail(TD_E_RUNTIME, "movedim: Invalid source or destination dims: source (%s dims) should contain the same number of "
                       "dims as destination (%s dims)", td_shape_str((int)n_source, source, a), td_shape_str((int)n_destination, destination, b));
    int64_t order[TD_MAX_DIMS];
    bool from[TD_MAX_DIMS] = {false}, to[TD_MAX_DIMS] = {false};
    for (int i = 0; i < n_source; i++) {
        int s = td_wrap_dim(source[i], self->ndim), d = s < 0 ? -1 : td_wrap_dim(destination[i], self->ndim);
        if (d < 0)
            return NULL;
        if (from[s] || to[d])
            return td_fail(TD_E_RUNTIME, "movedim: repeated dim in `%s` (%s)", from[s] ? "source" : "destination",
                           td_shape_str((int)n_source, from[s] ? source : destination, a));
        from[s] = to[d] = true;
        order[d] = s;
    }
    if (!self->ndim)
        return td_alias(self);
    for (int d = 0, s = 0; d < self->ndim; d++) {       /* `s` goes through the sources that are left, in their order */
        if (to[d])
            continue;
        while (from[s])
            s++;
        order[d] = s++;
    }
    return td_permute(self, self->ndim, order);
}
td_tensor *td_op_movedim_int(td_tensor *self, int64_t source, int64_t destination)
{
    return td_movedim_intlist(self, 1, &source, 1, &destination);
}
td_tensor *td_op_swapaxes(td_tensor *self, int64_t axis0, int64_t axis1) { return td_transpose_int(self, axis0, axis1); }
td_tensor *td_op_swapdims(td_tensor *self, int64_t dim0, int64_t dim1)   { return td_transpose_int(self, dim0, dim1); }

td_tensor *td_op_adjoint(td_tensor *self)
{
    if (self->ndim == 1)
        return td_fail(TD_E_RUNTIME, "tensor.adjoint() is only supported on matrices or batches of matrices. Got 1-D tensor.");
    if (!self->ndim)
        return td_conj(self);
    return td_adjoint_of(self);
}

/* Contiguous first, also where a flat view with a step would do: numpy.ravel and torch.ravel promise contiguous results. */
td_tensor *td_op_ravel(td_tensor *self)
{
    TD_AUTO td_tensor *dense = td_contiguous(self);
    return td_reshape(dense, 1, (int64_t[]){-1});
}

/* One dimension as several, of which one size may be -1. */
td_tensor *td_op_unflatten_int(td_tensor *self, int64_t dim, int64_t n_sizes, const int64_t *sizes)
{
    int d = td_wrap_dim(dim, self->ndim);
    if (d < 0)
        return NULL;
    if (!self->ndim)
        return td_fail(TD_E_RUNTIME, "unflatten got an unexpected error: a number has no dimension to be unflattened");
    if (!n_sizes)
        return td_fail(TD_E_RUNTIME, "unflatten: sizes must be non-empty");
    if (self->ndim + n_sizes - 1 > TD_MAX_DIMS)
        return td_fail(TD_E_RUNTIME, "unflatten: a tensor has at most %d dimensions", TD_MAX_DIMS);
    /* `known`, the product of the other sizes, is -1 after an overflow or a negative size; a second -1 is one of those. */
    int64_t known = 1, whole = self->ndim ? self->sizes[d] : 1, shape[TD_MAX_DIMS];
    int unknown = -1, n = 0;
    td_shape_text text;
    for (int i = 0; i < n_sizes; i++)
        if (sizes[i] == -1 && unknown < 0)
            unknown = i;
        else if (__builtin_mul_overflow(known, sizes[i], &known) || sizes[i] < 0)
            known = -1;
    if (known < 0 || (unknown < 0 ? known != whole : known == 0 || whole % known))
        return td_fail(TD_E_RUNTIME, "unflatten: Provided sizes %s don't multiply up to the size of dim %d (%" PRId64 ") in the input tensor",
                       td_shape_str((int)n_sizes, sizes, text), d, whole);
    for (int k = 0; k < (self->ndim ? self->ndim : 1); k++) {
        if (k != d)
            shape[n++] = self->sizes[k];
        for (int i = 0; k == d && i < n_sizes; i++)
            shape[n++] = i == unknown ? whole / known : sizes[i];
    }
    return td_reshape(self, n, shape);
}

/* ---- the same in place: the tensor itself gets another geometry */

/* self becomes what `view`, a view of it, is: its geometry and first element.  The storage stays the same. */
static int take_geometry(td_tensor *self, td_tensor *view)
{
    if (!view)
        return -1;
    char *data = view->data;
    int status = td_tensor_set_geometry(self, view->ndim, view->sizes, view->strides);
    if (status == 0)
        self->data = data;
    return status;
}
/* The view lives until the function returns: only its geometry is kept.  Autograd records these operators by their entries in ops/. */
#define IN_PLACE(view) \
    TD_AUTO td_tensor *seen = view; \
    return take_geometry(self, seen)

int td_op_transpose_(td_tensor *self, int64_t dim0, int64_t dim1) { IN_PLACE(td_op_transpose_int(self, dim0, dim1)); }
int td_op_squeeze_(td_tensor *self) { IN_PLACE(td_op_squeeze(self)); }
int td_op_squeeze_dim_(td_tensor *self, int64_t dim) { IN_PLACE(td_op_squeeze_dim(self, dim)); }
int td_op_squeeze_dims_(td_tensor *self, int64_t n, const int64_t *dim) { IN_PLACE(td_op_squeeze_dims(self, n, dim)); }
int td_op_unsqueeze_(td_tensor *self, int64_t dim) { IN_PLACE(td_op_unsqueeze(self, dim)); }
int td_op_as_strided_(td_tensor *self, int64_t n_size, const int64_t *size, int64_t n_stride, const int64_t *stride, const int64_t *offset)
{
    IN_PLACE(td_op_as_strided(self, n_size, size, n_stride, stride, offset));
}
int td_op_t_(td_tensor *self)
{
    if (self->ndim > 2)
        return td_error(TD_E_RUNTIME, "t_() expects a tensor with <= 2 dimensions, but self is %dD", self->ndim);
    return td_transpose_(self, 0, self->ndim < 2 ? 0 : 1);
}
int td_op_swapaxes_(td_tensor *self, int64_t axis0, int64_t axis1) { return td_transpose_(self, axis0, axis1); }
int td_op_swapdims_(td_tensor *self, int64_t dim0, int64_t dim1)   { return td_transpose_(self, dim0, dim1); }

/* resize_: memory grows where it must, and elements keep their positions in it.  Refused where autograd would lose the
 * history of its elements.  The format's strides are set last, over the memory that is there then. */
int td_op_resize(td_tensor *self, int64_t n_size, const int64_t *size, td_memory_format format)
{
    int64_t strides[TD_MAX_DIMS];
    int rank = format == TD_CHANNELS_LAST ? 4 : format == TD_CHANNELS_LAST_3D ? 5 : 0;
    if (td_is_sealed(self))
        return td_fail_sealed();
    if (td_requires_grad(self) && !td_inference_mode())
        return td_error(TD_E_RUNTIME, "cannot resize variables that require grad");
    if (format == TD_PRESERVE_FORMAT)
        return td_error(TD_E_RUNTIME, "Unsupported memory format Preserve");
    if (rank && n_size != rank)
        return td_error(TD_E_RUNTIME, "required rank %d tensor to use channels_last%s format", rank, rank == 5 ? "_3d" : "");
    if (td_check_sizes(n_size, size))
        return -1;
    /* The same sizes write nothing, so the version counter stays. */
    bool same = self->ndim == n_size && !memcmp(self->sizes, size, sizeof *size * (size_t)n_size);    /* keeps its strides */
    if (!same && td_resize(self, (int)n_size, size) != 0)
        return -1;
    if (!same)
        td_wrote(self, "resize_");
    if (!rank)
        return 0;
    td_channels_last_strides(rank, size, strides);
    return td_tensor_set_geometry(self, rank, size, strides);
}
/* preserve_format follows the template only if it is channels last and not contiguous as well. */
int td_op_resize_as_(td_tensor *self, td_tensor *the_template, td_memory_format format)
{
    int64_t strides[TD_MAX_DIMS];
    int rank = the_template->ndim;
    if (format == TD_PRESERVE_FORMAT && rank != 4 && rank != 5) {
        format = TD_CONTIGUOUS_FORMAT;
    } else if (format == TD_PRESERVE_FORMAT) {
        td_channels_last_strides(rank, the_template->sizes, strides);
        bool last = !(the_template->flags & TD_FLAG_CONTIGUOUS) &&
                    !memcmp(strides, the_template->strides, sizeof *strides * (size_t)rank);
        format = !last ? TD_CONTIGUOUS_FORMAT : rank == 4 ? TD_CHANNELS_LAST : TD_CHANNELS_LAST_3D;
    }
    return td_op_resize(self, the_template->ndim, the_template->sizes, format);
}

/* ---- orders */

/* Like self, but contiguous; each dimension may be named once. */
int td_meta_flip(td_spec *specs, td_tensor *self, int64_t n_dims, const int64_t *dims)
{
    bool seen[TD_MAX_DIMS] = {false};
    for (int i = 0; i < n_dims; i++) {
        int d = td_wrap_dim(dims[i], self->ndim);
        if (d < 0)
            return -1;
        if (seen[d])
            return td_error(TD_E_RUNTIME, "dim %d appears multiple times in the list of dims", d);
        seen[d] = true;
    }
    return td_spec_like(specs, self);
}
/* One copy from a view that starts at the last element of each flipped dimension, with its stride negated. */
int td_cpu_flip(td_tensor *self, int64_t n_dims, const int64_t *dims, td_tensor *out)
{
    int64_t strides[TD_MAX_DIMS], offset = 0;
    memcpy(strides, self->strides, sizeof *strides * self->ndim);
    for (int i = 0; i < n_dims && self->numel && self->ndim; i++) {
        int d = td_wrap_dim(dims[i], self->ndim);
        offset += (self->sizes[d] - 1) * self->strides[d];
        strides[d] = -strides[d];
    }
    TD_AUTO td_tensor *reversed = td_view_strided(self, self->ndim, self->sizes, strides, offset);
    return reversed ? td_copy_elements(out, reversed) : -1;
}
td_tensor *td_op_fliplr(td_tensor *self)
{
    return self->ndim < 2 ? td_fail(TD_E_RUNTIME, "Input must be >= 2-d.") : td_flip(self, 1, (int64_t[]){1});
}
td_tensor *td_op_flipud(td_tensor *self)
{
    return self->ndim < 1 ? td_fail(TD_E_RUNTIME, "Input must be >= 1-d.") : td_flip(self, 1, (int64_t[]){0});
}
/* k quarter turns from the first of the two dimensions to the second: a flip and a transposition; two turns are two flips. */
td_tensor *td_op_rot90(td_tensor *self, int64_t k, int64_t n_dims, const int64_t *dims)
{
    if (n_dims != 2)
        return td_fail(TD_E_RUNTIME, "expected total rotation dims == 2, but got dims = %" PRId64, n_dims);
    if (self->ndim < 2)
        return td_fail(TD_E_RUNTIME, "expected total dims >= 2, but got total dims = %d", self->ndim);
    int a = td_wrap_dim(dims[0], self->ndim), b = a < 0 ? -1 : td_wrap_dim(dims[1], self->ndim);
    if (b < 0)
        return NULL;
    if (a == b)
        return td_fail(TD_E_RUNTIME, "expected rotation dims to be different, but got dim0 = %" PRId64 " and dim1 = %" PRId64, dims[0], dims[1]);
    k = (k % 4 + 4) % 4;
    if (k == 0)
        return td_clone_format(self, TD_CONTIGUOUS_FORMAT);
    if (k == 2)
        return td_flip(self, 2, dims);
    TD_AUTO td_tensor *flipped = td_flip(self, 1, k == 1 ? &dims[1] : &dims[0]);
    return !flipped || td_transpose_(flipped, a, b) ? NULL : td_tensor_retain(flipped);     /* no view of what nobody has */
}

/* A roll is PyTorch's cat of two slices per dimension, from which it inherits corners: the result stays channels last if every named
 * dimension really is cut in two, and one without elements is a clone, with self's strides. */
int td_meta_roll(td_spec *specs, td_tensor *self, int64_t n_shifts, const int64_t *shifts, int64_t n_dims, const int64_t *dims)
{
    (void)shifts;
    if (!n_shifts)
        return td_error(TD_E_RUNTIME, "`shifts` required");
    if (n_shifts != n_dims && !(n_dims == 0 && n_shifts == 1))
        return td_error(TD_E_RUNTIME, "shifts and dimensions must align. shifts: %" PRId64 ", dims:%" PRId64, n_shifts, n_dims);
    if (!self->ndim && n_dims)
        return td_error(TD_E_INDEX, "Dimension specified as %" PRId64 " but tensor has no dimensions", dims[0]);
    for (int i = 0; i < n_dims && self->numel; i++)
        if (td_wrap_dim(dims[i], self->ndim) < 0)
            return -1;
    td_spec_like(specs, self);
    if (n_dims && self->numel && td_has_channels_last(self)) {      /* which parts on both sides of each cut hand on */
        bool cut = true;
        for (int i = 0; i < n_dims; i++)
            cut &= shifts[i] % self->sizes[td_wrap_dim(dims[i], self->ndim)] != 0;
        td_channels_last_strides(self->ndim, self->sizes, specs->strides);
        specs->strided = cut;
    } else if (!self->numel)            /* the result is a copy */
        specs->strided = true, memcpy(specs->strides, self->strides, sizeof *self->strides * (size_t)self->ndim);
    return 0;
}

/* Shifts of the same dimension add up; then each of the 2^k blocks between the cuts moves in one copy.  `shifts` are within [0, size),
 * one for each dimension; part 0 is what moves up by the shift, part 1 what comes round to the beginning.  Both are never empty: a
 * shift of 0 cuts nothing. */
static int roll_blocks(td_tensor *from, td_tensor *to, const int64_t *shifts, int dim)
{
    while (dim < from->ndim && !shifts[dim])
        dim++;
    if (dim == from->ndim)
        return td_copy_elements(to, from);
    int64_t size = from->sizes[dim], shift = shifts[dim], sizes[TD_MAX_DIMS];
    memcpy(sizes, from->sizes, sizeof *sizes * from->ndim);
    for (int part = 0; part < 2; part++) {
        sizes[dim] = part ? shift : size - shift;
        TD_AUTO td_tensor *a = td_view_strided(from, from->ndim, sizes, from->strides, part ? (size - shift) * from->strides[dim] : 0);
        TD_AUTO td_tensor *b = td_view_strided(to, from->ndim, sizes, to->strides, part ? 0 : shift * to->strides[dim]);
        if (!a || !b || roll_blocks(a, b, shifts, dim + 1))
            return -1;
    }
    return 0;
}
/* Without dims the elements are rolled in their flat order.  Shifts are reduced to [0, size) first. */
int td_cpu_roll(td_tensor *self, int64_t n_shifts, const int64_t *shifts, int64_t n_dims, const int64_t *dims, td_tensor *out)
{
    (void)n_shifts;
    int64_t by[TD_MAX_DIMS] = {0};      /* how far each dimension is rolled, all shifts of it together */
    if (!self->numel)
        return 0;
    if (!n_dims) {
        TD_AUTO td_tensor *whole = td_make_contiguous(self);
        TD_AUTO td_tensor *flat = whole ? td_view_strided(whole, 1, &self->numel, (int64_t[]){1}, 0) : NULL;
        TD_AUTO td_tensor *to = td_view_strided(out, 1, &self->numel, (int64_t[]){1}, 0);
        by[0] = (shifts[0] % self->numel + self->numel) % self->numel;
        return flat && to ? roll_blocks(flat, to, by, 0) : -1;
    }
    for (int i = 0; i < n_dims; i++) {
        int d = td_wrap_dim(dims[i], self->ndim);
        int64_t size = self->ndim ? self->sizes[d] : 1;
        by[d] = (by[d] + shifts[i] % size + size) % size;
    }
    return roll_blocks(self, out, by, 0);
}
/* Rolled in the other direction. */
td_tensor *td_op_roll_backward(td_tensor *grad, int64_t n_shifts, const int64_t *shifts, int64_t n_dims, const int64_t *dims)
{
    int64_t back[TD_MAX_DIMS];
    if (n_shifts > TD_MAX_DIMS || (n_dims && n_dims != n_shifts))
        return td_fail(TD_E_RUNTIME, "roll_backward: %" PRId64 " shifts of %" PRId64 " dims", n_shifts, n_dims);
    for (int i = 0; i < n_dims; i++)
        if (td_wrap_dim(dims[i], grad->ndim) < 0)
            return NULL;
    for (int i = 0; i < n_shifts; i++) {        /* the remainder can be negated, whatever the shift */
        int64_t size = !n_dims ? grad->numel : grad->ndim ? grad->sizes[td_wrap_dim(dims[i], grad->ndim)] : 1;
        back[i] = size > 0 ? -(shifts[i] % size) : 0;
    }
    return td_roll(grad, n_shifts, back, n_dims, dims);
}

/* ---- repetition */

/* Sizes are those of self times repeats, aligned at the last dimension; new ones in front count as 1. */
int td_meta_repeat(td_spec *specs, td_tensor *self, int64_t n, const int64_t *repeats)
{
    int64_t sizes[TD_MAX_DIMS];
    td_shape_text text;
    if (n < self->ndim)
        return td_error(TD_E_RUNTIME, "Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor");
    if (n > TD_MAX_DIMS)
        return td_error(TD_E_RUNTIME, "repeat: a tensor has at most %d dimensions", TD_MAX_DIMS);
    for (int i = 0; i < n; i++) {
        int d = i - (int)(n - self->ndim);
        if (repeats[i] < 0 && (d < 0 || self->sizes[d]))        /* of nothing, any number is nothing */
            return td_error(TD_E_RUNTIME, "Trying to create tensor with negative dimension %" PRId64 ": %s", repeats[i],
                            td_shape_str((int)n, repeats, text));
        if (__builtin_mul_overflow(repeats[i], d < 0 ? 1 : self->sizes[d], &sizes[i]))
            return td_error(TD_E_RUNTIME, "repeat: the size of dimension %d overflows", i);
    }
    return td_spec_set(specs, (int)n, sizes, (td_dtype)self->dtype, self->device);
}
/* The output seen with each dimension split into (repeats, size) is the input expanded: one copy.  Factors of 1 are left out, so that few
 * tensors come near the limit of dimensions. */
int td_cpu_repeat(td_tensor *self, int64_t n, const int64_t *repeats, td_tensor *out)
{
    int64_t sizes[2 * TD_MAX_DIMS], from[2 * TD_MAX_DIMS], to[2 * TD_MAX_DIMS];
    int k = 0;
    if (!out->numel)
        return 0;
    for (int i = 0; i < n; i++) {
        int d = i - (int)(n - self->ndim);
        int64_t size = d < 0 ? 1 : self->sizes[d];
        if (repeats[i] != 1)
            sizes[k] = repeats[i], from[k] = 0, to[k++] = out->strides[i] * size;
        if (size != 1)
            sizes[k] = size, from[k] = self->strides[d], to[k++] = out->strides[i];
    }
    /* More than a view may have: the repetition itself is possible, only not as a single copy. */
    if (k > TD_MAX_DIMS)
        return td_error(TD_E_NOT_IMPLEMENTED, "repeat: more than %d dimensions on the way", TD_MAX_DIMS);
    TD_AUTO td_tensor *source = td_view_strided(self, k, sizes, from, 0);
    TD_AUTO td_tensor *target = td_view_strided(out, k, sizes, to, 0);
    return source && target ? td_copy_elements(target, source) : -1;
}
/* The sum over all repetitions: grad with each dimension split into (repeats, size), summed over the first of each pair. */
td_tensor *td_op_repeat_backward(td_tensor *grad, int64_t n, const int64_t *repeats, int64_t n_shape, const int64_t *shape)
{
    int64_t sizes[2 * TD_MAX_DIMS] = {0}, dims[TD_MAX_DIMS];
    int k = 0, n_sum = 0;
    if (n > TD_MAX_DIMS || n_shape > n)
        return td_fail(TD_E_RUNTIME, "repeat_backward: %" PRId64 " repetitions of %" PRId64 " dimensions", n, n_shape);
    for (int i = 0; i < n; i++) {
        if (repeats[i] == 0)        /* self isn't in the result at all */
            return td_zeros(n_shape, shape, (td_dtype)grad->dtype, grad->device);
        int d = i - (int)(n - n_shape);
        if (repeats[i] != 1 || d < 0) {
            dims[n_sum++] = k;
            sizes[k++] = repeats[i];
        }
        if (d >= 0)
            sizes[k++] = shape[d];
    }
    TD_AUTO td_tensor *split = td_reshape(grad, k, sizes);
    return n_sum ? td_sum_over(split, n_sum, dims, false) : td_ref(split);
}
/* repeat, whose numbers may be fewer than dimensions: those in front count as 1, as numpy.tile. */
td_tensor *td_op_tile(td_tensor *self, int64_t n, const int64_t *dims)
{
    int64_t repeats[TD_MAX_DIMS];
    int missing = self->ndim > n ? self->ndim - (int)n : 0;
    if (n + missing > TD_MAX_DIMS)
        return td_fail(TD_E_RUNTIME, "tile: a tensor has at most %d dimensions", TD_MAX_DIMS);
    for (int i = 0; i < missing + n; i++)
        repeats[i] = i < missing ? 1 : dims[i - missing];
    return td_repeat(self, missing + n, repeats);
}

/* As below: i is the number of parts that end at or before a position of its part.  Two numbers are read. */
static td_tensor *repeat_on_device(td_tensor *counts, td_dtype dtype, const int64_t *output_size)
{
    int64_t low = 0, high = 0, most;
    if (counts->numel && td_index_bounds(counts, &low, &high))
        return NULL;
    if (low < 0)
        return td_fail(TD_E_RUNTIME, "repeats can not be negative");
    if (__builtin_mul_overflow(high, counts->numel, &most))
        return td_fail(TD_E_NOT_IMPLEMENTED, "repeat_interleave: the sum of repeats may be too large for a device");
    TD_AUTO td_tensor *ends = td_cumsum(counts, 0, TD_I64), *last = ends && counts->numel ? td_select_int(ends, 0, -1) : NULL;
    td_scalar total = td_int(0);
    if (!ends || (counts->numel && (!last || td_item(&total, last))))
        return NULL;
    if (output_size && *output_size != total.i)
        return td_fail(TD_E_RUNTIME, "allocated size does not match required size");
    TD_AUTO td_tensor *all = td_arange(total, TD_I64, counts->device);
    TD_AUTO td_tensor *positions = all ? td_searchsorted_tensor(ends, all, false, true, NULL, TD_NONE) : NULL;
    return positions ? td_to(positions, dtype) : NULL;
}

/* The positions that index_select takes: i, repeats[i] times.  The total decides the result's size, so the values are read; of a meta
 * tensor output_size is that total. */
td_tensor *td_op_repeat_interleave_tensor(td_tensor *repeats, const int64_t *output_size)
{
    if (repeats->ndim != 1)
        return td_fail(TD_E_RUNTIME, "repeat_interleave only accept 1D vector as repeat");
    if (repeats->dtype != TD_I64 && repeats->dtype != TD_I32)
        return td_fail(TD_E_RUNTIME, "repeats has to be Long or Int tensor");
    if (repeats->device.type == TD_META) {
        if (!output_size)
            return td_fail(TD_E_RUNTIME, "cannot repeat_interleave a meta tensor without output_size");
        if (*output_size < 0)
            return td_fail(TD_E_RUNTIME, "repeat_interleave: output_size is negative: %" PRId64, *output_size);
        return td_tensor_new(1, output_size, (td_dtype)repeats->dtype, repeats->device);
    }
    if (!repeats->numel)                        /* whatever output_size says */
        return td_tensor_new(1, (int64_t[]){0}, (td_dtype)repeats->dtype, repeats->device);
    TD_AUTO td_tensor *counts = td_as_contiguous(repeats, TD_I64);
    if (!counts)
        return NULL;
    if (repeats->device.type != TD_CPU)
        return repeat_on_device(counts, (td_dtype)repeats->dtype, output_size);
    const int64_t *count = (const int64_t *)counts->data;
    int64_t total = 0;
    for (int64_t i = 0; i < counts->numel; i++) {
        if (count[i] < 0)
            return td_fail(TD_E_RUNTIME, "repeats can not be negative");
        if (__builtin_add_overflow(total, count[i], &total))
            return td_fail(TD_E_RUNTIME, "repeat_interleave: the result is too large");
    }
    if (output_size && *output_size != total)
        return td_fail(TD_E_RUNTIME, "allocated size does not match required size");
    TD_AUTO td_tensor *positions = td_tensor_new(1, &total, TD_I64, repeats->device);
    if (!positions)
        return NULL;
    int64_t *to = (int64_t *)positions->data;
    for (int64_t i = 0; i < counts->numel; i++)
        for (int64_t k = 0; k < count[i]; k++)
            *to++ = i;
    return td_to(positions, (td_dtype)repeats->dtype);
}
/* Without dim, of the flattened tensor; a single number is that of every position. */
td_tensor *td_op_repeat_interleave_self_tensor(td_tensor *self, td_tensor *repeats, const int64_t *dim, const int64_t *output_size)
{
    TD_AUTO td_tensor *x = dim ? td_ref(self) : td_reshape(self, 1, (int64_t[]){-1});
    if (!x)
        return NULL;
    int d = td_wrap_dim(dim ? *dim : 0, x->ndim);
    if (d < 0)
        return NULL;
    int64_t size = x->ndim ? x->sizes[d] : 1;
    /* A single number for all positions is expanded to as many, which needs no memory. */
    TD_AUTO td_tensor *counts = NULL;
    if (!repeats->ndim || (repeats->ndim == 1 && repeats->sizes[0] == 1)) {
        TD_AUTO td_tensor *one = td_reshape(repeats, 1, (int64_t[]){1});
        counts = td_expand(one, 1, &size);
    } else if (repeats->ndim == 1) {
        if (repeats->sizes[0] != size)
            return td_fail(TD_E_RUNTIME, "repeats must have the same size as input along dim, but got repeats.size(0) = %" PRId64
                           " and input.size(%d) = %" PRId64, repeats->sizes[0], d, size);
        counts = td_ref(repeats);
    } else {
        return td_fail(TD_E_RUNTIME, "repeats must be 0-dim or 1-dim tensor");
    }
    TD_AUTO td_tensor *positions = td_repeat_interleave_tensor(counts, output_size);
    return td_index_select(x, d, positions);
}
/* Equal repetition needs no positions: an expanded new dimension, merged into its neighbour by a copy. */
td_tensor *td_op_repeat_interleave_self_int(td_tensor *self, int64_t repeats, const int64_t *dim, const int64_t *output_size)
{
    if (repeats < 0)
        return td_fail(TD_E_RUNTIME, "Repeats must be non-negative");
    TD_AUTO td_tensor *x = dim && self->ndim ? td_ref(self) : td_reshape(self, 1, (int64_t[]){-1});
    int d = x ? td_wrap_dim(dim ? *dim : 0, x->ndim) : -1;
    if (d < 0)
        return NULL;
    int64_t sizes[TD_MAX_DIMS + 1], total;
    if (td_mul_checked(x->sizes[d], repeats, &total))
        return NULL;
    if (output_size && *output_size != total)
        return td_fail(TD_E_RUNTIME, "repeat_interleave: Invalid output_size, expected %" PRId64 " but got %" PRId64, total, *output_size);
    TD_AUTO td_tensor *more = td_unsqueeze(x, d + 1);
    if (!more)
        return NULL;
    memcpy(sizes, more->sizes, sizeof *sizes * more->ndim);
    sizes[d + 1] = repeats;
    TD_AUTO td_tensor *wide = td_expand(more, more->ndim, sizes);
    TD_AUTO td_tensor *copy = td_clone_format(wide, TD_CONTIGUOUS_FORMAT);
    return td_flatten_using_ints(copy, d, d + 1);
}

/* ---- diagonals */

/* Saturated: an offset that no tensor can have is refused when the result's shape is checked. */
static int64_t embedded_size(int64_t length, int64_t offset) { return td_add_saturated(length, offset < 0 ? td_sub_saturated(0, offset) : offset); }

int td_meta_diag_embed(td_spec *specs, td_tensor *self, int64_t offset, int64_t dim1, int64_t dim2)
{
    int ndim = self->ndim + 1, a = td_wrap_dim(dim1, ndim), b = a < 0 ? -1 : td_wrap_dim(dim2, ndim);
    if (b < 0)
        return -1;
    if (!self->ndim)
        return td_error(TD_E_INDEX, "Dimension specified as -1 but tensor has no dimensions");
    if (a == b)
        return td_error(TD_E_RUNTIME, "diagonal dimensions cannot be identical %" PRId64 ", %" PRId64, dim1, dim2);
    int64_t sizes[TD_MAX_DIMS + 1];
    for (int d = 0, k = 0; d < ndim; d++)
        sizes[d] = d == a || d == b ? embedded_size(self->sizes[self->ndim - 1], offset) : self->sizes[k++];
    return td_spec_set(specs, ndim, sizes, (td_dtype)self->dtype, self->device);
}
/* Zeros, with self copied to the diagonal view of the result.  A diagonal that is offset needs |offset| more rows and columns. */
int td_cpu_diag_embed(td_tensor *self, int64_t offset, int64_t dim1, int64_t dim2, td_tensor *out)
{
    TD_AUTO td_tensor *diagonal = td_fill_value(out, td_int(0)) ? NULL : td_op_diagonal(out, offset, dim1, dim2);
    return diagonal ? td_copy_elements(diagonal, self) : -1;
}
/* A vector becomes the diagonal of a matrix, a matrix gives its diagonal as a copy. */
td_tensor *td_op_diag(td_tensor *self, int64_t diagonal)
{
    if (self->ndim != 1 && self->ndim != 2)
        return td_fail(TD_E_RUNTIME, "diag(): Supports 1D or 2D tensors. Got %dD", self->ndim);
    if (self->ndim == 1)
        return td_diag_embed(self, diagonal, 0, 1);
    TD_AUTO td_tensor *view = td_diagonal(self, diagonal, 0, 1);
    return td_clone_format(view, TD_CONTIGUOUS_FORMAT);
}
td_tensor *td_op_diagflat(td_tensor *self, int64_t offset)
{
    TD_AUTO td_tensor *flat = td_reshape(self, 1, (int64_t[]){-1});
    return td_diag_embed(flat, offset, 0, 1);
}
td_tensor *td_op_linalg_diagonal(td_tensor *A, int64_t offset, int64_t dim1, int64_t dim2) { return td_diagonal(A, offset, dim1, dim2); }

/* ---- copies with a part replaced */

/* A copy with self's strides, gaps included; a plain one where elements share their memory or steps go backwards. */
static td_tensor *clone_as_it_lies(td_tensor *self)
{
    bool backwards = false, shared = false;
    for (int d = 0; d < self->ndim; d++) {
        backwards |= self->strides[d] < 0;
        shared |= self->sizes[d] > 1 && self->strides[d] == 0;
    }
    if (backwards || shared || td_has_layout(self) || self->numel == 0)
        return td_clone(self);
    TD_AUTO td_tensor *copy = td_new_empty_strided(self, self->ndim, self->sizes, self->ndim, self->strides, TD_DTYPE_NONE, TD_DEVICE_NONE);
    return copy && td_copy_from_(copy, self, false) == 0 ? td_ref(copy) : NULL;
}

/* A copy of the whole storage, seen as self sees it: positions in the storage mean the same. */
static td_tensor *clone_with_offset(td_tensor *self)
{
    bool shared = false;
    for (int d = 0; d < self->ndim; d++) {
        if (self->strides[d] < 0)
            return td_fail(TD_E_RUNTIME, "as_strided_scatter: self has the negative stride %" PRId64 "; pass a contiguous tensor", self->strides[d]);
        shared |= self->sizes[d] > 1 && self->strides[d] == 0;
    }
    if (shared)
        return td_clone_format(self, TD_CONTIGUOUS_FORMAT);
    int64_t offset = td_tensor_offset(self), whole = (int64_t)td_storage_nbytes(td_tensor_storage(self)) / td_itemsize(self);
    TD_AUTO td_tensor *span = td_as_strided(self, 1, &whole, 1, (int64_t[]){1}, (int64_t[]){0});
    TD_AUTO td_tensor *copy = td_clone(span);
    return td_as_strided(copy, self->ndim, self->sizes, self->ndim, self->strides, &offset);
}

/* The end of the *_scatter operators, which are select, slice and their like as functions without side effects: `copy` is self's copy,
 * `part` a view of it, where src is written.  NULL views are passed on. */
static td_tensor *replace(const char *op, td_tensor *copy, td_tensor *part, td_tensor *src)
{
    td_shape_text a, b;
    if (!part)
        return NULL;
    if (!copy->storage)         /* of these layouts a part is no view */
        return td_layout_refuse(op, copy);
    if (part->ndim != src->ndim || memcmp(part->sizes, src->sizes, sizeof *src->sizes * src->ndim))
        return td_fail(TD_E_RUNTIME, "expected src to have a size equal to the slice of self. src size = %s, slice size = %s",
                       td_shape_str(src->ndim, src->sizes, a), td_shape_str(part->ndim, part->sizes, b));
    return td_copy_from_(part, src, false) ? NULL : td_ref(copy);
}
/* copy_ and resize_ as functions. */
td_tensor *td_op_copied(td_tensor *self, td_tensor *src, bool non_blocking)
{
    TD_AUTO td_tensor *copy = clone_as_it_lies(self);
    return td_copy_from_(copy, src, non_blocking) ? NULL : td_ref(copy);
}
td_tensor *td_op_resized(td_tensor *self, int64_t n_size, const int64_t *size, td_memory_format format)
{
    if (self->keys & TD_KEYSET(TD_KEY_PARTS))       /* in place it would come back here */
        return td_layout_refuse("resize_", self);
    TD_AUTO td_tensor *copy = td_clone(self);
    return td_resize_(copy, n_size, size, format) ? NULL : td_ref(copy);
}
td_tensor *td_op_diagonal_scatter(td_tensor *self, td_tensor *src, int64_t offset, int64_t dim1, int64_t dim2)
{
    TD_AUTO td_tensor *copy = clone_as_it_lies(self);
    TD_AUTO td_tensor *part = td_diagonal(copy, offset, dim1, dim2);
    return replace("diagonal_scatter", copy, part, src);
}
td_tensor *td_op_select_scatter(td_tensor *self, td_tensor *src, int64_t dim, int64_t index)
{
    TD_AUTO td_tensor *copy = clone_as_it_lies(self);
    TD_AUTO td_tensor *part = td_select_int(copy, dim, index);
    return replace("select_scatter", copy, part, src);
}
td_tensor *td_op_slice_scatter(td_tensor *self, td_tensor *src, int64_t dim, const int64_t *start, const int64_t *end, int64_t step)
{
    TD_AUTO td_tensor *copy = clone_as_it_lies(self);
    TD_AUTO td_tensor *part = td_slice_tensor(copy, dim, start, end, step);
    return replace("slice_scatter", copy, part, src);
}
/* The copy has as much memory before its first element as self, so that offsets in the storage mean the same in both. */
td_tensor *td_op_as_strided_scatter(td_tensor *self, td_tensor *src, int64_t n_size, const int64_t *size, int64_t n_stride,
                                    const int64_t *stride, const int64_t *storage_offset)
{
    if (!self->storage)
        return td_layout_refuse("as_strided_scatter", self);
    if (td_requires_grad(self) && td_grad_enabled() && !td_tensor_is_contiguous(self))
        return td_fail(TD_E_RUNTIME, "as_strided_scatter is currently only supported for contiguous inputs");
    TD_AUTO td_tensor *copy = clone_with_offset(self);
    TD_AUTO td_tensor *part = td_as_strided(copy, n_size, size, n_stride, stride, storage_offset);
    TD_AUTO td_tensor *made = replace("as_strided_scatter", copy, part, src);
    return td_alias_detached(made, false);          /* no view of the copy's memory in front of it */
}
/* narrow as a copy, with the errors of PyTorch's own kernel, which checks in another order than narrow. */
td_tensor *td_op_narrow_copy(td_tensor *self, int64_t dim, int64_t start, int64_t length)
{
    if (self->ndim && dim >= self->ndim)
        return td_fail(TD_E_RUNTIME, "Expected dim < static_cast<int64_t>(self_sizes.size()) to be true, but got false.");
    int d = self->ndim ? td_wrap_dim(dim, self->ndim) : 0;
    if (d < 0)
        return NULL;
    if (self->ndim && length < 0)
        return td_fail(TD_E_RUNTIME, "start (%" PRId64 ") + length (%" PRId64 ") exceeds dimension size (%" PRId64 ").", start, length, self->sizes[d]);
    TD_AUTO td_tensor *part = td_narrow(self, dim, start, length);
    return td_clone_format(part, TD_CONTIGUOUS_FORMAT);
}
