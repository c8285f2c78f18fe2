/* Padding with elements of the tensor itself: mirrored (reflection_pad), repeated at the edges (replication_pad), or all of it around
 * itself (circular).  Shapes, checks and PyTorch's messages of torch.nn.functional.pad; pad_edges itself, one operator for up to three
 * dimensions, has its kernel in src/kernels/cpu/move/pad.c.  Paddings come in pairs (before, behind), the last dimension first;
 * negative ones cut off. */
#include "calls_ops_shape_pad_edges.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "dispatch/outputs.h"
#include "ops/compose.h"
#include "tensor/checked.h"

/* Of pad_edges of self.  Sums saturate, so that sizes beyond int64 stay too large instead of wrapping.  A mirror shows less than the
 * whole dimension, the edge element not included, so paddings must be smaller than it. */
static int describe(td_spec *spec, td_pad_geometry *g, td_tensor *self, int64_t n_pad, const int64_t *pad, int64_t mode)
{
    td_shape_text text;
    if (mode < TD_PAD_REFLECT || mode > TD_PAD_CIRCULAR)
        return td_error(TD_E_RUNTIME, "pad_edges: there is no mode %" PRId64, mode);
    if (n_pad % 2 || n_pad / 2 > 3 || n_pad / 2 > self->ndim)
        return td_error(TD_E_RUNTIME, "pad_edges: %" PRId64 " numbers for %d dimensions", n_pad, self->ndim);
    td_spec_like(spec, self);
    *g = (td_pad_geometry){.dims = (int)n_pad / 2, .mode = (td_padding_mode)mode, .in = {1, 1, 1}, .out = {1, 1, 1}, .in_total = 1, .out_total = 1};
    for (int i = 2, d = self->ndim - 1; i >= 3 - g->dims; i--, d--, pad += 2) {
        g->before[i] = pad[0], g->behind[i] = pad[1], g->in[i] = self->sizes[d];
        spec->sizes[d] = g->out[i] = td_add_saturated(td_add_saturated(g->in[i], pad[0]), pad[1]);
        g->in_total = td_mul_saturated(g->in_total, g->in[i]), g->out_total = td_mul_saturated(g->out_total, g->out[i]);
    }
    for (int i = 0; i < self->ndim; i++)
        if (!self->sizes[i] && spec->sizes[i] > 0)
            return td_error(TD_E_RUNTIME, "pad_edges: dimension %d has no elements to pad with", i);
        else if (spec->sizes[i] < 0)
            return td_error(TD_E_RUNTIME, "Trying to create tensor with negative dimension %" PRId64 ": %s", spec->sizes[i],
                            td_shape_str(spec->ndim, spec->sizes, text));
    for (int i = 3 - g->dims; i < 3; i++) {         /* what all callers but those by name have seen to */
        const int64_t size = g->in[i], before = g->before[i], behind = g->behind[i];
        const int64_t left = td_add_saturated(td_add_saturated(size, before < 0 ? before : 0), behind < 0 ? behind : 0);
        if (g->out[i] > 0 && (mode == TD_PAD_REFLECT ? before >= size || behind >= size : mode == TD_PAD_CIRCULAR && left < 1))
            return td_error(TD_E_RUNTIME, "pad_edges: a dimension of %" PRId64 " elements has none for a padding of %" PRId64 " and %" PRId64,
                            size, before, behind);
    }
    g->planes = td_numel_checked(self->ndim - g->dims, self->sizes);
    return g->planes < 0 ? -1 : 0;
}

int td_meta_pad_edges(td_spec *specs, td_pad_geometry *g, td_tensor *self, int64_t n_pad, const int64_t *pad, int64_t mode)
{
    return describe(specs, g, self, n_pad, pad, mode);
}

