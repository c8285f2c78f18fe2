/* im2col and col2im: checks and shapes.
 *
 * im2col copies each position of a window to a column: [N, C, H, W] to [N, C * kernel, positions]; col2im adds
 * columns up where they came from. Each is the other's derivative. They are torch.nn.Unfold and Fold. col2im's form
 * for derivatives is columns_to_image, which has the image's whole shape as argument. */
#include "calls_ops_nn_patches.h"
#include <inttypes.h>
#include "ops/compose.h"
#include "tensor/checked.h"

#define NUMBERS                                                                                            \
    int64_t n_kernel, const int64_t *kernel, int64_t n_dilation, const int64_t *dilation, int64_t n_padding, \
    const int64_t *padding, int64_t n_stride, const int64_t *stride
#define GIVEN n_kernel, kernel, n_dilation, dilation, n_padding, padding, n_stride, stride

/* Windows, and how many there are over an image; 0 if none fits. td_check_ints keeps all numbers to 32 bits, so kernel[0] *
 * kernel[1] fits an int64. */
static int windows(td_conv_geometry *g, NUMBERS)
{
    if (n_kernel != 2 || n_dilation != 2 || n_padding != 2 || n_stride != 2)
        return td_error(TD_E_RUNTIME, "It is expected kernel_size, dilation, padding and stride equal to 2");
    if (td_check_ints(2, kernel) || td_check_ints(2, dilation) || td_check_ints(2, padding) || td_check_ints(2, stride))
        return -1;
    const struct { const char *what, *rule, *name; const int64_t *values; int64_t least; } lists[] = {
        {"kernel size", "greater than zero", "kernel", kernel, 1}, {"dilation", "greater than zero", "dilation", dilation, 1},
        {"padding", "non-negative", "pad", padding, 0}, {"stride", "greater than zero", "stride", stride, 1}};
    for (int i = 0; i < 4; i++)
        if (lists[i].values[0] < lists[i].least || lists[i].values[1] < lists[i].least)
            return td_error(TD_E_RUNTIME, "%s should be %s, but got %s_height: %" PRId64 " %s_width: %" PRId64, lists[i].what, lists[i].rule,
                            lists[i].name, lists[i].values[0], lists[i].name, lists[i].values[1]);
    *g = (td_conv_geometry){.dims = 2, .groups = 1, .in = {1}, .out = {1}, .kernel = {1, kernel[0], kernel[1]},
                            .stride = {1, stride[0], stride[1]}, .padding = {0, padding[0], padding[1]},
                            .dilation = {1, dilation[0], dilation[1]}};
    return 0;
}
static void positions(td_conv_geometry *g, int64_t batch, int64_t channels, const int64_t *image)
{
    g->batch = batch, g->cin = channels;
    for (int i = 1; i < 3; i++) {
        const int64_t room = td_window_room(image[i - 1], g->padding[i], td_window_span(g->kernel[i], g->dilation[i]));
        g->in[i] = image[i - 1], g->out[i] = room < 0 ? 0 : td_add_saturated(room / g->stride[i], 1);
    }
    g->in_total = td_mul_saturated(g->in[1], g->in[2]), g->out_total = td_mul_saturated(g->out[1], g->out[2]);
    g->k = td_mul_saturated(channels, g->kernel[1] * g->kernel[2]);
}

/* The same for windows that don't fit, which counts below zero: two such counts may multiply to what an input has.
 * The division rounds down, as PyTorch's div_rtn does. -1 if the product doesn't fit. */
static int64_t counts_below_zero(const td_conv_geometry *g, int64_t *each)
{
    int64_t counts[2], product;
    for (int i = 0; i < 2; i++) {
        const int64_t s = g->stride[i + 1];
        int64_t room = td_window_room(g->in[i + 1], g->padding[i + 1], td_window_span(g->kernel[i + 1], g->dilation[i + 1]));
        counts[i] = td_add_saturated(room / s - (room < 0 && room % s != 0), 1);
    }
    if (__builtin_mul_overflow(counts[0], counts[1], &product))
        return -1;
    each[0] = counts[0], each[1] = counts[1];
    return product;
}

int td_meta_im2col(td_spec *specs, td_conv_geometry *g, td_tensor *self, NUMBERS)
{
    td_shape_text text;
    if (windows(g, GIVEN))
        return -1;
    bool fits = self->ndim == 3 || self->ndim == 4;
    for (int i = self->ndim == 4; fits && i < self->ndim; i++)
        fits = self->sizes[i] > 0;
    if (!fits)
        return td_error(TD_E_RUNTIME, "Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero dimensions for input, "
                        "but got: %s", td_shape_str(self->ndim, self->sizes, text));
    const int64_t *image = self->sizes + self->ndim - 2;
    positions(g, self->ndim == 4 ? self->sizes[0] : 1, image[-1], image);
    if (g->out_total < 1)
        return td_error(TD_E_RUNTIME, "Given input with spatial size (%" PRId64 ", %" PRId64 "), kernel_size=(%" PRId64 ", %" PRId64
                        "), dilation=(%" PRId64 ", %" PRId64 "), padding=(%" PRId64 ", %" PRId64 "), calculated shape of the array of sliding "
                        "blocks as (%" PRId64 ", %" PRId64 "), but its components must be at least one.", image[0], image[1], kernel[0],
                        kernel[1], dilation[0], dilation[1], padding[0], padding[1], g->out[1], g->out[2]);
    int64_t rows, sizes[3] = {self->sizes[0], 0, g->out_total};
    if (td_mul_checked(g->cin, kernel[0] * kernel[1], &rows))
        return -1;
    sizes[1] = rows;
    const int skip = self->ndim == 3;
    return td_spec_set(specs, 3 - skip, sizes + skip, (td_dtype)self->dtype, self->device);
}

