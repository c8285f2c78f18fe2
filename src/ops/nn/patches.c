/* im2col and col2im: checks and shapes.
 *
 * im2col copies each position of a window to a column: [N, C, H, W] to [N, C * kernel, positions]; col2im adds
 * columns up where they came from. Each is the other's derivative. They are torch.nn.Unfold and Fold. col2im's form
 * for derivatives is columns_to_image, which has the image's whole shape as argument. */
#include "calls_ops_nn_patches.h"
#include <inttypes.h>
#include "ops/compose.h"
#include "tensor/checked.h"

typedef struct window {
    const int64_t *kernel, *dilation, *padding, *stride;
} window;

/* td_check_ints keeps all numbers to 32 bits, so kernel[0] * kernel[1] fits an int64. */
static int check_window(const window *w, int64_t n_kernel, int64_t n_dilation, int64_t n_padding, int64_t n_stride)
{
    if (n_kernel != 2 || n_dilation != 2 || n_padding != 2 || n_stride != 2)
        return td_error(TD_E_RUNTIME, "It is expected kernel_size, dilation, padding and stride equal to 2");
    if (td_check_ints(2, w->kernel) || td_check_ints(2, w->dilation) || td_check_ints(2, w->padding) || td_check_ints(2, w->stride))
        return -1;
    for (int i = 0; i < 2; i++) {
        if (w->kernel[i] <= 0)
            return td_error(TD_E_RUNTIME, "kernel size should be greater than zero, but got kernel_height: %" PRId64 " kernel_width: %" PRId64,
                            w->kernel[0], w->kernel[1]);
        if (w->dilation[i] <= 0)
            return td_error(TD_E_RUNTIME, "dilation should be greater than zero, but got dilation_height: %" PRId64 " dilation_width: %" PRId64,
                            w->dilation[0], w->dilation[1]);
        if (w->padding[i] < 0)
            return td_error(TD_E_RUNTIME, "padding should be non-negative, but got pad_height: %" PRId64 " pad_width: %" PRId64, w->padding[0],
                            w->padding[1]);
        if (w->stride[i] <= 0)
            return td_error(TD_E_RUNTIME, "stride should be greater than zero, but got stride_height: %" PRId64 " stride_width: %" PRId64,
                            w->stride[0], w->stride[1]);
    }
    return 0;
}

/* Positions of the window over an image; 0 if there are none. each gets the count along both dimensions. */
static int64_t positions(const window *w, const int64_t *image, int64_t *each)
{
    for (int i = 0; i < 2; i++) {
        int64_t room = td_window_room(image[i], w->padding[i], td_window_span(w->kernel[i], w->dilation[i]));
        each[i] = room < 0 ? 0 : td_add_saturated(room / w->stride[i], 1);
    }
    return td_mul_saturated(each[0], each[1]);
}

/* The same for windows that don't fit, which counts below zero: two such counts may multiply to what an input has.
 * The division rounds down, as PyTorch's div_rtn does. -1 if the product doesn't fit. */
static int64_t counts_below_zero(const window *w, const int64_t *image, int64_t *each)
{
    int64_t counts[2];
    for (int i = 0; i < 2; i++) {
        int64_t room = td_window_room(image[i], w->padding[i], td_window_span(w->kernel[i], w->dilation[i]));
        counts[i] = room / w->stride[i] - (room < 0 && room % w->stride[i] != 0);
        counts[i] = td_add_saturated(counts[i], 1);
    }
    int64_t product;
    if (__builtin_mul_overflow(counts[0], counts[1], &product))
        return -1;
    each[0] = counts[0], each[1] = counts[1];
    return product;
}

int td_meta_im2col(td_spec *specs, td_tensor *self, int64_t n_kernel, const int64_t *kernel, int64_t n_dilation,
                   const int64_t *dilation,
                   int64_t n_padding, const int64_t *padding, int64_t n_stride, const int64_t *stride)
{
    window w = {kernel, dilation, padding, stride};
    td_shape_text text;
    int64_t each[2];
    if (check_window(&w, n_kernel, n_dilation, n_padding, n_stride))
        return -1;
    bool fits = self->ndim == 3 || self->ndim == 4;
    for (int i = self->ndim == 4; fits && i < self->ndim; i++)
        fits = self->sizes[i] > 0;
    if (!fits)
        return td_error(TD_E_RUNTIME, "Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero dimensions for input, "
                        "but got: %s", td_shape_str(self->ndim, self->sizes, text));
    const int64_t *image = self->sizes + self->ndim - 2;
    if (positions(&w, image, each) < 1)
        return td_error(TD_E_RUNTIME, "Given input with spatial size (%" PRId64 ", %" PRId64 "), kernel_size=(%" PRId64 ", %" PRId64
                        "), dilation=(%" PRId64 ", %" PRId64 "), padding=(%" PRId64 ", %" PRId64 "), calculated shape of the array of sliding "
                        "blocks as (%" PRId64 ", %" PRId64 "), but its components must be at least one.", image[0],
                        image[1], kernel[0],
                        kernel[1], dilation[0], dilation[1], padding[0], padding[1], each[0], each[1]);
    int64_t rows, sizes[3] = {self->sizes[0], 0, positions(&w, image, each)};
    if (td_mul_checked(self->sizes[self->ndim - 3], kernel[0] * kernel[1], &rows))
        return -1;
    sizes[1] = rows;
    int skip = self->ndim == 3;
    return td_spec_set(specs, 3 - skip, sizes + skip, (td_dtype)self->dtype, self->device);
}