/* The gradient has self's shape; grad must have as many elements as the padded result. */
int td_meta_pad_edges_backward(td_spec *specs, td_pad_geometry *g, td_tensor *grad, td_tensor *self, int64_t n_pad, const int64_t *pad,
                               int64_t mode)
{
    td_spec made;
    if (describe(&made, g, self, n_pad, pad, mode) || td_check_numel("pad_edges_backward", "grad", grad, td_spec_numel(&made)))
        return -1;
    td_spec_like(specs, self);
    if (mode != TD_PAD_CIRCULAR)
        td_lay_results(1, specs, 1, &self);
    return 0;
}

/* "D: 3 H: 4, W: 5", with PyTorch's commas. */
static const char *named(int dims, const int64_t *sizes, const char *comma, char *text, size_t room)
{
    int at = 0;
    for (int i = 0; i < dims; i++)
        at += snprintf(text + at, room - (size_t)at, "%s%c: %" PRId64, i == 0 ? "" : i == dims - 1 ? comma : " ",
                       "DHW"[3 - dims + i], sizes[i]);
    return text;
}

/* The operators of fixed rank: `dims` dimensions, behind channels and perhaps a batch, with PyTorch's words for each mistake. */
static td_tensor *pad_edges(const char *op, int dims, int mode, td_tensor *self, int64_t n_pad, const int64_t *pad)
{
    td_shape_text text;
    char in[100], out[100];
    int n = self->ndim;
    bool fits = n == dims + 1 || n == dims + 2, room = false;
    for (int i = n - dims - 1; fits && i < n; i++)
        fits = self->sizes[i] > 0;
    if (n_pad != 2 * dims)
        return td_fail(TD_E_RUNTIME, "padding size is expected to be %d, but got: %" PRId64, 2 * dims, n_pad);
    if (!fits)
        return td_fail(TD_E_RUNTIME, "Expected %dD or %dD (batch mode) tensor with possibly 0 batch size and other non-zero "
                       "dimensions for input, but got: %s", dims + 1, dims + 2, td_shape_str(n, self->sizes, text));
    int64_t sizes[3];       /* of the result's padded dimensions, in their order; the message names them D, H, W */
    for (int i = 0; i < dims; i++) {
        int64_t size = self->sizes[n - 1 - i], before = pad[2 * i], behind = pad[2 * i + 1];
        /* A mirror shows no element twice; the message counts arguments as PyTorch's kernel does. */
        if (mode == TD_PAD_REFLECT && (before >= size || behind >= size))
            return td_fail(TD_E_RUNTIME, "Argument #%d: Padding size should be less than the corresponding input dimension, but "
                           "got: padding (%" PRId64 ", %" PRId64 ") at dimension %d of input %s", 4 + 2 * i, before, behind,
                           n - 1 - i, td_shape_str(n, self->sizes, text));
        sizes[dims - 1 - i] = td_add_saturated(td_add_saturated(size, before), behind);
        room |= sizes[dims - 1 - i] >= 1;
    }
    if (!room)
        return td_fail(TD_E_RUNTIME, "input (%s%s) is too small. Calculated output %s",
                       named(dims, self->sizes + n - dims, ", ", in, sizeof in), dims == 2 && mode == TD_PAD_REPLICATE ? " " : "",
                       named(dims, sizes, " ", out, sizeof out));
    if (self->dtype == TD_BOOL)
        return td_fail(TD_E_NOT_IMPLEMENTED, "\"%s\" not implemented for 'Bool'", op);
    return td_pad_edges(self, n_pad, pad, mode);
}

