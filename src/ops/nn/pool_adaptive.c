/* Pooling over as many windows as the result is to have elements: checks and shapes.  A window reaches from floor(o *
 * in / out) to ceil((o + 1) * in / out), so windows may overlap and differ in size by one.
 *
 * One dimension is two, the first of size 1, as in pool.c. */
#include "calls_ops_nn_pool_adaptive.h"
#include <inttypes.h>
#include <stdio.h>
#include "ops/compose.h"
#include "ops/nn/pool.h"

/* PyTorch writes a colon for max_pool. */
static int check_rank(const char *op, const char *colon, td_tensor *self, int dims)
{
    td_shape_text text;
    return self->ndim == dims + 1 || self->ndim == dims + 2 ? 0
        : td_error(TD_E_RUNTIME, "%s(): Expected %dD or %dD tensor, but got%s %s", op, dims + 1, dims + 2, colon,
                   td_shape_str(self->ndim, self->sizes, text));
}

static int check_extents(const char *op, td_tensor *self, int from)
{
    td_shape_text text;
    for (int i = from; i < self->ndim; i++)
        if (self->sizes[i] == 0)
            return td_error(TD_E_RUNTIME, "%s(): Expected input to have non-zero size for non-batch dimensions, but input has "
                            "sizes %s with dimension %d being empty", op, td_shape_str(self->ndim, self->sizes, text), i);
    return 0;
}

static int check_floating(const char *op, td_tensor *self)
{
    return td_is_floating(self) ? 0
        : td_error(TD_E_NOT_IMPLEMENTED, "\"%s\" not implemented for '%s'", op, td_dtype_title((td_dtype)self->dtype));
}

static int one_int(const char *op, int64_t n)
{
    return n == 1 ? 0
        : td_error(TD_E_RUNTIME, "%s() argument 'output_size' should contain one int (got %" PRId64 ")", op, n);
}

/* Sizes are written as they come; adaptive_max and adaptive_avg refuse those below 0. */
static int describe(td_spec *spec, td_pool_geometry *g, td_tensor *self, int64_t dims, const int64_t *output)
{
    if (dims > 3 || dims > self->ndim)
        return td_error(TD_E_RUNTIME, "adaptive pooling: output_size has %" PRId64 " numbers for %d dimensions", dims, self->ndim);
    td_pool_planes(g, (int)dims, self, output);
    g->adaptive = true;
    return td_pool_spec(spec, self, g, (td_dtype)self->dtype);
}

/* ---- the largest elements */

/* Both results are described before sizes are checked, because the error lists the result's shape. */
static int adaptive_max(td_spec *specs, td_pool_geometry *g, const char *op, const char *kernel, int dims, td_tensor *self, int64_t n_output,
                        const int64_t *output)
{
    td_shape_text text;
    if (check_rank(op, ":", self, dims) || check_extents(op, self, 1))
        return -1;
    if (n_output != dims)
        return td_error(TD_E_RUNTIME, "%s(): internal error: output_size.size() must be %d", op, dims);
    describe(&specs[0], g, self, dims, output);
    td_pool_spec(&specs[1], self, g, TD_I64);
    for (int i = 0; i < dims; i++)
        if (output[i] < 0)
            return td_error(TD_E_RUNTIME, "Trying to create tensor with negative dimension %" PRId64 ": %s", output[i],
                            td_shape_str(specs->ndim, specs->sizes, text));
    return check_floating(kernel, self);
}

int td_meta_adaptive_max_pool2d(td_spec *specs, td_pool_geometry *g, td_tensor *self, int64_t n_output, const int64_t *output)
{
    return adaptive_max(specs, g, "adaptive_max_pool2d", "adaptive_max_pool2d", 2, self, n_output, output);
}

int td_meta_adaptive_max_pool3d(td_spec *specs, td_pool_geometry *g, td_tensor *self, int64_t n_output, const int64_t *output)
{
    return adaptive_max(specs, g, "adaptive_max_pool3d", "adaptive_max_pool3d_cpu", 3, self, n_output, output);
}

int td_op_adaptive_max_pool1d(td_tensor **results, td_tensor *self, int64_t n_output, const int64_t *output)
{
    if (td_check_rank("adaptive_max_pool1d", self, 2, 3) || one_int("adaptive_max_pool1d", n_output) ||
        check_extents("adaptive_max_pool1d", self, 1))
        return -1;
    TD_AUTO td_tensor *x = td_unsqueeze(self, -2);
    td_tensor *wide[2];
    if (!x || td_adaptive_max_pool2d(wide, x, 2, (int64_t[]){1, output[0]}))
        return -1;
    return td_squeeze_pair(results, wide, -2);
}

/* ---- means */

int td_meta_adaptive_avg_windows(td_spec *specs, td_pool_geometry *g, td_tensor *self, int64_t n_output, const int64_t *output)
{
    return describe(specs, g, self, n_output, output);
}

