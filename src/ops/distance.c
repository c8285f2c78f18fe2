/* Distances between rows: of two matrices, made of norms; and of one, with a kernel, whose checks and shapes are here. */
#include "calls_ops_distance.h"
#include "ops/compose.h"

static int check_rows(const td_tensor *x, const char *name)
{
    if (!td_is_floating(x))
        return td_error(TD_E_RUNTIME, "cdist only supports floating-point dtypes, %s got: %s", name, td_dtype_title((td_dtype)x->dtype));
    return x->dtype == TD_F32 || x->dtype == TD_F64 ? 0
        : td_error(TD_E_NOT_IMPLEMENTED, "\"cdist\" not implemented for '%s'", td_dtype_title((td_dtype)x->dtype));
}

/* The norms of all differences.  Without columns there is nothing to take a norm of: the sums of nothing have the shape. */
td_tensor *td_op_cdist(td_tensor *x1, td_tensor *x2, double p, const int64_t *mode)
{
    int64_t last = -1;
    if (x1->ndim < 2 || x2->ndim < 2)
        return td_fail(TD_E_RUNTIME, "cdist only supports at least 2D tensors, X%d got: %dD", x1->ndim < 2 ? 1 : 2,
                       x1->ndim < 2 ? x1->ndim : x2->ndim);
    if (check_rows(x1, "X1") || check_rows(x2, "X2"))
        return NULL;
    if (x1->sizes[x1->ndim - 1] != x2->sizes[x2->ndim - 1])
        return td_fail(TD_E_RUNTIME, "X1 and X2 must have the same number of columns. X1: %lld X2: %lld",
                       (long long)x1->sizes[x1->ndim - 1], (long long)x2->sizes[x2->ndim - 1]);
    if (!(p >= 0))
        return td_fail(TD_E_RUNTIME, "cdist only supports non-negative p values");
    if (mode && (*mode < 0 || *mode > 2))
        return td_fail(TD_E_RUNTIME, "possible modes: 0, 1, 2, but was: %lld", (long long)*mode);
    TD_AUTO td_tensor *rows = td_unsqueeze(x1, -2);
    TD_AUTO td_tensor *columns = td_unsqueeze(x2, -3);
    TD_AUTO td_tensor *difference = td_minus(rows, columns);
    if (!x1->sizes[x1->ndim - 1])
        return td_sum_over(difference, 1, &last, false);
    TD_AUTO td_tensor *norms = td_linalg_vector_norm(difference, td_float(p), 1, &last, false, TD_DTYPE_NONE);
    if (p != 0)
        return norms ? td_ref(norms) : NULL;
    /* A count, whose gradient is zero, not absent: that of zeros which the differences were overwritten with. */
    TD_AUTO td_tensor *everywhere = td_full(0, NULL, td_bool(true), TD_BOOL, x1->device);
    TD_AUTO td_tensor *zeros = td_masked_fill_scalar(difference, everywhere, td_int(0));
    TD_AUTO td_tensor *nothing = td_sum_over(zeros, 1, &last, false);
    return td_add_tensor(norms, nothing, td_int(1));
}

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
