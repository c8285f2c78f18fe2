/* Distances between the rows of a matrix: checks and shapes. */
#include "calls_ops_distance.h"
#include "ops/compose.h"

td_tensor *td_op_pdist(td_tensor *self, double p)
{
    if (self->ndim != 2)
        return td_fail(TD_E_RUNTIME, "pdist only supports 2D tensors, got: %dD", self->ndim);
    if (!td_is_floating(self))
        return td_fail(TD_E_RUNTIME, "pdist only supports floating-point dtypes");
    if (!(p >= 0))
        return td_fail(TD_E_RUNTIME, "pdist only supports non-negative p values");
    return td__pdist_forward(self, p);
}

int td_meta__pdist_forward(td_spec *specs, td_tensor *self, double p)
{
    (void)p;
    if (self->ndim != 2)
        return td_error(TD_E_RUNTIME, "_pdist_forward requires a matrix, got: %dD", self->ndim);
    if (self->dtype != TD_F32 && self->dtype != TD_F64)
        return td_error(TD_E_NOT_IMPLEMENTED, "\"pdist\" not implemented for '%s'", td_dtype_title((td_dtype)self->dtype));
    int64_t n = self->sizes[0], pairs = n * (n - 1) / 2;
    return td_spec_set(specs, 1, &pairs, (td_dtype)self->dtype, self->device);
}

int td_meta__pdist_backward(td_spec *specs, td_tensor *grad, td_tensor *self, double p, td_tensor *pdist)
{
    (void)p;
    int64_t n = self->ndim == 2 ? self->sizes[0] : 0, pairs = n * (n - 1) / 2;
    if (self->ndim != 2 || grad->numel != pairs || pdist->numel != pairs || self->dtype != grad->dtype ||
        self->dtype != pdist->dtype)
        return td_error(TD_E_RUNTIME, "_pdist_backward: grad and pdist must have an element for each pair of self's rows");
    return td_spec_like(specs, self);
}