/* adaptive pooling's gradient must not be empty, except in the batch; max_pool_backward has the check in common. */
int td_check_adaptive_grad(const char *kind, const td_tensor *grad, int dims)
{
    td_shape_text text;
    for (int d = grad->ndim - dims; d < grad->ndim; d++)
        if (d >= 0 && !grad->sizes[d])
            return td_error(TD_E_RUNTIME, "adaptive_%s_pool%dd_backward(): Expected grad_output to have non-zero size for non-batch "
                            "dimensions, but grad_output has sizes %s with dimension %d being empty", kind, dims,
                            td_shape_str(grad->ndim, grad->sizes, text), d);
    return 0;
}

int td_meta_adaptive_avg_backward(td_spec *specs, td_pool_geometry *g, td_tensor *grad, td_tensor *self, int64_t n_output,
                                  const int64_t *output)
{
    td_spec made;
    if (describe(&made, g, self, n_output, output) || td_check_adaptive_grad("avg", grad, (int)n_output) ||
        td_check_numel("adaptive_avg_backward", "grad", grad, td_spec_numel(&made)))
        return -1;
    td_spec_like(specs, self);
    return n_output == 2 ? td_pool_follow_format(specs, self, 2) : 0;
}

/* One element per plane is the mean over the last dimensions: no windows are needed. */
static td_tensor *adaptive_avg(const char *op, const char *kernel, int dims, td_tensor *self, int64_t n_output,
                               const int64_t *output)
{
    static const int64_t last[3] = {-1, -2, -3};
    bool ones = true, negative = false, nothing = false;
    if (n_output != dims)
        return td_fail(TD_E_RUNTIME, "%s: output_size must be %d", op, dims);
    for (int i = 0; i < dims; i++)
        ones &= output[i] == 1, negative |= output[i] < 0, nothing |= dims == 2 && output[i] == 0;
    if (negative) {
        const char *words = "%s: elements of output_size must be greater than or equal to 0 but received ";
        char text[160];
        snprintf(text, sizeof text, words, op);
        return dims == 2 ? td_fail(TD_E_RUNTIME, "%s{%" PRId64 ", %" PRId64 "}", text, output[0], output[1])
            : td_fail(TD_E_RUNTIME, "%s{%" PRId64 ", %" PRId64 ",%" PRId64 "}", text, output[0], output[1], output[2]);
    }
    if (ones)          /* PyTorch takes any rank then, too */
        return td_mean_dims(self, dims, last, true, TD_DTYPE_NONE);
    if (check_rank(op, "", self, dims) || check_extents(op, self, dims == 2 ? self->ndim - 2 : 1) ||
        (self->numel && !nothing && check_floating(kernel, self)))
        return NULL;
    return td_adaptive_avg_windows(self, n_output, output);
}

/* The windows' gradients, as many along each dimension as grad has elements. */
static td_tensor *adaptive_avg_backward(const char *op, int dims, td_tensor *grad, td_tensor *self)
{
    if (check_rank(op, "", self, dims))
        return NULL;
    if (grad->ndim != self->ndim)
        return td_fail(TD_E_RUNTIME, "%s: Expected grad_output to have %d dimensions, as self has, but got %d", op, self->ndim, grad->ndim);
    return td_adaptive_avg_backward(grad, self, dims, grad->sizes + grad->ndim - dims);
}
td_tensor *td_op__adaptive_avg_pool2d_backward(td_tensor *grad, td_tensor *self)
{
    return adaptive_avg_backward("_adaptive_avg_pool2d_backward", 2, grad, self);
}
td_tensor *td_op__adaptive_avg_pool3d_backward(td_tensor *grad, td_tensor *self)
{
    return adaptive_avg_backward("_adaptive_avg_pool3d_backward", 3, grad, self);
}

td_tensor *td_op_adaptive_avg_pool2d(td_tensor *self, int64_t n_output, const int64_t *output)
{
    return adaptive_avg("adaptive_avg_pool2d", "adaptive_avg_pool2d", 2, self, n_output, output);
}

td_tensor *td_op_adaptive_avg_pool3d(td_tensor *self, int64_t n_output, const int64_t *output)
{
    return adaptive_avg("adaptive_avg_pool3d", "adaptive_avg_pool3d_cpu", 3, self, n_output, output);
}

td_tensor *td_op_adaptive_avg_pool1d(td_tensor *self, int64_t n_output, const int64_t *output)
{
    if (td_check_rank("adaptive_avg_pool1d", self, 2, 3) || one_int("adaptive_avg_pool1d", n_output))
        return NULL;
    TD_AUTO td_tensor *x = td_unsqueeze(self, -2);
    TD_AUTO td_tensor *y = td_adaptive_avg_pool2d(x, 2, (int64_t[]){1, output[0]});
    return td_squeeze_dim(y, -2);
}
