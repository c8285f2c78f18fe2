/* The reverse of max pooling, and max pooling over windows at random positions: checks and shapes.
 *
 * max_unpool writes each element to the position that max pooling found it at, in a result of zeros.
 * fractional_max_pool (Graham, 2014) has windows of one size whose beginnings are spread at random, so that an output
 * may be any fraction of the input; `samples` are its random numbers. */
#include "calls_ops_nn_unpool.h"
#include <inttypes.h>
#include <string.h>
#include "ops/compose.h"
#include "ops/nn/pool.h"
#include "tensor/checked.h"

/* ---- max_unpool */

/* Indices are positions within the output's plane; the kernel checks each before it writes. */
static int unpool(td_spec *specs, td_pool_geometry *g, int dims, td_tensor *self, td_tensor *indices, const int64_t *output)
{
    td_shape_text a, b;
    if (indices->dtype != TD_I64)
        return dims == 2 ? td_error(TD_E_RUNTIME, "elements in indices should be type int64 but got: %s",
                                    td_dtype_title((td_dtype)indices->dtype))
            : td_error(TD_E_RUNTIME, "elements in indices should be type int64");
    if (self->ndim != dims + 1 && self->ndim != dims + 2)
        return td_error(TD_E_RUNTIME, "Input to max_unpooling%dd should be a %dd or %dd Tensor, but got a tensor with %d "
                        "dimensions.", dims, dims + 1, dims + 2, self->ndim);
    if (self->ndim != indices->ndim ||
        memcmp(self->sizes, indices->sizes, (size_t)self->ndim * sizeof(int64_t)))
        return td_error(TD_E_RUNTIME, "Expected shape of indices to be same as that of the input tensor (%s) but got "
                        "indices tensor with shape: %s", td_shape_str(self->ndim, self->sizes, a),
                        td_shape_str(indices->ndim, indices->sizes, b));
    for (int i = 1; i < self->ndim; i++)
        if (self->sizes[i] == 0)
            return td_error(TD_E_RUNTIME, "max_unpooling%dd_forward_out_cpu(): Expected input to have non-zero size for "
                            "non-batch dimensions, but got %s with dimension %d being empty.", dims,
                            td_shape_str(self->ndim, self->sizes, a), i);
    td_pool_planes(g, dims, self, output);
    if (!td_is_floating(self) && g->out_total && self->numel)       /* of nothing in any dtype */
        return td_error(TD_E_NOT_IMPLEMENTED, "\"max_unpool%dd\" not implemented for '%s'", dims,
                        td_dtype_title((td_dtype)self->dtype));
    return td_pool_spec(specs, self, g, (td_dtype)self->dtype);
}

int td_meta_max_unpool2d(td_spec *specs, td_pool_geometry *g, td_tensor *self, td_tensor *indices, int64_t n_output, const int64_t *output)
{
    if (n_output != 2)
        return td_error(TD_E_RUNTIME, "There should be exactly two elements (height, width) in output_size, but got %"
                        PRId64 " elements.", n_output);
    return unpool(specs, g, 2, self, indices, output);
}

/* Stride and padding are PyTorch's arguments, which it checks and has no use for: output gives the size. */
int td_meta_max_unpool3d(td_spec *specs, td_pool_geometry *g, td_tensor *self, td_tensor *indices, int64_t n_output, const int64_t *output,
                         int64_t n_stride, const int64_t *stride, int64_t n_padding, const int64_t *padding)
{
    (void)padding;
    td_shape_text text;
    static const char *const three = "There should be exactly three elements (depth, height, width) in";
    if (n_output != 3)
        return td_error(TD_E_RUNTIME, "%s output_size, but got %" PRId64 " elements.", three, n_output);
    if (n_stride != 3)
        return td_error(TD_E_RUNTIME, "%s stride, but got: %" PRId64 " elements.", three, n_stride);
    if (n_padding != 3)
        return td_error(TD_E_RUNTIME, "%s padding, but got: %" PRId64 " elements.", three, n_padding);
    if (stride[0] <= 0 || stride[1] <= 0 || stride[2] <= 0)
        return td_error(TD_E_RUNTIME, "strides should be greater than zero, but got stride: %s",
                        td_shape_str(3, stride, text));
    return unpool(specs, g, 3, self, indices, output);
}

/* ---- fractional_max_pool: one sample per channel and dimension */