/* reflection_pad1d to 3d, replication_pad1d to 3d. */
#define PADS(n)                                                                                \
    td_tensor *td_op_reflection_pad##n##d(td_tensor *self, int64_t n_pad, const int64_t *pad)  \
    {                                                                                          \
        return pad_edges("reflection_pad" #n "d", n, TD_PAD_REFLECT, self, n_pad, pad);               \
    }                                                                                          \
    td_tensor *td_op_replication_pad##n##d(td_tensor *self, int64_t n_pad, const int64_t *pad) \
    {                                                                                          \
        return pad_edges("replication_pad" #n "d", n, TD_PAD_REPLICATE, self, n_pad, pad);            \
    }
PADS(1)
PADS(2)
PADS(3)

/* What is wrapped around comes from the dimension once: paddings are no larger than it. */
td_tensor *td_op__pad_circular(td_tensor *self, int64_t n_pad, const int64_t *pad)
{
    if (n_pad / 2 + 2 != self->ndim && n_pad / 2 + 1 != self->ndim)
        return td_fail(TD_E_RUNTIME, "Invalid padding size, expected %d but got %" PRId64, (self->ndim - 2) * 2, n_pad);
    for (int64_t i = 0; i < n_pad / 2; i++) {
        int64_t size = self->sizes[self->ndim - 1 - i], before = pad[2 * i], behind = pad[2 * i + 1];
        int64_t kept = td_add_saturated(td_add_saturated(size, before < 0 ? before : 0), behind < 0 ? behind : 0);
        int64_t padded = td_add_saturated(td_add_saturated(size, before), behind);
        if (before > size || behind > size)
            return td_fail(TD_E_RUNTIME, "Padding value causes wrapping around more than once.");
        if (padded < 0)
            return td_fail(TD_E_RUNTIME, "Negative padding value is resulting in an empty dimension");
        if (kept <= 0 && padded > 0)
            return td_fail(TD_E_RUNTIME, "_pad_circular: padding %" PRId64 " and %" PRId64 " leave nothing of size %" PRId64
                           " to repeat", before, behind, size);
    }
    return td_pad_edges(self, n_pad, pad, TD_PAD_CIRCULAR);
}

/* torch.nn.functional.pad: the operator by mode and number of dimensions.  Only constant padding takes any number of them. */
td_tensor *td_op_pad_mode(td_tensor *self, int64_t n_pad, const int64_t *pad, const char *mode, const double *value)
{
    static const struct { const char *name; td_tensor *(*pad[3])(td_tensor *, int64_t, const int64_t *); } modes[] = {
        {"reflect", {td_reflection_pad1d, td_reflection_pad2d, td_reflection_pad3d}},
        {"replicate", {td_replication_pad1d, td_replication_pad2d, td_replication_pad3d}},
        {"circular", {td__pad_circular, td__pad_circular, td__pad_circular}}};
    if (n_pad % 2)
        return td_fail(TD_E_RUNTIME, "Padding length must be divisible by 2");
    if (n_pad > 2 * self->ndim)
        return td_fail(TD_E_RUNTIME, "Padding length should be less than or equal to two times the input dimension but got "
                       "padding length %" PRId64 " and input of dimension %d", n_pad, self->ndim);
    if (!strcmp(mode, "constant"))
        return td_constant_pad_nd(self, n_pad, pad, td_float(value ? *value : 0));
    if (value && *value != 0)
        return td_fail(TD_E_RUNTIME, "Padding mode \"%s\" doesn't take in value argument", mode);
    int64_t dims = n_pad / 2;       /* padded ones, in front of which there are channels, or a batch and channels */
    for (int i = 0; i < 3; i++)
        if (!strcmp(mode, modes[i].name)) {
            if (dims >= 1 && dims <= 3 && (self->ndim == dims + 1 || self->ndim == dims + 2))
                return modes[i].pad[dims - 1](self, n_pad, pad);
            return td_fail(TD_E_NOT_IMPLEMENTED, "Padding size %" PRId64 " is not supported for %dD input tensor.\n"
                           "Supported combinations for non-constant padding:\n"
                           "  - 2D or 3D input: padding size = 2 (pads last dimension)\n"
                           "  - 3D or 4D input: padding size = 4 (pads last 2 dimensions)\n"
                           "  - 4D or 5D input: padding size = 6 (pads last 3 dimensions)", n_pad, self->ndim);
        }
    return td_fail(TD_E_NOT_IMPLEMENTED, "Unrecognised padding mode %s", mode);
}