/* size is an image or a batch of them; the columns must have as many elements as its windows cover, counted with
 * saturation. */
int td_meta_columns_to_image(td_spec *specs, td_tensor *self, int64_t n_size, const int64_t *size, int64_t n_kernel,
                             const int64_t *kernel,
                             int64_t n_dilation, const int64_t *dilation, int64_t n_padding, const int64_t *padding,
                             int64_t n_stride,
                             const int64_t *stride)
{
    window w = {kernel, dilation, padding, stride};
    td_shape_text text, other;
    int64_t each[2], room = 1;
    if (check_window(&w, n_kernel, n_dilation, n_padding, n_stride))
        return -1;
    if (n_size != 3 && n_size != 4)
        return td_error(TD_E_RUNTIME, "columns_to_image: an image has 3 or 4 dimensions, not %" PRId64, n_size);
    for (int64_t d = 0; d < n_size; d++) {
        if (size[d] < 0)
            return td_error(TD_E_RUNTIME, "columns_to_image: a size is negative: %s", td_shape_str((int)n_size, size, text));
        room = d < n_size - 2 ? td_mul_saturated(room, size[d]) : room;
    }
    if (td_mul_saturated(td_mul_saturated(room, kernel[0] * kernel[1]), positions(&w, size + n_size - 2, each)) != self->numel)
        return td_error(TD_E_RUNTIME, "columns_to_image: columns %s don't make an image %s",
                        td_shape_str(self->ndim, self->sizes, text), td_shape_str((int)n_size, size, other));
    return td_spec_set(specs, (int)n_size, size, (td_dtype)self->dtype, self->device);
}

/* output is the image's height and width; channels follow from the rows, which are channels times the window's
 * elements. */
td_tensor *td_op_col2im(td_tensor *self, int64_t n_output, const int64_t *output, int64_t n_kernel,
                        const int64_t *kernel, int64_t n_dilation,
                        const int64_t *dilation, int64_t n_padding, const int64_t *padding, int64_t n_stride,
                        const int64_t *stride)
{
    window w = {kernel, dilation, padding, stride};
    td_shape_text text;
    int64_t each[2];
    if (n_output != 2)
        return td_fail(TD_E_RUNTIME, "It is expected output_size equals to 2, but got size %" PRId64, n_output);
    if (check_window(&w, n_kernel, n_dilation, n_padding, n_stride))
        return NULL;
    if ((self->ndim != 2 && self->ndim != 3) || self->sizes[self->ndim - 2] == 0 || self->sizes[self->ndim - 1] == 0)
        return td_fail(TD_E_RUNTIME, "Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and non-zero dimensions for input, "
                       "but got: %s", td_shape_str(self->ndim, self->sizes, text));
    int64_t rows = self->sizes[self->ndim - 2], block = kernel[0] * kernel[1], length = self->sizes[self->ndim - 1];
    if (rows % block)
        return td_fail(TD_E_RUNTIME, "Expected size of input's dimension 1 to be divisible by the product of kernel_size, but got input.size(1)=%"
                       PRId64 " and kernel_size=(%" PRId64 ", %" PRId64 ").", rows, kernel[0], kernel[1]);
    int64_t expected = positions(&w, output, each), below[2] = {0, 0};
    if (!expected && length == counts_below_zero(&w, output, below))
        return td_fail(TD_E_RUNTIME, "Given output_size=(%" PRId64 ", %" PRId64 "), kernel_size=(%" PRId64 ", %" PRId64 "), dilation=(%" PRId64
                       ", %" PRId64 "), padding=(%" PRId64 ", %" PRId64 "), stride=(%" PRId64 ", %" PRId64 "), calculated shape of the array "
                       "of sliding blocks as (%" PRId64 ", %" PRId64 "), which is too small (non-positive)", output[0], output[1], kernel[0],
                       kernel[1], dilation[0], dilation[1], padding[0], padding[1], stride[0], stride[1], below[0], below[1]);
    if (expected != length)
        return td_fail(TD_E_RUNTIME, "Given output_size=(%" PRId64 ", %" PRId64 "), kernel_size=(%" PRId64 ", %" PRId64 "), dilation=(%" PRId64
                       ", %" PRId64 "), padding=(%" PRId64 ", %" PRId64 "), stride=(%" PRId64 ", %" PRId64 "), expected size of input's dimension "
                       "2 to match the calculated number of sliding blocks %" PRId64 " * %" PRId64 " = %" PRId64 ", but got input.size(2)=%" PRId64
                       ".", output[0], output[1], kernel[0], kernel[1], dilation[0], dilation[1], padding[0],
                       padding[1], stride[0], stride[1],
                       each[0], each[1], expected, length);
    int64_t sizes[4] = {self->sizes[0], rows / block, output[0], output[1]};
    int skip = self->ndim == 2;
    return td_columns_to_image(self, 4 - skip, sizes + skip, 2, kernel, 2, dilation, 2, padding, 2, stride);
}
