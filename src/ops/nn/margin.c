/* Losses with a margin between the classes of a sample: checks and shapes. */
#include "calls_ops_nn_margin.h"
#include <inttypes.h>
#include <string.h>
#include "ops/compose.h"

/* A vector is one sample; without dimensions it is one of one class. */
static int check_samples(td_tensor *self)
{
    td_shape_text text;
    bool fits = self->ndim < 2 ? self->numel > 0 : self->ndim == 2 && self->sizes[1] > 0;
    return fits ? 0
        : td_error(TD_E_RUNTIME, "Expected non-empty vector or matrix with optional 0-dim batch size, but got: %s",
                   td_shape_str(self->ndim, self->sizes, text));
}

static int check_types(const char *kernel, td_tensor *self, td_tensor *target, td_tensor *weight)
{
    if (self->dtype != TD_F32 && self->dtype != TD_F64)
        return td_error(TD_E_NOT_IMPLEMENTED, "\"%s\" not implemented for '%s'", kernel,
                        td_dtype_title((td_dtype)self->dtype));
    if (target->dtype != TD_I64)
        return td_error(TD_E_RUNTIME, "expected scalar type Long but found %s", td_dtype_title((td_dtype)target->dtype));
    if (weight != TD_NONE && weight->dtype != self->dtype)
        return td_error(TD_E_RUNTIME, "expected scalar type %s but found %s", td_dtype_title((td_dtype)self->dtype),
                        td_dtype_title((td_dtype)weight->dtype));
    return 0;
}

/* ---- multi_margin_loss */

/* The sum over j != y of max(0, margin - x[y] + x[j])^p, divided by the number of classes, times the weight of class
 * y. A single sample has a target without dimensions, or of one element. */
static int check_multi_margin(td_tensor *self, td_tensor *target, td_scalar p, td_tensor *weight)
{
    td_shape_text a, b;
    double power = td_scalar_double(p);
    if (power != 1 && power != 2)
        return td_error(TD_E_RUNTIME, "only p == 1 and p == 2 supported");
    if (check_samples(self))
        return -1;
    int64_t samples = self->ndim == 2 ? self->sizes[0] : 1, classes = self->ndim ? self->sizes[self->ndim - 1] : 1;
    if (target->ndim > 1 || target->numel != samples || (self->ndim == 2 && target->ndim == 0))
        return td_error(TD_E_RUNTIME, "multi_margin_loss: target tensor should be 1-D with size equal to the number of input "
                        "samples (batch size). Expected target size [%" PRId64 "], but got %s. Input has shape %s.", samples,
                        td_shape_str(target->ndim, target->sizes, a), td_shape_str(self->ndim, self->sizes, b));
    if (weight != TD_NONE && (weight->ndim > 1 || weight->numel != classes))
        return td_error(TD_E_RUNTIME, "inconsistent weight size, expected %" PRId64 " but got %s", classes,
                        td_shape_str(weight->ndim, weight->sizes, a));
    return check_types("multi_margin_loss_cpu_kernel", self, target, weight);
}

int td_meta_multi_margin_loss(td_spec *specs, td_tensor *self, td_tensor *target, td_scalar p, td_scalar margin,
                              td_tensor *weight, int64_t reduction)
{
    (void)margin;
    if (check_multi_margin(self, target, p, weight))
        return -1;
    return td_spec_set(specs, reduction == 0 ? target->ndim : 0, target->sizes, (td_dtype)self->dtype, self->device);
}

int td_meta_multi_margin_loss_backward(td_spec *specs, td_tensor *grad_output, td_tensor *self, td_tensor *target,
                                       td_scalar p, td_scalar margin, td_tensor *weight, int64_t reduction)
{
    (void)grad_output, (void)margin, (void)reduction;
    return check_multi_margin(self, target, p, weight) ? -1 : td_spec_like(specs, self);
}

/* ---- multilabel_margin_loss */

/* target lists the classes of a sample, as many as self has, and ends at the first -1. Its kernel also returns which
 * classes are targets, for the backward pass. */
static int check_multilabel(td_tensor *self, td_tensor *target)
{
    td_shape_text a, b;
    if (check_samples(self))
        return -1;
    bool same = self->ndim < 2 ? target->ndim < 2 && target->numel == self->numel
        : target->ndim == 2 && !memcmp(self->sizes, target->sizes, 2 * sizeof(int64_t));
    if (!same)
        return td_error(TD_E_RUNTIME, "inconsistent target size: %s for input of size: %s",
                        td_shape_str(target->ndim, target->sizes, a), td_shape_str(self->ndim, self->sizes, b));
    return self->numel ? check_types("multilabel_margin_loss_forward_out_frame", self, target, TD_NONE) : 0;
}

int td_meta_multilabel_margin_loss_forward(td_spec *specs, td_tensor *self, td_tensor *target, int64_t reduction)
{
    if (check_multilabel(self, target))
        return -1;
    td_spec_set(&specs[1], target->ndim, target->sizes, (td_dtype)self->dtype, self->device);
    return td_spec_set(&specs[0], reduction == 0 && self->ndim == 2, self->sizes, (td_dtype)self->dtype, self->device);
}

int td_meta_multilabel_margin_loss_backward(td_spec *specs, td_tensor *grad_output, td_tensor *self, td_tensor *target,
                                            int64_t reduction, td_tensor *is_target)
{
    (void)grad_output, (void)reduction, (void)is_target;
    return check_multilabel(self, target) ? -1 : td_spec_like(specs, self);
}

td_tensor *td_op_multilabel_margin_loss(td_tensor *self, td_tensor *target, int64_t reduction)
{
    td_tensor *results[2];
    if (td_multilabel_margin_loss_forward(results, self, target, reduction))
        return NULL;
    td_tensor_release(results[1]);
    return results[0];
}