/* size is an image or a batch of them; the columns must have as many elements as its windows cover, counted with
 * saturation. */
int td_meta_columns_to_image(td_spec *specs, td_conv_geometry *g, td_tensor *self, int64_t n_size, const int64_t *size, NUMBERS)
{
    td_shape_text text, other;
    if (windows(g, GIVEN))
        return -1;
    if (n_size != 3 && n_size != 4)
        return td_error(TD_E_RUNTIME, "columns_to_image: an image has 3 or 4 dimensions, not %" PRId64, n_size);
    for (int64_t d = 0; d < n_size; d++)
        if (size[d] < 0)
            return td_error(TD_E_RUNTIME, "columns_to_image: a size is negative: %s", td_shape_str((int)n_size, size, text));
    positions(g, n_size == 4 ? size[0] : 1, size[n_size - 3], size + n_size - 2);
    if (td_mul_saturated(td_mul_saturated(g->batch, g->k), g->out_total) != self->numel)
        return td_error(TD_E_RUNTIME, "columns_to_image: columns %s don't make an image %s",
                        td_shape_str(self->ndim, self->sizes, text), td_shape_str((int)n_size, size, other));
    return td_spec_set(specs, (int)n_size, size, (td_dtype)self->dtype, self->device);
}

/* output is the image's height and width; channels follow from the rows, which are channels times the window's
 * elements. */
td_tensor *td_op_col2im(td_tensor *self, int64_t n_output, const int64_t *output, NUMBERS)
{
    td_conv_geometry g;
    td_shape_text text;
    if (n_output != 2)
        return td_fail(TD_E_RUNTIME, "It is expected output_size equals to 2, but got size %" PRId64, n_output);
    if (windows(&g, GIVEN))
        return NULL;
    if ((self->ndim != 2 && self->ndim != 3) || self->sizes[self->ndim - 2] == 0 || self->sizes[self->ndim - 1] == 0)
        return td_fail(TD_E_RUNTIME, "Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and non-zero dimensions for input, "
                       "but got: %s", td_shape_str(self->ndim, self->sizes, text));
    int64_t rows = self->sizes[self->ndim - 2], block = kernel[0] * kernel[1], length = self->sizes[self->ndim - 1];
    if (rows % block)
        return td_fail(TD_E_RUNTIME, "Expected size of input's dimension 1 to be divisible by the product of kernel_size, but got input.size(1)=%"
                       PRId64 " and kernel_size=(%" PRId64 ", %" PRId64 ").", rows, kernel[0], kernel[1]);
    int64_t below[2] = {0, 0};
    positions(&g, self->ndim == 3 ? self->sizes[0] : 1, rows / block, output);
    if (!g.out_total && length == counts_below_zero(&g, below))
        return td_fail(TD_E_RUNTIME, "Given output_size=(%" PRId64 ", %" PRId64 "), kernel_size=(%" PRId64 ", %" PRId64 "), dilation=(%" PRId64
                       ", %" PRId64 "), padding=(%" PRId64 ", %" PRId64 "), stride=(%" PRId64 ", %" PRId64 "), calculated shape of the array "
                       "of sliding blocks as (%" PRId64 ", %" PRId64 "), which is too small (non-positive)", output[0], output[1], kernel[0],
                       kernel[1], dilation[0], dilation[1], padding[0], padding[1], stride[0], stride[1], below[0], below[1]);
    if (g.out_total != length)
        return td_fail(TD_E_RUNTIME, "Given output_size=(%" PRId64 ", %" PRId64 "), kernel_size=(%" PRId64 ", %" PRId64 "), dilation=(%" PRId64
                       ", %" PRId64 "), padding=(%" PRId64 ", %" PRId64 "), stride=(%" PRId64 ", %" PRId64 "), expected size of input's dimension "
                       "2 to match the calculated number of sliding blocks %" PRId64 " * %" PRId64 " = %" PRId64 ", but got input.size(2)=%" PRId64
                       ".", output[0], output[1], kernel[0], kernel[1], dilation[0], dilation[1], padding[0],
                       padding[1], stride[0], stride[1],
                       g.out[1], g.out[2], g.out_total, length);
    int64_t sizes[4] = {self->sizes[0], rows / block, output[0], output[1]};
    int skip = self->ndim == 2;
    return td_columns_to_image(self, 4 - skip, sizes + skip, GIVEN);
}
