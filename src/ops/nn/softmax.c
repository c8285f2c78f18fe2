/* softmax and log_softmax: checks and shapes, and the forms with an optional dtype.
 *
 * The kernels subtract the largest element of a slice first, so exp() sees nothing above zero. A tensor without
 * dimensions is one slice of one element, hence dim 0 and -1 are allowed. The error for a dtype names the kernel that
 * PyTorch would have used, which depends on dim being the last. */
#include "calls_ops_nn_softmax.h"
#include "ops/compose.h"

static int meta(td_spec *spec, const char *op, td_tensor *self, int64_t dim, bool half_to_float)
{
    if (td_wrap_dim(dim, self->ndim ? self->ndim : 1) < 0)
        return -1;
    if (!td_is_floating(self) && self->numel) {
        bool last = self->ndim == 0 || dim == -1 || dim == self->ndim - 1;
        return td_error(TD_E_NOT_IMPLEMENTED, "\"%s_%skernel_impl\" not implemented for '%s'", op,
                        last ? "lastdim_" : "",
                        td_dtype_title((td_dtype)self->dtype));
    }
    if (half_to_float)
        return td_error(TD_E_RUNTIME, "%s with half to float conversion is not supported on CPU", op);
    return td_spec_like(spec, self);
}

int td_meta__softmax(td_spec *specs, td_tensor *self, int64_t dim, bool half_to_float)
{
    return meta(specs, "softmax", self, dim, half_to_float);
}

int td_meta__log_softmax(td_spec *specs, td_tensor *self, int64_t dim, bool half_to_float)
{
    return meta(specs, "log_softmax", self, dim, half_to_float);
}

/* What the softmax derivative needs is its output alone: y (g - sum(y g)), and g - exp(y) sum(g) for log_softmax. */
static int meta_backward(td_spec *spec, const char *op, td_tensor *grad, td_tensor *output, int64_t dim)
{
    bool same = grad->ndim == output->ndim;
    for (int i = 0; same && i < grad->ndim; i++)
        same = grad->sizes[i] == output->sizes[i];
    if (!same)
        return td_error(TD_E_RUNTIME, "%s: the gradient's shape must be the output's", op);
    if (!td_is_floating(grad))
        return td_error(TD_E_NOT_IMPLEMENTED, "\"%s\" not implemented for '%s'", op, td_dtype_title((td_dtype)grad->dtype));
    if (grad->dtype != output->dtype)
        return td_error(TD_E_RUNTIME, "expected scalar type %s but found %s", td_dtype_title((td_dtype)grad->dtype),
                        td_dtype_title((td_dtype)output->dtype));
    return td_wrap_dim(dim, output->ndim ? output->ndim : 1) < 0 ? -1 : td_spec_like(spec, output);
}

int td_meta__softmax_backward_data(td_spec *specs, td_tensor *grad, td_tensor *output, int64_t dim,
                                   td_dtype input_dtype)
{
    (void)input_dtype;
    return meta_backward(specs, "softmax_backward", grad, output, dim);
}

int td_meta__log_softmax_backward_data(td_spec *specs, td_tensor *grad, td_tensor *output, int64_t dim,
                                       td_dtype input_dtype)
{
    (void)input_dtype;
    return meta_backward(specs, "log_softmax_backward", grad, output, dim);
}

/* The conversion comes before the kernel and records, so a gradient arrives in self's dtype. */
static td_tensor *converted(td_tensor *self, td_dtype dtype)
{
    return dtype == TD_DTYPE_NONE ? td_ref(self) : td_to_dtype(self, dtype, false, false, TD_MEMORY_FORMAT_NONE);
}

td_tensor *td_op_softmax_int(td_tensor *self, int64_t dim, td_dtype dtype)
{
    TD_AUTO td_tensor *x = converted(self, dtype);
    return td__softmax(x, dim, false);
}

td_tensor *td_op_log_softmax_int(td_tensor *self, int64_t dim, td_dtype dtype)
{
    TD_AUTO td_tensor *x = converted(self, dtype);
    return td__log_softmax(x, dim, false);
}

/* A slice of -inf throughout has no largest finite element: softmax gives NaN, which attention with such a mask means
 * as 0. */
td_tensor *td_op__safe_softmax(td_tensor *self, int64_t dim, td_dtype dtype)
{
    TD_AUTO td_tensor *y = td_softmax_int(self, dim, dtype), *zero = td_wrapped_number(td_int(0));
    TD_AUTO td_tensor *least = td_wrapped_number(td_float(-(double)__builtin_inff()));
    TD_AUTO td_tensor *masked = td_eq_tensor(self, least);
    TD_AUTO td_tensor *lost = td_all_dim(masked, dim, true);
    return td_where_self(lost, zero, y);
}