/* More samples than the batch needs are accepted, as in PyTorch. */
static int check_samples(int dims, td_tensor *self, td_tensor *samples)
{
    int64_t batch = self->ndim == dims + 2 ? self->sizes[0] : 1, channels = self->sizes[self->ndim - dims - 1];
    if (samples->dtype != self->dtype)
        return td_error(TD_E_RUNTIME, "Expect _random_samples to have the same dtype as input");
    if (samples->ndim != 3)
        return td_error(TD_E_RUNTIME, "Expect _random_samples to have 3 dimensions, got %d", samples->ndim);
    if (samples->sizes[0] < batch)
        return td_error(TD_E_RUNTIME, "Expect _random_samples.size(0) no less then input batch size.");
    if (samples->sizes[1] != channels)
        return td_error(TD_E_RUNTIME, "Expect _random_samples.size(1) equals to input channel size.");
    if (samples->sizes[2] != dims)
        return td_error(TD_E_RUNTIME, "Expect _random_samples.size(2) equals to %d; got %" PRId64 ".", dims,
                        samples->sizes[2]);
    return 0;
}

/* output + kernel - 1 may be at most the input's size, so that windows that begin one element apart fit. Windows of
 * no size are remembered in `bad` and reported after PyTorch's own checks. */
static int fractional(td_spec *specs, td_pool_geometry *g, int dims, td_tensor *self, int64_t n_kernel, const int64_t *kernel,
                      int64_t n_output, const int64_t *output, td_tensor *samples)
{
    static const char *const names[3] = {"time", "height", "width"};
    const char *op = dims == 2 ? "fractional_max_pool2d" : "fractional_max_pool3d_out";
    td_shape_text text;
    int bad = -1;
    if (n_kernel != dims || n_output != dims)
        return td_error(TD_E_RUNTIME, "fractional_max_pool%dd: %s must either be a single Int or tuple of %sInts", dims,
                        n_kernel != dims ? "kernel_size" : "output_size", dims == 2 ? "" : "three ");
    if (self->ndim != dims + 1 && self->ndim != dims + 2)
        return td_error(TD_E_RUNTIME, "%s(): Expected %dD or %dD tensor, but got: %s", op, dims + 1, dims + 2,
                        td_shape_str(self->ndim, self->sizes, text));
    for (int i = self->ndim - dims - 1; i < self->ndim; i++)
        if (self->sizes[i] == 0)
            return td_error(TD_E_RUNTIME, "%s(): Expected input to have non-zero size for non-batch dimensions, but got%s "
                            "with dimension %d being empty.", op, td_shape_str(self->ndim, self->sizes, text), i);
    for (int i = 0; i < dims; i++) {
        int64_t in = self->sizes[self->ndim - dims + i];
        const char *name = names[3 - dims + i];
        bad = bad < 0 && (kernel[i] <= 0 || output[i] < 0) ? i : bad;
        if (output[i] > td_sub_saturated(in, td_sub_saturated(kernel[i], 1)))
            return td_error(TD_E_RUNTIME, "%s(): pool %s %" PRId64 " too large relative to input %s %" PRId64, op, name,
                            kernel[i], name, in);
    }
    if (bad >= 0)
        return td_error(TD_E_RUNTIME, "%s(): a window of size %" PRId64 " and %" PRId64 " windows along %s are not possible", op,
                        kernel[bad], output[bad], names[3 - dims + bad]);
    if (check_samples(dims, self, samples))
        return -1;
    if (!td_is_floating(self))
        return td_error(TD_E_NOT_IMPLEMENTED, "\"%s_frame\" not implemented for '%s'",
                        dims == 2 ? "fractional_max_pool2d_out" : op, td_dtype_title((td_dtype)self->dtype));
    td_pool_planes(g, dims, self, output);
    memcpy(g->kernel + 3 - dims, kernel, sizeof *kernel * (size_t)dims);
    td_pool_spec(&specs[1], self, g, TD_I64);
    return td_pool_spec(&specs[0], self, g, (td_dtype)self->dtype);
}

int td_meta_fractional_max_pool2d(td_spec *specs, td_pool_geometry *g, td_tensor *self, int64_t n_kernel, const int64_t *kernel,
                                  int64_t n_output, const int64_t *output, td_tensor *random_samples)
{
    return fractional(specs, g, 2, self, n_kernel, kernel, n_output, output, random_samples);
}

int td_meta_fractional_max_pool3d(td_spec *specs, td_pool_geometry *g, td_tensor *self, int64_t n_kernel, const int64_t *kernel,
                                  int64_t n_output, const int64_t *output, td_tensor *random_samples)
{
    return fractional(specs, g, 3, self, n_kernel, kernel, n_output, output, random_samples);
}
